"""The condition PodGroupSatisfied: written when it changes, and once (repair.md 3)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from reprieve.client.errors import UnreachableError
from reprieve.scheduling.decision import GroupCondition
from reprieve.scheduling.gang_health import Satisfaction
from tests.live.scene import Scene, run

Json = dict[str, Any]
SINCE = "2026-01-01T00:16:40Z"
MOMENT = 1767226600.0
"""The same, in seconds since the epoch."""


def state(scheduled: int, since: float = MOMENT) -> Satisfaction:
    return Satisfaction("default/g", scheduled, 0, 3, since)


def said(status: str, message: str, since: str = SINCE) -> Json:
    reason = "MinCountSatisfied" if status == "True" else "BelowMinCount"
    return {
        "type": "PodGroupSatisfied",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
        "observedGeneration": 1,
    }


def written(scene: Scene) -> list[Json]:
    return [condition for _, condition, _ in scene.writes.groups if condition["type"] == "PodGroupSatisfied"]


BROKEN = said("False", "2 of 3 members scheduled", since="2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("before", "wished", "patches"),
    [
        ([], [3], [said("True", "3 of 3 members scheduled")]),
        ([], [3, 4], [said("True", "3 of 3 members scheduled")]),
        ([BROKEN], [2], []),
        ([BROKEN], [1], [said("False", "1 of 3 members scheduled", since="2026-01-01T00:00:00Z")]),
        ([BROKEN], [3, 2], [said("True", "3 of 3 members scheduled"), said("False", "2 of 3 members scheduled")]),
    ],
    ids=["first", "more than its minimum", "as before a restart", "fewer still", "there and back"],
)
def test_what_is_written(before: list[Json], wished: list[int], patches: list[Json]) -> None:
    """repair.md 3.1, 3.2, 3.3"""

    async def test(scene: Scene) -> None:
        scene.group(count=3, status={"conditions": before})
        for number in wished:
            scene.conditions.satisfied.wish(state(number))
            await scene.conditions.drain()
            scene.group(count=3, status={"conditions": before})  # what the informer brings may be older
        assert written(scene) == patches

    run(test)


def test_goes_out_with_the_first_scheduling() -> None:
    """repair.md 3.2"""

    async def test(scene: Scene) -> None:
        scene.group(count=3)
        scene.writes.hold = True
        scene.conditions.group(GroupCondition("default/g", True, "Scheduled", ""))
        scene.conditions.satisfied.wish(state(3))
        await asyncio.sleep(0)
        assert [condition["type"] for _, condition, _ in scene.writes.groups] == [
            "PodGroupInitiallyScheduled",
            "PodGroupSatisfied",
        ]
        assert len(scene.writes.held) == 1
        for number in (2, 1):  # what is wished meanwhile comes together
            scene.conditions.satisfied.wish(state(number))
        scene.writes.hold = False
        scene.writes.held[0].set_result(None)
        await scene.conditions.drain()
        assert written(scene)[1:] == [said("False", "1 of 3 members scheduled")]

    run(test)


def test_failed_call_is_tried_again() -> None:
    """repair.md 3.2"""

    async def test(scene: Scene) -> None:
        scene.group(count=3)
        scene.writes.errors = [UnreachableError("cut")]
        scene.conditions.satisfied.wish(state(2))
        await scene.conditions.drain()
        assert scene.troubles
        scene.conditions.waiting(scene.engine, scene.now)
        await scene.conditions.drain()
        assert written(scene) == [said("False", "2 of 3 members scheduled")] * 2
        scene.conditions.forget_group("group/default/g")
        scene.conditions.satisfied.wish(state(3))
        await scene.conditions.drain()
        assert len(written(scene)) == 2

    run(test)
