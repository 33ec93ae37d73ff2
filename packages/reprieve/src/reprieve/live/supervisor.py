"""A child process that is kept running, and that does not outlive its parent.

A *tied* child reads its standard input, a pipe with only the parent at the other end. When the parent ends, however it
died, the pipe ends and so does the child (`tie`). The child has its own process group, so that Ctrl-C reaches only the
parent, which stops everything in order.

Invariants: there is at most one child at a time. A child that dies is restarted, with a growing delay while it keeps
dying, unless it reports bad input before it has run well. When `run` has ended, so has the child.
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
"""How long a process may take to stop before it is killed, in seconds."""


def tie(descriptor: int = 0, *, grace: float = STOP_SECONDS) -> None:
    """End this process when `descriptor` ends: with SIGTERM, and forcibly after `grace` seconds."""

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
    """Delays of restarts in seconds: `first`, doubled up to `longest`, and reset after `steady` seconds of uptime."""

    first: float = 0.2
    longest: float = 10.0
    steady: float = 30.0

    def after(self, previous: float | None, uptime: float) -> float:
        """Return the next delay; `previous` is the last one, None for the first."""
        if previous is None or uptime >= self.steady:
            return self.first
        return min(previous * 2, self.longest)


class ChildRefusedError(Exception):
    """Raised for an exit code after which a restart would not help. The child has printed the reason."""

    def __init__(self, code: int) -> None:
        super().__init__(f"ended with exit code {code}")
        self.code = code


class Supervisor:
    """Keeps one tied child running during `run`.

    `final` are exit codes after which it is not restarted, unless it is known to have run well (`proven`): its input
    was valid then, and the current problem may be temporary, such as a port that another process took meanwhile.
    `report` is called with a short text whenever the child dies. The child's output goes to the descriptor `output`, by
    default stderr.
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
        """Whether the child has run well; the code that observes it sets this."""

    @property
    def pid(self) -> int | None:
        """Return the process id of the running child, else None."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def run(self) -> None:
        """Keep the child running until cancelled, then stop it. Raises ChildRefusedError, OSError."""
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
        # The pipe of stdin is the tie; the child must not write to this process's stdout.
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
