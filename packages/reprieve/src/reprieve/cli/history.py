"""`reprieve history`: preemptions with their victims, time, reason and cost, from the scheduler's decision records."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from reprieve.cli.documents import Format, document
from reprieve.cli.outcome import CommandError, Exit, note, refuse, show
from reprieve.cli.progress import working
from reprieve.cli.source import ClusterOption, ContextOption, EverywhereOption, NamespaceOption, RecordsOption

if TYPE_CHECKING:
    from reprieve.cli.sections import Section
    from reprieve.decisions.history import PreemptionHistory
    from reprieve.decisions.records import DecisionRecord

DEFAULT_SINCE = "24h"


def command(
    since: Annotated[
        str,
        typer.Option(metavar="DURATION|TIME", help="Show preemptions since then: 6h, 30m, 7d, or a time (RFC 3339)."),
    ] = DEFAULT_SINCE,
    namespace: NamespaceOption = None,
    everywhere: EverywhereOption = False,
    kubeconfig: ClusterOption = None,
    context: ContextOption = None,
    records: RecordsOption = None,
    node: Annotated[str, typer.Option(metavar="NAME", help="Only preemptions that evicted pods from this node.")] = "",
    owner: Annotated[
        str, typer.Option(metavar="KIND/NAME", help="Only preemptions that evicted pods of this controller: job/train.")
    ] = "",
    output: Annotated[Format, typer.Option("-o", "--output", help="Output format.")] = Format.TEXT,
) -> None:
    """List past preemptions, newest first.

    Shows preemptor, victims, time, reason and cost. Changes nothing. With a file as --records no cluster is needed.
    """
    if namespace is not None and everywhere:
        refuse("-n and -A cannot be combined")
    start = _read_since(since)
    records_read, default = _records(kubeconfig, context, records, start, namespace, everywhere=everywhere)
    from reprieve.decisions.history import history_of
    from reprieve.observability.store import MOST_EVICTIONS

    if len(records_read) >= MOST_EVICTIONS:
        note(f"the newest {MOST_EVICTIONS:,} preemptions were read; there may be older ones {_period(since)}")
    history = history_of(records_read, None if everywhere else namespace or default, node=node, owner=owner)
    if output is not Format.TEXT:
        show(document(history, output))
        return
    from reprieve.cli.terminal import show_sections

    show_sections(history_sections(history, since))


def _read_since(text: str) -> float:
    """Return seconds since 1970 of a duration back from now, or of a time."""
    import re

    from reprieve.cli.options import read_time

    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text)
    if match is not None:
        unit = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}[match[2]]
        return time.time() - float(match[1]) * unit
    if not text[:1].isdecimal() or "T" not in text:
        refuse(f"--since {text}: expected a duration such as 6h, 30m or 7d, or a time (RFC 3339)")
    return read_time("--since", text)


def _period(since: str) -> str:
    """Return the value of `--since` as a phrase: a time, or a duration back from now."""
    return f"since {since}" if "T" in since else f"in the last {since}"


def _records(
    kubeconfig: str | None,
    context: str | None,
    records: str | None,
    since: float,
    namespace: str | None,
    *,
    everywhere: bool,
) -> "tuple[Sequence[DecisionRecord], str | None]":
    """Return the records, and the namespace of the answer; None means all."""
    import asyncio

    from reprieve.cli.database_records import EXPECTED, DatabaseRecords, is_database, without_user
    from reprieve.cli.evidence import evictions
    from reprieve.client.errors import ClientError, ConfigError
    from reprieve.client.kubeconfig import connect

    try:
        if records is not None and is_database(records):
            with working("reading the records"):
                return DatabaseRecords(records)(since), None
        if records is not None and not records.startswith(("http://", "https://")):
            refuse(f"--records {without_user(records)}: {EXPECTED}")
        connection = connect(kubeconfig, context)
        with working("reading the records"):
            queried = "" if everywhere else namespace or connection.namespace or "default"
            records_read, source = asyncio.run(evictions(connection, since, records, queried))
    except ConfigError as error:
        refuse(str(error))
    except ClientError as error:
        raise CommandError(f"{error} (set another location with --records URL|FILE)", Exit.UNREACHABLE) from None
    note(f"records of {source}")
    return records_read, connection.namespace


def history_sections(history: "PreemptionHistory", since: str) -> "list[Section]":
    """Return the history as a table, newest first."""
    from reprieve.cli.sections import Row, Section, Tone
    from reprieve.decisions.phrases import count, seconds_text, to_the_second

    if not history.items:
        return [Section(f"No pods were evicted {_period(since)}.", tone=Tone.GOOD)]
    rows = []
    for item in history.items:
        below = []
        for victim in item.victims:
            ran = f" after {seconds_text(victim.running_seconds)}" if victim.running_seconds is not None else ""
            budget = ", although a PodDisruptionBudget forbids it" if victim.violates_pdb else ""
            why = f": {victim.why}" if victim.why else ""
            below.append(f"{victim.unit} (priority {victim.priority}, {count(victim.pods, 'pod')}){ran}{budget}{why}")
        lost = f"{item.lost_gpu_hours:g} GPU-hours" if item.lost_gpu_hours else f"{item.lost_cpu_hours:g} CPU-hours"
        cells = (to_the_second(item.time), f"{item.kind.lower()} {item.namespace}/{item.name}", str(item.priority))
        rows.append(Row((*cells, count(item.pods, "pod"), lost, item.state), below=tuple(below)))
    pods = sum(item.pods for item in history.items)
    noun = "eviction" if any(item.cause for item in history.items) else "preemption"
    title = f"{count(len(rows), noun)} {_period(since)}: {count(pods, 'pod')} evicted"
    columns = ("when", "by", "priority", "evicted", "work lost", "state")
    return [Section(title, columns, tuple(rows), tone=Tone.PLAIN)]
