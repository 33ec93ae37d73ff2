"""The scheduling loop with a real engine, a clock that tests set, and no network."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest

from kube_rules.meta import ObjectRef
from reprieve.cluster.pods import PodRecord
from reprieve.framework.gates import FeatureGates
from reprieve.framework.instructions import Instruction
from reprieve.framework.plugin import CycleState, PermitPlugin, PerNodeFilter
from reprieve.framework.plugin_guard import PluginIncident
from reprieve.framework.status import SUCCESS, Code, Status
from reprieve.live.event_handlers import ClusterFeed
from reprieve.live.loop import Pace, SchedulingLoop, SteadyTime, blocks
from reprieve.observability.metrics import Metrics
from reprieve.preemption.outcome import Preemption
from reprieve.queueing.timers import Timing
from reprieve.scheduling.advance_reservation import AdvanceReservation
from reprieve.scheduling.decision import Binding, Decision, Rejection, Result
from reprieve.scheduling.effects import NO_EFFECTS, DirectEviction, Effects
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from reprieve.scheduling.gang_health import Satisfaction
from reprieve.scheduling.lost_place import LostPlace
from reprieve.scheduling.preemptor_reservations import ReleasedReservation
from tests.building import group, node, pod, profile_with
from tests.client.clock import FakeClock, until
from tests.waiting import DEADLINE


class Changes(ClusterFeed):
    """Changes as a test makes them."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[float], object]] = []
        self.is_fed = True
        self.keep: Callable[[Effects], None] = lambda effects: None
        self.applied_while_deciding = False
        self.deciding = threading.Event()

    @property
    def synced(self) -> bool:
        return self.is_fed

    @property
    def fed(self) -> bool:
        return self.is_fed

    def apply(self, now: float, *, seconds: float = 0.0, clock: Any = None) -> bool:
        self.applied_while_deciding |= self.deciding.is_set()
        while self.waiting:
            effects = self.waiting.pop(0)(now)
            if isinstance(effects, Effects):
                self.keep(effects)
        return True


class Acts:
    """Notes decisions; binds nothing unless told."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.bindings_under_way = 0
        self.void: list[PodRecord] = []
        self.looks = 0
        self.on_tick: Callable[[], object] = lambda: None
        self.ran: list[Instruction] = []
        self.reserved: list[AdvanceReservation] = []
        self.released: list[ReleasedReservation] = []
        self.kept: list[LostPlace] = []
        self.satisfaction: list[Satisfaction] = []
        self.evictions: list[DirectEviction] = []
        self.trouble: list[PluginIncident] = []
        self.allowed: list[str] = []
        self.refused: list[tuple[str, str]] = []
        self.preempted: list[Preemption] = []
        self.evicting: Callable[[Preemption], Any] | None = None

    def decided(self, decision: Decision, *, seconds: float, now: float) -> None:
        assert seconds >= 0
        self.decisions.append(decision)

    async def preempt(self, preemption: Preemption) -> None:
        self.preempted.append(preemption)
        if self.evicting is not None:
            await self.evicting(preemption)

    def unnominated(self, pods: Iterable[PodRecord]) -> None:
        self.void += pods

    def capacity_reserved(self, reservation: AdvanceReservation) -> None:
        self.reserved.append(reservation)

    def room_released(self, room: ReleasedReservation) -> None:
        self.released.append(room)

    def capacity_kept(self, place: LostPlace) -> None:
        self.kept.append(place)

    def satisfaction_changed(self, state: Satisfaction) -> None:
        self.satisfaction.append(state)

    def evict(self, eviction: DirectEviction) -> None:
        self.evictions.append(eviction)

    def permitted(self, allowed: Iterable[Binding], refused: Iterable[Rejection]) -> None:
        self.allowed += [binding.pod.name for binding in allowed]
        self.refused += [(rejection.pod.name, rejection.message) for rejection in refused]

    def deferred_writes(self, instructions: Iterable[Instruction]) -> None:
        self.ran += instructions

    def incidents(self, incidents: Iterable[PluginIncident]) -> None:
        self.trouble += incidents

    def tick(self, now: float) -> Effects:
        self.looks += 1
        self.on_tick()
        return NO_EFFECTS


class Stage:
    """Everything around one loop."""

    def __init__(
        self,
        profile: Any = None,
        *,
        gates: FeatureGates | None = None,
        timing: Timing = Timing(1.0, 10.0),  # noqa: B008
        **named: Any,
    ) -> None:
        self.clock = FakeClock()
        profiles = {profile.name: profile} if profile is not None else None
        self.engine = Engine(EngineOptions(profiles or {}, gates or FeatureGates(), timing, validate=True))
        self.feed = Changes()
        self.acts = Acts()
        self.may = True
        self.loop = SchedulingLoop(self.engine, self.feed, self.acts, self.clock, allowed=lambda: self.may, **named)
        self.feed.keep = self.loop.keep

    def change(self, change: Callable[[float], object]) -> None:
        self.feed.waiting.append(change)
        self.loop.wake()

    def add(self, *items: Any) -> None:
        for item in items:
            self.change(lambda now, it=item: self.engine.set(it, now))  # type: ignore[misc]

    @property
    def bound(self) -> list[str]:
        return [binding.pod.name for decision in self.acts.decisions for binding in decision.bindings]


@asynccontextmanager
async def running(stage: Stage) -> AsyncIterator[Stage]:
    task = asyncio.create_task(stage.loop.run())
    try:
        yield stage
    finally:
        task.cancel()
        done = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(done[0], asyncio.CancelledError), done


def play(act: Callable[[Stage], Any], *args: Any, **named: Any) -> None:
    async def run() -> None:
        async with running(Stage(*args, **named)) as stage:
            await act(stage)

    asyncio.run(run())


def test_changes_are_decided_and_idleness_costs_no_turns() -> None:
    """No busy waiting: with the clock standing still and nothing to do the loop does not come around."""

    async def act(stage: Stage) -> None:
        stage.add(node("n1"), pod("a", cpu=1), pod("b", cpu=1))
        await until(lambda: stage.bound == ["a", "b"] and stage.clock.sleeping)
        turns = turns_of(stage)
        for _ in range(50):
            await asyncio.sleep(0)
        assert turns() == 0

    play(act)


class Once(PerNodeFilter):
    """Fails the first time it is called."""

    name = "Once"
    left = 1

    def filter_node(self, state: CycleState, row: int) -> tuple[str, bool] | None:
        if self.left:
            self.left -= 1
            raise ZeroDivisionError("by design")
        return None


@pytest.mark.parametrize(
    ("may", "under_way", "rest"), [(True, 0, 0.25), (True, 1, 0.25), (True, 2, 1.0), (False, 0, 1.0)]
)
def test_loop_rests_until_a_backoff_ends_if_it_may_begin_a_binding_then(may: bool, under_way: int, rest: float) -> None:
    """Else until its next tick: a pod that could be tried is no reason to run a cycle."""

    async def act(stage: Stage) -> None:
        stage.add(node("n1"), pod("a", cpu=1))
        await until(lambda: stage.acts.decisions and stage.clock.sleeping)
        stage.may, stage.acts.bindings_under_way = may, under_way
        stage.loop.wake()
        before = len(stage.clock.slept)
        await until(lambda: len(stage.clock.slept) > before and stage.clock.sleeping)
        assert stage.clock.slept[-1] == rest

    play(act, profile_with(Once()), threaded=False, timing=Timing(0.25, 10.0), pace=Pace(bindings=2))


def test_backoffs_end_by_themselves() -> None:
    """An attempt that ended in trouble is made again after 1 s, without any event."""

    async def act(stage: Stage) -> None:
        stage.add(node("n1"), pod("a", cpu=1))
        await until(lambda: stage.acts.decisions)
        assert stage.acts.decisions[0].result is Result.ERROR
        stage.clock.advance(0.9)
        for _ in range(20):
            await asyncio.sleep(0)
        assert stage.bound == []
        stage.clock.advance(0.2)
        await until(lambda: stage.bound == ["a"])

    play(act, profile_with(Once()), threaded=False)


def test_nothing_is_decided_without_the_right_to_act() -> None:
    """But everything is taken in, so that a new leader acts at once."""

    async def act(stage: Stage) -> None:
        stage.may = False
        stage.add(node("n1"), pod("a", cpu=1))
        await until(lambda: len(stage.engine.cluster.pods) == 1)
        assert stage.acts.decisions == []
        stage.may = True
        stage.loop.wake()
        await until(lambda: stage.bound == ["a"])

    play(act)


def test_nothing_is_decided_before_everything_is_known() -> None:
    async def act(stage: Stage) -> None:
        stage.feed.is_fed = False
        stage.add(node("n1"), pod("a", cpu=1))
        for _ in range(20):
            await asyncio.sleep(0)
        assert stage.acts.decisions == []
        stage.feed.is_fed = True
        stage.loop.wake()
        await until(lambda: stage.bound == ["a"])

    play(act)


def test_too_many_bindings_under_way_hold_the_loop_up() -> None:
    async def act(stage: Stage) -> None:
        stage.acts.bindings_under_way = 3
        stage.add(node("n1"), pod("a", cpu=1))
        await until(lambda: len(stage.engine.cluster.pods) == 1)
        for _ in range(20):
            await asyncio.sleep(0)
        assert stage.bound == []
        stage.acts.bindings_under_way = 2
        stage.loop.call_soon(lambda _: None)
        await until(lambda: stage.bound == ["a"])

    play(act, pace=Pace(bindings=3))


def turns_of(stage: Stage) -> Callable[[], int]:
    """How often the loop has come around since."""
    turns = 0
    real = stage.feed.apply

    def counted(*args: Any, **more: Any) -> bool:
        nonlocal turns
        turns += 1
        return real(*args, **more)

    stage.feed.apply = counted  # type: ignore[method-assign]
    return lambda: turns


def test_no_more_bindings_are_begun_than_may_be_under_way_and_the_loop_rests_meanwhile() -> None:
    """Also within one turn; a pod that could be tried is no reason to run a cycle before a binding has ended."""

    async def act(stage: Stage) -> None:
        def decided(decision: Decision, *, seconds: float, now: float) -> None:
            stage.acts.decisions.append(decision)
            stage.acts.bindings_under_way += len(decision.bindings)

        stage.acts.decided = decided  # type: ignore[method-assign]
        stage.add(node("n1"), *(pod(f"p{number}", cpu="100m") for number in range(5)))
        await until(lambda: len(stage.bound) == 2 and stage.clock.sleeping)
        turns = turns_of(stage)
        for _ in range(50):
            await asyncio.sleep(0)
        assert (turns(), len(stage.bound)) == (0, 2)
        stage.acts.bindings_under_way -= 1
        stage.loop.wake()
        await until(lambda: len(stage.bound) == 3 and stage.clock.sleeping)
        assert stage.acts.bindings_under_way == 2

    play(act, pace=Pace(bindings=2))


def test_changes_of_the_engine_are_made_between_cycles_and_in_order() -> None:
    async def act(stage: Stage) -> None:
        calls: list[int] = []
        for number in range(5):
            stage.loop.call_soon(lambda _, n=number: calls.append(n))  # type: ignore[misc]
        await stage.loop.calls_made()
        assert calls == list(range(5))

    play(act)


def test_nominations_that_end_outside_of_decisions_are_passed_on() -> None:
    async def act(stage: Stage) -> None:
        stage.add(node("n1"), pod("low", cpu=4, node="n1"), pod("p", cpu=4, priority=10))
        await until(lambda: stage.acts.decisions)
        assert stage.acts.decisions[0].result is Result.WAITING
        stage.change(lambda now: stage.engine.remove(ObjectRef("Node", "n1"), now))
        await until(lambda: [record.name for record in stage.acts.void] == ["p"])

    play(act)


@pytest.mark.parametrize("meanwhile", ["", "nominated again", "bound", "gone"])
def test_nominations_that_end_while_standing_by_are_passed_on_by_the_next_leader(meanwhile: str) -> None:
    """preemption.md 4.5: a killed leader left it in the API; a standby notices that the gang lost a member."""

    async def act(stage: Stage) -> None:
        stage.may = False
        waits = pod("a", cpu=1, group="g", nominated="n1")
        stage.change(lambda now: stage.engine.set(group("g", min_count=2), now))
        stage.add(node("n1"), node("n2"), waits, pod("b", cpu=1, group="g"))
        await until(lambda: "uid-b" in stage.engine.cluster.pods)
        assert stage.engine.cluster.pods["uid-a"].nominated >= 0
        stage.change(lambda now: stage.engine.remove(ObjectRef("Pod", uid="uid-b"), now))
        await until(lambda: stage.engine.cluster.pods["uid-a"].nominated < 0)
        if meanwhile == "gone":
            stage.change(lambda now: stage.engine.remove(ObjectRef("Pod", uid="uid-a"), now))
        elif meanwhile == "bound":
            stage.add(pod("a", cpu=1, group="g", node="n2"))
        elif meanwhile:
            stage.add(pod("c", cpu=1, group="g"), pod("a", cpu=1, group="g", nominated="n2"))
        stage.add(pod("last", cpu=99))
        await until(lambda: "uid-last" in stage.engine.cluster.pods)
        assert stage.acts.void == []
        stage.may = True
        stage.loop.wake()
        await until(lambda: stage.acts.decisions)
        assert [record.name for record in stage.acts.void] == ([] if meanwhile else ["a"])

    play(act)


def test_nominations_that_end_are_passed_on_also_while_nothing_may_be_decided() -> None:
    """No cycle runs while too many bindings are under way: the end of a nomination is reported all the same."""

    async def act(stage: Stage) -> None:
        stage.add(node("n1"), pod("low", cpu=4, node="n1"), pod("p", cpu=4, priority=10))
        await until(lambda: stage.acts.decisions)
        stage.acts.bindings_under_way = 3
        stage.change(lambda now: stage.engine.remove(ObjectRef("Node", "n1"), now))
        await until(lambda: [record.name for record in stage.acts.void] == ["p"])
        assert len(stage.acts.decisions) == 1

    play(act, pace=Pace(bindings=3))


def test_listener_gets_a_tick_once_a_second() -> None:
    async def act(stage: Stage) -> None:
        for _ in range(3):
            await until(lambda: stage.clock.sleeping)
            before = stage.acts.looks
            stage.clock.advance(1.0)
            await until(lambda: stage.acts.looks == before + 1)  # noqa: B023

    play(act)


def test_what_its_first_tick_asks_for_is_done_before_the_first_cycle() -> None:
    """cost.md 5.1: a standby takes over before time passes for nominations of which it heard long ago."""

    async def act(stage: Stage) -> None:
        decided: list[int] = []
        stage.may = False
        stage.acts.on_tick = lambda: stage.loop.call_soon(lambda _: decided.append(len(stage.acts.decisions)))
        stage.add(node("n1"), pod("a", cpu=1))
        await until(lambda: "uid-a" in stage.engine.cluster.pods)
        stage.may = True
        stage.loop.wake()
        await until(lambda: stage.bound == ["a"] and decided)
        assert decided[0] == 0

    play(act)


def test_preemption_within_the_cycle_gives_reserved_victims_up_meanwhile() -> None:
    """preemption.md 7.6: the loop waits for the calls, but hears what they tell the engine."""

    async def act(stage: Stage) -> None:
        async def evict(preemption: Preemption) -> None:
            [verdict] = preemption.victims
            uid = verdict.unit.pods[0].uid
            stage.loop.call_soon(lambda now: stage.engine.fail_binding(uid, now))
            await stage.loop.calls_made()
            stage.loop.call_soon(lambda now: stage.engine.finish_preemption(preemption.ref, now))

        stage.acts.evicting = evict
        stage.add(node("n1"), pod("low", cpu=4))
        await until(lambda: stage.bound == ["low"])
        stage.add(pod("p", cpu=4, priority=10))
        await until(lambda: stage.acts.preempted)
        await until(lambda: stage.engine.cluster.pods["uid-low"].row < 0)

        def later() -> bool:
            """Its backoff begins when the loop receives the end, which may be yet to come."""
            stage.clock.advance(0.1)
            return stage.bound == ["low", "p"]

        await until(later)

    play(act, gates=FeatureGates(scheduler_async_preemption=False))


class Slow(PerNodeFilter):
    """Waits for an outside service."""

    name = "Slow"
    blocking: ClassVar[bool] = True

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.go_on = threading.Event()
        self.thread: int | None = None

    def filter_node(self, state: CycleState, row: int) -> tuple[str, bool] | None:
        self.thread = threading.get_ident()
        self.asked.set()
        assert self.go_on.wait(DEADLINE)
        return None


def test_plugins_that_wait_do_not_hold_the_event_loop_up() -> None:
    """scheduling.md 5; changes and messages wait until the cycle has ended."""
    slow = Slow()
    profile = profile_with(slow)

    async def act(stage: Stage) -> None:
        assert blocks(stage.engine)
        stage.add(node("n1"), pod("a", cpu=1))
        await until(slow.asked.is_set)
        stage.feed.deciding.set()
        calls: list[bool] = []
        stage.add(pod("b", cpu=1))
        stage.loop.call_soon(lambda _: calls.append(stage.feed.deciding.is_set()))
        for _ in range(20):
            await asyncio.sleep(0)
        assert calls == []
        assert len(stage.engine.cluster.pods) == 1
        stage.feed.deciding.clear()
        slow.go_on.set()
        await until(lambda: stage.bound == ["a", "b"])
        assert calls == [False]
        assert not stage.feed.applied_while_deciding

    play(act, profile)


def test_scrape_during_a_cycle_shows_the_state_before_or_after_it() -> None:
    """observability.md "Metrics": never a half-done state; a caller that cannot wait gets what was read last."""
    slow = Slow()

    async def act(stage: Stage) -> None:
        metrics = Metrics(process=False)
        metrics.attach(stage.engine)

        def counts() -> dict[str, float | None]:
            value = metrics.registry.get_sample_value
            return {
                "active": value("scheduler_pending_pods", {"queue": "active"}),
                "pods": value("scheduler_cache_size", {"type": "pods"}),
            }

        assert await stage.loop.at_rest(metrics.read_engine, within=0.0)
        before = counts()
        assert before == {"active": 0, "pods": 0}
        stage.add(node("n1"), pod("a", cpu=1))
        await until(slow.asked.is_set)
        assert not await stage.loop.at_rest(metrics.read_engine, within=0.0)
        metrics.render(read=False)
        assert counts() == before
        scrape = asyncio.create_task(stage.loop.at_rest(metrics.read_engine, within=DEADLINE))
        await asyncio.sleep(0)
        assert not scrape.done()
        slow.go_on.set()
        assert await scrape
        assert counts() == {"active": 0, "pods": 1}

    play(act, profile_with(slow))


class Doorkeeper(PermitPlugin):
    """Lets no pod pass until the test allows it."""

    name = "Doorkeeper"

    def __init__(self) -> None:
        self.answer = Status(Code.WAIT)
        self.threads: list[int] = []

    def permit(self, state: CycleState, row: int) -> Status:
        self.threads.append(threading.get_ident())
        return self.answer


@pytest.mark.parametrize(
    ("answer", "seconds", "outcome"),
    [
        (SUCCESS, 1.0, (["a"], [])),
        (Status(Code.UNSCHEDULABLE, "not today"), 1.0, ([], [("a", "not today")])),
        (Status(Code.WAIT), 1000.0, ([], [("a", "Doorkeeper did not permit it in 900 s")])),
    ],
)
@pytest.mark.parametrize("threaded", [False, True])
def test_plugins_that_let_a_pod_wait_are_asked_again(
    answer: Status, seconds: float, outcome: Any, threaded: bool
) -> None:
    """Permit (scheduling.md 2): WAIT is no decision; kube-scheduler refuses after 15 minutes at most."""
    door = Doorkeeper()

    async def act(stage: Stage) -> None:
        stage.add(node("n1"), pod("a", cpu=4))
        await until(lambda: stage.acts.decisions)
        [decision] = stage.acts.decisions
        assert [binding.pod.name for binding in decision.waiting] == ["a"]
        assert stage.bound == []
        door.answer = answer
        await until(lambda: stage.clock.sleeping)
        stage.clock.advance(seconds)
        await until(lambda: (stage.acts.allowed, stage.acts.refused) == outcome)
        assert stage.engine.awaits_permission is False
        assert len(door.threads) > 1
        assert {thread == threading.get_ident() for thread in door.threads} == {not threaded}
        assert (stage.engine.cluster.pods["uid-a"].row >= 0) == bool(outcome[0])

    play(act, profile_with(door), threaded=threaded)


def test_time_never_goes_back() -> None:
    """Whatever the machine's clock is set to: the engine's time follows the monotonic one."""
    clock = FakeClock()
    now = SteadyTime(clock)
    assert now() == pytest.approx(clock.now().timestamp())
    before = now()
    clock.advance(5.0)
    assert now() == pytest.approx(before + 5.0)
