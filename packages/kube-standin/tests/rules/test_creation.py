"""What a create is refused for: every recorded 422 and 201, and the rules no recording shows."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kube_rules.schema.definitions import definition_names
from kube_rules.validation import validate_create
from tests.recorded.oracle import Transcript, every, needs_transcripts
from tests.recorded.shapes import pod, shape, stored

Json = dict[str, Any]
_REVIEWS = {"SelfSubjectAccessReview", "SelfSubjectReview", "Binding", "Eviction", "TokenRequest"}


def _creates() -> list[Transcript]:
    return [
        one
        for one in every()
        if one.method == "POST"
        and isinstance(one.body, dict)
        and (one.body.get("apiVersion", ""), one.body.get("kind", "")) in definition_names()
        and one.body["kind"] not in _REVIEWS
        and (one.status in (200, 201) or (one.status == 422 and one.answer["details"]["kind"] == one.body["kind"]))
    ]


@needs_transcripts
@pytest.mark.parametrize("one", _creates(), ids=lambda t: t.name)
def test_recorded_creates(one: Transcript) -> None:
    """Same causes with the same texts in the same order; none where the create went through."""
    namespace = one.path.partition("/namespaces/")[2].partition("/")[0]
    obj = stored(copy.deepcopy(one.body), namespace)
    found = [
        (error.reason, error.path, error.message)
        for error in validate_create(shape(one.body["apiVersion"], one.body["kind"]), obj)
    ]
    assert found == (one.causes if one.status == 422 else [])


def refused(body: Json) -> list[tuple[str, str]]:
    """(reason, field) of each finding."""
    obj = stored(copy.deepcopy(body))
    return [(e.reason.removeprefix("FieldValue"), e.path) for e in validate_create(
        shape(body["apiVersion"], body["kind"]), obj)]  # fmt: skip


def container(**more: Any) -> Json:
    return pod(containers=[{"name": "c", "image": "i", **more}])


_PORT = {"containerPort": 80}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (container(), []),
        (container(ports=[{"containerPort": 0}]), [("Required", "spec.containers[0].ports[0].containerPort")]),
        (container(ports=[{"containerPort": 70000}]), [("Invalid", "spec.containers[0].ports[0].containerPort")]),
        (container(ports=[{**_PORT, "protocol": "X"}]), [("NotSupported", "spec.containers[0].ports[0].protocol")]),
        (container(ports=[{**_PORT, "name": "a"}, {**_PORT, "name": "a"}]),
         [("Duplicate", "spec.containers[0].ports[1].name")]),
        (container(ports=[{**_PORT, "name": "UPPER"}]), [("Invalid", "spec.containers[0].ports[0].name")] * 2),
        (container(imagePullPolicy="Often"), [("NotSupported", "spec.containers[0].imagePullPolicy")]),
        (container(terminationMessagePolicy="X"), [("NotSupported", "spec.containers[0].terminationMessagePolicy")]),
        (container(env=[{"name": ""}]), [("Required", "spec.containers[0].env[0].name")]),
        (container(env=[{"name": "a=b"}]), [("Invalid", "spec.containers[0].env[0].name")]),
        (container(env=[{"name": " ~"}]), []),  # the first and the last of the printable characters
        (container(env=[{"name": "a\x1f"}]), [("Invalid", "spec.containers[0].env[0].name")]),
        (container(env=[{"name": "a\x7f"}]), [("Invalid", "spec.containers[0].env[0].name")]),
        (container(env=[{"name": "a", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}]),
         [("Invalid", "spec.containers[0].env[0].valueFrom")]),
        (container(volumeMounts=[{"name": "v", "mountPath": "/x"}]),
         [("NotFound", "spec.containers[0].volumeMounts[0].name")]),
        (container(livenessProbe={}), [("Required", "spec.containers[0].livenessProbe")]),
        (container(livenessProbe={"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}}),
         [("Forbidden", "spec.containers[0].livenessProbe.tcpSocket")]),
        (container(livenessProbe={"httpGet": {"port": 0}, "successThreshold": 2}),
         [("Invalid", "spec.containers[0].livenessProbe.httpGet.port"),
          ("Invalid", "spec.containers[0].livenessProbe.successThreshold")]),
        (container(livenessProbe={"httpGet": {}}), [("Invalid", "spec.containers[0].livenessProbe.httpGet.port")]),
        (container(lifecycle={"preStop": {}}), [("Required", "spec.containers[0].lifecycle.preStop")]),
        (container(lifecycle={"preStop": {"httpGet": {"port": 0}}}),
         [("Invalid", "spec.containers[0].lifecycle.preStop.httpGet.port")]),
        (container(lifecycle={"postStart": {"exec": {"command": ["x"]}}}), []),
        (container(resources={"requests": {"cpu": "0"}}), []),
        (container(resources={"requests": {"cpu": "-1n"}}),
         [("Invalid", "spec.containers[0].resources.requests[cpu]")]),
        (container(resources={"requests": {"nosuch": "1"}}),
         [("Invalid", "spec.containers[0].resources.requests[nosuch]")]),
        (container(resources={"limits": {"hugepages-2Mi": "4Mi"}}),
         [("Forbidden", "spec.containers[0].resources")]),
        (pod(initContainers=[{"name": "c", "image": "i"}]), [("Duplicate", "spec.initContainers[0].name")]),
        (pod(initContainers=[{"name": "i", "image": "i", "livenessProbe": {"exec": {"command": ["x"]}}}]),
         [("Forbidden", "spec.initContainers[0].livenessProbe")]),
        (pod(volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]),
         [("Forbidden", "spec.volumes[0].hostPath")]),
        (pod(volumes=[{"name": "v"}, {"name": "v"}]), [("Duplicate", "spec.volumes[1].name")]),
        (pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": ""}}]),
         [("Required", "spec.volumes[0].persistentVolumeClaim.claimName")]),
        (pod(dnsPolicy="X"), [("NotSupported", "spec.dnsPolicy")]),
        (pod(nodeSelector={"a b": "c d"}), [("Invalid", "spec.nodeSelector")] * 2),
        (pod(activeDeadlineSeconds=0), [("Invalid", "spec.activeDeadlineSeconds")]),
        (pod(hostname="A"), [("Invalid", "spec.hostname")]),
        (pod(preemptionPolicy="X"), [("NotSupported", "spec.preemptionPolicy")]),
        (pod(schedulingGates=[{"name": "a"}, {"name": "a"}]), [("Duplicate", "spec.schedulingGates[1]")]),
        (pod(overhead={"cpu": "-1"}), [("Invalid", "spec.overhead[cpu]")]),
        (pod(resourceClaims=[{"name": "a"}]), [("Invalid", "spec.resourceClaims[0]")]),
        (pod(resources={"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}),
         [("NotSupported", "spec.resources.limits[nvidia.com/gpu]"),
          ("NotSupported", "spec.resources.requests[nvidia.com/gpu]")]),
        (pod(topologySpreadConstraints=[
            {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2}]),
         [("Invalid", "spec.topologySpreadConstraints[0].minDomains")]),
        (pod(tolerations=[{"key": "a", "effect": "X"}]), [("NotSupported", "spec.tolerations[0].effect")]),
    ],
)  # fmt: skip
def test_pods(body: Json, expected: list[tuple[str, str]]) -> None:
    """pkg/apis/core/validation of 1.36."""
    assert refused(body) == expected


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({}, "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"),
        ({"fieldRef": {"fieldPath": "metadata.name"}}, None),
        ({"fieldRef": {"fieldPath": "metadata.name"}, "secretKeyRef": {"name": "s", "key": "k"}},
         "may not have more than one field specified at a time"),
    ],
)  # fmt: skip
def test_variable_has_one_source(source: Json, said: str | None) -> None:
    """validateEnvVarValueFrom of 1.36."""
    body = container(env=[{"name": "a", "valueFrom": source}])
    errors = validate_create(shape("v1", "Pod"), stored(body))
    assert [e.path for e in errors] == (["spec.containers[0].env[0].valueFrom"] if said else [])
    assert all((said or "") in e.message for e in errors)


def _of(api_version: str, kind: str, **more: Any) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, **more}


def _group(version: str = "v1beta1", **spec: Any) -> Json:
    spec.setdefault("schedulingPolicy", {"gang": {"minCount": 2}})
    return _of(f"scheduling.k8s.io/{version}", "PodGroup", spec=spec)


def _workload(*templates: Json) -> Json:
    return _of("scheduling.k8s.io/v1beta1", "Workload", spec={"podGroupTemplates": list(templates)})


_BASIC: Json = {"basic": {}}


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha3"])
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"disruptionMode": {"all": {}}}, []),
        # {all: {}} with basic is rejected (api.md).
        ({"schedulingPolicy": _BASIC, "disruptionMode": {"all": {}}}, [("Forbidden", "spec.disruptionMode")]),
        ({"schedulingPolicy": _BASIC, "disruptionMode": {"single": {}}}, []),
        ({"disruptionMode": {}}, [("Invalid", "spec.disruptionMode")]),
        ({"disruptionMode": {"all": {}, "single": {}}}, [("Invalid", "spec.disruptionMode")]),
        ({"workloadRef": {}},
         [("Required", "spec.workloadRef.workloadName"), ("Required", "spec.workloadRef.templateName")]),
        ({"workloadRef": {"workloadName": "W", "templateName": "a.b"}},
         [("Invalid", "spec.workloadRef.workloadName"), ("Invalid", "spec.workloadRef.templateName")]),
        ({"priorityClassName": "A"}, [("Invalid", "spec.priorityClassName")]),
        ({"priority": 1_000_000_001}, [("Invalid", "spec.priority")]),
        ({"preemptionPolicy": "X"}, [("NotSupported", "spec.preemptionPolicy")]),
        ({"schedulingPolicy": {"gang": {"minCount": 0}}}, [("Required", "spec.schedulingPolicy.gang.minCount")]),
        ({"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
         [("TooMany", "spec.schedulingConstraints.topology")]),
    ],
)  # fmt: skip
def test_pod_groups_of_the_newer_versions(version: str, spec: Json, expected: list[tuple[str, str]]) -> None:
    """api.md, table of versions."""
    assert refused(_group(version, **spec)) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (_workload({"name": "a", "schedulingPolicy": _BASIC, "disruptionMode": {"all": {}}}),
         [("Forbidden", "spec.podGroupTemplates[0].disruptionMode")]),
        (_workload({"name": "a.b", "schedulingPolicy": _BASIC}), [("Invalid", "spec.podGroupTemplates[0].name")]),
        (_of("policy/v1", "PodDisruptionBudget", spec={"maxUnavailable": "101%"}),
         [("Invalid", "spec.maxUnavailable")]),
        (_of("policy/v1", "PodDisruptionBudget", spec={"maxUnavailable": f"{'9' * 5000}%"}),
         [("Invalid", "spec.maxUnavailable")]),
        (_of("policy/v1", "PodDisruptionBudget", spec={"minAvailable": 1, "unhealthyPodEvictionPolicy": "X"}),
         [("NotSupported", "spec.unhealthyPodEvictionPolicy")]),
        (_of("v1", "ResourceQuota", spec={"hard": {"nosuch": "1", "pods": "500m", "cpu": "-1"}}),
         [("Invalid", "spec.hard[nosuch]"), ("Invalid", "spec.hard[pods]"), ("Invalid", "spec.hard[cpu]")]),
        (_of("v1", "ResourceQuota", spec={"scopes": ["BestEffort", "NotBestEffort"]}), [("Invalid", "spec.scopes")]),
        (_of("v1", "ResourceQuota", spec={"scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "In"}]}}),
         [("Required", "spec.scopeSelector.matchExpressions[0].values")]),
        (_of("v1", "ResourceQuota", spec={"hard": {"services": "1"}, "scopes": ["PriorityClass"]}),
         [("Invalid", "spec.scopes")]),
        (_of("v1", "LimitRange", spec={"limits": [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]}),
         [("Invalid", "spec.limits[0].min[cpu]"), ("Invalid", "spec.limits[0].min[cpu]"),
          ("Invalid", "spec.limits[0].min[cpu]"), ]),
        (_of("v1", "LimitRange", spec={"limits": [{"type": "Pod", "default": {"cpu": "1"}}]}),
         [("Forbidden", "spec.limits[0].default")]),
        (_of("v1", "ConfigMap", data={"a/b": "", "ok": ""}, binaryData={"ok": ""}),
         [("Invalid", "data[a/b]"), ("Invalid", "data[ok]")]),
        (_of("v1", "ConfigMap", data={"k": "x" * (1024 * 1024 + 1)}), [("TooLong", "")]),
        (_of("v1", "Secret", stringData={"..": "x"}), [("Invalid", "data[..]")]),
        (_of("v1", "Service", spec={}), [("Required", "spec.ports")]),
        (_of("v1", "Service", spec={"clusterIP": "None"}), []),
        (_of("v1", "Service", spec={"clusterIP": "10.0.0.9"}), [("Required", "spec.ports")]),
        (_of("v1", "Service", spec={"type": "ExternalName", "externalName": "a.example.com"}), []),
        (_of("v1", "Service", spec={"type": "ExternalName"}), [("Required", "spec.externalName")]),
        (_of("v1", "Service", spec={"type": "ExternalName", "externalName": "a.b", "clusterIP": "10.0.0.9"}),
         [("Forbidden", "spec.clusterIPs")]),
        (_of("v1", "Service", spec={"ports": [{"port": 80}, {"port": 80, "name": "a"}]}),
         [("Required", "spec.ports[0].name"), ("Duplicate", "spec.ports[1]")]),
        (_of("v1", "Service", spec={"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]}),
         [("Duplicate", "spec.ports[1].name")]),
        ({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s" * 63}, "spec": {"ports": [{"port": 80}]}},
         []),
        ({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s" * 64}, "spec": {"ports": [{"port": 80}]}},
         [("Invalid", "metadata.name")]),
        (_of("resource.k8s.io/v1", "ResourceSlice", spec={
            "driver": "d.example.com", "nodeName": "n", "pool": {"name": "p", "resourceSliceCount": 1}}), []),
        (_of("resource.k8s.io/v1", "ResourceSlice", spec={
            "driver": "d.example.com", "nodeName": "n", "pool": {"name": "p", "resourceSliceCount": 0}}),
         [("Invalid", "spec.pool.resourceSliceCount")]),
        (_of("v1", "Service", spec={"type": "X", "ports": [{"port": 0}]}),
         [("NotSupported", "spec.type"), ("Invalid", "spec.ports[0].port"), ("Invalid", "spec.ports[0].targetPort")]),
        (_of("v1", "PersistentVolumeClaim", spec={}),
         [("Required", "spec.accessModes"), ("Required", "spec.resources[storage]")]),
        (_of("v1", "PersistentVolume", spec={"capacity": {"storage": "0"}, "accessModes": ["X"]}),
         [("NotSupported", "spec.accessModes"), ("Invalid", "spec.capacity[storage]"), ("Required", "spec")]),
        (_of("storage.k8s.io/v1", "StorageClass", reclaimPolicy="X"),
         [("Required", "provisioner"), ("NotSupported", "reclaimPolicy")]),
        (_of("storage.k8s.io/v1", "CSINode", spec={"drivers": [{"name": "a", "nodeID": "n"}, {"name": "a"}]}),
         [("Duplicate", "spec.drivers[1].name"), ("Required", "spec.drivers[1].nodeID")]),
        (_of("resource.k8s.io/v1", "ResourceClaim", spec={"devices": {"requests": [
            {"name": "a", "exactly": {"deviceClassName": "c", "count": 0}}, {"name": "a"}]}}),
         [("Invalid", "spec.devices.requests[0].exactly.count"), ("Duplicate", "spec.devices.requests[1].name"),
          ("Required", "spec.devices.requests[1]")]),
        (_of("v1", "Node", status={"declaredFeatures": ["A", "B/c", "Beta2/Sub/x"]}), []),
        (_of("v1", "Node", status={"declaredFeatures": ["B", "A", "A", "a", "C d", "D/", "X" * 254]}),
         [("Invalid", "status.declaredFeatures[1]"), ("Duplicate", "status.declaredFeatures[2]"),
          ("Invalid", "status.declaredFeatures[3]"), ("Invalid", "status.declaredFeatures[4]"),
          ("Invalid", "status.declaredFeatures[4]"), ("Invalid", "status.declaredFeatures[5]"),
          ("Invalid", "status.declaredFeatures[6]")]),
        (_of("resource.k8s.io/v1", "DeviceClass", spec={"extendedResourceName": "example.com/gpu"}), []),
        (_of("resource.k8s.io/v1", "DeviceClass", spec={"extendedResourceName": "gpu"}),
         [("Invalid", "spec.extendedResourceName")]),
        (_of("resource.k8s.io/v1", "DeviceClass", spec={"extendedResourceName": "node.kubernetes.io/gpu"}),
         [("Invalid", "spec.extendedResourceName")]),
        (_of("resource.k8s.io/v1", "DeviceTaintRule", spec={"taint": {"key": "a.b/c", "effect": "None"}}), []),
        (_of("resource.k8s.io/v1", "DeviceTaintRule", spec={
            "deviceSelector": {"driver": "d.example.com", "pool": "n1/a", "device": "gpu-0"},
            "taint": {"key": "b", "value": "c", "effect": "NoExecute"}}), []),
        (_of("resource.k8s.io/v1", "DeviceTaintRule", spec={
            "deviceSelector": {"driver": "X" * 64, "pool": "a/B", "device": "a.b"},
            "taint": {"key": "a b", "value": "c d", "effect": "PreferNoSchedule"}}),
         [("TooLong", "spec.deviceSelector.driver"), ("Invalid", "spec.deviceSelector.driver"),
          ("Invalid", "spec.deviceSelector.pool"), ("Invalid", "spec.deviceSelector.device"),
          ("Invalid", "spec.taint.key"), ("Invalid", "spec.taint.value"), ("NotSupported", "spec.taint.effect")]),
        (_of("resource.k8s.io/v1", "DeviceTaintRule", spec={
            "deviceSelector": {"driver": "", "pool": "", "device": ""}, "taint": {"key": "a"}}),
         [("Required", "spec.deviceSelector.driver"), ("Required", "spec.deviceSelector.pool"),
          ("Invalid", "spec.deviceSelector.device"), ("Required", "spec.taint.effect")]),
        (_of("coordination.k8s.io/v1", "Lease", spec={"preferredHolder": "a"}),
         [("Forbidden", "spec.preferredHolder")]),
        (_of("batch/v1", "CronJob", spec={"schedule": "x"}),
         [("Invalid", "spec.schedule"), ("Required", "spec.jobTemplate.spec.template.spec.containers"),
          ("Required", "spec.jobTemplate.spec.template.spec.restartPolicy")]),
    ],
)  # fmt: skip
def test_other_kinds(body: Json, expected: list[tuple[str, str]]) -> None:
    """The validation packages of 1.36, kind by kind."""
    assert refused(body) == expected


def _controller(api_version: str, kind: str, restart: str = "Always", **spec: Any) -> Json:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {**pod()["spec"], "restartPolicy": restart}}
    return _of(api_version, kind, spec={"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec})


@pytest.mark.parametrize("kind", ["ReplicaSet", "Deployment", "StatefulSet", "DaemonSet"])
def test_controllers_select_their_own_pods_and_restart_them(kind: str) -> None:
    assert refused(_controller("apps/v1", kind)) == []
    assert refused(_controller("apps/v1", kind, selector={"matchLabels": {"a": "x"}})) == [
        ("Invalid", "spec.template.metadata.labels")
    ]
    assert refused(_controller("apps/v1", kind, selector={})) == [("Invalid", "spec.selector")]
    assert refused(_controller("apps/v1", kind, restart="Never")) == [
        ("NotSupported", "spec.template.spec.restartPolicy")
    ]


def test_pods_of_a_stateful_set_mount_the_claims_it_makes_for_them() -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": container(volumeMounts=mounts)["spec"]}
    template["spec"]["restartPolicy"] = "Always"
    claims = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    missing = [("NotFound", "spec.template.spec.containers[0].volumeMounts[0].name")]
    assert refused(_controller("apps/v1", "StatefulSet", template=template, volumeClaimTemplates=claims)) == []
    assert refused(_controller("apps/v1", "StatefulSet", template=template)) == missing
    assert refused(_controller("apps/v1", "Deployment", template=template)) == missing


def test_jobs_do_not_restart_for_ever() -> None:
    job = _controller("batch/v1", "Job", restart="Always")
    assert refused(job) == [("Required", "spec.template.spec.restartPolicy")]
    assert refused(_controller("batch/v1", "Job", restart="Never", parallelism=-1)) == [("Invalid", "spec.parallelism")]
    indexed = _controller("batch/v1", "Job", restart="Never", completionMode="Indexed", parallelism=1)
    assert refused(indexed) == [("Required", "spec.completions")]


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        ({"name": "a" * 254}, [("Invalid", "metadata.name")]),
        ({"generateName": "A-"}, [("Invalid", "metadata.generateName"), ("Invalid", "metadata.name")]),
        ({"name": "x", "annotations": {"UPPER/ok": "1"}}, []),
        ({"name": "x", "annotations": {"a b": "1"}}, [("Invalid", "metadata.annotations")]),
        ({"name": "x", "labels": {"a": "x" * 64}}, [("Invalid", "metadata.labels")]),
        ({"name": "x", "finalizers": ["nogroup"]}, [("Invalid", "metadata.finalizers[0]")]),
        ({"name": "x", "finalizers": ["orphan", "example.com/a"]}, []),
        ({"name": "x", "ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u"}]},
         [("Invalid", "metadata.ownerReferences")]),
    ],
)  # fmt: skip
def test_metadata(meta: Json, expected: list[tuple[str, str]]) -> None:
    """apimachinery's object metadata validation."""
    assert refused({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}) == expected


def test_cluster_wide_kinds_have_no_namespace() -> None:
    node = stored({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    node["metadata"]["namespace"] = "w1"
    assert [error.path for error in validate_create(shape("v1", "Node"), node)] == ["metadata.namespace"]


@pytest.mark.parametrize("label", ["matchLabels", "matchExpressions"])
def test_labels_may_be_named_like_parts_of_a_selector(label: str) -> None:
    """A ReplicationController selects by plain labels, whatever their names."""
    labels = {label: "x"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    body = {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": "a"},
        "spec": {"selector": labels, "template": template},
    }
    assert refused(body) == []
    template["metadata"] = {"labels": {label: "y"}}
    assert refused(body) == [("Invalid", "spec.template.metadata.labels")]
