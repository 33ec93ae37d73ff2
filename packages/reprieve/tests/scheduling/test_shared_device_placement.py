"""Where else the first member of a gang could have taken the devices that all of them share (KEP-5729)."""

from __future__ import annotations

from typing import Any

import pytest

from reprieve.scheduling import shared_device_placement
from tests.building import World, gang, group, node, pod
from tests.plugins.devices import claim, device_class, devices, slice_of, user

EMPTIER, ROOMIER = node("n1", cpu=2), node("n2", cpu=8)
"""The first member likes n1 best, where only two have room; n2 holds three."""


def _world(*items: Any, devices_each: int = 1) -> World:
    world = World(EMPTIER, ROOMIER, device_class(), pod("there", cpu=5, node="n2"))
    world.add(slice_of("n1", devices(devices_each)), slice_of("n2", devices(devices_each)))
    return world.add(*items)


def _crew(size: int, *claims: str, own: bool = False, least: int | None = None) -> list[Any]:
    names = [f"p{turn}" for turn in range(size)]
    members = [user(name, *claims, *([f"own-{name}"] if own else []), group="crew") for name in names]
    return [group("crew", min_count=size if least is None else least), *members]


def _owned(size: int) -> list[Any]:
    return [claim(f"own-p{turn}") for turn in range(size)]


def test_shared_devices_are_taken_where_all_members_fit() -> None:
    """scheduling.md 3.11."""
    world = _world(claim("c"), *_crew(3, "c")).settle()
    assert [world.where.get(f"p{turn}") for turn in range(3)] == ["n2"] * 3


def test_first_member_alone_takes_the_emptier_node() -> None:
    """Without this the case above would show nothing."""
    assert _world(claim("c"), *_crew(1, "c")).settle().where["p0"] == "n1"


@pytest.mark.parametrize("shared", [("c",), ("c", "d")])
def test_members_may_have_devices_of_their_own_beside_those_they_share(shared: tuple[str, ...]) -> None:
    """Only what all of them share ties them together."""
    made = [claim(name) for name in shared]
    world = _world(*made, *_owned(3), *_crew(3, *shared, own=True), devices_each=3 + len(shared)).settle()
    assert [world.where.get(f"p{turn}") for turn in range(3)] == ["n2"] * 3


def test_each_with_a_device_of_its_own_goes_where_there_is_one() -> None:
    """Nothing is shared: the members may be apart."""
    world = _world(*_owned(3), *_crew(3, own=True), devices_each=2).settle()
    assert {world.where[f"p{turn}"] for turn in range(3)} == {"n1", "n2"}


def test_allocated_claim_stays_where_it_is() -> None:
    """The claim is used on n1, where one more has room: there is no other place for the gang."""
    world = _world(claim("c"), user("first", "c")).settle()
    assert world.where["first"] == "n1"
    world.add(*_crew(3, "c")).settle()
    assert not any(f"p{turn}" in world.where for turn in range(3))


@pytest.mark.parametrize(("most", "found"), [(1, False), (2, True)])
def test_so_many_sets_of_nodes_are_tried_and_no_more(most: int, found: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the nodes: the one that holds the gang is the second."""
    monkeypatch.setattr(shared_device_placement, "MOST_TRIED", most)
    monkeypatch.setattr(shared_device_placement, "hopeful", lambda _cycle, sets: sets)
    world = _world(claim("c"), *_crew(3, "c")).settle()
    assert ("p0" in world.where) is found


def test_gang_without_claims_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no place, and no devices to blame."""
    monkeypatch.setattr(shared_device_placement, "hopeful", lambda *_: pytest.fail("looked at again"))
    world = _world(claim("c"), *gang("g", 3, cpu=9)).settle()
    assert set(world.where) == {"there"}


def test_two_that_share_are_enough_to_look_for_a_place_for_both() -> None:
    """The first likes n1 best, where there is no room for the second."""
    world = World(node("n1", pods=1), node("n2", cpu=8), device_class(), pod("there", cpu=5, node="n2"), claim("c"))
    world.add(slice_of("n1", devices(1)), slice_of("n2", devices(1)))
    alone = World(node("n1", pods=1), node("n2", cpu=8), pod("there", cpu=5, node="n2"), pod("p", cpu=1)).settle()
    assert alone.where["p"] == "n1", "without this the case would show nothing"
    world.add(*_crew(2, "c")).settle()
    assert [world.where.get(f"p{turn}") for turn in range(2)] == ["n2"] * 2


@pytest.mark.parametrize("size", [1, 2, 3])
def test_where_the_usual_way_finds_a_place_for_all_that_is_it(size: int) -> None:
    """The emptier node, though the other is the first that an allocation reaches and would hold them too."""
    world = World(node("n1", cpu=8), node("n2", cpu=8), device_class(), pod("there", cpu=5, node="n1"), claim("c"))
    world.add(slice_of("n1", devices(1)), slice_of("n2", devices(1)), *_crew(size, "c")).settle()
    assert [world.where.get(f"p{turn}") for turn in range(size)] == ["n2"] * size
