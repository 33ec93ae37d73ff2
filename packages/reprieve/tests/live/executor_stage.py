"""The decision executor, without a server: an engine with one node, calls that tests end, and what was observed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from kube_rules import objects as o
from reprieve.client.discovery import Resource, ServedResources
from reprieve.client.informer import Change, ChangeKind
from reprieve.client.transport import ApiClient
from reprieve.cluster.pods import PodRecord
from reprieve.framework.instructions import DeleteObject, PatchObject
from reprieve.live.decision_executor import DecisionExecutor
from reprieve.live.extenders import ExtenderCalls
from reprieve.live.loop import EngineCall, SchedulingLoop, SteadyTime
from reprieve.live.outages import Outages
from reprieve.observability.logs import Log
from reprieve.observability.metrics import Metrics
from reprieve.scheduling.decision import Decision
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from tests.client.clock import FakeClock, until
from tests.live.executor import Watched
from tests.live.faults import Json, group, node, pod
from tests.live.scene import Recorded

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

    def bind(self, pod: PodRecord, node: str, annotations: Mapping[str, str] | None = None) -> asyncio.Future[None]:
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
    """What the observer was notified of."""

    def __init__(self) -> None:
        super().__init__(metrics=Metrics(), log=Log(-1))
        self.calls: list[tuple[str, Any]] = []

    def tick(self, now: float) -> None:
        super().tick(now)
        self.calls.append(("tick", now))

    def permitted(self, pod: PodRecord, result: str, *, now: float) -> None:
        super().permitted(pod, result, now=now)
        self.calls.append(("permitted", (pod.name, result)))

    def bound(self, pod: PodRecord, node: str, *, now: float) -> None:
        super().bound(pod, node, now=now)
        self.calls.append(("bound", (pod.name, node)))

    def bind_failed(self, pod: PodRecord, node: str, message: str, *, now: float) -> None:
        super().bind_failed(pod, node, message, now=now)
        self.calls.append(("bind failed", (pod.name, message)))

    def recorded(self, what: str) -> list[Any]:
        return [found for name, found in self.calls if name == what]


class Loop(SchedulingLoop):
    """The loop, as far as the executor knows it: calls are made at once."""

    def __init__(self, clock: FakeClock) -> None:
        self.time = SteadyTime(clock)

    def call_soon(self, call: EngineCall) -> None:
        call(self.time())

    async def calls_made(self) -> None:
        pass


class LateLoop(Loop):
    """Calls are made when a task waits for them, as if a cycle ran until then."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.waiting: list[EngineCall] = []

    def call_soon(self, call: EngineCall) -> None:
        self.waiting.append(call)

    async def calls_made(self) -> None:
        while self.waiting:
            self.waiting.pop(0)(self.time())


class Client(ApiClient):
    """Has a clock, and makes no calls."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock


class Stage:
    """An engine with a node of four CPUs, and the executor of its decisions."""

    def __init__(self, engine: Engine | None = None, *, extenders: ExtenderCalls | None = None) -> None:
        self.clock = FakeClock()
        self.engine = engine or Engine(EngineOptions(validate=True))
        self.writes = Calls()
        self.observer = Seen()
        self.observer.attach(self.engine)
        client = Client(self.clock)
        outages = Outages(self.clock, self.observer)
        served = ServedResources([])
        self.executor = DecisionExecutor(
            self.engine, client, served, self.writes, self.observer, outages, extenders=extenders
        )
        self.executor.attach(Loop(self.clock))
        self.engine.set(msgspec.convert(node("n1"), o.Node), self.now)

    @property
    def now(self) -> float:
        return self.clock.now().timestamp()

    def see(self, body: Json, kind: type[Any] = o.Pod, how: ChangeKind = ChangeKind.ADDED) -> Any:
        """An informer tells the engine and the executor."""
        item = msgspec.convert(body, kind)
        deleted = how is ChangeKind.DELETED
        effects = self.engine.remove(item.ref, self.now) if deleted else self.engine.set(item, self.now)
        self.executor.incidents(effects.incidents)
        self.executor.object_changed(Change(how, item, None), GROUPS)
        return item

    def pod(self, name: str, **more: Any) -> None:
        self.see(pod(name, uid=f"uid-{name}", **more))

    def gang(self, *names: str, least: int, cpu: str = "1") -> None:
        self.see(the_group(least), o.PodGroup)
        for name in names:
            self.pod(name, group="g", cpu=cpu)

    def step(self) -> Decision:
        effects = self.engine.step(self.now)
        decision = effects.decision
        assert decision is not None
        self.executor.decided(decision, seconds=0.01, now=self.now)
        self.executor.incidents(effects.incidents)
        return decision

    async def settle(self) -> None:
        await until(lambda: not self.executor.bindings_under_way)
        await self.executor.conditions_written(5.0)

    @property
    def group_conditions(self) -> list[tuple[str, str]]:
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
        assert raised == [], "in a callback, where it would be lost"

    asyncio.run(run())
