"""What a schema may make the server do: patterns, CEL rules, lists that are sets, defaults."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kube_rules import patterns
from kube_rules.cel import schema_rules
from kube_rules.step_budget import StepBudget, TooMuchAtOnceError
from kube_rules.validation import definitions
from kube_standin.schema.structural import MOST_ERRORS, DefaultsTooLargeError, Structural

Json = dict[str, Any]
ROOM = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)
DEADLINE = 10.0
"""CPU seconds; on a quiet machine each of these takes a seventh of that at most, on a busy one twice as much."""
MORE = f"exceeds budget by factor of more than 100x {ROOM}"


def at(spec: Json) -> Structural:
    return Structural({"type": "object", "properties": {"spec": spec}})


# -- patterns ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "value", "found"),
    [
        (r"^[a-z]+$", "abc", True),
        (r"b", "abc", True),
        (r"^b", "abc", False),
        (r"\d+\z", "a1", True),
        (r"^\pL+$", "é", True),
        (r"(?i)ABC", "xabc", True),
        (r"^[[:alpha:]]$", "1", False),
    ],
)
def test_patterns_are_those_of_re2(pattern: str, value: str, found: bool) -> None:
    assert patterns.pattern(pattern).found_in(value) is found
    assert (at({"type": "string", "pattern": pattern}).validate({"spec": value}) == []) is found


@pytest.mark.parametrize("pattern", [r"^(a+)+$", r"^(a|a)*$", r"^(a|aa)+$", r"(.*)*=", r"^([a-z]+\d*)+$", r"(x+x+)+y"])
def test_no_pattern_takes_long(pattern: str) -> None:
    begin = time.process_time()
    found = at({"type": "string", "pattern": pattern}).validate({"spec": "ax" * 50_000 + "!"})
    assert time.process_time() - begin < DEADLINE
    assert "should match" in found[0].message


@pytest.mark.parametrize(
    "pattern",
    [r"(", r"a**", r"[z-a]", r"(?=a)", r"(?<!a)b", r"(a)\1", r"a\Z", r"\p{Nope}", r"x{1001}",
     "(" * 2000 + "a" + ")" * 2000, "((a{100}){100}){100}", "a" * 20_000, "\ud800"],
    ids=lambda pattern: repr(pattern[:16]),
)  # fmt: skip
@pytest.mark.parametrize("place", ["spec", "anyOf", "not", "items"])
def test_pattern_that_cannot_be_read_is_refused_with_the_definition(pattern: str, place: str) -> None:
    inner: Json = {"type": "string", "pattern": pattern}
    if place == "anyOf":
        inner = {"type": "string", "anyOf": [{"minLength": 1}, {"pattern": pattern}]}
    elif place == "not":
        inner = {"type": "string", "not": {"allOf": [{"pattern": pattern}]}}
    elif place == "items":
        inner = {"type": "array", "items": inner}
    schema: Json = {"type": "object", "properties": {"spec": inner}}
    found = [error for error in definitions.structure(schema, "x", root=True) if error.path.endswith(".pattern")]
    assert len(found) == 1
    assert "must be a valid regular expression, but isn't: error parsing regexp: " in found[0].message


@pytest.mark.parametrize("place", ["spec", "anyOf", "not", "items"])
@pytest.mark.parametrize("unique", [True, False])
def test_unique_items_are_refused_with_the_definition(place: str, unique: bool) -> None:
    """As upstream: a set (`x-kubernetes-list-type`) is what is checked in linear time."""
    inner: Json = {"type": "array", "items": {"type": "string"}, "uniqueItems": unique}
    if place in ("anyOf", "not"):
        word: Json = {"uniqueItems": unique}
        inner = {"type": "array", "items": {"type": "string"}, place: [word] if place == "anyOf" else word}
    elif place == "items":
        inner = {"type": "array", "items": inner}
    schema: Json = {"type": "object", "properties": {"spec": inner}}
    found = [error.message for error in definitions.structure(schema, "x", root=True)]
    said = "Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
    assert found == ([said] if unique else [])


def test_deep_parentheses_are_a_pattern_up_to_the_limit() -> None:
    assert patterns.pattern("(" * 900 + "a" + ")" * 900).found_in("xa")
    assert patterns.pattern(r"[(]" * 900 + r"\(" * 900 + "[](]" * 900).size > 0


def test_searching_is_bounded_for_an_object_as_a_whole() -> None:
    """Linear in the text is still text times pattern; no schema makes a second of it."""
    schema = at({"type": "array", "items": {"type": "string", "pattern": "(a|b)*a(a|b){900}c"}})
    begin = time.process_time()
    found = schema.validate({"spec": ["ab" * 1000] * 1500})
    assert time.process_time() - begin < DEADLINE
    assert found[-1].message == "Forbidden: searching for the patterns of this object takes too long"


# -- rules ------------------------------------------------------------------------------------------------------------


def ruled(rule: str, inner: Json, **more: Any) -> Json:
    validation = {"rule": rule, **more}
    return {"type": "object", "properties": {"spec": {**inner, "x-kubernetes-validations": [validation]}}}


LIST: Json = {"type": "array", "items": {"type": "string"}}
PATH = "spec.validation.openAPIV3Schema"
RULE = f"{PATH}.properties[spec].x-kubernetes-validations[0].rule"


def problems(schema: Json) -> list[tuple[str, str, str]]:
    return [(error.reason, error.path, error.message) for error in schema_rules.problems(schema, PATH)]


def test_rule_that_may_cost_too_much_is_refused_in_upstreams_words() -> None:
    """All three of them: its own limit, what it adds to the schema's, and the schema's."""
    assert problems(ruled("self.all(x, x.contains('gpu'))", LIST)) == [
        ("FieldValueForbidden", RULE, f"Forbidden: estimated rule cost {MORE}"),
        (
            "FieldValueForbidden",
            RULE,
            "Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
        ),
        (
            "FieldValueForbidden",
            PATH,
            f"Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema {MORE}",
        ),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("items", "factor"), [(909_090, None), (909_091, "1.000000x"), (1_200_000, "1.320000x"), (2_700_000, "3.0x")]
)
def test_bounds_of_the_schema_bound_the_estimate(items: int, factor: str | None) -> None:
    short = {"type": "array", "maxItems": items, "items": {"type": "string", "maxLength": 16}}
    found = problems(ruled("self.all(x, x.contains('gpu'))", short))
    if factor is None:
        assert found == []
    else:
        assert found[0][2] == f"Forbidden: estimated rule cost exceeds budget by factor of {factor} {ROOM}"


def test_rule_on_items_counts_for_each_of_them() -> None:
    """A rule under a list runs as often as the list has items; without maxItems as often as fit into a request."""
    item: Json = {"type": "string", "maxLength": 1000, "x-kubernetes-validations": [{"rule": "self.contains('gpu')"}]}
    few = {"type": "object", "properties": {"l": {"type": "array", "maxItems": 100, "items": item}}}
    many = {"type": "object", "properties": {"l": {"type": "array", "items": item}}}
    nested = {"type": "object", "properties": {"m": {"type": "object", "additionalProperties": many}}}
    assert problems(few) == []
    where = f"{PATH}.properties[l].items.x-kubernetes-validations[0].rule"
    assert problems(many)[0][:2] == ("FieldValueForbidden", where)
    assert any("estimated rule cost exceeds" in message for _, _, message in problems(nested))


def test_many_rules_together_have_a_limit_too() -> None:
    short = {"type": "array", "maxItems": 800_000, "items": {"type": "string", "maxLength": 16}}
    spec = ruled("self.all(x, x.contains('gpu'))", short)["properties"]["spec"]
    schema = {"type": "object", "properties": {f"p{n}": spec for n in range(12)}}
    found = problems(schema)
    assert len(found) == 5
    assert {message for _, _, message in found[:4]} == {
        "Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
    }
    assert found[4][1] == PATH
    assert "exceeds budget by factor of 1.056" in found[4][2]


def test_message_expressions_are_estimated() -> None:
    schema = ruled("true", LIST, messageExpression="self.map(x, x + x).join(',')")
    assert problems(schema)[0][1].endswith(".messageExpression")
    assert "estimated messageExpression cost exceeds budget" in problems(schema)[0][2]


def test_text_of_rules_has_a_limit() -> None:
    rules = [{"rule": f"self == {n} || " * 500 + "true"} for n in range(100)]
    schema = {"type": "object", "properties": {"p": {"type": "integer", "x-kubernetes-validations": rules}}}
    begin = time.process_time()
    assert "characters together" in problems(schema)[-1][2]
    assert time.process_time() - begin < DEADLINE


def test_evaluation_stops_at_the_limit_of_a_call_and_runs_no_further_rule() -> None:
    rules = [{"rule": "self.all(x, self.exists(y, y == -x) || true)"}, {"rule": "false"}]
    schema = {"type": "object", "properties": {"spec": {"type": "array", "x-kubernetes-validations": rules}}}
    found = schema_rules.evaluate(schema, {"spec": list(range(1, 5000))}, None)
    assert [(error.reason, error.path, error.message) for error in found] == [
        (
            "FieldValueInvalid",
            "spec",
            "Invalid value: 'operation cancelled: actual cost limit exceeded': no further validation rules will be run "
            "due to call cost exceeds limit for rule: self.all(x, self.exists(y, y == -x) || true)",
        )
    ]


def test_evaluation_stops_at_the_budget_of_an_object() -> None:
    item = {"type": "array", "x-kubernetes-validations": [{"rule": "self.all(x, self.exists(y, y == -x) || true)"}]}
    schema = {"type": "object", "properties": {"spec": {"type": "array", "items": item}}}
    begin = time.process_time()
    found = schema_rules.evaluate(schema, {"spec": [list(range(1, 300))] * 50}, None)
    assert time.process_time() - begin < DEADLINE
    assert found[-1].message == (
        "Invalid value: validation failed due to running out of cost budget, no further validation rules will be run"
    )
    assert len(found) == 1


# -- the rest ---------------------------------------------------------------------------------------------------------

SET: Json = {"type": "array", "x-kubernetes-list-type": "set"}
MAP: Json = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    "items": {"type": "object", "properties": {"k": {"type": "string"}}},
}


@pytest.mark.parametrize("unlike", [lambda n: n, str, lambda n: [n], lambda n: {"a": {"b": n}}, lambda n: n / 2])
def test_set_is_checked_in_linear_time(unlike: Any) -> None:
    items = [unlike(n) for n in range(100_000)]
    begin = time.process_time()
    assert at(SET).validate({"spec": items}) == []
    found = at(SET).validate({"spec": [*items, unlike(7)]})
    assert time.process_time() - begin < DEADLINE
    assert [(error.reason, error.path) for error in found] == [("FieldValueDuplicate", "spec[100000]")]


def test_list_with_keys_is_checked_in_linear_time() -> None:
    items = [{"k": str(n)} for n in range(100_000)]
    begin = time.process_time()
    assert at(MAP).validate({"spec": items}) == []
    assert time.process_time() - begin < DEADLINE
    assert [error.path for error in at(MAP).validate({"spec": [*items, {"k": "9"}]})] == ["spec[100000]"]


@pytest.mark.parametrize(("one", "other", "alike"), [(1, 1.0, False), (1, True, False), (0, False, False),
                                                     ("1", 1, False), ({"a": 1, "b": []}, {"b": [], "a": 1}, True),
                                                     ([], {}, False), (None, "null", False)])  # fmt: skip
def test_set_items_that_count_as_the_same(one: Any, other: Any, alike: bool) -> None:
    schema = at({**SET, "items": {"x-kubernetes-preserve-unknown-fields": True}})
    assert bool(schema.validate({"spec": [one, other]})) is alike


def test_transition_rules_find_their_old_items_in_linear_time() -> None:
    items = {**MAP["items"], "x-kubernetes-validations": [{"rule": "self.k == oldSelf.k"}]}
    schema = at({**MAP, "items": items})
    objects = {"spec": [{"k": str(n)} for n in range(20_000)]}
    begin = time.process_time()
    assert schema.validate(objects, objects) == []
    assert time.process_time() - begin < DEADLINE


def test_findings_are_counted() -> None:
    found = at({"type": "array", "items": {"type": "integer"}}).validate({"spec": ["x"] * 100_000})
    assert len(found) == MOST_ERRORS


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "integer", "anyOf": [{"minimum": n} for n in range(-5000, 0)]}},
        {"type": "array", "items": {"type": "integer", "oneOf": [{"minimum": n} for n in range(5000)]}},
        {"type": "array", "items": {"type": "string", "enum": [str(n) for n in range(100_000)]}},
        {"type": "array", "items": {"type": "object", "required": [str(n) for n in range(100_000)]}},
    ],
)
def test_checking_has_a_limit(schema: Json) -> None:
    value = {"integer": 1, "string": "99999", "object": {}}[schema["items"]["type"]]
    begin = time.process_time()
    found = at(schema).validate({"spec": [value] * 50_000})
    assert time.process_time() - begin < DEADLINE
    assert found
    assert (
        found[-1].message == "Forbidden: checking this object against its schema takes too long"
        or len(found) >= MOST_ERRORS
    )


def test_checking_on_the_event_loop_gives_up_early() -> None:
    schema = at({"type": "array", "items": {"type": "integer"}})
    assert schema.validate({"spec": [1] * 10_000}, budget=StepBudget(inline=True)) == []
    with pytest.raises(TooMuchAtOnceError):
        schema.validate({"spec": [1] * 100_000}, budget=StepBudget(inline=True))


@pytest.mark.parametrize(
    "inner",
    [
        {"type": "object", "properties": {"d": {"type": "string", "default": "x" * 100_000}}},
        {"type": "object", "properties": {"d": {"type": "array", "default": [0] * 1000, "items": {"type": "integer"}}}},
        {"type": "object", "properties": {f"p{n}": {"type": "string", "default": ""} for n in range(1000)}},
    ],
)
def test_defaults_cannot_make_a_large_object_of_a_small_one(inner: Json) -> None:
    schema = at({"type": "array", "items": inner})
    begin = time.process_time()
    with pytest.raises(DefaultsTooLargeError):
        schema.default({"spec": [{} for _ in range(50_000)]})
    assert time.process_time() - begin < DEADLINE


def test_schema_without_defaults_costs_nothing_to_fill_in() -> None:
    inner = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(10_000)}}
    schema = at({"type": "array", "items": inner})
    begin = time.process_time()
    schema.default({"spec": [{} for _ in range(100_000)]})
    assert time.process_time() - begin < DEADLINE
