"""A pod group as preemptor: one domain, the whole cluster (preemption.md 4)."""

from reprieve.cluster.state import ClusterState
from reprieve.framework.evaluation import Evaluator
from reprieve.framework.plugin import PodGroupAttempt, PostFilterResult
from reprieve.framework.profile import Profile
from reprieve.framework.status import SUCCESS, Code, Status
from reprieve.preemption.eligibility import group_never_preempts, ineligible
from reprieve.preemption.outcome import CLUSTER_DOMAIN, NO_VICTIMS_GROUP, Preemption
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

    The placement is the one the group's algorithm gives with all potential victims gone; it is held fixed while
    units are spared.  It must place more members than without preemption, else nothing is touched.
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
        for unit in units:
            for pod in unit.pods:
                cluster.displace(pod)
        assignment = attempt.run()
        if not assignment.feasible or len(assignment.placed) <= attempt.placed_without_help:
            return PostFilterResult(Status(Code.UNSCHEDULABLE, UNSCHEDULABLE, plugin), clear_nomination=True)
        verdicts = judge(cluster, profile, evaluator, units, assignment.placed, spec.priority, plain=plain)
    preemption = Preemption(
        pod=None,
        group=group,
        priority=spec.priority,
        domain=CLUSTER_DOMAIN,
        nominations=assignment.placed,
        verdicts=verdicts,
    )
    return PostFilterResult(SUCCESS, preemption)
