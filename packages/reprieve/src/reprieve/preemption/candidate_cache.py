"""Results of every row for identical preemptors, as columns, and the cheapest row.

Results stay valid while their rows do not change: `catch_up` drops those of changed rows. Only the cost of a candidate
is stored, so memory grows with the rows and not with the victims.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reprieve.cluster.changes import ChangeReader, GangReader
from reprieve.framework.plugin import Mask
from reprieve.framework.restart_places import RestartReader
from reprieve.preemption.cheapest_victims import CheapestVictims
from reprieve.preemption.cost import BY_NAME, UPSTREAM, Criteria
from reprieve.preemption.outcome import NO_VICTIMS_POD, Cost, Verdict
from reprieve.preemption.unit_costs import GANGS, PODS, RESTARTLESS
from reprieve.preemption.victim_columns import JudgedRows

Rows = npt.NDArray[np.int64]
Misfit = tuple[str, ...]
"""Why a node is no candidate: the reasons counted in the pod's message."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node on which the pod would fit. `cost` orders candidates, cheapest first."""

    row: int
    verdicts: tuple[Verdict, ...]
    cost: Cost


@dataclass(frozen=True, slots=True)
class Choice:
    """The cheapest of `candidates` rows; the second best (-1: none), its cost, and the steps of the comparison."""

    row: int
    cost: Cost
    candidates: int
    second: int
    second_cost: Cost | None
    steps: tuple[tuple[str, int], ...]


class RowAnswers:
    """See the module docstring.

    `known`: bool[rows], the row has a valid result; `good`: bool[rows], the result is a candidate.
    """

    __slots__ = (
        "_changes",
        "_cost",
        "_criteria",
        "_high",
        "_least",
        "_low",
        "_misfits",
        "_open",
        "_why",
        "gangs",
        "good",
        "known",
        "restarts",
        "searched",
    )

    def __init__(
        self,
        changes: ChangeReader,
        rows: int,
        criteria: Criteria = UPSTREAM,
        gangs: GangReader | None = None,
        restarts: RestartReader | None = None,
    ) -> None:
        self._changes = changes
        self.restarts = restarts
        """Source of the rows on which pods can restart elsewhere now, or no longer, if that counts."""
        self.gangs = gangs
        """Source of the groups that have grown or shrunk, if that counts."""
        self._criteria = criteria
        self._forget_all(rows)

    def _forget_all(self, rows: int) -> None:
        self.known: Mask = np.zeros(rows, dtype=np.bool_)
        self.good: Mask = np.zeros(rows, dtype=np.bool_)
        # By criterion.
        self._cost: npt.NDArray[np.float64] = np.zeros((len(self._criteria.costs), rows), dtype=np.float64)
        # The range of preemptor priorities with the same result.
        self._low: Rows = np.zeros(rows, dtype=np.int64)
        self._high: Rows = np.zeros(rows, dtype=np.int64)
        # The number of a row's misfit.
        self._why: npt.NDArray[np.int32] = np.zeros(rows, dtype=np.int32)
        self._misfits: dict[Misfit, int] = {}
        # By criterion: lower bounds of evictions on the row; and the rows where a cheaper one is possible.
        self._least: npt.NDArray[np.float64] = np.zeros((len(self._criteria.costs), rows), dtype=np.float64)
        self._open: Mask = np.zeros(rows, dtype=np.bool_)
        self.searched: dict[int, CheapestVictims | None] = {}
        """Results of searches by row, see `search`."""

    def catch_up(self, rows: int, *versions: Hashable) -> None:
        """Resize to the number of rows, and drop invalid results. `versions`: of the budgets and of other inputs."""
        touched = self._changes.take(*versions)
        if touched is None:
            self._forget_all(rows)
        elif touched:
            self.forget(touched)

    def forget(self, rows: Sequence[int]) -> None:
        """Drop the results of these rows."""
        self.known[rows] = False
        for row in rows if self.searched else ():
            self.searched.pop(row, None)

    def for_priority(self, priority: int) -> "RowAnswers":
        """Return a copy with the results that are the same for another priority."""
        gangs = self.gangs.copy() if self.gangs is not None else None
        restarts = self.restarts.copy() if self.restarts is not None else None
        copy = RowAnswers(self._changes.copy(), 0, self._criteria, gangs, restarts)
        copy.known = self.known & (self._low <= priority) & (priority <= self._high)
        copy.good, copy._cost, copy._why = self.good.copy(), self._cost.copy(), self._why.copy()
        copy._low, copy._high, copy._misfits = self._low.copy(), self._high.copy(), self._misfits.copy()
        copy._least, copy._open = self._least.copy(), self._open.copy()
        copy.searched = {row: cheapest for row, cheapest in self.searched.items() if copy.known[row]}
        return copy

    def put(self, row: int, answer: Candidate | Misfit, priorities: tuple[int, int], *, fragile: bool) -> None:
        """Store one row's result, the same for preemptors of these priorities (from, to).

        A `fragile` one depends on other rows too (a unit that spans nodes) and is computed every time.
        """
        self._low[row], self._high[row] = priorities
        self.known[row] = not fragile
        self.good[row] = isinstance(answer, Candidate)
        self.searched.pop(row, None)
        if isinstance(answer, Candidate):
            self._cost[:, row] = answer.cost
            self._least[:, row] = -np.inf
            self._open[row] = True
        else:
            self._why[row] = self._number(answer)

    def take_over(self, source: "RowAnswers", rows: Rows) -> None:
        """Copy the results of other preemptors on these rows."""
        for name in ("_cost", "_least", "_low", "_high", "_open", "good", "known"):
            getattr(self, name)[..., rows] = getattr(source, name)[..., rows]
        numbers = np.array([self._number(misfit) for misfit in source._misfits], dtype=np.int32)
        if len(numbers):
            self._why[rows] = numbers[source._why[rows]]

    def search(self, row: int, cheapest: CheapestVictims | None) -> None:
        """Store the result of a search on a candidate row: no eviction there costs less."""
        if np.isneginf(self._least[0, row]):
            least = self._cost_of(row) if cheapest is None else min(cheapest.cost, self._cost_of(row))
            self._least[:, row] = least
            self._open[row] = least < self._cost_of(row)
        self.searched[row] = cheapest

    def put_all(self, rows: Rows, judged: JudgedRows, lacking: Misfit) -> None:
        """Store the results of many rows by a native list of criteria. `lacking[i]`: the i-th request is short."""
        target: Rows | slice = slice(None) if len(rows) == len(self.known) else rows
        self._low[target], self._high[target] = judged.low, judged.high
        self.known[target] = ~judged.spans
        short = np.logical_or.reduce(judged.short, axis=0)
        self.good[target] = judged.cost[PODS] > 0
        cost, least = judged.cost, judged.least
        if not self._criteria.counts_gangs:
            cost, least = (np.delete(part, (GANGS, RESTARTLESS), axis=0) for part in (cost, least))
        self._cost[:, target], self._least[:, target] = cost, least
        self._open[target] = _below(least, cost)
        if self.searched:
            for row in rows.tolist():
                self.searched.pop(row, None)
        self._why[target] = self._number((NO_VICTIMS_POD,))
        lacks = np.flatnonzero(judged.units & short)
        if len(lacks):
            for columns, misfit in _kinds(judged.short[:, lacks], lacking):
                self._why[rows[lacks[columns]]] = self._number(misfit)

    def _number(self, misfit: Misfit) -> int:
        return self._misfits.setdefault(misfit, len(self._misfits))

    def misfits(self, rows: Rows) -> dict[str, int]:
        """Return the number of rows that are no candidates by reason."""
        numbers = self._why[rows[~self.good[rows]]]
        counts = np.bincount(numbers, minlength=len(self._misfits)).tolist()
        result: dict[str, int] = {}
        for misfit, count in zip(self._misfits, counts, strict=True):
            for text in misfit if count else ():
                result[text] = result.get(text, 0) + count
        return result

    def cheapest(self, rows: Rows, rank: Rows) -> Choice | None:
        """Return the best candidate among the rows by cost, then by name; None if there is none."""
        left = rows[self.good[rows]]
        count = len(left)
        if not count:
            return None
        rivals = left
        steps = []
        for criterion, row_costs in zip(self._criteria.texts, self._cost, strict=True):
            costs = row_costs if len(left) == len(row_costs) else row_costs[left]
            cheap = costs == costs.min()
            if not cheap.all():
                rivals, left = left, left[cheap]
                steps.append((criterion, len(left)))
        names = rank[left]
        first = int(names.argmin())
        best = int(left[first])
        if len(left) > 1:
            steps.append((BY_NAME, 1))
            names[first] = np.iinfo(names.dtype).max
            second = int(left[names.argmin()])
        else:
            second = self._first_of(rivals[rivals != best], rank)
        second_cost = self._cost_of(second) if second >= 0 else None
        return Choice(best, self._cost_of(best), count, second, second_cost, tuple(steps))

    def cheapest_first(self, rows: Rows, rank: Rows, most: int | None = None) -> list[tuple[int, Cost]]:
        """Return the candidates among the rows with their costs, by cost and then by name; the first `most`."""
        left = rows[self.good[rows]]
        order = left[np.lexsort((rank[left], *self._cost[::-1, left]))]
        return [(row, self._cost_of(row)) for row in order[:most].tolist()]

    def hopeful(self, rows: Rows, cost: Cost, rank: Rows) -> list[tuple[Cost, int]]:
        """Return (least cost, row) of rows on which a cheaper eviction is possible, the lowest first.

        The lower bound of the row is below its known cost and not above the given cost.
        """
        left = rows[(self.good & self._open)[rows]]
        left = left[~_below(np.array(cost)[:, None], self._least[:, left])]
        order = left[np.lexsort((rank[left], *self._least[::-1, left]))]
        return [(tuple(self._least[:, row].tolist()), row) for row in order.tolist()]

    def _first_of(self, left: Rows, rank: Rows) -> int:
        """Return the best of the rows, all of them candidates; -1 if there are none."""
        for row_costs in self._cost:
            costs = row_costs[left]
            left = left[costs == costs.min(initial=np.inf)]
        return int(left[rank[left].argmin()]) if len(left) else -1

    def _cost_of(self, row: int) -> Cost:
        return tuple(self._cost[:, row].tolist())


def _kinds(short: npt.NDArray[np.bool_], lacking: Misfit) -> list[tuple[Rows, Misfit]]:
    """Return groups of equal columns of bool[requests, columns], with the misfit of each."""
    left, groups = np.arange(short.shape[1]), []
    while len(left):
        first = short[:, left[0]]
        alike = np.logical_and.reduce(short[:, left] == first[:, None], axis=0)
        groups.append((left[alike], tuple(text for text, out in zip(lacking, first.tolist(), strict=True) if out)))
        left = left[~alike]
    return groups


def _below(costs: npt.NDArray[np.float64], other_costs: npt.NDArray[np.float64]) -> Mask:
    """Return bool[rows]: whether the first of two costs, float64[criteria, rows], is lower."""
    result: Mask = costs[-1] < other_costs[-1]
    for cost, other_cost in zip(costs[-2::-1], other_costs[-2::-1], strict=True):
        result = (cost < other_cost) | ((cost == other_cost) & result)
    return result
