"""Small decoded views of stored objects: the fields that controllers need of every object.

A view has the fields that decide *whether* there is work; the full manifest is decoded only for the work itself. A
cluster of 50,000 pods thus costs tens of megabytes, and an event a few microseconds. Views form no cycles and are
excluded from garbage collection (``gc=False``), which would traverse all of them repeatedly.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import intern
from typing import Any, TypeVar

import msgspec

from kube_rules.admission import PREEMPTION_PRIORITY_CLASS
from kube_rules.meta import DISRUPTION_TARGET, FINISHED, Struct
from kube_rules.storage import PersistentVolume, PersistentVolumeClaim, StorageClass

T = TypeVar("T", bound=msgspec.Struct)
Key = tuple[str, str]
"""(namespace, name); cluster-scoped objects have the namespace ``""``."""


class Owner(msgspec.Struct, rename="camel", gc=False):
    """One entry of metadata.ownerReferences."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class Meta(msgspec.Struct, rename="camel", gc=False):
    """The metadata of any object; times are as stored."""

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
        """Return (namespace, name)."""
        return (self.namespace, self.name)

    @property
    def controller(self) -> Owner | None:
        """Return the owner that manages the object, if any."""
        for owner in self.owner_references or ():
            if owner.controller:
                return owner
        return None


class ObjectView(msgspec.Struct, rename="camel", gc=False):
    """The view of any object: its metadata."""

    metadata: Meta


class _GroupSpec(msgspec.Struct, rename="camel", gc=False):
    parent_composite_pod_group_name: str | None = None


class PodGroupView(msgspec.Struct, rename="camel", gc=False):
    """A PodGroup or CompositePodGroup: its metadata and its parent composite."""

    metadata: Meta
    spec: _GroupSpec = msgspec.field(default_factory=_GroupSpec)
    victim_class: str = ""
    """The priority class that it names for preemption of its pods."""

    @property
    def parent(self) -> str:
        """Return the name of the parent composite; empty for a root."""
        return self.spec.parent_composite_pod_group_name or ""


class _Annotations(msgspec.Struct, gc=False):
    annotations: dict[str, str] | None = None


class _AnnotatedObject(msgspec.Struct, gc=False):
    metadata: _Annotations


_decode_group = msgspec.json.Decoder(PodGroupView).decode
_decode_annotated = msgspec.json.Decoder(_AnnotatedObject).decode


def read_group(raw: bytes) -> PodGroupView:
    """Return the view of a stored group."""
    group = _decode_group(raw)
    if PREEMPTION_PRIORITY_CLASS.encode() in raw:
        annotations = _decode_annotated(raw).metadata.annotations or {}
        group.victim_class = annotations.get(PREEMPTION_PRIORITY_CLASS, "")
    return group


class ConditionView(msgspec.Struct, rename="camel", gc=False):
    """One condition of a status."""

    type: str = ""
    status: str = ""
    reason: str | None = None


class _TimedCondition(msgspec.Struct, rename="camel", gc=False):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class _SchedulingGroupView(msgspec.Struct, rename="camel", gc=False):
    pod_group_name: str | None = None


class _NamedObject(msgspec.Struct, rename="camel", gc=False):
    name: str = ""


class _Gate(msgspec.Struct, rename="camel", gc=False):
    condition_type: str = ""


class _PodSpec(msgspec.Struct, rename="camel", gc=False):
    node_name: str = ""
    readiness_gates: tuple[_Gate, ...] | None = None
    resource_claims: tuple[_NamedObject, ...] | None = None
    scheduling_group: _SchedulingGroupView | None = None


class _ExtendedClaim(msgspec.Struct, rename="camel", gc=False):
    resource_claim_name: str = ""


class _PodAddress(msgspec.Struct, gc=False):
    ip: str = ""


class _PodStatus(msgspec.Struct, rename="camel", gc=False):
    phase: str = "Pending"
    pod_addresses: tuple[_PodAddress, ...] | None = msgspec.field(default=None, name="podIPs")
    extended_resource_claim_status: _ExtendedClaim | None = None
    conditions: tuple[_TimedCondition, ...] | None = None


class _Pod(msgspec.Struct, rename="camel", gc=False):
    metadata: Meta
    spec: _PodSpec
    status: _PodStatus | None = None


class PodView(msgspec.Struct, gc=False):
    """A pod: its node, phase, readiness and termination.

    ``node`` and ``group`` are "" for none; ``ready_since`` is the time when the condition Ready became true;
    ``disrupted``: the condition DisruptionTarget is true.
    """

    metadata: Meta
    node: str
    group: str
    phase: str
    ready: bool
    ready_since: str | None
    disrupted: bool
    has_claims: bool = False
    """Whether the pod names device claims, or has a claim for its extended resources."""
    addresses: str = ""
    """The pod's IP addresses, separated by commas."""
    open_gates: int = 0
    """How many conditions of the pod's readiness gates are true."""

    @property
    def key(self) -> Key:
        """Return (namespace, name)."""
        return self.metadata.key

    @property
    def finished(self) -> bool:
        """Return whether the pod has succeeded or failed."""
        return self.phase in FINISHED

    @property
    def terminating(self) -> bool:
        """Return whether the pod is being deleted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def active(self) -> bool:
        """Return whether the pod counts as a replica: neither finished nor terminating."""
        return self.phase not in FINISHED and self.metadata.deletion_timestamp is None


_decode_pod = msgspec.json.Decoder(_Pod).decode
_NO_STATUS = _PodStatus()


def read_pod(raw: bytes) -> PodView:
    """Decode the view of a pod; strings that many pods share are stored once."""
    pod = _decode_pod(raw)
    status = pod.status or _NO_STATUS
    ready, since, disrupted, open_gates = False, None, False, 0
    gates = [gate.condition_type for gate in pod.spec.readiness_gates] if pod.spec.readiness_gates else ()
    for condition in status.conditions or ():
        if condition.status != "True":
            continue
        if condition.type == "Ready":
            ready, since = True, condition.last_transition_time
        elif condition.type == DISRUPTION_TARGET:
            disrupted = True
        elif condition.type in gates:
            open_gates += 1
    group = pod.spec.scheduling_group
    named = group.pod_group_name or "" if group is not None else ""
    return PodView(
        pod.metadata,
        intern(pod.spec.node_name),
        intern(named),
        intern(status.phase),
        ready,
        since,
        disrupted,
        bool(pod.spec.resource_claims) or status.extended_resource_claim_status is not None,
        ",".join([address.ip for address in status.pod_addresses or ()]),
        open_gates,
    )


class Consumer(msgspec.Struct, rename="camel", gc=False):
    """A consumer that a claim is reserved for."""

    uid: str = ""
    name: str = ""
    resource: str = ""


class DeviceResultView(msgspec.Struct, rename="camel", gc=False):
    """One allocated device of a claim, and the tolerations of its request."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    tolerations: tuple[dict[str, Any], ...] | None = None


class _DeviceResults(msgspec.Struct, rename="camel", gc=False):
    results: tuple[DeviceResultView, ...] | None = None


class _Allocation(msgspec.Struct, rename="camel", gc=False):
    devices: _DeviceResults | None = None


class _ClaimStatus(msgspec.Struct, rename="camel", gc=False):
    reserved_for: tuple[Consumer, ...] | None = None
    allocation: _Allocation | None = None


class ClaimView(msgspec.Struct, rename="camel", gc=False):
    """A device claim: its owner, consumers and devices."""

    metadata: Meta
    status: _ClaimStatus | None = None

    @property
    def users(self) -> tuple[Consumer, ...]:
        """Return the consumers that the claim is reserved for."""
        return (self.status.reserved_for if self.status is not None else None) or ()

    @property
    def consumers(self) -> list[str]:
        """Return the UIDs of the consumers that the claim is reserved for."""
        return [consumer.uid for consumer in self.users]

    @property
    def results(self) -> tuple[DeviceResultView, ...]:
        """Return the allocated devices."""
        allocation = self.status.allocation if self.status is not None else None
        devices = allocation.devices if allocation is not None else None
        return (devices.results if devices is not None else None) or ()

    @property
    def owning_pod(self) -> Owner | None:
        """Return the pod that the claim was created for."""
        owner = self.metadata.controller
        return owner if owner is not None and (owner.api_version, owner.kind) == ("v1", "Pod") else None

    @property
    def owning_group(self) -> Owner | None:
        """Return the PodGroup that the claim was created for."""
        owner = self.metadata.controller
        ours = owner is not None and owner.kind == "PodGroup" and owner.api_version.startswith("scheduling.k8s.io/")
        return owner if ours else None


class TaintView(msgspec.Struct, rename="camel", gc=False):
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
    taints: tuple[TaintView, ...] | None = None


class _SliceSpec(msgspec.Struct, rename="camel", gc=False):
    driver: str = ""
    pool: _Pool = msgspec.field(default_factory=_Pool)
    devices: tuple[_Device, ...] | None = None


class SliceView(msgspec.Struct, rename="camel", gc=False):
    """A ResourceSlice: its devices with their taints."""

    metadata: Meta
    spec: _SliceSpec = msgspec.field(default_factory=_SliceSpec)

    @property
    def pool(self) -> tuple[str, str]:
        """(driver, pool)."""
        return self.spec.driver, self.spec.pool.name

    @property
    def tainted(self) -> bool:
        """Return whether a device has a taint of effect NoExecute."""
        return any(taint.effect == "NoExecute" for device in self.spec.devices or () for taint in device.taints or ())


class _Selector(msgspec.Struct, rename="camel", gc=False):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class _RuleSpec(msgspec.Struct, rename="camel", gc=False):
    taint: TaintView = msgspec.field(default_factory=TaintView)
    device_selector: _Selector | None = None


class DeviceTaintRuleView(msgspec.Struct, rename="camel", gc=False):
    """A DeviceTaintRule."""

    metadata: Meta
    spec: _RuleSpec = msgspec.field(default_factory=_RuleSpec)

    def selects(self, result: DeviceResultView) -> bool:
        """Return whether the rule selects a device; a rule without a selector selects none."""
        wanted = self.spec.device_selector
        if wanted is None:
            return False
        pairs = ((wanted.driver, result.driver), (wanted.pool, result.pool), (wanted.device, result.device))
        return all(want in (None, have) for want, have in pairs)


class _NodeSpec(msgspec.Struct, rename="camel", gc=False):
    taints: tuple[TaintView, ...] | None = None
    unschedulable: bool = False


class _NodeStatus(msgspec.Struct, rename="camel", gc=False):
    conditions: tuple[ConditionView, ...] | None = None


class NodeView(msgspec.Struct, rename="camel", gc=False):
    """A node: its taints, conditions, and whether it is cordoned."""

    metadata: Meta
    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)

    def condition(self, kind: str) -> str | None:
        """Return the status of a condition, None if the node does not report it."""
        for condition in self.status.conditions or ():
            if condition.type == kind:
                return condition.status
        return None


class _LeaseSpec(msgspec.Struct, rename="camel", gc=False):
    renew_time: str | None = None
    lease_duration_seconds: int | None = None


class LeaseView(msgspec.Struct, rename="camel", gc=False):
    """A lease: its renew time and duration."""

    metadata: Meta
    spec: _LeaseSpec = msgspec.field(default_factory=_LeaseSpec)


class SpecView(msgspec.Struct, rename="camel"):
    """An object with its whole ``spec``: owners of pods, budgets, quotas."""

    metadata: Meta
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


class VolumeView(msgspec.Struct):
    """A PersistentVolume."""

    metadata: Meta
    item: PersistentVolume


class VolumeClaimView(msgspec.Struct):
    """A PersistentVolumeClaim."""

    metadata: Meta
    item: PersistentVolumeClaim


class StorageClassView(msgspec.Struct):
    """A StorageClass."""

    metadata: Meta
    item: StorageClass


_decode_seen = msgspec.json.Decoder(ObjectView).decode


def typed_reader(view: Callable[[Meta, Any], T], kind: type[Struct]) -> Callable[[bytes], T]:
    """Return a decoder from objects of a kind to their views."""
    decode = msgspec.json.Decoder(kind).decode
    return lambda raw: view(_decode_seen(raw).metadata, decode(raw))
