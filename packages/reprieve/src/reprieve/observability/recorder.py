"""Decisions become decision records, and records get to their store.

Called once per attempt on the scheduling loop, right after the decision, while the cluster cache is still the one that
was decided on.
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
    """The last record of an entity: what a repetition or the end of its preemption changes."""

    record: DecisionRecord
    involved: tuple[ObjectName, ...]
    first: float


class RecordKeeper:
    """Makes records and puts them into a store; see the module docstring."""

    def __init__(self, store: RecordStore) -> None:
        self.store = store
        self.preempted: Callable[[Engine, float], None] = lambda engine, now: None
        """Called after a decision to preempt, while the cluster cache is still the one that was decided on."""
        self._engine: Engine | None = None
        self._builder: RecordBuilder | None = None
        self._latest: OrderedDict[str, _LatestRecord] = OrderedDict()
        """The last rejection by entity."""
        self._preempting: OrderedDict[str, _LatestRecord] = OrderedDict()
        """Preemptions that have not ended: these records are large, and kept no longer than needed."""
        self._held: OrderedDict[str, _LatestRecord] = OrderedDict()
        """The latest preemptions with reserved capacity that may still be released."""
        self._evicting: OrderedDict[str, _LatestRecord] = OrderedDict()
        """Evictions without a preemption that have not ended, by `ref`."""

    def attach(self, engine: Engine) -> None:
        """Record the decisions of that engine."""
        self._engine, self._builder = engine, RecordBuilder(engine)

    def latest(self, key: str) -> DecisionRecord | None:
        """Return the newest record of an entity that is at hand, by its key in the queue."""
        found = self._latest.get(key) or self._held.get(key)
        return found.record if found is not None else None

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
        """Note that the API calls of a preemption were made, or that one failed: then only what was evicted counts."""
        latest = self._preempting.pop(preemption.ref, None)
        if latest is None or latest.record.preemption is None:
            return
        made = replace(latest.record.preemption, state="Done", seconds=seconds)
        if error is not None:
            made = _failed(made, preemption, evicted, error)
        self._put(latest, made)

    def evicted(self, eviction: DirectEviction, *, now: float) -> None:
        """Record an eviction that no preemption makes. If a call failed and it is tried again, it is the same."""
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
        """Note that every API call of such an eviction was made."""
        latest = self._evicting.pop(eviction.ref, None)
        if latest is not None and latest.record.preemption is not None:
            self._put(latest, replace(latest.record.preemption, state="Done"))

    def capacity_reserved(self, reservation: AdvanceReservation) -> None:
        """Note in the record of the last attempt that capacity is reserved, while that record is at hand."""
        latest = self._latest.get(reservation.ref)
        if latest is None or self._engine is None:
            return
        latest.record = replace(latest.record, reservation=reservation_record(self._engine, reservation.ref))
        self.store.put(latest.record, latest.involved)

    def room_released(self, room: ReleasedReservation) -> None:
        """Note in the record of a preemption that its capacity was released unused, while that record is at hand."""
        rejected = self._latest.get(room.ref)
        if rejected is not None and rejected.record.reservation is not None and self._engine is not None:
            held = reservation_record(self._engine, room.ref)
            rejected.record = replace(rejected.record, reservation=held)
            self.store.put(rejected.record, rejected.involved)
        latest = self._held.get(room.ref)
        if latest is None or latest.record.preemption is None:
            return
        made = latest.record.preemption
        released = ReleaseRecord(
            time=micro_time(room.at),
            reason=room.reason.value,
            message=room.message,
            nodes=tuple(room.nodes[:MOST_NAMES]),
            nodes_total=len(room.nodes),
            pods=len(room.pods),
        )
        self._put(latest, replace(made, released=(*made.released[1 - MOST_RELEASED :], released)))

    def _put(self, latest: _LatestRecord, made: PreemptionRecord) -> None:
        latest.record = replace(latest.record, preemption=made)
        self.store.put(latest.record, latest.involved)


def _keep(records: OrderedDict[str, _LatestRecord], key: str, latest: _LatestRecord, most: int) -> None:
    records[key] = latest
    records.move_to_end(key)
    while len(records) > most:
        records.popitem(last=False)


def _failed(made: PreemptionRecord, preemption: Preemption, evicted: EvictedPods, error: str) -> PreemptionRecord:
    """Return the record of a preemption that failed: it costs what it has evicted, and no capacity is reserved."""
    gone = [sum(1 for pod in verdict.unit.pods if pod.uid in evicted.uids) for verdict in preemption.victims]
    units = tuple(
        replace(unit, outcome="Evicted" if pods else "NotEvicted")
        for unit, pods in zip(made.evicted, gone, strict=True)
    )
    counted = [unit for unit in units if unit.outcome == "Evicted"]
    cost = CostRecord(
        units=len(counted),
        pods=sum(gone),
        highest_priority=max((unit.priority for unit in counted), default=0),
        pdb_violations=sum(1 for unit in counted if unit.violates_pdb),
        running_seconds_lost=evicted.running_seconds,
        lost_gpu_hours=round(evicted.gpu / 3600, 3),
        lost_cpu_hours=round(evicted.cpu / 3600, 3),
    )
    return replace(
        made,
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


def _same(one: DecisionRecord, other: DecisionRecord) -> bool:
    return (
        one.preemption is None
        and other.preemption is None
        and one.entity == other.entity
        and (one.result, one.message) == (other.result, other.message)
    )
