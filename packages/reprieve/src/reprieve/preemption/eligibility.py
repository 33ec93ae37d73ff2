"""The conditions under which a preemptor may preempt (preemption.md 2)."""

from collections.abc import Iterable

from reprieve.cluster.groups import Group
from reprieve.cluster.state import ClusterState
from reprieve.framework.diagnosis import Diagnosis
from reprieve.framework.plugin import CycleState
from reprieve.preemption.outcome import NEVER, TERMINATING
from reprieve.preemption.units import effective_priority


def group_never_preempts(group: Group, *, group_policy: bool) -> bool:
    """Return whether a group never preempts (preemption.md 2.2), by its own policy if it has one (gate `group_policy`).

    Otherwise by the policy of its members, pending or scheduled, which agree (preemption.md 8.4).
    """
    own = group.spec.preemption_policy if group.spec is not None and group_policy else None
    if own is not None:
        return own == "Never"
    return any(pod.never_preempts for pod in group.members.values() if not pod.terminating)


def ineligible(
    cluster: ClusterState, priority: int, never: bool, nominated_rows: Iterable[int], *, under_way: bool
) -> str | None:
    """Return the reason why the preemptor must not preempt now; None if it may.

    A pod of lower effective priority on a nominated row that terminates because of scheduler preemption shows a
    preemption in progress (preemption.md 2.3); `under_way`: the caller knows of one, wherever its victims run.
    """
    if never:
        return NEVER
    if under_way:
        return TERMINATING
    for row in sorted(set(nominated_rows)):
        for pod in cluster.nodes.pods[row].values():
            if pod.terminating and pod.preempted and effective_priority(cluster, pod) < priority:
                return TERMINATING
    return None


def pod_is_ineligible(state: CycleState, diagnosis: Diagnosis) -> str | None:
    """Return the reason why a single pod that fits nowhere must not preempt now; None if it may.

    Its nominated node does not count if that failed as unschedulable and unresolvable (2.3).
    """
    pod, rows, under_way = state.pod, [state.nominated] if state.nominated >= 0 else [], state.preemption_under_way
    if rows and diagnosis.unresolvable(rows[0]):
        rows, under_way = [], False
    return ineligible(state.cluster, pod.priority, pod.never_preempts, rows, under_way=under_way)
