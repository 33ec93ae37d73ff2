"""Encoding of objects as protobuf, for clients that accept nothing else: the inverse of `decode`, by its tables."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from kube_rules.json import Json
from kube_rules.schema import definitions, nodes
from kube_rules.schema.nodes import SchemaNode, SchemaType
from kube_standin.protobuf import MAGIC, UnsupportedProtobuf, slots_of, wire
from kube_standin.protobuf.wire import EPOCH, encode_bytes, encode_number

_FIXED64 = 1


def encode(obj: Json) -> bytes:
    """Return an object with apiVersion and kind as a protobuf body, in its envelope.

    Fields without a published number are left out: no client could read them.

    Raises:
        UnsupportedProtobuf: the kind has no protobuf form that is known.
    """
    api_version, kind = obj.get("apiVersion", ""), obj.get("kind", "")
    name = definitions.definition_names().get((api_version, kind))
    if name is None:
        raise UnsupportedProtobuf(f"protobuf is not supported for {api_version} {kind}")
    raw = _struct(nodes.named(name), obj)
    return MAGIC + encode_bytes(1, encode_bytes(1, api_version) + encode_bytes(2, kind)) + encode_bytes(2, raw)


def watch_frame(event: Json) -> bytes:
    """Return an event of a watch as a frame: its length in four bytes, its type, and its object in an envelope.

    Raises:
        UnsupportedProtobuf: see `encode`.
    """
    message = encode_bytes(1, event["type"]) + encode_bytes(2, encode_bytes(1, encode(event["object"])))
    return len(message).to_bytes(4, "big") + message


Row = tuple[int, str, SchemaNode | None, "tuple[Row, ...]"]
"""A field: number, name, node; or a nested message: number, "", None, its fields."""


def _struct(node: SchemaNode, value: Json) -> bytes:
    return b"".join(_fields(_rows(node), value))


_rows_by_field: dict[int, tuple[Row, ...]] = {}


def _rows(node: SchemaNode) -> tuple[Row, ...]:
    rows = _rows_by_field.get(id(node.fields))
    if rows is None:
        rows = _rows_by_field[id(node.fields)] = _sorted(slots_of(node))
    return rows


def _sorted(slots: Any) -> tuple[Row, ...]:
    return tuple(
        (number, slot.name, slot.node, () if slot.inner is None else _sorted(slot.inner))
        for number, slot in sorted(slots.items())
    )


def _fields(rows: tuple[Row, ...], value: Json) -> Iterator[bytes]:
    for number, name, node, inner in rows:
        if node is None:
            nested = b"".join(_fields(inner, value))
            if nested:
                yield encode_bytes(number, nested)
            continue
        field_value = value.get(name)
        if field_value is not None:
            yield from _field(number, node, field_value)


def _field(number: int, node: SchemaNode, value: Any) -> Iterator[bytes]:
    if node.type is SchemaType.LIST:
        assert node.element is not None
        for item in value:
            yield from _field(number, node.element, item)
    elif node.type is SchemaType.MAP:
        assert node.element is not None
        for key, item in value.items():
            if node.element.type is SchemaType.LIST:  # a message of its own (ExtraValue)
                part = encode_bytes(2, b"".join(_field(1, node.element, item)))
            else:
                part = b"".join(_field(2, node.element, item))
            yield encode_bytes(number, encode_bytes(1, key) + part)
    elif node.type in (SchemaType.INTEGER, SchemaType.BOOLEAN):
        yield encode_number(number, int(value))
    elif node.type is SchemaType.NUMBER:
        yield wire.encode_varint(number << 3 | _FIXED64) + struct.pack("<d", value)
    elif node.type is SchemaType.STRUCT:
        yield encode_bytes(number, _struct(node, value))
    elif node.go in _UNIONS:
        yield encode_bytes(number, _UNIONS[node.go](value))
    else:
        yield encode_bytes(number, _LEAVES[node.type](value))


def _time(text: str) -> bytes:
    since = datetime.fromisoformat(text) - EPOCH
    seconds, rest = divmod(since, timedelta(seconds=1))
    return encode_number(1, seconds) + encode_number(2, rest // timedelta(microseconds=1) * 1000)


def _int_or_string(value: int | str) -> bytes:
    if isinstance(value, str):
        return encode_number(1, 1) + encode_bytes(3, value)
    return encode_number(1, 0) + encode_number(2, value)


# Go's encoder escapes these, and clients compare the bytes of revisions.
_ESCAPED = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def _raw_json(value: Any) -> bytes:
    return encode_bytes(1, json.dumps(value, separators=(",", ":"), ensure_ascii=False).translate(_ESCAPED))


_LEAVES: dict[SchemaType, Callable[[Any], bytes]] = {
    SchemaType.STRING: str.encode,
    SchemaType.BYTES: base64.b64decode,
    SchemaType.TIME: _time,
    SchemaType.MICRO_TIME: _time,
    SchemaType.QUANTITY: lambda value: encode_bytes(1, str(value)),
    SchemaType.INT_OR_STRING: _int_or_string,
    SchemaType.ANY_OBJECT: _raw_json,
    SchemaType.ANY: _raw_json,
}


@cache
def _schema() -> SchemaNode:
    return nodes.named("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")


def _schema_or_list(value: Any) -> bytes:
    if isinstance(value, list):
        return b"".join(encode_bytes(2, _struct(_schema(), schema)) for schema in value)
    return encode_bytes(1, _struct(_schema(), value))


def _schema_or_bool(value: Any) -> bytes:
    if isinstance(value, bool):
        return encode_number(1, int(value))
    return encode_number(1, 1) + encode_bytes(2, _struct(_schema(), value))


def _schema_or_names(value: Any) -> bytes:
    if isinstance(value, list):
        return b"".join(encode_bytes(2, name) for name in value)
    return encode_bytes(1, _struct(_schema(), value))


_UNIONS: dict[str, Callable[[Any], bytes]] = {
    "v1.JSON": _raw_json,
    "v1.JSONSchemaPropsOrArray": _schema_or_list,
    "v1.JSONSchemaPropsOrBool": _schema_or_bool,
    "v1.JSONSchemaPropsOrStringArray": _schema_or_names,
}
