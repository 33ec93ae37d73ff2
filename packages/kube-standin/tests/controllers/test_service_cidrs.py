"""ServiceCIDRs are ready, and stay while addresses need them (interfaces.md 7.16)."""

from __future__ import annotations

from typing import Any

import pytest

from kube_standin.bootstrap import ensure_own_service
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
    ensure_own_service(world.registry, "127.0.0.1", 6443)
    assert ready(world, "kubernetes") == ("True", "")
    assert world.get(*ADDRESS, "10.96.0.1", "")["spec"]["parentRef"]["name"] == "kubernetes"
    world.delete(*CIDR, "kubernetes", "")
    assert ready(world, "kubernetes") == ("False", "Terminating")
