"""Candidates for the next eviction: *bundles* of units that free capacity for one or more pods of a kind (cost.md 4).

For every node the cheapest sets of units that add one, two, four ... places there are computed, and sets around a unit
that spans nodes. The value of a bundle counts the places on all nodes that its units free. Bundles are cached until
something on the node changes, so that a step of the search examines a few nodes and takes the best of all by one pass
over an array. A node is not examined before it may have the best bundle: until then a lower bound of the weight per
place of its bundles, computed for all nodes at once, is used (`least_rates`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from reprieve.preemption.victim_search.eviction import Eviction
from reprieve.preemption.victim_search.gains import Gains
from reprieve.preemption.victim_search.node_sets import NodeSets, NodeUnits
from reprieve.preemption.victim_search.rates import MISSING, Bundle, least_rates, rates_of


@dataclass(slots=True)
class _Examinations:
    """Nodes with outdated rates; the rates of all others are current.

    `changed`: examined before the next choice; `bounded`: the rate is a lower bound, so a node is examined when it
    would be chosen; `first`: never examined, and the first time is no step of the search.
    """

    changed: set[int]
    bounded: set[int]
    first: set[int]

    def current(self, node: int) -> None:
        """Mark the rates of a node as current."""
        self.bounded.discard(node)
        self.first.discard(node)


class Bundles:
    """The bundles of all nodes for one kind of pod."""

    def __init__(self, eviction: Eviction, kind: int) -> None:
        nodes = len(eviction.places.left)
        self._eviction = eviction
        self.of: list[Sequence[Bundle]] = [()] * nodes
        self._rate, at_first = least_rates(eviction, kind)
        unknown = set(np.flatnonzero(self._rate[0] < np.inf).tolist())
        self._examinations = _Examinations(set(), unknown, unknown.copy())
        self._sets, self._gains = NodeSets(eviction, kind), Gains(eviction, kind, at_first)
        self._on: list[NodeUnits | None] = [None] * nodes
        """By node: the units that may be evicted there, until something on it changes."""
        self._examined = 0

    @property
    def examined(self) -> int:
        """Return the number of examined nodes, the search's measure."""
        return self._examined + self._gains.examined

    def touch(self, nodes: Iterable[int]) -> None:
        """Mark these nodes as changed."""
        self._examinations.changed.update(nodes)
        self._gains.forget(nodes)
        for node in nodes:
            self._on[node] = None

    def doubt(self, nodes: Iterable[int]) -> None:
        """Mark nodes with bundles that can only have become more expensive."""
        self._examinations.bounded.update(nodes)

    def best(self, missing: int) -> Bundle | None:
        """Return the bundle with the lowest cost per placed pod, for missing pods; None if there is none."""
        self.refresh()
        level = next(i for i, count in enumerate(MISSING) if missing <= count)
        best = None
        if not self.of:
            return None
        for turn in {level, max(level - 1, 0)}:
            node = int(self._rate[turn].argmin())
            while node in self._examinations.bounded:
                self._inspect(node)
                node = int(self._rate[turn].argmin())
            for bundle in self.of[node]:
                key = (bundle[0] / min(bundle[1], missing), -bundle[1], bundle[2])
                if best is None or key < best[0]:
                    best = (key, bundle)
        return best[1] if best is not None else None

    def refresh(self) -> None:
        """Examine the nodes that have changed."""
        examinations = self._examinations
        changed = sorted(examinations.changed)
        examinations.changed.clear()
        if changed:
            examinations.bounded.difference_update(changed)
            occupied = [node for node in changed if self._units_on(node).units]
            empty = sorted(set(changed).difference(occupied))
            examinations.first.difference_update(empty)
            for node in empty:
                self.of[node] = ()
            self._rate[:, empty] = np.inf
            if occupied:
                self._rate[:, occupied] = np.array([rates_of(self._examine(node)) for node in occupied]).T

    def every(self) -> list[Bundle]:
        """Return the bundles of all nodes, the lightest first, each once."""
        self.refresh()
        for node in sorted(self._examinations.first):
            if node in self._examinations.first:
                self._inspect(node)
        return sorted({bundle[2]: bundle for bundles in self.of for bundle in bundles}.values())

    def _inspect(self, node: int) -> None:
        """Replace the lower bound of a node by its rates."""
        self._examinations.bounded.discard(node)
        bundles = self._examine(node)
        rates = rates_of(bundles)
        self._rate[:, node] = rates
        on = self._on[node]
        if bundles and on is not None and len(on.units) == 1:
            # If a unit is alone on its nodes, that bundle is the only one.
            for beside, _ in self._eviction.numbers.takes[on.units[0]]:
                if beside in self._examinations.bounded and self._units_on(beside).units == on.units:
                    self._examinations.current(beside)
                    self.of[beside] = bundles
                    self._rate[:, beside] = rates

    def _examine(self, node: int) -> Sequence[Bundle]:
        units, examined = self._units_on(node).units, self._gains.examined
        bundles = self.of[node] = self._bundles(node)
        if node in self._examinations.first:
            self._examinations.first.discard(node)
            self._gains.examined = examined
        elif units:
            self._examined += 1 + len(units) // 4
        return bundles

    def _units_on(self, node: int) -> NodeUnits:
        on = self._on[node]
        if on is None:
            on = self._on[node] = self._sets.units_on(node)
        return on

    def _bundles(self, node: int) -> Sequence[Bundle]:
        on = self._units_on(node)
        if len(on.units) < 2:
            gain = self._gains.of(on.units) if on.units else 0
            return [(self._eviction.weigh(on.units), gain, on.units)] if gain > 0 else ()
        bundles: list[Bundle] = []
        for turns, exact_gain in self._sets.sets(on):
            units = tuple([on.units[turn] for turn in turns])
            gain = exact_gain if exact_gain is not None else self._gains.of(units)
            if gain > 0:
                bundles.append((self._eviction.weigh(units), gain, units))
        return bundles
