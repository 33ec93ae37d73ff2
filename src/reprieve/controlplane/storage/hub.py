"""Handing changes to watchers: one bounded buffer per watcher, so that a slow one never holds up others.

Invariant: a subscription yields every change of its selection exactly once and in revision order, or it ends
with ``overflowed`` set, after which its watcher must list again (410).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from reprieve.controlplane.storage.model import Change, ChangeType, Stored

Matcher = Callable[[Stored], bool]


class WatchEvent(NamedTuple):
    """What a watcher is sent: the type as seen through its selection and the state it shows."""

    type: ChangeType
    state: Stored


class Subscription:
    """A watcher's view of one resource: only its namespace (None for all) and only what ``match`` selects.

    ``limit_events`` and ``limit_bytes`` bound the buffer.
    """

    __slots__ = (
        "_events", "_limit_bytes", "_limit_events", "_match", "_size", "_waiter", "closed", "namespace", "on_overflow",
        "overflowed", "resource", "revision",
    )  # fmt: skip

    def __init__(
        self,
        resource: str,
        namespace: str | None,
        match: Matcher | None,
        revision: int,
        *,
        limit_events: int,
        limit_bytes: int,
    ) -> None:
        self.resource = resource
        self.namespace = namespace
        self.revision = revision
        """Changes up to this revision are accounted for in what was offered so far."""
        self.overflowed = False
        self.closed = False
        self.on_overflow: Callable[[], None] | None = None
        """Called once when the buffer overflows, also while nobody waits."""
        self._match = match
        self._events: deque[WatchEvent] = deque()
        self._size = 0
        self._limit_events = limit_events
        self._limit_bytes = limit_bytes
        self._waiter: asyncio.Future[None] | None = None

    def seen(self, change: Change) -> WatchEvent | None:
        """Return ``change`` as seen through the selection, or None if it does not show."""
        state = change.state
        if self.namespace is not None and state.namespace != self.namespace:
            return None
        match = self._match
        if match is None:
            return WatchEvent(change.type, state)
        before = change.previous is not None and match(change.previous)
        if change.type == "DELETED":
            return WatchEvent("DELETED", state) if before else None
        if match(state):
            return WatchEvent("MODIFIED" if before else "ADDED", state)
        return WatchEvent("DELETED", change.left_behind()) if before else None

    def offer(self, changes: Iterable[Change]) -> None:
        """Take in committed changes newer than this subscription has seen; too many end it."""
        if self.closed or self.overflowed:
            return
        for change in changes:
            if change.revision <= self.revision:
                continue
            self.revision = change.revision
            event = self.seen(change)
            if event is None:
                continue
            self._events.append(event)
            self._size += len(event.state.raw)
            if len(self._events) > self._limit_events or self._size > self._limit_bytes:
                self._events.clear()
                self.overflowed = True
                if self.on_overflow is not None:
                    self.on_overflow()
                break
        if self._events or self.overflowed:
            self.wake()

    def wake(self) -> None:
        """Let :meth:`wait` return."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def take(self) -> list[WatchEvent]:
        """Return and forget what is buffered."""
        events = list(self._events)
        self._events.clear()
        self._size = 0
        return events

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until there is something to take (or it ended); False if ``timeout`` seconds went by first."""
        if self._events or self.overflowed or self.closed:
            return True
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        # A timer of our own: asyncio.wait_for costs several times as much, and this runs for every watcher and change.
        timer = None if timeout is None else loop.call_later(timeout, self.wake)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()
        return bool(self._events) or self.overflowed or self.closed
