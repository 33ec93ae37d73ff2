"""Defaults of every kind (upstream: `pkg/apis/*/v1/defaults.go`): of what says nothing, and of each choice."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kube_rules.defaults import apply_defaults, apply_identity, prepare_create
from kube_rules.defaults.rows import fill
from tests.recorded.shapes import pod, shape

Json = dict[str, Any]
TEMPLATE: Json = {
    "metadata": {},
    "spec": {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    },
}
_HISTORY = {"revisionHistoryLimit": 10}
_DAEMON_COUNTS = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
_BUDGET_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
_JOB = {
    "completions": 1,
    "parallelism": 1,
    "backoffLimit": 6,
    "podReplacementPolicy": "TerminatingOrFailed",
    "completionMode": "NonIndexed",
    "suspend": False,
    "manualSelector": False,
    "template": TEMPLATE,
}
_SERVICE = {
    "type": "ClusterIP",
    "sessionAffinity": "None",
    "internalTrafficPolicy": "Cluster",
}


def complete(api_version: str, kind: str, obj: Json | None = None) -> Json:
    """An object as it is after its defaults, without metadata."""
    made: Json = {"apiVersion": api_version, "metadata": {"name": "x"}, **copy.deepcopy(obj or {})}
    apply_defaults(shape(api_version, kind), made)
    once = copy.deepcopy(made)
    apply_defaults(shape(api_version, kind), made)
    assert made == once, "filling in twice changes nothing"
    return {key: value for key, value in made.items() if key not in ("apiVersion", "metadata")}


@pytest.mark.parametrize(
    ("api_version", "kind", "expected"),
    [
        ("v1", "Pod", {"spec": {**TEMPLATE["spec"], "enableServiceLinks": True}}),
        ("v1", "PodTemplate", {"template": TEMPLATE}),
        ("v1", "Namespace", {"spec": {}}),
        ("v1", "Service", {"spec": _SERVICE}),
        ("v1", "Secret", {"type": "Opaque"}),
        ("v1", "ConfigMap", {}),
        (
            "v1",
            "PersistentVolume",
            {
                "spec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
                "status": {"phase": "Pending"},
            },
        ),
        (
            "v1",
            "PersistentVolumeClaim",
            {"spec": {"resources": {}, "volumeMode": "Filesystem"}, "status": {"phase": "Pending"}},
        ),
        ("v1", "ReplicationController", {"spec": {"replicas": 1, "template": TEMPLATE}}),
        ("apps/v1", "ReplicaSet", {"spec": {"replicas": 1, "template": TEMPLATE}}),
        (
            "apps/v1",
            "Deployment",
            {
                "spec": {
                    "replicas": 1,
                    "template": TEMPLATE,
                    "strategy": {
                        "type": "RollingUpdate",
                        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
                    },
                    "progressDeadlineSeconds": 600,
                    **_HISTORY,
                }
            },
        ),
        (
            "apps/v1",
            "StatefulSet",
            {
                "spec": {
                    "replicas": 1,
                    "template": TEMPLATE,
                    "podManagementPolicy": "OrderedReady",
                    "serviceName": "",
                    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1}},
                    "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
                    **_HISTORY,
                }
            },
        ),
        (
            "apps/v1",
            "DaemonSet",
            {
                "spec": {
                    "template": TEMPLATE,
                    "updateStrategy": {
                        "type": "RollingUpdate",
                        "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
                    },
                    **_HISTORY,
                }
            },
        ),
        ("batch/v1", "Job", {"spec": _JOB}),
        (
            "batch/v1",
            "CronJob",
            {
                "spec": {
                    "concurrencyPolicy": "Allow",
                    "suspend": False,
                    "successfulJobsHistoryLimit": 3,
                    "failedJobsHistoryLimit": 1,
                    "jobTemplate": {"spec": {"template": TEMPLATE}},
                }
            },
        ),
        ("scheduling.k8s.io/v1", "PriorityClass", {"preemptionPolicy": "PreemptLowerPriority", "value": 0}),
        ("scheduling.k8s.io/v1alpha3", "CompositePodGroup", {"spec": {"disruptionMode": {"single": {}}}}),
        ("storage.k8s.io/v1", "StorageClass", {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
        (
            "storage.k8s.io/v1",
            "CSIDriver",
            {
                "spec": {
                    "attachRequired": True,
                    "podInfoOnMount": False,
                    "storageCapacity": False,
                    "requiresRepublish": False,
                    "seLinuxMount": False,
                    "fsGroupPolicy": "ReadWriteOnceWithFSType",
                    "volumeLifecycleModes": ["Persistent"],
                }
            },
        ),
    ],
)
def test_defaults_of_empty_fields(api_version: str, kind: str, expected: Json) -> None:
    assert complete(api_version, kind) == expected


@pytest.mark.parametrize(
    ("api_version", "kind", "status"),
    [
        ("v1", "Namespace", {"phase": "Active"}),
        ("v1", "PersistentVolume", {"phase": "Pending"}),
        ("v1", "PersistentVolumeClaim", {"phase": "Pending"}),
        ("v1", "ReplicationController", {"replicas": 0}),
        ("v1", "Service", {"loadBalancer": {}}),
        ("apps/v1", "DaemonSet", dict.fromkeys(_DAEMON_COUNTS, 0)),
        ("apps/v1", "ReplicaSet", {"replicas": 0}),
        ("apps/v1", "StatefulSet", {"replicas": 0, "availableReplicas": 0}),
        ("policy/v1", "PodDisruptionBudget", dict.fromkeys(_BUDGET_COUNTS, 0)),
        ("batch/v1", "Job", {}),
        ("v1", "Pod", {"phase": "Pending", "qosClass": "BestEffort"}),
    ],
)
def test_status_that_a_new_object_begins_with(api_version: str, kind: str, status: Json) -> None:
    """Whatever a client sent."""
    made: Json = {"metadata": {"name": "x"}, "spec": {}, "status": {"phase": "Running", "replicas": 7}}
    prepare_create(shape(api_version, kind), made, now="2026-01-01T00:00:00Z")
    assert made["status"] == status


def test_kinds_that_bring_their_status_keep_it() -> None:
    made: Json = {"metadata": {"name": "x"}, "status": {"phase": "kept"}}
    prepare_create(shape("v1", "ConfigMap"), made, now="2026-01-01T00:00:00Z")
    assert made["status"] == {"phase": "kept"}


def test_gated_pod_says_so_from_its_first_moment() -> None:
    made: Json = pod(schedulingGates=[{"name": "wait"}])
    prepare_create(shape("v1", "Pod"), made, now="2026-01-01T00:00:07Z")
    assert made["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastTransitionTime": "2026-01-01T00:00:07Z",
        }
    ]


@pytest.mark.parametrize(
    ("given", "found"),
    [([], ["kubernetes"]), (["kubernetes"], ["kubernetes"]), (["mine"], ["mine", "kubernetes"])],
)
def test_new_namespace_is_held_by_its_controller_once(given: list[str], found: list[str]) -> None:
    made: Json = {"metadata": {"name": "x"}, "spec": {"finalizers": given}}
    prepare_create(shape("v1", "Namespace"), made, now="2026-01-01T00:00:00Z")
    assert made["spec"]["finalizers"] == found


def test_new_definition_has_stored_the_version_it_stores() -> None:
    versions = [{"name": "v1", "storage": True}, {"name": "v2", "storage": False}, {"storage": True}]
    made: Json = {"metadata": {"name": "x"}, "spec": {"versions": versions}}
    prepare_create(shape("apiextensions.k8s.io/v1", "CustomResourceDefinition"), made, now="2026-01-01T00:00:00Z")
    assert made["status"]["storedVersions"] == ["v1"]


# -- choices


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"parallelism": 3}, {"parallelism": 3, "completions": None}),
        ({"completions": 3}, {"parallelism": 1, "completions": 3}),
        ({"backoffLimitPerIndex": 1}, {"backoffLimit": 2**31 - 1}),
        ({"backoffLimitPerIndex": 1, "backoffLimit": 2}, {"backoffLimit": 2}),
        ({"podFailurePolicy": {"rules": []}}, {"podReplacementPolicy": "Failed"}),
        (
            {"podFailurePolicy": {"rules": [{"onPodConditions": [{"type": "a"}, {"type": "b", "status": "False"}]}]}},
            {
                "podFailurePolicy": {
                    "rules": [{"onPodConditions": [{"type": "a", "status": "True"}, {"type": "b", "status": "False"}]}]
                }
            },
        ),
    ],
)
def test_jobs(given: Json, found: Json) -> None:
    spec = complete("batch/v1", "Job", {"spec": given})["spec"]
    assert {name: spec.get(name) for name in found} == found


@pytest.mark.parametrize(("kind", "field"), [("Deployment", "strategy"), ("StatefulSet", "updateStrategy"),
                                             ("DaemonSet", "updateStrategy")])  # fmt: skip
def test_another_strategy_gets_no_numbers_of_rolling(kind: str, field: str) -> None:
    found = complete("apps/v1", kind, {"spec": {field: {"type": "OnDelete"}}})["spec"]
    assert found[field] == {"type": "OnDelete"}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"type": "NodePort"}, {**_SERVICE, "type": "NodePort", "externalTrafficPolicy": "Cluster"}),
        (
            {"type": "LoadBalancer"},
            {
                **_SERVICE,
                "type": "LoadBalancer",
                "externalTrafficPolicy": "Cluster",
                "allocateLoadBalancerNodePorts": True,
            },
        ),
        ({"type": "ExternalName"}, {"type": "ExternalName", "sessionAffinity": "None"}),
        (
            {"externalIPs": ["1.1.1.1"]},
            {**_SERVICE, "externalIPs": ["1.1.1.1"], "externalTrafficPolicy": "Cluster"},
        ),
        ({"clusterIP": "None"}, {**_SERVICE, "clusterIP": "None", "clusterIPs": ["None"]}),
        ({"clusterIP": "10.0.0.9"}, {**_SERVICE, "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"]}),
        (
            {"sessionAffinity": "ClientIP"},
            {
                **_SERVICE,
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
            },
        ),
        (
            {"ports": [{"port": 80}, {"port": 81, "targetPort": 0}, {"port": 82, "targetPort": ""},
                       {"port": 83, "targetPort": "web", "protocol": "UDP"}, {}]},
            {
                **_SERVICE,
                "ports": [
                    {"port": 80, "targetPort": 80, "protocol": "TCP"},
                    {"port": 81, "targetPort": 81, "protocol": "TCP"},
                    {"port": 82, "targetPort": 82, "protocol": "TCP"},
                    {"port": 83, "targetPort": "web", "protocol": "UDP"},
                    {"protocol": "TCP"},
                ],
            },
        ),
    ],
)  # fmt: skip
def test_services(given: Json, found: Json) -> None:
    assert complete("v1", "Service", {"spec": given})["spec"] == found


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"podCIDR": "a"}, {"podCIDR": "a", "podCIDRs": ["a"]}),
        ({"podCIDRs": ["a", "b"]}, {"podCIDR": "a", "podCIDRs": ["a", "b"]}),
        ({"podCIDR": "a", "podCIDRs": ["a", "b"]}, {"podCIDR": "a", "podCIDRs": ["a", "b"]}),
        ({"podCIDR": "c", "podCIDRs": ["a", "b"]}, {"podCIDR": "c", "podCIDRs": ["c"]}),
        ({}, {}),
    ],
)
def test_blocks_of_addresses_of_a_node(spec: Json, found: Json) -> None:
    assert complete("v1", "Node", {"spec": spec})["spec"] == found


@pytest.mark.parametrize(
    ("status", "allocatable"),
    [
        ({}, None),
        ({"capacity": {"cpu": "4"}}, {"cpu": "4"}),
        ({"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}}, {"cpu": "3"}),
    ],
)
def test_node_can_give(status: Json, allocatable: Json | None) -> None:
    found = complete("v1", "Node", {"status": status})["status"]
    assert found.get("allocatable") == allocatable
    assert found["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}
    assert set(found["nodeInfo"].values()) == {""}


@pytest.mark.parametrize(
    ("status", "found"),
    [
        ({"podIP": "1.1.1.1"}, {"podIP": "1.1.1.1", "podIPs": [{"ip": "1.1.1.1"}]}),
        ({"podIPs": [{"ip": "1.1.1.1"}, {"ip": "::1"}]},
         {"podIP": "1.1.1.1", "podIPs": [{"ip": "1.1.1.1"}, {"ip": "::1"}]}),
        ({"podIP": "2.2.2.2", "podIPs": [{"ip": "1.1.1.1"}]}, {"podIP": "2.2.2.2", "podIPs": [{"ip": "2.2.2.2"}]}),
        ({"podIP": "1.1.1.1", "podIPs": [{"ip": "1.1.1.1"}, {"ip": "::1"}]},
         {"podIP": "1.1.1.1", "podIPs": [{"ip": "1.1.1.1"}, {"ip": "::1"}]}),
        ({"podIPs": [{}]}, {"podIPs": [{}]}),
        ({"phase": "Running"}, {"phase": "Running"}),
    ],
)  # fmt: skip
def test_addresses_of_a_pod(status: Json, found: Json) -> None:
    assert complete("v1", "Pod", {"status": status})["status"] == found


def test_keys_of_labels_become_requirements() -> None:
    """KEP-3633, KEP-3243: In for matchLabelKeys, NotIn for mismatchLabelKeys, for labels that the pod has."""

    def term(**keys: list[str]) -> Json:
        return {"topologyKey": "z", "labelSelector": {"matchLabels": {"a": "b"}}, **keys}

    keys = term(matchLabelKeys=["v", "none"], mismatchLabelKeys=["w"])
    affinity = {
        kind: {
            "requiredDuringSchedulingIgnoredDuringExecution": [copy.deepcopy(keys)],
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": copy.deepcopy(keys)}],
        }
        for kind in ("podAffinity", "podAntiAffinity")
    }
    spread = {"topologyKey": "z", "maxSkew": 1, "labelSelector": {}, "matchLabelKeys": ["v"]}
    bare = {"topologyKey": "z", "maxSkew": 1, "matchLabelKeys": ["v"]}
    made = pod(affinity=affinity, topologySpreadConstraints=[spread, bare])
    made["metadata"]["labels"] = {"v": "1", "w": "2"}
    prepare_create(shape("v1", "Pod"), made, now="2026-01-01T00:00:00Z")
    is_v = {"key": "v", "operator": "In", "values": ["1"]}
    is_not_w = {"key": "w", "operator": "NotIn", "values": ["2"]}
    for of_kind in made["spec"]["affinity"].values():
        [required] = of_kind["requiredDuringSchedulingIgnoredDuringExecution"]
        [preferred] = of_kind["preferredDuringSchedulingIgnoredDuringExecution"]
        for one in (required, preferred["podAffinityTerm"]):
            assert one["labelSelector"]["matchExpressions"] == [is_v, is_not_w]
    with_selector, without = made["spec"]["topologySpreadConstraints"]
    assert with_selector["labelSelector"] == {"matchExpressions": [is_v]}
    assert "labelSelector" not in without


# -- others


@pytest.mark.parametrize(
    ("item", "found"),
    [
        ({"type": "Pod", "max": {"cpu": "2"}}, {}),
        ({"type": "Container", "max": {"cpu": "2"}}, {"default": {"cpu": "2"}, "defaultRequest": {"cpu": "2"}}),
        ({"type": "Container", "min": {"cpu": "1"}}, {"defaultRequest": {"cpu": "1"}}),
        (
            {"type": "Container", "max": {"cpu": "9"}, "default": {"cpu": "4"}, "min": {"cpu": "1"}},
            {"default": {"cpu": "4"}, "defaultRequest": {"cpu": "4"}},
        ),
        (
            {"type": "Container", "default": {"cpu": "4"}, "defaultRequest": {"cpu": "3"}},
            {"default": {"cpu": "4"}, "defaultRequest": {"cpu": "3"}},
        ),
    ],
)
def test_limit_ranges(item: Json, found: Json) -> None:
    (made,) = complete("v1", "LimitRange", {"spec": {"limits": [item]}})["spec"]["limits"]
    assert {key: made[key] for key in ("default", "defaultRequest") if key in made} == found


@pytest.mark.parametrize(
    ("request_", "found"),
    [
        ({"exactly": {}}, {"exactly": {"allocationMode": "ExactCount", "count": 1}}),
        ({"exactly": {"count": 3}}, {"exactly": {"allocationMode": "ExactCount", "count": 3}}),
        ({"exactly": {"allocationMode": "All"}}, {"exactly": {"allocationMode": "All"}}),
        (
            {"firstAvailable": [{"tolerations": [{"key": "a"}, {"operator": "Exists"}]}]},
            {
                "firstAvailable": [
                    {
                        "allocationMode": "ExactCount",
                        "count": 1,
                        "tolerations": [{"key": "a", "operator": "Equal"}, {"operator": "Exists"}],
                    }
                ]
            },
        ),
    ],
)
@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate"])
def test_requests_for_devices(kind: str, request_: Json, found: Json) -> None:
    claim: Json = {"devices": {"requests": [request_]}}
    given = {"spec": claim} if kind == "ResourceClaim" else {"spec": {"spec": claim}}
    made = complete("resource.k8s.io/v1", kind, given)["spec"]
    of_claim = made if kind == "ResourceClaim" else made["spec"]
    assert of_claim["devices"]["requests"] == [found]


def test_subjects_of_a_binding() -> None:
    subjects = [{"kind": "User"}, {"kind": "Group", "apiGroup": "x"}, {"kind": "ServiceAccount"}]
    found = complete("rbac.authorization.k8s.io/v1", "RoleBinding", {"subjects": subjects})
    group = "rbac.authorization.k8s.io"
    assert found["roleRef"] == {"apiGroup": group}
    assert [one.get("apiGroup") for one in found["subjects"]] == [group, "x", None]


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ({}, {}),
        ({"kind": "Gang"}, {"kind": "Gang", "singular": "gang", "listKind": "GangList"}),
        ({"kind": "Gang", "singular": "g", "listKind": "L"}, {"kind": "Gang", "singular": "g", "listKind": "L"}),
    ],
)
def test_names_of_a_definition(names: Json, found: Json) -> None:
    made = complete("apiextensions.k8s.io/v1", "CustomResourceDefinition", {"spec": {"names": names}})["spec"]
    assert made == {"names": found, "conversion": {"strategy": "None"}}


@pytest.mark.parametrize("labels", [None, {"a": "b"}])
@pytest.mark.parametrize("given", [False, True])
def test_replication_controller_takes_what_its_template_has(labels: Json | None, given: bool) -> None:
    own = {"c": "d"}
    template = {"metadata": {"labels": labels}} if labels else {}
    obj: Json = {"metadata": {"name": "x"}, "spec": {"template": template}}
    if given:
        obj["metadata"]["labels"] = obj["spec"]["selector"] = own
    apply_defaults(shape("v1", "ReplicationController"), obj)
    wanted = own if given else labels
    assert (obj["metadata"].get("labels"), obj["spec"].get("selector")) == (wanted, wanted)


@pytest.mark.parametrize(
    ("metadata", "labels"),
    [({}, None), ({"name": "n"}, {"kubernetes.io/metadata.name": "n"}),
     ({"name": "n", "labels": {"kubernetes.io/metadata.name": "m"}}, {"kubernetes.io/metadata.name": "n"})],
)  # fmt: skip
def test_label_of_a_namespace(metadata: Json, labels: Json | None) -> None:
    """One that waits for its generated name has none yet."""
    obj = {"metadata": metadata}
    apply_defaults(shape("v1", "Namespace"), obj)
    assert obj["metadata"].get("labels") == labels


def test_ports_of_endpoints() -> None:
    found = complete("v1", "Endpoints", {"subsets": [{"ports": [{"port": 1}, {"port": 2, "protocol": "UDP"}]}]})
    assert [port["protocol"] for port in found["subsets"][0]["ports"]] == ["TCP", "UDP"]
    found = complete("discovery.k8s.io/v1", "EndpointSlice", {"ports": [{"port": 1}]})
    assert found["ports"] == [{"port": 1, "name": "", "protocol": "TCP"}]


def test_claims_of_a_stateful_set() -> None:
    found = complete("apps/v1", "StatefulSet", {"spec": {"volumeClaimTemplates": [{"metadata": {"name": "c"}}]}})
    assert found["spec"]["volumeClaimTemplates"] == [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "c"},
            "spec": {"resources": {}, "volumeMode": "Filesystem"},
            "status": {"phase": "Pending"},
        }
    ]


@pytest.mark.parametrize("own", [{}, {"job-name": "mine", "x": "y"}])
def test_identity_of_a_job(own: Json) -> None:
    """Labels that a template has are kept, so that validation can refuse those that do not fit."""
    obj: Json = {"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"metadata": {"labels": dict(own)}}}}
    apply_identity(shape("batch/v1", "Job"), obj)
    labels = {
        "batch.kubernetes.io/controller-uid": "u",
        "batch.kubernetes.io/job-name": "j",
        "controller-uid": "u",
        "job-name": "j",
        **own,
    }
    assert obj["spec"]["template"]["metadata"]["labels"] == obj["metadata"]["labels"] == labels
    assert obj["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}


def test_job_with_labels_keeps_its_own() -> None:
    obj: Json = {"metadata": {"name": "j", "uid": "u", "labels": {"a": "b"}}, "spec": {"template": {"metadata": {}}}}
    apply_identity(shape("batch/v1", "Job"), obj)
    assert obj["metadata"]["labels"] == {"a": "b"}
    other: Json = {"metadata": {"name": "j", "uid": "u"}, "spec": {"selector": {"matchLabels": {"a": "b"}}}}
    apply_identity(shape("apps/v1", "Deployment"), other)
    assert other["spec"] == {"selector": {"matchLabels": {"a": "b"}}}


def test_places_of_a_row() -> None:
    """`NAME` is made, `NAME?` is not, `NAME[]` is every item; what is there is kept."""
    row = fill("a.b?.c[]", x=1, y=[])
    first: Json = {}
    row(first)
    assert first == {"a": {}}
    second: Json = {"a": {"b": {"c": [{}, {"x": 2}]}}}
    row(second)
    assert second == {"a": {"b": {"c": [{"x": 1, "y": []}, {"x": 2, "y": []}]}}}
    items = second["a"]["b"]["c"]
    assert items[0]["y"] is not items[1]["y"]
