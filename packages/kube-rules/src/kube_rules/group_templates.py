"""Templates of a Workload at any depth: a composite template contains templates of groups and of composites.

Rule: composite.md 1. Walks are iterative: manifests may have any depth and are refused later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kube_rules.json import Json

GROUPS, COMPOSITES = "podGroupTemplates", "compositePodGroupTemplates"


class Template(NamedTuple):
    """One template: its path (`spec.compositePodGroupTemplates[0].podGroupTemplates[1]`) and its content.

    `listed`: the path of its list; `level`: 1 for the templates of the Workload itself.
    """

    place: str
    holder: Json
    composite: bool
    listed: str
    level: int


def templates(spec: Json) -> Iterator[Template]:
    """Yield every template below a spec in the order of the manifest, for each holder first groups, then composites.

    A composite precedes its content. Values that are not objects are skipped.
    """
    pending: list[tuple[Json, str, int]] = [(spec, "spec", 1)]
    while pending:
        holder, place, level = pending.pop()
        children = [
            Template(f"{place}.{name}[{index}]", template, name == COMPOSITES, f"{place}.{name}", level)
            for name in (GROUPS, COMPOSITES)
            for index, template in enumerate(holder.get(name) or ())
            if isinstance(template, dict)
        ]
        yield from children
        pending += [(child.holder, child.place, level + 1) for child in reversed(children) if child.composite]
