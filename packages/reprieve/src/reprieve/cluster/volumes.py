"""Volumes, claims, classes and what nodes can attach: storage in the cluster cache.

Objects are kept as the API gave them.  Three things are laid over them:

- *users*: how many placed pods use a claim, kept up by `ClusterState` as pods come to rows and leave them;
- *reservations*: what the scheduler has decided and the API does not show yet - a volume kept for a claim, a node
  chosen for a claim that is to be provisioned.  They last until the API shows them or they are given up, and no trial
  touches them: a pod taken off its node in a trial keeps its volumes, so that preemption never counts on them;
- *unsettled* pods: placed inside a trial and not reserved; the choice of volumes lets the later ones see the choices
  of the earlier ones.  A trial that is undone leaves none.

Invariant: everything but the reservations is derived from the objects and from where pods are.
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
"""Nodes that are named one by one as to be read again."""


@dataclass(slots=True)
class Reservation:
    """What a pod waits for. Keys are those of claims; `volumes`: claim -> volume, `provisioned`: to be made for `node`.

    `awaited` are claims that another pod already has in hand.
    """

    node: str
    volumes: dict[str, str] = field(default_factory=dict)
    provisioned: tuple[str, ...] = ()
    awaited: tuple[str, ...] = ()


@dataclass(slots=True)
class StaleAttachments:
    """Where what is attached has to be counted again, because of objects and not of pods."""

    rows: set[int] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    """By name: objects about a node may come before the node."""
    everything: bool = True

    def settle(self) -> None:
        """Of so many nodes that none is worth naming all are read: between two questions this must not grow."""
        if len(self.nodes) > _MOST_STALE:
            self.everything = True
            self.nodes.clear()

    def clear(self) -> None:
        """Everything was read."""
        self.rows.clear()
        self.nodes.clear()
        self.everything = False


@dataclass(slots=True)
class AssumedPodVolumes:
    """A pod placed in a trial; `taken`: volume -> claim as chosen for it, None: not asked yet; `chosen`: claims (keys)
    to be provisioned for its node; `turn`: grows with each pod that is placed.
    """

    pod: PodRecord
    row: int
    turn: int
    taken: dict[str, str] | None = None
    chosen: frozenset[str] = frozenset()


def key_of(item: KubernetesObject) -> str:
    """`namespace/name` of a claim or a capacity, the name of anything else."""
    if type(item).NAMESPACED:
        return f"{item.metadata.namespace or 'default'}/{item.metadata.name}"
    return item.metadata.name


def not_found(name: str) -> str:
    """Return the API's words for a claim that is not there."""
    return f'persistentvolumeclaim "{name}" not found'


def fully_bound(claim: PersistentVolumeClaim) -> bool:
    """The binding is complete on both sides: what the PV controller notes in an annotation and in the phase."""
    return bool(claim.spec.volume_name) and (
        BIND_COMPLETED in claim.metadata.annotations or claim.status.phase == "Bound"
    )


class VolumeObjects:
    """See the module docstring. Keys are those of `key_of`."""

    def __init__(self) -> None:
        self.version = 0
        """Grows with every change of an object."""
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
        """Claim -> row -> pods there that use it, counting every mention."""
        self.by_class: dict[str, dict[str, PersistentVolume]] = {}
        """Storage class -> volumes by name."""
        self.users: dict[str, int] = {}
        """Claim -> placed pods that use it, counting every mention."""
        self.reservations: dict[str, Reservation] = {}
        """By UID of the pod."""
        self.kept: dict[str, str] = {}
        """Volume -> claim it is reserved for."""
        self.selected: dict[str, str] = {}
        """Claim -> node it is to be provisioned for."""
        self.unsettled: dict[str, AssumedPodVolumes] = {}
        """By UID, in the order the pods were placed."""

    # -- objects -----------------------------------------------------------------------------------------------------

    def set(self, item: VolumeObject) -> VolumeObject | None:
        """Learn of an object or its change; returns what was known of it before."""
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
            kept, ref = self.kept.get(key), item.spec.claim_ref
            if kept is not None and ref is not None and (ref.uid or not refers_to(item, kept, "")):
                del self.kept[key]  # the API shows which claim has it
        elif isinstance(item, PersistentVolumeClaim) and (fully_bound(item) or SELECTED_NODE in _annotations(item)):
            self.selected.pop(key, None)
        return before

    def remove(self, kind: str, namespace: str, name: str) -> VolumeObject | None:
        """An object was deleted; returns what was known of it."""
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
        """A pod with volumes came to a row; `tentative`: in a trial, to see how others fare beside it."""
        assert pod.volumes is not None
        for claim in pod.volumes.claims:
            self.users[claim.key] = self.users.get(claim.key, 0) + 1
            there = self._rows_of.setdefault(claim.key, {})
            there[row] = there.get(row, 0) + 1
        if tentative and not pod.bound and pod.uid not in self.reservations:
            last = next(reversed(self.unsettled.values()), None)
            self.unsettled[pod.uid] = AssumedPodVolumes(pod, row, last.turn + 1 if last is not None else 0)

    def displaced(self, pod: PodRecord, row: int) -> AssumedPodVolumes | None:
        """A pod with volumes left its row; returns its entry in `unsettled`, for `unsettle`."""
        assert pod.volumes is not None
        for claim in pod.volumes.claims:
            left = self.users[claim.key] - 1
            if left:
                self.users[claim.key] = left
            else:
                del self.users[claim.key]
            there = self._rows_of[claim.key]
            there[row] -= 1
            if not there[row]:
                del there[row]
            if not there:
                del self._rows_of[claim.key]
        return self.unsettled.pop(pod.uid, None)

    def unsettle(self, entry: AssumedPodVolumes) -> None:
        """A pod that was displaced in a trial within the one in which it was placed is back on its row, in its turn."""
        later = [uid for uid, other in self.unsettled.items() if other.turn > entry.turn]
        self.unsettled[entry.pod.uid] = entry
        for uid in later:
            self.unsettled[uid] = self.unsettled.pop(uid)

    # -- reservations ------------------------------------------------------------------------------------------------

    def reserve(self, uid: str, reservation: Reservation) -> None:
        """Keep volumes and nodes for a pod's claims until the API shows them or they are given back."""
        self.give_back(uid)
        self.reservations[uid] = reservation
        for claim, volume in reservation.volumes.items():
            self.kept[volume] = claim
        for claim in reservation.provisioned:
            self.selected[claim] = reservation.node

    def give_back(self, uid: str) -> None:
        """Give up what was reserved for a pod; nothing happens if there is nothing."""
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
        """The pod is bound: its claims are, too, and the API shows it, or will with the next event."""
        self.reservations.pop(uid, None)

    def node_of(self, claim: PersistentVolumeClaim) -> str | None:
        """The node a claim is (to be) provisioned for, by the API or by a reservation."""
        noted = claim.metadata.annotations.get(SELECTED_NODE)
        return noted if noted is not None else self.selected.get(key_of(claim))

    def has_volume_for(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool | None:
        """Return whether a volume is held for this claim; None: it is free."""
        key = key_of(claim)
        kept = self.kept.get(volume.metadata.name)
        if kept is not None:
            return kept == key
        if volume.spec.claim_ref is None:
            return None
        return refers_to(volume, key, claim.metadata.uid)

    # -- for tests ---------------------------------------------------------------------------------------------------

    def digest(self) -> tuple[object, ...]:
        """Everything a plugin can read beside the objects themselves."""
        return (self.version, sorted(self.users.items()), sorted(self.kept.items()), sorted(self.selected.items()))

    def check(self, pods: Iterable[PodRecord]) -> None:
        """Compare the users with the pods; raises AssertionError on a difference."""
        users: dict[str, int] = {}
        for pod in pods:
            for claim in pod.volumes.claims if pod.volumes is not None and pod.row >= 0 else ():
                users[claim.key] = users.get(claim.key, 0) + 1
        assert users == self.users, f"users of claims are off: {self.users}, not {users}"
        kept = [volume for r in self.reservations.values() for volume in r.volumes.values()]
        assert not self.unsettled, f"choices of a trial are left: {sorted(self.unsettled)}"
        assert len(kept) == len(set(kept)), f"a volume is reserved twice: {sorted(kept)}"

    # -- attachments -------------------------------------------------------------------------------------------------

    def attachments_on(self, node: str) -> Iterable[VolumeAttachment]:
        """Return what the API says is attached to a node."""
        return self._attached_to.get(node, {}).values()

    def attachments_of(self, volume: str) -> list[VolumeAttachment]:
        """Return where a volume is attached, by name of the attachment."""
        return [self.attachments[name] for name in sorted(self._nodes_of.get(volume, ()))]

    def used_on(self, volume: str, row: int) -> bool:
        """Return whether a pod on the row has a claim that names the volume."""
        return any(row in self._rows_of.get(claim, ()) for claim in self._named_by.get(volume, ()))

    def _note(self, key: str, before: VolumeObject | None, item: VolumeObject | None) -> None:
        """Keep the indexes of claims and attachments, and note where what is attached may be something else now."""
        stale = self.stale
        for found, new in ((before, False), (item, True)):
            if isinstance(found, VolumeAttachment):
                node, volume = found.spec.node_name, found.spec.source.persistent_volume_name or ""
                stale.nodes.add(node)
                _enlist(self._attached_to, node, key, found if new else None)
                _enlist(self._nodes_of, volume, key, node if new else None)
            elif isinstance(found, PersistentVolumeClaim):
                named = self._named_by.setdefault(found.spec.volume_name, set())
                if new:
                    named.add(key)
                else:
                    named.discard(key)
                if not named:
                    del self._named_by[found.spec.volume_name]
            elif isinstance(found, CSINode):
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
        there = self.by_class.get(name, {})
        there.pop(volume.metadata.name, None)
        if not there:
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
    """Set an entry of an index, or take it out with None."""
    there = table.setdefault(first, {})
    if value is None:
        there.pop(second, None)
    else:
        there[second] = value
    if not there:
        del table[first]


def _source(item: VolumeObject | None) -> object:
    """Return what decides which CSI volume a claim or a volume is."""
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
