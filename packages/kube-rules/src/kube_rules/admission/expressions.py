"""CEL expressions of admission: their variables and types, and evaluation within a budget.

Match conditions of webhooks and policies, and the expressions of policies, can use `object`, `oldObject`, `request`,
`namespaceObject`, `authorizer`, `params` and `variables`. Semantics: k8s.io/apiserver, admission/plugin/cel and
webhook/matchconditions; interfaces.md 6.10.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from kube_rules import cel
from kube_rules.cel.schema_rules import CALL_LIMIT, OVER_BUDGET
from kube_rules.json import Json

CONDITIONS_LIMIT = 2_500_000
"""Cost of all conditions of one webhook or policy (RuntimeCELCostBudgetMatchConditions)."""
_CALL_OVER = "operation cancelled: actual cost limit exceeded"
NAMES = ("object", "oldObject", "request", "authorizer", "namespaceObject", "params", "variables")

_TEXT = cel.ValueForm("string", cel.UNKNOWN.largest, 2)
_TIME, _NUMBER = cel.ValueForm("timestamp"), cel.ValueForm("int")
_TEXTS = cel.ValueForm("list", cel.UNKNOWN.largest, inner=_TEXT)
_LABELS = cel.ValueForm("map", cel.UNKNOWN.largest, inner=_TEXT)


def _object(texts: str, **fields: cel.ValueForm) -> cel.ValueForm:
    return cel.ValueForm("object", fields={**dict.fromkeys(texts.split(), _TEXT), **fields})


_KIND, _RESOURCE = _object("group version kind"), _object("group version resource")
_USER = _object("username uid", groups=_TEXTS, extra=cel.ValueForm("map", cel.UNKNOWN.largest, inner=_TEXTS))
_REQUEST = _object(
    "subResource requestSubResource name namespace operation",
    kind=_KIND,
    resource=_RESOURCE,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    userInfo=_USER,
    dryRun=cel.ValueForm("bool"),
    options=cel.UNKNOWN,
)
_CONDITIONS = cel.ValueForm("list", inner=_object("status type message reason", lastTransitionTime=_TIME))
_NAMESPACE = _object(
    "",
    metadata=_object(
        "name generateName namespace UID resourceVersion",
        labels=_LABELS,
        annotations=_LABELS,
        finalizers=_TEXTS,
        creationTimestamp=_TIME,
        deletionTimestamp=_TIME,
        deletionGracePeriodSeconds=_NUMBER,
        generation=_NUMBER,
    ),
    spec=_object("", finalizers=_TEXTS),
    status=_object("phase", conditions=_CONDITIONS),
)


class ExpressionError(ValueError):
    """An expression that does not compile; `str()` is the reason in one line."""


class EvaluationError(ValueError):
    """An expression that failed; `str()` is the reason in upstream's words."""


class OverBudgetError(Exception):
    """The budget is exhausted and evaluation stops; `str()` is the reason in upstream's words."""

    def __init__(self) -> None:
        super().__init__(OVER_BUDGET)


def forms(
    *, params: bool = False, authorizer: bool = True, object_form: cel.ValueForm = cel.UNKNOWN
) -> dict[str, cel.ValueForm]:
    """Return the variables of an expression with their forms."""
    return {
        "object": object_form,
        "oldObject": object_form,
        "request": _REQUEST,
        "namespaceObject": _NAMESPACE,
        **({"authorizer": cel.AUTHORIZER} if authorizer else {}),
        **({"params": cel.UNKNOWN} if params else {}),
    }


def checked(
    text: str, variables: Mapping[str, cel.ValueForm], wanted: Sequence[str] = (), *, patches: bool = False
) -> cel.ValueForm:
    """Compile an expression of one of the wanted types and return the form of its value.

    An empty `wanted` allows every type. `patches`: see `cel.checked_type`. Raises ExpressionError.
    """
    try:
        type_ = cel.checked_type(cel.parse(text), variables, patches=patches)
    except cel.CelSyntaxError as error:
        raise ExpressionError(f"compilation failed: {error}") from None
    if wanted and str(type_) not in wanted:
        shown = wanted[0] if len(wanted) == 1 else f"one of [{' '.join(wanted)}]"
        raise ExpressionError(f"must evaluate to {shown} but got {type_}")
    return cel.form_of(type_)


@lru_cache(maxsize=2048)
def _program(text: str) -> cel.Program:
    return cel.compiled(cel.parse(text), NAMES)


class CostBudget:
    """The cost that evaluations may still have in total; `around` is an enclosing budget that pays as well."""

    def __init__(self, limit: int, around: CostBudget | None = None) -> None:
        self._limit = self._left = limit
        self._around = around
        self.exceeded = False

    @property
    def left(self) -> int:
        """Return the remaining cost."""
        return self._left if self._around is None else min(self._left, self._around.left)

    @property
    def spent(self) -> int:
        """Return the cost so far."""
        return self._limit - self._left

    def spend(self, cost: int) -> None:
        """Subtract a cost. Raises OverBudgetError."""
        self._left -= cost
        if self._around is not None:
            self._around.spend(cost)
        if self._left < 0:
            self.exceed()

    def exceed(self) -> None:
        """Mark every exhausted budget around this one as exceeded and raise OverBudgetError."""
        self.exceeded = True
        if self._around is not None and self._around.left <= self._left:
            self._around.exceed()
        raise OverBudgetError


class _Variables(dict[str, Any]):
    """The variables of a policy; each is computed on first use, and a failed variable fails on each use."""

    def __init__(self, texts: Mapping[str, str], compute: Callable[[str], Any]) -> None:
        super().__init__()
        self._texts = texts
        self._compute = compute
        self._failed: dict[str, str] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._texts

    def __missing__(self, name: str) -> Any:
        if name not in self._texts:
            raise KeyError(name)
        if name not in self._failed:
            try:
                self[name] = value = self._compute(self._texts[name])
                return value
            except cel.CelError as error:
                self._failed[name] = f'composited variable "{name}" fails to evaluate: {error}'
        raise cel.CelError(self._failed[name])


class Activation:
    """The values of the variables of expressions, and the budget of their evaluation."""

    def __init__(self, values: Mapping[str, Any], variables: Iterable[Json], budget: CostBudget) -> None:
        texts = {variable.get("name", ""): variable.get("expression", "") for variable in variables}
        self._values = {**values, "variables": _Variables(texts, self._compute)}
        self._budget = budget

    def value(self, text: str) -> Any:
        """Return the value of an expression. Raises EvaluationError, OverBudgetError."""
        try:
            return self._compute(text)
        except cel.CelSyntaxError as error:
            raise EvaluationError(f"compilation error: compilation failed: {error}") from None
        except cel.CelError as error:
            raise EvaluationError(f"expression '{text}' resulted in error: {error}") from None

    def _compute(self, text: str) -> Any:
        limit = min(CALL_LIMIT, max(self._budget.left, 0))
        meter = cel.Meter(limit)
        try:
            result = _program(text).evaluate(self._values, meter)
        except cel.CostExceededError:
            self._budget.spend(limit)
            if limit < CALL_LIMIT:
                self._budget.exceed()
            raise cel.CelError(_CALL_OVER) from None
        except cel.CelError:
            self._budget.spend(limit - meter.left)
            raise
        self._budget.spend(limit - meter.left)
        return result


def conditions_hold(
    conditions: Iterable[Json],
    values: Mapping[str, Any],
    failure_policy: str,
    *,
    variables: Iterable[Json] = (),
    around: CostBudget | None = None,
) -> bool:
    """Return whether all conditions hold. A false condition decides, even if others fail.

    Raises EvaluationError where an evaluation fails and `failure_policy` is Fail.
    """
    activation = Activation(values, variables, CostBudget(CONDITIONS_LIMIT, around))
    failed: list[str] = []
    for condition in conditions:
        try:
            if activation.value(str(condition.get("expression", "")).strip()) is False:
                return False
        except EvaluationError as error:
            failed.append(str(error))
        except OverBudgetError as error:
            failed.append(str(error))
            break
    if failed and failure_policy != "Ignore":
        raise EvaluationError(failed[0] if len(failed) == 1 else "[" + ", ".join(failed) + "]")
    return not failed
