"""Controllers that can ask for gangs of their pods: the names of the gangs, and how many pods each gang has.

The source `owners` (workloads.md 1.1, 2.10) reads a pod's controller from its labels or its owner reference. From the
controller it reads whether its pods are gangs and how large each gang is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, NamedTuple

from kube_rules.json import mapping
from kube_rules.meta import KubernetesObject, ObjectMeta, map_field
from kube_rules.work_annotations import DOMAIN, LONGEST, moment

GANG: Final = f"{DOMAIN}gang"
"""The pods of the controller are gangs, of the size that its spec states."""
ANY: Final = "*"
"""Stands for every gang of a controller."""


class GroupOwner(KubernetesObject, frozen=True, kw_only=True):
    """A controller: its metadata, and its spec as plain data."""

    NAMESPACED: ClassVar[bool] = True

    spec: dict[str, Any] = map_field()

    @property
    def asks(self) -> bool:
        """Return whether its pods are to be gangs."""
        return self.metadata.annotations.get(GANG) == "true"

    def sizes(self) -> Mapping[str, int]:
        """Return how many pods each of its gangs needs, by the part that names it; none for gangs it does not have."""
        return gang_sizes(self.KIND, self.spec)


class Job(GroupOwner, frozen=True, kw_only=True):
    """batch Job: one gang."""

    API_VERSION: ClassVar[str] = "batch/v1"

    status: dict[str, Any] = map_field()

    @property
    def active_deadline(self) -> float | None:
        """For how long it may run, in seconds; None: for as long as it takes, or it is suspended."""
        found = self.spec.get("activeDeadlineSeconds")
        if not isinstance(found, int) or isinstance(found, bool) or not 0 < found <= LONGEST:
            return None
        return float(found) if self.spec.get("suspend") is not True else None

    @property
    def started(self) -> float | None:
        """Since when it runs, as its status has it, in seconds since the epoch."""
        found = self.status.get("startTime")
        try:
            return moment(found) if isinstance(found, str) else None
        except ValueError:
            return None


class JobSet(GroupOwner, frozen=True, kw_only=True):
    """jobset.x-k8s.io JobSet: a gang for every replicated job, as these may start one after the other."""

    API_VERSION: ClassVar[str] = "jobset.x-k8s.io/v1alpha2"


class LeaderWorkerSet(GroupOwner, frozen=True, kw_only=True):
    """leaderworkerset.x-k8s.io LeaderWorkerSet: a gang for every replica."""

    API_VERSION: ClassVar[str] = "leaderworkerset.x-k8s.io/v1"


class RayCluster(GroupOwner, frozen=True, kw_only=True):
    """ray.io RayCluster: one gang."""

    API_VERSION: ClassVar[str] = "ray.io/v1"


OWNER_KINDS: Final[tuple[type[GroupOwner], ...]] = (Job, JobSet, LeaderWorkerSet, RayCluster)


def owner_kinds(*, gangs: bool, ends: bool) -> tuple[type[GroupOwner], ...]:
    """Return the controllers to be read where pods of theirs may be `gangs`, or where it counts when those of Jobs
    end.
    """
    return OWNER_KINDS if gangs else (Job,) if ends else ()


class OwnerOf(NamedTuple):
    """The controller of a pod, in the pod's namespace, and which of its gangs the pod is of."""

    kind: str
    name: str
    part: str

    @property
    def group(self) -> str:
        """Return the name of the gang; it has a colon, which no object of an API can have."""
        return ":".join((self.kind.lower(), self.name, *((self.part,) if self.part else ())))


_BY_LABELS: Final = (
    ("LeaderWorkerSet", "leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-index"),
    ("JobSet", "jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name"),
    ("RayCluster", "ray.io/cluster", ""),
)


def owner_of(meta: ObjectMeta) -> OwnerOf | None:
    """Return the controller of a pod with this metadata, if it is one of those known here."""
    labels = meta.labels
    for kind, named, part in _BY_LABELS if labels else ():
        name = labels.get(named)
        if name:
            return OwnerOf(kind, name, labels.get(part, "") if part else "")
    for reference in meta.owner_references:
        if reference.controller and reference.kind == "Job" and reference.api_version.startswith("batch/"):
            return OwnerOf("Job", reference.name, "")
    return None


def _count(found: object, default: int) -> int:
    """Return a number of pods; what is none counts as the default."""
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 2**31 else default


def _maps(found: object) -> list[Mapping[str, Any]]:
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []


def _job(spec: Mapping[str, Any]) -> Mapping[str, int]:
    parallelism = _count(spec.get("parallelism"), 1)
    return {"": min(parallelism, _count(spec.get("completions"), parallelism))}


def _job_set(spec: Mapping[str, Any]) -> Mapping[str, int]:
    return {
        str(item.get("name", "")): _count(item.get("replicas"), 1)
        * _job(mapping(mapping(item.get("template")).get("spec")))[""]
        for item in _maps(spec.get("replicatedJobs"))
    }


def _leader_worker_set(spec: Mapping[str, Any]) -> Mapping[str, int]:
    size = _count(mapping(spec.get("leaderWorkerTemplate")).get("size"), 1)
    return {ANY: 1 if spec.get("startupPolicy") == "LeaderReady" else size}  # then workers come after their leader runs


def _ray_cluster(spec: Mapping[str, Any]) -> Mapping[str, int]:
    scaled = spec.get("enableInTreeAutoscaling") is True
    workers = (
        _ray_replicas(item, scaled=scaled) * _count(item.get("numOfHosts"), 1)
        for item in _maps(spec.get("workerGroupSpecs"))
        if item.get("suspend") is not True
    )
    return {"": 1 + sum(workers)}


def _ray_replicas(group: Mapping[str, Any], *, scaled: bool) -> int:
    least = _count(group.get("minReplicas"), 0)
    wanted = max(least, _count(group.get("replicas"), least))
    return least if scaled else min(wanted, _count(group.get("maxReplicas"), wanted))


_SIZES: Final[Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, int]]]] = {
    "Job": _job,
    "JobSet": _job_set,
    "LeaderWorkerSet": _leader_worker_set,
    "RayCluster": _ray_cluster,
}


def gang_sizes(kind: str, spec: Mapping[str, Any]) -> Mapping[str, int]:
    """Return how many pods each gang of a controller needs, by the part that names it (`ANY`: every one).

    None for parts without pods, and for kinds that are not in `OWNER_KINDS` (workloads.md 2.10).
    """
    found = _SIZES.get(kind)
    return {part: size for part, size in found(spec).items() if size > 0} if found is not None else {}
