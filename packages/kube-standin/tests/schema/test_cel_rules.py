"""Rules of custom resources: what is refused when a definition is made, and what values they meet at a write."""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.cel import schema_rules

Json = dict[str, Any]
PROPERTIES: Json = {
    "n": {"type": "integer"},
    "s": {"type": "string", "maxLength": 20},
    "t": {"type": "string", "format": "date-time"},
    "day": {"type": "string", "format": "date"},
    "d": {"type": "string", "format": "duration"},
    "b": {"type": "string", "format": "byte", "maxLength": 64},
    "x": {"type": "number"},
}


def schema(rule: str, **more: Any) -> Json:
    spec = {"type": "object", "properties": PROPERTIES, "x-kubernetes-validations": [{"rule": rule, **more}]}
    return {"type": "object", "properties": {"spec": spec}}


REFUSED = [
    ("self.n.frobnicate()", "compilation failed: undeclared reference to 'frobnicate' (in container '')"),
    ("base64.encode(self.b) == ''", "compilation failed: undeclared reference to"),
    ("authorizer.group('').allowed()", "compilation failed: undeclared reference to"),
    ("jsonpatch.escapeKey(self.s) == ''", "compilation failed: undeclared reference to"),
    ("math.greatest(1, 2) == 2", "compilation failed: undeclared reference to"),
    ("missing > 1", "compilation failed: undeclared reference to 'missing' (in container '')"),
    ("self.nothing > 1", "compilation failed: undefined field 'nothing'"),
    ("self.n > 'a'", "compilation failed: found no matching overload for '_>_' applied to '(int, string)'"),
    ("self.n", "must evaluate to a bool"),
    ("self.t == '2024'", "found no matching overload for '_==_' applied to '(timestamp, string)'"),
    ("oldSelf.orValue(self) == self", "found no matching overload for 'orValue'"),
]


@pytest.mark.parametrize(("rule", "said"), REFUSED)
def test_rule_that_does_not_fit_its_schema_is_refused_with_the_definition(rule: str, said: str) -> None:
    found = schema_rules.problems(schema(rule), "x")
    assert [(error.reason, error.path) for error in found] == [
        ("FieldValueInvalid", "x.properties[spec].x-kubernetes-validations[0].rule")
    ]
    assert said in found[0].message


def test_message_has_to_be_a_text() -> None:
    found = schema_rules.problems(schema("true", messageExpression="self.n"), "x")
    assert ["must evaluate to a string" in error.message for error in found] == [True]


HOLDS = [
    ("self.t < timestamp('2024-06-01T00:00:00Z')", {"t": "2024-01-01T00:00:00+02:00"}, True),
    ("self.day.getMonth() == 1", {"day": "2024-02-29"}, True),
    ("self.d <= duration('1h')", {"d": "61m"}, False),
    ("self.b == b'hello'", {"b": "aGVsbG8="}, True),
    ("self.x * 2.0 == 4.0", {"x": 2}, True),
    ("self.?n.orValue(7) == 7", {}, True),
    ("cidr('10.0.0.0/8').containsIP(self.s)", {"s": "10.1.2.3"}, True),
    ("!format.dns1123Label().validate(self.s).hasValue()", {"s": "A_"}, False),
]


@pytest.mark.parametrize(("rule", "spec", "holds"), HOLDS)
def test_rules_meet_values_of_their_formats(rule: str, spec: Json, holds: bool) -> None:
    made = schema(rule)
    assert schema_rules.problems(made, "x") == []
    assert (schema_rules.evaluate(made, {"spec": spec}, None) == []) is holds


@pytest.mark.parametrize(("old", "holds"), [(None, True), ({"spec": {"n": 1}}, True), ({"spec": {"n": 9}}, False)])
def test_optional_old_value_is_there_at_a_create_too(old: Json | None, holds: bool) -> None:
    """ValidationRule.optionalOldSelf: the rule runs at every write."""
    made = schema("oldSelf.optMap(o, o.n <= self.n).orValue(self.n < 5)", optionalOldSelf=True)
    assert schema_rules.problems(made, "x") == []
    assert (schema_rules.evaluate(made, {"spec": {"n": 2}}, old) == []) is holds
    assert schema_rules.evaluate(made, {"spec": {"n": 6}}, None) != []


@pytest.mark.parametrize(
    ("lists", "within"),
    [
        ({}, "x.properties[l]"),
        ({"x-kubernetes-list-type": "set"}, "x.properties[l]"),
        ({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}, ""),
    ],
)
def test_old_self_needs_a_value_that_can_be_correlated(lists: Json, within: str) -> None:
    transition = {"x-kubernetes-validations": [{"rule": "self == oldSelf"}]}
    text = {"type": "string", "maxLength": 9, **transition}
    inner = {"type": "array", "maxItems": 2, "items": {"type": "string", "maxLength": 9}, **transition}
    items = {"type": "object", "properties": {"k": text, "i": inner}}
    made = {"type": "object", "properties": {"l": {"type": "array", "maxItems": 3, "items": items, **lists}}}
    found = [(error.path, error.message) for error in schema_rules.problems(made, "x")]
    message = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
    assert found == [
        (f"x.properties[l].items.properties[{name}].x-kubernetes-validations[0].rule",
         f'Invalid value: "self == oldSelf": {message}')
        for name in ("k", "i")
        if within
    ]  # fmt: skip


@pytest.mark.parametrize(("optional", "refused"), [(True, True), (False, True), (None, False)])
def test_optional_old_self_needs_old_self(optional: bool | None, refused: bool) -> None:
    found = schema_rules.problems(schema("self.n > 1", optionalOldSelf=optional), "x")
    assert [(error.path.rpartition(".")[2], error.message.rpartition(": ")[2]) for error in found] == [
        ("optionalOldSelf", "may not be set if oldSelf is not used in rule")
    ] * refused


def test_error_names_an_entry_of_a_map_by_its_key() -> None:
    """crd_validation_ratcheting.go, "on changed fields": a rule's error is at map[foo].field, a type's at map.foo."""
    field: Json = {"type": "string", "x-kubernetes-validations": [{"rule": 'self == "foo"'}]}
    entry = {"type": "object", "properties": {"field": field}}
    whole = {"type": "object", "properties": {"map": {"type": "object", "additionalProperties": entry}}}
    [error] = schema_rules.evaluate(whole, {"map": {"foo": {"field": "bar"}}}, None)
    assert error.path == "map[foo].field"
