"""The verbs over objects in memory: what every write does, whatever kind it is of, without a server.

Rules and texts: kube-apiserver's generic registry and its strategies (api.md 2 and 5).
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kube_standin.admission_chain import User
from kube_standin.clock import parse_stamp
from kube_standin.deletion import DeleteOptions, options_from, warnings_of
from kube_standin.errors import StatusError
from kube_standin.kinds import BUILTIN, CUSTOM_VERBS, KindTable, ServedKind
from kube_standin.registry import ObjectRegistry, WriteOptions
from kube_standin.storage import Store
from tests.admission.plane import Plane, pod
from tests.recorded.shapes import custom_kind, shape

Json = dict[str, Any]


@pytest.fixture
def plane() -> Plane:
    return Plane()


# -- custom resources with the names of built-in kinds ---------------------------------------------------------

ANYTHING = {"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}


def named_like(name: str, namespaced: bool) -> tuple[ServedKind, ServedKind]:
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


def _replaced(kind: ServedKind, more: Json) -> ServedKind:
    fields = {name: getattr(kind, name) for name in ("group", "version", "kind", "plural", "singular", "list_kind")}
    return ServedKind(**{**fields, "custom": True, **more})


@pytest.mark.parametrize("name", sorted({kind.kind for kind in BUILTIN}))
def test_custom_kind_is_no_built_in_one_whatever_its_name(plane: Plane, name: str) -> None:
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

        registry.deletion.delete(first, "default", "default", DeleteOptions())
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


def test_new_object_has_no_status_of_its_author_by_create_or_by_apply(plane: Plane) -> None:
    """Nor does the author own any field of it."""
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
def test_review_is_returned_with_its_manager_and_without_a_status(
    plane: Plane, kind: str, spec: Json | None, manager: str, managed: bool, dated: bool
) -> None:
    version, _, name = kind.rpartition("/")
    row = shape(version, name)
    body: Json = {"metadata": {}, "status": {"allowed": True}, **({} if spec is None else {"spec": spec})}
    found = plane.registry.create_review(row, "", body, WriteOptions(manager=manager))
    assert (found["apiVersion"], found["kind"], "status" in found) == (version, name, False)
    assert ("managedFields" in found["metadata"], "creationTimestamp" in found["metadata"]) == (managed, dated)


def test_apply_is_for_the_namespace_of_its_path(plane: Plane) -> None:
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


# -- deleting --------------------------------------------------------------------------------------------------

U = User("u")


@pytest.mark.parametrize(
    ("body", "query", "options"),
    [
        ({}, {}, DeleteOptions(user=U)),
        ({"gracePeriodSeconds": 5}, {}, DeleteOptions(5, user=U)),
        ({"gracePeriodSeconds": 0}, {"gracePeriodSeconds": "7"}, DeleteOptions(0, user=U)),
        ({}, {"gracePeriodSeconds": "7"}, DeleteOptions(7, user=U)),
        ({}, {"gracePeriodSeconds": ""}, DeleteOptions(user=U)),
        ({"propagationPolicy": "Orphan"}, {}, DeleteOptions(None, "Orphan", user=U)),
        ({"propagationPolicy": "Orphan"}, {"propagationPolicy": "Foreground"}, DeleteOptions(None, "Orphan", user=U)),
        ({}, {"propagationPolicy": "Background"}, DeleteOptions(None, "Background", user=U)),
        ({"propagationPolicy": ""}, {"propagationPolicy": ""}, DeleteOptions(user=U)),
        ({"orphanDependents": True}, {}, DeleteOptions(None, "Orphan", user=U)),
        ({"orphanDependents": False}, {}, DeleteOptions(None, "Background", user=U)),
        ({"orphanDependents": False}, {"orphanDependents": "true"}, DeleteOptions(None, "Background", user=U)),
        ({}, {"orphanDependents": "true"}, DeleteOptions(None, "Orphan", user=U)),
        ({}, {"orphanDependents": "false"}, DeleteOptions(None, "Background", user=U)),
        ({"preconditions": {"uid": "x"}}, {}, DeleteOptions(uid="x", user=U)),
        ({"preconditions": {"resourceVersion": "5"}}, {}, DeleteOptions(resource_version="5", user=U)),
        ({"preconditions": None}, {}, DeleteOptions(user=U)),
        ({"dryRun": ["All"]}, {}, DeleteOptions(dry_run=True, user=U)),
        ({"dryRun": []}, {"dryRun": "All"}, DeleteOptions(dry_run=True, user=U)),
        ({"dryRun": None}, {"dryRun": ""}, DeleteOptions(user=U)),
    ],
)
def test_options_of_a_delete_come_from_the_body_then_from_the_query(
    body: Json, query: dict[str, str], options: DeleteOptions
) -> None:
    assert options_from(body, query, U) == options


@pytest.mark.parametrize(
    ("body", "query", "field"),
    [
        ({"orphanDependents": False, "propagationPolicy": "Orphan"}, {}, "propagationPolicy"),
        ({"propagationPolicy": "x"}, {}, "propagationPolicy"),
        ({}, {"propagationPolicy": "orphan"}, "propagationPolicy"),
        ({"dryRun": ["All", "All"]}, {}, "dryRun"),
        ({}, {"dryRun": "x"}, "dryRun"),
    ],
)
def test_options_of_a_delete_that_contradict_or_are_unknown(body: Json, query: dict[str, str], field: str) -> None:
    with pytest.raises(StatusError) as refused:
        options_from(body, query, U)
    assert (refused.value.code, refused.value.causes[0].field) == (422, field)


JOB, MAP = shape("batch/v1", "Job"), shape("v1", "ConfigMap")


@pytest.mark.parametrize(
    ("kind", "propagation", "warned"),
    [
        (JOB, None, True),
        (JOB, "Orphan", False),
        (JOB, "Background", False),
        (shape("v1", "ReplicationController"), None, False),
        (MAP, None, False),
        (custom_kind("g", "v1", "Job"), None, False),
    ],
)
def test_job_deletion_without_its_pods_warns(kind: ServedKind, propagation: Any, warned: bool) -> None:
    found = warnings_of(kind, DeleteOptions(propagation=propagation))
    assert [text.startswith("child pods are preserved by default") for text in found] == [True] * warned


GOING = {"deletionTimestamp": "t"}


@pytest.mark.parametrize(
    ("kind", "body", "complete"),
    [
        (MAP, {"metadata": {}}, False),
        (MAP, {"metadata": GOING}, True),
        (MAP, {"metadata": {**GOING, "finalizers": ["a"]}}, False),
        (MAP, {"metadata": {**GOING, "finalizers": []}}, True),
        (MAP, {"metadata": {**GOING, "deletionGracePeriodSeconds": 0}}, True),
        (MAP, {"metadata": {**GOING, "deletionGracePeriodSeconds": 1}}, False),
        (MAP, {"metadata": GOING, "spec": {"finalizers": ["k"]}}, True),
        (shape("v1", "Namespace"), {"metadata": GOING, "spec": {"finalizers": ["k"]}}, False),
        (shape("v1", "Namespace"), {"metadata": GOING, "spec": {"finalizers": []}}, True),
        (shape("v1", "Namespace"), {"metadata": GOING, "spec": None}, True),
        (shape("v1", "Namespace"), {"metadata": {**GOING, "finalizers": ["a"]}}, False),
    ],
)
def test_terminating_object_goes_when_nothing_holds_it(
    plane: Plane, kind: ServedKind, body: Json, complete: bool
) -> None:
    assert plane.registry.deletion.completes(kind, body) is complete


@pytest.mark.parametrize(
    ("finalizers", "propagation", "left"),
    [
        ([], None, ["orphan"]),
        (["a/b"], None, ["a/b", "orphan"]),
        (["foregroundDeletion"], None, ["foregroundDeletion"]),
        (["orphan", "a/b"], None, ["orphan", "a/b"]),
        (["orphan", "a/b"], "Foreground", ["a/b", "foregroundDeletion"]),
        (["orphan", "a/b"], "Background", ["a/b"]),
        (["orphan"], "Background", None),
    ],
)
def test_job_that_is_deleted_orphans_its_pods_unless_it_was_settled(
    plane: Plane, finalizers: list[str], propagation: Any, left: list[str] | None
) -> None:
    """api.md 6.1: what the request says, then what a finalizer says, then the kind."""
    template = {"spec": {**pod()["spec"], "restartPolicy": "Never"}}
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "finalizers": finalizers}}
    plane.create({**manifest, "spec": {"template": template}})
    plane.delete("batch/v1", "Job", "j", propagation=propagation)
    assert plane.has("batch/v1", "Job", "j") is (left is not None)
    if left is not None:
        assert plane.get("batch/v1", "Job", "j")["metadata"]["finalizers"] == left


def test_delete_that_is_tried_or_refused_leaves_everything(plane: Plane) -> None:
    before = plane.create(pod("p", nodeName="n"))
    revision = plane.store.revision
    found = plane.registry.deletion.delete(plane.kind("v1", "Pod"), "default", "p", DeleteOptions(dry_run=True))
    assert (found.object["metadata"]["deletionGracePeriodSeconds"], found.deleted) == (30, False)
    gone = plane.registry.deletion.delete(plane.kind("v1", "Pod"), "default", "p", DeleteOptions(grace=0, dry_run=True))
    assert gone.deleted
    for options in (DeleteOptions(uid="x"), DeleteOptions(resource_version="x")):
        with pytest.raises(StatusError) as refused:
            plane.delete("v1", "Pod", "p", uid=options.uid, resource_version=options.resource_version)
        assert refused.value.code == 409
    with pytest.raises(StatusError) as refused:
        plane.delete("v1", "Pod", "absent")
    assert refused.value.code == 404
    plane.store.flush()
    assert plane.store.revision == revision
    assert plane.get("v1", "Pod", "p") == before


@pytest.mark.parametrize(
    ("graces", "after", "times"),
    [
        ([None], 0, (30, 30)),
        ([20, 20], 5, (20, 20)),
        ([20, 19], 5, (19, 19)),
        ([20, 1], 5, (1, 1)),
        ([20, 8, 7], 5, (7, 7)),
        ([0, 20], 5, (0, 0)),
        ([0, 0], 5, (0, 0)),
        ([20, 0, 5], 5, (0, 0)),
        ([20, None], 5, (20, 20)),
        ([-1], 0, (1, 1)),
    ],
)
def test_pod_terminates_by_the_shortest_grace_it_was_given(
    plane: Plane, graces: list[int | None], after: float, times: tuple[int, int]
) -> None:
    """It gets shorter, never longer, and counts from the first request."""
    start = plane.clock.now()
    plane.create({**pod("p", nodeName="n"), "metadata": {"name": "p", "finalizers": ["a/b"]}})
    for grace in graces:
        plane.delete("v1", "Pod", "p", grace=grace)
        plane.clock.forward(after)  # type: ignore[attr-defined]
    metadata = plane.get("v1", "Pod", "p")["metadata"]
    ends = parse_stamp(metadata["deletionTimestamp"]) - start
    assert (metadata["deletionGracePeriodSeconds"], ends.total_seconds()) == times
    assert metadata["generation"] == 2


@pytest.mark.parametrize("grace", [None, 0, 5])
@pytest.mark.parametrize("period", [0, None])
def test_pod_with_grace_over_when_the_server_ended_can_be_deleted(
    plane: Plane, grace: int | None, period: int | None
) -> None:
    """BeforeDelete of kube-apiserver: its last state was written and its end was not, or was lost (`--accept-loss`)."""
    body = plane.create(pod("p", nodeName="n"))
    metadata = {**body["metadata"], "deletionTimestamp": plane.clock.stamp()}
    if period is not None:
        metadata["deletionGracePeriodSeconds"] = period
    before = plane.store.head("pods", "default", "p")
    plane.store.put("pods", "default", "p", {**body, "metadata": metadata}, before)
    plane.delete("v1", "Pod", "p", grace=grace)
    assert not plane.has("v1", "Pod", "p")


def test_finalizers_of_a_pod_after_its_grace_can_be_changed(plane: Plane) -> None:
    """BeforeDelete of kube-apiserver: while it terminates they cannot; another grace does not delay its end."""
    plane.create({**pod("p", nodeName="n"), "metadata": {"name": "p", "finalizers": ["a/b"]}})
    kind = plane.kind("v1", "Pod")
    for options, expected in (
        (DeleteOptions(20), ["a/b"]),
        (DeleteOptions(20, "Foreground"), ["a/b"]),
        (DeleteOptions(0), ["a/b"]),
        (DeleteOptions(5, "Foreground"), ["a/b", "foregroundDeletion"]),
    ):
        plane.registry.deletion.delete(kind, "default", "p", options)
        assert plane.get("v1", "Pod", "p")["metadata"]["finalizers"] == expected
    plane.clock.forward(5)  # type: ignore[attr-defined]
    before = plane.get("v1", "Pod", "p")["metadata"]
    after = plane.registry.deletion.delete(kind, "default", "p", DeleteOptions(-1, "Orphan")).object["metadata"]
    assert after["finalizers"] == ["a/b", "orphan"]
    same = ("deletionTimestamp", "deletionGracePeriodSeconds", "generation")
    assert [after[key] for key in same] == [before[key] for key in same]


def test_patch_that_admission_takes_back_stores_nothing_whenever_it_comes(plane: Plane) -> None:
    """interfaces.md 4.12 (transcript 261): the patch is later than the one before, and gives its entry a new time."""
    plane.create(pod("p"))
    kind, options = plane.kind("v1", "Pod"), WriteOptions(manager="wire")

    def tolerate(*keys: str) -> Json:
        patch = {"spec": {"tolerations": [{"key": key, "operator": "Exists"} for key in keys]}}
        plane.clock.forward(5)  # type: ignore[attr-defined]
        return plane.registry.patch_now(kind, "default", "p", "strategic", patch, options).object

    first, again, other = tolerate("t"), tolerate("t"), tolerate("t", "u")
    assert first["spec"]["tolerations"][0]["key"] == "t"
    assert again == first
    assert other["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"]
    times = [one["metadata"]["managedFields"][-1]["time"] for one in (first, again, other)]
    assert times[0] == times[1] < times[2]


@pytest.mark.parametrize(
    ("version", "kind", "named"),
    [
        ("v1", "ConfigMap", "ConfigMap"),
        ("v1", "Event", "Event"),
        ("events.k8s.io/v1", "Event", "Event"),
        ("scheduling.k8s.io/v1beta1", "PodGroup", "PodGroup.scheduling.k8s.io"),
    ],
)
def test_refused_object_is_named_by_kind_and_group(plane: Plane, version: str, kind: str, named: str) -> None:
    """Events of both groups are validated in the core form, and named so."""
    with pytest.raises(StatusError) as refused:
        plane.create({"apiVersion": version, "kind": kind, "metadata": {"name": "A B"}})
    assert refused.value.code == 422
    assert refused.value.message.startswith(f'{named} "A B" is invalid: ')


def test_registry_serves_the_kinds_it_is_given() -> None:
    table = KindTable([shape("v1", "ConfigMap")])
    assert ObjectRegistry(Store(), kinds=table).kinds is table
    assert ObjectRegistry(Store()).kind("v1", "Pod").plural == "pods"
    with pytest.raises(KeyError, match="v1 Pod"):
        ObjectRegistry(Store(), kinds=table).kind("v1", "Pod")
