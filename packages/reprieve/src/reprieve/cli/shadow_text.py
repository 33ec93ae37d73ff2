"""A shadow report as sections of text: one sentence of conclusion, figures side by side, the differences."""

from collections.abc import Sequence

from reprieve.cli.sections import Row, Section, Tone
from reprieve.decisions.shadow import ShadowDifference, ShadowReport
from reprieve.decisions.shadow_summary import (
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


def report_sections(report: ShadowReport) -> list[Section]:
    """Return the report as text."""
    tone = Tone.BAD if any(report.counts.values()) else Tone.GOOD
    sections = [Section(conclusion(report), tone=tone)]
    rows = tuple(Row(cells) for cells in figures(report))
    sections.append(Section("Figures, of compared pods and gangs", ("", ACTING, SHADOW), rows))
    for kind, title in TITLES.items():
        found = [difference for difference in report.differences if difference.kind == kind]
        if found:
            sections.append(Section(f"{title}: {report.counts[kind]}", COLUMNS, _rows(found), (MEANINGS[kind],)))
    sections.append(Section("How to read this", notes=tuple(remarks(report)), tone=Tone.QUIET))
    return sections


def _rows(found: Sequence[ShadowDifference]) -> tuple[Row, ...]:
    return tuple(Row(cells_of(difference), below=tuple(details_of(difference))) for difference in found)
