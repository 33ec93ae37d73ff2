"""Rules of Services (kube-apiserver 1.37, `ValidateService`, `ValidateServiceClusterIPsRelatedFields`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import Final

from kube_rules import field_errors as fe
from kube_rules.errors import FieldError
from kube_rules.json import Json
from kube_rules.validation import names
from kube_rules.validation import rows as r
from kube_rules.validation.containers import PROTOCOLS, port_or_name
from kube_rules.validation.network import NO_ADDRESS, is_address

HEADLESS: Final = ("None",)
"""`clusterIPs` of a Service without an address."""
_FAMILIES: Final = {4: "IPv4", 6: "IPv6"}
POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
"""Values of `ipFamilyPolicy`."""
_MOST: Final = 2
_SET_ONCE: Final = "may not change once set"
_ADDRESS_FIELDS: Final = ("clusterIPs", "ipFamilies", "ipFamilyPolicy")


def family_of(address: str) -> str:
    """Return IPv4 or IPv6; raises ValueError for a text that is not an address."""
    return _FAMILIES[ip_address(address).version]


def _exposure(spec: Json, path: str) -> r.Found:
    """Check the fields that the type requires."""
    kind = spec.get("type")
    if not spec.get("ports") and kind != "ExternalName" and spec.get("clusterIP") != "None":
        yield fe.required(f"{path}.ports")
    if kind in ("LoadBalancer", "NodePort") and is_headless(spec):
        yield fe.invalid(f"{path}.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if kind == "ExternalName":
        for field in _ADDRESS_FIELDS:
            if spec.get(field):
                yield fe.forbidden(f"{path}.{field}", "may not be set for ExternalName services")
        if not spec.get("externalName"):
            yield fe.required(f"{path}.externalName")
    else:
        yield from cluster_addresses(spec, path)


def is_headless(spec: Json) -> bool:
    """Return whether a Service has explicitly no address."""
    return tuple(spec.get("clusterIPs") or ()) == HEADLESS


def cluster_addresses(spec: Json, path: str) -> r.Found:
    """Check the addresses and families of a Service, independent of its type."""
    addresses, families = spec.get("clusterIPs") or [], spec.get("ipFamilies") or []
    place, first = f"{path}.clusterIPs", spec.get("clusterIP")
    if first and not addresses:
        yield fe.required(place)
    elif first and addresses[0] != first:
        yield fe.invalid(place, addresses, "first value must match `clusterIP`")
    elif addresses and not first:
        yield fe.invalid(place, addresses, "must be empty when `clusterIP` is not specified")
    twice = r.repeated(families)
    for index, family in enumerate(families):
        if family not in _FAMILIES.values():
            yield fe.not_supported(f"{path}.ipFamilies[{index}]", family, sorted(_FAMILIES.values()))
        if index in twice:
            yield fe.duplicate(f"{path}.ipFamilies[{index}]", family)
    if spec.get("ipFamilyPolicy"):
        yield from fe.one_of(f"{path}.ipFamilyPolicy", spec["ipFamilyPolicy"], POLICIES)
    wrong = _wrong_addresses(place, addresses)
    yield from wrong
    if len(addresses) > _MOST:
        yield fe.invalid(place, addresses, "may only hold up to 2 values")
    if wrong or is_headless(spec):
        return
    if len(addresses) > 1 and sorted(map(family_of, addresses)) != sorted(_FAMILIES.values()):
        yield fe.invalid(place, addresses, "may specify no more than one IP for each IP family")
    for index, (address, family) in enumerate(zip(addresses, families, strict=False)):
        if family in _FAMILIES.values() and family_of(address) != family:
            text = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            yield fe.invalid(f"{place}[{index}]", address, text)


def _wrong_addresses(place: str, addresses: Sequence[str]) -> list[FieldError]:
    if "None" in addresses[:1]:
        several = fe.invalid(place, list(addresses), "'None' must be the first and only value")
        return [several] if len(addresses) > 1 else []
    return [
        fe.invalid(f"{place}[{index}]", address, NO_ADDRESS)
        for index, address in enumerate(addresses)
        if not is_address(address)
    ]


def _node_ports(spec: Json, path: str) -> r.Found:
    """Check for node ports that the type does not allow, and for duplicates per protocol."""
    seen = set()
    for index, port in enumerate(spec.get("ports") or ()):
        number = port.get("nodePort")
        if not number:
            continue
        if spec.get("type") == "ClusterIP":
            yield fe.forbidden(f"{path}.ports[{index}].nodePort", "may not be used when `type` is 'ClusterIP'")
        if (port.get("protocol"), number) in seen:
            yield fe.duplicate(f"{path}.ports[{index}].nodePort", number)
        seen.add((port.get("protocol"), number))


def _ports(named: Callable[[str, r.Syntax], r.Check]) -> r.Check:
    return r.listed(
        "ports",
        named("name", names.dns_label),
        r.Unique("name", empty=False),
        r.within(1, 65535, "port", missing=0),
        r.choice("protocol", PROTOCOLS),
        port_or_name("targetPort"),
        r.Unique("protocol", "port", place="", shown=lambda port: {key: port.get(key) for key in ("protocol", "port")}),
    )


_ONE_PORT, _SEVERAL_PORTS = _ports(r.formed), _ports(r.wanted)


def _selector(spec: Json, path: str) -> r.Found:
    for key, value in spec.get("selector", {}).items():
        for message in (*names.qualified(key), *names.label_value(value)):
            yield fe.invalid(f"{path}.selector", key, message)


service = r.below(
    "spec",
    r.enum("type", ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")),
    _exposure,
    # Each of several ports needs a name.
    lambda spec, path: (_SEVERAL_PORTS if len(spec.get("ports", ())) > 1 else _ONE_PORT)(spec, path),
    _node_ports,
    _selector,
    r.enum("sessionAffinity", ("ClientIP", "None")),
)
"""Check ports, addresses and type of a Service."""


def same_addresses(new: Json, old: Json) -> r.Found:
    """Check that the first address and family do not change; a second one may be added, or removed with SingleStack."""
    after, before = new.get("spec", {}), old.get("spec", {})
    if "ExternalName" in (after.get("type"), before.get("type")) or (is_headless(after) and is_headless(before)):
        return
    fields = [("clusterIPs", "clusterIP")]
    if not is_headless(after) and not is_headless(before):
        fields.append(("ipFamilies", "ipFamily"))
    for field, singular in fields:
        was, now = before.get(field) or [], after.get(field) or []
        if was and not now:
            yield fe.invalid(f"spec.{field}[0]", now, f"primary {singular} can not be unset")
        for index, value in enumerate(was[: len(now)]):
            if now[index] != value and (index == 0 or len(was) == len(now)):
                yield fe.invalid(f"spec.{field}[{index}]", now, _SET_ONCE)
        if len(was) > len(now) == 1 and after.get("ipFamilyPolicy") != "SingleStack":
            text = f"must be set to 'SingleStack' when releasing the secondary {singular}"
            yield fe.invalid("spec.ipFamilyPolicy", after.get("ipFamilyPolicy"), text)
