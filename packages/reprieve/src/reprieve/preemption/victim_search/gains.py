"""The number of further pods of a kind that fit with certain units evicted, on all nodes together."""

from collections.abc import Iterable, Sequence
from operator import add

from reprieve.preemption.victim_search.eviction import Eviction
from reprieve.preemption.victim_search.problem import Amounts


class Gains:
    """Gains of units, cached until something on their nodes changes.

    `examined`: steps taken here; `at_first[unit]`: its gain before any change, -1 if unknown.
    """

    def __init__(self, eviction: Eviction, kind: int, at_first: Sequence[int]) -> None:
        self._eviction, self._kind, self._at_first = eviction, kind, at_first
        self._wanted = eviction.numbers.kinds[kind].wanted
        self._changes = [0] * len(eviction.numbers.units)
        """By unit: number of changes on its nodes."""
        self._known: dict[tuple[int, ...], tuple[int, int]] = {}
        """By units: the sum of their changes at the computation, and their gain."""
        self._nodes_of: dict[int, frozenset[int]] = {}
        self.examined = 0

    def forget(self, nodes: Iterable[int]) -> None:
        """Drop the gains of units on these nodes."""
        on, changes = self._eviction.numbers.on, self._changes
        for node in nodes:
            for unit in on[node]:
                changes[unit] += 1

    def of(self, units: tuple[int, ...]) -> int:
        """Return the number of further pods that fit with these units evicted."""
        changes = self._changes
        if len(units) > 1:
            now = sum([changes[unit] for unit in units])
        else:
            now = changes[units[0]]
            if not now and self._at_first[units[0]] >= 0:
                return self._at_first[units[0]]
        cached = self._known.get(units)
        if cached is not None and cached[0] == now:
            return cached[1]
        gain = self._of_two(*units) if len(units) == 2 else self._of_all(units)
        self._known[units] = now, gain
        return gain

    def _of_two(self, first: int, second: int) -> int:
        """Return the gain of each, and their additional gain on nodes that have both."""
        places, wanted = self._eviction.places, self._wanted
        usable, spare = self._eviction.numbers.kinds[self._kind].usable, places.spare[self._kind]
        gain = self.of((first,)) + self.of((second,))
        for node in self._nodes(first) & self._nodes(second):
            if usable[node]:
                left, shares = places.left[node], self._eviction.share[node]
                of_first, of_second = shares[first], shares[second]
                together = alone = beside = 1 << 40
                for resource, want in wanted:
                    have, more, yet = left[resource], of_first[resource], of_second[resource]
                    together = min(together, (have + more + yet) // want)
                    alone = min(alone, (have + more) // want)
                    beside = min(beside, (have + yet) // want)
                gain += max(together, 0) - max(alone, 0) - max(beside, 0) + spare[node]
        return gain

    def _of_all(self, units: Sequence[int]) -> int:
        places, wanted, numbers = self._eviction.places, self._wanted, self._eviction.numbers
        left, spare, usable = places.left, places.spare[self._kind], numbers.kinds[self._kind].usable
        freed: dict[int, Amounts] = {}
        for unit in units:
            for node, amounts in numbers.takes[unit]:
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

    def _nodes(self, unit: int) -> frozenset[int]:
        nodes = self._nodes_of.get(unit)
        if nodes is None:
            nodes = self._nodes_of[unit] = frozenset([node for node, _ in self._eviction.numbers.takes[unit]])
        return nodes
