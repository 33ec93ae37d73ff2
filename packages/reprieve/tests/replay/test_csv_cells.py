"""CSV for spreadsheets: no formulas, numbers stay numbers, what was written is read again (interfaces.md 1.13)."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as with_fields

from reprieve.replay.csv_cells import guarded, unguarded
from reprieve.replay.documents import as_csv
from reprieve.replay.job_list import ReplayJob, Shape, read_jobs, write_jobs
from tests.replay.test_running import simulated

FORMULAS = ("=1+1", "+SUM(A1)", "-2+3", "@A1", "\t=1", "\r=1", "\n=1", "=cmd|' /C calc'!A0", "＝1", "'=1")
NUMBERS = ("-5", "+5", "1e9", "-1.5e-3", "0", "-.5")


@pytest.mark.parametrize("text", FORMULAS)
def test_formula_is_text(text: str) -> None:
    assert guarded(text) == f"'{text}"


@pytest.mark.parametrize("text", [*NUMBERS, "", "train-1", "a=b", "it's", "'quoted'", "日本"])
def test_numbers_and_other_text_stay_as_they_are(text: str) -> None:
    assert guarded(text) == text == unguarded(text)


@given(st.text(st.sampled_from("=+-@'\t\r\n1ae."), max_size=8))
def test_guarded_cells_are_read_as_they_were(text: str) -> None:
    assert unguarded(guarded(text)) == text
    assert guarded(text)[:1] not in "=@\t\r\n" or not text


def test_job_list_with_formulas_for_names_is_read_again(tmp_path: Path) -> None:
    names = ["=1+1", "@x", "-2+3", "+x", "'=x", "plain", "-5"]
    jobs = [ReplayJob(name=name, submit=1000 * turn, work=5000, shape=Shape()) for turn, name in enumerate(names)]
    path = tmp_path / "jobs.csv"
    with path.open("w", encoding="utf-8", newline="") as out:
        write_jobs(jobs, out, dated=False)
    cells = [row[0] for row in csv.reader(io.StringIO(path.read_text(encoding="utf-8")))][1:]
    assert cells == ["'=1+1", "'@x", "'-2+3", "'+x", "''=x", "plain", "-5"]
    assert [job.name for job in read_jobs(path).jobs] == names


def test_results_of_a_replay_have_no_formulas() -> None:
    """Neither the names of jobs nor those that policies were given."""
    outcome, *_ = simulated(15.5)
    report = with_fields(outcome.report, name="=HYPERLINK(1)")
    rows = [with_fields(row, job="@evil\x1b[2J") for row in outcome.rows]
    shown = list(csv.reader(io.StringIO(as_csv([replace(outcome, report=report, rows=rows)]))))
    assert all(row[0] == "'=HYPERLINK(1)" for row in shown[1:])
    assert all("'@evil\\x1b[2J" in row for row in shown[1:])
