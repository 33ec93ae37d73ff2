"""Sections on the screen: tables as wide as the terminal; otherwise plain text. NO_COLOR (no-color.org) is honoured.

Invariants: no line is wider than the terminal; only words that are wider than the terminal are broken.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TextIO

from reprieve.cli.outcome import show, show_drawn
from reprieve.cli.sections import Section, Tone, plain, printing

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text


def show_sections(sections: Sequence[Section], out: TextIO | None = None) -> None:
    """Write the sections to stdout, as tables to a terminal, else as plain text."""
    out = out or sys.stdout
    if out.isatty() and os.environ.get("TERM") != "dumb":
        show_drawn(drawn(sections, colour=not os.environ.get("NO_COLOR")))
    else:
        show(plain(sections))


def drawn(sections: Iterable[Section], *, colour: bool = True, width: int | None = None) -> str:
    """Return the sections as a terminal of `width` columns (None: this one) shows them, control sequences included."""
    from rich.console import Console
    from rich.text import Text

    console = Console(force_terminal=True, no_color=not colour, width=width, highlight=False, markup=False, emoji=False)
    with console.capture() as capture:
        for number, section in enumerate(map(printing, sections)):
            if number:
                console.print()
            console.print(Text(section.title, style=f"bold {section.tone}".strip()))
            for line in _rows(section, console):
                console.print(line)
            for text in section.notes:
                console.print(_indented(Text(text), _INDENT, console))
    return capture.get()


_INDENT: Final = 2
_GAP: Final = 2
_BELOW: Final = 6


def _rows(section: Section, console: "Console") -> Iterator["RenderableType"]:
    """Yield the rows as a table; cells that do not fit are shown below their row, from the last column on."""
    while section.rows:
        widths = _widths(section, console.width - _INDENT)
        if widths is not None:
            return _table(section, widths, console)
        if len(section.columns) < 2:
            return _listed(section, console)
        section = _without_last(section)
    return iter(())


def _without_last(section: Section) -> Section:
    """Return the section with the cells of its last column below their rows, behind its name."""
    name = section.columns[-1]
    rows = []
    for row in section.rows:
        moved = [f"{name} {row.cells[-1]}".strip()] if row.cells[-1] else []
        rows.append(replace(row, cells=row.cells[:-1], below=(*moved, *row.below)))
    return replace(section, columns=section.columns[:-1], rows=tuple(rows))


def _widths(section: Section, room: int) -> list[int] | None:
    """Return the width of each column, so that no word is broken; None if the longest words do not fit."""
    cells = [(column, *(row.cells[turn] for row in section.rows)) for turn, column in enumerate(section.columns)]
    whole = [max(map(len, column)) for column in cells]
    widths = [max((len(word) for cell in column for word in cell.split()), default=0) for column in cells]
    spare = room - _GAP * (len(cells) - 1) - sum(widths)
    if spare < 0:
        return None
    for turn in sorted(range(len(cells)), key=lambda turn: whole[turn] - widths[turn]):
        more = min(spare, whole[turn] - widths[turn])
        widths[turn], spare = widths[turn] + more, spare - more
    return widths


def _table(section: Section, widths: Sequence[int], console: "Console") -> Iterator["RenderableType"]:
    """Yield the rows under their columns, each with its further lines below, indented like everything else."""
    from rich.text import Text

    if any(section.columns) and section.rows:
        yield from _row(section.columns, widths, "bold", console)
        yield _indented(Text("─" * (sum(widths) + _GAP * (len(widths) - 1))), _INDENT, console)
    for row in section.rows:
        yield from _row(row.cells, widths, str(row.tone), console)
        for text in row.below:
            yield _indented(Text(text, style=str(Tone.QUIET)), _BELOW, console)


def _row(cells: Sequence[str], widths: Sequence[int], style: str, console: "Console") -> Iterator["RenderableType"]:
    """Yield the lines of one row; cells that are too long for their column are wrapped."""
    from rich.text import Text

    wrapped = [Text(cell).wrap(console, max(width, 1)) for cell, width in zip(cells, widths, strict=True)]
    for number in range(max(map(len, wrapped), default=0)):
        parts = [lines[number].plain.rstrip() if number < len(lines) else "" for lines in wrapped]
        line = (" " * _GAP).join(part.ljust(width) for part, width in zip(parts, widths, strict=True))
        yield Text(" " * _INDENT + line.rstrip(), style=style)


def _listed(section: Section, console: "Console") -> Iterator["RenderableType"]:
    """Yield rows with a first cell that does not fit beside the margin, each folded."""
    from rich.text import Text

    for row in section.rows:
        yield _indented(Text(row.cells[0], style=f"bold {row.tone}".strip()), _INDENT, console)
        for text in row.below:
            yield _indented(Text(text, style=str(Tone.QUIET)), _BELOW, console)


def _indented(text: "Text", by: int, console: "Console") -> "RenderableType":
    """Return a text behind a margin that leaves at least one column, however narrow the terminal is."""
    from rich.padding import Padding

    return Padding(text, (0, 0, 0, min(by, console.width - 1)), expand=False)
