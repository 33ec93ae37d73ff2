"""Deferred resizes: the cases of kube-scheduler's own tests, written again.

Source: kubernetes/kubernetes, test/integration/scheduler/preemption/deferred_resize_preemption_test.go and
pkg/scheduler/framework/plugins/deferredpodscheduling.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules import objects
from reprieve.framework.gates import FeatureGates
from tests.building import START, World, node, pod

PENDING = objects.PodCondition(type="PodResizePending", status="True", reason="Deferred")
DISABLED = objects.PodCondition(type="PodResizePreemptionDisabled", status="True")
GATE = "in_place_pod_vertical_scaling_scheduler_preemption"


def deferred(
    *conditions: objects.PodCondition, want: str = "300m", have: str = "100m", priority: int = 100, **fields: Any
) -> objects.Pod:
    """The running pod `web` with what it has and wants, by default with a deferred resize."""
    item = pod("web", cpu=want, memory=100, node="n1", priority=priority, **fields)
    amounts: dict[str, str | int | float] = {"cpu": have, "memory": 100}
    status = objects.ContainerStatus(
        name="main", allocated_resources=amounts, resources=objects.ResourceRequirements(requests=amounts)
    )
    return replace(item, status=replace(item.status, container_statuses=(status,), conditions=conditions or (PENDING,)))


def guarded(item: objects.Node, *owners: str) -> objects.Node:
    """The node with owners that forbid evictions for resizes."""
    policy = objects.NodePodPreemptionPolicy(disable_resize_preemption=owners)
    return replace(item, spec=replace(item.spec, pod_preemption_policy=policy))


def small(cpu: str = "300m", name: str = "n1") -> objects.Node:
    """A node with the amounts of the source."""
    return node(name, cpu=cpu, memory=300)


def queued(world: World) -> bool:
    """Whether the resize is an entity of the queue."""
    return world.engine.queue.get("pod/uid-web") is not None


def victim(name: str, cpu: str, memory: int) -> objects.Pod:
    """A pod of low priority on the node."""
    return pod(name, cpu=cpu, memory=memory, node="n1", priority=1, grace=30)


@pytest.mark.parametrize(
    ("there", "fields", "owners", "evicted"),
    [
        ([victim("v1", "200m", 100)], {}, (), ["v1"]),
        ([victim("v1", "100m", 50), victim("v2", "100m", 50)], {}, (), ["v1", "v2"]),
        ([victim("v1", "200m", 100)], {"never": True}, (), []),
        ([], {}, (), []),
        ([victim("v1", "200m", 100)], {}, ("test-operator",), []),
    ],
    ids=["one victim", "two victims", "a policy of Never", "it fits", "the policy of the node"],
)
def test_deferred_resize(there: list[objects.Pod], fields: Any, owners: tuple[str, ...], evicted: list[str]) -> None:
    """resizes.md 2.2, 2.3, 3.1, 3.3, 4.1: no nomination and no condition of the pod that is resized."""
    world = World(guarded(small(), *owners), *there, deferred(**fields)).drain()
    assert (world.evicted, world.nominated, world.virtual.rejections) == (evicted, {}, {})
    assert world.where["web"] == "n1"
    assert queued(world) is bool(there), "one that fits leaves the queue until another pod on its node grows"


def shrunk(world: World, name: str) -> None:
    """Another pod asks for less, and has it."""

    def change(item: objects.Pod) -> objects.Pod:
        (main,) = item.spec.containers
        less = replace(main, resources=objects.ResourceRequirements(requests={"cpu": "100m"}))
        return replace(item, spec=replace(item.spec, containers=(less,)))

    world.change_pod(name, change)


def labelled(world: World) -> None:
    """Another pod on the node has another label."""
    world.change_pod("other", lambda item: replace(item, metadata=replace(item.metadata, labels={"new": "true"})))


def wants(world: World, amount: str) -> None:
    """The pod itself asks for another amount."""
    world.engine.set(deferred(want=amount, have="50m", priority=1), world.now)


EVENTS: dict[str, tuple[Callable[[World], object], bool]] = {
    "a pod elsewhere asks for less": (lambda world: shrunk(world, "elsewhere"), False),
    "a pod on the node asks for less": (lambda world: shrunk(world, "other"), True),
    "a pod elsewhere is gone": (lambda world: world.gone("elsewhere"), False),
    "a pod on the node is gone": (lambda world: world.gone("other"), True),
    "a label changes": (labelled, False),
    "the node has more": (lambda world: world.add(small("1")), True),
    "the pod itself asks for less": (lambda world: wants(world, "80m"), True),
    "its node forbids evictions": (lambda world: world.add(guarded(small("200m"), "x")), False),
    "another node forbids evictions": (lambda world: world.add(guarded(small("500m", "n2"), "x")), False),
}


def waiting(*owners: str) -> World:
    """A resize that waits, and a pod on another node."""
    return World(
        guarded(small("200m"), *owners),
        small("500m", "n2"),
        pod("other", cpu="200m", node="n1", priority=100),
        pod("elsewhere", cpu="200m", node="n2", priority=100),
        deferred(want="100m", have="50m", priority=1),
    ).drain()


@pytest.mark.parametrize(("event", "woken"), EVENTS.values(), ids=EVENTS)
def test_events_that_wake_a_resize(event: Callable[[World], object], woken: bool) -> None:
    """resizes.md 1.5, 1.6."""
    world = waiting()
    attempts = len(world.engine.decisions)
    assert queued(world)
    event(world)
    world.virtual.until(START + 30)
    assert (len(world.engine.decisions) > attempts) is woken


def test_node_that_allows_evictions_again_wakes_it() -> None:
    """resizes.md 2.3."""
    world = waiting("test-policy")
    attempts = len(world.engine.decisions)
    world.add(small("200m"))
    world.virtual.until(START + 30)
    assert len(world.engine.decisions) > attempts


def test_node_that_is_added_wakes_it_unless_it_forbids_evictions() -> None:
    """resizes.md 2.3: the pod is known before its node."""
    for owners, evicted in (((), ["v1"]), (("x",), [])):
        world = World(victim("v1", "200m", 100), deferred()).drain()
        world.add(guarded(small(), *owners)).drain()
        world.virtual.until(START + 30)
        assert world.evicted == evicted


@pytest.mark.parametrize("gate", [True, False], ids=["gate on", "gate off"])
@pytest.mark.parametrize(
    ("conditions", "expected"),
    [((PENDING,), True), ((replace(PENDING, reason="Infeasible"),), False), ((PENDING, DISABLED), False)],
    ids=["deferred", "infeasible", "evictions are disabled"],
)
def test_which_resizes_are_queued_at_the_start(
    conditions: tuple[objects.PodCondition, ...], expected: bool, gate: bool
) -> None:
    """resizes.md 1.1, 1.3, 1.7, 1.8."""
    world = World(small("200m"), deferred(*conditions, want="100m"), gates=FeatureGates(**{GATE: gate}))
    assert queued(world) is (expected and gate)


def test_resize_is_queued_and_removed_as_its_conditions_change() -> None:
    """resizes.md 1.3, 1.4, 1.8: also when evictions are disabled and enabled again, and when the pod is deleted."""
    plain = objects.PodCondition(type="PodScheduled", status="True")
    world = World(small("200m"), deferred(plain, want="100m"))
    assert not queued(world)
    for conditions, expected in (
        ((plain, PENDING), True),
        ((plain, PENDING, DISABLED), False),
        ((plain, PENDING, replace(DISABLED, status="False")), True),
        ((plain,), False),
        ((plain, PENDING), True),
    ):
        world.engine.set(deferred(*conditions, want="100m"), world.now)
        assert queued(world) is expected, conditions
    world.gone("web")
    assert not queued(world)
    assert "web" not in world.where


def test_pods_that_evict_for_a_place_do_not_care_about_the_policy() -> None:
    """resizes.md 2.3: the list of owners has no effect on pending pods."""
    world = World(guarded(small(), "x"), victim("v1", "200m", 100), pod("new", cpu="300m", priority=100)).settle()
    assert (world.evicted, world.where) == (["v1"], {"new": "n1"})
