"""Whatever is cut, an informer reports every change once and in order; what it could not see it makes up for."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from itertools import pairwise
from typing import Any

from aiohttp import web
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kube_rules.objects import Pod
from reprieve.client.informer import Change, ChangeKind, Informer, InformerOptions
from reprieve.client.watch import _lines
from tests.client.clock import FakeClock, until
from tests.client.scripted import PODS, Json, bookmark, client_of, event, gone, page, pod, scripted

NAMES = ("a", "b", "c")


class Model:
    """An API server of one resource: a history, served as lists and watches that a plan of faults cuts."""

    def __init__(self, steps: list[tuple[str, bool]], faults: list[tuple[str, int]], watch_list: bool) -> None:
        self.steps = steps
        self.faults = faults
        self.watch_list = watch_list
        self.history: list[tuple[int, str, Json]] = []
        self.alive: dict[str, Json] = {}
        self.revision = 10
        self.births = 0
        self.forgotten = 0
        self.served = 0

    def step(self) -> None:
        """The next change: create, update or delete."""
        name, deleting = self.steps.pop(0)
        self.revision += 1
        known = self.alive.get(name)
        if known is None:
            self.births += 1
            made = pod(name, self.revision, uid=f"u{self.births}")
            self.alive[name] = made
            self.history.append((self.revision, "ADDED", made))
        elif deleting:
            del self.alive[name]
            self.history.append((self.revision, "DELETED", pod(name, self.revision, uid=known["metadata"]["uid"])))
        else:
            made = pod(name, self.revision, uid=known["metadata"]["uid"])
            self.alive[name] = made
            self.history.append((self.revision, "MODIFIED", made))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.served += 1
        fault, after = self.faults.pop(0) if self.faults else ("none", 0)
        if "watch" not in request.query:
            return web.json_response(page(self.alive.values(), self.revision))
        initial = "sendInitialEvents" in request.query
        if initial and not self.watch_list:
            return web.json_response({"kind": "Status", "code": 422, "reason": "Invalid"}, status=422)
        response = web.StreamResponse()
        await response.prepare(request)
        sent = 0

        async def send(*items: Any) -> None:
            nonlocal sent
            for item in items:
                data = json.dumps(item).encode() + b"\n"
                if fault == "cut" and sent == after:
                    await response.write(data[: len(data) // 2])
                    assert request.transport is not None
                    request.transport.abort()
                    raise ConnectionResetError
                if fault == "garbage" and sent == after:
                    await response.write(b"{]\n")
                await response.write(data)
                sent += 1

        if initial:
            await send(*(event("ADDED", item) for item in list(self.alive.values())), bookmark(self.revision, end=True))
            since = self.revision
        else:
            since = int(request.query["resourceVersion"])
            if fault == "gone":
                self.forgotten = self.revision
            if since < self.forgotten:
                await send(gone())
                return response
        if fault == "replay":  # a server behind a balancer, a little behind: it repeats
            since = max(since - 2, self.forgotten)
        while True:
            for revision, kind, item in [entry for entry in self.history if entry[0] > since]:
                await send(event(kind, item))
                since = revision
            if fault == "bookmark":
                await send(bookmark(since))
            if fault == "end" and sent >= after:
                return response
            if self.steps:
                self.step()
            else:
                await asyncio.sleep(0.002)


FAULTS = st.tuples(
    st.sampled_from(["none", "cut", "cut", "end", "gone", "garbage", "replay", "bookmark"]), st.integers(0, 4)
)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    steps=st.lists(st.tuples(st.sampled_from(NAMES), st.booleans()), max_size=30),
    faults=st.lists(FAULTS, max_size=8),
    watch_list=st.booleans(),
)
def test_every_change_once_and_in_order(
    steps: list[tuple[str, bool]], faults: list[tuple[str, int]], watch_list: bool
) -> None:
    asyncio.run(_check(list(steps), list(faults), watch_list))


async def _check(steps: list[tuple[str, bool]], faults: list[tuple[str, int]], watch_list: bool) -> None:
    lossless = all(kind not in ("gone", "garbage") for kind, _ in faults)
    model = Model(steps, faults, watch_list)
    changes: list[Change[Pod]] = []
    async with scripted(model.handle) as server, client_of(server, clock=FakeClock(instant=60.0)) as client:
        synced: list[int] = []
        informer = Informer(
            client,
            PODS,
            Pod,
            changes.append,
            options=InformerOptions(first_silence=100.0),
            on_synced=lambda: synced.append(int(informer.revision or 0)),
            on_trouble=lambda _: None,
        )
        task = asyncio.create_task(informer.run())
        await until(lambda: not model.steps and informer.revision == str(model.revision) and _same(informer, model))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    state: dict[str, Pod] = {}
    for change in changes:
        name = change.object.name
        known = state.get(name)
        if change.kind is ChangeKind.ADDED:
            assert known is None, "added twice"
            assert change.old is None
            state[name] = change.object
        elif change.kind is ChangeKind.UPDATED:
            assert known is not None
            assert change.old is known
            assert known.metadata.uid == change.object.metadata.uid, "another object is no update"
            assert _revision(known) < _revision(change.object), "an older state after a newer one"
            state[name] = change.object
        else:
            assert known is not None, "deleted twice"
            assert known.metadata.uid == change.object.metadata.uid
            del state[name]
    assert state == {item.name: item for item in informer.objects.values()}
    reported = Counter((change.kind, change.object.name, _revision(change.object)) for change in changes)
    assert not reported or max(reported.values()) == 1
    if lossless and informer.synced:
        # The server forgot nothing: from the first whole state on every single change was reported.
        told_revisions = {_revision(change.object) for change in changes}
        assert [r for r, _, _ in model.history if r > synced[0] and r not in told_revisions] == []


class Pieces:
    """A stream that comes in the given pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def piece(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    def received(self) -> None:
        """As the guard of a stream: no stream is silent here."""


@given(cuts=st.lists(st.integers(1, 400), max_size=12), blank=st.booleans())
def test_however_the_bytes_arrive_the_events_are_the_same(cuts: list[int], blank: bool) -> None:
    events = [event("ADDED", pod(f"p{number}", number)) for number in range(5)]
    data = (b"\n\n" if blank else b"\n").join(json.dumps(item).encode() for item in events) + b"\n"
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces: Any = Pieces([data[start:end] for start, end in pairwise(places)] + [b'{"type": "half'])
    received: list[Any] = []
    asyncio.run(_lines(pieces, pieces, lambda found: received.append(json.loads(bytes(found.object))), "here"))
    assert received == [item["object"] for item in events]


def _revision(item: Pod) -> int:
    return int(item.metadata.resource_version)


def _same(informer: Informer[Pod], model: Model) -> bool:
    mine = {item.name: item.metadata.resource_version for item in informer.objects.values()}
    return mine == {name: item["metadata"]["resourceVersion"] for name, item in model.alive.items()}
