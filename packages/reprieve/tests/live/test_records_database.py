"""Decisions of live schedulers in a real PostgreSQL that is killed: another replica answers (history.md 1)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from reprieve.decisions.history import history_of
from reprieve.live.app import Scheduler
from reprieve.observability.database.location import RecordsDatabase
from reprieve.observability.database.store import DatabaseReader
from tests.live.faults import node
from tests.live.test_app import Cluster, cluster
from tests.observability.postgres import postgres, reason_for_none
from tests.waiting import DEADLINE, eventually

pytestmark = pytest.mark.skipif(bool(reason_for_none()), reason=reason_for_none() or "there is one")


async def preempts(world: Cluster, found: Scheduler, number: int) -> None:
    """A pod runs, and a more important one evicts it."""
    node = {"kubernetes.io/hostname": f"n{number}"}
    await world.pod(f"low{number}", 4, terminationGracePeriodSeconds=0, nodeSelector=node)
    await world.until(lambda pods: pods[f"low{number}"]["spec"].get("nodeName"))
    await world.pod(f"high{number}", 4, priority="high", nodeSelector=node)
    await world.until(lambda pods: pods[f"high{number}"]["spec"].get("nodeName"))


def test_second_replica_answers_for_the_first_although_the_database_was_killed(tmp_path: Path) -> None:
    """history.md 1.2, 1.5: of what both have decided nothing is missing and nothing is there twice."""

    async def run() -> None:
        async with cluster() as world:
            await world.priority("high", 1000)
            for number in range(3):
                await world.client.request("POST", "/api/v1/nodes", body=node(f"n{number}"))
            first = RecordsDatabase(address, spool=tmp_path / "first")
            async with world.scheduling(records=first) as found:
                await preempts(world, found, 0)
                server.kill()
                await preempts(world, found, 1)
            await asyncio.to_thread(server.start)
            async with world.scheduling(records=first) as found:  # the same pod, restarted: it sends what it spooled
                await world.until(lambda _: found.feed.fed)
            second = RecordsDatabase(address, spool=tmp_path / "second")
            async with world.scheduling(records=second) as found:
                await world.until(lambda _: found.feed.fed)
                await preempts(world, found, 2)

    with postgres() as server:
        address = server.create("live")
        asyncio.run(asyncio.wait_for(run(), 4 * DEADLINE))
        eventually(lambda: server.query("SELECT 1"))
        items = history_of(DatabaseReader(address).evictions(0.0), None).items
        told = [(item.name, [victim.unit for victim in item.victims], item.state) for item in reversed(items)]
        assert told == [(f"high{number}", [f"default/low{number}"], "Done") for number in range(3)]
        [record] = DatabaseReader(address).find("Pod", "default", "low1")
        assert record.entity.name == "high1"
        assert not list((tmp_path / "first").glob("*.spool"))
