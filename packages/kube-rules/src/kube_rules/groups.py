"""Workload, PodGroup and CompositePodGroup (scheduling.k8s.io).

The internal form of Workload and PodGroup is `v1beta1`, that of CompositePodGroup, which has no v1beta1, `v1alpha3`
(api.md, composite.md 1).  Invariants: see `kube_rules.objects`, which re-exports every public name here.
"""

from __future__ import annotations

from typing import ClassVar, Final

import msgspec

from kube_rules.foreign_groups import CUSTOM, FOREIGN, ForeignGroup
from kube_rules.meta import EMPTY, Condition, Empty, Int32, KubernetesObject, Struct

NO_POLICY_FIELD = ""
"""`preemption_policy` of a PodGroup read in a version without that field: it never has its own."""

MAX_DEPTH: Final = 4
"""The maximum number of levels of a tree, including the pod groups (composite.md 1)."""


class GangSchedulingPolicy(Struct, frozen=True, kw_only=True):
    """schedulingPolicy.gang: all or nothing for the first `min_count` pods."""

    min_count: Int32 = 0


class PodGroupSchedulingPolicy(Struct, frozen=True, kw_only=True):
    """Exactly one of `basic` and `gang`."""

    basic: Empty | None = None
    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(Struct, frozen=True, kw_only=True):
    """schedulingConstraints.topology[]: all pods share one value of the node label `key`."""

    key: str = ""


class PodGroupSchedulingConstraints(Struct, frozen=True, kw_only=True):
    """schedulingConstraints; at most one topology constraint."""

    topology: tuple[TopologyConstraint, ...] = ()


class DisruptionMode(Struct, frozen=True, kw_only=True):
    """Exactly one of `single` (pods may be evicted individually) and `all` (they are evicted together)."""

    single: Empty | None = None
    all: Empty | None = None


SINGLE = DisruptionMode(single=EMPTY)
"""The default of groups and templates (api.md, table of versions; composite.md 1)."""


class PodGroupResourceClaim(Struct, frozen=True, kw_only=True):
    """resourceClaims[] of a PodGroup or template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class GroupTerms(Struct, frozen=True, kw_only=True):
    """The common fields of the specs and templates of groups of every level."""

    scheduling_constraints: PodGroupSchedulingConstraints = PodGroupSchedulingConstraints()
    disruption_mode: DisruptionMode | None = SINGLE
    priority_class_name: str = ""
    priority: Int32 | None = None
    preemption_policy: str | None = None


class PodGroupTemplate(GroupTerms, frozen=True, kw_only=True):
    """Workload.spec.podGroupTemplates[]."""

    name: str = ""
    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()


class CompositeGangSchedulingPolicy(Struct, frozen=True, kw_only=True):
    """schedulingPolicy.gang of a composite: all or nothing for the first `min_group_count` child groups."""

    min_group_count: Int32 = 0


class CompositePodGroupSchedulingPolicy(Struct, frozen=True, kw_only=True):
    """Exactly one of `basic` and `gang`."""

    basic: Empty | None = None
    gang: CompositeGangSchedulingPolicy | None = None


class CompositePodGroupTemplate(GroupTerms, frozen=True, kw_only=True):
    """Workload.spec.compositePodGroupTemplates[], and nested composite templates."""

    name: str = ""
    scheduling_policy: CompositePodGroupSchedulingPolicy = CompositePodGroupSchedulingPolicy()
    pod_group_templates: tuple[PodGroupTemplate, ...] = ()
    composite_pod_group_templates: tuple[CompositePodGroupTemplate, ...] = ()


class TypedLocalObjectReference(Struct, frozen=True, kw_only=True):
    """Workload.spec.controllerRef."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class WorkloadSpec(Struct, frozen=True, kw_only=True):
    """spec of a Workload."""

    controller_ref: TypedLocalObjectReference | None = None
    pod_group_templates: tuple[PodGroupTemplate, ...] = ()
    composite_pod_group_templates: tuple[CompositePodGroupTemplate, ...] = ()


class Workload(KubernetesObject, frozen=True, kw_only=True):
    """scheduling.k8s.io Workload."""

    API_VERSION: ClassVar[str] = "scheduling.k8s.io/v1beta1"
    NAMESPACED: ClassVar[bool] = True

    spec: WorkloadSpec = WorkloadSpec()


class WorkloadReference(Struct, frozen=True, kw_only=True):
    """spec.workloadRef: the template of the group."""

    workload_name: str = ""
    template_name: str = ""


class PodGroupSpec(GroupTerms, frozen=True, kw_only=True):
    """spec of a PodGroup."""

    workload_ref: WorkloadReference | None = None
    parent_composite_pod_group_name: str = ""
    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()


class PodGroupResourceClaimStatus(Struct, frozen=True, kw_only=True):
    """status.resourceClaimStatuses[] of a PodGroup: the claim generated from a template (KEP-5729)."""

    name: str = ""
    resource_claim_name: str | None = None


class PodGroupStatus(Struct, frozen=True, kw_only=True):
    """status of a PodGroup; conditions PodGroupInitiallyScheduled and DisruptionTarget."""

    conditions: tuple[Condition, ...] = ()
    resource_claim_statuses: tuple[PodGroupResourceClaimStatus, ...] = ()


class PodGroup(KubernetesObject, frozen=True, kw_only=True):
    """scheduling.k8s.io PodGroup."""

    API_VERSION: ClassVar[str] = "scheduling.k8s.io/v1beta1"
    NAMESPACED: ClassVar[bool] = True

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()
    foreign: ForeignGroup | None = msgspec.field(default=None, name=FOREIGN)
    """The fields of the original API, if it was read from the API of another scheduler (workloads.md 2)."""
    custom: bool = msgspec.field(default=False, name=CUSTOM)
    """Whether no API server admits it: a custom resource, or a group that a scheduler creates for an annotation."""

    @property
    def min_count(self) -> int | None:
        """Return the number of pods that must start together; None with the `basic` policy."""
        gang = self.spec.scheduling_policy.gang
        return None if gang is None else gang.min_count

    @property
    def disrupts_all(self) -> bool:
        """Return whether the pods of the group are preempted together (`disruptionMode: {all: {}}`)."""
        mode = self.spec.disruption_mode
        return mode is not None and mode.all is not None

    @property
    def topology_key(self) -> str | None:
        """Return the key of the node label that must be equal for all pods; None without a topology constraint."""
        topology = self.spec.scheduling_constraints.topology
        return topology[0].key if topology else None


class CompositePodGroupSpec(GroupTerms, frozen=True, kw_only=True):
    """spec of a CompositePodGroup."""

    workload_ref: WorkloadReference | None = None
    parent_composite_pod_group_name: str = ""
    scheduling_policy: CompositePodGroupSchedulingPolicy = CompositePodGroupSchedulingPolicy()


class CompositePodGroupStatus(Struct, frozen=True, kw_only=True):
    """status of a CompositePodGroup; conditions CompositePodGroupInitiallyScheduled and DisruptionTarget."""

    conditions: tuple[Condition, ...] = ()


class CompositePodGroup(KubernetesObject, frozen=True, kw_only=True):
    """scheduling.k8s.io CompositePodGroup: groups that are scheduled together, or a level of such a tree."""

    API_VERSION: ClassVar[str] = "scheduling.k8s.io/v1alpha3"
    NAMESPACED: ClassVar[bool] = True

    spec: CompositePodGroupSpec = CompositePodGroupSpec()
    status: CompositePodGroupStatus = CompositePodGroupStatus()

    @property
    def min_group_count(self) -> int | None:
        """Return the number of child groups that must start together; None with the `basic` policy."""
        gang = self.spec.scheduling_policy.gang
        return None if gang is None else gang.min_group_count
