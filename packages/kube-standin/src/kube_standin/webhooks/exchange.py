"""One HTTPS request over one connection: HTTP/1.1, no redirects, no proxy, no decompression, limited in size.

h11 frames the messages, so a malformed or overlong response ends the call.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass

import h11

from kube_standin.webhooks.reach import Destination, WebhookCallError

_READ = 64 * 1024
_HEAD = 16 * 1024
"""The largest size in bytes of a response without its body."""
_UNTRUSTED = frozenset((2, 18, 19, 20, 21))
"""OpenSSL's codes for a chain that does not end in a trusted authority."""
_UNKNOWN_AUTHORITY = "certificate signed by unknown authority"
AGENT = "kube-apiserver-admission"


class ConnectionLostError(Exception):
    """Raised if the other side closed an idle connection before it answered."""


@dataclass(frozen=True)
class HttpAnswer:
    """The status and body of a response."""

    status: int
    body: bytes


class HttpsConnection:
    """A connection to one server, used for one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD)
        self._used = False
        self.idle_since = 0.0

    @classmethod
    async def open(cls, address: str, port: int, server_name: str, context: ssl.SSLContext) -> HttpsConnection:
        """Connect and check the certificate; raises WebhookCallError."""
        try:
            streams = await asyncio.open_connection(
                address, port, ssl=context, server_hostname=server_name, limit=_READ
            )
        except ssl.SSLCertVerificationError as error:
            reason = _UNKNOWN_AUTHORITY if error.verify_code in _UNTRUSTED else error.verify_message
            raise WebhookCallError(f"tls: failed to verify certificate: x509: {reason}") from error
        except ssl.SSLError as error:
            raise WebhookCallError(f"tls: handshake failure: {error.reason or 'no reason given'}") from error
        except ConnectionRefusedError as error:
            raise WebhookCallError(f"dial tcp {_shown(address, port)}: connect: connection refused") from error
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise WebhookCallError(f"dial tcp {_shown(address, port)}: connect: {reason}") from error
        return cls(*streams)

    @property
    def reusable(self) -> bool:
        """Return whether another request may follow on this connection."""
        return self._protocol.our_state is h11.IDLE and not self._reader.at_eof() and not self._writer.is_closing()

    def close(self) -> None:
        """Close the connection without waiting for the other side."""
        self._writer.transport.abort()

    async def post(self, destination: Destination, query: str, body: bytes, longest: int) -> HttpAnswer:
        """Send JSON and return the response of at most `longest` bytes.

        Raises WebhookCallError, ConnectionLostError.
        """
        request = h11.Request(
            method="POST",
            target=f"{destination.path}?{query}",
            headers=[
                ("Host", destination.authority),
                ("Content-Type", "application/json"),
                ("Accept", "application/json, */*"),
                ("User-Agent", AGENT),
                ("Content-Length", str(len(body))),
            ],
        )
        try:
            message = (request, h11.Data(data=body), h11.EndOfMessage())
            for event in message:
                self._writer.write(self._protocol.send(event) or b"")
            answer = await self._answer(longest)
        except h11.LocalProtocolError as error:
            raise WebhookCallError(f"the request cannot be sent: {error}") from error
        except h11.RemoteProtocolError as error:
            raise WebhookCallError(f"malformed HTTP response: {error}") from error
        except (OSError, EOFError) as error:
            if self._used:
                raise ConnectionLostError from error
            raise WebhookCallError("EOF") from error
        self._used = True
        return answer

    async def _answer(self, longest: int) -> HttpAnswer:
        received, status, size = 0, 0, 0
        chunks: list[bytes] = []
        while True:
            event = self._protocol.next_event()
            if event is h11.NEED_DATA:
                data = await self._reader.read(_READ)
                if not data and not received:
                    raise EOFError
                received += len(data)
                if received > longest + _HEAD:
                    raise WebhookCallError(f"the response is longer than {longest} bytes")
                self._protocol.receive_data(data)
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                size += len(event.data)
                chunks.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                break
        if size > longest:
            raise WebhookCallError(f"the response is longer than {longest} bytes")
        if self._protocol.our_state is h11.DONE and self._protocol.their_state is h11.DONE:
            self._protocol.start_next_cycle()
        return HttpAnswer(status, b"".join(chunks))


def _shown(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
