"""NodeRestriction: which writes a kubelet may make, by their content (interfaces.md 5.14)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kube_rules.controllers.pods import MIRROR
from kube_rules.json import Json
from kube_rules.topology_terms import HOSTNAME
from kube_standin.admission_chain import AdmissionRequest, Step
from kube_standin.node_authorization import LEASES, node_of, references

_KUBELET_LABELS: Final = frozenset(
    (
        *(f"{prefix}kubernetes.io/{name}" for prefix in ("", "beta.") for name in ("os", "arch")),
        HOSTNAME,
        "beta.kubernetes.io/instance-type",
        *(
            f"{prefix}.kubernetes.io/{name}"
            for prefix in ("failure-domain.beta", "topology")
            for name in ("zone", "region")
        ),
    )
)
_KUBELET_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_RESTRICTED: Final = "node-restriction.kubernetes.io"


class NodeRestriction(Step):
    """Restricts a kubelet to its own node, lease, CSINode, slices, mirror pods and the status of its pods."""

    kinds = frozenset(
        (
            "pods",
            "nodes",
            "persistentvolumeclaims",
            "leases.coordination.k8s.io",
            "csinodes.storage.k8s.io",
            "resourceslices.resource.k8s.io",
        )
    )

    def mutate(self, request: AdmissionRequest) -> None:
        """Refuse (403) a write to another node's objects before other steps change it."""
        self._check(request)

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse (403) a deletion of another node's objects."""
        if request.operation == "DELETE":
            self._check(request)

    @staticmethod
    def _check(request: AdmissionRequest) -> None:
        node = node_of(request.user)
        if node is None:
            return
        if not node:
            raise request.refused(f'could not determine node from user "{request.user.name}"')
        why = _RESTRICTIONS[request.kind.plural](node, request)
        if why:
            raise request.refused(why)


def _spec(obj: Json | None) -> Json:
    spec: Json = (obj or {}).get("spec") or {}
    return spec


def _pod_why(node: str, request: AdmissionRequest) -> str:
    if request.operation == "DELETE":
        own = _spec(request.old).get("nodeName") == node
        return "" if own else f'node "{node}" can only delete pods with spec.nodeName set to itself'
    if request.operation == "CREATE":
        return _mirror_why(node, request)
    if request.subresource != "status":
        return f'unexpected operation "UPDATE", node "{node}" can only create and delete mirror pods'
    old, new = request.old or {}, request.new
    if _spec(old).get("nodeName") != node:
        return f'node "{node}" can only update pod status for pods with spec.nodeName set to itself'
    if (old["metadata"].get("labels") or {}) != (new["metadata"].get("labels") or {}):
        return f'node "{node}" cannot update labels through pod status'
    claims = [((pod.get("status") or {}).get("resourceClaimStatuses") or []) for pod in (old, new)]
    return "" if claims[0] == claims[1] else f'node "{node}" cannot update resource claim statues'


def _mirror_why(node: str, request: AdmissionRequest) -> str:
    pod, begin = request.new, f'node "{node}" can'
    if MIRROR not in (pod["metadata"].get("annotations") or {}):
        return f'pod does not have "{MIRROR}" annotation, {begin} only create mirror pods'
    if _spec(pod).get("nodeName") != node:
        return f"{begin} only create pods with spec.nodeName set to itself"
    owners = pod["metadata"].get("ownerReferences") or []
    if len(owners) > 1:
        return f"{begin} only create pods with a single owner reference set to itself"
    [owner] = owners or [{}]
    if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", node):
        return f"{begin} only create pods with an owner reference set to itself"
    if not owner.get("controller"):
        return f"{begin} only create pods with a controller owner reference set to itself"
    if owner.get("blockOwnerDeletion"):
        return f'node "{node}" must not set blockOwnerDeletion on an owner reference'
    state = request.registry.store.head("nodes", "", node)
    uid = "" if state is None else state.decode()["metadata"]["uid"]
    if owner.get("uid") != uid:
        return f"node {node} UID mismatch: expected {owner.get('uid')} got {uid}"
    for kind, name in references(pod):
        if name:
            word = "a service account" if kind == "serviceaccounts" else kind
            return f"{begin} not create pods that reference {word}"
    return ""


def _node_why(node: str, request: AdmissionRequest) -> str:
    name = request.name or request.new["metadata"].get("name", "")
    if name != node:
        return f'node "{node}" is not allowed to modify node "{name}"'
    if request.operation == "DELETE":
        return ""
    old = request.old or {"metadata": {}}
    before, after = (obj["metadata"].get("labels") or {} for obj in (old, request.new))
    changed = {key for key in (*before, *after) if before.get(key) != after.get(key)}
    forbidden = ", ".join(sorted(filter(_is_forbidden, changed)))
    if request.operation == "CREATE":
        return f'node "{node}" is not allowed to set the following labels: {forbidden}' if forbidden else ""
    if (_spec(old).get("taints") or []) != (_spec(request.new).get("taints") or []):
        return f'node "{node}" is not allowed to modify taints'
    return f"is not allowed to modify labels: {forbidden}" if forbidden else ""


def _is_forbidden(label: str) -> bool:
    domain = f".{label.partition('/')[0]}" if "/" in label else ""
    if domain.endswith(f".{_RESTRICTED}"):
        return True
    kubernetes = domain.endswith((".kubernetes.io", ".k8s.io"))
    allowed = label in _KUBELET_LABELS or domain.endswith(tuple(f".{suffix}" for suffix in _KUBELET_DOMAINS))
    return kubernetes and not allowed


def _claim_why(node: str, request: AdmissionRequest) -> str:
    if request.subresource != "status":
        return "may only update PVC status"
    changing = ("capacity", "conditions", "allocatedResources", "allocatedResourceStatuses")
    before, after = (_settled(obj, changing) for obj in (request.old or {}, request.new))
    if before == after:
        return ""
    return f'node "{node}" is not allowed to update fields other than status.capacity and status.conditions'


def _settled(claim: Json, changing: tuple[str, ...]) -> Json:
    metadata = {
        key: value for key, value in claim["metadata"].items() if key not in ("resourceVersion", "managedFields")
    }
    status = {key: value for key, value in (claim.get("status") or {}).items() if key not in changing}
    return {**claim, "metadata": metadata, "status": status}


def _lease_why(node: str, request: AdmissionRequest) -> str:
    if request.namespace != LEASES:
        return f'can only access leases in the "{LEASES}" system namespace'
    name = request.name or request.new["metadata"].get("name", "")
    return "" if name == node else "can only access node lease with the same name as the requesting node"


def _csi_node_why(node: str, request: AdmissionRequest) -> str:
    name = request.name or request.new["metadata"].get("name", "")
    return "" if name == node else "can only access CSINode with the same name as the requesting node"


def _slice_why(node: str, request: AdmissionRequest) -> str:
    owner = _spec(request.old if request.operation == "DELETE" else request.new).get("nodeName")
    if owner == node:
        return ""
    if request.operation == "CREATE":
        return "can only create ResourceSlice with the same NodeName as the requesting node"
    return "can only delete ResourceSlice with the same NodeName as the requesting node"


_RESTRICTIONS: Final[Mapping[str, Callable[[str, AdmissionRequest], str]]] = {
    "pods": _pod_why,
    "nodes": _node_why,
    "persistentvolumeclaims": _claim_why,
    "leases": _lease_why,
    "csinodes": _csi_node_why,
    "resourceslices": _slice_why,
}
