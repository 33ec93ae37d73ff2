"""Carrying out bindings: every answer the API may give, and none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from kube_rules.objects import PersistentVolumeClaim
from reprieve.client.discovery import Resource, ServedResources
from reprieve.client.errors import ClientError, UnreachableError
from reprieve.client.leader_election import LeadershipLostError
from reprieve.client.transport import Limits
from reprieve.client.write_queue import WriterPool
from reprieve.cluster.pods import PodRecord
from reprieve.framework.instructions import (
    AwaitObject,
    CallExtender,
    CreateObject,
    DeleteObject,
    Instruction,
    PatchObject,
)
from reprieve.framework.status import SUCCESS, Code, Status
from reprieve.live.binding import Binder
from reprieve.live.writes import Writes
from reprieve.plugins.default_binder import ApiBinding
from reprieve.scheduling.decision import Binding
from reprieve.scheduling.engine import Engine
from tests.building import node, pod
from tests.client.clock import FakeClock, until
from tests.client.scripted import Reply, Scripted, answer, client_of, cut, scripted, status
from tests.waiting import DEADLINE

CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True)


class Outcomes:
    """What the listener was notified of."""

    def __init__(self) -> None:
        self.reported: list[tuple[str, str, str]] = []

    def bound(self, binding: Binding) -> None:
        self.reported.append(("bound", binding.pod.name, ""))

    def failed(self, binding: Binding, error: str, *, pod_deleted: bool, taken_back: bool) -> None:
        how = "gone" if pod_deleted else "taken back" if taken_back else "failed"
        self.reported.append((how, binding.pod.name, error))

    @property
    def how(self) -> list[str]:
        return [reported[0] for reported in self.reported]


class Stage:
    """A binder on a scripted server."""

    def __init__(
        self, server: Scripted, binder: Binder, outcomes: Outcomes, engine: Engine, pool: WriterPool, clock: FakeClock
    ) -> None:
        self.clock = clock
        self.server = server
        self.binder = binder
        self.outcomes = outcomes
        self.engine = engine
        self.pool = pool

    @property
    def asked(self) -> list[str]:
        return [f"{request.method} {request.path.rpartition('/default/')[2]}" for request in self.server.seen]

    def binding(self, *before: Instruction, how: object | None = None) -> Binding:
        """The next pod, decided."""
        decision = self.engine.step(1000.0).decision
        assert decision is not None
        [found] = decision.bindings
        return Binding(found.pod, found.node, found.row, tuple(before), how if how is not None else found.method)

    async def start(self, *before: Instruction, how: object | None = None) -> PodRecord:
        binding = self.binding(*before, how=how)
        self.binder.start(binding)
        return binding.pod

    async def ended(self) -> str:
        await until(lambda: self.outcomes.reported)
        assert self.binder.under_way == 0
        return self.outcomes.how[0]


@asynccontextmanager
async def stage(*replies: Reply, call_extender: Any = None, instant: float = 60.0) -> AsyncIterator[Stage]:
    async with scripted(*replies) as server:
        clock = FakeClock(instant=instant)
        async with client_of(server, clock=clock, limits=Limits(qps=0.0, attempts=1)) as client:
            pool = WriterPool(client, attempts=2)
            served = ServedResources([CLAIMS])
            outcomes, engine = Outcomes(), Engine()
            engine.set(node("n1"), 0.0)
            engine.set(pod("a", cpu=1), 0.0)
            more = {"call_extender": call_extender} if call_extender is not None else {}
            binder = Binder(client, served, Writes(client, served, pool), outcomes, **more)
            try:
                yield Stage(server, binder, outcomes, engine, pool, clock)
            finally:
                await binder.aclose()
                await pool.aclose()


def play(act: Callable[[Stage], Awaitable[None]], *replies: Reply, **named: Any) -> None:
    async def run() -> None:
        async with stage(*replies, **named) as ready:
            await act(ready)

    asyncio.run(run())


def there(uid: str = "uid-a", node_name: str = "") -> Reply:
    return answer({"metadata": {"name": "a", "uid": uid}, "spec": {"nodeName": node_name} if node_name else {}})


@pytest.mark.parametrize(
    ("replies", "outcome"),
    [
        ([answer({}, 201)], "bound"),
        ([status(404, "NotFound")], "gone"),
        ([status(409, "Conflict"), there(node_name="n1")], "bound"),
        ([status(409, "Conflict"), there(node_name="n2")], "failed"),
        ([status(409, "Conflict"), there()], "failed"),
        ([status(422, "Invalid")], "failed"),
        ([status(403, "Forbidden")], "failed"),
        # trouble is waited out
        ([status(500), answer({}, 201)], "bound"),
        ([cut, answer({}, 201)], "bound"),
        # the first went through although no answer came
        ([cut, status(409, "Conflict"), there(node_name="n1")], "bound"),
        # no answer at all: the API is asked where the pod is
        ([cut, cut, there(node_name="n1")], "bound"),
        ([status(500), status(500), there(node_name="n1")], "bound"),
        ([cut, cut, there()], "failed"),
        ([cut, cut, there(node_name="n2")], "failed"),
        ([cut, cut, there(uid="another")], "gone"),
        ([cut, cut, status(404, "NotFound")], "gone"),
        ([cut, cut, status(503), status(500), cut, there(node_name="n1")], "bound"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_answer_means(replies: list[Reply], outcome: str) -> None:
    """scheduling.md 2.4: 409/404 final for this attempt, 5xx and timeouts retried; what is unsure is settled."""

    async def act(ready: Stage) -> None:
        await ready.start(how=ApiBinding("default", "a", "uid-a", "n1"))
        assert await ready.ended() == outcome
        assert len(ready.server.seen) == len(replies)
        assert len(ready.outcomes.reported) == 1

    play(act, *replies)


def test_informer_that_is_quicker_settles_it() -> None:
    """The pod keeps its room while it is unsure; the watch says that it is bound."""

    async def act(ready: Stage) -> None:
        record = await ready.start()
        await until(lambda: "GET pods/a" in ready.asked)
        await asyncio.sleep(0)
        assert ready.outcomes.reported == []
        assert record.row >= 0
        record.bound = True
        assert await ready.ended() == "bound"

    play(act, cut, cut, status(503))


def test_calls_before_a_binding_are_done_in_order() -> None:
    """PreBind (scheduling.md 2): each after the one before; then the bind."""

    async def act(ready: Stage) -> None:
        patch = PatchObject("PersistentVolumeClaim", "default", "c", {"metadata": {"annotations": {"a": "b"}}})
        seen: list[object] = []

        def done(found: object) -> Status:
            seen.append(found)
            return SUCCESS if len(seen) == 2 else Status(Code.WAIT)

        wait = AwaitObject("PersistentVolumeClaim", "default", "c", done, 60.0)
        await ready.start(patch, wait)
        assert await ready.ended() == "bound"
        claim = "persistentvolumeclaims/c"
        assert ready.asked == [f"PATCH {claim}", f"GET {claim}", f"GET {claim}", "POST pods/a/binding"]
        assert seen[0] is None
        assert isinstance(seen[1], PersistentVolumeClaim)

    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "default"}}
    play(act, answer({}), status(404, "NotFound"), answer(claim), answer({}, 201))


def _patch() -> PatchObject:
    return PatchObject("PersistentVolumeClaim", "default", "c", {"metadata": {"annotations": {"a": "b"}}})


def _await(answer_: Status) -> AwaitObject:
    return AwaitObject("PersistentVolumeClaim", "default", "c", lambda _: answer_, 30.0)


@pytest.mark.parametrize(
    ("before", "reply", "says"),
    [
        (_patch(), status(409, "Conflict"), "Conflict"),
        (_await(Status(Code.UNSCHEDULABLE, "lost its claim")), answer({"metadata": {"name": "c"}}), "lost its claim"),
        (_await(Status(Code.WAIT, "not bound yet")), answer({"metadata": {"name": "c"}}), "timed out after 30 s"),
        (_await(SUCCESS), status(403, "Forbidden"), "Forbidden"),
        (PatchObject("StorageClass", "", "s", {}), answer({}), "StorageClass is not served"),
    ],
)
def test_call_that_fails_ends_the_binding(before: Instruction, reply: Reply, says: str) -> None:
    async def act(ready: Stage) -> None:
        await ready.start(before)
        assert await ready.ended() == "failed"
        assert says in ready.outcomes.reported[0][2]
        assert not any(asked.startswith("POST") for asked in ready.asked)

    play(act, reply)


def test_plugin_that_raises_fails_this_binding_alone() -> None:
    def raises(_: object) -> Status:
        raise ZeroDivisionError("by design")

    async def act(ready: Stage) -> None:
        await ready.start(AwaitObject("PersistentVolumeClaim", "default", "c", raises, 30.0))
        assert await ready.ended() == "failed"
        assert "ZeroDivisionError: by design" in ready.outcomes.reported[0][2]

    play(act, answer({"metadata": {"name": "c"}}))


@pytest.mark.parametrize("works", [True, False])
def test_extender_may_bind(works: bool) -> None:
    called: list[Mapping[str, Any]] = []

    async def call(wanted: CallExtender) -> None:
        called.append(wanted.body)
        if not works:
            raise UnreachableError("the extender is not there", sent=False)

    async def act(ready: Stage) -> None:
        await ready.start(how=CallExtender("http://extender/bind", {"podName": "a"}, 5.0))
        assert await ready.ended() == ("bound" if works else "failed")
        assert called == [{"podName": "a"}]
        assert ready.asked == []

    play(act, answer({}), call_extender=call)


def test_binding_that_was_not_sent_can_be_taken_back() -> None:
    """preemption.md 7.2: a victim that is only reserved is released without API calls."""

    async def act(ready: Stage) -> None:
        record = await ready.start()
        assert await ready.binder.take_back(record)
        assert ready.outcomes.how == ["taken back"]
        assert ready.asked == []

    play(act, answer({}, 201))


def test_binding_that_was_sent_is_waited_for() -> None:
    hold = asyncio.Event

    async def run() -> None:
        go = hold()

        async def reply(_request: web.Request) -> web.StreamResponse:
            await go.wait()
            return web.json_response({}, status=201)

        async with stage(reply) as ready:
            record = await ready.start()
            await until(lambda: ready.server.seen)
            taking = asyncio.create_task(ready.binder.take_back(record))
            for _ in range(10):
                await asyncio.sleep(0)
            assert not taking.done()
            go.set()
            assert not await taking
            assert ready.outcomes.how == ["bound"]

    asyncio.run(run())


def test_binding_that_still_waits_for_something_can_be_taken_back() -> None:
    async def act(ready: Stage) -> None:
        record = await ready.start(_await(Status(Code.WAIT)))
        await until(lambda: ready.asked)
        assert await ready.binder.take_back(record)
        assert ready.outcomes.how == ["taken back"]
        assert not any(asked.startswith("POST") for asked in ready.asked)
        assert ready.binder.under_way == 0

    play(act, answer({"metadata": {"name": "c"}}), instant=0.0)


def test_former_leader_reports_nothing() -> None:
    """The engine of a deposed leader decides nothing more, so no report is made."""

    async def act(ready: Stage) -> None:
        await ready.pool.aclose()
        record = await ready.start()
        with pytest.raises(LeadershipLostError):
            await ready.pool.submit("x", lambda: asyncio.sleep(0))
        await until(lambda: ready.binder.under_way == 0)
        assert ready.outcomes.reported == []
        assert record.row >= 0

    play(act, answer({}, 201))


def test_calls_before_a_binding_are_given_up_at_the_end() -> None:
    """An extender that never answers holds up nothing; the outcome of the binding is not reported."""

    async def act(ready: Stage) -> None:
        await ready.start(how=CallExtender("http://extender/bind", {"podName": "a"}, 5.0))
        await until(lambda: called)
        async with asyncio.timeout(DEADLINE):
            await ready.binder.aclose()
        assert ended == ["cancelled"]
        assert ready.outcomes.reported == []

    called: list[CallExtender] = []
    ended: list[str] = []

    async def never(call: CallExtender) -> None:
        called.append(call)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    play(act, call_extender=never)


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("not bound yet", "timed out after 30 s waiting for PersistentVolumeClaim default/c: not bound yet"),
        ("", "timed out after 30 s waiting for PersistentVolumeClaim default/c"),
    ],
)
def test_resource_waited_for_too_long_is_named(reason: str, message: str) -> None:
    """PreBind of VolumeBinding: bindTimeoutSeconds; looked at seldom enough, and given up before it is over."""

    async def act(ready: Stage) -> None:
        clock = ready.clock
        began = clock.monotonic()
        await ready.start(_await(Status(Code.WAIT, reason)))
        assert await ready.ended() == "failed"
        assert ready.outcomes.reported[0][2] == message
        assert 25.0 < clock.monotonic() - began < 30.0
        assert 14 <= len(ready.asked) <= 30, "soon at first, then every two seconds"

    play(act, answer({"metadata": {"name": "c"}}))


@pytest.mark.parametrize(
    ("error", "ignorable", "outcome", "asked"),
    [
        (None, False, "bound", []),
        (None, True, "bound", []),
        (ClientError("no"), False, "failed", []),
        (ClientError("no"), True, "bound", ["POST pods/a/binding"]),
        (UnreachableError("cut", sent=False), True, "bound", ["POST pods/a/binding"]),
        (UnreachableError("cut", sent=True), False, "failed", ["GET pods/a"]),
        (UnreachableError("cut", sent=True, lasting=True), False, "failed", []),
        (ZeroDivisionError("odd"), True, "failed", []),
    ],
    ids=["binds", "binds-ignorable", "refuses", "ignored", "not-there-ignored", "unsure", "unsure-for-good", "breaks"],
)
def test_extender_that_may_be_passed_over_is_none_that_ends_a_binding(
    error: Exception | None, ignorable: bool, outcome: str, asked: list[str]
) -> None:
    """scheduling.md 6: `ignorable`; where its answer is unsure the API is asked where the pod is."""

    async def call(_: CallExtender) -> None:
        if error is not None:
            raise error

    async def act(ready: Stage) -> None:
        await ready.start(how=CallExtender("http://extender/bind", {}, 5.0, ignorable))
        assert await ready.ended() == outcome
        assert ready.asked == asked

    play(act, there() if asked[:1] == ["GET pods/a"] else answer({}, 201), call_extender=call)


def test_without_extenders_a_call_of_one_fails() -> None:
    async def act(ready: Stage) -> None:
        await ready.start(how=CallExtender("http://extender/bind", {}, 5.0))
        assert await ready.ended() == "failed"
        assert ready.outcomes.reported[0][2] == "http://extender/bind: nothing here calls extenders"

    play(act, answer({}))


INSTRUCTIONS: dict[str, tuple[Instruction, list[str]]] = {
    "patch": (_patch(), ["PATCH persistentvolumeclaims/c"]),
    "create": (
        CreateObject("PersistentVolumeClaim", "default", {"metadata": {"name": "c"}}),
        ["POST persistentvolumeclaims"],
    ),
    "delete": (DeleteObject("PersistentVolumeClaim", "default", "c"), ["DELETE persistentvolumeclaims/c"]),
}


@pytest.mark.parametrize("case", INSTRUCTIONS)
@pytest.mark.parametrize("first", [True, False], ids=["before-the-bind", "instead-of-it"])
def test_instructions_come_before_the_bind_or_are_the_bind(case: str, first: bool) -> None:
    """A Bind plugin may have it done by a patch or an object; a deletion is refused."""
    instruction, requests = INSTRUCTIONS[case]

    async def act(ready: Stage) -> None:
        if first:
            await ready.start(instruction)
        else:
            await ready.start(how=instruction)
        assert await ready.ended() == "bound"
        bind = ["POST pods/a/binding"]
        assert ready.asked == (requests + bind if first else bind if case == "delete" else requests)

    play(act, answer({}, 201))


@pytest.mark.parametrize(
    ("replies", "in_time", "how"),
    [
        ([answer({}, 201)], False, ["bound"]),
        ([status(403, "Forbidden")], True, ["failed"]),
        ([status(404, "NotFound")], True, ["gone"]),
        ([cut, cut, status(503)], False, []),
    ],
    ids=["bound", "refused", "gone", "unsure"],
)
def test_binding_that_was_sent_is_taken_back_in_time_if_it_came_to_nothing(
    replies: list[Reply], in_time: bool, how: list[str]
) -> None:
    """As long as it is unsure the pod keeps its capacity, and nothing is reported."""

    async def run() -> None:
        go = asyncio.Event()
        first, *rest = replies

        async def held(request: web.Request) -> web.StreamResponse:
            await go.wait()
            return await first(request)

        async with stage(held, *rest) as ready:
            record = await ready.start()
            await until(lambda: ready.server.seen)
            taking = asyncio.create_task(ready.binder.take_back(record))
            await asyncio.sleep(0)
            go.set()
            assert await taking is in_time
            assert ready.outcomes.how == how

    asyncio.run(run())


def test_pod_that_is_not_being_bound_is_free_at_once() -> None:
    async def act(ready: Stage) -> None:
        assert await ready.binder.take_back(ready.binding().pod)
        assert ready.outcomes.reported == []

    play(act, answer({}))


@pytest.mark.parametrize(
    ("reply", "counts"), [(answer({}, 201), (1, 1, 0)), (status(403, "Forbidden"), (1, 0, 1))], ids=["bound", "failed"]
)
@pytest.mark.parametrize("instructed", [True, False])
def test_bindings_are_counted_by_what_became_of_them(
    reply: Reply, counts: tuple[int, int, int], instructed: bool
) -> None:
    async def act(ready: Stage) -> None:
        assert ready.binder.under_way == 0
        await ready.start(*([_patch()] if instructed else []))
        assert ready.binder.under_way == 1
        await ready.ended()
        found = ready.binder.counts
        assert (found.started, found.bound, found.failed) == counts

    play(act, *([answer({})] if instructed else []), reply)


def test_call_that_ends_after_closing_is_not_reported() -> None:
    async def run() -> None:
        go = asyncio.Event()

        async def held(_: web.Request) -> web.StreamResponse:
            await go.wait()
            return web.json_response({}, status=201)

        async with stage(held) as ready:
            await ready.start()
            await until(lambda: ready.server.seen)
            await ready.binder.aclose()
            go.set()
            await until(lambda: ready.binder.under_way == 0)
            assert ready.outcomes.reported == []

    asyncio.run(run())
