"""Potential victims as columns: what making room for a pod costs on every node, many nodes at once.

Single preemptors that all ask for something else have to look at every node anew.  What stays the same between them is
kept: for each row its units, the most important first, as flat arrays that are read again only for rows that have
changed.  A preemptor is then judged on all rows together: the first units of all rows in the order of their reprieve,
then the second ones, and so on, each put back where it leaves enough room.

Only resources are known here; who has to go and why is told by `reprieve.preemption.reprieving`, which is asked about
the one row that is chosen.  Property tests hold the two equal.

Invariant: of units that are disrupted as a whole every row has what they hold there, so all their rows are read again
when one of them changes.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from reprieve.cluster.groups import disrupted_with, running_below
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.diagnoser import nominated_pods
from reprieve.framework.plugin import Mask
from reprieve.preemption.criteria import PRIORITY_OFFSET
from reprieve.preemption.units import PreemptionUnit, units_below

Counts = npt.NDArray[np.int64]
ABOVE_ALL: Final = 1 << 40
"""Beyond every priority; its negative is below every one."""
_SLACK = 4096
"""So many entries may lie idle before the stretches are laid out anew."""


@dataclass(frozen=True, slots=True)
class JudgedRows:
    """What became of some rows, in their order.

    `units`: bool[rows], there are potential victims.  `short`: bool[requests, rows], what the preemptor lacks with all
    of them gone, by its `signature.requests`.  Where it lacks nothing, `cost`: int64[4, rows] and `latest`:
    float64[rows] are the parts of a `Cost`, the fourth of them zero where nobody has to go.  `spans`: bool[rows], a
    unit has pods on other rows, or may get some.  `low` and `high`: int64[rows], the priorities of a preemptor from and
    to which all this is the same.

    `least`: int64[4, rows] and `least_latest`: float64[rows] are the parts of a `Cost` that no set of units is below.
    """

    units: Mask
    short: npt.NDArray[np.bool_]
    cost: Counts
    latest: npt.NDArray[np.float64]
    spans: Mask
    low: Counts
    high: Counts
    least: Counts
    least_latest: npt.NDArray[np.float64]


class _Stretches:
    """Flat columns (entries are the last axis) in which each row has a stretch: `start` and `count`, int64[rows].

    A stretch that no longer fits moves to the end; all are laid out anew when too much lies idle.
    """

    def __init__(self) -> None:
        self.columns: dict[str, npt.NDArray[Any]] = {}
        self.start: Counts = np.zeros(0, dtype=np.int64)
        self.count: Counts = np.zeros(0, dtype=np.int64)
        self._held: Counts = np.zeros(0, dtype=np.int64)
        self._end = 0

    def lay_out(self, counts: Counts, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        """Start over, with all rows one after another."""
        self.columns = dict(columns)
        self.start = np.cumsum(counts) - counts
        self.count, self._held = counts, counts.copy()
        self._end = int(counts.sum())

    def more_rows(self, rows: int) -> None:
        """There are so many rows now; new ones are empty."""
        new = np.zeros(rows - len(self.count), dtype=np.int64)
        self.start, self.count = np.append(self.start, new), np.append(self.count, new)
        self._held = np.append(self._held, new)

    def replace(self, rows: Sequence[int], counts: Counts, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        """Other entries for some rows, given one row after another."""
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
        held = count + (count >> 1) + 1
        for name, old in self.columns.items():
            length = old.shape[-1]
            if self._end + held > length:
                grown = np.zeros((*old.shape[:-1], self._end + held + (length >> 1)), dtype=old.dtype)
                grown[..., :length] = old
                self.columns[name] = grown
        self.start[row], self._held[row] = self._end, held
        self._end += held

    def of(self, rows: Counts) -> tuple[Counts, Counts]:
        """Where the entries of the rows are, one row after another, and whose they are: an index into `rows`."""
        counts = self.count[rows]
        whose = np.repeat(np.arange(len(rows)), counts)
        before = np.cumsum(counts) - counts
        return np.arange(len(whose)) + (self.start[rows] - before)[whose], whose


class VictimColumns:
    """The units of one cluster by row; see the module docstring.

    `_units` has of every unit `priority`, `size` (its pods), `begun` (when the first started, in seconds; infinite if
    none has), `spans` and `amounts` (int64[columns, entries]: what it holds on the row).  `_charges` has an entry for
    each budget that counts any of a unit's pods: the unit's `turn` on its row, the `budget` and how many `pods`.
    """

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._changes = cluster.changes(of_nodes=False)
        self._counting: object = None
        """By what the budgets count that `_charges` was made for."""
        self._units = _Stretches()
        self._charges = _Stretches()
        self._whole_on: dict[int, tuple[str, ...]] = {}
        """The groups that are disrupted as a whole, by row."""
        self._rows_of: dict[str, set[int]] = {}
        """The rows they were found on."""

    def judge(self, pod: PodRecord, rows: Counts) -> JudgedRows:
        """What room for the pod costs on each of the rows (ascending), where only resources are in play.

        The pod's own nomination has been lifted in the present view (preemption.md 3.1 to 3.5).
        """
        self._catch_up()
        at, whose = self._units.of(rows)
        violates = self._violating(pod.priority, rows, at, whose)
        priorities = self._units.columns["priority"][at]
        low, high = _same_between(pod.priority, priorities, whose, len(rows))
        self._narrow_by_nominated(pod.priority, rows, low, high)
        below = priorities < pod.priority
        at, whose, violates = at[below], whose[below], violates[below]
        asked = np.array([column for column, _ in pod.signature.requests], dtype=np.int64)
        amounts = self._units.columns["amounts"][np.ix_(asked, at)]
        there = np.bincount(whose, minlength=len(rows))
        left = self._left(pod, rows)
        lacks = np.maximum(-left, 0)
        some = np.flatnonzero(there)
        if len(some):
            left[:, some] += np.add.reduceat(amounts, (np.cumsum(there) - there)[some], axis=1)
        short = left < 0
        order = np.argsort(2 * whose + ~violates, kind="stable") if violates.any() else np.arange(len(at))
        evicted = np.zeros(len(at), dtype=np.bool_)
        evicted[order] = _to_go(left, amounts[:, order], there, np.flatnonzero((there > 0) & ~short.any(axis=0)))
        cost, latest = self._costs(at[evicted], whose[evicted], violates[evicted], len(rows))
        spans = np.zeros(len(rows), dtype=np.bool_)
        spans[whose[self._units.columns["spans"][at]]] = True
        columns = {name: self._units.columns[name][at] for name in ("size", "begun")}
        columns["priority"] = priorities[below]
        bound = _least_costs(lacks, amounts, there, columns, cost)
        return JudgedRows(there > 0, short, cost, latest, spans, low, high, *bound)

    def _left(self, pod: PodRecord, rows: Counts) -> Counts:
        """int64[requests, rows]: what is left with the pod there and everybody else too."""
        nodes = self._cluster.nodes
        asked = [column for column, _ in pod.signature.requests]
        left = nodes.allocatable[asked][:, rows] - nodes.used[asked][:, rows]
        left -= np.array([amount for _, amount in pod.signature.requests], dtype=np.int64)[:, None]
        for row, others in nominated_pods(self._cluster, pod.priority, rows):
            index = np.searchsorted(rows, row)
            for other in others:
                left[:, index] -= other.signature.delta[asked]
        return left

    def _violating(self, priority: int, rows: Counts, at: Counts, whose: Counts) -> Mask:
        """bool[entries]: whether each unit of the rows violates a budget among those below the priority.

        On each row by itself, walking down in importance (preemption.md 6).
        """
        found = np.zeros(len(at), dtype=np.bool_)
        charged, charged_row = self._charges.of(rows)
        if not len(charged):
            return found
        columns = self._charges.columns
        first = np.searchsorted(whose, np.arange(len(rows)))
        unit = first[charged_row] + columns["turn"][charged]
        below = self._units.columns["priority"][at[unit]] < priority
        charged, charged_row, unit = charged[below], charged_row[below], unit[below]
        budget, pods = columns["budget"][charged], columns["pods"][charged]
        allowed = np.array(self._cluster.budget_index.allowed, dtype=np.int64)
        kinds = charged_row * len(allowed) + budget
        order = np.argsort(kinds, kind="stable")
        if not len(order):
            return found
        kinds, sums = kinds[order], np.cumsum(pods[order])
        starts = np.flatnonzero(np.append(True, kinds[1:] != kinds[:-1]))
        before = np.append(0, sums)[starts]
        taken = sums - np.repeat(before, np.diff(np.append(starts, len(kinds))))
        found[unit[order][taken > allowed[budget[order]]]] = True
        return found

    def _costs(self, at: Counts, whose: Counts, violates: Mask, rows: int) -> tuple[Counts, npt.NDArray[np.float64]]:
        """The parts of each row's `Cost` (`reprieve.preemption.cost`) for those who go, given row by row."""
        cost = np.zeros((4, rows), dtype=np.int64)
        latest = np.zeros(rows, dtype=np.float64)
        if len(at):
            columns = self._units.columns
            priority, size = columns["priority"][at], columns["size"][at]
            starts = np.flatnonzero(np.append(True, whose[1:] != whose[:-1]))
            there = whose[starts]
            highest = np.maximum.reduceat(priority, starts)
            cost[0, there] = np.add.reduceat(violates.astype(np.int64), starts)
            cost[1, there] = highest
            cost[2, there] = np.add.reduceat((priority + PRIORITY_OFFSET) * size, starts)
            cost[3, there] = np.add.reduceat(size, starts)
            most = np.repeat(highest, np.diff(np.append(starts, len(at))))
            begun = np.where(priority == most, columns["begun"][at], np.inf)
            latest[there] = -np.minimum.reduceat(begun, starts)
        return cost, latest

    def _narrow_by_nominated(self, priority: int, rows: Counts, low: Counts, high: Counts) -> None:
        """Nominated pods count for preemptors up to their own priority."""
        for row, others in self._cluster.nodes.nominated.items():
            index = int(np.searchsorted(rows, row))
            if index < len(rows) and rows[index] == row:
                for other in others.values():
                    if other.priority < priority:
                        low[index] = max(low[index], other.priority + 1)
                    else:
                        high[index] = min(high[index], other.priority)

    # -- reading the cluster -----------------------------------------------------------------------

    def _catch_up(self) -> None:
        cluster = self._cluster
        touched = self._changes.take()
        counting = cluster.budget_index.counting
        amounts = self._units.columns.get("amounts")
        width = len(cluster.nodes.used)
        if touched is None or counting != self._counting or amounts is None or len(amounts) != width:
            self._counting = counting
            self._whole_on, self._rows_of = {}, {}
            self._read(range(len(cluster.nodes)), everything=True)
            return
        if len(cluster.nodes) > len(self._units.count):
            for stretches in (self._units, self._charges):
                stretches.more_rows(len(cluster.nodes))
        if touched:
            self._read(sorted(self._concerned(set(touched))), everything=False)

    def _concerned(self, touched: set[int]) -> set[int]:
        """The rows, and those of every group that is, or was, on one of them and is disrupted as a whole."""
        found = set(touched)
        seen: set[str] = set()
        for row in touched:
            for key in self._whole_on.pop(row, ()):
                found |= self._rows_of.pop(key, set())
            for pod in self._cluster.nodes.pods[row].values():
                group = self._cluster.groups.get(pod.group) if pod.group is not None else None
                unit = group.unit if group is not None else None
                if unit is not None and unit.ref not in seen:
                    seen.add(unit.ref)
                    found.update(member.row for member in running_below(disrupted_with(unit)))
        return found

    def _read(self, rows: Collection[int], *, everything: bool) -> None:
        units: list[PreemptionUnit] = []
        counts, spans = [], []
        deltas: list[Counts] = []
        there = self._cluster.nodes.pods
        for row in rows:
            found = units_below(self._cluster, ABOVE_ALL, list(there[row].values()))
            found.sort(key=_importance)
            whole = []
            for unit in found:
                if unit.group is None:
                    deltas.append(unit.pods[0].signature.delta)
                else:
                    whole.append(unit.group.ref)
                    here = [pod.signature.delta for pod, at in zip(unit.pods, unit.rows, strict=True) if at == row]
                    deltas.append(np.sum(here, axis=0))
                    self._rows_of.setdefault(unit.group.ref, set()).update(unit.rows)
                spans.append(unit.group is not None)
            if whole:
                self._whole_on[row] = tuple(whole)
            else:
                self._whole_on.pop(row, None)
            units += found
            counts.append(len(found))
        number = np.array(counts, dtype=np.int64)
        width = len(self._cluster.nodes.used)
        columns = {
            "priority": np.array([unit.priority for unit in units], dtype=np.int64),
            "size": np.array([len(unit.pods) for unit in units], dtype=np.int64),
            "begun": np.array([unit.start for unit in units], dtype=np.float64),
            "spans": np.array(spans, dtype=np.bool_),
            "amounts": np.ascontiguousarray(np.array(deltas, dtype=np.int64).reshape(len(units), width).T),
        }
        charges, charged = self._read_charges(units, number)
        if everything:
            self._units.lay_out(number, columns)
            self._charges.lay_out(charged, charges)
        else:
            self._units.replace(list(rows), number, columns)
            self._charges.replace(list(rows), charged, charges)

    def _read_charges(
        self, units: Sequence[PreemptionUnit], counts: Counts
    ) -> tuple[dict[str, npt.NDArray[Any]], Counts]:
        """The entries of `_charges` for units given row by row, `counts` on each; and how many each row has."""
        index = self._cluster.budget_index
        entries: list[tuple[int, int, int]] = []
        if index.allowed:
            for turn, found in enumerate(index.charges([unit.pods for unit in units])):
                entries += [(turn, budget, pods) for budget, pods in found.items()]
        turns, budgets, pods = np.array(entries, dtype=np.int64).reshape(len(entries), 3).T
        ends = np.cumsum(counts)
        row = np.searchsorted(ends, turns, side="right")
        columns = {"turn": turns - (ends - counts)[row], "budget": budgets.copy(), "pods": pods.copy()}
        return columns, np.bincount(row, minlength=len(counts))


def _importance(unit: PreemptionUnit) -> tuple[int, int, int, float, str]:
    return unit.importance


def _to_go(left: Counts, amounts: Counts, there: Counts, judged: Counts) -> Mask:
    """bool[entries]: who cannot be put back.

    `left`: int64[requests, rows] with all of them gone, `amounts`: int64[requests, entries] row by row in the order
    they are tried, `there`: int64[rows] how many entries each row has, `judged`: the rows to be looked at.
    """
    gone = np.zeros(amounts.shape[1], dtype=np.bool_)
    rows = judged[np.argsort(-there[judged], kind="stable")]
    counts, first = there[rows], (np.cumsum(there) - there)[rows]
    left = left[:, rows]
    for turn in range(int(counts[0]) if len(counts) else 0):
        active = int(np.searchsorted(-counts, -turn))
        at = first[:active] + turn
        wanted = amounts[:, at]
        fits = (wanted <= left[:, :active]).all(axis=0)
        left[:, :active] -= wanted * fits
        gone[at] = ~fits
    return gone


def _least_costs(
    lacks: Counts,
    amounts: Counts,
    there: Counts,
    columns: Mapping[str, npt.NDArray[Any]],
    known: Counts,
) -> tuple[Counts, npt.NDArray[np.float64]]:
    """The parts of a `Cost` that no set of the units of a row is below that makes up what is lacking there.

    `lacks`: int64[requests, rows]; `amounts`: int64[requests, entries], `columns` the entries' priority, size and
    start, row by row, the most important first; `there`: int64[rows] how many of them each row has.
    `known`: int64[4, rows], the parts of a `Cost` that would do there.

    So many units are needed as would be of the largest; one of them has the lowest priority that suffices, and the
    others weigh what the lightest does.  Budgets count for nothing.  Where that is not above the cheapest of those
    known it is counted how many of the largest it takes.
    """
    rows = len(there)
    least = np.zeros((4, rows), dtype=np.int64)
    latest = np.full(rows, -np.inf)
    some = np.flatnonzero(there)
    if not len(some):
        return least, latest
    counts, lack = there[some], lacks[:, some]
    last = np.cumsum(counts) - 1
    first = last - counts + 1
    most = np.maximum(np.maximum.reduceat(amounts, first, axis=1), 1)
    needed = np.maximum(-(-lack // most), 1).max(axis=0)
    priority, size, begun = columns["priority"], columns["size"], columns["begun"]
    if priority.min() == priority.max():
        highest = priority[first]
    else:
        # What those from each unit down hold together: the last with enough has the lowest priority that suffices.
        sums = np.cumsum(amounts, axis=1)
        below = np.repeat(sums[:, last], counts, axis=1) - sums + amounts
        enough = np.logical_and.reduce(below >= np.repeat(lack, counts, axis=1), axis=0)
        top = np.maximum.reduceat(np.where(enough, np.arange(len(priority)), -1), first)
        highest = priority[np.maximum(top, first)]
    lightest = np.minimum.reduceat((priority + PRIORITY_OFFSET) * size, first)
    weight = (needed - 1) * lightest + highest + PRIORITY_OFFSET
    _, high_known, weight_known, pods_known = known[:, some]
    does = np.flatnonzero(pods_known)
    if len(does):
        high = high_known[does].min()
        worth = weight_known[does][high_known[does] == high].min()
        hopeful = (highest < high) | ((highest == high) & (weight <= worth))
        doubtful = np.flatnonzero(hopeful & (needed < pods_known))
        if len(doubtful):
            needed[doubtful] = np.maximum(_fewest(lack, amounts, counts, doubtful), 1)
            weight = (needed - 1) * lightest + highest + PRIORITY_OFFSET
    least[1:, some] = highest, weight, needed
    start = begun[np.maximum(last - np.minimum(needed, counts) + 1, first)]
    if begun.min() < begun.max():
        # Of like units, in order of their start, none but the last so many start later than the first of those who go.
        steady = np.append(True, (priority[1:] == priority[:-1]) & (size[1:] == size[:-1]) & (begun[1:] >= begun[:-1]))
        steady[first] = True
        like = np.logical_and.reduceat(steady, first)
        if not like.all():
            newest = np.maximum.reduceat(np.where(priority == np.repeat(highest, counts), begun, -np.inf), first)
            start = np.where(like, start, newest)
    latest[some] = -start
    return least, latest


def _fewest(lack: Counts, amounts: Counts, counts: Counts, which: Counts) -> Counts:
    """int64[which]: at least so many of these rows' entries are needed for what is lacking, each resource by itself.

    `lack`: int64[requests, rows]; `amounts`: int64[requests, entries], row by row, so many of each as `counts`.
    """
    starts = np.cumsum(counts) - counts
    own = counts[which]
    ends = np.cumsum(own)
    first = ends - own
    at = np.arange(int(ends[-1])) + np.repeat(starts[which] - first, own)
    rows = np.repeat(np.arange(len(which)), own)
    needed = np.zeros(len(which), dtype=np.int64)
    for wanted, held in zip(lack[:, which], amounts[:, at], strict=True):
        if wanted.any():
            sums = np.cumsum(_largest_first(held, rows))
            before = np.append(0, sums)[first]
            short = sums < (before + wanted)[rows]
            needed = np.maximum(needed, np.add.reduceat(short, first, dtype=np.int64) + (wanted > 0))
    return needed


def _largest_first(held: Counts, rows: Counts) -> Counts:
    """int64[entries]: the amounts of each row from the largest down; `rows` ascend."""
    beyond = int(held.max()) + 1 - min(int(held.min()), 0)
    if (int(rows[-1]) + 1) * beyond >= 1 << 62:
        return held[np.lexsort((-held, rows))]
    base = rows * beyond
    # One pass over numbers takes a fifth of what sorting by two keys does.
    found: Counts = base - np.sort(base - held)
    return found


def _same_between(priority: int, priorities: Counts, whose: Counts, rows: int) -> tuple[Counts, Counts]:
    """int64[rows] twice: from and to which priority of a preemptor the same units may go."""
    low = np.full(rows, -ABOVE_ALL, dtype=np.int64)
    high = np.full(rows, ABOVE_ALL, dtype=np.int64)
    if len(whose):
        starts = np.flatnonzero(np.append(True, whose[1:] != whose[:-1]))
        there = whose[starts]
        low[there] = np.maximum.reduceat(np.where(priorities < priority, priorities + 1, -ABOVE_ALL), starts)
        high[there] = np.minimum.reduceat(np.where(priorities < priority, ABOVE_ALL, priorities), starts)
    return low, high
