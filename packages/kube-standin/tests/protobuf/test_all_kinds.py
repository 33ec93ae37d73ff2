"""Every built-in kind is read from protobuf with all of its fields, and custom resource definitions with their unions.

The messages are encoded here by the published field numbers, which are part of the interface (`generated.proto`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import pytest

from kube_rules.schema import definitions, nodes
from kube_rules.schema.nodes import SchemaNode, SchemaType
from kube_standin import protobuf
from kube_standin.kinds import BUILTIN, ServedKind
from kube_standin.protobuf import decode
from kube_standin.protobuf.encoder import encode
from kube_standin.protobuf.wire import encode_bytes as b
from kube_standin.protobuf.wire import encode_number as n
from tests.protobuf.test_decode import body, quantity, time

Json = dict[str, Any]
NOT_NUMBERED = {"runningInUserNamespace", "derivedAttributes", "compatibilityGroups"}
NOT_NUMBERED_IN_ONE = {("v2.HorizontalPodAutoscalerCondition", "observedGeneration")}
"""Fields of Kubernetes 1.37 that are newer than the published numbers that are known here."""
SCHEMA = "v1.JSONSchemaProps"
Sample = tuple[Any, Callable[[int], bytes]]
"""A value in JSON and what it is in a message, under a field number."""

LEAVES: dict[SchemaType, Sample] = {
    SchemaType.STRING: ("x", lambda number: b(number, "x")),
    SchemaType.INTEGER: (7, lambda number: n(number, 7)),
    SchemaType.BOOLEAN: (True, lambda number: n(number, 1)),
    SchemaType.NUMBER: (1.5, lambda number: bytes([*_tag(number, 1)]) + struct.pack("<d", 1.5)),
    SchemaType.BYTES: ("cmF3", lambda number: b(number, "raw")),
    SchemaType.TIME: ("2001-09-09T01:46:40Z", lambda number: b(number, time(1_000_000_000))),
    SchemaType.MICRO_TIME: ("2001-09-09T01:46:40.000000Z", lambda number: b(number, time(1_000_000_000))),
    SchemaType.QUANTITY: ("5", lambda number: b(number, quantity("5"))),
    SchemaType.INT_OR_STRING: ("5%", lambda number: b(number, n(1, 1) + b(3, "5%"))),
    SchemaType.ANY_OBJECT: ({"a": 1}, lambda number: b(number, b(1, json.dumps({"a": 1})))),
}
UNIONS: dict[str, Sample] = {
    "v1.JSON": ([1], lambda number: b(number, b(1, "[1]"))),
    "v1.JSONSchemaPropsOrArray": ({"type": "x"}, lambda number: b(number, b(1, b(5, "x")))),
    "v1.JSONSchemaPropsOrBool": ({"type": "x"}, lambda number: b(number, n(1, 1) + b(2, b(5, "x")))),
    "v1.JSONSchemaPropsOrStringArray": (["y"], lambda number: b(number, b(2, "y"))),
}


def _tag(number: int, wire_type: int) -> bytes:
    """A tag of a type that the encoder of the package does not write."""
    whole = number << 3 | wire_type
    out = bytearray()
    while whole > 127:
        out.append(whole & 127 | 128)
        whole >>= 7
    return bytes([*out, whole])


def sample(node: SchemaNode, above: tuple[str, ...]) -> Sample | None:
    """One value of a type with every field; None where a type is inside itself."""
    if node.go in UNIONS:
        return UNIONS[node.go]
    if node.type is SchemaType.STRUCT:
        return None if node.go in above else struct_sample(node, (*above, node.go))
    if node.type is SchemaType.LIST:
        assert node.element is not None
        one = sample(node.element, above)
        return None if one is None else ([one[0]], one[1])
    if node.type is SchemaType.MAP:
        assert node.element is not None
        return map_sample(node.element, above)
    return LEAVES[node.type]


def map_sample(element: SchemaNode, above: tuple[str, ...]) -> Sample | None:
    one = sample(element, above)
    if one is None:
        return None
    value, encoded = one
    if element.type is SchemaType.LIST:
        return {"k": value}, lambda number: b(number, b(1, "k") + b(2, encoded(1)))
    return {"k": value}, lambda number: b(number, b(1, "k") + encoded(2))


def struct_sample(node: SchemaNode, above: tuple[str, ...]) -> Sample:
    value: Json = {}
    parts: list[bytes] = []

    def fill(table: dict[int, Any], out: list[bytes]) -> None:
        for number, slot in table.items():
            if slot.inner is not None:
                inside: list[bytes] = []
                fill(slot.inner, inside)
                out.append(b(number, b"".join(inside)))
                continue
            one = sample(slot.node, above)
            if one is not None:
                value[slot.name] = one[0]
                out.append(one[1](number))

    fill(protobuf.slots_of(node), parts)
    others = node.fields.keys() - value.keys() - NOT_NUMBERED
    others = {name for name in others if (node.go, name) not in NOT_NUMBERED_IN_ONE}
    lacking = {name for name in others if sample(node.fields[name], above) is not None}
    assert lacking <= {"apiVersion", "kind"}, (node.go, lacking)
    raw = b"".join(parts)
    return value, lambda number: b(number, raw)


@pytest.mark.parametrize("kind", BUILTIN, ids=lambda kind: f"{kind.api_version} {kind.kind}")
def test_every_kind_is_read_with_all_its_fields(kind: ServedKind) -> None:
    node = nodes.named(definitions.definition_names()[kind.api_version, kind.kind])
    value, encoded = struct_sample(node, (node.go,))
    message = encoded(2)
    found = decode(body(kind.api_version, kind.kind, _content(message)))
    assert found == {**value, "apiVersion": kind.api_version, "kind": kind.kind}
    assert decode(encode(found)) == found


def _content(field: bytes) -> bytes:
    """What is in the only field of a message."""
    [(_, _, content)] = protobuf.wire.fields(field)
    assert isinstance(content, bytes)
    return content


def schema_of(raw: bytes) -> Json:
    """A schema as a definition has it."""
    version = b(1, "v1") + b(4, b(1, raw))
    found = decode(body("apiextensions.k8s.io/v1", "CustomResourceDefinition", b(2, b(7, version))))
    one: Json = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return one


def double(number: int, value: float) -> bytes:
    return _tag(number, 1) + struct.pack("<d", value)


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b(8, b(1, '{"a":1}')), {"default": {"a": 1}}),
        (b(8, b(1, "null")), {}),
        (b(20, b(1, '"a"')) + b(20, b(1, "1")), {"enum": ["a", 1]}),
        (double(9, 2.0), {"maximum": 2}),
        (double(11, -0.5), {"minimum": -0.5}),
        (n(13, 0), {"maxLength": 0}),
        (b(24, b(1, b(5, "string"))), {"items": {"type": "string"}}),
        (b(24, b(2, b(5, "string")) + b(2, b(5, "integer"))), {"items": [{"type": "string"}, {"type": "integer"}]}),
        (b(30, n(1, 1)), {"additionalProperties": True}),
        (b(30, n(1, 0)), {"additionalProperties": False}),
        (b(30, n(1, 1) + b(2, b(5, "string"))), {"additionalProperties": {"type": "string"}}),
        (b(3, "#/x"), {"$ref": "#/x"}),
        (n(38, 1) + n(40, 0), {"x-kubernetes-preserve-unknown-fields": True}),
        (b(41, "name") + b(42, "map"), {"x-kubernetes-list-map-keys": ["name"], "x-kubernetes-list-type": "map"}),
        (
            b(29, b(1, "a") + b(2, b(5, "object") + b(29, b(1, "b") + b(2, b(5, "string"))))),
            {"properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}}},
        ),
    ],
)
def test_schemas_of_definitions(raw: bytes, found: Json) -> None:
    """JSON, unions and doubles are messages of their own kind."""
    assert {
        key: value for key, value in schema_of(raw).items() if value is not False or key == "additionalProperties"
    } == (found)
    versions = [{"name": "v1", "schema": {"openAPIV3Schema": found}}]
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    again = decode(encode({**definition, "spec": {"versions": versions}}))
    assert again["spec"]["versions"] == versions


@pytest.mark.parametrize(
    ("seconds", "nanos", "found"),
    [
        (-62135596800, 0, "0001-01-01T00:00:00Z"),
        (-30610224000, 999_999_999, "1000-01-01T00:00:00Z"),
        (-30610224001, 0, "0999-12-31T23:59:59Z"),
        (253402300799, 999_999_999, "9999-12-31T23:59:59Z"),
        (0, 1, "1970-01-01T00:00:00Z"),
    ],
)
def test_times_far_from_now(seconds: int, nanos: int, found: str) -> None:
    """Years have four digits; a Time has no parts of a second, a MicroTime has millionths."""
    stamp = n(1, seconds) + n(2, nanos)
    [made] = [decode(body("v1", "ConfigMap", b(1, b(8, stamp))))["metadata"]["creationTimestamp"]]
    assert made == found
    lease = decode(body("coordination.k8s.io/v1", "Lease", b(2, b(3, stamp))))["spec"]["acquireTime"]
    assert lease == found.removesuffix("Z") + f".{nanos // 1000:06}Z"
    written = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"acquireTime": lease}}
    assert decode(encode(written)) == written
