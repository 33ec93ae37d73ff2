"""Alibaba's trace of a GPU cluster with spot instances (2026)."""

from typing import Final

from reprieve.replay.job_list import JobShapes, ReplayJob
from reprieve.replay.traces import importer
from reprieve.replay.traces.importer import Importer, ImportOptions, Machine, Values

_CLASSES: Final = {"HP": ("high-priority", 1000), "Spot": ("spot", 100)}


def _type(content: str) -> tuple[str, int]:
    if content not in _CLASSES:
        raise ValueError(f"expected one of {', '.join(_CLASSES)}")
    return _CLASSES[content]


def _job(line: int, row: Values, options: ImportOptions, shapes: JobShapes) -> ReplayJob | str:
    if row["duration"] == 0:
        return "ran no time at all"
    if row["worker_num"] == 0:
        return "has no workers"
    name, priority = row["job_type"]
    shape = shapes.of(
        workers=row["worker_num"],
        cpu=round(row["cpu_request"] * 1000),
        gpu=round(row["gpu_request"] * 1000),
        models=(row["gpu_model"],) if row["gpu_model"] else (),
        priority_class=name,
        priority=priority,
        tenant=row["organization"],
    )
    return ReplayJob(row["job_name"], row["submit_time"], row["duration"], shape)


def _machine(row: Values) -> Machine:
    return Machine(row["node_name"], round(row["cpu_num"] * 1000), 0, row["gpu_capacity_num"], row["gpu_model"])


IMPORTER: Final = Importer(
    name="spot-gpu",
    text="Alibaba's GPU cluster with spot instances of 2026; --nodes: its list of nodes",
    columns={
        "job_name": importer.text,
        "organization": importer.tenant,
        "gpu_model": importer.model,
        "cpu_request": importer.amount,
        "gpu_request": importer.amount,
        "worker_num": importer.whole,
        "submit_time": importer.duration,
        "duration": importer.duration,
        "job_type": _type,
    },
    job_of=_job,
    dated=False,
    rules=(
        "cpu_request and gpu_request are those of each of worker_num workers; no memory is requested",
        "HP is the class high-priority, Spot the class spot, which is lower; the organization is the tenant",
    ),
    machine_columns={
        "node_name": importer.text,
        "gpu_model": importer.model,
        "gpu_capacity_num": importer.whole,
        "cpu_num": importer.amount,
    },
    machine_of=_machine,
    clusters="gpu_model",
)
