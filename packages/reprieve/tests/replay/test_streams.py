"""A stream of small jobs keeps a cluster busy; gangs of its class start all the same (reservations.md, replay.md 8).

The yardstick is EASY backfill, simulated by itself below: the first in the queue gets the earliest start by known run
times, and what is behind it may not delay that.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence

import pytest

from reprieve.replay.job_list import ReplayJob
from reprieve.replay.run_times import RunTimes, read_run_times
from reprieve.replay.statistics import report
from reprieve.replay.world import Replay
from tests.replay.building import HOUR, gpu_nodes, job, of, replay

NODES, GPUS = 4, 8
TOTAL = NODES * GPUS
DAYS = 3


def stream(seed: int, *, load: float = 0.75) -> list[ReplayJob]:
    """Jobs of one GPU with run times of 90 minutes on the mean, and early gangs of all GPUs and of half of them."""
    draw = random.Random(seed)
    jobs: list[ReplayJob] = []
    now = 0.0
    while now < DAYS * 24 * HOUR:
        jobs.append(job(f"small{len(jobs)}", round(now), round(min(8 * HOUR, 60 + draw.expovariate(1 / (1.5 * HOUR))))))
        now += draw.expovariate(load * TOTAL / (1.5 * HOUR))
    return [
        *jobs,
        job("all", 9000, 4 * HOUR, workers=NODES, gpu=GPUS),
        job("half", 9100, 4 * HOUR, workers=2, gpu=GPUS),
    ]


def easy(jobs: Sequence[ReplayJob]) -> dict[str, float]:
    """Name -> seconds of waiting under EASY backfill with exact run times, GPUs anywhere."""
    events = [(one.submit / 1000, at) for at, one in enumerate(jobs)]
    heapq.heapify(events)
    queue: list[int] = []
    running: dict[int, float] = {}
    free, waits = TOTAL, {}
    while events:
        now, at = heapq.heappop(events)
        if at >= 0:
            queue.append(at)
        for one in [one for one, end in running.items() if end <= now]:
            free += jobs[one].shape.gpus // 1000
            del running[one]
        if events and events[0][0] == now:
            continue
        start, spare = float("inf"), 0
        for one in list(queue):
            gpus, seconds = jobs[one].shape.gpus // 1000, (jobs[one].work or 0) / 1000
            blocked = start < float("inf")
            if gpus > free or (blocked and now + seconds > start and gpus > spare):
                if not blocked:
                    start, spare = _shadow(running, jobs, free, gpus)
                continue
            if blocked and now + seconds > start:
                spare -= gpus
            queue.remove(one)
            free -= gpus
            running[one] = now + seconds
            waits[jobs[one].name] = now - jobs[one].submit / 1000
            heapq.heappush(events, (now + seconds, -1))
    return waits


def _shadow(running: dict[int, float], jobs: Sequence[ReplayJob], free: int, wanted: int) -> tuple[float, int]:
    for one, end in sorted(running.items(), key=lambda entry: entry[1]):
        free += jobs[one].shape.gpus // 1000
        if free >= wanted:
            return end, free - wanted
    raise AssertionError("it never fits")


def waits(run: Replay) -> dict[str, float]:
    result = {}
    for account in run.accounts:
        assert account.first_start is not None, f"{account.job.name} never started"
        result[account.job.name] = (account.first_start - account.job.submit) / 1000
    return result


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_gangs_wait_hardly_longer_than_under_easy_backfill_with_exact_run_times(seed: int) -> None:
    """reservations.md 2.3, 4.1"""
    jobs = sorted(stream(seed), key=lambda one: one.submit)
    run = replay(jobs, gpu_nodes(NODES, GPUS), run_times=RunTimes("exact"))
    found, wanted = waits(run), easy(jobs)
    assert found["all"] <= 1.3 * wanted["all"] + 600
    # There GPUs may be on any node: a gang of whole nodes may have to wait for the one before it.
    assert found["half"] <= 1.3 * max(wanted["half"], wanted["all"] + 4 * HOUR) + 600
    assert sum(found.values()) <= 1.5 * sum(wanted.values())


@pytest.mark.parametrize("seed", [1, 2])
def test_gangs_start_without_known_ends_and_little_is_idle(seed: int) -> None:
    """reservations.md 2.4, 5.1, 6.3, 7.5, replay.md 8.2"""
    run = replay(stream(seed), gpu_nodes(NODES, GPUS))
    found = waits(run)
    assert max(found["all"], found["half"]) < 20 * HOUR
    reported = report("default", run)
    idle, hours = reported.reserved_idle, reported.reserved_idle_gpu_hours
    assert idle is not None
    assert hours is not None
    assert hours == pytest.approx(idle * run.capacity_time / 3_600_000 / 1000, rel=0.01)
    assert hours > 0
    assert 0 < idle < 0.1


def test_what_the_scheduler_knows_of_run_times() -> None:
    """replay.md 8.1"""
    limited = ReplayJob("a", 0, 100_000, job("a", 0, 100).shape, 300_000)
    plain = job("b", 0, 100)
    assert str(read_run_times("", [plain])) == "unknown"
    assert str(read_run_times("", [plain, limited])) == "limit"
    told = {text: read_run_times(text, []).of(limited, 60_000) for text in ("unknown", "limit", "exact", "factor:1.5")}
    assert told == {"unknown": None, "limit": 300_000, "exact": 60_000, "factor:1.5": 90_000}
    assert read_run_times("limit", []).of(plain, 100_000) is None
    assert read_run_times("exact", []).of(plain, None) is None


@pytest.mark.parametrize("text", ["exactly", "factor", "factor:0", "factor:nan", "factor:x", "limit:2"])
def test_run_times_that_mean_nothing(text: str) -> None:
    with pytest.raises(ValueError, match=r"^expected unknown, limit, exact or factor:F"):
        read_run_times(text, [])


def test_pods_state_how_long_the_rest_of_their_job_takes() -> None:
    """What was saved before an eviction is not done again, the restart is paid (replay.md 8.1)."""
    jobs = [job("low", 0, 1000, gpu=8, checkpoint=100, priority=0), job("high", 350, 60, gpu=8, priority=10)]
    told = []
    run = replay(jobs, gpu_nodes(1), restart=20, run_times=RunTimes("exact"))
    made = run.makers.pod
    assert of(run, "low").runs == 2

    def noted(*given, **more):  # type: ignore[no-untyped-def]
        told.append((given[0].name, given[4]))
        return made(*given, **more)

    from tests.replay.building import started

    again = started(jobs, gpu_nodes(1), restart=20, run_times=RunTimes("exact"))
    again.makers.pod = noted  # type: ignore[method-assign]
    again.run()
    assert told == [("low", 1_000_000), ("high", 60_000), ("low", 720_000)]
