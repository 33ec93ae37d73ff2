"""Delivery of changes to watchers: one bounded buffer per watcher, so that a slow one never blocks others.

Invariants: a subscription yields every change of its selection exactly once and in revision order, or it ends with
``overflowed`` set, after which its watcher must list again (410). Changes that it has not yielded yet are part of the
store's history, so that watchers hold no memory that the store has released; past changes that a watcher requests are
evaluated only as it takes them (interfaces.md 5.7).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from kube_standin.storage.model import ChangeType, StoredChange, StoredObject

Matcher = Callable[[StoredObject], bool]


_PAST_AT_ONCE = 500
"""Number of past changes that are matched in one turn."""


class WatchEvent(NamedTuple):
    """An event for a watcher: the type as seen through its selection, and the state."""

    type: ChangeType
    state: StoredObject


class Subscription:
    """A watcher's view of one resource: only its namespace (None for all) and only objects that ``match`` selects.

    ``limit_events`` and ``limit_bytes`` bound the buffer.
    """

    __slots__ = (
        "_events", "_history", "_limit_bytes", "_limit_events", "_match", "_size", "_waiter", "closed", "namespace",
        "on_overflow", "overflowed", "resource", "revision",
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
        """The revision up to which offered changes are complete."""
        self.overflowed = False
        self.closed = False
        self.on_overflow: Callable[[], None] | None = None
        """Called once when the buffer overflows, even if no reader waits."""
        self._match = match
        self._history: deque[StoredChange] = deque()
        self._events: deque[WatchEvent] = deque()
        self._size = 0
        self._limit_events = limit_events
        self._limit_bytes = limit_bytes
        self._waiter: asyncio.Future[None] | None = None

    def seen(self, change: StoredChange) -> WatchEvent | None:
        """Return ``change`` as seen through the selection, or None if it is not visible."""
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

    def begin_with(self, past: deque[StoredChange], revision: int) -> None:
        """Yield the changes of ``past`` first, up to ``revision``; they are matched only when they are taken."""
        self._history = past
        self.revision = max(self.revision, revision)

    def offer(self, changes: Iterable[StoredChange]) -> None:
        """Add committed changes newer than this subscription; too many of them end it."""
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
                self._overflow()
                return
        if self._events:
            self.wake()

    def forgotten(self, revision: int) -> None:
        """End the subscription if it has not yielded a change up to ``revision``, which the history no longer has."""
        oldest = (
            self._history[0].revision if self._history else self._events[0].state.revision if self._events else None
        )
        if oldest is not None and oldest <= revision and not self.closed:
            self._overflow()

    def expire(self) -> None:
        """End the subscription as too slow: its watcher must list again."""
        if not self.closed and not self.overflowed:
            self._overflow()

    def _overflow(self) -> None:
        self._history.clear()
        self._events.clear()
        self._size = 0
        self.overflowed = True
        if self.on_overflow is not None:
            self.on_overflow()
        self.wake()

    def wake(self) -> None:
        """Make :meth:`wait` return."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def take(self, most_bytes: int | None = None) -> list[WatchEvent]:
        """Return and remove buffered events: all of them, or some with this many bytes of bodies (and one more).

        The result may be empty although events remain: only ``_PAST_AT_ONCE`` past changes are matched.
        """
        events: list[WatchEvent] = []
        size = looked_at = 0
        while self._history and (most_bytes is None or (size < most_bytes and looked_at < _PAST_AT_ONCE)):
            looked_at += 1
            event = self.seen(self._history.popleft())
            if event is not None:
                events.append(event)
                size += len(event.state.raw)
        if self._history:
            return events
        while self._events and (most_bytes is None or size < most_bytes):
            event = self._events.popleft()
            events.append(event)
            size += len(event.state.raw)
            self._size -= len(event.state.raw)
        return events

    @property
    def pending(self) -> bool:
        """Return whether there are events to take."""
        return bool(self._history) or bool(self._events)

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until there are events to take (or the end); False if ``timeout`` seconds pass first."""
        if self.pending or self.overflowed or self.closed:
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
        return self.pending or self.overflowed or self.closed
