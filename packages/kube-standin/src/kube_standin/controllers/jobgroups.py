"""A Workload and a PodGroup for a Job that asks for one, so that its pods are scheduled as a group.

A Job asks by ``spec.scheduling`` (KEP-5547, gate WorkloadWithJob): policy, constraints, mode and shared claims become
those of the group, and a gang without a minimum needs as many pods as the Job's parallelism. Rules, as upstream's:

- Both objects are made before the first pod, and never for a Job that has started. The Job controls both; the group is
  the Workload's as well.
- A Job with a template that names a group gets none. One that another object controls (a JobSet, a CronJob) gets
  none either, unless its annotation ``scheduling.k8s.io/group-template-name`` names a template in the Workload of that
  parent: then a group is made from it.
- When the minimum changes, by the field or with the parallelism, that of both objects does.

Or it asks by the annotation ``reprieve.dev/pod-group: "true"``: both are made under the Job's own name, a gang with a
``minCount`` of the Job's parallelism (or its completions, if fewer). ``reprieve.dev/disruption-mode: all`` makes it
leave as a whole; ``reprieve.dev/topology-key`` keeps it in one domain of that node label.

Priority class and preemption policy are those of the pod template, because a group and its pods must agree on them
(preemption.md 8).

Differs: upstream makes a group with the policy ``basic`` for every Job; here a Job that asks for nothing has none.
"""

from __future__ import annotations

import hashlib
from typing import Any

from kube_rules.json import Json
from kube_standin.conditions import condition_of
from kube_standin.controllers.reconciling import Context
from kube_standin.metadata import annotations_of, owner_reference

POD_GROUP = "reprieve.dev/pod-group"
"""The Job gets a Workload and a PodGroup; `minCount` is its parallelism, or its completions if they are fewer."""
DISRUPTION_MODE = "reprieve.dev/disruption-mode"
"""The `disruptionMode` of that PodGroup."""
TOPOLOGY_KEY = "reprieve.dev/topology-key"
"""The node label of its topology constraint: all pods run on nodes with the same value."""
TEMPLATE = "workers"
DELEGATED = "scheduling.k8s.io/group-template-name"
"""Annotation of a Job with a controller: the template in the controller's Workload to make its group from."""
_VERSION = "scheduling.k8s.io/v1beta1"
_FIELDS = ("schedulingPolicy", "schedulingConstraints", "disruptionMode", "resourceClaims")
_LONGEST = 253


def group_of(context: Context, job: Json, *, new: bool) -> str:
    """The group the pods of a Job belong to, empty for none; what is missing is staged. Raises StatusError.

    `new`: the Job has never had a pod.
    """
    if context.registry.kinds.of(_VERSION, "PodGroup") is None:
        return ""  # a server that knows no groups
    template = (job["spec"].get("template") or {}).get("spec") or {}
    if template.get("schedulingGroup"):
        return ""
    if annotations_of(job).get(POD_GROUP) == "true":
        return _ensure_annotated(context, job)
    parent = next((one for one in job["metadata"].get("ownerReferences") or () if one.get("controller")), None)
    if parent is not None:
        return _ensure_delegated(context, job, parent, new=new) if DELEGATED in annotations_of(job) else ""
    if job["spec"].get("scheduling") is None:
        return ""
    return _ensure(context, job, new=new)


def gang_size(job: Json) -> int:
    """How many pods of a Job with the annotation must run together."""
    parallelism = job["spec"].get("parallelism", 1)
    completions = job["spec"].get("completions")
    size: int = parallelism if completions is None else min(parallelism, completions)
    return max(1, size)


# -- by the field ----------------------------------------------------------------------------------------------------


def _ensure(context: Context, job: Json, *, new: bool) -> str:
    """Workload and group of a Job with `spec.scheduling`."""
    namespace: str = job["metadata"]["namespace"]
    workload, template = _names(job)
    shared = {**_asked(job), **_priority(job)}
    group = f"{_short(workload, 180)}-{_short(template, 60)}-{_hash(workload + template)}"
    row = context.kind(_VERSION, "Workload")
    found = context.find(row, (namespace, workload))
    if found is None and new:
        spec = {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": job["metadata"]["name"]},
            "podGroupTemplates": [{"name": template, **shared}],
        }
        meta = {"name": workload, "ownerReferences": [owner_reference(job)]}
        found = context.create(row, namespace, {"metadata": meta, "spec": spec})
    if found is None or not _controlled(found, job):
        return ""
    kept = context.find(context.kind(_VERSION, "PodGroup"), (namespace, group))
    if kept is None and new:
        owner = {"apiVersion": _VERSION, "kind": "Workload", "name": workload, "uid": found["metadata"]["uid"]}
        meta = {"name": group, "ownerReferences": [owner_reference(job), owner]}
        spec = {"workloadRef": {"workloadName": workload, "templateName": template}, **shared}
        kept = context.create(context.kind(_VERSION, "PodGroup"), namespace, {"metadata": meta, "spec": spec})
    if kept is None or not _controlled(kept, job):
        return ""
    least = (shared["schedulingPolicy"].get("gang") or {}).get("minCount")
    if least is not None:
        _set_minimum(context, namespace, workload, group, least)
    return group


def _set_minimum(context: Context, namespace: str, workload: str, group: str, least: int) -> None:
    """The minimum of a gang follows the Job's (elastic Jobs)."""

    def in_workload(obj: Json) -> None:
        for template in obj["spec"]["podGroupTemplates"]:
            if "gang" in template["schedulingPolicy"]:
                template["schedulingPolicy"]["gang"]["minCount"] = least

    def in_group(obj: Json) -> None:
        if "gang" in obj["spec"]["schedulingPolicy"]:
            obj["spec"]["schedulingPolicy"]["gang"]["minCount"] = least

    context.modify(context.kind(_VERSION, "Workload"), (namespace, workload), in_workload)
    context.modify(context.kind(_VERSION, "PodGroup"), (namespace, group), in_group)


def _ensure_delegated(context: Context, job: Json, parent: Json, *, new: bool) -> str:
    """Return the group of a Job if its parent has the Workload; none while that or its template does not exist."""
    namespace: str = job["metadata"]["namespace"]
    wanted = annotations_of(job)[DELEGATED]
    controls = {
        "apiGroup": parent.get("apiVersion", "").rpartition("/")[0],
        "kind": parent.get("kind"),
        "name": parent.get("name"),
    }
    row = context.kind(_VERSION, "Workload")
    for state in context.registry.store.heads(row.storage_key, namespace):
        spec: Json = state.decode().get("spec") or {}
        if spec.get("controllerRef") != controls:
            continue
        for template in spec.get("podGroupTemplates") or ():
            if template.get("name") == wanted:
                return _made_from(context, job, state.name, template, new=new)
    return ""


def _made_from(context: Context, job: Json, workload: str, template: Json, *, new: bool) -> str:
    namespace: str = job["metadata"]["namespace"]
    group = f"{_short(workload, 120)}-{_short(template['name'], 60)}-{_hash(workload + job['metadata']['uid'])}"
    row = context.kind(_VERSION, "PodGroup")
    found = context.find(row, (namespace, group))
    if found is None:
        if not new:
            return ""
        copied = {key: template[key] for key in (*_FIELDS, "priorityClassName") if key in template}
        meta = {"name": group, "ownerReferences": [owner_reference(job)]}
        spec = {"workloadRef": {"workloadName": workload, "templateName": template["name"]}, **copied}
        context.create(row, namespace, {"metadata": meta, "spec": spec})
    elif not _controlled(found, job):
        return ""
    return group


def never_started(job: Json) -> bool:
    """Whether a Job has never had a pod, as far as its status shows."""
    status: Json = job.get("status") or {}
    started = status.get("startTime") or status.get("succeeded") or status.get("failed")
    return not started and condition_of(status, "Suspended") is None


def _asked(job: Json) -> Json:
    """The group that a Job describes; without a policy, `basic`."""
    scheduling: Json = job["spec"]["scheduling"]
    asked: dict[str, Any] = {key: scheduling[key] for key in _FIELDS if scheduling.get(key) is not None}
    policy = asked.get("schedulingPolicy") or {"basic": {}}
    if policy.get("gang") is not None:
        least = policy["gang"].get("minCount")
        policy = {"gang": {"minCount": max(1, job["spec"].get("parallelism", 1)) if least is None else least}}
    return {**asked, "schedulingPolicy": policy}


def _priority(job: Json) -> Json:
    name = ((job["spec"].get("template") or {}).get("spec") or {}).get("priorityClassName")
    return {"priorityClassName": name} if name else {}


def _names(job: Json) -> tuple[str, str]:
    """Of the Workload and of the template in it: the same whenever they are asked for."""
    name: str = job["metadata"]["name"]
    digest = _hash(job["metadata"]["uid"])
    return f"{_short(name, _LONGEST - len(digest) - 1)}-{digest}", f"{_short(name.replace('.', '-'), 57)}-pgt-0"


def _short(text: str, most: int) -> str:
    return text[:most].rstrip("-.")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _controlled(obj: Json, job: Json) -> bool:
    """Whether the Job made it and it is not being deleted: what users made beforehand is not touched."""
    metadata: Json = obj["metadata"]
    if metadata.get("deletionTimestamp"):
        return False
    return any(
        one.get("controller") and one.get("uid") == job["metadata"]["uid"]
        for one in metadata.get("ownerReferences") or ()
    )


# -- by the annotation -----------------------------------------------------------------------------------------------


def _ensure_annotated(context: Context, job: Json) -> str:
    """Workload and PodGroup under the Job's own name."""
    metadata, annotations = job["metadata"], annotations_of(job)
    name: str = metadata["name"]
    namespace: str = metadata["namespace"]
    shared: Json = {"schedulingPolicy": {"gang": {"minCount": gang_size(job)}}, **_priority(job)}
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
