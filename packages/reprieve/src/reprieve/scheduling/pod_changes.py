"""Changes of pods: update the cluster cache, and wake entities that the change may help.

`now` and `due` are in seconds.
"""

from collections.abc import Callable, Mapping

from kube_rules import objects
from kube_rules.group_sources import GroupSources
from kube_rules.meta import ObjectRef
from kube_rules.work_annotations import work_terms_of
from reprieve.cluster.pods import (
    PodRecord,
    annotations_of,
    claims_of,
    gone_by,
    moved_of,
    record_of,
    unschedulable_since,
    was_preempted,
)
from reprieve.cluster.state import ClusterState
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.preemption.eviction_limits import protected_from_its_start
from reprieve.queueing.entity import QueueState
from reprieve.queueing.queue import SchedulingQueue
from reprieve.scheduling.assumed_pods import AssumedPods
from reprieve.scheduling.gang_repair import GangRepair
from reprieve.scheduling.group_changes import GroupChanges
from reprieve.scheduling.nominations import Nominations
from reprieve.scheduling.preemptor_reservations import Released
from reprieve.scheduling.resizes import PendingResizes
from reprieve.scheduling.wakeups import spec_changed, terms_changed


class PodChanges:
    """See the module docstring. `scheduled_here` returns whether a pod is for one of the profiles.

    `linger` returns whether a deleted victim still holds devices, `aliases` maps further names of profiles to their
    names.
    """

    def __init__(
        self,
        cluster: ClusterState,
        queue: SchedulingQueue,
        resizes: PendingResizes,
        nominations: Nominations,
        groups: GroupChanges,
        assumed: AssumedPods,
        sources: GroupSources,
        repair: GangRepair,
        *,
        aliases: Mapping[str, str],
        scheduled_here: Callable[[PodRecord], bool],
        linger: Callable[[PodRecord], bool],
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._resizes = resizes
        self._nominations = nominations
        self._groups = groups
        self._assumed_pods = assumed
        self._sources = sources
        self._repair = repair
        self._aliases = aliases
        self._scheduled_here = scheduled_here
        self._linger = linger

    def set(self, pod: objects.Pod, now: float, created: float | None = None) -> None:
        """Add, change or end a pod. `created` (seconds) replaces a missing creationTimestamp."""
        uid = uid_of(pod)
        record = self._cluster.pods.get(uid)
        if pod.finished:
            if pod.status.phase == "Succeeded" and not pod.terminating:
                self._record_success(pod, uid)
            self.remove_record(uid, now)
        elif record is None:
            self._add(pod, now, created)
        else:
            self._update(record, pod, now)

    def remove(self, ref: ObjectRef, now: float) -> bool:
        """Remove a deleted pod."""
        uid = ref.uid or ref.key
        self._repair.health.remove_pod(uid)
        return self.remove_record(uid, now)

    def _record_success(self, pod: objects.Pod, uid: str) -> None:
        """Record that a pod succeeded: its gang has not lost it (repair.md 1.3)."""
        record = self._cluster.pods.get(uid)
        membership = self._sources.membership(pod) if record is None else None
        group = record.group if record is not None else self._groups.key_of(pod, membership) if membership else None
        if group:
            self._repair.health.record_success(group, uid)

    def remove_record(self, uid: str, now: float) -> bool:
        """Free the capacity of a pod that was deleted or has ended. Return whether it was known."""
        self._cluster.now = max(self._cluster.now, now)
        pod = self._cluster.pods.get(uid)
        if pod is None:
            return False
        self._resizes.end(pod, now)
        row, nominated = pod.row, pod.nominated
        if row >= 0 and not pod.preempted and uid not in self._cluster.doomed:
            self._repair.places.record(pod, row, now)
        if row < 0 <= nominated:
            self._nominations.release([(pod, nominated)], Released.DELETED, f"pod {pod.key} is gone", now)
        lingers = self._nominations.in_flight.is_victim(uid) and self._linger(pod)
        self._assumed_pods.forget(pod)
        self._cluster.remove_pod(pod)
        if row < 0:
            self._queue.remove_pod(pod, now)
        self._nominations.forget(uid)
        if not lingers:
            self._nominations.remove_victim(uid, now)
        if row >= 0:
            self._queue.on_event(ClusterEvent(EventKind.POD_GONE, row=row, pod=pod, group=pod.group), now)
        else:
            if nominated >= 0:
                self._nominations.release_from(pod, nominated, now)
            self._remove_member(pod, now)
        self._groups.remove_pod(pod, now)
        self._groups.give_up_if_gated(self._queue.find(pod), now)
        return True

    def _add(self, pod: objects.Pod, now: float, created: float | None) -> None:
        stamp = pod.metadata.creation_timestamp
        when = created if created is not None else stamp.timestamp() if stamp is not None else now
        membership = self._sources.membership(pod)
        record = record_of(
            pod,
            self._cluster.signatures,
            created=when,
            group=self._groups.key_of(pod, membership) if membership is not None else None,
            scheduler_name=self._aliases.get(pod.spec.scheduler_name),
        )
        self._cluster.add_pod(record, pod.spec.node_name or None, due=gone_by(pod))
        if membership is not None:
            self._groups.add_pod(record, pod, membership, now)
        if record.row >= 0:
            self._placed_outside(record, now)
            self._resizes.observe(record, pod, now, ours=self._scheduled_here(record), changed=False)
            return
        nominated = pod.status.nominated_node_name
        if nominated and not record.terminating:
            self._nominations.add_known(record, nominated, now)
        if self._scheduled_here(record) and not record.terminating:
            self._cluster.now = max(self._cluster.now, now)
            until = protected_from_its_start(self._cluster, record)
            if until is not None:
                self._queue.put_last(self._cluster.entity_ref(record), until)
            self._queue.add_pod(record, now)
        if record.group is not None:
            self._queue.on_event(ClusterEvent(EventKind.POD_ADDED, pod=record, group=record.group), now)

    def _placed_outside(self, pod: PodRecord, now: float) -> None:
        """Handle a pod that another scheduler bound, or this one before a restart."""
        event = ClusterEvent(EventKind.POD_PLACED, row=pod.row, pod=pod, group=pod.group)
        self._queue.on_event(event, now)
        self._nominations.overtake(pod, pod.row, now, outside=True)

    def _update(self, record: PodRecord, pod: objects.Pod, now: float) -> None:
        """Handle another version of a pod."""
        record.preempted = was_preempted(pod)
        record.moved = moved_of(pod)
        record.generation = pod.metadata.generation
        record.annotations = annotations_of(pod.metadata)
        terms_changed(self._cluster, self._queue, record, work_terms_of(pod), now)
        claims = self._cluster.devices.with_extended(record, claims_of(pod))
        if claims != record.claims:
            self._cluster.set_claims(record, claims)
            self._queue.update_pod(record, now)
        before = record.signature
        spec_changed(self._cluster, self._queue, record, pod, now)
        due = gone_by(pod)
        if due is not None and not record.terminating:
            self._terminate(record, now, due)
        elif due is not None:
            self._cluster.set_terminating(record, due=due)  # its grace period may be shorter now
        if pod.spec.node_name:
            self._bind(record, pod.spec.node_name, now)
            changed = before is not record.signature
            self._resizes.observe(record, pod, now, ours=self._scheduled_here(record), changed=changed)
        elif record.row < 0:
            self._update_pending(record, pod, now)

    def _bind(self, record: PodRecord, node: str, now: float) -> None:
        record.bound = True
        row = self._cluster.nodes.row_for_pod(node)
        if record.row >= 0:
            if record.row != row:
                # Another scheduler bound it elsewhere: the API is authoritative, not our assumption.
                self._cluster.displace(record)
                self._cluster.place(record, row)
            return
        self._queue.remove_pod(record, now)
        self._cluster.clear_nomination(record)
        self._nominations.remove_bound(record.uid)
        self._cluster.place(record, row)
        self._placed_outside(record, now)

    def _update_pending(self, record: PodRecord, pod: objects.Pod, now: float) -> None:
        if not record.terminating:
            self._nominations.observe(record, pod.status.nominated_node_name, now)
        self._tried_by_another(record, pod, now)
        gates = tuple(gate.name for gate in pod.spec.scheduling_gates or ())
        if gates == record.gates:
            return
        record.gates = gates
        self._queue.update_pod(record, now)
        if gates:
            self._nominations.give_up((record,), now, Released.GATED, f"gated by {', '.join(gates)}")
        if record.group is not None:
            event = ClusterEvent(EventKind.GATES_REMOVED, pod=record, group=record.group)
            self._queue.on_event(event, now)

    def _tried_by_another(self, record: PodRecord, pod: objects.Pod, now: float) -> None:
        """Record an attempt of another scheduler, so that a standby knows how long pods are pending (reservations.md
        1.2).
        """
        if record.unschedulable_since is not None:
            return
        entity = self._queue.find(record)
        if entity is None or entity.attempts or entity.state is not QueueState.ACTIVE:
            return
        record.unschedulable_since = unschedulable_since(pod)
        if record.unschedulable_since is not None:
            self._queue.update_pod(record, now)

    def mark_terminating(self, uid: str, now: float, *, preempted: bool) -> None:
        """Handle a pod's deletionTimestamp; `preempted`: with the condition that the scheduler sets on its victims."""
        pod = self._cluster.pods.get(uid)
        if pod is None:
            return
        pod.preempted = pod.preempted or preempted
        if not pod.terminating:
            self._terminate(pod, now, now + pod.grace)

    def _terminate(self, pod: PodRecord, now: float, due: float | None) -> None:
        """Handle a pod's deletionTimestamp; it is deleted by `due`."""
        self._resizes.end(pod, now)
        self._cluster.set_terminating(pod, due=due)
        if pod.row < 0:
            self._queue.remove_pod(pod, now)
            self._nominations.give_up((pod,), now, Released.DELETED, f"pod {pod.key} is deleted")
            self._remove_member(pod, now)
        else:
            event = ClusterEvent(EventKind.POD_TERMINATING, row=pod.row, pod=pod, group=pod.group)
            self._queue.on_event(event, now)
        self._groups.give_up_if_gated(self._queue.find(pod), now)

    def _remove_member(self, pod: PodRecord, now: float) -> None:
        """Handle a deleted pending pod: its group may have no conflict without it (preemption.md 8.3)."""
        if pod.group is not None:
            self._queue.on_event(ClusterEvent(EventKind.MEMBER_GONE, pod=pod, group=pod.group), now)


def uid_of(pod: objects.Pod) -> str:
    """Return a pod's UID, or its `namespace/name` without one."""
    return pod.metadata.uid or f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"
