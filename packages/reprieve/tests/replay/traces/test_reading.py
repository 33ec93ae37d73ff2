"""The loop around an importer: rows into jobs, in order and each once; nodes and rates beside them.

Rules: replay.md 2.3-2.9.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reprieve.replay.job_list import JobListError, JobShapes, ReplayJob
from reprieve.replay.traces.importer import Importer, ImportOptions, Machine, Values, text, whole
from reprieve.replay.traces.priorities import read_priorities
from reprieve.replay.traces.trace_reader import (
    ImportedTrace,
    machine_documents,
    read_durations,
    read_machines,
    read_trace,
)

GPU, MILLI = "nvidia.com/gpu", "alibabacloud.com/gpu-milli"


def _job(line: int, values: Values, options: ImportOptions, shapes: JobShapes) -> ReplayJob | str:
    if values["kind"] == "none":
        return "is none"
    if values["kind"] == "bad":
        raise ValueError("is bad")
    return ReplayJob(values["name"], values["at"] * 1000, 5000, shapes.of(gpu=1000))


SIMPLE = Importer(
    name="simple",
    text="a format of another package",
    columns={"name": text, "at": whole, "kind": text},
    job_of=_job,
    dated=False,
    optional=frozenset({"kind"}),
    machine_columns={"name": text, "gpus": whole},
    machine_of=lambda values: Machine(values["name"], 0, 0, values["gpus"]),
)


def read(folder: Path, *rows: str, **options: Any) -> ImportedTrace:
    file = folder / "trace"
    file.write_text("".join(f"{row}\n" for row in rows))
    return read_trace(SIMPLE, file, **options)


def names(found: ImportedTrace) -> list[str]:
    return [job.name for job in found.jobs]


def problem(folder: Path, *rows: str, **options: Any) -> str:
    """What is wrong, without the name of the file."""
    with pytest.raises(JobListError) as refused:
        read(folder, *rows, **options)
    return str(refused.value).removeprefix(str(folder / "trace"))


def test_jobs_come_in_order_of_submit_and_then_of_the_file(tmp_path: Path) -> None:
    found = read(tmp_path, "name,at", "c,2", "b,1", "a,2", "d,1")
    assert names(found) == ["b", "d", "c", "a"]
    assert (found.left_out, found.skipped, found.first_problem) == ({}, 0, "")


def test_columns_are_found_by_name_and_others_are_ignored(tmp_path: Path) -> None:
    assert names(read(tmp_path, "more, at ,name", "x, 1 , a ")) == ["a"]


def test_rows_that_are_no_jobs_are_counted_by_reason(tmp_path: Path) -> None:
    found = read(tmp_path, "name,at,kind", "a,1,none", "b,2,", "c,3,none", "d,4,")
    assert (names(found), found.left_out, found.skipped) == (["b", "d"], {"is none": 2}, 0)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((), ", line 1: empty: expected a first line with the names of the columns"),
        (("name,when", "a,1"), ', line 1, column at: no such column; the first line has "name,when"'),
        (("name,at", "a"), ", line 2: 1 fields, the first line has 2"),
        (("name,at", "a,1,2"), ", line 2: 3 fields, the first line has 2"),
        (("name,at", "a,x"), ', line 2, column at: expected a whole number, found "x"'),
        (("name,at,kind", "a,1,bad"), ", line 2: is bad"),
        (("name,at", "a,1", "b,1", "a,2"), ', line 4: "a" is on line 2 already'),
        (
            ("name,at", "a b,1"),
            ", line 2, column job: expected a name of at most 253 characters without spaces, / and ~",
        ),
        (("name,at", '"a,1'), ", line 2: broken CSV: unexpected end of data"),
    ],
)
def test_trace_that_makes_no_sense(tmp_path: Path, rows: tuple[str, ...], message: str) -> None:
    assert problem(tmp_path, *rows).startswith(message)


def test_rows_that_make_no_sense_are_left_out_and_counted_and_the_first_is_reported(tmp_path: Path) -> None:
    """replay.md 2.3: each of the ways above, with good rows between."""
    rows = ("name,at,kind", "a,1,", "b,x,", "c,2,bad", "d,3,", "a,4,", "e,5", "f g,6,", "h,7,")
    found = read(tmp_path, *rows, skip_bad=True)
    assert (names(found), found.skipped) == (["a", "d", "h"], 5)
    assert found.first_problem == f'{tmp_path / "trace"}, line 3, column at: expected a whole number, found "x"'
    with pytest.raises(JobListError, match="no such column"):
        read(tmp_path, "name", "a", skip_bad=True)


@pytest.mark.parametrize(("most", "fits"), [(2, True), (1, False)])
def test_no_more_jobs_than_are_allowed(tmp_path: Path, most: int, fits: bool) -> None:
    """replay.md 2.4: rows that become no job do not count."""
    rows = ("name,at,kind", "a,1,", "x,1,none", "b,2,", "y,1,none")
    if fits:
        assert names(read(tmp_path, *rows, max_jobs=most)) == ["a", "b"]
    else:
        assert problem(tmp_path, *rows, max_jobs=most) == ", line 4: more than 1 jobs (--max-jobs raises the limit)"


def test_jobs_of_one_content_share_it_with_a_class_by_rule_too(tmp_path: Path) -> None:
    found = read(tmp_path, "name,at", "a,1", "b,2", "c,3", priorities=read_priorities("job=b:high,else:low"))
    assert [(job.shape.priority_class, job.shape.priority) for job in found.jobs] == [
        ("low", 100),
        ("high", 200),
        ("low", 100),
    ]
    assert found.jobs[0].shape is found.jobs[2].shape
    assert read(tmp_path, "name,at", "a,1").jobs[0].shape.priority is None


def test_import_defaults() -> None:
    options, found = ImportOptions(), ImportedTrace([], {})
    assert (options.only, options.durations, found.skipped, found.first_problem) == ((), {}, 0, "")


# -- nodes ---------------------------------------------------------------------------------------------------------


def test_node_is_once_in_a_list_of_nodes(tmp_path: Path) -> None:
    file = tmp_path / "nodes"
    file.write_text("name,gpus\na,1\nb,2\n")
    assert [(machine.name, machine.gpus) for machine in read_machines(SIMPLE, file)] == [("a", 1), ("b", 2)]
    file.write_text("name,gpus\na,1\nb,2\na,3\n")
    with pytest.raises(JobListError, match=r'nodes, line 4: "a" is on line 2 already'):
        read_machines(SIMPLE, file)
    for less in (replace(SIMPLE, machine_of=None), replace(SIMPLE, machine_columns=None)):
        with pytest.raises(JobListError, match="nodes: traces of the format simple have no list of nodes"):
            read_machines(less, file)
    file.write_text("name,gpus\na,x\n")
    with pytest.raises(JobListError, match="nodes, line 2, column gpus: expected a whole number"):
        read_machines(SIMPLE, file)


@pytest.mark.parametrize(
    ("machine", "shared", "amounts", "labels"),
    [
        (
            Machine("n", 64_000, 3 << 30, 8, "T4"),
            False,
            {"cpu": "64", "memory": "3072Mi", "pods": "110", GPU: "8"},
            {"gpu-model": "T4"},
        ),
        # shared: in thousandths, with room for as many pods
        (
            Machine("n", 500, 1 << 20, 2, "T4"),
            True,
            {"cpu": "500m", "memory": "1Mi", "pods": "2000", MILLI: "2000"},
            {"gpu-model": "T4"},
        ),
        # what is not given is plenty
        (Machine("n", 0, 0, 0), False, {"cpu": "1000", "memory": f"{16 << 20}Mi", "pods": "110"}, None),
        (Machine("n", 1001, 0, 0), True, {"cpu": "1001m", "memory": f"{16 << 20}Mi", "pods": "110"}, None),
    ],
)
def test_node_of_a_trace_as_a_manifest(
    machine: Machine, shared: bool, amounts: dict[str, str], labels: dict[str, str] | None
) -> None:
    """replay.md 1.8, 3.2."""
    [made] = machine_documents([machine], shared=shared)
    assert (made["apiVersion"], made["kind"], made["metadata"]["name"]) == ("v1", "Node", "n")
    assert made["status"] == {"capacity": amounts, "allocatable": amounts}
    assert made["metadata"].get("labels") == labels


# -- rates ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "rates"),
    [
        ("type,steps_per_second\nLM,40\nRL,0.5\n", {("LM", 0): 40.0, ("RL", 0): 0.5}),
        ("type,scale_factor,steps_per_second\nLM,1,40\nLM,2,70\nLM,,9\n", {("LM", 1): 40, ("LM", 2): 70, ("LM", 0): 9}),
        ("type,steps_per_second\nLM,999999999999\n", {("LM", 0): 999_999_999_999.0}),
    ],
)
def test_steps_a_second_by_type_and_scale_factor(
    tmp_path: Path, rows: str, rates: dict[tuple[str, int], float]
) -> None:
    file = tmp_path / "rates.csv"
    file.write_text(rows)
    assert read_durations(file) == rates


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("type\nLM\n", "line 1, column steps_per_second: no such column"),
        ("type,steps_per_second\nLM,0\n", 'line 2, column steps_per_second: expected a number above 0, found "0"'),
        ("type,steps_per_second\nLM,-1\n", "line 2, column steps_per_second: expected a number above 0"),
        ("type,steps_per_second\nLM,many\n", "line 2, column steps_per_second: expected a number above 0"),
        ("type,steps_per_second\nLM,nan\n", "line 2, column steps_per_second: expected a number above 0"),
        ("type,steps_per_second\nLM,1e12\n", "line 2, column steps_per_second: expected a number above 0"),
        (
            "type,steps_per_second,scale_factor\nLM,1,x\n",
            'line 2, column scale_factor: expected a whole number, found "x"',
        ),
    ],
)
def test_rates_that_make_no_sense(tmp_path: Path, rows: str, message: str) -> None:
    file = tmp_path / "rates.csv"
    file.write_text(rows)
    with pytest.raises(JobListError) as refused:
        read_durations(file)
    assert str(refused.value).removeprefix(f"{file}, ").startswith(message)
