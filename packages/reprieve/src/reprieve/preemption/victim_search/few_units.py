"""The cheapest eviction among few units: all sets of them that may be cheaper (cost.md 4.11).

Sets grow unit by unit, the lightest first. A branch ends if the pods fit, if the remaining units do not free enough, or
if the chosen units already cost more than the best set. Of units that differ only in name the first ones are evicted
first. The number of sets is bounded; the best set up to then is used.
"""

from collections.abc import Sequence
from operator import add

from reprieve.preemption.victim_search.eviction import Eviction, Price
from reprieve.preemption.victim_search.problem import Amounts, Numbers

MOST_UNITS = 24
"""Maximum number of units for this search."""
_MOST_SETS, _MOST_SETS_BY_OWN_LIST = 1_200, 6_000
"""Maximum number of sets: the native lists exclude most sets by their price, others only few."""


def cheapest_of_few(numbers: Numbers, best: Price) -> tuple[int, ...] | None:
    """Return the cheapest set of units that frees capacity for all pods, if it costs less than `best`."""
    useful = [unit for unit, takes in enumerate(numbers.takes) if takes]
    if len(useful) > MOST_UNITS:
        return None
    return FewUnits(numbers, useful, best).cheapest


class FewUnits:
    """The search. `cheapest`: the cheapest set; None if none is cheaper than `best`; `tried`: the number of sets."""

    def __init__(self, numbers: Numbers, useful: Sequence[int], best: Price) -> None:
        self.cheapest: tuple[int, ...] | None = None
        self.tried = 0
        self._state, self._best = Eviction(numbers), best
        state, pricing = self._state, numbers.pricing
        self._sure = None if pricing is None else pricing.criteria.never_less
        self._order = sorted(useful, key=lambda unit: (state.heavy[unit] + state.weights.age[unit], unit))
        self._kinds = [self._kind(unit) for unit in self._order]
        free: list[Amounts] = [tuple(left) for left in state.places.left]
        rest: list[list[Amounts]] = [free]
        for unit in reversed(self._order):
            rest.append(self._without(rest[-1], unit))
        self._with_all_from = rest[::-1]
        """By turn: the free amounts of nodes without all units from that turn on."""
        self._try(0, (), free, None)

    def _kind(self, unit: int) -> tuple[object, ...]:
        numbers, pricing = self._state.numbers, self._state.numbers.pricing
        gangs = numbers.gangs.lost[unit] if numbers.gangs is not None else ()
        restartless = numbers.restartless[unit] if numbers.restartless else 0
        evicted_unit = numbers.units[unit]
        own: tuple[object, ...] = ()
        if pricing is not None:
            alone = tuple(None if vector is None else vector[unit] for vector in pricing.vectors)
            own = (alone, tuple(sorted(pod.namespace for pod in evicted_unit.pods)), pricing.criteria.in_tree or unit)
        like = (numbers.takes[unit], numbers.charged[unit], gangs, restartless)
        return (*like, evicted_unit.priority, len(evicted_unit.pods), evicted_unit.start, own)

    def _without(self, left: Sequence[Amounts], unit: int) -> list[Amounts]:
        result = list(left)
        for node, amounts in self._state.numbers.takes[unit]:
            result[node] = tuple(map(add, result[node], amounts))
        return result

    def _try(self, turn: int, chosen: tuple[int, ...], left: list[Amounts], skipped: object) -> None:
        """Try all sets of the chosen units and units from `turn` on, except those that are like the `skipped` one."""
        self.tried += 1
        if self.tried > (_MOST_SETS if self._sure is None else _MOST_SETS_BY_OWN_LIST):
            return
        if chosen and not self._may_be_cheaper(chosen):
            return
        if self._enough(left) and self._places(chosen):
            self._take(chosen)
            return
        if turn == len(self._order):
            return
        beside = self._with_all_from[turn]
        free = self._with_all_from[-1]
        every = [
            tuple([a + b - c for a, b, c in zip(*item, strict=True)]) for item in zip(left, beside, free, strict=True)
        ]
        if not self._enough(every):
            return
        unit = self._order[turn]
        if skipped is None or self._kinds[turn] != skipped:
            self._try(turn + 1, (*chosen, unit), self._without(left, unit), None)
            skipped = self._kinds[turn]
        self._try(turn + 1, chosen, left, skipped)

    def _may_be_cheaper(self, chosen: Sequence[int]) -> bool:
        price = self._state.price_of(sorted(chosen))
        if self._sure is None:
            return price < self._best
        sure = self._sure
        return (*price[:2], price[2][:sure]) <= (*self._best[:2], self._best[2][:sure])

    def _enough(self, left: Sequence[Amounts]) -> bool:
        """Return whether all pods of each kind fit if it were alone."""
        for kind in self._state.numbers.kinds:
            wanted = [(resource, want) for resource, want in enumerate(kind.wants) if want]
            missing = len(kind.pods)
            for have, usable in zip(left, kind.usable, strict=True):
                if usable and wanted:
                    missing -= max(0, min([have[resource] // want for resource, want in wanted]))
                if missing <= 0:
                    break
            if missing > 0 and wanted:
                return False
        return True

    def _places(self, chosen: Sequence[int]) -> bool:
        """Return whether all pods can be placed without these units."""
        state = self._state
        if len(state.numbers.kinds) == 1:
            return True
        mark = state.mark()
        for unit in chosen:
            state.evict(unit)
        done = state.fits()
        state.rollback(mark)
        return done

    def _take(self, chosen: tuple[int, ...]) -> None:
        units = tuple(sorted(chosen))
        price = self._state.price_of(units)
        if price < self._best and (self._sure is None or not self._superfluous(units)):
            self._best, self.cheapest = price, units

    def _superfluous(self, units: Sequence[int]) -> bool:
        """Return whether one of the units could stay: then the eviction is not minimal."""
        for unit in units:
            left = self._with_all_from[-1]
            rest = [u for u in units if u != unit]
            for evicted in rest:
                left = self._without(left, evicted)
            if self._enough(left) and self._places(rest):
                return True
        return False
