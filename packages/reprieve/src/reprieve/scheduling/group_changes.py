"""What follows when the object of a group comes, changes or goes: who waits elsewhere, is woken, or gives room back.

A group of any level of a tree goes the same way (composite.md 2).  `now` is in seconds.
"""

from collections.abc import Iterable
from dataclasses import replace

from kube_rules import objects
from reprieve.cluster.groups import Group, GroupSpec, GroupState, all_below, running_below
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.queueing.entity import Entity, QueueState
from reprieve.queueing.queue import SchedulingQueue
from reprieve.scheduling.group_objects import GroupChange, Move
from reprieve.scheduling.held_room import Released
from reprieve.scheduling.nominations import Nominations
from reprieve.scheduling.wakeups import retry_preemptors_of, units_changed


class GroupChanges:
    """See the module docstring."""

    def __init__(self, cluster: ClusterState, queue: SchedulingQueue, nominations: Nominations, *, trees: bool) -> None:
        self._cluster = cluster
        self._queue = queue
        self._nominations = nominations
        self._trees = trees
        """Groups have parents; without, each stands alone, whatever parent it names."""

    def carry_out(self, changes: Iterable[GroupChange | Move], now: float) -> None:
        """Make the groups what their objects, and those they stand for, have become."""
        for each in changes:
            if isinstance(each, Move):
                self._regroup(each.pod, each.key, now)
            elif isinstance(each.group, objects.CompositePodGroup):
                self.set_composite(each.group, now, each.created, each.foreign)
            elif each.group is not None:
                self._set_group(each.group, now, each.created)
            elif each.composite:
                self.remove_composite(each.key, now)
            else:
                self._remove_group(each.key, now)

    def _set_group(self, group: objects.PodGroup, now: float, created: float) -> None:
        key = f"{group.metadata.namespace or 'default'}/{group.metadata.name}"
        before = self._cluster.groups.get(key)
        old = before.spec if before is not None else None
        state = self._cluster.set_group(group, created=created, trees=self._trees)
        self._changed(state, old, now)
        if old is None and state.spec is not None and state.spec.claims:
            for pod in state.pending():
                if pod.claims:
                    self._queue.update_pod(pod, now)  # what its claims mean is known only now

    def _remove_group(self, key: str, now: float) -> None:
        state = self._cluster.remove_group(key)
        if state is not None:
            self._nominations.give_up(state.pending(), now, Released.DELETED, f"podgroup {key} is deleted")
            self._move(now, f"podgroup {key} is deleted")
            self._queue.on_event(ClusterEvent(EventKind.GROUP_REMOVED, group=key), now)
            units_changed(self._cluster, self._queue, state, now)

    def set_composite(
        self, group: objects.CompositePodGroup, now: float, created: float, foreign: str | None = None
    ) -> None:
        """A CompositePodGroup appeared or changed; `foreign`: as `ClusterState.set_composite` has it."""
        key = f"{group.metadata.namespace or 'default'}/{group.metadata.name}"
        before = self._cluster.trees.composites.get(key)
        old = before.spec if before is not None else None
        self._changed(self._cluster.set_composite(group, created=created, foreign=foreign), old, now)

    def remove_composite(self, key: str, now: float) -> None:
        """A CompositePodGroup is gone: the groups below it wait for it to appear again."""
        state = self._cluster.trees.composites.get(key)
        if state is not None:
            disrupted = running_below(all_below(state))
            self._cluster.remove_composite(key)
            self._move(now, f"compositepodgroup {key} is deleted")
            self._queue.on_event(ClusterEvent(EventKind.GROUP_REMOVED, composite=key), now)
            retry_preemptors_of(self._cluster, self._queue, disrupted, now)

    def _regroup(self, pod: PodRecord, key: str | None, now: float) -> None:
        """A pod belongs to another group than it did: what it waits in, and what it counts for, is another."""
        waiting = pod.row < 0 and self._queue.find(pod) is not None
        if waiting:
            self._queue.remove_pod(pod, now)
            self._nominations.give_up((pod,), now, Released.DELETED, f"pod {pod.key} belongs to another group")
        before = pod.group
        self._cluster.regroup(pod, key)
        if waiting:
            self._queue.add_pod(pod, now)
        for group in filter(None, (before, key)):
            kind = EventKind.MEMBER_GONE if group == before else EventKind.POD_ADDED
            self._queue.on_event(ClusterEvent(kind, pod=pod, group=group), now)

    def give_up_if_gated(self, entity: Entity | None, now: float) -> None:
        """A group that may not be tried any more (too few members) holds no room for later."""
        if entity is None or entity.group is None or entity.state is not QueueState.GATED or entity.gate.ok:
            return
        self._nominations.give_up(entity.ready.values(), now, Released.GATED, entity.gate.reason)

    def _changed(self, state: Group, old: GroupSpec | None, now: float) -> None:
        """What it says is other than `old`; its pods, and those below it, may be of another tree now."""
        self._move(now, f"{state.kind.lower()} {state.key} stands in another tree")
        spec = state.spec
        assert spec is not None
        raised = old is not None and (spec.min_count or 0) > (old.min_count or 0)
        if old is not None and replace(spec, min_count=old.min_count) != old:
            raised = False  # what else is new may help
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
            if spec == old:
                units_changed(self._cluster, self._queue, state, now)
        if spec != old:
            units_changed(self._cluster, self._queue, state, now)

    def _move(self, now: float, why: str) -> None:
        """Pods whose tree is another one than before wait there; room that was held for them in the old one is free."""
        for group, before in self._cluster.trees.take_moved():
            self._nominations.give_up(group.pending(), now, Released.DELETED, why)
            self._queue.move_group(group, before, now)
