"""What may not be tried yet: pods behind their gates, gangs that wait for members or their object (scheduling.md 1)."""

from __future__ import annotations

from typing import Any

import pytest

from reprieve.queueing.entity import QueueState
from tests.building import World, check_queue, gang, group, node, pod, without_gates
from tests.queueing.waiting import FULL, pop_all, wake


def test_a_gated_pod_waits_until_its_gates_are_off() -> None:
    """scheduling.md 1: gated by schedulingGates."""
    world = World(node("n"), pod("p", gates=["g"])).drain()
    assert world.place("p") is QueueState.GATED
    assert world.entity("p").gate.reason == "Scheduling is blocked due to non-empty scheduling gates"
    world.change_pod("p", without_gates)
    assert world.settle().where == {"p": "n"}


def test_a_gang_with_too_few_ready_pods_waits_for_its_gated_ones() -> None:
    """A member behind a gate exists, but cannot be placed: below minCount the gang is not tried."""
    world = World(node("n"), group("crew", min_count=2), pod("a", group="crew"), pod("b", group="crew", gates=["g"]))
    world.drain()
    assert world.place("crew") is QueueState.GATED
    assert world.entity("crew").gate.reason == "Scheduling is blocked due to non-empty scheduling gates"
    world.change_pod("b", without_gates)
    assert sorted(world.settle().where) == ["a", "b"]


def test_a_gang_above_its_minimum_goes_without_its_gated_pod() -> None:
    """The minimum is what must be placed together; the gated member follows later."""
    world = World(
        node("n"), group("crew", min_count=1), pod("a", group="crew"), pod("b", group="crew", gates=["g"])
    ).settle()
    assert world.where == {"a": "n"}
    assert world.place("b") is QueueState.GATED
    world.change_pod("b", without_gates)
    assert sorted(world.settle().where) == ["a", "b"]


def test_reasons_of_waiting_gangs() -> None:
    """observability.md: the waiting reasons of gated gangs."""
    world = World(node("n"), pod("a", group="crew"), pod("b", group="team"), group("team", min_count=2)).drain()
    assert world.entity("crew").gate.reason == 'waiting for pods\'s pod group "crew" to appear in scheduling queue'
    assert world.entity("team").gate.reason == "waiting for minCount pods from a gang to appear in scheduling queue"


@pytest.mark.parametrize("first", ["object", "pods"])
def test_a_gang_starts_whatever_comes_first(first: str) -> None:
    """The object after its pods, or before; bound members count too."""
    parts: list[Any] = [group("crew", min_count=2), pod("a", group="crew"), pod("b", group="crew", node="n")]
    world = World(node("n")).add(*(parts if first == "object" else parts[::-1]))
    assert sorted(world.settle().where) == ["a", "b"]


def test_a_bound_member_that_appears_later_opens_the_gate() -> None:
    """minCount counts pods in existence, however they come."""
    world = World(node("n"), group("crew", min_count=2), pod("a", group="crew")).drain()
    assert world.place("crew") is QueueState.GATED
    world.add(pod("b", group="crew", node="n"))
    assert world.place("crew") is QueueState.ACTIVE


@pytest.mark.parametrize("how", ["gone", "terminating"])
@pytest.mark.parametrize("which", ["pending", "running"])
def test_a_gang_that_loses_a_member_waits_for_another(how: str, which: str) -> None:
    """scheduling.md 3.8: pods deleted: below minCount it is gated again, wherever it was."""
    there = {"node": "n"} if which == "running" else {}
    world = World(*FULL, group("crew", min_count=3), pod("a", group="crew", cpu=1), pod("b", group="crew", cpu=1))
    world.add(pod("c", group="crew", **there)).drain()  # type: ignore[arg-type]
    assert world.place("crew") is QueueState.UNSCHEDULABLE
    uid = world.record("c").uid
    if how == "gone":
        world.engine.pod_gone(uid, world.now)
    else:
        world.engine.pod_terminating(uid, world.now)
    assert world.place("crew") is QueueState.GATED
    world.add(pod("d", group="crew"))
    assert world.place("crew") is not QueueState.GATED
    check_queue(world.engine)


def test_minimum_raised_and_lowered() -> None:
    """scheduling.md 3.8: minCount is mutable."""
    world = World(node("n", cpu=2), group("crew", min_count=2), *[pod(f"m{i}", group="crew", cpu=1) for i in range(3)])
    world.add(group("crew", min_count=4))
    assert world.place("crew") is QueueState.GATED
    world.add(group("crew", min_count=3))
    assert world.place("crew") is QueueState.ACTIVE
    world.drain()
    assert world.place("crew") is QueueState.UNSCHEDULABLE
    assert world.where == {}
    world.add(group("crew", min_count=2))
    assert len(world.settle().where) == 2


@pytest.mark.parametrize("wakes", [False, True])
def test_a_minimum_that_is_raised_helps_nobody_unless_more_is_new(wakes: bool) -> None:
    """scheduling.md 1: with a priority above that of who is in the way it may preempt."""
    world = World(*FULL, *gang("crew", 1, cpu=1), pod("m", group="crew", cpu=1)).drain()
    assert world.place("crew") is QueueState.UNSCHEDULABLE
    world.add(group("crew", min_count=2, priority=200 if wakes else 0))
    assert world.place("crew") is (QueueState.BACKOFF if wakes else QueueState.UNSCHEDULABLE)


def test_object_deleted_and_recreated() -> None:
    """scheduling.md 3.8: without its object the gang waits; the new object is what counts."""
    world = World(*FULL, *gang("crew", 2, cpu=1)).drain()
    world.engine.remove_group("default/crew", world.now)
    assert world.place("crew") is QueueState.GATED
    assert "to appear" in world.entity("crew").gate.reason
    world.add(group("crew", min_count=1, uid="another")).gone("r")
    assert len(world.settle().where) == 1


def test_nothing_is_left_of_deleted_pods() -> None:
    """scheduling.md 3.8: nothing leaks: no entity, no group state, in whatever place it was."""
    for place, items in {
        QueueState.UNSCHEDULABLE: [*FULL, *gang("crew", 2, cpu=1)],
        QueueState.GATED: [*FULL, *gang("crew", 2, cpu=1, gates=["g"])],
        QueueState.ACTIVE: None,
        QueueState.BACKOFF: [*FULL, *gang("crew", 2, cpu=1)],
    }.items():
        world = World(*(items or [*FULL, *gang("crew", 2, cpu=1)]))
        if items is not None:
            world.drain()
        if place is QueueState.BACKOFF:
            wake(world)
        assert world.place("crew") is place
        world.gone("crew-0").gone("crew-1")
        world.engine.remove_group("default/crew", world.now)
        queue = world.engine.queue
        assert (len(queue), world.engine.cluster.groups) == (0, {})
        assert queue.pop(world.now + 1000) is None
        assert queue.next_wakeup() is None


@pytest.mark.parametrize("how", ["requeue", "requeue_now", "retry_later"])
def test_a_gang_that_lost_its_object_in_its_cycle_is_gated_however_the_cycle_ends(how: str) -> None:
    """scheduling.md 1: a group waits for its object, whatever its attempt came to."""
    world = World(*FULL, *gang("crew", 2, cpu=1))
    queue = world.engine.queue
    (entity,) = pop_all(world)
    world.engine.remove_group("default/crew", world.now)
    assert queue.counts()[QueueState.IN_CYCLE] == 1
    if how == "requeue":
        queue.requeue(entity, world.now, {"GangScheduling"})
    else:
        getattr(queue, how)(entity, world.now)
    assert entity.state is QueueState.GATED
    assert "to appear" in entity.gate.reason
    check_queue(world.engine)
