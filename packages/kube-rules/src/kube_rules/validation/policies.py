"""Rules of disruption budgets, resource quotas and limit ranges (transcripts 379 to 384 and 537 to 550)."""

from __future__ import annotations

from itertools import combinations

from kube_rules import field_errors as fe
from kube_rules.json import Json
from kube_rules.selectors import parse_integer
from kube_rules.validation import names, resources, selectors
from kube_rules.validation import rows as r

_EVICTION = ("AlwaysAllow", "IfHealthyBudget")
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
_STATES = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort")
_SCOPES = (*_STATES, "PriorityClass", "CrossNamespacePodAffinity", "VolumeAttributesClass")
_AMOUNTS = ("cpu", "memory", "ephemeral-storage")
_POD_QUOTA = frozenset(("pods", *(f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in _AMOUNTS)))
_OBJECT_QUOTA = {
    "services", "services.loadbalancers", "services.nodeports", "replicationcontrollers", "secrets",
    "configmaps", "resourcequotas", "persistentvolumeclaims", "requests.storage",
}  # fmt: skip
_BY_SCOPE = {
    "BestEffort": frozenset({"pods"}),
    "NotBestEffort": _POD_QUOTA,
    "Terminating": _POD_QUOTA,
    "NotTerminating": _POD_QUOTA,
    "PriorityClass": _POD_QUOTA,
    "CrossNamespacePodAffinity": frozenset({"pods"}),
}
_LIMIT_TYPES = ("Container", "PersistentVolumeClaim", "Pod")


def int_or_percent(*fields: str) -> r.Check:
    """Return the check of a non-negative count or a percentage of at most 100%."""

    def check(holder: Json, path: str) -> r.Found:
        for name in fields:
            value = holder.get(name, 0)
            if isinstance(value, str):
                yield from fe.malformed(r.at(path, name), value, _share)
            elif value < 0:
                yield fe.invalid(r.at(path, name), value, r.NOT_NEGATIVE)

    return check


def _share(text: str) -> tuple[str, ...]:
    result = names.percent(text)
    if result:
        return result
    share = parse_integer(text[:-1])
    return ("must not be greater than 100%",) if share is None or share > 100 else ()


def _one_bound(spec: Json, path: str) -> r.Found:
    """Check that a budget sets a minimum or a maximum, but not both."""
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        fields = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
        shown = {name[0].upper() + name[1:]: spec.get(name) for name in fields}
        yield fe.invalid(path, shown, "minAvailable and maxUnavailable cannot be both set")


disruption_budget = r.below(
    "spec",
    _one_bound,
    int_or_percent("minAvailable", "maxUnavailable"),
    r.given("selector", selectors.label_selector),
    r.enum("unhealthyPodEvictionPolicy", _EVICTION, missing=None),
)
budget_status = r.below("status", r.at_least(0, *_COUNTS))
"""Check that counts are not negative."""


def quota(obj: Json, _: str) -> r.Found:
    """Check the amounts and scopes of a quota."""
    spec = obj.get("spec", {})
    for name, text in spec.get("hard", {}).items():
        path = f"spec.hard[{name}]"
        yield from fe.malformed(path, name, names.qualified)
        if "/" not in name and name not in _POD_QUOTA | _OBJECT_QUOTA and not _huge(name):
            yield fe.invalid(path, name, "must be a standard resource for quotas")
        yield from resources.well_formed(text, path)
        if resources.nano(text) < 0:
            yield fe.invalid(path, text, r.NOT_NEGATIVE)
        if resources.nano(text) % 10**9 and (name.startswith("count/") or name == "pods" or name in _OBJECT_QUOTA):
            yield fe.invalid(path, text, "must be an integer")
    scopes = spec.get("scopes", ())
    unsupported = [scope for scope in scopes if scope not in _SCOPES]
    yield from [fe.invalid("spec.scopes", scopes, "unsupported scope")] * len(unsupported) if unsupported else ()
    for item in ("BestEffort", "Terminating"):
        if {item, f"Not{item}"} <= set(scopes):
            yield fe.invalid("spec.scopes", scopes, "conflicting scopes")
    expressions = spec.get("scopeSelector", {}).get("matchExpressions", ())
    for index, expression in enumerate(expressions):
        yield from _scope(expression, f"spec.scopeSelector.matchExpressions[{index}]")
    named = {*scopes, *(expression.get("scopeName") for expression in expressions)}
    for scope in sorted(name for name in named if name in _BY_SCOPE):
        if any(name not in _BY_SCOPE[scope] and not _counted(name) for name in spec.get("hard", ())):
            detail = f"unsupported scope applied to resource: {scope}"
            yield fe.invalid("spec.scopes", scopes, detail)


def _huge(name: str) -> bool:
    return name.removeprefix("requests.").startswith("hugepages-")


def _counted(name: str) -> bool:
    return name == "count/pods" or _huge(name) or (name.startswith("requests.") and "/" in name)


_OPERANDS = selectors.operands(forbidden=False, about=" for scope selector")


def _scope(expression: Json, place: str) -> r.Found:
    name, operator = expression.get("scopeName", ""), expression.get("operator", "")
    if not name:
        yield fe.required(f"{place}.scopeName")
    elif name not in _SCOPES:
        yield fe.invalid(f"{place}.scopeName", name, "unsupported scope")
    yield from _OPERANDS(expression, place)
    if name in _STATES and operator not in ("Exists", ""):
        detail = "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, "
        detail += "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
        detail += "ResourceQuotaScopeCrossNamespacePodAffinity"
        yield fe.invalid(f"{place}.operator", operator, detail)


def same_scopes(new: Json, old: Json) -> r.Found:
    """Check that the scopes do not change."""
    after, before = new.get("spec", {}), old.get("spec", {})
    if sorted(after.get("scopes", ())) != sorted(before.get("scopes", ())):
        yield fe.invalid("spec.scopes", after.get("scopes"), r.IMMUTABLE)


def quota_status(obj: Json, _: str) -> r.Found:
    """Check the amounts in the status."""
    for part in ("hard", "used"):
        for name, text in obj.get("status", {}).get(part, {}).items():
            if resources.nano(text) < 0:
                yield fe.invalid(f"status.{part}[{name}]", text, r.NOT_NEGATIVE)


def _limit_type(item: Json, path: str) -> r.Found:
    kind = item.get("type", "")
    if not kind:
        yield fe.required(f"{path}.type")
    elif kind not in _LIMIT_TYPES and "/" not in kind:
        yield fe.invalid(f"{path}.type", kind, "must be a standard limit type or fully qualified")


def _no_defaults(item: Json, path: str) -> r.Found:
    if item.get("type") == "Pod":
        for part in ("default", "defaultRequest"):
            if item.get(part):
                yield fe.forbidden(f"{path}.{part}", "may not be specified when `type` is 'Pod'")


_ORDERED_BOUNDS = tuple(combinations(("min", "defaultRequest", "default", "max"), 2))
_BOUND_PARTS = ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio")
_BOUND_WORDS = {"min": "min", "max": "max", "default": "default", "defaultRequest": "default request"}


def _bounds(item: Json, place: str) -> r.Found:
    for part in _BOUND_PARTS:
        for name, text in item.get(part, {}).items():
            yield from resources.well_formed(text, f"{place}.{part}[{name}]")
    for low, high in _ORDERED_BOUNDS:
        for name, text in item.get(low, {}).items():
            above = item.get(high, {}).get(name)
            if above is not None and resources.nano(text) > resources.nano(above):
                detail = f"{_BOUND_WORDS[low]} value {text} is greater than {_BOUND_WORDS[high]} value {above}"
                yield fe.invalid(f"{place}.{low}[{name}]", text, detail)


limit_range = r.below("spec", r.listed("limits", _limit_type, r.Unique("type"), _no_defaults, _bounds))
"""Check that min <= defaultRequest <= default <= max, and that types are unique."""
