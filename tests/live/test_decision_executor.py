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
from reprieve.cluster.state import ClusterState
from reprieve.framework.gates import FeatureGates
from reprieve.framework.instructions import CreateObject, DeleteObject, PatchObject
from reprieve.framework.plugin import CycleState, PerNodeFilter, PreEnqueuePlugin
from reprieve.framework.status import Status
from reprieve.live.decision_executor import DecisionExecutor
from reprieve.live.extenders import Bodies, ExtenderCalls
from reprieve.live.loop import SchedulingLoop, SteadyTime
from reprieve.live.outages import Outages
from reprieve.observability.logs import Log
from reprieve.observability.metrics import Metrics
from reprieve.plugins.extender import ExtenderError
from reprieve.scheduling.decision import SCHEDULER_ERROR, Binding, Decision, GroupCondition, Rejection, Result
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from reprieve.scheduling.held_room import Released, ReleasedRoom

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
        self.patched: list[PatchObject | DeleteObject] = []
        self.sent = False
        """Bindings have left: they can not be taken back any more."""
        self.taken: list[str] = []

    def bind(self, pod: PodRecord, node: str) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.bindings[pod.name] = future
        return future

    def take_back(self, uid: str) -> asyncio.Future[None] | None:
        self.taken.append(uid)
        future = self.bindings.get(uid.removeprefix("uid-"))
        if future is not None and self.sent:
            return future
        if future is not None:
            future.cancel()
        return None

    def patch_object(self, instruction: PatchObject) -> asyncio.Future[None]:
        self.patched.append(instruction)
        return self._answer()

    def delete_object(self, instruction: DeleteObject) -> asyncio.Future[None]:
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

    def permitted(self, pod: PodRecord, result: str, *, now: float) -> None:
        super().permitted(pod, result, now=now)
        self.heard.append(("permitted", (pod.name, result)))

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


class LateLoop(Loop):
    """Calls are made when somebody waits for them, as if a cycle ran until then."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.waiting: list[Callable[[float], None]] = []

    def call_soon(self, call: Callable[[float], None]) -> None:
        self.waiting.append(call)

    async def calls_made(self) -> None:
        while self.waiting:
            self.waiting.pop(0)(self.time())


class Client(ApiClient):
    """Has a clock, and makes no calls."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock


class Stage:
    """An engine with a node of four CPUs, and who carries its decisions out."""

    def __init__(self, engine: Engine | None = None, *, extenders: ExtenderCalls | None = None) -> None:
        self.clock = FakeClock()
        self.engine = engine or Engine(EngineOptions(validate=True))
        self.writes = Calls()
        self.observer = Seen()
        self.observer.attach(self.engine)
        client = Client(self.clock)
        outages = Outages(self.clock, self.observer)
        served = Served([])
        self.executor = DecisionExecutor(
            self.engine, client, served, self.writes, self.observer, outages, extenders=extenders
        )
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


def play(
    test: Callable[[Stage], Awaitable[None]], engine: Engine | None = None, *, extenders: ExtenderCalls | None = None
) -> None:
    async def run() -> None:
        raised: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context))
        stage = Stage(engine, extenders=extenders)
        try:
            await test(stage)
        finally:
            await stage.executor.aclose()
        assert raised == [], "in a callback, where nobody sees it"

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
        await until(lambda: not stage.executor.preemptor.under_way)
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


def test_trouble_that_no_decision_tells_is_told_by_the_next_look_around() -> None:
    """A plugin that fails as a pod comes, while there is nothing to decide."""

    class Broken(PreEnqueuePlugin):
        name = "Broken"

        def pre_enqueue(self, cluster: ClusterState, pod: PodRecord) -> Status:
            raise ZeroDivisionError("by design")

    profile = profile_with(Broken())

    async def test(stage: Stage) -> None:
        stage.pod("a")
        assert stage.observer.troubles == []
        stage.executor.tick(stage.now)
        [told] = stage.observer.troubles
        assert told.startswith("plugin: ")
        assert "Traceback" in told, "where it was raised is told with it"

    play(test, Engine(EngineOptions({profile.name: profile}, validate=True)))


def test_room_that_was_given_back_is_an_event() -> None:
    """cost.md 5: on each pod that it was held for."""

    async def test(stage: Stage) -> None:
        stage.pod("a")
        record = stage.engine.cluster.pods["uid-a"]
        room = ReleasedRoom("pod/uid-a", None, ((record, "n1"),), Released.NOT_USED, "nobody came", stage.now)
        stage.executor.room_released(room)
        [event] = [found for found in stage.observer.events if found["reason"] == "RoomReleased"]
        assert (event["regarding"]["name"], event["note"]) == ("a", "Room held on n1 is released: nobody came")

    play(test)


@pytest.mark.parametrize("late", [False, True])
def test_a_victim_whose_binding_has_not_begun_gives_its_room_back_without_a_call(late: bool) -> None:
    """preemption.md 7.2: also where the engine hears of it only when a cycle is over."""

    async def test(stage: Stage) -> None:
        loop = LateLoop(stage.clock) if late else Loop(stage.clock)
        stage.executor.attach(loop)
        stage.pod("low", cpu="4")
        stage.engine.step(stage.now)  # reserved; its binding is yet to be begun
        low = stage.engine.cluster.pods["uid-low"]
        assert low.row >= 0
        stage.pod("hi", cpu="4", priority=100)
        assert stage.step().preemption is not None
        await until(lambda: not stage.executor.preemptor.under_way)
        await loop.calls_made()
        assert low.row < 0
        assert stage.writes.deleted == []

    play(test)


def test_a_victim_that_turns_out_to_be_bound_is_deleted() -> None:
    """7.2: an informer was quicker than the word that it gives its room back; the first node is one, too."""

    async def test(stage: Stage) -> None:
        loop = LateLoop(stage.clock)
        stage.executor.attach(loop)
        stage.pod("low", cpu="4")
        stage.engine.step(stage.now)
        loop.call_soon(lambda _: stage.pod("low", cpu="4", node="n1"))
        stage.pod("hi", cpu="4", priority=100)
        assert stage.step().preemption is not None
        await until(lambda: not stage.executor.preemptor.under_way)
        assert stage.engine.cluster.pods["uid-low"].row == 0
        assert stage.writes.deleted == ["uid-low"]

    play(test)


def test_a_victim_whose_binding_gets_through_is_deleted() -> None:
    """7.2: what has been sent is waited for."""

    async def test(stage: Stage) -> None:
        stage.pod("low", cpu="4")
        stage.step()
        await until(lambda: stage.writes.bindings)
        stage.writes.sent = True
        stage.pod("hi", cpu="4", priority=100)
        assert stage.step().preemption is not None
        await until(lambda: stage.writes.taken)
        assert stage.writes.deleted == []
        stage.writes.bindings["low"].set_result(None)
        await until(lambda: not stage.executor.preemptor.under_way)
        assert stage.writes.deleted == ["uid-low"]

    play(test)


def test_a_preemption_that_failed_is_decided_anew_at_once() -> None:
    """7.5: its victims are nobody's, and who was to get their room has no nomination any more."""

    async def test(stage: Stage) -> None:
        stage.pod("low", cpu="4", node="n1")
        stage.pod("hi", cpu="4", priority=100)
        stage.writes.errors = [ApiError(403, "Forbidden", "no")] * 2  # once more for who waits for the nomination
        stage.step()
        assert stage.engine.cluster.doomed
        await until(lambda: not stage.executor.preemptor.under_way)
        assert not stage.engine.cluster.doomed
        assert stage.engine.cluster.pods["uid-hi"].nominated < 0
        assert stage.writes.deleted == []
        again = stage.step()
        assert again.preemption is not None
        await until(lambda: not stage.executor.preemptor.under_way)
        assert stage.writes.deleted == ["uid-low"]

    play(test)


def test_who_is_closed_has_nothing_under_way() -> None:
    """Preemptions and bindings: nobody is notified of either any more."""

    async def test(stage: Stage) -> None:
        stage.pod("low", cpu="4", node="n1")
        stage.pod("hi", cpu="4", priority=100)
        stage.writes.hold = True
        stage.step()
        stage.engine.set_node(msgspec.convert(node("n2"), o.Node), stage.now)
        stage.pod("a", cpu="1")
        stage.step()
        await until(lambda: stage.writes.held and stage.writes.bindings)
        assert stage.executor.preemptor.under_way == 1
        await stage.executor.aclose()
        assert stage.executor.preemptor.under_way == 0
        stage.writes.bindings["a"].set_result(None)
        await asyncio.sleep(0)
        assert stage.observer.told("bound") == []
        assert stage.observer.ended == []

    play(test)


@pytest.mark.parametrize("error", [None, ApiError(409, "Conflict", "somebody else wrote")])
@pytest.mark.parametrize(
    "wanted",
    [
        PatchObject("PersistentVolumeClaim", "default", "c", {"metadata": {}}),
        DeleteObject("ResourceClaim", "default", "c", "uid-c"),
    ],
)
def test_a_deferred_write_that_fails_is_told_and_left_at_that(
    wanted: PatchObject | DeleteObject, error: Exception | None
) -> None:
    async def test(stage: Stage) -> None:
        stage.writes.errors = [error] if error else []
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
        for name in ("a", "b", "c"):
            stage.pod(name, cpu="1")
        records = stage.engine.cluster.pods
        stage.executor.permitted(
            [Binding(records["uid-a"], "n1", 0)],
            [
                Rejection(records["uid-b"], "Unschedulable", "not today"),
                Rejection(records["uid-c"], SCHEDULER_ERROR, "broken"),
            ],
        )
        await until(lambda: list(stage.writes.bindings) == ["a"])
        stage.writes.bindings["a"].set_result(None)
        await stage.settle()
        assert stage.observer.told("permitted") == [("a", "Success"), ("b", "Unschedulable"), ("c", "Error")]
        assert stage.observer.told("bind failed") == [("b", "not today"), ("c", "broken")]
        assert [(uid, patch["conditions"][0]["message"]) for uid, patch in stage.writes.pods] == [
            ("uid-b", "not today"),
            ("uid-c", "broken"),
        ]

    play(test)


def test_extenders_get_the_bodies_of_what_informers_told_last() -> None:
    """What is gone has none any more: a call about it would tell of the past."""
    bodies = Bodies()

    async def test(stage: Stage) -> None:
        stage.pod("a")
        record = stage.engine.cluster.pods["uid-a"]
        assert bodies.pod(record)["metadata"]["name"] == "a"
        stage.see(pod("a", uid="uid-a"), how=ChangeKind.DELETED)
        with pytest.raises(ExtenderError):
            bodies.pod(record)

    play(test, extenders=ExtenderCalls((), bodies))


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
