"""`reprieve queue`: pending workloads, in the order in which they are tried."""

import functools
import time
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from kube_rules.errors import names_text
from reprieve.cli.documents import Format, document
from reprieve.cli.outcome import note, refuse, show
from reprieve.cli.progress import working
from reprieve.cli.source import (
    NamespaceOption,
    RecordsOption,
    SuggestOption,
    gather,
    show_with_changes,
    source_of,
    warn_of,
    warn_of_namespace,
)

if TYPE_CHECKING:
    from reprieve.cli.sections import Section
    from reprieve.decisions.queue_items import LastAttempt
    from reprieve.python.inputs import InputSource, PreparedInput
    from reprieve.questions.queue_order import Queue
    from reprieve.simulation.plan import PlanOptions

PAUSE = 2.0
"""Seconds between two tables with `-w`."""
MOST_OBJECTS = 2_500
"""In clusters with more objects, no suggestions are tried, so that the queue is shown within a second."""
_HOPING = ("Priority", "Resources", "Constraints")
"""Reasons to be pending for which a change might help."""


def command(
    context: typer.Context,
    output: Annotated[Format, typer.Option("-o", "--output", help="Output format.")] = Format.TEXT,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Refresh every 2 s until interrupted.")] = False,
    namespace: NamespaceOption = None,
    everywhere: Annotated[
        bool, typer.Option("-A", "--all-namespaces", help="Show all namespaces (the default).")
    ] = False,
    suggest: SuggestOption = True,
    records: RecordsOption = None,
) -> None:
    """List pending workloads in the order of the queue.

    Shows how long each is pending, the reason in one word, and what it would evict. Reasons: Ready (it fits now),
    Preempting, Priority (a higher one helps), Resources (not enough capacity is free), Constraints (nodes with enough
    capacity are excluded), Backoff, Gated. With --records also the result of the scheduler's last attempt.
    """
    source = source_of(context)
    if watch and not source.live:
        refuse("-w needs a live cluster: use --kubeconfig FILE")
    if watch and "-" in source.files:
        refuse("-w: standard input can be read only once: use -f FILE")
    if namespace is not None and everywhere:
        refuse("-n and -A cannot be combined")
    show_queue = functools.partial(_show_queue, source, output, namespace, records, suggest=suggest)
    show_queue(first=True)
    while watch:
        time.sleep(PAUSE)
        show_queue(first=False)


def _show_queue(
    source: "InputSource", output: Format, namespace: str | None, records: str | None, *, suggest: bool, first: bool
) -> None:
    """Show the queue once; warnings of the input come with the first."""
    from dataclasses import replace

    from msgspec.structs import replace as with_fields

    from reprieve.cli.options import read_options
    from reprieve.questions.queue_order import queue_of

    prepared = gather(source)
    options = replace(read_options(), now=prepared.now, rows=source.rows)
    large = sum(map(len, prepared.manifests.objects.values())) > MOST_OBJECTS
    with working("sorting the queue"):
        trying = suggest and not large
        queue = _with_suggestions(prepared, options) if trying else queue_of(prepared.manifests, options)
    if namespace is not None:
        queue = with_fields(queue, items=tuple(item for item in queue.items if item.namespace == namespace))
    if records is not None:
        from reprieve.cli.queue_records import with_attempts

        queue = with_attempts(queue, source, records)
    if first:
        warn_of(prepared)
        if namespace is not None:
            warn_of_namespace(prepared, namespace)
        if suggest and large and any(item.why in _HOPING for item in queue.items):
            skipped = f"suggestions skipped: more than {MOST_OBJECTS:,} objects"
            note(f"{skipped}. Run `reprieve explain` to see what would help.")
    if output is not Format.TEXT:
        show(document(with_fields(queue, changes=tuple(prepared.changed.applied)), output))
        return
    from reprieve.cli.render import refused_section

    refused = refused_section(queue.refused)
    show_with_changes(prepared, [queue_section(queue), *([refused] if refused is not None else [])])


def _with_suggestions(prepared: "PreparedInput", options: "PlanOptions") -> "Queue":
    """Return the queue, and for pending pods the suggestions that would help; each was tried."""
    from dataclasses import replace

    from reprieve.python.pending_records import WaitingRecords
    from reprieve.questions.queue_order import queue_of
    from reprieve.questions.suggestions import helped

    records = WaitingRecords()
    options = replace(options, observer=records)
    trials = prepared.trials(options)
    return queue_of(prepared.manifests, options, lambda answer: helped(answer, trials, records.hints))


def _attempt_line(attempt: "LastAttempt") -> str:
    message = f", {attempt.message}" if attempt.message else ""
    return f"attempt {attempt.attempt} at {attempt.time}: {attempt.result}{message}"


def queue_section(queue: "Queue") -> "Section":
    """Return the queue as a table."""
    from reprieve.cli.render import help_lines
    from reprieve.cli.sections import Row, Section, Tone

    if not queue.items:
        return Section("No pods are pending.", tone=Tone.GOOD)
    rows = tuple(
        Row(
            (
                str(item.position),
                f"{item.kind.lower()} {item.namespace}/{item.name}",
                str(item.pods),
                str(item.priority),
                item.since or "unknown",
                item.why,
                names_text(item.evicts, 3),
            ),
            below=(
                *([f"resize in place on {item.node_name}"] if item.node_name is not None else []),
                *([item.reserved] if item.reserved else []),
                *([item.requested] if item.requested else []),
                *([_attempt_line(item.last_attempt)] if item.last_attempt is not None else []),
                *help_lines(item.help, item.tried),
            ),
            tone=Tone.GOOD if item.why == "Ready" else Tone.WAITING,
        )
        for item in queue.items
    )
    columns = ("#", "workload", "pods", "priority", "since", "why", "would evict")
    empty = {"since"} if all(item.since is None for item in queue.items) else set()
    empty |= set() if any(item.evicts for item in queue.items) else {"would evict"}
    shown = [turn for turn, name in enumerate(columns) if name not in empty]
    rows = tuple(Row(tuple(row.cells[turn] for turn in shown), row.below, row.tone) for row in rows)
    undated = Counter(item.priority for item in queue.items if item.since is None and item.node_name is None)
    order = "Workloads of equal priority without a creation time are tried in the order of the input."
    notes = (order,) if any(number > 1 for number in undated.values()) else ()
    title = "1 pending workload" if len(rows) == 1 else f"{len(rows)} pending workloads, in the order they are tried"
    return Section(title, tuple(columns[turn] for turn in shown), rows, notes)
