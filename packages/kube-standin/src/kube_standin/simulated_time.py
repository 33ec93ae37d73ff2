"""Advance simulated time for controllers and kubelets: each timer fires in order, at its own time.

After each step the controllers run until they have no more work, so that the result does not depend on the speed of the
machine. Work is split into turns of a few milliseconds, so that requests are answered in between.
"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

from kube_standin.clock import SimulatedClock
from kube_standin.controllers import ControllerSet

LONGEST_ADVANCE = timedelta(days=366)
_TURN_SECONDS = 0.01
_MOST_ROUNDS = 100_000


class _Turns:
    """Yields the event loop to other tasks every few milliseconds."""

    def __init__(self) -> None:
        self._ends = time.monotonic() + _TURN_SECONDS

    async def over(self) -> None:
        if time.monotonic() > self._ends:
            await asyncio.sleep(0)
            self._ends = time.monotonic() + _TURN_SECONDS


async def settle(controllers: ControllerSet) -> None:
    """Wait until controllers and kubelets have no more work at the current time.

    Raises RuntimeError if they do not settle within 100,000 rounds.
    """
    await _settle(controllers, _Turns())


async def _settle(controllers: ControllerSet, turns: _Turns) -> None:
    for _ in range(_MOST_ROUNDS):
        if not controllers.step():
            return
        await turns.over()
    raise RuntimeError("the controllers do not settle")


async def advance(controllers: ControllerSet, clock: SimulatedClock, by: timedelta) -> None:
    """Set the clock forward, and return when all work due until then is done.

    Raises ValueError for a negative time and for more than 366 days, RuntimeError like `settle`.
    """
    if not timedelta(0) <= by <= LONGEST_ADVANCE:
        raise ValueError(f"time can be advanced by 0 to {LONGEST_ADVANCE.days} days at once, not by {by}")
    target, turns = clock.now() + by, _Turns()
    await _settle(controllers, turns)
    while (moment := controllers.context.timers.next_moment()) is not None and moment <= target:
        clock.set(max(moment, clock.now()))
        await _settle(controllers, turns)
    clock.set(target)
    await _settle(controllers, turns)
