"""Answers as tables: pandas data frames and HTML for notebooks.

HTML escapes all names, labels and messages, because they come from untrusted objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import pandas

MOST_ROWS: Final = 50
"""The maximum number of table rows in HTML; a data frame has all rows."""
Cell = str | int | float | bool | None


class Table(NamedTuple):
    """Column names, and rows with one value per column."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]


def data_frame(table: Table) -> pandas.DataFrame:
    """Return the table as a pandas.DataFrame. Raises ImportError with an installation hint without pandas."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_dataframe() needs pandas: pip install 'reprieve[pandas]'") from error
    return pandas.DataFrame(list(table.rows), columns=list(table.columns))


def html(title: str, table: Table) -> str:
    """Return the table with its title as HTML, limited to MOST_ROWS rows; empty for a table without rows."""
    if not table.rows:
        return ""
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape('' if cell is None else str(cell))}</td>" for cell in row) + "</tr>"
        for row in table.rows[:MOST_ROWS]
    )
    more = len(table.rows) - MOST_ROWS
    rest = f"<p>... and {more} more</p>" if more > 0 else ""
    return f"<h4>{escape(title)}</h4><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"
