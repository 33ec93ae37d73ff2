"""The policies that are stored, with their bindings, in the order of their names.

Kept as they stand in the store: a step of the chain sees every write of them. A user that writes one with parameters
has to be allowed to read them, as expressions would show what is in them (kubernetes,
registry/admissionregistration, authz.go).
"""

from __future__ import annotations

from dataclasses import dataclass

from kube_rules.admission.request_match import EXEMPT_GROUP, concerns
from kube_rules.json import Json
from kube_standin import errors
from kube_standin.admission_chain import AdmissionRequest, Step
from kube_standin.admission_views import AdmissionViews, api_resource
from kube_standin.authorization import Attributes, Authorizer
from kube_standin.errors import Cause
from kube_standin.kinds import ServedKind
from kube_standin.registry import ObjectRegistry

API = f"{EXEMPT_GROUP}/v1"
VALIDATING, MUTATING = "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"


@dataclass(frozen=True)
class PolicyBinding:
    """One binding of a policy."""

    name: str
    spec: Json


@dataclass(frozen=True)
class BoundPolicy:
    """A policy and its bindings."""

    name: str
    spec: Json
    bindings: tuple[PolicyBinding, ...]

    @property
    def strict(self) -> bool:
        """Return whether a request is denied where the policy cannot be evaluated."""
        return self.spec.get("failurePolicy") != "Ignore"


class BoundPolicies(Step):
    """The policies of a registry."""

    kinds = frozenset(
        f"{kind}.{EXEMPT_GROUP}"
        for name in (VALIDATING, MUTATING)
        for kind in (f"{name.lower()[:-1]}ies", f"{name.lower()}bindings")
    )

    def __init__(self, registry: ObjectRegistry, authorizer: Authorizer, views: AdmissionViews) -> None:
        self._registry = registry
        self._authorizer = authorizer
        self._views = views
        self._policies: dict[str, tuple[BoundPolicy, ...]] = {}
        self._concerned: dict[tuple[str, int, str, str], tuple[BoundPolicy, ...]] = {}
        registry.store.undone.append(self.load)
        self.load()

    def load(self) -> None:
        """Read policies and bindings anew."""
        self._concerned.clear()
        for name in (VALIDATING, MUTATING):
            bindings: dict[str, list[PolicyBinding]] = {}
            for binding, spec in self._specs(f"{name}Binding"):
                bindings.setdefault(spec.get("policyName", ""), []).append(PolicyBinding(binding, spec))
            self._policies[name] = tuple(
                BoundPolicy(policy, spec, tuple(bindings[policy]))
                for policy, spec in self._specs(name)
                if policy in bindings
            )

    def _specs(self, kind: str) -> list[tuple[str, Json]]:
        row = self._registry.kinds.of(API, kind)
        if row is None:
            return []
        states = sorted(self._registry.store.heads(row.storage_key), key=lambda state: state.name)
        return [(state.name, state.decode().get("spec") or {}) for state in states]

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse (422) parameters that the writer may not read."""
        spec = {} if request.operation == "DELETE" or request.subresource else request.new.get("spec") or {}
        old = (request.old or {}).get("spec") or {}
        kind = spec.get("paramKind")
        if kind and kind != old.get("paramKind"):
            attributes = self._reading(kind, "*", "*")
            detail = (
                f'user {request.user.name} must have "get" permission on all objects of the referenced paramKind '
                f"(kind={kind.get('kind', '')}, apiVersion={kind.get('apiVersion', '')})"
            )
            self._check(request, attributes, "spec.paramKind", detail)
        ref = spec.get("paramRef")
        if ref and (ref, spec.get("policyName")) != (old.get("paramRef"), old.get("policyName")):
            policy = self._registry.find(
                self._registry.kind(API, request.kind.kind.removesuffix("Binding")), "", spec.get("policyName", "")
            )
            kind = ((policy or {}).get("spec") or {}).get("paramKind")
            attributes = self._reading(kind or {}, ref.get("namespace") or "*", ref.get("name") or "*")
            detail = (
                f'user {request.user.name} must have "get" permission on the objects of the referenced paramRef '
                f"(name={ref.get('name') or '*'}, namespace={ref.get('namespace') or '*'})"
            )
            self._check(request, attributes, "spec.paramRef", detail)

    def _reading(self, kind: Json, namespace: str, name: str) -> Attributes:
        row = self._registry.kinds.of(kind.get("apiVersion", ""), kind.get("kind", ""))
        if row is not None:
            return Attributes("get", row.group, row.plural, "", namespace if row.namespaced else "", name)
        group = kind.get("apiVersion", "*").rpartition("/")[0] if kind else "*"
        return Attributes("get", group, "*", "", namespace, name)

    def _check(self, request: AdmissionRequest, attributes: Attributes, place: str, detail: str) -> None:
        if not self._authorizer.decide(request.user, attributes).allowed:
            cause = Cause("FieldValueForbidden", f"Forbidden: {detail}", place)
            raise errors.invalid(request.kind.kind, request.kind.group, request.name, [cause])

    def committed(self, request: AdmissionRequest) -> None:
        """Follow a write of a policy or a binding."""
        if request.subresource != "status":
            self.load()

    def concerned(self, name: str, kind: ServedKind) -> tuple[BoundPolicy, ...]:
        """Return the policies of a kind that have a rule for a resource."""
        if not self._policies.get(name) or kind.group == EXEMPT_GROUP:
            return ()
        key = name, self._registry.kinds.generation, kind.storage_key, kind.api_version
        found = self._concerned.get(key)
        if found is None:
            resources = [api_resource(row) for row in self._views.versions(kind)]
            found = self._concerned[key] = tuple(
                policy
                for policy in self._policies[name]
                if concerns((policy.spec.get("matchConstraints") or {}).get("resourceRules") or (), resources)
            )
        return found
