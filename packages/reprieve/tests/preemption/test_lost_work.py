"""The sums of lost work (cost.md 2.1)."""

from __future__ import annotations

from itertools import product

import pytest

from kube_rules.durations import readable_time
from reprieve.preemption.lost_work import (
    EvictedPods,
    LostWork,
    is_gpu,
    lost_by_pod,
    lost_work,
    next_checkpoint,
    processors,
    unsaved_seconds,
)
from tests.building import START, World, annotated, node, pod
from tests.preemption.by_name import cluster_at


def test_lost_work_is_summed_over_evicted_pods() -> None:
    """The criterion adds GPU-seconds and CPU-seconds; a pod without a start has not run."""
    assert LostWork(gpu=2.0, cpu=3.0).total == 5.0
    world = World(node("n"), pod("a", node="n", start=-60), pod("b", node="n"), pod("future", node="n", start=5))
    evicted = EvictedPods()
    for name, lost in (("a", LostWork(gpu=2.0)), ("b", LostWork(cpu=3.0)), ("future", LostWork(1.0, 1.0))):
        evicted.add(world.record(name), lost, START)
    assert evicted == EvictedPods({"uid-a", "uid-b", "uid-future"}, running_seconds=60.0, gpu=3.0, cpu=4.0)
    assert EvictedPods() == EvictedPods(set(), 0.0, 0.0, 0.0)


def test_unsaved_work_and_the_next_checkpoint() -> None:
    """cost.md 1.3, 6.7: for all terms together, counted checkpoint by checkpoint; never below zero."""
    terms = list(product((None, 0, 100), (None, 0, 60, 150, 900), (None, 0, 50), (None, 0, 7)))
    pods = []
    for number, (start, last, interval, restart) in enumerate(terms):
        stated = {} if interval is None else {"checkpoint_interval": f"{interval}s"}
        if last is not None:
            stated["last_checkpoint"] = readable_time(START + last)
        if restart is not None:
            stated["restart_cost"] = f"{restart}s"
        on = "n" if start is not None else ""
        pods.append(pod(f"p{number}", node=on, start=start, annotations=annotated(**stated)))
    world = World(node("n", pods=500), *pods)
    for now in (0, 100, 149, 150, 160, 240):
        cluster = cluster_at(world, START + now)
        for number, (start, last, interval, restart) in enumerate(terms):
            record = world.record(f"p{number}")
            if start is None:
                assert unsaved_seconds(cluster, record) == (restart or 0)
                assert next_checkpoint(cluster, record) is None
                continue
            saved = max(start, last) if last is not None else start
            while last is None and interval and saved + interval <= now:
                saved += interval
            assert unsaved_seconds(cluster, record) == max(0, now - saved) + (restart or 0)
            due = (START + saved, START + saved + interval) if interval else None
            assert next_checkpoint(cluster, record) == due


@pytest.mark.parametrize(
    ("resource", "gpu"),
    [
        ("nvidia.com/gpu", True),
        ("nvidia.com/mig-1g.5gb", True),
        ("a.com/gpu-shared", True),
        ("a.com/gpu.memory", True),
        ("gpu.intel.com/i915", True),
        ("a.com/x", False),
        ("a.com/gpus", False),
        ("gpu", False),
        ("gpu.x", False),
    ],
)
def test_resources_that_count_as_gpus(resource: str, gpu: bool) -> None:
    """cost.md 2.1."""
    assert is_gpu(resource) is gpu


def test_work_is_counted_in_gpus_or_else_cpus() -> None:
    """cost.md 2.1: also for several pods with equal requests; 0.1 CPU for a container without a request."""
    requests = [(2, {}), (2, {}), (3, {"nvidia.com/gpu": 2, "a.com/x": 5}), (None, {}), (1, {"a.com/x": 5})]
    expected = [(0, 2.0), (0, 2.0), (2, 3.0), (0, 0.1), (0, 1.0)]
    pods = [
        pod(f"p{turn}", cpu=cpu, more=more, node="n", start=-10 * turn) for turn, (cpu, more) in enumerate(requests)
    ]
    world = World(node("n", cpu=99), *pods)
    cluster = cluster_at(world)
    records = [world.record(f"p{turn}") for turn in range(len(requests))]
    assert [processors(cluster.resources, record.signature) for record in records] == expected
    lost = [(0.0, 0.0), (0.0, 20.0), (40.0, 0.0), (0.0, 3.0), (0.0, 40.0)]
    assert lost_by_pod(cluster, records) == [pytest.approx(amounts) for amounts in lost]
    total = lost_work(cluster, records)
    assert total.gpu == pytest.approx(40.0)
    assert total.cpu == pytest.approx(63.0)
