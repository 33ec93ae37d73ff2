"""Reservations in `plan`, `queue` and `explain` (reservations.md 6.4)."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

CLUSTER = Path(__file__).parents[4] / "examples" / "waiting" / "reserved.yaml"
START = "2026-03-02T14:00:30Z"


@pytest.fixture
def nameless(tmp_path: Path) -> Path:
    """The cluster without the end of eval-2, and with another namespace for it: no known ends suffice."""
    text = CLUSTER.read_text().replace("  annotations: {scheduling.reprieve.dev/expected-runtime: 4h}\n", "")
    text = text.replace("activeDeadlineSeconds: 21600", "hostNetwork: false")
    made = tmp_path / "cluster.yaml"
    made.write_text(text.replace("name: eval-3", "name: eval-3\n  namespace: others"))
    return made


def test_plan_has_nodes_start_and_what_may_backfill(run: Run) -> None:
    ended = run("plan", "-f", CLUSTER, "-o", "json")
    document = json.loads(ended.out)
    assert document["reservations"] == [
        {
            "holder": {"kind": "PodGroup", "namespace": "default", "name": "train", "priority": 0},
            "nodes": ["n2", "n3"],
            "expectedStart": START,
            "waitsFor": ["default/eval-2", "default/eval-3"],
            "message": f"expected start {START}",
            "backfill": "pods that state an end before then may use it",
        }
    ]
    placed = {item["name"]: item["nodeName"] for item in document["pods"]}
    assert placed == {"brief": "n3", "endless": None, "train-0": None, "train-1": None}


def test_plan_without_known_ends(run: Run, nameless: Path) -> None:
    document = json.loads(run("plan", "-f", nameless, "-o", "json").out)
    (held,) = document["reservations"]
    assert held["expectedStart"] is None
    assert held["message"].startswith("when 2 pods on n")
    assert held["backfill"] == "no pods may use it until then"


def test_compatible_reserves_nothing(run: Run) -> None:
    """reservations.md 1.5"""
    assert json.loads(run("plan", "-f", CLUSTER, "-o", "json", "--compatible").out)["reservations"] == []


def test_queue_has_it_below_the_gang(run: Run) -> None:
    document = json.loads(run("queue", "-f", CLUSTER, "-o", "json", "--no-suggest").out)
    reserved = {item["name"]: item["reserved"] for item in document["items"]}
    text = f"reserved on n2, n3: expected start {START}; pods that state an end before then may use it"
    assert reserved == {"train": text, "brief": "", "endless": ""}
    assert f"\n      {text}\n" in run("queue", "-f", CLUSTER, "--no-suggest").out


def test_explain_has_it_and_what_it_waits_for(run: Run) -> None:
    text = run("explain", "podgroup", "train", "-f", CLUSTER, "--no-suggest").out
    assert f"Capacity is reserved for it on n2, n3: expected start {START};" in text
    assert "It waits for default/eval-2, default/eval-3 to end." in text


def test_redacted_explanation_does_not_name_the_pods_of_others(run: Run, nameless: Path) -> None:
    text = run("explain", "podgroup", "train", "-f", nameless, "--no-suggest", "--redact").out
    assert "Capacity is reserved for it" in text
    assert "eval-" not in text
