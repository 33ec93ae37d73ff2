"""openb: tasks of Alibaba's GPU cluster of 2023 (ATC 2023). What its columns are: `openb_cluster`."""

from typing import Final

from reprieve.replay.job_list import JobShapes, ReplayJob
from reprieve.replay.traces import importer
from reprieve.replay.traces.importer import Importer, ImportOptions, Values
from reprieve.replay.traces.openb_cluster import (
    BEST_EFFORT,
    LATENCY_SENSITIVE,
    NODE_COLUMNS,
    PRIORITY,
    machine_of,
    read_qos,
)


def _job(line: int, row: Values, options: ImportOptions, shapes: JobShapes) -> ReplayJob | str:
    count, milli = row["num_gpu"], row["gpu_milli"]
    if milli > 1000 or (count > 1 and milli != 1000):
        raise ValueError("expected gpu_milli of 1000, or at most that of a single GPU")
    begun, ended = row["creation_time"], row["deletion_time"]
    if ended is not None and begun is not None and ended < begun:
        raise ValueError("is deleted before it is created")
    shape = shapes.of(
        cpu=row["cpu_milli"],
        memory=row["memory_mib"] << 20,
        gpu=count * milli,
        models=row["gpu_spec"],
        priority_class=row["qos"],
        priority=PRIORITY[row["qos"]],
    )
    work = None if ended is None else ended - (begun or 0)
    if work == 0:
        return "ran no time at all"
    return ReplayJob(row["name"], begun or 0, work, shape)


IMPORTER: Final = Importer(
    name="openb",
    text="tasks of Alibaba's GPU cluster of 2023; --nodes: its list of nodes",
    columns={
        "name": importer.text,
        "cpu_milli": importer.whole,
        "memory_mib": importer.whole,
        "num_gpu": importer.whole,
        "gpu_milli": importer.whole,
        "gpu_spec": lambda content: tuple(dict.fromkeys(importer.model(part) for part in content.split("|") if part)),
        "qos": lambda content: read_qos(content) if content else LATENCY_SENSITIVE,
        "creation_time": importer.optional_duration,
        "deletion_time": importer.optional_duration,
    },
    optional=frozenset({"gpu_spec", "qos", "creation_time", "deletion_time"}),
    job_of=_job,
    dated=False,
    rules=(
        "a task is a job of one worker; it works from creation to deletion, without a deletion forever",
        f"qos BE is the class {BEST_EFFORT}, any other {LATENCY_SENSITIVE}, which is higher",
        "a task below 1000 gpu_milli takes part of one GPU; GPUs of the nodes are counted in thousandths",
    ),
    machine_columns=NODE_COLUMNS,
    machine_of=machine_of,
)
