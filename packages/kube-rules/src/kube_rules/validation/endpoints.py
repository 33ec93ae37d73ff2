"""Rules of Endpoints and EndpointSlices: the addresses and ports of a Service."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

from kube_rules import field_errors as fe
from kube_rules.json import Json
from kube_rules.validation import names
from kube_rules.validation import rows as r
from kube_rules.validation.containers import PROTOCOLS
from kube_rules.validation.network import NO_ADDRESS

_KINDS_OF_ADDRESS = ("FQDN", "IPv4", "IPv6")
_MOST_ENDPOINTS = 1_000
_MOST_ADDRESSES = 100


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _elsewhere(text: str, place: str) -> r.Found:
    """Check that an address is reachable from other nodes."""
    address = _parsed(text)
    if address is None:
        yield fe.invalid(place, text, NO_ADDRESS)
    elif address.is_unspecified:
        yield fe.invalid(place, text, "may not be unspecified (0.0.0.0 or ::)")
    elif address.is_loopback:
        yield fe.invalid(place, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    elif address.is_link_local:
        yield fe.invalid(place, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")


def _address(address: Json, path: str) -> r.Found:
    return _elsewhere(address.get("ip", ""), f"{path}.ip")


def _some(subset: Json, path: str) -> r.Found:
    if not subset.get("addresses") and not subset.get("notReadyAddresses"):
        yield fe.required(path, "must specify `addresses` or `notReadyAddresses`")


endpoints = r.listed(
    "subsets",
    _some,
    r.listed("addresses", _address),
    r.listed("notReadyAddresses", _address),
    r.listed("ports", r.within(1, 65535, "port", missing=0), r.choice("protocol", PROTOCOLS)),
)
"""Check the addresses and ports of a Service."""


def slice_(obj: Json, _: str) -> r.Found:
    """Check a slice of endpoints with addresses of one type."""
    kind = obj.get("addressType", "")
    supported = kind in _KINDS_OF_ADDRESS
    yield from fe.one_of("addressType", kind, _KINDS_OF_ADDRESS)
    items = obj.get("endpoints") or ()
    if len(items) > _MOST_ENDPOINTS:
        yield fe.too_many("endpoints", len(items), _MOST_ENDPOINTS)
        return
    for index, endpoint in enumerate(items):
        place = f"endpoints[{index}].addresses"
        addresses = endpoint.get("addresses") or ()
        if not addresses:
            yield fe.required(place, "must contain at least 1 address")
        elif len(addresses) > _MOST_ADDRESSES:
            yield fe.too_many(place, len(addresses), _MOST_ADDRESSES)
        for number, text in enumerate(addresses if supported and len(addresses) <= _MOST_ADDRESSES else ()):
            yield from _of_kind(kind, text, f"{place}[{number}]")
    yield from r.listed("ports", r.choice("protocol", PROTOCOLS), r.within(1, 65535, "port"))(obj, "")


def _of_kind(kind: str, text: str, place: str) -> r.Found:
    if kind == "FQDN":
        yield from fe.malformed(place, text, names.subdomain)
        return
    address = _parsed(text)
    if address is None or isinstance(address, IPv4Address) != (kind == "IPv4"):
        yield fe.invalid(place, text, f"must be a valid {kind} address")
    else:
        yield from _elsewhere(text, place)
