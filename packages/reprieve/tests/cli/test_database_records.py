"""Commands that read decision records from their database, and its schema (history.md)."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import yaml

from reprieve.inputs.loader import load
from reprieve.observability.database.location import RecordsDatabase
from reprieve.observability.database.store import DatabaseStore
from reprieve.observability.recorder import RecordKeeper
from reprieve.simulation.plan import PlanOptions, plan
from tests.cli.conftest import Run
from tests.cli.test_history import START, pod


@pytest.fixture
def database(tmp_path: Path) -> str:
    """The address of a database with one preemption: `high` evicts `low`."""
    room = {"cpu": "4", "pods": "9"}
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": room}}]
    manifests = load(
        ["-"], stdin=io.BytesIO(yaml.safe_dump_all([*nodes, pod("low", 1, "n1"), pod("high", 3)]).encode())
    )
    address = f"sqlite:///{tmp_path}/records.db"
    store = DatabaseStore(RecordsDatabase(address, spool=tmp_path / "spool"))
    plan(manifests, PlanOptions(observer=RecordKeeper(store)))
    store.close()
    return address


def test_history_reads_the_database(run: Run, database: str) -> None:
    """history.md 1.2: as it reads a file of records."""
    ended = run("history", "--records", database, "--since", START, "-o", "json")
    assert ended.code == 0, ended.err
    [item] = json.loads(ended.out)["items"]
    assert (item["name"], [victim["unit"] for victim in item["victims"]]) == ("high", ["default/low"])


def test_migrate_goes_down_and_up(run: Run, database: str) -> None:
    """history.md 2.2: and says which version there was."""
    assert run("records", "migrate", "--records", database).out == "The schema is already at version 3.\n"
    down = run("records", "migrate", "--records", database, "--to", "1")
    assert down.out == "The schema was version 3 and is version 1 now.\n"
    assert run("history", "--records", database, "--since", START).out.startswith("1 preemption since")
    assert run("records", "migrate", "--records", database).out == "The schema was version 1 and is version 3 now.\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["history", "--records", "postgresql://me:pw@127.0.0.1:1/x"], 3, "postgresql+psycopg://me:***@127.0.0.1:1/x"),
        (
            ["history", "--records", "postgresql://me:pw@127.0.0.1"],
            2,
            "postgresql://me:***@127.0.0.1: names no",
        ),
        (
            ["history", "--records", "sqlite:////nowhere/x.db"],
            2,
            "/nowhere/x.db: not a file of decision records: No such",
        ),
        (
            ["records", "migrate", "--records", "mysql://me:pw@h/x"],
            2,
            "--records: mysql://: expected a file",
        ),
        (["records", "migrate", "--records", "postgresql://me:pw@127.0.0.1:1/x"], 3, "me:***@127.0.0.1:1/x"),
        (
            ["records", "migrate", "--records", "sqlite:///x.db", "--to", "9"],
            2,
            "version 9 of the schema",
        ),
        (
            ["scheduler", "--records", "postgresql://h/x", "--records-keep", "soon"],
            2,
            "--records-keep soon: expected",
        ),
        (
            ["scheduler", "--records", "postgresql://h/x", "--records-keep", "7d"],
            2,
            "must be at least --records-keep-attempts",
        ),
    ],
)
def test_bad_database_is_one_error_without_the_password(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, message: str
) -> None:
    """history.md 4: it names the place and what to do."""
    monkeypatch.chdir(tmp_path)
    ended = run(*arguments)
    assert (ended.code, ended.out) == (code, ""), ended.err
    assert message.replace("+psycopg", "") in ended.err.replace("+psycopg", "")
    assert "pw" not in ended.err
    assert ended.err.count("\n") == 1
