"""The text of `reprieve plan`, compared with files under golden/ (REPRIEVE_UPDATE_GOLDEN=1 writes them again)."""

import os
from pathlib import Path

import pytest

from tests.cli.conftest import Run

HERE = Path(__file__).parent

CASES = {
    "gang-fits": ("gang-fits.yaml",),
    "eviction": ("eviction.yaml",),
    "eviction-first-decision": ("eviction.yaml", "--first-decision"),
    "budget-overruled": ("budget-overruled.yaml",),
    "waiting": ("waiting.yaml",),
    "nothing": ("nothing.yaml",),
}


@pytest.mark.parametrize("name", CASES)
def test_plan_says_what_the_golden_file_says(name: str, run: Run) -> None:
    file, *options = CASES[name]
    ended = run("plan", "-f", HERE / "plans" / file, *options)
    assert (ended.code, ended.err) == (0, "")
    golden = HERE / "golden" / f"{name}.txt"
    if os.environ.get("REPRIEVE_UPDATE_GOLDEN"):
        golden.write_text(ended.out)
    assert ended.out == golden.read_text()


@pytest.mark.parametrize("name", CASES)
def test_piped_text_has_no_control_characters(name: str, run: Run) -> None:
    file, *options = CASES[name]
    out = run("plan", "-f", HERE / "plans" / file, *options).out
    assert out.isprintable() or {c for c in out if not c.isprintable()} == {"\n"}
