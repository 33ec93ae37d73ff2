"""The selection of jobs of a list to replay, and their times (replay.md 1.3, 1.4)."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from kube_rules.durations import duration
from kube_rules.work_annotations import moment
from reprieve.replay.job_list import JobList, ReplayJob

_DAYS = re.compile(r"(\d+(?:\.\d+)?)d(.*)", re.ASCII)
_LONGEST_DAYS = 36_600


def long_duration(text: str) -> int:
    """Return the milliseconds of a duration in Go's form, also with days (`30d`, `1d12h`). Raises ValueError."""
    days = 0.0
    rest = text
    if match := _DAYS.fullmatch(text):
        days, rest = float(match[1]), match[2] or "0"
    try:
        seconds = duration(rest) if len(text) <= 64 else -1.0
    except ValueError:
        raise ValueError(f"{text!r}: expected a duration like 90s, 12h or 30d") from None
    if seconds < 0 or days + seconds / 86400 > _LONGEST_DAYS:
        raise ValueError(f"{text[:64]!r}: expected a duration from 0 to {_LONGEST_DAYS}d")
    return round((days * 86400 + seconds) * 1000)


@dataclass(frozen=True, slots=True)
class JobSelection:
    """A requested selection. `begin` and `until`: milliseconds since the first job of the list."""

    begin: int = 0
    until: int | None = None
    load: float = 1.0
    sample: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class ChosenJobs:
    """Jobs with times since the start of the replay, and the end of the replay, if given (milliseconds)."""

    jobs: Sequence[ReplayJob]
    until: int | None
    origin: int | None
    """Milliseconds since 1970 of the replay's beginning, if the list has dates."""
    begin: int = 0
    """When the replay begins, as the list's submits are counted."""


def time_of(text: str, job_list: JobList) -> int:
    """Return a time of the trace, RFC 3339 or a duration, in milliseconds since the first job. Raises ValueError."""
    if re.match(r"\d{4}-", text):
        if not job_list.dated:
            raise ValueError(
                f"{text!r}: the job list has no dates; expected a duration since its first job, such as 12h"
            )
        return round(moment(text) * 1000) - job_list.begin
    return long_duration(text)


def chosen(job_list: JobList, selection: JobSelection) -> ChosenJobs:
    """Return the jobs to replay."""
    first = job_list.begin + selection.begin
    last = None if selection.until is None else job_list.begin + selection.until
    jobs = [job for job in job_list.jobs if job.submit >= first and (last is None or job.submit < last)]
    if selection.sample is not None and selection.sample < len(jobs):
        picked = random.Random(selection.seed).sample(range(len(jobs)), selection.sample)
        jobs = [jobs[at] for at in sorted(picked)]
    begin = jobs[0].submit if jobs and not selection.begin else first
    faster = selection.load
    moved = [ReplayJob(job.name, round((job.submit - begin) / faster), job.work, job.shape, job.limit) for job in jobs]
    until = None if last is None else round(max(0, last - begin) / faster)
    return ChosenJobs(moved, until, begin if job_list.dated else None, begin)
