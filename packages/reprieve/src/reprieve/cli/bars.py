"""A bar on a terminal's stderr: how many of some runs are done."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]
"""Shows that so many are done."""


@contextmanager
def bar(total: int, what: str) -> Iterator[Advance]:
    """Show a bar while the block runs; where stderr is no terminal nothing is written."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)
