"""Backfill: work that ends in time uses capacity that is reserved for a later start (reservations.md 4).

An entity is tried in the ordinary way first. If it fails and its pods state how long they run, it is tried again
without the nominations of reservations that begin after its end. No pods are evicted for it.

Invariant: nominations are as before; work that states no end, or ends too late, never gets reserved capacity.
"""

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from kube_rules.durations import readable_time
from kube_rules.work_annotations import BACKFILLED_UNTIL, moment
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.resources import FIRST_RESOURCE
from reprieve.cluster.state import ClusterState
from reprieve.preemption.deferred_preemption import stated_end
from reprieve.queueing.entity import Entity, QueueState
from reprieve.queueing.queue import SchedulingQueue
from reprieve.scheduling.advance_reservation import AdvanceReservation
from reprieve.scheduling.advance_reservations import AdvanceReservations
from reprieve.scheduling.decision import Decision, Result
from reprieve.scheduling.group_cycle import group_without_help
from reprieve.scheduling.overruns import Overruns
from reprieve.scheduling.pod_cycle import pod_without_help
from reprieve.scheduling.running_profiles import RunningProfiles

_TRIED = 64
"""Number of entities that are woken at a time, in the order of the queue."""


class Backfill:
    """See the module docstring."""

    def __init__(
        self,
        cluster: ClusterState,
        queue: SchedulingQueue,
        reservations: AdvanceReservations,
        running: RunningProfiles,
        overruns: Overruns,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._reservations = reservations
        self._running = running
        self._overruns = overruns

    def replace(self, entity: Entity, decision: Decision, now: float) -> Decision:
        """Return the decision, or the one by which the entity uses reserved capacity."""
        if decision.result not in (Result.UNSCHEDULABLE, Result.WAITING):
            return decision
        own = self._reservations.by_ref.get(entity.ref)
        if own is not None:
            alternative = self._on_its_places(entity, own)
            if alternative is not None:
                return alternative
        lifted = self._later_reservations(entity, now)
        alternative = self._decide_without(lifted, entity) if lifted else None
        if alternative is None:
            return decision
        return self._record(alternative, entity, now)

    def _record(self, decision: Decision, entity: Entity, now: float) -> Decision:
        """Record pods that use reserved capacity, and until when; annotations preserve it over a restart."""
        pods = [binding.pod for binding in decision.bindings]
        end = self.end_of(pods, now, self._reservations.margin_of(entity)) if pods else None
        if end is None:
            return decision
        if self._reservations.evicts_overrun(entity.profile):
            self._overruns.record(pods, end)
        until = {BACKFILLED_UNTIL: readable_time(math.ceil(end))}
        return replace(decision, bindings=tuple(replace(binding, annotations=until) for binding in decision.bindings))

    def resume(self) -> None:
        """Take over the backfilled pods of an earlier scheduler; their annotations have the end."""
        for pod in self._cluster.pods.values():
            text = pod.annotations.get(BACKFILLED_UNTIL)
            if text is not None and pod.row >= 0 and self._reservations.evicts_overrun(pod.scheduler_name):
                with suppress(ValueError):  # set by another client: nothing is known about the pod
                    self._overruns.record([pod], moment(text))

    def _on_its_places(self, entity: Entity, own: AdvanceReservation) -> Decision | None:
        """Place a holder on its reserved capacity, even if that is reserved for others from a later time on."""
        rows = set(own.rows.tolist())
        beside = [r for r in self._reservations.by_ref.values() if _is_later(r, own) and not rows.isdisjoint(r.rows)]
        decision = self._decide_without(beside, entity) if beside else None
        if decision is None:
            return None
        wanted = Counter(node for _, node in own.pods)
        return decision if not Counter(binding.node for binding in decision.bindings) - wanted else None

    def _decide_without(self, lifted: Sequence[AdvanceReservation], entity: Entity) -> Decision | None:
        """Decide for an entity without these reservations; None if it does not fit."""
        pods = list(entity.ready.values())
        running = self._running.of(pods[0])
        with self._cluster.trial():
            for reservation in lifted:
                for pod, _ in reservation.pods:
                    self._cluster.clear_nomination(pod)
            if entity.group is None:
                return pod_without_help(running, entity.ref, pods[0])
            return group_without_help(running, entity.ref, entity.group, pods)

    def wake(self, now: float) -> None:
        """Wake entities for capacity that is now reserved from another time; events of freed capacity wake others."""
        reservations = self._reservations
        if not reservations.by_ref or not reservations.changed:
            return
        reservations.changed = False
        if all(reservation.expected_start is None for reservation in reservations.by_ref.values()):
            return
        rows = np.unique(np.concatenate([reservation.rows for reservation in reservations.by_ref.values()]))
        nodes = self._cluster.nodes
        free = nodes.allocatable[:, rows] - nodes.used[:, rows]
        fits: dict[int, bool] = {}

        def may_fit(pod: PodRecord) -> bool:
            signature = pod.signature
            if signature.id not in fits:
                delta = signature.delta[FIRST_RESOURCE:]
                columns = np.flatnonzero(delta)
                fits[signature.id] = bool((free[FIRST_RESOURCE:][columns] >= delta[columns][:, None]).all(axis=0).any())
            return fits[signature.id]

        waiting = (
            entity
            for entity in self._queue.entities()
            if entity.state is QueueState.UNSCHEDULABLE
            and entity.ready
            and may_fit(next(iter(entity.ready.values())))
            and self._later_reservations(entity, now)
        )
        for entity in heapq.nsmallest(_TRIED, waiting, key=self._queue.order):
            self._queue.wake(entity.ref, now)

    def _later_reservations(self, entity: Entity, now: float) -> list[AdvanceReservation]:
        """Return other reservations, of the same or a higher priority, that begin after the entity's end."""
        reservations = self._reservations.by_ref
        if not reservations:
            return []
        end = self.end_of(entity.ready.values(), now, self._reservations.margin_of(entity))
        if end is None:
            return []
        return [
            r
            for r in reservations.values()
            if r.ref != entity.ref
            and r.priority >= entity.priority
            and r.expected_start is not None
            and end <= r.expected_start
        ]

    def end_of(self, pods: Iterable[PodRecord], now: float, margin: float) -> float | None:
        """Return when pods that start now will have ended, with the margin; None if one of them states no end."""
        ends = [stated_end(self._cluster, pod, now) for pod in pods]
        future = [end for end in ends if end is not None and end > now]
        return max(future) + margin * (max(future) - now) if future and len(future) == len(ends) else None


def _is_later(reservation: AdvanceReservation, base: AdvanceReservation) -> bool:
    """Return whether a reservation has a later start than the other, or the same start and was made later."""
    return reservation is not base and _turn(reservation) >= _turn(base)


def _turn(reservation: AdvanceReservation) -> tuple[float, float, str]:
    return (
        reservation.expected_start if reservation.expected_start is not None else float("inf"),
        reservation.created_at,
        reservation.ref,
    )
