"""A cluster from the public "openb" GPU trace: two CSV files in, manifests that `plan` reads out.

The trace lists machines and tasks; it does not say which task ran where.  `fill` finds that out with the engine
itself: tasks arrive in order of `creation_time` (ties: file order), one at a time, none leaves and none is
preempted, and every task the engine places runs on its node from then on.  A task that finds no room when its turn
comes is left out: a replay without departures asks for more than the real cluster ever had to hold at one time.

What happens to the columns (shared/data/README.md):

- node: label `gpu-model` (absent on CPU machines), allocatable cpu, memory, pods and `alibabacloud.com/gpu-milli` in
  thousandths of a GPU.  A shared GPU's fragmentation inside a node is not modelled by an amount per node.
- task: requests for cpu, memory and num_gpu x gpu_milli; `gpu_spec` is a required node affinity on the label.
- qos: BE becomes one PriorityClass, LS, Guaranteed and Burstable the other, higher one.
- times are seconds since the trace began; the trace is taken to begin at `TRACE_BEGIN`.

Invariant: the same two files give the same bytes, on every run.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from kube_rules import objects
from kube_rules.meta import ObjectRef
from reprieve.replay.job_list import JobListError, csv_rows
from reprieve.replay.job_objects import GPU_MILLI, GPU_MODEL
from reprieve.replay.traces.importer import Machine, Values
from reprieve.replay.traces.trace_reader import check_new, table
from reprieve.scheduling.engine import Engine

PODS_PER_NODE = "110"
TRACE_BEGIN = datetime(2025, 8, 1, tzinfo=UTC)
"""The trace's times are relative. From here its 150 days end just before the moment at which manifests without a
creationTimestamp count as created (interfaces.md), so running times read as in the trace."""
MAX_BYTES = 64 * 1024 * 1024

LATENCY_SENSITIVE = "openb-latency-sensitive"
BEST_EFFORT = "openb-best-effort"
PRIORITY = {LATENCY_SENSITIVE: 1000, BEST_EFFORT: 100}
"""Value of each PriorityClass. Only their order comes from the trace."""

CLASS_OF_QOS = {
    "LS": LATENCY_SENSITIVE,
    "Guaranteed": LATENCY_SENSITIVE,
    "Burstable": LATENCY_SENSITIVE,
    "BE": BEST_EFFORT,
}

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_MOST = 10**9
"""Largest amount or time in a file: a pebibyte of memory, 31 years."""

Document = dict[str, Any]
"""A manifest as plain data."""


@dataclass(frozen=True, slots=True)
class TraceTask:
    """A task. `cpu` in milli-cores, `memory` in MiB, `gpu_milli` in all; times in seconds since the trace began."""

    name: str
    cpu: int
    memory: int
    gpu_milli: int
    models: tuple[str, ...]
    priority_class: str
    created: int
    started: int


@dataclass(frozen=True, slots=True)
class FilledCluster:
    """`documents`: PriorityClasses, nodes, running pods. `left_out`: tasks that found no room, in order of arrival."""

    documents: list[Document] = field(repr=False)
    placed: int
    left_out: tuple[str, ...]


# -- reading -----------------------------------------------------------------------------------------------------------


def _name(text: str) -> str:
    if _NAME.fullmatch(text) is None:
        raise ValueError("expected a name of lower-case letters, digits, '-' and '.'")
    return text


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text[:20]) > _MOST:
        raise ValueError(f"expected a whole number from 0 to {_MOST}")
    return int(text)


def _model(text: str) -> str:
    if text and _LABEL_VALUE.fullmatch(text) is None:
        raise ValueError("expected a value that can be a label, or nothing")
    return text


def read_qos(text: str) -> str:
    """Return the PriorityClass of a `qos`. Raises ValueError for one that the trace does not have."""
    if text not in CLASS_OF_QOS:
        raise ValueError(f"expected one of {', '.join(CLASS_OF_QOS)}")
    return CLASS_OF_QOS[text]


NODE_COLUMNS: Final[Mapping[str, Callable[[str], Any]]] = {
    "sn": _name,
    "cpu_milli": _whole,
    "memory_mib": _whole,
    "gpu": _whole,
    "model": _model,
}
TASK_COLUMNS: Final = {
    "name": _name,
    "cpu_milli": _whole,
    "memory_mib": _whole,
    "num_gpu": _whole,
    "gpu_milli": _whole,
    "gpu_spec": lambda text: tuple(dict.fromkeys(_model(part) for part in text.split("|") if part)),
    "qos": read_qos,
    "creation_time": _whole,
    "scheduled_time": lambda text: None if not text else _whole(text),
}


def machine_of(row: Values) -> Machine:
    """Return the machine of a row of `NODE_COLUMNS`."""
    return Machine(row["sn"], row["cpu_milli"], row["memory_mib"] << 20, row["gpu"], row["model"])


def read_nodes(path: Path, *, max_bytes: int = MAX_BYTES) -> list[Machine]:
    """Return the machines, in file order. Raises JobListError, or OSError where the file cannot be read."""
    return [machine_of(row) for row in _rows(path, NODE_COLUMNS, max_bytes)]


def read_tasks(path: Path, *, max_bytes: int = MAX_BYTES) -> list[TraceTask]:
    """Return the tasks in order of arrival. Raises JobListError, or OSError if the file cannot be read."""
    tasks = [
        TraceTask(name, cpu, memory, count * milli, models, qos, created, created if started is None else started)
        for row in _rows(path, TASK_COLUMNS, max_bytes)
        for name, cpu, memory, count, milli, models, qos, created, started in [row.values()]
    ]
    return sorted(tasks, key=lambda task: task.created)


def _rows(path: Path, columns: Mapping[str, Callable[[str], Any]], max_bytes: int) -> Iterator[Values]:
    """Yield the wanted columns of every row, read; the first column is a key that may not repeat."""
    first, lines = next(iter(columns)), dict[str, int]()
    for line, values in table(str(path), csv_rows(path, max_bytes=max_bytes), columns, frozenset(), skip_bad=False):
        assert not isinstance(values, JobListError)
        check_new(lines, values[first], str(path), line, first)
        yield values


# -- filling -----------------------------------------------------------------------------------------------------------


def fill(nodes: Sequence[Machine], tasks: Sequence[TraceTask]) -> FilledCluster:
    """Let the tasks arrive, in the order given, in an empty cluster of these nodes; see the module docstring."""
    engine = Engine()
    machines = [_node_document(node) for node in nodes]
    for machine in machines:
        engine.set(msgspec.convert(machine, objects.Node), 0.0)
    shared: dict[_Shape, tuple[Document, objects.PodSpec]] = {}
    running, left_out = [], []
    for task in tasks:
        shape = (task.cpu, task.memory, task.gpu_milli, task.models, task.priority_class)
        if shape not in shared:
            spec = _pod_spec(shape)
            shared[shape] = spec, msgspec.convert(spec, objects.PodSpec)
        spec, typed = shared[shape]
        where = _place(engine, task, typed)
        if where is None:
            left_out.append(task.name)
        else:
            running.append(_pod_document(task, {**spec, "nodeName": where}))
    documents = [*(_priority_class(name) for name in PRIORITY), *machines, *running]
    return FilledCluster(documents, len(running), tuple(left_out))


_Shape = tuple[int, int, int, tuple[str, ...], str]
"""What tasks that are alike request, on which models, and their class: thousands of tasks have a few hundred."""


def _place(engine: Engine, task: TraceTask, spec: objects.PodSpec) -> str | None:
    """Return the node that the engine gives the task now. All have priority 0 here, so none is preempted."""
    now = float(task.created)
    pod = objects.Pod(metadata=objects.ObjectMeta(name=task.name, namespace="default", uid=task.name), spec=spec)
    engine.set(pod, now, created=now)
    decision = engine.step(now).decision
    if decision is not None and decision.bindings:
        engine.confirm_binding(task.name)
        return decision.bindings[0].node
    engine.remove(ObjectRef("Pod", uid=task.name), now)
    return None


def _amounts(cpu: int, memory: int, gpu_milli: int) -> dict[str, str]:
    amounts = {
        "cpu": f"{cpu}m" if cpu % 1000 else str(cpu // 1000),
        "memory": f"{memory // 1024}Gi" if memory and memory % 1024 == 0 else f"{memory}Mi",
    }
    if gpu_milli:
        amounts[GPU_MILLI] = str(gpu_milli)
    return amounts


# -- writing -----------------------------------------------------------------------------------------------------------


def _when(seconds: int) -> str:
    return (TRACE_BEGIN + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _priority_class(name: str) -> Document:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": PRIORITY[name],
    }


def _node_document(node: Machine) -> Document:
    metadata: Document = {"name": node.name, "creationTimestamp": _when(0)}
    if node.model:
        metadata["labels"] = {GPU_MODEL: node.model}
    amounts = {**_amounts(node.cpu, node.memory >> 20, node.gpus * 1000), "pods": PODS_PER_NODE}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def _pod_spec(shape: _Shape) -> Document:
    cpu, memory, gpu_milli, models, priority_class = shape
    resources: Document = {"requests": _amounts(cpu, memory, gpu_milli)}
    if gpu_milli:
        # An API server wants a limit for an extended resource, equal to the request.
        resources["limits"] = {GPU_MILLI: str(gpu_milli)}
    spec: Document = {
        "priorityClassName": priority_class,
        "containers": [{"name": "task", "image": "registry.k8s.io/pause:3.10", "resources": resources}],
    }
    if models:
        term = {"matchExpressions": [{"key": GPU_MODEL, "operator": "In", "values": list(models)}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        spec["affinity"] = {"nodeAffinity": required}
    return spec


def _pod_document(task: TraceTask, spec: Document) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": task.name, "namespace": "default", "creationTimestamp": _when(task.created)},
        "spec": spec,
        "status": {"phase": "Running", "startTime": _when(task.started)},
    }


def write(documents: Sequence[Document], path: Path) -> None:
    """Write the documents as one List; YAML where the name ends in .yaml or .yml, else JSON. Raises OSError."""
    path.write_bytes(as_yaml(documents) if path.suffix in (".yaml", ".yml") else as_json(documents))


def as_json(documents: Sequence[Document]) -> bytes:
    """Return a `List` in JSON, one object per line."""
    encode = msgspec.json.Encoder().encode
    return b'{"apiVersion":"v1","kind":"List","items":[\n' + b",\n".join(map(encode, documents)) + b"\n]}\n"


def as_yaml(documents: Sequence[Document]) -> bytes:
    """Return one YAML document per object."""
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    dumper = type("_Plain", (dumper,), {"ignore_aliases": lambda self, data: True})
    text: str = yaml.dump_all(documents, Dumper=dumper, sort_keys=False, width=110)
    return text.encode()
