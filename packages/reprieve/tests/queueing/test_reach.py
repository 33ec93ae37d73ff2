"""An entity that cannot be placed whatever goes is not tried, and deleted ones are forgotten (scheduling.md 1.7)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.queueing.entity import QueueState
from reprieve.queueing.timers import Timing
from tests.building import World, gang, node, pod
from tests.queueing.waiting import FULL, pop_all


@pytest.mark.parametrize("plain", [False, True], ids=["with the bound", "without"])
def test_nothing_is_kept_of_deleted_entities(plain: bool) -> None:
    """The record of entities out of reach (scheduling.md 1.7) forgets deleted ones; without sharing there is none."""
    running = [pod(f"r{cpu}", cpu=cpu, node="n", priority=100) for cpu in (1, 19)]
    waiting = [pod(f"p{cpu}", cpu=cpu) for cpu in range(2, 12)]
    world = World(node("n", cpu=20), *running, *waiting, plain=plain, current_reasons=False).drain()
    world.gone("r1").drain()
    reach = world.engine.reach
    assert (reach is None) is plain
    assert reach is None or reach.sizes()["waiting_entities"] == 10
    for cpu in range(2, 12):
        world.gone(f"p{cpu}")
        assert reach is None or reach.sizes()["waiting_entities"] == 11 - cpu
    assert len(world.engine.queue) == 0


def test_pod_out_of_reach_delays_no_pods_behind_it() -> None:
    """scheduling.md 1.7: many wait; those that cannot fit whatever goes are passed over, the others are woken."""
    running = [pod(f"r{cpu}", cpu=cpu, node="n", priority=100) for cpu in (1, 19)]
    large = [pod(f"a{turn}", cpu=2, memory=f"{turn + 1}Mi") for turn in range(40)]
    small = pod("z", cpu=1)
    world = World(node("n", cpu=20), *running, *large, small).drain()
    assert world.place("z") is QueueState.UNSCHEDULABLE
    world.gone("r1")
    assert world.place("a0") is QueueState.UNSCHEDULABLE
    assert world.place("z") is not QueueState.UNSCHEDULABLE
    world.settle()
    assert world.where["z"] == "n"


# -- without a reader of reasons, an entity that is out of reach at its turn is not tried ----------------------------

AT_ONCE = Timing(initial_backoff=0.0, max_backoff=0.0)


def _waits(*items: object) -> World:
    return World(*items, timing=AT_ONCE, current_reasons=False).drain()  # type: ignore[arg-type]


def test_woken_pod_without_capacity_is_not_tried() -> None:
    """scheduling.md 1.7: both are woken, the first has the capacity, and trying the second would not help."""
    world = _waits(*FULL, pod("a", cpu=1), pod("b", cpu=1, memory="1Gi"))
    tried = world.engine.attempts
    world.gone("r").drain()
    assert world.where == {"a": "n"}
    assert world.engine.attempts == tried + 1
    assert world.place("b") is QueueState.UNSCHEDULABLE
    assert world.gone("a").drain().where == {"b": "n"}


def test_pod_not_tried_for_lack_of_capacity_waits_for_earlier_rejections() -> None:
    """scheduling.md 1.7: "then also waits for capacity, whatever rejected it before"."""
    world = _waits(node("n", cpu=1), pod("picky", cpu=1, selector={"zone": "a"}), pod("large", cpu=2, priority=1))
    assert world.entity("picky").rejected_by == {"NodeAffinity"}
    world.add(node("m", cpu=2, labels={"zone": "a"})).drain()
    assert world.where == {"large": "m"}
    assert world.entity("picky").rejected_by == {"NodeAffinity", "NodeResourcesFit"}
    assert world.gone("large").drain().where == {"picky": "m"}


@pytest.mark.parametrize("alike", [1, 2])
def test_pod_not_woken_for_lack_of_capacity_waits_for_it(alike: int) -> None:
    """scheduling.md 1.7: the node that matches is full when it comes; when it is not any more, the first has it."""
    picky = [pod(f"p{turn}", cpu=1, selector={"zone": "a"}) for turn in range(alike)]
    world = _waits(node("n", cpu=4), pod("x", cpu=1, node="m", priority=100), *picky)
    tried = world.engine.attempts
    world.add(node("m", cpu=1, labels={"zone": "a"})).drain()
    assert world.engine.attempts == tried
    assert world.gone("x").drain().where == {"p0": "m"}


@pytest.mark.parametrize("how", ["trouble", "at once"])
def test_pod_not_rejected_is_tried_again_though_out_of_reach(how: str) -> None:
    """Trouble says nothing of room: why it waits is found out first."""
    world = World(*FULL, pod("p", cpu=1), timing=AT_ONCE, current_reasons=False)
    queue = world.engine.queue
    (entity,) = pop_all(world)
    (queue.retry_later if how == "trouble" else queue.requeue_now)(entity, world.now)
    assert pop_all(world) == [entity]
    queue.requeue(entity, world.now, {"NodeResourcesFit"})
    queue.wake(entity.ref, world.now)
    assert pop_all(world) == []
    assert entity.state is QueueState.UNSCHEDULABLE


def test_pod_that_asks_for_less_is_tried_as_what_it_is_now() -> None:
    """What is known of its reach is of what it asked for before."""
    world = _waits(node("n", cpu=2), pod("r", cpu=1, node="n", priority=100), pod("p", cpu=2))
    world.change_pod("p", lambda item: replace(item, spec=pod("p", cpu=1).spec)).drain()
    assert world.where == {"p": "n", "r": "n"}


def test_rest_of_a_gang_needs_only_room_for_itself() -> None:
    """scheduling.md 3.3: those that run count for the minimum, so that one place more is enough for the third."""
    running = [pod(f"r{turn}", cpu=1, node="n", priority=100) for turn in range(3)]
    world = _waits(node("n", cpu=3), *running, *gang("crew", 3, min_count=2, cpu=1))
    world.gone("r0").gone("r1").drain()
    assert set(world.where) == {"crew-0", "crew-1", "r2"}
    assert set(world.gone("r2").drain().where) == {"crew-0", "crew-1", "crew-2"}


def test_gang_of_another_priority_is_tried_as_what_it_is_now() -> None:
    """With a priority above that of the pod in the way it is no longer out of reach."""
    items = [node("n", cpu=1), pod("r", cpu=1, node="n", priority=5)]
    world = _waits(*items, *gang("crew", 1, cpu=1, priority=1))
    assert world.place("crew") is QueueState.UNSCHEDULABLE
    spec, member = gang("crew", 1, cpu=1, priority=9)
    world.add(spec).change_pod("crew-0", lambda item: replace(item, spec=member.spec)).settle()  # type: ignore[attr-defined]
    assert world.evicted == ["r"]


@pytest.mark.parametrize(("pods", "tried"), [(32, 32), (33, 0)])
def test_more_than_32_waiting_pods_are_checked_against_the_bound_first(pods: int, tried: int) -> None:
    """scheduling.md 1.7: both sides of the bound; half a core is no room for any of them."""
    running = [pod(name, cpu=cpu, node="n", priority=100) for name, cpu in (("r", "500m"), ("s", "3500m"))]
    world = World(node("n", cpu=4), *running, *[pod(f"p{turn:02}", cpu=1) for turn in range(pods)]).drain()
    world.virtual.now += 60
    before = world.engine.attempts
    world.gone("r").drain()
    assert world.engine.attempts == before + tried


def test_gang_that_loses_a_member_is_judged_by_those_that_are_left() -> None:
    """scheduling.md 1.7: two small ones would be enough; with one of them gone the large one has to fit as well."""
    running = [pod(f"r{turn}", cpu=1, node="n", priority=100) for turn in range(2)]
    others = [pod(f"p{turn:02}", cpu=3) for turn in range(40)]
    crew = gang("crew", 2, min_count=2, cpu=1)
    world = World(node("n", cpu=2), *running, *crew, pod("large", cpu=9, group="crew"), *others).drain()
    queue, event = world.engine.queue, ClusterEvent(EventKind.POD_GONE, row=world.row("n"))
    queue.on_event(event, world.now)
    assert world.place("crew") is QueueState.UNSCHEDULABLE
    for name in running:
        world.engine.cluster.displace(world.record(name.metadata.name))
    queue.remove_pod(world.record("crew-1"), world.now)
    queue.on_event(event, world.now)
    assert world.place("crew") is QueueState.UNSCHEDULABLE


def test_gang_that_needs_fewer_is_tried_as_what_it_is_now() -> None:
    """scheduling.md 3.8: `minCount` counts as it is at the next cycle, and an event of its own wakes a gang."""
    world = _waits(*FULL, *gang("crew", 2, cpu=1))
    world.gone("r").drain()
    assert world.where == {}
    world.add(gang("crew", 2, min_count=1)[0]).drain()
    assert world.where == {"crew-0": "n"}


def test_without_readers_of_reasons_even_one_pod_is_checked_against_the_bound() -> None:
    """A gang of one that cannot have what is free is not tried, however few wait."""
    running = [pod(f"r{turn}", cpu=1, node="n", priority=100) for turn in range(2)]
    world = _waits(node("n", cpu=2), *running, *gang("crew", 1, cpu=2))
    tried = world.engine.attempts
    world.gone("r0").drain()
    assert world.engine.attempts == tried
    assert world.gone("r1").drain().where == {"crew-0": "n"}
