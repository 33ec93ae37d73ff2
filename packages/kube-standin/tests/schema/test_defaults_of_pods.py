"""Defaults of pods, containers and volumes."""

from __future__ import annotations

import copy

import pytest

from kube_rules.defaults import prepare_create
from tests.recorded.shapes import pod, shape, stored
from tests.schema.test_defaults_of_kinds import Json, complete


def containers(kind: str, spec: Json) -> Json:
    """The spec of a pod or, with defaults, that of the template of a ReplicaSet."""
    if kind == "Pod":
        found: Json = complete("v1", "Pod", {"spec": spec})["spec"]
        return found
    found = complete("apps/v1", "ReplicaSet", {"spec": {"template": {"spec": spec}}})["spec"]["template"]["spec"]
    return found


PORTS = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 9}, {"name": "none"}]
_HOST_PORTS = [80, 9, None]


@pytest.mark.parametrize("listed", ["containers", "initContainers"])
@pytest.mark.parametrize(
    ("kind", "network", "ports"),
    [("Pod", True, _HOST_PORTS), ("Pod", False, [None, 9, None]), ("template", True, [None, 9, None])],
)
def test_ports_on_the_host(kind: str, network: bool, ports: list[int | None], listed: str) -> None:
    """Those of a pod on the host's network, not of a template."""
    found = containers(kind, {"hostNetwork": network, listed: [{"name": "c", "ports": copy.deepcopy(PORTS)}]})
    assert [port.get("hostPort") for port in found[listed][0]["ports"]] == ports
    assert {port["protocol"] for port in found[listed][0]["ports"]} == {"TCP"}


@pytest.mark.parametrize(
    ("listed", "kind", "requests"),
    [
        ("containers", "Pod", {"cpu": "2", "memory": "1Gi"}),
        ("initContainers", "Pod", {"cpu": "2", "memory": "1Gi"}),
        ("ephemeralContainers", "Pod", {"cpu": "2"}),
        ("containers", "template", {"cpu": "2"}),
    ],
)
def test_requests_follow_limits(listed: str, kind: str, requests: Json) -> None:
    """Of what a pod runs; the template of one gets them when the pod is made."""
    resources = {"limits": {"cpu": "4", "memory": "1Gi"}, "requests": {"cpu": "2"}}
    found = containers(kind, {listed: [{"name": "c", "resources": resources}, {"name": "d"}]})[listed]
    assert found[0]["resources"]["requests"] == requests
    assert found[1]["resources"] == {}


@pytest.mark.parametrize(
    ("resources", "of_container", "requests"),
    [
        # KEP-2837: what the containers request together, else the limit; without limits nothing.
        ({"limits": {"cpu": "4"}}, {"requests": {"cpu": "500m", "memory": "1Gi"}}, {"cpu": "500m", "memory": "1Gi"}),
        ({"limits": {"cpu": "4", "memory": "2Gi"}}, {"requests": {"cpu": "500m"}}, {"cpu": "500m", "memory": "2Gi"}),
        ({"limits": {"cpu": "4"}, "requests": {"cpu": "3"}}, {"requests": {"cpu": "500m"}}, {"cpu": "3"}),
        ({"limits": {"cpu": "4"}}, {"requests": {"nvidia.com/gpu": "1"}}, {"cpu": "4"}),
        ({"requests": {"cpu": "3"}}, {"requests": {"memory": "1Gi"}}, {"cpu": "3"}),
    ],
)
def test_requests_of_a_pod_as_a_whole(resources: Json, of_container: Json, requests: Json) -> None:
    found = containers("Pod", {"resources": resources, "containers": [{"name": "c", "resources": of_container}]})
    assert found["resources"]["requests"] == requests


def test_containers() -> None:
    environment = [
        {"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "x"}}},
        {"name": "b", "valueFrom": {"configMapKeyRef": {}}},
        {"name": "c", "value": ""},
    ]
    given = {
        "name": "c",
        "env": environment,
        "readinessProbe": {"grpc": {"port": 1}, "periodSeconds": 2},
        "startupProbe": {"tcpSocket": {}},
        "lifecycle": {"postStart": {"httpGet": {"path": "/up"}}, "preStop": {"exec": {}}, "stopSignal": "SIGTERM"},
    }
    (found,) = containers("Pod", {"containers": [given]})["containers"]
    assert found["env"][0]["valueFrom"]["fieldRef"] == {"fieldPath": "x", "apiVersion": "v1"}
    assert found["env"][1:] == environment[1:]
    whole = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    assert found["readinessProbe"] == {**whole, "periodSeconds": 2, "grpc": {"port": 1, "service": ""}}
    assert found["startupProbe"] == {**whole, "tcpSocket": {}}
    assert found["lifecycle"] == {
        "postStart": {"httpGet": {"path": "/up", "scheme": "HTTP"}},
        "preStop": {"exec": {}},
        "stopSignal": "SIGTERM",
    }
    assert found["terminationMessagePath"] == "/dev/termination-log"
    assert found["terminationMessagePolicy"] == "File"


_FIELDS = [{"path": "l", "fieldRef": {"fieldPath": "x"}}, {"path": "r", "resourceFieldRef": {}}]
_FIELDS_DONE = [{"path": "l", "fieldRef": {"fieldPath": "x", "apiVersion": "v1"}}, _FIELDS[1]]


@pytest.mark.parametrize(
    ("volume", "found"),
    [
        ({}, {"emptyDir": {}}),
        ({"secret": {}}, {"secret": {"defaultMode": 0o644}}),
        ({"configMap": {"defaultMode": 0}}, {"configMap": {"defaultMode": 0}}),
        ({"downwardAPI": {"items": _FIELDS}}, {"downwardAPI": {"items": _FIELDS_DONE, "defaultMode": 0o644}}),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}, {"downwardAPI": {"items": _FIELDS}}]}},
            {
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}},
                        {"downwardAPI": {"items": _FIELDS_DONE}},
                    ],
                    "defaultMode": 0o644,
                }
            },
        ),
        ({"hostPath": {"path": "/"}}, {"hostPath": {"path": "/", "type": ""}}),
        ({"iscsi": {}}, {"iscsi": {"iscsiInterface": "default"}}),
        ({"image": {"reference": "a"}}, {"image": {"reference": "a", "pullPolicy": "Always"}}),
        ({"image": {"reference": "a:1"}}, {"image": {"reference": "a:1", "pullPolicy": "IfNotPresent"}}),
        ({"image": {"pullPolicy": "Never"}}, {"image": {"pullPolicy": "Never"}}),
        (
            {"ephemeral": {"volumeClaimTemplate": {}}},
            {"ephemeral": {"volumeClaimTemplate": {"spec": {"volumeMode": "Filesystem"}}}},
        ),
        ({"ephemeral": {}}, {"ephemeral": {}}),
        ({"nfs": {"path": "/"}}, {"nfs": {"path": "/"}}),
    ],
)
def test_volumes(volume: Json, found: Json) -> None:
    given = {"volumes": [{"name": "v", **copy.deepcopy(volume)}]}
    assert containers("Pod", given)["volumes"] == [{"name": "v", **found}]


def test_volume_without_a_name_is_left_to_validation() -> None:
    assert containers("Pod", {"volumes": [{"nosuch": {}}]})["volumes"] == [{"nosuch": {}}]


@pytest.mark.parametrize(
    ("requests", "limits", "word"),
    [
        ({"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}, "Guaranteed"),
        ({}, {"cpu": "1", "memory": "1Gi"}, "Guaranteed"),
        ({"memory": "1Gi"}, {"cpu": "1"}, "Burstable"),
        ({"cpu": "1", "memory": "1Gi"}, {}, "Burstable"),
        ({"cpu": "0", "memory": "0"}, {"cpu": "0", "memory": "0"}, "BestEffort"),
        ({}, {"ephemeral-storage": "1Gi"}, "BestEffort"),
    ],
)
def test_quality_of_service_of_a_pod_as_a_whole(requests: Json, limits: Json, word: str) -> None:
    """Its own resources decide, whatever its containers have."""
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
    other = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "7"}}}]
    made = {"spec": {"resources": resources, "containers": other}, "metadata": {"name": "x"}}
    prepare_create(shape("v1", "Pod"), made, now="2026-01-01T00:00:00Z")
    assert made["status"]["qosClass"] == word  # type: ignore[index]


def test_quality_of_service_of_several_containers() -> None:
    """Guaranteed only if all are, init containers with them."""
    whole = {"limits": {"cpu": "1", "memory": "1Gi"}}
    for others, word in (([whole], "Guaranteed"), ([{}], "Burstable"), ([{"limits": {"cpu": "1"}}], "Burstable")):
        named = [{"name": f"c{n}", "image": "i", "resources": one} for n, one in enumerate([whole, *others])]
        assert stored(pod(containers=named))["status"]["qosClass"] == word
        assert stored(pod(containers=named[:1], initContainers=named[1:]))["status"]["qosClass"] == word
