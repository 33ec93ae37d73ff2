"""What an eviction costs, at work: annotations that change while it runs, and budgets that are respected (cost.md)."""

from __future__ import annotations

import asyncio
import re

import pytest

from reprieve.client.transport import MERGE_PATCH, ApiClient
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import PreemptionOptions
from tests.building import profile_with
from tests.live.executor import leaving, running, until
from tests.live.faults import PATHS, Json, cluster, create, node, pod, priority_class

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


async def saved(client: ApiClient, name: str, when: str) -> None:
    """The pod says when it saved its work."""
    body: Json = {"metadata": {"annotations": {"scheduling.reprieve.dev/last-checkpoint": when}}}
    await client.request("PATCH", f"{PATHS['Pod']}/{name}", body=body, content_type=MERGE_PATCH)


async def started(client: ApiClient, name: str) -> None:
    body = {"status": {"phase": "Running", "startTime": "2025-12-31T00:00:00Z"}}
    await client.request("PATCH", f"{PATHS['Pod']}/{name}/status", body=body, content_type=MERGE_PATCH)


def test_checkpoint_written_at_run_time_changes_the_victim() -> None:
    """cost.md 2.4: of two like pods the one that saved last is the victim; here that changes before the preemption."""

    async def run() -> None:
        async with cluster() as (server, client):
            await create(client, priority_class("high", 1000), node("n1", "2"), node("n2", "2"))
            await create(client, pod("a", node="n1", cpu="2"), pod("b", node="n2", cpu="2"))
            for name, when in (("a", LATE), ("b", EARLY)):
                await started(client, name)
                await saved(client, name, when)
            profile = profile_with(DefaultPreemption(PreemptionOptions(cost=("lostWork",))))
            async with running(server, profile=profile) as scheduler:
                picture = scheduler.engine.cluster

                def known(name: str) -> float | None:
                    found = [one for one in picture.pods.values() if one.name == name]
                    return found[0].terms.last_checkpoint if found else None

                await until(lambda: known("a") is not None, "it knows both")
                before = known("a")
                await saved(client, "b", "2026-01-03T00:00:00Z")
                await until(lambda: (known("b") or 0.0) > (before or 0.0), "the change arrives")
                await create(client, pod("urgent", cpu="2", priorityClassName="high"))
                await until(lambda: scheduler.observer.ended, "a pod is evicted")
                assert await leaving(client) == ["b"]
                (made,) = scheduler.observer.started
                assert made.cost is not None
                assert made.compared is not None
                assert made.compared.cost is not None
                assert made.cost[0] < made.compared.cost[0]
                [note] = [event["note"] for event in scheduler.observer.events if event["reason"] == "Preempted"]
                (urgent,) = [one for one in picture.pods.values() if one.name == "urgent"]
                text = rf"Preempted by pod {urgent.uid} on node n2; ([0-9.e+]+) CPU-hours of its work are lost"
                told = re.fullmatch(text, note)
                assert told is not None, note
                assert float(told[1]) == pytest.approx(made.cost[0] / 3600, rel=0.01)

    asyncio.run(run())


def test_budget_that_is_respected_is_not_violated() -> None:
    """cost.md 2.8: no pod is evicted while the budget allows none; when it allows one, one does, and no more."""

    async def run() -> None:
        async with cluster() as (server, client):
            respects = priority_class("high", 1000)
            respects["metadata"]["annotations"] = {"scheduling.reprieve.dev/pdb-policy": "Respect"}
            await create(client, respects, node("n1", "2"), node("n2", "2"))
            for name, where in (("a", "n1"), ("b", "n2")):
                item = pod(name, node=where, cpu="2")
                item["metadata"]["labels"] = {"app": "x"}
                await create(client, item)
            budget = {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "x"},
                "spec": {"selector": {"matchLabels": {"app": "x"}}, "minAvailable": 1},
            }
            await client.request("POST", BUDGETS, body=budget)
            async with running(server) as scheduler:
                await create(client, *(pod(f"urgent{i}", cpu="2", priorityClassName="high") for i in range(2)))
                await until(lambda: scheduler.engine.attempts >= 2, "both are tried")
                assert await leaving(client) == []
                body = {"status": {"disruptionsAllowed": 1}}
                await client.request("PATCH", f"{BUDGETS}/x/status", body=body, content_type=MERGE_PATCH)
                await until(lambda: scheduler.observer.ended, "one goes")
                assert len(await leaving(client)) == 1
                assert len(scheduler.observer.started) == 1

    asyncio.run(run())
