"""The report of a replay: sums and distributions of the accounts of jobs (replay.md 4)."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

import msgspec

from reprieve.replay.accounts import DONE, ReplayAccount, Series
from reprieve.replay.fragmentation import Sample
from reprieve.replay.unstarted_jobs import UnstartedJobs, never_started
from reprieve.replay.world import Replay

GPU_HOUR = 3_600_000_000
"""Milliseconds × thousandths."""
SIZES = ((1, "1"), (2, "2-7"), (8, "8-15"), (16, "16-63"), (64, "64 and more"))
MOST_GROUPS = 1000
_SHORTEST = 10_000
"""Milliseconds of work that a slowdown counts at least."""


class Distribution(msgspec.Struct, frozen=True, rename="camel"):
    """Of `count` numbers; percentiles by nearest rank. All None without numbers."""

    count: int
    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    max: float | None = None


class JobGroup(msgspec.Struct, frozen=True, rename="camel"):
    """A group of jobs, or all. Times in seconds."""

    name: str
    jobs: int
    done: int
    unfinished: int
    never_started: int
    waiting: Distribution
    completion: Distribution
    slowdown: Distribution
    allocated_gpu_hours: float
    useful_gpu_hours: float
    lost_gpu_hours: float
    restart_gpu_hours: float
    evictions: int
    """How often jobs of it lost workers to a preemptor."""


class GpuTime(msgspec.Struct, frozen=True, rename="camel"):
    """GPU-times in whole thousandths of a GPU times milliseconds: allocated = useful + lost + restart."""

    allocated: int
    useful: int
    lost: int
    restart: int
    capacity: int


class Evictions(msgspec.Struct, frozen=True, rename="camel"):
    """Evictions by preemption."""

    units: int
    pods: int
    gangs: int
    evicted_runs: int
    runs: int
    most_of_one_job: int
    of_evicted_jobs: float
    """On the mean, of the jobs that were evicted at all."""
    moves: int
    """Units that were moved to other nodes for a pending job; not counted as evicted units or pods."""
    lost_moves: int
    """Those of them that did not start at once where they were to."""
    budget_violations: int
    runs_lost_to_nodes: int
    pods_of_the_cluster_file: int


class Curves(msgspec.Struct, frozen=True, rename="camel"):
    """Series: means over `width` seconds each, GPUs and jobs; `lost` is GPU-hours lost in that time."""

    width: float
    allocated: tuple[float, ...]
    capacity: tuple[float, ...]
    waiting: tuple[float, ...]
    lost: tuple[float, ...]
    fragmentation: tuple[tuple[float, float], ...]
    """(seconds, share of the free GPUs that waiting workers cannot use) of each sample that has one."""
    workload_fragmentation: tuple[tuple[float, float | None], ...]
    """The same of the tasks of the whole list, waiting or not; None: nothing was free."""


class PolicyReport(msgspec.Struct, frozen=True, rename="camel"):
    """The report of one policy. Times in seconds since the start of the replay."""

    name: str
    total: JobGroup
    gpu_time: GpuTime
    allocation: float | None
    goodput: float | None
    reserved_idle_gpu_hours: float
    """GPU-hours that were idle because they were reserved."""
    reserved_idle: float | None
    """Their share of the capacity."""
    satisfied: float | None
    """Share of the time after their first start, up to their end, in which gangs had their minimum."""
    evictions: Evictions
    fragmentation: float | None
    """Share of the free GPUs that waiting workers cannot use."""
    workload_fragmentation: float | None
    """Share of the free GPUs that the tasks of the list, waiting or not, cannot use."""
    makespan: float
    """When the last job ended."""
    ended: float
    """Up to when it was simulated."""
    decisions: int
    interrupted: bool
    by_priority_class: tuple[JobGroup, ...]
    by_tenant: tuple[JobGroup, ...]
    by_gpus: tuple[JobGroup, ...]
    series: Curves
    never_started: tuple[UnstartedJobs, ...] = ()
    """Why, the reasons of most jobs first."""


class JobRow(msgspec.Struct, frozen=True, array_like=True):
    """The results of one job, in seconds and GPU-hours; None: did not happen."""

    job: str
    tenant: str
    priority_class: str
    priority: int
    workers: int
    gpus: float
    submit: float
    start: float | None
    end: float | None
    waiting: float
    completion: float | None
    slowdown: float | None
    runs: int
    evictions: int
    allocated_gpu_hours: float
    useful_gpu_hours: float
    lost_gpu_hours: float
    restart_gpu_hours: float


def size_of(account: ReplayAccount) -> str:
    """Return the class of the total GPUs of a job; a fraction counts as 1, `none` is none."""
    gpus = account.job.shape.gpus / 1000
    if gpus <= 0:
        return "none"
    at = bisect_right([least for least, _ in SIZES], gpus)
    return SIZES[max(0, at - 1)][1]


def report(name: str, replay: Replay, *, interrupted: bool = False) -> PolicyReport:
    """Return the report of a closed run (`Replay.close`)."""
    now = replay.series.at
    arrived = _arrived(replay)
    priority = replay.makers.priority
    ranks = {account.job.shape.priority_class: -priority(account.job.shape) for account in arrived}
    order = [label for _, label in SIZES] + ["none"]
    time = GpuTime(
        allocated=sum(account.allocated for account in arrived),
        useful=sum(account.useful for account in arrived),
        lost=sum(account.lost for account in arrived),
        restart=sum(account.restart for account in arrived),
        capacity=replay.capacity_time,
    )
    counts = replay.counts
    ends = [account.end for account in arrived if account.end is not None]
    return PolicyReport(
        name=name,
        total=_group("all", arrived, now),
        gpu_time=time,
        allocation=_share(time.allocated, time.capacity),
        goodput=_share(time.useful, time.capacity),
        reserved_idle_gpu_hours=_hours(replay.reserved_idle_time),
        reserved_idle=_share(replay.reserved_idle_time, time.capacity),
        satisfied=_satisfied(arrived, now),
        evictions=Evictions(
            units=counts.units,
            pods=counts.pods,
            gangs=counts.gangs,
            evicted_runs=sum(account.evicted_runs for account in arrived),
            runs=sum(account.runs for account in arrived),
            of_evicted_jobs=distribution(account.evictions for account in arrived if account.evictions).mean or 0.0,
            most_of_one_job=max((account.evictions for account in arrived), default=0),
            moves=counts.moves,
            lost_moves=replay.engine.moves.lost_units,
            budget_violations=counts.budget_violations,
            runs_lost_to_nodes=sum(account.lost_runs for account in arrived),
            pods_of_the_cluster_file=counts.foreign_pods,
        ),
        fragmentation=_rounded(replay.fragmentation.by_waiting),
        workload_fragmentation=_rounded(replay.fragmentation.by_workload),
        makespan=max(ends, default=0) / 1000,
        ended=now / 1000,
        decisions=replay.engine.attempts,
        interrupted=interrupted,
        by_priority_class=_groups(
            arrived, now, lambda account: account.job.shape.priority_class, lambda name: (ranks[name], name)
        ),
        by_tenant=_groups(arrived, now, lambda account: account.job.shape.tenant, lambda name: (0, name)),
        by_gpus=_groups(arrived, now, size_of, lambda name: (order.index(name), name)),
        series=_curves(replay.series, replay.fragmentation.samples),
        never_started=never_started(replay, arrived),
    )


def _satisfied(arrived: Sequence[ReplayAccount], now: int) -> float | None:
    """Return the share of time that started gangs had their minimum (repair.md 3.5)."""
    gangs = [account for account in arrived if account.first_start is not None and account.job.shape.workers > 1]
    lives = sum((now if gang.end is None else gang.end) - (gang.first_start or 0) for gang in gangs)
    return _share(sum(gang.satisfied for gang in gangs), lives) if gangs else None


def rows(replay: Replay) -> list[JobRow]:
    """Return a row per arrived job, in order of submission."""
    now = replay.series.at
    result = []
    for account in _arrived(replay):
        job = account.job
        completion = None if account.end is None else account.end - job.submit
        result.append(
            JobRow(
                job=job.name,
                tenant=job.shape.tenant,
                priority_class=job.shape.priority_class,
                priority=replay.makers.priority(job.shape),
                workers=job.shape.workers,
                gpus=job.shape.gpus / 1000,
                submit=job.submit / 1000,
                start=None if account.first_start is None else account.first_start / 1000,
                end=None if account.end is None else account.end / 1000,
                waiting=_waited(account, now) / 1000,
                completion=None if completion is None else completion / 1000,
                slowdown=None if completion is None else round(_slowdown(account), 4),
                runs=account.runs,
                evictions=account.evictions,
                allocated_gpu_hours=_hours(account.allocated),
                useful_gpu_hours=_hours(account.useful),
                lost_gpu_hours=_hours(account.lost),
                restart_gpu_hours=_hours(account.restart),
            )
        )
    return result


def _arrived(replay: Replay) -> list[ReplayAccount]:
    """Return the jobs that arrived in the simulated time."""
    return [account for account in replay.accounts if account.job.submit <= replay.series.at]


def distribution(numbers: Iterable[float], digits: int = 3) -> Distribution:
    """Return mean, percentiles by nearest rank, and maximum."""
    values = sorted(numbers)
    if not values:
        return Distribution(0)

    def percentile(share: int) -> float:
        return values[max(0, -(-share * len(values) // 100) - 1)]

    mean = sum(values) / len(values)
    return Distribution(
        len(values),
        *(round(number, digits) for number in (mean, percentile(50), percentile(90), percentile(99), values[-1])),
    )


def _groups(
    accounts: Sequence[ReplayAccount],
    now: int,
    name_of: Callable[[ReplayAccount], str],
    order: Callable[[str], tuple[int, str]],
) -> tuple[JobGroup, ...]:
    by_name: dict[str, list[ReplayAccount]] = {}
    for account in accounts:
        by_name.setdefault(name_of(account), []).append(account)
    if len(by_name) > MOST_GROUPS:
        largest = sorted(by_name, key=lambda name: (-len(by_name[name]), name))[:MOST_GROUPS]
        by_name = {name: by_name[name] for name in largest}
    return tuple(_group(name, by_name[name], now) for name in sorted(by_name, key=order))


def _group(name: str, accounts: Sequence[ReplayAccount], now: int) -> JobGroup:
    done = [account for account in accounts if account.state == DONE]
    return JobGroup(
        name=name,
        jobs=len(accounts),
        done=len(done),
        unfinished=len(accounts) - len(done),
        never_started=sum(1 for account in accounts if account.first_start is None),
        waiting=distribution(_waited(account, now) / 1000 for account in accounts),
        completion=distribution(
            (account.end - account.job.submit) / 1000 for account in done if account.end is not None
        ),
        slowdown=distribution((_slowdown(account) for account in done), 4),
        allocated_gpu_hours=_hours(sum(account.allocated for account in accounts)),
        useful_gpu_hours=_hours(sum(account.useful for account in accounts)),
        lost_gpu_hours=_hours(sum(account.lost for account in accounts)),
        restart_gpu_hours=_hours(sum(account.restart for account in accounts)),
        evictions=sum(account.evictions for account in accounts),
    )


def _waited(account: ReplayAccount, now: int) -> int:
    return (now if account.first_start is None else account.first_start) - account.job.submit


def _slowdown(account: ReplayAccount) -> float:
    assert account.end is not None
    work = max(account.job.work or 0, _SHORTEST)
    return max(1.0, (account.end - account.job.submit) / work)


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 6)


def _hours(amount: int) -> float:
    return round(amount / GPU_HOUR, 6)


def _curves(series: Series, samples: Sequence[Sample]) -> Curves:
    allocated, capacity, waiting, lost = series.sums
    points = max(map(len, series.sums))
    spans = [min(series.width, series.at - point * series.width) for point in range(points)]

    def means(sums: Sequence[int], per: int) -> tuple[float, ...]:
        return tuple(
            round(amount / span / per, 4) if span > 0 else 0.0 for amount, span in zip(sums, spans, strict=True)
        )

    return Curves(
        width=series.width / 1000,
        allocated=means(allocated, 1000),
        capacity=means(capacity, 1000),
        waiting=means(waiting, 1),
        lost=tuple(round(amount / GPU_HOUR, 6) for amount in lost),
        fragmentation=tuple(
            (sample.at / 1000, round(sample.by_waiting, 6)) for sample in samples if sample.by_waiting is not None
        ),
        workload_fragmentation=tuple((sample.at / 1000, _rounded(sample.by_workload)) for sample in samples),
    )
