"""Endpoints and EndpointSlices of Services, and mirrored slices (interfaces.md 7.14, 7.15)."""

from __future__ import annotations

from typing import Any

import pytest

from kube_standin.controllers import CONTROLLERS
from kube_standin.errors import StatusError
from tests.conformance.test_network_specs import SLICE, address, endpoints, pod, reached, service, slices
from tests.controllers.world import World, owner, template

Json = dict[str, Any]
NAMES = ("endpoint", "endpointslice", "endpointslicemirroring", "garbage-collector")
TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"


@pytest.fixture
def world() -> World:
    return World(CONTROLLERS, nodes=2, adopt=False)


def put_pod(world: World, name: str, ip: str, *, ready: bool = True, node: str = "n", **spec: Any) -> None:
    """Create a pod that runs on a node with an address."""
    made = pod(name, {"name": "web", "containerPort": 8080}, app="a")
    made["spec"] |= {"nodeName": node, **spec}
    world.create(made)
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": world.clock.stamp()}
    status = {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [condition]}
    world.set_status("v1", "Pod", name, status)


def bare(*, zone: str = "") -> World:
    """Return a world with a node, without kubelets."""
    world = World(NAMES)
    labels = {"topology.kubernetes.io/zone": zone} if zone else {}
    world.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}})
    return world


def conditions(world: World, name: str = "s") -> dict[str, Json]:
    return {
        endpoint["targetRef"]["name"]: endpoint["conditions"]
        for one in slices(world, name)
        for endpoint in one["endpoints"]
    }


def test_readiness_moves_addresses() -> None:
    """interfaces.md 7.14: not ready, ready, terminating."""
    world = bare()
    world.create(service("s", {"app": "a"}))
    put_pod(world, "p", "10.0.0.1", ready=False)
    assert conditions(world) == {"p": {"ready": False, "serving": False, "terminating": False}}
    [subset] = endpoints(world, "s")["subsets"]
    assert [one["ip"] for one in subset["notReadyAddresses"]] == ["10.0.0.1"]
    assert "addresses" not in subset
    world.set_status("v1", "Pod", "p", {"conditions": [{"type": "Ready", "status": "True"}]})
    assert conditions(world) == {"p": {"ready": True, "serving": True, "terminating": False}}
    assert "notReadyAddresses" not in endpoints(world, "s")["subsets"][0]
    world.patch("v1", "Pod", "p", {"metadata": {"finalizers": ["example.com/f"]}})
    world.delete("v1", "Pod", "p")
    assert conditions(world) == {"p": {"ready": False, "serving": True, "terminating": True}}
    assert "subsets" not in endpoints(world, "s")
    world.set_phase("p", "Succeeded")
    assert conditions(world) == {}


def test_addresses_that_are_not_ready_may_be_published() -> None:
    """interfaces.md 7.14: with publishNotReadyAddresses, also of a node that is gone."""
    world = bare()
    world.create(service("s", {"app": "a"}, publishNotReadyAddresses=True))
    put_pod(world, "p", "10.0.0.1", ready=False, node="gone")
    assert conditions(world) == {"p": {"ready": True, "serving": False, "terminating": False}}
    assert [one["ip"] for one in endpoints(world, "s")["subsets"][0]["addresses"]] == ["10.0.0.1"]


def test_pod_of_a_node_that_is_gone_waits_for_it() -> None:
    """interfaces.md 7.14: slices leave it out, and have it when the node is there."""
    world = bare()
    world.create(service("s", {"app": "a"}))
    put_pod(world, "p", "10.0.0.1", node="late")
    assert conditions(world) == {}
    world.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "late"}})
    world.forward(60)
    assert list(conditions(world)) == ["p"]


def test_headless_service() -> None:
    """interfaces.md 7.14: its label, host names of pods in its domain, and addresses without ports."""
    world = bare()
    world.create(service("s", {"app": "a"}, [], clusterIP="None"))
    put_pod(world, "p", "10.0.0.1", hostname="h", subdomain="s")
    put_pod(world, "q", "10.0.0.2", hostname="h", subdomain="other")
    [found] = slices(world, "s")
    assert [one.get("hostname") for one in found["endpoints"]] == ["h", None]
    assert (found["metadata"]["labels"]["service.kubernetes.io/headless"], found["ports"]) == ("", [])
    whole = endpoints(world, "s")
    assert [(one["ip"], one.get("hostname")) for one in whole["subsets"][0]["addresses"]] == [
        ("10.0.0.1", "h"), ("10.0.0.2", None)
    ]  # fmt: skip
    assert "ports" not in whole["subsets"][0]
    assert whole["metadata"]["labels"] == {
        "endpoints.kubernetes.io/managed-by": "endpoint-controller", "service.kubernetes.io/headless": ""
    }  # fmt: skip


def test_port_without_a_name() -> None:
    """interfaces.md 7.14: a Service with one port may leave its name out."""
    world = bare()
    world.create(service("s", {"app": "a"}, [{"port": 80, "targetPort": "web"}]))
    put_pod(world, "p", "10.0.0.1")
    assert endpoints(world, "s")["subsets"][0]["ports"] == [{"port": 8080, "protocol": "TCP"}]
    assert slices(world, "s")[0]["ports"] == [{"name": "", "port": 8080, "protocol": "TCP"}]


def test_slices_belong_to_their_service_and_have_its_labels() -> None:
    """interfaces.md 7.14: as labels of the Service change."""
    world = bare()
    made = service("s", {"app": "a"})
    made["metadata"]["labels"] = {"team": "x", "kubernetes.io/service-name": "another"}
    uid = world.create(made)["metadata"]["uid"]
    [found] = slices(world, "s")
    [reference] = found["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["uid"], reference["controller"]) == ("Service", uid, True)
    assert found["metadata"]["name"].startswith("s-")
    own = {
        "kubernetes.io/service-name": "s",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    assert found["metadata"]["labels"] == {"team": "x", **own}
    world.patch("v1", "Service", "s", {"metadata": {"labels": {"team": "y"}}})
    assert [one["metadata"]["labels"] for one in slices(world, "s")] == [{"team": "y", **own}]
    assert endpoints(world, "s")["metadata"]["labels"]["team"] == "y"


def test_slices_have_a_hundred_endpoints_and_endpoints_a_thousand_addresses() -> None:
    """interfaces.md 7.14: a slice that has room is filled, and what goes leaves the others as they are."""
    world = bare()
    for number in range(1_010):
        put_pod(world, f"p{number:04}", f"10.0.{number // 250}.{number % 250 + 1}", ready=number >= 20)
    world.create(service("s", {"app": "a"}))
    assert sorted(len(one["endpoints"]) for one in slices(world, "s")) == [10, *[100] * 10]
    whole = endpoints(world, "s")
    [subset] = whole["subsets"]
    assert (len(subset["addresses"]), len(subset["notReadyAddresses"])) == (990, 10)
    assert whole["metadata"]["annotations"]["endpoints.kubernetes.io/over-capacity"] == "truncated"
    before = {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in slices(world, "s")}
    for number in range(10):
        world.delete("v1", "Pod", f"p{number:04}", grace=0)
    after = {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in slices(world, "s")}
    assert before.keys() == after.keys()
    assert sum(before[name] != after[name] for name in before) == 1
    assert "endpoints.kubernetes.io/over-capacity" not in endpoints(world, "s")["metadata"]["annotations"]


def test_endpoints_name_the_time_of_the_change() -> None:
    """interfaces.md 7.14: the Ready condition of the pod that changed first since the last sync; TriggerTimeTracker."""
    world = bare()
    world.create(service("s", {"app": "a"}))
    world.settle()
    created = endpoints(world, "s")["metadata"]["annotations"][TRIGGER]
    world.forward(30)
    put_pod(world, "p", "10.0.0.1")
    changed = endpoints(world, "s")["metadata"]["annotations"][TRIGGER]
    assert (created, changed) == ("2026-01-01T00:00:00Z", "2026-01-01T00:00:30Z")
    assert slices(world, "s")[0]["metadata"]["annotations"][TRIGGER] == changed


def test_endpoints_name_the_oldest_of_several_changes_and_none_without_one() -> None:
    """interfaces.md 7.14: two pods at once, then a port of the Service; a new Service of the name begins again."""
    world = bare()
    world.create(service("s", {"app": "a"}))
    world.settle()
    for number in (1, 2):
        world.set_clock.forward(10)
        put_pod(world, f"p{number}", f"10.0.0.{number}")
    found = world.settle().get("v1", "Endpoints", "s")["metadata"]["annotations"]
    assert found[TRIGGER] == "2026-01-01T00:00:10Z"
    world.patch("v1", "Service", "s", {"spec": {"ports": [{"port": 81}]}})
    world.settle()
    for obj in (endpoints(world, "s"), slices(world, "s")[0]):
        assert TRIGGER not in (obj["metadata"].get("annotations") or {})
    world.delete("v1", "Service", "s")
    world.settle()
    world.set_clock.forward(10)
    world.create(service("s", {"app": "a"}))
    world.settle()
    assert endpoints(world, "s")["metadata"]["annotations"][TRIGGER] == "2026-01-01T00:00:30Z"


@pytest.mark.parametrize(
    ("distribution", "hints"),
    [
        (None, None),
        ("PreferClose", {"forZones": [{"name": "z"}]}),
        ("PreferSameNode", {"forNodes": [{"name": "n"}], "forZones": [{"name": "z"}]}),
    ],
)
def test_hints_follow_the_traffic_distribution(distribution: str | None, hints: Json | None) -> None:
    """interfaces.md 7.14: of ready endpoints."""
    world = bare(zone="z")
    made = service("s", {"app": "a"})
    if distribution:
        made["spec"]["trafficDistribution"] = distribution
    world.create(made)
    put_pod(world, "p", "10.0.0.1")
    put_pod(world, "q", "10.0.0.2", ready=False)
    [found] = slices(world, "s")
    assert {one["targetRef"]["name"]: one.get("hints") for one in found["endpoints"]} == {"p": hints, "q": None}
    assert {one["zone"] for one in found["endpoints"]} == {"z"}


def test_what_a_client_writes_is_put_right() -> None:
    """interfaces.md 7.14: an emptied slice; slices of another manager and Services without selector do not change."""
    world = bare()
    world.create(service("s", {"app": "a"}))
    put_pod(world, "p", "10.0.0.1")
    [found] = slices(world, "s")
    world.patch(*SLICE, found["metadata"]["name"], {"endpoints": []})
    assert reached(world, "s") == {("10.0.0.1",): [80]}
    world.delete("v1", "Endpoints", "s")
    assert endpoints(world, "s")["subsets"]
    world.create(service("free"))
    world.create(service("outside", {"app": "a"}, type="ExternalName", externalName="example.com"))
    world.settle()
    assert not slices(world, "free") + slices(world, "outside")
    assert not world.has("v1", "Endpoints", "free") or world.has("v1", "Endpoints", "outside")


def test_restart_goes_on_and_removes_what_was_left_over() -> None:
    """interfaces.md 7.14: nothing is written again, and Endpoints of a Service that is gone go."""
    world = bare()
    world.create(service("s", {"app": "a"}))
    world.create(service("t", {"app": "a"}))
    put_pod(world, "p", "10.0.0.1")
    before = [one["metadata"]["resourceVersion"] for one in slices(world, "s")]
    world = world.restarted(())
    world.delete("v1", "Service", "t")
    world = world.restarted(NAMES)
    assert [one["metadata"]["resourceVersion"] for one in slices(world, "s")] == before
    assert not slices(world, "t")
    assert not world.has("v1", "Endpoints", "t")
    assert world.has("v1", "Endpoints", "s")


def test_endpoints_follow_a_deployment(world: World) -> None:
    """interfaces.md 7.14: as it grows and shrinks, with simulated kubelets."""
    world.create(owner("Deployment", "d", pod=template(), replicas=3))
    world.create(service("s", {"app": "a"}))
    world.schedule()
    assert set(reached(world, "s")) == {(address(world, name),) for name in world.names()}
    world.patch("apps/v1", "Deployment", "d", {"spec": {"replicas": 1}})
    world.forward(60)
    assert list(reached(world, "s")) == [(address(world, world.names()[0]),)]


def test_endpoints_in_a_namespace_that_is_deleted(world: World) -> None:
    """interfaces.md 7.14: no new ones are made there, and nothing keeps the namespace."""
    world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})
    made = service("s", {"app": "a"})
    made["metadata"]["namespace"] = "ns"
    world.create(made)
    world.settle()
    world.delete("v1", "Namespace", "ns", ns="")
    world.forward(60)
    with pytest.raises(StatusError):
        world.create(made)
    assert not world.all(*SLICE, "ns") + world.all("v1", "Endpoints", "ns")
    assert not world.has("v1", "Namespace", "ns", "")


def custom(**metadata: Any) -> Json:
    ports = [{"name": "web", "port": 80, "protocol": "TCP"}]
    subsets = [{"addresses": [{"ip": "10.1.2.3"}], "notReadyAddresses": [{"ip": "fd00::1"}], "ports": ports}]
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "s", **metadata}, "subsets": subsets}


def test_mirrors_have_labels_annotations_and_families() -> None:
    """interfaces.md 7.15: a slice a family, without the annotations that are not of the Endpoints itself."""
    world = bare()
    world.create(service("s"))
    skipped = {"kubectl.kubernetes.io/last-applied-configuration": "{}", TRIGGER: "x"}
    world.create(custom(labels={"l": "1"}, annotations={"a": "1", **skipped}))
    found = {one["addressType"]: one for one in slices(world, "s")}
    assert found["IPv4"]["endpoints"] == [{"addresses": ["10.1.2.3"], "conditions": {"ready": True}}]
    assert found["IPv6"]["endpoints"] == [{"addresses": ["fd00::1"], "conditions": {"ready": False}}]
    for one in found.values():
        assert one["metadata"]["annotations"] == {"a": "1"}
        assert one["metadata"]["labels"]["l"] == "1"
        assert one["metadata"]["ownerReferences"][0]["kind"] == "Endpoints"
    world.patch("v1", "Endpoints", "s", {"metadata": {"annotations": {"a": "2"}}})
    assert {one["metadata"]["annotations"]["a"] for one in slices(world, "s")} == {"2"}


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        {"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}},
    ],
)
def test_some_endpoints_are_not_mirrored(metadata: Json) -> None:
    """interfaces.md 7.15: marked ones, and locks of leaders; a mirror goes when its Endpoints becomes one."""
    world = bare()
    world.create(service("s"))
    world.create(custom())
    assert len(slices(world, "s")) == 2
    world.patch("v1", "Endpoints", "s", {"metadata": metadata})
    assert not slices(world, "s")


def test_mirrors_need_a_service_without_selector() -> None:
    """interfaces.md 7.15: they come with the Service, and go with it or when it gets a selector."""
    world = bare()
    world.create(custom())
    assert not slices(world, "s")
    world.create(service("s"))
    assert len(slices(world, "s")) == 2
    world.patch("v1", "Service", "s", {"spec": {"selector": {"app": "a"}}})
    assert [one["endpoints"] for one in slices(world, "s")] == [[]], "of the other controller"


def test_mirrors_hold_a_thousand_addresses() -> None:
    """interfaces.md 7.15: the rest is left out, and an event says so."""
    world = bare()
    world.create(service("s"))
    made = custom()
    addresses = [{"ip": f"10.1.{number // 250}.{number % 250 + 1}"} for number in range(1_005)]
    made["subsets"] = [{"addresses": addresses, "ports": made["subsets"][0]["ports"]}]
    world.create(made)
    assert [len(one["endpoints"]) for one in slices(world, "s")] == [1_000]
    [event] = [one for one in world.all("v1", "Event") if one["reason"] == "TooManyAddressesToMirror"]
    assert "5 addresses were skipped" in event["message"]
