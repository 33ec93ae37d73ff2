"""A shadow report as sections of text: the conclusion in one sentence, then the sections of the page."""

from reprieve.cli.sections import Row, Section, Tone
from reprieve.decisions.shadow import ShadowReport
from reprieve.decisions.shadow_summary import COLUMNS, conclusion
from reprieve.page.shadow_view import shadow_view


def report_sections(report: ShadowReport) -> list[Section]:
    """Return the report as text."""
    view = shadow_view(report)
    figures = tuple(Row(cells) for cells in view.figures)
    return [
        Section(conclusion(report), tone=Tone.BAD if any(report.counts.values()) else Tone.GOOD),
        Section("Figures, of compared pods and gangs", view.heads, figures),
        *(
            Section(
                f"{table.title}: {table.total}",
                COLUMNS,
                tuple(Row(cells, below=sentences) for cells, sentences in table.rows),
                (table.meaning,),
            )
            for table in view.tables
        ),
        Section("How to read this", notes=view.remarks, tone=Tone.QUIET),
    ]
