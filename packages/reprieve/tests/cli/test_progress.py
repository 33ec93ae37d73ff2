"""A line about work that takes long: on a terminal's stderr only, and gone when the work ends."""

import io
import re
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path

import pytest

from reprieve.cli import apiserver, bench, history, outcome, progress, trace_import, up
from reprieve.cli.progress import working
from reprieve.observability.database.location import RecordsDatabase
from reprieve.observability.database.store import DatabaseStore
from tests.cli.conftest import Run
from tests.waiting import DEADLINE

CLEAR = "\r\x1b[K"


class Terminal(io.StringIO):
    """Says when something was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        found = super().write(text)
        self.written.set()
        return found


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Terminal]:
    """Makes stderr a terminal; in the test itself, as pytest sets it again when a test begins."""

    def made() -> Terminal:
        stderr = Terminal()
        monkeypatch.setattr(sys, "stderr", stderr)
        monkeypatch.setenv("TERM", "xterm")
        return stderr

    return made


def test_long_work_is_named_on_a_line_that_is_taken_away(at: Callable[[], Terminal]) -> None:
    terminal = at()
    with working("planning", after=0.0):
        assert terminal.written.wait(DEADLINE)
    shown = re.match(rf"{re.escape(CLEAR)}planning \.\.\. (\d+) s", terminal.getvalue())
    assert shown is not None
    assert int(shown[1]) <= DEADLINE, "since it began"
    assert (progress.AFTER, progress.PAUSE) == (1.0, 1.0)
    assert terminal.getvalue().endswith(CLEAR)


def test_short_work_writes_nothing(at: Callable[[], Terminal]) -> None:
    terminal = at()
    with working("planning", after=DEADLINE):
        pass
    assert terminal.getvalue() == ""


def test_warning_stands_on_a_line_of_its_own(at: Callable[[], Terminal]) -> None:
    terminal = at()
    with working("reading", after=0.0):
        assert terminal.written.wait(DEADLINE)
        outcome.note("warning: odd")
    assert f"s\r{CLEAR}warning: odd\n" in terminal.getvalue()


def test_line_that_is_gone_is_not_taken_away_again(at: Callable[[], Terminal], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PAUSE", DEADLINE)
    terminal = at()
    with working("reading", after=0.0):
        assert terminal.written.wait(DEADLINE)
        outcome.note("one")
        outcome.note("two")
    assert terminal.getvalue().endswith(f"s\r{CLEAR}one\ntwo\n")


@pytest.mark.parametrize("error", [BrokenPipeError(), ValueError("I/O operation on closed file")])
def test_nothing_more_is_written_to_a_terminal_that_is_gone(
    at: Callable[[], Terminal], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    terminal = at()
    wrote: list[str] = []

    def write(text: str) -> int:
        wrote.append(text)
        raise error

    monkeypatch.setattr(terminal, "write", write)
    before = set(threading.enumerate())
    with working("reading", after=0.0):
        for line in set(threading.enumerate()) - before:
            line.join(DEADLINE)
            assert not line.is_alive()
    assert sum("reading" in text for text in wrote) == 1


def test_work_within_work_is_that_of_the_outer_one(at: Callable[[], Terminal]) -> None:
    terminal = at()
    with working("outer", after=DEADLINE), working("inner", after=0.0):
        pass
    assert terminal.getvalue() == ""
    assert outcome.apart is nullcontext


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_pipes_and_dumb_terminals_get_no_progress(monkeypatch: pytest.MonkeyPatch, term: str) -> None:
    stderr = io.StringIO() if term == "xterm" else Terminal()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setenv("TERM", term)
    threads = set(threading.enumerate())
    with working("planning", after=0.0):
        assert set(threading.enumerate()) <= threads  # of those of other tests some may end just now
    assert stderr.getvalue() == ""


def test_line_goes_when_the_work_fails(at: Callable[[], Terminal]) -> None:
    terminal = at()

    def fail() -> None:
        with working("planning", after=0.0):
            assert terminal.written.wait(DEADLINE)
            outcome.refuse("no")

    with pytest.raises(outcome.CommandError):
        fail()
    assert terminal.getvalue().endswith(CLEAR)
    assert outcome.apart is nullcontext


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is being worked at and, once it has ended, `-` and its name."""
    found: list[str] = []

    @contextmanager
    def recorded(what: str) -> Iterator[None]:
        found.append(what)
        yield
        found.append(f"-{what}")

    for module in (apiserver, bench, history, trace_import, up):
        monkeypatch.setattr(module, "working", recorded)
    return found


@pytest.mark.parametrize(
    ("command", "started_by"),
    [("up", "reprieve.live.local.local_cluster"), ("apiserver", "kube_standin.server.control_plane.serving")],
)
def test_reading_manifests_and_setting_up_show_progress(
    run: Run, reported: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, started_by: str
) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n")

    @asynccontextmanager
    async def starting(options: object) -> AsyncIterator[None]:
        assert reported[-1] == "setting up"
        raise ValueError("it does not start")
        yield

    monkeypatch.setattr(started_by, starting)
    ended = run(command, "--data-dir", ":memory:", "-f", file)
    assert (ended.code, ended.err) == (2, "error: it does not start\n")
    assert reported == ["reading the manifests", "-reading the manifests", "setting up"]


def test_reading_a_trace_and_writing_its_jobs_show_progress(run: Run, reported: list[str], tmp_path: Path) -> None:
    trace = tmp_path / "gavel.trace"
    trace.write_text("\t".join(["ResNet-18 (batch size 32)", "x", "y", "z", "1", "100", "1", "0.0", "1", "60"]) + "\n")
    ended = run("import", trace, "--format", "gavel", "-o", tmp_path / "jobs.csv")
    assert ended.code == 0, ended.err
    assert reported == ["reading the trace", "-reading the trace", "writing the job list", "-writing the job list"]


@pytest.mark.parametrize("flag", [(), ("--growth",)])
def test_each_scenario_shows_that_it_is_being_measured(
    run: Run, reported: list[str], monkeypatch: pytest.MonkeyPatch, flag: tuple[str, ...]
) -> None:
    for name in ("measure", "growth"):
        monkeypatch.setattr(f"reprieve.simulation.bench.series.{name}", lambda chosen, **_: [])
    names = ("gang", "basic") if flag else ("gang-1000", "basic-500")
    assert run("bench", *names, *flag).code == 0
    assert reported == [text for name in names for text in (f"measuring {name}", f"-measuring {name}")]


def test_reading_records_shows_progress(run: Run, reported: list[str], tmp_path: Path) -> None:
    DatabaseStore(RecordsDatabase(tmp_path / "decisions.db")).close()
    assert run("history", "--records", tmp_path / "decisions.db").code == 0
    assert reported == ["reading the records", "-reading the records"]
