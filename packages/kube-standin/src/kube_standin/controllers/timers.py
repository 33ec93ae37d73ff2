"""Timers: one heap of times and calls, for all controllers and kubelets of a server.

Times are those of the server's clock, so a test that advances its clock and calls :meth:`ControllerTimers.fire` skips
hours at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from kube_standin.clock import ServerClock, later

log = logging.getLogger("reprieve.controllers")

_LONGEST_SLEEP = 3600.0
_TURN_SECONDS = 0.005
"""How long calls run before the event loop gets a turn."""


class ControllerTimers:
    """A heap of (moment, call). Calls are synchronous and short; exceptions are logged."""

    def __init__(self, clock: ServerClock) -> None:
        self.clock = clock
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._wakeup: asyncio.Event | None = None

    def __len__(self) -> int:
        return len(self._heap)

    def at(self, moment: datetime, call: Callable[[], None]) -> None:
        """Schedule a call at ``moment`` (at once if it has passed)."""
        when = moment.timestamp()
        self._count += 1
        heapq.heappush(self._heap, (when, self._count, call))
        if self._heap[0][1] == self._count and self._wakeup is not None:
            self._wakeup.set()

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Schedule a call in ``seconds``."""
        self.at(later(self.clock.now(), seconds), call)

    def next_moment(self) -> datetime | None:
        """Return when the next call is due, None without calls."""
        return datetime.fromtimestamp(self._heap[0][0], UTC) if self._heap else None

    def fire(self, turn: float | None = None) -> int:
        """Make the calls that are due, for ``turn`` seconds at most (None: all), and return their number."""
        count = 0
        now = self.clock.now().timestamp()
        ends = None if turn is None else time.monotonic() + turn
        while self._heap and self._heap[0][0] <= now:
            if ends is not None and count % 16 == 15 and time.monotonic() > ends:
                break
            call = heapq.heappop(self._heap)[2]
            count += 1
            try:
                call()
            except Exception:
                log.exception("a timed call failed")
        return count

    async def run(self) -> None:
        """Fire calls as they become due, until cancelled."""
        self._wakeup = asyncio.Event()
        while True:
            self._wakeup.clear()
            self.fire(_TURN_SECONDS)
            wait = _LONGEST_SLEEP
            if (due := self.next_moment()) is not None:
                wait = min(wait, self.clock.real_seconds_until(due))
                if wait == 0.0:
                    await asyncio.sleep(0)
                    continue
            # Not `wait_for`: in Python 3.11 it loses a cancellation if the awaited result has just arrived.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wakeup.wait()
