"""Duplicate items in lists that a structural schema declares as sets or maps.

Source: k8s.io/apiextensions-apiserver, schema/listtype (ValidateListSetsAndMaps).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from kube_rules import field_errors
from kube_rules.errors import FieldError
from kube_rules.json import Json
from kube_rules.step_budget import StepBudget


def duplicates(schema: Json, obj: Any, budget: StepBudget, most: int) -> list[FieldError]:
    """Return an error for each duplicate item, at most `most`. Raises like `StepBudget.spend`."""
    errors: list[FieldError] = []
    _gather(schema, obj, "", errors, budget, most)
    return errors


def _gather(schema: Json, value: Any, path: str, errors: list[FieldError], budget: StepBudget, most: int) -> None:
    if isinstance(value, dict):
        properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
        dot = f"{path}." if path else ""
        for key, inner in value.items():
            below = properties.get(key, additional)
            if isinstance(below, dict) and isinstance(inner, dict | list):
                budget.spend(1)
                _gather(below, inner, dot + key, errors, budget, most)
    elif isinstance(value, list):
        items = schema.get("items", {})
        for index, inner in enumerate(value):
            if isinstance(inner, dict | list):
                budget.spend(1)
                _gather(items, inner, f"{path}[{index}]", errors, budget, most)
        _gather_own(schema, items, value, path, errors, budget, most)


def _gather_own(
    schema: Json, items: Json, value: list[Any], path: str, errors: list[FieldError], budget: StepBudget, most: int
) -> None:
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys", ())
    defaults = items.get("properties", {})
    seen: set[Hashable] = set()
    for index, inner in enumerate(value):
        if list_type == "map" and isinstance(inner, dict):
            key: Any = {name: inner.get(name, defaults.get(name, {}).get("default")) for name in keys}
        elif list_type == "set" or schema.get("uniqueItems"):
            key = inner
        else:
            return
        budget.spend(1)
        identity = field_errors.frozen(key)
        if identity in seen:
            if len(errors) >= most:
                return
            errors.append(field_errors.duplicate(f"{path}[{index}]", key))
        seen.add(identity)
