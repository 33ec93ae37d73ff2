"""Room of each GPU, and what of it cannot be used, without a run around it (replay.md 4.6)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from reprieve.cluster.state import ClusterState
from reprieve.replay import fragmentation
from reprieve.replay.fragmentation import Fragmentation, popular
from reprieve.replay.gpu_capacity import GPU, MOST_GPUS, FreeGpus, TracksFreeGpus
from reprieve.replay.job_list import ReplayJob
from reprieve.replay.job_objects import Terms
from reprieve.replay.statistics import report
from reprieve.replay.world import Replay
from tests.building import node
from tests.replay.building import gpu_nodes, job, replay


def free(room: FreeGpus, *names: str) -> list[list[int]]:
    """Of the nodes of a cluster in this order; an unknown one has none."""
    cluster: Any = SimpleNamespace(nodes=SimpleNamespace(names=list(names)))
    found: list[list[int]] = room.free_per_gpu(cluster).tolist()
    return found


@pytest.mark.parametrize(
    ("requested", "left"),
    [
        ([0], [1000, 1000, 1000]),
        ([-5], [1000, 1000, 1000]),
        # whole GPUs are the first free ones, a part is on the fullest with room for it, the first of those as full
        ([1000], [0, 1000, 1000]),
        ([2000], [0, 0, 1000]),
        ([400], [600, 1000, 1000]),
        ([400, 1000], [600, 0, 1000]),
        ([400, 700, 300], [600, 0, 1000]),
        ([400, 700, 600], [0, 300, 1000]),
        ([400, 700, 601], [600, 300, 399]),
        ([1500], [0, 500, 1000]),
        # what no GPU has room for takes what is left of the emptiest
        ([600, 600, 600, 1000], [0, 0, 200]),
        ([600, 600, 600, 450], [0, 350, 400]),
        ([500, 600, 700, 600], [0, 300, 300]),
        ([3000], [0, 0, 0]),
        ([2500, 800], [0, 0, 0]),
    ],
)
def test_where_pods_are(requested: list[int], left: list[int]) -> None:
    room = FreeGpus({"m": 1, "n": 3})
    for at, milli in enumerate(requested):
        room.take(f"u{at}", "n", milli)
    assert free(room, "n", "m", "elsewhere") == [left, [1000, 0, 0], [0, 0, 0]]
    for at in range(len(requested)):
        room.give_back(f"u{at}")
        room.give_back(f"u{at}")
    assert free(room, "n") == [[1000, 1000, 1000]]


def test_pod_is_on_a_node_once() -> None:
    room = FreeGpus({"n": 2, "m": 2})
    room.take("u", "n", 500)
    room.take("u", "m", 500)
    assert free(room, "n", "m") == [[500, 1000], [1000, 1000]]


@pytest.mark.parametrize(("gpus", "counted"), [(0, 0), (63, 63), (64, 64), (65, 64)])
def test_gpus_counted_one_by_one_are_bounded(gpus: int, counted: int) -> None:
    assert (GPU, MOST_GPUS) == (1000, 64)
    assert len(free(FreeGpus({"n": gpus}), "n")[0]) == counted
    assert free(FreeGpus({}), "n") == [[]]


def test_policy_that_keeps_gpus_is_known_by_its_method() -> None:
    assert isinstance(FreeGpus({}), TracksFreeGpus)
    assert not isinstance(object(), TracksFreeGpus)


# -- shares --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "usable"),
    [
        # a node with 8 free GPUs, 96 cores and 768 GiB takes what asks for all of it, and nothing more
        ({"cpu": 96_000}, True),
        ({"cpu": 96_001}, False),
        ({"memory": 768 << 30}, True),
        ({"memory": (768 << 30) + 1}, False),
        ({"gpu": 8}, True),
        ({"gpu": 9}, False),
        ({"models": ("A", "B")}, True),
        ({"models": ("B", "C")}, False),
        ({"models": ("C",)}, False),
    ],
)
@pytest.mark.parametrize("shared", [False, True])
def test_node_takes_a_task_up_to_all_that_is_free(content: dict[str, Any], usable: bool, shared: bool) -> None:
    amounts: dict[str, Any] = {"more": {"a.com/gpu-milli": 8000}} if shared else {"gpu": 8}
    nodes = [
        node("n", cpu=96, memory="768Gi", labels={"gpu-model": "A"}, **amounts),
        node("other", cpu=1, labels={"gpu-model": "B"}),
    ]
    run = replay([job("j", 600, 1, **{"gpu": 1, **content}), job("k", 600, 1, gpu=0)], nodes, until=601)
    share = run.fragmentation.samples[0].by_workload
    assert share == (0.5 if usable else 1.0), "the half of the mix that asks for no GPUs uses none"


@pytest.mark.parametrize(("pods", "share"), [(1, 0.5), (0, 1.0)])
def test_node_that_takes_no_more_pods_takes_no_task(pods: int, share: float) -> None:
    run = replay([job("j", 600, 1), job("k", 600, 1, gpu=0)], [node("n", cpu=1, gpu=8, pods=pods)], until=600.5)
    assert run.fragmentation.samples[0].by_workload == share


def measured(jobs: list[ReplayJob], times: list[int], waiting: list[tuple[ReplayJob, int]]) -> Fragmentation:
    """Samples of an empty cluster of one node with eight GPUs, at these times."""
    state: ClusterState = Replay([job("x", 0, 1)], [(item, 0.0) for item in gpu_nodes(1)]).engine.cluster
    found = Fragmentation(state, Terms(), jobs)
    for now in times:
        found.sample(now, [(one.shape, count) for one, count in waiting])
    return found


def test_means_are_over_time_and_of_nothing_there_is_none() -> None:
    large, small = job("large", 0, 1, gpu=9), job("small", 0, 1, gpu=8)
    found = measured([small], [10], [(large, 0), (job("cores", 0, 1, gpu=0), 5)])
    assert (found.by_waiting, found.by_workload) == (None, 0.0), "no job waits for GPUs"
    assert [(one.at, one.by_waiting, one.by_workload) for one in found.samples] == [(10, None, 0.0)]
    found.sample(40, [(large.shape, 1)])
    assert (found.by_waiting, found.by_workload) == (1.0, 0.0)
    found.sample(70, [(large.shape, 1), (small.shape, 2)])
    assert found.by_waiting == pytest.approx((30 * 1.0 + 30 / 3) / 60)
    assert measured([], [10], []).by_workload is None
    assert measured([small], [], []).by_workload is None


@pytest.mark.parametrize(("last", "every"), [(0, 60), (512 * 60, 60), (512 * 61, 61), (512 * 600, 600)])
def test_fragmentation_is_sampled_at_most_512_times_a_run(last: int, every: int) -> None:
    """replay.md 4.6: not more often than each minute; when the times do not suffice, half of them go."""
    jobs = [job("a", 0, 1), job("b", last, 1)]
    found = measured(jobs, [5000], [])
    assert found.next == 5000 + every * 1000
    for at in range(511):
        found.sample(6000 + at, [])
    assert (len(found.samples), found.next) == (512, 6510 + every * 1000)
    found.sample(7000, [])
    assert (len(found.samples), found.next) == (257, 7000 + 2 * every * 1000)
    assert [one.at for one in found.samples[:3]] == [5000, 6001, 6003]
    assert found.samples[-1].at == 7000
    assert found.by_workload == 0.0


def test_kinds_of_a_mix() -> None:
    """The most frequent first, of as many the smaller; enough of them to make up 95 % of all workers."""

    def mix(*counts: int) -> list[int]:
        jobs = [job(f"j{at}", 0, 1, cpu=at, workers=count) for at, count in enumerate(counts)]
        return [count for _, count in popular(jobs, Terms())]

    assert mix(94, 1, 5) == [94, 5]
    assert mix(95, 5) == [95]
    assert mix(5, 95) == [95]
    assert mix(949, 51) == [949, 51]
    assert mix(*[1] * 64) == [1] * 61, "of 64 kinds 60.8 are 95 %"
    assert mix(*[1] * 68) == [1] * 64
    assert popular([], Terms()) == []
    jobs = [job("a", 0, 1, gpu=2), job("b", 0, 1, gpu=1), job("c", 0, 1, gpu=1, cpu=1)]
    kinds = [kind for kind, _ in popular(jobs, Terms())]
    assert kinds == [(1000, 0, 0, (), ()), (1000, 1, 0, (), ()), (2000, 0, 0, (), ())]
    assert (fragmentation.MOST, fragmentation.POPULAR, fragmentation.MOST_KINDS) == (512, 0.95, 64)


def test_plugin_s_room_of_more_rows_and_below_zero_is_none() -> None:
    """What no node has is not free, nor is less than nothing."""
    state: ClusterState = Replay([job("x", 0, 1)], [(item, 0.0) for item in gpu_nodes(1)]).engine.cluster
    rows = np.array([[400, 0], [9000, 9000]], dtype=np.int64)
    found = Fragmentation(state, Terms(), [job("j", 0, 1, gpu=0.4), job("k", 0, 1)], lambda cluster: rows)
    found.sample(1, [])
    assert found.by_workload == 0.5


def test_fragmentation_in_a_report() -> None:
    """Seconds, and six decimals; samples without waiting jobs are of the workload alone."""
    jobs = [job("a", 0, 300, gpu=7), job("b", 100, 100, gpu=3), job("c", 400, 1, gpu=5)]
    run = replay(jobs, gpu_nodes(1), until=700)
    curves = report("x", run).series
    assert curves.workload_fragmentation == (
        *((100.0, 1.0), (300.0, 1.0)),  # one is free, and the list asks for seven, three and five
        *((400.0, 0.333333), (700.0, 0.0)),
    )
    assert curves.fragmentation == ((300.0, 1.0),)
    assert report("x", run).fragmentation == 1.0
