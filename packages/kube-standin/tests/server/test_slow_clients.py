"""What a connection may take its time with, by a clock that does not wait and a transport that is none.

The deadlines are those of `connections`: of a header, of a body, of the reading of an answer; and a header has a size.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from kube_standin.server.connections import ConnectionLimits, bounded_by
from tests.server.inprocess import virtually

LIMITS = ConnectionLimits(header_seconds=32.0, body_seconds=60.0, reading_seconds=120.0, header_bytes=1000)


class Transport(asyncio.Transport):
    """What the connection does with its socket: the moment it was cut, closed, and what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.buffered: int | None = None
        self.cut: float | None = None
        self.closed: float | None = None

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Nothing is known of the other side."""
        return default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep it."""
        self.written += bytes(data)

    def abort(self) -> None:
        """Note when."""
        self.cut = self.cut if self.cut is not None else asyncio.get_running_loop().time()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Note how much may wait to be sent."""
        self.buffered = high

    def close(self) -> None:
        """Note when."""
        self.closed = asyncio.get_running_loop().time()

    def is_closing(self) -> bool:
        """Whether it has an end."""
        return self.closed is not None or self.cut is not None

    def pause_reading(self) -> None:
        """It is read no more."""

    def resume_reading(self) -> None:
        """It is read again."""


class Client:
    """One connection; `sends` and `waits` are what the other side does."""

    def __init__(self, limits: ConnectionLimits = LIMITS) -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            while (await receive()).get("more_body"):
                pass
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})

        config = uvicorn.Config(app, loop="none", lifespan="off", log_config=None, timeout_keep_alive=3000)
        config.load()
        self.protocol = bounded_by(limits)(config=config, server_state=ServerState(), app_state={})
        self.transport = Transport()
        self.protocol.connection_made(self.transport)

    def sends(self, data: bytes) -> None:
        self.protocol.data_received(data)

    async def waits(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


HEAD = b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"
GET = b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n"


def cut_at(*steps: bytes | float, leaves: bool = False) -> float | None:
    """When a client that does these things (sends bytes, waits seconds) is cut; None if it is not."""

    async def run() -> float | None:
        client = Client()
        for step in steps:
            if isinstance(step, bytes):
                client.sends(step)
            else:
                await client.waits(step)
        if leaves:
            client.protocol.connection_lost(None)
        await client.waits(1000)
        return client.transport.cut

    return virtually(run)


@pytest.mark.parametrize(
    ("steps", "cut"),
    [
        ((), 32.0),
        ((b"GE", 5.0, b"T /x HTTP/1.1\r\n", 5.0, b"Ho"), 32.0),  # for the whole header, not for each piece
        ((5.0, HEAD), 65.0),
        ((5.0, HEAD, 20.0, b"ab", 20.0, b"cd"), 65.0),
        ((GET,), None),  # between requests nothing is due
        ((GET, 100.0, b"GET"), 132.0),  # the next header is due once it has begun
        ((HEAD, 50.0, b"abcde", 500.0, HEAD, 50.0, b"abcde"), None),
        ((HEAD, 50.0, b"abcde", 500.0, HEAD), 610.0),
    ],
)
def test_headers_and_bodies_have_a_deadline(steps: tuple[bytes | float, ...], cut: float | None) -> None:
    found = cut_at(*steps)
    assert found == (None if cut is None else pytest.approx(cut))


def test_client_that_has_left_is_not_cut() -> None:
    assert cut_at(b"GE", leaves=True) is None
    assert cut_at(HEAD, leaves=True) is None


def unread(*steps: Callable[[Client], None] | float) -> float | None:
    async def run() -> float | None:
        client = Client()
        client.sends(GET)
        for step in steps:
            if isinstance(step, float):
                await client.waits(step)
            else:
                step(client)
        await client.waits(1000)
        return client.transport.cut

    return virtually(run)


def test_client_that_does_not_read_has_a_deadline() -> None:
    """Not from the last time that the transport said so; and none once it reads again, or has left."""

    def pause(client: Client) -> None:
        client.protocol.pause_writing()

    def resume(client: Client) -> None:
        client.protocol.resume_writing()

    def leave(client: Client) -> None:
        client.protocol.connection_lost(None)

    assert unread(5.0, pause) == pytest.approx(125.0)
    assert unread(5.0, pause, 50.0, pause) == pytest.approx(125.0)
    assert unread(5.0, pause, 119.0, resume) is None
    assert unread(5.0, pause, 119.0, resume, 1.0, pause) == pytest.approx(245.0)
    assert unread(5.0, pause, 119.0, leave) is None
    assert unread(5.0, resume) is None


REFUSED = b"HTTP/1.1 431 Request Header Fields Too Large\r\n"


def refused(*pieces: bytes) -> bool:
    async def run() -> bool:
        client = Client()
        for piece in pieces:
            client.sends(piece)
            await client.waits(0)
        if client.transport.closed is None:
            return False
        assert client.transport.written.endswith(REFUSED + b"content-length: 0\r\nconnection: close\r\n\r\n")
        return True

    return virtually(run)


def headed(size: int, ends: bool = True) -> bytes:
    """A request with a header of so many bytes."""
    start, end = b"GET /x HTTP/1.1\r\nHost: x\r\nX: ", b"\r\n\r\n"
    return start + b"y" * (size - len(start) - len(end)) + (end if ends else b"yyyy")


@pytest.mark.parametrize(
    ("pieces", "too_large"),
    [
        ((headed(1000),), False),
        ((headed(1000, ends=False),), False),
        ((headed(1001, ends=False),), True),
        ((headed(1001),), False),  # what ends in the piece that is too much is served: its size is known
        ((headed(600, ends=False), b"y" * 400), False),
        ((headed(600, ends=False), b"y" * 401), True),
        ((headed(900), headed(900), headed(900)), False),  # counted for each request
        ((headed(900), headed(600, ends=False), b"y" * 401), True),
        ((b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n", b"b" * 5000), False),  # bodies are no headers
    ],
)
def test_header_has_a_size(pieces: tuple[bytes, ...], too_large: bool) -> None:
    assert refused(*pieces) is too_large


def test_little_waits_for_a_client_that_does_not_read() -> None:
    """interfaces.md 5.7: what is encrypted for it is bounded, too; asyncio would keep 512 KiB."""

    async def run() -> int | None:
        return Client().transport.buffered

    assert virtually(run) == 64 * 1024


@pytest.mark.parametrize("error", [None, ConnectionResetError()])
def test_nothing_is_kept_of_a_connection_that_is_lost(error: Exception | None) -> None:
    """interfaces.md 5.7: its buffers go at once. No timer and no circle of references waits for a collection."""

    async def run() -> weakref.ref[Any]:
        client = Client()
        client.sends(GET)
        await client.waits(1)
        client.protocol.connection_lost(error)
        await client.waits(1)
        return weakref.ref(client.protocol)

    gc.disable()
    try:
        assert virtually(run)() is None
    finally:
        gc.enable()


def test_limits_without_a_word() -> None:
    """Those of kube-apiserver where it has them."""
    limits = ConnectionLimits()
    assert (limits.header_seconds, limits.body_seconds) == (32.0, 60.0)
    assert (limits.reading_seconds, limits.header_bytes) == (120.0, 256 * 1024)
    assert bounded_by(LIMITS).limits is LIMITS
