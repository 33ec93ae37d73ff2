"""Volumes for tests: claims, volumes, classes and pods that use them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from kube_rules import objects
from kube_rules.storage import (
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIPersistentVolumeSource,
    CSIStorageCapacity,
    NamedSource,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    TopologySelectorLabelRequirement,
    TopologySelectorTerm,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
    VolumeNodeAffinity,
    VolumeNodeResources,
    VolumeResourceRequirements,
)
from tests.building import START
from tests.building import pod as plain_pod

ZONE = "topology.kubernetes.io/zone"


def claim(
    name: str,
    size: str = "1Gi",
    *,
    of: str = "wait",
    volume: str = "",
    bound: bool = False,
    phase: str = "Pending",
    modes: Iterable[str] = ("ReadWriteOnce",),
    mode: str = "Filesystem",
    selector: Mapping[str, str] | None = None,
    owner: str = "",
    deleted: bool = False,
    annotations: Mapping[str, str] | None = None,
) -> PersistentVolumeClaim:
    """A claim with a UID, as a cluster has it; `bound` to `volume`; `owner`: UID of the pod it was made for."""
    return PersistentVolumeClaim(
        metadata=objects.ObjectMeta(
            name=name,
            namespace="default",
            uid=f"uid-{name}",
            annotations=dict(annotations or {}),
            deletion_timestamp=datetime.fromtimestamp(START, UTC) if deleted else None,
            owner_references=(objects.OwnerReference(kind="Pod", uid=owner, controller=True),) if owner else (),
        ),
        spec=PersistentVolumeClaimSpec(
            access_modes=tuple(modes),
            resources=VolumeResourceRequirements(requests={"storage": size}),
            storage_class_name=of,
            volume_name=volume,
            volume_mode=mode,
            selector=objects.LabelSelector(match_labels=dict(selector)) if selector is not None else None,
        ),
        status=PersistentVolumeClaimStatus(phase="Bound" if bound else phase),
    )


def volume(
    name: str,
    size: str = "1Gi",
    *,
    of: str = "wait",
    zone: str | None = None,
    node: str | None = None,
    phase: str = "Available",
    modes: Iterable[str] = ("ReadWriteOnce",),
    mode: str = "Filesystem",
    labels: Mapping[str, str] | None = None,
    held: str = "",
    driver: str = "",
    ebs: str = "",
    reclaim: str = "Retain",
) -> PersistentVolume:
    """A volume in reach of a zone or a node; `held`: its claimRef; `driver`: of CSI, the handle is its name."""
    key, value = (ZONE, zone) if zone is not None else ("kubernetes.io/hostname", node)
    affinity = None
    if value is not None:
        wanted = objects.NodeSelectorRequirement(key=key, operator="In", values=(value,))
        term = objects.NodeSelectorTerm(match_expressions=(wanted,))
        affinity = VolumeNodeAffinity(required=objects.NodeSelector(node_selector_terms=(term,)))
    return PersistentVolume(
        metadata=objects.ObjectMeta(name=name, uid=f"uid-{name}", labels=dict(labels or {})),
        spec=PersistentVolumeSpec(
            capacity={"storage": size},
            access_modes=tuple(modes),
            storage_class_name=of,
            volume_mode=mode,
            node_affinity=affinity,
            claim_ref=ObjectReference(namespace="default", name=held) if held else None,
            csi=CSIPersistentVolumeSource(driver=driver, volume_handle=name) if driver else None,
            aws_elastic_block_store=NamedSource(volume_id=ebs) if ebs else None,
            persistent_volume_reclaim_policy=reclaim,
        ),
        status=PersistentVolumeStatus(phase=phase),
    )


def storage_class(
    name: str = "wait",
    *,
    provisioner: str = "kubernetes.io/no-provisioner",
    wait: bool = True,
    zones: Iterable[str] | None = None,
    default: bool = False,
) -> StorageClass:
    """A class; `zones` are its allowed topologies."""
    terms: tuple[TopologySelectorTerm, ...] = ()
    if zones is not None:
        wanted = TopologySelectorLabelRequirement(key=ZONE, values=tuple(zones))
        terms = (TopologySelectorTerm(match_label_expressions=(wanted,)),)
    marked = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    return StorageClass(
        metadata=objects.ObjectMeta(name=name, annotations=marked),
        provisioner=provisioner,
        volume_binding_mode="WaitForFirstConsumer" if wait else "Immediate",
        allowed_topologies=terms,
    )


def csi_node(node: str, limits: Mapping[str, int | None], migrated: str = "", keys: Iterable[str] = ()) -> CSINode:
    """What a node can attach, by driver; `migrated`: in-tree plugins, joined by commas."""
    drivers = tuple(
        CSINodeDriver(name=name, topology_keys=tuple(keys), allocatable=VolumeNodeResources(count=count))
        for name, count in limits.items()
    )
    notes = {"storage.alpha.kubernetes.io/migrated-plugins": migrated} if migrated else {}
    return CSINode(metadata=objects.ObjectMeta(name=node, annotations=notes), spec=CSINodeSpec(drivers=drivers))


def driver(name: str, *, capacities: bool = True, required: bool = False) -> CSIDriver:
    """A driver, by default one that publishes capacities; `required`: pods wait until it is installed."""
    spec = CSIDriverSpec(storage_capacity=capacities, prevent_pod_scheduling_if_missing=required)
    return CSIDriver(metadata=objects.ObjectMeta(name=name), spec=spec)


def attachment(volume: str | None, node: str, *, attacher: str = "disk.example.com") -> VolumeAttachment:
    """A volume that the API has attached to a node; `volume` None: given inline."""
    return VolumeAttachment(
        metadata=objects.ObjectMeta(name=f"{volume}-on-{node}"),
        spec=VolumeAttachmentSpec(
            attacher=attacher, node_name=node, source=VolumeAttachmentSource(persistent_volume_name=volume)
        ),
    )


def capacity(name: str, zone: str, left: str, *, of: str = "wait", largest: str | None = None) -> CSIStorageCapacity:
    """What is left for a class in a zone."""
    return CSIStorageCapacity(
        metadata=objects.ObjectMeta(name=name, namespace="default"),
        storage_class_name=of,
        node_topology=objects.LabelSelector(match_labels={ZONE: zone}),
        capacity=left,
        maximum_volume_size=largest,
    )


def pod(
    name: str, *claims: str, more: Iterable[objects.Volume] = (), made: Iterable[str] = (), **rest: Any
) -> objects.Pod:
    """A pod that uses claims; `more` are other volumes, `made` names of generic ephemeral ones."""
    source = objects.PersistentVolumeClaimVolumeSource
    volumes = [objects.Volume(name=f"v{i}", persistent_volume_claim=source(claim_name=c)) for i, c in enumerate(claims)]
    volumes += [objects.Volume(name=one, ephemeral=objects.EphemeralVolumeSource()) for one in made]
    found = plain_pod(name, **rest)
    return replace(found, spec=replace(found.spec, volumes=(*volumes, *more)))
