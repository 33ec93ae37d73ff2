"""What of each kind may leave a cluster: the tables behind `snapshot`.

Terms: a shape is the table of a kind: its fields and what becomes of each; a leaf is what becomes of one value.

Invariant: a field without an entry does not leave, so that what Kubernetes adds stays inside until somebody decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kube_rules import objects as o
from kube_rules.admission import PREEMPTION_PRIORITY, PREEMPTION_PRIORITY_CLASS
from kube_rules.admission.usage import CLASS_STORAGE
from kube_rules.devices import IMPLICIT
from kube_rules.foreign_groups import FOREIGN, FOREIGN_VERSIONS
from kube_rules.group_sources import GROUP_ANNOTATIONS, KUEUE_TOTAL, TASK_ANNOTATION
from kube_rules.json import Json
from kube_rules.meta import KubernetesObject
from kube_rules.node_features import decisive
from kube_rules.storage import BIND_COMPLETED, BOUND_BY_CONTROLLER, CLASS_BETA, SELECTED_NODE
from kube_rules.work_annotations import GRANT_NAMESPACES, WORK_ANNOTATIONS
from reprieve.client.pseudonyms import (
    ADDRESS,
    CLAIM,
    CLASS,
    COMPOSITE,
    CONTAINER,
    DEVICE_CLAIM,
    DEVICE_CLASS,
    DISK,
    GROUP,
    IMAGE,
    NAMESPACE,
    NODE,
    POD,
    PRIORITY,
    TASK,
    UID,
    VOLUME,
    Names,
    domain_of,
)
from reprieve.client.public_words import CLASSES, field_names, is_public, is_public_owner

Leaf = Callable[[Any, Names], Any]
Shape = Mapping[str, Any] | Leaf
"""Field name to shape, or what to make of a value."""


class Demanded(NamedTuple):
    """A field that the API demands, though what is read has a default for it and leaves it out where it has that."""

    default: Any
    shape: Shape


_UNKNOWN_OWNER: Final = ("example.com/v1", "Owner")


def shaped_by(shape: Shape, data: Any, names: Names) -> Any:
    """What of the data may leave, in the form it may leave."""
    if not isinstance(shape, Mapping):
        return shape(data, names)
    made: Json = {}
    for name, found in data.items():
        inner = shape.get(name)
        if isinstance(inner, Demanded):
            inner = inner.shape
        if inner is not None and found is not None:
            value = shaped_by(inner, found, names)
            if value or name not in _NOTHING_IF_EMPTY:
                made[name] = value
    for name, inner in shape.items():
        if isinstance(inner, Demanded):
            made.setdefault(name, inner.default)
    return made


_NOTHING_IF_EMPTY: Final = frozenset(
    (
        *("annotations", "labels", "requests", "limits", "overhead", "nodeSelector", "capacity", "allocatable"),
        *("matchLabels", "allocatedResources", "disruptedPods", "resources", "conditions", "volumes", "images"),
    )
)
"""Maps and lists for which empty means absent. Others may mean something: `labelSelector: {}` selects everything."""


# --- leaves -----------------------------------------------------------------------------------------------


def _keep(value: Any, names: Names) -> Any:
    """A value that nobody chose; of anonymous snapshots every text in it that is not public is replaced."""
    if not names.anonymize:
        return value
    if isinstance(value, str):
        return names.word(value)
    if isinstance(value, Mapping):
        return {k if k in field_names() else names.resource(k): _keep(found, names) for k, found in value.items()}
    return [_keep(item, names) for item in value] if isinstance(value, Sequence) else value


def _driver(value: str, names: Names) -> str:
    return names.driver(value)


def _drivers(value: str, names: Names) -> str:
    return ",".join(map(names.driver, value.split(",")))


def _namespaces(value: str, names: Names) -> str:
    return ",".join(names.name(NAMESPACE, one.strip()) for one in value.split(","))


def _features(value: Sequence[str], names: Names) -> list[str]:
    """Those by which pods are placed, where names are replaced."""
    return sorted(decisive(value)) if names.anonymize else list(value)


def _reason(value: str, names: Names) -> str:
    """A word in camel case, which has no pseudonym."""
    return value if not names.anonymize or is_public(value) else "Other"


def named(domain: str) -> Leaf:
    """A name of a domain."""
    return lambda value, names: names.name(domain, value)


def _each(shape: Shape) -> Leaf:
    return lambda value, names: [shaped_by(shape, item, names) for item in value]


def _one_of(**known: Shape) -> Leaf:
    """Each item of a list, but for items that have nothing besides a name."""

    def shaped(value: Any, names: Names) -> Any:
        items = [shaped_by(known, item, names) for item in value]
        return [item for item in items if len(item) > 1]

    return shaped


def _nothing_of(_value: Any, _names: Names) -> Any:
    """That it is there, and nothing of what it says."""
    return {}


def priority_class(value: str, names: Names) -> str:
    """The name of a priority class; those of the system are everywhere the same."""
    return value if value in CLASSES else names.name(PRIORITY, value)


def _address(value: str, names: Names) -> str:
    """A host address; those that mean every address stay, as they conflict with all."""
    return value if value in ("0.0.0.0", "::") else names.name(ADDRESS, value)


def _scheduler(value: str, names: Names) -> str:
    return value if value == o.DEFAULT_SCHEDULER else names.name("scheduler", value)


def _labels(value: Mapping[str, str], names: Names) -> Json:
    return {names.key(key): names.value(key, text) for key, text in value.items()}


def _key(value: str, names: Names) -> str:
    return names.key(value)


def _requirements(value: Sequence[Mapping[str, Any]], names: Names) -> list[Json]:
    """matchExpressions: values belong to their key."""
    found = []
    for item in value:
        key, operator = item.get("key", ""), item.get("operator", "")
        if operator in ("Gt", "Lt"):
            names.numeric(key)
        made: Json = {"key": names.key(key), "operator": _keep(operator, names)}
        if item.get("values"):
            made["values"] = [names.value(key, text) for text in item["values"]]
        found.append(made)
    return found


def _field_requirements(value: Sequence[Mapping[str, Any]], names: Names) -> list[Json]:
    """matchFields: only metadata.name exists."""
    shape = {"key": _field, "operator": _keep, "values": _each(named(NODE))}
    return [shaped_by(shape, item, names) for item in value]


def _field(value: str, names: Names) -> str:
    return value if value == "metadata.name" else names.word(value)


def _tainting(*more: str) -> Leaf:
    """Taints and tolerations: a value belongs to its key."""

    def shaped(value: Sequence[Mapping[str, Any]], names: Names) -> list[Json]:
        found = []
        for item in value:
            key = item.get("key", "")
            if item.get("operator") in ("Gt", "Lt"):
                names.numeric(key)
            made: Json = {name: _keep(item[name], names) for name in more if name in item}
            if key:
                made["key"] = names.key(key)
            if item.get("value"):
                made["value"] = names.value(key, item["value"])
            found.append(made)
        return found

    return shaped


def _owners(value: Sequence[Mapping[str, Any]], names: Names) -> list[Json]:
    """Owners by kind and name; a kind that is not public is just an owner."""
    found = []
    for item in value:
        version, kind = item.get("apiVersion", ""), item.get("kind", "")
        if names.anonymize and not is_public_owner(version, kind):
            version, kind = _UNKNOWN_OWNER
        made: Json = {"apiVersion": version, "kind": kind}
        made["name"] = names.name(domain_of(kind), item.get("name", ""))
        made["uid"] = names.name(UID, item.get("uid", ""))
        if item.get("controller"):
            made["controller"] = True
        found.append(made)
    return found


def _conditions(*types: str) -> Leaf:
    """Conditions of known types, without the messages."""
    shape = {"type": lambda value, _names: value, "status": _keep, "reason": _reason, "lastTransitionTime": _keep}

    def shaped(value: Sequence[Mapping[str, Any]], names: Names) -> list[Json]:
        return [shaped_by(shape, item, names) for item in value if item.get("type") in types]

    return shaped


def _image(value: str, names: Names) -> str:
    return names.name(IMAGE, with_tag(value))


def _images(value: Sequence[Mapping[str, Any]], names: Names) -> list[Json]:
    """A node's images, by number, as far as a pod uses them."""
    found = []
    for item in value:
        used = [name for name in item.get("names", ()) if with_tag(name) in names.images]
        if used:
            found.append({"names": [_image(name, names) for name in used], "sizeBytes": item.get("sizeBytes", 0)})
    return found


def with_tag(image: str) -> str:
    """`nginx` and `nginx:latest` are one image (kube-scheduler's ImageLocality)."""
    return image if ":" in image.rpartition("/")[2] else image + ":latest"


def _devices(value: Any, names: Names) -> Any:
    """Requests for devices without the drivers' own configuration, which may hold anything."""
    return {name: found for name, found in value.items() if name != "config"}


# --- shapes -----------------------------------------------------------------------------------------------

_SELECTOR: Final = {"matchLabels": _labels, "matchExpressions": _requirements}
_TERM: Final = {"matchExpressions": _requirements, "matchFields": _field_requirements}
_NODE_SELECTOR: Final = {"nodeSelectorTerms": _each(_TERM)}


def _amounts(value: Mapping[str, Any], names: Names) -> Json:
    """Resources by name, which may be that of a device class."""
    return {
        IMPLICIT + names.name(DEVICE_CLASS, name.removeprefix(IMPLICIT))
        if name.startswith(IMPLICIT)
        else names.resource(name): _keep(amount, names)
        for name, amount in value.items()
    }


def _quota_amounts(value: Mapping[str, Any], names: Names) -> Json:
    """Amounts of a quota: resources with a prefix, some after the name of a storage class or a device class."""
    return {_quota_name(name, names): _keep(amount, names) for name, amount in value.items()}


def _quota_name(name: str, names: Names) -> str:
    storage_class, _, counted = name.partition(CLASS_STORAGE)
    if counted in ("requests.storage", "persistentvolumeclaims"):
        return names.name(CLASS, storage_class) + CLASS_STORAGE + counted
    if name.startswith(f"requests.{IMPLICIT}"):
        return f"requests.{IMPLICIT}" + names.name(DEVICE_CLASS, name.removeprefix(f"requests.{IMPLICIT}"))
    return names.resource(name)


def _scope_requirements(value: Sequence[Mapping[str, Any]], names: Names) -> list[Json]:
    """scopeSelector.matchExpressions: the values of the scope PriorityClass are names of classes."""
    found = []
    for item in value:
        made: Json = {key: _keep(item[key], names) for key in ("scopeName", "operator") if key in item}
        of_classes = item.get("scopeName") == "PriorityClass"
        if item.get("values"):
            leaf = priority_class if of_classes else _keep
            made["values"] = [leaf(text, names) for text in item["values"]]
        found.append(made)
    return found


_RESOURCES: Final = {"requests": _amounts, "limits": _amounts, "claims": _each({"name": named(DEVICE_CLAIM)})}
_CONTAINER: Final = {
    "name": named(CONTAINER),
    "image": _image,
    "resources": _RESOURCES,
    "ports": _each({"containerPort": _keep, "hostPort": _keep, "hostIP": _address, "protocol": _keep}),
    "restartPolicy": _keep,
    "restartPolicyRules": _each({"action": _keep}),
    "volumeMounts": _each({"bindMountOptions": _keep}),
}
_AFFINITY_TERM: Final = {
    "labelSelector": _SELECTOR,
    "namespaces": _each(named(NAMESPACE)),
    "namespaceSelector": _SELECTOR,
    "topologyKey": _key,
    "matchLabelKeys": _each(_key),
    "mismatchLabelKeys": _each(_key),
}
_BETWEEN_PODS: Final = {
    "requiredDuringSchedulingIgnoredDuringExecution": _each(_AFFINITY_TERM),
    "preferredDuringSchedulingIgnoredDuringExecution": _each({"weight": _keep, "podAffinityTerm": _AFFINITY_TERM}),
}
_AFFINITY: Final = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": _NODE_SELECTOR,
        "preferredDuringSchedulingIgnoredDuringExecution": _each({"weight": _keep, "preference": _TERM}),
    },
    "podAffinity": _BETWEEN_PODS,
    "podAntiAffinity": _BETWEEN_PODS,
}
_CLAIM_SPEC: Final = {
    "accessModes": _keep,
    "resources": {"requests": _amounts, "limits": _amounts},
    "selector": _SELECTOR,
    "storageClassName": named(CLASS),
    "volumeName": named(VOLUME),
    "volumeMode": _keep,
}
_CLAIMS: Final = _each(
    {
        "name": named(DEVICE_CLAIM),
        "resourceClaimName": named(DEVICE_CLAIM),
        "resourceClaimTemplateName": named("claimtemplate"),
    }
)
_VOLUMES: Final = _one_of(
    name=named("podvolume"),
    persistentVolumeClaim={"claimName": named(CLAIM), "readOnly": _keep},
    ephemeral={"volumeClaimTemplate": {"spec": _CLAIM_SPEC}},
    emptyDir=_nothing_of,
    gcePersistentDisk={"pdName": named(DISK), "readOnly": _keep},
    awsElasticBlockStore={"volumeID": named(DISK), "readOnly": _keep},
    iscsi={"targetPortal": named(DISK), "iqn": named(DISK), "lun": Demanded(0, _keep), "readOnly": _keep},
    rbd={"monitors": _each(named(DISK)), "pool": named(DISK), "image": named(DISK), "readOnly": _keep},
    csi={"driver": _driver, "readOnly": _keep},
)
_STATUSES: Final = _each({"name": named(CONTAINER), "resources": _RESOURCES, "allocatedResources": _amounts})
_POD_CONDITIONS: Final = _conditions(
    "PodScheduled",
    "Ready",
    "ContainersReady",
    "Initialized",
    "DisruptionTarget",
    "PodResizePending",
    "PodResizeInProgress",
)
_POLICY: Final = {"basic": _keep, "gang": {"minCount": _keep}}
_COMPOSITE_POLICY: Final = {"basic": _keep, "gang": {"minGroupCount": _keep}}
_TEMPLATE: Final = {
    "name": named("template"),
    "schedulingPolicy": _POLICY,
    "schedulingConstraints": {"topology": _each({"key": _key})},
    "disruptionMode": _keep,
    "priorityClassName": priority_class,
    "priority": _keep,
    "preemptionPolicy": _keep,
    "resourceClaims": _CLAIMS,
}
_COMPOSITE: Final = {
    **{name: shape for name, shape in _TEMPLATE.items() if name not in ("name", "resourceClaims")},
    "schedulingPolicy": _COMPOSITE_POLICY,
}


def _composite_templates(value: Any, names: Names) -> list[Any]:
    shape = {
        **_COMPOSITE,
        "name": named("template"),
        "podGroupTemplates": _each(_TEMPLATE),
        "compositePodGroupTemplates": _composite_templates,
    }
    return [shaped_by(shape, item, names) for item in value]


_SELECTING: Final = {"replicas": _keep, "selector": _SELECTOR}

SHAPES: Final[Mapping[type[KubernetesObject], Mapping[str, Any]]] = {
    o.Pod: {
        "spec": {
            "containers": _each(_CONTAINER),
            "initContainers": _each(_CONTAINER),
            "overhead": _amounts,
            "resources": _RESOURCES,
            "nodeName": named(NODE),
            "nodeSelector": _labels,
            "affinity": _AFFINITY,
            "tolerations": _tainting("operator", "effect", "tolerationSeconds"),
            "priority": _keep,
            "priorityClassName": priority_class,
            "preemptionPolicy": _keep,
            "schedulerName": _scheduler,
            "schedulingGates": _each({"name": _key}),
            "schedulingGroup": {"podGroupName": named(GROUP)},
            "topologySpreadConstraints": _each(
                {
                    "maxSkew": Demanded(1, _keep),
                    "topologyKey": _key,
                    "whenUnsatisfiable": Demanded("DoNotSchedule", _keep),
                    "labelSelector": _SELECTOR,
                    "minDomains": _keep,
                    "nodeAffinityPolicy": _keep,
                    "nodeTaintsPolicy": _keep,
                    "matchLabelKeys": _each(_key),
                }
            ),
            "volumes": _VOLUMES,
            "resourceClaims": _CLAIMS,
            "hostNetwork": _keep,
            "hostUsers": _keep,
            "ephemeralContainers": _each({"volumeMounts": _each({"bindMountOptions": _keep})}),
            "terminationGracePeriodSeconds": _keep,
            "activeDeadlineSeconds": _keep,
            "restartPolicy": _keep,
        },
        "status": {
            "phase": _keep,
            "conditions": _POD_CONDITIONS,
            "startTime": _keep,
            "nominatedNodeName": named(NODE),
            "qosClass": _keep,
            "containerStatuses": _STATUSES,
            "initContainerStatuses": _STATUSES,
            "resources": _RESOURCES,
            "allocatedResources": _amounts,
            "resourceClaimStatuses": _each({"name": named(DEVICE_CLAIM), "resourceClaimName": named(DEVICE_CLAIM)}),
        },
    },
    o.Node: {
        "spec": {"unschedulable": _keep, "taints": _tainting("effect", "timeAdded")},
        "status": {
            "capacity": _amounts,
            "allocatable": _amounts,
            "conditions": _conditions("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"),
            "images": _images,
            "declaredFeatures": _features,
        },
    },
    o.Namespace: {},
    o.PriorityClass: {"value": _keep, "globalDefault": _keep, "preemptionPolicy": _keep},
    o.PodGroup: {
        "spec": {
            "workloadRef": {"workloadName": named("workload"), "templateName": named("template")},
            "parentCompositePodGroupName": named(COMPOSITE),
            **{name: shape for name, shape in _TEMPLATE.items() if name != "name"},
        },
        "status": {
            "conditions": _conditions("PodGroupInitiallyScheduled", "PodGroupScheduled", "DisruptionTarget"),
            "resourceClaimStatuses": _each({"name": named(DEVICE_CLAIM), "resourceClaimName": named(DEVICE_CLAIM)}),
        },
        FOREIGN: {
            "apiVersion": lambda value, _names: value if value in FOREIGN_VERSIONS else FOREIGN_VERSIONS[0],
            "minMember": _keep,
            "minTaskMember": lambda value, names: {names.name(TASK, task): least for task, least in value.items()},
            "subGroupPolicy": _each(
                {
                    "name": named(TASK),
                    "labelSelector": _SELECTOR,
                    "matchLabelKeys": _each(_key),
                    "subGroupSize": _keep,
                    "minSubGroups": _keep,
                }
            ),
            "phase": _keep,
        },
    },
    o.CompositePodGroup: {
        "spec": {
            "workloadRef": {"workloadName": named("workload"), "templateName": named("template")},
            "parentCompositePodGroupName": named(COMPOSITE),
            **_COMPOSITE,
        },
        "status": {"conditions": _conditions("CompositePodGroupInitiallyScheduled", "DisruptionTarget")},
    },
    o.Workload: {
        "spec": {"podGroupTemplates": _each(_TEMPLATE), "compositePodGroupTemplates": _composite_templates},
    },
    o.PodDisruptionBudget: {
        "spec": {
            "selector": _SELECTOR,
            "minAvailable": _keep,
            "maxUnavailable": _keep,
            "unhealthyPodEvictionPolicy": _keep,
        },
        "status": {
            "disruptionsAllowed": _keep,
            "disruptedPods": lambda value, names: {
                names.name(POD, pod): _keep(when, names) for pod, when in value.items()
            },
            "currentHealthy": _keep,
            "desiredHealthy": _keep,
            "expectedPods": _keep,
            "observedGeneration": _keep,
        },
    },
    o.ResourceQuota: {
        "spec": {
            "hard": _quota_amounts,
            "scopes": _keep,
            "scopeSelector": {"matchExpressions": _scope_requirements},
        },
        "status": {"hard": _quota_amounts, "used": _quota_amounts},
    },
    o.LimitRange: {
        "spec": {
            "limits": _each(
                {
                    "type": _keep,
                    **dict.fromkeys(("min", "max", "default", "defaultRequest", "maxLimitRequestRatio"), _amounts),
                }
            )
        }
    },
    o.Service: {"spec": {"selector": _labels}},
    o.ReplicationController: {"spec": {"replicas": _keep, "selector": _labels}},
    o.ReplicaSet: {"spec": _SELECTING},
    o.StatefulSet: {"spec": _SELECTING},
    o.PersistentVolume: {
        "spec": {
            "capacity": _keep,
            "accessModes": _keep,
            "claimRef": {
                "kind": _keep,
                "namespace": named(NAMESPACE),
                "name": named(CLAIM),
                "uid": named(UID),
            },
            "nodeAffinity": {"required": _NODE_SELECTOR},
            "storageClassName": named(CLASS),
            "volumeMode": _keep,
            "csi": {"driver": _driver, "volumeHandle": named(DISK)},
            "awsElasticBlockStore": {"volumeID": named(DISK)},
            "gcePersistentDisk": {"pdName": named(DISK)},
            "azureDisk": {"diskName": named(DISK)},
            "cinder": {"volumeID": named(DISK)},
            "portworxVolume": {"volumeID": named(DISK)},
            "persistentVolumeReclaimPolicy": _keep,
        },
        "status": {"phase": _keep},
    },
    o.PersistentVolumeClaim: {"spec": _CLAIM_SPEC, "status": {"phase": _keep, "capacity": _keep}},
    o.StorageClass: {
        "provisioner": _driver,
        "volumeBindingMode": _keep,
        "reclaimPolicy": _keep,
        "allowedTopologies": _each(
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
            "drivers": _each(
                {"name": _driver, "nodeID": named(DISK), "topologyKeys": _each(_key), "allocatable": _keep}
            )
        }
    },
    o.CSIDriver: {"spec": {"storageCapacity": _keep, "preventPodSchedulingIfMissing": _keep}},
    o.VolumeAttachment: {
        "spec": {"attacher": _driver, "nodeName": named(NODE), "source": {"persistentVolumeName": named(VOLUME)}}
    },
    o.CSIStorageCapacity: {
        "storageClassName": named(CLASS),
        "nodeTopology": _SELECTOR,
        "capacity": _keep,
        "maximumVolumeSize": _keep,
    },
    o.ResourceClaim: {
        "spec": {"devices": _devices},
        "status": {"allocation": {"devices": _devices, "nodeSelector": _NODE_SELECTOR}, "reservedFor": _keep},
    },
    o.ResourceSlice: {
        "spec": {
            "driver": _keep,
            "pool": _keep,
            "nodeName": named(NODE),
            "nodeSelector": _NODE_SELECTOR,
            "allNodes": _keep,
            "perDeviceNodeSelection": _keep,
            "sharedCounters": _keep,
            "devices": _keep,
        }
    },
    o.DeviceClass: {"spec": {"selectors": _keep, "extendedResourceName": _keep}},
    o.DeviceTaintRule: {"spec": {"deviceSelector": _keep, "taint": _keep}},
}


def name_of(kind: type[KubernetesObject]) -> Leaf:
    """What becomes of the name of an object."""
    special = {o.PriorityClass: priority_class, o.CSIDriver: _driver}
    return special.get(kind) or named(domain_of(kind.KIND))


_ANNOTATIONS: Final[Mapping[str, Leaf]] = {
    PREEMPTION_PRIORITY_CLASS: priority_class,
    PREEMPTION_PRIORITY: _keep,
    **dict.fromkeys(GROUP_ANNOTATIONS, named(GROUP)),
    TASK_ANNOTATION: named(TASK),
    KUEUE_TOTAL: _keep,
    **dict.fromkeys(WORK_ANNOTATIONS, _keep),
    GRANT_NAMESPACES: _namespaces,
    SELECTED_NODE: named(NODE),
    CLASS_BETA: named(CLASS),
    BIND_COMPLETED: _keep,
    BOUND_BY_CONTROLLER: _keep,
    "storageclass.kubernetes.io/is-default-class": _keep,
    "storage.alpha.kubernetes.io/migrated-plugins": _drivers,
    "resource.kubernetes.io/pod-claim-name": named(DEVICE_CLAIM),
    "resource.kubernetes.io/extended-resource-claim": _keep,
}
"""The annotations that a scheduler, or the volume controllers beside it, read."""


def _annotations(value: Mapping[str, str], names: Names) -> Json:
    return {key: _ANNOTATIONS[key](text, names) for key, text in value.items() if key in _ANNOTATIONS}


METADATA: Final = {
    "annotations": _annotations,
    "creationTimestamp": _keep,
    "deletionTimestamp": _keep,
    "deletionGracePeriodSeconds": _keep,
    "labels": _labels,
    "ownerReferences": _owners,
}
