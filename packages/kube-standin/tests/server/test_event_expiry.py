"""Events are deleted when their time to live is over."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from kube_standin.server import control_plane as module
from kube_standin.storage import StorageError
from tests.server.inprocess import Plane, running
from tests.server.live import config_map

Json = dict[str, Any]


EVENTS = "/api/v1/namespaces/default/events"


def event(name: str) -> Json:
    return {
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "reason": "R",
        "message": "m",
        "type": "Normal",
    }


def names(plane: Plane) -> list[str]:
    return [item["metadata"]["name"] for item in plane.ask(f"GET {EVENTS}").json["items"]]


async def minutes(number: float) -> None:
    await asyncio.sleep(number * 60 + 1)


@pytest.mark.parametrize("ttl", [timedelta(hours=1), timedelta(minutes=5)])
def test_events_are_forgotten_when_their_time_is_over(ttl: timedelta) -> None:
    """Looked for once a minute; other objects stay whatever their age is."""
    with running(event_ttl=ttl) as plane:
        plane.run(plane.plane.start())
        assert plane.ask(f"POST {EVENTS}", event("first")).status == 201
        assert plane.ask("POST /api/v1/namespaces/default/configmaps", config_map("m")).status == 201
        plane.clock.forward(1)
        plane.ask(f"POST {EVENTS}", event("second"))
        plane.clock.forward(ttl.total_seconds() - 1)
        plane.run(minutes(1))
        assert names(plane) == ["first", "second"]
        plane.clock.forward(1)
        plane.run(asyncio.sleep(30))
        assert names(plane) == ["first", "second"]
        plane.run(asyncio.sleep(31))
        assert names(plane) == ["second"]
        plane.clock.forward(1)
        plane.run(minutes(1))
        assert names(plane) == []
        assert plane.ask("GET /api/v1/namespaces/default/configmaps/m").status == 200


def test_many_events_are_forgotten_between_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some at a time, so that requests go first; one that is written meanwhile is left to the next time."""
    monkeypatch.setattr(module, "_SWEEP_SLICE", 2)
    with running() as plane:
        for number in range(5):
            plane.ask(f"POST {EVENTS}", event(f"e{number}"))
        plane.clock.forward(3601)

        async def run() -> None:
            await plane.plane.start()
            await asyncio.sleep(0)
            await asyncio.sleep(60)  # as the sweep does, which began to wait a turn before
            for _ in range(20):
                if len(list(plane.store.heads("events"))) < 5:
                    break
                await asyncio.sleep(0)
            assert len(list(plane.store.heads("events"))) == 3
            plane.store.delete(plane.store.head("events", "default", "e4"))  # type: ignore[arg-type]
            for _ in range(20):
                await asyncio.sleep(0)

        plane.run(run())
        assert names(plane) == []


def test_events_that_cannot_be_forgotten_go_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with running() as plane:
        plane.ask(f"POST {EVENTS}", event("e"))
        plane.clock.forward(3601)
        append = plane.store._log.append

        def fail(rows: object) -> None:
            raise StorageError("disk full")

        plane.run(plane.plane.start())
        monkeypatch.setattr(plane.store._log, "append", fail)
        plane.run(minutes(1))
        assert names(plane) == ["e"]
        monkeypatch.setattr(plane.store._log, "append", append)
        plane.run(minutes(1))
        assert names(plane) == []
