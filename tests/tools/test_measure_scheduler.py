"""`tools/measure_scheduler.py` prints its figures, and says what does not go together."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def measured(*options: str) -> subprocess.CompletedProcess[str]:
    """The tool, run on a small cluster."""
    program = [sys.executable, str(ROOT / "tools" / "measure_scheduler.py"), *options]
    return subprocess.run(program, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--nodes", "20", "--pods", "20", "--unlike"), "20 unlike pods beside 40"),
        (("--nodes", "2", "--pods", "0", "--gangs", "2", "--size", "3"), "2 gangs of 3"),
        (("--nodes", "1", "--pods", "0", "--gangs", "0", "--victims", "16"), "16 victims in 2 gangs"),
    ],
)
def test_measurements_are_named_with_their_figures(options: tuple[str, ...], what: str) -> None:
    found = measured(*options)
    assert found.returncode == 0, found.stderr
    (line,) = found.stdout.splitlines()
    assert re.match(rf"{what}: \d+ (binds|evictions)/s, \d+\.\d s ", line), line


@pytest.mark.parametrize("options", [("--running", "3"), ("--unlike", "--kubelets")])
def test_options_that_do_not_go_together_are_a_usage_error(options: tuple[str, ...]) -> None:
    found = measured(*options)
    assert found.returncode == 2, found.stdout
    assert "error: --" in found.stderr
