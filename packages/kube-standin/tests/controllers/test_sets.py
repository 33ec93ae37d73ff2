"""StatefulSets and DaemonSets (upstream: pkg/controller/statefulset, pkg/controller/daemon); quota status."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admission.plane import pod
from tests.controllers.world import Json, World, ended, job, owner, template

# -- stateful sets


@pytest.fixture
def world() -> World:
    return World(("statefulset", "garbage-collector"), nodes=1)


def stateful(replicas: int = 3, **spec: Any) -> Json:
    return owner("StatefulSet", "web", replicas=replicas, serviceName="web", **spec)


def status(world: World) -> Json:
    found: Json = world.settle().get("apps/v1", "StatefulSet", "web")["status"]
    return found


def test_made_in_order_each_when_the_one_before_is_ready(world: World) -> None:
    world.create(stateful())
    for count in (1, 2, 3):
        world.settle()
        assert world.names() == [f"web-{number}" for number in range(count)]
        world.schedule()
    found = status(world)
    assert (found["replicas"], found["readyReplicas"], found["currentReplicas"], found["updatedReplicas"]) == (3,) * 4
    labels = world.pods()[1]["metadata"]["labels"]
    assert labels["statefulset.kubernetes.io/pod-name"] == "web-1"
    assert labels["apps.kubernetes.io/pod-index"] == "1"
    assert labels["controller-revision-hash"] == found["updateRevision"]
    assert world.pods()[1]["spec"]["hostname"] == "web-1"


def test_parallel_and_ordinals(world: World) -> None:
    world.create(stateful(podManagementPolicy="Parallel", ordinals={"start": 5}))
    assert world.settle().names() == ["web-5", "web-6", "web-7"]


def test_scales_down_from_the_top(world: World) -> None:
    world.create(stateful(podManagementPolicy="Parallel"))
    world.schedule()
    world.patch("apps/v1", "StatefulSet", "web", {"spec": {"replicas": 1}})
    world.forward(3)
    assert world.names() == ["web-0"]


def test_lost_pod_keeps_its_name(world: World) -> None:
    world.create(stateful(podManagementPolicy="Parallel"))
    world.schedule()
    before = world.get("v1", "Pod", "web-1")["metadata"]["uid"]
    world.delete("v1", "Pod", "web-1")
    world.schedule()
    assert world.get("v1", "Pod", "web-1")["metadata"]["uid"] != before
    world.set_phase("web-0", "Failed")
    world.schedule()
    assert world.get("v1", "Pod", "web-0")["status"]["phase"] == "Running"


@pytest.mark.parametrize(("partition", "updated"), [(0, {"web-0", "web-1", "web-2"}), (2, {"web-2"})])
def test_rolling_update(world: World, partition: int, updated: set[str]) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}
    world.create(stateful(updateStrategy=strategy))
    for _ in range(4):
        world.schedule()
    made = template()
    made["spec"]["containers"][0]["image"] = "i2"
    world.patch("apps/v1", "StatefulSet", "web", {"spec": {"template": made}})
    for _ in range(8):
        world.schedule()
    assert {one["metadata"]["name"] for one in world.pods() if one["spec"]["containers"][0]["image"] == "i2"} == updated
    found = status(world)
    assert found["updatedReplicas"] == len(updated)
    assert (found["currentRevision"] == found["updateRevision"]) is (partition == 0)
    assert len(world.all("apps/v1", "ControllerRevision")) == 2
    world.delete("v1", "Pod", "web-0")
    world.schedule()
    image = world.get("v1", "Pod", "web-0")["spec"]["containers"][0]["image"]
    assert image == ("i2" if partition == 0 else "i")


def test_claims(world: World) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    world.create(stateful(1, volumeClaimTemplates=[claim]))
    world.settle()
    assert world.has("v1", "PersistentVolumeClaim", "data-web-0")
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}
    assert volume in world.pods()[0]["spec"]["volumes"]


# -- daemon sets


def daemons(nodes: int = 3, **options: Any) -> World:
    return World(("daemonset", "garbage-collector", "node-lifecycle"), nodes=nodes, **options)


def daemon_status(world: World) -> Json:
    found: Json = world.settle().get("apps/v1", "DaemonSet", "a")["status"]
    return found


def test_one_pod_per_node() -> None:
    world = daemons()
    world.create(owner("DaemonSet"))
    world.schedule()
    assert sorted(one["spec"]["nodeName"] for one in world.pods()) == ["node-1", "node-2", "node-3"]
    found = daemon_status(world)
    assert (found["desiredNumberScheduled"], found["numberReady"], found["numberAvailable"]) == (3, 3, 3)
    assert found["updatedNumberScheduled"] == 3
    world.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "late"}})
    world.schedule()
    assert len(world.pods()) == 4


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"nodeSelector": {"kubernetes.io/hostname": "node-2"}}, ["node-2"]),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {
                                    "matchExpressions": [
                                        {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["node-2"]}
                                    ]
                                }
                            ]
                        }
                    }
                }
            },
            ["node-1", "node-3"],
        ),
    ],
)
def test_nodes_that_fit(spec: Json, expected: list[str]) -> None:
    world = daemons()
    world.create(owner("DaemonSet", pod=template(**spec)))
    world.schedule()
    assert sorted(one["spec"]["nodeName"] for one in world.pods()) == expected


def test_taints_decide_where_daemons_run() -> None:
    world = daemons(2)
    world.create(owner("DaemonSet"))
    world.schedule()
    world.patch("v1", "Node", "node-1", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}, ns="")
    world.forward(3)
    assert len(world.pods()) == 2  # may go on running
    assert daemon_status(world)["numberMisscheduled"] == 1
    world.patch("v1", "Node", "node-1", {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}, ns="")
    world.forward(3)
    assert [one["spec"]["nodeName"] for one in world.pods()] == ["node-2"]
    world.patch("v1", "Node", "node-2", {"spec": {"unschedulable": True}}, ns="")
    world.forward(3)
    assert len(world.pods()) == 1  # cordoned nodes are tolerated


def test_daemons_are_updated_one_node_at_a_time() -> None:
    world = daemons(stop_seconds=3)
    world.create(owner("DaemonSet"))
    world.schedule()
    made = template()
    made["spec"]["containers"][0]["image"] = "i2"
    world.patch("apps/v1", "DaemonSet", "a", {"spec": {"template": made}})
    world.settle()
    assert sum(1 for one in world.pods() if one["metadata"].get("deletionTimestamp")) == 1
    for _ in range(20):
        world.schedule()
    assert {one["spec"]["containers"][0]["image"] for one in world.pods()} == {"i2"}
    assert daemon_status(world)["updatedNumberScheduled"] == 3


# -- quotas


def quota(hard: Json, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": hard, **spec},
    }


def used(world: World) -> Json:
    found: Json = world.forward(1).get("v1", "ResourceQuota", "q")["status"]["used"]
    return found


def test_quota_counts_what_is_there_and_takes_off_what_ends() -> None:
    world = World(("resourcequota", "job"), nodes=1)
    world.create(pod("x", cpu="250m"))
    world.create(quota({"pods": "3", "requests.cpu": "1", "count/jobs.batch": "5", "configmaps": "2"}))
    assert used(world) == {"configmaps": "0", "count/jobs.batch": "0", "pods": "1", "requests.cpu": "250m"}
    world.create(job(pod=ended(5)))
    world.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
    assert used(world) == {"configmaps": "1", "count/jobs.batch": "1", "pods": "2", "requests.cpu": "350m"}
    world.schedule()
    world.forward(6)
    world.delete("v1", "ConfigMap", "c")
    assert used(world) == {"configmaps": "0", "count/jobs.batch": "1", "pods": "1", "requests.cpu": "250m"}
    world.patch("v1", "ResourceQuota", "q", {"spec": {"hard": {"pods": "9", "requests.cpu": None}}})
    assert used(world)["pods"] == "1"
    assert world.get("v1", "ResourceQuota", "q")["status"]["hard"]["pods"] == "9"


def test_quota_counts_the_classes_of_groups_as_they_change() -> None:
    """cost.md 7.7: with the annotation and without it."""
    world = World(("resourcequota",), nodes=1)
    world.create(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 0}
    )
    group = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup"}
    world.create({**group, "metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"basic": {}}}})
    world.create(pod("x", schedulingGroup={"podGroupName": "g"}))
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": ["gold"]}
    made = quota({"pods": "3"})
    world.create({**made, "spec": {**made["spec"], "scopeSelector": {"matchExpressions": [scope]}}})
    assert used(world) == {"pods": "0"}
    for name, counts in (("gold", "1"), (None, "0")):
        patch = {"metadata": {"annotations": {"scheduling.reprieve.dev/preemption-priority-class": name}}}
        world.patch(group["apiVersion"], "PodGroup", "g", patch)
        assert used(world) == {"pods": counts}


def test_quota_makes_room_for_the_next_pod() -> None:
    world = World(("resourcequota", "replicaset"))
    world.create(quota({"pods": "2"}))
    world.settle()
    world.create(owner("ReplicaSet", replicas=3))
    world.forward(1)
    assert len(world.pods()) == 2
    failure = world.condition(world.get("apps/v1", "ReplicaSet", "a"), "ReplicaFailure")
    assert "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2" in failure["message"]
    world.patch("v1", "ResourceQuota", "q", {"spec": {"hard": {"pods": "3"}}})
    world.forward(60)
    assert len(world.pods()) == 3
