"""What a format of traces is: an `Importer`, and what its rows are read with.

An importer says which columns it wants and how each is read, and makes a job of the values of one row.  It does no
I/O of its own unless the trace is no table (`rows`).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from reprieve.replay.job_list import JobListError, JobShapes, ReplayJob, seconds

Values = Mapping[str, Any]
"""What the wanted columns of a row were read into."""
GPUS_A_WORKER: Final = 8


@dataclass(frozen=True, slots=True)
class Machine:
    """Nodes of a trace. `cpu` in milli-cores, `memory` in bytes (0: not given), `gpus` whole devices."""

    name: str
    cpu: int
    memory: int
    gpus: int
    model: str = ""


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What was requested beside the format."""

    only: tuple[str, ...] = ()
    """Clusters of the trace to keep; none: all."""
    durations: Mapping[tuple[str, int], float] = field(default_factory=dict)
    """(job type, scale factor) -> steps a second; scale factor 0 stands for any."""


Maker = Callable[[int, Values, ImportOptions, JobShapes], ReplayJob | str]
"""(line, values, options, shapes) -> the job, or why this row is none. Raises ValueError for what makes no sense."""


@dataclass(frozen=True, slots=True)
class Importer:
    """A format of traces. `columns`: name -> what reads it; `rules`: what is filled in, a sentence each."""

    name: str
    text: str
    columns: Mapping[str, Callable[[str], Any]]
    job_of: Maker
    dated: bool
    """SubmitTimes are milliseconds since 1970, not since the trace began."""
    rules: tuple[str, ...] = ()
    machine_columns: Mapping[str, Callable[[str], Any]] | None = None
    machine_of: Callable[[Values], Machine] | None = None
    rows: Callable[[Path], Iterator[tuple[int, list[str] | JobListError]]] | None = None
    """Reads what is no CSV: the names of columns first, then rows, or what is wrong with one."""
    optional: frozenset[str] = frozenset()
    """Columns that a file may lack; they are read as empty."""
    clusters: str = ""
    """The column that `--only` chooses by."""


# -- values ------------------------------------------------------------------------------------------------------------


def text(content: str) -> str:
    """Any text."""
    return content


def whole(content: str) -> int:
    """Return an integer from 0, which may be written as `8.0`."""
    number = content[:-2] if content.endswith(".0") else content
    if not (number.isascii() and number.isdigit() and len(number) <= 15):
        raise ValueError("expected a whole number")
    return int(number)


def amount(content: str) -> float:
    """Return a number from 0, empty for 0."""
    if not content:
        return 0.0
    return seconds(content) / 1000


def duration(content: str) -> int:
    """Milliseconds of a number of seconds."""
    return seconds(content)


def optional_duration(content: str) -> int | None:
    """Milliseconds, or None for an empty field."""
    return duration(content) if content else None


def optional_time(content: str) -> int | None:
    """Return a time, or None for an empty field, `None` and `null`."""
    return None if content in ("", "None", "null", "nan", "NaT") else when(content)


def when(content: str) -> int:
    """Milliseconds since 1970 of `2017-10-09 07:01:55` or RFC 3339; without a zone it is taken as UTC."""
    try:
        moment = datetime.fromisoformat(content)
    except ValueError:
        raise ValueError("expected a time such as 2017-10-09 07:01:55") from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    milliseconds = round(moment.timestamp() * 1000)
    if milliseconds < 0:
        raise ValueError("expected a time since 1970")
    return milliseconds


def tenant(content: str) -> str:
    """Return a valid namespace for the text: lower case, with `-` for other characters."""
    name = re.sub(r"[^a-z0-9]+", "-", content.lower()).strip("-")[:63].strip("-")
    return name or "default"


def model(content: str) -> str:
    """Return a value of a label that reads like this."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", content).strip("-_.")[:63].strip("-_.")


# -- gangs -------------------------------------------------------------------------------------------------------------


def workers_for(gpus: int, least: int = 1) -> tuple[int, int]:
    """(workers, GPUs of each): as few workers of equal size as there can be, 8 GPUs at most each, `least` or more."""
    if gpus == 0:
        return max(least, 1), 0
    most = min(GPUS_A_WORKER, gpus // max(least, 1))
    count = next((count for count in range(most, 1, -1) if gpus % count == 0), 1)
    return gpus // count, count


def share(total: float, workers: int) -> int:
    """Milli-cores of each worker, of cores in all."""
    return round(total * 1000) // workers


def started(begin: int | None, end: int | None, recorded: int | None) -> int | str:
    """Milliseconds of work: what the trace gives, else from start to end; or why there is none."""
    duration = recorded if recorded is not None else end - begin if begin is not None and end is not None else None
    if duration is None:
        return "never ran"
    if duration < 0:
        raise ValueError("ends before it starts")
    return duration if duration > 0 else "ran no time at all"
