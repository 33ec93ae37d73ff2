"""Pending workloads, in which order and why, by the queue's own words (whatif.md 6)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from reprieve.decisions.outcomes import Help
from reprieve.questions.queue_order import Queue, queue_of
from reprieve.scheduling.decision import Decision
from reprieve.simulation.plan import PlanOptions
from reprieve.simulation.report import Answer
from tests.building import annotated, composite, gang, node, pod
from tests.questions.test_capacity import manifests


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
        ({"cpu": 1, "priority": 6, "selector": {"a": "b"}}, "Constraints", ()),  # not what runs keeps it out
    ],
)
def test_word_for_the_reason_of_waiting(asked: dict[str, Any], why: str, evicts: tuple[str, ...]) -> None:
    """whatif.md 6.2."""
    [one] = queue(node("n1", cpu=4), pod("runs", cpu=3, priority=5, node="n1"), pod("new", **asked)).items
    assert (one.why, one.evicts) == (why, evicts)


def test_without_running_pods_none_is_in_the_way() -> None:
    [one] = queue(node("n1", cpu=4), pod("new", cpu=1, selector={"a": "b"})).items
    assert one.why == "Constraints"


def test_largest_node_and_the_strongest_pod_count() -> None:
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


def test_items_stand_in_the_order_of_trying_with_gated_ones_last() -> None:
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


def test_since_is_null_without_a_creation_time() -> None:
    given = manifests(node("n1", cpu=4), pod("dated", cpu=9), pod("undated", cpu=9))
    given.pods[1].dated = False
    since = {one.name: one.since for one in queue_of(given, PlanOptions()).items}
    assert since == {"dated": "1970-01-01T00:00:01Z", "undated": None}


def test_running_and_placed_pods_are_left_out() -> None:
    assert queue(node("n1", cpu=4), pod("runs", cpu=1, node="n1")).items == ()


@pytest.mark.parametrize(
    ("items", "why", "name"),
    [
        # (the pending pod is the last of them)
        ([pod("low", cpu=4, node="n1", annotations=annotated(minimum_runtime="10m"), start=0)], "Backoff", "new"),
        ([pod("low", cpu=4, node="n1", priority=9)], "Priority", "new"),
    ],
)
def test_pod_waiting_for_a_time_is_in_backoff(items: list[Any], why: str, name: str) -> None:
    """whatif.md 6.2; cost.md 6: a deferred preemption."""
    found = queue(node("n1", cpu=4), *items, pod("new", cpu=4, priority=9 if why == "Priority" else 5)).items
    assert [(one.name, one.why) for one in found] == [(name, why)]


def test_missing_priority_is_none() -> None:
    """whatif.md 6.2: what runs at no priority is as important as a question at none."""
    [one] = queue(node("n1", cpu=1), pod("runs", cpu=1, node="n1", priority=None), pod("new", cpu=1)).items
    assert (one.why, one.priority) == ("Priority", 0)
    [one] = queue(node("n1", cpu=1), pod("runs", cpu=1, node="n1", priority=-5), pod("new", cpu=1, never=True)).items
    assert one.why == "Resources", "what runs is less important, and is not in its way by that"


def test_gated_pods_stand_in_the_order_of_their_creation_then_of_their_names() -> None:
    """whatif.md 6.3: they are not tried; position by since, then kind, namespace and name."""
    late, early, same = (pod(name, gates=["later"]) for name in ("a", "z", "b"))
    given = manifests(node("n1"), early, late, same)
    given.pods[2].created = given.pods[1].created
    assert [one.name for one in queue_of(given, PlanOptions()).items] == ["z", "a", "b"]
    assert [one.position for one in queue_of(given, PlanOptions()).items] == [1, 2, 3]


def test_group_of_a_tree_stands_where_its_tree_does() -> None:
    """whatif.md 6.1: it is tried with all of the tree, before less important ones."""
    tree = [composite("top", min_groups=2, priority=5)]
    leaves = [one for name in ("leaf-b", "leaf-a") for one in gang(name, 2, cpu=3, priority=5, parent="top")]
    found = queue(node("n1", cpu=4), *tree, *leaves, pod("low", cpu=9), pod("top-most", cpu=9, priority=9)).items
    assert [(one.kind, one.name, one.pods) for one in found] == [
        ("Pod", "top-most", 1),
        ("PodGroup", "leaf-b", 2),
        ("PodGroup", "leaf-a", 2),
        ("Pod", "low", 1),
    ]


def test_gang_waits_since_its_first_pod_and_names_its_message() -> None:
    team = gang("team", 2, cpu=9)
    given = manifests(node("n1", cpu=4), *reversed(team))
    [one] = queue_of(given, PlanOptions()).items
    assert (one.since, one.pods) == ("1970-01-01T00:00:01Z", 2)
    assert one.message.startswith("0/1 placements are available")
    assert one.help == ()


def test_pods_without_a_uid_are_found_by_their_name() -> None:
    """As manifests have them: the decision about each is its own."""
    plain = [replace(one, metadata=replace(one.metadata, uid="")) for one in (pod("b", cpu=1), pod("a", cpu=9))]
    found = queue(node("n1", cpu=4), *plain).items
    assert [(one.name, one.why) for one in found] == [("b", "Ready"), ("a", "Resources")]


def test_first_decision_counts_and_other_observers_are_notified() -> None:
    """whatif.md 6.2: how it stands now, not at the end of the plan; `first_decision` of the options changes nothing."""
    seen: list[str] = []

    class Beside:
        def attach(self, engine: Any) -> None:
            seen.append("attached")

        def decided(self, decision: Decision, *, seconds: float, now: float) -> None:
            seen.append(decision.result.value)

    given = manifests(
        node("n1", cpu=4), pod("runs", cpu=4, node="n1"), pod("high", cpu=4, priority=9), pod("next", cpu=4, priority=8)
    )
    plain = queue_of(given, PlanOptions(first_decision=True, observer=Beside())).items
    assert [(one.name, one.why) for one in plain] == [("high", "Preempting"), ("next", "Priority")]
    assert seen[0] == "attached"
    assert len(seen) > 2


def test_help_is_put_beside_pending_workloads() -> None:
    """whatif.md 5.6."""
    hint = Help(kind="Nodes", sentence="one more")

    def helping(answer: Answer) -> Answer:
        document = answer.plan
        pods = tuple(replace(one, help=(hint,)) for one in document.pods)
        groups = tuple(replace(one, help=(hint, hint)) for one in document.pod_groups)
        return Answer(replace(document, pods=pods, pod_groups=groups), answer.account)

    given = manifests(node("n1", cpu=4), pod("big", cpu=9), *gang("team", 2, cpu=9))
    found = queue_of(given, PlanOptions(), helping).items
    assert {one.name: len(one.help) for one in found} == {"big": 1, "team": 2}
