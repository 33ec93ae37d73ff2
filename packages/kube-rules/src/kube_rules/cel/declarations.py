"""Declarations from a schema: the forms of the values in an expression, and their maximum sizes.

From an OpenAPI schema to declarations as in k8s.io/apiserver/pkg/cel/common (SchemaDeclType): `maxItems`,
`maxProperties` and `maxLength` bound a size; without them the bound is a request of 3 MiB. Units of sizes: items,
entries, and bytes for strings (four for each character of `maxLength`).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kube_rules.cel.functions import duration_of, timestamp_of
from kube_rules.cel.values import INT

MAX_REQUEST = 3 * 1024 * 1024
"""Maximum size of a request in bytes (celconfig.MaxRequestSizeBytes)."""
_SMALLEST = {"string": 2, "bytes": 2, "timestamp": 20, "duration": 4, "bool": 4, "int": 1, "double": 1, "dyn": 1}
_FORMATS = {"byte": "bytes", "date": "timestamp", "date-time": "timestamp", "duration": "duration"}
_LONGEST = {"date": 12, "date-time": 32, "duration": 32}
_SCALARS = {"boolean": "bool", "number": "double", "integer": "int"}
_MAX_DEPTH = 100


@dataclass(frozen=True, slots=True)
class ValueForm:
    """The form of a value.

    ``kind``: list, map, object, string, bytes, timestamp, duration, bool, int, double, or dyn if unknown. ``largest``:
    maximum number of items, entries or bytes; ``smallest``: bytes of the shortest JSON of such a value. ``inner``: the
    form of items or of values; ``fields``: the forms of an object's fields by name.
    """

    kind: str
    largest: int = 1
    smallest: int = 1
    inner: ValueForm | None = None
    fields: Mapping[str, ValueForm] = field(default_factory=dict)


UNKNOWN = ValueForm("dyn", MAX_REQUEST - 2)
"""Any value that fits into a request."""
_STRING = ValueForm("string", MAX_REQUEST - 2, 2)
_META = ValueForm("object", 1, 2, None, {"name": _STRING, "generateName": _STRING})


def declared(schema: Mapping[str, Any], *, root: bool = False) -> ValueForm:
    """Return the declaration of a schema. `root`: the schema is of a resource; every rule sees its type and name."""
    return _declared(schema, root or bool(schema.get("x-kubernetes-embedded-resource")), 0)


def _declared(schema: Any, root: bool, depth: int) -> ValueForm:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return UNKNOWN
    limit = _bound(schema, "maxLength")
    if schema.get("x-kubernetes-int-or-string"):
        return UNKNOWN if limit is None else ValueForm("dyn", 4 * limit)
    kind = schema.get("type")
    if kind == "array":
        inner = _declared(schema.get("items"), _embedded(schema.get("items")), depth + 1)
        limit = _bound(schema, "maxItems")
        return ValueForm("list", (MAX_REQUEST - 2) // (inner.smallest + 1) if limit is None else limit, 2, inner)
    if kind == "object" or root:
        values = schema.get("additionalProperties")
        if isinstance(values, Mapping):
            inner = _declared(values, _embedded(values), depth + 1)
            limit = _bound(schema, "maxProperties")
            return ValueForm("map", (MAX_REQUEST - 2) // (inner.smallest + 6) if limit is None else limit, 2, inner)
        return _object(schema, root, depth)
    if kind == "string":
        return _text(schema, limit)
    if kind in _SCALARS:
        name = _SCALARS[str(kind)]
        return ValueForm(name, 1, _SMALLEST[name])
    return UNKNOWN


def _object(schema: Mapping[str, Any], root: bool, depth: int) -> ValueForm:
    required = schema.get("required")
    wanted = {name for name in required if isinstance(name, str)} if isinstance(required, list | tuple) else set()
    fields: dict[str, ValueForm] = {}
    smallest = 2
    properties = schema.get("properties")
    for name, property_schema in properties.items() if isinstance(properties, Mapping) else ():
        if not _has_known_type(property_schema):
            continue
        declaration = fields[name] = _declared(property_schema, _embedded(property_schema), depth + 1)
        if name in wanted and not (isinstance(property_schema, Mapping) and property_schema.get("default") is not None):
            smallest += len(name) + declaration.smallest + 4
    if root:
        fields |= {"apiVersion": _STRING, "kind": _STRING, "metadata": _META}
    return ValueForm("object", 1, smallest, None, fields)


def _text(schema: Mapping[str, Any], limit: int | None) -> ValueForm:
    format_ = schema.get("format")
    kind = _FORMATS.get(format_, "string") if isinstance(format_, str) else "string"
    if kind in ("timestamp", "duration"):
        return ValueForm(kind, _LONGEST[str(format_)], _SMALLEST[kind])
    if limit is not None:
        return ValueForm(kind, limit if kind == "bytes" else 4 * limit, 2)
    words = schema.get("enum")
    if kind == "string" and isinstance(words, list) and words:
        return ValueForm(kind, max((len(word.encode()) for word in words if isinstance(word, str)), default=0), 2)
    return ValueForm(kind, MAX_REQUEST - 2, 2)


def _has_known_type(schema: Any) -> bool:
    """Return whether values of a schema have a type; as upstream, properties without a type are not fields."""
    if not isinstance(schema, Mapping):
        return False
    if schema.get("x-kubernetes-int-or-string") or _embedded(schema):
        return True
    return schema.get("type") in ("object", "array", "string", *_SCALARS) and (
        schema.get("type") != "array" or _has_known_type(schema.get("items"))
    )


def converted(schema: Any, value: Any) -> Any:
    """Convert a JSON value by its schema (UnstructuredToVal).

    Strings become a timestamp, duration or bytes by their format, numbers of type number a double. Values without such
    parts are returned unchanged; a string that does not match its format stays a string.
    """
    if not isinstance(schema, Mapping):
        return value
    if isinstance(value, str):
        return _converted_text(schema.get("format"), value) if schema.get("type") == "string" else value
    if isinstance(value, dict):
        return _converted_map(schema, value)
    if isinstance(value, list):
        items = schema.get("items")
        if not isinstance(items, Mapping):
            return value
        result = [converted(items, item) for item in value]
        return result if any(new is not old for new, old in zip(result, value, strict=True)) else value
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and schema.get("type") == "number" and not schema.get("x-kubernetes-int-or-string"):
        return float(value) if abs(value) < INT else value
    if isinstance(value, float) and schema.get("type") == "integer" and value.is_integer() and abs(value) < INT:
        return int(value)
    return value


def _converted_map(schema: Mapping[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    properties, additional = schema.get("properties"), schema.get("additionalProperties")
    declared_fields = properties if isinstance(properties, Mapping) else {}
    if not declared_fields and not isinstance(additional, Mapping):
        return value
    changed: dict[str, Any] = {}
    for key, inner in value.items():
        below = declared_fields.get(key, additional)
        if isinstance(below, Mapping) and (new_value := converted(below, inner)) is not inner:
            changed[key] = new_value
    return {**value, **changed} if changed else value


def _converted_text(form: Any, text: str) -> Any:
    kind = _FORMATS.get(form) if isinstance(form, str) else None
    if kind is None:
        return text
    try:
        if kind == "bytes":
            return base64.b64decode(text.encode("ascii"), validate=True)
        if kind == "duration":
            return duration_of(text)
        return timestamp_of(f"{text}T00:00:00Z" if form == "date" else text)
    except (ValueError, OverflowError):
        return text


def _embedded(schema: Any) -> bool:
    return isinstance(schema, Mapping) and bool(schema.get("x-kubernetes-embedded-resource"))


def _bound(schema: Mapping[str, Any], word: str) -> int | None:
    bound = schema.get(word)
    return max(bound, 0) if isinstance(bound, int) and not isinstance(bound, bool) else None
