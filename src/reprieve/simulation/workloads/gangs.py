"""Gangs of workloads: which pods that are made belong together (whatif.md 2.10).

A gang is made where the object, or one above it, asks for it; its group is an object of the plan like any other, and
one of that name in the input counts instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from reprieve.api import objects
from reprieve.api.admission import PriorityAdmission
from reprieve.api.decoding import finish, from_data
from reprieve.api.errors import FieldError, InputError
from reprieve.api.foreign_groups import VOLCANO_VERSION
from reprieve.api.group_sources import GROUP_ANNOTATIONS, TASK_ANNOTATION, pod_group_name
from reprieve.api.versions import INTERNAL_VERSION
from reprieve.simulation.workloads.batches import Batch, Workload, names_group, reference_to
from reprieve.simulation.workloads.owners import Owner, mapping
from reprieve.simulation.workloads.rows import WorkloadKind, entries_of, value_at

GANG: Final = "scheduling.reprieve.dev/gang"
POD_GROUP: Final = "reprieve.dev/pod-group"
DISRUPTION_MODE: Final = "reprieve.dev/disruption-mode"
TOPOLOGY_KEY: Final = "reprieve.dev/topology-key"
_OF_PODS: Final = ("priorityClassName", "priority", "preemptionPolicy")
"""Fields that a group has of the template of its pods."""


@dataclass(slots=True)
class _Gang:
    """A group that is made for a workload."""

    workload: Workload
    name: str
    min_count: int | None
    """None: of everybody."""
    more: Mapping[str, Any]
    """disruptionMode, schedulingConstraints."""
    basic: bool
    named: bool
    """Its pods name it by an annotation: without it they would wait for it."""
    parts: Mapping[str, int]
    """Where each part has a minimum of its own: how many pods of it are needed."""
    members: int = 0
    batch: Batch | None = None
    """The first of its batches: the class of its template is that of the group."""

    @property
    def count(self) -> int:
        return self.members if self.min_count is None else self.min_count

    @property
    def is_made(self) -> bool:
        """Whether there is a group: one that has all it needs already, or nobody, is none."""
        return self.count > 0 or self.basic or self.named

    @property
    def in_parts(self) -> bool:
        """Whether the minima of its parts count: they are no more than that of the whole (workloads.md 2.7)."""
        return 0 < sum(self.parts.values()) <= self.count


class Gangs:
    """The gangs of one input. `count` reads a number of an object, `there` has its pods that run."""

    def __init__(
        self, count: Callable[[Workload, str, Any, int], int], there: Callable[[Workload], Sequence[objects.Pod]]
    ) -> None:
        self._count = count
        self._there = there
        self._gangs: dict[tuple[str, str], _Gang] = {}
        self._always: set[Owner] = set()

    def always(self, workload: Workload) -> None:
        """Everything that the workload makes is one gang, whatever its row says."""
        self._always.add(workload.key)

    def of(self, workload: Workload, replica: str = "", row: WorkloadKind | None = None) -> str:
        """The name of the gang that pods of the workload belong to (whatif.md 2.10); empty if there is none."""
        if workload.group:
            return workload.group
        annotations = mapping(workload.meta.get("annotations"))
        asked = annotations.get(GANG) == "true" or workload.key in self._always
        least = value_at(workload.manifest, row.min_count) if row is not None and row.min_count else None
        if not (asked or least is not None or (row is not None and row.always_gang)):
            return ""
        number = None
        if least is not None:
            path = row.min_count if row is not None else ""
            number = self._count(workload, path, least, 0) - len(self._outside(workload))
        name = f"{workload.name}-{replica}" if replica else workload.name
        named = row is not None and any(key in pods.annotations for pods in row.sets for key in GROUP_ANNOTATIONS)
        parts = self._parts(workload, row) if row is not None and row.min_count_of_part else {}
        return self._group(workload, name, number, {}, named=named, parts=parts)

    def _outside(self, workload: Workload) -> list[objects.Pod]:
        """Pods of the workload that run and are in no group that is made for it: they do not count there."""
        return [pod for pod in self._there(workload) if pod_group_name(pod) != workload.name]

    def _parts(self, workload: Workload, row: WorkloadKind) -> Mapping[str, int]:
        """What each part needs beyond the pods of it that run; empty where no part states a minimum."""
        pods, field = row.sets[0], row.min_count_of_part
        running = Counter(pod.metadata.annotations.get(TASK_ANNOTATION, "") for pod in self._outside(workload))
        found: dict[str, int] = {}
        stated = False
        for at, part, entry in entries_of(workload.manifest, pods):
            value = value_at(entry, field)
            stated = stated or value is not None
            replicas = pods.replicas if isinstance(pods.replicas, int) else value_at(entry, pods.replicas)
            every = self._count(workload, f"{at}.{pods.replicas}", replicas, pods.default)
            found[part] = max(self._count(workload, f"{at}.{field}", value, every) - running[part], 0)
        return {part: least for part, least in found.items() if least} if stated else {}

    def of_job(self, workload: Workload, template: Mapping[str, Any], wanted: int, there: Sequence[objects.Pod]) -> str:
        """The same for a Job, which may also say so in its spec or by the annotation that `reprieve up` knows."""
        if workload.group:
            return workload.group
        annotations = mapping(workload.meta.get("annotations"))
        scheduling = workload.spec.get("scheduling")
        if names_group(mapping(template.get("spec"))):
            return ""
        more: dict[str, Any] = {}
        if isinstance(scheduling, Mapping):
            policy = mapping(scheduling.get("schedulingPolicy"))
            more = {
                name: scheduling[name] for name in ("schedulingConstraints", "disruptionMode") if name in scheduling
            }
            if "basic" in policy:
                return self._group(workload, workload.name, 0, more, basic=True)
            number = value_at(policy, "gang.minCount")
            least = wanted if number is None else self._count(workload, "spec.scheduling", number, 1)
            return self._group(workload, workload.name, least - len(there), more)
        if annotations.get(POD_GROUP) == "true":
            mode, topology = annotations.get(DISRUPTION_MODE), annotations.get(TOPOLOGY_KEY)
            if mode in ("all", "single"):
                more["disruptionMode"] = {mode: {}}
            if topology:
                more["schedulingConstraints"] = {"topology": [{"key": topology}]}
            return self._group(workload, workload.name, wanted - len(there), more)
        return self.of(workload)

    def _group(
        self,
        workload: Workload,
        name: str,
        number: int | None,
        more: Mapping[str, Any],
        *,
        basic: bool = False,
        named: bool = False,
        parts: Mapping[str, int] | None = None,
    ) -> str:
        gang = _Gang(workload, name, number, more, basic, named, parts or {})
        self._gangs.setdefault((workload.namespace, name), gang)
        return name

    def settle(self, batches: Sequence[Batch], existing: Collection[tuple[str, str]]) -> None:
        """Count members, and take those out that are not in their gang, or are by what they say themselves."""
        for batch in batches:
            gang = self._gangs.get((batch.workload.namespace, batch.group)) if batch.group else None
            if gang is not None:
                gang.members += len(batch.pods)
                gang.batch = gang.batch or batch
        for batch in batches:
            key = (batch.workload.namespace, batch.group)
            gang = self._gangs.get(key)
            if gang is None or key in existing:
                continue
            if not gang.is_made or gang.in_parts:
                batch.group = ""  # of parts: the pods name the group by their annotation

    def groups(
        self, admission: PriorityAdmission, existing: Collection[tuple[str, str]]
    ) -> Iterator[tuple[objects.PodGroup, Workload]]:
        """The groups that are made, each with the workload it is of."""
        for key, gang in self._gangs.items():
            if key not in existing and gang.is_made:
                yield self._pod_group(gang, admission), gang.workload

    def _pod_group(self, gang: _Gang, admission: PriorityAdmission) -> objects.PodGroup:
        pod_spec = mapping(gang.batch.template.get("spec")) if gang.batch is not None else {}
        basic = gang.basic or gang.count <= 0
        policy: Mapping[str, Any] = {"basic": {}} if basic else {"gang": {"minCount": gang.count}}
        if gang.in_parts:
            return self._in_parts(gang, pod_spec.get("priorityClassName"), admission)
        spec = {"schedulingPolicy": policy, **gang.more}
        for name in _OF_PODS:
            if pod_spec.get(name) is not None:
                spec[name] = pod_spec[name]
        return self._read(gang, INTERNAL_VERSION, spec, admission)

    def _in_parts(self, gang: _Gang, priority_class: object, admission: PriorityAdmission) -> objects.PodGroup:
        """The PodGroup that Volcano's controller makes, which says what each part needs."""
        spec: dict[str, Any] = {"minMember": gang.count, "minTaskMember": dict(gang.parts)}
        if priority_class:
            spec["priorityClassName"] = priority_class
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
        made = {"apiVersion": version, "kind": "PodGroup", "metadata": meta, "spec": spec}
        try:
            group = finish(from_data(objects.PodGroup, made, workload.origin), workload.origin, stored_groups=True)
            return admission.resolve(group)
        except (InputError, FieldError) as error:
            raise _misfit(gang, error) from None


def _misfit(gang: _Gang, error: InputError | FieldError) -> InputError:
    """What is wrong with a group, at the field that it comes from (whatif.md 1.9)."""
    field = error.path.removeprefix("spec.")
    if gang.batch is not None and field in _OF_PODS:
        return gang.batch.workload.error(f"{gang.batch.path}.spec.{field}", error.message)
    if isinstance(gang.workload.spec.get("scheduling"), Mapping):
        return gang.workload.error(f"spec.scheduling.{field}", error.message)
    return gang.workload.error("metadata.annotations", error.message)
