"""The Workload and PodGroup of a Job that asks for gang scheduling, so that its pods are scheduled as a group.

`kube_rules.controllers.job_groups` reads the Job. Rules, as upstream's (KEP-5547):

- Both objects are created before the first pod, and never for a Job that has started. The Job controls both; the
  Workload is an owner of the group, too.
- A Job that another object controls (a JobSet, a CronJob) gets a group if its annotation
  ``scheduling.k8s.io/group-template-name`` names a template in the Workload of that parent, which it is created from.
- When the Job's minimum changes, by the field or with the parallelism, both objects change with it.
"""

from __future__ import annotations

from kube_rules.controllers.job_groups import (
    GROUP_FIELDS,
    JobGroupRequest,
    controller_in,
    digest,
    group_of_job,
    shortened,
)
from kube_rules.json import Json
from kube_rules.versions import INTERNAL_VERSION
from kube_standin.conditions import condition_of
from kube_standin.controllers.reconciler import Context
from kube_standin.metadata import annotations_of, owner_reference

DELEGATED = "scheduling.k8s.io/group-template-name"
"""Annotation of a Job with a controller: the template in the controller's Workload for its group."""


def group_of(context: Context, job: Json, *, new: bool) -> str:
    """Return the group of a Job's pods, empty for none, and stage missing objects. Raises StatusError.

    `new`: the Job has never had a pod.
    """
    if context.registry.kinds.of(INTERNAL_VERSION, "PodGroup") is None:
        return ""  # a server without groups
    wanted = group_of_job(job)
    if wanted is not None:
        return _ensure(context, job, wanted, new=new)
    template = (job["spec"].get("template") or {}).get("spec") or {}
    parent = controller_in(job["metadata"])
    if template.get("schedulingGroup") or parent is None or DELEGATED not in annotations_of(job):
        return ""
    return _ensure_delegated(context, job, parent, new=new)


def _ensure(context: Context, job: Json, wanted: JobGroupRequest, *, new: bool) -> str:
    """Return the group that a Job requests, and stage it and its Workload; an annotation may name an existing group."""
    namespace: str = job["metadata"]["namespace"]
    row = context.kind(INTERNAL_VERSION, "Workload")
    workload = context.find(row, (namespace, wanted.workload))
    if workload is None and new:
        spec = {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": job["metadata"]["name"]},
            "podGroupTemplates": [{"name": wanted.template, **wanted.spec}],
        }
        meta = {"name": wanted.workload, "ownerReferences": [owner_reference(job)]}
        workload = context.create(row, namespace, {"metadata": meta, "spec": spec})
    if workload is None or not (wanted.annotated or _controlled(workload, job)):
        return ""
    group = context.find(context.kind(INTERNAL_VERSION, "PodGroup"), (namespace, wanted.name))
    if group is None and new:
        uid = workload["metadata"]["uid"]
        owner = {"apiVersion": INTERNAL_VERSION, "kind": "Workload", "name": wanted.workload, "uid": uid}
        meta = {"name": wanted.name, "ownerReferences": [owner_reference(job), owner]}
        spec = {"workloadRef": {"workloadName": wanted.workload, "templateName": wanted.template}, **wanted.spec}
        group = context.create(context.kind(INTERNAL_VERSION, "PodGroup"), namespace, {"metadata": meta, "spec": spec})
    if group is None or not (wanted.annotated or _controlled(group, job)):
        return ""
    least = (wanted.spec["schedulingPolicy"].get("gang") or {}).get("minCount")
    if least is not None and _controlled(workload, job) and _controlled(group, job):
        _set_minimum(context, namespace, wanted, least)
    return wanted.name


def _set_minimum(context: Context, namespace: str, wanted: JobGroupRequest, least: int) -> None:
    """Set the minimum of a gang to the Job's (elastic Jobs)."""

    def in_workload(obj: Json) -> None:
        for template in obj["spec"]["podGroupTemplates"]:
            if "gang" in template["schedulingPolicy"]:
                template["schedulingPolicy"]["gang"]["minCount"] = least

    def in_group(obj: Json) -> None:
        if "gang" in obj["spec"]["schedulingPolicy"]:
            obj["spec"]["schedulingPolicy"]["gang"]["minCount"] = least

    context.modify(context.kind(INTERNAL_VERSION, "Workload"), (namespace, wanted.workload), in_workload)
    context.modify(context.kind(INTERNAL_VERSION, "PodGroup"), (namespace, wanted.name), in_group)


def _ensure_delegated(context: Context, job: Json, parent: Json, *, new: bool) -> str:
    """Return the group of a Job by its parent's Workload; empty if the Workload or its template does not exist."""
    namespace: str = job["metadata"]["namespace"]
    wanted = annotations_of(job)[DELEGATED]
    controls = {
        "apiGroup": parent.get("apiVersion", "").rpartition("/")[0],
        "kind": parent.get("kind"),
        "name": parent.get("name"),
    }
    row = context.kind(INTERNAL_VERSION, "Workload")
    for state in context.registry.store.heads(row.storage_key, namespace):
        spec: Json = state.decode().get("spec") or {}
        if spec.get("controllerRef") != controls:
            continue
        for template in spec.get("podGroupTemplates") or ():
            if template.get("name") == wanted:
                return _ensure_from_template(context, job, state.name, template, new=new)
    return ""


def _ensure_from_template(context: Context, job: Json, workload: str, template: Json, *, new: bool) -> str:
    namespace: str = job["metadata"]["namespace"]
    own = digest(workload + job["metadata"]["uid"])
    group = f"{shortened(workload, 120)}-{shortened(template['name'], 60)}-{own}"
    row = context.kind(INTERNAL_VERSION, "PodGroup")
    pod_group = context.find(row, (namespace, group))
    if pod_group is None:
        if not new:
            return ""
        copied = {key: template[key] for key in (*GROUP_FIELDS, "priorityClassName") if key in template}
        meta = {"name": group, "ownerReferences": [owner_reference(job)]}
        spec = {"workloadRef": {"workloadName": workload, "templateName": template["name"]}, **copied}
        context.create(row, namespace, {"metadata": meta, "spec": spec})
    elif not _controlled(pod_group, job):
        return ""
    return group


def never_started(job: Json) -> bool:
    """Return whether a Job has never had a pod, according to its status."""
    status: Json = job.get("status") or {}
    started = status.get("startTime") or status.get("succeeded") or status.get("failed")
    return not started and condition_of(status, "Suspended") is None


def _controlled(obj: Json, job: Json) -> bool:
    """Return whether the Job controls an object that is not being deleted; objects of users are not changed."""
    metadata: Json = obj["metadata"]
    owner = controller_in(metadata)
    return not metadata.get("deletionTimestamp") and owner is not None and owner.get("uid") == job["metadata"]["uid"]
