"""`ApiServer`: an API server in this process, for tests and scripts; the fixture `kube_api` is one.

Functions import the server, so that this module and the pytest plugin load quickly.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self

if TYPE_CHECKING:
    from kube_standin.faults import FaultTable
    from kube_standin.server.control_plane import ListeningServer, ServeOptions
    from kube_standin.snapshots import ServerSnapshot

_MOST_BYTES: Final = 256 * 1024 * 1024
_POLL_SECONDS: Final = 0.002


class ApiServer:
    """A Kubernetes API server in a thread of this process; it runs inside ``with`` or ``async with``.

    Args:
        nodes: number of simulated nodes. Pods that are bound to them start and run.
        manifests: objects that exist from the start: names of files and directories, relative to ``folder``, or dicts.
        controllers: which controllers run: ``"*"``, ``"none"``, or names as kube-controller-manager reads them.
        kubelets: whether pods on nodes without another kubelet are started and stopped.
        clock: ``"real"``; ``"simulated"``, which stands still at the present until `advance`; or a datetime with a time
            zone, at which a simulated clock begins.
        state: a `ServerSnapshot` of `snapshot`, or the file of `save`, to start with.
        data_dir: where objects are kept; None keeps them in memory only.
        host: the address to listen on.
        port: the port, 0 for a free one.
        folder: the folder of relative names in ``manifests``; None for the current directory.
        test_controls: also serve the clock, faults, watches and snapshots below /debug/kube-standin.

    Raises ValueError, InputError, OSError, StatusError or StorageError at the start of the block.
    """

    def __init__(
        self,
        *,
        nodes: int = 0,
        manifests: Sequence[str | Path | Mapping[str, Any]] = (),
        controllers: str = "*",
        kubelets: bool = True,
        clock: Literal["real", "simulated"] | datetime = "real",
        state: ServerSnapshot | str | Path | None = None,
        data_dir: str | Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        folder: str | Path | None = None,
        test_controls: bool = False,
    ) -> None:
        if nodes < 0:
            raise ValueError(f"nodes: expected a number of at least 0, found {nodes}")
        if nodes and not kubelets:
            raise ValueError("nodes: simulated nodes need kubelets")
        if isinstance(manifests, str | Path | Mapping):
            raise ValueError("manifests: expected a list of files and objects, found a single one")
        if not isinstance(clock, datetime) and clock not in ("real", "simulated"):
            raise ValueError(f'clock: expected "real", "simulated" or a datetime, found {clock!r}')
        self._settings: dict[str, Any] = {
            "nodes": nodes,
            "manifests": manifests,
            "controllers": controllers,
            "kubelets": kubelets,
            "clock": clock,
            "state": state,
            "data_dir": data_dir,
            "host": host,
            "port": port,
            "folder": folder,
            "test_controls": test_controls,
        }
        self._running: _RunningThread | None = None

    # -- the block

    def __enter__(self) -> Self:
        running = self._start()
        running.ready.result()
        self._running = running
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread().stop()
        self._running = None

    async def __aenter__(self) -> Self:
        running = self._start()
        await asyncio.wrap_future(running.ready)
        self._running = running
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._thread().stop)
        self._running = None

    def _start(self) -> _RunningThread:
        if self._running is not None:
            raise RuntimeError("the server is already running")
        running = _RunningThread(_options(**self._settings))
        running.start()
        return running

    def _thread(self) -> _RunningThread:
        if self._running is None:
            raise RuntimeError("the server is not running: use it inside `with ApiServer() as api`")
        return self._running

    # -- how to reach it

    @property
    def url(self) -> str:
        """Return the address, such as https://127.0.0.1:40123."""
        return self._thread().server.url

    @property
    def kubeconfig(self) -> Path:
        """Return the path of a kubeconfig with all rights."""
        return self._thread().server.kubeconfig.resolve()

    @property
    def token(self) -> str:
        """Return the bearer token of the kubeconfig."""
        return self._thread().server.keys.admin_token

    @property
    def ca(self) -> Path:
        """Return the path of the certificate of the server's certificate authority."""
        ca = self._thread().server.ca
        assert ca is not None
        return ca

    # -- time

    @property
    def now(self) -> datetime:
        """Return the time of the server's clock, in UTC."""
        return self._thread().server.clock.now()

    def settle(self) -> None:
        """Wait until controllers and kubelets have no more work at the current time."""
        self._call(lambda server: server.controls.settle())

    def advance(self, by: timedelta | None = None, **parts: float) -> datetime:
        """Advance simulated time and return the new time.

        ``parts`` are those of `timedelta` (``hours=1``). Each timer of controllers and kubelets fires in order, at its
        own moment, and all of them have settled on return. Raises RuntimeError with the real clock, ValueError for a
        negative time and for more than 366 days.
        """
        whole = (by if by is not None else timedelta()) + timedelta(**parts)
        self._call(lambda server: server.controls.advance(whole))
        return self.now

    # -- faults

    @property
    def faults(self) -> FaultTable:
        """Return the injected faults: refusals, delays, broken connections (`FaultTable`)."""
        return self._thread().server.faults

    def drop_watches(self, resource: str = "*", *, user: str = "*") -> int:
        """End open watches, all or those of a resource (``pods``), as after their timeout; return their number."""
        return self._end_watches(resource, user, expired=False)

    def expire_watches(self, resource: str = "*", *, user: str = "*") -> int:
        """End open watches with 410 Gone, so that their clients list again; return their number."""
        return self._end_watches(resource, user, expired=True)

    def _end_watches(self, resource: str, user: str, *, expired: bool) -> int:
        from kube_standin.faults import RequestPattern

        pattern = RequestPattern("*", resource, user=user)

        async def end(server: ListeningServer) -> int:
            return server.controls.end_watches(pattern, expired=expired)

        ended: int = self._call(end)
        return ended

    # -- snapshots

    def snapshot(self) -> ServerSnapshot:
        """Return the current state: all objects, and the time."""
        state: ServerSnapshot = self._call(lambda server: server.controls.snapshot())
        return state

    def restore(self, state: ServerSnapshot) -> None:
        """Restore a state.

        Open watches end with 410, controllers and kubelets restart, a simulated clock is set back. Resource versions
        continue: changed objects get new ones.
        """
        self._call(lambda server: server.controls.restore(state))

    def save(self, path: str | Path) -> None:
        """Write the current state to a file for ``ApiServer(state=path)``. It contains Secrets. Raises OSError."""
        self.snapshot().save(path)

    def _call(self, work: Any) -> Any:
        return self._thread().call(work)


PARAMETERS: Final = frozenset(inspect.signature(ApiServer).parameters)


class _RunningThread:
    """A server on an event loop in its own thread; ``ready`` completes when it serves, or with the error."""

    server: ListeningServer

    def __init__(self, options: ServeOptions) -> None:
        self._options = options
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="kube-standin", daemon=True)
        self.ready: Future[None] = Future()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the server and wait for its end."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def call(self, work: Any) -> Any:
        """Run a coroutine function of the server in its loop and return its result."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("cannot be called in the server's own thread")
        coroutine: Coroutine[Any, Any, Any] = work(self.server)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        from kube_standin.server.control_plane import serving

        try:
            async with serving(self._options) as server:
                while not server.has_nodes:
                    await asyncio.sleep(_POLL_SECONDS)
                self.server = server
                self.ready.set_result(None)
                await self._stopping.wait()
        except Exception as error:
            if self.ready.done():
                raise
            self.ready.set_exception(error)


def _options(
    *,
    nodes: int,
    manifests: Sequence[str | Path | Mapping[str, Any]],
    controllers: str,
    kubelets: bool,
    clock: Literal["real", "simulated"] | datetime,
    state: ServerSnapshot | str | Path | None,
    data_dir: str | Path | None,
    host: str,
    port: int,
    folder: str | Path | None,
    test_controls: bool,
) -> ServeOptions:
    from kube_standin.clock import ServerClock, SimulatedClock
    from kube_standin.kubelet import KubeletOptions
    from kube_standin.server.control_plane import MEMORY, ServeOptions
    from kube_standin.snapshots import read_state

    return ServeOptions(
        data_dir=data_dir if data_dir is not None else MEMORY,
        host=host,
        port=port,
        controllers=controllers,
        kubelets=KubeletOptions(nodes=nodes) if kubelets else None,
        objects=_objects(manifests, Path(folder) if folder is not None else Path()),
        clock=ServerClock() if clock == "real" else SimulatedClock(clock if isinstance(clock, datetime) else None),
        state=read_state(state) if isinstance(state, str | Path) else state,
        test_controls=test_controls,
    )


def _objects(manifests: Sequence[str | Path | Mapping[str, Any]], folder: Path) -> Sequence[Any]:
    """Return the objects of files, with names relative to `folder`, and of plain data."""
    from kube_rules.documents import read_plain
    from kube_standin.manifest_files import read_files

    objects = []
    for number, manifest in enumerate(manifests):
        if isinstance(manifest, Mapping):
            objects += read_plain([(f"<manifest {number}>", manifest)], _MOST_BYTES)
        else:
            objects += read_files([folder / manifest], _MOST_BYTES)
    return objects
