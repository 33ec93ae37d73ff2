"""The usage of a ResourceQuota by one object: counts, compute resources of pods, storage of claims; and scopes.

Rules: kube-apiserver's quota evaluators (pkg/quota/v1/evaluator/core) and recorded answers 537 to 547. Quota admission
and the quota controllers share it. Terms: a pod is *over* once it is Succeeded or Failed, or terminating past its grace
period; then only ``count/pods`` counts it. A *resource* is a plural with its group, as error messages name it:
``pods``, ``podgroups.scheduling.k8s.io``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from kube_rules.admission.amounts import (
    ONE,
    Amount,
    Amounts,
    added,
    amount,
    of_container,
    of_pod,
)
from kube_rules.admission.priorities import PREEMPTION_PRIORITY_CLASS
from kube_rules.devices import IMPLICIT
from kube_rules.json import Json
from kube_rules.meta import FINISHED
from kube_rules.requests import CONTAINER_RESOURCES, is_extended_resource
from kube_rules.storage import CLASS_BETA

_LEGACY = frozenset(
    ("configmaps", "secrets", "services", "replicationcontrollers", "resourcequotas", "persistentvolumeclaims")
)
"""Core resources that a quota may also count by their plural alone."""
_MUST_SPECIFY = frozenset(("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"))
CLASS_STORAGE = ".storageclass.storage.k8s.io/"
"""The text between the name of a storage class and the resource that a quota limits."""
_LONGEST_CHAIN = 8
"""Maximum number of groups above a pod; a schedulable tree has fewer."""


def usage_of(resource: str, obj: Json, now: datetime) -> Amounts:
    """Return the usage of an object by resource name of a quota; ``now`` decides whether a pod is over."""
    out: Amounts = {f"count/{resource}": ONE}
    if resource in _LEGACY:
        out[resource] = ONE
    more = _EVALUATORS.get(resource)
    if more is not None:
        out.update(more(obj, now))
    return out


def is_over(pod: Json, now: datetime) -> bool:
    """Return whether a pod no longer uses compute resources."""
    if (pod.get("status") or {}).get("phase") in FINISHED:
        return True
    metadata = pod["metadata"]
    ends = metadata.get("deletionTimestamp")
    grace = metadata.get("deletionGracePeriodSeconds")
    return bool(ends) and grace is not None and now > datetime.fromisoformat(ends) + timedelta(seconds=grace)


def _compute(requests: Mapping[str, Amount], limits: Mapping[str, Amount]) -> Amounts:
    out: Amounts = {}
    for name, value in requests.items():
        if name in CONTAINER_RESOURCES or name.startswith("hugepages-"):
            out[name] = out[f"requests.{name}"] = value
        elif is_extended_resource(name) or name.startswith(IMPLICIT):
            out[f"requests.{name}"] = value
    for name, value in limits.items():
        if name in CONTAINER_RESOURCES:
            out[f"limits.{name}"] = value
    return out


def _pod(pod: Json, now: datetime) -> Amounts:
    if is_over(pod, now):
        return {}
    spec = pod.get("spec") or {}
    return {"pods": ONE, **_compute(of_pod(spec, "requests"), of_pod(spec, "limits"))}


def _service(service: Json, _now: datetime) -> Amounts:
    spec = service.get("spec") or {}
    kind, ports = spec.get("type", "ClusterIP"), spec.get("ports") or ()
    used: Amounts = {}
    if kind == "LoadBalancer" and not spec.get("allocateLoadBalancerNodePorts", True):
        ports = [port for port in ports if port.get("nodePort")]  # ports with an explicit number
    if kind in ("NodePort", "LoadBalancer"):
        used["services.nodeports"] = Amount(len(ports) * ONE.nano)
    if kind == "LoadBalancer":
        used["services.loadbalancers"] = ONE
    return used


def _claim(claim: Json, _now: datetime) -> Amounts:
    spec = claim.get("spec") or {}
    annotations = claim["metadata"].get("annotations") or {}
    storage_class = annotations.get(CLASS_BETA) or spec.get("storageClassName") or ""
    out: Amounts = {}
    if storage_class:
        out[f"{storage_class}{CLASS_STORAGE}persistentvolumeclaims"] = ONE
    request = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if request is not None:
        out["requests.storage"] = amount(request)
        if storage_class:
            out[f"{storage_class}{CLASS_STORAGE}requests.storage"] = out["requests.storage"]
    return out


_EVALUATORS: Mapping[str, Callable[[Json, datetime], Amounts]] = {
    "pods": _pod,
    "services": _service,
    "persistentvolumeclaims": _claim,
}


def unspecified(pod: Json, hard: Mapping[str, Any]) -> str:
    """Return the resources that a quota limits and the containers of a pod do not specify, or "".

    Reads: ``must specify requests.memory for: c``.
    """
    spec = pod.get("spec") or {}
    required = _MUST_SPECIFY.intersection(hard)
    if not required or spec.get("resources"):
        return ""
    missing: dict[str, list[str]] = {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        stated = _compute(of_container(container, "requests"), of_container(container, "limits"))
        for name in required.difference(stated):
            missing.setdefault(name, []).append(container.get("name", ""))
    if not missing:
        return ""
    return "must specify " + "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))


# -- scopes


def _best_effort(pod: Json) -> bool:
    spec = pod.get("spec") or {}
    total = added(of_pod(spec, "requests"), of_pod(spec, "limits"))
    return not any(value.nano for name, value in total.items() if name in ("cpu", "memory"))


def _terminating(pod: Json) -> bool:
    return (pod.get("spec") or {}).get("activeDeadlineSeconds") is not None


def _cross_namespace(pod: Json) -> bool:
    affinity = (pod.get("spec") or {}).get("affinity") or {}
    for side in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(side) or {}
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        preferred = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [entry.get("podAffinityTerm") or {} for entry in preferred]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


_SCOPES: Mapping[str, Callable[[Json], bool]] = {
    "Terminating": _terminating,
    "NotTerminating": lambda pod: not _terminating(pod),
    "BestEffort": _best_effort,
    "NotBestEffort": lambda pod: not _best_effort(pod),
    "CrossNamespacePodAffinity": _cross_namespace,
}


def _by_value(present: str, operator: str, values: list[str]) -> bool:
    match operator:
        case "In":
            return present in values
        case "NotIn":
            return present not in values
        case "DoesNotExist":
            return not present
    return bool(present)


def in_scope(quota: Json, resource: str, obj: Json, classes: Collection[str] = ()) -> bool:
    """Return whether an object is in the scopes of a quota (its manifest); a quota without scopes covers all objects.

    `classes` are the priority classes that the groups of a pod name; they count like the class of the pod.
    """
    return all(_matches(term, resource, obj, classes) for term in _terms(quota))


def has_class_scope(quota: Json) -> bool:
    """Return whether a quota selects pods by priority class."""
    return any(term.get("scopeName") == "PriorityClass" for term in _terms(quota))


def _terms(quota: Json) -> list[Json]:
    spec = quota.get("spec") or {}
    terms: list[Json] = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    return terms + list((spec.get("scopeSelector") or {}).get("matchExpressions") or ())


def classes_of_groups(pod: Json, find: Callable[[str, str], Json | None]) -> frozenset[str]:
    """Return the priority classes that the group of a pod and its ancestors name, as victims or otherwise.

    `find` returns the group of a kind and name in the pod's namespace, or None.
    """
    name = ((pod.get("spec") or {}).get("schedulingGroup") or {}).get("podGroupName")
    named: set[str] = set()
    kind = "PodGroup"
    for _ in range(_LONGEST_CHAIN):
        group = find(kind, name) if name else None
        if group is None:
            break
        named.update(classes_of_group(group))
        kind, name = "CompositePodGroup", (group.get("spec") or {}).get("parentCompositePodGroupName")
    return frozenset(named)


def classes_of_group(group: Json) -> frozenset[str]:
    """Return the priority classes that one group names."""
    annotations = (group.get("metadata") or {}).get("annotations") or {}
    named = ((group.get("spec") or {}).get("priorityClassName"), annotations.get(PREEMPTION_PRIORITY_CLASS))
    return frozenset(name for name in named if name)


def _matches(term: Json, resource: str, obj: Json, classes: Collection[str]) -> bool:
    scope, operator, values = term.get("scopeName"), term.get("operator", "Exists"), term.get("values") or []
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if resource == "persistentvolumeclaims":
        if scope != "VolumeAttributesClass":
            return False
        named = (
            spec.get("volumeAttributesClassName"),
            status.get("currentVolumeAttributesClassName"),
            (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
        )
        return any(_by_value(name or "", operator, values) for name in named)
    if resource != "pods":
        return False
    if scope == "PriorityClass":
        own = spec.get("priorityClassName") or ""
        return any(_by_value(name, operator, values) for name in (own, *classes))
    test = _SCOPES.get(str(scope))
    return test is not None and test(obj)
