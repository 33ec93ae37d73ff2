"""Rules of Ingresses, IngressClasses and NetworkPolicies (kube-apiserver 1.37, networking validation)."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

from kube_rules import field_errors as fe
from kube_rules.json import Json
from kube_rules.validation import names, selectors
from kube_rules.validation import rows as r
from kube_rules.validation.network import NO_ADDRESS, is_address

_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_POLICY_TYPES: Final = ("Ingress", "Egress")
_HIGHEST_PORT: Final = 65535
_PORT_RANGE: Final = "must be between 1 and 65535, inclusive"
_LONGEST_CONTROLLER: Final = 250


# --- Ingress ---------------------------------------------------------------------------------------------


def _backend(backend: Json, path: str) -> r.Found:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        yield fe.invalid(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from _local_reference(resource, f"{path}.resource")
    elif service is None:
        yield fe.invalid(path, "", "resource or service backend is required")
    else:
        yield from r.wanted("name", names.dns1035_label)(service, f"{path}.service")
        yield from _port(service.get("port") or {}, path)


def _local_reference(reference: Json, path: str) -> r.Found:
    if reference.get("apiGroup") is not None:
        yield from fe.malformed(f"{path}.apiGroup", reference["apiGroup"], names.subdomain)
    for name in ("kind", "name"):
        yield from fe.wanted(f"{path}.{name}", reference.get(name, ""), names.path_segment)


def _port(port: Json, path: str) -> r.Found:
    name, number = port.get("name"), port.get("number")
    if name and number:
        yield fe.invalid(path, "", "cannot set both port name & port number")
    elif name:
        for message in names.port_name(name):
            yield fe.invalid(f"{path}.service.port.name", name, message)
    elif number:
        if not 1 <= number <= _HIGHEST_PORT:
            yield fe.invalid(f"{path}.service.port.number", number, _PORT_RANGE)
    else:
        yield fe.required(path, "port name or number is required")


def _path(rule: Json, path: str) -> r.Found:
    kind, text = rule.get("pathType"), rule.get("path", "")
    if not kind:
        yield fe.required(f"{path}.pathType", "pathType must be specified")
        return
    if kind not in _PATH_TYPES:
        yield fe.not_supported(f"{path}.pathType", kind, _PATH_TYPES)
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        yield fe.invalid(f"{path}.path", text, "must be an absolute path")
    if kind in ("Exact", "Prefix"):
        for part in ("//", "/./", "/../", "%2f", "%2F"):
            if part in text:
                yield fe.invalid(f"{path}.path", text, f"must not contain '{part}'")
        for end in ("/..", "/."):
            if text.endswith(end):
                yield fe.invalid(f"{path}.path", text, f"cannot end with '{end}'")
    yield from _backend(rule.get("backend") or {}, f"{path}.backend")


def _host(host: str, path: str) -> r.Found:
    yield from fe.malformed(path, host, names.wildcard if "*" in host else names.subdomain)


def _rule(rule: Json, path: str) -> r.Found:
    host = rule.get("host", "")
    if host and is_address(host):
        yield fe.invalid(f"{path}.host", host, _NO_HOST)
    if host:
        yield from _host(host, f"{path}.host")
    http = rule.get("http")
    if http is not None and not http.get("paths"):
        yield fe.required(f"{path}.http.paths")
    elif http is not None:
        yield from r.listed("paths", _path)(http, f"{path}.http")


def _tls(tls: Json, path: str) -> r.Found:
    for index, host in enumerate(tls.get("hosts") or ()):
        yield from _host(host, f"{path}.hosts[{index}]")
    yield from r.formed("secretName", names.subdomain)(tls, path)


def _some_rule(spec: Json, path: str) -> r.Found:
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        yield fe.invalid(path, None, "either `defaultBackend` or `rules` must be specified")


_NO_HOST: Final = "must be a DNS name, not an IP address"
ingress: r.Check = r.below(
    "spec",
    _some_rule,
    r.given("defaultBackend", _backend),
    r.listed("rules", _rule),
    r.listed("tls", _tls),
    r.formed("ingressClassName", names.subdomain),
)
"""Check the routing of hosts and paths."""


def new_ingress(obj: Json, path: str) -> r.Found:
    """Check a new Ingress: the older annotation must name the same class."""
    yield from ingress(obj, path)
    annotated = (obj["metadata"].get("annotations") or {}).get(_CLASS)
    named = (obj.get("spec") or {}).get("ingressClassName")
    if annotated is not None and named is not None and annotated != named:
        yield fe.invalid(f"annotations.{_CLASS}", annotated, "must match `ingressClassName` when both are specified")


_CLASS: Final = "kubernetes.io/ingress.class"


def _reached(address: Json, path: str) -> r.Found:
    text, host = address.get("ip", ""), address.get("hostname", "")
    if text and not is_address(text):
        yield fe.invalid(f"{path}.ip", text, NO_ADDRESS)
    if host:
        yield from fe.malformed(f"{path}.hostname", host, names.subdomain)
    if host and is_address(host):
        yield fe.invalid(f"{path}.hostname", host, _NO_HOST)


ingress_status: r.Check = r.below("status", r.below("loadBalancer", r.listed("ingress", _reached)))
"""Check the addresses of load balancers."""


def _controller(spec: Json, path: str) -> r.Found:
    controller = spec.get("controller", "")
    if not controller:
        yield fe.required(f"{path}.controller")
        return
    if len(controller) > _LONGEST_CONTROLLER:
        yield fe.too_long(f"{path}.controller", _LONGEST_CONTROLLER)
    domain, _, rest = controller.partition("/")
    if not domain or not rest:
        yield fe.invalid(f"{path}.controller", controller, 'must be a domain-prefixed path (such as "acme.io/foo")')
        return
    yield from fe.malformed(f"{path}.controller", domain, names.subdomain)
    yield from fe.malformed(f"{path}.controller", rest, names.http_path)


_SCOPES: Final = ("Cluster", "Namespace")


def _parameters(parameters: Json, path: str) -> r.Found:
    yield from _local_reference(parameters, path)
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    if scope is None:
        yield fe.required(f"{path}.scope")
    elif scope not in _SCOPES:
        yield fe.not_supported(f"{path}.scope", scope, _SCOPES)
    if scope == "Namespace" and namespace is None:
        yield fe.required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'")
    elif scope == "Namespace" and namespace is not None:
        yield from fe.malformed(f"{path}.namespace", namespace, names.dns_label)
    if scope == "Cluster" and namespace is not None:
        yield fe.forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'")


ingress_class: r.Check = r.below("spec", _controller, r.given("parameters", _parameters))
"""Check the controller of Ingresses, and its parameters."""


# --- NetworkPolicy ---------------------------------------------------------------------------------------


_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")


def _policy_port(port: Json, path: str) -> r.Found:
    if port.get("protocol", "TCP") not in _PROTOCOLS:
        yield fe.not_supported(f"{path}.protocol", port["protocol"], _PROTOCOLS)
    value, end = port.get("port"), port.get("endPort")
    if isinstance(value, int):
        if not 1 <= value <= _HIGHEST_PORT:
            yield fe.invalid(f"{path}.port", value, _PORT_RANGE)
        if end is not None and end < value:
            yield fe.invalid(f"{path}.endPort", end, "must be greater than or equal to `port`")
        if end is not None and not 1 <= end <= _HIGHEST_PORT:
            yield fe.invalid(f"{path}.endPort", end, _PORT_RANGE)
        return
    if end is not None:
        text = "may not be specified when `port` is " + ("not specified" if value is None else "non-numeric")
        yield fe.invalid(f"{path}.endPort", end, text)
    if value is not None:
        yield from fe.malformed(f"{path}.port", value, names.port_name)


def _block(block: Json, path: str) -> r.Found:
    text = block.get("cidr", "")
    if not text:
        yield fe.required(f"{path}.cidr")
        return
    whole = _network(text)
    if whole is None:
        yield fe.invalid(f"{path}.cidr", text, _CIDR)
        return
    for index, part in enumerate(block.get("except") or ()):
        place, inner = f"{path}.except[{index}]", _network(part)
        if inner is None:
            yield fe.invalid(place, part, _CIDR)
        elif inner.version != whole.version or inner == whole or not inner.subnet_of(whole):  # type: ignore[arg-type]
            yield fe.invalid(place, part, "must be a strict subset of `cidr`")


_CIDR: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def _network(text: str) -> IPv4Network | IPv6Network | None:
    """Return the network of a CIDR text, or None; host bits may be set, as in Kubernetes."""
    try:
        return ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None


def _peer(peer: Json, path: str) -> r.Found:
    block, peers = peer.get("ipBlock"), [peer.get(name) for name in ("podSelector", "namespaceSelector")]
    for name in ("podSelector", "namespaceSelector"):
        if peer.get(name) is not None:
            yield from selectors.label_selector(peer[name], f"{path}.{name}")
    if block is not None:
        yield from _block(block, f"{path}.ipBlock")
        if peers != [None, None]:
            yield fe.forbidden(path, "may not specify both ipBlock and another peer")
    elif peers == [None, None]:
        yield fe.required(path, "must specify a peer")


def _policy_types(spec: Json, path: str) -> r.Found:
    types = spec.get("policyTypes") or ()
    if len(types) > len(_POLICY_TYPES):
        yield fe.invalid(f"{path}.policyTypes", types, "may not specify more than two policyTypes")
        return
    for index, kind in enumerate(types):
        if kind not in _POLICY_TYPES:
            yield fe.not_supported(f"{path}.policyTypes[{index}]", kind, _POLICY_TYPES)


network_policy: r.Check = r.below(
    "spec",
    r.below("podSelector", selectors.label_selector),
    r.listed("ingress", r.listed("ports", _policy_port), r.listed("from", _peer)),
    r.listed("egress", r.listed("ports", _policy_port), r.listed("to", _peer)),
    _policy_types,
)
"""Check the allowed traffic of pods."""
