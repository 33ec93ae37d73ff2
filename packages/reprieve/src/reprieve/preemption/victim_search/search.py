"""The search for the cheapest eviction that frees capacity for a whole group (cost.md 4).

Units are evicted in bundles, cheapest for each gained place (`reprieve.preemption.victim_search.bundles`), until all
pods fit; then units that can stay are kept.  Then the eviction is improved: an expensive victim is kept and others are
evicted for its pods; an unused bundle is evicted, and as many others as possible are kept. Cheaper evictions replace
the present one. If no exchange helps, several victims at once are kept and others searched.  All of this is done under
a limit of priority, from no limit down to the lowest one that works without violating more budgets.

The search is anytime and deterministic: it counts the nodes it has examined, not seconds.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from reprieve.cluster.pods import PodRecord
from reprieve.preemption.victim_search.bounds import all_necessary, fewest_gangs, least_weight
from reprieve.preemption.victim_search.bundles import Bundles
from reprieve.preemption.victim_search.eviction import Eviction, Mark, Price
from reprieve.preemption.victim_search.few_units import cheapest_of_few
from reprieve.preemption.victim_search.node_tables import NodeTables
from reprieve.preemption.victim_search.problem import Numbers, Place, TenantLimits
from reprieve.preemption.victim_search.single_pod_search import cheapest_for_one

Change = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Units that may not be evicted, units that are restored, and units that are evicted."""
STEPS = 12_000
"""Maximum number of steps of the improvement, each about 15 microseconds: a node examined, a unit or pod moved.

Building the first evictions takes a few steps for each node.
"""
FEWEST_STEPS, _FEW_NODES = 2_000, 100
"""In clusters with more nodes the improvement has fewer steps, in proportion, so that the total stays within a few
times the duration of placing by score.
"""
_SHAKES = 16
"""The search ends after this number of random exchanges of victims in a row without success."""
_OTHERS_FOR_EACH = 4
"""Number of alternatives with equal cost that are searched for each part of an eviction."""
CLOSE = 50
"""The smallest improvement that is searched, as one part in this number."""


@dataclass(frozen=True, slots=True)
class PricedEviction:
    """The eviction: indices of units, its cost, and the places of pods as (kind, node, count).

    `places` is None for a known eviction without a cheaper one.
    """

    units: tuple[int, ...]
    price: Price
    places: tuple[Place, ...] | None

    def assigned(self, numbers: Numbers) -> tuple[tuple[PodRecord, int], ...]:
        """Return the places pod by pod: (pod, row)."""
        assert self.places is not None
        waiting = [iter(kind.pods) for kind in numbers.kinds]
        return tuple(
            (next(waiting[kind]), numbers.rows[node]) for kind, node, count in self.places for _ in range(count)
        )


def cheapest_eviction(
    numbers: Numbers,
    known: Sequence[int] = (),
    *,
    steps: int = STEPS,
    all_of_few: bool = True,
    by_node: bool = True,
) -> PricedEviction | None:
    """Return the cheapest eviction found, None if not all of the pods fit; `known`: units that suffice.

    `all_of_few`: if there are few units, all sets of them are tried at the end; `by_node`: before that, if there are
    few nodes, the options of each are added up.
    """
    few = numbers.pricing is None or len(numbers.free) <= _FEW_NODES
    if few and sum(len(kind.pods) for kind in numbers.kinds) == 1:
        single = cheapest_for_one(Eviction(numbers))
        return None if single is None else PricedEviction(single[0], single[1], ((0, single[2], 1),))
    allowed = max(min(steps, FEWEST_STEPS), steps * _FEW_NODES // max(_FEW_NODES, len(numbers.free)))
    search = VictimSearch(numbers, allowed)
    result = search.run(known)
    if result is not None and numbers.pricing is not None and numbers.pricing.counts_tenants:
        result = _spread_over_tenants(numbers, result, allowed)
    if result is None or not all_of_few:
        return result
    # Of similar pods none has to move aside; but only sums over nodes consider the allowances of budgets.
    summed = by_node and result.units and (len(numbers.kinds) > 1 or not numbers.exact or result.price[0])
    tables = NodeTables.of(numbers) if summed else None
    better = tables.improved(result.units, result.price) if tables is not None else None
    if better is not None:
        result = PricedEviction(better.units, better.price, better.places)
    return _among_few(numbers, result)


def _among_few(numbers: Numbers, result: PricedEviction) -> PricedEviction:
    """Return the eviction, or a cheaper one if all sets of units can be tried."""
    units = cheapest_of_few(numbers, result.price)
    if units is None:
        return result
    state = Eviction(numbers)
    for unit in units:
        state.evict(unit)
    return PricedEviction(units, state.price(), state.places.places()) if state.fits() else result


def _spread_over_tenants(numbers: Numbers, result: PricedEviction, steps: int) -> PricedEviction:
    """Return the eviction, or a cheaper one found under limits of pods for each namespace, first lower than now."""
    assert numbers.pricing is not None
    tenants = TenantLimits.of(numbers.units, 0)
    if len(tenants.allowed) < 2:
        return result
    pricing, lower = numbers.pricing.within_tenants(), True
    while result.units:
        most = tenants.most_lost(result.units) - lower
        limits = TenantLimits(tenants.charged, (most,) * len(tenants.allowed))
        better = VictimSearch(replace(numbers, pricing=pricing, tenants=limits), steps).run(result.units)
        if better is not None and better.price < result.price:
            result = better
        elif lower:
            lower = False
        else:
            break
    return result


def as_cheap(numbers: Numbers, result: PricedEviction, most: int) -> list[PricedEviction]:
    """Return up to `most` other evictions of the same cost: with others for one victim, or for those of one node.

    A few are searched for each, so that all of them get their turn; the order depends on the numbers alone.
    """
    return VictimSearch(numbers, FEWEST_STEPS).exchanged(result, most)


class VictimSearch:
    """One search.

    `bound`: no eviction weighs less; `gang_bound`: none breaks fewer gangs; `returns`: units tried back; `checks`:
    units checked whether they can stay; `without_success`: changes that did not help, by the evicted units and the
    number of barred ones (the most important always are); `repeats`: skipped repetitions of them; `by_limit`: the
    highest priority decides before anything but budgets.
    """

    def __init__(self, numbers: Numbers, steps: int) -> None:
        self.numbers = numbers
        self.steps = steps
        self.state = Eviction(numbers)
        self.bundles: list[Bundles] = []
        """Bundles by kind, from their first use."""
        self.best: PricedEviction | None = None
        self.returns = self.checks = self.repeats = 0
        self.without_success: dict[frozenset[int], set[tuple[int, Change]]] = {}
        self.bound = self.gang_bound = 0
        self.by_limit = numbers.pricing is None or numbers.pricing.by_limit
        self._alike = _first_like(numbers)

    @property
    def taken(self) -> int:
        """Return the number of steps so far."""
        examined = sum(bundles.examined for bundles in self.bundles)
        return examined + self.state.counted + self.returns + self.checks // 4 + self.repeats // 8

    @property
    def close(self) -> bool:
        """Return whether a relevant improvement is impossible.

        For few victims in a small cluster an improvement of the start is relevant, which the bound ignores.
        """
        best = self.best
        if best is None or best.price[0] or self.numbers.pricing is not None:
            return False  # bounds exist only for sums of priorities
        if not best.units:
            return True
        gangs = self.numbers.gangs is not None
        if gangs and best.price[2][0] > self.gang_bound:
            return False
        total, pods = best.price[2][gangs : gangs + 2]
        return (total - self.bound) * CLOSE <= self.bound and (pods >= CLOSE or len(self.numbers.free) > _FEW_NODES)

    def run(self, known: Sequence[int]) -> PricedEviction | None:
        """Run the search (`cheapest_eviction`)."""
        state, numbers = self.state, self.numbers
        state.places.settle()
        state.keep()
        start = state.mark()
        self.bound, self.gang_bound = least_weight(state), fewest_gangs(state)
        if known and numbers.exact and len(numbers.kinds) == 1:
            self.best = PricedEviction(
                tuple(known), state.price_of(known), None
            )  # identical pods fit on any node with capacity
            if numbers.pricing is None and all_necessary(numbers, known):
                return self.best
        else:
            for unit in known:
                state.evict(unit)
            if state.fits():
                self._note()
            state.rollback(start)
        if self.best is not None and self.close and self.best.price[1] <= state.lowest:
            return self.best
        if self._build() or (self.best is None and self._build_from_all()):
            self._note()
        if self.best is None:
            return None
        if self.best.price[0] and self.steps > FEWEST_STEPS:
            self._load(self.best)
            until = self.taken + self.steps // 4
            self._improve(1, self.steps // 4)
            self._shake(until, limited=False)
        if self.by_limit:
            best = self._lowest_limit(start, self.best)
            if best.price[1] < self.numbers.units[0].priority:
                state.rollback(start)
                self._limit(best.price[1])
                if not self.close and self._build():
                    self._note()
            else:
                self._limit(best.price[1])
        self._load(self.best)
        until = self.taken + self.steps
        self._improve(2, self.steps)
        self._shake(until)
        if self.numbers.pricing is not None and self.numbers.pricing.limited_later:
            self._below_the_limit(start, self.best)
        return self.best

    def exchanged(self, result: PricedEviction, most: int) -> list[PricedEviction]:
        """Return evictions of equal cost (`as_cheap`)."""
        state, numbers = self.state, self.numbers
        state.places.settle()
        self._load(result)
        state.keep()
        alternatives: dict[tuple[int, ...], PricedEviction] = {}
        victims = set(result.units)
        parts: dict[tuple[int, ...], None] = {(unit,): None for unit in result.units}
        for on_node in numbers.on:
            parts[tuple(sorted(victims.intersection(on_node)))] = None
        parts.pop((), None)
        until = self.taken + self.steps
        start = state.mark()
        hopeless: set[tuple[int, ...]] = set()
        for part in parts:
            alike = tuple([self._alike[unit] for unit in part])
            if alike in hopeless:
                continue
            for unit in part:
                state.bar(unit)
            for turn in range(_OTHERS_FOR_EACH):
                if len(alternatives) >= most or self.taken >= until:
                    break
                mark = state.mark()
                for unit in part:
                    state.restore(unit)
                self.returns += 1
                done = self._build() and state.price() == result.price
                units = tuple(sorted(state.evicted))
                if done:
                    alternatives.setdefault(units, PricedEviction(units, result.price, state.places.places()))
                state.rollback(mark)
                if not done:
                    if not turn:
                        hopeless.add(alike)
                    break
                for unit in units:
                    if unit not in victims:
                        state.bar(unit)
            state.rollback(start)
        return list(alternatives.values())

    def _shake(self, until: int, *, limited: bool = True) -> None:
        """If no exchange helps, restore some victims, search others, and try exchanges again.

        `limited`: no unit more important than the victims may be evicted; otherwise it ends when no budget is violated.
        """
        state, drawing, left = self.state, _drawn(), _SHAKES
        while left:
            left -= 1
            best = self.best
            assert best is not None
            if self.taken >= until or self.close or not (best.units if limited else best.price[0]):
                return
            if limited and self.by_limit:
                self._limit(best.price[1])
            self._load(best)
            back = _some(best.units, drawing)
            for unit in back:
                state.restore(unit)
                state.bar(unit)
            covered = self._cover()
            for unit in back:
                state.unbar(unit)
            if covered or self._cover():
                self._spare(self._returnable() or ())
                self._note()
                self._improve(1, min(self.steps // 16, until - self.taken))
                if self.best is not best:
                    left = _SHAKES

    def _lowest_limit(self, start: Mark, best: PricedEviction) -> PricedEviction:
        """Return the best eviction after trying lower limits of priority that violate no more budgets, by bisection.

        If other criteria decide before the priority, limits that cost no more by those.
        """
        limits = sorted({unit.priority for unit in self.numbers.units})
        low, high = 0, limits.index(self._highest(best)) if best.units else 0
        while low < high:
            middle = (low + high) // 2
            self.state.rollback(start)
            self._limit(limits[middle])
            lower = self._build() and (
                self._note()
                or ((not self.by_limit or self.state.price()[0] > best.price[0]) and self._improve(2, self.steps // 4))
            )
            assert self.best is not None
            if lower:
                best = self.best
                high = min(middle, limits.index(self._highest(best))) if best.units else 0
            else:
                low = middle + 1
        return best

    def _below_the_limit(self, start: Mark, best: PricedEviction) -> None:
        """Lower the limit of priority, and improve the criteria after it: more important units no longer hide them."""
        best = self._lowest_limit(start, best)
        if best.units:
            self._limit(self._highest(best))
            self._load(best)
            until = self.taken + self.steps
            self._improve(2, self.steps)
            self._shake(until)

    def _highest(self, eviction: PricedEviction) -> int:
        """Return the priority of the most important evicted unit, which comes first."""
        return self.numbers.units[eviction.units[0]].priority

    def _load(self, eviction: PricedEviction) -> None:
        """Restore an eviction from the present state; equal nodes stay unchanged."""
        state = self.state
        for unit in eviction.units:
            if unit not in state.evicted:
                state.evict(unit)
        for unit in sorted(state.evicted.difference(eviction.units)):
            state.restore(unit)
        if eviction.places is not None:
            state.places.arrange(eviction.places)
        state.places.settle()

    def _limit(self, priority: int) -> None:
        """Bar units of higher priority, and no others."""
        state = self.state
        above = bisect_left(self.numbers.units, -priority, key=lambda unit: -unit.priority)
        for unit in sorted(state.barred):
            if unit >= above:
                state.unbar(unit)
        for unit in range(above):
            state.bar(unit)

    def _note(self) -> bool:
        """Store the present eviction if it is the cheapest so far."""
        price = self.state.price()
        if self.best is not None and price >= self.best.price:
            return False
        self.best = PricedEviction(tuple(sorted(self.state.evicted)), price, self.state.places.places())
        return True

    def _build(self) -> bool:
        """Evict bundle after bundle until all pods fit, then keep the units that can stay."""
        if not self._cover():
            return False
        self._spare(self._returnable() or ())
        return True

    def _build_from_all(self) -> bool:
        """Evict all units if no bundle frees a place for a missing pod: it may fit if others of its group move aside.

        Then keep the units that can stay. Identical pods never have to move aside.
        """
        state = self.state
        if len(self.numbers.kinds) == 1:
            return False
        for unit in range(len(self.numbers.units)):
            if unit not in state.evicted:
                state.evict(unit)
        state.places.arrange(())
        return self._build()

    def _cover(self) -> bool:
        """Evict bundle after bundle; return whether all pods have a place."""
        state = self.state
        while not state.fits():
            missing = state.places.missing
            kind = next(kind for kind, count in enumerate(missing) if count)
            bundle = self._fresh(kind).best(missing[kind])
            if bundle is None:
                return False
            for unit in bundle[2]:
                state.evict(unit)
        return True

    def _fresh(self, kind: int) -> Bundles:
        """Return the bundles for a kind of pod, updated with all changes."""
        changed, dearer = self.state.changed, self.state.dearer
        if not self.bundles:
            self.bundles = [Bundles(self.state, kind) for kind in range(len(self.numbers.kinds))]
            changed.clear()
            dearer.clear()
        elif changed or dearer:
            for bundles in self.bundles:
                bundles.touch(changed)
                bundles.doubt(dearer)
            changed.clear()
            dearer.clear()
        return self.bundles[kind]

    def _returnable(self, since: Mark | None = None, below: Price | None = None) -> list[int] | None:
        """Return evicted units that can stay beside the others; `since`: a mark before which none could.

        None if the units that cannot stay cost at least `below`: no eviction among these units is cheaper.
        """
        state, on = self.state, self.numbers.on
        among: Collection[int] = state.evicted
        if since is not None and not state.places.room():
            among = {unit for node in state.touched(since) for unit in on[node] if unit in state.evicted}
        returnable: list[int] = []
        necessary = list(state.evicted.difference(among))
        lost = state.gangs.lost
        for part in ([unit for unit in among if lost[unit]], [unit for unit in among if not lost[unit]]):
            self.checks += len(part)
            for unit in part:
                (returnable if state.places.may_return(unit) else necessary).append(unit)
            if part and below is not None and state.price_of(sorted(necessary)) >= below:
                return None
        return returnable

    def _spare(self, returnable: Sequence[int], wanted: Collection[int] = (), *, small_first: bool = False) -> None:
        """Restore as many of these as can stay together, the most expensive first, those in `wanted` last."""
        state, weights = self.state, self.state.weights
        order = sorted(
            returnable,
            key=lambda unit: (
                unit in wanted,
                -state.violates(unit),
                small_first and weights.size[unit],
                -weights.weight[unit],
                -weights.age[unit] if self.numbers.restartless else 0,
                unit,
            ),
        )
        for unit in order:
            if not state.places.may_return(unit):
                continue
            self.returns += 1
            mark = state.mark()
            state.restore(unit)
            if not state.fits():
                state.rollback(mark)

    def _improve(self, depth: int, steps: int) -> bool:
        """Exchange until nothing helps or the steps are spent; return whether anything helped."""
        helped = False
        until = self.taken + steps
        price = self.state.price()
        better = True
        while better and self.taken < until and not self.close:
            better = False
            without_success = self.without_success.setdefault(frozenset(self.state.evicted), set())
            for change in self._changes(depth):
                if self.taken >= until:
                    break
                cheaper = self._try(change, price, without_success)
                if cheaper is not None:
                    price, better = cheaper, True
                    helped = self._note() or helped
                    break
        return helped

    def _try(self, change: Change, price: Price, without_success: set[tuple[int, Change]]) -> Price | None:
        """Make a change and what follows from it; return the new cost if lower, else undo and remember it."""
        state = self.state
        barred, back, go = change
        tried = (len(state.barred), change)
        if tried in without_success:
            self.repeats += 1
            return None
        mark = state.mark()
        for unit in barred:
            state.bar(unit)
        for unit in back:
            state.restore(unit)
        for unit in go:
            if unit not in state.evicted:
                state.evict(unit)
        if self._cover():
            native = self.numbers.pricing is None
            returnable, covered = self._returnable(mark, price if native else None), state.mark()
            for small_first in (False, True) if go else (False,):
                if returnable is None:
                    break
                self._spare(returnable, go, small_first=small_first)
                cheaper = state.price()
                if cheaper < price:
                    for unit in barred:
                        state.unbar(unit)
                    return cheaper
                state.rollback(covered)
        state.rollback(mark)
        without_success.add(tried)
        return None

    def _changes(self, depth: int) -> Iterator[Change]:
        """Yield changes to try: restore one victim; a bundle; at depth 2 any unit, two victims, a whole node."""
        state = self.state
        victims_by_weight = sorted(state.evicted, key=lambda unit: (-state.weights.weight[unit], unit))
        for unit in victims_by_weight:
            yield (unit,), (unit,), ()
        for units in state.gangs.members():
            evicted_members = tuple([unit for unit in units if unit in state.evicted])
            if len(evicted_members) > 1:
                yield evicted_members, evicted_members, ()
            if len(evicted_members) < len(units) > 1:
                yield (), (), units
        for kind in range(len(self.numbers.kinds)):
            for bundle in self._fresh(kind).every():
                yield (), (), bundle[2]
        if depth < 2:
            return
        for unit, takes in enumerate(self.numbers.takes):
            if takes and unit not in state.evicted and unit not in state.barred:
                yield (), (), (unit,)
        tried: set[tuple[int, int]] = set()
        for turn, unit in enumerate(victims_by_weight):
            for second in victims_by_weight[turn + 1 :]:
                alike = self._alike[unit], self._alike[second]
                if alike not in tried:
                    tried.add(alike)
                    yield (unit, second), (unit, second), ()
        victims = tuple(victims_by_weight)
        for unit in victims_by_weight:
            yield (unit,), victims, ()
        on = {node: None for unit in victims_by_weight for node, _ in self.numbers.takes[unit]}
        for node in on:
            on_node = tuple(unit for unit in self.numbers.on[node] if unit in state.evicted)
            if len(on_node) > 2:
                yield on_node, on_node, ()
        for node in on:
            on_node = tuple(unit for unit in self.numbers.on[node] if unit in state.evicted)
            for unit in on_node:
                yield (unit,), on_node, ()


def _first_like(numbers: Numbers) -> Sequence[int]:
    """Return by unit the first unit that differs from it only in the name."""
    if numbers.pricing is not None:
        return range(len(numbers.units))
    gangs = numbers.gangs
    first: dict[tuple[object, ...], int] = {}
    return [
        first.setdefault(
            (
                numbers.takes[unit],
                numbers.charged[unit],
                gangs and gangs.lost[unit],
                numbers.restartless and numbers.restartless[unit],
                u.priority,
                len(u.pods),
            ),
            unit,
        )
        for unit, u in enumerate(numbers.units)
    ]


def _drawn() -> Iterator[int]:
    """Yield a fixed sequence without a pattern (a multiplicative generator modulo a prime)."""
    value = 1
    while True:
        value = value * 69069 % 4294967291
        yield value


def _some(units: Sequence[int], drawing: Iterator[int]) -> list[int]:
    """Draw a sample of two units to more than half of them, on average."""
    count = 2 + next(drawing) // 65536 % max(1, len(units) // 2)
    return [unit for unit in units if next(drawing) % len(units) < count]
