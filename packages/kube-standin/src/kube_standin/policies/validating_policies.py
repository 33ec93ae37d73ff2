"""Validating policies: deny a write, warn about it, or allow it (interfaces.md 6.11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kube_rules.admission.expressions import CostBudget
from kube_rules.admission.request_match import ApiResource
from kube_rules.admission.validating_policies import PolicyFailure, policy_failures
from kube_standin.admission_chain import AdmissionRequest, Step
from kube_standin.errors import Cause, StatusError
from kube_standin.evaluation import evaluated
from kube_standin.kinds import ServedKind
from kube_standin.policies.bound_policies import VALIDATING
from kube_standin.policies.invocations import Invocations, PolicyInvocation

_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413}
_OTHER_CODE = 422


class ValidatingPolicies(Step):
    """Evaluates validating policies; the first denial is the response."""

    def __init__(self, invocations: Invocations) -> None:
        self._invocations = invocations

    def waits(self, kind: ServedKind) -> bool:
        """Return whether writes of a kind may wait (see `Step`); expensive evaluations run beside the event loop."""
        return bool(self._invocations.policies.concerned(VALIDATING, kind))

    def validate(self, request: AdmissionRequest) -> None:
        """Evaluate the policies."""
        bound = self._invocations.concerned(VALIDATING, request)
        if not bound:
            return
        write = self._invocations.views.of(request)
        invocations = self._invocations.of(bound, write)
        if not invocations:
            return
        values = {
            matched: self._invocations.values(write, matched)
            for matched in dict.fromkeys(invocation.matched for invocation in invocations if not invocation.error)
        }

        def work(budget: CostBudget) -> list[list[PolicyFailure]]:
            return [_failures(call, values, budget) for call in invocations]

        key_values = [
            {policy.name: policy.spec for policy in bound},
            [{**inputs, "authorizer": None} for inputs in values.values()],
            [[call.policy.name, call.binding.name, call.matched, call.param, call.error] for call in invocations],
        ]
        denials: list[StatusError] = []
        for call, failures in zip(invocations, evaluated(request, VALIDATING, key_values, work), strict=True):
            for failure in failures:
                self._act(request, call, failure, denials)
        if denials:
            raise denials[0]

    @staticmethod
    def _act(
        request: AdmissionRequest, invocation: PolicyInvocation, failure: PolicyFailure, denials: list[StatusError]
    ) -> None:
        actions = invocation.binding.spec.get("validationActions") or ()
        policy, binding = invocation.policy.name, invocation.binding.name
        if failure.always or "Deny" in actions:
            text = f"ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {failure.message}"
            denials.append(_denial(request, text, failure.reason))
        if "Warn" in actions and not failure.always:
            request.warnings.append(
                f"Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': "
                f"{failure.message}"
            )


def _failures(
    invocation: PolicyInvocation, values: Mapping[ApiResource, dict[str, Any]], budget: CostBudget
) -> list[PolicyFailure]:
    if invocation.error:
        return [PolicyFailure(invocation.error, always=True)] if invocation.policy.strict else []
    return policy_failures(invocation.policy.spec, {**values[invocation.matched], "params": invocation.param}, budget)


def _denial(request: AdmissionRequest, text: str, reason: str) -> StatusError:
    refused = request.refused(text)
    cause = Cause("", text)
    return StatusError(_CODES.get(reason, _OTHER_CODE), reason, refused.message, refused.details, (cause,))
