"""A progress line or bar on a terminal's stderr for work that takes longer than a second.

Invariants: stdout is never written to; nothing is written if stderr is no terminal; the line is removed when the work
ends or something else is written. The cursor stays in its first column, so that output of another process begins a line
too.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Final

from reprieve.cli import outcome

Advance = Callable[[int], None]
"""Shows how many are done."""

AFTER: Final = 1.0
"""Seconds of work before the line is shown."""
PAUSE: Final = 1.0
"""Seconds between two updates."""
_CLEAR: Final = "\r\x1b[K"


@contextmanager
def working(label: str, *, after: float = AFTER) -> Iterator[None]:
    """Show `label` and the elapsed time while the block runs; within another such block, do nothing."""
    if not _is_terminal() or outcome.apart is not nullcontext:
        yield
        return
    line = _Line(label, after)
    outcome.apart = line.apart
    line.start()
    try:
        yield
    finally:
        outcome.apart = nullcontext
        line.end()


@contextmanager
def bar(total: int, label: str) -> Iterator[Advance]:
    """Show how many of `total` runs are done while the block runs; write nothing if stderr is no terminal."""
    if not _is_terminal():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as progress:
        task = progress.add_task(label, total=total)
        yield lambda done: progress.update(task, completed=done)


class _Line(threading.Thread):
    """Writes the line from a thread of its own."""

    def __init__(self, label: str, after: float) -> None:
        super().__init__(daemon=True)
        self._label = label
        self._after = after
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._shown = False

    def run(self) -> None:
        began = time.monotonic()
        pause = self._after
        while not self._done.wait(pause):
            with self._lock:
                self._write(f"{_CLEAR}{self._label} ... {time.monotonic() - began:.0f} s\r")
                self._shown = True
            pause = PAUSE

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Remove the line; it is not written again before the block has ended."""
        with self._lock:
            if self._shown:
                self._write(_CLEAR)
                self._shown = False
            yield

    def end(self) -> None:
        """Stop the updates."""
        self._done.set()
        self.join()
        with self.apart():
            pass

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):  # the terminal is closed
            self._done.set()


def _is_terminal() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
