"""`reprieve help TOPIC`: pages of the documentation, which come with the program."""

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
"""In the order in which they are listed; pyproject.toml puts these pages of docs/ into the wheel."""


def _completed(context: typer.Context, incomplete: str) -> list[str]:
    """Topics and commands that begin like that."""
    program = context.parent.command if context.parent is not None else None
    names = dict.fromkeys((*TOPICS, *getattr(program, "commands", {})))
    return [name for name in names if name.startswith(incomplete.lower())]


def command(
    context: typer.Context,
    topic: Annotated[
        str | None,
        typer.Argument(metavar="TOPIC|COMMAND", help="What to explain.", show_default=False, autocompletion=_completed),
    ] = None,
) -> None:
    """Show a page of the documentation, or the options of a command; without a topic, which there are."""
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
        made = commands[name].make_context(name, ["--help"], parent=context.parent, resilient_parsing=True)
        show(commands[name].get_help(made) + "\n")
        return
    from kube_rules.unknown_fields import nearest

    meant = nearest(name, (*TOPICS, *commands))
    hint = f', did you mean "{meant}"?' if meant else ""
    refuse(f'no topic "{topic[:64]}"{hint or ": reprieve help lists them"}')


def _listed() -> str:
    width = max(map(len, TOPICS))
    lines = [f"  {name.ljust(width)}  {_title(_page(name))}" for name in TOPICS]
    return "\n".join(["Topics, each shown by: reprieve help TOPIC", *lines, ""]) + (
        "\nThe options of a command: reprieve help COMMAND. All commands: reprieve --help.\n"
    )


def _title(page: str) -> str:
    return next((line.removeprefix("# ") for line in page.splitlines() if line.startswith("# ")), "")


def _page(name: str) -> str:
    """Return the page as it came with the program; in a checkout `pages` is a link to docs/."""
    file = Path(__file__).parent / "pages" / f"{name}.md"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    refuse(f"the page {name}.md did not come with this installation")
