"""Columns of all other kinds, and the table of columns by kind."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kube_rules.controllers.volumes import DEFAULT_CLASS
from kube_rules.json import Json
from kube_rules.meta import INITIALLY_SCHEDULED
from kube_rules.selectors import is_plain
from kube_rules.versions import EVENT_FIELDS_FROM_CORE
from kube_standin.tables import ages, cluster_kinds, networking_kinds, pods
from kube_standin.tables.ages import UNKNOWN
from kube_standin.tables.columns import (
    AGE,
    CREATED,
    NAME,
    NONE,
    UNSET,
    Cell,
    Column,
    access_modes,
    count,
    integer,
    labels,
    of,
    of_containers,
    path,
    selector,
    size,
    text,
    wide,
)

_ROLE = "node-role.kubernetes.io/"


def _selector(label_selector: Any) -> str:
    """Return a label selector, or the plain labels of a ReplicationController."""
    plain = label_selector is not None and is_plain(label_selector)
    return labels(label_selector) if plain else selector(label_selector)


_TEMPLATE = (
    wide("Containers", "Names of each container in the template.", of_containers("name")),
    wide("Images", "Images referenced by each container in the template.", of_containers("image")),
)


def _template_columns(about: str) -> tuple[Column, ...]:
    """Return the columns for containers, images and selector of a controller, for -o wide."""
    return (*_TEMPLATE, wide("Selector", about, of(_selector, "spec.selector")))


def _kernel(info: Any) -> str:
    """Return `VERSION (ARCHITECTURE)`."""
    version, architecture = (info or {}).get("kernelVersion"), (info or {}).get("architecture")
    return f"{version or UNKNOWN} ({architecture})" if version and architecture else version or UNKNOWN


def _node_status(obj: Json) -> str:
    ready = [c for c in obj.get("status", {}).get("conditions", ()) if c.get("type") == "Ready"]
    words = [("Ready" if c.get("status") == "True" else "NotReady") for c in ready] or ["Unknown"]
    if obj.get("spec", {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(obj: Json) -> str:
    roles: set[str] = set()
    for key, value in obj.get("metadata", {}).get("labels", {}).items():
        if key.startswith(_ROLE) and len(key) > len(_ROLE):
            roles.add(key.removeprefix(_ROLE))
        elif key == "kubernetes.io/role" and value:
            roles.add(value)
    return ",".join(sorted(roles)) or NONE


def _address(kind: str) -> Cell:
    """Return a cell with the first address of a type."""

    def shown(addresses: Any) -> str:
        return next((str(entry.get("address", "")) for entry in addresses or () if entry.get("type") == kind), NONE)

    return of(shown, "status.addresses")


_NODE_STATUS = "core.v1.NodeStatus#addresses"
_NODE = (
    NAME,
    Column("Status", "The status of the node", of(_node_status)),
    Column("Roles", "The roles of the node", of(_roles)),
    AGE,
    Column("Version", "core.v1.NodeSystemInfo#kubeletVersion", path("status.nodeInfo.kubeletVersion")),
    wide("Internal-IP", _NODE_STATUS, _address("InternalIP")),
    wide("External-IP", _NODE_STATUS, _address("ExternalIP")),
    wide("OS-Image", "core.v1.NodeSystemInfo#osImage", text("status.nodeInfo.osImage", UNKNOWN)),
    wide("Kernel-Version", "core.v1.NodeSystemInfo#kernelVersion", of(_kernel, "status.nodeInfo")),
    wide(
        "Container-Runtime",
        "core.v1.NodeSystemInfo#containerRuntimeVersion",
        text("status.nodeInfo.containerRuntimeVersion", UNKNOWN),
    ),
)

_NAMESPACE = (NAME, Column("Status", "The status of the namespace", path("status.phase")), AGE)


def _external_ip(obj: Json) -> str:
    spec = obj.get("spec", {})
    external = ",".join(spec.get("externalIPs", ()))
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", NONE))
    if spec.get("type") == "LoadBalancer":
        ingress = obj.get("status", {}).get("loadBalancer", {}).get("ingress", ())
        balancers = ",".join(i.get("ip") or i.get("hostname", "") for i in ingress)
        return ",".join(filter(None, (balancers, external))) or "<pending>"
    return external or NONE


def _ports(obj: Json) -> str:
    shown = []
    for port in obj.get("spec", {}).get("ports", ()):
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port', 0)}{node}/{port.get('protocol', '')}")
    return ",".join(shown) or NONE


_SERVICE = (
    NAME,
    Column("Type", "core.v1.ServiceSpec#type", path("spec.type")),
    Column("Cluster-IP", "core.v1.ServiceSpec#clusterIP", text("spec.clusterIP")),
    Column("External-IP", "core.v1.ServiceSpec#externalIPs", of(_external_ip)),
    Column("Port(s)", "core.v1.ServiceSpec#ports", of(_ports)),
    AGE,
    wide("Selector", "core.v1.ServiceSpec#selector", of(labels, "spec.selector")),
)


def _data(obj: Json) -> int:
    return len(obj.get("data", {})) + len(obj.get("binaryData", {}))


def _claim_name(obj: Json) -> str:
    claim = obj.get("spec", {}).get("claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _phase(obj: Json) -> str:
    return (
        "Terminating" if "deletionTimestamp" in obj.get("metadata", {}) else str(obj.get("status", {}).get("phase", ""))
    )


_PHASE = of(_phase)
_VOLUME = (
    NAME,
    Column("Capacity", "core.v1.PersistentVolumeSpec#capacity", path("spec.capacity.storage")),
    Column("Access Modes", "core.v1.PersistentVolumeSpec#accessModes", of(access_modes, "spec.accessModes")),
    Column(
        "Reclaim Policy",
        "core.v1.PersistentVolumeSpec#persistentVolumeReclaimPolicy",
        path("spec.persistentVolumeReclaimPolicy"),
    ),
    Column("Status", "core.v1.PersistentVolumeStatus#phase", _PHASE),
    Column("Claim", "core.v1.PersistentVolumeSpec#claimRef", of(_claim_name)),
    Column("StorageClass", "StorageClass of the pv", path("spec.storageClassName")),
    Column(
        "VolumeAttributesClass",
        "core.v1.PersistentVolumeSpec#volumeAttributesClassName",
        text("spec.volumeAttributesClassName", UNSET),
    ),
    Column("Reason", "core.v1.PersistentVolumeStatus#reason", path("status.reason")),
    AGE,
    wide("VolumeMode", "core.v1.PersistentVolumeSpec#volumeMode", path("spec.volumeMode", UNSET)),
)
_CLAIM = (
    NAME,
    Column("Status", "core.v1.PersistentVolumeClaimStatus#phase", _PHASE),
    Column("Volume", "core.v1.PersistentVolumeClaimSpec#volumeName", path("spec.volumeName")),
    Column("Capacity", "core.v1.PersistentVolumeClaimStatus#capacity", path("status.capacity.storage")),
    Column("Access Modes", "core.v1.PersistentVolumeClaimStatus#accessModes", of(access_modes, "status.accessModes")),
    Column("StorageClass", "StorageClass of the pvc", path("spec.storageClassName")),
    Column(
        "VolumeAttributesClass",
        "core.v1.PersistentVolumeClaimSpec#volumeAttributesClassName",
        text("spec.volumeAttributesClassName", UNSET),
    ),
    AGE,
    wide("VolumeMode", "core.v1.PersistentVolumeClaimSpec#volumeMode", path("spec.volumeMode", UNSET)),
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
        of(lambda obj: _quota(obj, False)),
    ),
    Column(
        "Limit",
        "Limits control the maximum amount of cpu/memory that a container may use independent of "
        "contention on the node.",
        of(lambda obj: _quota(obj, True)),
    ),
    AGE,
)


def _replicated(spec: str, status: str, selector_about: str) -> tuple[Column, ...]:
    return (
        NAME,
        integer("Desired", f"{spec}#replicas", "spec.replicas"),
        integer("Current", f"{status}#replicas", "status.replicas"),
        integer("Ready", f"{status}#readyReplicas", "status.readyReplicas"),
        AGE,
        *_template_columns(selector_about),
    )


def _of_desired(obj: Json) -> str:
    return f"{obj.get('status', {}).get('readyReplicas', 0)}/{obj.get('spec', {}).get('replicas', 0)}"


_DEPLOYMENT = (
    NAME,
    Column("Ready", "Number of the pod with ready state", of(_of_desired)),
    Column("Up-to-date", "apps.v1.DeploymentStatus#updatedReplicas", count("status.updatedReplicas")),
    Column("Available", "apps.v1.DeploymentStatus#availableReplicas", count("status.availableReplicas")),
    AGE,
    *_template_columns("apps.v1.DeploymentSpec#selector"),
)
_STATEFUL_SET = (
    NAME,
    Column("Ready", "Number of the pod with ready state", of(_of_desired)),
    AGE,
    *_TEMPLATE,
)
_DAEMON = "apps.v1.DaemonSetStatus#"
_DAEMON_SET = (
    NAME,
    integer("Desired", _DAEMON + "desiredNumberScheduled", "status.desiredNumberScheduled"),
    integer("Current", _DAEMON + "currentNumberScheduled", "status.currentNumberScheduled"),
    integer("Ready", _DAEMON + "numberReady", "status.numberReady"),
    integer("Up-to-date", _DAEMON + "updatedNumberScheduled", "status.updatedNumberScheduled"),
    integer("Available", _DAEMON + "numberAvailable", "status.numberAvailable"),
    Column("Node Selector", "core.v1.PodSpec#nodeSelector", of(labels, "spec.template.spec.nodeSelector")),
    AGE,
    *_template_columns("apps.v1.DaemonSetSpec#selector"),
)


def _job_status(obj: Json) -> str:
    conditions = {c.get("type") for c in obj.get("status", {}).get("conditions", ()) if c.get("status") == "True"}
    if "deletionTimestamp" in obj.get("metadata", {}):
        conditions.add("Terminating")
    words = ("Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((word for word in words if word in conditions), "Running")


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
    Column("Status", "Status of the job.", of(_job_status)),
    Column("Completions", "batch.v1.JobStatus#succeeded", of(_job_completions)),
    Column("Duration", "Time required to complete the job.", _job_duration),
    AGE,
    *_template_columns("batch.v1.JobSpec#selector"),
)
_CRON = "batch.v1.CronJobSpec#"
_STARTED = "spec.jobTemplate.spec.template.spec.containers"
_CRON_JOB = (
    NAME,
    Column("Schedule", _CRON + "schedule", path("spec.schedule")),
    Column("Timezone", _CRON + "timeZone", text("spec.timeZone")),
    Column("Suspend", _CRON + "suspend", of(lambda value: str(bool(value)), "spec.suspend"), "boolean"),
    Column("Active", "batch.v1.CronJobStatus#active", size("status.active"), "integer"),
    Column(
        "Last Schedule",
        "batch.v1.CronJobStatus#lastScheduleTime",
        lambda obj, now: (
            ages.age(obj["status"]["lastScheduleTime"], now) if obj.get("status", {}).get("lastScheduleTime") else NONE
        ),
    ),
    AGE,
    wide("Containers", _TEMPLATE[0].about, of_containers("name", _STARTED)),
    wide("Images", _TEMPLATE[1].about, of_containers("image", _STARTED)),
    wide("Selector", "batch.v1.JobSpec#selector", of(_selector, "spec.jobTemplate.spec.selector")),
)
_PRIORITY = "scheduling.v1.PriorityClass#"
_PRIORITY_CLASS = (
    NAME,
    integer("Value", _PRIORITY + "value", "value"),
    Column("Global-Default", _PRIORITY + "globalDefault", path("globalDefault", False), "boolean"),
    AGE,
    Column("PreemptionPolicy", _PRIORITY + "preemptionPolicy", path("preemptionPolicy")),
)


_SCHEDULED = ("PodGroupScheduled", *INITIALLY_SCHEDULED.values())


def _group_policy(obj: Json) -> str:
    policy = obj.get("spec", {}).get("schedulingPolicy", {})
    return next((word for word in ("Gang", "Basic") if word.lower() in policy), NONE)


def _group_workload(obj: Json) -> str:
    spec = obj.get("spec", {})
    reference = spec.get("workloadRef") or (spec.get("podGroupTemplateRef") or {}).get("workload") or {}
    return str(reference.get("workloadName") or NONE)


def _group_status(obj: Json) -> str:
    for condition in obj.get("status", {}).get("conditions", ()):
        if condition.get("type") in _SCHEDULED:
            return (
                "Scheduled"
                if condition.get("status") == "True" and not condition.get("reason")
                else str(condition.get("reason", ""))
            )
    return "Pending"


_POD_GROUP = (
    NAME,
    Column("Policy", "scheduling.v1beta1.PodGroupSpec#schedulingPolicy", of(_group_policy)),
    Column("Workload", "Name of the referenced Workload object", of(_group_workload)),
    Column("Status", "Status of the PodGroup", of(_group_status)),
    AGE,
)
_COMPOSITE = (
    NAME,
    Column("Policy", "scheduling.v1alpha3.CompositePodGroupSpec#schedulingPolicy", of(_group_policy)),
    Column("Workload", "Name of the referenced Workload object", of(_group_workload)),
    Column("Status", "Status of the CompositePodGroup", of(_group_status)),
    AGE,
    Column(
        "Parent",
        "scheduling.v1alpha3.CompositePodGroupSpec#parentCompositePodGroupName",
        text("spec.parentCompositePodGroupName"),
        wide=True,
    ),
)


_BUDGET = (
    NAME,
    Column("Min Available", "The minimum number of pods that must be available.", text("spec.minAvailable", "N/A")),
    Column(
        "Max Unavailable", "The maximum number of pods that may be unavailable.", text("spec.maxUnavailable", "N/A")
    ),
    integer(
        "Allowed Disruptions",
        "Calculated number of pods that may be disrupted at this time.",
        "status.disruptionsAllowed",
    ),
    AGE,
)


def _event_field(obj: Json, name: str) -> Any:
    return obj.get(name) or obj.get(EVENT_FIELDS_FROM_CORE.get(name, name))


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


_EVENT_ABOUT = "core.v1.Event#"
_EVENT = (
    Column("Last Seen", _EVENT_ABOUT + "lastTimestamp", _event_last),
    Column("Type", _EVENT_ABOUT + "type", path("type")),
    Column("Reason", _EVENT_ABOUT + "reason", path("reason")),
    Column("Object", _EVENT_ABOUT + "involvedObject", of(_event_object)),
    wide(
        "Subobject",
        "core.v1.ObjectReference#fieldPath",
        of(lambda obj: (_event_field(obj, "involvedObject") or {}).get("fieldPath", "")),
    ),
    wide("Source", _EVENT_ABOUT + "source", of(_event_source)),
    Column("Message", _EVENT_ABOUT + "message", of(lambda obj: (_event_field(obj, "message") or "").strip())),
    wide("First Seen", _EVENT_ABOUT + "firstTimestamp", _event_first),
    wide("Count", _EVENT_ABOUT + "count", of(_event_count)),
    NAME._replace(wide=True),
)


def _class_name(obj: Json) -> str:
    meta = obj.get("metadata", {})
    default = meta.get("annotations", {}).get(DEFAULT_CLASS) == "true"
    return f"{meta.get('name', '')} (default)" if default else str(meta.get("name", ""))


_CLASS = "storage.v1.StorageClass#"
_STORAGE_CLASS = (
    NAME._replace(cell=of(_class_name)),
    Column("Provisioner", _CLASS + "provisioner", path("provisioner")),
    Column("ReclaimPolicy", _CLASS + "reclaimPolicy", path("reclaimPolicy")),
    Column("VolumeBindingMode", _CLASS + "volumeBindingMode", path("volumeBindingMode")),
    Column("AllowVolumeExpansion", _CLASS + "allowVolumeExpansion", path("allowVolumeExpansion", False), "string"),
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


_SLICE = "resource.v1.ResourceSliceSpec#"
_SIMPLE = (NAME, AGE)

COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    **cluster_kinds.COLUMNS,
    **networking_kinds.COLUMNS,
    ("", "Pod"): pods.COLUMNS,
    ("", "Node"): _NODE,
    ("", "Namespace"): _NAMESPACE,
    ("", "Service"): _SERVICE,
    ("", "ConfigMap"): (NAME, Column("Data", "core.v1.ConfigMap#data", of(_data)), AGE),
    ("", "Secret"): (
        NAME,
        Column("Type", "core.v1.Secret#type", path("type")),
        Column("Data", "core.v1.Secret#data", size("data")),
        AGE,
    ),
    ("", "PersistentVolume"): _VOLUME,
    ("", "PersistentVolumeClaim"): _CLAIM,
    ("", "ResourceQuota"): _QUOTA,
    ("", "ReplicationController"): _replicated(
        "core.v1.ReplicationControllerSpec",
        "core.v1.ReplicationControllerStatus",
        "core.v1.ReplicationControllerSpec#selector",
    ),
    ("", "Event"): _EVENT,
    ("events.k8s.io", "Event"): _EVENT,
    ("apps", "ReplicaSet"): _replicated(
        "apps.v1.ReplicaSetSpec", "apps.v1.ReplicaSetStatus", "apps.v1.ReplicaSetSpec#selector"
    ),
    ("apps", "Deployment"): _DEPLOYMENT,
    ("apps", "StatefulSet"): _STATEFUL_SET,
    ("apps", "DaemonSet"): _DAEMON_SET,
    ("batch", "Job"): _JOB,
    ("batch", "CronJob"): _CRON_JOB,
    ("scheduling.k8s.io", "PriorityClass"): _PRIORITY_CLASS,
    ("scheduling.k8s.io", "PodGroup"): _POD_GROUP,
    ("scheduling.k8s.io", "CompositePodGroup"): _COMPOSITE,
    ("scheduling.k8s.io", "Workload"): _SIMPLE,
    ("policy", "PodDisruptionBudget"): _BUDGET,
    ("coordination.k8s.io", "Lease"): (
        NAME,
        Column("Holder", "coordination.v1.LeaseSpec#holderIdentity", path("spec.holderIdentity")),
        AGE,
    ),
    ("storage.k8s.io", "StorageClass"): _STORAGE_CLASS,
    ("storage.k8s.io", "VolumeAttachment"): (
        NAME,
        Column("Attacher", "storage.v1.VolumeAttachmentSpec#attacher", path("spec.attacher")),
        Column(
            "PV", "storage.v1.VolumeAttachmentSource#persistentVolumeName", path("spec.source.persistentVolumeName")
        ),
        Column("Node", "storage.v1.VolumeAttachmentSpec#nodeName", path("spec.nodeName")),
        Column("Attached", "storage.v1.VolumeAttachmentStatus#attached", path("status.attached", False), "boolean"),
        AGE,
    ),
    ("resource.k8s.io", "ResourceClaim"): (
        NAME,
        Column("State", "A summary of the current state (allocated, pending, reserved, etc.).", of(_claim_state)),
        AGE,
    ),
    ("resource.k8s.io", "ResourceClaimTemplate"): _SIMPLE,
    ("resource.k8s.io", "DeviceClass"): _SIMPLE,
    ("resource.k8s.io", "DeviceTaintRule"): _SIMPLE,
    ("resource.k8s.io", "ResourceSlice"): (
        NAME,
        Column("Node", _SLICE + "nodeName", text("spec.nodeName", UNSET)),
        Column("Driver", _SLICE + "driver", path("spec.driver")),
        Column("Pool", "resource.v1.ResourcePool#name", path("spec.pool.name")),
        AGE,
    ),
    ("node.k8s.io", "RuntimeClass"): (
        NAME,
        Column("Handler", "node.v1.RuntimeClass#handler", path("handler")),
        AGE,
    ),
}
DEFAULT = (NAME, CREATED)
