"""Rules of a pod's name resolution: its DNS settings and the aliases of its hosts file."""

from __future__ import annotations

from ipaddress import ip_address

from kube_rules import field_errors as fe
from kube_rules.json import Json
from kube_rules.validation import names
from kube_rules.validation import rows as r

NO_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_MOST_SERVERS = 3
_MOST_SEARCHES = 32
_LONGEST_SEARCH = 2048


def is_address(text: str) -> bool:
    """Return whether a text is an IPv4 or IPv6 address."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def resolution(pod: Json, path: str) -> r.Found:
    """Check name servers, search domains and options; they are required if the cluster's are not used."""
    config, place = pod.get("dnsConfig"), f"{path}.dnsConfig"
    if pod.get("dnsPolicy") == "None":
        if config is None:
            yield fe.required(place, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not config.get("nameservers"):
            yield fe.required(
                f"{place}.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None"
            )
    if config is not None:
        yield from _settings(config, place)


def _settings(config: Json, path: str) -> r.Found:
    servers, searches = config.get("nameservers", ()), config.get("searches", ())
    if len(servers) > _MOST_SERVERS:
        yield fe.invalid(f"{path}.nameservers", servers, f"must not have more than {_MOST_SERVERS} nameservers")
    for index, server in enumerate(servers):
        if not is_address(server):
            yield fe.invalid(f"{path}.nameservers[{index}]", server, NO_ADDRESS)
    if len(searches) > _MOST_SEARCHES:
        yield fe.invalid(f"{path}.searches", searches, f"must not have more than {_MOST_SEARCHES} search paths")
    if len(" ".join(searches)) > _LONGEST_SEARCH:
        detail = f"must not have more than {_LONGEST_SEARCH} characters (including spaces) in the search list"
        yield fe.invalid(f"{path}.searches", searches, detail)
    for index, search in enumerate(searches):
        domain = search.removesuffix(".")
        if domain:
            for message in names.search(domain):
                yield fe.invalid(f"{path}.searches[{index}]", search, message)
    for index, option in enumerate(config.get("options", ())):
        if not option.get("name"):
            yield fe.required(f"{path}.options[{index}]", "must not be empty")


def _alias(alias: Json, path: str) -> r.Found:
    if not is_address(alias.get("ip", "")):
        yield fe.invalid(f"{path}.ip", alias.get("ip", ""), NO_ADDRESS)


host_aliases = r.listed("hostAliases", _alias, r.texts("hostnames", names.subdomain))
"""Check the host names of addresses in the hosts file."""
