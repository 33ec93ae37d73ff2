"""Text for people as plain data: sections of headings, table rows and notes.

`reprieve.cli.render` makes the content and `reprieve.cli.terminal` the layout: a terminal gets colours and tables that
fold to its width, a pipe gets plain lines of any length.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kube_rules.printable import printable_line

BUDGET_OVERRULED: Final = (
    "although a PodDisruptionBudget forbids it: evicting only unprotected pods is not enough on these nodes"
)
"""Note on a victim. Protected units are tried for reprieve first (preemption.md 3.4), so this is certain for these
nodes, but not for others.
"""


class Tone(StrEnum):
    """The meaning of a text for the reader, which determines its colour."""

    PLAIN = ""
    GOOD = "green"
    BAD = "red"
    WAITING = "yellow"
    QUIET = "dim"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table. `below` are lines that belong to it and may be long."""

    cells: tuple[str, ...]
    below: tuple[str, ...] = ()
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, rows with as many cells as there are `columns`, and closing notes; only text without columns."""

    title: str
    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()
    tone: Tone = Tone.PLAIN


def plain(sections: Iterable[Section]) -> str:
    """Return plain text without control characters, with aligned columns and nothing cut."""
    return "\n".join("".join(f"{line}\n" for line in _lines(section)) for section in map(printing, sections))


def printing(section: Section) -> Section:
    """Return the section with every text in it as one line of characters that print (interfaces.md 1.13)."""
    lines = functools.partial(map, printable_line)
    return Section(
        printable_line(section.title),
        tuple(lines(section.columns)),
        tuple(Row(tuple(lines(row.cells)), tuple(lines(row.below)), row.tone) for row in section.rows),
        tuple(lines(section.notes)),
        section.tone,
    )


def _lines(section: Section) -> Iterable[str]:
    yield section.title
    widths = [
        max(len(row.cells[i]) for row in (*section.rows, Row(section.columns))) for i in range(len(section.columns))
    ]
    if section.rows and any(section.columns):
        yield "  " + _padded(section.columns, widths)
    for row in section.rows:
        yield "  " + _padded(row.cells, widths)
        for line in row.below:
            yield f"      {line}"
    for text in section.notes:
        yield f"  {text}"


def _padded(cells: tuple[str, ...], widths: list[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
