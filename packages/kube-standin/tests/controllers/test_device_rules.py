"""Device claims of groups and several pods, taints of devices in all that their rules say, budgets that sum up owners
(docs/rules/devices.md 3; upstream: resourceclaim, devicetainteviction, disruption).
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.admission.plane import pod, pod_group
from tests.controllers.test_device_taints import (
    DRIVER,
    GROUP,
    NAMES,
    TOLERATED,
    leaving,
    rule,
    running,
    slice_of,
    told,
)
from tests.controllers.test_disruption import budget, numbers
from tests.controllers.world import Json, World, owner

HOT: Json = {"key": "example.com/hot", "effect": "NoExecute"}


def in_group(world: World, *names: str, with_claim: tuple[str, ...]) -> None:
    """Pods of the group `g`, bound; those of `with_claim` use the device claim that the group has."""
    group = world.create(pod_group("g"))
    claim = {
        "apiVersion": GROUP,
        "kind": "ResourceClaim",
        "metadata": {"name": "shared"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
    }
    world.create(claim)
    for name in names:
        made = pod(name, schedulingGroup={"podGroupName": "g"})
        if name in with_claim:
            made["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "shared"}]
        world.create(made)
        world.bind(name, f"node-of-{name}")
    consumer = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": group["metadata"]["uid"]}
    result = {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}
    world.set_status(GROUP, "ResourceClaim", "shared", status)
    world.settle()


# -- which pods are evicted


def test_group_members_that_use_its_claim_are_evicted() -> None:
    """devices.md 3.4: a claim that is reserved for a group concerns its pods that name it."""
    world = World(("device-taint-eviction",))
    in_group(world, "a", "b", "c", with_claim=("a", "c"))
    world.create(rule(selector={}))
    assert leaving(world) == ["a", "c"]
    world.forward(11)
    assert told(world) == ("False", "Completed", "2 pods evicted since starting the controller.")


def test_taint_of_a_driver_concerns_the_pods_of_a_group_as_well() -> None:
    world = World(("device-taint-eviction",))
    in_group(world, "a", "b", with_claim=("a",))
    world.create(slice_of({"name": "gpu-0", "taints": [HOT]}))
    assert leaving(world) == ["a"]


def test_pod_that_waits_for_a_node_is_not_evicted() -> None:
    """It has no device yet."""
    world = World(NAMES)
    world.create(rule(selector={}))
    made = pod("p")
    made["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "p"}]
    world.create(made)
    assert leaving(world) == []


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pod_that_ended_is_not_evicted(phase: str) -> None:
    world = World(("device-taint-eviction",))
    running(world, "a")
    world.set_phase("a", phase)
    world.create(rule(selector={}))
    assert leaving(world) == []
    assert told(world)[:2] == ("False", "NotStarted")


def test_how_many_have_to_go_is_told_before_they_do() -> None:
    """devices.md 3.5: how many pods, in how many namespaces."""
    world = World(("device-taint-eviction",))
    late = [{**TOLERATED, "tolerationSeconds": 600}]
    running(world, "a", tolerations=late)
    running(world, "b", tolerations=late)
    world.create(rule(selector={}))
    assert told(world) == ("True", "PodsPendingEviction", "2 pods need to be evicted in 1 namespace.")
    events = [one for one in world.all("v1", "Event") if one["reason"] == "DeviceTaintManagerEviction"]
    assert events == []


def test_pod_with_a_tainted_device_is_evicted_after_its_binding() -> None:
    """devices.md 3.4: a claim that changes is looked at by itself."""
    world = World(("device-taint-eviction",))
    running(world, "a", "gpu-1")
    world.create(rule(selector={"device": "gpu-0"}))
    assert leaving(world) == []
    result = {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}
    status = world.get(GROUP, "ResourceClaim", "a")["status"]
    state = world.store.head("resource.k8s.io/resourceclaims", "default", "a")
    assert state is not None
    body = {**state.decode(), "status": {**status, "allocation": {"devices": {"results": [result]}}}}
    world.controllers.context.put(state, body)
    assert leaving(world) == ["a"]


def test_eviction_is_told_with_the_pod() -> None:
    world = World(("device-taint-eviction",))
    running(world, "a")
    world.create(rule(selector={}))
    assert leaving(world) == ["a"]
    [event] = [one for one in world.all("v1", "Event") if one["reason"] == "DeviceTaintManagerEviction"]
    assert (event["message"], event["type"]) == ("Marking for deletion", "Normal")
    assert event["involvedObject"]["name"] == "a"
    assert event["source"]["component"]


def test_status_of_a_rule_is_written_every_ten_seconds_at_most() -> None:
    world = World(("device-taint-eviction",))
    world.create(rule(selector={}))
    assert told(world)[1] == "NotStarted"
    running(world, "a", tolerations=[{**TOLERATED, "tolerationSeconds": 600}])
    assert told(world.forward(9))[1] == "NotStarted"
    assert told(world.forward(1))[1] == "PodsPendingEviction"
    world.patch(GROUP, "DeviceTaintRule", "broken", {"spec": {"taint": {"effect": "NoSchedule"}}}, ns="")
    assert told(world)[1] == "OtherEffect", "a changed rule is reported at once"


def test_rules_both_count_and_the_earlier_decides() -> None:
    """devices.md 3.4: the earliest end of all."""
    world = World(("device-taint-eviction",))
    both = [{**TOLERATED, "tolerationSeconds": 60}, {**TOLERATED, "key": "other", "tolerationSeconds": 30}]
    running(world, "a", tolerations=both)
    world.create(rule(selector={}))
    world.create(rule(selector={}, name="second", key="other"))
    assert leaving(world.forward(29)) == []
    assert leaving(world.forward(1)) == ["a"]
    world.forward(40)
    for name in ("broken", "second"):
        assert told(world, name) == ("False", "Completed", "1 pod evicted since starting the controller.")


def test_device_that_is_freed_of_its_taint_in_time_keeps_its_pod() -> None:
    world = World(("device-taint-eviction",))
    running(world, "a", tolerations=[{"key": "example.com/hot", "operator": "Exists", "effect": "NoExecute",
                                      "tolerationSeconds": 60}])  # fmt: skip
    world.create(slice_of({"name": "gpu-0", "taints": [HOT]}))
    world.forward(30)
    world.patch(GROUP, "ResourceSlice", "n1", {"spec": {"devices": [{"name": "gpu-0"}]}}, ns="")
    assert leaving(world.forward(100)) == []


def test_taint_that_is_tolerated_hides_no_other() -> None:
    """devices.md 3.4: every taint counts by itself, a driver's and a rule's, in whatever order."""
    world = World(("device-taint-eviction",))
    for name in ("a", "b"):
        running(world, name, tolerations=[TOLERATED])
    world.create(rule(selector={}, name="a-tolerated-one"))
    world.create(slice_of({"name": "gpu-0", "taints": [{"key": "example.com/broken", "effect": "NoExecute"}]}))
    assert leaving(world) == []
    world.create(rule(selector={}, name="strict", key="other"))
    assert leaving(world) == ["a", "b"]
    driver = World(("device-taint-eviction",))
    running(driver, "a", tolerations=[TOLERATED])
    driver.create(slice_of({"name": "gpu-0", "taints": [{"key": "example.com/broken", "effect": "NoExecute"}, HOT]}))
    assert leaving(driver) == ["a"]


# -- budgets


def budgeted(*given: Json, ready: int = 99, **spec: Any) -> World:
    world = World(("disruption", "replicaset", "deployment", "statefulset", "replicationcontroller"))
    for one in given:
        world.create(one)
    world.create(budget(**spec))
    world.settle()
    for name in world.names()[:ready]:
        world.set_ready(name)
    return world


def test_shared_amounts_of_several_owners_are_summed_up() -> None:
    """Each once, however many pods it has; a pod without an owner is left out of it."""
    first, second = owner("ReplicaSet", "x", replicas=3), owner("ReplicaSet", "y", replicas=2)
    for one, label in ((first, "x"), (second, "y")):
        one["spec"]["selector"] = {"matchLabels": {"set": label}}
        one["spec"]["template"]["metadata"]["labels"] = {"app": "a", "set": label}
    world = budgeted(first, second, pod("alone", labels={"app": "a"}), maxUnavailable="50%")
    assert numbers(world) == (5, 2, 6, 4)


def test_deployment_counts_its_own_number_once() -> None:
    """Whatever its sets have on the way from one to the next."""
    world = budgeted(owner("Deployment", replicas=4), maxUnavailable=1)
    assert numbers(world)[:2] == (4, 3)
    world.patch("apps/v1", "Deployment", "a", {"spec": {"replicas": 6}})
    world.settle()
    assert numbers(world)[:2] == (6, 5)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minAvailable": 2}, (2, 2, 2, 0)),
        ({"minAvailable": 1}, (2, 1, 2, 1)),
        ({"minAvailable": 0}, (2, 0, 2, 2)),
        ({"minAvailable": "50%"}, (2, 1, 2, 1)),
        ({"maxUnavailable": "49%"}, (2, 1, 2, 1)),
        ({"maxUnavailable": 5}, (2, 0, 2, 2)),
    ],
)
def test_bounds_of_budgets(spec: Json, expected: tuple[int, int, int, int]) -> None:
    assert numbers(budgeted(owner("ReplicaSet", replicas=2), **spec)) == expected


@pytest.mark.parametrize(
    ("ready", "status", "reason"),
    [(2, "True", "SufficientPods"), (1, "False", "InsufficientPods"), (0, "False", "InsufficientPods")],
)
def test_whether_a_disruption_is_allowed_is_a_condition(ready: int, status: str, reason: str) -> None:
    world = budgeted(owner("ReplicaSet", replicas=2), ready=ready, minAvailable=1)
    world.forward(1)
    found = world.condition(world.get("policy/v1", "PodDisruptionBudget", "b"), "DisruptionAllowed")
    assert (found["status"], found["reason"], found["observedGeneration"]) == (status, reason, 1)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [({}, 3), ({"matchLabels": {"app": "a"}}, 2), ({"matchLabels": {"app": "none"}}, 0), (None, 0)],
)
def test_empty_selector_selects_all_and_a_missing_one_nothing(selector: Json | None, expected: int) -> None:
    """policy/v1."""
    world = World(("disruption",))
    made = budget(minAvailable=0)
    made["spec"].pop("selector")
    if selector is not None:
        made["spec"]["selector"] = selector
    world.create(made)
    for name, label in (("a", "a"), ("b", "a"), ("c", "c")):
        world.create(pod(name, labels={"app": label}))
    world.settle()
    assert numbers(world)[0] == expected
