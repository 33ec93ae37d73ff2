"""Columns of every other kind, and which kind has which."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from reprieve.api.json import Json
from reprieve.controlplane.tables import ages, pods
from reprieve.controlplane.tables.columns import (
    AGE,
    CREATED,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    Cell,
    Column,
    access_modes,
    count,
    labels,
    path,
    selector,
    size,
    text,
)

_CORE = "io.k8s.api.core.v1."
_APPS = "io.k8s.api.apps.v1."
_BATCH = "io.k8s.api.batch.v1."
_STORAGE = "io.k8s.api.storage.v1."
_SCHEDULING = "io.k8s.api.scheduling."
_ROLE = "node-role.kubernetes.io/"


def _from(make: Callable[[Json], Any]) -> Cell:
    """A cell that does not need the time."""
    return lambda obj, _: make(obj)


def _containers(obj: Json) -> list[Json]:
    given: list[Json] = obj.get("spec", {}).get("template", {}).get("spec", {}).get("containers", [])
    return given


def _template_columns(about: str, *, with_selector: bool = True) -> tuple[Column, ...]:
    """Containers, images and selector of a controller, for -o wide."""
    names = _from(lambda obj: ",".join(c.get("name", "") for c in _containers(obj)))
    images = _from(lambda obj: ",".join(c.get("image", "") for c in _containers(obj)))
    out = (
        Column("Containers", "Names of each container in the template.", names, wide=True),
        Column("Images", "Images referenced by each container in the template.", images, wide=True),
    )
    if not with_selector:
        return out

    def shown(obj: Json) -> str:
        given = obj.get("spec", {}).get("selector")
        if given and not {"matchLabels", "matchExpressions"} & set(given):
            return labels(given)
        return selector(given)

    return (*out, Column("Selector", about, _from(shown), wide=True))


def _node_status(obj: Json) -> str:
    ready = [c for c in obj.get("status", {}).get("conditions", ()) if c.get("type") == "Ready"]
    words = [("Ready" if c.get("status") == "True" else "NotReady") for c in ready] or ["Unknown"]
    if obj.get("spec", {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(obj: Json) -> str:
    found: set[str] = set()
    for key, value in obj.get("metadata", {}).get("labels", {}).items():
        if key.startswith(_ROLE) and len(key) > len(_ROLE):
            found.add(key.removeprefix(_ROLE))
        elif key == "kubernetes.io/role" and value:
            found.add(value)
    return ",".join(sorted(found)) or NONE


def _address(kind: str) -> Cell:
    def shown(obj: Json) -> str:
        for address in obj.get("status", {}).get("addresses", ()):
            if address.get("type") == kind:
                return str(address.get("address", ""))
        return NONE

    return _from(shown)


_NODE_STATUS = f"{_CORE}NodeStatus#addresses"
_NODE = (
    NAME,
    Column("Status", "The status of the node", _from(_node_status)),
    Column("Roles", "The roles of the node", _from(_roles)),
    AGE,
    Column("Version", f"{_CORE}NodeSystemInfo#kubeletVersion", path("status", "nodeInfo", "kubeletVersion")),
    Column("Internal-IP", _NODE_STATUS, _address("InternalIP"), wide=True),
    Column("External-IP", _NODE_STATUS, _address("ExternalIP"), wide=True),
    Column(
        "OS-Image",
        f"{_CORE}NodeSystemInfo#osImage",
        text("status", "nodeInfo", "osImage", default=UNKNOWN),
        wide=True,
    ),
    Column(
        "Kernel-Version",
        f"{_CORE}NodeSystemInfo#kernelVersion",
        text("status", "nodeInfo", "kernelVersion", default=UNKNOWN),
        wide=True,
    ),
    Column(
        "Container-Runtime",
        f"{_CORE}NodeSystemInfo#containerRuntimeVersion",
        text("status", "nodeInfo", "containerRuntimeVersion", default=UNKNOWN),
        wide=True,
    ),
)

_NAMESPACE = (NAME, Column("Status", "The status of the namespace", path("status", "phase")), AGE)


def _external_ip(obj: Json) -> str:
    spec = obj.get("spec", {})
    given = ",".join(spec.get("externalIPs", ()))
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", NONE))
    if spec.get("type") == "LoadBalancer":
        ingress = obj.get("status", {}).get("loadBalancer", {}).get("ingress", ())
        found = ",".join(i.get("ip") or i.get("hostname", "") for i in ingress)
        return ",".join(filter(None, (found, given))) or "<pending>"
    return given or NONE


def _ports(obj: Json) -> str:
    shown = []
    for port in obj.get("spec", {}).get("ports", ()):
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port', 0)}{node}/{port.get('protocol', '')}")
    return ",".join(shown) or NONE


_SERVICE = (
    NAME,
    Column("Type", f"{_CORE}ServiceSpec#type", path("spec", "type")),
    Column("Cluster-IP", f"{_CORE}ServiceSpec#clusterIP", text("spec", "clusterIP")),
    Column("External-IP", f"{_CORE}ServiceSpec#externalIPs", _from(_external_ip)),
    Column("Port(s)", f"{_CORE}ServiceSpec#ports", _from(_ports)),
    AGE,
    Column(
        "Selector",
        f"{_CORE}ServiceSpec#selector",
        _from(lambda obj: labels(obj.get("spec", {}).get("selector"))),
        wide=True,
    ),
)


def _data(obj: Json) -> int:
    return len(obj.get("data", {})) + len(obj.get("binaryData", {}))


def _volume_mode(obj: Json) -> str:
    return str(obj.get("spec", {}).get("volumeMode", UNSET))


def _claim_name(obj: Json) -> str:
    claim = obj.get("spec", {}).get("claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _being_deleted(phase: Callable[[Json], str]) -> Cell:
    return _from(lambda obj: "Terminating" if "deletionTimestamp" in obj.get("metadata", {}) else phase(obj))


_VOLUME = (
    NAME,
    Column(
        "Capacity",
        f"{_CORE}PersistentVolumeSpec#capacity",
        path("spec", "capacity", "storage"),
    ),
    Column(
        "Access Modes",
        f"{_CORE}PersistentVolumeSpec#accessModes",
        _from(lambda obj: access_modes(obj.get("spec", {}).get("accessModes", []))),
    ),
    Column(
        "Reclaim Policy",
        f"{_CORE}PersistentVolumeSpec#persistentVolumeReclaimPolicy",
        path("spec", "persistentVolumeReclaimPolicy"),
    ),
    Column(
        "Status",
        f"{_CORE}PersistentVolumeStatus#phase",
        _being_deleted(lambda obj: str(obj.get("status", {}).get("phase", ""))),
    ),
    Column("Claim", f"{_CORE}PersistentVolumeSpec#claimRef", _from(_claim_name)),
    Column("StorageClass", "StorageClass of the pv", path("spec", "storageClassName")),
    Column(
        "VolumeAttributesClass",
        f"{_CORE}PersistentVolumeSpec#volumeAttributesClassName",
        text("spec", "volumeAttributesClassName", default=UNSET),
    ),
    Column("Reason", f"{_CORE}PersistentVolumeStatus#reason", path("status", "reason")),
    AGE,
    Column("VolumeMode", f"{_CORE}PersistentVolumeSpec#volumeMode", _from(_volume_mode), wide=True),
)
_CLAIM = (
    NAME,
    Column(
        "Status",
        f"{_CORE}PersistentVolumeClaimStatus#phase",
        _being_deleted(lambda obj: str(obj.get("status", {}).get("phase", ""))),
    ),
    Column("Volume", f"{_CORE}PersistentVolumeClaimSpec#volumeName", path("spec", "volumeName")),
    Column("Capacity", f"{_CORE}PersistentVolumeClaimStatus#capacity", path("status", "capacity", "storage")),
    Column(
        "Access Modes",
        f"{_CORE}PersistentVolumeClaimStatus#accessModes",
        _from(lambda obj: access_modes(obj.get("status", {}).get("accessModes", []))),
    ),
    Column("StorageClass", "StorageClass of the pvc", path("spec", "storageClassName")),
    Column(
        "VolumeAttributesClass",
        f"{_CORE}PersistentVolumeClaimSpec#volumeAttributesClassName",
        text("spec", "volumeAttributesClassName", default=UNSET),
    ),
    AGE,
    Column("VolumeMode", f"{_CORE}PersistentVolumeClaimSpec#volumeMode", _from(_volume_mode), wide=True),
)


def _quota(obj: Json, limits: bool) -> str:
    status = obj.get("status", {})
    shown = [
        f"{name}: {status.get('used', {}).get(name, '0')}/{hard}"
        for name, hard in sorted(status.get("hard", {}).items())
        if name.startswith("limits") == limits
    ]
    return ", ".join(shown)


_QUOTA = (
    NAME,
    Column(
        "Request",
        "Request represents a minimum amount of cpu/memory that a container may consume.",
        _from(lambda obj: _quota(obj, False)),
    ),
    Column(
        "Limit",
        "Limits control the maximum amount of cpu/memory that a container may use independent of "
        "contention on the node.",
        _from(lambda obj: _quota(obj, True)),
    ),
    AGE,
)


def _replicated(spec: str, status: str, selector_about: str) -> tuple[Column, ...]:
    return (
        NAME,
        Column("Desired", f"{spec}#replicas", count("spec", "replicas"), "integer"),
        Column("Current", f"{status}#replicas", count("status", "replicas"), "integer"),
        Column("Ready", f"{status}#readyReplicas", count("status", "readyReplicas"), "integer"),
        AGE,
        *_template_columns(selector_about),
    )


def _of_desired(obj: Json) -> str:
    return f"{obj.get('status', {}).get('readyReplicas', 0)}/{obj.get('spec', {}).get('replicas', 0)}"


_DEPLOYMENT = (
    NAME,
    Column("Ready", "Number of the pod with ready state", _from(_of_desired)),
    Column("Up-to-date", f"{_APPS}DeploymentStatus#updatedReplicas", count("status", "updatedReplicas")),
    Column("Available", f"{_APPS}DeploymentStatus#availableReplicas", count("status", "availableReplicas")),
    AGE,
    *_template_columns(f"{_APPS}DeploymentSpec#selector"),
)
_STATEFUL_SET = (
    NAME,
    Column("Ready", "Number of the pod with ready state", _from(_of_desired)),
    AGE,
    *_template_columns("", with_selector=False),
)
_DAEMON = f"{_APPS}DaemonSetStatus#"
_DAEMON_SET = (
    NAME,
    Column("Desired", _DAEMON + "desiredNumberScheduled", count("status", "desiredNumberScheduled"), "integer"),
    Column("Current", _DAEMON + "currentNumberScheduled", count("status", "currentNumberScheduled"), "integer"),
    Column("Ready", _DAEMON + "numberReady", count("status", "numberReady"), "integer"),
    Column("Up-to-date", _DAEMON + "updatedNumberScheduled", count("status", "updatedNumberScheduled"), "integer"),
    Column("Available", _DAEMON + "numberAvailable", count("status", "numberAvailable"), "integer"),
    Column(
        "Node Selector",
        f"{_CORE}PodSpec#nodeSelector",
        _from(lambda obj: labels(obj.get("spec", {}).get("template", {}).get("spec", {}).get("nodeSelector"))),
    ),
    AGE,
    *_template_columns(f"{_APPS}DaemonSetSpec#selector"),
)


def _job_status(obj: Json) -> str:
    held = {c.get("type") for c in obj.get("status", {}).get("conditions", ()) if c.get("status") == "True"}
    for condition, word in (("Complete", "Complete"), ("Failed", "Failed")):
        if condition in held:
            return word
    if "deletionTimestamp" in obj.get("metadata", {}):
        return "Terminating"
    for condition, word in (
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ):
        if condition in held:
            return word
    return "Running"


def _job_completions(obj: Json) -> str:
    spec, done = obj.get("spec", {}), obj.get("status", {}).get("succeeded", 0)
    if "completions" in spec:
        return f"{done}/{spec['completions']}"
    parallelism = spec.get("parallelism", 0)
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(obj: Json, now: datetime) -> str:
    status = obj.get("status", {})
    start, end = ages.parsed(status.get("startTime")), ages.parsed(status.get("completionTime"))
    return "" if start is None else ages.human(((end or now) - start).total_seconds())


_JOB = (
    NAME,
    Column("Status", "Status of the job.", _from(_job_status)),
    Column("Completions", f"{_BATCH}JobStatus#succeeded", _from(_job_completions)),
    Column("Duration", "Time required to complete the job.", _job_duration),
    AGE,
    *_template_columns(f"{_BATCH}JobSpec#selector"),
)
_CRON = f"{_BATCH}CronJobSpec#"
_CRON_JOB = (
    NAME,
    Column("Schedule", _CRON + "schedule", path("spec", "schedule")),
    Column("Timezone", _CRON + "timeZone", text("spec", "timeZone")),
    Column("Suspend", _CRON + "suspend", path("spec", "suspend", default=False), "boolean"),
    Column("Active", f"{_BATCH}CronJobStatus#active", size("status", "active"), "integer"),
    Column(
        "Last Schedule",
        f"{_BATCH}CronJobStatus#lastScheduleTime",
        lambda obj, now: (
            ages.age(obj["status"]["lastScheduleTime"], now) if obj.get("status", {}).get("lastScheduleTime") else NONE
        ),
    ),
    AGE,
)
_PRIORITY = f"{_SCHEDULING}v1.PriorityClass#"
_PRIORITY_CLASS = (
    NAME,
    Column("Value", _PRIORITY + "value", count("value"), "integer"),
    Column("Global-Default", _PRIORITY + "globalDefault", path("globalDefault", default=False), "boolean"),
    AGE,
    Column("PreemptionPolicy", _PRIORITY + "preemptionPolicy", path("preemptionPolicy")),
)


def _group_policy(obj: Json) -> str:
    policy = obj.get("spec", {}).get("schedulingPolicy", {})
    return next((word for word in ("Gang", "Basic") if word.lower() in policy), NONE)


def _group_workload(obj: Json) -> str:
    spec = obj.get("spec", {})
    reference = spec.get("workloadRef") or (spec.get("podGroupTemplateRef") or {}).get("workload") or {}
    return str(reference.get("workloadName") or NONE)


def _group_status(obj: Json) -> str:
    for condition in obj.get("status", {}).get("conditions", ()):
        if condition.get("type") in ("PodGroupScheduled", "PodGroupInitiallyScheduled"):
            return (
                "Scheduled"
                if condition.get("status") == "True" and not condition.get("reason")
                else str(condition.get("reason", ""))
            )
    return "Pending"


_POD_GROUP = (
    NAME,
    Column("Policy", f"{_SCHEDULING}v1beta1.PodGroupSpec#schedulingPolicy", _from(_group_policy)),
    Column("Workload", "Name of the referenced Workload object", _from(_group_workload)),
    Column("Status", "Status of the PodGroup", _from(_group_status)),
    AGE,
)


def _or_na(*steps: str) -> Cell:
    return text(*steps, default="N/A")


_BUDGET = (
    NAME,
    Column("Min Available", "The minimum number of pods that must be available.", _or_na("spec", "minAvailable")),
    Column(
        "Max Unavailable",
        "The maximum number of pods that may be unavailable.",
        _or_na("spec", "maxUnavailable"),
    ),
    Column(
        "Allowed Disruptions",
        "Calculated number of pods that may be disrupted at this time.",
        count("status", "disruptionsAllowed"),
        "integer",
    ),
    AGE,
)

# Core name of an event's field -> its name in events.k8s.io.
_EVENT_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}


def _event_field(obj: Json, name: str) -> Any:
    return obj.get(name) or obj.get(_EVENT_NAMES.get(name, name))


def _event_first(obj: Json, now: datetime) -> str:
    return ages.age(_event_field(obj, "firstTimestamp") or obj.get("eventTime"), now)


def _event_last(obj: Json, now: datetime) -> str:
    series = obj.get("series") or {}
    last = series.get("lastObservedTime") or _event_field(obj, "lastTimestamp")
    return ages.age(last, now) if last else _event_first(obj, now)


def _event_object(obj: Json) -> str:
    about = _event_field(obj, "involvedObject") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}".rstrip("/")


def _event_source(obj: Json) -> str:
    source = _event_field(obj, "source") or {}
    component = source.get("component") or _event_field(obj, "reportingComponent") or ""
    host = source.get("host") or obj.get("reportingInstance") or ""
    return f"{component}, {host}" if host else str(component)


def _event_count(obj: Json) -> int:
    series = obj.get("series") or {}
    return int(series.get("count") or _event_field(obj, "count") or 1)


_EVENT_ABOUT = f"{_CORE}Event#"
_EVENT = (
    Column("Last Seen", _EVENT_ABOUT + "lastTimestamp", _event_last),
    Column("Type", _EVENT_ABOUT + "type", path("type")),
    Column("Reason", _EVENT_ABOUT + "reason", path("reason")),
    Column("Object", _EVENT_ABOUT + "involvedObject", _from(_event_object)),
    Column(
        "Subobject",
        f"{_CORE}ObjectReference#fieldPath",
        _from(lambda obj: (_event_field(obj, "involvedObject") or {}).get("fieldPath", "")),
        wide=True,
    ),
    Column("Source", _EVENT_ABOUT + "source", _from(_event_source), wide=True),
    Column("Message", _EVENT_ABOUT + "message", _from(lambda obj: (_event_field(obj, "message") or "").strip())),
    Column("First Seen", _EVENT_ABOUT + "firstTimestamp", _event_first, wide=True),
    Column("Count", _EVENT_ABOUT + "count", _from(_event_count), wide=True),
    NAME._replace(wide=True),
)


def _class_name(obj: Json) -> str:
    meta = obj.get("metadata", {})
    default = meta.get("annotations", {}).get("storageclass.kubernetes.io/is-default-class") == "true"
    return f"{meta.get('name', '')} (default)" if default else str(meta.get("name", ""))


_CLASS = f"{_STORAGE}StorageClass#"
_STORAGE_CLASS = (
    NAME._replace(cell=_from(_class_name)),
    Column("Provisioner", _CLASS + "provisioner", path("provisioner")),
    Column("ReclaimPolicy", _CLASS + "reclaimPolicy", path("reclaimPolicy")),
    Column("VolumeBindingMode", _CLASS + "volumeBindingMode", path("volumeBindingMode")),
    Column(
        "AllowVolumeExpansion", _CLASS + "allowVolumeExpansion", path("allowVolumeExpansion", default=False), "string"
    ),
    AGE,
)


def _claim_state(obj: Json) -> str:
    status, words = obj.get("status", {}), []
    if "deletionTimestamp" in obj.get("metadata", {}):
        words.append("deleted")
    words.append("allocated" if "allocation" in status else "pending")
    if status.get("reservedFor"):
        words.append("reserved")
    return ",".join(words)


_SLICE = "io.k8s.api.resource.v1.ResourceSliceSpec#"
_SIMPLE = (NAME, AGE)

COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    ("", "Pod"): pods.COLUMNS,
    ("", "Node"): _NODE,
    ("", "Namespace"): _NAMESPACE,
    ("", "Service"): _SERVICE,
    ("", "ConfigMap"): (NAME, Column("Data", f"{_CORE}ConfigMap#data", _from(_data)), AGE),
    ("", "Secret"): (
        NAME,
        Column("Type", f"{_CORE}Secret#type", path("type")),
        Column("Data", f"{_CORE}Secret#data", size("data")),
        AGE,
    ),
    ("", "ServiceAccount"): (NAME, Column("Secrets", f"{_CORE}ServiceAccount#secrets", size("secrets")), AGE),
    ("", "PersistentVolume"): _VOLUME,
    ("", "PersistentVolumeClaim"): _CLAIM,
    ("", "ResourceQuota"): _QUOTA,
    ("", "ReplicationController"): _replicated(
        f"{_CORE}ReplicationControllerSpec",
        f"{_CORE}ReplicationControllerStatus",
        f"{_CORE}ReplicationControllerSpec#selector",
    ),
    ("", "Event"): _EVENT,
    ("events.k8s.io", "Event"): _EVENT,
    ("apps", "ReplicaSet"): _replicated(
        f"{_APPS}ReplicaSetSpec", f"{_APPS}ReplicaSetStatus", f"{_APPS}ReplicaSetSpec#selector"
    ),
    ("apps", "Deployment"): _DEPLOYMENT,
    ("apps", "StatefulSet"): _STATEFUL_SET,
    ("apps", "DaemonSet"): _DAEMON_SET,
    ("batch", "Job"): _JOB,
    ("batch", "CronJob"): _CRON_JOB,
    ("scheduling.k8s.io", "PriorityClass"): _PRIORITY_CLASS,
    ("scheduling.k8s.io", "PodGroup"): _POD_GROUP,
    ("scheduling.k8s.io", "Workload"): _SIMPLE,
    ("policy", "PodDisruptionBudget"): _BUDGET,
    ("coordination.k8s.io", "Lease"): (
        NAME,
        Column("Holder", "io.k8s.api.coordination.v1.LeaseSpec#holderIdentity", path("spec", "holderIdentity")),
        AGE,
    ),
    ("storage.k8s.io", "StorageClass"): _STORAGE_CLASS,
    ("storage.k8s.io", "CSINode"): (
        NAME,
        Column("Drivers", f"{_STORAGE}CSINodeSpec#drivers", size("spec", "drivers"), "integer"),
        AGE,
    ),
    ("storage.k8s.io", "VolumeAttachment"): (
        NAME,
        Column("Attacher", f"{_STORAGE}VolumeAttachmentSpec#attacher", path("spec", "attacher")),
        Column(
            "PV",
            f"{_STORAGE}VolumeAttachmentSource#persistentVolumeName",
            path("spec", "source", "persistentVolumeName"),
        ),
        Column("Node", f"{_STORAGE}VolumeAttachmentSpec#nodeName", path("spec", "nodeName")),
        Column(
            "Attached",
            f"{_STORAGE}VolumeAttachmentStatus#attached",
            path("status", "attached", default=False),
            "boolean",
        ),
        AGE,
    ),
    ("storage.k8s.io", "CSIStorageCapacity"): (
        NAME,
        Column("StorageClassName", f"{_STORAGE}CSIStorageCapacity#storageClassName", path("storageClassName")),
        Column("Capacity", f"{_STORAGE}CSIStorageCapacity#capacity", text("capacity", default=UNSET)),
    ),
    ("resource.k8s.io", "ResourceClaim"): (
        NAME,
        Column("State", "A summary of the current state (allocated, pending, reserved, etc.).", _from(_claim_state)),
        AGE,
    ),
    ("resource.k8s.io", "ResourceClaimTemplate"): _SIMPLE,
    ("resource.k8s.io", "DeviceClass"): _SIMPLE,
    ("resource.k8s.io", "ResourceSlice"): (
        NAME,
        Column("Node", _SLICE + "nodeName", text("spec", "nodeName", default=UNSET)),
        Column("Driver", _SLICE + "driver", path("spec", "driver")),
        Column("Pool", "io.k8s.api.resource.v1.ResourcePool#name", path("spec", "pool", "name")),
        AGE,
    ),
    ("node.k8s.io", "RuntimeClass"): (
        NAME,
        Column("Handler", "io.k8s.api.node.v1.RuntimeClass#handler", path("handler")),
        AGE,
    ),
}
DEFAULT = (NAME, CREATED)
