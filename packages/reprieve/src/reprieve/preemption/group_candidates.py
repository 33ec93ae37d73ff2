"""Candidates for a group as preemptor: placements in which it fits without its potential victims.

The group's algorithm finds the places with all potential victims displaced; the places are fixed while units are
spared.  Under a topology constraint this is done for each placement (preemption.md 4).
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from reprieve.cluster.groups import fewest_pods
from reprieve.framework.plugin import Placement
from reprieve.preemption.cost import Cost
from reprieve.preemption.domain_bounds import bounds_of
from reprieve.preemption.group_victims import all_cheaper, numbers_for
from reprieve.preemption.group_view import GroupCandidate, GroupCandidates, GroupRequest, GroupView, price_of
from reprieve.preemption.order import Ranking
from reprieve.preemption.outcome import MINIMIZE_VICTIMS, REPRIEVE, SCORED, UnhelpfulPreemption, UnhelpfulReason
from reprieve.preemption.tie_breaking import victim_sparing_tie_breaker
from reprieve.preemption.units import PreemptionUnit

_MOST_DOMAINS_BELOW = 64
"""Maximum number of placements of groups below a tree's root that are tried for each placement of the root."""
_FEW_DOMAINS = 4
"""Up to this number, domains are searched without bounds."""


def candidates_among(request: GroupRequest, units: Sequence[PreemptionUnit]) -> GroupCandidates:
    """Find the candidates if only these units may be evicted."""
    running, options = request.running, request.options
    cluster = running.cluster
    if not units:
        return GroupCandidates([])
    costing = options.criteria.costing(cluster, running.evaluator, units)
    with cluster.trial():
        view = GroupView(request, Ranking(cluster, units, options.criteria, costing))
        cluster.displace_all([pod for unit in units for pod in unit.pods])
        search = CandidateSearch(view)
        candidates, passed_over = search.candidates()
        if not candidates:
            return GroupCandidates([], passed_over, None, search.unhelpful())
        wide = None
        first, tree = candidates[0], request.attempt.constrained_below
        if options.placement == MINIMIZE_VICTIMS and first.placement is None and first.cost is not None and not tree:
            wide = numbers_for(view, first, view.ranking)
    if options.placement != MINIMIZE_VICTIMS:
        return GroupCandidates(candidates, passed_over)
    # Only the victims of one eviction are displaced: few of all potential victims.
    with cluster.trial():
        cheaper, limits = all_cheaper(replace(view, stay=True), candidates, wide)
        return GroupCandidates(cheaper, passed_over, min(candidates, key=price_of), limits=limits)


def holds_all(domain: Placement, rows: Collection[int]) -> bool:
    """Return whether there are any rows and the placement contains all of them."""
    return bool(rows) and set(rows) <= set(domain.rows.tolist())


@dataclass(frozen=True, slots=True)
class CandidateSearch:
    """The search for candidates in a view where all potential victims are displaced."""

    view: GroupView

    def candidates(self) -> tuple[list[GroupCandidate], int]:
        """Return candidates in the order of their domains, and the number of skipped domains."""
        attempt, options = self.view.request.attempt, self.view.request.options
        find = self.candidate if options.victim_search == REPRIEVE else self.above_floor
        if attempt.placements is None:
            candidate = find(None)
            return ([candidate] if candidate is not None else []), 0
        if options.placement == SCORED:
            places = [row for _, row in attempt.run().placed]
            return self.cheapest([domain for domain in attempt.placements if holds_all(domain, places)][:1], find)
        hopeful = attempt.hopeful()
        nominated = [domain for domain in hopeful if holds_all(domain, attempt.nominated_rows)]
        candidates, passed_over = self.cheapest(nominated, find) if nominated else ([], 0)
        return (candidates, passed_over) if candidates else self.cheapest(hopeful, find)

    def candidate(self, placement: Placement | None) -> GroupCandidate | None:
        """Return the candidate with the group placed there; None if it does not fit or nothing is gained.

        If nodes tie in score, the first by name is compared with the one that spares the important units
        (`reprieve.preemption.tie_breaking`), and the cheaper eviction is used.
        """
        view, request = self.view, self.view.request
        attempt = request.attempt
        assignment = attempt.run(within=placement)
        if not view.helps(assignment):
            return None
        candidate = view.judged(placement, assignment)
        if attempt.constrained_below and request.options.placement != SCORED:
            own = self._in_other_domains(candidate, price_of)
            if request.options.placement != MINIMIZE_VICTIMS or not any(view.ranking.violations):
                return own
            return min(own, self._in_other_domains(candidate, lambda tried: tried.as_compatible().price), key=price_of)
        ties = victim_sparing_tie_breaker(request.running, attempt.pods, request.priority, view.ranking, placement)
        if ties is None:
            return candidate
        sparing = attempt.run(ties, placement)
        if len(sparing.placed) != len(assignment.placed):
            return candidate
        return min(candidate, view.judged(placement, sparing), key=price_of)

    def _in_other_domains(
        self, candidate: GroupCandidate, price: Callable[[GroupCandidate], tuple[bool, Cost]]
    ) -> GroupCandidate:
        """Return the candidate, or a cheaper one in the same placement with other placements of the groups below.

        They are chosen one after another, each where capacity for its pods and for earlier ones costs least, within a
        total number of trials.
        """
        view, attempt = self.view, self.view.request.attempt
        placement, members = candidate.placement, len(candidate.assignment.placed)
        chosen: dict[str, Placement] = {}
        settled: set[str] = set()
        tries = 0
        for group, domains in attempt.choices_below(placement):
            if len(domains) < 2:
                continue
            settled |= {leaf.key for leaf in group.leaves()}
            prices: list[tuple[tuple[bool, Cost], int]] = []
            for turn, domain in enumerate(domains[: _MOST_DOMAINS_BELOW - tries]):
                tries += 1
                assignment = attempt.run(within=placement, chosen={**chosen, group.ref: domain})
                if assignment.feasible and len(assignment.placed) >= members:
                    part = tuple(place for place in assignment.placed if place[0].group in settled)
                    prices.append((price(view.judged(placement, replace(assignment, placed=part))), turn))
            if prices:
                chosen[group.ref] = domains[min(prices)[1]]
        assignment = attempt.run(within=placement, chosen=chosen)
        if not assignment.feasible or len(assignment.placed) < members:
            return candidate
        return min(candidate, view.judged(placement, assignment), key=price_of)

    def cheapest(
        self, domains: Sequence[Placement], find: Callable[[Placement], GroupCandidate | None]
    ) -> tuple[list[GroupCandidate], int]:
        """Return candidates in the order of their domains, and the number of skipped domains.

        Skipped domains cannot be cheaper than the second best candidate (`reprieve.preemption.domain_bounds`), nor
        score better at the price of the best.
        """
        bounds = None
        request = self.view.request
        if not request.options.plain and request.options.criteria.native and len(domains) > _FEW_DOMAINS:
            bounds = bounds_of(request.running, request.attempt, self.view.ranking, request.priority, domains)
        if bounds is None:
            return [candidate for domain in domains if (candidate := find(domain)) is not None], 0
        candidates: dict[int, GroupCandidate] = {}
        best: list[tuple[tuple[bool, Cost], int]] = []
        liked: int | None = None
        passed_over = 0
        for price, index in bounds.cheapest_first:
            if len(best) == 2 and price >= best[1][0]:
                if price > best[1][0]:
                    passed_over += 1
                    continue
                if liked is None and best[0][0] == price:
                    liked = bounds.score(best[0][1], price)
                score = bounds.score(index, price) if liked is not None else None
                if best[0][0] < price or (score is not None and liked is not None and score <= liked):
                    passed_over += 1
                    continue
            candidate = find(domains[index])
            if candidate is not None:
                candidates[index] = replace(candidate, at_least=price)
                best = sorted([*best, (candidate.price, index)])[:2]
                liked = None
        return [candidates[index] for index in sorted(candidates)], passed_over

    def unhelpful(self) -> UnhelpfulPreemption:
        """Return why the eviction of all potential victims would not help."""
        attempt = self.view.request.attempt
        assignment = attempt.run(diagnose=True)
        placed = len(assignment.placed)
        return UnhelpfulPreemption(
            attempt.group,
            UnhelpfulReason.NOTHING_GAINED if assignment.feasible else UnhelpfulReason.DOES_NOT_FIT,
            units=tuple(self.view.ranking.ordered),
            placed=placed,
            needed=max(1, fewest_pods(attempt.group), attempt.placed_without_help + 1),
            pod=next((pod for pod in attempt.pods if pod.uid in assignment.failed), None),
            diagnosis=assignment.diagnosis,
        )

    def above_floor(self, placement: Placement | None) -> GroupCandidate | None:
        """Return the candidate if only units up to the lowest sufficient priority may be evicted (KEP-5710, 001).

        That priority is found by bisection, which assumes that more free capacity is never worse.
        """
        view = self.view
        floors = sorted({unit.priority for unit in view.ranking.ordered})
        low, high = 0, len(floors) - 1
        while low < high:
            middle = (low + high) // 2
            with view.up_to(floors[middle]):
                enough = view.helps(view.request.attempt.run(within=placement))
            low, high = (low, middle) if enough else (middle + 1, high)
        with view.up_to(floors[low]) as lowest:
            return CandidateSearch(lowest).candidate(placement)
