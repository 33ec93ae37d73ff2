"""Addresses and node ports of Services (interfaces.md 4.14; kube-apiserver, registry/core/service/storage)."""

from __future__ import annotations

import copy
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from kube_standin.admission_chain import User
from kube_standin.errors import StatusError
from kube_standin.registry import WriteOptions
from kube_standin.service_addresses import UsedPorts
from kube_standin.storage import Store, StoredObject
from tests.admission.plane import Json, Plane, SetClock

CLIENT = User("alice")
CIDR, ADDRESS = ("networking.k8s.io/v1", "ServiceCIDR"), ("networking.k8s.io/v1", "IPAddress")
WEB: Json = {"port": 80}
DUAL = ("10.0.0.0/24", "fd00::/112")


class Cluster(Plane):
    """Services that a client writes, on ServiceCIDR `kubernetes` with these networks."""

    def __init__(self, *networks: str, store: Store | None = None) -> None:
        super().__init__(store=store, clock=SetClock())
        if networks:
            spec = {"cidrs": list(networks)}
            self.create({"apiVersion": CIDR[0], "kind": CIDR[1], "metadata": {"name": "kubernetes"}, "spec": spec})
        self.row = self.kind("v1", "Service")

    def service(self, name: str, *ports: Json, dry_run: bool = False, **spec: Any) -> Json:
        """Return the spec of a new Service."""
        body = {"ports": [WEB], **({"ports": list(ports)} if ports else {}), **spec}
        manifest = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": copy.deepcopy(body)}
        decoded = self.registry.decoder.decode(self.row, manifest, "Ignore", [])
        options = WriteOptions(user=CLIENT, dry_run=dry_run)
        made: Json = self.registry.create_now(self.row, "default", decoded, options).object["spec"]
        self.store.flush()
        return made

    def change(self, name: str, **spec: Any) -> Json:
        """Return the spec of a Service after a merge patch."""
        options = WriteOptions(user=CLIENT)
        out = self.registry.patch_now(self.row, "default", name, "merge", {"spec": spec}, options)
        self.store.flush()
        changed: Json = out.object["spec"]
        return changed

    def put(self, name: str, **spec: Any) -> Json:
        """Return the spec of a Service after a PUT without what the server filled in."""
        manifest = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [WEB], **spec}}
        decoded = self.registry.decoder.decode(self.row, manifest, "Ignore", [])
        out = self.registry.update_now(self.row, "default", name, decoded, WriteOptions(user=CLIENT)).object
        self.store.flush()
        replaced: Json = out["spec"]
        return replaced

    def addresses(self) -> dict[str, str]:
        """Return the IPAddresses and the names of their Services."""
        return {one["metadata"]["name"]: one["spec"]["parentRef"]["name"] for one in self.all(*ADDRESS)}


def refused(cluster: Cluster, **spec: Any) -> str:
    """Return why a new Service is refused (422)."""
    with pytest.raises(StatusError) as error:
        cluster.service("refused", **spec)
    assert error.value.code == 422
    return error.value.message.removeprefix('Service "refused" is invalid: ')


def test_service_gets_an_address_and_releases_it() -> None:
    """alloc.go, allocClusterIPs, releaseClusterIPs; ipallocator.go, createIPAddress."""
    cluster = Cluster("10.0.0.0/24")
    spec = cluster.service("a")
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert ip_address(spec["clusterIP"]) in ip_network("10.0.0.0/24")
    [made] = cluster.all(*ADDRESS)
    assert made["metadata"]["name"] == spec["clusterIP"]
    assert made["metadata"]["labels"] == {
        "ipaddress.kubernetes.io/ip-family": "IPv4",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    assert made["spec"]["parentRef"] == {"resource": "services", "namespace": "default", "name": "a"}
    cluster.delete("v1", "Service", "a")
    assert cluster.addresses() == {}


def test_dry_run_takes_nothing() -> None:
    cluster = Cluster("10.0.0.0/24")
    assert cluster.service("a", dry_run=True, type="NodePort")["clusterIP"]
    assert cluster.addresses() == {}


def test_service_with_finalizers_keeps_its_address_until_it_goes() -> None:
    cluster = Cluster("10.0.0.0/24")
    cluster.service("a")
    cluster.patch("v1", "Service", "a", {"metadata": {"finalizers": ["example.com/f"]}})
    cluster.delete("v1", "Service", "a")
    assert list(cluster.addresses().values()) == ["a"]
    cluster.patch("v1", "Service", "a", {"metadata": {"finalizers": None}})
    assert cluster.addresses() == {}


def test_all_addresses_of_a_network_are_used_once_the_upper_part_first() -> None:
    """ipallocator.go, calculateRangeOffset: of 32 addresses 16 are static, of 16 none; KEP-3070."""
    for network, dynamic in (("10.0.0.0/27", 14), ("10.0.0.0/28", 14)):
        cluster = Cluster(network)
        size = ip_network(network).num_addresses - 2
        given = [int(ip_address(cluster.service(f"s{turn}")["clusterIP"])) & 0xFF for turn in range(size)]
        assert sorted(given) == list(range(1, size + 1))
        assert min(given[:dynamic]) == size - dynamic + 1
        with pytest.raises(StatusError, match="failed to allocate a serviceIP: range is full") as error:
            cluster.service("more")
        assert error.value.code == 500


def test_second_network_is_used_when_the_first_is_full_and_a_deleted_one_is_not() -> None:
    """cidrallocator.go, AllocateNextService, isReady."""
    cluster = Cluster("10.0.0.0/30")
    assert {cluster.service(name)["clusterIP"] for name in "ab"} == {"10.0.0.1", "10.0.0.2"}
    spec = {"cidrs": ["10.0.1.0/30"]}
    cluster.create({"apiVersion": CIDR[0], "kind": CIDR[1], "metadata": {"name": "z"}, "spec": spec})
    assert cluster.service("c")["clusterIP"] in ("10.0.1.1", "10.0.1.2")
    cluster.patch(*CIDR, "z", {"metadata": {"finalizers": ["example.com/f"]}}, ns="")
    cluster.delete(*CIDR, "z", "")
    with pytest.raises(StatusError, match="range is full"):
        cluster.service("d")


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"clusterIP": "10.0.0.9"}, 'spec.clusterIPs: Invalid value: ["10.0.0.9"]: failed to allocate IP 10.0.0.9: '
         "provided IP is already allocated"),
        ({"clusterIP": "10.1.0.9"}, 'spec.clusterIPs: Invalid value: ["10.1.0.9"]: failed to allocate IP 10.1.0.9: '
         "the provided network does not match the current range"),
        ({"clusterIP": "10.0.0.0"}, 'spec.clusterIPs: Invalid value: ["10.0.0.0"]: failed to allocate IP 10.0.0.0: '
         "the provided network does not match the current range"),
        ({"clusterIP": "fd00::1"}, 'spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this '
         "cluster"),
        ({"ipFamilies": ["IPv6"]}, 'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster'),
        ({"ipFamilyPolicy": "RequireDualStack"}, 'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster '
         "is not configured for dual-stack services"),
        ({"ipFamilies": ["IPv4", "IPv6"]}, 'spec.ipFamilyPolicy: Invalid value: "SingleStack": must be '
         "'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"),
        ({"ipFamilies": ["IPv5"]}, 'spec.ipFamilies[0]: Unsupported value: "IPv5": supported values: "IPv4", "IPv6"'),
        ({"clusterIPs": ["10.0.0.8"]}, 'spec.clusterIPs: Invalid value: ["10.0.0.8"]: must be empty when `clusterIP` '
         "is not specified"),
        ({"clusterIP": "None", "type": "NodePort"}, 'spec.clusterIPs[0]: Invalid value: "None": may not be set to '
         "'None' for NodePort services"),
        ({"ports": [{"port": 80, "nodePort": 30000}]}, "spec.ports[0].nodePort: Forbidden: may not be used when "
         "`type` is 'ClusterIP'"),
        ({"type": "NodePort", "ports": [{"port": 80, "nodePort": 29999}]}, "spec.ports[0].nodePort: Invalid value: "
         "29999: provided port is not in the valid range. The range of valid ports is 30000-32767"),
        ({"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 31000}]}, "spec.ports[0].nodePort: Invalid value: "
         "31000: provided port is already allocated"),
    ],
)  # fmt: skip
def test_what_cannot_be_had_is_refused(spec: Json, why: str) -> None:
    """alloc.go, initIPFamilyFields, allocIPs, initNodePorts; validation.go, ValidateService."""
    cluster = Cluster("10.0.0.0/24")
    cluster.service("a", {"port": 80, "nodePort": 31000}, clusterIP="10.0.0.9", type="NodePort")
    assert refused(cluster, **spec) == why
    assert cluster.addresses() == {"10.0.0.9": "a"}


FREE = object()
"""An address that the server chooses."""


@pytest.mark.parametrize(
    ("networks", "spec", "expected"),
    [
        (DUAL[:1], {"clusterIP": "None", "selector": {"a": "b"}}, (["None"], ["IPv4"], "SingleStack")),
        (DUAL[:1], {"clusterIP": "None"}, (["None"], ["IPv4", "IPv6"], "RequireDualStack")),
        (DUAL[:1], {"clusterIP": "None", "ipFamilyPolicy": "SingleStack"}, (["None"], ["IPv4"], "SingleStack")),
        (DUAL[:1], {"ipFamilyPolicy": "PreferDualStack"}, ([FREE], ["IPv4"], "PreferDualStack")),
        (DUAL[:1], {"clusterIP": "10.0.0.7"}, (["10.0.0.7"], ["IPv4"], "SingleStack")),
        (DUAL, {}, ([FREE], ["IPv4"], "SingleStack")),
        (DUAL, {"ipFamilyPolicy": "PreferDualStack"}, ([FREE, FREE], ["IPv4", "IPv6"], "PreferDualStack")),
        (DUAL, {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6"]},
         ([FREE, FREE], ["IPv6", "IPv4"], "RequireDualStack")),
        (DUAL, {"clusterIP": "fd00::5"}, (["fd00::5"], ["IPv6"], "SingleStack")),
        (DUAL, {"clusterIP": "fd00::5", "ipFamilyPolicy": "PreferDualStack"},
         (["fd00::5", FREE], ["IPv6", "IPv4"], "PreferDualStack")),
        (DUAL[::-1], {}, ([FREE], ["IPv6"], "SingleStack")),
        (DUAL, {"type": "ExternalName", "externalName": "a.example.com"}, (None, None, None)),
    ],
)  # fmt: skip
def test_families_follow_the_policy_and_the_cluster(networks: tuple[str, ...], spec: Json, expected: Any) -> None:
    """alloc.go, initIPFamilyFields; the table of https://kubernetes.io/docs/concepts/services-networking/dual-stack."""
    made = Cluster(*networks).service("a", **spec)
    addresses, families, policy = expected
    assert (made.get("ipFamilies"), made.get("ipFamilyPolicy")) == (families, policy)
    found = made.get("clusterIPs")
    assert (found is None) == (addresses is None)
    for address, wanted, family in zip(found or (), addresses or (), families or (), strict=False):
        if wanted is FREE:
            assert ip_address(address) in ip_network(DUAL[0] if family == "IPv4" else DUAL[1])
        else:
            assert address == wanted


def test_second_family_comes_and_goes() -> None:
    """alloc.go, updateClusterIPs, cases C and D; validation.go, validateUpgradeDowngradeClusterIPs."""
    cluster = Cluster(*DUAL)
    [first] = cluster.service("a")["clusterIPs"]
    both = cluster.change("a", ipFamilyPolicy="RequireDualStack")
    assert both["clusterIPs"][0] == first
    assert set(cluster.addresses()) == set(both["clusterIPs"])
    with pytest.raises(StatusError, match="must be 'SingleStack' to release the secondary cluster IP"):
        cluster.change("a", clusterIPs=[first])
    single = cluster.change("a", ipFamilyPolicy="SingleStack")
    assert (single["clusterIPs"], single["ipFamilies"]) == ([first], ["IPv4"])
    assert set(cluster.addresses()) == {first}


def test_update_without_what_was_allocated_keeps_it() -> None:
    """strategy.go, patchAllocatedValues."""
    cluster = Cluster("10.0.0.0/24")
    ports = ({"name": "a", "port": 80}, {"name": "b", "port": 81})
    before = cluster.service("a", *ports, type="NodePort")
    after = cluster.put("a", type="NodePort", ports=[*copy.deepcopy(ports), {"name": "c", "port": 82}])
    assert after["clusterIP"] == before["clusterIP"]
    numbers = [port["nodePort"] for port in after["ports"]]
    assert numbers[:2] == [port["nodePort"] for port in before["ports"]]
    assert len(set(numbers)) == 3
    with pytest.raises(StatusError, match=r'spec.clusterIPs\[0\]: Invalid value: \["10.0.0.77"\]: may not change once'):
        cluster.change("a", clusterIP="10.0.0.77")


def test_change_to_a_name_and_back() -> None:
    """alloc.go, updateClusterIPs, cases A and B; strategy.go, dropTypeDependentFields."""
    cluster = Cluster("10.0.0.0/24")
    cluster.service("a", type="NodePort")
    named = cluster.change("a", type="ExternalName", externalName="a.example.com")
    assert named.keys().isdisjoint(("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "externalTrafficPolicy"))
    assert "nodePort" not in named["ports"][0]
    assert cluster.addresses() == {}
    back = cluster.change("a", type="ClusterIP", externalName=None)
    assert cluster.addresses() == {back["clusterIP"]: "a"}
    assert back["ipFamilyPolicy"] == "SingleStack"


def test_node_ports_are_unique_over_the_cluster_and_shared_by_protocols() -> None:
    """alloc.go, initNodePorts, updateNodePorts: one number for a port of TCP and UDP."""
    cluster = Cluster("10.0.0.0/24")
    dns = [{"name": "t", "port": 53, "protocol": "TCP"}, {"name": "u", "port": 53, "protocol": "UDP"}]
    first = {port["nodePort"] for port in cluster.service("a", *dns, type="NodePort")["ports"]}
    assert len(first) == 1
    assert first <= set(range(30086, 32768))  # below is what is asked for (KEP-3668)
    second = {port["nodePort"] for port in cluster.service("b", type="LoadBalancer")["ports"]}
    assert first.isdisjoint(second)
    with pytest.raises(StatusError, match="provided port is already allocated"):
        cluster.change("b", ports=[{"port": 80, "nodePort": first.pop()}])
    none = cluster.service("c", type="LoadBalancer", allocateLoadBalancerNodePorts=False)
    assert "nodePort" not in none["ports"][0]
    assert "nodePort" not in cluster.change("b", type="ClusterIP")["ports"][0]
    assert cluster.service("d", {"port": 80, "nodePort": second.pop()}, type="NodePort")


def test_local_load_balancer_has_a_port_for_its_health() -> None:
    """alloc.go, allocHealthCheckNodePort, updateHealthCheckNodePort."""
    cluster = Cluster("10.0.0.0/24")
    spec = cluster.service("a", type="LoadBalancer", externalTrafficPolicy="Local")
    port = spec["healthCheckNodePort"]
    assert port not in (one["nodePort"] for one in spec["ports"])
    taken = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": port}
    with pytest.raises(StatusError, match=f"failed to allocate requested HealthCheck NodePort {port}: provided port"):
        cluster.service("b", **taken)
    assert cluster.change("a", selector={"a": "b"})["healthCheckNodePort"] == port
    assert "healthCheckNodePort" not in cluster.change("a", externalTrafficPolicy="Cluster")
    assert cluster.service("b", **taken)["healthCheckNodePort"] == port


def test_restart_keeps_what_is_taken() -> None:
    before = Cluster("10.0.0.0/24")
    spec = before.service("a", type="NodePort")
    after = Cluster(store=before.store)
    assert "already allocated" in refused(after, clusterIP=spec["clusterIP"])
    assert "already allocated" in refused(
        after, type="NodePort", ports=[{**WEB, "nodePort": spec["ports"][0]["nodePort"]}]
    )


def test_services_of_another_cluster_are_taken_over_as_they_are() -> None:
    """The server itself loads them: their addresses are in no ServiceCIDR here."""
    cluster = Cluster("10.0.0.0/24")
    spec = {"ports": [{"port": 80, "nodePort": 12345}], "type": "NodePort", "clusterIP": "172.20.0.9"}
    made = cluster.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "far"}, "spec": spec})["spec"]
    assert (made["clusterIP"], made["ports"][0]["nodePort"]) == ("172.20.0.9", 12345)
    far = {"ports": [WEB], "ipFamilies": ["IPv6"], "ipFamilyPolicy": "SingleStack"}
    made = cluster.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "six"}, "spec": far})["spec"]
    assert "clusterIP" not in made
    assert cluster.addresses() == {}


class CountingStore:
    """Services of which each counts how often it is decoded."""

    def __init__(self) -> None:
        self.decoded: list[str] = []
        self.states = [self.state(f"s{number}", 1, 30000 + number) for number in range(3)]

    def state(self, name: str, revision: int, port: int) -> StoredObject:
        decoded = self.decoded

        class Counted(StoredObject):
            def decode(self) -> Json:
                decoded.append(self.name)
                return super().decode()

        raw = b'{"metadata":{},"spec":{"type":"NodePort","ports":[{"nodePort":%d}]}}' % port
        made = Counted("services", "default", name, revision, raw)
        made.field("spec.type")
        decoded.clear()
        return made

    def heads(self, _resource: str) -> list[StoredObject]:
        return self.states


def test_ports_in_use_are_read_again_only_from_services_that_changed() -> None:
    """The allocation of ports for many Services does not decode all of them for each."""
    store: Any = CountingStore()
    used = UsedPorts()
    for own, left in (("s0", {30001, 30002}), ("s1", {30000, 30002})):
        assert used.but(store, ("default", own)) == left
    assert store.decoded == ["s0", "s1", "s2"]
    store.states = [store.states[0], store.state("s1", 2, 31000)]
    assert used.but(store, ("default", "")) == {30000, 31000}
    assert store.decoded == ["s1"]
