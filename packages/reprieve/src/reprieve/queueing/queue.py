"""The scheduling queue: active, backoff, unschedulable, gated (scheduling.md 1).

Time is an argument (seconds), so the same queue runs under a real and under a simulated clock.

Invariants: every pending entity is in exactly one state; an event that could help an entity is never lost, whether it
comes while the entity waits, is in its cycle, or is blocked by its own preemption; entities leave the active queue by
(priority descending, first arrival), so neither a large gang nor a stream of small pods can starve the other. Where
many entities wait, those that certainly cannot be placed (`ReachBound`) are not woken by events of others, as if they
had been tried and rejected (scheduling.md 1.7).  Where few wait, an attempt is cheap and keeps their messages current.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from operator import attrgetter

from reprieve.cluster.groups import GroupState
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.events import ClusterEvent, EventKind, tree_of
from reprieve.framework.profile import Profile
from reprieve.framework.status import SUCCESS, Code, Status
from reprieve.queueing.active_entities import ActiveEntities
from reprieve.queueing.causes import (
    ALARM,
    BACKOFF_COMPLETE,
    FREEING,
    POD_UPDATED,
    REGATING,
    RESIZE,
    SCHEDULE_ATTEMPT_FAILURE,
    Cause,
)
from reprieve.queueing.entity import Entity, QueueState
from reprieve.queueing.futile_attempts import ReachBound, ReachFilter
from reprieve.queueing.gates import PreEnqueueGates
from reprieve.queueing.hints import QueueingHints, QueueWatch
from reprieve.queueing.queue_order import QueueOrder
from reprieve.queueing.shared_attempts import SeparateAttempts, SharedAttempts
from reprieve.queueing.timers import Timers, Timing
from reprieve.queueing.unschedulable import UnschedulableEntities

_LOWEST_PRIORITY = -(1 << 32)
"""Below every valid priority."""


class SchedulingQueue:
    """The scheduling queue. `profiles` by schedulerName; pods of any other scheduler use the first.

    Without `reach` every entity that an event may help is tried.  `current_reasons=False`: the reasons for pending pods
    are not read, so an entity out of reach is never tried again, even if few wait or it was in reach when woken.
    `ageing`: seconds after which failed entities precede all others; 0: never.
    """

    def __init__(
        self,
        cluster: ClusterState,
        profiles: Mapping[str, Profile],
        timing: Timing,
        reach: ReachBound | None,
        *,
        current_reasons: bool,
        ageing: float = 0.0,
    ) -> None:
        self._cluster = cluster
        self._profiles = profiles
        self._timing = timing
        self._entities: dict[str, Entity] = {}
        self._active = ActiveEntities(self._entities, self.order)
        self._backoff = Timers(self._entities, QueueState.BACKOFF, attrgetter("wake"))
        self._alarms = Timers(self._entities, QueueState.UNSCHEDULABLE, attrgetter("alarm"))
        self._unschedulable = UnschedulableEntities()
        self._listening: dict[str, Entity] = {}
        """Entities in their cycle or blocked: events are recorded for them."""
        self._doubtful: dict[str, float] = {}
        """Entities gated because a PreEnqueue plugin failed, with the time of its next call; soonest first."""
        self.incoming: dict[tuple[QueueState, Cause], int] = {}
        """Pods that entered a state, by the cause (`scheduler_queue_incoming_pods_total`)."""
        self.arrivals: dict[tuple[QueueState, Cause, str], int] = {}
        """Entities that entered a state, by the cause and their kind (`scheduler_queue_incoming_entities_total`)."""
        self.releases = 0
        """A counter of the events that may have freed capacity."""
        self._cause: Cause = EventKind.POD_ADDED
        self._first_profile, first = next(iter(profiles.items()))
        self._order = QueueOrder(first.queue_sort.sort_key, ageing)
        self._gates = PreEnqueueGates(cluster, profiles)
        self._hints = QueueingHints(cluster, profiles)
        self.changed_groups: dict[str, float] = {}
        """Pod groups that had an event, with its time; consumed by `reprieve.scheduling.gang_repair`."""
        self._reach = ReachFilter(reach, self._add_plugins, current_reasons=current_reasons)
        self._sharing = (
            SeparateAttempts()
            if reach is None or current_reasons
            else SharedAttempts(cluster, self._reach, self._hints, self._unschedulable.by_ref.get, self._reactivate)
        )

    def watched_by(self, watch: QueueWatch) -> None:
        """Measure the handling of events and the hints of plugins with `watch`."""
        self._hints.watch = watch

    # -- pending entities --------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._entities)

    def entities(self) -> Iterable[Entity]:
        """Return all pending entities, in no particular order."""
        return self._entities.values()

    def find(self, pod: PodRecord) -> Entity | None:
        """Return the entity to which a pending pod belongs."""
        return self._entities.get(self._cluster.entity_ref(pod))

    def get(self, ref: str) -> Entity | None:
        """Return the pending entity of that ref, or None."""
        return self._entities.get(ref)

    def counts(self) -> dict[QueueState, int]:
        """Return the number of entities in each state."""
        counts = Counter(entity.state for entity in self._entities.values())
        return {state: counts[state] for state in QueueState}

    # -- changes of pods ---------------------------------------------------------------------------

    def add_pod(self, pod: PodRecord, now: float, *, attempts: int = 0) -> Entity:
        """Add a pending pod, or one that failed to bind: then after `attempts` attempts, the last one now."""
        self._cause = SCHEDULE_ATTEMPT_FAILURE if attempts else RESIZE if pod.resizing else EventKind.POD_ADDED
        return self._take(pod, now, attempts)

    def _take(self, pod: PodRecord, now: float, attempts: int) -> Entity:
        ref = self._cluster.entity_ref(pod)
        entity = self._entities.get(ref)
        if entity is None:
            group = self._cluster.trees.find(ref) if pod.group is not None and not pod.resizing else None
            entity = self._entities[ref] = Entity(ref, group, pod.created)
            entity.since = now
        if pod.created < entity.timestamp:
            entity.timestamp = pod.created
            if entity.state is QueueState.ACTIVE:
                self._active.push(entity)
        if attempts:
            entity.attempts = max(entity.attempts, attempts)
            entity.last_attempt = now
        entity.profile = pod.scheduler_name if pod.scheduler_name in self._profiles else self._first_profile
        self._reach.forget(entity.ref)
        entity.ready.pop(pod.uid, None)
        entity.gated_pods.pop(pod.uid, None)
        status = self._gates.of_pod(pod)
        if status.ok:
            entity.ready[pod.uid] = pod
            if pod.unschedulable_since is not None:
                self._order.failed(entity, now)
        else:
            entity.gated_pods[pod.uid] = status
            self._doubt(entity, status, now)
        self._refresh_priority(entity)
        if entity.state is QueueState.GATED:
            self._regate(entity, now)
        elif (
            not status.ok and entity.state is not QueueState.IN_CYCLE and not (gate := self._gates.of_entity(entity)).ok
        ):
            # It was active, or might have been, and an object that it needs was deleted, such as a claim.
            self._sharing.wake(self._sharing.tried_for(entity), now)
            self._to_gated(entity, gate, now)
        elif entity.state is QueueState.UNSCHEDULABLE or (attempts and entity.state is QueueState.ACTIVE):
            # A new member of a group has not been rejected by anything yet. A group that is tried again at once for its
            # other members waits for the backoff of the member that failed to bind: otherwise nothing would pace it.
            self._reactivate(entity, now)
        return entity

    def update_pod(self, pod: PodRecord, now: float) -> None:
        """Update a changed pending pod (gates, labels, requests). It may be tried again."""
        if self.find(pod) is not None:
            self._cause = POD_UPDATED
            self._take(pod, now, 0)

    def remove_pod(self, pod: PodRecord, now: float) -> None:
        """Remove a pending pod that was deleted, or was placed by another scheduler."""
        self._cause = EventKind.POD_GONE
        entity = self.find(pod)
        if entity is None:
            return
        entity.ready.pop(pod.uid, None)
        entity.gated_pods.pop(pod.uid, None)
        self._reach.forget(entity.ref)
        if not entity.ready and not entity.gated_pods:
            kind = self._sharing.tried_for(entity)
            self._drop(entity)
            self._sharing.wake(kind, now)
        elif entity.state is not QueueState.IN_CYCLE:
            self._recheck_gate(entity, now)

    def move_group(self, group: GroupState, before: str, now: float) -> None:
        """Move the pods of a group from the entity with the ref `before` to their present entity (composite.md 2.2)."""
        self._cause = EventKind.GROUP_CHANGED
        entity = self._entities.get(before)
        if entity is None:
            return
        moved = [pod for pod in group.members.values() if pod.uid in entity.ready or pod.uid in entity.gated_pods]
        for pod in moved:
            entity.ready.pop(pod.uid, None)
            entity.gated_pods.pop(pod.uid, None)
        self._reach.forget(entity.ref)
        if not entity.ready and not entity.gated_pods:
            self._drop(entity)
        else:
            self._recheck_gate(entity, now)
        for pod in moved:
            self._take(pod, now, 0)

    # -- scheduling cycle --------------------------------------------------------------------------

    def pop(self, now: float) -> Entity | None:
        """Return the next entity to try; it stays in its cycle until `done` or `requeue`."""
        self.tick(now)
        while (entity := self._active.pop()) is not None:
            if not self._sharing.would_fail(entity):
                return self._begin(entity, now)
            self._wait(entity, now)
        return None

    def _begin(self, entity: Entity, now: float) -> Entity:
        self._move(entity, QueueState.IN_CYCLE, now)
        entity.begin_attempt(now)
        entity.events.clear()
        return entity

    def pop_only(self, ref: str, now: float) -> Entity | None:
        """Pop the entity of that ref, if it is active and no active entity has a higher priority."""
        self.tick(now)
        entity, first = self._entities.get(ref), self._active.first()
        if entity is None or entity.state is not QueueState.ACTIVE or first is None or first.priority > entity.priority:
            return None
        return self._begin(entity, now)

    def put_back(self, entity: Entity) -> None:
        """Return an entity from its cycle to the active queue, as if it had not been popped."""
        self._listening.pop(entity.ref, None)
        entity.undo_attempt()
        entity.state = QueueState.ACTIVE
        self._active.push(entity)

    def followers(self, entity: Entity, most: int) -> list[Entity]:
        """Return those of the next `most` entities of its priority that share its profile and may fit, in order."""
        followers = self._active.followers(entity, most)
        return [e for e in followers if e.profile == entity.profile and not self._sharing.would_fail(e)]

    def _wait(self, entity: Entity, now: float) -> None:
        """Move an entity to the unschedulable ones."""
        kind = self._sharing.tried_for(entity)
        self._move(entity, QueueState.UNSCHEDULABLE, now)
        self._sharing.waits_on(entity, kind, now)

    def done(self, entity: Entity, placed: Iterable[PodRecord]) -> None:
        """Remove placed pods from the entity, and the entity if no pods are left."""
        kind = None
        for pod in placed:
            entity.ready.pop(pod.uid, None)
            self._reach.forget(entity.ref)
            kind = self._sharing.tried_for(entity)
        if not entity.ready and not entity.gated_pods:
            self._drop(entity)
        self._sharing.wake(kind, entity.last_attempt)

    def requeue(self, entity: Entity, now: float, rejected_by: Iterable[str]) -> None:
        """Wait after a failed attempt for an event that may help; replay the events since the start of the cycle."""
        self._cause = SCHEDULE_ATTEMPT_FAILURE
        entity.rejected_by = set(rejected_by)
        gate = self._gates.of_entity(entity)
        if not gate.ok or entity.block_reason is not None:
            self._to_gated(entity, gate, now)
            self._sharing.wake(self._sharing.tried_for(entity), now)
        else:
            self._order.failed(entity, now)
            self._wait(entity, now)
            self._replay(entity, now)

    def requeue_now(self, entity: Entity, now: float) -> None:
        """Retry at once, without backoff and with the old timestamp (scheduling.md 3.3)."""
        entity.attempts = 0
        if entity.block_reason is None:
            self.retry_later(entity, now)
        else:
            self.requeue(entity, now, ())

    def retry_later(self, entity: Entity, now: float) -> None:
        """Retry after backoff without waiting for an event: an error, not lack of capacity, ended the attempt."""
        self._cause = SCHEDULE_ATTEMPT_FAILURE
        self._sharing.wake(self._sharing.tried_for(entity), now)
        entity.rejected_by = set()
        gate = self._gates.of_entity(entity)
        if gate.ok:
            self._reactivate(entity, now)
        else:
            self._to_gated(entity, gate, now)

    def block(self, entity: Entity, why: str) -> None:
        """Gate the entity while its preemption's API calls run (preemption.md 7.3)."""
        entity.block_reason = why
        entity.overtaken = False
        self._listening[entity.ref] = entity

    def unblock(self, ref: str, now: float, *, retry: bool, failed: bool = False) -> None:
        """End `block` after the API calls: replay the events since then; with `retry` try the entity again at once.

        `failed`: one of the calls failed. From the second consecutive failure on the entity waits for its backoff
        (preemption.md 7.5): a webhook or a missing permission would refuse the next call as well.
        """
        entity = self._entities.get(ref)
        if entity is None or entity.block_reason is None:
            return
        self._cause = EventKind.PREEMPTION_FINISHED
        entity.block_reason = None
        entity.failed_preemptions = entity.failed_preemptions + 1 if failed else 0
        if entity.state is not QueueState.IN_CYCLE:
            self._listening.pop(ref, None)
        if entity.state is not QueueState.GATED:
            return
        gate = self._gates.of_entity(entity)
        if not gate.ok:
            self._to_gated(entity, gate, now)
        elif entity.failed_preemptions > 1:
            self._reactivate(entity, now)
        elif retry or entity.overtaken:
            self._to_active(entity, now)
        else:
            self._move(entity, QueueState.UNSCHEDULABLE, now)
            self._replay(entity, now)

    # -- events and time ---------------------------------------------------------------------------

    def on_event(self, event: ClusterEvent, now: float, *, but: str = "") -> None:
        """Wake the entities that an event may help, except the entity with the ref `but`, which caused it."""
        if event.kind in FREEING:
            self.releases += 1
        if event.group is not None:
            self.changed_groups[event.group] = now
        watch = self._hints.watch
        if watch is None:
            self._handle(event, now, but)
        else:
            with watch.event(event.kind):
                self._handle(event, now, but)

    def _handle(self, event: ClusterEvent, now: float, but: str) -> None:
        self._cause = event.kind
        if not self._entities:
            return
        tree = tree_of(self._cluster, event)
        cache: dict[Hashable, bool] = {}
        if tree is not None:
            self._reach.forget(tree)
        if event.kind in REGATING and tree is not None:
            entity = self._entities.get(tree)
            if entity is not None:
                self._refresh_priority(entity)
                if entity.state is not QueueState.IN_CYCLE:
                    self._recheck_gate(entity, now)
        for entity in self._listening.values():
            if entity.ref != but:
                entity.events.append(event)
        check_reach, shares = False, self._sharing.shares
        for plugin in self._hints.interested[event.kind]:
            if shares:
                self._sharing.on_event(plugin, event, now, but, cache)
            concerned = self._concerned(plugin, tree)
            if not concerned:
                continue
            check_reach = check_reach or self._reach.applies(concerned)
            for entity in concerned:
                if entity.ref == but or (check_reach and entity.ref != tree and self._reach.leaves_out(entity)):
                    continue
                if self._hints.help(entity, plugin, event, cache):
                    self._reactivate(entity, now)

    def _concerned(self, plugin: str, tree: str | None) -> list[Entity]:
        """Return unschedulable entities that the plugin rejected and that an event, of `tree` if any, may concern."""
        rejected = self._unschedulable.by_plugin.get(plugin)
        if not rejected:
            return []
        if plugin in self._hints.of_groups and tree is not None:
            return [rejected[tree]] if tree in rejected else []
        return list(rejected.values())

    def tick(self, now: float) -> None:
        """Process everything due by `now`: ends of backoffs, alarms, and flushes of entities that waited too long."""
        for ref in self._order.pop_changed(now):
            self._sort_again(ref)
        self._cause = BACKOFF_COMPLETE
        while (entity := self._backoff.pop_due(now)) is not None:
            self._to_active(entity, now)
        while (entity := self._alarms.pop_due(now)) is not None:
            self._cause = ALARM
            self._reactivate(entity, now)
        while self._doubtful:
            ref, when = next(iter(self._doubtful.items()))
            if when > now:
                break
            del self._doubtful[ref]
            if ref in self._entities:
                self._ask_again(self._entities[ref], now)
        self._flush(now)

    def _flush(self, now: float) -> None:
        """Retry entities that have waited too long; those out of reach one at a time."""
        self._cause = EventKind.FLUSH
        check_reach: bool | None = None
        unschedulable = self._unschedulable
        while (entity := unschedulable.first()) is not None and now - entity.considered_at >= self._timing.flush_after:
            if check_reach is None:
                check_reach = self._reach.applies(unschedulable.by_ref.values())
            if check_reach and self._reach.leaves_out(entity):
                unschedulable.make_overdue(entity, now)
            else:
                self._reactivate(entity, now)
        if (entity := unschedulable.take_overdue(now)) is not None:
            self._reactivate(entity, now)

    def wake_at(self, entity: Entity, when: float) -> None:
        """Retry an entity that was just rejected at that time, if no event wakes it before."""
        entity.alarm = when
        self._alarms.add(entity, when)

    def wake(self, ref: str, now: float) -> None:
        """Retry an unschedulable entity, whatever event it waits for."""
        entity = self._entities.get(ref)
        if entity is not None and entity.state is QueueState.UNSCHEDULABLE:
            self._reactivate(entity, now)

    def overtake(self, ref: str, now: float) -> None:
        """Retry an entity after pods took its nominated nodes; if it is blocked, when its preemption's calls end."""
        entity = self._entities.get(ref)
        if entity is not None and entity.block_reason is not None:
            entity.overtaken = True
        self.wake(ref, now)

    def retry_above(self, priority: int, now: float) -> None:
        """Wake preemptors above `priority`: the protection of units of that priority has changed."""
        above = [entity for entity in self._unschedulable.by_ref.values() if entity.priority > priority]
        check_reach = self._reach.applies(above)
        for entity in above:
            if not (check_reach and self._reach.leaves_out(entity)):
                self._reactivate(entity, now)

    def retry_all(self, now: float) -> None:
        """Wake preemptors of every priority, as `retry_above` does."""
        self.retry_above(_LOWEST_PRIORITY, now)

    def next_wakeup(self, *, flush: bool = True, ignoring: Collection[str] = ()) -> float | None:
        """Return the next time at which `tick` has work if no event comes before, or None.

        Without `flush` only backoffs and alarms count; backoffs of entities in `ignoring` (their refs) do not.
        """
        times = [self._backoff.next(ignoring), self._alarms.next()]
        if flush:
            first = self._unschedulable.first()
            times.append(next(iter(self._doubtful.values()), None))
            times.append(first.considered_at + self._timing.flush_after if first is not None else None)
            times.append(self._unschedulable.next_overdue)
        return min((when for when in times if when is not None), default=None)

    @property
    def has_active(self) -> bool:
        """Return whether any entity is active."""
        return self._active.first() is not None

    def kept_events(self) -> dict[EventKind, int]:
        """Return the number of recorded events that await their replay, by kind."""
        return Counter(event.kind for entity in self._listening.values() for event in entity.events)

    # -- internals ---------------------------------------------------------------------------------

    def _replay(self, entity: Entity, now: float) -> None:
        """Wake the entity if an event that it missed may help it."""
        events, entity.events = entity.events, []
        for event in self._hints.that_help(entity, events):
            own = tree_of(self._cluster, event) == entity.ref
            waiting = self._unschedulable.by_ref.values()
            if own or not self._reach.applies(waiting) or not self._reach.leaves_out(entity):
                self._reactivate(entity, now)
                return

    def _add_plugins(self, entity: Entity, plugins: Collection[str]) -> None:
        """Let events of further plugins wake a waiting entity."""
        if not self._sharing.add_plugins(entity, plugins):
            self._unschedulable.add_plugins(entity, plugins)

    def _reactivate(self, entity: Entity, now: float) -> None:
        """Move to the active queue, or to backoff while the last failure is too recent."""
        wake = self._timing.end_of_backoff(entity)
        if wake > now:
            self._move(entity, QueueState.BACKOFF, now)
            entity.wake = wake
            self._backoff.add(entity, wake)
        else:
            self._to_active(entity, now)

    def _to_active(self, entity: Entity, now: float) -> None:
        self._move(entity, QueueState.ACTIVE, now)
        if entity.first_active is None:
            entity.first_active = now
        entity.gate = SUCCESS
        self._active.push(entity)

    def _to_gated(self, entity: Entity, gate: Status, now: float) -> None:
        self._move(entity, QueueState.GATED, now)
        entity.gate = gate
        self._doubt(entity, gate, now)

    def _doubt(self, entity: Entity, gate: Status, now: float) -> None:
        """Schedule another call of a failed gate plugin: an error is not a rejection, so no event may follow."""
        if gate.code is Code.ERROR:
            self._doubtful.pop(entity.ref, None)
            self._doubtful[entity.ref] = now + self._timing.max_backoff

    def _ask_again(self, entity: Entity, now: float) -> None:
        for uid, status in list(entity.gated_pods.items()):
            pod = self._cluster.pods.get(uid)
            if status.code is Code.ERROR and pod is not None:
                self._take(pod, now, 0)
        if entity.state is QueueState.GATED:
            self._regate(entity, now)

    def _move(self, entity: Entity, state: QueueState, now: float) -> None:
        ref = entity.ref
        if entity.state is QueueState.UNSCHEDULABLE:
            self._unschedulable.remove(entity)
            if not self._sharing.shares:
                self._reach.forget(ref)
        elif entity.state is QueueState.IN_CYCLE and entity.block_reason is None:
            self._listening.pop(ref, None)
        entity.state = state
        entity.since = now
        if state is QueueState.UNSCHEDULABLE:
            self._unschedulable.add(
                entity, now, indexed=entity.resizing or not self._sharing.add(entity, self.order(entity))
            )
        elif state is QueueState.IN_CYCLE:
            self._listening[ref] = entity
            return
        state_and_cause = (state, self._cause)
        self.incoming[state_and_cause] = self.incoming.get(state_and_cause, 0) + entity.size
        kind = (*state_and_cause, "Pod" if entity.group is None else entity.group.kind)
        self.arrivals[kind] = self.arrivals.get(kind, 0) + 1

    def order(self, entity: Entity) -> tuple[float, ...]:
        """Return the sort key of an entity in the active queue, least first."""
        return self._order.of(entity)

    def is_old(self, ref: str) -> bool:
        """Return whether an entity precedes others because of its age (reservations.md 8)."""
        return self._order.is_old(ref)

    def put_first(self, ref: str, first: bool) -> None:
        """Put an entity, pending or future, before all others of its priority, or back in its turn."""
        self._order.put_first(ref, first)
        self._sort_again(ref)

    def put_last(self, ref: str, until: float) -> None:
        """Put an entity, pending or future, after all others of its priority until then (cost.md 9.9)."""
        self._order.put_last(ref, until)
        self._sort_again(ref)

    def _sort_again(self, ref: str) -> None:
        entity = self._entities.get(ref)
        if entity is not None and entity.state is QueueState.ACTIVE:
            self._active.push(entity)
        elif entity is not None and entity.state is QueueState.UNSCHEDULABLE and not entity.resizing:
            self._sharing.add(entity, self.order(entity))

    def _regate(self, entity: Entity, now: float) -> None:
        gate = self._gates.of_entity(entity)
        entity.gate = gate
        self._doubt(entity, gate, now)
        if gate.ok and entity.block_reason is None:
            self._reactivate(entity, now)

    def _recheck_gate(self, entity: Entity, now: float) -> None:
        if entity.state is QueueState.GATED:
            self._regate(entity, now)
        elif not (gate := self._gates.of_entity(entity)).ok:
            self._to_gated(entity, gate, now)

    def _refresh_priority(self, entity: Entity) -> None:
        """Update the priority of an entity: the group's own (scheduling.md 1), or the pod's."""
        if entity.group is not None:
            priority = entity.group.spec.priority if entity.group.spec is not None else 0
        else:
            priority = max((pod.priority for pod in entity.ready.values()), default=entity.priority)
        if priority != entity.priority:
            entity.priority = priority
            self._reach.forget(entity.ref)
            self._sort_again(entity.ref)

    def _drop(self, entity: Entity) -> None:
        self._reach.forget(entity.ref)
        self._sharing.forget(entity.ref)
        self._order.forget(entity.ref)
        self._move(entity, QueueState.GATED, entity.since)
        self._listening.pop(entity.ref, None)
        self._entities.pop(entity.ref, None)
