"""The time of the machine, which tests replace everywhere else."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

import pytest

from reprieve.client.clock import REAL_CLOCK


def test_real_clock_is_that_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Durations by what only grows, dates in UTC; a sleeping task lets others run."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    asyncio.run(REAL_CLOCK.sleep(3.5))
    assert slept == [3.5]
    assert time.monotonic() <= REAL_CLOCK.monotonic() <= time.monotonic()
    now = REAL_CLOCK.now()
    assert now.tzinfo is UTC
    assert abs((datetime.now(UTC) - now).total_seconds()) < 3600
