"""Costs of evictions on many rows at once, and their lower bounds, by the native criteria.

All functions work on `UnitColumns`: matrices with the units of a row in one column, [..., depth, rows]. They consider
only resources. A reprieve visits the units by turn, the first unit of all rows, then the second; each is put back if it
leaves enough capacity (preemption.md 3.4).
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from reprieve.framework.plugin import Mask
from reprieve.preemption.criteria import PRIORITY_OFFSET
from reprieve.preemption.unit_matrices import ABOVE_ALL, Counts, UnitColumns

Costs = npt.NDArray[np.float64]
"""float64[PARTS, rows]: the parts of a `Cost`, in the default order."""
VIOLATIONS, HIGHEST, GANGS, WEIGHT, PODS, RESTARTLESS, LATEST = range(7)
PARTS: Final = 7


class JudgedUnits:
    """The units of some rows, and which of them are evicted.

    `lack`: int64[requests, rows], missing amounts with all units. `short`: bool[requests, rows], missing resources
    without all of them. `occupied`: bool[rows], whether there are potential victims.
    """

    def __init__(self, units: UnitColumns, left: Counts) -> None:
        self._units = units
        self.occupied: Mask = np.logical_or.reduce(units.below, axis=0)
        self.lack: Counts = np.maximum(-left, 0)
        left = left + units.amounts.sum(axis=1)
        self.short: Mask = left < 0
        self._good = self.occupied & ~self.short.any(axis=0)
        self._gone = self._reprieved(left)
        self._one_priority, self._highest = self._priorities()
        self._begun = bool(units.begun.min() < np.inf)
        self.cost = self._costs()

    def _reprieved(self, left: Counts) -> Mask:
        """Return bool[depth, rows]: evicted units. Those that violate a budget are tried first, then the others."""
        units = self._units
        evicted = _gone(units.amounts, left, units.violates)
        if units.standing is not None:
            order = np.argsort(units.standing, axis=0, kind="stable")
            reordered = np.flatnonzero((order[1:] < order[:-1]).any(axis=0))
            if len(reordered):
                order = order[:, reordered]
                amounts = np.take_along_axis(units.amounts[..., reordered], order[None], axis=1)
                violates = np.take_along_axis(units.violates[:, reordered], order, axis=0)
                in_order = _gone(amounts, left[:, reordered], violates)
                moved = np.empty_like(in_order)
                np.put_along_axis(moved, order, in_order, axis=0)
                evicted[:, reordered] = moved
        evicted &= self._good
        return evicted

    def _priorities(self) -> tuple[Mask, Counts]:
        """Return whether all potential victims of a row have one priority, and the highest priority of each row."""
        units = self._units
        lowest = units.priority.min(axis=0)
        highest = units.priority[0]
        if not units.below[0].all():
            highest = np.where(units.below, units.priority, -ABOVE_ALL).max(axis=0)
        return (lowest == highest) | ~self.occupied, highest

    def _costs(self) -> Costs:
        """Return the parts of the cost of the evicted units; zeros if there are none."""
        units, evicted = self._units, self._gone
        cost = np.zeros((PARTS, evicted.shape[1]), dtype=np.float64)
        cost[PODS] = pods = (units.size * evicted).sum(axis=0)
        any_evicted = pods > 0
        highest = self._highest
        if not self._one_priority.all():
            highest = np.where(evicted, units.priority, -ABOVE_ALL).max(axis=0)
        if units.violates.any():
            cost[VIOLATIONS] = (units.violates & evicted).sum(axis=0)
        cost[HIGHEST] = np.where(any_evicted, highest, 0)
        cost[WEIGHT] = (units.weight * evicted).sum(axis=0)
        if units.gang is not None and units.slack is not None and units.breaks is not None:
            cost[GANGS] = _broken(units.gang, units.slack, evicted & units.below)
            cost[GANGS] += np.where(units.gang < 0, units.breaks * evicted, 0).sum(axis=0)
        if units.restartless is not None:
            cost[RESTARTLESS] = (units.restartless * evicted).sum(axis=0)
        if self._begun:
            first = np.where(evicted & (units.priority == highest), units.begun, np.inf).min(axis=0)
            cost[LATEST] = np.where(any_evicted, -first, 0)
        else:
            cost[LATEST, any_evicted] = -np.inf
        return cost

    def least(self, highest_known: float, worth: float) -> Costs:
        """Return a lower bound of the cost of any set of units that covers the missing amounts.

        The number of units is bounded by the largest ones; one of them has the lowest sufficient priority, and the
        others weigh as much as the lightest. Budgets are ignored. Rows that may be cheaper than a known eviction
        (`highest_known`: its lowest priority, `worth`: its least weight) are counted exactly by the largest units.
        """
        units, lack = self._units, self.lack
        needed = np.ones(lack.shape[1], dtype=np.int64)
        for amounts, wanted in zip(units.amounts, lack, strict=True):
            if wanted.any():
                np.maximum(needed, -(-wanted // np.maximum(amounts.max(axis=0), 1)), out=needed)
        highest = self._highest
        if not self._one_priority.all():
            highest = highest.copy()
            mixed = np.flatnonzero(~self._one_priority)
            highest[mixed] = _lowest_that_suffices(units.priority[:, mixed], units.amounts[..., mixed], lack[:, mixed])
        lightest = np.where(units.below, units.weight, np.iinfo(np.int64).max).min(axis=0)
        weight = (needed - 1) * lightest + highest + PRIORITY_OFFSET
        hopeful = (highest < highest_known) | ((highest == highest_known) & (weight <= worth))
        doubtful = np.flatnonzero(hopeful & (needed < self.cost[PODS]))
        if len(doubtful):
            needed[doubtful] = np.maximum(_fewest(units.amounts[..., doubtful], lack[:, doubtful]), 1)
            weight = (needed - 1) * lightest + highest + PRIORITY_OFFSET
        least = np.zeros_like(self.cost)
        least[HIGHEST], least[WEIGHT], least[PODS] = highest, weight, needed
        if units.breaks is not None:
            least[GANGS] = np.where(units.below, units.breaks, ABOVE_ALL).min(axis=0)
        if units.restartless is not None:
            least[RESTARTLESS] = needed * np.where(units.below, units.restartless, ABOVE_ALL).min(axis=0)
        least[LATEST] = -self._latest_start(highest, needed)
        return least

    def _latest_start(self, highest: Counts, needed: Counts) -> npt.NDArray[np.float64]:
        """Return float64[rows]: the latest possible start of that number of units with that highest priority."""
        units = self._units
        below, begun = units.below, units.begun
        if not self._begun:
            return np.full(begun.shape[1], np.inf)
        number = below.sum(axis=0)
        first = np.zeros_like(number) if below[0].all() else below.argmax(axis=0)
        start: npt.NDArray[np.float64] = begun[first + number - np.minimum(needed, number), np.arange(begun.shape[1])]
        # Of identical units, in order of their start, only the last ones start later than the first evicted one.
        same = (units.priority[1:] == units.priority[:-1]) & (units.size[1:] == units.size[:-1])
        like = ((same & (begun[1:] >= begun[:-1])) | ~(below[1:] & below[:-1])).all(axis=0)
        if not like.all():
            newest = np.where(below & (units.priority == highest), begun, -np.inf).max(axis=0)
            start = np.where(like, start, newest)
        return start

    def priorities_alike(self) -> tuple[Counts, Counts]:
        """Return two int64[rows]: the lowest and the highest preemptor priority with the same potential victims."""
        units = self._units
        low = np.where(self.occupied, self._highest + 1, -ABOVE_ALL)
        high = np.where(units.below, ABOVE_ALL, units.priority).min(axis=0)
        return low, high

    @property
    def spans(self) -> Mask:
        """Return bool[rows]: whether a unit has pods on other rows, or may get some."""
        result: Mask = np.logical_or.reduce(self._units.spans, axis=0)
        return result


def _gone(amounts: Counts, left: Counts, violates: Mask) -> Mask:
    """Return bool[depth, rows]: evicted units, in the order of the units; budget violators are tried first."""
    evicted = _to_go(amounts, left)
    torn = np.flatnonzero(violates.any(axis=0))
    if len(torn):
        amounts, left, violates = amounts[..., torn], left[:, torn], violates[:, torn]
        both = _to_go(amounts, left, violates)
        left = left - (amounts * (violates & ~both)).sum(axis=1)
        evicted[:, torn] = np.where(violates, both, _to_go(amounts, left, ~violates))
    return evicted


def _broken(gang: Counts, slack: Counts, evicted: Mask) -> Counts:
    """Return int64[rows]: number of gangs that break with the evicted pods, for gangs that are evicted pod by pod.

    `gang`: int64[depth, rows], the turn of the first pod of the unit's gang on the row, -1 for none; `slack`: of it.
    """
    lost = np.zeros(gang.shape, dtype=np.int64)
    turns, rows = np.nonzero(evicted & (gang >= 0))
    np.add.at(lost, (gang[turns, rows], rows), 1)
    first = gang == np.arange(len(gang))[:, None]
    result: Counts = (first & (lost > slack)).sum(axis=0)
    return result


def _to_go(amounts: Counts, left: Counts, tried: Mask | None = None) -> Mask:
    """Return bool[depth, rows]: units that cannot be put back, one by one; only units in `tried`, if given.

    `amounts`: int64[requests, depth, rows], `left`: int64[requests, rows] without all of them.
    """
    evicted = np.empty(amounts.shape[1:], dtype=np.bool_)
    left = left.copy()
    for turn in range(len(evicted)):
        wanted = amounts[:, turn]
        fits = (wanted <= left).all(axis=0)
        evicted[turn] = ~fits
        if tried is not None:
            evicted[turn] &= tried[turn]
            fits &= tried[turn]
        left -= wanted * fits
    return evicted


def _lowest_that_suffices(priority: Counts, amounts: Counts, lack: Counts) -> Counts:
    """Return int64[rows]: the least priority so that units up to it suffice; of the first unit if none does."""
    result: Counts = np.where(priority < ABOVE_ALL, priority, -ABOVE_ALL).max(axis=0)
    open_ = np.ones(len(result), dtype=np.bool_)
    covered = np.zeros_like(lack)
    for turn in range(len(priority) - 1, -1, -1):
        covered += amounts[:, turn]
        now = open_ & (covered >= lack).all(axis=0)
        result[now] = priority[turn, now]
        open_ &= ~now
    return result


def _fewest(amounts: Counts, lack: Counts) -> Counts:
    """Return int64[rows]: minimum number of units for the missing amounts, each resource alone."""
    needed = np.zeros(lack.shape[1], dtype=np.int64)
    for by_unit, wanted in zip(amounts, lack, strict=True):
        if wanted.any():
            sums = np.cumsum(-np.sort(-by_unit, axis=0), axis=0)
            needed = np.maximum(needed, (sums < wanted).sum(axis=0) + (wanted > 0))
    return needed
