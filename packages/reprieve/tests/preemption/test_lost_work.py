"""The sums of lost work (cost.md 2.1)."""

from __future__ import annotations

from reprieve.preemption.lost_work import EvictedPods, LostWork
from tests.building import START, World, node, pod


def test_lost_work_is_summed_over_evicted_pods() -> None:
    """The criterion adds GPU-seconds and CPU-seconds; a pod without a start has not run."""
    assert LostWork(gpu=2.0, cpu=3.0).total == 5.0
    world = World(node("n"), pod("a", node="n", start=-60), pod("b", node="n"), pod("future", node="n", start=5))
    evicted = EvictedPods()
    for name, lost in (("a", LostWork(gpu=2.0)), ("b", LostWork(cpu=3.0)), ("future", LostWork(1.0, 1.0))):
        evicted.add(world.record(name), lost, START)
    assert evicted == EvictedPods({"uid-a", "uid-b", "uid-future"}, running_seconds=60.0, gpu=3.0, cpu=4.0)
    assert EvictedPods() == EvictedPods(set(), 0.0, 0.0, 0.0)
