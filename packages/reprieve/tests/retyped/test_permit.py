"""Preemption of a pod that waits on Permit: the cases of kube-scheduler's own tests, written again, on a whole cluster.

Source: kubernetes/kubernetes, TestPreemptWithPermitPlugin in test/integration/scheduler/plugins.  How often a pod is
tried is not counted: a plugin that lets a pod wait is asked again until it has decided.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from reprieve.framework.plugin import CycleState, PermitPlugin
from reprieve.framework.profile import Profile
from reprieve.framework.status import SUCCESS, Code, Status
from tests.building import profile_with
from tests.live.test_app import NAME, PODS, cluster, condition

Json = dict[str, Any]


class Door(PermitPlugin):
    """Lets the pod `waiting` wait."""

    name = "Door"

    def __init__(self) -> None:
        self.asked = False

    def permit(self, state: CycleState, row: int) -> Status:
        """See `PermitPlugin.permit`."""
        if state.pod.name != "waiting":
            return SUCCESS
        self.asked = True
        return Status(Code.WAIT)


@pytest.mark.parametrize("beside", [True, False], ids=["a running pod leaves as well", "it alone makes room"])
def test_preempted_pod_that_waits_is_not_deleted(beside: bool) -> None:
    """preemption.md 7.2: it is released and tried again; pods that run are deleted."""
    door = Door()

    async def run() -> None:
        async with cluster() as world:
            await world.priority("high", 300)
            await world.node("n0", 5)
            profile = profile_with(door)
            own = Profile(NAME, profile.plugins, profile.score_weights)
            async with world.scheduling(profiles={NAME: own}):
                if beside:
                    await world.pod("running", 2, terminationGracePeriodSeconds=0)
                    await world.until(lambda pods: pods["running"]["spec"].get("nodeName"))
                await world.pod("waiting", 2 if beside else 4)
                await world.until(lambda _: door.asked)
                await world.pod("preemptor", 4, priority="high")
                pods = await world.until(lambda pods: pods["preemptor"]["spec"].get("nodeName") and pods)
                pods = await world.until(lambda pods: condition(pods["waiting"]).get("reason") == "Unschedulable")
                assert set(pods) == {"waiting", "preemptor"}
                waiting = pods["waiting"]
                assert not waiting["spec"].get("nodeName")
                assert "deletionTimestamp" not in waiting["metadata"]
                assert condition(waiting, "DisruptionTarget") == {}

    asyncio.run(run())


def test_waiting_pod_that_is_deleted_makes_room_at_once() -> None:
    """scheduling.md 7.3: for a pod that may not preempt it."""
    door = Door()

    async def run() -> None:
        async with cluster() as world:
            await world.node("n0", 5)
            profile = profile_with(door)
            own = Profile(NAME, profile.plugins, profile.score_weights)
            async with world.scheduling(profiles={NAME: own}):
                await world.pod("waiting", 4)
                await world.until(lambda _: door.asked)
                await world.pod("equal", 4)
                await world.until(lambda pods: condition(pods["equal"]).get("reason") == "Unschedulable")
                await world.delete(f"{PODS}/waiting")
                await world.until(lambda pods: pods["equal"]["spec"].get("nodeName"))

    asyncio.run(run())
