"""Controllers that can request gangs of their pods: the names of the gangs, and the number of pods in each.

The source `owners` (workloads.md 1.1, 2.10) reads a pod's controller from its labels or its owner reference. The
controller states whether its pods are gangs and how large each gang is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, NamedTuple

from kube_rules.json import mapping
from kube_rules.meta import KubernetesObject, ObjectMeta, map_field
from kube_rules.work_annotations import DOMAIN, LONGEST, moment

GANG: Final = f"{DOMAIN}gang"
"""The pods of the controller are gangs of the size in its spec."""
ANY: Final = "*"
"""Stands for every gang of a controller."""


class GroupOwner(KubernetesObject, frozen=True, kw_only=True):
    """A controller: its metadata, and its spec as plain data."""

    NAMESPACED: ClassVar[bool] = True

    spec: dict[str, Any] = map_field()

    @property
    def asks(self) -> bool:
        """Return whether its pods are gangs."""
        return self.metadata.annotations.get(GANG) == "true"

    def sizes(self) -> Mapping[str, int]:
        """Return the number of pods that each of its gangs needs, by part name."""
        return gang_sizes(self.KIND, self.spec)


class Job(GroupOwner, frozen=True, kw_only=True):
    """batch Job: one gang."""

    API_VERSION: ClassVar[str] = "batch/v1"

    status: dict[str, Any] = map_field()

    @property
    def active_deadline(self) -> float | None:
        """Return its maximum runtime in seconds; None without a limit or while it is suspended."""
        seconds = self.spec.get("activeDeadlineSeconds")
        if not isinstance(seconds, int) or isinstance(seconds, bool) or not 0 < seconds <= LONGEST:
            return None
        return float(seconds) if self.spec.get("suspend") is not True else None

    @property
    def started(self) -> float | None:
        """Return the start time in its status, in seconds since the epoch."""
        text = self.status.get("startTime")
        try:
            return moment(text) if isinstance(text, str) else None
        except ValueError:
            return None


class JobSet(GroupOwner, frozen=True, kw_only=True):
    """jobset.x-k8s.io JobSet: a gang for every replicated job, because they may start one after the other."""

    API_VERSION: ClassVar[str] = "jobset.x-k8s.io/v1alpha2"


class LeaderWorkerSet(GroupOwner, frozen=True, kw_only=True):
    """leaderworkerset.x-k8s.io LeaderWorkerSet: a gang for every replica."""

    API_VERSION: ClassVar[str] = "leaderworkerset.x-k8s.io/v1"


class RayCluster(GroupOwner, frozen=True, kw_only=True):
    """ray.io RayCluster: one gang."""

    API_VERSION: ClassVar[str] = "ray.io/v1"


OWNER_KINDS: Final[tuple[type[GroupOwner], ...]] = (Job, JobSet, LeaderWorkerSet, RayCluster)


def owner_kinds(*, gangs: bool, ends: bool) -> tuple[type[GroupOwner], ...]:
    """Return the controllers to read: all if pods may be `gangs` of theirs, Jobs if their `ends` count."""
    return OWNER_KINDS if gangs else (Job,) if ends else ()


class OwnerOf(NamedTuple):
    """The controller of a pod, in the pod's namespace, and the part of the pod's gang."""

    kind: str
    name: str
    part: str

    @property
    def group(self) -> str:
        """Return the name of the gang; it has a colon, which no API object's name has."""
        return ":".join((self.kind.lower(), self.name, *((self.part,) if self.part else ())))


_BY_LABELS: Final = (
    ("LeaderWorkerSet", "leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-index"),
    ("JobSet", "jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name"),
    ("RayCluster", "ray.io/cluster", ""),
)


def owner_of(meta: ObjectMeta) -> OwnerOf | None:
    """Return the controller of a pod with this metadata, if it is of a supported kind."""
    labels = meta.labels
    for kind, named, part in _BY_LABELS if labels else ():
        name = labels.get(named)
        if name:
            return OwnerOf(kind, name, labels.get(part, "") if part else "")
    for reference in meta.owner_references:
        if reference.controller and reference.kind == "Job" and reference.api_version.startswith("batch/"):
            return OwnerOf("Job", reference.name, "")
    return None


def _count(value: object, default: int) -> int:
    """Return a number of pods; invalid values count as the default."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else default


def _maps(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


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
    return {ANY: 1 if spec.get("startupPolicy") == "LeaderReady" else size}  # then workers follow a running leader


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
    """Return the number of pods that each gang of a controller needs, by part name (`ANY`: every gang).

    Parts without pods, and kinds that are not in `OWNER_KINDS`, have none (workloads.md 2.10).
    """
    sizes = _SIZES.get(kind)
    return {part: size for part, size in sizes(spec).items() if size > 0} if sizes is not None else {}
