"""HorizontalPodAutoscaler: autoscaling/v1 and v2 are two forms of one object, stored as v2.

v1 has the target for cpu as a number; other metrics, the behavior and what the status reports are JSON in annotations.
Both directions lose nothing (kube-apiserver, pkg/apis/autoscaling/v1/conversion.go).
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
"""A metric source: its fields in v1 and where they are in v2, targets and values apart."""
_VALUES: Final[Mapping[str, tuple[str, str, str]]] = {
    "resource": ("", "AverageValue", "AverageUtilization"),
    "containerResource": ("", "AverageValue", "AverageUtilization"),
    "pods": ("", "AverageValue", ""),
    "external": ("Value", "AverageValue", ""),
    "object": ("Value", "AverageValue", ""),
}
"""How a source names its value, its average value and its utilization in v1, behind `target` or `current`."""
_V2_VALUES: Final = ("value", "averageValue", "averageUtilization")
_TYPES: Final = ("Value", "AverageValue", "Utilization")


def default_metrics() -> list[Json]:
    """Return the metrics of an autoscaler that names none."""
    target = {"type": "Utilization", "averageUtilization": CPU_TARGET}
    return [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


def up_rules(given: Json | None) -> Json:
    """Return the rules for scaling up with their defaults."""
    policies = [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ]
    return {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": policies, **(given or {})}


def down_rules(given: Json | None) -> Json:
    """Return the rules for scaling down with their defaults."""
    policies = [{"type": "Percent", "value": 100, "periodSeconds": 15}]
    return {"selectPolicy": "Max", "policies": policies, **(given or {})}


def with_status_of(obj: Json, stored: Json) -> Json:
    """Return an autoscaler (v2) that came in v1, with what v1 does not show of the status of the stored one."""
    kept = stored.get("status") or {}
    status = dict(obj.get("status") or {})
    if not status.get("currentMetrics"):
        status["currentMetrics"] = kept.get("currentMetrics")
    if "conditions" not in status and "conditions" in kept:
        status["conditions"] = kept["conditions"]
    return {**obj, "status": status}


def _name(source: str, word: str, which: int) -> str:
    suffix = _VALUES[source][which]
    if source == "object" and suffix == "AverageValue":
        return "averageValue"  # without the word, in both
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
    """Return a metric (`word` target) or its state (`word` current) as v1 has it."""

    def converted(source: str, given: Json) -> Json:
        named = ((name, _read(given, steps)) for name, steps in _places(source, word))
        return {name: value for name, value in named if value is not None}

    return _by_source(metric, converted)


def _metric_to_v2(metric: Json, word: str) -> Json:
    def converted(source: str, given: Json) -> Json:
        made: Json = {}
        for name, steps in _places(source, word):
            if name in given:
                _put(made, steps, given[name])
                if word == "target" == steps[0]:
                    made[word]["type"] = _TYPES[_V2_VALUES.index(steps[1])]
        made.setdefault(word, {})
        return made

    return _by_source(metric, converted)


def _places(source: str, word: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each field of a metric source in v1, and where it is in v2."""
    yield from _FIELDS[source]
    for which, value in enumerate(_V2_VALUES):
        if name := _name(source, word, which):
            yield name, (word, value)


def _by_source(metric: Json, converted: Callable[[str, Json], Json]) -> Json:
    sources = {source: converted(source, given) for source in _FIELDS if isinstance(given := metric.get(source), dict)}
    return {"type": metric.get("type", ""), **sources}


def _is_cpu(metric: Json, word: str) -> bool:
    resource = metric.get("resource") or {}
    return resource.get("name") == "cpu" and (resource.get(word) or {}).get("averageUtilization") is not None


def to_v1(obj: Json) -> Json:
    """Return an autoscaler in v1."""
    spec, status = dict(obj.get("spec") or {}), obj.get("status")
    annotations: Json = {}
    metrics = list(spec.pop("metrics", None) or ())
    cpu = next((one for one in metrics if _is_cpu(one, "target")), None)
    if cpu is not None:
        spec["targetCPUUtilizationPercentage"] = cpu["resource"]["target"]["averageUtilization"]
        metrics.remove(cpu)
    if metrics:
        annotations[_METRICS] = _text([_metric_to_v1(one, "target") for one in metrics])
    if (behavior := spec.pop("behavior", None)) is not None:
        annotations[_BEHAVIOR] = _text(behavior)
    result = {**obj, "apiVersion": V1, "spec": spec}
    if status is not None:
        status = dict(status)
        current, conditions = status.pop("currentMetrics", None), status.pop("conditions", None)
        if cpu := next((one for one in current or () if _is_cpu(one, "current")), None):
            status["currentCPUUtilizationPercentage"] = cpu["resource"]["current"]["averageUtilization"]
        if current:
            annotations[_CURRENT] = _text([_metric_to_v1(one, "current") for one in current])
        if conditions:
            annotations[_CONDITIONS] = _text(conditions)
        result["status"] = {"currentReplicas": 0, "desiredReplicas": 0, **status}
    return _annotated(result, annotations)


def to_v2(obj: Json) -> Json:
    """Return an autoscaler that came in v1 in v2; in annotations counts what is JSON of the right types."""
    spec, status = dict(obj.get("spec") or {}), obj.get("status")
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    percentage = spec.pop("targetCPUUtilizationPercentage", None)
    metrics = _fitting("MetricSpec", [_metric_to_v2(one, "target") for one in _list(annotations, _METRICS)])
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
        current = _fitting("MetricStatus", [_metric_to_v2(one, "current") for one in _list(annotations, _CURRENT)])
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
    """Return the objects of a type of v2 among some values."""
    walk = quick_walk(nodes.named(f"io.k8s.api.{GROUP}.v2.{kind}"))
    result = []
    for value in values:
        if isinstance(value, dict):
            with suppress(IrregularError):
                result.append(walk(value))
    return result


def _list(annotations: Json, name: str) -> list[Json]:
    found = _parsed(annotations, name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _annotated(obj: Json, annotations: Json) -> Json:
    """Return the object with these annotations of the conversion and no others."""
    metadata = dict(obj.get("metadata") or {})
    ours = (_METRICS, _CURRENT, _CONDITIONS, _BEHAVIOR)
    kept = {name: text for name, text in (metadata.pop("annotations", None) or {}).items() if name not in ours}
    if kept or annotations:
        metadata["annotations"] = {**kept, **annotations}
    return {**obj, "metadata": metadata}
