"""A pod group as preemptor: one domain, the whole cluster (preemption.md 4)."""

from collections.abc import Sequence

from reprieve.cluster.state import ClusterState
from reprieve.framework.evaluation import Evaluator
from reprieve.framework.plugin import PodGroupAssignment, PodGroupAttempt, PostFilterResult
from reprieve.framework.profile import Profile
from reprieve.framework.status import SUCCESS, Code, Status
from reprieve.preemption.cost import cost_of
from reprieve.preemption.eligibility import group_never_preempts, ineligible
from reprieve.preemption.guide import sparing_guide
from reprieve.preemption.outcome import CLUSTER_DOMAIN, NO_VICTIMS_GROUP, Preemption, Verdict
from reprieve.preemption.reprieving import judge
from reprieve.preemption.units import scheduled_pods, units_below

UNSCHEDULABLE = "pod group is unschedulable"


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

    The placement is the one the group's algorithm gives with all potential victims gone; it is held fixed while units
    are spared.  It must place more members than without preemption, else nothing is touched.  Where nodes tie in score
    the algorithm leaves a choice: the first by name is compared with the one that spares the important units
    (`reprieve.preemption.guide`), and the cheaper eviction is taken.
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
        assignment = attempt.run()
        if not assignment.feasible or len(assignment.placed) <= attempt.placed_without_help:
            return PostFilterResult(Status(Code.UNSCHEDULABLE, UNSCHEDULABLE, plugin), clear_nomination=True)

        def judged(found: PodGroupAssignment) -> tuple[Verdict, ...]:
            with cluster.trial():
                return judge(cluster, profile, evaluator, units, found.placed, spec.priority, plain=plain)

        verdicts = judged(assignment)
        guide = sparing_guide(cluster, profile, evaluator, attempt.pods, spec.priority, units)
        if guide is not None:
            other = attempt.run(guide)
            if len(other.placed) == len(assignment.placed):
                instead = judged(other)
                if _cheaper(instead, verdicts):
                    assignment, verdicts = other, instead
    preemption = Preemption(
        pod=None,
        group=group,
        priority=spec.priority,
        domain=CLUSTER_DOMAIN,
        nominations=assignment.placed,
        verdicts=verdicts,
    )
    return PostFilterResult(SUCCESS, preemption)


def _cheaper(one: Sequence[Verdict], other: Sequence[Verdict]) -> bool:
    """Whether the first eviction costs less; evicting nobody costs least."""
    cost, than = cost_of(one), cost_of(other)
    return than is not None and (cost is None or cost < than)
