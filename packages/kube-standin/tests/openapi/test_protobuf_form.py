"""OpenAPI v2 in its protobuf form, read back by the numbers of gnostic's OpenAPIv2.proto: the document is whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from kube_standin import openapi
from kube_standin.kinds import BUILTIN, ServedKind
from kube_standin.protobuf import wire
from tests.recorded.shapes import custom_kind

Json = dict[str, Any]
Read = Callable[[Any], Any]


class Field(NamedTuple):
    """What a field of a message is in the document; `each`: one item of a list."""

    word: str
    read: Read
    each: bool = False


def text(data: bytes) -> str:
    return data.decode()


def only(number: int, read: Read) -> Read:
    """A message with one field, which stands for its value."""

    def reading(data: bytes) -> Any:
        [(found, _, value)] = wire.fields(data)
        assert found == number
        return read(value)

    return reading


def entries(number: int, read: Read) -> Read:
    """A map: repeated messages of a name (1) and a value (2)."""

    def reading(data: bytes) -> Json:
        found = {}
        for at, _, entry in wire.fields(data):
            assert at == number
            assert isinstance(entry, bytes)
            (first, _, name), *rest = wire.fields(entry)
            assert first == 1
            assert isinstance(name, bytes)
            [(second, _, value)] = rest
            assert second == 2
            found[name.decode()] = read(value)
        return found

    return reading


def message(fields: Callable[[], Mapping[int, Field]], extensions: int = 0) -> Read:
    """An object, with the fields in the order of their numbers; `extensions` is the number of what begins with x-."""

    def reading(data: bytes) -> Json:
        found: Json = {}
        numbers = []
        for number, _, value in wire.fields(data):
            numbers.append(number)
            if number == extensions:
                assert isinstance(value, bytes)
                (_, _, name), (_, _, packed) = wire.fields(value)
                assert isinstance(name, bytes)
                assert name.startswith(b"x-")
                found[name.decode()] = anything(packed)
                continue
            field = fields()[number]
            if field.each:
                found.setdefault(field.word, []).append(field.read(value))
            else:
                assert field.word not in found
                found[field.word] = field.read(value)
        assert numbers == sorted(numbers)
        return found

    return reading


def number(value: int) -> int:
    return value


def anything(data: Any) -> Any:
    """gnostic's Any: YAML text in field 2."""
    return only(2, json.loads)(data)


SCHEMA: dict[int, Field] = {
    1: Field("$ref", text),
    2: Field("format", text),
    4: Field("description", text),
    11: Field("maxLength", number),
    12: Field("minLength", number),
    13: Field("pattern", text),
    14: Field("maxItems", number),
    15: Field("minItems", number),
    17: Field("maxProperties", number),
    18: Field("minProperties", number),
    19: Field("required", text, each=True),
    20: Field("enum", anything, each=True),
}
schema = message(lambda: SCHEMA, 31)
SCHEMA |= {
    21: Field("additionalProperties", only(1, schema)),
    22: Field("type", only(1, text)),
    23: Field("items", only(1, schema)),
    25: Field("properties", entries(1, schema)),
}
ABOUT = {1: Field("required", bool), 2: Field("in", text), 3: Field("description", text), 4: Field("name", text)}
QUERY = {**ABOUT, 6: Field("type", text), 20: Field("uniqueItems", bool)}
PATH = {**ABOUT, 5: Field("type", text), 19: Field("uniqueItems", bool)}
BODY = {2: Field("name", text), 3: Field("in", text), 4: Field("required", bool), 5: Field("schema", schema)}


def parameter(data: bytes) -> Json:
    """ParametersItem.parameter (1), of a body (1) or not (2), and then in a query (3) or in the path (4)."""
    [(at, _, one)] = wire.fields(data)
    assert at == 1
    assert isinstance(one, bytes)
    [(which, _, inner)] = wire.fields(one)
    if which == 1:
        found: Json = message(lambda: BODY)(inner)
    else:
        assert which == 2
        assert isinstance(inner, bytes)
        [(place, _, rest)] = wire.fields(inner)
        found = message(lambda: {3: QUERY, 4: PATH}[place])(rest)
        assert found["in"] == {3: "query", 4: "path"}[place]
    return found


RESPONSE = {1: Field("description", text), 2: Field("schema", only(1, schema))}
OPERATION = {
    1: Field("tags", text, each=True),
    3: Field("description", text),
    5: Field("operationId", text),
    6: Field("produces", text, each=True),
    7: Field("consumes", text, each=True),
    8: Field("parameters", parameter, each=True),
    9: Field("responses", entries(1, only(1, message(lambda: RESPONSE)))),
    10: Field("schemes", text, each=True),
}
METHODS = {2: "get", 3: "put", 4: "post", 5: "delete", 6: "options", 7: "head", 8: "patch"}
PATH_ITEM = {
    **{at: Field(method, message(lambda: OPERATION, 13)) for at, method in METHODS.items()},
    9: Field("parameters", parameter, each=True),
}
KEY = {1: Field("type", text), 2: Field("name", text), 3: Field("in", text), 4: Field("description", text)}


def scopes(data: bytes) -> list[str]:
    return [value.decode() for _, _, value in wire.fields(data) if isinstance(value, bytes)]


document = message(
    lambda: {
        1: Field("swagger", text),
        2: Field("info", message(lambda: {1: Field("title", text), 2: Field("version", text)})),
        8: Field("paths", entries(2, message(lambda: PATH_ITEM))),
        9: Field("definitions", entries(1, schema)),
        12: Field("security", entries(1, scopes), each=True),
        13: Field("securityDefinitions", entries(1, only(2, message(lambda: KEY)))),
    }
)


def said(value: Any) -> Any:
    """The document without what protobuf does not write: texts and lists that are empty, and what is not so."""
    if isinstance(value, dict):
        return {key: said(inner) for key, inner in value.items() if inner is not False and inner not in ("", [])}
    return [said(inner) for inner in value] if isinstance(value, list) else value


BOUNDED: Json = {
    "schema": {
        "openAPIV3Schema": {
            "type": "object",
            "description": "Words that built-in kinds do not use.",
            "required": ["spec"],
            "properties": {
                "spec": {
                    "type": "object",
                    "minProperties": 0,
                    "maxProperties": 9,
                    "properties": {
                        "name": {"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z]+$"},
                        "many": {"type": "array", "minItems": 2, "maxItems": 5, "items": {"type": "integer"}},
                        "mode": {"type": "string", "enum": ["a", "b"]},
                        "map": {"type": "object", "additionalProperties": {"type": "integer", "format": "int32"}},
                        "open": {"type": "object", "additionalProperties": True},
                        "kept": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    },
                }
            },
        }
    }
}


@pytest.fixture(scope="module")
def kinds() -> list[ServedKind]:
    made = custom_kind("wire.example.com", "v1", "Gang", subresources=frozenset({"status"}), definition=BOUNDED)
    return [*(kind for kind in BUILTIN if kind.group in ("", "scheduling.k8s.io")), made]


def test_read_back_it_is_the_document(kinds: list[ServedKind]) -> None:
    assert said(document(openapi.v2_protobuf(kinds))) == said(openapi.v2_document(kinds))


def test_custom_schema_in_version_2_keeps_what_version_2_knows(kinds: list[ServedKind]) -> None:
    """A map of anything is an object; the words of version 2 stay, at every depth."""
    spec = openapi.v2_document(kinds)["definitions"]["com.example.wire.v1.Gang"]["properties"]["spec"]
    given = BOUNDED["schema"]["openAPIV3Schema"]["properties"]["spec"]
    fields = {**given["properties"], "open": {"type": "object"}}
    assert {name: {**fields[name], **found} for name, found in spec["properties"].items()} == fields
    for name in ("name", "many", "mode", "map", "open"):
        assert spec["properties"][name] == fields[name]
    assert (spec["minProperties"], spec["maxProperties"]) == (0, 9)


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_parameters_in_the_path_are_required_and_those_in_the_query_are_not(
    version: str, kinds: list[ServedKind]
) -> None:
    whole = openapi.v2_document(kinds) if version == "v2" else openapi.v3_document("v1", kinds)
    seen = set()
    for item in whole["paths"].values():
        operations = [found for method, found in item.items() if method != "parameters"]
        for one in (*item.get("parameters", ()), *(each for found in operations for each in found["parameters"])):
            if one["in"] != "body":
                seen.add(one["in"])
                assert one.get("required", False) is (one["in"] == "path"), one
    assert seen == {"path", "query"}


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_schemas_of_bodies_are_in_the_document(version: str, kinds: list[ServedKind]) -> None:
    """Of kinds that no answer names: an Eviction is sent, and a Binding."""
    pods = [kind for kind in kinds if kind.kind == "Pod"]
    whole = openapi.v2_document(pods) if version == "v2" else openapi.v3_document("v1", pods)
    schemas = whole["definitions"] if version == "v2" else whole["components"]["schemas"]
    for name in ("io.k8s.api.core.v1.Binding", "io.k8s.api.policy.v1.Eviction"):
        assert name in schemas
    assert "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions" in schemas
