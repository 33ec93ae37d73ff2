"""`reprieve queue --records`: the last attempt of each pending workload, from the scheduler's records."""

import asyncio
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from reprieve.cli.evidence import ExplainTarget, read_records
from reprieve.cli.outcome import CommandError, Exit, note, refuse
from reprieve.cli.progress import working
from reprieve.client.errors import ClientError, ConfigError
from reprieve.client.kubeconfig import connect
from reprieve.decisions.queue_items import LastAttempt, QueueItem
from reprieve.decisions.records import DecisionRecord

if TYPE_CHECKING:
    from reprieve.python.inputs import InputSource
    from reprieve.questions.queue_order import Queue

MOST_ASKED: Final = 200
"""Maximum number of workloads for which records are read: each is a query to the scheduler or its database."""


def with_attempts(queue: "Queue", source: "InputSource", records: str) -> "Queue":
    """Return the queue with the last attempts of its first workloads (whatif.md 6.6).

    A source without records ends the command with exit code 2, one that cannot be reached with 3.
    """
    if not source.live:
        refuse("--records needs a live cluster: --kubeconfig FILE")
    chosen = queue.items[:MOST_ASKED]
    names = [ExplainTarget(item.kind, item.namespace, item.name) for item in chosen]
    try:
        connection = connect(source.kubeconfig, source.context)
        with working("reading the records"):
            records_read = asyncio.run(read_records(connection, names, records))[0] if names else []
    except ConfigError as error:
        refuse(str(error))
    except ClientError as error:
        raise CommandError(f"{error} (set another location with --records URL|FILE)", Exit.UNREACHABLE) from None
    if len(queue.items) > MOST_ASKED:
        note(f"records of the first {MOST_ASKED} workloads were read")
    latest: dict[ExplainTarget, DecisionRecord] = {}
    for record in records_read:
        entity = record.entity
        latest.setdefault(ExplainTarget(entity.kind, entity.namespace, entity.name), record)
    items = tuple(_with_attempt(item, latest) for item in queue.items)
    return replace(queue, items=items)


def _with_attempt(item: QueueItem, latest: dict[ExplainTarget, DecisionRecord]) -> QueueItem:
    """Return the item with its last attempt; records from before its creation are about another object."""
    record = latest.get(ExplainTarget(item.kind, item.namespace, item.name))
    if record is None or (item.since is not None and record.time < item.since):
        return item
    attempt = LastAttempt(time=record.time, attempt=record.attempt, result=record.result, message=record.message)
    return replace(item, last_attempt=attempt)
