"""Preemptors and their victims, from decision records (whatif.md 9)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from reprieve.decisions.history import PreemptionHistory, history_of
from reprieve.decisions.records import DecisionRecord


def unit(name: str, **more: Any) -> dict[str, Any]:
    values = {"kind": "Pod", "outcome": "Evicted", "priority": 1, "pods": 1, "podNames": [name], "nodes": ["n1"]}
    return {"unit": name, **values, **more}


def record(number: int, minute: int, *units: dict[str, Any], namespace: str = "a", **made: Any) -> DecisionRecord:
    """A preemption by `namespace/high` at a minute of an hour; without units none was decided."""
    preemption = {
        "domain": "n1",
        "potentialVictims": 3,
        "evicted": list(units),
        "reprieved": [],
        "reprievedTotal": 0,
        "cost": {
            "units": len(units),
            "pods": len(units),
            "highestPriority": 1,
            "lostGpuHours": 1.23456,
            "lostCpuHours": 0.12345,
            "pdbViolations": 2,
        },
        "comparison": {
            "candidates": 1,
            "chosen": {"domain": "n1", "units": 1, "pods": 1, "pdbViolations": 2, "highestPriority": 1},
        },
        "nominations": [],
        "nominationsTotal": 0,
        **made,
    }
    document = {
        "id": number,
        "time": f"2026-01-01T00:{minute:02}:00Z",
        "entity": {"kind": "Pod", "namespace": namespace, "name": "high", "priority": 9},
        "result": "Preempting" if units else "Unschedulable",
        "message": "",
        "attempt": 1,
        "timings": {"attemptSeconds": 0.1, "waitingSeconds": 0.0},
        **({"preemption": preemption} if units else {}),
    }
    return msgspec.convert(document, DecisionRecord, strict=False)


def test_preemption_lists_its_victims_and_what_it_cost() -> None:
    why = {"pod": "a/high", "node": "n1", "plugin": "NodeResourcesFit", "text": "4 more CPUs"}
    victim = unit("b/low", why=why, runningSeconds=60.0, violatesPdb=True)
    found = history_of([record(1, 0, victim, state="Done")], None)
    assert (found.api_version, found.kind) == ("reprieve.dev/v1alpha1", "History")
    document = msgspec.to_builtins(found)["items"][0]
    victims = document.pop("victims")
    assert document == {
        "time": "2026-01-01T00:00:00Z",
        "kind": "Pod",
        "namespace": "a",
        "name": "high",
        "priority": 9,
        "domain": "n1",
        "pods": 1,
        "lostGpuHours": 1.235,
        "lostCpuHours": 0.123,
        "pdbViolations": 2,
        "state": "Done",
        "cause": "",
    }
    assert list(victims) == [
        {
            "unit": "b/low",
            "kind": "Pod",
            "priority": 1,
            "pods": 1,
            "nodes": ("n1",),
            "why": "a/high on n1 needed its capacity, 4 more CPUs",
            "runningSeconds": 60.0,
            "violatesPdb": True,
        }
    ]


def test_newest_first_and_preemptions_alone() -> None:
    records = [record(1, 1, unit("b/x")), record(2, 3, unit("b/y")), record(3, 5), record(4, 2, unit("b/z"))]
    assert [item.victims[0].unit for item in history_of(records, None).items] == ["b/y", "b/z", "b/x"]
    assert history_of([record(1, 0)], None) == PreemptionHistory(items=())


@pytest.mark.parametrize(
    ("namespace", "victims"),
    [(None, ["b/x", "c/y"]), ("a", ["b/x"]), ("b", ["b/x", "c/y"]), ("c", ["c/y"]), ("d", []), ("", [])],
)
def test_those_by_or_of_a_namespace(namespace: str | None, victims: list[str]) -> None:
    """By a: b/x; by b: c/y."""
    records = [record(1, 2, unit("b/x"), namespace="a"), record(2, 1, unit("c/y"), namespace="b")]
    assert [item.victims[0].unit for item in history_of(records, namespace).items] == victims


@pytest.mark.parametrize(
    ("asked", "victims"),
    [
        ({"node": "n2"}, ["b/y"]),
        ({"node": "n3"}, []),
        ({"owner": "job/train"}, ["b/y"]),
        ({"owner": "Job/b/train"}, ["b/y"]),
        ({"owner": "train"}, ["b/y", "b/x"]),
        ({"owner": "job/rain"}, []),
        ({"owner": "train", "node": "n1"}, ["b/x"]),
    ],
)
def test_those_of_a_node_or_an_owner(asked: dict[str, str], victims: list[str]) -> None:
    """whatif.md 9.3: of one unit both must hold; a unit that was not evicted in the end does not count."""
    spared = unit("b/z", nodes=["n3"], owners=["job b/train"], outcome="NotEvicted")
    records = [
        record(1, 1, unit("b/x", owners=["jobset b/train"]), spared),
        record(2, 2, unit("b/y", nodes=["n2"], owners=["replicaset b/other", "job b/train"])),
    ]
    assert [item.victims[0].unit for item in history_of(records, None, **asked).items] == victims


def test_victim_fields_not_known_are_left_empty() -> None:
    [item] = history_of([record(1, 0, unit("b/x"))], None).items
    assert (item.victims[0].why, item.victims[0].running_seconds, item.victims[0].violates_pdb) == ("", None, False)
