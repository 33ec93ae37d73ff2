"""The verbs over objects in memory: what every write does, whatever kind it is of, without a server.

Rules and texts: kube-apiserver's generic registry and its strategies (api.md 2 and 5).
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.controlplane.admission.plane import Plane, pod
from tests.controlplane.recorded.shapes import custom_kind, shape

from reprieve.controlplane.deleting import DeleteOptions
from reprieve.controlplane.errors import StatusError
from reprieve.controlplane.kinds import BUILTIN, CUSTOM_VERBS, Kind
from reprieve.controlplane.registry import WriteOptions

Json = dict[str, Any]


@pytest.fixture
def plane() -> Plane:
    return Plane()


# -- custom resources with the names of built-in kinds ---------------------------------------------------------

ANYTHING = {"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}


def named_like(name: str, namespaced: bool) -> tuple[Kind, Kind]:
    """Two versions of a custom kind of that name; objects are stored in the first."""
    more = {
        "namespaced": namespaced,
        "definition": ANYTHING,
        "verbs": CUSTOM_VERBS,
        "storage_version": "example.com/v1",
        "storage_key": f"example.com/{name.lower()}s",
        "generation": True,
        "status_metadata": "reset",
        "subresources": frozenset(("status",)),
    }
    first, second = (custom_kind("example.com", version, name) for version in ("v1", "v2"))
    return _replaced(first, more), _replaced(second, more)


def _replaced(kind: Kind, more: Json) -> Kind:
    fields = {name: getattr(kind, name) for name in ("group", "version", "kind", "plural", "singular", "list_kind")}
    return Kind(**{**fields, "custom": True, **more})


@pytest.mark.parametrize("name", sorted({kind.kind for kind in BUILTIN}))
def test_a_custom_kind_is_no_built_in_one_whatever_its_name(plane: Plane, name: str) -> None:
    """An operator may call its resource Event, Job or Namespace: none of what those have happens to it."""
    registry = plane.registry
    for namespaced in (True, False):
        first, second = named_like(name, namespaced)
        for kind in (first, second):
            registry.kinds.add(kind)
            registry.declare(kind)
        body = {"metadata": {"name": "default", "finalizers": ["a/b"]}, "spec": {"a": 1, "overhead": {}}}
        decoded = registry.decoder.decode(second, copy.deepcopy(body), "Strict", [])
        made = registry.create_now(second, "default", decoded, WriteOptions(manager="")).object
        assert (made["apiVersion"], made["kind"]) == ("example.com/v2", name)
        assert {key: made[key] for key in made if key not in ("apiVersion", "kind", "metadata")} == {
            "spec": body["spec"]
        }
        assert made["metadata"]["generation"] == 1
        found = registry.find(first, "default", "default")
        assert found == {**made, "apiVersion": "example.com/v1"}

        changed = {**copy.deepcopy(made), "spec": {"a": 2}}
        changed["metadata"]["labels"] = {"c": "d"}
        after = registry.update_now(second, "default", "default", changed, WriteOptions(manager="")).object
        assert (after["spec"], after["metadata"]["generation"]) == ({"a": 2}, 2)
        state = copy.deepcopy(after)
        state |= {"status": {"x": 1}, "metadata": {**after["metadata"], "ownerReferences": [], "labels": {}}}
        after = registry.update_now(second, "default", "default", state, WriteOptions(manager=""), "status").object
        assert (after["status"], after["metadata"]["labels"]) == ({"x": 1}, {"c": "d"})

        registry.delete_now(first, "default", "default", DeleteOptions())
        going = registry.find(first, "default", "default")
        assert going is not None
        assert going["metadata"]["deletionTimestamp"] == plane.clock.stamp()
        assert (going["metadata"]["finalizers"], going["status"]) == (["a/b"], {"x": 1})
        going["metadata"]["finalizers"] = []
        assert registry.update_now(first, "default", "default", going, WriteOptions(manager="")).deleted
        assert registry.find(first, "default", "default") is None
        for kind in (first, second):
            registry.kinds.remove(kind)


# -- what came with a write ------------------------------------------------------------------------------------


def test_a_new_object_has_no_status_of_its_author_by_create_or_by_apply(plane: Plane) -> None:
    """Nor does he own any of its fields."""
    kind = plane.kind("v1", "Pod")
    body: Json = {**pod("p"), "status": {"phase": "Running", "message": "m"}}
    options = WriteOptions(manager="me")
    decoded = plane.registry.decoder.decode(kind, copy.deepcopy(body), "Ignore", [])
    body["metadata"] = {"name": "q"}
    for made in (
        plane.registry.create_now(kind, "default", decoded, options).object,
        plane.registry.patch_now(kind, "default", "q", "apply", body, options).object,
    ):
        assert (made["status"]["phase"], "message" in made["status"]) == ("Pending", False)
        assert ["f:status" in one["fieldsV1"] for one in made["metadata"]["managedFields"]] == [False]


@pytest.mark.parametrize(
    ("kind", "spec", "manager", "managed", "dated"),
    [
        ("authorization.k8s.io/v1/SelfSubjectAccessReview", {"resourceAttributes": {"verb": "get"}}, "me", True, False),
        ("authorization.k8s.io/v1/SelfSubjectAccessReview", {"resourceAttributes": {"verb": "get"}}, "", False, False),
        ("authentication.k8s.io/v1/SelfSubjectReview", None, "me", False, True),
    ],
)
def test_a_review_is_returned_with_its_manager_and_without_a_status(
    plane: Plane, kind: str, spec: Json | None, manager: str, managed: bool, dated: bool
) -> None:
    version, _, name = kind.rpartition("/")
    row = shape(version, name)
    body: Json = {"metadata": {}, "status": {"allowed": True}, **({} if spec is None else {"spec": spec})}
    found = plane.registry.create_review(row, "", body, WriteOptions(manager=manager))
    assert (found["apiVersion"], found["kind"], "status" in found) == (version, name, False)
    assert ("managedFields" in found["metadata"], "creationTimestamp" in found["metadata"]) == (managed, dated)


def test_an_apply_is_for_the_namespace_of_its_path(plane: Plane) -> None:
    kind = plane.kind("v1", "ConfigMap")
    body: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "kube-system"}}
    with pytest.raises(StatusError) as refused:
        plane.registry.patch_now(kind, "default", "m", "apply", body, WriteOptions())
    assert (refused.value.code, refused.value.message) == (
        400, "the namespace of the provided object does not match the namespace sent on the request")  # fmt: skip
    del body["metadata"]["namespace"]
    with pytest.raises(StatusError) as refused:
        plane.registry.patch_now(kind, "absent", "m", "apply", body, WriteOptions())
    assert (refused.value.code, refused.value.message) == (404, 'namespaces "absent" not found')
