"""A cluster read for a plan, and what is added to it: what is refused, missing, doubled, orphaned, there already.

A server in this process serves what a test says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from aiohttp import web

from kube_rules.errors import InputError
from kube_rules.manifests import LoadedObject, Manifests
from reprieve.client import cluster_reader as reading_module
from reprieve.client.cluster_reader import (
    ClusterReading,
    add_new,
    known_classes,
    manifests_of,
    read_cluster,
    read_makers,
    without_void_classes,
)
from reprieve.client.errors import ApiError
from reprieve.client.lists import list_objects
from reprieve.inputs.loader import FIRST_CREATION, read
from tests.client.scripted import Json, client_of, scripted, status

NATIVE = "scheduling.k8s.io/v1beta1"
KINDS: dict[str, tuple[str, str]] = {
    "pods": ("v1", "Pod"),
    "nodes": ("v1", "Node"),
    "namespaces": ("v1", "Namespace"),
    "services": ("v1", "Service"),
    "deployments": ("apps/v1", "Deployment"),
}


def named(name: str, namespace: str = "", **more: Any) -> Json:
    meta: Json = {"name": name, "uid": f"{namespace}-{name}", "resourceVersion": "1"}
    return {"metadata": {**meta, **({"namespace": namespace} if namespace else {})}, **more}


def pod_on(name: str, node: str = "", phase: str = "Running") -> Json:
    spec: Json = {"containers": [{"name": "c"}], **({"nodeName": node} if node else {})}
    return named(name, "default", spec=spec, status={"phase": phase})


class Cluster:
    """An API server that serves these collections by path, or refuses one with a code."""

    def __init__(self, collections: Mapping[str, list[Json]], refused: Mapping[str, int] | None = None) -> None:
        self.collections = {"/api/v1/pods": [], "/api/v1/nodes": [named("n1")], **collections}
        self.refused = refused or {}
        self.hanging: set[str] = set()
        self.asked: list[str] = []

    async def reply(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        self.asked.append(path)
        if path == "/api":
            return web.json_response({"kind": "APIVersions", "versions": ["v1"]})
        if path == "/apis":
            versions = sorted({found.split("/")[2] + "/" + found.split("/")[3] for found in self._grouped()})
            groups = [{"name": v.split("/")[0], "versions": [{"groupVersion": v}]} for v in versions]
            return web.json_response({"kind": "APIGroupList", "groups": groups})
        if path in self.hanging:
            await asyncio.get_running_loop().create_future()
        if path in self.refused:
            return await status(self.refused[path], "No", "not for you")(request)
        if path in self.collections:
            body = {"metadata": {"resourceVersion": "9"}, "items": self.collections[path]}
            return web.json_response(body)
        served = [found for found in self.collections if found.rpartition("/")[0] == path]
        if served:
            entries = [self._entry(found.rpartition("/")[2]) for found in served]
            return web.json_response({"kind": "APIResourceList", "resources": entries})
        for collection, items in self.collections.items():
            plural = collection.rpartition("/")[2]
            for item in items:
                there = f"{collection.rpartition('/')[0]}/namespaces/{item['metadata'].get('namespace')}/{plural}"
                if path == f"{there}/{item['metadata']['name']}":
                    return web.json_response(item)
        return await status(404, "NotFound", "none")(request)

    def _grouped(self) -> list[str]:
        return [found for found in self.collections if found.startswith("/apis/")]

    def _entry(self, plural: str) -> Json:
        kind = {"podgroups": "PodGroup", **{name: kind for name, (_, kind) in KINDS.items()}}[plural]
        return {"name": plural, "kind": kind, "namespaced": plural not in ("nodes", "namespaces")}

    def read(self, **more: Any) -> ClusterReading:
        async def run() -> ClusterReading:
            async with scripted(self.reply) as server, client_of(server) as client:
                return await read_cluster(client, **more)

        return asyncio.run(run())


# --- what may not be read --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "passed_over"),
    [(401, True), (403, True), (404, True), (405, True), (400, False), (402, False), (406, False), (422, False)],
)
def test_which_refusals_of_an_optional_kind_are_passed_over(code: int, passed_over: bool) -> None:
    cluster = Cluster({"/api/v1/services": [], "/api/v1/pods": [pod_on("p")]}, {"/api/v1/services": code})
    if not passed_over:
        with pytest.raises(ApiError, match="not for you"):
            cluster.read()
        return
    reading = cluster.read()
    assert [item.name for item in reading.objects] == ["n1", "p"]
    [reported] = [warning for warning in reading.warnings if "services" in warning]
    assert reported.startswith("services not read: ")


@pytest.mark.parametrize("path", ["/api/v1/pods", "/api/v1/nodes"])
@pytest.mark.parametrize("code", [401, 403, 404, 405])
def test_nodes_and_pods_may_not_be_refused(path: str, code: int) -> None:
    with pytest.raises(ApiError) as refused:
        Cluster({}, {path: code}).read()
    assert refused.value.code == code


def test_refusal_does_not_wait_for_lists_that_hang() -> None:
    """They are given up, and the refusal is what is raised."""
    cluster = Cluster({"/api/v1/services": []}, {"/api/v1/nodes": 403})
    cluster.hanging.add("/api/v1/services")
    with pytest.raises(ApiError) as refused:
        cluster.read()
    assert refused.value.code == 403


def test_resources_not_served_are_named_once_and_in_order() -> None:
    [reported] = Cluster({"/api/v1/namespaces": [named("default")]}).read().warnings
    assert reported.startswith("not served by this API server: PriorityClass, PodGroup, CompositePodGroup, Workload, ")
    assert "Namespace" not in reported


@pytest.mark.parametrize("missing", ["pods", "nodes"])
def test_server_without_nodes_or_pods_is_no_cluster(missing: str) -> None:
    cluster = Cluster({})
    del cluster.collections[f"/api/v1/{missing}"]
    with pytest.raises(ApiError, match=f"serves no {KINDS[missing][1]}: is this a cluster") as refused:
        cluster.read()
    assert (refused.value.code, refused.value.reason) == (404, "NotFound")


def test_stronger_version_counts_of_two_groups_of_one_name() -> None:
    group = {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    native, other = (
        [named("g", "default", **group), named("a", "default", **group)],
        [named("g", "default", spec={"minMember": 5}), named("b", "default", spec={"minMember": 5})],
    )
    paths = {
        "/apis/scheduling.k8s.io/v1beta1/podgroups": native,
        "/apis/scheduling.x-k8s.io/v1alpha1/podgroups": other,
    }
    reading = Cluster(paths).read()
    assert sorted(item.name for item in reading.objects if item.KIND == "PodGroup") == ["a", "b", "g"]
    [reported] = [warning for warning in reading.warnings if "precedence" in warning]
    assert reported == f'PodGroup "default/g" of scheduling.x-k8s.io/v1alpha1 ignored: {NATIVE} takes precedence'


def test_unreadable_object_is_left_out_and_reported() -> None:
    bad = pod_on("bad")
    bad["spec"]["priority"] = "high"
    reading = Cluster({"/api/v1/pods": [pod_on("p"), bad]}).read()
    assert [item.name for item in reading.objects] == ["n1", "p"]
    [reported] = [warning for warning in reading.warnings if warning.startswith("left out: ")]
    assert 'Pod "default/bad": spec.priority' in reported


# --- pods of nodes that are gone -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pods", "kept", "reported"),
    [
        ([pod_on("p", "n1")], ["p"], None),
        ([pod_on("p")], ["p"], None),
        ([pod_on("p", "gone")], [], "left out: 1 pod bound to nodes that are gone"),
        (
            [pod_on("p", "gone"), pod_on("q", "lost"), pod_on("r", "n1")],
            ["r"],
            "left out: 2 pods bound to nodes that are gone",
        ),
        ([pod_on("p", "gone", "Succeeded"), pod_on("q", "gone", "Failed"), pod_on("r")], ["r"], None),
        (
            [pod_on("p", "gone", "Failed"), pod_on("q", "gone", "Pending")],
            [],
            "left out: 1 pod bound to nodes that are gone",
        ),
    ],
)
def test_pods_of_nodes_that_are_gone(pods: list[Json], kept: list[str], reported: str | None) -> None:
    reading = Cluster({"/api/v1/pods": pods}).read()
    assert [item.name for item in reading.objects if item.KIND == "Pod"] == kept
    assert [warning for warning in reading.warnings if "gone" in warning] == ([reported] if reported else [])


# --- controllers that are scaled -------------------------------------------------------------------------------

DEPLOYMENT = named("d", "default", spec={"replicas": 2})


@pytest.mark.parametrize(
    ("asked", "requests", "found"),
    [
        ([("Deployment", "apps", "default", "d")], ["d"], 1),
        ([("Deployment", "", "default", "d")], ["d"], 1),
        ([("Deployment", "apps", "default", "d")] * 2, ["d"], 1),
        ([("Deployment", "example.com", "default", "d")], [], 0),
        ([("Widget", "apps", "default", "d")], [], 0),
        ([("Deployment", "apps", "default", "none"), ("Deployment", "", "default", "d")], ["none", "d"], 1),
        ([("Widget", "", "default", "w"), ("Deployment", "", "default", "d")], ["d"], 1),
    ],
)
def test_makers_that_are_requested_by_name(
    asked: list[tuple[str, str, str, str]], requests: list[str], found: int
) -> None:
    cluster = Cluster({"/apis/apps/v1/deployments": [DEPLOYMENT]})
    reading = cluster.read(makers=asked)
    place = "/apis/apps/v1/namespaces/default/deployments/"
    assert [path.removeprefix(place) for path in cluster.asked if path.startswith(place)] == requests
    assert [(one["apiVersion"], one["kind"], one["spec"]) for one in reading.makers] == [
        ("apps/v1", "Deployment", {"replicas": 2})
    ] * found
    assert [str(one.origin) for one in manifests_of(reading, "live").pod_makers] == ["live"] * found


# --- what is added to a cluster --------------------------------------------------------------------------------


def manifests(*documents: str) -> Manifests:
    return read([("input", "---\n".join(f"{document}\n" for document in documents))], complete=False)


def klass(value: int = 5, policy: str = "PreemptLowerPriority", default: str = "false") -> str:
    return (
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: c}\n"
        f"value: {value}\npreemptionPolicy: {policy}\nglobalDefault: {default}"
    )


def node(name: str) -> str:
    return f"apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}"


def pod(name: str, on: str = "", created: str = "") -> str:
    stamp = f", creationTimestamp: {created}" if created else ""
    bound = f"nodeName: {on}, " if on else ""
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: default{stamp}}}\n"
        f"spec: {{{bound}containers: [{{name: c}}]}}"
    )


NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {a: b}}"


@pytest.mark.parametrize(
    ("there", "new", "names"),
    [
        ([klass()], [klass(), pod("p")], ["c", "p"]),
        ([NAMESPACE.replace("b}", "other}")], [NAMESPACE, pod("p")], ["default", "p"]),
        ([node("n1")], [pod("p", "n1")], ["n1", "p"]),
        ([node("n1")], [pod("p", "n2"), node("n2")], ["n1", "p", "n2"]),
        ([pod("p")], [pod("q")], ["p", "q"]),
    ],
)
def test_objects_that_may_be_added(there: list[str], new: list[str], names: list[str]) -> None:
    cluster = manifests(*there)
    add_new(cluster, manifests(*new))
    assert [found.object.name for found in cluster.all()] == names


@pytest.mark.parametrize(
    ("there", "new", "message"),
    [
        ([klass()], klass(6), 'metadata.name: Duplicate value: "c": exists in the cluster with value 5 and differs'),
        ([klass()], klass(policy="Never"), "exists in the cluster with value 5 and differs"),
        ([klass()], klass(default="true"), "exists in the cluster with value 5 and differs"),
        ([node("n1")], node("n1"), "already exists in the cluster: only new objects can be added to a plan"),
        ([node("n1")], pod("p", "n2"), 'spec.nodeName: Invalid value: "n2": no Node with this name'),
    ],
)
def test_objects_that_may_not_be_added(there: list[str], new: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        add_new(manifests(*there), manifests(new))
    assert message in str(refused.value)


def created(cluster: Manifests) -> dict[str, float]:
    """Seconds after the first creation, by name."""
    first = FIRST_CREATION.timestamp()
    return {found.object.name: found.created - first for found in cluster.all()}


@pytest.mark.parametrize("now", [0.0, FIRST_CREATION.timestamp() + 1000.0])
def test_new_objects_come_after_everything_and_after_now_in_their_order(now: float) -> None:
    """Unless they say when they were made (interfaces.md 1.11)."""
    cluster = manifests(pod("a", created='"2026-03-01T00:00:00Z"'), pod("b"))
    before = created(cluster)
    reported = '"2026-02-01T00:00:00Z"'
    more = manifests(pod("x"), pod("dated", created=reported), pod("z"))
    latest = max(now - FIRST_CREATION.timestamp(), *before.values(), 0.0)
    dated = created(manifests(pod("dated", created=reported)))["dated"]
    add_new(cluster, more, now)
    assert created(cluster) == {**before, "x": latest + 1, "dated": dated, "z": latest + 2}
    stamps = {found.object.name: found.object.metadata.creation_timestamp for found in cluster.all()}
    for name in ("x", "z"):
        stamp = stamps[name]
        assert stamp is not None
        assert stamp.timestamp() - FIRST_CREATION.timestamp() == created(cluster)[name]
    assert [found.order for found in cluster.all()] == [0, 1, 2, 3, 4]


def test_makers_and_unknown_objects_come_in_their_turn_too() -> None:
    def widget(kind: str, stamp: str = "") -> str:
        return f"apiVersion: example.com/v1\nkind: {kind}\nmetadata: {{name: {kind.lower()}{stamp}}}"

    def deployment(name: str, stamp: str = "") -> str:
        selector = "selector: {matchLabels: {a: b}}"
        template = "template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c}]}}"
        meta = f"metadata: {{name: {name}, namespace: default{stamp}}}"
        return f"apiVersion: apps/v1\nkind: Deployment\n{meta}\nspec: {{{selector}, {template}}}"

    stamp = ', creationTimestamp: "2026-02-01T00:00:00Z"'
    documents = (widget("First"), widget("Second", stamp), deployment("third"), deployment("fourth", stamp))
    cluster = manifests(pod("a"))
    now = datetime(2026, 3, 1, tzinfo=UTC).timestamp()
    add_new(cluster, manifests(*documents), now)
    stamped = datetime(2026, 2, 1, tzinfo=UTC).timestamp()
    assert [each.created for each in cluster.unknown] == [now + 1, stamped]
    assert [each.created for each in cluster.pod_makers] == [now + 2, stamped]
    later = manifests(pod("b"))
    add_new(cluster, later)
    assert created(cluster)["b"] == now + 3 - FIRST_CREATION.timestamp()


def test_snapshot_is_in_order_and_dated() -> None:
    reading = Cluster({"/api/v1/pods": [pod_on("b"), pod_on("a")]}).read()
    found: list[LoadedObject[Any]] = manifests_of(reading, "live").all()
    assert [(one.object.name, one.order) for one in found] == [("n1", 0), ("b", 1), ("a", 2)]


@pytest.mark.parametrize(
    ("kind", "version", "plural"),
    [
        ("Deployment", "apps/v1", "deployments"),
        ("StatefulSet", "apps/v1", "statefulsets"),
        ("ReplicaSet", "apps/v1", "replicasets"),
        ("Job", "batch/v1", "jobs"),
    ],
)
def test_each_kind_that_makes_pods_is_read_where_it_is_served(kind: str, version: str, plural: str) -> None:
    path = f"/apis/{version}/namespaces/default/{plural}/web"

    async def reply(request: web.Request) -> web.StreamResponse:
        return web.json_response({"spec": {"replicas": 1}}, status=200 if request.path == path else 404)

    async def run() -> list[Json]:
        async with scripted(reply) as server, client_of(server) as client:
            return await read_makers(client, [(kind, group, "default", "web") for group in ("", version[:-3], "x.io")])

    made = {"apiVersion": version, "kind": kind, "spec": {"replicas": 1}}
    assert asyncio.run(run()) == [made, made]


# --- how it is read --------------------------------------------------------------------------------------------


def test_four_lists_are_read_at_a_time_after_that_of_the_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods first, so that whatever a pod refers to was there to be read after it."""
    order: list[str] = []
    running: list[int] = [0]
    most = 0

    async def slow(client: Any, resource: Any, kind: Any) -> Any:
        nonlocal most
        order.append(kind.KIND)
        running[0] += 1
        most = max(most, running[0])
        try:
            for _ in range(3):
                await asyncio.sleep(0)
            return await list_objects(client, resource, kind)
        finally:
            running[0] -= 1

    monkeypatch.setattr(reading_module, "list_objects", slow)
    plurals = ("namespaces", "services", "replicationcontrollers", "persistentvolumes", "persistentvolumeclaims")
    kinds = dict(zip(plurals[2:], ("ReplicationController", "PersistentVolume", "PersistentVolumeClaim"), strict=True))
    monkeypatch.setitem(KINDS, "replicationcontrollers", ("v1", kinds["replicationcontrollers"]))
    monkeypatch.setitem(KINDS, "persistentvolumes", ("v1", kinds["persistentvolumes"]))
    monkeypatch.setitem(KINDS, "persistentvolumeclaims", ("v1", kinds["persistentvolumeclaims"]))
    Cluster({f"/api/v1/{plural}": [] for plural in plurals}).read()
    assert order[:2] == ["Pod", "Node"]
    assert (len(order), most) == (7, 4)


@pytest.mark.parametrize(
    ("how", "found"),
    [
        ({}, []),
        ({"jobs": True}, ["Job"]),
        ({"owners": True}, ["Job", "JobSet"]),
        ({"owners": True, "jobs": True}, ["Job", "JobSet"]),
    ],
)
def test_controllers_are_read_where_their_pods_or_ends_count(
    how: dict[str, bool], found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """workloads.md 2.10 and cost.md 6.4; a server may lack any of them."""
    monkeypatch.setitem(KINDS, "jobs", ("batch/v1", "Job"))
    monkeypatch.setitem(KINDS, "jobsets", ("jobset.x-k8s.io/v1alpha2", "JobSet"))
    cluster = Cluster(
        {
            "/apis/batch/v1/jobs": [named("j", "default", spec={"parallelism": 1})],
            "/apis/jobset.x-k8s.io/v1alpha2/jobsets": [named("s", "default", spec={})],
        }
    )
    reading = cluster.read(**how)
    assert [item.KIND for item in reading.objects] == ["Node", *found]
    [reported] = reading.warnings
    assert "Job" not in reported


# --- priorities that the server left open ----------------------------------------------------------------------

GROUPS = "/apis/scheduling.k8s.io/v1beta1/podgroups"
VICTIM_CLASS = "scheduling.reprieve.dev/preemption-priority-class"


@pytest.mark.parametrize(
    ("priority", "of_class", "passed_over"),
    [
        (None, "low", "its value 1 is lower than the priority 5"),
        (0, "low", None),
        (1, "low", None),
        (2, "low", "its value 1 is lower than the priority 2"),
        (2, "nowhere", "no PriorityClass with name nowhere was found"),
    ],
)
def test_group_keeps_a_preemption_class_that_counts(
    priority: int | None, of_class: str, passed_over: str | None
) -> None:
    """preemption.md 4, "Options": another is passed over with a warning, here and where it is read again."""
    group = read(
        [
            (
                "input",
                f"apiVersion: {NATIVE}\nkind: PodGroup\nmetadata: {{name: g, namespace: default}}\n"
                "spec: {schedulingPolicy: {gang: {minCount: 2}}}",
            )
        ]
    ).pod_groups[0]
    spec = msgspec.structs.replace(group.object.spec, priority=5 if priority is None else priority)
    metadata = msgspec.structs.replace(group.object.metadata, annotations={VICTIM_CLASS: of_class, "a": "b"})
    stated = msgspec.structs.replace(group.object, spec=spec, metadata=metadata)
    low = next(one.object for one in manifests(klass(1).replace("name: c", "name: low")).all())
    reading = ClusterReading([low, stated])
    found = manifests_of(reading, "live").pod_groups[0].object.metadata.annotations
    [_, again] = without_void_classes([low, stated])
    assert (VICTIM_CLASS in found) is (passed_over is None)
    assert (VICTIM_CLASS in again.metadata.annotations) is (passed_over is None and priority == 1)  # cost.md 7.6
    assert found["a"] == again.metadata.annotations["a"] == "b"
    if passed_over is None:
        assert reading.warnings == []
    else:
        [reported] = reading.warnings
        assert reported.startswith('PodGroup "default/g": ')
        assert reported.endswith(f"{passed_over}: skipped")


def test_classes_of_a_cluster_are_known_to_what_is_added() -> None:
    cluster = manifests(klass(), node("n1"), pod("p"))
    assert [(found.name, found.value) for found in known_classes(cluster)] == [("c", 5)]
    assert known_classes(manifests(node("n1"))) == []


def test_reading_is_not_written_out_by_asyncio() -> None:
    """`asyncio.run` makes the repr of what its task returns: that of a large cluster took seconds and 8 KB a pod."""
    objects = [
        loaded.object for loaded in read([("x.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n")]).all()
    ]
    assert "n1" in repr(objects)
    assert "n1" not in repr(ClusterReading(objects))
