"""What the schema of a CustomResourceDefinition may say inside allOf, anyOf, oneOf and not (structural schemas)."""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.validation.definitions import structure

Json = dict[str, Any]
_BAD = {"pattern": "("}
_UNIQUE = {"uniqueItems": True}


def _of(**words: Any) -> Json:
    return {"type": "object", "properties": {"a": {"type": "string", **words}}}


@pytest.mark.parametrize("junctor", ["allOf", "anyOf", "oneOf"])
@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("type", "string"),
        ("default", "x"),
        ("additionalProperties", {}),
        ("nullable", True),
        ("x-kubernetes-preserve-unknown-fields", True),
        ("x-kubernetes-int-or-string", True),
        ("x-kubernetes-list-type", "set"),
        ("x-kubernetes-validations", [{"rule": "true"}]),
        ("title", "x"),
        ("description", "x"),
    ],
)
def test_junctor_says_nothing_of_structure(junctor: str, word: str, value: Any) -> None:
    """apiextensions (ValidateStructural): what a place is stands outside of allOf, anyOf and oneOf."""
    found = list(structure(_of(**{junctor: [{"minLength": 1}, {word: value}]}), "s", root=True))
    assert [(e.reason, e.path) for e in found] == [("FieldValueForbidden", f"s.properties[a].{junctor}[1].{word}")]


@pytest.mark.parametrize(
    ("schema", "fields"),
    [
        ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}, []),
        (
            {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer", "nullable": True}]},
            ["anyOf[0].type", "anyOf[0].nullable"],
        ),
        ({"x-kubernetes-int-or-string": True, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {}]}, []),
        (
            {"x-kubernetes-int-or-string": True, "allOf": [{}, {"anyOf": [{"type": "integer"}, {"type": "string"}]}]},
            ["allOf[1].anyOf[0].type", "allOf[1].anyOf[1].type"],
        ),
        ({"type": "string", "anyOf": [{"type": "string"}]}, ["anyOf[0].type"]),
    ],
)
def test_int_or_string_may_say_its_two_types(schema: Json, fields: list[str]) -> None:
    """The one case in which a junctor has types: x-kubernetes-int-or-string."""
    found = list(structure({"type": "object", "properties": {"a": schema}}, "s", root=True))
    assert [e.path for e in found] == [f"s.properties[a].{field}" for field in fields]


@pytest.mark.parametrize("words", [_BAD, _UNIQUE], ids=["pattern", "uniqueItems"])
@pytest.mark.parametrize(
    ("place", "inside"),
    [
        ("", lambda words: words),
        (".not", lambda words: {"not": words}),
        (".anyOf[0]", lambda words: {"anyOf": [words]}),
        (".anyOf[0].properties[b]", lambda words: {"anyOf": [{"properties": {"b": words}}]}),
        (".allOf[1].items", lambda words: {"allOf": [{}, {"items": words}]}),
        (".not.additionalProperties", lambda words: {"not": {"additionalProperties": words}}),
        (".not.not", lambda words: {"not": {"not": words}}),
        (".oneOf[0].allOf[0]", lambda words: {"oneOf": [{"allOf": [words]}]}),
    ],
)
def test_rules_of_more_than_linear_time_are_refused_at_every_depth(place: str, inside: Any, words: Json) -> None:
    """Patterns are compiled and uniqueItems is forbidden wherever a value can be described."""

    def found(schema: Json) -> list[str]:
        return [error.path for error in structure(_of(**inside(schema)), "s", root=True)]

    # That additionalProperties stands inside is a finding of its own.
    usual = found({"pattern": "^a+$", "uniqueItems": False})
    assert usual == (["s.properties[a].not.additionalProperties"] if "additional" in place else [])
    assert sorted(found(words)) == sorted([*usual, f"s.properties[a]{place}.{next(iter(words))}"])


@pytest.mark.parametrize(
    ("place", "inside"),
    [
        (".not", lambda words: {"not": words}),
        (".allOf[0].properties[b]", lambda words: {"allOf": [{"properties": {"b": words}}]}),
        (".oneOf[0].anyOf[0].items", lambda words: {"oneOf": [{"anyOf": [{"items": words}]}]}),
    ],
)
def test_cel_rules_are_refused_at_every_depth_of_a_junctor(place: str, inside: Any) -> None:
    """apiextensions (AllowNestedXValidations is off): nothing would evaluate them (interfaces.md 6.15)."""
    (error,) = structure(_of(**inside({"x-kubernetes-validations": [{"rule": "self > 1"}]})), "s", root=True)
    assert error.path == f"s.properties[a]{place}.x-kubernetes-validations"
    assert error.message == "Forbidden: must be empty to be structural"


def test_value_that_is_no_schema_is_left_alone() -> None:
    """additionalProperties may be a boolean; what else is wrong there is for the decoder to say."""
    inside = {"properties": {"b": True}, "items": [1]}
    assert list(structure(_of(allOf=[True], anyOf=[{"not": inside}]), "s", root=True)) == []
