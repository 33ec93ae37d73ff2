"""The roles of every cluster and their bindings, for users, components and controllers (interfaces.md 5.13).

The roles are facts of kube-apiserver's rbac/bootstrappolicy and listed in `bootstrap_roles.txt`. `admin`, `edit` and
`view` have no rules of their own, only those of the roles with their label, which the controller
`clusterrole-aggregation` collects; they are filled from the start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Final

import msgspec

from kube_rules.controllers.cluster_roles import aggregated_rules
from kube_rules.json import Json
from kube_standin.registry import ObjectRegistry

_GROUP: Final = "rbac.authorization.k8s.io"
VERSION: Final = f"{_GROUP}/v1"
BOOTSTRAPPING: Final = "kubernetes.io/bootstrapping"
_MARK: Final = {BOOTSTRAPPING: "rbac-defaults"}
_UPDATED: Final = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
AGGREGATE: Final = f"{_GROUP}/aggregate-to-"
_VERBS: Final[Mapping[str, tuple[str, ...]]] = {
    "read": ("get", "list", "watch"),
    "write": ("create", "delete", "deletecollection", "patch", "update"),
}
_CONTROLLER: Final = "system:controller:"
_SYSTEM: Final = "kube-system"
_HIGHER: Final = {"admin": (), "edit": ("admin",), "view": ("edit",)}
"""The roles that `admin`, `edit` and `view` are aggregated to."""

_MANAGER, _SCHEDULER = "User system:kube-controller-manager", "User system:kube-scheduler"
_SUBJECTS: Final[Mapping[str, tuple[str, ...]]] = {
    "cluster-admin": ("Group system:masters",),
    "system:basic-user": ("Group system:authenticated",),
    "system:cluster-trust-bundle-discovery": ("Group system:serviceaccounts",),
    "system:discovery": ("Group system:authenticated",),
    "system:kube-controller-manager": (_MANAGER,),
    "system:kube-dns": ("ServiceAccount kube-dns",),
    "system:kube-scheduler": (_SCHEDULER,),
    "system:monitoring": ("Group system:monitoring",),
    "system:node": (),
    "system:node-proxier": ("User system:kube-proxy",),
    "system:public-info-viewer": ("Group system:authenticated", "Group system:unauthenticated"),
    "system:service-account-issuer-discovery": ("Group system:serviceaccounts",),
    "system:volume-scheduler": (_SCHEDULER,),
    "kube-public/system:controller:bootstrap-signer": ("ServiceAccount bootstrap-signer",),
    "kube-system/extension-apiserver-authentication-reader": (_MANAGER, _SCHEDULER),
    "kube-system/system::leader-locking-kube-controller-manager": (
        _MANAGER,
        "ServiceAccount kube-controller-manager",
        "ServiceAccount leader-election-controller",
    ),
    "kube-system/system::leader-locking-kube-scheduler": (_SCHEDULER, "ServiceAccount kube-scheduler"),
    "kube-system/system:controller:bootstrap-signer": ("ServiceAccount bootstrap-signer",),
    "kube-system/system:controller:cloud-provider": ("ServiceAccount cloud-provider",),
    "kube-system/system:controller:token-cleaner": ("ServiceAccount token-cleaner",),
}
"""The subjects of each role; a controller's role is also bound to the service account with its name."""
_BINDING_NAMES: Final = {
    "extension-apiserver-authentication-reader": "system::extension-apiserver-authentication-reader"
}
"""Bindings with another name than their role."""


def _rules() -> dict[str, list[Json]]:
    """Return the rules of each role by its name, namespaced ones as NAMESPACE/NAME."""
    text = resources.files(__package__).joinpath("bootstrap_roles.txt").read_text(encoding="utf-8")
    rules: dict[str, list[Json]] = {}
    role: list[Json] = []
    for line in text.splitlines():
        if line.startswith("  "):
            role.append(_rule(*line.split()))
        elif not line.startswith("#"):
            role = rules[line] = []
    return rules


def _rule(verbs: str, groups: str, targets: str, names: str = "") -> Json:
    single = sorted(verb for word in verbs.split(",") for verb in _VERBS.get(word, (word,)))
    if groups == "-":
        return {"verbs": single, "nonResourceURLs": targets.split(",")}
    rule = {
        "verbs": single,
        "apiGroups": ["" if group == "core" else group for group in groups.split(",")],
        "resources": targets.split(","),
    }
    return {**rule, "resourceNames": names.split(",")} if names else rule


def _marked(name: str, labels: Mapping[str, str] | None = None, namespace: str = "") -> Json:
    place = {"namespace": namespace} if namespace else {}
    return {"metadata": {"name": name, **place, "labels": {**_MARK, **(labels or {})}, "annotations": _UPDATED}}


def cluster_roles() -> dict[str, Json]:
    """Return the manifests of the ClusterRoles by name."""
    roles: dict[str, Json] = {}
    for name, rules in _rules().items():
        if "/" not in name:
            part = name.removeprefix("system:aggregate-to-")
            label = {f"{AGGREGATE}{part}": "true"} if part != name else {}
            roles[name] = {**_marked(name, label), "rules": rules}
    for name, above in _HIGHER.items():
        selected = [{"matchLabels": {f"{AGGREGATE}{name}": "true"}}]
        labels = {f"{AGGREGATE}{higher}": "true" for higher in above}
        roles[name] = {**_marked(name, labels), "aggregationRule": {"clusterRoleSelectors": selected}, "rules": []}
    for name in ("view", "edit", "admin"):  # each is a part of the next
        roles[name]["rules"] = aggregated_rules(name, roles)
    return roles


def _objects() -> Iterator[tuple[str, Json]]:
    """Yield the kind and the manifest of each role and binding."""
    subjects = dict(_SUBJECTS)
    for role in cluster_roles().values():
        yield "ClusterRole", role
        name = role["metadata"]["name"]
        if name.startswith(_CONTROLLER):
            subjects[name] = (f"ServiceAccount {name.removeprefix(_CONTROLLER)}",)
    for whole, rules in _rules().items():
        namespace, slash, name = whole.rpartition("/")
        if slash:
            yield "Role", {**_marked(name, None, namespace), "rules": rules}
    for whole, bound in subjects.items():
        namespace, _, name = whole.rpartition("/")
        kind = "Role" if namespace else "ClusterRole"
        binding = _marked(_BINDING_NAMES.get(name, name), None, namespace)
        binding["roleRef"] = {"apiGroup": _GROUP, "kind": kind, "name": name}
        if bound:
            binding["subjects"] = [_subject(*subject.split()) for subject in bound]
        yield f"{kind}Binding", binding


def _subject(kind: str, name: str) -> Json:
    if kind == "ServiceAccount":
        return {"kind": kind, "name": name, "namespace": _SYSTEM}
    return {"apiGroup": _GROUP, "kind": kind, "name": name}


@cache
def _encoded() -> tuple[tuple[str, str, str, bytes], ...]:
    """Return kind, namespace, name and JSON of all objects, created once per process."""
    encode = msgspec.json.encode
    return tuple(
        (kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"], encode(obj)) for kind, obj in _objects()
    )


def ensure_cluster_roles(registry: ObjectRegistry) -> None:
    """Stage the roles and their bindings; existing ones are not changed."""
    kinds = {
        name: registry.kind(VERSION, name) for name in ("ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding")
    }
    stamp = registry.clock.stamp()
    for kind_name, namespace, name, encoded in _encoded():
        kind = kinds[kind_name]
        if registry.head(kind, namespace, name) is None:
            obj: Json = msgspec.json.decode(encoded)
            obj["metadata"] |= {"uid": registry.clock.uid(), "creationTimestamp": stamp}
            registry.store.put(kind.storage_key, namespace, name, obj, None)
