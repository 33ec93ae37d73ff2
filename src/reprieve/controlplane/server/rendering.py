"""Objects into answers: plain, as metadata only, as a Table, in JSON or YAML, compressed when large.

Stored bytes are sent as they are wherever the form allows it: a plain object or list in the version it is
stored in is never decoded.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml

from reprieve.api.json import Json
from reprieve.controlplane import errors, tables
from reprieve.controlplane.conversion import differs
from reprieve.controlplane.errors import StatusError
from reprieve.controlplane.kinds import Kind
from reprieve.controlplane.registry import Registry
from reprieve.controlplane.server.negotiation import PLAIN, Answer
from reprieve.controlplane.storage import Stored

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

encode = msgspec.json.Encoder().encode
_META = "meta.k8s.io"
_CHUNK = 256 * 1024
_WARNINGS, _WARNINGS_SIZE, _WARNING_SIZE = 64, 4096, 256
_COMPRESS_FROM = 128 * 1024
"""Answers smaller than this are not compressed (as upstream)."""


class _MetadataOnly(msgspec.Struct):
    metadata: msgspec.Raw


_decode_metadata = msgspec.json.Decoder(_MetadataOnly).decode


@dataclass
class Reply:
    """An answer ready to be sent. ``body`` is bytes, or pieces for large lists."""

    status: int
    body: bytes | Sequence[bytes]
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    warnings: Sequence[str] = ()


def warning_text(message: str) -> str:
    """Return a message as the value of a Warning header."""
    escaped = message.replace("\\", "\\\\").replace('"', '\\"')
    clean = "".join(char if char.isprintable() else " " for char in escaped)
    return f'299 - "{clean}"'


def warning_headers(messages: Sequence[str]) -> list[bytes]:
    """Return the Warning headers of some messages, each once.

    Clients bound what they read of headers (Python: 100 headers; proxies: bytes), so there are bounds here, the
    amounts as upstream's: where all are longer than 4,096 characters together each is cut to 256, and when those
    are used up, or 64 headers are, the rest is left out.
    """
    texts = list(dict.fromkeys(messages))
    if sum(map(len, texts)) > _WARNINGS_SIZE:
        texts = [text[:_WARNING_SIZE] for text in texts]
    out: list[bytes] = []
    size = 0
    for text in texts[:_WARNINGS]:
        size += len(text)
        if size > _WARNINGS_SIZE:
            break
        out.append(warning_text(text).encode("utf-8"))
    return out


async def send_reply(send: Send, reply: Reply, *, gzip: bool = False, head: bool = False) -> None:
    """Send an answer whole, or piece by piece and compressed if it is large."""
    headers = [(b"content-type", reply.content_type.encode()), (b"cache-control", b"no-cache, private")]
    headers.extend((name.lower().encode(), value.encode("utf-8")) for name, value in reply.headers.items())
    headers.extend((b"warning", value) for value in warning_headers(reply.warnings))
    pieces = [reply.body] if isinstance(reply.body, bytes) else reply.body
    size = sum(map(len, pieces))
    if gzip and size >= _COMPRESS_FROM:
        headers.append((b"content-encoding", b"gzip"))
        headers.append((b"vary", b"Accept-Encoding"))
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        async for chunk in _compressed(pieces):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return
    headers.append((b"content-length", str(size).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    if head or size <= _CHUNK:
        await send({"type": "http.response.body", "body": b"" if head else b"".join(pieces)})
        return
    for chunk in chunks(pieces):
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def chunks(pieces: Iterable[bytes], least: int = _CHUNK) -> Iterable[bytes]:
    """Join small pieces so that each send is worth its while."""
    gathered: list[bytes] = []
    size = 0
    for piece in pieces:
        gathered.append(piece)
        size += len(piece)
        if size >= least:
            yield b"".join(gathered)
            gathered, size = [], 0
    if gathered:
        yield b"".join(gathered)


async def _compressed(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Gzip in a worker thread, so that other requests go on meanwhile."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    for chunk in chunks(pieces):
        packed = await asyncio.to_thread(packer.compress, chunk)
        if packed:
            yield packed
    yield packer.flush()


def error_reply(error: StatusError, answer: Answer = PLAIN) -> Reply:
    """Return a refusal: always a plain Status, whatever form was asked for."""
    headers = dict(error.headers)
    retry = (error.details or {}).get("retryAfterSeconds")
    if retry is not None:
        headers.setdefault("Retry-After", str(retry))
    return Reply(error.code, _dump(error.to_json(), answer.yaml), answer.content_type, headers, error.warnings)


def _dump(value: Json, as_yaml: bool, pretty: bool = False) -> bytes:
    if as_yaml:
        return yaml.dump(value, Dumper=yaml.CSafeDumper, sort_keys=True, allow_unicode=True).encode()
    data = encode(value)
    return msgspec.json.format(data, indent=2) if pretty else data


class SharedLines:
    """Watch events encoded a moment ago, so that many watchers of one change share its bytes; bounded."""

    def __init__(self, limit: int = 8 * 1024 * 1024) -> None:
        self._limit = limit
        self._size = 0
        self._lines: dict[Any, bytes] = {}

    def get(self, key: Any) -> bytes | None:
        """Return the line of ``key`` if it is still there."""
        return self._lines.get(key)

    def put(self, key: Any, line: bytes) -> None:
        """Remember a line; the oldest ones make room."""
        self._lines[key] = line
        self._size += len(line)
        while self._size > self._limit and len(self._lines) > 1:
            oldest = next(iter(self._lines))
            self._size -= len(self._lines.pop(oldest))


class Renderer:
    """Rendering for the kinds of one registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.lines = SharedLines()

    # -- pieces --------------------------------------------------------------------------------------------

    @staticmethod
    def raw_head(kind: Kind) -> bytes:
        """Return what goes in front of stored bytes to make a whole object of them."""
        return b'{"kind":"%s","apiVersion":"%s",' % (kind.kind.encode(), kind.api_version.encode())

    def raw_object(self, kind: Kind, state: Stored) -> bytes:
        """Return the JSON of one stored object in the version of ``kind``."""
        if not differs(kind):
            return self.raw_head(kind) + state.raw[1:]
        return encode(self._registry.view(kind, state))

    def raw_partial(self, state: Stored, version: str, *, headed: bool = True) -> bytes:
        """Return the JSON of the metadata of one stored object."""
        metadata = bytes(_decode_metadata(state.raw).metadata)
        head = b'"kind":"PartialObjectMetadata","apiVersion":"%s/%s",' % (_META.encode(), version.encode())
        return b"{" + (head if headed else b"") + b'"metadata":' + metadata + b"}"

    def _raw_item(self, kind: Kind, state: Stored) -> bytes:
        if kind.custom:
            return self.raw_object(kind, state)
        if not differs(kind):
            return state.raw
        obj = self._registry.view(kind, state)
        del obj["kind"], obj["apiVersion"]
        return encode(obj)

    # -- answers -------------------------------------------------------------------------------------------

    def one(self, kind: Kind, obj: Json, answer: Answer, query: Mapping[str, str], status: int = 200) -> Reply:
        """Answer one object given as a dict (any kind of object if the form is plain)."""
        if answer.form == "partial":
            obj = tables.partial_object(obj, answer.version)
        elif answer.form == "table":
            obj = self.table(kind, [obj], {"resourceVersion": obj["metadata"].get("resourceVersion", "")}, query)
        elif answer.form == "partial-list":
            raise StatusError(
                406,
                "NotAcceptable",
                f"you requested PartialObjectMetadataList, but the requested object is not a list (*{kind.kind})",
            )
        return self.document(obj, answer, query, status)

    @staticmethod
    def document(obj: Json, answer: Answer, query: Mapping[str, str], status: int = 200) -> Reply:
        """Answer a dict as it is."""
        return Reply(status, _dump(obj, answer.yaml, "pretty" in query), answer.content_type)

    def stored(self, kind: Kind, state: Stored, answer: Answer, query: Mapping[str, str]) -> Reply:
        """Answer one stored object, without decoding it if that can be."""
        if answer == PLAIN and "pretty" not in query:
            return Reply(200, self.raw_object(kind, state))
        return self.one(kind, self._registry.view(kind, state), answer, query)

    def table(self, kind: Kind, items: Sequence[Json], list_meta: Json, query: Mapping[str, str]) -> Json:
        """Return a Table of objects; raises 400 for an unknown ``includeObject``."""
        include = query.get("includeObject", "") or "Metadata"
        if include not in ("Metadata", "Object", "None"):
            raise errors.bad_request(
                "Unable to convert to Table as requested: includeObject: Invalid value: "
                f"\"{include}\": must be 'Metadata', 'Object', 'None', or empty"
            )
        return tables.table(
            kind, list(items), include_object=include, now=self._registry.clock.now(), list_meta=list_meta
        )

    def many(
        self, kind: Kind, states: Sequence[Stored], list_meta: Json, answer: Answer, query: Mapping[str, str]
    ) -> Reply:
        """Answer a list."""
        match answer.form:
            case "partial":
                group = kind.group.split(".")[0] or "core"
                raise StatusError(
                    406,
                    "NotAcceptable",
                    f"you requested PartialObjectMetadata, but the requested object is a list "
                    f"(*{group}.{kind.list_kind})",
                )
            case "table":
                items = [self._registry.view(kind, state) for state in states]
                return self.document(self.table(kind, items, list_meta, query), answer, query)
            case "partial-list":
                head = (f"{_META}/{answer.version}", "PartialObjectMetadataList")
                raws = [self.raw_partial(state, answer.version) for state in states]
            case _:
                head = (kind.api_version, kind.list_kind)
                raws = [self._raw_item(kind, state) for state in states]
        start = b'{"kind":"%s","apiVersion":"%s","metadata":%s,"items":[' % (
            head[1].encode(),
            head[0].encode(),
            encode(list_meta),
        )
        pieces = [start]
        for raw in raws:
            pieces.append(raw)
            pieces.append(b",")
        if raws:
            pieces.pop()
        pieces.append(b"]}")
        if answer.yaml or "pretty" in query:
            whole: Json = msgspec.json.decode(b"".join(pieces))
            return self.document(whole, answer, query)
        return Reply(200, pieces)
