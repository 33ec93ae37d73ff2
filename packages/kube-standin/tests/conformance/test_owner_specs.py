"""Facts of conformance specs of sig-apps about owners of pods: their lifecycle, updates, roll-backs and statuses."""

from __future__ import annotations

from typing import Any

import pytest

from kube_standin.binding import bind_now
from kube_standin.controllers import CONTROLLERS
from kube_standin.eviction import evict_now
from kube_standin.registry import WriteOptions
from kube_standin.scale import write_scale_now
from tests.controllers.world import World, owner, template
from tests.server.inprocess import running

Json = dict[str, Any]
APPS, CORE = "apps/v1", "v1"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
CONDITION = {"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "Set from e2e test"}


@pytest.fixture
def world() -> World:
    return World(CONTROLLERS, nodes=2, adopt=False)


def image_of(pod: Json) -> str:
    found: str = pod["spec"]["containers"][0]["image"]
    return found


def images(world: World) -> dict[str, str]:
    return {pod["metadata"]["name"]: image_of(pod) for pod in world.pods()}


def uids(world: World) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in world.pods()}


def template_of(image: str) -> Json:
    made = template()
    made["spec"]["containers"][0]["image"] = image
    return made


def scheduled(world: World, rounds: int) -> World:
    """Let pods be bound, run and be replaced for some rounds."""
    for _ in range(rounds):
        world.schedule().forward(2)
    return world


def set_scale(world: World, kind: str, name: str, replicas: int) -> None:
    row = world.kind(CORE if kind == "ReplicationController" else APPS, kind)
    body = {"metadata": {"name": name, "namespace": "default"}, "spec": {"replicas": replicas}}
    write_scale_now(world.registry, row, "default", name, body, WriteOptions())
    world.store.flush()


# -- ReplicationControllers


def controller(name: str = "rc", replicas: int = 1) -> Json:
    spec = {"replicas": replicas, "selector": {"app": "a"}, "template": template()}
    return {"apiVersion": CORE, "kind": "ReplicationController", "metadata": {"name": name}, "spec": spec}


def test_lifecycle_of_a_replication_controller() -> None:
    """rc.go, "should test the lifecycle of a ReplicationController": patch, status, scale, update, deletecollection."""
    path = "/api/v1/namespaces/default/replicationcontrollers"
    with running() as plane:
        made = controller()
        made["metadata"]["labels"] = {"test-rc-static": "true"}
        plane.create(path, made)
        label = {"metadata": {"labels": {"test-rc": "patched"}}}
        found = plane.ask(f"PATCH {path}/rc", label, content_type=STRATEGIC).json
        assert found["metadata"]["labels"] == {"test-rc-static": "true", "test-rc": "patched"}
        change = {"status": {"readyReplicas": 0, "availableReplicas": 0, "replicas": 0}}
        assert plane.ask(f"PATCH {path}/rc/status", change, content_type=STRATEGIC).status == 200
        assert plane.ask(f"GET {path}/rc/status").json["kind"] == "ReplicationController"
        change = {"spec": {"replicas": 2}}
        scale = plane.ask(f"PATCH {path}/rc/scale", change, content_type=MERGE).json
        assert (scale["kind"], scale["spec"]["replicas"]) == ("Scale", 2)
        found = plane.ask(f"GET {path}/rc").json
        found["status"]["replicas"] = found["status"]["readyReplicas"] = 2
        assert plane.ask(f"PUT {path}/rc/status", found).json["status"]["readyReplicas"] == 2
        assert plane.ask("GET /api/v1/replicationcontrollers?labelSelector=test-rc-static%3Dtrue").json["items"]
        deleted = f"DELETE {path}?labelSelector=test-rc-static%3Dtrue&propagationPolicy=Background"
        assert plane.ask(deleted).status == 200
        assert plane.ask(f"GET {path}/rc").status == 404


def test_scale_of_a_replication_controller(world: World) -> None:
    """rc.go, "should get and update a ReplicationController scale"."""
    world.create(controller())
    set_scale(world, "ReplicationController", "rc", 2)
    assert world.settle().get(CORE, "ReplicationController", "rc")["status"]["replicas"] == 2


@pytest.mark.parametrize("kind", ["ReplicationController", "ReplicaSet"])
def test_pods_are_adopted_and_released(world: World, kind: str) -> None:
    """rc.go, replica_set.go: matching pods on creation; a pod that no longer matches is left, and replaced."""
    orphan = {"apiVersion": CORE, "kind": "Pod", "metadata": {"name": "orphan", "labels": {"app": "a"}},
              "spec": template()["spec"]}  # fmt: skip
    uid = world.create(orphan)["metadata"]["uid"]
    made = controller("o") if kind == "ReplicationController" else owner(kind, "o")
    own = world.create(made)["metadata"]["uid"]
    [pod] = world.settle().pods()
    assert (pod["metadata"]["uid"], pod["metadata"]["ownerReferences"][0]["uid"]) == (uid, own)
    world.patch(CORE, "Pod", "orphan", {"metadata": {"labels": {"app": "not-matching"}}})
    pods = {pod["metadata"]["name"]: pod["metadata"].get("ownerReferences") for pod in world.settle().pods()}
    assert len(pods) == 2
    assert pods.pop("orphan") is None
    assert all(references[0]["uid"] == own for references in pods.values())


def test_replica_set_is_replaced_and_patched(world: World) -> None:
    """replica_set.go, "Replace and Patch tests": its scale, and image, labels and grace of its template."""
    world.create(owner("ReplicaSet", "r", replicas=1))
    scheduled(world, 1)
    set_scale(world, "ReplicaSet", "r", 2)
    scheduled(world, 1)
    assert world.get(APPS, "ReplicaSet", "r")["status"]["readyReplicas"] == 2
    containers = [{"name": "c", "image": "other"}]
    change = {
        "spec": {"replicas": 3, "template": {"spec": {"terminationGracePeriodSeconds": 0, "containers": containers}}}
    }
    world.patch(APPS, "ReplicaSet", "r", {"metadata": {"labels": {"test-rs": "patched"}}, **change})
    scheduled(world, 1)
    found = world.get(APPS, "ReplicaSet", "r")
    assert (found["status"]["readyReplicas"], found["metadata"]["labels"]["test-rs"]) == (3, "patched")
    assert sorted(images(world).values()) == ["i", "i", "other"]


# -- what clients write into statuses, and collections


@pytest.mark.parametrize("kind", ["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"])
def test_status_of_an_owner_takes_conditions_of_clients(kind: str) -> None:
    """daemon_set.go, deployment.go, replica_set.go, statefulset.go: by update and by patch; collections go by label."""
    path = f"/apis/apps/v1/namespaces/default/{kind.lower()}s"
    with running() as plane:
        made = owner(kind, "o")
        if kind == "StatefulSet":
            made["spec"]["serviceName"] = "s"
        made["metadata"]["labels"] = {"e2e": "o"}
        plane.create(path, made)
        found = plane.ask(f"GET {path}/o/status").json
        found["status"]["conditions"] = [CONDITION]
        assert added(plane.ask(f"PUT {path}/o/status", found).json) == CONDITION
        change = {"status": {"conditions": [{"type": "StatusPatched", "status": "True"}]}}
        answer = plane.ask(f"PATCH {path}/o/status", change, content_type=MERGE).json
        assert added(answer, "StatusPatched")["status"] == "True"
        assert plane.ask(f"GET /apis/apps/v1/{kind.lower()}s?labelSelector=e2e%3Do").json["items"]
        assert plane.ask(f"DELETE {path}?labelSelector=e2e%3Do").status == 200
        assert not plane.ask(f"GET {path}").json["items"]


def added(obj: Json, kind: str = "StatusUpdate") -> Json:
    [found] = [one for one in obj["status"]["conditions"] if one["type"] == kind]
    return {key: value for key, value in found.items() if value}


# -- DaemonSets


def test_simple_daemon_runs_and_is_revived(world: World) -> None:
    """daemon_set.go, "should run and stop simple daemon": a pod that is deleted comes back, and all go with the set."""
    world.create(owner("DaemonSet", "d"))
    scheduled(world, 1)
    assert sorted(pod["spec"]["nodeName"] for pod in world.pods("Running")) == ["node-1", "node-2"]
    gone = world.names()[0]
    world.delete(CORE, "Pod", gone)
    scheduled(world, 2)
    assert len(world.pods("Running")) == 2
    assert gone not in world.names()
    world.delete(APPS, "DaemonSet", "d", propagation="Background")
    assert not world.settle().forward(60).pods()


def test_complex_daemon_follows_labels_of_nodes(world: World) -> None:
    """daemon_set.go, "should run and stop complex daemon": by node selector, and after the selector changes."""
    pod = template()
    pod["spec"]["nodeSelector"] = {"color": "blue"}
    world.create(owner("DaemonSet", "d", pod=pod))
    assert not scheduled(world, 1).pods()
    world.patch(CORE, "Node", "node-1", {"metadata": {"labels": {"color": "blue"}}}, ns="")
    assert [one["spec"]["nodeName"] for one in scheduled(world, 1).pods("Running")] == ["node-1"]
    world.patch(CORE, "Node", "node-1", {"metadata": {"labels": {"color": "green"}}}, ns="")
    assert not scheduled(world, 2).pods()
    pod["spec"]["nodeSelector"] = {"color": "green"}
    world.patch(APPS, "DaemonSet", "d", {"spec": {"template": pod, "updateStrategy": {"type": "RollingUpdate"}}})
    assert [one["spec"]["nodeName"] for one in scheduled(world, 1).pods("Running")] == ["node-1"]


def test_daemons_are_updated(world: World) -> None:
    """daemon_set.go, "should update pod when spec was updated and update strategy is RollingUpdate"."""
    world.create(owner("DaemonSet", "d"))
    scheduled(world, 1)
    [first] = world.all(APPS, "ControllerRevision")
    world.patch(APPS, "DaemonSet", "d", {"spec": {"template": template_of("i2")}})
    assert set(images(scheduled(world, 6)).values()) == {"i2"}
    revisions = {one["metadata"]["name"]: one["revision"] for one in world.all(APPS, "ControllerRevision")}
    assert revisions.pop(first["metadata"]["name"]) == 1
    [(name, number)] = revisions.items()
    label = "controller-revision-hash"
    hashes = {pod["metadata"]["labels"][label] for pod in world.pods()}
    assert (number, {name}) == (2, {f"d-{one}" for one in hashes})


def test_daemons_surge_onto_nodes() -> None:
    """daemon_set.go, "should surge pods onto nodes when spec was updated": a node is never without an available pod."""
    world = World(CONTROLLERS, nodes=3, adopt=False)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    world.create(owner("DaemonSet", "d", updateStrategy=strategy, minReadySeconds=5))
    scheduled(world, 5)
    before = uids(world)
    world.patch(APPS, "DaemonSet", "d", {"spec": {"template": template_of("i2")}})
    most = 0
    for _ in range(20):
        world.schedule().forward(2)
        ready = [pod["spec"]["nodeName"] for pod in world.pods() if running_since(pod)]
        assert len(set(ready)) == 3
        most = max(most, len(world.pods()))
    assert set(images(world).values()) == {"i2"}
    assert (most, len(world.pods()), before.items() & uids(world).items()) == (4, 3, set())
    status = world.get(APPS, "DaemonSet", "d")["status"]
    assert (status["numberAvailable"], status["updatedNumberScheduled"]) == (3, 3)


def running_since(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def test_daemons_are_rolled_back_without_restarts() -> None:
    """daemon_set.go, "should rollback without unnecessary restarts": pods that were not updated yet stay."""
    world = World(CONTROLLERS, nodes=3, adopt=False)
    world.create(owner("DaemonSet", "d"))
    scheduled(world, 1)
    before = uids(world)
    world.patch(APPS, "DaemonSet", "d", {"spec": {"template": template_of("foo:non-existent")}})
    world.settle().forward(1)
    fresh = [pod for pod in world.settle().pods() if image_of(pod) == "foo:non-existent"]
    kept = [name for name, image in images(world).items() if image == "i"]
    assert (len(fresh), len(kept)) == (1, 2)
    world.patch(APPS, "DaemonSet", "d", {"spec": {"template": template()}})
    scheduled(world, 4)
    assert set(images(world).values()) == {"i"}
    after = uids(world)
    assert {name: before[name] for name in kept}.items() <= after.items()
    assert len(after) == 3


# -- StatefulSets


def stateful(world: World, replicas: int = 3, **spec: Any) -> World:
    world.create(owner("StatefulSet", "ss", replicas=replicas, serviceName="test", **spec))
    return scheduled(world, replicas + 1)


def revisions_of(world: World) -> tuple[str, str]:
    status = world.settle().get(APPS, "StatefulSet", "ss")["status"]
    return status["currentRevision"], status["updateRevision"]


def hash_of(world: World, name: str) -> str:
    found: str = world.get(CORE, "Pod", name)["metadata"]["labels"]["controller-revision-hash"]
    return found


def test_template_of_a_stateful_set_is_rolled_out_and_back(world: World) -> None:
    """statefulset.go, "should perform rolling updates and roll backs of template modifications": from the top down."""
    stateful(world)
    current, update = revisions_of(world)
    assert current == update
    world.patch(APPS, "StatefulSet", "ss", {"spec": {"template": template_of("i2")}})
    seen: list[str] = []
    for _ in range(6):
        world.schedule().forward(2)
        seen += [
            name for name, image in sorted(images(world).items(), reverse=True) if image == "i2" and name not in seen
        ]
    assert seen == ["ss-2", "ss-1", "ss-0"]
    assert revisions_of(world)[0] == revisions_of(world)[1] != current
    world.patch(APPS, "StatefulSet", "ss", {"spec": {"template": template()}})
    assert set(images(scheduled(world, 6)).values()) == {"i"}
    assert revisions_of(world) == (current, current), "the first revision is used again"


def test_canary_and_phased_updates_of_a_stateful_set(world: World) -> None:
    """statefulset.go, "should perform canary updates and phased rolling updates of template modifications"."""

    def partition(ordinal: int) -> Json:
        return {"type": "RollingUpdate", "rollingUpdate": {"partition": ordinal}}

    stateful(world, updateStrategy=partition(3))
    current, _ = revisions_of(world)
    world.patch(APPS, "StatefulSet", "ss", {"spec": {"template": template_of("i2")}})
    scheduled(world, 2)
    assert set(images(world).values()) == {"i"}, "not with a partition above every pod"
    assert revisions_of(world)[1] != current
    world.patch(APPS, "StatefulSet", "ss", {"spec": {"updateStrategy": partition(2)}})
    assert images(scheduled(world, 3)) == {"ss-0": "i", "ss-1": "i", "ss-2": "i2"}
    update = revisions_of(world)[1]
    for name in ("ss-2", "ss-0"):
        world.delete(CORE, "Pod", name)
    scheduled(world, 4)
    assert images(world) == {"ss-0": "i", "ss-1": "i", "ss-2": "i2"}, "a pod comes back in its own revision"
    assert [hash_of(world, f"ss-{number}") for number in range(3)] == [current, current, update]
    for ordinal, expected in ((1, ["i", "i2", "i2"]), (0, ["i2", "i2", "i2"])):
        world.patch(APPS, "StatefulSet", "ss", {"spec": {"updateStrategy": partition(ordinal)}})
        assert list(images(scheduled(world, 3)).values()) == expected
    assert revisions_of(world) == (update, update)


def test_burst_scaling_ends_with_unhealthy_pods() -> None:
    """statefulset.go, "Burst scaling should run to completion even with unhealthy pods"."""
    world = World(("statefulset",))
    world.create(owner("StatefulSet", "ss", replicas=1, serviceName="test", podManagementPolicy="Parallel"))
    world.settle()
    world.set_ready("ss-0", False)
    world.patch(APPS, "StatefulSet", "ss", {"spec": {"replicas": 3}})
    assert world.settle().names() == ["ss-0", "ss-1", "ss-2"]
    world.patch(APPS, "StatefulSet", "ss", {"spec": {"replicas": 0}})
    assert world.settle().names() == []


def test_pod_of_a_stateful_set_comes_back(world: World) -> None:
    """statefulset.go, "Should recreate evicted statefulset": one that the node refused, or that was evicted."""
    port = {"name": "p", "containerPort": 21017, "hostPort": 21017}
    blocker = {"apiVersion": CORE, "kind": "Pod", "metadata": {"name": "blocker"},
               "spec": {"containers": [{"name": "c", "image": "i", "ports": [port]}]}}  # fmt: skip
    world.create(blocker)
    world.schedule()
    pod = template()
    pod["spec"]["containers"][0]["ports"] = [port]
    world.create(owner("StatefulSet", "ss", pod=pod, replicas=1, serviceName="test"))
    first = world.settle().get(CORE, "Pod", "ss-0")["metadata"]["uid"]
    bind_now(world.registry, "default", "ss-0", {"target": {"name": "node-1"}}, WriteOptions())
    world.settle().forward(1)
    assert world.get(CORE, "Pod", "ss-0")["metadata"]["uid"] != first
    world.delete(CORE, "Pod", "blocker", grace=0)
    scheduled(world, 3)
    second = world.get(CORE, "Pod", "ss-0")
    assert second["status"]["phase"] == "Running"
    evict_now(world.registry, "default", "ss-0", {"metadata": {"name": "ss-0"}}, WriteOptions())
    scheduled(world, 3)
    third = world.get(CORE, "Pod", "ss-0")
    assert (third["status"]["phase"], third["metadata"]["uid"] != second["metadata"]["uid"]) == ("Running", True)


def test_scale_of_a_stateful_set(world: World) -> None:
    """statefulset.go, "should have a working scale subresource": read, written and patched."""
    stateful(world, 1)
    set_scale(world, "StatefulSet", "ss", 2)
    assert sorted(scheduled(world, 2).names()) == ["ss-0", "ss-1"]
    world.patch(APPS, "StatefulSet", "ss", {"spec": {"replicas": 4}}, "scale")
    assert world.get(APPS, "StatefulSet", "ss")["spec"]["replicas"] == 4


def claiming(world: World, deleted: str, scaled: str, replicas: int = 3) -> World:
    """Return a world with a StatefulSet of which each pod has a claim."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}, "storageClassName": "none"}
    claim = {"metadata": {"name": "data"}, "spec": spec}
    policy = {"whenDeleted": deleted, "whenScaled": scaled}
    more: Json = {"podManagementPolicy": "Parallel", "persistentVolumeClaimRetentionPolicy": policy}
    world.create(owner("StatefulSet", replicas=replicas, serviceName="s", volumeClaimTemplates=[claim], **more))
    return scheduled(world, 2)


def claims(world: World) -> dict[str, list[str]]:
    """The kinds of the owners of each claim."""
    return {
        one["metadata"]["name"]: [owner["kind"] for owner in one["metadata"].get("ownerReferences") or ()]
        for one in world.all(CORE, "PersistentVolumeClaim")
    }


def test_claims_are_deleted_with_their_set(world: World) -> None:
    """statefulset.go, "should delete PVCs with a WhenDeleted policy"."""
    claiming(world, "Delete", "Retain", 2)
    assert claims(world) == {"data-a-0": ["StatefulSet"], "data-a-1": ["StatefulSet"]}
    world.delete(APPS, "StatefulSet", "a")
    scheduled(world, 2)
    assert (world.pods(), claims(world)) == ([], {})


@pytest.mark.parametrize(("deleted", "owners"), [("Retain", []), ("Delete", ["StatefulSet"])])
def test_claims_are_deleted_with_pods_that_a_set_is_scaled_below(world: World, deleted: str, owners: list[str]) -> None:
    """statefulset.go, "should delete PVCs with a OnScaledown policy"; a pod that fails keeps its claim."""
    claiming(world, deleted, "Delete")
    before = {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.all(CORE, "PersistentVolumeClaim")}
    world.delete(CORE, "Pod", "a-1", grace=0)
    scheduled(world, 2)
    set_scale(world, "StatefulSet", "a", 2)
    scheduled(world, 3)
    assert claims(world) == {"data-a-0": owners, "data-a-1": owners}
    set_scale(world, "StatefulSet", "a", 3)
    scheduled(world, 3)
    after = {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.all(CORE, "PersistentVolumeClaim")}
    assert [name for name in after if after[name] == before[name]] == ["data-a-0", "data-a-1"]
    world.delete(APPS, "StatefulSet", "a")
    scheduled(world, 2)
    assert len(claims(world)) == (3 if deleted == "Retain" else 0)


def test_claim_of_another_controller_is_left_to_it(world: World) -> None:
    """statefulset.go, "should not delete PVCs when there is another controller"."""
    claiming(world, "Delete", "Delete", 2)
    other = {"apiVersion": APPS, "kind": "Deployment", "name": "o", "uid": "u", "controller": True}
    world.create({**owner("Deployment", "o", replicas=0), "metadata": {"name": "o"}})
    other["uid"] = world.settle().get(APPS, "Deployment", "o")["metadata"]["uid"]
    world.patch(CORE, "PersistentVolumeClaim", "data-a-1", {"metadata": {"ownerReferences": [other]}})
    set_scale(world, "StatefulSet", "a", 1)
    scheduled(world, 3)
    assert claims(world) == {"data-a-0": ["StatefulSet"], "data-a-1": ["Deployment"]}


# -- Deployments


def test_deployment_keeps_its_proportions(world: World) -> None:
    """deployment.go, "deployment should support proportional scaling": of a rollout that does not end."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
    world.create(owner("Deployment", "d", replicas=10, strategy=strategy))
    scheduled(world, 1)
    world.patch(APPS, "Deployment", "d", {"spec": {"template": template_of("webserver:404")}})
    world.settle()
    sizes = sorted(one["spec"]["replicas"] for one in world.all(APPS, "ReplicaSet"))
    assert sizes == [5, 8]
    world.patch(APPS, "Deployment", "d", {"spec": {"replicas": 30}})
    world.settle()
    assert sorted(one["spec"]["replicas"] for one in world.all(APPS, "ReplicaSet")) == [13, 20]


def test_deployment_is_recreated_and_rolled_over(world: World) -> None:
    """deployment.go, "RecreateDeployment should delete old pods and create new ones", "should support rollover"."""
    world.create(owner("Deployment", "d", replicas=2, strategy={"type": "Recreate"}))
    scheduled(world, 1)
    before = set(world.names())
    world.patch(APPS, "Deployment", "d", {"spec": {"template": template_of("i2")}})
    world.settle().forward(1)
    assert not before & set(world.names())
    assert set(images(scheduled(world, 2)).values()) == {"i2"}
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    world.patch(APPS, "Deployment", "d", {"spec": {"strategy": rolling, "template": template_of("redis-slave:404")}})
    world.settle()
    world.patch(APPS, "Deployment", "d", {"spec": {"template": template_of("i3")}})
    assert set(images(scheduled(world, 6)).values()) == {"i3"}
    sizes = {image_of(one["spec"]["template"]): one["spec"]["replicas"] for one in world.all(APPS, "ReplicaSet")}
    assert sizes == {"i": 0, "i2": 0, "redis-slave:404": 0, "i3": 2}


@pytest.mark.parametrize(
    ("revision", "image", "reason"),
    [
        ("0", "i", "DeploymentRollback"),
        ("1", "i", "DeploymentRollback"),
        ("2", "i2", "RollbackTemplateUnchanged"),
        ("7", "i2", "RollbackRevisionNotFound"),
        ("x", "i2", ""),
    ],
)
def test_deployment_goes_back_to_a_revision(world: World, revision: str, image: str, reason: str) -> None:
    """deployment.go, "iterative rollouts should eventually progress": by the annotation of the older API."""
    world.create(owner("Deployment", "d", replicas=2))
    scheduled(world, 2)
    world.patch(APPS, "Deployment", "d", {"spec": {"template": template_of("i2")}})
    scheduled(world, 4)
    asked = {"deprecated.deployment.rollback.to": revision}
    world.patch(APPS, "Deployment", "d", {"metadata": {"annotations": asked}})
    assert set(images(scheduled(world, 4)).values()) == {image}
    after = world.get(APPS, "Deployment", "d")["metadata"]["annotations"]
    assert after["deployment.kubernetes.io/revision"] == ("3" if image == "i" else "2")
    assert ("deprecated.deployment.rollback.to" in after) == (revision == "x")
    reasons = {event["reason"] for event in world.all(CORE, "Event") if event["involvedObject"]["kind"] == "Deployment"}
    assert reasons - {"ScalingReplicaSet"} == ({reason} if reason else set())


@pytest.mark.parametrize("kind", ["DaemonSet", "StatefulSet"])
def test_revisions_are_adopted_with_the_pods(world: World, kind: str) -> None:
    """statefulset.go, "after adopting pod": the set of an orphaned revision's name goes on from that revision."""
    uid = world.create(owner(kind, "s", replicas=2))["metadata"]["uid"]
    before = uids(scheduled(world, 4))
    world.delete(APPS, kind, "s", propagation="Orphan")
    assert uids(world.settle()) == before
    [revision] = world.all(APPS, "ControllerRevision")
    assert not revision["metadata"].get("ownerReferences")
    uid = world.create(owner(kind, "s", replicas=2))["metadata"]["uid"]
    assert uids(scheduled(world, 2)) == before
    [revision] = world.all(APPS, "ControllerRevision")
    assert [one["uid"] for one in revision["metadata"]["ownerReferences"]] == [uid]
    world.patch(APPS, kind, "s", {"spec": {"template": template_of("i2")}})
    assert set(images(scheduled(world, 8)).values()) == {"i2"}
    assert len(world.all(APPS, "ControllerRevision")) == 2


def test_sets_of_one_name_and_template_share_a_revision(world: World) -> None:
    """Upstream, a revision of the name with the same data is taken from any owner."""
    world.create(owner("DaemonSet", "s"))
    world.create(owner("StatefulSet", "s", replicas=1))
    scheduled(world, 3)
    assert world.get(APPS, "StatefulSet", "s")["status"]["readyReplicas"] == 1
    assert world.get(APPS, "DaemonSet", "s")["status"]["numberReady"] == 2


@pytest.mark.parametrize("kind", ["DaemonSet", "StatefulSet"])
def test_name_that_another_revision_has_is_passed_over(world: World, kind: str) -> None:
    world.create(owner(kind, "s", replicas=1))
    [revision] = world.settle().all(APPS, "ControllerRevision")
    name = revision["metadata"]["name"]
    world.delete(APPS, kind, "s")
    world.settle()
    other = {"apiVersion": APPS, "kind": "ControllerRevision", "metadata": {"name": name}, "revision": 7}
    world.create({**other, "data": {"of": "a client"}})
    world.create(owner(kind, "s", replicas=1))
    scheduled(world, 3)
    assert {one["metadata"]["name"] for one in world.all(APPS, "ControllerRevision")} > {name}
    assert world.pods("Running")
