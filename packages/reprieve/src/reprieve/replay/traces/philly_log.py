"""Microsoft's Philly trace of 2017 in its original form: a JSON array of jobs with their attempts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from reprieve.replay.job_list import MAX_BYTES, JobListError, JobShapes, ReplayJob
from reprieve.replay.traces import importer
from reprieve.replay.traces.importer import Importer, ImportOptions, Values


class _Host(msgspec.Struct):
    gpus: list[str] = []


class _PhillyAttempt(msgspec.Struct):
    start_time: str | None = None
    end_time: str | None = None
    detail: list[_Host] = []


class _LogEntry(msgspec.Struct):
    jobid: str
    submitted_time: str
    vc: str = ""
    attempts: list[_PhillyAttempt] = []


_COLUMNS: Final = ("jobid", "vc", "submitted_time", "attempts", "hosts", "gpus")
_NO_TIME: Final = (None, "", "None")
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for what is no JSON, text that is not UTF-8, and values within values within values."""


def _rows(path: Path) -> Iterator[tuple[int, list[str] | JobListError]]:
    """Yield the jobs as rows; a job's line is its place in the array, from 2 on, as in a table with a header."""
    with path.open("rb") as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise JobListError(str(path), 0, "", f"larger than {MAX_BYTES} bytes")
    yield 1, list(_COLUMNS)
    try:
        entries = msgspec.json.decode(data, type=list[msgspec.Raw])
    except _UNREADABLE as error:
        raise JobListError(str(path), 0, "", f"not a JSON array of jobs: {error}") from None
    for line, raw in enumerate(entries, 2):
        try:
            job = msgspec.json.decode(raw, type=_LogEntry)
        except _UNREADABLE as error:
            yield line, JobListError(str(path), line, "", f"not a job (counted from 2): {error}")
            continue
        hosts = job.attempts[-1].detail if job.attempts else []
        gpus = sum(len(host.gpus) for host in hosts)
        yield line, [job.jobid, job.vc, job.submitted_time, _known(job.attempts), str(len(hosts)), str(gpus)]


def _known(attempts: list[_PhillyAttempt]) -> str:
    """Return the attempts that have a beginning and an end, `BEGIN to END` each, separated by commas."""
    known = (item for item in attempts if item.start_time not in _NO_TIME and item.end_time not in _NO_TIME)
    return ", ".join(f"{item.start_time} to {item.end_time}" for item in known)


def _work(content: str) -> int | None:
    """Milliseconds of all attempts; None where there are none."""
    if not content:
        return None
    times = [attempt.partition(" to ") for attempt in content.split(", ")]
    return sum(importer.when(end) - importer.when(begin) for begin, _, end in times)


def _job(line: int, row: Values, options: ImportOptions, shapes: JobShapes) -> ReplayJob | str:
    work = importer.started(None, None, row["attempts"])
    if isinstance(work, str):
        return work
    if not row["gpus"]:
        return "was never placed"
    workers, gpus = importer.workers_for(row["gpus"], row["hosts"])
    return ReplayJob(
        row["jobid"], row["submitted_time"], work, shapes.of(workers=workers, gpu=gpus * 1000, tenant=row["vc"])
    )


IMPORTER: Final = Importer(
    name="philly-log",
    text="Microsoft's Philly trace of 2017 as its JSON job log",
    columns={
        "jobid": importer.text,
        "vc": importer.tenant,
        "submitted_time": importer.when,
        "attempts": _work,
        "hosts": importer.whole,
        "gpus": importer.whole,
    },
    job_of=_job,
    dated=True,
    rules=(
        "the work of a job is the time of all its attempts; jobs that never ran are left out",
        "workers are the hosts of the last attempt, or as many more as make them equal; the vc is the tenant",
        "times without a zone are taken as UTC; no CPU or memory is requested",
    ),
    rows=_rows,
    clusters="vc",
)
