"""A shadow, assembled: it watches a cluster of another scheduler, makes all decisions, and writes nothing.

Rules: shadow.md.  It only sends get, list and watch requests: the client refuses all others, and the parts that write
(bindings, evictions, conditions, events, the lease, reviews of tokens) are not created.

Invariant: when `run` returns or raises, all its tasks have ended and all connections are closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from reprieve.client.discovery import ServedResources, discover
from reprieve.client.errors import ConfigError
from reprieve.client.kubeconfig import connect
from reprieve.client.transport import ApiClient, ApiResponse, Limits
from reprieve.decisions.shadow import ShadowReport, encode_report
from reprieve.live.app import SCRAPE_WAITS, observer_of, open_records, page_snapshots, report_setup
from reprieve.live.event_handlers import ClusterFeed
from reprieve.live.http_endpoint import Health, Server, ServingOptions
from reprieve.live.loop import SchedulingLoop
from reprieve.live.outages import Outages
from reprieve.live.page_history import PageHistory
from reprieve.live.page_routes import PageRoutes
from reprieve.live.settings import Settings, ShadowSettings, environment_of
from reprieve.live.shadow_decisions import ShadowDecisions
from reprieve.live.shadow_ledger import ShadowLedger
from reprieve.observability.logs import Log
from reprieve.observability.metrics import Metrics
from reprieve.observability.observer import Observer
from reprieve.observability.recorder import RecordKeeper
from reprieve.observability.runtime_metrics import RuntimeMetrics
from reprieve.observability.shadow_metrics import ShadowMetrics
from reprieve.observability.store import HistoryStore
from reprieve.page.shadow_view import with_shadow
from reprieve.scheduling.decision import Decision
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions

_REPORT_EVERY: Final = 10.0
"""Seconds between two writes of the report file."""
_MOST_PLANS: Final = 10_000


class ReadOnlyClient(ApiClient):
    """A client that only reads."""

    async def request(self, method: str, path: str, *args: Any, **options: Any) -> ApiResponse:
        """See `ApiClient.request`. Raises ConfigError for a request other than GET."""
        if method != "GET":
            raise ConfigError(f"{method} {path}: a shadow writes nothing")
        return await super().request(method, path, *args, **options)


class ShadowRecordKeeper(RecordKeeper):
    """Stores one record of a plan to evict, however often it is decided again after it was dropped."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._plans: OrderedDict[str, frozenset[str]] = OrderedDict()

    def decided(self, decision: Decision, *, seconds: float, now: float) -> None:
        preemption = decision.preemption
        if preemption is not None:
            victims = frozenset(pod.uid for verdict in preemption.victims for pod in verdict.unit.pods)
            if self._plans.get(decision.ref) == victims:
                return
            self._plans[decision.ref] = victims
            self._plans.move_to_end(decision.ref)
            while len(self._plans) > _MOST_PLANS:
                self._plans.popitem(last=False)
        super().decided(decision, seconds=seconds, now=now)


class ShadowScheduler:
    """One shadow of one cluster, created by `shadow`; its parts are public for inspection."""

    def __init__(
        self,
        settings: Settings,
        options: ShadowSettings,
        client: ApiClient,
        served: ServedResources,
        observer: Observer,
    ) -> None:
        self.settings = settings
        self.options = options
        self.observer = observer
        self.served = served
        self.engine = Engine(
            EngineOptions(settings.profiles, settings.gates, settings.timing, settings.sources, settings.seed)
        )
        observer.attach(self.engine)
        self.ledger = ShadowLedger(self.engine.cluster, patience=options.hold)
        self.decisions = ShadowDecisions(self.engine, observer, self.ledger, hold=options.hold)
        self.feed = ClusterFeed(
            client,
            self.engine,
            effects=lambda effects: self.loop.keep(effects),
            wake=lambda: self.loop.wake(),
            listener=self.decisions.object_changed,
            before=self.decisions.catch_up,
            trouble=observer.trouble,
            note=observer.log.info,
            outages=Outages(client.clock, observer),
            options=settings.feed,
        )
        self.loop = SchedulingLoop(self.engine, self.feed, self.decisions, client.clock, pace=settings.pace)
        self.decisions.attach(self.loop)
        self.server: Server | None = None
        """The HTTP endpoint, if any."""
        self._clock = client.clock
        self._since = self.loop.time()

    def clock(self) -> float:
        """Return increasing seconds."""
        return self._clock.monotonic()

    def report(self) -> ShadowReport:
        """Return the report up to now."""
        return self.ledger.report(schedulers=tuple(self.settings.profiles), since=self._since, now=self.loop.time())

    async def run(self, stop: asyncio.Event) -> None:
        """Watch until `stop` is set. Raises ApiError if nodes or pods may not be read."""
        work = {"feed": self.feed.run(self.served), "loop": self.loop.run(), "report": self._keep_report()}
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(coroutine, name=name) for name, coroutine in work.items()]
        stopped: asyncio.Task[Any] = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
            self.observer.log.info("Stopping")
        finally:
            for task in (stopped, *tasks):
                task.cancel()
            await asyncio.gather(stopped, *tasks, return_exceptions=True)
            self.ledger.settle(self.loop.time(), all_of_it=True)
            self._write_report()

    async def _keep_report(self) -> None:
        while True:
            self._write_report()
            await self._clock.sleep(_REPORT_EVERY)

    def _write_report(self) -> None:
        """Replace the whole report file. A full disk is reported as trouble and does not end the shadow."""
        path = self.options.report
        if path is None:
            return
        beside = path.with_name(f"{path.name}.new")
        try:
            beside.write_bytes(encode_report(self.report()))
            os.replace(beside, path)
        except OSError as error:
            self.observer.trouble("shadow", f"{path}: the report is not written: {error.strerror}")

    def checks(self, health: Health) -> None:
        """Register the health checks of the endpoint."""
        health.ready["informer-sync"] = lambda: None if self.feed.synced else "not synced"
        health.live["scheduling-loop"] = self.loop.stuck


@asynccontextmanager
async def shadow(settings: Settings) -> AsyncIterator[ShadowScheduler]:
    """Yield a shadow that is connected and has discovered the served kinds; call `ShadowScheduler.run` inside.

    Raises ConfigError for unusable settings, and ClientError if the API server cannot be reached or refuses.
    """
    options = settings.shadow or ShadowSettings()
    environment = environment_of(settings)
    connection = connect(settings.kubeconfig, settings.context, environment)
    log = Log(settings.verbosity, form=settings.log_format)
    metrics = Metrics()
    runtime = RuntimeMetrics(metrics.registry)
    _check_report(options.report)
    async with contextlib.AsyncExitStack() as stack:
        limits = Limits(qps=settings.qps, burst=settings.burst)
        client = await stack.enter_async_context(ReadOnlyClient(connection, limits=limits, environment=environment))
        client.watch = runtime
        served = await discover(client)
        store = open_records(settings, metrics, log)
        stack.callback(store.close)
        keeper = ShadowRecordKeeper(store)
        observer = observer_of(settings, served, metrics, log, keeper)
        assembled = ShadowScheduler(settings, options, client, served, observer)
        runtime.attach(assembled.engine.queue)
        runtime.reads_revisions(settings.scheduler_name, assembled.feed.revisions)
        ShadowMetrics(metrics.registry, assembled.report, lambda: assembled.decisions.assumed)
        if settings.serving is not None:
            server = _server(settings.serving, assembled, metrics, keeper, store)
            await server.start()
            assembled.server = server
            stack.push_async_callback(server.stop)
            log.info("Serving", url=server.url)
        report_setup(settings, served, observer, log)
        log.info("Shadowing", server=connection.server, schedulers=",".join(settings.profiles), hold=options.hold)
        yield assembled


def _server(
    serving: ServingOptions, assembled: ShadowScheduler, metrics: Metrics, keeper: RecordKeeper, store: HistoryStore
) -> Server:
    health = Health()
    assembled.checks(health)
    past = PageHistory(store, assembled.clock, keeper.latest)
    keeper.preempted = past.take
    snapshots = page_snapshots(
        *(assembled.engine, assembled.loop, assembled.clock, keeper, store),
        add=lambda document: with_shadow(document, assembled.report()),
    )
    return Server(
        serving,
        metrics=metrics,
        health=health,
        records=store.find,
        evictions=store.evictions,
        at_rest=lambda look: assembled.loop.at_rest(look, within=SCRAPE_WAITS),
        shadow=lambda: encode_report(assembled.report()),
        page=PageRoutes(snapshots, history=past),
    )


def _check_report(path: Path | None) -> None:
    """Raise ConfigError if the report cannot be written."""
    if path is not None and not (path.parent.is_dir() and os.access(path.parent, os.W_OK) and not path.is_dir()):
        raise ConfigError(f"--shadow-report {path}: cannot be written: its directory must exist and be writable")


async def run(
    settings: Settings, stop: asyncio.Event, *, begun: Callable[[ShadowScheduler], None] = lambda _: None
) -> None:
    """Watch until `stop` is set; `begun` is called after the API server has responded. Raises as the parts do."""
    async with shadow(settings) as assembled:
        begun(assembled)
        await assembled.run(stop)
