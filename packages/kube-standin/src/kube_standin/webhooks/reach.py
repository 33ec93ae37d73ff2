"""The permitted addresses of webhooks: those of this machine, and those that the operator of the server allows.

Clients of the API write webhook configurations, so the addresses in them are untrusted. Names are looked up only if the
operator listed them. An address is checked after the lookup and then used unchanged, so a name that later resolves to
another address does not reach it.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from posixpath import normpath
from typing import Any, Protocol
from urllib.parse import urlsplit

from kube_rules.errors import excerpt

IpAddress = IPv4Address | IPv6Address
IpNetwork = IPv4Network | IPv6Network
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_PLACE = re.compile(r"(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<host>[^:\[\]]+)):(?P<port>[0-9]{1,5})", re.ASCII)
_LOCAL = "localhost"
_MOST_ADDRESSES = 4


class WebhookCallError(Exception):
    """Raised if a webhook was not called or its response is invalid; the text is the reason, in one line."""


@dataclass(frozen=True)
class Destination:
    """The destination of a request: the host, the name in its certificate, and the URL for error messages.

    ``chosen``: the operator set the host (``--webhook-service``), so any of its addresses may be called.
    """

    host: str
    port: int
    server_name: str
    authority: str
    path: str
    chosen: bool = False

    @property
    def url(self) -> str:
        """Return the URL for error messages, without the query."""
        return f"https://{self.authority}{self.path}"


class ServicePorts(Protocol):
    """The protocol for finding services of the cluster; the registry implements it (`service_ports`)."""

    def port_of(self, namespace: str, name: str, port: int) -> int:
        """Return the port on which the programs behind a service listen; raises WebhookCallError."""


@dataclass(frozen=True)
class WebhookReach:
    """The permitted destinations besides addresses of this machine.

    ``names`` are host names and ``networks`` address ranges of ``--webhook-hosts``; ``services`` maps namespace and
    name of a service to a host and port (``--webhook-service``).
    """

    names: frozenset[str] = frozenset()
    networks: tuple[IpNetwork, ...] = ()
    services: Mapping[tuple[str, str], tuple[str, int]] = field(default_factory=dict)

    def destination(self, client_config: Mapping[str, Any], ports: ServicePorts | None = None) -> Destination:
        """Return the destination of a clientConfig without any lookup; raises WebhookCallError."""
        service = client_config.get("service")
        if service is not None:
            return self._service(service, ports)
        return _of_url(str(client_config.get("url") or ""))

    def _service(self, service: Mapping[str, Any], ports: ServicePorts | None) -> Destination:
        namespace, name = str(service.get("namespace") or ""), str(service.get("name") or "")
        port, path = service.get("port") or 443, str(service.get("path") or "/")
        server_name = f"{name}.{namespace}.svc"
        if not _NAME.fullmatch(server_name) or not path.startswith("/") or not isinstance(port, int):
            raise WebhookCallError(f"the service of the webhook is not valid: {excerpt(f'{namespace}/{name}{path}')}")
        authority = f"{server_name}:{port}"
        mapped = self.services.get((namespace, name))
        if mapped is not None:
            return Destination(*mapped, server_name, authority, _clean(path), chosen=True)
        if ports is None:
            raise WebhookCallError(f'no address is known for service "{namespace}/{name}"; use --webhook-service')
        return Destination("127.0.0.1", ports.port_of(namespace, name, port), server_name, authority, _clean(path))

    async def addresses(self, destination: Destination) -> list[str]:
        """Return the permitted addresses of a destination; raises WebhookCallError."""
        host = destination.host
        literal = _literal(host)
        if literal is not None:
            candidates = [literal]
        else:
            if not destination.chosen and host != _LOCAL and host not in self.names:
                raise WebhookCallError(f"webhooks on host {host} are not allowed; see --webhook-hosts")
            candidates = await _lookup(host, destination.port)
        trusted = destination.chosen or host in self.names
        allowed = [candidate for candidate in candidates if self._allows(candidate, trusted)]
        if not allowed:
            shown = ", ".join(map(str, candidates[:_MOST_ADDRESSES]))
            raise WebhookCallError(f"webhooks at address {shown} are not allowed; see --webhook-hosts")
        return [str(candidate) for candidate in allowed[:_MOST_ADDRESSES]]

    def _allows(self, address: IpAddress, trusted: bool) -> bool:
        """Return whether an address may be called; ``trusted``: the operator named its host.

        Link-local, multicast, unspecified and reserved addresses are refused even then, unless their network is listed:
        clouds serve credentials at link-local addresses.
        """
        if address.is_loopback or any(address in network for network in self.networks):
            return True
        odd = address.is_link_local or address.is_multicast or address.is_unspecified or address.is_reserved
        return trusted and not odd


def _literal(host: str) -> IpAddress | None:
    """Return the address of a host that is an address literal, None for a name; IPv4-mapped IPv6 becomes IPv4."""
    if "%" in host:
        raise WebhookCallError(f"{excerpt(host)}: an address with a zone is not allowed")
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return _plain(address)


def _plain(address: IpAddress) -> IpAddress:
    if isinstance(address, IPv6Address):
        return address.ipv4_mapped or address
    return address


async def _lookup(host: str, port: int) -> list[IpAddress]:
    try:
        rows = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise WebhookCallError(f"dial tcp: lookup {host}: {error.strerror or error}") from error
    texts = dict.fromkeys(str(row[4][0]).partition("%")[0] for row in rows)
    return [_plain(ip_address(text)) for text in texts]


def _of_url(url: str) -> Destination:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 443
    except ValueError as error:
        raise WebhookCallError(f"the URL of the webhook is not valid: {excerpt(url)}") from error
    plain = url.isascii() and url.isprintable() and " " not in url
    if not plain or parts.scheme != "https" or parts.username is not None or parts.query or parts.fragment:
        raise WebhookCallError(
            f"the URL of the webhook must be https://HOST[:PORT][/PATH] without user, query, fragment: {excerpt(url)}"
        )
    if not _NAME.fullmatch(host) and _literal(host) is None:
        raise WebhookCallError(f"the host of the webhook is not valid: {excerpt(host)}")
    return Destination(host, port, host, parts.netloc, _clean(parts.path))


def _clean(path: str) -> str:
    """Return a path without empty and dot segments and without a trailing slash, as upstream calls it."""
    return normpath(f"/{path.lstrip('/')}")


def webhook_reach(hosts: Iterable[str] = (), services: Iterable[str] = ()) -> WebhookReach:
    """Read the reach of ``--webhook-hosts`` (names, addresses, networks), ``--webhook-service``; raises ValueError."""
    names: set[str] = set()
    networks: list[IpNetwork] = []
    for host in hosts:
        for word in host.split(","):
            text = word.strip().lower()
            try:
                networks.append(ip_network(text))
            except ValueError:
                if not _NAME.fullmatch(text) or text.replace(".", "").isdigit():
                    raise ValueError(
                        f"--webhook-hosts: expected a host name, an address or a network such as 10.0.0.0/8, "
                        f"found {excerpt(word)!r}"
                    ) from None
                names.add(text)
    mapped: dict[tuple[str, str], tuple[str, int]] = {}
    for text in services:
        service, _, place = text.partition("=")
        namespace, _, name = service.partition("/")
        parsed = _PLACE.fullmatch(place.lower())
        port = int(parsed["port"]) if parsed is not None else 0
        if parsed is None or not _NAME.fullmatch(f"{name}.{namespace}") or not 0 < port < 65536:
            raise ValueError(f"--webhook-service: expected NAMESPACE/NAME=HOST:PORT, found {excerpt(text)!r}")
        mapped[namespace, name] = (parsed["six"] or parsed["host"], port)
    return WebhookReach(frozenset(names), tuple(networks), mapped)
