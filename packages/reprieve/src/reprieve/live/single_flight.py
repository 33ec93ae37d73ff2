"""Calls for victims of more than one preemption: each is made once, and all callers get its result.

Two preemptors may select the same victim before the watch delivers the effect of the first call (preemption.md 7.1).
The second caller waits for the first call; a failed call is repeated.

Invariant: a successful call is remembered for its scope until the watch must have delivered its effect.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple

from reprieve.client.clock import Clock

REMEMBERED: Final = 60.0
"""Seconds; a slower watch was interrupted, and a second call is harmless."""


class _Call(NamedTuple):
    started: float
    future: asyncio.Future[None]
    scope: frozenset[str]


class SingleFlight:
    """Shared calls; see the module docstring. Use it in one event loop; `key` is a pod's UID or its group's name."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._calls: dict[tuple[str, str], _Call] = {}
        """In the order in which they were made."""
        self._evicted: Counter[str] = Counter()

    def begin(self, keys: Iterable[str]) -> None:
        """Record the start of a preemption that evicts the keys."""
        self._evicted.update(keys)

    def end(self, keys: Iterable[str]) -> None:
        """Record the end of a preemption."""
        for key in keys:
            self._evicted[key] -= 1
            if self._evicted[key] <= 0:
                del self._evicted[key]

    def wanted(self, key: str) -> bool:
        """Return whether a preemption in progress evicts the key."""
        return key in self._evicted

    def forget(self, call_name: str, key: str) -> None:
        """Forget a call after its effect was undone."""
        self._calls.pop((call_name, key), None)

    async def once(
        self, call_name: str, key: str, act: Callable[[], Awaitable[None]], scope: frozenset[str] = frozenset()
    ) -> bool:
        """Make a call unless it was already made; return whether it was made now. Raises the error of the call.

        `scope`: the UIDs that the call is for. An earlier call counts if it was for all of them.
        """
        self._trim()
        earlier = self._calls.get((call_name, key))
        if earlier is not None and scope <= earlier.scope and not (earlier.future.done() and _failed(earlier.future)):
            await earlier.future
            return False
        future = asyncio.ensure_future(act())
        self._calls.pop((call_name, key), None)
        self._calls[call_name, key] = _Call(self._clock.monotonic(), future, scope)
        await future
        return True

    def _trim(self) -> None:
        before = self._clock.monotonic() - REMEMBERED
        while self._calls:
            oldest, call = next(iter(self._calls.items()))
            if call.started > before or not call.future.done():
                break
            del self._calls[oldest]


def _failed(future: asyncio.Future[None]) -> bool:
    return future.cancelled() or future.exception() is not None
