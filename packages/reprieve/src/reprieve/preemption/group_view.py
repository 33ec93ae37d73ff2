"""One preemption of a group in a view of the cluster in which certain units are displaced (preemption.md 4)."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

from kube_rules.work_annotations import ClassTerms
from reprieve.framework.plugin import CycleState, Placement, PodGroupAssignment, PodGroupAttempt
from reprieve.framework.running_profile import RunningProfile
from reprieve.preemption.cost import Cost
from reprieve.preemption.domain_bounds import FREE
from reprieve.preemption.options import EvictionOptions
from reprieve.preemption.order import Ranking
from reprieve.preemption.outcome import (
    MINIMIZE_VICTIMS,
    CascadeStep,
    Reason,
    SearchLimit,
    UnhelpfulPreemption,
    Verdict,
)
from reprieve.preemption.reprieved_units import reasons_to_go, verdicts_of
from reprieve.preemption.units import PreemptionUnit
from reprieve.preemption.victim_search.search import STEPS


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """A preemptor and the options of the choice. `terms`: limits for victims; `steps`: of the search.

    `by_score`: of evictions with equal cost, the one with the preemptor's best score is used.
    """

    running: RunningProfile
    attempt: PodGroupAttempt
    priority: int
    terms: ClassTerms
    options: EvictionOptions
    steps: int = STEPS
    by_score: bool = True


@dataclass(frozen=True, slots=True)
class GroupCandidate:
    """A way to place the group, and its cost. `reasons`: by index of a unit in the ranking, why it is evicted."""

    placement: Placement | None
    ranking: Ranking
    assignment: PodGroupAssignment
    reasons: dict[int, Reason]
    cost: Cost | None
    """None: no pods are evicted."""
    cascade: tuple[CascadeStep, ...] = ()
    """Evictions in turn by the victims; their cost is counted."""
    at_least: tuple[bool, Cost] = FREE
    """A lower bound of evictions in its domain, as a price."""

    @property
    def price(self) -> tuple[bool, Cost]:
        """Sort key, cheapest first; evicting no pods costs least."""
        return (self.cost is not None, self.cost or ())

    def victims(self) -> list[PreemptionUnit]:
        """Return the evicted units, most important first."""
        return [self.ranking.ordered[index] for index in sorted(self.reasons)]

    def evicted(self) -> list[Verdict]:
        """Return verdicts on the evicted units, most important first; budgets count only them (preemption.md 6)."""
        indices = sorted(self.reasons)
        return [
            Verdict(self.ranking.ordered[index], violates, self.reasons[index])
            for index, violates in zip(indices, self.ranking.violating(indices), strict=True)
        ]

    def as_compatible(self) -> "GroupCandidate":
        """Return the candidate with budgets counted over all potential victims."""
        ranking = self.ranking
        evicted = [Verdict(ranking.ordered[i], ranking.violations[i], reason) for i, reason in self.reasons.items()]
        return replace(self, cost=ranking.criteria.cost_of(evicted, ranking.costing))

    def verdicts(self) -> tuple[Verdict, ...]:
        """Return the verdict on every unit, in importance order; `evicted` for the evicted ones."""
        evicted = dict(zip(sorted(self.reasons), self.evicted(), strict=True))
        return tuple(evicted.get(index, spared) for index, spared in enumerate(verdicts_of(self.ranking, self.reasons)))


@dataclass(frozen=True, slots=True)
class GroupCandidates:
    """Ways to place a group. `passed_over`: domains not searched; `by_score`: the victims of placing by score."""

    candidates: list[GroupCandidate]
    passed_over: int = 0
    by_score: GroupCandidate | None = None
    unhelpful: UnhelpfulPreemption | None = None
    """Why there are no candidates."""
    refusal: str = ""
    """The reason in words, if it is a rule."""
    limits: tuple[SearchLimit, ...] = ()
    """Limits that ended the search for cheaper victims."""


@dataclass(frozen=True, slots=True)
class GroupView:
    """A preemption in a view where all units of the ranking are displaced, or all `stay`."""

    request: GroupRequest
    ranking: Ranking
    stay: bool = False

    def helps(self, assignment: PodGroupAssignment) -> bool:
        """Return whether more members are placed than without preemption."""
        return assignment.feasible and len(assignment.placed) > self.request.attempt.placed_without_help

    def judged(self, placement: Placement | None, assignment: PodGroupAssignment) -> GroupCandidate:
        """Spare every unit that can stay beside the assigned pods; the others are the candidate's victims."""
        request, ranking = self.request, self.ranking
        with request.running.cluster.trial():
            reasons = reasons_to_go(
                request.running, ranking, assignment.placed, request.priority, plain=request.options.plain
            )
        candidate = GroupCandidate(placement, ranking, assignment, reasons, None)
        if request.options.placement == MINIMIZE_VICTIMS:
            return replace(candidate, cost=ranking.criteria.cost_of(candidate.evicted(), ranking.costing))
        return candidate.as_compatible()

    def up_to(self, priority: int) -> AbstractContextManager["GroupView"]:
        """Return the view where only units up to that priority are displaced."""
        return self.of(self.ranking, {i for i, unit in enumerate(self.ranking.ordered) if unit.priority <= priority})

    @contextmanager
    def of(self, ranking: Ranking, evicted: Collection[int]) -> Iterator["GroupView"]:
        """Return the view where only these units of a ranking are displaced."""
        displaced = [ranking.ordered[index] for index in sorted(evicted)]
        cluster = self.request.running.cluster
        with cluster.trial():
            if self.stay:
                cluster.displace_all([pod for unit in displaced for pod in unit.pods])
            else:
                uids = {unit.pods[0].uid for unit in displaced}
                back = [unit for unit in self.ranking.ordered if unit.pods[0].uid not in uids]
                cluster.place_all([pod for unit in back for pod in unit.pods], [row for u in back for row in u.rows])
            yield replace(self, ranking=ranking.only(evicted), stay=False)

    def holds(self, assignment: PodGroupAssignment) -> bool:
        """Return whether all pods pass every filter in their places, each beside those before it."""
        running = self.request.running
        with running.cluster.trial():
            for pod, row in assignment.placed:
                state = CycleState(running.cluster, pod, self.request.attempt.group)
                if not running.evaluator.fits_row(state, row):
                    return False
                running.cluster.place(pod, row)
        return True

    def with_gone(
        self,
        candidate: GroupCandidate,
        evicted: set[int],
        instead: PodGroupAssignment | None = None,
        chosen: Mapping[str, Placement] | None = None,
    ) -> GroupCandidate:
        """Return the candidate with only these units of its ranking displaced; itself if fewer members fit then.

        `instead`: places of the members, in their own order, if the group's algorithm finds none. `chosen`: the domains
        of groups below a tree's root.
        """
        with self.of(candidate.ranking, evicted) as view:
            assignment = self.request.attempt.run(within=candidate.placement, chosen=chosen)
            if len(assignment.placed) < len(candidate.assignment.placed):
                if instead is None:
                    return candidate
                assignment = instead
            judged = view.judged(candidate.placement, assignment)
        turns = sorted(evicted)
        reasons = {turns[index]: reason for index, reason in judged.reasons.items()}
        return replace(judged, ranking=candidate.ranking, reasons=reasons)


def price_of(candidate: GroupCandidate) -> tuple[bool, Cost]:
    """Return its price, as a sort key."""
    return candidate.price
