"""The cluster cache as columns for the page (page.md 1.2): nodes, workloads, pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np

from kube_rules.taints import UNSCHEDULABLE
from kube_rules.topology_terms import HOSTNAME
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.resources import CPU, LIMIT, MEMORY
from reprieve.page.documents import (
    ASSUMED,
    BACKFILLS,
    CORDONED,
    DRAINING,
    LEAVING,
    NOMINATED,
    RESERVED,
    TAINTED,
    VICTIM,
    ClusterTables,
    LabelColumn,
    NodeTable,
    PodTable,
    WorkloadTable,
)
from reprieve.scheduling.engine import Engine

MOST_PODS: Final = 200_000
MOST_BLOCKS: Final = 64
"""Larger amounts of a resource on one node cannot be distinguished as blocks."""
MOST_LABEL_SETS: Final = 5_000
MOST_LABELS: Final = 24
"""Maximum number of node labels by which the page can group."""
MOST_VALUES: Final = 400
_GROUPING: Final = ("block", "rack", "pool", "nodegroup", "zone", "topology", "gpu", "accelerator", "instance-type")
"""Parts of the names of labels by which users group nodes, the most useful first."""

Workload = tuple[str, str, str, int]
"""Kind, namespace, name, priority."""


def tables_of(
    engine: Engine, *, changed: Collection[int] | None = None, labels: Sequence[str] | None = None
) -> ClusterTables:
    """Return the tables. The engine must be idle. Pods above `MOST_PODS` are omitted but counted.

    `changed`: only these rows of nodes, with their pods and pods without a node. `labels`: the node labels to include
    instead of the most useful ones.
    """
    cluster = engine.cluster
    nodes = cluster.nodes
    nodes.fit_columns()
    alive = np.flatnonzero(nodes.alive[: len(nodes)]).tolist()
    rows = sorted(alive if changed is None else set(alive) & set(changed), key=nodes.names.__getitem__)
    block = block_resource(engine)
    of_nodes = dict(enumerate(nodes.has(block).tolist())) if block else {}
    of_pods: dict[str, int] | None = None
    if not block:
        block, of_nodes, of_pods = claimed_devices(engine, alive)
    every = cluster.pods.values()
    pods = sorted(every if changed is None else _on(engine, rows, set(alive)), key=_by_workload)
    place = {row: at for at, row in enumerate(rows)}
    workloads, pod_table = _pods(engine, pods[:MOST_PODS], place, block, of_pods)
    return ClusterTables(
        block=block,
        nodes=_nodes(engine, rows, of_nodes, labels),
        workloads=workloads,
        pods=pod_table,
        pods_total=len(every),
    )


def _on(engine: Engine, rows: Sequence[int], alive: Collection[int]) -> list[PodRecord]:
    """Return the pods on these nodes, and pods on no node in `alive`."""
    cluster = engine.cluster
    pending = (pod for pod in cluster.pods.values() if pod.row not in alive)
    return [*pending, *(pod for row in rows for pod in cluster.nodes.pods[row].values())]


def block_resource(engine: Engine) -> str:
    """Return the resource that is drawn as blocks: the most abundant extended resource, preferably a GPU.

    Empty if no node has 1 to `MOST_BLOCKS` of such a resource.
    """
    nodes = engine.cluster.nodes
    totals: dict[str, int] = {}
    for name in nodes.resources:
        if "/" not in name or name.startswith("scoring/"):
            continue
        amounts = nodes.has(name)
        if amounts.size and 0 < amounts.max() <= MOST_BLOCKS:
            totals[name] = int(amounts.sum())
    return max(sorted(totals), key=lambda name: ("gpu" in name, totals[name]), default="")


def claimed_devices(engine: Engine, rows: Sequence[int]) -> tuple[str, dict[int, int], dict[str, int]]:
    """Return the driver of the devices to draw, its devices by node row, and the devices that pods hold by UID.

    It is the driver with GPUs, or else the one with most devices local to nodes; empty if no node has 1 to
    `MOST_BLOCKS`. A claim shared by several pods counts only for the first one.
    """
    cluster = engine.cluster
    by_driver: dict[str, Counter[int]] = {}
    for row in rows if cluster.devices.slices else ():
        for pool in cluster.devices.pools(row):
            own = sum(len(part.devices) for part in pool.slices if part.reach.node)
            if own:
                by_driver.setdefault(pool.id[0], Counter())[row] += own
    fitting = {name: rows for name, rows in by_driver.items() if 0 < max(rows.values()) <= MOST_BLOCKS}
    driver = max(sorted(fitting), key=lambda name: ("gpu" in name, fitting[name].total()), default="")
    held_by_pod: Counter[str] = Counter()
    for claim in cluster.devices.claims.values() if driver else ():
        users = [uid for uid, pod in claim.users.items() if pod.row >= 0]
        if claim.allocation is not None and users:
            grants = claim.allocation.grants
            held_by_pod[min(users)] += sum(1 for grant in grants if grant.device[0] == driver and not grant.admin)
    return driver, dict(fitting.get(driver, {})), dict(held_by_pod)


def _nodes(engine: Engine, rows: Sequence[int], blocks: Mapping[int, int], labels: Sequence[str] | None) -> NodeTable:
    nodes = engine.cluster.nodes
    reserved = {int(row) for reservation in engine.reservations.by_ref.values() for row in reservation.rows}
    leaving = {pod.row for uid in engine.cluster.departures if (pod := engine.cluster.pods.get(uid)) and pod.row >= 0}
    flags = []
    sets: dict[int, int] = {}
    taint_sets: list[tuple[str, ...]] = []
    for row in rows:
        number = int(nodes.taint_set[row])
        if number not in sets:
            sets[number] = len(taint_sets)
            taint_sets.append(_taints(nodes.taint_sets[number]))
        flag = CORDONED * bool(nodes.unschedulable[row]) | TAINTED * bool(taint_sets[sets[number]])
        flag |= NOMINATED * bool(nodes.nominated.get(row)) | RESERVED * (row in reserved)
        flags.append(flag | DRAINING * bool(flag & CORDONED and row in leaving))
    return NodeTable(
        names=tuple(nodes.names[row] for row in rows),
        blocks=tuple(blocks.get(row, 0) for row in rows),
        cpu=tuple(nodes.stated(CPU)[list(rows)].tolist()),
        memory=tuple(nodes.stated(MEMORY)[list(rows)].tolist()),
        flags=tuple(flags),
        taints=tuple(sets[int(nodes.taint_set[row])] for row in rows),
        taint_sets=tuple(taint_sets),
        labels=_labels(nodes.labels, rows) if labels is None else _labels_named(nodes.labels, rows, labels),
    )


def _taints(taints: Sequence[tuple[str, str, str]]) -> tuple[str, ...]:
    """Return the taints as `key=value:effect`, except for that of a cordon, which the page shows separately."""
    return tuple(
        f"{key}{'=' if value else ''}{value}:{effect}" for key, value, effect in taints if key != UNSCHEDULABLE
    )


def _labels(labels: Sequence[Mapping[str, str]], rows: Sequence[int]) -> dict[str, LabelColumn]:
    """Return the labels by which nodes can be grouped: labels shared by nodes, the most useful first."""
    keys = Counter(key for row in rows for key in labels[row])
    result: dict[str, LabelColumn] = {}
    for key in sorted(keys, key=_usefulness):
        if key == HOSTNAME or len(result) >= MOST_LABELS:
            continue
        values = sorted({labels[row][key] for row in rows if key in labels[row]})
        if len(values) > MOST_VALUES or (len(values) == keys[key] and len(values) > 1):
            continue
        result[key] = _label(labels, rows, key, values)
    return result


def _labels_named(
    labels: Sequence[Mapping[str, str]], rows: Sequence[int], keys: Sequence[str]
) -> dict[str, LabelColumn]:
    """Return these labels of nodes, regardless of their values."""
    return {
        key: _label(labels, rows, key, sorted({labels[row][key] for row in rows if key in labels[row]})) for key in keys
    }


def _label(labels: Sequence[Mapping[str, str]], rows: Sequence[int], key: str, values: Sequence[str]) -> LabelColumn:
    number = {value: at for at, value in enumerate(values)}
    of = tuple(number[labels[row][key]] if key in labels[row] else -1 for row in rows)
    return LabelColumn(values=tuple(values), of=of)


def _usefulness(key: str) -> tuple[int, str]:
    return next((at for at, part in enumerate(_GROUPING) if part in key), len(_GROUPING)), key


def workload_of(pod: PodRecord) -> Workload:
    """Return the workload of a pod: its group, else its controller, else itself."""
    if pod.group is not None:
        namespace, _, name = pod.group.partition("/")
        return "PodGroup", namespace, name, pod.priority
    if pod.owner is not None:
        return pod.owner[1], pod.namespace, pod.owner[2], pod.priority
    return "Pod", pod.namespace, pod.name, pod.priority


def _by_workload(pod: PodRecord) -> tuple[Workload, str]:
    return workload_of(pod), pod.name


def _pods(
    engine: Engine, pods: Sequence[PodRecord], place: Mapping[int, int], block: str, devices: Mapping[str, int] | None
) -> tuple[WorkloadTable, PodTable]:
    cluster = engine.cluster
    column = cluster.resources.column(block) if block in cluster.resources else None
    backfills = backfilling(engine)
    of_workload: dict[Workload, tuple[int, str]] = {}
    sets: dict[tuple[tuple[str, str], ...], int] = {}
    label_sets: list[dict[str, str]] = []
    amounts: dict[int, tuple[int, int, int]] = {}
    columns: list[tuple[int, ...]] = []
    for pod in pods:
        workload = of_workload.setdefault(workload_of(pod), (len(of_workload), pod.class_name))[0]
        signature = pod.signature
        requested = amounts.get(signature.id)
        if requested is None:
            delta = signature.delta
            blocks = int(delta[column]) if column is not None and column < len(delta) else 0
            requested = amounts[signature.id] = blocks, min(int(delta[CPU]), LIMIT), int(delta[MEMORY])
        if devices is not None:
            requested = devices.get(pod.uid, 0), *requested[1:]
        labels = tuple(sorted(pod.labels.items()))
        number = sets.get(labels, -1)
        if number < 0 and len(label_sets) < MOST_LABEL_SETS:
            number = sets[labels] = len(label_sets)
            label_sets.append(dict(labels))
        flag = LEAVING * pod.terminating | ASSUMED * (pod.row >= 0 and not pod.bound)
        flag |= VICTIM * (pod.uid in cluster.doomed) | BACKFILLS * (pod.uid in backfills)
        node, nominated = place.get(pod.row, -1), place.get(pod.nominated, -1)
        columns.append((workload, node, nominated, *requested, flag, int(pod.start or 0), number))
    turned = tuple(zip(*columns, strict=True)) if columns else ((),) * 9
    table = PodTable(
        names=tuple(pod.name for pod in pods),
        workloads=turned[0],
        nodes=turned[1],
        nominated=turned[2],
        blocks=turned[3],
        cpu=turned[4],
        memory=turned[5],
        flags=turned[6],
        starts=turned[7],
        labels=turned[8],
        label_sets=tuple(label_sets),
    )
    return _workloads(engine, of_workload), table


def _workloads(engine: Engine, workloads: Mapping[Workload, tuple[int, str]]) -> WorkloadTable:
    """Return the table of workloads in the given order."""
    groups, degraded = engine.cluster.groups, engine.repair.health.degraded
    keys = [f"{namespace}/{name}" if kind == "PodGroup" else "" for kind, namespace, name, _ in workloads]
    return WorkloadTable(
        kinds=tuple(kind for kind, _, _, _ in workloads),
        namespaces=tuple(namespace for _, namespace, _, _ in workloads),
        names=tuple(name for _, _, name, _ in workloads),
        priorities=tuple(priority for _, _, _, priority in workloads),
        classes=tuple(class_name for _, class_name in workloads.values()),
        min_counts=tuple(groups[key].min_count if key in groups else 0 for key in keys),
        degraded=tuple(degraded[key].message if key in degraded else "" for key in keys),
    )


def backfilling(engine: Engine) -> set[str]:
    """Return the UIDs of pods that started on nodes of a reservation after it was made, except its holder's pods.

    They use the reserved capacity until its holder starts, or have a higher priority.
    """
    nodes = engine.cluster.nodes
    result: set[str] = set()
    for reservation in engine.reservations.by_ref.values():
        own = {pod.uid for pod, _ in reservation.pods}
        for row in reservation.rows.tolist():
            result.update(
                uid
                for uid, pod in nodes.pods[row].items()
                if uid not in own and pod.start is not None and pod.start >= reservation.created_at
            )
    return result
