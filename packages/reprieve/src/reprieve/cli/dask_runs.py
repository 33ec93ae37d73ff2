"""Runs on the workers of a Dask scheduler (`--dask`), a few at a time for each worker (replay.md 9).

Invariants: no more runs are submitted than the workers need, and the Dask scheduler keeps nothing of a run that has
ended; an unreachable scheduler ends the command; when the block ends, running runs are cancelled. Only this module
imports `distributed`, and only with `--dask`.
"""

import logging
import os
import queue
import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from reprieve.cli.interrupts import Interrupt, uninterrupted
from reprieve.cli.outcome import CommandError, Exit, note, refuse

if TYPE_CHECKING:
    from distributed import Client, Future

Answer = TypeVar("Answer")
CONNECT_SECONDS: Final = 10
"""Seconds for which a scheduler may not answer, at the beginning and later."""
_LOCAL: Final = re.compile(r"local:(\d{1,4})", re.ASCII)
_REMOTE: Final = re.compile(r"(tcp|tls)://[^/\s]+:\d{1,5}/?")
_FOR_EACH_WORKER: Final = 2
"""Runs submitted per worker at a time: one runs, the next is queued."""
_TURN: Final = 0.2
"""Seconds between two checks for an interruption."""
_WORKERS_HOLD: Final = 2.0
"""Seconds for which the number of workers is cached."""
_COMES_BACK: Final = "1 hour"
_LOST_WORKERS: Final = 3
"""A run during which so many workers ended is not tried again."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run has no result."""

    reason: str


class DaskRuns:
    """The workers of a scheduler."""

    def __init__(self, client: "Client", place: str) -> None:
        self._client = client
        self._place = place
        self._done: queue.SimpleQueue[tuple[int, Future]] = queue.SimpleQueue()
        self._out: dict[int, Future] = {}
        self._ask_again = 0.0
        self._known_workers = 0
        self._absence_noted = False

    def results(
        self, submit: "Sequence[Callable[[Client], Future]]", interrupt: Interrupt
    ) -> Iterator[tuple[int, Any]]:
        """Yield the index and the result of each run, or its Failure, as they end, until an interruption.

        Raises CommandError if the scheduler cannot be reached.
        """
        waiting = iter(enumerate(submit))
        left = len(submit)
        while left and not interrupt.wanted:
            most = _FOR_EACH_WORKER * max(1, self._answer(self._workers))
            while len(self._out) < most:
                number, begin = next(waiting, (-1, None))
                if begin is None:
                    break
                self._out[number] = future = self._answer(partial(begin, self._client))
                future.add_done_callback(partial(self._note_end, number))
            try:
                number, future = self._done.get(timeout=_TURN)
            except queue.Empty:
                continue
            del self._out[number]
            left -= 1
            yield number, self._answer(partial(self._result, future))

    def _note_end(self, number: int, future: "Future") -> None:
        """Receive a status of the connection; called in a thread of Dask."""
        self._done.put((number, future))

    def _workers(self) -> int:
        """Return the number of workers, which is cached for some seconds."""
        if time.monotonic() >= self._ask_again:
            self._ask_again = time.monotonic() + _WORKERS_HOLD
            self._known_workers = len(self._client.ncores())
            if not self._known_workers and not self._absence_noted:
                self._absence_noted = True
                note(f"{self._place} has no workers yet: waiting for them")
        return self._known_workers

    def _answer(self, ask: "Callable[[], Answer]") -> "Answer":
        """Return the result of a call to the scheduler. Raises CommandError if it does not answer."""
        try:
            return ask()
        except (OSError, TimeoutError, CancelledError) as error:
            raise self._away() from error

    def _away(self) -> CommandError:
        return CommandError(f"--dask {self._place}: the scheduler no longer answers", Exit.UNREACHABLE)

    def _result(self, future: "Future") -> Any:
        from distributed import KilledWorker

        if future.status == "finished":
            result = future.result(timeout=CONNECT_SECONDS)
            future.release()
            return result
        if future.status != "error":  # the connection is lost, and with it every run
            raise self._away()
        error = future.exception(timeout=CONNECT_SECONDS)
        future.release()
        if isinstance(error, KilledWorker):
            return Failure(f"{_LOST_WORKERS + 1} workers ended during the run")
        if isinstance(error, ModuleNotFoundError):
            return Failure(f"a worker lacks a package: {error}")
        return Failure(str(error) or type(error).__name__)

    def cancel(self) -> None:
        """Cancel runs that have not ended."""
        if self._out and self._client.status == "running":
            with suppress(OSError, TimeoutError, CancelledError):
                self._client.cancel(list(self._out.values()), force=True)
        self._out.clear()


@contextmanager
def dask_runs(place: str) -> Iterator[DaskRuns]:
    """Connect to a scheduler, or start one of this machine (`local:N`).

    Raises CommandError if it does not answer or Dask is not installed.
    """
    local = _LOCAL.fullmatch(place)
    if local is None and not _REMOTE.fullmatch(place):
        refuse(f"--dask {place!r}: expected tcp://HOST:PORT, tls://HOST:PORT or local:N")
    if local is not None and int(local[1]) < 1:
        refuse("--dask: expected local:N with at least one worker")
    from multiprocessing import resource_tracker

    try:
        import dask
        import distributed
    except ImportError:
        refuse("--dask needs the extra `dask`: pip install 'reprieve[dask]'")
    # Of a cluster of this machine; without profiles of all that ran, which grow for an hour.
    dask.config.set({"distributed.scheduler.allowed-failures": _LOST_WORKERS})
    dask.config.set({"distributed.worker.profile.enabled": False})
    # A worker of this machine that ended comes back, however busy the machine is: by itself it is given up after 15 s.
    dask.config.set({"distributed.deploy.lost-worker-timeout": _COMES_BACK})
    _hush()
    cluster = None
    try:
        if local is not None:
            resource_tracker.ensure_running()  # otherwise the first worker starts it, and lets Ctrl-C in
            with uninterrupted():  # Ctrl-C is for this process, which then ends the others
                cluster = distributed.LocalCluster(
                    n_workers=int(local[1]),
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address="127.0.0.1:0",
                    security=True,
                )
        client = distributed.Client(cluster or place, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError, RuntimeError) as error:
        _close(cluster)
        raise CommandError(f"--dask {place}: {error or 'no answer'}", Exit.UNREACHABLE) from None
    runs = DaskRuns(client, place)
    try:
        yield runs
    finally:
        runs.cancel()
        client.close(timeout=CONNECT_SECONDS)
        _close(cluster)


def _hush() -> None:
    """Silence Dask's logs about lost workers and connections; the command reports one error or nothing."""
    for name in logging.root.manager.loggerDict:
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", module=r"distributed\.")
    os.environ["DASK_LOGGING__DISTRIBUTED"] = "critical"  # read by processes of workers when they start


def _close(cluster: Any) -> None:
    if cluster is not None:
        cluster.close(timeout=CONNECT_SECONDS)
