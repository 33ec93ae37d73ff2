"""What a decision to preempt, or not to, states."""

from __future__ import annotations

from typing import cast

import pytest

from reprieve.cluster.pods import PodRecord
from reprieve.preemption.outcome import (
    MissingAmount,
    Preemption,
    Reason,
    UnhelpfulPreemption,
    UnhelpfulReason,
    Verdict,
    scarcest_first,
)
from tests.building import World, gang, group, node, pod
from tests.preemption.by_name import units_of


def _outside() -> World:
    return World(
        node("n1", cpu=9),
        node("n2", cpu=9),
        *gang("w", 1, node="n1", whole=True),
        pod("w-1", node="n2", group="w"),
        pod("a", node="n1"),
        pod("b", node="n2"),
        pod("high", priority=100),
    )


def test_scarcest_resource_is_named_first() -> None:
    """By the share of what is asked for; extended resources before those that all nodes have; by name."""
    missing = [
        MissingAmount("cpu", 1, 2),
        MissingAmount("memory", 3, 4),
        MissingAmount("a.com/x", 1, 2),
        MissingAmount("z.com/y", 1, 2),
        MissingAmount("ephemeral-storage", 1, 2),
        MissingAmount("pods", 1, 2),
    ]
    assert [one.resource for one in scarcest_first(missing)] == [
        "memory",
        "a.com/x",
        "z.com/y",
        "cpu",
        "ephemeral-storage",
        "pods",
    ]
    record = cast("PodRecord", None)
    reason = Reason(record, 0, "NodeResourcesFit", "", scarcest_first(missing))
    assert (reason.resource, reason.short) == ("memory", 3)
    assert (Reason(record, 0, "NodePorts", "").resource, Reason(record, 0, "NodePorts", "").short) == ("", 0)


def test_decision_counts_evicted_and_remaining_units() -> None:
    world = _outside()
    high = world.record("high")
    reason = Reason(high, 0, "NodeResourcesFit", "")
    units = units_of(world)
    verdicts = (Verdict(units["w"], True, reason), Verdict(units["a"], True, None), Verdict(units["b"], False, reason))
    made = Preemption(high, None, 100, "n1", ((high, 0),), verdicts)
    assert [verdict.unit.name for verdict in made.victims] == ["default/w", "default/b"]
    assert (made.reprieved, made.pdb_violations) == (1, 1)
    assert (made.kind, made.ref, made.candidates, made.compared) == ("pod", "pod/uid-high", 1, None)
    whole = world.engine.cluster.groups["default/w"]
    of_group = Preemption(None, whole, 100, "cluster", (), verdicts)
    assert (of_group.kind, of_group.ref) == ("podgroup", whole.ref)
    assert Preemption(None, None, 0, "", (), ()).ref == ""


@pytest.mark.parametrize("why", list(UnhelpfulReason))
def test_victims_were_searched_for_unless_it_was_out_of_the_question(why: UnhelpfulReason) -> None:
    world = _outside()
    unhelpful = UnhelpfulPreemption(world.engine.cluster.groups["default/w"], why)
    assert unhelpful.attempted is (why not in (UnhelpfulReason.POLICY_NEVER, UnhelpfulReason.UNDER_WAY))


@pytest.mark.parametrize(
    ("least", "spared", "remains", "left_over"),
    [
        (1, ["default/g-0"], [], []),
        (2, [], ["default/g-0"], ["g-0"]),
        (3, [], ["default/g-0"], []),
    ],
    ids=["has enough", "breaks", "was broken before"],
)
def test_what_is_left_of_a_broken_gang_is_not_spared(
    least: int, spared: list[str], remains: list[str], left_over: list[str]
) -> None:
    """preemption.md 5: its pods keep running, and their work is lost with that of the victim."""
    crew = [pod(f"g-{turn}", cpu=2, node="n1", group="g", start=turn) for turn in range(2)]
    world = World(node("n1", cpu=4), group("g", min_count=least), *crew, pod("high", cpu=2, priority=9))
    made = world.step().preemption
    assert made is not None
    assert [verdict.unit.name for verdict in made.victims] == ["default/g-1"]
    assert [verdict.unit.name for verdict in made.verdicts if not verdict.evicted] == spared
    assert [unit.name for unit in made.remains] == remains
    assert [left.name for left in made.left_over] == left_over
