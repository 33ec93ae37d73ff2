"""Running the server: open the storage, create certificates, listen, write the kubeconfig, stop cleanly.

``ControlPlane`` is the assembled server without a socket (for tests and in-process use); ``serve`` adds TLS and HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import uvicorn

from kube_rules.manifests import PlainObject
from kube_standin.admission import admission_steps
from kube_standin.admission_chain import Chain, Step
from kube_standin.admission_views import AdmissionViews
from kube_standin.api_services import ApiServices
from kube_standin.authorization import Authorizer, ClaimStatus
from kube_standin.background import BackgroundWork
from kube_standin.bootstrap import base_steps, ensure_base, ensure_default_storage_class, ensure_own_objects
from kube_standin.certificate_requests import CertificateRequests
from kube_standin.clock import ServerClock, SimulatedClock, stamp
from kube_standin.crds import CustomResources
from kube_standin.errors import StatusError
from kube_standin.escalation import EscalationCheck
from kube_standin.faults import FaultTable, MatchedRequest
from kube_standin.features import DropDisabled, Features
from kube_standin.initial_objects import LoadReport, load_objects
from kube_standin.kinds import COMPUTED, KindTable
from kube_standin.kubelet import KubeletOptions
from kube_standin.policies import policy_steps
from kube_standin.registry import ObjectRegistry
from kube_standin.reload import read_digests, write_digests
from kube_standin.security import (
    PKI,
    Certificates,
    Secrets,
    Tokens,
    certificates,
    check_secrets,
    load_secrets,
    write_kubeconfig,
)
from kube_standin.server.app import App, AppOptions, Scope
from kube_standin.server.bodies import Receive
from kube_standin.server.connections import ConnectionLimits, bounded_by
from kube_standin.server.controls import ControlEndpoints, ServerControls
from kube_standin.server.responses import Send
from kube_standin.server.uvicorn_server import SHUTDOWN_SECONDS, ApiUvicorn
from kube_standin.server.watch_streams import WatchStream, WatchTimes
from kube_standin.signers import CertificateAuthority
from kube_standin.snapshots import ServerSnapshot, restore_objects, state_of_store
from kube_standin.storage import StorageError, Store, open_log
from kube_standin.storage.cleanup import clear
from kube_standin.storage.store import StoreLimits
from kube_standin.tokens import present
from kube_standin.webhooks import WebhookCaller, WebhookReach
from kube_standin.webhooks.admission import webhook_steps
from kube_standin.webhooks.service_ports import RegistryServicePorts

log = logging.getLogger("reprieve.apiserver")

MEMORY = ":memory:"
_EVENT_SWEEP = 60.0
_BASE_OBJECTS_SECONDS = 10.0
_SWEEP_SLICE = 200
_COMPACTION_SECONDS = 300.0
"""How often lists of older revisions expire, in seconds; a continue token lasts between one and two periods."""
_NODE_PAUSE = timedelta(milliseconds=5)


@dataclass
class ServeOptions:
    """Settings of ``serve``.

    ``client_ca``: the authority of client certificates. ``certificates`` None creates them.
    ``data_dir`` ``:memory:`` stores no state; ``accept_loss`` starts from the readable part of damaged state.
    ``port`` 0 selects a free one. ``steps`` returns further admission steps for the registry; ``event_ttl`` is
    how long Events are kept. ``controllers`` are switches as in ``controllers.chosen``; ``kubelets`` None
    simulates no nodes. ``context_extensions`` are added to the context of the kubeconfig, by name. ``objects``
    exist before the first request (``initial_objects``). ``reset`` starts without the state of an earlier run.
    ``webhooks``: hosts of webhooks besides this machine. ``clock`` None is the real clock. ``state`` replaces the
    stored state at start. ``test_controls`` serves /debug/kube-standin to cluster administrators.
    ``default_storage_class`` creates one if there are neither StorageClasses nor ``objects``.
    """

    data_dir: str | Path = MEMORY
    host: str = "127.0.0.1"
    port: int = 0
    kubeconfig: Path | None = None
    tls: bool = True
    anonymous: bool = False
    client_ca: Path | None = None
    certificates: Certificates | None = None
    power_safe: bool = False
    accept_loss: bool = False
    extra_names: tuple[str, ...] = ()
    event_ttl: timedelta = timedelta(hours=1)
    limits: StoreLimits = field(default_factory=StoreLimits)
    times: WatchTimes = field(default_factory=WatchTimes)
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    future_wait: float = 3.0
    steps: Callable[[ObjectRegistry], Iterable[Step]] = admission_steps
    controllers: str = "none"
    kubelets: KubeletOptions | None = None
    features: Features = field(default_factory=Features)
    context_extensions: Mapping[str, Any] = field(default_factory=dict)
    objects: Sequence[PlainObject] = ()
    lenient: bool = False
    reset: bool = False
    webhooks: WebhookReach = field(default_factory=WebhookReach)
    clock: ServerClock | None = None
    state: ServerSnapshot | None = None
    test_controls: bool = False
    default_storage_class: bool = False


class ControlPlane:
    """Storage, registry, admission and the ASGI application; call ``aclose`` at the end."""

    def __init__(
        self,
        store: Store,
        tokens: Tokens,
        *,
        app_options: AppOptions | None = None,
        steps: Callable[[ObjectRegistry], Iterable[Step]] | None = None,
        clock: ServerClock | None = None,
        event_ttl: timedelta = timedelta(hours=1),
        features: Features | None = None,
        webhooks: WebhookReach | None = None,
    ) -> None:
        self.store = store
        self.initial_counts = {resource: count for resource in store.resources() if (count := store.count(resource))}
        """The number of objects at start, by resource."""
        self.loaded = LoadReport()
        """The result of loading the initial objects."""
        self.tokens = tokens
        features = features or Features()
        self.registry = ObjectRegistry(
            store, kinds=KindTable((*features.kinds(), *COMPUTED)), chain=Chain(base_steps()), clock=clock
        )
        self.webhook_caller = WebhookCaller(webhooks, RegistryServicePorts(self.registry))
        self.custom_resources = CustomResources(self.registry, self.webhook_caller)
        self.authorizer = Authorizer(self.registry)
        tokens.present = partial(present, store)
        chain = self.registry.chain
        chain.add(*(steps(self.registry) if steps is not None else ()))
        self._drop_disabled = DropDisabled(features)
        chain.add(self._drop_disabled, self.authorizer)
        chain.add(*(check(self.authorizer) for check in (EscalationCheck, CertificateRequests, ClaimStatus)))
        chain.add(self.custom_resources)
        api_services = ApiServices(self.registry)
        chain.add(api_services)
        self.app = App(self.registry, self.authorizer, tokens, app_options)
        self.app.minor = features.minor
        views = AdmissionViews(self.registry, self.authorizer)
        chain.add(*policy_steps(self.registry, self.authorizer, views))
        chain.add(*webhook_steps(self.registry, self.webhook_caller, views))
        self._event_ttl = event_ttl
        self._tasks: list[asyncio.Task[None]] = []
        self.custom_resources.load()
        self.base_objects: list[Callable[[], None]] = [partial(ensure_base, self.registry)]
        """What stages the objects that every server has, if they are missing."""
        self.stage_base_objects()
        api_services.load()

    def emulate(self, minor: int | None) -> None:
        """Serve the API of another release from the same storage: an upgrade or a rollback (api.md 2.8).

        As with a restart all watches end; new watches of removed versions get 404.
        """
        self._drop_disabled.emulate(minor)
        self.registry.kinds.change_builtin((*self._drop_disabled.features.kinds(), *COMPUTED))
        self.app.minor = minor
        for stream in list(self.app.watches):
            stream.drop()

    async def start(self) -> None:
        """Start the background tasks."""
        await self.store.ticket.settled()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._expire_lists())]
        if not isinstance(self.registry.clock, SimulatedClock):
            self._tasks.append(loop.create_task(self._sweep_events_periodically()))
            self._tasks.append(loop.create_task(self._restore_base_objects()))

    async def _expire_lists(self) -> None:
        """Expire continue tokens, as a kube-apiserver does when etcd is compacted."""
        while True:
            before = self.store.revision
            await asyncio.sleep(_COMPACTION_SECONDS)
            self.store.expire_lists(before)

    async def _sweep_events_periodically(self) -> None:
        while True:
            await asyncio.sleep(_EVENT_SWEEP)
            await self.sweep_events()

    async def sweep_events(self) -> None:
        """Delete Events older than their time to live."""
        oldest = stamp(self.registry.clock.now() - self._event_ttl)
        for index, state in enumerate(list(self.store.heads("events"))):
            if index % _SWEEP_SLICE == 0:
                await asyncio.sleep(0)  # requests have precedence
            if self.store.head("events", *state.key) is not state:
                continue
            # Times in this format sort as texts.
            if state.decode()["metadata"]["creationTimestamp"] < oldest:
                self.store.delete(state)
        with contextlib.suppress(StorageError):  # logged; remaining Events are deleted in the next sweep
            await self.store.ticket.settled()

    def stage_base_objects(self) -> None:
        """Stage the objects that every server has and that are missing (interfaces.md 4.17)."""
        for stage in self.base_objects:
            stage()

    async def _restore_base_objects(self) -> None:
        while True:
            await asyncio.sleep(_BASE_OBJECTS_SECONDS)
            try:
                self.stage_base_objects()
                await self.store.ticket.settled()
            except (StatusError, StorageError) as error:
                log.warning("the objects that every server has could not be created again: %s", error)

    async def retire(self) -> None:
        """End background tasks and leave the storage open for another control plane."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.custom_resources.stop()
        await self.webhook_caller.aclose()

    async def aclose(self) -> None:
        """End watches and background tasks, commit, and close the storage."""
        self.app.stopping = True
        await self.retire()
        await self.store.aclose()


class _CurrentApplication:
    """The application of a server's current control plane."""

    def __init__(self, server: ListeningServer) -> None:
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._server.control_plane.app(scope, receive, send)


class ListeningServer:
    """A listening server; ``url`` and ``kubeconfig`` tell clients how to connect, ``directory`` has its files."""

    def __init__(
        self,
        assemble: Callable[[Store], ControlPlane],
        store: Store,
        options: ServeOptions,
        keys: Secrets,
        directory: Path,
        listening: socket.socket,
    ) -> None:
        self._assemble = assemble
        self.control_plane = assemble(store)
        self.options = options
        self.keys = keys
        self.ca: Path | None = None
        self._authority: CertificateAuthority | None = None
        self._client_ca = ""
        self.directory = directory
        self.controls = ServerControls(self)
        config = self._config()
        self._socket = listening
        self.port: int = self._socket.getsockname()[1]
        host = f"[{options.host}]" if ":" in options.host else options.host
        self.url = f"{'https' if options.tls else 'http'}://{host}:{self.port}"
        self._address = f"{host}:{self.port}"
        self._publish_address()
        self.kubeconfig = options.kubeconfig if options.kubeconfig is not None else directory / "kubeconfig"
        self._server = ApiUvicorn(config)
        self._task: asyncio.Task[None] | None = None
        self._work: BackgroundWork | None = None

    def _publish_address(self) -> None:
        """Set the address of the server in discovery and in the Service ``default/kubernetes``."""
        self.control_plane.app.discovery.address = self._address
        plane = self.control_plane
        own = partial(ensure_own_objects, plane.registry, self.options.host, self.port, self._client_ca)
        own()
        plane.base_objects.append(own)

    def _config(self) -> uvicorn.Config:
        config = uvicorn.Config(
            _CurrentApplication(self),
            loop="none",
            http=bounded_by(self.options.connections),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=300,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        if self.options.tls:
            pki = self.options.certificates or certificates(
                self.directory / PKI, (self.options.host, *self.options.extra_names)
            )
            self.ca, self._authority = pki.ca, pki.authority()
            config.ssl_certfile, config.ssl_keyfile = str(pki.certificate), str(pki.key)
            context = pki.context(self.options.client_ca)
            self._client_ca = pki.client_ca(self.options.client_ca)
            config.load()
            config.ssl = context
        return config

    @property
    def clock(self) -> ServerClock:
        """Return the clock of the server."""
        return self.control_plane.registry.clock

    @property
    def faults(self) -> FaultTable:
        """Return the faults of the server."""
        return self.control_plane.app.options.faults

    @property
    def work(self) -> BackgroundWork:
        """Return the controllers and kubelets. Raises RuntimeError before they exist."""
        if self._work is None:
            raise RuntimeError("the server is starting")
        return self._work

    def watches(self) -> Mapping[WatchStream, MatchedRequest]:
        """Return the open watches."""
        return self.control_plane.app.watches

    async def sweep_events(self) -> None:
        """Delete Events older than their time to live."""
        await self.control_plane.sweep_events()

    def store_state(self) -> ServerSnapshot:
        """Return the whole stored state."""
        return state_of_store(self.control_plane.store, self.clock.now())

    async def put_back(self, state: ServerSnapshot) -> None:
        """Restart the server on a state. Raises StorageError and then continues on the old state."""
        retired = self.control_plane
        await self.work.stop()
        await retired.retire()
        for watch in list(retired.app.watches):
            watch.expire()
        try:
            restore_objects(retired.store, state)
            if isinstance(self.clock, SimulatedClock):
                self.clock.set(state.moment)
        finally:
            retired.store.undone.clear()
            self.control_plane = self._assemble(retired.store)
            self._publish_address()
            await self.control_plane.start()
            await self.work.start(self.control_plane.registry)

    async def begin_work(self) -> None:
        """Start controllers and kubelets. Raises ValueError and StatusError as `BackgroundWork` does."""
        kubelets = self.options.kubelets
        self._work = BackgroundWork(
            controllers=self.options.controllers,
            kubelets=kubelets and replace(kubelets, minor=self.options.features.minor or kubelets.minor),
            ca_certificate=self.ca.read_text() if self.ca is not None else "",
            authority=self._authority,
            tokens=self.control_plane.tokens,
        )
        await self._work.start(self.control_plane.registry)
        if isinstance(self.clock, SimulatedClock):
            while not self.has_nodes:
                await self.controls.advance(_NODE_PAUSE)
            await self.controls.settle()

    @property
    def has_nodes(self) -> bool:
        """Return whether all nodes of the options exist: large fleets are created in batches."""
        kubelets = self.options.kubelets
        return kubelets is None or self.control_plane.store.count("nodes") >= kubelets.nodes

    async def end_work(self) -> None:
        """Stop controllers and kubelets if they run."""
        if self._work is not None:
            await self._work.stop()

    async def __aenter__(self) -> ListeningServer:
        try:
            await self._start()
        except BaseException as error:  # a task that is cancelled here does not leave resources open
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def _start(self) -> None:
        _listen(self._socket, self.options.host)
        await self.control_plane.start()
        self._task = asyncio.get_running_loop().create_task(self._server.serve([self._socket]))
        while not self._server.started:
            if self._task.done():
                await self._task
                raise RuntimeError("the server ended before it served")
            await asyncio.sleep(0.005)
        write_kubeconfig(
            self.kubeconfig,
            server=self.url,
            ca=self.ca,
            token=self.keys.admin_token,
            extensions=self.options.context_extensions,
        )
        log.info("serving on %s", self.url)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.control_plane.app.stopping = True
        self.control_plane.store.end_subscriptions()
        self._server.stop()
        try:
            if self._task is not None:
                await self._task
        finally:
            self._socket.close()
            await self.control_plane.aclose()


def _bound(host: str, port: int) -> socket.socket:
    """Return a bound socket that does not listen yet. Raises OSError with the port in its message."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Name the protocol: asyncio sets TCP_NODELAY only then, and without it responses take 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise _taken(error, host, port) from error
    listener.setblocking(False)
    return listener


def _listen(listener: socket.socket, host: str) -> None:
    """Listen. Raises OSError for a port that was taken in the meantime."""
    try:
        listener.listen(1024)
    except OSError as error:
        raise _taken(error, host, listener.getsockname()[1]) from error


def _taken(error: OSError, host: str, port: int) -> OSError:
    return OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}")


def _reset(directory: Path) -> None:
    """Remove the state of a data directory. Raises StorageError while a server runs on it, OSError."""
    try:
        clear(directory, everything=False)
    except StorageError as error:
        raise StorageError(f"{error}; stop it first") from None


@asynccontextmanager
async def serving(options: ServeOptions) -> AsyncIterator[ListeningServer]:
    """Serve until the context exits. Raises StorageError, OSError or ValueError (InputError) with a clear message."""
    if not str(options.data_dir):
        raise ValueError("the data directory has no name")
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(contextlib.closing(_bound(options.host, options.port)))  # before any file
        before: dict[str, str] = {}
        if str(options.data_dir) == MEMORY:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="reprieve-")))
            opened = open_log(MEMORY)
            keys = Secrets(secrets.token_urlsafe(32), secrets.token_urlsafe(32), secrets.token_bytes(32))
        else:
            directory = Path(options.data_dir)
            if options.reset:
                _reset(directory)
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            check_secrets(directory)
            opened = open_log(directory / "state.db", power_safe=options.power_safe, accept_loss=options.accept_loss)
            stack.callback(opened.close)  # harmless after the control plane has closed it
            keys = load_secrets(directory)
            before = read_digests(directory)
        store = Store(opened, limits=options.limits)
        stack.callback(store.close)  # initial objects are staged: nothing may flush into a closed log
        if options.state is not None:
            restore_objects(store, options.state)
        server = ListeningServer(_assembling(options, keys), store, options, keys, directory, listening)
        control_plane = server.control_plane
        if options.test_controls:
            control_plane.app.options.control_endpoints = ControlEndpoints(server.controls)
        if options.objects:
            loaded = load_objects(control_plane.registry, options.objects, lenient=options.lenient, before=before)
            control_plane.loaded = loaded
            if str(options.data_dir) != MEMORY:
                write_digests(directory, {**before, **loaded.digests})
        elif options.default_storage_class:
            ensure_default_storage_class(control_plane.registry)
        async with server:
            try:
                await server.begin_work()
                yield server
            finally:
                await server.end_work()


def _assembling(options: ServeOptions, keys: Secrets) -> Callable[[Store], ControlPlane]:
    """Return a function that creates control planes with these options; they share a clock and faults."""
    clock = options.clock if options.clock is not None else ServerClock()
    app = AppOptions(
        anonymous=options.anonymous,
        future_wait=options.future_wait,
        times=options.times,
        controllers=options.controllers.strip() != "none",
    )
    return lambda store: ControlPlane(
        store,
        keys.tokens(),
        app_options=app,
        steps=options.steps,
        clock=clock,
        event_ttl=options.event_ttl,
        features=options.features,
        webhooks=options.webhooks,
    )


async def serve(options: ServeOptions, stop: asyncio.Event) -> None:
    """Serve until ``stop`` is set."""
    async with serving(options):
        await stop.wait()
