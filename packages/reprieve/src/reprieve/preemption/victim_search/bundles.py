"""What could be evicted next: *bundles* of units that make room for one more pod of a kind, or for several (cost.md 4).

For every node the cheapest sets of units that bring one, two, four ... more places there are worked out, and sets
around a unit that spans nodes.  What a bundle is worth counts the places on all nodes that its units free at once.
They are remembered until something on the node changes, so that a step of the search looks at a few nodes and takes
the best of all by one pass over an array.  Nodes on which the same is left beside units that weigh and hold the same
share one calculation.

A node is not examined before it might have the best bundle: until then what no bundle of it weighs less than for each
place, worked out for all nodes at once, stands for it (`least_rates`).
"""

from collections.abc import Iterable, Sequence
from operator import add
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from reprieve.preemption.victim_search.problem import Amounts
from reprieve.preemption.victim_search.state import BROKEN_BUDGET, Eviction

Bundle = tuple[float, int, tuple[int, ...]]
"""What it weighs, how many places it brings, and its units."""
_MISSING = (1, 2, 4, 8, 1 << 40)
"""For so many missing pods the best bundle of each node is kept: places beyond those needed are worth nothing."""
_NOTHING = [float("inf")] * len(_MISSING)
_Set = tuple[tuple[int, ...], int | None]
"""Positions among the units of a node, and the places that they bring; None where they hold something elsewhere."""


_Alike = tuple[Amounts, tuple[int, ...], tuple[Amounts, ...], tuple[bool, ...]]
"""What is left on a node, and of those who may go there: their starts numbered from the latest on, what each holds
there, and whether it holds anything elsewhere."""


class _NodeVictims(NamedTuple):
    """Who may go on a node. `number`: of what makes nodes alike."""

    units: tuple[int, ...]
    alike: _Alike
    number: int


_NOBODY = _NodeVictims((), ((), (), (), ()), -1)
_TARGETS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_MOST_ALIKE = 4_096
"""Calculations for like nodes that are kept."""
_PAIRS = 16
"""Among so few units every pair is tried."""


class Bundles:
    """The bundles of all nodes for one kind of pod. `examined`: how many nodes were examined, the search's measure."""

    def __init__(self, eviction: Eviction, kind: int) -> None:
        nodes = len(eviction.left)
        self._eviction = eviction
        self._kind = kind
        self._wanted = [each for each in enumerate(eviction.numbers.kinds[kind].wants) if each[1]]
        self.of: list[Sequence[Bundle]] = [()] * nodes
        self._rate, self._gains_at_first = least_rates(eviction, kind)
        self._stale: set[int] = set()
        self._unseen: set[int] = set(np.flatnonzero(self._rate[0] < np.inf).tolist())
        """Nodes not examined so far. The first time is no step of the search: it is done once for each."""
        self._doubted = self._unseen.copy()
        self._alike: dict[tuple[object, ...], tuple[_Set, ...]] = {}
        """By what makes nodes alike and what the units weigh, where that matters."""
        self._numbered: dict[_Alike, int] = {}
        """What makes nodes alike, by number."""
        self._on: list[_NodeVictims | None] = [None] * nodes
        """By node: who may go there, as long as nothing changes on it."""
        self._changes = [0] * len(eviction.numbers.units)
        """By unit: how often something has changed on its nodes."""
        self._gains: dict[tuple[int, ...], tuple[int, int]] = {}
        """By units: the sum of their changes when it was worked out, and the places that they bring."""
        self._nodes: dict[int, frozenset[int]] = {}
        """By unit: where it holds anything, once it was asked for."""
        self.examined = 0

    def touch(self, nodes: Iterable[int]) -> None:
        """Something on these nodes has changed."""
        self._stale.update(nodes)
        on, changes = self._eviction.numbers.on, self._changes
        for node in nodes:
            self._on[node] = None
            for unit in on[node]:
                changes[unit] += 1

    def doubt(self, nodes: Iterable[int]) -> None:
        """What was best on these nodes has become dearer, if anything: they are examined when they would be chosen."""
        self._doubted.update(nodes)

    def best(self, missing: int) -> Bundle | None:
        """The bundle that costs least for each of so many missing pods that it finds a place; None if there is none."""
        self.refresh()
        level = next(i for i, count in enumerate(_MISSING) if missing <= count)
        found = None
        if not self.of:
            return None
        for turn in {level, max(level - 1, 0)}:
            node = int(self._rate[turn].argmin())
            while node in self._doubted:
                self._inspect(node)
                node = int(self._rate[turn].argmin())
            for bundle in self.of[node]:
                key = (bundle[0] / min(bundle[1], missing), -bundle[1], bundle[2])
                if found is None or key < found[0]:
                    found = (key, bundle)
        return found[1] if found is not None else None

    def refresh(self) -> None:
        """Look at the nodes that have changed."""
        stale = sorted(self._stale)
        self._stale.clear()
        if stale:
            self._doubted.difference_update(stale)
            left = [node for node in stale if self._there(node).units]
            if len(left) < len(stale):  # nobody may go there any more
                none = [node for node in stale if self._on[node] is _NOBODY]
                self._unseen.difference_update(none)
                for node in none:
                    self.of[node] = ()
                self._rate[:, none] = np.inf
            if left:
                self._rate[:, left] = np.array([_rates(self._see(node)) for node in left]).T

    def every(self) -> list[Bundle]:
        """The bundles of all nodes, the lightest first, each once."""
        self.refresh()
        for node in sorted(self._unseen):
            if node in self._unseen:
                self._inspect(node)
        return sorted({bundle[2]: bundle for those in self.of for bundle in those}.values())

    def _inspect(self, node: int) -> None:
        self._doubted.discard(node)
        bundles = self._see(node)
        rates = _rates(bundles)
        self._rate[:, node] = rates
        there = self._on[node]
        if bundles and there is not None and len(there.units) == 1:
            # Wherever a unit is alone that bundle is the only one.
            for other, _ in self._eviction.numbers.takes[there.units[0]]:
                if other in self._doubted and self._there(other).units == there.units:
                    self._doubted.discard(other)
                    self._unseen.discard(other)
                    self.of[other] = bundles
                    self._rate[:, other] = rates

    def _see(self, node: int) -> Sequence[Bundle]:
        examined = self.examined
        bundles = self.of[node] = self._bundles(node)
        if node in self._unseen:
            self._unseen.discard(node)
            self.examined = examined
        return bundles

    def _there(self, node: int) -> _NodeVictims:
        there = self._on[node]
        if there is None:
            there = self._on[node] = self._candidates_on(node)
        return there

    def _bundles(self, node: int) -> Sequence[Bundle]:
        state = self._eviction
        there = self._there(node)
        units = there.units
        if not units:
            return ()
        self.examined += 1 + len(units) // 4
        heavy, age, over = state.heavy, state.age, state.over
        if len(units) == 1:
            gain = self.gain(units)
            return [(heavy[units[0]] + age[units[0]], gain, units)] if gain > 0 else ()
        weigh = [heavy[unit] for unit in units]
        sets = self._alike.get((there.number, ()))
        if sets is None:
            key = (there.number, tuple(weigh))
            sets = self._alike.get(key)
            if sets is None:
                if len(self._alike) >= _MOST_ALIKE:
                    self._alike.clear()
                sets, choice = self._sets(weigh, *there.alike)
                self._alike[key if choice else (there.number, ())] = sets
        bundles: list[Bundle] = []
        for turns, known in sets:
            those = tuple([units[turn] for turn in turns])
            gain = known if known is not None else self.gain(those)
            if gain > 0:
                weight = sum([weigh[turn] + age[units[turn]] for turn in turns])
                if len(those) > 1 and state.budgets_first:
                    each = sum([over[unit] > 0 for unit in those])
                    if each < len(those):
                        weight += (state.violating(those) - each) * BROKEN_BUDGET
                if len(those) > 1 and state.slack:
                    weight += state.breaking(those) * state.gang_weight
                bundles.append((weight, gain, those))
        return bundles

    def _candidates_on(self, node: int) -> "_NodeVictims":
        """Who may go on a node, and what is left there."""
        state = self._eviction
        if not state.numbers.kinds[self._kind].usable[node]:
            return _NOBODY
        gone, barred, takes, age = state.gone, state.barred, state.numbers.takes, state.age
        on = state.numbers.on[node]
        if len(on) == 1:
            return _NOBODY if on[0] in gone or on[0] in barred else _NodeVictims(on, _NOBODY.alike, -1)
        if gone.issuperset(on):
            return _NOBODY
        units = tuple([unit for unit in on if unit not in gone and unit not in barred])
        if len(units) < 2:
            return _NodeVictims(units, _NOBODY.alike, -1) if units else _NOBODY
        # Among equals those who started late go first, as far as a fraction can say so.
        starts = {start: turn for turn, start in enumerate(sorted({age[unit] for unit in units}))}
        shares = state.share[node]
        alike = (
            tuple(state.left[node]),
            tuple([starts[age[unit]] for unit in units]),
            tuple([shares[unit] for unit in units]),
            tuple([len(takes[unit]) > 1 for unit in units]),
        )
        return _NodeVictims(units, alike, self._numbered.setdefault(alike, len(self._numbered)))

    def _sets(
        self,
        weigh: Sequence[float],
        have: Sequence[int],
        young: Sequence[int],
        shares: Sequence[Amounts],
        spans: Sequence[bool],
    ) -> tuple[tuple[_Set, ...], bool]:
        """The sets of the units of a node that may be worth it, and what each gains where all of it is on the node.

        And whether what they weigh has anything to do with it. `have` is left there, overdrawn where negative; `young`
        numbers the starts from the latest on.
        """
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
        found: dict[tuple[int, ...], None] = {}
        for target in (*(t for t in _TARGETS if t < most), most):
            chosen = cheapest_cover(self._lack(have, now + target), units)
            if chosen is not None:
                found[tuple(sorted(chosen))] = None
        everybody = tuple(range(len(units)))
        for unit, spanning in enumerate(spans):
            if spanning:
                found[unit,] = None
                if everybody in found:
                    continue  # beside any of them nobody can be spared
                beside = [h + a for h, a in zip(have, shares[unit], strict=True)]
                chosen = cheapest_cover(self._lack(beside, now + most), [each for each in units if each[2] != unit])
                if chosen is not None:
                    found[tuple(sorted([unit, *chosen]))] = None
        sets: list[_Set] = []
        for those in found:
            if any(map(spans.__getitem__, those)):
                sets.append((those, None))
            else:
                beside = [
                    h + sum(column)
                    for h, column in zip(have, zip(*[shares[u] for u in those], strict=True), strict=True)
                ]
                sets.append((those, self._places(beside) - now))
        return tuple(sets), most > 1 or everybody not in found

    def _places(self, have: Sequence[int]) -> int:
        return max(0, min([have[resource] // want for resource, want in self._wanted]))

    def _lack(self, have: Sequence[int], places: int) -> list[tuple[int, int]]:
        """(resource, amount) that is missing for so many places."""
        return [
            (resource, want * places - have[resource])
            for resource, want in self._wanted
            if want * places > have[resource]
        ]

    def gain(self, units: Sequence[int]) -> int:
        """How many more pods fit on all nodes together with these units gone."""
        key = tuple(units)
        changes = self._changes
        if len(key) > 1:
            now = sum([changes[unit] for unit in key])
        else:
            now = changes[key[0]]
            if not now and self._gains_at_first[key[0]] >= 0:
                return self._gains_at_first[key[0]]
        known = self._gains.get(key)
        if known is not None and known[0] == now:
            return known[1]
        gain = self._gain_of_two(*key) if len(key) == 2 else self._gain_of(key)
        self._gains[key] = now, gain
        return gain

    def _gain_of_two(self, one: int, other: int) -> int:
        """What each gains, and on nodes that have both what they gain together beyond that."""
        state, wanted, usable = self._eviction, self._wanted, self._eviction.numbers.kinds[self._kind].usable
        gain = self.gain((one,)) + self.gain((other,))
        for node in self._nodes_of(one) & self._nodes_of(other):
            if usable[node]:
                left, mine, others = state.left[node], state.share[node][one], state.share[node][other]
                together = alone = beside = 1 << 40
                for resource, want in wanted:
                    have, more, yet = left[resource], mine[resource], others[resource]
                    together = min(together, (have + more + yet) // want)
                    alone = min(alone, (have + more) // want)
                    beside = min(beside, (have + yet) // want)
                gain += max(together, 0) - max(alone, 0) - max(beside, 0) + state.spare[self._kind][node]
        return gain

    def _nodes_of(self, unit: int) -> frozenset[int]:
        found = self._nodes.get(unit)
        if found is None:
            found = self._nodes[unit] = frozenset([node for node, _ in self._eviction.numbers.takes[unit]])
        return found

    def _gain_of(self, units: Sequence[int]) -> int:
        state, wanted = self._eviction, self._wanted
        left, spare, usable = state.left, state.spare[self._kind], state.numbers.kinds[self._kind].usable
        freed: dict[int, Amounts] = {}
        for unit in units:
            for node, amounts in state.numbers.takes[unit]:
                before = freed.get(node)
                freed[node] = amounts if before is None else tuple(map(add, before, amounts))
        self.examined += len(freed) // 16
        gain = 0
        for node, amounts in freed.items():
            if usable[node]:
                have, room = left[node], 1 << 40
                for resource, want in wanted:
                    fits = (have[resource] + amounts[resource]) // want
                    if fits < room:
                        room = fits
                gain += max(room, 0) - spare[node]
        return gain


def least_rates(eviction: Eviction, kind: int) -> tuple[npt.NDArray[np.float64], list[int]]:
    """`float64[missing, nodes]`: no bundle of a node weighs less for each place, by how many pods are missing.

    And by unit how many places it makes on all nodes by itself; -1: it may not go, or nobody may.

    Infinite where there is none.  Where one unit alone may go that is what it does weigh.  Elsewhere the resource that
    is scarcest now gains no more places than the parts of it that the units hold, each in parts of what makes the first
    place, or rounded up to whole ones, and no more than all of them together; and what several units weigh for each
    place is never less than what the best of them does, if those of one gang share the weight of breaking it.
    """
    wants = eviction.numbers.kinds[kind].wants
    columns = [resource for resource, want in enumerate(wants) if want]
    nodes = len(eviction.left)
    rates = np.full((len(_MISSING), nodes), np.inf)
    units, at, amounts = eviction.shares
    may_go = np.ones(len(eviction.weight), dtype=np.bool_)
    may_go[[*eviction.gone, *eviction.barred]] = False
    usable = np.array(eviction.numbers.kinds[kind].usable, dtype=np.bool_)
    there = may_go[units] & usable[at]
    units, at, amounts = units[there], at[there], amounts[there]
    if not columns or not len(units):
        return rates, [-1] * len(may_go)
    want = np.array([wants[resource] for resource in columns], dtype=np.int64)
    first = np.flatnonzero(np.diff(at, prepend=-1))
    having = at[first]
    own = np.repeat(np.arange(len(first)), np.diff(first, append=len(at)))
    have = np.array([eviction.left[node] for node in having], dtype=np.int64)[:, columns]
    amounts = amounts[:, columns]
    fits = have // want
    now = np.maximum(fits.min(axis=1), 0)
    most = np.maximum((((have + np.add.reduceat(amounts, first)) // want).min(axis=1) - now), 0)
    scarcest = fits.argmin(axis=1)
    each = want[scarcest]
    lack = each - np.maximum(have[np.arange(len(having)), scarcest], 0) % each
    held = np.maximum(amounts[np.arange(len(at)), scarcest[own]], 0)
    gain = np.minimum(np.minimum(held / lack[own], -(-held // each[own])), most[own])
    alone = np.bincount(own) == 1
    weight = np.array(eviction.least_heavy()) + np.array(eviction.age)
    by_unit = gain
    for those in (slice(None), alone[own]):
        by_unit = np.bincount(units, weights=gain, minlength=len(may_go))
        gains = by_unit[units[those]]
        with np.errstate(divide="ignore"):
            for level, missing in enumerate(_MISSING):
                per_place = weight[units[those]] / np.minimum(gains, missing)
                if isinstance(those, slice):
                    rates[level, having] = np.minimum.reduceat(per_place, first)
                else:
                    rates[level, having[alone]] = per_place
        places = ((have[own] + amounts) // want).min(axis=1)
        gain = np.maximum(places, 0) - now[own]
    return rates * (1 - 1e-12), np.where(may_go, by_unit, -1).astype(np.int64).tolist()


def _rates(bundles: Sequence[Bundle]) -> list[float]:
    """What the best of them weighs for each place, by how many places are missing."""
    if not bundles:
        return _NOTHING
    rates = _per_place(*bundles[0][:2])
    for weight, gain, _ in bundles[1:]:
        rates = list(map(min, rates, _per_place(weight, gain)))
    return rates


def _per_place(weight: float, gain: int) -> list[float]:
    return [weight / (gain if gain < count else count) for count in _MISSING]


def cheapest_cover(lack: Sequence[tuple[int, int]], units: Sequence[tuple[float, Amounts, int]]) -> list[int] | None:
    """Units that together hold what is lacking, at little weight; None if all of them do not.

    Exact where one or two units are enough, else by weight for what each contributes, without what is superfluous.
    """
    if not lack:
        return []
    useful = [each for each in units if any(each[1][resource] > 0 for resource, _ in lack)]
    beyond = [(resource, sum([each[1][resource] for each in useful]) - n) for resource, n in lack]
    if any(amount < 0 for _, amount in beyond):
        return None
    if all(any(each[1][resource] > amount for resource, amount in beyond) for each in useful):
        return [each[2] for each in useful]  # nobody can be spared
    useful.sort(key=lambda each: (each[0] / sum(min(each[1][r] / n, 1.0) for r, n in lack), each[2]))
    rest = list(lack)
    chosen: list[tuple[float, Amounts, int]] = []
    for each in useful:
        if not rest:
            break
        if any(each[1][resource] > 0 for resource, _ in rest):
            chosen.append(each)
            rest = [(resource, n - each[1][resource]) for resource, n in rest if n > each[1][resource]]
    if rest:
        return None
    for each in sorted(chosen, key=lambda each: (-each[0], each[2])):
        others = [other for other in chosen if other is not each]
        if all(sum(other[1][resource] for other in others) >= n for resource, n in lack):
            chosen = others
    weight = sum(each[0] for each in chosen)
    best = [each[2] for each in chosen]
    for each in useful:
        if each[0] < weight and all(each[1][resource] >= n for resource, n in lack):
            weight, best = each[0], [each[2]]
    if len(best) > 1 and len(useful) <= _PAIRS:
        for turn, one in enumerate(useful):
            for other in useful[turn + 1 :]:
                if one[0] + other[0] < weight and all(one[1][r] + other[1][r] >= n for r, n in lack):
                    weight, best = one[0] + other[0], [one[2], other[2]]
    return best
