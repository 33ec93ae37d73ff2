"""Who cannot be placed whatever goes is not tried, and what says so forgets who left (scheduling.md 1.7)."""

from __future__ import annotations

import pytest

from reprieve.queueing.entity import QueueState
from tests.building import World, node, pod


@pytest.mark.parametrize("plain", [False, True], ids=["with the bound", "without"])
def test_nothing_is_kept_of_who_waited_and_is_gone(plain: bool) -> None:
    """What says who is out of reach (scheduling.md 1.7) forgets who left; there is none where nothing is shared."""
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


def test_who_is_out_of_reach_keeps_nobody_behind_it_waiting() -> None:
    """scheduling.md 1.7: many wait; those who cannot fit whatever goes are passed over, the others are woken."""
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
