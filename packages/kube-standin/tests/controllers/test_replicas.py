"""ReplicaSets and ReplicationControllers (upstream: pkg/controller/replicaset)."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.admission.plane import pod
from tests.controllers.world import Json, World, owner, template


@pytest.fixture
def world() -> World:
    return World(("replicaset", "replicationcontroller", "garbage-collector"), nodes=1)


def status(world: World, name: str = "a") -> Json:
    found: Json = world.get("apps/v1", "ReplicaSet", name)["status"]
    return found


def test_makes_pods_owned_by_it(world: World) -> None:
    world.create(owner("ReplicaSet", replicas=3))
    world.settle()
    made = world.pods()
    assert len(made) == 3
    assert all(one["metadata"]["generateName"] == "a-" for one in made)
    reference = made[0]["metadata"]["ownerReferences"][0]
    assert (reference["kind"], reference["name"], reference["controller"]) == ("ReplicaSet", "a", True)
    assert status(world) == {"replicas": 3, "fullyLabeledReplicas": 3, "observedGeneration": 1}


def test_counts_ready_and_available(world: World) -> None:
    world.create(owner("ReplicaSet", replicas=2, minReadySeconds=10))
    world.schedule()
    assert status(world)["readyReplicas"] == 2
    assert "availableReplicas" not in status(world)
    world.forward(11)
    assert status(world)["availableReplicas"] == 2


def test_more_than_a_batch(world: World) -> None:
    world.create(owner("ReplicaSet", replicas=250))
    assert len(world.settle().pods()) == 250


def test_scales_down_unbound_and_unready_first(world: World) -> None:
    world.create(owner("ReplicaSet", replicas=2))
    world.schedule()
    running = set(world.names())
    world.patch("apps/v1", "ReplicaSet", "a", {"spec": {"replicas": 4}})
    world.settle()
    world.patch("apps/v1", "ReplicaSet", "a", {"spec": {"replicas": 2}})
    world.forward(1)
    assert set(world.names()) == running


def test_deletion_cost_decides_among_equals(world: World) -> None:
    world.create(owner("ReplicaSet", replicas=3))
    world.schedule()
    cheap = world.names()[1]
    world.patch("v1", "Pod", cheap, {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}})
    world.patch("apps/v1", "ReplicaSet", "a", {"spec": {"replicas": 2}})
    world.forward(1)
    assert cheap not in world.names()


@pytest.mark.parametrize("how", ["preempted", "failed"])
def test_lost_pods_are_made_again(world: World, how: str) -> None:
    world.create(owner("ReplicaSet", replicas=2))
    world.schedule()
    lost = world.names()[0]
    if how == "preempted":
        world.delete("v1", "Pod", lost)
    else:
        world.set_phase(lost, "Failed")
    world.forward(1)
    alive = [one for one in world.pods() if one["status"]["phase"] != "Failed"]
    assert len(alive) == 2
    assert lost not in [one["metadata"]["name"] for one in alive]


def test_adopts_and_releases(world: World) -> None:
    world.create(pod("orphan", labels={"app": "a"}))
    world.create(owner("ReplicaSet", replicas=2))
    world.settle()
    assert len(world.pods()) == 2
    assert world.get("v1", "Pod", "orphan")["metadata"]["ownerReferences"][0]["name"] == "a"
    world.patch("v1", "Pod", "orphan", {"metadata": {"labels": {"app": "b"}}})
    world.settle()
    assert "ownerReferences" not in world.get("v1", "Pod", "orphan")["metadata"]
    assert len(world.pods()) == 3


def test_orphan_that_comes_later_is_adopted_and_surplus_ended(world: World) -> None:
    world.create(owner("ReplicaSet", replicas=1))
    world.settle()
    world.create(pod("late", labels={"app": "a"}))
    assert len(world.forward(1).pods()) == 1


def test_refused_pods_are_reported_and_tried_again(world: World) -> None:
    world.create(owner("ReplicaSet", replicas=1, pod=template(priorityClassName="soon")))
    world.settle()
    failure = world.condition(world.get("apps/v1", "ReplicaSet", "a"), "ReplicaFailure")
    assert failure["reason"] == "FailedCreate"
    assert "no PriorityClass with name soon was found" in failure["message"]
    assert any(event["reason"] == "FailedCreate" for event in world.all("v1", "Event"))
    world.create(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "soon"}, "value": 3}
    )
    world.forward(60)
    assert len(world.pods()) == 1
    assert "conditions" not in status(world)


def test_restart_makes_nothing_twice(world: World) -> None:
    world.create(owner("ReplicaSet", replicas=3))
    names = world.settle().names()
    again = world.restarted(("replicaset",))
    assert again.settle().names() == names


def test_idle_costs_no_writes(world: World) -> None:
    world.create(owner("ReplicaSet", replicas=3))
    world.schedule()
    before = world.store.revision
    world.controllers.settle()
    assert world.store.revision == before


def test_replication_controller(world: World) -> None:
    spec = {"replicas": 2, "selector": {"app": "a"}, "template": template()}
    world.create({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "rc"}, "spec": spec})
    world.settle()
    assert len(world.pods()) == 2
    assert world.get("v1", "ReplicationController", "rc")["status"]["replicas"] == 2


def test_refusals_are_retried_ever_more_rarely(world: World) -> None:
    world.create(owner("ReplicaSet", replicas=1, pod=template(priorityClassName="never-made")))
    world.forward(1)
    before = world.set_clock.now()
    timers = world.controllers.context.timers
    moments = []
    for _ in range(5):
        moment = timers.next_moment()
        assert moment is not None
        world.forward((moment - world.set_clock.now()).total_seconds())
        moments.append(moment)
    gaps = [(later - sooner).total_seconds() for sooner, later in pairwise([before, *moments])]
    assert max(gaps[1:]) >= 1
