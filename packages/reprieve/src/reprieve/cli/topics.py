"""`reprieve help TOPIC`: pages of the documentation, which the package contains."""

from pathlib import Path
from typing import Annotated

import typer

from reprieve.cli.outcome import refuse, show

TOPICS = (
    "concepts",
    "plan",
    "questions",
    "replay",
    "cost",
    "waiting",
    "trees",
    "devices",
    "python",
    "plugins",
    "configuration",
    "observability",
    "up",
    "apiserver",
    "live-cluster",
    "install",
    "runbook",
    "migrate",
    "benchmarks",
    "glossary",
)
"""Topics in the order of the list; pyproject.toml puts these pages of docs/ into the wheel."""


def _completed(context: typer.Context, incomplete: str) -> list[str]:
    """Complete names of topics and commands."""
    program = context.parent.command if context.parent is not None else None
    names = dict.fromkeys((*TOPICS, *getattr(program, "commands", {})))
    return [name for name in names if name.startswith(incomplete.lower())]


def command(
    context: typer.Context,
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="TOPIC|COMMAND", help="The topic or command.", show_default=False, autocompletion=_completed
        ),
    ] = None,
) -> None:
    """Show a documentation page or the options of a command.

    Without a topic, list all topics.
    """
    if topic is None:
        show(_listed())
        return
    name = topic.lower()
    if name in TOPICS:
        show(_page(name))
        return
    program = context.parent.command if context.parent is not None else None
    commands: dict[str, typer.core.TyperCommand] = getattr(program, "commands", {})
    if name in commands:
        help_context = commands[name].make_context(name, ["--help"], parent=context.parent, resilient_parsing=True)
        show(commands[name].get_help(help_context) + "\n")
        return
    from kube_rules.unknown_fields import did_you_mean, nearest

    hint = did_you_mean(nearest(name, (*TOPICS, *commands)))
    refuse(f'unknown topic or command "{topic[:64]}"{hint or "; reprieve help lists all topics"}')


def _listed() -> str:
    width = max(map(len, TOPICS))
    lines = [f"  {name.ljust(width)}  {_title(_page(name))}" for name in TOPICS]
    return "\n".join(["Topics (show one with: reprieve help TOPIC)", *lines, ""]) + (
        "\nOptions of a command: reprieve COMMAND --help. All commands: reprieve --help.\n"
    )


def _title(page: str) -> str:
    return next((line.removeprefix("# ") for line in page.splitlines() if line.startswith("# ")), "")


def _page(name: str) -> str:
    """Return the installed page, with the path of the example files that it names.

    In a checkout `pages` and `examples` are links to docs/ and examples/.
    """
    folder = Path(__file__).parent
    file = folder / "pages" / f"{name}.md"
    if file.is_file():
        page = file.read_text(encoding="utf-8")
        examples = (folder / "examples").resolve()
        return f"{page}\nFiles of examples/ are in {examples}\n" if "examples/" in page else page
    refuse(f"the page {name}.md is missing from this installation")
