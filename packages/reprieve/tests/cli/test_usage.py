"""The program as a whole: which commands there are, how they are called, and names that are empty."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reprieve.cli.commands import app
from reprieve.cli.main import kubectl
from tests.cli.conftest import Ended, Run

COMMANDS = (
    *("plan", "history", "queue", "capacity", "drain-plan", "explain", "snapshot", "up", "down", "scheduler"),
    *("apiserver", "demo", "bench", "replay", "tune", "completion", "help", "import", "records", "shadow"),
)


def test_every_command_is_listed(run: Run) -> None:
    """interfaces.md 1.1-1.7."""
    ended = run("--help")
    assert (ended.code, ended.err) == (0, "")
    listed = [line.split()[0] for line in ended.out.partition("Commands:\n")[2].splitlines() if line[2:3].strip()]
    assert listed == list(COMMANDS)


@pytest.mark.parametrize("command", [*COMMANDS, "import openb"])
def test_every_command_explains_itself(run: Run, command: str) -> None:
    """With -h as with --help."""
    short, long = run(*command.split(), "-h"), run(*command.split(), "--help")
    assert long == short
    assert (long.code, long.err) == (0, "")
    assert long.out.startswith(f"Usage: reprieve {command} ")


def test_without_arguments_it_is_the_help(run: Run) -> None:
    """On stderr, and with exit code 2: a script that forgot them is not done."""
    assert run() == Ended(2, "", run("--help").out)


@pytest.mark.parametrize("arguments", [("plam",), ("plan", "--no-such"), ("plan", "more"), ("help", "a", "b")])
def test_unknown_commands_options_and_arguments_are_bad_usage(run: Run, arguments: tuple[str, ...]) -> None:
    ended = run(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert "Usage: reprieve" in ended.err


def test_help_of_a_command_is_what_the_command_shows(run: Run) -> None:
    """`help COMMAND` knows every command, though a command alone is made when it is the only one that is asked for."""
    for command in COMMANDS:
        if command not in (
            "plan",
            "replay",
            "up",
            "apiserver",
            "import",
        ):  # those have a page, or commands of their own
            assert run("help", command).out == run(command, "--help").out


def test_kubectl_calls_it_by_another_name(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`kubectl reprieve COMMAND` is `reprieve COMMAND` (interfaces.md 1.8)."""
    monkeypatch.setattr("sys.argv", ["kubectl-reprieve", "plan", "--help"])
    with pytest.raises(SystemExit) as ended:
        kubectl()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("Usage: kubectl reprieve plan ")


def test_numbers_are_crunched_by_one_thread_unless_more_are_asked_for(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    run("--version")
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1"
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    run("--version")
    assert os.environ["OPENBLAS_NUM_THREADS"] == "3"


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("apiserver", "--data-dir"),
        ("apiserver", "--kubeconfig"),
        ("apiserver", "--read-only-kubeconfig"),
        ("apiserver", "-f"),
        ("up", "--data-dir"),
        ("up", "--config"),
        ("scheduler", "--records"),
        ("scheduler", "--tls-cert-file"),
        ("scheduler", "--kubeconfig"),
        ("plan", "-f"),
        ("plan", "--config"),
        ("snapshot", "-o"),
        ("explain", "--kubeconfig"),
        ("import openb", "--nodes"),
    ],
)
def test_empty_name_of_a_file_is_bad_usage(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, option: str
) -> None:
    """Not the current directory, where it would write tokens and keys."""
    monkeypatch.chdir(tmp_path)
    ended = run(*command.split(), option, "")
    assert (ended.code, ended.out) == (2, "")
    [line] = [line for line in ended.err.splitlines() if line.startswith("Error: Invalid value for ")]
    assert option in line
    assert line.endswith(": the name is empty.")
    assert not list(tmp_path.iterdir())


def test_option_that_names_no_file_may_be_empty(run: Run, tmp_path: Path) -> None:
    """`--feature-gates "$UNSET"` asks for the defaults."""
    (tmp_path / "c.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: one}\n")
    assert run("plan", "-f", tmp_path / "c.yaml", "--feature-gates", "").code == 0


def test_options_stand_in_an_order_of_their_own(run: Run) -> None:
    """What chooses the cluster comes first, then what is the command's own; changes are a group by themselves."""
    out = run("queue", "--help").out
    order = [out.index(option) for option in ("--filename", "--kubeconfig", "--context", "--output", "--cordon")]
    assert order == sorted(order)


def test_every_command_is_registered_once() -> None:
    names = [each.name for each in app.registered_commands] + [each.name for each in app.registered_groups]
    assert sorted(filter(None, names)) == sorted(COMMANDS)
