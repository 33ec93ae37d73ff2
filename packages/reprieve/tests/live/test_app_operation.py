"""What operators see of a scheduler: its log, records, metrics, events, and its end."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reprieve.client.leader_election import LeaseOptions
from reprieve.client.transport import ApiClient, Limits
from reprieve.framework.plugin import PostFilterPlugin
from reprieve.live.app import scheduler
from reprieve.live.http_endpoint import Health
from reprieve.observability.database.location import RecordsDatabase
from tests.building import group, profile_with
from tests.client.clock import FakeClock
from tests.live.test_app import NAME, cluster
from tests.waiting import DEADLINE


class _Informs(PostFilterPlugin):
    """An external plugin, from before groups had an extension point."""

    name = "Informs"


def test_profile_without_group_plugins_is_logged_at_start(capsys: pytest.CaptureFixture[str]) -> None:
    """KEP-5710: an error line for PostFilter without PodGroupPostFilter; a warning where GangScheduling is off."""

    async def run() -> None:
        async with cluster() as found, found.scheduling(profiles={NAME: profile}):
            pass

    profile = profile_with(_Informs(), drop=["GangScheduling"])
    asyncio.run(run())
    lines = [line.split(" ", 1)[1] for line in capsys.readouterr().err.splitlines()]
    said = [line for line in lines if line.startswith(("error profile", "warning profile"))]
    assert [line.split(" ", 1)[0] for line in said] == ["error", "warning"]
    assert "plugin Informs extends PostFilter but not PodGroupPostFilter" in said[0]
    assert "plugin GangScheduling is not enabled" in said[1]


def test_records_that_cannot_be_written_wait_and_are_counted(tmp_path: Path) -> None:
    """history.md 1.5, 5.1: scheduling goes on without them, and the metric says so."""
    file = tmp_path / "records.db"

    async def run() -> None:
        async with cluster() as world:
            await world.node("n0")
            async with world.scheduling(records=RecordsDatabase(file)) as found:
                with sqlite3.connect(file) as other:
                    other.execute("ALTER TABLE record RENAME TO elsewhere")
                other.close()
                registry = found.observer.metrics.registry
                assert registry.get_sample_value("scheduler_decision_records_spooled") == 0
                await world.pod("huge", 64)
                await world.pod("p")
                await world.until(lambda p: p["p"]["spec"].get("nodeName"))
                async with asyncio.timeout(DEADLINE):
                    while not registry.get_sample_value("scheduler_decision_records_spooled"):
                        await asyncio.sleep(0.01)

    asyncio.run(run())


def test_calls_under_way_are_counted_by_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    """observability.md 3.5: `scheduler_goroutines`, each of them by itself."""

    async def run() -> None:
        async with cluster() as world, scheduler(world.settings()) as found:
            registry = found.observer.metrics.registry
            executor = found.executor
            tasks = {executor.binder: 2, executor.preemptor: 3, found.pool: 4, found.events: 5}
            for one, name in zip(tasks, ("under_way", "under_way", "in_flight", "in_flight"), strict=True):
                monkeypatch.setattr(type(one), name, property(tasks.__getitem__))
            for operation, number in zip(("binding", "preemption", "api_calls", "events"), tasks.values(), strict=True):
                assert registry.get_sample_value("scheduler_goroutines", {"operation": operation}) == number

    asyncio.run(run())


def test_asked_to_stop_it_leaves_nothing_behind() -> None:
    """The counts of events that go on are written, no task is left, and the lease is given back last."""

    async def run() -> None:
        async with cluster() as world:
            lease = LeaseOptions("kube-system", NAME, "a", duration=3600.0, renew_deadline=3000.0, retry=0.1)
            stop = asyncio.Event()
            ended: list[float] = []
            async with scheduler(replace(world.settings(), election=lease)) as found:
                before = asyncio.all_tasks()
                runs = asyncio.create_task(found.run(stop))
                await world.until(lambda _: found.feed.fed and found.may_act)
                found.observer.close = ended.append  # type: ignore[method-assign, assignment]
                stop.set()
                await runs
                own = {"feed", "loop", "election"}
                assert {task.get_name() for task in asyncio.all_tasks() - before} & own == set()
                path = f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{NAME}"
                assert not (await world.client.get(path)).read(dict)["spec"].get("holderIdentity")
            assert len(ended) == 1
            assert ended[0] == pytest.approx(found.loop.time(), abs=DEADLINE)

    asyncio.run(run())


def test_lease_and_the_first_questions_do_not_wait_for_the_clients_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client with one request a second still renews in time; a missing server is not asked forever."""
    made: list[Limits] = []

    class Client(ApiClient):
        def __init__(self, connection: Any, *, limits: Limits, **more: Any) -> None:
            made.append(limits)
            super().__init__(connection, limits=limits, **more)

    monkeypatch.setattr("reprieve.live.app.ApiClient", Client)

    async def run() -> None:
        async with cluster() as world, scheduler(replace(world.settings(), qps=7.0, burst=9)):
            pass

    asyncio.run(run())
    assert [(limits.qps, limits.burst) for limits in made[:1]] == [(7.0, 9)]
    assert [limits.qps for limits in made[1:]] == [0.0, 0.0]
    assert made[1].connections == 4
    assert made[2].attempts == 4


def test_events_that_cannot_be_written_soon_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events never hold up scheduling (observability.md 2.1); there is room again when one has been written."""
    monkeypatch.setattr("reprieve.live.app._EVENTS_WAITING", 2)

    async def run() -> None:
        async with cluster() as world, scheduler(world.settings()) as found:
            waiting: list[asyncio.Future[None]] = []

            def write(_: object) -> asyncio.Future[None]:
                waiting.append(asyncio.get_running_loop().create_future())
                return waiting[-1]

            found.writes.write_event = write  # type: ignore[method-assign, assignment]
            registry = found.observer.metrics.registry
            counts = []
            for number in range(5):
                if number == 4:
                    waiting[0].set_result(None)
                    await asyncio.sleep(0)
                found.observer.ignored(group(f"g{number}"), "spec: not read", now=1.0)
                counts.append((len(waiting), registry.get_sample_value("scheduler_events_dropped_total")))
            assert counts == [(1, 0), (2, 0), (2, 1), (2, 2), (3, 2)]

    asyncio.run(run())


@pytest.mark.parametrize(("idle", "wrong"), [(59.9, None), (60.0, "no turn for 60 s"), (90.4, "no turn for 90 s")])
def test_loop_that_does_not_come_around_for_a_minute_is_stuck(idle: float, wrong: str | None) -> None:
    """/livez: the process is to be started again."""

    async def run() -> None:
        async with cluster() as world, scheduler(world.settings()) as found:
            health = Health()
            found.checks(health)
            clock = FakeClock()
            found.loop._clock = clock
            found.loop.last_turn = clock.monotonic()
            clock.advance(idle)
            assert health.live["scheduling-loop"]() == wrong
            assert health.ready["informer-sync"]() == "not synced"
            assert "leaderElection" not in health.live

    asyncio.run(run())
