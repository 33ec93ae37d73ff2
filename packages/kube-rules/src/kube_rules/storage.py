"""Volumes and related storage kinds that a scheduler reads (light forms).

Invariants: see `kube_rules.objects`, which re-exports the kinds.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from kube_rules.meta import (
    KubernetesObject,
    LabelSelector,
    NodeSelector,
    QuantityText,
    ResourceList,
    Struct,
    map_field,
)

SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""Annotation of a claim: the node for which its volume is provisioned."""
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
CLASS_BETA = "volume.beta.kubernetes.io/storage-class"
"""Annotation of claims and volumes that predates the field for the class."""


class VolumeResourceRequirements(Struct, frozen=True, kw_only=True):
    """resources of a PersistentVolumeClaim."""

    requests: ResourceList = map_field()
    limits: ResourceList = map_field()


class PersistentVolumeClaimSpec(Struct, frozen=True, kw_only=True):
    """spec of a PersistentVolumeClaim; `storage_class_name` None means the default class, "" means none."""

    access_modes: tuple[str, ...] = ()
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    selector: LabelSelector | None = None
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str = "Filesystem"


class PersistentVolumeClaimStatus(Struct, frozen=True, kw_only=True):
    """status of a PersistentVolumeClaim; phase Pending, Bound or Lost."""

    phase: str = "Pending"
    capacity: ResourceList = map_field()


class PersistentVolumeClaim(KubernetesObject, frozen=True, kw_only=True):
    """v1 PersistentVolumeClaim."""

    API_VERSION: ClassVar[str] = "v1"
    NAMESPACED: ClassVar[bool] = True

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class ObjectReference(Struct, frozen=True, kw_only=True):
    """spec.claimRef of a PersistentVolume."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class CSIPersistentVolumeSource(Struct, frozen=True, kw_only=True):
    """spec.csi of a PersistentVolume."""

    driver: str = ""
    volume_handle: str = ""


class NamedSource(Struct, frozen=True, kw_only=True):
    """A cloud volume source: the fields that identify the disk; each source uses one of them."""

    volume_id: str = msgspec.field(default="", name="volumeID")
    pd_name: str = ""
    disk_name: str = ""
    read_only: bool = False


class VolumeNodeAffinity(Struct, frozen=True, kw_only=True):
    """spec.nodeAffinity of a PersistentVolume: the nodes that can access the volume."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Struct, frozen=True, kw_only=True):
    """spec of a PersistentVolume."""

    capacity: ResourceList = map_field()
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    csi: CSIPersistentVolumeSource | None = None
    aws_elastic_block_store: NamedSource | None = None
    gce_persistent_disk: NamedSource | None = None
    azure_disk: NamedSource | None = None
    cinder: NamedSource | None = None
    portworx_volume: NamedSource | None = None
    persistent_volume_reclaim_policy: str = "Retain"


class PersistentVolumeStatus(Struct, frozen=True, kw_only=True):
    """status of a PersistentVolume; phase Available, Bound, Released or Failed."""

    phase: str = ""


class PersistentVolume(KubernetesObject, frozen=True, kw_only=True):
    """v1 PersistentVolume."""

    API_VERSION: ClassVar[str] = "v1"

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class TopologySelectorLabelRequirement(Struct, frozen=True, kw_only=True):
    """allowedTopologies[].matchLabelExpressions[] of a StorageClass."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Struct, frozen=True, kw_only=True):
    """allowedTopologies[] of a StorageClass."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(KubernetesObject, frozen=True, kw_only=True):
    """storage.k8s.io/v1 StorageClass."""

    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    reclaim_policy: str = "Delete"
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(Struct, frozen=True, kw_only=True):
    """spec.drivers[].allocatable of a CSINode; `count` None means unlimited."""

    count: int | None = None


class CSINodeDriver(Struct, frozen=True, kw_only=True):
    """spec.drivers[] of a CSINode."""

    name: str = ""
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Struct, frozen=True, kw_only=True):
    """spec of a CSINode."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(KubernetesObject, frozen=True, kw_only=True):
    """storage.k8s.io/v1 CSINode; its name is the name of the node."""

    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"

    spec: CSINodeSpec = CSINodeSpec()


class VolumeAttachmentSource(Struct, frozen=True, kw_only=True):
    """spec.source of a VolumeAttachment; None for an inline volume."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Struct, frozen=True, kw_only=True):
    """spec of a VolumeAttachment; `attacher` is the name of the CSI driver."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(KubernetesObject, frozen=True, kw_only=True):
    """storage.k8s.io/v1 VolumeAttachment: a volume is or will be attached to a node."""

    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


class CSIStorageCapacity(KubernetesObject, frozen=True, kw_only=True):
    """storage.k8s.io/v1 CSIStorageCapacity."""

    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"
    NAMESPACED: ClassVar[bool] = True

    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: QuantityText | None = None
    maximum_volume_size: QuantityText | None = None


class CSIDriverSpec(Struct, frozen=True, kw_only=True):
    """spec of a CSIDriver; `storage_capacity`: CSIStorageCapacity objects report the free capacity.

    `prevent_pod_scheduling_if_missing`: pods with its volumes only run on nodes with a CSINode that lists the driver.
    """

    storage_capacity: bool = False
    prevent_pod_scheduling_if_missing: bool = False


class CSIDriver(KubernetesObject, frozen=True, kw_only=True):
    """storage.k8s.io/v1 CSIDriver; provisioners and sources refer to the driver by this name."""

    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"

    spec: CSIDriverSpec = CSIDriverSpec()
