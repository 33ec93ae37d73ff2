"""Defaults as rows: where in an object, and what is filled in there if nothing is set."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from kube_rules.json import Json

Fill = Callable[[Json], None]


def holders(obj: Json, steps: list[str]) -> Iterator[Json]:
    """Yield the objects at a place; see `fill`."""
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
    """Fill in fields. The place is a dotted path: `NAME` is made if it is not there, `NAME?` is left out then, and
    `NAME[]` means every item of a list.
    """
    steps = place.split(".") if place else []

    def work(obj: Json) -> None:
        for holder in holders(obj, steps):
            for name, value in values.items():
                if name not in holder:
                    holder[name] = copy.copy(value)

    return work


def chosen(place: str, field: str, default: str, *fills: Fill) -> Fill:
    """Fill in a choice; where it is the default one, also what belongs to it (places from its holder on)."""
    steps = place.split(".") if place else []

    def work(obj: Json) -> None:
        for holder in holders(obj, steps):
            if holder.setdefault(field, default) == default:
                for item in fills:
                    item(holder)

    return work


def all_of(*fills: Fill) -> Fill:
    """One after the other."""

    def work(obj: Json) -> None:
        for item in fills:
            item(obj)

    return work
