"""Limits on connections from untrusted clients: time for each part of a request, and memory in the server.

uvicorn waits forever for the rest of a request and stores its whole header. Here a header has a deadline and a size
limit, a body has a deadline, and so has a client that does not read its response. Deadlines are those of kube-apiserver
where it has one (ReadHeaderTimeout 32 s, request timeout 60 s). A connection that misses one is closed without a
response, as there is no complete request.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from dataclasses import dataclass
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kube_standin.admission_chain import User
from kube_standin.client_certificates import user_of

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

RESET = "kube_standin.reset"
"""Extension in the scope of a request: a function that resets its connection."""

CLIENT = "kube_standin.client"
"""Extension in the scope of a request: the user of the client certificate, or None."""

_UNSENT_BYTES = 64 * 1024
"""Bytes of responses that may wait for a client to read before the response is paused."""


@dataclass(frozen=True)
class ConnectionLimits:
    """Deadlines in seconds for a header, a body and reading a response; the size limit of a header in bytes."""

    header_seconds: float = 32.0
    body_seconds: float = 60.0
    reading_seconds: float = 120.0
    header_bytes: int = 256 * 1024


class BoundedConnection(HttpToolsProtocol):
    """One connection to a client. `bounded_by` returns a subclass with other limits."""

    limits: ClassVar[ConnectionLimits] = ConnectionLimits()

    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _header_left: int = 0
    _in_header: bool = True
    _client: User | None = None

    @property
    def idle(self) -> bool:
        """Return whether no response is in progress."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the deadline of the first header."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(_UNSENT_BYTES)
        encrypted = transport.get_extra_info("ssl_object")
        certificate = encrypted.getpeercert(binary_form=True) if encrypted is not None else None
        self._client = user_of(certificate) if certificate else None
        self._begin_header()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadlines and drop references to the connection, so that its buffers are freed now."""
        self._until(None)
        self.resume_writing()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self.cycle = None  # type: ignore[assignment]
        self.scope = None  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Process a piece of a request."""
        if self._in_header:
            # A piece with the end of a header counts as part of it; pieces are small.
            self._header_left -= len(data)
            if self._header_left < 0 and not self._ends_soon(data):
                self.transport.write(_TOO_LARGE)
                self.transport.close()
                return
            if self._deadline is None:
                self._until(self.limits.header_seconds)
        super().data_received(data)

    @staticmethod
    def _ends_soon(data: bytes) -> bool:
        return b"\r\n\r\n" in data

    def on_message_begin(self) -> None:
        """Let the application reset the connection (``extensions`` of the scope)."""
        super().on_message_begin()
        self.scope["extensions"] = {RESET: self._reset, CLIENT: self._client}  # type: ignore[dict-item]

    def on_headers_complete(self) -> None:
        """Start the deadline of the body."""
        self._in_header = False
        self._until(self.limits.body_seconds)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Cancel the deadline; the next one starts with the next header."""
        self._until(None)
        self._in_header = True
        self._header_left = self.limits.header_bytes
        super().on_message_complete()

    def pause_writing(self) -> None:
        """Start the deadline for a client that does not read."""
        if self._unread is None:
            self._unread = self.loop.call_later(self.limits.reading_seconds, self._cut)
        super().pause_writing()

    def resume_writing(self) -> None:
        """Cancel the deadline: the client reads again."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def _begin_header(self) -> None:
        self._in_header = True
        self._header_left = self.limits.header_bytes
        self._until(self.limits.header_seconds)

    def _until(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self._cut)

    def _reset(self) -> None:
        """Close with RST, so that the client gets a connection reset."""
        bound = self.transport.get_extra_info("socket")
        with socket.socket(fileno=os.dup(bound.fileno())) as same:
            same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _cut(self) -> None:
        # Closing would wait for data that the client does not read.
        self.transport.abort()


def bounded_by(limits: ConnectionLimits) -> type[BoundedConnection]:
    """Return a connection class with other limits."""
    return type("BoundedConnection", (BoundedConnection,), {"limits": limits})
