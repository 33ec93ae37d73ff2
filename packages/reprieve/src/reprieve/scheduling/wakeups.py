"""Wake entities after a change of a pod or a group: the changed pending pod, or entities that it blocked.

Each function updates the cluster cache and notifies the queue.  `now` is in seconds.
"""

from collections.abc import Iterable

from kube_rules import objects
from kube_rules.work_annotations import WorkTerms
from reprieve.cluster.groups import Group, all_below, running_below
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.preemption.units import effective_priority
from reprieve.queueing.queue import SchedulingQueue


def spec_changed(cluster: ClusterState, queue: SchedulingQueue, old: PodRecord, pod: objects.Pod, now: float) -> None:
    """Handle changed labels, start time or fields that filters read: resized in place, tolerations, selectors."""
    labels = pod.metadata.labels or {}
    start = pod.status.start_time.timestamp() if pod.status.start_time is not None else old.start
    signature = cluster.signatures.intern(pod)
    if signature is old.signature and labels == old.labels and start == old.start:
        return
    reads_otherwise = signature is not old.signature
    relabelled = labels != old.labels
    cluster.change_pod(old, signature=signature, labels=labels, start=start)
    if relabelled and old.row >= 0:
        event = ClusterEvent(EventKind.POD_RELABELED, row=old.row, pod=old, group=old.group)
        queue.on_event(event, now)
    elif relabelled and cluster.pod_affinity.active:
        queue.update_pod(old, now)
    if not reads_otherwise:
        return
    if old.row >= 0:
        event = ClusterEvent(EventKind.POD_CHANGED, row=old.row, pod=old, group=old.group)
        queue.on_event(event, now)
    else:
        queue.update_pod(old, now)


def terms_changed(
    cluster: ClusterState, queue: SchedulingQueue, record: PodRecord, terms: WorkTerms, now: float
) -> None:
    """Handle annotations about the pod's work; its last checkpoint changes its cost, not whether it may be evicted."""
    before = record.terms
    if terms == before:
        return
    cluster.set_terms(record, terms)
    if before.decisive == terms.decisive:
        return
    if record.row >= 0:
        queue.retry_above(effective_priority(cluster, record), now)
    else:
        queue.update_pod(record, now)


def units_changed(cluster: ClusterState, queue: SchedulingQueue, group: Group, now: float) -> None:
    """Wake preemptors after a change of a group object, which decides the pods that are evicted together."""
    retry_preemptors_of(cluster, queue, running_below(all_below(group)), now)


def retry_preemptors_of(cluster: ClusterState, queue: SchedulingQueue, pods: Iterable[PodRecord], now: float) -> None:
    """Wake preemptors after a change of the conditions under which these running pods may be evicted."""
    lowest = min((effective_priority(cluster, pod) for pod in pods if pod.row >= 0), default=None)
    if lowest is not None:
        queue.retry_above(lowest, now)
