"""What of each kind leaves in a snapshot: an object of which all leaves, and its names with their pseudonyms."""

from __future__ import annotations

from tests.client.leaving_manifests import Json, group, pod, selecting, terms

WHEN = "2026-01-01T00:00:00Z"


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"

LEAVING: dict[str, tuple[str, Json, dict[str, str]]] = {
    "tolerations: a value belongs to its key": (
        "Pod",
        pod(
            {
                "tolerations": [
                    {
                        "key": "acme.com/b",
                        "operator": "Equal",
                        "value": "v",
                        "effect": "NoExecute",
                        "tolerationSeconds": 5,
                    },
                    {"operator": "Exists"},
                    {"key": "acme.com/a", "operator": "Exists", "effect": "NoSchedule"},
                    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
                ]
            }
        ),
        {"acme.com/b": "label-2", "v": "value-1", "acme.com/a": "label-1"},
    ),
    "tolerations: what is compared as a number stays one": (
        "Pod",
        pod(
            {
                "tolerations": [
                    {"key": "acme.com/a", "operator": "Gt", "value": "7"},
                    {"key": "acme.com/b", "operator": "Lt", "value": "-7"},
                    {"key": "acme.com/b", "operator": "Equal", "value": "word"},
                    {"key": "acme.com/c", "operator": "Equal", "value": "8"},
                ]
            }
        ),
        {"acme.com/a": "label-1", "acme.com/b": "label-2", "word": "value-2", "acme.com/c": "label-3", "8": "value-1"},
    ),
    "taints": (
        "Node",
        {
            "spec": {
                "unschedulable": True,
                "taints": [
                    {"key": "acme.com/a", "value": "v", "effect": "NoExecute", "timeAdded": WHEN},
                    {"key": "acme.com/a", "effect": "NoSchedule"},
                    {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
                ],
            }
        },
        {"acme.com/a": "label-1", "v": "value-1"},
    ),
    "what a node has": (
        "Node",
        {
            "status": {
                "capacity": {"cpu": "4", "acme.com/gpu": "1"},
                "allocatable": {"cpu": "3", "acme.com/gpu": "1"},
                "conditions": [
                    {"type": kind, "status": "True", "reason": "R", "lastTransitionTime": WHEN}
                    for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
                ],
                "declaredFeatures": ["VolumeBindMountOptions"],
            }
        },
        {"acme.com/gpu": "example.com/gpu-1", "R": "Other"},
    ),
    "names, amounts and policies of a pod": (
        "Pod",
        pod(
            {
                "overhead": {"cpu": "1"},
                "resources": {"requests": {"cpu": "2", f"{_DEVICE_CLASS}acme": "1"}, "limits": {"cpu": "2"}},
                "nodeName": "acme-n",
                "nodeSelector": {"acme.com/a": "v", "kubernetes.io/arch": "arm64"},
                "priority": 7,
                "priorityClassName": "acme-high",
                "preemptionPolicy": "Never",
                "schedulerName": "acme-scheduler",
                "schedulingGates": [{"name": "acme.com/gate"}, {"name": "acme.com/a"}],
                "schedulingGroup": {"podGroupName": "acme-g"},
                "hostNetwork": True,
                "hostUsers": False,
                "terminationGracePeriodSeconds": 7,
                "activeDeadlineSeconds": 9,
                "restartPolicy": "Never",
            }
        ),
        {
            "deviceclass.resource.kubernetes.io/acme": "deviceclass.resource.kubernetes.io/deviceclass-1",
            "acme-n": "node-1",
            "acme.com/a": "label-1",
            "v": "value-1",
            "acme-high": "priorityclass-1",
            "acme-scheduler": "scheduler-1",
            "acme.com/gate": "label-2",
            "acme-g": "podgroup-1",
        },
    ),
    "names that mean the same everywhere": (
        "Pod",
        pod({"schedulerName": "default-scheduler", "priorityClassName": "system-node-critical"}),
        {},
    ),
    "a container": (
        "Pod",
        pod(
            {
                "initContainers": [
                    {"name": "container-0", "restartPolicy": "Always", "restartPolicyRules": [{"action": "Restart"}]}
                ],
                "volumes": [{"name": "mount-1", "downwardAPI": {}}],
            },
            container={
                "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}, "claims": [{"name": "acme-gpu"}]},
                "ports": [
                    {"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.7", "protocol": "UDP"},
                    {"containerPort": 81, "hostPort": 8081, "hostIP": "0.0.0.0", "protocol": "TCP"},
                    {"containerPort": 82, "hostPort": 8082, "hostIP": "::", "protocol": "TCP"},
                ],
                "volumeMounts": [{"bindMountOptions": ["noexec"], "name": "mount-1", "mountPath": "/mount-1"}],
            },
        ),
        {
            "container-1": "container-2",
            "acme-gpu": "deviceclaim-1",
            "10.0.0.7": "10.0.0.1",
            "container-0": "container-1",
        },
    ),
    "affinity to nodes": (
        "Pod",
        pod(
            {
                "affinity": {
                    "nodeAffinity": {
                        _REQUIRED: terms(
                            selecting("acme.com/a", "v", "w"),
                            selecting("acme.com/a", operator="Exists"),
                            selecting("acme.com/n", "7", operator="Gt"),
                            selecting("acme.com/o", "8", operator="Lt"),
                        ),
                        _PREFERRED: [
                            {
                                "weight": 3,
                                "preference": {
                                    "matchExpressions": [selecting("acme.com/a", "w", operator="NotIn")],
                                    "matchFields": [selecting("metadata.name", "acme-n")],
                                },
                            }
                        ],
                    }
                }
            }
        ),
        {
            "acme.com/a": "label-1",
            "v": "value-1",
            "w": "value-2",
            "acme.com/n": "label-2",
            "acme.com/o": "label-3",
            "acme-n": "node-1",
        },
    ),
    "affinity to pods": (
        "Pod",
        pod(
            {
                "affinity": {
                    "podAffinity": {
                        _REQUIRED: [{"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"}],
                        _PREFERRED: [
                            {
                                "weight": 3,
                                "podAffinityTerm": {
                                    "labelSelector": {"matchLabels": {"acme.com/a": "v"}},
                                    "namespaces": ["acme-b", "acme-a"],
                                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "acme-a"}},
                                    "topologyKey": "acme.com/rack",
                                    "matchLabelKeys": ["acme.com/a"],
                                    "mismatchLabelKeys": ["acme.com/z"],
                                },
                            }
                        ],
                    },
                    "podAntiAffinity": {
                        _REQUIRED: [{"namespaceSelector": {}, "topologyKey": "topology.kubernetes.io/zone"}]
                    },
                }
            }
        ),
        {
            "acme.com/a": "label-1",
            "v": "value-1",
            "acme-b": "namespace-2",
            "acme-a": "namespace-1",
            "acme.com/rack": "label-2",
            "acme.com/z": "label-3",
        },
    ),
    "topology spread": (
        "Pod",
        pod(
            {
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 2,
                        "topologyKey": "acme.com/rack",
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchLabels": {"acme.com/a": "v"}},
                        "minDomains": 3,
                        "nodeAffinityPolicy": "Ignore",
                        "nodeTaintsPolicy": "Honor",
                        "matchLabelKeys": ["acme.com/a"],
                    }
                ]
            }
        ),
        {"acme.com/rack": "label-2", "acme.com/a": "label-1", "v": "value-1"},
    ),
    "volumes that a scheduler looks at": (
        "Pod",
        pod(
            {
                "volumes": [
                    {"name": "a", "emptyDir": {}},
                    {"name": "b", "persistentVolumeClaim": {"claimName": "acme-c", "readOnly": True}},
                    {"name": "c", "gcePersistentDisk": {"pdName": "acme-disk", "readOnly": True}},
                    {"name": "d", "awsElasticBlockStore": {"volumeID": "acme-ebs"}},
                    {"name": "e", "iscsi": {"targetPortal": "t", "iqn": "q", "lun": 3, "readOnly": True}},
                    {"name": "f", "rbd": {"monitors": ["m", "l"], "pool": "p", "image": "i", "readOnly": True}},
                    {"name": "g", "csi": {"driver": "csi.acme.com", "readOnly": True}},
                ]
            }
        ),
        {
            "a": "podvolume-1",
            "b": "podvolume-2",
            "acme-c": "claim-1",
            "c": "podvolume-3",
            "acme-disk": "disk-1",
            "d": "podvolume-4",
            "acme-ebs": "disk-2",
            "e": "podvolume-5",
            "t": "disk-8",
            "q": "disk-7",
            "f": "podvolume-6",
            "m": "disk-5",
            "l": "disk-4",
            "p": "disk-6",
            "i": "disk-3",
            "g": "podvolume-7",
            "csi.acme.com": "csidriver-1",
        },
    ),
    "claims of a pod": (
        "Pod",
        pod(
            {
                "resourceClaims": [
                    {"name": "a", "resourceClaimName": "acme-b"},
                    {"name": "c", "resourceClaimTemplateName": "acme-t"},
                ]
            },
            {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "acme-made"}]},
        ),
        {
            "a": "deviceclaim-1",
            "acme-b": "deviceclaim-2",
            "c": "deviceclaim-4",
            "acme-t": "claimtemplate-1",
            "acme-made": "deviceclaim-3",
        },
    ),
    "the status of a pod": (
        "Pod",
        pod(
            status={
                "phase": "Running",
                "conditions": [
                    {"type": kind, "status": "True", "reason": "R", "lastTransitionTime": WHEN}
                    for kind in (
                        "PodScheduled",
                        "Ready",
                        "ContainersReady",
                        "Initialized",
                        "DisruptionTarget",
                        "PodResizePending",
                        "PodResizeInProgress",
                    )
                ],
                "startTime": WHEN,
                "nominatedNodeName": "acme-n",
                "qosClass": "Burstable",
                "containerStatuses": [
                    {
                        "name": "container-1",
                        "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
                        "allocatedResources": {"cpu": "1"},
                    }
                ],
                "initContainerStatuses": [{"name": "container-0", "allocatedResources": {"cpu": "1"}}],
                "resources": {"requests": {"cpu": "1"}},
                "allocatedResources": {"cpu": "1"},
            }
        ),
        {"container-1": "container-2", "acme-n": "node-1", "container-0": "container-1", "R": "Other"},
    ),
    "metadata": (
        "Pod",
        {
            **pod(),
            "metadata": {
                "namespace": "acme-team",
                "uid": "acme-u1",
                "creationTimestamp": WHEN,
                "deletionTimestamp": WHEN,
                "deletionGracePeriodSeconds": 5,
                "labels": {
                    "acme.com/a": "v",
                    "kubernetes.io/os": "linux",
                    "batch.kubernetes.io/job-completion-index": "3",
                },
                "annotations": {
                    "volcano.sh/task-spec": "acme-task",
                    "kueue.x-k8s.io/pod-group-total-count": "3",
                    "resource.kubernetes.io/pod-claim-name": "acme-gpu",
                    "resource.kubernetes.io/extended-resource-claim": "true",
                },
                "ownerReferences": [
                    {"apiVersion": "batch/v1", "kind": "Job", "name": "acme-j", "uid": "acme-u2", "controller": True},
                    {"apiVersion": "v1", "kind": "Node", "name": "acme-n", "uid": "acme-u3"},
                ],
            },
        },
        {
            "acme-team": "namespace-1",
            "acme-u1": "uid-1",
            "acme.com/a": "label-1",
            "v": "value-1",
            "acme-task": "task-1",
            "acme-gpu": "deviceclaim-1",
            "acme-j": "job-1",
            "acme-u2": "uid-2",
            "acme-n": "node-1",
            "acme-u3": "uid-3",
        },
    ),
    "a priority class": ("PriorityClass", {"value": 7, "globalDefault": True, "preemptionPolicy": "Never"}, {}),
    "a pod group": (
        "PodGroup",
        {
            **group(
                workloadRef={"workloadName": "acme-w", "templateName": "acme-t"},
                parentCompositePodGroupName="acme-p",
                schedulingConstraints={"topology": [{"key": "acme.com/rack"}]},
                disruptionMode={"all": {}},
                priorityClassName="acme-high",
                priority=7,
                preemptionPolicy="Never",
                resourceClaims=[{"name": "a", "resourceClaimName": "acme-c"}],
            ),
            "status": {
                "conditions": [
                    {"type": "PodGroupInitiallyScheduled", "status": "True", "lastTransitionTime": WHEN},
                    {"type": "DisruptionTarget", "status": "True", "reason": "R", "lastTransitionTime": WHEN},
                ],
                "resourceClaimStatuses": [{"name": "a", "resourceClaimName": "acme-c"}],
            },
        },
        {
            "acme-w": "workload-1",
            "acme-t": "template-1",
            "acme-p": "compositepodgroup-1",
            "acme.com/rack": "label-1",
            "acme-high": "priorityclass-1",
            "a": "deviceclaim-1",
            "acme-c": "deviceclaim-2",
            "R": "Other",
        },
    ),
    "a budget": (
        "PodDisruptionBudget",
        {
            "spec": {
                "selector": {"matchLabels": {"acme.com/a": "v"}},
                "minAvailable": 1,
                "maxUnavailable": "25%",
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
            },
            "status": {
                "disruptionsAllowed": 1,
                "disruptedPods": {"acme-p": WHEN},
                "currentHealthy": 3,
                "desiredHealthy": 2,
                "expectedPods": 4,
                "observedGeneration": 5,
            },
        },
        {"acme.com/a": "label-1", "v": "value-1", "acme-p": "pod-1"},
    ),
    "a budget for every pod: an empty selector is not none": (
        "PodDisruptionBudget",
        {"spec": {"selector": {}, "minAvailable": 0}},
        {},
    ),
    "a service": ("Service", {"spec": {"selector": {"acme.com/a": "v"}}}, {"acme.com/a": "label-1", "v": "value-1"}),
    "a replication controller": (
        "ReplicationController",
        {"spec": {"replicas": 3, "selector": {"acme.com/a": "v"}}},
        {"acme.com/a": "label-1", "v": "value-1"},
    ),
    "a replica set": (
        "ReplicaSet",
        {"spec": {"replicas": 3, "selector": {"matchLabels": {"acme.com/a": "v"}}}},
        {"acme.com/a": "label-1", "v": "value-1"},
    ),
    "a stateful set": (
        "StatefulSet",
        {"spec": {"replicas": 0, "selector": {"matchExpressions": [selecting("acme.com/a", operator="DoesNotExist")]}}},
        {"acme.com/a": "label-1"},
    ),
    "a volume": (
        "PersistentVolume",
        {
            "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "acme-fast"}},
            "spec": {
                "capacity": {"storage": "10Gi"},
                "accessModes": ["ReadWriteOnce"],
                "claimRef": {
                    "kind": "PersistentVolumeClaim",
                    "namespace": "acme-team",
                    "name": "acme-c",
                    "uid": "acme-u1",
                },
                "nodeAffinity": {"required": terms(selecting("kubernetes.io/hostname", "acme-n"))},
                "storageClassName": "acme-fast",
                "volumeMode": "Block",
                "csi": {"driver": "csi.acme.com", "volumeHandle": "acme-disk"},
                "persistentVolumeReclaimPolicy": "Delete",
            },
            "status": {"phase": "Bound"},
        },
        {
            "acme-fast": "storageclass-1",
            "acme-team": "namespace-1",
            "acme-c": "claim-1",
            "acme-u1": "uid-1",
            "acme-n": "value-1",
            "acme-disk": "disk-1",
            "csi.acme.com": "csidriver-1",
        },
    ),
    **{
        f"a volume of {source}": (
            "PersistentVolume",
            {"spec": {source: {field: "acme-disk"}, "persistentVolumeReclaimPolicy": "Retain"}},
            {"acme-disk": "disk-1"},
        )
        for source, field in (
            ("awsElasticBlockStore", "volumeID"),
            ("gcePersistentDisk", "pdName"),
            ("azureDisk", "diskName"),
            ("cinder", "volumeID"),
            ("portworxVolume", "volumeID"),
        )
    },
    "a claim": (
        "PersistentVolumeClaim",
        {
            "metadata": {
                "annotations": {
                    "volume.kubernetes.io/selected-node": "acme-n",
                    "pv.kubernetes.io/bind-completed": "yes",
                    "pv.kubernetes.io/bound-by-controller": "yes",
                }
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}, "limits": {"storage": "2Gi"}},
                "selector": {"matchLabels": {"acme.com/a": "v"}},
                "storageClassName": "acme-fast",
                "volumeName": "acme-pv",
                "volumeMode": "Block",
            },
            "status": {"phase": "Bound", "capacity": {"storage": "2Gi"}},
        },
        {
            "acme-n": "node-1",
            "acme.com/a": "label-1",
            "v": "value-1",
            "acme-fast": "storageclass-1",
            "acme-pv": "volume-1",
        },
    ),
    "a claim of no class": (
        "PersistentVolumeClaim",
        {"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}},
        {},
    ),
    "a storage class": (
        "StorageClass",
        {
            "metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "csi.acme.com",
            "volumeBindingMode": "WaitForFirstConsumer",
            "reclaimPolicy": "Retain",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "acme.com/rack", "values": ["r1", "r2"]}]}],
        },
        {"acme.com/rack": "label-1", "r1": "value-1", "r2": "value-2", "csi.acme.com": "csidriver-1"},
    ),
    "the drivers of a node": (
        "CSINode",
        {
            "metadata": {"annotations": {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"}},
            "spec": {
                "drivers": [
                    {
                        "name": "csi.acme.com",
                        "nodeID": "acme-i",
                        "topologyKeys": ["acme.com/rack"],
                        "allocatable": {"count": 5},
                    }
                ]
            },
        },
        {"acme-i": "disk-1", "acme.com/rack": "label-1", "csi.acme.com": "csidriver-1"},
    ),
    "a driver": ("CSIDriver", {"spec": {"storageCapacity": True, "preventPodSchedulingIfMissing": True}}, {}),
    "an attachment": (
        "VolumeAttachment",
        {"spec": {"attacher": "csi.acme.com", "nodeName": "acme-n", "source": {"persistentVolumeName": "acme-pv"}}},
        {"acme-n": "node-1", "acme-pv": "volume-1", "csi.acme.com": "csidriver-1"},
    ),
    "the capacity of a driver": (
        "CSIStorageCapacity",
        {
            "storageClassName": "acme-fast",
            "nodeTopology": {"matchLabels": {"acme.com/rack": "r1"}},
            "capacity": "10Gi",
            "maximumVolumeSize": "5Gi",
        },
        {"acme-fast": "storageclass-1", "acme.com/rack": "label-1", "r1": "value-1"},
    ),
}
