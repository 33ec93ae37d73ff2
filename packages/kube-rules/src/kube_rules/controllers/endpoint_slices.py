"""The EndpointSlices of a Service, and the slices that mirror an Endpoints object written by a client.

Rules: kube-controller-manager 1.36, its endpointslice and endpointslicemirroring controllers (interfaces.md 7.14,
7.15).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final

from kube_rules.controllers.endpoints import HEADLESS, TRIGGER_TIME, BackendPod, families, headless, numbered
from kube_rules.json import Json
from kube_rules.meta import LAST_APPLIED

MOST_ENDPOINTS: Final = 100
"""Maximum number of endpoints in a slice of a Service."""
MOST_MIRRORED: Final = 1_000
"""Maximum number of mirrored addresses in a subset."""
SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
MANAGER: Final = "endpointslice-controller.k8s.io"
MIRROR: Final = "endpointslicemirroring-controller.k8s.io"
SKIP_MIRROR: Final = "endpointslice.kubernetes.io/skip-mirror"
LEADER: Final = "control-plane.alpha.kubernetes.io/leader"
_CLOSE: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_RESERVED: Final = frozenset((SERVICE_NAME, MANAGED_BY, HEADLESS))

_PortsKey = tuple[tuple[tuple[str, object], ...], ...]


@dataclass
class SlicePlan:
    """The changes that bring slices to their desired state; `update` has complete slices with their existing names."""

    create: list[Json] = field(default_factory=list)
    update: list[Json] = field(default_factory=list)
    delete: list[Json] = field(default_factory=list)
    skipped: int = 0
    """Number of addresses that were not mirrored because a subset has too many."""

    def recycle(self, usable: Callable[[Json], bool]) -> None:
        """Reuse slices to delete in place of new slices of the same address type."""
        deleted: list[Json] = []
        for old in self.delete:
            fits = (candidate for candidate in reversed(self.create) if candidate["addressType"] == old["addressType"])
            new = next(fits, None) if usable(old) else None
            if new is None:
                deleted.append(old)
                continue
            self.create = [candidate for candidate in self.create if candidate is not new]
            notes = {key: value for key, value in new["metadata"].items() if key in ("labels", "annotations")}
            parts = {"endpoints": new["endpoints"], "ports": new["ports"]}
            self.update.append({**old, "metadata": {**old["metadata"], **notes}, **parts})
        self.delete = deleted


def name_prefix(name: str) -> str:
    """Return the prefix of the generated name of a slice."""
    return f"{name}-" if len(name) < 253 else name


def _ports_key(ports: Iterable[Json] | None) -> _PortsKey:
    """Return a key that is equal for equal ports in any order."""
    return tuple(sorted((tuple(sorted(numbered(port, port.get("port", 0)).items())) for port in ports or ()), key=repr))


def _changed(old: Json, endpoints: list[Json], labels: Mapping[str, str]) -> Json:
    return {**old, "metadata": {**old["metadata"], "labels": dict(labels)}, "endpoints": endpoints}


# -- of a Service


def owned(slice_: Json, owner: Json) -> bool:
    """Return whether a slice belongs to an object."""
    uid = owner["metadata"]["uid"]
    return any(reference["uid"] == uid for reference in slice_["metadata"].get("ownerReferences") or ())


def service_labels(service: Json) -> dict[str, str]:
    """Return the labels of the slices of a Service: the Service's own, and the identifying labels."""
    own = service["metadata"].get("labels") or {}
    labels = {key: value for key, value in own.items() if key not in _RESERVED}
    if headless(service["spec"]):
        labels[HEADLESS] = ""
    return {**labels, SERVICE_NAME: service["metadata"]["name"], MANAGED_BY: MANAGER}


def plan_service(
    service: Json, pods: Sequence[BackendPod], zones: Mapping[str, str | None], existing: Sequence[Json]
) -> SlicePlan:
    """Return the changes that bring the slices of a Service to their desired state.

    ``zones`` are the zones of the existing nodes; a pod on another node is left out unless addresses that are not ready
    are published. ``existing`` are the slices that the controller manages.
    """
    plan, wanted = SlicePlan(), families(service["spec"])
    for family in wanted:
        current = [slice_ for slice_ in existing if slice_["addressType"] == family]
        _plan_family(plan, service, [pod for pod in pods if not pod.finished], zones, current, family)
    plan.delete += [slice_ for slice_ in existing if slice_["addressType"] not in wanted]
    plan.recycle(lambda old: owned(old, service))
    return plan


def _plan_family(
    plan: SlicePlan,
    service: Json,
    pods: Sequence[BackendPod],
    zones: Mapping[str, str | None],
    existing: Sequence[Json],
    family: str,
) -> None:
    labels = service_labels(service)
    current: dict[_PortsKey, list[Json]] = {}
    doomed = [item for item in existing if not owned(item, service)]
    for item in existing:
        if owned(item, service):
            current.setdefault(_ports_key(item.get("ports")), []).append(item)
    desired: dict[_PortsKey, tuple[list[Json], dict[Hashable, Json]]] = {}
    for pod in pods:
        endpoint = _endpoint(service, pod, zones, family)
        if endpoint is None:
            continue
        ports = _service_ports(service["spec"], pod)
        _, endpoints = desired.setdefault(_ports_key(ports), (ports, {}))
        endpoints[_identity(endpoint)] = endpoint
    created: list[Json] = []
    for key, (ports, endpoints) in desired.items():

        def make(ports: list[Json] = ports) -> Json:
            return _new(service, labels, family, ports)

        created += _distribute(plan, doomed, labels, current.get(key, ()), endpoints, make)
    for key, slices in current.items():
        if key not in desired:
            doomed += slices
    if len(doomed) == len(existing) and not created:  # one slice always shows that there are no endpoints
        empty = [
            item for item in doomed if owned(item, service) and not item.get("endpoints") and not item.get("ports")
        ]
        if len(doomed) == len(empty) == 1:
            doomed = []
            if empty[0]["metadata"].get("labels") != labels:
                plan.update.append(_changed(empty[0], [], labels))
        else:
            created.append(_new(service, labels, family, []))
    plan.create += created
    plan.delete += doomed


def _new(service: Json, labels: Mapping[str, str], family: str, ports: list[Json]) -> Json:
    metadata = {"generateName": name_prefix(service["metadata"]["name"]), "labels": dict(labels)}
    return {"metadata": metadata, "addressType": family, "endpoints": [], "ports": ports}


def _distribute(
    plan: SlicePlan,
    doomed: list[Json],
    labels: Mapping[str, str],
    existing: Sequence[Json],
    desired: dict[Hashable, Json],
    make: Callable[[], Json],
) -> list[Json]:
    """Keep endpoints in their slices; fill changed slices first, then one with capacity, then new slices.

    Returns the new slices.
    """
    left = dict(desired)
    changed: list[Json] = []
    unchanged: list[Json] = []
    for item in existing:
        before = item.get("endpoints") or []
        current = [wanted for endpoint in before if (wanted := left.pop(_identity(endpoint), None)) is not None]
        if current == before and current:
            same = item["metadata"].get("labels") == labels
            (unchanged if same else changed).append(item if same else _changed(item, current, labels))
        elif current:
            changed.append(_changed(item, current, labels))
        else:
            doomed.append(item)
    for item in sorted(changed, key=lambda candidate: -len(candidate["endpoints"])):
        _fill(item, left)
    created: list[Json] = []
    while left:
        roomy = [item for item in unchanged if len(item["endpoints"]) + len(left) <= MOST_ENDPOINTS]
        if roomy:
            fullest = max(roomy, key=lambda candidate: len(candidate["endpoints"]))
            item = _changed(fullest, list(fullest["endpoints"]), labels)
            changed.append(item)
        else:
            item = make()
            created.append(item)
        _fill(item, left)
    plan.update += changed
    return created


def _fill(slice_: Json, left: dict[Hashable, Json]) -> None:
    while left and len(slice_["endpoints"]) < MOST_ENDPOINTS:
        slice_["endpoints"].append(left.pop(next(iter(left))))


def _identity(endpoint: Json) -> Hashable:
    target = endpoint.get("targetRef") or {}
    names = (target.get("kind"), target.get("namespace"), target.get("name"))
    return (tuple(endpoint.get("addresses") or ()), endpoint.get("hostname"), *names)


def _service_ports(spec: Json, pod: BackendPod) -> list[Json]:
    return [numbered(port, number) for port in spec.get("ports") or () if (number := pod.port(port)) is not None]


def _endpoint(service: Json, pod: BackendPod, zones: Mapping[str, str | None], family: str) -> Json | None:
    """Return the endpoint of a pod, or None if it has no address or its node does not exist."""
    spec, node = service["spec"], pod.spec.node_name
    addresses, published = pod.addresses(family), bool(spec.get("publishNotReadyAddresses"))
    if not addresses or not (published or node in zones):
        return None
    ready = published or (pod.ready and not pod.terminating)
    conditions = {"ready": ready, "serving": pod.ready, "terminating": pod.terminating}
    endpoint: Json = {"addresses": addresses, "conditions": conditions, "targetRef": pod.target()}
    hints: Json = {}
    if node:
        endpoint["nodeName"] = node
        if spec.get("trafficDistribution") == "PreferSameNode":
            hints["forNodes"] = [{"name": node}]
    if zone := zones.get(node):
        endpoint["zone"] = zone
        if spec.get("trafficDistribution") in _CLOSE:
            hints["forZones"] = [{"name": zone}]
    if hostname := pod.hostname_for(service):
        endpoint["hostname"] = hostname
    if ready and hints:
        endpoint["hints"] = hints
    return endpoint


# -- of an Endpoints


def mirrored(endpoints: Json) -> bool:
    """Return whether an Endpoints object may be mirrored: it is neither excluded by label nor a leader lock."""
    metadata = endpoints["metadata"]
    skipped = (metadata.get("labels") or {}).get(SKIP_MIRROR) == "true"
    return not skipped and LEADER not in (metadata.get("annotations") or {})


def plan_mirror(endpoints: Json, existing: Sequence[Json]) -> SlicePlan:
    """Return the changes to the mirror slices of an Endpoints object: one slice per set of ports."""
    plan = SlicePlan()
    desired: dict[tuple[str, _PortsKey], tuple[list[Json], dict[Hashable, Json]]] = {}
    for subset in endpoints.get("subsets") or ():
        ports = [numbered(port, port["port"]) for port in subset.get("ports") or ()]
        ready = [(address, True) for address in subset.get("addresses") or ()]
        every = [*ready, *((address, False) for address in subset.get("notReadyAddresses") or ())]
        plan.skipped += max(0, len(every) - MOST_MIRRORED)
        for address, is_ready in every[:MOST_MIRRORED]:
            endpoint = _mirrored_endpoint(address, is_ready)
            key = (f"IPv{ip_address(address['ip']).version}", _ports_key(ports))
            desired.setdefault(key, (ports, {}))[1][_identity(endpoint)] = endpoint
    current: dict[tuple[str, _PortsKey], list[Json]] = {}
    for slice_ in existing:
        current.setdefault((slice_["addressType"], _ports_key(slice_.get("ports"))), []).append(slice_)
    for group, (ports, group_endpoints) in desired.items():
        family, slices = group[0], current.get(group, [])
        first = slices[0] if slices else None
        plan.delete += slices[1:]
        wanted = _mirror(endpoints, family, ports, list(group_endpoints.values())[:MOST_MIRRORED])
        if first is None:
            plan.create.append(wanted)
        elif first.get("endpoints") != wanted["endpoints"] or _notes(first["metadata"]) != _notes(wanted["metadata"]):
            metadata = {**first["metadata"], **_notes(wanted["metadata"])}
            plan.update.append({**first, "metadata": metadata, "endpoints": wanted["endpoints"]})
    plan.delete += [slice_ for key, slices in current.items() if key not in desired for slice_ in slices]
    return plan


def _notes(metadata: Json) -> Json:
    """Return the metadata that a slice copies from its Endpoints."""
    return {part: metadata.get(part) or {} for part in ("labels", "annotations")}


def _mirrored_endpoint(address: Json, ready: bool) -> Json:
    endpoint: Json = {"addresses": [str(ip_address(address["ip"]))], "conditions": {"ready": ready}}
    for part in ("targetRef", "nodeName", "hostname"):
        if address.get(part):
            endpoint[part] = address[part]
    return endpoint


def _mirror(endpoints: Json, family: str, ports: list[Json], items: list[Json]) -> Json:
    metadata = endpoints["metadata"]
    labels = {**(metadata.get("labels") or {}), SERVICE_NAME: metadata["name"], MANAGED_BY: MIRROR}
    source = metadata.get("annotations") or {}
    annotations = {key: value for key, value in source.items() if key not in (TRIGGER_TIME, LAST_APPLIED)}
    meta: Json = {"generateName": name_prefix(metadata["name"]), "labels": labels, "annotations": annotations}
    return {"metadata": meta, "addressType": family, "endpoints": items, "ports": ports}
