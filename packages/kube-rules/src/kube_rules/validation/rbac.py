"""Rules of roles and bindings (kube-apiserver 1.36, pkg/apis/rbac/validation).

Each rule names the permissions that it grants. A binding names one role of this API group, which never changes, and its
subjects.
"""

from __future__ import annotations

from functools import partial

from kube_rules import field_errors as fe
from kube_rules.json import Json
from kube_rules.validation import names, selectors
from kube_rules.validation import rows as r

_GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = ("ServiceAccount", "User", "Group")


def _rule(rule: Json, path: str, *, namespaced: bool = False) -> r.Found:
    if not rule.get("verbs"):
        yield fe.required(f"{path}.verbs", "verbs must contain at least one value")
    paths = rule.get("nonResourceURLs")
    if paths:
        place = f"{path}.nonResourceURLs"
        if namespaced:
            yield fe.invalid(place, paths, "namespaced rules cannot apply to non-resource URLs")
        if any(rule.get(key) for key in ("apiGroups", "resources", "resourceNames")):
            yield fe.invalid(place, paths, "rules cannot apply to both regular resources and non-resource URLs")
        return
    if not rule.get("apiGroups"):
        yield fe.required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield fe.required(f"{path}.resources", "resource rules must supply at least one resource")
    if rule.get("resourceNames") and len(rule.get("resources") or ()) > 1:
        yield fe.required(f"{path}.resourceNames", "resource names cannot apply to multiple resources")


def same_role(new: Json, old: Json) -> r.Found:
    """Check that the role of a binding does not change."""
    if new.get("roleRef") != old.get("roleRef"):
        yield fe.invalid("roleRef", new.get("roleRef"), "cannot change roleRef")


def _subject(subject: Json, path: str, *, namespaced: bool = False) -> r.Found:
    kind, name, group = subject.get("kind", ""), subject.get("name", ""), subject.get("apiGroup", "")
    if not name:
        yield fe.required(f"{path}.name")
    match kind:
        case "ServiceAccount":
            if name:
                yield from fe.malformed(f"{path}.name", name, names.subdomain)
            if group:
                yield fe.not_supported(f"{path}.apiGroup", group, ("",))
            if not namespaced and not subject.get("namespace"):
                yield fe.required(f"{path}.namespace")
        case "User" | "Group":
            if not name:
                yield fe.invalid(f"{path}.name", name, f"{kind.lower()} name cannot be empty")
            if group != _GROUP:
                yield fe.not_supported(f"{path}.apiGroup", group, (_GROUP,))
        case _:
            yield fe.not_supported(f"{path}.kind", kind, _SUBJECTS)


def _binding(subject: r.Check, *kinds: str) -> r.Check:
    return r.all_of(
        r.below("roleRef", r.enum("apiGroup", (_GROUP,)), r.enum("kind", kinds), r.wanted("name", names.path_segment)),
        r.listed("subjects", subject),
    )


def _aggregation(obj: Json, _: str) -> r.Found:
    rule = obj.get("aggregationRule")
    if rule is None:
        return
    place = "aggregationRule.clusterRoleSelectors"
    if not rule.get("clusterRoleSelectors"):
        yield fe.required(place, "at least one clusterRoleSelector required if aggregationRule is non-nil")
    for index, selector in enumerate(rule.get("clusterRoleSelectors", ())):
        yield from selectors.label_selector(selector, f"{place}[{index}]")


cluster_role = r.all_of(r.listed("rules", _rule), _aggregation)
role = r.listed("rules", partial(_rule, namespaced=True))
cluster_role_binding = _binding(_subject, "ClusterRole")
role_binding = _binding(partial(_subject, namespaced=True), "Role", "ClusterRole")
