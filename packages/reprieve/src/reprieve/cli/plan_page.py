"""A plan as the page (page.md 6.2): the cluster before and after it, its decisions, pending workloads, and its text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace as with_fields

from reprieve.cli.render import plan_sections
from reprieve.cli.sections import plain
from reprieve.decisions.records import DecisionRecord
from reprieve.observability.recorder import RecordKeeper
from reprieve.page.builder import document_of
from reprieve.page.cluster_tables import tables_of
from reprieve.page.documents import ClusterTables, PageDocument
from reprieve.python.answers import answered
from reprieve.python.pending_records import WaitingRecords
from reprieve.simulation.plan import EngineKeeper, PlanOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reprieve.decisions.attempts import ObjectName
    from reprieve.decisions.outcomes import Help
    from reprieve.python.inputs import PreparedInput
    from reprieve.scheduling.decision import Decision
    from reprieve.scheduling.engine import Engine
    from reprieve.simulation.report import Answer

MOST_WARNINGS: Final = 200


class _KeptRecords:
    """A store of the records of one plan (`RecordStore`)."""

    def __init__(self) -> None:
        self.kept: dict[int, DecisionRecord] = {}

    def next_id(self) -> int:
        return len(self.kept) + 1

    def put(self, record: DecisionRecord, involved: Sequence[ObjectName]) -> None:
        self.kept[record.id] = record

    async def find(self, kind: str, namespace: str, name: str) -> list[DecisionRecord]:
        entity = (kind, namespace, name)
        entities = ((record, record.entity) for record in self.kept.values())
        return [record for record, item in entities if (item.kind, item.namespace, item.name) == entity]

    def close(self) -> None:
        pass


class PlanRecording(EngineKeeper):
    """Observes a plan: its engine, all records, and the time of the last decision."""

    def __init__(self, waiting: WaitingRecords | None) -> None:
        self._store = _KeptRecords()
        self.keeper = RecordKeeper(self._store)
        super().__init__(self.keeper, waiting)
        self.now = 0.0
        self.before: ClusterTables | None = None

    def loaded(self, engine: Engine, now: float) -> None:
        """Keep the cluster from before the first decision; trials of changes load others later."""
        if self.before is None:
            self.before, self.now = tables_of(engine), now

    def decided(self, decision: Decision, *, seconds: float, now: float) -> None:
        """Observe the engine of the plan (`PlanObserver`)."""
        self.now = now
        super().decided(decision, seconds=seconds, now=now)

    def preemptions(self) -> list[DecisionRecord]:
        """Return the records of preemptions, newest first."""
        return [record for record in reversed(self._store.kept.values()) if record.preemption is not None]


def planned_page(
    prepared: PreparedInput, options: PlanOptions, *, suggest: bool, warnings: Sequence[str] = ()
) -> tuple[Answer, PageDocument]:
    """Plan the input; return the answer and the page of it. `warnings`: of the input. Raises InputError."""
    waiting = WaitingRecords() if suggest else None
    recording = PlanRecording(waiting)
    answer = answered(prepared, replace(options, observer=recording, on_loaded=recording.loaded), waiting)
    engine = recording.engine
    assert engine is not None
    records = waiting if waiting is not None else WaitingRecords()
    sections = plan_sections(answer, records.of)
    helps = _helps(answer)
    document = document_of(
        engine,
        recording.now,
        recording.keeper.latest,
        recording.preemptions(),
        helps=lambda kind, namespace, name: helps.get((kind, namespace, name), ()),
        before=recording.before,
        plan=answer.plan,
        text=plain(sections),
    )
    verdict = next(section for section in sections if section.title and not section.columns)
    sentence = " ".join((verdict.title, *verdict.notes[:-1]))
    noted = tuple(dict.fromkeys((*warnings, *answer.account.warnings)))
    return answer, with_fields(
        document,
        sentences={**document.sentences, "cluster": sentence, "plan": sentence},
        warnings=noted[:MOST_WARNINGS],
        warnings_total=len(noted),
    )


def _helps(answer: Answer) -> dict[tuple[str, str, str], tuple[Help, ...]]:
    plan = answer.plan
    pods = {("Pod", pod.namespace, pod.name): pod.help for pod in plan.pods}
    return {**pods, **{("PodGroup", group.namespace, group.name): group.help for group in plan.pod_groups}}
