"""Manifests with names, values and texts that are all confidential: what of them a snapshot may contain."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

SECRET = "acme"
"""Part of every name, value and text of the manifests below that must not leave an anonymised snapshot."""

POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "acme-web-0",
        "namespace": "acme-team",
        "uid": "acme-uid-1",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {
            "app": "acme-web",
            "acme.com/tier": "acme-gold",
            "app.kubernetes.io/name": "acme-web",
            "scheduling.x-k8s.io/pod-group": "acme-group",
        },
        "annotations": {"acme.com/token": "acme-s3cret"},
        "finalizers": ["acme.com/hold"],
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "acme-web",
                "uid": "acme-uid-2",
                "controller": True,
            },
            {"apiVersion": "acme.com/v1", "kind": "AcmeJob", "name": "acme-job", "uid": "acme-uid-3"},
        ],
    },
    "spec": {
        "nodeName": "acme-node-1",
        "schedulerName": "acme-scheduler",
        "priorityClassName": "acme-high",
        "priority": 7,
        "serviceAccountName": "acme-sa",
        "hostname": "acme-host",
        "containers": [
            {
                "name": "acme-main",
                "image": "registry.acme.com/web:1.0",
                "command": ["acme", "--token=s3cret"],
                "env": [{"name": "ACME_TOKEN", "value": "acme-s3cret"}],
                "ports": [{"name": "acme-port", "containerPort": 80, "hostPort": 80, "hostIP": "10.9.9.9"}],
                "resources": {"requests": {"cpu": "1"}},
            }
        ],
        "nodeSelector": {"acme.com/pool": "acme-gpu", "kubernetes.io/hostname": "acme-node-1"},
        "tolerations": [
            {"key": "acme.com/dedicated", "operator": "Equal", "value": "acme-gpu", "effect": "NoSchedule"}
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "acme.com/pool", "operator": "In", "values": ["acme-gpu", "acme-cpu"]},
                                {"key": "acme.com/size", "operator": "Gt", "values": ["4"]},
                            ],
                            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["acme-node-1"]}],
                        }
                    ]
                }
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "labelSelector": {"matchLabels": {"app": "acme-web"}},
                        "namespaces": ["acme-team"],
                        "topologyKey": "acme.com/rack",
                    }
                ]
            },
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "acme-web"}},
            }
        ],
        "volumes": [
            {"name": "acme-config", "configMap": {"name": "acme-config"}},
            {"name": "acme-data", "persistentVolumeClaim": {"claimName": "acme-data"}},
            {"name": "acme-scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "acme-fast"}}}},
        ],
    },
    "status": {
        "phase": "Running",
        "conditions": [
            {"type": "Ready", "status": "True", "message": "acme says hello"},
            {"type": "acme.com/checked", "status": "True"},
        ],
        "containerStatuses": [{"name": "acme-main", "allocatedResources": {"cpu": "1"}, "image": "acme"}],
    },
}
NODE: Json = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "acme-node-1",
        "uid": "acme-uid-9",
        "labels": {
            "acme.com/pool": "acme-gpu",
            "acme.com/size": "8",
            "kubernetes.io/hostname": "acme-node-1",
            "topology.kubernetes.io/zone": "eu-1a",
        },
    },
    "spec": {
        "providerID": "aws:///acme/i-1",
        "taints": [{"key": "acme.com/dedicated", "value": "acme-gpu", "effect": "NoSchedule"}],
    },
    "status": {
        "allocatable": {"cpu": "4", "nvidia.com/gpu": "8"},
        "images": [
            {"names": ["registry.acme.com/web:1.0"], "sizeBytes": 1000},
            {"names": ["registry.acme.com/unused:1"], "sizeBytes": 5},
        ],
        "nodeInfo": {"machineID": "acme"},
        "addresses": [{"type": "Hostname", "address": "acme-node-1"}],
    },
}
OTHERS: list[Json] = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "acme-team", "labels": {"team": "acme"}}},
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "acme-high"},
        "value": 7,
        "description": "for acme",
    },
    {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "acme-group", "namespace": "acme-team", "uid": "acme-uid-4"},
        "spec": {
            "podGroupTemplateRef": {"workload": {"workloadName": "acme-w", "podGroupTemplateName": "acme-t"}},
            "schedulingPolicy": {"gang": {"minCount": 1}},
            "disruptionMode": "PodGroup",
            "priorityClassName": "acme-high",
            "priority": 7,
        },
    },
    {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "acme-pdb", "namespace": "acme-team"},
        "spec": {"selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["acme-web"]}]}},
        "status": {"disruptionsAllowed": 1, "disruptedPods": {"acme-web-0": "2026-01-01T00:00:00Z"}},
    },
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "acme-web-0-acme-scratch", "namespace": "acme-team"},
        "spec": {"volumeName": "acme-pv", "storageClassName": "acme-fast"},
    },
    {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "acme-pv"},
        "spec": {
            "claimRef": {
                "namespace": "acme-team",
                "name": "acme-data",
                "uid": "acme-uid-5",
                "kind": "PersistentVolumeClaim",
            },
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "acme-vol"},
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "kubernetes.io/hostname", "operator": "In", "values": ["acme-node-1"]}
                            ]
                        }
                    ]
                }
            },
        },
    },
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "acme-gated", "namespace": "acme-team"},
        "spec": {"schedulingGates": [{"name": "acme.com/gate"}], "containers": [{"name": "acme-c"}]},
    },
    {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "acme-s"}, "spec": {"selector": {"app": "acme-web"}}},
]
