"""What a validating policy says about a request: its conditions, validations and annotations of the audit log.

Semantics and texts: k8s.io/apiserver, admission/plugin/policy/validating (validator.go); interfaces.md 6.11.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kube_rules.admission.expressions import (
    Activation,
    CostBudget,
    EvaluationError,
    OverBudgetError,
    conditions_hold,
)
from kube_rules.json import Json

POLICY_LIMIT = 10_000_000
"""Cost of the validations of one binding with one parameter (celconfig.RuntimeCELCostBudget)."""
MESSAGE_LIMIT = 5 * 1024
"""Bytes of a message that an expression makes (celconfig.MaxEvaluatedMessageExpressionSizeBytes)."""


@dataclass(frozen=True, slots=True)
class PolicyFailure:
    """A reason to deny a request. `always`: whatever the actions of the binding are."""

    message: str
    reason: str = "Invalid"
    always: bool = False


def policy_failures(spec: Json, values: Mapping[str, Any], around: CostBudget) -> list[PolicyFailure]:
    """Return what the policy denies a request for, in the order of its validations.

    `values` are those of `expressions.NAMES` without `variables`; `around` bounds all policies of the request.
    """
    strict = spec.get("failurePolicy") != "Ignore"
    variables = spec.get("variables") or ()
    try:
        conditions = spec.get("matchConditions") or ()
        seen = {**values, "namespaceObject": None}
        policy = spec.get("failurePolicy", "Fail")
        if conditions and not conditions_hold(conditions, seen, policy, variables=variables, around=around):
            return []
        budget = CostBudget(POLICY_LIMIT, around)
        failures = _validation_failures(spec, values, strict, budget)
        audited = Activation(values, variables, CostBudget(POLICY_LIMIT, around))
        for annotation in spec.get("auditAnnotations") or ():
            failures.extend(_annotation_failures(str(annotation.get("valueExpression", "")), audited, strict))
    except (EvaluationError, OverBudgetError) as error:
        return [PolicyFailure(str(error))] if strict else []
    return failures


def _validation_failures(
    spec: Json, values: Mapping[str, Any], strict: bool, budget: CostBudget
) -> list[PolicyFailure]:
    variables = spec.get("variables") or ()
    activation = Activation(values, variables, budget)
    violated: list[Json | str] = []
    for validation in spec.get("validations") or ():
        try:
            if activation.value(validation.get("expression", "")) is not True:
                violated.append(validation)
        except EvaluationError as error:
            violated.append(str(error))
    messages = Activation({name: value for name, value in values.items() if name != "authorizer"}, variables, budget)
    failures: list[PolicyFailure] = []
    for found in violated:
        if isinstance(found, str):
            failures.extend([PolicyFailure(found)] if strict else ())
            continue
        try:
            failures.append(PolicyFailure(_message(found, messages), found.get("reason") or "Invalid"))
        except OverBudgetError as error:
            failures.extend([PolicyFailure(f"failed messageExpression: {error}")] if strict else ())
    return failures


def _message(validation: Json, activation: Activation) -> str:
    made: Any = ""
    if validation.get("messageExpression"):
        try:
            made = activation.value(validation["messageExpression"])
        except EvaluationError:
            made = ""
    text = made.strip() if isinstance(made, str) else ""
    if "\n" in text or len(text.encode("utf-8", "replace")) > MESSAGE_LIMIT:
        text = ""
    plain = str(validation.get("message") or "").strip()
    return text or plain or f"failed expression: {str(validation.get('expression', '')).strip()}"


def _annotation_failures(text: str, activation: Activation, strict: bool) -> list[PolicyFailure]:
    """There is no audit log, so that only the failure of an annotation shows."""
    try:
        found = activation.value(text.strip())
    except EvaluationError as error:
        return [PolicyFailure(str(error), always=True)] if strict else []
    if found is None or isinstance(found, str):
        return []
    said = f"valueExpression '{text}' resulted in unsupported return type. Return type must be either string or null."
    return [PolicyFailure(said, always=True)]
