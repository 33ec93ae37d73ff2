"""Custom resources by their structural schema (transcripts 554 to 580)."""

from __future__ import annotations

import copy
import sys
from typing import Any

import pytest

from kube_rules.cel import schema_rules
from kube_standin.schema import Schema
from kube_standin.schema.structural import Structural
from tests.recorded.oracle import needs_transcripts, transcript

Json = dict[str, Any]


def made(spec: Json, **more: Any) -> Structural:
    return Structural({"type": "object", "properties": {"spec": spec}, **more})


def gang() -> Schema:
    body = transcript(554).body
    return Schema.from_structural(body["spec"]["versions"][0]["schema"]["openAPIV3Schema"], kind="Gang")


@needs_transcripts
@pytest.mark.parametrize("number", [562, 563, 564, 565])
def test_refused_like_the_recorded_ones(number: int) -> None:
    one, schema = transcript(number), gang()
    obj, _, problems = schema.check(copy.deepcopy(one.body), collect_unknown=True)
    assert problems == []
    assert schema.structural is not None
    schema.structural.default(obj)
    found = [(error.reason, error.path, error.message) for error in schema.structural.validate(obj)]
    assert sorted(found) == sorted((r, f, m) for r, f, m in one.causes)


@needs_transcripts
@pytest.mark.parametrize("number", [561, 566])
def test_pruned_and_defaulted_like_the_recorded_ones(number: int) -> None:
    one, schema = transcript(number), gang()
    obj, unknown, _ = schema.check(copy.deepcopy(one.body), collect_unknown=True)
    assert schema.structural is not None
    schema.structural.default(obj)
    assert obj["spec"] == one.answer["spec"]
    assert [field.path for field in unknown] == (["spec.nosuch"] if number == 566 else [])
    assert schema.structural.validate(obj) == []


@needs_transcripts
def test_transition_rule_compares_with_what_was() -> None:
    one, schema = transcript(571), gang()
    assert schema.structural is not None
    old = {"spec": {"size": 3, "mode": "Strict"}}
    new = {"spec": {"size": 2, "mode": "Strict"}}
    assert [(error.reason, error.path, error.message) for error in schema.structural.validate(new, old)] == one.causes
    assert schema.structural.validate(old, old) == []


@pytest.mark.parametrize(
    ("schema", "value", "reason", "said"),
    [
        ({"type": "integer", "maximum": 3}, 4, "FieldValueInvalid", "should be less than or equal to 3"),
        ({"type": "integer", "minimum": 3, "exclusiveMinimum": True}, 3, "FieldValueInvalid", "greater than 3"),
        ({"type": "integer", "multipleOf": 2}, 3, "FieldValueInvalid", "should be a multiple of 2"),
        ({"type": "integer", "format": "int32"}, 2**31, "FieldValueInvalid", "must be of type int32"),
        ({"type": "string", "maxLength": 2}, "abc", "FieldValueTooLong", "may not be more than 2 bytes"),
        ({"type": "string", "minLength": 2}, "a", "FieldValueInvalid", "should be at least 2 chars long"),
        ({"type": "string", "format": "date-time"}, "x", "FieldValueInvalid", "must be of type date-time"),
        ({"type": "string"}, None, "FieldValueTypeInvalid", 'must be of type string: "null"'),
        ({"type": "boolean"}, 1, "FieldValueTypeInvalid", "must be of type boolean"),
        ({"x-kubernetes-int-or-string": True}, 1.5, "FieldValueTypeInvalid", "must be of type integer,string"),
        ({"type": "array", "items": {"type": "string"}, "minItems": 1}, [], "FieldValueInvalid", "at least 1 items"),
        (
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            ["a", "a"],
            "FieldValueDuplicate",
            '"a"',
        ),
        (
            {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string", "default": "z"}}},
            },
            [{"k": "z"}, {}],
            "FieldValueDuplicate",
            '{"k":"z"}',
        ),
        (
            {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string"}},
            {"a": "", "b": ""},
            "FieldValueTooMany",
            "at most 1 item",
        ),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"a": 1}, "FieldValueTypeInvalid", "spec.a"),
        ({"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 1}]}, 3, "FieldValueInvalid", "(anyOf)"),
        ({"type": "integer", "oneOf": [{"minimum": 1}, {"minimum": 2}]}, 3, "FieldValueInvalid", "(oneOf)"),
        ({"type": "integer", "not": {"minimum": 1}}, 3, "FieldValueInvalid", "(not)"),
        ({"type": "integer", "allOf": [{"minimum": 5}]}, 3, "FieldValueInvalid", "greater than or equal to 5"),
    ],
)
def test_each_word_of_a_schema_is_held(schema: Json, value: Any, reason: str, said: str) -> None:
    found = made(schema).validate({"spec": value})
    assert [error.reason for error in found] == [reason]
    assert said in str(found[0])


@pytest.mark.parametrize("value", [None, 1, "x", {"a": [None]}])
def test_place_without_a_type_takes_anything(value: Any) -> None:
    assert made({"x-kubernetes-preserve-unknown-fields": True}).validate({"spec": value}) == []


def test_null_stays_where_it_may_and_becomes_the_default_where_it_may_not() -> None:
    schema = made(
        {
            "type": "object",
            "properties": {
                "a": {"type": "string", "default": "d"},
                "b": {"type": "string", "default": "d", "nullable": True},
            },
        }
    )
    obj: Json = {"spec": {"a": None, "b": None}}
    schema.default(obj)
    assert obj == {"spec": {"a": "d", "b": None}}
    assert schema.validate(obj) == []


def test_null_that_may_not_be_is_dropped_where_no_default_stands() -> None:
    """interfaces.md 5: as PruneNonNullableNullsWithoutDefaults; in a list null stays, and is refused."""
    schema = made(
        {
            "type": "object",
            "properties": {
                "a": {"type": "string", "default": "d"},
                "b": {"type": "string", "nullable": True},
                "c": {"type": "string"},
                "l": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}},
                "m": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        }
    )
    given = {"spec": {"a": None, "b": None, "c": None, "l": [{"x": None}, None], "m": {"k": None, "n": "v"}}}
    kept, unknown, problems = schema.decode(given)
    assert kept == {"spec": {"a": None, "b": None, "l": [{}, None], "m": {"n": "v"}}}
    assert (unknown, problems) == ([], [])
    assert [error.reason for error in schema.validate(kept)] == ["FieldValueTypeInvalid", "FieldValueTypeInvalid"]


def test_defaults_are_not_shared_between_objects() -> None:
    schema = made(
        {
            "type": "object",
            "default": {},
            "properties": {"l": {"type": "array", "default": [], "items": {"type": "string"}}},
        }
    )
    first: Json = {}
    second: Json = {}
    schema.default(first)
    schema.default(second)
    first["spec"]["l"].append("x")
    assert second == {"spec": {"l": []}}


def test_embedded_resource_keeps_its_own_metadata() -> None:
    schema = made(
        {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    )
    obj = {"spec": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "nosuch": 1}, "spec": {"a": 1}}}
    pruned, unknown, problems = schema.decode(obj)
    assert pruned["spec"]["metadata"] == {"name": "x"}
    assert [field.path for field in unknown] == ["spec.metadata.nosuch"]
    assert problems == []


@pytest.mark.parametrize(
    ("rule", "value", "holds"),
    [
        ("self.a < 3", {"a": 2}, True),
        ("self.a < 3", {"a": 3}, False),
        ("has(self.b)", {"a": 1}, False),
        ("self.name.startsWith('x') && size(self.name) > 1", {"name": "xy"}, True),
        ("self.items.all(i, i > 0)", {"items": [1, 2]}, True),
        ("self.name.lowerAscii() == 'a'", {"name": "A"}, True),
        ("self.items.isSorted()", {"items": [2, 1]}, False),
    ],
)
def test_cel_rules_are_evaluated(rule: str, value: Json, holds: bool) -> None:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-validations": [{"rule": rule}]}},
    }
    found = schema_rules.evaluate(schema, {"spec": value}, None)
    assert (found == []) == holds
    if not holds:
        assert found[0].message == f"Invalid value: failed rule: {rule}"


def test_rule_that_does_not_compile_is_told_when_the_definition_is_made() -> None:
    schema = {"type": "object", "x-kubernetes-validations": [{"rule": "self.a <"}, {"rule": " "}]}
    found = schema_rules.problems(schema, "x")
    assert [error.path for error in found] == [f"x.x-kubernetes-validations[{i}].rule" for i in (0, 1)]
    assert "compilation failed" in found[0].message
    assert found[1].reason == "FieldValueRequired"


def test_rules_leave_the_recursion_limit_of_the_process_alone() -> None:
    before = sys.getrecursionlimit()
    rules = ["self.unique_to_this_test == 1", "(" * 2000 + "1" + ")" * 2000]
    schema = {
        "type": "object",
        "properties": {"unique_to_this_test": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": rule} for rule in rules],
    }
    found = schema_rules.problems(schema, "x")
    assert [error.path for error in found] == ["x.x-kubernetes-validations[1].rule"]
    assert "compilation failed: expression recursion limit exceeded: 250" in found[0].message
    found = schema_rules.evaluate(schema, {"unique_to_this_test": 1}, None)
    assert ["rule evaluation error" in error.message for error in found] == [True]
    assert sys.getrecursionlimit() == before


def test_rule_that_fails_while_it_runs_refuses_the_object() -> None:
    schema = {"type": "object", "x-kubernetes-validations": [{"rule": "self.nosuch > 1"}]}
    found = schema_rules.evaluate(schema, {"a": 1}, None)
    assert len(found) == 1
    assert "rule evaluation error" in found[0].message


def test_message_expressions_and_reasons_are_used() -> None:
    rule = {
        "rule": "self.a > 1",
        "messageExpression": "'a is ' + string(self.a)",
        "reason": "FieldValueForbidden",
        "fieldPath": ".a",
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-validations": [rule]}}}
    found = schema_rules.evaluate(schema, {"spec": {"a": 1}}, None)
    assert [(error.reason, error.path, error.message) for error in found] == [
        ("FieldValueForbidden", "spec.a", "Forbidden: a is 1")
    ]
