"""Device claims (resource.k8s.io/v1): claims, slices and classes as a scheduler reads them (light forms).

Device requests, device lists and selectors stay plain data: their reader compiles them once per spec. Invariants: see
`kube_rules.objects`, which re-exports the kinds.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Final

from kube_rules.meta import EMPTY_META, KubernetesObject, NodeSelector, ObjectMeta, Struct, map_field

IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
"""Prefix of the implicit extended resource of every device class (devices.md 4.1)."""

MOST_CONSUMERS: Final = 256
"""The maximum number of entries in status.reservedFor (resourceapi.ResourceClaimReservedForMaxSize)."""


class ResourceClaimSpec(Struct, frozen=True, kw_only=True):
    """spec of a ResourceClaim; `devices` as in the manifest (requests, constraints, config)."""

    devices: dict[str, Any] = map_field()


class ResourceClaimConsumerReference(Struct, frozen=True, kw_only=True):
    """status.reservedFor[] of a ResourceClaim."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocationResult(Struct, frozen=True, kw_only=True):
    """status.allocation of a ResourceClaim; without a node selector it is available on every node."""

    devices: dict[str, Any] = map_field()
    node_selector: NodeSelector | None = None


class ResourceClaimStatus(Struct, frozen=True, kw_only=True):
    """status of a ResourceClaim; `allocation` is None if it is not allocated. `devices` holds the drivers' reports."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[dict[str, Any], ...] = ()


class ResourceClaim(KubernetesObject, frozen=True, kw_only=True):
    """resource.k8s.io/v1 ResourceClaim."""

    API_VERSION: ClassVar[str] = "resource.k8s.io/v1"
    NAMESPACED: ClassVar[bool] = True

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Struct, frozen=True, kw_only=True):
    """spec of a ResourceClaimTemplate: labels, annotations and spec of the claims created from it."""

    metadata: ObjectMeta = EMPTY_META
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(KubernetesObject, frozen=True, kw_only=True):
    """resource.k8s.io/v1 ResourceClaimTemplate: each pod that names it gets a claim created from it."""

    API_VERSION: ClassVar[str] = "resource.k8s.io/v1"
    NAMESPACED: ClassVar[bool] = True

    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class ResourcePool(Struct, frozen=True, kw_only=True):
    """spec.pool of a ResourceSlice."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Struct, frozen=True, kw_only=True):
    """spec of a ResourceSlice: devices of one driver, on a node, on selected nodes, on all, or as each device declares.

    A slice has either `devices` or `shared_counters`, the counters that the pool's partitionable devices consume.
    """

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    shared_counters: tuple[dict[str, Any], ...] = ()
    devices: tuple[dict[str, Any], ...] = ()


class ResourceSlice(KubernetesObject, frozen=True, kw_only=True):
    """resource.k8s.io/v1 ResourceSlice."""

    API_VERSION: ClassVar[str] = "resource.k8s.io/v1"

    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceClassSpec(Struct, frozen=True, kw_only=True):
    """spec of a DeviceClass; selectors and config as in the manifest."""

    selectors: tuple[dict[str, Any], ...] = ()
    config: tuple[dict[str, Any], ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(KubernetesObject, frozen=True, kw_only=True):
    """resource.k8s.io/v1 DeviceClass."""

    API_VERSION: ClassVar[str] = "resource.k8s.io/v1"

    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceTaint(Struct, frozen=True, kw_only=True):
    """spec.taint of a DeviceTaintRule; effect NoSchedule, NoExecute or None; an unknown effect counts as None."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: datetime | None = None


class DeviceTaintSelector(Struct, frozen=True, kw_only=True):
    """spec.deviceSelector of a DeviceTaintRule; an unset field matches any value."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Struct, frozen=True, kw_only=True):
    """spec of a DeviceTaintRule; without a selector it selects no device, with an empty one every device."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()

    def selects(self, driver: str, pool: str, device: str | None = None) -> bool:
        """Return whether the rule selects a device; without a name, whether it may select any device of the pool."""
        wanted = self.device_selector
        if wanted is None or wanted.driver not in (None, driver) or wanted.pool not in (None, pool):
            return False
        return device is None or wanted.device in (None, device)


class DeviceTaintRule(KubernetesObject, frozen=True, kw_only=True):
    """resource.k8s.io/v1 DeviceTaintRule: a taint for all devices that it selects (KEP-5055)."""

    API_VERSION: ClassVar[str] = "resource.k8s.io/v1"

    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()


class DeviceSelectorError(ValueError):
    """An expression that does not compile or fails at evaluation; `str()` is the reason, in one line."""


def split_name(name: str, driver: str) -> tuple[str, str]:
    """Return (domain, identifier) of a qualified name; the default domain is the driver."""
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)
