"""`reprieve history` on a file of decision records (whatif.md 9)."""

import io
import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from reprieve.cli.history import history_sections
from reprieve.cli.sections import Tone
from reprieve.decisions.history import HistoryItem, HistoryVictim, PreemptionHistory
from reprieve.inputs.loader import load
from reprieve.observability.database.location import RecordsDatabase
from reprieve.observability.database.store import DatabaseStore
from reprieve.observability.recorder import RecordKeeper
from reprieve.simulation.plan import PlanOptions, plan
from tests import manifests
from tests.cli.conftest import Run

START = "2026-01-01T00:00:00Z"


def pod(name: str, priority: int, on: str = "", namespace: str = "default") -> dict[str, Any]:
    return manifests.pod(name, 3, node=on, priority=priority, meta={"namespace": namespace})


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
    store = DatabaseStore(RecordsDatabase(file))
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
    assert run("history", "--records", records, "--since", "2099-01-01T00:00:00Z").out.startswith(
        "No pods were evicted"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--since", "yesterday"), "error: --since yesterday: expected a duration such as 6h"),
        (("-n", "a", "-A"), "error: -n and -A cannot be combined"),
        (("--records", "nowhere.db"), "error: nowhere.db: not a file of decision records"),
    ],
)
def test_bad_questions(run: Run, arguments: tuple[str, ...], message: str) -> None:
    ended = run("history", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(message)


ITEM = HistoryItem(
    time="2026-01-01T00:00:05.123456Z",
    kind="PodGroup",
    namespace="a",
    name="g",
    priority=9,
    domain="n1",
    pods=2,
    lost_gpu_hours=1.5,
    lost_cpu_hours=7.0,
    pdb_violations=0,
    state="Done",
)
VICTIM = HistoryVictim(unit="a/v", kind="Pod", priority=1, pods=1)


@pytest.mark.parametrize(
    ("victim", "line"),
    [
        (VICTIM, "a/v (priority 1, 1 pod)"),
        (replace(VICTIM, pods=2, running_seconds=60.0), "a/v (priority 1, 2 pods) after 1 min"),
        (replace(VICTIM, running_seconds=0.0), "a/v (priority 1, 1 pod) after 0 s"),
        (
            replace(VICTIM, violates_pdb=True, why="it is large"),
            "a/v (priority 1, 1 pod), although a PodDisruptionBudget forbids it: it is large",
        ),
    ],
)
def test_each_victim_is_a_line_below_its_preemption(victim: HistoryVictim, line: str) -> None:
    """whatif.md 9: what is not known is left out."""
    [section] = history_sections(PreemptionHistory(items=(replace(ITEM, victims=(victim, VICTIM)),)), "24h")
    [row] = section.rows
    assert row.below == (line, "a/v (priority 1, 1 pod)")


@pytest.mark.parametrize(
    ("items", "title", "cells"),
    [
        (
            (ITEM,),
            "1 preemption in the last 24h: 2 pods evicted",
            [("2026-01-01T00:00:05Z", "podgroup a/g", "9", "2 pods", "1.5 GPU-hours", "Done")],
        ),
        (
            (replace(ITEM, kind="Pod", pods=1, lost_gpu_hours=0.0, time="2026-01-01T00:00:05Z", state="Failed"),),
            "1 preemption in the last 24h: 1 pod evicted",
            [("2026-01-01T00:00:05Z", "pod a/g", "9", "1 pod", "7 CPU-hours", "Failed")],
        ),
    ],
)
def test_preemption_is_a_row_with_the_work_that_was_lost(
    items: tuple[HistoryItem, ...], title: str, cells: list[tuple[str, ...]]
) -> None:
    """Of GPUs where any were, else of CPUs."""
    [section] = history_sections(PreemptionHistory(items=items), "24h")
    assert section.columns == ("when", "by", "priority", "evicted", "work lost", "state")
    assert (section.title, [row.cells for row in section.rows]) == (title, cells)


def test_preemptions_are_counted_with_all_their_pods() -> None:
    [section] = history_sections(PreemptionHistory(items=(ITEM, replace(ITEM, pods=3))), "7d")
    assert section.title == "2 preemptions in the last 7d: 5 pods evicted"
    [none] = history_sections(PreemptionHistory(), "7d")
    assert (none.title, none.tone) == ("No pods were evicted in the last 7d.", Tone.GOOD)


@pytest.mark.parametrize("option", [(), ("--since", "24h")])
def test_without_a_time_it_is_the_last_day(
    run: Run, records: str, monkeypatch: pytest.MonkeyPatch, option: tuple[str, ...]
) -> None:
    """The records are of a plan without dates: of its first creation, and some seconds."""
    [newest, *_] = json.loads(run("history", "--records", records, "--since", START, "-o", "json").out)["items"]
    began = datetime.fromisoformat(newest["time"]).timestamp()
    for later, shown in ((86_399.0, 1), (86_400.0 + 60, 0)):
        monkeypatch.setattr("reprieve.cli.history.time.time", lambda at=began + later: at)
        document = json.loads(run("history", "--records", records, *option, "-o", "json").out)
        assert (len(document["items"]) > 0) == bool(shown)
