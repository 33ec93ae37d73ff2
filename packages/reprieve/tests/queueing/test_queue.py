"""The scheduling queue: order, backoff, entities that block no others, and what is counted (scheduling.md 1)."""

from __future__ import annotations

import pytest

from kube_rules.meta import ObjectRef
from reprieve.framework.events import EventKind
from reprieve.queueing.entity import QueueState
from reprieve.queueing.timers import Timing
from reprieve.scheduling.decision import Result
from tests.building import START, World, gang, group, node, pod, profile_with, without_gates
from tests.queueing.waiting import FULL, pop_all, wake


def _order(world: World) -> list[str]:
    """Keys in the order in which entities leave the active queue."""
    keys = []
    while (entity := world.engine.queue.pop(world.now)) is not None:
        keys.append(entity.ref.rpartition("-")[2].rpartition("/")[2])
    return keys


# -- order -----------------------------------------------------------------------------------------------------------


def test_priority_then_arrival() -> None:
    """scheduling.md 1.1: "priority (a group has its own), highest first, and then by arrival"."""
    world = World(
        (pod("late", priority=5), START + 9),
        (pod("early", priority=5), START + 1),
        (pod("low", priority=1), START),
        (group("crew", min_count=1, priority=7), START + 20),
        (pod("m", priority=7, group="crew"), START + 20),
    )
    assert _order(world) == ["crew", "early", "late", "low"]


def test_group_queues_with_its_own_priority_not_its_pods() -> None:
    """scheduling.md 1.1: a group's own priority."""
    world = World(group("crew", min_count=1, priority=1), pod("m", priority=9, group="crew"), pod("single", priority=5))
    assert _order(world) == ["single", "crew"]


@pytest.mark.parametrize("reverse", [False, True])
def test_group_takes_the_turn_of_its_earliest_pod(reverse: bool) -> None:
    """Arrival of a group is that of its first pod, also when the API reports a later one first."""
    pods = [(pod("m-early", group="crew"), START + 1), (pod("m-late", group="crew"), START + 9)]
    world = World((group("crew"), START), *(pods[::-1] if reverse else pods), (pod("single"), START + 5))
    assert _order(world) == ["crew", "single"]


def test_group_that_comes_back_with_another_priority_takes_its_new_turn() -> None:
    """The old place in the heap does not count any more."""
    world = World(group("crew", priority=9), pod("m", group="crew", priority=1), pod("single", priority=5))
    world.engine.remove(ObjectRef("PodGroup", "default/crew"), world.now)
    world.add(group("crew", priority=1))
    assert _order(world) == ["single", "crew"]


@pytest.mark.parametrize(("priority", "order"), [(9, ["crew", "single"]), (1, ["single", "crew"])])
def test_ready_group_with_a_changed_priority_takes_its_new_turn(priority: int, order: list[str]) -> None:
    """scheduling.md 1: by its own priority as it is now, and neither twice nor never."""
    world = World(group("crew", priority=6), pod("m", group="crew", priority=6), pod("single", priority=5))
    world.add(group("crew", priority=priority))
    assert _order(world) == order


@pytest.mark.parametrize(("first", "order"), [(["b"], ["b", "a"]), (["b", "-b"], ["a", "b"]), (["a"], ["a", "b"])])
def test_ready_entity_takes_its_turn_when_it_is_put_first(first: list[str], order: list[str]) -> None:
    """repair.md 2.1: before all others of its priority, as long as that is so."""
    world = World(*gang("a", 1), *gang("b", 1))
    for name in first:
        world.engine.queue.put_first(f"group/default/{name.removeprefix('-')}", not name.startswith("-"))
    assert _order(world) == order


def test_pod_is_treated_by_the_profile_it_asks_for() -> None:
    """By its schedulerName, and by the first profile where there is none of that name."""
    profiles = {name: profile_with() for name in ("first", "second")}
    world = World(node("n"), profiles=profiles)
    queue = world.engine.queue
    for name, profile in {"first": "first", "second": "second", "other": "first"}.items():
        world.add(pod(name, scheduler=name))
        assert queue.add_pod(world.record(name), world.now).profile == profile


def test_pod_tried_again_keeps_its_timestamp() -> None:
    """scheduling.md 3.3: re-queued "with their old timestamp"."""
    world = World(*FULL, (pod("first", cpu=1), START), (pod("second", cpu=1), START + 1))
    world.drain()
    world.virtual.now += 20
    world.gone("r")
    assert world.settle().where == {"first": "n"}


# -- backoff and flush -----------------------------------------------------------------------------------------------


def test_backoff_doubles_up_to_the_maximum() -> None:
    """scheduling.md 1.2: "1 s, doubled with each attempt up to 10 s"."""
    world = World(*FULL, pod("p", cpu=1))
    waits = []
    for _ in range(6):
        world.drain()
        assert world.place("p") is QueueState.UNSCHEDULABLE
        wake(world)
        entity = world.entity("p")
        assert entity.state is QueueState.BACKOFF
        waits.append(entity.wake - world.now)
        world.virtual.now = entity.wake - 0.001
        world.engine.queue.tick(world.now)
        assert world.place("p") is QueueState.BACKOFF
        world.virtual.now = entity.wake
    assert waits == [1, 2, 4, 8, 10, 10]


def test_backoff_is_configurable() -> None:
    """podInitialBackoffSeconds and podMaxBackoffSeconds (scheduling.md 6)."""
    world = World(*FULL, pod("p", cpu=1), timing=Timing(initial_backoff=3, max_backoff=5))
    world.drain()
    wake(world)
    assert world.entity("p").wake == world.now + 3
    world.virtual.now += 3
    world.drain()
    wake(world)
    assert world.entity("p").wake == world.now + 5


def test_no_backoff_once_the_failure_is_long_past() -> None:
    """Backoff runs from the last attempt, not from the event."""
    world = World(*FULL, pod("p", cpu=1)).drain()
    world.virtual.now += 1
    wake(world)
    assert world.place("p") is QueueState.ACTIVE


def test_group_backs_off_as_one() -> None:
    """scheduling.md 1: "A pod group's backoff counts per group"; a new member does not jump it."""
    world = World(*FULL, *gang("crew", 2, cpu=1)).drain()
    assert world.entity("crew").attempts == 1
    world.add(pod("crew-9", group="crew", cpu=1))
    assert world.place("crew") is QueueState.BACKOFF
    assert world.entity("crew").wake == world.now + 1


def test_everything_is_tried_again_after_five_minutes() -> None:
    """scheduling.md 1.2: "stays there for 5 min is tried anyway"."""
    world = World(*FULL, pod("p", cpu=1)).drain()
    queue = world.engine.queue
    assert queue.next_wakeup(flush=False) is None
    assert queue.next_wakeup() == world.now + 300
    queue.tick(world.now + 299.9)
    assert world.place("p") is QueueState.UNSCHEDULABLE
    queue.tick(world.now + 300)
    assert world.place("p") is QueueState.ACTIVE


def test_plugin_error_is_retried_after_backoff() -> None:
    """scheduling.md 5: a raise ends that attempt with SchedulerError; no event is needed for the next one."""
    from tests.scheduling.plugins_for_tests import Fragile

    for items in ([pod("p")], gang("p", 2)):
        fragile = Fragile(failures=1)
        world = World(node("n"), *items, profiles={"default-scheduler": fragile.profile()})
        assert world.step().result is Result.ERROR
        assert world.place("p") is QueueState.BACKOFF
        world.settle()
        assert not world.pending


# -- starvation ------------------------------------------------------------------------------------------------------


def test_large_gang_that_does_not_fit_blocks_no_others() -> None:
    """scheduling.md 1.6: "an unschedulable large gang must not block smaller entities behind it"."""
    world = World(node("n", cpu=4), *gang("big", 9, cpu=1, priority=9), *[pod(f"s{i}", cpu=1) for i in range(4)])
    world.settle()
    assert sorted(world.where) == ["s0", "s1", "s2", "s3"]
    assert world.place("big") is QueueState.UNSCHEDULABLE


def test_stream_of_small_pods_does_not_keep_a_gang_from_its_cycle() -> None:
    """scheduling.md 1.6: "a stream of small pods must not keep a gang that fits from its cycle"."""
    world = World(node("n", cpu=4), *gang("crew", 4, cpu=1))
    for index in range(50):
        world.add(pod(f"small-{index}", cpu=1))
    decision = world.step()
    assert decision.ref == "group/default/crew"
    assert decision.result is Result.SCHEDULED


def test_gang_in_the_middle_of_a_stream_gets_its_turn() -> None:
    """By arrival: those that came before go first, those after go later."""
    world = World(node("n", cpu=40), *[pod(f"a{i}", cpu=1) for i in range(3)], *gang("crew", 4, cpu=1))
    world.add(*[pod(f"z{i}", cpu=1) for i in range(3)])
    keys = [world.step().ref for _ in range(7)]
    assert keys.index("group/default/crew") == 3


# -- counting --------------------------------------------------------------------------------------------------------


def test_counts_by_place() -> None:
    """scheduling.md 1.2: what the metric scheduler_pending_entities{queue} reads."""
    world = World(*FULL, pod("gated", gates=["g"]), pod("waits", cpu=1)).drain()
    world.add(pod("ready", cpu=1))
    counts = world.engine.queue.counts()
    assert (counts[QueueState.GATED], counts[QueueState.UNSCHEDULABLE], counts[QueueState.ACTIVE]) == (1, 1, 1)
    assert counts[QueueState.BACKOFF] == 0
    assert world.engine.queue.has_active


def test_pods_of_other_schedulers_are_not_queued() -> None:
    """Their room counts, they do not."""
    world = World(node("n"), pod("theirs", scheduler="other"), pod("mine")).settle()
    assert world.where == {"mine": "n"}
    assert len(world.engine.queue) == 0


# -- one call at a time ----------------------------------------------------------------------------------------------


def test_next_wakeup_is_of_those_that_are_asked_about() -> None:
    """scheduling.md 1: the first of the backoffs; an entity held back for another reason needs no wakeup."""
    world = World(node("n", cpu=1), pod("a"), pod("b"))
    queue = world.engine.queue
    first, second = pop_all(world)
    second.attempts = 2  # a backoff of two seconds
    for entity in (first, second):
        queue.retry_later(entity, world.now)
    for ignoring, seconds in [((), 1), ((first.ref,), 2), ((second.ref,), 1), ((first.ref, second.ref), None)]:
        expected = None if seconds is None else world.now + seconds
        assert queue.next_wakeup(flush=False, ignoring=ignoring) == expected, ignoring
    world.gone("a")
    assert queue.next_wakeup(flush=False) == world.now + 2
    assert queue.next_wakeup(flush=False, ignoring=("pod/other",)) == world.now + 2


@pytest.mark.parametrize(("priority", "woken"), [(4, True), (5, False), (6, False)])
def test_pod_of_higher_priority_is_tried_when_units_change(priority: int, woken: bool) -> None:
    """preemption.md 2.1: those of an equal priority cannot be evicted, so it helps no pod of that priority."""
    world = World(*FULL, pod("p", cpu=1, priority=5)).drain()
    world.engine.queue.retry_above(priority, world.now)
    assert world.place("p") is (QueueState.BACKOFF if woken else QueueState.UNSCHEDULABLE)


def test_pod_that_failed_to_bind_backs_off_as_often_as_it_was_tried() -> None:
    """scheduling.md 1: 1 s, doubled per attempt; it was tried just now."""
    world = World(node("n"))
    record, queue = world.add(pod("p")).record("p"), world.engine.queue
    for attempts, wait in [(3, 4), (1, 4)]:  # what is known already is not forgotten
        (entity,) = pop_all(world)
        entity.attempts -= 1  # as if it had not been tried beside
        queue.requeue(entity, world.now, {"NodeResourcesFit"})
        entity = queue.add_pod(record, world.now, attempts=attempts)
        assert entity.state is QueueState.BACKOFF
        assert entity.wake == world.now + wait
        world.virtual.now += wait


def test_pods_are_counted_by_where_they_come_and_why() -> None:
    """`scheduler_queue_incoming_pods_total`: each pod of a group; one in its cycle came nowhere."""
    world = World(node("n", cpu=9), *gang("crew", 3, cpu=1), pod("single", cpu=1, gates=["g"]))
    queue = world.engine.queue
    queue.incoming.clear()
    (entity,) = pop_all(world)
    assert queue.incoming == {}
    queue.requeue(entity, world.now, {"NodeResourcesFit"})
    assert queue.incoming == {(QueueState.UNSCHEDULABLE, "schedule_attempt_failure"): 3}
    queue.incoming.clear()
    world.change_pod("single", without_gates)
    assert queue.incoming == {(QueueState.ACTIVE, "pod_updated"): 1}
    (entity,) = pop_all(world)
    queue.incoming.clear()
    queue.requeue(entity, world.now, {"NodeResourcesFit"})
    queue.add_pod(world.record("single"), world.now, attempts=2)
    assert queue.incoming == {
        (QueueState.UNSCHEDULABLE, "schedule_attempt_failure"): 1,
        (QueueState.BACKOFF, "schedule_attempt_failure"): 1,
    }
    queue.incoming.clear()
    queue.tick(world.now + 10)
    world.add(pod("new", cpu=1))
    assert queue.incoming == {
        (QueueState.ACTIVE, "backoff_complete"): 1,
        (QueueState.ACTIVE, EventKind.POD_ADDED): 1,
    }
    for entity in pop_all(world):
        queue.requeue(entity, world.now, {"NodeResourcesFit"})
    queue.wake_at(world.entity("new"), world.now + 20)
    queue.incoming.clear()
    queue.tick(world.now + 20)
    queue.tick(world.now + 310)
    assert queue.incoming == {(QueueState.ACTIVE, "wait_over"): 1, (QueueState.ACTIVE, EventKind.FLUSH): 4}


def test_entity_may_be_tried_now() -> None:
    """Places of deleted entities, or of one in its cycle, count for nothing."""
    world = World(node("n"), pod("a"), pod("b"))
    queue = world.engine.queue
    world.gone("a")
    assert queue.has_active
    (entity,) = pop_all(world)
    assert not queue.has_active
    queue.requeue(entity, world.now, {"NodeResourcesFit"})
    world.add(pod("c")).gone("c")
    assert not queue.has_active
