"""Looking for the cheapest eviction that makes room for a whole group (cost.md 4).

Units are evicted in bundles, cheapest for each place gained (`reprieve.preemption.victim_search.bundles`), until all
pods have a place; who need not go stays after all.  Then the eviction is improved: a victim that is dear is brought
back and others go for its pods; a bundle that was not taken is, and as many others as then can come back.  What is
cheaper is kept.  Where no exchange helps any more, several victims at once are brought back and others looked for.  All
of it is done under a limit of priority, from no limit down to the lowest that works without breaking more budgets.

The search is anytime and deterministic: it counts the nodes it has examined, not seconds.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from reprieve.cluster.pods import PodRecord
from reprieve.preemption.victim_search.bundles import Bundles
from reprieve.preemption.victim_search.few_units import cheapest_of_few
from reprieve.preemption.victim_search.for_one import cheapest_for_one
from reprieve.preemption.victim_search.problem import Numbers
from reprieve.preemption.victim_search.state import Eviction, Price

Change = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Units that may not be evicted, units that come back, units that go."""
STEPS = 12_000
"""What improvement may take, each step about 15 microseconds: a node examined, a unit tried back, a pod put elsewhere.
Building the first evictions comes to a few steps for each node."""
_FEWEST_STEPS, _FEW_NODES = 2_000, 100
"""In clusters of more nodes than that improvement takes less, in proportion, so that the whole stays within a few times
what placing by score takes."""
_SHAKES = 16
"""So often in a row part of the victims is drawn to come back in vain before the search ends."""
_OTHERS_FOR_EACH = 4
"""So many other evictions that cost the same are looked for instead of each part of one."""
CLOSE = 50
"""One part in so many is the least that is worth looking for."""


@dataclass(frozen=True, slots=True)
class Found:
    """The eviction: indices of units, what it costs, and where the pods go as (kind, node, count).

    `places` is None of an eviction that was known beforehand and that nothing cheaper was found than.
    """

    units: tuple[int, ...]
    price: Price
    places: tuple[tuple[int, int, int], ...] | None

    def assigned(self, numbers: Numbers) -> tuple[tuple[PodRecord, int], ...]:
        """The places pod by pod: (pod, row)."""
        assert self.places is not None
        waiting = [iter(kind.pods) for kind in numbers.kinds]
        return tuple(
            (next(waiting[kind]), numbers.rows[node]) for kind, node, count in self.places for _ in range(count)
        )


def cheapest_eviction(numbers: Numbers, known: Sequence[int] = (), *, steps: int = STEPS) -> Found | None:
    """The cheapest eviction found, None where not all of the pods got a place; `known` are units that would do."""
    few = numbers.pricing is None or len(numbers.free) <= _FEW_NODES
    if few and sum(len(kind.pods) for kind in numbers.kinds) == 1:
        one = cheapest_for_one(Eviction(numbers))
        return None if one is None else Found(one[0], one[1], ((0, one[2], 1),))
    allowed = max(min(steps, _FEWEST_STEPS), steps * _FEW_NODES // max(_FEW_NODES, len(numbers.free)))
    search = _Search(numbers, allowed)
    found = search.run(known)
    return found if found is None else search.among_few(found)


def as_cheap(numbers: Numbers, found: Found, most: int) -> list[Found]:
    """At most so many other evictions that cost the same: for one of those who go, or for those of one node, others.

    Of each of them a few, so that all of them get their turn; in an order that depends on the numbers alone.
    """
    return _Search(numbers, _FEWEST_STEPS).exchanged(found, most)


def least_weight(state: Eviction) -> int:
    """No eviction weighs less than this (priorities summed as in preemption.md 3); found with nobody evicted yet.

    Each resource by itself, as if what is freed could be used anywhere and units went in parts.
    """
    numbers = state.numbers
    usable = [any(kind.usable[node] for kind in numbers.kinds) for node in range(len(numbers.free))]
    bound = 0
    for resource in range(len(numbers.kinds[0].wants)):
        asking = [kind.wants[resource] for kind in numbers.kinds]
        lack = sum(want * count for want, count in zip(asking, state.missing, strict=True))
        if not lack:
            continue
        lack -= sum(max(0, left[resource]) for node, left in enumerate(state.left) if usable[node])
        held = []
        for unit, takes in enumerate(numbers.takes):
            amount = sum(amounts[resource] for node, amounts in takes if usable[node])
            if amount > 0 and unit not in state.barred:
                held.append((state.weight[unit] / amount, amount, state.weight[unit]))
        held.sort()
        total = 0.0
        for rate, amount, weight in held:
            if lack <= 0:
                break
            total += weight if amount <= lack else rate * lack
            lack -= amount
        bound = max(bound, int(total * (1 - 1e-12)))
    return bound


def fewest_gangs(state: Eviction) -> int:
    """No eviction breaks fewer gangs than this; found with nobody evicted yet.

    Each resource by itself, with all that breaks no gang gone, and of each gang that breaks all that it has.
    """
    numbers, gangs = state.numbers, state.numbers.gangs
    if gangs is None or not gangs.slack:
        return 0
    usable = [any(kind.usable[node] for kind in numbers.kinds) for node in range(len(numbers.free))]
    bound = 0
    for resource in range(len(numbers.kinds[0].wants)):
        asking = [kind.wants[resource] for kind in numbers.kinds]
        lack = sum(want * count for want, count in zip(asking, state.missing, strict=True))
        lack -= sum(max(0, left[resource]) for node, left in enumerate(state.left) if usable[node])
        held = [0] * len(gangs.slack)
        for unit, takes in enumerate(numbers.takes):
            amount = sum(amounts[resource] for node, amounts in takes if usable[node])
            if amount > 0 and unit not in state.barred:
                mine = gangs.lost[unit]
                if not mine or (len(mine) == 1 and gangs.slack[mine[0][0]] >= mine[0][1]):
                    lack -= amount  # it may go without breaking any
                else:
                    held[max(mine, key=lambda each: held[each[0]])[0]] += amount
        fewest = 0
        for amount in sorted(held, reverse=True):
            if lack <= 0:
                break
            lack -= amount
            fewest += 1
        bound = max(bound, fewest)
    return bound


def all_have_to_go(numbers: Numbers, units: Sequence[int]) -> bool:
    """Whether no eviction makes room for all of the like pods without each of these: then none costs less than theirs.

    Each is kept alone, with everybody else gone.
    """
    kind = numbers.kinds[0]
    wanted = [(resource, want) for resource, want in enumerate(kind.wants) if want]
    if not wanted:
        return False

    def places(have: Sequence[int]) -> int:
        return max(0, min([have[resource] // want for resource, want in wanted]))

    free, usable = numbers.free, kind.usable
    surplus = sum([places(have) for have, may in zip(free, usable, strict=True) if may]) - len(kind.pods)
    for unit in units:
        lost = 0
        for node, amounts in numbers.takes[unit]:
            if usable[node]:
                have = free[node]
                lost += places(have) - places([there - held for there, held in zip(have, amounts, strict=True)])
        if lost <= surplus:
            return False
    return True


class _Search:
    """One search.

    `bound`: no eviction weighs less; `gang_bound`: none breaks fewer gangs; `returns`: units tried back; `in_vain`:
    changes that did not help, by who was gone and how many were barred (the most important always are), and `repeats`:
    how often they were not made again;
    `by_limit`: the highest priority decides before anything but budgets.
    """

    def __init__(self, numbers: Numbers, steps: int) -> None:
        self.numbers = numbers
        self.steps = steps
        self.state = Eviction(numbers)
        self.bundles: list[Bundles] = []
        """By kind, from when they are first asked for."""
        self.best: Found | None = None
        self.returns = self.repeats = 0
        self.in_vain: dict[frozenset[int], set[tuple[int, Change]]] = {}
        self.bound = self.gang_bound = 0
        self.by_limit = numbers.pricing is None or numbers.pricing.by_limit

    @property
    def taken(self) -> int:
        """Steps so far."""
        examined = sum(bundles.examined for bundles in self.bundles)
        return examined + self.state.counted + self.returns + self.repeats // 8

    @property
    def close(self) -> bool:
        """What was found cannot be beaten by as much as is worth looking for.

        Of few victims in a small cluster the start is worth it, of which the bound knows nothing.
        """
        best = self.best
        if best is None or best.price[0] or self.numbers.pricing is not None:
            return False  # a bound is known for sums of priorities alone
        if not best.units:
            return True
        total, pods = best.price[2][-3:-1]
        if best.price[2][0] > self.gang_bound and self.numbers.gangs is not None:
            return False
        return (total - self.bound) * CLOSE <= self.bound and (pods >= CLOSE or len(self.numbers.free) > _FEW_NODES)

    def run(self, known: Sequence[int]) -> Found | None:
        """See `cheapest_eviction`."""
        state, numbers = self.state, self.numbers
        state.settle()
        state.keep()
        start = state.mark()
        self.bound, self.gang_bound = least_weight(state), fewest_gangs(state)
        if known and numbers.exact and len(numbers.kinds) == 1:
            self.best = Found(tuple(known), state.price_of(known), None)  # like pods fit wherever there is room
            if numbers.pricing is None and all_have_to_go(numbers, known):
                return self.best
        else:
            for unit in known:
                state.evict(unit)
            if state.settle() or state.repack():
                self._note()
            state.rollback(start)
        if self.best is not None and self.close and self.best.price[1] <= state.lowest:
            return self.best
        if self._build():
            self._note()
        if self.best is None:
            return None
        if self.best.price[0] and self.steps > _FEWEST_STEPS:
            self._load(self.best)
            until = self.taken + self.steps // 4
            self._improve(1, self.steps // 4)
            self._shake(until, limited=False)
        best = self._lowest_limit(start, self.best)
        if self.by_limit:
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
        return self.best

    def among_few(self, found: Found) -> Found:
        """What was found, or what is cheaper still, where all sets of units can be gone through."""
        state = self.state
        for unit in sorted(state.barred):
            state.unbar(unit)
        self._load(Found((), found.price, ()))
        state.keep()
        units = cheapest_of_few(state, found.price)
        if units is None:
            return found
        mark = state.mark()
        for unit in units:
            state.evict(unit)
        done = state.settle() or state.repack()
        better = Found(units, state.price(), self._places()) if done else found
        state.rollback(mark)
        return better

    def exchanged(self, found: Found, most: int) -> list[Found]:
        """See `as_cheap`."""
        state, numbers = self.state, self.numbers
        state.settle()
        self._load(found)
        state.keep()
        others: dict[tuple[int, ...], Found] = {}
        gone = set(found.units)
        parts: dict[tuple[int, ...], None] = {(unit,): None for unit in found.units}
        for there in numbers.on:
            parts[tuple(sorted(gone.intersection(there)))] = None
        parts.pop((), None)
        until = self.taken + self.steps
        start = state.mark()
        for part in parts:
            for unit in part:
                state.bar(unit)
            for _ in range(_OTHERS_FOR_EACH):
                if len(others) >= most or self.taken >= until:
                    break
                mark = state.mark()
                for unit in part:
                    state.restore(unit)
                self.returns += 1
                done = self._build(since=mark) and state.price() == found.price
                units = tuple(sorted(state.gone))
                if done:
                    others.setdefault(units, Found(units, found.price, self._places()))
                state.rollback(mark)
                if not done:
                    break
                for unit in units:
                    if unit not in gone:
                        state.bar(unit)
            state.rollback(start)
        return list(others.values())

    def _shake(self, until: int, *, limited: bool = True) -> None:
        """Where no exchange helps: some of those who go come back, others are looked for, and exchanges tried again.

        `limited`: nobody may go who is more important than those who do; else it ends where no budget is broken.
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
                self._spare((), small_first=False, since=None)
                self._note()
                self._improve(1, min(self.steps // 16, until - self.taken))
                if self.best is not best:
                    left = _SHAKES

    def _lowest_limit(self, start: int, best: Found) -> Found:
        """The best eviction after trying lower limits of priority that break no more budgets, by bisection."""
        if not self.by_limit:
            return best
        limits = sorted({unit.priority for unit in self.numbers.units})
        low, high = 0, limits.index(best.price[1]) if best.units else 0
        while low < high:
            middle = (low + high) // 2
            self.state.rollback(start)
            self._limit(limits[middle])
            lower = self._build() and (
                self._note() or (self.state.price()[0] > best.price[0] and self._improve(2, self.steps // 4))
            )
            assert self.best is not None
            if lower:
                best = self.best
                high = min(middle, limits.index(best.price[1])) if best.units else 0
            else:
                low = middle + 1
        return best

    def _load(self, found: Found) -> None:
        """Take up an eviction that was found, from whatever is at present; nodes that are the same stay as they are."""
        state = self.state
        wanted: dict[int, list[int]] = {}
        for kind, node, count in found.places or ():
            wanted.setdefault(node, [0] * len(self.numbers.kinds))[kind] += count
        for node, there in enumerate(state.put):
            if found.places is not None and there is not None and any(there) and there != wanted.get(node):
                state.take_off(node)
        for unit in found.units:
            if unit not in state.gone:
                state.evict(unit)
        for unit in sorted(state.gone.difference(found.units)):
            state.restore(unit)
        for node, counts in wanted.items():
            if state.put[node] != counts:
                for kind, count in enumerate(counts):
                    if count:
                        state.place(kind, node, count)
        state.settle()

    def _limit(self, priority: int) -> None:
        """Nobody of higher priority may go, and everybody else may."""
        state = self.state
        above = bisect_left(self.numbers.units, -priority, key=lambda unit: -unit.priority)
        for unit in sorted(state.barred):
            if unit >= above:
                state.unbar(unit)
        for unit in range(above):
            state.bar(unit)

    def _note(self) -> bool:
        """Remember the present eviction if it is the cheapest so far."""
        price = self.state.price()
        if self.best is not None and price >= self.best.price:
            return False
        self.best = Found(tuple(sorted(self.state.gone)), price, self._places())
        return True

    def _places(self) -> tuple[tuple[int, int, int], ...]:
        """(kind, node, count) of the pods that have a place."""
        return tuple(
            (kind, node, count)
            for node, there in enumerate(self.state.put)
            if there is not None
            for kind, count in enumerate(there)
            if count
        )

    def _build(self, wanted: Collection[int] = (), *, small_first: bool = False, since: int | None = None) -> bool:
        """Evict bundle after bundle until all pods have a place, then bring back who need not go.

        `since`: before that nobody could come back.
        """
        state = self.state
        if not self._cover():
            return False
        self._spare(wanted, small_first=small_first, since=since)
        return not any(state.missing)

    def _cover(self) -> bool:
        """Evict bundle after bundle; whether all pods have a place then."""
        state = self.state
        while not state.settle() and not state.repack():
            kind = next(kind for kind, count in enumerate(state.missing) if count)
            bundle = self._fresh(kind).best(state.missing[kind])
            if bundle is None:
                return False
            for unit in bundle[2]:
                state.evict(unit)
        return True

    def _fresh(self, kind: int) -> Bundles:
        """The bundles for a kind of pod, brought up to date with what has changed."""
        dirty, dearer = self.state.dirty, self.state.dearer
        if not self.bundles:
            self.bundles = [Bundles(self.state, kind) for kind in range(len(self.numbers.kinds))]
            dirty.clear()
            dearer.clear()
        elif dirty or dearer:
            for bundles in self.bundles:
                bundles.touch(dirty)
                bundles.doubt(dearer)
            dirty.clear()
            dearer.clear()
        return self.bundles[kind]

    def _spare(self, wanted: Collection[int], *, small_first: bool, since: int | None) -> None:
        """Bring back whoever can, the dearest first, those `wanted` gone last."""
        state = self.state
        room = state.room()
        among: Collection[int] = state.gone
        if since is not None and not room:
            on = self.numbers.on
            among = {unit for node in state.touched(since) for unit in on[node] if unit in state.gone}
        order = sorted(
            among,
            key=lambda unit: (
                unit in wanted,
                -state.violates(unit),
                small_first and state.size[unit],
                -state.weight[unit],
                unit,
            ),
        )
        for unit in order:
            if not state.may_return(unit, room):
                continue
            self.returns += 1
            mark = state.mark()
            state.restore(unit)
            if state.settle() or state.repack():
                room = state.room()
            else:
                state.rollback(mark)

    def _improve(self, depth: int, steps: int) -> bool:
        """Exchange until nothing helps any more, or so many steps are spent; whether anything did."""
        helped = False
        until = self.taken + steps
        price = self.state.price()
        better = True
        while better and self.taken < until and not self.close:
            better = False
            for change in self._changes(depth):
                if self.taken >= until:
                    break
                found = self._try(change, price)
                if found is not None:
                    price, better = found, True
                    helped = self._note() or helped
                    break
        return helped

    def _try(self, change: Change, price: Price) -> Price | None:
        """Make a change and what follows from it; what it costs then, if less than that."""
        state = self.state
        barred, back, go = change
        in_vain, tried = self.in_vain.setdefault(frozenset(state.gone), set()), (len(state.barred), change)
        if tried in in_vain:
            self.repeats += 1
            return None
        mark = state.mark()
        for small_first in (False, True) if go else (False,):
            for unit in barred:
                state.bar(unit)
            for unit in back:
                state.restore(unit)
            for unit in go:
                if unit not in state.gone:
                    state.evict(unit)
            if self._build(go, small_first=small_first, since=mark):
                found = state.price()
                if found < price:
                    for unit in barred:
                        state.unbar(unit)
                    return found
            state.rollback(mark)
        in_vain.add(tried)
        return None

    def _changes(self, depth: int) -> Iterator[Change]:
        """What to try next: one victim back; a bundle; then also any single unit, two back, a whole node anew."""
        state = self.state
        gone = sorted(state.gone, key=lambda unit: (-state.weight[unit], unit))
        for unit in gone:
            yield (unit,), (unit,), ()
        for units in state.gangs():
            going = tuple([unit for unit in units if unit in state.gone])
            if len(going) > 1:
                yield going, going, ()
            if len(going) < len(units) > 1:
                yield (), (), units
        for kind in range(len(self.numbers.kinds)):
            for bundle in self._fresh(kind).every():
                yield (), (), bundle[2]
        if depth < 2:
            return
        for unit, takes in enumerate(self.numbers.takes):
            if takes and unit not in state.gone and unit not in state.barred:
                yield (), (), (unit,)
        for turn, unit in enumerate(gone):
            for other in gone[turn + 1 :]:
                yield (unit, other), (unit, other), ()
        everybody = tuple(gone)
        for unit in gone:
            yield (unit,), everybody, ()
        on = {node: None for unit in gone for node, _ in self.numbers.takes[unit]}
        for node in on:
            those = tuple(unit for unit in self.numbers.on[node] if unit in state.gone)
            if len(those) > 2:
                yield those, those, ()
        for node in on:
            those = tuple(unit for unit in self.numbers.on[node] if unit in state.gone)
            for unit in those:
                yield (unit,), those, ()


def _drawn() -> Iterator[int]:
    """A fixed sequence without a pattern (a multiplicative generator modulo a prime)."""
    value = 1
    while True:
        value = value * 69069 % 4294967291
        yield value


def _some(units: Sequence[int], drawing: Iterator[int]) -> list[int]:
    """Two of them to more than half, on average."""
    count = 2 + next(drawing) // 65536 % max(1, len(units) // 2)
    return [unit for unit in units if next(drawing) % len(units) < count]
