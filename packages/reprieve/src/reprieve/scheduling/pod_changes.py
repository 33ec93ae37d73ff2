"""What follows when a pod that is known changes or is on its way out: its place in the picture, and who is woken.

The counterpart of `group_changes` for single pods.  `now` and `due` are in seconds.
"""

from kube_rules import objects
from kube_rules.work_annotations import work_terms_of
from reprieve.cluster.pods import PodRecord, annotations_of, claims_of, gone_by, was_preempted
from reprieve.cluster.state import ClusterState
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.queueing.queue import SchedulingQueue
from reprieve.scheduling.group_changes import GroupChanges
from reprieve.scheduling.held_room import Released
from reprieve.scheduling.nominations import Nominations
from reprieve.scheduling.wakeups import spec_changed, terms_changed


class PodChanges:
    """See the module docstring."""

    def __init__(
        self, cluster: ClusterState, queue: SchedulingQueue, nominations: Nominations, groups: GroupChanges
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._nominations = nominations
        self._groups = groups

    def changed(self, known: PodRecord, pod: objects.Pod, now: float) -> None:
        """The API has another version of a pod."""
        known.preempted = was_preempted(pod)
        known.generation = pod.metadata.generation
        known.annotations = annotations_of(pod.metadata)
        terms_changed(self._cluster, self._queue, known, work_terms_of(pod), now)
        claims = self._cluster.devices.with_extended(known, claims_of(pod))
        if claims != known.claims:
            self._cluster.set_claims(known, claims)
            self._queue.update_pod(known, now)
        spec_changed(self._cluster, self._queue, known, pod, now)
        due = gone_by(pod)
        if due is not None and not known.terminating:
            self.terminating(known, now, due)
        elif due is not None:
            self._cluster.set_terminating(known, due=due)  # it may have been given less time
        if pod.spec.node_name:
            self._bound_to(known, pod.spec.node_name, now)
        elif known.row < 0:
            self._still_pending(known, pod, now)

    def _bound_to(self, known: PodRecord, node: str, now: float) -> None:
        known.bound = True
        row = self._cluster.nodes.row_for_pod(node)
        if known.row >= 0:
            if known.row != row:
                # Somebody else bound it elsewhere: the API is right, our assumption was not.
                self._cluster.displace(known)
                self._cluster.place(known, row)
            return
        self._queue.remove_pod(known, now)
        self._cluster.clear_nomination(known)
        self._nominations.bound(known.uid)
        self._cluster.place(known, row)
        event = ClusterEvent(EventKind.POD_PLACED, row=row, pod=known, group=known.group)
        self._queue.on_event(event, now)
        self._nominations.overtake(known, row, now, outside=True)

    def _still_pending(self, known: PodRecord, pod: objects.Pod, now: float) -> None:
        if not known.terminating:
            self._nominations.observe(known, pod.status.nominated_node_name, now)
        gates = tuple(gate.name for gate in pod.spec.scheduling_gates or ())
        if gates == known.gates:
            return
        known.gates = gates
        self._queue.update_pod(known, now)
        if gates:
            self._nominations.give_up((known,), now, Released.GATED, f"gated by {', '.join(gates)}")
        if known.group is not None:
            event = ClusterEvent(EventKind.GATES_REMOVED, pod=known, group=known.group)
            self._queue.on_event(event, now)

    def terminating(self, pod: PodRecord, now: float, due: float | None) -> None:
        """A pod got a deletionTimestamp; by `due` it is gone."""
        self._cluster.set_terminating(pod, due=due)
        if pod.row < 0:
            self._queue.remove_pod(pod, now)
            self._nominations.give_up((pod,), now, Released.DELETED, f"pod {pod.key} is deleted")
            self.member_gone(pod, now)
        else:
            event = ClusterEvent(EventKind.POD_TERMINATING, row=pod.row, pod=pod, group=pod.group)
            self._queue.on_event(event, now)
        self._groups.give_up_if_gated(self._queue.find(pod), now)

    def member_gone(self, pod: PodRecord, now: float) -> None:
        """A pending pod is gone: its group may be at one without it (preemption.md 8.3)."""
        if pod.group is not None:
            self._queue.on_event(ClusterEvent(EventKind.MEMBER_GONE, pod=pod, group=pod.group), now)
