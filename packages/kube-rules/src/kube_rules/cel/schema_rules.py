"""CEL rules of custom resources (`x-kubernetes-validations`): cost limits at creation, a budget at evaluation.

When a definition is created, every rule is compiled and its cost estimated (k8s.io/apiextensions-apiserver, schema/cel
and apis/apiextensions/validation): one rule may cost at most `RULE_LIMIT`, all of a definition together `SCHEMA_LIMIT`,
for the largest objects that the schema allows; `maxItems`, `maxProperties` and `maxLength` bound them. When an object
is written, one evaluation may cost `CALL_LIMIT` and all of them together `OBJECT_LIMIT`; beyond that no further rule
runs and the object is refused. Texts are upstream's.

Rules must also match the types of the schema: an undeclared name, field or function, a call without a matching overload
and a rule that does not return a bool are reported when the definition is created (`cel.checked_type`). Values with a
format are timestamps, durations and bytes.

A rule that names `oldSelf` is a transition rule: it runs only if there is an old value; with `optionalOldSelf` it
always runs and `oldSelf` is an optional.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

from kube_rules import cel, field_errors
from kube_rules.errors import FieldError
from kube_rules.json import Json
from kube_rules.schema.correlation import TYPE_META, CorrelatedValue
from kube_rules.step_budget import StepBudget

RULE_LIMIT = 10_000_000
"""Estimated cost of one rule, for the maximum number of objects in a resource (StaticEstimatedCostLimit)."""
SCHEMA_LIMIT = 100_000_000
"""Estimated cost of all rules of a schema (StaticEstimatedCRDCostLimit)."""
CALL_LIMIT = 1_000_000
"""Cost of one evaluation (celconfig.PerCallLimit)."""
OBJECT_LIMIT = 10_000_000
"""Cost of all rules over one object (celconfig.RuntimeCELCostBudget)."""
MESSAGE_LIMIT = 5 * 1024
"""Maximum size of an evaluated message in bytes (celconfig.MaxEvaluatedMessageExpressionSizeBytes)."""
TEXT_LIMIT = 160 * 1024
"""Maximum length of all rules of a schema together, in characters; it bounds the time for parsing."""
_DEAREST = 4
_MOST = 2**64 - 1
_NAMES = ("self", "oldSelf")
_REASONS = {
    "": "FieldValueInvalid",
    "FieldValueInvalid": "FieldValueInvalid",
    "FieldValueForbidden": "FieldValueForbidden",
    "FieldValueRequired": "FieldValueRequired",
    "FieldValueDuplicate": "FieldValueDuplicate",
}
_FRAMES = {
    "FieldValueInvalid": "Invalid value: {}",
    "FieldValueForbidden": "Forbidden: {}",
    "FieldValueRequired": "Required value: {}",
    "FieldValueDuplicate": "Duplicate value: {}",
}
_LONGEST_KEPT = 10_000
OVER_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"
_CALL_OVER = "no further validation rules will be run due to call cost exceeds limit"
_ROOM = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)


class RuleError(ValueError):
    """A rule that does not compile or fails when run; `str()` is the reason, in one line."""


class _Rule:
    """A compiled expression, and whether it refers to the old value."""

    __slots__ = ("node", "program", "transition")

    def __init__(self, text: str) -> None:
        try:
            self.node = cel.parse(text)
            self.program = cel.compiled(self.node, _NAMES)
        except cel.CelSyntaxError as error:
            raise RuleError(f"compilation failed: {error}") from None
        self.transition = "oldSelf" in cel.identifiers(self.node)


def _compiled(text: str) -> _Rule:
    """Return a compiled rule. Raises RuleError."""
    return _kept(text) if len(text) <= _LONGEST_KEPT else _Rule(text)


@lru_cache(maxsize=512)
def _kept(text: str) -> _Rule:
    return _Rule(text)


# -- when a definition is made ----------------------------------------------------------------------------------------


def problems(schema: Json, path: str) -> list[FieldError]:
    """Return the problems of the rules of a schema for the creation of a definition; `path` is its path."""
    result: list[FieldError] = []
    total, dear, read = 0, list[tuple[int, str]](), 0
    for place, inner, root, times, atomic in _schemas(schema, path):
        rules = inner.get("x-kubernetes-validations", ())
        form = cel.declared(inner, root=root) if rules else cel.UNKNOWN
        variables = dict.fromkeys(_NAMES, form)
        # A list without a limit has as many items as fit into a request (MaxCardinality).
        count = cel.declarations.MAX_REQUEST // (form.smallest + 1) if times is None else times
        for index, rule in enumerate(rules):
            at = f"{place}.x-kubernetes-validations[{index}]"
            if not str(rule.get("rule", "")).strip():
                result.append(field_errors.required(f"{at}.rule", "rule is not specified"))
            for word in ("rule", "messageExpression"):
                text = rule.get(word, "")
                if not text.strip():
                    continue
                read += len(text)
                if read > TEXT_LIMIT:
                    message = f"validation rules of a schema may have at most {TEXT_LIMIT} characters together"
                    return [*result, field_errors.forbidden(f"{at}.{word}", message)]
                try:
                    node = _compiled(text).node
                    scope = variables
                    if rule.get("optionalOldSelf"):
                        scope = {**variables, "oldSelf": cel.ValueForm("optional", form.largest, 1, form)}
                    _check(node, scope, "bool" if word == "rule" else "string")
                    cost = cel.estimated_cost(node, scope)
                except RuleError as error:
                    result.append(field_errors.invalid(f"{at}.{word}", text, str(error)))
                    continue
                if word == "rule":
                    result.extend(_transition_problems(rule, at, atomic))
                cost = min(cost * (count if word == "rule" else 1), _MOST)
                if cost > RULE_LIMIT:
                    name = "estimated rule cost" if word == "rule" else "estimated messageExpression cost"
                    result.append(field_errors.forbidden(f"{at}.{word}", _exceeded(name, cost, RULE_LIMIT)))
                total = min(total + cost, _MOST)
                if cost >= SCHEMA_LIMIT // 100:
                    dear = sorted([*dear, (-cost, f"{at}.{word}")])[:_DEAREST]
    if total > SCHEMA_LIMIT:
        message = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        result.extend(field_errors.forbidden(at, message) for _, at in dear)
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        result.append(field_errors.forbidden(path, _exceeded(name, total, SCHEMA_LIMIT)))
    return result


def _transition_problems(rule: Json, at: str, atomic: str) -> Iterator[FieldError]:
    """Yield the problems of a rule with its use of `oldSelf`; `atomic`: see `_Place`."""
    if _compiled(rule["rule"]).transition:
        if atomic:
            message = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {atomic}"
            yield field_errors.invalid(f"{at}.rule", rule["rule"], message)
    elif rule.get("optionalOldSelf") is not None:
        message = "may not be set if oldSelf is not used in rule"
        yield field_errors.invalid(f"{at}.optionalOldSelf", rule["optionalOldSelf"], message)


def _check(node: cel.Node, variables: dict[str, cel.ValueForm], wanted: str) -> None:
    """Check an expression against the types of its variables and of its result. Raises RuleError."""
    try:
        type_ = cel.checked_type(node, variables)
    except cel.CelSyntaxError as error:
        raise RuleError(f"compilation failed: {error}") from None
    if type_.name not in (wanted, "dyn"):
        where = "" if wanted == "bool" else "messageExpression "
        raise RuleError(f"cel expression {where}must evaluate to a {wanted}")


def _exceeded(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:.6f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{name} exceeds budget by factor of {shown} {_ROOM}"


class _Place(NamedTuple):
    """A nested schema: its path, the schema, whether it is a resource's, and the maximum number of occurrences."""

    path: str
    schema: Json
    root: bool
    times: int | None
    """None: unlimited."""
    atomic: str
    """The path of the outermost enclosing list that is not of type map (its items cannot be correlated), or ""."""


def _schemas(schema: Json, path: str) -> Iterator[_Place]:
    """Yield a schema and every schema inside it."""
    pending = [_Place(path, schema, True, 1, "")]
    while pending:
        place, node, root, times, atomic = pending.pop()
        yield _Place(place, node, root or bool(node.get("x-kubernetes-embedded-resource")), times, atomic)
        below: list[_Place] = []
        for name, inner in node.get("properties", {}).items():
            if isinstance(inner, dict):
                below.append(_Place(f"{place}.properties[{name}]", inner, False, times, atomic))
        for word, limit in (("items", "maxItems"), ("additionalProperties", "maxProperties")):
            if isinstance(node.get(word), dict):
                most = node.get(limit)
                inside = None if times is None or not isinstance(most, int) else min(times * max(most, 0), _MOST)
                list_of_others = word == "items" and node.get("x-kubernetes-list-type") != "map"
                around = atomic or (place if list_of_others else "")
                below.append(_Place(f"{place}.{word}", node[word], False, inside, around))
        pending.extend(reversed(below))


# -- when an object is written ----------------------------------------------------------------------------------------


def evaluate(
    schema: Json, obj: Any, old: Any, budget: StepBudget | None = None, tolerated: list[FieldError] | None = None
) -> list[FieldError]:
    """Return the errors of all rules for `obj`; transition rules compare it with `old`.

    A violated rule that is not a transition rule goes to `tolerated` if its value, or else the nearest enclosing value
    with a correlated old value, is unchanged. A rule that fails to run is not tolerated.
    """
    return _Evaluation(budget or StepBudget(), [] if tolerated is None else tolerated).of(schema, obj, old)


class _Nearest:
    """The value that decides whether a violation is tolerated: the rule's own, or else the nearest enclosing one."""

    __slots__ = ("_own", "value")

    def __init__(self, value: CorrelatedValue, *, own: bool = True) -> None:
        self.value = value
        self._own = own

    def key(self, name: str, *, root: bool) -> _Nearest | None:
        if root and name in TYPE_META:
            return None
        return self._below(self.value.key(name)) if self._own else self

    def index(self, index: int) -> _Nearest:
        return self._below(self.value.index(index)) if self._own else self

    def _below(self, inner: CorrelatedValue | None) -> _Nearest:
        return _Nearest(self.value, own=False) if inner is None else _Nearest(inner)


class _OverError(Exception):
    """The budget is exhausted; no further rule runs."""


class _Evaluation:
    """The rules for one object, and their remaining budget."""

    def __init__(self, budget: StepBudget, tolerated: list[FieldError]) -> None:
        self._budget = budget
        self._left = OBJECT_LIMIT
        self._errors: list[FieldError] = []
        self._tolerated = tolerated

    def of(self, schema: Json, obj: Any, old: Any) -> list[FieldError]:
        converted, before = cel.converted(schema, obj), cel.converted(schema, old)
        nearest = None if old is None else _Nearest(CorrelatedValue(schema, obj, old, self._budget))
        with suppress(_OverError):
            self._walk(schema, converted, before, before is not None, "", nearest)
        return self._errors

    def _walk(self, schema: Json, value: Any, old: Any, has_old: bool, path: str, nearest: _Nearest | None) -> None:
        if value is None:
            return
        self._budget.spend(1)
        for rule in schema.get("x-kubernetes-validations", ()):
            violated = self._apply(rule, value, old, has_old, path)
            if violated is not None:
                transition = _compiled(rule["rule"]).transition
                tolerated = not transition and nearest is not None and nearest.value.unchanged()
                (self._tolerated if tolerated else self._errors).append(violated)
        if isinstance(value, dict):
            before = old if isinstance(old, dict) else {}
            properties = schema.get("properties", {})
            additional = schema.get("additionalProperties")
            for key, inner in value.items():
                below = properties.get(key, additional)
                if isinstance(below, dict):
                    within = nearest and nearest.key(key, root=not path)
                    place = f"{path}[{key}]" if key not in properties else f"{path}.{key}" if path else key
                    self._walk(below, inner, before.get(key), key in before, place, within)
        elif isinstance(value, list) and isinstance(schema.get("items"), dict):
            keys = schema.get("x-kubernetes-list-map-keys", ())
            earlier = _by_keys(old, keys) if keys else {}
            for index, inner in enumerate(value):
                was = earlier.get(_identity(inner, keys)) if earlier else None
                within = nearest and nearest.index(index)
                self._walk(schema["items"], inner, was, was is not None, f"{path}[{index}]", within)

    def _apply(self, rule: Json, value: Any, old: Any, has_old: bool, path: str) -> FieldError | None:
        """Run a rule and return the error if the value violates it; a rule that fails is reported at once."""
        text = rule.get("rule", "")
        field = path + rule.get("fieldPath", "") if path else rule.get("fieldPath", "").lstrip(".") or "<nil>"
        reason = _REASONS.get(rule.get("reason", ""), "FieldValueInvalid")
        shown = (rule.get("message") or text).strip()
        try:
            compiled = _compiled(text)
            if rule.get("optionalOldSelf"):
                old, has_old = (cel.Optional(old) if has_old else cel.NONE), True
            elif compiled.transition and not has_old:
                return None
            if self._run(compiled, value, old, has_old, path) is True:
                return None
            message = rule.get("message") or f"failed rule: {text}"
            if rule.get("messageExpression"):
                message = self._message(rule["messageExpression"], value, old, has_old, path) or message
        except RuleError as error:
            message = _FRAMES[reason].format(f"rule evaluation error: {text}: {error}")
            self._errors.append(FieldError(field, message, reason))
            return None
        except cel.CostExceededError as error:
            self._end(path, f"'{error}': {_CALL_OVER} for rule: {shown}")
        return FieldError(field, _FRAMES[reason].format(message), reason)

    def _end(self, path: str, message: str) -> None:
        self._errors.append(FieldError(path or "<nil>", f"Invalid value: {message}"))
        raise _OverError

    def _run(self, rule: _Rule, value: Any, old: Any, has_old: bool, path: str) -> Any:
        if self._left <= 0:
            self._end(path, OVER_BUDGET)
        meter = cel.Meter(CALL_LIMIT)
        values = {"self": value, "oldSelf": old} if has_old else {"self": value}
        try:
            return rule.program.evaluate(values, meter)
        except cel.CelError as error:
            raise RuleError(str(error)) from None
        finally:
            spent = CALL_LIMIT - max(meter.left, 0)
            self._left -= spent
            self._budget.spend_cel(spent)
            if self._left < 0:
                self._end(path, OVER_BUDGET)

    def _message(self, expression: str, value: Any, old: Any, has_old: bool, path: str) -> str:
        try:
            message = self._run(_compiled(expression), value, old, has_old, path)
        except RuleError:
            return ""
        except cel.CostExceededError:
            shown = field_errors.shown(expression)
            self._end(path, f"{_CALL_OVER} for messageExpression: {shown}")
        message = message.strip() if isinstance(message, str) else ""
        return "" if len(message.encode("utf-8", "replace")) > MESSAGE_LIMIT or "\n" in message else message


def _by_keys(items: Any, keys: Sequence[str]) -> dict[Any, Any]:
    """Return the items of a list by their keys; the first of equal items counts."""
    result: dict[Any, Any] = {}
    for item in items if isinstance(items, list) else ():
        result.setdefault(_identity(item, keys), item)
    return result


def _identity(item: Any, keys: Sequence[str]) -> Any:
    return (
        field_errors.frozen([item.get(key) for key in keys])
        if isinstance(item, dict)
        else ("", field_errors.frozen(item))
    )
