"""Rules of ConfigMaps, Secrets and Services."""

from __future__ import annotations

from collections.abc import Iterator

from reprieve.api.json import Json
from reprieve.controlplane.rules import names
from reprieve.controlplane.schema import field_errors as fe
from reprieve.controlplane.schema.field_errors import FieldError

_MAX_BYTES = 1024 * 1024
_FROZEN = "field is immutable when `immutable` is set"
_SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PORT_RANGE = "must be between 1 and 65535, inclusive"


def config_map(obj: Json) -> Iterator[FieldError]:
    """Keys are file names; the whole fits into a mebibyte."""
    size = 0
    data, binary = obj.get("data", {}), obj.get("binaryData", {})
    for key, value in data.items():
        yield from fe.malformed(f"data[{key}]", key, names.config_key)
        if key in binary:
            yield fe.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        size += len(value.encode())
    for key, value in binary.items():
        yield from fe.malformed(f"binaryData[{key}]", key, names.config_key)
        size += len(value) * 3 // 4
    if size > _MAX_BYTES:
        yield fe.too_long("", _MAX_BYTES)


def config_map_update(new: Json, old: Json) -> Iterator[FieldError]:
    """An immutable map stays immutable, and as it is."""
    yield from _frozen(new, old, ("data", "binaryData"))
    yield from config_map(new)


def _frozen(new: Json, old: Json, parts: tuple[str, ...]) -> Iterator[FieldError]:
    if old.get("immutable"):
        if not new.get("immutable"):
            yield fe.forbidden("immutable", _FROZEN)
        for part in parts:
            if new.get(part, {}) != old.get(part, {}):
                yield fe.forbidden(part, _FROZEN)


def secret(obj: Json) -> Iterator[FieldError]:
    """Keys are file names; the whole fits into a mebibyte."""
    size = 0
    for key, value in obj.get("data", {}).items():
        yield from fe.malformed(f"data[{key}]", key, names.config_key)
        size += len(value) * 3 // 4
    if size > _MAX_BYTES:
        yield fe.too_long("data", _MAX_BYTES)


def secret_update(new: Json, old: Json) -> Iterator[FieldError]:
    """The type stays."""
    if new.get("type") != old.get("type"):
        yield fe.invalid("type", new.get("type"), "field is immutable")
    yield from _frozen(new, old, ("data",))
    yield from secret(new)


def service(obj: Json) -> Iterator[FieldError]:
    """Ports and type of a service."""
    spec = obj.get("spec", {})
    kind, ports = spec.get("type", ""), spec.get("ports", ())
    headless = spec.get("clusterIP") == "None"
    if kind not in _SERVICE_TYPES:
        yield fe.not_supported("spec.type", kind, _SERVICE_TYPES)
    if not ports and kind != "ExternalName" and not headless:
        yield fe.required("spec.ports")
    if kind == "ExternalName":
        if not spec.get("externalName"):
            yield fe.required("spec.externalName")
        if spec.get("clusterIP"):
            yield fe.forbidden("spec.clusterIP", "may not be set when `type` is 'ExternalName'")
    seen: set[str] = set()
    taken: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        place, name = f"spec.ports[{index}]", port.get("name", "")
        if not name and len(ports) > 1:
            yield fe.required(f"{place}.name")
        elif name:
            yield from fe.malformed(f"{place}.name", name, names.dns_label)
            if name in seen:
                yield fe.duplicate(f"{place}.name", name)
            seen.add(name)
        number, protocol = port.get("port", 0), port.get("protocol", "")
        if not 1 <= number <= 65535:
            yield fe.invalid(f"{place}.port", number, _PORT_RANGE)
        yield from fe.one_of(f"{place}.protocol", protocol, _PROTOCOLS)
        target = port.get("targetPort", 0)
        if isinstance(target, int) and not 1 <= target <= 65535:
            yield fe.invalid(f"{place}.targetPort", target, _PORT_RANGE)
        elif isinstance(target, str):
            yield from fe.malformed(f"{place}.targetPort", target, names.port_name)
        if (protocol, number) in taken:
            yield fe.duplicate(place, {"protocol": protocol, "port": number})
        taken.add((protocol, number))
    for key, value in spec.get("selector", {}).items():
        for message in (*names.qualified(key), *names.label_value(value)):
            yield fe.invalid("spec.selector", key, message)
    affinity = spec.get("sessionAffinity", "")
    if affinity not in ("ClientIP", "None"):
        yield fe.not_supported("spec.sessionAffinity", affinity, ("ClientIP", "None"))


def service_update(new: Json, old: Json) -> Iterator[FieldError]:
    """The cluster address stays."""
    after, before = new.get("spec", {}), old.get("spec", {})
    same_type = "ExternalName" not in (after.get("type"), before.get("type"))
    if same_type and before.get("clusterIP") and after.get("clusterIP") != before["clusterIP"]:
        yield fe.invalid("spec.clusterIPs[0]", after.get("clusterIP"), "may not change once set")
    yield from service(new)
