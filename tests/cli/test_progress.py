"""A line about work that takes long: on a terminal's stderr only, and gone when the work ends."""

import io
import re
import sys
import threading
from collections.abc import Callable

import pytest

from reprieve.cli import outcome
from reprieve.cli.progress import working
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
    """Makes stderr a terminal; in the test itself, as pytest sets it anew when a test begins."""

    def made() -> Terminal:
        stderr = Terminal()
        monkeypatch.setattr(sys, "stderr", stderr)
        monkeypatch.setenv("TERM", "xterm")
        return stderr

    return made


def test_long_work_says_what_it_is_and_leaves_nothing(at: Callable[[], Terminal]) -> None:
    terminal = at()
    with working("planning", after=0.0):
        assert terminal.written.wait(DEADLINE)
    assert re.match(rf"{re.escape(CLEAR)}planning \.\.\. \d+ s", terminal.getvalue())
    assert terminal.getvalue().endswith(CLEAR)


def test_short_work_says_nothing(at: Callable[[], Terminal]) -> None:
    terminal = at()
    with working("planning", after=DEADLINE):
        pass
    assert terminal.getvalue() == ""


def test_a_warning_stands_on_a_line_of_its_own(at: Callable[[], Terminal]) -> None:
    terminal = at()
    with working("reading", after=0.0):
        assert terminal.written.wait(DEADLINE)
        outcome.note("warning: odd")
    assert f"s{CLEAR}warning: odd\n" in terminal.getvalue()


def test_work_within_work_is_that_of_the_outer_one(at: Callable[[], Terminal]) -> None:
    terminal = at()
    with working("outer", after=DEADLINE), working("inner", after=0.0):
        pass
    assert terminal.getvalue() == ""
    assert outcome.before_note is None


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_nothing_is_said_to_pipes_and_dumb_terminals(monkeypatch: pytest.MonkeyPatch, term: str) -> None:
    stderr = io.StringIO() if term == "xterm" else Terminal()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setenv("TERM", term)
    threads = threading.active_count()
    with working("planning", after=0.0):
        assert threading.active_count() == threads
    assert stderr.getvalue() == ""


def test_the_line_goes_when_the_work_fails(at: Callable[[], Terminal]) -> None:
    terminal = at()

    def fail() -> None:
        with working("planning", after=0.0):
            assert terminal.written.wait(DEADLINE)
            outcome.refuse("no")

    with pytest.raises(outcome.CommandError):
        fail()
    assert terminal.getvalue().endswith(CLEAR)
    assert outcome.before_note is None
