"""A pod group as preemptor: its domain is the whole cluster, or one placement of several (preemption.md 4)."""

from collections.abc import Sequence
from dataclasses import dataclass

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.evaluation import Evaluator
from reprieve.framework.plugin import Placement, PodGroupAssignment, PodGroupAttempt, PostFilterResult
from reprieve.framework.profile import Profile
from reprieve.framework.status import SUCCESS, Code, Status
from reprieve.preemption.cost import Cost, cost_of
from reprieve.preemption.eligibility import group_never_preempts, ineligible
from reprieve.preemption.guide import sparing_guide
from reprieve.preemption.order import Ranking
from reprieve.preemption.outcome import CLUSTER_DOMAIN, NO_VICTIMS_GROUP, Preemption, Reason, Verdict
from reprieve.preemption.reprieving import reasons_to_go, verdicts_of
from reprieve.preemption.units import scheduled_pods, units_below

UNSCHEDULABLE = "pod group is unschedulable"


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A way to place the group and what it costs. `reasons`: index of a unit in the ranking -> why it has to go."""

    placement: Placement | None
    assignment: PodGroupAssignment
    reasons: dict[int, Reason]
    cost: Cost | None
    """None: nobody has to go."""

    @property
    def price(self) -> tuple[bool, Cost]:
        """Sort key, cheapest first; evicting nobody costs least."""
        return (self.cost is not None, self.cost or (0, 0, 0, 0, 0.0))


def preempt_for_group(
    attempt: PodGroupAttempt,
    cluster: ClusterState,
    profile: Profile,
    evaluator: Evaluator,
    *,
    plugin: str,
    group_policy: bool,
    plain: bool = False,
) -> PostFilterResult:
    """Find the victims that make room for the group, or say why there are none. Leaves the cluster as it was.

    The places are those the group's algorithm gives with all potential victims gone; they are held fixed while units
    are spared.  It must place more members than without preemption, else nothing is touched.  Under a topology
    constraint this is done for each placement; the cheapest eviction wins, then the placement the group scores best
    beside those who stay, then the first in order (preemption.md 4.6).
    """
    group = attempt.group
    spec = group.spec
    if spec is None:
        return PostFilterResult(Status(Code.UNSCHEDULABLE, NO_VICTIMS_GROUP, plugin))
    never = group_never_preempts(group, attempt.pods, group_policy=group_policy)
    why = ineligible(cluster, spec.priority, never, attempt.nominated_rows, under_way=attempt.preemption_under_way)
    if why is not None:
        return PostFilterResult(Status(Code.UNSCHEDULABLE, why, plugin))
    units = units_below(cluster, spec.priority, scheduled_pods(cluster))
    if not units:
        return PostFilterResult(Status(Code.UNRESOLVABLE, NO_VICTIMS_GROUP, plugin), clear_nomination=True)
    with cluster.trial():
        cluster.displace_all([pod for unit in units for pod in unit.pods])
        search = _Search(attempt, cluster, profile, evaluator, Ranking(cluster, units), spec.priority, plain)
        domains = (None,) if attempt.placements is None else attempt.hopeful()
        found = [candidate for domain in domains if (candidate := search.candidate(domain)) is not None]
    if not found:
        return PostFilterResult(Status(Code.UNSCHEDULABLE, UNSCHEDULABLE, plugin), clear_nomination=True)
    best = _best(attempt, search.ranking, found)
    preemption = Preemption(
        pod=None,
        group=group,
        priority=spec.priority,
        domain=CLUSTER_DOMAIN if best.placement is None else best.placement.name,
        nominations=best.assignment.placed,
        verdicts=verdicts_of(search.ranking, best.reasons),
        candidates=len(found),
    )
    return PostFilterResult(SUCCESS, preemption)


@dataclass(frozen=True, slots=True)
class _Search:
    """One preemption in a view where all potential victims are displaced."""

    attempt: PodGroupAttempt
    cluster: ClusterState
    profile: Profile
    evaluator: Evaluator
    ranking: Ranking
    priority: int
    plain: bool

    def candidate(self, placement: Placement | None) -> _Candidate | None:
        """What placing the group there costs; None if it does not fit or nothing is gained.

        Where nodes tie in score the algorithm leaves a choice: the first by name is compared with the one that spares
        the important units (`reprieve.preemption.guide`), and the cheaper eviction is taken.
        """
        attempt = self.attempt
        assignment = attempt.run(within=placement)
        if not assignment.feasible or len(assignment.placed) <= attempt.placed_without_help:
            return None
        found = self._judged(placement, assignment)
        guide = sparing_guide(
            self.cluster, self.profile, self.evaluator, attempt.pods, self.priority, self.ranking, placement
        )
        if guide is None:
            return found
        other = attempt.run(guide, placement)
        if len(other.placed) != len(assignment.placed):
            return found
        instead = self._judged(placement, other)
        return instead if instead.price < found.price else found

    def _judged(self, placement: Placement | None, assignment: PodGroupAssignment) -> _Candidate:
        with self.cluster.trial():
            reasons = reasons_to_go(
                self.cluster,
                self.profile,
                self.evaluator,
                self.ranking,
                assignment.placed,
                self.priority,
                plain=self.plain,
            )
        return _Candidate(placement, assignment, reasons, cost_of(self._evicted(reasons)))

    def _evicted(self, reasons: dict[int, Reason]) -> list[Verdict]:
        ranking = self.ranking
        return [Verdict(ranking.ordered[i], ranking.violations[i], reason) for i, reason in reasons.items()]


def _best(attempt: PodGroupAttempt, ranking: Ranking, found: Sequence[_Candidate]) -> _Candidate:
    """The cheapest; among equals the one the group scores highest with only its victims gone, then the first."""
    cheapest = min(candidate.price for candidate in found)
    equal = [candidate for candidate in found if candidate.price == cheapest]
    if len(equal) == 1:
        return equal[0]
    scores = attempt.placement_scores(
        [
            (candidate.placement, candidate.assignment.placed, _pods(ranking, candidate))
            for candidate in equal
            if candidate.placement is not None
        ]
    )
    return equal[scores.index(max(scores))]


def _pods(ranking: Ranking, candidate: _Candidate) -> list[PodRecord]:
    return [pod for index in sorted(candidate.reasons) for pod in ranking.ordered[index].pods]
