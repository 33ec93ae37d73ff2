"""Node lifecycle and taint eviction (upstream: pkg/controller/nodelifecycle, pkg/controller/tainteviction)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kube_standin.controllers.taints import tolerated_until, tolerates
from kube_standin.controllers.views import TaintView
from tests.admission.plane import pod
from tests.controllers.world import Json, World

NODES = ("node-lifecycle", "taint-eviction")
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


def taints(world: World, name: str = "node-1") -> set[tuple[str, str]]:
    spec = world.settle().get("v1", "Node", name, "")["spec"]
    return {(one["key"], one["effect"]) for one in spec.get("taints") or ()}


def silence(world: World, word: str | None = "down") -> None:
    """Let the kubelet of node-1 fall silent, or speak again."""
    world.patch("v1", "Node", "node-1", {"metadata": {"annotations": {"reprieve.dev/kubelet": word}}}, ns="")


def node(name: str, **conditions: str) -> Json:
    listed = [{"type": kind, "status": value} for kind, value in conditions.items()]
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"conditions": listed}}


def test_new_node_is_freed_once_it_is_ready() -> None:
    world = World(NODES, nodes=1)
    assert taints(world) == set()
    assert world.condition(world.get("v1", "Node", "node-1", ""), "Ready")["status"] == "True"


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({"Ready": "True"}, set()),
        ({"Ready": "False"}, {(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")}),
        ({"Ready": "Unknown"}, {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}),
        ({"Ready": "True", "MemoryPressure": "True"}, {("node.kubernetes.io/memory-pressure", "NoSchedule")}),
        ({"Ready": "True", "DiskPressure": "True"}, {("node.kubernetes.io/disk-pressure", "NoSchedule")}),
        ({"Ready": "True", "PIDPressure": "True"}, {("node.kubernetes.io/pid-pressure", "NoSchedule")}),
        ({"Ready": "True", "NetworkUnavailable": "True"}, {("node.kubernetes.io/network-unavailable", "NoSchedule")}),
        ({}, set()),  # a node without conditions and without a lease counts as ready
    ],
)
def test_conditions_become_taints(conditions: dict[str, str], expected: set[tuple[str, str]]) -> None:
    world = World(NODES)
    world.create(node("n", **conditions))
    assert taints(world, "n") == expected


def test_cordon_becomes_a_taint_and_others_stay() -> None:
    world = World(NODES)
    made = node("n", Ready="True")
    made["spec"] = {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    world.create(made)
    world.patch("v1", "Node", "n", {"spec": {"unschedulable": True}}, ns="")
    assert taints(world, "n") == {("gpu", "NoSchedule"), ("node.kubernetes.io/unschedulable", "NoSchedule")}
    world.patch("v1", "Node", "n", {"spec": {"unschedulable": None}}, ns="")
    assert taints(world, "n") == {("gpu", "NoSchedule")}


def test_silence_makes_a_node_unreachable_and_its_pods_unready() -> None:
    world = World(NODES, nodes=1)
    world.create(pod("p"))
    world.bind("p", "node-1")
    world.forward(5)
    silence(world)
    world.forward(40)
    assert taints(world) == set()
    world.forward(15)
    found = world.condition(world.get("v1", "Node", "node-1", ""), "Ready")
    assert (found["status"], found["reason"], found["message"]) == (
        "Unknown",
        "NodeStatusUnknown",
        "Kubelet stopped posting node status.",
    )
    assert taints(world) == {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}
    assert world.condition(world.get("v1", "Pod", "p"), "Ready")["status"] == "False"
    silence(world, None)
    world.forward(5)
    assert taints(world) == set()
    assert world.condition(world.get("v1", "Pod", "p"), "Ready")["status"] == "True"


def test_pods_leave_an_unreachable_node_after_300_seconds() -> None:
    world = World((*NODES, "pod-garbage-collector"), nodes=1)
    world.create(pod("p"))
    world.create(pod("stays", tolerations=[{"operator": "Exists"}]))
    for name in ("p", "stays"):
        world.bind(name, "node-1")
    world.forward(5)
    silence(world)
    # The last renewal was at 0 s, so the node is unreachable at the first check after 50 s, which is at 55 s.
    world.forward(349)
    found = world.get("v1", "Pod", "p")
    assert "deletionTimestamp" not in found["metadata"]
    world.forward(1)
    found = world.get("v1", "Pod", "p")
    assert found["metadata"]["deletionTimestamp"]
    assert world.condition(found, "DisruptionTarget")["reason"] == "DeletionByTaintManager"
    world.forward(100)
    assert world.names() == ["p", "stays"]  # no kubelet ends it; the node has to come back or be deleted
    world.delete("v1", "Node", "node-1", ns="")
    world.forward(45)
    assert world.names() == []


def test_silence_while_the_server_was_down_does_not_count() -> None:
    world = World(NODES, nodes=1)
    world.forward(5)
    world.set_clock.forward(3600)
    again = World(NODES, store=world.store, clock=world.set_clock)
    again.forward(40)
    assert taints(again) == set()
    again.forward(20)
    assert (UNREACHABLE, "NoExecute") in taints(again)


def taint(world: World, key: str = "k", **more: str) -> None:
    world.patch("v1", "Node", "node-1", {"spec": {"taints": [{"key": key, "effect": "NoExecute", **more}]}}, ns="")


@pytest.mark.parametrize(
    ("tolerations", "gone_after"),
    [
        ([], 0),
        ([{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}], 60),
        (
            [
                {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 90},
                {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},
            ],
            30,
        ),
        ([{"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute"}], None),
        ([{"key": "k", "operator": "Equal", "value": "other", "effect": "NoExecute"}], 0),
    ],
)
def test_taint_eviction(tolerations: list[Json], gone_after: int | None) -> None:
    world = World(("taint-eviction",), nodes=1)
    world.create(pod("p", tolerations=tolerations))
    world.bind("p", "node-1")
    world.forward(1)
    taint(world, value="v")
    if gone_after is None:
        world.forward(1000)
        assert world.names() == ["p"]
        return
    if gone_after:
        world.forward(gone_after - 2)
        assert world.names() == ["p"]
    world.forward(3)
    assert world.names() == []


@pytest.mark.parametrize(("seconds", "after"), [(60, 60), (0, 0), (-5, 0), (2**63 - 1, None), (-(2**63), 0)])
def test_every_int64_is_a_number_of_seconds(seconds: int, after: int | None) -> None:
    since = datetime(2026, 1, 1, tzinfo=UTC)
    assert tolerated_until(since, seconds) == (None if after is None else since + timedelta(seconds=after))


def test_taint_taken_back_in_time_spares_the_pod() -> None:
    world = World(("taint-eviction",), nodes=1)
    wait = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
    world.create(pod("p", tolerations=[wait]))
    world.bind("p", "node-1")
    taint(world)
    world.forward(50)
    world.patch("v1", "Node", "node-1", {"spec": {"taints": None}}, ns="")
    world.forward(100)
    assert world.names() == ["p"]


def test_pod_bound_to_a_tainted_node_goes() -> None:
    world = World(("taint-eviction",), nodes=1)
    taint(world)
    world.create(pod("p"))
    world.bind("p", "node-1")
    world.forward(2)
    assert world.names() == []


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "value": "w"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "k", "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"operator": "Equal", "value": "v"}, False),
        ({"key": "k", "operator": "Gt", "value": "1"}, False),
        ({"key": "k", "operator": "Almost", "value": "v"}, False),
    ],
)
def test_tolerates(toleration: Json, expected: bool) -> None:
    assert tolerates(toleration, TaintView("k", "NoExecute", "v")) is expected
