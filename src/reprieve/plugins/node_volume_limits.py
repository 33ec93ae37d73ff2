"""NodeVolumeLimits: how many volumes of a CSI driver a node can attach.

Rules (kubernetes/kubernetes pkg/scheduler/framework/plugins/nodevolumelimits):
- The limit is `allocatable.count` of the driver in the node's CSINode; without one nothing is limited.
- A volume counts once per node, however many pods there use it.
- A claim without a volume yet counts for the driver of its class's provisioner.
- Volumes of in-tree plugins count for the CSI driver that they have been migrated to, on nodes whose CSINode says so.
- Taking pods away frees their volumes: the failure is curable.
"""

from collections.abc import Iterator
from typing import ClassVar, Final

import numpy as np

from reprieve.api.storage import CSINode, PersistentVolume
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.cluster.volumes import MIGRATED, InlineDisk, VolumeObjects, class_of, not_found
from reprieve.framework.events import ClusterEvent, EventKind, Hints, about_own_claim
from reprieve.framework.plugin import Codes, CycleState, FilterPlugin, Mask, Rows, Scope, row_count, row_numbers
from reprieve.framework.status import SUCCESS, UNRESOLVABLE, UNSCHEDULABLE, Code, Status

TOO_MANY = "node(s) exceed max volume count"

_SKIP = Status(Code.SKIP)
_IN_TREE: Final = {
    "awsElasticBlockStore": ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    "gcePersistentDisk": ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    "azureDisk": ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    "cinder": ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    "portworxVolume": ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
}
"""Field of a volume source -> (in-tree plugin, the CSI driver it was migrated to)."""
_DRIVER_OF: Final = dict(_IN_TREE.values())

Attached = tuple[str, str]
"""(driver, what names the volume there)."""


class NodeVolumeLimits(FilterPlugin):
    """See the module docstring."""

    name = "NodeVolumeLimits"
    scope: ClassVar[Scope] = Scope.CLUSTER

    def concerns(self, state: CycleState) -> bool:
        """Pods with claims, or with disks of a plugin that has been migrated."""
        volumes = state.pod.volumes
        return volumes is not None and (bool(volumes.claims) or any(disk.source in _IN_TREE for disk in volumes.disks))

    def pre_filter(self, state: CycleState) -> Status:
        """Skipped for pods without volumes that could count."""
        return SUCCESS if self.concerns(state) else _SKIP

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        """See `FilterPlugin.filter`."""
        cluster = state.cluster
        if missing_claim(cluster.volumes, state.pod) is not None:
            return np.full(row_count(cluster, rows), UNRESOLVABLE, dtype=np.int8)
        numbers = row_numbers(cluster, rows)
        codes = np.zeros(len(numbers), dtype=np.int8)
        if cluster.volumes.csi_nodes:
            for index, row in enumerate(numbers):
                if _exceeds(cluster, state.pod, row):
                    codes[index] = UNSCHEDULABLE
        return codes

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        """See `FilterPlugin.reasons`."""
        missing = missing_claim(state.cluster.volumes, state.pod)
        text = TOO_MANY
        if missing is not None:
            text = f"looking up PVC {missing[0]}: {not_found(missing[1])}"
        return [(text, self.filter(state, rows) != 0)]

    def events(self) -> Hints:
        """Pods with volumes leave, a CSINode comes or allows more, the claim comes, another driver is looked up."""
        return {
            EventKind.POD_GONE: _freed_volumes,
            EventKind.CSI_NODE_CHANGED: _allows_more,
            EventKind.CLAIM_CHANGED: _claim_came,
        }


def missing_claim(store: VolumeObjects, pod: PodRecord) -> tuple[str, str] | None:
    """(key, name) of the first claim of a pod that does not exist."""
    for used in pod.volumes.claims if pod.volumes is not None else ():
        if used.key not in store.claims:
            return used.key, used.name
    return None


def _exceeds(cluster: ClusterState, pod: PodRecord, row: int) -> bool:
    store, nodes = cluster.volumes, cluster.nodes
    csi_node = store.csi_nodes.get(nodes.names[row])
    if csi_node is None:
        return False
    limits = {
        driver.name: driver.allocatable.count
        for driver in csi_node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }
    if not limits:
        return False
    migrated = frozenset(filter(None, csi_node.metadata.annotations.get(MIGRATED, "").split(",")))
    new = {volume for volume in attached_by(store, pod, migrated) if volume[0] in limits}
    if not new:
        return False
    there = {volume for other in nodes.pods[row].values() for volume in attached_by(store, other, migrated)}
    new -= there
    for driver in {driver for driver, _ in new}:
        count = sum(1 for other, _ in there if other == driver) + sum(1 for other, _ in new if other == driver)
        if count > limits[driver]:
            return True
    return False


def attached_by(store: VolumeObjects, pod: PodRecord, migrated: frozenset[str]) -> Iterator[Attached]:
    """The CSI volumes that a pod has attached on a node with these plugins migrated."""
    if pod.volumes is None:
        return
    for used in pod.volumes.claims:
        found = _of_claim(store, used.key, migrated)
        if found is not None:
            yield found
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
        return _of_volume(volume, migrated)
    found = store.classes.get(class_of(claim))
    if found is None or not found.provisioner:
        return None
    driver = _DRIVER_OF.get(found.provisioner)
    if driver is None:
        return found.provisioner, f"claim {key}"
    return (driver, f"claim {key}") if found.provisioner in migrated else None


def _of_volume(volume: PersistentVolume, migrated: frozenset[str]) -> Attached | None:
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
    if disk.source not in _IN_TREE:
        return None
    plugin, driver = _IN_TREE[disk.source]
    if plugin not in migrated:
        return None
    # An EBS volume may be written `aws://zone/vol-1`: the last part is its name.
    return driver, min(disk.ids).rsplit("/", 1)[-1]


def _claim_came(cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    return event.before is None and about_own_claim(cluster, pod, event)


def _freed_volumes(_cluster: ClusterState, _pod: PodRecord, event: ClusterEvent) -> bool:
    return event.pod is None or event.pod.volumes is not None


def _allows_more(_cluster: ClusterState, _pod: PodRecord, event: ClusterEvent) -> bool:
    """A new CSINode, a higher limit, or one that is gone: its node limits nothing any more."""
    if not isinstance(event.before, CSINode) or not isinstance(event.item, CSINode):
        return True
    before, after = _counts(event.before), _counts(event.item)
    return any(driver not in after or after[driver] > count for driver, count in before.items())


def _counts(csi_node: CSINode) -> dict[str, int]:
    return {
        driver.name: driver.allocatable.count
        for driver in csi_node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }
