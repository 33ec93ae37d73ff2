"""Running pods with a deferred resize in place: they are queued, and decided on their own nodes (resizes.md).

The cluster cache counts the maximum of a pod's desired, allocated and used amounts, so a deferred resize already counts
on its node. It fits if no resource that the pod requests is overcommitted there.  If it does not, units of lower
priority on the node are evicted as for a pending pod for which resources are all that matters.

The deferred resizes of a gang are one entity: pods are evicted for all that do not fit, or for none.

Invariant: a pod is `resizing` as long as its resize is deferred and may evict pods, whether it is queued or not; then
`resize_ref` is its queued entity.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from kube_rules import objects
from kube_rules.requests import resize_is_deferred, resize_may_not_preempt
from reprieve.cluster.groups import Group
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.resources import insufficient
from reprieve.cluster.state import ClusterState
from reprieve.framework.diagnosis import fit_error
from reprieve.framework.gates import FeatureGates
from reprieve.framework.plugin_guard import first_of
from reprieve.framework.running_profile import RunningProfile
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.free_resources import RESOURCES_PLUGIN
from reprieve.preemption.outcome import ALL_OR_NONE, Deferral, Preemption
from reprieve.queueing.entity import RESIZES
from reprieve.queueing.queue import SchedulingQueue
from reprieve.scheduling.decision import SCHEDULER_ERROR, UNSCHEDULABLE, Decision, Rejection, Result

PREEMPTION_DISABLED: Final = "node had resize preemption disabled"
"""The policy of the node forbids evictions for resizes (KEP-5836)."""
EVICTED: Final = "the pod is being evicted"
"""Message for a pod that another preemptor evicts: its own resize evicts no pods (resizes.md 3.6)."""


class PendingResizes:
    """See the module docstring. Times are in seconds."""

    def __init__(self, cluster: ClusterState, queue: SchedulingQueue, gates: FeatureGates) -> None:
        self._cluster = cluster
        self._queue = queue
        self._enabled = gates.in_place_pod_vertical_scaling_scheduler_preemption

    def observe(self, record: PodRecord, pod: objects.Pod, now: float, *, ours: bool, changed: bool) -> None:
        """Handle a version of a running pod; `changed`: it counts with other amounts than before."""
        deferred = self._enabled and ours and record.row >= 0 and not record.terminating and resize_is_deferred(pod)
        disabled = deferred and resize_may_not_preempt(pod)
        freed = record.resize_disabled and not disabled
        record.resize_disabled = disabled
        if not deferred or disabled:
            self.end(record, now)
        elif not record.resizing:
            record.resize_ref = _ref(self._cluster, record)
            record.resizing = True
            self._queue_all(record, now)
        if freed:
            self._queue.wake(_ref(self._cluster, record), now)
        if changed and self._enabled and record.row >= 0:
            self._retry_on(record.row, now)

    def _queue_all(self, pod: PodRecord, now: float) -> None:
        """Queue a resize, and those of its gang that had left the queue because they fitted."""
        peers = [peer for peer in _of_gang(self._cluster, pod) if peer.resizing and peer.resize_ref == pod.resize_ref]
        for peer in peers if self._queue.get(pod.resize_ref) is None else (pod,):
            self._queue.add_pod(peer, now)

    def _retry_on(self, row: int, now: float) -> None:
        """Try resizes on a node again that have left the queue, after amounts of a pod there changed (1.6)."""
        for pod in list(self._cluster.nodes.pods[row].values()):
            if pod.resizing and self._queue.find(pod) is None:
                self._queue_all(pod, now)

    def regroup(self, pods: Iterable[PodRecord], now: float) -> None:
        """Queue resizes in another entity after their pods changed the gang, or their gang changed."""
        for pod in list(pods):
            ref = _ref(self._cluster, pod)
            if pod.resizing and pod.resize_ref != ref:
                queued = self._queue.find(pod) is not None
                self._queue.remove_pod(pod, now)
                self._queue.wake(pod.resize_ref, now)
                pod.resize_ref = ref
                if queued:
                    self._queue_all(pod, now)

    def end(self, pod: PodRecord, now: float) -> None:
        """Remove a resize that is done or withdrawn, or with a terminating pod; try the rest of its gang without it."""
        if not pod.resizing:
            return
        ref = pod.resize_ref
        self._queue.remove_pod(pod, now)
        pod.resizing, pod.resize_ref = False, ""
        self._queue.wake(ref, now)

    def retry(self, uids: Iterable[str], now: float) -> None:
        """Try the resizes of pods again that were victims and are not evicted."""
        for uid in uids:
            pod = self._cluster.pods.get(uid)
            if pod is not None and pod.resizing:
                self._queue.wake(pod.resize_ref, now)


def gang_of(cluster: ClusterState, pod: PodRecord) -> Group | None:
    """Return the gang with one entity for its resizes: the pod's group, or the highest gang of gangs."""
    group: Group | None = cluster.groups.get(pod.group) if pod.group is not None else None
    if group is None or not group.is_gang or group.root is None:
        return None
    while group.spec is not None and group.spec.parent is not None:
        above = cluster.trees.composites.get(group.spec.parent)
        if above is None or not above.is_gang:
            break
        group = above
    return group


def _ref(cluster: ClusterState, pod: PodRecord) -> str:
    gang = gang_of(cluster, pod)
    return f"pod/{pod.uid}" if gang is None else f"{RESIZES}{gang.ref}"


def _of_gang(cluster: ClusterState, pod: PodRecord) -> list[PodRecord]:
    """Return the pods of the gang that run; without one the pod alone."""
    gang = gang_of(cluster, pod)
    return [pod] if gang is None else sorted(gang.running(), key=lambda member: member.key)


def decide_resizes(running: RunningProfile, ref: str, pods: Sequence[PodRecord], *, under_way: bool) -> Decision:
    """Decide for the running pods of one entity with deferred resizes; the cluster is not changed (resizes.md 2).

    They all belong to one gang, or there is only one pod.
    """
    cluster = running.cluster
    staying = [pod for pod in pods if pod.uid not in cluster.doomed]
    if not staying:
        return _rejected(ref, tuple(Rejection(pod, UNSCHEDULABLE, EVICTED) for pod in pods))
    short = {pod: columns for pod in staying if (columns := _short(running, pod))}
    if not short:
        return Decision(ref=ref, result=Result.SCHEDULED, resize=True)
    names = cluster.resources.names
    texts, hopeless = dict[PodRecord, str](), dict[str, str]()
    plugin = first_of(DefaultPreemption, running.profile.post_filters)
    for pod, columns in short.items():
        disabled = pod.row in cluster.nodes.no_resize_preemption
        reasons = (PREEMPTION_DISABLED,) if disabled else (insufficient(names[column]) for column in columns)
        texts[pod] = fit_error(1, dict.fromkeys(reasons, 1))
        if disabled or plugin is None or _exceeds(cluster, pod):
            hopeless[pod.key] = texts[pod]
    gang = gang_of(cluster, staying[0])
    for pod in gang.running() if gang is not None else ():
        if pod.resize_disabled and _short(running, pod):
            hopeless[pod.key] = "its kubelet reports PodResizePreemptionDisabled"
    if hopeless or plugin is None:
        return _rejected(ref, tuple(_beside(pod, text, hopeless) for pod, text in texts.items()))
    if gang is None:
        outcome = plugin.for_resize(next(iter(short)), under_way=under_way)
    else:
        outcome = plugin.for_resizes(gang, list(short), under_way=under_way)
    if isinstance(outcome.proposal, Preemption):
        rejections = tuple(Rejection(pod, UNSCHEDULABLE, text) for pod, text in texts.items())
        return _rejected(ref, rejections, outcome.proposal)
    waits = outcome.deferral if isinstance(outcome.deferral, Deferral) else None
    why = outcome.status.reason
    return _rejected(ref, tuple(Rejection(p, UNSCHEDULABLE, f"{t} {why}") for p, t in texts.items()), waits=waits)


def _beside(pod: PodRecord, text: str, hopeless: dict[str, str]) -> Rejection:
    """Return why a pod is not resized if no evictions help it or another pod of its gang."""
    if pod.key not in hopeless:
        key, why = next(iter(sorted(hopeless.items())))
        text = f"{text} preemption: {ALL_OR_NONE}: pod {key}: {why}"
    return Rejection(pod, UNSCHEDULABLE, text)


def _short(running: RunningProfile, pod: PodRecord) -> list[int]:
    """Return the columns of the pod's requests that its node lacks."""
    if not any(plugin.name == RESOURCES_PLUGIN for plugin in running.profile.filters):
        return []
    nodes = running.cluster.nodes
    return [c for c, _ in pod.signature.requests if nodes.used[c, pod.row] > nodes.allocatable[c, pod.row]]


def _exceeds(cluster: ClusterState, pod: PodRecord) -> bool:
    """Return whether the pod requests more than its node has (resizes.md 2.4)."""
    return any(amount > cluster.nodes.allocatable[column, pod.row] for column, amount in pod.signature.requests)


def failed_resizes(ref: str, pods: Sequence[PodRecord], error: str) -> Decision:
    """Return the decision after a plugin has failed; it is tried again after its backoff."""
    rejections = tuple(Rejection(pod, SCHEDULER_ERROR, error) for pod in pods)
    return Decision(ref=ref, result=Result.ERROR, rejections=rejections, resize=True)


def _rejected(
    ref: str, rejections: tuple[Rejection, ...], preemption: Preemption | None = None, waits: Deferral | None = None
) -> Decision:
    return Decision(
        ref=ref,
        result=Result.WAITING if preemption is not None else Result.UNSCHEDULABLE,
        rejections=rejections,
        preemption=preemption,
        deferral=waits,
        rejected_by=frozenset({RESOURCES_PLUGIN}),
        resize=True,
    )
