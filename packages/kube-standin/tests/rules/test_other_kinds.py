"""What a kube-apiserver 1.36.2 refuses of kinds that no recorded transcript has, with its fields and messages."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kube_rules.validation import validate_create
from tests.recorded.shapes import shape, stored

Json = dict[str, Any]


REFUSED = [
    pytest.param(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "y"},
            "spec": {
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "c", "image": "nginx"}]},
                }
            },
        },
        [
            ("spec.selector", "Required value"),
            ("spec.template.metadata.labels", 'Invalid value: {"a":"b"}: `selector` does not match template `labels`'),
        ],
        id="Deployment no selector",
    ),
    pytest.param(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "y"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}},
        },
        [
            ("spec.template.metadata.labels", "Invalid value: null: `selector` does not match template `labels`"),
            ("spec.template.spec.containers", "Required value"),
        ],
        id="Deployment no template",
    ),
    pytest.param(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "y"},
            "spec": {
                "selector": {},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "c", "image": "nginx"}]},
                },
            },
        },
        [("spec.selector", "Invalid value: {}: empty selector is invalid for deployment")],
        id="ReplicaSet empty selector",
    ),
    pytest.param(
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "y"},
            "spec": {
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "c", "image": "nginx"}]},
                },
                "serviceName": "s",
                "volumeClaimTemplates": [
                    {
                        "metadata": {"name": "data"},
                        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                    }
                ],
            },
        },
        [
            ("spec.selector", "Required value"),
            ("spec.template.metadata.labels", 'Invalid value: {"a":"b"}: `selector` does not match template `labels`'),
        ],
        id="StatefulSet no selector",
    ),
    pytest.param(
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "y"},
            "spec": {
                "selector": {},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "c", "image": "nginx"}]},
                },
                "serviceName": "s",
                "volumeClaimTemplates": [
                    {
                        "metadata": {"name": "data"},
                        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                    }
                ],
            },
        },
        [("spec.selector", "Invalid value: {}: empty selector is invalid for statefulset")],
        id="StatefulSet empty selector",
    ),
    pytest.param(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "y"},
            "spec": {
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "c", "image": "nginx"}]},
                }
            },
        },
        [("spec.template.metadata.labels", 'Invalid value: {"a":"b"}: `selector` does not match template `labels`')],
        id="DaemonSet no selector",
    ),
    pytest.param(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "y"},
            "spec": {
                "selector": {},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "c", "image": "nginx"}]},
                },
            },
        },
        [("spec.selector", "Invalid value: {}: empty selector is invalid for daemonset")],
        id="DaemonSet empty selector",
    ),
    pytest.param(
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "y"},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "c", "image": "nginx"}]},
                },
                "podManagementPolicy": "X",
                "ordinals": {"start": -1},
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Foo"},
            },
        },
        [
            ("spec.podManagementPolicy", "Invalid value: \"X\": must be 'OrderedReady' or 'Parallel'"),
            (
                "spec.persistentVolumeClaimRetentionPolicy.whenDeleted",
                'Unsupported value: "Foo": supported values: "Retain", "Delete"',
            ),
            ("spec.ordinals.start", "Invalid value: -1: must be greater than or equal to 0"),
        ],
        id="sts bad podmgmt",
    ),
    pytest.param(
        {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "y"}, "revision": -1},
        [
            ("revision", "Invalid value: -1: must be greater than or equal to 0"),
            ("data", "Required value: data is mandatory"),
        ],
        id="cr rev neg",
    ),
    pytest.param(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "y"},
            "spec": {
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "nginx:1"}]}},
                "parallelism": -1,
                "completions": -1,
                "activeDeadlineSeconds": -1,
                "backoffLimit": -1,
                "ttlSecondsAfterFinished": -1,
            },
        },
        [
            ("spec.parallelism", "Invalid value: -1: must be greater than or equal to 0"),
            ("spec.completions", "Invalid value: -1: must be greater than or equal to 0"),
            ("spec.activeDeadlineSeconds", "Invalid value: -1: must be greater than or equal to 0"),
            ("spec.backoffLimit", "Invalid value: -1: must be greater than or equal to 0"),
            ("spec.ttlSecondsAfterFinished", "Invalid value: -1: must be greater than or equal to 0"),
        ],
        id="job neg",
    ),
    pytest.param(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "fp"},
            "spec": {
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "nginx:1"}]}},
                "podFailurePolicy": {
                    "rules": [
                        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
                        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3, 1]}},
                    ]
                },
            },
        },
        [("spec.podFailurePolicy.rules[1].onExitCodes.values", "Invalid value: [3,1]: must be ordered")],
        id="job failure policy",
    ),
    pytest.param(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "rp"},
            "spec": {
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "nginx:1"}]}},
                "podReplacementPolicy": "Foo",
                "managedBy": "bad name/",
            },
        },
        [
            ("spec.managedBy", 'Invalid value: "bad name/": must be a domain-prefixed path (such as "acme.io/foo")'),
            (
                "spec.podReplacementPolicy",
                'Unsupported value: "Foo": supported values: "Failed", "TerminatingOrFailed"',
            ),
        ],
        id="job replacement",
    ),
    pytest.param(
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "y"},
            "spec": {
                "schedule": "bad",
                "jobTemplate": {
                    "spec": {
                        "template": {
                            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "nginx:1"}]}
                        }
                    }
                },
                "concurrencyPolicy": "X",
                "timeZone": "No/Where",
                "successfulJobsHistoryLimit": -1,
                "startingDeadlineSeconds": -1,
            },
        },
        [
            ("spec.schedule", 'Invalid value: "bad": expected exactly 5 fields, found 1: [bad]'),
            ("spec.startingDeadlineSeconds", "Invalid value: -1: must be greater than or equal to 0"),
            ("spec.timeZone", 'Invalid value: "No/Where": unknown time zone No/Where'),
            ("spec.concurrencyPolicy", 'Unsupported value: "X": supported values: "Allow", "Forbid", "Replace"'),
            ("spec.successfulJobsHistoryLimit", "Invalid value: -1: must be greater than or equal to 0"),
        ],
        id="cj bad",
    ),
    pytest.param(
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "z"},
            "spec": {
                "schedule": "TZ=UTC 0 * * * *",
                "jobTemplate": {
                    "spec": {
                        "template": {
                            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "nginx:1"}]}
                        }
                    }
                },
            },
        },
        [
            (
                "spec.schedule",
                'Invalid value: "TZ=UTC 0 * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead',
            )
        ],
        id="cj tz",
    ),
    pytest.param(
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
            "spec": {
                "schedule": "0 0 1 1 *",
                "jobTemplate": {
                    "spec": {
                        "template": {
                            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "nginx:1"}]}
                        }
                    }
                },
            },
        },
        [
            (
                "metadata.name",
                'Invalid value: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": must be no more than 52 '
                "characters",
            )
        ],
        id="cj long",
    ),
    pytest.param(
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "y"},
            "addressType": "Foo",
            "endpoints": [{"addresses": []}],
        },
        [
            ("addressType", 'Unsupported value: "Foo": supported values: "FQDN", "IPv4", "IPv6"'),
            ("endpoints[0].addresses", "Required value: must contain at least 1 address"),
        ],
        id="es bad",
    ),
    *(
        pytest.param(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {"name": "y"},
                "addressType": "IPv4",
                "endpoints": [{"addresses": [f"10.0.0.{number}" for number in range(count)]}],
            },
            found,
            id=f"es {count}",
        )
        for count, found in (
            (100, []),
            (101, [("endpoints[0].addresses", "Too many: 101: must have at most 100 items")]),
        )
    ),
    pytest.param(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "t"},
            "type": "kubernetes.io/tls",
            "data": {"tls.crt": ""},
        },
        [("data[tls.key]", "Required value")],
        id="secret tls",
    ),
    pytest.param(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "t2"}, "type": "kubernetes.io/basic-auth"},
        [("data[username]", "Required value"), ("data[password]", "Required value")],
        id="secret basic",
    ),
    pytest.param(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "agg"},
            "aggregationRule": {"clusterRoleSelectors": []},
        },
        [
            (
                "aggregationRule.clusterRoleSelectors",
                "Required value: at least one clusterRoleSelector required if aggregationRule is non-nil",
            )
        ],
        id="crole agg",
    ),
    pytest.param(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": "d.f"},
            "spec": {"fsGroupPolicy": "X", "volumeLifecycleModes": ["Y"]},
        },
        [
            (
                "spec.fsGroupPolicy",
                'Unsupported value: "X": supported values: "File", "None", "ReadWriteOnceWithFSType"',
            ),
            ("spec.volumeLifecycleModes", 'Unsupported value: "Y": supported values: "Persistent", "Ephemeral"'),
        ],
        id="csidriver bad",
    ),
    pytest.param(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {"name": "y"},
            "storageClassName": "",
            "capacity": "-1Gi",
        },
        [
            (
                "storageClassName",
                'Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric '
                "characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
                "'example.com', regex used for validation is "
                "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ),
            ("capacity", 'Invalid value: "-1Gi": must be greater than or equal to 0'),
        ],
        id="csc bad",
    ),
    pytest.param(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "VolumeAttachment",
            "metadata": {"name": "y"},
            "spec": {"attacher": "", "nodeName": "", "source": {}},
        },
        [
            ("spec.attacher", "Required value"),
            ("spec.source", "Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"),
            (
                "spec.nodeName",
                'Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric '
                "characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
                "'example.com', regex used for validation is "
                "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ),
        ],
        id="va bad",
    ),
    pytest.param(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "h"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOncePod"],
                "hostPath": {"path": "/../x"},
            },
        },
        [("spec.hostPath.path", "Invalid value: \"/../x\": must not contain '..'")],
        id="pv hostpath",
    ),
    pytest.param(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": "z"},
            "spec": {"driver": "d.e", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}},
        },
        [
            (
                "spec",
                "Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` "
                "is required",
            )
        ],
        id="slice none",
    ),
    pytest.param(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "bad-ephemeral"},
            "spec": {"containers": [{"name": "c", "image": "i"}], "ephemeralContainers": [{"name": "e", "image": "i"}]},
        },
        [("spec.ephemeralContainers", "Forbidden: cannot be set on create")],
        id="pod bad ephemeral",
    ),
]


@pytest.mark.parametrize(("body", "expected"), REFUSED)
def test_refused_as_by_an_api_server(body: Json, expected: list[tuple[str, str]]) -> None:
    """Same fields and messages, in the same order."""
    obj = stored(copy.deepcopy(body), "d")
    assert _causes(validate_create(shape(body["apiVersion"], body["kind"]), obj)) == expected


def _causes(found: list[Any]) -> list[tuple[str, str]]:
    return [(error.path, error.message) for error in found]
