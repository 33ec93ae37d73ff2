"""Running pods with a deferred resize in place: queued one by one, decided on their own node (resizes.md).

The cluster cache counts a pod with the most of what it wants, was given and uses, so a deferred resize is counted on
its node already.  It fits if nothing that the pod asks for is overcommitted there.  If it does not, units of lower
priority on the node are evicted as for a pending pod for which resources are all that matters.

Invariant: a pod is `resizing` as long as its resize is deferred and may evict pods, whether it is queued or not.
"""

from kube_rules import objects
from kube_rules.requests import resize_is_deferred, resize_may_not_preempt
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.resources import insufficient
from reprieve.cluster.state import ClusterState
from reprieve.framework.diagnosis import fit_error
from reprieve.framework.gates import FeatureGates
from reprieve.framework.plugin_guard import first_of
from reprieve.framework.running_profile import RunningProfile
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.free_resources import RESOURCES_PLUGIN
from reprieve.preemption.outcome import Deferral, Preemption
from reprieve.queueing.queue import SchedulingQueue
from reprieve.scheduling.decision import SCHEDULER_ERROR, UNSCHEDULABLE, Decision, Rejection, Result

PREEMPTION_DISABLED = "node had resize preemption disabled"
"""The policy of the node forbids evictions for resizes (KEP-5836)."""


class PendingResizes:
    """See the module docstring: which pods wait, as the API reports them. Times are in seconds."""

    def __init__(self, cluster: ClusterState, queue: SchedulingQueue, gates: FeatureGates) -> None:
        self._cluster = cluster
        self._queue = queue
        self._on = gates.in_place_pod_vertical_scaling_scheduler_preemption

    def observe(self, known: PodRecord, pod: objects.Pod, now: float, *, ours: bool, changed: bool) -> None:
        """The API has a version of a running pod; `changed`: it counts with other amounts than before."""
        deferred = self._on and ours and known.row >= 0 and not known.terminating and resize_is_deferred(pod)
        if not deferred or resize_may_not_preempt(pod):
            self.end(known, now)
        elif not known.resizing or (changed and self._queue.find(known) is None):
            known.resizing = True
            self._queue.add_pod(known, now)
        elif changed:
            self._queue.update_pod(known, now)
        if changed and self._on and known.row >= 0:
            self._others_on(known, now)

    def _others_on(self, grown: PodRecord, now: float) -> None:
        """The kubelet resized this pod, and not those for which capacity was freed: they are tried again (1.6)."""
        for pod in list(self._cluster.nodes.pods[grown.row].values()):
            if pod.resizing and pod is not grown and self._queue.find(pod) is None:
                self._queue.add_pod(pod, now)

    def end(self, pod: PodRecord, now: float) -> None:
        """The resize is done, taken back, or the pod leaves."""
        if pod.resizing:
            self._queue.remove_pod(pod, now)
            pod.resizing = False


def decide_resize(running: RunningProfile, ref: str, pod: PodRecord, *, under_way: bool) -> Decision:
    """Decide for a running pod with a deferred resize; the cluster is left as it was (resizes.md 2)."""
    cluster, row = running.cluster, pod.row
    nodes = cluster.nodes
    if not any(plugin.name == RESOURCES_PLUGIN for plugin in running.profile.filters):
        return Decision(ref=ref, result=Result.SCHEDULED, resize=True)
    requests = pod.signature.requests
    short = [column for column, _ in requests if nodes.used[column, row] > nodes.allocatable[column, row]]
    if not short:
        return Decision(ref=ref, result=Result.SCHEDULED, resize=True)
    if row in nodes.no_resize_preemption:
        return _rejected(ref, pod, fit_error(1, {PREEMPTION_DISABLED: 1}))
    names = cluster.resources.names
    message = fit_error(1, {insufficient(names[column]): 1 for column in short})
    plugin = first_of(DefaultPreemption, running.profile.post_filters)
    if plugin is None or any(amount > nodes.allocatable[column, row] for column, amount in requests):
        return _rejected(ref, pod, message)
    outcome = plugin.for_resize(pod, under_way=under_way)
    if isinstance(outcome.proposal, Preemption):
        return _rejected(ref, pod, message, outcome.proposal)
    waits = outcome.put_off if isinstance(outcome.put_off, Deferral) else None
    return _rejected(ref, pod, f"{message} {outcome.status.reason}", waits=waits)


def failed_resize(ref: str, pod: PodRecord, error: str) -> Decision:
    """Return the decision after a plugin has failed; it is tried again after its backoff."""
    return Decision(ref=ref, result=Result.ERROR, rejections=(Rejection(pod, SCHEDULER_ERROR, error),), resize=True)


def _rejected(
    ref: str, pod: PodRecord, message: str, preemption: Preemption | None = None, waits: Deferral | None = None
) -> Decision:
    return Decision(
        ref=ref,
        result=Result.WAITING if preemption is not None else Result.UNSCHEDULABLE,
        rejections=(Rejection(pod, UNSCHEDULABLE, message),),
        preemption=preemption,
        put_off=waits,
        rejected_by=frozenset({RESOURCES_PLUGIN}),
        resize=True,
    )
