"""The part of the document that a reader may see (page.md 4): only kind and priority of other namespaces' objects.

Texts of records may name any object, so a reader of some namespaces gets no texts, only numbers and reasons of their
own objects. All included fields are listed here, so a new field is excluded until it is added here.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from reprieve.decisions.outcomes import ReservedCapacity
from reprieve.decisions.queue_items import QueueItem
from reprieve.decisions.records import (
    CandidateRecord,
    Comparison,
    DecisionRecord,
    EntityReference,
    EvictionReason,
    FailedPreemption,
    PreemptionRecord,
    UnitRecord,
)
from reprieve.page.documents import ClusterTables, PageDocument, PodTable, WorkloadTable
from reprieve.page.sentences import sentences_of

Namespaces = Collection[str]


def visible(document: PageDocument, namespaces: Namespaces) -> PageDocument:
    """Return the part that a reader of these namespaces may see. Plans and replays are excluded."""
    shown = PageDocument(
        time=document.time,
        cluster=_tables(document.cluster, namespaces) if document.cluster is not None else None,
        queue=tuple(_item(item, namespaces) for item in document.queue),
        queue_total=document.queue_total,
        records=tuple(visible_record(record, namespaces) for record in document.records),
        records_total=document.records_total,
        reservations=tuple(_reservation(reservation, namespaces) for reservation in document.reservations),
        complete=False,
        past=document.past,
    )
    return replace(shown, sentences=sentences_of(shown))


def _tables(tables: ClusterTables, namespaces: Namespaces) -> ClusterTables:
    old, pods = tables.workloads, tables.pods
    merged: dict[tuple[str, int], int] = {}
    rows: list[tuple[str, str, str, int, str, int, str]] = []
    number: list[int] = []
    for at, namespace in enumerate(old.namespaces):
        kind, priority = old.kinds[at], old.priorities[at]
        if namespace in namespaces:
            number.append(len(rows))
            own = (kind, namespace, old.names[at], priority, old.classes[at], old.min_counts[at], old.degraded[at])
            rows.append(own)
        elif (kind, priority) in merged:
            number.append(merged[kind, priority])
        else:
            number.append(len(rows))
            merged[kind, priority] = len(rows)
            rows.append((kind, "", "", priority, "", 0, ""))
    own_pod = [old.namespaces[workload] in namespaces for workload in pods.workloads]
    kept_sets = sorted({labels for labels, own in zip(pods.labels, own_pod, strict=True) if own and labels >= 0})
    new_set = {labels: at for at, labels in enumerate(kept_sets)}
    columns = tuple(zip(*rows, strict=True)) if rows else ((),) * 7
    return replace(
        tables,
        workloads=WorkloadTable(
            kinds=columns[0],
            namespaces=columns[1],
            names=columns[2],
            priorities=columns[3],
            classes=columns[4],
            min_counts=columns[5],
            degraded=columns[6],
        ),
        pods=PodTable(
            names=tuple(name if own else "" for name, own in zip(pods.names, own_pod, strict=True)),
            workloads=tuple(number[workload] for workload in pods.workloads),
            nodes=pods.nodes,
            nominated=tuple(row if own else -1 for row, own in zip(pods.nominated, own_pod, strict=True)),
            blocks=pods.blocks,
            cpu=pods.cpu,
            memory=pods.memory,
            flags=tuple(flags if own else 0 for flags, own in zip(pods.flags, own_pod, strict=True)),
            starts=tuple(start if own else 0 for start, own in zip(pods.starts, own_pod, strict=True)),
            labels=tuple(new_set.get(row, -1) if own else -1 for row, own in zip(pods.labels, own_pod, strict=True)),
            label_sets=tuple(pods.label_sets[row] for row in kept_sets),
        ),
    )


def _item(item: QueueItem, namespaces: Namespaces) -> QueueItem:
    own = item.namespace in namespaces
    return QueueItem(
        position=item.position,
        kind=item.kind,
        namespace=item.namespace if own else "",
        name=item.name if own else "",
        priority=item.priority,
        pods=item.pods if own else 0,
        since=item.since if own else None,
        why=item.why if own else "",
        evicts=tuple(unit for unit in item.evicts if unit.partition("/")[0] in namespaces) if own else (),
    )


def visible_record(record: DecisionRecord, namespaces: Namespaces) -> DecisionRecord:
    """Return the part of a record that a reader of these namespaces may see."""
    entity, own = record.entity, record.entity.namespace in namespaces
    failed = record.in_vain
    return DecisionRecord(
        id=record.id,
        time=record.time,
        entity=entity if own else EntityReference(entity.kind, "", "", priority=entity.priority),
        result=record.result,
        message="",
        attempt=record.attempt if own else 0,
        timings=record.timings,
        api_version=record.api_version,
        kind=record.kind,
        nodes=record.nodes,
        reasons=record.reasons if own else (),
        members=record.members if own else None,
        lack=record.lack if own else None,
        in_vain=None
        if failed is None or not own
        else FailedPreemption(
            reason=failed.reason,
            potential_victims=failed.potential_victims,
            pods=failed.pods,
            considered=tuple(_unit(unit, namespaces) for unit in failed.considered),
            placed=failed.placed,
            needed=failed.needed,
        ),
        preemption=_preemption(record.preemption, namespaces, own=own) if record.preemption is not None else None,
    )


def _preemption(record: PreemptionRecord, namespaces: Namespaces, *, own: bool) -> PreemptionRecord:
    chosen = CandidateRecord(domain=record.domain)
    return PreemptionRecord(
        domain=record.domain,
        potential_victims=record.potential_victims,
        evicted=tuple(_unit(unit, namespaces, reasons=own) for unit in record.evicted),
        reprieved=tuple(_unit(unit, namespaces) for unit in record.reprieved),
        reprieved_total=record.reprieved_total,
        cost=record.cost,
        comparison=Comparison(candidates=record.comparison.candidates, chosen=chosen),
        nominations=record.nominations if own else (),
        nominations_total=record.nominations_total if own else 0,
        state=record.state,
        seconds=record.seconds,
        cause=record.cause,
    )


def _unit(unit: UnitRecord, namespaces: Namespaces, *, reasons: bool = False) -> UnitRecord:
    """Return the visible part of a unit. `reasons`: whether the pod named in its reason may be seen."""
    if unit.unit.partition("/")[0] not in namespaces:
        return UnitRecord(
            unit="", kind=unit.kind, outcome=unit.outcome, priority=unit.priority, pods=0, pod_names=(), nodes=()
        )
    why = unit.why if reasons else _without_pod(unit.why)
    return replace(unit, owners=(), owner="", why=why, because=unit.because if reasons else "")


def _without_pod(why: EvictionReason | None) -> EvictionReason | None:
    return replace(why, pod="its preemptor") if why is not None else None


def _reservation(reservation: ReservedCapacity, namespaces: Namespaces) -> ReservedCapacity:
    own = reservation.holder.namespace in namespaces
    return replace(
        reservation,
        holder=reservation.holder if own else replace(reservation.holder, namespace="", name=""),
        waits_for=tuple(pod for pod in reservation.waits_for if pod.partition("/")[0] in namespaces),
        nodes=reservation.nodes if own else (),
        expected_start=reservation.expected_start if own else None,
        message=reservation.message if own else "",
        backfill=reservation.backfill if own else "",
    )
