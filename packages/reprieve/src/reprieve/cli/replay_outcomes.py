"""One run of a replay, wherever it runs: here, in a process of its own, or on a worker of Dask."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reprieve.cli.outcome import CommandError, Exit
from reprieve.cli.replay_setup import GivenReplay, Task

if TYPE_CHECKING:
    from reprieve.replay.policy_run import PolicyOutcome, Stop
    from reprieve.replay.world import Policy

_EVERY = 0.5
"""Seconds between two reports of progress."""
Progress = Callable[[int, int], None]
Take = Callable[[int, "PolicyOutcome"], None]
"""Called with the number of a run and what it came to."""


@dataclass(frozen=True, slots=True)
class RunsEnded:
    """How runs ended that came to nothing: messages of those that failed, names of those that were not begun."""

    died: tuple[str, ...] = ()
    not_begun: tuple[str, ...] = ()


def outcome_of(given: GivenReplay, name: str, policy: "Policy", stop: "Stop", progress: Progress) -> "PolicyOutcome":
    """Run a policy. Raises CommandError for jobs and a cluster that do not go together."""
    from reprieve.replay.world import ReplayError

    try:
        return given.simulate(name, policy, given.chosen, stop, progress)
    except ReplayError as error:
        raise CommandError(str(error), Exit.NOT_SO) from error


def trimmed(outcome: "PolicyOutcome", task: Task) -> "PolicyOutcome":
    """Return the outcome without what the answer does not have: a sweep has no series, only some forms have jobs."""
    report = outcome.report
    if task.sweep:
        import msgspec

        empty = {field.name: () for field in msgspec.structs.fields(report.series) if field.name != "width"}
        report = msgspec.structs.replace(report, series=msgspec.structs.replace(report.series, **empty))
    return replace(outcome, report=report, rows=outcome.rows if task.rows else [])


def paced(report: Progress) -> Progress:
    """Report twice a second at most."""
    last = time.monotonic()

    def progress(done: int, now: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY:
            last = time.monotonic()
            report(done, now)

    return progress
