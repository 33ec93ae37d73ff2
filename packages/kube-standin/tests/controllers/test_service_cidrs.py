"""ServiceCIDRs are ready, and stay while addresses need them; addresses are repaired (interfaces.md 7.16, 7.17)."""

from __future__ import annotations

from typing import Any

import pytest

from kube_standin.bootstrap import ensure_own_objects
from tests.controllers.world import World

Json = dict[str, Any]
CIDR, ADDRESS = ("networking.k8s.io/v1", "ServiceCIDR"), ("networking.k8s.io/v1", "IPAddress")
FINALIZER = "networking.k8s.io/service-cidr-finalizer"
ALLOCATED = {"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}


@pytest.fixture
def world() -> World:
    return World(("service-cidr-controller",))


def put(world: World, name: str, *cidrs: str) -> None:
    spec = {"cidrs": list(cidrs)}
    world.create({"apiVersion": CIDR[0], "kind": CIDR[1], "metadata": {"name": name}, "spec": spec})
    world.settle()


def put_address(world: World, name: str, labels: Json | None = None) -> None:
    spec = {"parentRef": {"resource": "services", "namespace": "default", "name": "s"}}
    metadata = {"name": name, "labels": ALLOCATED if labels is None else labels}
    world.create({"apiVersion": ADDRESS[0], "kind": ADDRESS[1], "metadata": metadata, "spec": spec})


def ready(world: World, name: str) -> tuple[str, str]:
    found = world.condition(world.settle().get(*CIDR, name, ""), "Ready")
    return found["status"], found["reason"]


def test_new_one_is_ready_and_protected(world: World) -> None:
    put(world, "a", "10.0.0.0/24", "fd00::/112")
    assert ready(world, "a") == ("True", "")
    assert world.get(*CIDR, "a", "")["metadata"]["finalizers"] == [FINALIZER]
    before = world.get(*CIDR, "a", "")
    world.forward(60)
    assert world.get(*CIDR, "a", "") == before


def test_deleted_one_goes_after_ten_seconds(world: World) -> None:
    put(world, "a", "10.0.0.0/24")
    put_address(world, "10.0.1.1")
    put_address(world, "10.0.0.9", {"managed": "by-hand"})
    world.delete(*CIDR, "a", "")
    assert world.forward(9).has(*CIDR, "a", "")
    assert not world.forward(1).has(*CIDR, "a", "")


def test_deleted_one_waits_for_its_addresses(world: World) -> None:
    put(world, "a", "10.0.0.0/24")
    put_address(world, "10.0.0.1")
    world.delete(*CIDR, "a", "")
    assert ready(world, "a") == ("False", "Terminating")
    assert world.forward(60).has(*CIDR, "a", "")
    world.delete(*ADDRESS, "10.0.0.1", "")
    assert not world.forward(10).has(*CIDR, "a", "")


@pytest.mark.parametrize(("other", "goes"), [("10.0.0.0/16", True), ("10.0.0.0/25", True), ("10.0.0.128/25", False)])
def test_another_one_may_have_the_address(world: World, other: str, goes: bool) -> None:
    """One that contains the whole network, or the address."""
    put(world, "a", "10.0.0.0/24")
    put_address(world, "10.0.0.1")
    world.delete(*CIDR, "a", "")
    world.settle()
    put(world, "b", other)
    assert world.forward(10).has(*CIDR, "a", "") is not goes


def test_network_of_the_cluster_is_ready(world: World) -> None:
    """service_cidrs.go, "should support ServiceCIDR API operations": the default one is there."""
    ensure_own_objects(world.registry, "127.0.0.1", 6443)
    assert ready(world, "kubernetes") == ("True", "")
    assert world.get(*ADDRESS, "10.96.0.1", "")["spec"]["parentRef"]["name"] == "kubernetes"
    world.delete(*CIDR, "kubernetes", "")
    assert ready(world, "kubernetes") == ("False", "Terminating")


@pytest.fixture
def repaired() -> World:
    world = World(("service-ip-repair-controller",))
    put(world, "kubernetes", "10.0.0.0/24")
    return world


def service(world: World, name: str, **spec: Any) -> str:
    """Create a Service; return its address."""
    body = {"ports": [{"port": 80}], **spec}
    manifest = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": body}
    address: str = world.create(manifest)["spec"].get("clusterIP", "")
    world.settle()
    return address


def events(world: World) -> list[str]:
    return [one["reason"] for one in world.all("v1", "Event")]


def test_deleted_address_of_a_service_comes_back(repaired: World) -> None:
    address = service(repaired, "a")
    repaired.delete(*ADDRESS, address, "")
    assert repaired.settle().get(*ADDRESS, address, "")["spec"]["parentRef"]["name"] == "a"
    assert events(repaired) == ["ClusterIPNotAllocated"]


def test_leaked_address_is_deleted_after_a_minute(repaired: World) -> None:
    put_address(repaired, "10.0.0.9")
    put_address(repaired, "10.0.0.10", {})
    assert repaired.forward(59).has(*ADDRESS, "10.0.0.9", "")
    assert not repaired.forward(1).has(*ADDRESS, "10.0.0.9", "")
    assert repaired.has(*ADDRESS, "10.0.0.10", "")


def test_address_that_its_service_does_not_have_is_deleted(repaired: World) -> None:
    address = service(repaired, "s")
    put_address(repaired, "10.0.0.9")
    assert not repaired.settle().has(*ADDRESS, "10.0.0.9", "")
    assert repaired.has(*ADDRESS, address, "")


def test_address_that_names_something_else_is_made_anew(repaired: World) -> None:
    address = service(repaired, "a")
    for spec in ({"resource": "gateways", "name": "a"}, {"resource": "services", "namespace": "default", "name": "b"}):
        row = repaired.kind(*ADDRESS)
        state = repaired.registry.head(row, "", address)
        assert state is not None
        repaired.store.put(state.resource, "", address, {**state.decode(), "spec": {"parentRef": spec}}, state)
        repaired.store.flush()
        repaired.patch("v1", "Service", "a", {"metadata": {"labels": {"turn": spec["resource"]}}})
        repaired.settle()
        parent = repaired.get(*ADDRESS, address, "")["spec"]["parentRef"]
        assert parent == {"resource": "services", "namespace": "default", "name": "a"}


def test_two_services_with_one_address_are_reported(repaired: World) -> None:
    address = service(repaired, "a")
    service(repaired, "b")
    row = repaired.kind("v1", "Service")
    state = repaired.registry.head(row, "default", "b")
    assert state is not None
    body = state.decode()
    body["spec"] |= {"clusterIP": address, "clusterIPs": [address]}
    repaired.store.put(state.resource, "default", "b", body, state)
    repaired.store.flush()
    assert events(repaired.settle()) == ["ClusterIPAlreadyAllocated"]
    assert repaired.get(*ADDRESS, address, "")["spec"]["parentRef"]["name"] == "a"


def test_service_of_an_older_server_gets_an_address() -> None:
    before = World()
    service(before, "old")
    row = before.kind("v1", "Service")
    state = before.registry.head(row, "default", "old")
    assert state is not None
    body = state.decode()
    for field in ("clusterIP", "clusterIPs"):
        del body["spec"][field]
    before.store.put(state.resource, "default", "old", body, state)
    before.store.flush()
    after = before.restarted(("service-ip-repair-controller",))
    address = after.get("v1", "Service", "old")["spec"]["clusterIP"]
    assert after.get(*ADDRESS, address, "")["spec"]["parentRef"]["name"] == "old"
