"""RuntimeClasses: overhead and scheduling of the class of a new pod (kube-apiserver 1.36, plugin RuntimeClass)."""

from __future__ import annotations

from typing import Any

import pytest

from kube_standin.errors import StatusError
from tests.admission.plane import Json, Plane, pod, refused

NOT_READY = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]


def runtime_class(name: str = "sandbox", **fields: Any) -> Json:
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": name},
        "handler": "runsc",
        **fields,
    }


@pytest.fixture
def plane() -> Plane:
    return Plane()


@pytest.mark.parametrize(
    ("fields", "spec", "expected"),
    [
        ({}, {}, {"overhead": None, "nodeSelector": None}),
        ({"overhead": {"podFixed": {"cpu": "250m"}}}, {}, {"overhead": {"cpu": "250m"}}),
        ({"overhead": {"podFixed": {"cpu": "1"}}}, {"overhead": {"cpu": "1000m"}}, {"overhead": {"cpu": "1"}}),
        (
            {"scheduling": {"nodeSelector": {"a": "b"}}},
            {"nodeSelector": {"c": "d", "a": "b"}},
            {"nodeSelector": {"a": "b", "c": "d"}},
        ),
        (
            {"scheduling": {"tolerations": [{"key": "a", "operator": "Exists"}]}},
            {"tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}]},
            {"tolerations": [*NOT_READY, {"key": "a", "operator": "Exists"}]},
        ),
        (
            {"scheduling": {"tolerations": [{"key": "a", "operator": "Equal", "value": "c"}]}},
            {"tolerations": [{"key": "a", "operator": "Equal", "value": "b"}]},
            {
                "tolerations": [
                    {"key": "a", "operator": "Equal", "value": "b"},
                    *NOT_READY,
                    {"key": "a", "operator": "Equal", "value": "c"},
                ]
            },
        ),
    ],
)
def test_class_of_a_new_pod(plane: Plane, fields: Json, spec: Json, expected: Json) -> None:
    plane.create(runtime_class(**fields))
    made = plane.create(pod(runtimeClassName="sandbox", **spec))["spec"]
    assert {name: made.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("fields", "spec", "why"),
    [
        ({}, {"runtimeClassName": "none"}, 'pod rejected: RuntimeClass "none" not found'),
        (
            {},
            {"runtimeClassName": "sandbox", "overhead": {"cpu": "1"}},
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        ({}, {"overhead": {}}, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"),
        (
            {"overhead": {"podFixed": {"cpu": "1"}}},
            {"runtimeClassName": "sandbox", "overhead": {"cpu": "2"}},
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            {"scheduling": {"nodeSelector": {"a": "b"}}},
            {"runtimeClassName": "sandbox", "nodeSelector": {"a": "c"}},
            "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c",
        ),
    ],
)
def test_refused_pods(plane: Plane, fields: Json, spec: Json, why: str) -> None:
    plane.create(runtime_class(**fields))
    error = refused(plane, pod(**spec))
    assert (error.code, str(error)) == (403, f'pods "p" is forbidden: {why}')


def test_overhead_counts_for_quotas(plane: Plane) -> None:
    plane.create(runtime_class(overhead={"podFixed": {"cpu": "2"}}))
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {"requests.cpu": "2"}},
    }
    plane.create(quota)
    plane.patch("v1", "ResourceQuota", "q", {"status": {"hard": {"requests.cpu": "2"}, "used": {"requests.cpu": "0"}}})
    plane.patch(
        "v1",
        "ResourceQuota",
        "q",
        {"status": {"hard": {"requests.cpu": "2"}, "used": {"requests.cpu": "0"}}},
        "status",
    )
    error = refused(plane, pod(cpu="100m", runtimeClassName="sandbox"))
    assert "requested: requests.cpu=2100m, used: requests.cpu=0, limited: requests.cpu=2" in str(error)


@pytest.mark.parametrize(
    ("fields", "causes"),
    [
        ({"handler": ""}, ["handler"]),
        ({"handler": "A b"}, ["handler"]),
        ({"overhead": {"podFixed": {"cpu": "-1"}}}, ["overhead.limits[cpu]"]),
        ({"scheduling": {"nodeSelector": {"a b": "c"}}}, ["scheduling.nodeSelector"]),
        ({"scheduling": {"tolerations": [{"operator": "X", "key": "a"}]}}, ["scheduling.tolerations[0].operator"]),
    ],
)
def test_refused_classes(plane: Plane, fields: Json, causes: list[str]) -> None:
    error = refused(plane, runtime_class(**fields))
    assert (error.code, [cause.field for cause in error.causes]) == (422, causes)


def test_handler_of_a_class_is_fixed(plane: Plane) -> None:
    plane.create(runtime_class())
    with pytest.raises(StatusError, match='handler: Invalid value: "kata": field is immutable'):
        plane.patch("node.k8s.io/v1", "RuntimeClass", "sandbox", {"handler": "kata"})
