"""The scheduler's knowledge of run times: none, the limits of jobs, or the true times (replay.md 8)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from reprieve.replay.job_list import ReplayJob

UNKNOWN, LIMIT, EXACT, FACTOR = "unknown", "limit", "exact", "factor"
_WANTED: Final = "expected unknown, limit, exact or factor:F with F from 0.001 to 1000"


@dataclass(frozen=True, slots=True)
class RunTimes:
    """The knowledge of run times; see the module docstring."""

    source: str = UNKNOWN
    factor: float = 1.0
    """Of the true run time, with `factor`."""

    def __str__(self) -> str:
        return f"{FACTOR}:{self.factor:g}" if self.source == FACTOR else self.source

    def of(self, job: ReplayJob, left: int | None) -> int | None:
        """Return the milliseconds that the scheduler expects for a run with `left` of work; None: unknown."""
        if self.source == LIMIT:
            return job.limit
        if self.source == UNKNOWN or left is None:
            return None
        return max(1, round(left * self.factor))


def read_run_times(text: str, jobs: Iterable[ReplayJob]) -> RunTimes:
    """Read the option; empty: limits where a job has one. Raises ValueError."""
    if not text:
        return RunTimes(LIMIT if any(job.limit is not None for job in jobs) else UNKNOWN)
    name, colon, number = text.partition(":")
    if name in (UNKNOWN, LIMIT, EXACT) and not colon:
        if name == LIMIT and jobs and all(job.limit is None for job in jobs):
            raise ValueError("no job has a time limit (column time_limit)")
        return RunTimes(name)
    try:
        factor = float(number)
    except ValueError:
        raise ValueError(_WANTED) from None
    if name != FACTOR or not 0.001 <= factor <= 1000:
        raise ValueError(_WANTED)
    return RunTimes(FACTOR, factor)
