"""What an input is warned of: the same lines on the command line and in `Cluster.warnings`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kube_rules.unknown_fields import UnknownField
    from reprieve.simulation.workloads.expanding import Expansion


def nothing_in(names: Sequence[str]) -> str:
    """Return the line about sources in which there are no objects."""
    return f"{', '.join(names[:3])}{', ...' if len(names) > 3 else ''}: there are no objects in it"


def of_unknown_fields(found: Iterable[UnknownField]) -> list[str]:
    """Return a line for each sort of unknown field: the first, and how many are like it."""
    return _first_of_each((each.shape, str(each)) for each in found)


def of_suspended(made: Expansion) -> list[str]:
    """Return a line for each kind of workload that calls for no pods as long as it is suspended."""
    return _first_of_each((each.kind, str(each)) for each in made.suspended)


def of_problems(made: Expansion) -> list[str]:
    """Return a line for each sort of workload that is not answered for."""
    return _first_of_each(((each.kind, each.certain), str(each)) for each in made.problems)


def _first_of_each(lines: Iterable[tuple[object, str]]) -> list[str]:
    alike: dict[object, list[str]] = {}
    for sort, line in lines:
        alike.setdefault(sort, []).append(line)
    return [same[0] if len(same) == 1 else f"{same[0]} (and {len(same) - 1} more like it)" for same in alike.values()]
