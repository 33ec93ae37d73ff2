"""The decisions of a shadow: assumed for a while, dropped if the cluster differs, never executed (shadow.md).

This is the listener of a shadow's scheduling loop.  The engine assumes its decisions in the cluster cache, as always.
Here every such assumption ends: it is confirmed when the API agrees, and dropped when the API has another state, or
after `hold` seconds.

So that both schedulers decide about the same state, pending entities are tried before a pod change that the acting
scheduler may have made is applied (`catch_up`).

Invariant: this module cannot write to the API.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kube_rules import objects as o
from reprieve.client.discovery import Resource
from reprieve.client.informer import Change, ChangeKind
from reprieve.cluster.evictions import EvictedUnit, EvictionHistory
from reprieve.cluster.pods import PodRecord, was_preempted
from reprieve.framework.instructions import Instruction
from reprieve.framework.plugin_guard import PluginIncident
from reprieve.live.loop import SchedulingLoop, blocks
from reprieve.live.shadow_ledger import ShadowLedger
from reprieve.observability.logs import DECISIONS
from reprieve.observability.observer import Observer
from reprieve.preemption.eviction_limits import evicted_unit
from reprieve.preemption.outcome import Preemption
from reprieve.preemption.units import PreemptionUnit, effective_priority
from reprieve.scheduling.advance_reservation import AdvanceReservation
from reprieve.scheduling.decision import Binding, Decision, Rejection
from reprieve.scheduling.effects import NO_EFFECTS, DirectEviction, Effects
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.gang_health import Satisfaction
from reprieve.scheduling.lost_place import LostPlace
from reprieve.scheduling.preemptor_reservations import ReleasedReservation

_BEFORE_THE_END = 1.0
"""How long before the engine's own reservation a plan to evict ends, in seconds."""


class ObservedEvictions(EvictionHistory):
    """Counts the evictions in the cluster for eviction limits, not decisions of the shadow."""

    def note(self, unit: EvictedUnit, now: float) -> None:
        """Ignore a decision: its victims continue to run."""

    def observe(self, unit: EvictedUnit, now: float) -> None:
        """Count an eviction that was made."""
        super().note(unit, now)


@dataclass(slots=True)
class _Assumption:
    """An assumption that the API has not confirmed: pods on nodes, or a plan to evict."""

    until: float
    pods: dict[str, str]
    """The nodes of the entity's pods, by UID."""


class ShadowDecisions:
    """The decisions of one shadow; see the module docstring. `attach` the loop before it runs."""

    def __init__(self, engine: Engine, observer: Observer, ledger: ShadowLedger, *, hold: float) -> None:
        self._engine = engine
        self._observer = observer
        self._ledger = ledger
        self._hold = hold
        self._loop: SchedulingLoop | None = None
        self._placed: dict[str, _Assumption] = {}
        self._plans: dict[str, _Assumption] = {}
        """By the key of the entity."""
        self._ends: list[tuple[float, str]] = []
        self._deleting: tuple[PodRecord, str] | None = None
        """A pending pod with a deletion that is being applied, and the key of its entity."""
        self._evictions = ObservedEvictions(engine.cluster.evictions.limits)
        engine.cluster.evictions = self._evictions
        self._may_block = blocks(engine)

    def attach(self, loop: SchedulingLoop) -> None:
        """Set the loop that runs the cycles."""
        self._loop = loop

    @property
    def assumed(self) -> int:
        """Return the number of entities with a placement or plan that the API has not confirmed."""
        return len(self._placed.keys() | self._plans.keys())

    # -- decisions (live.loop.DecisionListener) --------------------------------------------------------

    @property
    def bindings_under_way(self) -> int:
        """Return 0: no bindings are made."""
        return 0

    def decided(self, decision: Decision, *, seconds: float, now: float) -> None:
        """Record a decision, and until when it is assumed."""
        self._observer.decided(decision, seconds=seconds, now=now)
        self._ledger.decisions.add(seconds)
        bindings = (*decision.bindings, *decision.waiting)
        if bindings:
            self._ledger.placed([(binding.pod, binding.node) for binding in bindings], now)
            previous = self._placed.pop(decision.ref, None)
            pods = previous.pods if previous is not None else {}
            pods |= {binding.pod.uid: binding.node for binding in bindings}
            self._assume(self._placed, decision.ref, _Assumption(now + self._hold, pods))
            self._drop_plan(decision.ref, now)
        preemption = decision.preemption
        if preemption is not None and preemption.victims:
            victims = [pod for verdict in preemption.victims for pod in verdict.unit.pods]
            self._ledger.would_evict(preemption.nominations[0][0], victims, now)
            grace = max((pod.grace for pod in victims), default=0.0)
            until = now + grace + self._hold
            if decision.held_until is not None:
                until = min(until, decision.held_until - _BEFORE_THE_END)
            names = self._engine.cluster.nodes.names
            nodes = {pod.uid: names[row] for pod, row in preemption.nominations}
            self._assume(self._plans, decision.ref, _Assumption(until, nodes))
            # No calls are made for it, so none are awaited: the preemptor waits for its victims to terminate.
            self._keep(self._engine.finish_preemption(decision.ref, now))

    def _assume(self, assumptions: dict[str, _Assumption], key: str, assumption: _Assumption) -> None:
        assumptions[key] = assumption
        heapq.heappush(self._ends, (assumption.until, key))

    async def preempt(self, preemption: Preemption) -> None:
        """Evict nothing: `decided` has recorded the plan."""

    def unnominated(self, pods: Iterable[PodRecord]) -> None:
        """Write nothing."""

    def capacity_reserved(self, reservation: AdvanceReservation) -> None:
        """Record a reservation."""
        self._observer.capacity_reserved(reservation, now=self._now())

    def room_released(self, room: ReleasedReservation) -> None:
        """Record the end of a reservation."""
        self._observer.room_released(room, now=self._now())

    def capacity_kept(self, place: LostPlace) -> None:
        """Write nothing."""

    def satisfaction_changed(self, state: Satisfaction) -> None:
        """Write nothing."""

    def evict(self, eviction: DirectEviction) -> None:
        """Log the eviction of a degraded gang, or of work that runs too long, without making it."""
        text = f"Would evict {len(eviction.pods)} pods without a preemption: {eviction.message}"
        self._observer.log.info(text, v=DECISIONS, of=eviction.ref)

    def deferred_writes(self, instructions: Iterable[Instruction]) -> None:
        """Write nothing."""

    def permitted(self, allowed: Iterable[Binding], refused: Iterable[Rejection]) -> None:
        """Write nothing: the pods are assumed already, or are queued again."""

    def incidents(self, incidents: Iterable[PluginIncident]) -> None:
        """Report incidents in plugins to the log and the counters."""
        for incident in incidents:
            text = f"{incident.text}\n{incident.detail}" if incident.detail else incident.text
            self._observer.trouble("plugin", text)

    def tick(self, now: float) -> Effects:
        """End the assumptions that are due, and look for differences."""
        self._observer.tick(now)
        while self._ends and self._ends[0][0] <= now:
            until, key = heapq.heappop(self._ends)
            if key in self._placed and self._placed[key].until == until:
                self._drop_placed(key, now)
            if key in self._plans and self._plans[key].until == until:
                self._drop_plan(key, now)
        self._ledger.review(now)
        return NO_EFFECTS

    # -- the cluster (live.event_handlers) ----------------------------------------------------------------

    def catch_up(self, change: Change[Any], now: float) -> None:
        """Decide before a change of a pod by the acting scheduler is applied, then drop conflicting assumptions."""
        pod, before = change.object, change.old
        self._deleting = None
        if not isinstance(pod, o.Pod) or (change.kind is ChangeKind.ADDED and not pod.spec.node_name):
            return
        self._decide(now)
        record = self._engine.cluster.pods.get(pod.metadata.uid)
        if record is None:
            return
        key = self._engine.cluster.entity_ref(record)
        deleted = change.kind is ChangeKind.DELETED
        leaves = deleted or pod.terminating
        if record.bound:
            if leaves and not record.terminating and was_preempted(pod):
                self._note_eviction(record, now)
        elif deleted:
            self._deleting = (record, key)
        elif pod.spec.node_name:
            self._drop_plan(key, now)
            placed = self._placed.get(key)
            if placed is not None and placed.pods.get(record.uid) != pod.spec.node_name:
                self._drop_placed(key, now)
        elif isinstance(before, o.Pod) and before.status.nominated_node_name != pod.status.nominated_node_name:
            self._nominated(record, key, pod.status.nominated_node_name or "", now)

    def _nominated(self, pod: PodRecord, key: str, node: str, now: float) -> None:
        """Process a nomination of the acting scheduler: a conflicting plan of the shadow is dropped."""
        if not node or not self._is_ours(pod):
            return
        self._ledger.nominated(pod, node)
        plan = self._plans.get(key)
        if plan is not None and plan.pods.get(pod.uid) != node:
            self._drop_plan(key, now)

    def object_changed(self, change: Change[Any], resource: Resource) -> None:
        """Process an applied change: record placements of the acting scheduler, and deletions."""
        pod, before = change.object, change.old
        if not isinstance(pod, o.Pod):
            return
        now = self._now()
        if self._deleting is not None:
            (record, key), self._deleting = self._deleting, None
            for assumptions in (self._placed, self._plans):
                if key in assumptions:
                    assumptions[key].pods.pop(record.uid, None)
            self._ledger.gone(record, key, now)
            return
        stored = self._engine.cluster.pods.get(pod.metadata.uid)
        newly = isinstance(before, o.Pod) and not before.spec.node_name and bool(pod.spec.node_name)
        if stored is None or not newly or not self._is_ours(stored):
            return
        placed = self._placed.get(self._engine.cluster.entity_ref(stored))
        if placed is not None:
            placed.pods.pop(stored.uid, None)
        self._keep(self._engine.confirm_binding(stored.uid))
        self._ledger.bound(stored, pod.spec.node_name, now)

    def _note_eviction(self, pod: PodRecord, now: float) -> None:
        cluster = self._engine.cluster
        cluster.now = max(cluster.now, now)
        self._ledger.evicted(pod, now)
        unit = PreemptionUnit(
            pod.key, (pod,), (pod.row,), effective_priority(cluster, pod), pod.group is not None, None
        )
        self._evictions.observe(evicted_unit(cluster, unit), now)

    def _is_ours(self, pod: PodRecord) -> bool:
        return pod.scheduler_name in self._engine.running

    # -- assumptions ---------------------------------------------------------------------------------------

    def _decide(self, now: float) -> None:
        """Run cycles until no pod can be tried now; with plugins that may block the loop runs them later."""
        loop = self._loop
        if loop is None or self._may_block:
            return
        while True:
            began = time.perf_counter()
            effects = self._engine.step(now)
            loop.keep(effects)
            if effects.decision is None:
                return
            loop.cycles += 1
            self.decided(effects.decision, seconds=time.perf_counter() - began, now=now)

    def _drop_placed(self, key: str, now: float) -> None:
        """Drop the assumed placement of an entity's pods; they are queued again."""
        placed = self._placed.pop(key, None)
        for uid in placed.pods if placed is not None else ():
            self._keep(self._engine.fail_binding(uid, now))

    def _drop_plan(self, key: str, now: float) -> None:
        """Drop the plan to evict pods for an entity; it is tried again."""
        if self._plans.pop(key, None) is not None:
            self._keep(self._engine.fail_preemption(key, now))
            self._engine.queue.wake(key, now)

    def _keep(self, effects: Effects) -> None:
        if self._loop is not None:
            self._loop.keep(effects)

    def _now(self) -> float:
        assert self._loop is not None
        return self._loop.time()
