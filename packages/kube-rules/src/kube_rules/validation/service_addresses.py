"""Rules of ServiceCIDRs and IPAddresses (kube-apiserver 1.37, pkg/apis/networking/validation)."""

from __future__ import annotations

import ipaddress
from ipaddress import IPv4Network, IPv6Network
from typing import Final

from kube_rules import field_errors as fe
from kube_rules.json import Json
from kube_rules.labels import Messages
from kube_rules.validation import names
from kube_rules.validation import rows as r
from kube_rules.validation.network import NO_ADDRESS

_MOST: Final = 2


def canonical_address(name: str) -> Messages:
    """Return the errors of the name of an IPAddress: it must be an address in its shortest form."""
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return (NO_ADDRESS,)
    return () if str(address) == name else (f'must be in canonical form ("{address}")',)


def _parent(spec: Json, path: str) -> r.Found:
    place = f"{path}.parentRef"
    parent = spec.get("parentRef")
    if not parent:
        return (fe.required(place),)
    errors = [fe.required(f"{place}.{name}") for name in ("resource", "name") if not parent.get(name)]
    for name in ("resource", "name", "namespace"):
        if parent.get(name):
            errors += fe.malformed(f"{place}.{name}", parent[name], names.path_segment)
    if parent.get("group"):
        errors += fe.malformed(f"{place}.group", parent["group"], names.subdomain)
    return errors


ip_address: r.Check = r.below("spec", _parent)
"""Check the parent of an address."""


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        return None


def _networks(spec: Json, path: str) -> r.Found:
    place, blocks = f"{path}.cidrs", spec.get("cidrs") or ()
    if not blocks:
        yield fe.required(place, "at least one CIDR required")
    elif len(blocks) > _MOST:
        yield fe.invalid(place, spec, "may only hold up to 2 values")
        return
    parsed = [_network(text) for text in blocks]
    for index, (text, network) in enumerate(zip(blocks, parsed, strict=True)):
        if network is None or str(network) != text:
            yield fe.invalid(
                f"{place}[{index}]", text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            )
    versions = [network.version for network in parsed if network is not None]
    if len(blocks) == _MOST and len(versions) == _MOST and versions[0] == versions[1]:
        yield fe.invalid(
            place, blocks, "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        )


service_cidr: r.Check = r.below("spec", _networks)
"""Check for one network, or one of each family."""


def same_parent(new: Json, old: Json) -> r.Found:
    """Check that the parent of an address does not change."""
    return r.fixed("spec", "parentRef")(new, old)


def same_networks(new: Json, old: Json) -> r.Found:
    """Check that networks do not change; one of the other family may be added."""
    before, after = ((obj.get("spec") or {}).get("cidrs") or [] for obj in (old, new))
    grown = len(before) == 1 and len(after) == _MOST
    if len(before) != len(after) and not grown:
        yield fe.invalid("spec.cidrs", after, r.IMMUTABLE)
        return
    for index, (was, now) in enumerate(zip(before, after, strict=False)):
        if was != now:
            yield fe.invalid(f"spec.cidrs[{index}]", now, r.IMMUTABLE)
    if grown:
        yield from service_cidr(new, "")
