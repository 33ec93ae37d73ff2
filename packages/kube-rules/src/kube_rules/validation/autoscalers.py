"""Rules of HorizontalPodAutoscalers (kube-apiserver 1.37, pkg/apis/autoscaling/validation), in their v2 form."""

from __future__ import annotations

from typing import Final

from kube_rules import field_errors as fe
from kube_rules.autoscalers import V1, to_v2
from kube_rules.json import Json
from kube_rules.quantity import QuantityError, parse
from kube_rules.validation import names
from kube_rules.validation import rows as r

_SOURCES: Final = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_OF_RESOURCES: Final = ("resource", "containerResource")
_LONGEST_WINDOW, _LONGEST_PERIOD = 3600, 1800


def _reference(reference: Json, path: str) -> r.Found:
    for name in ("kind", "name"):
        yield from fe.wanted(f"{path}.{name}", reference.get(name, ""), names.path_segment)


def _is_positive(text: object) -> bool:
    try:
        return parse(text).nano > 0  # type: ignore[arg-type]
    except QuantityError:
        return False


def _target(target: Json, path: str) -> r.Found:
    if not target.get("type"):
        yield fe.required(f"{path}.type", "must specify a metric target type")
    if target.get("type") not in ("Utilization", "Value", "AverageValue"):
        yield fe.invalid(f"{path}.type", target.get("type", ""), "must be either Utilization, Value, or AverageValue")
    for name in ("value", "averageValue"):
        if name in target and not _is_positive(target[name]):
            yield fe.invalid(f"{path}.{name}", target[name], "must be positive")
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        yield fe.invalid(f"{path}.averageUtilization", utilization, "must be greater than 0")


_NO_TARGET: Final = {
    "object": "must set either a target value or averageValue",
    "external": "must set either a target value for metric or a per-pod target",
}


def _source(source: str, fields: Json, path: str) -> r.Found:
    target = fields.get("target") or {}
    if source in _OF_RESOURCES:
        if not fields.get("name"):
            yield fe.required(f"{path}.name", "must specify a resource name")
        if source == "containerResource":
            container = fields.get("container", "")
            if not container:
                yield fe.required(f"{path}.container", "must specify a container")
            else:
                yield from fe.malformed(f"{path}.container", container, names.dns_label)
        yield from _target(target, f"{path}.target")
        if "averageUtilization" not in target and "averageValue" not in target:
            text = "must set either a target raw value or a target utilization"
            yield fe.required(f"{path}.target.averageUtilization", text)
        elif "averageUtilization" in target and "averageValue" in target:
            text = "may not set both a target raw value and a target utilization"
            yield fe.forbidden(f"{path}.target.averageValue", text)
        return
    if source == "object":
        yield from _reference(fields.get("describedObject") or {}, f"{path}.describedObject")
    metric = fields.get("metric") or {}
    if not metric.get("name"):
        yield fe.required(f"{path}.metric.name", "must specify a metric name")
    else:
        yield from fe.malformed(f"{path}.metric.name", metric["name"], names.path_segment)
    yield from _target(target, f"{path}.target")
    place = f"{path}.target.averageValue"
    if source == "pods":
        if "averageValue" not in target:
            yield fe.required(place, "must specify a positive target averageValue")
    elif "value" not in target and "averageValue" not in target:
        yield fe.required(place, _NO_TARGET[source])
    elif source == "external" and "value" in target and "averageValue" in target:
        text = "may not set both a target value for metric and a per-pod target"
        yield fe.forbidden(f"{path}.target.value", text)


def _metric(metric: Json, path: str) -> r.Found:
    kind = metric.get("type", "")
    if not kind:
        yield fe.required(f"{path}.type", "must specify a metric source type")
    if kind not in _SOURCES:
        yield fe.not_supported(f"{path}.type", kind, tuple(_SOURCES))
    for source in _SOURCES.values():
        if source in metric and source != _SOURCES.get(kind):
            yield fe.forbidden(f"{path}.{source}", "must populate the given metric source only")
    source = _SOURCES.get(kind, "")
    if source and source not in metric:
        yield fe.required(f"{path}.{source}", "must populate information for the given metric source")
    elif source:
        yield from _source(source, metric[source], f"{path}.{source}")


def _policy(policy: Json, path: str) -> r.Found:
    if policy.get("type") not in ("Pods", "Percent"):
        yield fe.not_supported(f"{path}.type", policy.get("type", ""), ("Percent", "Pods"))
    for name in ("value", "periodSeconds"):
        if policy.get(name, 0) <= 0:
            yield fe.invalid(f"{path}.{name}", policy.get(name, 0), r.POSITIVE)
    if policy.get("periodSeconds", 0) > _LONGEST_PERIOD:
        text = f"must be less than or equal to {_LONGEST_PERIOD}"
        yield fe.invalid(f"{path}.periodSeconds", policy["periodSeconds"], text)


def _rules(rules: Json, path: str) -> r.Found:
    window = rules.get("stabilizationWindowSeconds")
    if window is not None and not 0 <= window <= _LONGEST_WINDOW:
        text = f"must be less than or equal to {_LONGEST_WINDOW}"
        if window < 0:
            text = "must be greater than or equal to zero"
        yield fe.invalid(f"{path}.stabilizationWindowSeconds", window, text)
    if "selectPolicy" in rules:
        yield from fe.one_of(f"{path}.selectPolicy", rules["selectPolicy"], ("Disabled", "Max", "Min"))
    if not rules.get("policies"):
        yield fe.required(f"{path}.policies", "must specify at least one Policy")
    yield from r.listed("policies", _policy)(rules, path)
    tolerance = rules.get("tolerance")
    if tolerance is not None and parse(tolerance).nano < 0:
        yield fe.invalid(f"{path}.tolerance", tolerance, r.NOT_NEGATIVE)


def _bounds(spec: Json, path: str) -> r.Found:
    least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    if least is not None and least < 1:
        yield fe.invalid(f"{path}.minReplicas", least, "must be greater than or equal to 1")
    if most < 1:
        yield fe.invalid(f"{path}.maxReplicas", most, "must be greater than 0")
    if least is not None and most < least:
        yield fe.invalid(f"{path}.maxReplicas", most, "must be greater than or equal to `minReplicas`")


_check: r.Check = r.below(
    "spec",
    _bounds,
    r.below("scaleTargetRef", _reference),
    r.listed("metrics", _metric),
    r.given("behavior", r.given("scaleUp", _rules), r.given("scaleDown", _rules)),
)


def autoscaler(obj: Json, path: str) -> r.Found:
    """Return the errors of an autoscaler: its target, bounds, metrics and behavior."""
    return _check(to_v2(obj) if obj.get("apiVersion") == V1 else obj, path)


def status(new: Json, old: Json) -> r.Found:
    """Return the errors of a status: numbers below zero."""
    return r.at_least(0, "currentReplicas", "desiredReplicas")(new.get("status") or {}, "status")
