"""Devices on `reprieve up`: extended resources that a class serves, taints by rule (docs/rules/devices.md 3, 4)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.cluster import (
    CLASSES,
    GROUPS,
    PODS,
    Json,
    Up,
    condition,
    eventually,
    is_running,
    nodes_file,
    pod,
    pod_group,
    priority_class,
    up,
)

RESOURCE = "/apis/resource.k8s.io/v1"
CLAIMS = RESOURCE + "/namespaces/{namespace}/resourceclaims"
GPU = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"
DRIVER = "gpu.example.com"
ON_EACH = 4
NODES = ("n1", "n2")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Two nodes with four devices each, and a class that serves them."""
    directory = tmp_path_factory.mktemp("devices")
    with up(directory, f"--nodes-file={nodes_file(directory, *NODES, cpu='16')}") as running:
        running.api.create(CLASSES, priority_class("high", 1000))
        spec = {"extendedResourceName": GPU}
        running.api.create(f"{RESOURCE}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": spec})
        for name in NODES:
            running.api.create(f"{RESOURCE}/resourceslices", inventory(name))
        yield running
        assert "Traceback" not in running.log.read_text(), running.log.read_text()


def inventory(node: str) -> Json:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    listed = [{"name": f"gpu-{index}"} for index in range(ON_EACH)]
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": listed}
    return {"metadata": {"name": node}, "spec": spec}


def asks(name: str, resource: str = GPU, **fields: Any) -> Json:
    """A pod that asks for a device as for any extended resource."""
    found = pod(name, cpu="100m", stop=0, **fields)
    found["spec"]["containers"][0]["resources"]["limits"] = {resource: "1"}
    return found


def claims(cluster: Up, namespace: str) -> dict[str, Json]:
    return {one["metadata"]["name"]: one for one in cluster.api.items(CLAIMS.format(namespace=namespace))}


def devices_of(cluster: Up, namespace: str) -> dict[str, list[str]]:
    """Pod -> the devices of the claim that its status names."""
    there, found = claims(cluster, namespace), {}
    for name, one in cluster.api.pods(namespace).items():
        said = one["status"].get("extendedResourceClaimStatus")
        if said is not None:
            results = there[said["resourceClaimName"]]["status"]["allocation"]["devices"]["results"]
            found[name] = [f"{result['pool']}/{result['device']}" for result in results]
    return found


def test_gang_makes_room_for_its_devices(cluster: Up) -> None:
    """devices.md 4.5-4.6: no claim is left of the victims, no device is given twice."""
    space = "gang"
    pods = cluster.workplace(space)
    for index in range(2 * ON_EACH):
        cluster.api.create(pods, asks(f"low-{index}", IMPLICIT if index % 2 else GPU))
    low = [f"low-{index}" for index in range(2 * ON_EACH)]
    eventually(lambda: cluster.api.runs(*low, namespace=space), "every device in use")
    held = devices_of(cluster, space)
    assert sorted(name for names in held.values() for name in names) == sorted(
        f"{node}/gpu-{index}" for node in NODES for index in range(ON_EACH)
    )
    cluster.api.create(GROUPS.format(namespace=space), pod_group("train", 3, priority="high"))
    gang = [f"train-{index}" for index in range(3)]
    for name in gang:
        cluster.api.create(pods, asks(name, group="train", priority="high"))
    eventually(lambda: cluster.api.runs(*gang, namespace=space), "the gang running")
    eventually(lambda: len(claims(cluster, space)) == 2 * ON_EACH, "the claims of the victims are gone")
    held = devices_of(cluster, space)
    assert set(gang) <= held.keys()
    assert len([name for name in held if name.startswith("low")]) == 2 * ON_EACH - 3
    assert len({name for names in held.values() for name in names}) == 2 * ON_EACH
    for name in cluster.api.pods(space):
        cluster.api.delete(f"{pods}/{name}?gracePeriodSeconds=0")
    eventually(lambda: not claims(cluster, space), "no claim left")


def test_scheduler_that_is_killed_leaves_no_claim_behind(cluster: Up) -> None:
    """devices.md 4.6: killed while it binds; what began is finished or undone by the next one."""
    space = "killed"
    pods = cluster.workplace(space)
    names = [f"p-{index}" for index in range(2 * ON_EACH)]
    with cluster.api.history(CLAIMS.format(namespace=space)) as made:
        for name in names:
            cluster.api.create(pods, asks(name))
        made.until(lambda: made.seen(lambda _: True), "a claim")
        for child in cluster.children():
            os.kill(child, signal.SIGKILL)
    eventually(lambda: cluster.api.runs(*names, namespace=space), "all of them running")
    eventually(lambda: len(claims(cluster, space)) == len(names), "a claim each")
    assert len({name for found in devices_of(cluster, space).values() for name in found}) == len(names)
    for name in names:
        cluster.api.delete(f"{pods}/{name}?gracePeriodSeconds=0")
    eventually(lambda: not claims(cluster, space), "no claim left")


def test_broken_device_loses_its_pod_and_gets_no_other(cluster: Up) -> None:
    """devices.md 3.2, 3.4-3.5: the rule says when it is done; a pending pod gets the device when the rule goes."""
    space = "broken"
    pods = cluster.workplace(space)
    cluster.api.create(pods, asks("victim", node="n1"))
    eventually(lambda: cluster.api.runs("victim", namespace=space))
    [where] = devices_of(cluster, space)["victim"]
    selector = {"driver": DRIVER, "pool": "n1", "device": where.partition("/")[2]}
    rules = f"{RESOURCE}/devicetaintrules"
    taint = {"key": "example.com/broken", "effect": "NoExecute"}
    body = {"metadata": {"name": "broken"}, "spec": {"deviceSelector": selector, "taint": taint}}
    with cluster.api.history(PODS.format(namespace=space)) as history:
        made = cluster.api.create(rules, body)
        assert made["spec"]["taint"]["timeAdded"]
        cluster.heard(made)
        history.until(lambda: history.seen(is_evicted), "the pod told")
        eventually(lambda: cluster.api.gone("victim", namespace=space))
    others = [f"other-{index}" for index in range(ON_EACH)]
    for name in others:
        cluster.api.create(pods, asks(name, node="n1"))

    def settled() -> bool:
        found = cluster.api.pods(space)
        return sum(map(is_running, found.values())) == ON_EACH - 1 and any(
            condition(one, "PodScheduled").get("reason") == "Unschedulable" for one in found.values()
        )

    eventually(settled, "all but one")
    assert where not in {name for names in devices_of(cluster, space).values() for name in names}

    def done() -> Json:
        told = condition(cluster.api.get(f"{rules}/broken"), "EvictionInProgress")
        return told if told.get("reason") == "Completed" else {}

    told: Json = eventually(done, "the rule says that it is done")
    assert (told["status"], told["message"]) == ("False", "1 pod evicted since starting the controller.")
    cluster.api.delete(f"{rules}/broken")
    eventually(lambda: cluster.api.runs(*others, namespace=space), "the device in use again")
    assert where in {name for names in devices_of(cluster, space).values() for name in names}
    for name in others:
        cluster.api.delete(f"{pods}/{name}?gracePeriodSeconds=0")
    eventually(lambda: not claims(cluster, space), "no claim left")


def is_evicted(one: Json) -> bool:
    return condition(one, "DisruptionTarget").get("reason") == "DeletionByDeviceTaintManager"
