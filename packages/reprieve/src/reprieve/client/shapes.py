"""The fields of each kind in snapshots: the tables behind `snapshot`.

Terms: a shape is the table of a kind: its fields and the conversion of each; a leaf is the conversion of one value.

Invariant: a field without an entry is omitted, so that new fields of Kubernetes need an entry first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kube_rules import objects as o
from kube_rules.admission import PREEMPTION_PRIORITY, PREEMPTION_PRIORITY_CLASS
from kube_rules.controllers.claims import POD_CLAIM
from kube_rules.controllers.volumes import DEFAULT_CLASS
from kube_rules.foreign_groups import FOREIGN, FOREIGN_VERSIONS
from kube_rules.group_sources import GROUP_ANNOTATIONS, KUEUE_TOTAL, TASK_ANNOTATION
from kube_rules.json import Json
from kube_rules.meta import DISRUPTION_TARGET, INITIALLY_SCHEDULED, KubernetesObject
from kube_rules.storage import BIND_COMPLETED, BOUND_BY_CONTROLLER, CLASS_BETA, SELECTED_NODE
from kube_rules.topology_terms import PREFERRED_TOPOLOGY, SLICE
from kube_rules.work_annotations import GRANT_NAMESPACES, WORK_ANNOTATIONS
from reprieve.client import leaves
from reprieve.client.leaves import Leaf
from reprieve.client.pseudonyms import (
    CLAIM,
    CLASS,
    COMPOSITE,
    CONTAINER,
    DEVICE_CLAIM,
    DISK,
    GROUP,
    NAMESPACE,
    NODE,
    POD,
    TASK,
    UID,
    VOLUME,
    Names,
    domain_of,
)
from reprieve.decisions.requested_nodes import STATE as PROVISIONING_STATE

_SELECTOR: Final = {"matchLabels": leaves.labels, "matchExpressions": leaves.requirements}
_TERM: Final = {"matchExpressions": leaves.requirements, "matchFields": leaves.field_requirements}
_NODE_SELECTOR: Final = {"nodeSelectorTerms": leaves.each(_TERM)}


_RESOURCES: Final = {
    "requests": leaves.amounts,
    "limits": leaves.amounts,
    "claims": leaves.each({"name": leaves.named(DEVICE_CLAIM)}),
}
_CONTAINER: Final = {
    "name": leaves.named(CONTAINER),
    "image": leaves.image,
    "resources": _RESOURCES,
    "ports": leaves.each(
        {"containerPort": leaves.keep, "hostPort": leaves.keep, "hostIP": leaves.address, "protocol": leaves.keep}
    ),
    "restartPolicy": leaves.keep,
    "restartPolicyRules": leaves.each({"action": leaves.keep}),
    "volumeMounts": leaves.each({"bindMountOptions": leaves.keep}),
}
_AFFINITY_TERM: Final = {
    "labelSelector": _SELECTOR,
    "namespaces": leaves.each(leaves.named(NAMESPACE)),
    "namespaceSelector": _SELECTOR,
    "topologyKey": leaves.label_key,
    "matchLabelKeys": leaves.each(leaves.label_key),
    "mismatchLabelKeys": leaves.each(leaves.label_key),
}
_BETWEEN_PODS: Final = {
    "requiredDuringSchedulingIgnoredDuringExecution": leaves.each(_AFFINITY_TERM),
    "preferredDuringSchedulingIgnoredDuringExecution": leaves.each(
        {"weight": leaves.keep, "podAffinityTerm": _AFFINITY_TERM}
    ),
}
_AFFINITY: Final = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": _NODE_SELECTOR,
        "preferredDuringSchedulingIgnoredDuringExecution": leaves.each({"weight": leaves.keep, "preference": _TERM}),
    },
    "podAffinity": _BETWEEN_PODS,
    "podAntiAffinity": _BETWEEN_PODS,
}
_CLAIM_SPEC: Final = {
    **leaves.kept("accessModes volumeMode"),
    "resources": {"requests": leaves.amounts, "limits": leaves.amounts},
    "selector": _SELECTOR,
    "storageClassName": leaves.named(CLASS),
    "volumeName": leaves.named(VOLUME),
}
_CLAIMS: Final = leaves.each(
    {
        "name": leaves.named(DEVICE_CLAIM),
        "resourceClaimName": leaves.named(DEVICE_CLAIM),
        "resourceClaimTemplateName": leaves.named("claimtemplate"),
    }
)
_VOLUMES: Final = leaves.one_of(
    name=leaves.named("podvolume"),
    persistentVolumeClaim={"claimName": leaves.named(CLAIM), "readOnly": leaves.keep},
    ephemeral={"volumeClaimTemplate": {"spec": _CLAIM_SPEC}},
    emptyDir=leaves.nothing_of,
    gcePersistentDisk={"pdName": leaves.named(DISK), "readOnly": leaves.keep},
    awsElasticBlockStore={"volumeID": leaves.named(DISK), "readOnly": leaves.keep},
    iscsi={
        "targetPortal": leaves.named(DISK),
        "iqn": leaves.named(DISK),
        "lun": leaves.RequiredField(0, leaves.keep),
        "readOnly": leaves.keep,
    },
    rbd={
        "monitors": leaves.each(leaves.named(DISK)),
        "pool": leaves.named(DISK),
        "image": leaves.named(DISK),
        "readOnly": leaves.keep,
    },
    csi={"driver": leaves.driver, "readOnly": leaves.keep},
)
_STATUSES: Final = leaves.each(
    {"name": leaves.named(CONTAINER), "resources": _RESOURCES, "allocatedResources": leaves.amounts}
)
_POD_CONDITIONS: Final = leaves.conditions(
    "PodScheduled",
    "Ready",
    "ContainersReady",
    "Initialized",
    DISRUPTION_TARGET,
    "PodResizePending",
    "PodResizeInProgress",
)
_POLICY: Final = {"basic": leaves.keep, "gang": {"minCount": leaves.keep}}
_COMPOSITE_POLICY: Final = {"basic": leaves.keep, "gang": {"minGroupCount": leaves.keep}}
_TEMPLATE: Final = {
    "name": leaves.named("template"),
    "schedulingPolicy": _POLICY,
    "schedulingConstraints": {"topology": leaves.each({"key": leaves.label_key})},
    **leaves.kept("disruptionMode priority preemptionPolicy"),
    "priorityClassName": leaves.priority_class,
    "resourceClaims": _CLAIMS,
}
_COMPOSITE: Final = {
    **{name: shape for name, shape in _TEMPLATE.items() if name not in ("name", "resourceClaims")},
    "schedulingPolicy": _COMPOSITE_POLICY,
}


def _composite_templates(value: Any, names: Names) -> list[Any]:
    shape = {
        **_COMPOSITE,
        "name": leaves.named("template"),
        "podGroupTemplates": leaves.each(_TEMPLATE),
        "compositePodGroupTemplates": _composite_templates,
    }
    return [leaves.shaped_by(shape, item, names) for item in value]


_SELECTING: Final = {"replicas": leaves.keep, "selector": _SELECTOR}

SHAPES: Final[Mapping[type[KubernetesObject], Mapping[str, Any]]] = {
    o.Pod: {
        "spec": {
            "containers": leaves.each(_CONTAINER),
            "initContainers": leaves.each(_CONTAINER),
            "overhead": leaves.amounts,
            "resources": _RESOURCES,
            "nodeName": leaves.named(NODE),
            "nodeSelector": leaves.labels,
            "affinity": _AFFINITY,
            "tolerations": leaves.tainting("operator", "effect", "tolerationSeconds"),
            **leaves.kept(
                "priority preemptionPolicy hostNetwork hostUsers terminationGracePeriodSeconds activeDeadlineSeconds "
                "restartPolicy"
            ),
            "priorityClassName": leaves.priority_class,
            "schedulerName": leaves.scheduler,
            "schedulingGates": leaves.each({"name": leaves.label_key}),
            "schedulingGroup": {"podGroupName": leaves.named(GROUP)},
            "topologySpreadConstraints": leaves.each(
                {
                    "maxSkew": leaves.RequiredField(1, leaves.keep),
                    "topologyKey": leaves.label_key,
                    "whenUnsatisfiable": leaves.RequiredField("DoNotSchedule", leaves.keep),
                    "labelSelector": _SELECTOR,
                    **leaves.kept("minDomains nodeAffinityPolicy nodeTaintsPolicy"),
                    "matchLabelKeys": leaves.each(leaves.label_key),
                }
            ),
            "volumes": _VOLUMES,
            "resourceClaims": _CLAIMS,
            "ephemeralContainers": leaves.each({"volumeMounts": leaves.each({"bindMountOptions": leaves.keep})}),
        },
        "status": {
            **leaves.kept("phase startTime qosClass"),
            "conditions": _POD_CONDITIONS,
            "nominatedNodeName": leaves.named(NODE),
            "containerStatuses": _STATUSES,
            "initContainerStatuses": _STATUSES,
            "resources": _RESOURCES,
            "allocatedResources": leaves.amounts,
            "resourceClaimStatuses": leaves.each(
                {"name": leaves.named(DEVICE_CLAIM), "resourceClaimName": leaves.named(DEVICE_CLAIM)}
            ),
        },
    },
    o.Node: {
        "spec": {
            "unschedulable": leaves.keep,
            "taints": leaves.tainting("effect", "timeAdded"),
            "podPreemptionPolicy": {"disableResizePreemption": leaves.each(leaves.label_key)},
        },
        "status": {
            "capacity": leaves.amounts,
            "allocatable": leaves.amounts,
            "conditions": leaves.conditions(
                "Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"
            ),
            "images": leaves.images,
            "declaredFeatures": leaves.features,
        },
    },
    o.Namespace: {},
    o.PriorityClass: {"value": leaves.keep, "globalDefault": leaves.keep, "preemptionPolicy": leaves.keep},
    o.PodGroup: {
        "spec": {
            "workloadRef": {"workloadName": leaves.named("workload"), "templateName": leaves.named("template")},
            "parentCompositePodGroupName": leaves.named(COMPOSITE),
            **{name: shape for name, shape in _TEMPLATE.items() if name != "name"},
        },
        "status": {
            "conditions": leaves.conditions(
                INITIALLY_SCHEDULED["PodGroup"], "PodGroupScheduled", "PodGroupSatisfied", DISRUPTION_TARGET
            ),
            "resourceClaimStatuses": leaves.each(
                {"name": leaves.named(DEVICE_CLAIM), "resourceClaimName": leaves.named(DEVICE_CLAIM)}
            ),
        },
        FOREIGN: {
            "apiVersion": lambda value, _names: value if value in FOREIGN_VERSIONS else FOREIGN_VERSIONS[0],
            **leaves.kept("minMember phase"),
            "minTaskMember": lambda value, names: {names.name(TASK, task): least for task, least in value.items()},
            "subGroupPolicy": leaves.each(
                {
                    "name": leaves.named(TASK),
                    "labelSelector": _SELECTOR,
                    "matchLabelKeys": leaves.each(leaves.label_key),
                    **leaves.kept("subGroupSize minSubGroups"),
                }
            ),
        },
    },
    o.CompositePodGroup: {
        "spec": {
            "workloadRef": {"workloadName": leaves.named("workload"), "templateName": leaves.named("template")},
            "parentCompositePodGroupName": leaves.named(COMPOSITE),
            **_COMPOSITE,
        },
        "status": {"conditions": leaves.conditions(INITIALLY_SCHEDULED["CompositePodGroup"], DISRUPTION_TARGET)},
    },
    o.Workload: {
        "spec": {"podGroupTemplates": leaves.each(_TEMPLATE), "compositePodGroupTemplates": _composite_templates},
    },
    o.PodDisruptionBudget: {
        "spec": {
            "selector": _SELECTOR,
            **leaves.kept("minAvailable maxUnavailable unhealthyPodEvictionPolicy"),
        },
        "status": {
            **leaves.kept("disruptionsAllowed currentHealthy desiredHealthy expectedPods observedGeneration"),
            "disruptedPods": lambda value, names: {
                names.name(POD, pod): leaves.keep(when, names) for pod, when in value.items()
            },
        },
    },
    o.ResourceQuota: {
        "spec": {
            "hard": leaves.quota_amounts,
            "scopes": leaves.keep,
            "scopeSelector": {"matchExpressions": leaves.scope_requirements},
        },
        "status": {"hard": leaves.quota_amounts, "used": leaves.quota_amounts},
    },
    o.LimitRange: {
        "spec": {
            "limits": leaves.each(
                {
                    "type": leaves.keep,
                    **dict.fromkeys(
                        ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio"), leaves.amounts
                    ),
                }
            )
        }
    },
    o.Service: {"spec": {"selector": leaves.labels}},
    o.ReplicationController: {"spec": {"replicas": leaves.keep, "selector": leaves.labels}},
    o.ReplicaSet: {"spec": _SELECTING},
    o.StatefulSet: {"spec": _SELECTING},
    o.PersistentVolume: {
        "spec": {
            **leaves.kept("capacity accessModes volumeMode persistentVolumeReclaimPolicy"),
            "claimRef": {
                "kind": leaves.keep,
                "namespace": leaves.named(NAMESPACE),
                "name": leaves.named(CLAIM),
                "uid": leaves.named(UID),
            },
            "nodeAffinity": {"required": _NODE_SELECTOR},
            "storageClassName": leaves.named(CLASS),
            "csi": {"driver": leaves.driver, "volumeHandle": leaves.named(DISK)},
            "awsElasticBlockStore": {"volumeID": leaves.named(DISK)},
            "gcePersistentDisk": {"pdName": leaves.named(DISK)},
            "azureDisk": {"diskName": leaves.named(DISK)},
            "cinder": {"volumeID": leaves.named(DISK)},
            "portworxVolume": {"volumeID": leaves.named(DISK)},
        },
        "status": {"phase": leaves.keep},
    },
    o.PersistentVolumeClaim: {"spec": _CLAIM_SPEC, "status": {"phase": leaves.keep, "capacity": leaves.keep}},
    o.StorageClass: {
        "provisioner": leaves.driver,
        **leaves.kept("volumeBindingMode reclaimPolicy"),
        "allowedTopologies": leaves.each(
            {
                "matchLabelExpressions": lambda value, names: [
                    {"key": names.key(i.get("key", "")), "values": [names.value(i["key"], v) for v in i["values"]]}
                    for i in value
                ]
            }
        ),
    },
    o.CSINode: {
        "spec": {
            "drivers": leaves.each(
                {
                    "name": leaves.driver,
                    "nodeID": leaves.named(DISK),
                    "topologyKeys": leaves.each(leaves.label_key),
                    "allocatable": leaves.keep,
                }
            )
        }
    },
    o.CSIDriver: {"spec": {"storageCapacity": leaves.keep, "preventPodSchedulingIfMissing": leaves.keep}},
    o.VolumeAttachment: {
        "spec": {
            "attacher": leaves.driver,
            "nodeName": leaves.named(NODE),
            "source": {"persistentVolumeName": leaves.named(VOLUME)},
        }
    },
    o.CSIStorageCapacity: {
        "storageClassName": leaves.named(CLASS),
        "nodeTopology": _SELECTOR,
        **leaves.kept("capacity maximumVolumeSize"),
    },
    o.ResourceClaim: {
        "spec": {"devices": leaves.devices},
        "status": {
            "allocation": {"devices": leaves.devices, "nodeSelector": _NODE_SELECTOR},
            "reservedFor": leaves.keep,
        },
    },
    o.ResourceSlice: {
        "spec": {
            **leaves.kept("driver pool allNodes perDeviceNodeSelection sharedCounters devices"),
            "nodeName": leaves.named(NODE),
            "nodeSelector": _NODE_SELECTOR,
        }
    },
    o.DeviceClass: {"spec": {"selectors": leaves.keep, "extendedResourceName": leaves.keep}},
    o.DeviceTaintRule: {"spec": {"deviceSelector": leaves.keep, "taint": leaves.keep}},
}


def name_of(kind: type[KubernetesObject]) -> Leaf:
    """Return the conversion of the name of an object."""
    special = {o.PriorityClass: leaves.priority_class, o.CSIDriver: leaves.driver}
    return special.get(kind) or leaves.named(domain_of(kind.KIND))


_ANNOTATIONS: Final[Mapping[str, Leaf]] = {
    PREEMPTION_PRIORITY_CLASS: leaves.priority_class,
    PREEMPTION_PRIORITY: leaves.keep,
    **dict.fromkeys(GROUP_ANNOTATIONS, leaves.named(GROUP)),
    TASK_ANNOTATION: leaves.named(TASK),
    KUEUE_TOTAL: leaves.keep,
    **dict.fromkeys(WORK_ANNOTATIONS, leaves.keep),
    GRANT_NAMESPACES: leaves.namespaces,
    PREFERRED_TOPOLOGY: leaves.levels,
    SLICE: leaves.levels,
    SELECTED_NODE: leaves.named(NODE),
    CLASS_BETA: leaves.named(CLASS),
    BIND_COMPLETED: leaves.keep,
    BOUND_BY_CONTROLLER: leaves.keep,
    DEFAULT_CLASS: leaves.keep,
    "resource.kubernetes.io/extended-resource-claim": leaves.keep,
    "storage.alpha.kubernetes.io/migrated-plugins": leaves.drivers,
    POD_CLAIM: leaves.named(DEVICE_CLAIM),
    PROVISIONING_STATE: leaves.request_state,
}
"""The annotations that a scheduler or the volume controllers read."""


def _annotations(value: Mapping[str, str], names: Names) -> Json:
    return {key: _ANNOTATIONS[key](text, names) for key, text in value.items() if key in _ANNOTATIONS}


METADATA: Final = {
    "annotations": _annotations,
    **leaves.kept("creationTimestamp deletionTimestamp deletionGracePeriodSeconds"),
    "labels": leaves.labels,
    "ownerReferences": leaves.owners,
}
