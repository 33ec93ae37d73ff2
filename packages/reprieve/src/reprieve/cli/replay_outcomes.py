"""One run of a replay, in this process, in another one, or on a worker of Dask."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reprieve.cli.outcome import CommandError, Exit
from reprieve.cli.replay_setup import ReplayArguments, Task

if TYPE_CHECKING:
    from reprieve.replay.policy_run import PolicyOutcome, Stop
    from reprieve.replay.world import Policy

_EVERY = 0.5
"""Seconds between two reports of progress."""
Progress = Callable[[int, int], None]
Take = Callable[[int, "PolicyOutcome"], None]
"""Called with the number of a run and its outcome."""


@dataclass(frozen=True, slots=True)
class EndedRuns:
    """Runs without a result: messages of those that failed, names of those that were not started."""

    died: tuple[str, ...] = ()
    not_begun: tuple[str, ...] = ()


def outcome_of(
    inputs: ReplayArguments, name: str, policy: "Policy", stop: "Stop", progress: Progress
) -> "PolicyOutcome":
    """Run a policy. Raises CommandError if the jobs do not match the cluster."""
    from reprieve.replay.world import ReplayError

    try:
        return inputs.simulate(name, policy, inputs.chosen, stop, progress)
    except ReplayError as error:
        raise CommandError(str(error), Exit.NOT_SO) from error


def trimmed(outcome: "PolicyOutcome", task: Task) -> "PolicyOutcome":
    """Return the outcome without parts that the answer does not use: series in a sweep, jobs in some formats."""
    report = outcome.report
    if task.sweep:
        import msgspec

        empty = {field.name: () for field in msgspec.structs.fields(report.series) if field.name != "width"}
        report = msgspec.structs.replace(report, series=msgspec.structs.replace(report.series, **empty))
    return replace(outcome, report=report, rows=outcome.rows if task.rows else [])


def paced(report: Progress) -> Progress:
    """Report progress at most twice a second."""
    last = time.monotonic()

    def progress(done: int, now: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY:
            last = time.monotonic()
            report(done, now)

    return progress
