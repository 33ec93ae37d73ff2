"""The document that the page shows (page.md 1), with columns instead of one object per pod.

Facts about decisions come from `reprieve.decisions`: queue items, records, reservations. This module only adds the
columns of pods and their nodes.
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
    """A label of nodes. `of`: for each node the index of its value in `values`, or -1 if it has none."""

    values: tuple[str, ...]
    of: tuple[int, ...]


class NodeTable(Document, frozen=True, kw_only=True):
    """Nodes as columns, sorted by name.

    `blocks`: the number of units of the resource that is drawn as blocks. `cpu` in milli-units and `memory` in bytes
    are allocatable amounts. `flags`: the sum of the node's flags. `taints`: for each node the index in `taint_sets`.
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
    """Groups of pods as columns: pods of a pod group or a controller, or single pods.

    `min_counts`: the minimum of a gang, else 0. `degraded`: for scheduled gangs below their minimum. Workloads that the
    reader may not see have empty names and are merged by kind and priority.
    """

    kinds: tuple[str, ...]
    namespaces: tuple[str, ...]
    names: tuple[str, ...]
    priorities: tuple[int, ...]
    classes: tuple[str, ...]
    min_counts: tuple[int, ...]
    degraded: tuple[str, ...]
    """The gang's current and minimum number of members in words; empty if it is not degraded."""


class PodTable(Document, frozen=True, kw_only=True):
    """Pods as columns, by workload. `nodes`, `nominated`: indexes in the table of nodes, -1 for none.

    `blocks`, `cpu`, `memory`: requests in the units of the nodes. `labels`: index in `label_sets`, -1 if the labels are
    omitted. `starts`: seconds since the epoch, 0 if unknown.
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
    """The state of the cluster. `block`: the resource that is drawn as blocks, empty if no node has one.

    `pods_total`: the total number of pods; the tables may contain only the first ones.
    """

    block: str
    nodes: NodeTable
    workloads: WorkloadTable
    pods: PodTable
    pods_total: int


class PageDocument(Document, frozen=True, kw_only=True):
    """All data that the views show.

    `before`: for a plan, the cluster before it. `plan`: the document of `plan -o json`. `text`: its text. `replay`,
    `shadow`: the view of a replay or shadow report. `records`: preemptions and the last record of each pending
    workload, newest first. `sentences`: a summary for each view. `warnings`: the first of `warnings_total` parts of a
    plan's input that were ignored or not understood. `complete`: whether the reader may see all namespaces. `past`:
    whether this is the state of the cluster at `time`.
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
