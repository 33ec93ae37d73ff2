"""The live scheduler in a test: the real executor and engine, on an embedded API server, with its calls under control.

Time runs a hundred times as fast for the scheduler, so that backoffs and retries are over soon; nothing waits for a
time to pass, only for conditions. A machine that stands still for a second must not be a minute and a half to the
scheduler: see `FastClock`. There are no kubelets: `leave` plays them for pods that are to go.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

from kube_standin.server.control_plane import ListeningServer
from reprieve.client.clock import REAL_CLOCK, Clock
from reprieve.client.discovery import ServedResources, discover
from reprieve.client.informer import InformerOptions
from reprieve.client.rate_limits import BackoffPolicy
from reprieve.client.transport import ApiClient, ApiResponse
from reprieve.framework.gates import FeatureGates
from reprieve.framework.profile import Profile
from reprieve.live.app import Scheduler
from reprieve.live.event_handlers import KINDS_READ, ClusterFeedOptions
from reprieve.live.settings import Settings
from reprieve.observability.logs import Log
from reprieve.observability.metrics import Metrics
from reprieve.observability.observer import Observer
from reprieve.preemption.outcome import Preemption
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from reprieve.scheduling.profiles import default_profile
from tests.live.faults import Call, FaultyClient, Json, Send, client_of
from tests.waiting import DEADLINE

_FASTER = 100.0
_LOOK = 0.005
KINDS = ("Pod", "Node", "Namespace", "PriorityClass", "PodGroup", "CompositePodGroup", "PodDisruptionBudget")
"""What the scheduler watches unless a test asks for more: a cluster that serves neither volumes nor devices."""
EVERY_KIND = tuple(kind.KIND for kind in KINDS_READ)
_QUICK = InformerOptions(
    backoff=BackoffPolicy(initial=0.1, maximum=0.2), quick=0.0, silence=1e5, first_silence=1e4, shortest_watch=1e5
)


class FastClock:
    """The machine's clock, a hundred times as fast from when it was made, but for pauses.

    A sleeping task reads it every few milliseconds, and a longer time between two reads does not count in full: of a
    pause of the whole process, in which nothing could go on, hardly any time passes.
    """

    def __init__(self) -> None:
        self._looked = REAL_CLOCK.monotonic()
        self._now = REAL_CLOCK.now()
        self._passed = 0.0

    def monotonic(self) -> float:
        looked = REAL_CLOCK.monotonic()
        self._passed += min(looked - self._looked, 2 * _LOOK) * _FASTER
        self._looked = looked
        return self._passed

    def now(self) -> datetime:
        return self._now + timedelta(seconds=self.monotonic())

    async def sleep(self, seconds: float) -> None:
        ends = self.monotonic() + seconds
        while (left := ends - self.monotonic()) > 0:
            await asyncio.sleep(min(left / _FASTER, _LOOK))


class Watched(Observer):
    """An observer that also keeps what happened to preemptions."""

    def __init__(self, **named: Any) -> None:
        self.events: list[Json] = []
        """As they would be sent; the API does not get them."""
        super().__init__(sink=self.events.append, **named)
        self.ended: list[tuple[Preemption, str | None]] = []
        self.started: list[Preemption] = []
        self.troubles: list[str] = []
        self.on_end: Callable[[], object] = lambda: None
        """Called when a preemption has ended, before anything else is tried."""

    def decided(self, decision: Any, **named: Any) -> None:
        super().decided(decision, **named)
        if decision.preemption is not None and decision.preemption.victims:
            self.started.append(decision.preemption)

    def preemption_ended(self, preemption: Preemption, *, seconds: float, error: str | None, now: float) -> None:
        super().preemption_ended(preemption, seconds=seconds, error=error, now=now)
        self.ended.append((preemption, error))
        self.on_end()

    def trouble(self, where: str, text: str) -> None:
        super().trouble(where, text)
        self.troubles.append(f"{where}: {text}")

    @property
    def under_way(self) -> int:
        return len(self.started) - len(self.ended)


class Running:
    """A scheduler at work. `client` is its connection, with `calls`; `script` may be set to play the network."""

    def __init__(self, scheduler: Scheduler, client: FaultyClient, observer: Watched, task: asyncio.Task[None]) -> None:
        self.scheduler = scheduler
        self.client = client
        self.observer = observer
        self.task = task

    @property
    def engine(self) -> Engine:
        return self.scheduler.engine

    @property
    def sent(self) -> list[str]:
        """Calls except for events and conditions of pods that are not victims."""
        return [str(call) for call in self.client.calls if "/events" not in call.path]


@asynccontextmanager
async def running(
    server: ListeningServer,
    *,
    script: Callable[[Call, Send], Awaitable[ApiResponse]] | None = None,
    asynchronous: bool = True,
    kinds: Sequence[str] = KINDS,
    kind: type[FaultyClient] = FaultyClient,
    clock: Clock | None = None,
    profile: Profile | None = None,
) -> AsyncIterator[Running]:
    """A scheduler, from its start to its end. Leaving the context kills it: nothing is finished or given back.

    `clock` is by default a hundred times as fast as the machine's.
    """
    gates = FeatureGates(scheduler_async_preemption=asynchronous)
    profile = profile or default_profile(gates)
    settings = Settings({profile.name: profile}, gates=gates, feed=ClusterFeedOptions(rediscover=1e6, informers=_QUICK))
    async with client_of(server, kind, clock=clock or FastClock()) as client:
        if script is not None:
            client.script = script
        engine = Engine(EngineOptions(settings.profiles, gates, validate=True))
        observer = Watched(metrics=Metrics(), log=Log(-1))
        observer.attach(engine)
        every = await discover(client)
        served = ServedResources(found for kind in kinds for found in every.readable(kind))
        scheduler = Scheduler(settings, client, client, served, observer, engine)
        task = asyncio.create_task(scheduler.run(asyncio.Event()))
        try:
            yield Running(scheduler, client, observer, task)
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def until(condition: Callable[[], Awaitable[object] | object], what: str, seconds: float = DEADLINE) -> None:
    """Return when the condition holds; fail when it does not come true in time.

    Asking costs requests, which slow down what is waited for: it is asked less and less often.
    """
    loop = asyncio.get_running_loop()
    ends = loop.time() + seconds
    pause = 0.002
    while True:
        found = condition()
        if isinstance(found, Awaitable):
            found = await found
        if found:
            return
        assert loop.time() < ends, f"not in time: {what}"
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, 0.02)


async def leave(client: ApiClient, *names: str) -> None:
    """The kubelet's last word: terminating pods are gone for good."""
    for name in names:
        await client.request("DELETE", f"/api/v1/namespaces/default/pods/{name}", body={"gracePeriodSeconds": 0})


async def pods(client: ApiClient) -> dict[str, Json]:
    """All pods by name."""
    found = (await client.get("/api/v1/pods")).read(dict)
    return {item["metadata"]["name"]: item for item in found["items"]}


async def leaving(client: ApiClient) -> list[str]:
    """Names of terminating pods, sorted."""
    return sorted(name for name, item in (await pods(client)).items() if "deletionTimestamp" in item["metadata"])


async def placed(client: ApiClient, *names: str) -> bool:
    """Whether all of the pods have a node."""
    found = await pods(client)
    return all(name in found and found[name]["spec"].get("nodeName") for name in names)
