"""Admission policies: CEL expressions of the cluster that change or deny writes, evaluated in this process.

`bound_policies` stores the policies with their bindings, `invocations` finds those that apply to a write and their
parameters, `validating_policies` and `mutating_policies` evaluate them, `expression_types` checks their expressions
against the types of matched objects. Rules: interfaces.md 6.10 to 6.14.
"""

from __future__ import annotations

from collections.abc import Sequence

from kube_standin.admission_chain import Step
from kube_standin.admission_views import AdmissionViews
from kube_standin.authorization import Authorizer
from kube_standin.policies.bound_policies import BoundPolicies
from kube_standin.policies.invocations import Invocations
from kube_standin.policies.mutating_policies import MutatingPolicies
from kube_standin.policies.validating_policies import ValidatingPolicies
from kube_standin.registry import ObjectRegistry


def policy_steps(registry: ObjectRegistry, authorizer: Authorizer, views: AdmissionViews) -> Sequence[Step]:
    """Return the steps that store and evaluate the policies of a registry, in the order they run."""
    policies = BoundPolicies(registry, authorizer, views)
    invocations = Invocations(registry, policies, views)
    return policies, MutatingPolicies(invocations), ValidatingPolicies(invocations)


__all__ = ["policy_steps"]
