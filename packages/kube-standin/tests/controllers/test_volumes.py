"""Volumes and claims in the embedded control plane: binding, provisioning, release, protection, ephemeral volumes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests import manifests
from tests.controllers.world import World, owner, template

Json = dict[str, Any]
STORAGE = (
    "persistentvolume-binder",
    "volume-provisioner",
    "ephemeral-volume",
    "storage-protection",
    "garbage-collector",
    "statefulset",
)
ONCE = ["ReadWriteOnce"]


@pytest.fixture
def world() -> World:
    return World(STORAGE)


def volume(name: str, size: str = "1Gi", *, of: str = "", held: str = "", policy: str = "Retain", **more: Any) -> Json:
    spec: Json = {
        "capacity": {"storage": size},
        "accessModes": ONCE,
        "storageClassName": of,
        "persistentVolumeReclaimPolicy": policy,
        "csi": {"driver": "d", "volumeHandle": name},
        **more,
    }
    if held:
        spec["claimRef"] = {"namespace": "default", "name": held}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def claim(name: str, size: str = "1Gi", *, of: str | None = "", **more: Any) -> Json:
    spec: Json = {"accessModes": ONCE, "resources": {"requests": {"storage": size}}, **more}
    if of is not None:
        spec["storageClassName"] = of
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def storage_class(name: str, provisioner: str = "disk.example.com", *, wait: bool = False, **more: Any) -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, **more.pop("metadata", {})},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer" if wait else "Immediate",
        **more,
    }


def pod(name: str, volumes: Iterable[Json]) -> Json:
    return manifests.pod(name, volumes=list(volumes))


def uses(claim_name: str) -> Json:
    return {"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}


def the_claim(world: World, name: str) -> Json:
    return world.get("v1", "PersistentVolumeClaim", name)


def the_volume(world: World, name: str) -> Json:
    return world.get("v1", "PersistentVolume", name, "")


def make(world: World, *items: Json) -> World:
    for item in items:
        world.create(item)
    return world.settle()


def test_smallest_volume_that_fits_is_bound_on_both_sides(world: World) -> None:
    make(world, volume("large", "9Gi"), volume("small", "2Gi"), volume("tiny", "1Gi"))
    assert the_volume(world, "small")["status"]["phase"] == "Available"
    make(world, claim("c", "2Gi"))
    found, taken = the_claim(world, "c"), the_volume(world, "small")
    assert found["spec"]["volumeName"] == "small"
    assert found["status"] == {"phase": "Bound", "accessModes": ONCE, "capacity": {"storage": "2Gi"}}
    assert found["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] == "yes"
    assert taken["spec"]["claimRef"]["uid"] == found["metadata"]["uid"]
    assert taken["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"
    assert taken["status"]["phase"] == "Bound"


def test_volume_held_for_a_claim_is_for_no_other(world: World) -> None:
    make(world, volume("v", "9Gi", held="mine"), claim("other"))
    assert the_claim(world, "other")["status"]["phase"] == "Pending"
    make(world, claim("mine"), volume("w", "1Gi"))
    assert the_claim(world, "mine")["spec"]["volumeName"] == "v"
    assert the_claim(world, "other")["spec"]["volumeName"] == "w"
    by_binder = "pv.kubernetes.io/bound-by-controller"
    noted = {name: by_binder in the_volume(world, name)["metadata"].get("annotations", {}) for name in ("v", "w")}
    assert noted == {"v": False, "w": True}, "only a volume that the binder chose has the mark"


@pytest.mark.parametrize(
    ("wanted", "there"),
    [
        (claim("c", "2Gi"), volume("v", "1Gi")),
        (claim("c", of="x"), volume("v", of="y")),
        (claim("c", volumeMode="Block"), volume("v")),
        (claim("c", accessModes=["ReadWriteMany"]), volume("v")),
        (claim("c", selector={"matchLabels": {"a": "b"}}), volume("v")),
    ],
)
def test_volume_that_does_not_fit_is_not_bound(world: World, wanted: Json, there: Json) -> None:
    make(world, wanted, there)
    assert the_claim(world, "c")["status"]["phase"] == "Pending"
    assert the_volume(world, "v")["status"]["phase"] == "Available"


def test_claim_that_waits_for_a_pod_is_the_scheduler_s_to_bind(world: World) -> None:
    """It binds by holding the volume for the claim; the controller completes that."""
    make(world, storage_class("local", "kubernetes.io/no-provisioner", wait=True), volume("v", of="local"))
    made = make(world, claim("c", of="local"))
    assert "volumeName" not in the_claim(made, "c")["spec"]
    meta = the_claim(world, "c")["metadata"]
    ref = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "c", "uid": meta["uid"]}
    world.patch("v1", "PersistentVolume", "v", {"spec": {"claimRef": ref}}, ns="")
    world.settle()
    assert the_claim(world, "c")["status"]["phase"] == "Bound"


def test_immediate_claims_are_provisioned_and_reclaimed(world: World) -> None:
    make(world, storage_class("fast"), claim("c", "5Gi", of="fast"))
    found = the_claim(world, "c")
    name = f"pvc-{found['metadata']['uid']}"
    assert found["spec"]["volumeName"] == name
    assert found["status"]["phase"] == "Bound"
    made = the_volume(world, name)
    assert made["spec"]["csi"]["driver"] == "disk.example.com"
    assert made["spec"]["capacity"] == {"storage": "5Gi"}
    world.delete("v1", "PersistentVolumeClaim", "c")
    world.settle()
    assert not world.has("v1", "PersistentVolumeClaim", "c")
    assert not world.has("v1", "PersistentVolume", name, "")


def test_volume_to_be_retained_is_released(world: World) -> None:
    make(world, volume("v"), claim("c"))
    world.delete("v1", "PersistentVolumeClaim", "c")
    world.settle()
    assert the_volume(world, "v")["status"]["phase"] == "Released"
    make(world, claim("c"))
    assert the_claim(world, "c")["status"]["phase"] == "Pending", "another claim of that name is another claim"


def test_provisioning_waits_for_the_chosen_node_and_follows_its_topology(world: World) -> None:
    zone = "topology.kubernetes.io/zone"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {zone: "a"}}}
    drivers = [{"name": "disk.example.com", "nodeID": "n1", "topologyKeys": [zone]}]
    csi = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": "n1"},
        "spec": {"drivers": drivers},
    }
    make(world, node, csi, storage_class("slow", wait=True), claim("c", of="slow"))
    assert the_claim(world, "c")["status"]["phase"] == "Pending"
    note = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}}
    world.patch("v1", "PersistentVolumeClaim", "c", note)
    world.settle()
    found = the_claim(world, "c")
    assert found["status"]["phase"] == "Bound"
    wanted = [{"matchExpressions": [{"key": zone, "operator": "In", "values": ["a"]}]}]
    made = the_volume(world, found["spec"]["volumeName"])
    assert made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] == wanted


def test_claim_without_a_class_gets_the_default(world: World) -> None:
    make(world, claim("c", of=None))
    assert the_claim(world, "c")["status"]["phase"] == "Pending"
    marked = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    make(world, storage_class("fast", metadata=marked))
    assert the_claim(world, "c")["spec"]["storageClassName"] == "fast"
    assert the_claim(world, "c")["status"]["phase"] == "Bound"


def test_bound_claim_without_its_volume_is_lost(world: World) -> None:
    make(world, volume("v"), claim("c"))
    world.patch("v1", "PersistentVolume", "v", {"metadata": {"finalizers": None}}, ns="")
    world.delete("v1", "PersistentVolume", "v", "")
    world.settle()
    assert the_claim(world, "c")["status"]["phase"] == "Lost"


def test_provisioned_volume_grows_with_its_claim(world: World) -> None:
    """interfaces.md 7.18; a volume that was not provisioned keeps its size."""
    make(world, storage_class("grows", allowVolumeExpansion=True), claim("c", of="grows"))
    make(world, volume("v", of="grows", held="d"), claim("d", of="grows"))
    larger = {"spec": {"resources": {"requests": {"storage": "3Gi"}}}}
    for name in ("c", "d"):
        world.patch("v1", "PersistentVolumeClaim", name, larger)
    world.settle()
    found = the_claim(world, "c")
    assert the_volume(world, found["spec"]["volumeName"])["spec"]["capacity"] == {"storage": "3Gi"}
    assert found["status"]["capacity"] == {"storage": "3Gi"}
    assert the_volume(world, "v")["spec"]["capacity"] == {"storage": "1Gi"}
    assert [one["reason"] for one in world.all("v1", "Event")].count("VolumeResizeSuccessful") == 1


def test_claim_in_use_and_its_volume_stay_until_the_pod_is_gone(world: World) -> None:
    make(world, volume("v", policy="Delete"), claim("c"), pod("p", [uses("c")]))
    world.delete("v1", "PersistentVolumeClaim", "c")
    world.delete("v1", "PersistentVolume", "v", "")
    world.settle()
    assert the_claim(world, "c")["metadata"]["deletionTimestamp"]
    assert world.has("v1", "PersistentVolume", "v", "")
    world.set_phase("p", "Succeeded")
    world.settle()
    assert not world.has("v1", "PersistentVolumeClaim", "c")
    assert not world.has("v1", "PersistentVolume", "v", "")


def test_ephemeral_volume_s_claim_comes_and_goes_with_the_pod(world: World) -> None:
    spec = {"accessModes": ONCE, "storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}
    made = {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": spec}}}
    make(world, storage_class("fast"), pod("p", [made]))
    found = the_claim(world, "p-tmp")
    assert found["metadata"]["labels"] == {"a": "b"}
    (owned,) = found["metadata"]["ownerReferences"]
    assert owned["uid"] == world.get("v1", "Pod", "p")["metadata"]["uid"]
    assert found["status"]["phase"] == "Bound"
    world.delete("v1", "Pod", "p", grace=0)
    world.settle()
    assert not world.all("v1", "PersistentVolumeClaim")
    assert not world.all("v1", "PersistentVolume")


def test_stateful_set_s_claims_are_provisioned(world: World) -> None:
    spec = {"accessModes": ONCE, "storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}
    templates = [{"metadata": {"name": "data"}, "spec": spec}]
    sets = owner("StatefulSet", "web", pod=template(), serviceName="web", replicas=1, volumeClaimTemplates=templates)
    make(world, storage_class("fast"), sets)
    assert the_claim(world, "data-web-0")["status"]["phase"] == "Bound"


def test_kill_costs_nothing(world: World) -> None:
    """Everything is read again at start: what was under way goes on."""
    world.create(storage_class("fast"))
    world.create(claim("c", of="fast"))
    again = world.restarted(STORAGE)
    assert the_claim(again, "c")["status"]["phase"] == "Bound"
    version = the_claim(again, "c")["metadata"]["resourceVersion"]
    final = again.restarted(STORAGE)
    assert the_claim(final, "c")["metadata"]["resourceVersion"] == version, "at rest nothing is written"
