"""The ClusterRoles for users that every cluster has: cluster-admin, admin, edit and view, as facts of the API.

Rules: kube-apiserver 1.37 (rbac/bootstrappolicy), for the resources that are served here and those that are usual
elsewhere. `admin`, `edit` and `view` have no rules of their own but those of the roles with their label, which the
controller `clusterrole-aggregation` collects; they are filled from the start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kube_rules.controllers.cluster_roles import aggregated_rules
from kube_rules.json import Json
from kube_standin.registry import ObjectRegistry, WriteOptions

VERSION: Final = "rbac.authorization.k8s.io/v1"
_MARK: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_UPDATED: Final = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
AGGREGATE: Final = "rbac.authorization.k8s.io/aggregate-to-"
_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("create", "delete", "deletecollection", "patch", "update")
_SEEN: Final[Mapping[str, str]] = {
    "": "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers "
    "replicationcontrollers/scale serviceaccounts services services/status bindings events limitranges "
    "namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas resourcequotas/status "
    "namespaces",
    "discovery.k8s.io": "endpointslices",
    "apps": "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status "
    "replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
    "autoscaling": "horizontalpodautoscalers horizontalpodautoscalers/status",
    "batch": "cronjobs cronjobs/status jobs jobs/status",
    "policy": "poddisruptionbudgets poddisruptionbudgets/status",
    "networking.k8s.io": "ingresses ingresses/status networkpolicies",
    "resource.k8s.io": "resourceclaims resourceclaims/status resourceclaimtemplates",
    "scheduling.k8s.io": "podgroups podgroups/status workloads",
}
"""What `view` reads."""
_CHANGED: Final[Mapping[str, str]] = {
    "": "pods pods/attach pods/exec pods/portforward pods/proxy configmaps events persistentvolumeclaims "
    "replicationcontrollers replicationcontrollers/scale secrets serviceaccounts services services/proxy",
    "apps": "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets "
    "statefulsets/scale",
    "autoscaling": "horizontalpodautoscalers",
    "batch": "cronjobs jobs",
    "policy": "poddisruptionbudgets",
    "networking.k8s.io": "ingresses networkpolicies",
    "coordination.k8s.io": "leases",
    "resource.k8s.io": "resourceclaims resourceclaimtemplates",
    "scheduling.k8s.io": "podgroups workloads",
}
"""What `edit` changes."""


def _rule(group: str, resources: str, *verbs: str) -> Json:
    return {"verbs": sorted(verbs), "apiGroups": [group], "resources": resources.split()}


def _parts() -> Iterator[tuple[str, list[Json]]]:
    """Yield the parts that are aggregated: the role that they belong to first, and their rules."""
    rbac = "rolebindings roles"
    yield (
        "admin",
        [
            _rule("authorization.k8s.io", "localsubjectaccessreviews", "create"),
            _rule(VERSION.partition("/")[0], rbac, *_READ, *_WRITE),
        ],
    )
    secret = "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"
    yield (
        "edit",
        [
            _rule("", secret, *_READ),
            _rule("", "serviceaccounts", "impersonate"),
            _rule("", "pods/eviction serviceaccounts/token", "create"),
            *(_rule(group, resources, *_WRITE) for group, resources in _CHANGED.items()),
            _rule("coordination.k8s.io", "leases", *_READ),
        ],
    )
    yield ("view", [_rule(group, resources, *_READ) for group, resources in _SEEN.items()])


_HIGHER: Final = {"admin": (), "edit": ("admin",), "view": ("edit",)}
"""Of which role `admin`, `edit` and `view` are a part themselves."""


def cluster_roles() -> dict[str, Json]:
    """Return the manifests of the roles by name."""
    everything = [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
        {"verbs": ["*"], "nonResourceURLs": ["*"]},
    ]
    roles = {"cluster-admin": _role("cluster-admin", {}, everything)}
    for name, rules in _parts():
        part = f"system:aggregate-to-{name}"
        roles[part] = _role(part, {f"{AGGREGATE}{name}": "true"}, rules)
        roles[name] = _role(name, {f"{AGGREGATE}{higher}": "true" for higher in _HIGHER[name]}, [])
        selected = [{"matchLabels": {f"{AGGREGATE}{name}": "true"}}]
        roles[name]["aggregationRule"] = {"clusterRoleSelectors": selected}
    for name in ("view", "edit", "admin"):  # each is a part of the next
        roles[name]["rules"] = aggregated_rules(name, roles)
    return roles


def _role(name: str, labels: Mapping[str, str], rules: list[Json]) -> Json:
    metadata = {"name": name, "labels": {**_MARK, **labels}, "annotations": _UPDATED}
    return {"metadata": metadata, "rules": rules}


def ensure_cluster_roles(registry: ObjectRegistry) -> None:
    """Stage the roles, and the binding of cluster-admin to `system:masters`; what exists is left as it is."""
    group = VERSION.partition("/")[0]
    binding: Json = {
        "metadata": {"name": "cluster-admin", "labels": _MARK, "annotations": _UPDATED},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": "system:masters"}],
    }
    for kind_name, objects in (("ClusterRole", cluster_roles().values()), ("ClusterRoleBinding", (binding,))):
        kind = registry.kind(VERSION, kind_name)
        for obj in objects:
            if registry.head(kind, "", obj["metadata"]["name"]) is None:
                registry.create_now(kind, "", registry.decoder.decode(kind, obj, "Ignore", []), WriteOptions())
