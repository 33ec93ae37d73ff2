"""Unchanged values of a custom resource in an update (validation ratcheting).

An update tolerates values that violate the schema if they are unchanged: new rules do not block older objects. Fields
of objects and maps are compared with the field of the same name, items of a list of type map with the item with the
same keys. Items of other lists cannot be correlated; such a list is compared as a whole. A field that the schema does
not declare counts as changed.

Source: k8s.io/apiserver, cel/common (CorrelatedObject); k8s.io/apiextensions-apiserver, validation (ratcheting).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from kube_rules import field_errors
from kube_rules.json import Json
from kube_rules.step_budget import StepBudget

TYPE_META = ("apiVersion", "kind")
"""Fields of a resource that are never tolerated: both objects are read in the same version."""


class CorrelatedValue:
    """A value, its old value, and the schema of both. `budget` pays for comparisons."""

    __slots__ = ("_budget", "_by_keys", "_old", "_schema", "_unchanged", "_value")

    def __init__(self, schema: Json, value: Any, old: Any, budget: StepBudget) -> None:
        self._schema = schema
        self._value = value
        self._old = old
        self._budget = budget
        self._unchanged: bool | None = None
        self._by_keys: dict[Hashable, Any] | None = None

    def key(self, name: str) -> CorrelatedValue | None:
        """Return the field of an object or a map, or None without an old one."""
        value, old = self._value, self._old
        if not isinstance(value, dict) or not isinstance(old, dict) or name not in value or name not in old:
            return None
        schema = self._schema.get("properties", {}).get(name, self._schema.get("additionalProperties"))
        if not isinstance(schema, dict):
            return None
        return CorrelatedValue(schema, value[name], old[name], self._budget)

    def index(self, index: int) -> CorrelatedValue | None:
        """Return the item of a list of type map, or None without an old one with the same keys."""
        items = self._schema.get("items")
        if not self._is_map_list() or not isinstance(items, dict):
            return None
        if not isinstance(self._value, list) or not isinstance(self._old, list):
            return None
        identity = self._identity(self._value[index])
        before = self._earlier().get(identity) if identity is not None else None
        return None if before is None else CorrelatedValue(items, self._value[index], before, self._budget)

    def unchanged(self) -> bool:
        """Return whether the update leaves the value unchanged. Raises like `StepBudget.spend`."""
        if self._unchanged is None:
            self._unchanged = self._equal()
        return self._unchanged

    def _equal(self) -> bool:
        self._budget.spend(1)
        value, old = self._value, self._old
        if isinstance(value, dict) and isinstance(old, dict):
            return len(value) == len(old) and all(_is_unchanged(self.key(name)) for name in value)
        if isinstance(value, list) and isinstance(old, list):
            if len(value) != len(old):
                return False
            if self._is_map_list():
                return all(_is_unchanged(self.index(index)) for index in range(len(value)))
            self._budget.spend(len(value))
        return field_errors.frozen(value) == field_errors.frozen(old) and type(value) is type(old)

    def _is_map_list(self) -> bool:
        return self._schema.get("x-kubernetes-list-type") == "map"

    def _earlier(self) -> dict[Hashable, Any]:
        """Return the items of the old list by their keys; the first of equal items counts."""
        if self._by_keys is None:
            self._by_keys = {}
            self._budget.spend(len(self._old))
            for item in self._old:
                identity = self._identity(item)
                if identity is not None:
                    self._by_keys.setdefault(identity, item)
        return self._by_keys

    def _identity(self, item: Any) -> Hashable | None:
        """Return the keys of an item; None if one is missing or is not a scalar."""
        keys = self._schema.get("x-kubernetes-list-map-keys", ())
        if not keys or not isinstance(item, dict):
            return None
        values = [item.get(key) for key in keys]
        return field_errors.frozen(values) if all(isinstance(v, str | int | float) for v in values) else None


def _is_unchanged(value: CorrelatedValue | None) -> bool:
    return value is not None and value.unchanged()
