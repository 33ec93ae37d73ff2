"""Gangs of workloads: the groups of their new pods (whatif.md 2.10).

A gang is created if the object, or one above it, requests it. Its group is a normal object of the plan; a group of that
name in the input takes precedence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.admission import PriorityAdmission
from kube_rules.controllers.job_groups import GROUP_FIELDS, group_of_job
from kube_rules.decoding import finish, from_data
from kube_rules.errors import FieldError, InputError
from kube_rules.foreign_groups import VOLCANO_VERSION
from kube_rules.group_owners import ANY, OWNER_KINDS, gang_sizes, owner_of
from kube_rules.group_sources import GROUP_ANNOTATIONS, OWNERS, TASK_ANNOTATION, pod_group_name
from kube_rules.json import mapping, text
from kube_rules.versions import INTERNAL_VERSION
from reprieve.simulation.workloads.batches import Batch, PodWorkload, names_group, reference_to
from reprieve.simulation.workloads.owners import Owner
from reprieve.simulation.workloads.rows import WorkloadKind, entries_of, filled, value_at
from reprieve.simulation.workloads.scheduling_fields import PATH, Asked, RequestedGroup, groups_asked

GANG: Final = "scheduling.reprieve.dev/gang"
_RAY: Final = "ray.io"
_OF_PODS: Final = ("priorityClassName", "priority", "preemptionPolicy")
"""Fields that a group copies from the template of its pods."""


@dataclass(slots=True)
class _Gang:
    """A group for a workload."""

    workload: PodWorkload
    name: str
    min_count: int | None
    """None: all pods."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """disruptionMode, schedulingConstraints, resourceClaims."""
    basic: bool = False
    place: str = "metadata.annotations"
    """The path at which the object requests the gang."""
    by_scheduler: bool = False
    """Whether a scheduler creates the group: it is no API object, and admission does not set its priority."""
    operated: bool = False
    """Whether the PodGroup is one of Volcano, created by the operator of the kind; pods name it by annotation."""
    priority_class: tuple[str, str] = ("", "")
    """The class of an operated PodGroup, and its path in the object."""
    parts: Mapping[str, int] = field(default_factory=dict)
    """The number of pods needed of each part with its own minimum."""
    members: int = 0
    batch: Batch | None = None
    """The first of its batches; its template determines the class of the group."""

    @property
    def count(self) -> int:
        return self.members if self.min_count is None else self.min_count

    @property
    def is_made(self) -> bool:
        """Return whether the group is created: not if its minimum is already met, or without pods.

        A group that pods name by annotation is also created, because they would wait for it.
        """
        return self.count > 0 or self.basic or (self.operated and self.members > 0)

    @property
    def in_parts(self) -> bool:
        """Return whether the minimums of its parts apply: their sum is at most that of the whole (workloads.md 2.7)."""
        return 0 < sum(self.parts.values()) <= self.count


class RemarkCallback(Protocol):
    """A function that reports an unread part of a workload; `unless`: the source of groups that reads it."""

    def __call__(self, workload: PodWorkload, message: str, unless: str = "", *, strict: bool = False) -> None:
        """See `Maker.remark`."""


class WorkloadGangs:
    """The gangs of one input. `count` reads a number of an object, `running_pods` returns its running pods."""

    def __init__(
        self,
        count: Callable[[PodWorkload, str, Any, int], int],
        running_pods: Callable[[PodWorkload], Sequence[objects.Pod]],
        remark: RemarkCallback,
    ) -> None:
        self._count = count
        self._running_pods = running_pods
        self._remark = remark
        self._gangs: dict[tuple[str, str], _Gang] = {}
        self._always: dict[Owner, str] = {}
        self._requests: dict[Owner, Asked | None] = {}

    def always(self, workload: PodWorkload, priority_class: str) -> None:
        """Make one gang of everything that the workload creates, with this class, regardless of its row."""
        self._always[workload.object_id] = priority_class

    def of(
        self, workload: PodWorkload, row: WorkloadKind | None = None, part: str = "", piece: tuple[str, str] = ("", "")
    ) -> str:
        """Return the name of the gang for pods of the workload (whatif.md 2.10); empty without one.

        `part`: which of several gangs of the workload; `piece`: the part and the replica of the pods.
        """
        if workload.group:
            return workload.group
        if workload.object_id not in self._requests:
            self._requests[workload.object_id] = groups_asked(workload, partial(self._unread, workload))
        asked_for = self._requests[workload.object_id]
        if asked_for is not None:
            return self._by_field(workload, asked_for(*piece))
        if workload.object_id in self._always:
            priority_class = self._always[workload.object_id], "spec.priorityClassName"
            return self._add(_Gang(workload, workload.name, None, operated=True, priority_class=priority_class))
        if row is not None and _is_operated(workload, row):
            return self._operated(workload, row)
        least = value_at(workload.manifest, row.min_count) if row is not None and row.min_count else None
        by_annotation = mapping(workload.meta.get("annotations")).get(GANG) == "true"
        if least is None and (not by_annotation or _hands_down(row)) and not (row is not None and row.always_gang):
            return ""
        name = f"{workload.name}-{part}" if part else workload.name
        if least is not None and row is not None:
            number = self._count(workload, row.min_count, least, 0) - len(self._outside(workload, name))
            return self._add(_Gang(workload, name, number, by_scheduler=True))
        if by_annotation:
            self._remark_on(workload)
        missing = self._missing(workload, part) if by_annotation else None
        return self._add(_Gang(workload, name, missing, by_scheduler=True))

    def _unread(self, workload: PodWorkload, path: str) -> None:
        self._remark(workload, f"{path} is ignored: not a field of {PATH}", "", strict=True)

    def _by_field(self, workload: PodWorkload, requested: RequestedGroup) -> str:
        """Return a group that `spec.scheduling` requests (workloads.md 6)."""
        name = f"{workload.name}-{requested.name}" if requested.name else workload.name
        number = 0 if requested.basic else requested.min_count
        if number:
            labels = [pod.metadata.labels for pod in self._running_pods(workload)]
            number -= sum(requested.labels.items() <= label.items() for label in labels)
        return self._add(_Gang(workload, name, number, requested.more, basic=requested.basic, place=requested.path))

    def _operated(self, workload: PodWorkload, row: WorkloadKind) -> str:
        """Return the PodGroup that the operator of the kind creates for Volcano (workloads.md 5)."""
        name = filled(row.gang_name, {"name": workload.name})
        least = value_at(workload.manifest, row.min_count) if row.min_count else None
        number = None
        if least is not None:
            number = self._count(workload, row.min_count, least, 0)
        elif workload.object_id[0] == _RAY:
            cluster = (
                workload.spec if workload.object_id[1] == "RayCluster" else mapping(workload.spec.get("rayClusterSpec"))
            )
            number = gang_sizes("RayCluster", cluster)[""]
        if number is not None:
            number -= len(self._outside(workload, name))
        parts = self._parts(workload, row, name) if row.min_count_of_part else {}
        classes = ((text(value_at(workload.manifest, path)), path) for path in row.priority_class)
        chosen = next((candidate for candidate in classes if candidate[0]), ("", ""))
        return self._add(_Gang(workload, name, number, operated=True, priority_class=chosen, parts=parts))

    def _remark_on(self, workload: PodWorkload) -> None:
        """Report a gang by an annotation that the scheduler may not read (workloads.md 2.10)."""
        kind = workload.object_id[1]
        if any(kind == item.KIND for item in OWNER_KINDS):
            why = (
                "the scheduler reads it only with groupSources: {owners: true} in its configuration; otherwise its "
                "pods are not a gang"
            )
            self._remark(workload, f"metadata.annotations[{GANG}]: planned as a gang: {why}", OWNERS)
        else:
            kinds = ", ".join(item.KIND for item in OWNER_KINDS)
            why = f"the scheduler reads it only on {kinds}"
            self._remark(workload, f"metadata.annotations[{GANG}]: planned as a gang: {why}", "")

    def _missing(self, workload: PodWorkload, part: str) -> int | None:
        """Return how many pods a gang needs beyond its running ones, as the scheduler counts; None: all new ones."""
        sizes = gang_sizes(workload.object_id[1], workload.spec) if workload.object_id[1] != "Job" else {}
        size = sizes.get(part, sizes.get(ANY))
        if size is None:
            return None
        owners = [owner_of(pod.metadata) for pod in self._running_pods(workload)]
        return size - sum(owner is not None and owner.part == part for owner in owners)

    def _outside(self, workload: PodWorkload, name: str) -> list[objects.Pod]:
        """Return the running pods of the workload outside of its new group, which do not count for it."""
        return [pod for pod in self._running_pods(workload) if pod_group_name(pod) != name]

    def _parts(self, workload: PodWorkload, row: WorkloadKind, name: str) -> Mapping[str, int]:
        """Return how many pods each part needs beyond its running ones; empty if no part states a minimum."""
        pods, field = row.sets[0], row.min_count_of_part
        running = Counter(pod.metadata.annotations.get(TASK_ANNOTATION, "") for pod in self._outside(workload, name))
        result: dict[str, int] = {}
        stated = False
        for at, part, entry in entries_of(workload.manifest, pods):
            value = value_at(entry, field)
            stated = stated or value is not None
            replicas = pods.replicas if isinstance(pods.replicas, int) else value_at(entry, pods.replicas)
            every = self._count(workload, f"{at}.{pods.replicas}", replicas, pods.default)
            result[part] = max(self._count(workload, f"{at}.{field}", value, every) - running[part], 0)
        return {part: least for part, least in result.items() if least} if stated else {}

    def of_job(
        self, workload: PodWorkload, template: Mapping[str, Any], wanted: int, existing: Sequence[objects.Pod]
    ) -> str:
        """Return the gang of a Job, which may also request a group as an API server reads it (`job_groups`).

        Once the Job has started, or if it has no pods, the minimum is at most the number of pods still to create.
        """
        if workload.group:
            return workload.group
        if names_group(mapping(template.get("spec"))):
            return ""
        requested = group_of_job(workload.manifest)
        if requested is None:
            return self.of(workload)
        name = requested.name if workload.uid else workload.name
        more = {field: requested.spec[field] for field in GROUP_FIELDS[1:] if field in requested.spec}
        place = "metadata.annotations" if requested.annotated else "spec.scheduling"
        gang = requested.spec["schedulingPolicy"].get("gang")
        if gang is None:
            return self._add(_Gang(workload, name, 0, more, basic=True, place=place))
        least = self._count(workload, place, gang["minCount"], 1)
        if existing or not wanted or workload.status.get("startTime"):
            least = min(least, wanted) - len(existing)
        return self._add(_Gang(workload, name, least, more, place=place))

    def _add(self, gang: _Gang) -> str:
        self._gangs.setdefault((gang.workload.namespace, gang.name), gang)
        return gang.name

    def settle(self, batches: Sequence[Batch], existing: Collection[tuple[str, str]]) -> None:
        """Count the members of gangs, and remove batches without a group or with their own annotation."""
        for batch in batches:
            gang = self._gangs.get((batch.workload.namespace, batch.group)) if batch.group else None
            if gang is not None:
                gang.members += len(batch.pods)
                gang.batch = gang.batch or batch
        for batch in batches:
            key = (batch.workload.namespace, batch.group)
            gang = self._gangs.get(key)
            if gang is None:
                continue
            if gang.operated:
                batch.annotations = {**batch.annotations, GROUP_ANNOTATIONS[0]: gang.name}
            if gang.operated or (key not in existing and not gang.is_made):
                batch.group = ""

    def groups(
        self, admission: PriorityAdmission, existing: Collection[tuple[str, str]]
    ) -> Iterator[tuple[objects.PodGroup, PodWorkload]]:
        """Yield the created groups, each with its workload."""
        for key, gang in self._gangs.items():
            if key not in existing and gang.is_made:
                yield self._pod_group(gang, admission), gang.workload

    def _pod_group(self, gang: _Gang, admission: PriorityAdmission) -> objects.PodGroup:
        pod_spec = mapping(gang.batch.template.get("spec")) if gang.batch is not None else {}
        basic = gang.basic or gang.count <= 0
        policy: Mapping[str, Any] = {"basic": {}} if basic else {"gang": {"minCount": gang.count}}
        if gang.operated:
            return self._of_volcano(gang, admission)
        spec = {"schedulingPolicy": policy, **gang.more}
        for name in _OF_PODS:
            if pod_spec.get(name) is not None:
                spec[name] = pod_spec[name]
        return replace(self._read(gang, INTERNAL_VERSION, spec, admission), custom=gang.by_scheduler)

    def _of_volcano(self, gang: _Gang, admission: PriorityAdmission) -> objects.PodGroup:
        """Return the PodGroup of an operator for Volcano, with the minimums of parts if they apply."""
        spec: dict[str, Any] = {"minMember": max(gang.count, 0)}
        if gang.in_parts:
            spec["minTaskMember"] = dict(gang.parts)
        if gang.priority_class[0]:
            spec["priorityClassName"] = gang.priority_class[0]
        return self._read(gang, VOLCANO_VERSION, spec, admission)

    def _read(
        self, gang: _Gang, version: str, spec: Mapping[str, Any], admission: PriorityAdmission
    ) -> objects.PodGroup:
        workload = gang.workload
        meta = {
            "name": gang.name,
            "namespace": workload.namespace,
            "ownerReferences": [msgspec.to_builtins(reference_to(workload.manifest))],
        }
        manifest = {"apiVersion": version, "kind": "PodGroup", "metadata": meta, "spec": spec}
        try:
            group = finish(from_data(objects.PodGroup, manifest, workload.origin), workload.origin, stored_groups=True)
            return admission.resolve(group)
        except (InputError, FieldError) as error:
            raise _misfit(gang, error) from None


def _is_operated(workload: PodWorkload, row: WorkloadKind) -> bool:
    """Return whether the operator of the kind creates a PodGroup for the object."""
    if not row.gang_when:
        return row.always_gang and bool(row.priority_class)
    return any(value_at(workload.manifest, path) is not None for path in row.gang_when)


def _hands_down(row: WorkloadKind | None) -> bool:
    """Return whether objects of this kind pass their annotations on to the objects they create."""
    return row is not None and any(pods.inherits for pods in row.sets)


def _misfit(gang: _Gang, error: InputError | FieldError) -> InputError:
    """Return the error about a group, at the field that it comes from (whatif.md 1.9)."""
    name = error.path.removeprefix("spec.")
    if gang.operated:
        return gang.workload.error(gang.priority_class[1] if name == "priorityClassName" else "", error.message)
    if gang.batch is not None and name in _OF_PODS:
        return gang.batch.workload.error(gang.batch.place(error.path), error.message)
    return gang.workload.error(
        f"{gang.place}.{name}" if gang.place != "metadata.annotations" else gang.place, error.message
    )
