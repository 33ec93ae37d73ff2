"""What a kubelet may do: the node authorizer (interfaces.md 5.14); `admission.nodes` admits its writes.

A kubelet is the user ``system:node:NAME`` in the group ``system:nodes``. It reads what the pods on its node refer to,
and writes its node, its lease and the status of its pods. Rules and texts: kube-apiserver 1.36, with the gate
AuthorizeNodeWithSelectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Final

from kube_rules.json import Json
from kube_standin.admission_chain import Objects, User
from kube_standin.bootstrap_roles import cluster_roles
from kube_standin.rights import AccessDecision, Attributes, rule_allows

NODES: Final = "system:nodes"
_PREFIX: Final = "system:node:"
LEASES: Final = "kube-node-lease"
_READ: Final = ("get", "list", "watch")
_OWN: Final = ("get", "create", "update", "patch", "delete")
_SLICES: Final = "resourceslices"
_ALLOWED: Final = AccessDecision(True)
_NO_OPINION: Final = AccessDecision(False)


def node_of(user: User) -> str | None:
    """Return the node of a kubelet, "" for one that names none; None for any other user."""
    if NODES not in user.groups or not user.name.startswith(_PREFIX):
        return None
    return user.name.removeprefix(_PREFIX)


def decide(node: str, asked: Attributes, objects: Objects) -> AccessDecision:
    """Return whether the kubelet of a node may, by what is stored; why not where this alone does not allow it."""
    if asked.path:
        return _NO_OPINION
    for_resource = _BY_RESOURCE.get((asked.group, asked.resource))
    if for_resource is not None:
        return for_resource(node, asked, objects)
    return _ALLOWED if any(rule_allows(rule, asked) for rule in _static_rules()) else _NO_OPINION


@cache
def _static_rules() -> tuple[Json, ...]:
    return tuple(cluster_roles()["system:node"]["rules"])


def _no(reason: str) -> AccessDecision:
    return AccessDecision(False, reason)


def _related(node: str, asked: Attributes, objects: Objects) -> AccessDecision:
    if not asked.name:
        return _no("No Object name found")
    found = _relations(node, asked, objects)
    return _ALLOWED if found else _no(f"no relationship found between node '{node}' and this object")


def _relations(node: str, asked: Attributes, objects: Objects) -> bool:
    """Return whether something on the node leads to the object."""
    if asked.resource in _OF_NODE:
        state = objects.store.head(_OF_NODE[asked.resource], asked.namespace, asked.name)
        return state is not None and (state.decode().get("spec") or {}).get("nodeName") == node
    if asked.resource == "persistentvolumes":
        state = objects.store.head("persistentvolumes", "", asked.name)
        claim = {} if state is None else (state.decode().get("spec") or {}).get("claimRef") or {}
        namespace = claim.get("namespace", "")
        return bool(claim) and claim.get("name") in _named(node, namespace, "persistentvolumeclaims", objects)
    return asked.name in _named(node, asked.namespace, asked.resource, objects)


_OF_NODE: Final = {
    "pods": "pods",
    "volumeattachments": "storage.k8s.io/volumeattachments",
    _SLICES: "resource.k8s.io/resourceslices",
}
"""Resources with `spec.nodeName`, by their storage keys."""


def _named(node: str, namespace: str, resource: str, objects: Objects) -> set[str]:
    """Return the names of a resource that the pods of a node refer to."""
    mark = f'"nodeName":"{node}"'.encode()
    found: set[str] = set()
    for state in objects.store.heads("pods", namespace):
        if mark in state.raw:
            pod = state.decode()
            if (pod.get("spec") or {}).get("nodeName") == node:
                found.update(name for kind, name in references(pod) if kind == resource and name)
    return found


def references(pod: Json) -> Iterator[tuple[str, str]]:
    """Yield resource and name of what a pod refers to, whether it is optional or not."""
    spec = pod["spec"]
    yield "serviceaccounts", spec.get("serviceAccountName", "")
    for secret in spec.get("imagePullSecrets") or ():
        yield "secrets", secret.get("name", "")
    for volume in spec.get("volumes") or ():
        for part in (volume, *((volume.get("projected") or {}).get("sources") or ())):
            secret = part.get("secret") or {}
            yield "secrets", secret.get("secretName") or secret.get("name", "")
            yield "configmaps", (part.get("configMap") or {}).get("name", "")
        yield "persistentvolumeclaims", (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
        if "ephemeral" in volume:
            yield "persistentvolumeclaims", f"{pod['metadata']['name']}-{volume['name']}"
        for source in volume.values():
            if isinstance(source, dict):
                for field in ("secretRef", "nodePublishSecretRef"):
                    yield "secrets", (source.get(field) or {}).get("name", "")
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(part) or ():
            for source in container.get("envFrom") or ():
                yield "secrets", (source.get("secretRef") or {}).get("name", "")
                yield "configmaps", (source.get("configMapRef") or {}).get("name", "")
            for variable in container.get("env") or ():
                source = variable.get("valueFrom") or {}
                yield "secrets", (source.get("secretKeyRef") or {}).get("name", "")
                yield "configmaps", (source.get("configMapKeyRef") or {}).get("name", "")
    for claim in spec.get("resourceClaims") or ():
        yield "resourceclaims", claim.get("resourceClaimName", "")
    for claim in (pod.get("status") or {}).get("resourceClaimStatuses") or ():
        yield "resourceclaims", claim.get("resourceClaimName", "")


def _single(node: str, asked: Attributes, objects: Objects) -> AccessDecision:
    """A get of one object that belongs to the node."""
    if asked.verb != "get":
        return _no("can only get individual resources of this type")
    if asked.subresource:
        return _no("cannot get subresource")
    return _related(node, asked, objects)


def _namespaced(node: str, asked: Attributes, objects: Objects) -> AccessDecision:
    if asked.verb not in _READ:
        return _no("can only read resources of this type")
    if asked.subresource:
        return _no("cannot read subresource")
    if not asked.namespace:
        return _no("can only read namespaced object of this type")
    return _related(node, asked, objects)


def _claim(node: str, asked: Attributes, objects: Objects) -> AccessDecision:
    if asked.subresource != "status":
        return _single(node, asked, objects)
    if asked.verb not in ("update", "patch"):
        return _no("can only get/update/patch this type")
    return _related(node, asked, objects)


def _account(node: str, asked: Attributes, objects: Objects) -> AccessDecision:
    if asked.verb == "get" and not asked.subresource:
        return _related(node, asked, objects)
    if asked.verb != "create" or not asked.name:
        return _no("can only create tokens for individual service accounts")
    if asked.subresource != "token":
        return _no("can only create token subresource of serviceaccount")
    return _related(node, asked, objects)


def _lease(node: str, asked: Attributes, objects: Objects) -> AccessDecision:
    if asked.verb not in _OWN:
        return _no("can only get, create, update, patch, or delete a node lease")
    if asked.namespace != LEASES:
        return _no(f'can only access leases in the "{LEASES}" system namespace')
    if asked.verb != "create" and asked.name != node:
        return _no("can only access node lease with the same name as the requesting node")
    return _ALLOWED


def _csi_node(node: str, asked: Attributes, objects: Objects) -> AccessDecision:
    if asked.verb not in _OWN:
        return _no("can only get, create, update, patch, or delete a CSINode")
    if asked.subresource:
        return _no("cannot authorize CSINode subresources")
    if asked.verb != "create" and asked.name != node:
        return _no("can only access CSINode with the same name as the requesting node")
    return _ALLOWED


def _slice(node: str, asked: Attributes, objects: Objects) -> AccessDecision:
    if asked.subresource:
        return _no("cannot authorize ResourceSlice subresources")
    if asked.verb == "create":
        return _ALLOWED
    if asked.verb in ("get", "update", "patch", "delete"):
        return _related(node, asked, objects)
    if ("spec.nodeName", node) in asked.field_values:
        return _ALLOWED
    return _no("can only list/watch/deletecollection resourceslices with nodeName field selector")


def _node(node: str, asked: Attributes, objects: Objects) -> AccessDecision:
    if asked.subresource == "status":
        return _ALLOWED if asked.verb in ("update", "patch") else _NO_OPINION
    if asked.subresource:
        return _NO_OPINION
    if asked.verb in ("create", "update", "patch"):
        return _ALLOWED
    if asked.verb not in _READ:
        return _NO_OPINION
    name = asked.name or dict(asked.field_values).get("metadata.name", "")
    if name == node:
        return _ALLOWED
    if not name:
        return _no(f"node '{node}' cannot read all nodes, only its own Node object")
    return _no(f"node '{node}' cannot read '{name}', only its own Node object")


def _pod(node: str, asked: Attributes, objects: Objects) -> AccessDecision:
    if (asked.subresource, asked.verb) in _POD_WRITES:
        return _ALLOWED
    if asked.subresource or asked.verb not in _READ:
        return _NO_OPINION
    if asked.verb == "get":
        return _single(node, asked, objects)
    if ("spec.nodeName", node) in asked.field_values:
        return _ALLOWED
    if asked.name:
        return _related(node, asked, objects)
    return _no("can only list/watch pods with spec.nodeName field selector")


_POD_WRITES: Final = frozenset(
    (("", "create"), ("", "delete"), ("status", "update"), ("status", "patch"), ("eviction", "create"))
)
_BY_RESOURCE: Final[Mapping[tuple[str, str], Callable[[str, Attributes, Objects], AccessDecision]]] = {
    ("", "secrets"): _namespaced,
    ("", "configmaps"): _namespaced,
    ("", "persistentvolumeclaims"): _claim,
    ("", "persistentvolumes"): _single,
    ("", "serviceaccounts"): _account,
    ("", "nodes"): _node,
    ("", "pods"): _pod,
    ("coordination.k8s.io", "leases"): _lease,
    ("resource.k8s.io", "resourceclaims"): _single,
    ("resource.k8s.io", _SLICES): _slice,
    ("storage.k8s.io", "csinodes"): _csi_node,
    ("storage.k8s.io", "volumeattachments"): _single,
}
