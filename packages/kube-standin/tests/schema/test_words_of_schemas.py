"""Every word of a structural schema at both sides of its bound, and how rules walk objects (apiextensions)."""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.cel import schema_rules
from kube_rules.schema.nodes import SchemaType
from kube_standin.schema import structural
from kube_standin.schema.structural import MOST_ERRORS, DefaultsTooLargeError, Structural, structural_node

Json = dict[str, Any]
TEXTS: Json = {"type": "array", "items": {"type": "string"}}
ENTRIES: Json = {"type": "object", "additionalProperties": {"type": "string"}}


def made(spec: Json, **more: Any) -> Structural:
    return Structural({"type": "object", "properties": {"spec": spec}, **more})


def said(spec: Json, value: Any) -> list[str]:
    return [error.message for error in made(spec).validate({"spec": value})]


@pytest.mark.parametrize(
    ("schema", "within", "beyond", "message"),
    [
        ({"type": "integer", "minimum": 3}, 3, 2, "should be greater than or equal to 3"),
        ({"type": "integer", "minimum": 3, "exclusiveMinimum": True}, 4, 3, "should be greater than 3"),
        ({"type": "integer", "maximum": 3}, 3, 4, "should be less than or equal to 3"),
        ({"type": "integer", "maximum": 3, "exclusiveMaximum": True}, 2, 3, "should be less than 3"),
        ({"type": "number", "multipleOf": 0.5}, 1.5, 1.25, "should be a multiple of 0.5"),
        ({"type": "integer", "multipleOf": 3}, 0, 4, "should be a multiple of 3"),
        ({"type": "integer", "format": "int32"}, 2**31 - 1, 2**31, "must be of type int32: 2147483648"),
        ({"type": "integer", "format": "int32"}, -(2**31), -(2**31) - 1, "must be of type int32: -2147483649"),
        ({"type": "integer", "format": "int64"}, 2**63 - 1, 2**63, "must be of type int64"),
        ({"type": "integer", "format": "int64"}, -(2**63), -(2**63) - 1, "must be of type int64"),
        ({"type": "string", "maxLength": 2}, "ab", "abc", "may not be more than 2 bytes"),
        ({"type": "string", "minLength": 2}, "ab", "a", "should be at least 2 chars long"),
        ({"type": "string", "pattern": "^a"}, "ab", "b", "should match '^a'"),
        ({"type": "string", "enum": ["a", "b"]}, "b", "c", 'supported values: "a", "b"'),
        ({**TEXTS, "maxItems": 1}, ["a"], ["a", "b"], "must have at most 1 item"),
        ({**TEXTS, "minItems": 2}, ["a", "b"], ["a"], "should have at least 2 items"),
        ({**ENTRIES, "maxProperties": 1}, {"a": ""}, {"a": "", "b": ""}, "must have at most 1 item"),
        ({**ENTRIES, "minProperties": 1}, {"a": ""}, {}, "should have at least 1 properties"),
        ({"type": "object", "required": ["a"]}, {"a": None}, {"b": 1}, "Required value"),
        ({**TEXTS, "uniqueItems": True}, ["a", "b"], ["a", "a"], 'Duplicate value: "a"'),
        ({"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 1}]}, 5, 4, "at least one schema (anyOf)"),
        ({"type": "integer", "oneOf": [{"minimum": 1}, {"minimum": 3}]}, 2, 3, "one and only one schema (oneOf)"),
        ({"type": "integer", "oneOf": [{"minimum": 1}, {"minimum": 3}]}, 1, 0, "one and only one schema (oneOf)"),
        ({"type": "integer", "anyOf": [{"minimum": 1}, {"minimum": 3}]}, 3, 0, "at least one schema (anyOf)"),
        ({"type": "integer", "not": {"minimum": 3}}, 2, 3, "must not validate the schema (not)"),
        ({"type": "integer", "allOf": [{"minimum": 1}, {"maximum": 3}]}, 3, 4, "less than or equal to 3"),
        ({"x-kubernetes-int-or-string": True}, "1", True, "must be of type integer,string"),
        ({"x-kubernetes-int-or-string": True, "nullable": True}, None, [], "must be of type integer,string"),
        ({"type": "string", "nullable": True}, None, 1, 'must be of type string: "integer"'),
        ({"type": "integer"}, 2.0, 2.5, 'must be of type integer: "number"'),
        ({"type": "integer"}, 0, True, 'must be of type integer: "boolean"'),
        ({"type": "number"}, 1, True, 'must be of type number: "boolean"'),
        ({"type": "boolean"}, False, "x", 'must be of type boolean: "string"'),
        ({"type": "array"}, [], {}, 'must be of type array: "object"'),
        ({"type": "object"}, {}, [], 'must be of type object: "array"'),
    ],
)
def test_both_sides_of_every_word(schema: Json, within: Any, beyond: Any, message: str) -> None:
    assert said(schema, within) == []
    found = said(schema, beyond)
    assert len(found) == 1
    assert message in found[0]


@pytest.mark.parametrize(
    ("word", "well", "ill"),
    [
        ("date-time", ["2026-01-01T00:00:00Z"], ["2026-01-01", "2026-02-30T00:00:00Z"]),
        ("date", ["2026-01-31", "2026-12-01"], ["2026-13-01", "2026-00-01", "2026-01-32", "2026-1-1", "x2026-01-01"]),
        ("uuid", ["00000000-0000-0000-0000-00000000000A", "0" * 32], ["0" * 31, "g" * 32]),
        ("ipv4", ["1.2.3.4", "255.255.255.255", "0.0.0.0"], ["256.1.1.1", "1.2.3", "1.2.3.4.5"]),
        ("email", ["a@b"], ["a", "@b", "a@", "a@b@c", "a b@c"]),
        ("byte", ["", "YQ==", "YWI=", "YWJj"], ["YQ=", "Y", "Y===", "é"]),
        ("nosuch", ["x"], []),
    ],
)
def test_formats(word: str, well: list[str], ill: list[str]) -> None:
    schema = {"type": "string", "format": word}
    assert [text for text in well if said(schema, text)] == []
    for text in ill:
        (found,) = said(schema, text)
        assert f"spec in body must be of type {word}: " in found


def test_where_something_is_wrong() -> None:
    schema = {
        "type": "object",
        "properties": {"l": {"type": "array", "items": {"type": "object", "required": ["x"]}}},
        "additionalProperties": {"type": "integer"},
    }
    found = made(schema).validate({"spec": {"l": [{"x": 1}, {}], "other": "text"}})
    assert [(error.reason, error.path) for error in found] == [
        ("FieldValueRequired", "spec.l[1].x"),
        ("FieldValueTypeInvalid", "spec.other"),
    ]
    root = Structural({"type": "object", "required": ["spec"]}).validate({})
    assert [error.path for error in root] == ["spec"]


def test_unreadable_pattern_refuses_no_object() -> None:
    """It stands in a definition that was stored before patterns were checked."""
    assert said({"type": "string", "pattern": "(", "maxLength": 1}, "ab") == ["Too long: may not be more than 1 bytes"]


def test_findings_are_bounded() -> None:
    """Of types, and of duplicates."""
    for schema, values in ((TEXTS, [1] * 600), ({**TEXTS, "x-kubernetes-list-type": "set"}, ["a"] * 600)):
        assert len(said(schema, values[: MOST_ERRORS - 1])) <= MOST_ERRORS - 1
        assert len(said(schema, values)) == MOST_ERRORS


MAP: Json = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k", "p"],
    "items": {"type": "object", "properties": {"k": {"type": "string"}, "p": {"type": "string", "default": "TCP"}}},
}


@pytest.mark.parametrize(
    ("items", "doubled"),
    [
        ([{"k": "a"}, {"k": "b"}], []),
        ([{"k": "a"}, {"k": "a", "p": "UDP"}], []),
        ([{"k": "a"}, {"k": "b"}, {"k": "a", "p": "TCP"}], ["spec[2]"]),
        ([{}, {}], ["spec[1]"]),
        ([{"k": "a"}, {"k": "a"}, {"k": "a"}], ["spec[1]", "spec[2]"]),
    ],
)
def test_keys_of_lists(items: list[Json], doubled: list[str]) -> None:
    assert [error.path for error in made(MAP).validate({"spec": items})] == doubled


def test_atomic_lists_may_repeat_themselves() -> None:
    assert said({**TEXTS, "x-kubernetes-list-type": "atomic"}, ["a", "a"]) == []


# -- what is pruned


@pytest.mark.parametrize(
    ("schema", "value", "kept", "unknown"),
    [
        ({"type": "object"}, {"a": 1}, {}, ["spec.a"]),
        ({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, {"a": 1}, {"a": 1}, []),
        ({"type": "object", "additionalProperties": True}, {"a": 1}, {"a": 1}, []),
        ({"type": "object", "additionalProperties": {"type": "object"}}, {"a": {"b": 1}}, {"a": {}}, ["spec.a.b"]),
        ({"type": "array", "items": {"type": "object"}}, [{"a": 1}], [{}], ["spec[0].a"]),
        ({"type": "array"}, [{"a": 1}], [{"a": 1}], []),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, {"a": "x"}, {"a": "x"}, []),
    ],
)
def test_fields_that_the_schema_does_not_have(schema: Json, value: Any, kept: Any, unknown: list[str]) -> None:
    found, names, problems = made(schema).decode({"spec": value})
    assert (found["spec"], [field.path for field in names], problems) == (kept, unknown, [])


EMBEDDED: Json = {"type": "object", "x-kubernetes-embedded-resource": True}
POD: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "nosuch": 1}, "other": 1}


@pytest.mark.parametrize(
    ("schema", "value", "kept", "unknown"),
    [
        (EMBEDDED, POD, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}},
         ["spec.other", "spec.metadata.nosuch"]),
        ({"type": "array", "items": EMBEDDED}, [POD], [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}],
         ["spec[0].other", "spec[0].metadata.nosuch"]),
        ({"type": "object"}, POD, {}, ["spec.apiVersion", "spec.kind", "spec.metadata", "spec.other"]),
    ],
)  # fmt: skip
def test_resources_inside_resources(schema: Json, value: Any, kept: Any, unknown: list[str]) -> None:
    found, names, _ = made(schema).decode({"spec": value})
    assert (found["spec"], [field.path for field in names]) == (kept, unknown)


def test_metadata_is_that_of_every_object() -> None:
    obj = {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": 5, "labels": None}, "spec": {}}
    found, _, problems = made({"type": "object"}).decode(obj)
    assert [problem.path for problem in problems] == ["metadata.name"]
    assert found["metadata"] == {}
    assert made({"type": "object"}).decode({"metadata": None, "kind": "K"})[0] == {"kind": "K"}


@pytest.mark.parametrize(
    ("properties", "required", "fields"),
    [
        ({}, [], []),
        ({}, ["kind"], []),
        ({"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 1}}}}, [],
         ["metadata.name"]),
    ],
)  # fmt: skip
def test_schema_may_limit_names(properties: Json, required: list[str], fields: list[str]) -> None:
    schema = Structural({"type": "object", "properties": properties, "required": required})
    obj = {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "ab"}}
    assert [error.path for error in schema.validate(obj)] == fields


# -- nodes


@pytest.mark.parametrize(
    ("schema", "kind", "go"),
    [
        ({"type": "string"}, SchemaType.STRING, "string"),
        ({"type": "integer"}, SchemaType.INTEGER, "int64"),
        ({"type": "number"}, SchemaType.NUMBER, "number"),
        ({"type": "boolean"}, SchemaType.BOOLEAN, "boolean"),
        ({"x-kubernetes-int-or-string": True}, SchemaType.INT_OR_STRING, "intstr.IntOrString"),
        ({}, SchemaType.ANY, "any"),
        ({"properties": {}}, SchemaType.STRUCT, "object"),
    ],
)
def test_types_of_places(schema: Json, kind: SchemaType, go: str) -> None:
    found = structural_node(schema)
    assert (found.type, found.go) == (kind, go)


def test_how_lists_and_maps_are_merged() -> None:
    keyed = structural_node(MAP)
    assert (keyed.list_type, keyed.list_keys, keyed.atomic) == ("map", ("k", "p"), False)
    assert keyed.key_defaults == (("p", "TCP"),)
    plain = structural_node(TEXTS)
    assert (plain.list_type, plain.atomic, plain.go) == ("atomic", True, "[]string")
    for atomic in (False, True):
        word = {"x-kubernetes-map-type": "atomic"} if atomic else {"x-kubernetes-map-type": "granular"}
        assert structural_node({**ENTRIES, **word}).atomic is atomic
        assert structural_node({"type": "object", **word}).atomic is atomic


def test_resources_have_in_common() -> None:
    root = structural_node({"type": "object", "properties": {"inner": {"type": "object"}, "resource": EMBEDDED}},
                           root=True)  # fmt: skip
    assert set(root.fields) == {"apiVersion", "kind", "metadata", "inner", "resource"}
    assert set(root.fields["resource"].fields) == {"apiVersion", "kind", "metadata"}
    assert set(root.fields["inner"].fields) == set()
    assert root.element is None
    open_ = structural_node({"type": "object", "additionalProperties": True})
    assert (open_.preserve_unknown, open_.element is not None) == (True, True)


# -- defaults


def defaulted(schema: Json, spec: Any) -> Any:
    obj = {"spec": spec}
    made(schema).default(obj)
    return obj["spec"]


@pytest.mark.parametrize(
    ("schema", "value", "found"),
    [
        ({"type": "object", "properties": {"a": {"default": 1}}}, {}, {"a": 1}),
        ({"type": "object", "properties": {"a": {"default": 1}}}, {"a": 2}, {"a": 2}),
        ({"type": "object", "properties": {"a": {"default": 1}, "b": {"default": {"c": []}}}}, {"a": None},
         {"a": 1, "b": {"c": []}}),
        ({"type": "object", "properties": {"a": {"default": 1, "nullable": True}}}, {"a": None}, {"a": None}),
        ({"type": "array", "items": {"properties": {"a": {"default": 1}}}}, [{}, {"a": 2}, 5],
         [{"a": 1}, {"a": 2}, 5]),
        ({"type": "object", "additionalProperties": {"properties": {"a": {"default": 1}}}}, {"x": {}, "y": 5},
         {"x": {"a": 1}, "y": 5}),
        ({"type": "object", "properties": {"in": {"properties": {"a": {"default": 1}}}}}, {"other": {}},
         {"other": {}}),
        ({"type": "object", "properties": {"in": {"default": {}, "properties": {"a": {"default": 1}}}}}, {},
         {"in": {"a": 1}}),
    ],
)  # fmt: skip
def test_defaults(schema: Json, value: Any, found: Any) -> None:
    assert defaulted(schema, value) == found


def test_defaults_may_fill_three_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each counts with its text, and a step for looking."""
    assert structural.DEFAULTS_LIMIT == 3 * 1024 * 1024
    schema = {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string", "default": "xx"}}}}
    for limit, fits in ((10, True), (9, False)):
        monkeypatch.setattr(structural, "DEFAULTS_LIMIT", limit)
        if fits:
            assert defaulted(schema, [{}, {}]) == [{"a": "xx"}, {"a": "xx"}]
            assert defaulted(schema, [{}, *[{"a": "yy"}] * 5])[0] == {"a": "xx"}
        else:
            with pytest.raises(DefaultsTooLargeError):
                defaulted(schema, [{}, {}])
            with pytest.raises(DefaultsTooLargeError):
                defaulted(schema, [{}, *[{"a": "yy"}] * 5])


# -- rules


def ruled(rule: str, place: Json, **more: Any) -> Json:
    return {**place, "x-kubernetes-validations": [{"rule": rule, **more}]}


def broken(schema: Json, new: Any, old: Any = None) -> list[tuple[str, str]]:
    """(field, message) of what rules find."""
    root = {"type": "object", "properties": {"spec": schema}}
    before = {"spec": old} if old is not None else None
    return [(error.path, error.message) for error in schema_rules.evaluate(root, {"spec": new}, before)]


ITEM: Json = {"type": "object", "properties": {"k": {"type": "string"}, "n": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "new", "old", "fields"),
    [
        # Items of a list with keys are compared with those of their keys, whatever their order.
        ({**MAP, "x-kubernetes-list-map-keys": ["k"], "items": ruled("self.n >= oldSelf.n", ITEM)},
         [{"k": "b", "n": 1}, {"k": "a", "n": 5}], [{"k": "a", "n": 5}, {"k": "b", "n": 2}], ["spec[0]"]),
        ({**MAP, "x-kubernetes-list-map-keys": ["k"], "items": ruled("self.n >= oldSelf.n", ITEM)},
         [{"k": "c", "n": 1}], [{"k": "a", "n": 5}], []),
        # Of a list without keys nothing is known of what an item was.
        ({"type": "array", "items": ruled("self.n >= oldSelf.n", ITEM)}, [{"n": 1}], [{"n": 5}], []),
        ({"type": "array", "items": ruled("self.n > 3", ITEM)}, [{"n": 1}, {"n": 4}, {"n": 2}], None,
         ["spec[0]", "spec[2]"]),
        # Values of a map with those of their keys.
        ({"type": "object", "additionalProperties": ruled("self >= oldSelf", {"type": "integer"})},
         {"a": 1, "b": 1}, {"a": 5}, ["spec[a]"]),
        # A null is not looked at.
        ({"type": "object", "properties": {"a": ruled("false", {"type": "string", "nullable": True})}}, {"a": None},
         None, []),
    ],
)  # fmt: skip
def test_which_values_meet_which(schema: Json, new: Any, old: Any, fields: list[str]) -> None:
    assert [field for field, _ in broken(schema, new, old)] == fields


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, ("spec", "Invalid value: failed rule: false")),
        ({"message": "no"}, ("spec", "Invalid value: no")),
        ({"message": "no", "messageExpression": "'yes'"}, ("spec", "Invalid value: yes")),
        ({"message": "no", "messageExpression": "' '"}, ("spec", "Invalid value: no")),
        ({"message": "no", "messageExpression": "'a\\nb'"}, ("spec", "Invalid value: no")),
        ({"message": "no", "messageExpression": "string(1 / 0)"}, ("spec", "Invalid value: no")),
        ({"messageExpression": "string(1 / 0)"}, ("spec", "Invalid value: failed rule: false")),
        ({"message": "no", "fieldPath": ".a"}, ("spec.a", "Invalid value: no")),
        ({"message": "no", "reason": "FieldValueForbidden"}, ("spec", "Forbidden: no")),
        ({"message": "no", "reason": "FieldValueRequired"}, ("spec", "Required value: no")),
        ({"message": "no", "reason": "FieldValueDuplicate"}, ("spec", "Duplicate value: no")),
        ({"message": "no", "reason": "Nosuch"}, ("spec", "Invalid value: no")),
    ],
)
def test_rule_that_is_broken_states_why(more: Json, expected: tuple[str, str]) -> None:
    assert broken(ruled("false", ITEM, **more), {"n": 1}) == [expected]


@pytest.mark.parametrize(("letters", "used"), [(5 * 1024, True), (5 * 1024 + 1, False)])
def test_how_long_a_message_may_be(letters: int, used: bool) -> None:
    (found,) = broken(ruled("false", ITEM, message="no", messageExpression="self.k"), {"k": "x" * letters})
    assert (found[1] != "Invalid value: no") is used


def test_rules_of_the_resource_itself() -> None:
    """Its place has no name: the field is that of the rule, or none."""
    for more, field in (({}, "<nil>"), ({"fieldPath": ".spec.n"}, "spec.n")):
        schema = ruled("self.spec.n > 1", {"type": "object", "properties": {"spec": ITEM}}, **more)
        assert [one.path for one in schema_rules.evaluate(schema, {"spec": {"n": 1}}, None)] == [field]


def test_other_findings_come_before_rules() -> None:
    """Rules meet values that fit the schema; the error says that they were not evaluated."""
    schema = ruled("self.n > 1", {**ITEM, "required": ["k"]})
    found = made(schema).validate({"spec": {"n": 1}})
    assert [error.path for error in found] == ["spec.k", "<nil>"]
    assert "some validation rules were not checked because the object was invalid" in found[1].message
    assert [error.message for error in made(schema).validate({"spec": {"n": 1, "k": ""}})] == [
        "Invalid value: failed rule: self.n > 1"
    ]
    bare = made({**ITEM, "required": ["k"]}).validate({"spec": {"n": 1}})
    assert [error.path for error in bare] == ["spec.k"], "without rules there is no error about them"


@pytest.mark.parametrize("count", [10_000, 10_001])
def test_long_rules_are_rules_as_well(count: int) -> None:
    """Those that are not kept for the next time."""
    rule = "self.n > 1" + " " * (count - 10)
    assert broken(ruled(rule, ITEM), {"n": 2}) == []
    assert len(broken(ruled(rule, ITEM), {"n": 1})) == 1


def test_how_much_text_the_rules_of_a_schema_may_have() -> None:
    def texts(last: int) -> list[str]:
        rules = [{"rule": "true" + " " * (8192 - 4)}] * 19 + [{"rule": "true" + " " * (8192 - 4 + last)}]
        return [error.message for error in schema_rules.problems({**ITEM, "x-kubernetes-validations": rules}, "x")]

    assert schema_rules.TEXT_LIMIT == 160 * 1024
    assert texts(0) == []
    assert texts(1) == ["Forbidden: validation rules of a schema may have at most 163840 characters together"]


@pytest.mark.parametrize(
    ("cost", "shown"),
    [(10_000_001, "1.000000x"), (14_999_999, "1.500000x"), (15_000_000, "1.5x"), (999_999_999, "100.0x"),
     (1_000_000_000, "100.0x"), (1_000_000_001, "more than 100x")],
)  # fmt: skip
def test_how_far_a_limit_is_exceeded(cost: int, shown: str) -> None:
    assert f"exceeds budget by factor of {shown} (try" in schema_rules._exceeded("cost", cost, 10_000_000)
