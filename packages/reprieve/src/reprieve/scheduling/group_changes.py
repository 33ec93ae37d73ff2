"""Changes of group objects: pods change their group, are woken, or lose reserved capacity.

Groups of all levels of a tree are treated alike (composite.md 2).  `now` is in seconds.
"""

from collections.abc import Iterable
from dataclasses import replace

from kube_rules import objects
from kube_rules.group_owners import GroupOwner, Job
from kube_rules.group_sources import GroupSources, Membership
from kube_rules.meta import ObjectRef
from reprieve.cluster.groups import Group, GroupSpec, GroupState, all_below, running_below
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.framework.gates import FeatureGates
from reprieve.queueing.entity import Entity, QueueState
from reprieve.queueing.queue import SchedulingQueue
from reprieve.scheduling.gang_repair import GangRepair
from reprieve.scheduling.group_objects import GroupChange, GroupObjects, Move
from reprieve.scheduling.nominations import Nominations
from reprieve.scheduling.preemptor_reservations import Released
from reprieve.scheduling.resizes import PendingResizes
from reprieve.scheduling.wakeups import retry_preemptors_of, units_changed


class GroupChanges:
    """See the module docstring."""

    def __init__(
        self,
        cluster: ClusterState,
        queue: SchedulingQueue,
        nominations: Nominations,
        sources: GroupSources,
        gates: FeatureGates,
        repair: GangRepair,
        *,
        waits_for_completions: bool,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._nominations = nominations
        self.resizes = PendingResizes(cluster, queue, gates)
        self._gates = gates
        self._repair = repair
        self._waits_for_completions = waits_for_completions
        self._objects = GroupObjects(cluster, sources, trees=gates.composite_pod_group)
        self.key_of = self._objects.key_of
        self.members = self._objects.members

    def set(self, group: objects.PodGroup, now: float, created: float | None = None) -> None:
        """Add or change a PodGroup of the API."""
        if self._gates.generic_workload:
            self._repair.health.read_conditions(group)
            self._carry_out(self._objects.set(group, created or 0.0), now)

    def remove(self, ref: ObjectRef, now: float) -> bool:
        """Remove a PodGroup object: pending members wait until it exists again."""
        changes = self._objects.remove(ref.key)
        self._carry_out(changes, now)
        return bool(changes)

    def set_composite(
        self,
        group: objects.CompositePodGroup,
        now: float,
        created: float | None = None,
    ) -> None:
        """Add or change a CompositePodGroup: groups below it may have a root now (composite.md 2)."""
        if self._gates.generic_workload and self._gates.composite_pod_group:
            self._set_composite(group, now, created or 0.0)

    def remove_composite(self, ref: ObjectRef, now: float) -> bool:
        """Remove a CompositePodGroup: the groups below it wait until it exists again."""
        return self._remove_composite(ref.key, now)

    def set_owner(self, owner: GroupOwner, now: float, _created: float | None = None) -> None:
        """Add or change a controller with pods that may be gangs (workloads.md 2.10)."""
        self._carry_out(self._objects.set_owner(owner), now)
        if isinstance(owner, Job):
            self.set_deadline(owner, now)

    def remove_owner(self, ref: ObjectRef, _now: float) -> bool:
        """Remove a controller with pods that may be gangs."""
        if ref.kind == Job.KIND:
            self._cluster.job_deadlines.remove(ref.namespace or "default", ref.name)
        self._objects.remove_owner(ref.kind, ref.namespace or "default", ref.name)
        return True

    def set_deadline(self, job: Job, now: float) -> None:
        """Add or change a Job: its pods end by its deadline (cost.md 6.4)."""
        if self._cluster.job_deadlines.set(job) and self._waits_for_completions:
            self._queue.retry_all(now)

    def watch_owners(self, kinds: Iterable[str], now: float) -> None:
        """Set the kinds of controllers that are reported from now on; pods of other kinds do not wait for them."""
        self._carry_out(self._objects.watch_owners(frozenset(kinds)), now)

    def add_pod(self, pod: PodRecord, manifest: objects.Pod, membership: Membership, now: float) -> None:
        """Add a new pod to its group."""
        self._carry_out(self._objects.add_pod(pod, manifest, membership), now)

    def remove_pod(self, pod: PodRecord, now: float) -> None:
        """Handle a deleted pod that is no longer a member."""
        self._carry_out(self._objects.remove_pod(pod), now)

    def _carry_out(self, changes: Iterable[GroupChange | Move], now: float) -> None:
        """Apply changes of group objects, and of groups that exist only by their pods."""
        for change in changes:
            if isinstance(change, Move):
                self._regroup(change.pod, change.group, now)
            elif isinstance(change.group, objects.CompositePodGroup):
                self._set_composite(change.group, now, change.created, change.foreign)
            elif change.group is not None:
                self._set_group(change.group, now, change.created)
            elif change.composite:
                self._remove_composite(change.key, now)
            else:
                self._remove_group(change.key, now)

    def _set_group(self, group: objects.PodGroup, now: float, created: float) -> None:
        key = group.full_key
        before = self._cluster.groups.get(key)
        old, uid = (before.spec, before.uid) if before is not None else (None, "")
        state = self._cluster.set_group(group, created=created, trees=self._gates.composite_pod_group)
        self._update_group(state, old, now)
        if state.uid != uid:
            self._queue.changed_groups[key] = now  # another object, although it may have the same spec
        if old is None and state.spec is not None and state.spec.claims:
            for pod in state.pending():
                if pod.claims:
                    self._queue.update_pod(pod, now)  # its claims can be resolved only now

    def _remove_group(self, key: str, now: float) -> None:
        group = self._cluster.groups.get(key)
        above = group.top.ref if group is not None else ""
        state = self._cluster.remove_group(key)
        if state is not None:
            self._nominations.give_up(state.pending(), now, Released.DELETED, f"podgroup {key} is deleted")
            self._move(now, f"podgroup {key} is deleted")
            self.resizes.regroup(state.running(), now)
            self._queue.on_event(ClusterEvent(EventKind.GROUP_REMOVED, group=key), now)
            self._queue.wake(above, now)
            units_changed(self._cluster, self._queue, state, now)

    def _set_composite(
        self, group: objects.CompositePodGroup, now: float, created: float, foreign: str | None = None
    ) -> None:
        """Set a CompositePodGroup of the API or of a tree; `foreign`: as `ClusterState.set_composite` has it."""
        key = group.full_key
        before = self._cluster.trees.composites.get(key)
        old = before.spec if before is not None else None
        self._update_group(self._cluster.set_composite(group, created=created, foreign=foreign), old, now)

    def _remove_composite(self, key: str, now: float) -> bool:
        state = self._cluster.trees.composites.get(key)
        if state is None:
            return False
        disrupted, above = running_below(all_below(state)), state.top.ref
        self._cluster.remove_composite(key)
        self._move(now, f"compositepodgroup {key} is deleted")
        self._queue.on_event(ClusterEvent(EventKind.GROUP_REMOVED, composite=key), now)
        self._queue.wake(above, now)
        retry_preemptors_of(self._cluster, self._queue, disrupted, now)
        return True

    def _regroup(self, pod: PodRecord, key: str | None, now: float) -> None:
        """Move a pod to another group: its queued entity and its group's counts change."""
        waiting = pod.row < 0 and self._queue.find(pod) is not None
        if waiting:
            self._queue.remove_pod(pod, now)
            self._nominations.give_up((pod,), now, Released.DELETED, f"pod {pod.key} belongs to another group")
        before = pod.group
        self._cluster.regroup(pod, key)
        self.resizes.regroup((pod,), now)
        if waiting:
            self._queue.add_pod(pod, now)
        for group in filter(None, (before, key)):
            kind = EventKind.MEMBER_GONE if group == before else EventKind.POD_ADDED
            self._queue.on_event(ClusterEvent(kind, pod=pod, group=group), now)

    def give_up_if_gated(self, entity: Entity | None, now: float) -> None:
        """Release the reservations of a group that may no longer be tried because it has too few members.

        The place of a lost member stays reserved until all replacements exist (repair.md 2.3).
        """
        if entity is None or entity.group is None or entity.state is not QueueState.GATED or entity.gate.ok:
            return
        pods = (pod for pod in entity.ready.values() if not self._repair.places.keeps(pod))
        self._nominations.give_up(pods, now, Released.GATED, entity.gate.reason)

    def _update_group(self, state: Group, old: GroupSpec | None, now: float) -> None:
        """Handle a group that differs from `old`; its pods, and those below it, may be in another tree now."""
        self._move(now, f"{state.kind.lower()} {state.key} stands in another tree")
        spec = state.spec
        assert spec is not None
        self.resizes.regroup(state.running(), now)
        raised = old is not None and (spec.min_count or 0) > (old.min_count or 0)
        if old is not None and replace(spec, min_count=old.min_count) != old:
            raised = False  # other changes may help
        kind = EventKind.GROUP_ADDED if old is None else EventKind.GROUP_CHANGED
        if isinstance(state, GroupState):
            event = ClusterEvent(kind, group=state.key, raised=raised)
        else:
            event = ClusterEvent(kind, composite=state.key, raised=raised)
        if old is None:
            self._queue.on_event(event, now)
        elif spec != old or old.terms.decisive != spec.terms.decisive:
            self._queue.on_event(event, now)
            self.give_up_if_gated(self._queue.get(state.home), now)
        else:
            return
        units_changed(self._cluster, self._queue, state, now)

    def _move(self, now: float, why: str) -> None:
        """Queue pods that moved to another tree in that tree; reservations of the old one end."""
        for group, before in self._cluster.trees.take_moved():
            self._nominations.give_up(group.pending(), now, Released.DELETED, why)
            self._queue.move_group(group, before, now)
            self.resizes.regroup(group.running(), now)
