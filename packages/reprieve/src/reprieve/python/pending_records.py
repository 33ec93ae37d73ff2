"""Why pods and groups are still pending at the end of a plan: the last record of each, and its hints."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from msgspec.structs import replace

from reprieve.decisions.attempts import ObjectName, RecordBuilder, reservation_record
from reprieve.decisions.hints import helps_of
from reprieve.decisions.outcomes import Help
from reprieve.decisions.records import DecisionRecord
from reprieve.questions.move_suggestions import move_help
from reprieve.scheduling.decision import Decision, Result
from reprieve.scheduling.engine import Engine

MOST_RECORDS: Final = 20_000


class WaitingRecords:
    """An observer of a plan that stores the record of each entity's last rejection (`PlanObserver`)."""

    def __init__(self) -> None:
        self._builder: RecordBuilder | None = None
        self._engine: Engine | None = None
        self._keys: dict[ObjectName, str] = {}
        """The engine's key of each entity."""
        self._placed: set[str] = set()
        """UIDs of pods that were placed in the plan and do not run yet."""
        self._last: OrderedDict[ObjectName, DecisionRecord] = OrderedDict()

    def attach(self, engine: Engine) -> None:
        """Remember the engine; see `PlanObserver`."""
        self._engine, self._builder = engine, RecordBuilder(engine)

    def decided(self, decision: Decision, *, seconds: float, now: float) -> None:
        """Store the record of a rejection; see `PlanObserver`."""
        self._placed.update(binding.pod.uid for binding in decision.bindings)
        if self._builder is None or decision.result is not Result.UNSCHEDULABLE or decision.preemption is not None:
            return
        record = self._builder.record(decision, seconds=seconds, now=now)
        if record is not None:
            name = (record.entity.kind, record.entity.namespace, record.entity.name)
            self._last[name], self._keys[name] = record, decision.ref
            self._last.move_to_end(name)
            if len(self._last) > MOST_RECORDS:
                del self._keys[self._last.popitem(last=False)[0]]

    def of(self, kind: str, namespace: str, name: str) -> DecisionRecord | None:
        """Return the last record of a Pod or a PodGroup, with its reservation at the end."""
        record = self._last.get((kind, namespace, name))
        if record is None or self._engine is None:
            return record
        reservation = reservation_record(self._engine, self._keys[kind, namespace, name])
        return replace(record, reservation=reservation) if reservation != record.reservation else record

    def hints(self, name: ObjectName) -> list[Help]:
        """Return the untried suggestions of the last attempt of a Pod or a PodGroup, and possible moves."""
        record = self.of(*name)
        if record is None or self._engine is None:
            return []
        move = move_help(self._engine, self._keys[name], self._placed)
        return [*([move] if move is not None else []), *helps_of(record, to_be_tried=True)]
