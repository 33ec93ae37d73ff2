"""What may not be tried yet: pods behind their gates, gangs that wait for members or their object (scheduling.md 1)."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.meta import ObjectRef
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.plugin import PreEnqueuePlugin
from reprieve.framework.status import SUCCESS, Code, Status
from reprieve.queueing.entity import QueueState
from tests.building import World, check_queue, composite, gang, group, node, pod, profile_with, without_gates
from tests.plugins.devices import claim as device_claim
from tests.plugins.devices import device_class, devices, slice_of, user, why
from tests.queueing.waiting import FULL, pop_all, wake


def test_gated_pod_waits_until_its_gates_are_off() -> None:
    """scheduling.md 1.2: gated by schedulingGates."""
    world = World(node("n"), pod("p", gates=["g"])).drain()
    assert world.place("p") is QueueState.GATED
    assert world.entity("p").gate.reason == "Scheduling is blocked due to non-empty scheduling gates"
    world.change_pod("p", without_gates)
    assert world.settle().where == {"p": "n"}


def test_gang_with_too_few_ready_pods_waits_for_its_gated_ones() -> None:
    """A member behind a gate exists, but cannot be placed: below minCount the gang is not tried."""
    world = World(node("n"), group("crew", min_count=2), pod("a", group="crew"), pod("b", group="crew", gates=["g"]))
    world.drain()
    assert world.place("crew") is QueueState.GATED
    assert world.entity("crew").gate.reason == "Scheduling is blocked due to non-empty scheduling gates"
    world.change_pod("b", without_gates)
    assert sorted(world.settle().where) == ["a", "b"]


@pytest.mark.parametrize("least", [1, None], ids=["gang", "basic"])
def test_one_gated_pod_holds_its_group_whatever_the_policy(least: int | None) -> None:
    """scheduling.md 1: as kube-scheduler, which gates the entity as a whole; without the gate all are tried."""
    members = (pod("a", group="crew"), pod("b", group="crew", gates=["g"]))
    world = World(node("n"), group("crew", min_count=least), *members).settle()
    assert world.where == {}
    assert world.place("crew") is QueueState.GATED
    world.change_pod("b", without_gates)
    assert sorted(world.settle().where) == ["a", "b"]


def test_group_goes_on_once_its_gated_pod_is_deleted() -> None:
    """scheduling.md 1."""
    members = (pod("a", group="crew"), pod("b", group="crew", gates=["g"]))
    world = World(node("n"), group("crew", min_count=1), *members).settle()
    assert world.where == {}
    assert world.gone("b").settle().where == {"a": "n"}


def test_reasons_of_waiting_gangs() -> None:
    """observability.md 1.4: the waiting reasons of gated gangs."""
    world = World(node("n"), pod("a", group="crew"), pod("b", group="team"), group("team", min_count=2)).drain()
    assert world.entity("crew").gate.reason == 'waiting for pods\'s pod group "crew" to appear in scheduling queue'
    assert world.entity("team").gate.reason == "waiting for minCount pods from a gang to appear in scheduling queue"


@pytest.mark.parametrize("first", ["object", "pods"])
def test_gang_starts_whatever_comes_first(first: str) -> None:
    """The object after its pods, or before; bound members count too."""
    parts: list[Any] = [group("crew", min_count=2), pod("a", group="crew"), pod("b", group="crew", node="n")]
    world = World(node("n")).add(*(parts if first == "object" else parts[::-1]))
    assert sorted(world.settle().where) == ["a", "b"]


def test_bound_member_that_appears_later_opens_the_gate() -> None:
    """minCount counts pods in existence, however they come."""
    world = World(node("n"), group("crew", min_count=2), pod("a", group="crew")).drain()
    assert world.place("crew") is QueueState.GATED
    world.add(pod("b", group="crew", node="n"))
    assert world.place("crew") is QueueState.ACTIVE


@pytest.mark.parametrize("how", ["gone", "terminating"])
@pytest.mark.parametrize("which", ["pending", "running"])
def test_gang_that_loses_a_member_waits_for_another(how: str, which: str) -> None:
    """scheduling.md 3.8: pods deleted: below minCount it is gated again, wherever it was."""
    there = {"node": "n"} if which == "running" else {}
    world = World(*FULL, group("crew", min_count=3), pod("a", group="crew", cpu=1), pod("b", group="crew", cpu=1))
    world.add(pod("c", group="crew", **there)).drain()  # type: ignore[arg-type]
    assert world.place("crew") is QueueState.UNSCHEDULABLE
    uid = world.record("c").uid
    if how == "gone":
        world.engine.remove(ObjectRef("Pod", uid=uid), world.now)
    else:
        world.engine.mark_terminating(uid, world.now)
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
def test_raised_minimum_helps_no_pods_unless_more_is_new(wakes: bool) -> None:
    """scheduling.md 1: with a priority above that of the pod in the way it may preempt."""
    world = World(*FULL, *gang("crew", 1, cpu=1), pod("m", group="crew", cpu=1)).drain()
    assert world.place("crew") is QueueState.UNSCHEDULABLE
    world.add(group("crew", min_count=2, priority=200 if wakes else 0))
    assert world.place("crew") is (QueueState.BACKOFF if wakes else QueueState.UNSCHEDULABLE)


def test_object_deleted_and_recreated() -> None:
    """scheduling.md 3.8: without its object the gang waits; the new object is what counts."""
    world = World(*FULL, *gang("crew", 2, cpu=1)).drain()
    world.engine.remove(ObjectRef("PodGroup", "default/crew"), world.now)
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
        world.engine.remove(ObjectRef("PodGroup", "default/crew"), world.now)
        queue = world.engine.queue
        assert (len(queue), world.engine.cluster.groups) == (0, {})
        assert queue.pop(world.now + 1000) is None
        assert queue.next_wakeup() is None


@pytest.mark.parametrize("how", ["requeue", "requeue_now", "retry_later"])
def test_gang_that_lost_its_object_in_its_cycle_is_gated_however_the_cycle_ends(how: str) -> None:
    """scheduling.md 1: a group waits for its object, whatever its attempt came to."""
    world = World(*FULL, *gang("crew", 2, cpu=1))
    queue = world.engine.queue
    (entity,) = pop_all(world)
    world.engine.remove(ObjectRef("PodGroup", "default/crew"), world.now)
    assert queue.counts()[QueueState.IN_CYCLE] == 1
    if how == "requeue":
        queue.requeue(entity, world.now, {"GangScheduling"})
    else:
        getattr(queue, how)(entity, world.now)
    assert entity.state is QueueState.GATED
    assert "to appear" in entity.gate.reason
    check_queue(world.engine)


def _gated(item: objects.Pod) -> objects.Pod:
    return replace(item, spec=replace(item.spec, scheduling_gates=(objects.PodSchedulingGate(name="g"),)))


@pytest.mark.parametrize("state", [QueueState.ACTIVE, QueueState.BACKOFF, QueueState.UNSCHEDULABLE])
def test_pod_that_is_held_back_again_is_gated_wherever_it_was(state: QueueState) -> None:
    """scheduling.md 1: what a PreEnqueue plugin says no to is not tried, though it was to be."""
    world = World(*FULL, pod("p", cpu=1))
    if state is not QueueState.ACTIVE:
        world.drain()
    if state is QueueState.BACKOFF:
        wake(world)
    assert world.place("p") is state
    world.change_pod("p", _gated)
    assert world.place("p") is QueueState.GATED
    assert list(world.entity("p").gated_pods) == ["uid-p"]
    assert not world.entity("p").ready
    world.gone("r")
    assert world.settle().where == {}
    assert world.change_pod("p", without_gates).settle().where == {"p": "n"}


@pytest.mark.parametrize("drained", [False, True], ids=["to be tried", "waits for a device"])
def test_pod_with_a_deleted_claim_waits_for_it(drained: bool) -> None:
    """scheduling.md 1: DynamicResources holds back a pod with a missing claim, also if it is deleted only now."""
    world = World(node("n"), device_class(), device_claim(), user("p", "c"))
    if drained:
        world.drain()
    world.engine.remove(ObjectRef("ResourceClaim", "default/c"), world.now)
    assert world.place("p") is QueueState.GATED
    assert world.settle().where == {}
    assert why(world) == 'resourceclaim.resource.k8s.io "c" not found'
    assert world.add(device_claim(), slice_of("n", devices(1))).settle().where == {"p": "n"}


def test_member_that_is_held_back_again_holds_its_gang() -> None:
    """scheduling.md 1: the gang waits behind the gate of a member, whether it has enough others or not."""
    for least in (1, 2):
        world = World(node("n"), *gang("crew", 2, min_count=least, cpu=1))
        assert world.place("crew") is QueueState.ACTIVE
        assert world.change_pod("crew-1", _gated).place("crew") is QueueState.GATED


@pytest.mark.parametrize("running", [0, 1])
def test_gated_pod_holds_its_tree(running: int) -> None:
    """composite.md 2.4: the tree is one entity, whether the other pods of the leaf are enough or not."""
    world = World(node("n"), composite("root", min_groups=2), *gang("a", 1, cpu=1, parent="root"))
    there = [pod(f"b-r{turn}", group="b", cpu=1, node="n") for turn in range(running)]
    world.add(group("b", min_count=2, parent="root"), *there, pod("b-0", group="b", cpu=1))
    world.add(pod("b-1", group="b", cpu=1, gates=["g"]))
    assert world.place("root") is QueueState.GATED
    assert world.gone("b-1").place("root") is (QueueState.ACTIVE if running else QueueState.GATED)


class Unsure(PreEnqueuePlugin):
    """Fails until it is `well`."""

    name = "Unsure"

    def __init__(self) -> None:
        self.well = False
        self.calls = 0

    def pre_enqueue(self, cluster: ClusterState, pod: PodRecord) -> Status:
        """See the class."""
        self.calls += 1
        return SUCCESS if self.well else Status(Code.ERROR, "trouble", self.name)


class UnsureOfGroups(Unsure):
    """The same of groups."""

    concerns_group: ClassVar[bool] = True


@pytest.mark.parametrize("plugin", [Unsure, UnsureOfGroups])
def test_plugin_that_failed_is_called_again_without_an_event(plugin: type[Unsure]) -> None:
    """scheduling.md 1: it has not said no; it is called again after the longest backoff, as often as it fails."""
    unsure = plugin()
    profile = profile_with(unsure)
    world = World(node("n"), *gang("crew", 2, cpu=1), profiles={profile.name: profile})
    queue, start = world.engine.queue, world.now
    for turn in (1, 2, 3):
        assert world.place("crew") is QueueState.GATED
        assert queue.next_wakeup() == start + 10 * turn
        calls = unsure.calls
        unsure.well = turn == 3
        queue.tick(start + 10 * turn - 0.1)
        assert unsure.calls == calls
        queue.tick(start + 10 * turn)
        assert unsure.calls > calls
    assert world.place("crew") is QueueState.ACTIVE


def test_plugin_that_fails_for_an_active_pod_is_called_again_too() -> None:
    """scheduling.md 1: the gang is gated, and let through once the plugin is well, though nothing happens."""
    unsure = UnsureOfGroups()
    unsure.well = True
    profile = profile_with(unsure)
    world = World(node("n"), *gang("crew", 2, cpu=1), profiles={profile.name: profile})
    assert world.place("crew") is QueueState.ACTIVE
    unsure.well = False
    world.add(group("crew", min_count=1))
    assert world.place("crew") is QueueState.GATED
    assert world.engine.queue.next_wakeup() == world.now + 10
    unsure.well = True
    world.engine.queue.tick(world.now + 10)
    assert world.place("crew") is QueueState.ACTIVE


def test_plugins_that_failed_are_each_called_when_due() -> None:
    """The first that is due is called first, and not for a deleted pod."""
    unsure = Unsure()
    profile = profile_with(unsure)
    world = World(node("n"), profiles={profile.name: profile})
    queue, start = world.engine.queue, world.now
    for turn in range(3):
        world.virtual.now = start + turn
        world.add(pod(f"p{turn}", cpu=1))
    world.gone("p0")
    unsure.well = True
    queue.tick(start + 11)
    assert (world.place("p1"), world.place("p2")) == (QueueState.ACTIVE, QueueState.GATED)
    assert queue.next_wakeup() == start + 12
    queue.tick(start + 12)
    assert world.place("p2") is QueueState.ACTIVE


def test_gang_that_lost_its_object_is_not_woken_past_its_gate() -> None:
    """scheduling.md 1: a gated entity waits for its gate, even if it is woken."""
    world = World(*FULL, *gang("crew", 2, cpu=1)).drain()
    world.engine.remove(ObjectRef("PodGroup", "default/crew"), world.now)
    for key in ("group/default/crew", "group/default/missing"):
        world.engine.queue.wake(key, world.now)
    assert world.place("crew") is QueueState.GATED
