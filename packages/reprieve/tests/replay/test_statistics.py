"""What a replay reports of its jobs: percentiles, groups, shares and curves (replay.md 4)."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from reprieve.replay import statistics
from reprieve.replay.statistics import Distribution, JobGroup, distribution, report, rows, size_of
from tests.replay.building import HOUR, gpu_nodes, job, replay


@pytest.mark.parametrize(
    ("numbers", "p50", "p90", "p99"),
    [
        ([7], 7, 7, 7),
        ([2, 1], 1, 2, 2),
        ([3, 1, 2], 2, 3, 3),
        (range(1, 11), 5, 9, 10),
        (range(1, 12), 6, 10, 11),
        (range(1, 101), 50, 90, 99),
        (range(1, 102), 51, 91, 100),
        (range(1, 201), 100, 180, 198),
    ],
)
def test_percentiles_are_by_nearest_rank(numbers: Sequence[int], p50: int, p90: int, p99: int) -> None:
    """replay.md 4.1."""
    found = distribution(numbers)
    assert (found.p50, found.p90, found.p99) == (p50, p90, p99)
    assert (found.count, found.max, found.mean) == (len(numbers), max(numbers), round(sum(numbers) / len(numbers), 3))


def test_mean_of_nothing_does_not_exist() -> None:
    assert distribution([]) == Distribution(0, None, None, None, None, None)
    assert distribution([1 / 3], 2).mean == 0.33
    assert distribution([1 / 3]).mean == 0.333


@pytest.mark.parametrize(
    ("gpu", "workers", "size"),
    [
        (0, 4, "none"),
        (0.5, 1, "1"),
        (1, 1, "1"),
        (0.5, 3, "1"),
        (1, 2, "2-7"),
        (7, 1, "2-7"),
        (8, 1, "8-15"),
        (5, 3, "8-15"),
        (8, 2, "16-63"),
        (9, 7, "16-63"),
        (8, 8, "64 and more"),
        (8, 100, "64 and more"),
    ],
)
def test_jobs_by_their_gpus(gpu: float, workers: int, size: str) -> None:
    """replay.md 4.1."""
    account: Any = SimpleNamespace(job=job("a", 0, 1, gpu=gpu, workers=workers))
    assert size_of(account) == size


def test_three_jobs_on_one_node_one_after_the_other() -> None:
    """replay.md 4.1, 4.4, 4.7: eight GPUs each: the second waits an hour, the third two, and the last never ends."""
    jobs = [
        job("a", 0, HOUR, gpu=8, tenant="x"),
        job("b", 0, 2 * HOUR, gpu=8, tenant="y"),
        job("c", HOUR, None, gpu=8, tenant="x"),
        job("late", 10 * HOUR, HOUR, gpu=8),
    ]
    run = replay(jobs, gpu_nodes(1), until=4 * HOUR)
    found = report("p", run)
    total = found.total
    assert (total.name, total.jobs, total.done, total.unfinished, total.never_started) == ("all", 3, 2, 1, 0)
    assert (total.waiting.mean, total.waiting.max) == (3600.0, 7200.0)  # 0, one and two hours
    assert (total.completion.count, total.completion.p50, total.completion.max) == (2, 3600.0, 10800.0)
    assert (total.slowdown.count, total.slowdown.p50, total.slowdown.max) == (2, 1.0, 1.5)
    assert (total.allocated_gpu_hours, total.lost_gpu_hours, total.restart_gpu_hours) == (32.0, 0.0, 0.0)
    hour = HOUR * 1000 * 1000  # thousandths of a GPU times milliseconds
    time = found.gpu_time
    assert (time.allocated, time.useful, time.lost, time.restart, time.capacity) == (
        32 * hour,
        32 * hour,
        0,
        0,
        32 * hour,
    )
    assert (found.allocation, found.goodput) == (1.0, 1.0)
    assert (found.name, found.makespan, found.ended, found.interrupted) == ("p", 3 * HOUR, 4 * HOUR, False)
    assert report("p", run, interrupted=True).interrupted
    assert [(group.name, group.jobs) for group in found.by_tenant] == [("x", 2), ("y", 1)]
    assert [(group.name, group.jobs) for group in found.by_gpus] == [("8-15", 3)]
    assert (found.evictions.runs, found.evictions.evicted_runs, found.evictions.most_of_one_job) == (3, 0, 0)
    table = [(row.job, row.start, row.end, row.waiting, row.completion, row.slowdown) for row in rows(run)]
    assert table == [
        ("a", 0.0, HOUR, 0.0, HOUR, 1.0),
        ("b", HOUR, 3 * HOUR, HOUR, 3 * HOUR, 1.5),
        ("c", 3 * HOUR, None, 2 * HOUR, None, None),
    ], "the one that had not come is in no row"
    assert {(row.gpus, row.workers, row.runs, row.allocated_gpu_hours) for row in rows(run)} == {
        (8.0, 1, 1, 8.0),
        (8.0, 1, 1, 16.0),
    }


def group(run_of: Sequence[JobGroup], name: str) -> JobGroup:
    [found] = [one for one in run_of if one.name == name]
    return found


def test_job_that_never_started_has_waited_until_the_end() -> None:
    jobs = [job("runs", 0, None, gpu=8), job("never", HOUR, HOUR, gpu=8), job("too-large", 0, HOUR, gpu=9)]
    total = report("p", replay(jobs, gpu_nodes(1), until=3 * HOUR)).total
    assert (total.never_started, total.done, total.unfinished) == (2, 0, 3)
    assert (total.waiting.p50, total.waiting.max, total.waiting.mean) == (2.0 * HOUR, 3.0 * HOUR, 5 / 3 * HOUR)
    assert total.completion == total.slowdown == Distribution(0)


@pytest.mark.parametrize(("work", "slowdown"), [(1, 1.0), (9, 1.0), (10, 2.0), (20, 1.5), (0.001, 1.0)])
def test_slowdown_counts_ten_seconds_of_work_at_least(work: float, slowdown: float) -> None:
    """replay.md 4.2: a job that waited nine or ten seconds, and worked for less, is not a thousand times as slow."""
    waits = 10 if work >= 10 else 9 - work
    jobs = [job("first", 0, waits, gpu=8), job("second", 0, work, gpu=8)]
    found = {row.job: row.slowdown for row in rows(replay(jobs, gpu_nodes(1)))}
    assert found["second"] == slowdown


def test_classes_are_in_order_of_their_priority() -> None:
    priorities = {"low": 1, "high": 100, "middle": 50}
    jobs = [
        job(f"j{turn}", 0, 1, priority_class=name, priority=number)
        for turn, (name, number) in enumerate(priorities.items())
    ]
    found = report("p", replay([*jobs, job("none", 0, 1)], gpu_nodes(1)))
    assert [one.name for one in found.by_priority_class] == ["high", "middle", "low", ""]
    assert group(found.by_priority_class, "high").jobs == 1


def test_evicted_job_has_lost_what_was_not_saved() -> None:
    """A preemptor comes after an hour and a half; checkpoints are hourly, a restart takes a minute."""
    jobs = [
        job("low", 0, 2 * HOUR, gpu=8, checkpoint=HOUR),
        job("high", 1.5 * HOUR, HOUR, gpu=8, priority=100, tenant="t"),
    ]
    run = replay(jobs, gpu_nodes(1), restart=60)
    found = report("p", run)
    time = found.gpu_time
    assert time.allocated == time.useful + time.lost + time.restart
    assert found.evictions.units == found.evictions.pods == 1
    assert (found.evictions.gangs, found.evictions.evicted_runs, found.evictions.runs) == (0, 1, 3)
    assert (found.evictions.most_of_one_job, found.evictions.runs_lost_to_nodes) == (1, 0)
    low = group(found.by_tenant, "default")
    assert low.lost_gpu_hours == pytest.approx(4.0, abs=0.1)
    assert low.useful_gpu_hours == 16.0
    assert low.restart_gpu_hours == pytest.approx(8 * 60 / 3600, abs=1e-6)
    assert (low.evictions, group(found.by_tenant, "t").evictions) == (1, 0)


def test_share_of_its_life_in_which_a_gang_has_its_minimum() -> None:
    """It runs for an hour, waits for one while a preemptor runs, and runs for one again (repair.md 3.5)."""
    jobs = [
        job("low", 0, 2 * HOUR, gpu=8, workers=2, checkpoint=HOUR),
        job("high", HOUR, HOUR, gpu=8, workers=2, priority=100, tenant="t"),
    ]
    found = report("p", replay(jobs, gpu_nodes(2)))
    assert found.evictions.gangs == 1
    assert found.satisfied == pytest.approx(3 / 4, abs=0.02)
    assert report("p", replay([job("alone", 0, HOUR)], gpu_nodes(1))).satisfied is None


def test_series_are_means_over_equal_times() -> None:
    run = replay([job("a", 0, HOUR, gpu=4), job("b", HOUR, HOUR, gpu=8)], gpu_nodes(1), until=2 * HOUR)
    series = report("p", run).series
    points = len(series.allocated)
    assert 2 <= points <= 1024
    assert points * series.width >= 2 * HOUR > (points - 1) * series.width
    assert set(series.capacity) == {8.0}
    assert max(series.allocated) == 8.0
    assert series.allocated[0] == 4.0
    assert set(series.waiting) == {0.0}
    assert set(series.lost) == {0.0}


def test_numbers_are_rounded_where_they_are_reported() -> None:
    """Times are exact; shares and GPU-hours have six decimals, slowdowns and means of a point of a series four."""
    run = replay([job("a", 0, 10, gpu=8), job("b", 1, 30, gpu=2)], gpu_nodes(1))
    found = report("p", run)
    assert (found.total.slowdown.max, rows(run)[1].slowdown) == (1.3, 1.3)
    assert (found.allocation, found.goodput) == (0.4375, 0.4375)
    run = replay([job("a", 0, 20, gpu=7), job("b", 10, 30, gpu=2), job("c", 11, 17, gpu=2)], gpu_nodes(1))
    found = report("p", run)
    assert [row.slowdown for row in rows(run)] == [1.0, 1.3333, 1.5294]
    assert (found.total.slowdown.p50, found.total.slowdown.mean) == (1.3333, 1.2876)
    assert found.allocation == 0.585
    assert [row.allocated_gpu_hours for row in rows(run)] == [0.038889, 0.016667, 0.009444]
    assert (found.total.allocated_gpu_hours, found.total.waiting.mean) == (0.065, 6.333)
    short = report("p", replay([job("a", 0, 0.001, gpu=1)], gpu_nodes(1), until=0.003))
    assert (short.allocation, short.series.allocated, short.series.capacity) == (0.041667, (0.3333,), (8.0,))


def test_point_of_a_series_is_as_long_as_there_was_time_for_it() -> None:
    """The last one is shorter; what was lost is a sum, not a mean."""
    jobs = [
        job("low", 0, None, gpu=8, priority=0),
        job("high", 1, 0.5, gpu=8, priority=5),
        job("waits", 1.25, 9, gpu=9),
    ]
    curves = report("p", replay(jobs, gpu_nodes(1), until=2.5)).series
    assert (curves.width, curves.allocated) == (1.0, (8.0, 8.0, 8.0))
    assert curves.waiting == (0.0, 2.75, 3.0)
    assert curves.lost == (0.0, round(8 / 3600, 6), round(12 / 3600, 6)), "what was thrown away, and the grace period"
    nothing = report("p", replay(jobs, gpu_nodes(1), until=0)).series
    assert (nothing.allocated, nothing.capacity, nothing.waiting, nothing.lost) == ((), (), (), ())


@pytest.mark.parametrize(("most", "shown"), [(4, "abcd"), (3, "abd"), (2, "bd")])
def test_groups_with_the_most_jobs_are_reported_of_many(monkeypatch: pytest.MonkeyPatch, most: int, shown: str) -> None:
    """In the order that they have, and of as many jobs the first by name."""
    assert statistics.MOST_GROUPS == 1000
    monkeypatch.setattr(statistics, "MOST_GROUPS", most)
    jobs = [job(f"j{at}", 0, 1, tenant=tenant) for at, tenant in enumerate("dbcdbabd")]
    assert "".join(one.name for one in report("p", replay(jobs, gpu_nodes(1))).by_tenant) == shown


def test_jobs_by_their_gpus_are_in_order_of_size() -> None:
    jobs = [
        job(f"j{gpu}", 0, 1, gpu=gpu, workers=count) for gpu, count in ((0, 1), (8, 8), (2, 1), (8, 1), (1, 1), (8, 2))
    ]
    names = [one.name for one in report("p", replay(jobs, gpu_nodes(12))).by_gpus]
    assert names == ["1", "2-7", "8-15", "16-63", "64 and more", "none"]
