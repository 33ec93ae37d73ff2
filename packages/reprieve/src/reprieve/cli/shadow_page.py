"""A shadow report as one HTML file: no script, no request, all text escaped."""

from collections.abc import Sequence
from html import escape
from typing import Final

from reprieve.cli.shadow_text import (
    ACTING,
    COLUMNS,
    MEANINGS,
    SHADOW,
    TITLES,
    cells_of,
    conclusion,
    details_of,
    figures,
    remarks,
)
from reprieve.decisions.shadow import ShadowReport

_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 70rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.3rem; }
h2 { font-size: 1.1rem; margin-top: 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: .25rem 1rem .25rem 0; border-bottom: 1px solid #8886; }
td div { overflow-wrap: anywhere; }
"""


def page(report: ShadowReport) -> str:
    """Return the page."""
    parts = [f"<h1>{escape(conclusion(report))}</h1>", "<h2>Figures, of compared pods and gangs</h2>"]
    parts.append(_table(("", ACTING, SHADOW), [(cells, []) for cells in figures(report)]))
    for kind, title in TITLES.items():
        found = [difference for difference in report.differences if difference.kind == kind]
        if found:
            parts.append(f"<h2>{escape(title)}: {report.counts[kind]}</h2><p>{escape(MEANINGS[kind])}</p>")
            if len(found) < report.counts[kind]:
                parts.append(f"<p>{len(found)} of {report.counts[kind]} shown, the latest.</p>")
            rows = [(cells_of(difference), details_of(difference)) for difference in found]
            parts.append(_table((*COLUMNS, "what differs"), rows))
    notes = "".join(f"<li>{escape(line)}</li>" for line in remarks(report))
    parts.append(f"<h2>How to read this</h2><ul>{notes}</ul>")
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Shadow report</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _table(columns: tuple[str, ...], rows: Sequence[tuple[tuple[str, ...], list[str]]]) -> str:
    """Return a table; the lines of a row are its last cell."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = []
    for cells, lines in rows:
        first = f'<th scope="row">{escape(cells[0])}</th>'
        rest = "".join(f"<td>{escape(cell)}</td>" for cell in cells[1:])
        below = "".join(f"<div>{escape(line)}</div>" for line in lines)
        body.append(f"<tr>{first}{rest}{f'<td>{below}</td>' if lines else ''}</tr>")
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
