"""The commands of `reprieve`, and the function that runs them.

Start-up stays under half a second: numpy and the engine are imported inside the commands that need them.
"""

import io
import os
from collections.abc import Sequence
from copy import copy
from typing import Annotated, Any

import typer

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
    openb,
    plan,
    queue,
    records,
    replay,
    scheduler,
    shadow,
    snapshot,
    topics,
    trace_import,
    tune,
    up,
)
from reprieve.cli.options import Command, KubeSchedulerCommand
from reprieve.cli.outcome import CommandError, Exit, give_up_stdout, note, reason_of, show, show_drawn
from reprieve.cli.source import SourceCommand

app = typer.Typer(
    name="reprieve",
    help="A Kubernetes scheduler for gangs. It places a gang as a whole or not at all, preempts as few workloads as "
    "possible, and explains each decision.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
imports = typer.Typer(
    cls=trace_import.Import, help="Convert public traces to job lists or, for openb, manifests.", rich_markup_mode=None
)


shadows = typer.Typer(
    help="Report where another scheduler and its shadow (reprieve scheduler --shadow) differ.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


app.command("plan", cls=SourceCommand)(plan.command)
app.command("history", cls=Command)(history.command)
app.command("queue", cls=SourceCommand)(queue.command)
app.command("capacity", cls=SourceCommand)(capacity.command)
app.command("drain-plan", cls=SourceCommand)(drain_plan.command)
app.command("explain", cls=SourceCommand)(explain.command)
app.command("snapshot", cls=Command)(snapshot.command)
app.command("up", cls=Command)(up.command)
app.command("down", cls=Command)(down.command)
app.command("scheduler", cls=KubeSchedulerCommand)(scheduler.command)
app.command("apiserver", cls=Command)(apiserver.command)
app.command("demo", cls=Command)(demo.command)
app.command("bench", cls=Command)(bench.command)
app.command("replay", cls=Command)(replay.command)
app.command("tune", cls=Command)(tune.command)
app.command("completion", cls=Command)(completion.command)
app.command("help", cls=Command)(topics.command)
imports.command("trace", cls=Command, hidden=True)(trace_import.command)
imports.command("openb", cls=Command)(openb.command)
app.add_typer(imports, name="import")

stored = typer.Typer(help="Manage decision records.", no_args_is_help=True, rich_markup_mode=None)


@stored.callback()
def _records() -> None:
    """Keep `migrate` a subcommand: without a callback, typer would merge it into `records`."""


stored.command("migrate", cls=Command)(records.command)
app.add_typer(stored, name="records")


@shadows.callback()
def _shadow() -> None:
    """Keep `report` a subcommand: without a callback, typer would merge it into `shadow`."""


shadows.command("report", cls=Command)(shadow.command)
app.add_typer(shadows, name="shadow")


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
    """Handle the options of the program itself."""


def with_only(name: str) -> typer.Typer:
    """Return the program, restricted to one known command, because building all options takes time."""
    named = [registered_command for registered_command in app.registered_commands if registered_command.name == name]
    if not named or name == "help":
        return app
    only = copy(app)
    only.registered_commands, only.registered_groups = named, []
    return only


def call(arguments: Sequence[str], program: str) -> int:
    """Run the command that these arguments name and return its exit code.

    Bad usage and errors are lines on stderr; only a bug is a traceback.
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
        note("error: out of memory: the process reached its memory limit; use less input or allow more memory")
        return Exit.BAD_INPUT
    except OSError as error:
        give_up_stdout()
        note(f"error: {reason_of(error)}")
        return Exit.BAD_INPUT
    except Exception as error:
        refusal = _refusal(error)
        if refusal is None:
            raise
        note(f"error: {refusal}")
        return refusal.code


def _refusal(error: Exception) -> CommandError | None:
    """Return the exit code and message of an error of the input or of an API server; None for a bug."""
    from kube_rules.errors import InputError
    from reprieve.client.errors import ClientError, ConfigError

    if isinstance(error, InputError | ConfigError):
        return CommandError(str(error))
    return CommandError(str(error), Exit.UNREACHABLE) if isinstance(error, ClientError) else None


_UsageError: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")
"""The exception class of the click that typer uses, which may be its own copy."""
