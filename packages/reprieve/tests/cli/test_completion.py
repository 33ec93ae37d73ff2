"""`reprieve completion` and `kubectl reprieve` (interfaces.md 1.8)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.e2e.cluster import COMMAND
from tests.waiting import DEADLINE


def completed(*words: str) -> list[str]:
    """What bash receives for the last of the words."""
    asked = {"_REPRIEVE_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        COMMAND[:-1], env={"PATH": "", **asked}, capture_output=True, text=True, check=True, timeout=DEADLINE
    )
    return done.stdout.split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_of_a_shell_asks_the_program(shell: str, run: Run) -> None:
    ended = run("completion", shell)
    assert ended.code == 0
    assert f"_REPRIEVE_COMPLETE=complete_{shell}" in ended.out
    assert "reprieve" in ended.out


def test_another_shell_is_refused_with_those_there_are(run: Run) -> None:
    ended = run("completion", "tcsh")
    assert (ended.code, ended.out) == (2, "")
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in ended.err


@pytest.mark.parametrize(
    ("words", "some"),
    [
        (("reprieve", "pl"), {"plan"}),
        (("reprieve", "plan", "--feature"), {"--feature-gates"}),
        (("reprieve", "plan", "-o", "js"), {"json"}),
        (("reprieve", "help", "re"), {"records", "replay"}),
        (("reprieve", "help", "q"), {"questions", "queue"}),
        (("reprieve", "nonsense"), set()),
    ],
)
def test_commands_options_and_values_are_completed(words: tuple[str, ...], some: set[str]) -> None:
    assert set(completed(*words)) == some


def test_fish_gets_one_line_for_each_completion() -> None:
    """A second line of a description would be something else to complete, whatever the width of the terminal."""
    asked = {
        "_REPRIEVE_COMPLETE": "complete_fish",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": "reprieve plan --",
        "COLUMNS": "40",
    }
    done = subprocess.run(
        COMMAND[:-1], env={"PATH": "", **asked}, capture_output=True, text=True, check=True, timeout=DEADLINE
    )
    lines = done.stdout.splitlines()
    assert len(lines) > 20
    assert [line for line in lines if line and not line.startswith("--")] == []


def test_kubectl_finds_it_by_its_name() -> None:
    """`kubectl reprieve plan` runs `kubectl-reprieve plan`; help and errors say how it was called."""
    program = [sys.executable, "-c", "from reprieve.cli.main import kubectl; kubectl()"]
    done = subprocess.run([*program, "plan", "--help"], capture_output=True, text=True, check=True, timeout=DEADLINE)
    assert done.stdout.startswith("Usage: kubectl reprieve plan")


def for_kubectl(*words: str) -> dict[str, str]:
    """What `kubectl_complete-reprieve` offers for the last of the words, with descriptions."""
    program = [sys.executable, "-c", "from reprieve.cli.main import complete_kubectl; complete_kubectl()"]
    done = subprocess.run([*program, *words], capture_output=True, text=True, check=True, timeout=DEADLINE)
    assert done.stderr == ""
    lines = (line.partition("\t") for line in done.stdout.splitlines() if line)
    return {value: description for value, _, description in lines}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("pl",), {"plan"}),
        (("plan", "--feature"), {"--feature-gates"}),
        (("plan", "-o", ""), {"text", "json", "yaml", "html", "page"}),
        (("plan", "-o", "js"), {"json"}),
        (("plan", "-f", ""), set()),
        (("help", "q"), {"questions", "queue"}),
        (("plan", "-f", "a 'quoted\" name", "--feature"), {"--feature-gates"}),
        (("nonsense",), set()),
    ],
)
def test_kubectl_completes_the_plugin(words: tuple[str, ...], expected: set[str]) -> None:
    """interfaces.md 1.8: the words after `kubectl reprieve`, the last of them, which may be empty, to be completed."""
    assert set(for_kubectl(*words)) == expected


def test_kubectl_is_offered_every_command_with_what_it_does() -> None:
    offered = for_kubectl("")
    assert {"plan", "explain", "up", "scheduler"} <= set(offered)
    assert all(offered.values())


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here")
def test_kubectl_itself_finds_the_program_and_reads_its_answer(tmp_path: Path) -> None:
    """By its name on the PATH; the last line is kubectl's own word to the shell."""
    program = tmp_path / "kubectl_complete-reprieve"
    program.write_text(
        f"#!{sys.executable}\nfrom reprieve.cli.main import complete_kubectl\n\ncomplete_kubectl()\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    plugin = tmp_path / "kubectl-reprieve"
    plugin.write_text("#!/bin/sh\n", encoding="utf-8")
    plugin.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    command = ["kubectl", "__complete", "reprieve", "plan", "-o", ""]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=DEADLINE)
    assert done.stdout.split() == ["text", "json", "yaml", "html", "page", ":0"]
