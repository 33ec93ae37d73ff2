"""What a server under attack has worked: the stopwatch counts that, and not what else the machine did meanwhile."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.attacked import Worked
from tests.waiting import DEADLINE


@contextmanager
def started(program: str) -> Iterator[int]:
    """The process id of a program that has come to its last line."""
    command = [sys.executable, "-c", f"print(flush=True)\n{program}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


def test_busy_process_is_charged_and_an_idle_one_is_not() -> None:
    with started("while True: pass") as busy, started("import signal; signal.pause()") as idle:
        working, waiting = Worked(busy), Worked(idle)
        ends = time.monotonic() + DEADLINE
        while working.seconds < 1.0:
            assert time.monotonic() < ends, "it works all the while"
        assert waiting.seconds < 0.5


def test_charge_never_exceeds_the_elapsed_time() -> None:
    """Several threads have more of the CPU than there is time."""
    with started("while True: pass") as busy:
        began = time.monotonic()
        worked = Worked(busy)
        for _ in range(20):
            found = worked.seconds
            assert 0 <= found <= time.monotonic() - began
