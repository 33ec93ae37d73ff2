"""Gangs of workloads: which pods that are made belong together (whatif.md 2.10).

A gang is made where the object, or one above it, asks for it; its group is an object of the plan like any other, and
one of that name in the input counts instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from reprieve.api import objects
from reprieve.api.admission import PriorityAdmission
from reprieve.api.decoding import finish, from_data
from reprieve.api.errors import FieldError, InputError
from reprieve.api.versions import INTERNAL_VERSION
from reprieve.simulation.workloads.batches import Batch, Workload, names_group, reference_to
from reprieve.simulation.workloads.owners import Owner, mapping
from reprieve.simulation.workloads.rows import WorkloadKind, look

GANG: Final = "scheduling.reprieve.dev/gang"
POD_GROUP: Final = "reprieve.dev/pod-group"
DISRUPTION_MODE: Final = "reprieve.dev/disruption-mode"
TOPOLOGY_KEY: Final = "reprieve.dev/topology-key"


@dataclass(slots=True)
class _Gang:
    """A group that is made for a workload."""

    workload: Workload
    name: str
    min_count: int | None
    """None: of everybody."""
    more: Mapping[str, Any]
    """disruptionMode, schedulingConstraints."""
    basic: bool = False
    members: int = 0
    template: Mapping[str, Any] | None = None

    @property
    def count(self) -> int:
        return self.members if self.min_count is None else self.min_count


class Gangs:
    """The gangs of one input. `count` reads a number of an object, `there` counts its pods that run."""

    def __init__(self, count: Callable[[Workload, str, Any, int], int], there: Callable[[Workload], int]) -> None:
        self._count = count
        self._there = there
        self._gangs: dict[tuple[str, str], _Gang] = {}
        self._always: set[Owner] = set()

    def always(self, workload: Workload) -> None:
        """Everything that the workload makes is one gang, whatever its row says."""
        self._always.add(workload.key)

    def of(self, workload: Workload, replica: str, number: int | None = None, row: WorkloadKind | None = None) -> str:
        """The name of the gang that pods of the workload belong to (whatif.md 2.10); empty if there is none.

        `number`: how many must run together, if that is not everybody who is made.
        """
        if workload.group:
            return workload.group
        annotations = mapping(workload.meta.get("annotations"))
        asked = annotations.get(GANG) == "true" or workload.key in self._always
        least = look(workload.manifest, row.min_count) if row is not None and row.min_count else None
        if not (asked or least is not None or (row is not None and row.always_gang)):
            return ""
        if least is not None:
            path = row.min_count if row is not None else ""
            number = self._count(workload, path, least, 0) - self._there(workload)
        return self._group(workload, f"{workload.name}-{replica}" if replica else workload.name, number, {})

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
            number = look(policy, "gang.minCount")
            least = wanted if number is None else self._count(workload, "spec.scheduling", number, 1)
            return self._group(workload, workload.name, least - len(there), more)
        if annotations.get(POD_GROUP) == "true":
            mode, topology = annotations.get(DISRUPTION_MODE), annotations.get(TOPOLOGY_KEY)
            if mode in ("all", "single"):
                more["disruptionMode"] = {mode: {}}
            if topology:
                more["schedulingConstraints"] = {"topology": [{"key": topology}]}
            return self._group(workload, workload.name, wanted - len(there), more)
        return self.of(workload, "", wanted - len(there))

    def _group(
        self, workload: Workload, name: str, number: int | None, more: Mapping[str, Any], *, basic: bool = False
    ) -> str:
        self._gangs.setdefault((workload.namespace, name), _Gang(workload, name, number, more, basic))
        return name

    def settle(self, batches: Sequence[Batch], existing: Collection[tuple[str, str]]) -> None:
        """Count members; a gang that has all it needs already, or nobody, is none."""
        for batch in batches:
            gang = self._gangs.get((batch.workload.namespace, batch.group)) if batch.group else None
            if gang is not None:
                gang.members += len(batch.pods)
                gang.template = gang.template or batch.template
        for batch in batches:
            key = (batch.workload.namespace, batch.group)
            gang = self._gangs.get(key)
            if gang is not None and key not in existing and gang.count <= 0 and not gang.basic:
                batch.group = ""

    def groups(
        self, admission: PriorityAdmission, existing: Collection[tuple[str, str]]
    ) -> Iterator[tuple[objects.PodGroup, Workload]]:
        """The groups that are made, each with the workload it is of."""
        for key, gang in self._gangs.items():
            if key not in existing and (gang.count > 0 or gang.basic):
                yield self._pod_group(gang, admission), gang.workload

    def _pod_group(self, gang: _Gang, admission: PriorityAdmission) -> objects.PodGroup:
        pod_spec = mapping(mapping(gang.template).get("spec"))
        policy: Mapping[str, Any] = {"basic": {}} if gang.basic else {"gang": {"minCount": gang.count}}
        spec = {"schedulingPolicy": policy, **gang.more}
        for name in ("priorityClassName", "priority", "preemptionPolicy"):
            if pod_spec.get(name) is not None:
                spec[name] = pod_spec[name]
        workload = gang.workload
        meta = {
            "name": gang.name,
            "namespace": workload.namespace,
            "ownerReferences": [msgspec.to_builtins(reference_to(workload.manifest))],
        }
        made = {"apiVersion": INTERNAL_VERSION, "kind": "PodGroup", "metadata": meta, "spec": spec}
        try:
            group = finish(from_data(objects.PodGroup, made, workload.origin), workload.origin, stored_groups=True)
            return admission.resolve(group)
        except FieldError as error:
            raise InputError(workload.origin, error.message, path=error.path, subject=workload.subject) from None
