"""Volumes live: what PreBind asks for is written, the controllers answer, and only then is the pod bound."""

from __future__ import annotations

import asyncio
from typing import Any

from tests import manifests
from tests.live.executor import EVERY_KIND, pods, running, until
from tests.live.faults import Json, cluster, create, node

_STORAGE = "persistentvolume-binder,volume-provisioner,ephemeral-volume,storage-protection"
_ONCE = ["ReadWriteOnce"]


def _spec(of: str) -> Json:
    return {"accessModes": _ONCE, "storageClassName": of, "resources": {"requests": {"storage": "1Gi"}}}


def _class(name: str, provisioner: str) -> Json:
    return {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}


def _uses(claim: str) -> Json:
    return {"name": claim, "persistentVolumeClaim": {"claimName": claim}}


def test_static_provisioned_and_ephemeral_volumes_are_bound_before_their_pods() -> None:
    async def main() -> None:
        async with cluster(controllers=_STORAGE) as (server, client):

            async def make(path: str, body: Json) -> None:
                await client.request("POST", path, body=body)

            async def claims() -> dict[str, Any]:
                found = (await client.get("/api/v1/namespaces/default/persistentvolumeclaims")).read(dict)
                return {item["metadata"]["name"]: item for item in found["items"]}

            await create(client, node("n1", "4"))
            for name, provisioner in (("local", "kubernetes.io/no-provisioner"), ("made", "disk.example.com")):
                await make("/apis/storage.k8s.io/v1/storageclasses", _class(name, provisioner))
            spec = {
                "capacity": {"storage": "2Gi"},
                "accessModes": _ONCE,
                "storageClassName": "local",
                "csi": {"driver": "d", "volumeHandle": "h"},
            }
            await make("/api/v1/persistentvolumes", {"metadata": {"name": "v"}, "spec": spec})
            for name, of in (("static", "local"), ("second", "local"), ("dynamic", "made")):
                where = "/api/v1/namespaces/default/persistentvolumeclaims"
                await make(where, {"metadata": {"name": name}, "spec": _spec(of)})
            own = {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": _spec("made")}}}
            async with running(server, kinds=EVERY_KIND):
                for pod in (
                    manifests.pod("a", volumes=[_uses("static")]),
                    manifests.pod("b", volumes=[_uses("dynamic"), own]),
                ):
                    await make("/api/v1/namespaces/default/pods", pod)

                async def placed(*names: str) -> bool:
                    found = await pods(client)
                    return all(found[name]["spec"].get("nodeName") for name in names)

                await until(lambda: placed("a", "b"), "both pods on the node")
                there = await claims()
                assert there["static"]["spec"]["volumeName"] == "v"
                assert {name for name, one in there.items() if one["status"]["phase"] == "Bound"} == {
                    "static",
                    "dynamic",
                    "b-tmp",
                }
                await make("/api/v1/namespaces/default/pods", manifests.pod("c", volumes=[_uses("second")]))

                async def reported() -> bool:
                    said = (await pods(client))["c"]["status"].get("conditions") or [{}]
                    return "didn't find available persistent volumes to bind" in said[0].get("message", "")

                await until(reported, "the pod without a volume says so")
                await make("/api/v1/persistentvolumes", {"metadata": {"name": "w"}, "spec": {**spec}})
                await until(lambda: placed("c"), "the new volume wakes it")

    asyncio.run(main())
