"""Small decoded views of stored objects: what controllers need to know of every object at hand.

A view holds the fields that decide *whether* something has to be done; the full manifest is decoded only when
it is. So a cluster of 50,000 pods costs some tens of megabytes here, and an event some microseconds. Views form
no cycles and are kept from the garbage collector (``gc=False``): it would traverse all of them again and again.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import intern
from typing import Any, TypeVar

import msgspec

from kube_rules.admission import PREEMPTION_PRIORITY_CLASS
from kube_rules.meta import Struct
from kube_rules.storage import PersistentVolume, PersistentVolumeClaim, StorageClass

T = TypeVar("T", bound=msgspec.Struct)
Key = tuple[str, str]
"""(namespace, name); cluster-scoped objects have the namespace ``""``."""

FINISHED = ("Succeeded", "Failed")


class Owner(msgspec.Struct, rename="camel", gc=False):
    """One entry of metadata.ownerReferences."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class Meta(msgspec.Struct, rename="camel", gc=False):
    """metadata of any object; times are as written."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    owner_references: tuple[Owner, ...] | None = None
    finalizers: tuple[str, ...] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    generation: int = 0

    @property
    def key(self) -> Key:
        """(namespace, name)."""
        return (self.namespace, self.name)

    @property
    def controller(self) -> Owner | None:
        """Return the owner that manages the object, if any."""
        for owner in self.owner_references or ():
            if owner.controller:
                return owner
        return None


class Seen(msgspec.Struct, rename="camel", gc=False):
    """Any object: its metadata."""

    metadata: Meta


class _GroupSpec(msgspec.Struct, rename="camel", gc=False):
    parent_composite_pod_group_name: str | None = None


class GroupSeen(msgspec.Struct, rename="camel", gc=False):
    """A PodGroup or CompositePodGroup: its metadata and the composite it is in."""

    metadata: Meta
    spec: _GroupSpec = msgspec.field(default_factory=_GroupSpec)
    victim_class: str = ""
    """The class that it names as a victim."""

    @property
    def parent(self) -> str:
        """Name of the composite above; empty for a root."""
        return self.spec.parent_composite_pod_group_name or ""


class _Annotations(msgspec.Struct, gc=False):
    annotations: dict[str, str] | None = None


class _Annotated(msgspec.Struct, gc=False):
    metadata: _Annotations


_decode_group = msgspec.json.Decoder(GroupSeen).decode
_decode_annotated = msgspec.json.Decoder(_Annotated).decode


def read_group(raw: bytes) -> GroupSeen:
    """Return a stored group as controllers see it."""
    found = _decode_group(raw)
    if PREEMPTION_PRIORITY_CLASS.encode() in raw:
        annotations = _decode_annotated(raw).metadata.annotations or {}
        found.victim_class = annotations.get(PREEMPTION_PRIORITY_CLASS, "")
    return found


class ConditionSeen(msgspec.Struct, rename="camel", gc=False):
    """One condition of a status."""

    type: str = ""
    status: str = ""
    reason: str | None = None


class _Timed(msgspec.Struct, rename="camel", gc=False):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class _SchedulingGroupSeen(msgspec.Struct, rename="camel", gc=False):
    pod_group_name: str | None = None


class _Named(msgspec.Struct, rename="camel", gc=False):
    name: str = ""


class _PodSpec(msgspec.Struct, rename="camel", gc=False):
    node_name: str = ""
    resource_claims: tuple[_Named, ...] | None = None
    scheduling_group: _SchedulingGroupSeen | None = None


class _ExtendedClaim(msgspec.Struct, rename="camel", gc=False):
    resource_claim_name: str = ""


class _PodAddress(msgspec.Struct, gc=False):
    ip: str = ""


class _PodStatus(msgspec.Struct, rename="camel", gc=False):
    phase: str = "Pending"
    pod_addresses: tuple[_PodAddress, ...] | None = msgspec.field(default=None, name="podIPs")
    extended_resource_claim_status: _ExtendedClaim | None = None
    conditions: tuple[_Timed, ...] | None = None


class _Pod(msgspec.Struct, rename="camel", gc=False):
    metadata: Meta
    spec: _PodSpec
    status: _PodStatus | None = None


class PodSeen(msgspec.Struct, gc=False):
    """A pod: where it is bound, whether it runs, is ready, ends.

    ``node`` and ``group`` are "" if it has none; ``ready_since`` is when its condition Ready became true;
    ``disrupted``: something other than the pod itself ends it (condition DisruptionTarget).
    """

    metadata: Meta
    node: str
    group: str
    phase: str
    ready: bool
    ready_since: str | None
    disrupted: bool
    has_claims: bool = False
    """It names device claims, or has one for its extended resources."""
    addresses: str = ""
    """Its addresses, with commas between them."""

    @property
    def key(self) -> Key:
        """(namespace, name)."""
        return self.metadata.key

    @property
    def finished(self) -> bool:
        """Succeeded or Failed."""
        return self.phase in FINISHED

    @property
    def terminating(self) -> bool:
        """Deleted, but still there."""
        return self.metadata.deletion_timestamp is not None

    @property
    def active(self) -> bool:
        """Counts as a replica: neither finished nor terminating."""
        return self.phase not in FINISHED and self.metadata.deletion_timestamp is None


_decode_pod = msgspec.json.Decoder(_Pod).decode
_NO_STATUS = _PodStatus()


def read_pod(raw: bytes) -> PodSeen:
    """Decode the view of a pod; strings that many pods share are kept once."""
    pod = _decode_pod(raw)
    status = pod.status or _NO_STATUS
    ready, since, disrupted = False, None, False
    for condition in status.conditions or ():
        if condition.status != "True":
            continue
        if condition.type == "Ready":
            ready, since = True, condition.last_transition_time
        elif condition.type == "DisruptionTarget":
            disrupted = True
    group = pod.spec.scheduling_group
    named = group.pod_group_name or "" if group is not None else ""
    return PodSeen(
        pod.metadata,
        intern(pod.spec.node_name),
        intern(named),
        intern(status.phase),
        ready,
        since,
        disrupted,
        bool(pod.spec.resource_claims) or status.extended_resource_claim_status is not None,
        ",".join([one.ip for one in status.pod_addresses or ()]),
    )


class Consumer(msgspec.Struct, rename="camel", gc=False):
    """One of those a claim is reserved for."""

    uid: str = ""
    name: str = ""
    resource: str = ""


class ResultSeen(msgspec.Struct, rename="camel", gc=False):
    """One device that a claim got, and what its request tolerates."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    tolerations: tuple[dict[str, Any], ...] | None = None


class _DeviceResults(msgspec.Struct, rename="camel", gc=False):
    results: tuple[ResultSeen, ...] | None = None


class _Allocation(msgspec.Struct, rename="camel", gc=False):
    devices: _DeviceResults | None = None


class _ClaimStatus(msgspec.Struct, rename="camel", gc=False):
    reserved_for: tuple[Consumer, ...] | None = None
    allocation: _Allocation | None = None


class ClaimSeen(msgspec.Struct, rename="camel", gc=False):
    """A device claim: its owner, its users, its devices."""

    metadata: Meta
    status: _ClaimStatus | None = None

    @property
    def users(self) -> tuple[Consumer, ...]:
        """Those it is reserved for."""
        return (self.status.reserved_for if self.status is not None else None) or ()

    @property
    def consumers(self) -> list[str]:
        """UIDs of those it is reserved for."""
        return [one.uid for one in self.users]

    @property
    def results(self) -> tuple[ResultSeen, ...]:
        """Return the devices it got."""
        allocation = self.status.allocation if self.status is not None else None
        devices = allocation.devices if allocation is not None else None
        return (devices.results if devices is not None else None) or ()

    @property
    def owning_pod(self) -> Owner | None:
        """The pod it was made for."""
        owner = self.metadata.controller
        return owner if owner is not None and (owner.api_version, owner.kind) == ("v1", "Pod") else None

    @property
    def owning_group(self) -> Owner | None:
        """The PodGroup it was made for."""
        owner = self.metadata.controller
        ours = owner is not None and owner.kind == "PodGroup" and owner.api_version.startswith("scheduling.k8s.io/")
        return owner if ours else None


class TaintSeen(msgspec.Struct, rename="camel", gc=False):
    """One taint of a node or a device."""

    key: str = ""
    effect: str = ""
    value: str = ""
    time_added: str | None = None


class _Pool(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    generation: int = 0


class _Device(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    taints: tuple[TaintSeen, ...] | None = None


class _SliceSpec(msgspec.Struct, rename="camel", gc=False):
    driver: str = ""
    pool: _Pool = msgspec.field(default_factory=_Pool)
    devices: tuple[_Device, ...] | None = None


class SliceSeen(msgspec.Struct, rename="camel", gc=False):
    """A ResourceSlice: its devices with their taints."""

    metadata: Meta
    spec: _SliceSpec = msgspec.field(default_factory=_SliceSpec)

    @property
    def pool(self) -> tuple[str, str]:
        """(driver, pool)."""
        return self.spec.driver, self.spec.pool.name

    @property
    def tainted(self) -> bool:
        """Return whether a device has a taint that evicts."""
        return any(taint.effect == "NoExecute" for one in self.spec.devices or () for taint in one.taints or ())


class _Selector(msgspec.Struct, rename="camel", gc=False):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class _RuleSpec(msgspec.Struct, rename="camel", gc=False):
    taint: TaintSeen = msgspec.field(default_factory=TaintSeen)
    device_selector: _Selector | None = None


class RuleSeen(msgspec.Struct, rename="camel", gc=False):
    """A DeviceTaintRule."""

    metadata: Meta
    spec: _RuleSpec = msgspec.field(default_factory=_RuleSpec)

    def selects(self, one: ResultSeen) -> bool:
        """Return whether a device is meant; without a selector none is."""
        wanted = self.spec.device_selector
        if wanted is None:
            return False
        pairs = ((wanted.driver, one.driver), (wanted.pool, one.pool), (wanted.device, one.device))
        return all(want in (None, have) for want, have in pairs)


class _NodeSpec(msgspec.Struct, rename="camel", gc=False):
    taints: tuple[TaintSeen, ...] | None = None
    unschedulable: bool = False


class _NodeStatus(msgspec.Struct, rename="camel", gc=False):
    conditions: tuple[ConditionSeen, ...] | None = None


class NodeSeen(msgspec.Struct, rename="camel", gc=False):
    """A node: its taints, whether it is cordoned, its conditions."""

    metadata: Meta
    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)

    def condition(self, kind: str) -> str | None:
        """Return the status of a condition, None if the node does not report it."""
        for one in self.status.conditions or ():
            if one.type == kind:
                return one.status
        return None


class _LeaseSpec(msgspec.Struct, rename="camel", gc=False):
    renew_time: str | None = None
    lease_duration_seconds: int | None = None


class LeaseSeen(msgspec.Struct, rename="camel", gc=False):
    """A lease: when it was renewed."""

    metadata: Meta
    spec: _LeaseSpec = msgspec.field(default_factory=_LeaseSpec)


class SelectingSeen(msgspec.Struct, rename="camel"):
    """An object of which the whole ``spec`` matters: owners of pods, budgets, quotas."""

    metadata: Meta
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


class VolumeSeen(msgspec.Struct):
    """A PersistentVolume."""

    metadata: Meta
    item: PersistentVolume


class VolumeClaimSeen(msgspec.Struct):
    """A PersistentVolumeClaim."""

    metadata: Meta
    item: PersistentVolumeClaim


class StorageClassSeen(msgspec.Struct):
    """A StorageClass."""

    metadata: Meta
    item: StorageClass


_decode_seen = msgspec.json.Decoder(Seen).decode


def typed_reader(view: Callable[[Meta, Any], T], kind: type[Struct]) -> Callable[[bytes], T]:
    """Return a decoder of objects of a kind to views of them."""
    decode = msgspec.json.Decoder(kind).decode
    return lambda raw: view(_decode_seen(raw).metadata, decode(raw))
