"""CEL rules of custom resources (`x-kubernetes-validations`), evaluated by the library `celpy`.

The library is loaded at the first rule; without it a definition that carries rules is refused (`problems`),
never accepted and ignored. A rule that names `oldSelf` is a transition rule: it runs only where there is an
old value (or always, with `optionalOldSelf`). Of Kubernetes' own functions the string and list ones of
`_extensions` exist; a rule that calls another one fails with an error that names it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from reprieve.controlplane.schema import field_errors
from reprieve.controlplane.schema.field_errors import FieldError

Json = dict[str, Any]
_OLD_SELF = re.compile(r"\boldSelf\b")
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
_LONGEST_RULE = 10_000


class RuleError(ValueError):
    """A rule that does not compile or fails when run; `str()` says why, in one line."""


def _extensions() -> dict[str, Any]:
    """Functions Kubernetes adds to CEL, as far as they are offered here."""
    from celpy import celtypes as t

    return {
        "lowerAscii": lambda s: t.StringType(s.lower()),
        "upperAscii": lambda s: t.StringType(s.upper()),
        "trim": lambda s: t.StringType(s.strip()),
        "replace": lambda s, old, new, n=-1: t.StringType(str(s).replace(old, new, int(n))),
        "split": lambda s, by, n=-1: t.ListType(t.StringType(p) for p in str(s).split(by, max(int(n) - 1, -1))),
        "join": lambda items, by="": t.StringType(str(by).join(items)),
        "indexOf": lambda s, x: t.IntType(s.find(x) if isinstance(s, str) else _position(s, x)),
        "substring": lambda s, a, b=None: t.StringType(str(s)[int(a) : None if b is None else int(b)]),
        "isSorted": lambda items: t.BoolType(sorted(items) == list(items)),
        "sum": lambda items: sum(items, start=t.IntType(0)),
        "min": lambda items: min(items),
        "max": lambda items: max(items),
    }


def _position(items: Any, wanted: Any) -> int:
    return next((index for index, item in enumerate(items) if item == wanted), -1)


@lru_cache(maxsize=1024)
def _program(rule: str) -> Any:
    """A compiled rule.

    Raises:
        RuleError: no library, or no CEL.
    """
    try:
        import celpy
        from celpy import celparser
    except ImportError:
        raise RuleError("CEL is not supported: the Python package cel-python is not installed") from None
    if len(rule) > _LONGEST_RULE:
        raise RuleError(f"rule longer than {_LONGEST_RULE} characters")
    limit = sys.getrecursionlimit()
    environment = celpy.Environment()
    sys.setrecursionlimit(limit)  # the library raises it for the whole process
    try:
        return environment.program(environment.compile(rule), functions=_extensions())
    except RecursionError:
        raise RuleError("compilation failed: nested too deeply") from None
    except celparser.CELParseError as error:
        first = (str(error).splitlines() or ["syntax error"])[0]
        raise RuleError(f"compilation failed: {first}") from None


def _run(rule: str, self_value: Any, old: Any, has_old: bool) -> Any:
    from celpy import adapter, evaluation

    program = _program(rule)
    bound = {"self": adapter.json_to_cel(self_value)}
    if has_old:
        bound["oldSelf"] = adapter.json_to_cel(old)
    try:
        return program.evaluate(bound)
    except evaluation.CELEvalError as error:
        reason = str(error.args[0]) if error.args else "evaluation failed"
        raise RuleError(reason.split(" (in activation")[0]) from None
    except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise RuleError(f"{type(error).__name__}: {error}") from None


def problems(schema: Json, path: str) -> list[FieldError]:
    """What is wrong with the rules of a schema, for the creation of a definition; `path` is where it
    stands.
    """
    found: list[FieldError] = []
    for place, inner in _schemas(schema, path):
        for index, rule in enumerate(inner.get("x-kubernetes-validations", ())):
            text = rule.get("rule", "")
            field = f"{place}.x-kubernetes-validations[{index}].rule"
            if not text.strip():
                found.append(field_errors.required(field, "rule is not specified"))
                continue
            try:
                _program(text)
            except RuleError as error:
                found.append(field_errors.invalid(field, text, str(error)))
    return found


def _schemas(schema: Json, path: str) -> Iterator[tuple[str, Json]]:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from _schemas(inner, f"{path}.properties[{name}]")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from _schemas(schema[word], f"{path}.{word}")


def evaluate(schema: Json, obj: Any, old: Any) -> list[FieldError]:
    """Findings of all rules of the schema against `obj` and, for transition rules, against what it was."""
    errors: list[FieldError] = []
    _evaluate(schema, obj, old, old is not None, "", errors)
    return errors


def _evaluate(schema: Json, value: Any, old: Any, has_old: bool, path: str, errors: list[FieldError]) -> None:
    if value is None:
        return
    for rule in schema.get("x-kubernetes-validations", ()):
        if _OLD_SELF.search(rule["rule"]) and not has_old:
            continue
        _apply(rule, value, old, has_old, path, errors)
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        properties = schema.get("properties", {})
        others = schema.get("additionalProperties")
        for key, inner in value.items():
            below = properties.get(key, others)
            if isinstance(below, dict):
                _evaluate(below, inner, before.get(key), key in before, f"{path}.{key}" if path else key, errors)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        keys = schema.get("x-kubernetes-list-map-keys", ())
        earlier = old if isinstance(old, list) and keys else []
        for index, inner in enumerate(value):
            match = [o for o in earlier if all(o.get(k) == inner.get(k) for k in keys)]
            was = match[0] if match else None
            _evaluate(schema["items"], inner, was, bool(match), f"{path}[{index}]", errors)


def _apply(rule: Json, value: Any, old: Any, has_old: bool, path: str, errors: list[FieldError]) -> None:
    reason = _REASONS.get(rule.get("reason", ""), "FieldValueInvalid")
    field = path + rule.get("fieldPath", "") if path else rule.get("fieldPath", "").lstrip(".") or "<nil>"
    try:
        if _run(rule["rule"], value, old, has_old):
            return
        said = rule.get("message") or f"failed rule: {rule['rule']}"
        if rule.get("messageExpression"):
            said = _message(rule["messageExpression"], value, old, has_old) or said
    except RuleError as error:
        said = f"rule evaluation error: {rule['rule']}: {error}"
    errors.append(FieldError(reason, field, _FRAMES[reason].format(said)))


def _message(expression: str, value: Any, old: Any, has_old: bool) -> str:
    try:
        said = _run(expression, value, old, has_old)
    except RuleError:
        return ""
    return str(said).strip() if isinstance(said, str) else ""
