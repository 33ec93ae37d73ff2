"""The order in which a group's pods are tried, and the result of those that were not (scheduling.md 3.1, 3.2)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from reprieve.cluster.groups import GroupState
from reprieve.framework.status import SUCCESS, Code, Status
from reprieve.preemption.outcome import GROUP_UNSCHEDULABLE
from reprieve.scheduling.decision import Result
from reprieve.scheduling.group_algorithm import progress, scheduling_order
from tests.building import World, group, node, pod
from tests.plugins.neighbours import HOST, rules, term


@pytest.mark.parametrize(
    ("asked", "order"),
    [
        ([("a", 1, 0), ("b", 1, 5), ("c", 1, 9)], "cba"),
        ([("a", 1, 0), ("b", 2, 0), ("c", 1, 0), ("d", 2, 0)], "acbd"),
        ([("a", 2, 0), ("b", 1, 0), ("c", 2, 0)], "acb"),
        ([("a", 1, 0), ("b", 1, 5), ("c", 1, 0), ("d", 2, 5)], "bdac"),  # alike, but not of one priority
        ([("a", 2, 5), ("b", 1, 5), ("c", 1, 0), ("d", 2, 0), ("e", 1, 5)], "abecd"),
        ([], ""),
    ],
)
def test_members_go_by_priority_then_creation_and_identical_ones_together(
    asked: list[tuple[str, int, int]], order: str
) -> None:
    """scheduling.md 3.1: identical pods next to each other, at the turn of the first of them."""
    world = World(node("n"), *[pod(name, cpu=cpu, priority=priority) for name, cpu, priority in asked])
    pods = list(world.engine.cluster.pods.values())
    assert "".join(one.name for one in scheduling_order(pods[::-1])) == order


def test_those_that_were_not_tried_fail_like_the_one_that_was_unless_a_rule_is_about_them() -> None:
    """scheduling.md 3.2: identical pods of one that failed fail too, and say why; the others are part of the group.

    One between them is kept away by a pod that runs: of it nothing is known.
    """
    nodes = [node("n", cpu=1, labels={HOST: "n"})]
    guard = pod("guard", node="n", affinity=rules(apart=[term(HOST, {"app": "x"})]))
    members = [pod(f"m{turn}", cpu=9, group="crew", labels={"app": "x"} if turn == 1 else {}) for turn in range(3)]
    members.append(pod("m3", cpu=8, group="crew"))
    world = World(*nodes, guard, group("crew", min_count=4), *members)
    decision = world.step()
    assert decision.result is Result.UNSCHEDULABLE
    said = {rejection.pod.name: rejection.message for rejection in decision.rejections}
    assert said["m0"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert said["m2"] == said["m0"]
    assert said["m1"] == said["m3"] == GROUP_UNSCHEDULABLE


WAIT = Status(Code.WAIT, "wait")


NO = Status(Code.UNSCHEDULABLE, "no")


NEVER = Status(Code.UNSCHEDULABLE, "never")


@pytest.mark.parametrize(
    ("answers", "expected", "asked"),
    [
        ([], SUCCESS, 0),
        ([SUCCESS, SUCCESS], SUCCESS, 2),
        ([WAIT, SUCCESS], WAIT, 2),
        ([SUCCESS, NO, WAIT], NO, 2),
        ([WAIT, NO, NEVER], NO, 2),
    ],
)
def test_answers_of_several_placement_feasible_plugins(answers: list[Status], expected: Status, asked: int) -> None:
    """scheduling.md 3.2: a plugin that reports it as unreachable ends it; otherwise the next is asked."""
    said: list[Status] = []

    def plugin(answer: Status) -> Any:
        def feasible(_group: GroupState, *, scheduled: int, remaining: int) -> Status:
            assert (scheduled, remaining) == (1, 2)
            said.append(answer)
            return answer

        return SimpleNamespace(name="Stub", feasible=feasible)

    profile: Any = SimpleNamespace(placement_feasible=[plugin(answer) for answer in answers])
    assert progress(profile, GroupState("default/g"), 1, 2) is expected
    assert len(said) == asked
