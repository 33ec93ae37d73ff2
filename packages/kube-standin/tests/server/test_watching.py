"""Watches over the wire: bookmarks, ends, slow watchers, and every change once and in order for every watcher."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from kube_standin.server.control_plane import ListeningServer, ServeOptions, serving
from kube_standin.server.watch_streams import WatchTimes
from kube_standin.storage.store import StoreLimits
from tests.server.live import config_map
from tests.waiting import DEADLINE

MAPS = "/api/v1/namespaces/default/configmaps"


class Client:
    """An aiohttp session against one server."""

    def __init__(self, server: ListeningServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    async def post(self, path: str, body: Any) -> dict[str, Any]:
        async with self.session.post(self.server.url + path, json=body) as answer:
            assert answer.status in (200, 201), await answer.text()
            return dict(await answer.json())

    async def patch(self, path: str, body: Any) -> dict[str, Any]:
        headers = {"Content-Type": "application/merge-patch+json"}
        async with self.session.patch(self.server.url + path, data=json.dumps(body), headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            return dict(await answer.json())

    async def watch(self, path: str, query: str) -> AsyncIterator[dict[str, Any]]:
        async with self.session.get(f"{self.server.url}{path}?watch=true&{query}") as answer:
            assert answer.status == 200, await answer.text()
            async for line in answer.content:
                yield json.loads(line)

    async def collect(self, path: str, query: str) -> list[dict[str, Any]]:
        return [event async for event in self.watch(path, query)]


@asynccontextmanager
async def client(options: ServeOptions | None = None) -> AsyncIterator[Client]:
    """A server over plain HTTP and a session that may do everything."""
    async with serving(options or ServeOptions(tls=False)) as server:
        headers = {"Authorization": f"Bearer {server.keys.admin_token}"}
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, headers=headers, read_bufsize=2**20) as session:
            yield Client(server, session)


def test_bookmarks_come_on_time_and_only_if_requested() -> None:
    async def run() -> None:
        times = WatchTimes(bookmark=0.05)
        async with client(ServeOptions(tls=False, times=times)) as c:
            plain = asyncio.create_task(c.collect(MAPS, "resourceVersion=1"))
            asked = []
            async with asyncio.timeout(DEADLINE):
                async for event in c.watch(MAPS, "resourceVersion=1&allowWatchBookmarks=true"):
                    asked.append(event["type"])
                    if len(asked) == 3:
                        break
            c.server.control_plane.store.end_subscriptions("configmaps")
            assert asked == ["BOOKMARK"] * 3
            assert await plain == []

    asyncio.run(run())


def test_expired_watch_is_an_error_event_and_the_end() -> None:
    """Recorded answer 618."""

    async def run() -> None:
        async with client() as c:
            await c.post(MAPS, config_map("a"))
            store = c.server.control_plane.store
            store.compact(store.revision)
            events = await c.collect(MAPS, "resourceVersion=1")
        assert [(e["type"], e["object"]["code"], e["object"]["reason"]) for e in events] == [("ERROR", 410, "Expired")]

    asyncio.run(run())


def test_every_watcher_sees_every_change_once_in_order() -> None:
    async def run() -> None:
        writers, rounds, watchers = 6, 40, 8
        total = writers * rounds
        async with client() as c:
            listing = await (await c.session.get(c.server.url + MAPS)).json()
            since = listing["metadata"]["resourceVersion"]

            async def watcher(number: int) -> list[tuple[str, str, int]]:
                # Half of them start late, from the list's revision: they must see the past as well.
                await asyncio.sleep(0.02 * (number % 4))
                seen: list[tuple[str, str, int]] = []
                async for event in c.watch(MAPS, f"resourceVersion={since}"):
                    metadata = event["object"]["metadata"]
                    seen.append((event["type"], metadata["name"], int(metadata["resourceVersion"])))
                    if len(seen) == total:
                        break
                return seen

            async def writer(number: int) -> None:
                name = f"w{number}"
                await c.post(MAPS, config_map(name))
                for turn in range(rounds - 1):
                    await c.patch(f"{MAPS}/{name}", {"data": {"turn": str(turn)}})

            tasks = [asyncio.create_task(watcher(number)) for number in range(watchers)]
            await asyncio.gather(*(writer(number) for number in range(writers)))
            async with asyncio.timeout(DEADLINE):
                seen = await asyncio.gather(*tasks)
        revisions = [revision for _, _, revision in seen[0]]
        assert revisions == sorted(set(revisions))
        assert all(other == seen[0] for other in seen)
        for number in range(writers):
            mine = [kind for kind, name, _ in seen[0] if name == f"w{number}"]
            assert mine == ["ADDED"] + ["MODIFIED"] * (rounds - 1)

    asyncio.run(run())


def test_slow_watcher_is_dropped_and_others_do_not_notice() -> None:
    """A watcher that stops reading gets 410 (or is cut off) and costs no more than its own bounded buffer."""

    async def run() -> None:
        limits = StoreLimits(watch_events=50, watch_bytes=2_000_000)
        times = WatchTimes(farewell=0.5)
        async with client(ServeOptions(tls=False, limits=limits, times=times)) as c:
            host, port = c.server.url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
            token = c.server.keys.admin_token
            request = (
                f"GET {MAPS}?watch=true&resourceVersion=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
            )
            writer.write(request.encode())
            await writer.drain()
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
            number = 200
            quick = asyncio.create_task(c.collect(MAPS, "resourceVersion=1"))
            await c.post(MAPS, config_map("a"))
            store = c.server.control_plane.store
            for turn in range(number):
                await c.patch(f"{MAPS}/a", {"data": {"pad": "x" * 50_000, "turn": str(turn)}})
            async with asyncio.timeout(DEADLINE):
                while len(store._subscriptions["configmaps"]) > 1:
                    await asyncio.sleep(0.01)
            store.end_subscriptions("configmaps")
            events = await quick
            assert len(events) == number + 1
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    asyncio.run(run())


def test_server_stops_with_watches_open() -> None:
    async def run() -> int:
        async with contextlib.AsyncExitStack() as stack:
            async with serving(ServeOptions(tls=False)) as server:
                headers = {"Authorization": f"Bearer {server.keys.admin_token}"}
                session = await stack.enter_async_context(aiohttp.ClientSession(headers=headers))
                c = Client(server, session)
                watch = asyncio.create_task(c.collect(MAPS, "resourceVersion=1"))
                await c.post(MAPS, config_map("a"))
                store = server.control_plane.store
                while "configmaps" not in store._subscriptions:
                    await asyncio.sleep(0.001)
            return len(await watch)  # the stream ended properly: nothing is raised

    assert asyncio.run(asyncio.wait_for(run(), DEADLINE)) <= 1
