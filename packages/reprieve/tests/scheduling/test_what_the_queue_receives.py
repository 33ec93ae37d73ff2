"""What the queue is notified of: every event that could help an entity, and nothing where nothing is new
(scheduling.md 1.4, 7.3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.meta import ObjectMeta, ObjectRef
from kube_rules.owners import Service, ServiceSpec
from kube_rules.storage import CSIStorageCapacity
from reprieve.cluster.pods import PodRecord
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.plugins.volume_binding import VolumeBinding
from tests.building import World, annotated, bound_to, composite, group, node, pdb, pod, priority_class, without_gates
from tests.plugins.storage import capacity, claim

ALL_PRIORITIES = -(1 << 32)
"""An entity with any priority at all is above this."""


def _world() -> World:
    """Two nodes with a pod each, and pods that wait: for room, for room in a group, behind gates, with a nomination."""
    return World(
        node("n", cpu=4),
        node("m", cpu=4),
        group("crew", min_count=1),
        group("team", min_count=1, priority=3),
        composite("tree", min_groups=1),
        priority_class("plain", 5),
        pod("r", cpu=1, node="n", group="team", priority=3),
        pod("s", cpu=1, node="m"),
        group("leaf", min_count=1, parent="tree"),
        pod("l", cpu=1, node="m", group="leaf"),
        pod("p", cpu=9),
        pod("w", cpu=9, group="crew"),
        pod("gated", cpu=1, gates=["x"]),
        pod("held", cpu=1, gates=["x"], group="crew"),
        pod("named", cpu=1, gates=["x"], nominated="n"),
    ).drain()


@dataclass
class Received:
    """What the queue was notified of: (kind, node, pod, group) of events, pods that changed, priorities tried above."""

    events: list[tuple[str, str, str, str]] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    retried: list[int] = field(default_factory=list)


def _listen(world: World, monkeypatch: pytest.MonkeyPatch) -> Received:
    received = Received()
    queue, names = world.engine.queue, world.engine.cluster.nodes.names

    def on_event(event: ClusterEvent, now: float, *, but: str = "") -> None:
        assert now == world.now
        name = event.pod.name if event.pod is not None else ""
        where = names[event.row] if event.row >= 0 else ""
        received.events.append((event.kind.name, where, name, event.group or event.composite or ""))

    def update_pod(item: PodRecord, now: float) -> None:
        assert now == world.now
        received.updated.append(item.name)

    def retry_above(priority: int, now: float) -> None:
        assert now == world.now
        received.retried.append(priority)

    monkeypatch.setattr(queue, "on_event", on_event)
    monkeypatch.setattr(queue, "update_pod", update_pod)
    monkeypatch.setattr(queue, "retry_above", retry_above)
    return received


def _changes(name: str, change: Callable[[objects.Pod], objects.Pod]) -> Callable[[World], None]:
    def happens(world: World) -> None:
        uid = f"uid-{name}"
        world.engine.set(change(world.objects[uid]), world.now)

    return happens


def _labelled(item: objects.Pod) -> objects.Pod:
    return replace(item, metadata=replace(item.metadata, labels={"a": "b"}))


def _works(item: objects.Pod) -> objects.Pod:
    return replace(item, metadata=replace(item.metadata, annotations=annotated(minimum_runtime="1h")))


def _asks(cpu: int | str) -> Callable[[objects.Pod], objects.Pod]:
    return lambda item: replace(item, spec=replace(item.spec, containers=pod("x", cpu=cpu).spec.containers))


def _ended(item: objects.Pod) -> objects.Pod:
    return replace(item, status=replace(item.status, phase="Succeeded"))


def _adds(*items: Any) -> Callable[[World], object]:
    return lambda world: world.add(*items)


def _removes(kind: str, key: str) -> Callable[[World], object]:
    return lambda w: w.engine.remove(ObjectRef(kind, key), w.now)


def _both(*happenings: Callable[[World], object]) -> Callable[[World], object]:
    return lambda world: [happens(world) for happens in happenings]


def _namespace(name: str, **labels: str) -> Callable[[World], object]:
    found = objects.Namespace(metadata=objects.ObjectMeta(name=name, labels=labels))
    return lambda world: world.engine.set(found, world.now)


def _service(name: str) -> Callable[[World], object]:
    spec = ServiceSpec(selector={"app": name})
    found = Service(metadata=objects.ObjectMeta(name=name, namespace="default"), spec=spec)
    return lambda world: world.engine.set(found, world.now)


TERMS = annotated(minimum_runtime="1h")
SAVED = annotated(last_checkpoint="2026-01-01T00:00:00Z")
NODE_GONE = ("NODE_REMOVED", "n", "", "")
R_GONE = ("POD_GONE", "n", "r", "default/team")
W_GONE = ("MEMBER_GONE", "", "w", "default/crew")
CREW = ("GROUP_CHANGED", "", "", "default/crew")
TEAM = ("GROUP_CHANGED", "", "", "default/team")
Event = tuple[str, str, str, str]


@pytest.mark.parametrize(
    ("happens", "events"),
    [
        (_adds(node("n", cpu=4)), []),
        (_adds(node("n", cpu=5)), [("NODE_CHANGED", "n", "", "")]),
        (_adds(node("new")), [("NODE_ADDED", "new", "", "")]),
        (_removes("Node", "m"), [("NODE_REMOVED", "m", "", "")]),
        (_removes("Node", "nobody"), []),
        (
            _both(_removes("Node", "m"), _adds(node("m", cpu=4))),
            [("NODE_REMOVED", "m", "", ""), ("NODE_ADDED", "m", "", "")],
        ),
        (_changes("r", lambda item: item), []),
        (_changes("r", _labelled), [("POD_RELABELED", "n", "r", "default/team")]),
        (_changes("p", _labelled), []),
        (_changes("r", _asks("500m")), [("POD_CHANGED", "n", "r", "default/team")]),
        (
            _changes("s", lambda item: _labelled(_asks(2)(item))),
            [("POD_RELABELED", "m", "s", ""), ("POD_CHANGED", "m", "s", "")],
        ),
        (lambda w: w.engine.remove(ObjectRef("Pod", uid="uid-r"), w.now), [R_GONE]),
        (_changes("r", _ended), [R_GONE]),
        (lambda w: w.engine.remove(ObjectRef("Pod", uid="uid-p"), w.now), []),
        (lambda w: w.engine.remove(ObjectRef("Pod", uid="uid-w"), w.now), [W_GONE]),
        (lambda w: w.engine.remove(ObjectRef("Pod", uid="uid-named"), w.now), [("POD_GONE", "n", "named", "")]),
        (lambda w: w.engine.remove(ObjectRef("Pod", uid="uid-unknown"), w.now), []),
        (_service("web"), [("SELECTOR_CHANGED", "", "", "")]),
        (
            _both(_service("web"), _removes("Service", "default/web")),
            [("SELECTOR_CHANGED", "", "", "")] * 2,
        ),
        (_removes("Service", "default/web"), []),
        (lambda w: w.engine.mark_terminating("uid-r", w.now), [("POD_TERMINATING", "n", "r", "default/team")]),
        (lambda w: [w.engine.mark_terminating("uid-s", w.now) for _ in "12"], [("POD_TERMINATING", "m", "s", "")]),
        (lambda w: w.engine.mark_terminating("uid-w", w.now), [W_GONE]),
        (lambda w: w.engine.mark_terminating("uid-p", w.now), []),
        (lambda w: w.engine.mark_terminating("uid-named", w.now), [("POD_GONE", "n", "named", "")]),
        (lambda w: w.engine.mark_terminating("uid-unknown", w.now), []),
        (_changes("held", without_gates), [("GATES_REMOVED", "", "held", "default/crew")]),
        (_changes("p", lambda item: bound_to(item, "m")), [("POD_PLACED", "m", "p", "")]),
        (_changes("w", lambda item: bound_to(item, "n")), [("POD_PLACED", "n", "w", "default/crew")]),
        (_adds(pod("new")), []),
        (_adds(pod("new", node="m")), [("POD_PLACED", "m", "new", "")]),
        (_adds(pod("new", group="crew")), [("POD_ADDED", "", "new", "default/crew")]),
        (_adds(pod("new", phase="Failed")), []),
        (_adds(group("crew", min_count=1)), []),
        (_adds(group("crew", min_count=2)), [CREW]),
        (_adds(group("new")), [("GROUP_ADDED", "", "", "default/new")]),
        (_removes("PodGroup", "default/crew"), [("GROUP_REMOVED", "", "", "default/crew")]),
        (_removes("PodGroup", "default/missing"), []),
        (_adds(composite("new")), [("GROUP_ADDED", "", "", "default/new")]),
        (_adds(composite("tree", min_groups=1)), []),
        (_adds(composite("tree", min_groups=2)), [("GROUP_CHANGED", "", "", "default/tree")]),
        (_removes("CompositePodGroup", "default/tree"), [("GROUP_REMOVED", "", "", "default/tree")]),
        (_removes("CompositePodGroup", "default/missing"), []),
        (_namespace("x", a="b"), [("NAMESPACE_CHANGED", "", "", "")]),
        (_both(_namespace("x", a="b"), _namespace("x", a="b")), [("NAMESPACE_CHANGED", "", "", "")]),
        (
            _both(_namespace("x", a="b"), _removes("Namespace", "x")),
            [("NAMESPACE_CHANGED", "", "", "")] * 2,
        ),
        (_removes("Namespace", "x"), []),
        (_adds(claim("c"), claim("c")), [("CLAIM_CHANGED", "", "", "")]),
        (_adds(claim("c"), claim("c", "2Gi")), [("CLAIM_CHANGED", "", "", "")] * 2),
    ],
)  # fmt: skip
def test_every_change_is_an_event_and_what_was_known_is_none(
    happens: Callable[[World], object], events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """scheduling.md 7.3: which capacity, which node, which group; what changes nothing wakes nothing."""
    world = _world()
    received = _listen(world, monkeypatch)
    happens(world)
    assert received.events == events


@pytest.mark.parametrize(
    ("happens", "updated"),
    [
        (_changes("p", lambda item: item), []),
        (_changes("p", _labelled), []),
        (_changes("p", _asks(8)), ["p"]),
        (_changes("r", _asks(2)), []),
        (_changes("gated", without_gates), ["gated"]),
        (_changes("held", without_gates), ["held"]),
        (_changes("p", _works), ["p"]),
        (_changes("r", _works), []),
        (_removes("Node", "n"), ["named"]),
        (_removes("Node", "m"), []),
    ],
)
def test_pod_that_waits_and_reads_otherwise_now_may_be_tried(
    happens: Callable[[World], object], updated: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """scheduling.md 1.4: what filters read of it, its gates, what it says of its work; its node is gone."""
    world = _world()
    received = _listen(world, monkeypatch)
    happens(world)
    assert received.updated == updated


@pytest.mark.parametrize(
    ("happens", "retried"),
    [
        (_adds(group("team", min_count=1, priority=3)), []),
        (_adds(group("team", min_count=1, priority=2)), [2]),
        (_adds(group("team", min_count=1, priority=3, whole=True)), [3]),
        (_adds(group("crew", min_count=1, priority=2)), []),  # no pod of it runs
        (_removes("PodGroup", "default/team"), [3]),
        (_removes("PodGroup", "default/crew"), []),
        (_removes("CompositePodGroup", "default/tree"), [0]),
        (_removes("CompositePodGroup", "default/missing"), []),
        (_adds(composite("tree", min_groups=1, whole=True)), [0]),
        (_adds(group("team", min_count=1, priority=3, annotations=TERMS)), [3]),
        (_adds(group("team", min_count=1, priority=3, annotations=SAVED)), []),
        (_changes("r", _works), [3]),
        (_changes("p", _works), []),
        (_adds(priority_class("plain", 5)), []),
        (_adds(priority_class("plain", 5, TERMS)), [ALL_PRIORITIES]),
        (_adds(priority_class("other", 5, TERMS)), [ALL_PRIORITIES]),
        (_removes("PriorityClass", "plain"), []),
        (_removes("PriorityClass", "nobody"), []),
        (
            _both(_adds(priority_class("plain", 5, TERMS)), _removes("PriorityClass", "plain")),
            [ALL_PRIORITIES] * 2,
        ),
    ],
)  # fmt: skip
def test_pending_pod_is_tried_above_the_priority_of_changed_units(
    happens: Callable[[World], object], retried: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """preemption.md 2.1, cost.md 2: a unit has another priority, goes with others, or has to run for longer."""
    world = _world()
    received = _listen(world, monkeypatch)
    happens(world)
    assert received.retried == retried


@pytest.mark.parametrize("respects", [True, False])
@pytest.mark.parametrize("how", ["comes", "goes"])
def test_budget_is_news_for_those_that_respect_budgets(
    respects: bool, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cost.md 2: where no class asks for it a budget keeps back no pods, and while all is read no pod is tried."""
    annotations = annotated(pdb_policy="Respect") if respects else TERMS
    world = _world().add(priority_class("careful", 9, annotations))
    assert any(terms.respects_budgets for terms in world.engine.cluster.classes.values()) is respects
    received = _listen(world, monkeypatch)
    if how == "goes":
        world.engine.remove(ObjectRef("PodDisruptionBudget", "default/b"), world.now)
    else:
        world.engine.set(pdb("b"), world.now)
    assert received.retried == ([ALL_PRIORITIES] if respects else [])


@pytest.mark.parametrize(
    ("before", "after", "raised"),
    [
        (group("crew", min_count=1), group("crew", min_count=2), True),
        (group("crew", min_count=2), group("crew", min_count=1), False),
        (group("crew"), group("crew", min_count=1), True),
        (group("crew", min_count=1), group("crew"), False),
        (group("crew", min_count=1), group("crew", min_count=2, priority=1), False),
        (group("crew", min_count=1), group("crew", min_count=1, priority=1), False),
        (group("crew", min_count=1), group("crew", min_count=1, annotations=TERMS), False),
        (group("crew"), group("crew", annotations=TERMS), False),
        (composite("crew", min_groups=1), composite("crew", min_groups=2), True),
        (composite("crew", min_groups=2), composite("crew", min_groups=1), False),
    ],
)
def test_raised_minimum_alone_helps_no_pods(
    before: Any, after: Any, raised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """scheduling.md 1.4: the event says so, and hints read it; anything else that is new may help."""
    world = World(node("n")).add(before)
    found: list[bool] = []
    monkeypatch.setattr(world.engine.queue, "on_event", lambda event, _now, **_: found.append(event.raised))
    world.add(after)
    assert found == [raised]


def _events(world: World, monkeypatch: pytest.MonkeyPatch) -> list[ClusterEvent]:
    events: list[ClusterEvent] = []
    monkeypatch.setattr(world.engine.queue, "on_event", lambda event, _now, **_: events.append(event))
    return events


def test_only_objects_that_were_known_give_an_event_when_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """scheduling.md 7.3: an object of storage or devices that goes is an event, one that was never known is none."""
    world = World(node("n"), claim("c"))
    events = _events(world, monkeypatch)
    assert not world.engine.remove(ObjectRef("PersistentVolumeClaim", "default/nosuch"), world.now).known
    assert not events
    assert world.engine.remove(ObjectRef("PersistentVolumeClaim", "default/c"), world.now).known
    assert [event.before for event in events] == [claim("c")]


@pytest.mark.parametrize("on", ["first", "second", ""])
def test_pod_that_terminates_gives_an_event_wherever_it_runs(on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """scheduling.md 7.3: one that runs, on the first node as on any other, is an event; one that waits is not."""
    world = World(node("first"), node("second"), pod("p", node=on))
    record = world.record("p")
    events = _events(world, monkeypatch)
    world.engine.mark_terminating(record.uid, world.now)
    assert [(event.kind, event.row) for event in events] == ([(EventKind.POD_TERMINATING, record.row)] if on else [])


_SMALL, _LARGE = capacity("c", "a", "1Gi"), capacity("c", "a", "2Gi")


_CAPPED = capacity("c", "a", "9Gi", largest="1Gi")


_UNKNOWN = CSIStorageCapacity(metadata=ObjectMeta(name="c", namespace="default"), storage_class_name="wait")


@pytest.mark.parametrize(
    ("before", "after", "helps"),
    [
        (None, _SMALL, True),
        (_SMALL, _LARGE, True),
        (_LARGE, _SMALL, False),
        (_SMALL, _SMALL, False),
        (_SMALL, _CAPPED, False),  # the largest volume counts where it is set
        (_CAPPED, _LARGE, True),
        (_UNKNOWN, _SMALL, True),
        (_SMALL, _UNKNOWN, False),
        (_UNKNOWN, _UNKNOWN, False),
        (_LARGE, None, False),  # a capacity that goes
        (None, None, True),  # a driver that stops to publish any
    ],
)
def test_larger_volume_than_before_may_help_pods_that_wait_for_one(
    before: CSIStorageCapacity | None, after: CSIStorageCapacity | None, helps: bool
) -> None:
    """Upstream's isSchedulableAfterCSIStorageCapacityChange: the size of the largest volume tells."""
    world = World(node("n"), pod("p"))
    event = ClusterEvent(EventKind.STORAGE_CAPACITY_CHANGED, before=before, item=after)
    (hint,) = {hint for kind, hint in VolumeBinding(600.0).events().items() if kind is event.kind}
    assert hint(world.engine.cluster, world.record("p"), event) is helps
