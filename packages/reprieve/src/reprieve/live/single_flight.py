"""Calls for victims that more than one preemption decided on: each is made once, and all callers get its result.

Two preemptors may choose the same victim before the watch brings what the first call for it did (preemption.md 7.1).
The second caller waits for the call of the first; a call that failed is made again.

Invariant: a call that succeeded is remembered until the watch must have brought it, for what it was made for.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple

from reprieve.client.clock import Clock

REMEMBERED: Final = 60.0
"""Seconds; a watch that is later has been cut, and a second call does no harm."""


class _Call(NamedTuple):
    made: float
    future: asyncio.Future[None]
    scope: frozenset[str]


class SingleFlight:
    """See the module docstring. Used in one event loop; `key` is a pod's UID or a name of its group."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._calls: dict[tuple[str, str], _Call] = {}
        """In the order they were made."""
        self._evicted: Counter[str] = Counter()

    def begin(self, keys: Iterable[str]) -> None:
        """A preemption that evicts these begins."""
        self._evicted.update(keys)

    def end(self, keys: Iterable[str]) -> None:
        """It has ended."""
        for key in keys:
            self._evicted[key] -= 1
            if self._evicted[key] <= 0:
                del self._evicted[key]

    def wanted(self, key: str) -> bool:
        """Return whether a preemption under way evicts it."""
        return key in self._evicted

    def forget(self, what: str, key: str) -> None:
        """What a call did was undone."""
        self._calls.pop((what, key), None)

    async def once(
        self, what: str, key: str, act: Callable[[], Awaitable[None]], scope: frozenset[str] = frozenset()
    ) -> bool:
        """Make a call unless it has been made; whether it was made now. Raises what it, or the first one, raises.

        `scope`: the UIDs that the call is for. An earlier call counts if it was for all of them.
        """
        self._trim()
        known = self._calls.get((what, key))
        if known is not None and scope <= known.scope and not (known.future.done() and _failed(known.future)):
            await known.future
            return False
        future = asyncio.ensure_future(act())
        self._calls.pop((what, key), None)
        self._calls[what, key] = _Call(self._clock.monotonic(), future, scope)
        await future
        return True

    def _trim(self) -> None:
        before = self._clock.monotonic() - REMEMBERED
        while self._calls:
            oldest, call = next(iter(self._calls.items()))
            if call.made > before or not call.future.done():
                break
            del self._calls[oldest]


def _failed(future: asyncio.Future[None]) -> bool:
    return future.cancelled() or future.exception() is not None
