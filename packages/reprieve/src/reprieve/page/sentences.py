"""The summary at the start of each view: the most important facts (page.md 3.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from reprieve.decisions.phrases import count
from reprieve.decisions.queue_items import GATED, QueueItem
from reprieve.decisions.records import GANG_RESTARTED, DecisionRecord
from reprieve.page.documents import CORDONED, TAINTED, ClusterTables, PageDocument


def sentences_of(document: PageDocument) -> dict[str, str]:
    """Return the sentence of each view that the document contains."""
    result: dict[str, str] = {}
    if document.cluster is not None:
        result["cluster"] = f"{f'At {document.time}: ' if document.past else ''}{_cluster(document.cluster)}"
        result["queue"] = _queue(document)
        result["decisions"] = _decisions(document)
        pending = f" The plan includes {_pending(document.queue_total)}." if document.queue_total else ""
        result["whatif"] = f"Try a change; the cluster is not touched.{pending}"
    return result


def _cluster(tables: ClusterTables) -> str:
    nodes, pods = tables.nodes, tables.pods
    running = sum(1 for node in pods.nodes if node >= 0)
    parts = [f"{count(running, 'pod')} on {count(len(nodes.names), 'node')}"]
    total = sum(nodes.blocks)
    if total:
        used = sum(amount for amount, node in zip(pods.blocks, pods.nodes, strict=True) if node >= 0)
        unit = "GPUs" if "gpu" in tables.block else tables.block
        parts.append(f"{used:,} of {total:,} {unit} in use")
    else:
        cores = sum(nodes.cpu)
        used = sum(amount for amount, node in zip(pods.cpu, pods.nodes, strict=True) if node >= 0)
        parts.append(f"{used / 1000:,.0f} of {cores / 1000:,.0f} CPUs requested")
    closed = sum(1 for flags in nodes.flags if flags & CORDONED)
    tainted = sum(1 for flags in nodes.flags if flags & TAINTED)
    if closed:
        parts.append(f"{closed:,} cordoned")
    if tainted:
        parts.append(f"{tainted:,} tainted")
    degraded = [name for name, text in zip(tables.workloads.names, tables.workloads.degraded, strict=True) if text]
    if degraded:
        parts.append(f"{_named(degraded)} {'has' if len(degraded) == 1 else 'have'} less than the minimum")
    return f"{', '.join(parts)}."


def _queue(document: PageDocument) -> str:
    items = document.queue
    if document.past:
        then = f"At {document.time}: "
        pending = f"{then}{_pending(document.queue_total)}{_reasons(items, document.queue_total)}"
        return pending if items else f"{then}no pending workloads."
    if not items:
        return "No pending workloads."
    ungated = [item for item in items if item.why != GATED]
    text = _pending(document.queue_total)
    if not ungated:
        return f"{text}, all gated."
    helped = next((item for item in ungated if item.help), None)
    if helped is not None:
        return f"{text}. {_of(helped)} would run after this: {helped.help[0].sentence}"
    return f"{text}{_reasons(items, document.queue_total)}"


def _reasons(items: Sequence[QueueItem], total: int) -> str:
    """Return the most frequent reasons; if the list is truncated, those of its items."""
    reasons = Counter(item.why for item in items if item.why)
    why = ", ".join(f"{number:,} {word}" for word, number in reasons.most_common(3))
    among = f" of the first {len(items):,}" if len(items) < total else ""
    return f": {why}{among}." if why else "."


def _pending(number: int) -> str:
    return f"{number:,} pending workload{'' if number == 1 else 's'}"


def _of(item: QueueItem) -> str:
    return item.name or f"a {item.kind} of priority {item.priority}"


def _decisions(document: PageDocument) -> str:
    preemptions = [record for record in document.records if record.preemption is not None]
    until = f"Until {document.time}: " if document.past else ""
    if not preemptions:
        return f"{until}{'n' if until else 'N'}o workload was evicted for another."
    return f"{until}{_decision(preemptions[0], more=len(preemptions) - 1)}"


def _decision(record: DecisionRecord, more: int) -> str:
    preemption = record.preemption
    assert preemption is not None
    units = preemption.evicted
    names = [unit.unit.partition("/")[2] for unit in units]
    victims = _named([name for name in names if name]) if any(names) else count(len(units), "workload")
    entity = record.entity.name or f"a {record.entity.kind} of priority {record.entity.priority}"
    spared = f", {preemption.reprieved_total:,} spared" if preemption.reprieved_total else ""
    verb = "was" if len(units) == 1 else "were"
    if preemption.state == "Failed":
        verb = f"{verb} to be"
    text = f"{victims} {verb} evicted{'' if preemption.cause == GANG_RESTARTED else f' for {entity}'}{spared}"
    return f"{text}. {more:,} earlier." if more else f"{text}."


def _named(names: list[str]) -> str:
    """Join the first three names."""
    rest = len(names) - 3
    return ", ".join(names[:3]) + (f" and {rest:,} more" if rest > 0 else "")
