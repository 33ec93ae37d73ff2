"""Cluster addresses and node ports of Services: allocated when they are written, released with them.

The rules are those of kube-apiserver (pkg/registry/core/service/storage/alloc.go; interfaces.md 4.14): addresses come
from the ready ServiceCIDRs, and each has an IPAddress that names its Service. Used addresses and ports are read from
the store, so that a restart or a snapshot changes nothing. Invariant: an address is allocated and released in the
transaction that writes its Service.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from itertools import islice
from typing import Final
from zlib import crc32

from kube_rules import field_errors as fe
from kube_rules.errors import FieldError
from kube_rules.json import Json
from kube_rules.validation.services import cluster_addresses, family_of, is_headless
from kube_standin import errors
from kube_standin.admission_chain import SYSTEM, AdmissionRequest, Objects, Step
from kube_standin.storage import Store, StoredObject
from kube_standin.storage.model import Key

Network = IPv4Network | IPv6Network

SERVICES: Final = "services"
ADDRESSES: Final = "networking.k8s.io/ipaddresses"
NETWORKS: Final = "networking.k8s.io/servicecidrs"
DEFAULT_NETWORK: Final = "10.96.0.0/12"
"""The network of kubeadm; also used without ServiceCIDRs."""
DEFAULT_NAME: Final = "kubernetes"
"""The ServiceCIDR that defines the families of the cluster."""
FAMILY_LABEL: Final = "ipaddress.kubernetes.io/ip-family"
MANAGED_BY: Final = "ipaddress.kubernetes.io/managed-by"
ALLOCATOR: Final = "ipallocator.k8s.io"
NODE_PORTS: Final = range(30000, 32768)
_EXPOSED: Final = frozenset(("NodePort", "LoadBalancer"))
_OTHER: Final = {"IPv4": "IPv6", "IPv6": "IPv4"}
_TAKEN_PORT: Final = "provided port is already allocated"
_NO_PORT: Final = "provided port is not in the valid range. The range of valid ports is 30000-32767"


def networks_of(obj: Json) -> list[Network]:
    """Return the networks of a ServiceCIDR."""
    return [ip_network(text) for text in obj["spec"].get("cidrs") or ()]


def addresses_of(spec: Json) -> tuple[str, ...]:
    """Return the addresses of a Service; none if it is headless or an external name."""
    return () if is_headless(spec) else tuple(spec.get("clusterIPs") or ())


def address_labels(address: str) -> dict[str, str]:
    """Return the labels of an IPAddress that belongs to a Service."""
    return {FAMILY_LABEL: family_of(address), MANAGED_BY: ALLOCATOR}


def put_address(registry: Objects, address: str, namespace: str, name: str) -> None:
    """Stage the IPAddress of a Service in place of an existing one."""
    metadata: Json = {"name": address, "uid": registry.clock.uid(), "creationTimestamp": registry.clock.stamp()}
    parent = {"resource": SERVICES, "namespace": namespace, "name": name}
    body = {"metadata": metadata | {"labels": address_labels(address)}, "spec": {"parentRef": parent}}
    if (before := registry.store.head(ADDRESSES, "", address)) is not None:
        registry.store.delete(before)
    registry.store.put(ADDRESSES, "", address, body, None)


class ServiceNetworks:
    """The ready ServiceCIDRs, and the families of the cluster, its default first."""

    def __init__(self, store: Store) -> None:
        cidrs = {state.name: state.decode() for state in store.heads(NETWORKS)}
        if not cidrs:
            cidrs = {DEFAULT_NAME: {"metadata": {}, "spec": {"cidrs": [DEFAULT_NETWORK]}}}
        self.ready = [network for obj in cidrs.values() if _is_ready(obj) for network in networks_of(obj)]
        own = networks_of(cidrs[DEFAULT_NAME]) if DEFAULT_NAME in cidrs else self.ready
        self.families = list(dict.fromkeys(family_of(str(network.network_address)) for network in own))

    def usable(self, family: str) -> Iterator[tuple[Network, int]]:
        """Yield the networks of a family with the number of their usable addresses, from the second address on."""
        for network in self.ready:
            if family_of(str(network.network_address)) == family:
                yield network, network.num_addresses - (2 if family == "IPv4" else 1)  # without broadcast

    def contain(self, address: str) -> bool:
        """Return whether an address may be allocated."""
        number = int(ip_address(address))
        usable = self.usable(family_of(address))
        return any(1 <= number - int(network.network_address) <= size for network, size in usable)


def _is_ready(obj: Json) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    ready = next((condition["status"] for condition in conditions if condition["type"] == "Ready"), "True")
    return ready == "True" and not obj["metadata"].get("deletionTimestamp")


def _candidates(size: int, static: int, start: int) -> Iterator[int]:
    """Yield the numbers below size: first from `static` on, then those below it, each part cyclically from `start`.

    The lower part is left for requested addresses and ports (KEP-3070, KEP-3668).
    """
    for first, count in ((static, size - static), (0, static)):
        yield from (first + (start + step) % count for step in range(count))


class ServiceAddresses(Step):
    """Allocates families, addresses and node ports of Services."""

    kinds = frozenset((SERVICES,))

    def __init__(self) -> None:
        self._ports = UsedPorts()

    def allocate(self, request: AdmissionRequest, new: Json) -> None:
        """Complete a new or changed Service; raises 422 for a used or invalid value, 500 if all are used."""
        if request.subresource:
            return
        spec = new.setdefault("spec", {})
        before = (request.old or {}).get("spec") or {}
        if before:
            _keep(spec, before)
        if spec.get("type") != "ExternalName":
            if any(True for _ in cluster_addresses(spec, "spec")):
                return  # refused by validation
            _ServiceWrite(request, new, before, self._ports).run()
        if before:
            _drop(new, before)

    def committed(self, request: AdmissionRequest) -> None:
        """Allocate and release the addresses of a Service that was written or deleted."""
        if request.subresource:
            return
        registry, key = request.registry, (request.namespace, request.name)
        state = registry.store.head(SERVICES, *key)
        had = addresses_of((request.old or {}).get("spec") or {})
        has = addresses_of(state.decode()["spec"]) if state is not None else ()
        for address in had:
            address_state = registry.store.head(ADDRESSES, "", address)
            if address not in has and address_state is not None and parent_key(address_state.decode()) == key:
                registry.store.delete(address_state)
        new = [address for address in has if address not in had]
        if new:
            networks = ServiceNetworks(registry.store)
            for address in new:
                if networks.contain(address):
                    put_address(registry, address, *key)


def parent_key(obj: Json) -> tuple[str, str]:
    """Return the key of the Service that an IPAddress names."""
    parent = obj["spec"].get("parentRef") or {}
    return parent.get("namespace", ""), parent.get("name", "")


class _ServiceWrite:
    """The allocation for one write of a Service; see `ServiceAddresses.allocate`."""

    def __init__(self, request: AdmissionRequest, new: Json, before: Json, ports: UsedPorts) -> None:
        self._request = request
        self._used_ports = ports
        self._spec: Json = new["spec"]
        self._before = before
        self._networks = ServiceNetworks(request.registry.store)
        self._key = (request.namespace, new["metadata"].get("name", ""))
        self._start = crc32("/".join(self._key).encode())
        """Start of the search for a free number: derived from the name, so that runs are repeatable."""
        self._takes_over = request.user is SYSTEM
        """Whether the server itself loads Services of another cluster, with other networks and ports."""

    def run(self) -> None:
        """Set families, addresses and ports."""
        if not self._keeps_families():
            self._set_families()
            self._set_addresses()
        self._set_ports()

    def _refuse(self, *findings: FieldError) -> None:
        """Raise 422 if there are findings."""
        if findings:
            raise errors.unfit("Service", "", self._key[1], *findings)

    def _keeps_families(self) -> bool:
        """Return whether a Service that prefers two families does not change, even if the cluster's families have."""
        same = ("type", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
        return self._spec.get("ipFamilyPolicy") == "PreferDualStack" and all(
            self._spec.get(field) == self._before.get(field) for field in same
        )

    def _set_families(self) -> None:
        spec, before, configured = self._spec, self._before, self._networks.families
        selectorless = is_headless(spec) and not spec.get("selector")
        default = "RequireDualStack" if selectorless else "SingleStack"
        policy = spec.get("ipFamilyPolicy") or before.get("ipFamilyPolicy") or default
        spec["ipFamilyPolicy"] = policy
        self._reduce()
        families: list[str] = list(spec.get("ipFamilies") or ())
        problems = []
        for index, address in enumerate(addresses_of(spec)):
            if index >= len(families):
                families.append(family_of(address))
                if families[-1] not in configured and not self._takes_over:
                    text = f"{families[-1]} is not configured on this cluster"
                    problems.append(fe.invalid(f"spec.clusterIPs[{index}]", spec["clusterIPs"], text))
        self._refuse(*problems)
        if not selectorless and not self._takes_over:
            if policy == "RequireDualStack" and len(configured) == 1:
                text = "this cluster is not configured for dual-stack services"
                problems.append(fe.invalid("spec.ipFamilyPolicy", policy, text))
            problems += [
                fe.invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
                for index, family in enumerate(families)
                if family not in configured
            ]
            self._refuse(*problems)
        families = families or configured[:1]
        if len(families) == 1 and policy != "SingleStack" and (selectorless or len(configured) > 1):
            families.append(_OTHER[families[0]])
        spec["ipFamilies"] = families

    def _reduce(self) -> None:
        """Remove the second family of a Service with one; raises 422 for a policy that does not fit the fields."""
        spec, before, problems = self._spec, self._before, []
        single = spec["ipFamilyPolicy"] == "SingleStack"
        for field, name, several in (
            ("clusterIPs", "cluster IP", "cluster IPs"),
            ("ipFamilies", "IP family", "IP families"),
        ):
            was, now = before.get(field) or [], spec.get(field) or []
            if single and was == now and len(now) > 1:
                spec[field] = now = now[:1]
            text = ""
            if single and len(now) > 1:
                text = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {several} are specified"
            elif not single and 0 < len(now) < len(was):
                text = f"must be 'SingleStack' to release the secondary {name}"
            if text:
                problems.append(fe.invalid("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], text))
        self._refuse(*problems)

    def _set_addresses(self) -> None:
        spec = self._spec
        if is_headless(spec):
            return
        requested, old_addresses = list(spec.get("clusterIPs") or ()), addresses_of(self._before)
        addresses: list[str] = []
        for index, family in enumerate(spec["ipFamilies"]):
            address = requested[index] if index < len(requested) else ""
            if not address and self._takes_over and family not in self._networks.families:
                break
            if not address:
                address = self._next(family)
            elif address not in old_addresses and (why := self._obstacle(address)):
                text = f"failed to allocate IP {address}: {why}"
                self._refuse(fe.invalid("spec.clusterIPs", requested, text))
            addresses.append(address)
        if addresses:
            spec["clusterIP"], spec["clusterIPs"] = addresses[0], addresses

    def _obstacle(self, address: str) -> str:
        """Return why an address cannot be allocated; empty if it can."""
        if not self._networks.contain(address):
            return "" if self._takes_over else "the provided network does not match the current range"
        address_state = self._request.registry.store.head(ADDRESSES, "", str(ip_address(address)))
        return (
            ""
            if address_state is None or parent_key(address_state.decode()) == self._key
            else "provided IP is already allocated"
        )

    def _next(self, family: str) -> str:
        store = self._request.registry.store
        for network, size in self._networks.usable(family):
            static = 0 if network.num_addresses <= 16 else min(max(16, network.num_addresses // 16), 256)
            # One of this many different addresses is free.
            for number in islice(_candidates(size, static, self._start), store.count(ADDRESSES) + 1):
                address = str(network[number + 1])
                if store.head(ADDRESSES, "", address) is None:
                    return address
        raise errors.internal_error("failed to allocate a serviceIP: range is full")

    def _set_ports(self) -> None:
        """Allocate the node ports of a NodePort or LoadBalancer, with one number for the TCP and the UDP port 53."""
        spec, before = self._spec, self._before
        if spec.get("type") not in _EXPOSED:
            return
        wanted = spec["type"] == "NodePort" or spec.get("allocateLoadBalancerNodePorts", True)
        ports: Sequence[Json] = spec.get("ports") or ()
        old_ports = set(_numbers(before)) if before.get("type") in _EXPOSED else set()
        used = self._used_ports.but(self._request.registry.store, self._key)
        shared: dict[int, int] = {}
        if not before:
            for port in reversed(ports):
                if port.get("nodePort"):
                    shared[port.get("port", 0)] = port["nodePort"]
        mine: dict[int, int] = {}
        for index, port in enumerate(ports):
            number, service_port = port.get("nodePort") or 0, port.get("port", 0)
            if not number and not wanted:
                continue
            number = number or shared.get(service_port) or self._next_port(used | mine.keys())
            if not before:
                shared.setdefault(service_port, number)
            mine_already = number in mine and (before or mine[number] == service_port)
            if number not in old_ports and not mine_already:
                self._check_port(index, number, used | mine.keys())
            mine.setdefault(number, service_port)
            port["nodePort"] = number
        if _checks_health(spec) and not spec.get("healthCheckNodePort"):
            spec["healthCheckNodePort"] = self._next_port(used | mine.keys())
        elif _checks_health(spec) and spec["healthCheckNodePort"] not in old_ports:
            number = spec["healthCheckNodePort"]
            if (why := self._port_obstacle(number, used | mine.keys())) is not None:
                raise errors.internal_error(f"failed to allocate requested HealthCheck NodePort {number}: {why}")

    def _check_port(self, index: int, number: int, used: Collection[int]) -> None:
        if (why := self._port_obstacle(number, used)) is not None:
            self._refuse(fe.invalid(f"spec.ports[{index}].nodePort", number, why))

    def _port_obstacle(self, number: int, used: Collection[int]) -> str | None:
        if number not in NODE_PORTS and not self._takes_over:
            return _NO_PORT
        return _TAKEN_PORT if number in used else None

    def _next_port(self, used: Collection[int]) -> int:
        static = min(max(16, len(NODE_PORTS) // 32), 128)
        for number in _candidates(len(NODE_PORTS), static, self._start):
            if NODE_PORTS[number] not in used:
                return NODE_PORTS[number]
        raise errors.internal_error("failed to allocate a nodePort: range is full")


def _checks_health(spec: Json) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _numbers(spec: Json) -> Iterator[int]:
    """Yield the node ports of a Service."""
    yield from (port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort"))
    if spec.get("healthCheckNodePort"):
        yield spec["healthCheckNodePort"]


class UsedPorts:
    """The node ports of Services; each Service is decoded once after it was written."""

    def __init__(self) -> None:
        self._cache: dict[Key, tuple[StoredObject, tuple[int, ...]]] = {}

    def but(self, store: Store, own: Key) -> set[int]:
        """Return the ports of all Services but one."""
        cached, used = self._cache, set[int]()
        self._cache = {}
        for state in store.heads(SERVICES):
            if state.field("spec.type") not in _EXPOSED:
                continue
            entry = cached.get(state.key)
            if entry is None or entry[0] is not state:
                entry = (state, tuple(_numbers(state.decode()["spec"])))
            self._cache[state.key] = entry
            if state.key != own:
                used.update(entry[1])
        return used


def _keep(spec: Json, before: Json) -> None:
    """Keep allocated values that an update leaves out, so that a manifest can be applied twice."""
    if "ExternalName" not in (spec.get("type"), before.get("type")):
        if not spec.get("clusterIP") and before.get("clusterIP"):
            spec["clusterIP"] = before["clusterIP"]
        if not spec.get("clusterIPs") and before.get("clusterIPs"):
            spec["clusterIPs"] = list(before["clusterIPs"])
    if spec.get("clusterIP", before.get("clusterIP")) != before.get("clusterIP") and (
        spec.get("clusterIPs") == before.get("clusterIPs")
    ):
        spec["clusterIPs"] = [spec["clusterIP"]]
    if {spec.get("type"), before.get("type")} <= _EXPOSED:
        used = {port.get("nodePort") for port in spec.get("ports") or ()}
        named = {port.get("name"): port.get("nodePort") for port in before.get("ports") or ()}
        for port in spec.get("ports") or ():
            number = named.get(port.get("name"))
            if not port.get("nodePort") and number and number not in used:
                port["nodePort"] = number
    if _checks_health(spec) and _checks_health(before) and before.get("healthCheckNodePort"):
        spec.setdefault("healthCheckNodePort", before["healthCheckNodePort"])


def _drop(service: Json, before: Json) -> None:
    """Drop values that the new type does not need, if the update did not change them."""
    spec = service["spec"]

    def drop(unneeded: bool, *fields: str) -> None:
        for field in fields:
            if unneeded and spec.get(field) == before.get(field):
                spec.pop(field, None)

    kind, old_kind = spec.get("type"), before.get("type")
    if kind == "ExternalName" != old_kind:
        if spec.get("clusterIPs") == before.get("clusterIPs"):
            drop(True, "clusterIP", "clusterIPs")
        drop(True, "ipFamilies", "ipFamilyPolicy")
    ports = spec.get("ports") or ()
    own = {port["nodePort"] for port in ports if port.get("nodePort")}
    if old_kind in _EXPOSED and kind not in _EXPOSED and own <= set(_numbers(before)):
        for port in ports:
            port.pop("nodePort", None)
    drop(_checks_health(before) and not _checks_health(spec), "healthCheckNodePort")
    drop(old_kind == "LoadBalancer" != kind, "allocateLoadBalancerNodePorts", "loadBalancerClass")
    drop(_is_external(before) and not _is_external(spec), "externalTrafficPolicy")
    if kind != "LoadBalancer" and (service.get("status") or {}).get("loadBalancer"):
        service["status"]["loadBalancer"] = {}


def _is_external(spec: Json) -> bool:
    return spec.get("type") in _EXPOSED or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))
