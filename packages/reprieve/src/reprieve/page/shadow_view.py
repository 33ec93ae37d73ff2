"""A shadow report as a view of the page (page.md 10): its tables, with the same sentences as the text."""

from __future__ import annotations

from msgspec.structs import replace

from reprieve.decisions.outcomes import Document
from reprieve.decisions.shadow import ShadowReport
from reprieve.decisions.shadow_summary import (
    ACTING,
    COLUMNS,
    MEANINGS,
    SHADOW,
    TITLES,
    cells_of,
    conclusion,
    details_of,
    evictions_compared,
    figures,
    remarks,
)
from reprieve.page.documents import PageDocument


class ShadowTable(Document, frozen=True, kw_only=True):
    """Differences of one kind: a row is (cells, sentences). `total`: their number; the rows are the latest ones."""

    title: str
    meaning: str
    rows: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    total: int


class ShadowView(Document, frozen=True, kw_only=True):
    """Content of the view: figures side by side under `heads`, differences by kind under `columns`, remarks."""

    heads: tuple[str, ...]
    figures: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...]
    tables: tuple[ShadowTable, ...]
    remarks: tuple[str, ...]


def shadow_page(report: ShadowReport) -> PageDocument:
    """Return the page of a report without a cluster."""
    return PageDocument(shadow=shadow_view(report), sentences={"shadow": _sentence(report)})


def with_shadow(document: PageDocument, report: ShadowReport) -> PageDocument:
    """Return the page of a cluster with a report."""
    sentences = {**document.sentences, "shadow": _sentence(report)}
    return replace(document, shadow=shadow_view(report), sentences=sentences)


def _sentence(report: ShadowReport) -> str:
    return f"{evictions_compared(report)} {conclusion(report)}"


def shadow_view(report: ShadowReport) -> ShadowView:
    """Return the view of a report."""
    return ShadowView(
        heads=("", ACTING, SHADOW),
        figures=tuple(figures(report)),
        columns=(*COLUMNS, "what differs"),
        tables=tuple(_table(report, kind) for kind in TITLES if report.counts.get(kind)),
        remarks=tuple(remarks(report)),
    )


def _table(report: ShadowReport, kind: str) -> ShadowTable:
    differences = [difference for difference in report.differences if difference.kind == kind]
    return ShadowTable(
        title=TITLES[kind],
        meaning=MEANINGS[kind],
        rows=tuple((cells_of(difference), tuple(details_of(difference))) for difference in differences),
        total=report.counts[kind],
    )
