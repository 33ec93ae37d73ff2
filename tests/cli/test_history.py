"""`reprieve history` on a file of decision records (whatif.md 9)."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from reprieve.api.loading import load
from reprieve.observability.recording import RecordKeeper
from reprieve.observability.store import open_store
from reprieve.simulation.plan import PlanOptions, plan
from tests.cli.conftest import Run

START = "2026-01-01T00:00:00Z"


def pod(name: str, priority: int, on: str = "", namespace: str = "default") -> dict[str, Any]:
    spec: dict[str, Any] = {
        "priority": priority,
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}],
    }
    spec |= {"nodeName": on} if on else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


@pytest.fixture
def records(tmp_path: Path) -> str:
    """Two preemptions: `high` evicts `low`, and in another namespace `urgent` evicts `other`."""
    room = {"cpu": "4", "pods": "9"}
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": room}}
        for name in ("n1", "n2")
    ]
    running = [pod("low", 1, "n1"), pod("other", 2, "n2", "team")]
    documents = [*nodes, *running, pod("high", 3), pod("urgent", 9, namespace="team")]
    manifests = load(["-"], stdin=io.BytesIO(yaml.safe_dump_all(documents).encode()))
    file = tmp_path / "decisions.db"
    store = open_store(file)
    plan(manifests, PlanOptions(observer=RecordKeeper(store)))
    store.close()
    return str(file)


def test_everything_since_a_time_newest_first(run: Run, records: str) -> None:
    ended = run("history", "--records", records, "--since", START, "-o", "json")
    assert ended.code == 0, ended.err
    items = json.loads(ended.out)["items"]
    assert [(one["namespace"], one["name"], one["pods"]) for one in items] == [
        ("default", "high", 1),
        ("team", "urgent", 1),
    ] or (
        [(one["namespace"], one["name"], one["pods"]) for one in items]
        == [("team", "urgent", 1), ("default", "high", 1)]
    )
    assert [victim["unit"] for one in items for victim in one["victims"]] == ["team/other", "default/low"]
    assert items[0]["victims"][0]["why"].endswith("Insufficient cpu")


def test_one_namespace(run: Run, records: str) -> None:
    ended = run("history", "--records", records, "--since", START, "-n", "team", "-o", "json")
    assert all(
        one["namespace"] == "team" or any(victim["unit"].startswith("team/") for victim in one["victims"])
        for one in json.loads(ended.out)["items"]
    )


def test_in_words(run: Run, records: str) -> None:
    out = run("history", "--records", records, "--since", START).out
    assert out.startswith("2 preemptions since 2026-01-01T00:00:00Z: 2 pods evicted\n")
    assert "pod default/high" in out
    assert re.search(r"^  \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ  pod ", out, re.M), "to the second"
    assert "(priority 1, 1 pod)" in out


def test_nothing_happened_lately(run: Run, records: str) -> None:
    assert run("history", "--records", records, "--since", "2099-01-01T00:00:00Z").out.startswith("Nobody was evicted")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--since", "yesterday"), "error: --since yesterday: want a duration such as 6h"),
        (("-n", "a", "-A"), "error: -n and -A exclude each other"),
        (("--records", "nowhere.db"), "error: nowhere.db: no file of decision records"),
    ],
)
def test_bad_questions(run: Run, arguments: tuple[str, ...], message: str) -> None:
    ended = run("history", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(message)
