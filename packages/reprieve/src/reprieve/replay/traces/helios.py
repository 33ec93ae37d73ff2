"""Helios: SenseTime's GPU clusters of 2020 (SC 2021), one CSV per cluster."""

from functools import partial
from typing import Final

from reprieve.replay.job_list import JobShapes, ReplayJob
from reprieve.replay.traces import importer
from reprieve.replay.traces.importer import Importer, ImportOptions, Values


def job(line: int, row: Values, options: ImportOptions, shapes: JobShapes, tenant_column: str) -> ReplayJob | str:
    """Return a job of Helios or Acme, which have the same columns but for which is the tenant."""
    work = importer.started(row["start_time"], row["end_time"], row["duration"])
    if isinstance(work, str):
        return work
    workers, gpus = importer.workers_for(row["gpu_num"], row["node_num"])
    shape = shapes.of(
        workers=workers, cpu=importer.share(row["cpu_num"], workers), gpu=gpus * 1000, tenant=row[tenant_column]
    )
    return ReplayJob(row["job_id"], row["submit_time"], work, shape)


IMPORTER: Final = Importer(
    name="helios",
    text="SenseTime's Helios trace of 2020, one CSV per cluster",
    columns={
        "job_id": importer.text,
        "vc": importer.tenant,
        "gpu_num": importer.whole,
        "cpu_num": importer.amount,
        "node_num": importer.whole,
        "submit_time": importer.when,
        "start_time": importer.optional_time,
        "end_time": importer.optional_time,
        "duration": importer.optional_duration,
    },
    job_of=partial(job, tenant_column="vc"),
    dated=True,
    rules=(
        "gpu_num and cpu_num are those of the whole job; node_num workers, or as many more as make them equal",
        "jobs without GPUs stay; jobs that ran no time at all are left out; the virtual cluster is the tenant",
        "times without a zone are taken as UTC; no memory is requested",
    ),
    clusters="vc",
)
