"""`reprieve apiserver`: the embedded control plane alone, for any scheduler and any Kubernetes client."""

import os
import shlex
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, TypeVar

import typer

from kube_rules.printable import printable, printable_line
from reprieve.cli import outcome
from reprieve.cli.outcome import note, reason_of, refuse, show
from reprieve.cli.progress import working
from reprieve.cli.source import DEFAULT_MAX_BYTES, MaxBytesOption

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from kube_rules.manifests import PlainObject
    from kube_standin.kubelet import KubeletOptions
    from kube_standin.loading import Loaded
    from kube_standin.server.serving import ServeOptions, Serving

_MEMORY = ":memory:"
T = TypeVar("T")


DataDir = Annotated[
    str | None,
    typer.Option(
        metavar="DIR", help="Where the state is kept (default: the user's data directory); :memory: for none."
    ),
]
Host = Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Where to write the kubeconfig (default: in the data directory)."),
]
ReadOnlyKubeconfig = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Also write a kubeconfig that may read but not write.")
]
Nodes = Annotated[int, typer.Option(min=0, max=100_000, help="How many simulated nodes to make.")]
Files = Annotated[
    list[str] | None,
    typer.Option(
        "-f",
        "--filename",
        "--nodes-file",
        metavar="FILE|DIR|-",
        help="Manifests of what is to be there from the start, a whole snapshot too. Repeatable.",
    ),
]
Lenient = Annotated[
    bool,
    typer.Option("--lenient", help="Leave out what is refused of the manifests and name it, instead of ending."),
]
Kubelets = Annotated[bool, typer.Option(help="Simulate kubelets: bound pods start, run, end and stop.")]
Controllers = Annotated[
    str, typer.Option(metavar="LIST", help="Controllers to run: *, none, or names; -NAME leaves one out.")
]
Anonymous = Annotated[bool, typer.Option("--anonymous", help="Let requests without credentials see /version.")]
AcceptLoss = Annotated[
    bool,
    typer.Option(
        "--accept-loss",
        help="Start from a damaged data directory with what can be read of it; the damaged files are kept beside.",
    ),
]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Log what is done to stderr.")]


def command(
    data_dir: DataDir = None,
    host: Host = "127.0.0.1",
    port: Port = 6443,
    kubeconfig: Kubeconfig = None,
    read_only_kubeconfig: ReadOnlyKubeconfig = None,
    nodes: Nodes = 0,
    files: Files = None,
    max_input_bytes: MaxBytesOption = DEFAULT_MAX_BYTES,
    lenient: Lenient = False,
    kubelets: Kubelets = True,
    controllers: Controllers = "*",
    anonymous: Anonymous = False,
    accept_loss: AcceptLoss = False,
    verbose: Verbose = False,
) -> None:
    """Serve a Kubernetes-compatible API on this machine until interrupted.

    Prints how to use kubectl once it serves. Ctrl-C or SIGTERM stops it; nothing acknowledged is lost.
    """
    from kube_standin.server.serving import ServeOptions

    objects = read_objects(files or (), max_input_bytes)
    options = ServeOptions(
        data_dir=data_dir if data_dir is not None else default_data_dir(),
        host=host,
        port=port,
        kubeconfig=kubeconfig,
        anonymous=anonymous,
        accept_loss=accept_loss,
        controllers=controllers,
        kubelets=fleet(nodes) if kubelets or nodes or has_nodes(objects) else None,
        objects=objects,
        lenient=lenient,
    )
    log_to_stderr(verbose)
    run_serving(_serve(options, read_only_kubeconfig))


def default_data_dir(command: str = "apiserver") -> Path:
    """`$XDG_DATA_HOME/reprieve/COMMAND`, by default under ~/.local/share. A relative XDG_DATA_HOME does not count."""
    base = Path(os.environ.get("XDG_DATA_HOME") or "")
    if not base.is_absolute():
        base = Path.home() / ".local" / "share"
    return base / "reprieve" / command


def run_serving(main: Coroutine[Any, Any, T]) -> T:
    """Run a program around a server and return what it returns; what keeps it from starting ends with exit code 2."""
    from kube_standin.errors import StatusError
    from kube_standin.storage.log import StorageError

    try:  # a loop that is twice as fast, where there is one
        from uvloop import run as run_loop
    except ImportError:
        from asyncio import run as run_loop  # type: ignore[assignment]
    _collect_seldom()
    try:
        return run_loop(main)
    except (StorageError, StatusError, ValueError) as error:
        refuse(str(error))
    except OSError as error:
        refuse(reason_of(error))


def _collect_seldom() -> None:
    """Collect cyclic garbage among old objects hardly ever: with 50,000 pods each takes the server 0.3 s.

    What is stored has no cycles; what requests leave behind is found among the young.
    """
    import gc

    gc.set_threshold(20_000, 50, 2_000)


async def _serve(options: "ServeOptions", read_only_kubeconfig: Path | None) -> None:
    from contextlib import AsyncExitStack

    from kube_standin.server.serving import serving

    stop = interrupted()
    async with AsyncExitStack() as stack:
        with working("setting up"):
            running = await stack.enter_async_context(serving(options))
        report_loaded(running.control_plane.loaded)
        announce(running, read_only_kubeconfig)
        await stop.wait()
        note("stopping")


def interrupted() -> "asyncio.Event":
    """An event that SIGINT and SIGTERM set from now on, instead of ending the process."""
    import asyncio
    import signal

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop


def announce(running: "Serving", read_only_kubeconfig: Path | None) -> None:
    """Show how to use kubectl, and write the second kubeconfig if one is wanted."""
    from kube_standin.security import write_kubeconfig

    if read_only_kubeconfig is not None:
        write_kubeconfig(
            read_only_kubeconfig, server=running.url, ca=running.ca, token=running.keys.reader_token, name="reader"
        )
    data_dir = running.options.data_dir
    kept = "nothing is kept" if str(data_dir) == _MEMORY else f"state in {data_dir}"
    note(f"serving on {running.url}, {kept}; Ctrl-C stops it")
    show(f"export KUBECONFIG={shlex.quote(str(running.kubeconfig.resolve()))}\n")


def read_objects(files: "Sequence[str]", max_bytes: str) -> "list[PlainObject]":
    """The objects of the manifests as they stand there. What cannot be read ends the command."""
    if not files:
        return []
    from kube_rules.errors import InputError
    from reprieve.cli.options import read_size
    from reprieve.inputs.loading import read_plain

    most = read_size("--max-input-bytes", max_bytes)
    try:
        with working("reading the manifests"):
            found = read_plain(files, max_bytes=most)
    except InputError as error:
        refuse(str(error))
    except OSError as error:
        refuse(reason_of(error))
    if not found:
        refuse(f"{files[0]}: no objects in it")
    return found


def has_nodes(objects: "Sequence[PlainObject]") -> bool:
    """Whether there are nodes among the objects: they need kubelets."""
    return any(one.manifest["kind"] == "Node" for one in objects)


def fleet(nodes: int) -> "KubeletOptions":
    """The simulated nodes: as many as asked for; kubelets work on those of manifests too."""
    from kube_standin.kubelet import KubeletOptions

    return KubeletOptions(nodes=nodes)


_MOST_NAMED = 3


def report_loaded(loaded: "Loaded") -> None:
    """Report what became of the manifests."""
    from reprieve.cli.outcome import MOST_LINES

    for lines in (loaded.warnings, [f"{text}; left out" for text in loaded.left_out]):
        for line in lines[:MOST_LINES]:
            note(f"warning: {line}")
        if len(lines) > MOST_LINES:
            note(f"warning: ... and {len(lines) - MOST_LINES} more of this sort")
    if loaded.orphaned:
        note(f"warning: the owners of {_objects(loaded.orphaned)} are not in the input; loaded without them")
    if loaded.made:
        note(f"loaded {_objects(loaded.made)}" + _naming(", with what the input lacks: ", loaded.added))
    if loaded.kept:
        note(f"{_objects(len(loaded.kept))} of the input there already, kept as found" + _naming(": ", loaded.kept))


def _objects(number: int) -> str:
    return f"{number} object{'' if number == 1 else 's'}"


def _naming(lead: str, subjects: "Sequence[str]") -> str:
    if not subjects:
        return ""
    rest = f" and {len(subjects) - _MOST_NAMED} more" if len(subjects) > _MOST_NAMED else ""
    return lead + ", ".join(subjects[:_MOST_NAMED]) + rest


def log_to_stderr(verbose: bool) -> None:
    """Log to stderr: warnings, or everything."""
    import logging
    import sys

    class SeparateLines(logging.StreamHandler[TextIO]):
        """Lines that stand by themselves, beside those of the progress."""

        def emit(self, record: logging.LogRecord) -> None:
            with outcome.apart():
                super().emit(record)

    class Printable(logging.Formatter):
        """Lines of characters that print, a message in one of them; only tracebacks have more."""

        def format(self, record: logging.LogRecord) -> str:
            record.msg, record.args = printable_line(record.getMessage()), ()
            return printable(super().format(record))

    level = logging.INFO if verbose else logging.WARNING
    handler = SeparateLines(sys.stderr)
    handler.setFormatter(Printable("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=level)
