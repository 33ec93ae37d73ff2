"""The check on writes of roles and bindings: users can grant by RBAC only rights that they hold.

Rules: kube-apiserver 1.36 (registry/rbac, ``policybased`` storages). A user that writes a role must hold all its rules
in the namespace of the write, or have the verb ``escalate`` on roles or clusterroles. A user that writes a binding must
hold all rules of the role, or have ``bind`` on that role. An aggregation rule can include any rule, so it requires all
rights, including ``escalate``. ``system:masters`` may do all of this, and every user may make changes that only concern
garbage collection.

Terms: an *atomic* rule has one API group, resource and verb, and at most one resource name (or one path and verb);
either one owner rule covers it or none does, so comparing atomic rules is exact. A role with more than ``MOST_ATOMS``
atomic rules is not expanded: a single owner rule must cover each of its rules as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from kube_rules.errors import excerpt
from kube_rules.json import Json
from kube_standin import errors
from kube_standin.admission_chain import AdmissionRequest, Step
from kube_standin.authorization import MASTERS, Authorizer
from kube_standin.rights import Attributes

MOST_ATOMS = 5000
_MOST_NAMED = 500
_RBAC = "rbac.authorization.k8s.io"
_ROLES = frozenset(("roles", "clusterroles"))
_PLURAL_OF = {"Role": "roles", "ClusterRole": "clusterroles"}


class Rule(NamedTuple):
    """A policy rule; each part keeps its original order."""

    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()

    @classmethod
    def read(cls, rule: Json) -> Rule:
        """Return a rule of a role."""
        keys = ("apiGroups", "resources", "nonResourceURLs", "resourceNames", "verbs")
        return cls(*(tuple(rule.get(key) or ()) for key in keys))

    @property
    def atoms(self) -> int:
        """Return the number of its atomic rules."""
        resources = len(self.groups) * len(self.resources) * max(len(self.names), 1)
        return (resources + len(self.paths)) * len(self.verbs)

    def broken_down(self) -> Iterator[Rule]:
        """Yield its atomic rules."""
        names: Sequence[tuple[str, ...]] = [(name,) for name in self.names] or [()]
        for group, resource, verb, name in product(self.groups, self.resources, self.verbs, names):
            yield Rule((group,), (resource,), (), name, (verb,))
        for path, verb in product(self.paths, self.verbs):
            yield Rule(paths=(path,), verbs=(verb,))

    def __str__(self) -> str:
        """Return the rule in the format of refusals, with excerpts of long words."""
        parts = zip(("APIGroups", "Resources", "NonResourceURLs", "ResourceNames", "Verbs"), self, strict=True)
        return "{" + ", ".join(f"{name}:{_shown(values)}" for name, values in parts if values) + "}"


def _shown(words: Iterable[str]) -> str:
    return errors.quoted(excerpt(word, errors.LONGEST_CAUSE) for word in words)


def _resource_covered(owned: frozenset[str], resource: str) -> bool:
    if "*" in owned or resource in owned:
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"*/{subresource}" in owned


def _path_covered(owned: Iterable[str], path: str) -> bool:
    return any(
        own == path or (own.endswith("*") and path.startswith(own.rstrip("*")))
        for own in owned
    )  # fmt: skip


class _HeldRule:
    """A rule that a user holds, prepared for many comparisons."""

    __slots__ = ("_groups", "_names", "_paths", "_resources", "_verbs")

    def __init__(self, rule: Rule) -> None:
        self._groups, self._resources = frozenset(rule.groups), frozenset(rule.resources)
        self._names, self._verbs = frozenset(rule.names), frozenset(rule.verbs)
        self._paths = rule.paths

    def covers(self, rule: Rule) -> bool:
        """Return whether this rule allows everything that ``rule`` allows."""
        return (
            ("*" in self._verbs or self._verbs.issuperset(rule.verbs))
            and ("*" in self._groups or self._groups.issuperset(rule.groups))
            and (not self._names or (bool(rule.names) and self._names.issuperset(rule.names)))
            and all(_resource_covered(self._resources, resource) for resource in rule.resources)
            and all(_path_covered(self._paths, path) for path in rule.paths)
        )


def missing_rights(owned: Iterable[Json], wanted: Iterable[Json]) -> list[Rule]:
    """Return the rules in ``wanted`` that ``owned`` does not cover; verbs of one resource are merged."""
    owners = [_HeldRule(Rule.read(rule)) for rule in owned]
    left = MOST_ATOMS
    missing: list[Rule] = []
    for rule in map(Rule.read, wanted):
        if not rule.verbs or any(owner.covers(rule) for owner in owners):
            continue
        left -= rule.atoms
        atoms = rule.broken_down() if left >= 0 else iter((rule,))
        missing.extend(atom for atom in atoms if not any(owner.covers(atom) for owner in owners))
    return _compacted(missing)


def _compacted(rules: Iterable[Rule]) -> list[Rule]:
    simple: dict[tuple[str, str], Rule] = {}
    complex_rules: list[Rule] = []
    for rule in rules:
        if len(rule.groups) != 1 or len(rule.resources) != 1 or rule.names or rule.paths:
            complex_rules.append(rule)
            continue
        key = (rule.groups[0], rule.resources[0])
        before = simple.get(key)
        simple[key] = rule if before is None else before._replace(verbs=before.verbs + rule.verbs)
    return [*complex_rules, *simple.values()]


class EscalationCheck(Step):
    """Refuses (403) roles and bindings that grant more than their writer holds; the last of the mutating steps."""

    kinds = frozenset(
        f"{plural}.{_RBAC}" for plural in ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
    )

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def mutate(self, request: AdmissionRequest) -> None:
        """Check a new or changed role or binding before validation, as upstream."""
        if request.operation == "DELETE" or MASTERS in request.user.groups:
            return
        if request.old is not None and _only_for_garbage_collection(request.new, request.old):
            return
        if request.kind.plural in _ROLES:
            self._check_role(request)
        else:
            self._check_binding(request)

    def _check_role(self, request: AdmissionRequest) -> None:
        name = request.name if request.operation == "UPDATE" else ""
        if self._may(request, "escalate", request.kind.plural, name):
            return
        self._confirm(request, request.new.get("rules") or ())
        if request.new.get("aggregationRule") or (request.old or {}).get("aggregationRule"):
            # A user with all rights may escalate, and has already passed.
            raise self._refused(request, "must have cluster-admin privileges to use an aggregationRule")

    def _check_binding(self, request: AdmissionRequest) -> None:
        reference = request.new.get("roleRef") or {}
        plural, name = _PLURAL_OF.get(reference.get("kind", "")), reference.get("name", "")
        if plural is None:
            return  # validation refuses it
        if self._may(request, "bind", plural, name):
            return
        kind = request.registry.kind(f"{_RBAC}/v1", reference["kind"])
        role = request.registry.find(kind, request.namespace, name)
        if role is None:
            raise errors.not_found(plural, _RBAC, name)
        self._confirm(request, role.get("rules") or ())

    def _may(self, request: AdmissionRequest, verb: str, plural: str, name: str) -> bool:
        attributes = Attributes(verb, _RBAC, plural, "", request.namespace, name)
        return self._authorizer.decide(request.user, attributes).allowed

    def _confirm(self, request: AdmissionRequest, wanted: Iterable[Json]) -> None:
        resources, paths = self._authorizer.rules_for(request.user, request.namespace)
        missing = missing_rights([*resources, *paths], wanted)
        if not missing:
            return
        lines = sorted({str(rule) for rule in missing})
        if len(lines) > _MOST_NAMED:
            lines[_MOST_NAMED:] = [f"and {len(lines) - _MOST_NAMED} more"]
        user = request.user
        raise self._refused(
            request,
            f"user {json.dumps(user.name, ensure_ascii=False)} (groups={errors.quoted(user.groups)}) is attempting to "
            "grant RBAC permissions not currently held:\n" + "\n".join(lines),
        )

    @staticmethod
    def _refused(request: AdmissionRequest, why: str) -> errors.StatusError:
        name = request.new["metadata"].get("name", "")
        return errors.forbidden(request.kind.plural, request.kind.group, name, why)


def _only_for_garbage_collection(new: Json, old: Json) -> bool:
    """Return whether a write changes only owner references and finalizers."""

    def rest(obj: Json) -> Json:
        loose = ("ownerReferences", "finalizers", "managedFields")
        metadata = {key: value for key, value in obj["metadata"].items() if key not in loose}
        return {**obj, "metadata": metadata}

    return rest(new) == rest(old)
