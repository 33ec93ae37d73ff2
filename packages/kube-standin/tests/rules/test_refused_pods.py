"""What a kube-apiserver 1.36.2 refuses of pods, beside the transcripts: every row was sent to one, with these answers.

Rule: api.md 5 (what is refused is named by its field, as kube-apiserver names it).
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kube_rules.validation import validate_create, validate_update
from tests.recorded.shapes import shape, stored

Json = dict[str, Any]
POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "d"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
REFUSED: list[tuple[str, Json, list[tuple[str, str]]]] = [
    (
        "na-val",
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["x y"]}]}]
                    }
                }
            }
        },
        [
            (
                "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values[0]",
                'Invalid value: "x y"',
            )
        ],
    ),
    (
        "res-huge-name",
        {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1", "hugepages-x": "4Mi"}}}]},
        [
            (
                "spec.containers[0].resources.limits[hugepages-x]",
                'Invalid value: "4Mi": 4Mi is not positive integer multiple of hugepages-x',
            ),
            (
                "spec.containers[0].resources.requests[hugepages-x]",
                'Invalid value: "4Mi": 4Mi is not positive integer multiple of hugepages-x',
            ),
        ],
    ),
    (
        "podres-less",
        {
            "resources": {"requests": {"cpu": "1"}},
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}],
        },
        [
            (
                "spec.resources.requests[cpu]",
                'Invalid value: "1": must be greater than or equal to aggregate container requests of 2',
            )
        ],
    ),
    (
        "podres-lim",
        {
            "resources": {"limits": {"cpu": "1"}},
            "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}],
        },
        [
            ("spec.resources.requests", 'Invalid value: "2": must be less than or equal to cpu limit of 1'),
            (
                "spec.resources.containers[0][cpu].limits",
                'Invalid value: "2": must be less than or equal to pod limits of 1',
            ),
        ],
    ),
    (
        "podres-claims",
        {"resources": {"claims": [{"name": "x"}]}},
        [
            ("spec.resources.claims", "Forbidden: claims may not be set for Resources at pod-level"),
            (
                "spec.resources.claims[0]",
                'Not found: "x": must be one of the names in pod.spec.resourceClaims which is empty',
            ),
        ],
    ),
    (
        "rc-miss",
        {"containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "zz"}]}}]},
        [
            (
                "spec.containers[0].resources.claims[0]",
                'Not found: "zz": must be one of the names in pod.spec.resourceClaims which is empty',
            )
        ],
    ),
    (
        "rc-name",
        {"resourceClaims": [{"name": "a", "resourceClaimName": "X!"}]},
        [("spec.resourceClaims[0].resourceClaimName", 'Invalid value: "X!"')],
    ),
    (
        "hostport-dup",
        {
            "containers": [
                {
                    "name": "c",
                    "image": "i",
                    "ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}],
                }
            ]
        },
        [("spec.containers[0].ports[1].hostPort", 'Duplicate value: "TCP//80"')],
    ),
    (
        "hostport-net",
        {
            "hostNetwork": True,
            "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 81}]}],
        },
        [
            (
                "spec.containers[0].ports[0].hostPort",
                "Invalid value: 81: must match `containerPort` when `hostNetwork` is true",
            )
        ],
    ),
    (
        "c-resize",
        {
            "containers": [
                {
                    "name": "c",
                    "image": "i",
                    "resizePolicy": [
                        {"resourceName": "cpu", "restartPolicy": "X"},
                        {"resourceName": "cpu", "restartPolicy": "NotRequired"},
                    ],
                }
            ]
        },
        [
            (
                "spec.containers[0].resizePolicy",
                'Unsupported value: "X": supported values: "NotRequired", "RestartContainer"',
            ),
            ("spec.containers[0].resizePolicy[1]", 'Duplicate value: "cpu"'),
        ],
    ),
    (
        "dns-none",
        {"dnsPolicy": "None"},
        [("spec.dnsConfig", "Required value: must provide `dnsConfig` when `dnsPolicy` is None")],
    ),
    (
        "dns-cfg",
        {"dnsConfig": {"nameservers": ["x"], "searches": ["B!"], "options": [{"name": ""}]}},
        [
            (
                "spec.dnsConfig.nameservers[0]",
                'Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
            ),
            ("spec.dnsConfig.searches[0]", 'Invalid value: "B!"'),
            ("spec.dnsConfig.options[0]", "Required value: must not be empty"),
        ],
    ),
    (
        "hostalias",
        {"hostAliases": [{"ip": "x", "hostnames": ["B!"]}]},
        [
            (
                "spec.hostAliases[0].ip",
                'Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
            ),
            ("spec.hostAliases[0].hostnames[0]", 'Invalid value: "B!"'),
        ],
    ),
    (
        "share",
        {"shareProcessNamespace": True, "hostPID": True},
        [
            (
                "spec.securityContext.shareProcessNamespace",
                "Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled",
            )
        ],
    ),
    (
        "host-users",
        {"hostUsers": False, "hostNetwork": True},
        [("spec.hostNetwork", "Forbidden: when `hostUsers` is false")],
    ),
    (
        "sec-run",
        {
            "securityContext": {
                "runAsUser": -1,
                "runAsGroup": -1,
                "fsGroup": -1,
                "supplementalGroups": [-1],
                "fsGroupChangePolicy": "X",
                "seccompProfile": {"type": "X"},
            }
        },
        [
            ("spec.securityContext.fsGroup", "Invalid value: -1: must be between 0 and 2147483647, inclusive"),
            ("spec.securityContext.runAsUser", "Invalid value: -1: must be between 0 and 2147483647, inclusive"),
            ("spec.securityContext.runAsGroup", "Invalid value: -1: must be between 0 and 2147483647, inclusive"),
            (
                "spec.securityContext.supplementalGroups[0]",
                "Invalid value: -1: must be between 0 and 2147483647, inclusive",
            ),
            (
                "spec.securityContext.fsGroupChangePolicy",
                'Unsupported value: "X": supported values: "Always", "OnRootMismatch"',
            ),
            (
                "spec.securityContext.seccompProfile.type",
                'Unsupported value: "X": supported values: "Localhost", "RuntimeDefault", "Unconfined"',
            ),
        ],
    ),
    (
        "csec",
        {
            "containers": [
                {
                    "name": "c",
                    "image": "i",
                    "securityContext": {
                        "runAsUser": -3,
                        "runAsGroup": -1,
                        "procMount": "X",
                        "capabilities": {"add": ["CAP_SYS_ADMIN"]},
                        "seccompProfile": {"type": "Localhost"},
                    },
                }
            ]
        },
        [
            (
                "spec.containers[0].securityContext.runAsUser",
                "Invalid value: -3: must be between 0 and 2147483647, inclusive",
            ),
            (
                "spec.containers[0].securityContext.runAsGroup",
                "Invalid value: -1: must be between 0 and 2147483647, inclusive",
            ),
            (
                "spec.containers[0].securityContext.procMount",
                'Unsupported value: "X": supported values: "Default", "Unmasked"',
            ),
            (
                "spec.containers[0].securityContext.seccompProfile.localhostProfile",
                "Required value: must be set when seccomp type is Localhost",
            ),
        ],
    ),
    (
        "sysctl",
        {
            "securityContext": {
                "sysctls": [{"name": "a..b", "value": "x"}, {"name": "k.a", "value": ""}, {"name": "k.a", "value": ""}]
            }
        },
        [
            (
                "spec.securityContext.sysctls[0].name",
                'Invalid value: "a..b": must have at most 253 characters',
            ),
            ("spec.securityContext.sysctls[2].name", 'Duplicate value: "k.a"'),
        ],
    ),
    (
        "vol-dev",
        {"containers": [{"name": "c", "image": "i", "volumeDevices": [{"name": "p", "devicePath": "/x"}]}]},
        [("spec.containers[0].volumeDevices[0].name", 'Not found: "p"')],
    ),
    (
        "vol-eph",
        {"volumes": [{"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]},
        [
            (
                "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes",
                "Required value: at least 1 access mode is required",
            ),
            ("spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]", "Required value"),
        ],
    ),
    (
        "vol-empty",
        {"volumes": [{"name": "e", "emptyDir": {"sizeLimit": "-1", "medium": "X"}}]},
        [("spec.volumes[0].emptyDir.sizeLimit", "Forbidden: SizeLimit field must be a valid resource quantity")],
    ),
    (
        "vol-cm-items",
        {
            "volumes": [
                {"name": "e", "configMap": {"name": "c", "items": [{"key": "", "path": "../x"}], "defaultMode": 9999}}
            ]
        },
        [
            (
                "spec.volumes[0].configMap.defaultMode",
                "Invalid value: 9999: must be a number between 0 and 0777 (octal), both inclusive",
            ),
            ("spec.volumes[0].configMap.items[0].key", "Required value"),
            ("spec.volumes[0].configMap.items[0].path", "Invalid value: \"../x\": must not contain '..'"),
        ],
    ),
    (
        "vol-hp",
        {"volumes": [{"name": "e", "hostPath": {"path": "/a/../b", "type": "X"}}]},
        [
            ("spec.volumes[0].hostPath.path", "Invalid value: \"/a/../b\": must not contain '..'"),
            (
                "spec.volumes[0].hostPath.type",
                'Unsupported value: "X": supported values: "", "BlockDevice"',
            ),
        ],
    ),
    (
        "vol-csi",
        {"volumes": [{"name": "e", "csi": {"driver": ""}}]},
        [("spec.volumes[0].csi.driver", "Required value")],
    ),
    (
        "vol-nfs",
        {"volumes": [{"name": "e", "nfs": {"server": "", "path": "x"}}]},
        [
            ("spec.volumes[0].nfs.server", "Required value"),
            ("spec.volumes[0].nfs.path", 'Invalid value: "x": must be an absolute path'),
        ],
    ),
    (
        "envfrom",
        {"containers": [{"name": "c", "image": "i", "envFrom": [{"prefix": "a b"}, {"configMapRef": {"name": "X!"}}]}]},
        [
            ("spec.containers[0].envFrom", 'Invalid value: "": must specify one of: `configMapRef` or `secretRef`'),
            ("spec.containers[0].envFrom[1].configMapRef.name", 'Invalid value: "X!"'),
        ],
    ),
    (
        "env-field",
        {
            "containers": [
                {
                    "name": "c",
                    "image": "i",
                    "env": [
                        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}},
                        {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}},
                        {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.gpu"}}},
                        {"name": "D", "valueFrom": {"configMapKeyRef": {"name": "x", "key": ""}}},
                    ],
                }
            ]
        },
        [
            (
                "spec.containers[0].env[1].valueFrom.fieldRef.fieldPath",
                'Unsupported value: "status.phase": supported values: "metadata.name"',
            ),
            (
                "spec.containers[0].env[2].valueFrom.resourceFieldRef.resource",
                'Unsupported value: "limits.gpu": supported values: "limits.cpu"',
            ),
            ("spec.containers[0].env[3].valueFrom.configMapKeyRef.key", "Required value"),
        ],
    ),
]
"""A name, fields of a spec, and what is found: the field and how the message begins."""


def _pod(spec: Json) -> Json:
    return stored({**copy.deepcopy(POD), "spec": {**copy.deepcopy(POD["spec"]), **copy.deepcopy(spec)}})


@pytest.mark.parametrize(("spec", "expected"), [pytest.param(*row[1:], id=row[0]) for row in REFUSED])
def test_pod_errors_by_field(spec: Json, expected: list[tuple[str, str]]) -> None:
    """Everything that is wrong, in this order, and nothing else."""
    found = [(one.path, one.message) for one in validate_create(shape("v1", "Pod"), _pod(spec))]
    assert [field for field, _ in found] == [field for field, _ in expected]
    for (_, message), (_, begins) in zip(found, expected, strict=True):
        assert message.startswith(begins)


JOB: Json = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j", "namespace": "d"},
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
}
START, END = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def _hold(*conditions: str) -> list[Json]:
    return [{"type": name, "status": "True"} for name in conditions]


COUNTED: Json = {"succeeded": 2, "failed": 1, "startTime": START}
ENDING: Json = {"startTime": START, "conditions": _hold("FailureTarget")}
DONE: Json = {"startTime": START, "completionTime": END, "conditions": _hold("SuccessCriteriaMet", "Complete")}
CONDITIONS = "status.conditions: Invalid value: "
STATUSES: list[tuple[str, Json, Json, list[str]]] = [
    ("counts", {}, {"active": 2, "ready": 1, "startTime": START}, []),
    ("done", {}, DONE, []),
    ("done again", DONE, {**DONE, "succeeded": 1}, []),
    ("failed", ENDING, {**ENDING, "conditions": _hold("FailureTarget", "Failed")}, []),
    (
        "failed out of the blue", {}, {"conditions": _hold("Failed")},
        ["status.startTime: Required value: startTime is required for finished job",
         f"{CONDITIONS}cannot set Failed=True condition without the FailureTarget=true condition"],
    ),
    (
        "complete out of the blue", {"active": 1, "startTime": START},
        {"active": 1, "startTime": START, "conditions": _hold("Complete")},
        ["status.completionTime: Required value: completionTime is required for Complete jobs",
         "status.active: Invalid value: 1: active>0 is invalid for finished job",
         f"{CONDITIONS}cannot set Complete=True condition without the SuccessCriteriaMet=true condition"],
    ),
    ("too ready", {}, {"active": 2, "ready": 3},
     ["status.ready: Invalid value: 3: cannot set more ready pods than active"]),
    (
        "back", COUNTED, {**COUNTED, "succeeded": 1, "failed": 0},
        ["status.failed: Invalid value: 0: cannot decrease the failed counter",
         "status.succeeded: Invalid value: 1: cannot decrease the succeeded counter"],
    ),
    (
        "negative", {}, {"active": -1, "terminating": -1},
        ["status.active: Invalid value: -1: must be greater than or equal to 0",
         "status.terminating: Invalid value: -1: must be greater than or equal to 0"],
    ),
    (
        "indexes", {}, {"completedIndexes": "0-2"},
        ['status.completedIndexes: Invalid value: "0-2": error parsing completedIndexes: too large index: "2"',
         'status.completedIndexes: Invalid value: "0-2": cannot set non-empty completedIndexes when non-indexed '
         "completion mode"],
    ),
    (
        "an index beyond int64", {}, {"completedIndexes": "9" * 20},
        [f'status.completedIndexes: Invalid value: "{"9" * 20}": error parsing completedIndexes: cannot convert '
         f'string to integer for index: "{"9" * 20}"',
         f'status.completedIndexes: Invalid value: "{"9" * 20}": cannot set non-empty completedIndexes when '
         "non-indexed completion mode"],
    ),
    (
        "completion time alone", {}, {"completionTime": END},
        ["status.completionTime: Invalid value: \"2026-01-01T00:01:00Z\": cannot set completionTime when there is no "
         "Complete=True condition"],
    ),
    (
        "no start any more", ENDING, {"conditions": _hold("FailureTarget", "Failed")},
        ["status.startTime: Required value: startTime is required for finished job",
         "status.startTime: Invalid value: null: field is immutable for unsuspended job once set"],
    ),
    (
        "uncounted", {}, {"uncountedTerminatedPods": {"succeeded": ["a", "a", ""], "failed": ["a"]}},
        ['status.uncountedTerminatedPods.succeeded[1]: Duplicate value: "a"',
         'status.uncountedTerminatedPods.succeeded[2]: Invalid value: "": must not be empty',
         'status.uncountedTerminatedPods.failed[0]: Duplicate value: "a"'],
    ),
    (
        "both", ENDING, {**ENDING, "conditions": _hold("SuccessCriteriaMet", "FailureTarget")},
        [f"{CONDITIONS}cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"],
    ),
    (
        "undone", ENDING, {"startTime": START},
        [f"{CONDITIONS}cannot disable the terminal FailureTarget=True condition"],
    ),
    (
        "ends before it starts", {}, {**DONE, "startTime": END, "completionTime": START},
        ['status.completionTime: Invalid value: "2026-01-01T00:00:00Z": must be equal to or after `startTime`'],
    ),
]  # fmt: skip
"""A name, the status before, the status written, and what is found."""


@pytest.mark.parametrize(("before", "after", "expected"), [pytest.param(*row[1:], id=row[0]) for row in STATUSES])
def test_status_of_a_job_ends_once_and_is_told_whole(before: Json, after: Json, expected: list[str]) -> None:
    """api.md 5; strategy of Jobs, `getStatusValidationOptions` of 1.36."""
    job = stored(JOB)
    old, new = {**job, "status": before}, {**job, "status": after}
    assert [str(one) for one in validate_update(shape("batch/v1", "Job"), new, old, "status")] == expected


POD_STATUSES: list[tuple[str, Json, Json, list[str]]] = [
    ("nominated", {}, {"nominatedNodeName": "n1"}, []),
    (
        "nominated though bound", {"nodeName": "n1"}, {"nominatedNodeName": "n2"},
        ["status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"],
    ),
    ("addresses", {}, {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "::1"}]}, []),
    (
        "no address", {}, {"podIPs": [{"ip": "x"}]},
        ['status.podIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'],
    ),
    (
        "of the host", {}, {"hostIPs": [{"ip": "10.0.0.9"}]},
        ['status.hostIPs[0].ip: Invalid value: "10.0.0.9": must be equal to `hostIP`'],
    ),
    (
        "condition", {}, {"conditions": [{"type": "X", "status": "True", "observedGeneration": -1}]},
        ["status.conditions[0].observedGeneration: Invalid value: -1: must be a non-negative integer"],
    ),
]  # fmt: skip
"""A name, fields of the spec, the status written, and what is found."""


@pytest.mark.parametrize(("spec", "status", "expected"), [pytest.param(*row[1:], id=row[0]) for row in POD_STATUSES])
def test_status_of_a_pod_is_held_to_rules(spec: Json, status: Json, expected: list[str]) -> None:
    """api.md 5; `ValidatePodStatusUpdate` of 1.36."""
    old = _pod(spec)
    new = {**old, "status": {**old["status"], **status}}
    assert [str(one) for one in validate_update(shape("v1", "Pod"), new, old, "status")] == expected


def _required(*terms: Json) -> Json:
    node = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": node}}


A, B = ({"key": key, "operator": "Exists"} for key in "ab")
NARROWED = [
    pytest.param({}, _required({"matchExpressions": [A]}), True, id="terms where there were none"),
    pytest.param(_required({"matchExpressions": [A]}), _required({"matchExpressions": [A, B]}), True, id="one more"),
    pytest.param(_required({"matchExpressions": [A]}), _required({"matchExpressions": [B]}), False, id="another"),
    pytest.param(_required({"matchExpressions": [A]}), {}, False, id="none any more"),
    pytest.param(
        _required({"matchExpressions": [A]}), _required({"matchExpressions": [A]}, {"matchExpressions": [B]}), False,
        id="an alternative",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "fine"), NARROWED)
def test_node_affinity_of_a_gated_pod_is_only_narrowed(before: Json, after: Json, fine: bool) -> None:
    """KEP-3838: a pod that is gated may be confined to fewer nodes, never let onto others."""
    gated = {"schedulingGates": [{"name": "a.example/b"}]}
    old, new = _pod({**gated, **before}), _pod({**gated, **after})
    found = validate_update(shape("v1", "Pod"), new, old, None)
    assert (not found) is fine


@pytest.mark.parametrize(
    ("held", "fine"),
    [("e30=", True), ("bnVsbA==", True), ("eA==", False), ("WzFd", False)],
    ids=["an object", "null", "no JSON", "a list"],
)
def test_secret_of_a_registry_holds_json(held: str, fine: bool) -> None:
    """api.md 5; `ValidateSecret` of 1.36. What it holds is not told."""
    kind = "kubernetes.io/dockerconfigjson"
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": kind}
    found = validate_create(shape("v1", "Secret"), stored({**body, "data": {".dockerconfigjson": held}}))
    assert [one.path for one in found] == ([] if fine else ["data[.dockerconfigjson]"])
    assert all("redacted" in one.message for one in found)


def test_headless_service_says_so_in_both_fields() -> None:
    """Conversions of core/v1: `clusterIP` is the first of `clusterIPs`."""
    spec = {"clusterIP": "None", "selector": {"a": "b"}}
    made = stored({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec})
    assert made["spec"]["clusterIPs"] == ["None"]


@pytest.mark.parametrize(
    ("containers", "limit", "requests"),
    [
        ([{"requests": {"cpu": "1"}}, {"requests": {"cpu": "500m"}}], {"cpu": "4"}, {"cpu": "1500m"}),
        ([{}], {"cpu": "4"}, {"cpu": "4"}),
        ([{"requests": {"memory": "1Gi"}}], {"cpu": "4"}, {"cpu": "4", "memory": "1Gi"}),
    ],
    ids=["of the containers", "of the limit", "of both"],
)
def test_pod_with_limits_as_a_whole_requests_what_its_containers_do(
    containers: list[Json], limit: Json, requests: Json
) -> None:
    """KEP-2837; api.md 4.2 counts what is filled in here."""
    made = [{"name": f"c{at}", "image": "i", "resources": one} for at, one in enumerate(containers)]
    pod = _pod({"containers": made, "resources": {"limits": limit}})
    assert pod["spec"]["resources"]["requests"] == requests
