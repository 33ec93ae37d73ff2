"""Waiting pods that are alike, without a reader of their reasons: one of them is tried for all (scheduling.md 1.7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules import objects
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.queueing.entity import QueueState
from reprieve.queueing.shared_attempts import SharedAttempts
from reprieve.queueing.timers import Timing
from tests.building import World, group, node, pod, profile_with
from tests.plugins.devices import claim as device_claim
from tests.plugins.devices import device_class, devices, slice_of, user
from tests.plugins.storage import claim, volume
from tests.plugins.storage import pod as volume_user
from tests.queueing.waiting import pop_all

AT_ONCE = Timing(initial_backoff=0.0, max_backoff=0.0)


def _waiting(count: int = 3) -> World:
    """Pods that are alike before a node which another pod fills."""
    items = [pod(f"p{turn}", cpu=1) for turn in range(count)]
    full = [node("n", cpu=1), pod("r", cpu=1, node="n", priority=100)]
    world = World(*full, *items, timing=AT_ONCE, current_reasons=False).drain()
    assert {world.place(f"p{turn}") for turn in range(count)} == {QueueState.UNSCHEDULABLE}
    return world


def _larger(item: objects.Pod) -> objects.Pod:
    return replace(item, spec=pod(item.metadata.name, cpu=2).spec)


def _gated(item: objects.Pod) -> objects.Pod:
    return replace(item, spec=pod(item.metadata.name, cpu=1, gates=["x"]).spec)


def test_event_wakes_the_first_alone() -> None:
    world = _waiting().gone("r")
    assert [world.place(f"p{turn}") for turn in range(3)] == [QueueState.ACTIVE, *[QueueState.UNSCHEDULABLE] * 2]
    world.drain()
    assert world.where == {"p0": "n"}
    for turn in range(2):
        world.gone(f"p{turn}").drain()
        assert world.where == {f"p{turn + 1}": "n"}


@pytest.mark.parametrize(
    "happens",
    [
        lambda world: world.gone("p0"),
        lambda world: world.change_pod("p0", _larger),
        lambda world: world.change_pod("p0", _gated),
    ],
    ids=["it is deleted", "it is another kind now", "it is gated"],
)
def test_when_the_one_that_was_woken_is_not_tried_for_them_the_next_is(happens: Callable[[World], object]) -> None:
    """No wake-up is lost: what helped the first would have helped the others."""
    world = _waiting().gone("r")
    happens(world)
    world.drain()
    assert world.where == {"p1": "n"}


def test_pending_pod_is_remembered_once() -> None:
    """What is kept is bounded by the pending pods, however often they are tried without success."""
    world = _waiting()
    queue = world.engine.queue
    assert isinstance(queue._sharing, SharedAttempts)
    for _ in range(50):
        for turn in range(3):
            queue.wake(f"pod/uid-p{turn}", world.now)
            assert world.place(f"p{turn}") is QueueState.ACTIVE
        world.drain()
    assert {world.place(f"p{turn}") for turn in range(3)} == {QueueState.UNSCHEDULABLE}
    assert [len(heap) for heap in queue._sharing.alike._heaps.values()] == [3]


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


_DEVICES = [device_class(), slice_of("n", devices(2)), device_claim()]
_VOLUMES = [claim("c", volume="v", bound=True), volume("v")]


@pytest.mark.parametrize(
    ("more", "a", "b", "woken"),
    [
        ([], pod("a", cpu=1), pod("b", cpu=1), ["a"]),
        ([], pod("a", cpu=1, priority=1), pod("b", cpu=1), ["a", "b"]),
        ([], pod("a", cpu=1), pod("b", cpu=2), ["a", "b"]),
        ([], pod("a", cpu=1, never=True), pod("b", cpu=1), ["a", "b"]),
        ([], pod("a", cpu=1), pod("b", cpu=1, scheduler="second"), ["a", "b"]),
        ([group("crew", min_count=1)], pod("a", cpu=1, group="crew"), pod("b", cpu=1), ["a", "b"]),
        ([], *[pod(name, cpu=1, never=True, nominated="n") for name in "ab"], ["a", "b"]),
        (_DEVICES, *[user(name, "c") for name in "ab"], ["a", "b"]),
        (_VOLUMES, *[volume_user(name, "c", cpu=1) for name in "ab"], ["a", "b"]),
    ],
    ids=["the same", "priority", "requests", "policy", "profile", "group", "nominations", "devices", "volumes"],
)
def test_alike_entities_wake_one_and_others_each(
    more: list[Any], a: objects.Pod, b: objects.Pod, woken: list[str]
) -> None:
    """The same profile, signature, priority and policy, nothing of its own that decides where it can go; no group."""
    full = [node("n", cpu=2), pod("r", cpu=2, node="n", priority=100)]
    profiles = {name: profile_with() for name in ("default-scheduler", "second")}
    world = World(*full, *more, a, b, timing=AT_ONCE, current_reasons=False, profiles=profiles).drain()
    assert {world.place(name) for name in "ab"} == {QueueState.UNSCHEDULABLE}
    world.gone("r")
    assert [name for name in "ab" if world.place(name) is QueueState.ACTIVE] == woken


def test_changed_pod_takes_no_wake_up_of_similar_pods() -> None:
    """No wake-up is lost: the first of a kind has a nomination now and is woken by itself, and so is the next."""
    full = [node("n", cpu=1), pod("r", cpu=1, node="n", priority=100)]
    waiting = [pod(name, cpu=1, never=True) for name in ("a", "b", "c")]
    world = World(*full, *waiting, timing=AT_ONCE, current_reasons=False).drain()
    world.change_pod("a", lambda item: replace(item, status=replace(item.status, nominated_node_name="n")))
    world.engine.queue.wake("pod/uid-a", world.now)
    world.drain()
    assert world.nominated == {"a": "n"}
    world.gone("r")
    assert [name for name in "abc" if world.place(name) is QueueState.ACTIVE] == ["a", "b"]


def test_pending_pod_keeps_its_turn_among_similar_pods() -> None:
    """Another pod was woken while the first was tried; the next event is the first one's again."""
    world = _waiting()
    queue = world.engine.queue
    gone = ClusterEvent(EventKind.POD_GONE, row=world.row("n"))
    world.engine.cluster.displace(world.record("r"))
    queue.wake("pod/uid-p0", world.now)
    (first,) = pop_all(world)
    queue.on_event(gone, world.now)
    assert [world.place(f"p{turn}") is QueueState.ACTIVE for turn in range(3)] == [False, True, False]
    (second,) = pop_all(world)
    first.events.clear()
    for entity in (first, second):
        queue.requeue(entity, world.now, {"NodeResourcesFit"})
    queue.on_event(gone, world.now)
    assert [world.place(f"p{turn}") is QueueState.ACTIVE for turn in range(3)] == [True, False, False]


def test_nothing_is_kept_of_a_kind_without_pending_pods() -> None:
    """What is kept is bounded by the pending pods: the next event finds deleted ones."""
    world = _waiting().add(pod("other", cpu="500m")).drain()
    for turn in range(3):
        world.gone(f"p{turn}")
    world.engine.queue.on_event(ClusterEvent(EventKind.POD_GONE, row=world.row("n")), world.now)
    sharing = world.engine.queue._sharing
    assert isinstance(sharing, SharedAttempts)
    alike = sharing.alike
    assert list(alike._entered) == list(alike._kind_of) == ["pod/uid-other"]
    kinds = {alike.kind_of("pod/uid-other")}
    assert set(alike._heaps) == set(alike._plugins) == kinds
    assert all(set(of_plugin) <= kinds for of_plugin in alike._by_plugin.values())
