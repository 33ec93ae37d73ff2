"""Required fields that a client left out: they are stored with the zero value of their type.

kube-apiserver decodes into structs and writes fields without ``omitempty`` back whether they were given or
not, so what it answers has every required field. Rules then see one form of "nothing": the zero value. Fields
that are structs, times or quantities stay out: there "left out" and "empty" differ. Invariant: only
absent fields are added; no present value changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kube_rules.schema.nodes import SchemaNode, SchemaType

Complete = Callable[[Any], None]
_ZEROS: dict[SchemaType, Callable[[], Any]] = {
    SchemaType.STRING: str,
    SchemaType.INTEGER: int,
    SchemaType.BOOLEAN: bool,
    SchemaType.LIST: list,
    SchemaType.MAP: dict,
}


def completer(node: SchemaNode, cache: dict[SchemaNode, Complete | None]) -> Complete | None:
    """Return the function that completes a value of ``node`` in place, None if nothing in it can be missing.

    ``cache`` holds the functions so far and resolves recursive types.
    """
    if node in cache:
        return cache[node]
    if node.type is SchemaType.STRUCT:
        return _struct(node, cache)
    if node.element is None:
        return None
    inner = completer(node.element, cache)
    if inner is None:
        return None
    if node.type is SchemaType.LIST:

        def check_items(value: Any) -> None:
            for item in value:
                inner(item)
    else:

        def check_items(value: Any) -> None:
            for item in value.values():
                inner(item)

    return check_items


def _struct(node: SchemaNode, cache: dict[SchemaNode, Complete | None]) -> Complete | None:
    below: dict[str, Complete] = {}
    missing = tuple(
        (name, _ZEROS[node.fields[name].type])
        for name in sorted(node.required)
        if name in node.fields and node.fields[name].type in _ZEROS
    )
    required = frozenset(name for name, _ in missing)

    def complete(value: Any) -> None:
        if type(value) is not dict:
            return
        for key, inner in value.items():
            step = below.get(key)
            if step is not None and inner is not None:
                step(inner)
        if not required <= value.keys():
            for name, zero in missing:
                if name not in value:
                    value[name] = zero()

    cache[node] = complete
    for name, field in node.fields.items():
        step = completer(field, cache)
        if step is not None:
            below[name] = step
    if not below and not missing:
        cache[node] = None
    return cache[node]
