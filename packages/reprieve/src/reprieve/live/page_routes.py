"""The routes of the page: `/ui/` and `/ui/api/v1/` (page.md 7). They only read; the server decides about access.

| path | response | |---|---| | `/ui/`, `/ui/NAME` | the client: the same for all readers, without data of the cluster |
| `/ui/api/v1/page` | the document with a tag; 304 if the client already has it | | `/ui/api/v1/page?at=TIME` | the
document at a past time; 404 if nothing so old is stored | | `/ui/api/v1/events` | server-sent events: the tag of each
new document | | `/ui/api/v1/whatif` | POST: a plan, as a document |
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from reprieve.live.page_history import PageHistory
from reprieve.live.page_plans import MOST_BYTES, PagePlans, QuestionError
from reprieve.live.page_snapshots import BusyError, PageSnapshots, encoded, namespaces_of
from reprieve.observability.database.location import RecordsAwayError
from reprieve.page.html import SITE_POLICY, client_files

API: Final = "/ui/api/v1"
HEARTBEAT: Final = 15.0
"""Seconds after which a silent stream sends a heartbeat."""
_SLOW: Final = 10.0
"""How long a watcher may take to receive a tag, in seconds."""
_TYPES: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_HEADERS: Final = {
    "Content-Security-Policy": SITE_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}

Guard = Callable[[web.Request, bool], Awaitable[web.Response | None]]
"""(request, whether it is for data) -> the refusal, or None."""
Rights = Callable[[web.Request, Sequence[str]], Awaitable[frozenset[str] | None]]
"""(request, namespaces) -> the namespaces that its reader may see, None: all."""


class PageRoutes:
    """The routes of the page; see the module docstring."""

    def __init__(
        self, snapshots: PageSnapshots, plans: PagePlans | None = None, history: PageHistory | None = None
    ) -> None:
        self._snapshots = snapshots
        self._plans = plans
        self._history = history
        self._looking_back = asyncio.Lock()
        self._guard: Guard = _never
        self._rights: Rights = _nothing

    def add_to(self, app: web.Application, guard: Guard, rights: Rights) -> None:
        """Add the routes to a server, which decides about access."""
        self._guard, self._rights = guard, rights
        app.on_shutdown.append(self._end)
        app.router.add_get("/ui", self._redirect)
        app.router.add_get("/ui/", self._client)
        app.router.add_get("/ui/{name:[a-z_]+[.](?:js|css)}", self._client)
        app.router.add_get(f"{API}/page", self._page)
        app.router.add_get(f"{API}/events", self._events)
        app.router.add_post(f"{API}/whatif", self._what_if)

    async def _end(self, _: web.Application) -> None:
        await self._snapshots.close()

    async def _redirect(self, request: web.Request) -> web.Response:
        return web.Response(status=308, headers={**_HEADERS, "Location": "/ui/"})

    async def _client(self, request: web.Request) -> web.Response:
        if (refused := await self._guard(request, False)) is not None:
            return refused
        name = request.match_info.get("name", "index.html")
        text = client_files().get(name)
        if text is None:
            return web.Response(status=404, text="Not Found\n", headers=_HEADERS)
        kind = _TYPES[name.rpartition(".")[2]]
        return web.Response(text=text, content_type=kind, charset="utf-8", headers=_HEADERS)

    async def _page(self, request: web.Request) -> web.Response:
        if (refused := await self._guard(request, True)) is not None:
            return refused
        try:
            if (at := request.query.get("at")) is not None:
                return await self._past(request, at)
            page = await self._snapshots.page(await self._seen(request))
        except (BusyError, RecordsAwayError):
            return _busy()
        headers = {**_HEADERS, "ETag": page.tag, "Vary": "Authorization", "Content-Encoding": "gzip"}
        if request.headers.get("If-None-Match") == page.tag:
            del headers["Content-Encoding"]
            return web.Response(status=304, headers=headers)
        return web.Response(body=page.body, content_type="application/json", headers=headers)

    async def _past(self, request: web.Request, at: str) -> web.Response:
        """Return the page at a past time; one request at a time. Raises RecordsAwayError, BusyError."""
        try:
            seconds = datetime.fromisoformat(at[:40]).astimezone(UTC).timestamp()
        except (ValueError, OverflowError):
            return web.Response(status=400, text="at: expected a time, 2026-01-31T12:00:00Z\n", headers=_HEADERS)
        if self._looking_back.locked():
            raise BusyError
        async with self._looking_back:
            document = await self._history.page(seconds) if self._history is not None else None
            if document is None:
                text = f"no state of the cluster is kept from {at[:40]} or before\n"
                return web.Response(status=404, text=text, headers=_HEADERS)
            namespaces = await self._rights(request, namespaces_of(document))
            body = (await asyncio.to_thread(encoded, document, namespaces)).body
        headers = {**_HEADERS, "Vary": "Authorization", "Content-Encoding": "gzip"}
        return web.Response(body=body, content_type="application/json", headers=headers)

    async def _seen(self, request: web.Request) -> frozenset[str] | None:
        """Return the namespaces that the reader may see; None: all."""
        return await self._rights(request, await self._snapshots.namespaces())

    async def _events(self, request: web.Request) -> web.StreamResponse:
        if (refused := await self._guard(request, True)) is not None:
            return refused
        try:
            async with self._snapshots.watched() as news:
                return await self._stream(request, news)
        except BusyError:
            return _busy()

    async def _stream(self, request: web.Request, news: Callable[[float], Awaitable[bool]]) -> web.StreamResponse:
        """Send tags until the client disconnects, is too slow, or loses its access."""
        stream = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
        await stream.prepare(request)
        sent = ""
        try:
            while not self._snapshots.closed and await self._guard(request, True) is None:
                tag = (await self._snapshots.page(await self._seen(request))).tag
                line = b": here\n\n" if tag == sent else f"event: page\ndata: {tag}\n\n".encode()
                sent = tag
                async with asyncio.timeout(_SLOW):
                    await stream.write(line)
                await news(HEARTBEAT)
        except (TimeoutError, ConnectionError, BusyError):
            pass
        return stream

    async def _what_if(self, request: web.Request) -> web.Response:
        if (refused := await self._guard(request, True)) is not None:
            return refused
        if _is_foreign(request) or request.content_type != "application/json":
            return web.Response(status=403, text="expected JSON from the page itself\n", headers=_HEADERS)
        if self._plans is None:
            return web.Response(status=501, text="this scheduler answers no questions\n", headers=_HEADERS)
        try:
            if await self._seen(request) is not None:
                text = "a plan names every object: it needs the right to list the pods of all namespaces\n"
                return web.Response(status=403, text=text, headers=_HEADERS)
            answer = await self._plans.answer(await _body(request))
        except BusyError:
            return _busy()
        except QuestionError as error:
            return web.Response(status=error.status, text=f"{error}\n", headers=_HEADERS)
        return web.Response(body=answer, content_type="application/json", headers=_HEADERS)


async def _body(request: web.Request) -> bytes:
    """Return the body. Raises QuestionError beyond `MOST_BYTES`."""
    parts, size = [], 0
    async for part in request.content.iter_chunked(1 << 16):
        size += len(part)
        if size > MOST_BYTES:
            raise QuestionError(f"expected at most {MOST_BYTES} bytes", 413)
        parts.append(part)
    return b"".join(parts)


def _is_foreign(request: web.Request) -> bool:
    """Return whether the request comes from a page of another origin."""
    origin = request.headers.get("Origin")
    return origin is not None and urlsplit(origin).netloc != request.headers.get("Host", "")


def _busy() -> web.Response:
    return web.Response(status=503, text="busy; try again\n", headers={**_HEADERS, "Retry-After": "5"})


async def _never(request: web.Request, data: bool) -> web.Response | None:
    return web.Response(status=403)


async def _nothing(request: web.Request, namespaces: Sequence[str]) -> frozenset[str] | None:
    return frozenset()
