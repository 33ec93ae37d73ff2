"""Preemption under failures: calls that fail, are cut or answered twice, and schedulers killed between any two calls.

preemption.md 7 (asynchronous acting), 9 (what is never allowed); KEP-4832.
"""

from __future__ import annotations

import asyncio

import pytest

from reprieve.client.transport import Answer, ApiClient

from .faults import Call, Send, cluster
from .shell import Running, leave, leaving, placed, pods, running, until
from .worlds import WORLDS, World


class Kubelet:
    """Ends what is to end, when the test lets it; knows who went."""

    def __init__(self, client: ApiClient, world: World) -> None:
        self._client = client
        self._world = world
        self.gone: set[str] = set()

    async def work(self) -> None:
        """Let all that terminates go."""
        names = await leaving(self._client)
        self.gone |= set(names)
        await leave(self._client, *names)

    async def settled(self) -> bool:
        """Keep at it until the preemptors have their nodes."""
        await self.work()
        return await placed(self._client, *self._world.preemptors)


async def outcome(client: ApiClient, kubelet: Kubelet, world: World) -> None:
    """Who came runs; who had to go has gone; nobody else was touched."""
    await until(kubelet.settled, f"{world.preemptors} run")
    found = await pods(client)
    assert kubelet.gone == world.victims
    assert world.bystanders <= set(found)
    for name, item in found.items():
        assert "deletionTimestamp" not in item["metadata"], name
        if name in world.preemptors:
            assert "nominatedNodeName" not in item["status"]
        else:
            assert "DisruptionTarget" not in {c["type"] for c in item["status"].get("conditions", ())}, name


def about_victims(call: Call) -> bool:
    """Calls of a preemption, but for the nomination: about a victim or its group."""
    name = call.path.removesuffix("/status").rpartition("/")[2]
    return call.method in ("PATCH", "DELETE") and name.startswith(("low", "crew", "middle"))


@pytest.mark.parametrize("asynchronous", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_without_failures(world: World, asynchronous: bool) -> None:
    """7.1, 7.2, 7.6: nomination before victims, condition before deletion, the last victim last."""

    async def run() -> None:
        async with cluster() as (server, client):
            await world.build(client)
            async with running(server, asynchronous=asynchronous) as scheduler:
                await world.begin(client)
                kubelet = Kubelet(client, world)
                await until(lambda: scheduler.observer.ended, "the preemption ends")
                sent = scheduler.sent
                assert scheduler.observer.ended[0][1] is None
                found = await pods(client)
                for name in world.victims:
                    assert found[name]["metadata"]["deletionGracePeriodSeconds"] == 30
                    [condition] = [c for c in found[name]["status"]["conditions"] if c["type"] == "DisruptionTarget"]
                    assert condition["reason"] == "PreemptionByScheduler"
                    marked = sent.index(f"PATCH default/pods/{name}/status")
                    assert marked < sent.index(f"DELETE default/pods/{name}")
                    for preemptor in world.preemptors:
                        assert sent.index(f"PATCH default/pods/{preemptor}/status") < marked
                for name in world.preemptors:
                    assert found[name]["status"]["nominatedNodeName"]
                await outcome(client, kubelet, world)
                assert len(scheduler.observer.started) == 1

    asyncio.run(run())


async def calls_of(world: World) -> int:
    """How many writes a preemption takes, up to its end."""
    async with cluster() as (server, client):
        await world.build(client)
        async with running(server) as scheduler:
            await world.begin(client)
            await until(lambda: scheduler.observer.ended, "the preemption ends")
            return len(scheduler.sent)


@pytest.mark.parametrize("restart", ["victims still leave", "victims have left"])
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_killed_between_any_two_calls(world: World, restart: str) -> None:
    """9: a new scheduler comes to the same end: nobody else goes, no unit stays in part, no second preemption."""

    async def killed_after(count: int) -> None:
        made = 0
        dead = asyncio.Event()

        async def die(call: Call, send: Send) -> Answer:
            nonlocal made
            if call.writes and "/events" not in call.path:
                if made >= count:
                    dead.set()
                    await asyncio.get_running_loop().create_future()
                made += 1
            return await send()

        async with cluster() as (server, client):
            await world.build(client)
            async with running(server, script=die) as first:
                await world.begin(client)
                await until(lambda: dead.is_set() or first.observer.ended, "the end of the first scheduler")
            kubelet = Kubelet(client, world)
            if restart == "victims have left":
                await kubelet.work()
            waited = await leaving(client)
            async with running(server) as second:
                if waited:
                    await until(lambda: idle(second), "it has looked at everything")
                    assert await nominated_where_they_leave(client, world) is bool(not second.observer.started)
                await outcome(client, kubelet, world)
                assert len(second.observer.started) <= 1

    async def run() -> None:
        total = await calls_of(world)
        assert total >= len(world.victims) * 2
        for count in range(total + 1):
            await killed_after(count)

    asyncio.run(run())


def idle(scheduler: Running) -> bool:
    """It knows everything, has tried what there is to try, and nothing is under way."""
    engine = scheduler.engine
    return scheduler.scheduler.deciding and engine.attempts > 0 and not engine.queue.has_active


async def nominated_where_they_leave(client: ApiClient, world: World) -> bool:
    found = await pods(client)
    targets = {found[name]["status"].get("nominatedNodeName") for name in world.preemptors}
    return any(found[name]["spec"]["nodeName"] in targets for name in await leaving(client))
