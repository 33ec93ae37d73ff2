"""What a store acknowledged is all there at the next start, or the start is refused and says how to go on.

A *crashed* directory is what kill -9 leaves: the files of a log that is open, copied as they are.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from kube_standin.storage import SqliteLog, StorageError, Store, open_log
from kube_standin.storage.mark import Contents, LogRow, Mark, digest_of
from kube_standin.storage.recovery import FORMAT, mark_path
from tests.waiting import DEADLINE

WRITES = 201


def write(store: Store, name: str, value: str = "x" * 50) -> int:
    """Acknowledge one write."""
    body = {"metadata": {"name": name}, "data": value}
    revision = store.put("things", "", name, body, store.head("things", "", name)).state.revision
    store.flush()
    return revision


def crashed(directory: Path, *, checkpoint_at: int | None = 50, writes: int = WRITES, first: str = "n") -> Path:
    """A directory as kill -9 leaves it: one object per write, part of them copied back into the main file."""
    source = directory.with_name(directory.name + "-running")
    log = SqliteLog(source / "state.db")
    store = Store(log)
    for number in range(writes):
        write(store, f"{first}{number}")
        if number == checkpoint_at:
            log.checkpoint()
    shutil.copytree(source, directory)
    store.close()
    return directory / "state.db"


def wal(path: Path) -> Path:
    return path.with_name("state.db-wal")


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


GARBAGE = random.Random(1).randbytes(4096)


def frames(path: Path) -> list[int]:
    """Where the frames are that the WAL holds since it was last started afresh (24 bytes of header, then a page)."""
    data = wal(path).read_bytes()
    return [at for at in range(32, len(data), 24 + 4096) if data[at + 8 : at + 16] == data[16:24]]


def garbage_in_the_wal(path: Path) -> None:
    found = frames(path)
    overwrite(wal(path), found[len(found) // 2], GARBAGE)


def garbage_at_the_start_of_the_wal(path: Path) -> None:
    overwrite(wal(path), 0, GARBAGE)


def garbage_in_the_first_frame(path: Path) -> None:
    overwrite(wal(path), 40, GARBAGE)


def last_frame_of_the_wal(path: Path) -> None:
    overwrite(wal(path), frames(path)[-1] + 4000, b"\xff" * 8)


def cut_wal(path: Path) -> None:
    wal(path).write_bytes(wal(path).read_bytes()[: frames(path)[-2]])


def empty_wal(path: Path) -> None:
    wal(path).write_bytes(b"")


def no_wal(path: Path) -> None:
    wal(path).unlink()


def foreign_wal(path: Path) -> None:
    other = crashed(path.parent.with_name("other"), first="other", checkpoint_at=None)
    shutil.copy(wal(other), wal(path))


def foreign_wal_copied_back(path: Path) -> None:
    other = crashed(path.parent.with_name("other"), first="other", checkpoint_at=WRITES - 10)
    shutil.copy(wal(other), wal(path))


def other_database(path: Path) -> None:
    other = crashed(path.parent.with_name("other"), first="other")
    shutil.copy(other, path)
    shutil.copy(wal(other), wal(path))


def older_copy(path: Path) -> None:
    """state.db as it was at 50 writes, and no write-ahead log: a backup of one file put back."""
    older = crashed(path.parent.with_name("older"), writes=51)
    with closing(sqlite3.connect(older)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(older, path)
    wal(path).unlink()


def database_only(path: Path) -> None:
    overwrite(path, 4096 + 200, GARBAGE)


def header(path: Path) -> None:
    overwrite(path, 0, GARBAGE[:100])


def cut_database(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def both(path: Path) -> None:
    garbage_in_the_wal(path)
    database_only(path)


def no_database(path: Path) -> None:
    path.unlink()


def nothing_but_the_mark(path: Path) -> None:
    path.unlink()
    wal(path).unlink()


def no_mark(path: Path) -> None:
    mark_path(path).unlink()


def broken_mark(path: Path) -> None:
    overwrite(mark_path(path), 0, GARBAGE)
    overwrite(mark_path(path), 4096, GARBAGE)


def mark_of_another(path: Path) -> None:
    other = crashed(path.parent.with_name("other"))
    shutil.copy(mark_path(other), mark_path(path))


def meta(statement: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(statement)
            connection.commit()

    return damage


def lost_row(path: Path) -> None:
    meta("DELETE FROM changes WHERE revision = 100")(path)


def renamed_row(path: Path) -> None:
    meta("UPDATE changes SET name = 'other' WHERE revision = 100")(path)


REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "4 KB of garbage in the middle of the WAL": (garbage_in_the_wal, "state.db-wal or state.db was damaged"),
    "garbage at the start of the WAL": (garbage_at_the_start_of_the_wal, "acknowledged writes are missing"),
    "garbage in the first frame": (garbage_in_the_first_frame, r"state\.db"),
    "the last frame of the WAL": (last_frame_of_the_wal, "up to revision 202 it must hold 201 changes"),
    "the WAL cut short": (cut_wal, "acknowledged writes are missing"),
    "an empty WAL": (empty_wal, "acknowledged writes are missing"),
    "no WAL": (no_wal, "state.db-wal is missing"),
    "the WAL of another database": (foreign_wal, r"state\.db"),
    "the second WAL of another database": (foreign_wal_copied_back, r"state\.db"),
    "another database": (other_database, "of different servers"),
    "an older copy of the database": (older_copy, "state.db"),
    "garbage in the database": (database_only, "damaged"),
    "garbage in its header": (header, "its mark says that it was one"),
    "the database cut short": (cut_database, "damaged"),
    "both": (both, "damaged"),
    "no database": (no_database, r"state\.db: missing, though state\.db-wal is there"),
    "nothing but the mark": (nothing_but_the_mark, r"state\.db: missing, though state\.db-mark is there"),
    "no mark": (no_mark, r"state\.db-mark: missing or damaged"),
    "a broken mark": (broken_mark, r"state\.db-mark: missing or damaged"),
    "the mark of another": (mark_of_another, "state.db-mark and state.db"),
    "no start of history": (meta("DELETE FROM meta WHERE key = 'compacted'"), "compacted in its table meta is missing"),
    "a broken start of history": (meta("UPDATE meta SET value = 'x'"), "compacted in its table meta is 'x'"),
    "a wrong start of history": (
        meta("UPDATE meta SET value = 7 WHERE key = 'compacted'"),
        "acknowledged writes are missing",
    ),
    "a negative start of history": (meta("UPDATE meta SET value = '-7' WHERE key = 'compacted'"), "is '-7'"),
    "no identity": (meta("DELETE FROM meta WHERE key = 'database'"), "its identity in its table meta"),
    "a broken identity": (meta("UPDATE meta SET value = 'xy' WHERE key = 'database'"), "its identity"),
    "no table": (meta("DROP TABLE meta"), "damaged"),
    "a lost row": (lost_row, "acknowledged writes are missing"),
    "a renamed row": (renamed_row, "acknowledged writes are missing"),
}


def digests(directory: Path) -> dict[str, str]:
    """Everything that holds data; the index of the WAL and the lock hold none."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.iterdir()
        if not path.name.endswith(("-shm", "-lock"))
    }


def open_files(path: Path) -> list[str]:
    """What this process has open beside the data file, where the system tells."""
    listed = Path("/proc/self/fd")
    found = []
    for each in listed.iterdir() if listed.exists() else ():
        with suppress(OSError):  # another thread has closed it meanwhile
            found.append(os.readlink(each))
    return sorted(name for name in found if name.startswith(str(path.parent)))


@pytest.mark.parametrize("case", REFUSED)
def test_damage_is_refused_by_name_and_can_be_gone_on_from(tmp_path: Path, case: str) -> None:
    damage, why = REFUSED[case]
    path = crashed(tmp_path / "data")
    damage(path)
    before = digests(path.parent)
    for _ in range(2):  # the refusal released the lock, and changed nothing
        with pytest.raises(StorageError, match=why) as caught:
            open_log(path)
        assert str(path) in str(caught.value)
        assert "--accept-loss" in str(caught.value)
    assert digests(path.parent) == before

    store = Store(open_log(path, accept_loss=True))
    acknowledged = WRITES + 1
    if "mark" not in case or case == "nothing but the mark":
        assert store.revision >= acknowledged, "revisions never go back, whatever is lost"
    kept = {name.partition(".damaged-")[0] for name in digests(path.parent) if ".damaged-1" in name}
    assert kept >= set(before) - {"state.db.new"}
    left = [state.name for state in store.page("things").states]
    new = write(store, "new")
    assert new > store.compacted
    store.close()
    again = Store(open_log(path))
    assert [state.name for state in again.page("things").states] == sorted([*left, "new"])
    again.close()


@pytest.mark.parametrize(
    ("case", "least"), [("no WAL", 51), ("the last frame of the WAL", 200), ("no mark", 201), ("a lost row", 200)]
)
def test_damaged_file_keeps_what_can_be_read(tmp_path: Path, case: str, least: int) -> None:
    path = crashed(tmp_path / "data")
    REFUSED[case][0](path)
    store = Store(open_log(path, accept_loss=True))
    assert store.count("things") >= least
    store.close()


def test_rows_on_both_sides_of_a_damaged_page_are_kept(tmp_path: Path) -> None:
    path = crashed(tmp_path / "data", checkpoint_at=WRITES - 1)
    size = path.stat().st_size
    overwrite(path, size // 2 // 4096 * 4096, GARBAGE)
    wal(path).unlink()
    with pytest.raises(StorageError, match="damaged"):
        open_log(path)
    store = Store(open_log(path, accept_loss=True))
    names = {state.name for state in store.page("things").states}
    assert {"n0", "n200"} < names
    store.close()


def test_nothing_is_accepted_where_nothing_is_lost(tmp_path: Path) -> None:
    path = crashed(tmp_path / "data")
    store = Store(open_log(path, accept_loss=True))
    assert store.count("things") == WRITES
    assert store.compacted == 0
    store.close()
    assert not list(path.parent.glob("*damaged*"))


@pytest.mark.parametrize("accept_loss", [False, True])
def test_foreign_file_is_never_replaced(tmp_path: Path, accept_loss: bool) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(b"hello, this is a text file\n" * 10)
    with pytest.raises(StorageError, match="no SQLite database"):
        open_log(path, accept_loss=accept_loss)
    assert path.read_bytes().startswith(b"hello")


def test_newer_file_is_never_replaced(tmp_path: Path) -> None:
    path = crashed(tmp_path / "data")
    meta(f"PRAGMA user_version={FORMAT + 1}")(path)
    with pytest.raises(StorageError, match="newer version"):
        open_log(path, accept_loss=True)


def test_file_without_a_mark_from_before_is_taken_over(tmp_path: Path) -> None:
    """Format 1 had no mark and no identity."""
    path = crashed(tmp_path / "data")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM meta WHERE key = 'database'")
        connection.commit()
        connection.execute("PRAGMA user_version=1")
    mark_path(path).unlink()
    store = Store(open_log(path))
    assert store.count("things") == WRITES
    store.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (FORMAT,)
    Store(open_log(path)).close()
    mark_path(path).unlink()
    with pytest.raises(StorageError, match=r"state\.db-mark"):
        open_log(path)


def test_log_adds_up_to_its_rows_and_an_empty_one_to_nothing() -> None:
    """Marks that an earlier release wrote are compared with these sums."""
    rows = [LogRow(revision, "things", "ns", "a", revision == 3, b"{}") for revision in (2, 3)]
    digests = [digest_of(row, zlib.crc32(row.body)) for row in rows]
    whole = Contents().plus(digests)
    assert whole == (0, 2, sum(digests) % 2**64)
    assert whole.minus(3, digests) == (3, 0, 0)


class Stopped(BaseException):
    """The process was killed."""


def steps_of_a_mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Make the mark die before its Nth write."""
    left = [10**9]
    write_slot = Mark.write

    def dying(self: Mark, *arguments: object) -> None:
        if left[0] == 0:
            raise Stopped
        left[0] -= 1
        write_slot(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Mark, "write", dying)
    yield left


@pytest.mark.parametrize("step", range(12))
def test_dying_between_log_and_mark_is_no_damage(tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each of the writes of the mark in turn, compactions among them; what was acknowledged is there."""
    source, copy = tmp_path / "running", tmp_path / "data"
    left = next(steps_of_a_mark(monkeypatch))
    store = Store(SqliteLog(source / "state.db"))
    acknowledged = 1
    left[0] = step
    try:
        for number in range(8):
            acknowledged = write(store, f"n{number % 3}", str(number))
            if number % 3 == 2:
                store.compact(store.revision - 1)
    except Stopped:
        pass
    shutil.copytree(source, copy)
    left[0] = 10**9
    again = Store(SqliteLog(copy / "state.db"))
    assert again.revision >= acknowledged
    again.close()
    store.close()


@pytest.mark.parametrize("offset", [0, 4096])
def test_torn_slot_of_the_mark_leaves_the_one_before(tmp_path: Path, offset: int) -> None:
    path = crashed(tmp_path / "data")
    overwrite(mark_path(path), offset + 20, b"\xff" * 8)
    store = Store(open_log(path))
    assert store.count("things") == WRITES
    store.close()


def test_mark_that_cannot_be_written_ends_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is ahead of its mark then: nothing may be written under the same revisions again."""
    path = tmp_path / "state.db"
    store = Store(SqliteLog(path))
    write(store, "a")

    def fails(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Mark, "write", fails)
    tickets = []
    for name in ("b", "c"):
        tickets.append(store.put("things", "", name, {"metadata": {"name": name}}, None).ticket)
        store.flush()
    assert all("state.db-mark: cannot be written" in str(ticket.error) for ticket in tickets)
    monkeypatch.undo()
    store.close()
    again = Store(SqliteLog(path))
    assert again.get("things", "", "a") is not None
    assert again.get("things", "", "c") is None
    write(again, "d")
    again.close()


def test_error_of_sqlite_at_start_releases_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = crashed(tmp_path / "data")
    connect = sqlite3.connect
    calls = [0]

    def failing(*arguments: object, **named: object) -> sqlite3.Connection:
        calls[0] += 1
        if calls[0] > 1:
            raise sqlite3.OperationalError("disk I/O error")
        return connect(*arguments, **named)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr("kube_standin.storage.log.sqlite3.connect", failing)
    before = open_files(path)
    for _ in range(2):
        calls[0] = 0
        with pytest.raises(StorageError, match=r"cannot be opened \(disk I/O error\)"):
            SqliteLog(path)
    assert open_files(path) == before
    monkeypatch.undo()
    SqliteLog(path).close()
    assert open_files(path) == before


@pytest.mark.parametrize(
    ("case", "kept"),
    [
        ("a lost row", ["state.db", "state.db-mark"]),
        ("no mark", ["state.db", "state.db-wal"]),
        ("nothing but the mark", ["state.db-mark"]),
    ],
)
def test_accepted_loss_is_logged_with_what_is_left_and_where_the_rest_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, case: str, kept: list[str]
) -> None:
    path = crashed(tmp_path / "data")
    REFUSED[case][0](path)
    store = Store(open_log(path, accept_loss=True))
    left = store.count("things")
    store.close()
    names = ", ".join(f"{name}.damaged-1" for name in kept)
    assert f"{path}: loss accepted, {left} objects are left; what was there is kept as {names}" in caplog.messages


def test_write_ahead_log_is_copied_back_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after the last write: the damage to it can then cost nothing."""
    import asyncio

    monkeypatch.setattr("kube_standin.storage.store.CHECKPOINT_SECONDS", 0.01)
    path = tmp_path / "state.db"

    async def run() -> None:
        log = SqliteLog(path)
        store = Store(log)
        copied, written = asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()
        checkpoint = log.checkpoint

        def noticing() -> None:
            """Keep what is there once it began when everything was written; nothing is copied back meanwhile."""
            whole = written.is_set()
            checkpoint()
            if whole and not copy.exists():
                shutil.copytree(tmp_path, copy)
                loop.call_soon_threadsafe(copied.set)

        monkeypatch.setattr(log, "checkpoint", noticing)
        for number in range(20):
            await store.put("things", "", f"n{number}", {"metadata": {"name": f"n{number}"}}, None).ticket.settled()
        written.set()
        await store.put("things", "", "last", {"metadata": {"name": "last"}}, None).ticket.settled()
        await asyncio.wait_for(copied.wait(), DEADLINE)
        await store.aclose()

    copy = tmp_path.with_name("copy")
    asyncio.run(run())
    wal(copy / "state.db").unlink()
    store = Store(SqliteLog(copy / "state.db"))
    assert store.count("things") >= 20
    store.close()


def test_mark_cut_short_anywhere_holds_nothing_rather_than_failing(tmp_path: Path) -> None:
    """Up to the last byte of its first slot; the file has room for both slots as soon as it is opened."""
    path = tmp_path / "mark"
    mark = Mark(path)
    mark.write(b"d" * 16, 7, Contents(0, 1, 2))
    mark.write(b"d" * 16, 8, Contents(0, 1, 2))
    mark.close()
    whole = path.read_bytes()
    complete = [length for length in range(512) if _read(path, whole[:length]) is not None]
    assert complete
    assert complete == list(range(complete[0], 512)), "a slot that is there is read whatever follows"
    path.write_bytes(b"")
    Mark(path).close()
    assert path.stat().st_size == len(whole)


def _read(path: Path, data: bytes) -> int | None:
    path.write_bytes(data)
    found = Mark.read(path)
    return None if found is None else found.revision
