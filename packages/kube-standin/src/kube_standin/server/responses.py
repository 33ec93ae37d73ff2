"""Responses from objects: plain, as metadata only, as a Table, in JSON or YAML, compressed when large.

Stored bytes are sent unchanged wherever the form allows it: a plain object or list in its storage version is never
decoded. Large responses that have to be encoded are encoded in slices while they are sent (`slices`).
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from kube_rules.errors import excerpt
from kube_rules.json import Json
from kube_standin import errors, tables
from kube_standin.conversion import differs, is_raw
from kube_standin.errors import StatusError
from kube_standin.kinds import ServedKind
from kube_standin.registry import ObjectRegistry
from kube_standin.server.negotiation import PLAIN, AnswerForm
from kube_standin.server.slices import (
    INLINE_BYTES,
    Notation,
    as_json,
    as_pretty_json,
    as_yaml,
    encode,
    is_large,
    json_line,
    sliced,
    yaml_bytes,
)
from kube_standin.storage import StoredObject
from kube_standin.worker_thread import Turn, encoded

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_META = "meta.k8s.io"
_CHUNK = 256 * 1024
"""Bytes that are compressed at a time."""
PIECE = 32 * 1024
"""Approximate bytes per write. A connection keeps written data, also in encrypted form, until the client reads it."""
_WARNINGS, _WARNINGS_SIZE, _WARNING_SIZE = 64, 4096, 256
_COMPRESS_FROM = 128 * 1024
"""Responses smaller than this are not compressed (as upstream)."""


class _MetadataOnly(msgspec.Struct):
    metadata: msgspec.Raw


_decode_metadata = msgspec.json.Decoder(_MetadataOnly).decode


@dataclass
class Reply:
    """A response to send. ``body`` is bytes, pieces for large lists, or slices that are encoded one by one."""

    status: int
    body: bytes | Sequence[bytes] | Iterator[bytes]
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    warnings: Sequence[str] = ()

    @property
    def is_sliced(self) -> bool:
        """Return whether the body is not encoded yet."""
        return isinstance(self.body, Iterator)


def warning_text(message: str) -> str:
    """Return a message as the value of a Warning header."""
    escaped = message.replace("\\", "\\\\").replace('"', '\\"')
    clean = "".join(char if char.isprintable() else " " for char in escaped)
    return f'299 - "{clean}"'


def warning_headers(messages: Sequence[str]) -> list[bytes]:
    """Return the Warning headers of some messages, each once.

    Clients limit the headers that they read (Python: 100 headers; proxies: bytes), so there are upstream's limits here:
    if the messages have more than 4,096 characters together, each is cut to 256. After 64 headers, or at the limit of
    characters, further messages are dropped.
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
    """Send a response whole, or piece by piece and compressed if it is large."""
    if reply.status == 204:
        headers = [(b"cache-control", b"no-cache, private")]
        await send({"type": "http.response.start", "status": 204, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
        return
    own_headers = {name.lower(): value for name, value in reply.headers.items()}
    single = {"content-type": reply.content_type, "cache-control": "no-cache, private", **own_headers}
    headers = [(name.encode(), value.encode("utf-8")) for name, value in single.items()]
    headers.extend((b"warning", value) for value in warning_headers(reply.warnings))
    if isinstance(reply.body, Iterator):
        await _send_slices(send, reply, headers, encoded(reply.body), gzip=gzip)
        return
    pieces = [reply.body] if isinstance(reply.body, bytes) else reply.body
    size = sum(map(len, pieces))
    if gzip and size >= _COMPRESS_FROM:
        headers.append((b"content-encoding", b"gzip"))
        headers.append((b"vary", b"Accept-Encoding"))
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await _send_chunks(send, _compressed(in_turns(chunks(pieces, _CHUNK))))
        return
    headers.append((b"content-length", str(size).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    if head or size <= PIECE:
        await send({"type": "http.response.body", "body": b"" if head else b"".join(pieces)})
        return
    await _send_chunks(send, in_turns(chunks(pieces, PIECE)))


async def _send_slices(
    send: Send, reply: Reply, headers: list[tuple[bytes, bytes]], slices: AsyncIterator[bytes], *, gzip: bool
) -> None:
    """Send a response of unknown length."""
    if gzip:
        headers = [*headers, (b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]
        slices = _compressed(slices)
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await _send_chunks(send, slices)


async def _send_chunks(send: Send, parts: AsyncIterator[bytes]) -> None:
    await send_parts(send, parts)
    await send({"type": "http.response.body", "body": b""})


async def send_parts(send: Send, parts: AsyncIterator[bytes]) -> None:
    """Send parts of an unfinished response in pieces of at most twice `PIECE` (interfaces.md 5.7)."""
    async for part in parts:
        step = PIECE if len(part) > 2 * PIECE else max(1, len(part))  # an empty part is not sent
        for start in range(0, len(part), step):
            await send({"type": "http.response.body", "body": part[start : start + step], "more_body": True})


async def in_turns(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Yield chunks and let other tasks run between them: sending waits only if the client does not read."""
    turn = Turn()
    for chunk in pieces:
        yield chunk
        await turn.over()


def chunks(pieces: Iterable[bytes], least: int) -> Iterable[bytes]:
    """Join small pieces into chunks of at least ``least`` bytes."""
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


async def _compressed(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Compress with gzip in a worker thread, so that other requests continue meanwhile."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    async for chunk in parts:
        packed = await asyncio.to_thread(packer.compress, chunk)
        if packed:
            yield packed
    yield packer.flush()


def error_reply(error: StatusError) -> Reply:
    """Return the response of a refusal: always a plain Status, whatever form was requested."""
    headers = dict(error.headers)
    retry = (error.details or {}).get("retryAfterSeconds")
    if retry is not None:
        headers.setdefault("Retry-After", str(retry))
    return Reply(error.code, json_line(error.to_json()), PLAIN.content_type, headers, error.warnings)


def _dump(value: Json, in_yaml: bool, pretty: bool = False) -> bytes:
    if in_yaml:
        return yaml_bytes(value)
    data = encode(value)
    return msgspec.json.format(data, indent=2) if pretty else data


class SharedLines:
    """Recently encoded watch events, so that many watchers of one change share the bytes; bounded."""

    def __init__(self, limit: int = 8 * 1024 * 1024) -> None:
        self._limit = limit
        self._size = 0
        self._lines: dict[Any, bytes] = {}

    def get(self, key: Any) -> bytes | None:
        """Return the line of ``key``, None if it was dropped."""
        return self._lines.get(key)

    def put(self, key: Any, line: bytes) -> None:
        """Store a line and drop the oldest ones beyond the limit."""
        self._lines[key] = line
        self._size += len(line)
        while self._size > self._limit and len(self._lines) > 1:
            oldest = next(iter(self._lines))
            self._size -= len(self._lines.pop(oldest))


class Renderer:
    """Responses for the kinds of one registry."""

    def __init__(self, registry: ObjectRegistry) -> None:
        self._registry = registry
        self.lines = SharedLines()

    # -- pieces --------------------------------------------------------------------------------------------

    @staticmethod
    def raw_head(kind: ServedKind) -> bytes:
        """Return the head that turns stored bytes into a whole object."""
        return b'{"kind":"%s","apiVersion":"%s",' % (kind.kind.encode(), kind.api_version.encode())

    def raw_object(self, kind: ServedKind, state: StoredObject) -> bytes:
        """Return the JSON of one stored object in the version of ``kind``."""
        if is_raw(kind, state):
            return self.raw_head(kind) + state.raw[1:]
        return encode(self._registry.view(kind, state))

    def raw_partial(self, state: StoredObject, version: str) -> bytes:
        """Return the JSON of the metadata of one stored object."""
        metadata = bytes(_decode_metadata(state.raw).metadata)
        head = b'"kind":"PartialObjectMetadata","apiVersion":"%s/%s",' % (_META.encode(), version.encode())
        return b"{" + head + b'"metadata":' + metadata + b"}"

    def _raw_item(self, kind: ServedKind, state: StoredObject) -> bytes:
        if kind.custom:
            return self.raw_object(kind, state)
        if not differs(kind):
            return state.raw
        obj = self._registry.view(kind, state)
        del obj["kind"], obj["apiVersion"]
        return encode(obj)

    # -- answers -------------------------------------------------------------------------------------------

    def one(
        self, kind: ServedKind, obj: Json, answer: AnswerForm, query: Mapping[str, str], status: int = 200
    ) -> Reply:
        """Return the response with one object as a dict (of any kind if the form is plain)."""
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
    def document(obj: Json, answer: AnswerForm, query: Mapping[str, str], status: int = 200) -> Reply:
        """Return the response with a dict."""
        pretty = "pretty" in query
        data = encode(obj)
        if not answer.yaml and not pretty:
            return Reply(status, data + b"\n")
        if len(data) <= INLINE_BYTES:
            return Reply(status, _dump(obj, answer.yaml, pretty), answer.content_type)
        later = (_dump(msgspec.json.decode(data), answer.yaml, pretty) for _ in (data,))
        return Reply(status, later, answer.content_type)

    def plain(self, kind: ServedKind, state: StoredObject, status: int = 200) -> Reply:
        """Answer one stored object as JSON in the version of ``kind``."""
        return Reply(status, self.raw_object(kind, state) + b"\n")

    def stored(self, kind: ServedKind, state: StoredObject, answer: AnswerForm, query: Mapping[str, str]) -> Reply:
        """Return the response with one stored object, without decoding it if possible."""
        if answer == PLAIN and "pretty" not in query:
            return self.plain(kind, state)
        if answer.form == "table":
            return self._table_of(kind, [state], {"resourceVersion": str(state.revision)}, answer, query)
        return self.one(kind, self._registry.view(kind, state), answer, query)

    def table(self, kind: ServedKind, items: Sequence[Json], list_meta: Json, query: Mapping[str, str]) -> Json:
        """Return a Table of objects; raises 400 for an unknown ``includeObject``."""
        now, include = self._registry.clock.now(), _included(query)
        return tables.table(kind, list(items), include_object=include, now=now, list_meta=list_meta)

    def _table_of(
        self,
        kind: ServedKind,
        states: Sequence[StoredObject],
        list_meta: Json,
        answer: AnswerForm,
        query: Mapping[str, str],
    ) -> Reply:
        """Return the response with the Table of stored objects; raises 400."""
        envelope = self.table(kind, [], list_meta, query)
        del envelope["rows"]
        now, include = self._registry.clock.now(), _included(query)
        make_row = tables.row_maker(kind, include_object=include, now=now)

        def row(state: StoredObject) -> bytes:
            return encode(make_row(self._registry.view(kind, state)))

        return self._listed(envelope, "rows", states, row, answer, query)

    @staticmethod
    def _listed(
        envelope: Json,
        field: str,
        states: Sequence[StoredObject],
        item: Callable[[StoredObject], bytes],
        answer: AnswerForm,
        query: Mapping[str, str],
    ) -> Reply:
        """Return the response with a list of the JSON items of ``item``: at once if it is small, else in slices."""
        notation: Notation = as_yaml if answer.yaml else as_pretty_json if "pretty" in query else as_json
        notated = notation(envelope, field, sliced(states, item))
        return Reply(200, notated if is_large(states) else b"".join(notated), answer.content_type)

    def many(
        self,
        kind: ServedKind,
        states: Sequence[StoredObject],
        list_meta: Json,
        answer: AnswerForm,
        query: Mapping[str, str],
    ) -> Reply:
        """Return the response with a list."""
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
                return self._table_of(kind, states, list_meta, answer, query)
            case "partial-list":
                envelope = _envelope("PartialObjectMetadataList", f"{_META}/{answer.version}", list_meta)
                version = answer.version
                return self._listed(
                    envelope, "items", states, lambda state: self.raw_partial(state, version), answer, query
                )
            case _:
                envelope = _envelope(kind.list_kind, kind.api_version, list_meta)
        if answer.yaml or "pretty" in query or not all(is_raw(kind, state) for state in states):
            return self._listed(envelope, "items", states, partial(self._raw_item, kind), answer, query)
        pieces: list[bytes] = [encode(envelope)[:-1] + b',"items":[']
        head = self.raw_head(kind)
        for state in states:
            if kind.custom:
                pieces.append(head)
                pieces.append(memoryview(state.raw)[1:])  # type: ignore[arg-type]
            else:
                pieces.append(state.raw)
            pieces.append(b",")
        if states:
            pieces.pop()
        pieces.append(b"]}\n")
        return Reply(200, pieces)


def _envelope(kind: str, api_version: str, list_meta: Json) -> Json:
    return {"kind": kind, "apiVersion": api_version, "metadata": list_meta}


def _included(query: Mapping[str, str]) -> str:
    """Return the part of objects that a Table includes beside its cells; raises 400."""
    include = query.get("includeObject", "") or "Metadata"
    if include not in ("Metadata", "Object", "None"):
        raise errors.bad_request(
            "Unable to convert to Table as requested: includeObject: Invalid value: "
            f"\"{excerpt(include)}\": must be 'Metadata', 'Object', 'None', or empty"
        )
    return include
