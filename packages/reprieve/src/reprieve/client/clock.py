"""The clock of the client, which tests can replace."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where the client's time comes from."""

    def monotonic(self) -> float:
        """Return seconds that only grow; for durations."""

    def now(self) -> datetime:
        """Return the present moment in UTC; for expiry dates and leases."""

    async def sleep(self, seconds: float) -> None:
        """Return when so many seconds have passed."""


class RealClock:
    """The time of the machine."""

    def monotonic(self) -> float:
        """Return seconds since some point in the past."""
        return time.monotonic()

    def now(self) -> datetime:
        """Return the present moment in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


REAL_CLOCK = RealClock()
