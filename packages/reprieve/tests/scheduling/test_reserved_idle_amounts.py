"""The order of long-pending workloads, and how much may be idle because it is reserved."""

from __future__ import annotations

import heapq
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kube_rules import objects
from tests.building import START, gang, node, pod
from tests.scheduling.test_advance_reservations import DUE, HOUR, MINUTE, after, full, held, pair, runs, world_of


def contest(priority: int, **options: Any) -> str:
    """Which of two pods gets the only node when it is free after two hours: the old one or one that has just come."""
    world = world_of(node("n0"), runs("r0", "n0", priority=1 << 30), pod("old", cpu=4), reserve_after=0.0, **options)
    after(world.drain(), 2 * HOUR)
    world.add(pod("young", cpu=4, priority=priority))
    after(world, 2 * HOUR + 5)
    world.gone("r0")
    after(world, 2 * HOUR + 60)
    return next(name for name in ("old", "young") if name in world.where)


@pytest.mark.parametrize(
    ("priority", "options", "first"),
    [
        (5, {}, "young"),
        (5, {"ageing": 3 * HOUR}, "young"),
        (0, {"ageing": 3 * HOUR}, "old"),
        (2_000_000_000, {"ageing": HOUR}, "young"),
    ],
)
def test_order_of_what_has_not_waited_for_long(priority: int, options: dict[str, Any], first: str) -> None:
    """reservations.md 8.1"""
    assert contest(priority, **options) == first


def test_age_counts_from_the_first_failed_attempt_on() -> None:
    """reservations.md 8.1"""
    items = [node("n0"), runs("r0", "n0", priority=9), pod("old", cpu=4)]
    world = world_of(items, reserve_after=0.0, ageing=HOUR).drain()
    queue, ref = world.engine.queue, world.entity("old").ref
    for seconds, old in ((HOUR - 1, False), (HOUR, True)):
        queue.tick(START + seconds)
        assert queue.is_old(ref) is old


@pytest.mark.parametrize(("told", "old"), [(HOUR, True), (HOUR / 2, False), (None, False)])
def test_standby_knows_the_age_of_what_it_never_tried(told: float | None, old: bool) -> None:
    """reservations.md 1.2, 8.1: it heard of the pod before the leader had tried it."""
    item = pod("old", cpu=4)
    standby = world_of(node("n0"), item, reserve_after=0.0, ageing=HOUR)
    if told is not None:
        since = datetime.fromtimestamp(START - told, UTC)
        refused = objects.PodCondition(
            type="PodScheduled", status="False", reason="Unschedulable", last_transition_time=since
        )
        standby.engine.set(replace(item, status=replace(item.status, conditions=(refused,))), START)
    standby.engine.tick(START)
    assert standby.engine.queue.is_old(standby.entity("old").ref) is old


def test_what_has_waited_for_long_is_tried_first_and_evicts_no_more() -> None:
    """reservations.md 8.1, 8.2"""
    world = world_of(node("n0"), node("n1"), reserve_after=0.0, ageing=HOUR)
    world.add(runs("high", "n0", priority=9), runs("r1", "n1", priority=9), pod("old", cpu=4))
    after(world.drain(), 2 * HOUR).drain()
    assert world.engine.queue.is_old("pod/" + world.record("old").uid)
    assert not world.evicted
    world.add(pod("young", cpu=4, priority=5, never=True))
    after(world, 2 * HOUR + 5)
    world.gone("r1")
    after(world, 3 * HOUR)
    assert world.where.get("old") == "n1"
    assert world.pending == ["young"]


# -- what is idle (5) --------------------------------------------------------------------------------------------------


def test_what_is_idle_is_measured() -> None:
    """reservations.md 5.1"""
    world = after(world_of(full(), pair()).drain(), DUE + 5)
    assert world.engine.reservations.idle_amounts.amounts == {"cpu": 0}
    world.gone("r0")
    after(world, DUE + MINUTE)
    world.engine.tick(world.now)
    assert world.engine.reservations.idle_amounts.amounts == {"cpu": 4000}


def test_youngest_reservation_with_idle_amounts_ends_when_too_much_is_idle() -> None:
    """reservations.md 5.2"""
    items = [*full(6), *gang("a", 3, cpu=4), *gang("b", 3, cpu=4)]
    world = after(world_of(items, max_idle_share=0.01).drain(), HOUR)
    assert sorted(held(world)) == ["a", "b"]
    world.gone("r0").gone("r3")
    # A third of the cluster is idle, all of it for the first: a hundredth of ten days is reached after 7.2 hours.
    for hour in range(2, 9):
        after(world, hour * HOUR)
        assert len(held(world)) == 2
    after(world, 8.25 * HOUR)  # nothing else happens
    assert sorted(held(world)) == ["b"]
    assert any("more than 1 % of the cluster was idle" in one.message for one in world.released())


def test_no_reservation_waits_for_old_pods_beside_idle_nodes() -> None:
    """reservations.md 5.3: a tenth of ten days of the whole cluster may be idle, half of it for two days."""
    nodes, waiting = [node("n0"), node("n1")], pair()
    assert held(after(world_of(nodes, runs("r0", "n0", start=-46 * HOUR), waiting).drain(), HOUR))
    assert not held(after(world_of(nodes, runs("r0", "n0", start=-49 * HOUR), waiting).drain(), HOUR))
    world = after(world_of(full(), waiting, max_idle_share=0.01).drain(), 5 * HOUR)
    assert held(world)
    world.gone("r0")  # the other one has run for five hours: 2.5 hours of the cluster are more than 2.4
    after(world, 5 * HOUR + 2 * MINUTE)
    assert not held(world)
    assert "run for as long again" in world.released()[-1].message


def test_long_pending_gang_gets_a_reservation_beside_an_old_pod() -> None:
    """reservations.md 5.3: after ten `maxReserved`, and no more is idle than 5.2 allows."""
    items = [node("n0"), node("n1"), runs("r0", "n0", start=-999 * HOUR), pair()]
    world = after(world_of(items, max_reserved=HOUR).drain(), HOUR)
    for hour, reserved in ((9, False), (11, True)):
        after(world.add(pod("brief", cpu=4)), hour * HOUR)
        assert (world.where["brief"], bool(held(world))) == ("n1", False)
        after(world.gone("brief"), hour * HOUR + 2 * MINUTE)
        assert bool(held(world)) is reserved
    after(world, 12.5 * HOUR)
    assert not held(world)


@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 90)), min_size=8, max_size=30), st.sampled_from([0.05, 0.2])
)
def test_no_more_is_idle_than_may_be_within_any_such_time(small: list[tuple[int, int]], most: float) -> None:
    """reservations.md 5.2: over every ten `maxReserved`, whatever comes and ends."""
    world = world_of([node(f"n{i}") for i in range(4)], max_idle_share=most, max_reserved=HOUR).drain()
    idle = world.engine.reservations.idle_amounts
    ended: list[tuple[float, str]] = []
    shares: list[float] = []
    for minute in range(0, 24 * 60, 5):
        after(world, minute * MINUTE)
        shares.append(idle.amounts.get("cpu", 0) / 16000)
        if minute in (5, 10):
            world.add(gang(f"g{minute}", 4, cpu=4))
        for number, (begin, minutes) in enumerate(small):
            for turn in range(6):
                if minute == 5 * begin + 240 * turn:
                    world.add(pod(f"s{number}-{turn}", cpu=2))
                    heapq.heappush(ended, (minute + minutes, f"s{number}-{turn}"))
        while ended and ended[0][0] <= minute:
            world.gone(heapq.heappop(ended)[1])
    event(f"idle at some time: {max(shares) > 0}")
    window = 120  # of five minutes each
    for first in range(len(shares) - window):
        assert sum(shares[first : first + window]) <= most * window + 2
