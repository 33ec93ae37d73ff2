"""Watches of a large state or a large past, sent in pieces as it is read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kube_standin.features import EVERY_RELEASE
from kube_standin.server.negotiation import PLAIN
from kube_standin.server.query import watch_options
from kube_standin.server.watch_streams import WatchPace, WatchStream, WatchTimes
from tests.server.inprocess import Plane, running
from tests.server.live import config_map
from tests.server.test_watch_streams import MAPS, PARTIAL, TABLE


@pytest.fixture
def plane() -> Iterator[Plane]:
    with running(features=EVERY_RELEASE) as made:
        yield made


def test_large_past_goes_out_in_pieces_as_it_is_read(plane: Plane) -> None:
    """interfaces.md 5.7: what the client has not read yet is no more than a piece of it."""
    for number in range(40):
        assert plane.ask(f"POST {MAPS}", config_map(f"m{number}", pad="x" * 20_000)).status == 201
    read = asyncio.Event()

    async def run() -> tuple[int, int]:
        kind = plane.registry.kind("v1", "ConfigMap")
        options = watch_options({"resourceVersion": "1", "timeoutSeconds": "5"})
        stream = WatchStream(
            plane.registry, plane.app.renderer, kind, None, options, PLAIN, {}, WatchTimes(), WatchPace(0.01)
        )
        sent: list[int] = []

        async def send(message: Any) -> None:
            sent.append(len(message.get("body", b"")))
            if sent[-1] > 0:
                await read.wait()

        task = asyncio.ensure_future(stream.run(send, asyncio.Event()))
        while not sent or not sent[-1]:
            await asyncio.sleep(0.001)  # by the clock that does not wait
        [subscription] = plane.store._subscriptions["configmaps"]
        left = len(subscription._history)
        read.set()
        await task
        return left, len([size for size in sent if size])

    left, pieces = plane.run(run())
    assert left >= 30
    assert pieces >= 5


@pytest.mark.parametrize("accept", ["", TABLE, PARTIAL])
def test_large_beginning_and_a_large_past_say_the_same_in_each_form(plane: Plane, accept: str) -> None:
    for number in range(100):
        assert plane.ask(f"POST {MAPS}", config_map(f"m{number:03d}", pad="x" * 500)).status == 201
    present = plane.watched(f"GET {MAPS}?watch=1&timeoutSeconds=1", accept=accept)
    past = plane.watched(f"GET {MAPS}?watch=1&timeoutSeconds=1&resourceVersion=1", accept=accept)
    assert len(past) == 100
    assert past == present
