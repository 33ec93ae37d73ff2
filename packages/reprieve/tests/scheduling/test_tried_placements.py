"""Groups of one shape share what came of placements that have not changed: the outcome is that of trying them all."""

from __future__ import annotations

import random
from typing import Any

import pytest

from reprieve.framework.running_profile import RunningProfile
from tests.building import World, composite, group, history, node, pod


def _world(seed: int, *, plain: bool) -> World:
    """Twelve racks in six blocks, some of it in use; trees and gangs of few shapes, of which some do not fit."""
    draw = random.Random(seed)
    world = World(plain=plain)
    for i in range(24):
        labels = {"rack": f"r{i // 2:02d}", "block": f"b{i // 4}"}
        world.add(node(f"n{i:02d}", cpu=draw.choice((3, 4)), labels=labels))
        if draw.random() < 0.4:
            world.add(pod(f"x{i}", cpu=draw.randrange(1, 4), node=f"n{i:02d}", priority=draw.choice((0, 9))))
    for turn in range(9):
        root, size = f"t{turn}", draw.choice((2, 3))
        if draw.random() < 0.3:
            world.add(group(root, topology="rack", min_count=size, priority=5))
            world.add(*(pod(f"{root}-{k}", cpu=2, group=root, priority=5) for k in range(size)))
            continue
        world.add(composite(root, min_groups=2, topology=draw.choice(("block", None)), priority=5))
        for leaf in ("a", "b"):
            name = f"{root}{leaf}"
            world.add(group(name, topology="rack", min_count=size, priority=5, parent=root))
            world.add(*(pod(f"{name}-{k}", cpu=2, group=name, priority=5) for k in range(size)))
    return world


@pytest.mark.parametrize("seed", range(12))
def test_shared_outcomes_are_those_of_trying_every_placement(seed: int) -> None:
    """scheduling.md 4: what is shared changes no decision, also after pods have ended and nodes have changed."""
    histories = []
    for plain in (True, False):
        world = _world(seed, plain=plain).settle()
        for name in ("x3", "x8", "x20"):
            if name in world.where:
                world.gone(name).settle()
        world.add(node("n99", cpu=4, labels={"rack": "r03", "block": "b1"})).settle()
        histories.append((history(world), world.where))
    assert histories[0] == histories[1]


def test_changed_blocks_alone_are_tried_again_for_like_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """performance.md 2.1: what a tree finds in a block is kept until something there changes."""
    from reprieve.scheduling import tree_algorithm

    tried: list[str] = []
    silently = tree_algorithm._Walk._silently

    def noted(walk: Any, found: Any, within: Any) -> Any:
        tried.append(within.name)
        return silently(walk, found, within)

    monkeypatch.setattr(tree_algorithm._Walk, "_silently", noted)
    world = World(*(node(f"n{i:02d}", cpu=4, labels={"block": f"b{i // 2}"}) for i in range(16)))
    for turn in range(3):
        world.add(
            composite(f"t{turn}", min_groups=1, topology="block"), group(f"g{turn}", min_count=2, parent=f"t{turn}")
        )
        world.add(*(pod(f"p{turn}{k}", cpu=1, group=f"g{turn}") for k in range(2)))
    world.settle()
    assert len(world.where) == 6
    first, again = tried[:8], tried[8:]
    assert first == [f"b{i}" for i in range(8)]
    assert again == ["b0", "b0"]
    profile = next(iter(world.engine.running.values()))
    assert isinstance(profile, RunningProfile)
    assert len(profile.tried) == 1
