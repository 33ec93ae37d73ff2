"""The group that a Job asks for, so that its pods are scheduled together.

By `spec.scheduling` (KEP-5547, gate WorkloadWithJob): policy, constraints, mode and shared claims become those of the
group. Without a policy that is `basic`, and a gang without a minimum needs as many pods as the Job's parallelism.

Without the field, by the annotation `reprieve.dev/pod-group: "true"`: a gang under the Job's own name, with a
`minCount` of the Job's parallelism (or its completions, if fewer). `reprieve.dev/disruption-mode: all` evicts it as a
whole; `reprieve.dev/topology-key` keeps it in one domain of that node label.

A Job gets no group if its template names one, or if another object controls it (a JobSet, a CronJob) and it does not
have the annotation. The group has the priority class of the pod template: they must agree (preemption.md 8).

Differs: upstream makes a group with the policy `basic` for every Job; here a Job that asks for nothing has none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kube_rules.json import Json, mapping, text

POD_GROUP: Final = "reprieve.dev/pod-group"
"""The Job gets a Workload and a PodGroup; `minCount` is its parallelism, or its completions if they are fewer."""
DISRUPTION_MODE: Final = "reprieve.dev/disruption-mode"
"""The `disruptionMode` of that PodGroup."""
TOPOLOGY_KEY: Final = "reprieve.dev/topology-key"
"""The node label of its topology constraint: all pods run on nodes with the same value."""
GROUP_FIELDS: Final[tuple[str, ...]] = ("schedulingPolicy", "schedulingConstraints", "disruptionMode", "resourceClaims")
"""Fields of `spec.scheduling`, which are those of a PodGroup and of its template in a Workload."""
_LONGEST: Final = 253


class AskedJobGroup(NamedTuple):
    """A group as a Job asks for it: the names of the objects, and what the group and its template have in common."""

    name: str
    workload: str
    template: str
    spec: Json
    annotated: bool = False
    """It is asked for by the annotation."""


def group_of_job(job: Mapping[str, Any]) -> AskedJobGroup | None:
    """Return the group that a Job asks for and controls; None if it has none of its own."""
    meta, spec = mapping(job.get("metadata")), mapping(job.get("spec"))
    pod_spec = mapping(mapping(spec.get("template")).get("spec"))
    if pod_spec.get("schedulingGroup"):
        return None
    shared = {"priorityClassName": name} if (name := pod_spec.get("priorityClassName")) else {}
    annotations, scheduling = mapping(meta.get("annotations")), spec.get("scheduling")
    if isinstance(scheduling, Mapping) and controller_in(meta) is None:
        workload, template = _names(text(meta.get("name")), text(meta.get("uid")))
        name = f"{shortened(workload, 180)}-{shortened(template, 60)}-{digest(workload + template)}"
        return AskedJobGroup(name, workload, template, {**_asked(scheduling, spec.get("parallelism", 1)), **shared})
    if annotations.get(POD_GROUP) == "true":
        own = text(meta.get("name"))
        return AskedJobGroup(own, own, "workers", {**_annotated(spec, annotations), **shared}, annotated=True)
    return None


def controller_in(meta: Mapping[str, Any]) -> Json | None:
    """Return the owner reference of the controller in some metadata, if there is one."""
    references = meta.get("ownerReferences")
    listed = references if isinstance(references, list) else ()
    return next((dict(item) for item in listed if isinstance(item, Mapping) and item.get("controller")), None)


def _annotated(spec: Mapping[str, Any], annotations: Mapping[str, Any]) -> Json:
    numbers = [spec.get("parallelism", 1), spec.get("completions")]
    least = max(1, min((number for number in numbers if isinstance(number, int)), default=1))
    shared: Json = {"schedulingPolicy": {"gang": {"minCount": least}}}
    if annotations.get(DISRUPTION_MODE) in ("all", "single"):
        shared["disruptionMode"] = {annotations[DISRUPTION_MODE]: {}}
    if annotations.get(TOPOLOGY_KEY):
        shared["schedulingConstraints"] = {"topology": [{"key": annotations[TOPOLOGY_KEY]}]}
    return shared


def _asked(scheduling: Mapping[str, Any], parallelism: object) -> Json:
    asked: Json = {name: scheduling[name] for name in GROUP_FIELDS if scheduling.get(name) is not None}
    gang = mapping(asked.get("schedulingPolicy")).get("gang")
    if gang is None:
        return {**asked, "schedulingPolicy": {"basic": {}}}
    least = mapping(gang).get("minCount")
    if least is None:
        least = max(1, parallelism) if isinstance(parallelism, int) else 1
    return {**asked, "schedulingPolicy": {"gang": {"minCount": least}}}


def _names(job: str, uid: str) -> tuple[str, str]:
    """The names of the Workload and of the template in it: the same whenever they are asked for."""
    own = digest(uid)
    return f"{shortened(job, _LONGEST - len(own) - 1)}-{own}", f"{shortened(job.replace('.', '-'), 57)}-pgt-0"


def shortened(name: str, most: int) -> str:
    """Return at most so many characters of a name, the last of them a letter or a digit."""
    return name[:most].rstrip("-.")


def digest(name: str) -> str:
    """Return ten characters that tell names apart."""
    return hashlib.sha256(name.encode()).hexdigest()[:10]
