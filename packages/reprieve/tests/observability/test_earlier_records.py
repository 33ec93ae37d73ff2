"""Records that an earlier version wrote are read and kept, and go back to it (history.md 2; cost.md 9.4)."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from reprieve.cluster.evictions import NAMESPACE, EvictedUnit, EvictionHistory, EvictionLimit
from reprieve.decisions.history import history_of
from reprieve.live.recalled_evictions import recall
from reprieve.observability.database import migrations
from reprieve.observability.database.location import RecordsDatabase, engine_of
from reprieve.observability.database.store import DatabaseStore

HOUR = 3600.0


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Return a file as commit 5fbf2d51 left it."""
    file = tmp_path / "records.db"
    with closing(sqlite3.connect(file)) as opened:
        opened.executescript((Path(__file__).parent / "earlier" / "schema-2.sql").read_text())
    return file


def rows(file: Path) -> tuple[str, list[tuple[int, float, bytes]], list[tuple[str, ...]]]:
    """Return the version of the schema, the records, and the names that they are found by."""
    with closing(sqlite3.connect(file)) as opened:
        [(version,)] = opened.execute("SELECT version_num FROM record_schema")
        records = opened.execute("SELECT id, time, body FROM record").fetchall()
        return version, records, sorted(opened.execute("SELECT kind, namespace, name FROM involved").fetchall())


def test_records_of_an_earlier_version_count_and_go_back_unchanged(database: Path) -> None:
    """Upgrade to the newest schema, and rollback to that of the version that wrote them."""
    before = rows(database)
    assert before[0] == "2"
    now = before[1][0][1] + 60
    store, limits = DatabaseStore(RecordsDatabase(database)), EvictionHistory([EvictionLimit(NAMESPACE, 1, HOUR)])
    try:
        asyncio.run(recall(store, limits, now))
        [found] = asyncio.run(store.find("Pod", "limited-0", "low-0"))
        listed = history_of([found], "limited-0")
    finally:
        store.close()
    assert limits.used(0, EvictedUnit("another", "limited-0", "", "", None), now)
    assert not limits.used(0, EvictedUnit("another", "elsewhere", "", "", None), now)
    [item] = listed.items
    assert (item.name, [victim.unit for victim in item.victims]) == ("high-0", ["limited-0/low-0"])
    assert rows(database) == (str(migrations.NEWEST), *before[1:])
    with engine_of(RecordsDatabase(database).address).begin() as connection:
        assert migrations.move(connection, to=2) == migrations.NEWEST
    assert rows(database) == before
