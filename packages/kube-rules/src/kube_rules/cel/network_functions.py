"""Addresses, networks and URLs in expressions: `ip`, `cidr`, `url` and their functions.

Semantics and costs: k8s.io/apiserver/pkg/cel/library (ip.go, cidr.go, urls.go, cost.go). The form of an address follows
Go's net/netip: no zone, no leading zero, no IPv4 address inside an IPv6 one. The form of a URL follows Go's
ParseRequestURI: absolute, or an absolute path.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, unquote, unquote_plus

from kube_rules.cel.functions import Function, needs, takes, traversed
from kube_rules.cel.quantity_functions import parsed, reading, reads
from kube_rules.cel.values import CelError, Meter, Opaque

_LONGEST_ADDRESS = 64
_BITS = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:", re.ASCII)
_HOST = re.compile(r"[-a-zA-Z0-9._~!$&'()*+,;=:<>\"%\u0080-\U0010ffff]*")
_PORT = re.compile(r"(:[0-9]*)?", re.ASCII)
_USER = re.compile(r"[-a-zA-Z0-9._:~!$&'()*+,;=%@]*", re.ASCII)
_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})", re.ASCII)
_PATH = re.compile(r"[-a-zA-Z0-9._~!$&'()*+,;=:@\[\]/%]*", re.ASCII)
_KEPT_IN_PATH = "/$&+,:;=@-_.~"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Ip(Opaque):
    """An address."""

    __slots__ = ("address",)
    cel_type = "net.IP"

    def __init__(self, text: str) -> None:
        self.address = _address(text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ip) and self.address == other.address

    def __hash__(self) -> int:
        return hash(self.address)

    def __str__(self) -> str:
        return str(self.address)


class Cidr(Opaque):
    """An address with a prefix length; it keeps the bits after the prefix."""

    __slots__ = ("address", "bits", "network")
    cel_type = "net.CIDR"

    def __init__(self, text: str) -> None:
        address, slash, bits = text[:_LONGEST_ADDRESS].rpartition("/")
        try:
            if not slash or len(text) > _LONGEST_ADDRESS or "%" in address or not _BITS.fullmatch(bits):
                raise ValueError
            self.address = _bare(address)
            self.bits = int(bits)
            if self.bits > self.address.max_prefixlen:
                raise ValueError
        except ValueError:
            message = f"network address parse error during conversion from string: invalid CIDR address: {text[:64]}"
            raise CelError(message) from None
        if _mapped(self.address):
            raise CelError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
        self.network = ipaddress.ip_network((self.address, self.bits), strict=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cidr) and (self.address, self.bits) == (other.address, other.bits)

    def __hash__(self) -> int:
        return hash((self.address, self.bits))

    def __str__(self) -> str:
        return f"{self.address}/{self.bits}"


class Url(Opaque):
    """A parsed URL; `path` is unchanged."""

    __slots__ = ("host", "path", "query", "scheme", "text")
    cel_type = "kubernetes.URL"

    def __init__(self, text: str) -> None:
        self.text = text
        why = self._read(text)
        if why:
            shown = text if len(text) <= 256 else text[:256] + "..."
            raise CelError(f'URL parse error during conversion from string: parse "{shown}": {why}')

    def _read(self, text: str) -> str:
        """Parse the text; return the error, or ""."""
        if not text:
            return "empty url"
        if _CONTROL.search(text):
            return "net/url: invalid control character in URL"
        scheme = _SCHEME.match(text)
        self.scheme = scheme.group()[:-1].lower() if scheme else ""
        if text[:1] == ":":
            return "missing protocol scheme"
        rest, _, self.query = text[scheme.end() if scheme else 0 :].partition("?")
        self.host = ""
        if not rest.startswith("/"):
            return "invalid URI for request"
        if scheme and rest.startswith("//"):
            authority, slash, path = rest[2:].partition("/")
            rest = slash + path
            user, at, self.host = authority.rpartition("@")
            if at and not _USER.fullmatch(user):
                return "net/url: invalid userinfo"
            why = self._host_fault()
            if why:
                return why
        self.path = rest
        wrong = _ESCAPE.search(rest)
        return f'invalid URL escape "{rest[wrong.start() : wrong.start() + 3]}"' if wrong else ""

    def _host_fault(self) -> str:
        host = self.host
        if host.startswith("["):
            inner, closed, port = host[1:].rpartition("]")
            if not closed:
                return "missing ']' in host"
            try:
                ipaddress.IPv6Address(inner)
            except ValueError:
                return f"invalid host: {host[:64]}"
        else:
            wrong = re.search(r"[\s\"<>\\^`{|}\[\]]", host)
            if wrong or not _HOST.fullmatch(host):
                return f'invalid character "{wrong.group() if wrong else "?"}" in host name'
            port = host[host.rindex(":") :] if ":" in host else ""
        return "" if _PORT.fullmatch(port) else f'invalid port "{port[:32]}" after host'

    @property
    def port(self) -> str:
        """Return the digits after the host, or ""."""
        end = self.host.rfind("]")
        return self.host[end + 1 :].rpartition(":")[2] if ":" in self.host[end + 1 :] else ""

    @property
    def hostname(self) -> str:
        """Return the host without its port and without brackets."""
        end = self.host.rfind("]")
        if end > 0:
            return self.host[1:end]
        return self.host.rpartition(":")[0] if ":" in self.host else self.host

    @property
    def escaped_path(self) -> str:
        """Return the path, escaped if necessary."""
        return self.path if _PATH.fullmatch(self.path) else quote(unquote(self.path), safe=_KEPT_IN_PATH)

    def values(self) -> dict[str, list[str]]:
        """Return the values of the query by name; invalid pairs are left out."""
        result: dict[str, list[str]] = {}
        for pair in self.query.split("&"):
            if pair and ";" not in pair and not _ESCAPE.search(pair):
                name, _, value = pair.partition("=")
                result.setdefault(unquote_plus(name), []).append(unquote_plus(value))
        return result

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Url) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _bare(text: str) -> _Address:
    return ipaddress.ip_address(text)


def _mapped(address: _Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


def _address(text: str) -> _Address:
    """Return an address that Kubernetes accepts. Raises CelError."""
    try:
        if len(text) > _LONGEST_ADDRESS:
            raise ValueError
        result = _bare(text)
    except ValueError:
        shown = text[:_LONGEST_ADDRESS]
        message = (
            f'IP Address "{shown}" parse error during conversion from string: ParseAddr("{shown}"): unable to parse IP'
        )
        raise CelError(message) from None
    if "%" in text:
        raise CelError(f'IP address "{text}" with zone value is not allowed')
    if _mapped(result):
        raise CelError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return result


def _property(kind: type, of: Callable[[Any], Any]) -> Function:
    """Return a function of one value that costs one unit."""

    def run(meter: Meter, args: list[Any]) -> Any:
        takes(args, 1, 1)
        meter.spend(1)
        return of(needs(args[0], kind))

    return Function(run, "dyn")


def _ip(meter: Meter, args: list[Any]) -> Ip:
    takes(args, 1, 1)
    if isinstance(args[0], Cidr):
        meter.spend(1)
        return Ip(str(args[0].address))
    result: Ip = reading(Ip)(meter, args)
    return result


def _contains_ip(meter: Meter, args: list[Any]) -> bool:
    takes(args, 2, 2)
    outer, arg = needs(args[0], Cidr), needs(args[1], str, Ip)
    meter.spend(4 + (int(traversed(len(arg))) if isinstance(arg, str) else 0))
    inner = Ip(arg) if isinstance(arg, str) else arg
    return inner.address in outer.network


def _contains_cidr(meter: Meter, args: list[Any]) -> bool:
    takes(args, 2, 2)
    outer, arg = needs(args[0], Cidr), needs(args[1], str, Cidr)
    meter.spend(7 + (int(traversed(len(arg))) if isinstance(arg, str) else 0))
    inner = Cidr(arg) if isinstance(arg, str) else arg
    return bool(inner.bits >= outer.bits and inner.address in outer.network)


def _is_global(address: _Address) -> bool:
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or str(address) == "255.255.255.255"
    )


def _link_local_multicast(address: _Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        return address in _V4_LINK_LOCAL_MULTICAST
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02


_V4_LINK_LOCAL_MULTICAST = ipaddress.IPv4Network("224.0.0.0/24")


_CONTAINS_IP = 4


def _compared(base: int) -> Callable[[list[float]], float]:
    """Return the cost of comparing networks, and of parsing the argument if it is a text (of a size above one)."""
    return lambda n: base + (traversed(n[1]) if n[1] > 1 else 0)


def _typed(function: Function, kind: str) -> Function:
    return Function(function.run, kind, function.cost, function.result)


NETWORK: Mapping[str, Function] = {
    "ip": Function(_ip, "net.IP", parsed),
    "isIP": Function(reads(Ip), "bool", parsed),
    "ip.isCanonical": Function(
        reading(lambda text: str(_address(text)) == text, times=2), "bool", lambda n: traversed(2 * n[0])
    ),
    "family": _typed(_property(Ip, lambda ip: ip.address.version), "int"),
    "isUnspecified": _typed(_property(Ip, lambda ip: ip.address.is_unspecified), "bool"),
    "isLoopback": _typed(_property(Ip, lambda ip: ip.address.is_loopback), "bool"),
    "isLinkLocalMulticast": _typed(_property(Ip, lambda ip: _link_local_multicast(ip.address)), "bool"),
    "isLinkLocalUnicast": _typed(_property(Ip, lambda ip: ip.address.is_link_local), "bool"),
    "isGlobalUnicast": _typed(_property(Ip, lambda ip: _is_global(ip.address)), "bool"),
    "cidr": Function(reading(Cidr), "net.CIDR", parsed),
    "isCIDR": Function(reads(Cidr), "bool", parsed),
    "containsIP": Function(_contains_ip, "bool", _compared(_CONTAINS_IP)),
    "containsCIDR": Function(_contains_cidr, "bool", _compared(_CONTAINS_IP + 3)),
    "masked": _typed(_property(Cidr, lambda cidr: Cidr(str(cidr.network))), "net.CIDR"),
    "prefixLength": _typed(_property(Cidr, lambda cidr: cidr.bits), "int"),
    "url": Function(reading(Url), "kubernetes.URL", lambda n: traversed(n[0]), lambda n: n[0]),
    "isURL": Function(reads(Url), "bool"),
    "getScheme": Function(_property(Url, lambda url: url.scheme).run, "string", result=lambda n: n[0]),
    "getHost": Function(_property(Url, lambda url: url.host).run, "string", result=lambda n: n[0]),
    "getHostname": Function(_property(Url, lambda url: url.hostname).run, "string", result=lambda n: n[0]),
    "getPort": Function(_property(Url, lambda url: url.port).run, "string", result=lambda n: n[0]),
    "getEscapedPath": Function(_property(Url, lambda url: url.escaped_path).run, "string", result=lambda n: 3 * n[0]),
    "getQuery": Function(_property(Url, lambda url: url.values()).run, "map", result=lambda n: n[0]),
}
"""Functions on addresses, networks and URLs, by name."""
