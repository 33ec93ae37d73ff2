"""The remaining allowances of budgets and gangs beside the evicted units.

A unit weighs more while evicting it would exceed a budget or break its gang, and no more once the gang is broken. Both
counts follow from the set of evicted units alone, whatever the order in which they were evicted.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from reprieve.preemption.victim_search.problem import Numbers

_FEW_CHARGES = 256
"""Above this number, charges of units evicted together are summed for all budgets at once."""
BROKEN_BUDGET = float(1 << 50)
BROKEN_GANG = float(1 << 42)
"""Weights above any likely sum of priorities."""


class BudgetCharges:
    """The allowance of each budget beside the evicted units.

    `left[budget]`: further disruptions; `over[unit]`: number of budgets that evicting the unit would exceed; `weight`:
    of a violated budget, above anything else if budgets come first; 0 if they do not count.
    """

    def __init__(
        self, charged: Sequence[Sequence[tuple[int, int]]], allowed: Sequence[int], weight: float = BROKEN_BUDGET
    ) -> None:
        self._charged, self._allowed = charged, allowed
        self.left = list(allowed)
        self.over = [sum([allowed[budget] < count for budget, count in pairs]) for pairs in charged]
        self.weight = weight if allowed else 0.0
        self._units_of = _by_count(charged, len(allowed))
        self._budgets_of: dict[int, frozenset[int]] = {}
        self.counted = 0
        """Steps taken here, as `search.STEPS` counts them."""

    def charge(self, unit: int, sign: int) -> list[int]:
        """Charge the unit (`sign` 1) or undo it (-1). Return the units that now exceed any budget, or none."""
        left, over, turning = self.left, self.over, 0 if sign > 0 else 1
        turned: list[int] = []
        for budget, count in self._charged[unit]:
            before = left[budget]
            after = left[budget] = before - sign * count
            low, high = (after, before) if after < before else (before, after)
            for pods, units in self._units_of[budget].items():
                if low < pods <= high:
                    turned += [charged for charged in units if over[charged] == turning]
                    for charged in units:
                        over[charged] += sign
        return turned

    def violating(self, units: Sequence[int]) -> int:
        """Count those of these units that would exceed a budget, evicted in turn beside the evicted ones."""
        budgets = [self._budgets(unit) for unit in units]
        if len(set().union(*budgets)) == sum(map(len, budgets)):  # no budget counts two of the units
            return sum([self.over[unit] > 0 for unit in units])
        return sum(_walk([self._charged[unit] for unit in units], self.left))

    def broken(self, order: Sequence[int]) -> list[bool]:
        """Return which of the units, in order of importance, violate a budget if they and no others are evicted."""
        if not self._allowed:
            return [False] * len(order)
        charged = [self._charged[unit] for unit in order]
        charges = sum(map(len, charged))
        self.counted += (len(self._allowed) + charges) // 64
        return _walk(charged, self._allowed) if charges <= _FEW_CHARGES else self._broken_at_once(order)

    def _broken_at_once(self, order: Sequence[int]) -> list[bool]:
        """Return the same by a pass over all charges: for each budget those of evicted units, summed by importance."""
        units, pods, first, allowed = self._charges
        evicted = np.zeros(len(self._charged), dtype=np.bool_)
        order = list(order)  # numpy takes a tuple as one index of several dimensions
        evicted[order] = True
        counting = evicted[units]
        sums = np.cumsum(np.where(counting, pods, 0))
        broken = np.zeros(len(evicted), dtype=np.bool_)
        broken[units[counting & (sums - np.where(first > 0, sums[first - 1], 0) > allowed)]] = True
        violates: list[bool] = broken[order].tolist()
        return violates

    @cached_property
    def _charges(self) -> tuple[npt.NDArray[np.int64], ...]:
        """Return by budget and importance, `int64[charges]` each: unit, pods, its first charge and its allowance."""
        charged, allowed = self._charged, np.array(self._allowed, dtype=np.int64)
        units = np.repeat(np.arange(len(charged)), list(map(len, charged)))
        pairs = np.fromiter(chain.from_iterable(chain.from_iterable(charged)), np.int64, 2 * len(units)).reshape(-1, 2)
        order = np.argsort(pairs[:, 0], kind="stable")
        budgets, pods = pairs[order].T
        return units[order], pods, np.searchsorted(budgets, budgets), allowed[budgets]

    def _budgets(self, unit: int) -> frozenset[int]:
        budgets = self._budgets_of.get(unit)
        if budgets is None:
            budgets = self._budgets_of[unit] = frozenset([budget for budget, _ in self._charged[unit]])
        return budgets


class GangLosses:
    """The number of pods that gangs can lose beside the evicted units.

    `slack[gang]`: further pods that it can lose, below zero when it is broken; `breaks[unit]`: number of gangs that
    break with the unit; `weight`: of one broken gang.
    """

    def __init__(self, numbers: Numbers) -> None:
        gangs = numbers.gangs
        self._allowed: Sequence[int] = gangs.slack if gangs is not None else ()
        self.slack = list(self._allowed)
        self._on = numbers.on
        self.lost = gangs.lost if gangs is not None and gangs.slack else ((),) * len(numbers.units)
        self.breaks = [sum([self.slack[gang] < count for gang, count in pairs]) for pairs in self.lost]
        self.weight = BROKEN_GANG if numbers.pricing is None else numbers.pricing.weights.gang
        self._units_of = _by_count(self.lost, len(self.slack))
        several = [sum(map(len, sizes.values())) > 1 for sizes in self._units_of]
        self._shared = {
            unit: pairs
            for unit, lost in enumerate(self.lost)
            if (pairs := tuple([pair for pair in lost if several[pair[0]]]))
        }
        """By unit, the pods that it takes from gangs with several units."""
        self._alone = [
            sum([self._allowed[gang] < count for gang, count in pairs if not several[gang]]) for pairs in self.lost
        ]
        """By unit: number of gangs that break with it and have no other unit."""

    def lose(self, unit: int, sign: int) -> list[tuple[int, int]]:
        """Take the unit's pods from its gangs (`sign` 1) or give them back (-1).

        Return (unit, additional gangs that break with it) for units where that changed.
        """
        turned: list[tuple[int, int]] = []
        for gang, count in self.lost[unit]:
            before = self.slack[gang]
            after = self.slack[gang] = before - sign * count
            for pods, units in self._units_of[gang].items():
                change = (0 <= after < pods) - (0 <= before < pods)
                if change:
                    for member in units:
                        self.breaks[member] += change
                        turned.append((member, change))
        return turned

    def broken(self, units: Sequence[int]) -> int:
        """Count the gangs that break if only these units are evicted."""
        alone = sum(map(self._alone.__getitem__, units))
        if not self._shared:
            return alone
        return alone + sum([slack < 0 for slack in self._slack_after(units, self._allowed).values()])

    def breaking(self, units: Sequence[int]) -> int:
        """Count the gangs that these units break only together, beside the evicted ones."""
        if self._shared.keys().isdisjoint(units):
            return 0
        slack, shared = self.slack, self._shared
        alone = sum([0 <= slack[gang] < count for unit in units for gang, count in shared.get(unit, ())])
        together = self._slack_after(units, slack)
        return sum([after < 0 <= slack[gang] for gang, after in together.items()]) - alone

    def members(self) -> list[tuple[int, ...]]:
        """Return the units of each gang with pods in several units."""
        by_gang = [tuple(sorted([unit for units in sizes.values() for unit in units])) for sizes in self._units_of]
        return [units for units in by_gang if len(units) > 1]

    @cached_property
    def shared(self) -> list[int]:
        """Return by unit the most units of its gang on any one node, which together break it once."""
        most = [1] * len(self.slack)
        for units in self._on:
            counts = Counter([gang for unit in units for gang, _ in self.lost[unit]])
            for gang, count in counts.items():
                most[gang] = max(most[gang], count)
        return [max([most[gang] for gang, _ in pairs], default=1) for pairs in self.lost]

    def _slack_after(self, units: Sequence[int], before: Sequence[int]) -> dict[int, int]:
        """Return the slack after evicting the units, by gang of several units."""
        slack: dict[int, int] = {}
        for unit in units:
            for gang, count in self._shared.get(unit, ()):
                slack[gang] = slack.get(gang, before[gang]) - count
        return slack


def _by_count(pairs_of: Sequence[Sequence[tuple[int, int]]], count: int) -> list[dict[int, list[int]]]:
    """Return by budget or gang, and number of pods, the units charged with that number."""
    units_of: list[dict[int, list[int]]] = [{} for _ in range(count)]
    for unit, pairs in enumerate(pairs_of):
        for number, pods in pairs:
            units_of[number].setdefault(pods, []).append(unit)
    return units_of


def _walk(charged: Sequence[Sequence[tuple[int, int]]], allowed: Sequence[int]) -> list[bool]:
    """Charge units one after the other; return which of them exceed a budget."""
    left: dict[int, int] = {}
    broken = []
    for pairs in charged:
        over = False
        for budget, count in pairs:
            rest = left[budget] = left.get(budget, allowed[budget]) - count
            over = over or rest < 0
        broken.append(over)
    return broken
