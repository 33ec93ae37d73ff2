"""The PodGroup that a Job requests, so that its pods are scheduled together.

With `spec.scheduling` (KEP-5547, gate WorkloadWithJob), the group gets policy, constraints, mode and shared claims from
that field. Without a policy it is `basic`, and a gang without a minimum needs as many pods as the Job's parallelism.

Without the field, the annotation `reprieve.dev/pod-group: "true"` requests a gang with the Job's name and a `minCount`
of the Job's parallelism (or its completions, if fewer). `reprieve.dev/disruption-mode: all` evicts it as a whole;
`reprieve.dev/topology-key` keeps it in one domain of that node label.

A Job gets no group if its template names one, or if another object controls it (a JobSet, a CronJob) and it does not
have the annotation. The group has the priority class of the pod template: they must agree (preemption.md 8).

Differs: upstream creates a group with the policy `basic` for every Job; here a Job without a request has none.
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


class JobGroupRequest(NamedTuple):
    """The group that a Job requests: the names of the objects, and the common fields of group and template."""

    name: str
    workload: str
    template: str
    spec: Json
    annotated: bool = False
    """Whether the annotation requests it."""


def group_of_job(job: Mapping[str, Any]) -> JobGroupRequest | None:
    """Return the group that a Job requests and controls, or None."""
    meta, spec = mapping(job.get("metadata")), mapping(job.get("spec"))
    pod_spec = mapping(mapping(spec.get("template")).get("spec"))
    if pod_spec.get("schedulingGroup"):
        return None
    shared = {"priorityClassName": name} if (name := pod_spec.get("priorityClassName")) else {}
    annotations, scheduling = mapping(meta.get("annotations")), spec.get("scheduling")
    if isinstance(scheduling, Mapping) and controller_in(meta) is None:
        workload, template = _names(text(meta.get("name")), text(meta.get("uid")))
        name = f"{shortened(workload, 180)}-{shortened(template, 60)}-{digest(workload + template)}"
        return JobGroupRequest(name, workload, template, {**_policy(scheduling, spec.get("parallelism", 1)), **shared})
    if annotations.get(POD_GROUP) == "true":
        own = text(meta.get("name"))
        return JobGroupRequest(own, own, "workers", {**_annotated(spec, annotations), **shared}, annotated=True)
    return None


def controller_in(meta: Mapping[str, Any]) -> Json | None:
    """Return the owner reference of the controller in metadata, if any."""
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


def _policy(scheduling: Mapping[str, Any], parallelism: object) -> Json:
    requested: Json = {name: scheduling[name] for name in GROUP_FIELDS if scheduling.get(name) is not None}
    gang = mapping(requested.get("schedulingPolicy")).get("gang")
    if gang is None:
        return {**requested, "schedulingPolicy": {"basic": {}}}
    least = mapping(gang).get("minCount")
    if least is None:
        least = max(1, parallelism) if isinstance(parallelism, int) else 1
    return {**requested, "schedulingPolicy": {"gang": {"minCount": least}}}


def _names(job: str, uid: str) -> tuple[str, str]:
    """Return the stable names of the Workload and of its template."""
    own = digest(uid)
    return f"{shortened(job, _LONGEST - len(own) - 1)}-{own}", f"{shortened(job.replace('.', '-'), 57)}-pgt-0"


def shortened(name: str, most: int) -> str:
    """Return a name shortened to `most` characters that ends in a letter or a digit."""
    return name[:most].rstrip("-.")


def digest(name: str) -> str:
    """Return ten characters that distinguish names."""
    return hashlib.sha256(name.encode()).hexdigest()[:10]
