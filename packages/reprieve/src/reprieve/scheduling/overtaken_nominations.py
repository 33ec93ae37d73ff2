"""The check whether a nomination is still useful while its victims terminate (preemption.md 2.7).

A pod of higher priority may take a part of the capacity without preempting anything, and another scheduler may bind a
pod there. The preemptor would wait for victims that no longer help it. Invariant: the cluster is not changed. In doubt
the preemptor waits.
"""

from collections.abc import Callable, Iterable

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.plugin import CycleState
from reprieve.framework.running_profile import RunningProfile
from reprieve.preemption.eligibility import ineligible
from reprieve.preemption.units import effective_priority


def pod_is_overtaken(running: RunningProfile, state: CycleState) -> bool:
    """Return whether a pod that fits nowhere cannot use its nominated row either once its victims have terminated.

    Its own nomination is lifted in the present view.
    """
    cluster, evaluator, pod, row = running.cluster, running.evaluator, state.pod, state.nominated
    under_way = state.preemption_under_way
    if ineligible(cluster, pod.priority, False, (row,), under_way=under_way) is None:
        return False
    with cluster.trial():
        cluster.displace_all(_leaving_rows(cluster, (row,), pod.priority, known=under_way))
        if evaluator.fits_row(CycleState(cluster, pod), row):
            return False
        if evaluator.ruled(CycleState(cluster, pod)):  # pods that terminate elsewhere may matter
            cluster.displace_all(_leaving(cluster))
            return not evaluator.fits_row(CycleState(cluster, pod), row)
    return True


def group_is_overtaken(
    cluster: ClusterState, priority: int, rows: Iterable[int], fits: Callable[[], bool], *, under_way: bool
) -> bool:
    """Return whether a group that failed still fails once its victims have terminated.

    `fits` tries it in the present view. `rows`: the nominated rows of its members.
    """
    with cluster.trial():
        cluster.displace_all(_leaving_rows(cluster, rows, priority, known=under_way))
        cluster.displace_all(_leaving(cluster))
        return not fits()


def _leaving(cluster: ClusterState) -> list[PodRecord]:
    """Return the pods on nodes that terminate or are being evicted, by UID."""
    uids = sorted({*cluster.departures, *cluster.doomed})
    return [pod for uid in uids if (pod := cluster.pods[uid]).row >= 0]


def _leaving_rows(cluster: ClusterState, rows: Iterable[int], priority: int, *, known: bool) -> list[PodRecord]:
    """Return the terminating pods on some rows. Without `known` victims, every pod of lower priority may be one."""
    return [
        pod
        for row in sorted(set(rows))
        for pod in cluster.nodes.pods[row].values()
        if pod.terminating or pod.uid in cluster.doomed or (not known and effective_priority(cluster, pod) < priority)
    ]
