"""The Endpoints of a Service, and pods as its backends.

Rules: kube-controller-manager 1.36, the endpoints controller (interfaces.md 7.14).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import Final

import msgspec

from kube_rules.caching import remembered
from kube_rules.json import Json
from kube_rules.meta import FINISHED, Struct

MOST_ADDRESSES: Final = 1_000
"""Maximum number of addresses in an Endpoints object; an annotation marks truncated objects."""
HEADLESS: Final = "service.kubernetes.io/headless"
TRIGGER_TIME: Final = "endpoints.kubernetes.io/last-change-trigger-time"
OVER_CAPACITY: Final = "endpoints.kubernetes.io/over-capacity"
MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
MANAGER: Final = "endpoint-controller"


class _BackendPort(Struct, frozen=True, kw_only=True):
    name: str = ""
    container_port: int = 0
    protocol: str = "TCP"


class _BackendContainer(Struct, frozen=True, kw_only=True):
    ports: tuple[_BackendPort, ...] | None = None
    restart_policy: str | None = None


class _BackendMeta(Struct, frozen=True, kw_only=True):
    name: str
    namespace: str = ""
    uid: str = ""
    deletion_timestamp: str | None = None


class _BackendSpec(Struct, frozen=True, kw_only=True):
    node_name: str = ""
    hostname: str = ""
    subdomain: str = ""
    containers: tuple[_BackendContainer, ...] = ()
    init_containers: tuple[_BackendContainer, ...] | None = None


class _BackendAddress(Struct, frozen=True, kw_only=True):
    ip: str = ""


class _BackendCondition(Struct, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class _BackendStatus(Struct, frozen=True, kw_only=True):
    phase: str = "Pending"
    pod_addresses: tuple[_BackendAddress, ...] | None = msgspec.field(default=None, name="podIPs")
    conditions: tuple[_BackendCondition, ...] | None = None


class BackendPod(Struct, frozen=True, kw_only=True):
    """A pod as a backend of Services: its addresses, ports and readiness."""

    metadata: _BackendMeta
    spec: _BackendSpec = _BackendSpec()
    status: _BackendStatus = _BackendStatus()

    @property
    def finished(self) -> bool:
        """Return whether the pod is Succeeded or Failed."""
        return self.status.phase in FINISHED

    @property
    def terminating(self) -> bool:
        """Return whether the pod is being deleted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def ready(self) -> bool:
        """Return whether the Ready c is true."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions or ())

    @property
    def ready_changed(self) -> str:
        """Return the last transition of the Ready c, or ""."""
        times = (c.last_transition_time for c in self.status.conditions or () if c.type == "Ready")
        return next(times, None) or ""

    def addresses(self, family: str) -> list[str]:
        """Return the addresses of a family, IPv4 or IPv6, in canonical form."""
        parsed = (_parsed(address.ip) for address in self.status.pod_addresses or ())
        return [text for kind, text in parsed if kind == family]

    def target(self) -> Json:
        """Return the target reference of the pod's address."""
        metadata = self.metadata
        return {"kind": "Pod", "namespace": metadata.namespace, "name": metadata.name, "uid": metadata.uid}

    def hostname_for(self, service: Json) -> str:
        """Return the host name of the pod in the domain of a Service; "" if it has none there."""
        return self.spec.hostname if self.spec.subdomain == service["metadata"]["name"] else ""

    def port(self, service_port: Json) -> int | None:
        """Return the pod's number for a port of a Service; None if no container has the named port."""
        target = service_port.get("targetPort") or service_port.get("port")
        if isinstance(target, int):
            return target
        sidecars = (c for c in self.spec.init_containers or () if c.restart_policy == "Always")
        for container in (*self.spec.containers, *sidecars):
            for port in container.ports or ():
                if port.name == target and port.protocol == service_port.get("protocol", "TCP"):
                    return port.container_port
        return None


decode_backend = msgspec.json.Decoder(BackendPod).decode


@remembered(16_384)
def _parsed(text: str) -> tuple[str, str]:
    """Return the family and the canonical form of an address; "" for invalid texts."""
    try:
        address = ip_address(text)
    except ValueError:
        return "", ""
    return f"IPv{address.version}", str(address)


def selector_of_service(spec: Json) -> Mapping[str, str] | None:
    """Return the labels that select the pods of a Service; None if no controller manages its endpoints."""
    if spec.get("type") == "ExternalName":
        return None
    selector: Mapping[str, str] | None = spec.get("selector")
    return selector or None


def headless(spec: Json) -> bool:
    """Return whether a Service has no cluster IP."""
    return bool(spec.get("clusterIP") == "None")


def families(spec: Json) -> list[str]:
    """Return the IP families of a Service."""
    return list(spec.get("ipFamilies") or ("IPv4",))


def numbered(port: Json, number: int) -> Json:
    """Return a port of a Service with the backend's number."""
    backend_port = {"name": port.get("name", ""), "port": number, "protocol": port.get("protocol", "TCP")}
    if port.get("appProtocol") is not None:
        backend_port["appProtocol"] = port["appProtocol"]
    return backend_port


class TriggerTimes:
    """The times of the changes before each sync of a Service, as upstream's TriggerTimeTracker.

    It holds the times of the last sync of each Service, and nothing after a restart.
    """

    def __init__(self) -> None:
        self._times: dict[tuple[str, str], dict[str, str]] = {}

    def oldest_since(self, service: Json, pods: Iterable[BackendPod]) -> str:
        """Return the oldest change of its pods since the last sync of a Service; empty if none changed.

        For the first sync this is the creation of the Service.
        """
        metadata = service["metadata"]
        key, created = (metadata["namespace"], metadata["name"]), metadata.get("creationTimestamp", "")
        before = self._times.get(key)
        now = {"": created, **{pod.metadata.name: pod.ready_changed for pod in pods if pod.ready_changed}}
        self._times[key] = now
        if before is None:
            return str(created)
        return min((time for name, time in now.items() if time > before.get(name, "")), default="")

    def forget(self, namespace: str, name: str) -> None:
        """Drop the times of a deleted Service."""
        self._times.pop((namespace, name), None)


def subsets_of(service: Json, pods: Iterable[BackendPod]) -> tuple[list[Json], bool]:
    """Return the subsets of a Service's Endpoints, and whether addresses were left out."""
    spec = service["spec"]
    family, unready = families(spec)[0], bool(spec.get("publishNotReadyAddresses"))
    offers: dict[tuple[tuple[str, object], ...], dict[tuple[str, str], bool]] = {}
    addresses: dict[tuple[str, str], Json] = {}
    for pod in pods:
        pod_addresses = pod.addresses(family)
        if pod.finished or pod.terminating or not pod_addresses:
            continue
        key = (pod_addresses[0], pod.metadata.uid)
        addresses[key] = _endpoint_address(service, pod, pod_addresses[0])
        for port in _ports(spec, pod):
            offers.setdefault(tuple(port.items()), {})[key] = unready or pod.ready
    groups: dict[tuple[tuple[tuple[str, str], bool], ...], list[Json]] = {}
    for port_items, offered in offers.items():
        groups.setdefault(tuple(sorted(offered.items())), []).append(dict(port_items))
    subsets = [_subset(addresses, hosts, ports) for hosts, ports in groups.items()]
    subsets.sort(key=lambda subset: [(port.get("name", ""), port["port"]) for port in subset.get("ports", ())])
    return _truncated(subsets)


def _ports(spec: Json, pod: BackendPod) -> list[Json]:
    """Return the ports of a Service at a pod; a headless Service without ports has one without number."""
    if not spec.get("ports"):
        return [{}] if headless(spec) else []
    return [numbered(port, number) for port in spec["ports"] if (number := pod.port(port)) is not None]


def _endpoint_address(service: Json, pod: BackendPod, address: str) -> Json:
    entry: Json = {"ip": address, "targetRef": pod.target()}
    if pod.spec.node_name:
        entry["nodeName"] = pod.spec.node_name
    if hostname := pod.hostname_for(service):
        entry["hostname"] = hostname
    return entry


def _subset(
    addresses: Mapping[tuple[str, str], Json], hosts: Sequence[tuple[tuple[str, str], bool]], ports: list[Json]
) -> Json:
    subset: Json = {}
    for field, wanted in (("addresses", True), ("notReadyAddresses", False)):
        if matching := [addresses[key] for key, ready in hosts if ready is wanted]:
            subset[field] = matching
    written = [{key: value for key, value in port.items() if value != ""} for port in ports if port]
    if written:
        subset["ports"] = sorted(written, key=lambda port: (port.get("name", ""), port["port"]))
    return subset


def _truncated(subsets: list[Json]) -> tuple[list[Json], bool]:
    """Keep `MOST_ADDRESSES` addresses, ready ones first, in proportion from each subset."""
    counts = {field: [len(subset.get(field, ())) for subset in subsets] for field in ("addresses", "notReadyAddresses")}
    ready, unready = sum(counts["addresses"]), sum(counts["notReadyAddresses"])
    if ready + unready <= MOST_ADDRESSES:
        return subsets, False
    field, most, total = "notReadyAddresses", MOST_ADDRESSES - ready, unready
    if ready > MOST_ADDRESSES:
        field, most, total = "addresses", MOST_ADDRESSES, ready
    left = most
    for subset, count in zip(subsets, counts[field], strict=True):
        share = min(math.ceil(count / total * most), left)
        left -= min(share, count)
        if field == "addresses":
            subset.pop("notReadyAddresses", None)
        if field in subset:
            subset[field] = subset[field][:share]
    cleaned = [{key: value for key, value in subset.items() if value} for subset in subsets]
    return [subset for subset in cleaned if subset.keys() & {"addresses", "notReadyAddresses"}], True
