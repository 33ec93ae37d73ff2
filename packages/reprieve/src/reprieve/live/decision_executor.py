"""Executes the decisions of one engine: they become API calls, and the outcomes return to the engine.

It connects the parts: `Binder` for bindings, `PreemptionExecutor` for evictions, `Conditions` for the conditions of
pods and groups, `Observer` for metrics, events, logs and records. Their results reach the engine by
`SchedulingLoop.call_soon`, between cycles.

All-or-nothing scheduling also covers failed bindings (scheduling.md 3.6). If the binding of a gang member fails for
good, its condition and an event report that. If the gang then has fewer members than its minimum, its condition and an
event report that, too. The gang is tried again, and its bound members count.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any

from kube_rules import objects as o
from reprieve.client.discovery import Resource, ServedResources
from reprieve.client.informer import Change, ChangeKind
from reprieve.client.transport import ApiClient
from reprieve.cluster.groups import Group, GroupState, is_ready
from reprieve.cluster.pods import PodRecord
from reprieve.framework.instructions import DeleteObject, Instruction, PatchObject
from reprieve.framework.plugin_guard import PluginIncident
from reprieve.live.binding import Binder
from reprieve.live.conditions import KEPT_BACK, Conditions, ref_of
from reprieve.live.direct_evictions import DirectEvictions
from reprieve.live.extenders import ExtenderCalls
from reprieve.live.loop import EngineCall, SchedulingLoop
from reprieve.live.node_requests import NodeRequests
from reprieve.live.outages import Outages
from reprieve.live.preemption_executor import PreemptionExecutor
from reprieve.live.writes import Writes
from reprieve.observability.observer import Observer
from reprieve.plugins.extender import Extenders
from reprieve.preemption.outcome import Preemption
from reprieve.scheduling.advance_reservation import AdvanceReservation
from reprieve.scheduling.decision import SCHEDULED, SCHEDULER_ERROR, Binding, Decision, GroupCondition, Rejection
from reprieve.scheduling.effects import DirectEviction, Effects
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.gang_health import Satisfaction
from reprieve.scheduling.lost_place import LostPlace
from reprieve.scheduling.preemptor_reservations import ReleasedReservation


class DecisionExecutor:
    """Executes decisions; see the module docstring. Use it in one event loop: `attach` the loop, later `aclose`."""

    def __init__(
        self,
        engine: Engine,
        client: ApiClient,
        served: ServedResources,
        writes: Writes,
        observer: Observer,
        outages: Outages,
        *,
        extenders: ExtenderCalls | None = None,
        node_requests: NodeRequests | None = None,
    ) -> None:
        self._engine = engine
        self._observer = observer
        self._writes = writes
        self._node_requests = node_requests
        self._loop: SchedulingLoop | None = None
        self._resumed = False
        self._first_bindings: dict[str, set[str]] = {}
        """By group key, UIDs of the pods of the first scheduling of a group that are not confirmed as bound."""
        self._bodies = extenders.bodies if extenders is not None else None
        calls = {} if extenders is None else {"call_extender": extenders.bind}
        self.binder = Binder(client, served, writes, self, **calls)
        self.conditions = Conditions(writes, client.clock, on_trouble=lambda text: outages.besides("write", text))
        self._evictions = DirectEvictions(
            writes,
            client.clock,
            trouble=lambda text: observer.trouble("preemption", text),
            done=observer.eviction_ended,
        )
        self.preemptor = PreemptionExecutor(
            writes,
            self.conditions,
            observer,
            client.clock,
            done=lambda ref: self._notify(lambda now: self._engine.finish_preemption(ref, now)),
            failed=self._preemption_failed,
            release=self._release,
            wanted=self._engine.wants_room,
        )

    def attach(self, loop: SchedulingLoop) -> None:
        """Set the loop that makes calls which change the engine."""
        self._loop = loop

    async def conditions_written(self, seconds: float) -> None:
        """Wait until the conditions of pods and groups are written, for at most `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.conditions.drain()

    async def aclose(self) -> None:
        """Stop work in flight; the engine is no longer notified."""
        await self._evictions.aclose()
        await self.preemptor.aclose()
        await self.binder.aclose()

    # -- decisions (live.loop.DecisionListener) ------------------------------------------------------------------

    @property
    def bindings_under_way(self) -> int:
        """Return the number of bindings without a known outcome."""
        return self.binder.under_way

    def decided(self, decision: Decision, *, seconds: float, now: float) -> None:
        """Act on a decision: start its bindings, evictions and writes, without waiting."""
        for condition in decision.conditions:
            if condition.scheduled and not condition.composite and not self.conditions.was_scheduled(condition.ref):
                placed = (item.pod for item in (*decision.bindings, *decision.waiting))
                first = {pod.uid for pod in placed if pod.group == condition.group}
                if first:
                    self._first_bindings[condition.group] = first
        self.conditions.decided(decision)
        for binding in decision.bindings:
            self.binder.start(binding)
        preemption = decision.preemption
        if preemption is not None and preemption.victims and self._engine.gates.scheduler_async_preemption:
            self.preemptor.start(preemption)
        self._observer.decided(decision, seconds=seconds, now=now)
        if self._node_requests is not None:
            self._node_requests.decided(decision, now)

    async def preempt(self, preemption: Preemption) -> None:
        """Evict within the cycle (gate SchedulerAsyncPreemption off, preemption.md 7.6)."""
        await self.preemptor.run(preemption)

    def unnominated(self, pods: Iterable[PodRecord]) -> None:
        """Clear nominations that ended without a decision."""
        for pod in pods:
            self.conditions.cleared(pod)

    def capacity_reserved(self, reservation: AdvanceReservation) -> None:
        """Write the nominations of a reservation that still apply, and report it (reservations.md 3)."""
        current = self._engine.reservations.by_ref.get(reservation.ref)
        if current is not reservation:
            return
        for pod, node in reservation.current_places(self._engine.cluster.nodes.row_of):
            self.conditions.nominated(pod, node)
        self._observer.capacity_reserved(reservation, now=self._now())

    def room_released(self, room: ReleasedReservation) -> None:
        """Report that capacity reserved for a preemptor was released unused (cost.md 5)."""
        self._observer.room_released(room, now=self._now())

    def capacity_kept(self, place: LostPlace) -> None:
        """Write the nomination of a replacement if it still applies, and report it (repair.md 2.3)."""
        keeper = place.keeper
        if place.replaced and keeper.nominated == place.row:
            self.conditions.nominated(keeper, place.node)
        elif not place.replaced:
            self._observer.capacity_kept(place, now=self._now())

    def satisfaction_changed(self, state: Satisfaction) -> None:
        """Write whether a gang has its minimum (repair.md 3), and that it was scheduled if that is not written yet.

        The latter was written with its decision, unless the scheduler ended after the bindings (observability.md 1.5).
        """
        group = self._engine.cluster.groups.get(state.group)
        is_bound = state.satisfied and group is not None and all(pod.bound for pod in group.running())
        if is_bound and group is not None and not self.conditions.is_disrupted(group.ref):
            self.conditions.group(GroupCondition(state.group, True, SCHEDULED, "", composite=False))
        self.conditions.satisfied.wish(state)

    def evict(self, eviction: DirectEviction) -> None:
        """Evict a degraded gang (repair.md 4), or backfilled work that runs too long (reservations.md 4.5)."""
        self._observer.evicts(eviction, now=self._now())
        self._evictions.start(eviction)

    def deferred_writes(self, instructions: Iterable[Instruction]) -> None:
        """Start writes outside of bindings. A failed one is not repeated: its caller requests it again."""
        for instruction in instructions:
            if isinstance(instruction, PatchObject):
                self._writes.patch_object(instruction).add_done_callback(self._deferred_write_done)
            elif isinstance(instruction, DeleteObject):
                self._writes.delete_object(instruction).add_done_callback(self._deferred_write_done)

    def _deferred_write_done(self, written: asyncio.Future[None]) -> None:
        error = None if written.cancelled() else written.exception()
        if error is not None:
            self._observer.trouble("write", str(error))

    def incidents(self, incidents: Iterable[PluginIncident]) -> None:
        """Report incidents in plugins to the log and the counters."""
        for incident in incidents:
            where = "extender" if incident.plugin == Extenders.name else "plugin"
            self._observer.trouble(where, f"{incident.text}\n{incident.detail}" if incident.detail else incident.text)

    def permitted(self, allowed: Iterable[Binding], refused: Iterable[Rejection]) -> None:
        """Act on the verdicts of Permit plugins about waiting pods."""
        for binding in allowed:
            self._observer.permitted(binding.pod, "Success", now=self._now())
            self.binder.start(binding)
        for rejection in refused:
            code = "Error" if rejection.reason == SCHEDULER_ERROR else "Unschedulable"
            self._observer.permitted(rejection.pod, code, now=self._now())
            self.conditions.rejected(rejection)
            self._observer.bind_failed(rejection.pod, "", rejection.message, now=self._now())

    def tick(self, now: float) -> Effects:
        """Handle work without events: long-gated pods, event series, what a killed scheduler left."""
        if not self._resumed:
            self._resumed = True
            self.preemptor.resume(self._engine.cluster)
            self._notify(self._engine.resume)
        effects = self._engine.give_up_gated(now, after=KEPT_BACK)
        self.conditions.waiting(self._engine, now)
        self._observer.tick(now)
        if self._node_requests is not None:
            self._node_requests.tick(now)
        return effects

    # -- outcomes of bindings (live.binding.BindingListener) ----------------------------------------

    def bound(self, binding: Binding) -> None:
        """Notify the engine of a bound pod."""
        self._notify(lambda _: self._engine.confirm_binding(binding.pod.uid))
        self._settled(binding.pod)
        self._observer.bound(binding.pod, binding.node, now=self._now())

    def failed(self, binding: Binding, error: str, *, pod_deleted: bool, taken_back: bool) -> None:
        """Notify the engine of a failed binding, and report it."""
        pod = binding.pod
        first = self._settled(pod)

        def report(now: float) -> Effects:
            effects = self._engine.fail_binding(pod.uid, now)
            group = self._engine.cluster.groups.get(pod.group) if first and pod.group is not None else None
            if group is not None and not taken_back and group.scheduled < group.min_count:
                self._not_scheduled_after_all(group, f"binding of pod {pod.key} failed: {error}")
            if not pod_deleted and not taken_back and pod.uid in self._engine.cluster.pods:
                self.conditions.rejected(Rejection(pod, SCHEDULER_ERROR, f"binding rejected: {error}"))
            return effects

        self._notify(report)
        if not taken_back and not pod_deleted:
            self._observer.bind_failed(pod, binding.node, f"binding rejected: {error}", now=self._now())

    def _not_scheduled_after_all(self, group: GroupState, cause: str) -> None:
        """Report that a gang, and composites above it, have fewer members than their minimum (composite.md 3.4)."""
        text = f"{cause}; {group.scheduled} of the {group.min_count} have a node"
        self.conditions.not_scheduled_after_all(group.ref, SCHEDULER_ERROR, text)
        if group.fault is not None:
            return
        below: Group = group
        trees = self._engine.cluster.trees
        while below.spec is not None and below.spec.parent is not None:
            above = trees.composites[below.spec.parent]
            if is_ready(above, lambda leaf: leaf.scheduled):
                return
            text = f"{cause}; groups in it have less than their minimum"
            self.conditions.not_scheduled_after_all(above.ref, SCHEDULER_ERROR, text)
            below = above

    def _settled(self, pod: PodRecord) -> bool:
        """Record the end of a binding; return whether the pod was in the first scheduling of its group."""
        first = self._first_bindings.get(pod.group, set()) if pod.group is not None else set()
        if pod.uid not in first:
            return False
        first.discard(pod.uid)
        if not first:
            self._first_bindings.pop(pod.group or "", None)
        return True

    async def _release(self, pod: PodRecord) -> bool:
        """Release the capacity of a victim that is only reserved, without an API call (preemption.md 7.2)."""
        assert self._loop is not None
        if not await self.binder.take_back(pod):
            return False
        self._notify(lambda now: self._engine.fail_binding(pod.uid, now))
        await self._loop.calls_made()
        return pod.row < 0

    def _preemption_failed(self, preemption: Preemption, error: str) -> None:
        """Clear the nominations of a failed preemption; conditions and events state why (observability.md 1.10)."""
        message = f"preemption failed: {error}"

        def report(now: float) -> Effects:
            effects = self._engine.fail_preemption(preemption.ref, now)
            pods = effects.unnominated_pods
            if not pods:
                return effects
            for pod in pods:
                self.conditions.rejected(Rejection(pod, SCHEDULER_ERROR, message))
            if preemption.group is not None:
                for group in preemption.group.below():
                    condition = GroupCondition(
                        group.key, False, SCHEDULER_ERROR, message, composite=group.kind != "PodGroup"
                    )
                    self.conditions.group(condition)
            self._observer.preemption_failed(preemption, pods, message, now=now)
            return effects

        self._notify(report)

    # -- changes from the API (live.event_handlers.ChangeListener) ---------------------------------------------

    def object_changed(self, change: Change[Any], resource: Resource) -> None:
        """Process a change that the engine already has."""
        item = change.object
        if self._bodies is not None:
            (self._bodies.gone if change.kind is ChangeKind.DELETED else self._bodies.seen)(item)
        if isinstance(item, o.Pod):
            if change.kind is ChangeKind.DELETED:
                self.conditions.forget_pod(item.metadata.uid)
            else:
                self.conditions.seen_pod(item)
        elif isinstance(item, (o.PodGroup, o.CompositePodGroup)):
            if self._node_requests is not None:
                self._node_requests.group_changed(item, deleted=change.kind is ChangeKind.DELETED)
            if change.kind is ChangeKind.DELETED:
                if isinstance(item, o.PodGroup):
                    self._first_bindings.pop(item.key, None)
                self.conditions.forget_group(ref_of(item))
            else:
                self.conditions.seen_group(item, resource)

    # -- internals --------------------------------------------------------------------------------------

    def _notify(self, listener: EngineCall) -> None:
        assert self._loop is not None
        self._loop.call_soon(listener)

    def _now(self) -> float:
        assert self._loop is not None
        return self._loop.time()
