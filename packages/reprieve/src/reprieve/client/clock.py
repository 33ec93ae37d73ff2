"""The clock of the client, which tests can replace."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """The time source of the client."""

    def monotonic(self) -> float:
        """Return seconds that only increase; for durations."""

    def now(self) -> datetime:
        """Return the current time in UTC; for expiry dates and leases."""

    async def sleep(self, seconds: float) -> None:
        """Wait for some seconds."""


class RealClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        """Return the seconds since some time in the past."""
        return time.monotonic()

    def now(self) -> datetime:
        """Return the current time in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


REAL_CLOCK = RealClock()
