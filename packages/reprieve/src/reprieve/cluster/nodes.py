"""Nodes as columns.

A node is a *row*.  `allocatable` and `used` are `int64[columns, rows]` (columns: `reprieve.cluster.resources`, units
there); labels become columns of interned values when a plugin first asks for the key; taints are interned as sets.
Rows of removed nodes are reused when their last pod has ended.  A resource gets its column when the first pod asks for
it: until then what nodes have of it is kept by node, so that nodes with many resources of their own cost what they say.

Of a resource that device classes serve (KEP-5004) a node that has none of its own has `SERVED`: a comparison of
numbers lets the pod pass, and the devices decide.

Invariants: `used[:, row]` is the sum of the deltas of the pods in `pods[row]`, always; `rank` orders rows by node name,
so ties go to the first name (scheduling.md 2) whatever the order of arrival.
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

    def __init__(self, resources: ResourceTable) -> None:
        self._resources = resources
        self.names: list[str] = []
        self.row_of: dict[str, int] = {}
        self.labels: list[Mapping[str, str]] = []
        self.pods: list[dict[str, PodRecord]] = []
        """By row: pods bound to or assumed on the node, by UID."""
        self.ports: list[dict[HostPort, int] | None] = []
        """By row: host ports in use and by how many pods; None where no pod ever used one."""
        self.nominated: dict[int, dict[str, PodRecord]] = {}
        """By row, only where there are any: pods nominated to the node, by UID."""
        self.nominations = 0
        """How often one was made or taken back."""
        self.nominated_amounts = NominatedAmounts()
        """The same pods as columns."""
        self.images: dict[str, Few[int]] = {}
        """Image name -> rows of the nodes of which the status lists it."""
        self._images_on: dict[int, tuple[objects.ContainerImage, ...]] = {}
        self._unasked: dict[str, dict[int, int]] = {}
        """Resource without a column -> row -> amount."""
        self._unasked_on: dict[int, tuple[str, ...]] = {}
        self._by_devices: dict[str, npt.NDArray[np.bool_]] = {}
        """Resource that device classes serve -> `bool[rows]`: where they do, as the node has none of its own."""
        resources.offered = lambda name: name in self._unasked or name in self._by_devices
        self._filled = len(resources)
        """Columns that hold what the nodes have; those of later resources are filled by `fit_columns`."""
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
        """Label keys that a node has or had: pods may ask for any others, and these get no column of their own."""
        self._unlabelled: npt.NDArray[np.int32] = np.full(_STEP, ABSENT, dtype=np.int32)
        self.taint_sets: list[tuple[Taint, ...]] = [()]
        self._taint_set_id: dict[tuple[Taint, ...], int] = {(): 0}
        self.feature_set: npt.NDArray[np.int32] = np.zeros(_STEP, dtype=np.int32)
        """`int32[rows]`: the declared features that decide something, by place in `feature_sets`."""
        self.feature_sets: list[frozenset[str]] = [frozenset()]
        """No more than there are subsets of `node_features.NEEDS`."""
        self.no_resize_preemption: set[int] = set()
        """Rows of nodes with a policy against evictions for resizes in place (KEP-5836)."""
        self.static_version = 0
        """Grows whenever anything but allocatable amounts and pods changes on any node."""
        self._changed_at: npt.NDArray[np.int64] = np.zeros(_STEP, dtype=np.int64)
        """By row: `static_version` after the last such change there."""

    @property
    def version(self) -> tuple[int, int]:
        """Equal as long as there are as many rows and nothing but allocatable amounts and pods changes on any node."""
        return self.static_version, len(self.names)

    def changed_since(self, version: int) -> list[int]:
        """Return the rows on which `static_version` has grown since it was `version`."""
        return np.flatnonzero(self._changed_at[: len(self.names)] > version).tolist()

    def __len__(self) -> int:
        """Rows in use or once used: arrays are to be read as `[:len(nodes)]`."""
        return len(self.names)

    @property
    def rank(self) -> npt.NDArray[np.int64]:
        """`int64[rows]`: position of each row's node in the order of names."""
        if self._rank is None:
            order = sorted(range(len(self.names)), key=self.names.__getitem__)
            self._rank = np.empty(len(order), dtype=np.int64)
            self._rank[order] = np.arange(len(order))
        return self._rank

    def label_column(self, key: str) -> tuple[npt.NDArray[np.int32], dict[str, int]]:
        """`int32[rows]` of value numbers for a label key (ABSENT where missing), and value -> number."""
        found = self._label_columns.get(key)
        if found is None:
            if key not in self._label_keys:
                return self._unlabelled[: len(self.names)], {}
            column = np.full(len(self.alive), ABSENT, dtype=np.int32)
            numbers: dict[str, int] = {}
            for row, labels in enumerate(self.labels):
                value = labels.get(key)
                if value is not None:
                    column[row] = numbers.setdefault(value, len(numbers))
            found = self._label_columns[key] = (column, numbers)
        return found[0][: len(self.names)], found[1]

    def set_node(self, node: objects.Node) -> tuple[int, bool]:
        """Add or update a node; returns its row and whether anything the plugins read has changed.

        Raises `kube_rules.quantity.QuantityError` where an amount does not parse.
        """
        name = node.metadata.name
        amounts = resource_list(node.status.allocatable or {})
        self.fit_columns()
        asked = {resource: amount for resource, amount in amounts.items() if resource in self._resources}
        allocatable = self._resources.vector(asked)
        allocatable[SCORING_CPU] = allocatable[CPU]
        allocatable[SCORING_MEMORY] = allocatable[MEMORY]
        row = self._row_for(name)
        self._set_unasked(row, {resource: amount for resource, amount in amounts.items() if resource not in asked})
        changed = not self.alive[row]
        if not self.alive[row]:
            self.alive[row] = True
            self.count += 1
            self._changed(row)
        for resource, there in self._by_devices.items():
            there[row] = not amounts.get(resource)
            if resource in self._resources and there[row]:
                allocatable[self._resources.column(resource)] = SERVED
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
        # Images rank nodes but never make one fit: no pod waits for them.
        self._set_images(row, node.status.images or ())
        return row, changed

    def remove_node(self, name: str) -> int | None:
        """Take a node out; its pods, if any, stay on the dead row until they go. Returns the row, None if unknown."""
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
            self._set_unasked(row, {})

    def row_for_pod(self, name: str) -> int:
        """The row of the node a bound pod names; a dead row is made for a node not (yet) known."""
        return self._row_for(name)

    def fit_columns(self) -> None:
        """Make the arrays as tall as the resource table, and fill in what nodes have of resources new in it."""
        if self._filled == len(self._resources.names):
            return
        missing = self._resources.capacity - self.used.shape[0]
        if missing > 0:
            more = np.zeros((missing, self.used.shape[1]), dtype=np.int64)
            self.used = np.vstack([self.used, more])
            self.allocatable = np.vstack([self.allocatable, more])
        for column in range(self._filled, len(self._resources)):
            for row, amount in self._unasked.pop(self._resources.names[column], {}).items():
                self.allocatable[column, row] = min(amount, LIMIT)
            served = self._by_devices.get(self._resources.names[column])
            if served is not None:
                self.allocatable[column, served] = SERVED
        self._filled = len(self._resources)

    def serve(self, resources: Collection[str]) -> None:
        """From now on device classes serve these resources, and no others, on nodes that have none of their own."""
        self.fit_columns()
        if self._by_devices.keys() == set(resources):
            return
        for resource in self._by_devices.keys() - set(resources):
            there = self._by_devices.pop(resource)
            if resource in self._resources:
                self.allocatable[self._resources.column(resource), there] = 0
        for resource in set(resources) - self._by_devices.keys():
            there = self._by_devices[resource] = self.alive.copy()
            if resource in self._resources:
                column = self._resources.column(resource)
                there &= self.allocatable[column] == 0
                self.allocatable[column, there] = SERVED
            else:
                there[[row for row, amount in self._unasked.get(resource, {}).items() if amount]] = False
        self._changed(slice(None))

    def by_devices(self, resource: str) -> npt.NDArray[np.bool_]:
        """`bool[rows]`: where device classes serve a resource."""
        found = self._by_devices.get(resource)
        return (found if found is not None else np.zeros_like(self.alive))[: len(self.names)]

    def stated(self, column: int) -> npt.NDArray[np.int64]:
        """`int64[rows]`: what nodes have of a resource themselves."""
        have = self.allocatable[column, : len(self.names)]
        served = self._by_devices.get(self._resources.names[column]) if self._by_devices else None
        return have if served is None else np.where(served[: len(self.names)], 0, have)

    def rows_with_image(self, name: str) -> Collection[int]:
        """Return the rows of the nodes that have an image; not to be kept, as it may follow what happens to them."""
        return each(self.images.get(name))

    def image_size(self, name: str, row: int) -> int:
        """Return the bytes of an image that a node has; of several with this name the first counts."""
        return next(image.size_bytes for image in self._images_on[row] if name in image.names)

    @property
    def resources(self) -> list[str]:
        """Return the names of all resources that a node states, asked for by pods or not, sorted."""
        asked = [name for column, name in enumerate(self._resources.names) if self.allocatable[column].any()]
        return sorted({*asked, *(name for name, rows in self._unasked.items() if any(rows.values()))})

    def has(self, resource: str) -> npt.NDArray[np.int64]:
        """`int64[rows]`: what nodes state of a resource, asked for by pods or not."""
        if resource in self._resources and self._resources.column(resource) < self._filled:
            return self.stated(self._resources.column(resource))
        result = np.zeros(len(self.names), dtype=np.int64)
        for row, amount in self._unasked.get(resource, {}).items():
            result[row] = min(amount, LIMIT)
        return result

    def conflicting_port(self, row: int, ports: tuple[HostPort, ...]) -> HostPort | None:
        """Return the first of the wanted host ports that is taken on the node.

        Taken: the same protocol and port, and the same address, or the wildcard on either side.
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

    def _set_unasked(self, row: int, amounts: Mapping[str, int]) -> None:
        for resource in self._unasked_on.pop(row, ()):
            there = self._unasked.get(resource, {})
            there.pop(row, None)
            if not there:
                self._unasked.pop(resource, None)
        if amounts:
            self._unasked_on[row] = tuple(amounts)
            for resource, amount in amounts.items():
                self._unasked.setdefault(resource, {})[row] = amount

    def _set_images(self, row: int, images: tuple[objects.ContainerImage, ...]) -> None:
        before = self._images_on.get(row, ())
        if images == before:
            return
        had, has = _names(before), _names(images)
        for name in had - has:
            there = left(self.images[name], row)
            if there is None:
                del self.images[name]
            else:
                self.images[name] = there
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
        for resource, there in self._by_devices.items():
            self._by_devices[resource] = np.concatenate([there, np.zeros(more, dtype=np.bool_)])
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
