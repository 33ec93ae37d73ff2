"""The Endpoints of a Service, and what a pod is as one of its backends.

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
from kube_rules.meta import Struct

MOST_ADDRESSES: Final = 1_000
"""Addresses that an Endpoints holds at most; the rest is left out, and an annotation says so."""
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
        """Succeeded or Failed."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def terminating(self) -> bool:
        """Deleted, but still there."""
        return self.metadata.deletion_timestamp is not None

    @property
    def ready(self) -> bool:
        """Return whether its condition Ready is true."""
        return any(one.type == "Ready" and one.status == "True" for one in self.status.conditions or ())

    @property
    def ready_changed(self) -> str:
        """Return when its condition Ready changed last; "" if it has none."""
        times = (one.last_transition_time for one in self.status.conditions or () if one.type == "Ready")
        return next(times, None) or ""

    def addresses(self, family: str) -> list[str]:
        """Return its addresses of a family, IPv4 or IPv6, in their usual form."""
        parsed = (_parsed(one.ip) for one in self.status.pod_addresses or ())
        return [text for kind, text in parsed if kind == family]

    def target(self) -> Json:
        """Return the reference to it that its address has."""
        metadata = self.metadata
        return {"kind": "Pod", "namespace": metadata.namespace, "name": metadata.name, "uid": metadata.uid}

    def hostname_for(self, service: Json) -> str:
        """Return the host name that it has in the domain of a Service; "" if it is in another or none."""
        return self.spec.hostname if self.spec.subdomain == service["metadata"]["name"] else ""

    def port(self, service_port: Json) -> int | None:
        """Return the number of a port of a Service here; None if no container has the port that it names."""
        target = service_port.get("targetPort") or service_port.get("port")
        if isinstance(target, int):
            return target
        sidecars = (one for one in self.spec.init_containers or () if one.restart_policy == "Always")
        for container in (*self.spec.containers, *sidecars):
            for port in container.ports or ():
                if port.name == target and port.protocol == service_port.get("protocol", "TCP"):
                    return port.container_port
        return None


decode_backend = msgspec.json.Decoder(BackendPod).decode


@remembered(16_384)
def _parsed(text: str) -> tuple[str, str]:
    """Return the family of an address and its usual form; "" for what is none."""
    try:
        found = ip_address(text)
    except ValueError:
        return "", ""
    return f"IPv{found.version}", str(found)


def selector_of_service(spec: Json) -> Mapping[str, str] | None:
    """Return the labels that the pods of a Service have; None if no controller makes its endpoints."""
    if spec.get("type") == "ExternalName":
        return None
    selector: Mapping[str, str] | None = spec.get("selector")
    return selector or None


def headless(spec: Json) -> bool:
    """Return whether a Service has no address of its own."""
    return bool(spec.get("clusterIP") == "None")


def families(spec: Json) -> list[str]:
    """Return the families of addresses of a Service."""
    return list(spec.get("ipFamilies") or ("IPv4",))


def numbered(port: Json, number: int) -> Json:
    """Return a port of a Service with its number at a backend."""
    made = {"name": port.get("name", ""), "port": number, "protocol": port.get("protocol", "TCP")}
    if port.get("appProtocol") is not None:
        made["appProtocol"] = port["appProtocol"]
    return made


class TriggerTimes:
    """When the changes happened that a sync of each Service follows, as upstream's TriggerTimeTracker.

    It knows the times of the last sync of each, and nothing after a restart.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], dict[str, str]] = {}

    def oldest_since(self, service: Json, pods: Iterable[BackendPod]) -> str:
        """Return the oldest change of its pods since the last sync of a Service; empty if none changed.

        At the first sync that is the creation of the Service.
        """
        metadata = service["metadata"]
        key, created = (metadata["namespace"], metadata["name"]), metadata.get("creationTimestamp", "")
        before = self._known.get(key)
        now = {"": created, **{pod.metadata.name: pod.ready_changed for pod in pods if pod.ready_changed}}
        self._known[key] = now
        if before is None:
            return str(created)
        return min((time for name, time in now.items() if time > before.get(name, "")), default="")

    def forget(self, namespace: str, name: str) -> None:
        """Drop what is known of a Service that is deleted."""
        self._known.pop((namespace, name), None)


def subsets_of(service: Json, pods: Iterable[BackendPod]) -> tuple[list[Json], bool]:
    """Return the subsets of the Endpoints of a Service, and whether addresses were left out."""
    spec = service["spec"]
    family, unready = families(spec)[0], bool(spec.get("publishNotReadyAddresses"))
    offers: dict[tuple[tuple[str, object], ...], dict[tuple[str, str], bool]] = {}
    addresses: dict[tuple[str, str], Json] = {}
    for pod in pods:
        found = pod.addresses(family)
        if pod.finished or pod.terminating or not found:
            continue
        key = (found[0], pod.metadata.uid)
        addresses[key] = _endpoint_address(service, pod, found[0])
        for port in _ports(spec, pod):
            offers.setdefault(tuple(port.items()), {})[key] = unready or pod.ready
    groups: dict[tuple[tuple[tuple[str, str], bool], ...], list[Json]] = {}
    for port_items, offered in offers.items():
        groups.setdefault(tuple(sorted(offered.items())), []).append(dict(port_items))
    subsets = [_subset(addresses, hosts, ports) for hosts, ports in groups.items()]
    subsets.sort(key=lambda one: [(port.get("name", ""), port["port"]) for port in one.get("ports", ())])
    return _truncated(subsets)


def _ports(spec: Json, pod: BackendPod) -> list[Json]:
    """Return the ports that a pod has of a Service; a headless Service without ports has one without number."""
    if not spec.get("ports"):
        return [{}] if headless(spec) else []
    return [numbered(port, number) for port in spec["ports"] if (number := pod.port(port)) is not None]


def _endpoint_address(service: Json, pod: BackendPod, address: str) -> Json:
    made: Json = {"ip": address, "targetRef": pod.target()}
    if pod.spec.node_name:
        made["nodeName"] = pod.spec.node_name
    if hostname := pod.hostname_for(service):
        made["hostname"] = hostname
    return made


def _subset(
    addresses: Mapping[tuple[str, str], Json], hosts: Sequence[tuple[tuple[str, str], bool]], ports: list[Json]
) -> Json:
    made: Json = {}
    for field, wanted in (("addresses", True), ("notReadyAddresses", False)):
        if some := [addresses[key] for key, ready in hosts if ready is wanted]:
            made[field] = some
    written = [{key: value for key, value in port.items() if value != ""} for port in ports if port]
    if written:
        made["ports"] = sorted(written, key=lambda port: (port.get("name", ""), port["port"]))
    return made


def _truncated(subsets: list[Json]) -> tuple[list[Json], bool]:
    """Keep `MOST_ADDRESSES`, ready ones first, of each subset in proportion."""
    counts = {field: [len(one.get(field, ())) for one in subsets] for field in ("addresses", "notReadyAddresses")}
    ready, unready = sum(counts["addresses"]), sum(counts["notReadyAddresses"])
    if ready + unready <= MOST_ADDRESSES:
        return subsets, False
    field, most, total = "notReadyAddresses", MOST_ADDRESSES - ready, unready
    if ready > MOST_ADDRESSES:
        field, most, total = "addresses", MOST_ADDRESSES, ready
    left = most
    for subset, count in zip(subsets, counts[field], strict=True):
        kept = min(math.ceil(count / total * most), left)
        left -= min(kept, count)
        if field == "addresses":
            subset.pop("notReadyAddresses", None)
        if field in subset:
            subset[field] = subset[field][:kept]
    cleaned = [{key: value for key, value in one.items() if value} for one in subsets]
    return [one for one in cleaned if one.keys() & {"addresses", "notReadyAddresses"}], True
