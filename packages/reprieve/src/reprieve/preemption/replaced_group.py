"""Cheaper victims by placing the group anew while units are put back (cost.md 4.5).

A reprieve holds the places of the group fixed.  Where rules about other pods, ports, volumes, devices or levels of a
tree are in play, those places were chosen with all potential victims gone, and numbers do not find cheaper ones.  Here
units are put back, the dearest first, and the group is placed anew beside them with all its filters; they stay where it
still fits.  Units are tried in halves, and in several orders.  Then one victim after the other is kept and all others
are put back anew, and at last single units are exchanged: one more is evicted where that lets dearer ones stay.

Invariants: the result is never dearer than the candidate; the work is counted in pods placed, never in seconds.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from reprieve.preemption.group_view import GroupCandidate, GroupView, price_of
from reprieve.preemption.outcome import SearchLimit
from reprieve.preemption.pinned_choices import MOST_NODES_SEARCHED

MOST_PLACED = 2_000
"""So many pods are placed for one preemption in all."""
MOST_NODES_PLACED = 200_000
"""So many times is a pod compared with a node in all."""


@dataclass(slots=True)
class PlacingWork:
    """How many pods may still be placed for all candidates of one preemption; each may use half of what is left.

    `searched`: how many nodes and units searches for domains may still have, for the cheapest candidates first.
    """

    left: int
    searched: int = MOST_NODES_SEARCHED
    limits: dict[SearchLimit, None] = field(default_factory=dict)
    """Limits that ended a search."""

    @classmethod
    def of(cls, view: GroupView) -> "PlacingWork":
        """Return all the work of a preemption."""
        nodes = max(1, len(view.request.running.cluster.nodes))
        return cls(min(MOST_PLACED, MOST_NODES_PLACED // nodes))


@dataclass(slots=True)
class ReplacedGroup:
    """`view`: where all potential victims stay. `candidate`: what is to be improved."""

    view: GroupView
    candidate: GroupCandidate
    work: PlacingWork
    _left: int = field(init=False)
    """Placements of the whole group that may still be tried."""
    _fits: dict[frozenset[int], bool] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        share = self.work.left if self.candidate.placement is None else self.work.left // 2
        self._left = share // max(1, len(self.candidate.assignment.placed))

    def cheaper(self, by_node: Sequence[int]) -> GroupCandidate:
        """Return the cheapest candidate that is found; `by_node`: all units, those of the cheapest nodes first."""
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
        """Keep one victim more, the dearest first, and put all others back anew, as long as it helps."""
        tried: set[int] = set()
        while self._left > 0:
            ranking, gone = best.ranking, sorted(best.reasons)
            violating = dict(zip(gone, ranking.violating(gone), strict=True))
            victims = sorted((index for index in gone if index not in tried), key=lambda i: (not violating[i], i))
            if not victims:
                break
            tried.add(victims[0])
            # All that a violated budget counts comes back before the others, after the one that is kept.
            over = {budget for index in gone if violating[index] for budget in ranking.charged[index]}
            rest = sorted(range(len(ranking.ordered)), key=lambda i: (over.isdisjoint(ranking.charged[i]), i))
            found = self._tried(best, [victims[0], *(index for index in rest if index != victims[0])], first=1)
            if found.price < best.price:
                best, tried = found, set()
        return best

    def _tried(self, best: GroupCandidate, order: Sequence[int], *, first: int = 0) -> GroupCandidate:
        """The cheaper of the best and what is left when these units are put back in that order, the others staying.

        `first`: so many are tried by themselves before all others; where they do not stay there is nothing to try.
        """
        every = frozenset(order)
        if first and not self._place(every.difference(order[:first])):
            return best
        gone = self._put_back(every.difference(order[:first]), order[first:])
        if not gone or gone == frozenset(best.reasons):
            return best
        return min(best, self.view.with_gone(self.candidate, set(gone)), key=price_of)

    def _exchanged(self, best: GroupCandidate, order: Sequence[int]) -> GroupCandidate:
        """Evict one more unit, no more important than the victims, and put others back instead, as long as it helps."""
        improved = True
        while improved and self._left > 0 and len(best.reasons) > 0:
            improved = False
            gone, ordered = frozenset(best.reasons), best.ranking.ordered
            highest = max(ordered[index].priority for index in gone)
            pods = sum(len(ordered[index].pods) for index in gone)
            others = [
                index
                for index in reversed(order)
                if index not in gone and ordered[index].priority <= highest and len(ordered[index].pods) <= pods
            ]
            for index in others:
                if self._left <= 0:
                    break
                victims = [each for each in order if each in gone]
                tried = self._tried_with(best, gone | {index}, victims)
                if tried.price < best.price:
                    best, improved = tried, True
                    break
        return best

    def _tried_with(self, best: GroupCandidate, gone: frozenset[int], order: Sequence[int]) -> GroupCandidate:
        """Return what is left of an eviction when units are put back in that order, if that can be cheaper than the
        best.
        """
        left = self._put_back(gone, order)
        if len(gone) - len(left) < 1:
            return best
        return self.view.with_gone(self.candidate, set(left))

    def _put_back(self, gone: frozenset[int], order: Sequence[int]) -> frozenset[int]:
        """Put units back as long as the group fits; return those that are gone then."""
        pending: list[Sequence[int]] = [order]
        if len(order) > 1:
            pending = [order[: len(order) // 2], order[len(order) // 2 :]]
        while pending and self._left > 0:
            block = pending.pop(0)
            if not block:
                continue
            less = gone.difference(block)
            if less and self._place(less):
                gone = less
            elif len(block) > 1:
                middle = len(block) // 2
                pending[:0] = [block[:middle], block[middle:]]
        return gone

    def _place(self, gone: Collection[int]) -> bool:
        """Return whether as many members fit with only these units gone."""
        key = frozenset(gone)
        if key not in self._fits:
            self._left -= 1
            self.work.left -= len(self.candidate.assignment.placed)
            with self.view.of(self.candidate.ranking, key):
                found = self.view.request.attempt.run(within=self.candidate.placement)
            self._fits[key] = found.feasible and len(found.placed) >= len(self.candidate.assignment.placed)
        return self._fits[key]
