"""Objects that are there from the start: taken over with status and owners, all of them or none (apiserver.md)."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kube_rules.errors import InputError, Origin
from kube_rules.manifests import PlainObject
from kube_standin.admission import admission_steps
from kube_standin.controllers import ControllerSet
from kube_standin.initial_objects import LoadReport, load_objects
from kube_standin.registry import WriteOptions
from kube_standin.reload import FILE, read_digests, write_digests
from kube_standin.security import Secrets
from kube_standin.server.control_plane import ControlPlane
from kube_standin.storage import Store, open_log

Json = dict[str, Any]
CREATED = "2026-01-02T03:04:05Z"
JOB_UID = "11111111-1111-1111-1111-111111111111"
JOB_LABEL = "batch.kubernetes.io/controller-uid"


def plane() -> ControlPlane:
    store = Store(open_log(":memory:"))
    return ControlPlane(store, Secrets("admin", "reader", b"signing").tokens(), steps=admission_steps)


def load(
    server: ControlPlane, *manifests: Json, lenient: bool = False, before: Mapping[str, str] | None = None
) -> LoadReport:
    objects = [PlainObject(copy.deepcopy(one), Origin("in.yaml", number)) for number, one in enumerate(manifests, 1)]
    return load_objects(server.registry, objects, lenient=lenient, before=before)


def all_of(server: ControlPlane, version: str, kind: str) -> dict[str, Json]:
    row = server.registry.kind(version, kind)
    found = [server.registry.view(row, state) for state in server.store.heads(row.storage_key)]
    return {one["metadata"]["name"]: one for one in found}


def everything(server: ControlPlane) -> dict[str, int]:
    return {resource: server.store.count(resource) for resource in server.store.resources()}


def settled(server: ControlPlane) -> None:
    ControllerSet(server.registry).settle()


def made(version: str, kind: str, name: str, namespace: str = "shop", **fields: Any) -> Json:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **fields.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def owner(version: str, kind: str, name: str, uid: str) -> Json:
    return {"ownerReferences": [{"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}]}


def template(**labels: str) -> Json:
    return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i", "env": []}]}}


def running(name: str, owned: Json, labels: Json, **spec: Any) -> Json:
    metadata = {**owned, "labels": labels, "creationTimestamp": CREATED, "uid": f"uid-of-{name}"}
    spec = {"nodeName": "n1", **template()["spec"], **spec}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"phase": "Running", "startTime": CREATED, "conditions": ready}
    return made("v1", "Pod", name, metadata=metadata, spec=spec, status=status)


NODE = made("v1", "Node", "n1", "", status={"allocatable": {"cpu": "64", "pods": "100"}})


def replicas(kind: str, name: str, uid: str, count: int, **more: Any) -> Json:
    spec = {"replicas": count, "selector": {"matchLabels": {"app": name}}, "template": template(app=name), **more}
    return made("apps/v1", kind, name, metadata={"uid": uid}, spec=spec)


HASHED = {"app": "web", "pod-template-hash": "abc"}
SET = made(
    "apps/v1",
    "ReplicaSet",
    "web-abc",
    metadata={**owner("apps/v1", "Deployment", "web", "old-web"), "uid": "old-set", "labels": HASHED},
    spec={"replicas": 2, "selector": {"matchLabels": HASHED}, "template": template(**HASHED)},
)
OF_SET = [running(f"web-abc-{n}", owner("apps/v1", "ReplicaSet", "web-abc", "old-set"), HASHED) for n in "xy"]
OF_STATEFUL = [
    running(
        f"db-{n}",
        owner("apps/v1", "StatefulSet", "db", "old-db"),
        {"app": "db", "controller-revision-hash": "db-elsewhere"},
    )
    for n in range(2)
]
LIGHT = {"replicas": 2, "selector": {"matchLabels": {"app": "db"}}}
WORKLOADS: dict[str, Sequence[Json]] = {
    "deployment": [*OF_SET, SET, replicas("Deployment", "web", "old-web", 2)],
    "deployment without its ReplicaSet": [replicas("Deployment", "web", "old-web", 2), *OF_SET],
    "light ReplicaSet": [{**SET, "spec": {**SET["spec"], "template": None}}, *OF_SET],
    "stateful set": [*OF_STATEFUL, replicas("StatefulSet", "db", "old-db", 2, serviceName="db")],
    "light stateful set": [made("apps/v1", "StatefulSet", "db", metadata={"uid": "old-db"}, spec=LIGHT), *OF_STATEFUL],
    "job": [
        made(
            "batch/v1",
            "Job",
            "once",
            metadata={"uid": JOB_UID},
            spec={
                "parallelism": 1,
                "selector": {"matchLabels": {JOB_LABEL: JOB_UID}},
                "template": {
                    "metadata": {"labels": {JOB_LABEL: JOB_UID, "controller-uid": JOB_UID}},
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
                },
            },
            status={"active": 1, "startTime": CREATED},
        ),
        running("once-x", owner("batch/v1", "Job", "once", JOB_UID), {JOB_LABEL: JOB_UID}, restartPolicy="Never"),
    ],
}
del WORKLOADS["light ReplicaSet"][0]["spec"]["template"]


@pytest.mark.parametrize("name", WORKLOADS)
def test_pods_of_workloads_are_adopted_and_neither_doubled_nor_collected(name: str) -> None:
    """whatif.md 12.3."""
    server = plane()
    load(server, *WORKLOADS[name], NODE)
    settled(server)
    pods = all_of(server, "v1", "Pod")
    assert set(pods) == {one["metadata"]["name"] for one in WORKLOADS[name] if one["kind"] == "Pod"}
    for pod in pods.values():
        assert pod["status"]["phase"] == "Running"
        assert pod["spec"]["nodeName"] == "n1"
        assert pod["metadata"]["creationTimestamp"] == CREATED
        assert not pod["metadata"].get("deletionTimestamp")
        [reference] = pod["metadata"]["ownerReferences"]
        above = all_of(server, reference["apiVersion"], reference["kind"])[reference["name"]]
        assert reference["uid"] == above["metadata"]["uid"] != ""
        assert pod["metadata"]["uid"] != f"uid-of-{pod['metadata']['name']}"


def test_references_to_missing_owners_are_dropped_and_counted() -> None:
    """whatif.md 12.2."""
    server = plane()
    served = running("a", owner("batch/v1", "Job", "gone", "x"), {})
    foreign = running("b", owner("example.com/v1", "Owner", "gone", "x"), {})
    assert load(server, NODE, served, foreign).orphaned == 1
    settled(server)
    pods = all_of(server, "v1", "Pod")
    assert not pods["a"]["metadata"].get("ownerReferences")
    assert pods["b"]["metadata"]["ownerReferences"][0]["name"] == "gone"


def test_claims_and_volumes_stay_bound() -> None:
    """whatif.md 12.2."""
    server = plane()
    claimed = {"kind": "PersistentVolumeClaim", "namespace": "shop", "name": "c", "uid": "old-claim"}
    shape = {"accessModes": ["ReadWriteOnce"], "storageClassName": "x"}
    load(
        server,
        made("v1", "PersistentVolume", "v", "", spec={**shape, "capacity": {"storage": "1Gi"}, "claimRef": claimed},
             status={"phase": "Bound"}),
        made("v1", "PersistentVolumeClaim", "c",
             metadata={"uid": "old-claim", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
             spec={**shape, "volumeName": "v", "resources": {"requests": {"storage": "1Gi"}}},
             status={"phase": "Bound"}),
    )  # fmt: skip
    settled(server)
    claim, volume = all_of(server, "v1", "PersistentVolumeClaim")["c"], all_of(server, "v1", "PersistentVolume")["v"]
    assert (claim["status"]["phase"], volume["status"]["phase"]) == ("Bound", "Bound")
    assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"] != "old-claim"


def test_objects_that_exist_are_kept_and_reported() -> None:
    """whatif.md 12.4."""
    server = plane()
    load(server, NODE, *OF_SET, SET)
    before = everything(server)
    again = load(server, NODE, *OF_SET, SET, made("v1", "ConfigMap", "new"))
    assert again.made == 1
    assert again.kept == ['Node "n1"', 'Pod "shop/web-abc-x"', 'Pod "shop/web-abc-y"', 'ReplicaSet "shop/web-abc"']
    assert everything(server) == {**before, "configmaps": before.get("configmaps", 0) + 1}
    late = running("web-abc-z", owner("apps/v1", "ReplicaSet", "web-abc", "old-set"), HASHED)
    load(server, late)
    owned = all_of(server, "v1", "Pod")["web-abc-z"]["metadata"]["ownerReferences"][0]["uid"]
    assert owned == all_of(server, "apps/v1", "ReplicaSet")["web-abc"]["metadata"]["uid"]


DEPLOYMENT = made(
    "apps/v1",
    "Deployment",
    "web",
    metadata={"labels": {"team": "a"}},
    spec={"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template(app="web")},
)
HOW = ": change it in the running cluster with kubectl apply -f, or start empty with --reset"


def edited(manifest: Json, *path: Any, value: Any) -> Json:
    """The manifest with another value at a path."""
    changed = copy.deepcopy(manifest)
    inner = changed
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    return changed


EDITS: dict[str, tuple[Json, Json, str]] = {
    "a number": (DEPLOYMENT, edited(DEPLOYMENT, "spec", "replicas", value=5), "spec.replicas"),
    "a label": (DEPLOYMENT, edited(DEPLOYMENT, "metadata", "labels", value={"team": "b"}), "metadata.labels.team"),
    "another container": (
        DEPLOYMENT,
        edited(DEPLOYMENT, "spec", "template", "spec", "containers", value=[*template()["spec"]["containers"],
                                                                           {"name": "d", "image": "i"}]),
        "spec.template.spec.containers[1]",
    ),
    "what a node has": (NODE, edited(NODE, "status", "allocatable", "cpu", value="8"), "status.allocatable.cpu"),
    "data": (
        made("v1", "ConfigMap", "c", data={"a": "1"}),
        made("v1", "ConfigMap", "c", data={"a": "1", "b": "2"}),
        "data.b",
    ),
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_edited_manifest_is_refused_by_name_and_field(edit: str) -> None:
    """interfaces.md 1.16: nothing of the input is loaded; with --lenient it is left out, and named."""
    first, second, path = EDITS[edit]
    server = plane()
    before = load(server, first).digests
    new = made("v1", "ConfigMap", "new")
    there = everything(server)
    with pytest.raises(InputError, match="was edited since it was loaded") as refused:
        load(server, new, second, before=before)
    subject = f'{first["kind"]} "{"shop/" if "namespace" in first["metadata"] else ""}{first["metadata"]["name"]}"'
    assert str(refused.value) == f"in.yaml: document 2: {subject}: {path}: was edited since it was loaded{HOW}"
    assert everything(server) == there
    lenient = load(server, new, second, lenient=True, before=before)
    assert "new" in all_of(server, "v1", "ConfigMap")
    assert lenient.left_out == [str(refused.value)]


def test_cluster_changes_are_no_edit() -> None:
    """Nor is another order of the fields of a manifest, or what was added to the input."""
    server = plane()
    before = load(server, DEPLOYMENT).digests
    kind = server.registry.kind("apps/v1", "Deployment")

    def scale(obj: Json) -> None:
        obj["spec"]["replicas"] = 7

    server.registry.modify_now(kind, "shop", "web", scale, WriteOptions())
    same = dict(reversed(DEPLOYMENT.items()))
    assert load(server, same, made("v1", "ConfigMap", "new"), before=before).kept == ['Deployment "shop/web"']
    assert all_of(server, "apps/v1", "Deployment")["web"]["spec"]["replicas"] == 7


def test_objects_removed_from_a_manifest_are_named() -> None:
    server = plane()
    before = load(server, DEPLOYMENT).digests
    bare = edited(DEPLOYMENT, "metadata", "labels", value={})
    again = load(server, bare, before=before)
    assert again.kept == ['Deployment "shop/web"']
    [warning] = again.warnings
    assert 'Deployment "shop/web": edited since it was loaded; fields removed from the manifest keep' in warning
    assert load(server, bare, before=again.digests).warnings == []


def test_object_never_loaded_is_kept_where_it_is_the_same() -> None:
    """Fields that the server, admission or the kubelet adds are no difference."""
    server = plane()
    load(server, NODE, DEPLOYMENT, *OF_SET, SET)
    assert len(load(server, NODE, DEPLOYMENT, *OF_SET, SET).kept) == 5
    with pytest.raises(InputError, match=r"spec\.replicas: already exists and differs: change it"):
        load(server, edited(DEPLOYMENT, "spec", "replicas", value=5))


def test_digests_are_kept_in_the_data_directory(tmp_path: Path) -> None:
    assert read_digests(tmp_path) == {}
    write_digests(tmp_path, {"a": "1"})
    assert read_digests(tmp_path) == {"a": "1"}
    (tmp_path / FILE).write_bytes(b"broken")
    assert read_digests(tmp_path) == {}


def test_quotas_are_for_what_comes_and_definitions_come_first() -> None:
    server = plane()
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    found = load(
        server,
        made("v1", "ResourceQuota", "none", spec={"hard": {"pods": "0"}}),
        made("example.com/v1", "Thing", "one"),
        made("elsewhere.example.com/v1", "Thing", "two"),
        made("apiextensions.k8s.io/v1", "CustomResourceDefinition", "things.example.com", "", spec=spec),
        running("a", {}, {}, serviceAccountName="robot"),
    )
    assert found.added == ['Namespace "shop"', 'ServiceAccount "shop/robot"']
    assert found.left_out == [
        'Thing "shop/two": nothing defines Thing of elsewhere.example.com/v1 (a CustomResourceDefinition)'
    ]
    assert set(all_of(server, "example.com/v1", "Thing")) == {"one"}
    assert set(all_of(server, "v1", "Pod")) == {"a"}


@pytest.mark.timed
def test_whole_cluster_takes_less_than_three_seconds() -> None:
    """whatif.md 12.4: 656 objects."""
    server = plane()
    nodes = [made("v1", "Node", f"n{n}", "", status=NODE["status"]) for n in range(156)]
    pods = [running(f"p-{n}", {}, {"app": "p"}, nodeName=f"n{n % 156}") for n in range(500)]
    started = time.process_time()
    assert load(server, *pods, *nodes).made == 657  # and the namespace
    assert time.process_time() - started < 3


def test_terminating_object_still_terminates() -> None:
    server = plane()
    going = running("a", {}, {})
    going["metadata"]["deletionTimestamp"] = CREATED
    load(server, NODE, going)
    assert all_of(server, "v1", "Pod")["a"]["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize(
    ("held", "left"),
    [(["a/b"], ["a/b"]), (["orphan", "a/b"], ["orphan", "a/b"]), (["foregroundDeletion"], ["foregroundDeletion"])],
)
def test_dependents_policy_stays_as_it_was_settled(held: list[str], left: list[str]) -> None:
    """A Job without a finalizer for its dependents was deleted with them, whatever a DELETE of one does by itself."""
    server = plane()
    going = made("batch/v1", "Job", "j", metadata={"finalizers": held, "deletionTimestamp": CREATED})
    load(server, {**going, "spec": {"template": {"spec": {**template()["spec"], "restartPolicy": "Never"}}}})
    found = all_of(server, "batch/v1", "Job")["j"]["metadata"]
    assert found["deletionTimestamp"]
    assert found["finalizers"] == left


def _changed(change: Callable[[Json], None]) -> Json:
    pod = running("bad", {}, {})
    change(pod)
    return pod


THING_NAMES = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
THINGS = made(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "things.example.com",
    "",
    spec={
        "group": "example.com",
        "scope": "Namespaced",
        "names": THING_NAMES,
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
)


@pytest.mark.parametrize(
    ("version", "kind", "refused"),
    [
        ("v2", "Pod", True),
        ("apps/v1", "Pod", True),
        ("storage.k8s.io/v1", "Pood", True),
        ("nodots/v1", "Thing", True),
        ("example.com/v1", "Other", False),
        ("example.com/v2", "Thing", False),
        ("other.example.com/v1", "Thing", False),
    ],
)
def test_kind_that_is_not_served_is_an_error_unless_a_definition_could_bring_it(
    version: str, kind: str, refused: bool
) -> None:
    strange = made(version, kind, "x")
    if refused:
        with pytest.raises(InputError, match=f'no matches for kind "{kind}" in version "{version}"'):
            load(plane(), THINGS, strange)
        return
    report = load(plane(), THINGS, strange)
    assert report.left_out == [f'{kind} "shop/x": nothing defines {kind} of {version} (a CustomResourceDefinition)']


def test_loading_takes_over_metadata_but_that_of_the_server() -> None:
    server = plane()
    given = {"creationTimestamp": CREATED, "generation": 9, "resourceVersion": "x", "selfLink": "/x",
             "managedFields": [{"manager": "m"}], "uid": "old", "labels": {"a": "b"}}  # fmt: skip
    undated = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}
    node = made("v1", "Node", "n9", "shop", metadata={"labels": {"own": "x"}}, status=NODE["status"])
    report = load(server, made("apps/v1", "Deployment", "d", metadata=given, spec=replicas("x", "d", "", 1)["spec"]),
                  undated, node)  # fmt: skip
    assert (report.made, report.warnings, report.kept, report.left_out, report.orphaned) == (4, [], [], [], 0)
    found = all_of(server, "apps/v1", "Deployment")["d"]["metadata"]
    assert (found["creationTimestamp"], found["generation"], found["labels"]) == (CREATED, 1, {"a": "b"})
    assert not {"selfLink", "managedFields"} & found.keys()
    assert found["uid"] != "old"
    assert found["resourceVersion"].isdigit()
    metadata = all_of(server, "v1", "ConfigMap")["m"]["metadata"]
    assert (metadata["namespace"], metadata["creationTimestamp"] > "2026") == ("default", True)
    node_found = all_of(server, "v1", "Node")["n9"]
    assert node_found["metadata"]["labels"].items() >= {"own": "x", "kubernetes.io/hostname": "n9"}.items()
    assert node_found["status"]["allocatable"] == NODE["status"]["allocatable"]
    assert "namespace" not in node_found["metadata"]


@pytest.mark.parametrize("value", [{}, {"value": None}])
def test_priority_class_states_its_value(value: Json) -> None:
    """api.md 5.5, as a plan refuses it."""
    with pytest.raises(InputError, match='PriorityClass "high": value: Required value'):
        load(plane(), made("scheduling.k8s.io/v1", "PriorityClass", "high", "", **value))


def test_manifest_with_other_fields_is_warned_of() -> None:
    """With its place; it is loaded without."""
    report = load(plane(), NODE, _changed(lambda pod: pod["spec"].update(nodename="x")))
    assert report.warnings == ['in.yaml: document 2: Pod "shop/bad": unknown field "spec.nodename"']


def test_owners_that_the_input_lacks_are_added_once_and_reported() -> None:
    """A namespace and an account for all objects that need them; the default account is made by its controller."""
    light = made("apps/v1", "ReplicaSet", "alone", spec={"selector": {"matchLabels": {"a": "b"}}})
    report = load(
        plane(),
        running("a", {}, {}, serviceAccountName="robot"),
        running("b", {}, {}, serviceAccountName="default"),
        running("c", {}, {}, serviceAccountName="robot"),
        running("d", {}, {}, serviceAccountName=""),
        made("v1", "ServiceAccount", "own"),
        running("e", {}, {}, serviceAccountName="own"),
        running("f", {}, {}, serviceAccountName="third"),
        made(
            "v1", "PersistentVolume", "v", "", spec={"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
        ),
        light,
        NODE,
    )
    assert report.added == [
        'Namespace "shop"',
        'ServiceAccount "shop/robot"',
        'ServiceAccount "shop/third"',
        'a hostPath for PersistentVolume "v"',
    ]
    assert report.left_out == ['ReplicaSet "shop/alone": it has neither a template nor pods in the input']
    assert report.made == 12


def test_limits_are_for_what_comes() -> None:
    """Neither a range nor a quota judges what is there, wherever it stands in the input."""
    server = plane()
    limit = {"type": "Container", "min": {"cpu": "1"}, "default": {"cpu": "2"}, "defaultRequest": {"cpu": "2"}}
    load(server, made("v1", "LimitRange", "l", spec={"limits": [limit]}), running("a", {}, {}))
    [container] = all_of(server, "v1", "Pod")["a"]["spec"]["containers"]
    assert not container.get("resources")


def test_namespaces_that_terminate() -> None:
    """Those every server has stay; another one still terminates, and none of them is reported as kept."""
    server = plane()
    going = {"deletionTimestamp": CREATED}
    spaces = [made("v1", "Namespace", name, "", metadata=going) for name in ("kube-system", "default", "other")]
    classes = [made("scheduling.k8s.io/v1", "PriorityClass", "system-node-critical", "", value=2_000_001_000)]
    report = load(server, *spaces, *classes, made("v1", "Namespace", "shop", ""))
    phases = {name: one["status"]["phase"] for name, one in all_of(server, "v1", "Namespace").items()}
    assert (phases["kube-system"], phases["default"], phases["other"]) == ("Active", "Active", "Terminating")
    assert report.kept == []
    assert load(server, made("v1", "Namespace", "shop", "")).kept == ['Namespace "shop"']


def test_hashes_of_revisions_are_those_of_here() -> None:
    """Pods of the newest template get its hash of here, older ones keep theirs; a status names no hash of elsewhere."""
    server = plane()
    owned = owner("apps/v1", "StatefulSet", "db", "old-db")
    revisions = {"new": "db-newest", "old": "db-older", "bare": None}
    pods = [
        running(f"db-{number}", owned, {"app": "db", **({"controller-revision-hash": text} if text else {})})
        for number, text in enumerate(revisions.values())
    ]
    status = {"replicas": 3, "currentRevision": "db-older", "updateRevision": "db-newest"}
    whole = {**replicas("StatefulSet", "db", "old-db", 3, serviceName="db"), "status": status}
    load(server, *pods, whole, NODE)
    found = [one["metadata"]["labels"]["controller-revision-hash"] for one in all_of(server, "v1", "Pod").values()]
    assert found[1] == "db-older"
    assert found[0] == found[2] not in ("db-newest", "newest")
    after = all_of(server, "apps/v1", "StatefulSet")["db"]["status"]
    assert (after["replicas"], "currentRevision" in after, "updateRevision" in after) == (3, False, False)


@pytest.mark.parametrize(
    ("spec", "more", "starts"),
    [
        ({"nodeName": "n1"}, [], True),
        ({"nodeName": "n1"}, [made("v1", "ConfigMap", "settings")], False),
        ({}, [], False),
    ],
)
def test_pods_that_ran_with_missing_config_start_and_others_wait_for_it(
    spec: Json, more: list[Json], starts: bool
) -> None:
    """interfaces.md 7.7: the files of a cluster leave ConfigMaps and Secrets out; those of a test may forget one."""
    server = plane()
    volumes = [{"name": "v", "configMap": {"name": "settings"}}]
    containers = [{"name": "c", "image": "i"}]
    pod = made("v1", "Pod", "p", spec={"containers": containers, "volumes": volumes, **spec})
    report = load(server, pod, made("v1", "Node", "n1", ""), *more)
    annotations = all_of(server, "v1", "Namespace")["shop"]["metadata"].get("annotations") or {}
    assert annotations.get("reprieve.dev/missing-config") == ("ignore" if starts else None)
    assert len(report.warnings) == starts


def test_roles_of_every_cluster_are_neither_edits_nor_reported() -> None:
    """interfaces.md 5.13: a dump of a cluster has them as well."""
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    roles = [
        made("rbac.authorization.k8s.io/v1", "ClusterRole", name, "", metadata={"labels": given}, rules=[])
        for name, given in (("system:node", labels), ("view", labels))
    ]
    report = load(plane(), *roles)
    assert (report.kept, report.made) == ([], 0)


def test_objects_are_read_in_any_version_of_their_kind() -> None:
    """api.md 2.8: files of a 1.36 cluster load into a server of 1.38, which serves no v1alpha2."""
    server = plane()
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": "PodGroup"}
    load(
        server,
        made("scheduling.k8s.io/v1alpha2", "PodGroup", "g", spec=spec),
        made("resource.k8s.io/v1beta2", "DeviceClass", "d", "", spec={}),
    )
    assert server.registry.kinds.of("scheduling.k8s.io/v1alpha2", "PodGroup") is None
    group = all_of(server, "scheduling.k8s.io/v1", "PodGroup")["g"]
    assert (group["apiVersion"], group["spec"]["disruptionMode"]) == ("scheduling.k8s.io/v1", {"all": {}})
    assert all_of(server, "resource.k8s.io/v1", "DeviceClass")["d"]["apiVersion"] == "resource.k8s.io/v1"
