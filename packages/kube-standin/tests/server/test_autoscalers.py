"""HorizontalPodAutoscalers over HTTP: two versions of one object, defaults and refusals (interfaces.md 7.11)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kube_rules import autoscalers
from tests.server.inprocess import Plane, running

Json = dict[str, Any]
V1, V2 = (f"/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers" for version in ("v1", "v2"))
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
MERGE = "application/merge-patch+json"


@pytest.fixture
def plane() -> Iterator[Plane]:
    with running() as made:
        yield made


def body(name: str = "h", **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 5, **spec}}


def cpu(percent: int) -> Json:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


MANY = [
    cpu(60),
    {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
    {"type": "Pods", "pods": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "7"}}},
    {"type": "External", "external": {"metric": {"name": "q", "selector": {"matchLabels": {"a": "b"}}},
                                      "target": {"type": "Value", "value": "3"}}},
    {"type": "Object", "object": {"describedObject": {"kind": "Service", "name": "s", "apiVersion": "v1"},
                                  "metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "2"}}},
    {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "target": {
        "type": "Utilization", "averageUtilization": 30}}},
]  # fmt: skip


def test_defaults(plane: Plane) -> None:
    made = plane.create(V2, body(behavior={"scaleDown": {"selectPolicy": "Min"}}))
    assert (made["spec"]["minReplicas"], made["spec"]["metrics"]) == (1, [cpu(80)])
    assert made["status"] == {"currentMetrics": None, "desiredReplicas": 0}
    behavior = made["spec"]["behavior"]
    assert behavior["scaleUp"]["stabilizationWindowSeconds"] == 0
    assert [one["value"] for one in behavior["scaleUp"]["policies"]] == [4, 100]
    assert behavior["scaleDown"]["selectPolicy"] == "Min"
    assert [one["value"] for one in behavior["scaleDown"]["policies"]] == [100]
    older = plane.ask(f"GET {V1}/h").json
    assert older["apiVersion"] == "autoscaling/v1"
    assert older["spec"] == {**body()["spec"], "minReplicas": 1, "targetCPUUtilizationPercentage": 80}
    assert older["status"] == {"currentReplicas": 0, "desiredReplicas": 0}
    assert json.loads(older["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/behavior"]) == behavior


def test_versions_lose_nothing(plane: Plane) -> None:
    """What v1 has no field for is in annotations, both ways; a PUT in v1 keeps what it shows of the status."""
    behavior = {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}}
    made = plane.create(V2, body(metrics=MANY, behavior=behavior))
    current = [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 42}}}]
    condition = {"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"currentMetrics": current, "conditions": [condition], "currentReplicas": 1}
    patched = plane.ask(f"PATCH {V2}/h/status", {"status": status}, content_type=MERGE)
    assert patched.status == 200, patched.body
    older = plane.ask(f"GET {V1}/h").json
    assert older["spec"]["targetCPUUtilizationPercentage"] == 60
    assert older["status"]["currentCPUUtilizationPercentage"] == 42
    older["spec"]["maxReplicas"] = 9
    assert plane.ask(f"PUT {V1}/h", older).status == 200
    newer = plane.ask(f"GET {V2}/h").json
    assert newer["spec"]["maxReplicas"] == 9
    assert newer["spec"]["behavior"] == made["spec"]["behavior"]
    order = sorted(MANY, key=json.dumps)
    assert sorted(newer["spec"]["metrics"], key=json.dumps) == order
    assert (newer["status"]["currentMetrics"], newer["status"]["conditions"]) == (current, [condition])
    assert "annotations" not in newer["metadata"]
    del older["metadata"]["annotations"], older["metadata"]["resourceVersion"]
    assert plane.ask(f"PUT {V1}/h", older).status == 200
    newer = plane.ask(f"GET {V2}/h").json
    assert newer["spec"]["metrics"] == [cpu(60)], "without its annotations the rest is gone, as upstream"
    assert newer["status"]["conditions"] == [condition]


def test_v1_without_a_percentage_has_the_default(plane: Plane) -> None:
    plane.create(V1, body())
    assert plane.ask(f"GET {V2}/h").json["spec"]["metrics"] == [cpu(80)]
    odd = {"autoscaling.alpha.kubernetes.io/metrics": "{", "autoscaling.alpha.kubernetes.io/behavior": "[1]", "a": "b"}
    found = autoscalers.to_v2({"metadata": {"annotations": odd}, "spec": {}, "apiVersion": autoscalers.V1})
    assert (found["metadata"]["annotations"], found["spec"]) == ({"a": "b"}, {"metrics": [cpu(80)]})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("metrics", [{"type": "Resource", "resource": {"name": 5, "targetAverageUtilization": "x"}}]),
        ("metrics", [{"type": ["Resource"], "resource": {"name": "cpu"}}, 1, None]),
        ("metrics", [{"type": "Object", "object": {"target": 1, "metricName": {}}}]),
        ("metrics", {"type": "Resource"}),
        ("behavior", {"scaleUp": {"policies": 1}}),
        ("behavior", {"scaleUp": {"policies": [{"value": "a"}]}}),
        ("behavior", {"scaleDown": []}),
        ("conditions", [{"type": 1}]),
        ("current-metrics", [{"type": "Pods", "pods": {"metricName": []}}]),
    ],
)
def test_annotations_of_other_types_count_for_nothing(plane: Plane, name: str, value: Any) -> None:
    """A client writes them: kube-apiserver reads them into its types, and ignores what does not fit."""
    made = body()
    made["metadata"]["annotations"] = {f"autoscaling.alpha.kubernetes.io/{name}": json.dumps(value)}
    plane.create(V1, made)
    newer = plane.ask(f"GET {V2}/h").json
    assert newer["spec"] == {**body()["spec"], "minReplicas": 1, "metrics": [cpu(80)]}
    assert newer["status"] == {"currentMetrics": None, "desiredReplicas": 0}


@pytest.mark.parametrize(
    ("path", "spec", "field"),
    [
        (V2, {"maxReplicas": 0}, "spec.maxReplicas"),
        (V1, {"minReplicas": 7}, "spec.maxReplicas"),
        (V2, {"minReplicas": 0}, "spec.minReplicas"),
        (V2, {"scaleTargetRef": {"kind": "Deployment"}}, "spec.scaleTargetRef.name"),
        (V2, {"scaleTargetRef": {"kind": "a/b", "name": "d"}}, "spec.scaleTargetRef.kind"),
        (V2, {"metrics": [{"type": "Else"}]}, "spec.metrics[0].type"),
        (V2, {"metrics": [{"type": "Pods"}]}, "spec.metrics[0].pods"),
        (V2, {"metrics": [{**cpu(50), "pods": MANY[2]["pods"]}]}, "spec.metrics[0].pods"),
        (V2, {"metrics": [cpu(0)]}, "spec.metrics[0].resource.target.averageUtilization"),
        (V2, {"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Value"}}}]},
         "spec.metrics[0].resource.target.averageUtilization"),
        (V2, {"behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 0, "periodSeconds": 1}]}}},
         "spec.behavior.scaleUp.policies[0].value"),
        (V2, {"behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 1801}]}}},
         "spec.behavior.scaleUp.policies[0].periodSeconds"),
        (V2, {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 3601}}},
         "spec.behavior.scaleDown.stabilizationWindowSeconds"),
        (V2, {"behavior": {"scaleDown": {"selectPolicy": "Best"}}}, "spec.behavior.scaleDown.selectPolicy"),
    ],
)  # fmt: skip
def test_refusals(plane: Plane, path: str, spec: Json, field: str) -> None:
    answer = plane.ask(f"POST {path}", body(**spec))
    assert answer.refusal[:2] == (422, "Invalid")
    assert {one["field"] for one in answer.json["details"]["causes"]} == {field}


def test_table_shows_values_and_targets(plane: Plane) -> None:
    plane.create(V2, body(metrics=MANY))
    table = plane.ask(f"GET {V2}", accept=TABLE).json
    assert [one["name"] for one in table["columnDefinitions"]] == [
        "Name", "Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age",
    ]  # fmt: skip
    [row] = table["rows"]
    targets = "cpu: <unknown>/60%, memory: <unknown>/1Gi + 4 more..."
    assert row["cells"][:6] == ["h", "Deployment/d", targets, "1", 5, 0]


@pytest.mark.parametrize(
    ("kind", "name", "spec", "field"),
    [
        ("ipaddresses", "10.0.0.256", {"parentRef": {"resource": "services", "name": "s"}}, "metadata.name"),
        ("ipaddresses", "2001:0db8::1", {"parentRef": {"resource": "services", "name": "s"}}, "metadata.name"),
        ("ipaddresses", "10.0.0.1", {}, "spec.parentRef"),
        ("ipaddresses", "10.0.0.1", {"parentRef": {"resource": "services"}}, "spec.parentRef.name"),
        ("servicecidrs", "a", {"cidrs": []}, "spec.cidrs"),
        ("servicecidrs", "a", {"cidrs": ["10.0.0.1/8"]}, "spec.cidrs[0]"),
        ("servicecidrs", "a", {"cidrs": ["10.0.0.0/8", "11.0.0.0/8"]}, "spec.cidrs"),
    ],
)
def test_addresses_of_services_are_checked(plane: Plane, kind: str, name: str, spec: Json, field: str) -> None:
    answer = plane.ask(f"POST /apis/networking.k8s.io/v1/{kind}", {"metadata": {"name": name}, "spec": spec})
    assert answer.refusal[:2] == (422, "Invalid")
    assert {one["field"] for one in answer.json["details"]["causes"]} == {field}


def test_networks_of_services_grow_only(plane: Plane) -> None:
    path = "/apis/networking.k8s.io/v1/servicecidrs"
    plane.create(path, {"metadata": {"name": "a"}, "spec": {"cidrs": ["10.0.0.0/8"]}})
    for cidrs, code in ((["10.0.0.0/8", "2001:db8::/64"], 200), (["10.0.0.0/8"], 422)):
        assert plane.ask(f"PATCH {path}/a", {"spec": {"cidrs": cidrs}}, content_type=MERGE).status == code


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        ({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Far", "averageUtilization": 1}}},
         "must be either Utilization, Value, or AverageValue"),
        ({"type": "Resource", "resource": {
            "name": "cpu", "target": {"type": "Value", "averageUtilization": 1, "averageValue": "1"}}},
         "may not set both a target raw value and a target utilization"),
        ({"type": "ContainerResource", "containerResource": {
            "name": "cpu", "container": "", "target": {"type": "Utilization", "averageUtilization": 1}}},
         "must specify a container"),
        ({"type": "Pods", "pods": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "1"}}},
         "must specify a positive target averageValue"),
        ({"type": "Pods", "pods": {"metric": {"name": ""}, "target": {"type": "AverageValue", "averageValue": "1"}}},
         "must specify a metric name"),
        ({"type": "External", "external": {
            "metric": {"name": "q"}, "target": {"type": "Value", "value": "1", "averageValue": "1"}}},
         "may not set both a target value for metric and a per-pod target"),
        ({"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value"}}},
         "must set either a target value for metric or a per-pod target"),
    ],
)  # fmt: skip
def test_targets_of_metrics(plane: Plane, metric: Json, text: str) -> None:
    """validateMetricTarget and those around it, autoscaling validation of kube-apiserver."""
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 3, "metrics": [metric]}
    answer = plane.ask("POST /apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
                       {"metadata": {"name": "h"}, "spec": spec})  # fmt: skip
    assert text in answer.refusal[2]
