"""Calls for victims, each once, and what happens to units that stay behind (preemption.md 7.1, 7.2, 7.5, 9)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from kube_rules.meta import ObjectRef
from reprieve.client.errors import ApiError, UnreachableError
from reprieve.client.leader_election import LeadershipLostError
from reprieve.cluster.groups import GroupState
from reprieve.cluster.pods import PodRecord
from reprieve.live.single_flight import REMEMBERED
from reprieve.live.victim_calls import UnitRepairs, VictimCalls
from reprieve.preemption.units import PreemptionUnit
from tests.client.clock import until
from tests.live.scene import Scene, run

Json = dict[str, Any]
SPARED = ("False", "PreemptionFailed")
GONE = ApiError(404, "NotFound", "no")
CUT = UnreachableError("cut")


class Stage:
    """Calls and repairs of a scene, and what they told."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.calls = VictimCalls(scene.writes, scene.conditions, scene.clock)
        self.troubles: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.repairs = UnitRepairs(self.calls, self, scene.clock, self.spawn)

    def trouble(self, where: str, text: str) -> None:
        self.troubles.append(f"{where}: {text}")

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.create_task(work))

    async def asleep(self) -> None:
        await until(lambda: self.scene.clock.sleeping or all(task.done() for task in self.tasks))

    async def ended(self) -> None:
        await asyncio.gather(*self.tasks)

    @property
    def marks(self) -> list[tuple[str, str, str]]:
        """The disruption conditions that were written: UID, status, reason; groups first."""
        groups = [(uid, condition) for uid, condition, _ in self.scene.writes.groups]
        pods = [(uid, patch["conditions"][0]) for uid, patch in self.scene.writes.pods]
        return [(uid, c["status"], c["reason"]) for uid, c in (*groups, *pods)]

    def crew(self, *, names: tuple[str, ...] = ("a", "b"), node: str = "n1") -> tuple[GroupState, list[PodRecord]]:
        """A unit that is evicted as a whole, on the first node there is."""
        self.scene.group(everything=True)
        pods = [self.scene.pod(name, group="g", node=node) for name in names]
        return self.scene.engine.cluster.groups["default/g"], pods


def single(pod: PodRecord) -> PreemptionUnit:
    return PreemptionUnit(pod.key, (pod,), (pod.row,), pod.priority, False, None)


def whole(group: GroupState, pods: list[PodRecord]) -> PreemptionUnit:
    return PreemptionUnit(group.key, tuple(pods), tuple(pod.row for pod in pods), 0, True, group)


# -- the mark, and what takes it back


def test_pods_that_stay_lose_their_mark_wherever_they_run_and_no_others() -> None:
    """preemption.md 7.5: not a pod that terminates, has no node or is in another preemption; row 0 is a node, too."""

    async def test(scene: Scene) -> None:
        stage = Stage(scene)
        group, pods = stage.crew()
        assert {pod.row for pod in pods} == {0}
        going, waits, wanted = scene.pod("c", node="n1", going=True), scene.pod("d"), scene.pod("e", node="n1")
        stage.calls.begin([single(wanted)])
        staying, written = stage.calls.unmark(group, [*pods, going, waits, wanted])
        assert staying == pods
        assert len(written) == 3
        assert stage.marks == [(uid, *SPARED) for uid in ("uid-g", "uid-a", "uid-b")]
        stage.calls.end([single(wanted)])
        assert stage.calls.unmark(None, [wanted])[0] == [wanted]

    run(test)


def test_unit_that_another_preemption_evicts_keeps_its_marks() -> None:
    async def test(scene: Scene) -> None:
        stage = Stage(scene)
        group, pods = stage.crew()
        for times in (1, 2):
            for _ in range(times):
                stage.calls.begin([whole(group, pods)])
            assert stage.calls.unmark(group, pods) == ([], [])
            for left in reversed(range(times)):
                stage.calls.end([whole(group, pods)])
                assert bool(stage.calls.unmark(group, pods)[0]) is (left == 0)

    run(test)


def test_group_that_is_gone_has_nothing_taken_back() -> None:
    async def test(scene: Scene) -> None:
        stage = Stage(scene)
        group, pods = stage.crew()
        scene.conditions.forget_group("group/default/g")
        staying, written = stage.calls.unmark(group, pods)
        assert (staying, len(written)) == (pods, 2)
        assert scene.writes.groups == []

    run(test)


TARGET = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}


def test_pod_is_marked_unless_it_has_the_mark() -> None:
    """preemption.md 7.2: once for all preemptors; again after it was taken back, whatever the watch has reported."""

    async def test(scene: Scene) -> None:
        stage = Stage(scene)
        plain, marked = scene.pod("a", node="n1", generation=3), scene.pod("b", node="n1", status=TARGET)
        mark = scene.conditions.disruption_target(scene.pod("hi"), by="pod")
        for _ in range(2):
            for found in (plain, marked):
                await stage.calls.mark_pod(found, mark)
        assert stage.marks == [("uid-a", "True", "PreemptionByScheduler")]
        assert scene.writes.pods[0][1]["conditions"][0]["observedGeneration"] == 3
        _, written = stage.calls.unmark(None, [plain, marked])
        await asyncio.gather(*written)
        for _ in range(2):
            for found in (plain, marked):
                await stage.calls.mark_pod(found, mark)
        assert [uid for uid, status, _ in stage.marks if status == "True"] == ["uid-a", "uid-a", "uid-b"]
        scene.clock.advance(REMEMBERED + 1)
        await stage.calls.mark_pod(marked, mark)
        assert [uid for uid, status, _ in stage.marks if status == "True"] == ["uid-a", "uid-a", "uid-b"], "it has it"

    run(test)


def test_pod_that_stayed_is_remembered_until_its_record_has_no_mark() -> None:
    """A mark that the watch reports later is another scheduler's: it is not made once more."""

    async def test(scene: Scene) -> None:
        stage = Stage(scene)
        found, other = scene.pod("a", node="n1", status=TARGET), scene.pod("b", node="n1", status=TARGET)
        stage.calls.unmark(None, [found])
        stage.calls.unmark(None, [other])
        preemptor = scene.pod("hi")
        mark = scene.conditions.disruption_target(preemptor, by="pod")
        await stage.calls.mark_pod(found, mark)
        assert [status for _, status, _ in stage.marks] == ["False", "False", "True"], "its record is of the past"
        scene.writes.pods.clear()
        stage.calls.unmark(None, [found])
        scene.pod("a", node="n1")
        stage.calls.unmark(None, [other])
        found = scene.pod("a", node="n1", status=TARGET)
        await stage.calls.mark_pod(found, mark)
        assert [status for _, status, _ in stage.marks] == ["False", "False"]

    run(test)


def test_group_is_marked_again_after_its_mark_was_taken_back() -> None:
    """preemption.md 7.2: once for all preemptors; what was taken back has to be written again."""

    async def test(scene: Scene) -> None:
        stage = Stage(scene)
        group, pods = stage.crew()
        preemptor = scene.pod("hi")
        for _ in range(2):
            for _ in range(2):
                await stage.calls.mark_group(group, pods, preemptor, by="podgroup")
            assert scene.conditions.is_disrupted(group.ref)
            _, written = stage.calls.unmark(group, pods)
            await asyncio.gather(*written)
            assert not scene.conditions.is_disrupted(group.ref)
        assert [status for uid, status, _ in stage.marks if uid == "uid-g"] == ["True", "False"] * 2

    run(test)


@pytest.mark.parametrize(
    ("change", "marks"),
    [
        ("nothing", 1),
        ("the group has other pods", 2),
        ("some of its pods are gone", 1),
        ("the group was recreated around its pods", 2),
    ],
)
def test_group_is_marked_for_every_eviction_of_it(change: str, marks: int) -> None:
    """preemption.md 7.2: also within a minute: a mark counts for the pods and the object that it was written for."""

    async def test(scene: Scene) -> None:
        stage = Stage(scene)
        group, pods = stage.crew()
        preemptor = scene.pod("hi")
        await stage.calls.mark_group(group, pods, preemptor, by="pod")
        if change == "the group has other pods":
            pods = [scene.pod("c", group="g", node="n1"), pods[0]]
        elif change == "some of its pods are gone":
            del pods[0]
        elif change != "nothing":
            scene.conditions.forget_group("group/default/g")
            scene.group(everything=True, uid="uid-again")
        await stage.calls.mark_group(group, pods, preemptor, by="pod")
        marked = [(uid, status) for uid, status, _ in stage.marks]
        assert len(marked) == marks
        again = "uid-again" if "recreated" in change else "uid-g"
        assert marked[-1] == (again, "True")

    run(test)


@pytest.mark.parametrize(("error", "raised"), [(GONE, False), (CUT, True), (ApiError(500, "", "no"), True)])
def test_mark_of_a_deleted_pod_is_not_needed(error: Exception, raised: bool) -> None:
    async def test(scene: Scene) -> None:
        stage = Stage(scene)
        found = scene.pod("a", node="n1")
        mark = scene.conditions.disruption_target(scene.pod("hi"), by="pod")
        scene.writes.errors = [error]
        if raised:
            with pytest.raises(type(error)):
                await stage.calls.mark_pod(found, mark)
            await stage.calls.mark_pod(found, mark)  # what failed is made again
            assert len(scene.writes.pods) == 2
        else:
            await stage.calls.mark_pod(found, mark)
        group, pods = stage.crew(names=("b",))
        scene.writes.errors = [error]
        if raised:
            with pytest.raises(type(error)):
                await stage.calls.mark_group(group, pods, found, by="podgroup")
        else:
            await stage.calls.mark_group(group, pods, found, by="podgroup")
        assert not scene.conditions.is_disrupted("group/default/g")

    run(test)


def test_deletion_is_made_once_and_again_when_it_failed_or_was_long_ago() -> None:
    """preemption.md 7.1: the second of two preemptors hears what happened to the first one's call."""

    async def test(scene: Scene) -> None:
        stage = Stage(scene)
        found = scene.pod("a", node="n1")
        scene.writes.hold = True
        first, second = (asyncio.create_task(stage.calls.delete(found)) for _ in range(2))
        await until(lambda: scene.writes.held)
        for _ in range(3):
            await asyncio.sleep(0)
        scene.writes.held[0].set_exception(CUT)
        assert [type(error) for error in await asyncio.gather(first, second, return_exceptions=True)] == [
            UnreachableError,
            UnreachableError,
        ]
        scene.writes.hold = False
        assert [await stage.calls.delete(found) for _ in range(3)] == [True, False, False]
        scene.clock.advance(REMEMBERED - 0.1)
        assert not await stage.calls.delete(found)
        scene.clock.advance(0.2)
        assert await stage.calls.delete(found), "the watch must have reported it by now"
        assert len(scene.writes.deleted) == 3

    run(test)


def test_repeated_call_is_remembered_from_then_on() -> None:
    async def test(scene: Scene) -> None:
        stage = Stage(scene)
        one, other = scene.pod("a", node="n1"), scene.pod("b", node="n1")
        scene.writes.errors = [CUT]
        with pytest.raises(UnreachableError):
            await stage.calls.delete(one)
        scene.clock.advance(REMEMBERED / 2)
        assert await stage.calls.delete(other)
        scene.clock.advance(REMEMBERED / 4)
        assert await stage.calls.delete(one)
        scene.clock.advance(REMEMBERED / 2)
        assert [await stage.calls.delete(found) for found in (one, other, one)] == [False, False, False]
        scene.clock.advance(REMEMBERED / 4 + 1)
        assert [await stage.calls.delete(found) for found in (one, other)] == [False, True]

    run(test)


# -- repairs


def test_remaining_victims_of_a_unit_are_deleted_as_often_as_it_takes() -> None:
    """9: only those with a failed deletion, five seconds later; a pod that goes by then needs nothing."""

    async def test(scene: Scene) -> None:
        stage = Stage(scene)
        group, pods = stage.crew(names=("a", "b", "c"))
        going = scene.pod("z", group="g", node="n1", going=True)
        scene.writes.errors = [CUT, ApiError(500, "", "no")]
        stage.repairs.finish(group, [going, *pods])
        await stage.asleep()
        assert scene.writes.deleted == ["uid-a", "uid-b", "uid-c"]
        assert stage.troubles == ["preemption: the group default/g is partly evicted, trying again: cut"]
        scene.pod("b", group="g", node="n1", going=True)
        scene.clock.advance(4.9)
        await asyncio.sleep(0)
        assert len(scene.writes.deleted) == 3
        scene.clock.advance(0.2)
        await stage.ended()
        assert scene.writes.deleted[3:] == ["uid-a"]
        assert len(stage.troubles) == 1

    run(test)


def test_unit_is_finished_once_however_many_preemptions_failed_on_it() -> None:
    """9: each attempt of a preemptor fails on the same pod; what is left of the unit is asked for by one task."""

    async def test(scene: Scene) -> None:
        stage = Stage(scene)
        group, pods = stage.crew(names=("a", "b"))
        scene.writes.errors = [CUT]
        stage.repairs.finish(group, pods[:1])
        await stage.asleep()
        stage.repairs.finish(group, pods)
        stage.repairs.finish(group, pods)
        assert len(stage.tasks) == 1
        scene.clock.advance(5.1)
        await stage.ended()
        assert scene.writes.deleted == ["uid-a", "uid-a", "uid-b"]
        scene.writes.errors = [CUT]
        stage.repairs.finish(group, pods)
        await stage.asleep()
        assert len(stage.tasks) == 2, "the next time it is finished again"
        scene.clock.advance(5.1)
        await stage.ended()
        assert scene.writes.deleted[3:] == ["uid-a", "uid-b", "uid-a"]

    run(test)


def test_former_leader_repairs_nothing() -> None:
    async def test(scene: Scene) -> None:
        stage = Stage(scene)
        group, pods = stage.crew()
        scene.writes.errors = [CUT, LeadershipLostError("not the leader")]
        stage.repairs.finish(group, pods)
        await stage.ended()
        scene.writes.errors = [LeadershipLostError("not the leader"), CUT]
        stage.repairs.spare(group, pods)
        await stage.ended()
        assert (len(scene.writes.deleted), len(stage.marks), stage.troubles) == (2, 3, [])

    run(test)


HOW = ["reconsider", "leave, group marked", "leave, pods marked"]


def watched(stage: Stage, how: str, group: GroupState, pods: list[PodRecord]) -> None:
    if how == "reconsider":
        stage.repairs.reconsider(group, iter(pods), iter(pods[:1]))
    else:
        stage.repairs.leave(group, iter(pods), lambda: "group" in how)


@pytest.mark.parametrize("how", HOW[1:])
def test_unit_that_was_found_marked_is_spared_after_a_minute(how: str) -> None:
    """9: the PodGroup gets a condition only if it says otherwise."""

    async def test(scene: Scene) -> None:
        stage = Stage(scene)
        group, pods = stage.crew()
        watched(stage, how, group, pods)
        for _ in range(12):
            await stage.asleep()
            assert (stage.marks, scene.writes.deleted) == ([], [])
            scene.clock.advance(5)
        await stage.ended()
        await stage.ended()
        uids = ["uid-a", "uid-b"] if "pods" in how else ["uid-g", "uid-a", "uid-b"]
        assert (stage.marks, scene.writes.deleted) == ([(uid, *SPARED) for uid in uids], [])

    run(test)


@pytest.mark.parametrize(
    ("doubtful", "unanswered", "spared_after"),
    [(["uid-a"], 0, 5), ([], 0, 0), (["uid-a"], 3, 20), (["uid-a"], 99, 60)],
    ids=["doubtful", "refused", "the API answers late", "the API never answers"],
)
def test_unit_with_a_failed_deletion_is_spared_within_seconds(
    doubtful: list[str], unanswered: int, spared_after: float
) -> None:
    """preemption.md 7.5: at once if the API refused it; else after two reads that show no pod of it terminating."""

    async def test(scene: Scene) -> None:
        stage = Stage(scene)
        group, pods = stage.crew()
        scene.writes.unanswered = unanswered
        stage.repairs.reconsider(group, pods, [pod for pod in pods if pod.uid in doubtful])
        began, spared = scene.clock.monotonic(), 0.0
        while not all(task.done() for task in stage.tasks):
            await stage.asleep()
            if stage.marks:
                spared = spared or scene.clock.monotonic()
            scene.clock.advance(5)
        assert spared - began == spared_after
        assert scene.clock.monotonic() - began <= 65
        assert stage.marks == [(uid, *SPARED) for uid in ("uid-g", "uid-a", "uid-b")]
        assert scene.writes.deleted == []

    run(test)


@pytest.mark.parametrize("late", [False, True])
def test_unit_of_which_the_api_has_lost_a_pod_goes(late: bool) -> None:
    """9: before the watch tells; also where the deletion is carried out after the unit was spared."""

    async def test(scene: Scene) -> None:
        stage = Stage(scene)
        group, pods = stage.crew()
        if not late:
            scene.writes.going = {"uid-a"}
        stage.repairs.reconsider(group, pods, pods[:1])
        if late:
            for _ in range(4):
                await stage.asleep()
                scene.clock.advance(5)
            assert len(stage.marks) == 3
            scene.writes.going = {"uid-a"}
            await stage.asleep()
            scene.clock.advance(5)
        await until(lambda: len(scene.writes.deleted) == 2)
        assert scene.writes.deleted == ["uid-a", "uid-b"]
        assert bool(stage.marks) is late

    run(test)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("sign", ["one terminates", "one is gone"])
def test_unit_of_unknown_fate_that_loses_a_pod_goes(how: str, sign: str) -> None:
    """9: all of it follows where its deletion had begun; after marks alone, the rest is the deleting client's task."""

    async def test(scene: Scene) -> None:
        stage = Stage(scene)
        group, pods = stage.crew()
        watched(stage, how, group, pods)
        await stage.asleep()
        if sign == "one terminates":
            scene.pod("b", group="g", node="n1", going=True)
        else:
            scene.engine.remove(ObjectRef("Pod", uid="uid-b"), scene.now)
        scene.clock.advance(5)
        await stage.ended()
        assert stage.marks == []
        left = ["uid-a"] if sign == "one terminates" else ["uid-a", "uid-b"]
        assert scene.writes.deleted == (left if how == "reconsider" else [])

    run(test)


@pytest.mark.parametrize(("error", "again"), [(CUT, True), (GONE, False), (None, False)])
def test_mark_is_taken_back_as_often_as_it_takes(error: Exception | None, again: bool) -> None:
    async def test(scene: Scene) -> None:
        stage = Stage(scene)
        group, pods = stage.crew()
        scene.writes.errors = [error] if error else []
        stage.repairs.spare(group, pods)
        await stage.asleep()
        assert scene.clock.slept == ([5.0] if again else [])
        scene.clock.advance(5)
        await stage.ended()
        await stage.ended()
        assert sorted(stage.marks) == sorted([(uid, *SPARED) for uid in ("uid-g", "uid-a", "uid-b")] * (1 + again))
        assert stage.troubles == (["preemption: DisruptionTarget not taken back, trying again: cut"] if again else [])

    run(test)


def test_nothing_is_written_without_victims() -> None:
    async def test(scene: Scene) -> None:
        stage = Stage(scene)
        stage.repairs.spare(None, [])
        assert stage.tasks == []

    run(test)
