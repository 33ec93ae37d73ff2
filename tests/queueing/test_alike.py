"""Waiting pods that are alike, where nobody reads why they wait: one of them is tried for all (scheduling.md 1.7)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from reprieve.api import objects
from reprieve.queueing.entity import QueueState
from reprieve.queueing.queue import Timing
from tests.building import World, group, node, pod

AT_ONCE = Timing(initial_backoff=0.0, max_backoff=0.0)


def _waiting(count: int = 3) -> World:
    """Pods that are alike before a node which somebody else fills."""
    items = [pod(f"p{turn}", cpu=1) for turn in range(count)]
    full = [node("n", cpu=1), pod("r", cpu=1, node="n", priority=100)]
    world = World(*full, *items, timing=AT_ONCE, current_reasons=False).drain()
    assert {world.place(f"p{turn}") for turn in range(count)} == {QueueState.UNSCHEDULABLE}
    return world


def _larger(item: objects.Pod) -> objects.Pod:
    return replace(item, spec=pod(item.metadata.name, cpu=2).spec)


def test_an_event_wakes_the_first_alone() -> None:
    world = _waiting().gone("r")
    assert [world.place(f"p{turn}") for turn in range(3)] == [QueueState.ACTIVE, *[QueueState.UNSCHEDULABLE] * 2]
    world.drain()
    assert world.where == {"p0": "n"}
    for turn in range(2):
        world.gone(f"p{turn}").drain()
        assert world.where == {f"p{turn + 1}": "n"}


@pytest.mark.parametrize(
    "happens",
    [lambda world: world.gone("p0"), lambda world: world.change_pod("p0", _larger)],
    ids=["it is deleted", "it is another kind now"],
)
def test_when_the_one_that_was_woken_is_not_tried_for_them_the_next_is(happens: Callable[[World], object]) -> None:
    """No wake-up is lost: what helped the first would have helped the others."""
    world = _waiting().gone("r")
    happens(world)
    world.drain()
    assert world.where == {"p1": "n"}


def test_who_waits_again_and_again_is_remembered_once() -> None:
    """What is kept is bounded by who waits, however often they are tried in vain."""
    world = _waiting()
    queue = world.engine.queue
    assert queue._alike is not None
    for _ in range(50):
        for turn in range(3):
            queue.wake(f"pod/uid-p{turn}", world.now)
            assert world.place(f"p{turn}") is QueueState.ACTIVE
        world.drain()
    assert {world.place(f"p{turn}") for turn in range(3)} == {QueueState.UNSCHEDULABLE}
    assert [len(heap) for heap in queue._alike._heaps.values()] == [3]


@pytest.mark.parametrize("how", ["retry_later", "requeue_now", "rejected and gated", "placed", "rejected"])
def test_however_the_attempt_of_the_first_ends_the_next_is_tried_unless_it_was_rejected(how: str) -> None:
    """A plain rejection holds for all of them; anything else says nothing of the others."""
    world = _waiting().gone("r")
    queue = world.engine.queue
    first = queue.pop(world.now)
    assert first is not None
    assert queue.pop(world.now) is None
    if how == "placed":
        queue.done(first, list(first.ready.values()))
    elif how == "rejected":
        queue.requeue(first, world.now, {"NodeResourcesFit"})
    elif how == "rejected and gated":
        queue.block(first, "its preemption is under way")
        queue.requeue(first, world.now, {"NodeResourcesFit"})
    else:
        getattr(queue, how)(first, world.now)
    tried = [world.place(f"p{turn}") for turn in (1, 2)]
    expected = QueueState.UNSCHEDULABLE if how == "rejected" else QueueState.ACTIVE
    assert tried == [expected, QueueState.UNSCHEDULABLE]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ({}, {}, True),
        ({"priority": 1}, {}, False),
        ({"cpu": 2}, {}, False),
        ({"never": True}, {}, False),
        ({"group": "crew"}, {"group": "crew"}, None),
    ],
)
def test_who_is_alike(one: dict[str, object], other: dict[str, object], alike: bool | None) -> None:
    """The same signature, priority and preemption policy; a group is like nobody."""
    full = [node("n", cpu=1), pod("r", cpu=1, node="n", priority=100), group("crew", min_count=1)]
    pods = [pod(name, **{"cpu": 1, **wants}) for name, wants in (("a", one), ("b", other))]  # type: ignore[arg-type]
    queue = World(*full, *pods, timing=AT_ONCE, current_reasons=False).drain().engine.queue
    assert queue._alike is not None
    kinds = [queue._alike.kind(entity) for entity in queue.entities()]
    if alike is None:
        assert kinds == [None]
    else:
        assert None not in kinds
        assert (kinds[0] == kinds[1]) is alike
