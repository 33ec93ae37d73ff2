"""Let simulated time pass for controllers and kubelets: each timer fires in order, at its own moment.

After each moment the controllers work until nothing is left to do, so that what happens does not depend on the speed
of the machine. Work is cut into turns of a few milliseconds: requests are answered meanwhile.
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
    """Gives the event loop to others every few milliseconds."""

    def __init__(self) -> None:
        self._ends = time.monotonic() + _TURN_SECONDS

    async def over(self) -> None:
        if time.monotonic() > self._ends:
            await asyncio.sleep(0)
            self._ends = time.monotonic() + _TURN_SECONDS


async def settle(controllers: ControllerSet) -> None:
    """Return when controllers and kubelets have nothing to do at the present moment.

    Raises RuntimeError if they do not come to rest within 100,000 rounds.
    """
    await _settle(controllers, _Turns())


async def _settle(controllers: ControllerSet, turns: _Turns) -> None:
    for _ in range(_MOST_ROUNDS):
        if not controllers.step():
            return
        await turns.over()
    raise RuntimeError("the controllers do not come to rest")


async def advance(controllers: ControllerSet, clock: SimulatedClock, by: timedelta) -> None:
    """Set the clock forward, and return when everything that is due until then is done.

    Raises ValueError for a negative time and one of more than 366 days, RuntimeError as `settle` does.
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
