"""Authorization: a fixed model for the server's own users, RBAC objects for all other users.

``system:masters`` has all rights; ``reprieve:readers`` may read everything. Other users have the rights of the
ClusterRoles and Roles bound to them, including those of every cluster (`bootstrap_roles`). Rules and texts:
kube-apiserver 1.36.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kube_rules.json import Json
from kube_standin.admission_chain import AdmissionRequest, Objects, Step, User
from kube_standin.errors import StatusError, forbidden
from kube_standin.node_authorization import NodeObjects, NodePods, node_of
from kube_standin.node_authorization import decide as decide_for_node
from kube_standin.rights import AccessDecision, Attributes, rule_allows, rule_allows_path

MASTERS = "system:masters"
READERS = "reprieve:readers"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))

_RBAC = "rbac.authorization.k8s.io"
_READ_VERBS = frozenset(("get", "list", "watch"))
_READER_PATHS = frozenset(("/", "/metrics"))


@dataclass(frozen=True)
class _Grant:
    """The rights of one subject from one binding."""

    reason: str
    rules: tuple[Json, ...]
    namespace: str | None


class Authorizer(Step):
    """Decides by the fixed model and the RBAC objects; as an admission step it notices their changes."""

    kinds = frozenset(f"{name}.{_RBAC}" for name in ("clusterroles", "clusterrolebindings", "roles", "rolebindings"))

    def __init__(self, registry: Objects) -> None:
        self._registry = registry
        self._grants: dict[tuple[str, str], list[_Grant]] | None = None
        self._pods = NodePods(registry.store)
        registry.store.undone.append(self._forget)

    def committed(self, request: AdmissionRequest) -> None:
        """Drop the data derived from RBAC objects."""
        self._forget()

    def _forget(self) -> None:
        self._grants = None

    def at_present(self) -> Callable[[User, Attributes], AccessDecision]:
        """Return `decide` in its current state, for a thread outside the event loop."""
        present = copy.copy(self)
        present._grants = self._read() if self._grants is None else self._grants
        self._grants = present._grants
        present._pods = self._pods.at_present()
        return present.decide

    def decide(self, user: User, attributes: Attributes) -> AccessDecision:
        """Return whether a user has access, and why."""
        if MASTERS in user.groups:
            return AccessDecision(True)
        if attributes.path:
            return self._decide_path(user, attributes)
        if READERS in user.groups and attributes.verb in _READ_VERBS:
            return AccessDecision(True, "reprieve: read-only token")
        node = node_of(user)
        denied = AccessDecision(False)
        if node is not None:
            denied = decide_for_node(node, attributes, NodeObjects(self._registry, self._pods))
        if denied.allowed:
            return denied
        for grant in self._granted(user):
            if grant.namespace is not None and grant.namespace != attributes.namespace:
                continue
            if any(rule_allows(rule, attributes) for rule in grant.rules):
                return AccessDecision(True, grant.reason)
        return denied

    def _decide_path(self, user: User, attributes: Attributes) -> AccessDecision:
        if READERS in user.groups and attributes.verb in ("get", "head"):
            path = attributes.path
            if path in _READER_PATHS or path.startswith(("/livez/", "/readyz/", "/healthz/")):
                return AccessDecision(True, "reprieve: read-only token")
        for grant in self._granted(user):
            if grant.namespace is None and any(rule_allows_path(rule, attributes) for rule in grant.rules):
                return AccessDecision(True, grant.reason)
        return AccessDecision(False)

    def check(self, user: User, attributes: Attributes) -> None:
        """Raise 403 unless allowed."""
        decision = self.decide(user, attributes)
        if decision.allowed:
            return
        if attributes.path:
            raise StatusError(
                403,
                "Forbidden",
                f'forbidden: User "{user.name}" cannot {attributes.verb} path "{attributes.path}"',
                {},
            )
        where = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
        raise forbidden(
            attributes.resource,
            attributes.group,
            attributes.name,
            f'User "{user.name}" cannot {attributes.verb} resource "{attributes.full_resource}" in API group '
            f'"{attributes.group}" {where}' + (f": {decision.reason}" if decision.reason else ""),
        )

    def rules_for(self, user: User, namespace: str) -> tuple[list[Json], list[Json]]:
        """Return the resource rules and path rules of ``user`` in ``namespace`` (SelfSubjectRulesReview)."""
        if MASTERS in user.groups:
            everything = ["*"]
            return (
                [{"verbs": everything, "apiGroups": everything, "resources": everything}],
                [{"verbs": everything, "nonResourceURLs": everything}],
            )
        resources: list[Json] = []
        if READERS in user.groups:
            resources.append({"verbs": sorted(_READ_VERBS), "apiGroups": ["*"], "resources": ["*"]})
        paths: list[Json] = []
        for grant in self._granted(user):
            if grant.namespace in (None, namespace):
                for rule in grant.rules:
                    (paths if rule.get("nonResourceURLs") else resources).append(rule)
        return resources, paths

    def _granted(self, user: User) -> Iterator[_Grant]:
        if self._grants is None:
            self._grants = self._read()
        yield from self._grants.get(("User", user.name), ())
        for group in user.groups:
            yield from self._grants.get(("Group", group), ())

    def _read(self) -> dict[tuple[str, str], list[_Grant]]:
        registry = self._registry
        grants: dict[tuple[str, str], list[_Grant]] = {}
        for name, namespaced in (("ClusterRoleBinding", False), ("RoleBinding", True)):
            kind = registry.kind(f"{_RBAC}/v1", name)
            for state in registry.store.heads(kind.storage_key):
                binding = state.decode()
                role = self._role(binding)
                if role is None:
                    continue
                rules = tuple(role.get("rules") or ())
                reference = binding.get("roleRef") or {}
                for subject in binding.get("subjects") or ():
                    key = _subject(subject, state.namespace)
                    shown = binding["metadata"]["name"]
                    if namespaced:
                        shown = f"{shown}/{state.namespace}"
                    reason = (
                        f'RBAC: allowed by {name} "{shown}" of {reference.get("kind")} "{reference.get("name")}" '
                        f'to {subject.get("kind")} "{_shown(subject)}"'
                    )
                    grant = _Grant(reason, rules, state.namespace if namespaced else None)
                    grants.setdefault(key, []).append(grant)
        return grants

    def _role(self, binding: Json) -> Json | None:
        reference = binding.get("roleRef") or {}
        name = reference.get("kind", "")
        if name not in ("ClusterRole", "Role"):
            return None
        kind = self._registry.kind(f"{_RBAC}/v1", name)
        return self._registry.find(kind, binding["metadata"].get("namespace", ""), reference.get("name", ""))


class ClaimStatus(Step):
    """Requires additional rights for parts of a resource claim's status.

    Allocation and reservations require update or patch of ``resourceclaims/binding``; the device status of a driver
    requires ``arbitrary-node:update`` or ``:patch`` of ``resourceclaims/driver``, by the driver's name (kube-apiserver
    1.36, gate DRAResourceClaimGranularStatusAuthorization; nodes' own drivers are no exception here).
    """

    kinds = frozenset(("resourceclaims.resource.k8s.io",))

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse (403) a change that the user has no right to make."""
        if request.operation != "UPDATE" or request.subresource != "status":
            return
        new, old = request.new.get("status") or {}, (request.old or {}).get("status") or {}
        if any(new.get(part) != old.get(part) for part in ("allocation", "reservedFor")):
            self._ask(request, "binding", "", request.name)
        before, after = _by_driver(old), _by_driver(new)
        for driver in sorted({*before, *after}):
            if before.get(driver) != after.get(driver):
                self._ask(request, "driver", "arbitrary-node:", driver)

    def _ask(self, request: AdmissionRequest, part: str, prefix: str, name: str) -> None:
        kind, namespace = request.kind, request.namespace
        attributes = [
            Attributes(f"{prefix}{verb}", kind.group, kind.plural, part, namespace, name)
            for verb in ("patch", "update")
        ]
        if not any(self._authorizer.decide(request.user, question).allowed for question in attributes):
            self._authorizer.check(request.user, attributes[0])


def _by_driver(status: Json) -> dict[str, list[Json]]:
    by_driver: dict[str, list[Json]] = {}
    for device in status.get("devices") or ():
        by_driver.setdefault(device.get("driver", ""), []).append(device)
    return by_driver


def _subject(subject: Json, namespace: str) -> tuple[str, str]:
    if subject.get("kind") == "ServiceAccount":
        return ("User", f"system:serviceaccount:{subject.get('namespace') or namespace}:{subject.get('name')}")
    return (subject.get("kind", ""), subject.get("name", ""))


def _shown(subject: Json) -> str:
    if subject.get("kind") == "ServiceAccount":
        return f"{subject.get('name')}/{subject.get('namespace', '')}"
    return str(subject.get("name", ""))
