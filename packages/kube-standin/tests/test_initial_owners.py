"""What objects of another cluster need to be whole here: owners, templates, and the UIDs by which they name each other.

The rule is in docs/apiserver.md: nothing that is loaded is made a second time, and nothing is taken for an orphan.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kube_rules.errors import InputError, Origin
from kube_standin.initial_owners import (
    LoadedItem,
    Lookup,
    complete_light,
    complete_templates,
    missing_replica_sets,
)
from tests.admission.plane import Plane
from tests.recorded.shapes import shape

Json = dict[str, Any]
HASH = "pod-template-hash"


def item(
    version: str, kind: str, name: str = "x", *, uid: str = "", namespace: str = "shop", **fields: Any
) -> LoadedItem:
    row = shape(version, kind)
    namespace = namespace if row.namespaced else ""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **fields.pop("metadata", {})}
    manifest = {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}
    return LoadedItem(row, namespace, name, manifest, Origin("in.yaml", 1), old_uid=uid)


def owner(version: str, kind: str, name: str, uid: str = "old", **more: Any) -> Json:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, **more}


def owned(version: str, kind: str, name: str, **labels: str) -> Json:
    """Metadata of what a controller made."""
    return {"labels": labels, "ownerReferences": [owner(version, kind, name, controller=True)]}


@pytest.fixture
def plane() -> Plane:
    return Plane()


@pytest.fixture
def there(plane: Plane) -> Lookup:
    return Lookup(plane.registry)


# -- which objects there will be -------------------------------------------------------------------------------


def test_body_bytes_count_until_they_are_counted_out(plane: Plane, there: Lookup) -> None:
    kept = plane.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept", "namespace": "default"}})
    first, old = item("v1", "ConfigMap", "a"), item("v1", "ConfigMap", "kept", namespace="default")
    assert there.add(first) is None
    assert there.add(old) == 'ConfigMap "default/kept"'
    assert old.uid == kept["metadata"]["uid"]
    assert len(first.uid) == 36
    assert first.uid != old.uid
    for namespace, name, found in (("shop", "a", True), ("shop", "b", False), ("default", "a", False),
                                   ("default", "kept", True)):  # fmt: skip
        assert there.has("", "ConfigMap", namespace, name) is found
    assert there.has("", "Namespace", "", "default")
    assert not there.has("made.up", "Thing", "", "a")
    with pytest.raises(InputError, match=r"appears twice in the input; first in in\.yaml"):
        there.add(item("v1", "ConfigMap", "a"))
    there.forget(first)
    assert not there.has("", "ConfigMap", "shop", "a")
    for _ in range(2):
        assert there.add(item("v1", "ConfigMap", "")) is None, "names that are made are never taken"


def test_rows_of_kinds(there: Lookup) -> None:
    assert there.kind("apps", "ReplicaSet") is not None
    assert there.kind("scheduling.k8s.io", "CompositePodGroup").version == "v1beta1"
    for group, kind in (("apps", "Pod"), ("made.up", "Thing")):
        with pytest.raises(KeyError):
            there.kind(group, kind)


# -- names by UID ----------------------------------------------------------------------------------------------


def test_uids_are_followed_where_objects_name_each_other(there: Lookup) -> None:
    """Not in texts of users, which may be called like them; what is not in the input keeps its UID."""
    first = item("v1", "ConfigMap", "a", uid="old-a")
    second = item("v1", "ConfigMap", "b", uid="old-b")
    for one in (first, second):
        there.add(one)
    twice = item("v1", "ConfigMap", "c", uid="old-a")
    there.add(twice)
    texts = {"uid": "old-a", "other": "old-a"}
    body: Json = {
        "spec": {
            "claimRef": {"uid": "old-a"},
            "list": [{"deep": [{"uid": "old-b"}]}, {"uid": "unknown"}, {"uid": 7}, {"uid": ["old-a"]}],
            "matchLabels": dict(texts),
            "selector": {"matchLabels": {"controller-uid": "old-a", "batch.kubernetes.io/controller-uid": "unknown"}},
            "template": {"metadata": {"labels": {"controller-uid": "old-b", "app": "old-b"}}},
        },
        "data": dict(texts),
    }
    metadata = {"uid": "old-a", "labels": {"controller-uid": "old-a", **texts}, "annotations": dict(texts)}
    whole = item("batch/v1", "Job", "j", metadata=metadata, **body)
    assert there.relate(whole) is False
    spec = whole.manifest["spec"]
    assert spec["claimRef"] == {"uid": first.uid}
    assert spec["list"] == [{"deep": [{"uid": second.uid}]}, {"uid": "unknown"}, {"uid": 7}, {"uid": ["old-a"]}]
    assert spec["matchLabels"] == whole.manifest["data"] == texts
    assert spec["selector"]["matchLabels"] == {
        "controller-uid": first.uid, "batch.kubernetes.io/controller-uid": "unknown"}  # fmt: skip
    assert spec["template"]["metadata"]["labels"] == {"controller-uid": second.uid, "app": "old-b"}
    found = whole.manifest["metadata"]
    assert found["labels"] == {"controller-uid": first.uid, **texts}
    assert (found["annotations"], found["uid"]) == (texts, "old-a")


def test_labels_of_any_shape_are_left_to_decoding(there: Lookup) -> None:
    for labels in (None, "x", ["controller-uid"], {"controller-uid": 7}, {"controller-uid": ["x"]}):
        one = item("batch/v1", "Job", "j", metadata={"labels": labels}, spec={"template": [], "selector": 7})
        assert there.relate(one) is False
        assert one.manifest["metadata"]["labels"] == labels


JOB = owner("batch/v1", "Job", "j", "stale")


@pytest.mark.parametrize(
    ("references", "left", "lost"),
    [
        ([JOB], [JOB], False),
        ([owner("v1", "Node", "n", "stale")], [owner("v1", "Node", "n", "stale")], False),
        ([owner("batch/v1", "Job", "gone")], [], True),
        ([owner("batch/v1", "Job", "gone"), JOB], [JOB], True),
        ([owner("batch/v2beta1", "Job", "j", "stale")], [owner("batch/v2beta1", "Job", "j", "stale")], False),
        ([owner("made.up/v1", "Thing", "t", "kept")], [owner("made.up/v1", "Thing", "t", "kept")], False),
        ([{"apiVersion": None, "kind": None}], [{"apiVersion": None, "kind": None}], False),
        ([], [], False),
        ("me", "me", False),
        (None, None, False),
        (["me", JOB], ["me", JOB], False),
    ],
)
def test_owners_are_named_by_the_uid_they_have_here(there: Lookup, references: Any, left: Any, lost: bool) -> None:
    """An owner that would be served and is not there is lost; whether one of an unknown kind is there is unknown."""
    job, node = item("batch/v1", "Job", "j", uid="a"), item("v1", "Node", "n", uid="b")
    for one in (job, node, item("batch/v1", "Job", "gone", namespace="elsewhere")):
        there.add(one)
    pod = item("v1", "Pod", "p", metadata={"ownerReferences": copy.deepcopy(references)})
    assert there.relate(pod) is lost
    found = pod.manifest["metadata"]["ownerReferences"]
    uids = {"Job": job.uid, "Node": node.uid}
    if isinstance(left, list) and left and isinstance(left[0], dict):
        left = [{**one, "uid": uids[one["kind"]]} if one.get("uid") == "stale" else one for one in left]
    assert found == left


# -- ReplicaSets that the input leaves out ---------------------------------------------------------------------

TEMPLATE: Json = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
SELECTOR: Json = {"matchLabels": {"app": "web"}, "matchExpressions": []}
WEB: Json = {"selector": SELECTOR, "template": TEMPLATE}


def of_set(name: str = "web-1", set_name: str = "web-abc", version: str = "apps/v1", **labels: str) -> LoadedItem:
    return item("v1", "Pod", name, metadata=owned(version, "ReplicaSet", set_name, **(labels or {HASH: "abc"})))


@pytest.mark.parametrize(("spec", "replicas"), [({}, 1), ({"replicas": 0}, 0), ({"replicas": 3}, 3)])
def test_replica_set_is_made_of_its_deployment(there: Lookup, spec: Json, replicas: int) -> None:
    """One for all pods of it, with the hash they have; the Deployment is left as it is."""
    deployment = item("apps/v1", "Deployment", "web", spec={**copy.deepcopy(WEB), **spec})
    stranger = item("v1", "Pod", "stranger")
    [made] = missing_replica_sets([stranger, of_set("a"), deployment, of_set("b")], there)
    assert (made.object_id, made.origin) == (("apps", "ReplicaSet", "shop", "web-abc"), deployment.origin)
    reference = owner("apps/v1", "Deployment", "web", "", controller=True, blockOwnerDeletion=True)
    labels = {"app": "web", HASH: "abc"}
    assert made.manifest == {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web-abc", "namespace": "shop", "labels": labels, "ownerReferences": [reference]},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels, "matchExpressions": []},
            "template": {**TEMPLATE, "metadata": {"labels": labels}},
        },
    }
    assert deployment.manifest["spec"] == {**WEB, **spec}


@pytest.mark.parametrize(
    "pod",
    [
        item("v1", "Pod", "p"),
        of_set(set_name="other-abc"),
        of_set(set_name="web"),
        of_set(version="extensions/v1"),
        of_set(app="web"),
        item("v1", "Pod", "p", metadata=owned("apps/v1", "StatefulSet", "web-abc", **{HASH: "abc"})),
        item("v1", "Pod", "p", namespace="other", metadata=owned("apps/v1", "ReplicaSet", "web-abc", **{HASH: "abc"})),
        item("v1", "Pod", "p", metadata={"labels": {HASH: "abc"},
                                         "ownerReferences": [owner("apps/v1", "ReplicaSet", "web-abc")]}),
        item("v1", "Pod", "p", metadata={"ownerReferences": "me"}),
        item("v1", "Pod", "p", metadata={"ownerReferences": ["me"]}),
        of_set(set_name="there-abc"),
    ],
    ids=range(11),
)  # fmt: skip
def test_pods_that_say_nothing_of_a_replica_set_of_a_deployment(there: Lookup, pod: LoadedItem) -> None:
    """Neither do they hide those that do."""
    deployments = [item("apps/v1", "Deployment", name, spec=copy.deepcopy(WEB)) for name in ("web", "there")]
    there.add(item("apps/v1", "ReplicaSet", "there-abc"))
    assert missing_replica_sets([*deployments, pod], there) == []
    assert [one.name for one in missing_replica_sets([*deployments, pod, of_set("late")], there)] == ["web-abc"]
    assert missing_replica_sets([of_set("late")], there) == []


@pytest.mark.parametrize(
    "spec", [None, 7, {}, {**WEB, "template": 7}, {**WEB, "selector": None}, {**WEB, "template": {"metadata": {}}}]
)
def test_deployment_of_any_shape_is_left_to_decoding(there: Lookup, spec: Any) -> None:
    assert missing_replica_sets([item("apps/v1", "Deployment", "web", spec=spec), of_set()], there) == []
    bare = {"selector": {}, "template": TEMPLATE}
    [made] = missing_replica_sets([item("apps/v1", "Deployment", "web", spec=bare), of_set()], there)
    assert made.manifest["spec"]["selector"] == {"matchLabels": {HASH: "abc"}}


# -- what a snapshot leaves out --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "spec", "completed", "reported"),
    [
        ("PersistentVolume", {}, {"hostPath": {"path": "/"}}, 'a hostPath for PersistentVolume "x"'),
        ("PersistentVolume", {"capacity": {}}, {"capacity": {}, "hostPath": {"path": "/"}},
         'a hostPath for PersistentVolume "x"'),
        ("PersistentVolume", {"csi": {}}, {"csi": {}}, ""),
        ("Service", {"selector": {}}, {"selector": {}, "clusterIP": "None"}, 'no address for Service "shop/x"'),
        ("Service", {"selector": {}, "ports": []}, {"selector": {}, "ports": []}, ""),
        ("Service", {}, {}, ""),
        ("ConfigMap", {"selector": {}}, {"selector": {}}, ""),
        ("Pod", {"ephemeralContainers": [{}]}, {}, ""),
        ("Pod", {"ephemeralContainers": []}, {}, ""),
        ("Pod", {"ephemeralContainers": [{"name": "e"}]}, {"ephemeralContainers": [{"name": "e"}]}, ""),
        ("Pod", {"containers": [{"volumeMounts": [{}, {"name": "v"}]}, {"name": "c"}, 7],
                 "initContainers": [{"volumeMounts": [{}]}, {"volumeMounts": "x"}]},
         {"containers": [{"volumeMounts": [{"name": "v"}]}, {"name": "c"}, 7],
          "initContainers": [{"volumeMounts": []}, {"volumeMounts": "x"}]}, ""),
        ("Pod", {"containers": "x", "initContainers": None}, {"containers": "x", "initContainers": None}, ""),
        ("Pod", None, None, ""),
        ("PersistentVolume", [], [], ""),
    ],
)  # fmt: skip
def test_fields_that_the_api_demands_are_filled_in_and_reported(
    kind: str, spec: Any, completed: Any, reported: str
) -> None:
    one = item("v1", kind, spec=copy.deepcopy(spec))
    assert complete_light(one) == reported
    assert one.manifest["spec"] == completed


OF_ONE_POD = {
    "controller-revision-hash": "x",
    "statefulset.kubernetes.io/pod-name": "db-0",
    "apps.kubernetes.io/pod-index": "0",
}
POD_SPEC: Json = {
    "containers": [{"name": "c"}],
    "tolerations": [],
    "nodeName": "n",
    "hostname": "h",
    "subdomain": "s",
    "priority": 1,
    "preemptionPolicy": "Never",
    "schedulingGates": [],
    "serviceAccount": "a",
    "ephemeralContainers": [],
    "restartPolicy": "Always",
}
TAKEN: Json = {"containers": [{"name": "c"}], "tolerations": []}


@pytest.mark.parametrize(
    ("version", "kind"), [("apps/v1", "ReplicaSet"), ("v1", "ReplicationController"), ("apps/v1", "StatefulSet")]
)
def test_light_owner_has_the_template_of_its_first_pod(version: str, kind: str) -> None:
    """Without what is one pod's own; the pod keeps it."""
    light = item(version, kind, "db", spec={"replicas": 2})
    labels = {"app": "db", HASH: "abc", **OF_ONE_POD}
    pods = [item("v1", "Pod", name, metadata=owned(version, kind, "db", **labels, own=name),
                 spec=copy.deepcopy(POD_SPEC)) for name in ("db-0", "db-1")]  # fmt: skip
    other = item("v1", "Pod", "z", metadata=owned(version, kind, "other"), spec={"containers": []})
    whole = item(version, kind, "whole", spec={"template": {"kept": 1}})
    strange = item(version, kind, "strange", spec=7)
    assert complete_templates([other, light, *pods, whole, strange]) == set()
    spec = {"serviceName": "db"} if kind == "StatefulSet" else {}
    template = {"metadata": {"labels": {"app": "db", HASH: "abc", "own": "db-0"}}, "spec": TAKEN}
    assert light.manifest["spec"] == {"replicas": 2, **spec, "template": template}
    assert pods[0].manifest["spec"] == POD_SPEC
    assert whole.manifest["spec"] == {"template": {"kept": 1}}


def test_light_owner_without_pods_cannot_be_made() -> None:
    light = [item("apps/v1", "ReplicaSet", name, spec={}) for name in ("a", "b", "c")]
    without_spec = item("v1", "Pod", "p", metadata=owned("apps/v1", "ReplicaSet", "b"), spec=7)
    pod = item("v1", "Pod", "q", metadata=owned("apps/v1", "ReplicaSet", "c"), spec={"containers": []})
    assert complete_templates([*light, without_spec, pod]) == set(light[:2])
    deployment = item("apps/v1", "Deployment", "d", spec={})
    assert complete_templates([deployment]) == set()
    labels_of_any_shape = item("apps/v1", "ReplicaSet", "l", spec={})
    pod = item("v1", "Pod", "q", metadata={**owned("apps/v1", "ReplicaSet", "l"), "labels": 7}, spec={})
    assert complete_templates([labels_of_any_shape, pod]) == set()
    assert labels_of_any_shape.manifest["spec"]["template"]["metadata"] == {"labels": {}}


def volume(name: str, claim: str) -> Json:
    return {"name": name, "persistentVolumeClaim": {"claimName": claim}}


def test_claims_of_a_stateful_set_become_its_templates() -> None:
    """Those that are named like claims of its pod; without the volume they are bound to."""
    volumes = [volume("data", "data-db-0"), volume("logs", "data-db-1"), volume("gone", "gone-db-0"), {"name": "e"}]
    pod = item("v1", "Pod", "db-0", metadata=owned("apps/v1", "StatefulSet", "db"), spec={"volumes": volumes})
    claim = {"accessModes": ["ReadWriteOnce"], "volumeName": "v"}
    claims = [
        item("v1", "PersistentVolumeClaim", "data-db-0", spec=claim),
        item("v1", "PersistentVolumeClaim", "data-db-1", spec=claim),
        item("v1", "PersistentVolumeClaim", "gone-db-0", namespace="other", spec=claim),
    ]
    light = item("apps/v1", "StatefulSet", "db", spec={"serviceName": "own"})
    assert complete_templates([light, pod, *claims]) == set()
    spec = light.manifest["spec"]
    assert spec["serviceName"] == "own"
    assert spec["volumeClaimTemplates"] == [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    assert spec["template"]["spec"]["volumes"] == volumes[1:]
    assert len(pod.manifest["spec"]["volumes"]) == 4
    for wanted in (None, 7):
        light = item("apps/v1", "StatefulSet", "db", spec={})
        claims = [item("v1", "PersistentVolumeClaim", "data-db-0", spec=wanted)]
        complete_templates([light, pod, *claims])
        assert light.manifest["spec"]["volumeClaimTemplates"] == [{"metadata": {"name": "data"}, "spec": {}}]
    light = item("apps/v1", "StatefulSet", "db", spec={})
    complete_templates([light, pod])
    assert "volumeClaimTemplates" not in light.manifest["spec"]
    replicas = item("apps/v1", "ReplicaSet", "db", spec={})
    other = item("v1", "Pod", "db-0", metadata=owned("apps/v1", "ReplicaSet", "db"), spec={"volumes": volumes})
    complete_templates([replicas, other, *claims])
    assert replicas.manifest["spec"]["template"]["spec"]["volumes"] == volumes
    assert replicas.manifest["spec"].keys() == {"template"}
