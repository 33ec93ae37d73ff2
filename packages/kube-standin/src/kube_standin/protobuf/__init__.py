"""Decoding of objects that clients send as protobuf (`application/vnd.kubernetes.protobuf`).

The body is the magic `k8s\\0` and an envelope (runtime.Unknown) with apiVersion, kind and the object's message. Field
numbers are in `fields.txt`, types come from the packed definitions; the result is the JSON form that a client would
have sent: values that a protobuf encoder writes only because it must (empty texts, empty times, zeroes of fields where
zero means "not set") are left out.

`encoder` writes the same messages, for clients that accept nothing else.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from kube_rules.durations import micro_stamp
from kube_rules.json import Json
from kube_rules.schema import definitions, nodes
from kube_rules.schema.nodes import SchemaNode, SchemaType
from kube_standin.clock import stamp
from kube_standin.protobuf import wire
from kube_standin.protobuf.wire import EPOCH
from kube_standin.schema.strict_json import MAX_VALUES

__all__ = ["UnsupportedProtobuf", "decode"]

MAGIC = b"k8s\x00"
_MAX_DEPTH = 100
# Number fields (no pointers in Go) where a zero only means that the field is not set.
_ZERO_UNSET = frozenset(
    [
        "hostPort",
        "nodePort",
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
        "generation",
        "observedGeneration",
        "count",
        "deprecatedCount",
        "minReadySeconds",
        "healthCheckNodePort",
        "startTime",
        "defaultMode",
    ]
)
# Optional texts (pointers in Go) where "" differs from a missing value.
_EMPTY_KEPT = frozenset({"storageClassName", "volumeAttributesClassName", "holderIdentity", "apiGroup"})


class UnsupportedProtobuf(ValueError):  # noqa: N818 - the name is part of the interface
    """A body that is not protobuf, or of a kind with unknown field numbers; `str()` states which."""


class FieldBudget:
    """The number of fields that a body may still have. Raises WireError beyond it."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def take(self, count: int = 1) -> None:
        """Count fields as they are read."""
        self._left -= count
        if self._left < 0:
            raise wire.WireError(f"a message of more than {MAX_VALUES} fields")


class _FieldSlot(NamedTuple):
    """The target of a field number: a JSON field with its node, or a nested message (`inner`)."""

    name: str
    node: SchemaNode | None
    inner: dict[int, _FieldSlot] | None = None


@cache
def _numbers() -> dict[str, str]:
    """Return full definition name -> its line of field numbers."""
    text = resources.files(__package__).joinpath("fields.txt").read_text(encoding="utf-8")
    lines = (line.partition(": ") for line in text.splitlines() if line and not line.startswith("#"))
    known = {name: rest for name, _, rest in lines}
    return known | {name: known[older] for name, older in definitions.same_form().items() if older in known}


@cache
def _names_by_fields() -> dict[int, str]:
    """Return identity of a struct's table of fields -> its definition name (copies of a node share the table)."""
    return {id(nodes.named(name).fields): name for name in _numbers()}


_tables: dict[int, dict[int, _FieldSlot]] = {}


def slots_of(node: SchemaNode) -> dict[int, _FieldSlot]:
    """Return field number -> slot, for a struct.

    Raises:
        UnsupportedProtobuf: the numbers of this type are not known.
    """
    known = _tables.get(id(node.fields))
    if known is None:
        if not node.fields:
            return {}
        name = _names_by_fields().get(id(node.fields))
        if name is None:
            raise UnsupportedProtobuf(f"protobuf is not supported for {node.go}; send application/json")
        known, rest = _parsed(_numbers()[name], node)
        assert not rest
        _tables[id(node.fields)] = known
    return known


def _parsed(text: str, node: SchemaNode) -> tuple[dict[int, _FieldSlot], str]:
    """Return the slots of one line, up to its end or a closing bracket, and the rest."""
    table: dict[int, _FieldSlot] = {}
    while text:
        text = text.lstrip()
        if text.startswith(")"):
            return table, text[1:]
        head, _, tail = text.partition(" ")
        if "(" in head:
            number, _, _ = text.partition("(")
            inner, text = _parsed(text[len(number) + 1 :], node)
            table[int(number)] = _FieldSlot("", None, inner)
            continue
        closing = head.endswith(")")
        name, _, number = head.rstrip(")").partition("=")
        table[int(number)] = _FieldSlot(name, node.fields[name])
        text = tail
        if closing:
            return table, text
    return table, ""


def decode(body: bytes) -> Json:
    """Return the object in a protobuf body, in JSON form with apiVersion and kind.

    Raises:
        UnsupportedProtobuf: not protobuf, not the expected envelope, or a kind that is not known.
    """
    if not body.startswith(MAGIC):
        raise UnsupportedProtobuf("the body is not Kubernetes protobuf: it does not begin with k8s\\0")
    try:
        api_version, kind, raw = _envelope(body[len(MAGIC) :])
        if not api_version or not kind:
            raise UnsupportedProtobuf("the protobuf envelope names no apiVersion and kind")
        name = definitions.definition_names().get((api_version, kind))
        if name is None:
            raise UnsupportedProtobuf(f"protobuf is not supported for {api_version} {kind}; send application/json")
        obj = _struct(nodes.named(name), raw, 0, FieldBudget())
    except UnicodeDecodeError:
        raise UnsupportedProtobuf("the body is not Kubernetes protobuf: a text that is not UTF-8") from None
    except (wire.WireError, OverflowError) as error:
        raise UnsupportedProtobuf(f"the body is not Kubernetes protobuf: {error}") from None
    return {"apiVersion": api_version, "kind": kind, **obj}


def _envelope(data: bytes) -> tuple[str, str, bytes]:
    api_version = kind = ""
    raw = b""
    for number, wire_type, value in wire.fields(data):
        if wire_type != wire.BYTES or not isinstance(value, bytes):
            continue
        if number == 1:
            for inner, _, text in wire.fields(value):
                if isinstance(text, bytes) and inner == 1:
                    api_version = text.decode()
                elif isinstance(text, bytes) and inner == 2:
                    kind = text.decode()
        elif number == 2:
            raw = value
        elif number == 3 and value:
            raise UnsupportedProtobuf(f"content encoding {value.decode()!r} is not supported")
    return api_version, kind, raw


def _struct(node: SchemaNode, data: bytes, depth: int, left: FieldBudget) -> Json:
    if depth > _MAX_DEPTH:
        raise wire.WireError(f"nested deeper than {_MAX_DEPTH} levels")
    out: Json = {}
    _into(out, slots_of(node), node, data, depth, left)
    return out


def _into(
    out: Json, table: dict[int, _FieldSlot], node: SchemaNode, data: bytes, depth: int, left: FieldBudget
) -> None:
    """Decode a message into a JSON object."""
    for number, wire_type, value in wire.fields(data):
        left.take()
        slot = table.get(number)
        if slot is None:
            continue
        if slot.inner is not None:
            if isinstance(value, bytes):
                _into(out, slot.inner, node, value, depth + 1, left)
            continue
        below = slot.node
        assert below is not None
        if below.type is SchemaType.LIST:
            items = out.setdefault(slot.name, [])
            assert below.element is not None
            if wire_type == wire.BYTES and below.element.type in _NUMERIC and isinstance(value, bytes):
                numbers = _packed(value)
                left.take(len(numbers))
                items.extend(map(bool, numbers) if below.element.type is SchemaType.BOOLEAN else numbers)
            else:
                items.append(_value(below.element, wire_type, value, depth, left))
        elif below.type is SchemaType.MAP:
            key, inner = _entry(below, value, depth, left)
            out.setdefault(slot.name, {})[key] = inner
        else:
            decoded = _value(below, wire_type, value, depth, left)
            if _means_unset(slot.name, below, decoded) and slot.name not in node.required:
                out.pop(slot.name, None)
            else:
                out[slot.name] = decoded


_NUMERIC = (SchemaType.INTEGER, SchemaType.BOOLEAN)


def _means_unset(name: str, node: SchemaNode, value: Any) -> bool:
    if value is None:
        return True
    if value == "" and node.type is SchemaType.STRING:
        return name not in _EMPTY_KEPT
    return value == 0 and node.type is SchemaType.INTEGER and name in _ZERO_UNSET


def _packed(data: bytes) -> list[int]:
    out: list[int] = []
    at = 0
    while at < len(data):
        value, at = wire.varint(data, at)
        out.append(wire.signed(value))
    return out


def _entry(node: SchemaNode, value: int | bytes, depth: int, left: FieldBudget) -> tuple[str, Any]:
    """Return one entry of a map: key in field 1, value in field 2."""
    assert node.element is not None
    if not isinstance(value, bytes):
        raise wire.WireError("map entry that is no message")
    key = ""
    inner: Any = _blank(node.element)
    for number, wire_type, part in wire.fields(value):
        left.take()
        if number == 1 and isinstance(part, bytes):
            key = part.decode()
        elif number == 2 and node.element.type is SchemaType.LIST:
            # A list as a map value is a message of its own (ExtraValue).
            left.take(len(part) // 2 if isinstance(part, bytes) else 0)
            assert node.element.element is not None
            inner = [
                _value(node.element.element, w, v, depth + 1, left)
                for n, w, v in wire.fields(part if isinstance(part, bytes) else b"")
                if n == 1
            ]
        elif number == 2:
            inner = _value(node.element, wire_type, part, depth, left)
    return key, inner


def _blank(node: SchemaNode) -> Any:
    if node.type is SchemaType.STRUCT:
        return {}
    if node.type is SchemaType.LIST:
        return []
    return "0" if node.type is SchemaType.QUANTITY else ""


def _value(node: SchemaNode, wire_type: int, value: int | bytes, depth: int, left: FieldBudget) -> Any:
    if wire_type == wire.VARINT and isinstance(value, int):
        if node.type is SchemaType.BOOLEAN:
            return bool(value)
        if node.type is SchemaType.INTEGER:
            return wire.signed(value)
        raise wire.WireError(f"a number where {node.go} stands")
    if wire_type == wire.FIXED64 and isinstance(value, bytes) and node.type is SchemaType.NUMBER:
        (number,) = struct.unpack("<d", value)
        if not math.isfinite(number):
            raise wire.WireError(f"a number that JSON does not have where {node.go} stands")
        return int(number) if number.is_integer() else number
    if wire_type != wire.BYTES or not isinstance(value, bytes):
        raise wire.WireError(f"wire type {wire_type} where {node.go} stands")
    if node.type is SchemaType.STRUCT:
        return _struct(node, value, depth + 1, left)
    if node.go in _UNIONS:
        return _UNIONS[node.go](value, depth, left)
    read = _LEAVES.get(node.type)
    if read is None:
        raise wire.WireError(f"bytes where {node.go} stands")
    return read(value)


def _schema_of(data: bytes, depth: int, left: FieldBudget) -> Json:
    return _struct(nodes.named(_JSON_SCHEMA), data, depth + 1, left)


def _schema_or_list(data: bytes, depth: int, left: FieldBudget) -> Any:
    """Return a schema in field 1 or a list of them in field 2."""
    several: list[Json] = []
    for number, _, value in wire.fields(data):
        if number == 1 and isinstance(value, bytes):
            return _schema_of(value, depth, left)
        if number == 2 and isinstance(value, bytes):
            several.append(_schema_of(value, depth, left))
    return several or None


def _schema_or_bool(data: bytes, depth: int, left: FieldBudget) -> Any:
    """Return a schema in field 2, otherwise the boolean in field 1."""
    parts = _numbered(data)
    schema = parts.get(2)
    return _schema_of(schema, depth, left) if isinstance(schema, bytes) else bool(parts.get(1, 0))


def _schema_or_names(data: bytes, depth: int, left: FieldBudget) -> Any:
    """Return a schema in field 1 or names of fields in field 2."""
    names: list[str] = []
    for number, _, value in wire.fields(data):
        if number == 1 and isinstance(value, bytes):
            return _schema_of(value, depth, left)
        if number == 2 and isinstance(value, bytes):
            names.append(value.decode())
    left.take(len(names))
    return names


_JSON_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_UNIONS: dict[str, Callable[[bytes, int, FieldBudget], Any]] = {
    "v1.JSON": lambda data, _, __: _raw_json(data),
    "v1.JSONSchemaPropsOrArray": _schema_or_list,
    "v1.JSONSchemaPropsOrBool": _schema_or_bool,
    "v1.JSONSchemaPropsOrStringArray": _schema_or_names,
}
"""Types with a field that has one of several forms."""


def _numbered(data: bytes) -> dict[int, int | bytes]:
    return {number: value for number, _, value in wire.fields(data)}


def _moment(data: bytes) -> datetime | None:
    if not data:
        return None
    parts = _numbered(data)
    seconds, nanos = parts.get(1, 0), parts.get(2, 0)
    if not isinstance(seconds, int) or not isinstance(nanos, int):
        raise wire.WireError("a time that is none")
    try:
        return EPOCH + timedelta(seconds=wire.signed(seconds), microseconds=wire.signed(nanos) // 1000)
    except OverflowError:
        raise wire.WireError("a time outside the years 1 to 9999") from None


def _time(data: bytes) -> str | None:
    moment = _moment(data)
    return None if moment is None else stamp(moment)


def _micro_time(data: bytes) -> str | None:
    moment = _moment(data)
    return None if moment is None else micro_stamp(moment)


def _quantity(data: bytes) -> str:
    text = _numbered(data).get(1, b"")
    return (text.decode() if isinstance(text, bytes) else "") or "0"


def _int_or_string(data: bytes) -> int | str:
    parts = _numbered(data)
    if parts.get(1, 0) == 1:
        text = parts.get(3, b"")
        return text.decode() if isinstance(text, bytes) else ""
    number = parts.get(2, 0)
    return wire.signed(number) if isinstance(number, int) else 0


def _raw_json(data: bytes) -> Any:
    """Return the value of types that wrap JSON text (RawExtension, FieldsV1)."""
    text = _numbered(data).get(1, b"")
    if not text or not isinstance(text, bytes):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise wire.WireError("an extension that is no JSON") from None


_LEAVES: dict[SchemaType, Callable[[bytes], Any]] = {
    SchemaType.STRING: bytes.decode,
    SchemaType.BYTES: lambda data: base64.b64encode(data).decode(),
    SchemaType.TIME: _time,
    SchemaType.MICRO_TIME: _micro_time,
    SchemaType.QUANTITY: _quantity,
    SchemaType.INT_OR_STRING: _int_or_string,
    SchemaType.ANY_OBJECT: _raw_json,
}
