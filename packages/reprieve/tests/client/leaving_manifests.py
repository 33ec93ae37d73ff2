"""Manifests of which something leaves in a snapshot, and their parts."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

VERSIONS = {
    "Pod": "v1",
    "Node": "v1",
    "Namespace": "v1",
    "Service": "v1",
    "ReplicationController": "v1",
    "PersistentVolume": "v1",
    "PersistentVolumeClaim": "v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "PodGroup": "scheduling.k8s.io/v1beta1",
    "CompositePodGroup": "scheduling.k8s.io/v1alpha3",
    "Workload": "scheduling.k8s.io/v1beta1",
    "PodDisruptionBudget": "policy/v1",
    "StorageClass": "storage.k8s.io/v1",
    "CSINode": "storage.k8s.io/v1",
    "CSIDriver": "storage.k8s.io/v1",
    "VolumeAttachment": "storage.k8s.io/v1",
    "CSIStorageCapacity": "storage.k8s.io/v1",
    "ResourceClaim": "resource.k8s.io/v1",
    "ResourceSlice": "resource.k8s.io/v1",
    "DeviceClass": "resource.k8s.io/v1",
    "DeviceTaintRule": "resource.k8s.io/v1",
}


def manifest(kind: str, fields: Json, name: str = "x") -> Json:
    meta = {"name": name, **fields.get("metadata", {})}
    return {"apiVersion": VERSIONS[kind], "kind": kind, **fields, "metadata": meta}


def pod(spec: Json | None = None, status: Json | None = None, container: Json | None = None) -> Json:
    """A pod as it leaves: what a pod has anyway, and this."""
    containers = [{"name": "container-1", **(container or {})}]
    made = {"spec": {"containers": containers, **(spec or {})}}
    return {**made, "status": status} if status else made


def selecting(key: str, *values: str, operator: str = "In") -> Json:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def terms(*expressions: Json) -> Json:
    return {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}


def group(**more: Any) -> Json:
    return {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, **more}}
