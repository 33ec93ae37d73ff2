"""Validation: field paths and words as an API server has them (recorded answers, api.md)."""

# ruff: noqa: E501 - one broken rule per line reads as a table

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.decoding import decode_object
from kube_rules.errors import InputError, Origin

GANG = {"gang": {"minCount": 2}}


def pod(container: dict[str, Any] | None = None, /, **spec: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", **(container or {})}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def requests(limits: dict[str, str] | None = None, **found: str) -> dict[str, Any]:
    return pod(
        {
            "resources": {
                "requests": {name.replace("__", ".com/"): q for name, q in found.items()},
                "limits": limits or {},
            }
        }
    )


def group(version: str = "v1beta1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": GANG, **spec},
    }


def workload(*templates: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": "w"},
        "spec": {"podGroupTemplates": list(templates)},
    }


def template(name: str = "a", **more: Any) -> dict[str, Any]:
    return {"name": name, "schedulingPolicy": GANG, **more}


def meta(**found: Any) -> dict[str, Any]:
    return {**pod(), "metadata": {"name": "p", **found}}


def node(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": spec}


def declaring(*features: str) -> dict[str, Any]:
    return {**node(), "status": {"declaredFeatures": list(features)}}


def taint_rule(selector: dict[str, str] | None = None, **taint: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"taint": {"key": "a", "effect": "None", **taint}}
    if selector is not None:
        spec["deviceSelector"] = selector
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": "r"}, "spec": spec}


def device_class(serves: str) -> dict[str, Any]:
    spec = {"extendedResourceName": serves}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "c"}, "spec": spec}


def priority_class(name: str = "c", **found: Any) -> dict[str, Any]:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, **found}


def budget(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec}


def affinity(**rules: Any) -> dict[str, Any]:
    return pod(affinity=rules)


def node_terms(*expressions: dict[str, Any], fields: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    terms = [{"matchExpressions": list(expressions), "matchFields": list(fields)}]
    return affinity(nodeAffinity={"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}})


REQUIRED = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
ANTI = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution"
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}

BROKEN = [
    # names and labels
    (meta(name="Bad_Name"), 'metadata.name: Invalid value: "Bad_Name": a lowercase RFC 1123 subdomain'),
    (meta(name=""), "metadata.name: Required value"),
    (meta(name="a" * 254), "metadata.name: Invalid value"),
    (meta(namespace="a.b"), 'metadata.namespace: Invalid value: "a.b": must not contain dots'),
    (meta(labels={"a": "not ok!"}), 'metadata.labels: Invalid value: "not ok!": a valid label'),
    (meta(labels={"-bad-": "x"}), 'metadata.labels: Invalid value: "-bad-": name part must consist'),
    (meta(labels={"a/b/c": "x"}), 'metadata.labels: Invalid value: "a/b/c": a qualified name'),
    # quantities
    (requests(cpu="1x"), 'spec.containers[0].resources.requests[cpu]: Invalid value: "1x": quantities must match'),
    (requests(cpu="-1"), 'spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0'),
    (requests({"cpu": "1"}, cpu="2"), 'resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'),
    (requests(nvidia__gpu="500m"), 'requests[nvidia.com/gpu]: Invalid value: "500m": must be an integer'),
    (requests({"nvidia.com/gpu": "2"}, nvidia__gpu="1"), "must be equal to nvidia.com/gpu limit of 2"),
    (requests(gpu="1"), 'requests[gpu]: Invalid value: "gpu": must be a standard resource'),
    (pod(overhead={"cpu": "x"}), 'spec.overhead[cpu]: Invalid value: "x"'),
    (pod(resources={"requests": {"pods": "1"}}), 'spec.resources.requests[pods]: Invalid value: "pods"'),
    ({**node(), "status": {"allocatable": {"cpu": "-1"}}}, 'status.allocatable.cpu: Invalid value: "-1": must be greater'),
    # containers and ports
    (pod(containers=[]), "spec.containers: Required value"),
    (pod(containers=[{"name": "c"}, {"name": "c"}]), 'spec.containers[1].name: Duplicate value: "c"'),
    (pod(initContainers=[{"name": "c"}]), 'spec.initContainers[0].name: Duplicate value: "c"'),
    (pod({"ports": [{"containerPort": 0}]}), "spec.containers[0].ports[0].containerPort: Required value"),
    (pod({"ports": [{"containerPort": 1, "hostPort": 65536}]}), "ports[0].hostPort: Invalid value: 65536"),
    (pod({"ports": [{"containerPort": 1, "protocol": "tcp"}]}), 'ports[0].protocol: Unsupported value: "tcp"'),
    # types, with the exact place
    (pod({"ports": [{"containerPort": 1}, {"containerPort": "x"}]}), 'spec.containers[0].ports[1].containerPort: Invalid value: "x": expected `int`, got `str`'),
    (meta(labels={"a": "b", "c": 1}), "metadata.labels[c]: Invalid value: 1: expected `str`, got `int`"),
    (pod(tolerations={}), "spec.tolerations: Invalid value: expected `array`, got `object`"),
    # tolerations and taints
    (pod(tolerations=[{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}]), "spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute'"),
    (pod(tolerations=[{"key": "b", "operator": "Exists", "value": "v"}]), "value must be empty when `operator` is 'Exists'"),
    (pod(tolerations=[{"operator": "Equal", "value": "v"}]), "operator must be Exists when `key` is empty"),
    (pod(tolerations=[{"key": "a", "operator": "Weird"}]), 'spec.tolerations[0].operator: Unsupported value: "Weird"'),
    (pod(tolerations=[{"key": "a", "effect": "Nope"}]), 'spec.tolerations[0].effect: Unsupported value: "Nope"'),
    (node(taints=[{"key": "a", "effect": "Nope"}]), 'metadata.taints[0].effect: Unsupported value: "Nope"'),
    (node(taints=[{"key": "b", "effect": "NoSchedule"}, {"key": "b", "value": "2", "effect": "NoSchedule"}]), "metadata.taints[1]: Duplicate value"),
    # affinity and spreading
    (node_terms({"key": "k", "operator": "In", "values": []}), f"{REQUIRED}[0].matchExpressions[0].values: Required value"),
    (node_terms({"key": "g", "operator": "Gt", "values": ["1", "2"]}), "must be specified single value when `operator` is 'Lt' or 'Gt'"),
    (node_terms({"key": "e", "operator": "Exists", "values": ["z"]}), f"{REQUIRED}[0].matchExpressions[0].values: Forbidden"),
    (node_terms({"key": "e", "operator": "Near"}), f'{REQUIRED}[0].matchExpressions[0].operator: Invalid value: "Near"'),
    (node_terms(fields=({"key": "spec.x", "operator": "In", "values": ["a"]},)), "matchFields[0].key: Invalid value"),
    (affinity(nodeAffinity={"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "preference": {}}]}), "must be in the range 1-100"),
    (affinity(podAntiAffinity={"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ""}]}), f"{ANTI}[0].topologyKey: Required value"),
    (pod(topologySpreadConstraints=[{**SPREAD, "maxSkew": 0}]), "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero"),
    (pod(topologySpreadConstraints=[{**SPREAD, "whenUnsatisfiable": "X"}]), 'whenUnsatisfiable: Unsupported value: "X"'),
    (pod(topologySpreadConstraints=[{**SPREAD, "minDomains": 0}]), "minDomains: Invalid value: 0"),
    # scheduling fields
    (pod(nodeName="n1", schedulingGates=[{"name": "example.com/g"}]), "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"),
    (pod(schedulingGroup={}), "spec.schedulingGroup.podGroupName: Invalid value: null: must specify one of: `podGroupName`"),
    (pod(schedulingGroup={"podGroupName": "Bad_Name"}), 'spec.schedulingGroup.podGroupName: Invalid value: "Bad_Name"'),
    (pod(workloadRef={"name": "w"}), "spec.workloadRef: Forbidden: scheduling.k8s.io/v1alpha1 is not served: name the group in spec.schedulingGroup"),
    (pod(initContainers=[{"name": "i", "restartPolicy": "Foo"}]), 'spec.initContainers[0].restartPolicy: Unsupported value: "Foo": supported values: "Always", "OnFailure", "Never"'),
    (pod(preemptionPolicy="Sometimes"), 'spec.preemptionPolicy: Unsupported value: "Sometimes"'),
    # priority classes and budgets
    (priority_class(value=1_000_000_001), "value: Forbidden: maximum allowed value of a user defined priority is 1000000000"),
    (priority_class("system-foo", value=5), "metadata.name: Forbidden: priority class names with 'system-' prefix"),
    (priority_class(value=1, preemptionPolicy="Sometimes"), 'preemptionPolicy: Unsupported value: "Sometimes": supported values: "PreemptLowerPriority", "Never"'),
    (budget(minAvailable=1, maxUnavailable=1), "minAvailable and maxUnavailable cannot be both set"),
    (budget(minAvailable="150%"), 'spec.minAvailable: Invalid value: "150%": must not be greater than 100%'),
    (budget(maxUnavailable="x"), 'spec.maxUnavailable: Invalid value: "x": a valid percent string'),
    (budget(maxUnavailable=-1), "spec.maxUnavailable: Invalid value: -1: must be greater than or equal to 0"),
    (budget(selector={"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}), "spec.selector.matchExpressions[0].operator"),
    # pod groups and workloads
    (group(schedulingPolicy={"gang": {"minCount": 1}, "basic": {}}), "must specify exactly one of: `basic`, `gang`"),
    (group(schedulingPolicy={}), 'spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`'),
    (group(schedulingPolicy={"gang": {}}), "spec.schedulingPolicy.gang.minCount: Required value"),
    (group(schedulingPolicy={"gang": {"minCount": 2**31}}), "gang.minCount: Invalid value: 2147483648: expected `int` <= 2147483647"),
    (group(schedulingPolicy={"gang": {"minCount": -1}}), "gang.minCount: Invalid value: -1: must be greater than or equal to 1"),
    (group(schedulingPolicy={"basic": {}}, disruptionMode={"all": {}}), "spec.disruptionMode: Forbidden"),
    (group("v1alpha2", schedulingPolicy={"basic": {}}, disruptionMode="PodGroup"), "spec.disruptionMode: Forbidden"),
    (group("v1alpha2", disruptionMode="All"), 'spec.disruptionMode: Unsupported value: "All": supported values: "Pod", "PodGroup"'),
    (group(disruptionMode={"all": {}, "single": {}}), "must specify exactly one of: `all`, `single`"),
    (group(disruptionMode={}), "must specify one of: `all`, `single`"),
    (group(schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]}), "spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item"),
    (group(schedulingConstraints={"topology": [{"key": "not a key"}]}), "topology[0].key: Invalid value"),
    (group(schedulingConstraints={"topology": [{}]}), "topology[0].key: Required value"),
    (group(priority=1_000_000_001), "spec.priority: Invalid value: 1000000001: must be less than or equal to 1000000000"),
    (group(workloadRef={}), "spec.workloadRef.workloadName: Required value"),
    (workload(), 'spec: Invalid value: "": must specify one of: `podGroupTemplates`'),
    (workload(*(template(f"t{i}") for i in range(9))), "spec.podGroupTemplates: Too many: 9: must have at most 8 items"),
    (workload(template(), template()), "spec.podGroupTemplates[1]: Duplicate value"),
    (workload(template("A.b")), 'spec.podGroupTemplates[0].name: Invalid value: "A.b": a lowercase RFC 1123 label'),
    (workload(template("")), "spec.podGroupTemplates[0].name: Required value"),
    (workload(template(schedulingPolicy={})), "spec.podGroupTemplates[0].schedulingPolicy: Invalid value"),
    (workload({**template(schedulingPolicy={"basic": {}}), "disruptionMode": {"all": {}}}), "spec.podGroupTemplates[0].disruptionMode: Forbidden"),
    # devices (devices.md 2.1, 3.3, 4.1)
    (declaring("a"), 'status.declaredFeatures[0]: Invalid value: "a": invalid feature name'),
    (declaring("B", "A"), 'status.declaredFeatures[1]: Invalid value: "A": list must be sorted alphabetically'),
    (declaring("A", "A"), 'status.declaredFeatures[1]: Duplicate value: "A"'),
    (taint_rule(effect="PreferNoSchedule"), 'spec.taint.effect: Unsupported value: "PreferNoSchedule"'),
    (taint_rule(key="a b"), 'spec.taint.key: Invalid value: "a b"'),
    (taint_rule({"driver": "A"}), 'spec.deviceSelector.driver: Invalid value: "A"'),
    (taint_rule({"pool": "a//b"}), 'spec.deviceSelector.pool: Invalid value: ""'),
    (taint_rule({"device": "a.b"}), 'spec.deviceSelector.device: Invalid value: "a.b"'),
    (device_class("gpu"), 'spec.extendedResourceName: Invalid value: "gpu": must be a valid extended resource name'),
    (device_class("node.kubernetes.io/gpu"), 'spec.extendedResourceName: Invalid value: "node.kubernetes.io/gpu"'),
    # kinds and versions
    ({"apiVersion": "v2", "kind": "Pod"}, 'apiVersion: no kind "Pod" is read in version "v2": use v1'),
    ({"kind": "Pod"}, "apiVersion: Required value"),
    ({"apiVersion": "v1"}, "kind: Required value"),
    ({"apiVersion": "scheduling.k8s.io/v1alpha1", "kind": "Workload"}, "use scheduling.k8s.io/v1beta1"),
]  # fmt: skip


@pytest.mark.parametrize(("manifest", "message"), BROKEN, ids=[f"{i}" for i in range(len(BROKEN))])
def test_validation_gives_one_clear_error(manifest: dict[str, Any], message: str) -> None:
    """preemption.md 8.6, api.md 2.1, 2.4."""
    with pytest.raises(InputError) as caught:
        decode_object(manifest, Origin("f.yaml", 3))
    text = str(caught.value)
    assert text.startswith("f.yaml: document 3: ")
    assert message in text
    assert "\n" not in text


@pytest.mark.parametrize(
    "manifest",
    [
        pod(),
        requests({"nvidia.com/gpu": "1"}, cpu="1", memory="1Gi"),
        pod(tolerations=[{"operator": "Exists"}, {"key": "a", "operator": "Gt", "value": "5"}]),
        pod(affinity=None, nodeSelector=None, volumes=None),  # null is absent
        node(taints=[{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]),
        priority_class("system-node-critical", value=2_000_001_000),
        priority_class(value=1_000_000_000),
        budget(minAvailable="100%"),
        group(schedulingPolicy={"gang": {"minCount": 1}}, disruptionMode={"all": {}}, priority=1_000_000_000),
        group("v1alpha3", schedulingPolicy={"basic": {}}),
        workload(*(template(f"t{i}") for i in range(8))),
        declaring("A", "A/b", "B2"),
        taint_rule({}, key="a.b/c", value="d", effect="NoExecute"),
        taint_rule({"driver": "d.example.com", "pool": "n1/a", "device": "gpu-0"}),
        {**taint_rule(), "apiVersion": "resource.k8s.io/v1alpha3"},
        {**taint_rule(), "apiVersion": "resource.k8s.io/v1beta2"},
        device_class("example.com/gpu"),
    ],
)
def test_validation_accepts_what_an_api_server_accepts(manifest: dict[str, Any]) -> None:
    found = decode_object(manifest)
    assert manifest["kind"] == found.KIND
    assert found.name == manifest["metadata"]["name"]


def test_stored_objects_are_not_validated_again() -> None:
    stored = group(schedulingPolicy={"basic": {}}, disruptionMode={"all": {}})
    assert decode_object(stored, stored=True).name == "g"
