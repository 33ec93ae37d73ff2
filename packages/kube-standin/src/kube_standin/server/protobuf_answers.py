"""Protobuf responses for clients that accept no other format.

Responses are created as JSON, and stored bytes are sent unchanged; clients that also accept JSON get them. For the
other clients the response is decoded and encoded as protobuf beside the event loop: whole, or event by event.
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import msgspec

from kube_standin.protobuf import UnsupportedProtobuf
from kube_standin.protobuf.encoder import encode, watch_frame
from kube_standin.server.negotiation import PROTOBUF
from kube_standin.server.responses import Send

_STREAM = f"{PROTOBUF};stream=watch"
_JSON = b"application/json"
_TYPE, _LENGTH = b"content-type", b"content-length"
Message = MutableMapping[str, Any]


class ProtobufSender:
    """Sends JSON responses as protobuf, other ones unchanged. ``watch``: the body is a stream of events."""

    def __init__(self, send: Send, *, watch: bool) -> None:
        self._send = send
        self._watch = watch
        self._start: Message | None = None
        self._parts: list[bytes] = []
        self._plain = False

    async def __call__(self, message: Message) -> None:
        """Process one ASGI message."""
        if message["type"] == "http.response.start":
            await self._begin(message)
        elif self._plain:
            await self._send(message)
        elif self._watch and self._start is None:
            await self._send({**message, "body": await self._frames(message.get("body", b""))})
        else:
            self._parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                await self._finish()

    async def _begin(self, message: Message) -> None:
        self._plain = dict(message["headers"]).get(_TYPE) != _JSON
        self._watch = self._watch and message["status"] == 200
        if self._plain:
            await self._send(message)
        elif self._watch:
            await self._send(_typed(message, _STREAM))
        else:
            self._start = message

    async def _frames(self, lines: bytes) -> bytes:
        """Return the frames of complete events; an incomplete event is kept for the next call."""
        whole, _, rest = (b"".join(self._parts) + lines).rpartition(b"\n")
        self._parts = [rest]
        return await asyncio.to_thread(_framed, whole) if whole else b""

    async def _finish(self) -> None:
        assert self._start is not None
        body = b"".join(self._parts)
        start = self._start
        try:
            encoded = await asyncio.to_thread(_encoded, body) if body else body
            start = _typed(start, PROTOBUF, None if not body else len(encoded))
        except UnsupportedProtobuf:  # a document without a protobuf form, such as /version
            encoded = body
        await self._send(start)
        await self._send({"type": "http.response.body", "body": encoded})


def _typed(start: Message, content_type: str, length: int | None = None) -> Message:
    headers = [
        (name, value) for name, value in start["headers"] if name != _TYPE and (length is None or name != _LENGTH)
    ]
    headers.insert(0, (_TYPE, content_type.encode()))
    if length is not None:
        headers.append((_LENGTH, str(length).encode()))
    return {**start, "headers": headers}


def _encoded(body: bytes) -> bytes:
    return encode(msgspec.json.decode(body, type=dict))


def _framed(lines: bytes) -> bytes:
    return b"".join(watch_frame(msgspec.json.decode(line)) for line in lines.split(b"\n"))
