"""Facts of conformance specs of sig-api-machinery that have no other place: quotas of custom resources and claims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kube_standin.crds import rows_of
from tests.controllers.world import World
from tests.server.inprocess import Plane, running

Json = dict[str, Any]
DEFINITION: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "foos.quota.example.com"},
    "spec": {
        "group": "quota.example.com",
        "scope": "Namespaced",
        "names": {"kind": "Foo", "plural": "foos"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
WATCH_LIST = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


@pytest.fixture
def plane() -> Iterator[Plane]:
    with running() as made:
        yield made


def quota(name: str, hard: Json, **spec: Any) -> Json:
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard, **spec}}


def used(world: World, name: str) -> Json:
    found: Json = world.forward(1).get("v1", "ResourceQuota", name)["status"]["used"]
    return found


def test_quota_counts_custom_resources_that_were_defined_after_it() -> None:
    """resource_quota.go, "the life of a custom resource": it is charged, and given back when the object goes."""
    world = World(("resourcequota",))
    world.create(quota("q", {"count/foos.quota.example.com": "1"}))
    assert used(world, "q") == {"count/foos.quota.example.com": "0"}
    for row in rows_of(DEFINITION).values():
        world.registry.kinds.add(row)
    world.create(DEFINITION)
    world.forward(1)
    world.create({"apiVersion": "quota.example.com/v1", "kind": "Foo", "metadata": {"name": "a"}})
    assert used(world, "q") == {"count/foos.quota.example.com": "1"}
    world.delete("quota.example.com/v1", "Foo", "a")
    assert used(world, "q") == {"count/foos.quota.example.com": "0"}


def test_claim_that_changes_its_attributes_class_counts_for_both() -> None:
    """resource_quota.go, "against a pvc with different volume attributes class": until the change is done."""
    world = World(("resourcequota", "persistentvolume-binder"))
    for name in ("gold", "silver"):
        term = {"scopeName": "VolumeAttributesClass", "operator": "In", "values": [name]}
        hard = {"persistentvolumeclaims": "1", "requests.storage": "5Gi"}
        world.create(quota(name, hard, scopeSelector={"matchExpressions": [term]}))
    world.settle()
    spec: Json = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeAttributesClassName": "gold"}
    spec |= {"resources": {"requests": {"storage": "1Gi"}}}
    world.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": spec})
    one: Json = {"persistentvolumeclaims": "1", "requests.storage": "1Gi"}
    none = dict.fromkeys(one, "0")
    assert (used(world, "gold"), used(world, "silver")) == (one, none)
    volume: Json = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp"}}
    volume |= {"volumeAttributesClassName": "gold", "claimRef": {"namespace": "default", "name": "c"}}
    world.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": volume})
    bound = world.settle().get("v1", "PersistentVolumeClaim", "c")["status"]
    assert (bound["phase"], bound["currentVolumeAttributesClassName"]) == ("Bound", "gold")
    world.patch("v1", "PersistentVolumeClaim", "c", {"spec": {"volumeAttributesClassName": "silver"}})
    assert world.get("v1", "ResourceQuota", "silver")["status"]["used"] == one  # charged at once
    assert (used(world, "gold"), used(world, "silver")) == (one, one)
    world.set_status("v1", "PersistentVolumeClaim", "c", {"currentVolumeAttributesClassName": "silver"})
    assert (used(world, "gold"), used(world, "silver")) == (none, one)


def test_watch_that_lists_comes_as_no_table(plane: Plane) -> None:
    """watchlist.go: 406, or what else the client takes; a plain watch of a Table is served."""
    path = f"GET /api/v1/namespaces/default/secrets?{WATCH_LIST}&timeoutSeconds=1"
    assert plane.ask(path, accept=TABLE).status == 406
    assert b'"kind":"Table"' not in plane.ask(path, accept=f"{TABLE},application/json").body
