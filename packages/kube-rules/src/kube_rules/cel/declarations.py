"""The declarations of a schema: the form of the values an expression meets, and how large they can be.

From an OpenAPI schema to declarations as k8s.io/apiserver/pkg/cel/common (SchemaDeclType) makes them: `maxItems`,
`maxProperties` and `maxLength` bound a size; where they are missing it is what fits into one request of 3 MiB. Units
of sizes: items, entries, and for strings bytes (four for each character of `maxLength`).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kube_rules.cel.functions import duration_of, timestamp_of

MAX_REQUEST = 3 * 1024 * 1024
"""Bytes of a request (celconfig.MaxRequestSizeBytes)."""
_SMALLEST = {"string": 2, "bytes": 2, "timestamp": 20, "duration": 4, "bool": 4, "int": 1, "double": 1, "dyn": 1}
_FORMATS = {"byte": "bytes", "date": "timestamp", "date-time": "timestamp", "duration": "duration"}
_LONGEST = {"date": 12, "date-time": 32, "duration": 32}
_SCALARS = {"boolean": "bool", "number": "double", "integer": "int"}
_MAX_DEPTH = 100
_INT = 2**63


@dataclass(frozen=True, slots=True)
class Declared:
    """A form of values.

    ``kind``: list, map, object, string, bytes, timestamp, duration, bool, int, double, or dyn where it is not known.
    ``largest``: most items, entries or bytes; ``smallest``: bytes of the shortest JSON of such a value. ``inner``:
    the form of items or of values; ``fields``: those of an object by name.
    """

    kind: str
    largest: int = 1
    smallest: int = 1
    inner: Declared | None = None
    fields: Mapping[str, Declared] = field(default_factory=dict)


UNKNOWN = Declared("dyn", MAX_REQUEST - 2)
"""Anything that fits into a request."""
_STRING = Declared("string", MAX_REQUEST - 2, 2)
_META = Declared("object", 1, 2, None, {"name": _STRING, "generateName": _STRING})


def declared(schema: Mapping[str, Any], *, root: bool = False) -> Declared:
    """Return the declaration of a schema. `root`: the schema is of a resource; every rule sees its type and name."""
    return _declared(schema, root or bool(schema.get("x-kubernetes-embedded-resource")), 0)


def _declared(schema: Any, root: bool, depth: int) -> Declared:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return UNKNOWN
    limit = _bound(schema, "maxLength")
    if schema.get("x-kubernetes-int-or-string"):
        return UNKNOWN if limit is None else Declared("dyn", 4 * limit)
    kind = schema.get("type")
    if kind == "array":
        inner = _declared(schema.get("items"), _embedded(schema.get("items")), depth + 1)
        limit = _bound(schema, "maxItems")
        return Declared("list", (MAX_REQUEST - 2) // (inner.smallest + 1) if limit is None else limit, 2, inner)
    if kind == "object" or root:
        values = schema.get("additionalProperties")
        if isinstance(values, Mapping):
            inner = _declared(values, _embedded(values), depth + 1)
            limit = _bound(schema, "maxProperties")
            return Declared("map", (MAX_REQUEST - 2) // (inner.smallest + 6) if limit is None else limit, 2, inner)
        return _object(schema, root, depth)
    if kind == "string":
        return _text(schema, limit)
    if kind in _SCALARS:
        name = _SCALARS[str(kind)]
        return Declared(name, 1, _SMALLEST[name])
    return UNKNOWN


def _object(schema: Mapping[str, Any], root: bool, depth: int) -> Declared:
    required = schema.get("required")
    wanted = {name for name in required if isinstance(name, str)} if isinstance(required, list | tuple) else set()
    fields: dict[str, Declared] = {}
    smallest = 2
    properties = schema.get("properties")
    for name, given in properties.items() if isinstance(properties, Mapping) else ():
        if not _known(given):
            continue
        made = fields[name] = _declared(given, _embedded(given), depth + 1)
        if name in wanted and not (isinstance(given, Mapping) and given.get("default") is not None):
            smallest += len(name) + made.smallest + 4
    if root:
        fields |= {"apiVersion": _STRING, "kind": _STRING, "metadata": _META}
    return Declared("object", 1, smallest, None, fields)


def _text(schema: Mapping[str, Any], limit: int | None) -> Declared:
    given = schema.get("format")
    kind = _FORMATS.get(given, "string") if isinstance(given, str) else "string"
    if kind in ("timestamp", "duration"):
        return Declared(kind, _LONGEST[str(given)], _SMALLEST[kind])
    if limit is not None:
        return Declared(kind, limit if kind == "bytes" else 4 * limit, 2)
    words = schema.get("enum")
    if kind == "string" and isinstance(words, list) and words:
        return Declared(kind, max((len(word.encode()) for word in words if isinstance(word, str)), default=0), 2)
    return Declared(kind, MAX_REQUEST - 2, 2)


def _known(schema: Any) -> bool:
    """Return whether values of a schema have a type; those without one are no fields, as upstream."""
    if not isinstance(schema, Mapping):
        return False
    if schema.get("x-kubernetes-int-or-string") or _embedded(schema):
        return True
    return schema.get("type") in ("object", "array", "string", *_SCALARS) and (
        schema.get("type") != "array" or _known(schema.get("items"))
    )


def converted(schema: Any, value: Any) -> Any:
    """Return a value of JSON as an expression meets it: a timestamp, duration or bytes by its format, a double where
    the type is number (UnstructuredToVal). What has nothing of the kind in it is given back as it is; a text that is
    not of its format stays one.
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
        made = [converted(items, item) for item in value]
        return made if any(one is not other for one, other in zip(made, value, strict=True)) else value
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and schema.get("type") == "number" and not schema.get("x-kubernetes-int-or-string"):
        return float(value) if abs(value) < _INT else value
    if isinstance(value, float) and schema.get("type") == "integer" and value.is_integer() and abs(value) < _INT:
        return int(value)
    return value


def _converted_map(schema: Mapping[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    properties, others = schema.get("properties"), schema.get("additionalProperties")
    known = properties if isinstance(properties, Mapping) else {}
    if not known and not isinstance(others, Mapping):
        return value
    changed: dict[str, Any] = {}
    for key, inner in value.items():
        below = known.get(key, others)
        if isinstance(below, Mapping) and (made := converted(below, inner)) is not inner:
            changed[key] = made
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
    found = schema.get(word)
    return max(found, 0) if isinstance(found, int) and not isinstance(found, bool) else None
