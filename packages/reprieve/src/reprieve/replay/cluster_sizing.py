"""Nodes for a job list without a cluster (replay.md 2.9)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from reprieve.replay.job_list import ReplayJob, Shape
from reprieve.replay.job_objects import GPU, GPU_MILLI, GPU_MODEL

USE: Final = 0.8
LEAST_GPUS: Final = 8
CORES_A_GPU, BYTES_A_GPU = 12_000, 96 << 30
CPU_NODE_CORES, CPU_NODE_BYTES = 64_000, 256 << 30
PODS: Final = 110
Document = dict[str, Any]


def fitting_nodes(jobs: Sequence[ReplayJob]) -> list[Document]:
    """Return node manifests for the jobs; each GPU model that is a first choice has its own nodes."""
    by_model: defaultdict[tuple[str, bool], list[ReplayJob]] = defaultdict(list)
    for job in jobs:
        by_model[(job.shape.models[0] if job.shape.models else ""), job.shape.gpu > 0].append(job)
    shared = any(job.shape.gpu % 1000 for job in jobs)
    keys = sorted({job.shape.topology_key for job in jobs} - {""})
    nodes: list[Document] = []
    for (model, _), jobs_of_model in sorted(by_model.items()):
        nodes += _alike(jobs_of_model, model, len(nodes), shared, keys)
    return nodes


def _alike(jobs: Sequence[ReplayJob], model: str, first: int, shared: bool, keys: Sequence[str]) -> list[Document]:
    shapes = {job.shape for job in jobs}
    gpus = max(-(-shape.gpu // 1000) for shape in shapes)
    gpus = max(gpus, LEAST_GPUS) if gpus else 0
    cpu = max(gpus * CORES_A_GPU or CPU_NODE_CORES, max(shape.cpu for shape in shapes))
    memory = max(gpus * BYTES_A_GPU or CPU_NODE_BYTES, max(shape.memory for shape in shapes))
    whole = max(_nodes_for(shape, gpus, cpu, memory) for shape in shapes)
    span = jobs[-1].submit - jobs[0].submit
    count = whole
    if span > 0:
        if gpus:
            requested, available = sum((job.work or span) * job.shape.gpus for job in jobs), gpus * 1000
        else:
            requested, available = sum((job.work or span) * job.shape.workers * job.shape.cpu for job in jobs), cpu
        count = max(whole, -(-requested // int(span * available * USE)))
    largest = max((_nodes_for(s, gpus, cpu, memory) for s in shapes if s.topology_key), default=1)
    rack = max(8, largest)
    amounts: dict[str, str] = {"cpu": f"{cpu}m" if cpu % 1000 else str(cpu // 1000), "memory": str(memory)}
    if memory % (1 << 30) == 0:
        amounts["memory"] = f"{memory >> 30}Gi"
    amounts["pods"] = str(max(PODS, gpus * 1000) if shared else PODS)
    if gpus:
        amounts[GPU_MILLI if shared else GPU] = str(gpus * 1000 if shared else gpus)
    result = []
    for number in range(count):
        labels = dict.fromkeys(keys, f"rack-{(first + number) // rack:03d}")
        if model:
            labels[GPU_MODEL] = model
        result.append(node_document(f"node-{first + number:04d}", amounts, labels))
    return result


def _nodes_for(shape: Shape, gpus: int, cpu: int, memory: int) -> int:
    room = [PODS]
    for available, requested in ((gpus * 1000, shape.gpu), (cpu, shape.cpu), (memory, shape.memory)):
        if requested:
            room.append(max(1, available // requested))
    return -(-shape.workers // min(room))


def node_document(name: str, amounts: Mapping[str, str], labels: Mapping[str, str]) -> Document:
    """Return a Node manifest."""
    metadata: Document = {"name": name}
    if labels:
        metadata["labels"] = dict(labels)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "status": {"capacity": dict(amounts), "allocatable": dict(amounts)},
    }


def class_documents(jobs: Iterable[ReplayJob]) -> list[Document]:
    """Return PriorityClass manifests for the classes of the jobs."""
    values: dict[str, int] = {}
    for job in jobs:
        shape = job.shape
        if shape.priority_class and shape.priority is not None:
            values.setdefault(shape.priority_class, shape.priority)
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        for name, value in sorted(values.items(), key=lambda item: (-item[1], item[0]))
    ]
