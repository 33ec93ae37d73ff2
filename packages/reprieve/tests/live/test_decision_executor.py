"""Execution of decisions: what is reported, and what goes back to the engine (scheduling.md 2, 3.6)."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from kube_rules import objects as o
from reprieve.client.errors import ApiError
from reprieve.client.informer import ChangeKind
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.instructions import CreateObject, DeleteObject, PatchObject
from reprieve.framework.plugin import CycleState, PerNodeFilter, PreEnqueuePlugin
from reprieve.framework.status import Status
from reprieve.live.extenders import Bodies, ExtenderCalls
from reprieve.plugins.extender import ExtenderError
from reprieve.scheduling.decision import SCHEDULER_ERROR, Binding, Decision, GroupCondition, Rejection, Result
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from tests.building import profile_with
from tests.client.clock import until
from tests.live.executor_stage import Stage, play, the_group
from tests.live.faults import Json, group, node, pod


def test_binding_that_the_api_has_is_reported_to_engine_and_observer() -> None:
    async def test(stage: Stage) -> None:
        stage.pod("a", cpu="1")
        stage.step()
        await until(lambda: "a" in stage.writes.bindings)
        assert stage.executor.bindings_under_way == 1
        assert not stage.engine.cluster.pods["uid-a"].bound
        stage.writes.bindings["a"].set_result(None)
        await stage.settle()
        assert stage.observer.recorded("bound") == [("a", "n1")]
        assert stage.engine.cluster.pods["uid-a"].bound
        assert stage.executor._first_bindings == {}

    play(test)


def test_gang_that_was_bound_before_a_restart_gets_its_condition() -> None:
    """observability.md 1.5: the scheduler was killed after the bindings, before it had written the condition."""

    async def test(stage: Stage) -> None:
        stage.see(the_group(2), o.PodGroup)
        for name in ("a", "b"):
            stage.pod(name, group="g", cpu="1", nodeName="n1")
        [state] = stage.engine.step(stage.now).satisfaction
        stage.executor.satisfaction_changed(state)
        await stage.settle()
        assert ("True", "") in stage.group_conditions

    play(test)


def test_failed_binding_is_reported_on_its_pod() -> None:
    """By its condition and by an event; one that is gone meanwhile has nothing to say."""

    why = "binding rejected: no (403 Forbidden)"

    async def test(stage: Stage) -> None:
        for name in ("a", "b"):
            stage.pod(name, cpu="1")
            stage.step()
        await until(lambda: len(stage.writes.bindings) == 2)
        stage.writes.bindings["a"].set_exception(ApiError(403, "Forbidden", "no"))
        await until(lambda: stage.executor.bindings_under_way == 1)
        stage.writes.bindings["b"].set_exception(ApiError(404, "NotFound", "no"))
        await stage.settle()
        assert stage.observer.recorded("bind failed") == [("a", why)]
        said = [
            (uid, patch["conditions"][0]["reason"], patch["conditions"][0]["message"])
            for uid, patch in stage.writes.pods
        ]
        assert said == [("uid-a", "SchedulerError", why)]
        assert stage.engine.cluster.pods["uid-a"].row < 0

    play(test)


@pytest.mark.parametrize(("failing", "below"), [(1, False), (2, True)])
def test_gang_that_falls_below_its_minimum_by_a_failed_binding_is_reported(failing: int, below: bool) -> None:
    """scheduling.md 3.6: three were placed of a gang of two; its word is taken back when fewer than two are left."""

    async def test(stage: Stage) -> None:
        stage.gang("a", "b", "c", least=2)
        stage.step()
        assert stage.executor._first_bindings.keys() == {"default/g"}
        await until(lambda: len(stage.writes.bindings) == 3)
        names = ["a", "b", "c"]
        for name in names[:failing]:
            stage.writes.bindings[name].set_exception(ApiError(403, "Forbidden", "no"))
        for name in names[failing:]:
            stage.writes.bindings[name].set_result(None)
        await stage.settle()
        assert stage.executor._first_bindings == {}
        assert [status for status, _ in stage.group_conditions][-1] == ("False" if below else "True")
        if below:
            assert "failed: no (403 Forbidden); 1 of the 2 have a node" in stage.group_conditions[-1][1]

    play(test)


@pytest.mark.parametrize(
    ("needed", "failing", "expected"),
    [
        (1, ("a",), {"uid-left": "False", "uid-mid": "False", "uid-right": "True", "uid-root": "True"}),
        (2, ("a",), {"uid-left": "False", "uid-mid": "False", "uid-right": "True", "uid-root": "False"}),
        (2, (), dict.fromkeys(("uid-left", "uid-mid", "uid-right", "uid-root"), "True")),
    ],
)
def test_composites_above_a_gang_that_falls_below_its_minimum_are_reported(
    needed: int, failing: tuple[str, ...], expected: dict[str, str]
) -> None:
    """scheduling.md 3.6 and composite.md 5: up to where enough other groups have their pods."""

    def composite(name: str, least: int, parent: str = "") -> Json:
        spec = {"schedulingPolicy": {"gang": {"minGroupCount": least}}, "parentCompositePodGroupName": parent}
        return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}, "spec": spec}

    def leaf(name: str, parent: str) -> Json:
        made = group(name, count=1)
        made["metadata"]["uid"] = f"uid-{name}"
        made["spec"]["parentCompositePodGroupName"] = parent
        return made

    async def test(stage: Stage) -> None:
        stage.see(composite("root", needed), o.CompositePodGroup)
        stage.see(composite("mid", 1, "root"), o.CompositePodGroup)
        stage.see(leaf("left", "mid"), o.PodGroup)
        stage.see(leaf("right", "root"), o.PodGroup)
        for name, where in (("a", "left"), ("b", "right")):
            stage.pod(name, cpu="1", group=where)
        while len(stage.writes.bindings) < 2:
            stage.step()
            await asyncio.sleep(0)
        for name, future in stage.writes.bindings.items():
            if name in failing:
                future.set_exception(ApiError(403, "Forbidden", "no"))
            else:
                future.set_result(None)
        await stage.settle()
        assert {uid: said["status"] for uid, said, _ in stage.writes.groups} == expected

    play(test)


def test_member_that_came_later_takes_nothing_back() -> None:
    """scheduling.md 3.6 is about the pods that the group was first scheduled with."""

    async def test(stage: Stage) -> None:
        stage.gang("a", least=1)
        stage.step()
        await until(lambda: stage.writes.bindings)
        stage.writes.bindings["a"].set_result(None)
        await stage.settle()
        stage.pod("b", group="g", cpu="1")
        stage.step()
        assert stage.executor._first_bindings == {}
        await until(lambda: "b" in stage.writes.bindings)
        stage.see(pod("a", uid="uid-a", group="g", cpu="1", node="n1"), o.Pod, ChangeKind.DELETED)
        stage.writes.bindings["b"].set_exception(ApiError(403, "Forbidden", "no"))
        await stage.settle()
        assert [status for status, _ in stage.group_conditions] == ["True"]

    play(test)


def test_group_that_is_gone_is_forgotten_with_its_bindings() -> None:
    async def test(stage: Stage) -> None:
        stage.gang("a", "b", least=2)
        stage.step()
        assert stage.executor._first_bindings.keys() == {"default/g"}
        stage.see(the_group(2), o.PodGroup, ChangeKind.DELETED)
        assert stage.executor._first_bindings == {}
        for future in stage.writes.bindings.values():
            future.set_exception(ApiError(403, "Forbidden", "no"))
        await stage.settle()
        assert stage.group_conditions == []

    play(test)


def test_changes_of_an_informer_reach_the_conditions() -> None:
    """A pod that is gone before its word was sent has none; one that is seen has one; groups alike."""

    async def test(stage: Stage) -> None:
        stage.pod("a", cpu="9")
        stage.pod("b", cpu="9")
        stage.gang("c", "d", least=2, cpu="9")
        for _ in range(3):
            stage.step()
        stage.see(pod("b", uid="uid-b", cpu="9"), o.Pod, ChangeKind.DELETED)
        stage.see(the_group(2), o.PodGroup, ChangeKind.DELETED)
        await stage.settle()
        assert "uid-a" in {uid for uid, _ in stage.writes.pods}
        assert "uid-b" not in {uid for uid, _ in stage.writes.pods}
        assert stage.writes.groups == []

    play(test)


def test_tick_attends_to_what_comes_with_no_event() -> None:
    """Series of events end, gated pods have a condition, failing plugins a report; what was left is resumed once."""

    class Broken(PerNodeFilter):
        name = "Broken"

        def filter_node(self, state: CycleState, row: int) -> tuple[str, bool] | None:
            raise ZeroDivisionError("by design")

    profile = profile_with(Broken())

    async def test(stage: Stage) -> None:
        target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        unit = group("u", count=1, everything=True)
        unit["metadata"]["uid"] = "uid-u"
        unit["status"] = {"conditions": [target]}
        stage.see(unit, o.PodGroup)
        for name in ("x", "y"):
            body = pod(name, uid=f"uid-{name}", group="u", node="n1") | {"status": {"conditions": [target]}}
            if name == "y":
                body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            stage.see(body)
        stage.pod("waits", group="nowhere")
        stage.clock.advance(6)
        for _ in range(2):
            stage.executor.tick(stage.now)
            await stage.settle()
        await until(lambda: not stage.executor.preemptor.under_way)
        assert stage.observer.recorded("tick") == [stage.now] * 2
        assert stage.writes.deleted == ["uid-x"], "a unit past the point of no return is finished, once"
        assert [uid for uid, _ in stage.writes.pods] == ["uid-waits"]
        stage.pod("a", cpu="1")
        stage.step()
        assert [text for text in stage.observer.troubles if text.startswith("plugin: ")]

    play(test, Engine(EngineOptions({profile.name: profile}, validate=True)))


def test_trouble_of_plugins_outside_of_decisions_is_reported() -> None:
    """A plugin that fails as a pod comes, while there is nothing to decide."""

    class Broken(PreEnqueuePlugin):
        name = "Broken"

        def pre_enqueue(self, cluster: ClusterState, pod: PodRecord) -> Status:
            raise ZeroDivisionError("by design")

    profile = profile_with(Broken())

    async def test(stage: Stage) -> None:
        stage.pod("a")
        [told] = stage.observer.troubles
        assert told.startswith("plugin: ")
        assert "Traceback" in told, "the traceback is part of the report"

    play(test, Engine(EngineOptions({profile.name: profile}, validate=True)))


def test_closed_runner_has_nothing_under_way() -> None:
    """Preemptions and bindings: neither is reported any more."""

    async def test(stage: Stage) -> None:
        stage.pod("low", cpu="4", node="n1")
        stage.pod("hi", cpu="4", priority=100)
        stage.writes.hold = True
        stage.step()
        stage.engine.set(msgspec.convert(node("n2"), o.Node), stage.now)
        stage.pod("a", cpu="1")
        stage.step()
        await until(lambda: stage.writes.held and stage.writes.bindings)
        assert stage.executor.preemptor.under_way == 1
        await stage.executor.aclose()
        assert stage.executor.preemptor.under_way == 0
        stage.writes.bindings["a"].set_result(None)
        await asyncio.sleep(0)
        assert stage.observer.recorded("bound") == []
        assert stage.observer.ended == []

    play(test)


@pytest.mark.parametrize("error", [None, ApiError(409, "Conflict", "another client wrote")])
@pytest.mark.parametrize(
    "wanted",
    [
        PatchObject("PersistentVolumeClaim", "default", "c", {"metadata": {}}),
        DeleteObject("ResourceClaim", "default", "c", "uid-c"),
    ],
)
def test_deferred_write_that_fails_is_reported_and_not_repeated(
    wanted: PatchObject | DeleteObject, error: Exception | None
) -> None:
    async def test(stage: Stage) -> None:
        stage.writes.errors = [error] if error else []
        stage.executor.deferred_writes([wanted, CreateObject("PersistentVolumeClaim", "default", {})])
        await asyncio.sleep(0)
        assert stage.writes.patched == [wanted]
        assert stage.observer.troubles == (["write: another client wrote (409 Conflict)"] if error else [])
        stage.writes.hold = True
        stage.executor.deferred_writes([wanted])
        stage.writes.held[0].cancel()
        await asyncio.sleep(0)
        assert len(stage.observer.troubles) == (1 if error else 0)

    play(test)


def test_permit_decisions_are_carried_out() -> None:
    async def test(stage: Stage) -> None:
        for name in ("a", "b", "c"):
            stage.pod(name, cpu="1")
        records = stage.engine.cluster.pods
        stage.executor.permitted(
            [Binding(records["uid-a"], "n1", 0)],
            [
                Rejection(records["uid-b"], "Unschedulable", "not today"),
                Rejection(records["uid-c"], SCHEDULER_ERROR, "broken"),
            ],
        )
        await until(lambda: list(stage.writes.bindings) == ["a"])
        stage.writes.bindings["a"].set_result(None)
        await stage.settle()
        assert stage.observer.recorded("permitted") == [("a", "Success"), ("b", "Unschedulable"), ("c", "Error")]
        assert stage.observer.recorded("bind failed") == [("b", "not today"), ("c", "broken")]
        assert [(uid, patch["conditions"][0]["message"]) for uid, patch in stage.writes.pods] == [
            ("uid-b", "not today"),
            ("uid-c", "broken"),
        ]

    play(test)


def test_extenders_get_objects_as_informers_had_them_last() -> None:
    """What is gone has none any more: a call about it would tell of the past."""
    bodies = Bodies()

    async def test(stage: Stage) -> None:
        stage.pod("a")
        record = stage.engine.cluster.pods["uid-a"]
        assert bodies.pod(record)["metadata"]["name"] == "a"
        stage.see(pod("a", uid="uid-a"), how=ChangeKind.DELETED)
        with pytest.raises(ExtenderError):
            bodies.pod(record)

    play(test, extenders=ExtenderCalls((), bodies))


def test_conditions_are_waited_for_but_not_for_ever() -> None:
    async def test(stage: Stage) -> None:
        stage.pod("a", cpu="9")
        stage.step()
        stage.writes.hold = True
        await stage.executor.conditions_written(0.0)
        waiting = asyncio.create_task(stage.executor.conditions_written(1e6))
        await until(lambda: stage.writes.held)
        assert not waiting.done()
        stage.writes.held[0].set_result(None)
        await waiting

    play(test)


def test_group_is_first_scheduled_once() -> None:
    """Its later placements are not first ones."""

    async def test(stage: Stage) -> None:
        stage.gang("a", least=1)
        stage.step()
        await until(lambda: stage.writes.bindings)
        await stage.executor.conditions_written(5.0)
        records = stage.engine.cluster.pods
        again = Decision(
            "group/default/g",
            Result.SCHEDULED,
            bindings=(),
            waiting=(Binding(records["uid-a"], "n1", 0),),
            conditions=(GroupCondition("default/g", True, "Scheduled", ""),),
        )
        stage.writes.bindings["a"].set_result(None)
        await stage.settle()
        assert stage.executor._first_bindings == {}
        stage.executor.decided(again, seconds=0.0, now=stage.now)
        assert stage.executor._first_bindings == {}

    play(test)
