"""Cheaper victims by placing the group again while units are put back (cost.md 4.5).

A reprieve does not change the places of the group. With rules about other pods, ports, volumes, devices or levels of a
tree, these places were chosen without all potential victims, and numbers do not find cheaper ones. This module puts
units back, the most expensive first, and places the group again beside them with all its filters; units stay if it
still fits. Units are tried in halves, and in several orders. Then each victim in turn is kept and all others are put
back again, and finally single units are exchanged: one more is evicted if more expensive ones can stay. Invariants: the
result never costs more than the candidate; the work is counted in placed pods, never in seconds.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from reprieve.preemption.group_view import GroupCandidate, GroupView, price_of
from reprieve.preemption.outcome import SearchLimit
from reprieve.preemption.pinned_choices import MOST_NODES_SEARCHED

MOST_PLACED = 2_000
"""Maximum number of pods placed for one preemption in total."""
MOST_NODES_PLACED = 200_000
"""Maximum number of comparisons of a pod with a node in total."""


@dataclass(slots=True)
class PlacingWork:
    """The remaining work for all candidates of one preemption, in placed pods; each may use half of it.

    `searched`: the remaining nodes and units of searches for domains, for the cheapest candidates first.
    """

    left: int
    searched: int = MOST_NODES_SEARCHED
    limits: dict[SearchLimit, None] = field(default_factory=dict)
    """Limits that ended a search."""

    @classmethod
    def of(cls, view: GroupView) -> "PlacingWork":
        """Return the full amount of work of a preemption."""
        nodes = max(1, len(view.request.running.cluster.nodes))
        return cls(min(MOST_PLACED, MOST_NODES_PLACED // nodes))


@dataclass(slots=True)
class ReplacedGroup:
    """Improves a candidate. `view`: all potential victims stay."""

    view: GroupView
    candidate: GroupCandidate
    work: PlacingWork
    _left: int = field(init=False)
    """Remaining trials of placements of the whole group."""
    _fits: dict[frozenset[int], bool] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        share = self.work.left if self.candidate.placement is None else self.work.left // 2
        self._left = share // max(1, len(self.candidate.assignment.placed))

    def cheaper(self, by_node: Sequence[int]) -> GroupCandidate:
        """Return the cheapest candidate found; `by_node`: all units, those of the cheapest nodes first."""
        best = self.candidate
        order = best.ranking.order
        best = self._tried(best, [index for index in order if index in best.reasons])
        by_importance = range(len(order))
        for every in (order, by_importance, list(reversed(by_node))):
            if self._left > 0:
                best = self._tried(best, every)
        best = self._with_one_kept(best)
        return self._exchanged(best, order)

    def _with_one_kept(self, best: GroupCandidate) -> GroupCandidate:
        """Spare one more victim, the most expensive first, and put all others back again, as long as it helps."""
        tried: set[int] = set()
        while self._left > 0:
            ranking, indices = best.ranking, sorted(best.reasons)
            violating = dict(zip(indices, ranking.violating(indices), strict=True))
            victims = sorted((index for index in indices if index not in tried), key=lambda i: (not violating[i], i))
            if not victims:
                break
            tried.add(victims[0])
            # All pods that a violated budget counts are put back before the others, after the spared one.
            over = {budget for index in indices if violating[index] for budget in ranking.charged[index]}
            rest = sorted(range(len(ranking.ordered)), key=lambda i: (over.isdisjoint(ranking.charged[i]), i))
            candidate = self._tried(best, [victims[0], *(index for index in rest if index != victims[0])], first=1)
            if candidate.price < best.price:
                best, tried = candidate, set()
        return best

    def _tried(self, best: GroupCandidate, order: Sequence[int], *, first: int = 0) -> GroupCandidate:
        """Return the best eviction, or a cheaper one after putting these units back in that order.

        `first`: the first units are tried alone; if they cannot stay, nothing else is tried.
        """
        every = frozenset(order)
        if first and not self._place(every.difference(order[:first])):
            return best
        remaining = self._put_back(every.difference(order[:first]), order[first:])
        if not remaining or remaining == frozenset(best.reasons):
            return best
        return min(best, self.view.with_gone(self.candidate, set(remaining)), key=price_of)

    def _exchanged(self, best: GroupCandidate, order: Sequence[int]) -> GroupCandidate:
        """Evict one more unit, not more important than the victims, and put others back, as long as it helps."""
        improved = True
        while improved and self._left > 0 and len(best.reasons) > 0:
            improved = False
            evicted, ordered = frozenset(best.reasons), best.ranking.ordered
            highest = max(ordered[index].priority for index in evicted)
            pods = sum(len(ordered[index].pods) for index in evicted)
            further = [
                index
                for index in reversed(order)
                if index not in evicted and ordered[index].priority <= highest and len(ordered[index].pods) <= pods
            ]
            for index in further:
                if self._left <= 0:
                    break
                victims = [i for i in order if i in evicted]
                tried = self._tried_with(best, evicted | {index}, victims)
                if tried.price < best.price:
                    best, improved = tried, True
                    break
        return best

    def _tried_with(self, best: GroupCandidate, evicted: frozenset[int], order: Sequence[int]) -> GroupCandidate:
        """Return the rest of an eviction after putting units back in that order, if it can be cheaper than the best."""
        left = self._put_back(evicted, order)
        if len(evicted) - len(left) < 1:
            return best
        return self.view.with_gone(self.candidate, set(left))

    def _put_back(self, evicted: frozenset[int], order: Sequence[int]) -> frozenset[int]:
        """Put units back as long as the group fits; return the remaining victims."""
        pending = [order[: len(order) // 2], order[len(order) // 2 :]]
        while pending and self._left > 0:
            block = pending.pop(0)
            if not block:
                continue
            less = evicted.difference(block)
            if less and self._place(less):
                evicted = less
            elif len(block) > 1:
                middle = len(block) // 2
                pending[:0] = [block[:middle], block[middle:]]
        return evicted

    def _place(self, evicted: Collection[int]) -> bool:
        """Return whether as many members fit if only these units are evicted."""
        key = frozenset(evicted)
        if key not in self._fits:
            self._left -= 1
            self.work.left -= len(self.candidate.assignment.placed)
            with self.view.of(self.candidate.ranking, key):
                assignment = self.view.request.attempt.run(within=self.candidate.placement)
            self._fits[key] = assignment.feasible and len(assignment.placed) >= len(self.candidate.assignment.placed)
        return self._fits[key]
