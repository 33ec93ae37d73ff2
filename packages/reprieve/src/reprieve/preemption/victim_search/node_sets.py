"""Sets of the units of one node that may be worth evicting together."""

from collections.abc import Sequence
from typing import NamedTuple

from reprieve.preemption.victim_search.cover import cheapest_cover
from reprieve.preemption.victim_search.eviction import Eviction
from reprieve.preemption.victim_search.problem import Amounts

UnitSet = tuple[tuple[int, ...], int | None]
"""Positions among the units of a node, and the places that they add; None if they hold amounts elsewhere."""
_TARGETS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_MOST_ALIKE = 4_096
"""Maximum number of cached calculations for identical nodes."""


class _Layout(NamedTuple):
    """The key of identical nodes.

    It has the free amounts, and for the evictable units their starts, numbered from the latest, their amounts, and
    whether they hold amounts elsewhere.
    """

    left: Amounts
    starts: tuple[int, ...]
    shares: tuple[Amounts, ...]
    spans: tuple[bool, ...]


class NodeUnits(NamedTuple):
    """Units that may be evicted on a node. `layout`: the number of the key of identical nodes, -1: not relevant."""

    units: tuple[int, ...]
    layout: int


class NodeSets:
    """Sets of units by node; identical nodes share one calculation."""

    def __init__(self, eviction: Eviction, kind: int) -> None:
        self._eviction = eviction
        self._wanted = eviction.numbers.kinds[kind].wanted
        self._usable = eviction.numbers.kinds[kind].usable
        self._numbered: dict[_Layout, int] = {}
        self._layouts: list[_Layout] = []
        self._known: dict[tuple[object, ...], tuple[UnitSet, ...]] = {}
        """Results by layout, and by the weights of the units if they matter."""

    def units_on(self, node: int) -> NodeUnits:
        """Return the units that may be evicted on a node."""
        state = self._eviction
        evicted, barred = state.evicted, state.barred
        on = state.numbers.on[node]
        if not self._usable[node] or evicted.issuperset(on):
            return NodeUnits((), -1)
        units = tuple([unit for unit in on if unit not in evicted and unit not in barred])
        if len(units) < 2:
            return NodeUnits(units, -1)
        # Among equal units those that started late are evicted first, as far as a fraction can express it.
        age, shares, takes = state.weights.age, state.share[node], state.numbers.takes
        starts = {start: turn for turn, start in enumerate(sorted({age[unit] for unit in units}))}
        layout = _Layout(
            tuple(state.places.left[node]),
            tuple([starts[age[unit]] for unit in units]),
            tuple([shares[unit] for unit in units]),
            tuple([len(takes[unit]) > 1 for unit in units]),
        )
        number = self._numbered.setdefault(layout, len(self._numbered))
        if number == len(self._layouts):
            self._layouts.append(layout)
        return NodeUnits(units, number)

    def sets(self, on: NodeUnits) -> tuple[UnitSet, ...]:
        """Return the sets of the units of a node that may be worth evicting."""
        sets = self._known.get((on.layout,))
        if sets is None:
            weigh = [self._eviction.heavy[unit] for unit in on.units]
            key = (on.layout, *weigh)
            sets = self._known.get(key)
            if sets is None:
                if len(self._known) >= _MOST_ALIKE:
                    self._known.clear()
                sets, choice = self._sets(weigh, *self._layouts[on.layout])
                self._known[key if choice else (on.layout,)] = sets
        return sets

    def _sets(
        self,
        weigh: Sequence[float],
        have: Sequence[int],
        young: Sequence[int],
        shares: Sequence[Amounts],
        spans: Sequence[bool],
    ) -> tuple[tuple[UnitSet, ...], bool]:
        """Return the sets for a layout, and whether they depend on the weights of the units."""
        full = [amount + sum(column) for amount, column in zip(have, zip(*shares, strict=True), strict=True)]
        now = self._places(have)
        most = min([full[resource] // want for resource, want in self._wanted]) - now
        if most <= 0:
            return (), False
        share_of_age = 1.0 / (4.0 * len(young))
        units = [
            (weight + turn * share_of_age, share, unit)
            for unit, (weight, turn, share) in enumerate(zip(weigh, young, shares, strict=True))
        ]
        chosen: dict[tuple[int, ...], None] = {}
        for target in (*(t for t in _TARGETS if t < most), most):
            cover = cheapest_cover(self._lack(have, now + target), units)
            if cover is not None:
                chosen[tuple(sorted(cover))] = None
        everything = tuple(range(len(units)))
        for unit, spanning in enumerate(spans):
            if spanning:
                chosen[unit,] = None
                if everything in chosen:
                    continue  # beside any of them none of the units can stay
                beside = [h + a for h, a in zip(have, shares[unit], strict=True)]
                cover = cheapest_cover(self._lack(beside, now + most), [item for item in units if item[2] != unit])
                if cover is not None:
                    chosen[tuple(sorted([unit, *cover]))] = None
        sets: list[UnitSet] = []
        for positions in chosen:
            if any(map(spans.__getitem__, positions)):
                sets.append((positions, None))
            else:
                freed = zip(*[shares[unit] for unit in positions], strict=True)
                beside = [h + sum(column) for h, column in zip(have, freed, strict=True)]
                sets.append((positions, self._places(beside) - now))
        return tuple(sets), most > 1 or everything not in chosen

    def _places(self, have: Sequence[int]) -> int:
        return max(0, min([have[resource] // want for resource, want in self._wanted]))

    def _lack(self, have: Sequence[int], places: int) -> list[tuple[int, int]]:
        """Return (resource, amount) that is missing for that number of places."""
        return [
            (resource, want * places - have[resource])
            for resource, want in self._wanted
            if want * places > have[resource]
        ]
