"""Reservations of before a restart: what is kept, and what is given up."""

from __future__ import annotations

from typing import Any

import pytest

from tests.building import gang, node, pod
from tests.scheduling.test_advance_reservations import (
    EARLY,
    HOUR,
    after,
    full,
    held,
    pair,
    runs,
    waiting_since,
    world_of,
)


def test_nominations_of_the_time_before_a_restart_are_kept() -> None:
    """reservations.md 1.2, 3.6"""
    world = world_of(full(), waiting_since(EARLY, pair(), "n0", "n1")).drain()
    assert world.nominated == {"train-0": "n0", "train-1": "n1"}
    assert held(world)
    assert not any(decision.cleared_nominations for decision in world.engine.decisions)  # not given up for a moment
    after(world, HOUR)  # longer than what is held for a preemptor
    assert world.nominated == {"train-0": "n0", "train-1": "n1"}


@pytest.mark.parametrize(
    ("runtimes", "places"),
    [
        ([None] * 4, "n2 n3"),
        (["2h"] * 4, "n2 n3"),
        (["2h", "2h", "125m", "125m"], "n2 n3"),
        (["1h", "1h", "2h", "2h"], "n0 n1"),
        (["2h", "2h", None, None], "n0 n1"),
    ],
    ids=["no ends", "the same end", "slightly later", "much later", "no end there"],
)
@pytest.mark.parametrize("size", [1, 2])
def test_nominated_places_are_kept_after_a_restart_where_no_other_is_much_earlier(
    runtimes: list[str | None], places: str, size: int
) -> None:
    """reservations.md 3.3, 3.6, 6.1: as good as other nodes, or nearly; what stays is no news."""
    there: list[Any] = [node(f"n{i}") for i in range(4)]
    for number, runtime in enumerate(runtimes):
        terms: dict[str, Any] = {"expected_runtime": runtime} if runtime else {}
        there.append(runs(f"r{number}", f"n{number}", **terms))
    alone: list[Any] = [pod("alone", cpu=4)]
    world = world_of(there, waiting_since(EARLY, pair() if size == 2 else alone, "n2", "n3"), min_pods=1).drain()
    assert sorted(world.nominated.values()) == places.split()[:size]
    assert [reservation.unchanged for reservation in held(world).values()] == [places == "n2 n3"]
    if places == "n2 n3":
        assert not any(decision.cleared_nominations for decision in world.engine.decisions)
    after(world, HOUR / 2)
    assert sorted(world.nominated.values()) == places.split()[:size]


@pytest.mark.parametrize(
    "there",
    [
        full(3),
        [full(2), node("n2"), node("n3"), *(runs(f"s{i}", f"n{2 + i // 2}", cpu=2) for i in range(4))],
        [full(2), node("n2"), node("n3", cpu=3), runs("r2", "n2"), runs("r3", "n3", cpu=3)],
    ],
    ids=["a node is gone", "more is in the way there", "a node is too small now"],
)
def test_gang_gets_other_places_after_a_restart_where_those_it_had_do_not_do(there: list[Any]) -> None:
    """reservations.md 3.3, 3.6"""
    world = world_of(there, waiting_since(EARLY, pair(), "n2", "n3")).drain()
    assert sorted(world.nominated.values()) == ["n0", "n1"]
    assert held(world)


def test_gang_gets_another_place_after_a_restart_where_one_it_had_is_taken() -> None:
    """reservations.md 3.1, 3.6: a higher priority has one of them."""
    there = [*(node(f"n{i}") for i in range(4)), *(runs(f"r{i}", f"n{i}", priority=200) for i in range(4))]
    urgent: list[Any] = [pod("urgent", cpu=4, priority=100)]
    waiting = [*waiting_since(EARLY, pair(), "n2", "n3"), *waiting_since(EARLY, urgent, "n3")]
    world = world_of(there, waiting, min_pods=1).drain()
    assert world.nominated == {"urgent": "n3", "train-0": "n2", "train-1": "n0"}


def test_holder_of_before_a_restart_keeps_its_reservation_when_others_are_tried_first() -> None:
    """reservations.md 1.4, 3.6: there may be no other one."""
    early, late = waiting_since(EARLY, [pod("early", cpu=4)]), waiting_since(EARLY, [pod("late", cpu=4)], "n1")
    world = world_of(full(), early, late, min_pods=1, max_reservations=1)
    world.engine.resume(world.now)
    assert world.drain().nominated == {"late": "n1"}
    assert not any(decision.cleared_nominations for decision in world.engine.decisions)


@pytest.mark.parametrize("runtime", [None, "2h"], ids=["no ends", "known ends"])
@pytest.mark.parametrize("now", [("n2", "n3", ""), ("n3",), ("", "n3")], ids=["one more", "one less", "replaced"])
def test_members_that_are_still_there_keep_their_places_after_a_restart(
    now: tuple[str, ...], runtime: str | None
) -> None:
    """reservations.md 3.6: members came or were deleted while no scheduler ran."""
    terms: dict[str, Any] = {"expected_runtime": runtime} if runtime else {}
    there = [*(node(f"n{i}") for i in range(4)), *(runs(f"r{i}", f"n{i}", **terms) for i in range(4))]
    world = world_of(there, waiting_since(EARLY, gang("train", len(now), cpu=4), *now), min_pods=1).drain()
    assert list(held(world)) == ["train"]
    assert len(set(world.nominated.values())) == len(now)
    assert all(world.nominated[f"train-{i}"] == name for i, name in enumerate(now) if name)


@pytest.mark.parametrize(
    "there",
    [[node("n0", cpu=3), node("n1", cpu=3)], [node("n0"), node("n1"), pod("r0", cpu=4, node="n0", start=-49 * HOUR)]],
    ids=["fits nowhere any more", "more would be idle than may be"],
)
def test_nominations_of_what_does_not_qualify_any_more_are_given_up_after_a_restart(there: list[Any]) -> None:
    """reservations.md 3.6, 5.3"""
    world = world_of(there, waiting_since(EARLY, pair(), "n0", "n1")).drain()
    assert not world.nominated
    assert not held(world)
