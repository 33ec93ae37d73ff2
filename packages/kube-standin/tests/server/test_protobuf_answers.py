"""Answers as protobuf for clients that take nothing else (interfaces.md 4.10)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kube_standin.protobuf import decode, wire
from tests.server.inprocess import Answer, Json, Plane, running

PROTOBUF = "application/vnd.kubernetes.protobuf"
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def plane() -> Iterator[Plane]:
    with running() as made:
        yield made


def read(answer: Answer) -> Json:
    """What a protobuf answer says."""
    assert answer.header("content-type") == PROTOBUF
    assert answer.header("content-length") in (None, str(len(answer.body)))
    return decode(answer.body)


def config(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "ä"}}


def test_objects_lists_and_refusals(plane: Plane) -> None:
    """The same as in JSON; also what a write answers, and where nothing is found."""
    made = read(plane.ask(f"POST {MAPS}", config("a"), accept=PROTOBUF))
    assert made == plane.ask(f"GET {MAPS}/a").json
    listed = read(plane.ask(f"GET {MAPS}", accept=PROTOBUF))
    plain = plane.ask(f"GET {MAPS}").json
    assert (listed["kind"], listed["items"]) == ("ConfigMapList", plain["items"])
    missing = plane.ask(f"GET {MAPS}/b", accept=PROTOBUF)
    assert (missing.status, read(missing)["reason"], read(missing)["details"]["name"]) == (404, "NotFound", "b")


@pytest.mark.parametrize(
    ("path", "accept", "status", "content_type"),
    [
        (f"{MAPS}/a", f"{PROTOBUF},application/json", 200, "application/json"),
        (f"{MAPS}/a", f"{PROTOBUF}, */*", 200, "application/json"),
        (f"{MAPS}/a", f"text/html,{PROTOBUF}", 200, PROTOBUF),
        (f"{MAPS}/a", f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1", 406, PROTOBUF),
        ("/version", PROTOBUF, 200, "application/json"),
        ("/apis/apps", PROTOBUF, 200, PROTOBUF),
        ("/apis/apps/v1", PROTOBUF, 200, PROTOBUF),
        ("/metrics", PROTOBUF, 200, "text/plain; version=0.0.4; charset=utf-8"),
    ],
)
def test_protobuf_is_for_clients_that_take_nothing_else(
    plane: Plane, path: str, accept: str, status: int, content_type: str
) -> None:
    """Clients that take JSON as well get JSON, and so do those that ask for what has no protobuf form."""
    plane.create(MAPS, config("a"))
    answer = plane.ask(f"GET {path}", accept=accept)
    assert (answer.status, answer.header("content-type")) == (status, content_type)


def frames(data: bytes) -> list[Json]:
    """Types and objects of the events of a stream."""
    found = []
    while data:
        size, data = int.from_bytes(data[:4], "big"), data[4:]
        event: dict[int, Any] = {number: value for number, _, value in wire.fields(data[:size])}
        data = data[size:]
        [(_, _, raw)] = wire.fields(event[2])
        assert isinstance(raw, bytes)
        found.append({"type": event[1].decode(), "object": decode(raw)})
    return found


def test_watch_sends_frames(plane: Plane) -> None:
    """Initial state, changes and the 410 of a watch that begins too early; each event whole."""
    plane.create(MAPS, config("a"))

    async def run() -> bytes:
        line = f"GET {MAPS}?watch=1&timeoutSeconds=5&sendInitialEvents=true&allowWatchBookmarks=true"
        line += "&resourceVersionMatch=NotOlderThan"
        async with plane.watching(line, accept=PROTOBUF) as watch:
            start = await watch.start()
            assert dict(start["headers"])[b"content-type"] == b"application/vnd.kubernetes.protobuf;stream=watch"
            await plane.asked(f"POST {MAPS}", config("b"))
            while not watch.ended:
                await watch._piece()
            return b"".join(watch.pieces)

    events = frames(plane.run(run()))
    assert [(event["type"], event["object"]["metadata"].get("name")) for event in events] == [
        ("ADDED", "a"),
        ("BOOKMARK", None),
        ("ADDED", "b"),
    ]
    assert events[2]["object"] == plane.ask(f"GET {MAPS}/b").json
