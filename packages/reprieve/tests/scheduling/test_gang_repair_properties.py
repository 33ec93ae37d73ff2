"""Gangs that lost members get them back first, on random clusters (repair.md 5)."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.building import START, World, gang, node, pod
from tests.scheduling.test_gang_repair import free, world_of

_SIZES = st.lists(st.integers(1, 3), min_size=1, max_size=3)
_LOSSES = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8)), min_size=1, max_size=8)


def _random(sizes: list[int], losses: list[tuple[int, int]], **options: Any) -> tuple[World, float]:
    """Gangs of pods of 2 CPUs that fill nodes of 4; members are lost in the order given, at seconds since START.

    Returns the world and the time of the last loss.
    """
    number = sum(sizes)
    nodes = [node(f"n{i}", cpu=4) for i in range(-(-number // 2))]
    world = world_of(nodes, [gang(f"g{i}", size, cpu=2) for i, size in enumerate(sizes)], **options).drain()
    last = START
    for after, which in sorted(losses):
        members = sorted(world.where)
        if members:
            last = START + after
            world.virtual.until(last)
            world.gone(members[which % len(members)]).drain()
    return world, last


@settings(max_examples=25)
@given(_SIZES, _LOSSES, st.integers(1, 60))
def test_nothing_is_kept_beyond_its_time(sizes: list[int], losses: list[tuple[int, int]], seconds: int) -> None:
    """repair.md 5.1, 5.3"""
    world, last = _random(sizes, losses, seconds=float(seconds))
    places = [place for kept in world.engine.repair.places.by_group.values() for place in kept]
    assert all(place.until <= last + seconds for place in places)
    world.add(*(pod(f"other-{i}", cpu=2) for i in range(len(places)))).drain()
    world.virtual.until(last + seconds + 15)
    assert free(world)
    assert not [name for name in world.pending if name.startswith("other")]


@settings(max_examples=25)
@given(_SIZES, _LOSSES, st.integers(1, 4))
def test_higher_priority_is_placed_as_without_it(sizes: list[int], losses: list[tuple[int, int]], cpu: int) -> None:
    """repair.md 5.2"""
    worlds = [_random(sizes, losses, seconds=seconds)[0] for seconds in (60.0, 0.0)]
    for world in worlds:
        world.add(pod("high", cpu=cpu, priority=1)).drain()
    assert worlds[0].where.get("high") == worlds[1].where.get("high")
