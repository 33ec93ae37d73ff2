"""Potential victims as columns: the cost of preemption for a pod on every node, many nodes at once.

Single preemptors with different requests must examine every node. Their common data is cached: the units of each row,
the most important first, in matrices (`reprieve.preemption.unit_matrices`) that are updated only for changed rows. A
preemptor is then judged on all rows together (`reprieve.preemption.unit_costs`). Only resources are considered;
`reprieve.preemption.reprieved_units` finds victims and reasons on the chosen row. Property tests compare the two.
Invariant: every row has the amounts there of units that are disrupted as a whole, so all their rows are read again when
one of them changes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from reprieve.cluster.changes import GangReader
from reprieve.cluster.groups import disrupted_with, running_below
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.diagnoser import nominated_rows
from reprieve.framework.plugin import Mask
from reprieve.framework.restart_places import NOWHERE, RestartPlaces, RestartReader
from reprieve.preemption.cost import in_turn
from reprieve.preemption.criteria import PRIORITY_OFFSET
from reprieve.preemption.gangs import losses, slack_of
from reprieve.preemption.unit_costs import HIGHEST, PARTS, PODS, WEIGHT, Costs, JudgedUnits
from reprieve.preemption.unit_matrices import ABOVE_ALL, Counts, UnitColumns, UnitMatrices
from reprieve.preemption.units import PreemptionUnit, units_below


@dataclass(frozen=True, slots=True)
class JudgedRows:
    """Results of some rows, in their order.

    `units`: bool[rows], whether there are potential victims.  `short`: bool[requests, rows], requests (in the order of
    `signature.requests`) that do not fit without all of them.  Where all fit, `cost`: float64[PARTS, rows] has the
    parts of a `Cost` in the default order, with zero pods if none is evicted, and `least`: float64[PARTS, rows] is a
    lower bound for all sets of units.  `spans`: bool[rows], whether a unit has pods on other rows, or may get some.
    `low` and `high`: int64[rows], the range of preemptor priorities with the same results.
    """

    units: Mask
    short: npt.NDArray[np.bool_]
    cost: Costs
    least: Costs
    spans: Mask
    low: Counts
    high: Counts


_OF_GANGS: Final = ("standing", "gang", "slack", "breaks", "mixed")
_SLACK = 4096
"""Number of unused entries after which the segments are laid out again."""


class _Segments:
    """Flat columns (entries are the last axis) in which each row has a segment: `start` and `count`, int64[rows].

    A segment that no longer fits moves to the end; all are laid out again when too many entries are unused.
    """

    def __init__(self) -> None:
        self.columns: dict[str, npt.NDArray[Any]] = {}
        self.start: Counts = np.zeros(0, dtype=np.int64)
        self.count: Counts = np.zeros(0, dtype=np.int64)
        self._held: Counts = np.zeros(0, dtype=np.int64)
        self._end = 0

    def lay_out(self, counts: Counts, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        """Reset to all rows, one after another."""
        self.columns = dict(columns)
        self.start = np.cumsum(counts) - counts
        self.count, self._held = counts, counts.copy()
        self._end = int(counts.sum())

    def more_rows(self, rows: int) -> None:
        """Resize to the number of rows; new ones are empty."""
        new = np.zeros(rows - len(self.count), dtype=np.int64)
        self.start, self.count = np.append(self.start, new), np.append(self.count, new)
        self._held = np.append(self._held, new)

    def replace(self, rows: Sequence[int], counts: Counts, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        """Replace the entries of some rows, given one row after another."""
        end = 0
        for row, count in zip(rows, map(int, counts), strict=True):
            if count > self._held[row]:
                self._move(row, count)
            at, end = int(self.start[row]), end + count
            for name, values in columns.items():
                self.columns[name][..., at : at + count] = values[..., end - count : end]
            self.count[row] = count
        if self._end > 2 * int(self.count.sum()) + _SLACK:
            whole, _ = self.of(np.arange(len(self.count)))
            self.lay_out(
                self.count, {name: np.ascontiguousarray(old[..., whole]) for name, old in self.columns.items()}
            )

    def _move(self, row: int, count: int) -> None:
        reserved = count + (count >> 1) + 1
        for name, old in self.columns.items():
            length = old.shape[-1]
            if self._end + reserved > length:
                grown = np.zeros((*old.shape[:-1], self._end + reserved + (length >> 1)), dtype=old.dtype)
                grown[..., :length] = old
                self.columns[name] = grown
        self.start[row], self._held[row] = self._end, reserved
        self._end += reserved

    def of(self, rows: Counts) -> tuple[Counts, Counts]:
        """Return the positions of the rows' entries, one row after another, and their rows as indices into `rows`."""
        counts = self.count[rows]
        owner = np.repeat(np.arange(len(rows)), counts)
        before = np.cumsum(counts) - counts
        return np.arange(len(owner)) + (self.start[rows] - before)[owner], owner


class VictimColumns:
    """The units of one cluster by row; see the module docstring.

    `_units` has for every unit: `priority`; `size`, its number of pods; `weight`, their priorities as summed in `Cost`;
    `begun`, the first start in seconds, infinite if none has started; `spans`; `amounts`, int64[columns, ...], of the
    unit on the row; `violates`, of a budget, for preemptors in `_violating_for`. If gangs count: `standing`, its turn
    in a reprieve, on `mixed` rows, which have a gang that can break; `like`, the turn of the first unit that differs
    only in the start; `gang`, the turn of the first unit on the row in the same gang, -1 for units that are no pods of
    gangs that can break; `slack` of that gang; `breaks`, the number of gangs that break with the unit alone; `kind` of
    its one pod (`RestartPlaces`), -1 for several; `several`, the number of several pods that cannot restart elsewhere
    at once. `_charges` has an entry for each budget that counts any of a unit's pods: the unit's `turn` on its row and
    `priority`, the `budget` and the number of `pods`; on a row by budget and then by turn.
    """

    def __init__(self, cluster: ClusterState, restarts: RestartPlaces | None = None, *, by_gang: bool = False) -> None:
        self._cluster = cluster
        self._restarts = restarts if by_gang else None
        self._restarted: RestartReader | None = None
        """Source of the rows on which pods can restart elsewhere now, or no longer."""
        self._firmly_read: set[int] = set()
        """Rows with columns that depend on these."""
        self._resized = cluster.gang_changes() if by_gang else None
        """Source of the groups that have grown or shrunk, if gangs that break count."""
        self._changes = cluster.changes(of_nodes=False)
        self._units = UnitMatrices()
        self._violating_for: tuple[int, int] | None = None
        """The preemptor's priority and the version of the budgets for which `violates` is valid; None: for none."""
        self._unsure: set[int] = set()
        """Rows that were read since then."""
        self._charges = _Segments()
        self._counting: object = None
        """The version of the budgets' counting for which `_charges` was made."""
        self._width = 0
        """The number of resources for which `amounts` was made."""
        self._whole_on: dict[int, tuple[str, ...]] = {}
        """The groups that are disrupted as a whole, by row."""
        self._rows_of: dict[str, set[int]] = {}
        """The rows with units of these groups."""

    def judge(self, pod: PodRecord, rows: Counts) -> JudgedRows:
        """Return the costs of preemption for the pod on each of the rows (ascending), if only resources matter.

        The pod's own nomination is lifted in the present view (preemption.md 3.1 to 3.5).
        """
        self._catch_up()
        self._charge(pod.priority)
        columns = [column for column, _ in pod.signature.requests]
        n = len(rows)
        place = np.full(len(self._cluster.nodes), -1, dtype=np.int64)
        place[rows] = np.arange(n)
        left = self._left(pod, rows, place)
        judged = JudgedRows(
            units=np.zeros(n, dtype=np.bool_),
            short=np.zeros((len(columns), n), dtype=np.bool_),
            cost=np.zeros((PARTS, n), dtype=np.float64),
            least=np.zeros((PARTS, n), dtype=np.float64),
            spans=np.zeros(n, dtype=np.bool_),
            low=np.full(n, -ABOVE_ALL, dtype=np.int64),
            high=np.full(n, ABOVE_ALL, dtype=np.int64),
        )
        restarts = self._restarts.for_rows() if self._restarts is not None else None
        blocks: list[tuple[Counts | slice, JudgedUnits]] = []
        for block in self._units.blocks.values():
            at = place[block.rows[: block.used]]
            wanted = at >= 0
            slots: Counts | slice = slice(0, block.used)
            if not wanted.all():
                slots = np.flatnonzero(wanted)
                at = at[slots]
            if not len(at):
                continue
            to: Counts | slice = at
            if len(at) == n and bool((at == place[rows]).all()):
                to = slice(0, n)  # no reordering: several times as fast
            result = JudgedUnits(UnitColumns(block, slots, columns, pod.priority, restarts), left[:, to])
            blocks.append((to, result))
            judged.units[to], judged.short[:, to], judged.cost[:, to] = result.occupied, result.short, result.cost
            judged.spans[to] = result.spans
            judged.low[to], judged.high[to] = result.priorities_alike()
        does = np.flatnonzero(judged.cost[PODS])
        highest = worth = np.inf
        if len(does):
            highest = judged.cost[HIGHEST, does].min()
            worth = judged.cost[WEIGHT, does][judged.cost[HIGHEST, does] == highest].min()
        for to, result in blocks:
            judged.least[:, to] = result.least(highest, worth)
        self._narrow_by_nominated(pod.priority, place, judged.low, judged.high)
        return judged

    def _left(self, pod: PodRecord, rows: Counts, place: Counts) -> Counts:
        """Return int64[requests, rows]: free amounts with the pod and all other pods there."""
        nodes = self._cluster.nodes
        requests = pod.signature.requests
        left = np.empty((len(requests), len(rows)), dtype=np.int64)
        of: Counts | slice = rows if len(rows) < len(nodes) else slice(0, len(rows))
        for (column, amount), free in zip(requests, left, strict=True):
            np.subtract(nodes.allocatable[column][of], nodes.used[column][of], out=free)
            free -= amount
        with_nominated = nominated_rows(self._cluster, pod.priority, rows)
        if len(with_nominated.rows):
            left[:, place[with_nominated.rows]] -= with_nominated.amounts[[column for column, _ in requests]]
        return left

    def _charge(self, priority: int) -> None:
        """Update `violates` for this priority, the present budgets and all rows."""
        present = (priority, self._cluster.budgets_version)
        if self._violating_for != present:
            self._units.fill("violates", 0)
            rows = np.flatnonzero(self._charges.count)
        else:
            rows = np.array(sorted(self._unsure), dtype=np.int64)
        self._violating_for = present
        self._unsure = set()
        if len(rows):
            self._units.mark("violates", *self._violating(priority, rows))

    def _violating(self, priority: int, rows: Counts) -> tuple[Counts, Counts]:
        """Return two int64[units]: rows and turns of units below the priority that violate a budget.

        Each row is counted alone, in descending importance (preemption.md 6).
        """
        at, owner = self._charges.of(rows)
        columns = self._charges.columns
        below = columns["priority"][at] < priority if len(at) else np.zeros(0, dtype=np.bool_)
        at, owner = at[below], owner[below]
        if not len(at):
            return at, at
        budget, sums = columns["budget"][at], np.cumsum(columns["pods"][at])
        starts = np.flatnonzero(np.append(True, (budget[1:] != budget[:-1]) | (owner[1:] != owner[:-1])))
        before = np.append(0, sums)[starts]
        charged = sums - np.repeat(before, np.diff(np.append(starts, len(at))))
        over = charged > np.array(self._cluster.budget_index.allowed, dtype=np.int64)[budget]
        return rows[owner[over]], columns["turn"][at[over]]

    def _narrow_by_nominated(self, priority: int, place: Counts, low: Counts, high: Counts) -> None:
        """Narrow the ranges for nominated pods, which count for preemptors up to their own priority."""
        rows, priorities = self._cluster.nodes.nominated_amounts.priorities()
        at = place[rows]
        for bound, relevant, value, narrow in (
            (low, (at >= 0) & (priorities < priority), priorities + 1, np.maximum),
            (high, (at >= 0) & (priorities >= priority), priorities, np.minimum),
        ):
            if relevant.any():
                narrow.at(bound, at[relevant], value[relevant])

    # -- reading the cluster -----------------------------------------------------------------------

    def _catch_up(self) -> None:
        cluster = self._cluster
        touched = self._changes.take()
        if self._resized is not None:
            touched = self._with_resized(self._resized, touched)
        touched = self._with_restarted(touched)
        counting = cluster.budget_index.counting
        width = len(cluster.nodes.used)
        previous = self._counting, self._width
        self._counting, self._width = counting, width
        if touched is None or previous != (counting, width):
            self._whole_on, self._rows_of = {}, {}
            self._firmly_read = set()
            self._violating_for = None
            self._read(range(len(cluster.nodes)), everything=True)
            return
        if len(cluster.nodes) > len(self._units.count):
            self._units.more_rows(len(cluster.nodes))
            self._charges.more_rows(len(cluster.nodes))
        if touched:
            self._read(sorted(self._concerned(set(touched))), everything=False)

    def _with_resized(self, resized: GangReader, touched: list[int] | None) -> list[int] | None:
        """Return the rows and those with pods of groups that lost or gained pods; None: possibly all."""
        keys, groups = resized.take(), self._cluster.groups
        if keys is None or touched is None:
            return None
        result = {pod.row for key in keys if key in groups for pod in groups[key].members.values() if pod.row >= 0}
        return [*touched, *result.difference(touched)] if result else touched

    def _with_restarted(self, touched: list[int] | None) -> list[int] | None:
        """Return the rows and those where turns, or units of several pods, depend on others; None: possibly all."""
        if self._restarts is None:
            return touched
        if self._restarted is None:
            self._restarted = RestartReader(self._restarts)
            return None
        rows = self._restarted.take()
        if rows is None or touched is None:
            return None
        result = self._firmly_read.intersection(rows) if self._firmly_read else set()
        return [*touched, *result] if result else touched

    def _concerned(self, touched: set[int]) -> set[int]:
        """Return the rows, and those of every group that is, or was, on one of them and is disrupted as a whole."""
        result = set(touched)
        seen: set[str] = set()
        for row in touched:
            for key in self._whole_on.pop(row, ()):
                result |= self._rows_of.pop(key, set())
            for pod in self._cluster.nodes.pods[row].values():
                group = self._cluster.groups.get(pod.group) if pod.group is not None else None
                unit = group.unit if group is not None else None
                if unit is not None and unit.ref not in seen:
                    seen.add(unit.ref)
                    result.update(member.row for member in running_below(disrupted_with(unit)))
        return result

    def _read(self, rows: Collection[int], *, everything: bool) -> None:
        units: list[PreemptionUnit] = []
        counts, spans = [], []
        on_row: list[list[PreemptionUnit]] = []
        deltas: list[Counts] = []
        pods_on = self._cluster.nodes.pods
        for row in rows:
            on_this_row = units_below(self._cluster, ABOVE_ALL, list(pods_on[row].values()))
            on_this_row.sort(key=_importance)
            whole = []
            for unit in on_this_row:
                if unit.group is None:
                    deltas.append(unit.pods[0].signature.delta)
                else:
                    whole.append(unit.group.ref)
                    own = [pod.signature.delta for pod, at in zip(unit.pods, unit.rows, strict=True) if at == row]
                    deltas.append(np.sum(own, axis=0))
                    self._rows_of.setdefault(unit.group.ref, set()).update(unit.rows)
                spans.append(unit.group is not None)
            if whole:
                self._whole_on[row] = tuple(whole)
            else:
                self._whole_on.pop(row, None)
            units += on_this_row
            counts.append(len(on_this_row))
            on_row.append(on_this_row)
        number = np.array(counts, dtype=np.int64)
        width = len(self._cluster.nodes.used)
        priority = np.array([unit.priority for unit in units], dtype=np.int64)
        size = np.array([len(unit.pods) for unit in units], dtype=np.int64)
        columns = {
            "priority": priority,
            "size": size,
            "weight": (priority + PRIORITY_OFFSET) * size,
            "violates": np.zeros(len(units), dtype=np.bool_),
            "begun": np.array([unit.start for unit in units], dtype=np.float64),
            "spans": np.array(spans, dtype=np.bool_),
            "amounts": np.ascontiguousarray(np.array(deltas, dtype=np.int64).reshape(len(units), width).T),
        }
        if self._resized is not None:
            columns |= self._beside_amounts(list(rows), on_row, columns)
        charges, charged = self._read_charges(units, number)
        if everything:
            self._units.lay_out(number, columns)
            self._charges.lay_out(charged, charges)
        else:
            self._units.replace(list(rows), number, columns)
            self._charges.replace(list(rows), charged, charges)
            self._unsure.update(rows)

    def _beside_amounts(
        self, rows: Sequence[int], on_row: Sequence[Sequence[PreemptionUnit]], columns: Mapping[str, npt.NDArray[Any]]
    ) -> dict[str, Counts]:
        """Return the columns about gangs and restarts for the units of each row, given by importance.

        `columns`: other columns of the same units, with `priority` and `size`.
        """
        units = [unit for row_units in on_row for unit in row_units]
        number = np.array([len(row_units) for row_units in on_row], dtype=np.int64)
        starts, size = np.cumsum(number) - number, columns["size"]
        kind, count = self._restarting(units, size)
        nature = np.array([unit.standing[1] if unit.in_group or unit.group else -1 for unit in units], dtype=np.int64)
        first = np.zeros(len(units), dtype=np.bool_)
        first[starts[number > 0]] = True
        for values in (columns["priority"], size, nature):
            first[1:] |= values[1:] != values[:-1]
        turn = np.arange(len(units)) - np.repeat(starts, number)
        result = {
            "kind": np.where(size == 1, kind, -1),
            "several": np.where(size == 1, 0, count),
            "like": turn[np.maximum.accumulate(np.where(first, np.arange(len(units)), 0))],
            **{name: np.zeros(len(units), dtype=np.int64) for name in ("standing", "slack", "breaks", "mixed")},
            "gang": np.full(len(units), -1, dtype=np.int64),
        }
        self._firmly_read.difference_update(rows)
        owner = np.repeat(np.arange(len(number)), number)
        for at in sorted(set(owner[(nature < -1) | (size > 1)].tolist())):
            slack = slack_of(self._cluster, on_row[at]) if any(unit.in_group for unit in on_row[at]) else {}
            if slack or any(len(unit.pods) > 1 for unit in on_row[at]):
                self._firmly_read.add(rows[at])
            if slack:
                own = slice(starts[at], starts[at] + number[at])
                for name, values_of in zip(_OF_GANGS, _gangs(on_row[at], count[own].tolist(), slack), strict=True):
                    result[name][own] = values_of
        return result

    def _restarting(self, units: Sequence[PreemptionUnit], size: Counts) -> tuple[Counts, Counts]:
        """Return two int64[units]: the kind of each unit's first pod (-1 if it terminates), and its stuck pods.

        Stuck pods cannot restart elsewhere at once.
        """
        if self._restarts is None or not units:
            return np.full(len(units), -1, dtype=np.int64), np.zeros(len(units), dtype=np.int64)
        pods = [pod for unit in units for pod in unit.pods]
        rows = [row for unit in units for row in unit.rows]
        kinds = np.array(self._restarts.kinds_of(pods, rows), dtype=np.int64)
        codes = self._restarts.codes[kinds]
        stuck = (codes == NOWHERE) | (codes == np.array(rows, dtype=np.int64))
        ends = np.array([pod.terminating for pod in pods], dtype=np.bool_)
        if ends.any():
            stuck &= ~ends
            kinds = np.where(ends, -1, kinds)
        first = np.cumsum(size) - size
        return kinds[first], np.add.reduceat(stuck, first, dtype=np.int64)

    def _read_charges(
        self, units: Sequence[PreemptionUnit], counts: Counts
    ) -> tuple[dict[str, npt.NDArray[Any]], Counts]:
        """Return the entries of `_charges` for units given row by row, `counts` on each, and their number by row."""
        index = self._cluster.budget_index
        entries: list[tuple[int, int, int, int]] = []
        if index.allowed:
            for turn, charges in enumerate(index.charges([unit.pods for unit in units])):
                entries += [(turn, budget, pods, units[turn].priority) for budget, pods in charges.items()]
        turns, budgets, pods, priorities = np.array(entries, dtype=np.int64).reshape(len(entries), 4).T
        ends = np.cumsum(counts)
        row = np.searchsorted(ends, turns, side="right")
        order = np.lexsort((turns, budgets, row))
        flat = {"turn": turns - (ends - counts)[row], "budget": budgets, "pods": pods, "priority": priorities}
        columns = {name: values[order] for name, values in flat.items()}
        return columns, np.bincount(row, minlength=len(counts))


def _importance(unit: PreemptionUnit) -> tuple[int, int, int, float, str]:
    return unit.importance


def _gangs(
    units: Sequence[PreemptionUnit], restartless: Sequence[int], slack: Mapping[str, int]
) -> Iterable[tuple[int, ...]]:
    """Return `_OF_GANGS` of the units of a row, given by importance."""
    turns = dict(zip(in_turn(units, restartless, slack), range(len(units)), strict=True))
    first: dict[str, int] = {}
    result: list[tuple[int, ...]] = []
    for turn, unit in enumerate(units):
        lost = losses(unit.pods, slack)
        breaks = sum(count > slack[key] for key, count in lost.items())
        key = next(iter(lost), None) if unit.group is None else None
        gang = -1 if key is None else first.setdefault(key, turn)
        result.append((turns[turn], gang, slack[key] if key is not None else 0, breaks, 1))
    return zip(*result, strict=True)
