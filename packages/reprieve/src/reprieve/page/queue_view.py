"""The pending workloads of a scheduler, as `queue` lists them (page.md 2.2), without trying anything."""

from __future__ import annotations

from collections.abc import Callable
from heapq import nsmallest
from typing import Final

from kube_rules.durations import readable_time
from reprieve.decisions.hints import helps_of
from reprieve.decisions.outcomes import Help
from reprieve.decisions.queue_items import (
    ACTIVE,
    BACKOFF,
    CONSTRAINTS,
    GATED,
    PREEMPTING,
    RESOURCES,
    QueueItem,
    reserved_sentence,
)
from reprieve.decisions.records import DecisionRecord
from reprieve.queueing.entity import RESIZES, Entity, QueueState
from reprieve.scheduling.engine import Engine

MOST_ITEMS: Final = 2_000
_AMOUNTS: Final = ("Insufficient ", "Too many pods")
"""Prefixes of reasons that more free capacity would resolve."""

LatestRecord = Callable[[str], DecisionRecord | None]
"""Key of an entity -> its newest record, if available."""
Helps = Callable[[str, str, str], tuple[Help, ...]]
"""(kind, namespace, name) -> changes that would help, each verified."""


def pending_items(
    engine: Engine, latest: LatestRecord, helps: Helps | None = None, *, most: int | None = None
) -> tuple[QueueItem, ...]:
    """Return pending workloads in scheduling order, gated ones last; at most `most` (`MOST_ITEMS`).

    Without `helps`, the unverified hints of the last record are included.
    """
    queue = engine.queue
    most = MOST_ITEMS if most is None else most
    first = nsmallest(most, queue.entities(), key=lambda entity: (_is_gated(entity), queue.order(entity)))
    return tuple(_item(engine, entity, at, latest(entity.ref), helps) for at, entity in enumerate(first, 1))


def _item(engine: Engine, entity: Entity, at: int, record: DecisionRecord | None, helps: Helps | None) -> QueueItem:
    pods = [
        *entity.ready.values(),
        *(engine.cluster.pods[uid] for uid in entity.gated_pods if uid in engine.cluster.pods),
    ]
    group = entity.group
    first = pods[0] if pods else None
    if group is None and entity.ref.startswith(RESIZES):
        group = engine.cluster.trees.find(entity.ref.removeprefix(RESIZES))
    kind = group.kind if group is not None else "PodGroup" if entity.ref.startswith("group/") else "Pod"
    if group is not None:
        namespace, name = group.namespace, group.name
    elif first is not None and kind == "Pod":
        namespace, name = first.namespace, first.name
    else:
        namespace, _, name = entity.ref.partition("/")[2].partition("/")
    why = _why(entity, record)
    message = entity.gate.reason if why == GATED else record.message if record is not None else ""
    preemption = record.preemption if record is not None and why == PREEMPTING else None
    hints = () if record is None or why in (GATED, PREEMPTING) else tuple(helps_of(record))
    return QueueItem(
        position=at,
        kind=kind,
        namespace=namespace,
        name=name,
        priority=entity.priority,
        pods=len(pods),
        since=readable_time(entity.timestamp) if entity.timestamp > 0 else None,
        why=why,
        message=message,
        evicts=tuple(sorted(unit.unit for unit in preemption.evicted)) if preemption is not None else (),
        help=helps(kind, namespace, name) if helps is not None else hints,
        tried=None,
        reserved=reserved_sentence(engine, entity.ref),
    )


def _why(entity: Entity, record: DecisionRecord | None) -> str:
    """Return the reason in one word."""
    if _is_gated(entity):
        return GATED
    if entity.block_reason is not None or (record is not None and record.result == "Preempting"):
        return PREEMPTING
    if record is None:
        return ACTIVE
    if record.waits is not None or record.result == "Error":
        return BACKOFF
    if any(reason.reason.startswith(_AMOUNTS) for reason in record.reasons) or record.lack is not None:
        return RESOURCES
    return CONSTRAINTS if record.reasons else BACKOFF if entity.state is QueueState.BACKOFF else RESOURCES


def _is_gated(entity: Entity) -> bool:
    """Return whether a gate blocks it, rather than its own preemption."""
    return entity.state is QueueState.GATED and entity.block_reason is None
