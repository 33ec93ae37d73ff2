"""Plugins that do not return, or return late (scheduling.md 6)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

import reprieve as r
from reprieve.framework.events import ClusterEvent
from reprieve.framework.plugin_guard import PluginIncident
from reprieve.live.watchdog import Watchdog
from reprieve.queueing.entity import QueueState
from reprieve.scheduling.decision import SCHEDULER_ERROR
from reprieve.scheduling.profiles import default_profile
from tests.building import World, gang, node, pod
from tests.scheduling.test_plugin_guard import profile, world
from tests.scheduling.third_party_plugins import Meddler, Sleeper, Spinner, Vectorised
from tests.waiting import DEADLINE

LIMIT = 3.0
"""Seconds."""


@pytest.fixture
def watchdog() -> Iterator[Watchdog]:
    """A short limit: tests wait for it; not so short that a plugin has not begun by then."""
    watch = Watchdog(limit=LIMIT, budget=0.02)
    yield watch
    watch.close()


def patient(watchdog: Watchdog) -> None:
    """From now on nothing is given up: a plugin that is only slow, on a machine that stands still, is not tested."""
    watchdog._limit = DEADLINE


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not what():
        assert time.monotonic() < deadline, "did not happen"
        time.sleep(0.001)


def kinds(troubles: list[PluginIncident]) -> list[str]:
    return [trouble.kind for trouble in troubles]


def test_call_that_does_not_return_is_given_up_and_the_scheduler_goes_on(watchdog: Watchdog) -> None:
    """The attempt fails; other profiles decide; the plugin's own attempts fail at once until it returns."""
    sleeper = Sleeper()
    chosen = {"mine": profile(sleeper, watchdog, "mine"), "other": default_profile(r.FeatureGates(), "other")}
    found = World(node("n1"), pod("slow", scheduler="mine"), profiles=chosen)
    decision = found.step()
    assert "running Filter plugin 'Sleeper': TimeoutError: gave no answer within 3 s" in decision.rejections[0].message
    assert decision.rejections[0].reason == SCHEDULER_ERROR
    assert watchdog.stuck() == ["Sleeper"]
    stuck = [trouble for trouble in found.incidents() if trouble.kind == "stuck"]
    assert len(stuck) == 1
    assert "let_go.wait" in stuck[0].detail  # where in the plugin

    found.add(pod("quick", scheduler="mine"), pod("theirs", scheduler="other"))
    calls = sleeper.calls
    found.drain()
    assert sleeper.calls == calls
    assert found.where == {"theirs": "n1"}
    assert "TimeoutError: has not returned from Filter" in found.message("quick")

    patient(watchdog)
    sleeper.let_go.set()
    incidents: list[PluginIncident] = []

    def recovered() -> bool:
        incidents.extend(found.engine.tick(found.now).incidents)
        return not watchdog.stuck() and "recovered" in kinds(incidents)

    until(recovered)
    found.settle()
    assert found.where == {"theirs": "n1", "slow": "n1", "quick": "n1"}


def test_loop_in_pure_python_does_not_stop_the_scheduler(watchdog: Watchdog) -> None:
    spinner = Spinner()
    found = World(node("n1"), pod("p"), profiles={"default-scheduler": profile(spinner, watchdog)})
    try:
        assert "gave no answer within" in found.step().rejections[0].message
    finally:
        spinner.let_go = True
    until(lambda: not watchdog.stuck())
    patient(watchdog)
    assert found.settle().where == {"p": "n1"}


def test_slow_call_is_noted_and_its_answer_counts(watchdog: Watchdog) -> None:
    """Beyond the budget, within the limit: by the clock the watchdog is given."""
    times = iter(range(1000))
    watch = Watchdog(limit=10_000.0, budget=0.5, clock=lambda: float(next(times)))
    found = world(Vectorised(), pod("p"), watch=watch).settle()
    assert found.where == {"p": "n2"}
    slow = [trouble.text for trouble in found.incidents() if trouble.kind == "slow"]
    assert "Score plugin 'Vectorised' took 2.0 s" in slow
    watch.close()


def test_hint_is_given_less_time_than_an_attempt() -> None:
    """Every attempt waits for it: it is given up after the budget, and taken as yes."""
    gate = Sleeper()
    watch = Watchdog(limit=600.0, budget=0.05)

    def hint(_cluster: r.ClusterState, _pod: r.PodRecord, _event: ClusterEvent) -> bool:
        gate.let_go.wait(60)
        return False

    class Rejects(r.PerNodeFilter):
        """At no other point: every attempt waits for PreEnqueue, too, which a busy machine may not answer in time."""

        name = "Rejects"

        def filter_node(self, state: r.CycleState, row: int) -> tuple[str, bool] | None:
            return "no", True

        def events(self) -> r.Hints:
            return {r.EventKind.NODE_ADDED: hint}

    found = world(Rejects(), pod("p"), watch=watch)
    found.step()
    found.add(node("n3"))
    assert found.place("p") in (QueueState.ACTIVE, QueueState.BACKOFF)
    assert "stuck" in kinds(found.incidents())
    gate.let_go.set()
    until(lambda: not watch.stuck())
    watch.close()


def test_group_s_algorithm_runs_where_the_cycle_runs() -> None:
    """A PodGroupPostFilter may ask for it; the plugin may not change the cluster cache itself."""
    meddler = Meddler()
    watch = Watchdog(limit=DEADLINE)
    found = world(meddler, *gang("g", 3, cpu=3), watch=watch)
    found.step()
    [(assignment, thread)] = meddler.found
    assert thread == "plugin Meddler"
    assert not assignment.feasible
    meddler.meddle = True
    found.virtual.now += 600
    message = found.step().rejections[0].message
    assert "the cluster cache may be changed only by the thread that runs the cycle" in message
    watch.close()


def test_only_plugins_that_may_wait_make_steps_that_may_wait(watchdog: Watchdog) -> None:
    """`Engine.may_block` tells the shell to run cycles beside its event loop."""
    assert not world(Vectorised()).engine.may_block
    assert world(Vectorised(), watch=watchdog).engine.may_block
    assert not World().engine.may_block
