"""Reservations for long-pending workloads: which get one, for how long, when they move (reservations.md 1, 3).

A reservation is a nomination of every member, so that pods of the same or a lower priority see the capacity as taken,
and a restart finds it in the API.  This module records which entities hold one, until when, and when the holder is
expected to start. Capacity freed by evictions, which is reserved for seconds, is in
`reprieve.scheduling.preemptor_reservations`.

`review` is called before every attempt and with every tick, and does nothing in most calls.

Invariants: a reservation's pods are pending and nominated to its nodes, otherwise it is computed again; what ended
because its time was over is not renewed before something has changed in the cluster.
"""

import heapq
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from kube_rules.durations import readable_duration
from reprieve.cluster.state import ClusterState
from reprieve.framework.plugin_guard import first_of
from reprieve.framework.profile import Profile
from reprieve.plugins.reservations import ReservationOptions, ReservationsPlugin
from reprieve.queueing.entity import Entity, QueueState
from reprieve.queueing.queue import SchedulingQueue
from reprieve.scheduling.advance_reservation import AdvanceReservation, Amounts
from reprieve.scheduling.decision import Decision, Result
from reprieve.scheduling.effects import EffectsInProgress
from reprieve.scheduling.expected_starts import NOWHERE, ExpectedStart, expected_start
from reprieve.scheduling.idle_amounts import IdleAmounts
from reprieve.scheduling.nominations import Nominations
from reprieve.scheduling.preemptor_reservations import Released
from reprieve.scheduling.running_profiles import RunningProfiles

OFF = ReservationOptions(reserve_after=0.0)
_PAUSE = 60.0
"""Seconds between two checks of a reservation, or of entities that wait for one; also the minimum gain of a move."""
_PAUSE_IF_LOST = 10.0
"""Seconds between two checks of a reservation that loses nominations, as many pods of a higher priority may take them.
"""
_GAIN = 0.1
"""The minimum gain of a move, as a share of the wait."""
_TRIED = 8
"""Number of entities checked for a reservation in one round, in the order of the queue. The next round continues, so
that entities that can hold none do not block the others.
"""
_FEWEST_KEPT = 256
_TOO_LONG = "too much capacity would be idle (maxIdleShare) if the pods there run for as long again as they have"


def reservation_options(profile: Profile) -> ReservationOptions:
    """Return the reservation options of a profile; without the plugin it never reserves."""
    plugin = first_of(ReservationsPlugin, profile.plugins)
    return plugin.options if plugin is not None else OFF


def _is_earlier(start: ExpectedStart, expected: float | None, in_the_way: int, now: float) -> bool:
    """Return whether a start is worth a move from the present expected start and number of pods to wait for."""
    if start.time is None:
        return expected is None and len(start.awaited_pods) < (1 - _GAIN) * in_the_way
    if expected is None:
        return True
    return start.time <= _worth_a_move(expected, now)


def _worth_a_move(expected: float, now: float) -> float:
    """Return the latest start that is worth a move of a holder that is expected to start then."""
    return expected - max(_PAUSE, _GAIN * (expected - now))


class AdvanceReservations:
    """See the module docstring. The first profile sets how many there may be, and how much may be idle."""

    def __init__(
        self,
        cluster: ClusterState,
        queue: SchedulingQueue,
        nominations: Nominations,
        running: RunningProfiles,
        effects: EffectsInProgress,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._nominations = nominations
        self._running = running
        self._effects = effects
        self._options = {name: reservation_options(profile.profile) for name, profile in running.items()}
        self._common = next(iter(self._options.values()))
        self.enabled = any(options.reserve_after for options in self._options.values())
        self.by_ref: dict[str, AdvanceReservation] = {}
        """By ref of the entity, in the order in which they were made."""
        self.changed = False
        """Reservations were made, moved or ended since `Backfill` set this to False."""
        self._due_times: dict[str, float] = {}
        """Time from which an entity that failed may hold one, by ref."""
        self._due_heap: list[tuple[float, str]] = []
        """These times as a heap; outdated entries are skipped."""
        self._size_limit = _FEWEST_KEPT
        """Size of the table at which deleted entities are removed from it."""
        self._candidates: dict[str, None] = {}
        """Entities that have been pending long enough."""
        self._ineligible: dict[str, None] = {}
        """Entities among them that can hold none, until all others have been checked."""
        self._checked_at = -math.inf, 0
        """Time when these were last checked, and the value of `SchedulingQueue.releases` at that time."""
        self._check_needed = False
        """Something else has changed for them since then."""
        self._releases_at_end: dict[str, int] = {}
        """The value of `SchedulingQueue.releases` when a reservation ended unused, by ref."""
        self._nomination_changes = -1
        """The number of changes of nominations when those of the reservations were last checked."""
        self.idle_amounts = IdleAmounts(cluster, self._common)

    # -- attempts --------------------------------------------------------------------------------------------------

    def record_attempt(self, entity: Entity, decision: Decision, now: float) -> Decision:
        """Record an attempt; return the decision, which keeps a reservation if the attempt failed."""
        ref = entity.ref
        if decision.result is Result.SCHEDULED or decision.preemption is not None:
            self._forget(ref)
            return decision
        if ref in self.by_ref:
            if decision.nominations:  # it waits for terminating pods, and their capacity is reserved for it
                self._forget(ref)
                return decision
            return replace(decision, cleared_nominations=())
        if ref not in self._due_times and decision.result is not Result.ERROR:
            options = self._options_of(entity)
            if options.reserve_after and len(entity.ready) >= options.min_pods:
                self._begin(entity, self._failed_first(entity, now) + options.reserve_after)
        self._check_needed = self._check_needed or ref in self._candidates
        if decision.cleared_nominations and self._due_times.get(ref, math.inf) <= now and self._continue(entity, now):
            return replace(decision, cleared_nominations=())
        return decision

    def _continue(self, entity: Entity, now: float) -> bool:
        """Take over nominations from before a restart, as the API has them, without releasing them in between."""
        if len(self.by_ref) >= self._common.max_reservations or self.idle_amounts.is_exhausted(now):
            return False
        self._cluster.now = max(self._cluster.now, now)
        for start in self._starts(entity, now, self._options_of(entity).max_reserved):
            if self._is_worth_it(entity, start, now):
                self._reserve(entity, start, now, now)
                return True
        return False

    def resume(self, now: float) -> None:
        """Try entities that hold reservations in the API before others get one (reservations.md 3.6)."""
        self._checked_at = now, self._queue.releases

    def _begin(self, entity: Entity, when: float) -> None:
        self._due_times[entity.ref] = when
        heapq.heappush(self._due_heap, (when, entity.ref))
        if len(self._due_heap) + len(self._due_times) > self._size_limit:
            for ref in [ref for ref in self._due_times if self._queue.get(ref) is None]:
                self._forget(ref)
            served = self._candidates.keys() | self.by_ref.keys()
            self._due_heap = [(due, ref) for ref, due in self._due_times.items() if ref not in served]
            heapq.heapify(self._due_heap)
            self._size_limit = max(_FEWEST_KEPT, 4 * len(self._due_times))

    def _failed_first(self, entity: Entity, now: float) -> float:
        """Return when its first attempt failed: now, or before a restart according to the conditions of its pods."""
        earlier = [pod.unschedulable_since for pod in entity.ready.values() if pod.unschedulable_since is not None]
        return min((now, *earlier))

    def margin_of(self, entity: Entity) -> float:
        """Return the share of its runtime by which backfilled work may run longer."""
        return self._options_of(entity).backfill_margin

    def evicts_overrun(self, profile: str) -> bool:
        """Return whether backfilled work is evicted when it runs longer than it stated."""
        return self._options.get(profile, self._common).evict_overrun

    def _options_of(self, entity: Entity) -> ReservationOptions:
        return self._options.get(entity.profile, self._common)

    # -- time ------------------------------------------------------------------------------------------------------

    def review(self, now: float) -> None:
        """End, move and make the reservations that are due."""
        if not self.by_ref and not self.idle_amounts.amounts:
            self._nominations.overtaken.clear()
            if not self._candidates and not (self._due_heap and self._due_heap[0][0] <= now):
                return
        self._cluster.now = max(self._cluster.now, now)
        self.idle_amounts.advance(now)
        for reservation in list(self.by_ref.values()):
            self._review(reservation, now)
        self._nominations.overtaken.clear()
        self._make(now)
        self._nomination_changes = self._cluster.nodes.nominations
        self.idle_amounts.measure(now, self.by_ref.values())
        self._bound_idle(now)

    def next_time(self) -> float | None:
        """Return when `review` is next due, if nothing else happens."""
        times = [entry[0] for entry in self._due_heap[:1]]
        for reservation in self.by_ref.values():
            entity = self._queue.get(reservation.ref)
            if entity is not None:
                times.append(reservation.created_at + self._options_of(entity).max_reserved)
                if reservation.nomination_lost:
                    times.append(reservation.reviewed_at + _PAUSE_IF_LOST)
                if reservation.releases != self._queue.releases or reservation.members != len(entity.ready):
                    times.append(reservation.reviewed_at + _PAUSE)
                if reservation.expected_start is not None:
                    times.append(max(reservation.expected_start, reservation.reviewed_at) + _PAUSE)
        if self._may_make():
            times.append(self._checked_at[0] + _PAUSE)
        bound = self.idle_amounts.next_time()
        if bound is not None and self.by_ref:
            times.append(bound)
        return min(times, default=None)

    def _may_make(self) -> bool:
        """Return whether others may get a reservation now, and something has changed since they were checked."""
        room = self._candidates and len(self.by_ref) < self._common.max_reservations
        return bool(room) and (self._check_needed or self._checked_at[1] != self._queue.releases)

    def _review(self, own: AdvanceReservation, now: float) -> None:
        entity = self._queue.get(own.ref)
        if entity is None or not entity.ready:
            self._forget(own.ref)
            return
        options = self._options_of(entity)
        left = own.created_at + options.max_reserved - now
        if left <= 0:
            self._end(own, entity, now, f"it was reserved for {readable_duration(options.max_reserved)} and not used")
            return
        if entity.state is QueueState.GATED or entity.priority != own.priority:
            self._end(own, entity, now, "the pods or their group have changed")
            return
        own.nomination_lost = (
            own.nomination_lost
            or own.ref in self._nominations.overtaken
            or (self._nomination_changes != self._cluster.nodes.nominations and self._has_lost_nomination(own))
        )
        other_members = len(entity.ready) != own.members
        late = own.expected_start is not None and now > own.expected_start
        stale = own.nomination_lost or late or other_members or own.releases != self._queue.releases
        if not stale or now < own.reviewed_at + (_PAUSE_IF_LOST if own.nomination_lost else _PAUSE):
            return
        own.reviewed_at, own.releases = now, self._queue.releases
        if own.expected_start is None and self.idle_amounts.is_too_long(
            now, own.rows, own.amounts, own.waits_for, entity.timestamp
        ):
            self._end(own, entity, now, _TOO_LONG)
            return
        if other_members and not own.nomination_lost:
            start = next(iter(self._starts(entity, now, left)), None)
        else:
            start = self._start_of(entity, now, left)
        if start is None:
            self._end(own, entity, now, "it does not fit there any more")
        elif (
            own.nomination_lost
            or late
            or other_members
            or _is_earlier(start, own.expected_start, len(own.waits_for), now)
        ):
            self._reserve(entity, start, own.created_at, now)

    def _start_of(
        self,
        entity: Entity,
        now: float,
        longest: float,
        nominated: Mapping[str, int] = NOWHERE,
        *,
        ends_known: bool = False,
    ) -> ExpectedStart | None:
        running = self._running.of(next(iter(entity.ready.values())))
        yielding = [pod for behind in self._replaceable(entity) for pod, _ in behind.pods]
        search = partial(expected_start, running, entity, now, longest, ends_known=ends_known)
        start = search(yielding, nominated)
        ends_only = start is not None and start.time is not None and start.awaited_pods
        return search((), nominated) if ends_only and yielding else start

    def _starts(self, entity: Entity, now: float, longest: float) -> list[ExpectedStart]:
        """Return where an entity can start if its nominated members stay, unless that is much later, and anywhere."""
        nominated = {pod.uid: pod.nominated for pod in entity.ready.values() if pod.nominated >= 0}
        staying = self._start_of(entity, now, longest, nominated)
        if staying is None or staying.time is None:
            anew = self._start_of(entity, now, longest)
        else:  # a later start changes nothing, and the search for it takes ten times as long
            anew = self._start_of(entity, now, _worth_a_move(staying.time, now) - now, ends_known=True)
        if anew is not None and staying is not None and _is_earlier(anew, staying.time, len(staying.awaited_pods), now):
            staying = None
        return [start for start in (staying, anew) if start is not None]

    def _replaceable(self, entity: Entity) -> list[AdvanceReservation]:
        """Return the reservations that an entity replaces: of entities behind it, without an expected start."""
        turn = self._queue.order(entity)
        return [
            reservation
            for reservation in self.by_ref.values()
            if reservation.expected_start is None
            and reservation.priority <= entity.priority
            and (holder := self._queue.get(reservation.ref)) is not None
            and self._queue.order(holder) > turn
        ]

    def _has_lost_nomination(self, reservation: AdvanceReservation) -> bool:
        """Return whether a member is not nominated to its reserved node, because it was deleted or taken."""
        return len(reservation.current_places(self._cluster.nodes.row_of)) < len(reservation.pods)

    # -- making and ending -----------------------------------------------------------------------------------------

    def _make(self, now: float) -> None:
        """Make reservations for entities that have been pending long enough, in the order of the queue."""
        while self._due_heap and self._due_heap[0][0] <= now:
            when, ref = heapq.heappop(self._due_heap)
            if self._due_times.get(ref) == when and ref not in self.by_ref:
                self._candidates[ref] = None
                self._check_needed = True
        if not self._may_make() or now < self._checked_at[0] + _PAUSE:
            return
        self._checked_at, self._check_needed = (now, self._queue.releases), False
        if self.idle_amounts.is_exhausted(now):
            return
        pending = [entity for ref in self._candidates if (entity := self._queue.get(ref)) is not None]
        for ref in self._candidates.keys() - {entity.ref for entity in pending}:
            self._forget(ref)
        freed = self._queue.releases
        ready = (
            entity
            for entity in pending
            if entity.state is QueueState.UNSCHEDULABLE
            and entity.ready
            and self._releases_at_end.get(entity.ref) != freed
            and entity.ref not in self._ineligible
        )
        turns = heapq.nsmallest(_TRIED + 1, ready, key=self._queue.order)
        for entity in turns[:_TRIED]:
            if len(self.by_ref) >= self._common.max_reservations:
                break
            start = self._start_of(entity, now, self._options_of(entity).max_reserved)
            if start is not None and self._is_worth_it(entity, start, now):
                self._reserve(entity, start, now, now)
            else:
                self._ineligible[entity.ref] = None
        if len(turns) > _TRIED:
            self._check_needed = True
        else:
            self._ineligible.clear()

    def _is_worth_it(self, entity: Entity, start: ExpectedStart, now: float) -> bool:
        """Return whether an entity should get a reservation; an entity that fits now needs none."""
        if start.time is None:
            return not self.idle_amounts.is_too_long(
                now, *self._amounts_of(start), start.awaited_pods, entity.timestamp
            )
        return bool(start.awaited_pods or self._replaceable(entity))

    def _amounts_of(self, start: ExpectedStart) -> tuple[Amounts, Amounts]:
        """Return the rows of the places, and the amounts on each: `int64[rows]`, `int64[columns, rows]`."""
        rows: dict[int, Amounts] = {}
        for pod, row in start.places:
            amounts = rows.setdefault(row, np.zeros(len(self._cluster.nodes.used), dtype=np.int64))
            amounts[: len(pod.signature.delta)] += pod.signature.delta
        return np.array(list(rows), dtype=np.int64), np.array(list(rows.values()), dtype=np.int64).T

    def _reserve(self, entity: Entity, start: ExpectedStart, since: float, now: float) -> None:
        names = self._cluster.nodes.names
        rows, amounts = self._amounts_of(start)
        reservation = AdvanceReservation(
            ref=entity.ref,
            group=entity.group,
            pods=tuple((pod, names[row]) for pod, row in start.places),
            priority=entity.priority,
            created_at=since,
            expected_start=start.time,
            awaited_pods=start.awaited_pods,
            rows=rows,
            amounts=amounts,
            members=len(entity.ready),
            reviewed_at=now,
            unchanged=entity.attempts <= 1 and all(pod.nominated == row for pod, row in start.places),
        )
        reservation.releases = self._queue.releases
        self._nominations.reserve(entity.ref, start.places, entity.priority, now)
        self._queue.releases = reservation.releases  # the capacity that it was moved from was free before, but reserved
        self._check_needed = True
        self.by_ref[entity.ref] = reservation
        for table in (self._candidates, self._releases_at_end):
            table.pop(entity.ref, None)
        self.changed = True
        self._effects.reservations.append(reservation)
        if not start.awaited_pods:
            self._queue.wake(entity.ref, now)
        self._make_way(entity, reservation, now)

    def _make_way(self, entity: Entity, new: AdvanceReservation, now: float) -> None:
        """Compute the reservations behind an entity again on nodes that it has taken (reservations.md 3.7)."""
        for behind in self._replaceable(entity):
            reservation, holder = self.by_ref.get(behind.ref), self._queue.get(behind.ref)
            if reservation is None or holder is None or np.intersect1d(reservation.rows, new.rows).size == 0:
                continue
            start = self._start_of(holder, now, reservation.created_at + self._options_of(holder).max_reserved - now)
            if start is None:
                self._end(reservation, holder, now, "it does not fit there any more")
            else:
                self._reserve(holder, start, reservation.created_at, now)

    def _end(self, reservation: AdvanceReservation, entity: Entity, now: float, why: str) -> None:
        """Release the capacity; the holder waits the full time again until it may hold another reservation."""
        self._forget(reservation.ref)
        freed = self._queue.releases
        self._nominations.give_up([pod for pod, _ in reservation.pods], now, Released.NOT_USED, why)
        self._queue.releases = freed  # it was free before, but reserved
        self._check_needed = True
        self._releases_at_end[reservation.ref] = freed
        self._begin(entity, now + self._options_of(entity).reserve_after)

    def _forget(self, ref: str) -> None:
        """Forget the entity, its reservation and its time."""
        if self.by_ref.pop(ref, None) is not None:
            self.changed = True
        for table in (self._due_times, self._candidates, self._releases_at_end, self._ineligible):
            table.pop(ref, None)

    def _bound_idle(self, now: float) -> None:
        """End the youngest reservation when too much has been idle for reservations (reservations.md 5)."""
        if not self.by_ref or not self.idle_amounts.is_exhausted(now):
            return
        with_idle = [r for r in self.by_ref.values() if self.idle_amounts.share_of(r.rows, r.amounts)]
        if not with_idle:
            return
        youngest = max(with_idle, key=lambda r: r.created_at)
        entity = self._queue.get(youngest.ref)
        if entity is not None:
            share = f"{100 * self._common.max_idle_share:g} %"
            self._end(youngest, entity, now, f"more than {share} of the cluster was idle for reservations")
        self.idle_amounts.measure(now, self.by_ref.values())
