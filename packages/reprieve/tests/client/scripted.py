"""A server that does what a test says: answers, cuts, keeps silent."""

from __future__ import annotations

import json
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from reprieve.client.clock import Clock
from reprieve.client.connection import Connection, Identity
from reprieve.client.discovery import Resource
from reprieve.client.transport import ApiClient, Limits
from tests import manifests
from tests.client.clock import FakeClock

Json = dict[str, Any]
Reply = Callable[[web.Request], Awaitable[web.StreamResponse]]
PODS = Resource("", "v1", "pods", "Pod", True)
NODES = Resource("", "v1", "nodes", "Node", False)


@dataclass
class Scripted:
    """`replies` are used up one per request; the last one stays. `seen` are the requests."""

    url: str = ""
    replies: list[Reply] = field(default_factory=list)
    seen: list[web.Request] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request)
        assert self.replies, f"unexpected: {request.method} {request.path_qs}"
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return await reply(request)


@asynccontextmanager
async def scripted(*replies: Reply, tls: ssl.SSLContext | None = None) -> AsyncIterator[Scripted]:
    server = Scripted(replies=list(replies))
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        port = runner.addresses[0][1]
        server.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def client_of(
    server: Scripted,
    *,
    clock: Clock | None = None,
    limits: Limits | None = None,
    identity: Identity | None = None,
    **more: Any,
) -> AsyncIterator[ApiClient]:
    connection = Connection(server=server.url, source="test", identity=identity or Identity(), **more)
    async with ApiClient(
        connection,
        clock=clock or FakeClock(instant=60.0),
        limits=limits or Limits(),
        chance=random.Random(7),
        environment={},
    ) as client:
        yield client


def answer(body: object = None, status: int = 200, **headers: str) -> Reply:
    async def reply(_request: web.Request) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.json_response({} if body is None else body, status=status, headers=named)

    return reply


def text(body: str, status: int = 200) -> Reply:
    async def reply(_request: web.Request) -> web.StreamResponse:
        return web.Response(text=body, status=status, content_type="text/html")

    return reply


def status(code: int, reason: str = "", message: str = "no", retry_after: int | None = None) -> Reply:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
    return answer(body, code, **({} if retry_after is None else {"Retry_After": str(retry_after)}))


async def cut(request: web.Request) -> web.StreamResponse:
    """Close the connection instead of an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def lines(*pieces: Json | bytes, then: str = "end", hold: Awaitable[object] | None = None) -> Reply:
    """A watch: events or raw bytes, and then `end`, `cut`, or `silence` until the client has gone."""

    async def reply(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece if isinstance(piece, bytes) else json.dumps(piece).encode() + b"\n")
        if then == "silence":
            await (hold if hold is not None else _forever())
        if then == "cut":
            assert request.transport is not None
            request.transport.abort()
        return response

    return reply


async def _forever() -> None:
    import asyncio

    await asyncio.get_running_loop().create_future()


def pod(name: str, revision: int, *, uid: str = "", **spec: Any) -> Json:
    meta = {"namespace": "default", "uid": uid or f"uid-{name}", "resourceVersion": str(revision)}
    return manifests.pod(name, meta=meta, **spec)


def event(kind: str, item: Json) -> Json:
    return {"type": kind, "object": item}


def bookmark(revision: int, *, end: bool = False) -> Json:
    meta: Json = {"resourceVersion": str(revision)}
    if end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    return event("BOOKMARK", {"apiVersion": "v1", "kind": "Pod", "metadata": meta})


def gone(code: int = 410, reason: str = "Expired") -> Json:
    return event("ERROR", {"kind": "Status", "code": code, "reason": reason, "message": "too old resource version"})


def page(items: Iterable[Json], revision: int, token: str = "") -> Json:
    return {
        "kind": "PodList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": str(revision), **({"continue": token} if token else {})},
        "items": [{k: v for k, v in item.items() if k not in ("kind", "apiVersion")} for item in items],
    }
