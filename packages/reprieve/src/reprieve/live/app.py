"""The live scheduler, assembled: connection, discovery, election, informers, loop, endpoint, and shutdown.

Rules: informers run and feed the engine from the start, so that a new leader has the whole cluster cache at once. Only
the leader makes decisions and writes. A leader that loses the lease writes nothing more from that moment (the fence)
and exits with LeadershipLostError, as kube-scheduler does; after a restart it builds its cache again.

Invariants: when `run` returns or raises, all its tasks have ended and all connections are closed. When asked to stop,
it makes no further decisions, lets writes in flight finish for at most `GRACE` seconds, and releases the lease last, so
that the next leader finds all writes of this one.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from reprieve.client.discovery import ServedResources, discover
from reprieve.client.errors import ConfigError
from reprieve.client.kubeconfig import connect
from reprieve.client.leader_election import Election, LeadershipLostError
from reprieve.client.transport import ApiClient, Limits
from reprieve.client.write_queue import WriterPool
from reprieve.live.decision_executor import DecisionExecutor
from reprieve.live.event_handlers import ClusterFeed
from reprieve.live.http_endpoint import DelegatedAuth, Health, Server, ServingOptions
from reprieve.live.loop import SchedulingLoop
from reprieve.live.node_requests import NodeRequests
from reprieve.live.outages import Outages
from reprieve.live.page_history import PageHistory
from reprieve.live.page_plans import PagePlans
from reprieve.live.page_routes import PageRoutes
from reprieve.live.page_snapshots import PageSnapshots
from reprieve.live.recalled_evictions import recall
from reprieve.live.settings import Settings, environment_of
from reprieve.live.writes import Writes
from reprieve.observability.database.location import RecordsAwayError, RecordsError
from reprieve.observability.database.metrics import SpoolMetrics
from reprieve.observability.logs import Log
from reprieve.observability.metrics import Metrics
from reprieve.observability.observer import Observer
from reprieve.observability.recorder import RecordKeeper
from reprieve.observability.runtime_metrics import RuntimeMetrics
from reprieve.observability.store import HistoryStore, MemoryStore
from reprieve.page.builder import with_decisions, without_decisions
from reprieve.page.documents import PageDocument
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from reprieve.scheduling.profile_remarks import remarks_on

GRACE: Final = 3.0
"""How long writes in flight may take at shutdown, in seconds."""
SCRAPE_WAITS: Final = 2.0
"""How long a scrape waits for a cycle to end, in seconds; Prometheus gives up after ten."""
RECALL: Final = 5.0
"""How long a new leader waits for the records of the previous one, in seconds."""
_EVENTS_WAITING: Final = 5000
"""The limit of waiting events. kube-scheduler drops events beyond 1000; a burst of bindings here is longer."""
_EVENT_WORKERS: Final = 4
_FIRST_ATTEMPTS: Final = 4


async def _nothing() -> None:
    """Recall nothing: there are no records of an earlier scheduler."""


class Scheduler:
    """One scheduler on one API server, created by `scheduler`; its parts are public for inspection."""

    def __init__(
        self,
        settings: Settings,
        client: ApiClient,
        lease_client: ApiClient,
        served: ServedResources,
        observer: Observer,
        engine: Engine,
        recall: Callable[[], Coroutine[Any, Any, None]] = _nothing,
    ) -> None:
        self.settings = settings
        self._recall = recall
        self._recalling: asyncio.Task[None] | None = None
        self.engine = engine
        self.observer = observer
        self.served = served
        self.outages = Outages(client.clock, observer, over=self._answers_again)
        self.election: Election | None = None
        self._led = False
        if settings.election is not None:
            self.election = Election(
                lease_client,
                settings.election,
                on_leading=self._leads,
                on_trouble=lambda text: self.outages.failed("lease", "lease", text),
                on_answer=lambda: self.outages.well("lease"),
            )
        fence = self.election.fence if self.election is not None else None
        self.pool = WriterPool(client, fence)
        self.events = WriterPool(client, fence, workers=_EVENT_WORKERS, attempts=2)
        self.writes = Writes(client, served, self.pool, events=self.events)
        requests = NodeRequests(
            engine, client, served, self.pool, note=observer.log.info, trouble=partial(observer.trouble, "provisioning")
        )
        self.executor = DecisionExecutor(
            *(engine, client, served, self.writes, observer, self.outages),
            extenders=settings.extenders,
            node_requests=requests if requests.on else None,
        )
        self.feed = ClusterFeed(
            client,
            engine,
            effects=lambda effects: self.loop.keep(effects),
            wake=lambda: self.loop.wake(),
            listener=self.executor.object_changed,
            trouble=observer.trouble,
            note=observer.log.info,
            outages=self.outages,
            refused=lambda group, why: observer.refused(group, why, now=self.loop.time()),
            ignored=lambda item, why: observer.ignored(item, why, now=self.loop.time()),
            options=settings.feed,
        )
        self.loop = SchedulingLoop(
            engine, self.feed, self.executor, client.clock, allowed=lambda: self.may_act, pace=settings.pace
        )
        self.executor.attach(self.loop)
        self._clock = client.clock

    def clock(self) -> float:
        """Return the seconds of the monotonic clock."""
        return self._clock.monotonic()

    @property
    def leading(self) -> bool:
        """Return whether the scheduler may act."""
        return self.election is None or self.election.fence.open

    @property
    def may_act(self) -> bool:
        """Return whether the scheduler may act and knows what the previous leader did."""
        return self.leading and (self._recalling is None or self._recalling.done())

    async def run(self, stop: asyncio.Event) -> None:
        """Schedule until `stop` is set. Raises LeadershipLostError, and ApiError if nodes or pods may not be read."""
        log = self.observer.log
        waits: dict[str, Coroutine[Any, Any, Any]] = {"feed": self.feed.run(self.served), "loop": self.loop.run()}
        if self.election is not None:
            waits["election"] = self._elect(self.election)
        tasks = {name: asyncio.create_task(work, name=name) for name, work in waits.items()}
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([stopped, *tasks.values()], return_when=asyncio.FIRST_COMPLETED)
            for task in tasks.values():
                if task.done():
                    task.result()
            if "election" in tasks and tasks["election"].done():
                raise LeadershipLostError(
                    "the lease is lost: another process holds it, or it could not be renewed in time"
                )
            log.info("Stopping")
            await self._end(tasks["loop"])
            await self._finish()
        finally:
            stopped.cancel()
            await self._end(tasks["loop"])
            await self._end(tasks["feed"])
            if self._recalling is not None:
                await self._end(self._recalling)
            await self.executor.aclose()
            await self.pool.aclose()
            await self.events.aclose()
            if "election" in tasks:
                await self._end(tasks["election"])

    async def _elect(self, election: Election) -> None:
        """Stand for election once the cluster cache is complete, as kube-scheduler does. Raises as `Election.run` does.

        Reading a large cluster takes longer than a lease lasts. The lease is observed meanwhile, so it may expire.
        """
        watching = asyncio.create_task(election.watch(), name="lease")
        try:
            await self.feed.wait_fed()
        finally:
            await self._end(watching)
        await election.run()

    async def _end(self, task: asyncio.Task[Any]) -> None:
        """Cancel a task and wait for it; log its error unless that error is being raised here."""
        task.cancel()
        await asyncio.wait([task])
        error = None if task.cancelled() else task.exception()
        if error is not None and error is not sys.exception():
            self.observer.log.error(f"{task.get_name()}: {type(error).__name__}: {error}")

    async def _finish(self) -> None:
        """Wait for writes in flight, up to the limit."""
        self.observer.close(self.loop.time())
        await self.executor.conditions_written(GRACE)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await self.pool.drain()
                await self.events.drain()

    def counted_by(self, runtime: RuntimeMetrics) -> None:
        """Register the scheduler's tasks, leadership and observed revisions with the runtime metrics."""
        runtime.counts_tasks("binding", lambda: self.executor.binder.under_way)
        runtime.counts_tasks("preemption", lambda: self.executor.preemptor.under_way)
        runtime.counts_tasks("api_calls", lambda: self.pool.in_flight)
        runtime.counts_tasks("events", lambda: self.events.in_flight)
        runtime.reads_revisions(self.settings.scheduler_name, self.feed.revisions)
        if self.election is not None and self.settings.election is not None:
            fence = self.election.fence
            runtime.reads_leadership(self.settings.election.name, lambda: fence.open)

    def _answers_again(self, seconds: float, calls: int) -> None:
        self.observer.log.info("The API server answers again", outage_seconds=seconds, failed_calls=calls)

    def _leads(self) -> None:
        self._led = True
        self.observer.log.info("Leading", lease=self.settings.election.name if self.settings.election else "")
        self._recalling = asyncio.create_task(self._recall())
        self._recalling.add_done_callback(lambda _: self.loop.wake())

    def checks(self, health: Health) -> None:
        """Register the health checks of the endpoint."""
        health.ready["informer-sync"] = lambda: None if self.feed.synced else "not synced"
        health.live["scheduling-loop"] = self.loop.stuck
        if self.election is not None:
            health.live["leaderElection"] = self._expired

    def _expired(self) -> str | None:
        """Return an error if a leader could not renew its lease in time, as kube-scheduler's check does."""
        return "the lease has expired" if self._led and not self.leading else None


@asynccontextmanager
async def scheduler(settings: Settings) -> AsyncIterator[Scheduler]:
    """Yield a scheduler that is connected and has discovered the served kinds; call `Scheduler.run` inside.

    Raises ConfigError for an unusable kubeconfig or address, and ClientError if the API server cannot be reached or
    refuses.
    """
    environment = environment_of(settings)
    connection = connect(settings.kubeconfig, settings.context, environment)
    log = Log(settings.verbosity, form=settings.log_format)
    metrics = Metrics()
    runtime = RuntimeMetrics(metrics.registry)
    engine = Engine(EngineOptions(settings.profiles, settings.gates, settings.timing, settings.sources, settings.seed))
    async with contextlib.AsyncExitStack() as stack:

        async def client_with(limits: Limits) -> ApiClient:
            client = await stack.enter_async_context(ApiClient(connection, limits=limits, environment=environment))
            client.watch = runtime
            return client

        client = await client_with(Limits(qps=settings.qps, burst=settings.burst))
        # Renewing the lease waits neither for the client's rate limit nor for a connection.
        lease_client = await client_with(Limits(qps=0.0, connections=4))
        served = await discover(await client_with(Limits(qps=0.0, attempts=_FIRST_ATTEMPTS)))
        store = open_records(settings, metrics, log)
        stack.callback(store.close)

        async def recalled() -> None:
            try:
                async with asyncio.timeout(RECALL):
                    await recall(store, engine.cluster.evictions, client.clock.now().timestamp(), engine.moves)
            except (RecordsAwayError, TimeoutError):
                log.error("Evictions of before this start do not count for eviction limits: the records are away")

        if settings.election is None:
            await recalled()
        sink = _Sink(metrics)
        keeper = RecordKeeper(store)
        observer = observer_of(settings, served, metrics, log, keeper, sink)
        observer.attach(engine)
        runtime.attach(engine.queue)
        assembled = Scheduler(settings, client, lease_client, served, observer, engine, recalled)
        assembled.counted_by(runtime)
        sink.writes = assembled.writes
        if settings.serving is not None:
            past = PageHistory(store, assembled.clock, keeper.latest)
            keeper.preempted = past.take
            page = PageRoutes(
                page_snapshots(assembled.engine, assembled.loop, assembled.clock, keeper, store),
                PagePlans(settings.plan_arguments),
                past,
            )
            server = _server(settings.serving, assembled, metrics, store, lease_client, page)
            await server.start()
            stack.push_async_callback(server.stop)
            log.info("Serving", url=server.url)
        report_setup(settings, served, observer, log)
        log.info("Connected", server=connection.server, profiles=",".join(settings.profiles))
        yield assembled


def report_setup(settings: Settings, served: ServedResources, observer: Observer, log: Log) -> None:
    """Report kinds that are not served, and remarks about the profiles."""
    for reason in served.unavailable:
        observer.trouble("discovery", f"not read: {reason}")
    for profile in settings.profiles.values():
        for remark in remarks_on(profile, settings.gates):
            (log.error if remark.error else log.warning)(remark.text)


def open_records(settings: Settings, metrics: Metrics, log: Log) -> HistoryStore:
    """Open the store of decision records. Raises ConfigError if its file or database is unusable."""

    def records_trouble(text: str) -> None:  # called from the writer's thread
        metrics.trouble.labels("records").inc()
        log.error(text, where="records")

    try:
        if settings.records is None:
            store: HistoryStore = MemoryStore()
        else:
            from reprieve.observability.database.store import DatabaseStore

            store = DatabaseStore(settings.records, trouble=records_trouble, lost=metrics.records_dropped.inc)
    except RecordsError as error:
        raise ConfigError(f"decision records: {error}") from None
    SpoolMetrics(metrics.registry, store)
    return store


def observer_of(
    settings: Settings,
    served: ServedResources,
    metrics: Metrics,
    log: Log,
    keeper: RecordKeeper,
    sink: _Sink | None = None,
) -> Observer:
    """Return the observer of a scheduler; a shadow has no `sink` for events."""
    return Observer(
        metrics=metrics,
        sink=sink,
        log=log,
        records=keeper,
        controller=settings.scheduler_name,
        instance=socket.gethostname(),
        version_of=served.version_of,
    )


def _server(
    serving: ServingOptions,
    assembled: Scheduler,
    metrics: Metrics,
    store: HistoryStore,
    lease_client: ApiClient,
    page: PageRoutes,
) -> Server:
    health = Health()
    assembled.checks(health)
    return Server(
        serving,
        metrics=metrics,
        health=health,
        records=store.find,
        evictions=store.evictions,
        authorize=DelegatedAuth(lease_client),
        at_rest=lambda look: assembled.loop.at_rest(look, within=SCRAPE_WAITS),
        page=page,
    )


def page_snapshots(
    engine: Engine,
    loop: SchedulingLoop,
    clock: Callable[[], float],
    keeper: RecordKeeper,
    store: HistoryStore,
    add: Callable[[PageDocument], PageDocument] = lambda document: document,
) -> PageSnapshots:
    """Return the snapshots of the page; they read the engine while no cycle runs. `add` adds data of other sources."""

    async def read() -> PageDocument | None:
        documents: list[PageDocument] = []
        await loop.at_rest(
            lambda: documents.append(without_decisions(engine, loop.time(), keeper.latest)), within=SCRAPE_WAITS
        )
        if not documents:
            return None
        try:
            return add(with_decisions(documents[0], await store.evictions(0.0)))
        except RecordsAwayError:
            return None

    def changed() -> tuple[int, ...]:
        cluster, queue = engine.cluster, engine.queue
        return (
            *(engine.attempts, cluster.touched.total, len(cluster.pods), len(queue), sum(queue.incoming.values())),
            *(cluster.nodes.static_version, cluster.nodes.nominations, cluster.groups_version, len(cluster.doomed)),
            *(len(cluster.departures), len(engine.reservations.by_ref), engine.repair.health.changes),
        )

    return PageSnapshots(read, changed, clock)


async def run(settings: Settings, stop: asyncio.Event, *, begun: Callable[[Scheduler], None] = lambda _: None) -> None:
    """Schedule until `stop` is set; `begun` is called after the API server has responded. Raises as the parts do."""
    async with scheduler(settings) as assembled:
        begun(assembled)
        await assembled.run(stop)


class _Sink:
    """Accepts event bodies; events beyond the limit are dropped and counted, so that events never delay bindings."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._waiting = 0
        self.writes: Writes | None = None

    def __call__(self, body: dict[str, object]) -> None:
        if self.writes is None or self._waiting >= _EVENTS_WAITING:
            self._metrics.events_dropped.inc()
            return
        self._waiting += 1
        self.writes.write_event(body).add_done_callback(self._written)

    def _written(self, _: asyncio.Future[None]) -> None:
        self._waiting -= 1
