"""A server that is started and stopped: nothing is left open, whenever it is stopped."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from kube_standin.server import serving as module
from kube_standin.server.serving import ServeOptions, serving
from tests.waiting import DEADLINE


@pytest.fixture
def sockets(monkeypatch: pytest.MonkeyPatch) -> list[socket.socket]:
    """Every socket that had a port."""
    made: list[socket.socket] = []
    listen: Callable[[str, int], socket.socket] = module._bound

    def noted(host: str, port: int) -> socket.socket:
        made.append(listen(host, port))
        return made[-1]

    monkeypatch.setattr(module, "_bound", noted)
    return made


def test_a_start_that_is_cancelled_leaves_nothing_open(sockets: list[socket.socket]) -> None:
    """At whatever turn of the event loop that is."""

    async def cancelled_after(turns: int) -> bool:
        served = asyncio.Event()

        async def serve() -> None:
            async with serving(ServeOptions(tls=False)):
                served.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(serve())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return served.is_set()

    async def run() -> None:
        turns = 1
        while not await cancelled_after(turns):
            assert len(sockets) == turns
            assert sockets[-1].fileno() == -1
            turns += 1
        assert turns > 3
        assert sockets[-1].fileno() == -1

    asyncio.run(run())


def test_keys_that_cannot_be_read_leave_nothing_open(sockets: list[socket.socket], tmp_path: Path) -> None:
    (tmp_path / "pki").write_text("a file where a directory should be")

    async def run() -> None:
        with pytest.raises((OSError, ValueError)):
            async with serving(ServeOptions(data_dir=tmp_path)):
                raise AssertionError("it must not serve")

    asyncio.run(run())
    assert all(found.fileno() == -1 for found in sockets)


def test_requests_under_way_are_answered_before_it_stops() -> None:
    """And it stops as soon as they are: an open watch is ended, an idle connection closed."""

    async def run() -> None:
        async with serving(ServeOptions(tls=False)) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            head = f"GET /api/v1/pods?watch=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.keys.admin_token}"
            writer.write(f"{head}\r\n\r\n".encode())
            assert b"200" in await reader.readline()
        rest = await asyncio.wait_for(reader.read(), DEADLINE)
        assert rest.endswith(b"0\r\n\r\n"), "the watch ended as it should"
        writer.close()
        await writer.wait_closed()

    asyncio.run(run())
