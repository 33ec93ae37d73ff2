"""Device claims on the embedded control plane: made from templates, allocated at binding, given back by evictions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.live.test_app import GROUPS, NAME, PODS, Cluster, cluster

Json = dict[str, Any]
VERSION = "resource.k8s.io/v1"
CLAIMS = f"/apis/{VERSION}/namespaces/default/resourceclaims"
DRIVER = "gpu.example.com"


async def devices(world: Cluster, count: int, version: str = VERSION) -> None:
    """A node with so many devices, their class, and a template for one of them."""
    base = f"/apis/{version}"
    await world.node("n0")
    expression = f'device.driver == "{DRIVER}"'
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    await world.client.request("POST", f"{base}/deviceclasses", body={"metadata": {"name": "gpu"}, "spec": spec})
    pool = {"name": "n0", "generation": 1, "resourceSliceCount": 1}
    listed = [{"name": f"gpu-{i}", "attributes": {"model": {"string": "A100"}}} for i in range(count)]
    body = {"metadata": {"name": "n0"}, "spec": {"driver": DRIVER, "nodeName": "n0", "pool": pool, "devices": listed}}
    await world.client.request("POST", f"{base}/resourceslices", body=body)
    wanted = {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}}
    await world.client.request(
        "POST",
        f"{base}/namespaces/default/resourceclaimtemplates",
        body={"metadata": {"name": "one-gpu"}, "spec": wanted},
    )


async def user(world: Cluster, name: str, *, group: str = "", priority: str = "") -> None:
    """A pod with a device of its own."""
    spec: Json = {
        "schedulerName": NAME,
        "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
        "terminationGracePeriodSeconds": 0,
    }
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    if priority:
        spec["priorityClassName"] = priority
    await world.client.request("POST", PODS, body={"metadata": {"name": name}, "spec": spec})


async def held(world: Cluster, version: str = VERSION) -> dict[str, list[str]]:
    """Which pods each device is reserved for, by the claims of the API."""
    found: dict[str, list[str]] = {}
    for item in (await world.client.get(CLAIMS.replace(VERSION, version))).read(dict)["items"]:
        status = item.get("status") or {}
        for result in ((status.get("allocation") or {}).get("devices") or {}).get("results") or ():
            found.setdefault(result["device"], []).extend(one["name"] for one in status.get("reservedFor") or ())
            assert item["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    return found


def test_gang_gets_a_device_each_and_evicts_for_them() -> None:
    """From templates to claims, allocation and reservation; victims' devices come back through the claim controller."""

    async def run() -> None:
        async with cluster() as world, world.scheduling():
            await devices(world, 3)
            for name in ("low0", "low1"):
                await user(world, name)
            await world.until(lambda p: all(p[f"low{i}"]["spec"].get("nodeName") for i in range(2)))
            assert sorted(name for names in (await held(world)).values() for name in names) == ["low0", "low1"]
            await world.priority("high", 100)
            group = {"priorityClassName": "high", "schedulingPolicy": {"gang": {"minCount": 3}}}
            body = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "spec": group}
            await world.client.request("POST", GROUPS, body={**body, "metadata": {"name": "gang"}})
            for number in range(3):
                await user(world, f"g{number}", group="gang", priority="high")
            pods = await world.until(
                lambda p: all(p.get(f"g{n}", {}).get("spec", {}).get("nodeName") for n in range(3))
            )
            assert not {"low0", "low1"} & set(pods)
            assert sorted((await held(world)).values()) == [["g0"], ["g1"], ["g2"]]

    asyncio.run(run())


def test_gang_shares_the_claim_of_its_group() -> None:
    """KEP-5729: made by the claim controller for the group, reserved for it, given back when the group is deleted."""

    async def run() -> None:
        async with cluster() as world, world.scheduling():
            await devices(world, 2)
            entry = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}
            group = {"schedulingPolicy": {"gang": {"minCount": 3}}, "resourceClaims": [entry]}
            body = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "spec": group}
            await world.client.request("POST", GROUPS, body={**body, "metadata": {"name": "gang"}})
            for number in range(3):
                await user(world, f"g{number}", group="gang")
            await world.until(lambda p: all(p.get(f"g{n}", {}).get("spec", {}).get("nodeName") for n in range(3)))
            assert list((await held(world)).values()) == [["gang"]]
            for number in range(3):
                await world.client.request("DELETE", f"{PODS}/g{number}")
            await world.client.request("DELETE", f"{GROUPS}/gang")
            for number in range(2):
                await user(world, f"p{number}")
            await world.until(lambda p: all(p.get(f"p{n}", {}).get("spec", {}).get("nodeName") for n in range(2)))
            assert sorted((await held(world)).values()) == [["p0"], ["p1"]]

    asyncio.run(run())


EXTENDED = "example.com/gpu"
MARK = "resource.kubernetes.io/extended-resource-claim"


async def asks(world: Cluster, name: str, *, group: str = "", priority: str = "", gates: bool = False) -> Json:
    """A pod that asks for a device as an extended resource."""
    spec: Json = {
        "schedulerName": NAME,
        "containers": [{"name": "c", "image": "i", "resources": {"limits": {EXTENDED: "1"}}}],
        "terminationGracePeriodSeconds": 0,
    }
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    if priority:
        spec["priorityClassName"] = priority
    if gates:
        spec["schedulingGates"] = [{"name": "example.com/later"}]
    made = (await world.client.request("POST", PODS, body={"metadata": {"name": name}, "spec": spec})).read(dict)
    return dict(made)


async def served(world: Cluster, count: int) -> None:
    """The class serves the resource."""
    await devices(world, count)
    patch = {"spec": {"extendedResourceName": EXTENDED}}
    await world.client.request(
        "PATCH", f"/apis/{VERSION}/deviceclasses/gpu", body=patch, content_type="application/merge-patch+json"
    )


def test_extended_resources_become_claims_and_go_with_their_pods() -> None:
    """devices.md 4.5-4.6: a claim each, named in the pod's status; an eviction gives the devices back."""

    async def run() -> None:
        async with cluster() as world, world.scheduling():
            await served(world, 2)
            for name in ("low0", "low1"):
                await asks(world, name)
            pods = await world.until(lambda p: all(p[f"low{i}"]["spec"].get("nodeName") for i in range(2)))
            assert sorted((await held(world)).values()) == [["low0"], ["low1"]]
            claims = {one["metadata"]["name"]: one for one in (await world.client.get(CLAIMS)).read(dict)["items"]}
            for name in ("low0", "low1"):
                said = pods[name]["status"]["extendedResourceClaimStatus"]
                assert said["requestMappings"] == [
                    {"containerName": "c", "resourceName": EXTENDED, "requestName": "container-0-request-0"}
                ]
                meta = claims[said["resourceClaimName"]]["metadata"]
                assert meta["annotations"] == {MARK: "true"}
                assert [one["uid"] for one in meta["ownerReferences"]] == [pods[name]["metadata"]["uid"]]
            await world.priority("high", 100)
            group = {"priorityClassName": "high", "schedulingPolicy": {"gang": {"minCount": 2}}}
            body = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "spec": group}
            await world.client.request("POST", GROUPS, body={**body, "metadata": {"name": "gang"}})
            for number in range(2):
                await asks(world, f"g{number}", group="gang", priority="high")
            pods = await world.until(
                lambda p: all(p.get(f"g{n}", {}).get("spec", {}).get("nodeName") for n in range(2))
            )
            assert not {"low0", "low1"} & set(pods)
            assert sorted((await held(world)).values()) == [["g0"], ["g1"]]

    asyncio.run(run())


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_kill_between_the_calls_leaves_no_claim_behind(calls: int) -> None:
    """devices.md 4.6: made; allocated; said in the pod's status - and then the scheduler was killed."""

    async def run() -> None:
        async with cluster() as world:
            await served(world, 1)
            made = await asks(world, "p")
            owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": made["metadata"]["uid"], "controller": True}
            meta = {
                "name": "left",
                "annotations": {MARK: "true"},
                "ownerReferences": [owner],
                "finalizers": ["resource.kubernetes.io/delete-protection"],
            }
            request = {"name": "container-0-request-0", "exactly": {"deviceClassName": "gpu"}}
            body: Json = {"metadata": meta, "spec": {"devices": {"requests": [request]}}}
            await world.client.request("POST", CLAIMS, body=body)
            merge = "application/merge-patch+json"
            if calls > 1:
                result = {"request": "container-0-request-0", "driver": DRIVER, "pool": "n0", "device": "gpu-0"}
                consumer = {"resource": "pods", "name": "p", "uid": owner["uid"]}
                status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}
                await world.client.request(
                    "PATCH", f"{CLAIMS}/left/status", body={"status": status}, content_type=merge
                )
            if calls > 2:
                mapping = {"containerName": "c", "resourceName": EXTENDED, "requestName": "container-0-request-0"}
                said = {"extendedResourceClaimStatus": {"resourceClaimName": "left", "requestMappings": [mapping]}}
                await world.client.request("PATCH", f"{PODS}/p/status", body={"status": said}, content_type=merge)
            async with world.scheduling():
                pods = await world.until(lambda p: p["p"]["spec"].get("nodeName"))
                (claim,) = (await world.client.get(CLAIMS)).read(dict)["items"]
                assert claim["metadata"]["name"] != "left"
                name = pods["p"]["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
                assert name == claim["metadata"]["name"]
                assert await held(world) == {"gpu-0": ["p"]}
                await world.client.request("DELETE", f"{PODS}/p")
                await asks(world, "q")
                await world.until(lambda p: p.get("q", {}).get("spec", {}).get("nodeName"))
                assert await held(world) == {"gpu-0": ["q"]}

    asyncio.run(run())
