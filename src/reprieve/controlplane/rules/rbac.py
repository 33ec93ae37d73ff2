"""Rules of roles and bindings (kube-apiserver 1.36, pkg/apis/rbac/validation): each rule says what it allows, a
binding says one role of this API group and whom it is given to, and never changes the role.
"""

from __future__ import annotations

from collections.abc import Iterator

from reprieve.api.json import Json
from reprieve.controlplane.rules import names
from reprieve.controlplane.schema import field_errors as fe
from reprieve.controlplane.schema.field_errors import FieldError

_GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = ("ServiceAccount", "User", "Group")


def role(obj: Json) -> Iterator[FieldError]:
    """A role of a namespace."""
    yield from _rules(obj, namespaced=True)


def cluster_role(obj: Json) -> Iterator[FieldError]:
    """A role of the cluster."""
    yield from _rules(obj, namespaced=False)


def role_update(new: Json, _: Json) -> Iterator[FieldError]:
    """What holds for a new role holds for a changed one."""
    yield from role(new)


def cluster_role_update(new: Json, _: Json) -> Iterator[FieldError]:
    """What holds for a new role holds for a changed one."""
    yield from cluster_role(new)


def _rules(obj: Json, *, namespaced: bool) -> Iterator[FieldError]:
    for index, rule in enumerate(obj.get("rules") or ()):
        yield from _rule(rule, f"rules[{index}]", namespaced=namespaced)


def _rule(rule: Json, path: str, *, namespaced: bool) -> Iterator[FieldError]:
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


def role_binding(obj: Json) -> Iterator[FieldError]:
    """A binding within a namespace."""
    yield from _binding(obj, ("Role", "ClusterRole"), namespaced=True)


def cluster_role_binding(obj: Json) -> Iterator[FieldError]:
    """A binding of the whole cluster."""
    yield from _binding(obj, ("ClusterRole",), namespaced=False)


def role_binding_update(new: Json, old: Json) -> Iterator[FieldError]:
    """The role stays."""
    yield from role_binding(new)
    yield from _same_role(new, old)


def cluster_role_binding_update(new: Json, old: Json) -> Iterator[FieldError]:
    """The role stays."""
    yield from cluster_role_binding(new)
    yield from _same_role(new, old)


def _same_role(new: Json, old: Json) -> Iterator[FieldError]:
    if new.get("roleRef") != old.get("roleRef"):
        yield fe.invalid("roleRef", new.get("roleRef"), "cannot change roleRef")


def _binding(obj: Json, kinds: tuple[str, ...], *, namespaced: bool) -> Iterator[FieldError]:
    reference = obj.get("roleRef") or {}
    if reference.get("apiGroup", "") != _GROUP:
        yield fe.not_supported("roleRef.apiGroup", reference.get("apiGroup", ""), (_GROUP,))
    if reference.get("kind", "") not in kinds:
        yield fe.not_supported("roleRef.kind", reference.get("kind", ""), kinds)
    if not reference.get("name"):
        yield fe.required("roleRef.name")
    else:
        yield from fe.malformed("roleRef.name", reference["name"], names.path_segment)
    for index, subject in enumerate(obj.get("subjects") or ()):
        yield from _subject(subject, f"subjects[{index}]", namespaced=namespaced)


def _subject(subject: Json, path: str, *, namespaced: bool) -> Iterator[FieldError]:
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
