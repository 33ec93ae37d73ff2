"""The list of jobs: what each column holds, both sides of its bounds, and the error of a row that makes no sense.

Rules: replay.md 2.  `packages/reprieve/tests/cli/test_replay.py` asks the command.
"""

from __future__ import annotations

import gzip
import io
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from reprieve.replay import job_list
from reprieve.replay.job_list import JobList, JobListError, JobShapes, ReplayJob, Shape, read_jobs, write_jobs

# Without the time of its making: the same bytes in every process.
PACKED = gzip.compress(b"job,submit\na,1\n", mtime=0)


def listed(folder: Path, *rows: str, **options: Any) -> JobList:
    file = folder / "jobs.csv"
    file.write_text("".join(f"{row}\n" for row in rows))
    return read_jobs(file, **options)


def problem(folder: Path, *rows: str, **options: Any) -> str:
    """What is wrong with a list, without the name of the file."""
    with pytest.raises(JobListError) as refused:
        listed(folder, *rows, **options)
    return str(refused.value).removeprefix(str(folder / "jobs.csv"))


def one(folder: Path, column: str, text: str) -> ReplayJob:
    """A job with this in a column, and 1000 workers where it has several."""
    if column in ("job", "submit"):
        columns = {"job": "j", "submit": "0", column: text}
    else:
        columns = {"job": "j", "submit": "0", **({"workers": "1000"} if column == "min_workers" else {}), column: text}
    header, row = ",".join(columns), ",".join(f'"{found}"' for found in columns.values())
    [job] = listed(folder, header, row).jobs
    return job


VALUES: list[tuple[str, str, str, Any]] = [
    ("duration", "0", "work", 0),
    ("duration", "1.5", "work", 1500),
    ("duration", "0.0004", "work", 0),
    ("duration", "0.0006", "work", 1),
    ("duration", "1e3", "work", 1_000_000),
    ("duration", "1." + "0" * 38, "work", 1000),
    ("duration", "1e-15", "work", 0),
    ("submit", "0", "submit", 0),
    ("submit", "1000000000000", "submit", 10**15),
    ("submit", "1970-01-01T00:00:01.500Z", "submit", 1500),
    ("submit", "2026-01-01T00:00:00+01:00", "submit", 1_767_222_000_000),
    ("workers", "1", "workers", 1),
    ("workers", "1000", "workers", 1000),
    ("workers", "+7", "workers", 7),
    ("workers", "0000000000000000007", "workers", 7),
    ("min_workers", "1", "min_workers", 1),
    ("min_workers", "1000", "min_workers", 1000),
    ("cpu", "0.5", "cpu", 500),
    ("cpu", "1000000", "cpu", 10**9),
    ("memory", "64Gi", "memory", 64 << 30),
    ("memory", "1Ei", "memory", 1 << 60),
    ("memory", "0", "memory", 0),
    ("gpu", "0.001", "gpu", 1),
    ("gpu", "0.999", "gpu", 999),
    ("gpu", "1", "gpu", 1000),
    ("gpu", "1000", "gpu", 1_000_000),
    ("gpu_model", "A100| H100 |A100||", "models", ("A100", "H100")),
    ("priority_class", "high.of-all", "priority_class", "high.of-all"),
    ("priority", "-2147483648", "priority", -(2**31)),
    ("priority", "1000000000", "priority", 10**9),
    ("disruption", "all", "whole", True),
    ("disruption", "single", "whole", False),
    ("checkpoint", "0.001", "checkpoint", 1),
    ("checkpoint", "600", "checkpoint", 600_000),
    ("movable", "true", "movable", True),
    ("movable", "false", "movable", False),
    ("movable", "", "movable", None),
    ("tenant", "a" * 63, "tenant", "a" * 63),
    ("topology_key", "example.com/rack", "topology_key", "example.com/rack"),
    ("preferred_topology", "rack; x.io/row", "preferred_topology", "rack,x.io/row"),
    ("slice", "rack=8", "slice", "rack=8"),
    ("labels", "team=nlp; stage=train;x=", "labels", (("stage", "train"), ("team", "nlp"), ("x", ""))),
    ("job", "j" * 253, "name", "j" * 253),
]


@pytest.mark.parametrize(("column", "text", "field", "value"), VALUES)
def test_column_holds(tmp_path: Path, column: str, text: str, field: str, value: Any) -> None:
    job = one(tmp_path, column, text)
    assert getattr(job if hasattr(job, field) else job.shape, field) == value


REFUSED: list[tuple[str, str, str]] = [
    ("duration", "-1", "expected seconds, not below 0"),
    ("duration", "long", "expected seconds"),
    ("duration", "1_0", "expected seconds"),
    ("duration", "nan", "expected seconds"),
    ("duration", "inf", "expected seconds"),
    ("duration", "1e15", "expected at most ten years"),
    ("duration", "1e16", "expected seconds"),
    ("duration", "1e-16", "expected seconds"),
    ("duration", "1." + "0" * 39, "expected seconds"),
    ("duration", "1" * 41, "expected seconds"),
    ("duration", "999999999", "expected at most ten years"),
    ("submit", "1000000000001", "expected at most 1000000000000 seconds"),
    ("submit", "1969-12-31T23:59:59Z", "expected a time since 1970"),
    ("workers", "0", "expected a whole number from 1 to 1000"),
    ("workers", "1001", "expected a whole number from 1 to 1000"),
    ("workers", "1.5", "expected a whole number from 1 to 1000"),
    ("workers", "9" * 5000, "expected a whole number from 1 to 1000"),
    ("workers", "00000000000000000007", "expected a whole number from 1 to 1000"),
    ("min_workers", "0", "expected a whole number from 1 to 1000"),
    ("cpu", "1000000.001", "expected at most a million cores a worker"),
    ("memory", "2Ei", "expected a quantity from 0 to 1Ei"),
    ("memory", "-1", "expected a quantity from 0 to 1Ei"),
    ("memory", "much", "expected a quantity such as 64Gi"),
    ("gpu", "1.5", "expected whole GPUs above one"),
    ("gpu", "1.001", "expected whole GPUs above one"),
    ("gpu", "1001", "expected at most 1000 GPUs a worker"),
    ("gpu_model", "A 100", "expected models that can be values of a label, separated by |"),
    ("priority_class", "High", "expected a name of lower-case letters, digits, - and ."),
    ("priority", "-2147483649", "expected a whole number from -2147483648 to 1000000000"),
    ("priority", "1000000001", "expected a whole number from -2147483648 to 1000000000"),
    ("disruption", "some", "expected all or single"),
    ("checkpoint", "0", "expected more than 0 seconds"),
    ("movable", "yes", "expected true or false"),
    ("tenant", "a" * 64, "expected a name that can be that of a namespace"),
    ("tenant", "a.b", "expected a name that can be that of a namespace"),
    ("topology_key", "/rack", "expected the key of a label"),
    ("preferred_topology", "rakc", 'no level is called "rakc", did you mean "rack"?'),
    ("slice", "rack=1", "expected a level and a number of pods from 2 to 4096"),
    ("labels", "team", "expected labels such as team=nlp;stage=train"),
    ("labels", "a b=c", "expected labels such as team=nlp;stage=train"),
    ("labels", "a=b c", "expected labels such as team=nlp;stage=train"),
    ("job", "j" * 254, "expected a name of at most 253 characters without spaces, / and ~"),
    ("job", "a/b", "expected a name of at most 253 characters"),
    ("job", "a~b", "expected a name of at most 253 characters"),
]


@pytest.mark.parametrize(("column", "text", "message"), REFUSED, ids=[f"{c} {t[:20]}" for c, t, _ in REFUSED])
def test_column_does_not_hold(tmp_path: Path, column: str, text: str, message: str) -> None:
    """One line with file, line, column, what was found and what is wanted."""
    with pytest.raises(JobListError) as refused:
        one(tmp_path, column, text)
    found = str(refused.value).removeprefix(str(tmp_path / "jobs.csv"))
    quoted = f'"{text}"' if len(text) <= 80 else f'"{text[:77]}..."'
    assert found.startswith(f", line 2, column {column}: {message}")
    assert found.endswith(f", found {quoted}")


def test_ten_years_are_the_longest(tmp_path: Path) -> None:
    """Of 366 days, so that none is too short."""
    assert one(tmp_path, "duration", "316224000").work == 316_224_000_000
    with pytest.raises(JobListError, match="at most ten years"):
        one(tmp_path, "duration", "316224000.001")


def test_empty_field_stands_for(tmp_path: Path) -> None:
    columns = ",".join(job_list.COLUMNS)
    [job] = listed(tmp_path, columns, "j,5" + "," * (len(job_list.COLUMNS) - 2)).jobs
    assert (job.name, job.submit, job.work) == ("j", 5000, None)
    assert (
        job.shape
        == Shape()
        == Shape(
            workers=1,
            min_workers=1,
            cpu=0,
            memory=0,
            gpu=0,
            models=(),
            priority_class="",
            priority=None,
            whole=True,
            checkpoint=None,
            tenant="default",
            topology_key="",
            labels=(),
        )
    )
    assert one(tmp_path, "workers", "4").shape.min_workers == 4, "as many as workers"
    assert Shape(workers=3, gpu=500).gpus == 1500


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((), ", line 1: empty: expected a first line with the names of the columns"),
        (("job,submit,job",), ", line 1, column job: appears twice"),
        (("job",), ', line 1, column submit: no such column; the first line has "job"'),
        (("submit",), ', line 1, column job: no such column; the first line has "submit"'),
        (("job,submit,durations",), ', line 1: unknown column "durations"; did you mean "duration"?'),
        (
            ("job,submit,zzz",),
            ', line 1: unknown column "zzz"; known: job, submit, duration, workers, min_workers, cpu',
        ),
        (("job,submit", "a"), ", line 2: 1 fields, the first line has 2"),
        (("job,submit", "a,1,2"), ", line 2: 3 fields, the first line has 2"),
        (("job,submit", ",1"), ", line 2, column job: is empty"),
        (("job,submit", "a, "), ", line 2, column submit: is empty"),
        (("job,submit", "a,1", "b,2", "a,3"), ', line 4, column job: "a" is on line 2 already'),
        (
            ("job,submit", "a,1", "b,2026-01-01T00:00:00Z"),
            ", line 3, column submit: expected seconds as in the rows before",
        ),
        (
            ("job,submit", "a,2026-01-01T00:00:00Z", "b,1"),
            ", line 3, column submit: expected RFC 3339 as in the rows before",
        ),
        (
            ("job,submit,workers,min_workers", "a,1,2,3"),
            ", line 2, column min_workers: expected at most workers, 2, found 3",
        ),
        (("job,submit", 'a,"1'), ", line 2: broken CSV: "),
        (("job,submit", f"a,{'1' * 70_000}"), ", line 2: a line of more than 65536 bytes"),
    ],
)
def test_error_of_a_list_that_makes_no_sense(tmp_path: Path, rows: tuple[str, ...], message: str) -> None:
    assert problem(tmp_path, *rows).startswith(message)


def test_blank_lines_count_as_lines_and_are_no_rows(tmp_path: Path) -> None:
    assert [job.name for job in listed(tmp_path, "job,submit", "", "a,1", "").jobs] == ["a"]
    assert problem(tmp_path, "job,submit", "", "a,x").startswith(", line 3, column submit: ")


def test_bad_rows_are_left_out_and_counted_and_the_first_is_reported(tmp_path: Path) -> None:
    found = listed(tmp_path, "job,submit", "a,1", "b,x", "a,2", "c,3", skip_bad=True)
    assert ([job.name for job in found.jobs], found.skipped) == (["a", "c"], 2)
    assert ", line 3, column submit: " in found.first_problem
    good = listed(tmp_path, "job,submit", "a,1", skip_bad=True)
    assert (good.skipped, good.first_problem) == (0, "")


@pytest.mark.parametrize(("most", "fits"), [(1, False), (2, True), (3, True)])
def test_no_more_jobs_than_are_allowed(tmp_path: Path, most: int, fits: bool) -> None:
    rows = ("job,submit", "a,1", "b,2")
    if fits:
        assert len(listed(tmp_path, *rows, max_jobs=most).jobs) == 2
    else:
        assert problem(tmp_path, *rows, max_jobs=most) == ", line 3: more than 1 jobs (--max-jobs raises the limit)"


def test_jobs_come_in_order_of_submit_and_then_of_the_file(tmp_path: Path) -> None:
    found = listed(tmp_path, "job,submit", "c,2", "b,1", "a,2", "z,1")
    assert [job.name for job in found.jobs] == ["b", "z", "c", "a"]
    assert (found.begin, found.dated) == (1000, False)
    assert listed(tmp_path, "job,submit", "a,2026-01-01T00:00:00Z").dated
    empty = JobList(())
    assert (empty.begin, empty.dated, empty.skipped, empty.first_problem) == (0, False, 0, "")


def test_jobs_of_one_content_share_it() -> None:
    shapes = JobShapes()
    first = shapes.of(workers=2, gpu=1000)
    assert shapes.of(workers=2, gpu=1000) is first
    assert shapes.of(workers=2, gpu=2000) != first


@pytest.mark.parametrize("longest", [21, 22])
def test_line_is_as_long_as_the_bound_at_most(tmp_path: Path, longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its end; all together no more than the bound of a file."""
    monkeypatch.setattr(job_list, "MAX_ROW_BYTES", longest)
    rows = ("job,submit", f"{'a' * 19},1")  # 22 bytes with its end
    if longest == 22:
        assert len(listed(tmp_path, *rows).jobs) == 1
        monkeypatch.setattr(job_list, "MAX_BYTES", 33)
        assert len(listed(tmp_path, *rows).jobs) == 1
        monkeypatch.setattr(job_list, "MAX_BYTES", 32)
        assert problem(tmp_path, *rows) == ", line 2: larger than 32 bytes"
    else:
        assert problem(tmp_path, *rows) == ", line 2: a line of more than 21 bytes"


def test_how_much_a_list_may_be() -> None:
    """replay.md 2.4."""
    assert (job_list.MAX_JOBS, job_list.MAX_WORKERS, job_list.MAX_ROW_BYTES) == (1_000_000, 1_000, 64 * 1024)
    assert job_list.MAX_BYTES == 1 << 30


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PK\x03\x04rest", ": compressed with zip: expected plain text or gzip"),
        (b"BZh9rest", ": compressed with bzip2"),
        (b"\xfd7zXZ\x00", ": compressed with xz"),
        (b"\x28\xb5\x2f\xfd", ": compressed with zstd"),
        (b"job,submit\n\xff,1\n", ", line 2: not UTF-8 text"),
        (PACKED[:-9], ", line 2: the compressed file is truncated"),
        (b"\x1f\x8bnothing of the sort", ", line 1: not a compressed file: "),
        (PACKED[:10] + b"\xff" * 9, ", line 1: the compressed file is damaged: "),
    ],
    ids=["zip", "bzip2", "xz", "zstd", "no text", "cut off", "no gzip", "damaged"],
)
def test_bytes_that_are_no_list(tmp_path: Path, data: bytes, message: str) -> None:
    file = tmp_path / "jobs.csv"
    file.write_bytes(data)
    with pytest.raises(JobListError) as refused:
        read_jobs(file)
    assert str(refused.value).startswith(f"{file}{message}")


@pytest.mark.parametrize("data", [b"\xef\xbb\xbfjob,submit\na,1\n", PACKED], ids=["marked", "packed"])
def test_marked_and_packed_lists_are_read(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "jobs.csv"
    file.write_bytes(data)
    assert [(job.name, job.submit) for job in read_jobs(file).jobs] == [("a", 1000)]


# -- Parquet -------------------------------------------------------------------------------------------------------


def parquet(folder: Path, **columns: list[Any]) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    file = folder / "jobs.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), file)
    return file


def test_values_of_parquet_are_read_as_their_text(tmp_path: Path) -> None:
    """replay.md 2.1: numbers, text and nothing; times with and without a zone, which is UTC then."""
    file = parquet(tmp_path, job=["a", "b"], submit=[1.5, 2.0], duration=[None, 7], gpu=[0.5, 2.0], workers=[2, None])
    found = [(job.name, job.submit, job.work, job.shape.gpu, job.shape.workers) for job in read_jobs(file).jobs]
    assert found == [("a", 1500, None, 500, 2), ("b", 2000, 7000, 2000, 1)]
    plain = datetime(1970, 1, 1, 0, 1)
    for zone, submit in ((None, 60_000), (UTC, 60_000), (timezone(timedelta(hours=-1)), 3_660_000)):
        dated = read_jobs(parquet(tmp_path, job=["a"], submit=[plain.replace(tzinfo=zone)]))
        assert ([job.submit for job in dated.jobs], dated.dated) == ([submit], True)


def test_parquet_without_what_reads_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(JobListError) as refused:
        read_jobs(tmp_path / "jobs.parquet")
    assert (
        str(refused.value)
        == f"{tmp_path / 'jobs.parquet'}: Parquet needs pyarrow: pip install pyarrow, or write it as CSV"
    )


def test_rows_of_parquet_are_counted_from_2_as_those_of_csv(tmp_path: Path) -> None:
    file = parquet(tmp_path, job=["a", "b", "c"], submit=["1", "2", "x"])
    with pytest.raises(JobListError, match=r"jobs\.parquet, line 4, column submit: expected seconds"):
        read_jobs(file)
    file.write_bytes(b"job,submit\na,1\n")
    with pytest.raises(JobListError, match=r"jobs\.parquet: not a Parquet file: .+"):
        read_jobs(file)


# -- writing -------------------------------------------------------------------------------------------------------


JOBS = [
    ReplayJob("a", 1500, None, JobShapes().of(workers=2)),
    ReplayJob(
        "b",
        2000,
        60_250,
        JobShapes().of(
            workers=4,
            min_workers=2,
            cpu=1500,
            memory=3 << 20,
            gpu=500,
            models=("A", "B"),
            priority_class="high",
            priority=0,
            whole=False,
            checkpoint=600_000,
            movable=True,
            tenant="t",
            topology_key="k",
            preferred_topology="rack,block",
            slice="rack=2",
            labels=(("x", "y"), ("z", "")),
            tolerations=(("", "Exists", "", ""), ("x.io/k", "Equal", "v", "NoExecute"), ("k", "Equal", "", "")),
        ),
        90_500,
    ),
]


def written(jobs: list[ReplayJob], *, dated: bool = False) -> list[str]:
    out = io.StringIO()
    write_jobs(jobs, out, dated=dated)
    return out.getvalue().splitlines()


def test_list_is_written_without_what_empty_fields_stand_for() -> None:
    assert written(JOBS[:1]) == ["job,submit,duration,workers", "a,1.5,,2"]
    assert written(JOBS) == [
        ",".join(job_list.COLUMNS),
        "a,1.5,,2,,,,,,,,,,,,,,,,,",
        "b,2,60.25,4,2,1.5,3Mi,0.5,A|B,high,0,single,600,true,t,k,rack;block,rack=2,x=y;z=,*;x.io/k=v:NoExecute;k=,90.5",
    ]
    assert written(JOBS[:1], dated=True)[1] == "a,1970-01-01T00:00:01.500000Z,,2"


@pytest.mark.parametrize("dated", [False, True])
def test_report_written_reads_back(tmp_path: Path, dated: bool) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text("\n".join(written(JOBS, dated=dated)))
    assert list(read_jobs(file).jobs) == JOBS


@pytest.mark.parametrize(
    ("memory", "text"),
    [(1 << 30, "1Gi"), ((1 << 30) + (1 << 20), "1025Mi"), (1 << 20, "1Mi"), (1 << 10, "1Ki"), (1000, "1000"), (0, "")],
)
def test_largest_unit_that_is_exact(memory: int, text: str) -> None:
    assert job_list.written(ReplayJob("a", 0, 1, JobShapes().of(memory=memory)), dated=False)["memory"] == text


def test_jobs_are_equal_if_all_of_them_is() -> None:
    shape = JobShapes().of(gpu=1000)
    assert ReplayJob("a", 1, 2, shape) == ReplayJob("a", 1, 2, JobShapes().of(gpu=1000))
    for other in (
        ReplayJob("b", 1, 2, shape),
        ReplayJob("a", 2, 2, shape),
        ReplayJob("a", 1, None, shape),
        ReplayJob("a", 1, 2, Shape()),
        "a",
    ):
        assert ReplayJob("a", 1, 2, shape) != other
