"""PodDisruptionBudget status (upstream: pkg/controller/disruption) and evictions that use it."""

from __future__ import annotations

from typing import Any

import pytest

from kube_standin.errors import StatusError
from tests.admission.plane import pod
from tests.controllers.world import Json, World, owner


@pytest.fixture
def world() -> World:
    return World(("disruption", "replicaset", "deployment", "statefulset"))


def budget(**spec: Any) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, **spec},
    }


def status(world: World) -> Json:
    found: Json = world.forward(1).get("policy/v1", "PodDisruptionBudget", "b")["status"]
    return found


def numbers(world: World) -> tuple[int, int, int, int]:
    found = status(world)
    return (
        found["expectedPods"],
        found["desiredHealthy"],
        found["currentHealthy"],
        found["disruptionsAllowed"],
    )


def ready(world: World, count: int) -> None:
    """Make that many pods ready."""
    world.settle()
    for name in world.names()[:count]:
        world.set_ready(name)


@pytest.mark.parametrize(
    ("spec", "healthy", "expected"),
    [
        ({"minAvailable": 3}, 5, (5, 3, 5, 2)),
        ({"minAvailable": 3}, 2, (5, 3, 2, 0)),
        ({"minAvailable": "50%"}, 5, (5, 3, 5, 2)),
        ({"minAvailable": "100%"}, 5, (5, 5, 5, 0)),
        ({"maxUnavailable": 1}, 5, (5, 4, 5, 1)),
        ({"maxUnavailable": "30%"}, 5, (5, 3, 5, 2)),
        ({"maxUnavailable": 0}, 5, (5, 5, 5, 0)),
        ({}, 5, (0, 0, 5, 0)),
    ],
)
@pytest.mark.parametrize("kind", ["ReplicaSet", "Deployment"])
def test_numbers(world: World, kind: str, spec: Json, healthy: int, expected: tuple[int, int, int, int]) -> None:
    world.create(owner(kind, replicas=5))
    ready(world, healthy)
    world.create(budget(**spec))
    assert numbers(world) == expected
    condition = world.condition(world.get("policy/v1", "PodDisruptionBudget", "b"), "DisruptionAllowed")
    assert condition["status"] == ("True" if expected[3] else "False")
    assert condition["reason"] == ("SufficientPods" if expected[3] else "InsufficientPods")


def test_percentages_count_against_what_is_asked_for(world: World) -> None:
    world.create(owner("ReplicaSet", replicas=2))
    ready(world, 2)
    world.create(budget(minAvailable="50%"))
    assert numbers(world) == (2, 1, 2, 1)
    world.controllers.running.pop("replicaset")
    world.patch("apps/v1", "ReplicaSet", "a", {"spec": {"replicas": 10}})
    assert numbers(world) == (10, 5, 2, 0)


def test_pods_without_controller(world: World) -> None:
    for name in ("x", "y"):
        world.create(pod(name, labels={"app": "a"}))
        world.set_ready(name)
    world.create(budget(minAvailable=1))
    assert numbers(world) == (2, 1, 2, 1)
    world.patch("policy/v1", "PodDisruptionBudget", "b", {"spec": {"minAvailable": None, "maxUnavailable": 1}})
    assert numbers(world) == (0, 0, 2, 0)


def test_unknown_scale_allows_no_disruption(world: World) -> None:
    orphan = pod("x", labels={"app": "a"})
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone", "uid": "1", "controller": True}
    orphan["metadata"]["ownerReferences"] = [reference]
    world.create(orphan)
    world.create(budget(maxUnavailable=1))
    assert status(world)["disruptionsAllowed"] == 0
    condition = world.condition(world.get("policy/v1", "PodDisruptionBudget", "b"), "DisruptionAllowed")
    assert condition["reason"] == "SyncFailed"


def test_terminating_and_finished_pods_are_not_healthy(world: World) -> None:
    world.create(owner("ReplicaSet", replicas=3))
    ready(world, 3)
    world.create(budget(minAvailable=1))
    assert numbers(world)[2] == 3
    world.controllers.running.pop("replicaset")
    first, second, _ = world.names()
    world.bind(first, "n")
    world.delete("v1", "Pod", first)
    world.set_phase(second, "Failed")
    assert numbers(world)[2] == 1


def test_each_change_of_a_pod_counts_without_another(world: World) -> None:
    """Ready or not, ended, deleted: the budget has followed before anything else happens."""
    for name in ("x", "y", "z"):
        world.create(pod(name, labels={"app": "a"}))
        world.bind(name, "n")
    world.create(budget(minAvailable=1))
    assert numbers(world) == (3, 1, 0, 0)
    world.set_ready("x")
    assert numbers(world) == (3, 1, 1, 0)
    world.set_ready("y")
    assert numbers(world) == (3, 1, 2, 1)
    world.set_ready("y", ready=False)
    assert numbers(world) == (3, 1, 1, 0)
    world.set_phase("z", "Failed")
    assert numbers(world) == (2, 1, 1, 0)
    world.delete("v1", "Pod", "x")
    assert numbers(world) == (2, 1, 0, 0)
    world.patch("v1", "Pod", "y", {"metadata": {"labels": {"app": "other"}}})
    assert numbers(world) == (1, 1, 0, 0), "the one that goes is there until its kubelet has stopped it"


def test_eviction_is_noted_until_it_is_seen(world: World) -> None:
    world.create(owner("ReplicaSet", replicas=3))
    ready(world, 3)
    world.create(budget(maxUnavailable=1))
    assert numbers(world)[3] == 1
    first, second, _ = world.names()
    world.bind(first, "n")
    world.bind(second, "n")
    world.evict(first)
    with pytest.raises(StatusError) as refused:
        world.evict(second)
    assert refused.value.code == 429
    assert numbers(world)[3] == 0
    assert "disruptedPods" not in status(world)  # the deletion was seen


def test_note_of_a_disruption_that_never_came_expires(world: World) -> None:
    world.create(owner("ReplicaSet", replicas=2))
    ready(world, 2)
    world.create(budget(maxUnavailable=1))
    world.settle()
    noted = {"disruptedPods": {world.names()[0]: world.clock.stamp()}, "disruptionsAllowed": 0}
    world.set_status("policy/v1", "PodDisruptionBudget", "b", noted)
    world.patch("policy/v1", "PodDisruptionBudget", "b", {"metadata": {"labels": {"touched": "1"}}})
    assert numbers(world) == (2, 1, 1, 0)
    world.forward(121)
    assert numbers(world) == (2, 1, 2, 1)


def test_pod_that_is_spared_loses_the_condition(world: World) -> None:
    world.create(pod("x"))
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    world.set_status("v1", "Pod", "x", {"conditions": [{**condition, "lastTransitionTime": world.clock.stamp()}]})
    world.forward(121)
    assert world.condition(world.get("v1", "Pod", "x"), "DisruptionTarget")["status"] == "False"


def test_generation_is_observed(world: World) -> None:
    world.create(budget(minAvailable=1))
    assert status(world)["observedGeneration"] == 1
    world.patch("policy/v1", "PodDisruptionBudget", "b", {"spec": {"minAvailable": 2}})
    assert status(world)["observedGeneration"] == 2
