"""What OpenAPI says of custom resources, in both versions (e2e crd_publish_openapi.go, openapi/v2/conversion.go)."""

from __future__ import annotations

from typing import Any

import pytest

from kube_standin import openapi
from kube_standin.kinds import ServedKind
from tests.recorded.shapes import custom_kind

Json = dict[str, Any]
NAME = "com.example.v1.Foo"
TEXT: Json = {"type": "string"}
KEEP = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
META = {"apiVersion", "kind", "metadata"}


def foo(schema: Json | None) -> ServedKind:
    version: Json = {} if schema is None else {"schema": {"openAPIV3Schema": schema}}
    return custom_kind("example.com", "v1", "Foo", definition={"name": "v1", **version})


def old(schema: Json | None) -> Json:
    """The schema in version 2."""
    found: Json = openapi.v2_document([foo(schema)])["definitions"][NAME]
    assert found.pop("x-kubernetes-group-version-kind") == [{"group": "example.com", "kind": "Foo", "version": "v1"}]
    return found


def new(schema: Json | None) -> Json:
    """The schema in version 3."""
    found: Json = openapi.v3_document("example.com/v1", [foo(schema)])["components"]["schemas"][NAME]
    return found


@pytest.mark.parametrize(
    "schema", [None, {"type": "object", KEEP: True}, {"type": "object", KEEP: True, "properties": {"a": TEXT}}]
)
def test_resource_that_keeps_unknown_fields_names_none_in_version_2(schema: Json | None) -> None:
    """Clients of version 2 would refuse all others."""
    assert old(schema) == {"type": "object"}


def test_version_3_names_all_fields() -> None:
    schema = {"type": "object", KEEP: True, "properties": {"a": TEXT}}
    found = new(schema)
    assert found[KEEP] is True
    assert set(found["properties"]) == {"a", *META}
    assert set(new({"type": "object"})["properties"]) == META


@pytest.mark.parametrize(
    ("given", "reduced"),
    [
        (TEXT, TEXT),
        ({**TEXT, "default": "x", "enum": ["x"]}, {**TEXT, "default": "x", "enum": ["x"]}),
        ({**TEXT, "nullable": True, "anyOf": [{"pattern": "a"}]}, {}),
        ({"type": "object", KEEP: True, "properties": {"b": TEXT}}, {KEEP: True}),
        ({"type": "array", "items": TEXT}, {"type": "array", "items": TEXT}),
        ({"type": "array", "items": {"type": "object", KEEP: True}}, {"type": "array", "items": {KEEP: True}}),
        ({"type": "array", KEEP: True, "items": TEXT}, {KEEP: True}),
        (
            {"type": "object", "required": ["b", "c"], "properties": {"b": {**TEXT, "nullable": True}, "c": TEXT}},
            {"type": "object", "required": ["c"], "properties": {"b": {}, "c": TEXT}},
        ),
        (
            {"type": "object", "required": ["b"], "properties": {"b": {**TEXT, "nullable": True}}},
            {"type": "object", "properties": {"b": {}}},
        ),
        ({"x-kubernetes-validations": [{"rule": "true"}]}, {"x-kubernetes-validations": [{"rule": "true"}]}),
        ({"type": "object", EMBEDDED: True, KEEP: True}, {EMBEDDED: True, KEEP: True}),
    ],
)
def test_what_version_2_has_no_words_for_is_left_out(given: Json, reduced: Json) -> None:
    schema = {"type": "object", "description": "Foo", "properties": {"a": given}}
    found = old(schema)
    assert found["properties"].pop("a") == reduced
    assert set(found.pop("properties")) == META
    assert found == {"type": "object", "description": "Foo"}


def test_embedded_resources_have_the_fields_of_all_resources() -> None:
    schema = {"type": "object", "properties": {"t": {"type": "object", EMBEDDED: True, "properties": {"spec": TEXT}}}}
    for found in (old(schema), new(schema)):
        template = found["properties"]["t"]
        assert set(template["properties"]) == {"spec", *META}
        assert template["required"] == ["kind", "apiVersion"]
    free = {"type": "object", "properties": {"t": {"type": "object", EMBEDDED: True, KEEP: True}}}
    assert set(new(free)["properties"]["t"]["properties"]) == META
