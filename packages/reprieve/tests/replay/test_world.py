"""What happens to jobs in a replay (replay.md 3, 4.3)."""

from dataclasses import replace
from typing import Any

import pytest

from reprieve.replay import world as world_module
from reprieve.replay.failures import Failures
from reprieve.replay.quotas import JobQuotas
from reprieve.replay.world import Policy, Replay, ReplayError, WorldSettings
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from tests.building import node
from tests.replay.building import HOUR, gpu_hours, gpu_nodes, job, of, replay, started, times

GRACE = 30
FAILS = Failures(listed={"n0": [(10_000, 50_000)]})


def test_jobs_start_at_submit_where_there_is_room_and_end_when_their_work_is_done() -> None:
    run = replay([job("a", 0, 100), job("b", 10.5, 20, workers=3, gpu=8), job("c", 11, 1.25)], gpu_nodes(4))
    assert times(run) == {"a": (0, 100), "b": (10.5, 30.5), "c": (11, 12.25)}


def test_jobs_without_room_wait_for_it_in_the_order_of_submit() -> None:
    run = replay([job(name, at, 100, gpu=8) for at, name in enumerate("abc")], gpu_nodes(1))
    assert times(run) == {"a": (0, 100), "b": (100, 200), "c": (200, 300)}


def test_jobs_of_the_same_submit_come_in_the_order_of_the_list() -> None:
    """However many they are, and whatever their names (replay.md 2.5)."""
    jobs = [job(f"{599 - at:03}", 5, 1, workers=2, gpu=4) for at in range(600)]
    run = replay([job("before", 0, 1), *jobs], gpu_nodes(1))
    starts = [of(run, one.name).first_start or 0 for one in jobs]
    assert starts == sorted(starts)
    assert starts[-1] == 5000 + 599 * 1000


def test_gang_starts_as_a_whole() -> None:
    jobs = [job("small", 0, 50, gpu=8), job("gang", 1, 10, workers=2, gpu=8)]
    run = replay(jobs, gpu_nodes(2))
    assert times(run)["gang"] == (50, 60)
    assert of(run, "gang").lost == 0  # nothing was held while it waited


def test_evicted_job_loses_what_is_not_saved_pays_the_restart_and_runs_on() -> None:
    jobs = [
        job("low", 0, 1000, gpu=8, checkpoint=100, priority=0),
        job("high", 350, 60, gpu=8, priority=10),
    ]
    run = replay(jobs, gpu_nodes(1), restart=20)
    low, high = of(run, "low"), of(run, "high")
    assert high.first_start == (350 + GRACE) * 1000
    back = 350 + GRACE + 60
    assert low.end == (back + 20 + 700) * 1000
    assert (low.runs, low.evicted_runs, low.evictions) == (2, 1, 1)
    assert low.useful == 1000 * 8000 * 1000
    assert low.restart == 20 * 8000 * 1000
    assert low.lost == (50 + GRACE) * 8000 * 1000
    assert low.allocated == low.useful + low.lost + low.restart
    assert (run.counts.units, run.counts.pods, run.counts.gangs) == (1, 1, 0)


@pytest.mark.parametrize(("whole", "pods"), [(True, 4), (False, 1)])
def test_gang_goes_as_a_whole_or_pod_by_pod_and_stops_below_its_minimum(whole: bool, pods: int) -> None:
    jobs = [
        job("gang", 0, 100, workers=4, gpu=2, whole=whole, priority=0),
        job("high", 50, 10, gpu=2, priority=10),
    ]
    run = replay(jobs, gpu_nodes(1))
    gang = of(run, "gang")
    assert run.counts.pods == pods
    assert run.counts.gangs == 1
    assert gang.runs == 2
    assert gang.end == (50 + GRACE + 10 + 100) * 1000
    assert gang.useful == 100 * 8000 * 1000


def test_job_that_keeps_its_minimum_keeps_its_work() -> None:
    jobs = [
        job("elastic", 0, 100, workers=4, min_workers=3, gpu=2, whole=False, priority=0),
        job("high", 50, 10, gpu=2, priority=10),
    ]
    run = replay(jobs, gpu_nodes(1))
    elastic = of(run, "elastic")
    assert times(run)["elastic"] == (0, 100)
    assert (elastic.runs, elastic.evictions) == (1, 1)
    assert elastic.lost == GRACE * 2000 * 1000  # the worker that goes holds its room in its grace period
    assert elastic.allocated == elastic.useful + elastic.lost + elastic.restart


def test_preempted_gang_keeps_its_place_in_the_queue() -> None:
    jobs = [
        job("early", 0, 100, workers=2, gpu=8, priority=0),
        job("high", 10, 10, gpu=8, priority=10),
        job("late", 11, 100, workers=2, gpu=8, priority=0),
    ]
    run = replay(jobs, gpu_nodes(2))
    early, late = of(run, "early"), of(run, "late")
    assert early.end is not None
    assert late.first_start == early.end


def test_job_larger_than_the_cluster_never_starts_and_the_run_ends_all_the_same() -> None:
    """replay.md 3.10."""
    run = replay([job("huge", 0, 10, workers=3, gpu=8), job("small", 1, 10, priority=0)], gpu_nodes(2))
    assert times(run) == {"huge": (None, None), "small": (1, 11)}
    assert run.unfinished == 1


def test_idle_time_costs_nothing_and_causes_no_attempt() -> None:
    """replay.md 3.9: gangs that wait for a hundred hours are tried as often as those that wait for seven minutes."""

    def attempts(pause: float) -> int:
        gangs = [job(f"gang-{at}", 1, 5, gpu=4, workers=2, priority=-at) for at in range(2)]
        run = replay([job("runs", 0, pause, gpu=8), *gangs], gpu_nodes(1))
        assert times(run)["gang-0"] == (pause, pause + 5)
        return run.engine.attempts

    assert attempts(400) == attempts(100 * HOUR)


def test_backoff_passes_in_simulated_time() -> None:
    """replay.md 3.9: capacity is free at 3 s, and the job that failed at 1 s is tried 20 s after that."""
    policy = Policy(initial_backoff=20.0, max_backoff=20.0)
    run = replay([job("runs", 0, 3, gpu=8), job("waits", 1, 5, gpu=8)], gpu_nodes(1), policy=policy)
    assert times(run)["waits"] == (21, 26)


def test_job_without_a_duration_runs_to_the_end_of_the_run() -> None:
    run = replay([job("service", 0, None), job("short", 5, 10)], gpu_nodes(1), until=HOUR)
    assert times(run)["service"] == (0, None)
    assert gpu_hours(of(run, "service").useful) == pytest.approx(1)


def test_failures_of_a_list_take_pods_at_once_and_the_gang_with_them() -> None:
    jobs = [job("gang", 0, 100, workers=2, gpu=8), job("alone", 0, 100, gpu=8)]
    listed = {"n0": [(10_000, 50_000)]}
    run = replay(jobs, gpu_nodes(3), failures=Failures(listed=listed))
    gang, alone = of(run, "gang"), of(run, "alone")
    assert gang.lost_runs + alone.lost_runs == 1
    assert gang.evictions == alone.evictions == 0
    assert all(account.end is not None for account in run.accounts)
    assert run.capacity_time == 24_000 * run.now - 8000 * 40_000


def test_timeline_distinguishes_pods_lost_with_a_node_from_preempted_ones() -> None:
    """Both workers of a gang, one of which had a node that failed; a terminating one stays preempted."""
    gang = replay([job("gang", 0, 100, workers=2, gpu=8)], gpu_nodes(2), timeline=True, failures=FAILS)
    assert gang.timeline is not None
    assert sorted(gang.timeline.how) == ["done", "done", "lost", "lost"]
    jobs = [job("low", 0, 100, gpu=8), job("high", 9, 100, gpu=8, priority=5)]
    evicted = replay(jobs, gpu_nodes(1), timeline=True, failures=FAILS)
    assert evicted.timeline is not None
    assert evicted.timeline.how.count("preempted") == evicted.counts.pods == 1


def test_drawn_failures_are_the_same_for_all_policies_and_another_seed_draws_others() -> None:
    failures = Failures(3_600_000, 600_000)
    first = [outage for outage, _ in zip(failures.of("n0", 1), range(5), strict=False)]
    assert first == [outage for outage, _ in zip(failures.of("n0", 1), range(5), strict=False)]
    assert first != [outage for outage, _ in zip(failures.of("n0", 2), range(5), strict=False)]
    assert all(down < up for down, up in first if up is not None)
    run = replay([job(f"j{at}", at * 60, 7200, gpu=8) for at in range(30)], gpu_nodes(3), failures=failures, seed=1)
    assert run.unfinished == 0
    assert sum(account.lost_runs for account in run.accounts) > 0


def test_quota_keeps_jobs_of_its_namespace_outside_in_order() -> None:
    quota = {"metadata": {"namespace": "team"}, "spec": {"hard": {"requests.nvidia.com/gpu": "8"}}}
    jobs = [
        job("a", 0, 100, gpu=8, tenant="team"),
        job("b", 1, 100, gpu=8, tenant="team"),
        job("c", 2, 10, gpu=1, tenant="team"),
        job("other", 3, 10, gpu=8, tenant="else"),
    ]
    quotas = JobQuotas([quota], gpu="nvidia.com/gpu")
    run = Replay(jobs, [(item, 0.0) for item in gpu_nodes(4)], quotas=quotas)
    run.run()
    assert times(run) == {"a": (0, 100), "b": (100, 200), "c": (200, 210), "other": (3, 13)}


def test_parts_of_a_gpu_need_nodes_that_have_them() -> None:
    with pytest.raises(ReplayError, match="part of a GPU"):
        started([job("half", 0, 10, gpu=0.5)], gpu_nodes(1))
    shared = [node("n", cpu=8, more={"alibabacloud.com/gpu-milli": 1000})]
    run = replay([job(name, 0, 10, gpu=0.5) for name in "abc"], shared)
    assert sorted(times(run).values(), key=str) == [(0, 10), (0, 10), (10, 20)]


@pytest.mark.parametrize(
    ("shape", "problem"),
    [({"priority_class": "gold"}, "is not in the cluster file")],
)
def test_classes_have_to_be_known(shape: dict[str, Any], problem: str) -> None:
    with pytest.raises(ReplayError, match=problem):
        started([job("a", 0, 1, **shape)], gpu_nodes(1))


def test_gpu_model_is_found_by_the_label_of_the_node() -> None:
    nodes = [
        node("a", gpu=8, labels={"gpu-model": "A100"}),
        node("v", gpu=8, labels={"gpu-model": "V100"}),
    ]
    run = replay([job("j", 0, 10, gpu=8, models=("V100",)), job("k", 0, 10, gpu=8, models=("V100",))], nodes)
    assert sorted(times(run).values(), key=str) == [(0, 10), (10, 20)]


def test_alike_pods_are_woken_one_by_one_with_the_outcome_of_waking_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue of a replay tries few; one that tries all jobs that an event may help places the same."""
    jobs = [job(f"j{at:03d}", at * 7 % 400, 40 + at * 13 % 90, gpu=1 + at % 3, priority=at % 2) for at in range(120)]
    policy = Policy(initial_backoff=0.0, max_backoff=0.0)
    few = replay(jobs, gpu_nodes(2), policy=policy)

    def thorough(options: EngineOptions) -> Engine:
        return Engine(replace(options, current_reasons=True))

    monkeypatch.setattr(world_module, "Engine", thorough)
    all_woken = replay(jobs, gpu_nodes(2), policy=policy)
    assert times(few) == times(all_woken)
    assert few.engine.attempts < all_woken.engine.attempts


def test_deleted_jobs_are_forgotten() -> None:
    run = replay([job(f"j{at}", at, 5, workers=1 + at % 2, priority=at % 3) for at in range(300)], gpu_nodes(1, 2))
    world = run._world
    assert run.unfinished == 0
    kept = (world.records, world.rejections, world.conditions, world.evicted, world.deferred, world.preemptions)
    assert [len(each) for each in kept] == [0] * len(kept)
    assert not run.engine.cluster.pods
    assert not run.engine.cluster.groups


def test_settings_have_defaults_that_change_nothing() -> None:
    assert WorldSettings() == WorldSettings(checkpoint=None, restart=0, failures=Failures(), seed=None, timeline=False)
