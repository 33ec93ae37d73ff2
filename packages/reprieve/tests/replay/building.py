"""Jobs and clusters for replays, in a line each."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kube_rules import objects
from reprieve.replay.accounts import ReplayAccount
from reprieve.replay.job_list import JobShapes, ReplayJob
from reprieve.replay.world import Policy, Replay, WorldSettings
from tests.building import node

HOUR = 3600


def job(name: str, submit: float, work: float | None, *, gpu: float = 1, workers: int = 1, **more: Any) -> ReplayJob:
    """A job; times in seconds, GPUs of each worker."""
    for key in ("checkpoint",):
        if key in more:
            more[key] = round(more[key] * 1000)
    shape = JobShapes().of(workers=workers, gpu=round(gpu * 1000), **more)
    return ReplayJob(name, round(submit * 1000), None if work is None else round(work * 1000), shape)


def gpu_nodes(count: int, gpus: int = 8) -> list[objects.Node]:
    return [node(f"n{number}", cpu=96, memory="768Gi", gpu=gpus) for number in range(count)]


def replay(
    jobs: Iterable[ReplayJob],
    nodes: Sequence[objects.KubernetesObject],
    *,
    policy: Policy | None = None,
    until: float | None = None,
    **settings: Any,
) -> Replay:
    """A finished run, closed."""
    run = started(jobs, nodes, policy=policy, **settings)
    run.run(None if until is None else round(until * 1000))
    run.close(run.now if until is None else round(until * 1000))
    return run


def started(
    jobs: Iterable[ReplayJob],
    nodes: Sequence[objects.KubernetesObject],
    *,
    policy: Policy | None = None,
    progress: Callable[[int, int], None] = lambda done, now: None,
    **settings: Any,
) -> Replay:
    """A run that has not begun; `restart` and `checkpoint` in seconds."""
    for key in ("restart", "checkpoint"):
        if key in settings:
            settings[key] = round(settings[key] * 1000)
    ordered = sorted(jobs, key=lambda one: one.submit)
    return Replay(ordered, [(item, 0.0) for item in nodes], policy, WorldSettings(**settings), progress=progress)


def of(run: Replay, name: str) -> ReplayAccount:
    return next(account for account in run.accounts if account.job.name == name)


def times(run: Replay) -> dict[str, tuple[float | None, float | None]]:
    """Name -> (first start, end), seconds."""
    return {account.job.name: (_seconds(account.first_start), _seconds(account.end)) for account in run.accounts}


def _seconds(when: int | None) -> float | None:
    return None if when is None else when / 1000


def gpu_hours(amount: int) -> float:
    return amount / 3_600_000_000
