"""Slots for large bodies: a limited number at a time, and slow bodies do not block others.

A body takes a slot until its request is answered. While it arrives it must keep a minimum rate, or its request is
answered with 408. While another body waits for a slot the minimum is higher: the slowest bodies below it are refused
with 429 (interfaces.md 5.8).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext

from kube_standin.errors import StatusError

LARGE_BODIES = 16
"""Large bodies in memory at a time; the next one waits until one of them is answered."""

HOOKED_BODIES = LARGE_BODIES // 2
"""How many of them may be writes of kinds with webhooks; further ones are not read yet."""

_GRACE_SECONDS = 5.0
_BYTES_PER_SECOND = 16 * 1024
_CONTENDED_GRACE_SECONDS = 0.2
_CONTENDED_BYTES_PER_SECOND = 256 * 1024
_CHECK_SECONDS = 0.05
"""How often arriving bodies are checked while others wait."""


class IncomingBody:
    """One large body and its progress."""

    def __init__(self) -> None:
        self._start = self._now()
        self._byte_count = 0
        self._is_refused = False
        self._timer = asyncio.timeout(_GRACE_SECONDS)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    @property
    def rate(self) -> float:
        """Return the rate so far in bytes per second."""
        return self._byte_count / max(self._now() - self._start, 1e-9)

    @property
    def gives_way(self) -> bool:
        """Return whether the body is slower than the minimum while others wait."""
        late = self._now() - self._start >= _CONTENDED_GRACE_SECONDS
        return late and not self._is_refused and self.rate < _CONTENDED_BYTES_PER_SECOND

    def came(self, size: int) -> None:
        """Record the size of a received piece of the body."""
        self._byte_count += size
        if not self._is_refused:
            self._timer.reschedule(self._start + _GRACE_SECONDS + self._byte_count / _BYTES_PER_SECOND)

    def refuse(self) -> None:
        """Refuse the body in favour of others."""
        self._is_refused = True
        self._timer.reschedule(self._now())

    @asynccontextmanager
    async def in_time(self) -> AsyncIterator[None]:
        """Raise 408 or 429 if the body is too slow while the context lasts."""
        try:
            async with self._timer:
                yield
        except TimeoutError:
            closing = {"Connection": "close"}
            if self._is_refused:
                text = "the body of the request comes slowly and others wait; try again"
                details = {"retryAfterSeconds": 1}
                raise StatusError(429, "TooManyRequests", text, details, headers=closing) from None
            text = f"Timeout: the body of the request comes slower than {_BYTES_PER_SECOND} bytes per second"
            raise StatusError(408, "Timeout", text, headers=closing) from None


class BodySlots:
    """The slots for large bodies of one server."""

    def __init__(self, most: int = LARGE_BODIES) -> None:
        self._slots = asyncio.Semaphore(most)
        self._hooked_slots = asyncio.Semaphore(HOOKED_BODIES)
        self._incoming_bodies: set[IncomingBody] = set()
        self._queue_length = 0
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def slot(self, *, hooked: bool = False) -> AsyncIterator[None]:
        """Hold a slot while the context lasts; ``hooked``: for a write of a kind with webhooks."""
        async with self._hooked_slots if hooked else nullcontext(), self._one_slot():
            yield

    @asynccontextmanager
    async def _one_slot(self) -> AsyncIterator[None]:
        self._queue_length += 1
        try:
            if self._slots.locked():
                self._check()
            await self._slots.acquire()
        finally:
            self._queue_length -= 1
        try:
            yield
        finally:
            self._slots.release()

    @asynccontextmanager
    async def arriving(self) -> AsyncIterator[IncomingBody]:
        """Monitor a body while it arrives; raises 408 or 429 if it is too slow."""
        body = IncomingBody()
        self._incoming_bodies.add(body)
        try:
            async with body.in_time():
                yield body
        finally:
            self._incoming_bodies.discard(body)

    def _check(self) -> None:
        """Refuse the slowest bodies, one for each waiting body; check again while some wait."""
        if self._timer is None:
            slow = sorted((body for body in self._incoming_bodies if body.gives_way), key=lambda body: body.rate)
            for body in slow[: self._queue_length]:
                body.refuse()
            self._check_later()

    def _check_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_CHECK_SECONDS, self._check_again, loop.time() + _CHECK_SECONDS)

    def _check_again(self, due: float) -> None:
        self._timer = None
        if not self._queue_length:
            return
        if asyncio.get_running_loop().time() > due + _CHECK_SECONDS:
            self._check_later()  # the server itself is late: received data is not read yet
        else:
            self._check()


class LargeTurn:
    """The turn of a large write among those that run one by one; it yields the turn while it waits for a webhook."""

    def __init__(self, turns: asyncio.Semaphore) -> None:
        self._turns = turns
        self._holds_lock = False

    async def __aenter__(self) -> LargeTurn:
        await self._turns.acquire()
        self._holds_lock = True
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._holds_lock:
            self._holds_lock = False
            self._turns.release()

    @asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        """Give up the turn while the context lasts (interfaces.md 5.8)."""
        await self.__aexit__()
        try:
            yield
        finally:
            await self.__aenter__()
