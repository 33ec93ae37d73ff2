"""The durable log: what was appended is there again, and a file that cannot be trusted is left alone."""

from __future__ import annotations

import hashlib
import sqlite3
import stat
from pathlib import Path

import pytest

from kube_standin.storage import log as log_module
from kube_standin.storage.log import FORMAT, LogRow, SqliteLog, StorageError, open_log
from kube_standin.storage.mark import Mark
from kube_standin.storage.recovery import mark_path


def row(revision: int, *, name: str = "a", deleted: bool = False, body: bytes = b'{"metadata":{}}') -> LogRow:
    return LogRow(revision, "pods", "default", name, deleted, body)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_records_are_there_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    first = SqliteLog(path)
    first.append([row(2), row(3, name="b"), row(4, deleted=True)])
    first.close()
    second = SqliteLog(path)
    assert [(r.revision, r.name, r.deleted) for r in second.rows()] == [
        (2, "a", False),
        (3, "b", False),
        (4, "a", True),
    ]
    second.close()


def test_compaction_deletes_rows_and_is_remembered(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    log = SqliteLog(path)
    log.append([row(2), row(3), row(4)])
    log.compact(3, [row(2)])
    log.close()
    marked = Mark.read(mark_path(path))
    assert marked is not None
    assert marked.revision == 4, "what was acknowledged is no less by it"
    again = SqliteLog(path)
    assert again.compacted == 3
    assert [r.revision for r in again.rows()] == [3, 4]
    again.close()


def test_only_the_owner_may_read_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "er"
    log = SqliteLog(folder / "state.db")
    log.append([row(2)])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    log.close()


def test_second_process_on_the_same_file_is_refused(tmp_path: Path) -> None:
    first = SqliteLog(tmp_path / "state.db")
    with pytest.raises(StorageError, match="in use by another running server"):
        SqliteLog(tmp_path / "state.db")
    first.close()
    SqliteLog(tmp_path / "state.db").close()


def test_file_that_could_not_be_opened_is_free_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock goes with the attempt, in a process that lives on too."""
    path = tmp_path / "state.db"
    SqliteLog(path).close()

    def fails(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patched:
        patched.setattr("kube_standin.storage.log.sqlite3.connect", fails)
        with pytest.raises(StorageError):
            SqliteLog(path)
    SqliteLog(path).close()


def written(path: Path) -> None:
    log = SqliteLog(path)
    log.append(
        [row(number, name=f"n{number}", body=b'{"metadata":{"name":"%d"}}' % number) for number in range(2, 400)]
    )
    log.close()


def flip_body(path: Path) -> None:
    data = bytearray(path.read_bytes())
    position = data.index(b'{"metadata":{"name":"200"}}')
    data[position + 21] ^= 0xFF
    path.write_bytes(bytes(data))


def break_page(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:4608] = b"\xff" * 512
    path.write_bytes(bytes(data))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def no_database(path: Path) -> None:
    path.write_bytes(b"hello, this is a text file\n" * 10)


def foreign(path: Path) -> None:
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (x)")
    connection.commit()
    connection.close()


def newer(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version={FORMAT + 1}")
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (flip_body, r"damaged \(checksum of revision 200\)"),
        (break_page, "damaged"),
        (cut, "damaged"),
        (empty, "no SQLite database"),
        (no_database, "no SQLite database"),
        (foreign, "not one of this program"),
        (newer, f"newer version \\(format {FORMAT + 1}"),
    ],
)
def test_file_that_cannot_be_trusted_is_refused_and_untouched(tmp_path: Path, damage, why: str) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "state.db"
    written(path)
    damage(path)
    before = digest(path)
    with pytest.raises(StorageError, match=why) as caught:
        open_log(path)
    assert str(path) in str(caught.value)
    assert digest(path) == before
    with pytest.raises(StorageError, match=why):  # the refusal released the lock: the text stays the same
        open_log(path)


def test_first_start_that_died_half_way_starts_over(tmp_path: Path) -> None:
    (tmp_path / "state.db.new").write_bytes(b"half")
    log = SqliteLog(tmp_path / "state.db")
    assert list(log.rows()) == []
    log.close()


def test_write_ahead_file_stays_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "CHECKPOINT_BYTES", 64 * 1024)
    monkeypatch.setattr(log_module, "WAL_BYTES", 256 * 1024)
    log = SqliteLog(tmp_path / "state.db")
    largest = 0
    for number in range(2, 600):
        log.append([row(number, body=b"x" * 4000)])
        if log.checkpoint_due():
            log.checkpoint()
        largest = max(largest, (tmp_path / "state.db-wal").stat().st_size)
    assert largest < 1024 * 1024
    log.close()


def test_failed_append_writes_nothing(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "state.db")
    log.append([row(2)])
    with pytest.raises(StorageError, match="cannot be written"):
        log.append([row(3), row(2)])  # revision 2 exists: the transaction fails as a whole
    log.append([row(3, name="c")])
    assert [(r.revision, r.name) for r in log.rows()] == [(2, "a"), (3, "c")]
    log.close()


def test_log_that_is_closed_is_left_alone(tmp_path: Path) -> None:
    """A copy that was due when the server stopped, and a second end, find nothing to do."""
    log = SqliteLog(tmp_path / "state.db")
    log.append([row(2)])
    log.close()
    log.checkpoint()
    log.close()
    again = SqliteLog(tmp_path / "state.db")
    assert [r.revision for r in again.rows()] == [2]
    again.close()


def test_copy_is_due_after_as_much_as_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit costs the pages it touches besides the bodies; a compaction costs them as well; a copy starts again."""
    body = b"x" * 1000
    cost = 3 * 4096 + len(body)
    monkeypatch.setattr(log_module, "CHECKPOINT_BYTES", 2 * cost + 3 * 4096)
    log = SqliteLog(tmp_path / "state.db")
    log.append([row(2, body=body)])
    log.append([row(3, body=body)])
    log.compact(3, [])
    assert not log.checkpoint_due()
    log.append([row(4)])
    assert log.checkpoint_due()
    log.checkpoint()
    assert not log.checkpoint_due()
    log.close()
