"""The requests and the allocation of a ResourceClaim: the spec is compiled once, the allocation read and written.

Terms: a request has one *option* (`exactly`) or several, of which the first feasible one is used (`firstAvailable`). A
*grant* is one device given to one request. An *allocation* is all grants of a claim with their nodes.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kube_rules.caching import remembered
from kube_rules.devices import AllocationResult, DeviceClass
from kube_rules.meta import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kube_rules.quantity import BINARY_SI, NANO, format_quantity, parse
from kube_rules.selectors import CompiledNodeSelector, compile_node_selector
from reprieve.cluster.device_pools import Device, DeviceId, EffectiveTaint, Slice

MOST_RESULTS = 32
"""The maximum number of devices of one claim (resourceapi.AllocationResultsMaxSize)."""
MOST_OPTIONS = 8
"""The maximum number of options of one request (resourceapi.FirstAvailableDeviceRequestMaxSize)."""
_encode = msgspec.json.Encoder(order="deterministic").encode


def tolerated(tolerations: Iterable[Mapping[str, Any]], taint: EffectiveTaint) -> bool:
    """Return whether a toleration covers the taint of a device (resourceclaim.ToleratesTaint)."""
    for toleration in tolerations:
        if toleration.get("effect") and toleration["effect"] != taint.effect:
            continue
        if toleration.get("key") and toleration["key"] != taint.key:
            continue
        operator = toleration.get("operator") or "Equal"
        if operator == "Exists" or (operator == "Equal" and toleration.get("value", "") == taint.value):
            return True
    return False


@dataclass(frozen=True, slots=True)
class Option:
    """One way to satisfy a request. `name` is its name in results and constraints: `request` or `request/option`."""

    name: str
    request: str
    class_name: str
    mode: str
    count: int
    admin: bool
    selectors: tuple[str | None, ...]
    """CEL expressions; None for a selector of an unknown type."""
    tolerations: tuple[Mapping[str, Any], ...]
    capacity: Mapping[str, int]
    """Requested capacity, by name as written, in units of 10^-9."""

    def tolerates(self, taint: EffectiveTaint) -> bool:
        """Return whether a toleration covers the taint."""
        return tolerated(self.tolerations, taint)


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a claim; a request of an unknown kind has no options."""

    name: str
    options: tuple[Option, ...]
    prioritized: bool


@dataclass(frozen=True, slots=True)
class Constraint:
    """A matchAttribute (`distinct` False) or distinctAttribute constraint; without requests it applies to all."""

    attribute: str
    distinct: bool
    requests: frozenset[str]

    def concerns(self, option: Option) -> bool:
        """Return whether the constraint applies to devices of that option."""
        return not self.requests or option.request in self.requests or option.name in self.requests


@dataclass(frozen=True, eq=False, slots=True)
class ClaimShape:
    """The requests of a claim; claims with the same requests share the object. `id` is dense from 0."""

    id: int
    requests: tuple[Request, ...]
    constraints: tuple[Constraint, ...]
    config: tuple[Mapping[str, Any], ...]

    @property
    def prioritized(self) -> bool:
        """Return whether some request has a prioritized list."""
        return any(request.prioritized for request in self.requests)

    @property
    def options(self) -> list[Option]:
        """Return all options of all requests."""
        return [option for request in self.requests for option in request.options]


class Shapes:
    """Interns claim shapes by the text of `spec.devices`."""

    def __init__(self) -> None:
        self._known: dict[bytes, ClaimShape] = {}

    def of(self, devices: Mapping[str, Any]) -> ClaimShape:
        """Return the shape of a claim. Raises QuantityError for an invalid capacity."""
        key = _encode(devices)
        result = self._known.get(key)
        if result is None:
            result = self._known[key] = ClaimShape(
                id=len(self._known),
                requests=tuple(_request(item) for item in devices.get("requests") or ()),
                constraints=tuple(_constraint(item) for item in devices.get("constraints") or ()),
                config=tuple(devices.get("config") or ()),
            )
        return result


def _request(request: Mapping[str, Any]) -> Request:
    name = str(request.get("name", ""))
    if (exact := request.get("exactly")) is not None:
        return Request(name, (_option(name, name, exact, admin=bool(exact.get("adminAccess"))),), prioritized=False)
    options = tuple(_option(f"{name}/{sub.get('name', '')}", name, sub) for sub in request.get("firstAvailable") or ())
    return Request(name, options, prioritized=True)


def _option(name: str, request: str, stated: Mapping[str, Any], *, admin: bool = False) -> Option:
    return Option(
        name=name,
        request=request,
        class_name=str(stated.get("deviceClassName", "")),
        mode=str(stated.get("allocationMode") or "ExactCount"),
        count=int(stated.get("count") or 1),
        admin=admin,
        selectors=expressions(stated.get("selectors") or ()),
        tolerations=tuple(stated.get("tolerations") or ()),
        capacity={n: parse(text).nano for n, text in ((stated.get("capacity") or {}).get("requests") or {}).items()},
    )


def expressions(selectors: Sequence[Mapping[str, Any]]) -> tuple[str | None, ...]:
    """Return the CEL texts of the selectors of a request or a class."""
    return tuple((selector.get("cel") or {}).get("expression") for selector in selectors)


def _constraint(constraint: Mapping[str, Any]) -> Constraint:
    match, distinct = constraint.get("matchAttribute"), constraint.get("distinctAttribute")
    return Constraint(str(match or distinct or ""), match is None, frozenset(constraint.get("requests") or ()))


# -- allocations ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class DeviceGrant:
    """One device given to one request. `share` and `consumed` are set for shared devices."""

    option: str
    device: DeviceId
    admin: bool
    share: str = ""
    consumed: Mapping[str, int] = field(default_factory=dict)
    binding_conditions: tuple[str, ...] = ()
    failure_conditions: tuple[str, ...] = ()
    tolerations: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Allocation:
    """The allocation of a claim. `selector` None: usable everywhere. `body`: status.allocation in the API."""

    grants: tuple[DeviceGrant, ...]
    selector: CompiledNodeSelector | None
    body: Mapping[str, Any]

    @property
    def only_node(self) -> str | None:
        """Return the only node of the allocation, if the selector names one node."""
        if self.selector is None or len(self.selector.terms) != 1:
            return None
        term = self.selector.terms[0]
        if term.labels or len(term.fields) != 1:
            return None
        wanted = term.fields[0]
        named = wanted.key == "metadata.name" and wanted.operator == "In" and len(wanted.values) == 1
        return wanted.values[0] if named else None


@remembered(4096, 4096)
def _selector(text: bytes) -> CompiledNodeSelector:
    return compile_node_selector(msgspec.json.decode(text, type=NodeSelector))


def _plain(item: AllocationResult | NodeSelector) -> dict[str, Any]:
    """Return the object as plain JSON data."""
    result: dict[str, Any] = msgspec.json.decode(_encode(item))
    return result


def read_allocation(result: AllocationResult) -> Allocation:
    """Return the allocation of a claim's status. Raises QuantityError or SelectorError for an invalid value."""
    grants = tuple(
        DeviceGrant(
            option=str(item.get("request", "")),
            device=(str(item.get("driver", "")), str(item.get("pool", "")), str(item.get("device", ""))),
            admin=bool(item.get("adminAccess")),
            share=str(item.get("shareID") or ""),
            consumed={name: parse(text).nano for name, text in (item.get("consumedCapacity") or {}).items()},
            binding_conditions=tuple(item.get("bindingConditions") or ()),
            failure_conditions=tuple(item.get("bindingFailureConditions") or ()),
            tolerations=tuple(item.get("tolerations") or ()),
        )
        for item in result.devices.get("results") or ()
    )
    selector = _selector(_encode(result.node_selector)) if result.node_selector is not None else None
    return Allocation(grants, selector, _plain(result))


@dataclass(frozen=True, slots=True)
class ChosenDevice:
    """A grant before it is written: its option, device and slice."""

    option: Option
    device: Device
    origin: Slice
    consumed: Mapping[str, int]


def write_allocation(
    claim_key: str, shape: ClaimShape, chosen: Sequence[ChosenDevice], node: str, classes: Mapping[str, DeviceClass]
) -> Allocation:
    """Return the allocation of a claim on a node in the form of the API."""
    results, grants = [], []
    for number, grant in enumerate(chosen):
        driver, pool, name = grant.device.id
        result: dict[str, Any] = {"request": grant.option.name, "driver": driver, "pool": pool, "device": name}
        if grant.option.admin:
            result["adminAccess"] = True
        if grant.option.tolerations:
            result["tolerations"] = [dict(toleration) for toleration in grant.option.tolerations]
        share = ""
        if grant.device.shared and not grant.option.admin:
            share = result["shareID"] = share_id(claim_key, grant.option.name, number)
        if grant.consumed:
            result["consumedCapacity"] = {n: format_quantity(v, _form(v)) for n, v in grant.consumed.items()}
        if grant.device.binding_conditions:
            result["bindingConditions"] = list(grant.device.binding_conditions)
        if grant.device.failure_conditions:
            result["bindingFailureConditions"] = list(grant.device.failure_conditions)
        results.append(result)
        grants.append(
            DeviceGrant(
                grant.option.name,
                grant.device.id,
                grant.option.admin,
                share,
                dict(grant.consumed),
                grant.device.binding_conditions,
                grant.device.failure_conditions,
                grant.option.tolerations,
            )
        )
    body: dict[str, Any] = {"devices": {"results": results}}
    config = _config(shape, chosen, classes)
    if config:
        body["devices"]["config"] = config
    selector = _nodes(chosen, node)
    if selector is not None:
        body["nodeSelector"] = _plain(selector)
    compiled = _selector(_encode(selector)) if selector is not None else None
    return Allocation(tuple(grants), compiled, body)


def share_id(claim_key: str, option: str, number: int) -> str:
    """Return a UUID for a share of a device, the same for the same claim."""
    digest = hashlib.sha256(f"{claim_key}\0{option}\0{number}".encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"


def _form(nano: int) -> str:
    return BINARY_SI if nano % (1024 * NANO) == 0 else "DecimalSI"


def _nodes(chosen: Sequence[ChosenDevice], node: str) -> NodeSelector | None:
    """Return the nodes on which all chosen devices are usable: one node if a device is local, else by selector."""
    fields: list[NodeSelectorRequirement] = []
    labels: list[NodeSelectorRequirement] = []
    for item in chosen:
        reach = item.device.reach if item.origin.per_device else item.origin.reach
        if reach.node or item.device.binds_to_node:
            only = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,))
            return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(only,)),))
        if reach.stated is not None and not reach.everywhere:
            for term in reach.stated.node_selector_terms[:1]:
                fields += [r for r in term.match_fields if r not in fields]
                labels += [r for r in term.match_expressions if r not in labels]
    if not fields and not labels:
        return None
    term = NodeSelectorTerm(match_expressions=tuple(labels), match_fields=tuple(fields))
    return NodeSelector(node_selector_terms=(term,))


def _config(
    shape: ClaimShape, chosen: Sequence[ChosenDevice], classes: Mapping[str, DeviceClass]
) -> list[dict[str, Any]]:
    """Return the parameters for the drivers: those of the used classes, then the claim's own."""
    used = {item.option.request: item.option for item in chosen}
    result: list[dict[str, Any]] = []
    of_class: dict[str, list[dict[str, Any]]] = {}
    for request in shape.requests:
        option = used.get(request.name)
        if option is None:
            continue
        class_entries = of_class.get(option.class_name)
        if class_entries is not None:
            for entry in class_entries:
                entry["requests"].append(option.name)
            continue
        entries = of_class[option.class_name] = []
        device_class = classes.get(option.class_name)
        configs = device_class.spec.config if device_class is not None else ()
        entries += [{"source": "FromClass", "requests": [option.name], **config} for config in configs]
        result += entries
    for claim_config in shape.config:
        requests = claim_config.get("requests") or []
        names = {name for option in used.values() for name in (option.name, option.request)}
        if not requests or any(name in names for name in requests):
            result.append({"source": "FromClaim", **claim_config, "requests": list(requests)})
    for entry in result:
        if not entry["requests"] or len(entry["requests"]) == len(shape.requests):
            del entry["requests"]
    return result


def preference(shape: ClaimShape, chosen: Sequence[ChosenDevice]) -> int:
    """Return the score of the options from prioritized lists; earlier ones score more (upstream computeScore)."""
    used = {item.option.name for item in chosen}
    return sum(
        MOST_OPTIONS - number
        for request in shape.requests
        if request.prioritized
        for number, option in enumerate(request.options)
        if option.name in used
    )
