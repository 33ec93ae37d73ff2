"""Pods that use reserved capacity until its holder starts (reservations.md 4)."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.work_annotations import BACKFILLED_UNTIL, moment
from reprieve.cluster.evictions import EvictedUnit, EvictionHistory, EvictionLimit
from reprieve.plugins.reservations import ReservationOptions, ReservationsPlugin
from tests.building import START, World, annotated, gang, node, pod, profile_with
from tests.scheduling.test_advance_reservations import (
    DUE,
    EARLY,
    HOUR,
    MINUTE,
    after,
    ends,
    full,
    held,
    pair,
    runs,
    world_of,
)


def backfill_world(**options: Any) -> World:
    """n0 is free from 20 minutes on, n1 from three hours on; both are reserved."""
    items = [node("n0"), node("n1"), runs("r0", "n0", expected_runtime="20m"), runs("r1", "n1", expected_runtime="3h")]
    world = after(world_of(items, pair(), **options).drain(), 20 * MINUTE)
    assert held(world)["train"].expected_start == START + 3 * HOUR
    return world.gone("r0")


@pytest.mark.parametrize(
    ("terms", "placed"),
    [
        ({"expected_runtime": "2h"}, True),
        ({"expected_runtime": "2h33m"}, False),
        ({"expected_runtime": "4h"}, False),
        ({"expected_end": "2020-09-13T14:30:00Z"}, True),
        ({}, False),
        ({"expected_end": "2020-09-13T12:00:00Z"}, False),
        ({"expected_runtime": "0s"}, False),
        ({"expected_runtime": "-1h"}, False),
        ({"expected_runtime": "87600h"}, False),
    ],
    ids=[
        "ends before",
        "only without the margin",
        "too long",
        "by a time",
        "says nothing",
        "by a time that has passed",
        "no time at all",
        "invalid",
        "ten years",
    ],
)
@pytest.mark.parametrize("size", [1, 2])
def test_what_ends_before_the_start_may_use_what_is_reserved(terms: dict[str, str], placed: bool, size: int) -> None:
    """reservations.md 4.1, 4.2, 7.2"""
    world = backfill_world()
    annotations = annotated(**terms)
    one: Any = pod("small-0", cpu=2, annotations=annotations)
    world.add(one if size == 1 else gang("small", 2, cpu=2, annotations=annotations))
    after(world, 25 * MINUTE)
    assert ("small-0" in world.where) is placed
    assert set(world.nominated.values()) == {"n0", "n1"}


@pytest.mark.parametrize(("end", "placed"), [("2020-09-13T15:26:40Z", True), ("2020-09-13T15:26:41Z", False)])
def test_what_ends_just_when_the_holder_starts_may_use_what_is_reserved(end: str, placed: bool) -> None:
    """reservations.md 4.1: after the end, without a margin in its very second."""
    world = backfill_world(backfill_margin=0.0).add(pod("small", cpu=2, annotations=annotated(expected_end=end)))
    assert ("small" in after(world, 25 * MINUTE).where) is placed


def test_backfill_wakes_what_waits_when_capacity_is_freed() -> None:
    """reservations.md 4.4"""
    items = [node("n0"), node("n1"), runs("r0", "n0", expected_runtime="20m"), runs("r1", "n1", expected_runtime="3h")]
    small = pod("small", cpu=2, annotations=annotated(expected_runtime="1h"))
    world = after(world_of(items, pair()).drain(), 15 * MINUTE)
    world.add(small)
    after(world, 19 * MINUTE)
    assert "small" in world.pending
    world.gone("r0")
    after(world, 21 * MINUTE)
    assert world.where["small"] == "n0"


def test_backfill_wakes_what_waits_among_many() -> None:
    """reservations.md 4.4; scheduling.md 1.7: for the events of its plugins it is out of reach."""
    items = [node("n0"), node("n1"), runs("r0", "n0", expected_runtime="20m"), runs("r1", "n1", expected_runtime="3h")]
    profile = profile_with(ReservationsPlugin(ReservationOptions()))
    world = World(items, pair(), profiles={profile.name: profile}, current_reasons=False)
    after(world.drain(), 15 * MINUTE)
    world.add(pod("small", cpu=2, annotations=annotated(expected_runtime="1h")))
    after(world, 19 * MINUTE)
    assert "small" in world.pending
    after(world.gone("r0"), 21 * MINUTE)
    assert world.where["small"] == "n0"


def test_gang_of_which_one_pod_states_no_end_is_not_backfilled() -> None:
    """reservations.md 4.2: its end is that of its last pod."""
    first, stated, unstated = gang("small", 2, cpu=2, annotations=annotated(expected_runtime="2h"))
    assert isinstance(unstated, objects.Pod)
    unstated = replace(unstated, metadata=replace(unstated.metadata, annotations={}))
    world = after(backfill_world().add(first, stated, unstated), 25 * MINUTE)
    assert {"small-0", "small-1"} <= set(world.pending)


def test_holder_takes_nothing_that_is_reserved_for_an_earlier_start() -> None:
    """reservations.md 3.5, 7.4: the first of two waits for n1; the other one would keep it from n0 then."""
    items = [node("n0", cpu=8), node("n1"), runs("r0", "n0", expected_runtime="3h")]
    items += [runs("r1", "n1", expected_runtime="2h")]
    world = after(world_of(items, pair("first"), min_pods=1).drain(), DUE + 5)
    world.add(pod("second", cpu=4))
    after(world, 3 * DUE)
    assert {name: one.expected_start for name, one in held(world).items()} == {
        "first": START + 2 * HOUR,
        "second": START + 3 * HOUR,
    }
    after(world, HOUR)
    assert world.pending == ["first-0", "first-1", "second"]
    after(world.gone("r1"), 2 * HOUR)
    assert world.pending == ["second"]


@pytest.mark.parametrize("first", [[pod("first", cpu=4)], gang("first", 1, cpu=4)], ids=["pod", "gang"])
def test_holder_takes_its_own_place_from_a_later_start_but_no_other(first: list[Any]) -> None:
    """reservations.md 3.5: what the later one holds on n0 is freed by a pod that ends later; n1 is not the holder's."""
    items = [node("n0", cpu=8), node("n1", cpu=7), node("n2"), runs("r0", "n0", expected_runtime="1h")]
    items += [runs("r1", "n0", expected_runtime="3h"), *(runs(f"s{i}", f"n{i}", expected_runtime="3h") for i in (1, 2))]
    world = after(world_of(items, first, gang("second", 3, cpu=4), min_pods=1).drain(), DUE + 5)
    name = first[-1].metadata.name
    assert world.nominated[name] == "n0"
    assert {held(world)["second"].expected_start} == {START + 3 * HOUR}
    after(world.gone("s1"), 3 * DUE)
    assert name in world.pending
    after(world.gone("r1"), 3 * DUE + 45)
    assert world.where.get(name) == "n0"
    assert world.pending == ["second-0", "second-1", "second-2"]


def test_backfill_wakes_what_does_not_fit_only_after_a_change() -> None:
    """reservations.md 4.4: it is tried when capacity was freed, not all the time."""
    elsewhere = pod("elsewhere", cpu=2, selector={"disk": "none"}, annotations=annotated(expected_runtime="1h"))
    world = backfill_world().add(elsewhere)
    after(world, 21 * MINUTE)
    tried = len(world.engine.decisions)
    after(world, 23 * MINUTE)
    assert len(world.engine.decisions) == tried


def moved_backfill(*items: objects.KubernetesObject) -> tuple[World, list[str]]:
    """Pods come while n0 is reserved for an hour; then the pod in the way on n1 states a later end.

    And what is tried when its first one has passed, which is some minutes after all that wait were tried.
    """
    there = [node("n0"), node("n1"), runs("r0", "n0", expected_runtime="20m"), runs("r1", "n1", expected_runtime="58m")]
    world = after(world_of(there, pair()).drain(), 20 * MINUTE).gone("r0").add(*items).drain()
    assert {item.metadata.name for item in items} <= set(world.pending)
    world.change_pod("r1", lambda item: ends(item, "4h"))
    after(after(world, 56 * MINUTE), 57 * MINUTE + 5)
    before = len(world.engine.decisions)
    after(world, 59 * MINUTE + 5)
    assert held(world)["train"].expected_start == START + 4 * HOUR
    return world, [decision.ref for decision in world.engine.decisions[before:]]


@pytest.mark.parametrize("cpu", [2, 4])
def test_backfill_wakes_what_waits_when_a_reservation_moves(cpu: int) -> None:
    """reservations.md 4.4: nothing else happens; what asks for too much, and what ends too late, is not tried."""
    brief = annotated(expected_runtime="1h")
    lasting = pod("lasting", cpu=cpu, annotations=annotated(expected_runtime="9h"))
    items = [pod("brief", cpu=cpu, annotations=brief), pod("large", cpu=5, annotations=brief), lasting]
    world, tried = moved_backfill(*items)
    assert tried == ["pod/uid-brief"]
    assert world.where["brief"] == "n0"


def test_backfill_wakes_64_at_a_time_in_the_order_of_the_queue() -> None:
    """reservations.md 4.4"""
    brief = annotated(expected_runtime="1h")
    _, tried = moved_backfill(*(pod(f"b{turn:02}", cpu=4, annotations=brief) for turn in range(66)))
    assert tried == [f"pod/uid-b{turn:02}" for turn in range(64)]


def test_nothing_is_backfilled_without_an_expected_start_and_the_rest_goes_on() -> None:
    """reservations.md 4.3"""
    world = after(world_of(full(4), gang("train", 3, cpu=4)).drain(), DUE + 5)
    assert set(world.nominated.values()) == {"n0", "n1", "n2"}
    brief = annotated(expected_runtime="1s")
    world.gone("r0").gone("r3").add(*(pod(f"s{i}", cpu=1, annotations=brief) for i in range(5)))
    after(world, DUE + 40)
    assert {name: on for name, on in world.where.items() if name[0] == "s"} == {f"s{i}": "n3" for i in range(4)}
    assert world.pending == ["s4", "train-0", "train-1", "train-2"]


def test_backfill_is_preferred_to_a_preemption() -> None:
    """reservations.md 4.1"""
    items = [node("n0"), node("n1"), node("n2"), runs("r0", "n0", expected_runtime="20m")]
    items += [runs("r1", "n1", expected_runtime="3h")]
    items += [pod("low", cpu=4, node="n2", priority=-9, start=0, annotations=annotated(expected_runtime="9h"))]
    world = world_of(items, gang("train", 2, cpu=4, policy="Never", never=True))
    after(world.drain(), 20 * MINUTE)
    assert held(world)["train"].expected_start == START + 3 * HOUR
    world.gone("r0").add(pod("small", cpu=4, annotations=annotated(expected_runtime="1h")))
    after(world, 25 * MINUTE)
    assert world.where["small"] == "n0"
    assert not world.evicted


def test_backfilled_pod_that_runs_for_longer_is_waited_for() -> None:
    """reservations.md 4.5"""
    world = backfill_world().add(pod("small", cpu=4, annotations=annotated(expected_runtime="2h")))
    after(world, 3 * HOUR)
    assert world.where["small"] == "n0"
    after(world.gone("r1"), 5 * HOUR)
    assert world.pending == ["train-0", "train-1"]
    assert not world.evicted
    after(world.gone("small"), 5 * HOUR + 10 * MINUTE)
    assert not world.pending


def test_backfilled_pod_that_runs_for_longer_is_evicted_where_the_args_say_so() -> None:
    """reservations.md 4.5: when nothing else is in the way of the holder."""
    small = pod("small", cpu=4, annotations=annotated(expected_runtime="2h"))
    world = backfill_world(evict_overrun=True).add(small)
    after(world, 3 * HOUR)
    assert world.where["small"] == "n0"
    assert not world.evicted
    after(world.gone("r1"), 3 * HOUR + MINUTE)
    assert world.evicted == ["small"]
    assert not world.pending
    assert world.engine.overruns.evictions == 1


@pytest.mark.parametrize(("evicts", "text"), [(True, ""), (False, ""), (True, "soon")])
def test_pod_that_was_backfilled_before_a_restart_is_known(evicts: bool, text: str) -> None:
    """reservations.md 4.5: the binding annotates it with its end; what nothing can be read from is waited for."""
    world = backfill_world(evict_overrun=evicts).add(pod("small", cpu=4, annotations=annotated(expected_runtime="2h")))
    while not (bindings := world.step().bindings):
        pass
    [binding] = bindings
    assert binding.annotations is not None
    assert moment(binding.annotations[BACKFILLED_UNTIL]) == math.ceil(world.now + 2 * HOUR * 1.05)
    noted = {BACKFILLED_UNTIL: text or binding.annotations[BACKFILLED_UNTIL]}
    again = backfill_world(evict_overrun=evicts)
    again.add(pod("small", cpu=4, node="n0", annotations=noted))
    again.engine.resume(again.now)
    after(again.gone("r1"), 2 * HOUR)
    assert not again.evicted
    after(again, 3 * HOUR)
    assert again.evicted == (["small"] if evicts and not text else [])


@pytest.mark.parametrize("later", [0.0, 2 * HOUR])
def test_standby_keeps_reservations_that_it_heard_of(later: float) -> None:
    """reservations.md 1.2, 3.6, cost.md 5.1: at once, although the pods were new to it and in no attempt of its own."""
    items = [full(4), pair()]
    since = objects.PodCondition(
        type="PodScheduled", status="False", reason="Unschedulable", last_transition_time=EARLY
    )
    standby = world_of(items)
    pending = [item for item in items[1] if isinstance(item, objects.Pod)]
    for item, name in zip(pending, ("n2", "n3"), strict=True):
        told = replace(item.status, phase="Pending", conditions=(since,))
        for status in (told, replace(told, nominated_node_name=name)):
            standby.engine.set(replace(item, status=status), standby.now)
    engine, now = standby.engine, standby.now + later
    engine.complete(standby.now)
    engine.resume(now)
    engine.tick(now)
    while engine.step(now).decision is not None:
        pass
    assert held(standby)["train"].node_names_text() == "n2, n3"
    engine.tick(now + HOUR)
    assert held(standby)["train"].node_names_text() == "n2, n3"


def test_standby_knows_the_backfilled_pods_of_which_it_heard() -> None:
    """reservations.md 4.5: it heard of the pod before that was bound, and of the binding with its annotation."""
    standby = backfill_world(evict_overrun=True)
    small = pod("small", cpu=4, annotations=annotated(expected_runtime="2h"))
    standby.engine.set(small, standby.now)
    ends_at = datetime.fromtimestamp(standby.now + 2 * HOUR, UTC).isoformat()
    notes = {**small.metadata.annotations, BACKFILLED_UNTIL: ends_at}
    bound = replace(
        small,
        metadata=replace(small.metadata, annotations=notes),
        spec=replace(small.spec, node_name="n0"),
        status=replace(small.status, phase="Running"),
    )
    standby.engine.set(bound, standby.now)
    standby.engine.resume(standby.now)
    after(standby.gone("r1"), 2 * HOUR)
    assert not standby.virtual.evicted
    after(standby, 3 * HOUR)
    assert [*standby.virtual.evicted] == [small.metadata.uid]


def test_what_was_not_backfilled_is_never_evicted_for_running_too_long() -> None:
    """reservations.md 4.5"""
    world = after(world_of(full(expected_runtime="20m"), pair(), evict_overrun=True).drain(), 5 * HOUR)
    assert not world.evicted
    assert world.pending == ["train-0", "train-1"]


@pytest.mark.parametrize("limited", [False, True])
def test_gang_that_backfilled_is_evicted_as_one_within_limits(limited: bool) -> None:
    """reservations.md 4.5"""
    world = backfill_world(evict_overrun=True)
    world.add(gang("small", 2, cpu=2, whole=True, annotations=annotated(expected_runtime="2h")))
    if limited:
        world.engine.cluster.evictions = EvictionHistory((EvictionLimit("cluster", 1, 86400.0),))
        world.engine.cluster.evictions.note(EvictedUnit("u", "default", "pod default/u", "", 0.0), world.now)
    after(world, 3 * HOUR)
    after(world.gone("r1"), 3 * HOUR + MINUTE)
    assert sorted(world.evicted) == ([] if limited else ["small-0", "small-1"])
