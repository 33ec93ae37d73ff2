"""Writes of DynamicResources before a pod is bound, and the readiness of its devices (devices.md 4)."""

from collections.abc import Mapping, Sequence
from typing import Any

from kube_rules.controllers.claims import DELETE_PROTECTION
from kube_rules.devices import ResourceClaim
from reprieve.cluster.claim_states import ClaimState
from reprieve.cluster.device_requests import Allocation, DeviceGrant
from reprieve.cluster.extended_resources import ANNOTATION, claim_name, requests_of
from reprieve.cluster.groups import GroupState
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.instructions import CreateObject, DeleteObject, Instruction, PatchObject
from reprieve.framework.status import SUCCESS, Code, Status

PLUGIN = "DynamicResources"


def readiness(key: str, item: ResourceClaim, grants: Sequence[DeviceGrant]) -> Status:
    """Return SUCCESS if all binding conditions of the devices hold, WAIT if not yet, UNSCHEDULABLE if one failed."""
    waits = False
    for grant in grants:
        if not grant.binding_conditions:
            continue
        reported = next((d for d in item.status.devices if _same_device(d, grant)), None)
        conditions: dict[str, dict[str, Any]] = {
            str(c.get("type")): c for c in (reported or {}).get("conditions") or () if c.get("status") == "True"
        }
        for name in grant.failure_conditions:
            if name in conditions:
                reason, message = (conditions[name].get(field, "") for field in ("reason", "message"))
                text = f'claim {key} binding failed: reason={reason}, message="{message}"'
                return Status(Code.UNSCHEDULABLE, text, PLUGIN)
        waits = waits or not all(name in conditions for name in grant.binding_conditions)
    return Status(Code.WAIT) if waits else SUCCESS


def _same_device(reported: dict[str, Any], grant: DeviceGrant) -> bool:
    where = (reported.get("driver"), reported.get("pool"), reported.get("device"))
    return where == grant.device and (reported.get("shareID") or "") == grant.share


def reservation(
    claim: ClaimState, allocation: Allocation, pod: PodRecord, group: GroupState | None
) -> list[Instruction]:
    """Return the writes that allocate and reserve a claim; `group`: the owner of the claim, if any.

    The finalizer comes first: a claim that is allocated without it would never be deallocated.  Entries are added to
    lists, which are not replaced, so that pods that share a claim can be bound concurrently.  The API server refuses a
    second, different allocation by another scheduler: an allocation is immutable.
    """
    meta = claim.claim.metadata
    namespace = meta.namespace or "default"
    consumer = {"resource": "pods", "name": pod.name, "uid": pod.uid}
    if group is not None:
        named = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": group.name}
        consumer = {**named, "uid": group.uid}
    status: dict[str, Any] = {"reservedFor": [consumer]}
    writes: list[Instruction] = []
    if claim.stated is None:
        if DELETE_PROTECTION not in meta.finalizers:
            patch = {"metadata": {"finalizers": [DELETE_PROTECTION]}}
            writes.append(PatchObject("ResourceClaim", namespace, meta.name, patch, uid=meta.uid, strategic=True))
        status = {"allocation": dict(allocation.body), **status}
    patch = {"status": status}
    writes.append(PatchObject("ResourceClaim", namespace, meta.name, patch, "status", uid=meta.uid, strategic=True))
    return writes


def creation(cluster: ClusterState, pod: PodRecord, row: int, allocation: Allocation) -> list[Instruction]:
    """Create, allocate and reserve the claim for extended resources; write its requests to the pod's status.

    The claim belongs to the pod from the first call on and is deleted with it, so an interruption leaves nothing behind
    (devices.md 4.6).
    """
    shaped = cluster.devices.special_shape(pod, row)
    assert shaped is not None
    requests, mapped = requests_of(
        pod.signature.extended, cluster.devices.served, {item.resource for item in shaped[1]}
    )
    name = claim_name(pod.name, pod.uid)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
    metadata = {
        "name": name,
        "namespace": pod.namespace,
        "annotations": {ANNOTATION: "true"},
        "ownerReferences": [owner],
        "finalizers": [DELETE_PROTECTION],
    }
    body = {
        "apiVersion": ResourceClaim.API_VERSION,
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {"devices": {"requests": requests}},
    }
    consumer = {"resource": "pods", "name": pod.name, "uid": pod.uid}
    status = {"allocation": dict(allocation.body), "reservedFor": [consumer]}
    mappings = [
        {"containerName": item.container, "resourceName": item.resource, "requestName": item.request} for item in mapped
    ]
    pod_status = {"extendedResourceClaimStatus": {"requestMappings": mappings, "resourceClaimName": name}}
    return [
        CreateObject("ResourceClaim", pod.namespace, body),
        PatchObject("ResourceClaim", pod.namespace, name, {"status": status}, "status", strategic=True),
        PatchObject("Pod", pod.namespace, pod.name, {"status": pod_status}, "status", uid=pod.uid),
    ]


def removal(namespace: str, name: str, claim: ResourceClaim | None) -> DeleteObject:
    """Delete the claim for extended resources, whether or not it is known to exist."""
    if claim is not None:
        return DeleteObject("ResourceClaim", namespace, claim.metadata.name, claim.metadata.uid, DELETE_PROTECTION)
    return DeleteObject("ResourceClaim", namespace, name, finalizer=DELETE_PROTECTION)


def leftover_deletion(special: ClaimState | None) -> DeleteObject | None:
    """Delete the claim that an interrupted attempt left for a pod that is not placed."""
    if special is None or special.object is None or special.object.metadata.deletion_timestamp is not None:
        return None
    meta = special.object.metadata
    return removal(meta.namespace or "default", meta.name, special.object)


def give_back(claim: ClaimState) -> PatchObject:
    """Deallocate a claim that no pod uses."""
    meta = claim.claim.metadata
    status: dict[str, Any] = {"allocation": None, "reservedFor": None}
    if claim.claim.status.devices:
        status["devices"] = None  # only an allocated claim may have device statuses
    patch = {"status": status}
    claim_status = claim.claim.status
    results = claim_status.allocation.devices.get("results") if claim_status.allocation is not None else None
    users = {(item.resource, item.uid) for item in claim_status.reserved_for}

    def again(current: Mapping[str, Any]) -> bool:
        """Return whether a claim that was written meanwhile has the same devices and no new consumers."""
        status = current.get("status") or {}
        same = results is not None and ((status.get("allocation") or {}).get("devices") or {}).get("results") == results
        return same and {(item.get("resource"), item.get("uid")) for item in status.get("reservedFor") or ()} <= users

    return PatchObject(
        "ResourceClaim",
        meta.namespace or "default",
        meta.name,
        patch,
        "status",
        uid=meta.uid,
        resource_version=meta.resource_version,
        again=again,
    )
