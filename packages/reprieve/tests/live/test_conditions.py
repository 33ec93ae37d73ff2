"""What pods and groups say of their scheduling: once per change, in order, and never after the fact.

observability.md "Conditions"; kube-scheduler's `UpdatePodCondition` for transition times; KEP-5501 for gated pods.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from typing import Any

import msgspec
import pytest

from kube_rules import objects as o
from kube_rules.foreign_groups import VOLCANO_VERSION, ForeignGroup
from kube_rules.meta import ObjectMeta
from reprieve.client.discovery import Resource
from reprieve.client.errors import ApiError, UnreachableError
from reprieve.client.leader_election import LeadershipLostError
from reprieve.scheduling.decision import (
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    Decision,
    GroupCondition,
    Rejection,
    Result,
)
from tests.client.clock import START
from tests.live.faults import pod
from tests.live.scene import Scene, run

Json = dict[str, Any]


def unscheduled(message: str, reason: str = UNSCHEDULABLE, since: str = "2026-01-01T00:00:00Z") -> Json:
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
    }


NOW = "2026-01-01T00:16:40Z"  # FakeClock begins at 1000 s


@pytest.mark.parametrize(
    ("before", "reason", "patch"),
    [
        ([], ("Unschedulable", "m"), unscheduled("m", since=NOW)),
        ([unscheduled("m")], ("Unschedulable", "m"), None),
        ([unscheduled("old")], ("Unschedulable", "m"), unscheduled("m")),
        ([unscheduled("m")], ("SchedulerError", "m"), unscheduled("m", "SchedulerError")),
        ([unscheduled("m") | {"status": "True"}], ("Unschedulable", "m"), unscheduled("m", since=NOW)),
    ],
)
def test_rejection_is_written_when_reason_or_message_is_new(
    before: list[Json], reason: tuple[str, str], patch: Json | None
) -> None:
    """lastTransitionTime is that of the status, not of the message (podutil.UpdatePodCondition)."""

    async def test(scene: Scene) -> None:
        found = scene.pod(status={"conditions": before})
        scene.conditions.rejected(Rejection(found, *reason))
        await scene.conditions.drain()
        assert scene.writes.pods == ([("uid-a", {"conditions": [patch]})] if patch is not None else [])

    run(test)


def test_condition_has_the_generation_that_was_observed() -> None:
    """observability.md 1.6: observedGeneration where the API counts generations; a new one alone is not written."""

    async def test(scene: Scene) -> None:
        found = scene.pod(generation=3)
        scene.conditions.rejected(Rejection(found, UNSCHEDULABLE, "m"))
        await scene.conditions.drain()
        scene.pod(generation=4, status={"conditions": [unscheduled("m", since=NOW)]})
        scene.conditions.rejected(Rejection(found, UNSCHEDULABLE, "m"))
        await scene.conditions.drain()
        [(_, patch)] = scene.writes.pods
        assert patch["conditions"][0]["observedGeneration"] == 3

    run(test)


def test_one_decision_is_one_patch_per_pod() -> None:
    """observability.md 1.8: condition and nomination in one patch; a pod without its nomination gets a condition."""

    async def test(scene: Scene) -> None:
        found = scene.pod("a")
        other = scene.pod("b", status={"nominatedNodeName": "n1"})
        never = scene.pod("c")
        rejection = Rejection(found, UNSCHEDULABLE, "m")
        decision = Decision(
            "pod/uid-a",
            Result.WAITING,
            rejections=(rejection,),
            nominations=((found, "n1"),),
            cleared_nominations=(other, never),
        )
        scene.conditions.decided(decision)
        await scene.conditions.drain()
        assert scene.writes.pods == [
            ("uid-a", {"conditions": [unscheduled("m", since=NOW)], "nominatedNodeName": "n1"}),
            ("uid-b", {"nominatedNodeName": None}),
        ]

    run(test)


def test_wishes_gather_while_a_patch_is_on_its_way() -> None:
    """In order per object, and only the last of several wishes is written."""

    async def test(scene: Scene) -> None:
        found = scene.pod()
        scene.writes.hold = True
        scene.conditions.rejected(Rejection(found, UNSCHEDULABLE, "one"))
        await asyncio.sleep(0)
        for message in ("two", "three"):
            scene.conditions.rejected(Rejection(found, UNSCHEDULABLE, message))
            scene.conditions.nominated(found, f"node-{message}")
            await asyncio.sleep(0)
        assert len(scene.writes.pods) == 1
        scene.writes.hold = False
        scene.writes.held.pop().set_result(None)
        await scene.conditions.drain()
        assert [patch["conditions"][0]["message"] for _, patch in scene.writes.pods] == ["one", "three"]
        assert scene.writes.pods[1][1]["nominatedNodeName"] == "node-three"

    run(test)


def test_echoes_of_the_past_are_no_news() -> None:
    """The informer lags: what was there before our patch must not make us write it again."""

    async def test(scene: Scene) -> None:
        found = scene.pod(status={"conditions": [unscheduled("zero")]})
        for message in ("one", "two"):
            scene.conditions.rejected(Rejection(found, UNSCHEDULABLE, message))
            await scene.conditions.drain()
        for echo in ("zero", "one", "two"):
            scene.pod(status={"conditions": [unscheduled(echo)]})
            scene.conditions.rejected(Rejection(found, UNSCHEDULABLE, "two"))
            await scene.conditions.drain()
        assert len(scene.writes.pods) == 2
        scene.pod(status={"conditions": [unscheduled("another scheduler's")]})
        scene.conditions.rejected(Rejection(found, UNSCHEDULABLE, "two"))
        await scene.conditions.drain()
        assert len(scene.writes.pods) == 3

    run(test)


def test_pod_that_was_placed_meanwhile_gets_no_condition() -> None:
    """Rejected, and placed before the patch went out: PodScheduled=False after the binding would be wrong."""

    async def test(scene: Scene) -> None:
        found = scene.pod(cpu="1")
        scene.conditions.rejected(Rejection(found, UNSCHEDULABLE, "m"))
        decision = scene.engine.step(scene.now).decision
        assert decision is not None
        assert found.row >= 0
        await scene.conditions.drain()
        assert scene.writes.pods == []
        scene.engine.fail_binding(found.uid, scene.now)
        scene.conditions.rejected(Rejection(found, SCHEDULER_ERROR, "binding rejected: no"))
        await scene.conditions.drain()
        assert [patch["conditions"][0]["reason"] for _, patch in scene.writes.pods] == ["SchedulerError"]

    run(test)


@pytest.mark.parametrize(
    ("error", "again", "troubles"),
    [
        (UnreachableError("cut"), True, 1),
        (ApiError(500, "", "no"), True, 1),
        (ApiError(404, "NotFound", "no"), False, 0),
        (ApiError(422, "Invalid", "metadata.uid"), False, 0),
        (LeadershipLostError("not the leader"), False, 1),
    ],
)
def test_patch_that_failed(error: Exception, again: bool, troubles: int) -> None:
    """Trouble is logged and tried again at the next look around; a pod that is gone needs nothing."""

    async def test(scene: Scene) -> None:
        found = scene.pod()
        scene.writes.errors = [error]
        scene.conditions.rejected(Rejection(found, UNSCHEDULABLE, "m"))
        scene.conditions.nominated(found, "n1")
        await scene.conditions.drain()
        assert len(scene.troubles) == troubles
        scene.conditions.waiting(scene.engine, scene.now)
        await scene.conditions.drain()
        first, *more = scene.writes.pods
        assert more == ([first] if again else [])

    run(test)


@pytest.mark.parametrize("error", [UnreachableError("cut"), ApiError(404, "NotFound", "no")])
def test_waiting_for_a_nomination_raises_what_its_write_failed_with(error: Exception) -> None:
    """preemption.md 7.5: without the nomination no victim is touched."""

    async def test(scene: Scene) -> None:
        found = scene.pod()
        await scene.conditions.written(found)
        assert scene.writes.pods == []
        scene.conditions.nominated(found, "n1")
        await scene.conditions.written(found)
        assert scene.writes.pods == [("uid-a", {"nominatedNodeName": "n1"})]
        scene.writes.errors = [error]
        scene.conditions.nominated(found, "n2")
        with pytest.raises(type(error)):
            await scene.conditions.written(found)

    run(test)


def stating(scheduled: bool, reason: str = "Unschedulable", message: str = "m") -> GroupCondition:
    return GroupCondition("default/g", scheduled, reason if not scheduled else "Scheduled", message)


def test_group_that_was_scheduled_once_stays_so() -> None:
    """observability.md: once True never False again; patches only when something changed; observedGeneration set."""

    async def test(scene: Scene) -> None:
        scene.group()
        for condition in (
            stating(False),
            stating(False),
            stating(False, message="n"),
            stating(True, message=""),
            stating(False),
        ):
            scene.conditions.group(condition)
            await scene.conditions.drain()
        assert [(c["status"], c["reason"], c["message"]) for _, c, _ in scene.writes.groups] == [
            ("False", "Unschedulable", "m"),
            ("False", "Unschedulable", "n"),
            ("True", "Scheduled", ""),
        ]
        assert {c["type"] for _, c, _ in scene.writes.groups} == {"PodGroupInitiallyScheduled"}
        assert {c["observedGeneration"] for _, c, _ in scene.writes.groups} == {1}
        assert {str(resource) for _, _, resource in scene.writes.groups} == {"podgroups.v1beta1.scheduling.k8s.io"}

    run(test)


def test_group_after_a_restart_stays_scheduled() -> None:
    async def test(scene: Scene) -> None:
        condition = {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled"}
        scene.group(status={"conditions": [condition]})
        scene.conditions.group(stating(False))
        await scene.conditions.drain()
        assert scene.writes.groups == []
        scene.group(uid="uid-new")
        scene.conditions.group(stating(False))
        await scene.conditions.drain()
        assert [uid for uid, _, _ in scene.writes.groups] == ["uid-new"]

    run(test)


def test_preempted_group_that_runs_again_is_no_target_any_more() -> None:
    """observability.md 1.7 "Conditions": what a group says is true of its pods as they are."""

    async def test(scene: Scene) -> None:
        target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        before = {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled"}
        scene.group(status={"conditions": [before, target]})
        for condition in (stating(False), stating(True, message=""), stating(True, message="")):
            scene.conditions.group(condition)
            await scene.conditions.drain()
        assert [(c["type"], c["status"], c["reason"]) for _, c, _ in scene.writes.groups] == [
            ("DisruptionTarget", "False", "ScheduledAgain")
        ]

    run(test)


def test_changed_group_is_judged_anew() -> None:
    """The same verdict on another generation is news: it was looked at again."""

    async def test(scene: Scene) -> None:
        scene.group(generation=1)
        scene.conditions.group(stating(False))
        await scene.conditions.drain()
        [(_, condition, _)] = scene.writes.groups
        scene.group(generation=2, status={"conditions": [condition]})
        scene.conditions.group(stating(False))
        await scene.conditions.drain()
        assert [c["observedGeneration"] for _, c, _ in scene.writes.groups] == [1, 2]

    run(test)


def test_unseen_group_is_not_written_to() -> None:
    async def test(scene: Scene) -> None:
        scene.conditions.group(stating(False))
        scene.group()
        scene.conditions.forget_group("group/default/g")
        scene.conditions.group(stating(False))
        await scene.conditions.drain()
        assert scene.writes.groups == []

    run(test)


def test_bound_pods_cost_nothing() -> None:
    """Events of pods with a node are not kept."""

    async def test(scene: Scene) -> None:
        found = scene.pod(status={"nominatedNodeName": "n1"})
        scene.conditions.seen_pod(msgspec.convert(pod("a", uid="uid-a", node="n1"), o.Pod))
        assert scene.conditions._pods == {}
        scene.conditions.forget_pod(found.uid)
        await scene.conditions.written(found)

    run(test)


def test_victims_condition() -> None:
    """observability.md 1.7: the preemptor, by the name of its scheduler."""

    async def test(scene: Scene) -> None:
        found = scene.pod(schedulerName="mine")
        for kind in ("pod", "podgroup", "compositepodgroup"):
            assert scene.conditions.disruption_target(found, by=kind) == {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "PreemptionByScheduler",
                "message": f"mine: preempting to accommodate a higher priority {kind}",
                "lastTransitionTime": NOW,
            }
        assert START.year == 2026

    run(test)


def test_pod_that_is_gone_before_its_condition_was_sent_gets_none() -> None:
    """Pods and groups; forgetting another object takes nothing away."""

    async def test(scene: Scene) -> None:
        gone, stays = scene.pod("a"), scene.pod("b")
        for found in (gone, stays):
            scene.conditions.rejected(Rejection(found, UNSCHEDULABLE, "m"))
        scene.group()
        scene.conditions.group(stating(False))
        scene.conditions.forget_pod("missing")
        scene.conditions.forget_group("group/default/missing")
        scene.conditions.forget_pod(gone.uid)
        scene.conditions.forget_group("group/default/g")
        await scene.conditions.drain()
        assert [uid for uid, _ in scene.writes.pods] == ["uid-b"]
        assert scene.writes.groups == []

    run(test)


def test_conditions_of_other_types_do_not_count_as_scheduled() -> None:
    """Conditions of other types are not read as this one; nor is a DisruptionTarget that is over."""

    async def test(scene: Scene) -> None:
        others = [
            {"type": "DisruptionTarget", "status": "False", "reason": "ScheduledAgain"},
            {"type": "Other", "status": "True", "reason": "R"},
        ]
        scene.group(status={"conditions": others})
        assert not scene.conditions.is_disrupted("group/default/g")
        assert not scene.conditions.is_disrupted("group/default/missing")
        assert not scene.conditions.was_scheduled("group/default/g")
        assert not scene.conditions.was_scheduled("group/default/missing")
        scene.conditions.group(stating(True, message=""))
        assert scene.conditions.was_scheduled("group/default/g"), "it is about to say so"
        await scene.conditions.drain()
        assert scene.conditions.was_scheduled("group/default/g")
        assert [c["type"] for _, c, _ in scene.writes.groups] == ["PodGroupInitiallyScheduled"]

    run(test)


def test_only_a_failed_binding_takes_the_scheduled_condition_back() -> None:
    """scheduling.md 3.6: False after True is for that alone, also where the first patch for it fails."""

    async def test(scene: Scene) -> None:
        scene.group()
        scene.conditions.not_scheduled_after_all("group/default/missing", "SchedulerError", "m")
        scene.conditions.group(stating(True, message=""))
        await scene.conditions.drain()
        scene.writes.errors = [UnreachableError("cut")]
        scene.conditions.not_scheduled_after_all("group/default/g", "SchedulerError", "binding rejected")
        await scene.conditions.drain()
        assert len(scene.troubles) == 1
        scene.group(status={"conditions": [scene.writes.groups[0][1]]})
        scene.conditions.waiting(scene.engine, scene.now)
        await scene.conditions.drain()
        assert [(c["status"], c["reason"]) for _, c, _ in scene.writes.groups] == [
            ("True", "Scheduled"),
            *[("False", "SchedulerError")] * 2,
        ]
        scene.conditions.group(stating(False))
        scene.conditions.group(stating(True, message=""))
        scene.conditions.group(stating(False))
        await scene.conditions.drain()
        assert [c["status"] for _, c, _ in scene.writes.groups][3:] in (["True"], ["False"])

    run(test)


@pytest.mark.parametrize("error", [None, UnreachableError("cut")], ids=["written", "lost"])
def test_group_that_is_placed_again_before_its_condition_was_written_is_scheduled(error: Exception | None) -> None:
    """scheduling.md 3.6: the last word counts, whatever happens to the patch that is on its way meanwhile."""

    async def test(scene: Scene) -> None:
        scene.group()
        scene.writes.hold = True
        scene.conditions.group(stating(True, message=""))
        drained = asyncio.create_task(scene.conditions.drain())
        while not scene.writes.held:
            await asyncio.sleep(0)
        scene.conditions.not_scheduled_after_all("group/default/g", "SchedulerError", "binding rejected")
        scene.conditions.group(stating(True, message=""))
        scene.writes.hold = False
        flight = scene.writes.held.pop()
        flight.set_result(None) if error is None else flight.set_exception(error)
        await drained
        scene.conditions.waiting(scene.engine, scene.now)
        await scene.conditions.drain()
        assert [c["status"] for _, c, _ in scene.writes.groups] == ["True"] * (1 if error is None else 2)
        assert scene.conditions.was_scheduled("group/default/g")

    run(test)


@pytest.mark.parametrize(
    ("error", "again"),
    [(None, False), (UnreachableError("cut"), True), (ApiError(404, "NotFound", "no"), False)],
)
def test_failed_write_that_a_group_is_scheduled_again_is_made_later(error: Exception | None, again: bool) -> None:
    """Its DisruptionTarget is history with its next members at the latest; one that is gone has nothing to say."""

    async def test(scene: Scene) -> None:
        target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        before = {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled"}
        scene.group(generation=7, status={"conditions": [before, target]})
        assert scene.conditions.is_disrupted("group/default/g")
        scene.writes.errors = [error] if error else []
        for _ in range(2):
            scene.conditions.group(stating(True, message=""))
            await scene.conditions.drain()
        assert len(scene.writes.groups) == 1 + again
        assert len(scene.troubles) == again
        assert not scene.conditions.is_disrupted("group/default/g")
        assert {c["observedGeneration"] for _, c, _ in scene.writes.groups} == {7}

    run(test)


def test_standby_keeps_nothing_of_deleted_groups() -> None:
    """A standby accepts no group, in the course of which others are forgotten."""

    async def test(scene: Scene) -> None:
        resource = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", True)
        foreign = ForeignGroup(api_version=VOLCANO_VERSION)
        before = sys.getrefcount(foreign)
        for number in range(20):
            meta = ObjectMeta(name=f"g{number}", namespace="default", uid=f"uid-{number}")
            scene.conditions.seen_group(o.PodGroup(metadata=meta, foreign=foreign), resource)
        assert sys.getrefcount(foreign) >= before + 20
        for number in range(20):
            scene.conditions.forget_group(f"group/default/g{number}")
        gc.collect()
        assert sys.getrefcount(foreign) == before

    run(test)


def test_draining_waits_for_what_is_on_its_way() -> None:
    """Patches of pods and of groups, and what is wished meanwhile."""

    async def test(scene: Scene) -> None:
        scene.writes.hold = True
        found = scene.pod()
        scene.conditions.rejected(Rejection(found, UNSCHEDULABLE, "one"))
        drained = asyncio.create_task(scene.conditions.drain())
        while not scene.writes.held:
            await asyncio.sleep(0)
        scene.conditions.rejected(Rejection(found, UNSCHEDULABLE, "two"))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not drained.done()
        scene.writes.held.pop().set_result(None)
        while not scene.writes.held:
            await asyncio.sleep(0)
        assert not drained.done()
        scene.writes.held.pop().set_result(None)
        await drained
        assert [patch["conditions"][0]["message"] for _, patch in scene.writes.pods] == ["one", "two"]

    run(test)


def test_condition_wished_while_a_patch_failed_counts() -> None:
    """The failed wish is history: what is tried again later is the newest, of the condition and of the nomination."""

    async def test(scene: Scene) -> None:
        found = scene.pod()
        scene.writes.hold = True
        scene.conditions.rejected(Rejection(found, UNSCHEDULABLE, "one"))
        scene.conditions.nominated(found, "n1")
        await asyncio.sleep(0)
        scene.conditions.rejected(Rejection(found, UNSCHEDULABLE, "two"))
        scene.conditions.nominated(found, "n2")
        scene.writes.held.pop().set_exception(UnreachableError("cut"))
        scene.writes.hold = False
        await scene.conditions.drain()
        scene.conditions.waiting(scene.engine, scene.now)
        await scene.conditions.drain()
        assert [(patch["conditions"][0]["message"], patch["nominatedNodeName"]) for _, patch in scene.writes.pods] == [
            ("one", "n1"),
            ("two", "n2"),
        ]

    run(test)


def test_nomination_alone_is_written_and_taken_back() -> None:
    """observability.md 1.8: without a condition that would be written with it."""

    async def test(scene: Scene) -> None:
        found = scene.pod()
        scene.conditions.nominated(found, "n1")
        await scene.conditions.drain()
        scene.conditions.nominated(found, "n1")
        await scene.conditions.drain()
        scene.conditions.cleared(found)
        await scene.conditions.drain()
        assert scene.writes.pods == [("uid-a", {"nominatedNodeName": "n1"}), ("uid-a", {"nominatedNodeName": None})]

    run(test)
