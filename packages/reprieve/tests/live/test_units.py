"""Units that were marked and stay after all, and victims that two preemptors chose (preemption.md 7.2, 7.5, 9)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from reprieve.client.clock import REAL_CLOCK
from reprieve.client.transport import MERGE_PATCH, STRATEGIC_MERGE_PATCH, ApiClient, ApiResponse
from tests.live.executor import leave, leaving, placed, pods, running, until
from tests.live.faults import PATHS, Call, Json, Send, cluster, create, group, node, pod, priority_class, read
from tests.live.worlds import HIGH, UNIT, high

TARGET = "DisruptionTarget"
CREW = ("crew1", "crew2", "crew3")
STAMP = "2026-01-01T00:00:00Z"


def target(item: Json) -> tuple[str, str] | None:
    """Status and reason of DisruptionTarget."""
    found = [c for c in item.get("status", {}).get("conditions", ()) if c["type"] == TARGET]
    return (found[0]["status"], found[0]["reason"]) if found else None


async def targets(client: ApiClient) -> list[tuple[str, str] | None]:
    """What the unit says of itself: the group, then its pods."""
    found = await pods(client)
    return [target(await read(client, "PodGroup", "crew")), *(target(found[name]) for name in CREW)]


async def mark(client: ApiClient, kind: str, name: str, **status: Any) -> None:
    """As a scheduler that was killed has left it."""
    true = {
        "type": TARGET,
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "m",
        "lastTransitionTime": STAMP,
    }
    body = {"status": {"conditions": [true], **status}}
    path = f"{PATHS[kind]}/{name}/status"
    await client.request("PATCH", path, body=body, content_type=STRATEGIC_MERGE_PATCH)


@pytest.mark.parametrize("begun", ["PATCH default/podgroups/crew/status", "PATCH default/pods/crew3/status"])
def test_unit_that_was_marked_and_stays_gets_preemption_failed(begun: str) -> None:
    """preemption.md 7.5: the preemptor is deleted while its victims are marked: no pod is deleted or stays marked."""

    async def run() -> None:
        gone = False

        async def script(call: Call, send: Send) -> ApiResponse:
            nonlocal gone
            if str(call) == begun and not gone:
                gone = True
                await leave(client, "hi")
                await until(lambda: not len(scheduler.engine.queue), "the scheduler knows")
            return await send()

        async with cluster() as (server, client):
            await UNIT.build(client)
            async with running(server, script=script) as scheduler:
                await UNIT.begin(client)
                await until(lambda: scheduler.observer.ended, "the preemption ends")
                spared = ("False", "PreemptionFailed")
                marked_group = spared if "podgroups" in begun else None

                async def reported() -> bool:
                    return await targets(client) == [marked_group, *[spared] * 3]

                await until(reported, "its condition is written")
                assert not any(call.startswith("DELETE") for call in scheduler.sent)
                # It may be chosen again, and is marked again, whatever the watch has told meanwhile.
                await UNIT.begin(client)

                async def goes() -> bool:
                    return await leaving(client) == list(CREW)

                await until(goes, "all of it goes")
                assert await targets(client) == [("True", "PreemptionByScheduler")] * 4

    asyncio.run(run())


@pytest.mark.parametrize("why", ["no pod waits for it", "it counts for more than the preemptor"])
def test_restart_evicts_no_unit_that_was_only_marked(why: str) -> None:
    """9: all of it is marked and runs, as after a failed preemption: it stays, and its condition says so."""

    async def run() -> None:
        async with cluster() as (server, client):
            *there, group, crew1, crew2, crew3 = UNIT.there[:7]
            if why != "no pod waits for it":
                key = "scheduling.reprieve.dev/preemption-priority-class"
                group = {**group, "metadata": {**group["metadata"], "annotations": {key: "above"}},
                         "spec": {**group["spec"], "priorityClassName": "granting"}}  # fmt: skip
                grant = {"scheduling.reprieve.dev/max-preemption-priority": str(HIGH + 1)}
                granting = {**UNIT.classes[0], "metadata": {"name": "granting", "annotations": grant}, "value": 0}
                above = {**UNIT.classes[0], "metadata": {"name": "above"}, "value": HIGH + 1}
                await create(client, granting, above)
            await create(client, *UNIT.classes, *there, node("n4", "2"), group, crew1, crew2, crew3)
            await create(client, high("keeper", "2", nodeName="n4"), high("hi", "2", nodeSelector={"no": "where"}))
            for name in CREW:
                await mark(client, "Pod", name)
            await mark(client, "PodGroup", "crew")
            waits_for = "n4" if why == "no pod waits for it" else "n1"
            status = {"status": {"nominatedNodeName": waits_for}}
            path = f"{PATHS['Pod']}/hi/status"
            await client.request("PATCH", path, body=status, content_type=STRATEGIC_MERGE_PATCH)
            async with running(server) as scheduler:

                async def reported() -> bool:
                    return await targets(client) == [("False", "PreemptionFailed")] * 4

                await until(reported, "its condition is written")
                assert not any(call.startswith("DELETE") for call in scheduler.sent)

    asyncio.run(run())


def test_restart_finishes_a_unit_that_has_lost_a_pod() -> None:
    """9: past the point of no return: fewer run than the unit needs, so the rest follows."""

    async def run() -> None:
        async with cluster() as (server, client):
            await create(client, *UNIT.classes, *UNIT.there)
            for name in CREW:
                await mark(client, "Pod", name)
            await mark(client, "PodGroup", "crew")
            await leave(client, "crew1")
            async with running(server):

                async def goes() -> bool:
                    return await leaving(client) == ["crew2", "crew3"]

                await until(goes, "the rest goes")

    asyncio.run(run())


@pytest.mark.parametrize("lost", [True, False])
def test_restart_finishes_a_tree_that_has_lost_a_pod_and_spares_one_that_has_not(lost: bool) -> None:
    """9 and composite.md 4: the unit is the tree: all its leaves follow, or all its groups stay, with a condition."""
    reference = {"workloadName": "w", "templateName": "t"}
    policy = {"gang": {"minGroupCount": 2}}

    def composite(name: str, **spec: Any) -> Json:
        body = {"workloadRef": reference, "schedulingPolicy": policy, "priorityClassName": "middle", **spec}
        return {"kind": "CompositePodGroup", "metadata": {"name": name}, "spec": body}

    def leaf(name: str, parent: str) -> Json:
        made = group(name, count=1, priority="middle")
        made["spec"] |= {"workloadRef": reference, "parentCompositePodGroupName": parent}
        return made

    groups = (
        composite("root", disruptionMode={"all": {}}),
        composite("mid", parentCompositePodGroupName="root", schedulingPolicy={"basic": {}}),
        leaf("left", "root"),
        leaf("right", "mid"),
    )
    members = [
        pod(name, node="n1", cpu="1", group=where, priorityClassName="middle")
        for name, where in (("crew1", "left"), ("crew2", "left"), ("crew3", "right"))
    ]

    async def run() -> None:
        async with cluster() as (server, client):
            await create(client, *UNIT.classes, node("n1", "4"), *groups, *members)
            for name in CREW:
                await mark(client, "Pod", name)
            for one in groups:
                await mark(client, one["kind"], one["metadata"]["name"])
            if lost:
                await leave(client, "crew3")
            async with running(server):

                async def ended() -> bool:
                    if lost:
                        return await leaving(client) == ["crew1", "crew2"]
                    reported = [target(await read(client, one["kind"], one["metadata"]["name"])) for one in groups]
                    return reported == [("False", "PreemptionFailed")] * len(groups)

                await until(ended, "the rest goes" if lost else "all have a condition that they stay")

    asyncio.run(run())


def test_two_preemptors_of_one_victim_make_its_calls_once() -> None:
    """preemption.md 7.1: the second decides before the first one's calls are heard of: no call is made twice."""

    async def run() -> None:
        held = asyncio.Event()
        waiting: list[str] = []

        async def script(call: Call, send: Send) -> ApiResponse:
            if call.method == "DELETE":
                waiting.append(str(call))
                await held.wait()
            return await send()

        async with cluster() as (server, client):
            classes = (priority_class("high", HIGH), priority_class("equal", HIGH))
            there = [pod(name, node="n1", cpu="3") for name in ("low1", "low2")]
            await create(client, *classes, node("n1", "6"), *there)
            async with running(server, script=script) as scheduler:
                await create(client, high("hi1", "3"))
                await until(lambda: waiting, "the first is under way")
                await create(client, high("hi2", "3"))
                await until(lambda: len(scheduler.observer.started) == 2, "so is the second")
                first, second = (
                    {victim.name for verdict in found.victims for victim in verdict.unit.pods}
                    for found in scheduler.observer.started
                )
                assert first & second
                held.set()
                await until(lambda: len(scheduler.observer.ended) == 2, "both end")
                assert [error for _, error in scheduler.observer.ended] == [None, None]
                await leave(client, *(await leaving(client)))
                await until(lambda: placed(client, "hi1", "hi2"), "both run")
                for name in ("low1", "low2"):
                    assert scheduler.sent.count(f"DELETE default/pods/{name}") == 1
                    assert scheduler.sent.count(f"PATCH default/pods/{name}/status") == 1

    asyncio.run(run())


async def recreate(client: ApiClient, item: Json) -> None:
    """Another group of the name, in place of the one that is there; no controller takes the finalizer off here."""
    path = f"{PATHS['PodGroup']}/{item['metadata']['name']}"
    await client.request("PATCH", path, body={"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)
    await client.request("DELETE", path)
    await create(client, item)


@pytest.mark.parametrize("recreated", [False, True])
def test_group_that_is_evicted_again_within_a_minute_is_marked_again(recreated: bool) -> None:
    """preemption.md 7.2: the group runs again, or is another object of its name; its condition is True as before."""

    async def run() -> None:
        async with cluster() as (server, client):
            await UNIT.build(client)
            async with running(server, clock=REAL_CLOCK) as scheduler:
                for turn in (1, 2):
                    await create(client, high(f"hi{turn}", "2", nodeSelector={"kubernetes.io/hostname": "n1"}))

                    async def goes() -> bool:
                        return await leaving(client) == list(CREW)

                    await until(goes, "all of it goes")
                    await until(lambda: not scheduler.observer.under_way, "all calls are made")
                    crew = await read(client, "PodGroup", "crew")
                    assert target(crew) == ("True", "PreemptionByScheduler")
                    if turn == 2:
                        break
                    await leave(client, *CREW)
                    await until(lambda: placed(client, "hi1"), "the preemptor runs")
                    await leave(client, "hi1")
                    if recreated:
                        await recreate(client, group("crew", count=3, everything=True))
                    for number, name in enumerate(CREW, 1):
                        where = {"kubernetes.io/hostname": f"n{number}"}
                        await create(client, pod(name, cpu="1", group="crew", nodeSelector=where))
                    await until(lambda: placed(client, *CREW), "the group runs again")

                    async def told() -> bool:
                        return target(await read(client, "PodGroup", "crew")) in (None, ("False", "ScheduledAgain"))

                    await until(told, "the group is no target any more")

    asyncio.run(run())
