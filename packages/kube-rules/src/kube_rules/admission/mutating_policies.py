"""The value of a mutation's expression as JSON: a configuration or a JSON patch.

Semantics and texts: k8s.io/apiserver, admission/plugin/policy/mutating/patch and cel/mutation; interfaces.md 6.13.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from kube_rules import cel
from kube_rules.admission.expressions import Activation, CostBudget
from kube_rules.admission.validating_policies import POLICY_LIMIT
from kube_rules.cel.values import time_text
from kube_rules.json import Json
from kube_rules.yamltext import MAX_DEPTH

_OPERATION = ("op", "path", "from")


class PolicyTypeError(ValueError):
    """A value of the wrong type for its field; `str()` is the reason."""


def made_patch(spec: Json, mutation: Json, values: Mapping[str, Any], around: CostBudget) -> Any:
    """Return the patch of a mutation: a list of operations for JSONPatch, otherwise an object to merge.

    Raises EvaluationError, OverBudgetError, PolicyTypeError.
    """
    activation = Activation(values, spec.get("variables") or (), CostBudget(POLICY_LIMIT, around))
    patch = _Patch()
    if mutation.get("patchType") == "JSONPatch":
        value = activation.value((mutation.get("jsonPatch") or {}).get("expression", ""))
        return [_operation(item, patch) for item in value]
    value = activation.value((mutation.get("applyConfiguration") or {}).get("expression", ""))
    if not isinstance(value, cel.Message):
        raise PolicyTypeError(f"unsupported return type from ApplyConfiguration expression: {cel.type_name(value)}")
    return patch.whole(value)


def _operation(item: Any, patch: _Patch) -> Json:
    if not isinstance(item, cel.Message) or item.type_name != "JSONPatch":
        raise PolicyTypeError("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch")
    operation: Json = {"op": "", "path": ""}
    for name in _OPERATION:
        if name in item:
            if not isinstance(item[name], str):
                raise PolicyTypeError(f"unexpected type {cel.type_name(item[name])} for JSONPatchType '{name}' field")
            operation[name] = item[name]
    if "value" in item:
        operation["value"] = patch.whole(item["value"])
    return operation


class _Patch:
    """Converts expression values into the JSON of one patch, within bounds: a value may occur in itself many times."""

    def __init__(self) -> None:
        self._left = cel.MAX_REQUEST
        self._wrong: list[str] = []

    def whole(self, value: Any) -> Any:
        """Return a value as JSON. Raises PolicyTypeError, also where a message has the wrong type for its field."""
        plain = self._plain(value, value.type_name if isinstance(value, cel.Message) else "", MAX_DEPTH)
        if self._wrong:
            raise PolicyTypeError("type mismatch: " + "\n".join(self._wrong))
        return plain

    def _plain(self, value: Any, place: str, levels: int) -> Any:
        """Return a value as JSON; `place` is the required type of messages, "" for any type."""
        if not levels:
            raise PolicyTypeError(f"the patch is nested deeper than {MAX_DEPTH} levels")
        if isinstance(value, dict):
            return self._fields(value, place, levels)
        if isinstance(value, list):
            self._spend(1)
            return [self._plain(inner, place, levels - 1) for inner in value]
        plain = _scalar(value)
        self._spend(1 + (len(plain) if isinstance(plain, str) else 0))
        return plain

    def _fields(self, value: dict[Any, Any], place: str, levels: int) -> Json:
        message = isinstance(value, cel.Message)
        if isinstance(value, cel.Message) and place and value.type_name != place:
            self._wrong.append(
                f'unexpected type name "{value.type_name}", expected "{place}", which matches field name path from '
                "root Object type"
            )
        plain: Json = {}
        self._spend(1)
        for name, inner in value.items():
            if not isinstance(name, str):
                raise PolicyTypeError("a key of a map is no string")
            self._spend(len(name))
            plain[name] = self._plain(inner, f"{place}.{name}" if message and place else place, levels - 1)
        return plain

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise PolicyTypeError(f"the patch is larger than {cel.MAX_REQUEST} bytes")


def _scalar(value: Any) -> Any:
    """Return a scalar value of an expression (neither list nor map) as JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        raise PolicyTypeError(f"json: unsupported value: {value}")
    if value is None or isinstance(value, bool | float | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | timedelta):
        return time_text(value)
    raise PolicyTypeError(f"a value of type {cel.type_name(value)} is none of JSON")
