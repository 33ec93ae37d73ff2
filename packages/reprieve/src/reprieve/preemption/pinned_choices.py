"""Choices of nodes for each part of a group, compared by the cost of the eviction (cost.md 4.12, 4.13).

A choice pins the pods of each part to some nodes; a search in the pinned numbers finds its cost
(`reprieve.preemption.victim_search.pinned_numbers`). Invariant: work is counted in nodes and units of the searches,
never in seconds.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from reprieve.cluster.pods import PodRecord
from reprieve.preemption.victim_search.eviction import Price
from reprieve.preemption.victim_search.pinned_numbers import PinnedNumbers, pinned
from reprieve.preemption.victim_search.problem import Numbers
from reprieve.preemption.victim_search.search import PricedEviction, cheapest_eviction

MOST_NODES_SEARCHED = 5_000
"""Maximum size of all searches for one preemption: the sum of their nodes and units."""
FEW_CHOICES = 4_096
"""Up to this number, all choices are considered, and searched in the order of their estimated cost."""
_PATIENCE = 48
"""The search ends after this number of choices in a row without success."""
_STEPS = 60
"""Steps that a search may use to improve its first eviction."""
Picks = tuple[int, ...]
"""The indices of a choice."""


@dataclass(frozen=True, slots=True)
class Part:
    """Pods that are pinned together. `shape`: equal for identical requests; `choosers`: see `TreeDomains`."""

    pods: tuple[PodRecord, ...]
    shape: Hashable
    choosers: tuple[int, ...] = ()

    @classmethod
    def of(cls, pods: Sequence[PodRecord], numbers: Numbers, choosers: tuple[int, ...] = ()) -> "Part":
        """Return the part of the numbers for these pods."""
        kind_of = {pod.uid: turn for turn, kind in enumerate(numbers.kinds) for pod in kind.pods}
        return cls(tuple(pods), frozenset(Counter(kind_of[pod.uid] for pod in pods).items()), choosers)


@dataclass(frozen=True, slots=True)
class PinnedEviction:
    """The cheapest eviction of a choice. `units`: of all numbers; `places`: (pod, row)."""

    price: Price
    units: tuple[int, ...]
    places: tuple[tuple[PodRecord, int], ...]


@dataclass(slots=True)
class PinnedChoices:
    """Compares choices. `left`: the remaining size of all searches."""

    numbers: Numbers
    left: int
    by_node: ClassVar[bool] = True
    """Whether evictions are also improved node by node (cost.md 4.14)."""
    proposed: PricedEviction | None = field(init=False, default=None)
    """The result without choices: the search ends at an eviction that costs no more."""
    _tried: dict[Hashable, Picks] = field(init=False, default_factory=dict)
    """The first picks for each pinning, regardless of names of pods."""
    _found: dict[Picks, tuple[PricedEviction, PinnedNumbers] | None] = field(init=False, default_factory=dict)
    _prices: dict[Hashable, Price | None] = field(init=False, default_factory=dict)

    def where(self, picks: Picks) -> list[tuple[Part, frozenset[int]]]:
        """Return the nodes of each part with a choice."""
        raise NotImplementedError

    def eviction_of(self, picks: Picks, *, improved: bool = True) -> PinnedEviction:
        """Return the eviction of a choice for which one was found, improved within the limit of a search."""
        result = self._found[picks]
        assert result is not None
        best, part = result
        if improved:
            better = cheapest_eviction(part.numbers, best.units, by_node=self.by_node)
            best = better if better is not None and better.places is not None else best
        return PinnedEviction(best.price, tuple(part.units[unit] for unit in best.units), best.assigned(part.numbers))

    def least_of(self, choices: Iterable[Picks]) -> Picks | None:
        """Return the choice with the cheapest eviction; they are searched by the sum of their parts' costs."""
        estimates = sorted((estimate, picks) for picks in choices if (estimate := self.estimate(picks)) is not None)
        return self._least(picks for _, picks in estimates)

    def _least(self, tried: Iterable[Picks]) -> Picks | None:
        """Return the choice with the cheapest eviction; choices that cannot be cheaper are skipped."""
        best: tuple[Price, Picks] | None = None
        patience = _PATIENCE
        for picks in tried:
            if patience <= 0 or self.left <= 0 or (best is not None and self.is_least(best[0])):
                break
            where = self.where(picks)
            if best is not None and any((a := self._alone(*item)) is None or a >= best[0] for item in where):
                continue
            searched = picks in self._found
            result = self.search(picks)
            if result is not None and (best is None or result[0].price < best[0]):
                best, patience = (result[0].price, picks), _PATIENCE
            elif not searched:
                patience -= 1
        return best[1] if best is not None else None

    def is_least(self, price: Price) -> bool:
        """Return whether no choice costs less, as far as known."""
        return self.proposed is not None and price <= self.proposed.price

    def estimate(self, picks: Picks) -> tuple[int, int, tuple[float, ...]] | None:
        """Return the cost of all leaves if they share no victim; None if one fits nowhere."""
        prices = []
        for leaf, nodes in self.where(picks):
            alone = self._alone(leaf, nodes)
            if alone is None:
                return None
            prices.append(alone)
        costs = [cost for *_, cost in prices if cost]
        total = tuple(map(sum, zip(*costs, strict=True))) if costs else ()
        return sum(violations for violations, *_ in prices), max(highest for _, highest, _ in prices), total

    def _alone(self, leaf: Part, nodes: frozenset[int]) -> Price | None:
        """Return the cost of the pods of a leaf alone; None if they do not fit."""
        key = (leaf.shape, nodes)
        if key not in self._prices:
            cheapest = self._cheapest(pinned(self.numbers, [(leaf.pods, nodes)]))
            self._prices[key] = cheapest.price if cheapest is not None else None
        return self._prices[key]

    def _cheapest(self, part: PinnedNumbers | None) -> PricedEviction | None:
        if part is None:
            return None
        self.left -= len(part.numbers.rows) + len(part.numbers.units)
        return cheapest_eviction(part.numbers, steps=_STEPS, all_of_few=False)

    def search(self, picks: Picks) -> tuple[PricedEviction, PinnedNumbers] | None:
        """Return the cheapest eviction with these domains.

        None also after the limit of work, or for a choice equal to an earlier one except for names of pods.
        """
        if picks in self._found:
            return self._found[picks]
        where = self.where(picks)
        alike = frozenset(Counter((leaf.shape, nodes) for leaf, nodes in where).items())
        if self._tried.setdefault(alike, picks) != picks:
            return None
        part = pinned(self.numbers, ((leaf.pods, nodes) for leaf, nodes in where))
        cheapest = self._cheapest(part)
        self._found[picks] = (cheapest, part) if cheapest is not None and part is not None else None
        return self._found[picks]
