"""Uvicorn for this server: the embedding program stops it, at once and without log noise."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterable
from typing import Any

import uvicorn

from kube_standin.server.connections import BoundedConnection

SHUTDOWN_SECONDS = 3
"""How long requests in flight may take at shutdown, in seconds."""
_IDLE_SECONDS = 0.2
_SHUTDOWN_POLL_SECONDS = 0.005
_DATE_SECONDS = 1.0


_EXPECTED = (
    "without completing response",
    "graceful shutdown exceeded",
    "Unsupported upgrade request",
    "No supported WebSocket library",
)


class ExpectedEnds(logging.Filter):
    """Drops uvicorn's reports about watches that end on purpose and about refused upgrades."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return False for reports about intended behaviour."""
        text = record.getMessage()
        return not any(part in text for part in _EXPECTED)


logging.getLogger("uvicorn.error").addFilter(ExpectedEnds())


class ApiUvicorn(uvicorn.Server):
    """Uvicorn without its own signal handling: the embedding program stops it with `stop`.

    It stops as soon as no request is in flight; uvicorn's own loops check only ten times a second, in three places.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """End `serve` when the requests in flight have been answered, or after `SHUTDOWN_SECONDS`."""
        self.should_exit = True
        self._stopping.set()

    async def main_loop(self) -> None:
        """Keep the Date header up to date until stopped."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DATE_SECONDS):
                    await self._stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting connections, wait for responses, and cancel requests that take too long.

        A client that no longer runs never confirms the end of its TLS connection. Each connection is therefore closed
        after a time: idle ones soon, the others with the requests that take too long.
        """
        for listening in (*self.servers, *(sockets or ())):
            listening.close()
        state, now = self.server_state, asyncio.get_running_loop().time
        await asyncio.sleep(_SHUTDOWN_POLL_SECONDS)  # watches end
        idle = {c for c in state.connections if isinstance(c, BoundedConnection) and c.idle}
        for connection in list(state.connections):
            connection.shutdown()
        begins = now()
        while (state.connections or state.tasks) and now() < begins + SHUTDOWN_SECONDS:
            await asyncio.sleep(_SHUTDOWN_POLL_SECONDS)
            if now() >= begins + _IDLE_SECONDS:
                _abort(idle & state.connections)
        for task in list(state.tasks):
            task.cancel()
        _abort(state.connections)
        await asyncio.sleep(_SHUTDOWN_POLL_SECONDS)

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        """Do not install signal handlers."""
        yield


def _abort(connections: Iterable[Any]) -> None:
    for connection in connections:
        connection.transport.abort()
