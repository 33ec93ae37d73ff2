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


@pytest.mark.parametrize(
    "arguments",
    [
        ("--feature-gates", ""),
        ("--strict", "--strict"),
        ("-f", "d.yaml"),
        ("--cordon", "node-1", "--cordon", "node-1"),
    ],
)
def test_options_that_may_be_empty_or_repeated(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    """`--feature-gates "$UNSET"` asks for the defaults."""
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: one}\n")
    Path("d.yaml").write_text("apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\n")
    assert run("plan", "-f", "c.yaml", *(() if "d.yaml" in arguments else ("-f", "d.yaml")), *arguments).code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("capacity", "--topology", ""), "--topology: the value is empty."),
        (("capacity", "--pool", ""), "--pool: the value is empty."),
        (("queue", "-n", ""), "-n / --namespace: the value is empty."),
        (("plan", "--cordon", ""), "--cordon: the value is empty."),
        (("replay", "jobs.csv", "--checkpoint", ""), "--checkpoint: the value is empty."),
        (("tune", "--objective", "wait", "--objective", "evictions"), "--objective: it is given more than once."),
        (("capacity", "--topology", "a", "--topology", "b"), "--topology: it is given more than once."),
        (
            ("plan", "--feature-gates", "AllBeta=true", "--feature-gates", "AllAlpha=true"),
            "--feature-gates: it is given",
        ),
        (("plan", "--config", "a.yaml", "--config", "b.yaml"), "--config: it is given more than once."),
        (("plan", "--suggest", "--no-suggest"), "--suggest: it is given more than once."),
        (("explain", "pod/a", "-n", "a", "--namespace", "b"), "-n / --namespace: it is given more than once."),
    ],
)
def test_options_that_would_be_ignored_are_bad_usage(run: Run, arguments: tuple[str, ...], message: str) -> None:
    """interfaces.md 1.9: an empty value, and all but the last value of an option that is not repeatable."""
    ended = run(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert f"Error: Invalid value for {message}" in ended.err


def test_last_value_counts_in_a_command_line_of_kube_scheduler(run: Run) -> None:
    ended = run("scheduler", "--kubeconfig", "gone", "--v", "2", "--v", "3", "--records-cluster", "")
    assert "more than once" not in ended.err
    assert "is empty" not in ended.err


def test_options_stand_in_an_order_of_their_own(run: Run) -> None:
    """What chooses the cluster comes first, then what is the command's own; changes are a group by themselves."""
    out = run("queue", "--help").out
    order = [out.index(option) for option in ("--filename", "--kubeconfig", "--context", "--output", "--cordon")]
    assert order == sorted(order)


def test_every_command_is_registered_once() -> None:
    names = [each.name for each in app.registered_commands] + [each.name for each in app.registered_groups]
    assert sorted(filter(None, names)) == sorted(COMMANDS)
