"""The CSI volumes attached to every node, as columns.

Terms: a volume is *explained* on a node if a running pod uses it there. A VolumeAttachment of a volume that no pod
explains still counts: its pod was deleted before the volume was detached, or the volume was attached by hand.

Rules (devices.md 1): the limit of a driver is `allocatable.count` of the node's CSINode; a volume counts once per node;
volumes of in-tree plugins count for the CSI driver they were migrated to, if the CSINode lists the plugin as migrated;
a claim without a volume counts for the driver of its class's provisioner.

A row is counted again when its pods change (the touch log) or when an object of its volumes changes
(`VolumeObjects.stale`). A query for one pod takes a few array operations, regardless of the numbers of nodes and pods.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from kube_rules.controllers.volumes import class_of
from kube_rules.storage import CSINode, PersistentVolume
from reprieve.cluster.changes import ChangeReader
from reprieve.cluster.nodes import NodeColumns
from reprieve.cluster.pod_volumes import InlineDisk
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.volumes import MIGRATED, VolumeObjects

Attached = tuple[str, str]
"""(driver, name of the volume for that driver)."""
Mask = npt.NDArray[np.bool_]

IN_TREE: Final = {
    "awsElasticBlockStore": ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    "gcePersistentDisk": ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    "azureDisk": ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    "cinder": ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    "portworxVolume": ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
}
"""Field of a volume source -> (in-tree plugin, the CSI driver it was migrated to)."""
_DRIVER_OF: Final = dict(IN_TREE.values())
ALL_MIGRATED: Final = frozenset(_DRIVER_OF)
"""The migrated plugins of a node if its CSINode lists every in-tree plugin."""
_NOTHING: Final[frozenset[Attached]] = frozenset()
_MOST_MIGRATIONS: Final = 64
"""The maximum number of distinct sets of migrated plugins before everything is counted again."""
_UNLIMITED: Final = -1


class AttachedVolumes:
    """See the module docstring. `changes` reports rows with changed pods."""

    def __init__(self, store: VolumeObjects, nodes: NodeColumns, changes: ChangeReader) -> None:
        self._store = store
        self._nodes = nodes
        self._changes = changes
        self._on: list[frozenset[Attached]] = []
        """By row: the explained volumes."""
        self._drivers: list[tuple[str, ...]] = []
        """By row: drivers with a limit."""
        self._where: dict[Attached, set[int]] = {}
        """Volume -> rows of `_on`."""
        self._limits: dict[str, npt.NDArray[np.int64]] = {}
        """Driver -> `int64[rows]`, `_UNLIMITED` without a stated limit."""
        self._taken: dict[str, npt.NDArray[np.int64]] = {}
        """Driver -> `int64[rows]`: attached volumes, on rows with a limit."""
        self._migrations: list[frozenset[str]] = []
        self._migration: npt.NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        """`int32[rows]`: the index in `_migrations` of the migrated plugins."""
        self._listed: list[tuple[str, ...]] = []
        """By row: drivers that the CSINode lists."""
        self._installed: dict[str, Mask] = {}
        """Driver -> `bool[rows]`."""

    def exceeding(self, pod: PodRecord, rows: npt.NDArray[np.int64], *, overlaid: bool) -> Mask:
        """Return `bool[len(rows)]`: the rows on which the pod's volumes would exceed a driver's limit.

        `overlaid`: there are assumed pods that the touch log does not record (`ClusterState.assume_silently`).
        """
        mask: Mask = np.zeros(len(rows), dtype=np.bool_)
        if not self._store.csi_nodes:
            return mask
        if overlaid:
            return np.array([self._exceeds(pod, row) for row in rows.tolist()], dtype=np.bool_)
        self._refresh()
        kinds = self._migration[rows]
        for kind in np.unique(kinds).tolist():
            for driver, volumes in by_driver(attached_by(self._store, pod, self._migrations[kind])).items():
                if driver not in self._limits:
                    continue
                limit, attached = self._limits[driver][rows], self._taken[driver][rows]
                over = (kinds == kind) & (limit != _UNLIMITED) & (attached + len(volumes) > limit)
                shared = {row for volume in volumes for row in self._where.get(volume, ())} if over.any() else ()
                for index in np.flatnonzero(over & np.isin(rows, list(shared))) if shared else ():
                    new = len(volumes - self._on[int(rows[index])])
                    over[index] = bool(new) and attached[index] + new > limit[index]
                mask |= over
        return mask

    def without_driver(self, pod: PodRecord, rows: npt.NDArray[np.int64], *, overlaid: bool) -> dict[str, Mask]:
        """Return the missing required drivers (KEP-5030) of the pod's volumes -> `bool[len(rows)]`."""
        required = [name for name, d in self._store.drivers.items() if d.spec.prevent_pod_scheduling_if_missing]
        result: dict[str, Mask] = {}
        if not required:
            return result
        if overlaid:
            for index, row in enumerate(rows.tolist()):
                csi_node = self._store.csi_nodes.get(self._nodes.names[row])
                listed = {driver.name for driver in csi_node.spec.drivers} if csi_node is not None else set()
                wanted = by_driver(attached_by(self._store, pod, migrated_plugins(csi_node)))
                for driver in required:
                    if driver in wanted and driver not in listed:
                        result.setdefault(driver, np.zeros(len(rows), dtype=np.bool_))[index] = True
            return result
        self._refresh()
        kinds = self._migration[rows]
        for kind in np.unique(kinds).tolist():
            wanted = by_driver(attached_by(self._store, pod, self._migrations[kind]))
            for driver in required:
                if driver in wanted:
                    lacks = kinds == kind
                    if driver in self._installed:
                        lacks &= ~self._installed[driver][rows]
                    result[driver] = result[driver] | lacks if driver in result else lacks
        return {driver: mask for driver, mask in result.items() if mask.any()}

    # -- updates -------------------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        nodes, stale = self._nodes, self._store.stale
        touched = self._changes.take()
        if touched is None or stale.everything or len(self._migrations) > _MOST_MIGRATIONS:
            self._on, self._drivers, self._where = [], [], {}
            self._limits, self._taken, self._migrations = {}, {}, []
            self._migration = np.zeros(0, dtype=np.int32)
            self._listed, self._installed = [], {}
            rows = set(range(len(nodes)))
        else:
            named = (nodes.row_of.get(name) for name in stale.nodes)
            rows = {*touched, *stale.rows, *(row for row in named if row is not None)}
            rows.update(range(len(self._on), len(nodes)))
        stale.clear()
        self._fit(len(nodes))
        for row in rows:
            self._inspect(row)

    def _fit(self, n: int) -> None:
        more = n - len(self._on)
        if more <= 0:
            return
        self._on += [_NOTHING] * more
        self._drivers += [()] * more
        self._listed += [()] * more
        for driver, installed in self._installed.items():
            self._installed[driver] = np.concatenate([installed, np.zeros(more, dtype=np.bool_)])
        self._migration = np.concatenate([self._migration, np.zeros(more, dtype=np.int32)])
        for table, filler in ((self._limits, _UNLIMITED), (self._taken, 0)):
            for driver, column in table.items():
                table[driver] = np.concatenate([column, np.full(more, filler, dtype=np.int64)])

    def _inspect(self, row: int) -> None:
        for volume in self._on[row]:
            volume_rows = self._where[volume]
            volume_rows.discard(row)
            if not volume_rows:
                del self._where[volume]
        for driver in self._drivers[row]:
            self._limits[driver][row] = _UNLIMITED
        csi_node = self._store.csi_nodes.get(self._nodes.names[row])
        limits = limits_of(csi_node) if csi_node is not None else {}
        migrated = migrated_plugins(csi_node)
        if migrated not in self._migrations:
            self._migrations.append(migrated)
        self._migration[row] = self._migrations.index(migrated)
        for driver in self._listed[row]:
            self._installed[driver][row] = False
        self._listed[row] = tuple(driver.name for driver in csi_node.spec.drivers) if csi_node is not None else ()
        for driver in self._listed[row]:
            if driver not in self._installed:
                self._installed[driver] = np.zeros(len(self._on), dtype=np.bool_)
            self._installed[driver][row] = True
        on, lingering = self._attached(row, migrated) if limits else (_NOTHING, _NOTHING)
        self._on[row], self._drivers[row] = on, tuple(limits)
        for volume in on:
            self._where.setdefault(volume, set()).add(row)
        for driver, limit in limits.items():
            if driver not in self._limits:
                self._limits[driver] = np.full(len(self._on), _UNLIMITED, dtype=np.int64)
                self._taken[driver] = np.zeros(len(self._on), dtype=np.int64)
            self._limits[driver][row] = limit
            self._taken[driver][row] = sum(1 for volume_driver, _ in (*on, *lingering) if volume_driver == driver)

    def _attached(self, row: int, migrated: frozenset[str]) -> tuple[frozenset[Attached], frozenset[Attached]]:
        """Return the explained volumes of a row, and the other attached volumes."""
        store = self._store
        pods = (pod for pod in self._nodes.pods[row].values() if pod.volumes is not None)
        on = frozenset(volume for pod in pods for volume in attached_by(store, pod, migrated))
        lingering: set[Attached] = set()
        for attachment in store.attachments_on(self._nodes.names[row]):
            volume = store.volumes.get(attachment.spec.source.persistent_volume_name or "")
            attached = of_volume(volume, migrated) if volume is not None else None
            if attached is not None and volume is not None:
                driver = attachment.spec.attacher if volume.spec.csi is not None else attached[0]
                lingering.add((driver, attached[1]))
        return on, frozenset(lingering - on)

    def _exceeds(self, pod: PodRecord, row: int) -> bool:
        """Return whether the pod's volumes exceed a driver's limit on one row, from the present state."""
        csi_node = self._store.csi_nodes.get(self._nodes.names[row])
        limits = limits_of(csi_node) if csi_node is not None else {}
        if not limits:
            return False
        migrated = migrated_plugins(csi_node)
        on, lingering = self._attached(row, migrated)
        for driver, volumes in by_driver(attached_by(self._store, pod, migrated)).items():
            new = len(volumes - on)
            attached = sum(1 for volume_driver, _ in (*on, *lingering) if volume_driver == driver)
            if new and driver in limits and attached + new > limits[driver]:
                return True
        return False


def limits_of(csi_node: CSINode) -> dict[str, int]:
    """Return driver -> how many volumes it can attach; drivers without a number are left out."""
    return {
        driver.name: driver.allocatable.count
        for driver in csi_node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def migrated_plugins(csi_node: CSINode | None) -> frozenset[str]:
    """Return the in-tree plugins with volumes that CSI drivers serve on the node."""
    if csi_node is None:
        return frozenset()
    return frozenset(filter(None, csi_node.metadata.annotations.get(MIGRATED, "").split(",")))


def by_driver(volumes: Iterator[Attached]) -> dict[str, set[Attached]]:
    """Return the distinct volumes of each driver."""
    result: dict[str, set[Attached]] = {}
    for volume in volumes:
        result.setdefault(volume[0], set()).add(volume)
    return result


def attached_by(store: VolumeObjects, pod: PodRecord, migrated: frozenset[str]) -> Iterator[Attached]:
    """Yield the CSI volumes that a pod has attached on a node with these migrated plugins."""
    if pod.volumes is None:
        return
    for used in pod.volumes.claims:
        volume = _of_claim(store, used.key, migrated)
        if volume is not None:
            yield volume
    for disk in pod.volumes.disks:
        inline = _of_disk(disk, migrated)
        if inline is not None:
            yield inline


def _of_claim(store: VolumeObjects, key: str, migrated: frozenset[str]) -> Attached | None:
    claim = store.claims.get(key)
    if claim is None:
        return None
    volume = store.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
    if volume is not None:
        return of_volume(volume, migrated)
    storage_class = store.classes.get(class_of(claim))
    if storage_class is None or not storage_class.provisioner:
        return None
    driver = _DRIVER_OF.get(storage_class.provisioner)
    if driver is None:
        return storage_class.provisioner, f"claim {key}"
    return (driver, f"claim {key}") if storage_class.provisioner in migrated else None


def of_volume(volume: PersistentVolume, migrated: frozenset[str]) -> Attached | None:
    """Return the driver and handle of a volume; None without a CSI driver."""
    spec = volume.spec
    if spec.csi is not None:
        return (spec.csi.driver, spec.csi.volume_handle) if spec.csi.driver and spec.csi.volume_handle else None
    sources = (
        ("awsElasticBlockStore", spec.aws_elastic_block_store),
        ("gcePersistentDisk", spec.gce_persistent_disk),
        ("azureDisk", spec.azure_disk),
        ("cinder", spec.cinder),
        ("portworxVolume", spec.portworx_volume),
    )
    for field, source in sources:
        if source is not None:
            name = source.volume_id or source.pd_name or source.disk_name
            return _of_disk(InlineDisk(field, frozenset({name}), source.read_only), migrated)
    return None


def _of_disk(disk: InlineDisk, migrated: frozenset[str]) -> Attached | None:
    if disk.source not in IN_TREE:
        return None
    plugin, driver = IN_TREE[disk.source]
    if plugin not in migrated:
        return None
    # An EBS volume may be written `aws://zone/vol-1`: the last part is its name.
    return driver, min(disk.ids).rpartition("/")[2]
