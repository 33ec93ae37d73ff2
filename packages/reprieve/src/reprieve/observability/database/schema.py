"""The database tables of decision records in the newest schema version (history.md 2).

`record` has one row for each decision record. `involved` has the names under which it is found: the scheduled object,
each evicted workload, their owners, and the nodes of evicted pods (`kind` Node). `picture` has snapshots of the cluster
at the time of decisions.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
)

METADATA = MetaData()

RECORD = Table(
    "record",
    METADATA,
    Column("cluster", Text, nullable=False),
    Column("id", BigInteger, nullable=False, autoincrement=False),
    Column("revision", BigInteger, nullable=False),
    Column("time", Double, nullable=False),
    Column("preempts", Boolean, nullable=False),
    Column("size", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("cluster", "id", name="record_key"),
    Index("record_age", "cluster", "preempts", "time"),
)
"""`revision`: of two writes of a record, the higher one wins. `time`: seconds since 1970. `size`: approximate bytes."""

INVOLVED = Table(
    "involved",
    METADATA,
    Column("cluster", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("record", BigInteger, nullable=False),
    PrimaryKeyConstraint("cluster", "kind", "namespace", "name", "record", name="involved_key"),
    ForeignKeyConstraint(["cluster", "record"], ["record.cluster", "record.id"], ondelete="CASCADE"),
    Index("involved_record", "cluster", "record"),
)

PICTURE = Table(
    "picture",
    METADATA,
    Column("cluster", Text, nullable=False),
    Column("time", Double, nullable=False),
    Column("size", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("cluster", "time", name="picture_key"),
)
"""`time`: seconds since 1970. `size`: bytes of `body`."""
