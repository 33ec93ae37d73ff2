"""Import of a trace: reads rows with an importer, and creates jobs."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reprieve.replay.cluster_sizing import PODS, Document, node_document
from reprieve.replay.job_list import MAX_JOBS, JobListError, JobShapes, ReplayJob, Shape, check_row, csv_rows, shown
from reprieve.replay.job_objects import GPU, GPU_MILLI, GPU_MODEL
from reprieve.replay.traces.importer import Importer, ImportOptions, Machine, whole
from reprieve.replay.traces.priorities import PriorityRules

PLENTY_CPU, PLENTY_MEMORY = 1_000_000, 16 << 40


@dataclass(frozen=True, slots=True)
class ImportedTrace:
    """Jobs in order of submit, and what did not become one."""

    jobs: Sequence[ReplayJob]
    left_out: Mapping[str, int]
    """Why -> how many rows."""
    skipped: int = 0
    first_problem: str = ""


def read_trace(
    importer: Importer,
    path: Path,
    options: ImportOptions | None = None,
    *,
    priorities: PriorityRules | None = None,
    skip_bad: bool = False,
    max_jobs: int = MAX_JOBS,
) -> ImportedTrace:
    """Return the jobs of a trace. Raises JobListError, or OSError where it cannot be read."""
    options = options or ImportOptions()
    shapes = JobShapes()
    checked: set[Shape] = set()
    jobs: list[ReplayJob] = []
    names: dict[str, int] = {}
    left_out: Counter[str] = Counter()
    skipped, first_problem = 0, ""
    rows = csv_rows(path) if importer.rows is None else importer.rows(path)
    for line, values in table(str(path), rows, importer.columns, importer.optional, skip_bad=skip_bad):
        try:
            if isinstance(values, JobListError):
                raise values
            if options.only and importer.clusters and str(values[importer.clusters]) not in options.only:
                left_out["not in --only"] += 1
                continue
            job = _job(importer, str(path), line, values, options, shapes, checked, names)
        except JobListError as problem:
            if not skip_bad:
                raise
            skipped += 1
            first_problem = first_problem or str(problem)
            continue
        if isinstance(job, str):
            left_out[job] += 1
            continue
        if len(jobs) >= max_jobs:
            raise JobListError(str(path), line, "", f"more than {max_jobs} jobs (--max-jobs raises the limit)")
        jobs.append(priorities.given(job) if priorities is not None else job)
    jobs.sort(key=lambda job: job.submit)
    return ImportedTrace(_shared(jobs), dict(left_out), skipped, first_problem)


def _job(
    importer: Importer,
    file: str,
    line: int,
    values: Mapping[str, Any],
    options: ImportOptions,
    shapes: JobShapes,
    checked: set[Shape],
    names: dict[str, int],
) -> ReplayJob | str:
    try:
        job = importer.job_of(line, values, options, shapes)
        if isinstance(job, ReplayJob):
            check_row(job, checked)
    except ValueError as error:
        raise JobListError(file, line, getattr(error, "column", ""), str(error)) from None
    if isinstance(job, ReplayJob):
        check_new(names, job.name, file, line)
    return job


def check_new(lines: dict[str, int], name: str, file: str, line: int, column: str = "") -> None:
    """Record the line of a name. Raises JobListError if another line has it."""
    if lines.setdefault(name, line) != line:
        raise JobListError(file, line, column, f"{shown(name)} is on line {lines[name]} already")


def _shared(jobs: list[ReplayJob]) -> list[ReplayJob]:
    shapes: dict[Shape, Shape] = {}
    for job in jobs:
        job.shape = shapes.setdefault(job.shape, job.shape)
    return jobs


def read_machines(importer: Importer, path: Path) -> list[Machine]:
    """Return the nodes of a trace. Raises JobListError, or OSError."""
    if importer.machine_columns is None or importer.machine_of is None:
        raise JobListError(str(path), 0, "", f"traces of the format {importer.name} have no list of nodes")
    result = []
    lines: dict[str, int] = {}
    for line, values in table(str(path), csv_rows(path), importer.machine_columns, frozenset(), skip_bad=False):
        assert not isinstance(values, JobListError)
        machine = importer.machine_of(values)
        check_new(lines, machine.name, str(path), line)
        result.append(machine)
    return result


def read_durations(path: Path) -> dict[tuple[str, int], float]:
    """Steps a second by (job type, scale factor); scale factor 0 where the table has no such column."""
    rates: dict[tuple[str, int], float] = {}
    columns: dict[str, Callable[[str], Any]] = {"type": str, "steps_per_second": _rate, "scale_factor": _scale}
    for _, values in table(str(path), csv_rows(path), columns, frozenset({"scale_factor"}), skip_bad=False):
        assert not isinstance(values, JobListError)
        rates[values["type"], values["scale_factor"]] = values["steps_per_second"]
    return rates


def _scale(text: str) -> int:
    return whole(text) if text else 0


def _rate(text: str) -> float:
    try:
        result = float(text)
    except ValueError:
        result = 0.0
    if not 0 < result < 1e12:
        raise ValueError("expected a number above 0")
    return result


def table(
    file: str,
    rows: Iterable[tuple[int, list[str] | JobListError]],
    columns: Mapping[str, Callable[[str], Any]],
    optional: frozenset[str],
    *,
    skip_bad: bool,
) -> Iterator[tuple[int, dict[str, Any] | JobListError]]:
    """(line, values of the wanted columns) of each row; with `skip_bad` the problem in place of the values."""
    header: list[str] | None = None
    wanted: list[tuple[int, str, Callable[[str], Any]]] = []
    for line, row in rows:
        if header is None:
            assert not isinstance(row, JobListError)
            header = [name.strip() for name in row]
            for name in columns:
                if name not in header and name not in optional:
                    shows = shown(",".join(header))
                    raise JobListError(file, line, name, f"no such column; the first line has {shows}")
            wanted = [(header.index(name) if name in header else -1, name, read) for name, read in columns.items()]
            continue
        try:
            if isinstance(row, JobListError):
                raise row
            yield line, _values(file, line, header, row, wanted)
        except JobListError as problem:
            if not skip_bad:
                raise
            yield line, problem
    if header is None:
        raise JobListError(file, 1, "", "empty: expected a first line with the names of the columns")


def _values(
    file: str, line: int, header: Sequence[str], row: Sequence[str], wanted: Sequence[tuple[int, str, Any]]
) -> dict[str, Any]:
    if len(row) != len(header):
        raise JobListError(file, line, "", f"{len(row)} fields, the first line has {len(header)}")
    values = {}
    for at, name, read in wanted:
        content = row[at].strip() if at >= 0 else ""
        try:
            values[name] = read(content)
        except (ValueError, OverflowError) as error:
            raise JobListError(file, line, name, f"{error}, found {shown(content)}") from None
    return values


def machine_documents(machines: Sequence[Machine], *, shared: bool) -> list[Document]:
    """Node manifests of a trace's nodes; `shared`: GPUs in thousandths. What is not given of a node is plenty."""
    result = []
    for machine in machines:
        cpu, memory = machine.cpu or PLENTY_CPU, machine.memory or PLENTY_MEMORY
        amounts = {
            "cpu": f"{cpu}m" if cpu % 1000 else str(cpu // 1000),
            "memory": f"{memory >> 20}Mi",
            "pods": str(max(PODS, machine.gpus * 1000) if shared else PODS),
        }
        if machine.gpus:
            amounts[GPU_MILLI if shared else GPU] = str(machine.gpus * (1000 if shared else 1))
        labels = {GPU_MODEL: machine.model} if machine.model else {}
        result.append(node_document(machine.name, amounts, labels))
    return result
