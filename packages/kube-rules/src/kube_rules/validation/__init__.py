"""Validation: the API server's 422 refusals by kind, with its reasons, fields and messages.

`validate_create` and `validate_update` look up the rules of a kind in one table; every rule is a generator of
`FieldError`. Objects are decoded and defaulted; errors of the decoder (types, quantities) are not repeated here. Rules
that depend on other objects (priority, quota use, references) belong to admission, not here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import EllipsisType, MappingProxyType
from typing import NamedTuple

from kube_rules.errors import FieldError
from kube_rules.json import Json
from kube_rules.kinds import KindName
from kube_rules.validation import (
    admission_policies,
    api_services,
    autoscalers,
    certificates,
    conditions,
    config,
    definitions,
    devices,
    endpoints,
    events,
    flow_control,
    ingresses,
    job_status,
    metadata,
    names,
    nodes,
    pod_status,
    pod_subresources,
    pod_updates,
    pods,
    policies,
    rbac,
    runtime_classes,
    scheduling,
    service_addresses,
    services,
    slices,
    storage,
    webhooks,
    workloads,
)
from kube_rules.validation.rows import Change, Check, Found, below, fixed, locked, of_new

__all__ = ["FieldError", "validate_create", "validate_update"]


class Rules(NamedTuple):
    """The rules of one kind: for a new object, a change, a change through /status, and the form of its name.

    `ANEW` among the rules of a change: the rules of a new object also apply to the changed one.
    """

    create: Check | None = None
    update: tuple[Change | EllipsisType, ...] = ()
    status: tuple[Change | EllipsisType, ...] = ()
    name: Callable[[str], tuple[str, ...]] = names.subdomain
    further: Mapping[str, Change] = MappingProxyType({})
    """Rules of changes through other subresources, by name."""


ANEW = ...
_EVENT = Rules(events.event, (events.event_update,))
_ROLE = Rules(rbac.role, (ANEW,), name=names.path_segment)
_SPEC_FIXED = (fixed("", "spec"),)
_RBAC = "rbac.authorization.k8s.io"
_WEBHOOKS = "admissionregistration.k8s.io"
_DEFAULT = Rules()
_DEFINITION = ("apiextensions.k8s.io", "CustomResourceDefinition")
RULES: dict[tuple[str, str], Rules] = {
    ("", "Pod"): Rules(
        pods.create,
        (pod_updates.update,),
        (pod_status.status,),
        further={"ephemeralcontainers": pod_subresources.ephemeral_containers, "resize": pod_subresources.resize},
    ),
    ("", "Node"): Rules(nodes.node, (ANEW, *nodes.node_changes), (ANEW, *nodes.node_changes)),
    ("", "Namespace"): Rules(nodes.namespace, status=(of_new(nodes.namespace_status),), name=names.dns_label),
    ("", "Service"): Rules(services.service, (services.same_addresses, ANEW), name=names.dns_label),
    ("", "ConfigMap"): Rules(config.config_map, (config.frozen("data", "binaryData"), ANEW)),
    ("", "Secret"): Rules(config.secret, (fixed("", "type"), config.frozen("data"), ANEW)),
    ("", "Endpoints"): Rules(endpoints.endpoints, (ANEW,), name=names.subdomain),
    ("discovery.k8s.io", "EndpointSlice"): Rules(endpoints.slice_, (ANEW, fixed("", "addressType"))),
    ("", "Event"): _EVENT,
    ("events.k8s.io", "Event"): _EVENT,
    ("", "PersistentVolume"): Rules(
        storage.volume, (ANEW, storage.same_source, fixed("spec", "volumeMode"), storage.same_affinity)
    ),
    ("", "PersistentVolumeClaim"): Rules(storage.claim, (ANEW, storage.same_claim)),
    ("", "ResourceQuota"): Rules(policies.quota, (ANEW, policies.same_scopes), (of_new(policies.quota_status),)),
    ("", "LimitRange"): Rules(policies.limit_range, (ANEW,)),
    ("", "ReplicationController"): Rules(workloads.replication_controller, (ANEW,)),
    ("apps", "ReplicaSet"): Rules(
        workloads.replica_set, (ANEW, workloads.same_selector), (of_new(workloads.replica_set_status),)
    ),
    ("apps", "Deployment"): Rules(
        workloads.deployment, (ANEW, workloads.same_selector), (of_new(workloads.deployment_status),)
    ),
    ("apps", "StatefulSet"): Rules(
        workloads.stateful_set, (ANEW, workloads.stateful_changes), (of_new(workloads.stateful_status),)
    ),
    ("apps", "DaemonSet"): Rules(workloads.daemon_set, (workloads.same_selector, ANEW)),
    ("apps", "ControllerRevision"): Rules(workloads.revision, (ANEW, fixed("", "data"))),
    ("batch", "Job"): Rules(
        workloads.job,
        (
            workloads.job_changes,
            workloads.same_selector,
            workloads.same_job_template,
            fixed("spec", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"),
        ),
        (job_status.status,),
    ),
    ("batch", "CronJob"): Rules(workloads.cron_job, (ANEW,), name=workloads.cron_job_name),
    ("scheduling.k8s.io", "PriorityClass"): Rules(
        scheduling.priority_class, (locked("value", "may not be changed in an update."), fixed("", "preemptionPolicy"))
    ),
    ("scheduling.k8s.io", "Workload"): Rules(
        scheduling.workload, (fixed("spec", "controllerRef", shown=False), scheduling.same_templates)
    ),
    ("scheduling.k8s.io", "PodGroup"): Rules(
        scheduling.pod_group,
        (scheduling.same_policy, fixed("spec", *scheduling.GROUP_FIELDS, shown=False)),
        (of_new(below("status", conditions.conditions)), devices.group_claim_statuses),
    ),
    ("scheduling.k8s.io", "CompositePodGroup"): Rules(
        scheduling.composite_pod_group,
        (scheduling.same_policy, fixed("spec", *scheduling.COMPOSITE_FIELDS, shown=False)),
        (of_new(below("status", conditions.conditions)),),
    ),
    ("policy", "PodDisruptionBudget"): Rules(policies.disruption_budget, (ANEW,), (of_new(policies.budget_status),)),
    ("node.k8s.io", "RuntimeClass"): Rules(runtime_classes.runtime_class, (fixed("", "handler"),)),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): Rules(
        flow_control.flow_schema, (ANEW,), (of_new(flow_control.status),)
    ),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): Rules(
        flow_control.priority_level, (ANEW,), (of_new(flow_control.status),)
    ),
    ("apiregistration.k8s.io", "APIService"): Rules(
        api_services.api_service, (ANEW,), (of_new(api_services.status),), name=names.path_segment
    ),
    ("certificates.k8s.io", "CertificateSigningRequest"): Rules(
        certificates.signing_request,
        (fixed("", "spec"),),
        (certificates.status,),
        further={"approval": certificates.approval},
    ),
    ("autoscaling", "HorizontalPodAutoscaler"): Rules(autoscalers.autoscaler, (ANEW,), (autoscalers.status,)),
    ("networking.k8s.io", "IPAddress"): Rules(
        service_addresses.ip_address, (ANEW, service_addresses.same_parent), name=service_addresses.canonical_address
    ),
    ("networking.k8s.io", "ServiceCIDR"): Rules(service_addresses.service_cidr, (service_addresses.same_networks,), ()),
    ("networking.k8s.io", "Ingress"): Rules(
        ingresses.new_ingress, (of_new(ingresses.ingress),), (of_new(ingresses.ingress_status),)
    ),
    ("networking.k8s.io", "IngressClass"): Rules(ingresses.ingress_class, (ANEW, fixed("spec", "controller"))),
    ("networking.k8s.io", "NetworkPolicy"): Rules(ingresses.network_policy, (ANEW,)),
    ("coordination.k8s.io", "Lease"): Rules(events.lease, (ANEW,)),
    ("storage.k8s.io", "StorageClass"): Rules(storage.storage_class, storage.class_changes),
    ("storage.k8s.io", "CSINode"): Rules(storage.csi_node, (ANEW,)),
    ("storage.k8s.io", "CSIDriver"): Rules(storage.csi_driver, (ANEW,)),
    ("storage.k8s.io", "CSIStorageCapacity"): Rules(
        storage.capacity, (ANEW, fixed("", "nodeTopology", "storageClassName"))
    ),
    ("storage.k8s.io", "VolumeAttachment"): Rules(storage.attachment, _SPEC_FIXED),
    ("resource.k8s.io", "DeviceClass"): Rules(devices.device_class, (devices.new_selectors,)),
    ("resource.k8s.io", "DeviceTaintRule"): Rules(devices.taint_rule, (ANEW,), (of_new(devices.taint_rule_status),)),
    ("resource.k8s.io", "ResourceClaim"): Rules(storage.resource_claim, _SPEC_FIXED, (devices.claim_status,)),
    ("resource.k8s.io", "ResourceClaimTemplate"): Rules(storage.resource_claim_template, _SPEC_FIXED),
    ("resource.k8s.io", "ResourceSlice"): Rules(
        slices.resource_slice, (ANEW, fixed("spec", "driver", "nodeName"), fixed("spec.pool", "name"))
    ),
    _DEFINITION: Rules(
        definitions.definition,
        (ANEW, fixed("spec", "group", "scope"), fixed("spec.names", "kind", "plural"), definitions.stored_versions),
    ),
    ("", "PodTemplate"): _DEFAULT,
    ("", "ServiceAccount"): _DEFAULT,
    ("storage.k8s.io", "VolumeAttributesClass"): _DEFAULT,
    (_WEBHOOKS, "MutatingWebhookConfiguration"): Rules(webhooks.configuration, (ANEW,)),
    (_WEBHOOKS, "ValidatingWebhookConfiguration"): Rules(webhooks.configuration, (ANEW,)),
    (_WEBHOOKS, "ValidatingAdmissionPolicy"): Rules(
        admission_policies.validating_policy, (ANEW,), (of_new(admission_policies.status),)
    ),
    (_WEBHOOKS, "ValidatingAdmissionPolicyBinding"): Rules(admission_policies.validating_binding, (ANEW,)),
    (_WEBHOOKS, "MutatingAdmissionPolicy"): Rules(admission_policies.mutating_policy, (ANEW,)),
    (_WEBHOOKS, "MutatingAdmissionPolicyBinding"): Rules(admission_policies.mutating_binding, (ANEW,)),
    (_RBAC, "Role"): _ROLE,
    (_RBAC, "ClusterRole"): _ROLE._replace(create=rbac.cluster_role),
    (_RBAC, "RoleBinding"): _ROLE._replace(create=rbac.role_binding, update=(ANEW, rbac.same_role)),
    (_RBAC, "ClusterRoleBinding"): _ROLE._replace(create=rbac.cluster_role_binding, update=(ANEW, rbac.same_role)),
}


def validate_create(kind: KindName, obj: Json) -> list[FieldError]:
    """Return all errors of a new object, first those of its metadata; its name is already set.

    Custom resources: of their metadata only; `Schema.structural.validate` checks their schema.
    """
    return [*errors_of_metadata(kind, obj), *errors_of_new(kind, obj)]


def errors_of_metadata(kind: KindName, obj: Json) -> Found:
    """Return the errors of the metadata of a new object."""
    rules = RULES.get((kind.group, kind.kind), _DEFAULT)
    return metadata.create(
        obj, namespaced=kind.namespaced, name_check=rules.name, any_finalizer=_takes_any_finalizer(kind)
    )


def _takes_any_finalizer(kind: KindName) -> bool:
    """Custom resources and their definitions follow only the common rules of metadata."""
    name = (kind.group, kind.kind)
    return name == _DEFINITION or name not in RULES


def errors_of_new(kind: KindName, obj: Json) -> Found:
    """Return the errors of a new object without those of its metadata."""
    rules = RULES.get((kind.group, kind.kind), _DEFAULT)
    return rules.create(obj, "") if rules.create is not None else ()


def validate_update(kind: KindName, new: Json, old: Json, subresource: str | None) -> list[FieldError]:
    """Return all errors of a change through the main resource (None or "") or a subresource such as "status".

    Both objects are in the same version. Writes to /status follow only the rules of the status.
    """
    rules = RULES.get((kind.group, kind.kind), _DEFAULT)
    result: list[FieldError] = []
    if new.get("metadata") != old.get("metadata"):
        # Upstream compares identities for every kind and again in the kind's own rules (transcript 253).
        common = metadata.update(new, old, any_finalizer=_takes_any_finalizer(kind))
        result = [*metadata.immutable(new, old), *common]
    for rule in _changes(rules, subresource or ""):
        if not isinstance(rule, EllipsisType):
            result += rule(new, old)
        elif rules.create is not None:
            result += rules.create(new, "")
    return result


def _changes(rules: Rules, subresource: str) -> tuple[Change | EllipsisType, ...]:
    """Return the rules of a change through the main resource or a subresource."""
    if not subresource:
        return rules.update
    if subresource == "status":
        return rules.status
    return (rules.further[subresource],) if subresource in rules.further else ()
