"""How many members of a group go to each domain of a topology spread constraint, by what the eviction costs there.

Rule: cost.md 4.13.  With the numbers given, the members of a domain are pinned to its nodes.  Which numbers are allowed
follows from the constraint and from the pods that it counts with all potential victims gone; choices are compared by
`reprieve.preemption.pinned_choices`.  What is found is a proposal: the filters have to agree.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from reprieve.cluster.pods import PodRecord
from reprieve.framework.plugin import CycleState
from reprieve.framework.running_profile import RunningProfile
from reprieve.framework.spread_domains import SpreadCounter, SpreadDomains
from reprieve.preemption.pinned_choices import FEW_CHOICES, Part, Picks, PinnedChoices, PinnedEviction

_MOST_DOMAINS = 12
"""Constraints over more domains are left to the filters alone."""
Counts = tuple[int, ...]
"""Members by domain."""


def spread_of(running: RunningProfile, pods: Sequence[PodRecord]) -> SpreadDomains | None:
    """Return what the one constraint that all these pods have counts, in the present view; None if it is not so."""
    plugin = next((p for p in running.profile.cluster_filters if isinstance(p, SpreadCounter)), None)
    if plugin is None or len({pod.signature.constraints.id for pod in pods}) != 1:
        return None
    return plugin.domains_of_all(CycleState(running.cluster, pods[0]), pods)


@dataclass(slots=True)
class SpreadShares(PinnedChoices):
    """A choice is the index of one of `_shares`, which have of each domain how many pods of each kind it gets."""

    spread: SpreadDomains
    _nodes: list[frozenset[int]] = field(init=False, default_factory=list)
    _held: list[int] = field(init=False, default_factory=list)
    _shares: list[tuple[Counts, ...]] = field(init=False, default_factory=list)

    def cheapest(self) -> PinnedEviction | None:
        """Return the cheapest eviction that is found, its places in an order that keeps the constraint.

        None if there are too many domains, or nothing was found.
        """
        domain_of = np.where(self.spread.eligible, self.spread.domain_of, 0)
        there = np.flatnonzero(self.spread.there).tolist()
        if not 1 < len(there) <= _MOST_DOMAINS:
            return None
        self._held = [int(self.spread.counts[domain]) for domain in there]
        self._nodes = [
            frozenset([node for node, row in enumerate(self.numbers.rows) if domain_of[row] == domain])
            for domain in there
        ]
        counts = [len(kind.pods) for kind in self.numbers.kinds]
        shares = (share for totals in self._totals(sum(counts)) for share in _divided(counts, totals))
        self._shares = list(islice(shares, FEW_CHOICES))
        found = self.eviction_of(self.least_of((turn,) for turn in range(len(self._shares))))
        if found is None:
            return None
        return PinnedEviction(found.price, found.units, tuple(self._in_order(found.places)))

    def where(self, picks: Picks) -> list[tuple[Part, frozenset[int]]]:
        waiting = [iter(kind.pods) for kind in self.numbers.kinds]
        parts = []
        for share, nodes in zip(self._shares[picks[0]], self._nodes, strict=True):
            pods = [pod for pending, count in zip(waiting, share, strict=True) for pod in islice(pending, count)]
            if pods:
                parts.append((Part(tuple(pods), share), nodes))
        return parts

    def _totals(self, members: int) -> Iterator[Counts]:
        """Yield how many members each domain may get, by the least that any domain holds then, the most first."""
        held, skew = self._held, self.spread.max_skew
        few = len(held) < self.spread.min_domains
        highest = 0 if few else (sum(held) + members) // len(held)
        seen: set[Counts] = set()
        for least in range(highest, -1, -1):
            low = [0 if few else max(0, least - have) for have in held]
            high = [max(0, least + skew - have) for have in held]
            for totals in _sums(low, high, members):
                if totals not in seen:
                    seen.add(totals)
                    yield totals

    def _in_order(self, places: Sequence[tuple[PodRecord, int]]) -> Iterator[tuple[PodRecord, int]]:
        """Yield the places so that the domain with the fewest pods gets the next member."""
        node_of = {row: node for node, row in enumerate(self.numbers.rows)}
        held = [*self._held]
        pending = [[place for place in places if node_of[place[1]] in nodes] for nodes in self._nodes]
        while any(pending):
            turn = min((turn for turn, rest in enumerate(pending) if rest), key=lambda turn: held[turn])
            held[turn] += 1
            yield pending[turn].pop(0)


def _sums(low: Sequence[int], high: Sequence[int], total: int) -> Iterator[Counts]:
    """Yield all numbers between the bounds that add up to the total."""
    if not low:
        if not total:
            yield ()
        return
    rest_low, rest_high = sum(low[1:]), sum(high[1:])
    for first in range(max(low[0], total - rest_high), min(high[0], total - rest_low) + 1):
        for rest in _sums(low[1:], high[1:], total - first):
            yield (first, *rest)


def _divided(counts: Sequence[int], totals: Sequence[int]) -> Iterator[tuple[Counts, ...]]:
    """Yield all ways to divide so many pods of each kind among domains that get so many in all: by domain and kind."""
    if not counts:
        if not any(totals):
            yield tuple(() for _ in totals)
        return
    for first in _sums([0] * len(totals), totals, counts[0]):
        left = [total - count for total, count in zip(totals, first, strict=True)]
        for rest in _divided(counts[1:], left):
            yield tuple((count, *more) for count, more in zip(first, rest, strict=True))
