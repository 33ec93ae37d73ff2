"""Sections on the screen: rich tables in a terminal, plain text anywhere else. NO_COLOR (no-color.org) is honoured."""

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

from reprieve.cli.outcome import show
from reprieve.cli.sections import Row, Section, Tone, plain

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text


def show_sections(sections: Sequence[Section], out: TextIO | None = None) -> None:
    """Write the sections to stdout, as suits what stdout is."""
    out = out or sys.stdout
    if out.isatty() and os.environ.get("TERM") != "dumb":
        show(drawn(sections, colour=not os.environ.get("NO_COLOR")))
    else:
        show(plain(sections))


def drawn(sections: Iterable[Section], *, colour: bool = True, width: int | None = None) -> str:
    """The sections as a terminal of `width` columns (None: this one) shows them, control sequences included."""
    from rich.console import Console
    from rich.text import Text

    console = Console(force_terminal=True, no_color=not colour, width=width, highlight=False, markup=False, emoji=False)
    with console.capture() as capture:
        for number, section in enumerate(sections):
            if number:
                console.print()
            console.print(Text(section.title, style=f"bold {section.tone}".strip()))
            if any(row.below for row in section.rows):
                for row in section.rows:
                    for line in _listed(section, row):
                        console.print(line)
            elif section.rows:
                console.print(_table(section))
            for text in section.notes:
                console.print(_indented(Text(text), 2))
    return capture.get()


def _table(section: Section) -> "RenderableType":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    heading = any(section.columns)
    table = Table(box=box.SIMPLE_HEAD if heading else None, show_header=heading, padding=(0, 1))
    for column in section.columns:
        table.add_column(column, overflow="fold")
    for row in section.rows:
        table.add_row(*(Text(cell) for cell in row.cells), style=str(row.tone))
    return table


def _listed(section: Section, row: Row) -> Iterable["RenderableType"]:
    """A row whose explanation needs the whole width: its cells in one line, each after its column's name."""
    from rich.text import Text

    first, *rest = zip(section.columns, row.cells, strict=True)
    line = Text(first[1], style=f"bold {row.tone}".strip())
    if rest:
        size, *others = rest
        said = [size[1], *(f"{column} {cell}".strip() for column, cell in others)]
        line.append(f"  {', '.join(said)}", style="not bold")
    yield _indented(line, 2)
    for text in row.below:
        yield _indented(Text(text, style=str(Tone.QUIET)), 6)


def _indented(text: "Text", by: int) -> "RenderableType":
    from rich.padding import Padding

    return Padding(text, (0, 0, 0, by), expand=False)
