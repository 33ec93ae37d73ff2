"""The division of a group's members among the domains of a topology spread constraint, by the cost of evictions.

Rule: cost.md 4.13.  With the numbers given, the members of a domain are pinned to its nodes.  The constraint, and the
pods that it counts without all potential victims, determine the allowed numbers; choices are compared by
`reprieve.preemption.pinned_choices`.  The result is a proposal that the filters have to confirm.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import attrgetter
from typing import ClassVar

import numpy as np

from reprieve.cluster.pods import PodRecord
from reprieve.framework.plugin import CycleState
from reprieve.framework.running_profile import RunningProfile
from reprieve.framework.spread_domains import SpreadCounter, SpreadDomains
from reprieve.preemption.pinned_choices import FEW_CHOICES, Part, Picks, PinnedChoices, PinnedEviction
from reprieve.preemption.victim_search.node_tables import MOST_NODES, Domains, NodeTables, Rearrangement
from reprieve.preemption.victim_search.search import PricedEviction, cheapest_eviction

MOST_DOMAINS = 12
"""Constraints over more domains are left to the filters alone."""
_FEW_SHARES = 64
"""Up to this number, ways to divide the members are compared by the cost of each domain alone; above it by exchange."""
_STARTS, _IMPROVED = 3, 5
"""Number of ways from which exchanges start, and of evictions that are improved at the end."""
_price = attrgetter("price")
Counts = tuple[int, ...]
"""Members by domain, or by kind."""
Share = tuple[Counts, ...]
"""By domain: its members of each kind."""


def spread_of(running: RunningProfile, pods: Sequence[PodRecord]) -> SpreadDomains | None:
    """Return the counts of the one constraint that all these pods have, in the present view; None without one."""
    plugin = next((p for p in running.profile.cluster_filters if isinstance(p, SpreadCounter)), None)
    if plugin is None or len({pod.signature.constraints.id for pod in pods}) != 1:
        return None
    return plugin.domains_of_all(CycleState(running.cluster, pods[0]), pods)


@dataclass(slots=True)
class SpreadShares(PinnedChoices):
    """A choice is the index of one of `_shares`, which have the number of pods of each kind for each domain.

    `places`: (pod, row) that keep the constraint without all potential victims.
    """

    spread: SpreadDomains
    places: Sequence[tuple[PodRecord, int]]
    by_node: ClassVar[bool] = False  # that comes last, for all domains at once
    cut: bool = field(init=False, default=False)
    """Whether the work ended before all promising choices were compared."""
    settled: bool = field(init=False, default=False)
    """Whether all options were added up node by node, or no eviction is cheaper without the constraint."""
    _nodes: list[frozenset[int]] = field(init=False, default_factory=list)
    _held: list[int] = field(init=False, default_factory=list)
    _shares: list[Share] = field(init=False, default_factory=list)
    _index: dict[Share, int] = field(init=False, default_factory=dict)

    @property
    def domains(self) -> int:
        """Return the number of domains that are compared."""
        return int(np.count_nonzero(self.spread.compared))

    def cheapest(self) -> PinnedEviction | None:
        """Return the cheapest eviction found, its places in an order that keeps the constraint.

        None if there are too many domains, or nothing was found.
        """
        domain_of = np.where(self.spread.eligible, self.spread.domain_of, 0)
        compared = np.flatnonzero(self.spread.compared).tolist()
        if not 1 < len(compared) <= MOST_DOMAINS:
            return None
        self._held = [int(self.spread.counts[domain]) for domain in compared]
        self._nodes = [
            frozenset([node for node, row in enumerate(self.numbers.rows) if domain_of[row] == domain])
            for domain in compared
        ]
        eviction = self._proposal_kept() or self._searched()
        return replace(eviction, places=tuple(self._in_order(eviction.places))) if eviction is not None else None

    def _proposal_kept(self) -> PinnedEviction | None:
        """Return the proposed eviction with places that keep the constraint."""
        if self.proposed is None or self.proposed.places is None:
            return None
        tables = self._tables(self.proposed.assigned(self.numbers))
        kept_proposal = tables.within(self.proposed.units) if tables is not None else None
        self.settled = kept_proposal is not None
        return self._placed(kept_proposal) if kept_proposal is not None else None

    def _searched(self) -> PinnedEviction | None:
        """Return the cheapest eviction of all shares that are searched, improved."""
        counts = [len(kind.pods) for kind in self.numbers.kinds]
        shares = (share for totals in self._totals(sum(counts)) for share in _divided(counts, totals))
        few = list(islice(shares, _FEW_SHARES + 1))
        if len(few) <= _FEW_SHARES:
            self.least_of([self._number(share) for share in few])
            self.cut = self.left <= 0
        else:
            self._by_exchange(few[0])
        best = [picks for _, picks in sorted((hit[0].price, picks) for picks, hit in self._found.items() if hit)]
        if not best:
            return None
        result = self._rearranged(self.eviction_of(best[0], improved=False))
        if not self.settled:
            better = min([self.eviction_of(picks) for picks in best[:_IMPROVED]], key=_price)
            if better.price < result.price:
                result = self._rearranged(better)
        return result

    def _rearranged(self, best: PinnedEviction) -> PinnedEviction:
        """Return the eviction, or a cheaper one, with the numbers of each kind per domain computed node by node."""
        tables = self._tables(best.places) if not self.is_least(best.price) else None
        better = tables.improved(best.units, best.price) if tables is not None else None
        self.settled = tables.complete if tables is not None else self.is_least(best.price)
        self.cut = self.cut and not self.settled
        return best if better is None else self._placed(better)

    def _tables(self, places: Sequence[tuple[PodRecord, int]]) -> NodeTables | None:
        """Return the tables of all nodes; ways to divide the members that are nearest to these places come first."""
        have = tuple(map(sum, self._share_of(places)))
        every = islice(self._totals(sum(have)), FEW_CHOICES)
        totals = sorted(every, key=lambda totals: sum(abs(a - b) for a, b in zip(totals, have, strict=True)))
        return NodeTables.of(self.numbers, Domains(self._nodes, totals))

    def _placed(self, result: Rearrangement) -> PinnedEviction:
        places = PricedEviction(result.units, result.price, result.places).assigned(self.numbers)
        return PinnedEviction(result.price, result.units, places)

    def _number(self, share: Share) -> Picks:
        """Return the choice of the share."""
        turn = self._index.setdefault(share, len(self._shares))
        if turn == len(self._shares):
            self._shares.append(share)
        return (turn,)

    # -- if there are many shares ----------------------------------------------------------------------------------

    def _by_exchange(self, first: Share) -> None:
        """Search some shares first, then those that differ in one or two pods, as long as one is cheaper."""
        starts = [self._share_of(self.places), first]
        free = cheapest_eviction(self.numbers, steps=0, all_of_few=False)
        if free is not None and free.places is not None:
            starts[:0] = self._allowed_near(self._share_of(free.assigned(self.numbers)))
        tried = [(result[0].price, picks) for share in starts if (result := self.search(picks := self._number(share)))]
        tried.sort()
        # If each node can be examined alone at the end, half of the work is reserved for that.
        enough = self.left // 2 if len(self.numbers.free) <= MOST_NODES else 0
        for price, picks in tried[:_STARTS]:
            best, better = (price, self._shares[picks[0]]), True
            while better and self.left > enough and not self.is_least(best[0]):
                better = False
                for share in self._near(best[1]):
                    if self.left <= enough:
                        self.cut = True
                        break
                    result = self.search(self._number(share))
                    if result is not None and result[0].price < best[0]:
                        best, better = (result[0].price, share), True
                        break

    def _share_of(self, places: Iterable[tuple[PodRecord, int]]) -> Share:
        node_of = {row: node for node, row in enumerate(self.numbers.rows)}
        kind_of = {pod.uid: turn for turn, kind in enumerate(self.numbers.kinds) for pod in kind.pods}
        counts = Counter((node_of[row], kind_of[pod.uid]) for pod, row in places)
        return tuple(
            tuple(sum(counts[node, kind] for node in nodes) for kind in range(len(self.numbers.kinds)))
            for nodes in self._nodes
        )

    def _allowed_near(self, share: Share) -> list[Share]:
        """Return shares that keep the constraint after moving as few pods as possible, the smallest first."""
        have = tuple(map(sum, share))
        every = islice(self._totals(sum(have)), FEW_CHOICES)
        near = sorted(every, key=lambda totals: sum(abs(a - b) for a, b in zip(totals, have, strict=True)))
        result = []
        for totals in near[:_STARTS]:
            counts, moved = [list(domain) for domain in share], list[int]()
            for domain, total in zip(counts, totals, strict=True):
                for kind in reversed(range(len(domain))):  # the kinds that are hardest to place come first
                    more = max(0, min(domain[kind], sum(domain) - total))
                    domain[kind] -= more
                    moved += [kind] * more
            for domain, total in zip(counts, totals, strict=True):
                while sum(domain) < total:
                    domain[moved.pop()] += 1
            result.append(tuple(map(tuple, counts)))
        return result

    def _near(self, share: Share) -> list[Share]:
        """Return shares with one pod elsewhere, or with two pods exchanged, in a fixed order without a pattern."""
        allowed, shares = set(islice(self._totals(sum(map(sum, share))), FEW_CHOICES)), []
        kinds, domains = range(len(share[0])), range(len(share))
        for src, dst in ((src, dst) for src in domains for dst in domains if src != dst):
            for kind in kinds:
                if not share[src][kind]:
                    continue
                moved = _moved(share, src, dst, kind)
                if tuple(map(sum, moved)) in allowed:
                    shares.append(moved)
                if src < dst:
                    shares += [_moved(moved, dst, src, swap) for swap in kinds if swap != kind and share[dst][swap]]
        return [shares[place] for place in np.random.default_rng(1).permutation(len(shares))]

    def where(self, picks: Picks) -> list[tuple[Part, frozenset[int]]]:
        waiting = [iter(kind.pods) for kind in self.numbers.kinds]
        parts = []
        for share, nodes in zip(self._shares[picks[0]], self._nodes, strict=True):
            pods = [pod for pending, count in zip(waiting, share, strict=True) for pod in islice(pending, count)]
            if pods:
                parts.append((Part(tuple(pods), share), nodes))
        return parts

    def _totals(self, members: int) -> Iterator[Counts]:
        """Yield the numbers of members by domain, by the resulting minimum of any domain, the highest first."""
        counted, skew = self._held, self.spread.max_skew
        few = len(counted) < self.spread.min_domains
        highest = 0 if few else (sum(counted) + members) // len(counted)
        seen: set[Counts] = set()
        for least in range(highest, -1, -1):
            low = [0 if few else max(0, least - have) for have in counted]
            high = [max(0, least + skew - have) for have in counted]
            for totals in _sums(low, high, members):
                if totals not in seen:
                    seen.add(totals)
                    yield totals

    def _in_order(self, places: Sequence[tuple[PodRecord, int]]) -> Iterator[tuple[PodRecord, int]]:
        """Yield the places so that the domain with the fewest pods gets the next member."""
        node_of = {row: node for node, row in enumerate(self.numbers.rows)}
        counted = [*self._held]
        pending = [[place for place in places if node_of[place[1]] in nodes] for nodes in self._nodes]
        while any(pending):
            turn = min((turn for turn, rest in enumerate(pending) if rest), key=lambda turn: counted[turn])
            counted[turn] += 1
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


def _divided(counts: Sequence[int], totals: Sequence[int]) -> Iterator[Share]:
    """Yield all ways to divide pods of each kind among domains with given totals: by domain and kind."""
    if not counts:
        if not any(totals):
            yield tuple(() for _ in totals)
        return
    for first in _sums([0] * len(totals), totals, counts[0]):
        left = [total - count for total, count in zip(totals, first, strict=True)]
        for rest in _divided(counts[1:], left):
            yield tuple((count, *more) for count, more in zip(first, rest, strict=True))


def _moved(share: Share, source: int, target: int, kind: int) -> Share:
    """Return the share with one pod of a kind in another domain."""
    change = {source: -1, target: 1}
    return tuple(
        tuple(count + change.get(domain, 0) * (turn == kind) for turn, count in enumerate(counts))
        for domain, counts in enumerate(share)
    )
