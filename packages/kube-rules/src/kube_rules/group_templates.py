"""Templates of a Workload, whatever their depth: a composite template holds templates of groups and of composites.

Rule: composite.md 1. Walks are iterative: how deep a manifest goes is its author's choice, and it is refused later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kube_rules.json import Json

GROUPS, COMPOSITES = "podGroupTemplates", "compositePodGroupTemplates"


class Template(NamedTuple):
    """One template: where it stands (`spec.compositePodGroupTemplates[0].podGroupTemplates[1]`) and what it is.

    `listed`: the place of the list it stands in; `level`: 1 for those of the Workload itself.
    """

    place: str
    holder: Json
    composite: bool
    listed: str
    level: int


def templates(spec: Json, path: str = "spec") -> Iterator[Template]:
    """Yield every template below a spec in the order of the manifest: of each holder first the groups, then the
    composites.

    A composite comes before what is in it. Values of another type than an object are passed over.
    """
    pending: list[tuple[Json, str, int]] = [(spec, path, 1)]
    while pending:
        holder, place, level = pending.pop()
        found = [
            Template(f"{place}.{name}[{index}]", one, name == COMPOSITES, f"{place}.{name}", level)
            for name in (GROUPS, COMPOSITES)
            for index, one in enumerate(holder.get(name) or ())
            if isinstance(one, dict)
        ]
        yield from found
        pending += [(one.holder, one.place, level + 1) for one in reversed(found) if one.composite]
