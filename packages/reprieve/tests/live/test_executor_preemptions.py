"""What happens to victims, to the capacity they free and to nominations (preemption.md 7, cost.md 5)."""

from __future__ import annotations

import asyncio

import pytest

from kube_rules import objects as o
from reprieve.client.errors import ApiError
from reprieve.cluster.pods import PodRecord
from reprieve.framework.gates import FeatureGates
from reprieve.plugins.reservations import ReservationOptions, ReservationsPlugin
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.scheduling.decision import Result
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from reprieve.scheduling.preemptor_reservations import Released, ReleasedReservation
from tests.building import profile_with
from tests.client.clock import until
from tests.live.executor_stage import LateLoop, Loop, Stage, play, the_group
from tests.live.faults import pod


@pytest.mark.parametrize("late", [False, True])
def test_victim_with_an_unsent_binding_releases_its_capacity_without_a_call(late: bool) -> None:
    """preemption.md 7.2: also where the engine hears of it only when a cycle is over."""

    async def test(stage: Stage) -> None:
        loop = LateLoop(stage.clock) if late else Loop(stage.clock)
        stage.executor.attach(loop)
        stage.pod("low", cpu="4")
        stage.engine.step(stage.now)  # reserved; its binding is yet to be begun
        low = stage.engine.cluster.pods["uid-low"]
        assert low.row >= 0
        stage.pod("hi", cpu="4", priority=100)
        assert stage.step().preemption is not None
        await until(lambda: not stage.executor.preemptor.under_way)
        await loop.calls_made()
        assert low.row < 0
        assert stage.writes.deleted == []

    play(test)


def test_victim_that_turns_out_to_be_bound_is_deleted() -> None:
    """preemption.md 7.2: an informer was quicker than the report of the released pod; the first node is one, too."""

    async def test(stage: Stage) -> None:
        loop = LateLoop(stage.clock)
        stage.executor.attach(loop)
        stage.pod("low", cpu="4")
        stage.engine.step(stage.now)
        loop.call_soon(lambda _: stage.pod("low", cpu="4", node="n1"))
        stage.pod("hi", cpu="4", priority=100)
        assert stage.step().preemption is not None
        await until(lambda: not stage.executor.preemptor.under_way)
        assert stage.engine.cluster.pods["uid-low"].row == 0
        assert stage.writes.deleted == ["uid-low"]

    play(test)


def test_victim_that_was_bound_after_all_is_deleted() -> None:
    """preemption.md 7.2: what has been sent is waited for."""

    async def test(stage: Stage) -> None:
        stage.pod("low", cpu="4")
        stage.step()
        await until(lambda: stage.writes.bindings)
        stage.writes.sent = True
        stage.pod("hi", cpu="4", priority=100)
        assert stage.step().preemption is not None
        await until(lambda: stage.writes.taken)
        assert stage.writes.deleted == []
        stage.writes.bindings["low"].set_result(None)
        await until(lambda: not stage.executor.preemptor.under_way)
        assert stage.writes.deleted == ["uid-low"]

    play(test)


def test_preemption_that_failed_is_decided_anew_at_once() -> None:
    """preemption.md 7.5: its victims have no preemptor, and the preemptor has no nomination any more."""

    async def test(stage: Stage) -> None:
        stage.pod("low", cpu="4", node="n1")
        stage.pod("hi", cpu="4", priority=100)
        stage.writes.errors = [
            ApiError(403, "Forbidden", "no")
        ] * 2  # once more for the task that waits for the nomination
        stage.step()
        assert stage.engine.cluster.doomed
        await until(lambda: not stage.executor.preemptor.under_way)
        assert not stage.engine.cluster.doomed
        assert stage.engine.cluster.pods["uid-hi"].nominated < 0
        assert stage.writes.deleted == []
        again = stage.step()
        assert again.preemption is not None
        await until(lambda: not stage.executor.preemptor.under_way)
        assert stage.writes.deleted == ["uid-low"]

    play(test)


@pytest.mark.parametrize("of", ["pod", "group"])
def test_preemption_that_failed_is_said_in_conditions_and_events(of: str) -> None:
    """observability.md 1.10, 2.8: the calls to evict failed, which is trouble and no lack of resources."""

    async def test(stage: Stage) -> None:
        stage.pod("low", cpu="4", node="n1")
        if of == "group":
            item = the_group(1)
            item["spec"]["priority"] = 100
            stage.see(item, o.PodGroup)
        stage.pod("hi", cpu="4", priority=100, **({"group": "g"} if of == "group" else {}))
        refusal = ApiError(403, "Forbidden", "no")

        def refused(namespace: str, name: str, uid: str) -> asyncio.Future[None]:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            future.set_exception(refusal)
            return future

        stage.writes.delete_pod = refused  # type: ignore[method-assign]
        assert stage.step().preemption is not None
        await until(lambda: not stage.executor.preemptor.under_way)
        await stage.settle()
        said = "preemption failed: no (403 Forbidden)"
        patches = [patch for uid, patch in stage.writes.pods if uid == "uid-hi"]
        conditions = [found for patch in patches for found in patch.get("conditions", ())]
        assert (conditions[-1]["reason"], conditions[-1]["message"]) == ("SchedulerError", said)
        if of == "group":
            (_, condition, _) = stage.writes.groups[-1]
            assert (condition["reason"], condition["message"]) == ("SchedulerError", said)
        told = [
            (found["reason"], found["regarding"]["kind"]) for found in stage.observer.events if found["note"] == said
        ]
        assert told == [("FailedScheduling", kind) for kind in (["PodGroup", "Pod"] if of == "group" else ["Pod"])]

    play(test)


@pytest.mark.parametrize("asynchronous", [True, False])
def test_victims_are_evicted_beside_or_within_the_cycle(asynchronous: bool) -> None:
    """preemption.md 7.6: without SchedulerAsyncPreemption it is the loop that waits for the calls."""
    engine = Engine(EngineOptions(gates=FeatureGates(scheduler_async_preemption=asynchronous), validate=True))

    async def test(stage: Stage) -> None:
        stage.pod("low", cpu="4", node="n1")
        stage.pod("hi", cpu="4", priority=10)
        decision = stage.step()
        assert decision.result is Result.WAITING
        assert decision.preemption is not None
        await asyncio.sleep(0)
        assert stage.executor.preemptor.under_way == asynchronous
        if asynchronous:
            await until(lambda: stage.writes.deleted)
        else:
            assert stage.writes.deleted == []
            await stage.executor.preempt(decision.preemption)
        assert stage.writes.deleted == ["uid-low"]

    play(test, engine)


def test_victim_that_is_only_reserved_gives_its_room_back_without_a_call() -> None:
    """preemption.md 7.2: its binding is taken back; it goes to the queue again, and nothing is deleted."""

    async def test(stage: Stage) -> None:
        stage.pod("low", cpu="4")
        stage.step()
        await until(lambda: stage.writes.bindings)
        stage.pod("hi", cpu="4", priority=10)
        decision = stage.step()
        assert decision.preemption is not None
        await until(lambda: stage.observer.ended)
        assert [error for _, error in stage.observer.ended] == [None]
        assert stage.writes.deleted == []
        assert stage.engine.cluster.pods["uid-low"].row < 0
        assert stage.observer.recorded("bind failed") == []

    play(test)


def test_room_that_was_given_back_is_an_event() -> None:
    """cost.md 5: on each pod that it was held for."""

    async def test(stage: Stage) -> None:
        stage.pod("a")
        record = stage.engine.cluster.pods["uid-a"]
        room = ReleasedReservation("pod/uid-a", None, ((record, "n1"),), Released.NOT_USED, "no pod came", stage.now)
        stage.executor.room_released(room)
        [event] = [found for found in stage.observer.events if found["reason"] == "RoomReleased"]
        assert (event["regarding"]["name"], event["note"]) == ("a", "Capacity reserved on n1 is released: no pod came")

    play(test)


def test_group_that_may_not_be_tried_gives_its_nominations_up_after_a_while() -> None:
    """Five seconds behind its gate: a killed scheduler may have left them, or the other members may be yet to come."""

    async def test(stage: Stage) -> None:
        stage.see(the_group(2), o.PodGroup)
        stage.see(pod("a", uid="uid-a", group="g") | {"status": {"nominatedNodeName": "n1"}})
        nominated = []
        ended: list[PodRecord] = []
        for seconds in (4.9, 0.2):
            stage.clock.advance(seconds)
            ended += stage.executor.tick(stage.now).unnominated_pods
            nominated.append(stage.engine.cluster.pods["uid-a"].nominated >= 0)
        assert nominated == [True, False]
        assert [pod.name for pod in ended] == ["a"]

    play(test)


def test_nominations_that_ended_are_taken_back() -> None:
    async def test(stage: Stage) -> None:
        stage.see(pod("a", uid="uid-a", cpu="9") | {"status": {"nominatedNodeName": "n1"}})
        stage.executor.unnominated([stage.engine.cluster.pods["uid-a"]])
        await stage.settle()
        assert stage.writes.pods == [("uid-a", {"nominatedNodeName": None})]

    play(test)


def test_nomination_that_a_higher_priority_has_taken_is_not_written_again() -> None:
    """reservations.md 3.1: a reservation is reported after a higher priority has taken a part of it."""
    reserving = ReservationsPlugin(ReservationOptions(reserve_after=1.0, min_pods=1, max_idle_share=1.0))
    profile = profile_with(DefaultPreemption(), reserving)

    async def test(stage: Stage) -> None:
        runs = pod("runs", uid="uid-runs", cpu="4", node="n1", priority=20, activeDeadlineSeconds=3600)
        stage.see(runs | {"status": {"phase": "Running", "startTime": stage.clock.now().isoformat()}})
        stage.pod("low", cpu="4")
        stage.step()
        stage.clock.advance(70.0)
        (low,) = stage.engine.tick(stage.now).reservations
        assert low.expected_start is not None
        stage.pod("high", cpu="4", priority=10)
        stage.step()
        stage.clock.advance(70.0)
        taken = stage.engine.tick(stage.now)
        stage.executor.unnominated(taken.unnominated_pods)
        for reservation in (low, *taken.reservations):
            stage.executor.capacity_reserved(reservation)
        await stage.settle()
        written = {uid: patch["nominatedNodeName"] for uid, patch in stage.writes.pods if "nominatedNodeName" in patch}
        assert written == {"uid-high": "n1"}

    play(test, Engine(EngineOptions({profile.name: profile})))
