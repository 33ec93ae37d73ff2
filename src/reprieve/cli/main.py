"""The command `reprieve`.

Start-up stays under half a second: numpy and the engine are imported inside the commands that need them.
"""

import sys
from typing import Annotated

import typer

from reprieve.cli import apiserver, bench, demo, explain, openb, plan, scheduler, snapshot, up
from reprieve.cli.outcome import CommandError, note, show

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
imports = typer.Typer(help="Turn public traces into manifests.", no_args_is_help=True, rich_markup_mode=None)
app.command("plan")(plan.command)
app.command("explain")(explain.command)
app.command("snapshot")(snapshot.command)
app.command("up")(up.command)
app.command("scheduler")(scheduler.command)
app.command("apiserver")(apiserver.command)
app.command("demo")(demo.command)
app.command("bench")(bench.command)
imports.command("openb")(openb.command)
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


def main() -> None:
    """Entry point; ends the process with one of the codes of `reprieve.cli.outcome.Exit`."""
    try:
        app(prog_name="reprieve")
    except CommandError as error:
        note(f"error: {error}")
        sys.exit(error.code)
