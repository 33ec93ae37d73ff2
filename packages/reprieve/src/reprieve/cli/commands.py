"""The commands of `reprieve` and the one way to call them.

Start-up stays under half a second: numpy and the engine are imported inside the commands that need them.
"""

import io
import os
from collections.abc import Sequence
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
from reprieve.cli.outcome import CommandError, Exit, give_up_stdout, note, reason_of, show, show_drawn

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


def with_only(name: str) -> typer.Typer:
    """The program with one command, where that is known: the options of the others are not made for nothing."""
    named = [each for each in app.registered_commands if each.name == name]
    if not named or name == "help":
        return app
    only = copy(app)
    only.registered_commands, only.registered_groups = named, []
    return only


def call(arguments: Sequence[str], program: str) -> int:
    """Run the command that these arguments name and return its exit code.

    Bad usage and errors are lines on stderr, whoever finds them; only a bug is a traceback.
    """
    if completion.VARIABLE in os.environ:
        completion.answer_shells()
    try:
        code = with_only(arguments[0] if arguments else "")(arguments, prog_name=program, standalone_mode=False)
        show_drawn("")  # what typer has written
        return int(code or Exit.DONE)
    except CommandError as error:
        note(f"error: {error}")
        return error.code
    except typer.Abort:
        return Exit.INTERRUPTED
    except _UsageError as error:
        text = io.StringIO()
        error.show(text)
        note(*text.getvalue().splitlines())
        return int(error.exit_code)
    except MemoryError:
        note("error: out of memory: this takes more than the process may have; give it less input or more memory")
        return Exit.BAD_INPUT
    except OSError as error:
        give_up_stdout()
        note(f"error: {reason_of(error)}")
        return Exit.BAD_INPUT


_UsageError: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")
"""Of the click that typer uses, which may be one of its own."""
