"""A simulated kubelet follows the spec of a pod that changes while it runs (kubelet 1.36)."""

from __future__ import annotations

from typing import Any

import pytest

from kube_standin.admission_chain import User
from kube_standin.errors import StatusError
from kube_standin.registry import WriteOptions
from tests.admission.plane import pod
from tests.controllers.world import Json, World

REQUESTS = {"requests": {"cpu": "100m", "memory": "64Mi"}}


@pytest.fixture
def world() -> World:
    return World((), nodes=1, resources={"cpu": "4", "memory": "8Gi", "pods": "110"})


def running(world: World, name: str = "p", **spec: Any) -> Json:
    containers = spec.pop("containers", [{"name": "c", "image": "i", "resources": REQUESTS}])
    world.create(pod(name, containers=containers, nodeName="node-1", **spec))
    world.forward(2)
    return world.get("v1", "Pod", name)


def resized(world: World, requests: Json, limits: Json | None = None) -> Json:
    resources = {"requests": requests, **({"limits": limits} if limits else {})}
    return patched(world, {"name": "c", "resources": resources}, "resize")


def patched(world: World, container: Json, subresource: str = "") -> Json:
    options = WriteOptions(user=User("client"), manager="client")
    patch = {"spec": {"containers": [container]}}
    world.registry.patch_now(world.kind("v1", "Pod"), "default", "p", "strategic", patch, options, subresource)
    world.forward(1)
    return world.get("v1", "Pod", "p")


def status_of(made: Json) -> Json:
    found: Json = made["status"]["containerStatuses"][0]
    return found


def test_status_follows_the_generation(world: World) -> None:
    made = running(world)
    assert made["status"]["observedGeneration"] == 1
    world.patch("v1", "Pod", "p", {"spec": {"activeDeadlineSeconds": 1000}})
    world.forward(1)
    made = world.get("v1", "Pod", "p")
    assert (made["metadata"]["generation"], made["status"]["observedGeneration"]) == (2, 2)
    assert {one["observedGeneration"] for one in made["status"]["conditions"]} == {2}


def test_deadline_set_later_holds(world: World) -> None:
    running(world)
    world.forward(10)
    world.patch("v1", "Pod", "p", {"spec": {"activeDeadlineSeconds": 20}})
    world.forward(5)
    assert world.get("v1", "Pod", "p")["status"]["phase"] == "Running"
    world.forward(10)
    status = world.get("v1", "Pod", "p")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")


def test_hook_that_sleeps_delays_the_end(world: World) -> None:
    hook = {"preStop": {"sleep": {"seconds": 5}}}
    running(world, containers=[{"name": "c", "image": "i", "lifecycle": hook}])
    world.delete("v1", "Pod", "p")
    world.forward(4)
    made = world.get("v1", "Pod", "p")
    assert (made["status"]["phase"], made["status"]["observedGeneration"]) == ("Running", 2)
    world.forward(2)
    assert not world.has("v1", "Pod", "p")


def test_another_image_restarts_the_container(world: World) -> None:
    running(world)
    status = status_of(patched(world, {"name": "c", "image": "j"}))
    assert (status["image"], status["restartCount"], list(status["lastState"])) == ("j", 1, ["terminated"])


def test_resize_that_fits(world: World) -> None:
    assert status_of(running(world))["allocatedResources"] == REQUESTS["requests"]
    status = status_of(resized(world, {"cpu": "200m"}))
    wanted = {"cpu": "200m", "memory": "64Mi"}
    assert (status["resources"], status["allocatedResources"]) == ({"requests": wanted}, wanted)
    assert status["restartCount"] == 0


def test_resize_that_restarts(world: World) -> None:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    running(world, containers=[{"name": "c", "image": "i", "resources": REQUESTS, "resizePolicy": policy}])
    assert status_of(resized(world, {"cpu": "200m"}))["restartCount"] == 0
    assert status_of(resized(world, {"memory": "128Mi"}))["restartCount"] == 1


def test_resize_that_no_longer_fits_the_node(world: World) -> None:
    running(world)
    options = WriteOptions(user=User("client"), manager="client")
    patch: Json = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}}
    world.registry.patch_now(world.kind("v1", "Pod"), "default", "p", "strategic", patch, options, "resize")
    patch = {"status": {"allocatable": {"cpu": "2"}}}
    world.registry.patch_now(world.kind("v1", "Node"), "", "node-1", "merge", patch, options, "status")
    world.forward(1)
    made = world.get("v1", "Pod", "p")
    pending = world.condition(made, "PodResizePending")
    text = "Node didn't have enough capacity: cpu, requested: 3, capacity: 2"
    assert (pending["reason"], pending["message"]) == ("Infeasible", text)
    assert status_of(made)["allocatedResources"] == REQUESTS["requests"]


def test_resize_that_waits_for_another_pod(world: World) -> None:
    running(world)
    running(world, "q", containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}])
    assert world.condition(resized(world, {"cpu": "2"}), "PodResizePending")["reason"] == "Deferred"
    world.delete("v1", "Pod", "q")
    world.forward(15)
    made = world.get("v1", "Pod", "p")
    assert world.condition(made, "PodResizePending") == {}
    assert status_of(made)["allocatedResources"]["cpu"] == "2"


def test_guaranteed_pods_are_the_first_to_get_freed_resources(world: World) -> None:
    running(world, "a", containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}])
    burstable, guaranteed = {"requests": {"cpu": "100m"}}, {"cpu": "100m", "memory": "64Mi"}
    for name, resources in (("b", burstable), ("d", {"requests": guaranteed, "limits": guaranteed})):
        running(world, name, containers=[{"name": "c", "image": "i", "resources": resources}])
    options = WriteOptions(user=User("client"), manager="client")
    for name, part in (("b", ("requests",)), ("d", ("requests", "limits"))):
        container = {"name": "c", "resources": {key: {"cpu": "3"} for key in part}}
        patch = {"spec": {"containers": [container]}}
        world.registry.patch_now(world.kind("v1", "Pod"), "default", name, "strategic", patch, options, "resize")
        world.forward(2)
    world.delete("v1", "Pod", "a")
    world.forward(15)
    assert [status_of(world.get("v1", "Pod", name))["allocatedResources"]["cpu"] for name in ("b", "d")] == [
        "100m",
        "3",
    ]


@pytest.mark.parametrize(
    ("requests", "limits", "why"),
    [
        ({"cpu": None}, None, "resource requests cannot be removed"),
        ({"example.com/gpu": "1"}, {"example.com/gpu": "1"}, "only cpu and memory resources are mutable"),
        (
            {"cpu": "1", "memory": "1Gi"},
            {"cpu": "1", "memory": "1Gi"},
            "Pod QOS Class may not change as a result of resizing",
        ),
    ],
)
def test_refused_resizes(world: World, requests: Json, limits: Json | None, why: str) -> None:
    running(world)
    with pytest.raises(StatusError, match=why):
        resized(world, requests, limits)


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["b", "a"], r"containers\[0\]\.name: Forbidden: containers may not be renamed or reordered .*, .*\[1\]\.name"),
        (["a", "c"], r"containers\[1\]\.name: Forbidden: containers may not be renamed or reordered on resize"),
        (["a"], r"spec\.containers: Forbidden: containers may not be added or removed on resize"),
    ],
)
def test_resize_does_not_change_which_containers_there_are(world: World, names: list[str], why: str) -> None:
    running(world, containers=[{"name": name, "image": "i", "resources": REQUESTS} for name in ("a", "b")])
    patch = {"spec": {"containers": [{"name": name, "image": "i", "resources": REQUESTS} for name in names]}}
    options = WriteOptions(user=User("client"), manager="client")
    with pytest.raises(StatusError, match=why):
        world.registry.patch_now(world.kind("v1", "Pod"), "default", "p", "merge", patch, options, "resize")


def test_status_lists_the_resources_of_a_container_that_requests_none(world: World) -> None:
    status = status_of(running(world, containers=[{"name": "c", "image": "i"}]))
    assert (status["resources"], "allocatedResources" in status) == ({}, False)


def test_resize_beyond_the_allocatable_resources_of_the_node_is_refused(world: World) -> None:
    """resizes.md 6.5."""
    running(world)
    with pytest.raises(StatusError) as refusal:
        resized(world, {"cpu": "5", "memory": "9Gi"})
    assert (refusal.value.code, refusal.value.message) == (
        403,
        'pods "p" is forbidden: node didn\'t have enough allocatable resources: '
        "cpu, requested: 5000, allocatable: 4000; memory, requested: 9663676416, allocatable: 8589934592",
    )
    assert refusal.value.to_json()["details"]["causes"] == [{"reason": "NodeCapacity"}]
    world.patch("v1", "Node", "node-1", {"metadata": {"labels": {"kubernetes.io/os": "windows"}}})
    with pytest.raises(StatusError, match=r'only supported on linux nodes, node "node-1" is "windows"'):
        resized(world, {"cpu": "200m"})


def test_limits_of_the_namespace_hold_for_resizes() -> None:
    world = World(("resourcequota",), nodes=1)
    limits = {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}
    world.create({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": limits})
    hard = {"hard": {"requests.cpu": "1"}}
    world.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": hard})
    world.settle()
    resources = {"requests": {"cpu": "100m"}, "limits": {"cpu": "2"}}
    running(world, containers=[{"name": "c", "image": "i", "resources": resources}])
    with pytest.raises(StatusError, match=r"exceeded quota: q, requested: requests\.cpu=1900m"):
        resized(world, {"cpu": "2"})
    with pytest.raises(StatusError, match="maximum cpu usage per Container is 2, but limit is 3"):
        resized(world, {"cpu": "200m"}, {"cpu": "3"})

    def used() -> str:
        found: str = world.get("v1", "ResourceQuota", "q")["status"]["used"]["requests.cpu"]
        return found

    resized(world, {"cpu": "900m"})
    assert used() == "900m"
    resized(world, {"cpu": "50m"})
    assert used() == "50m"


def ephemeral(world: World, *containers: Json) -> None:
    patch = {"spec": {"ephemeralContainers": list(containers)}}
    world.patch("v1", "Pod", "p", patch, "ephemeralcontainers")
    world.forward(1)


def test_ephemeral_containers_start(world: World) -> None:
    running(world)
    ephemeral(world, {"name": "d", "image": "i", "targetContainerName": "c"})
    made = world.get("v1", "Pod", "p")
    [status] = made["status"]["ephemeralContainerStatuses"]
    assert (status["name"], list(status["state"])) == ("d", ["running"])
    assert (made["metadata"]["generation"], made["status"]["observedGeneration"]) == (2, 2)
    assert made["spec"]["containers"][0]["image"] == "i"


@pytest.mark.parametrize(
    ("containers", "why"),
    [
        ([], 'existing ephemeral containers "d" may not be removed'),
        ([{"name": "d", "image": "other"}], 'existing ephemeral containers "d" may not be changed'),
        ([{"name": "d", "image": "i"}, {"name": "c", "image": "i"}], "Duplicate value"),
        ([{"name": "d", "image": "i"}, {"name": "e", "image": ""}], "Required value"),
        (
            [{"name": "d", "image": "i"}, {"name": "e", "image": "i", "ports": [{"containerPort": 80}]}],
            "field not allowed in ephemeral containers",
        ),
        ([{"name": "d", "image": "i"}, {"name": "e", "image": "i", "targetContainerName": "x"}], "Not found"),
    ],
)
def test_refused_ephemeral_containers(world: World, containers: list[Json], why: str) -> None:
    running(world)
    ephemeral(world, {"name": "d", "image": "i"})
    with pytest.raises(StatusError, match=why):
        ephemeral(world, *containers)


def test_deferred_resize_is_done_as_soon_as_a_pod_leaves(world: World) -> None:
    """resizes.md 6.2: not at the next retry ten seconds later."""
    running(world)
    running(world, "q", containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}])
    resized(world, {"cpu": "2"})
    world.delete("v1", "Pod", "q")
    world.forward(2)
    assert status_of(world.get("v1", "Pod", "p"))["allocatedResources"]["cpu"] == "2"


def test_deferred_resizes_of_others_take_nothing(world: World) -> None:
    """resizes.md 6.1: the kubelet counts what it has given to the other pods, and the highest priority is first."""
    world.create({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "h"}, "value": 9})
    for name, spec in (("a", {}), ("p", {"priority": 9, "priorityClassName": "h"}), ("q", {})):
        running(world, name, containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}], **spec)
    options = WriteOptions(user=User("client"), manager="client")
    for name in ("a", "p"):
        patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2500m"}}}]}}
        world.registry.patch_now(world.kind("v1", "Pod"), "default", name, "strategic", patch, options, "resize")
        world.forward(1)
        assert world.condition(world.get("v1", "Pod", name), "PodResizePending")["reason"] == "Deferred"
    world.delete("v1", "Pod", "q")
    world.forward(2)
    given = {name: status_of(world.get("v1", "Pod", name))["allocatedResources"]["cpu"] for name in ("a", "p")}
    assert given == {"a": "1", "p": "2500m"}


def test_policy_of_the_node_is_reported_on_a_deferred_resize(world: World) -> None:
    """resizes.md 6.3: from the time when it is deferred until the policy is gone or it is done."""
    running(world)
    running(world, "q", containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}])
    policy = {"spec": {"podPreemptionPolicy": {"disableResizePreemption": ["example.com/resizer"]}}}
    world.patch("v1", "Node", "node-1", policy)
    made = resized(world, {"cpu": "2"})
    found = world.condition(made, "PodResizePreemptionDisabled")
    assert (found["status"], found["reason"]) == ("True", "PreemptionDisabledByNodePolicy")
    assert "'node-1'" in found["message"]
    world.patch("v1", "Node", "node-1", {"spec": {"podPreemptionPolicy": None}})
    world.forward(11)
    made = world.get("v1", "Pod", "p")
    assert world.condition(made, "PodResizePreemptionDisabled") == {}
    assert world.condition(made, "PodResizePending")["reason"] == "Deferred"


WHOLE = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}


def whole(world: World, cpu: str, limit: str = "2") -> Json:
    """The pod as a whole asks for another amount of cpu."""
    options = WriteOptions(user=User("client"), manager="client")
    patch = {"spec": {"resources": {"requests": {"cpu": cpu}, "limits": {"cpu": limit}}}}
    world.registry.patch_now(world.kind("v1", "Pod"), "default", "p", "strategic", patch, options, "resize")
    world.forward(1)
    return world.get("v1", "Pod", "p")


def test_pod_is_resized_as_a_whole(world: World) -> None:
    """resizes.md 6.4 (KEP-5419): at once if it fits, or when another pod has left."""
    made = running(world, resources=WHOLE)
    assert (made["status"]["resources"], made["status"]["allocatedResources"]) == (WHOLE, WHOLE["requests"])
    made = whole(world, "2")
    assert made["status"]["allocatedResources"] == {"cpu": "2", "memory": "1Gi"}
    assert made["status"]["resources"]["requests"]["cpu"] == "2"
    running(world, "q", containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}])
    made = whole(world, "3", "3")
    assert world.condition(made, "PodResizePending")["reason"] == "Deferred"
    assert made["status"]["allocatedResources"]["cpu"] == "2"
    world.delete("v1", "Pod", "q")
    world.forward(15)
    made = world.get("v1", "Pod", "p")
    assert world.condition(made, "PodResizePending") == {}
    assert made["status"]["allocatedResources"]["cpu"] == "3"


def test_pod_never_has_less_as_a_whole_than_its_containers_ask_for(world: World) -> None:
    running(world, resources=WHOLE)
    with pytest.raises(StatusError, match="must be greater than or equal to aggregate container requests of 100m"):
        whole(world, "50m")
