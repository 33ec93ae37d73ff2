"""Why those wait who still wait at the end of a plan: the last record of each, and what it says would help."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from reprieve.observability.recording import RecordKeeper
from reprieve.observability.records import DecisionRecord
from reprieve.python.hints import helps_of
from reprieve.scheduling.decision import Decision, Result
from reprieve.scheduling.engine import Engine
from reprieve.simulation.report import Help

if TYPE_CHECKING:
    from reprieve.observability.store import Name

MOST_RECORDS: Final = 20_000


class WaitingRecords:
    """An observer of a plan that keeps the last rejection of everybody (`plan.Observer`), as a store of records."""

    def __init__(self) -> None:
        self._keeper = RecordKeeper(self)
        self._last: OrderedDict[Name, DecisionRecord] = OrderedDict()

    def attach(self, engine: Engine) -> None:
        """See `Observer`."""
        self._keeper.attach(engine)

    def decided(self, decision: Decision, *, seconds: float, now: float) -> None:
        """See `Observer`. Only what ended in a rejection is of interest."""
        if decision.result is Result.UNSCHEDULABLE and decision.preemption is None:
            self._keeper.decided(decision, seconds=seconds, now=now)

    def of(self, kind: str, namespace: str, name: str) -> DecisionRecord | None:
        """The last record of a Pod or a PodGroup."""
        return self._last.get((kind, namespace, name))

    def hints(self, who: tuple[str, str, str]) -> list[Help]:
        """What the last attempt of a Pod or a PodGroup says would help; nobody has tried it yet."""
        record = self.of(*who)
        return helps_of(record) if record is not None else []

    # -- RecordStore -----------------------------------------------------------------------------------

    def next_id(self) -> int:
        """See `RecordStore`."""
        return len(self._last) + 1

    def put(self, record: DecisionRecord, involved: Sequence[Name]) -> None:
        """See `RecordStore`."""
        entity = record.entity
        name = (entity.kind, entity.namespace, entity.name)
        self._last.pop(name, None)
        self._last[name] = record
        while len(self._last) > MOST_RECORDS:
            self._last.popitem(last=False)

    async def find(self, kind: str, namespace: str, name: str) -> list[DecisionRecord]:
        """See `RecordStore`."""
        record = self.of(kind, namespace, name)
        return [record] if record is not None else []

    def close(self) -> None:
        """Nothing is open."""
