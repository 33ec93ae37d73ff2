"""What runs beside the server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kube_standin.background import BackgroundWork
from tests.admission.plane import pod
from tests.server.inprocess import Plane as Served
from tests.server.inprocess import running

Json = dict[str, Any]


def test_controllers_work_while_the_context_lasts() -> None:
    def count(served: Served, kind: str) -> int:
        return sum(1 for _ in served.store.heads(served.registry.kind("apps/v1", kind).storage_key))

    def deployment(name: str) -> Json:
        spec = {"selector": {"matchLabels": {"a": name}}, "template": {
            "metadata": {"labels": {"a": name}}, "spec": pod()["spec"]}}  # fmt: skip
        return {"metadata": {"name": name}, "spec": spec}

    path = "/apis/apps/v1/namespaces/default/deployments"
    with running() as served:

        async def use() -> None:
            work = BackgroundWork()
            await work.start(served.registry)
            await served.asked(f"POST {path}", deployment("first"))
            await asyncio.sleep(5)
            assert count(served, "ReplicaSet") == 1
            await work.stop()
            await served.asked(f"POST {path}", deployment("second"))
            await asyncio.sleep(5)
            assert count(served, "ReplicaSet") == 1
            work = BackgroundWork(controllers="none")
            await work.start(served.registry)
            await asyncio.sleep(5)
            await work.stop()
            assert count(served, "ReplicaSet") == 1
            with pytest.raises(ValueError, match="made-up"):
                BackgroundWork(controllers="made-up")

        served.run(use())
