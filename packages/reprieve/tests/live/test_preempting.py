"""What is called for the victims of one preemption, in which order, and what every failure leaves (preemption.md 7, 9).

Without a server: calls are kept, and end as each case says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from reprieve.client.discovery import Resource
from reprieve.client.errors import ApiError, UnreachableError
from reprieve.client.leader_election import LeadershipLostError
from reprieve.cluster.pods import PodRecord
from reprieve.live.preemption_executor import PreemptionExecutor
from reprieve.preemption.outcome import Preemption, Reason, Verdict
from reprieve.preemption.units import PreemptionUnit
from tests.client.clock import until
from tests.live.scene import Recorded, Scene

REFUSED = ApiError(403, "Forbidden", "no")
UNSURE = ApiError(500, "", "broken")
CUT = UnreachableError("cut")
DEPOSED = LeadershipLostError("not the leader")
TARGET = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}


class InOrder(Recorded):
    """Also keeps all calls in one list, and lets those fail that `failing` names: `mark uid-a`, `delete uid-b`."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.failing: dict[str, Exception] = {}
        self.at: dict[str, Callable[[], object]] = {}
        """What happens as a call is made."""

    def patch_pod_status(self, namespace: str, name: str, uid: str, patch: Mapping[str, Any]) -> asyncio.Future[None]:
        if "nominatedNodeName" in patch:
            return self._called(f"nominate {uid}", super().patch_pod_status, namespace, name, uid, patch)
        what = "mark" if patch["conditions"][0]["status"] == "True" else "spare"
        return self._called(f"{what} {uid}", super().patch_pod_status, namespace, name, uid, patch)

    def patch_group_status(
        self,
        namespace: str,
        name: str,
        uid: str,
        conditions: Sequence[Mapping[str, Any]],
        *,
        kind: str = "PodGroup",
        resource: Resource | None = None,
    ) -> asyncio.Future[None]:
        what = "mark" if conditions[0]["status"] == "True" else "spare"
        return self._called(f"{what} {uid}", super().patch_group_status, namespace, name, uid, conditions)

    def delete_pod(self, namespace: str, name: str, uid: str) -> asyncio.Future[None]:
        return self._called(f"delete {uid}", super().delete_pod, namespace, name, uid)

    def _called(self, what: str, real: Callable[..., asyncio.Future[None]], *args: Any) -> asyncio.Future[None]:
        self.calls.append(what)
        self.at.get(what, lambda: None)()
        self.errors = [self.failing[what]] if what in self.failing else []
        return real(*args)


class Stage:
    """A preemptor, a listener, and victims on the one node; `hi` is to have their room."""

    def __init__(self, **named: Any) -> None:
        self.writes = InOrder()
        self.scene = Scene(writes=self.writes)
        self.ended: list[str | None] = []
        self.went: list[str] = []
        self.troubles: list[str] = []
        self.outcome: list[str] = []
        self.released: list[str] = []
        self.releases = True
        self.wanted = True
        self.preemptor = PreemptionExecutor(
            self.writes,
            self.scene.conditions,
            self,
            self.scene.clock,
            done=lambda key: self.outcome.append("done"),
            failed=lambda key, error: self.outcome.append(error),
            release=self._release,
            wanted=lambda key: self.wanted,
            **named,
        )

    async def _release(self, pod: PodRecord) -> bool:
        self.released.append(pod.uid)
        return self.releases

    def trouble(self, where: str, text: str) -> None:
        self.troubles.append(text)

    def evicted(self, pod: PodRecord, preemption: Preemption, *, now: float) -> None:
        assert now == self.scene.now
        self.went.append(pod.name)

    def preemption_ended(self, preemption: Preemption, *, seconds: float, error: str | None, now: float) -> None:
        assert (seconds, now) == (0.0, self.scene.now)
        self.ended.append(error)

    def leave(self) -> None:
        """The preemptor is gone."""
        self.wanted = False

    def crew(self, *names: str) -> PreemptionUnit:
        """A unit that is evicted as a whole; `a!` terminates already, `a?` has no node."""
        self.scene.group(everything=True)
        pods = tuple(self._victim(name, group="g") for name in names)
        return PreemptionUnit(
            "default/g", pods, (0,) * len(pods), 0, True, self.scene.engine.cluster.groups["default/g"]
        )

    def single(self, name: str) -> PreemptionUnit:
        found = self._victim(name)
        return PreemptionUnit(found.key, (found,), (0,), 0, False, None)

    def _victim(self, name: str, **more: Any) -> PodRecord:
        where: dict[str, Any] = {} if name.endswith("?") else {"node": "n1"}
        return self.scene.pod(name.rstrip("!?"), going=name.endswith("!"), **where, **more)

    def units(self, *named: str) -> list[PreemptionUnit]:
        """`a` is a pod, `a+b` a unit."""
        return [self.crew(*name.split("+")) if "+" in name else self.single(name) for name in named]

    def preemption(self, *units: PreemptionUnit, by: str = "hi") -> Preemption:
        """Of these units, for a pod that the API is yet to hear of as nominated."""
        pod = self.scene.pod(by, priority=100, cpu="99")
        self.scene.conditions.nominated(pod, "n1")
        why = Reason(pod, 0, "NodeResourcesFit", "Insufficient cpu")
        return Preemption(pod, None, 100, "n1", ((pod, 0),), tuple(Verdict(unit, False, why) for unit in units))

    @property
    def calls(self) -> list[str]:
        """Those for victims, `a` for `uid-a`."""
        return [call.replace("uid-", "") for call in self.writes.calls if not call.startswith("nominate")]

    async def minute(self) -> None:
        """A minute passes, in steps that every task sees."""
        for _ in range(13):
            await until(lambda: self.scene.clock.sleeping or not self.preemptor.under_way)
            self.scene.clock.advance(5)
        await until(lambda: not self.preemptor.under_way)


def play(test: Callable[[Stage], Awaitable[None]], **named: Any) -> None:
    async def act() -> None:
        stage = Stage(**named)
        try:
            await test(stage)
        finally:
            await stage.preemptor.aclose()

    asyncio.run(act())


# -- the order of calls


@pytest.mark.parametrize(
    ("victims", "calls", "went"),
    [
        (["a"], ["mark a", "delete a"], ["a"]),
        (["a", "b"], ["mark a", "delete a", "mark b", "delete b"], ["a", "b"]),
        (["a+b"], ["mark a", "mark b", "mark g", "delete a", "delete b"], ["a", "b"]),
        (["a+b", "c"], ["mark a", "mark b", "mark g", "delete a", "delete b", "mark c", "delete c"], ["a", "b", "c"]),
        (["a!"], [], []),
        (["a!+b"], ["mark b", "mark g", "delete b"], ["b"]),
        (["a?"], [], ["a"]),
        (["a?+b+c"], ["mark b", "mark c", "mark g", "delete b", "delete c"], ["a", "b", "c"]),
    ],
)
def test_calls_for_victims(victims: list[str], calls: list[str], went: list[str]) -> None:
    """preemption.md 7.2: pods are marked, then their group, then they are deleted; the last unit after the others.

    Nothing is called for a terminating pod (`!`), nor for one without a node (`?`), which frees capacity all the same.
    """

    async def test(stage: Stage) -> None:
        await stage.preemptor.run(stage.preemption(*stage.units(*victims)))
        assert stage.calls == calls
        assert stage.went == went
        assert (stage.outcome, stage.ended, stage.released) == (["done"], [None], [])

    play(test)


def test_last_unit_is_marked_with_the_others_and_goes_after_them() -> None:
    async def test(stage: Stage) -> None:
        await stage.preemptor.run(stage.preemption(*stage.units("a", "b+c")))
        assert sorted(stage.calls[:4]) == ["delete a", "mark a", "mark b", "mark c"]
        assert stage.calls[4:] == ["mark g", "delete b", "delete c"]

    play(test)


def test_no_victim_is_touched_before_the_api_knows_the_preemptor() -> None:
    """preemption.md 7.2: the nomination comes first; meanwhile the preemption is under way."""

    async def test(stage: Stage) -> None:
        stage.writes.hold = True
        stage.preemptor.start(stage.preemption(*stage.units("a", "b+c")))
        await until(lambda: stage.writes.held)
        for _ in range(10):
            await asyncio.sleep(0)
        assert (stage.writes.calls, stage.preemptor.under_way) == (["nominate uid-hi"], 1)
        stage.writes.hold = False
        stage.writes.held[0].set_result(None)
        await until(lambda: not stage.preemptor.under_way)
        assert stage.outcome == ["done"]

    play(test)


@pytest.mark.parametrize("victims", [["a", "b", "c", "d"], ["a+b+c+d"]])
def test_no_more_calls_are_under_way_than_may_be(victims: list[str]) -> None:
    """Pods and members of a unit alike."""

    async def test(stage: Stage) -> None:
        preemption = stage.preemption(*stage.units(*victims))
        await stage.scene.conditions.drain()
        stage.writes.hold = True
        stage.preemptor.start(preemption)
        while stage.preemptor.under_way:
            await until(lambda: stage.writes.held or not stage.preemptor.under_way)
            for _ in range(10):
                await asyncio.sleep(0)
            assert len(stage.writes.held) <= 2
            for future in stage.writes.held[:1]:
                stage.writes.held.remove(future)
                future.set_result(None)
            await asyncio.sleep(0)
        assert stage.outcome == ["done"]

    play(test, parallel=2)


@pytest.mark.parametrize("in_time", [True, False])
def test_binding_of_a_victim_that_is_only_reserved_is_taken_back(in_time: bool) -> None:
    """preemption.md 7.2: without a call; one that turns out to be bound is deleted like any other."""

    async def test(stage: Stage) -> None:
        stage.releases = in_time
        record = stage.scene.pod("low")
        stage.scene.engine.step(stage.scene.now)
        assert record.row == 0
        unit = PreemptionUnit(record.key, (record,), (0,), 0, False, None)
        await stage.preemptor.run(stage.preemption(unit))
        assert stage.released == ["uid-low"]
        assert stage.calls == ([] if in_time else ["mark low", "delete low"])
        assert (stage.went, stage.outcome) == (["low"], ["done"])

    play(test)


def test_closed_runner_ends_nothing() -> None:
    async def test(stage: Stage) -> None:
        stage.writes.hold = True
        task = stage.preemptor.start(stage.preemption(*stage.units("a")))
        await until(lambda: stage.writes.held)
        await stage.preemptor.aclose()
        assert task.cancelled()
        assert (stage.preemptor.under_way, stage.outcome, stage.ended) == (0, [], [])

    play(test)


# -- what fails


SPARED = ["spare g", "spare a", "spare b"]
MARKED = ["mark a", "mark b", "mark g"]
FAILURES: dict[str, tuple[list[str], dict[str, Exception], list[str]]] = {
    "the nomination": (["a", "b+c"], {"nominate hi": CUT}, []),
    "the mark of a pod": (["a"], {"mark a": REFUSED}, ["mark a", "spare a"]),
    "the mark of the first of two": (["a", "b"], {"mark a": REFUSED}, ["mark a", "spare a"]),
    "the mark of a member": (["a+b"], {"mark a": REFUSED}, ["mark a", "mark b", "spare a", "spare b"]),
    "the mark of a group": (["a+b"], {"mark g": REFUSED}, [*MARKED, *SPARED]),
    "the deletion of a pod": (["a"], {"delete a": REFUSED}, ["mark a", "delete a", "spare a"]),
    "the deletion of the first of two": (["a", "b"], {"delete a": REFUSED}, ["mark a", "delete a", "spare a"]),
    "the deletion of a unit": (["a+b"], {"delete a": REFUSED}, [*MARKED, "delete a", *SPARED]),
    "the mark of the second of two": (
        ["a", "b"],
        {"mark b": REFUSED},
        ["mark a", "delete a", "mark b", "spare b"],
    ),
    "the mark of a group of terminating pods": (["a!+b!"], {"mark g": REFUSED}, ["mark g", "spare g"]),
    "an unexpected error": (["a"], {"mark a": ValueError("surprise")}, ["mark a", "spare a"]),
    "the right to act, at a mark": (["a+b"], {"mark g": DEPOSED}, MARKED),
    "the right to act, at a deletion": (["a+b"], {"delete a": DEPOSED}, [*MARKED, "delete a"]),
}


@pytest.mark.parametrize("what", FAILURES)
def test_failure_leaves(what: str) -> None:
    """preemption.md 7.5: a marked pod that was not deleted loses its mark, and no further victim is begun."""
    victims, failing, calls = FAILURES[what]

    async def test(stage: Stage) -> None:
        units = stage.units(*victims)
        stage.writes.failing = {
            f"{verb} uid-{name}": error for (verb, name), error in ((c.split(), e) for c, e in failing.items())
        }
        await stage.preemptor.run(stage.preemption(*units))
        for _ in range(10):
            await asyncio.sleep(0)
        assert stage.calls == calls
        [error] = failing.values()
        text = f"ValueError: {error}" if isinstance(error, ValueError) else str(error)
        assert (stage.outcome, stage.ended) == ([text], [text])
        deleted = [call.split()[1] for call in calls if call.startswith("delete") and call not in failing]
        assert stage.went == deleted

    play(test)


def test_failure_begins_no_further_victim() -> None:
    """preemption.md 7.5: nor is a pod deleted that was marked meanwhile."""

    async def test(stage: Stage) -> None:
        preemption = stage.preemption(*stage.units("a", "b", "c"))
        await stage.scene.conditions.drain()
        stage.writes.hold = True
        task = stage.preemptor.start(preemption)
        await until(lambda: len(stage.writes.held) == 2)
        first, second = stage.writes.held
        stage.writes.hold = False
        first.set_exception(REFUSED)
        for _ in range(5):
            await asyncio.sleep(0)
        assert stage.ended == [], "not before all that was begun has ended"
        second.set_result(None)
        await task
        assert stage.calls == ["mark a", "mark b", "spare a", "spare b"]
        assert stage.outcome == [str(REFUSED)]

    play(test)


def test_failure_within_a_unit_waits_for_the_calls_beside_it() -> None:
    async def test(stage: Stage) -> None:
        preemption = stage.preemption(*stage.units("a+b+c"))
        stage.writes.at["delete uid-a"] = lambda: setattr(stage.writes, "hold", True)
        task = stage.preemptor.start(preemption)
        await until(lambda: len(stage.writes.held) == 2)
        first, second = stage.writes.held
        stage.writes.hold = False
        stage.writes.at.clear()
        first.set_exception(REFUSED)
        for _ in range(5):
            await asyncio.sleep(0)
        assert stage.ended == []
        second.set_result(None)
        await task
        await until(lambda: not stage.preemptor.under_way)
        assert stage.went == ["b"]
        assert sorted(stage.writes.deleted[2:]) == ["uid-a", "uid-b", "uid-c"], "what is left of it follows"

    play(test)


def test_victims_of_a_group_have_the_group_in_their_condition() -> None:
    """observability.md: the preemptor, by the scheduler of its pods."""

    async def test(stage: Stage) -> None:
        [unit] = stage.units("a")
        stage.scene.group()
        pod = stage.scene.pod("hi", group="g", schedulerName="mine")
        found = replace(
            stage.preemption(unit),
            pod=None,
            group=stage.scene.engine.cluster.groups["default/g"],
            nominations=((pod, 0),),
        )
        stage.writes.pods.clear()
        await stage.preemptor.run(found)
        told = [patch["conditions"][0]["message"] for uid, patch in stage.writes.pods if uid == "uid-a"]
        assert told == ["mine: preempting to accommodate a higher priority podgroup"]

    play(test)


@pytest.mark.parametrize("failing", ["a", "c"])
def test_unit_with_a_begun_deletion_is_finished(failing: str) -> None:
    """9: as often as it takes; the last of it goes when the others have."""

    async def test(stage: Stage) -> None:
        units = stage.units("a+b+c")
        stage.writes.failing = {f"delete uid-{failing}": REFUSED}
        await stage.preemptor.run(stage.preemption(*units))
        begun = [call for call in stage.calls if call.startswith("delete")]
        assert begun == (["delete a", "delete b"] if failing == "a" else ["delete a", "delete b", "delete c"])
        stage.writes.failing.clear()
        await until(lambda: not stage.preemptor.under_way)
        assert sorted(stage.writes.deleted[len(begun) :]) == ["uid-a", "uid-b", "uid-c"]
        assert not any(call.startswith("spare") for call in stage.calls)
        assert stage.outcome == [str(REFUSED)]

    play(test)


def test_unit_of_which_nothing_was_deleted_stays_after_some_seconds() -> None:
    """9: the API may have carried the deletion out; when no pod of it goes its condition says that it stays."""

    async def test(stage: Stage) -> None:
        units = stage.units("a+b")
        stage.writes.failing = {"delete uid-a": UNSURE}
        await stage.preemptor.run(stage.preemption(*units))
        assert stage.calls == [*MARKED, "delete a"]
        await stage.minute()
        assert stage.calls == [*MARKED, "delete a", *SPARED]

    play(test)


@pytest.mark.parametrize(
    ("victims", "at", "calls"),
    [
        (["a"], None, []),
        (["a"], "mark uid-a", ["mark a", "spare a"]),
        (["a+b"], None, []),
        (["a+b"], "mark uid-b", ["mark a", "mark b", "spare a", "spare b"]),
        (["a+b"], "mark uid-g", [*MARKED, *SPARED]),
        (["a+b"], "delete uid-a", [*MARKED, "delete a", "delete b"]),
        (["a", "b"], "delete uid-a", ["mark a", "delete a"]),
    ],
)
def test_no_pods_are_evicted_for_a_deleted_preemptor(victims: list[str], at: str | None, calls: list[str]) -> None:
    """preemption.md 7.5: up to the first deletion of a unit; a unit with a begun deletion is evicted as a whole."""

    async def test(stage: Stage) -> None:
        preemption = stage.preemption(*stage.units(*victims))
        if at is None:
            stage.leave()
        else:
            stage.writes.at[at] = stage.leave
        await stage.preemptor.run(preemption)
        assert stage.calls == calls
        whole = at == "delete uid-a" and victims == ["a+b"]
        assert stage.outcome == ["done" if whole else "the preemptor does not exist any more"]

    play(test)


def test_victim_of_another_preemption_keeps_its_disruption_target() -> None:
    """preemption.md 7.5: as long as that is under way, also where it has called nothing yet."""

    async def test(stage: Stage) -> None:
        [unit] = stage.units("a")
        stage.writes.hold = True
        first = stage.preemptor.start(stage.preemption(unit))
        await until(lambda: stage.writes.held)
        stage.writes.hold = False
        stage.writes.failing = {"mark uid-a": REFUSED}
        await stage.preemptor.run(stage.preemption(unit, by="other"))
        assert stage.calls == ["mark a"]
        stage.writes.failing.clear()
        stage.writes.held[0].set_result(None)
        await first
        assert stage.calls == ["mark a", "mark a", "delete a"]

    play(test)


# -- what a killed scheduler left


RESUMED: dict[str, tuple[bool, int, dict[str, str], int | None, list[str]]] = {
    # the group is marked; how many it needs; members: (m)arked, (g)oing; priority of the preemptor; what is called
    "no pod is marked": (False, 2, {"a": "", "b": ""}, 9, []),
    "all are marked and fewer run than it needs": (True, 3, {"a": "m", "b": "m"}, None, ["delete a", "delete b"]),
    "all are marked and a preemptor waits": (True, 2, {"a": "m", "b": "m"}, 9, ["delete a", "delete b"]),
    "all are marked, and the preemptor is no more important": (True, 2, {"a": "m", "b": "m"}, 3, SPARED),
    "all are marked, no preemptor waits and enough run": (True, 2, {"a": "m", "b": "m"}, None, SPARED),
    "the group is not marked": (False, 3, {"a": "m", "b": "m"}, 9, ["spare a", "spare b"]),
    "not all are marked": (True, 3, {"a": "m", "b": ""}, 9, ["spare g", "spare a"]),
    "the group alone is marked": (True, 2, {"a": "", "b": ""}, 9, ["spare g"]),
    "one goes": (False, 1, {"a": "m", "b": "mg"}, None, ["delete a"]),
    "one goes for another reason": (False, 1, {"a": "m", "b": "g"}, None, ["spare a"]),
    "all go": (True, 2, {"a": "mg", "b": "mg"}, 9, []),
}


@pytest.mark.parametrize("what", RESUMED)
def test_preemption_of_a_killed_scheduler_is_finished_or_taken_back(what: str) -> None:
    """9: finished past the point of no return; else nothing happens if no preemptor wants it within a minute."""
    told, least, members, waiting, calls = RESUMED[what]

    async def test(stage: Stage) -> None:
        scene = stage.scene
        for other in (False, True):  # its pods are evicted one by one, and one without a mark
            scene.group(name=f"other-{other}", uid=f"uid-{other}", everything=other, count=9)
            scene.pod(f"of-{other}", group=f"other-{other}", node="n1", status=None if other else TARGET)
        scene.group(everything=True, count=least, status=TARGET if told else None, priority=3)
        for name, how in members.items():
            scene.pod(name, group="g", node="n1", status=TARGET if "m" in how else None, going="g" in how)
        if waiting is not None:
            scene.pod("hi", priority=waiting, status={"nominatedNodeName": "n1"})
        stage.preemptor.resume(scene.engine.cluster)
        if calls and calls[0].startswith("spare"):
            await until(lambda: scene.clock.sleeping)
            assert stage.calls == []
        await stage.minute()
        assert stage.calls == calls

    play(test)


def test_marked_pods_that_go_one_by_one_are_left_alone() -> None:
    """Each of them is a unit of its own: a new preemptor decides again."""

    async def test(stage: Stage) -> None:
        stage.scene.group(count=3, status=TARGET)
        stage.scene.pod("a", group="g", node="n1", status=TARGET)
        stage.preemptor.resume(stage.scene.engine.cluster)
        assert stage.preemptor.under_way == 0

    play(test)
