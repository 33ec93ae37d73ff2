"""Who waits, in which order and why, by the queue's own words (whatif.md 6)."""

from __future__ import annotations

from typing import Any

import pytest

from reprieve.simulation.plan import PlanOptions
from reprieve.simulation.whatif.queue_order import Queue, queue_of
from tests.building import gang, node, pod
from tests.simulation.test_capacity import manifests


def queue(*items: Any) -> Queue:
    return queue_of(manifests(*items), PlanOptions())


@pytest.mark.parametrize(
    ("asked", "why", "evicts"),
    [
        ({"cpu": 1}, "Ready", ()),
        ({"cpu": 2, "priority": 6}, "Preempting", ("default/runs",)),
        ({"cpu": 2, "priority": 5}, "Priority", ()),  # what runs is as important
        ({"cpu": 2, "priority": 0}, "Priority", ()),
        ({"cpu": 4, "priority": 0}, "Priority", ()),  # a node is large enough
        ({"cpu": 5, "priority": 0}, "Resources", ()),  # and no longer
        ({"cpu": 5, "priority": 6}, "Resources", ()),
        ({"cpu": 1, "gpu": 1}, "Resources", ()),
        ({"cpu": 1, "priority": 6, "selector": {"a": "b"}}, "Resources", ()),  # not who runs keeps it out
    ],
)
def test_the_word_for_why_somebody_waits(asked: dict[str, Any], why: str, evicts: tuple[str, ...]) -> None:
    """whatif.md 6.2."""
    [one] = queue(node("n1", cpu=4), pod("runs", cpu=3, priority=5, node="n1"), pod("new", **asked)).items
    assert (one.why, one.evicts) == (why, evicts)


def test_where_nobody_runs_nobody_is_in_the_way() -> None:
    [one] = queue(node("n1", cpu=4), pod("new", cpu=1, selector={"a": "b"})).items
    assert one.why == "Resources"


def test_the_largest_node_and_the_strongest_pod_count() -> None:
    there = [node("n1", cpu=2), node("n2", cpu=6), node("n3", cpu=1)]
    running = [
        pod("a", cpu=2, priority=1, node="n1"),
        pod("b", cpu=6, priority=7, node="n2"),
        pod("c", cpu=1, node="n3"),
    ]
    words = {
        one.name: one.why for one in queue(*there, *running, pod("six", cpu=6, priority=7), pod("more", cpu=7)).items
    }
    assert words == {"six": "Priority", "more": "Resources"}


def test_they_stand_in_the_order_of_trying_and_who_is_gated_comes_last() -> None:
    """whatif.md 6.3, 6.5: by priority, then by how long they wait; a gang is one, since its first pod."""
    waiting = [
        pod("held", cpu=9, priority=99, gates=["later"]),
        pod("young", cpu=9, priority=3),
        *gang("team", 2, cpu=9, priority=5),
        pod("low", cpu=9, priority=0),
        pod("younger", cpu=9, priority=3),
    ]
    found = queue(node("n1", cpu=4), *waiting).items
    assert [(one.position, one.kind, one.name, one.pods, one.priority) for one in found] == [
        (1, "PodGroup", "team", 2, 5),
        (2, "Pod", "young", 1, 3),
        (3, "Pod", "younger", 1, 3),
        (4, "Pod", "low", 1, 0),
        (5, "Pod", "held", 1, 99),
    ]
    assert [one.why for one in found] == ["Resources"] * 4 + ["Gated"]
    assert [one.since for one in found][1:3] == ["1970-01-01T00:00:02Z", "1970-01-01T00:00:07Z"]
    assert found[0].since == "1970-01-01T00:00:04Z"


def test_since_is_told_only_of_what_is_dated() -> None:
    given = manifests(node("n1", cpu=4), pod("dated", cpu=9), pod("undated", cpu=9))
    given.pods[1].dated = False
    since = {one.name: one.since for one in queue_of(given, PlanOptions()).items}
    assert since == {"dated": "1970-01-01T00:00:01Z", "undated": None}


def test_who_runs_or_is_placed_elsewhere_is_not_in_it() -> None:
    assert queue(node("n1", cpu=4), pod("runs", cpu=1, node="n1")).items == ()
