"""Where decision records are kept: bounds, restarts, kill -9 (observability.md, "Kept in a bounded store")."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reprieve.decisions.records import (
    CandidateRecord,
    Comparison,
    CostRecord,
    DecisionRecord,
    EntityReference,
    PreemptionRecord,
    Timings,
    encode,
)
from reprieve.observability.database.location import RecordsAwayError, RecordsDatabase, RecordsError
from reprieve.observability.database.store import DatabaseReader, DatabaseStore
from reprieve.observability.store import Bounds, HistoryStore, MemoryStore, Name, RecordStore
from tests.waiting import DEADLINE, eventually


def record(store: RecordStore, name: str, message: str = "no", number: int | None = None) -> DecisionRecord:
    return DecisionRecord(
        id=store.next_id() if number is None else number,
        time="2026-01-01T00:00:00.000000Z",
        entity=EntityReference(kind="Pod", namespace="d", name=name),
        result="Unschedulable",
        message=message,
        attempt=1,
        timings=Timings(attempt_seconds=0.1, waiting_seconds=0.0),
    )


def put(store: RecordStore, name: str, message: str = "no", *also: Name, number: int | None = None) -> int:
    made = record(store, name, message, number)
    store.put(made, (("Pod", "d", name), *also))
    return made.id


def messages(store: RecordStore, name: str, kind: str = "Pod") -> list[str]:
    return [found.message for found in asyncio.run(store.find(kind, "d", name))]


def in_file(path: Path, **more: Any) -> DatabaseStore:
    return DatabaseStore(RecordsDatabase(path), **more)


def read(path: Path, name: str) -> list[str]:
    """Messages that another process reads."""
    return [found.message for found in DatabaseReader(path).find("Pod", "d", name)]


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HistoryStore]:
    made = in_file(tmp_path / "records.db") if request.param == "file" else MemoryStore()
    yield made
    made.close()


def test_newest_first_and_under_every_name(store: HistoryStore) -> None:
    put(store, "a", "one")
    put(store, "a", "two", ("Pod", "d", "victim"))
    assert messages(store, "a") == ["two", "one"]
    assert messages(store, "victim") == ["two"]
    assert messages(store, "nobody") == []
    assert messages(store, "a", "PodGroup") == []


def test_same_number_replaces(store: HistoryStore) -> None:
    number = put(store, "a", "one")
    put(store, "a", "again", number=number)
    assert messages(store, "a") == ["again"]


def test_replaced_record_is_no_longer_found_by_its_names() -> None:
    store = MemoryStore()
    put(store, "a", "again", number=put(store, "a", "one", ("Pod", "d", "victim")))
    assert messages(store, "victim") == []


def test_pictures_of_the_cluster_are_found_by_time(store: HistoryStore) -> None:
    """history.md 6.1."""
    for at in (10.0, 20.0):
        store.put_picture(at, str(at).encode())
    eventually(lambda: asyncio.run(store.picture(20.0)) == (20.0, b"20.0"), "both are written")
    assert asyncio.run(store.picture(9.0)) is None
    assert asyncio.run(store.picture(19.0)) == (10.0, b"10.0")
    assert asyncio.run(store.picture(20.0)) == (20.0, b"20.0")


def test_pictures_in_memory_are_bounded() -> None:
    """history.md 6.3: the oldest go first."""
    store = MemoryStore(Bounds(bytes=200))
    for at in range(10):
        store.put_picture(float(at), bytes(40))
    assert asyncio.run(store.picture(7.0)) is None
    assert asyncio.run(store.picture(8.0)) == (8.0, bytes(40))


def test_superseded_records_go_before_anybodys_last() -> None:
    """`waits` was rejected long ago and since then nothing happened to it: it can still be explained."""
    store = MemoryStore(Bounds(records=3))
    put(store, "waits", "still")
    for number in range(10):
        put(store, "busy", f"{number}")
    assert messages(store, "waits") == ["still"]
    assert messages(store, "busy") == ["9", "8"]


def test_when_there_are_only_last_ones_the_oldest_goes() -> None:
    store = MemoryStore(Bounds(records=3))
    for name in ("a", "b", "c", "d"):
        put(store, name)
    assert [name for name in ("a", "b", "c", "d") if messages(store, name)] == ["b", "c", "d"]


def test_bytes_are_bounded_but_the_newest_stays() -> None:
    store = MemoryStore(Bounds(bytes=4_000))
    for name in ("a", "b", "c"):
        put(store, name, "x" * 1_500)
    assert [name for name in ("a", "b", "c") if messages(store, name)] == ["b", "c"]
    put(store, "huge", "x" * 10_000)
    assert [len(text) for text in messages(store, "huge")] == [10_000]
    assert messages(store, "c") == []


@pytest.mark.parametrize(("names", "kept"), [(0, ["a", "b"]), (1, ["a", "b"]), (2, ["b"])])
def test_names_count_as_bytes(names: int, kept: list[str]) -> None:
    """120 for each: a preemption of hundreds of pods is found under as many names."""
    size = len(encode(record(MemoryStore(), "a")))
    store = MemoryStore(Bounds(bytes=2 * (size + 2 * 120)))
    for name in ("a", "b"):
        put(store, name, "no", *(("Pod", "d", f"victim{i}") for i in range(names)))
    assert [name for name in ("a", "b") if messages(store, name)] == kept


@pytest.mark.parametrize(("spare", "kept"), [(0, ["a", "b"]), (-1, ["b"])])
def test_bytes_of_the_store_are_bounded(spare: int, kept: list[str]) -> None:
    size = len(encode(record(MemoryStore(), "a"))) + 120
    store = MemoryStore(Bounds(bytes=2 * size + spare))
    for name in ("a", "b"):
        put(store, name)
    assert [name for name in ("a", "b") if messages(store, name)] == kept


def test_room_of_a_replaced_record_is_free_again() -> None:
    """However often one is written again, it counts once."""
    size = len(encode(record(MemoryStore(), "a"))) + 120
    store = MemoryStore(Bounds(bytes=2 * size, records=2))
    put(store, "a")
    number = put(store, "b")
    for _ in range(5):
        put(store, "b", number=number)
    assert [len(messages(store, name)) for name in ("a", "b")] == [1, 1]


@pytest.mark.parametrize("records", [19, 20, 21])
def test_twenty_records_are_found(store: HistoryStore, records: int) -> None:
    for number in range(records):
        put(store, "a", f"{number}")
    assert messages(store, "a") == [f"{i}" for i in reversed(range(max(0, records - 20), records))]


def test_numbers_count_up_from_one() -> None:
    store = MemoryStore()
    assert [store.next_id() for _ in range(3)] == [1, 2, 3]


def test_five_thousand_records_and_64_mebibytes_are_kept_by_default() -> None:
    """observability.md 4.2."""
    assert (Bounds().records, Bounds().bytes) == (5_000, 64 << 20)


def preempted(store: RecordStore, name: str, minute: int) -> None:
    made = replace(record(store, name), time=f"2026-01-01T00:{minute:02}:00.000000Z", preemption=PREEMPTED)
    store.put(made, (("Pod", "d", name),))


PREEMPTED = PreemptionRecord(
    domain="n",
    potential_victims=0,
    evicted=(),
    reprieved=(),
    reprieved_total=0,
    cost=CostRecord(units=0, pods=0, highest_priority=0),
    comparison=Comparison(candidates=1, chosen=CandidateRecord(domain="n")),
    nominations=(),
    nominations_total=0,
)


@pytest.mark.parametrize(("minute", "found"), [(0, ["c", "b", "a", "a"]), (2, ["c", "b"]), (3, ["c"]), (4, [])])
def test_preemptions_since_a_time_newest_first(store: HistoryStore, minute: int, found: list[str]) -> None:
    """whatif.md 9: from that very time on; rejections are not among them."""
    for number, name in enumerate("aabc"):
        preempted(store, name, number)
        put(store, name)
    since = datetime(2026, 1, 1, 0, minute, tzinfo=UTC).timestamp()
    assert [one.entity.name for one in asyncio.run(store.evictions(since))] == found


def test_thousand_preemptions_are_found(store: HistoryStore) -> None:
    for number in range(1_002):
        preempted(store, f"p{number}", 1)
    assert len(asyncio.run(store.evictions(0))) == 1_000


def test_replaced_older_record_does_not_become_the_last() -> None:
    """The end of an earlier preemption may come in after a newer record of the same entity."""
    store = MemoryStore(Bounds(records=2))
    first = put(store, "a", "one")
    put(store, "a", "two")
    put(store, "a", "one, ended", number=first)
    put(store, "b")
    assert messages(store, "a") == ["two"]


def test_memory_forgets_names_with_the_records() -> None:
    store = MemoryStore(Bounds(records=2))
    for number in range(20):
        put(store, f"p{number}", "no", ("Pod", "d", f"victim{number}"))
    assert len(store) == 2
    assert len(store._by_name) == 4
    assert store.bytes < 2_000


def test_file_survives_a_restart_and_goes_on_counting(tmp_path: Path) -> None:
    """history.md 4.4."""
    path = tmp_path / "deep" / "records.db"
    one = in_file(path)
    first = put(one, "a", "before")
    one.close()
    two = in_file(path)
    second = put(two, "a", "after")
    assert second > first
    assert messages(two, "a") == ["after", "before"]
    two.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_file_in_use_can_be_read_by_others(tmp_path: Path) -> None:
    store = in_file(tmp_path / "records.db")
    put(store, "a", "hello")
    store.flush()
    assert read(tmp_path / "records.db", "a") == ["hello"]
    store.close()


@pytest.mark.parametrize("content", [b"\0\xffnoise" * 100, b"SQLite format 3\0" + b"\xff" * 4096])
def test_broken_file_is_set_aside(tmp_path: Path, content: bytes) -> None:
    """history.md 4.4."""
    path = tmp_path / "records.db"
    path.write_bytes(content)
    reports: list[str] = []
    store = in_file(path, trouble=reports.append)
    put(store, "a", "hello")
    assert messages(store, "a") == ["hello"]
    store.close()
    assert (tmp_path / "records.db.broken").read_bytes() == content
    assert len(reports) == 1
    assert "set aside" in reports[0]


def test_file_of_something_else_stays_as_it_is(tmp_path: Path) -> None:
    """history.md 4.4: A path given by mistake: a kubeconfig, or another program's database."""
    text, database = tmp_path / "kubeconfig", tmp_path / "state.db"
    text.write_text("apiVersion: v1\nkind: Config\n")
    with sqlite3.connect(database) as other:
        other.execute("CREATE TABLE objects (id INTEGER)")
    other.close()
    before = {path: path.read_bytes() for path in (text, database)}
    for path in before:
        with pytest.raises(RecordsError, match=r"not .*of decision records"):
            in_file(path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_disk_that_fails_costs_nothing(tmp_path: Path) -> None:
    """history.md 1.5: records wait beside the file meanwhile, and then are in it."""
    path, reports, lost = tmp_path / "records.db", list[str](), list[int]()
    store = in_file(path, trouble=reports.append, lost=lost.append, retry=0.01)
    put(store, "a", "kept")
    store.flush()
    rename(path, "record", "elsewhere")
    for number in range(3):
        put(store, "a", f"spooled {number}")
        store.flush()
    with pytest.raises(RecordsAwayError, match="no such table"):
        messages(store, "a")
    assert (store.spooled, lost) == (3, [])
    assert len(reports) == 1, "reported once, however many there are"
    assert f"spooled to {path}.spool" in reports[0]
    rename(path, "elsewhere", "record")
    put(store, "a", "kept again")
    eventually(lambda: not store.spooled and not store.away, "the spool is sent")
    assert messages(store, "a") == ["kept again", "spooled 2", "spooled 1", "spooled 0", "kept"]
    store.close()
    assert reports[1:] == ["decision records are written to the database again"]


def rename(path: Path, table: str, to: str) -> None:
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA legacy_alter_table = ON")  # the foreign key keeps naming the table
        other.execute(f"ALTER TABLE {table} RENAME TO {to}")
    other.close()


def test_where_the_disk_does_not_keep_up_the_oldest_that_wait_are_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """history.md 1.1: no caller waits for it: `put` returns at once, and what was put last is kept."""
    monkeypatch.setattr("reprieve.observability.database.store._QUEUE", 2)
    writes, goes = threading.Event(), threading.Event()

    class Slow(DatabaseStore):
        def _write(self, rows: Any) -> None:
            writes.set()
            assert goes.wait(DEADLINE)
            super()._write(rows)

    lost: list[int] = []
    store = Slow(RecordsDatabase(tmp_path / "records.db"), lost=lost.append)
    put(store, "a", "0")
    assert writes.wait(DEADLINE)
    for number in range(1, 5):
        put(store, "a", f"{number}")
    assert lost == [1, 1]
    goes.set()
    assert messages(store, "a") == ["4", "3", "0"]
    store.close()


def test_records_after_the_end_are_dropped_and_counted(tmp_path: Path) -> None:
    lost: list[int] = []
    store = in_file(tmp_path / "records.db", lost=lost.append)
    put(store, "a", "kept")
    store.close()
    put(store, "a", "late")
    assert lost == [1]
    assert read(tmp_path / "records.db", "a") == ["kept"]


def test_reading_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match=r"none.db: not a file of decision records: No such file"):
        read(tmp_path / "none.db", "a")
    assert not list(tmp_path.iterdir())


def test_file_of_before_the_schema_had_versions_is_converted_when_it_is_written(tmp_path: Path) -> None:
    """history.md 2.4: A reader, which writes nothing, names the command that converts it."""
    path, written = tmp_path / "records.db", record(MemoryStore(), "a", "old")
    with sqlite3.connect(path) as old:
        old.executescript(OLD_SCHEMA)
        old.execute("INSERT INTO record VALUES (7, 'Pod', 'd', 'a', 1, 500, ?)", (encode(replace(written, id=7)),))
        old.execute("INSERT INTO involved VALUES ('Pod', 'd', 'a', 7)")
    old.close()
    with pytest.raises(RecordsError, match=rf"`reprieve records migrate --records {path}` converts it"):
        read(path, "a")
    store = in_file(path)
    assert put(store, "a", "new") > 7
    assert messages(store, "a") == ["new", "old"]
    store.close()
    with sqlite3.connect(path) as now:
        assert now.execute("SELECT name FROM sqlite_master WHERE name LIKE 'old%'").fetchall() == []
    now.close()


OLD_SCHEMA = """
CREATE TABLE record (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    latest INTEGER NOT NULL, size INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX record_age ON record (latest, id);
CREATE INDEX record_entity ON record (kind, namespace, name, latest);
CREATE TABLE involved (
    kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, record INTEGER NOT NULL,
    PRIMARY KEY (kind, namespace, name, record)) WITHOUT ROWID;
CREATE INDEX involved_record ON involved (record);
PRAGMA user_version = 1;
"""


_WRITER = """
import sys
from pathlib import Path
from tests.observability.test_store import in_file, put
store = in_file(Path(sys.argv[1]))
number = 0
while True:
    number += 1
    put(store, f"p{number}", "x" * 2000, ("Pod", "d", "all"))
    if number % 20 == 0:
        store.flush()
        print(number, flush=True)
"""


def test_records_flushed_survive_kill_9(tmp_path: Path) -> None:
    """history.md 4.4."""
    path = tmp_path / "records.db"
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert writer.stdout is not None
    with writer.stdout as lines:
        printed = [int(lines.readline()) for _ in range(5)]
        writer.send_signal(signal.SIGKILL)
        printed += [int(line) for line in lines if line.endswith("\n")]
    writer.wait()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        names = {row[0] for row in connection.execute("SELECT name FROM involved WHERE name != 'all'")}
        whole = connection.execute(
            "SELECT count(*) FROM record WHERE (SELECT count(*) FROM involved WHERE involved.record = id) != 2"
        ).fetchone()
    connection.close()
    assert {f"p{number}" for number in range(1, printed[-1] + 1)} <= names
    assert whole == (0,), "a record without its names, or half of them"
    store = in_file(path)
    assert messages(store, f"p{printed[-1]}") == ["x" * 2000]
    store.close()
