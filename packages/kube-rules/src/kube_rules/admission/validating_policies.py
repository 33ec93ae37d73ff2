"""The verdict of a validating policy on a request: conditions, validations and audit annotations.

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
from kube_rules.cel.schema_rules import MESSAGE_LIMIT
from kube_rules.json import Json

POLICY_LIMIT = 10_000_000
"""Cost of the validations of one binding with one parameter (celconfig.RuntimeCELCostBudget)."""


@dataclass(frozen=True, slots=True)
class PolicyFailure:
    """A reason to deny a request. `always`: independent of the actions of the binding."""

    message: str
    reason: str = "Invalid"
    always: bool = False


def policy_failures(spec: Json, values: Mapping[str, Any], around: CostBudget) -> list[PolicyFailure]:
    """Return the failures of a policy for a request, in the order of its validations.

    `values` are the variables of `expressions.NAMES` except `variables`; `around` bounds all policies of the request.
    """
    strict = spec.get("failurePolicy") != "Ignore"
    variables = spec.get("variables") or ()
    try:
        conditions = spec.get("matchConditions") or ()
        condition_values = {**values, "namespaceObject": None}
        policy = spec.get("failurePolicy", "Fail")
        if conditions and not conditions_hold(conditions, condition_values, policy, variables=variables, around=around):
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
    for violation in violated:
        if isinstance(violation, str):
            failures.extend([PolicyFailure(violation)] if strict else ())
            continue
        try:
            failures.append(PolicyFailure(_message(violation, messages), violation.get("reason") or "Invalid"))
        except OverBudgetError as error:
            failures.extend([PolicyFailure(f"failed messageExpression: {error}")] if strict else ())
    return failures


def _message(validation: Json, activation: Activation) -> str:
    value: Any = ""
    if validation.get("messageExpression"):
        try:
            value = activation.value(validation["messageExpression"])
        except EvaluationError:
            value = ""
    text = value.strip() if isinstance(value, str) else ""
    if "\n" in text or len(text.encode("utf-8", "replace")) > MESSAGE_LIMIT:
        text = ""
    plain = str(validation.get("message") or "").strip()
    return text or plain or f"failed expression: {str(validation.get('expression', '')).strip()}"


def _annotation_failures(text: str, activation: Activation, strict: bool) -> list[PolicyFailure]:
    """Return the failure of an audit annotation; there is no audit log for its value."""
    try:
        value = activation.value(text.strip())
    except EvaluationError as error:
        return [PolicyFailure(str(error), always=True)] if strict else []
    if value is None or isinstance(value, str):
        return []
    fault = f"valueExpression '{text}' resulted in unsupported return type. Return type must be either string or null."
    return [PolicyFailure(fault, always=True)]
