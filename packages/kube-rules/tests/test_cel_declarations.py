"""What a schema says of values: their form and how large they can be (apiserver/pkg/cel/common, SchemaDeclType), and
values of JSON as expressions meet them (UnstructuredToVal).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kube_rules import cel, device_expressions
from kube_rules.cel import ValueForm
from kube_rules.cel.declarations import MAX_REQUEST
from kube_rules.device_expressions import DeviceExpressionError, TooComplexError

REST = MAX_REQUEST - 2
STRING = {"type": "string"}
EMBEDDED = {"x-kubernetes-embedded-resource": True}
TEXT = ValueForm("string", REST, 2)
RESOURCE = {
    "apiVersion": TEXT,
    "kind": TEXT,
    "metadata": ValueForm("object", 1, 2, None, {"name": TEXT, "generateName": TEXT}),
}

FORMS: list[tuple[Any, ValueForm]] = [
    # scalars
    ({"type": "boolean"}, ValueForm("bool", 1, 4)),
    ({"type": "integer"}, ValueForm("int", 1, 1)),
    ({"type": "number"}, ValueForm("double", 1, 1)),
    # texts: four bytes a character, two quotes at least
    (STRING, TEXT),
    ({"type": "string", "maxLength": 5}, ValueForm("string", 20, 2)),
    ({"type": "string", "maxLength": 0}, ValueForm("string", 0, 2)),
    ({"type": "string", "maxLength": -1}, ValueForm("string", 0, 2)),
    ({"type": "string", "maxLength": True}, TEXT),
    ({"type": "string", "enum": ["ab", "é", "x"]}, ValueForm("string", 2, 2)),
    ({"type": "string", "enum": [1]}, ValueForm("string", 0, 2)),
    ({"type": "string", "enum": []}, TEXT),
    ({"type": "string", "enum": ["abc"], "maxLength": 1}, ValueForm("string", 4, 2)),
    ({"type": "string", "format": "byte", "maxLength": 8}, ValueForm("bytes", 8, 2)),
    ({"type": "string", "format": "byte", "enum": ["YQ=="]}, ValueForm("bytes", REST, 2)),
    ({"type": "string", "format": "date", "maxLength": 99}, ValueForm("timestamp", 12, 20)),
    ({"type": "string", "format": "date-time"}, ValueForm("timestamp", 32, 20)),
    ({"type": "string", "format": "duration"}, ValueForm("duration", 32, 4)),
    ({"type": "string", "format": "password"}, TEXT),
    ({"type": "string", "format": 1}, TEXT),
    # lists and maps: what fits into a request, unless a number is given
    ({"type": "array", "maxItems": 3, "items": STRING}, ValueForm("list", 3, 2, TEXT)),
    ({"type": "array", "items": STRING}, ValueForm("list", REST // 3, 2, TEXT)),
    ({"type": "array", "items": {"type": "boolean"}}, ValueForm("list", REST // 5, 2, ValueForm("bool", 1, 4))),
    ({"type": "array", "maxItems": 3}, ValueForm("list", 3, 2, cel.UNKNOWN)),
    ({"type": "object", "maxProperties": 3, "additionalProperties": STRING}, ValueForm("map", 3, 2, TEXT)),
    ({"type": "object", "additionalProperties": STRING}, ValueForm("map", REST // 8, 2, TEXT)),
    ({"type": "object", "additionalProperties": True}, ValueForm("object", 1, 2)),
    # objects: what is required is at least there, with its name, two quotes, a colon and a comma
    ({"type": "object"}, ValueForm("object", 1, 2)),
    (
        {"type": "object", "properties": {"ab": {"type": "boolean"}, "c": STRING}, "required": ["ab"]},
        ValueForm("object", 1, 2 + 2 + 4 + 4, None, {"ab": ValueForm("bool", 1, 4), "c": TEXT}),
    ),
    (
        {"type": "object", "properties": {"ab": {"type": "boolean", "default": False}}, "required": ["ab", 1]},
        ValueForm("object", 1, 2, None, {"ab": ValueForm("bool", 1, 4)}),
    ),
    ({"type": "object", "properties": {"a": STRING}, "required": 1}, ValueForm("object", 1, 2, None, {"a": TEXT})),
    ({"type": "object", "properties": []}, ValueForm("object", 1, 2)),
    # fields without a type are not declared
    (
        {
            "type": "object",
            "properties": {
                "any": {"x-kubernetes-preserve-unknown-fields": True},
                "odd": {"type": "null"},
                "none": 1,
                "list": {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}},
                "port": {"x-kubernetes-int-or-string": True},
                "l": {"type": "array", "items": STRING, "maxItems": 1},
            },
        },
        ValueForm("object", 1, 2, None, {"port": cel.UNKNOWN, "l": ValueForm("list", 1, 2, TEXT)}),
    ),
    # anything
    ({"x-kubernetes-int-or-string": True}, cel.UNKNOWN),
    ({"x-kubernetes-int-or-string": True, "type": "object", "maxLength": 5}, ValueForm("dyn", 20)),
    ({"x-kubernetes-preserve-unknown-fields": True}, cel.UNKNOWN),
    ({"type": "null"}, cel.UNKNOWN),
    # resources inside: their type and name are known
    ({"type": "object", **EMBEDDED}, ValueForm("object", 1, 2, None, RESOURCE)),
    (
        {"type": "array", "maxItems": 2, "items": {"type": "object", **EMBEDDED}},
        ValueForm("list", 2, 2, ValueForm("object", 1, 2, None, RESOURCE)),
    ),
    (
        {"type": "object", "maxProperties": 2, "additionalProperties": EMBEDDED},
        ValueForm("map", 2, 2, ValueForm("object", 1, 2, None, RESOURCE)),
    ),
    (
        {"type": "object", "properties": {"r": EMBEDDED}},
        ValueForm("object", 1, 2, None, {"r": ValueForm("object", 1, 2, None, RESOURCE)}),
    ),
]


@pytest.mark.parametrize(("schema", "form"), FORMS, ids=[str(row[0])[:80] for row in FORMS])
def test_form_of_a_schema(schema: Any, form: ValueForm) -> None:
    assert cel.declared(schema) == form


def test_root_of_a_resource_has_a_type_and_a_name() -> None:
    spec = {"type": "object", "properties": {"spec": STRING}}
    assert cel.declared(spec, root=True) == ValueForm("object", 1, 2, None, {"spec": TEXT, **RESOURCE})
    assert cel.declared(spec) == ValueForm("object", 1, 2, None, {"spec": TEXT})


def test_schema_is_followed_a_hundred_levels_down() -> None:
    schema: dict[str, Any] = {"type": "boolean"}
    for _ in range(100):
        schema = {"type": "array", "maxItems": 1, "items": schema}

    def innermost(form: ValueForm) -> ValueForm:
        while form.inner is not None:
            form = form.inner
        return form

    assert innermost(cel.declared(schema)) == ValueForm("bool", 1, 4)
    assert innermost(cel.declared({"type": "array", "maxItems": 1, "items": schema})) == cel.UNKNOWN
    maps: dict[str, Any] = {"type": "boolean"}
    for _ in range(101):
        maps = {"type": "object", "maxProperties": 1, "additionalProperties": maps}
    assert innermost(cel.declared(maps)) == cel.UNKNOWN


NUMBER, INTEGER = {"type": "number"}, {"type": "integer"}
DAY = {"type": "string", "format": "date"}

VALUES: list[tuple[Any, Any, Any]] = [
    (NUMBER, 1, 1.0),
    (NUMBER, -(2**63), -(2**63)),  # no number of a schema: it stays what it is
    (NUMBER, 2**63 - 1, float(2**63 - 1)),
    (NUMBER, 2**63, 2**63),
    (NUMBER, True, True),
    ({**NUMBER, "x-kubernetes-int-or-string": True}, 1, 1),
    (INTEGER, 1.0, 1),
    (INTEGER, 1.5, 1.5),
    (INTEGER, 1e19, 1e19),
    (INTEGER, 7, 7),
    (STRING, "x", "x"),
    (DAY, "2024-01-02", datetime(2024, 1, 2, tzinfo=UTC)),
    (DAY, "2024-13-02", "2024-13-02"),
    ({"format": "date"}, "2024-01-02", "2024-01-02"),  # only a string has a format
    ({"type": "string", "format": "duration"}, "1m", timedelta(minutes=1)),
    ({"type": "string", "format": "duration"}, "soon", "soon"),
    ({"type": "string", "format": "byte"}, "aGk=", b"hi"),
    ({"type": "string", "format": "byte"}, "é", "é"),
    ({"type": "array", "items": NUMBER}, [1, 2.5], [1.0, 2.5]),
    ({"type": "array"}, [1], [1]),
    ({"type": "object", "properties": {"a": NUMBER}}, {"a": 1, "b": 1}, {"a": 1.0, "b": 1}),
    ({"type": "object", "additionalProperties": NUMBER}, {"a": 1}, {"a": 1.0}),
    (
        {"type": "object", "properties": {"a": INTEGER}, "additionalProperties": NUMBER},
        {"a": 1, "b": 1},
        {"a": 1, "b": 1.0},
    ),
    ({"type": "object", "properties": {"a": 1}}, {"a": 1}, {"a": 1}),
    ({"type": "object"}, {"a": 1}, {"a": 1}),
    (None, 1, 1),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value", "expected"), VALUES, ids=[f"{row[0]} {row[1]}" for row in VALUES])
def test_values_are_what_their_schema_says(schema: Any, value: Any, expected: Any) -> None:
    found = cel.converted(schema, value)
    assert repr(found) == repr(expected)


# -- expressions that select devices ----------------------------------------------------------------------------------

DRIVER = "device.driver == 'a'"


@pytest.mark.parametrize(
    "text",
    [
        DRIVER,
        "device.attributes['a.com'].model == 'x'",
        "device.attributes['a.com'].version.isGreaterThan(semver('1.0.0'))",
        "device.capacity['a.com'].memory.compareTo(quantity('1Gi')) >= 0",
        "device.allowMultipleAllocations",
        "cel.bind(a, device.attributes['a.com'], a.model == 'x')",
        "device.attributes['a.com'].flag",  # a bool, or not known before
        "device.attributes.all(d, device.attributes[d].all(n, n != 'x'))",
    ],
)
def test_expressions_that_may_select_devices(text: str) -> None:
    device_expressions.parsed(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("device.", "compilation failed: Syntax error"),
        ("device.missing", "compilation failed: undefined field 'missing'"),
        ("other == 1", "compilation failed: undeclared reference to 'other'"),
        ("device.driver", "must evaluate to bool or the unknown type, not string"),
        ("device.capacity['a']", "must evaluate to bool or the unknown type, not map(string, kubernetes.Quantity)"),
        ("device.driver + 1 == 2", "compilation failed: found no matching overload"),
    ],
)
def test_expressions_that_select_none(text: str, why: str) -> None:
    with pytest.raises(DeviceExpressionError) as caught:
        device_expressions.parsed(text)
    assert str(caught.value).startswith(why)
    assert not isinstance(caught.value, TooComplexError)


COSTS = [
    # an entry of attributes or capacities is visited 32 times, a driver has 63 bytes, a text 64
    ("device.attributes.all(d, true)", 4 + 3 * 32),
    ("device.attributes['a'].all(n, true)", 5 + 3 * 32),
    ("device.capacity.all(d, true)", 4 + 3 * 32),
    ("device.capacity['a'].all(n, true)", 5 + 3 * 32),
    ("device.driver.contains('0123456789')", 2 + 7),
    ("device.attributes['a'].b.contains('0123456789')", 4 + 7),
    ("(device.driver + '0123456').startsWith('a')", 2 + 7 + 1),
    ("(device.attributes['a'].b + '012345').startsWith('a')", 4 + 7 + 1),
    ("device.allowMultipleAllocations", 2),
]


@pytest.mark.parametrize(("text", "cost"), COSTS)
def test_devices_are_as_large_as_the_api_lets_them_be(text: str, cost: int) -> None:
    """resourceapi: ResourceSliceMaxAttributesAndCapacitiesPerDevice, DeviceAttributeMaxValueLength."""
    variables = {"device": device_expressions._DEVICE}
    assert cel.estimated_cost(device_expressions.parsed(text), variables) == cost


def test_expression_that_may_cost_more_than_a_million_is_refused() -> None:
    """resourceapi.CELSelectorExpressionMaxCost."""
    variables = {"device": device_expressions._DEVICE}

    def times(count: int) -> str:
        return f"lists.range({count}).all(i, true)"

    def cost(count: int) -> int:
        return cel.estimated_cost(cel.parse(times(count)), variables)

    most = max(count for count in range(249_990, 250_010) if cost(count) <= 1_000_000)
    assert cost(most + 1) > 1_000_000 >= cost(most)
    device_expressions.parsed(times(most))
    with pytest.raises(TooComplexError, match="too complex, exceeds cost limit"):
        device_expressions.parsed(times(most + 1))
    assert device_expressions.LONGEST == 10 * 1024
