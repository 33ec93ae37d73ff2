"""The proxy of a server: HTTPS_PROXY, HTTP_PROXY and NO_PROXY, interpreted as in Go programs.

Rules (golang.org/x/net/http/httpproxy): lower-case names are read, too; loopback addresses are never proxied. NO_PROXY
lists `*`, addresses, networks in CIDR notation, and domains (`.example.com`: subdomains; `example.com`: the domain,
too), each with an optional port.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from yarl import URL

from reprieve.client.errors import ConfigError

SCHEMES = ("http", "https")
"""Supported schemes of proxies; `socks5` is refused with a clear error."""


def checked(proxy: str, source: str) -> str:
    """Return the URL of a proxy, by default with `http://`. Raises ConfigError, which does not quote the whole URL."""
    text = proxy if "://" in proxy else f"http://{proxy}"
    try:
        url = URL(text)
    except ValueError:
        raise ConfigError(f"{source}: the proxy is not a URL") from None
    if url.scheme not in SCHEMES:
        raise ConfigError(f"{source}: proxies of scheme {url.scheme!r} are not supported; use http or https")
    if not url.host:
        raise ConfigError(f"{source}: the proxy names no host")
    return text


def from_environment(server: str, environment: Mapping[str, str]) -> str | None:
    """Return the proxy for a server, None for a direct connection. Raises ConfigError for an unusable one."""
    url = URL(server)
    name = "HTTPS_PROXY" if url.scheme == "https" else "HTTP_PROXY"
    proxy = environment.get(name) or environment.get(name.lower())
    if not proxy or url.host is None:
        return None
    if _exempt(url.host, url.port, environment.get("NO_PROXY") or environment.get("no_proxy") or ""):
        return None
    return checked(proxy, f"the environment variable {name}")


def _exempt(host: str, port: int | None, listed: str) -> bool:
    host = host.lower().rstrip(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_matches(entry.strip().lower(), host, port, address) for entry in listed.split(",") if entry.strip())


def _matches(
    entry: str, host: str, port: int | None, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None
) -> bool:
    if entry == "*":
        return True
    try:
        network = ipaddress.ip_network(entry, strict=False)
    except ValueError:
        pass
    else:
        return address is not None and address in network
    name, colon, wanted = entry.rpartition(":")
    if colon and wanted.isdecimal():
        if int(wanted) != port:
            return False
        entry = name.strip("[]")
    if address is not None:
        return entry == host
    entry = entry.removeprefix("*")
    return host.endswith(entry) if entry.startswith(".") else host == entry or host.endswith("." + entry)
