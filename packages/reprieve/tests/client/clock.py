"""A clock that tests set, and waiting for conditions."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from tests.waiting import DEADLINE

START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClock:
    """Time stands still until `advance`; sleeps of at most `instant` seconds are over at once and move the time."""

    def __init__(self, instant: float = 0.0) -> None:
        self.time = 1000.0
        self.instant = instant
        self.slept: list[float] = []
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._turn = 0

    def monotonic(self) -> float:
        return self.time

    def now(self) -> datetime:
        return START + timedelta(seconds=self.time)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if seconds <= self.instant:
            self.time += max(seconds, 0.0)
            await asyncio.sleep(0)
            return
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turn += 1
        heapq.heappush(self._sleepers, (self.time + seconds, self._turn, over))
        await over

    def advance(self, seconds: float) -> None:
        self.time += seconds
        while self._sleepers and self._sleepers[0][0] <= self.time:
            over = heapq.heappop(self._sleepers)[2]
            if not over.done():
                over.set_result(None)

    @property
    def sleeping(self) -> int:
        return sum(1 for _, _, over in self._sleepers if not over.done())


async def until(condition: Callable[[], object], seconds: float = DEADLINE) -> None:
    """Return when the condition holds; fail when it does not come true in time."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + seconds
    while not condition():
        assert loop.time() < ends, "the condition did not come true in time"
        await asyncio.sleep(0.001)
