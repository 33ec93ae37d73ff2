"""The FlowSchema and priority level of a request, and the conditions of FlowSchemas (interfaces.md 4.16).

Requests are classified, but not limited or queued.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from kube_rules.json import Json
from kube_standin.admission_chain import AdmissionRequest, Objects, Step, User
from kube_standin.conditions import condition, put_condition
from kube_standin.kinds import STREAMS
from kube_standin.registry import ObjectRegistry
from kube_standin.rights import Attributes
from kube_standin.storage import Store

_GROUP: Final = "flowcontrol.apiserver.k8s.io"
_SCHEMAS: Final = f"{_GROUP}/flowschemas"
_LEVELS: Final = f"{_GROUP}/prioritylevelconfigurations"
"""Subresources of long-running requests, which are not classified."""
_MOST_REMEMBERED: Final = 4096
_LONGEST_REMEMBERED: Final = 1024
"""Maximum length of a cached user and request in characters: clients choose paths and names."""
_SEATS: Final = 600
"""Default number of concurrent requests of a kube-apiserver (`--max-requests-inflight` and the mutating ones)."""
_KINDS: Final = frozenset((f"flowschemas.{_GROUP}", f"prioritylevelconfigurations.{_GROUP}"))

Headers = tuple[tuple[bytes, bytes], ...]


class _Flow(NamedTuple):
    """A FlowSchema with an existing priority level; ``headers`` name both."""

    precedence: int
    name: str
    rules: tuple[Json, ...]
    headers: Headers


class FlowSchemas(Step):
    """Keeps the condition Dangling of FlowSchemas: whether their priority level is missing."""

    kinds = _KINDS

    def allocate(self, request: AdmissionRequest, new: Json) -> None:
        """Set the condition of a written FlowSchema."""
        if request.kind.plural == "flowschemas":
            _set_dangling(request.registry, new)

    def committed(self, request: AdmissionRequest) -> None:
        """Update the condition of FlowSchemas when their level is created or deleted."""
        if request.kind.plural == "flowschemas" or request.operation == "UPDATE":
            return
        store = request.registry.store
        for state in list(store.heads(_SCHEMAS)):
            schema = state.decode()
            if _level_of(schema) == request.name:
                _set_dangling(request.registry, schema)
                store.put(_SCHEMAS, "", state.name, schema, state)


class FlowClassifier(Step):
    """Classifies the requests of one server. As an admission step it notices changes of its objects."""

    kinds = _KINDS

    def __init__(self, registry: ObjectRegistry) -> None:
        self._store = registry.store
        self._flows: list[_Flow] | None = None
        self._remembered: dict[tuple[object, ...], Headers] = {}
        registry.store.undone.append(self._forget)

    def committed(self, request: AdmissionRequest) -> None:
        """Read both kinds again with the next request."""
        self._forget()

    def headers(self, user: User, attributes: Attributes) -> Headers:
        """Return the response headers with the UIDs of the FlowSchema and the priority level of a request."""
        if attributes.subresource in STREAMS:
            return ()
        a = attributes
        key = (user.name, user.groups, a.verb, a.group, a.resource, a.subresource, a.namespace, a.path)
        headers = self._remembered.get(key)
        if headers is None:
            headers = next((flow.headers for flow in self._sorted() if _matches(flow.rules, user, attributes)), ())
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            if sum(map(len, (*user.groups, user.name, a.verb, *key[3:]))) <= _LONGEST_REMEMBERED:
                self._remembered[key] = headers
        return headers

    def _forget(self) -> None:
        self._flows = None
        self._remembered.clear()

    def _sorted(self) -> list[_Flow]:
        """Return the FlowSchemas with their levels in order of evaluation."""
        if self._flows is None:
            store, flows = self._store, list[_Flow]()
            levels = {state.name: state.decode()["metadata"]["uid"] for state in store.heads(_LEVELS)}
            for state in store.heads(_SCHEMAS):
                schema = state.decode()
                level = levels.get(_level_of(schema))
                if level is None:
                    continue
                uids = (
                    (b"x-kubernetes-pf-flowschema-uid", schema["metadata"]["uid"].encode()),
                    (b"x-kubernetes-pf-prioritylevel-uid", level.encode()),
                )
                spec = schema["spec"]
                flows.append(_Flow(spec["matchingPrecedence"], state.name, tuple(spec.get("rules") or ()), uids))
            self._flows = sorted(flows, key=lambda flow: (flow.precedence, flow.name))
        return self._flows


def nominal_seats(store: Store) -> dict[tuple[str, ...], int]:
    """Return the nominal number of concurrent requests of each priority level, by ``(name,)``."""
    shares: dict[tuple[str, ...], int] = {}
    for state in store.heads(_LEVELS):
        spec = state.decode()["spec"]
        part = spec.get("limited") or spec.get("exempt") or {}
        shares[(state.name,)] = part.get("nominalConcurrencyShares") or 0
    total = sum(shares.values()) or 1
    return {name: -(-_SEATS * share // total) for name, share in shares.items()}


def _set_dangling(registry: Objects, schema: Json) -> None:
    """Set the condition of a FlowSchema in place: whether its priority level is missing."""
    level = _level_of(schema)
    exists = registry.store.head(_LEVELS, "", level) is not None
    text = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" '
    verdict = ("False", "Found", "and it exists") if exists else ("True", "NotFound", "but there is no such object")
    status, reason, rest = verdict
    dangling = condition("Dangling", status, reason, text + rest)
    put_condition(schema.setdefault("status", {}), dangling, registry.clock.stamp())


def _level_of(schema: Json) -> str:
    """Return the name of the priority level of a FlowSchema, which may be invalid."""
    name: str = ((schema.get("spec") or {}).get("priorityLevelConfiguration") or {}).get("name", "")
    return name


def _matches(rules: Iterable[Json], user: User, attributes: Attributes) -> bool:
    """Return whether one rule matches both the user and the request."""
    return any(
        any(_is_subject(subject, user) for subject in rule.get("subjects") or ()) and _is_about(rule, attributes)
        for rule in rules
    )


def _is_subject(subject: Json, user: User) -> bool:
    match subject["kind"]:
        case "User":
            return subject["user"]["name"] in ("*", user.name)
        case "Group":
            name = subject["group"]["name"]
            return name == "*" or name in user.groups
        case _:
            account = subject["serviceAccount"]
            prefix = f"system:serviceaccount:{account['namespace']}:"
            if account["name"] == "*":
                return user.name.startswith(prefix)
            wanted: str = prefix + account["name"]
            return user.name == wanted


def _is_about(rule: Json, attributes: Attributes) -> bool:
    if not attributes.resource:
        path = attributes.path
        return any(
            _has(path_rule["verbs"], attributes.verb)
            and any(_is_path(url, path) for url in path_rule["nonResourceURLs"])
            for path_rule in rule.get("nonResourceRules") or ()
        )
    return any(
        _has(resource_rule["verbs"], attributes.verb)
        and _has(resource_rule["apiGroups"], attributes.group)
        and _has(resource_rule["resources"], attributes.full_resource)
        and (
            _has(resource_rule.get("namespaces") or (), attributes.namespace)
            if attributes.namespace
            else resource_rule.get("clusterScope", False)
        )
        for resource_rule in rule.get("resourceRules") or ()
    )


def _has(values: Collection[str], value: str) -> bool:
    return value in values or "*" in values


def _is_path(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern
