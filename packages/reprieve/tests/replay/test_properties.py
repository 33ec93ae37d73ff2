"""What holds of every replay (replay.md 7)."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reprieve.framework.configuration_reader import configuration_of
from reprieve.framework.gates import FeatureGates
from reprieve.replay.failures import Failures
from reprieve.replay.job_list import ReplayJob
from reprieve.replay.statistics import report
from reprieve.replay.world import Policy, Replay
from reprieve.scheduling.profiles import profiles_of
from tests.replay.building import gpu_nodes, job, replay, started, times

NO_PREEMPTION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {
                "postFilter": {"disabled": [{"name": "*"}]},
                "podGroupPostFilter": {"disabled": [{"name": "*"}]},
            },
        }
    ],
}


def without_preemption() -> Policy:
    return Policy(profiles_of(configuration_of(NO_PREEMPTION), FeatureGates()))


@st.composite
def job_lists(draw: st.DrawFn, most: int = 14) -> list[ReplayJob]:
    def one(number: int) -> ReplayJob:
        workers = draw(st.integers(1, 4))
        more: dict[str, Any] = {"min_workers": draw(st.integers(1, workers)), "priority": draw(st.integers(0, 2))}
        more["whole"] = draw(st.booleans())
        checkpoint = draw(st.sampled_from((None, 7, 60, 1000)))
        if checkpoint is not None:
            more["checkpoint"] = checkpoint
        submit, work = draw(st.integers(0, 300_000)) / 1000, draw(st.integers(1, 200_000)) / 1000
        return job(f"j{number}", submit, work, gpu=draw(st.integers(0, 4)), workers=workers, **more)

    return [one(number) for number in range(draw(st.integers(1, most)))]


def holds(run: Replay) -> None:
    """Work is conserved, and no job ends before its work can be done (replay.md 7.2, 7.3)."""
    for account in run.accounts:
        assert account.allocated == account.useful + account.lost + account.restart
        assert min(account.useful, account.lost, account.restart, account.pending) >= 0
        work = account.job.work
        if account.end is not None and work is not None:
            assert account.end >= account.job.submit + work
            assert account.done == work
    allocated = sum(run.series.sums[run.series.names.index("allocated")])
    assert allocated <= run.capacity_time
    summed = report("x", run).gpu_time
    assert summed.allocated == summed.useful + summed.lost + summed.restart == allocated


@given(job_lists(), st.sampled_from((0, 1, 30)), st.booleans(), st.integers(0, 3))
@settings(max_examples=25, deadline=None)
def test_work_is_conserved_and_no_job_ends_too_early(
    jobs: list[ReplayJob], restart: int, failing: bool, seed: int
) -> None:
    failures = Failures(120_000, 20_000) if failing else Failures()
    run = replay(jobs, gpu_nodes(2, 4), restart=restart, failures=failures, seed=seed)
    holds(run)


@given(job_lists())
@settings(max_examples=25, deadline=None)
def test_jobs_start_at_submit_with_unlimited_capacity(jobs: list[ReplayJob]) -> None:
    """replay.md 7.1."""
    run = replay(jobs, gpu_nodes(64, 4), policy=without_preemption())
    assert {name: start for name, (start, _) in times(run).items()} == {one.name: one.submit / 1000 for one in jobs}
    assert {name: end for name, (_, end) in times(run).items()} == {
        one.name: (one.submit + (one.work or 0)) / 1000 for one in jobs
    }


@given(job_lists(), st.lists(st.integers(0, 500_000), min_size=1, max_size=4), st.booleans())
@settings(max_examples=25, deadline=None)
def test_replay_stopped_and_continued_equals_the_whole(jobs: list[ReplayJob], stops: list[int], failing: bool) -> None:
    failures = Failures(120_000, 20_000) if failing else Failures()
    whole = replay(jobs, gpu_nodes(2, 4), restart=5, failures=failures)
    parts = started(jobs, gpu_nodes(2, 4), restart=5, failures=failures)
    for stop in sorted(stops):
        parts.run(stop)
    parts.run()
    parts.close(parts.now)
    assert report("x", parts) == report("x", whole)
    assert times(parts) == times(whole)


@given(job_lists(10), job_lists(6))
@settings(max_examples=25, deadline=None)
def test_lower_priorities_never_keep_a_higher_one_waiting(jobs: list[ReplayJob], more: list[ReplayJob]) -> None:
    """A job of higher priority waits for grace periods only where lower ones hold the capacity (replay.md 7.4)."""
    low = [
        ReplayJob(f"low-{one.name}", one.submit, one.work, job("x", 0, 1, workers=one.shape.workers).shape)
        for one in jobs
    ]
    high = [
        ReplayJob(one.name, one.submit, one.work, job("x", 0, 1, gpu=4, priority=10).shape) for one in more[:2]
    ]  # two nodes: both fit at once
    run = replay([*low, *high], gpu_nodes(2, 4))
    for one in high:
        start, _ = times(run)[one.name]
        assert start is not None
        assert one.submit / 1000 <= start <= one.submit / 1000 + 30 + 30


@given(job_lists(), st.integers(0, 5))
@settings(max_examples=8, deadline=None)
def test_same_input_and_seed_give_the_same_report(jobs: list[ReplayJob], seed: int) -> None:
    """replay.md 1.7."""
    first, second = (replay(jobs, gpu_nodes(2, 4), seed=seed) for _ in range(2))
    assert report("x", first) == report("x", second)


def first_fit(jobs: list[ReplayJob], gpus: int) -> dict[str, float]:
    """An oracle that knows nothing of the engine: one machine, and whenever a job comes or ends, waiting jobs are
    tried in the order of priority and submit, and start if they fit."""
    waiting: list[tuple[int, int, int]] = []
    running: list[tuple[int, int]] = []
    free, starts = gpus, dict[str, float]()
    times = {one.submit for one in jobs}
    while times:
        now = min(times)
        times.remove(now)
        free += sum(held for end, held in running if end == now)
        running = [(end, held) for end, held in running if end != now]
        waiting += [(-(one.shape.priority or 0), one.submit, at) for at, one in enumerate(jobs) if one.submit == now]
        for entry in sorted(waiting):
            one = jobs[entry[2]]
            if one.shape.gpus // 1000 <= free:
                free -= one.shape.gpus // 1000
                starts[one.name] = now / 1000
                end = now + (one.work or 0)
                running.append((end, one.shape.gpus // 1000))
                times.add(end)
                waiting.remove(entry)
    return starts


@given(
    st.lists(
        st.tuples(
            st.integers(0, 60_000), st.integers(1, 30_000), st.integers(1, 4), st.integers(0, 2), st.integers(1, 2)
        ),
        min_size=1,
        max_size=30,
    )
)
@settings(max_examples=60, deadline=None)
def test_without_preemption_jobs_start_when_a_plain_simulation_starts_them(
    drawn: list[tuple[int, int, int, int, int]],
) -> None:
    """Pods and gangs of several sizes and priorities on one machine; backoffs are off, as the oracle has none."""
    jobs = [
        job(f"j{at}", submit / 1000, work / 1000, gpu=gpus, priority=priority, workers=workers)
        for at, (submit, work, gpus, priority, workers) in enumerate(sorted(drawn))
    ]
    policy = without_preemption()
    run = replay(jobs, gpu_nodes(1), policy=Policy(policy.profiles, policy.gates, 0.0, 0.0))
    assert {name: start for name, (start, _) in times(run).items()} == first_fit(jobs, 8)
    holds(run)
