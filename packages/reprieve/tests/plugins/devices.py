"""Device claims, classes and slices for tests, in one line each; what claims have got, as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kube_rules import objects
from reprieve.cluster.claim_states import ClaimState
from tests.building import World, pod

DRIVER = "gpu.example.com"
Json = dict[str, Any]


def cel(*expressions: str) -> list[Json]:
    """Selectors."""
    return [{"cel": {"expression": text}} for text in expressions]


def device_class(name: str = "gpu", *expressions: str, **spec: Any) -> objects.DeviceClass:
    """A class; without expressions it takes any device."""
    body = {"selectors": cel(*expressions), **spec}
    return msgspec.convert({"metadata": {"name": name}, "spec": body}, objects.DeviceClass)


def device(name: str, attributes: Mapping[str, Any] | None = None, **more: Any) -> Json:
    """A device; attributes by their Python type, versions as ("version", text)."""
    given: Json = {}
    for key, value in (attributes or {}).items():
        kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"
        given[key] = dict([value]) if isinstance(value, tuple) else {kind: value}
    return {"name": name, **({"attributes": given} if given else {}), **more}


def devices(count: int, **more: Any) -> list[Json]:
    """`gpu-0`, `gpu-1`..., all alike."""
    return [device(f"gpu-{i}", **more) for i in range(count)]


def node_selector(key: str, *values: str, field: bool = False, terms: int = 1) -> Json:
    """A v1 NodeSelector: the label, or the field, is one of the values; the same term several times on demand."""
    wanted = {"key": key, "operator": "In", "values": list(values)}
    return {"nodeSelectorTerms": [{"matchFields" if field else "matchExpressions": [wanted]}] * terms}


def slice_of(
    node: str | None,
    listed: Iterable[Json] = (),
    *,
    name: str = "",
    pool: str = "",
    generation: int = 1,
    count: int = 1,
    driver: str = DRIVER,
    **spec: Any,
) -> objects.ResourceSlice:
    """A slice; `node` None: say in `spec` where it is for."""
    where = {"nodeName": node} if node else {}
    body = {
        "driver": driver,
        "pool": {"name": pool or node or "net", "generation": generation, "resourceSliceCount": count},
        "devices": list(listed),
        **where,
        **spec,
    }
    metadata = {"name": name or f"slice-{driver}-{pool or node or 'net'}-{generation}"}
    return msgspec.convert({"metadata": metadata, "spec": body}, objects.ResourceSlice)


def request(name: str = "r", class_name: str = "gpu", *expressions: str, **more: Any) -> Json:
    """A request for exactly this."""
    return {"name": name, "exactly": _wanted(class_name, expressions, more)}


def first_of(name: str, *options: Json) -> Json:
    """A request for the first of some options, made with `option`."""
    return {"name": name, "firstAvailable": list(options)}


def option(name: str, class_name: str = "gpu", *expressions: str, **more: Any) -> Json:
    """One option of a prioritized list."""
    return {"name": name, **_wanted(class_name, expressions, more)}


def _wanted(class_name: str, expressions: Iterable[str], more: Mapping[str, Any]) -> Json:
    selectors = cel(*expressions)
    return {"deviceClassName": class_name, **({"selectors": selectors} if selectors else {}), **more}


def claim(
    name: str = "c",
    *requests: Json,
    constraints: Iterable[Json] = (),
    config: Iterable[Json] = (),
    status: Json | None = None,
    metadata: Json | None = None,
    uid: str = "",
) -> objects.ResourceClaim:
    """A claim; without requests it asks for one device of the class `gpu`."""
    body = {
        "metadata": {"name": name, "namespace": "default", "uid": uid or f"uid-claim-{name}", **(metadata or {})},
        "spec": {
            "devices": {
                "requests": list(requests or [request()]),
                "constraints": list(constraints),
                "config": list(config),
            }
        },
        "status": status or {},
    }
    return msgspec.convert(body, objects.ResourceClaim)


def template(name: str = "t", *requests: Json) -> objects.ResourceClaimTemplate:
    """A template of such a claim."""
    inner = msgspec.to_builtins(claim("x", *requests).spec)
    body = {"metadata": {"name": name, "namespace": "default"}, "spec": {"spec": inner}}
    return msgspec.convert(body, objects.ResourceClaimTemplate)


def allocated(*got: tuple[str, str, str], node: str | None = "", to: Iterable[str] = (), **more: Any) -> Json:
    """A status: (driver, pool, device) for the request `r`, usable on `node` (None: anywhere; "": the first pool)."""
    results = [{"request": "r", "driver": d, "pool": p, "device": n, **more} for d, p, n in got]
    allocation: Json = {"devices": {"results": results}}
    if node is not None:
        names = [node or got[0][1]]
        field = {"key": "metadata.name", "operator": "In", "values": names}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    consumers = [{"resource": "pods", "name": uid.removeprefix("uid-"), "uid": uid} for uid in to]
    return {"allocation": allocation, "reservedFor": consumers}


def user(name: str, *claims: str, templates: Iterable[str] = (), **spec: Any) -> objects.Pod:
    """A pod that uses claims by name, and claims of its own from templates."""
    made = pod(name, **{"cpu": 1, **spec})
    uses = [{"name": one, "resourceClaimName": one} for one in claims]
    uses += [{"name": one, "resourceClaimTemplateName": one} for one in templates]
    wanted = tuple(msgspec.convert(one, objects.PodResourceClaim) for one in uses)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, resource_claims=wanted))


def got(world: World, name: str = "c") -> list[str]:
    """What a claim has: `pool/device` each, in the order of the results."""
    return got_of(world.engine.cluster.devices.claims[f"default/{name}"])


def got_of(claim: ClaimState) -> list[str]:
    """The same of the state of a claim."""
    allocation = claim.allocation
    return [f"{grant.device[1]}/{grant.device[2]}" for grant in allocation.grants] if allocation is not None else []


def why(world: World, name: str = "p") -> str:
    """The last message of a pod that waits, or why it is not tried."""
    entity = world.engine.queue.find(world.record(name))
    held = entity.gated_pods.get(world.record(name).uid) if entity is not None else None
    rejection = world.virtual.rejections.get(world.record(name).uid)
    return held.reason if held is not None else rejection.message if rejection is not None else ""


def taint_rule(effect: str = "NoSchedule", *, name: str = "rule", key: str = "sick", **selector: str) -> Any:
    """A rule that taints the devices it selects; without `selector` all of them."""
    spec = {"deviceSelector": selector, "taint": {"key": key, "effect": effect}}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, objects.DeviceTaintRule)
