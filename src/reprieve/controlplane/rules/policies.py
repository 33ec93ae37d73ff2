"""Rules of disruption budgets, resource quotas and limit ranges (transcripts 379 to 384 and 537 to 550)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reprieve.api.json import Json
from reprieve.controlplane.rules import names, resources, selectors
from reprieve.controlplane.schema import field_errors as fe
from reprieve.controlplane.schema.field_errors import FieldError

_EVICTION = ("AlwaysAllow", "IfHealthyBudget")
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
_SCOPES = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
)
_POD_QUOTA = frozenset(
    [
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
    ]
)
_OBJECT_QUOTA = frozenset(
    [
        "services",
        "services.loadbalancers",
        "services.nodeports",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "resourcequotas",
        "persistentvolumeclaims",
        "requests.storage",
    ]
)
_BY_SCOPE = {
    "BestEffort": frozenset({"pods"}),
    "NotBestEffort": _POD_QUOTA,
    "Terminating": _POD_QUOTA,
    "NotTerminating": _POD_QUOTA,
    "PriorityClass": _POD_QUOTA,
    "CrossNamespacePodAffinity": frozenset({"pods"}),
}
_LIMIT_TYPES = ("Container", "PersistentVolumeClaim", "Pod")


def int_or_percent(value: Any, path: str) -> Iterator[FieldError]:
    """A count that is not negative, or a share of at most 100%."""
    if isinstance(value, str):
        messages = names.percent(value)
        for message in messages:
            yield fe.invalid(path, value, message)
        if not messages and int(value[:-1]) > 100:
            yield fe.invalid(path, value, "must not be greater than 100%")
    elif value < 0:
        yield fe.invalid(path, value, "must be greater than or equal to 0")


def disruption_budget(obj: Json) -> Iterator[FieldError]:
    """A budget names what must stay or what may go, not both."""
    spec = obj.get("spec", {})
    low, high = spec.get("minAvailable"), spec.get("maxUnavailable")
    if low is not None and high is not None:
        shown = {
            "MinAvailable": low,
            "Selector": spec.get("selector"),
            "MaxUnavailable": high,
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        yield fe.invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set")
    for name in ("minAvailable", "maxUnavailable"):
        if name in spec:
            yield from int_or_percent(spec[name], f"spec.{name}")
    if "selector" in spec:
        yield from selectors.label_selector(spec["selector"], "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _EVICTION:
        yield fe.not_supported("spec.unhealthyPodEvictionPolicy", policy, _EVICTION)


def disruption_budget_update(new: Json, _: Json) -> Iterator[FieldError]:
    """Every part may change."""
    yield from disruption_budget(new)


def disruption_budget_status(new: Json, _: Json) -> Iterator[FieldError]:
    """Counts are not negative."""
    yield from resources.at_least_zero(new.get("status", {}), _COUNTS, "status")


def quota(obj: Json) -> Iterator[FieldError]:
    """Amounts and scopes of a quota."""
    spec = obj.get("spec", {})
    for name, text in spec.get("hard", {}).items():
        path = f"spec.hard[{name}]"
        yield from fe.malformed(path, name, names.qualified)
        if "/" not in name and name not in _POD_QUOTA | _OBJECT_QUOTA and not _huge(name):
            yield fe.invalid(path, name, "must be a standard resource for quotas")
        if resources.nano(text) < 0:
            yield fe.invalid(path, text, "must be greater than or equal to 0")
        if resources.nano(text) % 10**9 and (name.startswith("count/") or name == "pods" or name in _OBJECT_QUOTA):
            yield fe.invalid(path, text, "must be an integer")
    scopes = spec.get("scopes", ())
    for scope in scopes:
        if scope not in _SCOPES:
            yield fe.invalid("spec.scopes", scopes, "unsupported scope")
    yield from _contradictions(set(scopes), "spec.scopes", scopes)
    for index, expression in enumerate(spec.get("scopeSelector", {}).get("matchExpressions", ())):
        yield from _scope(expression, f"spec.scopeSelector.matchExpressions[{index}]")
    named = {*scopes, *(e.get("scopeName") for e in spec.get("scopeSelector", {}).get("matchExpressions", ()))}
    for scope in sorted(name for name in named if name in _BY_SCOPE):
        if any(name not in _BY_SCOPE[scope] and not _counted(name) for name in spec.get("hard", ())):
            said = f"unsupported scope applied to resource: {scope}"
            yield fe.invalid("spec.scopes", scopes, said)


def _huge(name: str) -> bool:
    return name.removeprefix("requests.").startswith("hugepages-")


def _counted(name: str) -> bool:
    return name == "count/pods" or _huge(name) or (name.startswith("requests.") and "/" in name)


def _contradictions(scopes: set[str], path: str, given: Any) -> Iterator[FieldError]:
    for one in ("BestEffort", "Terminating"):
        if {one, f"Not{one}"} <= scopes:
            yield fe.invalid(path, given, "conflicting scopes")


def _scope(expression: Json, place: str) -> Iterator[FieldError]:
    name, operator = expression.get("scopeName", ""), expression.get("operator", "")
    values = expression.get("values", ())
    if not name:
        yield fe.required(f"{place}.scopeName")
    elif name not in _SCOPES:
        yield fe.invalid(f"{place}.scopeName", name, "unsupported scope")
    if operator in ("In", "NotIn"):
        if not values:
            said = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            yield fe.required(f"{place}.values", said)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            said = "must be no value when `operator` is 'Exists' or 'DoesNotExist' for scope selector"
            yield fe.invalid(f"{place}.values", values, said)
    else:
        yield fe.invalid(f"{place}.operator", operator, "not a valid selector operator")
    if name in ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating") and operator not in ("Exists", ""):
        said = "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, "
        said += "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
        said += "ResourceQuotaScopeCrossNamespacePodAffinity"
        yield fe.invalid(f"{place}.operator", operator, said)


def quota_update(new: Json, old: Json) -> Iterator[FieldError]:
    """Scopes stay."""
    yield from quota(new)
    after, before = new.get("spec", {}), old.get("spec", {})
    if sorted(after.get("scopes", ())) != sorted(before.get("scopes", ())):
        yield fe.invalid("spec.scopes", after.get("scopes"), "field is immutable")


def quota_status(new: Json, _: Json) -> Iterator[FieldError]:
    """Amounts in the status are amounts."""
    status = new.get("status", {})
    for part in ("hard", "used"):
        for name, text in status.get(part, {}).items():
            if resources.nano(text) < 0:
                yield fe.invalid(f"status.{part}[{name}]", text, "must be greater than or equal to 0")


def limit_range(obj: Json) -> Iterator[FieldError]:
    """min <= defaultRequest <= default <= max, each type of thing once."""
    seen: set[str] = set()
    for index, item in enumerate(obj.get("spec", {}).get("limits", ())):
        place, kind = f"spec.limits[{index}]", item.get("type", "")
        if not kind:
            yield fe.required(f"{place}.type")
        elif kind not in _LIMIT_TYPES and "/" not in kind:
            said = "must be a standard limit type or fully qualified"
            yield fe.invalid(f"{place}.type", kind, said)
        if kind in seen:
            yield fe.duplicate(f"{place}.type", kind)
        seen.add(kind)
        if kind == "Pod":
            for part in ("default", "defaultRequest"):
                if item.get(part):
                    yield fe.forbidden(f"{place}.{part}", "may not be specified when `type` is 'Pod'")
        yield from _bounds(item, place)


_ORDERED_BOUNDS = (
    ("min", "max"),
    ("min", "defaultRequest"),
    ("min", "default"),
    ("defaultRequest", "max"),
    ("defaultRequest", "default"),
    ("default", "max"),
)
_BOUND_WORDS = {"min": "min", "max": "max", "default": "default", "defaultRequest": "default request"}


def _bounds(item: Json, place: str) -> Iterator[FieldError]:
    for low, high in _ORDERED_BOUNDS:
        for name, text in item.get(low, {}).items():
            above = item.get(high, {}).get(name)
            if above is not None and resources.nano(text) > resources.nano(above):
                said = f"{_BOUND_WORDS[low]} value {text} is greater than {_BOUND_WORDS[high]} value {above}"
                yield fe.invalid(f"{place}.{low}[{name}]", text, said)
