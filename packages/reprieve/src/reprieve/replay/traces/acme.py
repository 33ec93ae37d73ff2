"""Acme: clusters for large language models of 2023 (NSDI 2024), one CSV per cluster."""

from typing import Final

from reprieve.replay.job_list import JobShapes, ReplayJob
from reprieve.replay.traces import helios
from reprieve.replay.traces.importer import (
    Importer,
    ImportOptions,
    Values,
    amount,
    optional_time,
    tenant,
    text,
    when,
    whole,
)


def _job(line: int, row: Values, options: ImportOptions, shapes: JobShapes) -> ReplayJob | str:
    return helios.job(line, row, shapes, "user")


IMPORTER: Final = Importer(
    name="acme",
    text="Shanghai AI Laboratory's Acme trace of 2023, one CSV per cluster",
    columns={
        "job_id": text,
        "user": tenant,
        "node_num": whole,
        "gpu_num": whole,
        "cpu_num": amount,
        "type": text,
        "submit_time": when,
        "start_time": optional_time,
        "end_time": optional_time,
        "duration": helios.optional_duration,
    },
    optional=frozenset({"type"}),
    job_of=_job,
    dated=True,
    rules=(
        "gpu_num and cpu_num are those of the whole job; node_num workers, or as many more as make them equal",
        "jobs that ran no time at all are left out; the user is the tenant; no memory is asked for",
    ),
    clusters="type",
)
