"""Columns of Ingresses, IngressClasses, NetworkPolicies and CertificateSigningRequests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kube_standin.tables import ages
from kube_standin.tables.columns import AGE, NAME, NONE, Column, of, path, selector, text

_MOST_HOSTS: Final = 3
_CSR: Final = "certificates.v1.CertificateSigningRequestSpec#"


def _hosts(spec: Any) -> str:
    hosts = [rule["host"] for rule in (spec or {}).get("rules") or () if rule.get("host")]
    if len(hosts) > _MOST_HOSTS:
        return f"{','.join(hosts[:_MOST_HOSTS])} + {len(hosts) - _MOST_HOSTS} more..."
    return ",".join(hosts) or "*"


def _address(status: Any) -> str:
    found = ((status or {}).get("loadBalancer") or {}).get("ingress") or ()
    return ",".join(one.get("ip") or one.get("hostname") or "" for one in found)


def _parameters(given: Any) -> str:
    if not given:
        return NONE
    group = f".{given['apiGroup']}" if given.get("apiGroup") else ""
    return f"{given.get('kind', '')}{group}/{given.get('name', '')}"


def _ports(spec: Any) -> str:
    return "80, 443" if (spec or {}).get("tls") else "80"


def _duration(seconds: Any) -> str:
    return NONE if seconds is None else ages.human(seconds)


def _decision(status: Any) -> str:
    """Return what was decided about a request, and what its signer did."""
    kinds = [one.get("type") for one in (status or {}).get("conditions") or ()]
    word = "Denied" if "Denied" in kinds else "Approved" if "Approved" in kinds else "Pending"
    failed = ",Failed" if "Failed" in kinds else ""
    return word + failed + (",Issued" if (status or {}).get("certificate") else "")


COLUMNS: Final[Mapping[tuple[str, str], tuple[Column, ...]]] = {
    ("networking.k8s.io", "Ingress"): (
        NAME,
        Column("Class", "The class of the Ingress", text("spec.ingressClassName")),
        Column("Hosts", "Hosts of the rules", of(_hosts, "spec")),
        Column("Address", "Addresses at which the Ingress is reached", of(_address, "status")),
        Column("Ports", "Ports at which the Ingress listens", of(_ports, "spec")),
        AGE,
    ),
    ("networking.k8s.io", "IngressClass"): (
        NAME,
        Column("Controller", "networking.v1.IngressClassSpec#controller", path("spec.controller")),
        Column("Parameters", "networking.v1.IngressClassSpec#parameters", of(_parameters, "spec.parameters")),
        AGE,
    ),
    ("networking.k8s.io", "NetworkPolicy"): (
        NAME,
        Column("Pod-Selector", "networking.v1.NetworkPolicySpec#podSelector", of(selector, "spec.podSelector")),
        AGE,
    ),
    ("certificates.k8s.io", "CertificateSigningRequest"): (
        NAME,
        AGE,
        Column("SignerName", _CSR + "signerName", path("spec.signerName")),
        Column("Requestor", "The user that made the request", path("spec.username")),
        Column("RequestedDuration", _CSR + "expirationSeconds", of(_duration, "spec.expirationSeconds")),
        Column("Condition", "What was decided about the request", of(_decision, "status")),
    ),
}
"""By (API group, kind)."""
