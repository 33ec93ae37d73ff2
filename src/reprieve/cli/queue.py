"""`reprieve queue`: what waits, in the order it will be tried."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from reprieve.cli.asking import Source, gather, show_with_changes, taking_source, warn_of
from reprieve.cli.documents import Format, document
from reprieve.cli.outcome import refuse, show

if TYPE_CHECKING:
    from reprieve.cli.sections import Section
    from reprieve.simulation.whatif.queue_order import Queue

PAUSE = 2.0
"""Seconds between two looks with `-w`."""


@taking_source()
def command(
    context: typer.Context,
    source: Source,
    output: Annotated[Format, typer.Option("-o", "--output", help="How to show the answer.")] = Format.TEXT,
    watch: Annotated[
        bool, typer.Option("-w", "--watch", help="Look again every two seconds, until interrupted.")
    ] = False,
) -> None:
    """Show what waits, in the order it will be tried: since when, why in one word, and whom it would evict.

    Why: Ready (it has a place), Preempting, Priority (what runs is as important), Resources, Backoff or Gated.
    """
    if watch and source.kubeconfig is None:
        refuse("-w: only a live cluster changes: --kubeconfig FILE")
    if watch and "-" in source.files:
        refuse("-w: standard input can be read only once: a file for -f")
    _look(source, output, first=True)
    while watch:
        time.sleep(PAUSE)
        _look(source, output, first=False)


def _look(source: Source, output: Format, *, first: bool) -> None:
    """One look; what is wrong with the input is said at the first."""
    from dataclasses import replace

    from reprieve.api.errors import InputError
    from reprieve.cli.options import read_options
    from reprieve.simulation.whatif.queue_order import queue_of

    gathered = gather(source)
    try:
        queue = queue_of(gathered.manifests, replace(read_options(), now=gathered.now))
    except InputError as error:
        refuse(str(error))
    if first:
        warn_of(gathered)
    if output is not Format.TEXT:
        from msgspec.structs import replace as with_fields

        show(document(with_fields(queue, changes=tuple(gathered.changed.made)), output))
        return
    show_with_changes(gathered, [queue_section(queue)])


def queue_section(queue: "Queue") -> "Section":
    """The queue as a table."""
    from reprieve.cli.sections import Row, Section, Tone

    if not queue.items:
        return Section("Nothing waits.", tone=Tone.GOOD)
    rows = tuple(
        Row(
            (
                str(item.position),
                f"{item.kind.lower()} {item.namespace}/{item.name}",
                str(item.pods),
                str(item.priority),
                item.since,
                item.why,
                f"{', '.join(item.evicts[:3])}{f' and {len(item.evicts) - 3} more' if len(item.evicts) > 3 else ''}",
            ),
            tone=Tone.GOOD if item.why == "Ready" else Tone.WAITING,
        )
        for item in queue.items
    )
    columns: tuple[str, ...] = ("#", "who", "pods", "priority", "since", "why", "would evict")
    if not any(item.evicts for item in queue.items):
        columns, rows = columns[:-1], tuple(Row(row.cells[:-1], tone=row.tone) for row in rows)
    title = "1 waits" if len(rows) == 1 else f"{len(rows)} wait, in the order they are tried"
    return Section(title, columns, rows)
