"""What could be evicted next: *bundles* of units that make room for one more pod of a kind, or for several (cost.md 4).

For every node the cheapest sets of units that bring one, two, four ... more places there are worked out, and sets
around a unit that spans nodes.  What a bundle is worth counts the places on all nodes that its units free at once.
They are remembered until something on the node changes, so that a step of the search looks at a few nodes and takes
the best of all by one pass over an array.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from reprieve.preemption.victim_search.problem import Amounts
from reprieve.preemption.victim_search.state import Eviction

Bundle = tuple[float, int, tuple[int, ...]]
"""What it weighs, how many places it brings, and its units."""
BROKEN_BUDGET = float(1 << 50)
"""Weighs more than any sum of priorities that is likely to stand against it."""
_MISSING = (1, 2, 4, 8, 1 << 40)
"""For so many missing pods the best bundle of each node is kept: places beyond those needed are worth nothing."""
_TARGETS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_PAIRS = 16
"""Among so few units every pair is tried."""


class Bundles:
    """The bundles of all nodes for one kind of pod. `looked`: how many nodes were looked at, the search's measure."""

    def __init__(self, eviction: Eviction, kind: int) -> None:
        nodes = len(eviction.left)
        self._eviction = eviction
        self._kind = kind
        self._wants: Amounts = eviction.numbers.kinds[kind].wants
        self.of: list[Sequence[Bundle]] = [()] * nodes
        self._rate = np.full((len(_MISSING), nodes), np.inf)
        self._stale = set(range(nodes))
        self._doubted: set[int] = set()
        self.looked = 0

    def touch(self, nodes: Iterable[int]) -> None:
        """Something on these nodes has changed."""
        self._stale.update(nodes)

    def doubt(self, nodes: Iterable[int]) -> None:
        """What was best on these nodes has become dearer, if anything: they are looked at when they would be chosen."""
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
                self._look(node)
                node = int(self._rate[turn].argmin())
            for bundle in self.of[node]:
                key = (bundle[0] / min(bundle[1], missing), -bundle[1], bundle[2])
                if found is None or key < found[0]:
                    found = (key, bundle)
        return found[1] if found is not None else None

    def refresh(self) -> None:
        """Look at the nodes that have changed."""
        for node in sorted(self._stale):
            self._look(node)
        self._stale.clear()

    def _look(self, node: int) -> None:
        self._doubted.discard(node)
        bundles = self.of[node] = self._bundles(node)
        self._rate[:, node] = (
            [min([weight / min(gain, count) for weight, gain, _ in bundles]) for count in _MISSING]
            if bundles
            else np.inf
        )

    def _bundles(self, node: int) -> list[Bundle]:
        state, wants = self._eviction, self._wants
        if not state.numbers.kinds[self._kind].usable[node]:
            return []
        gone, barred = state.gone, state.barred
        units = [unit for unit in state.numbers.on[node] if unit not in gone and unit not in barred]
        if not units:
            return []
        self.looked += 1 + len(units) // 4
        have = state.left[node]
        share = {unit: dict(state.numbers.takes[unit])[node] for unit in units}
        now = state.spare[self._kind][node]
        full = list(have)
        for amounts in share.values():
            for resource, amount in enumerate(amounts):
                full[resource] += amount
        most = min(full[resource] // want for resource, want in enumerate(wants) if want) - now
        if most <= 0:
            return []
        weigh = {unit: self._weight(unit) for unit in units}
        found: dict[tuple[int, ...], None] = {}
        spanning = [unit for unit in units if len(state.numbers.takes[unit]) > 1]
        for target in (*(t for t in _TARGETS if t < most), most):
            lack = self._lack(have, now + target)
            chosen = cheapest_cover(lack, [(weigh[unit], share[unit], unit) for unit in units])
            if chosen is not None:
                found[tuple(sorted(chosen))] = None
        for unit in spanning:
            found[unit,] = None
            beside = [h + a for h, a in zip(have, share[unit], strict=True)]
            rest = [(weigh[other], share[other], other) for other in units if other != unit]
            chosen = cheapest_cover(self._lack(beside, now + most), rest)
            if chosen is not None:
                found[tuple(sorted([unit, *chosen]))] = None
        bundles: list[Bundle] = []
        for those in found:
            gain = self._gain(those)
            if gain > 0:
                weight = sum([weigh[unit] for unit in those])
                if len(those) > 1 and state.budgets_first:
                    together = state.violating(those) - sum([state.violates(unit) for unit in those])
                    weight += together * BROKEN_BUDGET
                bundles.append((weight, gain, those))
        return bundles

    def _lack(self, have: Sequence[int], places: int) -> list[tuple[int, int]]:
        """(resource, amount) that is missing for so many places."""
        return [
            (resource, want * places - have[resource])
            for resource, want in enumerate(self._wants)
            if want and want * places > have[resource]
        ]

    def _weight(self, unit: int) -> float:
        state = self._eviction
        # Among equals those who started late go first, as far as a fraction can say so.
        return state.weight[unit] + state.age[unit] + (BROKEN_BUDGET if state.dear(unit) else 0.0)

    def _gain(self, units: Sequence[int]) -> int:
        """How many more pods fit on all nodes together with these units gone."""
        state, wants = self._eviction, self._wants
        freed: dict[int, list[int]] = {}
        for unit in units:
            for node, amounts in state.numbers.takes[unit]:
                there = freed.get(node)
                if there is None:
                    there = freed[node] = list(state.left[node])
                for resource, amount in enumerate(amounts):
                    there[resource] += amount
        self.looked += len(freed) // 16
        usable, spare = state.numbers.kinds[self._kind].usable, state.spare[self._kind]
        gain = 0
        for node, there in freed.items():
            if usable[node]:
                room = min(there[resource] // want for resource, want in enumerate(wants) if want)
                gain += max(room, 0) - spare[node]
        return gain


def cheapest_cover(lack: Sequence[tuple[int, int]], units: Sequence[tuple[float, Amounts, int]]) -> list[int] | None:
    """Units that together hold what is lacking, at little weight; None if all of them do not.

    Exact where one or two units are enough, else by weight for what each contributes, without what is superfluous.
    """
    if not lack:
        return []
    useful = [each for each in units if any(each[1][resource] > 0 for resource, _ in lack)]
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
