"""Sections on the screen: rich tables in a terminal, plain text anywhere else. NO_COLOR (no-color.org) is honoured."""

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, TextIO

from reprieve.cli.outcome import show
from reprieve.cli.sections import Row, Section, Tone, plain

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text


_NARROW: Final = 10
"""Characters that a column keeps at least, or its longest word where that is shorter."""


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
                console.print(_table(section, console.width))
            for text in section.notes:
                console.print(_indented(Text(text), 2))
    return capture.get()


def _table(section: Section, width: int) -> "RenderableType":
    """The rows, indented like everything else; a name is broken only where the names of all columns have no room."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    heading = any(section.columns)
    space = (0, 0, 0, 1 if heading else 2)  # a box has a blank at its left and between columns
    table = Table(box=box.SIMPLE_HEAD if heading else None, show_header=heading, padding=space)
    for column, chosen in zip(section.columns, _widths(section, width), strict=True):
        table.add_column(column, overflow="fold", width=chosen)
    for row in section.rows:
        table.add_row(*(Text(cell) for cell in row.cells), style=str(row.tone))
    return table


def _widths(section: Section, width: int) -> list[int | None]:
    """How wide each column is: its longest word at least, of the widest columns less, where there is no room for all.

    None where that is left to the library: so many columns that none keeps its words.
    """
    cells = [(column, *(row.cells[turn] for row in section.rows)) for turn, column in enumerate(section.columns)]
    whole = [max(map(len, column)) for column in cells]
    least = [max((len(word) for cell in column for word in cell.split()), default=0) for column in cells]
    room = width - 2 * len(cells) - 2
    for turn in sorted(range(len(cells)), key=lambda turn: -least[turn]):
        over = sum(least) - room
        if over > 0:
            least[turn] = min(least[turn], max(_NARROW, least[turn] - over))
    spare = room - sum(least)
    if spare < 0:
        return [None] * len(cells)
    for turn in sorted(range(len(cells)), key=lambda turn: whole[turn] - least[turn]):
        more = min(spare, whole[turn] - least[turn])
        least[turn], spare = least[turn] + more, spare - more
    return list(least)


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
