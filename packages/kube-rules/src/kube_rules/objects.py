"""Typed Kubernetes objects with the fields that a scheduler reads.

Every class mirrors the Kubernetes type of the same name; a field is the Kubernetes field in snake_case. The internal
form of `Workload` and `PodGroup` is `scheduling.k8s.io/v1beta1` (api.md); other versions are converted by
`kube_rules.versions` before they become objects.

Invariants: objects are frozen, hold no reference cycles (hence `gc=False`) and no `None` where Kubernetes has "absent
means empty": sequences are tuples, maps are dicts, nested structs exist. Empty maps are one shared read-only dict.
`None` appears only where absent and empty differ (a selector, an unset priority). To change an object, make a new one
with `msgspec.structs.replace`.

Quantities stay unparsed (`str | int | float`); `quantity` and `requests` read them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

import msgspec

from kube_rules.devices import DeviceClass as DeviceClass
from kube_rules.devices import DeviceTaintRule as DeviceTaintRule
from kube_rules.devices import ResourceClaim as ResourceClaim
from kube_rules.devices import ResourceClaimTemplate as ResourceClaimTemplate
from kube_rules.devices import ResourceSlice as ResourceSlice
from kube_rules.groups import NO_POLICY_FIELD as NO_POLICY_FIELD
from kube_rules.groups import CompositeGangSchedulingPolicy as CompositeGangSchedulingPolicy
from kube_rules.groups import CompositePodGroup as CompositePodGroup
from kube_rules.groups import CompositePodGroupSchedulingPolicy as CompositePodGroupSchedulingPolicy
from kube_rules.groups import CompositePodGroupSpec as CompositePodGroupSpec
from kube_rules.groups import CompositePodGroupStatus as CompositePodGroupStatus
from kube_rules.groups import CompositePodGroupTemplate as CompositePodGroupTemplate
from kube_rules.groups import DisruptionMode as DisruptionMode
from kube_rules.groups import GangSchedulingPolicy as GangSchedulingPolicy
from kube_rules.groups import PodGroup as PodGroup
from kube_rules.groups import PodGroupResourceClaim as PodGroupResourceClaim
from kube_rules.groups import PodGroupResourceClaimStatus as PodGroupResourceClaimStatus
from kube_rules.groups import PodGroupSchedulingConstraints as PodGroupSchedulingConstraints
from kube_rules.groups import PodGroupSchedulingPolicy as PodGroupSchedulingPolicy
from kube_rules.groups import PodGroupSpec as PodGroupSpec
from kube_rules.groups import PodGroupStatus as PodGroupStatus
from kube_rules.groups import PodGroupTemplate as PodGroupTemplate
from kube_rules.groups import TopologyConstraint as TopologyConstraint
from kube_rules.groups import TypedLocalObjectReference as TypedLocalObjectReference
from kube_rules.groups import Workload as Workload
from kube_rules.groups import WorkloadReference as WorkloadReference
from kube_rules.groups import WorkloadSpec as WorkloadSpec
from kube_rules.limits import LimitRange as LimitRange
from kube_rules.limits import ResourceQuota as ResourceQuota
from kube_rules.meta import EMPTY as EMPTY
from kube_rules.meta import EMPTY_MAP as EMPTY_MAP
from kube_rules.meta import EMPTY_META as EMPTY_META
from kube_rules.meta import FINISHED, map_field
from kube_rules.meta import Condition as Condition
from kube_rules.meta import Empty as Empty
from kube_rules.meta import Int32 as Int32
from kube_rules.meta import KubernetesObject as KubernetesObject
from kube_rules.meta import LabelSelector as LabelSelector
from kube_rules.meta import LabelSelectorRequirement as LabelSelectorRequirement
from kube_rules.meta import NodeSelector as NodeSelector
from kube_rules.meta import NodeSelectorRequirement as NodeSelectorRequirement
from kube_rules.meta import NodeSelectorTerm as NodeSelectorTerm
from kube_rules.meta import ObjectMeta as ObjectMeta
from kube_rules.meta import ObjectRef as ObjectRef
from kube_rules.meta import OwnerReference as OwnerReference
from kube_rules.meta import QuantityText as QuantityText
from kube_rules.meta import ResourceList as ResourceList
from kube_rules.meta import Struct as Struct
from kube_rules.owners import ReplicaSet as ReplicaSet
from kube_rules.owners import ReplicationController as ReplicationController
from kube_rules.owners import Service as Service
from kube_rules.owners import StatefulSet as StatefulSet
from kube_rules.storage import CSIDriver as CSIDriver
from kube_rules.storage import CSINode as CSINode
from kube_rules.storage import CSIStorageCapacity as CSIStorageCapacity
from kube_rules.storage import NamedSource as NamedSource
from kube_rules.storage import PersistentVolume as PersistentVolume
from kube_rules.storage import PersistentVolumeClaim as PersistentVolumeClaim
from kube_rules.storage import PersistentVolumeClaimSpec as PersistentVolumeClaimSpec
from kube_rules.storage import StorageClass as StorageClass
from kube_rules.storage import VolumeAttachment as VolumeAttachment

DEFAULT_SCHEDULER = "default-scheduler"


# --- Pod ----------------------------------------------------------------------------------------------------


class ResourceClaimUse(Struct, frozen=True, kw_only=True):
    """resources.claims[] of a container."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Struct, frozen=True, kw_only=True):
    """resources of a container or of a pod."""

    requests: ResourceList = map_field()
    limits: ResourceList = map_field()
    claims: tuple[ResourceClaimUse, ...] = ()


EMPTY_RESOURCES = ResourceRequirements()


class ContainerPort(Struct, frozen=True, kw_only=True):
    """containers[].ports[]; `host_port` 0 means none."""

    name: str = ""
    container_port: Int32 = 0
    host_port: Int32 = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class ContainerRestartRule(Struct, frozen=True, kw_only=True):
    """containers[].restartPolicyRules[]: the action when the container exits; the kubelet decides when."""

    action: str = ""


class VolumeMount(Struct, frozen=True, kw_only=True):
    """containers[].volumeMounts[], the fields with requirements for the node."""

    bind_mount_options: tuple[str, ...] = ()


class Container(Struct, frozen=True, kw_only=True):
    """A container or an init container; `restart_policy == "Always"` makes an init container restartable."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = EMPTY_RESOURCES
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()


class EphemeralContainer(Struct, frozen=True, kw_only=True):
    """spec.ephemeralContainers[]: they request no resources, but may have requirements for the node."""

    volume_mounts: tuple[VolumeMount, ...] = ()


class PreferredSchedulingTerm(Struct, frozen=True, kw_only=True):
    """A node selector term with a weight of 1..100."""

    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Struct, frozen=True, kw_only=True):
    """affinity.nodeAffinity."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Struct, frozen=True, kw_only=True):
    """Pods (by label and namespace) that the pod must share, or not share, a topology domain with."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Struct, frozen=True, kw_only=True):
    """A pod affinity term with a weight of 1..100."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Struct, frozen=True, kw_only=True):
    """affinity.podAffinity."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class PodAntiAffinity(Struct, frozen=True, kw_only=True):
    """affinity.podAntiAffinity."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Struct, frozen=True, kw_only=True):
    """spec.affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class Toleration(Struct, frozen=True, kw_only=True):
    """spec.tolerations[]; an empty key with Exists tolerates everything, an empty effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(Struct, frozen=True, kw_only=True):
    """spec.topologySpreadConstraints[]."""

    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class PersistentVolumeClaimVolumeSource(Struct, frozen=True, kw_only=True):
    """volumes[].persistentVolumeClaim."""

    claim_name: str = ""
    read_only: bool = False


class PersistentVolumeClaimTemplate(Struct, frozen=True, kw_only=True):
    """volumes[].ephemeral.volumeClaimTemplate."""

    metadata: ObjectMeta = EMPTY_META
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolumeSource(Struct, frozen=True, kw_only=True):
    """volumes[].ephemeral: the claim is named `<pod>-<volume>`."""

    volume_claim_template: PersistentVolumeClaimTemplate = PersistentVolumeClaimTemplate()


class GCEPersistentDisk(Struct, frozen=True, kw_only=True):
    """volumes[].gcePersistentDisk; two pods share a disk on a node only if both are read-only."""

    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStore(Struct, frozen=True, kw_only=True):
    """volumes[].awsElasticBlockStore; never shared on a node."""

    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool = False


class ISCSIVolume(Struct, frozen=True, kw_only=True):
    """volumes[].iscsi."""

    target_portal: str = ""
    iqn: str = ""
    lun: int = 0
    read_only: bool = False


class RBDVolume(Struct, frozen=True, kw_only=True):
    """volumes[].rbd."""

    monitors: tuple[str, ...] = ()
    pool: str = "rbd"
    image: str = ""
    read_only: bool = False


class CSIVolumeSource(Struct, frozen=True, kw_only=True):
    """volumes[].csi: an inline volume of a CSI driver."""

    driver: str = ""
    read_only: bool = False


class EmptyDirVolumeSource(Struct, frozen=True, kw_only=True):
    """volumes[].emptyDir: deleted with the pod."""


class Volume(Struct, frozen=True, kw_only=True):
    """spec.volumes[]; sources that affect neither placement nor a drain are left out."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    iscsi: ISCSIVolume | None = None
    rbd: RBDVolume | None = None
    csi: CSIVolumeSource | None = None
    azure_disk: NamedSource | None = None
    cinder: NamedSource | None = None
    portworx_volume: NamedSource | None = None


class PodResourceClaim(Struct, frozen=True, kw_only=True):
    """spec.resourceClaims[]: a claim by name or by template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGate(Struct, frozen=True, kw_only=True):
    """spec.schedulingGates[]."""

    name: str = ""


class PodSchedulingGroup(Struct, frozen=True, kw_only=True):
    """spec.schedulingGroup: the PodGroup of the pod, in its namespace."""

    pod_group_name: str | None = None


class PodSpec(Struct, frozen=True, kw_only=True):
    """spec of a Pod."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: ResourceList = map_field()
    resources: ResourceRequirements | None = None
    node_name: str = ""
    node_selector: dict[str, str] = map_field()
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    scheduler_name: str = DEFAULT_SCHEDULER
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    host_network: bool = False
    host_users: bool | None = None
    ephemeral_containers: tuple[EphemeralContainer, ...] = ()
    termination_grace_period_seconds: int = 30
    active_deadline_seconds: int | None = None
    restart_policy: str = "Always"
    runtime_class_name: str | None = None
    workload_ref: Any = None
    """The v1alpha1 reference to a group; it is only read to refuse it with a hint (api.md)."""


class PodCondition(Struct, frozen=True, kw_only=True):
    """status.conditions[] of a Pod."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_probe_time: datetime | None = None
    last_transition_time: datetime | None = None
    observed_generation: int = 0


class ContainerStatus(Struct, frozen=True, kw_only=True):
    """status.containerStatuses[]: the resources that the kubelet has allocated, for pods resized in place."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = map_field()


class PodResourceClaimStatus(Struct, frozen=True, kw_only=True):
    """status.resourceClaimStatuses[]: the claim generated from a template."""

    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(Struct, frozen=True, kw_only=True):
    """status of a Pod."""

    phase: str = "Pending"
    conditions: tuple[PodCondition, ...] = ()
    start_time: datetime | None = None
    nominated_node_name: str = ""
    reason: str = ""
    message: str = ""
    qos_class: str = ""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = map_field()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    observed_generation: int = 0


EMPTY_POD_SPEC = PodSpec()
EMPTY_POD_STATUS = PodStatus()


class Pod(KubernetesObject, frozen=True, kw_only=True):
    """v1 Pod."""

    API_VERSION: ClassVar[str] = "v1"
    NAMESPACED: ClassVar[bool] = True

    spec: PodSpec = EMPTY_POD_SPEC
    status: PodStatus = EMPTY_POD_STATUS

    @property
    def finished(self) -> bool:
        """Return whether the pod is Succeeded or Failed."""
        return self.status.phase in FINISHED

    @property
    def terminating(self) -> bool:
        """Return whether the pod is being deleted."""
        return self.metadata.deletion_timestamp is not None


# --- Node ---------------------------------------------------------------------------------------------------


class Taint(Struct, frozen=True, kw_only=True):
    """spec.taints[] of a Node; effect NoSchedule, PreferNoSchedule or NoExecute."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: datetime | None = None


class NodePodPreemptionPolicy(Struct, frozen=True, kw_only=True):
    """spec.podPreemptionPolicy of a Node (KEP-5836): owners that forbid preemption there for resizes in place."""

    disable_resize_preemption: tuple[str, ...] = ()


class NodeSpec(Struct, frozen=True, kw_only=True):
    """spec of a Node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(default="", name="providerID")
    pod_preemption_policy: NodePodPreemptionPolicy | None = None


class NodeCondition(Struct, frozen=True, kw_only=True):
    """status.conditions[] of a Node."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_heartbeat_time: datetime | None = None
    last_transition_time: datetime | None = None


class ContainerImage(Struct, frozen=True, kw_only=True):
    """status.images[] of a Node; size in bytes."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(Struct, frozen=True, kw_only=True):
    """status of a Node."""

    capacity: ResourceList = map_field()
    allocatable: ResourceList = map_field()
    conditions: tuple[NodeCondition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(KubernetesObject, frozen=True, kw_only=True):
    """v1 Node."""

    API_VERSION: ClassVar[str] = "v1"

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


# --- priorities, budgets, namespaces ------------------------------------------------------------------------


class PriorityClass(KubernetesObject, frozen=True, kw_only=True):
    """scheduling.k8s.io/v1 PriorityClass."""

    API_VERSION: ClassVar[str] = "scheduling.k8s.io/v1"

    value: Int32
    """Required, because the API has no default for it (api.md)."""
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"
    description: str = ""


class RuntimeClassOverhead(Struct, frozen=True, kw_only=True):
    """overhead of a RuntimeClass."""

    pod_fixed: ResourceList = map_field()


class RuntimeClassScheduling(Struct, frozen=True, kw_only=True):
    """scheduling of a RuntimeClass."""

    node_selector: dict[str, str] = map_field()
    tolerations: tuple[Toleration, ...] = ()


class RuntimeClass(KubernetesObject, frozen=True, kw_only=True):
    """node.k8s.io/v1 RuntimeClass (read by plans, not by the live scheduler: admission applies it to pods)."""

    API_VERSION: ClassVar[str] = "node.k8s.io/v1"

    handler: str = ""
    overhead: RuntimeClassOverhead | None = None
    scheduling: RuntimeClassScheduling | None = None


class PodDisruptionBudgetSpec(Struct, frozen=True, kw_only=True):
    """spec of a PodDisruptionBudget; `int | str`: a number of pods or a percentage."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Struct, frozen=True, kw_only=True):
    """status of a PodDisruptionBudget."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, datetime | None] = map_field()
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed_generation: int = 0


class PodDisruptionBudget(KubernetesObject, frozen=True, kw_only=True):
    """policy/v1 PodDisruptionBudget."""

    API_VERSION: ClassVar[str] = "policy/v1"
    NAMESPACED: ClassVar[bool] = True

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus | None = None
    """None if the input has no status; then it is computed from the pods when the cluster is built."""


class Namespace(KubernetesObject, frozen=True, kw_only=True):
    """v1 Namespace."""

    API_VERSION: ClassVar[str] = "v1"
