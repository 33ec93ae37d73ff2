"""Turns decisions into decision records and passes them to their store.

Called once per attempt on the scheduling loop, directly after the decision, while the cluster cache is still in the
state of the decision.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from kube_rules.durations import micro_time
from reprieve.decisions.attempts import RecordBuilder, involved_names, reservation_record
from reprieve.decisions.records import (
    MOST_NAMES,
    MOST_RELEASED,
    CostRecord,
    DecisionRecord,
    PreemptionRecord,
    ReleaseRecord,
)
from reprieve.preemption.lost_work import EvictedPods
from reprieve.preemption.outcome import Preemption
from reprieve.scheduling.advance_reservation import AdvanceReservation
from reprieve.scheduling.decision import Decision
from reprieve.scheduling.effects import DirectEviction
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.preemptor_reservations import ReleasedReservation

if TYPE_CHECKING:  # the store imports sqlite3
    from reprieve.decisions.attempts import ObjectName
    from reprieve.observability.store import RecordStore

_MOST_ENTITIES: Final = 10_000
_MOST_UNDER_WAY: Final = 64


@dataclass(slots=True)
class _LatestRecord:
    """The last record of an entity, which a repeated attempt or the end of its preemption updates."""

    record: DecisionRecord
    involved: tuple[ObjectName, ...]
    first: float


class RecordKeeper:
    """Creates records and stores them; see the module docstring."""

    def __init__(self, store: RecordStore) -> None:
        self.store = store
        self.preempted: Callable[[Engine, float], None] = lambda engine, now: None
        """Called after a decision to preempt, while the cluster cache is still in the state of the decision."""
        self._engine: Engine | None = None
        self._builder: RecordBuilder | None = None
        self._latest: OrderedDict[str, _LatestRecord] = OrderedDict()
        """The last rejection by entity."""
        self._preempting: OrderedDict[str, _LatestRecord] = OrderedDict()
        """Preemptions that have not ended. These records are large and are kept no longer than needed."""
        self._held: OrderedDict[str, _LatestRecord] = OrderedDict()
        """The latest preemptions with reserved capacity that may still be released."""
        self._evicting: OrderedDict[str, _LatestRecord] = OrderedDict()
        """Evictions without a preemption that have not ended, by `ref`."""

    def attach(self, engine: Engine) -> None:
        """Record the decisions of this engine."""
        self._engine, self._builder = engine, RecordBuilder(engine)

    def latest(self, key: str) -> DecisionRecord | None:
        """Return the newest record in memory of an entity, by its key in the queue."""
        latest = self._latest.get(key) or self._held.get(key)
        return latest.record if latest is not None else None

    def decided(self, decision: Decision, *, seconds: float, now: float) -> None:
        """Record an attempt that ended in a rejection or a preemption."""
        engine, builder, preemption = self._engine, self._builder, decision.preemption
        if engine is None or builder is None:
            return
        record = builder.record(decision, seconds=seconds, now=now)
        if record is None:
            return
        involved = involved_names(engine.cluster, record.entity, preemption)
        before = self._latest.pop(decision.ref, None)
        first = now
        if before is not None and _same(before.record, record):
            first, earlier = before.first, before.record
            record = replace(record, id=earlier.id, repeated=earlier.repeated + 1, first_time=micro_time(first))
        else:
            record = replace(record, id=self.store.next_id())
        latest = _LatestRecord(record, involved, first)
        if preemption is None:
            _keep(self._latest, decision.ref, latest, _MOST_ENTITIES)
        else:
            _keep(self._preempting, decision.ref, latest, _MOST_UNDER_WAY)
            _keep(self._held, decision.ref, latest, _MOST_UNDER_WAY)
            self.preempted(engine, now)
        self.store.put(record, involved)

    def preemption_ended(
        self, preemption: Preemption, *, seconds: float, error: str | None, evicted: EvictedPods
    ) -> None:
        """Record that the API calls of a preemption were made, or that one failed: then only evicted pods count."""
        latest = self._preempting.pop(preemption.ref, None)
        if latest is None or latest.record.preemption is None:
            return
        result = replace(latest.record.preemption, state="Done", seconds=seconds)
        if error is not None:
            result = _failed(result, preemption, evicted, error)
        self._put(latest, result)

    def evicted(self, eviction: DirectEviction, *, now: float) -> None:
        """Record an eviction without a preemption. Retries after a failed call belong to the same record."""
        engine, builder, before = self._engine, self._builder, self._evicting.get(eviction.ref)
        names = {("Pod", pod.namespace, pod.name) for pod in eviction.pods}
        if engine is None or builder is None or (before is not None and names.issubset(before.involved)):
            return
        record, involved = builder.evicted(eviction, now)
        latest = _LatestRecord(replace(record, id=self.store.next_id()), involved, now)
        _keep(self._evicting, eviction.ref, latest, _MOST_UNDER_WAY)
        self.preempted(engine, now)
        self.store.put(latest.record, involved)

    def eviction_ended(self, eviction: DirectEviction) -> None:
        """Record that all API calls of an eviction without a preemption were made."""
        latest = self._evicting.pop(eviction.ref, None)
        if latest is not None and latest.record.preemption is not None:
            self._put(latest, replace(latest.record.preemption, state="Done"))

    def capacity_reserved(self, reservation: AdvanceReservation) -> None:
        """Record in the last attempt that capacity is reserved, if its record is still in memory."""
        latest = self._latest.get(reservation.ref)
        if latest is None or self._engine is None:
            return
        latest.record = replace(latest.record, reservation=reservation_record(self._engine, reservation.ref))
        self.store.put(latest.record, latest.involved)

    def room_released(self, room: ReleasedReservation) -> None:
        """Record in a preemption that its capacity was released unused, if its record is still in memory."""
        rejected = self._latest.get(room.ref)
        if rejected is not None and rejected.record.reservation is not None and self._engine is not None:
            reservation = reservation_record(self._engine, room.ref)
            rejected.record = replace(rejected.record, reservation=reservation)
            self.store.put(rejected.record, rejected.involved)
        latest = self._held.get(room.ref)
        if latest is None or latest.record.preemption is None:
            return
        preemption = latest.record.preemption
        released = ReleaseRecord(
            time=micro_time(room.released_at),
            reason=room.reason.value,
            message=room.message,
            nodes=tuple(room.nodes[:MOST_NAMES]),
            nodes_total=len(room.nodes),
            pods=len(room.pods),
        )
        self._put(latest, replace(preemption, released=(*preemption.released[1 - MOST_RELEASED :], released)))

    def _put(self, latest: _LatestRecord, preemption: PreemptionRecord) -> None:
        latest.record = replace(latest.record, preemption=preemption)
        self.store.put(latest.record, latest.involved)


def _keep(records: OrderedDict[str, _LatestRecord], key: str, latest: _LatestRecord, most: int) -> None:
    records[key] = latest
    records.move_to_end(key)
    while len(records) > most:
        records.popitem(last=False)


def _failed(record: PreemptionRecord, preemption: Preemption, evicted: EvictedPods, error: str) -> PreemptionRecord:
    """Return the record of a failed preemption: its cost covers the evicted pods only, and no capacity is reserved."""
    evicted_counts = [sum(1 for pod in verdict.unit.pods if pod.uid in evicted.uids) for verdict in preemption.victims]
    units = tuple(
        replace(unit, outcome="Evicted" if pods else "NotEvicted")
        for unit, pods in zip(record.evicted, evicted_counts, strict=True)
    )
    counted = [unit for unit in units if unit.outcome == "Evicted"]
    cost = CostRecord(
        units=len(counted),
        pods=sum(evicted_counts),
        highest_priority=max((unit.priority for unit in counted), default=0),
        pdb_violations=sum(1 for unit in counted if unit.violates_pdb),
        running_seconds_lost=evicted.running_seconds,
        lost_gpu_hours=round(evicted.gpu / 3600, 3),
        lost_cpu_hours=round(evicted.cpu / 3600, 3),
    )
    return replace(
        record,
        state="Failed",
        error=error,
        evicted=units,
        cost=cost,
        cost_notes=(),
        told=(),
        cascade=(),
        avoided=None,
        held_until="",
    )


def _same(first: DecisionRecord, second: DecisionRecord) -> bool:
    return (
        first.preemption is None
        and second.preemption is None
        and first.entity == second.entity
        and (first.result, first.message) == (second.result, second.message)
    )
