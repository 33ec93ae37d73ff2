"""Facts of conformance specs of sig-network that need no network: endpoints of Services, and their mirrors."""

from __future__ import annotations

from typing import Any

import pytest

from kube_standin.bootstrap import ensure_own_objects
from kube_standin.controllers import CONTROLLERS
from tests import manifests
from tests.controllers.world import World
from tests.server.inprocess import running

Json = dict[str, Any]
SLICE, NAME = ("discovery.k8s.io/v1", "EndpointSlice"), "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"


@pytest.fixture
def world() -> World:
    return World(CONTROLLERS, nodes=2, adopt=False)


def service(name: str, selector: Json | None = None, ports: list[Json] | None = None, **spec: Any) -> Json:
    given = ports if ports is not None else [{"name": "example", "port": 80, "protocol": "TCP"}]
    whole = {"ports": given, **({"selector": selector} if selector else {}), **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": whole}


def pod(name: str, *ports: Json, **labels: str) -> Json:
    return manifests.pod(name, labels=labels, containers=[{"name": "container1", "image": "i", "ports": list(ports)}])


def slices(world: World, name: str) -> list[Json]:
    found = world.settle().all(*SLICE, "default")
    of_service = [one for one in found if (one["metadata"].get("labels") or {}).get(NAME) == name]
    return [{"endpoints": [], "ports": [], **one} for one in of_service]


def endpoints(world: World, name: str) -> Json:
    return world.settle().get("v1", "Endpoints", name)


def address(world: World, name: str) -> str:
    found: str = world.get("v1", "Pod", name)["status"]["podIP"]
    return found


def reached(world: World, name: str) -> dict[tuple[str, ...], list[int]]:
    """Return the numbers of ports by addresses, of all slices of a Service."""
    return {
        tuple(endpoint["addresses"]): [port["port"] for port in one["ports"]]
        for one in slices(world, name)
        for endpoint in one["endpoints"]
    }


def test_endpoints_of_the_server_itself(world: World) -> None:
    """endpointslice.go, "should have Endpoints and EndpointSlices pointing to API Server": the same in both, once."""
    ensure_own_objects(world.registry, "192.0.2.1", 6443)
    [subset] = endpoints(world, "kubernetes")["subsets"]
    [one] = slices(world, "kubernetes")
    assert [endpoint["addresses"] for endpoint in one["endpoints"]] == [["192.0.2.1"]]
    assert subset["addresses"] == [{"ip": "192.0.2.1"}]
    assert subset["ports"] == one["ports"] == [{"name": "https", "port": 6443, "protocol": "TCP"}]


def test_endpoints_of_a_service_with_a_selector_come_and_go(world: World) -> None:
    """endpointslice.go: they are there although nothing matches, and go with the Service."""
    world.create(service("example-empty-selector", {"does-not-match-anything": "yes"}))
    assert "subsets" not in endpoints(world, "example-empty-selector")
    [found] = slices(world, "example-empty-selector")
    assert found["metadata"]["labels"][MANAGED_BY] == "endpointslice-controller.k8s.io"
    assert not found["endpoints"]
    world.delete("v1", "Service", "example-empty-selector")
    assert not slices(world, "example-empty-selector")
    assert not world.has("v1", "Endpoints", "example-empty-selector")


def test_endpoints_are_those_of_matching_pods(world: World) -> None:
    """endpointslice.go: one pod, two pods with a port by name, no pods, and slices made again when they are deleted."""
    named = {"name": "example-name", "containerPort": 3000}
    world.create(pod("pod1", named, pod1="on", shared12="on"))
    others = ({**named, "containerPort": 3001}, {"name": "other-port", "containerPort": 3002})
    world.create(pod("pod2", *others, pod2="on", shared12="on"))
    options = {"publishNotReadyAddresses": True}
    http = {"port": 80, "protocol": "TCP"}
    world.create(
        service("example-int-port", {"pod1": "on"}, [{**http, "name": "example", "targetPort": 3000}], **options)
    )
    port = {**http, "name": "http", "targetPort": "example-name"}
    world.create(service("example-named-port", {"shared12": "on"}, [port], **options))
    port = {**http, "name": "example-no-match", "targetPort": 8080}
    world.create(service("example-no-match", {"pod3": "on"}, [port], **options))
    world.schedule()
    first, second = address(world, "pod1"), address(world, "pod2")
    assert reached(world, "example-int-port") == {(first,): [3000]}
    [subset] = endpoints(world, "example-int-port")["subsets"]
    assert [one["ip"] for one in subset["addresses"]] == [first]
    assert subset["ports"] == [{"name": "example", "port": 3000, "protocol": "TCP"}]
    assert reached(world, "example-named-port") == {(first,): [3000], (second,): [3001]}
    assert len(slices(world, "example-named-port")) == 2
    found = endpoints(world, "example-named-port")["subsets"]
    assert {one["ports"][0]["port"]: one["addresses"][0]["ip"] for one in found} == {3000: first, 3001: second}
    [target] = [one["addresses"][0]["targetRef"] for one in found if one["ports"][0]["port"] == 3000]
    assert target == {"kind": "Pod", "name": "pod1", "namespace": "default",
                      "uid": world.get("v1", "Pod", "pod1")["metadata"]["uid"]}  # fmt: skip
    assert [one["endpoints"] for one in slices(world, "example-no-match")] == [[]]
    assert "subsets" not in endpoints(world, "example-no-match")
    for one in slices(world, "example-named-port"):
        world.delete(*SLICE, one["metadata"]["name"])
    assert reached(world, "example-named-port") == {(first,): [3000], (second,): [3001]}


def test_several_ports_and_several_addresses(world: World) -> None:
    """endpointslice.go: slices that clients write with more than one address or port are kept as they are."""
    body = {
        "apiVersion": SLICE[0], "kind": SLICE[1], "addressType": "IPv4",
        "metadata": {"name": "custom", "labels": {NAME: "s", MANAGED_BY: "e2e-test" + SLICE[1].lower()}},
        "ports": [{"name": "port80", "port": 8090}, {"name": "port81", "port": 9090}],
        "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"], "conditions": {"ready": True}}],
    }  # fmt: skip
    world.create(service("s", ports=[{"name": "port80", "port": 80}, {"name": "port81", "port": 81}]))
    world.create(body)
    [found] = slices(world, "s")
    assert [port["port"] for port in found["ports"]] == [8090, 9090]
    assert [one["addresses"] for one in found["endpoints"]] == [["10.0.0.1"], ["10.0.0.2"]]
    assert not world.has("v1", "Endpoints", "s")


def test_service_serves_endpoints_from_pods_with_several_ports(world: World) -> None:
    """service.go: each port has the pods that have it, as these come and go."""
    ports = [
        {"name": "portname1", "port": 80, "targetPort": "a"}, {"name": "portname2", "port": 81, "targetPort": "b"},
    ]  # fmt: skip
    world.create(service("multi-endpoint-test", {"app": "m"}, ports))
    world.create(pod("pod1", {"name": "a", "containerPort": 100}, app="m"))
    world.schedule()
    first = address(world, "pod1")
    assert reached(world, "multi-endpoint-test") == {(first,): [100]}
    world.create(pod("pod2", {"name": "b", "containerPort": 101}, app="m"))
    world.schedule()
    second = address(world, "pod2")
    assert reached(world, "multi-endpoint-test") == {(first,): [100], (second,): [101]}
    world.delete("v1", "Pod", "pod1", grace=0)
    assert reached(world, "multi-endpoint-test") == {(second,): [101]}
    world.delete("v1", "Pod", "pod2", grace=0)
    assert reached(world, "multi-endpoint-test") == {}


def test_lifecycle_of_endpoints(world: World) -> None:
    """service.go: an Endpoints of clients is created, patched, updated and deleted with its labels."""
    subsets = [{"addresses": [{"ip": "10.0.0.24"}], "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}]
    metadata = {"name": "testservice", "labels": {"test-endpoint-static": "true"}}
    world.create({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets})
    world.patch("v1", "Endpoints", "testservice", {"metadata": {"labels": {"test-service": "patched"}}})
    subsets[0]["ports"][0]["port"] = 8080  # type: ignore[index]
    world.patch("v1", "Endpoints", "testservice", {"subsets": subsets})
    found = endpoints(world, "testservice")
    assert found["metadata"]["labels"] == {"test-endpoint-static": "true", "test-service": "patched"}
    assert found["subsets"] == subsets
    world.delete("v1", "Endpoints", "testservice")
    assert not world.settle().has("v1", "Endpoints", "testservice")


def test_custom_endpoints_are_mirrored(world: World) -> None:
    """endpointslicemirroring.go: through create, update and delete."""
    world.create(service("example-custom-endpoints"))
    metadata = {"name": "example-custom-endpoints"}
    subsets = [{"ports": [{"port": 80}], "addresses": [{"ip": "10.1.2.3"}]}]
    world.create({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets})
    assert reached(world, "example-custom-endpoints") == {("10.1.2.3",): [80]}
    [first] = slices(world, "example-custom-endpoints")
    assert first["metadata"]["labels"][MANAGED_BY] == "endpointslicemirroring-controller.k8s.io"
    subsets = [{"ports": [{"port": 80}], "addresses": [{"ip": "10.2.3.4"}]}]
    world.patch("v1", "Endpoints", "example-custom-endpoints", {"subsets": subsets})
    assert reached(world, "example-custom-endpoints") == {("10.2.3.4",): [80]}
    [second] = slices(world, "example-custom-endpoints")
    assert second["metadata"]["name"] == first["metadata"]["name"]
    world.delete("v1", "Endpoints", "example-custom-endpoints")
    assert not slices(world, "example-custom-endpoints")


def test_subsets_with_the_same_address_are_mirrored(world: World) -> None:
    """endpointslicemirroring.go: a slice for each set of ports."""
    world.create(service("s", ports=[{"name": "port80", "port": 80}, {"name": "port81", "port": 81}]))
    subsets = [
        {"ports": [{"name": name, "port": port}], "addresses": [{"ip": "10.1.2.3"}]}
        for name, port in (("port80", 8090), ("port81", 9090))
    ]
    world.create({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "s"}, "subsets": subsets})
    found = [(one["ports"][0]["name"], one["ports"][0]["port"], one["endpoints"]) for one in slices(world, "s")]
    same = [{"addresses": ["10.1.2.3"], "conditions": {"ready": True}}]
    assert sorted(found, key=lambda one: one[0]) == [("port80", 8090, same), ("port81", 9090, same)]


def test_services_are_found_everywhere_and_deleted_together() -> None:
    """service.go: "should find a service from listing all namespaces", "should delete a collection of services"."""
    path, label = "/api/v1/namespaces/default/services", "labelSelector=e2e-testService%3Dx"
    with running() as plane:
        for number in range(3):
            made = service(f"e2e-svc-{number}")
            labels = {"e2e-testService": "x"} if number else {}
            plane.create(path, {**made, "metadata": {**made["metadata"], "labels": labels}})
        everywhere = plane.ask("GET /api/v1/services").json["items"]
        assert {"e2e-svc-0", "e2e-svc-1", "e2e-svc-2"} <= {one["metadata"]["name"] for one in everywhere}
        assert plane.ask(f"DELETE {path}?{label}").status == 200
        assert [one["metadata"]["name"] for one in plane.ask(f"GET {path}").json["items"]] == ["e2e-svc-0"]


def test_server_has_a_secure_service(world: World) -> None:
    """service.go, "should provide secure master service"."""
    ensure_own_objects(world.registry, "192.0.2.1", 6443)
    [port] = world.get("v1", "Service", "kubernetes")["spec"]["ports"]
    assert (port["name"], port["port"]) == ("https", 443)


@pytest.mark.parametrize("kind", ["ClusterIP", "NodePort", "LoadBalancer"])
def test_external_name_becomes_another_type_and_back(world: World, kind: str) -> None:
    """service.go, "should be able to change the type from ExternalName to ...": endpoints come with the selector."""
    world.create(service("s", type="ExternalName", externalName="foo.example.com"))
    assert not world.settle().has("v1", "Endpoints", "s")
    ports = [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 9376}]
    change = {"type": kind, "externalName": None, "ports": ports, "selector": {"app": "a"}}
    world.patch("v1", "Service", "s", {"spec": change})
    world.create(pod("p", app="a"))
    world.schedule()
    assert reached(world, "s") == {(address(world, "p"),): [9376]}
    world.patch("v1", "Service", "s", {"spec": {"type": "ExternalName", "externalName": "foo.example.com"}})
    assert world.settle().get("v1", "Service", "s")["spec"]["type"] == "ExternalName"
