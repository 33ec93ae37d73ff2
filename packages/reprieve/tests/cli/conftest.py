"""Running the command in this process: exit code, stdout and stderr."""

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from reprieve.cli.main import main


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


Run = Callable[..., Ended]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("plan", "-f", file, stdin="...")` -> how it ended."""

    def run(*args: object, stdin: str = "") -> Ended:
        monkeypatch.setattr(sys, "argv", ["reprieve", *map(str, args)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Ended(int(ended.value.code or 0), captured.out, captured.err)

    return run
