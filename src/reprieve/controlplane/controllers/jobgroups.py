"""A Workload and a PodGroup for a Job that asks for one, so that its pods are scheduled as a gang.

A Job with the annotation ``reprieve.dev/pod-group: "true"`` gets both under its own name, owned by it: a gang
whose ``minCount`` is the Job's parallelism (or its completions, if fewer). Its pods name the group in
``spec.schedulingGroup``. Priority class and preemption policy are those of the pod template, because a group and
its pods must agree on them (preemption.md 8). ``reprieve.dev/disruption-mode: all`` makes it leave as a whole;
``reprieve.dev/topology-key`` keeps it in one domain of that node label.
"""

from __future__ import annotations

from reprieve.api.json import Json
from reprieve.controlplane.controllers.reconciling import Context
from reprieve.controlplane.metadata import annotations_of, owner_reference

POD_GROUP = "reprieve.dev/pod-group"
DISRUPTION_MODE = "reprieve.dev/disruption-mode"
TOPOLOGY_KEY = "reprieve.dev/topology-key"
TEMPLATE = "workers"
_VERSION = "scheduling.k8s.io/v1beta1"


def wants_group(context: Context, job: Json) -> bool:
    """Whether a Job asks to be scheduled as a gang, on a server that knows gangs."""
    if context.registry.kinds.of(_VERSION, "PodGroup") is None:
        return False
    return annotations_of(job).get(POD_GROUP) == "true"


def gang_size(job: Json) -> int:
    """How many pods must run together."""
    parallelism = job["spec"].get("parallelism", 1)
    completions = job["spec"].get("completions")
    size: int = parallelism if completions is None else min(parallelism, completions)
    return max(1, size)


def ensure_group(context: Context, job: Json) -> str:
    """Stage what is missing of Workload and PodGroup; returns the group's name. Raises StatusError."""
    metadata, annotations = job["metadata"], annotations_of(job)
    name: str = metadata["name"]
    namespace: str = metadata["namespace"]
    pod_spec = (job["spec"].get("template") or {}).get("spec") or {}
    shared: Json = {"schedulingPolicy": {"gang": {"minCount": gang_size(job)}}}
    if pod_spec.get("priorityClassName"):
        shared["priorityClassName"] = pod_spec["priorityClassName"]
    mode = annotations.get(DISRUPTION_MODE)
    if mode in ("all", "single"):
        shared["disruptionMode"] = {mode: {}}
    if annotations.get(TOPOLOGY_KEY):
        shared["schedulingConstraints"] = {"topology": [{"key": annotations[TOPOLOGY_KEY]}]}
    owned = {"name": name, "ownerReferences": [owner_reference(job)]}
    workload = context.kind(_VERSION, "Workload")
    if context.registry.head(workload, namespace, name) is None:
        spec = {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": name},
            "podGroupTemplates": [{"name": TEMPLATE, **shared}],
        }
        context.create(workload, namespace, {"metadata": dict(owned), "spec": spec})
    group = context.kind(_VERSION, "PodGroup")
    if context.registry.head(group, namespace, name) is None:
        spec = {"workloadRef": {"workloadName": name, "templateName": TEMPLATE}, **shared}
        context.create(group, namespace, {"metadata": dict(owned), "spec": spec})
    return name
