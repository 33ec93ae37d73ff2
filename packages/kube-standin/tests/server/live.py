"""A real server for tests: in a thread with its own loop, reached over TLS like any API server."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kube_standin.server.control_plane import ListeningServer, ServeOptions, serving
from tests import manifests
from tests.waiting import DEADLINE

Json = dict[str, Any]


class Live:
    """A running server; ``call`` runs something on its loop."""

    def __init__(self, server: ListeningServer, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self.url = server.url
        self.loop = loop

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = "admin",
        headers: dict[str, str] | None = None,
        raw: bytes | None = None,
    ) -> tuple[int, Any, dict[str, str]]:
        """Send one request; ``token`` is admin, reader, None, or the token itself. Returns status, body, headers."""
        keys = self.server.keys
        known = {"admin": keys.admin_token, "reader": keys.reader_token}
        sent = {"Content-Type": "application/json", **(headers or {})}
        if token is not None:
            sent["Authorization"] = f"Bearer {known.get(token, token)}"
        data = raw if raw is not None else (None if body is None else json.dumps(body).encode())
        request = urllib.request.Request(self.url + path, data, sent, method=method)
        try:
            with urllib.request.urlopen(request, context=self.context, timeout=DEADLINE) as answer:
                return answer.status, _decoded(answer.read(), answer.headers), _lower(answer.headers)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _decoded(error.read(), error.headers), _lower(error.headers)

    @property
    def context(self) -> ssl.SSLContext:
        """Trust in this server's CA and nothing else."""
        if self.server.ca is None:
            return ssl.create_default_context()
        return ssl.create_default_context(cafile=str(self.server.ca))


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _decoded(data: bytes, headers: Any) -> Any:
    if "json" in headers.get("Content-Type", "") and "gzip" not in headers.get("Content-Encoding", ""):
        return json.loads(data) if data else None
    return data


@contextmanager
def live(options: ServeOptions | None = None) -> Iterator[Live]:
    """Serve in a thread while the context lasts."""
    started: threading.Event = threading.Event()
    box: dict[str, Any] = {}

    async def run() -> None:
        stop = asyncio.Event()
        try:
            async with serving(options or ServeOptions()) as server:
                box.update(server=server, loop=asyncio.get_running_loop(), stop=stop)
                started.set()
                await stop.wait()
        except Exception as error:
            box["error"] = error
        finally:
            started.set()

    thread = threading.Thread(target=asyncio.run, args=(run(),), daemon=True)
    thread.start()
    assert started.wait(DEADLINE)
    if "error" in box:
        raise box["error"]
    try:
        yield Live(box["server"], box["loop"])
    finally:
        box["loop"].call_soon_threadsafe(box["stop"].set)
        thread.join(DEADLINE)
        assert not thread.is_alive(), "the server did not stop"


def pod(name: str, **metadata: Any) -> Json:
    """A small pod."""
    return manifests.pod(name, "100m", meta=metadata)


def config_map(name: str, **data: str) -> Json:
    """A config map."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
