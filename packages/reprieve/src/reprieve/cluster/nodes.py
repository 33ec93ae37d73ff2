"""Nodes as columns.

A node is a *row*. `allocatable` and `used` are `int64[columns, rows]`, with the columns and units of
`reprieve.cluster.resources`. Labels become columns of interned values when a plugin first reads the key; taints are
interned as sets. Rows of removed nodes are reused when their last pod has ended. A resource gets its column when the
first pod requests it. Until then its amounts are stored by node, so that unused resources cost little memory. A
resource that device classes serve (KEP-5004) has the amount `SERVED` on a node without its own: the comparison of
amounts passes, and the devices decide.

Invariants: `used[:, row]` is always the sum of the deltas of the pods in `pods[row]`. `rank` orders rows by node name,
so that ties go to the first name (scheduling.md 2) regardless of the order of arrival.
"""

from collections.abc import Collection, Mapping

import numpy as np
import numpy.typing as npt

from kube_rules import objects
from kube_rules.node_features import decisive
from kube_rules.requests import resource_list
from reprieve.cluster.nominated_amounts import NominatedAmounts
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.resources import CPU, LIMIT, MEMORY, SCORING_CPU, SCORING_MEMORY, SERVED, ResourceTable
from reprieve.cluster.signature import HostPort
from reprieve.cluster.small_sets import Few, each, joined, left

Taint = tuple[str, str, str]
"""(key, value, effect)."""

_STEP = 64
ABSENT = -1
_ANY_IP = ("", "0.0.0.0")


class NodeColumns:
    """All nodes of the cluster cache; see the module docstring for layout and invariants."""

    def __init__(self) -> None:
        resources = self.resource_table = ResourceTable(self._is_offered)
        self.names: list[str] = []
        self.row_of: dict[str, int] = {}
        self.labels: list[Mapping[str, str]] = []
        self.pods: list[dict[str, PodRecord]] = []
        """By row: pods bound to or assumed on the node, by UID."""
        self.ports: list[dict[HostPort, int] | None] = []
        """By row: host ports in use with the number of pods; None on a row where no pod ever used one."""
        self.nominated: dict[int, dict[str, PodRecord]] = {}
        """By row: pods nominated to the node, by UID; rows without any are left out."""
        self.nominations = 0
        """The number of nominations ever set or cleared."""
        self.nominated_amounts = NominatedAmounts()
        """The nominated pods as columns."""
        self.images: dict[str, Few[int]] = {}
        """Image name -> rows of the nodes that list it in their status."""
        self._images_on: dict[int, tuple[objects.ContainerImage, ...]] = {}
        self._unrequested: dict[str, dict[int, int]] = {}
        """Resource without a column -> row -> amount."""
        self._unrequested_on: dict[int, tuple[str, ...]] = {}
        self._by_devices: dict[str, npt.NDArray[np.bool_]] = {}
        """Resource that device classes serve -> `bool[rows]`: nodes without an amount of their own."""
        self._filled = len(resources)
        """The number of filled columns; `fit_columns` fills those of later resources."""
        self._free: list[int] = []
        self.count = 0
        self.alive: npt.NDArray[np.bool_] = np.zeros(_STEP, dtype=np.bool_)
        self.unschedulable: npt.NDArray[np.bool_] = np.zeros(_STEP, dtype=np.bool_)
        self.taint_set: npt.NDArray[np.int32] = np.zeros(_STEP, dtype=np.int32)
        self.allocatable: npt.NDArray[np.int64] = np.zeros((resources.capacity, _STEP), dtype=np.int64)
        self.used: npt.NDArray[np.int64] = np.zeros((resources.capacity, _STEP), dtype=np.int64)
        self._rank: npt.NDArray[np.int64] | None = None
        self._label_columns: dict[str, tuple[npt.NDArray[np.int32], dict[str, int]]] = {}
        self._label_keys: set[str] = set()
        """Label keys that a node has or had; other keys that pods name get no column."""
        self._unlabelled: npt.NDArray[np.int32] = np.full(_STEP, ABSENT, dtype=np.int32)
        self.taint_sets: list[tuple[Taint, ...]] = [()]
        self._taint_set_id: dict[tuple[Taint, ...], int] = {(): 0}
        self.feature_set: npt.NDArray[np.int32] = np.zeros(_STEP, dtype=np.int32)
        """`int32[rows]`: index in `feature_sets` of the relevant declared features."""
        self.feature_sets: list[frozenset[str]] = [frozenset()]
        """At most one entry for each subset of `node_features.NEEDS`."""
        self.no_resize_preemption: set[int] = set()
        """Rows of nodes with a policy against evictions for resizes in place (KEP-5836)."""
        self.static_version = 0
        """Increases with every change of a node other than allocatable amounts and pods."""
        self._changed_at: npt.NDArray[np.int64] = np.zeros(_STEP, dtype=np.int64)
        """By row: `static_version` after the row's last such change."""

    @property
    def version(self) -> tuple[int, int]:
        """Return a value that changes with the number of rows and with `static_version`."""
        return self.static_version, len(self.names)

    def changed_since(self, version: int) -> list[int]:
        """Return the rows that changed after `static_version` was `version`."""
        return np.flatnonzero(self._changed_at[: len(self.names)] > version).tolist()

    def __len__(self) -> int:
        """Return the number of rows, including unused ones: read arrays as `[:len(nodes)]`."""
        return len(self.names)

    @property
    def rank(self) -> npt.NDArray[np.int64]:
        """Return `int64[rows]`: the position of each row's node in the order of names."""
        if self._rank is None:
            order = sorted(range(len(self.names)), key=self.names.__getitem__)
            self._rank = np.empty(len(order), dtype=np.int64)
            self._rank[order] = np.arange(len(order))
        return self._rank

    def label_column(self, key: str) -> tuple[npt.NDArray[np.int32], dict[str, int]]:
        """Return `int32[rows]` of value numbers of a label key (ABSENT if missing), and value -> number."""
        cached = self._label_columns.get(key)
        if cached is None:
            if key not in self._label_keys:
                return self._unlabelled[: len(self.names)], {}
            column = np.full(len(self.alive), ABSENT, dtype=np.int32)
            numbers: dict[str, int] = {}
            for row, labels in enumerate(self.labels):
                value = labels.get(key)
                if value is not None:
                    column[row] = numbers.setdefault(value, len(numbers))
            cached = self._label_columns[key] = (column, numbers)
        return cached[0][: len(self.names)], cached[1]

    def _is_offered(self, resource: str) -> bool:
        """Return whether a node or a device class offers a resource without a column."""
        return resource in self._unrequested or resource in self._by_devices

    def set_node(self, node: objects.Node) -> tuple[int, bool]:
        """Add or update a node; return its row and whether anything that plugins read changed.

        Raises `kube_rules.quantity.QuantityError` for an invalid amount.
        """
        name = node.metadata.name
        amounts = resource_list(node.status.allocatable or {})
        self.fit_columns()
        wanted = {resource: amount for resource, amount in amounts.items() if resource in self.resource_table}
        allocatable = self.resource_table.vector(wanted)
        allocatable[SCORING_CPU] = allocatable[CPU]
        allocatable[SCORING_MEMORY] = allocatable[MEMORY]
        row = self._row_for(name)
        self._set_unrequested(row, {resource: amount for resource, amount in amounts.items() if resource not in wanted})
        changed = not self.alive[row]
        if not self.alive[row]:
            self.alive[row] = True
            self.count += 1
            self._changed(row)
        for resource, served in self._by_devices.items():
            served[row] = not amounts.get(resource)
            if resource in self.resource_table and served[row]:
                allocatable[self.resource_table.column(resource)] = SERVED
        if not np.array_equal(self.allocatable[:, row], allocatable):
            self.allocatable[:, row] = allocatable
            changed = True
        taints = tuple((t.key, t.value or "", t.effect) for t in node.spec.taints or ())
        features = self._intern_features(decisive(node.status.declared_features))
        static = (bool(node.spec.unschedulable), self._intern_taints(taints), features)
        if static != (bool(self.unschedulable[row]), int(self.taint_set[row]), int(self.feature_set[row])):
            self.unschedulable[row], self.taint_set[row], self.feature_set[row] = static
            self._changed(row)
            changed = True
        labels = node.metadata.labels or {}
        if labels != self.labels[row]:
            self.labels[row] = labels
            self._label_keys.update(labels)
            for key, (column, numbers) in self._label_columns.items():
                value = labels.get(key)
                column[row] = ABSENT if value is None else numbers.setdefault(value, len(numbers))
            self._changed(row)
            changed = True
        policy = node.spec.pod_preemption_policy
        disabled = policy is not None and bool(policy.disable_resize_preemption)
        if disabled != (row in self.no_resize_preemption):
            (self.no_resize_preemption.add if disabled else self.no_resize_preemption.discard)(row)
            changed = changed or not disabled  # a policy that forbids evictions helps no resize
        # Images affect scores but never feasibility: no pod waits for them.
        self._set_images(row, node.status.images or ())
        return row, changed

    def remove_node(self, name: str) -> int | None:
        """Remove a node; its pods stay on the dead row until they end. Return the row, None if unknown."""
        row = self.row_of.get(name)
        if row is None or not self.alive[row]:
            return None
        self.alive[row] = False
        self.count -= 1
        self._changed(row)
        self.no_resize_preemption.discard(row)
        self._set_images(row, ())
        self.release(row)
        return row

    def release(self, row: int) -> None:
        """Make a dead row without pods reusable."""
        if self.alive[row] or self.pods[row] or row in self.nominated:
            return
        if self.row_of.get(self.names[row]) == row:
            del self.row_of[self.names[row]]
            self._free.append(row)
            self.allocatable[:, row] = 0
            for by_device in self._by_devices.values():
                by_device[row] = False
            self._set_unrequested(row, {})

    def row_for_pod(self, name: str) -> int:
        """Return the row of a bound pod's node, or a new dead row for an unknown node."""
        return self._row_for(name)

    def fit_columns(self) -> None:
        """Grow the arrays to the size of the resource table and fill the columns of new resources."""
        if self._filled == len(self.resource_table.names):
            return
        missing = self.resource_table.capacity - self.used.shape[0]
        if missing > 0:
            more = np.zeros((missing, self.used.shape[1]), dtype=np.int64)
            self.used = np.vstack([self.used, more])
            self.allocatable = np.vstack([self.allocatable, more])
        for column in range(self._filled, len(self.resource_table)):
            for row, amount in self._unrequested.pop(self.resource_table.names[column], {}).items():
                self.allocatable[column, row] = min(amount, LIMIT)
            served = self._by_devices.get(self.resource_table.names[column])
            if served is not None:
                self.allocatable[column, served] = SERVED
        self._filled = len(self.resource_table)

    def serve(self, resources: Collection[str]) -> None:
        """Set the resources that device classes serve on nodes without their own."""
        self.fit_columns()
        if self._by_devices.keys() == set(resources):
            return
        for resource in self._by_devices.keys() - set(resources):
            served = self._by_devices.pop(resource)
            if resource in self.resource_table:
                self.allocatable[self.resource_table.column(resource), served] = 0
        for resource in set(resources) - self._by_devices.keys():
            served = self._by_devices[resource] = self.alive.copy()
            if resource in self.resource_table:
                column = self.resource_table.column(resource)
                served &= self.allocatable[column] == 0
                self.allocatable[column, served] = SERVED
            else:
                served[[row for row, amount in self._unrequested.get(resource, {}).items() if amount]] = False
        self._changed(slice(None))

    def by_devices(self, resource: str) -> npt.NDArray[np.bool_]:
        """Return `bool[rows]`: the nodes on which device classes serve a resource."""
        served = self._by_devices.get(resource)
        return (served if served is not None else np.zeros_like(self.alive))[: len(self.names)]

    def stated(self, column: int) -> npt.NDArray[np.int64]:
        """Return `int64[rows]`: the nodes' own amounts of a resource."""
        have = self.allocatable[column, : len(self.names)]
        served = self._by_devices.get(self.resource_table.names[column]) if self._by_devices else None
        return have if served is None else np.where(served[: len(self.names)], 0, have)

    def rows_with_image(self, name: str) -> Collection[int]:
        """Return the rows of the nodes that have an image. Do not store it: it may change with the nodes."""
        return each(self.images.get(name))

    def image_size(self, name: str, row: int) -> int:
        """Return the size in bytes of an image on a node, the first if several have the name."""
        return next(image.size_bytes for image in self._images_on[row] if name in image.names)

    @property
    def resources(self) -> list[str]:
        """Return the names of all resources of nodes, requested by pods or not, sorted."""
        requested = [name for column, name in enumerate(self.resource_table.names) if self.allocatable[column].any()]
        return sorted({*requested, *(name for name, rows in self._unrequested.items() if any(rows.values()))})

    def has(self, resource: str) -> npt.NDArray[np.int64]:
        """Return `int64[rows]`: the nodes' own amounts of a resource, requested by pods or not."""
        if resource in self.resource_table and self.resource_table.column(resource) < self._filled:
            return self.stated(self.resource_table.column(resource))
        result = np.zeros(len(self.names), dtype=np.int64)
        for row, amount in self._unrequested.get(resource, {}).items():
            result[row] = min(amount, LIMIT)
        return result

    def conflicting_port(self, row: int, ports: tuple[HostPort, ...]) -> HostPort | None:
        """Return the first of the wanted host ports that conflicts with a used one.

        Ports conflict if protocol and port are equal and the addresses are equal or one is the wildcard.
        """
        used = self.ports[row]
        if not used:
            return None
        for wanted in ports:
            protocol, address, port = wanted
            if address in _ANY_IP:
                if any(p == port and proto == protocol for proto, _, p in used):
                    return wanted
            elif wanted in used or any((protocol, wild, port) in used for wild in _ANY_IP):
                return wanted
        return None

    def _set_unrequested(self, row: int, amounts: Mapping[str, int]) -> None:
        for resource in self._unrequested_on.pop(row, ()):
            amounts_by_row = self._unrequested.get(resource, {})
            amounts_by_row.pop(row, None)
            if not amounts_by_row:
                self._unrequested.pop(resource, None)
        if amounts:
            self._unrequested_on[row] = tuple(amounts)
            for resource, amount in amounts.items():
                self._unrequested.setdefault(resource, {})[row] = amount

    def _set_images(self, row: int, images: tuple[objects.ContainerImage, ...]) -> None:
        before = self._images_on.get(row, ())
        if images == before:
            return
        had, has = _names(before), _names(images)
        for name in had - has:
            remaining = left(self.images[name], row)
            if remaining is None:
                del self.images[name]
            else:
                self.images[name] = remaining
        for name in has - had:
            self.images[name] = joined(self.images.get(name), row)
        if images:
            self._images_on[row] = images
        else:
            del self._images_on[row]
        self._changed(row)

    def _changed(self, row: int | slice) -> None:
        self.static_version += 1
        self._changed_at[row] = self.static_version

    def _row_for(self, name: str) -> int:
        row = self.row_of.get(name)
        if row is not None:
            return row
        if self._free:
            row = self._free.pop()
            self.names[row] = name
            self.labels[row] = {}
        else:
            row = len(self.names)
            if row >= len(self.alive):
                self._widen()
            self.names.append(name)
            self.labels.append({})
            self.pods.append({})
            self.ports.append(None)
        for column, _ in self._label_columns.values():
            column[row] = ABSENT
        self.taint_set[row] = 0
        self.unschedulable[row] = False
        self.feature_set[row] = 0
        self.row_of[name] = row
        self._rank = None
        self._changed(row)
        return row

    def _widen(self) -> None:
        more = max(_STEP, len(self.alive))
        self.alive = np.concatenate([self.alive, np.zeros(more, dtype=np.bool_)])
        self._changed_at = np.concatenate([self._changed_at, np.zeros(more, dtype=np.int64)])
        self.unschedulable = np.concatenate([self.unschedulable, np.zeros(more, dtype=np.bool_)])
        self.taint_set = np.concatenate([self.taint_set, np.zeros(more, dtype=np.int32)])
        self.feature_set = np.concatenate([self.feature_set, np.zeros(more, dtype=np.int32)])
        for resource, served in self._by_devices.items():
            self._by_devices[resource] = np.concatenate([served, np.zeros(more, dtype=np.bool_)])
        block = np.zeros((self.used.shape[0], more), dtype=np.int64)
        self.used = np.hstack([self.used, block])
        self.allocatable = np.hstack([self.allocatable, block])
        self._unlabelled = np.full(len(self.alive), ABSENT, dtype=np.int32)
        for key, (column, numbers) in list(self._label_columns.items()):
            absent = np.full(more, ABSENT, dtype=np.int32)
            self._label_columns[key] = (np.concatenate([column, absent]), numbers)

    def _intern_features(self, features: frozenset[str]) -> int:
        if features not in self.feature_sets:
            self.feature_sets.append(features)
        return self.feature_sets.index(features)

    def _intern_taints(self, taints: tuple[Taint, ...]) -> int:
        result = self._taint_set_id.get(taints)
        if result is None:
            result = self._taint_set_id[taints] = len(self.taint_sets)
            self.taint_sets.append(taints)
        return result


def _names(images: tuple[objects.ContainerImage, ...]) -> set[str]:
    return {name for image in images for name in image.names}
