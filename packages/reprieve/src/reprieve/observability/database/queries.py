"""What is asked of a database of decision records, in SQLAlchemy Core: the same for PostgreSQL and SQLite."""

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
"""Records that one statement deletes at most."""
PICTURES_SHARE: Final = 8
"""Of the bytes of records, pictures may have so many times less, in addition."""


def _insert(connection: Connection) -> Any:
    return postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert


def write(connection: Connection, cluster: str, rows: Sequence[StoredRecord]) -> None:
    """Write records; of one that is there the higher revision stays, with its names alone."""
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
    """Return the condition for one cluster, or for all."""
    return true() if cluster is None else table.c.cluster == cluster


def find(connection: Connection, cluster: str | None, asked: tuple[str, str, str]) -> list[bytes]:
    """Return the records about an object (kind, namespace, name), newest first."""
    kind, namespace, name = asked
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


def evictions(connection: Connection, cluster: str | None, asked: tuple[float, float]) -> list[bytes]:
    """Return the records of preemptions from a time to another, newest first."""
    since, until = asked
    query = (
        select(RECORD.c.body)
        .where(_of(RECORD, cluster), RECORD.c.preempts, RECORD.c.time.between(since, until))
        .order_by(RECORD.c.time.desc(), RECORD.c.id.desc())
        .limit(MOST_EVICTIONS)
    )
    return [bytes(body) for (body,) in connection.execute(query)]


def retain(connection: Connection, database: RecordsDatabase, now: float) -> int:
    """Delete what is too old, then the oldest of what is too much; return how many, a few thousand at once."""
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
            break  # the rest of these goes before any eviction
    return deleted


def write_picture(connection: Connection, cluster: str, time: float, body: bytes) -> None:
    """Write a picture of the cluster; the first of a moment stays."""
    row = {"cluster": cluster, "time": time, "size": len(body), "body": body}
    connection.execute(_insert(connection)(PICTURE).on_conflict_do_nothing(), row)


def picture(connection: Connection, cluster: str, at: float) -> tuple[float, bytes] | None:
    """Return the last picture of the cluster up to a time, and its time."""
    query = (
        select(PICTURE.c.time, PICTURE.c.body)
        .where(PICTURE.c.cluster == cluster, PICTURE.c.time <= at)
        .order_by(PICTURE.c.time.desc())
        .limit(1)
    )
    found = connection.execute(query).one_or_none()
    return (found[0], bytes(found[1])) if found is not None else None


def retain_pictures(connection: Connection, database: RecordsDatabase, now: float) -> None:
    """Delete pictures that are as old as the oldest attempts, then the oldest of what is too much."""
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
