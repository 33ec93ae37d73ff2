"""Why pods and groups are still pending at the end of a plan: the last record of each, and its hints."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from reprieve.decisions.attempts import ObjectName, RecordBuilder
from reprieve.decisions.hints import helps_of
from reprieve.decisions.outcomes import Help
from reprieve.decisions.records import DecisionRecord
from reprieve.scheduling.decision import Decision, Result
from reprieve.scheduling.engine import Engine

MOST_RECORDS: Final = 20_000


class WaitingRecords:
    """An observer of a plan that keeps the record of each entity's last rejection (`PlanObserver`)."""

    def __init__(self) -> None:
        self._builder: RecordBuilder | None = None
        self._last: OrderedDict[ObjectName, DecisionRecord] = OrderedDict()

    def attach(self, engine: Engine) -> None:
        """See `PlanObserver`."""
        self._builder = RecordBuilder(engine)

    def decided(self, decision: Decision, *, seconds: float, now: float) -> None:
        """See `PlanObserver`. Only what ended in a rejection is of interest."""
        if self._builder is None or decision.result is not Result.UNSCHEDULABLE or decision.preemption is not None:
            return
        record = self._builder.record(decision, seconds=seconds, now=now)
        if record is not None:
            name = (record.entity.kind, record.entity.namespace, record.entity.name)
            self._last[name] = record
            self._last.move_to_end(name)
            if len(self._last) > MOST_RECORDS:
                self._last.popitem(last=False)

    def of(self, kind: str, namespace: str, name: str) -> DecisionRecord | None:
        """Return the last record of a Pod or a PodGroup."""
        return self._last.get((kind, namespace, name))

    def hints(self, name: ObjectName) -> list[Help]:
        """Return what the last attempt of a Pod or a PodGroup says would help, untried."""
        record = self.of(*name)
        return helps_of(record, to_be_tried=True) if record is not None else []
