"""Both sides of what an API server allows: the last value it takes and the first it refuses (pkg/apis/core/validation).

One broken rule each, with the whole message, is in `test_validation`.
"""

# ruff: noqa: E501 - one rule per line reads as a table

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.decoding import decode_object
from kube_rules.errors import InputError
from tests.test_validation import (
    ANTI,
    REQUIRED,
    SPREAD,
    affinity,
    budget,
    declaring,
    device_class,
    group,
    meta,
    node,
    node_terms,
    pod,
    priority_class,
    requests,
    template,
    workload,
)

PREFERRED = "spec.affinity.{}.preferredDuringSchedulingIgnoredDuringExecution[1]"
LABELS = {"matchLabels": {"a": "b"}}


def port(**fields: Any) -> dict[str, Any]:
    return pod({"ports": [{"containerPort": 1}, {"containerPort": 1, **fields}]})


def toleration(**fields: Any) -> dict[str, Any]:
    return pod(tolerations=[{"operator": "Exists"}, fields])


def pod_term(**fields: Any) -> dict[str, Any]:
    term = {"topologyKey": "zone", **fields}
    return affinity(podAntiAffinity={"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}, term]})


def weighted(kind: str, weight: int, **fields: Any) -> dict[str, Any]:
    inner = (
        {"preference": {**fields}} if kind == "nodeAffinity" else {"podAffinityTerm": {"topologyKey": "zone", **fields}}
    )
    preferred = [{"weight": 1, **inner}, {"weight": weight, **inner}]
    return affinity(**{kind: {"preferredDuringSchedulingIgnoredDuringExecution": preferred}})


def spread(**fields: Any) -> dict[str, Any]:
    return pod(topologySpreadConstraints=[SPREAD, {**SPREAD, "topologyKey": "rack", **fields}])


def expression(operator: str, *values: str) -> dict[str, Any]:
    return node_terms({"key": "ok", "operator": "Exists"}, {"key": "k", "operator": operator, "values": list(values)})


def field(operator: str, *values: str) -> dict[str, Any]:
    return node_terms(fields=({"key": "metadata.name", "operator": operator, "values": list(values)},))


def selector(operator: str, *values: str) -> dict[str, Any]:
    return spread(labelSelector={"matchExpressions": [{"key": "k", "operator": operator, "values": list(values)}]})


def both(request: str, limit: str, name: str = "cpu") -> dict[str, Any]:
    return pod({"resources": {"requests": {name: request}, "limits": {name: limit}}})


def huge(request: str, limit: str) -> dict[str, Any]:
    amounts = {"requests": {"hugepages-2Mi": request}, "limits": {"hugepages-2Mi": limit, "cpu": "1"}}
    return pod({"resources": amounts})


def pod_level(request: str, limit: str, name: str = "cpu") -> dict[str, Any]:
    return pod(resources={"requests": {name: request}, "limits": {name: limit}})


def composite(depth: int, width: int = 1) -> dict[str, Any]:
    tree: dict[str, Any] = {**template("leaf")}
    for level in range(depth - 1):
        below = "podGroupTemplates" if level == 0 else "compositePodGroupTemplates"
        tree = {"name": f"c{level}", "schedulingPolicy": {"basic": {}}, below: [tree]}
    rest = [
        {"name": f"w{n}", "schedulingPolicy": {"basic": {}}, "podGroupTemplates": [template(f"l{n}")]}
        for n in range(width - 1)
    ]
    spec = {"compositePodGroupTemplates": [tree, *rest]}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload", "metadata": {"name": "w"}, "spec": spec}


def level(**fields: Any) -> dict[str, Any]:
    made = composite(2)
    made["spec"]["compositePodGroupTemplates"][0].update(fields)
    return made


def reference(**fields: Any) -> dict[str, Any]:
    made = workload(template())
    made["spec"]["controllerRef"] = {"kind": "Job", "name": "j", **fields}
    return made


LONG = "a" * 63
LOW = -(2**31)
CASES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    # names
    (meta(name=f"{LONG}.{LONG}.{LONG}.{'a' * 61}"), meta(name=f"{LONG}.{LONG}.{LONG}.{'a' * 62}"), "metadata.name: Invalid value"),
    (meta(namespace=LONG), meta(namespace=LONG + "a"), "metadata.namespace: Invalid value"),
    (meta(labels={LONG: LONG}), meta(labels={LONG + "a": "x"}), "metadata.labels: Invalid value"),
    (meta(labels={"a": LONG}), meta(labels={"a": LONG + "a"}), "metadata.labels: Invalid value"),
    (pod(containers=[{"name": LONG}]), pod(containers=[{"name": LONG + "a"}]), "spec.containers[0].name: Invalid value"),
    (pod(containers=[{"name": "a"}]), pod(containers=[{"name": ""}]), "spec.containers[0].name: Required value"),
    (pod(initContainers=[{"name": "a"}]), pod(initContainers=[{"name": "a"}, {"name": "A"}]), "spec.initContainers[1].name: Invalid value"),
    (pod({"restartPolicy": "Always"}), pod({"restartPolicy": "always"}), 'spec.containers[0].restartPolicy: Unsupported value: "always"'),
    # amounts
    (requests(cpu="0"), requests(cpu="-1n"), 'requests[cpu]: Invalid value: "-1n": must be greater than or equal to 0'),
    (requests({"nvidia.com/gpu": "2"}, nvidia__gpu="2000m"), requests({"nvidia.com/gpu": "2"}, nvidia__gpu="2001m"), 'requests[nvidia.com/gpu]: Invalid value: "2001m": must be an integer'),
    (both("1", "1"), both("1001m", "1"), 'resources.requests: Invalid value: "1001m": must be less than or equal to cpu limit of 1'),
    (huge("1Gi", "1024Mi"), huge("1Gi", "1026Mi"), "must be equal to hugepages-2Mi limit of 1026Mi"),
    (both("1", "1", "a.com/b"), both("1", "2", "a.com/b"), "must be equal to a.com/b limit of 2"),
    (requests({"memory": "1"}, cpu="9"), requests({"memory": "x"}, cpu="9"), 'resources.limits[memory]: Invalid value: "x"'),
    (requests(memory="1500m"), huge("1500m", "1500m"), "limits[hugepages-2Mi]: Invalid value: \"1500m\": 1500m is not positive integer multiple"),
    (both("1", "1", "ephemeral-storage"), requests(storage="1"), 'requests[storage]: Invalid value: "storage": must be a standard resource'),
    (pod_level("1", "1"), pod_level("2", "1"), 'spec.resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'),
    (pod_level("1", "1", "memory"), pod_level("1", "1", "a.com/b"), 'spec.resources.limits[a.com/b]: Unsupported value: "a.com/b": supported values: "cpu", "hugepages-", "memory"'),
    (pod(overhead={"cpu": "0"}), pod(overhead={"memory": "1", "cpu": "-1"}), 'spec.overhead[cpu]: Invalid value: "-1"'),
    # ports
    (port(containerPort=65535), port(containerPort=65536), "spec.containers[0].ports[1].containerPort: Invalid value: 65536: must be between 1 and 65535, inclusive"),
    (port(containerPort=1), port(containerPort=0), "spec.containers[0].ports[1].containerPort: Required value"),
    (port(hostPort=65535), port(hostPort=65536), "spec.containers[0].ports[1].hostPort: Invalid value: 65536: must be between 1 and 65535, inclusive"),
    (port(hostPort=0), port(hostPort=-1), "spec.containers[0].ports[1].hostPort: Invalid value: -1"),
    (port(protocol="SCTP"), port(protocol="ICMP"), 'ports[1].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"'),
    # scheduling
    (pod(priority=2**31 - 1), pod(priority=2**31), "spec.priority: Invalid value: 2147483648: expected `int` <= 2147483647"),
    (pod(priority=LOW), pod(priority=LOW - 1), "spec.priority: Invalid value: -2147483649: expected `int` >= -2147483648"),
    (pod(terminationGracePeriodSeconds=0), pod(terminationGracePeriodSeconds=-1), "spec.terminationGracePeriodSeconds: Invalid value: -1: must be greater than or equal to 0"),
    (pod(nodeName="n.a"), pod(nodeName="n_a"), 'spec.nodeName: Invalid value: "n_a"'),
    (pod(schedulingGates=[{"name": "a"}, {"name": "b"}]), pod(schedulingGates=[{"name": "a"}, {"name": "a"}]), 'spec.schedulingGates[1]: Duplicate value: "a"'),
    (pod(schedulingGates=[{"name": "a/b"}]), pod(schedulingGates=[{"name": "a/b"}, {"name": ""}]), "spec.schedulingGates[1]: Invalid value"),
    (pod(nodeName="n"), pod(nodeName="n", schedulingGates=[{"name": "a"}]), "spec.nodeName: Forbidden"),
    (pod(preemptionPolicy="Never"), pod(preemptionPolicy="never"), 'spec.preemptionPolicy: Unsupported value: "never": supported values: "PreemptLowerPriority", "Never"'),
    (pod(priorityClassName="a.b"), pod(priorityClassName="a_b"), 'spec.priorityClassName: Invalid value: "a_b"'),
    (pod(nodeSelector={"a": "b"}), pod(nodeSelector={"a": "b c"}), 'spec.nodeSelector: Invalid value: "b c": a valid label'),
    (pod(nodeSelector={"a": ""}), pod(nodeSelector={"a b": ""}), 'spec.nodeSelector: Invalid value: "a b"'),
    (pod(schedulingGroup={"podGroupName": "g.a"}), pod(schedulingGroup={"podGroupName": ""}), 'spec.schedulingGroup.podGroupName: Invalid value: ""'),
    # tolerations
    (toleration(key="a", operator="Lt", value="-5"), toleration(key="a", operator="Lt", value="x"), 'spec.tolerations[1].value: Invalid value: "x": must be an integer'),
    (toleration(key="a", operator="Gt", value="5"), toleration(key="a", operator="Gt"), 'spec.tolerations[1].value: Invalid value: "": must be an integer'),
    (toleration(key="a", value="x"), toleration(key="a", value="x y"), 'spec.tolerations[1].operator: Invalid value: "x y"'),
    (toleration(key="a", operator=""), toleration(operator=""), "spec.tolerations[1].operator: Invalid value"),
    (toleration(key="a/b"), toleration(key="a b"), 'spec.tolerations[1].key: Invalid value: "a b"'),
    (toleration(key="a", effect="NoExecute", tolerationSeconds=0), toleration(key="a", tolerationSeconds=0), 'spec.tolerations[1].effect: Invalid value: "": effect must be'),
    (toleration(key="a", effect="PreferNoSchedule"), toleration(key="a", effect="None"), 'spec.tolerations[1].effect: Unsupported value: "None": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'),
    # affinity
    *((weighted(kind, 100), weighted(kind, 101), f"{PREFERRED.format(kind)}.weight: Invalid value: 101: must be in the range 1-100") for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity")),
    *((weighted(kind, 1), weighted(kind, 0), f"{PREFERRED.format(kind)}.weight: Invalid value: 0") for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity")),
    (weighted("nodeAffinity", 1), weighted("nodeAffinity", 1, matchFields=[{"key": "x"}]), "[0].preference.matchFields[0].operator: Invalid value"),
    (weighted("podAffinity", 1), weighted("podAffinity", 1, topologyKey=""), "[0].podAffinityTerm.topologyKey: Required value"),
    (expression("In", "a", "b"), expression("In"), f"{REQUIRED}[0].matchExpressions[1].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"),
    (expression("NotIn", "a"), expression("NotIn"), f"{REQUIRED}[0].matchExpressions[1].values: Required value"),
    (expression("Exists"), expression("Exists", "a"), f"{REQUIRED}[0].matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"),
    (expression("DoesNotExist"), expression("DoesNotExist", "a"), f"{REQUIRED}[0].matchExpressions[1].values: Forbidden"),
    (expression("Gt", "1"), expression("Gt"), f"{REQUIRED}[0].matchExpressions[1].values: Required value: must be specified single value"),
    (expression("Lt", "1"), expression("Lt", "1", "2"), f"{REQUIRED}[0].matchExpressions[1].values: Required value"),
    (field("In", "n"), field("In", "n", "m"), f"{REQUIRED}[0].matchFields[0].values: Required value: must be only one value"),
    (field("NotIn", "n"), field("NotIn"), f"{REQUIRED}[0].matchFields[0].values: Required value"),
    (field("NotIn", "n"), field("Exists"), f'{REQUIRED}[0].matchFields[0].operator: Invalid value: "Exists": not a valid selector operator'),
    (field("In", "n"), field("In", "N"), f'{REQUIRED}[0].matchFields[0].values[0]: Invalid value: "N"'),
    (node_terms({"key": "a", "operator": "Exists"}), affinity(nodeAffinity={"requiredDuringSchedulingIgnoredDuringExecution": {}}), f"{REQUIRED}: Required value: must have at least one node selector term"),
    (node_terms({"key": "a", "operator": "Exists"}), node_terms({"key": "a b", "operator": "Exists"}), f'{REQUIRED}[0].matchExpressions[0].key: Invalid value: "a b"'),
    (pod_term(namespaces=["a"]), pod_term(namespaces=["a", "A"]), f'{ANTI}[1].namespace: Invalid value: "A"'),
    (pod_term(topologyKey="a/b"), pod_term(topologyKey="a b"), f'{ANTI}[1].topologyKey: Invalid value: "a b"'),
    (pod_term(labelSelector=LABELS), pod_term(labelSelector={"matchLabels": {"a": "b c"}}), f'{ANTI}[1].labelSelector.matchLabels: Invalid value: "b c"'),
    (pod_term(namespaceSelector=LABELS), pod_term(namespaceSelector={"matchLabels": {"a b": ""}}), f'{ANTI}[1].namespaceSelector.matchLabels: Invalid value: "a b"'),
    (pod_term(labelSelector={}, matchLabelKeys=["a"]), pod_term(matchLabelKeys=["a"]), f"{ANTI}[1].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"),
    (pod_term(labelSelector={}, mismatchLabelKeys=["a"]), pod_term(mismatchLabelKeys=["a"]), f"{ANTI}[1].mismatchLabelKeys: Forbidden"),
    (pod_term(labelSelector={}, matchLabelKeys=["a"], mismatchLabelKeys=["b"]), pod_term(labelSelector={}, matchLabelKeys=["a"], mismatchLabelKeys=["b", "a"]), f'{ANTI}[1].matchLabelKeys[0]: Invalid value: "a": exists in both'),
    (pod_term(labelSelector={}, matchLabelKeys=["a"]), pod_term(labelSelector={}, matchLabelKeys=["a", "b c"]), f'{ANTI}[1].matchLabelKeys[1]: Invalid value: "b c"'),
    # spreading
    (spread(maxSkew=1), spread(maxSkew=-1), "spec.topologySpreadConstraints[1].maxSkew: Invalid value: -1: must be greater than zero"),
    (spread(minDomains=1), spread(minDomains=-1), "spec.topologySpreadConstraints[1].minDomains: Invalid value: -1: must be greater than zero"),
    (spread(minDomains=2), spread(minDomains=2, whenUnsatisfiable="ScheduleAnyway"), "spec.topologySpreadConstraints[1].minDomains: Invalid value: 2: can only use minDomains if"),
    (spread(whenUnsatisfiable="ScheduleAnyway"), spread(topologyKey=""), "spec.topologySpreadConstraints[1].topologyKey: Required value: can not be empty"),
    (spread(nodeAffinityPolicy="Ignore"), spread(nodeAffinityPolicy="X"), 'spec.topologySpreadConstraints[1].nodeAffinityPolicy: Unsupported value: "X": supported values: "Honor", "Ignore"'),
    (spread(nodeTaintsPolicy="Honor"), spread(nodeTaintsPolicy="X"), 'spec.topologySpreadConstraints[1].nodeTaintsPolicy: Unsupported value: "X"'),
    (spread(labelSelector={}, matchLabelKeys=["a"]), spread(matchLabelKeys=["a"]), "spec.topologySpreadConstraints[1].matchLabelKeys: Forbidden"),
    (spread(labelSelector={}, matchLabelKeys=["a"]), spread(labelSelector={}, matchLabelKeys=["a", "b c"]), 'spec.topologySpreadConstraints[1].matchLabelKeys[1]: Invalid value: "b c"'),
    (selector("In", "a"), selector("In"), "labelSelector.matchExpressions[0].values: Required value"),
    (selector("Exists"), selector("Exists", "a"), "labelSelector.matchExpressions[0].values: Forbidden"),
    (selector("NotIn", "a"), selector("Gt", "1"), 'labelSelector.matchExpressions[0].operator: Invalid value: "Gt": not a valid selector operator'),
    (spread(labelSelector={"matchExpressions": [{"key": "a/b", "operator": "Exists"}]}), spread(labelSelector={"matchExpressions": [{"key": "a b", "operator": "Exists"}]}), 'labelSelector.matchExpressions[0].key: Invalid value: "a b"'),
    (selector("In", "a"), selector("In", "a", "b c"), 'labelSelector.matchExpressions[0].values[1]: Invalid value: "b c"'),
    # nodes
    (node(taints=[{"key": "a", "value": "b", "effect": "PreferNoSchedule"}]), node(taints=[{"key": "a", "value": "b c", "effect": "NoSchedule"}]), 'metadata.taints[0].value: Invalid value: "b c"'),
    (node(taints=[{"key": "a", "effect": "NoExecute"}]), node(taints=[{"effect": "NoExecute"}]), 'metadata.taints[0].key: Invalid value: ""'),
    (node(taints=[{"key": "a", "effect": "NoExecute"}]), node(taints=[{"key": "a b", "effect": "NoExecute"}]), 'metadata.taints[0].key: Invalid value: "a b"'),
    (declaring("A" * 253), declaring("A" * 254), "status.declaredFeatures[0]: Invalid value"),
    (device_class("example.com/" + "a" * 63), device_class("requests.example.com/a"), "spec.extendedResourceName: Invalid value"),
    *(
        ({**node(), "status": {field: {"cpu": "0"}}}, {**node(), "status": {field: {"cpu": amount}}}, f'status.{field}.cpu: Invalid value: "{amount}"')
        for field in ("capacity", "allocatable")
        for amount in ("-1n", "x")
    ),
    # priorities
    (priority_class(value=1_000_000_000), priority_class(value=1_000_000_001), "value: Forbidden"),
    (priority_class(value=LOW), priority_class(value=LOW - 1), "value: Invalid value: -2147483649: expected `int` >= -2147483648"),
    (priority_class("system-cluster-critical", value=2_000_000_000), priority_class("system-cluster-critical", value=2_000_000_001), "value of system-cluster-critical PriorityClass must be 2000000000"),
    # budgets
    (budget(minAvailable=0), budget(minAvailable=-1), "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"),
    (budget(maxUnavailable="100%"), budget(maxUnavailable="101%"), 'spec.maxUnavailable: Invalid value: "101%": must not be greater than 100%'),
    (budget(maxUnavailable="0%"), budget(maxUnavailable="%"), 'spec.maxUnavailable: Invalid value: "%": a valid percent string'),
    (budget(minAvailable="50%"), budget(minAvailable="٥%"), "spec.minAvailable: Invalid value"),
    # groups
    (group(schedulingPolicy={"gang": {"minCount": 2**31 - 1}}), group(schedulingPolicy={"gang": {"minCount": 2**31}}), "gang.minCount: Invalid value: 2147483648: expected `int` <= 2147483647"),
    (group(schedulingPolicy={"gang": {"minCount": 1}}), group(schedulingPolicy={"gang": {"minCount": 0}}), "gang.minCount: Required value"),
    (group(priority=LOW), group(priority=LOW - 1), "spec.priority: Invalid value: -2147483649: expected `int` >= -2147483648"),
    (group(priority=2_000_001_000, priorityClassName="system-node-critical"), group(priority=2_000_001_001, priorityClassName="system-node-critical"), "spec.priority: Invalid value: 2000001001: must be less than or equal to 2000001000"),
    (group(preemptionPolicy="Never"), group(preemptionPolicy="X"), 'spec.preemptionPolicy: Unsupported value: "X"'),
    (group(priorityClassName="a.b"), group(priorityClassName="a_b"), 'spec.priorityClassName: Invalid value: "a_b"'),
    (group(schedulingConstraints={"topology": [{"key": "a"}]}), group(schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]}), "Too many: 2: must have at most 1 item"),
    (group(disruptionMode={"single": {}}), group(disruptionMode={}), 'spec.disruptionMode: Invalid value: "": must specify one of: `all`, `single`'),
    (group(workloadRef={"workloadName": "w.a", "templateName": "t"}), group(workloadRef={"workloadName": "w", "templateName": "t.a"}), 'spec.workloadRef.templateName: Invalid value: "t.a"'),
    (group(workloadRef={"workloadName": "w", "templateName": "t"}), group(workloadRef={"workloadName": "w"}), "spec.workloadRef.templateName: Required value"),
    (group(workloadRef={"workloadName": "w", "templateName": "t"}, parentCompositePodGroupName="p"), group(parentCompositePodGroupName="p"), "spec.workloadRef: Required value: must be specified when `parentCompositePodGroupName` is set"),
    # workloads
    (reference(), reference(kind=""), "spec.controllerRef.kind: Required value"),
    (reference(apiGroup=""), reference(name=""), "spec.controllerRef.name: Required value"),
    (reference(apiGroup="batch"), reference(apiGroup="Batch"), 'spec.controllerRef.apiGroup: Invalid value: "Batch"'),
    (composite(4), composite(5), "maximum template hierarchy depth is 4"),
    (composite(2, 8), composite(2, 9), "spec.compositePodGroupTemplates: Too many: 9: must have at most 8 items"),
    (level(), level(podGroupTemplates=[]), 'spec.compositePodGroupTemplates[0]: Invalid value: "c0": must have at least one child'),
    (level(), level(podGroupTemplates=[template(f"t{n}") for n in range(9)]), "spec.compositePodGroupTemplates[0].podGroupTemplates: Too many: 9: must have at most 8 items"),
    (level(schedulingPolicy={"gang": {"minGroupCount": 1}}), level(schedulingPolicy={"gang": {"minGroupCount": 0}}), "compositePodGroupTemplates[0].schedulingPolicy.gang.minGroupCount: Required value"),
    (level(name="x"), level(name="leaf"), 'podGroupTemplates[0].name: Duplicate value: "leaf"'),
    (level(disruptionMode={"all": {}}), level(disruptionMode={}), "compositePodGroupTemplates[0].disruptionMode: Invalid value"),
    (workload(template(priority=5)), level(priority=5), "spec: Invalid value: null: all priority and priorityClassName values must be identical"),
    (workload(template()), {**workload(template()), "spec": {**workload(template())["spec"], **composite(2)["spec"]}}, "must specify exactly one of: `podGroupTemplates`, `compositePodGroupTemplates`"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("taken", "refused", "message"), CASES, ids=[f"{n}: {case[2][:50]}" for n, case in enumerate(CASES)]
)
def test_last_that_is_taken_and_the_first_that_is_not(
    taken: dict[str, Any], refused: dict[str, Any], message: str
) -> None:
    decode_object(taken)
    with pytest.raises(InputError) as caught:
        decode_object(refused)
    assert message in str(caught.value)


def test_names_of_resources_however_long_are_held_to_the_same_rules() -> None:
    """Short ones are remembered and long ones are not; that makes no difference."""
    for count in (1, 8, 9, 40):
        names = {f"{'a' * 59}{n:02}.com/{'b' * 10}": "1" for n in range(count)}
        decode_object(pod({"resources": {"limits": names}}))
        with pytest.raises(InputError, match="must be an integer"):
            decode_object(pod({"resources": {"limits": {**names, "a.com/b": "1500m"}}}))
