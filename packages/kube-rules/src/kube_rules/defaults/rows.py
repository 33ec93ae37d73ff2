"""Defaults as rows: a path in an object, and the default values for unset fields there."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from kube_rules.json import Json

Fill = Callable[[Json], None]


def holders(obj: Json, steps: list[str]) -> Iterator[Json]:
    """Yield the objects at a path; see `fill`."""
    if not steps:
        yield obj
        return
    step, rest = steps[0], steps[1:]
    if step.endswith("[]"):
        for item in obj.get(step[:-2], ()):
            yield from holders(item, rest)
    elif not step.endswith("?"):
        yield from holders(obj.setdefault(step, {}), rest)
    elif step[:-1] in obj:
        yield from holders(obj[step[:-1]], rest)


def fill(place: str = "", **values: Any) -> Fill:
    """Return a default for fields at a dotted path.

    A missing `NAME` is created, a missing `NAME?` is skipped, and `NAME[]` stands for every item of a list.
    """
    steps = place.split(".") if place else []

    def work(obj: Json) -> None:
        for holder in holders(obj, steps):
            for name, value in values.items():
                if name not in holder:
                    holder[name] = copy.copy(value)

    return work


def chosen(place: str, field: str, default: str, *fills: Fill) -> Fill:
    """Return a default for a choice and, if it is the default one, for its dependent fields (paths from its holder)."""
    steps = place.split(".") if place else []

    def work(obj: Json) -> None:
        for holder in holders(obj, steps):
            if holder.setdefault(field, default) == default:
                for item in fills:
                    item(holder)

    return work


def all_of(*fills: Fill) -> Fill:
    """Return the defaults one after the other."""

    def work(obj: Json) -> None:
        for item in fills:
            item(obj)

    return work
