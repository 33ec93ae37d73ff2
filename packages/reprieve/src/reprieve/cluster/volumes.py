"""Volumes, claims, classes and attachments: storage in the cluster cache.

Objects are stored as in the API, with three kinds of derived data:

- *users*: the number of placed pods of a claim, which `ClusterState` updates with every placement;
- *reservations*: decisions that the API does not show yet: a volume reserved for a claim, or a node selected to
  provision a claim. They last until the API shows them or they are released. Trials ignore them: a pod removed in a
  trial keeps its volumes, so that preemption never relies on them;
- *unsettled* pods: placed inside a trial without a reservation. Later pods see the volumes chosen for earlier ones.
  Undoing a trial removes them.

Invariant: everything but the reservations is derived from the objects and the placements.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kube_rules.controllers.volumes import class_of, refers_to
from kube_rules.meta import KubernetesObject
from kube_rules.storage import (
    BIND_COMPLETED,
    SELECTED_NODE,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from reprieve.cluster.pods import PodRecord

VOLUME_KINDS = (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    CSINode,
    CSIDriver,
    CSIStorageCapacity,
    VolumeAttachment,
)
VolumeObject = (
    PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
)

ONCE_POD = "ReadWriteOncePod"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
"""Annotation of a CSINode: in-tree plugins with volumes that its drivers serve."""
_MOST_STALE = 1 << 14
"""The maximum number of nodes that are marked individually as stale."""


@dataclass(slots=True)
class Reservation:
    """The claims a pod waits for, by key; `volumes`: claim -> volume, `provisioned`: to be provisioned for `node`.

    `awaited`: claims that another pod is already binding.
    """

    node: str
    volumes: dict[str, str] = field(default_factory=dict)
    provisioned: tuple[str, ...] = ()
    awaited: tuple[str, ...] = ()


@dataclass(slots=True)
class StaleAttachments:
    """The rows and nodes with attachments to recount because of changed objects."""

    rows: set[int] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    """By name: an object about a node may exist before the node."""
    everything: bool = True

    def settle(self) -> None:
        """Mark everything as stale if too many nodes are marked, to bound the size between queries."""
        if len(self.nodes) > _MOST_STALE:
            self.everything = True
            self.nodes.clear()

    def clear(self) -> None:
        """Clear all marks after a recount."""
        self.rows.clear()
        self.nodes.clear()
        self.everything = False


@dataclass(slots=True)
class AssumedPodVolumes:
    """A pod placed in a trial; `turn` increases with each. `chosen`: keys of claims to provision for its node.

    `taken`: volume -> claim as chosen, None: not chosen yet.
    """

    pod: PodRecord
    row: int
    turn: int
    taken: dict[str, str] | None = None
    chosen: frozenset[str] = frozenset()


def key_of(item: KubernetesObject) -> str:
    """Return `namespace/name` of a claim or a capacity, the name of any other object."""
    if type(item).NAMESPACED:
        return f"{item.metadata.namespace or 'default'}/{item.metadata.name}"
    return item.metadata.name


def not_found(name: str) -> str:
    """Return the API's message for a missing claim."""
    return f'persistentvolumeclaim "{name}" not found'


def fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Return whether the binding is complete on both sides, as the PV controller reports it."""
    return bool(claim.spec.volume_name) and (
        BIND_COMPLETED in claim.metadata.annotations or claim.status.phase == "Bound"
    )


class VolumeObjects:
    """See the module docstring. Keys are those of `key_of`."""

    def __init__(self) -> None:
        self.version = 0
        """Increases with every change of an object."""
        self.volumes: dict[str, PersistentVolume] = {}
        self.claims: dict[str, PersistentVolumeClaim] = {}
        self.classes: dict[str, StorageClass] = {}
        self.csi_nodes: dict[str, CSINode] = {}
        self.drivers: dict[str, CSIDriver] = {}
        self.capacities: dict[str, CSIStorageCapacity] = {}
        self.attachments: dict[str, VolumeAttachment] = {}
        self.stale = StaleAttachments()
        self._attached_to: dict[str, dict[str, VolumeAttachment]] = {}
        """Node -> attachments by name."""
        self._nodes_of: dict[str, dict[str, str]] = {}
        """Volume -> name of an attachment -> node."""
        self._named_by: dict[str, set[str]] = {}
        """Volume -> claims that name it."""
        self._rows_of: dict[str, dict[int, int]] = {}
        """Claim -> row -> number of references by pods there."""
        self.by_class: dict[str, dict[str, PersistentVolume]] = {}
        """Storage class -> volumes by name."""
        self.users: dict[str, int] = {}
        """Claim -> number of references by placed pods."""
        self.reservations: dict[str, Reservation] = {}
        """By UID of the pod."""
        self.kept: dict[str, str] = {}
        """Volume -> claim it is reserved for."""
        self.selected: dict[str, str] = {}
        """Claim -> node selected for provisioning."""
        self.unsettled: dict[str, AssumedPodVolumes] = {}
        """By UID, in the order of placement."""

    # -- objects -----------------------------------------------------------------------------------------------------

    def set(self, item: VolumeObject) -> VolumeObject | None:
        """Add or update an object; return its previous version."""
        table, key = self._table(type(item).__name__), key_of(item)
        before: VolumeObject | None = table.get(key)
        if before == item:
            return before
        table[key] = item
        self.version += 1
        self._note(key, before, item)
        if isinstance(before, PersistentVolume):
            self._unlist(before)
        if isinstance(item, PersistentVolume):
            self.by_class.setdefault(class_of(item), {})[key] = item
            reserved_for, ref = self.kept.get(key), item.spec.claim_ref
            if reserved_for is not None and ref is not None and (ref.uid or not refers_to(item, reserved_for, "")):
                del self.kept[key]  # the API shows the claim of the volume
        elif isinstance(item, PersistentVolumeClaim) and (fully_bound(item) or SELECTED_NODE in _annotations(item)):
            self.selected.pop(key, None)
        return before

    def remove(self, kind: str, namespace: str, name: str) -> VolumeObject | None:
        """Remove a deleted object; return its last version."""
        key = f"{namespace or 'default'}/{name}" if kind in _NAMESPACED else name
        result: VolumeObject | None = self._table(kind).pop(key, None)
        if result is None:
            return None
        self.version += 1
        self._note(key, result, None)
        if isinstance(result, PersistentVolume):
            self._unlist(result)
            self.kept.pop(key, None)
        elif isinstance(result, PersistentVolumeClaim):
            self.selected.pop(key, None)
        return result

    # -- pods --------------------------------------------------------------------------------------------------------

    def placed(self, pod: PodRecord, row: int, *, tentative: bool) -> None:
        """Record a pod with volumes on a row; `tentative`: in a trial, before further pods."""
        assert pod.volumes is not None
        for claim in pod.volumes.claims:
            self.users[claim.key] = self.users.get(claim.key, 0) + 1
            pods_by_row = self._rows_of.setdefault(claim.key, {})
            pods_by_row[row] = pods_by_row.get(row, 0) + 1
        if tentative and not pod.bound and pod.uid not in self.reservations:
            last = next(reversed(self.unsettled.values()), None)
            self.unsettled[pod.uid] = AssumedPodVolumes(pod, row, last.turn + 1 if last is not None else 0)

    def displaced(self, pod: PodRecord, row: int) -> AssumedPodVolumes | None:
        """Remove a pod with volumes from its row; return its entry in `unsettled`, for `unsettle`."""
        assert pod.volumes is not None
        for claim in pod.volumes.claims:
            left = self.users[claim.key] - 1
            if left:
                self.users[claim.key] = left
            else:
                del self.users[claim.key]
            pods_by_row = self._rows_of[claim.key]
            pods_by_row[row] -= 1
            if not pods_by_row[row]:
                del pods_by_row[row]
            if not pods_by_row:
                del self._rows_of[claim.key]
        return self.unsettled.pop(pod.uid, None)

    def unsettle(self, entry: AssumedPodVolumes) -> None:
        """Restore a displaced pod of an outer trial in `unsettled`, at its former position."""
        later = [uid for uid, later_entry in self.unsettled.items() if later_entry.turn > entry.turn]
        self.unsettled[entry.pod.uid] = entry
        for uid in later:
            self.unsettled[uid] = self.unsettled.pop(uid)

    # -- reservations ------------------------------------------------------------------------------------------------

    def reserve(self, uid: str, reservation: Reservation) -> None:
        """Reserve volumes and nodes for a pod's claims until the API shows them or they are released."""
        self.give_back(uid)
        self.reservations[uid] = reservation
        for claim, volume in reservation.volumes.items():
            self.kept[volume] = claim
        for claim in reservation.provisioned:
            self.selected[claim] = reservation.node

    def give_back(self, uid: str) -> None:
        """Release the reservation of a pod, if any."""
        reservation = self.reservations.pop(uid, None)
        if reservation is None:
            return
        for claim, volume in reservation.volumes.items():
            if self.kept.get(volume) == claim:
                del self.kept[volume]
        for claim in reservation.provisioned:
            if self.selected.get(claim) == reservation.node:
                del self.selected[claim]

    def settled(self, uid: str) -> None:
        """Drop the reservation of a bound pod; the API shows its claims as bound, or will soon."""
        self.reservations.pop(uid, None)

    def node_of(self, claim: PersistentVolumeClaim) -> str | None:
        """Return the node for which a claim is (to be) provisioned, by the API or by a reservation."""
        noted = claim.metadata.annotations.get(SELECTED_NODE)
        return noted if noted is not None else self.selected.get(key_of(claim))

    def has_volume_for(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool | None:
        """Return whether a volume is reserved for this claim; None: it is free."""
        key = key_of(claim)
        reserved_for = self.kept.get(volume.metadata.name)
        if reserved_for is not None:
            return reserved_for == key
        if volume.spec.claim_ref is None:
            return None
        return refers_to(volume, key, claim.metadata.uid)

    # -- for tests ---------------------------------------------------------------------------------------------------

    def digest(self) -> tuple[object, ...]:
        """Return all data that a plugin can read in addition to the objects."""
        return (self.version, sorted(self.users.items()), sorted(self.kept.items()), sorted(self.selected.items()))

    def check(self, pods: Iterable[PodRecord]) -> None:
        """Compare the users with the pods. Raises AssertionError on a difference."""
        users: dict[str, int] = {}
        for pod in pods:
            for claim in pod.volumes.claims if pod.volumes is not None and pod.row >= 0 else ():
                users[claim.key] = users.get(claim.key, 0) + 1
        assert users == self.users, f"users of claims are off: {self.users}, not {users}"
        reserved = [volume for r in self.reservations.values() for volume in r.volumes.values()]
        assert not self.unsettled, f"choices of a trial are left: {sorted(self.unsettled)}"
        assert len(reserved) == len(set(reserved)), f"a volume is reserved twice: {sorted(reserved)}"

    # -- attachments -------------------------------------------------------------------------------------------------

    def attachments_on(self, node: str) -> Iterable[VolumeAttachment]:
        """Return the attachments of a node in the API."""
        return self._attached_to.get(node, {}).values()

    def attachments_of(self, volume: str) -> list[VolumeAttachment]:
        """Return the attachments of a volume, by name."""
        return [self.attachments[name] for name in sorted(self._nodes_of.get(volume, ()))]

    def used_on(self, volume: str, row: int) -> bool:
        """Return whether a pod on the row has a claim that names the volume."""
        return any(row in self._rows_of.get(claim, ()) for claim in self._named_by.get(volume, ()))

    def _note(self, key: str, before: VolumeObject | None, item: VolumeObject | None) -> None:
        """Update the indexes of claims and attachments, and mark attachments that may have changed as stale."""
        stale = self.stale
        for version, new in ((before, False), (item, True)):
            if isinstance(version, VolumeAttachment):
                node, volume = version.spec.node_name, version.spec.source.persistent_volume_name or ""
                stale.nodes.add(node)
                _enlist(self._attached_to, node, key, version if new else None)
                _enlist(self._nodes_of, volume, key, node if new else None)
            elif isinstance(version, PersistentVolumeClaim):
                named = self._named_by.setdefault(version.spec.volume_name, set())
                if new:
                    named.add(key)
                else:
                    named.discard(key)
                if not named:
                    del self._named_by[version.spec.volume_name]
            elif isinstance(version, CSINode):
                stale.nodes.add(key)
        either = item or before
        if isinstance(either, StorageClass):
            stale.everything = True
        elif isinstance(either, PersistentVolumeClaim) and _source(before) != _source(item):
            stale.rows.update(self._rows_of.get(key, ()))
        elif isinstance(either, PersistentVolume) and _source(before) != _source(item):
            stale.nodes.update(self._nodes_of.get(key, {}).values())
            for claim in self._named_by.get(key, ()):
                stale.rows.update(self._rows_of.get(claim, ()))
        stale.settle()

    def _unlist(self, volume: PersistentVolume) -> None:
        name = class_of(volume)
        volumes = self.by_class.get(name, {})
        volumes.pop(volume.metadata.name, None)
        if not volumes:
            self.by_class.pop(name, None)

    def _table(self, kind: str) -> dict[str, Any]:
        tables: dict[str, dict[str, Any]] = {
            "PersistentVolume": self.volumes,
            "PersistentVolumeClaim": self.claims,
            "StorageClass": self.classes,
            "CSINode": self.csi_nodes,
            "CSIDriver": self.drivers,
            "CSIStorageCapacity": self.capacities,
            "VolumeAttachment": self.attachments,
        }
        return tables[kind]


_NAMESPACED = frozenset(kind.KIND for kind in VOLUME_KINDS if kind.NAMESPACED)


def _enlist(table: dict[str, dict[str, Any]], first: str, second: str, value: Any) -> None:
    """Set an entry of an index, or remove it with None."""
    entries = table.setdefault(first, {})
    if value is None:
        entries.pop(second, None)
    else:
        entries[second] = value
    if not entries:
        del table[first]


def _source(item: VolumeObject | None) -> object:
    """Return the fields that determine the CSI volume of a claim or a volume."""
    if isinstance(item, PersistentVolumeClaim):
        return item.spec.volume_name, class_of(item)
    if not isinstance(item, PersistentVolume):
        return None
    spec = item.spec
    return (
        spec.csi,
        spec.aws_elastic_block_store,
        spec.gce_persistent_disk,
        spec.azure_disk,
        spec.cinder,
        spec.portworx_volume,
    )


def _annotations(item: KubernetesObject) -> Mapping[str, str]:
    return item.metadata.annotations
