"""The stored policies with their bindings, in the order of their names.

They follow the store: a step of the chain processes every write of them. A user that writes one with parameters must be
allowed to read these, as expressions could reveal their content (kubernetes, registry/admissionregistration, authz.go).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kube_rules.admission.request_match import EXEMPT_API, EXEMPT_GROUP
from kube_rules.json import Json
from kube_standin import errors
from kube_standin.admission_chain import AdmissionRequest, Step
from kube_standin.admission_views import AdmissionViews, ConcernedByResource
from kube_standin.authorization import Authorizer
from kube_standin.errors import Cause
from kube_standin.kinds import ServedKind
from kube_standin.registry import ObjectRegistry
from kube_standin.rights import Attributes

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
        """Return whether a request is denied if the policy cannot be evaluated."""
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
        self._specs: dict[str, dict[str, Json]] = {}
        self._bound: dict[str, tuple[BoundPolicy, ...]] = {}
        self._concerned: ConcernedByResource[BoundPolicy] = ConcernedByResource(registry, views)
        registry.store.undone.append(self.load)
        self.load()

    def load(self) -> None:
        """Read policies and bindings again."""
        for name in (VALIDATING, MUTATING):
            for kind in (name, f"{name}Binding"):
                row = self._registry.kinds.readable(EXEMPT_API, kind)
                states = () if row is None else self._registry.store.heads(row.storage_key)
                self._specs[kind] = {state.name: state.decode().get("spec") or {} for state in states}
        self._forget()

    def _forget(self) -> None:
        """Drop what was derived from the specs and from the kinds."""
        self._bound.clear()
        self._concerned.clear()

    def _bound_policies(self, name: str) -> tuple[BoundPolicy, ...]:
        """Return the policies of a kind that have bindings, in the order of their names."""
        result = self._bound.get(name)
        if result is None:
            bindings: dict[str, list[PolicyBinding]] = {}
            for binding, spec in sorted(self._specs[f"{name}Binding"].items()):
                bindings.setdefault(spec.get("policyName", ""), []).append(PolicyBinding(binding, spec))
            policies = sorted(self._specs[name].items())
            result = self._bound[name] = tuple(
                BoundPolicy(policy, spec, tuple(bindings[policy])) for policy, spec in policies if policy in bindings
            )
        return result

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
                self._registry.kind(EXEMPT_API, request.kind.kind.removesuffix("Binding")),
                "",
                spec.get("policyName", ""),
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
        """Update the policies after a write of a policy or a binding."""
        if request.subresource == "status":
            return
        specs, state = self._specs[request.kind.kind], self._registry.head(request.kind, "", request.name)
        specs.pop(request.name, None)
        if state is not None:
            specs[request.name] = state.decode().get("spec") or {}
        self._forget()

    def concerned(self, name: str, kind: ServedKind) -> tuple[BoundPolicy, ...]:
        """Return the policies of a kind with a rule for a resource."""
        return self._concerned.of(name, kind, self._bound_policies(name), _rules)


def _rules(policy: BoundPolicy) -> Sequence[Json]:
    return (policy.spec.get("matchConstraints") or {}).get("resourceRules") or ()
