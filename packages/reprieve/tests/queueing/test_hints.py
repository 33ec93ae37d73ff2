"""Which event wakes which entity, also one that comes in the middle of a cycle (scheduling.md 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.meta import ObjectRef
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.events import ClusterEvent, EventKind, Hint, Hints
from reprieve.framework.plugin import PreEnqueuePlugin
from reprieve.framework.status import SUCCESS, Status
from reprieve.queueing.entity import QueueState
from reprieve.queueing.hints import answer_of
from tests.building import World, check_queue, gang, group, node, pod, profile_with, toleration
from tests.queueing.waiting import FULL, pop_all, wake


def _cordon(on: bool) -> Callable[[World], object]:
    return lambda w: w.add(node("n", cpu=1, unschedulable=on))


def _taint(key: str, effect: str) -> Callable[[World], object]:
    return lambda w: w.add(node("n", cpu=1, taints=[(key, "", effect)]))


_OF_A_GROUP = pod("m", cpu=1, node="n", group="team")
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
        ("NodeResourcesFit", "a pod of a group leaves", lambda w: w.add(_OF_A_GROUP).gone("m"), True),
        ("NodeResourcesFit", "a node comes", lambda w: w.add(node("n2", cpu=1)), True),
        ("NodeResourcesFit", "a node comes, too small", lambda w: w.add(node("n2", cpu="500m")), False),
        ("NodeResourcesFit", "a node grows", lambda w: w.add(node("n", cpu=2)), True),
        ("NodeResourcesFit", "a node changes and is too small", lambda w: w.add(node("n", cpu="900m")), False),
        ("NodeResourcesFit", "a pod shrinks", lambda w: w.change_pod("r", _shrunk), True),
        ("NodeResourcesFit", "the same node again", lambda w: w.add(node("n", cpu=1)), False),
        ("NodeResourcesFit", "a node goes", lambda w: w.engine.remove(ObjectRef("Node", "n"), w.now), False),
        ("NodeResourcesFit", "another pod comes", lambda w: w.add(pod("other", cpu=1)), False),
        ("NodeResourcesFit", "a pod starts to leave", lambda w: w.engine.mark_terminating("uid-r", w.now), False),
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
        ("NodePorts", "another pod leaves", lambda w: w.add(pod("x", node="n")).gone("x"), False),
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


def test_cluster_without_nodes_wakes_up_with_its_first() -> None:
    """No plugin rejected the pod, so every plugin's hint counts."""
    for items in ([pod("p", cpu=1)], gang("p", 2, cpu=1)):
        world = World(*items).drain()
        assert world.place("p") is QueueState.UNSCHEDULABLE
        world.add(node("n"))
        assert not world.settle().pending


def test_one_members_hint_suffices() -> None:
    """scheduling.md 1: "For a group the hint of a single member is enough"."""
    world = World(
        node("n", cpu=2),
        group("crew", min_count=2),
        pod("big", group="crew", cpu=4),
        pod("picky", group="crew", selector={"zone": "a"}),
    ).drain()
    assert world.place("crew") is QueueState.UNSCHEDULABLE
    world.add(node("n2", cpu=8))
    assert world.place("crew") is QueueState.BACKOFF


def test_hint_that_raises_counts_as_yes() -> None:
    """Better one attempt too many than a lost wake-up."""
    from tests.scheduling.plugins_for_tests import BadHint

    world = World(node("n"), pod("p"), profiles={"default-scheduler": BadHint().profile()}).drain()
    assert world.entity("p").rejected_by == {"BadHint"}
    world.add(node("n2"))
    assert world.place("p") is QueueState.BACKOFF


@pytest.mark.parametrize("helping", ["NodeAffinity", "NodePorts", "NodeResourcesFit", ""])
def test_hint_of_any_rejecting_plugin_may_count_a_missed_event(helping: str) -> None:
    """scheduling.md 1: events of the cycle are replayed to the hints of all that rejected it, one yes is enough."""
    rejected_by = {"NodeAffinity", "NodePorts", "NodeResourcesFit"}
    world = World(*FULL, pod("p", cpu=1))
    queue = world.engine.queue
    for plugin in rejected_by:
        queue._hints.by_plugin[plugin] = {EventKind.NODE_ADDED: lambda *_, yes=plugin == helping: yes}
    (entity,) = pop_all(world)
    queue.on_event(ClusterEvent(EventKind.NODE_REMOVED, row=0), world.now)  # no plugin has a hint for the first of them
    queue.on_event(ClusterEvent(EventKind.NODE_ADDED, row=0), world.now)
    queue.requeue(entity, world.now, rejected_by)
    assert entity.state is (QueueState.BACKOFF if helping else QueueState.UNSCHEDULABLE)


# -- events that come in the middle of a cycle -----------------------------------------------------------------------


def test_events_during_a_cycle_are_replayed() -> None:
    """scheduling.md 1.3: "Events that arrive during an entity's own cycle are kept and replayed to it at the end"."""
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
def test_number_of_hints_about_missed_events_is_bounded(plugin: str, events: int, most: int, place: QueueState) -> None:
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
    wake(world)
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


def test_events_kept_for_an_entity_in_its_cycle_are_counted() -> None:
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


@pytest.mark.parametrize(
    ("of", "asked"),
    [({}, 1), ({"group": "default/other"}, 2), ({"composite": "default/other"}, 2)],
    ids=["of none", "of a group", "of a tree"],
)
def test_hint_is_called_once_for_pods_that_are_alike_unless_the_event_is_of_a_group(
    of: dict[str, Any], asked: int
) -> None:
    """scheduling.md 1: what a group's event means depends on the pod's group; else the signature decides."""
    world = World(*FULL, pod("a", cpu=1), pod("b", cpu=1)).drain()
    queue, calls = world.engine.queue, []

    def hint(_cluster: object, item: PodRecord, _event: object) -> bool:
        calls.append(item.name)
        return False

    queue._hints.by_plugin["NodeResourcesFit"] = {EventKind.POD_GONE: hint}
    queue.on_event(ClusterEvent(EventKind.POD_GONE, row=world.row("n"), **of), world.now)
    assert len(calls) == asked


def test_one_bad_hint_is_a_yes() -> None:
    """Better one attempt too many than a lost wake-up; else what the hint says is the answer."""
    world = World(node("n"), pod("p"))
    item, event = world.record("p"), ClusterEvent(EventKind.NODE_ADDED, row=0)

    def raises(*_: object) -> bool:
        raise ZeroDivisionError

    hints: list[tuple[Hint, bool]] = [(lambda *_: True, True), (lambda *_: False, False), (raises, True)]
    assert [answer_of(hint, world.engine.cluster, item, event) for hint, _ in hints] == [yes for _, yes in hints]


def test_hints_for_a_pod_that_changed_during_its_attempt_see_the_changed_pod() -> None:
    """scheduling.md 1: one that was made smaller in its cycle waits for room for what it asks for now."""
    world = World(*FULL, pod("p", cpu=1))
    (entity,) = pop_all(world)
    world.engine.set(pod("p", cpu="100m"), world.now)
    world.engine.queue.requeue(entity, world.now, {"NodeResourcesFit"})
    world.add(node("small", cpu="200m"))
    assert entity.state is QueueState.BACKOFF


class OfGroups(PreEnqueuePlugin):
    """An external plugin that decides about groups."""

    name = "OfGroups"
    concerns_group: ClassVar[bool] = True

    def pre_enqueue(self, cluster: ClusterState, pod: PodRecord) -> Status:
        """No pod waits at its gate."""
        return SUCCESS

    def events(self) -> Hints:
        """Anything of these kinds may help."""
        return {EventKind.GROUP_CHANGED: lambda *_: True, EventKind.NODE_ADDED: lambda *_: True}


@pytest.mark.parametrize(
    ("event", "woken"),
    [
        (ClusterEvent(EventKind.GROUP_CHANGED, group="default/crew"), ["crew"]),
        (ClusterEvent(EventKind.GROUP_CHANGED, group="default/third"), []),
        (ClusterEvent(EventKind.NODE_ADDED, row=0), ["crew", "other"]),
    ],
    ids=["its own", "another group's", "no group's"],
)
def test_hints_of_group_plugins_are_called_for_events_of_the_own_group_and_of_none(
    event: ClusterEvent, woken: list[str]
) -> None:
    """`PreEnqueuePlugin.concerns_group`: what happens to another group is no news for this one."""
    profile = profile_with(OfGroups())
    world = World(*FULL, *gang("crew", 1, cpu=1), *gang("other", 1, cpu=1), profiles={profile.name: profile})
    for entity in pop_all(world):
        world.engine.queue.requeue(entity, world.now, {"OfGroups"})
    world.engine.queue.on_event(event, world.now)
    assert [name for name in ("crew", "other") if world.place(name) is QueueState.BACKOFF] == woken
