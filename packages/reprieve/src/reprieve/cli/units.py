"""Units of preemption as rows of a table: victims and units kept, their nodes, priority and running time.

Single pods on the same nodes, of one priority, and with the same lines below them share a row, which names the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kube_rules.errors import names_text
from reprieve.cli.sections import Row
from reprieve.decisions.phrases import count, seconds_text

MOST_NAMES: Final = 4
MOST_NODES: Final = 6
COLUMNS: Final = ("workload", "size", "on", "priority", "running for")
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class UnitSummary:
    """The content of a unit's row. `name`: `namespace/name` or its replacement; `kind`: pod, group or tree."""

    kind: str
    name: str
    pods: int
    nodes: tuple[str, ...]
    nodes_total: int
    priority: int
    running_seconds: float | None
    below: tuple[str, ...] = ()


def unit_table(
    units: Iterable[UnitSummary], *, ages: bool = True, together: bool = True
) -> tuple[tuple[str, ...], list[Row]]:
    """Return columns and rows. Ages have a column if `ages` is set and any is known.

    `together`: similar units share a row.
    """
    rows = [_row(alike) for alike in (_alike(units) if together else ([unit] for unit in units))]
    if ages and any(row.cells[-1] != UNKNOWN for row in rows):
        return COLUMNS, rows
    return COLUMNS[:-1], [Row(row.cells[:-1], row.below, row.tone) for row in rows]


def nodes_text(nodes: Sequence[str], total: int = 0) -> str:
    """Return the first names and the number of the others."""
    return names_text(nodes, MOST_NODES, total)


def _alike(units: Iterable[UnitSummary]) -> Iterable[Sequence[UnitSummary]]:
    """Return units in order, similar ones with the first of them."""
    result: dict[object, list[UnitSummary]] = {}
    for unit in units:
        alone = unit.kind != "pod" or unit.pods > 1
        key = (unit.kind, unit.name) if alone else (unit.nodes, unit.priority, unit.below)
        result.setdefault(key, []).append(unit)
    return result.values()


def _row(alike: Sequence[UnitSummary]) -> Row:
    first = alike[0]
    pods = sum(unit.pods for unit in alike)
    cells = (_called(alike), count(pods, "pod"), nodes_text(first.nodes, first.nodes_total), str(first.priority))
    return Row((*cells, _ran(alike)), below=first.below)


def _called(alike: Sequence[UnitSummary]) -> str:
    first = alike[0]
    if "/" not in first.name:  # it may not be named
        return first.name
    if len(alike) == 1:
        return f"{first.kind} {first.name}"
    space = f"{first.name.partition('/')[0]}/"
    names = [first.name, *(unit.name.removeprefix(space) for unit in alike[1:])]
    return f"pods {names_text(names, MOST_NAMES)}"


def _ran(units: Sequence[UnitSummary]) -> str:
    times = [unit.running_seconds for unit in units if unit.running_seconds is not None]
    if not times:
        return UNKNOWN
    shortest, longest = seconds_text(min(times)), seconds_text(max(times))
    return shortest if shortest == longest else f"{shortest} to {longest}"
