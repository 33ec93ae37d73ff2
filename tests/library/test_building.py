"""Clusters made in Python: what each call adds, what it leaves to defaults, and what is built of it.

Also numbers in words, tables in HTML, and the records of who waits.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from reprieve.library import waiting
from reprieve.library.building import ClusterBuilder
from reprieve.library.helping import helps_of
from reprieve.library.tables import MOST_ROWS, Table, html
from reprieve.library.wording import count, seconds_text
from reprieve.observability.records import DecisionRecord, Members, Ref, Timings


def test_a_node_has_room_for_pods_unless_it_says_otherwise() -> None:
    taint = {"key": "k", "effect": "NoSchedule"}
    built = (
        ClusterBuilder()
        .add_node("n1", {"cpu": "4"})
        .add_node("n2", {"cpu": 2, "pods": 5}, labels={"a": "b"}, taints=[taint], unschedulable=True)
        .build()
    )
    first, second = (one.object for one in built.manifests.nodes)
    assert {name: str(amount) for name, amount in first.status.allocatable.items()} == {"pods": "110", "cpu": "4"}
    assert (first.spec.unschedulable, first.spec.taints, first.metadata.labels) == (False, (), {})
    assert {name: str(amount) for name, amount in second.status.allocatable.items()} == {"pods": "5", "cpu": "2"}
    assert (second.spec.unschedulable, second.metadata.labels) == (True, {"a": "b"})
    assert [(each.key, each.effect) for each in second.spec.taints] == [("k", "NoSchedule")]


def test_a_pod_waits_unless_it_is_on_a_node() -> None:
    built = (
        ClusterBuilder()
        .add_node("n1", {"cpu": "4"})
        .add_pod("plain")
        .add_pod(
            "full",
            namespace="team",
            requests={"cpu": "1"},
            priority=7,
            node="n1",
            labels={"a": "b"},
            spec={"hostNetwork": True},
        )
        .build()
    )
    plain, full = (one.object for one in built.manifests.pods)
    assert (plain.namespace, plain.spec.node_name, plain.status.phase) == ("default", "", "Pending")
    assert (plain.metadata.labels, plain.spec.containers[0].resources.requests) == ({}, {})
    assert not plain.spec.priority
    assert (full.namespace, full.spec.node_name, full.status.phase) == ("team", "n1", "Running")
    assert (full.metadata.labels, full.spec.priority, full.spec.host_network) == ({"a": "b"}, 7, True)
    assert {name: str(amount) for name, amount in full.spec.containers[0].resources.requests.items()} == {"cpu": "1"}


def test_a_group_is_basic_unless_it_has_a_minimum() -> None:
    built = (
        ClusterBuilder()
        .add_group("basic")
        .add_group("gang", namespace="team", min_count=2, priority=7, disrupt_all=True)
        .add_pod("p", group="basic")
        .build()
    )
    basic, gang = (one.object for one in built.manifests.pod_groups)
    assert (basic.namespace, basic.min_count) == ("default", None)
    assert basic.spec.disruption_mode is not None
    assert basic.spec.disruption_mode.all is None
    assert (gang.namespace, gang.min_count, gang.spec.priority) == ("team", 2, 7)
    assert gang.spec.disruption_mode is not None
    assert gang.spec.disruption_mode.all is not None
    [pod] = (one.object for one in built.manifests.pods)
    assert pod.spec.scheduling_group is not None
    assert pod.spec.scheduling_group.pod_group_name == "basic"


def test_objects_are_named_by_their_number_in_errors() -> None:
    """From 1; nothing is checked before something is built."""
    builder = ClusterBuilder().add({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}).add("kind: [")
    with pytest.raises(Exception, match="<object 2>"):
        builder.build()


# -- what would help -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("placed", "scheduled", "minimum", "result", "helps"),
    [
        (3, 0, 4, "Unschedulable", 3),
        (2, 1, 4, "Unschedulable", 3),
        (4, 0, 4, "Unschedulable", None),
        (5, 0, 4, "Unschedulable", None),
        (0, 3, 4, "Unschedulable", None),  # none of those tried has a place: a lower minimum is the one there is
        (0, 0, 4, "Unschedulable", None),
        (3, 0, 4, "Error", None),
    ],
)
def test_a_lower_minimum_helps_where_some_have_a_place(
    placed: int, scheduled: int, minimum: int, result: str, helps: int | None
) -> None:
    members = Members(tried=4, placed=placed, min_count=minimum, already_scheduled=scheduled)
    found = helps_of(
        DecisionRecord(
            id=1,
            time="",
            entity=Ref(kind="PodGroup", namespace="default", name="g"),
            result=result,
            message="",
            attempt=1,
            timings=Timings(attempt_seconds=0.0, waiting_seconds=0.0),
            members=members,
        )
    )
    lower = [one for one in found if one.kind == "MinCount"]
    assert [one.min_count for one in lower] == ([helps] if helps is not None else [])
    for one in lower:
        assert one.sentence == f"With minCount {helps} instead of {minimum} it could start: so many have a place."


# -- words ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (0.001, "0.001 s"),
        (1.5, "1.5 s"),
        (30, "30 s"),
        (59, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (119.4, "1 min 59 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h"),
        (3601, "1 h"),
        (3660, "1 h 1 min"),
        (86_399, "23 h 59 min"),
        (86_400, "1 d"),
        (90_000, "1 d 1 h"),
        (86_400 + 60, "1 d"),
    ],
)
def test_times_are_told_in_their_two_largest_units(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(("number", "text"), [(0, "0 pods"), (1, "1 pod"), (2, "2 pods")])
def test_one_is_not_several(number: int, text: str) -> None:
    assert count(number, "pod") == text


@pytest.mark.parametrize(("rows", "more"), [(0, ""), (1, ""), (50, ""), (51, "<p>... and 1 more</p>")])
def test_a_table_has_at_most_fifty_rows_and_nobodys_markup(rows: int, more: str) -> None:
    cells: list[Any] = ["<b>", 1, None]
    table = Table(("<a>", "b", "c"), [tuple(cells)] * rows)
    found = html("<t>", table)
    assert MOST_ROWS == 50
    if not rows:
        assert found == ""
        return
    assert found.count("<tr><td>&lt;b&gt;</td><td>1</td><td></td></tr>") == min(rows, 50)
    assert found.startswith("<h4>&lt;t&gt;</h4><table><thead><tr><th>&lt;a&gt;</th><th>b</th><th>c</th></tr></thead>")
    assert found.endswith(f"</table>{more}")


# -- records of who waits ------------------------------------------------------------------------------------------


def rejected(number: int, name: str) -> DecisionRecord:
    return DecisionRecord(
        id=number,
        time="",
        entity=Ref(kind="Pod", namespace="default", name=name),
        result="Unschedulable",
        message="",
        attempt=number,
        timings=Timings(attempt_seconds=0.0, waiting_seconds=0.0),
    )


def test_the_last_record_of_each_is_kept_of_the_last_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever was tried again counts as of then."""
    monkeypatch.setattr(waiting, "MOST_RECORDS", 2)
    kept = waiting.WaitingRecords()
    assert kept.next_id() == 1
    for number, name in enumerate(("a", "b", "a", "c"), 1):
        kept.put(rejected(number, name), ())
    found = {name: kept.of("Pod", "default", name) for name in "abc"}
    assert {name: one.attempt if one is not None else None for name, one in found.items()} == {
        "a": 3,
        "b": None,
        "c": 4,
    }
    assert kept.of("PodGroup", "default", "a") is None
    assert asyncio.run(kept.find("Pod", "default", "a")) == [found["a"]]
    assert asyncio.run(kept.find("Pod", "default", "b")) == []
    assert kept.hints(("Pod", "default", "a")) == kept.hints(("Pod", "default", "b")) == []
