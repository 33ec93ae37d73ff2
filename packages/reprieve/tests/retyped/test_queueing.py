"""The order of gangs, basic groups and single pods, and what keeps them back: cases of kube-scheduler, written again.

Source: kubernetes/kubernetes, test/integration/scheduler/podgroup (queueing/queueing_test.go,
queueing/interleaving_test.go, podgroup_affinity_test.go, batch/podgroup_batch_test.go).  Not here: pods that arrive in
the middle of a cycle, which is one step here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules import objects
from reprieve.framework.instructions import Instruction
from reprieve.framework.plugin import CycleState, PreBindPlugin
from tests.building import World, composite, group, node, pod, toleration
from tests.retyped.tables import row
from tests.retyped.test_group_preemption import HOST, apart
from tests.retyped.test_topology import pods

ON = {"TopologyAwareWorkloadScheduling": True, "CompositePodGroup": True}
GATES = [ON, {**ON, "CompositePodGroup": False}, dict.fromkeys(ON, False)]


def gang(least: int | None, name: str = "pg1", priority: int = 0) -> objects.PodGroup:
    """A gang; without `least` a basic group."""
    return group(name, min_count=least, priority=priority)


def members(names: str, cpu: int = 2, **fields: Any) -> list[Any]:
    """Pods of the group `pg1`."""
    return row(names, group="pg1", cpu=cpu, **fields)


SMALL, LARGE = node("n1", cpu=2), node("n2", cpu=6)


@pytest.mark.parametrize("least", [2, None], ids=["gang", "basic"])
def test_later_members_wait_with_the_others_and_follow(least: int | None) -> None:
    world = World(SMALL, gang(least), *members("p1 p2")).settle()
    first = {"p1"} if least is None else set()
    assert world.where.keys() == first
    world.add(*members("p3")).settle()
    assert world.where.keys() == first
    world.add(LARGE).settle()
    assert world.where.keys() == {"p1", "p2", "p3"}
    world.add(*members("p4")).settle()
    assert world.where.keys() == {"p1", "p2", "p3", "p4"}


@pytest.mark.parametrize("first", [True, False], ids=["from the start", "later"])
@pytest.mark.parametrize("least", [3, None], ids=["gang", "basic"])
def test_member_with_a_gate(least: int | None, first: bool) -> None:
    """No member of its group is tried, whatever the policy (scheduling.md 1)."""
    gated = members("p3", gates=["foo"])
    world = World(SMALL, LARGE, gang(least), *(gated if first else ()), *members("p1 p2"))
    world.add(gated if not first else []).settle()
    assert world.where == {}
    world.change_pod("p3", free).settle()
    assert world.where.keys() == {"p1", "p2", "p3"}


def free(item: objects.Pod) -> objects.Pod:
    """The pod without gates."""
    return replace(item, spec=replace(item.spec, scheduling_gates=()))


class FailsOnce(PreBindPlugin):
    """Raises when it is asked about `p1` for the first time."""

    name = "FailsOnce"

    def __init__(self) -> None:
        self.failed = False

    def pre_bind(self, state: CycleState, row: int) -> Sequence[Instruction]:
        """See `PreBindPlugin.pre_bind`."""
        if state.pod.name == "p1" and not self.failed:
            self.failed = True
            raise RuntimeError("no connection")
        return ()


@pytest.mark.parametrize("least", [1, 2, None], ids=["gang of one", "gang", "basic"])
@pytest.mark.parametrize("size", [1, 2])
def test_member_that_could_not_be_bound_is_tried_again(least: int | None, size: int) -> None:
    names = [f"p{n + 1}" for n in range(max(size, least or 1))]
    plugin = FailsOnce()
    world = World(SMALL, LARGE, gang(least), *members(" ".join(names)), plugins=[plugin]).settle()
    assert plugin.failed
    assert sorted(world.where) == names


@pytest.mark.parametrize("least", [1, None], ids=["gang", "basic"])
def test_member_that_could_not_be_bound_beside_one_that_waits(least: int | None) -> None:
    plugin = FailsOnce()
    world = World(SMALL, *members("p1"), *members("p2", cpu=4), plugins=[plugin]).settle()
    assert world.pending == ["p1", "p2"]
    world.add(gang(least)).settle()
    assert (sorted(world.where), world.pending) == (["p1"], ["p2"])
    world.add(LARGE).settle()
    assert sorted(world.where) == ["p1", "p2"]


FOUR = node("n1", cpu=4)
LOW = [gang(3, "low", 10), *row("l1 l2 l3", group="low", priority=10)]
HIGH = [gang(3, "high", 100), *row("h1 h2 h3", group="high", priority=100)]
EQUAL = [gang(3, "g", 10), *row("g1 g2 g3", group="g", priority=10)]
Gates = dict[str, bool]


@pytest.mark.parametrize("gates", GATES, ids=["trees", "domains", "flat"])
class TestGroupsAndSinglePods:
    """What is placed of pods and groups that are in the queue together."""

    @pytest.mark.parametrize(
        ("there", "placed", "waits"),
        [
            ([FOUR, *LOW, *row("s1", cpu=2, priority=100)], "s1", "l1 l2 l3"),
            ([FOUR, *row("s1 s2", priority=10), *HIGH], "h1 h2 h3 s1", "s2"),
            ([FOUR, *row("s1", cpu=2, priority=10), *EQUAL], "s1", "g1 g2 g3"),
            ([FOUR, *EQUAL, *row("s1 s2", priority=10)], "g1 g2 g3 s1", "s2"),
            ([node("n1", cpu=2), *EQUAL, *row("s1", priority=10)], "s1", "g1 g2 g3"),
            ([node("n1", cpu=3), *row("s1", cpu=4, priority=100), *LOW], "l1 l2 l3", "s1"),
        ],
        ids=["priority", "gang's priority", "older pod", "older gang", "gang too large", "pod too large"],
    )
    def test_order(self, gates: Gates, there: list[Any], placed: str, waits: str) -> None:
        world = World(*there, gates=gates).settle()
        assert (sorted(world.where), world.pending) == (sorted(placed.split()), waits.split())

    @pytest.mark.parametrize(
        ("priority", "cpu", "placed", "evicted"),
        [
            (10, 2, "s1", []),
            (10, 1, "g1 g2 g3 s1", []),
            (100, 2, "g1 g2 g3", ["s1"]),
            (100, 1, "g1 g2 g3 s1", []),
        ],
    )
    def test_gang_without_a_quorum_is_passed(
        self, gates: Gates, priority: int, cpu: int, placed: str, evicted: list[str]
    ) -> None:
        world = World(FOUR, gang(3, "g", priority), *row("g1 g2", group="g", priority=priority), gates=gates).settle()
        world.add(*row("s1", cpu=cpu, priority=10)).settle()
        assert sorted(world.where) == ["s1"]
        world.add(*row("g3", group="g", priority=priority)).settle()
        assert (sorted(world.where), world.evicted) == (placed.split(), evicted)

    def test_basic_group_between_two_pods(self, gates: Gates) -> None:
        middle = [gang(None, "b", 10), *row("b1 b2 b3", group="b", cpu=2, priority=10)]
        world = World(FOUR, *row("s1", priority=10), *middle, *row("s2", priority=10), gates=gates).settle()
        assert {"s1", "s2"} < world.where.keys()
        assert (len(world.where), len(world.pending)) == (3, 2)

    def test_gated_pod_does_not_stop_a_gang(self, gates: Gates) -> None:
        gated = row("s1", cpu=2, priority=100, gates=["g"])
        world = World(node("n1", cpu=2), *gated, gang(2, "g", 100), *row("g1 g2", group="g", priority=100), gates=gates)
        assert sorted(world.settle().where) == ["g1", "g2"]
        world.change_pod("s1", free).settle()
        assert (sorted(world.where), world.pending) == (["g1", "g2"], ["s1"])


@pytest.mark.parametrize("hosts", [1, 2])
@pytest.mark.parametrize("gates", [ON, dict.fromkeys(ON, False)], ids=["trees", "flat"])
def test_member_sees_the_anti_affinity_of_one_placed_before_it(hosts: int, gates: Gates) -> None:
    nodes = [node(f"n{n + 1}", cpu=2, labels={HOST: f"n{n + 1}"}) for n in range(hosts)]
    shy = apart(pod("shy", cpu=1, group="pg1", labels={"app": "foo"}, selector={HOST: "n1"}))
    plain = pod("plain", cpu=1, group="pg1", labels={"app": "foo"})
    world = World(*nodes, gang(2), shy, plain, gates=gates).settle()
    assert world.where == ({"shy": "n1", "plain": "n2"} if hosts == 2 else {})
    assert hosts == 2 or world.condition("pg1")[:2] == (False, "Unschedulable")


THREE = [node(f"n{n}", cpu=4) for n in range(3)]


@pytest.mark.parametrize("plain", [False, True], ids=["shared", "plain"])
def test_members_of_two_kinds_in_turn(plain: bool) -> None:
    turn = [*members("p1", 3), *members("p2", 4), *members("p3", 3)]
    assert len(World(*THREE, gang(3), *turn, plain=plain).settle().where) == 3


@pytest.mark.parametrize("plain", [False, True], ids=["shared", "plain"])
def test_member_that_becomes_like_another(plain: bool) -> None:
    there = [node(f"n{n}", cpu=4, taints=[("dedicated", "one", "NoSchedule")]) for n in range(3)]
    allowed = (toleration("dedicated", "Equal", "one", "NoSchedule"),)
    first = [*members("p1", 3, tolerations=allowed), *members("p2", 4, tolerations=allowed)]
    world = World(*there, gang(3), *first, *members("p3", 3, gates=["gate"]), plain=plain).settle()
    assert world.pending == ["p1", "p2", "p3"]
    world.change_pod("p3", lambda p: replace(p, spec=replace(p.spec, scheduling_gates=(), tolerations=allowed)))
    assert len(world.settle().where) == 3


@pytest.mark.parametrize("plain", [False, True], ids=["shared", "plain"])
def test_members_of_two_kinds_in_turn_in_a_tree(plain: bool) -> None:
    groups = [composite("root", min_groups=2), *(group(f"pg{n}", min_count=3, parent="root") for n in (1, 2))]
    turn = [one for n, cpu in enumerate((3, 4, 3, 4, 3, 4)) for one in pods(f"p{n}", f"pg{1 + n // 3}", cpu=cpu)]
    there = [node(f"n{n}", cpu=4) for n in range(6)]
    turn = [replace(one, spec=replace(one.spec, priority=0)) for one in turn]
    assert len(World(*there, *groups, *turn, plain=plain, gates=ON).settle().where) == 6
