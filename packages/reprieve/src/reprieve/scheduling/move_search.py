"""The search for the fewest running units that free capacity for pending pods by moving, by amounts (moving.md 2).

The search is best-first over partial plans. A step takes the first pod without a place and gives it a node where it
fits, or one where a smallest set of units frees capacity for it; the pods of these units then need places too. A lower
bound on the further moves of a plan makes the first complete plan one of the fewest units, within the nodes that a step
tries: the few tightest of each kind. The number of steps is limited. Two quick searches come first, which place the
pending pods first and move no unit for a pod that could take its new place; a plan within one unit of the bound is
used.

Invariant: the same problem has the same answer; rows and units are numbers in the caller's order.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

Amounts = tuple[int, ...]

QUICK_STEPS: Final = 4_000
STEPS: Final = 16_000
"""Maximum number of partial plans."""
_TIGHTEST: Final = 4
"""Number of kinds of nodes on which a pod that fits is tried, those with the least left first."""
_ROWS: Final = 16
"""Number of kinds of nodes on which units are moved for a pod, those with the fewest units first."""
_SETS: Final = 4
"""Maximum number of sets of units of one node."""
_VISITS: Final = 256
"""Maximum number of sets that are tried on one node."""


class PodKind(NamedTuple):
    """Pods with the same requests and the same possible nodes. `rows`: a bit for each row."""

    need: Amounts
    rows: int


@dataclass(slots=True, eq=False)
class MoveProblem:
    """Amounts by column, in the same order everywhere."""

    free: Sequence[Amounts]
    """Usable amounts by row. They may be negative."""
    kinds: Sequence[PodKind]
    wanted: Sequence[int]
    """The kind of each pending pod."""
    units: Sequence[tuple[tuple[int, int], ...]]
    """(kind, row) of each pod of a unit that may move. A unit of one pod must leave its row."""
    forbidden: set[tuple[int, int]] = field(default_factory=set)
    """(kind, row) at which a filter rejects such a pod although the amounts fit."""


class MoveSolution(NamedTuple):
    """The units that move, the rows of their pods, and those of the pending pods, in the order of the problem."""

    moves: dict[int, tuple[int, ...]]
    places: tuple[int, ...]


class MoveAnswer(NamedTuple):
    """The best plan; `spent`: the search ended because of its limit, not because it was complete."""

    solution: MoveSolution | None
    spent: bool


def fewest_moves(problem: MoveProblem, most: int, steps: int = STEPS) -> MoveAnswer:
    """Return a plan of at most `most` units: the fewest, or one more, unless the limit is reached."""
    search = _MoveSearch(problem)
    if not search.possible():
        return MoveAnswer(None, spent=False)
    good_enough = max(search.bound(search.start), 1) + 1
    best: _Partial | None = None
    spent = False
    for order in _MoveOrder:
        better = most if best is None else best.moved - 1 - (order is _MoveOrder.FEWEST)
        plan, spent = search.run(better, steps if order is _MoveOrder.FEWEST else min(QUICK_STEPS, steps), order)
        best = plan or best
        if best is not None and best.moved <= good_enough:
            return MoveAnswer(search.solution(best), spent=False)
    return MoveAnswer(search.solution(best) if best is not None else None, spent)


class _MoveOrder(Enum):
    """The order in which partial plans are continued, once all pending pods have a place:"""

    SHORT = auto()
    """the lowest bound."""
    LIGHT = auto()
    """the least without a place."""
    FEWEST = auto()
    """the lowest bound, also before pending pods have a place: complete plans come in order."""


class _Item(NamedTuple):
    """A pod without a place: `pod` is its number among the pending ones, or in `unit`."""

    kind: int
    origin: int
    """The row that it must leave; -1 if there is none."""
    unit: int
    pod: int


@dataclass(frozen=True, slots=True, eq=False)
class _Partial:
    """A partial plan."""

    pending: tuple[_Item, ...]
    units: frozenset[int]
    over: dict[int, Amounts]
    """The free amounts of rows where they have changed."""
    before: "_Partial | None" = None
    item: _Item | None = None
    row: int = -1

    @property
    def moved(self) -> int:
        return len(self.units)


class _Cover(NamedTuple):
    """Units that free capacity on a row. Sorted by `cost`: their number, and the weight of their pods."""

    cost: tuple[int, float]
    row: int
    units: tuple[int, ...]
    sort: object
    """Equal for identical units on identical rows."""


class _MoveSearch:
    def __init__(self, problem: MoveProblem) -> None:
        self._free = problem.free
        self._kinds = problem.kinds
        self._units = problem.units
        self._forbidden = problem.forbidden
        self._rows = range(len(problem.free))
        self._on_row: dict[int, list[int]] = {}
        for number, pods in enumerate(problem.units):
            for row in {row for _, row in pods}:
                self._on_row.setdefault(row, []).append(number)
        width = range(len(problem.kinds[0].need))
        totals = [sum(max(0, free[column]) for free in problem.free) for column in width]
        self._weights = [1 / max(1, total) for total in totals]
        self._weight = [self._weighed(kind.need) for kind in problem.kinds]
        wanted = [_Item(kind, -1, -1, pod) for pod, kind in enumerate(problem.wanted)]
        self._wanted = len(wanted)
        self._totals = totals
        self.start = _Partial(tuple(sorted(wanted, key=self._turn)), frozenset(), {})
        self._fitting: dict[int, list[int]] = {}
        self._quick = False
        self._covers: dict[int, list[_Cover]] = {}
        self._holes: dict[int, dict[int, int]] = {}
        self._steps_of: dict[int, list[float]] = {}

    def possible(self) -> bool:
        """Return whether the total of all free amounts is enough."""
        needs = [self._kinds[item.kind].need for item in self.start.pending]
        return all(total >= sum(column) for total, column in zip(self._totals, zip(*needs, strict=True), strict=True))

    def run(self, most: int, steps: int, order: "_MoveOrder") -> tuple[_Partial | None, bool]:
        """Return a complete plan within a number of units, and whether the limit of steps ended the search."""
        heap: list[tuple[tuple[float, ...], int, _Partial]] = [((0.0,), 0, self.start)]
        states: set[object] = set()
        plans = 0
        self._quick = order is not _MoveOrder.FEWEST
        self._covers.clear()
        while heap:
            _, _, plan = heapq.heappop(heap)
            if not plan.pending:
                return plan, False
            for child in self._children(plan, most):
                plans += 1
                least = child.moved + self.bound(child)
                if least > most:
                    continue
                state = (child.units, child.pending, frozenset(child.over.items()))
                if state not in states:
                    states.add(state)
                    heapq.heappush(heap, (self._rank(child, least, order), plans, child))
            if plans >= steps:
                return None, bool(heap)
        return None, False

    def _rank(self, plan: _Partial, least: int, order: "_MoveOrder") -> tuple[float, ...]:
        waiting = sum(item.unit < 0 for item in plan.pending)
        load = sum(self._weight[item.kind] for item in plan.pending)
        if order is _MoveOrder.FEWEST:
            return least, waiting, load
        return (waiting, least, load) if order is _MoveOrder.SHORT else (waiting, load, least)

    def solution(self, plan: _Partial) -> MoveSolution:
        """Return a complete plan in terms of the problem."""
        places = [-1] * self._wanted
        rows = {unit: [-1] * len(self._units[unit]) for unit in plan.units}
        at: _Partial | None = plan
        while at is not None and at.item is not None:
            (places if at.item.unit < 0 else rows[at.item.unit])[at.item.pod] = at.row
            at = at.before
        return MoveSolution({unit: tuple(rows[unit]) for unit in sorted(rows)}, tuple(places))

    # -- steps -----------------------------------------------------------------------------------------------------

    def _children(self, plan: _Partial, most: int) -> Iterator[_Partial]:
        item, rest = plan.pending[0], plan.pending[1:]
        for row in self._tightest(plan, item):
            yield self._with(plan, item, row, (), rest)
        if plan.moved < most:
            for cover in self._cheapest(plan, item):
                if plan.moved + len(cover.units) <= most:
                    yield self._with(plan, item, cover.row, cover.units, rest)

    def _with(self, plan: _Partial, item: _Item, row: int, units: tuple[int, ...], rest: tuple[_Item, ...]) -> _Partial:
        over = dict(plan.over)
        if units:
            more = []
            for unit in units:
                pods = self._units[unit]
                for number, (kind, place) in enumerate(pods):
                    over[place] = _plus(over.get(place, self._free[place]), self._kinds[kind].need)
                    more.append(_Item(kind, place if len(pods) == 1 else -1, unit, number))
            rest = tuple(sorted((*rest, *more), key=self._turn))
        over[row] = _minus(over.get(row, self._free[row]), self._kinds[item.kind].need)
        return _Partial(rest, plan.units.union(units), over, plan, item, row)

    def _turn(self, item: _Item) -> tuple[object, ...]:
        return item.unit >= 0, -self._weight[item.kind], item

    def _tightest(self, plan: _Partial, item: _Item) -> list[int]:
        """Return rows on which a pod fits, one of each kind, those with the least left first."""
        kind = self._kinds[item.kind]
        candidates: list[tuple[float, int]] = []
        for row, free in plan.over.items():
            if row != item.origin and self._allowed(item.kind, row) and _covers(free, kind.need):
                candidates.append((self._weighed(free), row))
        seen: set[Amounts] = set()
        for row in self._base_fits(item.kind):
            if row in plan.over or row == item.origin or self._free[row] in seen:
                continue
            seen.add(self._free[row])
            candidates.append((self._weighed(self._free[row]), row))
            if len(seen) == _TIGHTEST:
                break
        return [row for _, row in heapq.nsmallest(_TIGHTEST, candidates)]

    def _base_fits(self, kind: int) -> list[int]:
        if kind not in self._fitting:
            need = self._kinds[kind].need
            rows = [row for row in self._rows if self._allowed(kind, row) and _covers(self._free[row], need)]
            self._fitting[kind] = sorted(rows, key=lambda row: (self._weighed(self._free[row]), row))
        return self._fitting[kind]

    def _cheapest(self, plan: _Partial, item: _Item) -> list[_Cover]:
        """Return sets of units that free capacity for a pod, for one row of each kind, the fewest units first."""
        candidates: list[_Cover] = []
        for row in plan.over:
            if row != item.origin and self._allowed(item.kind, row):
                candidates += self._sets(row, item.kind, plan.over[row], plan.units, quick=self._quick)
        seen: set[object] = set()
        for cover in self._base_covers(item.kind):
            if cover.row in plan.over or cover.row == item.origin or cover.sort in seen:
                continue
            seen.add(cover.sort)
            candidates.append(cover)
            if len(seen) == _ROWS:
                break
        return heapq.nsmallest(_ROWS, candidates)

    def _base_covers(self, kind: int) -> list[_Cover]:
        if kind not in self._covers:
            rows = (row for row in self._on_row if self._allowed(kind, row))
            free, moved = self._free, frozenset[int]()
            sets = (cover for row in rows for cover in self._sets(row, kind, free[row], moved, quick=self._quick))
            self._covers[kind] = sorted(sets, key=lambda cover: (cover.cost, cover.row, cover.units))
        return self._covers[kind]

    def _sets(self, row: int, kind: int, free: Amounts, moved: frozenset[int], *, quick: bool) -> list[_Cover]:
        """Return minimal sets of units on a row, the fewest units first; `quick`: not those that the pod replaces."""
        need = self._kinds[kind].need
        missing = tuple([wants - has if wants else 0 for wants, has in zip(need, free, strict=True)])
        if all(amount <= 0 for amount in missing):
            return []
        sorts: dict[tuple[object, ...], list[int]] = {}
        for unit in self._on_row.get(row, ()):
            if unit not in moved and not (quick and self._replaces(unit, kind)):
                pods = self._units[unit]
                sorts.setdefault((pods[0][0],) if len(pods) == 1 else (unit, pods), []).append(unit)
        choices = [(self._on(units[0], row), units, str(key)) for key, units in sorts.items()]
        choices.sort(key=lambda choice: (-self._weighed(choice[0]), choice[1]))
        whole = tuple(sorted((key, len(units)) for _, units, key in choices))
        covers = []
        for counts in _covering([gain for gain, *_ in choices], [len(units) for _, units, _ in choices], missing):
            chosen = tuple(unit for (_, units, _), n in zip(choices, counts, strict=True) for unit in units[:n])
            weight = sum(self._weight[pod] for unit in chosen for pod, _ in self._units[unit])
            part = tuple(sorted((key, n) for (_, _, key), n in zip(choices, counts, strict=True) if n))
            covers.append(_Cover((len(chosen), weight), row, chosen, (free, whole, part)))
        return heapq.nsmallest(_SETS, covers, key=lambda cover: (cover.cost, cover.units))

    def _replaces(self, unit: int, kind: int) -> bool:
        """Return whether a pod of that kind could use every row that the single pod of a unit could use."""
        pods = self._units[unit]
        own, wanted = self._kinds[pods[0][0]], self._kinds[kind]
        return len(pods) == 1 and _covers(own.need, wanted.need) and own.rows & ~wanted.rows == 0

    def _on(self, unit: int, row: int) -> Amounts:
        """Return the amounts that a unit uses on a row."""
        total: Amounts = (0,) * len(self._weights)
        for kind, place in self._units[unit]:
            if place == row:
                total = _plus(total, self._kinds[kind].need)
        return total

    def _allowed(self, kind: int, row: int) -> bool:
        return bool(self._kinds[kind].rows >> row & 1) and (kind, row) not in self._forbidden

    def _weighed(self, amounts: Amounts) -> float:
        return sum(amount * weight for amount, weight in zip(amounts, self._weights, strict=True))

    # -- bounds ----------------------------------------------------------------------------------------------------

    def bound(self, plan: _Partial) -> int:
        """Return a lower bound of further units to move."""
        waiting: dict[int, int] = {}
        for item in plan.pending:
            waiting[item.kind] = waiting.get(item.kind, 0) + 1
        least = 0
        for kind, count in waiting.items():
            need = self._kinds[kind].need
            base = self._base_holes(kind)
            holes = sum(_times(free, need) for row, free in plan.over.items() if self._allowed(kind, row))
            if any(item.unit < 0 and item.kind == kind for item in plan.pending):
                steps = self._wanted_steps(kind)
                least = max(least, _ceiling(steps[min(len(steps) - 1, max(0, count - holes))]))
            holes += sum(base.values()) - sum(base.get(row, 0) for row in plan.over)
            as_large = sum(number for k, number in waiting.items() if _covers(self._kinds[k].need, need) and k != kind)
            if count + as_large > holes and all(self._kinds[o].rows & ~self._kinds[kind].rows == 0 for o in waiting):
                least = max(least, 1)
        return least

    def _base_holes(self, kind: int) -> dict[int, int]:
        """Return the number of pods of a kind that fit on each row with capacity for one."""
        if kind not in self._holes:
            need = self._kinds[kind].need
            self._holes[kind] = {row: _times(self._free[row], need) for row in self._base_fits(kind)}
        return self._holes[kind]

    def _wanted_steps(self, kind: int) -> list[float]:
        """Return the number of units to move for 0, 1, 2 ... pods of a kind: fractions of the cheapest nodes."""
        if kind not in self._steps_of:
            need = self._kinds[kind].need
            rates = []
            for row in self._rows:
                if not self._allowed(kind, row):
                    continue
                fitting = _times(self._free[row], need)
                total = self._free[row]
                for unit in self._on_row.get(row, ()):
                    total = _plus(total, self._on(unit, row))
                rates += [0.0] * fitting
                sets = self._sets_for_more(row, kind)
                if sets:
                    more = _times(total, need) - fitting
                    rates += [sets[0].cost[0] / more] * more
            rates.sort()
            steps = [0.0]
            for rate in rates[: self._wanted]:
                steps.append(steps[-1] + rate)
            self._steps_of[kind] = steps
        return self._steps_of[kind]

    def _sets_for_more(self, row: int, kind: int) -> list[_Cover]:
        """Return sets of units that free capacity for one more pod."""
        need, free = self._kinds[kind].need, self._free[row]
        for _ in range(_times(free, need)):
            free = _minus(free, need)
        return self._sets(row, kind, free, frozenset(), quick=False)


def _covering(gains: Sequence[Amounts], counts: Sequence[int], missing: Amounts) -> Iterator[tuple[int, ...]]:
    """Yield minimal numbers of units of each kind that cover the missing amounts; a limited number of results."""
    visits = 0
    stack: list[tuple[tuple[int, ...], Amounts]] = [((), missing)]
    while stack and visits < _VISITS:
        chosen, left = stack.pop()
        visits += 1
        sort = len(chosen)
        if all(amount <= 0 for amount in left):
            full = (*chosen, *([0] * (len(gains) - sort)))
            if not any(
                count and all(amount + gain <= 0 for amount, gain in zip(left, gains[index], strict=True))
                for index, count in enumerate(full)
            ):
                yield full
            continue
        if sort == len(gains):
            continue
        options = [((*chosen, 0), left)]
        for count in range(1, counts[sort] + 1):
            if all(amount <= 0 for amount in left):
                break
            left = _minus(left, gains[sort])
            options.append(((*chosen, count), left))
        stack += options


def _times(free: Amounts, need: Amounts) -> int:
    """Return the number of times that an amount fits."""
    return max(0, min((has // asks for has, asks in zip(free, need, strict=True) if asks), default=0))


def _plus(left: Amounts, right: Amounts) -> Amounts:
    return tuple([a + b for a, b in zip(left, right, strict=True)])


def _minus(left: Amounts, right: Amounts) -> Amounts:
    return tuple([a - b for a, b in zip(left, right, strict=True)])


def _covers(left: Amounts, right: Amounts) -> bool:
    return all(a >= b for a, b in zip(left, right, strict=True) if b > 0)


def _ceiling(number: float) -> int:
    return -int(-(number - 1e-9) // 1)
