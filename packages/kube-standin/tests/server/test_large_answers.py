"""Large bodies and answers, handled beside the event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from kube_standin import worker_thread
from kube_standin.server.app import _while_connected
from kube_standin.server.responses import Reply, send_reply
from kube_standin.worker_thread import NotYetDoneError, OffLoopSteps
from tests.server.inprocess import Plane, running
from tests.server.live import config_map, pod
from tests.server.test_answers import DEPLOYMENTS, MAPS, MERGE, PODS, Json


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """With a config map `there`, a pod `there` and a deployment `there` that asks for two."""
    with running() as made:
        assert made.ask(f"POST {MAPS}", config_map("there")).status == 201
        assert made.ask(f"POST {PODS}", pod("there")).status == 201
        spec = {
            "replicas": 2,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        }
        assert made.ask(f"POST {DEPLOYMENTS}", {"metadata": {"name": "there"}, "spec": spec}).status == 201
        yield made


LARGE = 64 * 1024


@pytest.mark.parametrize("size", [LARGE - 200, LARGE, LARGE + 1, 3 * LARGE])
def test_large_bodies_are_handled_beside_the_loop_with_the_same_result(plane: Plane, size: int) -> None:
    """The sizes around the bound, by every verb that takes a body."""
    name = f"large-{size}"
    body = config_map(name, pad="x" * size)
    made = plane.ask(f"POST {MAPS}", body)
    assert (made.status, len(made.json["data"]["pad"])) == (201, size)
    assert plane.ask(f"GET {MAPS}/{name}").json == made.json
    patched = plane.ask(f"PATCH {MAPS}/{name}", {"data": {"pad": "y" * size}}, content_type=MERGE)
    assert (patched.status, patched.json["data"]["pad"]) == (200, "y" * size)
    small = plane.ask(f"PATCH {MAPS}/{name}", {"data": {"more": "1"}}, content_type=MERGE)
    assert (small.status, small.json["data"]["more"]) == (200, "1")
    put = plane.ask(f"PUT {MAPS}/{name}", body)
    assert (put.status, set(put.json["data"])) == (200, {"pad"})
    unknown = plane.ask(f"PUT {MAPS}/{name}", {**body, "made": "up"})
    assert (unknown.status, unknown.header("warning")) == (200, '299 - "unknown field \\"made\\""')
    assert plane.ask(f"DELETE {MAPS}/{name}").status == 200


def steps_aside(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which steps of writes go off the loop from now on."""
    seen: list[str] = []
    done = OffLoopSteps._done

    def noted(self: OffLoopSteps, step: str, given: object, work: Any) -> Any:
        seen.append(step)
        return done(self, step, given, work)

    monkeypatch.setattr(OffLoopSteps, "_done", noted)
    return seen


def test_small_writes_are_done_where_they_stand(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large ones are not, nor what is small but changes something large."""
    seen = steps_aside(monkeypatch)
    assert plane.ask(f"POST {MAPS}?dryRun=All", config_map("s", a="x" * 1000)).status == 201
    assert not seen
    assert plane.ask(f"POST {MAPS}", config_map("l", a="x" * LARGE)).status == 201
    assert {"ownership", "problems"} <= set(seen)
    seen.clear()
    assert plane.ask(f"PATCH {MAPS}/l", {"data": {"b": "c"}}, content_type=MERGE).status == 200
    assert {"patch", "ownership", "problems"} <= set(seen)
    plane.ask(f"DELETE {MAPS}/l")


def test_write_to_an_object_that_keeps_changing_is_a_conflict(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing() -> None:
        pass

    def never(*_: object, **__: object) -> None:
        raise NotYetDoneError(nothing)

    monkeypatch.setattr(plane.registry, "update_now", never)
    answer = plane.ask(f"PUT {MAPS}/there", config_map("there", a="x" * LARGE))
    code, reason, message = answer.refusal
    assert (code, reason) == (409, "Conflict")
    assert message.startswith('Operation cannot be fulfilled on configmaps "there": the object has been modified')


def test_side_bodies_may_be_large(plane: Plane) -> None:
    body = {"metadata": {"name": "there", "annotations": {"a": "x" * LARGE}}, "target": {"kind": "Node"}}
    refused = plane.ask(f"POST {PODS}/there/binding", body)
    assert (refused.status, refused.json["message"]) == (500, "target.name: Required value")
    plane.ask(f"POST {MAPS}", config_map("gone"))
    raw = json.dumps({"kind": "DeleteOptions", "apiVersion": "v1"}).encode() + b" " * LARGE
    assert plane.ask(f"DELETE {MAPS}/gone", raw=raw).status == 200


def test_answer_is_encoded_no_further_than_its_client_stays(plane: Plane) -> None:
    """interfaces.md 5.7: a client that asks for a list as YAML and leaves costs a slice of it."""
    made: list[int] = []

    def slices() -> Iterator[bytes]:
        for number in range(1000):
            made.append(number)
            yield b"x"

    async def run() -> None:
        left = asyncio.Event()

        async def receive() -> Json:
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if len(made) >= 3:
                left.set()
                await asyncio.sleep(0)

        reply = Reply(200, slices())
        await _while_connected(receive, send_reply(send, reply))

    plane.run(run())
    assert 3 <= len(made) < 20


def test_encoding_that_fails_breaks_the_answer_off(plane: Plane) -> None:
    def slices() -> Iterator[bytes]:
        yield b"x"
        raise RuntimeError("boom")

    async def run() -> None:
        async def receive() -> Json:
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Any) -> None:
            pass

        await _while_connected(receive, send_reply(send, Reply(200, slices())))

    with pytest.raises(RuntimeError, match="boom"):
        plane.run(run())


class Ticking:
    """A clock of which every look at it takes a millisecond."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 0.001
        return self.now


def others_turns(plane: Plane, monkeypatch: pytest.MonkeyPatch, line: str) -> int:
    """How often another task has its turn while a request is answered."""
    monkeypatch.setattr(worker_thread, "time", Ticking())

    async def run() -> int:
        turns, done = 0, False

        async def other() -> None:
            nonlocal turns
            while not done:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.ensure_future(other())
        answer = await plane.asked(line)
        assert answer.status == 200
        done = True
        await beside
        return turns

    return plane.run(run())


@pytest.mark.parametrize(
    "line",
    [
        f"GET {MAPS}?labelSelector=!a",
        f"GET {MAPS}?fieldSelector=metadata.name!=a",
        f"DELETE {MAPS}",
        f"DELETE {MAPS}?labelSelector=!a",
    ],
)
def test_others_have_their_turn_while_many_objects_are_gone_through(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """interfaces.md 5.7: after five milliseconds; the clock here goes by one with every object."""
    with running() as plane:
        for number in range(200):
            plane.create(MAPS, config_map(f"m{number}"))
        assert others_turns(plane, monkeypatch, line) >= 200 // 6
