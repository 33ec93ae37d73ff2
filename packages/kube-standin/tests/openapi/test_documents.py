"""OpenAPI documents: what clients look up in them (transcripts 015, 016) and that they hold together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kube_standin import openapi
from kube_standin.kinds import BUILTIN, ServedKind
from kube_standin.openapi import operations
from kube_standin.protobuf import wire
from tests.recorded.oracle import needs_transcripts, transcript
from tests.recorded.shapes import custom_kind, shape

Json = dict[str, Any]
GROUP_VERSIONS = sorted({kind.api_version for kind in BUILTIN})
V2 = openapi.v2_document(BUILTIN)


GANG: Json = {
    "schema": {
        "openAPIV3Schema": {
            "type": "object",
            "properties": {"spec": {"type": "object", "nullable": True, "properties": {"ios": {
                "x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}}}},
        }
    }
}  # fmt: skip


def custom(definition: Json = GANG) -> ServedKind:
    """A custom resource as the table of kinds has it."""
    subresources = frozenset({"status", "scale"})
    return custom_kind("wire.example.com", "v1", "Gang", subresources=subresources, definition=definition)


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "$ref" and isinstance(inner, str):
                yield inner
            else:
                yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


@needs_transcripts
def test_paths_and_operations_are_the_recorded_ones() -> None:
    recorded = transcript(16).answer
    document = openapi.v3_document("scheduling.k8s.io/v1alpha2", BUILTIN)
    for path, item in recorded["paths"].items():
        for method, operation in item.items():
            mine = document["paths"][path][method]
            assert {word: mine.get(word) for word in operation} == operation


@needs_transcripts
def test_schemas_have_the_recorded_types() -> None:
    recorded = transcript(16).answer["components"]["schemas"]
    schemas = openapi.v3_document("scheduling.k8s.io/v1alpha2", BUILTIN)["components"]["schemas"]
    for name, schema in recorded.items():
        mine = schemas[name]
        assert mine.get("required") == schema.get("required")
        assert set(mine["properties"]) == set(schema["properties"])
        for field, spec in schema["properties"].items():
            for word in ("type", "format", "allOf", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"):
                assert mine["properties"][field].get(word) == spec.get(word), (name, field, word)


@needs_transcripts
def test_index_has_the_recorded_form() -> None:
    mine = openapi.v3_index(BUILTIN)["paths"]
    for path, entry in transcript(15).answer["paths"].items():
        if (path not in ("api", "apis", "version") and path.count("/") != 1) or path == "api/v1":
            assert mine[path]["serverRelativeURL"].partition("=")[0] == entry["serverRelativeURL"].partition("=")[0]


def test_hash_in_the_index_follows_the_content() -> None:
    first = openapi.v3_index([*BUILTIN, custom()])["paths"]["apis/wire.example.com/v1"]

    changed = custom({"schema": {"openAPIV3Schema": {"type": "object"}}})
    assert openapi.v3_index([*BUILTIN, custom()])["paths"]["apis/wire.example.com/v1"] == first
    assert openapi.v3_index([*BUILTIN, changed])["paths"]["apis/wire.example.com/v1"] != first


@pytest.mark.parametrize("group_version", [*GROUP_VERSIONS, "wire.example.com/v1"])
def test_every_reference_of_version_3_leads_somewhere(group_version: str) -> None:
    document = openapi.v3_document(group_version, [*BUILTIN, custom()])
    schemas = document["components"]["schemas"]
    for reference in references(document):
        assert reference.removeprefix("#/components/schemas/") in schemas, reference
    assert document["paths"]


def test_every_reference_of_version_2_leads_somewhere() -> None:
    document = openapi.v2_document([*BUILTIN, custom()])
    for reference in references(document):
        assert reference.removeprefix("#/definitions/") in document["definitions"], reference


def test_operation_ids_are_unique() -> None:
    found = [op.operation_id for kind in BUILTIN for op in operations.operations(kind)]
    assert len(found) == len(set(found))


def test_every_parameter_in_a_path_is_described() -> None:
    for path, item in V2["paths"].items():
        named = {f"{{{parameter['name']}}}" for parameter in item.get("parameters", ())}
        assert {step for step in path.split("/") if step.startswith("{")} == named


def test_every_kind_is_found_by_its_group_version_and_kind() -> None:
    """kubectl looks kinds up by this extension, in both versions, and field validation in their patch
    operation.
    """
    for kind in BUILTIN:
        wanted = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        documents = (openapi.v3_document(kind.api_version, BUILTIN)["components"]["schemas"], V2["definitions"])
        for schemas in documents:
            assert any(wanted in s.get("x-kubernetes-group-version-kind", ()) for s in schemas.values())
        for operation in operations.operations(kind):
            if operation.method == "patch" and operation.gvk == wanted:
                assert {"fieldValidation", "dryRun", "force"} <= {p.name for p in operation.parameters}


def test_merge_keys_and_list_types_are_there() -> None:
    schemas = openapi.v3_document("v1", BUILTIN)["components"]["schemas"]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert schemas["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]["format"] == "int-or-string"


def test_custom_resource_is_described_by_its_own_schema() -> None:
    schemas = openapi.v3_document("wire.example.com/v1", [custom()])["components"]["schemas"]
    gang = schemas["com.example.wire.v1.Gang"]
    assert gang["properties"]["spec"]["nullable"] is True
    assert set(gang["properties"]) == {"spec", "apiVersion", "kind", "metadata"}
    assert "com.example.wire.v1.GangList" in schemas
    plain = openapi.v2_document([custom()])["definitions"]["com.example.wire.v1.Gang"]
    assert "nullable" not in plain["properties"]["spec"]
    assert "properties" not in plain["properties"]["spec"], "kubectl reads no parts of what may be null"
    patch = openapi.v3_document("wire.example.com/v1", [custom()])["paths"]
    item = patch["/apis/wire.example.com/v1/namespaces/{namespace}/gangs/{name}"]
    assert not any("strategic" in media for media in item["patch"]["requestBody"]["content"])


def _strings(data: bytes, number: int) -> list[bytes]:
    return [value for field, _, value in wire.fields(data) if field == number and isinstance(value, bytes)]


def _one(data: bytes, *numbers: int) -> bytes:
    for number in numbers:
        data = _strings(data, number)[0]
    return data


def test_protobuf_form_holds_the_same_document() -> None:
    """openapi.v2.Document: 8 paths (2 name and value), 9 definitions (1 name and value)."""
    packed = openapi.v2_protobuf(BUILTIN)
    assert packed is not None
    definitions = {_one(entry, 1).decode(): _one(entry, 2) for entry in _strings(_one(packed, 9), 1)}
    assert set(definitions) == set(V2["definitions"])
    paths = {_one(entry, 1).decode(): _one(entry, 2) for entry in _strings(_one(packed, 8), 2)}
    assert set(paths) == set(V2["paths"])
    pod = definitions["io.k8s.api.core.v1.Pod"]
    fields = {_one(entry, 1).decode(): _one(entry, 2) for entry in _strings(_one(pod, 25), 1)}
    assert _one(fields["spec"], 1) == b"#/definitions/io.k8s.api.core.v1.PodSpec"
    assert _one(fields["kind"], 22, 1) == b"string"
    extension = _strings(pod, 31)[0]
    assert _one(extension, 1) == b"x-kubernetes-group-version-kind"
    assert b'"kind":"Pod"' in _one(extension, 2, 2)
    read = _one(paths["/api/v1/namespaces/{namespace}/pods/{name}"], 2)
    assert _one(read, 5) == b"readCoreV1NamespacedPod"
    patch = _one(paths["/api/v1/namespaces/{namespace}/pods/{name}"], 8)
    names = [_one(item, 1, 2, 3, 4) for item in _strings(patch, 8)[1:]]
    assert b"fieldValidation" in names


def test_tags_and_group_words() -> None:
    words = {kind.group: operations.tag(kind) for kind in BUILTIN if kind.version == "v1"}
    assert words[""] == "core_v1"
    assert words["rbac.authorization.k8s.io"] == "rbacAuthorization_v1"
    assert words["scheduling.k8s.io"] == "scheduling_v1"
    assert shape("v1", "Pod").api_version == "v1"
