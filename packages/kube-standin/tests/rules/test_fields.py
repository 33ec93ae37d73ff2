"""Fields of pods and of other kinds, on both sides of every bound: what is refused, and what is next to it and is not.

The validation packages of kube-apiserver 1.36 (pkg/apis/*/validation), rule by rule. A row is an object and what is
found in it, as `Reason path`.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kube_rules.errors import FieldError
from kube_rules.validation import validate_create, validate_update
from tests.recorded.shapes import pod, shape, stored

Json = dict[str, Any]


def reported(errors: list[FieldError]) -> list[str]:
    return [f"{error.reason.removeprefix('FieldValue')} {error.path}" for error in errors]


def found(body: Json) -> list[str]:
    return reported(validate_create(shape(body["apiVersion"], body["kind"]), stored(copy.deepcopy(body))))


def of(api_version: str, kind: str, **more: Any) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, **more}


def container(**more: Any) -> Json:
    return pod(containers=[{"name": "c", "image": "i", **more}])


def port(**more: Any) -> Json:
    return container(ports=[{"containerPort": 80, **more}])


C, P = "spec.containers[0]", "spec.containers[0].ports[0]"
EXEC: Json = {"exec": {"command": ["x"]}}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (pod(containers=[]), ["Required spec.containers"]),
        (pod(containers=[{"name": "", "image": "i"}]), [f"Required {C}.name"]),
        (pod(containers=[{"name": "A", "image": "i"}]), [f"Invalid {C}.name"]),
        (pod(containers=[{"name": "c"}]), [f"Required {C}.image"]),
        (pod(containers=[{"name": "c", "image": " i"}]), [f"Invalid {C}.image"]),
        (pod(containers=[{"name": "c", "image": "i "}]), [f"Invalid {C}.image"]),
        (pod(containers=[{"name": "c", "image": "i"}] * 2), ["Duplicate spec.containers[1].name"]),
        (pod(containers=[{"name": "", "image": "i"}] * 2), [f"Required {C}.name", "Required spec.containers[1].name"]),
        # Ports: 1 to 65535; that of the host may be left out.
        (port(containerPort=1), []),
        (port(containerPort=65535), []),
        (port(containerPort=65536), [f"Invalid {P}.containerPort"]),
        (port(containerPort=-1), [f"Invalid {P}.containerPort"]),
        (port(hostPort=0), []),
        (port(hostPort=1), []),
        (port(hostPort=65535), []),
        (port(hostPort=65536), [f"Invalid {P}.hostPort"]),
        (port(hostPort=-1), [f"Invalid {P}.hostPort"]),
        (port(protocol="SCTP"), []),
        (container(ports=[{"containerPort": 80}, {"containerPort": 80}]), []),
        (container(ports=[{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "b"}]), []),
        (container(imagePullPolicy="IfNotPresent", terminationMessagePolicy="FallbackToLogsOnError"), []),
        # Environment: a value or one source, which says which key.
        (container(env=[{"name": "a", "valueFrom": {"configMapKeyRef": {"name": "m", "key": ""}}}]),
         [f"Required {C}.env[0].valueFrom.configMapKeyRef.key"]),
        (container(env=[{"name": "a", "valueFrom": {"secretKeyRef": {"name": "m", "key": ""}}}]),
         [f"Required {C}.env[0].valueFrom.secretKeyRef.key"]),
        (container(env=[{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": ""}}}]),
         [f"Required {C}.env[0].valueFrom.fieldRef.fieldPath"]),
        (container(env=[{"name": "a", "value": "", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]), []),
        (container(env=[{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]), []),
        # Mounts: of a volume of the pod, each at a place of its own, below it or not.
        (pod(volumes=[{"name": "v"}], containers=[{"name": "c", "image": "i", "volumeMounts": [
            {"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}]}]),
         [f"Invalid {C}.volumeMounts[1].mountPath"]),
        (pod(volumes=[{"name": "v"}], containers=[{"name": "c", "image": "i", "volumeMounts": [
            {"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b", "subPath": "x/..y"}]}]), []),
        (pod(volumes=[{"name": "v"}], containers=[{"name": "c", "image": "i", "volumeMounts": [
            {"name": "v", "mountPath": "/a", "subPath": "/x"}]}]), [f"Invalid {C}.volumeMounts[0].subPath"]),
        (pod(volumes=[{"name": "v"}], containers=[{"name": "c", "image": "i", "volumeMounts": [
            {"name": "v", "mountPath": "/a", "subPath": "x/../y"}]}]), [f"Invalid {C}.volumeMounts[0].subPath"]),
        (container(volumeMounts=[{"name": "", "mountPath": ""}, {"name": "", "mountPath": ""}]),
         [f"{reason} {C}.volumeMounts[{n}].{field}" for n, reason in ((0, "Required"), (1, "Required"))
          for field in ("name", "mountPath")]),
        # Probes: one handler, seconds that are not negative, one success but for readiness.
        (container(livenessProbe={**EXEC, "successThreshold": 1}), []),
        (container(startupProbe={**EXEC, "successThreshold": 2}), [f"Invalid {C}.startupProbe.successThreshold"]),
        (container(readinessProbe={**EXEC, "successThreshold": 2}), []),
        (container(readinessProbe={}), [f"Required {C}.readinessProbe"]),
        (container(startupProbe={}), [f"Required {C}.startupProbe"]),
        *((container(readinessProbe={**EXEC, name: -1}), [f"Invalid {C}.readinessProbe.{name}"])
          for name in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold",
                       "failureThreshold")),
        *((container(readinessProbe={**EXEC, name: 1}), [])
          for name in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "failureThreshold")),
        (container(readinessProbe={"exec": {"command": []}}), [f"Required {C}.readinessProbe.exec.command"]),
        *((container(readinessProbe={"tcpSocket": {"port": port}}), []) for port in (1, 65535, "http")),
        *((container(readinessProbe={"tcpSocket": {"port": port}}),
           [f"Invalid {C}.readinessProbe.tcpSocket.port"]) for port in (0, 65536, "a--b", "-a", "a-", "1")),
        (container(readinessProbe={"grpc": {"port": 1}, "exec": {"command": ["x"]}, "tcpSocket": {"port": 1}}),
         [f"Forbidden {C}.readinessProbe.tcpSocket", f"Forbidden {C}.readinessProbe.grpc"]),
        (container(lifecycle={"preStop": {"sleep": {"seconds": 1}, "exec": {"command": ["x"]}}}),
         [f"Forbidden {C}.lifecycle.preStop.sleep"]),
        # Init containers have probes only if they go on running.
        *((pod(initContainers=[{"name": "i", "image": "i", name: EXEC if name != "lifecycle" else {"preStop": EXEC}}]),
           [f"Forbidden spec.initContainers[0].{name}"])
          for name in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle")),
        (pod(initContainers=[{"name": "i", "image": "i", "restartPolicy": "Always", "livenessProbe": EXEC}]), []),
        (pod(initContainers=[{"name": "i", "image": "i"}]), []),
    ],
)  # fmt: skip
def test_containers(body: Json, expected: list[str]) -> None:
    """ValidateContainers, validateInitContainers."""
    assert found(body) == expected


def resources(requests: Json | None = None, limits: Json | None = None, **more: Any) -> Json:
    parts = {"requests": requests, "limits": limits}
    return container(resources={**{name: part for name, part in parts.items() if part}, **more})


def claiming(*claims: Json) -> Json:
    """A pod with a claim "a", and a container that uses some claims."""
    with_claim = pod(resourceClaims=[{"name": "a", "resourceClaimName": "x"}])
    with_claim["spec"]["containers"] = resources(claims=list(claims))["spec"]["containers"]
    return with_claim


R = f"{C}.resources"
GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (resources({"cpu": "1"}, {"cpu": "1"}), []),
        (resources({"cpu": "1000m"}, {"cpu": "1"}), []),
        (resources({"cpu": "1001m"}, {"cpu": "1"}), [f"Invalid {R}.requests"]),
        (resources({"cpu": "999m"}, {"cpu": "1"}), []),
        (resources({"cpu": "1"}), []),
        (resources(None, {"cpu": "-1"}), [f"Invalid {R}.limits[cpu]", f"Invalid {R}.requests[cpu]"]),
        (resources({"ephemeral-storage": "1Gi"}), []),
        # What is not overcommitted has a limit, and that is its request.
        (resources({GPU: "1"}, {GPU: "1"}), []),
        (resources({GPU: "1"}, {GPU: "2"}), [f"Invalid {R}.requests"]),
        (resources({GPU: "2"}, {GPU: "1"}), [f"Invalid {R}.requests"]),
        (resources({GPU: "1"}), [f"Required {R}.limits"]),
        (resources({GPU: "1500m"}, {GPU: "1500m"}),
         [f"Invalid {R}.limits[{GPU}]", f"Invalid {R}.requests[{GPU}]"]),
        (resources({"cpu": "1500m"}), []),
        (resources({"cpu": "1", "hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "4Mi"}), []),
        (resources({"memory": "1Gi", "hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "4Mi"}), []),
        (resources({"cpu": "1", "hugepages-2Mi": "4Mi"}), [f"Required {R}.limits"]),
        # Names: those of Kubernetes, or of vendors in a domain of theirs.
        (resources({"kubernetes.io/x": "1", "deviceclass.resource.kubernetes.io/x": "1"}), []),
        (resources({"a b": "1"}), [f"Invalid {R}.requests[a b]"]),
        (
            resources({"requests.a.com/x": "1"}, {"requests.a.com/x": "1"}),
            [f"Invalid {R}.limits[requests.a.com/x]", f"Invalid {R}.requests[requests.a.com/x]"],
        ),
        (claiming({"name": "a"}, {"name": "a", "request": "r"}), []),
        (claiming({"name": "a"}, {"name": "a"}), [f"Duplicate {R}.claims[1]"]),
        (resources(claims=[{"name": ""}]), [f"Required {R}.claims[0].name"]),
        # What a pod states for all of its containers.
        (pod(resources={"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}), []),
        (pod(resources={"requests": {"hugepages-2Mi": "2Mi", "cpu": "1"}, "limits": {"hugepages-2Mi": "2Mi"}}), []),
        (pod(resources={"requests": {"ephemeral-storage": "1Gi"}}),
         ["NotSupported spec.resources.requests[ephemeral-storage]"]),
        (pod(resources={"limits": {"ephemeral-storage": "1Gi"}}),
         [f"NotSupported spec.resources.{part}[ephemeral-storage]" for part in ("limits", "requests")]),
        (pod(overhead={"cpu": "0"}), []),
        (pod(overhead={GPU: "1500m"}), [f"Invalid spec.overhead[{GPU}]"]),
        (pod(overhead={"pods": "1500m"}), ["Invalid spec.overhead[pods]"]),
    ],
)  # fmt: skip
def test_resources(body: Json, expected: list[str]) -> None:
    """ValidateResourceRequirements, validatePodResources; requests that are missing are the limits (defaulting)."""
    assert found(body) == expected


def claimed(*claims: Json) -> Json:
    return pod(resourceClaims=list(claims))


def tolerating(**toleration: Any) -> Json:
    return pod(tolerations=[toleration])


def spread(**constraint: Any) -> Json:
    return pod(
        topologySpreadConstraints=[
            {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", **constraint}
        ]
    )


S, T = "spec.topologySpreadConstraints[0]", "spec.tolerations[0]"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (claimed({"name": "a", "resourceClaimName": "c"}, {"name": "b", "resourceClaimTemplateName": "t"}), []),
        (claimed({"name": "a", "resourceClaimName": "c", "resourceClaimTemplateName": "t"}),
         ["Invalid spec.resourceClaims[0]"]),
        (claimed({"name": "a", "resourceClaimName": "c"}, {"name": "a", "resourceClaimName": "d"}),
         ["Duplicate spec.resourceClaims[1].name"]),
        (claimed({"name": "A", "resourceClaimName": "c"}), ["Invalid spec.resourceClaims[0].name"]),
        (pod(restartPolicy="OnFailure", dnsPolicy="Default"), []),
        (pod(restartPolicy="Sometimes"), ["NotSupported spec.restartPolicy"]),
        (pod(activeDeadlineSeconds=1), []),
        (pod(activeDeadlineSeconds=2**31 - 1), []),
        (pod(activeDeadlineSeconds=2**31), ["Invalid spec.activeDeadlineSeconds"]),
        (pod(readinessGates=[{"conditionType": "a.com/x"}]), []),
        (pod(readinessGates=[{"conditionType": "a b"}]), ["Invalid spec.readinessGates[0].conditionType"]),
        (pod(readinessGates=[{"conditionType": ""}]), ["Invalid spec.readinessGates[0].conditionType"] * 2),
        (pod(schedulingGates=[{"name": "a b"}]), ["Invalid spec.schedulingGates[0]"]),
        (pod(schedulingGates=[{"name": "a"}, {"name": "b"}]), []),
        (pod(schedulingGates=[{"name": "a"}], nodeName="n"), ["Forbidden spec.nodeName"]),
        (pod(nodeName="n"), []),
        *((pod(**{name: "A!"}), [f"Invalid spec.{name}"])
          for name in ("serviceAccountName", "nodeName", "hostname", "subdomain", "priorityClassName",
                       "runtimeClassName")),
        *((pod(**{name: "a"}), []) for name in ("subdomain", "runtimeClassName", "hostname")),
        (pod(preemptionPolicy="Never"), []),
        (pod(schedulingGroup={}), ["Invalid spec.schedulingGroup.podGroupName"]),
        (pod(schedulingGroup={"podGroupName": "A"}), ["Invalid spec.schedulingGroup.podGroupName"]),
        (pod(schedulingGroup={"podGroupName": "g"}), []),
        # Tolerations: key, operator, value and effect go together.
        (tolerating(operator="Exists"), []),
        (tolerating(operator="Equal", value="v"), [f"Invalid {T}.operator"]),
        (tolerating(key="a", value="v"), []),
        (tolerating(key="a b", operator="Exists"), [f"Invalid {T}.key"]),
        (tolerating(key="a", operator="Exists", value="v"), [f"Invalid {T}.operator"]),
        (tolerating(key="a", operator="Equal", value="v w"), [f"Invalid {T}.operator"]),
        (tolerating(key="a", operator="Lt", value="1"), [f"NotSupported {T}.operator"]),
        (tolerating(key="a", operator="Near"), [f"NotSupported {T}.operator"]),
        (tolerating(key="a", effect="NoSchedule", tolerationSeconds=1), [f"Invalid {T}.effect"]),
        (tolerating(key="a", effect="NoExecute", tolerationSeconds=1), []),
        (tolerating(key="a", tolerationSeconds=1), [f"Invalid {T}.effect"]),
        (tolerating(key="a", effect="PreferNoSchedule"), []),
        # Spreading.
        (spread(), []),
        (spread(maxSkew=0), [f"Invalid {S}.maxSkew"]),
        (spread(topologyKey=""), [f"Required {S}.topologyKey"]),
        (spread(topologyKey="a b"), []),
        (spread(whenUnsatisfiable="Never"), [f"NotSupported {S}.whenUnsatisfiable"]),
        (spread(minDomains=1), []),
        (spread(minDomains=0), [f"Invalid {S}.minDomains"]),
        (spread(nodeAffinityPolicy="Honor", nodeTaintsPolicy="Ignore"), []),
        (spread(nodeAffinityPolicy="X", nodeTaintsPolicy="Y"),
         [f"NotSupported {S}.nodeAffinityPolicy", f"NotSupported {S}.nodeTaintsPolicy"]),
        (spread(matchLabelKeys=["a"]), [f"Forbidden {S}.matchLabelKeys"]),
        (spread(matchLabelKeys=["a"], labelSelector={}), []),
        (spread(matchLabelKeys=["a b"], labelSelector={}), [f"Invalid {S}.matchLabelKeys[0]"]),
        (spread(labelSelector={"matchLabels": {"a b": "c"}}), [f"Invalid {S}.labelSelector.matchLabels"]),
        (pod(topologySpreadConstraints=[
            {"maxSkew": n, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"} for n in (1, 2)]),
         ["Duplicate spec.topologySpreadConstraints[1].{topologyKey, whenUnsatisfiable}"]),
        (pod(topologySpreadConstraints=[
            {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": when}
            for when in ("DoNotSchedule", "ScheduleAnyway")]), []),
    ],
)  # fmt: skip
def test_fields_of_a_pod(body: Json, expected: list[str]) -> None:
    """ValidatePodSpec."""
    assert found(body) == expected


def node_affinity(**more: Any) -> Json:
    return pod(affinity={"nodeAffinity": more})


def required(*terms: Json) -> Json:
    return node_affinity(requiredDuringSchedulingIgnoredDuringExecution={"nodeSelectorTerms": list(terms)})


def expression(operator: str, *values: str, key: str = "a") -> Json:
    made: Json = {"key": key, "operator": operator}
    return {**made, "values": list(values)} if values else made


def near(kind: str = "podAffinity", /, **term: Any) -> Json:
    return pod(affinity={kind: {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z", **term}]}})


def preferred(kind: str, weight: int, **term: Any) -> Json:
    inner = "preference" if kind == "nodeAffinity" else "podAffinityTerm"
    given = {"matchExpressions": [expression("Exists")]} if kind == "nodeAffinity" else {"topologyKey": "z"}
    terms = [{"weight": weight, inner: {**given, **term}}]
    return pod(affinity={kind: {"preferredDuringSchedulingIgnoredDuringExecution": terms}})


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
N = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
ONE = f"{N}[0].matchExpressions[0]"
A = f"spec.affinity.podAffinity.{_REQUIRED}[0]"
FIELD: Json = {"key": "metadata.name", "operator": "In", "values": ["n"]}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (required(), [f"Required {N}"]),
        (required({}), []),
        *((required({"matchExpressions": [expression(operator, "1")]}), [])
          for operator in ("In", "NotIn", "Lt", "Gt")),
        *((required({"matchExpressions": [expression(operator)]}), []) for operator in ("Exists", "DoesNotExist")),
        *((required({"matchExpressions": [expression(operator)]}), [f"Required {ONE}.values"])
          for operator in ("In", "NotIn", "Lt", "Gt")),
        *((required({"matchExpressions": [expression(operator, "1")]}), [f"Forbidden {ONE}.values"])
          for operator in ("Exists", "DoesNotExist")),
        (required({"matchExpressions": [expression("Lt", "1", "2")]}), [f"Required {ONE}.values"]),
        (required({"matchExpressions": [expression("In", "1", "2")]}), []),
        (required({"matchExpressions": [expression("Near")]}), [f"Invalid {ONE}.operator"]),
        (required({"matchExpressions": [expression("Exists", key="a b")]}), [f"Invalid {ONE}.key"]),
        (required({"matchFields": [FIELD]}), []),
        (required({"matchFields": [{**FIELD, "operator": "NotIn"}]}), []),
        (required({"matchFields": [{**FIELD, "operator": "Exists"}]}), [f"Invalid {N}[0].matchFields[0].operator"]),
        (required({"matchFields": [{**FIELD, "values": ["n", "m"]}]}), [f"Required {N}[0].matchFields[0].values"]),
        (required({"matchFields": [{**FIELD, "values": ["N!"]}]}), [f"Invalid {N}[0].matchFields[0].values[0]"]),
        (required({"matchFields": [{**FIELD, "key": "spec.name"}]}), [f"Invalid {N}[0].matchFields[0].key"]),
        *((preferred(kind, weight), []) for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity")
          for weight in (1, 100)),
        *((preferred(kind, weight), [f"Invalid spec.affinity.{kind}.{_PREFERRED}[0].weight"])
          for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity") for weight in (0, 101)),
        (preferred("nodeAffinity", 1, matchExpressions=[expression("In")]),
         [f"Required spec.affinity.nodeAffinity.{_PREFERRED}[0].preference.matchExpressions[0].values"]),
        (preferred("podAntiAffinity", 1, topologyKey="a b"),
         [f"Invalid spec.affinity.podAntiAffinity.{_PREFERRED}[0].podAffinityTerm.topologyKey"]),
        (near(), []),
        (near(topologyKey=""), [f"Required {A}.topologyKey", f"Invalid {A}.topologyKey", f"Invalid {A}.topologyKey"]),
        (near(namespaces=["a", "B"]), [f"Invalid {A}.namespace"]),
        (near(labelSelector={"matchExpressions": [expression("In", "a b")]}),
         [f"Invalid {A}.labelSelector.matchExpressions[0].values[0]"]),
        (near(labelSelector={"matchExpressions": [expression("Lt", "1")]}),
         [f"Invalid {A}.labelSelector.matchExpressions[0].operator"]),
        (near(namespaceSelector={"matchLabels": {"a": "b c"}}), [f"Invalid {A}.namespaceSelector.matchLabels"]),
        *((near("podAffinity", **{name: ["a"]}), [f"Forbidden {A}.{name}"])
          for name in ("matchLabelKeys", "mismatchLabelKeys")),
        *((near("podAffinity", **{name: ["a", "b c"]}, labelSelector={}), [f"Invalid {A}.{name}[1]"])
          for name in ("matchLabelKeys", "mismatchLabelKeys")),
        (near(matchLabelKeys=["a", "b"], mismatchLabelKeys=["c", "b"], labelSelector={}),
         [f"Invalid {A}.matchLabelKeys[1]"]),
        (near(matchLabelKeys=["a"], mismatchLabelKeys=["b"], labelSelector={}), []),
        (near("podAntiAffinity", topologyKey=""),
         [f"{reason} spec.affinity.podAntiAffinity.{_REQUIRED}[0].topologyKey"
          for reason in ("Required", "Invalid", "Invalid")]),
    ],
)  # fmt: skip
def test_affinity(body: Json, expected: list[str]) -> None:
    """validateAffinity: node and pod terms, required and preferred."""
    assert found(body) == expected


@pytest.mark.parametrize(
    ("claims", "count"),
    [(["a"], 0), (["a", "b", "a"], 1)],
)
def test_label_keys_that_are_shared_are_reported_with_both_places(claims: list[str], count: int) -> None:
    body = near(matchLabelKeys=["x", "b"], mismatchLabelKeys=claims, labelSelector={})
    errors = validate_create(shape("v1", "Pod"), stored(body))
    assert len(errors) == count
    assert all("mismatchLabelKeys[1]" in error.message for error in errors)


def volumes(**source: Any) -> Json:
    return pod(volumes=[{"name": "v", **source}])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (volumes(hostPath={"path": ""}), ["Required spec.volumes[0].hostPath.path"]),
        (volumes(secret={"secretName": ""}), ["Required spec.volumes[0].secret.secretName"]),
        (volumes(configMap={"name": ""}), ["Required spec.volumes[0].configMap.name"]),
        (volumes(configMap={"name": "m"}), []),
        (volumes(), []),  # an emptyDir by default
        (pod(volumes=[{"name": ""}]), ["Required spec.volumes[0].name"]),
        (pod(volumes=[{"name": "A"}]), ["Invalid spec.volumes[0].name"]),
        (of("v1", "PersistentVolume", spec={"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                                            "hostPath": {"path": "/"}}), []),
        (of("v1", "PersistentVolume", spec={"capacity": {"storage": "1Gi", "cpu": "1"}, "accessModes": [],
                                            "hostPath": {"path": "/"}, "nfs": {"server": "s", "path": "/"}}),
         ["Required spec.accessModes", "NotSupported spec.capacity", "Forbidden spec.nfs"]),
        (of("v1", "PersistentVolume", spec={"accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/"},
                                            "persistentVolumeReclaimPolicy": "X", "volumeMode": "Y"}),
         ["Required spec.capacity", "NotSupported spec.persistentVolumeReclaimPolicy",
          "NotSupported spec.volumeMode"]),
        (of("v1", "PersistentVolume", spec={"capacity": {"storage": "1"}, "accessModes": ["ReadWriteOnce"],
                                            "hostPath": {"path": "/"},
                                            "nodeAffinity": {"required": {"nodeSelectorTerms": []}}}),
         ["Required spec.nodeAffinity.required.nodeSelectorTerms"]),
        *((of("v1", "PersistentVolumeClaim", spec={
            "accessModes": modes, "resources": {"requests": {"storage": "1"}}}), expected)
          for modes, expected in ((["ReadWriteOncePod"], []), (["ReadWriteOnce", "ReadWriteMany"], []),
                                  (["ReadWriteOncePod", "ReadWriteOnce"], ["Forbidden spec.accessModes"]))),
        (of("v1", "PersistentVolumeClaim", spec={"accessModes": ["ReadWriteOnce"], "storageClassName": "A!",
                                                 "volumeMode": "X", "resources": {"requests": {"storage": "0"}},
                                                 "selector": {"matchLabels": {"a b": ""}}}),
         ["Invalid spec.selector.matchLabels", "Invalid spec.resources[storage]", "Invalid spec.storageClassName",
          "NotSupported spec.volumeMode"]),
        (of("storage.k8s.io/v1", "StorageClass", provisioner="a b", volumeBindingMode="X"),
         ["Invalid provisioner", "NotSupported volumeBindingMode"]),
        (of("storage.k8s.io/v1", "StorageClass", provisioner="Example.com/X", volumeBindingMode="WaitForFirstConsumer",
            reclaimPolicy="Retain"), []),
        (of("storage.k8s.io/v1", "CSINode", spec={"drivers": [
            {"name": "a", "nodeID": "n", "allocatable": {"count": 0}},
            {"name": "b", "nodeID": "n", "allocatable": {"count": -1}}, {"name": "", "nodeID": "n"},
            {"name": "", "nodeID": "n"}]}),
         ["Invalid spec.drivers[1].allocatable.count", "Required spec.drivers[2].name",
          "Required spec.drivers[3].name"]),
    ],
)  # fmt: skip
def test_volumes(body: Json, expected: list[str]) -> None:
    """ValidateVolumes, ValidatePersistentVolume, ValidatePersistentVolumeClaimSpec, storage.k8s.io."""
    assert found(body) == expected


def requests(*made: Json) -> Json:
    return of("resource.k8s.io/v1", "ResourceClaim", spec={"devices": {"requests": list(made)}})


def service(*ports: Json, **spec: Any) -> Json:
    return of("v1", "Service", spec={**({"ports": list(ports)} if ports else {}), **spec})


WEB: Json = {"port": 80}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (service(WEB), []),
        (service({"port": 1, "targetPort": 65535}), []),
        (service({"port": 65535, "targetPort": "http"}), []),
        (service({"port": 65536}), ["Invalid spec.ports[0].port", "Invalid spec.ports[0].targetPort"]),
        (service({"port": 80, "targetPort": 65536}), ["Invalid spec.ports[0].targetPort"]),
        (service({"port": 80, "targetPort": "1"}), ["Invalid spec.ports[0].targetPort"]),
        (service({"port": 80, "protocol": "X"}), ["NotSupported spec.ports[0].protocol"]),
        (service({"port": 80, "name": "A"}), ["Invalid spec.ports[0].name"]),
        (service({"port": 80, "name": "a", "protocol": "UDP"}, {"port": 80, "name": "b"}), []),
        (service({"port": 80, "name": "a"}, {"port": 80, "name": "b"}), ["Duplicate spec.ports[1]"]),
        (service({"port": 0}), ["Invalid spec.ports[0].port", "Invalid spec.ports[0].targetPort"]),
        (service({"port": 80, "name": "a"}, {"port": 81}), ["Required spec.ports[1].name"]),
        (service({"port": 80, "name": "a"}, {"port": 81, "name": "a"}), ["Duplicate spec.ports[1].name"]),
        (service(WEB, type="LoadBalancer", sessionAffinity="ClientIP"), []),
        (service(WEB, sessionAffinity="X"), ["NotSupported spec.sessionAffinity"]),
        (service(WEB, selector={"a b": "c"}), ["Invalid spec.selector"]),
        (service(WEB, selector={"a": "b c"}), ["Invalid spec.selector"]),
        (service(WEB, selector={"a": "b"}), []),
        (of("v1", "ConfigMap", data={"k": "x" * (1024 * 1024)}), []),
        (of("v1", "ConfigMap", data={"k": "é" * (512 * 1024)}), []),
        (of("v1", "ConfigMap", data={"k": "é" * (512 * 1024), "l": "x"}), ["TooLong "]),
        (of("v1", "ConfigMap", data={"k": "x" * (1024 * 1024 - 3)}, binaryData={"b": "AAAA"}), []),
        (of("v1", "ConfigMap", data={"k": "x" * (1024 * 1024 - 2)}, binaryData={"b": "AAAA"}), ["TooLong "]),
        (of("v1", "ConfigMap", binaryData={"a/b": "AAAA"}), ["Invalid binaryData[a/b]"]),
        (of("v1", "Secret", data={"a/b": "AAAA"}), ["Invalid data[a/b]"]),
        (of("v1", "Secret", data={"k": "A" * (4 * 349_525)}), []),
        (of("v1", "Secret", data={"k": "A" * (4 * 349_526)}), ["TooLong data"]),
    ],
)  # fmt: skip
def test_services_and_configuration(body: Json, expected: list[str]) -> None:
    """ValidateService, ValidateConfigMap, ValidateSecret."""
    assert found(body) == expected


def updated(before: Json, after: Json, subresource: str = "") -> list[str]:
    kind = shape(before["apiVersion"], before["kind"])
    old, new = stored(copy.deepcopy(before)), stored(copy.deepcopy(after))
    for obj in (old, new):
        obj["metadata"] |= {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return reported(validate_update(kind, new, old, subresource))


IP = {"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"]}
ADDRESS = "Invalid spec.clusterIPs[0]"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (service(WEB), service(WEB, **IP), []),
        (service(WEB, **IP), service(WEB, **IP), []),
        (service(WEB, **IP), service(WEB, selector={"a": "b"}, **IP), []),
        (service(WEB, **IP), service(WEB, clusterIP="10.0.0.8"), [ADDRESS]),
        (service(WEB, **IP), service(WEB), [ADDRESS]),
        (service(WEB, type="NodePort", **IP), service(WEB, clusterIP="10.0.0.8"), [ADDRESS]),
        # A service that becomes a name, or was one, has no address to keep.
        (service(WEB, **IP), service(type="ExternalName", externalName="a.b"), []),
        (service(type="ExternalName", externalName="a.b"), service(WEB, **IP), []),
        (service(WEB, clusterIP="None"), service(WEB, **IP), [ADDRESS]),
    ],
)
def test_address_of_a_service_stays(before: Json, after: Json, expected: list[str]) -> None:
    """ValidateServiceClusterIPsRelatedFields, ValidateServiceUpdate."""
    assert updated(before, after) == expected


FROZEN: Json = {"immutable": True}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (of("v1", "ConfigMap", data={"a": "1"}), of("v1", "ConfigMap", data={"a": "2"}, binaryData={"b": "AA=="}), []),
        (of("v1", "ConfigMap", data={"a": "1"}, **FROZEN), of("v1", "ConfigMap", data={"a": "1"}, **FROZEN), []),
        (
            of("v1", "ConfigMap", data={"a": "1"}, **FROZEN),
            of("v1", "ConfigMap", data={"a": "2"}, **FROZEN),
            ["Forbidden data"],
        ),
        (
            of("v1", "ConfigMap", **FROZEN),
            of("v1", "ConfigMap", binaryData={"b": "AA=="}, **FROZEN),
            ["Forbidden binaryData"],
        ),
        (of("v1", "Secret", data={"a": "AA=="}, **FROZEN), of("v1", "Secret", **FROZEN), ["Forbidden data"]),
        (of("v1", "Secret", **FROZEN), of("v1", "Secret"), ["Forbidden immutable"]),
    ],
)
def test_fields_that_are_immutable(before: Json, after: Json, expected: list[str]) -> None:
    assert updated(before, after) == expected


def subset(**more: Any) -> Json:
    return of("v1", "Endpoints", subsets=[{"addresses": [{"ip": "10.0.0.1"}], **more}])


U = "subsets[0]"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (of("v1", "Endpoints"), []),
        (subset(), []),
        (subset(addresses=[]), [f"Required {U}"]),
        (subset(addresses=[], notReadyAddresses=[{"ip": "10.0.0.1"}]), []),
        (subset(notReadyAddresses=[{"ip": "10.0.0.256"}]), [f"Invalid {U}.notReadyAddresses[0].ip"]),
        *((subset(addresses=[{"ip": ip}]), expected) for ip, expected in (
            ("10.0.0.1", []),
            ("fd00::1", []),
            ("", [f"Invalid {U}.addresses[0].ip"]),
            ("0.0.0.0", [f"Invalid {U}.addresses[0].ip"]),
            ("127.0.0.1", [f"Invalid {U}.addresses[0].ip"]),
            ("::1", [f"Invalid {U}.addresses[0].ip"]),
            ("169.254.0.1", [f"Invalid {U}.addresses[0].ip"]),
        )),
        (subset(ports=[{"port": 1}]), []),
        (subset(ports=[{"port": 65535, "protocol": "SCTP"}]), []),
        (subset(ports=[{"port": 0}]), [f"Invalid {U}.ports[0].port"]),
        (subset(ports=[{"port": 65536}]), [f"Invalid {U}.ports[0].port"]),
        (subset(ports=[{"port": 1, "protocol": "ICMP"}]), [f"NotSupported {U}.ports[0].protocol"]),
    ],
)  # fmt: skip
def test_addresses_and_ports_of_endpoints(body: Json, expected: list[str]) -> None:
    """ValidateEndpoints: of each subset some address, ready or not, that others can reach."""
    assert found(body) == expected
