"""The objects that every server has, and the steps of admission that keep them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kube_standin.admission_chain import Operation
from kube_standin.bootstrap import (
    KeptTolerations,
    NamespaceLifecycle,
    SystemClasses,
    ensure_base,
    ensure_default_storage_class,
)
from kube_standin.metadata import key_of
from tests.admission.plane import Plane, write
from tests.refused import message_of

Json = dict[str, Any]


@pytest.fixture
def plane() -> Plane:
    return Plane()


def test_first_objects_are_made_once() -> None:
    plane = Plane()
    names = {key_of(one)[1] for one in plane.all("v1", "Namespace")}
    assert names == {"default", "kube-system", "kube-public", "kube-node-lease"}
    classes = {one["metadata"]["name"]: (one["value"], one["description"])
               for one in plane.all("scheduling.k8s.io/v1", "PriorityClass")}  # fmt: skip
    assert classes == {
        "system-cluster-critical": (
            2000000000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if "
            "necessary.",
        ),
        "system-node-critical": (
            2000001000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    }
    revision = plane.store.revision
    ensure_base(plane.registry)
    plane.store.flush()
    assert plane.store.revision == revision


@pytest.mark.parametrize("present", [False, True])
def test_default_storage_class_is_made_where_there_is_no_class(plane: Plane, present: bool) -> None:
    """interfaces.md 7.10"""
    if present:
        own = {"metadata": {"name": "own"}, "provisioner": "example.com/own"}
        plane.create({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", **own})
    for _ in range(2):
        ensure_default_storage_class(plane.registry)
    (only,) = plane.all("storage.k8s.io/v1", "StorageClass")
    if present:
        assert only["metadata"]["name"] == "own"
    else:
        assert only["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}
        assert (only["volumeBindingMode"], only["reclaimPolicy"]) == ("WaitForFirstConsumer", "Delete")


@pytest.mark.parametrize(
    ("kind", "operation", "namespace", "refused"),
    [
        ("v1/ConfigMap", "CREATE", "default", None),
        ("v1/ConfigMap", "CREATE", "gone", (404, 'namespaces "gone" not found')),
        ("v1/ConfigMap", "UPDATE", "gone", None),
        ("v1/Node", "CREATE", "", None),
        ("v1/Binding", "CREATE", "gone", None),
        ("v1/ConfigMap", "CREATE", "going",
         (403, 'configmaps "n" is forbidden: unable to create new content in namespace going because it is being '
          "terminated")),
        ("v1/ConfigMap", "UPDATE", "going", None),
        ("v1/ConfigMap", "CREATE", "words", None),
    ],
)  # fmt: skip
def test_nothing_is_made_where_there_is_no_namespace(
    plane: Plane, kind: str, operation: Operation, namespace: str, refused: tuple[int, str] | None
) -> None:
    """Nor where it is terminating; a label that is called like the time of it is none."""
    for name, more in (("going", {"finalizers": ["a/b"]}), ("words", {"labels": {"deletionTimestamp": "x"}})):
        plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **more}})
    plane.delete("v1", "Namespace", "going", "")
    request = write(plane, kind, {}, operation, namespace=namespace)
    if refused is None:
        NamespaceLifecycle().mutate(request)
        return
    assert message_of(NamespaceLifecycle().mutate, request) == refused


@pytest.mark.parametrize(
    ("kind", "operation", "name", "kept"),
    [
        ("v1/Namespace", "DELETE", "default", True),
        ("v1/Namespace", "DELETE", "kube-system", True),
        ("v1/Namespace", "DELETE", "kube-public", True),
        ("v1/Namespace", "DELETE", "kube-node-lease", False),
        ("v1/Namespace", "UPDATE", "default", False),
        ("v1/ConfigMap", "DELETE", "default", False),
    ],
)
def test_some_namespaces_may_not_be_deleted(
    plane: Plane, kind: str, operation: Operation, name: str, kept: bool
) -> None:
    request = write(plane, kind, {}, operation, name=name)
    if kept:
        assert message_of(NamespaceLifecycle().validate, request) == (
            403, f'namespaces "{name}" is forbidden: this namespace may not be deleted')  # fmt: skip
    else:
        NamespaceLifecycle().validate(request)


def test_system_classes_may_not_be_deleted(plane: Plane) -> None:
    step, kind = SystemClasses(), "scheduling.k8s.io/v1/PriorityClass"
    for name in ("system-cluster-critical", "system-node-critical"):
        code, message = message_of(step.validate, write(plane, kind, None, "DELETE", name=name))
        assert (code, message.rpartition(": ")[2]) == (403, "this is a system priority class and cannot be deleted")
        step.validate(write(plane, kind, {}, "UPDATE", name=name))
    step.validate(write(plane, kind, None, "DELETE", name="other"))


def toleration(key: str, effect: str = "NoExecute", **more: Any) -> Json:
    return {"key": key, "operator": "Exists", "effect": effect, **more}


NOT_READY = toleration("node.kubernetes.io/not-ready", tolerationSeconds=300)


UNREACHABLE = toleration("node.kubernetes.io/unreachable", tolerationSeconds=300)


OWN = toleration("own")


@pytest.mark.parametrize(
    ("old", "new", "after"),
    [
        ([NOT_READY, UNREACHABLE], [], [NOT_READY, UNREACHABLE]),
        ([NOT_READY, UNREACHABLE], None, [NOT_READY, UNREACHABLE]),
        ([NOT_READY, OWN], [], [NOT_READY]),
        ([NOT_READY, UNREACHABLE], [OWN, UNREACHABLE], [OWN, UNREACHABLE, NOT_READY]),
        ([NOT_READY], [toleration(NOT_READY["key"], tolerationSeconds=5)],
         [toleration(NOT_READY["key"], tolerationSeconds=5)]),
        ([toleration(NOT_READY["key"], "NoSchedule")], [], []),
        ([NOT_READY], [{"operator": "Exists"}], [{"operator": "Exists"}]),
        ([], [OWN], [OWN]),
        (None, [], []),
        ([OWN], None, None),
    ],
)  # fmt: skip
def test_tolerations_of_every_pod_stay(plane: Plane, old: Any, new: Any, after: Any) -> None:
    """recorded 238, 261: an update that leaves them out gets them back, at the end."""

    def updated(operation: Operation = "UPDATE", sub: str = "", before: Json | None = None) -> Any:
        body: Json = {"spec": {"tolerations": copy.deepcopy(new)}}
        before = {"spec": {"tolerations": old}} if before is None else before
        request = write(plane, "v1/Pod", body, operation, sub=sub, old=before if operation != "CREATE" else None)
        KeptTolerations().mutate(request)
        return body["spec"]["tolerations"]

    assert updated() == after
    assert updated(sub="status") == new
    assert updated("CREATE") == new
    assert updated(before={}) == new


META: Json = {"name": "n", "namespace": "s", "uid": "u", "resourceVersion": "5", "creationTimestamp": "t", "labels": {}}


SHOWN = {key: META[key] for key in META if key != "labels"}
