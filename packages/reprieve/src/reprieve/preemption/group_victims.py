"""The cheapest victims that free capacity for a group in the placement of a candidate (cost.md 4).

If only resources matter, the search works on numbers (`reprieve.preemption.victim_search`), and the group is placed
where it scores best without only those victims. Otherwise the group's algorithm tries the proposal of the numbers with
all its filters, and a few evictions of the least important units; then the group is placed again while units are put
back (`reprieve.preemption.replaced_group`). Only evictions that work are used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from reprieve.framework.plugin import CycleState, Placement, PodGroupAssignment
from reprieve.preemption.cost import Cost
from reprieve.preemption.group_view import GroupCandidate, GroupView, price_of
from reprieve.preemption.order import Ranking
from reprieve.preemption.outcome import LimitKind, Reason, SearchLimit, Verdict
from reprieve.preemption.pinned_choices import MOST_NODES_SEARCHED, PinnedEviction
from reprieve.preemption.replaced_group import PlacingWork, ReplacedGroup
from reprieve.preemption.spread_shares import MOST_DOMAINS, SpreadShares, spread_of
from reprieve.preemption.tree_domains import TreeDomains
from reprieve.preemption.victim_search.problem import Numbers, numbers_of
from reprieve.preemption.victim_search.search import PricedEviction, as_cheap, cheapest_eviction

_MOST_AS_CHEAP, _PODS_PLACED_ANEW = 24, 384
"""Maximum number of evictions with equal cost that are compared by the group's score, and of pods placed for that.

Fewer evictions are compared for large groups.
"""


def all_cheaper(
    view: GroupView, candidates: Sequence[GroupCandidate], wide: Numbers | None
) -> tuple[list[GroupCandidate], tuple[SearchLimit, ...]]:
    """Return the candidates with the cheapest victims if their domain may still be one of the two cheapest.

    Also return the limits that ended the search. Called in a view where all potential victims stay. `wide`: the numbers
    of the whole cluster, if that is the only domain.
    """
    cheaper: dict[int, GroupCandidate] = {}
    best: list[tuple[bool, Cost]] = []
    work = PlacingWork.of(view)
    for index, candidate in sorted(enumerate(candidates), key=lambda item: (item[1].at_least, item[1].price)):
        if len(best) < 2 or candidate.at_least <= best[1]:
            candidate = _cheaper(view, candidate, wide, work)
            best = sorted([*best, candidate.price])[:2]
        cheaper[index] = candidate
    return [cheaper[index] for index in range(len(candidates))], tuple(work.limits)


def numbers_for(view: GroupView, candidate: GroupCandidate, within: Ranking) -> Numbers | None:
    """Return the numbers for the search, in a view where all units of `within` are displaced.

    None if the pods differ too much.
    """
    request = view.request
    pods = [pod for pod, _ in candidate.assignment.placed]
    return numbers_of(request.running, pods, request.priority, within, candidate.placement)


def _cheaper(view: GroupView, candidate: GroupCandidate, numbers: Numbers | None, work: PlacingWork) -> GroupCandidate:
    """Return the candidate with the cheapest victims for as many members in the same placement."""
    if candidate.cost is None:
        return candidate
    ranking, everything = candidate.ranking, range(len(candidate.ranking.ordered))
    # Only units in the placement can free capacity there.
    inside = everything if candidate.placement is None else sorted(ranking.on(candidate.placement.rows.tolist()))
    within = ranking if len(inside) == len(everything) else ranking.only(inside)
    if view.request.attempt.constrained_below:
        candidate, settled = _in_chosen_domains(view, candidate, within, inside, work)
        if settled:
            return candidate
        numbers = None  # only the walk places levels that need nodes of their own
    elif candidate.placement is not None or ranking is not view.ranking:
        with view.of(within, range(len(inside))):
            numbers = numbers_for(view, candidate, within)
    least = LeastImportant(view, candidate, inside)
    if numbers is not None and numbers.exact:
        return ExactSearch(view, candidate, numbers, inside).cheaper() or least.cheaper()
    if numbers is not None:
        proposal = ProposeAndTry(view, candidate, numbers, inside)
        proposed = proposal.eviction()
        tried = proposal.tried(proposed) if proposed is not None else None
        if tried is not None:
            return tried  # rules only reduce the possible evictions
        candidate, settled = _spread_otherwise(view, candidate, numbers, inside, work, proposed)
        if settled:
            return candidate
        least = LeastImportant(view, candidate, inside)
    return ReplacedGroup(view, least.cheaper(), work).cheaper(least.by_node)


def _in_chosen_domains(
    view: GroupView, candidate: GroupCandidate, within: Ranking, inside: Sequence[int], work: PlacingWork
) -> tuple[GroupCandidate, bool]:
    """Return a tree's candidate, or the cheaper one with other domains of the groups below its root.

    Also return whether that is final: the search was complete, and the group is placed as in the numbers.
    """
    choices = view.request.attempt.choices_below(candidate.placement)
    if not choices or work.searched <= 0:
        if choices:
            work.limits[SearchLimit(LimitKind.TREE_WORK, MOST_NODES_SEARCHED)] = None
        return candidate, False
    with view.of(within, range(len(inside))) as displaced:
        numbers = numbers_for(displaced, candidate, within)
        if numbers is None:
            return candidate, False
        domains = TreeDomains(numbers, work.searched, displaced, candidate, within, choices)
        choice = domains.cheapest()
        work.searched = domains.left
        if domains.left <= 0:
            work.limits[SearchLimit(LimitKind.TREE_WORK, MOST_NODES_SEARCHED)] = None
    if choice is None:
        return candidate, False
    tried, works = _tried(view, candidate, inside, choice[0], choice[1])
    return tried, works and numbers.exact and domains.left > 0


def _spread_otherwise(
    view: GroupView,
    candidate: GroupCandidate,
    numbers: Numbers,
    inside: Sequence[int],
    work: PlacingWork,
    proposed: PricedEviction | None,
) -> tuple[GroupCandidate, bool]:
    """Return the candidate, or the cheaper one with other numbers of members in the domains of a spread constraint.

    Also return whether that is final: all filters agree, and all choices were compared or the eviction costs no more
    than the one `proposed` without the constraint.
    """
    with view.of(candidate.ranking, inside):
        pods = [pod for pod, _ in candidate.assignment.placed]
        spread = spread_of(view.request.running, pods)
    if spread is None:
        return candidate, False
    size, most = len(numbers.rows) + len(numbers.units), work.searched // 2
    if size > most:
        limit = SearchLimit(LimitKind.SPREAD_SIZE, MOST_NODES_SEARCHED // 2, size)
        if size <= limit.most:
            limit = SearchLimit(LimitKind.SPREAD_WORK, MOST_NODES_SEARCHED)
        work.limits[limit] = None
        return candidate, False
    shares = SpreadShares(numbers, work.searched, spread, candidate.assignment.placed)
    shares.proposed = proposed
    if shares.domains > MOST_DOMAINS:
        work.limits[SearchLimit(LimitKind.SPREAD_DOMAINS, MOST_DOMAINS, shares.domains)] = None
        return candidate, False
    cheapest = shares.cheapest()
    if shares.cut:
        work.limits[SearchLimit(LimitKind.SPREAD_WORK, MOST_NODES_SEARCHED)] = None
    work.searched = shares.left
    if cheapest is None:
        return candidate, False
    tried, works = _tried(view, candidate, inside, cheapest)
    return tried, works and shares.settled


def _tried(
    view: GroupView,
    candidate: GroupCandidate,
    inside: Sequence[int],
    eviction: PinnedEviction,
    domains: Mapping[str, Placement] | None = None,
) -> tuple[GroupCandidate, bool]:
    """Return the candidate, or the cheaper one with that eviction; and whether all filters agree to its places."""
    evicted = {inside[unit] for unit in eviction.units}
    own = PodGroupAssignment(eviction.places, True, {})
    with view.of(candidate.ranking, evicted) as displaced:
        works = displaced.holds(own)
    tried = view.with_gone(candidate, evicted, own if works else None, domains)
    return min(candidate, tried, key=price_of), works


@dataclass(frozen=True, slots=True)
class ExactSearch:
    """Victims by exact numbers. `inside`: by unit of the numbers, its index in the candidate's ranking."""

    view: GroupView
    candidate: GroupCandidate
    numbers: Numbers
    inside: Sequence[int]

    def cheaper(self) -> GroupCandidate | None:
        """Return the cheapest candidate; None if the search finds none."""
        candidate = self.candidate
        present = tuple(turn for turn, index in enumerate(self.inside) if index in candidate.reasons)
        cheapest = cheapest_eviction(self.numbers, present, steps=self.view.request.steps)
        if cheapest is None or cheapest.units == present:
            return candidate if cheapest is not None else None
        cheaper = self._with_gone(cheapest)
        # For one pod all nodes are compared: of equal ones it takes the first, as a single pod does.
        if len(candidate.assignment.placed) == 1:
            return min(cheaper, candidate, key=price_of)
        if self.view.request.by_score and cheapest.places is not None and cheaper.price < candidate.price:
            return self._scoring_best(cheaper, cheapest)
        return min(candidate, cheaper, key=price_of)

    def _with_gone(self, eviction: PricedEviction) -> GroupCandidate:
        own = PodGroupAssignment(eviction.assigned(self.numbers), True, {})
        return self.view.with_gone(self.candidate, {self.inside[turn] for turn in eviction.units}, own)

    def _scoring_best(self, best: GroupCandidate, cheapest: PricedEviction) -> GroupCandidate:
        """Return the eviction with the group's best score on the freed nodes, of those with equal cost (cost.md 4.3).

        Units are exchanged as long as the group scores better, or its nodes come first by name.
        """
        left = min(_MOST_AS_CHEAP, _PODS_PLACED_ANEW // len(best.assignment.placed))
        while left > 0:
            alternatives = as_cheap(self.numbers, cheapest, left)
            left -= max(1, len(alternatives))
            candidates, evictions = [best], [cheapest]
            for eviction in alternatives:
                candidate = self._with_gone(eviction)
                if candidate.price == best.price:
                    candidates.append(candidate)
                    evictions.append(eviction)
            if len(candidates) == 1:
                break
            scores = self._scores(candidates)
            top = min(range(len(scores)), key=lambda turn: (-scores[turn], self._by_name(candidates[turn])))
            if top == 0:
                break
            best, cheapest = candidates[top], evictions[top]
        return best

    def _by_name(self, candidate: GroupCandidate) -> list[int]:
        rank = self.view.request.running.cluster.nodes.rank
        return sorted(int(rank[row]) for _, row in candidate.assignment.placed)

    def _scores(self, candidates: Sequence[GroupCandidate]) -> list[int]:
        """Return comparable scores of the places of each, pod by pod, without the victims of all of them."""
        request = self.view.request
        cluster, evaluator = request.running.cluster, request.running.evaluator
        scores = []
        with self.view.of(self.candidate.ranking, {index for item in candidates for index in item.reasons}):
            for candidate in candidates:
                score = 0
                with cluster.trial():
                    for pod, row in candidate.assignment.placed:
                        score += evaluator.score_at(CycleState(cluster, pod, request.attempt.group), row)
                        cluster.place(pod, row)
                scores.append(score)
        return scores


class ProposeAndTry(ExactSearch):
    """Victims if more than resources matters: the proposal of the numbers is tried with all filters."""

    def eviction(self) -> PricedEviction | None:
        """Return the proposal."""
        present = [turn for turn, index in enumerate(self.inside) if index in self.candidate.reasons]
        return cheapest_eviction(self.numbers, present, steps=self.view.request.steps)

    def tried(self, proposed: PricedEviction) -> GroupCandidate | None:
        """Return the proposal, or the candidate if that is cheaper; None if the proposal does not work."""
        candidate = self.candidate
        evicted = {self.inside[turn] for turn in proposed.units}
        tried = self.view.with_gone(candidate, evicted)
        if tried is candidate and proposed.places is not None:
            tried = self._in_its_places(evicted, proposed)
        if tried is candidate:
            return None
        single = len(candidate.assignment.placed) == 1
        return min(*((tried, candidate) if single else (candidate, tried)), key=price_of)

    def _in_its_places(self, evicted: set[int], proposed: PricedEviction) -> GroupCandidate:
        """Return the proposal with its own places, if the group's algorithm finds none and the filters agree."""
        row_of = {pod.uid: row for pod, row in proposed.assigned(self.numbers)}
        pods = [pod for pod, _ in self.candidate.assignment.placed]
        own = PodGroupAssignment(tuple((pod, row_of[pod.uid]) for pod in pods), True, {})
        with self.view.of(self.candidate.ranking, evicted) as view:
            if not view.holds(own):
                return self.candidate
        return self.view.with_gone(self.candidate, evicted, own)


@dataclass(frozen=True)
class LeastImportant:
    """Tries small sets of units, the least important first, or those of the cheapest nodes to clear.

    `inside`: units with a pod in the candidate's placement, by index in its ranking.
    """

    view: GroupView
    candidate: GroupCandidate
    inside: Sequence[int]

    def cheaper(self) -> GroupCandidate:
        """Return the cheapest of these and the candidate."""
        best = candidate = self.candidate
        useful = {*self.inside, *candidate.reasons}
        for order in ([index for index in reversed(candidate.ranking.order) if index in useful], self.by_node):
            low, high = 1, len(order)
            while low < high:
                middle = (low + high) // 2
                with self.view.of(candidate.ranking, set(order[:middle])):
                    placed = self.view.request.attempt.run(within=candidate.placement).placed
                low, high = (low, middle) if len(placed) >= len(candidate.assignment.placed) else (middle + 1, high)
            best = min(best, self.view.with_gone(candidate, set(order[:low])), key=price_of)
        return best

    @cached_property
    def by_node(self) -> list[int]:
        """Return indices of units: all with a pod on the cheapest node to clear, then those of the next."""
        ranking, request = self.candidate.ranking, self.view.request
        on_node: dict[int, list[int]] = {}
        placement = self.candidate.placement
        rows = None if placement is None else set(placement.rows.tolist())
        for index in self.inside:
            for row in set(ranking.ordered[index].rows):
                if rows is None or row in rows:
                    on_node.setdefault(row, []).append(index)
        rank = request.running.cluster.nodes.rank

        def price(row: int) -> tuple[Cost, int]:
            reason = Reason(request.attempt.pods[0], row, "", "")
            verdicts = [Verdict(ranking.ordered[i], ranking.violations[i], reason) for i in on_node[row]]
            cost = ranking.criteria.cost_of(verdicts, ranking.costing)
            assert cost is not None
            return cost, int(rank[row])

        by_node = dict.fromkeys(index for row in sorted(on_node, key=price) for index in on_node[row])
        # A rule about other pods may reach beyond the placement.
        return [*(index for index in sorted(self.candidate.reasons) if index not in by_node), *by_node]
