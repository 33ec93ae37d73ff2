"""An eviction under trial: the evicted units, whether the group's pods fit beside the others, and its cost.

Every change can be undone (`mark`, `rollback`), so the search works in place without copies.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from reprieve.preemption.criteria import PRIORITY_OFFSET
from reprieve.preemption.outcome import Cost
from reprieve.preemption.victim_search.charges import BROKEN_BUDGET, BudgetCharges, GangLosses
from reprieve.preemption.victim_search.mixed_pods import MixedPods
from reprieve.preemption.victim_search.problem import Amounts, Numbers
from reprieve.preemption.victim_search.similar_pods import SimilarPods

Price = tuple[int, int, Cost]
"""Violations and highest priority if they decide before all else (otherwise 0), and the cost by each criterion."""
NO_EVICTION: Price = (0, -(1 << 62), ())
_LITTLE = 1 / 64
"""The weight of the start beside pods that cannot restart elsewhere at once."""
Mark = tuple[int, int]
"""A point for a rollback: positions in the logs of units and of places."""


@dataclass(frozen=True, slots=True)
class UnitWeights:
    """Weights of single units, `[units]` each.

    `weight`: guides the trials; `start`: seconds since the epoch; `age`: from 0 for the last start to less than a
    quarter, where pods that cannot restart elsewhere at once count half; `size`: the share of all free amounts, summed
    over resources.
    """

    weight: Sequence[float]
    start: Sequence[float]
    age: Sequence[float]
    size: Sequence[float]

    @classmethod
    def of(cls, numbers: Numbers) -> "UnitWeights":
        """Weigh the units of a search."""
        units, pricing = numbers.units, numbers.pricing
        start = [unit.start for unit in units]
        turns = {latest: turn for turn, latest in enumerate(sorted(set(start), reverse=True))}
        age = [turns[item] / (4.0 * len(turns)) for item in start]
        if numbers.restartless:
            age = [count / 2 + early * _LITTLE for count, early in zip(numbers.restartless, age, strict=True)]
        whole = [max(1, sum(max(0, amounts[r]) for amounts in numbers.free)) for r in range(len(numbers.free[0]))]
        return cls(
            pricing.weights.units
            if pricing
            else [(unit.priority + PRIORITY_OFFSET) * len(unit.pods) for unit in units],
            start,
            age,
            [
                sum(amount / whole[r] for _, amounts in takes for r, amount in enumerate(amounts) if amount > 0)
                for takes in numbers.takes
            ],
        )


class Eviction:
    """See the module docstring.

    `evicted`: units; `barred`: those that may not be evicted; `heavy[unit]`: its weight, with that of the
    gangs that break with it, and of a budget if evicting it exceeds any; `changed`: nodes that
    have changed since last examined; `dearer`: nodes on which units have come to violate a budget or break a gang.
    """

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers
        self.evicted: set[int] = set()
        self.barred: set[int] = set()
        self.changed: set[int] = set(range(len(numbers.free)))
        self.dearer: set[int] = set()
        self.weights = UnitWeights.of(numbers)
        pricing, tenants = numbers.pricing, numbers.tenants
        weight = BROKEN_BUDGET if pricing is None or pricing.budgets_first else pricing.weights.budget
        self.budgets, self.gangs = BudgetCharges(numbers.charged, numbers.allowed, weight), GangLosses(numbers)
        self._limits = [self.budgets]
        """Budgets, and limits of the pods that each namespace should lose, which weigh but are no violations."""
        if tenants is not None and pricing is not None:
            self._limits.append(BudgetCharges(tenants.charged, tenants.allowed, pricing.weights.tenant))
        self.heavy = [self._weight(unit) for unit in range(len(numbers.units))]
        self.share: list[dict[int, Amounts]] = [{} for _ in numbers.free]
        """By node: the amounts of each unit there."""
        left = [list(amounts) for amounts in numbers.free]
        for unit, takes in enumerate(numbers.takes):
            for node, amounts in takes:
                self.share[node][unit] = amounts
                left[node] = [have - amount for have, amount in zip(left[node], amounts, strict=True)]
        pods: type[SimilarPods | MixedPods] = SimilarPods if len(numbers.kinds) == 1 else MixedPods
        self.places = pods(numbers, left, self.changed)
        self._log: list[int] = []
        """Log of units that were evicted or restored; bitwise inverted: that were barred or unbarred."""
        self._priced = 0
        self._pods = [len(unit.pods) for unit in numbers.units]
        priorities = [-unit.priority for unit in numbers.units]
        self._less_important = [bisect_right(priorities, priority) for priority in priorities]
        """By unit: the first unit of lower priority."""

    @property
    def counted(self) -> int:
        """Steps taken here, as `search.STEPS` counts them."""
        return self._priced + self.budgets.counted + self.places.counted

    @cached_property
    def shares(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the shares of units by node: units, nodes: `int64[shares]`; amounts: `int64[shares, resources]`."""
        takes = self.numbers.takes
        units = np.repeat(np.arange(len(takes)), [len(take) for take in takes])
        nodes = np.array([node for take in takes for node, _ in take], dtype=np.int64)
        amounts = np.array([amounts for take in takes for _, amounts in take], dtype=np.int64)
        order = np.argsort(nodes, kind="stable")
        return units[order], nodes[order], amounts.reshape(len(nodes), len(self.numbers.kinds[0].wants))[order]

    # -- changes, each of which can be undone ----------------------------------------------------------------------

    def mark(self) -> Mark:
        """Return the point for a rollback."""
        return len(self._log), self.places.mark()

    def rollback(self, mark: Mark) -> None:
        """Undo everything since the mark; changes that were already reverted are skipped."""
        odd: dict[int, None] = {}
        for entry in self._log[mark[0] :]:
            if odd.pop(entry, self) is self:
                odd[entry] = None
        del self._log[mark[0] :]
        moved = []
        for entry in odd:
            if entry < 0:
                self._bar(~entry)
            else:
                sign = -1 if entry in self.evicted else 1
                self._move(entry, sign)
                moved.append((entry, sign))
        self.places.take_back(mark[1], moved)

    def keep(self) -> None:
        """Clear the log: the changes can no longer be undone."""
        self._log.clear()
        self.places.keep()

    def evict(self, unit: int) -> None:
        """Evict the unit."""
        self._log.append(unit)
        self._move(unit, 1)
        self.places.free(unit)

    def restore(self, unit: int) -> None:
        """Keep the unit again."""
        self._log.append(unit)
        self._move(unit, -1)
        self.places.hold(unit)

    def fits(self) -> bool:
        """Return whether all pods of the group fit; place those that are missing."""
        return self.places.settle() or self.places.repack()

    def bar(self, unit: int) -> None:
        """Forbid evicting the unit from now on."""
        if unit not in self.barred:
            self._log.append(~unit)
            self._bar(unit)

    def unbar(self, unit: int) -> None:
        """Allow evicting the unit again."""
        if unit in self.barred:
            self._log.append(~unit)
            self._bar(unit)

    def touched(self, mark: Mark) -> set[int]:
        """Return nodes on which units or pods have changed since the mark."""
        takes = self.numbers.takes
        nodes = {node for entry in self._log[mark[0] :] if entry >= 0 for node, _ in takes[entry]}
        return nodes | self.places.touched(mark[1])

    # -- cost ------------------------------------------------------------------------------------------------------

    def price(self) -> Price:
        """Return the cost of the eviction, by the criteria; budgets are counted over the evicted units."""
        return self.price_of(sorted(self.evicted))

    def price_of(self, order: Sequence[int]) -> Price:
        """Return the cost of these units, given in order of importance."""
        if not order:
            return NO_EVICTION
        units, pricing = self.numbers.units, self.numbers.pricing
        broken = self.budgets.broken(order)
        violations, highest = sum(broken), units[order[0]].priority
        if pricing is not None:
            cost = pricing.price(order, broken, self.gangs.broken(order))
            self._priced += 1 + len(order) // 8
            return (violations if pricing.budgets_first else 0), (highest if pricing.by_limit else 0), cost
        # Hundreds of evictions of hundreds of units each are priced: avoid interpreted loops over units.
        as_high = order[: bisect_left(order, self._less_important[order[0]])]
        earliest = min(map(self.weights.start.__getitem__, as_high))
        total = sum(map(self.weights.weight.__getitem__, order))
        pods = sum(map(self._pods.__getitem__, order))
        if self.numbers.gangs is None:
            return violations, highest, (total, pods, -earliest)
        restartless = pods if self.numbers.all_restartless else 0
        if self.numbers.restartless:
            restartless = sum(map(self.numbers.restartless.__getitem__, order))
        return violations, highest, (self.gangs.broken(order), total, pods, restartless, -earliest)

    @property
    def lowest(self) -> int:
        """Return the least priority that the most important victim can have."""
        return self.numbers.units[-1].priority if self.numbers.units else 0

    def violates(self, unit: int) -> bool:
        """Return whether evicting one more unit would exceed a budget beside the evicted ones."""
        return self.budgets.over[unit] > 0

    def weigh(self, units: Sequence[int]) -> float:
        """Return the weight of units evicted together beside the evicted ones."""
        heavy, age = self.heavy, self.weights.age
        weight = sum([heavy[unit] + age[unit] for unit in units])
        if len(units) > 1:
            for limit in self._limits:
                if limit.weight:
                    alone = sum([limit.over[unit] > 0 for unit in units])
                    if alone < len(units):
                        weight += (limit.violating(units) - alone) * limit.weight
            weight += self.gangs.breaking(units) * self.gangs.weight
        return weight

    def least_heavy(self) -> list[float]:
        """Return by unit its share in the least total weight of units of one node, which break their gang only once."""
        gangs = self.gangs
        if not gangs.slack:
            return self.heavy
        broken = [count * gangs.weight for count in gangs.breaks]
        return [
            heavy - weight + weight / units
            for heavy, weight, units in zip(self.heavy, broken, gangs.shared, strict=True)
        ]

    # -- internals -------------------------------------------------------------------------------------------------

    def _move(self, unit: int, sign: int) -> None:
        """Count the unit as evicted (`sign` 1) or not (-1)."""
        takes, heavy = self.numbers.takes, self.heavy
        if sign > 0:
            self.evicted.add(unit)
        else:
            self.evicted.remove(unit)
        for limit in self._limits:
            for turned in limit.charge(unit, sign):
                heavy[turned] = self._weight(turned)
                (self.dearer if sign > 0 else self.changed).update([node for node, _ in takes[turned]])
        for turned, change in self.gangs.lose(unit, sign):
            heavy[turned] = self._weight(turned)
            (self.dearer if change > 0 else self.changed).update([node for node, _ in takes[turned]])

    def _bar(self, unit: int) -> None:
        self.barred ^= {unit}
        self.changed.update(node for node, _ in self.numbers.takes[unit])

    def _weight(self, unit: int) -> float:
        weight = self.weights.weight[unit] + self.gangs.breaks[unit] * self.gangs.weight
        for limit in self._limits:
            if limit.over[unit]:
                weight += limit.weight
        return weight
