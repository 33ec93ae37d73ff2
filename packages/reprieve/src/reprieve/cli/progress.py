"""A line on a terminal's stderr that shows what is being done, once that takes longer than a second; or a bar.

Invariants: stdout is never written to; where stderr is no terminal nothing is written at all; when the work ends, or
something else is written, the line is gone. The cursor waits in its first column, so that what another process
writes there begins a line too.
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
"""Shows that so many are done."""

AFTER: Final = 1.0
"""Seconds of work without a word."""
PAUSE: Final = 1.0
"""Seconds between two updates."""
_CLEAR: Final = "\r\x1b[K"


@contextmanager
def working(what: str, *, after: float = AFTER) -> Iterator[None]:
    """Show `what`, and for how long, while the block runs; work within work is that of the outer one."""
    if not _is_terminal() or outcome.apart is not nullcontext:
        yield
        return
    line = _Line(what, after)
    outcome.apart = line.apart
    line.start()
    try:
        yield
    finally:
        outcome.apart = nullcontext
        line.end()


@contextmanager
def bar(total: int, what: str) -> Iterator[Advance]:
    """Show how many of `total` runs are done while the block runs; where stderr is no terminal nothing is written."""
    if not _is_terminal():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


class _Line(threading.Thread):
    """Writes the line from beside the work, which knows nothing of it."""

    def __init__(self, what: str, after: float) -> None:
        super().__init__(daemon=True)
        self._what = what
        self._after = after
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._shown = False

    def run(self) -> None:
        began = time.monotonic()
        pause = self._after
        while not self._done.wait(pause):
            with self._lock:
                self._write(f"{_CLEAR}{self._what} ... {time.monotonic() - began:.0f} s\r")
                self._shown = True
            pause = PAUSE

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Take the line away; it is not written again before the block has ended."""
        with self._lock:
            if self._shown:
                self._write(_CLEAR)
                self._shown = False
            yield

    def end(self) -> None:
        """No more updates."""
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
