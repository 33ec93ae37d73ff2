"""Helios: SenseTime's GPU clusters of 2020 (SC 2021), one CSV per cluster."""

from typing import Final

from reprieve.replay.job_list import JobShapes, ReplayJob
from reprieve.replay.traces.importer import (
    Importer,
    ImportOptions,
    Values,
    amount,
    duration,
    optional_time,
    share,
    started,
    tenant,
    text,
    when,
    whole,
    workers_for,
)


def optional_duration(content: str) -> int | None:
    """Milliseconds, or None for an empty field."""
    return duration(content) if content else None


def job(line: int, row: Values, shapes: JobShapes, tenant_column: str) -> ReplayJob | str:
    """Return a job of Helios or Acme, which have the same columns but for which is the tenant."""
    work = started(row["start_time"], row["end_time"], row["duration"])
    if isinstance(work, str):
        return work
    workers, gpus = workers_for(row["gpu_num"], row["node_num"])
    shape = shapes.of(workers=workers, cpu=share(row["cpu_num"], workers), gpu=gpus * 1000, tenant=row[tenant_column])
    return ReplayJob(row["job_id"], row["submit_time"], work, shape)


def _job(line: int, row: Values, options: ImportOptions, shapes: JobShapes) -> ReplayJob | str:
    return job(line, row, shapes, "vc")


IMPORTER: Final = Importer(
    name="helios",
    text="SenseTime's Helios trace of 2020, one CSV per cluster",
    columns={
        "job_id": text,
        "vc": tenant,
        "gpu_num": whole,
        "cpu_num": amount,
        "node_num": whole,
        "submit_time": when,
        "start_time": optional_time,
        "end_time": optional_time,
        "duration": optional_duration,
    },
    job_of=_job,
    dated=True,
    rules=(
        "gpu_num and cpu_num are those of the whole job; node_num workers, or as many more as make them equal",
        "jobs without GPUs stay; jobs that ran no time at all are left out; the virtual cluster is the tenant",
        "times without a zone are taken as UTC; no memory is asked for",
    ),
    clusters="vc",
)
