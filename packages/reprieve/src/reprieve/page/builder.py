"""The page document of an engine: a pure function of cluster cache, queue and decisions (page.md 1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from kube_rules.durations import readable_time
from reprieve.decisions.records import DecisionRecord
from reprieve.decisions.reserved_capacity import reserved_capacity
from reprieve.page.cluster_tables import tables_of
from reprieve.page.documents import ClusterTables, PageDocument
from reprieve.page.queue_view import Helps, LatestRecord, pending_items
from reprieve.page.sentences import sentences_of
from reprieve.scheduling.engine import Engine

MOST_RECORDS: Final = 200


def document_of(
    engine: Engine,
    now: float,
    latest: LatestRecord,
    decisions: Iterable[DecisionRecord] = (),
    *,
    helps: Helps | None = None,
    before: ClusterTables | None = None,
    plan: Any = None,
    text: str = "",
) -> PageDocument:
    """Return the document. `decisions` are preemptions, newest first. The engine must be idle."""
    return with_decisions(
        without_decisions(engine, now, latest, helps=helps, before=before, plan=plan, text=text), decisions
    )


def without_decisions(
    engine: Engine,
    now: float,
    latest: LatestRecord,
    *,
    helps: Helps | None = None,
    before: ClusterTables | None = None,
    plan: Any = None,
    text: str = "",
) -> PageDocument:
    """Return the part that is read from the engine; its records are those of pending workloads."""
    queue = pending_items(engine, latest, helps)
    entities = list(engine.queue.entities())
    latest_records = (latest(entity.ref) for entity in entities)
    records = sorted((record for record in latest_records if record is not None), key=_newest)[:MOST_RECORDS]
    return PageDocument(
        time=readable_time(now),
        cluster=tables_of(engine),
        before=before,
        queue=queue,
        queue_total=len(entities),
        records=tuple(records),
        records_total=len(records),
        reservations=reserved_capacity(engine),
        plan=plan,
        text=text,
    )


def with_decisions(document: PageDocument, decisions: Iterable[DecisionRecord]) -> PageDocument:
    """Return the document with preemptions added to the records of pending workloads, and with its sentences."""
    by_id: dict[int, DecisionRecord] = {record.id: record for record in (*document.records, *decisions)}
    records: Sequence[DecisionRecord] = sorted(by_id.values(), key=_newest)
    shown = replace(document, records=tuple(records[:MOST_RECORDS]), records_total=len(records))
    return replace(shown, sentences=sentences_of(shown))


def _newest(record: DecisionRecord) -> int:
    return -record.id
