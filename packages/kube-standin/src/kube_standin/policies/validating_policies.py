"""Validating policies: deny a write, warn of it, or let it pass (interfaces.md 6.11)."""

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
    """Evaluates validating policies; the first denial is the answer."""

    def __init__(self, invocations: Invocations) -> None:
        self._invocations = invocations

    def waits(self, kind: ServedKind) -> bool:
        """See `Step`; what costs much is evaluated beside the event loop."""
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
            for matched in dict.fromkeys(one.matched for one in invocations if not one.error)
        }

        def work(budget: CostBudget) -> list[list[PolicyFailure]]:
            return [_failures(one, values, budget) for one in invocations]

        given = [
            {policy.name: policy.spec for policy in bound},
            [{**seen, "authorizer": None} for seen in values.values()],
            [[one.policy.name, one.binding.name, one.matched, one.param, one.error] for one in invocations],
        ]
        denials: list[StatusError] = []
        for one, failures in zip(invocations, evaluated(request, VALIDATING, given, work), strict=True):
            for failure in failures:
                self._act(request, one, failure, denials)
        if denials:
            raise denials[0]

    @staticmethod
    def _act(
        request: AdmissionRequest, one: PolicyInvocation, failure: PolicyFailure, denials: list[StatusError]
    ) -> None:
        actions = one.binding.spec.get("validationActions") or ()
        policy, binding = one.policy.name, one.binding.name
        if failure.always or "Deny" in actions:
            text = f"ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {failure.message}"
            denials.append(_denial(request, text, failure.reason))
        if "Warn" in actions and not failure.always:
            request.warnings.append(
                f"Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': "
                f"{failure.message}"
            )


def _failures(
    one: PolicyInvocation, values: Mapping[ApiResource, dict[str, Any]], budget: CostBudget
) -> list[PolicyFailure]:
    if one.error:
        return [PolicyFailure(one.error, always=True)] if one.policy.strict else []
    return policy_failures(one.policy.spec, {**values[one.matched], "params": one.param}, budget)


def _denial(request: AdmissionRequest, text: str, reason: str) -> StatusError:
    refused = request.refused(text)
    cause = Cause("", text)
    return StatusError(_CODES.get(reason, _OTHER_CODE), reason, refused.message, refused.details, (cause,))
