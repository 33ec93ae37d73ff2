"""Half a minute of everything at once, five with `REPRIEVE_CHAOS=full`, each night (scheduling.md 7, preemption.md 9).

Random pods, gangs and nodes come and go while the API refuses, loses and delays, watches are cut, and of two schedulers
that stand for election the leader is killed or frozen. When it is over everything that could run has to run, and
nothing may ever have been bound twice.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

from kube_rules.objects import Pod
from reprieve.client.discovery import Resource
from reprieve.client.informer import Informer
from reprieve.client.kubeconfig import connect
from reprieve.client.transport import ApiClient, Limits
from tests.chaos.audit import Watcher, unsettled, violations
from tests.chaos.processes import Process, control_plane, scheduler, until
from tests.chaos.proxy import Faults, FaultyProxy
from tests.chaos.world import World
from tests.waiting import DEADLINE

SECONDS = 300.0 if os.environ.get("REPRIEVE_CHAOS") == "full" else 30.0
SEED = int(os.environ.get("REPRIEVE_CHAOS_SEED", "20"))
NODES = 8
SETTLE_SECONDS = 240.0
"""Less than the five minutes after which pending pods are tried again: that would hide forgotten pods."""
EXPLAINED_SECONDS = DEADLINE
PODS = Resource("", "v1", "pods", "Pod", True)
BAD_TIMES = (
    Faults(),
    Faults(refused=0.3),
    Faults(lost=0.3),
    Faults(delayed=0.5, slowest=1.5),
    Faults(conflicted=0.5),
    Faults(refused=0.1, lost=0.1, delayed=0.2, slowest=0.5),
)


async def disturb(proxy: FaultyProxy, schedulers: list[Process], chance: random.Random) -> None:
    """Until cancelled: bad times follow each other, watches are cut, leaders die and freeze."""
    while True:
        await asyncio.sleep(chance.uniform(0.5, 2.0))
        proxy.faults = chance.choice(BAD_TIMES)
        event = chance.random()
        if event < 0.25:
            proxy.cut_watches(0.5)
        elif event < 0.40:
            victim = chance.choice(schedulers)
            await victim.kill()
            await asyncio.sleep(chance.uniform(0.0, 1.0))
            await victim.start()
        elif event < 0.50:
            victim = chance.choice(schedulers)
            victim.freeze()
            await asyncio.sleep(chance.uniform(1.0, 8.0))
            victim.thaw()


async def supervise(schedulers: list[Process]) -> None:
    """Until cancelled: a process that ended (a deposed leader does) is started again, as a Deployment would."""
    while True:
        await asyncio.sleep(0.2)
        for process in schedulers:
            if not process.alive:
                await process.start()


async def chaos(directory: Path) -> None:
    """See the module."""
    chance = random.Random(SEED)
    server = control_plane(directory, NODES)
    await server.start()
    schedulers: list[Process] = []
    tasks: list[asyncio.Task[None]] = []
    try:
        await until(lambda: (directory / "kubeconfig").exists(), "the control plane")
        connection = connect(directory / "kubeconfig")
        watcher = Watcher()
        async with (
            ApiClient(connection, limits=Limits(qps=0.0), chance=random.Random(1)) as client,
            FaultyProxy(connection, random.Random(SEED + 1)) as proxy,
        ):
            world = World(client, chance, NODES)
            await world.begin()
            informer = Informer(client, PODS, Pod, watcher.pod)
            schedulers += [scheduler(directory, number, proxy.url) for number in range(2)]
            tasks += [asyncio.create_task(informer.run()), asyncio.create_task(supervise(schedulers))]
            await informer.wait_synced()
            trouble = asyncio.create_task(disturb(proxy, schedulers, random.Random(SEED + 2)))

            def eventful() -> bool:
                """Enough has happened for what follows to mean something."""
                died = sum(process.deaths for process in schedulers)
                return bool(
                    watcher.bindings > SECONDS / 2 and watcher.preempted and died and proxy.troubled["watch cut"]
                )

            # On a slow machine less happens in that time.
            ends = asyncio.get_running_loop().time() + SECONDS
            latest = ends + 5 * SECONDS
            while (now := asyncio.get_running_loop().time()) < ends or (now < latest and not eventful()):
                await world.act()
                await asyncio.sleep(chance.uniform(0.02, 0.4))
            trouble.cancel()
            await asyncio.gather(trouble, return_exceptions=True)
            proxy.faults = Faults()
            for process in schedulers:
                process.thaw()
            await world.end()
            await settle(client, directory)
            assert not watcher.broken
            await explained(client, directory)
            twice = {key: count for key, count in proxy.bound.items() if count > 1}
            assert not twice, f"bound twice: {twice}"
            assert eventful(), (watcher.bindings, watcher.preempted, world.done, proxy.troubled)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for process in (*schedulers, server):
            await process.stop()


async def settle(client: ApiClient, directory: Path) -> None:
    """Return when nothing goes on any more and no pod waits that could run."""
    ends = asyncio.get_running_loop().time() + SETTLE_SECONDS
    while left := await unsettled(client):
        if asyncio.get_running_loop().time() >= ends:
            raise AssertionError(
                f"still after {SETTLE_SECONDS:.0f} s: {left}\n{await evidence(client, directory, left)}"
            )
        await asyncio.sleep(0.5)


async def explained(client: ApiClient, directory: Path) -> None:
    """Return when no invariant is broken; what waits behind a gate says so only after some seconds."""
    ends = asyncio.get_running_loop().time() + EXPLAINED_SECONDS
    while broken := await violations(client):
        if asyncio.get_running_loop().time() >= ends:
            raise AssertionError("\n".join([*broken, await evidence(client, directory, broken)]))
        await asyncio.sleep(0.5)


async def evidence(client: ApiClient, directory: Path, left: list[str]) -> str:
    """What the schedulers said of the first that is left, and what the API has of it."""
    name = left[0].split()[1].rpartition("/")[2]
    workload = name.rpartition("-")[0] if name.startswith("gang") else name
    lines = [
        line
        for log in sorted(directory.glob("scheduler-*.log"))
        for line in log.read_text(errors="replace").splitlines()
        if workload in line or "Leading" in line or "Traceback" in line
    ]
    listed = (await client.get("/api/v1/namespaces/default/pods")).read(dict)["items"]
    kept = [
        {"name": pod["metadata"]["name"], "node": pod["spec"].get("nodeName"), "status": pod["status"]}
        for pod in listed
        if pod["metadata"]["name"].startswith(workload)
    ]
    groups = (await client.get("/apis/scheduling.k8s.io/v1beta1/podgroups")).read(dict)["items"]
    kept += [{"group": item["spec"], **item["status"]} for item in groups if item["metadata"]["name"] == workload]
    return "\n".join([*sorted(lines)[-60:], *map(str, kept)])


def test_everything_holds_after_chaos(tmp_path: Path) -> None:
    """The invariants of scheduling.md 7 hold after random trouble, and no pod that could run is left waiting."""
    asyncio.run(chaos(tmp_path))
