"""The policies to evaluate for a write: one invocation for each matching binding and each parameter.

Rules: k8s.io/apiserver, admission/plugin/policy/generic (policy_dispatcher.go); interfaces.md 6.10, 6.12.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from kube_rules.admission.request_match import ApiResource, NoNamespaceError, constrained_resource
from kube_rules.json import Json
from kube_rules.selectors import compile_selector
from kube_standin import errors
from kube_standin.admission_chain import AdmissionRequest
from kube_standin.admission_views import AdmissionViews, AdmittedWrite
from kube_standin.kinds import ServedKind
from kube_standin.policies.bound_policies import BoundPolicies, BoundPolicy, PolicyBinding
from kube_standin.registry import ObjectRegistry
from kube_standin.schema import Schema

MOST_PARAMS = 1000
MOST_PARAM_BYTES = 3 * 1024 * 1024
"""The largest number of a binding's parameters that are read for a write, and their largest total size."""
_BODIES = frozenset(("scale", "binding", "eviction"))
"""Subresources that are admitted by their body; the resulting change of the object is not admitted again."""
_OMITTED = frozenset(("managedFields", "ownerReferences", "selfLink"))
"""Metadata of a namespace that expressions do not see."""


class PolicyConfigurationError(ValueError):
    """Raised for a policy that cannot be evaluated; `str()` is upstream's message."""


@dataclass(frozen=True)
class PolicyInvocation:
    """One evaluation of a policy: for a binding and a parameter. `error`: why it cannot be evaluated."""

    policy: BoundPolicy
    binding: PolicyBinding
    matched: ApiResource
    param: Json | None = None
    error: str = ""

    @property
    def unique_name(self) -> str:
        """Return a name that is unique among the invocations of a write."""
        metadata = (self.param or {}).get("metadata") or {}
        return "/".join((self.policy.name, self.binding.name, metadata.get("namespace", ""), metadata.get("name", "")))


class Invocations:
    """Finds and evaluates the policies that apply to a write."""

    def __init__(self, registry: ObjectRegistry, policies: BoundPolicies, views: AdmissionViews) -> None:
        self._registry = registry
        self.policies = policies
        self.views = views

    def concerned(self, name: str, request: AdmissionRequest) -> tuple[BoundPolicy, ...]:
        """Return the policies of a kind that may apply to a write."""
        if request.admitted or (request.subresource in _BODIES and request.body_kind is None):
            return ()
        return self.policies.concerned(name, self.views.row(request))

    def of(self, bound: tuple[BoundPolicy, ...], write: AdmittedWrite) -> list[PolicyInvocation]:
        """Return the invocations for a write; raises StatusError."""
        try:
            return [invocation for policy in bound for invocation in self._of_policy(policy, write)]
        except NoNamespaceError:
            raise errors.not_found("namespaces", "", write.match.namespace) from None

    def _of_policy(self, policy: BoundPolicy, write: AdmittedWrite) -> Iterator[PolicyInvocation]:
        matched = constrained_resource(policy.spec.get("matchConstraints") or {}, write.match)
        if matched is None:
            return
        for binding in policy.bindings:
            match = binding.spec.get("matchResources")
            if match is not None and constrained_resource(match, write.match) is None:
                continue
            invocation = partial(PolicyInvocation, policy, binding, matched)
            try:
                yield from (invocation(param) for param in self._params(policy.spec, binding.spec, write))
            except PolicyConfigurationError as error:
                yield invocation(error=f"failed to configure binding: {error}")

    def _params(self, policy: Json, binding: Json, write: AdmittedWrite) -> list[Json | None]:
        kind, ref = policy.get("paramKind"), binding.get("paramRef")
        if kind is None or ref is None:
            return [None]
        row = self._registry.kinds.of(kind.get("apiVersion", ""), kind.get("kind", ""))
        if row is None:
            group, _, version = kind.get("apiVersion", "").rpartition("/")
            named = f"{group}/{version}, Kind={kind.get('kind', '')}"
            raise PolicyConfigurationError(f"failed to find resource referenced by paramKind: '{named}'")
        namespace = ref.get("namespace", "")
        if not row.namespaced and namespace:
            raise PolicyConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        if row.namespaced:
            namespace = namespace or write.match.namespace
            if not namespace:
                text = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                raise PolicyConfigurationError(text)
        if ref.get("name"):
            state = self._registry.head(row, namespace, ref["name"])
            states = [] if state is None else [state]
        else:
            selector = compile_selector(ref.get("selector") or {})
            heads = self._registry.store.heads(row.storage_key, *((namespace,) if row.namespaced else ()))
            states = [state for state in heads if selector.matches(state.labels)]
            if len(states) > MOST_PARAMS:
                raise PolicyConfigurationError(f"more than {MOST_PARAMS} params found for policy binding")
            if sum(len(state.raw) for state in states) > MOST_PARAM_BYTES:
                text = f"params found for policy binding are larger than {MOST_PARAM_BYTES} bytes"
                raise PolicyConfigurationError(text)
        if not states and ref.get("parameterNotFoundAction") == "Deny":
            text = "no params found for policy binding with `Deny` parameterNotFoundAction"
            raise PolicyConfigurationError(text)
        return [
            {"kind": row.kind, "apiVersion": row.api_version, **self._registry.view(row, state)} for state in states
        ]

    def schema(self, row: ServedKind) -> Schema:
        """Return the schema of a kind."""
        return self._registry.schema(row)

    def values(self, write: AdmittedWrite, matched: ApiResource) -> dict[str, Any]:
        """Return the variables of all invocations for a matched resource, except `params`."""
        return {**self.views.values(write, matched), "namespaceObject": self._namespace(write)}

    def _namespace(self, write: AdmittedWrite) -> Json | None:
        name = "" if write.match.of_namespace else write.match.namespace
        if not name:
            return None
        namespace = self._registry.find(self._registry.kind("v1", "Namespace"), "", name)
        if namespace is None:
            raise errors.not_found("namespaces", "", name)
        metadata = {key: value for key, value in namespace["metadata"].items() if key not in _OMITTED}
        return {"metadata": metadata, "spec": namespace.get("spec") or {}, "status": namespace.get("status") or {}}
