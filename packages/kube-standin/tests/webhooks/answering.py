"""A server of webhooks for tests: TLS on a port of this machine, what it answers is a function of the test."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kube_standin.security import certificates

Json = dict[str, Any]
Respond = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]
NAME = "hooks.system.svc"


def http(body: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    """A response with a Content-Length."""
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


@dataclass
class Hooks:
    """A running server: its port, the bundle that trusts it, and what has come."""

    port: int
    bundle: str
    connections: int = 0
    heads: list[str] = field(default_factory=list)
    bodies: list[Json] = field(default_factory=list)
    open_now: int = 0
    most_open: int = 0

    def config(self, path: str = "/hook") -> Json:
        """A clientConfig with a URL."""
        return {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": self.bundle}

    def service(self, name: str = "hooks") -> Json:
        """A clientConfig with a service."""
        return {"service": {"namespace": "system", "name": name, "path": "/hook"}, "caBundle": self.bundle}


def bundle_of(directory: Path) -> str:
    """The authority made in a directory, as a caBundle."""
    return base64.b64encode((directory / "ca.crt").read_bytes()).decode()


@asynccontextmanager
async def hooks(directory: Path, respond: Respond, names: tuple[str, ...] = (NAME,)) -> AsyncIterator[Hooks]:
    """Serve while the context lasts. `respond` writes the response to each request."""
    made = certificates(directory, names)
    running = Hooks(0, bundle_of(directory))
    tasks: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        running.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(head.lower().split("content-length:")[1].split("\r\n")[0])
                body = await reader.readexactly(length)
                running.heads.append(head)
                running.bodies.append(json.loads(body))
                running.open_now += 1
                running.most_open = max(running.most_open, running.open_now)
                await respond(body, writer)
                running.open_now -= 1
                await writer.drain()
        except (asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            tasks.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=made.context())
    running.port = server.sockets[0].getsockname()[1]
    try:
        yield running
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def echo(body: bytes, writer: asyncio.StreamWriter) -> None:
    """Answer what came."""
    writer.write(http(body))
