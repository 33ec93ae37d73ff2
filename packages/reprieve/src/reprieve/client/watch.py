"""One watch: a stream of lines, each with an event, for as long as the connection lasts.

Terms: an event is one line of JSON with a type and an object; a bookmark is an event that only has the stream's
revision; silence is the time without any data.

Invariant: every complete line is passed on once and in order; data after the last line end is not an event. A stream
that is silent for too long is cut, since a connection can die without notice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from reprieve.client.errors import UnreachableError, status_event
from reprieve.client.transport import ApiClient, Stream

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"
BOOKMARK: Final = "BOOKMARK"
_ERROR: Final = "ERROR"
_TYPES: Final = (ADDED, MODIFIED, DELETED, BOOKMARK)

MAX_EVENT: Final = 16 * 1024 * 1024
"""The largest event in bytes; etcd stores objects of at most 1.5 MiB."""


class Event(msgspec.Struct, frozen=True):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class GarbledError(UnreachableError):
    """Raised for data that is not an event: the connection is no longer trusted."""


class IdleTimeoutError(UnreachableError):
    """Raised if a stream is silent for longer than a live connection."""


_DECODER = msgspec.json.Decoder(Event)


async def watch(
    client: ApiClient,
    path: str,
    query: Mapping[str, str],
    handle: Callable[[Event], None],
    *,
    silence: Callable[[], float],
    opened: Callable[[], None] = lambda: None,
) -> None:
    """Pass events to `handle` until the server ends the stream.

    `silence` returns how many seconds the stream may be silent now; `opened` is called when the server starts to
    answer. Raises ApiError if the server refuses or sends an ERROR event, GarbledError, UnreachableError if the stream
    is cut or silent, and the errors of `handle`.
    """
    where = f"{client.connection.server}{path}"
    async with client.stream(path, {**query, "watch": "true"}, opening=silence()) as stream:
        opened()
        guard = _IdleTimeout(client, stream, silence)
        watchdog = asyncio.create_task(guard.run())
        try:
            await _lines(stream, guard, handle, where)
        except UnreachableError:
            if guard.tripped:
                raise IdleTimeoutError(f"{where}: the watch was silent for {guard.limit:.0f} s") from None
            raise
        finally:
            watchdog.cancel()
            await asyncio.gather(watchdog, return_exceptions=True)


async def _lines(stream: Stream, guard: _IdleTimeout, handle: Callable[[Event], None], where: str) -> None:
    rest: list[bytes] = []
    size = 0
    while piece := await stream.piece():
        guard.received()
        if b"\n" not in piece:
            rest.append(piece)
            size += len(piece)
        else:
            *lines, last = (b"".join(rest) + piece).split(b"\n")
            rest, size = [last], len(last)
            for line in lines:
                if line.strip():
                    handle(_event(line, where))
        if size > MAX_EVENT:
            raise GarbledError(f"{where}: an event of more than {MAX_EVENT} bytes")


def _event(line: bytes, where: str) -> Event:
    try:
        event = _DECODER.decode(line)
    except (ValueError, RecursionError):
        raise GarbledError(f"{where}: the watch sent something that is no event") from None
    if event.type == _ERROR:
        raise status_event(event.object, where)
    if event.type not in _TYPES:
        raise GarbledError(f"{where}: the watch sent an event of unknown type {event.type[:32]!r}")
    return event


class _IdleTimeout:
    """Cuts a stream that is silent for too long."""

    def __init__(self, client: ApiClient, stream: Stream, limit: Callable[[], float]) -> None:
        self._clock = client.clock
        self._stream = stream
        self._limit = limit
        self._last = self._clock.monotonic()
        self.limit = limit()
        self.tripped = False

    def received(self) -> None:
        """Record received data."""
        self._last = self._clock.monotonic()

    async def run(self) -> None:
        """Monitor the stream until it is silent for too long."""
        while True:
            self.limit = self._limit()
            left = self._last + self.limit - self._clock.monotonic()
            if left <= 0:
                self.tripped = True
                self._stream.cut()
                return
            await self._clock.sleep(left)
