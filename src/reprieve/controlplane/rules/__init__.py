"""Validation: what the API server refuses with 422, kind by kind, with its reasons, fields and messages.

`validate_create` and `validate_update` look up the rules of a kind in one table; every rule is a generator of
`FieldError`. Objects are decoded and defaulted; what the decoder refuses (types, quantities) is not
repeated here. Rules that depend on other objects (priority, quota use, references) are admission and not
here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from reprieve.api.json import Json
from reprieve.controlplane.kinds import Kind
from reprieve.controlplane.rules import (
    config,
    definitions,
    devices,
    events,
    metadata,
    names,
    nodes,
    pod_updates,
    pods,
    policies,
    rbac,
    scheduling,
    storage,
    workloads,
)
from reprieve.controlplane.schema.field_errors import FieldError

__all__ = ["FieldError", "validate_create", "validate_update"]

Create = Callable[[Json], Iterator[FieldError]]
Update = Callable[[Json, Json], Iterator[FieldError]]


class Rules(NamedTuple):
    """Rules of one kind: of a new object, of a change, of a change through /status; and the form of its
    name.
    """

    create: Create | None = None
    update: Update | None = None
    status: Update | None = None
    name: Callable[[str], tuple[str, ...]] = names.subdomain


_EVENT = Rules(events.event, events.event_update)
_RBAC = "rbac.authorization.k8s.io"
_DEFAULT = Rules()
RULES: dict[tuple[str, str], Rules] = {
    ("", "Pod"): Rules(pods.create, pod_updates.update),
    ("", "Node"): Rules(nodes.node, nodes.node_update, nodes.node_update),
    ("", "Namespace"): Rules(nodes.namespace, name=names.dns_label),
    ("", "Service"): Rules(config.service, config.service_update, name=names.dns1035_label),
    ("", "ConfigMap"): Rules(config.config_map, config.config_map_update),
    ("", "Secret"): Rules(config.secret, config.secret_update),
    ("", "Event"): _EVENT,
    ("events.k8s.io", "Event"): _EVENT,
    ("", "PersistentVolume"): Rules(storage.volume, storage.volume_update),
    ("", "PersistentVolumeClaim"): Rules(storage.claim, storage.claim_update),
    ("", "ResourceQuota"): Rules(policies.quota, policies.quota_update, policies.quota_status),
    ("", "LimitRange"): Rules(policies.limit_range, lambda new, _: policies.limit_range(new)),
    ("", "ReplicationController"): Rules(workloads.replication_controller, workloads.replication_controller_update),
    ("apps", "ReplicaSet"): Rules(workloads.replica_set, workloads.replica_set_update),
    ("apps", "Deployment"): Rules(workloads.deployment, workloads.deployment_update),
    ("apps", "StatefulSet"): Rules(workloads.stateful_set, workloads.stateful_set_update),
    ("apps", "DaemonSet"): Rules(workloads.daemon_set, workloads.daemon_set_update),
    ("batch", "Job"): Rules(workloads.job, workloads.job_update),
    ("batch", "CronJob"): Rules(workloads.cron_job, workloads.cron_job_update),
    ("scheduling.k8s.io", "PriorityClass"): Rules(scheduling.priority_class, scheduling.priority_class_update),
    ("scheduling.k8s.io", "Workload"): Rules(scheduling.workload, scheduling.workload_update),
    ("scheduling.k8s.io", "PodGroup"): Rules(
        scheduling.pod_group, scheduling.pod_group_update, scheduling.pod_group_status
    ),
    ("policy", "PodDisruptionBudget"): Rules(
        policies.disruption_budget, policies.disruption_budget_update, policies.disruption_budget_status
    ),
    ("coordination.k8s.io", "Lease"): Rules(events.lease, events.lease_update),
    ("storage.k8s.io", "StorageClass"): Rules(storage.storage_class, storage.storage_class_update),
    ("storage.k8s.io", "CSINode"): Rules(storage.csi_node, lambda new, _: storage.csi_node(new)),
    ("storage.k8s.io", "VolumeAttachment"): Rules(update=storage.spec_fixed),
    ("resource.k8s.io", "DeviceClass"): Rules(devices.device_class, devices.device_class_update),
    ("resource.k8s.io", "ResourceClaim"): Rules(storage.resource_claim, storage.spec_fixed, devices.claim_status),
    ("resource.k8s.io", "ResourceClaimTemplate"): Rules(storage.resource_claim_template, storage.spec_fixed),
    ("resource.k8s.io", "ResourceSlice"): Rules(storage.resource_slice, lambda new, _: storage.resource_slice(new)),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): Rules(definitions.definition, definitions.definition_update),
    (_RBAC, "Role"): Rules(rbac.role, rbac.role_update, name=names.path_segment),
    (_RBAC, "ClusterRole"): Rules(rbac.cluster_role, rbac.cluster_role_update, name=names.path_segment),
    (_RBAC, "RoleBinding"): Rules(rbac.role_binding, rbac.role_binding_update, name=names.path_segment),
    (_RBAC, "ClusterRoleBinding"): Rules(
        rbac.cluster_role_binding, rbac.cluster_role_binding_update, name=names.path_segment
    ),
}


def validate_create(kind: Kind, obj: Json) -> list[FieldError]:
    """Everything wrong with a new object, metadata first; its name is set by now.

    Custom resources: their metadata only; what their schema says is `Schema.structural.validate`.
    """
    rules = RULES.get((kind.group, kind.kind), _DEFAULT)
    found = list(metadata.create(obj, namespaced=kind.namespaced, name_check=rules.name))
    if rules.create is not None:
        found.extend(rules.create(obj))
    return found


def validate_update(kind: Kind, new: Json, old: Json, subresource: str | None) -> list[FieldError]:
    """Everything wrong with a change through the main resource (None or "") or a subresource such as
    "status".

    Both objects are in the same version. Writes to /status are held only to the rules of the status.
    """
    rules = RULES.get((kind.group, kind.kind), _DEFAULT)
    found: list[FieldError] = []
    if new.get("metadata") != old.get("metadata"):
        # Upstream compares identities for every kind and again in the kind's own rules (transcript 253).
        found = [*metadata.immutable(new, old), *metadata.update(new, old)]
    rule = rules.status if subresource == "status" else rules.update if not subresource else None
    if rule is not None:
        found.extend(rule(new, old))
    return found
