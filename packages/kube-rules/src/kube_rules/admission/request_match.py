"""Match requests to webhooks and policies: rules, selectors, and equivalent versions of a resource.

Rules: k8s.io/apiserver, admission/plugin/webhook/predicates and generic (ShouldCallHook); interfaces.md 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kube_rules.json import Json
from kube_rules.selectors import compile_selector

EXEMPT_GROUP = "admissionregistration.k8s.io"
"""Webhooks and policies do not apply to objects of this group."""
EXEMPT_API = f"{EXEMPT_GROUP}/v1"
ANY = "*"
_NO_LABELS: Mapping[str, str] = {}


@dataclass(frozen=True)
class ApiResource:
    """A resource in one version, and the kind of the objects sent to it or to its subresource."""

    group: str
    version: str
    plural: str
    subresource: str = ""
    kind_group: str = ""
    kind_version: str = ""
    kind: str = ""


@dataclass(frozen=True)
class AdmittedRequest:
    """The properties of a request that rules and selectors use. ``namespace`` of a Namespace is its own name.

    ``equivalents`` are the other versions of the resource. ``namespace_labels`` returns the labels of the namespace,
    None if there is no such namespace.
    """

    operation: str
    resource: ApiResource
    equivalents: Sequence[ApiResource]
    namespace: str
    name: str
    object: Json | None
    old: Json | None
    namespace_labels: Callable[[], Mapping[str, str] | None]

    @property
    def of_namespace(self) -> bool:
        """Return whether the request is for a Namespace itself."""
        return self.resource.plural == "namespaces" and not self.resource.group


class NoNamespaceError(Exception):
    """The namespace of a request does not exist, but a selector needs its labels."""


def matched_resource(match: Json, request: AdmittedRequest, rules: Iterable[Json]) -> ApiResource | None:
    """Return the form of the resource that the rules of a webhook match, None if the webhook does not apply.

    `match` has ``matchPolicy``, ``namespaceSelector`` and ``objectSelector``. Raises NoNamespaceError.
    """
    resource = _ruled(match, request, list(rules))
    return resource if resource is not None and _selected(match, request) else None


def constrained_resource(match: Json, request: AdmittedRequest) -> ApiResource | None:
    """Return the form of the resource that a policy or a binding matches, None if it does not apply.

    `match` is ``matchConstraints`` or ``matchResources``; without rules it matches every resource. Raises
    NoNamespaceError.
    """
    if _ruled(match, request, match.get("excludeResourceRules") or ()) is not None:
        return None
    rules = match.get("resourceRules") or ()
    resource = _ruled(match, request, rules) if rules else request.resource
    return resource if resource is not None and _selected(match, request) else None


def _ruled(match: Json, request: AdmittedRequest, rules: Sequence[Json]) -> ApiResource | None:
    if any(_fits(rule, request, request.resource) for rule in rules):
        return request.resource
    if match.get("matchPolicy", "Equivalent") != "Equivalent":
        return None
    pairs = ((rule, equivalent) for rule in rules for equivalent in request.equivalents)
    return next((equivalent for rule, equivalent in pairs if _fits(rule, request, equivalent)), None)


def _selected(match: Json, request: AdmittedRequest) -> bool:
    return _object_fits(match.get("objectSelector"), request) and _namespace_fits(
        match.get("namespaceSelector"), request
    )


def concerns(rules: Iterable[Json], resources: Sequence[ApiResource]) -> bool:
    """Return whether any rule matches a resource in one of its versions, for any operation and subresource."""
    return any(
        resource.group in _listed(rule, "apiGroups", resource.group)
        and resource.version in _listed(rule, "apiVersions", resource.version)
        and any(name.partition("/")[0] in (ANY, resource.plural) for name in rule.get("resources") or ())
        for rule in rules
        for resource in resources
    )


def _listed(rule: Json, field: str, value: str) -> Sequence[str]:
    items: Sequence[str] = rule.get(field) or ()
    return (value,) if ANY in items else items


def _fits(rule: Json, request: AdmittedRequest, resource: ApiResource) -> bool:
    clustered = request.of_namespace or not request.namespace
    scope = rule.get("scope") or ANY
    if (scope == "Namespaced" and clustered) or (scope == "Cluster" and not clustered):
        return False
    named = rule.get("resourceNames")
    if named and request.name not in named:
        return False
    return (
        request.operation in _listed(rule, "operations", request.operation)
        and resource.group in _listed(rule, "apiGroups", resource.group)
        and resource.version in _listed(rule, "apiVersions", resource.version)
        and any(_resource_fits(name, resource) for name in rule.get("resources") or ())
    )


def _resource_fits(name: str, resource: ApiResource) -> bool:
    plural, _, subresource = name.partition("/")
    return plural in (ANY, resource.plural) and subresource in (ANY, resource.subresource)


def _labels(obj: Json) -> Mapping[str, str]:
    return (obj.get("metadata") or {}).get("labels") or _NO_LABELS


def _object_fits(selector: Json | None, request: AdmittedRequest) -> bool:
    if not selector:
        return True
    compiled = compile_selector(selector)
    return any(compiled.matches(_labels(obj)) for obj in (request.object, request.old) if obj is not None)


def _namespace_fits(selector: Json | None, request: AdmittedRequest) -> bool:
    if not selector or (not request.namespace and not request.of_namespace):
        return True
    if request.of_namespace and not request.resource.subresource and request.object is not None:
        labels: Mapping[str, str] | None = _labels(request.object)
    else:
        labels = request.namespace_labels()
    if labels is None:
        raise NoNamespaceError
    return compile_selector(selector).matches(labels)
