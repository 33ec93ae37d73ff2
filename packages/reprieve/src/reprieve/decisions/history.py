"""Past preemptions from decision records: preemptor, victims, time, reason and cost (whatif.md 9)."""

from __future__ import annotations

from collections.abc import Iterable

from kube_rules.versions import DOCUMENT_VERSION
from reprieve.decisions.outcomes import Document
from reprieve.decisions.records import DecisionRecord, UnitRecord


class HistoryVictim(Document, frozen=True, kw_only=True):
    """An evicted unit. `running_seconds`: how long its oldest pod ran.

    `why`: which pod needed its capacity, where it moves, or another reason for the eviction.
    """

    unit: str
    kind: str
    priority: int
    pods: int
    nodes: tuple[str, ...] = ()
    why: str = ""
    running_seconds: float | None = None
    violates_pdb: bool = False


class HistoryItem(Document, frozen=True, kw_only=True):
    """One preemption: its preemptor, number of evicted pods, and lost work. `state`: UnderWay, Done or Failed."""

    time: str
    kind: str
    namespace: str
    name: str
    priority: int
    domain: str
    pods: int
    lost_gpu_hours: float
    lost_cpu_hours: float
    pdb_violations: int
    state: str
    cause: str = ""
    """Empty for a preemption, otherwise as in `PreemptionRecord.cause`."""
    victims: tuple[HistoryVictim, ...] = ()


class PreemptionHistory(Document, frozen=True, kw_only=True):
    """The history document, newest first."""

    api_version: str = DOCUMENT_VERSION
    kind: str = "History"
    items: tuple[HistoryItem, ...] = ()


def involves(record: DecisionRecord, namespace: str) -> bool:
    """Return whether the preemptor or an evicted workload is in the namespace."""
    preemption = record.preemption
    evicted = preemption.evicted if preemption is not None else ()
    return record.entity.namespace == namespace or any(unit.unit.startswith(f"{namespace}/") for unit in evicted)


def history_of(
    records: Iterable[DecisionRecord], namespace: str | None, *, node: str = "", owner: str = ""
) -> PreemptionHistory:
    """Return the preemptions of the records, newest first. For a namespace, those by it and of its workloads.

    `node`: only evictions from this node. `owner`: only evictions of this controller's pods, as `KIND/NAME` or `NAME`.
    """
    items = [item for record in records if _evicts(record, node, owner.lower()) and (item := _item(record)) is not None]
    if namespace is not None:
        items = [
            item
            for item in items
            if item.namespace == namespace or any(victim.unit.startswith(f"{namespace}/") for victim in item.victims)
        ]
    return PreemptionHistory(items=tuple(sorted(items, key=lambda item: item.time, reverse=True)))


def _evicts(record: DecisionRecord, node: str, owner: str) -> bool:
    """Return whether a preemption evicted pods from this node and of this owner. Empty means any."""
    units = [unit for unit in record.preemption.evicted if unit.outcome != "NotEvicted"] if record.preemption else []
    return any(
        (not node or node in unit.nodes) and (not owner or any(_is_named(name, owner) for name in unit.owners))
        for unit in units
    ) or not (node or owner)


def _is_named(owner: str, text: str) -> bool:
    """Return whether `job default/train` matches `job/train`, `default/train` or `train`."""
    kind, _, full = owner.lower().partition(" ")
    name = full.rpartition("/")[2]
    return text in (name, full, f"{kind}/{name}", f"{kind}/{full}")


def _item(record: DecisionRecord) -> HistoryItem | None:
    preemption = record.preemption
    if preemption is None:
        return None
    return HistoryItem(
        time=record.time,
        kind=record.entity.kind,
        namespace=record.entity.namespace,
        name=record.entity.name,
        priority=record.entity.priority,
        domain=preemption.domain,
        pods=preemption.cost.pods,
        lost_gpu_hours=round(preemption.cost.lost_gpu_hours, 3),
        lost_cpu_hours=round(preemption.cost.lost_cpu_hours, 3),
        pdb_violations=preemption.cost.pdb_violations,
        state=preemption.state,
        cause=preemption.cause,
        victims=tuple(_evicted(unit) for unit in preemption.evicted if unit.outcome != "NotEvicted"),
    )


def _evicted(unit: UnitRecord) -> HistoryVictim:
    why = unit.why
    text = f"{why.pod} on {why.node} needed its capacity, {why.text}" if why is not None else unit.reason
    return HistoryVictim(
        unit=unit.unit,
        kind=unit.kind,
        priority=unit.priority,
        pods=unit.pods,
        nodes=tuple(unit.nodes),
        why=text,
        running_seconds=unit.running_seconds,
        violates_pdb=unit.violates_pdb,
    )
