"""Gavel's traces (OSDI 2020): tab separated, no header.

Two layouts are about: type, command, steps flag, steps, arrival, scale factor; and the artifact's with more columns, of
what the command needs and of weights.  Both count steps, not seconds: a last column has the duration, or a table
says how many steps a second a job type makes.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from kube_rules.work_annotations import LONGEST
from reprieve.replay.job_list import JobListError, JobShapes, ReplayJob, csv_rows
from reprieve.replay.traces import importer
from reprieve.replay.traces.importer import Importer, ImportOptions, Values

_SHORT: Final = ("type", "command", "steps_flag", "steps", "arrival", "scale_factor")
_LONG: Final = (
    *("type", "command", "steps_flag", "needs_data", "steps", "scale_factor", "weight", "slo"),
    "arrival",
)
_LAYOUTS: Final = {len(names): names for base in (_SHORT, _LONG) for names in (base, (*base, "duration"))}
_WANTED: Final = ("type", "steps", "arrival", "scale_factor", "duration")


def _rows(path: Path) -> Iterator[tuple[int, list[str] | JobListError]]:
    yield 0, list(_WANTED)
    for line, row in csv_rows(path, delimiter="\t"):
        layout = _LAYOUTS.get(len(row))
        if layout is None:
            want = ", ".join(map(str, sorted(_LAYOUTS)))
            yield line, JobListError(str(path), line, "", f"{len(row)} fields, expected {want}")
            continue
        values = dict(zip(layout, row, strict=True))
        yield line, [values.get(name, "") for name in _WANTED]


def _job(line: int, row: Values, options: ImportOptions, shapes: JobShapes) -> ReplayJob | str:
    scale = row["scale_factor"]
    if scale == 0:
        raise ValueError("expected a scale factor from 1")
    work: Any = row["duration"]
    if work is None:
        rate = options.durations.get((row["type"], scale)) or options.durations.get((row["type"], 0))
        if rate is None:
            raise ValueError(f'no duration, and --durations has no "{row["type"]}" of scale factor {scale}')
        if row["steps"] / rate > LONGEST:
            raise ValueError(f"{row['steps']} steps at {rate:g} a second take more than ten years")
        work = round(row["steps"] / rate * 1000)
    if work == 0:
        return "ran no time at all"
    return ReplayJob(f"gavel-{line}", row["arrival"], work, shapes.of(workers=scale, gpu=1000))


IMPORTER: Final = Importer(
    name="gavel",
    text="Gavel's traces, tab separated; --durations: steps a second by job type, where there is no duration",
    columns={
        "type": importer.text,
        "steps": importer.whole,
        "arrival": importer.duration,
        "scale_factor": importer.whole,
        "duration": importer.optional_duration,
    },
    job_of=_job,
    dated=False,
    rules=(
        "scale_factor workers of one GPU each; no CPU or memory is requested",
        "work is the duration of a last column, else steps divided by the rate in --durations "
        "(CSV type,steps_per_second, and scale_factor where it matters)",
    ),
    rows=_rows,
)
