"""What a run counts while jobs come, go, are evicted and lose their nodes (replay.md 3.3-3.7, 4.3, 4.5, 4.9).

Beside `test_world.py`, which is about when jobs run.
"""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules import objects
from reprieve.framework.gates import FeatureGates
from reprieve.framework.profile import Profile
from reprieve.replay.failures import Failures
from reprieve.replay.job_list import ReplayJob
from reprieve.replay.world import Policy, Replay, ReplayError, check
from reprieve.scheduling.profiles import default_profile
from reprieve.simulation.virtual import VirtualCluster
from tests.building import node, pod
from tests.replay.building import gpu_nodes, job, of, replay, started, times

GPU_SECOND = 1000 * 1000
"""In thousandths of a GPU and milliseconds."""


def down(**outages: tuple[float, float | None]) -> Failures:
    """Node -> down and up, in seconds."""
    listed = {
        name: [(round(begin * 1000), None if end is None else round(end * 1000))]
        for name, (begin, end) in outages.items()
    }
    return Failures(listed=listed)


def series(run: Replay) -> dict[str, list[float]]:
    """A value a second: GPUs, and jobs; of `lost` GPU-seconds."""
    assert run.series.width == 1000
    units = {"allocated": GPU_SECOND, "capacity": GPU_SECOND, "waiting": 1000, "lost": GPU_SECOND}
    return {
        name: [amount / units[name] for amount in sums]
        for name, sums in zip(run.series.names, run.series.sums, strict=True)
    }


def test_amounts_held_and_pending_second_by_second() -> None:
    """The second job waits for two seconds, runs for two beside the third, which is alone for one."""
    run = replay([job("a", 0, 3, gpu=8), job("b", 1, 2, gpu=4), job("c", 2, 3, gpu=1, workers=2)], gpu_nodes(1))
    assert series(run) == {
        "allocated": [8, 8, 8, 6, 6, 2],
        "capacity": [8] * 6,
        "waiting": [0, 1, 2, 0, 0, 0],
        "lost": [0] * 6,
    }
    assert (sum(account.allocated for account in run.accounts), run.capacity_time) == (38 * GPU_SECOND, 48 * GPU_SECOND)
    assert (run.holding, run.running, run.unfinished) == (0, 0, 0)


def test_capacity_is_that_of_nodes_that_are_up() -> None:
    """A node without GPUs is none; one is down for two seconds, another from the fourth on for good."""
    nodes = [*gpu_nodes(1), node("n1", cpu=96, gpu=2), node("n2", cpu=96, gpu=4), node("cores", cpu=96)]
    run = replay([job("a", 0, 6)], nodes, failures=down(n1=(1, 3), n2=(4, None), cores=(0, 1)))
    assert series(run)["capacity"] == [14, 12, 12, 14, 10, 10]
    assert run.capacity == 10 * 1000


def test_lost_work_counts_when_it_is_lost() -> None:
    """Three seconds of work without a checkpoint, and the grace period; then the whole work again."""
    run = replay([job("low", 0, 4, gpu=8, priority=0), job("high", 3, 1, gpu=8, priority=5)], gpu_nodes(1), restart=1)
    lost = series(run)["lost"]
    assert (lost[3], lost[33], sum(lost)) == (3 * 8, 30 * 8, 33 * 8)
    low = of(run, "low")
    assert (low.restart, low.useful, low.lost) == (8 * GPU_SECOND, 32 * GPU_SECOND, 33 * 8 * GPU_SECOND)
    assert times(run) == {"low": (0, 39), "high": (33, 34)}


def test_run_that_is_cut_counts_what_runs_as_useful() -> None:
    """replay.md 4.3: unsaved work is not thrown away by the end of the run; what waits for its gang is."""
    run = replay([job("a", 0, 100, gpu=4), job("b", 1, None, gpu=4)], gpu_nodes(1), until=10)
    assert [of(run, name).useful for name in "ab"] == [40 * GPU_SECOND, 36 * GPU_SECOND]
    assert run.series.at == 10_000
    assert sum(series(run)["allocated"]) == 76


# -- evictions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "pods", "gangs", "evicted_runs", "pods_gone"),
    [
        ({"gpu": 8}, 1, 0, 1, 1),  # a pod by itself is no gang
        ({"gpu": 4, "workers": 2}, 2, 1, 1, 2),
        ({"gpu": 4, "workers": 2, "whole": False}, 1, 1, 1, 1),
        ({"gpu": 4, "workers": 2, "whole": False, "min_workers": 1}, 1, 0, 0, 1),  # keeps its minimum
    ],
)
def test_eviction_is_counted_by_unit_pod_and_gang(
    content: dict[str, Any], pods: int, gangs: int, evicted_runs: int, pods_gone: int
) -> None:
    jobs = [job("low", 0, 100, **content), job("high", 10, 10, gpu=4 if pods == 1 else 8, priority=5)]
    run = replay(jobs, gpu_nodes(1))
    low = of(run, "low")
    assert (run.counts.units, run.counts.pods, run.counts.gangs) == (1, pods, gangs)
    assert (low.evictions, low.evicted_runs, low.lost_runs) == (1, evicted_runs, 0)
    assert low.serial == low.job.shape.workers + pods_gone
    assert (run.counts.foreign_pods, run.counts.budget_violations) == (0, 0)


def test_pods_of_the_cluster_file_and_budgets_are_counted_apart() -> None:
    there = [pod(f"there-{at}", gpu=4, priority=0, node="n0", labels={"app": "web"}) for at in range(2)]
    budget = objects.PodDisruptionBudget(
        metadata=objects.ObjectMeta(name="b", namespace="default"),
        spec=objects.PodDisruptionBudgetSpec(
            selector=objects.LabelSelector(match_labels={"app": "web"}), min_available="100%"
        ),
    )
    run = replay([job("high", 10, 10, gpu=8, priority=5)], [*gpu_nodes(1), *there, budget])
    assert (run.counts.units, run.counts.pods, run.counts.foreign_pods) == (2, 2, 2)
    assert run.counts.budget_violations == 2
    assert times(run) == {"high": (40, 50)}


@pytest.mark.parametrize("workers", [1, 2])
def test_preemptors_and_victims_are_kept_when_wanted(workers: int) -> None:
    """A pod by itself, and a gang; beside a pod of the cluster file, which was there from the beginning."""
    there = pod("there", gpu=8, priority=9, node="n1")
    jobs = [
        job("before", 0, 1, gpu=1),
        job("low", 1, 100, gpu=8, priority=0),
        job("high", 11, 10, gpu=8 // workers, workers=workers, priority=5),
    ]
    run = replay(jobs, [*gpu_nodes(2), there], timeline=True)
    line = run.timeline
    assert line is not None
    stays = list(zip(line.job, line.worker, line.node, line.begin, line.end, line.how, strict=True))
    first, *jobs_stays = stays
    assert first[:4] == (-1, 0, "n1", 0)
    assert line.name(0, ["before", "low", "high"]) == "default/there"
    assert jobs_stays[:2] == [(0, 0, "n0", 0, 1000, "done"), (1, 0, "n0", 1000, 41_000, "preempted")]
    assert jobs_stays[2:-1] == [(2, worker, "n0", 41_000, 51_000, "done") for worker in range(workers)]
    assert line.preemptions == [(11_000, 2, (2,))]
    assert replay(jobs, [*gpu_nodes(2), there]).timeline is None


# -- nodes that fail -----------------------------------------------------------------------------------------------


def test_pods_of_a_job_that_goes_pod_by_pod_stay_on_other_nodes() -> None:
    """replay.md 3.7: it keeps its minimum, and its work; the one that was lost comes again where there is room."""
    one = job("j", 0, 100, gpu=8, workers=3, min_workers=2, whole=False)
    run = started([one], gpu_nodes(3), failures=down(n1=(10, 30)))
    run.run(50_000)
    j = of(run, "j")
    assert len(j.pods) == 3, "what has gone is forgotten"
    run.run()
    assert times(run) == {"j": (0, 100)}
    assert (j.runs, j.lost_runs, j.evictions, j.serial) == (1, 0, 0, 4)
    assert j.allocated == j.useful == (3 * 100 - 20) * 8 * GPU_SECOND


def test_other_pods_of_a_job_that_goes_as_a_whole_go_too() -> None:
    """In their grace period, though its minimum would be kept: its clock stands until it runs again."""
    one = job("j", 0, 100, gpu=8, workers=3, min_workers=2, checkpoint=4)
    run = replay([one], gpu_nodes(4), failures=down(n1=(10, None)), timeline=True)
    j = of(run, "j")
    assert (j.runs, j.lost_runs, j.evicted_runs, j.evictions) == (2, 1, 0, 0)
    assert times(run) == {"j": (0, 132)}, "eight seconds were saved when three nodes were free again after forty"
    assert run.counts.gangs == run.counts.units == 0
    assert run.timeline is not None
    assert run.timeline.how == ["lost"] * 3 + ["done"] * 3
    ends = sorted(run.timeline.end[stay] for stay in range(3))
    assert ends == [10_000, 40_000, 40_000], "one with its node, two after their grace period"


@pytest.mark.parametrize(
    ("outage", "found"),
    [
        ((0, 5), (5, 15)),  # down when the replay begins
        ((4, 6), (0, 16)),
        ((4, None), (0, None)),
        ((10, 12), (0, 22)),  # at the moment at which it would have ended
        ((10.001, 12), (0, 10)),
    ],
)
def test_job_runs_anew_when_its_node_is_back(
    outage: tuple[float, float | None], found: tuple[float, float | None]
) -> None:
    run = replay([job("j", 0, 10)], gpu_nodes(1), failures=down(n0=outage))
    assert times(run) == {"j": found}
    assert of(run, "j").lost_runs == (outage[0] not in (0, 10.001))


def test_run_ends_when_nothing_can_change_any_more() -> None:
    """replay.md 3.11: a node that comes back is waited for while some job waits for room, and only then."""
    jobs = [job("j", 0, 10, gpu=8), job("k", 1, 10, gpu=8)]
    assert replay(jobs[:1], gpu_nodes(1), failures=down(n0=(11, 500))).now == 10_000
    assert times(replay(jobs, gpu_nodes(1), failures=down(n0=(11, 500)))) == {"j": (0, 10), "k": (10, 510)}
    jobs.append(job("huge", 2, 1, gpu=9))
    for outage, end in (((5, 60), 80), ((15, 60), 70), ((30, 60), 20)):
        run = replay(jobs, gpu_nodes(1), failures=down(n0=outage))
        assert (run.now, run.unfinished) == (end * 1000, 1)


# -- arriving jobs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "classes", "per_gpu", "problem"),
    [
        ({"gpu": 0.5}, {}, 1000, ""),
        ({"gpu": 2}, {}, 1, ""),
        (
            {"gpu": 0.5},
            {},
            1,
            'job "j" asks for a part of a GPU, and no node has GPUs in thousandths (a resource */gpu-milli)',
        ),
        ({"priority_class": "gold"}, {"gold": 5}, 1, ""),
        ({"priority_class": "gold", "priority": 5}, {"gold": 5}, 1, ""),
        ({"priority_class": "gold", "priority": 5}, {}, 1, ""),
        ({"priority": 5}, {"": 9}, 1, 'job "j" has priority 5, but its class "" is 9 in the cluster file'),
        (
            {"priority_class": "gold"},
            {"silver": 1},
            1,
            'job "j" names the priority class "gold", which is not in the cluster file, and has no priority',
        ),
        (
            {"priority_class": "gold", "priority": 4},
            {"gold": 5},
            1,
            'job "j" has priority 4, but its class "gold" is 5 in the cluster file',
        ),
    ],
)
def test_cluster_options_that_make_sense(
    content: dict[str, Any], classes: dict[str, int], per_gpu: int, problem: str
) -> None:
    jobs = [job("i", 0, 1), job("i2", 0, 1), job("j", 0, 1, **content)]
    if "" in classes:
        jobs = jobs[2:]
    if problem:
        with pytest.raises(ReplayError) as refused:
            check(jobs, classes, per_gpu)
        assert str(refused.value) == problem
    else:
        check(jobs, classes, per_gpu)


def test_cluster_has_nodes() -> None:
    with pytest.raises(ReplayError, match="the cluster has no nodes"):
        started([job("j", 0, 1)], [])


def test_class_of_the_cluster_file_gives_its_value() -> None:
    gold = objects.PriorityClass(metadata=objects.ObjectMeta(name="gold"), value=500)
    run = replay([job("j", 0, 1, priority_class="gold"), job("k", 0, 1)], [*gpu_nodes(1), gold])
    assert [run.makers.priority(account.job.shape) for account in run.accounts] == [500, 0]


def test_pods_and_groups_are_named_after_their_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that is made again has another name; times of creation are in the order of the list."""
    made: list[tuple[str, str, float]] = []
    jobs = [job("gang", 0, 100, gpu=4, workers=2), job("alone", 0, 1), job("high", 10, 10, gpu=8, priority=5)]
    run = started(jobs, gpu_nodes(1))
    add = VirtualCluster.add

    def recorded(cluster: VirtualCluster, item: Any, created: float) -> Any:
        made.append((type(item).__name__, item.metadata.name, created))
        return add(cluster, item, created)

    monkeypatch.setattr(VirtualCluster, "add", recorded)
    run.run()
    assert made == [
        ("PodGroup", "gang", 0),
        ("Pod", "gang-0", 0),
        ("Pod", "gang-1", 0),
        ("Pod", "alone", 1e-6),
        ("Pod", "high", 10),
        ("PodGroup", "gang~2", 0),
        ("Pod", "gang~2-0", 0),
        ("Pod", "gang~2-1", 0),
    ]


def test_policy_has_the_backoffs_of_kube_scheduler() -> None:
    assert (Policy().initial_backoff, Policy().max_backoff, Policy().profiles) == (1.0, 10.0, ())


def test_progress_is_shown_whenever_a_job_has_ended() -> None:
    shown: list[tuple[int, int]] = []
    run = started(
        [job("a", 0, 10), job("b", 0, 20), ReplayJob("c", 0, None, job("x", 0, 1).shape)],
        gpu_nodes(1),
        progress=lambda done, now: shown.append((done, now)),
    )
    run.run(60_000)
    assert shown == [(1, 10_000), (2, 20_000)]
    assert (run.unfinished, run.running, run.holding) == (1, 1, 1000)


def test_shared_gpus_of_nodes_and_of_pods_that_are_there_count_in_whole_ones() -> None:
    """replay.md 3.2, 4.6: nodes have them in thousandths, pods of the cluster file hold parts from the beginning."""
    milli = "a.com/gpu-milli"
    nodes = [node(f"n{at}", cpu=96, more={milli: 1000}) for at in range(2)]
    there = [pod(f"there-{at}", more={milli: 600}, node=f"n{at}") for at in range(2)]
    run = replay([job("part", 0, 600, gpu=0.4), job("whole", 300, 1)], [*nodes, *there], until=600)
    assert (run.capacity, run.capacity_time) == (2000, 2000 * 600_000)
    assert times(run) == {"part": (0, None), "whole": (None, None)}
    assert of(run, "part").useful == 400 * 600_000
    shares = [(one.at, one.by_waiting, one.by_workload) for one in run.fragmentation.samples]
    assert shares == [(300_000, None, 0.5), (600_000, 1.0, 0.5)], (
        "four tenths are of no use to a job that wants a whole one"
    )


def test_without_a_seed_failures_are_drawn_as_with_seed_0() -> None:
    """replay.md 1.4, 3.7."""
    drawn = Failures(mean_between=600_000, mean_repair=60_000)
    capacities = [
        replay([job("j", 0, None)], gpu_nodes(2), until=7200, failures=drawn, seed=seed).capacity_time
        for seed in (None, 0, 1)
    ]
    assert capacities[0] == capacities[1] != capacities[2]
    assert capacities[0] < 16_000 * 7_200_000


def test_jobs_are_scheduled_by_whatever_profile_a_policy_has() -> None:
    base = default_profile(FeatureGates())
    other = Policy((Profile("other", base.plugins, dict(base.score_weights)),))
    assert times(replay([job("j", 0, 10)], gpu_nodes(1), policy=other)) == {"j": (0, 10)}


def test_workers_and_groups_of_an_ended_job_are_gone() -> None:
    """One worker runs, the other waits until the job has ended; nothing waits then, and its group is no more."""
    jobs = [job("elastic", 0, 100, gpu=8, workers=2, min_workers=1), job("late", 200, 1), job("later", 300, 1)]
    run = replay(jobs, gpu_nodes(1))
    assert times(run) == {"elastic": (0, 100), "late": (200, 201), "later": (300, 301)}
    assert [(one.at, one.by_waiting) for one in run.fragmentation.samples] == [
        (at, None) for at in (100_000, 200_000, 300_000)
    ]
    assert not run.engine.cluster.groups
    assert not run.engine.cluster.pods


def test_worker_that_waits_goes_with_the_others_of_a_job_that_goes_as_a_whole() -> None:
    """Two of three workers run and are preempted; three others come, and nothing is left of the first three."""
    jobs = [job("gang", 0, 100, gpu=4, workers=3, min_workers=2), job("high", 10, 20, gpu=8, priority=5)]
    run = started(jobs, gpu_nodes(1))
    run.run(5000)
    assert len(run.engine.cluster.pods) == 3
    run.run(45_000)
    assert sorted(found.name for found in run.engine.cluster.pods.values()) == [
        "gang~2-0",
        "gang~2-1",
        "gang~2-2",
        "high",
    ]
    run.run()
    assert times(run) == {"gang": (0, 160), "high": (40, 60)}
