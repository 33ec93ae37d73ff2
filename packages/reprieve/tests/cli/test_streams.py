"""Standard streams that are closed, full or gone, interrupts and locales: no traceback (interfaces.md 1.14)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PLANS = Path(__file__).parent / "plans"
PLAN = ["plan", "-f", str(PLANS / "eviction.yaml")]
ANSWERS = [
    PLAN,
    [*PLAN, "-o", "json"],
    ["queue", "-f", str(PLANS / "eviction.yaml")],
    ["--help"],
    ["plan", "--help"],
    ["--version"],
    ["help"],
    ["help", "plan"],
    ["completion", "bash"],
    ["bench", "--list"],
]


def shell(redirection: str, *arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """The command with redirections of a shell."""
    line = f'exec "$@" {redirection}'
    command = ["sh", "-c", line, "sh", sys.executable, "-m", "reprieve", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, check=False, env=os.environ)


@pytest.mark.parametrize("arguments", ANSWERS, ids=" ".join)
@pytest.mark.parametrize("redirection", [">&-", ">/dev/full"])
def test_answer_that_cannot_be_written_is_one_line(arguments: list[str], redirection: str) -> None:
    ended = shell(redirection, *arguments)
    assert ended.returncode == 2
    assert ended.stderr.startswith(b"error: ")
    assert ended.stderr.count(b"\n") == 1


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_stderr_that_is_closed_loses_warnings_only(redirection: str, tmp_path: Path) -> None:
    """Above all not to stdout, where a document is."""
    manifest = tmp_path / "pod.yaml"
    manifest.write_text("{apiVersion: v1, kind: Pod, metadata: {name: p, lables: {}}, spec: {containers: [{name: c}]}}")
    warned = shell("", "queue", "-f", str(manifest), "-o", "json")
    assert b"lables" in warned.stderr
    ended = shell(redirection, "queue", "-f", str(manifest), "-o", "json")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, warned.stdout, b"")
    refused = shell(redirection, "plan", "--no-such")
    assert (refused.returncode, refused.stdout) == (2, b"")


def test_closed_stdin_is_no_empty_input() -> None:
    ended = shell("<&-", "plan", "-f", "-")
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert ended.stderr == b"error: <stdin>: Bad file descriptor\n"
    assert shell("<&-", *PLAN).returncode == 0


def test_no_file_gets_the_descriptor_of_a_closed_stream() -> None:
    """What is written to stdout or stderr would end up in it."""
    program = (
        "import os, sys\n"
        "from reprieve.cli import commands\n"
        "from reprieve.cli.main import main\n"
        "commands.call = lambda arguments, program: os._exit(os.open(os.devnull, os.O_RDONLY))\n"
        "main()\n"
    )
    ended = subprocess.run(
        ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", program], check=False, env=os.environ
    )
    assert ended.returncode == 3


@pytest.mark.parametrize(
    "module", ["typer", "reprieve.cli.commands", "reprieve.cli.outcome", "reprieve.cli.up", "numpy", "msgspec", "yaml"]
)
def test_ctrl_c_while_something_is_imported_is_no_traceback(module: str) -> None:
    """Before a command begins the process ends as one that SIGINT has ended; a command ends with 130."""
    program = (
        "import os, signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            sys.meta_path.remove(self)\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "from reprieve.cli.main import main\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "main()\n"
    )
    command = [sys.executable, "-c", program, *PLAN]
    ended = subprocess.run(command, capture_output=True, check=False)
    assert ended.returncode in (-signal.SIGINT, 130)
    assert (ended.stdout, ended.stderr) == (b"", b"")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-16"])
def test_output_is_utf_8_in_every_locale(encoding: str, tmp_path: Path) -> None:
    manifest = tmp_path / "pod.yaml"
    name = "größe-日本"
    manifest.write_text(f"{{apiVersion: v1, kind: Node, metadata: {{name: '{name}'}}}}", encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "LC_ALL": "C", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "reprieve", "plan", "-f", str(manifest)]
    ended = subprocess.run(command, capture_output=True, check=False, env=environment)
    assert ended.returncode == 2
    assert name in ended.stderr.decode("utf-8")


def test_names_of_files_that_are_not_utf_8(tmp_path: Path) -> None:
    """In errors, and in documents that name them."""
    odd = os.fsencode(tmp_path) + b"/cl\xff\xfeuster.yaml"
    command: list[str | bytes] = [sys.executable, "-m", "reprieve", "plan", "-f"]
    missing = subprocess.run([*command, odd], capture_output=True, check=False)
    assert (missing.returncode, missing.stdout) == (2, b"")
    assert b"cl\\udcff\\udcfeuster.yaml: No such file" in missing.stderr
    with open(odd, "wb") as file:
        file.write((PLANS / "eviction.yaml").read_bytes())
    found = subprocess.run([*command, odd, "-o", "json"], capture_output=True, check=False)
    assert (found.returncode, found.stderr) == (0, b"")
    assert json.loads(found.stdout)["kind"] == "Plan"
    with open(odd, "w") as file:
        file.write("{apiVersion: v1, kind: Node, metadata: {name: another}}")
    other: list[str | bytes] = [
        sys.executable,
        "-m",
        "reprieve",
        "plan",
        "-f",
        str(PLANS / "eviction.yaml"),
        "--compare-to",
    ]
    for form in ("text", "json", "yaml"):
        compared = subprocess.run([*other, odd, "-o", form], capture_output=True, check=False)
        assert (compared.returncode, compared.stderr) == (0, b"")
        assert b"cl\\" in compared.stdout
