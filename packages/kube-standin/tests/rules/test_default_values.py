"""Defaults of a definition's schemas are values that the schemas take (interfaces.md 6.15)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.definitions import definition, fields, version
from tests.server.inprocess import Plane

Json = dict[str, Any]
PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
AT = "spec.validation.openAPIV3Schema.properties[a]"
NUMBER: Json = {"type": "integer", "minimum": 1}


@pytest.fixture
def plane() -> Iterator[Plane]:
    """A control plane."""
    found = Plane()
    yield found
    found.close()


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({**NUMBER, "default": 1}, []),
        ({**NUMBER, "default": 0}, [".default"]),
        ({**NUMBER, "default": "1"}, [".default"]),
        ({"type": "string", "enum": ["x", "y"], "default": "z"}, [".default"]),
        ({"type": "string", "nullable": True, "default": None}, []),
        ({**fields(n=NUMBER), "default": {}}, []),
        ({**fields(n=NUMBER), "required": ["n"], "default": {}}, [".default.n"]),
        ({**fields(n=NUMBER), "default": {"n": 0}}, [".default.n"]),
        ({**fields(n=NUMBER), "default": {"m": 1}}, [".default"]),
        ({**fields(n={**NUMBER, "default": 0})}, [".properties[n].default"]),
        ({"type": "array", "items": {**NUMBER, "default": 0}}, [".items.default"]),
        ({"type": "array", "items": NUMBER, "default": [1, 0]}, [".default[1]"]),
        (
            {**fields(n=NUMBER), "default": {"n": 1}, "x-kubernetes-validations": [{"rule": "self.n > 1"}]},
            [".default"],
        ),
        (
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "default": {"m": 1}},
            [],
        ),
    ],
)
def test_default_is_held_to_its_schema(plane: Plane, schema: Json, found: list[str]) -> None:
    answer = plane.ask(f"POST {PATH}", definition(version(schema=fields(a=schema))))
    if not found:
        assert answer.status == 201, answer.json
        return
    assert answer.status == 422
    assert [cause["field"] for cause in answer.json["details"]["causes"]] == [f"{AT}{path}" for path in found]


def test_update_is_held_to_schemas_that_it_changes(plane: Plane) -> None:
    made = plane.create(PATH, definition(version(schema=fields(a={**NUMBER, "default": 1}))))
    bad = definition(version(schema=fields(a={**NUMBER, "default": 0})))
    change = {"spec": {"versions": bad["spec"]["versions"]}}
    path = f"PATCH {PATH}/{made['metadata']['name']}"
    assert plane.ask(path, change, content_type="application/merge-patch+json").status == 422
