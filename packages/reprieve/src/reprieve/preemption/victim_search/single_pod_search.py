"""The cheapest eviction for one pod: the cheapest on each node, and the cheapest of those (cost.md 4).

A node has few units for one request, so all sets of them are tried except those that cannot become cheaper than the
best. The result is exact within a limit of sets.
"""

from dataclasses import dataclass
from math import inf

from reprieve.preemption.outcome import Cost
from reprieve.preemption.victim_search.cover import cheapest_cover
from reprieve.preemption.victim_search.eviction import Eviction, Price

_MOST_TRIED = 300
"""Maximum number of sets of units of one node that are tried; after that the best set so far is used."""


def cheapest_for_one(state: Eviction) -> tuple[tuple[int, ...], Price, int] | None:
    """Return the units, their cost and the node; None if the pod fits nowhere. No unit is evicted in `state`."""
    best: tuple[Price, int, tuple[int, ...]] | None = None
    for node in range(len(state.places.left)):
        if state.numbers.kinds[0].usable[node]:
            cheapest = _Node(state, node).cheapest(best[0] if best is not None else None)
            if cheapest is not None:
                best = (cheapest[0], node, cheapest[1])
    return None if best is None else (best[2], best[0], best[1])


@dataclass(frozen=True, slots=True)
class _Unit:
    """A unit of a node. `like`: it differs from the unit before it at most in the start."""

    number: int
    weight: float
    share: tuple[int, ...]
    like: bool


class _Node:
    """The units of one node, cheapest first, and the pod's missing amounts there."""

    def __init__(self, state: Eviction, node: int) -> None:
        self._state = state
        have, wants = state.places.left[node], state.numbers.kinds[0].wants
        self._lack = [(r, want - have[r]) for r, want in enumerate(wants) if want > have[r] and want]
        numbers = state.numbers
        share = {unit: dict(numbers.takes[unit])[node] for unit in numbers.on[node]}
        useful = [unit for unit, amounts in share.items() if any(amounts[r] > 0 for r, _ in self._lack)]
        native = numbers.pricing is None
        lost = numbers.gangs.lost if numbers.gangs is not None else ((),) * len(numbers.units)
        restartless = numbers.restartless or (0,) * len(numbers.units)
        # Units with a low weight beside the gangs that break with them come first.
        useful.sort(
            key=lambda u: (
                numbers.units[u].priority if native else 0,
                state.gangs.breaks[u],
                lost[u],
                state.weights.weight[u],
                share[u],
                numbers.charged[u],
                restartless[u],
                0 if native else -numbers.units[u].start,
                -u,
            )
        )
        weight = state.weights.weight
        kinds = [
            (numbers.units[u].priority, weight[u], share[u], numbers.charged[u], lost[u], restartless[u])
            for u in useful
        ]
        self._units = [
            _Unit(u, weight[u], share[u], native and turn > 0 and kinds[turn - 1] == kinds[turn])
            for turn, u in enumerate(useful)
        ]
        self._rates = self._least_rates()
        self._found: tuple[Price, tuple[int, ...]] | None = None
        self._limit: Price | None = None
        """The limit of the cost."""
        self._tried = 0

    def cheapest(self, below: Price | None) -> tuple[Price, tuple[int, ...]] | None:
        """Return the cheapest set, if it costs less than `below`."""
        self._limit = below
        if not self._lack:
            self._take(())
        else:
            breaks, heavier = self._state.gangs.breaks, self._state.gangs.weight
            units = [(unit.weight + breaks[unit.number] * heavier, unit.share, unit.number) for unit in self._units]
            cover = cheapest_cover(self._lack, units)
            if cover is None:
                return None
            self._take(tuple(sorted(cover)))
            self._try(0, (), self._lack, skipped=False)
        return self._found if self._found is not None and (below is None or self._found[0] < below) else None

    def _take(self, units: tuple[int, ...]) -> None:
        price = self._state.price_of(units)
        if self._state.numbers.pricing is not None and self._superfluous(units):
            return
        if self._found is None or self._rank(price, units) < self._rank(*self._found):
            self._found = price, units
            self._limit = price if self._limit is None else min(price, self._limit)

    def _superfluous(self, units: tuple[int, ...]) -> bool:
        """Return whether one of the units could stay: then the eviction is not minimal."""
        share = {unit.number: unit.share for unit in self._units}
        return any(all(sum([share[u][r] for u in units if u != unit]) >= n for r, n in self._lack) for unit in units)

    def _try(self, turn: int, chosen: tuple[int, ...], lack: list[tuple[int, int]], *, skipped: bool) -> None:
        """Try all sets of the chosen units and units from `turn` on; of similar units the first are evicted first."""
        self._tried += 1
        if turn == len(self._units) or self._tried > _MOST_TRIED:
            return
        unit = self._units[turn]
        if not (unit.like and skipped):
            now = (*chosen, unit.number)
            rest = [(r, n - unit.share[r]) for r, n in lack if n > unit.share[r]]
            if not rest:
                self._take(tuple(sorted(now)))
            elif self._may_help(turn + 1, now, rest):
                self._try(turn + 1, now, rest, skipped=False)
        if self._may_help(turn + 1, chosen, lack):
            self._try(turn + 1, chosen, lack, skipped=True)

    def _may_help(self, turn: int, chosen: tuple[int, ...], lack: list[tuple[int, int]]) -> bool:
        """Return whether the units from `turn` on could cover the missing amounts at no higher cost than the best."""
        more = max([n * self._rates[turn][r] for r, n in lack])
        if more == inf or self._limit is None or not chosen:
            return more < inf
        violations, highest, cost = self._state.price_of(sorted(chosen))
        most = self._limit
        pricing = self._state.numbers.pricing
        if pricing is not None:
            sure = pricing.criteria.never_less
            return bool(most[2]) and cost[:sure] <= most[2][:sure]
        weight = int(self._state.numbers.gangs is not None)
        return bool(most[2]) and (violations, highest, *cost[:weight], cost[weight] + more * (1 - 1e-12)) <= (
            *most[:2],
            *most[2][: weight + 1],
        )

    def _rank(self, price: Price, units: tuple[int, ...]) -> tuple[int, int, Cost, list[int]]:
        """Return the order of the sets of one node: at equal cost the least important are evicted (preemption.md 5).

        The start, last in both native lists, is compared only between nodes (preemption.md 3.5).
        """
        violations, highest, cost = price
        counted = cost[:-1] if self._state.numbers.pricing is None else cost
        return violations, highest, counted, [-unit for unit in units]

    def _least_rates(self) -> list[dict[int, float]]:
        """Return by turn the least weight of later units per amount of a resource; `inf` if there is none."""
        rates = [dict.fromkeys((r for r, _ in self._lack), inf)]
        for unit in reversed(self._units):
            last = rates[-1]
            rates.append({r: min(last[r], unit.weight / unit.share[r]) if unit.share[r] > 0 else last[r] for r in last})
        return rates[::-1]
