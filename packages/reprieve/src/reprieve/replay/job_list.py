"""The list of jobs: one row each, CSV or Parquet (replay.md 2).

Rows are read one after the other; what a job is, apart from its name and times, is a `Shape`, and jobs of one shape
share it, so a million jobs fit into memory.  Whatever is wrong with a row is one error that names file, line and
column.
"""

import csv
import difflib
import io
import itertools
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, BinaryIO, Final

from kube_rules.admission import HIGHEST_USER_PRIORITY
from kube_rules.quantity import QuantityError, parse, value
from kube_rules.taints import EFFECTS
from kube_rules.topology_terms import read_levels, read_slice
from kube_rules.work_annotations import LONGEST, moment
from reprieve.replay.csv_cells import guarded, unguarded

MAX_JOBS: Final = 1_000_000
MAX_BYTES: Final = 1024 * 1024 * 1024
MAX_WORKERS: Final = 1_000
MAX_ROW_BYTES: Final = 64 * 1024
"""Of a class that users may make (preemption.md 8)."""
_LATEST_MS: Final = 10**15
_NAME: Final = re.compile(r"[^\s/~]{1,253}")
_LABEL_KEY: Final = re.compile(
    r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_LABEL_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_CLASS_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")


Tolerated = tuple[str, str, str, str]
"""Key, operator, value and effect of a toleration, as in a pod."""


class JobListError(ValueError):
    """An invalid file; `str()` is one line with file, line and column."""

    def __init__(self, file: str, line: int, column: str, problem: str) -> None:
        where = f"{file}, line {line}" if line else file
        super().__init__(f"{where}, column {column}: {problem}" if column else f"{where}: {problem}")


@dataclass(frozen=True, slots=True)
class Shape:
    """Properties that many jobs share. `cpu` in milli-cores, `memory` in bytes, `gpu` in milli-GPUs, per worker."""

    workers: int = 1
    min_workers: int = 1
    cpu: int = 0
    memory: int = 0
    gpu: int = 0
    models: tuple[str, ...] = ()
    priority_class: str = ""
    priority: int | None = None
    whole: bool = True
    """Preempted as a whole, not pod by pod."""
    checkpoint: int | None = None
    """Milliseconds of work between checkpoints."""
    movable: bool | None = None
    tenant: str = "default"
    topology_key: str = ""
    preferred_topology: str = ""
    slice: str = ""
    """As the annotations of these names have them (topology.md 1.1)."""
    labels: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Tolerated, ...] = ()

    @property
    def gpus(self) -> int:
        """Milli-GPUs of all workers."""
        return self.workers * self.gpu


class ReplayJob:
    """A job. `submit` in milliseconds (of the epoch, or since the trace began), `work` in milliseconds or forever.

    `limit`: milliseconds that it may run, as the scheduler knows it; None: not given.
    """

    __slots__ = ("limit", "name", "shape", "submit", "work")

    def __init__(self, name: str, submit: int, work: int | None, shape: Shape, limit: int | None = None) -> None:
        self.name = name
        self.submit = submit
        self.work = work
        self.shape = shape
        self.limit = limit

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ReplayJob):
            return NotImplemented
        return all(getattr(self, field) == getattr(other, field) for field in ReplayJob.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Job({self.name!r}, {self.submit}, {self.work}, {self.shape})"


@dataclass(frozen=True, slots=True)
class JobList:
    """Jobs in order of submission. `dated`: times are milliseconds since 1970."""

    jobs: Sequence[ReplayJob] = field(repr=False)
    dated: bool = False
    skipped: int = 0
    """Rows that made no sense."""
    first_problem: str = ""
    """What was wrong with the first of them."""

    @property
    def begin(self) -> int:
        """Return the time of the first submission in milliseconds; 0 for an empty list."""
        return self.jobs[0].submit if self.jobs else 0


# -- values ------------------------------------------------------------------------------------------------------------


def _decimal(text: str, want: str) -> Decimal:
    try:
        result = Decimal(text) if len(text) <= 40 and "_" not in text else None
    except InvalidOperation:
        result = None
    if result is None or not result.is_finite() or abs(result.adjusted()) > 15:
        raise ValueError(f"expected {want}")
    return result


def _thousandths(text: str, want: str) -> int:
    number = _decimal(text, want)
    if number < 0:
        raise ValueError(f"expected {want}, not below 0")
    return int((number * 1000).to_integral_value())


def seconds(text: str) -> int:
    """Return the milliseconds of a number of seconds."""
    result = _thousandths(text, "seconds")
    if result > LONGEST * 1000:
        raise ValueError("expected at most ten years")
    return result


def _interval(text: str) -> int:
    result = seconds(text)
    if result == 0:
        raise ValueError("expected more than 0 seconds")
    return result


def _whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        digits = text[1:] if text[:1] in "+-" else text
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 19 and low <= int(text) <= high):
            raise ValueError(f"expected a whole number from {low} to {high}")
        return int(text)

    return read


def _gpus(text: str) -> int:
    result = _thousandths(text, "a number of GPUs")
    if result > 1_000_000:
        raise ValueError("expected at most 1000 GPUs a worker")
    whole, part = divmod(result, 1000)
    if whole and part:
        raise ValueError("expected whole GPUs above one: only a single GPU is shared")
    return result


def _cores(text: str) -> int:
    result = _thousandths(text, "a number of cores")
    if result > 10**9:
        raise ValueError("expected at most a million cores a worker")
    return result


def _bytes(text: str) -> int:
    try:
        result = value(parse(text))
    except QuantityError:
        raise ValueError("expected a quantity such as 64Gi") from None
    if not 0 <= result <= 1 << 60:
        raise ValueError("expected a quantity from 0 to 1Ei")
    return result


def _one_of(**choices: bool) -> Callable[[str], bool]:
    def read(text: str) -> bool:
        if text not in choices:
            raise ValueError(f"expected {' or '.join(choices)}")
        return choices[text]

    return read


def _matching(pattern: re.Pattern[str], want: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if pattern.fullmatch(text) is None:
            raise ValueError(f"expected {want}")
        return text

    return read


def _models(text: str) -> tuple[str, ...]:
    parts = tuple(dict.fromkeys(part.strip() for part in text.split("|") if part.strip()))
    for part in parts:
        if _LABEL_VALUE.fullmatch(part) is None:
            raise ValueError("expected models that can be values of a label, separated by |")
    return parts


def _labels(text: str) -> tuple[tuple[str, str], ...]:
    result = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        key, equals, content = part.partition("=")
        if not equals or _LABEL_KEY.fullmatch(key) is None or _LABEL_VALUE.fullmatch(content) is None:
            raise ValueError("expected labels such as team=nlp;stage=train")
        result[key] = content
    return tuple(sorted(result.items()))


def tolerations(text: str) -> tuple[Tolerated, ...]:
    """Tolerations `KEY[=VALUE][:EFFECT]` separated by semicolons; `*` tolerates every taint. Raises ValueError."""
    result: dict[Tolerated, None] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, colon, effect = part.partition(":")
        key, equals, content = name.partition("=")
        valid = effect in EFFECTS if colon else True
        if key == "*" and not equals and valid:
            result["", "Exists", "", effect] = None
        elif valid and _LABEL_KEY.fullmatch(key) and _LABEL_VALUE.fullmatch(content):
            result[key, "Equal" if equals else "Exists", content, effect] = None
        else:
            raise ValueError(
                f"expected tolerations such as nvidia.com/gpu;team=a:NoSchedule, with {', '.join(EFFECTS)}"
            )
    return tuple(result)


job_name = _matching(_NAME, "a name of at most 253 characters without spaces, / and ~")
_tenant = _matching(re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"), "a name that can be that of a namespace")

COLUMNS: Final[Mapping[str, tuple[str, Callable[[str], Any] | None]]] = {
    "job": ("name", job_name),
    "submit": ("submit", None),
    "duration": ("work", seconds),
    "workers": ("workers", _whole(1, MAX_WORKERS)),
    "min_workers": ("min_workers", _whole(1, MAX_WORKERS)),
    "cpu": ("cpu", _cores),
    "memory": ("memory", _bytes),
    "gpu": ("gpu", _gpus),
    "gpu_model": ("models", _models),
    "priority_class": ("priority_class", _matching(_CLASS_NAME, "a name of lower-case letters, digits, - and .")),
    "priority": ("priority", _whole(-(2**31), HIGHEST_USER_PRIORITY)),
    "disruption": ("whole", _one_of(all=True, single=False)),
    "checkpoint": ("checkpoint", _interval),
    "movable": ("movable", _one_of(true=True, false=False)),
    "tenant": ("tenant", _tenant),
    "topology_key": ("topology_key", _matching(_LABEL_KEY, "the key of a label")),
    "preferred_topology": ("preferred_topology", lambda text: ",".join(read_levels(text.replace(";", ",")))),
    "slice": ("slice", lambda text: str(read_slice(text))),
    "labels": ("labels", _labels),
    "tolerations": ("tolerations", tolerations),
    "time_limit": ("limit", seconds),
}
"""Column -> the field of a job or shape, and what reads it (of `submit`: `SubmitTimes`)."""
_NEEDED: Final = ("job", "submit")
_TIMES: Final = ("duration", "time_limit")
"""Columns of which hardly two rows have the same."""


class SubmitTimes:
    """Reads submission times; `dated`, or else the first time, sets the form of all."""

    def __init__(self, dated: bool | None = None) -> None:
        self.dated = dated

    def __call__(self, text: str) -> int:
        """Return milliseconds. Raises ValueError."""
        dated = not text[:1].isdigit() or "T" in text or ":" in text
        if self.dated is None:
            self.dated = dated
        if dated != self.dated:
            raise ValueError(f"expected {'RFC 3339' if self.dated else 'seconds'} as in the rows before")
        result = round(moment(text) * 1000) if dated else _thousandths(text, "seconds or an RFC 3339 time")
        if not 0 <= result <= _LATEST_MS:
            raise ValueError(
                "expected a time since 1970" if dated else f"expected at most {_LATEST_MS // 1000} seconds"
            )
        return result


class JobShapes:
    """One `Shape` per distinct content."""

    def __init__(self) -> None:
        self._known: dict[Shape, Shape] = {}

    def of(self, **content: Any) -> Shape:
        """Return the shape with these fields. Raises a ValueError with a `column` if they contradict each other."""
        workers = content.get("workers", 1)
        least = content.setdefault("min_workers", workers)
        if least > workers:
            raise _ColumnError("min_workers", f"expected at most workers, {workers}, found {least}")
        shape = Shape(**content)
        return self._known.setdefault(shape, shape)


class _ColumnError(ValueError):
    """A problem of one column."""

    def __init__(self, column: str, problem: str) -> None:
        super().__init__(problem)
        self.column = column


# -- reading -----------------------------------------------------------------------------------------------------------


def read_jobs(path: Path, *, skip_bad: bool = False, max_jobs: int = MAX_JOBS) -> JobList:
    """Return the jobs of a file. Raises JobListError, or OSError if it cannot be read."""
    file = str(path)
    rows = _parquet_rows(path) if path.suffix == ".parquet" else csv_rows(path)
    submits, shapes = SubmitTimes(), JobShapes()
    lines: dict[str, int] = {}
    jobs: list[ReplayJob] = []
    skipped, first_problem = 0, ""
    header: Sequence[str] | None = None
    readers: list[tuple[int, str, str, Callable[[str], Any]]] = []
    memo: list[dict[str, Any]] = []
    for line, row in rows:
        if header is None:
            header = [name.strip() for name in row]
            _check_header(file, header)
            readers = [(at, name, COLUMNS[name][0], COLUMNS[name][1] or submits) for at, name in enumerate(header)]
            memo = [{} for _ in readers]
            continue
        if len(jobs) >= max_jobs:
            raise JobListError(file, line, "", f"more than {max_jobs} jobs (--max-jobs raises the limit)")
        try:
            job = _job(row, header, readers, memo, shapes)
            first = lines.setdefault(job.name, line)
            if first != line:
                raise _ColumnError("job", f'"{job.name}" is on line {first} already')
        except ValueError as error:
            problem = JobListError(file, line, getattr(error, "column", ""), str(error))
            if not skip_bad:
                raise problem from None
            skipped += 1
            first_problem = first_problem or str(problem)
            continue
        jobs.append(job)
    if header is None:
        raise JobListError(file, 1, "", "empty: expected a first line with the names of the columns")
    jobs.sort(key=lambda job: job.submit)
    return JobList(jobs, bool(submits.dated), skipped, first_problem)


def _job(
    row: Sequence[str],
    header: Sequence[str],
    readers: Sequence[tuple[int, str, str, Callable[[str], Any]]],
    memo: Sequence[dict[str, Any]],
    shapes: JobShapes,
) -> ReplayJob:
    if len(row) != len(header):
        raise ValueError(f"{len(row)} fields, the first line has {len(header)}")
    content: dict[str, Any] = {}
    for at, column, attribute, read in readers:
        text = row[at].strip()
        if not text:
            if column in _NEEDED:
                raise _ColumnError(column, "is empty")
            continue
        if column in _NEEDED or column in _TIMES:
            content[attribute] = _read(read, column, text)
        else:
            memory = memo[at]
            value = memory.get(text)
            if value is None:
                if len(memory) > 10_000:
                    memory.clear()
                value = memory[text] = _read(read, column, text)
            content[attribute] = value
    name, submit, work = content.pop("name"), content.pop("submit"), content.pop("work", None)
    limit = content.pop("limit", None)
    return ReplayJob(name, submit, work, shapes.of(**content), limit)


def _read(read: Callable[[str], Any], column: str, text: str) -> Any:
    try:
        return read(text)
    except ValueError as error:
        raise _ColumnError(column, f"{error}, found {shown(text)}") from None


def _check_header(file: str, header: Sequence[str]) -> None:
    for name in header:
        if name not in COLUMNS:
            near = difflib.get_close_matches(name, COLUMNS, 1)
            hint = f'did you mean "{near[0]}"?' if near else f"known: {', '.join(COLUMNS)}"
            raise JobListError(file, 1, "", f"unknown column {shown(name)}; {hint}")
        if header.count(name) > 1:
            raise JobListError(file, 1, name, "appears twice")
    for name in _NEEDED:
        if name not in header:
            raise JobListError(file, 1, name, f"no such column; the first line has {shown(','.join(header))}")


def csv_rows(path: Path, *, delimiter: str = ",", max_bytes: int | None = None) -> Iterator[tuple[int, list[str]]]:
    """(line, fields) of every row that is not empty, gzip unpacked. Raises JobListError, OSError.

    `max_bytes` is the limit that a user chose; without one, `MAX_BYTES`.
    """
    with path.open("rb") as stream:
        yield from _split(str(path), _unpacked(str(path), stream), delimiter, max_bytes)


_PACKED: Final = {b"PK\x03\x04": "zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
"""First bytes of compressed files, which are not unpacked."""


def _unpacked(file: str, stream: BinaryIO) -> BinaryIO:
    begin = stream.read(8)
    stream.seek(0)
    for magic, name in _PACKED.items():
        if begin.startswith(magic):
            raise JobListError(file, 0, "", f"compressed with {name}: expected plain text or gzip")
    if not begin.startswith(b"\x1f\x8b"):
        return stream
    import gzip

    return gzip.open(stream)  # type: ignore[return-value]


def _split(file: str, stream: BinaryIO, delimiter: str, max_bytes: int | None) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(_lines(file, stream, max_bytes), delimiter=delimiter, strict=True)
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise JobListError(file, reader.line_num, "", f"broken CSV: {error}") from None
        except EOFError:
            raise JobListError(file, reader.line_num, "", "the compressed file is truncated") from None
        if row is None:
            return
        if row:
            yield reader.line_num, [unguarded(cell) for cell in row]


def _lines(file: str, stream: BinaryIO, max_bytes: int | None) -> Iterator[str]:
    """Yield lines of UTF-8 text, with limits for each and for all."""
    total = 0
    limit = MAX_BYTES if max_bytes is None else max_bytes
    for number in itertools.count(1):
        try:
            data = stream.readline(MAX_ROW_BYTES + 1)
        except OSError as error:
            if error.errno is not None:
                raise
            raise JobListError(file, number, "", f"not a compressed file: {error}") from None
        except zlib.error as error:
            raise JobListError(file, number, "", f"the compressed file is damaged: {error}") from None
        if not data:
            return
        total += len(data)
        if len(data) > MAX_ROW_BYTES:
            raise JobListError(file, number, "", f"a line of more than {MAX_ROW_BYTES} bytes")
        if total > limit:
            hint = "" if max_bytes is None else " (--max-input-bytes raises the limit)"
            raise JobListError(file, number, "", f"larger than {limit} bytes{hint}")
        try:
            yield data.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise JobListError(file, number, "", "not UTF-8 text") from None


def _parquet_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise JobListError(str(path), 0, "", "Parquet needs pyarrow: pip install pyarrow, or write it as CSV") from None
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            yield 1, list(file.schema_arrow.names)
            line = 1
            for batch in file.iter_batches(batch_size=10_000):
                for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    line += 1
                    yield line, [_text(item) for item in values]
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
        raise JobListError(str(path), 0, "", f"not a Parquet file: {str(error).splitlines()[0]}") from None


def _text(content: object) -> str:
    if content is None:
        return ""
    if isinstance(content, datetime):
        return (content if content.tzinfo else content.replace(tzinfo=UTC)).isoformat().replace("+00:00", "Z")
    if isinstance(content, float) and content.is_integer():
        return str(int(content))
    return str(content)


def shown(text: str) -> str:
    """Return a piece of input, quoted for a message."""
    return f'"{text[:77]}..."' if len(text) > 80 else f'"{text}"'


# -- writing -----------------------------------------------------------------------------------------------------------


def _decimals(thousandths: int) -> str:
    whole, rest = divmod(thousandths, 1000)
    return f"{whole}.{rest:03d}".rstrip("0") if rest else str(whole)


def _quantity(amount: int) -> str:
    for suffix, size in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if amount and amount % size == 0:
            return f"{amount // size}{suffix}"
    return str(amount)


def _toleration(toleration: Tolerated) -> str:
    key, operator, content, effect = toleration
    return f"{key or '*'}{f'={content}' if operator == 'Equal' else ''}{f':{effect}' if effect else ''}"


def _duration_of(job: ReplayJob) -> str:
    return "" if job.work is None else _decimals(job.work)


def written(job: ReplayJob, *, dated: bool) -> dict[str, str]:
    """Return the row of a job, without fields that an empty cell stands for."""
    shape = job.shape
    when = job.submit
    submit = datetime.fromtimestamp(when / 1000, UTC).isoformat().replace("+00:00", "Z") if dated else _decimals(when)
    return {
        "job": job.name,
        "submit": submit,
        "duration": _duration_of(job),
        "workers": str(shape.workers),
        "min_workers": str(shape.min_workers) if shape.min_workers != shape.workers else "",
        "cpu": _decimals(shape.cpu) if shape.cpu else "",
        "memory": _quantity(shape.memory) if shape.memory else "",
        "gpu": _decimals(shape.gpu) if shape.gpu else "",
        "gpu_model": "|".join(shape.models),
        "priority_class": shape.priority_class,
        "priority": "" if shape.priority is None else str(shape.priority),
        "disruption": "" if shape.whole else "single",
        "checkpoint": "" if shape.checkpoint is None else _decimals(shape.checkpoint),
        "movable": "" if shape.movable is None else str(shape.movable).lower(),
        "tenant": "" if shape.tenant == "default" else shape.tenant,
        "topology_key": shape.topology_key,
        "preferred_topology": shape.preferred_topology.replace(",", ";"),
        "slice": shape.slice,
        "labels": ";".join(f"{key}={content}" for key, content in shape.labels),
        "tolerations": ";".join(map(_toleration, shape.tolerations)),
        "time_limit": "" if job.limit is None else _decimals(job.limit),
    }


def check_row(job: ReplayJob, checked: set[Shape]) -> None:
    """Whether a list can hold the job: what would be written of it is read. Raises ValueError with a `column`.

    `checked` are the shapes that were before, and grows.
    """
    row = written(job, dated=False) if job.shape not in checked else {"job": job.name, "duration": _duration_of(job)}
    for column, text in row.items():
        read = COLUMNS[column][1]
        if text and read is not None:
            _read(read, column, text)
    checked.add(job.shape)


def write_jobs(jobs: Iterable[ReplayJob], out: io.TextIOBase, *, dated: bool) -> None:
    """Write the jobs as CSV, without the optional columns that no job uses."""
    rows = [{name: guarded(text) for name, text in written(job, dated=dated).items()} for job in jobs]
    used = [name for name in COLUMNS if name in (*_NEEDED, "duration", "workers") or any(row[name] for row in rows)]
    writer = csv.DictWriter(out, used, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
