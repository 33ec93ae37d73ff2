"""The document that the page shows (page.md 1): columns instead of an object for each pod.

Facts about decisions are those of `reprieve.decisions`: queue items, records, reservations. New here is only where
pods run, as columns.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kube_rules.versions import DOCUMENT_VERSION
from reprieve.decisions.outcomes import Document, ReservedCapacity
from reprieve.decisions.queue_items import QueueItem
from reprieve.decisions.records import DecisionRecord

CORDONED: Final = 1
TAINTED: Final = 2
NOMINATED: Final = 4
DRAINING: Final = 8
RESERVED: Final = 16
"""Flags of a node."""
LEAVING: Final = 1
ASSUMED: Final = 2
VICTIM: Final = 4
BACKFILLS: Final = 8
"""Flags of a pod."""


class LabelColumn(Document, frozen=True, kw_only=True):
    """A label of nodes. `of`: by node the place of its value in `values`, -1 where it has none."""

    values: tuple[str, ...]
    of: tuple[int, ...]


class NodeTable(Document, frozen=True, kw_only=True):
    """Nodes as columns, sorted by name.

    `blocks`: how many units of the resource that is drawn as blocks; `cpu` in milli-units and `memory` in bytes are
    allocatable amounts. `flags`: the sum of what holds. `taints`: by node the place of its taints in `taint_sets`.
    """

    names: tuple[str, ...]
    blocks: tuple[int, ...]
    cpu: tuple[int, ...]
    memory: tuple[int, ...]
    flags: tuple[int, ...]
    taints: tuple[int, ...]
    taint_sets: tuple[tuple[str, ...], ...]
    labels: dict[str, LabelColumn]


class WorkloadTable(Document, frozen=True, kw_only=True):
    """Pods that belong together, as columns: of a group, a controller, or a lone pod.

    `min_counts`: of a gang, else 0. `degraded`: a gang that was scheduled and has less than its minimum. Those that the
    reader may not see have empty names, and are one for each kind and priority.
    """

    kinds: tuple[str, ...]
    namespaces: tuple[str, ...]
    names: tuple[str, ...]
    priorities: tuple[int, ...]
    classes: tuple[str, ...]
    min_counts: tuple[int, ...]
    degraded: tuple[str, ...]
    """How many members it has and needs, in words; empty: it is not degraded."""


class PodTable(Document, frozen=True, kw_only=True):
    """Pods as columns, by workload. `nodes`, `nominated`: places in the table of nodes, -1 for none.

    `blocks`, `cpu`, `memory`: what it requests, in the units of the nodes. `labels`: place in `label_sets`, -1 where
    the labels are left out. `starts`: seconds since the epoch, 0 where it is not known.
    """

    names: tuple[str, ...]
    workloads: tuple[int, ...]
    nodes: tuple[int, ...]
    nominated: tuple[int, ...]
    blocks: tuple[int, ...]
    cpu: tuple[int, ...]
    memory: tuple[int, ...]
    flags: tuple[int, ...]
    starts: tuple[int, ...]
    labels: tuple[int, ...]
    label_sets: tuple[dict[str, str], ...]


class ClusterTables(Document, frozen=True, kw_only=True):
    """Where everything is. `block`: the resource that is drawn as blocks, empty where no node has one.

    `pods_total`: how many pods there are; the tables have the first of them.
    """

    block: str
    nodes: NodeTable
    workloads: WorkloadTable
    pods: PodTable
    pods_total: int


class PageDocument(Document, frozen=True, kw_only=True):
    """Everything that the views show.

    `before`: of a plan, the cluster before it; `plan`: the document of `plan -o json`, `text`: its text; `replay`,
    `shadow`: the view of a replay, of a shadow report.
    `records`: preemptions and the last record of each pending workload, newest first.
    `sentences`: what matters now, by view.
    `warnings`: what a plan has not read or not understood of its input, the first of `warnings_total`.
    `complete`: the reader may see all namespaces. `past`: the cluster is as it was at `time`.
    """

    api_version: str = DOCUMENT_VERSION
    kind: str = "Page"
    time: str = ""
    cluster: ClusterTables | None = None
    before: ClusterTables | None = None
    queue: tuple[QueueItem, ...] = ()
    queue_total: int = 0
    records: tuple[DecisionRecord, ...] = ()
    records_total: int = 0
    reservations: tuple[ReservedCapacity, ...] = ()
    plan: Any = None
    text: str = ""
    replay: Any = None
    shadow: Any = None
    sentences: dict[str, str] = msgspec.field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    warnings_total: int = 0
    complete: bool = True
    past: bool = False
