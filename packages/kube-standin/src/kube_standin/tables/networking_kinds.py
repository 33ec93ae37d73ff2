"""Columns of networking kinds, certificates, and HorizontalPodAutoscalers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kube_standin.tables import ages
from kube_standin.tables.ages import UNKNOWN
from kube_standin.tables.columns import AGE, NAME, NONE, UNSET, Column, integer, of, path, selector, text

_MOST_HOSTS: Final = 3
_MOST_TARGETS: Final = 2
_CSR: Final = "certificates.v1.CertificateSigningRequestSpec#"


def _hosts(spec: Any) -> str:
    hosts = [rule["host"] for rule in (spec or {}).get("rules") or () if rule.get("host")]
    if len(hosts) > _MOST_HOSTS:
        return f"{','.join(hosts[:_MOST_HOSTS])} + {len(hosts) - _MOST_HOSTS} more..."
    return ",".join(hosts) or "*"


def _address(status: Any) -> str:
    ingress = ((status or {}).get("loadBalancer") or {}).get("ingress") or ()
    return ",".join(point.get("ip") or point.get("hostname") or "" for point in ingress)


def _parameters(ref: Any) -> str:
    if not ref:
        return NONE
    group = f".{ref['apiGroup']}" if ref.get("apiGroup") else ""
    return f"{ref.get('kind', '')}{group}/{ref.get('name', '')}"


def _parent(reference: Any) -> str:
    """Return `RESOURCE.GROUP/NAMESPACE/NAME` of the existing parts."""
    ref = reference or {}
    resource = ".".join(part for part in (ref.get("resource"), ref.get("group")) if part)
    return "/".join(part for part in (resource, ref.get("namespace"), ref.get("name")) if part) or NONE


def _ports(spec: Any) -> str:
    return "80, 443" if (spec or {}).get("tls") else "80"


def _duration(seconds: Any) -> str:
    return NONE if seconds is None else ages.human(seconds)


def _decision(status: Any) -> str:
    """Return the decision about a request, and the result of its signer."""
    kinds = [condition.get("type") for condition in (status or {}).get("conditions") or ()]
    word = "Denied" if "Denied" in kinds else "Approved" if "Approved" in kinds else "Pending"
    failed = ",Failed" if "Failed" in kinds else ""
    return word + failed + (",Issued" if (status or {}).get("certificate") else "")


def _targets(obj: Any) -> str:
    """Return the current value and the target of each metric of an autoscaler."""
    current = {
        _source(metric_status): metric_status for metric_status in (obj.get("status") or {}).get("currentMetrics") or ()
    }
    targets = []
    for metric in (obj.get("spec") or {}).get("metrics") or ():
        kind, name = _source(metric)
        target = (metric.get(kind) or {}).get("target") or {}
        state = ((current.get((kind, name)) or {}).get(kind) or {}).get("current") or {}
        words = "averageUtilization" if "averageUtilization" in target else "averageValue"
        words = words if words in target else "value"
        sign = "%" if words == "averageUtilization" else ""
        shown = f"{state[words]}{sign}" if words in state else UNKNOWN
        prefix = f"{name}: " if name else ""
        targets.append(f"{prefix}{shown}/{target.get(words, UNKNOWN)}{sign}")
    more = f" + {len(targets) - _MOST_TARGETS} more..." if len(targets) > _MOST_TARGETS else ""
    return ", ".join(targets[:_MOST_TARGETS]) + more if targets else NONE


def _source(metric: Any) -> tuple[str, str]:
    kind = metric.get("type", "")
    field = kind[:1].lower() + kind[1:]
    return field, (metric.get(field) or {}).get("name", "")


def _scaled(reference: Any) -> str:
    ref = reference or {}
    return f"{ref.get('kind', '')}/{ref.get('name', '')}"


_HPA: Final = "autoscaling.v2.HorizontalPodAutoscaler"
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
    ("autoscaling", "HorizontalPodAutoscaler"): (
        NAME,
        Column("Reference", f"{_HPA}Spec#scaleTargetRef", of(_scaled, "spec.scaleTargetRef")),
        Column("Targets", f"{_HPA}Spec#metrics", of(_targets)),
        Column("MinPods", f"{_HPA}Spec#minReplicas", text("spec.minReplicas", UNSET)),
        integer("MaxPods", f"{_HPA}Spec#maxReplicas", "spec.maxReplicas"),
        integer("Replicas", f"{_HPA}Status#currentReplicas", "status.currentReplicas"),
        AGE,
    ),
    ("networking.k8s.io", "IPAddress"): (
        NAME,
        Column("ParentRef", "networking.v1.IPAddressSpec#parentRef", of(_parent, "spec.parentRef")),
        AGE,
    ),
    ("networking.k8s.io", "ServiceCIDR"): (
        NAME,
        Column("CIDRs", "networking.v1.ServiceCIDRSpec#cidrs", of(lambda cidrs: ",".join(cidrs or ()), "spec.cidrs")),
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
