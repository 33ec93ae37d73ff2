"""Pods of tainted devices go (docs/rules/devices.md 3; upstream: pkg/controller/devicetainteviction)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.admission.plane import pod
from tests.controllers.world import Json, World

GROUP = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"
FINALIZER = "resource.kubernetes.io/delete-protection"
NAMES = ("device-taint-eviction", "resourceclaim")


def rule(effect: str = "NoExecute", *, name: str = "broken", selector: Json | None = None, **taint: Any) -> Json:
    spec: Json = {"taint": {"key": "example.com/broken", "effect": effect, **taint}}
    if selector is not None:
        spec["deviceSelector"] = selector
    return {"apiVersion": GROUP, "kind": "DeviceTaintRule", "metadata": {"name": name}, "spec": spec}


def slice_of(*devices: Json, generation: int = 1, name: str = "n1") -> Json:
    pool = {"name": "n1", "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": list(devices)}
    return {"apiVersion": GROUP, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def running(world: World, name: str, device: str = "gpu-0", tolerations: list[Json] | None = None) -> None:
    """A pod on a node with a claim for a device."""
    one = pod(name)
    one["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    made = world.create(one)
    request: Json = {"deviceClassName": "gpu"}
    claim = {
        "apiVersion": GROUP,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "finalizers": [FINALIZER]},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": request}]}},
    }
    world.create(claim)
    result: Json = {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": device}
    if tolerations is not None:
        result["tolerations"] = tolerations
    consumer = {"resource": "pods", "name": name, "uid": made["metadata"]["uid"]}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}
    world.set_status(GROUP, "ResourceClaim", name, status)
    world.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-of-{name}"}})
    world.bind(name, f"node-of-{name}")
    world.settle()


def leaving(world: World) -> list[str]:
    world.settle()
    return sorted(one["metadata"]["name"] for one in world.pods() if one["metadata"].get("deletionTimestamp"))


def told(world: World, name: str = "broken") -> tuple[str, str, str]:
    found = world.settle().get(GROUP, "DeviceTaintRule", name, "")
    condition = world.condition(found, "EvictionInProgress")
    assert condition["observedGeneration"] == found["metadata"]["generation"]
    return condition["status"], condition["reason"], condition["message"]


@pytest.mark.parametrize(
    ("selector", "gone"),
    [
        ({}, ["a", "b"]),
        (None, []),
        ({"driver": DRIVER}, ["a", "b"]),
        ({"driver": "x.example.com"}, []),
        ({"pool": "n1"}, ["a", "b"]),
        ({"pool": "n2"}, []),
        ({"device": "gpu-1"}, ["b"]),
        ({"driver": DRIVER, "pool": "n1", "device": "gpu-0"}, ["a"]),
    ],
)
def test_rule_evicts_from_the_devices_it_selects(selector: Json | None, gone: list[str]) -> None:
    """devices.md 3.1, 3.4; the devices need not be published any more."""
    world = World(NAMES)
    running(world, "a", "gpu-0")
    running(world, "b", "gpu-1")
    world.create(rule(selector=selector))
    assert leaving(world) == gone
    for name in gone:
        condition = world.condition(world.get("v1", "Pod", name), "DisruptionTarget")
        assert (condition["status"], condition["reason"]) == ("True", "DeletionByDeviceTaintManager")


@pytest.mark.parametrize("effect", ["None", "NoSchedule"])
def test_other_effects_evict_no_pods(effect: str) -> None:
    """devices.md 3.2"""
    world = World(NAMES)
    running(world, "a")
    world.create(rule(effect, selector={}))
    assert leaving(world) == []


TOLERATED: Json = {"key": "example.com/broken", "operator": "Exists", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("tolerations", "seconds"),
    [
        ([TOLERATED], None),
        ([{**TOLERATED, "tolerationSeconds": 60}], 60),
        ([{**TOLERATED, "tolerationSeconds": -5}], 0),
        ([{**TOLERATED, "tolerationSeconds": 60}, {**TOLERATED, "tolerationSeconds": 20}], 20),
        ([{"operator": "Exists"}], None),
        ([{**TOLERATED, "effect": "NoSchedule"}], 0),
        ([{**TOLERATED, "operator": "Equal", "value": "x"}], 0),
        ([], 0),
    ],
)
def test_tolerations_of_the_request_put_it_off(tolerations: list[Json], seconds: int | None) -> None:
    """devices.md 3.4"""
    world = World(NAMES)
    running(world, "a", tolerations=tolerations)
    world.create(rule(selector={}))
    if seconds is None:
        assert leaving(world.forward(100_000)) == []
        return
    assert leaving(world) == ([] if seconds else ["a"])
    if seconds:
        assert leaving(world.forward(seconds - 1)) == []
        assert leaving(world.forward(1)) == ["a"]


def test_time_runs_from_when_the_taint_was_added() -> None:
    """devices.md 3.3-3.4: a new effect begins a new time, another key does not."""
    world = World(NAMES)
    running(world, "a", tolerations=[{**TOLERATED, "tolerationSeconds": 60}])
    world.create(rule("NoSchedule", selector={}))
    first = world.get(GROUP, "DeviceTaintRule", "broken", "")["spec"]["taint"]["timeAdded"]
    world.forward(50)
    world.patch(GROUP, "DeviceTaintRule", "broken", {"spec": {"taint": {"value": "x"}}}, ns="")
    assert world.get(GROUP, "DeviceTaintRule", "broken", "")["spec"]["taint"]["timeAdded"] == first
    world.patch(GROUP, "DeviceTaintRule", "broken", {"spec": {"taint": {"effect": "NoExecute"}}}, ns="")
    found = world.get(GROUP, "DeviceTaintRule", "broken", "")
    assert found["spec"]["taint"]["timeAdded"] > first
    assert found["metadata"]["generation"] == 3
    assert leaving(world.forward(59)) == []
    assert leaving(world.forward(1)) == ["a"]


def test_time_that_is_given_is_kept() -> None:
    """devices.md 3.3"""
    world = World(NAMES)
    running(world, "a", tolerations=[{**TOLERATED, "tolerationSeconds": 60}])
    since = (world.set_clock.now() - timedelta(seconds=40)).strftime("%Y-%m-%dT%H:%M:%SZ")
    world.create(rule(selector={}, timeAdded=since))
    assert leaving(world.forward(19)) == []
    assert leaving(world.forward(1)) == ["a"]


def test_rule_deleted_in_time_evicts_no_pods() -> None:
    """devices.md 3.4"""
    world = World(NAMES)
    running(world, "a", tolerations=[{**TOLERATED, "tolerationSeconds": 60}])
    world.create(rule(selector={}))
    world.forward(30)
    world.delete(GROUP, "DeviceTaintRule", "broken", ns="")
    assert leaving(world.forward(100)) == []


def test_taints_of_drivers_evict_as_well() -> None:
    """devices.md 3.4: of the newest generation of a pool alone."""
    world = World(NAMES)
    running(world, "a")
    taint = {"key": "example.com/hot", "effect": "NoExecute"}
    world.create(slice_of({"name": "gpu-1", "taints": [taint]}, {"name": "gpu-0"}))
    assert leaving(world) == []
    world.create(slice_of({"name": "gpu-0", "taints": [taint]}, generation=0, name="old"))
    assert leaving(world) == []
    listed = [{"name": "gpu-1"}, {"name": "gpu-0", "taints": [taint]}]
    world.patch(GROUP, "ResourceSlice", "n1", {"spec": {"devices": listed}}, ns="")
    assert leaving(world) == ["a"]
    assert world.get(GROUP, "ResourceSlice", "n1", "")["spec"]["devices"][1]["taints"][0]["timeAdded"]


def test_pods_that_come_later_are_evicted_too() -> None:
    """devices.md 3.4"""
    world = World(NAMES)
    world.create(rule(selector={}))
    running(world, "late")
    assert leaving(world) == ["late"]


def test_status_says_how_far_it_is() -> None:
    """devices.md 3.5; the words are those of kube-controller-manager."""
    world = World(NAMES)
    world.create(rule(selector={}))
    assert told(world) == ("False", "NotStarted", "")
    running(world, "a", tolerations=[{**TOLERATED, "tolerationSeconds": 30}])
    world.forward(11)
    assert told(world) == ("True", "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace.")
    world.forward(60)
    assert leaving(world) == ["a"]
    assert told(world) == ("False", "Completed", "1 pod evicted since starting the controller.")


@pytest.mark.parametrize("tolerations", [None, [TOLERATED]])
def test_without_effect_the_status_says_what_it_would_do(tolerations: list[Json] | None) -> None:
    """devices.md 3.5: told once."""
    world = World(NAMES)
    world.create(slice_of({"name": "gpu-0"}, {"name": "gpu-1"}))
    running(world, "a", tolerations=tolerations)
    world.create(rule("None", selector={"driver": DRIVER}))
    would = (
        "0 pods would be evicted in 0 different namespaces" if tolerations else "1 pod would be evicted in 1 namespace"
    )
    assert told(world) == (
        "False",
        "NoEffect",
        f"2 published devices selected. 1 allocated device selected. {would} if the effect was NoExecute. "
        "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update.",
    )
    assert leaving(world) == []


def test_effect_that_evicts_no_pods_is_stated() -> None:
    """devices.md 3.5"""
    world = World(NAMES)
    world.create(rule("NoSchedule", selector={}))
    assert told(world) == ("False", "OtherEffect", "Eviction only happens for the NoExecute effect.")


def test_nothing_is_lost_when_it_is_killed() -> None:
    world = World(NAMES)
    running(world, "a", tolerations=[{**TOLERATED, "tolerationSeconds": 60}])
    world.create(rule(selector={}))
    world.forward(30)
    again = world.restarted(NAMES)
    assert leaving(again.forward(29)) == []
    assert leaving(again.forward(1)) == ["a"]
