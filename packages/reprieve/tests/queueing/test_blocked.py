"""A preemptor with running calls is not tried, and misses nothing meanwhile (preemption.md 7)."""

from __future__ import annotations

import pytest

from kube_rules.meta import ObjectRef
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.queueing.entity import QueueState
from reprieve.scheduling.decision import Result
from tests.building import World, gang, node, pod
from tests.queueing.waiting import blocked_preemptor


def test_preemptor_stays_gated_while_its_calls_run() -> None:
    """preemption.md 7.3: until the calls are done the preemptor is gated; no event may lose it."""
    world = blocked_preemptor()
    assert world.place("p") is QueueState.GATED
    world.gone("r")
    assert world.place("p") is QueueState.GATED
    world.engine.finish_preemption(world.entity("p").ref, world.now)
    assert world.place("p") is QueueState.BACKOFF
    assert world.settle().where == {"p": "n"}


@pytest.mark.parametrize("blocked", [False, True])
def test_pod_is_not_tried_while_its_calls_run(blocked: bool) -> None:
    """scheduling.md 3.3 and preemption.md 7.3: without backoff, unless it is gated by its own preemption."""
    world = World(node("n", cpu=1), pod("p", cpu=1))
    queue = world.engine.queue
    entity = queue.pop(world.now)
    assert entity is not None
    entity.block_reason = "waiting" if blocked else None
    queue.requeue_now(entity, world.now)
    assert entity.state is (QueueState.GATED if blocked else QueueState.ACTIVE)
    assert entity.attempts == 0


def test_without_an_event_it_waits_on_after_the_calls() -> None:
    """Unblocked, it is woken by its victims' going."""
    world = blocked_preemptor()
    world.engine.finish_preemption(world.entity("p").ref, world.now)
    assert world.place("p") is QueueState.UNSCHEDULABLE
    world.gone("r")
    assert world.settle().where == {"p": "n"}


def test_failed_call_lets_it_try_at_once() -> None:
    """preemption.md 7.5: "the preemptor is activated again at once"."""
    world = blocked_preemptor()
    reverted = world.engine.fail_preemption(world.entity("p").ref, world.now).unnominated_pods
    assert [p.name for p in reverted] == ["p"]
    assert world.place("p") is QueueState.ACTIVE
    assert world.nominated == {}


def test_calls_that_fail_again_and_again_are_made_after_the_backoff() -> None:
    """preemption.md 7.5: a victim with a deletion that is always refused is not tried as fast as refusals come."""
    world = blocked_preemptor()
    engine, now, key = world.engine, world.now, world.entity("p").ref
    engine.fail_preemption(key, now)
    assert engine.step(now).decision is not None  # at once, the first time
    for backoff in (2.0, 4.0, 8.0, 10.0):
        engine.fail_preemption(key, now)
        assert world.place("p") is QueueState.BACKOFF
        assert engine.step(now + backoff - 0.1).decision is None
        now += backoff
        decision = engine.step(now).decision
        assert decision is not None
        assert decision.preemption is not None
    engine.finish_preemption(key, now)
    world.gone("r")
    assert engine.step(now + 10.0).decision is not None
    assert world.where == {"p": "n"}


def test_calls_that_went_well_end_the_row_of_failures() -> None:
    """preemption.md 7.5: the next failure is the first again."""
    world = blocked_preemptor()
    key = world.entity("p").ref
    world.engine.fail_preemption(key, world.now)
    assert world.engine.step(world.now).decision is not None
    world.engine.finish_preemption(key, world.now)
    assert world.entity("p").failed_preemptions == 0


def test_preemptor_that_is_deleted_while_blocked_leaves_nothing() -> None:
    """Neither the deletion nor the end of the calls finds anything afterwards."""
    world = blocked_preemptor()
    key = world.entity("p").ref
    world.gone("p")
    world.engine.finish_preemption(key, world.now)
    world.engine.fail_preemption(key, world.now)
    assert len(world.engine.queue) == 0
    assert not world.engine.cluster.nodes.nominated


def test_calls_that_end_twice_change_nothing() -> None:
    """Only what is blocked can be unblocked."""
    world = blocked_preemptor()
    key = world.entity("p").ref
    world.engine.finish_preemption(key, world.now)
    place = world.place("p")
    world.engine.finish_preemption(key, world.now)
    world.engine.queue.unblock("pod/unknown", world.now, retry=True)
    assert world.place("p") is place


@pytest.mark.parametrize("retry", [False, True])
@pytest.mark.parametrize("missed", [False, True])
def test_events_during_calls_are_replayed(missed: bool, retry: bool) -> None:
    """preemption.md 7.3: nothing that happened meanwhile is lost, and nothing is kept of it afterwards."""
    world = blocked_preemptor()
    queue, entity = world.engine.queue, world.entity("p")
    if missed:
        queue.on_event(ClusterEvent(EventKind.POD_GONE, row=world.row("n")), world.now)
    assert len(entity.events) == missed
    queue.unblock(entity.ref, world.now, retry=retry)
    expected = QueueState.BACKOFF if missed else QueueState.UNSCHEDULABLE
    assert entity.state is (QueueState.ACTIVE if retry else expected)
    queue.on_event(ClusterEvent(EventKind.NODE_REMOVED, row=0), world.now)
    assert queue.kept_events() == {}
    if retry:  # what it missed has been taken into account by the attempt that it makes at once
        assert queue.pop(world.now) is entity
        queue.requeue(entity, world.now, {"NodeResourcesFit"})
        assert entity.state is QueueState.UNSCHEDULABLE


@pytest.mark.parametrize("failed", [False, True])
def test_gang_that_lost_its_object_meanwhile_stays_gated_when_the_calls_are_done(failed: bool) -> None:
    """scheduling.md 3.8: however the calls ended, what happened to the group counts at its next cycle."""
    world = World(node("n", cpu=2), pod("low", cpu=2, node="n"), *gang("crew", 2, cpu=1, priority=5))
    assert world.step().result is Result.WAITING
    world.engine.remove(ObjectRef("PodGroup", "default/crew"), world.now)
    key = "group/default/crew"
    if failed:
        world.engine.fail_preemption(key, world.now)
    else:
        world.engine.finish_preemption(key, world.now)
    assert world.place("crew") is QueueState.GATED
    assert "to appear" in world.entity("crew").gate.reason
    assert world.gone("low").settle().where == {}
