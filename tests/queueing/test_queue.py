"""The scheduling queue (scheduling.md 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from reprieve.api import objects
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.queueing.entity import QueueState
from reprieve.queueing.queue import Timing
from reprieve.scheduling.decision import Result
from tests.building import START, World, check_queue, gang, group, node, pod, toleration, without_gates

FULL = [node("n", cpu=1), pod("r", cpu=1, node="n", priority=100)]
"""A node that is full with something nobody here can preempt."""


def _order(world: World) -> list[str]:
    """Keys in the order in which entities leave the active queue."""
    keys = []
    while (entity := world.engine.queue.pop(world.now)) is not None:
        keys.append(entity.key.rpartition("-")[2].rpartition("/")[2])
    return keys


# -- order ---------------------------------------------------------------------------------------------------------


def test_priority_then_arrival() -> None:
    """scheduling.md 1: "priority (a group's own) desc, then arrival"."""
    world = World(
        (pod("late", priority=5), START + 9),
        (pod("early", priority=5), START + 1),
        (pod("low", priority=1), START),
        (group("crew", min_count=1, priority=7), START + 20),
        (pod("m", priority=7, group="crew"), START + 20),
    )
    assert _order(world) == ["crew", "early", "late", "low"]


def test_a_group_queues_with_its_own_priority_not_its_pods() -> None:
    """scheduling.md 1: a group's own priority."""
    world = World(group("crew", min_count=1, priority=1), pod("m", priority=9, group="crew"), pod("single", priority=5))
    assert _order(world) == ["single", "crew"]


@pytest.mark.parametrize("reverse", [False, True])
def test_a_group_takes_the_turn_of_its_earliest_pod(reverse: bool) -> None:
    """Arrival of a group is that of its first pod, also when the API tells of a later one first."""
    pods = [(pod("m-early", group="crew"), START + 1), (pod("m-late", group="crew"), START + 9)]
    world = World((group("crew"), START), *(pods[::-1] if reverse else pods), (pod("single"), START + 5))
    assert _order(world) == ["crew", "single"]


def test_a_group_that_comes_back_with_another_priority_takes_its_new_turn() -> None:
    """The old place in the heap does not count any more."""
    world = World(group("crew", priority=9), pod("m", group="crew", priority=1), pod("single", priority=5))
    world.engine.remove_group("default/crew", world.now)
    world.add(group("crew", priority=1))
    assert _order(world) == ["single", "crew"]


def test_who_is_tried_again_keeps_the_old_timestamp() -> None:
    """scheduling.md 3.3: re-queued "with their old timestamp"."""
    world = World(*FULL, (pod("first", cpu=1), START), (pod("second", cpu=1), START + 1))
    world.drain()
    world.virtual.now += 20
    world.gone("r")
    assert world.settle().where == {"first": "n"}


# -- backoff and flush ---------------------------------------------------------------------------------------------


def _wake(world: World) -> None:
    world.engine.queue.on_event(ClusterEvent(EventKind.POD_GONE, row=world.row("n")), world.now)


def test_backoff_doubles_up_to_the_maximum() -> None:
    """scheduling.md 1: "1 s initial, doubled per attempt, 10 s max"."""
    world = World(*FULL, pod("p", cpu=1))
    waits = []
    for _ in range(6):
        world.drain()
        assert world.place("p") is QueueState.UNSCHEDULABLE
        _wake(world)
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
    _wake(world)
    assert world.entity("p").wake == world.now + 3
    world.virtual.now += 3
    world.drain()
    _wake(world)
    assert world.entity("p").wake == world.now + 5


def test_no_backoff_once_the_failure_is_long_past() -> None:
    """Backoff runs from the last attempt, not from the event."""
    world = World(*FULL, pod("p", cpu=1)).drain()
    world.virtual.now += 1
    _wake(world)
    assert world.place("p") is QueueState.ACTIVE


def test_a_group_backs_off_as_one() -> None:
    """scheduling.md 1: "A pod group's backoff counts per group"; a new member does not jump it."""
    world = World(*FULL, *gang("crew", 2, cpu=1)).drain()
    assert world.entity("crew").attempts == 1
    world.add(pod("crew-9", group="crew", cpu=1))
    assert world.place("crew") is QueueState.BACKOFF
    assert world.entity("crew").wake == world.now + 1


def test_everything_is_tried_again_after_five_minutes() -> None:
    """scheduling.md 1: "all flushed after 5 min"."""
    world = World(*FULL, pod("p", cpu=1)).drain()
    queue = world.engine.queue
    assert queue.next_wakeup(flush=False) is None
    assert queue.next_wakeup() == world.now + 300
    queue.tick(world.now + 299.9)
    assert world.place("p") is QueueState.UNSCHEDULABLE
    queue.tick(world.now + 300)
    assert world.place("p") is QueueState.ACTIVE


def test_a_plugin_error_is_retried_after_backoff() -> None:
    """scheduling.md 5: a raise ends that attempt with SchedulerError; no event is needed for the next one."""
    from tests.scheduling.plugins_for_tests import Fragile

    for items in ([pod("p")], gang("p", 2)):
        fragile = Fragile(failures=1)
        world = World(node("n"), *items, profiles={"default-scheduler": fragile.profile()})
        assert world.step().result is Result.ERROR
        assert world.place("p") is QueueState.BACKOFF
        world.settle()
        assert not world.pending


# -- gates ---------------------------------------------------------------------------------------------------------


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
            _wake(world)
        assert world.place("crew") is place
        world.gone("crew-0").gone("crew-1")
        world.engine.remove_group("default/crew", world.now)
        queue = world.engine.queue
        assert (len(queue), world.engine.cluster.groups) == (0, {})
        assert queue.pop(world.now + 1000) is None
        assert queue.next_wakeup() is None


# -- hints ---------------------------------------------------------------------------------------------------------


def _cordon(on: bool) -> Callable[[World], object]:
    return lambda w: w.add(node("n", cpu=1, unschedulable=on))


def _taint(key: str, effect: str) -> Callable[[World], object]:
    return lambda w: w.add(node("n", cpu=1, taints=[(key, "", effect)]))


REJECTED_BY: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "NodeResourcesFit": (FULL, {"cpu": 1}),
    "NodeUnschedulable": ([node("n", cpu=1, unschedulable=True)], {}),
    "TaintToleration": ([node("n", cpu=1, taints=[("k", "", "NoSchedule")])], {}),
    "NodeAffinity": ([node("n", cpu=1)], {"selector": {"zone": "a"}}),
    "NodePorts": ([node("n", cpu=1), pod("r", node="n", ports=[80], priority=100)], {"ports": [80]}),
}


@pytest.mark.parametrize(
    ("plugin", "what", "happens", "wakes"),
    [
        ("NodeResourcesFit", "a pod leaves", lambda w: w.gone("r"), True),
        ("NodeResourcesFit", "a node comes", lambda w: w.add(node("n2", cpu=1)), True),
        ("NodeResourcesFit", "a node comes, too small", lambda w: w.add(node("n2", cpu="500m")), False),
        ("NodeResourcesFit", "a node grows", lambda w: w.add(node("n", cpu=2)), True),
        ("NodeResourcesFit", "a node changes and is too small", lambda w: w.add(node("n", cpu="900m")), False),
        ("NodeResourcesFit", "a pod shrinks", lambda w: w.change_pod("r", _shrunk), True),
        ("NodeResourcesFit", "the same node again", lambda w: w.add(node("n", cpu=1)), False),
        ("NodeResourcesFit", "a node goes", lambda w: w.engine.remove_node("n", w.now), False),
        ("NodeResourcesFit", "another pod comes", lambda w: w.add(pod("other", cpu=1)), False),
        ("NodeResourcesFit", "a pod starts to leave", lambda w: w.engine.pod_terminating("uid-r", w.now), False),
        ("NodeUnschedulable", "uncordoned", _cordon(False), True),
        ("NodeUnschedulable", "another cordoned node", lambda w: w.add(node("n2", unschedulable=True)), False),
        ("NodeUnschedulable", "another node", lambda w: w.add(node("n2")), True),
        ("TaintToleration", "the taint goes", lambda w: w.add(node("n", cpu=1)), True),
        ("TaintToleration", "another taint", _taint("j", "NoSchedule"), False),
        ("TaintToleration", "it becomes soft", _taint("k", "PreferNoSchedule"), True),
        ("TaintToleration", "the pod tolerates it now", lambda w: w.change_pod("p", _tolerant), True),
        ("NodeAffinity", "the label comes", lambda w: w.add(node("n", cpu=1, labels={"zone": "a"})), True),
        ("NodeAffinity", "another label", lambda w: w.add(node("n", cpu=1, labels={"zone": "b"})), False),
        ("NodeAffinity", "a matching node", lambda w: w.add(node("n2", labels={"zone": "a"})), True),
        ("NodeAffinity", "a node without", lambda w: w.add(node("n2")), False),
        ("NodePorts", "its user leaves", lambda w: w.gone("r"), True),
        ("NodePorts", "a node comes", lambda w: w.add(node("n2")), True),
        ("NodePorts", "somebody else leaves", lambda w: w.add(pod("x", node="n")).gone("x"), False),
    ],
)
def test_hints(plugin: str, what: str, happens: Callable[[World], object], wakes: bool) -> None:
    """scheduling.md 1: queueing hints per plugin: which event may help which rejection."""
    items, wants = REJECTED_BY[plugin]
    world = World(*items, pod("p", **wants)).drain()
    assert world.entity("p").rejected_by == {plugin}
    happens(world)
    assert world.place("p") is (QueueState.BACKOFF if wakes else QueueState.UNSCHEDULABLE), what


def _shrunk(item: objects.Pod) -> objects.Pod:
    return replace(item, spec=pod("r", cpu="100m", node="n", priority=100).spec)


def _tolerant(item: objects.Pod) -> objects.Pod:
    return replace(item, spec=replace(item.spec, tolerations=(toleration("k", "Exists"),)))


def test_a_cluster_without_nodes_wakes_up_with_its_first() -> None:
    """Nobody rejected the pod, so every plugin's hint counts."""
    for items in ([pod("p", cpu=1)], gang("p", 2, cpu=1)):
        world = World(*items).drain()
        assert world.place("p") is QueueState.UNSCHEDULABLE
        world.add(node("n"))
        assert not world.settle().pending


def test_one_members_hint_suffices() -> None:
    """scheduling.md 1: "For a group one member's hint suffices"."""
    world = World(
        node("n", cpu=2),
        group("crew", min_count=2),
        pod("big", group="crew", cpu=4),
        pod("picky", group="crew", selector={"zone": "a"}),
    ).drain()
    assert world.place("crew") is QueueState.UNSCHEDULABLE
    world.add(node("n2", cpu=8))
    assert world.place("crew") is QueueState.BACKOFF


def test_a_hint_that_raises_counts_as_yes() -> None:
    """Better one attempt too many than a lost wake-up."""
    from tests.scheduling.plugins_for_tests import BadHint

    world = World(node("n"), pod("p"), profiles={"default-scheduler": BadHint().profile()}).drain()
    assert world.entity("p").rejected_by == {"BadHint"}
    world.add(node("n2"))
    assert world.place("p") is QueueState.BACKOFF


# -- events that come at a bad time --------------------------------------------------------------------------------


def test_events_during_a_cycle_are_replayed() -> None:
    """scheduling.md 1: "Events that arrive during an entity's own cycle are kept and replayed to it at the end"."""
    for kind, place in ((EventKind.POD_GONE, QueueState.BACKOFF), (EventKind.NODE_REMOVED, QueueState.UNSCHEDULABLE)):
        world = World(*FULL, pod("p", cpu=1))
        queue = world.engine.queue
        entity = queue.pop(world.now)
        assert entity is not None
        queue.on_event(ClusterEvent(kind, row=world.row("n")), world.now)
        assert entity.state is QueueState.IN_CYCLE
        queue.requeue(entity, world.now, {"NodeResourcesFit"})
        assert entity.state is place
        check_queue(world.engine)


@pytest.mark.parametrize(
    ("plugin", "events", "most", "place"),
    [
        ("GangScheduling", 600, 600, QueueState.UNSCHEDULABLE),  # one member speaks for its group
        ("NodeResourcesFit", 100, 64 * 100, QueueState.UNSCHEDULABLE),
        ("NodeResourcesFit", 600, 1 << 14, QueueState.BACKOFF),  # rather one attempt too many
    ],
)
def test_what_is_asked_about_missed_events_is_bounded(plugin: str, events: int, most: int, place: QueueState) -> None:
    """scheduling.md 1: as many events as victims are replayed to a gang of unlike members, in bounded time."""
    members = [pod(f"crew-{i}", group="crew", cpu=1, memory=f"{i + 1}Mi") for i in range(64)]
    world = World(node("n", cpu=64), group("crew", min_count=64), *members)
    queue, asked = world.engine.queue, 0

    def hint(*_: object) -> bool:
        nonlocal asked
        asked += 1
        return False

    queue._hints.by_plugin[plugin] = {EventKind.POD_TERMINATING: hint}
    entity = queue.pop(world.now)
    assert entity is not None
    for _ in range(events):
        queue.on_event(ClusterEvent(EventKind.POD_TERMINATING, row=world.row("n")), world.now)
    queue.requeue(entity, world.now, {plugin})
    assert entity.state is place
    assert asked == most if place is QueueState.UNSCHEDULABLE else asked <= most


def test_events_before_the_cycle_are_not_replayed() -> None:
    """What was known when the cycle began has been taken into account."""
    world = World(*FULL, pod("p", cpu=1))
    _wake(world)
    world.drain()
    assert world.place("p") is QueueState.UNSCHEDULABLE


def test_new_members_wait_for_the_cycle_to_end() -> None:
    """scheduling.md 1: "New pods of a group in its cycle wait for the cycle to end"."""
    world = World(*FULL, *gang("crew", 2, cpu=1))
    queue = world.engine.queue
    entity = queue.pop(world.now)
    assert entity is not None
    world.add(pod("crew-2", group="crew", cpu=1))
    assert world.place("crew") is QueueState.IN_CYCLE
    assert set(entity.ready) == {"uid-crew-0", "uid-crew-1", "uid-crew-2"}
    queue.requeue(entity, world.now, {"GangScheduling"})
    assert entity.state is QueueState.BACKOFF


def test_events_are_counted_that_are_kept_for_who_is_in_its_cycle() -> None:
    """As the gauge of events in flight shows them, by kind."""
    world = World(*FULL, *gang("crew", 2, cpu=1))
    queue = world.engine.queue
    entity = queue.pop(world.now)
    assert entity is not None
    assert queue.kept_events() == {}
    kinds = (EventKind.NODE_ADDED, EventKind.POD_GONE, EventKind.NODE_ADDED)
    for kind in kinds:
        queue.on_event(ClusterEvent(kind, row=0), world.now)
    assert queue.kept_events() == {EventKind.NODE_ADDED: 2, EventKind.POD_GONE: 1}
    queue.requeue(entity, world.now, {"GangScheduling"})
    assert queue.kept_events() == {}


def _blocked() -> World:
    world = World(node("n", cpu=1), pod("r", cpu=1, node="n"), pod("p", cpu=1, priority=5))
    assert world.step().result is Result.WAITING
    assert world.entity("p").blocked == "waiting for the preemption for this pod to be finished"
    return world


def test_a_preemptor_stays_gated_while_its_calls_run() -> None:
    """preemption.md 7.3: until the calls are done the preemptor is gated; no event may lose it."""
    world = _blocked()
    assert world.place("p") is QueueState.GATED
    world.gone("r")
    assert world.place("p") is QueueState.GATED
    world.engine.preemption_done(world.entity("p").key, world.now)
    assert world.place("p") is QueueState.BACKOFF
    assert world.settle().where == {"p": "n"}


@pytest.mark.parametrize("blocked", [False, True])
def test_who_is_to_be_tried_at_once_is_not_while_its_calls_run(blocked: bool) -> None:
    """scheduling.md 3.3 and preemption.md 7.3: without backoff, unless it is gated by its own preemption."""
    world = World(node("n", cpu=1), pod("p", cpu=1))
    queue = world.engine.queue
    entity = queue.pop(world.now)
    assert entity is not None
    entity.blocked = "waiting" if blocked else None
    queue.requeue_now(entity, world.now)
    assert entity.state is (QueueState.GATED if blocked else QueueState.ACTIVE)
    assert entity.attempts == 0


def test_without_an_event_it_waits_on_after_the_calls() -> None:
    """Unblocked, it is woken by its victims' going."""
    world = _blocked()
    world.engine.preemption_done(world.entity("p").key, world.now)
    assert world.place("p") is QueueState.UNSCHEDULABLE
    world.gone("r")
    assert world.settle().where == {"p": "n"}


def test_a_failed_call_lets_it_try_at_once() -> None:
    """preemption.md 7.5: "the preemptor is activated again at once"."""
    world = _blocked()
    reverted = world.engine.preemption_failed(world.entity("p").key, world.now)
    assert [p.name for p in reverted] == ["p"]
    assert world.place("p") is QueueState.ACTIVE
    assert world.nominated == {}


def test_calls_that_fail_again_and_again_are_made_after_the_backoff() -> None:
    """preemption.md 7.5: a victim whose deletion is refused for good is not asked for as fast as refusals come."""
    world = _blocked()
    engine, now, key = world.engine, world.now, world.entity("p").key
    engine.preemption_failed(key, now)
    assert engine.step(now) is not None  # at once, the first time
    for backoff in (2.0, 4.0, 8.0, 10.0):
        engine.preemption_failed(key, now)
        assert world.place("p") is QueueState.BACKOFF
        assert engine.step(now + backoff - 0.1) is None
        now += backoff
        decision = engine.step(now)
        assert decision is not None
        assert decision.preemption is not None
    engine.preemption_done(key, now)
    world.gone("r")
    assert engine.step(now + 10.0) is not None
    assert world.where == {"p": "n"}


def test_calls_that_went_well_end_the_row_of_failures() -> None:
    """preemption.md 7.5: the next failure is the first again."""
    world = _blocked()
    key = world.entity("p").key
    world.engine.preemption_failed(key, world.now)
    assert world.engine.step(world.now) is not None
    world.engine.preemption_done(key, world.now)
    assert world.entity("p").failed_preemptions == 0


def test_a_preemptor_that_is_deleted_while_blocked_leaves_nothing() -> None:
    """Neither the deletion nor the end of the calls finds anything afterwards."""
    world = _blocked()
    key = world.entity("p").key
    world.gone("p")
    world.engine.preemption_done(key, world.now)
    world.engine.preemption_failed(key, world.now)
    assert len(world.engine.queue) == 0
    assert not world.engine.cluster.nodes.nominated


def test_calls_that_end_twice_change_nothing() -> None:
    """Only what is blocked can be unblocked."""
    world = _blocked()
    key = world.entity("p").key
    world.engine.preemption_done(key, world.now)
    place = world.place("p")
    world.engine.preemption_done(key, world.now)
    world.engine.queue.unblock("pod/unknown", world.now, retry=True)
    assert world.place("p") is place


# -- starvation ----------------------------------------------------------------------------------------------------


def test_a_large_gang_that_does_not_fit_blocks_nobody() -> None:
    """scheduling.md 1: "an unschedulable large gang must not block smaller entities behind it"."""
    world = World(node("n", cpu=4), *gang("big", 9, cpu=1, priority=9), *[pod(f"s{i}", cpu=1) for i in range(4)])
    world.settle()
    assert sorted(world.where) == ["s0", "s1", "s2", "s3"]
    assert world.place("big") is QueueState.UNSCHEDULABLE


def test_a_stream_of_small_pods_does_not_keep_a_gang_from_its_cycle() -> None:
    """scheduling.md 1: "a stream of small pods must not keep a gang that fits from its cycle"."""
    world = World(node("n", cpu=4), *gang("crew", 4, cpu=1))
    for index in range(50):
        world.add(pod(f"small-{index}", cpu=1))
    decision = world.step()
    assert decision.key == "group/default/crew"
    assert decision.result is Result.SCHEDULED


def test_a_gang_in_the_middle_of_a_stream_gets_its_turn() -> None:
    """By arrival: those that came before go first, those after go later."""
    world = World(node("n", cpu=40), *[pod(f"a{i}", cpu=1) for i in range(3)], *gang("crew", 4, cpu=1))
    world.add(*[pod(f"z{i}", cpu=1) for i in range(3)])
    keys = [world.step().key for _ in range(7)]
    assert keys.index("group/default/crew") == 3


# -- counting ------------------------------------------------------------------------------------------------------


def test_counts_by_place() -> None:
    """What the metric scheduler_pending_entities{queue} reads."""
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


# -- many that cannot be placed ------------------------------------------------------------------------------------


def _crowd(gangs: int = 20, **wants: Any) -> World:
    """A node full of pods that nobody here can preempt, and gangs of four that need all of it; all have been tried."""
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
    """Up to 32 pods: what is said of them stays up to date, as with kube-scheduler."""
    world = _crowd(gangs=8)
    tried = world.engine.attempts
    world.gone("r0").drain()
    assert world.engine.attempts == tried + 8


def test_who_was_not_tried_waits_for_room_too() -> None:
    """Rejected by node affinity alone; the matching node is full when it comes: who leaves it lets a gang in."""
    world = World(node("n", cpu=4), pod("x", cpu=4, node="m", priority=100))
    world.add(*[item for i in range(20) for item in gang(f"crew{i:02d}", 4, cpu=1, selector={"zone": "a"})]).drain()
    assert world.entity("crew00").rejected_by == {"NodeAffinity", "GangScheduling"}
    world.virtual.now += 60
    tried = world.engine.attempts
    world.add(node("m", cpu=4, labels={"zone": "a"})).drain()
    assert world.engine.attempts == tried
    world.gone("x").drain()
    assert set(world.where) == {f"crew00-{i}" for i in range(4)}


def test_a_new_member_is_told_what_became_of_it() -> None:
    """An event of the gang's own is not passed over, though it cannot be placed."""
    world = _crowd()
    tried = world.engine.attempts
    world.add(pod("crew00-9", group="crew00", cpu=1)).drain()
    assert world.engine.attempts == tried + 1
    assert world.rejection("crew00-9")[0] == "Unschedulable"


def test_who_waits_too_long_in_vain_is_tried_in_turn() -> None:
    """After five minutes one a second: what is said of them is brought up to date without stopping the loop."""
    world = _crowd()
    queue, start = world.engine.queue, world.now - 60 + 300
    woken = []
    for second in range(25):
        world.virtual.now = start + second
        assert queue.next_wakeup() is not None
        assert queue.next_wakeup() <= start + max(second, 1)  # type: ignore[operator]
        entity = queue.pop(world.now)
        if entity is not None:
            woken.append(entity.key[-6:])
            assert queue.pop(world.now) is None
            queue.requeue(entity, world.now, {"NodeResourcesFit"})
        check_queue(world.engine)
        if second == 19:
            assert queue.next_wakeup() == start + 300
            break
    assert woken == [f"crew{i:02d}" for i in range(20)]


def test_who_can_be_placed_is_not_kept_waiting_by_the_turn() -> None:
    """Room that came without an event (a test's device): after five minutes who fits is tried at once."""
    world = _crowd()
    for name in ("r0", "r1", "r2", "r3"):
        world.engine.cluster.remove_pod(world.record(name))
    world.engine.queue.tick(world.now + 300)
    assert {world.place(f"crew{i:02d}") for i in range(20)} == {QueueState.ACTIVE}


def test_who_is_put_off_again_and_again_is_remembered_once() -> None:
    """cost.md 6.2: it is tried at the time that was said last; times of earlier attempts are not piled up."""
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


# -- what the queue is told and asked, one call at a time ------------------------------------------------------------


def _popped(world: World) -> list[Any]:
    """Every entity that may be tried now, each in its cycle."""
    found = []
    while (entity := world.engine.queue.pop(world.now)) is not None:
        found.append(entity)
    return found


def test_the_next_wakeup_is_of_those_that_are_asked_about() -> None:
    """scheduling.md 1: the first of the backoffs; who is held back for another reason need not be woken for."""
    world = World(node("n", cpu=1), pod("a"), pod("b"))
    queue = world.engine.queue
    first, second = _popped(world)
    second.attempts = 2  # a backoff of two seconds
    for entity in (first, second):
        queue.retry_later(entity, world.now)
    for ignoring, wake in [((), 1), ((first.key,), 2), ((second.key,), 1), ((first.key, second.key), None)]:
        expected = None if wake is None else world.now + wake
        assert queue.next_wakeup(flush=False, ignoring=ignoring) == expected, ignoring
    world.gone("a")
    assert queue.next_wakeup(flush=False) == world.now + 2
    assert queue.next_wakeup(flush=False, ignoring=("pod/other",)) == world.now + 2


@pytest.mark.parametrize("helping", ["NodeAffinity", "NodePorts", "NodeResourcesFit", ""])
def test_any_plugin_that_rejected_may_say_that_a_missed_event_helps(helping: str) -> None:
    """scheduling.md 1: events of the cycle are replayed to the hints of all that rejected it, one yes is enough."""
    rejected_by = {"NodeAffinity", "NodePorts", "NodeResourcesFit"}
    world = World(*FULL, pod("p", cpu=1))
    queue = world.engine.queue
    for plugin in rejected_by:
        queue._hints.by_plugin[plugin] = {EventKind.NODE_ADDED: lambda *_, yes=plugin == helping: yes}
    (entity,) = _popped(world)
    queue.on_event(ClusterEvent(EventKind.NODE_REMOVED, row=0), world.now)  # no plugin has a hint for the first of them
    queue.on_event(ClusterEvent(EventKind.NODE_ADDED, row=0), world.now)
    queue.requeue(entity, world.now, rejected_by)
    assert entity.state is (QueueState.BACKOFF if helping else QueueState.UNSCHEDULABLE)


@pytest.mark.parametrize(("priority", "woken"), [(4, True), (5, False), (6, False)])
def test_who_waits_with_a_higher_priority_is_tried_when_units_may_go_otherwise(priority: int, woken: bool) -> None:
    """preemption.md 2.1: those of an equal priority cannot be evicted, so it helps nobody of that priority."""
    world = World(*FULL, pod("p", cpu=1, priority=5)).drain()
    world.engine.queue.retry_above(priority, world.now)
    assert world.place("p") is (QueueState.BACKOFF if woken else QueueState.UNSCHEDULABLE)


def test_a_pod_that_failed_to_bind_backs_off_as_often_as_it_was_tried() -> None:
    """scheduling.md 1: 1 s, doubled per attempt; it was tried just now."""
    world = World(node("n"))
    record, queue = world.add(pod("p")).record("p"), world.engine.queue
    for attempts, wait in [(3, 4), (1, 4)]:  # what is known already is not forgotten
        (entity,) = _popped(world)
        entity.attempts -= 1  # as if it had not been tried beside
        queue.requeue(entity, world.now, {"NodeResourcesFit"})
        entity = queue.add_pod(record, world.now, attempts=attempts)
        assert entity.state is QueueState.BACKOFF
        assert entity.wake == world.now + wait
        world.virtual.now += wait


def test_pods_are_counted_by_where_they_come_and_why() -> None:
    """`scheduler_queue_incoming_pods_total`: each pod of a group, held ones too; who is in its cycle came nowhere."""
    world = World(node("n", cpu=9), *gang("crew", 2, cpu=1), pod("single", cpu=1, gates=["g"]))
    world.add(pod("crew-2", group="crew", gates=["g"]))
    queue = world.engine.queue
    queue.incoming.clear()
    (entity,) = _popped(world)
    assert queue.incoming == {}
    queue.requeue(entity, world.now, {"NodeResourcesFit"})
    assert queue.incoming == {(QueueState.UNSCHEDULABLE, "schedule_attempt_failure"): 3}
    queue.incoming.clear()
    world.change_pod("single", without_gates)
    assert queue.incoming == {(QueueState.ACTIVE, "pod_updated"): 1}


def test_whether_somebody_may_be_tried_now() -> None:
    """Places of who is gone, or in its cycle, count for nothing."""
    world = World(node("n"), pod("a"), pod("b"))
    queue = world.engine.queue
    world.gone("a")
    assert queue.has_active
    (entity,) = _popped(world)
    assert not queue.has_active
    queue.requeue(entity, world.now, {"NodeResourcesFit"})
    world.add(pod("c")).gone("c")
    assert not queue.has_active


@pytest.mark.parametrize("retry", [False, True])
@pytest.mark.parametrize("missed", [False, True])
def test_what_happens_while_its_calls_run_is_replayed(missed: bool, retry: bool) -> None:
    """preemption.md 7.3: nothing that happened meanwhile is lost, and nothing is kept of it afterwards."""
    world = _blocked()
    queue, entity = world.engine.queue, world.entity("p")
    if missed:
        queue.on_event(ClusterEvent(EventKind.POD_GONE, row=world.row("n")), world.now)
    assert len(entity.events) == missed
    queue.unblock(entity.key, world.now, retry=retry)
    expected = QueueState.BACKOFF if missed else QueueState.UNSCHEDULABLE
    assert entity.state is (QueueState.ACTIVE if retry else expected)
    queue.on_event(ClusterEvent(EventKind.NODE_REMOVED, row=0), world.now)
    assert queue.kept_events() == {}


@pytest.mark.parametrize("how", ["requeue", "requeue_now", "retry_later"])
def test_a_gang_that_lost_its_object_in_its_cycle_is_gated_however_the_cycle_ends(how: str) -> None:
    """scheduling.md 1: a group waits for its object, whatever its attempt came to."""
    world = World(*FULL, *gang("crew", 2, cpu=1))
    queue = world.engine.queue
    (entity,) = _popped(world)
    world.engine.remove_group("default/crew", world.now)
    assert queue.counts()[QueueState.IN_CYCLE] == 1
    if how == "requeue":
        queue.requeue(entity, world.now, {"GangScheduling"})
    else:
        getattr(queue, how)(entity, world.now)
    assert entity.state is QueueState.GATED
    assert "to appear" in entity.gate.reason
    check_queue(world.engine)
