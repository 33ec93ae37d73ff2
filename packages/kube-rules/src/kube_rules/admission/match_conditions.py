"""matchConditions of webhooks and policies: CEL expressions that must all hold for a request to be sent on.

Rules: k8s.io/apiserver, webhook/matchconditions and apis/admissionregistration/validation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from kube_rules import cel
from kube_rules.json import Json

CALL_LIMIT = 1_000_000
"""Cost of one evaluation (celconfig.PerCallLimit)."""
CONDITIONS_LIMIT = 2_500_000
"""Cost of all conditions of one webhook (RuntimeCELCostBudgetMatchConditions)."""
REQUEST_NAMES = ("object", "oldObject", "request", "authorizer")


class ExpressionError(ValueError):
    """An expression that does not compile; `str()` is the reason in one line."""


class ConditionError(ValueError):
    """Conditions that could not be evaluated; `str()` joins the reasons."""


@lru_cache(maxsize=512)
def _program(text: str, names: tuple[str, ...]) -> cel.Program:
    return cel.compiled(cel.parse(text), names)


def expression_program(text: str, names: tuple[str, ...] = REQUEST_NAMES) -> cel.Program:
    """Return the program of an expression; raises ExpressionError."""
    try:
        return _program(text, names)
    except cel.CelSyntaxError as error:
        raise ExpressionError(f"compilation failed: {error}") from None


def check_expression(text: str, wanted: Sequence[str], names: Iterable[str] = REQUEST_NAMES) -> None:
    """Check that an expression compiles and gives one of the wanted types; raises ExpressionError."""
    try:
        found = cel.checked_type(cel.parse(text), dict.fromkeys(names, cel.UNKNOWN))
    except cel.CelSyntaxError as error:
        raise ExpressionError(f"compilation failed: {error}") from None
    if found.name not in (*wanted, "dyn"):
        shown = wanted[0] if len(wanted) == 1 else f"one of [{' '.join(wanted)}]"
        raise ExpressionError(f"must evaluate to {shown}")


def conditions_hold(conditions: Iterable[Json], values: Mapping[str, Any], failure_policy: str) -> bool:
    """Whether all conditions hold. One that is false decides, whatever the others fail with.

    Raises ConditionError where an evaluation fails and `failure_policy` is Fail.
    """
    left = CONDITIONS_LIMIT
    failed: list[str] = []
    for condition in conditions:
        meter = cel.Meter(min(CALL_LIMIT, max(left, 0)))
        began = meter.left
        try:
            if expression_program(str(condition.get("expression", "")).strip()).evaluate(dict(values), meter) is False:
                return False
        except (cel.CelError, ExpressionError) as error:
            failed.append(f"expression '{condition.get('expression', '')}' resulted in error: {error}")
        except cel.CostExceededError:
            failed.append(
                "validation failed due to running out of cost budget, no further validation rules will be run"
            )
            break
        finally:
            left -= began - max(meter.left, 0)
    if failed and failure_policy != "Ignore":
        raise ConditionError(failed[0] if len(failed) == 1 else "[" + ", ".join(failed) + "]")
    return not failed
