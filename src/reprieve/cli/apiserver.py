"""`reprieve apiserver`: the embedded control plane alone, for any scheduler and any Kubernetes client."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reprieve.cli.outcome import note, reason_of, refuse, show

if TYPE_CHECKING:
    from reprieve.controlplane.kubelet import KubeletOptions
    from reprieve.controlplane.server.serving import ServeOptions

_MEMORY = ":memory:"


def command(
    data_dir: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Where the state is kept (default: the user's data directory); :memory: for none."
        ),
    ] = None,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 6443,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to write the kubeconfig (default: in the data directory)."),
    ] = None,
    read_only_kubeconfig: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a kubeconfig that may read but not write.")
    ] = None,
    nodes: Annotated[int, typer.Option(min=0, max=100_000, help="How many simulated nodes to make.")] = 0,
    nodes_file: Annotated[
        list[str] | None, typer.Option("-f", "--nodes-file", metavar="FILE", help="Manifests of nodes to make.")
    ] = None,
    kubelets: Annotated[bool, typer.Option(help="Simulate kubelets: bound pods start, run, end and stop.")] = True,
    controllers: Annotated[
        str, typer.Option(metavar="LIST", help="Controllers to run: *, none, or names; -NAME leaves one out.")
    ] = "*",
    anonymous: Annotated[
        bool, typer.Option("--anonymous", help="Let requests without credentials see /version.")
    ] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Log what the server does to stderr.")] = False,
) -> None:
    """Serve a Kubernetes-compatible API on this machine until interrupted.

    Prints how to use kubectl once it serves. Ctrl-C or SIGTERM stops it; nothing acknowledged is lost.
    """
    from reprieve.controlplane.server.serving import ServeOptions

    options = ServeOptions(
        data_dir=data_dir if data_dir is not None else default_data_dir(),
        host=host,
        port=port,
        kubeconfig=kubeconfig,
        anonymous=anonymous,
        controllers=controllers,
        kubelets=_fleet(nodes, nodes_file or []) if kubelets or nodes or nodes_file else None,
    )
    _log(verbose)
    run(options, read_only_kubeconfig)


def default_data_dir() -> Path:
    """`$XDG_DATA_HOME/reprieve/apiserver`, by default under ~/.local/share."""
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "reprieve" / "apiserver"


def run(options: "ServeOptions", read_only_kubeconfig: Path | None) -> None:
    """Serve until SIGINT or SIGTERM. What keeps the server from starting is one error with exit code 2."""
    from reprieve.controlplane.errors import StatusError
    from reprieve.controlplane.storage.log import StorageError

    try:  # a loop that is twice as fast, where there is one
        from uvloop import run as run_loop
    except ImportError:
        from asyncio import run as run_loop  # type: ignore[assignment]
    _collect_seldom()
    try:
        run_loop(_serve(options, read_only_kubeconfig))
    except (StorageError, StatusError, ValueError) as error:
        refuse(str(error))
    except OSError as error:
        refuse(reason_of(error))


def _collect_seldom() -> None:
    """Look for cyclic garbage among old objects hardly ever: with 50,000 pods each look holds the server for 0.3 s.

    What is stored has no cycles; what requests leave behind is found among the young.
    """
    import gc

    gc.set_threshold(20_000, 50, 2_000)


async def _serve(options: "ServeOptions", read_only_kubeconfig: Path | None) -> None:
    import asyncio
    import signal

    from reprieve.controlplane.security import write_kubeconfig
    from reprieve.controlplane.server.serving import serving

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with serving(options) as running:
        if read_only_kubeconfig is not None:
            write_kubeconfig(
                read_only_kubeconfig, server=running.url, ca=running.ca, token=running.keys.reader_token, name="reader"
            )
        kept = "nothing is kept" if str(options.data_dir) == _MEMORY else f"state in {options.data_dir}"
        note(f"serving on {running.url}, {kept}; Ctrl-C stops it")
        show(f"export KUBECONFIG={running.kubeconfig.resolve()}\n")
        await stop.wait()
        note("stopping")


def _fleet(nodes: int, files: list[str]) -> "KubeletOptions":
    """The simulated nodes: as many as asked for, and those of the manifests."""
    from reprieve.controlplane.kubelet import KubeletOptions

    return KubeletOptions(nodes=nodes, manifests=tuple(_node_manifests(files)))


def _node_manifests(files: list[str]) -> list[dict[str, object]]:
    """The Node manifests in the files, as plain data. Anything else in them is refused."""
    if not files:
        return []
    import msgspec

    from reprieve.api.errors import InputError
    from reprieve.api.loading import load

    try:
        found = load(files, complete=False)
    except InputError as error:
        refuse(str(error))
    except OSError as error:
        refuse(reason_of(error))
    others = [loaded for loaded in found.all() if loaded.object.KIND != "Node"]
    if others:
        refuse(f"{others[0].origin}: {others[0].object.KIND} {others[0].object.name}: only nodes can be made here")
    if not found.nodes:
        refuse(f"{files[0]}: no nodes in it")
    return [
        {"apiVersion": "v1", "kind": "Node", **msgspec.to_builtins(loaded.object, str_keys=True)}
        for loaded in found.nodes
    ]


def _log(verbose: bool) -> None:
    import logging
    import sys

    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(stream=sys.stderr, level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
