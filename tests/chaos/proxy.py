"""Between the scheduler and the API server: refuses, loses, delays and cuts requests, and remembers every binding.

Faults are rates between 0 and 1 that may be changed at any time; `Faults()` lets everything through. What is lost was
carried out all the same: the answer alone is missing. Requests of watches are only refused or cut, never delayed.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass
from types import TracebackType

import aiohttp
import msgspec
from aiohttp import web
from yarl import URL

from reprieve.client.clock import REAL_CLOCK
from reprieve.client.connection import Connection
from reprieve.client.tls import TlsContexts

_HOP_BY_HOP = frozenset({"host", "connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding"})
_REFUSALS = ((500, "InternalError"), (503, "ServiceUnavailable"), (429, "TooManyRequests"), (504, "Timeout"))


@dataclass
class Faults:
    """How much goes wrong. `slowest` is in seconds; `conflicted` are deletions that meet another writer."""

    refused: float = 0.0
    lost: float = 0.0
    delayed: float = 0.0
    slowest: float = 0.0
    conflicted: float = 0.0


class FaultyProxy:
    """An HTTP server on a port of its own; `url` tells where. Forwards to `connection` as the client."""

    def __init__(self, connection: Connection, chance: random.Random) -> None:
        self.faults = Faults()
        self.bound: Counter[tuple[str, str]] = Counter()
        """How often the API server confirmed a binding, by (UID the scheduler named, node)."""
        self.troubled: Counter[str] = Counter()
        """How often what went wrong."""
        self.url = ""
        self._connection = connection
        self._chance = chance
        self._streams: set[asyncio.Task[None]] = set()
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None
        self._ssl = TlsContexts(connection.tls, REAL_CLOCK, "proxy").context(None)

    async def __aenter__(self) -> FaultyProxy:
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=False)
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut_watches(1.0)
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    def cut_watches(self, share: float) -> None:
        """Cut a share of the streams that are open."""
        for task in list(self._streams):
            if self._chance.random() < share:
                self.troubled["watch cut"] += 1
                task.cancel()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        faults, chance = self.faults, self._chance
        if chance.random() < faults.refused:
            return self._refuse(*chance.choice(_REFUSALS))
        if request.method == "DELETE" and chance.random() < faults.conflicted:
            return self._refuse(409, "Conflict")
        watching = "watch=" in request.query_string or request.query.get("watch") in ("1", "true")
        if not watching and chance.random() < faults.delayed:
            self.troubled["delayed"] += 1
            await asyncio.sleep(chance.uniform(0.0, faults.slowest))
        body = await request.read()
        assert self._session is not None
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        url = f"{self._connection.server}{request.raw_path}"
        try:
            answering = self._session.request(
                request.method, URL(url, encoded=True), data=body or None, headers=headers, ssl=self._ssl
            )
            async with answering as answer:
                if watching and answer.status == 200:
                    return await self._stream(request, answer)
                content = await answer.read()
        except aiohttp.ClientError:
            return self._refuse(502, "")
        self._note(request, body, answer.status)
        if request.method != "GET" and chance.random() < faults.lost:
            self.troubled["answer lost"] += 1
            if request.transport is not None:
                request.transport.abort()
        passed = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP}
        if "Content-Encoding" in answer.headers:
            passed["Content-Encoding"] = answer.headers["Content-Encoding"]
        return web.Response(status=answer.status, body=content, headers=passed)

    def _note(self, request: web.Request, body: bytes, status: int) -> None:
        if request.method == "POST" and request.path.endswith("/binding") and 200 <= status < 300:
            binding = msgspec.json.decode(body)
            self.bound[binding["metadata"].get("uid", ""), binding["target"]["name"]] += 1

    def _refuse(self, code: int, reason: str) -> web.Response:
        self.troubled[f"refused {code}"] += 1
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
        headers = {"Retry-After": "1"} if code == 429 else {}
        return web.json_response(status, status=code, headers=headers)

    async def _stream(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(status=200, headers={"Content-Type": answer.headers["Content-Type"]})
        await response.prepare(request)

        async def pump() -> None:
            async for piece in answer.content.iter_any():
                await response.write(piece)

        task = asyncio.get_running_loop().create_task(pump())
        self._streams.add(task)
        try:
            await asyncio.wait((task,))
        finally:
            task.cancel()
            self._streams.discard(task)
            await asyncio.gather(task, return_exceptions=True)
        if request.transport is not None:
            request.transport.abort()
        return response
