"""Groups and trees: what is read of their objects, when one is ready, how many pods it needs, what is below it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kube_rules.admission import PREEMPTION_PRIORITY
from reprieve.cluster.groups import (
    GroupState,
    all_below,
    composite_spec_of,
    disrupted_with,
    fewest_pods,
    is_ready,
    running_below,
    spec_of,
    turn_of,
)
from reprieve.cluster.state import ClusterState
from tests.building import World, composite, group, node, pod

replace = msgspec.structs.replace


def test_group_fields_that_scheduling_reads() -> None:
    """api.md, composite.md 1: a priority that is not set counts as 0, and no pod can conflict with it."""
    plain = spec_of(group("g", priority=None))
    assert (plain.min_count, plain.disrupt_all, plain.priority, plain.has_priority) == (None, False, 0, False)
    assert (plain.preemption_policy, plain.topology_key, plain.class_name, plain.names_class) == (None, None, "", False)
    assert (plain.victim_priority, plain.claims, plain.parent, plain.workload, plain.foreign) == (
        0,
        frozenset(),
        None,
        "",
        None,
    )
    everything: dict[str, Any] = {"policy": "Never", "topology": "rack", "parent": "top", "namespace": "team"}
    full = spec_of(group("g", min_count=3, priority=7, priority_class="high", whole=True, workload="w", **everything))
    assert (full.min_count, full.disrupt_all, full.priority, full.has_priority) == (3, True, 7, True)
    assert (full.preemption_policy, full.topology_key, full.class_name, full.names_class) == (
        "Never",
        "rack",
        "high",
        True,
    )
    assert (full.victim_priority, full.parent, full.workload) == (7, "team/top", "w")
    assert spec_of(group("g", parent="top", namespace="")).parent == "default/top"
    assert spec_of(group("g", parent="top"), trees=False).parent is None
    above = composite_spec_of(composite("c", min_groups=2, priority=4, whole=True, **{**everything, "namespace": "n"}))
    assert (above.min_count, above.disrupt_all, above.priority, above.victim_priority) == (2, True, 4, 4)
    assert (above.preemption_policy, above.topology_key, above.parent) == ("Never", "rack", "n/top")
    assert above.workload == "workload"
    bare = composite_spec_of(composite("c", priority=None))
    assert (bare.min_count, bare.disrupt_all, bare.priority, bare.has_priority) == (None, False, 0, False)
    assert (bare.victim_priority, bare.preemption_policy, bare.topology_key, bare.parent) == (0, None, None, None)


@pytest.mark.parametrize(
    ("text", "priority", "counts"),
    [
        ("9", 5, 9),
        ("5", 5, 5),
        ("4", 5, 5),
        ("-3", -9, -3),
        ("-9", -3, -3),
        ("", -3, -3),
        ("much", 5, 5),
        ("9.5", 5, 5),
        ("9999999999", 5, 9999999999),
        ("99999999999", 5, 5),
        ("9 ", 5, 5),
        ("", -(1 << 31), -(1 << 31)),
    ],
)
def test_priority_that_counts_when_a_group_is_a_victim(text: str, priority: int, counts: int) -> None:
    """preemption.md 4, "Options": the resolved annotation, never below the group's own; no number says nothing."""
    spec = spec_of(group("g", priority=priority, annotations={PREEMPTION_PRIORITY: text} if text else {}))
    assert (spec.victim_priority, spec.priority) == (counts, priority)


def _group(name: str, min_count: int | None, *, existing: int = 0, scheduled: int = 0) -> GroupState:
    state = GroupState(f"default/{name}")
    state.spec = spec_of(group(name, min_count=min_count))
    state.existing, state.scheduled = existing, scheduled
    return state


@pytest.mark.parametrize(
    ("min_count", "known", "ready"),
    [(None, 0, False), (None, 1, True), (1, 0, False), (1, 1, True), (3, 2, False), (3, 3, True), (3, 4, True)],
)
def test_when_a_group_is_ready(min_count: int | None, known: int, ready: bool) -> None:
    """composite.md 2.4: a gang's minimum, and one pod at least."""
    assert is_ready(_group("g", min_count), lambda leaf: known) is ready


@pytest.mark.parametrize(
    ("min_count", "scheduled", "more"), [(None, 0, 1), (None, 1, 0), (3, 0, 3), (3, 2, 1), (3, 3, 0), (3, 5, 0)]
)
def test_how_many_more_pods_a_group_needs(min_count: int | None, scheduled: int, more: int) -> None:
    """composite.md 3.3"""
    assert fewest_pods(_group("g", min_count, scheduled=scheduled)) == more


def test_how_many_more_pods_a_tree_needs() -> None:
    """composite.md 3.3: the children with the fewest, as many as the composite needs."""

    def needs(min_groups: int | None) -> int:
        state = ClusterState()
        state.set_composite(composite("top", min_groups=min_groups))
        for name, count in (("a", 4), ("b", 2), ("c", 3)):
            state.set_group(group(name, min_count=count, parent="top"))
        return fewest_pods(state.trees.composites["default/top"])

    assert [needs(number) for number in (None, 1, 2, 3, 4)] == [2, 2, 5, 9, 9]


def test_children_in_turn() -> None:
    """composite.md 2.3: by creation, ties by name, a pod group after a composite of the same name and age."""
    old, young = _group("z", 1), _group("a", 1)
    young.created = 1.0
    same = _group("b", 1)
    same.created = 1.0
    assert sorted([same, young, old], key=turn_of) == [old, young, same]
    assert turn_of(old) == (0.0, "z", "group/default/z")


def test_members_below_a_group() -> None:
    """composite.md 4.3: parents first, in turn; and of these the ones that are disrupted with the unit."""
    world = World(
        (composite("top", whole=True), 1.0),
        (composite("left", parent="top"), 2.0),
        (composite("right", parent="top"), 3.0),
        (group("l1", min_count=1, parent="left"), 4.0),
        (group("l2", min_count=1, parent="left"), 5.0),
        (group("r", min_count=1, parent="right"), 6.0),
        node("n"),
        pod("a", group="l1", node="n"),
        pod("b", group="r", node="n"),
        pod("c", group="r"),
    )
    state = world.engine.cluster
    top = state.trees.composites["default/top"]
    assert [one.name for one in all_below(top)] == ["top", "left", "l1", "l2", "right", "r"]
    assert [one.name for one in all_below(top, lambda one: one.name != "left")] == ["top", "right", "r"]
    assert [one.name for one in all_below(top, lambda one: False)] == ["top"], "itself in any case"
    assert [one.name for one in disrupted_with(top)] == ["top", "left", "l1", "l2", "right", "r"]
    assert sorted(one.name for one in running_below(all_below(top))) == ["a", "b"]
    assert sorted(one.name for one in top.running()) == ["a", "b"]
    assert [one.name for one in top.pending()] == ["c"]
    assert (top.scheduled, top.existing, len(top.members)) == (2, 3, 3)
    assert [leaf.name for leaf in top.leaves()] == ["l1", "l2", "r"]
    right = state.groups["default/r"]
    assert ([one.name for one in right.running()], [one.name for one in right.pending()]) == (["b"], ["c"])
    assert (right.is_gang, right.min_count, top.is_gang, top.min_count) == (True, 1, False, 0)
    world.engine.mark_terminating("uid-c", world.now)
    assert (right.pending(), right.existing, len(right.members)) == ([], 1, 2)
    missing = GroupState("default/none")
    assert (missing.is_gang, missing.min_count, list(missing.children)) == (False, 0, [])
