"""A child process that is kept running, and that does not outlive its parent.

A *tied* child reads its standard input, a pipe of which only the parent has the other end: when the parent has ended,
however it died, the pipe ends and so does the child (`tie`). The child has a process group of its own, so that Ctrl-C
reaches the parent alone, which stops things in order.

Invariants: there is at most one child at a time. A child that dies is started again, with a delay that grows while it
keeps dying, unless it reports bad input before it has run well. When `run` has ended, so has the child.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

STOP_SECONDS: Final = 8.0
"""How long a process that was asked to stop may take before it is killed."""


def tie(descriptor: int = 0, *, grace: float = STOP_SECONDS) -> None:
    """End this process when `descriptor` ends: by SIGTERM first, for good `grace` seconds later."""

    def watch() -> None:
        with contextlib.suppress(OSError):
            while os.read(descriptor, 4096):
                pass
        late = threading.Timer(grace, os._exit, (1,))
        late.daemon = True
        late.start()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="tie", daemon=True).start()


@dataclass(frozen=True, slots=True)
class Restarts:
    """When to start again, in seconds: `first`, doubled up to `longest`, from the start after `steady` seconds up."""

    first: float = 0.2
    longest: float = 10.0
    steady: float = 30.0

    def after(self, previous: float | None, uptime: float) -> float:
        """Return how long to wait; `previous` is how long it was last time, None for the first."""
        if previous is None or uptime >= self.steady:
            return self.first
        return min(previous * 2, self.longest)


class ChildRefusedError(Exception):
    """The child ended with a code that says that starting it again would change nothing. It has printed why."""

    def __init__(self, code: int) -> None:
        super().__init__(f"ended with exit code {code}")
        self.code = code


class Supervisor:
    """Keeps one tied child running while `run` runs.

    `final` are exit codes after which it is not started again, until it is known to have run well (`proven`): its input
    was good then, and what is wrong now may pass, such as a port that another process took meanwhile. `report` is
    called with a short text whenever the child died. What the child writes goes to the descriptor `output`, by default
    our stderr.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        final: Collection[int] = (),
        report: Callable[[str], None] = lambda text: None,
        restarts: Restarts = Restarts(),
        output: int | None = None,
    ) -> None:
        self._output = output
        self._command = tuple(command)
        self._final = frozenset(final)
        self._report = report
        self._restarts = restarts
        self._process: asyncio.subprocess.Process | None = None
        self.starts = 0
        self.proven = False
        """Whether it has run well; the code that observes the child sets it."""

    @property
    def pid(self) -> int | None:
        """Return the process id of the child, while it runs."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def run(self) -> None:
        """Keep it running until cancelled; then stop it. Raises ChildRefusedError, and OSError if it cannot start."""
        clock = asyncio.get_running_loop().time
        pause: float | None = None
        try:
            while True:
                began = clock()
                code = await self._once()
                if code in self._final and not self.proven:
                    raise ChildRefusedError(code)
                pause = self._restarts.after(pause, clock() - began)
                self._report(f"{_ended(code)}, starting it again in {pause:g} s")
                await asyncio.sleep(pause)
        finally:
            await self._stop()

    async def _once(self) -> int:
        # A pipe for stdin is the tie; our stdout is ours alone, a child has no business there.
        output = self._output if self._output is not None else sys.stderr.fileno()
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        self._process = process
        self.starts += 1
        return await process.wait()

    async def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
