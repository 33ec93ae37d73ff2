"""What the expression of a mutation gives: a configuration or a JSON patch, as JSON.

Semantics and texts: k8s.io/apiserver, admission/plugin/policy/mutating/patch and cel/mutation; interfaces.md 6.13.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from kube_rules import cel
from kube_rules.admission.expressions import Activation, CostBudget
from kube_rules.admission.validating_policies import POLICY_LIMIT
from kube_rules.json import Json

_OPERATION = ("op", "path", "from")


class PolicyTypeError(ValueError):
    """A value of a type that does not belong where it stands; `str()` is the reason."""


def made_patch(spec: Json, mutation: Json, values: Mapping[str, Any], around: CostBudget) -> Any:
    """Return the patch that a mutation makes: a list of operations for JSONPatch, else an object to be merged.

    Raises EvaluationError, OverBudgetError, PolicyTypeError.
    """
    activation = Activation(values, spec.get("variables") or (), CostBudget(POLICY_LIMIT, around))
    if mutation.get("patchType") == "JSONPatch":
        found = activation.value((mutation.get("jsonPatch") or {}).get("expression", ""))
        return [_operation(item) for item in found]
    found = activation.value((mutation.get("applyConfiguration") or {}).get("expression", ""))
    if not isinstance(found, cel.Message):
        raise PolicyTypeError(f"unsupported return type from ApplyConfiguration expression: {cel.type_name(found)}")
    _check_names(found)
    return _plain(found)


def _operation(item: Any) -> Json:
    if not isinstance(item, cel.Message) or item.type_name != "JSONPatch":
        raise PolicyTypeError("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch")
    operation: Json = {"op": "", "path": ""}
    for name in _OPERATION:
        if name in item:
            if not isinstance(item[name], str):
                raise PolicyTypeError(f"unexpected type {cel.type_name(item[name])} for JSONPatchType '{name}' field")
            operation[name] = item[name]
    if "value" in item:
        _check_names(item["value"])
        operation["value"] = _plain(item["value"])
    return operation


def _check_names(value: Any) -> None:
    """Hold the types of messages to the places at which they stand."""
    if not isinstance(value, cel.Message):
        return
    wrong = list(_misnamed(value, value.type_name))
    if wrong:
        raise PolicyTypeError("type mismatch: " + "\n".join(wrong))


def _misnamed(value: Any, place: str) -> Iterator[str]:
    if isinstance(value, cel.Message):
        if value.type_name != place:
            yield (
                f'unexpected type name "{value.type_name}", expected "{place}", which matches field name path from '
                "root Object type"
            )
        for name, inner in value.items():
            yield from _misnamed(inner, f"{place}.{name}")
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _misnamed(inner, place)


def _plain(value: Any) -> Any:
    """Return a value of an expression as JSON."""
    if isinstance(value, dict):
        if any(not isinstance(key, str) for key in value):
            raise PolicyTypeError("a key of a map is no string")
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, bool | float | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.9f}".rstrip("0").rstrip(".") + "s"
    raise PolicyTypeError(f"a value of type {cel.type_name(value)} is none of JSON")
