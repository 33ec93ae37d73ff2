"""What is filled in: defaults of every kind and the status of new objects, as the recorded creates show
them.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kube_rules.defaults import apply_defaults, apply_identity, qos_class
from tests.recorded.oracle import needs_transcripts, transcript
from tests.recorded.shapes import pod, shape, stored

Json = dict[str, Any]
# What admission adds to the recorded objects, by place.
_ADMITTED = {"tolerations", "priorityClassName", "priority", "preemptionPolicy", "taints"}


def _plain(value: Any) -> Any:
    """Without nulls, which upstream writes for empty pointers and we do not."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items() if inner is not None}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


@needs_transcripts
@pytest.mark.parametrize(
    "number", [18, 93, 94, 115, 116, 136, 364, 379, 381, 418, 419, 439, 440, 509, 518, 522, 537, 550]
)
def test_create_fills_in_what_the_recorded_one_did(number: int) -> None:
    one = transcript(number)
    mine, theirs = stored(copy.deepcopy(one.body)), _plain(one.answer)
    for obj in (mine, theirs):
        obj.pop("metadata")
        spec = obj.get("spec", {})
        if obj["kind"] in ("Pod", "Node", "PodGroup"):
            obj["spec"] = {key: value for key, value in spec.items() if key not in _ADMITTED}
    for key, empty in (("deprecatedSource", {}), ("reportingComponent", ""), ("reportingInstance", "")):
        if theirs.get(key) == empty:
            theirs.pop(key)
    assert mine == theirs


@needs_transcripts
def test_namespace_is_labelled_with_its_name() -> None:
    labels = stored(copy.deepcopy(transcript(18).body))["metadata"]["labels"]
    assert labels == transcript(18).answer["metadata"]["labels"]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("img", "Always"),
        ("img:latest", "Always"),
        ("img:1", "IfNotPresent"),
        ("host:5000/img", "Always"),
        ("host:5000/img:2", "IfNotPresent"),
        ("img@sha256:abc", "IfNotPresent"),
    ],
)
def test_images_without_a_fixed_tag_are_pulled_always(image: str, policy: str) -> None:
    obj = stored(pod(containers=[{"name": "c", "image": image}]))
    assert obj["spec"]["containers"][0]["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "0"}}, "BestEffort"),
        ({"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
    ],
)
def test_quality_of_service(resources: Json, expected: str) -> None:
    obj = stored(pod(containers=[{"name": "c", "image": "i", "resources": resources}]))
    assert obj["status"]["qosClass"] == qos_class(obj) == expected


def test_probes_volumes_and_host_ports() -> None:
    obj = stored(
        pod(
            hostNetwork=True,
            containers=[
                {"name": "c", "image": "i", "ports": [{"containerPort": 80}], "livenessProbe": {"httpGet": {"port": 1}}}
            ],
            volumes=[{"name": "e"}, {"name": "s", "secret": {"secretName": "x"}}],
        )
    )
    container = obj["spec"]["containers"][0]
    assert container["ports"] == [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]
    assert container["livenessProbe"] == {
        "httpGet": {"port": 1, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert obj["spec"]["volumes"] == [
        {"name": "e", "emptyDir": {}},
        {"name": "s", "secret": {"secretName": "x", "defaultMode": 420}},
    ]


@pytest.mark.parametrize(
    ("version", "mode"),
    [("v1beta1", {"single": {}}), ("v1alpha3", {"single": {}}), ("v1alpha2", "Pod")],
)
def test_group_is_disrupted_pod_by_pod_unless_it_says_otherwise(version: str, mode: Any) -> None:
    """api.md: default single; v1alpha2 writes it as a word."""
    body = {"apiVersion": f"scheduling.k8s.io/{version}", "kind": "PodGroup", "metadata": {"name": "g"}}
    assert stored(body)["spec"]["disruptionMode"] == mode


def test_job_selects_its_pods_by_its_own_uid() -> None:
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "uid": "u"}, "spec": {"template": pod()}}
    body["spec"]["template"] = {"spec": {**pod()["spec"], "restartPolicy": "Never"}}  # type: ignore[index]
    kind = shape("batch/v1", "Job")
    obj = stored(copy.deepcopy(body))
    assert (obj["spec"]["completions"], obj["spec"]["parallelism"], obj["spec"]["backoffLimit"]) == (1, 1, 6)
    apply_identity(kind, obj)
    assert obj["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}
    assert obj["spec"]["template"]["metadata"]["labels"]["job-name"] == "j"
    manual = stored({**body, "spec": {**body["spec"], "manualSelector": True}})  # type: ignore[dict-item]
    apply_identity(kind, manual)
    assert "selector" not in manual["spec"]


def test_limits_of_a_limit_range_follow_from_each_other() -> None:
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": [
        {"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Gi"}}]}}  # fmt: skip
    (item,) = stored(body)["spec"]["limits"]
    assert item["default"] == {"cpu": "2"}
    assert item["defaultRequest"] == {"cpu": "2", "memory": "1Gi"}


def test_secrets_in_plain_text_are_encoded() -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}}
    obj = stored(body)
    assert (obj["data"], obj["type"], "stringData" in obj) == ({"a": "Yg=="}, "Opaque", False)


def test_node_has_the_same_addresses_in_both_fields_and_allocates_its_capacity() -> None:
    body: Json = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"podCIDR": "10.0.0.0/24"}}
    body["status"] = {"capacity": {"cpu": "4"}}
    obj = stored(body)
    assert obj["spec"]["podCIDRs"] == ["10.0.0.0/24"]
    assert obj["status"]["allocatable"] == {"cpu": "4"}


def test_defaults_are_not_shared_between_objects() -> None:
    kind = shape("v1", "Pod")
    first, second = pod(), pod()
    for obj in (first, second):
        apply_defaults(kind, obj)
    first["spec"]["securityContext"]["fsGroup"] = 5
    assert second["spec"]["securityContext"] == {}
