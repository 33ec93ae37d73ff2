"""Devices tainted by rule, as the scheduler sees them (docs/rules/devices.md 3)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.meta import ObjectRef
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.framework.gates import FeatureGates
from reprieve.plugins.dynamic_resources import DynamicResources
from tests.building import World, group, node
from tests.plugins.devices import (
    DRIVER,
    Json,
    allocated,
    claim,
    device,
    device_class,
    devices,
    got,
    request,
    slice_of,
    taint_rule,
    template,
    user,
    why,
)

TOLERATE: Json = {"key": "sick", "operator": "Exists"}


def world_of(*items: Any, **options: Any) -> World:
    return World(node("n1", cpu=8), device_class(), slice_of("n1", devices(2)), *items, **options).settle()


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        ({}, []),
        ({"driver": DRIVER}, []),
        ({"driver": "x.example.com"}, ["n1/gpu-0"]),
        ({"pool": "n1"}, []),
        ({"pool": "n2"}, ["n1/gpu-0"]),
        ({"device": "gpu-0"}, ["n1/gpu-1"]),
        ({"driver": DRIVER, "pool": "n1", "device": "gpu-1"}, ["n1/gpu-0"]),
        ({"driver": DRIVER, "pool": "n1", "device": "x"}, ["n1/gpu-0"]),
    ],
)
@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
@pytest.mark.parametrize("first", [True, False])
def test_rule_taints_what_it_selects(selector: dict[str, str], chosen: list[str], effect: str, first: bool) -> None:
    """devices.md 3.1-3.2; whether the rule or the slice comes first."""
    rule, pod = taint_rule(effect, **selector), user("p", "c")
    items = (
        [rule, device_class(), slice_of("n1", devices(2))]
        if first
        else [device_class(), slice_of("n1", devices(2)), rule]
    )
    world = World(node("n1", cpu=8), *items, claim(), pod).settle()
    assert got(world) == chosen
    assert ("p" in world.where) == bool(chosen)


def test_without_a_selector_nothing_is_tainted() -> None:
    """devices.md 3.1"""
    rule = taint_rule()
    assert got(world_of(replace(rule, spec=replace(rule.spec, device_selector=None)), claim(), user("p", "c")))


@pytest.mark.parametrize("effect", ["None", "Later"])
def test_effect_of_no_effect(effect: str) -> None:
    """devices.md 3.2: what is not known counts as None."""
    assert got(world_of(taint_rule(effect), claim(), user("p", "c"))) == ["n1/gpu-0"]


@pytest.mark.parametrize(
    ("toleration", "chosen"),
    [
        (TOLERATE, ["n1/gpu-0"]),
        ({"operator": "Exists"}, ["n1/gpu-0"]),
        ({**TOLERATE, "effect": "NoExecute", "tolerationSeconds": 5}, ["n1/gpu-0"]),
        ({**TOLERATE, "effect": "NoSchedule"}, []),
        ({"key": "other", "operator": "Exists"}, []),
    ],
)
def test_requests_tolerate_taints_of_rules(toleration: Json, chosen: list[str]) -> None:
    """devices.md 3.2"""
    wanted = claim("c", request(tolerations=[toleration]))
    assert got(world_of(taint_rule("NoExecute"), wanted, user("p", "c"))) == chosen


def test_taints_of_rules_and_drivers_add_up() -> None:
    """devices.md 3.1"""
    stated = device("gpu-0", taints=[{"key": "odd", "effect": "NoSchedule"}])
    for tolerations, chosen in (([TOLERATE], []), ([TOLERATE, {"key": "odd", "operator": "Exists"}], ["n1/gpu-0"])):
        world = World(node("n1", cpu=8), device_class(), slice_of("n1", [stated]), taint_rule())
        world.add(claim("c", request(tolerations=tolerations)), user("p", "c")).settle()
        assert got(world) == chosen


@pytest.mark.parametrize("helps", ["gone", "another device", "another effect"])
def test_pending_pod_is_woken(helps: str) -> None:
    """devices.md 3.6"""
    world = world_of(taint_rule(device="gpu-0"), taint_rule(name="other", device="gpu-1"), claim(), user("p", "c"))
    assert world.where == {}
    if helps == "gone":
        world.engine.remove(ObjectRef("DeviceTaintRule", "rule"), world.now)
    elif helps == "another device":
        world.add(taint_rule(device="gpu-7"))
    else:
        world.add(taint_rule("None", device="gpu-0"))
    assert world.settle().where == {"p": "n1"}
    assert got(world) == ["n1/gpu-0"]


@pytest.mark.parametrize(
    ("before", "after", "wakes"),
    [
        (None, taint_rule(), False),
        (taint_rule(), taint_rule(), False),
        (taint_rule("None"), None, False),
        (taint_rule("None"), taint_rule(), False),
        (taint_rule(), None, True),
        (taint_rule("NoExecute"), taint_rule("NoSchedule"), True),
        (taint_rule(), taint_rule(key="other"), True),
        (taint_rule(device="a"), taint_rule(device="b"), True),
    ],
)
def test_which_change_of_a_rule_may_help(before: Any, after: Any, wakes: bool) -> None:
    """devices.md 3.6"""
    world = world_of(claim(), user("p", "c"))
    kind = EventKind.DEVICE_TAINT_RULE_CHANGED
    hint = DynamicResources().events()[kind]
    assert hint(world.engine.cluster, world.record("p"), ClusterEvent(kind, item=after, before=before)) is wakes


def test_allocation_with_an_evicting_taint_takes_no_new_pod() -> None:
    """devices.md 3.7: a pod that shares the claim already is evicted, no other comes; the claim is allocated again."""
    status = allocated((DRIVER, "n1", "gpu-0"), to=["uid-old"])
    shared = [claim("c", status=status), user("old", "c", node="n1")]
    world = world_of(*shared, taint_rule("NoExecute", device="gpu-0"), user("p", "c"))
    assert world.where == {"old": "n1"}
    world.engine.remove(ObjectRef("Pod", uid="uid-old"), world.now)
    left = msgspec.structs.replace(claim("c"), status=objects.ResourceClaim().status)
    world.add(left).settle()
    assert world.where == {"p": "n1"}
    assert got(world) == ["n1/gpu-1"]


@pytest.mark.parametrize(("tolerations", "placed"), [([TOLERATE], True), ([], False)])
def test_allocation_that_tolerates_it_takes_more(tolerations: list[Json], placed: bool) -> None:
    """devices.md 3.7"""
    status = allocated((DRIVER, "n1", "gpu-0"), to=["uid-old"], tolerations=tolerations)
    world = world_of(claim("c", status=status), user("old", "c", node="n1"), taint_rule("NoExecute"), user("p", "c"))
    assert ("p" in world.where) is placed


def test_devices_that_are_not_published_any_more_are_tainted_by_rules_alone() -> None:
    """devices.md 3.7"""
    world = world_of(
        claim("c", status=allocated((DRIVER, "n1", "lost"), to=["uid-old"])),
        user("old", "c", node="n1"),
        user("p", "c"),
    )
    assert "p" in world.where
    world = world_of(
        claim("c", status=allocated((DRIVER, "n1", "lost"), to=["uid-old"])),
        user("old", "c", node="n1"),
        taint_rule("NoExecute", device="lost"),
        user("p", "c"),
    )
    assert "p" not in world.where


def test_gang_gets_devices_without_taints_or_none() -> None:
    """scheduling.md 3.1"""
    world = World(node("n1", cpu=8), device_class(), slice_of("n1", devices(3)), template(), group("g", min_count=2))
    world.add(taint_rule(device="gpu-0"), taint_rule(name="other", device="gpu-1"))
    world.add(user("g-0", templates=["t"], group="g"), user("g-1", templates=["t"], group="g")).settle()
    assert world.where == {}
    world.engine.remove(ObjectRef("DeviceTaintRule", "other"), world.now)
    assert set(world.settle().where) == {"g-0", "g-1"}


def test_gate_is_on() -> None:
    """devices.md 3.8"""
    assert FeatureGates().dra_device_taint_rules
    off = FeatureGates.parse("DRADeviceTaintRules=false")
    assert not off.dra_device_taint_rules
    assert got(world_of(taint_rule(), claim(), user("p", "c"), gates=off)) == ["n1/gpu-0"]


def test_message_states_why_the_claim_waits() -> None:
    assert "cannot allocate all claims" in why(world_of(taint_rule(), claim(), user("p", "c")))
