"""Which preemptors may not preempt now (preemption.md 2)."""

from __future__ import annotations

from typing import Any

import pytest

from reprieve.preemption.eligibility import group_never_preempts, ineligible
from reprieve.preemption.outcome import (
    NEVER,
    TERMINATING,
)
from tests.building import World, group, node, pod


@pytest.mark.parametrize(
    ("never", "under_way", "rows", "why"),
    [
        (False, False, [], None),
        (True, True, [0], NEVER),
        (False, True, [], TERMINATING),
        (False, False, [0], TERMINATING),
        (False, False, [1], None),
        (False, False, [1, 0], TERMINATING),
    ],
)
def test_preemptors_that_are_not_eligible(never: bool, under_way: bool, rows: list[int], why: str | None) -> None:
    """preemption.md 2.2, 2.3."""
    leaving: dict[str, Any] = {"terminating": True, "preempted": True}
    world = World(node("n1"), node("n2"), pod("a", node="n1", **leaving), pod("b", node="n2", priority=9, **leaving))
    at = [world.row(f"n{1 + row}") for row in rows]
    assert ineligible(world.engine.cluster, 9, never, at, under_way=under_way) == why


def test_member_that_is_leaving_forbids_nothing() -> None:
    """preemption.md 2.2: the members' policies count where the group has none, those that stay."""
    members = [pod(f"m{i}", node="n", group="g", never=i == 0, terminating=i == 0) for i in range(2)]
    world = World(node("n"), group("g", min_count=2), *members)
    assert not group_never_preempts(world.engine.cluster.groups["default/g"], group_policy=True)
    world.add(pod("m2", group="g", never=True))
    assert group_never_preempts(world.engine.cluster.groups["default/g"], group_policy=True)
