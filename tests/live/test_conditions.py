"""What pods and groups say of their scheduling: once per change, in order, and never after the fact.

observability.md "Conditions"; kube-scheduler's `UpdatePodCondition` for transition times; KEP-5501 for gated pods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from reprieve.api import objects as o
from reprieve.client.discovery import Resource
from reprieve.client.errors import ApiError, UnreachableError
from reprieve.client.leading import DeposedError
from reprieve.cluster.pods import PodRecord
from reprieve.live.conditions import Conditions
from reprieve.live.writes import Writes
from reprieve.scheduling.decision import (
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    Decision,
    GroupCondition,
    Rejection,
    Result,
)
from reprieve.scheduling.engine import Engine

from ..client.clock import START, FakeClock
from .faults import group, node, pod

Json = dict[str, Any]


class Recorded(Writes):
    """Keeps what it is asked to write; calls end well at once, or as the test says."""

    def __init__(self) -> None:
        self.pods: list[tuple[str, Json]] = []
        self.groups: list[tuple[str, Json, Resource | None]] = []
        self.held: list[asyncio.Future[None]] = []
        self.hold = False
        self.errors: list[Exception] = []

    def patch_pod_status(self, namespace: str, name: str, uid: str, patch: Mapping[str, Any]) -> asyncio.Future[None]:
        self.pods.append((uid, dict(patch)))
        return self._answer()

    def patch_group_status(
        self,
        namespace: str,
        name: str,
        uid: str,
        conditions: Sequence[Mapping[str, Any]],
        *,
        resource: Resource | None = None,
    ) -> asyncio.Future[None]:
        [condition] = conditions
        self.groups.append((uid, dict(condition), resource))
        return self._answer()

    def _answer(self) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.hold:
            self.held.append(future)
        elif self.errors:
            future.set_exception(self.errors.pop(0))
            future.exception()
        else:
            future.set_result(None)
        return future


class Scene:
    """An engine with one node, conditions, and what they write."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.writes = Recorded()
        self.troubles: list[str] = []
        self.conditions = Conditions(self.writes, self.clock, on_trouble=self.troubles.append)
        self.engine = Engine(validate=True)
        self.engine.set_node(msgspec.convert(node("n1"), o.Node), self.now)

    @property
    def now(self) -> float:
        return self.clock.now().timestamp()

    def pod(self, name: str = "a", *, status: Json | None = None, generation: int = 0, **spec: Any) -> PodRecord:
        """A pending pod, as the informer has it and as the engine has it."""
        body = pod(name, uid=f"uid-{name}", **spec) | {"status": status or {}}
        body["metadata"]["generation"] = generation
        item = msgspec.convert(body, o.Pod)
        self.conditions.seen_pod(item)
        found = self.engine.set_pod(item, self.now)
        assert found is not None
        return found

    def group(self, *, generation: int = 1, uid: str = "uid-g", count: int = 2, status: Json | None = None) -> None:
        body = group("g", count=count) | {"status": status or {}}
        body["metadata"] |= {"uid": uid, "generation": generation}
        item = msgspec.convert(body, o.PodGroup)
        self.conditions.seen_group(item, Resource("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup", True))
        self.engine.set_group(item, self.now)


def run(test: Callable[[Scene], Awaitable[None]]) -> None:
    asyncio.run(_run(test))


async def _run(test: Callable[[Scene], Awaitable[None]]) -> None:
    await test(Scene())


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
    ("before", "said", "patch"),
    [
        ([], ("Unschedulable", "m"), unscheduled("m", since=NOW)),
        ([unscheduled("m")], ("Unschedulable", "m"), None),
        ([unscheduled("old")], ("Unschedulable", "m"), unscheduled("m")),
        ([unscheduled("m")], ("SchedulerError", "m"), unscheduled("m", "SchedulerError")),
        ([unscheduled("m") | {"status": "True"}], ("Unschedulable", "m"), unscheduled("m", since=NOW)),
    ],
)
def test_a_rejection_is_written_when_it_says_something_new(
    before: list[Json], said: tuple[str, str], patch: Json | None
) -> None:
    """lastTransitionTime is that of the status, not of the message (podutil.UpdatePodCondition)."""

    async def test(scene: Scene) -> None:
        found = scene.pod(status={"conditions": before})
        scene.conditions.rejected(Rejection(found, *said))
        await scene.conditions.drain()
        assert scene.writes.pods == ([("uid-a", {"conditions": [patch]})] if patch is not None else [])

    run(test)


def test_the_generation_that_was_looked_at_is_said() -> None:
    """observedGeneration where the API counts generations of pods; that it grew alone is no reason to write."""

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
    """The preemptor's condition and nomination go together; who lost a nomination is told, too."""

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
            cleared=(other, never),
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
        scene.pod(status={"conditions": [unscheduled("somebody else's")]})
        scene.conditions.rejected(Rejection(found, UNSCHEDULABLE, "two"))
        await scene.conditions.drain()
        assert len(scene.writes.pods) == 3

    run(test)


def test_a_pod_that_was_placed_meanwhile_says_nothing() -> None:
    """Rejected, and placed before the patch went out: PodScheduled=False after the binding would be wrong."""

    async def test(scene: Scene) -> None:
        found = scene.pod(cpu="1")
        scene.conditions.rejected(Rejection(found, UNSCHEDULABLE, "m"))
        decision = scene.engine.step(scene.now)
        assert decision is not None
        assert found.row >= 0
        await scene.conditions.drain()
        assert scene.writes.pods == []
        scene.engine.bind_failed(found.uid, scene.now)
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
        (DeposedError("not the leader"), False, 1),
    ],
)
def test_a_patch_that_failed(error: Exception, again: bool, troubles: int) -> None:
    """Trouble is said and tried again at the next look around; a pod that is gone needs nothing."""

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
def test_who_waits_for_a_nomination_hears_that_it_failed(error: Exception) -> None:
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


def said(scheduled: bool, reason: str = "Unschedulable", message: str = "m") -> GroupCondition:
    return GroupCondition("default/g", scheduled, reason if not scheduled else "Scheduled", message)


def test_a_group_that_was_scheduled_once_stays_so() -> None:
    """observability.md: once True never False again; patches only when something changed; observedGeneration set."""

    async def test(scene: Scene) -> None:
        scene.group()
        for condition in (said(False), said(False), said(False, message="n"), said(True, message=""), said(False)):
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


def test_a_group_after_a_restart_stays_scheduled() -> None:
    async def test(scene: Scene) -> None:
        condition = {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled"}
        scene.group(status={"conditions": [condition]})
        scene.conditions.group(said(False))
        await scene.conditions.drain()
        assert scene.writes.groups == []
        scene.group(uid="uid-new")
        scene.conditions.group(said(False))
        await scene.conditions.drain()
        assert [uid for uid, _, _ in scene.writes.groups] == ["uid-new"]

    run(test)


def test_a_preempted_group_that_runs_again_is_no_target_any_more() -> None:
    """observability.md "Conditions": what a group says is true of its pods as they are."""

    async def test(scene: Scene) -> None:
        target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        before = {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled"}
        scene.group(status={"conditions": [before, target]})
        for condition in (said(False), said(True, message=""), said(True, message="")):
            scene.conditions.group(condition)
            await scene.conditions.drain()
        assert [(c["type"], c["status"], c["reason"]) for _, c, _ in scene.writes.groups] == [
            ("DisruptionTarget", "False", "ScheduledAgain")
        ]

    run(test)


def test_a_changed_group_is_judged_anew() -> None:
    """The same verdict on another generation is news: it was looked at again."""

    async def test(scene: Scene) -> None:
        scene.group(generation=1)
        scene.conditions.group(said(False))
        await scene.conditions.drain()
        [(_, condition, _)] = scene.writes.groups
        scene.group(generation=2, status={"conditions": [condition]})
        scene.conditions.group(said(False))
        await scene.conditions.drain()
        assert [c["observedGeneration"] for _, c, _ in scene.writes.groups] == [1, 2]

    run(test)


def test_a_group_nobody_has_seen_is_not_written_to() -> None:
    async def test(scene: Scene) -> None:
        scene.conditions.group(said(False))
        scene.group()
        scene.conditions.forget_group("default/g")
        scene.conditions.group(said(False))
        await scene.conditions.drain()
        assert scene.writes.groups == []

    run(test)


GONE = 'waiting for pods\'s pod group "g" to appear in scheduling queue'
FEW = "waiting for minCount pods from a gang to appear in scheduling queue"


@pytest.mark.parametrize(
    ("exists", "spec", "message"),
    [
        (False, {"group": "g"}, GONE),
        (True, {"group": "g"}, FEW),
        (True, {"schedulingGates": [{"name": "later"}]}, None),
        (True, {"group": "g", "schedulingGates": [{"name": "later"}]}, None),
    ],
)
def test_pods_behind_a_gate_say_so_after_a_while(exists: bool, spec: Json, message: str | None) -> None:
    """observability.md "Gated pods"; scheduling gates are the API server's to say; five seconds as in KEP-5501."""

    async def test(scene: Scene) -> None:
        if exists:
            scene.group(count=3)
        scene.pod(**spec)
        scene.clock.advance(4.9)
        scene.conditions.waiting(scene.engine, scene.now)
        await scene.conditions.drain()
        assert scene.writes.pods == []
        scene.clock.advance(0.2)
        for _ in range(2):
            scene.conditions.waiting(scene.engine, scene.now)
            await scene.conditions.drain()
        found = [patch["conditions"][0] for _, patch in scene.writes.pods]
        assert [(c["status"], c["reason"], c["message"]) for c in found] == (
            [] if message is None else [("False", "NotReadyForScheduling", message)]
        )

    run(test)


def test_a_group_below_min_count_says_so_at_once() -> None:
    """observability.md 1.5: its condition comes from the start, and once; its pods wait five seconds to say so."""

    async def test(scene: Scene) -> None:
        scene.group(count=3)
        scene.pod("a", group="g")
        for _ in range(2):
            scene.conditions.waiting(scene.engine, scene.now)
            await scene.conditions.drain()
        found = [(c["type"], c["status"], c["reason"], c["message"]) for _, c, _ in scene.writes.groups]
        assert found == [("PodGroupInitiallyScheduled", "False", "Unschedulable", FEW)]
        assert scene.writes.pods == []

    run(test)


def test_a_group_behind_a_gate_does_not_say_what_an_earlier_attempt_said() -> None:
    """A preemption is over and a member has gone: the group waits for members, not for the preemption any more."""

    async def test(scene: Scene) -> None:
        scene.group(count=3)
        scene.pod("a", group="g")
        scene.clock.advance(6)
        scene.conditions.waiting(scene.engine, scene.now)
        await scene.conditions.drain()
        assert [(c["status"], c["message"]) for _, c, _ in scene.writes.groups] == [("False", FEW)]
        scene.conditions.group(said(False, message="pod group is waiting for podgroup preemption to complete"))
        for _ in range(2):
            scene.conditions.waiting(scene.engine, scene.now)
            await scene.conditions.drain()
        assert [(c["status"], c["message"]) for _, c, _ in scene.writes.groups][-1] == ("False", FEW)
        assert len(scene.writes.groups) <= 3

    run(test)


def test_the_message_of_a_gate_follows_the_reason() -> None:
    """First no object, then too few members, then enough: nothing more to say."""

    async def test(scene: Scene) -> None:
        scene.pod("a", group="g")
        for step in (lambda: scene.group(count=2), lambda: scene.pod("b", group="g"), lambda: None):
            scene.clock.advance(6)
            scene.conditions.waiting(scene.engine, scene.now)
            await scene.conditions.drain()
            step()
        assert [patch["conditions"][0]["message"] for _, patch in scene.writes.pods] == [GONE, FEW]

    run(test)


def test_bound_pods_cost_nothing() -> None:
    """What the informer tells of pods with a node is not kept."""

    async def test(scene: Scene) -> None:
        found = scene.pod(status={"nominatedNodeName": "n1"})
        scene.conditions.seen_pod(msgspec.convert(pod("a", uid="uid-a", node="n1"), o.Pod))
        assert scene.conditions._pods == {}
        scene.conditions.forget_pod(found.uid)
        await scene.conditions.written(found)

    run(test)


def test_the_victims_condition() -> None:
    """observability.md: who it makes room for, by the name of the preemptor's scheduler."""

    async def test(scene: Scene) -> None:
        found = scene.pod(schedulerName="mine")
        for by_group, kind in ((False, "pod"), (True, "podgroup")):
            assert scene.conditions.disruption_target(found, by_group=by_group) == {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "PreemptionByScheduler",
                "message": f"mine: preempting to accommodate a higher priority {kind}",
                "lastTransitionTime": NOW,
            }
        assert START.year == 2026

    run(test)
