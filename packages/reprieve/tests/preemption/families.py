"""Families of small random problems for the searches for victims, solved by every eviction, and what is counted."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from reprieve.preemption.cost import Costing, criteria_of, pricing_of
from reprieve.preemption.victim_search.eviction import Eviction, Price
from reprieve.preemption.victim_search.problem import Gangs, Numbers
from tests.preemption import tiny
from tests.preemption.exact import Problem, Unit

TENANTS = ("pdbViolations", "tenantSpread", "prioritySum", "units")
LATER = ("pods", "highestPriority", "pdbViolations", "startTime")
GANGS = ("highestPriority", "gangsBroken", "pdbViolations", "units", "prioritySum")
LISTED = ("pdbViolations", "highestPriority", "units", "startTime")


class Counts(NamedTuple):
    """What a row counts."""

    solvable: int
    cheapest: int
    victims: int
    steps: int


@dataclass(frozen=True)
class Family:
    """Random problems. `cost`: the list of criteria, empty for a native one; `gangs`: some break."""

    kinds: int = 1
    budgets: int = 0
    gangs: bool = False
    cost: tuple[str, ...] = ()
    exact: bool = True
    units: int = 9
    most_pods: int = 3
    same_priority: bool = False
    problems: int = 14
    usable: float = 1.0
    """The chance of each node that a kind may use it."""

    @cached_property
    def solved(self) -> list[Solved]:
        """The problems, with the cost of the cheapest eviction."""
        return [solved_of(*self._problem(random.Random(seed))) for seed in range(self.problems)]

    def _problem(self, chance: random.Random) -> tuple[Problem, Numbers]:
        """Four nodes that units fill, some of them on two nodes, and a group that wants much of it."""
        nodes = range(4)
        free = [(chance.randint(3, 6), chance.randint(1, 4)) for _ in nodes]
        left = [list(have) for have in free]
        allowed = {f"b{number}": chance.randint(0, 2) for number in range(self.budgets)}
        units = list[Unit]()
        while len(units) < self.units:
            takes: dict[int, tuple[int, ...]] = {}
            for node in chance.sample(nodes, chance.choice((1, 1, 2))):
                takes[node] = tuple(min(have, chance.randint(0, 2)) for have in left[node])
                left[node] = [have - amount for have, amount in zip(left[node], takes[node], strict=True)]
            priority, start = chance.choice((1, 2, 3)), float(chance.randint(0, 3))
            if self.same_priority:
                priority, start = 1, 0.0
            charged = {name: 1 for name in allowed if chance.random() < 0.5}
            takes = {node: amounts for node, amounts in takes.items() if any(amounts)}
            name, pods = f"u{len(units):02}", max(1, len(takes))
            units.append(tiny.unit(name, takes, priority=priority, pods=pods, start=start, charged=charged))
        kinds = []
        for turn in range(self.kinds):
            wants = chance.randint(1, 3), chance.randint(0, 1 + (turn == 0))
            if self.most_pods == 1:
                wants = chance.randint(3, 5), chance.randint(1, 3)
            count, places = chance.randint(min(2, self.most_pods), self.most_pods), list(nodes)
            if self.usable < 1:
                places = [node for node in nodes if chance.random() < self.usable]
            kinds.append(tiny.kind(wants, count, places))
        made = tiny.problem(free, units, kinds, **allowed)
        return made, self._numbers(made, chance)

    def _numbers(self, made: Problem, chance: random.Random) -> Numbers:
        numbers = tiny.numbers(made, exact=self.exact)
        sizes = [len(unit.pods) for unit in numbers.units]
        if self.gangs:
            lost = tuple(((chance.randrange(3), size),) if chance.random() < 0.7 else () for size in sizes)
            stuck = tuple(chance.randint(0, size) for size in sizes) if not self.cost else ()
            numbers = replace(numbers, gangs=Gangs(lost, (0, 1, 2)), restartless=stuck)
        if not self.cost:
            return numbers
        costing: Any = object.__new__(Costing)
        costing.cluster = costing.evaluator = None
        costing.slack, costing.scheduled, costing.stuck = {}, {}, frozenset()
        for unit in numbers.units:
            pods: Any = unit.pods
            for pod in pods:
                pod.namespace, pod.group = f"n{chance.randrange(3)}", None
        violates = [any(numbers.allowed[budget] < count for budget, count in pairs) for pairs in numbers.charged]
        return replace(numbers, pricing=pricing_of(criteria_of(self.cost), numbers.units, violates, costing))


class Solved(NamedTuple):
    """A problem, and every eviction in which no unit could stay, the cheapest first."""

    problem: Problem
    numbers: Numbers
    evictions: list[tuple[Price, tuple[int, ...]]]


def solved_of(made: Problem, numbers: Numbers) -> Solved:
    enough = set(map(frozenset, tiny.evictions(made)))
    number = {unit.name: turn for turn, unit in enumerate(made.units)}
    minimal = [gone for gone in enough if not any(gone - {name} in enough for name in gone)]
    state = Eviction(numbers)
    evictions = [tuple(sorted(number[name] for name in gone)) for gone in minimal]
    return Solved(made, numbers, sorted((state.price_of(units), units) for units in evictions))


Found = tuple[Sequence[int], Price]


def counted(family: Family, find: Callable[[Solved], tuple[Found | None, int]]) -> Counts:
    solvable = cheapest = victims = steps = 0
    for solved in family.solved:
        solvable += bool(solved.evictions)
        found, taken = find(solved)
        steps += taken
        if found is not None:
            assert Eviction(solved.numbers).price_of(found[0]) == found[1] >= solved.evictions[0][0]
            assert tiny.fits(solved.problem, tiny.names(solved.problem, found[0]))
            cheapest += found[1] == solved.evictions[0][0]
            victims += len(found[0])
    return Counts(solvable, cheapest, victims, steps)


FAMILIES = {
    "like": Family(),
    "budgets": Family(budgets=2),
    "broken gangs": Family(gangs=True, budgets=1),
    "rules": Family(exact=False, budgets=1),
    "two kinds": Family(kinds=2, budgets=2),
    "three kinds": Family(kinds=3, gangs=True, units=8),
    "tenants": Family(budgets=2, cost=TENANTS),
    "later": Family(kinds=2, budgets=2, cost=LATER, problems=8),
    "listed": Family(budgets=1, cost=LISTED),
    "listed gangs": Family(kinds=2, budgets=1, gangs=True, cost=GANGS),
    "one pod": Family(gangs=True, budgets=2, most_pods=1),
    "one pod, listed": Family(budgets=2, most_pods=1, cost=LISTED),
}
Table = dict[str, tuple[int, int, int, int]]


def table_of(find: Callable[[Solved], tuple[Found | None, int]], *names: str) -> Table:
    return {name: counted(FAMILIES[name], find) for name in names}
