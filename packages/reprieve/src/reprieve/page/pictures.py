"""Snapshots of the cluster at decisions: occasional full ones, otherwise only the changes (page.md 11).

A snapshot of changes contains the nodes that changed since the previous one, with all pods on them, and all pods
without a node. The rest is unchanged since the previous snapshots, back to a full one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from reprieve.decisions.outcomes import Document, ReservedCapacity
from reprieve.decisions.queue_items import QueueItem
from reprieve.decisions.reserved_capacity import reserved_capacity
from reprieve.page.cluster_tables import MOST_PODS, Workload, tables_of
from reprieve.page.documents import ClusterTables, LabelColumn, NodeTable, PodTable, WorkloadTable
from reprieve.page.queue_view import LatestRecord, pending_items
from reprieve.scheduling.engine import Engine

MOST_ITEMS: Final = 200
"""Maximum number of queue items in a snapshot: those that will be tried first."""

Mark = tuple[int, str, float]
"""The row of a node and a pending action there: the eviction of a victim, or a reservation."""


class Picture(Document, frozen=True, kw_only=True):
    """The cluster and the queue at a moment. `after`: for a snapshot of changes, the time of the previous one.

    `gone`: names of deleted nodes. `degraded`: by the key of each degraded gang, its current and required members.
    """

    cluster: ClusterTables
    after: float | None = None
    gone: tuple[str, ...] = ()
    degraded: dict[str, str] = msgspec.field(default_factory=dict)
    queue: tuple[QueueItem, ...] = ()
    queue_total: int = 0
    reservations: tuple[ReservedCapacity, ...] = ()


class PictureTaker:
    """Takes snapshots of one engine and remembers the content of the last one."""

    def __init__(self, engine: Engine, latest: LatestRecord) -> None:
        self._engine = engine
        self._latest = latest
        self._changes = engine.cluster.changes(of_nodes=False, lasting=True)
        self._marks: set[Mark] = set()
        self._names: dict[int, str] = {}
        self._labels: tuple[str, ...] = ()
        self._block: str | None = None
        """The resource drawn as blocks in the last full snapshot; None if no changes relative to it are possible."""

    @property
    def tells_changes(self) -> bool:
        """Return whether `changed` can follow the last full snapshot, which requires that it has all pods."""
        return self._block is not None

    def whole(self) -> Picture:
        """Return a full snapshot. The engine must be idle."""
        self._changes.take()
        self._marks = self._marks_now()
        nodes = self._engine.cluster.nodes
        tables = tables_of(self._engine)
        self._names = {row: name for row, name in enumerate(nodes.names) if nodes.alive[row]}
        self._labels = tuple(tables.nodes.labels)
        self._block = tables.block if tables.pods_total <= MOST_PODS else None
        return self._picture(tables)

    def changed(self, after: float) -> Picture | None:
        """Return the changes since the last snapshot, taken at `after`, or None if a full snapshot is needed."""
        touched = self._changes.take()
        if self._block is None or touched is None:
            return None
        marks = self._marks_now()
        rows = {*touched, *(row for row, _, _ in marks ^ self._marks)}
        self._marks = marks
        tables = tables_of(self._engine, changed=rows, labels=self._labels)
        if tables.block != self._block:
            return None
        nodes, deleted = self._engine.cluster.nodes, []
        for row in rows:
            name = nodes.names[row] if nodes.alive[row] else None
            before = self._names.pop(row, None)
            if before is not None and before != name:
                deleted.append(before)
            if name is not None:
                self._names[row] = name
        return self._picture(tables, after, deleted)

    def _picture(self, tables: ClusterTables, after: float | None = None, deleted: Sequence[str] = ()) -> Picture:
        engine = self._engine
        return Picture(
            cluster=tables,
            after=after,
            gone=tuple(sorted(set(deleted) - set(tables.nodes.names))),
            degraded={key: gang.message for key, gang in engine.repair.health.degraded.items()},
            queue=pending_items(engine, self._latest, most=MOST_ITEMS),
            queue_total=len(engine.queue),
            reservations=reserved_capacity(engine),
        )

    def _marks_now(self) -> set[Mark]:
        """Return changes that the change log does not contain: selected victims and reservations."""
        engine = self._engine
        pods = engine.cluster.pods
        marks = {(pods[uid].row, uid, 0.0) for uid in engine.cluster.doomed if uid in pods and pods[uid].row >= 0}
        reservations = engine.reservations.by_ref.items()
        return marks | {(int(row), ref, reserved.created_at) for ref, reserved in reservations for row in reserved.rows}


def merged(pictures: Sequence[Picture]) -> Picture:
    """Merge snapshots into a full one. `pictures`: newest first, ending with a full one."""
    newest = pictures[0]
    if len(pictures) == 1:
        return newest
    settled: set[str] = set()
    parts: list[tuple[ClusterTables, list[int]]] = []
    for picture in pictures:
        names = picture.cluster.nodes.names
        parts.append((picture.cluster, [at for at, name in enumerate(names) if name not in settled]))
        settled.update(names, picture.gone)
    nodes = _merged_nodes(parts, tuple(pictures[-1].cluster.nodes.labels))
    workloads, pods = _merged_pods(parts, nodes.names, newest.degraded)
    tables = ClusterTables(
        block=newest.cluster.block, nodes=nodes, workloads=workloads, pods=pods, pods_total=newest.cluster.pods_total
    )
    return Picture(cluster=tables, queue=newest.queue, queue_total=newest.queue_total, reservations=newest.reservations)


def _merged_nodes(parts: Sequence[tuple[ClusterTables, list[int]]], labels: Sequence[str]) -> NodeTable:
    rows = sorted((tables.nodes.names[at], part, at) for part, (tables, own) in enumerate(parts) for at in own)
    of = [(parts[part][0].nodes, at) for _, part, at in rows]
    taints = [nodes.taint_sets[nodes.taints[at]] for nodes, at in of]
    sets = {taint_set: number for number, taint_set in enumerate(dict.fromkeys(taints))}
    return NodeTable(
        names=tuple(name for name, _, _ in rows),
        blocks=tuple(nodes.blocks[at] for nodes, at in of),
        cpu=tuple(nodes.cpu[at] for nodes, at in of),
        memory=tuple(nodes.memory[at] for nodes, at in of),
        flags=tuple(nodes.flags[at] for nodes, at in of),
        taints=tuple(sets[taint_set] for taint_set in taints),
        taint_sets=tuple(sets),
        labels={key: _merged_label(key, of) for key in labels},
    )


def _merged_label(key: str, of: Sequence[tuple[NodeTable, int]]) -> LabelColumn:
    columns = [(nodes.labels[key], at) for nodes, at in of]
    values = [column.values[column.of[at]] if column.of[at] >= 0 else None for column, at in columns]
    number = {value: place for place, value in enumerate(sorted({value for value in values if value is not None}))}
    return LabelColumn(values=tuple(number), of=tuple(-1 if value is None else number[value] for value in values))


def _merged_pods(
    parts: Sequence[tuple[ClusterTables, list[int]]], names: Sequence[str], degraded: dict[str, str]
) -> tuple[WorkloadTable, PodTable]:
    """Return the pods of each part's own nodes, and the pending pods of the first part."""
    place = {name: at for at, name in enumerate(names)}
    nominated: dict[tuple[Workload, str], str] = {}
    entries: list[tuple[Workload, str, ClusterTables, int]] = []
    for part, (tables, own) in enumerate(parts):
        used: Collection[int] = {*own, -1} if part == 0 else set(own)
        keys = list(zip(*_identity(tables.workloads), strict=True))
        pods = tables.pods
        entries += [
            (keys[pods.workloads[at]], pods.names[at], tables, at) for at, node in enumerate(pods.nodes) if node in used
        ]
        for at, node in enumerate(pods.nominated):
            if node in used and node >= 0:  # a snapshot of changes has the nominations to changed nodes
                nominated.setdefault((keys[pods.workloads[at]], pods.names[at]), tables.nodes.names[node])
    entries.sort(key=lambda entry: entry[:2])
    workloads: dict[Workload, tuple[int, str, int]] = {}
    sets: dict[tuple[tuple[str, str], ...], int] = {}
    columns: list[tuple[int, ...]] = []
    for key, name, tables, at in entries:
        pods, own_table = tables.pods, tables.workloads
        old = pods.workloads[at]
        number = workloads.setdefault(key, (len(workloads), own_table.classes[old], own_table.min_counts[old]))[0]
        node, labels = pods.nodes[at], pods.labels[at]
        label_set = tuple(sorted(pods.label_sets[labels].items())) if labels >= 0 else None
        columns.append((
            number,
            place.get(tables.nodes.names[node], -1) if node >= 0 else -1,
            place.get(nominated.get((key, name), ""), -1),
            *(pods.blocks[at], pods.cpu[at], pods.memory[at], pods.flags[at], pods.starts[at]),
            sets.setdefault(label_set, len(sets)) if label_set is not None else -1,
        ))  # fmt: skip
    turned = tuple(zip(*columns, strict=True)) if columns else ((),) * 9
    fields = ("workloads", "nodes", "nominated", "blocks", "cpu", "memory", "flags", "starts", "labels")
    table = PodTable(
        names=tuple(name for _, name, _, _ in entries),
        label_sets=tuple(map(dict, sets)),
        **dict(zip(fields, turned, strict=True)),
    )
    identity = tuple(zip(*workloads, strict=True)) if workloads else ((),) * 4
    kinds, namespaces, own_names, priorities = identity
    groups = [f"{namespace}/{name}" if kind == "PodGroup" else "" for kind, namespace, name, _ in workloads]
    return WorkloadTable(
        kinds=kinds,
        namespaces=namespaces,
        names=own_names,
        priorities=priorities,
        classes=tuple(class_name for _, class_name, _ in workloads.values()),
        min_counts=tuple(least for _, _, least in workloads.values()),
        degraded=tuple(degraded.get(key, "") for key in groups),
    ), table


def _identity(table: WorkloadTable) -> tuple[Sequence[str], Sequence[str], Sequence[str], Sequence[int]]:
    return table.kinds, table.namespaces, table.names, table.priorities
