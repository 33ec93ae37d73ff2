"""Acme: clusters for large language models of 2023 (NSDI 2024), one CSV per cluster."""

from functools import partial
from typing import Final

from reprieve.replay.traces import helios, importer
from reprieve.replay.traces.importer import Importer

IMPORTER: Final = Importer(
    name="acme",
    text="Shanghai AI Laboratory's Acme trace of 2023, one CSV per cluster",
    columns={
        "job_id": importer.text,
        "user": importer.tenant,
        "node_num": importer.whole,
        "gpu_num": importer.whole,
        "cpu_num": importer.amount,
        "type": importer.text,
        "submit_time": importer.when,
        "start_time": importer.optional_time,
        "end_time": importer.optional_time,
        "duration": importer.optional_duration,
    },
    optional=frozenset({"type"}),
    job_of=partial(helios.job, tenant_column="user"),
    dated=True,
    rules=(
        "gpu_num and cpu_num are those of the whole job; node_num workers, or as many more as make them equal",
        "jobs that ran no time at all are left out; the user is the tenant; no memory is requested",
    ),
    clusters="type",
)
