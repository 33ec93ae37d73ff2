"""Decision records in a database: what was decided is in it, whatever happens to it (history.md)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import Connection

from kube_rules.durations import micro_time
from reprieve.decisions.records import (
    CandidateRecord,
    Comparison,
    CostRecord,
    DecisionRecord,
    EntityReference,
    PreemptionRecord,
    Timings,
    UnitRecord,
    encode,
)
from reprieve.observability.database import migrations, queries
from reprieve.observability.database.location import (
    DAY,
    RecordsAwayError,
    RecordsDatabase,
    RecordsError,
    RecordsRetention,
    engine_of,
)
from reprieve.observability.database.schema import METADATA
from reprieve.observability.database.spool import StoredRecord
from reprieve.observability.database.store import DatabaseReader, DatabaseStore
from tests.observability.postgres import PASSWORD, Postgres, postgres, reason_for_none, small_disk
from tests.waiting import eventually

Open = Callable[..., DatabaseStore]
NOW = 1_800_000_000.0
needs_postgres = pytest.mark.skipif(bool(reason_for_none()), reason=reason_for_none() or "there is one")


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as running:
        yield running


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/records.db"
    running: Postgres = request.getfixturevalue("server")
    return running.create(f"records_{time.monotonic_ns()}")


class Told:
    """What a store reported."""

    def __init__(self) -> None:
        self.troubles: list[str] = []
        self.lost = 0

    def lose(self, count: int) -> None:
        self.lost += count


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def opened(tmp_path: Path, told: Told) -> Iterator[Open]:
    """A function that opens a store, which is closed in the end."""
    stores: list[DatabaseStore] = []

    def make(address: str, **more: object) -> DatabaseStore:
        database = RecordsDatabase(address, spool=tmp_path / "spool")
        options = {name: more.pop(name) for name in ("clock", "retry", "retain_every") if name in more}
        store = DatabaseStore(
            replace(database, **more),  # type: ignore[arg-type]
            trouble=told.troubles.append,
            lost=told.lose,
            **{"retry": 0.02, **options},  # type: ignore[arg-type]
        )
        stores.append(store)
        return store

    yield make
    for store in stores:
        store.close()


def record(
    store: DatabaseStore, name: str, *, at: float = NOW, victims: int = 0, message: str = "no"
) -> DecisionRecord:
    unit = UnitRecord(
        unit="d/low", kind="Pod", outcome="Evicted", priority=1, pods=victims, pod_names=("d/low",), nodes=("n1", "n2")
    )
    made = PreemptionRecord(
        domain="cluster",
        potential_victims=victims,
        evicted=(unit,) * victims,
        reprieved=(),
        reprieved_total=0,
        cost=CostRecord(units=victims, pods=victims, highest_priority=1),
        comparison=Comparison(candidates=1, chosen=CandidateRecord(domain="cluster")),
        nominations=(),
        nominations_total=0,
    )
    return DecisionRecord(
        id=store.next_id(),
        time=micro_time(at),
        entity=EntityReference(kind="PodGroup", namespace="d", name=name),
        result="Preempting" if victims else "Unschedulable",
        message=message,
        attempt=1,
        timings=Timings(attempt_seconds=0.1, waiting_seconds=1.0),
        preemption=made if victims else None,
    )


def put(store: DatabaseStore, name: str, **more: object) -> DecisionRecord:
    made = record(store, name, **more)  # type: ignore[arg-type]
    store.put(made, (("PodGroup", "d", name), *((("job", "d", "owner"),) if made.preemption else ())))
    return made


def found(store: DatabaseStore, kind: str, name: str, namespace: str = "d") -> list[DecisionRecord]:
    return asyncio.run(store.find(kind, namespace, name))


def everything(address: str) -> list[DecisionRecord]:
    """All evictions of a database, as another process reads them; oldest first."""
    return list(reversed(DatabaseReader(address).evictions(0.0)))


def fill(file: Path) -> None:
    """Leave no space on the file system."""
    with file.open("wb", buffering=0) as stream:
        try:
            while True:
                stream.write(bytes(65_536))
        except OSError:
            return


@contextmanager
def transaction(address: str) -> Iterator[Connection]:
    """A transaction of the test's own."""
    engine = engine_of(address)
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def test_records_are_found_by_workload_owner_node_and_time(address: str, opened: Open) -> None:
    """history.md 1.2: newest first; every field is as it was decided; any other process finds the same."""
    store = opened(address)
    made = [put(store, "train", victims=1, at=NOW + number) for number in range(3)]
    put(store, "other")
    newest_first = list(reversed(made))
    assert found(store, "PodGroup", "train") == newest_first
    assert found(store, "job", "owner") == newest_first
    assert found(store, "Node", "n2", namespace="") == newest_first
    assert found(store, "Node", "n3", namespace="") == []
    assert asyncio.run(store.evictions(NOW + 1)) == newest_first[:2]
    assert DatabaseReader(address).find("PodGroup", "d", "train") == newest_first
    assert len(found(store, "PodGroup", "other")) == 1


def test_later_version_of_a_record_replaces_it_in_whatever_order(address: str, opened: Open) -> None:
    """history.md 1.4: at least once, without duplicates, and found by the names of the later version alone."""
    store = opened(address)
    first = put(store, "train", victims=1)
    assert found(store, "job", "owner") == [first]
    done = msgspec.structs.replace(first, message="done")
    store.put(done, (("PodGroup", "d", "train"),))
    assert found(store, "PodGroup", "train") == [done]
    with transaction(address) as connection:  # the first write arrives once more, late
        queries.write(connection, "", [StoredRecord(first.id, 1, NOW, True, encode(first), (("job", "d", "owner"),))])
    assert found(store, "PodGroup", "train") == [done]
    assert found(store, "job", "owner") == []


def test_clusters_share_a_database(address: str, opened: Open) -> None:
    """history.md 1.3: each reads its own; a reader reads all, or one."""
    one, two = opened(address, cluster="one"), opened(address, cluster="two")
    made = put(one, "train", victims=1)
    assert found(one, "PodGroup", "train") == [made]
    assert found(two, "PodGroup", "train") == []
    assert DatabaseReader(address, "one").evictions(0.0) == [made]
    assert DatabaseReader(address, "two").evictions(0.0) == []
    assert everything(address) == [made]


def test_evictions_are_kept_longest(address: str, opened: Open) -> None:
    """history.md 3.1, 3.2: by age, then by size: attempts first, then the oldest evictions."""
    now = [NOW]
    store = opened(address, clock=lambda: now[0])
    put(store, "attempt", at=NOW - 15 * DAY)
    put(store, "recent", at=NOW - 13 * DAY)
    put(store, "evicts", at=NOW - 80 * DAY, victims=1)
    put(store, "old", at=NOW - 91 * DAY, victims=1)
    assert store.flush()
    with transaction(address) as connection:
        assert queries.retain(connection, store.database, NOW) == 2
    kept = {name: len(found(store, "PodGroup", name)) for name in ("attempt", "recent", "evicts", "old")}
    assert kept == {"attempt": 0, "recent": 1, "evicts": 1, "old": 0}
    put(store, "later", at=NOW, victims=1)
    assert store.flush()
    with transaction(address) as connection:
        sizes = connection.exec_driver_sql("SELECT size FROM record WHERE preempts ORDER BY time").fetchall()
        small = replace(store.database, retention=RecordsRetention(bytes=sizes[-1][0]))
        assert queries.retain(connection, small, NOW) == 2, "the attempt, and the older eviction"
    assert [len(found(store, "PodGroup", name)) for name in ("recent", "evicts", "later")] == [0, 0, 1]
    with transaction(address) as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM involved").scalar_one() == 4, "names go with records"


def test_old_records_go_without_a_request(address: str, opened: Open) -> None:
    """history.md 3.3: the thread that writes looks for them."""
    store = opened(address, clock=lambda: NOW, retain_every=0.01)
    put(store, "old", at=NOW - 91 * DAY, victims=1)
    kept = put(store, "kept", victims=1)
    eventually(lambda: everything(address) == [kept], "the old one is gone")


def test_pictures_are_found_by_time_and_go_by_age_and_size(address: str, opened: Open) -> None:
    """history.md 6: the last up to a time, of the own cluster; the oldest go first."""
    store = opened(address, cluster="one")
    other = opened(address, cluster="two")
    for at in (NOW - 15 * DAY, NOW - 20, NOW - 10, NOW):
        store.put_picture(at, f"at {at - NOW:.0f}".encode())
        store.put_picture(at, b"another of the same time")
        eventually(lambda at=at: (asyncio.run(store.picture(at)) or [0])[0] == at, "written")  # type: ignore[misc]
    assert asyncio.run(store.picture(NOW - 5)) == (NOW - 10, b"at -10")
    assert asyncio.run(store.picture(NOW - 16 * DAY)) is None
    assert asyncio.run(other.picture(NOW)) is None
    with transaction(address) as connection:
        queries.retain_pictures(connection, store.database, NOW)
        assert queries.picture(connection, "one", NOW - 30) is None, "as old as attempts may be"
        room = RecordsRetention(bytes=queries.PICTURES_SHARE * len(b"at 0" + b"at -10"))
        queries.retain_pictures(connection, replace(store.database, retention=room), NOW)
        assert queries.picture(connection, "one", NOW - 11) is None, "the oldest of what is too much"
        assert queries.picture(connection, "one", NOW - 1) == (NOW - 10, b"at -10")


def test_pictures_are_not_kept_while_the_database_is_away(opened: Open, tmp_path: Path) -> None:
    """history.md 6.2: nor looked at again and again until it answers."""
    store = opened(f"sqlite:///{tmp_path / 'records.db'}")
    assert store.flush()
    store._away, store._next_try = "away", float("inf")
    store.put_picture(NOW, b"lost")
    eventually(lambda: not store._pictures, "it is dropped")


def test_schema_goes_up_and_down_and_records_stay(address: str, opened: Open) -> None:
    """history.md 2.1: each version from each, and what the migrations make is what the program uses."""
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    store = opened(address)
    made = put(store, "train", victims=1)
    assert store.flush()
    for version in (1, 3, 2, 1, 2, 3):
        with transaction(address) as connection:
            migrations.move(connection, version)
            assert migrations.version_of(connection) == version
            assert [
                msgspec.json.decode(body)["id"] for body in queries.evictions(connection, None, (0.0, NOW + DAY))
            ] == [made.id]
    with transaction(address) as connection:
        context = MigrationContext.configure(connection, opts={"version_table": "record_schema"})
        assert compare_metadata(context, METADATA) == []
    store.close()
    for version, before in ((0, 3), (1, 0), (3, 1)):
        with transaction(address) as connection:
            assert migrations.move(connection, version) == before
    with transaction(address) as connection:
        context = MigrationContext.configure(connection, opts={"version_table": "record_schema"})
        assert compare_metadata(context, METADATA) == [], "from the first version on"
        assert migrations.move(connection, 0) == 3
    with pytest.raises(RecordsError, match="has no decision records"):
        DatabaseReader(address).evictions(0.0)


def test_newer_schema_is_refused_and_says_what_to_do(address: str, opened: Open) -> None:
    """history.md 2.3: nothing of it is read or changed."""
    opened(address).close()
    with transaction(address) as connection:
        connection.exec_driver_sql("UPDATE record_schema SET version_num = '4'")
    message = "has version 4, and this reprieve knows versions up to 3: use a newer reprieve"
    with pytest.raises(RecordsError, match=message):
        opened(address)
    with pytest.raises(RecordsError, match=message):
        DatabaseReader(address).evictions(0.0)


@needs_postgres
def test_killed_server_loses_nothing(server: Postgres, opened: Open, told: Told) -> None:
    """history.md 1.5: spooled meanwhile, then written in order, each once; `put` takes no longer than ever."""
    address = server.create("killed")
    store = opened(address)
    made = [put(store, "train", victims=1, at=NOW + number) for number in range(3)]
    assert store.flush()
    server.kill()
    try:
        began = time.thread_time()
        made += [put(store, "train", victims=1, at=NOW + 3 + number) for number in range(500)]
        assert time.thread_time() - began < 5.0
        assert store.flush()
        assert store.spooled == 500
        with pytest.raises(RecordsAwayError):
            found(store, "PodGroup", "train")
        assert [text for text in told.troubles if "spooled to" in text]
        store.close()
        store = opened(address)
        made += [put(store, "train", victims=1, at=NOW + 503)]
        assert store.flush()
        assert store.spooled == 501, "a restart finds what was spooled"
    finally:
        server.start()
    eventually(lambda: not store.spooled and not store.away, "the spool is sent")
    assert everything(address) == made
    assert told.lost == 0
    assert told.troubles[-1] == "decision records are written to the database again"
    assert not any(PASSWORD in text for text in told.troubles)


@needs_postgres
def test_full_disk_loses_nothing(server: Postgres, opened: Open, told: Told) -> None:
    """history.md 1.5: the disk of the database is full, by a small file system or else by the server's own error."""
    with small_disk("24m") as place:
        if place is None:
            address = server.create("brimful")
        else:
            assert server.query(f"CREATE TABLESPACE small LOCATION '{place}'") is not None
            address = server.create("brimful", "TABLESPACE small")
        store = opened(address)
        made = [put(store, "train", victims=1)]
        assert store.flush()
        filler = place.parent / "filler" if place is not None else None
        if filler is not None:
            fill(filler)
        else:
            body = "BEGIN RAISE 'no space' USING ERRCODE='53100'; END"
            full = f"CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$"
            trigger = "CREATE TRIGGER no_space BEFORE INSERT ON record EXECUTE FUNCTION no_space()"
            assert server.query(full, trigger, database="brimful") is not None
        made += [put(store, "train", victims=1, at=NOW + 1 + number, message="x" * 2_000) for number in range(300)]
        assert store.flush()
        assert store.spooled > 0
        assert store.away
        if filler is not None:
            filler.unlink()
        else:
            assert server.query("DROP TRIGGER no_space ON record", database="brimful") is not None
        eventually(lambda: not store.spooled and not store.away, "the spool is sent")
        assert everything(address) == made
        assert told.lost == 0
        store.close()
        if place is not None:
            assert server.query("DROP DATABASE brimful WITH (FORCE)", "DROP TABLESPACE small") is not None


@needs_postgres
def test_wrong_password_is_said_without_it_and_spooled(server: Postgres, opened: Open, told: Told) -> None:
    """history.md 4: it goes on without the database; no message has the password in it."""
    wrong = "not-the-pass-word"
    store = opened(server.address(password=wrong))
    put(store, "train", victims=1)
    assert store.flush()
    assert store.spooled == 1
    [text] = told.troubles
    assert "password authentication failed" in text
    assert f"postgresql://tests:***@127.0.0.1:{server.port}/postgres" in text
    assert wrong not in text
    assert wrong not in repr(store.database)


@needs_postgres
def test_password_may_come_from_a_file_or_the_environment(
    server: Postgres, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """history.md 4.1: libpq's PGPASSFILE, PGPASSWORD and PGUSER."""
    address = server.create("by_environment").replace(f"tests:{PASSWORD}@", "")
    monkeypatch.setenv("PGUSER", "tests")
    passfile = tmp_path / "pgpass"
    passfile.write_text(f"127.0.0.1:{server.port}:*:tests:{PASSWORD}\n")
    passfile.chmod(0o600)
    for name, value in (("PGPASSFILE", str(passfile)), ("PGPASSWORD", PASSWORD)):
        monkeypatch.setenv(name, value)
        store = opened(address)
        assert store.away == ""
        monkeypatch.delenv(name)
        store.close()


def test_spool_is_bounded_and_what_is_lost_is_counted(opened: Open, told: Told, tmp_path: Path) -> None:
    """history.md 1.6: the oldest go first."""
    nowhere = f"sqlite:///{tmp_path}/records.db"
    store = opened(nowhere, spool_bytes=20_000, retry=3600.0)
    with transaction(nowhere) as connection:
        connection.exec_driver_sql("DROP TABLE record")
    for number in range(100):
        put(store, "train", victims=1, message="x" * 500, at=NOW + number)
        assert store.flush()
    assert store.spooled < 40
    assert told.lost == 100 - store.spooled
    store.close()
    with transaction(nowhere) as connection:
        METADATA.tables["record"].create(connection)
    again = opened(nowhere)
    eventually(lambda: not again.spooled, "the spool is sent")
    assert [one.time for one in everything(nowhere)] == sorted(one.time for one in everything(nowhere))
    assert len(everything(nowhere)) == 100 - told.lost


def test_ids_grow_over_restarts_and_fit_a_double(opened: Open, tmp_path: Path) -> None:
    """history.md 1.4: also those that are given out in one millisecond."""
    now = [NOW]
    store = opened(f"sqlite:///{tmp_path}/a.db", clock=lambda: now[0])
    ids = [store.next_id() for _ in range(1_000)]
    assert ids == sorted(set(ids))
    now[0] += 10.0
    later = opened(f"sqlite:///{tmp_path}/b.db", clock=lambda: now[0]).next_id()
    assert ids[-1] < later < 2**53


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("mysql://me:pw@here/x", "mysql://: expected a file, postgresql://HOST/DATABASE or sqlite:///FILE"),
        ("postgresql://me:pw@here:port/x", "postgresql://: not an address of a database: expected"),
        ("postgresql://me:pw@here", "postgresql://me:***@here: names no database"),
        ("postgresql://here?password=pw", "names no database"),
    ],
)
def test_bad_address_is_one_error_without_its_password(address: str, message: str, opened: Open) -> None:
    """history.md 4.3."""
    with pytest.raises(RecordsError) as raised:
        opened(address)
    assert message in str(raised.value)
    assert "pw" not in str(raised.value)
