"""What the rules about preemptors look like in the API: which may preempt, when again, and what is reported."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from reprieve.client.transport import ApiClient
from tests.live.executor import leaving, pods, running, until
from tests.live.faults import Json, cluster, create, group, node, pod, priority_class, read

MID, HIGH, SUPER = priority_class("mid", 100), priority_class("high", 1000), priority_class("super", 5000)
CALM = {**priority_class("calm", 1000), "preemptionPolicy": "Never"}


def wants(name: str, cpu: str, priority: str = "", **more: Any) -> Json:
    return pod(name, cpu=cpu, **({"priorityClassName": priority} if priority else {}), **more)


async def said(client: ApiClient, name: str) -> tuple[str, str]:
    """Reason and message of PodScheduled=False; empty while there is none."""
    conditions = (await pods(client))[name].get("status", {}).get("conditions", ())
    found = [(c["reason"], c["message"]) for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"]
    return found[0] if found else ("", "")


def test_preemptor_that_lost_its_capacity_preempts_elsewhere_at_once() -> None:
    """preemption.md 2.3: its first victims are still leaving, its nomination is not there any more."""

    async def run() -> None:
        async with cluster() as (server, client):
            await create(client, MID, HIGH, *[node(f"n{i}") for i in (1, 2, 3)])
            await create(client, *[wants(f"low{i}", "4", node=f"n{i}") for i in (1, 2, 3)])

            async def nominated(**expected: str) -> bool:
                found = {n: i.get("status", {}).get("nominatedNodeName") for n, i in (await pods(client)).items()}
                return {name: on for name, on in found.items() if on} == expected

            async with running(server) as scheduler:
                await create(client, wants("mid", "4", "mid"))
                await until(lambda: nominated(mid="n1"), "mid preempts")
                await until(lambda: scheduler.observer.under_way == 0, "its victim was deleted")
                await create(client, wants("high", "4", "high"))
                await until(lambda: nominated(high="n1", mid="n2"), "mid preempts elsewhere")
                await until(lambda: scheduler.observer.under_way == 0, "its second victim was deleted")
                assert await leaving(client) == ["low1", "low2"]

    asyncio.run(run())


_PRIORITY = "all pods in a single pod group should match the priority of the pod group, got: "
_SCHEDULERS = "all pods in a single pod group should have the same .spec.schedulerName set, got: "
_POLICY = (
    "all pods in a single pod group should have the same preemption policy as the pod group's preemption policy, got "
)


@pytest.mark.parametrize(
    ("of_group", "members", "says"),
    [
        ("high", [wants("a", "4", group="crew")], f"{_PRIORITY}0 and 1000"),
        ("high", [wants("a", "4", "super", group="crew")], f"{_PRIORITY}5000 and 1000"),
        ("calm", [wants("a", "4", "high", group="crew")], f"{_POLICY}PreemptLowerPriority and Never"),
        ("high", [wants("a", "4", "calm", group="crew")], f"{_POLICY}Never and PreemptLowerPriority"),
        (
            "high",
            [
                wants("a", "4", "high", group="crew"),
                wants("other", "4", "high", group="crew", schedulerName="yunikorn"),
            ],
            f'{_SCHEDULERS}"yunikorn" and "default-scheduler"',
        ),
    ],
    ids=["lower priority", "higher priority", "group Never", "member Never", "another scheduler"],
)
def test_group_conflicting_with_a_member_is_reported_and_evicts_no_pods(
    of_group: str, members: list[Json], says: str
) -> None:
    """preemption.md 8: SchedulerError on pod and group, for a lone member as for several."""

    async def run() -> None:
        async with cluster() as (server, client):
            await create(client, HIGH, SUPER, CALM, node("n1"), wants("low", "4", node="n1"))
            await create(client, group("crew", count=len(members), priority=of_group), *members)
            async with running(server):

                async def reported() -> bool:
                    return await said(client, "a") == ("SchedulerError", says)

                await until(reported, f"the pod says: {says}")

                async def group_reported() -> bool:
                    conditions = (await read(client, "PodGroup", "crew")).get("status", {}).get("conditions", ())
                    return [(c["reason"], c["message"]) for c in conditions] == [("SchedulerError", says)]

                await until(group_reported, "the group says so too")
                assert await leaving(client) == []
                for other in members[1:]:  # what another scheduler's pod says is not ours to write
                    assert await said(client, other["metadata"]["name"]) == ("", "")

    asyncio.run(run())
