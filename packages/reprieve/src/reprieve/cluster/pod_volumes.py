"""The volumes in a pod's spec that matter for placement: claims and inline disks."""

from dataclasses import dataclass

from kube_rules import objects


@dataclass(frozen=True, slots=True)
class UsedClaim:
    """A claim that a pod uses; `ephemeral`: created for and owned by this pod (generic ephemeral volume)."""

    key: str
    name: str
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class InlineDisk:
    """A disk named in a pod's spec. `source` is the field of `spec.volumes[]`.

    `ids`: two disks with a common id are the same disk.
    """

    source: str
    ids: frozenset[str]
    read_only: bool


@dataclass(frozen=True, slots=True)
class PodVolumes:
    """The volume data of a pod's spec that volume plugins read; equal for pods with the same volumes."""

    claims: tuple[UsedClaim, ...]
    disks: tuple[InlineDisk, ...]


def volumes_of(pod: objects.Pod) -> PodVolumes | None:
    """Return the volumes of a pod that matter for placement; None without any, as for most pods."""
    if not pod.spec.volumes:
        return None
    namespace = pod.metadata.namespace or "default"
    claims: list[UsedClaim] = []
    disks: list[InlineDisk] = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            name = volume.persistent_volume_claim.claim_name
            claims.append(UsedClaim(f"{namespace}/{name}", name))
        elif volume.ephemeral is not None:
            name = f"{pod.metadata.name}-{volume.name}"
            claims.append(UsedClaim(f"{namespace}/{name}", name, ephemeral=True))
        else:
            disk = _inline(volume)
            if disk is not None:
                disks.append(disk)
    return PodVolumes(tuple(claims), tuple(disks)) if claims or disks else None


def _inline(volume: objects.Volume) -> InlineDisk | None:
    if volume.gce_persistent_disk is not None:
        gce = volume.gce_persistent_disk
        return InlineDisk("gcePersistentDisk", frozenset({gce.pd_name}), gce.read_only)
    if volume.aws_elastic_block_store is not None:
        return InlineDisk("awsElasticBlockStore", frozenset({volume.aws_elastic_block_store.volume_id}), False)
    if volume.iscsi is not None:
        return InlineDisk("iscsi", frozenset({volume.iscsi.iqn}), volume.iscsi.read_only)
    if volume.rbd is not None:
        rbd = volume.rbd
        same = frozenset(f"{monitor}|{rbd.pool}|{rbd.image}" for monitor in rbd.monitors)
        return InlineDisk("rbd", same, rbd.read_only)
    if volume.azure_disk is not None:
        return InlineDisk("azureDisk", frozenset({volume.azure_disk.disk_name}), volume.azure_disk.read_only)
    if volume.cinder is not None:
        return InlineDisk("cinder", frozenset({volume.cinder.volume_id}), volume.cinder.read_only)
    if volume.portworx_volume is not None:
        portworx = volume.portworx_volume
        return InlineDisk("portworxVolume", frozenset({portworx.volume_id}), portworx.read_only)
    return None
