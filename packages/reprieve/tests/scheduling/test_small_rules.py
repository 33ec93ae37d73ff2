"""Rules of one line between the queue, the cluster and the plugins."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kube_rules.meta import ObjectMeta, ObjectRef, OwnerReference
from kube_rules.objects import ResourceQuota
from kube_rules.owners import ReplicaSet
from kube_rules.storage import CSIStorageCapacity
from reprieve.cluster.groups import GroupState
from reprieve.cluster.resources import readable
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.framework.gates import FeatureGates
from reprieve.framework.status import SUCCESS, Code, Status
from reprieve.plugins.volume_binding import VolumeBinding
from reprieve.scheduling.arrival_order import in_order
from reprieve.scheduling.group_algorithm import progress
from tests.building import World, composite, group, node, pdb, pod
from tests.plugins.devices import allocated, device_class, devices, slice_of, taint_rule, user
from tests.plugins.devices import claim as device_claim
from tests.plugins.devices import request as device_request
from tests.plugins.storage import capacity, claim

WAIT = Status(Code.WAIT, "wait")
NO = Status(Code.UNSCHEDULABLE, "no")
NEVER = Status(Code.UNSCHEDULABLE, "never")


@pytest.mark.parametrize(
    ("answers", "expected", "asked"),
    [
        ([], SUCCESS, 0),
        ([SUCCESS, SUCCESS], SUCCESS, 2),
        ([WAIT, SUCCESS], WAIT, 2),
        ([SUCCESS, NO, WAIT], NO, 2),
        ([WAIT, NO, NEVER], NO, 2),
    ],
)
def test_the_answers_of_several_placement_feasible_plugins(answers: list[Status], expected: Status, asked: int) -> None:
    """scheduling.md 3.2: who says that it cannot be reached any more ends it; others are asked on."""
    said: list[Status] = []

    def plugin(answer: Status) -> Any:
        def feasible(_group: GroupState, *, scheduled: int, remaining: int) -> Status:
            assert (scheduled, remaining) == (1, 2)
            said.append(answer)
            return answer

        return SimpleNamespace(name="Stub", feasible=feasible)

    profile: Any = SimpleNamespace(placement_feasible=[plugin(answer) for answer in answers])
    assert progress(profile, GroupState("default/g"), 1, 2) is expected
    assert len(said) == asked


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
def test_a_pod_that_terminates_gives_an_event_wherever_it_runs(on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """scheduling.md 7.3: one that runs, on the first node as on any other, is an event; one that waits is not."""
    world = World(node("first"), node("second"), pod("p", node=on))
    record = world.record("p")
    events = _events(world, monkeypatch)
    world.engine.pod_terminating(record.uid, world.now)
    assert [(event.kind, event.row) for event in events] == ([(EventKind.POD_TERMINATING, record.row)] if on else [])


def test_the_controller_of_a_controller_is_forgotten_with_it() -> None:
    """preemption.md 6: pods belong together by the highest controller that is known, and only as long as it is."""
    above = OwnerReference(api_version="apps/v1", kind="Deployment", name="web", uid="u", controller=True)
    replica_set = ReplicaSet(metadata=ObjectMeta(name="web-1", namespace="default", owner_references=(above,)))
    world = World(node("n")).add(replica_set)
    controllers, owner = world.engine.cluster.controllers, ("apps/v1", "ReplicaSet", "web-1")
    assert controllers.highest("default", owner) == ("apps/v1", "Deployment", "web")
    assert controllers.highest("other", owner) == owner
    assert world.engine.remove(ObjectRef("ReplicaSet", "default/web-1"), world.now).known
    assert controllers.highest("default", owner) == owner
    assert not world.engine.remove(ObjectRef("ReplicaSet", "default/web-1"), world.now).known


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("cpu", 1000, "1"),
        ("cpu", 1500, "1500m"),
        ("cpu", 1001, "1001m"),
        ("cpu", 0, "0"),
        ("memory", 3 << 30, "3Gi"),
        ("memory", (3 << 30) + (1 << 20), "3073Mi"),
        ("memory", (1 << 20) + (1 << 10), "1025Ki"),
        ("memory", (1 << 10) + 1, "1025"),
        ("ephemeral-storage", 5 << 20, "5Mi"),
        ("hugepages-2Mi", 2 << 20, "2Mi"),
        ("nvidia.com/gpu", 1024, "1024"),
        ("pods", 2000, "2000"),
    ],
)
def test_amounts_are_written_as_people_write_them(name: str, value: int, text: str) -> None:
    """The largest unit that leaves no rest; other resources are counted."""
    assert readable(name, value) == text


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
        (_SMALL, _CAPPED, False),  # the largest volume counts where it is said
        (_CAPPED, _LARGE, True),
        (_UNKNOWN, _SMALL, True),
        (_SMALL, _UNKNOWN, False),
        (_UNKNOWN, _UNKNOWN, False),
        (_LARGE, None, False),  # a capacity that goes
        (None, None, True),  # a driver that stops to publish any
    ],
)
def test_a_larger_volume_than_before_may_help_who_waits_for_one(
    before: CSIStorageCapacity | None, after: CSIStorageCapacity | None, helps: bool
) -> None:
    """Upstream's isSchedulableAfterCSIStorageCapacityChange: the size of the largest volume tells."""
    world = World(node("n"), pod("p"))
    event = ClusterEvent(EventKind.STORAGE_CAPACITY_CHANGED, before=before, item=after)
    (hint,) = {hint for kind, hint in VolumeBinding(600.0).events().items() if kind is event.kind}
    assert hint(world.engine.cluster, world.record("p"), event) is helps


def test_what_is_there_at_the_start_is_learnt_in_the_order_in_which_it_is_needed() -> None:
    """Nodes, budgets, groups of every level, the rest, pods that run, pods that wait; of a kind the oldest first."""
    items: list[Any] = [
        (pod("waits", node=""), 1.0),
        (pod("runs", node="n"), 9.0),
        (claim("c"), 0.0),
        (group("g"), 3.0),
        (composite("c"), 2.0),
        (pdb("b"), 1.0),
        (node("later"), 5.0),
        (node("n"), 4.0),
        (pod("older", node=""), 0.5),
    ]
    assert [(type(item).__name__, item.metadata.name) for item, _ in in_order(items)] == [
        ("Node", "n"),
        ("Node", "later"),
        ("PodDisruptionBudget", "b"),
        ("CompositePodGroup", "c"),
        ("PodGroup", "g"),
        ("PersistentVolumeClaim", "c"),
        ("Pod", "runs"),
        ("Pod", "older"),
        ("Pod", "waits"),
    ]


def test_what_the_scheduler_does_not_read_is_refused_or_unknown() -> None:
    """Kinds that are not in the table are refused; a rule about taints needs its gate."""
    world = World(node("n"))
    with pytest.raises(TypeError, match="ResourceQuota is not a kind that the scheduler reads"):
        world.engine.set(ResourceQuota(metadata=ObjectMeta(name="x")), world.now)
    assert not world.engine.reads("ResourceQuota")
    assert not world.engine.remove(ObjectRef("ResourceQuota", "x"), world.now).known
    for on in (True, False):
        world = World(node("n"), gates=FeatureGates.of({"DRADeviceTaintRules": on}))
        world.engine.set(taint_rule(), world.now)
        assert world.engine.remove(ObjectRef("DeviceTaintRule", "rule"), world.now).known is on


def _sharing() -> World:
    """Two victims on one node use two claims, and a preemptor has just decided to have all of their devices."""
    status = allocated(("gpu.example.com", "n", "gpu-0"), to=("uid-low0", "uid-low1"))
    more = allocated(("gpu.example.com", "n", "gpu-1"), to=("uid-low0",))
    low = [user("low0", "c", "d", node="n"), user("low1", "c", node="n")]
    return World(
        node("n", cpu=4),
        device_class(),
        slice_of("n", devices(2), driver="gpu.example.com"),
        device_claim("c", status=status),
        device_claim("d", status=more),
        device_claim("all", device_request(count=2)),
        *low,
        user("p", "all", priority=9),
    )


def _given_back(world: World, name: str, *, to: tuple[str, ...] = ()) -> None:
    """The API has taken everybody else off the claim."""
    had = {"c": "gpu-0", "d": "gpu-1"}[name]
    status = allocated(("gpu.example.com", "n", had), to=to) if to else None
    world.engine.set(device_claim(name, status=status), world.now)


@pytest.mark.parametrize("last", ["c", "d"])
def test_a_victim_is_waited_for_until_its_devices_are_given_back(last: str) -> None:
    """KEP-5690: pods are gone before the API has taken them off their claims; nobody else is evicted meanwhile."""
    world = _sharing()
    decision = world.step()
    assert decision.preemption is not None
    assert [pod.name for verdict in decision.preemption.victims for pod in verdict.unit.pods] == ["low0", "low1"]
    key = decision.key
    world.engine.preemption_done(key, world.now)
    world.gone("low0").gone("low1")
    assert world.engine.preempting(key), "all devices are still taken"
    _given_back(world, "c", to=("uid-low0",))
    assert world.engine.preempting(key), "of one victim alone"
    first = "d" if last == "c" else "c"
    _given_back(world, first)
    assert world.engine.preempting(key)
    _given_back(world, last)
    assert not world.engine.preempting(key)
    assert world.engine._resources._lingering == {}
    assert world.settle().where == {"p": "n"}
