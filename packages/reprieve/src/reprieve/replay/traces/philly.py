"""Microsoft's Philly trace of 2017, as one table: `timestamp,duration,num_gpus,gpu_time,cluster`."""

from typing import Final

from reprieve.replay.job_list import JobShapes, ReplayJob
from reprieve.replay.traces import importer
from reprieve.replay.traces.importer import Importer, ImportOptions, Values


def _job(line: int, row: Values, options: ImportOptions, shapes: JobShapes) -> ReplayJob | str:
    if row["duration"] == 0:
        return "ran no time at all"
    workers, gpus = importer.workers_for(row["num_gpus"])
    shape = shapes.of(workers=workers, gpu=gpus * 1000, tenant=importer.tenant(row["cluster"]))
    return ReplayJob(f"philly-{line}", row["timestamp"], row["duration"], shape)


IMPORTER: Final = Importer(
    name="philly",
    text="Microsoft's Philly trace of 2017 as one CSV; --only: its clusters, such as 6214e9",
    columns={
        "timestamp": importer.when,
        "duration": importer.duration,
        "num_gpus": importer.whole,
        "cluster": importer.text,
    },
    job_of=_job,
    dated=True,
    rules=(
        "a job of more than 8 GPUs is a gang of as few equal workers as there can be, 8 GPUs at most each",
        "jobs have no names: they are named after their line; the cluster is the tenant",
        "times without a zone are taken as UTC; no CPU or memory is requested",
    ),
    clusters="cluster",
)
