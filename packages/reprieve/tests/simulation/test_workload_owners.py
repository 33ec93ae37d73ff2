"""Owners of objects in an input, and what objects and pods are called (whatif.md 1.2, 1.3, 1.9)."""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.errors import Origin
from kube_rules.manifests import PodMaker, UnknownObject
from kube_rules.objects import Pod
from reprieve.simulation.workloads.batches import PodNames, PodWorkload, workload_of
from reprieve.simulation.workloads.owners import (
    Owner,
    Owners,
    is_active,
    name_of_meta,
    object_id_of,
    runtime_of,
    subject_of_maker,
    whole_number,
)
from tests.simulation.test_workloads import loaded, made, pod

Json = dict[str, Any]
VERSION = "example.com/v1"


def maker(name: str, *, by: str = "", uid: str = "", by_uid: str = "", **meta: Any) -> PodMaker:
    """A Thing; `by`: the name of the Thing that controls it."""
    reference = {"apiVersion": VERSION, "kind": "Thing", "name": by, "uid": by_uid, "controller": True}
    metadata = {"name": name, "uid": uid, **({"ownerReferences": [reference]} if by else {}), **meta}
    return PodMaker({"apiVersion": VERSION, "kind": "Thing", "metadata": metadata}, Origin("f"))


def key(name: str, namespace: str = "default") -> Owner:
    return "example.com", "Thing", namespace, name


def pod_of(name: str, owner: str, *, uid: str = "", kind: str = "Thing", **meta: Any) -> Pod:
    """A pod of a Thing."""
    version = VERSION if kind == "Thing" else "apps/v1"
    reference = {"apiVersion": version, "kind": kind, "name": owner, "uid": uid, "controller": True}
    given = pod(name)
    given["metadata"] |= {"ownerReferences": [reference], **meta}
    return loaded(given).pods[0].object


def called(pods: list[Pod]) -> list[str]:
    return [one.name for one in pods]


# -- owners --------------------------------------------------------------------------------------


def test_pod_belongs_to_every_object_above_it() -> None:
    """whatif.md 1.2: directly or through other owners."""
    owners = Owners([maker("top"), maker("mid", by="top")], pods=[pod_of("p", "mid"), pod_of("q", "top")])
    assert called(owners.pods(key("top"))) == ["p", "q"]
    assert called(owners.pods(key("mid"))) == ["p"]
    assert called(owners.direct(key("top"))) == ["q"]
    assert called(owners.direct(key("mid"))) == ["p"]
    assert (owners.owner(key("mid")), owners.owner(key("top"))) == (key("top"), None)
    assert (owners.owned(key("top")), owners.owned(key("mid"))) == ([key("mid")], [])


def test_pods_of_an_owner_that_is_not_in_the_input_are_its_own_alone() -> None:
    owners = Owners([maker("top"), maker("below", by="gone")], pods=[pod_of("p", "gone")])
    assert called(owners.direct(key("gone"))) == ["p"]
    assert owners.pods(key("gone")) == []
    assert owners.owner(key("below")) is None
    assert owners.owned(key("gone")) == []


def test_owners_are_followed_eight_levels_up() -> None:
    """A bound for chains, which may go in a circle."""
    makers = [maker("t9"), *(maker(f"t{level}", by=f"t{level + 1}") for level in reversed(range(9)))]
    owners = Owners(makers, pods=[pod_of("p", "t0")])
    assert [called(owners.pods(key(f"t{level}"))) for level in range(10)] == [*([["p"]] * 8), [], []]
    circle = Owners([maker("a", by="b"), maker("b", by="a")], pods=[pod_of("p", "a")])
    assert called(circle.pods(key("a"))) == called(circle.pods(key("b"))) == ["p"]


@pytest.mark.parametrize(
    ("has", "named", "is_its"),
    [("u", "u", True), ("u", "other", False), ("u", "", True), ("", "u", True), ("", "", True)],
)
def test_uid_decides_where_both_sides_have_one(has: str, named: str, is_its: bool) -> None:
    """whatif.md 1.2: a reference by another UID is to a deleted object of that name."""
    owners = Owners([maker("t", uid=has), maker("below", by="t", by_uid=named)], pods=[pod_of("p", "t", uid=named)])
    assert called(owners.pods(key("t"))) == (["p"] if is_its else [])
    assert called(owners.direct(key("t"), has)) == (["p"] if is_its else [])
    assert owners.owner(key("below")) == (key("t") if is_its else None)
    assert owners.owned(key("t")) == ([key("below")] if is_its else [])


def test_only_the_controlling_reference_counts() -> None:
    other = maker("below", by="t")
    other.manifest["metadata"]["ownerReferences"][0]["controller"] = False
    one = pod_of("p", "t")
    given = pod("q")
    given["metadata"]["ownerReferences"] = [{"apiVersion": VERSION, "kind": "Thing", "name": "t", "uid": ""}]
    owners = Owners([maker("t"), other], pods=[one, loaded(given).pods[0].object])
    assert called(owners.pods(key("t"))) == ["p"]
    assert owners.owned(key("t")) == []


def test_deleted_pod_has_no_owner_until_it_is_there_again() -> None:
    """whatif.md 1.11: what earlier steps have deleted and created counts."""
    owners = Owners([maker("t"), maker("s", namespace="team")], pods=[pod_of("p", "t"), pod_of("q", "t")])
    owners.add_pod(pod_of("p", "s", namespace="team"))
    owners.remove_pod("", "p")
    assert called(owners.pods(key("t"))) == called(owners.direct(key("t"))) == ["q"]
    assert called(owners.pods(key("s", "team"))) == ["p"], "of another namespace"
    owners.remove_pod("team", "p")
    assert owners.pods(key("s", "team")) == []
    owners.add_pod(pod_of("p", "s", namespace="team"))
    assert called(owners.pods(key("s", "team"))) == ["p"], "once"
    assert called(owners.pods(key("t"))) == ["q"]


def test_object_that_comes_later_has_the_pods_and_objects_that_name_it() -> None:
    owners = Owners([maker("mid", by="top")], pods=[pod_of("p", "mid"), pod_of("q", "top", uid="u"), pod_of("r", "x")])
    owners.add(maker("top", uid="u"))
    assert sorted(called(owners.pods(key("top")))) == ["p", "q"]
    assert owners.owned(key("top")) == [key("mid")]
    owners.add(maker("top", uid="u", labels={"a": "b"}))
    assert sorted(called(owners.pods(key("top")))) == ["p", "q"], "of one that is added again they are the same"
    found = owners.maker(key("top"))
    assert found is not None
    assert found.manifest["metadata"]["labels"] == {"a": "b"}
    assert owners.maker(key("x")) is None


@pytest.mark.parametrize(
    ("kind", "label", "of_deployment"),
    [
        ("ReplicaSet", "5d4", True),
        ("ReplicaSet", "xyz", False),
        ("ReplicaSet", "", False),
        ("StatefulSet", "5d4", False),
    ],
)
def test_replica_set_that_is_not_there_is_known_by_its_name(kind: str, label: str, of_deployment: bool) -> None:
    """whatif.md 1.2: a Deployment's pods also by the name its ReplicaSets bear."""
    labels: Json = {"labels": {"pod-template-hash": label}} if label else {}
    web: Owner = ("apps", "Deployment", "default", "web")
    above = PodMaker(made("apps/v1", "Deployment", name="web"), Origin("f"))
    owners = Owners([above], pods=[pod_of("p", "web-5d4", kind=kind, **labels)])
    assert called(owners.pods(web)) == (["p"] if of_deployment else [])
    assert called(owners.direct(("apps", kind, "default", "web-5d4"))) == ["p"]
    assert owners.set_of(web) == (("apps", "ReplicaSet", "default", "web-5d4") if of_deployment else None)


@pytest.mark.parametrize("uid", ["", "d"])
def test_deployment_that_comes_later_has_the_pods_of_a_replica_set_that_is_not_there(uid: str) -> None:
    """whatif.md 1.2: the UID in a pod's reference is that of the ReplicaSet."""
    web: Owner = ("apps", "Deployment", "default", "web")
    labels = {"pod-template-hash": "5d4"}
    owners = Owners([], pods=[pod_of("p", "web-5d4", uid="r", kind="ReplicaSet", labels=labels)])
    above = made("apps/v1", "Deployment", name="web")
    above["metadata"]["uid"] = uid
    owners.add(PodMaker(above, Origin("f")))
    assert called(owners.pods(web)) == called(owners.direct(web, uid)) == ["p"]
    assert called(owners.direct(("apps", "ReplicaSet", "default", "web-5d4"), "other")) == []


@pytest.mark.parametrize(
    ("phase", "deleted", "counts"),
    [
        ("Pending", False, True),
        ("Running", False, True),
        ("Unknown", False, True),
        ("Succeeded", False, False),
        ("Failed", False, False),
        ("Running", True, False),
    ],
)
def test_pods_that_have_ended_or_are_going_do_not_count(phase: str, deleted: bool, counts: bool) -> None:
    """whatif.md 1.2."""
    given = pod("p")
    given["status"] = {"phase": phase}
    if deleted:
        given["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert is_active(loaded(given).pods[0].object) is counts


TRAINER = "trainer.kubeflow.org/v1alpha1"


@pytest.mark.parametrize(
    ("reference", "version", "kind", "namespace", "found"),
    [
        ({"name": "r"}, TRAINER, "ClusterTrainingRuntime", "", True),
        ({"name": "r", "kind": "ClusterTrainingRuntime"}, TRAINER, "ClusterTrainingRuntime", "", True),
        ({"name": "r"}, "trainer.kubeflow.org/v2", "ClusterTrainingRuntime", "", True),
        ({"name": "r"}, "example.com/v1", "ClusterTrainingRuntime", "", False),
        ({"name": "r"}, TRAINER, "TrainingRuntime", "team", False),
        ({"name": "s"}, TRAINER, "ClusterTrainingRuntime", "", False),
        ({"name": "r", "kind": "TrainingRuntime"}, TRAINER, "TrainingRuntime", "team", True),
        ({"name": "r", "kind": "TrainingRuntime"}, TRAINER, "TrainingRuntime", "other", False),
        ({"name": "r", "kind": "TrainingRuntime"}, TRAINER, "TrainingRuntime", "", False),
        ({"name": "r", "kind": "TrainingRuntime"}, TRAINER, "ClusterTrainingRuntime", "team", False),
        ({}, TRAINER, "ClusterTrainingRuntime", "", False),
    ],
)
def test_which_runtime_a_train_job_names(reference: Json, version: str, kind: str, namespace: str, found: bool) -> None:
    """whatif.md 2.5: one of the cluster by default; else one of its own namespace."""
    runtime: Json = {"apiVersion": version, "kind": kind, "metadata": {"name": "r", "namespace": namespace}}
    decoy: Json = {"apiVersion": TRAINER, "kind": "ClusterTrainingRuntime", "metadata": {"name": "decoy"}}
    among = [
        UnknownObject(each["apiVersion"], each["kind"], Origin("f"), None, "", each, 0.0, False)
        for each in (decoy, runtime)
    ]
    job = {**made(TRAINER, "TrainJob", {"runtimeRef": reference}), "metadata": {"name": "t", "namespace": "team"}}
    assert runtime_of(job, among) is (among[1] if found else None)


def test_replica_set_in_the_input_has_its_pods_whatever_their_labels_are() -> None:
    """whatif.md 1.2: its name says nothing of a Deployment then."""
    own = PodMaker(made("apps/v1", "ReplicaSet", name="web-5d4"), Origin("f"))
    pods = [
        pod_of("p", "web-5d4", kind="ReplicaSet", labels={"pod-template-hash": "5d4"}),
        pod_of("q", "web-5d4", kind="ReplicaSet"),
    ]
    owners = Owners([own], pods=pods)
    assert called(owners.pods(("apps", "ReplicaSet", "default", "web-5d4"))) == ["p", "q"]
    assert owners.direct(("apps", "Deployment", "default", "web")) == []
    assert owners.set_of(("apps", "Deployment", "default", "web")) is None


# -- numbers and names -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "most", "number"),
    [
        ("0", 9, 0),
        ("000", 9, 0),
        ("9", 9, 9),
        ("10", 9, None),
        ("10", 10, 10),
        ("11", 10, None),
        ("0009", 9, 9),
        ("", 9, None),
        ("-1", 9, None),
        ("+1", 9, None),
        (" 1", 9, None),
        ("1.0", 9, None),
        ("²", 9, None),
        ("٣", 9, None),
        ("9" * 5_000, 9, None),
    ],
)
def test_which_texts_are_whole_numbers(text: str, most: int, number: int | None) -> None:
    assert whole_number(text, most) == number


@pytest.mark.parametrize(
    ("meta", "name", "subject"),
    [
        ({"name": "x"}, "x", "default/x"),
        ({"name": "x", "namespace": "team"}, "x", "team/x"),
        ({"generateName": "x-"}, "x-00000", "default/x-"),
        ({"name": "x", "generateName": "y-"}, "x", "default/x"),
        ({"generateName": "x" * 248}, "x" * 248 + "00000", "default/" + "x" * 248),
        ({"generateName": "x" * 249}, "x" * 248 + "00000", "default/" + "x" * 249),
        ({"name": "x" * 253}, "x" * 253, "default/" + "x" * 253),
        ({"name": "x" * 300}, "x" * 300, "default/" + "x" * 253),
        ({"name": "x", "namespace": "n" * 300}, "x", "n" * 253 + "/x"),
        ({}, "", "default/"),
    ],
)
def test_object_names(meta: Json, name: str, subject: str) -> None:
    """As the API server completes `generateName`; messages are of bounded length."""
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta}
    assert name_of_meta(meta) == name
    assert subject_of_maker(manifest) == f'Job "{subject}"'
    assert object_id_of(manifest) == ("batch", "Job", subject.split("/")[0], name)


def workload(name: str = "x", namespace: str = "default") -> PodWorkload:
    return workload_of(maker(name, namespace=namespace))


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        (["a-", "a-", "b-", "a-"], ["a-00000", "a-00001", "b-00000", "a-00002"]),
        (["a-00001", "a-", "a-"], ["a-00001", "a-00000", "a-00002"]),
        (["x" * 57 + "-"], ["x" * 57 + "-00000"]),
        (["x" * 58 + "-"], ["x" * 58 + "00000"]),
        (["x" * 58 + "y-", "x" * 58 + "z-"], ["x" * 58 + "00000", "x" * 58 + "00001"]),
        (["a"], ["a"]),
    ],
)
def test_name_that_ends_in_a_hyphen_is_completed(asked: list[str], names: list[str]) -> None:
    """whatif.md 1.3: five digits for the five characters that the controller makes up, on 58 at most."""
    given = PodNames()
    assert [given.made(workload(), each) for each in asked] == names


def test_names_are_those_of_a_namespace() -> None:
    given = PodNames()
    given.take("default", "a-00000")
    assert given.is_taken("default", "a-00000")
    assert not given.is_taken("team", "a-00000")
    assert given.made(workload(namespace="team"), "a-") == "a-00000"
    assert given.made(workload(), "a-") == "a-00001"
    given.take("", "b")
    given.take("team", "c")
    assert [given.is_taken("default", "b"), given.is_taken("default", "c"), given.is_taken("team", "c")] == [
        True,
        False,
        True,
    ]
    given.free("team", "b")
    assert given.is_taken("default", "b")
    given.free("", "b")
    given.free("team", "c")
    assert not given.is_taken("default", "b")
    assert not given.is_taken("team", "c")


@pytest.mark.parametrize(
    ("inner", "outer", "path", "place"),
    [
        ("", "", "spec.template", "spec.template"),
        ("", "spec.jobs[0].template", "spec.template", "spec.jobs[0].template.spec.template"),
        ("", "spec.jobs[0].template", "", "spec.jobs[0].template"),
        ("spec", "spec.config", "spec", "spec.config"),
        ("spec", "spec.config", "spec.head.template", "spec.config.head.template"),
        ("spec", "spec.config", "specs", "spec.config"),
        ("spec", "spec.config", "metadata.name", "spec.config"),
    ],
)
def test_places_of_a_made_object_are_those_of_what_the_input_has(inner: str, outer: str, path: str, place: str) -> None:
    """whatif.md 1.9."""
    given = workload()
    within = PodWorkload(given.manifest, given.origin, given.subject, 0.0, given.object_id, inner, outer)
    assert within.place(path) == place
    assert within.error(path, "wrong").path == place
