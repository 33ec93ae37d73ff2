"""Preemption under failures: calls that fail, are cut or answered twice, and schedulers killed between any two calls.

preemption.md 7 (asynchronous acting), 9 (what is never allowed); KEP-4832.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

import pytest

from reprieve.client.errors import ApiError, UnreachableError
from reprieve.client.transport import ApiClient, ApiResponse
from tests.live.executor import Running, leave, leaving, pods, running, until
from tests.live.faults import Call, Json, Send, cluster, create, pod
from tests.live.worlds import GANG, SINGLE, UNIT, WORLDS, World


class Kubelet:
    """Ends what is to end, when the test lets it; keeps the names of ended pods."""

    def __init__(self, client: ApiClient, world: World) -> None:
        self._client = client
        self._world = world
        self.gone: set[str] = set()

    async def work(self) -> dict[str, Json]:
        """Let all that terminates go; the pods, as they were before."""
        found = await pods(self._client)
        names = [name for name, item in found.items() if "deletionTimestamp" in item["metadata"]]
        self.gone |= set(names)
        await leave(self._client, *names)
        return found

    async def settled(self) -> bool:
        """Keep at it until the preemptors have their nodes, and the victims have ended."""
        found = await self.work()
        return self.gone >= self._world.victims and all(
            name in found and found[name]["spec"].get("nodeName") for name in self._world.preemptors
        )


async def outcome(client: ApiClient, kubelet: Kubelet, world: World) -> None:
    """The preemptors run; the victims have ended; no other pod was touched."""
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


async def together(runs: Iterable[Awaitable[None]], width: int = 4) -> None:
    """Some at a time, each in a cluster of its own: they wait more than they work."""
    slots = asyncio.Semaphore(width)

    async def one(run: Awaitable[None]) -> None:
        async with slots:
            await run

    await asyncio.gather(*(one(run) for run in runs))


@pytest.mark.parametrize("asynchronous", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_without_failures(world: World, asynchronous: bool) -> None:
    """preemption.md 7.1, 7.2, 7.3, 7.6: nomination before victims, condition before deletion, the last victim last."""

    async def run() -> None:
        async with cluster() as (server, client):
            await world.build(client)
            generations = {name: item["metadata"]["generation"] for name, item in (await pods(client)).items()}
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
                    assert condition["observedGeneration"] == generations[name] >= 1
                    marked = sent.index(f"PATCH default/pods/{name}/status")
                    assert marked < sent.index(f"DELETE default/pods/{name}")
                    for preemptor in world.preemptors:
                        assert sent.index(f"PATCH default/pods/{preemptor}/status") < marked
                last = scheduler.observer.started[0].victims[-1].unit.pods[-1].name
                for name in world.victims - {last}:
                    assert sent.index(deletion_of(name)) < sent.index(deletion_of(last))
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
    """9: a new scheduler comes to the same end: no other victim, no unit stays in part, no second preemption."""

    async def killed_after(count: int) -> None:
        last = LastCall(count)
        async with cluster() as (server, client):
            await world.build(client)
            async with running(server, script=last) as first:
                await world.begin(client)
                await until(lambda: last.over or first.observer.ended, "the end of the first scheduler")
            kubelet = Kubelet(client, world)
            if restart == "victims have left":
                await kubelet.work()
            waited = await leaving(client)
            # Before the second begins: where it may preempt once more, victims leave the nominated node soon.
            covered = await nominated_where_they_leave(client, world)
            async with running(server) as second:
                if waited:
                    await until(lambda: idle(second), "it has looked at everything")
                    assert bool(second.observer.started) is not covered
                await outcome(client, kubelet, world)
                assert len(second.observer.started) <= 1

    async def run() -> None:
        total = await calls_of(world)
        assert total >= len(world.victims) * 2
        await together(killed_after(count) for count in range(total + 1))

    asyncio.run(run())


class LastCall:
    """Lets so many writes through and holds up the rest: a process that is killed between two calls.

    What was sent before has been answered when it is `over`: a call that the API carries out after the scheduler's
    death would come at an unknown time.
    """

    def __init__(self, count: int) -> None:
        self._left = count
        self._under_way = 0
        self._held = False

    @property
    def over(self) -> bool:
        return self._held and not self._under_way

    async def __call__(self, call: Call, send: Send) -> ApiResponse:
        if not call.writes or "/events" in call.path:
            return await send()
        if not self._left:
            self._held = True
            await asyncio.get_running_loop().create_future()
        self._left -= 1
        self._under_way += 1
        try:
            return await send()
        finally:
            self._under_way -= 1


def idle(scheduler: Running) -> bool:
    """It knows everything, has tried what there is to try, and nothing is under way."""
    engine = scheduler.engine
    scheduling = scheduler.scheduler
    return scheduling.feed.fed and scheduling.may_act and engine.attempts > 0 and not engine.queue.has_active


async def nominated_where_they_leave(client: ApiClient, world: World) -> bool:
    found = await pods(client)
    targets = {found[name]["status"].get("nominatedNodeName") for name in world.preemptors}
    return any(found[name]["spec"]["nodeName"] in targets for name in await leaving(client))


def status_of(name: str) -> str:
    return f"PATCH default/pods/{name}/status"


def deletion_of(name: str) -> str:
    return f"DELETE default/pods/{name}"


CALLS = {
    SINGLE.name: [status_of("hi"), *(make(f"low{n}") for n in (1, 2, 3) for make in (status_of, deletion_of))],
    GANG.name: [
        status_of("g1"),
        status_of("g2"),
        *(make(f"low{n}") for n in (1, 4) for make in (status_of, deletion_of)),
    ],
    UNIT.name: [
        status_of("hi"),
        "PATCH default/podgroups/crew/status",
        *(make(f"crew{n}") for n in (1, 3) for make in (status_of, deletion_of)),
    ],
}
"""The calls of a preemption that are tried out: all for single pods, the first and last victims' for the others."""


class Faulty:
    """A network in which one call goes wrong, for good or once; `healed` ends that."""

    def __init__(self, target: str, mode: str) -> None:
        self._target = target
        self._mode = mode
        self.healed = False
        self.met = 0

    async def __call__(self, call: Call, send: Send) -> ApiResponse:
        if self.healed or str(call) != self._target:
            return await send()
        self.met += 1
        if self._mode.endswith("once"):
            self.healed = True
        if self._mode.startswith("500"):
            raise ApiError(500, "InternalError", "etcd is away")
        if self._mode.startswith("409"):
            raise ApiError(409, "Conflict", "the object has been modified")
        if self._mode.startswith("no answer"):
            await send()
        raise UnreachableError("cut", sent=True)


LASTING = ["500 for good", "cut for good", "no answer for good"]


@pytest.mark.parametrize(
    ("world", "mode"),
    [
        *((SINGLE, mode) for mode in LASTING),
        (GANG, LASTING[0]),
        (GANG, LASTING[2]),
        (UNIT, LASTING[0]),
        (UNIT, LASTING[2]),
        (UNIT, "409 for good"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_call_that_fails_for_good(world: World, mode: str) -> None:
    """preemption.md 7.5: the nomination is withdrawn, the preemptor tried again at once, the other victims stay."""

    async def fail(target: str) -> None:
        network = Faulty(target, mode)
        async with cluster() as (server, client):
            await world.build(client)
            async with running(server, script=network) as scheduler:
                sent: list[list[str]] = []  # by the end of each preemption
                scheduler.observer.on_end = lambda: sent.append(scheduler.sent)
                await world.begin(client)
                await until(lambda: len(scheduler.observer.started) > 1, f"tried again after {target} failed")
                preemption, error = scheduler.observer.ended[0]
                assert error is not None
                assert network.met >= 5
                last = preemption.victims[-1].unit.pods[-1].name
                begun = world is UNIT and target.startswith("DELETE")  # the whole unit goes, then
                if mode != "no answer for good" and not begun and target not in (status_of(last), deletion_of(last)):
                    assert deletion_of(last) not in sent[0]
                if target == status_of(world.preemptors[0]):
                    assert not any(call.startswith("DELETE") for call in sent[0])
                network.healed = True
                await outcome(client, Kubelet(client, world), world)
                await until(lambda: not scheduler.observer.under_way, "all preemptions end")
                labels = scheduler.observer.metrics.registry
                assert labels.get_sample_value(
                    "scheduler_preemption_goroutines_execution_total", {"result": "error"}
                ), "the failure is counted"

    asyncio.run(together_in_order(fail, CALLS[world.name]))


def test_unit_that_could_not_go_at_once_goes_when_it_can() -> None:
    """9: no unit stays partly evicted, even where the room it held elsewhere is not needed any more."""

    async def run() -> None:
        network = Faulty(deletion_of("crew3"), "500 for good")
        async with cluster() as (server, client):
            await UNIT.build(client)
            async with running(server, script=network) as scheduler:
                await UNIT.begin(client)
                await until(lambda: scheduler.observer.ended, "the preemption fails")
                kubelet = Kubelet(client, replace(UNIT, victims=frozenset({"crew1"})))
                await until(kubelet.settled, "the preemptor runs")
                assert "crew3" not in kubelet.gone
                network.healed = True
                await outcome(client, kubelet_after(kubelet), UNIT)

    asyncio.run(run())


def kubelet_after(before: Kubelet) -> Kubelet:
    """The same kubelet, which now waits for all of the unit."""
    after = Kubelet(before._client, UNIT)
    after.gone = before.gone
    return after


async def together_in_order(run: Callable[[str], Awaitable[None]], targets: Iterable[str]) -> None:
    await together(run(target) for target in targets)


@pytest.mark.parametrize(
    ("world", "mode"),
    [
        (SINGLE, "500 once"),
        (SINGLE, "cut once"),
        *((world, mode) for world in WORLDS for mode in ("no answer once", "409 once")),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_call_that_fails_once(world: World, mode: str) -> None:
    """Repeated; a call that was carried out although the answer was lost does no harm the second time.

    So is one that met a conflict with another writer (7.7).
    """

    async def fail(target: str) -> None:
        network = Faulty(target, mode)
        async with cluster() as (server, client):
            await world.build(client)
            async with running(server, script=network) as scheduler:
                await world.begin(client)
                await outcome(client, Kubelet(client, world), world)
                assert network.met == 1
                assert [error for _, error in scheduler.observer.ended] == [None]
                assert scheduler.sent.count(target) >= 2

    asyncio.run(together_in_order(fail, CALLS[world.name]))


@pytest.mark.parametrize("again", [False, True], ids=["404", "409"])
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_victim_that_is_gone_counts_as_done(world: World, again: bool) -> None:
    """preemption.md 7.2: not found counts as done, and so does another pod of the name, which is left alone."""

    async def vanish(target: str) -> None:
        name = target.split("/")[2]
        vanished = False

        async def script(call: Call, send: Send) -> ApiResponse:
            nonlocal vanished
            if str(call) == target and not vanished:
                vanished = True
                await leave(client, name)
                if again:
                    await create(client, pod(name, nodeSelector={"no": "where"}))
            return await send()

        async with cluster() as (server, client):
            await world.build(client)
            async with running(server, script=script) as scheduler:
                await world.begin(client)
                rest = replace(world, victims=world.victims - {name})
                kubelet = Kubelet(client, rest)
                await until(kubelet.settled, f"{world.preemptors} run")
                assert vanished
                assert kubelet.gone == rest.victims
                assert [error for _, error in scheduler.observer.ended] == [None]
                found = await pods(client)
                assert (name in found) is again
                if again:
                    assert "deletionTimestamp" not in found[name]["metadata"]
                    assert {c["type"] for c in found[name]["status"].get("conditions", ())} <= {"PodScheduled"}

    asyncio.run(
        together_in_order(
            vanish, [call for call in CALLS[world.name] if "/low" in call or ("/crew" in call and "groups" not in call)]
        )
    )


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_victims_stay_when_their_preemptor_is_gone(world: World) -> None:
    """9: no victim without a preemptor: it goes just before its nomination is written."""

    async def run() -> None:
        async def script(call: Call, send: Send) -> ApiResponse:
            if str(call) == status_of(world.preemptors[0]):
                await leave(client, *world.preemptors)
            return await send()

        async with cluster() as (server, client):
            await world.build(client)
            async with running(server, script=script) as scheduler:
                await world.begin(client)
                await until(lambda: scheduler.observer.ended, "the preemption ends")
                # A deleted pod is tried once more where the API's answer comes before the informer's event.
                await until(lambda: not len(scheduler.engine.queue), "no pod is pending")
                assert all(error for _, error in scheduler.observer.ended)
                calls = [
                    call for call in scheduler.sent if call.startswith("DELETE") or "/low" in call or "/crew" in call
                ]
                assert set(calls) <= {"PATCH default/podgroups/crew/status conditions"}

    asyncio.run(run())
