"""What becomes of decisions: who is notified of what, and what goes back to the engine (scheduling.md 2, 3.6)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from reprieve.api import objects as o
from reprieve.client.discovery import Resource, Served
from reprieve.client.errors import ApiError
from reprieve.client.informer import Change, ChangeKind
from reprieve.client.transport import ApiClient
from reprieve.cluster.pods import PodRecord
from reprieve.framework.gates import FeatureGates
from reprieve.framework.instructions import CreateObject, PatchObject
from reprieve.framework.plugin import CycleState, PerNodeFilter
from reprieve.live.decision_executor import DecisionExecutor
from reprieve.live.loop import SchedulingLoop, SteadyTime
from reprieve.live.outages import Outages
from reprieve.observability.logs import Log
from reprieve.observability.metrics import Metrics
from reprieve.scheduling.decision import Binding, Decision, GroupCondition, Rejection, Result
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions

from ..building import profile_with
from ..client.clock import FakeClock, until
from .executor import Watched
from .faults import Json, group, node, pod
from .scene import Recorded

GROUPS = Resource("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup", True)


def the_group(least: int) -> Json:
    made = group("g", count=least)
    made["metadata"]["uid"] = "uid-g"
    return made


class Calls(Recorded):
    """Also keeps bindings and patches of objects; each binding ends when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.bindings: dict[str, asyncio.Future[None]] = {}
        self.patched: list[PatchObject] = []
        self.taken: list[str] = []

    def bind(self, pod: PodRecord, node: str) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.bindings[pod.name] = future
        return future

    def take_back(self, uid: str) -> asyncio.Future[None] | None:
        self.taken.append(uid)
        future = self.bindings.get(uid.removeprefix("uid-"))
        if future is not None:
            future.cancel()
        return None

    def patch_object(self, instruction: PatchObject) -> asyncio.Future[None]:
        self.patched.append(instruction)
        return self._answer()


class Seen(Watched):
    """What the observer was told."""

    def __init__(self) -> None:
        super().__init__(metrics=Metrics(), log=Log(-1))
        self.heard: list[tuple[str, Any]] = []

    def tick(self, now: float) -> None:
        super().tick(now)
        self.heard.append(("tick", now))

    def bound(self, pod: PodRecord, node: str, *, now: float) -> None:
        super().bound(pod, node, now=now)
        self.heard.append(("bound", (pod.name, node)))

    def bind_failed(self, pod: PodRecord, node: str, message: str, *, now: float) -> None:
        super().bind_failed(pod, node, message, now=now)
        self.heard.append(("bind failed", (pod.name, message)))

    def told(self, what: str) -> list[Any]:
        return [found for name, found in self.heard if name == what]


class Loop(SchedulingLoop):
    """The loop, as far as the executor knows it: calls are made at once."""

    def __init__(self, clock: FakeClock) -> None:
        self.time = SteadyTime(clock)

    def call_soon(self, call: Callable[[float], None]) -> None:
        call(self.time())

    async def calls_made(self) -> None:
        pass


class Client(ApiClient):
    """Has a clock, and makes no calls."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock


class Stage:
    """An engine with a node of four CPUs, and who carries its decisions out."""

    def __init__(self, engine: Engine | None = None) -> None:
        self.clock = FakeClock()
        self.engine = engine or Engine(EngineOptions(validate=True))
        self.writes = Calls()
        self.observer = Seen()
        self.observer.attach(self.engine)
        client = Client(self.clock)
        outages = Outages(self.clock, self.observer)
        self.executor = DecisionExecutor(self.engine, client, Served([]), self.writes, self.observer, outages)
        self.executor.attach(Loop(self.clock))
        self.engine.set_node(msgspec.convert(node("n1"), o.Node), self.now)

    @property
    def now(self) -> float:
        return self.clock.now().timestamp()

    def see(self, body: Json, kind: type[Any] = o.Pod, how: ChangeKind = ChangeKind.ADDED) -> Any:
        """An informer tells the engine and the executor."""
        item = msgspec.convert(body, kind)
        if kind is o.Pod:
            if how is ChangeKind.DELETED:
                self.engine.pod_gone(item.metadata.uid, self.now)
            else:
                self.engine.set_pod(item, self.now)
        elif kind is o.PodGroup:
            if how is ChangeKind.DELETED:
                self.engine.remove_group(item.key, self.now)
            else:
                self.engine.set_group(item, self.now)
        elif kind is o.CompositePodGroup:
            self.engine.set_composite(item, self.now)
        self.executor.object_changed(Change(how, item, None), GROUPS)
        return item

    def pod(self, name: str, **more: Any) -> None:
        self.see(pod(name, uid=f"uid-{name}", **more))

    def gang(self, *names: str, least: int, cpu: str = "1") -> None:
        self.see(the_group(least), o.PodGroup)
        for name in names:
            self.pod(name, group="g", cpu=cpu)

    def step(self) -> Decision:
        decision = self.engine.step(self.now)
        assert decision is not None
        self.executor.decided(decision, seconds=0.01, now=self.now)
        return decision

    async def settle(self) -> None:
        await until(lambda: not self.executor.bindings_under_way)
        await self.executor.conditions_written(5.0)

    @property
    def said(self) -> list[tuple[str, str]]:
        """Status and message of the group's conditions, as written."""
        return [(condition["status"], condition["message"]) for _, condition, _ in self.writes.groups]


def play(test: Callable[[Stage], Awaitable[None]], engine: Engine | None = None) -> None:
    async def run() -> None:
        stage = Stage(engine)
        try:
            await test(stage)
        finally:
            await stage.executor.aclose()

    asyncio.run(run())


def test_a_binding_that_the_api_has_is_told_to_everybody() -> None:
    async def test(stage: Stage) -> None:
        stage.pod("a", cpu="1")
        stage.step()
        await until(lambda: "a" in stage.writes.bindings)
        assert stage.executor.bindings_under_way == 1
        assert not stage.engine.cluster.pods["uid-a"].bound
        stage.writes.bindings["a"].set_result(None)
        await stage.settle()
        assert stage.observer.told("bound") == [("a", "n1")]
        assert stage.engine.cluster.pods["uid-a"].bound
        assert stage.executor.first_bindings_under_way == 0

    play(test)


def test_a_pod_whose_binding_failed_says_so() -> None:
    """By its condition and by an event; one that is gone meanwhile has nothing to say."""

    why = "binding rejected: no (403 Forbidden)"

    async def test(stage: Stage) -> None:
        for name in ("a", "b"):
            stage.pod(name, cpu="1")
            stage.step()
        await until(lambda: len(stage.writes.bindings) == 2)
        stage.writes.bindings["a"].set_exception(ApiError(403, "Forbidden", "no"))
        await until(lambda: stage.executor.bindings_under_way == 1)
        stage.writes.bindings["b"].set_exception(ApiError(404, "NotFound", "no"))
        await stage.settle()
        assert stage.observer.told("bind failed") == [("a", why)]
        said = [
            (uid, patch["conditions"][0]["reason"], patch["conditions"][0]["message"])
            for uid, patch in stage.writes.pods
        ]
        assert said == [("uid-a", "SchedulerError", why)]
        assert stage.engine.cluster.pods["uid-a"].row < 0

    play(test)


@pytest.mark.parametrize(("failing", "below"), [(1, False), (2, True)])
def test_a_gang_that_falls_below_its_minimum_by_a_binding_says_so(failing: int, below: bool) -> None:
    """scheduling.md 3.6: three were placed of a gang of two; its word is taken back when fewer than two are left."""

    async def test(stage: Stage) -> None:
        stage.gang("a", "b", "c", least=2)
        stage.step()
        assert stage.executor.first_bindings_under_way == 1
        await until(lambda: len(stage.writes.bindings) == 3)
        names = ["a", "b", "c"]
        for name in names[:failing]:
            stage.writes.bindings[name].set_exception(ApiError(403, "Forbidden", "no"))
        for name in names[failing:]:
            stage.writes.bindings[name].set_result(None)
        await stage.settle()
        assert stage.executor.first_bindings_under_way == 0
        assert [status for status, _ in stage.said][-1] == ("False" if below else "True")
        if below:
            assert "failed: no (403 Forbidden); 1 of the 2 have a node" in stage.said[-1][1]

    play(test)


@pytest.mark.parametrize(
    ("needed", "failing", "expected"),
    [
        (1, ("a",), {"uid-left": "False", "uid-mid": "False", "uid-right": "True", "uid-root": "True"}),
        (2, ("a",), {"uid-left": "False", "uid-mid": "False", "uid-right": "True", "uid-root": "False"}),
        (2, (), dict.fromkeys(("uid-left", "uid-mid", "uid-right", "uid-root"), "True")),
    ],
)
def test_composites_above_a_gang_that_falls_below_its_minimum_say_so(
    needed: int, failing: tuple[str, ...], expected: dict[str, str]
) -> None:
    """scheduling.md 3.6 and composite.md 5: up to where enough other groups have their pods."""

    def composite(name: str, least: int, parent: str = "") -> Json:
        spec = {"schedulingPolicy": {"gang": {"minGroupCount": least}}, "parentCompositePodGroupName": parent}
        return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}, "spec": spec}

    def leaf(name: str, parent: str) -> Json:
        made = group(name, count=1)
        made["metadata"]["uid"] = f"uid-{name}"
        made["spec"]["parentCompositePodGroupName"] = parent
        return made

    async def test(stage: Stage) -> None:
        stage.see(composite("root", needed), o.CompositePodGroup)
        stage.see(composite("mid", 1, "root"), o.CompositePodGroup)
        stage.see(leaf("left", "mid"), o.PodGroup)
        stage.see(leaf("right", "root"), o.PodGroup)
        for name, where in (("a", "left"), ("b", "right")):
            stage.pod(name, cpu="1", group=where)
        while len(stage.writes.bindings) < 2:
            stage.step()
            await asyncio.sleep(0)
        for name, future in stage.writes.bindings.items():
            if name in failing:
                future.set_exception(ApiError(403, "Forbidden", "no"))
            else:
                future.set_result(None)
        await stage.settle()
        assert {uid: said["status"] for uid, said, _ in stage.writes.groups} == expected

    play(test)


def test_a_member_that_came_later_takes_nothing_back() -> None:
    """3.6 is about the pods that the group was first scheduled with."""

    async def test(stage: Stage) -> None:
        stage.gang("a", least=1)
        stage.step()
        await until(lambda: stage.writes.bindings)
        stage.writes.bindings["a"].set_result(None)
        await stage.settle()
        stage.pod("b", group="g", cpu="1")
        stage.step()
        assert stage.executor.first_bindings_under_way == 0
        await until(lambda: "b" in stage.writes.bindings)
        stage.see(pod("a", uid="uid-a", group="g", cpu="1", node="n1"), o.Pod, ChangeKind.DELETED)
        stage.writes.bindings["b"].set_exception(ApiError(403, "Forbidden", "no"))
        await stage.settle()
        assert [status for status, _ in stage.said] == ["True"]

    play(test)


def test_a_group_that_is_gone_is_forgotten_with_its_bindings() -> None:
    async def test(stage: Stage) -> None:
        stage.gang("a", "b", least=2)
        stage.step()
        assert stage.executor.first_bindings_under_way == 1
        stage.see(the_group(2), o.PodGroup, ChangeKind.DELETED)
        assert stage.executor.first_bindings_under_way == 0
        for future in stage.writes.bindings.values():
            future.set_exception(ApiError(403, "Forbidden", "no"))
        await stage.settle()
        assert stage.said == []

    play(test)


def test_what_an_informer_tells_reaches_the_conditions() -> None:
    """A pod that is gone before its word was sent has none; one that is seen has one; groups alike."""

    async def test(stage: Stage) -> None:
        stage.pod("a", cpu="9")
        stage.pod("b", cpu="9")
        stage.gang("c", "d", least=2, cpu="9")
        for _ in range(3):
            stage.step()
        stage.see(pod("b", uid="uid-b", cpu="9"), o.Pod, ChangeKind.DELETED)
        stage.see(the_group(2), o.PodGroup, ChangeKind.DELETED)
        await stage.settle()
        assert "uid-a" in {uid for uid, _ in stage.writes.pods}
        assert "uid-b" not in {uid for uid, _ in stage.writes.pods}
        assert stage.writes.groups == []

    play(test)


def test_it_looks_around_for_what_no_event_tells() -> None:
    """Series of events end, pods behind a gate say so, plugins in trouble are told; what was left is resumed once."""

    class Broken(PerNodeFilter):
        name = "Broken"

        def filter_node(self, state: CycleState, row: int) -> tuple[str, bool] | None:
            raise ZeroDivisionError("by design")

    profile = profile_with(Broken())

    async def test(stage: Stage) -> None:
        target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        unit = group("u", count=1, everything=True)
        unit["metadata"]["uid"] = "uid-u"
        unit["status"] = {"conditions": [target]}
        stage.see(unit, o.PodGroup)
        for name in ("x", "y"):
            body = pod(name, uid=f"uid-{name}", group="u", node="n1") | {"status": {"conditions": [target]}}
            if name == "y":
                body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            stage.see(body)
        stage.pod("waits", group="nowhere")
        stage.clock.advance(6)
        for _ in range(2):
            stage.executor.tick(stage.now)
            await stage.settle()
        assert stage.observer.told("tick") == [stage.now] * 2
        assert stage.writes.deleted == ["uid-x"], "a unit past the point of no return is finished, once"
        assert [uid for uid, _ in stage.writes.pods] == ["uid-waits"]
        stage.pod("a", cpu="1")
        stage.step()
        assert [text for text in stage.observer.troubles if text.startswith("plugin: ")]

    play(test, Engine(EngineOptions({profile.name: profile}, validate=True)))


def test_a_group_that_may_not_be_tried_gives_its_nominations_up_after_a_while() -> None:
    """Five seconds behind its gate: a killed scheduler may have left them, or the other members may be yet to come."""

    async def test(stage: Stage) -> None:
        stage.see(the_group(2), o.PodGroup)
        stage.see(pod("a", uid="uid-a", group="g") | {"status": {"nominatedNodeName": "n1"}})
        nominated = []
        for seconds in (4.9, 0.2):
            stage.clock.advance(seconds)
            stage.executor.tick(stage.now)
            nominated.append(stage.engine.cluster.pods["uid-a"].nominated >= 0)
        assert nominated == [True, False]
        assert [found.name for found in stage.engine.take_unnominated()] == ["a"]

    play(test)


@pytest.mark.parametrize("error", [None, ApiError(409, "Conflict", "somebody else wrote")])
def test_a_deferred_write_that_fails_is_told_and_left_at_that(error: Exception | None) -> None:
    async def test(stage: Stage) -> None:
        stage.writes.errors = [error] if error else []
        wanted = PatchObject("PersistentVolumeClaim", "default", "c", {"metadata": {}})
        stage.executor.deferred_writes([wanted, CreateObject("PersistentVolumeClaim", "default", {})])
        await asyncio.sleep(0)
        assert stage.writes.patched == [wanted]
        assert stage.observer.troubles == (["write: somebody else wrote (409 Conflict)"] if error else [])
        stage.writes.hold = True
        stage.executor.deferred_writes([wanted])
        stage.writes.held[0].cancel()
        await asyncio.sleep(0)
        assert len(stage.observer.troubles) == (1 if error else 0)

    play(test)


def test_what_permit_plugins_have_decided_is_carried_out() -> None:
    async def test(stage: Stage) -> None:
        stage.pod("a", cpu="1")
        stage.pod("b", cpu="1")
        records = stage.engine.cluster.pods
        stage.executor.permitted(
            [Binding(records["uid-a"], "n1", 0)], [Rejection(records["uid-b"], "Unschedulable", "not today")]
        )
        await until(lambda: list(stage.writes.bindings) == ["a"])
        stage.writes.bindings["a"].set_result(None)
        await stage.settle()
        assert stage.observer.told("bind failed") == [("b", "not today")]
        assert [(uid, patch["conditions"][0]["message"]) for uid, patch in stage.writes.pods] == [
            ("uid-b", "not today")
        ]

    play(test)


def test_conditions_are_waited_for_but_not_for_ever() -> None:
    async def test(stage: Stage) -> None:
        stage.pod("a", cpu="9")
        stage.step()
        stage.writes.hold = True
        await stage.executor.conditions_written(0.0)
        waiting = asyncio.create_task(stage.executor.conditions_written(1e6))
        await until(lambda: stage.writes.held)
        assert not waiting.done()
        stage.writes.held[0].set_result(None)
        await waiting

    play(test)


def test_nominations_that_ended_are_taken_back() -> None:
    async def test(stage: Stage) -> None:
        stage.see(pod("a", uid="uid-a", cpu="9") | {"status": {"nominatedNodeName": "n1"}})
        stage.executor.unnominated([stage.engine.cluster.pods["uid-a"]])
        await stage.settle()
        assert stage.writes.pods == [("uid-a", {"nominatedNodeName": None})]

    play(test)


@pytest.mark.parametrize("asynchronous", [True, False])
def test_victims_are_evicted_beside_or_within_the_cycle(asynchronous: bool) -> None:
    """preemption.md 7.6: without SchedulerAsyncPreemption it is the loop that waits for the calls."""
    engine = Engine(EngineOptions(gates=FeatureGates(scheduler_async_preemption=asynchronous), validate=True))

    async def test(stage: Stage) -> None:
        stage.pod("low", cpu="4", node="n1")
        stage.pod("hi", cpu="4", priority=10)
        decision = stage.step()
        assert decision.result is Result.WAITING
        assert decision.preemption is not None
        await asyncio.sleep(0)
        assert stage.executor.preemptor.under_way == asynchronous
        if asynchronous:
            await until(lambda: stage.writes.deleted)
        else:
            assert stage.writes.deleted == []
            await stage.executor.preempt(decision.preemption)
        assert stage.writes.deleted == ["uid-low"]

    play(test, engine)


def test_a_victim_that_is_only_reserved_gives_its_room_back_without_a_call() -> None:
    """preemption.md 7.2: its binding is taken back; it goes to the queue again, and nothing is deleted."""

    async def test(stage: Stage) -> None:
        stage.pod("low", cpu="4")
        stage.step()
        await until(lambda: stage.writes.bindings)
        stage.pod("hi", cpu="4", priority=10)
        decision = stage.step()
        assert decision.preemption is not None
        await until(lambda: stage.observer.ended)
        assert [error for _, error in stage.observer.ended] == [None]
        assert stage.writes.deleted == []
        assert stage.engine.cluster.pods["uid-low"].row < 0
        assert stage.observer.told("bind failed") == []

    play(test)


def test_a_group_is_first_scheduled_once() -> None:
    """Its later placements are not first ones."""

    async def test(stage: Stage) -> None:
        stage.gang("a", least=1)
        stage.step()
        await until(lambda: stage.writes.bindings)
        await stage.executor.conditions_written(5.0)
        records = stage.engine.cluster.pods
        again = Decision(
            "group/default/g",
            Result.SCHEDULED,
            bindings=(),
            waiting=(Binding(records["uid-a"], "n1", 0),),
            conditions=(GroupCondition("default/g", True, "Scheduled", ""),),
        )
        stage.writes.bindings["a"].set_result(None)
        await stage.settle()
        assert stage.executor.first_bindings_under_way == 0
        stage.executor.decided(again, seconds=0.0, now=stage.now)
        assert stage.executor.first_bindings_under_way == 0

    play(test)
