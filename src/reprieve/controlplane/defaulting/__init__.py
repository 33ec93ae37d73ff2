"""What the API server fills in before it validates: defaults per kind, and what a new object's status
starts as.

Three steps, each in place and each idempotent:

- `apply_defaults` after decoding, on every write (upstream: `pkg/apis/*/v1/defaults.go` of 1.36 and 1.37);
- `prepare_create` once, when an object is created: the status it begins with, finalizers of a namespace;
- `apply_identity` once the object has its uid: what is derived from it (selector and labels of a Job).

What depends on other objects (priority, service account, tolerations, quota) is admission and not here.
Custom resources take their defaults from their schema (`Schema.structural.default`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from reprieve.api.json import Json
from reprieve.controlplane.defaulting import plain as plain_kinds
from reprieve.controlplane.defaulting import pods, workloads
from reprieve.controlplane.kinds import Kind

__all__ = ["apply_defaults", "apply_identity", "prepare_create", "qos_class"]

qos_class = pods.qos_class


_DEFAULTS: Mapping[tuple[str, str], Callable[[Json], None]] = {
    ("", "Pod"): pods.pod,
    ("", "PodTemplate"): pods.pod_template_object,
    ("", "Namespace"): plain_kinds.namespace,
    ("", "Node"): plain_kinds.node,
    ("", "Service"): plain_kinds.service,
    ("", "Endpoints"): plain_kinds.endpoints,
    ("", "Secret"): plain_kinds.secret,
    ("", "LimitRange"): plain_kinds.limit_range,
    ("", "ResourceQuota"): plain_kinds.spec_only,
    ("", "PersistentVolume"): plain_kinds.persistent_volume,
    ("", "PersistentVolumeClaim"): plain_kinds.persistent_volume_claim,
    ("", "ReplicationController"): workloads.replication_controller,
    ("apps", "ReplicaSet"): workloads.replica_set,
    ("apps", "Deployment"): workloads.deployment,
    ("apps", "StatefulSet"): workloads.stateful_set,
    ("apps", "DaemonSet"): workloads.daemon_set,
    ("batch", "Job"): workloads.job,
    ("batch", "CronJob"): workloads.cron_job,
    ("scheduling.k8s.io", "PriorityClass"): plain_kinds.priority_class,
    ("scheduling.k8s.io", "PodGroup"): plain_kinds.pod_group,
    ("scheduling.k8s.io", "Workload"): plain_kinds.spec_only,
    ("policy", "PodDisruptionBudget"): plain_kinds.spec_only,
    ("storage.k8s.io", "StorageClass"): plain_kinds.storage_class,
    ("storage.k8s.io", "CSIDriver"): plain_kinds.csi_driver,
    ("storage.k8s.io", "CSINode"): plain_kinds.spec_only,
    ("resource.k8s.io", "ResourceClaim"): plain_kinds.resource_claim,
    ("resource.k8s.io", "ResourceClaimTemplate"): plain_kinds.resource_claim_template,
    ("resource.k8s.io", "DeviceClass"): plain_kinds.spec_only,
    ("coordination.k8s.io", "Lease"): plain_kinds.spec_only,
    ("discovery.k8s.io", "EndpointSlice"): plain_kinds.endpoint_slice,
    ("rbac.authorization.k8s.io", "RoleBinding"): plain_kinds.role_binding,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): plain_kinds.role_binding,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): plain_kinds.custom_resource_definition,
}

_NEW: Mapping[tuple[str, str], Callable[[Json], None]] = {
    ("", "Pod"): pods.new_pod,
    ("", "Namespace"): plain_kinds.new_namespace,
    ("", "PersistentVolume"): plain_kinds.pending,
    ("", "PersistentVolumeClaim"): plain_kinds.pending,
    ("apps", "ReplicaSet"): workloads.new_replicas,
    ("apps", "StatefulSet"): workloads.new_stateful_set,
    ("apps", "DaemonSet"): workloads.new_daemon_set,
    ("", "ReplicationController"): workloads.new_replicas,
    ("policy", "PodDisruptionBudget"): plain_kinds.new_disruption_budget,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): plain_kinds.new_custom_resource_definition,
}
# Kinds that always show a status, be it empty.
_STATUS_SHOWN = frozenset(
    {
        ("", "ResourceQuota"),
        ("", "Service"),
        ("apps", "Deployment"),
        ("batch", "Job"),
        ("batch", "CronJob"),
        ("scheduling.k8s.io", "PodGroup"),
        ("resource.k8s.io", "ResourceClaim"),
    }
)


def apply_defaults(kind: Kind, obj: Json) -> None:
    """Fill in, in place, the defaults of a decoded object. Kinds without defaults are left alone."""
    fill = _DEFAULTS.get((kind.group, kind.kind))
    if fill is not None:
        fill(obj)
    elif kind.group == "events.k8s.io" or (kind.group == "" and kind.kind == "Event"):
        plain_kinds.event(obj)


def prepare_create(kind: Kind, obj: Json, *, now: str) -> None:
    """Give a new object, in place, the status it starts with; what a client sent as status is replaced.

    `now` is the time of the request in RFC 3339 form. Call it where the kind has a status that a create
    does not take over; nodes keep what they bring.
    """
    key = (kind.group, kind.kind)
    if key in _STATUS_SHOWN:
        obj["status"] = {"loadBalancer": {}} if key == ("", "Service") else {}
    fill = _NEW.get(key)
    if fill is not None:
        fill(obj)
    if key == ("", "Pod"):
        for condition in obj["status"].get("conditions", ()):
            condition["lastTransitionTime"] = now


def apply_identity(kind: Kind, obj: Json) -> None:
    """Derive, in place, what needs `metadata.uid` and `metadata.name` to be set; only on create."""
    if (kind.group, kind.kind) == ("batch", "Job"):
        workloads.job_identity(obj)
