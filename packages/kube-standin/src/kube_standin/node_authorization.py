"""The node authorizer, which decides the rights of kubelets (interfaces.md 5.14); `admission.nodes` admits their
writes.

A kubelet is the user ``system:node:NAME`` in the group ``system:nodes``. It reads objects that the pods on its node
refer to, and writes its node, its lease and the status of its pods. Rules and texts: kube-apiserver 1.36, with the gate
AuthorizeNodeWithSelectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple

import msgspec

from kube_rules.json import Json
from kube_standin.admission_chain import Objects, User
from kube_standin.bootstrap_roles import cluster_roles
from kube_standin.rights import AccessDecision, Attributes, rule_allows
from kube_standin.storage import Store, StoredObject, Subscription

NODES: Final = "system:nodes"
NODE_PREFIX: Final = "system:node:"
LEASES: Final = "kube-node-lease"
_READ: Final = ("get", "list", "watch")
_OWN: Final = ("get", "create", "update", "patch", "delete")
_SLICES: Final = "resourceslices"
_ALLOWED: Final = AccessDecision(True)
_NO_OPINION: Final = AccessDecision(False)


def node_of(user: User) -> str | None:
    """Return the node of a kubelet, "" if it names none; None for any other user."""
    if NODES not in user.groups or not user.name.startswith(NODE_PREFIX):
        return None
    return user.name.removeprefix(NODE_PREFIX)


class _PlacedSpec(msgspec.Struct, rename="camel", gc=False):
    node_name: str = ""


class _BoundPod(msgspec.Struct, gc=False):
    spec: _PlacedSpec = msgspec.field(default_factory=_PlacedSpec)


_read_node = msgspec.json.Decoder(_BoundPod).decode
Key = tuple[str, str]


class NodePods:
    """The pods of each node with their references, kept up to date with committed writes from the first lookup on.

    The cost of a lookup depends on the number of pods of one node, not of all pods.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._subscription: Subscription | None = None
        self._follows = True
        self._nodes: dict[Key, str] = {}
        self._pods: dict[str, dict[Key, StoredObject]] = {}
        self._references: dict[Key, tuple[StoredObject, frozenset[tuple[str, str]]]] = {}

    def at_present(self) -> NodePods:
        """Return a copy of the current pods, for a thread outside the event loop."""
        present = NodePods(self._store)
        present._follows = False
        if self._subscription is not None:
            self._follow()
            present._subscription, present._pods = self._subscription, self._pods
        return present

    def refer(self, node: str, namespace: str, resource: str, name: str) -> bool:
        """Return whether a pod of the node, in the namespace, refers to an object."""
        self._follow()
        wanted = (resource, name)
        pods = tuple(self._pods.get(node, {}).items())
        return any(key[0] == namespace and wanted in self._referred(key, state) for key, state in pods)

    def _referred(self, key: Key, state: StoredObject) -> frozenset[tuple[str, str]]:
        cached = self._references.get(key)
        if cached is None or cached[0] is not state:
            cached = self._references[key] = (state, frozenset(references(state.decode())))
        return cached[1]

    def _follow(self) -> None:
        """Process committed writes; list all pods at the start, or again after changes were dropped."""
        subscription = self._subscription
        if not self._follows:
            if subscription is None and not self._pods:
                self._list()
            return
        if subscription is None or subscription.overflowed or subscription.closed:
            if subscription is not None:
                self._store.unsubscribe(subscription)
            self._subscription = self._store.subscribe("pods")
            self._list()
            return
        for change in subscription.take():
            self._forget(change.state.key)
            if change.type != "DELETED":
                self._add(change.state)

    def _list(self) -> None:
        for index in (self._nodes, self._pods, self._references):
            index.clear()
        for state in self._store.page("pods").states:
            self._add(state)

    def _add(self, state: StoredObject) -> None:
        node = _read_node(state.raw).spec.node_name
        if node:
            self._nodes[state.key] = node
            self._pods.setdefault(node, {})[state.key] = state

    def _forget(self, key: Key) -> None:
        node = self._nodes.pop(key, None)
        self._references.pop(key, None)
        if node is not None:
            pods = self._pods[node]
            del pods[key]
            if not pods:
                del self._pods[node]


class NodeObjects(NamedTuple):
    """The input of a decision: stored objects, and the pods of the node."""

    objects: Objects
    pods: NodePods


def decide(node: str, attributes: Attributes, objects: NodeObjects) -> AccessDecision:
    """Return whether the kubelet of a node has access by its related objects; otherwise the reason."""
    if attributes.path:
        return _NO_OPINION
    for_resource = _BY_RESOURCE.get((attributes.group, attributes.resource))
    if for_resource is not None:
        return for_resource(node, attributes, objects)
    return _ALLOWED if any(rule_allows(rule, attributes) for rule in _static_rules()) else _NO_OPINION


@cache
def _static_rules() -> tuple[Json, ...]:
    return tuple(cluster_roles()["system:node"]["rules"])


def _no(reason: str) -> AccessDecision:
    return AccessDecision(False, reason)


def _related(node: str, attributes: Attributes, objects: NodeObjects) -> AccessDecision:
    if not attributes.name:
        return _no("No Object name found")
    related = _relations(node, attributes, objects)
    return _ALLOWED if related else _no(f"no relationship found between node '{node}' and this object")


def _relations(node: str, attributes: Attributes, objects: NodeObjects) -> bool:
    """Return whether an object on the node refers to the requested object."""
    if attributes.resource in _OF_NODE:
        state = objects.objects.store.head(_OF_NODE[attributes.resource], attributes.namespace, attributes.name)
        return state is not None and (state.decode().get("spec") or {}).get("nodeName") == node
    if attributes.resource == "persistentvolumes":
        state = objects.objects.store.head("persistentvolumes", "", attributes.name)
        claim = {} if state is None else (state.decode().get("spec") or {}).get("claimRef") or {}
        namespace = claim.get("namespace", "")
        return bool(claim) and objects.pods.refer(node, namespace, "persistentvolumeclaims", claim.get("name", ""))
    return objects.pods.refer(node, attributes.namespace, attributes.resource, attributes.name)


_OF_NODE: Final = {
    "pods": "pods",
    "volumeattachments": "storage.k8s.io/volumeattachments",
    _SLICES: "resource.k8s.io/resourceslices",
}
"""Resources with `spec.nodeName`, by their storage keys."""


def references(pod: Json) -> Iterator[tuple[str, str]]:
    """Yield resource and name of the objects that a pod refers to, optional ones included."""
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


def _single(node: str, attributes: Attributes, objects: NodeObjects) -> AccessDecision:
    """Decide a get of one object that belongs to the node."""
    if attributes.verb != "get":
        return _no("can only get individual resources of this type")
    if attributes.subresource:
        return _no("cannot get subresource")
    return _related(node, attributes, objects)


def _namespaced(node: str, attributes: Attributes, objects: NodeObjects) -> AccessDecision:
    if attributes.verb not in _READ:
        return _no("can only read resources of this type")
    if attributes.subresource:
        return _no("cannot read subresource")
    if not attributes.namespace:
        return _no("can only read namespaced object of this type")
    return _related(node, attributes, objects)


def _claim(node: str, attributes: Attributes, objects: NodeObjects) -> AccessDecision:
    if attributes.subresource != "status":
        return _single(node, attributes, objects)
    if attributes.verb not in ("update", "patch"):
        return _no("can only get/update/patch this type")
    return _related(node, attributes, objects)


def _account(node: str, attributes: Attributes, objects: NodeObjects) -> AccessDecision:
    if attributes.verb == "get" and not attributes.subresource:
        return _related(node, attributes, objects)
    if attributes.verb != "create" or not attributes.name:
        return _no("can only create tokens for individual service accounts")
    if attributes.subresource != "token":
        return _no("can only create token subresource of serviceaccount")
    return _related(node, attributes, objects)


def _lease(node: str, attributes: Attributes, objects: NodeObjects) -> AccessDecision:
    if attributes.verb not in _OWN:
        return _no("can only get, create, update, patch, or delete a node lease")
    if attributes.namespace != LEASES:
        return _no(f'can only access leases in the "{LEASES}" system namespace')
    if attributes.verb != "create" and attributes.name != node:
        return _no("can only access node lease with the same name as the requesting node")
    return _ALLOWED


def _csi_node(node: str, attributes: Attributes, objects: NodeObjects) -> AccessDecision:
    if attributes.verb not in _OWN:
        return _no("can only get, create, update, patch, or delete a CSINode")
    if attributes.subresource:
        return _no("cannot authorize CSINode subresources")
    if attributes.verb != "create" and attributes.name != node:
        return _no("can only access CSINode with the same name as the requesting node")
    return _ALLOWED


def _slice(node: str, attributes: Attributes, objects: NodeObjects) -> AccessDecision:
    if attributes.subresource:
        return _no("cannot authorize ResourceSlice subresources")
    if attributes.verb == "create":
        return _ALLOWED
    if attributes.verb in ("get", "update", "patch", "delete"):
        return _related(node, attributes, objects)
    if ("spec.nodeName", node) in attributes.field_values:
        return _ALLOWED
    return _no("can only list/watch/deletecollection resourceslices with nodeName field selector")


def _node(node: str, attributes: Attributes, objects: NodeObjects) -> AccessDecision:
    if attributes.subresource == "status":
        return _ALLOWED if attributes.verb in ("update", "patch") else _NO_OPINION
    if attributes.subresource:
        return _NO_OPINION
    if attributes.verb in ("create", "update", "patch"):
        return _ALLOWED
    if attributes.verb not in _READ:
        return _NO_OPINION
    name = attributes.name or dict(attributes.field_values).get("metadata.name", "")
    if name == node:
        return _ALLOWED
    if not name:
        return _no(f"node '{node}' cannot read all nodes, only its own Node object")
    return _no(f"node '{node}' cannot read '{name}', only its own Node object")


def _pod(node: str, attributes: Attributes, objects: NodeObjects) -> AccessDecision:
    if (attributes.subresource, attributes.verb) in _POD_WRITES:
        return _ALLOWED
    if attributes.subresource or attributes.verb not in _READ:
        return _NO_OPINION
    if attributes.verb == "get":
        return _single(node, attributes, objects)
    if ("spec.nodeName", node) in attributes.field_values:
        return _ALLOWED
    if attributes.name:
        return _related(node, attributes, objects)
    return _no("can only list/watch pods with spec.nodeName field selector")


_POD_WRITES: Final = frozenset(
    (("", "create"), ("", "delete"), ("status", "update"), ("status", "patch"), ("eviction", "create"))
)
_BY_RESOURCE: Final[Mapping[tuple[str, str], Callable[[str, Attributes, NodeObjects], AccessDecision]]] = {
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
