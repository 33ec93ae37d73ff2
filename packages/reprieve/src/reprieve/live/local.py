"""A whole cluster on one machine: the control plane in this process, the scheduler in a child (`reprieve up`).

Invariants: a yielded cluster is ready - the API serves and the scheduler has its cluster cache. The scheduler uses only
the API of the control plane, as anywhere else. At the end the scheduler stops before the API.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp

from kube_standin.security import write_kubeconfig
from kube_standin.server.control_plane import MEMORY, ListeningServer, ServeOptions, serving
from reprieve.client.kubeconfig import SCHEDULER_EXTENSION
from reprieve.live.supervisor import ChildRefusedError, Restarts, Supervisor

BAD_INPUT: Final = 2
"""The exit code of a command that refuses its input (interfaces.md): a restart does not help."""
_READY_SECONDS: Final = 60.0
_MOST_RECORDS: Final = "64Mi"
_LOOPBACK: Final = "127.0.0.1"


@dataclass
class LocalOptions:
    """Options of a local cluster. `metrics_port` 0 selects a free one.

    `arguments` are further arguments of `reprieve scheduler`; its output goes to the descriptor `output`, by default
    stderr. `report` is called when it exits.
    """

    serve: ServeOptions
    metrics_port: int = 0
    arguments: tuple[str, ...] = ()
    report: Callable[[str], None] = lambda text: None
    restarts: Restarts = field(default_factory=Restarts)
    output: int | None = None


class LocalCluster:
    """A running local cluster. `failed` ends with the error if the scheduler refuses to run."""

    def __init__(self, server: ListeningServer, scheduler_url: str, run: asyncio.Task[None]) -> None:
        self.server = server
        self.scheduler_url = scheduler_url
        self.failed = run

    @property
    def kubeconfig(self) -> Path:
        """Return the kubeconfig file for kubectl and any other client."""
        return self.server.kubeconfig.resolve()


@asynccontextmanager
async def local_cluster(options: LocalOptions) -> AsyncIterator[LocalCluster]:
    """Run a local cluster until the context exits.

    Raises OSError for a port that is taken, StorageError or ValueError as `serving` does, ChildRefusedError if the
    scheduler refuses its arguments.
    """
    with kept_port(options.metrics_port) as port:
        url = f"http://{_LOOPBACK}:{port}"
        options.serve.context_extensions = {**options.serve.context_extensions, SCHEDULER_EXTENSION: {"url": url}}
        async with serving(options.serve) as server:
            supervisor = Supervisor(
                scheduler_command(server, port, options.arguments),
                final=(BAD_INPUT,),
                report=lambda text: options.report(f"the scheduler {text}"),
                restarts=options.restarts,
                output=options.output,
            )
            running = asyncio.create_task(supervisor.run(), name="scheduler")
            try:
                await _until_ready(url, running)
                supervisor.proven = True
                yield LocalCluster(server, url, running)
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)


def scheduler_command(server: ListeningServer, metrics_port: int, arguments: Sequence[str]) -> list[str]:
    """Return the command line of a server's scheduler."""
    kubeconfig = server.directory / "scheduler.kubeconfig"
    write_kubeconfig(kubeconfig, server=server.url, ca=server.ca, token=server.keys.admin_token, name="scheduler")
    command = [
        *(sys.executable, "-m", "reprieve.cli.child_process", "scheduler"),
        f"--kubeconfig={kubeconfig}",
        "--no-leader-elect",
        f"--bind-address={_LOOPBACK}",
        f"--port={metrics_port}",
    ]
    if str(server.options.data_dir) != MEMORY:
        command += [f"--records={server.directory / 'decisions.db'}", f"--records-max-bytes={_MOST_RECORDS}"]
    return [*command, *arguments]


@contextmanager
def kept_port(wanted: int) -> Iterator[int]:
    """Reserve a port of loopback for a child, any free one for 0. Raises OSError with the port in its message.

    The child takes it seconds later, and again after every restart. On Linux a bound socket that does not listen
    reserves the port for processes that request its number: the kernel does not give it to a process that requests any
    free port. Elsewhere such a socket would block the child as well, so it is closed at once.
    """
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            reserved.bind((_LOOPBACK, wanted))
        except OSError as error:
            raise OSError(error.errno, f"cannot listen on {_LOOPBACK}:{wanted}: {error.strerror}") from error
        port = int(reserved.getsockname()[1])
        if sys.platform != "linux":
            reserved.close()
        yield port


async def _until_ready(url: str, running: asyncio.Task[None]) -> None:
    """Wait until the scheduler is ready. Raises the error that ended it, or TimeoutError."""
    async with asyncio.timeout(_READY_SECONDS), aiohttp.ClientSession() as session:
        while not running.done():
            try:
                async with session.get(f"{url}/readyz") as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.05)
    await running
    raise ChildRefusedError(0)
