"""Queries on a database of decision records in SQLAlchemy Core, the same for PostgreSQL and SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, and_, delete, func, select, true
from sqlalchemy.dialects import postgresql, sqlite

from reprieve.observability.database.location import RecordsDatabase
from reprieve.observability.database.schema import INVOLVED, PICTURE, RECORD
from reprieve.observability.database.spool import StoredRecord
from reprieve.observability.store import MOST_EVICTIONS, MOST_FOUND

AT_ONCE: Final = 5_000
"""Maximum number of records that one statement deletes."""
PICTURES_SHARE: Final = 8
"""Snapshots may use an additional 1/8 of the maximum size of records."""


def _insert(connection: Connection) -> Any:
    return postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert


def write(connection: Connection, cluster: str, rows: Sequence[StoredRecord]) -> None:
    """Write records. Of two revisions of a record, only the higher one and its names are kept."""
    insert = _insert(connection)
    latest = {row.id: row for row in sorted(rows, key=lambda row: row.revision)}
    values = [
        {
            "cluster": cluster,
            "id": row.id,
            "revision": row.revision,
            "time": row.time,
            "preempts": row.preempts,
            "size": row.size,
            "body": row.body,
        }
        for row in latest.values()
    ]
    statement = insert(RECORD)
    changed = {name: statement.excluded[name] for name in ("revision", "time", "preempts", "size", "body")}
    newer = statement.excluded.revision > RECORD.c.revision
    connection.execute(
        statement.on_conflict_do_update(index_elements=["cluster", "id"], set_=changed, where=newer), values
    )
    stays = select(RECORD.c.id, RECORD.c.revision).where(RECORD.c.cluster == cluster, RECORD.c.id.in_(latest))
    counted = [number for number, revision in connection.execute(stays) if latest[number].revision == revision]
    names = [
        {"cluster": cluster, "kind": kind, "namespace": namespace, "name": name, "record": number}
        for number in counted
        for kind, namespace, name in latest[number].names
    ]
    connection.execute(delete(INVOLVED).where(INVOLVED.c.cluster == cluster, INVOLVED.c.record.in_(counted)))
    if names:
        connection.execute(insert(INVOLVED).on_conflict_do_nothing(), names)


def _of(table: Any, cluster: str | None) -> ColumnElement[bool]:
    """Return the condition that matches one cluster, or all."""
    return true() if cluster is None else table.c.cluster == cluster


def find(connection: Connection, cluster: str | None, target: tuple[str, str, str]) -> list[bytes]:
    """Return the records about an object (kind, namespace, name), newest first."""
    kind, namespace, name = target
    joined = RECORD.join(INVOLVED, and_(INVOLVED.c.cluster == RECORD.c.cluster, INVOLVED.c.record == RECORD.c.id))
    query = (
        select(RECORD.c.body)
        .select_from(joined)
        .where(_of(INVOLVED, cluster), INVOLVED.c.kind == kind, INVOLVED.c.namespace == namespace)
        .where(INVOLVED.c.name == name)
        .order_by(RECORD.c.id.desc())
        .limit(MOST_FOUND)
    )
    return [bytes(body) for (body,) in connection.execute(query)]


def evictions(connection: Connection, cluster: str | None, period: tuple[float, float]) -> list[bytes]:
    """Return the records of preemptions in a period (start, end), newest first."""
    since, until = period
    query = (
        select(RECORD.c.body)
        .where(_of(RECORD, cluster), RECORD.c.preempts, RECORD.c.time.between(since, until))
        .order_by(RECORD.c.time.desc(), RECORD.c.id.desc())
        .limit(MOST_EVICTIONS)
    )
    return [bytes(body) for (body,) in connection.execute(query)]


def retain(connection: Connection, database: RecordsDatabase, now: float) -> int:
    """Delete expired records, then the oldest above the size limit. Return how many; at most a few thousand."""
    retention, deleted = database.retention, 0
    for preempts, seconds in ((False, retention.attempts), (True, retention.evictions)):
        oldest = _oldest(database.cluster, preempts).where(RECORD.c.time < now - seconds)
        deleted += _delete(connection, database.cluster, [number for number, _ in connection.execute(oldest)])
    size = func.coalesce(func.sum(RECORD.c.size), 0)
    total = connection.execute(select(size).where(RECORD.c.cluster == database.cluster)).scalar_one()
    over = int(total) - retention.bytes
    for preempts in (False, True):
        chosen = []
        for number, bytes_of_it in connection.execute(_oldest(database.cluster, preempts)) if over > 0 else ():
            if over <= 0:
                break
            chosen.append(number)
            over -= bytes_of_it
        deleted += _delete(connection, database.cluster, chosen)
        if len(chosen) == AT_ONCE:
            break  # the rest of these is deleted before any eviction
    return deleted


def write_picture(connection: Connection, cluster: str, time: float, body: bytes) -> None:
    """Write a snapshot of the cluster. If one exists for the same time, it is kept."""
    row = {"cluster": cluster, "time": time, "size": len(body), "body": body}
    connection.execute(_insert(connection)(PICTURE).on_conflict_do_nothing(), row)


def picture(connection: Connection, cluster: str, at: float) -> tuple[float, bytes] | None:
    """Return the last snapshot of the cluster taken no later than `at`, with its time."""
    query = (
        select(PICTURE.c.time, PICTURE.c.body)
        .where(PICTURE.c.cluster == cluster, PICTURE.c.time <= at)
        .order_by(PICTURE.c.time.desc())
        .limit(1)
    )
    row = connection.execute(query).one_or_none()
    return (row[0], bytes(row[1])) if row is not None else None


def retain_pictures(connection: Connection, database: RecordsDatabase, now: float) -> None:
    """Delete snapshots older than the retention of attempts, then the oldest ones above the size limit."""
    own = PICTURE.c.cluster == database.cluster
    connection.execute(delete(PICTURE).where(own, PICTURE.c.time < now - database.retention.attempts))
    so_far = func.sum(PICTURE.c.size).over(order_by=PICTURE.c.time.desc()).label("so_far")
    sizes = select(PICTURE.c.time, so_far).where(own).subquery()
    last = select(func.max(sizes.c.time)).where(sizes.c.so_far > database.retention.bytes // PICTURES_SHARE)
    if (over := connection.execute(last).scalar_one()) is not None:
        connection.execute(delete(PICTURE).where(own, PICTURE.c.time <= over))


def _oldest(cluster: str, preempts: bool) -> Select[Any]:
    return (
        select(RECORD.c.id, RECORD.c.size)
        .where(RECORD.c.cluster == cluster, RECORD.c.preempts == preempts)
        .order_by(RECORD.c.time, RECORD.c.id)
        .limit(AT_ONCE)
    )


def _delete(connection: Connection, cluster: str, numbers: Sequence[int]) -> int:
    if numbers:
        connection.execute(delete(RECORD).where(RECORD.c.cluster == cluster, RECORD.c.id.in_(numbers)))
    return len(numbers)
