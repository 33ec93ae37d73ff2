"""The command `reprieve`.

Start-up stays under half a second: numpy and the engine are imported inside the commands that need them.
"""

import atexit
import gc
import os
import sys
from copy import copy
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from reprieve.cli import (
    apiserver,
    bench,
    capacity,
    completion,
    demo,
    down,
    drain_plan,
    explain,
    history,
    importing,
    openb,
    plan,
    queue,
    replay,
    scheduler,
    snapshot,
    topics,
    up,
)
from reprieve.cli.changing import ORDER
from reprieve.cli.outcome import CommandError, note, show
from reprieve.cluster.garbage_collection import collect_seldom

app = typer.Typer(
    name="reprieve",
    help="A Kubernetes scheduler that thinks in workloads: gangs all-or-nothing, preemption of as few workloads as "
    "possible, and an answer to why.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
imports = typer.Typer(
    cls=importing.Import, help="Make job lists for replay of public traces; openb: manifests.", rich_markup_mode=None
)


class Command(TyperCommand):
    """A command that knows in which order its options were given (`changing.ORDER`), and takes no empty name for a file
    or directory (options whose metavar is one).

    An empty name would be the current directory, which nobody means who writes `--data-dir "$UNSET"`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse an empty name as bad usage, else read the arguments."""
        given, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[ORDER] = [param.name for param in order]
        for param in self.get_params(ctx):
            metavar = getattr(param, "metavar", None) or ""
            value = given.get(param.name or "")
            values = value if isinstance(value, list) else [value]
            if "" in values and {"FILE", "DIR", "CSV"} & set(metavar.split("|")):
                ctx.fail(f"Invalid value for {' / '.join(param.opts)}: the name is empty.")
        return super().parse_args(ctx, args)


app.command("plan", cls=Command)(plan.command)
app.command("history", cls=Command)(history.command)
app.command("queue", cls=Command)(queue.command)
app.command("capacity", cls=Command)(capacity.command)
app.command("drain-plan", cls=Command)(drain_plan.command)
app.command("explain", cls=Command)(explain.command)
app.command("snapshot", cls=Command)(snapshot.command)
app.command("up", cls=Command)(up.command)
app.command("down", cls=Command)(down.command)
app.command("scheduler", cls=Command)(scheduler.command)
app.command("apiserver", cls=Command)(apiserver.command)
app.command("demo", cls=Command)(demo.command)
app.command("bench", cls=Command)(bench.command)
app.command("replay", cls=Command)(replay.command)
app.command("completion", cls=Command)(completion.command)
app.command("help", cls=Command)(topics.command)
imports.command("trace", cls=Command, hidden=True)(importing.command)
imports.command("openb", cls=Command)(openb.command)
app.add_typer(imports, name="import")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        show(f"reprieve {version('reprieve')}\n")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Options of the program itself."""


def _with_only(name: str) -> typer.Typer:
    """The program with one command, where that is known: the options of the others are not made for nothing."""
    named = [each for each in app.registered_commands if each.name == name]
    if not named or name == "help":
        return app
    only = copy(app)
    only.registered_commands, only.registered_groups = named, []
    return only


def kubectl() -> None:
    """Entry point of `kubectl-reprieve`, by which kubectl knows `kubectl reprieve`."""
    main("kubectl reprieve")


def complete_kubectl() -> None:
    """Entry point of `kubectl_complete-reprieve`, which kubectl asks to complete `kubectl reprieve`."""
    completion.ask_for_kubectl(sys.argv[1:])
    main()


def main(program: str = "reprieve") -> None:
    """Entry point; ends the process with one of the codes of `reprieve.cli.outcome.Exit`."""
    collect_seldom()
    atexit.register(
        gc.freeze
    )  # what is left goes as a whole: to look through it for cycles first takes a tenth of a second
    # Decisions are made of integers, which numpy hands to no BLAS: its threads would be started, and spin, for nothing.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if completion.VARIABLE in os.environ:
        completion.answer_shells()
    try:
        _with_only(sys.argv[1] if len(sys.argv) > 1 else "")(prog_name=program)
    except CommandError as error:
        note(f"error: {error}")
        sys.exit(error.code)
