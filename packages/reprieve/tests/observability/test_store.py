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
from reprieve.observability.store import Bounds, FileStore, MemoryStore, Name, RecordStore, find_in_file, open_store
from tests.waiting import DEADLINE


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


@pytest.fixture(params=["memory", "file"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[object]:
    """A function that makes a store with bounds."""
    made: list[RecordStore] = []

    def build(bounds: Bounds) -> RecordStore:
        store = open_store(tmp_path / "records.db" if request.param == "file" else None, bounds=bounds)
        made.append(store)
        return store

    yield build
    for store in made:
        store.close()


def built(make: object, **bounds: int) -> RecordStore:
    assert callable(make)
    store: RecordStore = make(Bounds(**bounds))
    return store


def test_newest_first_and_under_every_name(make: object) -> None:
    store = built(make)
    put(store, "a", "one")
    put(store, "a", "two", ("Pod", "d", "victim"))
    assert messages(store, "a") == ["two", "one"]
    assert messages(store, "victim") == ["two"]
    assert messages(store, "nobody") == []
    assert messages(store, "a", "PodGroup") == []


def test_same_number_replaces(make: object) -> None:
    store = built(make)
    number = put(store, "a", "one", ("Pod", "d", "victim"))
    put(store, "a", "again", number=number)
    assert messages(store, "a") == ["again"]
    assert messages(store, "victim") == []


def test_superseded_records_go_before_anybodys_last(make: object) -> None:
    """`waits` was rejected long ago and since then nothing happened to it: it can still be explained."""
    store = built(make, records=3)
    put(store, "waits", "still")
    for number in range(10):
        put(store, "busy", f"{number}")
    assert messages(store, "waits") == ["still"]
    assert messages(store, "busy") == ["9", "8"]


def test_when_there_are_only_last_ones_the_oldest_goes(make: object) -> None:
    store = built(make, records=3)
    for name in ("a", "b", "c", "d"):
        put(store, name)
    assert [name for name in ("a", "b", "c", "d") if messages(store, name)] == ["b", "c", "d"]


def test_bytes_are_bounded_but_the_newest_stays(make: object) -> None:
    store = built(make, bytes=4_000)
    for name in ("a", "b", "c"):
        put(store, name, "x" * 1_500)
    assert [name for name in ("a", "b", "c") if messages(store, name)] == ["b", "c"]
    put(store, "huge", "x" * 10_000)
    assert [len(text) for text in messages(store, "huge")] == [10_000]
    assert messages(store, "c") == []


@pytest.mark.parametrize(("names", "kept"), [(0, ["a", "b"]), (1, ["a", "b"]), (2, ["b"])])
def test_names_count_as_bytes(make: object, names: int, kept: list[str]) -> None:
    """120 for each: a preemption of hundreds of pods is found under as many names."""
    size = len(encode(record(MemoryStore(), "a")))
    store = built(make, bytes=2 * (size + 2 * 120))
    for name in ("a", "b"):
        put(store, name, "no", *(("Pod", "d", f"victim{i}") for i in range(names)))
    assert [name for name in ("a", "b") if messages(store, name)] == kept


@pytest.mark.parametrize(("spare", "kept"), [(0, ["a", "b"]), (-1, ["b"])])
def test_as_many_bytes_as_there_may_be(make: object, spare: int, kept: list[str]) -> None:
    size = len(encode(record(MemoryStore(), "a"))) + 120
    store = built(make, bytes=2 * size + spare)
    for name in ("a", "b"):
        put(store, name)
    assert [name for name in ("a", "b") if messages(store, name)] == kept


def test_room_of_a_replaced_record_is_free_again(make: object) -> None:
    """However often one is written anew, it counts once."""
    size = len(encode(record(MemoryStore(), "a"))) + 120
    store = built(make, bytes=2 * size, records=2)
    put(store, "a")
    number = put(store, "b")
    for _ in range(5):
        put(store, "b", number=number)
    assert [len(messages(store, name)) for name in ("a", "b")] == [1, 1]


@pytest.mark.parametrize("records", [19, 20, 21])
def test_twenty_records_are_found(make: object, records: int) -> None:
    store = built(make)
    for number in range(records):
        put(store, "a", f"{number}")
    assert messages(store, "a") == [f"{i}" for i in reversed(range(max(0, records - 20), records))]


def test_numbers_count_up_from_one(make: object) -> None:
    store = built(make)
    assert [store.next_id() for _ in range(3)] == [1, 2, 3]


def test_five_thousand_records_and_64_mebibytes_are_kept_by_default() -> None:
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
def test_preemptions_since_a_time_newest_first(make: object, minute: int, found: list[str]) -> None:
    """whatif.md 9: from that very time on; rejections are not among them."""
    store = built(make)
    for number, name in enumerate("aabc"):
        preempted(store, name, number)
        put(store, name)
    since = datetime(2026, 1, 1, 0, minute, tzinfo=UTC).timestamp()
    assert isinstance(store, MemoryStore | FileStore)
    assert [one.entity.name for one in asyncio.run(store.evictions(since))] == found


def test_thousand_preemptions_are_found(make: object) -> None:
    store = built(make)
    for number in range(1_002):
        preempted(store, f"p{number}", 1)
    assert isinstance(store, MemoryStore | FileStore)
    assert len(asyncio.run(store.evictions(0))) == 1_000


def test_replaced_older_record_does_not_become_the_last(make: object) -> None:
    """The end of an earlier preemption may come in after a newer record of the same entity."""
    store = built(make, records=2)
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
    path = tmp_path / "deep" / "records.db"
    one = FileStore(path)
    first = put(one, "a", "before")
    one.close()
    two = FileStore(path)
    second = put(two, "a", "after")
    assert second > first
    assert messages(two, "a") == ["after", "before"]
    two.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_bounds_hold_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    one = FileStore(path)
    for number in range(5):
        put(one, "a", f"{number}")
    one.close()
    two = FileStore(path, Bounds(records=3))
    put(two, "a", "5")
    assert messages(two, "a") == ["5", "4", "3"]
    two.close()


def test_file_in_use_can_be_read_by_others(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "records.db")
    put(store, "a", "hello")
    store.flush()
    assert [found.message for found in find_in_file(tmp_path / "records.db", "Pod", "d", "a")] == ["hello"]
    store.close()


@pytest.mark.parametrize("content", [b"\0\xffnoise" * 100, b"SQLite format 3\0" + b"\xff" * 4096])
def test_broken_file_is_set_aside(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "records.db"
    path.write_bytes(content)
    reports: list[str] = []
    store = FileStore(path, trouble=reports.append)
    put(store, "a", "hello")
    assert messages(store, "a") == ["hello"]
    store.close()
    assert (tmp_path / "records.db.broken").read_bytes() == content
    assert len(reports) == 1
    assert "set aside" in reports[0]


def test_file_of_something_else_stays_as_it_is(tmp_path: Path) -> None:
    """A path given by mistake: a kubeconfig, or another program's database."""
    text, database = tmp_path / "kubeconfig", tmp_path / "state.db"
    text.write_text("apiVersion: v1\nkind: Config\n")
    with sqlite3.connect(database) as other:
        other.execute("CREATE TABLE objects (id INTEGER)")
    other.close()
    before = {path: path.read_bytes() for path in (text, database)}
    for path in before:
        with pytest.raises(OSError, match=r"not .*of decision records"):
            open_store(path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_disk_that_fails_costs_records_and_nothing_else(tmp_path: Path) -> None:
    reports: list[str] = []
    lost: list[int] = []
    store = FileStore(tmp_path / "records.db", trouble=reports.append, lost=lost.append)
    put(store, "a", "kept")
    store.flush()
    with sqlite3.connect(tmp_path / "records.db") as other:
        other.execute("ALTER TABLE record RENAME TO elsewhere")
    other.close()
    for _ in range(3):
        put(store, "a", "lost")
        store.flush()
    assert (store.dropped, sum(lost)) == (3, 3)
    assert len(reports) == 1, "reported once, however many there are"
    assert "not kept" in reports[0]
    with sqlite3.connect(tmp_path / "records.db") as other:
        other.execute("ALTER TABLE elsewhere RENAME TO record")
    other.close()
    put(store, "a", "kept again")
    assert messages(store, "a") == ["kept again", "kept"]
    store.close()
    assert reports[1:] == ["decision records are kept again; lost: 3"]


def test_where_the_disk_does_not_keep_up_the_oldest_that_wait_are_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No caller waits for it: `put` returns at once, and what was put last is kept."""
    monkeypatch.setattr("reprieve.observability.store._QUEUE", 2)
    writes, goes = threading.Event(), threading.Event()

    class Slow(FileStore):
        def _write(self, batch: Any) -> None:
            writes.set()
            assert goes.wait(DEADLINE)
            super()._write(batch)

    lost: list[int] = []
    store = Slow(tmp_path / "records.db", lost=lost.append)
    put(store, "a", "0")
    assert writes.wait(DEADLINE)
    for number in range(1, 5):
        put(store, "a", f"{number}")
    assert (store.dropped, lost) == (2, [1, 1])
    goes.set()
    assert messages(store, "a") == ["4", "3", "0"]
    store.close()


def test_records_after_the_end_are_dropped_and_counted(tmp_path: Path) -> None:
    lost: list[int] = []
    store = FileStore(tmp_path / "records.db", lost=lost.append)
    put(store, "a", "kept")
    store.close()
    put(store, "a", "late")
    assert (store.dropped, lost) == (1, [1])
    assert [found.message for found in find_in_file(tmp_path / "records.db", "Pod", "d", "a")] == ["kept"]


def test_reading_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.Error):
        find_in_file(tmp_path / "none.db", "Pod", "d", "a")
    assert not (tmp_path / "none.db").exists()


_WRITER = """
import sys
from pathlib import Path
from reprieve.observability.store import FileStore
from tests.observability.test_store import put
store = FileStore(Path(sys.argv[1]))
number = 0
while True:
    number += 1
    put(store, f"p{number}", "x" * 2000, ("Pod", "d", "all"))
    if number % 20 == 0:
        store.flush()
        print(number, flush=True)
"""


def test_records_flushed_survive_kill_9(tmp_path: Path) -> None:
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
        names = {row[0] for row in connection.execute("SELECT name FROM record")}
        whole = connection.execute(
            "SELECT count(*) FROM record WHERE (SELECT count(*) FROM involved WHERE record = id) != 2"
        ).fetchone()
    connection.close()
    assert {f"p{number}" for number in range(1, printed[-1] + 1)} <= names
    assert whole == (0,), "a record without its names, or half of them"
    store = FileStore(path)
    assert store.next_id() > printed[-1]
    store.close()
