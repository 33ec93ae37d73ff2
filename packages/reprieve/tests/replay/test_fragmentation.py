"""Free GPUs that tasks cannot use (replay.md 4.6), by clusters small enough to compute by hand."""

from typing import Any

import numpy as np
import pytest

from kube_rules import objects
from reprieve.cluster.state import ClusterState
from reprieve.framework.gates import FeatureGates
from reprieve.framework.plugin import ScorePlugin
from reprieve.framework.profile import Profile
from reprieve.replay.failures import Failures
from reprieve.replay.fragmentation import MOST_KINDS, popular
from reprieve.replay.gpu_capacity import Ints
from reprieve.replay.job_list import ReplayJob
from reprieve.replay.job_objects import Terms
from reprieve.replay.statistics import PolicyReport, report
from reprieve.replay.world import Policy, Replay, ReplayError, WorldSettings
from reprieve.scheduling.profiles import default_profile
from tests.building import node
from tests.replay.building import job

LATER = 600


def shared_node(name: str, gpus: int, **more: Any) -> objects.Node:
    """A node that has its GPUs in thousandths; it is the only one of its model."""
    return node(name, cpu=96, more={"alibabacloud.com/gpu-milli": 1000 * gpus}, labels={"gpu-model": name}, **more)


def on(name: str, *parts: float) -> list[ReplayJob]:
    """Jobs that run on a node from the beginning and never end, each asking for a part of a GPU, or for so many."""
    return [job(f"{name}-{at}", 0, None, gpu=part, models=(name,)) for at, part in enumerate(parts)]


def pictured(jobs: list[ReplayJob], nodes: list[objects.Node], policy: Policy | None = None) -> PolicyReport:
    """The state shortly after the beginning: a job without GPUs comes later, and there is a look at it."""
    run = Replay(jobs, [(item, 0.0) for item in nodes], policy, WorldSettings())
    run.run(LATER * 1000)
    run.close(LATER * 1000)
    return report("x", run)


@pytest.mark.parametrize(
    ("running", "waiting", "unusable"),
    [
        # 0.4 is free on each of two GPUs: 0.8 of the node, and of no use to a job that wants a whole one.
        ((0.6, 0.6), ((1, 1),), 1.0),
        # 0.4 and a whole one are free: two workers wait that want a whole one each, and 0.4 are of no use to them.
        ((0.6,), ((2, 1),), 0.4 / 1.4),
        # Parts go to the fullest GPU with room: 0.3 beside 0.6, and 0.1 is left there.
        ((0.6, 0.3), ((2, 1),), 0.1 / 1.1),
        ((0.6, 0.5, 0.3), ((2, 1),), 1.0),
        # What is free on a GPU with room for a part is of use, though it is more than a part.
        ((0.6,), ((5, 0.3),), 0.0),
        # Both wait: two workers cannot use 0.4, five can use everything.
        ((0.6,), ((2, 1), (5, 0.3)), 2 * 0.4 / 7 / 1.4),
        # A job that wants both GPUs can use neither.
        ((0.6,), ((1, 2),), 1.0),
    ],
)
def test_fragments_are_counted_gpu_by_gpu(
    running: tuple[float, ...], waiting: tuple[tuple[int, float], ...], unusable: float
) -> None:
    """On a node of two GPUs; `waiting` are gangs, of so many workers that ask for so much each."""
    gangs = [job(f"w{at}", 1, 1, gpu=gpu, workers=workers) for at, (workers, gpu) in enumerate(waiting)]
    found = pictured([*on("n", *running), *gangs], [shared_node("n", 2)])
    assert found.fragmentation == pytest.approx(unusable, abs=1e-6)


def shares(jobs: list[ReplayJob], nodes: list[objects.Node], policy: Policy | None = None) -> float | None:
    """What the whole list cannot use, when all that can run does."""
    return pictured(jobs, nodes, policy).workload_fragmentation


def test_task_uses_what_is_on_gpus_with_room_for_it_of_nodes_that_take_it() -> None:
    """Free on n are 0.4 and 1, on m 0.7; a quarter of the mix each."""
    jobs = [
        *on("n", 0.6),  # cannot use the 0.4, nor what is on m
        *on("m", 0.3),  # what is on n
        job("both", 0, 1, gpu=2, models=("n",)),  # anything
        job("nowhere", 0, 1, gpu=1, models=("elsewhere",)),  # anything
    ]
    wanted = (0.4 + 0.7 + 1.4 + 2.1 + 2.1) / 4 / 2.1
    assert shares(jobs, [shared_node("n", 2), shared_node("m", 1)]) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("short", [{"cpu": 60_000}, {"memory": 600 << 30}])
def test_cores_and_memory_that_are_short_make_gpus_useless(short: dict[str, int]) -> None:
    """A running job takes more of them than is left beside the three free GPUs; half of the mix asks for none."""
    jobs = [job("large", 0, None, gpu=1, **short), job("small", 2 * LATER, 1, gpu=1)]
    nodes = [node("n", cpu=96, memory="768Gi", more={"alibabacloud.com/gpu-milli": 4000})]
    assert shares(jobs, nodes) == 0.5


def test_tasks_without_gpus_use_none() -> None:
    """As in the paper: they are of the mix, and all that is free is of no use to them."""
    jobs = [*on("n", 0.5), job("cores", 0, None, gpu=0, cpu=1000)]
    assert shares(jobs, [shared_node("n", 1)]) == pytest.approx(0.5)


def test_workers_count_one_by_one() -> None:
    """Three workers of a gang can use the half that is left, a job of 0.9 cannot."""
    jobs = [job("gang", 0, None, gpu=0.5, workers=3), job("large", 0, 1, gpu=0.9)]
    found = pictured(jobs, [shared_node("n", 2)])
    assert found.fragmentation == 1.0
    assert found.workload_fragmentation == pytest.approx(0.25)


def test_where_gpus_are_not_shared_a_task_uses_all_of_a_node_that_takes_it() -> None:
    """Three of eight are free on n, all on m: four can use 8 of 11, one all, and five (on n only) none."""
    nodes = [node(name, cpu=96, gpu=8, labels={"gpu-model": name}) for name in ("n", "m")]
    jobs = [*on("n", 5), job("one", 2 * LATER, 1, gpu=1), job("four", 2 * LATER, 1, gpu=4)]
    assert shares(jobs, nodes) == pytest.approx((1 + 0 + 3 / 11) / 3, abs=1e-6)


def test_full_cluster_and_a_list_without_waiting_jobs_have_no_fragmentation() -> None:
    full = pictured(on("n", 1), [shared_node("n", 1)])
    assert (full.fragmentation, full.workload_fragmentation) == (None, None)
    assert pictured(on("n", 1), [shared_node("n", 2)]).fragmentation is None


def test_nodes_that_are_down_have_no_free_gpus() -> None:
    down = WorldSettings(failures=Failures(listed={"m": [(0, None)]}))
    jobs = [*on("n", 0.6), job("never", 0, 1, gpu=2, models=("n",))]
    run = Replay(jobs, [(shared_node("n", 1), 0.0), (shared_node("m", 4), 0.0)], None, down)
    run.run(LATER * 1000)
    run.close(LATER * 1000)
    assert report("x", run).fragmentation == 1.0
    assert report("x", run).workload_fragmentation == 1.0


def test_mean_is_over_time_not_over_samples() -> None:
    """Nothing runs for an hour, and all is of use; then half of the GPU for three, at the end of which much happens."""
    hour = 3600
    jobs = [job("half", hour, None, gpu=0.5), job("whole", hour, 1, gpu=1)]
    busy = [((4 * hour - 600 + at) * 1000, (4 * hour - 600 + at) * 1000 + 1) for at in range(600)]
    often = WorldSettings(failures=Failures(listed={"no-gpus": busy}))
    run = Replay(jobs, [(shared_node("n", 1), 0.0), (node("no-gpus", cpu=1), 0.0)], None, often)
    run.run(4 * hour * 1000)
    run.close(4 * hour * 1000)
    assert len(run.fragmentation.samples) >= 10
    # Half of the mix cannot use the half that is left; before, all jobs could use everything.
    assert report("x", run).workload_fragmentation == pytest.approx((1 * 0 + 3 * 0.5) / 4)
    assert report("x", run).fragmentation == 1.0


def test_mix_is_of_the_most_frequent_kinds() -> None:
    jobs = [job(f"a{at}", at, 1, gpu=1) for at in range(96)] + [job(f"b{at}", at, 1, gpu=2) for at in range(4)]
    assert popular(jobs, Terms()) == [((1000, 0, 0, (), ()), 96)]
    assert [count for _, count in popular([*jobs, job("c", 0, 1, gpu=2, priority=5, workers=7)], Terms())] == [96, 11]


def test_only_the_most_frequent_kinds_of_waiting_workers_count() -> None:
    """Gangs of MOST_KINDS kinds wait for whole GPUs; one of another kind could use the half that is left."""
    gangs = [job(f"w{at}", 1, 1, gpu=1, workers=3, cpu=at) for at in range(MOST_KINDS)]
    rare = job("rare", 1, 1, gpu=0.5, workers=2)
    assert pictured([*on("n", 0.5), *gangs, rare], [shared_node("n", 1)]).fragmentation == 1.0
    workers = 3 * (MOST_KINDS - 1)
    found = pictured([*on("n", 0.5), *gangs[1:], rare], [shared_node("n", 1)]).fragmentation
    assert found == pytest.approx(workers / (workers + 2), abs=1e-6)


class ReportsRoom(ScorePlugin):
    """A plugin that keeps the room of GPUs by itself, or says that it does."""

    name = "ReportsRoom"

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def free_per_gpu(self, cluster: ClusterState) -> Ints:
        found: Ints = self._answer(cluster)
        return found


def policy_of(plugin: ReportsRoom) -> Policy:
    base = default_profile(FeatureGates())
    return Policy((Profile(base.name, [*base.plugins, plugin], dict(base.score_weights)),))


def test_free_room_that_a_plugin_reports_is_used() -> None:
    plugin = ReportsRoom(lambda cluster: np.array([[300, 300]] * len(cluster.nodes)))
    jobs = [job("a", 0, None, gpu=0.4), job("b", 0, 1, gpu=2)]
    found = pictured(jobs, [shared_node("n", 2)], policy_of(plugin))
    assert found.workload_fragmentation == 1.0
    assert pictured(jobs, [shared_node("n", 2)]).workload_fragmentation == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (lambda cluster: 1 / 0, "ZeroDivisionError"),
        (lambda cluster: [1], "expected int64"),
        (lambda cluster: [[0.5]], "expected int64"),
        (lambda cluster: [[]][:0], "expected int64"),
    ],
)
def test_plugin_that_answers_nonsense_of_gpus_is_named(answer: Any, problem: str) -> None:
    with pytest.raises(ReplayError, match=f"plugin ReportsRoom, free_per_gpu: {problem}"):
        pictured(on("n", 0.5), [shared_node("n", 1)], policy_of(ReportsRoom(answer)))
