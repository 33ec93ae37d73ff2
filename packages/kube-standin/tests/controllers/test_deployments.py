"""Deployments: rollouts, undo, scaling, status (upstream: pkg/controller/deployment; kubectl rollout)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controllers.world import Json, World, owner, template

REVISION = "deployment.kubernetes.io/revision"


@pytest.fixture
def world() -> World:
    return World(("replicaset", "deployment", "garbage-collector"), nodes=1)


def deploy(world: World, replicas: int = 4, **spec: Any) -> Json:
    world.create(owner("Deployment", replicas=replicas, **spec))
    finish(world)
    return status(world)


def finish(world: World, rounds: int = 12) -> None:
    for _ in range(rounds):
        world.schedule()


def status(world: World) -> Json:
    found: Json = world.get("apps/v1", "Deployment", "a")["status"]
    return found


def sets(world: World) -> dict[str, int]:
    """Replicas by image."""
    return {
        one["spec"]["template"]["spec"]["containers"][0]["image"]: one["spec"]["replicas"]
        for one in world.all("apps/v1", "ReplicaSet")
    }


def new_image(world: World, image: str) -> None:
    made = template()
    made["spec"]["containers"][0]["image"] = image
    world.patch("apps/v1", "Deployment", "a", {"spec": {"template": made}})


def is_rolled_out(world: World) -> bool:
    """What `kubectl rollout status` waits for."""
    deployment = world.get("apps/v1", "Deployment", "a")
    wanted, found = deployment["spec"]["replicas"], deployment["status"]
    return bool(
        found["observedGeneration"] >= deployment["metadata"]["generation"]
        and found.get("updatedReplicas", 0) >= wanted
        and found.get("replicas", 0) <= found.get("updatedReplicas", 0)
        and found.get("availableReplicas", 0) >= found.get("updatedReplicas", 0)
    )


def test_first_rollout(world: World) -> None:
    found = deploy(world)
    assert (found["replicas"], found["updatedReplicas"], found["availableReplicas"]) == (4, 4, 4)
    assert "unavailableReplicas" not in found
    deployment = world.get("apps/v1", "Deployment", "a")
    assert world.condition(deployment, "Progressing")["reason"] == "NewReplicaSetAvailable"
    assert world.condition(deployment, "Available")["status"] == "True"
    assert deployment["metadata"]["annotations"][REVISION] == "1"
    replica_set = world.all("apps/v1", "ReplicaSet")[0]
    digest = replica_set["metadata"]["labels"]["pod-template-hash"]
    assert replica_set["metadata"]["name"] == f"a-{digest}"
    assert all(one["metadata"]["labels"]["pod-template-hash"] == digest for one in world.pods())


def test_rolling_update_keeps_its_bounds(world: World) -> None:
    deploy(world, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}})
    new_image(world, "i2")
    for _ in range(30):
        world.settle()
        assert sum(sets(world).values()) <= 5
        ready = sum(1 for one in world.pods() if world.condition(one, "Ready").get("status") == "True")
        assert ready >= 3
        if is_rolled_out(world):
            break
        world.schedule()
    assert sets(world) == {"i": 0, "i2": 4}
    assert world.get("apps/v1", "Deployment", "a")["metadata"]["annotations"][REVISION] == "2"


def test_undo_finds_the_old_set(world: World) -> None:
    deploy(world)
    new_image(world, "i2")
    finish(world)
    new_image(world, "i")  # what kubectl rollout undo sends
    finish(world)
    assert sets(world) == {"i": 4, "i2": 0}
    by_image = {
        one["spec"]["template"]["spec"]["containers"][0]["image"]: one["metadata"]["annotations"]
        for one in world.all("apps/v1", "ReplicaSet")
    }
    assert by_image["i"][REVISION] == "3"
    assert by_image["i"]["deployment.kubernetes.io/revision-history"] == "1"
    assert is_rolled_out(world)


def test_recreate_waits_for_the_old_pods_to_go(world: World) -> None:
    deploy(world, strategy={"type": "Recreate"})
    for one in world.names():
        world.patch("v1", "Pod", one, {"metadata": {"annotations": {"reprieve.dev/stop-seconds": "10"}}})
    new_image(world, "i2")
    world.settle()
    assert sets(world) == {"i": 0}
    world.forward(11)
    finish(world, 3)
    assert sets(world) == {"i": 0, "i2": 4}
    assert is_rolled_out(world)


@pytest.mark.parametrize("replicas", [0, 1, 9])
def test_scaling(world: World, replicas: int) -> None:
    deploy(world)
    world.patch("apps/v1", "Deployment", "a", {"spec": {"replicas": replicas}})
    finish(world)
    assert sets(world) == {"i": replicas}
    assert status(world).get("availableReplicas", 0) == replicas
    assert is_rolled_out(world)


def test_scaling_in_the_middle_of_a_rollout_is_proportional(world: World) -> None:
    deploy(world, 10, strategy={"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 2}})
    new_image(world, "broken")
    world.settle()
    before = sets(world)
    assert before == {"i": 8, "broken": 4}
    world.patch("apps/v1", "Deployment", "a", {"spec": {"replicas": 20}})
    world.settle()
    after = sets(world)
    assert sum(after.values()) == 22
    assert after["i"] > before["i"]
    assert after["broken"] > before["broken"]


def test_paused_is_not_rolled_out(world: World) -> None:
    deploy(world)
    world.patch("apps/v1", "Deployment", "a", {"spec": {"paused": True}})
    new_image(world, "i2")
    world.settle()
    assert sets(world) == {"i": 4}
    world.patch("apps/v1", "Deployment", "a", {"spec": {"paused": False}})
    finish(world)
    assert sets(world) == {"i": 0, "i2": 4}


def test_rollout_that_does_not_move_is_told(world: World) -> None:
    world.create(owner("Deployment", replicas=1, progressDeadlineSeconds=30))
    world.forward(35)
    progressing = world.condition(world.get("apps/v1", "Deployment", "a"), "Progressing")
    assert (progressing["status"], progressing["reason"]) == ("False", "ProgressDeadlineExceeded")
    finish(world, 3)
    progressing = world.condition(world.get("apps/v1", "Deployment", "a"), "Progressing")
    assert progressing["reason"] == "NewReplicaSetAvailable"


def test_history_is_bounded(world: World) -> None:
    deploy(world, 1, revisionHistoryLimit=1)
    for image in ("i2", "i3", "i4"):
        new_image(world, image)
        finish(world)
    assert sets(world) == {"i3": 0, "i4": 1}


def test_preempted_pods_come_back_without_a_new_rollout(world: World) -> None:
    deploy(world)
    world.delete("v1", "Pod", world.names()[0])
    finish(world, 2)
    assert status(world)["availableReplicas"] == 4
    progressing = world.condition(world.get("apps/v1", "Deployment", "a"), "Progressing")
    assert progressing["reason"] == "NewReplicaSetAvailable"


def test_deleting_takes_sets_and_pods_along(world: World) -> None:
    deploy(world)
    world.delete("apps/v1", "Deployment", "a", propagation="Background")
    world.forward(2)
    assert world.all("apps/v1", "ReplicaSet") == []
    assert world.pods() == []


def test_restart_in_the_middle_of_a_rollout(world: World) -> None:
    deploy(world)
    new_image(world, "i2")
    world.settle()
    again = World(("replicaset", "deployment"), nodes=1, store=world.store, clock=world.set_clock)
    finish(again)
    assert sets(again) == {"i": 0, "i2": 4}


def test_idle_costs_no_writes(world: World) -> None:
    deploy(world)
    before = world.store.revision
    world.settle()
    assert world.store.revision == before
