"""`kube-standin serve`, and its options, start, reports and end for other programs that run this server.

Functions import what only they need, so that a program with these options starts quickly.
"""

import os
import shlex
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

from kube_rules.errors import first_lines, names_text, reason_of
from kube_rules.printable import printable, printable_line

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from kube_rules.manifests import PlainObject
    from kube_standin.initial_objects import LoadReport
    from kube_standin.kubelet import KubeletOptions
    from kube_standin.server.control_plane import ListeningServer, ServeOptions
    from kube_standin.webhooks import WebhookReach

_MOST_NAMED = 3
"""Maximum number of warnings of one kind that are printed."""
T = TypeVar("T")


class CommandRefusedError(Exception):
    """Bad usage or bad input: one line with the problem, and exit code 2."""


class Console:
    """The output of a command. Programs with other output rules override it."""

    def note(self, *lines: str) -> None:
        """Write lines for users to stderr."""
        print("\n".join(printable_line(line) for line in lines), file=sys.stderr, flush=True)

    def show(self, text: str) -> None:
        """Write to stdout."""
        print(printable(text), end="", flush=True)

    def refuse(self, message: str) -> NoReturn:
        """End the command because of invalid input."""
        raise CommandRefusedError(message)

    def working(self, what: str) -> AbstractContextManager[None]:
        """Show progress while the block runs."""
        return nullcontext()

    def log(self, verbose: bool) -> None:
        """Log to stderr: warnings, or everything."""
        import logging

        from kube_rules.log_lines import PrintableFormatter

        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(PrintableFormatter())
        logging.basicConfig(handlers=[handler], level=logging.INFO if verbose else logging.WARNING)


def _named(value: Any) -> Any:
    """Refuse an empty name: it would be the current directory, which `--data-dir "$UNSET"` never means."""
    if any(item in ("", Path()) for item in (value if isinstance(value, list) else [value])):
        raise typer.BadParameter("the name is empty.")
    return value


DataDir = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        callback=_named,
        help="Directory for the state, or :memory: for none. Default: in the user's data directory.",
    ),
]
Host = Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")]
Port = Annotated[
    int, typer.Option(metavar="NUMBER", min=0, max=65535, help="The port to listen on; 0 picks a free port.")
]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(metavar="FILE", callback=_named, help="Kubeconfig file to write. Default: in the data directory."),
]
ReadOnlyKubeconfig = Annotated[
    Path | None,
    typer.Option(metavar="FILE", callback=_named, help="Also write a kubeconfig with read-only access."),
]
Nodes = Annotated[int, typer.Option(metavar="N", min=0, max=100_000, help="Number of simulated nodes to create.")]
Files = Annotated[
    list[str] | None,
    typer.Option(
        "-f",
        "--filename",
        "--nodes-file",
        metavar="FILE|DIR|-",
        callback=_named,
        help="Manifests of the initial objects: a file, a directory, - for stdin, or a snapshot. Repeatable.",
    ),
]
Lenient = Annotated[
    bool,
    typer.Option(
        "--lenient", help="Skip objects of the manifests that are refused, with a warning, instead of failing."
    ),
]
Kubelets = Annotated[bool, typer.Option(help="Simulate kubelets: bound pods start, run and terminate.")]
Controllers = Annotated[
    str, typer.Option(metavar="LIST", help="Controllers to run: *, none, or names; -NAME disables one.")
]
Anonymous = Annotated[bool, typer.Option("--anonymous", help="Serve /version without credentials.")]
WebhookHosts = Annotated[
    list[str] | None,
    typer.Option(
        metavar="HOST",
        help="Host, address or network on which webhooks may be called, besides loopback. Repeatable.",
    ),
]
WebhookServices = Annotated[
    list[str] | None,
    typer.Option(
        "--webhook-service",
        metavar="NS/NAME=HOST:PORT",
        help="Address at which the webhooks of a Service are called. Repeatable.",
    ),
]
EmulatedVersion = Annotated[
    str | None,
    typer.Option(
        metavar="1.MINOR",
        help="Serve the APIs of this Kubernetes version, 1.29 to 1.38. Default: 1.38.",
    ),
]
AcceptLoss = Annotated[
    bool,
    typer.Option(
        "--accept-loss",
        help="Recover what can be read from a damaged data directory; the damaged files are kept.",
    ),
]
TestControls = Annotated[
    bool,
    typer.Option(
        "--test-controls",
        help="Serve /debug/kube-standin to cluster administrators: clock, faults, watches and snapshots.",
    ),
]
SimulatedTime = Annotated[
    bool,
    typer.Option("--simulated-clock", help="Let time stand still until a test control advances it."),
]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Log every step to stderr.")]


MaxBytes = Annotated[str, typer.Option(metavar="SIZE", help="Maximum total size of the input, e.g. 256Mi.")]
DEFAULT_MAX_BYTES = "64Mi"


def serve_command(console: Console, home: str) -> Callable[..., None]:
    """Return the command, with its options for typer. `home` is the default data directory (`default_data_dir`)."""

    def command(
        data_dir: DataDir = None,
        host: Host = "127.0.0.1",
        port: Port = 6443,
        kubeconfig: Kubeconfig = None,
        read_only_kubeconfig: ReadOnlyKubeconfig = None,
        nodes: Nodes = 0,
        files: Files = None,
        max_input_bytes: MaxBytes = DEFAULT_MAX_BYTES,
        lenient: Lenient = False,
        kubelets: Kubelets = True,
        controllers: Controllers = "*",
        anonymous: Anonymous = False,
        webhook_hosts: WebhookHosts = None,
        webhook_service: WebhookServices = None,
        emulated_version: EmulatedVersion = None,
        accept_loss: AcceptLoss = False,
        test_controls: TestControls = False,
        simulated_clock: SimulatedTime = False,
        verbose: Verbose = False,
    ) -> None:
        """Run a Kubernetes-compatible API server on this machine.

        Prints how to use kubectl when it is ready. Ctrl-C or SIGTERM stops it. No acknowledged write is lost.
        """
        from kube_standin.clock import ServerClock, SimulatedClock
        from kube_standin.features import Features
        from kube_standin.server.control_plane import ServeOptions

        if simulated_clock and not test_controls:
            console.refuse("--simulated-clock needs --test-controls: nothing else advances the clock")
        objects = read_objects(files or (), max_input_bytes, console)
        options = ServeOptions(
            data_dir=data_dir if data_dir is not None else default_data_dir(home),
            host=host,
            port=port,
            kubeconfig=kubeconfig,
            anonymous=anonymous,
            accept_loss=accept_loss,
            controllers=controllers,
            kubelets=fleet(nodes) if kubelets or nodes or has_nodes(objects) else None,
            objects=objects,
            lenient=lenient,
            webhooks=read_webhook_reach(webhook_hosts, webhook_service, console),
            features=Features(minor=read_emulated(emulated_version, console)),
            clock=SimulatedClock() if simulated_clock else ServerClock(),
            test_controls=test_controls,
        )
        console.log(verbose)
        run_serving(_serve(options, read_only_kubeconfig, console), console)

    return command


def default_data_dir(home: str) -> Path:
    """Return `$XDG_DATA_HOME/HOME`, by default under ~/.local/share. A relative XDG_DATA_HOME does not count."""
    base = Path(os.environ.get("XDG_DATA_HOME") or "")
    if not base.is_absolute():
        base = Path.home() / ".local" / "share"
    return base / home


def run_serving(main: Coroutine[Any, Any, T], console: Console) -> T:
    """Run a program around a server and return its result. An error at its start ends the command with exit code 2."""
    from kube_standin.errors import StatusError
    from kube_standin.storage.log import StorageError

    try:  # a loop that is twice as fast, if installed
        from uvloop import run as run_loop
    except ImportError:
        from asyncio import run as run_loop  # type: ignore[assignment]
    _collect_seldom()
    try:
        return run_loop(main)
    except (StorageError, StatusError, ValueError) as error:
        console.refuse(str(error))
    except OSError as error:
        console.refuse(reason_of(error))


def _collect_seldom() -> None:
    """Collect old cyclic garbage rarely: with 50,000 pods each collection takes the server 0.3 s.

    Stored objects have no cycles; garbage of requests is collected in the young generation.
    """
    import gc

    gc.set_threshold(20_000, 50, 2_000)


async def _serve(options: "ServeOptions", read_only_kubeconfig: Path | None, console: Console) -> None:
    from contextlib import AsyncExitStack

    from kube_standin.server.control_plane import serving

    stop = interrupted()
    async with AsyncExitStack() as stack:
        with console.working("setting up"):
            running = await stack.enter_async_context(serving(options))
        report_loaded(running.control_plane.loaded, console)
        announce(running, read_only_kubeconfig, console)
        await stop.wait()
        console.note("stopping")


def interrupted() -> "asyncio.Event":
    """Return an event that SIGINT and SIGTERM set from now on, instead of ending the process."""
    import asyncio
    import signal

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop


def announce(running: "ListeningServer", read_only_kubeconfig: Path | None, console: Console) -> None:
    """Show how to use kubectl, and write the second kubeconfig if requested."""
    from kube_standin.security import write_kubeconfig

    if read_only_kubeconfig is not None:
        write_kubeconfig(
            read_only_kubeconfig, server=running.url, ca=running.ca, token=running.keys.reader_token, name="reader"
        )
    from kube_standin.server.control_plane import MEMORY

    data_dir = running.options.data_dir
    storage = "nothing is kept" if str(data_dir) == MEMORY else f"state in {data_dir}"
    console.note(f"serving on {running.url}, {storage}; Ctrl-C stops it")
    console.show(f"export KUBECONFIG={shlex.quote(str(running.kubeconfig.resolve()))}\n")


def read_objects(files: "Sequence[str]", max_bytes: str, console: Console) -> "list[PlainObject]":
    """Return the objects of the manifests unchanged. Invalid input ends the command."""
    from kube_rules.errors import InputError
    from kube_rules.quantity import QuantityError, parse, value
    from kube_standin.manifest_files import read_files

    try:
        most = value(parse(max_bytes))
    except QuantityError as error:
        console.refuse(f"--max-input-bytes: {error}")
    if most <= 0:
        console.refuse(f"--max-input-bytes: expected a size above 0, found {max_bytes!r}")
    if not files:
        return []
    try:
        with console.working("reading the manifests"):
            objects = read_files(files, most)
    except InputError as error:
        console.refuse(str(error))
    if not objects:
        console.refuse(f"{files[0]}: no objects in it")
    return objects


def read_webhook_reach(
    hosts: "Sequence[str] | None", services: "Sequence[str] | None", console: Console
) -> "WebhookReach":
    """Return the webhooks that may be called. Invalid options end the command."""
    from kube_standin.webhooks import webhook_reach

    try:
        return webhook_reach(hosts or (), services or ())
    except ValueError as error:
        console.refuse(str(error))


def read_emulated(version: str | None, console: Console) -> int:
    """Return the minor version to emulate, by default the newest. An unsupported version ends the command."""
    from kube_standin.releases import NEWEST, read_minor

    if version is None:
        return NEWEST
    try:
        return read_minor(version)
    except ValueError as error:
        console.refuse(f"--emulated-version: {version!r}: {error}")


def has_nodes(objects: "Sequence[PlainObject]") -> bool:
    """Return whether the objects include nodes, which need kubelets."""
    return any(obj.manifest["kind"] == "Node" for obj in objects)


def fleet(nodes: int) -> "KubeletOptions":
    """Return the options for this many simulated nodes; kubelets also run on nodes of manifests."""
    from kube_standin.kubelet import KubeletOptions

    return KubeletOptions(nodes=nodes)


def report_loaded(loaded: "LoadReport", console: Console) -> None:
    """Report the result of loading the manifests."""
    note = console.note
    for lines in (loaded.warnings, [f"{text}; left out" for text in loaded.left_out]):
        for line in first_lines(lines):
            note(f"warning: {line}")
    if loaded.orphaned:
        note(f"warning: the owners of {_objects(loaded.orphaned)} are not in the input; loaded without them")
    if loaded.made:
        note(f"loaded {_objects(loaded.made)}" + _naming(", including missing dependencies: ", loaded.added))
    if loaded.kept:
        note(f"kept {_objects(len(loaded.kept))} that already existed" + _naming(": ", loaded.kept))


def _objects(number: int) -> str:
    return f"{number} object{'' if number == 1 else 's'}"


def _naming(lead: str, subjects: "Sequence[str]") -> str:
    return lead + names_text(subjects, _MOST_NAMED) if subjects else ""


app = typer.Typer(
    name="kube-standin",
    help="A Kubernetes API server for tests, laptops and CI, in one process.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("serve")(serve_command(Console(), "kube-standin"))


@app.command()
def envtest_assets(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", callback=_named, help="Directory to write to; created if it does not exist."),
    ],
) -> None:
    """Write programs that envtest (controller-runtime) starts in place of etcd and kube-apiserver.

    Prints the environment variable that envtest reads.
    """
    from kube_standin.envtest import write_assets

    try:
        write_assets(folder)
    except OSError as error:
        Console().refuse(reason_of(error))
    Console().show(f"export KUBEBUILDER_ASSETS={shlex.quote(str(folder.resolve()))}\n")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        Console().show(f"kube-standin {version('kube-standin')}\n")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Options of the program itself."""


def main() -> None:
    """Run `kube-standin` and end the process: 0, or 2 for bad usage, bad input and a server that cannot start."""
    try:
        sys.exit(app(prog_name="kube-standin", standalone_mode=False))
    except CommandRefusedError as error:
        Console().note(f"error: {' '.join(str(error).split())}")
    except _UsageError as error:
        error.show()
    sys.exit(2)


_UsageError: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")
"""The UsageError base class of the click that typer uses, possibly a bundled one."""
