"""Unknown fields by the packed schemas: the two walks agree, and what is deep, long or of a wrong type is bounded."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from kube_rules.schema import packed_schemas as module
from kube_rules.schema.packed_schemas import PackedSchemas

Json = dict[str, Any]
CONTAINER: Json = {"name": "c", "resources": {"requests": {"cpu": 1}, "limits": None}, "env": [{"name": "A"}, None]}
POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"a": "b"}, "creationTimestamp": None},
    "spec": {"containers": [CONTAINER], "nodeSelector": {"a": "b"}, "affinity": None},
    "status": None,
}
GROUP: Json = {"kind": "PodGroup", "metadata": {"name": "g"}}
CLEAN: list[tuple[str, str, Json]] = [
    ("v1", "Pod", POD),
    ("v1", "Pod", {}),
    ("v1", "List", {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [{"any": "thing"}]}),
    ("v1", "ConfigMap", {"data": {"any.name": "x"}, "binaryData": None}),
    ("reprieve.dev/v1alpha1", "Scenario", {"metadata": {"name": "s"}, "spec": {"steps": [{"any": "thing"}]}}),
    ("scheduling.x-k8s.io/v1alpha1", "PodGroup", {**GROUP, "spec": {"minMember": 2}, "status": {"occupiedBy": "x"}}),
    ("scheduling.volcano.sh/v1beta1", "PodGroup", {**GROUP, "spec": {"queue": "q"}, "status": {"conditions": []}}),
    ("scheduling.k8s.io/v1beta1", "PodGroup", {**GROUP, "spec": {"schedulingPolicy": {"basic": {}}}}),
    ("resource.k8s.io/v1", "ResourceSlice",
     {"spec": {"devices": [{"name": "d", "attributes": {"a": {"string": "x"}}, "capacity": {"m": {"value": 1}}}]}}),
]  # fmt: skip
"""With maps of values, lists and maps of structures, and nulls."""


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(("version", "kind", "manifest"), CLEAN)
def test_quick_walk_is_enough_for_what_is_clean(
    version: str, kind: str, manifest: Json, as_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster of 100,000 pods costs a second and not minutes; a second object costs no second compilation."""
    monkeypatch.setattr(module, "_walk", lambda *_: pytest.fail("the thorough walk was needed"))
    schemas = PackedSchemas()
    given: Any = json.dumps(manifest).encode() if as_json else manifest
    assert schemas.knows(version, kind)
    assert list(schemas.unknown_fields(version, kind, given)) == []
    monkeypatch.setattr(module, "_type_of", lambda *_: pytest.fail("compiled twice"))
    assert list(schemas.unknown_fields(version, kind, given)) == []


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(
    ("version", "kind", "manifest", "found"),
    [
        ("v1", "Pod", {"spec": {"containers": [{"name": "c"}, {"nam": 1}]}},
         (("spec", "containers", 1, "nam"), "name")),
        ("v1", "Pod", {"status": {"x": 1}}, (("status", "x"), "")),
        ("v1", "Pod", {"spec": {"requests": 1}}, (("spec", "requests"), "resources.requests")),
        ("v1", "Pod", {"limits": 1}, (("limits",), "spec.resources.limits")),
        ("v1", "Pod", {"cpu": 1}, (("cpu",), "")),
        ("v1", "Pod", {"spec": {"httpGet": 1}}, (("spec", "httpGet"), "")),
        ("v1", "Pod", {"spec": {"workloadRef": {}}}, (("spec", "workloadRef"), "schedulingGroup")),
        ("resource.k8s.io/v1beta2", "ResourceSlice",
         {"spec": {"devices": [{"attributes": {"a": {"strin": 1}}}]}},
         (("spec", "devices", 0, "attributes", "a", "strin"), "string")),
        ("v1", "List", {"item": []}, (("item",), "items")),
        ("scheduling.x-k8s.io/v1alpha1", "PodGroup", {"spec": {"minTaskMember": 1}},
         (("spec", "minTaskMember"), "minMember")),
        ("scheduling.volcano.sh/v1beta1", "PodGroup", {"spec": {"scheduleTimeoutSeconds": 1}},
         (("spec", "scheduleTimeoutSeconds"), "")),
        ("scheduling.volcano.sh/v1beta1", "PodGroup", {"status": {"occupiedBy": 1}}, (("status", "occupiedBy"), "")),
        ("reprieve.dev/v1alpha1", "Scenario", {"status": {}}, (("status",), "")),
    ],
)  # fmt: skip
def test_unknown_field_and_what_was_meant(
    version: str, kind: str, manifest: Json, found: tuple[Any, str], as_json: bool
) -> None:
    """A name that is like it at its place, else the same name up to two levels deeper."""
    given: Any = json.dumps(manifest).encode() if as_json else manifest
    assert [tuple(one) for one in PackedSchemas().unknown_fields(version, kind, given)] == [found]


@pytest.mark.parametrize(
    ("version", "kind"),
    [("v1", "Podd"), ("v2", "Pod"), ("v2", "List"), ("scheduling.x-k8s.io/v1alpha1", "ElasticQuota"), ("", "PodGroup"),
     ("v1", "PodGroup"), ("scheduling.volcano.sh/v1beta1", "List"), ("ray.io/v1", "RayCluster")],
)  # fmt: skip
def test_kinds_without_a_schema_have_no_unknown_fields(version: str, kind: str) -> None:
    schemas = PackedSchemas()
    for _ in range(2):
        assert not schemas.knows(version, kind)
        assert list(schemas.unknown_fields(version, kind, {"any": "thing"})) == []


def test_names_of_kinds_are_listed_with_their_versions() -> None:
    kinds = set(PackedSchemas().kinds())
    assert {("v1", "Pod"), ("apps/v1", "Deployment"), ("scheduling.k8s.io/v1beta1", "PodGroup")} <= kinds


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": {"name": "c"}},
        {"containers": "c"},
        {"containers": [["c"], "c", 7]},
        {"nodeSelector": ["a"]},
        {"affinity": ["a"]},
        {"tolerations": {"key": "k"}},
    ],
)
def test_values_of_a_wrong_type_are_left_to_decoding(spec: Json) -> None:
    """What else is unknown is found beside them."""
    for given in ({"spec": {**spec, "x": 1}}, json.dumps({"spec": {**spec, "x": 1}}).encode()):
        assert [one.path for one in PackedSchemas().unknown_fields("v1", "Pod", given)] == [("spec", "x")]
    assert list(PackedSchemas().unknown_fields("v1", "Pod", {"spec": spec})) == []
    for text in (b"[]", b"7", b"{", b'{"spec": {"x": }}', b"[" * 100_000):
        assert list(PackedSchemas().unknown_fields("v1", "Pod", text)) == []


@pytest.mark.parametrize(("number", "found"), [(999, 999), (1000, 1000), (1001, 1000), (3000, 1000)])
def test_findings_are_named_up_to_a_thousand(number: int, found: int) -> None:
    manifest = {"spec": {"containers": [{"x": 1}] * number}}
    assert len(PackedSchemas().unknown_fields("v1", "Pod", manifest)) == found


@pytest.mark.parametrize(("depth", "found"), [(194, True), (195, True), (196, False)])
def test_two_hundred_levels_are_checked(depth: int, found: bool) -> None:
    """Schemas of definitions contain themselves; five levels are above them."""
    schema: Json = {"x": 1}
    for _ in range(depth):
        schema = {"not": schema}
    manifest = {"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}}
    raw = msgspec.Raw(json.dumps(manifest).encode())
    for given in (manifest, raw):
        named = PackedSchemas().unknown_fields("apiextensions.k8s.io/v1", "CustomResourceDefinition", given)
        assert [len(one.path) for one in named] == ([depth + 6] if found else [])
