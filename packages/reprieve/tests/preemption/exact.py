"""The cheapest eviction there is, by an integer program, to compare the search with (cost.md 4).

A `Problem` is plain numbers and knows nothing of the engine: what the nodes have left once every potential victim is
gone, what each unit takes where, and what the group's pods ask for.  `cheapest` solves it criterion by criterion in the
order of preemption.md 3, each time holding what was reached so far, with scipy's HiGHS.

Budgets are counted over the units that go, in importance order (preemption.md 6), which is linear: a unit violates if
it goes and the pods of a budget up to and including its own are more than are allowed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

OFFSET = 1 << 31
"""What preemption.md 3 adds to every priority before summing."""
Price = tuple[float, ...]
"""Violations, highest priority, gangs that break (if they count), sum of priorities, pods, those that cannot restart
elsewhere at once (if gangs count), and the earliest start among the highest, negated."""
PODS_AT = -3
"""Where the pods are in a price, if gangs count."""
NO_VICTIMS: Price = (0, -OFFSET, 0, 0, -np.inf)
"""The price of no eviction: less than anything else."""


@dataclass(frozen=True)
class Unit:
    """What goes as one. `takes`: node -> amounts per resource; `charged`: budget -> its pods of this unit."""

    name: str
    priority: int
    pods: int
    start: float
    grouped: bool
    takes: dict[int, tuple[int, ...]]
    charged: dict[str, int] = field(default_factory=dict)
    breaks: int = 0
    """Gangs that fall below their minimum with it."""
    lost: float = 0.0
    """GPU-seconds that are lost with it."""
    stuck: int = 0
    """Its pods that cannot restart elsewhere at once."""

    @property
    def namespace(self) -> str:
        """Where its pods are."""
        return self.name.partition("/")[0]

    @property
    def importance(self) -> tuple[object, ...]:
        """preemption.md 5; names stand for UIDs."""
        return (-self.priority, not self.grouped, -self.pods, self.start, self.name)


@dataclass(frozen=True)
class Kind:
    """Like pods of the group: amounts per resource, how many, and the nodes they may use."""

    wants: tuple[int, ...]
    count: int
    nodes: frozenset[int]


Row = tuple[tuple[tuple[float, tuple[Any, ...]], ...], float, float]
"""A rule beside amounts, as a row of the program: (factor, variable), and the least and most that they add up to.

Variables: `("unit", name)` is 1 if the unit goes, `("on", node)` how many pods of the group are there, `("of", node,
kind)` those of one kind, and `("choice", name)` is 0 or 1 as suits."""


@dataclass(frozen=True)
class Problem:
    """`free[node]`: amounts per resource with every unit gone. `allowed`: budget -> disruptions.

    `rows`: rules beside amounts.
    """

    free: tuple[tuple[int, ...], ...]
    units: tuple[Unit, ...]
    kinds: tuple[Kind, ...]
    allowed: dict[str, int] = field(default_factory=dict)
    gangs: bool = False
    """Whether gangs that break count, as they do by default (cost.md 1.1)."""
    rows: tuple[Row, ...] = ()

    @property
    def no_victims(self) -> Price:
        """What it costs to evict no pod."""
        return (*NO_VICTIMS[:2], 0, *NO_VICTIMS[2:4], 0, NO_VICTIMS[-1]) if self.gangs else NO_VICTIMS

    def price(self, victims: Iterable[str]) -> Price:
        """What it costs to evict the units of these names."""
        gone = set(victims)
        evicted = sorted((unit for unit in self.units if unit.name in gone), key=lambda unit: unit.importance)
        if not evicted:
            return self.no_victims
        left = dict(self.allowed)
        violations = 0
        for unit in evicted:
            for budget, count in unit.charged.items():
                left[budget] -= count
            violations += any(left[budget] < 0 for budget in unit.charged)
        highest = evicted[0].priority
        return (
            violations,
            highest,
            *((sum(unit.breaks for unit in evicted),) if self.gangs else ()),
            sum((unit.priority + OFFSET) * unit.pods for unit in evicted),
            sum(unit.pods for unit in evicted),
            *((sum(unit.stuck for unit in evicted),) if self.gangs else ()),
            -min(unit.start for unit in evicted if unit.priority == highest),
        )

    def price_by(self, cost: Sequence[str], victims: Iterable[str]) -> Price:
        """What it costs by a list of criteria (cost.md 1.3); of no eviction: less than anything else."""
        gone = set(victims)
        evicted = sorted((unit for unit in self.units if unit.name in gone), key=lambda unit: unit.importance)
        if not evicted:
            return (-np.inf,) * len(cost)
        violations, highest, *_, start = self.price(gone)
        tenants = Counter[str]()
        for unit in evicted:
            tenants[unit.namespace] += unit.pods
        known = {
            "pdbViolations": violations,
            "highestPriority": highest,
            "startTime": start,
            "tenantSpread": max(tenants.values()),
        }
        return tuple(known[name] if name in known else sum(map(SUMS[name], evicted)) for name in cost)


SUMS: dict[str, Callable[[Unit], float]] = {
    "gangsBroken": lambda unit: unit.breaks,
    "prioritySum": lambda unit: (unit.priority + OFFSET) * unit.pods,
    "pods": lambda unit: unit.pods,
    "units": lambda _: 1,
    "lostWork": lambda unit: unit.lost,
    "restartElsewhere": lambda unit: unit.stuck,
}
"""Criteria of which the whole is the sum of its parts."""


@dataclass(frozen=True)
class Optimum:
    """`bound`: no eviction has fewer pods, where the solver was stopped before it was sure (`proven` False)."""

    price: Price
    victims: tuple[str, ...]
    proven: bool = True
    bound: float = 0.0


class NoSolutionError(Exception):
    """The group fits nowhere, or nothing was found in the time given."""


class _Program:
    """The integer program: which units go, how many pods of a kind each node gets, which units violate a budget."""

    def __init__(self, problem: Problem, seconds: float | None) -> None:
        self.problem = problem
        self.seconds = seconds
        self.units = sorted(problem.units, key=lambda unit: unit.importance)
        self.places = [(node, kind) for kind, wants in enumerate(problem.kinds) for node in sorted(wants.nodes)]
        self.charged = [turn for turn, unit in enumerate(self.units) if unit.charged]
        self.first_place = len(self.units)
        self.first_violation = self.first_place + len(self.places)
        self.choices = sorted({var[1] for row, *_ in problem.rows for _, var in row if var[0] == "choice"}, key=str)
        self.first_choice = self.first_violation + len(self.charged)
        self.size = self.first_choice + len(self.choices)
        self.rows: list[tuple[dict[int, float], float, float]] = []
        self.high = np.ones(self.size)
        for index, (_, kind) in enumerate(self.places):
            self.high[self.first_place + index] = problem.kinds[kind].count
        self._hold_the_group()
        self._count_budgets()
        for parts, low, high in problem.rows:
            row: dict[int, float] = {}
            for factor, variable in parts:
                for column in self._columns(variable):
                    row[column] = row.get(column, 0.0) + factor
            if row:
                self.rows.append((row, low, high))

    def _columns(self, variable: tuple[Any, ...]) -> list[int]:
        if variable[0] == "unit":
            return [turn for turn, unit in enumerate(self.units) if unit.name == variable[1]]
        if variable[0] == "choice":
            return [self.first_choice + self.choices.index(variable[1])]
        kind = variable[2] if variable[0] == "of" else None
        return [
            self.first_place + index
            for index, (node, of) in enumerate(self.places)
            if node == variable[1] and kind in (None, of)
        ]

    def _hold_the_group(self) -> None:
        problem = self.problem
        for kind, wants in enumerate(problem.kinds):
            all_of_it = {self.first_place + i: 1.0 for i, (_, k) in enumerate(self.places) if k == kind}
            self.rows.append((all_of_it, wants.count, wants.count))  # one more could balance a spread
        users: dict[int, list[int]] = {}
        for turn, unit in enumerate(self.units):
            for node in unit.takes:
                users.setdefault(node, []).append(turn)
        there: dict[int, list[tuple[int, int]]] = {}
        for index, (node, kind) in enumerate(self.places):
            there.setdefault(node, []).append((self.first_place + index, kind))
        for node, places in there.items():
            for resource, have in enumerate(problem.free[node]):
                # What stays and what comes fit: placed - freed <= free - everything that runs.
                row: dict[int, float] = {}
                running = 0
                for place, kind in places:
                    if problem.kinds[kind].wants[resource]:
                        row[place] = float(problem.kinds[kind].wants[resource])
                if not row:
                    continue
                for turn in users.get(node, ()):
                    taken = self.units[turn].takes[node][resource]
                    if taken:
                        row[turn] = -float(taken)
                        running += taken
                scale = max(abs(value) for value in row.values())
                self.rows.append(({k: v / scale for k, v in row.items()}, -np.inf, (have - running) / scale))

    def _count_budgets(self) -> None:
        violation = {turn: self.first_violation + i for i, turn in enumerate(self.charged)}
        for budget, allowed in self.problem.allowed.items():
            before: dict[int, float] = {}
            for turn in self.charged:
                count = self.units[turn].charged.get(budget, 0)
                if not count:
                    continue
                before = {**before, turn: before.get(turn, 0.0) + count}
                most = sum(before.values())
                if most <= allowed:
                    continue
                # violation >= goes + (counted - allowed) / most - 1; the margin keeps it clear of rounding.
                row = {key: value / most for key, value in before.items()}
                row[turn] += 1.0
                row[violation[turn]] = -1.0
                self.rows.append((row, -np.inf, 1.0 + allowed / most))

    def add(self, row: dict[int, float], low: float, high: float) -> None:
        """Hold this from now on."""
        self.rows.append((row, low, high))

    def spread_tenants(self) -> Any:
        """Hold that no namespace loses more pods than one has to; return the values. Raises NoSolutionError."""
        by_tenant: dict[str, dict[int, float]] = {}
        for turn, unit in enumerate(self.units):
            by_tenant.setdefault(unit.namespace, {})[turn] = float(unit.pods)
        low, high, rows = 0, sum(unit.pods for unit in self.units), self.rows
        while low <= high:
            most = (low + high) // 2
            self.rows = [*rows, *((row, -np.inf, float(most)) for row in by_tenant.values())]
            try:
                values, _ = self.solve({})
            except NoSolutionError:
                low = most + 1
            else:
                found, high = (values, self.rows), most - 1
        self.rows = found[1]
        return found[0]

    def solve(self, goal: dict[int, float], *, levels: int = 0, steps: Sequence[int] = ()) -> tuple[Any, float]:
        """Minimise; returns the values and a lower bound.

        With `levels` the goal is the highest `steps[unit]` (from 0 to levels - 1) of those that go instead.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import coo_matrix

        size = self.size + (levels > 0)
        rows = list(self.rows)
        high = np.append(self.high, levels) if levels else self.high
        if levels:
            goal = {self.size: 1.0}
            rows += [({turn: float(step), self.size: -1.0}, -np.inf, 0.0) for turn, step in enumerate(steps) if step]
        data = [(value, r, c) for r, (row, _, _) in enumerate(rows) for c, value in row.items()]
        values, at, columns = zip(*data, strict=True)
        matrix = coo_matrix((values, (at, columns)), shape=(len(rows), size)).tocsr()
        weights = np.zeros(size)
        for column, value in goal.items():
            weights[column] = value
        options: dict[str, float] = {"mip_rel_gap": 0.0}
        if self.seconds is not None:
            options["time_limit"] = self.seconds
        kinds = np.append(np.ones(self.size), np.zeros(size - self.size))
        found = milp(
            weights,
            constraints=LinearConstraint(matrix, [row[1] for row in rows], [row[2] for row in rows]),
            bounds=Bounds(np.zeros(size), high),
            integrality=kinds,
            options=options,
        )
        if found.x is None:
            raise NoSolutionError(found.message)
        return found.x, float(found.mip_dual_bound)


def cheapest(problem: Problem, *, seconds: float | None = None) -> Optimum:
    """The cheapest eviction that makes room for all pods of all kinds. Raises NoSolutionError.

    `seconds`: the longest that each criterion is worked at; what is found then need not be the cheapest.
    """
    program = _Program(problem, seconds)
    units = program.units
    violations = {program.first_violation + i: 1.0 for i in range(len(program.charged))}
    if violations:
        values, _ = program.solve(violations)
        program.add(violations, -np.inf, round(sum(values[column] for column in violations)))
    steps = {priority: step for step, priority in enumerate(sorted({unit.priority for unit in units}))}
    # One more than its place: no eviction is lower than evicting the lowest.
    levels = [steps[unit.priority] + 1 for unit in units]
    values, _ = program.solve({}, levels=len(steps) + 1, steps=levels)
    highest = max((level for turn, level in enumerate(levels) if values[turn] > 0.5), default=0)
    for turn, level in enumerate(levels):
        if level > highest:
            program.high[turn] = 0.0
    breaks = {turn: float(unit.breaks) for turn, unit in enumerate(units) if unit.breaks}
    if problem.gangs and breaks:
        values, _ = program.solve(breaks)
        program.add(breaks, -np.inf, round(sum(breaks[turn] for turn in breaks if values[turn] > 0.5)))
    # The sum of priorities with its offset: fewest pods first, then the smaller sum (they are far below the offset).
    assert sum(abs(unit.priority) * unit.pods for unit in units) < OFFSET
    pods = {turn: float(unit.pods) for turn, unit in enumerate(units)}
    values, bound = program.solve(pods)
    fewest = sum(unit.pods for turn, unit in enumerate(units) if values[turn] > 0.5)
    proven = bound > fewest - 1 + 1e-6
    if proven:
        program.add(pods, -np.inf, fewest)
        sums = {turn: float(unit.priority * unit.pods) for turn, unit in enumerate(units) if unit.priority}
        if len({unit.priority for unit in units}) > 1:
            values, _ = program.solve(sums)
            program.add(sums, -np.inf, sum(v for turn, v in sums.items() if values[turn] > 0.5))
        stuck = {turn: float(unit.stuck) for turn, unit in enumerate(units) if unit.stuck}
        if problem.gangs and stuck:
            values, _ = program.solve(stuck)
            program.add(stuck, -np.inf, sum(number for turn, number in stuck.items() if values[turn] > 0.5))
        late = sorted({unit.start for unit, level in zip(units, levels, strict=True) if level == highest}, reverse=True)
        if len(late) > 1:
            ages = [late.index(u.start) + 1 if level == highest else 0 for u, level in zip(units, levels, strict=True)]
            values, _ = program.solve({}, levels=len(late) + 1, steps=ages)
    victims = tuple(unit.name for turn, unit in enumerate(units) if values[turn] > 0.5)
    return Optimum(problem.price(victims), victims, proven, bound)


def cheapest_by(problem: Problem, cost: Sequence[str], *, seconds: float | None = None) -> Optimum:
    """The cheapest eviction by a list of criteria, solved one after the other. Raises NoSolutionError.

    `proven`: the solver was not stopped. Starts count among the victims of the highest priority, which has to be before
    them in the list.
    """
    program = _Program(problem, seconds)
    units, values, proven, highest = program.units, np.zeros(program.size), True, 0
    priorities = sorted({unit.priority for unit in units})
    for name in cost:
        if name in ("highestPriority", "startTime"):
            if name == "highestPriority":
                steps = [priorities.index(unit.priority) + 1 for unit in units]
            else:
                late = sorted({unit.start for unit in units if unit.priority == highest}, reverse=True)
                steps = [late.index(unit.start) + 1 if unit.priority == highest else 0 for unit in units]
            values, _ = program.solve({}, levels=max(steps, default=0) + 1, steps=steps)
            reached = max((step for turn, step in enumerate(steps) if values[turn] > 0.5), default=0)
            for turn, step in enumerate(steps):
                if step > reached:
                    program.high[turn] = 0.0
            if name == "highestPriority" and reached:
                highest = priorities[reached - 1]
            continue
        if name == "tenantSpread":
            values = program.spread_tenants()
            continue
        if name == "pdbViolations":
            goals = [{program.first_violation + turn: 1.0 for turn in range(len(program.charged))}]
        elif name == "prioritySum":  # the offset hides the rest from the solver
            goals = [{turn: 1.0 * unit.pods for turn, unit in enumerate(units)}]
            goals.append({turn: 1.0 * unit.pods * unit.priority for turn, unit in enumerate(units)})
        else:
            goals = [{turn: 1.0 * SUMS[name](unit) for turn, unit in enumerate(units)}]
        for goal in goals:
            scale = max(map(abs, goal.values()), default=0.0)
            if not scale:
                continue
            goal = {column: value / scale for column, value in goal.items() if value}
            values, bound = program.solve(goal)
            amount = sum(value for column, value in goal.items() if values[column] > 0.5)
            proven = proven and bound >= amount - 1e-6 * max(1.0, amount)
            program.add(goal, -np.inf, amount + 1e-7)
    victims = tuple(unit.name for turn, unit in enumerate(units) if values[turn] > 0.5)
    return Optimum(problem.price_by(cost, victims), victims, proven)
