"""Many that cannot be placed: only those are tried that something may help (scheduling.md 1, cost.md 6)."""

from __future__ import annotations

from typing import Any

from reprieve.queueing.entity import QueueState
from tests.building import World, check_queue, gang, node, pod
from tests.queueing.waiting import FULL


def _crowd(gangs: int = 20, **wants: Any) -> World:
    """A node full of pods that no pod here can preempt, and gangs of four that need all of it; all have been tried."""
    running = [pod(f"r{i}", cpu=1, node="n", priority=100) for i in range(4)]
    waiting = [item for i in range(gangs) for item in gang(f"crew{i:02d}", 4, cpu=1, **wants)]
    world = World(node("n", cpu=4), *running, *waiting).drain()
    world.virtual.now += 60
    return world


def test_gangs_that_cannot_be_placed_are_not_tried_when_a_pod_ends() -> None:
    """One of four places is free: no gang of four can have it, and none is tried; the last place starts one at once."""
    world = _crowd()
    tried = world.engine.attempts
    for name in ("r0", "r1", "r2"):
        world.gone(name).drain()
    assert world.engine.attempts == tried
    world.gone("r3")
    assert world.step().bindings
    assert set(world.where) == {f"crew00-{i}" for i in range(4)}


def test_few_are_tried_whenever_something_may_help() -> None:
    """Up to 32 pods: their conditions stay up to date, as with kube-scheduler."""
    world = _crowd(gangs=8)
    tried = world.engine.attempts
    world.gone("r0").drain()
    assert world.engine.attempts == tried + 8


def test_pod_not_tried_waits_for_capacity() -> None:
    """Rejected by node affinity alone; the matching node is full when it comes: a pod that leaves it lets a gang in."""
    world = World(node("n", cpu=4), pod("x", cpu=4, node="m", priority=100))
    world.add(*[item for i in range(20) for item in gang(f"crew{i:02d}", 4, cpu=1, selector={"zone": "a"})]).drain()
    assert world.entity("crew00").rejected_by == {"NodeAffinity", "GangScheduling"}
    world.virtual.now += 60
    tried = world.engine.attempts
    world.add(node("m", cpu=4, labels={"zone": "a"})).drain()
    assert world.engine.attempts == tried
    world.gone("x").drain()
    assert set(world.where) == {f"crew00-{i}" for i in range(4)}


def test_new_member_of_a_gang_that_cannot_be_placed_is_rejected_too() -> None:
    """An event of the gang's own is not passed over, though it cannot be placed."""
    world = _crowd()
    tried = world.engine.attempts
    world.add(pod("crew00-9", group="crew00", cpu=1)).drain()
    assert world.engine.attempts == tried + 1
    assert world.rejection("crew00-9")[0] == "Unschedulable"


def test_pod_pending_too_long_is_tried_in_turn() -> None:
    """After five minutes one a second: their conditions are brought up to date without stopping the loop."""
    world = _crowd()
    queue, start = world.engine.queue, world.now - 60 + 300
    woken = []
    for second in range(25):
        world.virtual.now = start + second
        assert queue.next_wakeup() is not None
        assert queue.next_wakeup() <= start + max(second, 1)  # type: ignore[operator]
        entity = queue.pop(world.now)
        if entity is not None:
            woken.append(entity.ref[-6:])
            assert queue.pop(world.now) is None
            queue.requeue(entity, world.now, {"NodeResourcesFit"})
        check_queue(world.engine)
        if second == 19:
            assert queue.next_wakeup() == start + 300
            break
    assert woken == [f"crew{i:02d}" for i in range(20)]


def test_pod_that_fits_is_not_delayed_by_the_turn() -> None:
    """Room that came without an event (a test's device): after five minutes a pod that fits is tried at once."""
    world = _crowd()
    for name in ("r0", "r1", "r2", "r3"):
        world.engine.cluster.remove_pod(world.record(name))
    world.engine.queue.tick(world.now + 300)
    assert {world.place(f"crew{i:02d}") for i in range(20)} == {QueueState.ACTIVE}


def test_deferred_pod_is_remembered_once() -> None:
    """cost.md 6.2: it is tried at the time that was set last; times of earlier attempts are not piled up."""
    world = World(*FULL, pod("p", cpu=1)).drain()
    queue, entity = world.engine.queue, world.entity("p")
    for turn in range(100):
        queue.wake_at(entity, world.now + 200 - turn)
    assert len(queue._alarms.entries) <= 4
    assert queue.next_wakeup(flush=False) == world.now + 101
    queue.tick(world.now + 100)
    assert world.place("p") is QueueState.UNSCHEDULABLE
    queue.tick(world.now + 101)
    assert world.place("p") is not QueueState.UNSCHEDULABLE
