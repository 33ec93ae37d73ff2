"""`reprieve explain` finds the scheduler that leads, whatever its lease is called and wherever it is (deploy/)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from reprieve.cli import evidence
from reprieve.client.transport import ApiClient
from tests.live.faults import Json, cluster

ELSEWHERE = {"app.kubernetes.io/name": "reprieve"}


async def make(client: ApiClient, namespace: str, name: str, labels: Json) -> None:
    """A scheduler's pod."""
    body = {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    await client.request("POST", f"/api/v1/namespaces/{namespace}/pods", body=body)


async def lease(client: ApiClient, namespace: str, name: str, holder: str) -> None:
    body = {"metadata": {"name": name}, "spec": {"holderIdentity": f"{holder}_some-uuid"}}
    await client.request("POST", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases", body=body)


@pytest.mark.parametrize(
    ("namespace", "name", "labels", "found"),
    [
        ("system-of-ours", "any-name", ELSEWHERE, "leader"),
        ("kube-system", "reprieve-scheduler", {}, "leader"),
        ("system-of-ours", "any-name", {}, ""),
    ],
)
def test_leader_is_found(namespace: str, name: str, labels: Json, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def explain(_client: ApiClient, path: str, _names: Sequence[Any]) -> list[Any]:
        asked.append(path)
        return []

    monkeypatch.setattr(evidence, "_explain", explain)

    async def run() -> None:
        async with cluster() as (_, client):
            if namespace != "kube-system":
                await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}})
            for pod in ("leader", "standby"):
                await make(client, namespace, pod, labels)
            await lease(client, namespace, name, "leader")
            where, records = await evidence._from_leader(
                client, (), evidence.Evidence(evidence.ExplainTarget("", "", ""))
            )
            if found:
                assert (where, records) == (f"the scheduler's pod {found}", [])
                assert asked == [f"/api/v1/namespaces/{namespace}/pods/https%3A{found}%3A10259/proxy/explain"]
            else:
                assert (where, records) == ("", None)

    asyncio.run(run())
