"""Operations and schemas of OpenAPI documents: each rule by which they follow from the table of kinds.

Ids, actions, codes and parameters are kube-apiserver's, for generated clients are named by them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kube_standin import openapi
from kube_standin.kinds import BUILTIN, STREAMS, ServedKind
from kube_standin.openapi import components, operations
from kube_standin.openapi.components import V2, V3
from tests.recorded.shapes import custom_kind, shape

Json = dict[str, Any]
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
STATUS, OPTIONS, PATCH = f"{META}Status", f"{META}DeleteOptions", f"{META}Patch"
POD, PODS = "io.k8s.api.core.v1.Pod", "io.k8s.api.core.v1.PodList"
READ, WRITE = "pretty resourceVersion", "pretty dryRun fieldManager fieldValidation"
LIST = (
    "pretty allowWatchBookmarks continue fieldSelector labelSelector limit resourceVersion resourceVersionMatch "
    "sendInitialEvents timeoutSeconds watch"
)
DELETE = "pretty dryRun gracePeriodSeconds orphanDependents propagationPolicy"
DELETE_MANY = (
    "pretty continue dryRun fieldSelector gracePeriodSeconds labelSelector limit orphanDependents propagationPolicy "
    "resourceVersion resourceVersionMatch sendInitialEvents timeoutSeconds"
)
MANY = "/api/v1/namespaces/{namespace}/pods"
ONE = f"{MANY}/{{name}}"
BINDING, EVICTION = "io.k8s.api.core.v1.Binding", "io.k8s.api.policy.v1.Eviction"

OF_PODS = {
    "listCoreV1NamespacedPod": (MANY, "get", "list", LIST, (PODS,), None, (200,)),
    "listCoreV1PodForAllNamespaces": ("/api/v1/pods", "get", "list", LIST, (PODS,), None, (200,)),
    "createCoreV1NamespacedPod": (MANY, "post", "post", WRITE, (POD,), POD, (200, 201, 202)),
    "deleteCoreV1CollectionNamespacedPod": (
        MANY, "delete", "deletecollection", DELETE_MANY, (STATUS, PODS), OPTIONS, (200,)),
    "readCoreV1NamespacedPod": (ONE, "get", "get", READ, (POD,), None, (200,)),
    "replaceCoreV1NamespacedPod": (ONE, "put", "put", WRITE, (POD,), POD, (200, 201)),
    "patchCoreV1NamespacedPod": (ONE, "patch", "patch", f"{WRITE} force", (POD,), PATCH, (200, 201)),
    "deleteCoreV1NamespacedPod": (ONE, "delete", "delete", DELETE, (STATUS, POD), OPTIONS, (200, 202)),
    "createCoreV1NamespacedPodBinding": (
        f"{ONE}/binding", "post", "post", WRITE, (STATUS, BINDING), BINDING, (200, 201, 202)),
    "createCoreV1NamespacedPodEviction": (
        f"{ONE}/eviction", "post", "post", WRITE, (STATUS, EVICTION), EVICTION, (200, 201, 202)),
}  # fmt: skip
for part in ("ephemeralcontainers", "resize", "status"):
    name, path = f"CoreV1NamespacedPod{part.capitalize()}", f"{ONE}/{part}"
    OF_PODS[f"read{name}"] = (path, "get", "get", READ, (POD,), None, (200,))
    OF_PODS[f"replace{name}"] = (path, "put", "put", WRITE, (POD,), POD, (200, 201))
    OF_PODS[f"patch{name}"] = (path, "patch", "patch", f"{WRITE} force", (POD,), PATCH, (200, 201))


def test_operations_on_pods() -> None:
    found = {
        one.operation_id: (
            one.path,
            one.method,
            one.action,
            " ".join(parameter.name for parameter in one.parameters),
            one.answers,
            one.body,
            one.codes,
        )
        for one in operations.operations(shape("v1", "Pod"))
    }
    assert found == OF_PODS


@pytest.mark.parametrize("kind", BUILTIN, ids=lambda kind: f"{kind.api_version} {kind.kind}")
def test_operations_follow_verbs_and_subresources(kind: ServedKind) -> None:
    """A verb that a kind lacks is absent; one that it has is at its path, with tags and a description of the kind."""
    found = list(operations.operations(kind))
    actions = {"list": "list", "create": "post", "deletecollection": "deletecollection", "get": "get",
               "update": "put", "patch": "patch", "delete": "delete"}  # fmt: skip
    whole = {one.action for one in found if not any(one.path.endswith(f"/{sub}") for sub in kind.subresources)}
    assert whole == {action for verb, action in actions.items() if verb in kind.verbs}
    assert {one.path.rpartition("/")[2] for one in found} - {kind.plural, "{name}"} == (kind.subresources - STREAMS)
    assert all(
        ("{namespace}" in one.path or one.operation_id.endswith("AllNamespaces")) is kind.namespaced for one in found
    )
    for one in found:
        assert one.tag == operations.tag(kind)
        assert kind.kind in one.description
        assert one.body_required is (one.method != "delete")
        assert one.patch is (one.method == "patch")
        assert one.schemas == (*one.answers, *([one.body] if one.body else []))
        assert one.gvk["version"]


@pytest.mark.parametrize(
    ("kind", "tag", "path"),
    [
        (shape("v1", "Pod"), "core_v1", "api/v1"),
        (shape("apps/v1", "Deployment"), "apps_v1", "apis/apps/v1"),
        (shape("rbac.authorization.k8s.io/v1", "Role"), "rbacAuthorization_v1", "apis/rbac.authorization.k8s.io/v1"),
        (custom_kind("my-group.example.com", "v1", "Gang"), "myGroupExampleCom_v1", "apis/my-group.example.com/v1"),
    ],
)
def test_words_of_groups(kind: ServedKind, tag: str, path: str) -> None:
    assert (operations.tag(kind), operations.group_version_path(kind)) == (tag, path)


def test_subresource_of_another_kind_says_so() -> None:
    """A Scale is of autoscaling/v1, a Binding of core v1, whatever it is a part of."""
    scale = [one for one in operations.operations(shape("apps/v1", "Deployment")) if one.path.endswith("/scale")]
    assert {one.operation_id for one in scale} == {
        f"{verb}AppsV1NamespacedDeploymentScale" for verb in ("read", "replace", "patch")
    }
    assert all(one.gvk == {"group": "autoscaling", "kind": "Scale", "version": "v1"} for one in scale)
    assert all(one.answers == ("io.k8s.api.autoscaling.v1.Scale",) for one in scale)
    [binding] = [one for one in operations.operations(shape("v1", "Pod")) if one.path.endswith("/binding")]
    assert binding.gvk == {"group": "", "kind": "Binding", "version": "v1"}


# -- documents -------------------------------------------------------------------------------------------------

TYPES = ("application/json", "application/yaml")
PATCHES = [f"application/{name}" for name in ("apply-patch+yaml", "json-patch+json", "merge-patch+json",
                                              "strategic-merge-patch+json")]  # fmt: skip


def test_operation_in_version_2() -> None:
    paths = openapi.v2_document([shape("v1", "Pod")])["paths"]
    create = paths[MANY]["post"]
    first, *others = create["parameters"]
    own = {"$ref": f"#/definitions/{POD}"}
    assert first == {"name": "body", "in": "body", "schema": own, "required": True}
    assert [one["name"] for one in others] == WRITE.split()
    pretty = "true: indent the answer."
    assert others[0] == {"name": "pretty", "in": "query", "description": pretty, "type": "string", "uniqueItems": True}
    assert {word: create[word] for word in ("tags", "operationId", "consumes", "produces", "schemes")} == {
        "tags": ["core_v1"],
        "operationId": "createCoreV1NamespacedPod",
        "consumes": ["*/*"],
        "produces": list(TYPES),
        "schemes": ["https"],
    }
    assert create["responses"] == {
        "200": {"description": "OK", "schema": own},
        "201": {"description": "Created", "schema": own},
        "202": {"description": "Accepted", "schema": own},
        "401": {"description": "Unauthorized"},
    }
    assert create["x-kubernetes-action"] == "post"
    assert create["x-kubernetes-group-version-kind"] == {"group": "", "kind": "Pod", "version": "v1"}
    delete = paths[ONE]["delete"]
    assert "required" not in delete["parameters"][0]
    assert delete["responses"]["200"]["schema"] == {"$ref": f"#/definitions/{STATUS}"}
    assert paths[ONE]["patch"]["consumes"] == PATCHES
    assert all(one["in"] == "query" for one in paths[ONE]["get"]["parameters"])
    assert [one["name"] for one in paths[ONE]["parameters"]] == ["name", "namespace"]
    assert [one["name"] for one in paths[MANY]["parameters"]] == ["namespace"]
    assert "parameters" not in paths["/api/v1/pods"]  # interfaces.md 4.8


def test_operation_in_version_3() -> None:
    paths = openapi.v3_document("v1", [shape("v1", "Pod")])["paths"]
    create = paths[MANY]["post"]
    own = {"schema": {"$ref": f"#/components/schemas/{POD}"}}
    assert create["requestBody"] == {"content": {"application/json": own}, "required": True}
    assert create["responses"]["201"] == {"description": "Created", "content": dict.fromkeys(TYPES, own)}
    refusal = {"application/json": {"schema": {"$ref": f"#/components/schemas/{STATUS}"}}}
    assert create["responses"]["401"] == {"description": "Unauthorized", "content": refusal}
    assert create["responses"]["default"] == {"description": "Refused", "content": refusal}
    delete = paths[ONE]["delete"]
    assert "required" not in delete["requestBody"]
    either = [{"$ref": f"#/components/schemas/{name}"} for name in (STATUS, POD)]
    assert delete["responses"]["202"]["content"]["application/json"]["schema"] == {"anyOf": either}
    assert list(paths[ONE]["patch"]["requestBody"]["content"]) == PATCHES
    assert "requestBody" not in paths[ONE]["get"]
    assert paths[ONE]["parameters"][0] == {
        "name": "name",
        "in": "path",
        "description": "name of the object",
        "required": True,
        "schema": {"type": "string", "uniqueItems": True},
    }


@pytest.mark.parametrize("version", ["2", "3"])
def test_frame_of_a_document(version: str) -> None:
    kinds = [shape("v1", "Pod"), shape("apps/v1", "Deployment")]
    whole = openapi.v2_document(kinds) if version == "2" else openapi.v3_document("v1", kinds)
    assert whole["info"] == {"title": "Kubernetes", "version": "1.38"}
    assert whole["security"] == [{"BearerToken": []}]
    key = {"type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header"}
    schemes = whole["securityDefinitions"] if version == "2" else whole["components"]["securitySchemes"]
    schemas = whole["definitions"] if version == "2" else whole["components"]["schemas"]
    assert schemes == {"BearerToken": key}
    assert list(whole["paths"]) == sorted(whole["paths"])
    assert list(schemas) == sorted(schemas)
    assert any("/apps/" in path for path in whole["paths"]) is (version == "2")
    for name in (STATUS, OPTIONS, PATCH, f"{META}WatchEvent", f"{META}ObjectMeta", f"{META}ListMeta"):
        assert name in schemas


GANG = custom_kind("example.com", "v1", "Gang", definition={"schema": {"openAPIV3Schema": {"type": "object"}}})


@pytest.mark.parametrize(
    "change",
    [
        {"plural": "others"},
        {"namespaced": False},
        {"verbs": ("get",)},
        {"subresources": frozenset({"status"})},
        {"kind": "Other"},
        {"definition": {"schema": {"openAPIV3Schema": {"type": "object", "description": "other"}}}},
    ],
)
def test_address_of_a_document_changes_with_it(change: Json) -> None:
    """And with nothing else: the order of the table is no part of it."""
    other = shape("v1", "Pod")
    index = openapi.v3_index([GANG, other])
    assert openapi.v3_index([other, GANG]) == index
    changed = openapi.v3_index([replace(GANG, **change), other])
    path = "apis/example.com/v1"
    assert changed["paths"]["api/v1"] == index["paths"]["api/v1"]
    assert changed["paths"][path] != index["paths"][path]
    assert list(index["paths"]) == ["api/v1", path]
    address = index["paths"][path]["serverRelativeURL"]
    assert address.startswith(f"/openapi/v3/{path}?hash=")
    assert len(address.partition("=")[2]) == 128


# -- schemas ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "exact", "reduced"),
    [
        ("io.k8s.apimachinery.pkg.api.resource.Quantity", {"oneOf": [{"type": "string"}, {"type": "number"}]},
         {"type": "string"}),
        ("io.k8s.apimachinery.pkg.util.intstr.IntOrString",
         {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
         {"type": "string", "format": "int-or-string"}),
        (f"{META}Time", {"type": "string", "format": "date-time", "nullable": True},
         {"type": "string", "format": "date-time"}),
        (f"{META}MicroTime", {"type": "string", "format": "date-time", "nullable": True},
         {"type": "string", "format": "date-time"}),
        (PATCH, {"oneOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}}]}, {"type": "object"}),
    ],
)  # fmt: skip
def test_types_that_are_no_plain_structs(name: str, exact: Json, reduced: Json) -> None:
    for dialect, wanted in ((V3, exact), (V2, reduced)):
        found = components.definition(name, dialect)
        assert {word: value for word, value in found.items() if word != "description"} == wanted
        assert bool(found.get("description")) is (name.rpartition(".")[2] in ("Time", "MicroTime", "Patch"))


def test_fields_are_described_and_refer() -> None:
    """A keyword may stand beside a reference in version 3 alone; the reference is in allOf there."""
    exact = components.definition(POD, V3)
    reduced = components.definition(POD, V2)
    assert exact["description"] == reduced["description"] != ""
    spec, old = exact["properties"]["spec"], reduced["properties"]["spec"]
    name = "io.k8s.api.core.v1.PodSpec"
    assert spec["allOf"] == [{"$ref": f"#/components/schemas/{name}"}]
    assert old == {"description": spec["description"], "$ref": f"#/definitions/{name}"}
    assert spec["description"]
    containers = components.definition(name, V2)["properties"]["containers"]
    assert containers["items"] == {"$ref": "#/definitions/io.k8s.api.core.v1.Container"}
    selector = components.definition(name, V3)["properties"]["nodeSelector"]
    assert selector["additionalProperties"] == {"type": "string"}
    assert exact["x-kubernetes-group-version-kind"] == [{"group": "", "kind": "Pod", "version": "v1"}]


def test_definition_comes_with_what_it_reaches() -> None:
    reached = components.closure([POD])
    assert {POD, "io.k8s.api.core.v1.PodSpec", "io.k8s.api.core.v1.Container", f"{META}ObjectMeta"} <= reached
    assert PODS not in reached
    assert components.closure(["made.up"]) == {"made.up"}
    assert list(components.references({"a": [{"$ref": "x"}, {"b": {"$ref": "y"}}], "$ref": {"$ref": "z"}})) == [
        "x", "y", "z"]  # fmt: skip


def test_names_of_schemas() -> None:
    assert (components.name_of(shape("v1", "Pod")), components.list_name_of(shape("v1", "Pod"))) == (POD, PODS)
    assert components.name_of(GANG) == "com.example.v1.Gang"
    assert components.list_name_of(replace(GANG, list_kind="Ganglet")) == "com.example.v1.Ganglet"
    assert components.gvk(GANG) == {"group": "example.com", "kind": "Gang", "version": "v1"}
    assert components.gvk(GANG, "Other")["kind"] == "Other"


RICH: Json = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "nullable": True,
            "default": {},
            "additionalProperties": {"type": "integer", "nullable": True},
            "x-kubernetes-validations": [],
        },
        "many": {"type": "array", "items": {"type": "string", "nullable": True, "oneOf": []}},
        "open": {"type": "object", "additionalProperties": True},
        "kind": {"type": "integer"},
    },
}


def test_custom_resource_and_its_list() -> None:
    """Its own schema, with what every object has; in version 2 in the words that it knows, at every depth."""
    kind = replace(GANG, definition={"schema": {"openAPIV3Schema": RICH}})
    exact, reduced = components.custom(kind, V3), components.custom(kind, V2)
    assert list(exact) == ["com.example.v1.Gang", "com.example.v1.GangList"]
    own, old = exact["com.example.v1.Gang"], reduced["com.example.v1.Gang"]
    for word in ("spec", "many", "open"):
        assert own["properties"][word] == RICH["properties"][word]
    assert old["properties"]["spec"] == {"default": {}, "additionalProperties": {}, "x-kubernetes-validations": []}
    assert old["properties"]["many"] == {"type": "array", "items": {}}
    assert old["properties"]["open"] == {"type": "object"}
    for found in (own, old):
        assert found["properties"]["kind"]["type"] == "string"
        assert found["properties"]["metadata"]["description"]
        assert found["x-kubernetes-group-version-kind"] == [components.gvk(kind)]
    listed = exact["com.example.v1.GangList"]
    assert (listed["description"], listed["type"], listed["required"]) == (
        "GangList is a list of Gang",
        "object",
        ["items"],
    )
    assert listed["properties"]["items"] == {
        "description": "List of gangs.",
        "type": "array",
        "items": {"$ref": "#/components/schemas/com.example.v1.Gang"},
    }
    assert listed["properties"]["metadata"]["description"]
    assert listed["x-kubernetes-group-version-kind"] == [components.gvk(kind, "GangList")]
    bare = components.custom(replace(GANG, definition=None), V3)["com.example.v1.Gang"]
    assert bare == {"type": "object", "x-kubernetes-group-version-kind": [components.gvk(kind)]}
