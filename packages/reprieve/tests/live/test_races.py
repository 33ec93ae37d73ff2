"""KEP-4832, "Consideration to race condition": what another pod's cycle does while a preemption is in flight.

In every case pod1 (priority 500) is making room on node n1; its calls are held up until the test lets them go, so that
the cycle of pod2 runs in between. preemption.md 7.1, 7.3, 7.4.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from reprieve.client.informer import ChangeKind
from reprieve.client.transport import ApiClient, ApiResponse
from tests.live.executor import Running, leave, leaving, placed, pods, running, until
from tests.live.faults import Call, Json, Send, cluster, create, group, node, pod, priority_class

LOWER, EQUAL, HIGHER = "lower", "equal", "higher"
CLASSES = (priority_class(LOWER, 100), priority_class(EQUAL, 500), priority_class(HIGHER, 1000))


class Held:
    """Holds up the calls a test names until it lets them go."""

    def __init__(self, holds: Callable[[Call], bool], *, answered: bool = False) -> None:
        self._holds = holds
        self._answered = answered
        """Hold the answer back, not the call."""
        self._open = asyncio.Event()
        self.waiting: list[str] = []

    def let_go(self) -> None:
        self._open.set()

    async def __call__(self, call: Call, send: Send) -> ApiResponse:
        if not self._holds(call):
            return await send()
        if self._answered:
            answer = await send()
            self.waiting.append(str(call))
            await self._open.wait()
            return answer
        self.waiting.append(str(call))
        await self._open.wait()
        return await send()


def deletes(*names: str) -> Callable[[Call], bool]:
    wanted = {f"DELETE default/pods/{name}" for name in names}
    return lambda call: str(call) in wanted


def pod_of(priority: str, name: str, cpu: str, **spec: Any) -> Json:
    return pod(name, cpu=cpu, priorityClassName=priority, **spec)


async def tried(scheduler: Running, client: ApiClient, name: str) -> None:
    """The pod has been tried and says that it has no place."""

    async def says_so() -> bool:
        conditions = (await pods(client))[name]["status"].get("conditions", ())
        return any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions)

    await until(says_so, f"{name} has been tried")


async def where(client: ApiClient) -> dict[str, str]:
    return {name: item["spec"].get("nodeName", "") for name, item in (await pods(client)).items()}


async def half_evicted(client: ApiClient, scheduler: Running, held: Held) -> None:
    """pod1's first victim has left, the call for the last one is held up: n1 has room that is spoken for."""
    await create(client, pod_of(EQUAL, "pod1", "4"))
    await until(lambda: held.waiting, "pod1's preemption is in flight")
    [gone] = await leaving(client)
    await leave(client, gone)

    def observed() -> bool:
        return not any(pod.name == gone for pod in scheduler.engine.cluster.pods.values())

    await until(observed, "the engine has heard")


TWO_VICTIMS = (
    *CLASSES,
    node("n1", "4"),
    node("n2", "4"),
    pod("low1", node="n1", cpu="2"),
    pod("low2", node="n1", cpu="2"),
    pod_of(HIGHER, "keeper", "2", node="n2"),
)


def last_of_two() -> Held:
    """Whichever victim is last: its deletion comes when the other's is through."""
    deleted: list[str] = []

    def second(call: Call) -> bool:
        if call.method == "DELETE" and call.path.rpartition("/")[2] in ("low1", "low2"):
            deleted.append(call.path)
            return len(set(deleted)) == 2
        return False

    return Held(second)


@pytest.mark.parametrize("priority", [EQUAL, LOWER])
def test_pod2_is_scheduled_and_is_equal_or_lower(priority: str) -> None:
    """The room pod1 waits for is not pod2's, although it is free already: pod2 goes elsewhere."""

    async def run() -> None:
        held = last_of_two()
        async with cluster() as (server, client):
            await create(client, *TWO_VICTIMS)
            async with running(server, script=held) as scheduler:
                await half_evicted(client, scheduler, held)
                await create(client, pod_of(priority, "pod2", "2"))
                await until(lambda: placed(client, "pod2"), "pod2 is bound")
                assert (await where(client))["pod2"] == "n2"
                held.let_go()
                await finished(client, scheduler, "pod1")
                assert (await where(client))["pod1"] == "n1"
                assert len(scheduler.observer.started) == 1

    asyncio.run(run())


@pytest.mark.parametrize("priority", [EQUAL, LOWER])
def test_pod2_has_no_other_place_and_is_equal_or_lower(priority: str) -> None:
    """Nor does pod2 take it where there is no other place: it waits."""

    async def run() -> None:
        held = last_of_two()
        async with cluster() as (server, client):
            await create(client, *TWO_VICTIMS, pod_of(HIGHER, "keeper2", "2", node="n2"))
            async with running(server, script=held) as scheduler:
                await half_evicted(client, scheduler, held)
                await create(client, pod_of(priority, "pod2", "2"))
                await tried(scheduler, client, "pod2")
                assert (await where(client))["pod2"] == ""
                held.let_go()
                await finished(client, scheduler, "pod1")
                found = await where(client)
                assert (found["pod1"], found["pod2"]) == ("n1", "")
                assert len(scheduler.observer.started) == 1

    asyncio.run(run())


def test_pod2_is_scheduled_and_is_higher() -> None:
    """pod2 may take the room; pod1 then has none, evicts no further pod without success, and is not lost."""

    async def run() -> None:
        held = last_of_two()
        async with cluster() as (server, client):
            await create(client, *TWO_VICTIMS, pod_of(HIGHER, "keeper2", "2", node="n2"))
            async with running(server, script=held) as scheduler:
                await half_evicted(client, scheduler, held)
                await create(client, pod_of(HIGHER, "pod2", "2"))
                await until(lambda: placed(client, "pod2"), "pod2 is bound")
                assert (await where(client))["pod2"] == "n1"
                assert not scheduler.observer.ended
                held.let_go()
                await until(lambda: scheduler.observer.ended, "pod1's preemption ends")
                await leave(client, *(await leaving(client)))
                await create(client, node("n3", "4"))
                await until(lambda: placed(client, "pod1"), "pod1 is bound")
                found = await where(client)
                assert (found["pod1"], found["pod2"]) == ("n3", "n1")
                assert set(found) == {"pod1", "pod2", "keeper", "keeper2"}
                assert len(scheduler.observer.started) == 1

    asyncio.run(run())


@pytest.mark.parametrize("priority", [EQUAL, LOWER])
def test_pod2_preempts_on_the_same_node_and_is_equal_or_lower(priority: str) -> None:
    """The second preemption makes room for both: pod1's victims are its own, too."""

    async def run() -> None:
        held = Held(deletes("low1", "low2"))
        async with cluster() as (server, client):
            there = [pod(name, node="n1", cpu="3") for name in ("low1", "low2")]
            await create(client, *CLASSES, node("n1", "6"), *there)
            async with running(server, script=held) as scheduler:
                await create(client, pod_of(EQUAL, "pod1", "3"))
                await until(lambda: held.waiting, "pod1's preemption is in flight")
                await create(client, pod_of(priority, "pod2", "3"))
                await until(lambda: len(scheduler.observer.started) == 2, "so is pod2's")
                assert not scheduler.observer.ended
                first, second = (
                    {victim.key for verdict in found.victims for victim in verdict.unit.pods}
                    for found in scheduler.observer.started
                )
                assert second == {"default/low1", "default/low2"}
                assert len(first) == 1
                held.let_go()
                await finished(client, scheduler, "pod1", "pod2")
                # pod1 may decide once more on what pod2 is about to evict, if it is tried before that has begun.
                assert await where(client) == {"pod1": "n1", "pod2": "n1"}

    asyncio.run(run())


def test_pod2_preempts_on_the_same_node_and_is_higher() -> None:
    """pod2 picks the same victim and gets the node; pod1 loses its nomination (7.4), and is not lost."""

    async def run() -> None:
        held = Held(deletes("low"))
        async with cluster() as (server, client):
            await create(client, *CLASSES, node("n1", "4"), pod("low", node="n1", cpu="4"))
            async with running(server, script=held) as scheduler:
                await create(client, pod_of(EQUAL, "pod1", "4"))
                await until(lambda: held.waiting, "pod1's preemption is in flight")
                await create(client, pod_of(HIGHER, "pod2", "4"))

                async def nominated() -> bool:
                    found = await pods(client)
                    names = [found[name]["status"].get("nominatedNodeName", "") for name in ("pod1", "pod2")]
                    return names == ["", "n1"]

                await until(nominated, "the nomination is pod2's")
                held.let_go()
                await finished(client, scheduler, "pod2")
                await until(lambda: len(scheduler.observer.ended) == 2, "both preemptions end")
                found = await where(client)
                assert found == {"pod1": "", "pod2": "n1"}
                await create(client, node("n2", "4"))
                await until(lambda: placed(client, "pod1"), "pod1 is bound")
                assert len(scheduler.observer.started) == 2

    asyncio.run(run())


async def finished(client: ApiClient, scheduler: Running, *names: str) -> None:
    """Let the victims go until the pods are bound."""

    async def work() -> bool:
        await leave(client, *(await leaving(client)))
        return await placed(client, *names)

    await until(work, f"{names} are bound")


# -- the same for a group as preemptor ---------------------------------------------------------------------


@pytest.mark.parametrize("priority", [EQUAL, LOWER, HIGHER])
def test_pod_comes_while_a_gang_makes_room(priority: str) -> None:
    """What holds for pod1 holds for a gang: its room is kept on all its nodes, but not from a higher priority."""

    async def run() -> None:
        held = Held(lambda call: call.method == "DELETE" and call.path.endswith("/low2"))
        async with cluster() as (server, client):
            there = [pod(f"low{number}", node=f"n{number}", cpu="2") for number in (1, 2)]
            await create(client, *CLASSES, node("n1", "2"), node("n2", "2"), *there)
            gang = [pod_of(EQUAL, name, "2", group="gang") for name in ("a", "b")]
            async with running(server, script=held) as scheduler:
                await create(client, group("gang", count=2, priority=EQUAL), *gang)
                await until(lambda: held.waiting, "the gang's preemption is in flight")

                async def first_left() -> bool:
                    await leave(client, *(await leaving(client)))
                    return "low1" not in await pods(client)

                if "low1" in {p.name for v in scheduler.observer.started[0].victims[:-1] for p in v.unit.pods}:
                    await until(first_left, "the first victim left")
                await create(client, pod_of(priority, "pod2", "2"))
                if priority == HIGHER:
                    held.let_go()
                    await finished(client, scheduler, "pod2")
                    await create(client, node("n3", "2"))
                    await finished(client, scheduler, "a", "b")
                else:
                    await tried(scheduler, client, "pod2")
                    assert (await where(client))["pod2"] == ""
                    held.let_go()
                    await finished(client, scheduler, "a", "b")
                    assert (await where(client))["pod2"] == ""
                assert set(await pods(client)) == {"a", "b", "pod2"}

    asyncio.run(run())


# -- events that overtake the calls --------------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize("members", [0, 2], ids=["pod", "gang"])
def test_victims_have_left_before_the_last_answer_comes(members: int, asynchronous: bool) -> None:
    """preemption.md 7.3: if deletion events arrive before the task ends, the preemptor is not left stuck."""

    async def run() -> None:
        held = Held(lambda call: call.method == "DELETE", answered=True)
        async with cluster() as (server, client):
            await create(client, *CLASSES, node("n1", "2"), pod("low1", node="n1", cpu="2"))
            preemptors = [group("gang", count=members, priority=EQUAL)] if members else []
            preemptors += [
                pod_of(EQUAL, f"p{n}", "1", **({"group": "gang"} if members else {})) for n in range(members or 1)
            ]
            async with running(server, script=held, asynchronous=asynchronous) as scheduler:
                await create(client, *preemptors)
                await until(lambda: held.waiting, "the victim is deleted, and no event has arrived")
                await leave(client, "low1")

                def observed() -> bool:
                    """By the engine, or, while a cycle holds it, by the queue of events for the next one."""
                    if asynchronous:
                        return not any(pod.name == "low1" for pod in scheduler.engine.cluster.pods.values())
                    return any(
                        change.kind is ChangeKind.DELETED and change.object.name == "low1"
                        for change, _ in scheduler.scheduler.feed._changes
                    )

                await until(observed, "the engine has heard, or will")
                assert not scheduler.observer.ended
                attempts = scheduler.engine.attempts
                held.let_go()
                await until(lambda: placed(client, *(f"p{n}" for n in range(members or 1))), "the preemptor is bound")
                assert scheduler.engine.attempts == attempts + 1
                assert len(scheduler.observer.started) == 1

    asyncio.run(run())


# -- victims that are only reserved --------------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [True, False], ids=["async", "sync"])
def test_victim_with_a_binding_in_flight_settles_first(asynchronous: bool) -> None:
    """preemption.md 7.2: its outcome is awaited; bound after all it is evicted like any other."""

    async def run() -> None:
        held = Held(lambda call: call.path.endswith("/low/binding"))
        async with cluster() as (server, client):
            await create(client, *CLASSES, node("n1", "2"))
            async with running(server, script=held, asynchronous=asynchronous) as scheduler:
                await create(client, pod("low", cpu="2"))
                await until(lambda: held.waiting, "the binding is in flight")
                await create(client, pod_of(HIGHER, "high", "2"))
                await until(lambda: scheduler.observer.started, "its room is wanted")
                assert "DELETE default/pods/low" not in scheduler.sent
                held.let_go()
                await until(lambda: leaving(client), "the victim was bound, and leaves")
                await finished(client, scheduler, "high")
                assert set(await pods(client)) == {"high"}
                assert scheduler.sent.count("DELETE default/pods/low") == 1

    asyncio.run(run())


@pytest.mark.parametrize("asynchronous", [True, False], ids=["async", "sync"])
def test_victim_with_an_unsent_binding_is_released_without_a_call(asynchronous: bool) -> None:
    """preemption.md 7.2: it goes back to the queue; the API never hears of it."""

    async def run() -> None:
        held = Held(lambda call: call.path.endswith("/binding") and "/filler" in call.path)
        fillers = [
            pod_of(EQUAL, f"filler{number}", "1", nodeSelector={"kubernetes.io/hostname": "n2"}) for number in range(16)
        ]
        async with cluster() as (server, client):
            await create(client, *CLASSES, node("n1", "2"), node("n2", "16"))
            async with running(server, script=held, asynchronous=asynchronous) as scheduler:
                await create(client, *fillers)
                await until(lambda: len(held.waiting) == 16, "all writers are busy")
                await create(client, pod_of(LOWER, "low", "2"))
                await until(
                    lambda: any(p.name == "low" and p.row >= 0 for p in scheduler.engine.cluster.pods.values()),
                    "the victim is assumed",
                )
                await create(client, pod_of(HIGHER, "high", "2"))
                await until(lambda: scheduler.observer.started, "its room is wanted")
                held.let_go()
                await until(lambda: placed(client, "high"), "the preemptor is bound")
                await until(lambda: scheduler.observer.ended, "the preemption ends")
                assert scheduler.observer.ended[0][1] is None
                about = [call for call in scheduler.sent if "/low" in call]
                assert not [call for call in about if call.startswith("DELETE") or "binding" in call]
                found = (await pods(client))["low"]
                assert not [c for c in found["status"].get("conditions", ()) if c["type"] == "DisruptionTarget"]
                await create(client, node("n3", "2"))
                await until(lambda: placed(client, "low"), "it found another place")

    asyncio.run(run())
