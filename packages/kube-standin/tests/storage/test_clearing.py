"""What is removed of a data directory, and what stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from kube_standin.storage import StorageError
from kube_standin.storage.cleanup import clear
from kube_standin.storage.log import locked

STATE = {"state.db", "state.db-wal", "state.db.damaged-1", "decisions.db", "decisions.db-shm"}
SECRETS = {"kubeconfig", "scheduler.kubeconfig", "tokens.json", "pki/ca.crt"}


def filled(directory: Path, *more: str) -> Path:
    for name in (*STATE, *SECRETS, *more):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    return directory


def left(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()} - {"state.db-lock"}


def test_state_goes_and_keys_stay(tmp_path: Path) -> None:
    directory = filled(tmp_path / "data", "notes.txt")
    assert clear(directory, everything=False)
    assert left(directory) == {*SECRETS, "notes.txt"}


def test_everything_of_a_server_goes_and_the_directory_with_it(tmp_path: Path) -> None:
    directory = filled(tmp_path / "data")
    assert clear(directory, everything=True)
    assert not directory.exists()


def test_files_of_others_stay_and_so_does_the_directory(tmp_path: Path) -> None:
    directory = filled(tmp_path / "data", "notes.txt", "mine/state.db")
    assert clear(directory, everything=True)
    assert left(directory) == {"notes.txt", "mine/state.db"}


def test_link_is_removed_and_not_what_it_leads_to(tmp_path: Path) -> None:
    directory = filled(tmp_path / "data")
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "keys").mkdir(parents=True)
    (elsewhere / "keys" / "ca.crt").write_text("x")
    (directory / "pki" / "ca.crt").unlink()
    (directory / "pki").rmdir()
    (directory / "pki").symlink_to(elsewhere / "keys")
    assert clear(directory, everything=True)
    assert not directory.exists()
    assert left(elsewhere) == {"keys/ca.crt"}


def test_where_no_server_was_nothing_is_removed(tmp_path: Path) -> None:
    (tmp_path / "tokens.json").write_text("mine")
    assert not clear(tmp_path, everything=True)
    assert left(tmp_path) == {"tokens.json"}


def test_files_of_a_running_server_are_not_removed(tmp_path: Path) -> None:
    directory = filled(tmp_path / "data")
    with locked(directory / "state.db"), pytest.raises(StorageError):
        clear(directory, everything=True)
    assert left(directory) == STATE | SECRETS
