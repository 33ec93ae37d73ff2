"""HorizontalPodAutoscaler: autoscaling/v1 and v2 are two forms of one object, stored as v2.

v1 has a number for the CPU target; other metrics, the behavior and most of the status are JSON in annotations. Both
conversions are lossless (kube-apiserver, pkg/apis/autoscaling/v1/conversion.go).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from kube_rules.json import Json
from kube_rules.schema import nodes
from kube_rules.schema.decoding import IrregularError, quick_walk

GROUP: Final = "autoscaling"
V1: Final = f"{GROUP}/v1"
CPU_TARGET: Final = 80
_PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
_METRICS, _CURRENT, _CONDITIONS, _BEHAVIOR = (
    f"{_PREFIX}{name}" for name in ("metrics", "current-metrics", "conditions", "behavior")
)
_FIELDS: Final[Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]]] = {
    "resource": (("name", ("name",)),),
    "containerResource": (("name", ("name",)), ("container", ("container",))),
    "pods": (("metricName", ("metric", "name")), ("selector", ("metric", "selector"))),
    "external": (("metricName", ("metric", "name")), ("metricSelector", ("metric", "selector"))),
    "object": (
        ("target", ("describedObject",)),
        ("metricName", ("metric", "name")),
        ("selector", ("metric", "selector")),
    ),
}
"""The fields of each metric source in v1 and their paths in v2, without targets and values."""
_VALUES: Final[Mapping[str, tuple[str, str, str]]] = {
    "resource": ("", "AverageValue", "AverageUtilization"),
    "containerResource": ("", "AverageValue", "AverageUtilization"),
    "pods": ("", "AverageValue", ""),
    "external": ("Value", "AverageValue", ""),
    "object": ("Value", "AverageValue", ""),
}
"""The suffixes in v1, after `target` or `current`, for value, average value and utilization of each source."""
_V2_VALUES: Final = ("value", "averageValue", "averageUtilization")
_TYPES: Final = ("Value", "AverageValue", "Utilization")


def default_metrics() -> list[Json]:
    """Return the metrics of an autoscaler without metrics."""
    target = {"type": "Utilization", "averageUtilization": CPU_TARGET}
    return [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


def up_rules(explicit: Json | None) -> Json:
    """Return the rules for scaling up with their defaults."""
    policies = [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ]
    return {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": policies, **(explicit or {})}


def down_rules(explicit: Json | None) -> Json:
    """Return the rules for scaling down with their defaults."""
    policies = [{"type": "Percent", "value": 100, "periodSeconds": 15}]
    return {"selectPolicy": "Max", "policies": policies, **(explicit or {})}


def with_status_of(obj: Json, stored: Json) -> Json:
    """Return an autoscaler (v2) that was sent in v1, with the status fields of the stored one that v1 does not show."""
    stored_status = stored.get("status") or {}
    status = dict(obj.get("status") or {})
    if not status.get("currentMetrics"):
        status["currentMetrics"] = stored_status.get("currentMetrics")
    if "conditions" not in status and "conditions" in stored_status:
        status["conditions"] = stored_status["conditions"]
    return {**obj, "status": status}


def _name(source: str, word: str, index: int) -> str:
    suffix = _VALUES[source][index]
    if source == "object" and suffix == "AverageValue":
        return "averageValue"  # without the word, in both directions
    return f"{word}{suffix}" if suffix else ""


def _put(obj: Json, steps: tuple[str, ...], value: Any) -> None:
    for step in steps[:-1]:
        obj = obj.setdefault(step, {})
    obj[steps[-1]] = value


def _read(obj: Any, steps: tuple[str, ...]) -> Any:
    for step in steps:
        obj = obj.get(step) if isinstance(obj, dict) else None
    return obj


def _metric_to_v1(metric: Json, word: str) -> Json:
    """Return a metric (`word` target) or its state (`word` current) in v1."""

    def converted(source: str, fields: Json) -> Json:
        named = ((name, _read(fields, steps)) for name, steps in _places(source, word))
        return {name: value for name, value in named if value is not None}

    return _by_source(metric, converted)


def _metric_to_v2(metric: Json, word: str) -> Json:
    def converted(source: str, fields: Json) -> Json:
        converted_fields: Json = {}
        for name, steps in _places(source, word):
            if name in fields:
                _put(converted_fields, steps, fields[name])
                if word == "target" == steps[0]:
                    converted_fields[word]["type"] = _TYPES[_V2_VALUES.index(steps[1])]
        converted_fields.setdefault(word, {})
        return converted_fields

    return _by_source(metric, converted)


def _places(source: str, word: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the name of each field of a metric source in v1, and its path in v2."""
    yield from _FIELDS[source]
    for index, value in enumerate(_V2_VALUES):
        if name := _name(source, word, index):
            yield name, (word, value)


def _by_source(metric: Json, converted: Callable[[str, Json], Json]) -> Json:
    sources = {source: converted(source, value) for source in _FIELDS if isinstance(value := metric.get(source), dict)}
    return {"type": metric.get("type", ""), **sources}


def _is_cpu(metric: Json, word: str) -> bool:
    resource = metric.get("resource") or {}
    return resource.get("name") == "cpu" and (resource.get(word) or {}).get("averageUtilization") is not None


def to_v1(obj: Json) -> Json:
    """Return an autoscaler in v1."""
    spec, status = dict(obj.get("spec") or {}), obj.get("status")
    annotations: Json = {}
    metrics = list(spec.pop("metrics", None) or ())
    cpu = next((metric for metric in metrics if _is_cpu(metric, "target")), None)
    if cpu is not None:
        spec["targetCPUUtilizationPercentage"] = cpu["resource"]["target"]["averageUtilization"]
        metrics.remove(cpu)
    if metrics:
        annotations[_METRICS] = _text([_metric_to_v1(metric, "target") for metric in metrics])
    if (behavior := spec.pop("behavior", None)) is not None:
        annotations[_BEHAVIOR] = _text(behavior)
    result = {**obj, "apiVersion": V1, "spec": spec}
    if status is not None:
        status = dict(status)
        current, conditions = status.pop("currentMetrics", None), status.pop("conditions", None)
        if cpu := next((metric for metric in current or () if _is_cpu(metric, "current")), None):
            status["currentCPUUtilizationPercentage"] = cpu["resource"]["current"]["averageUtilization"]
        if current:
            annotations[_CURRENT] = _text([_metric_to_v1(metric, "current") for metric in current])
        if conditions:
            annotations[_CONDITIONS] = _text(conditions)
        result["status"] = {"currentReplicas": 0, "desiredReplicas": 0, **status}
    return _annotated(result, annotations)


def to_v2(obj: Json) -> Json:
    """Return an autoscaler that was sent in v1 in v2; annotations count if they are JSON of the right types."""
    spec, status = dict(obj.get("spec") or {}), obj.get("status")
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    percentage = spec.pop("targetCPUUtilizationPercentage", None)
    metrics = _fitting("MetricSpec", [_metric_to_v2(item, "target") for item in _list(annotations, _METRICS)])
    if percentage is not None:
        metrics.append(default_metrics()[0])
        metrics[-1]["resource"]["target"]["averageUtilization"] = percentage
    spec["metrics"] = metrics or default_metrics()
    for behavior in _fitting("HorizontalPodAutoscalerBehavior", [_parsed(annotations, _BEHAVIOR)]):
        spec["behavior"] = behavior
    result = {**obj, "apiVersion": f"{GROUP}/v2", "spec": spec}
    if status is not None:
        status = dict(status)
        status.pop("currentCPUUtilizationPercentage", None)
        current = _fitting("MetricStatus", [_metric_to_v2(item, "current") for item in _list(annotations, _CURRENT)])
        status["currentMetrics"] = current or None
        if conditions := _fitting("HorizontalPodAutoscalerCondition", _list(annotations, _CONDITIONS)):
            status["conditions"] = conditions
        result["status"] = status
    return _annotated(result, {})


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _parsed(annotations: Json, name: str) -> Any:
    try:
        return json.loads(annotations.get(name) or "null")
    except (ValueError, RecursionError):
        return None


def _fitting(kind: str, values: list[Any]) -> list[Json]:
    """Return the values that are valid objects of a v2 type."""
    walk = quick_walk(nodes.named(f"io.k8s.api.{GROUP}.v2.{kind}"))
    result = []
    for value in values:
        if isinstance(value, dict):
            with suppress(IrregularError):
                result.append(walk(value))
    return result


def _list(annotations: Json, name: str) -> list[Json]:
    items = _parsed(annotations, name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _annotated(obj: Json, annotations: Json) -> Json:
    """Return the object with these conversion annotations and no others."""
    metadata = dict(obj.get("metadata") or {})
    names = (_METRICS, _CURRENT, _CONDITIONS, _BEHAVIOR)
    own = {name: text for name, text in (metadata.pop("annotations", None) or {}).items() if name not in names}
    if own or annotations:
        metadata["annotations"] = {**own, **annotations}
    return {**obj, "metadata": metadata}
