"""The group of a pod: one row for every way in which pods name their group (workloads.md 1).

Terms: a *source* is such a way; `SOURCES` lists them in order of precedence. A *sized* source has no objects of its
own: its pods state the size of the group (workloads.md 2.4).

Invariant: pure functions of one object each. A disabled source is not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from kube_rules.errors import one_line
from kube_rules.foreign_groups import COSCHEDULING_GROUP, VOLCANO_GROUP
from kube_rules.group_owners import owner_of
from kube_rules.meta import KubernetesObject
from kube_rules.objects import Pod, PodGroup
from kube_rules.versions import CRD_GROUP, SCHEDULING_GROUP

NATIVE: Final = "native"
LABEL: Final = "label"
COSCHEDULING: Final = "coscheduling"
VOLCANO: Final = "volcano"
KUEUE: Final = "kueue"
OWNERS: Final = "owners"

OWN_LABEL: Final = f"{CRD_GROUP}/pod-group"
"""The PodGroup of the pod, if the API server has no `spec.schedulingGroup`."""
COSCHEDULING_LABEL: Final = f"{COSCHEDULING_GROUP}/pod-group"
"""The PodGroup of the coscheduling plugin."""
VOLCANO_ANNOTATIONS: Final = ("scheduling.k8s.io/group-name", f"{VOLCANO_GROUP}/group-name")
"""The PodGroup of Volcano."""
VOLCANO_LABEL: Final = f"{VOLCANO_GROUP}/group-name"
"""The PodGroup of Volcano."""
TASK_ANNOTATION: Final = "volcano.sh/task-spec"
"""The task of a Volcano Job to which the pod belongs."""
KUEUE_LABEL: Final = "kueue.x-k8s.io/pod-group-name"
"""The pod group of Kueue."""
KUEUE_TOTAL: Final = "kueue.x-k8s.io/pod-group-total-count"
"""The size of the pod group of Kueue."""
QUEUE_KEYS: Final = (
    "kueue.x-k8s.io/queue-name",
    f"{VOLCANO_GROUP}/queue-name",
    "volcano.sh/queue-name",
    "kai.scheduler/queue",
    "yunikorn.apache.org/queue",
)
"""The queue of another scheduler. It has no effect; `plan` warns of it."""
GROUP_LABELS: Final = (OWN_LABEL, COSCHEDULING_LABEL, VOLCANO_LABEL, KUEUE_LABEL)
"""Pod labels that hold the name of a group."""
GROUP_ANNOTATIONS: Final = VOLCANO_ANNOTATIONS
"""Pod annotations that hold the name of a group."""

_LABELS: Final = frozenset(GROUP_LABELS)
_ANNOTATIONS: Final = frozenset(GROUP_ANNOTATIONS)
_LARGEST: Final = 2**31 - 1
_DIGITS: Final = re.compile(r"\+?[0-9]{1,10}")
_NAME: Final = re.compile(r"[-a-z0-9.]{1,253}")


@dataclass(frozen=True, slots=True)
class GroupSource:
    """One way in which pods name their group."""

    name: str
    """The name in `groupSources`."""
    names: Callable[[Pod], str]
    """The name of the group, in the pod's namespace; empty if the pod names none."""
    api_group: str | None = None
    """API group of the PodGroups that are read for this source; None if it has no objects."""
    size: Callable[[Pod], int] | None = None
    """Of a sized source: the size of the group in a pod. Raises ValueError with the problem."""
    default: bool = True


def _native(pod: Pod) -> str:
    group = pod.spec.scheduling_group
    return group.pod_group_name or "" if group is not None else ""


def _label(key: str) -> Callable[[Pod], str]:
    def names(pod: Pod) -> str:
        labels = pod.metadata.labels
        return labels.get(key, "") if labels else ""

    return names


def _volcano(pod: Pod) -> str:
    meta = pod.metadata
    if meta.annotations:
        for key in VOLCANO_ANNOTATIONS:
            name = meta.annotations.get(key)
            if name:
                return name if _NAME.fullmatch(name) else _impossible(name)
    return meta.labels.get(VOLCANO_LABEL, "") if meta.labels else ""


def _impossible(name: str) -> str:
    """Return a placeholder for a name that no PodGroup can have: its pods wait, outside generated groups.

    An annotation is any text, and names of generated groups have colons (`foreign_groups.below`, `OwnerOf.group`).
    """
    return f'"{one_line(name, 64)}"'


def _owner(pod: Pod) -> str:
    owner = owner_of(pod.metadata)
    return owner.group if owner is not None else ""


def _kueue_total(pod: Pod) -> int:
    text = pod.metadata.annotations.get(KUEUE_TOTAL) if pod.metadata.annotations else None
    path = f"metadata.annotations[{KUEUE_TOTAL}]"
    if text is None:
        raise ValueError(f"{path}: Required value: the label {KUEUE_LABEL} names a group, and this is its size")
    number = int(text) if _DIGITS.fullmatch(text) else 0
    if not 1 <= number <= _LARGEST:
        shown = text if len(text) <= 128 else f"{text[:128]}..."
        raise ValueError(f'{path}: Invalid value: "{shown}": expected a number of pods from 1 to {_LARGEST}')
    return number


SOURCES: Final[tuple[GroupSource, ...]] = (
    GroupSource(NATIVE, _native, SCHEDULING_GROUP),
    GroupSource(LABEL, _label(OWN_LABEL), CRD_GROUP),
    GroupSource(COSCHEDULING, _label(COSCHEDULING_LABEL), COSCHEDULING_GROUP),
    GroupSource(VOLCANO, _volcano, VOLCANO_GROUP),
    GroupSource(KUEUE, _label(KUEUE_LABEL), size=_kueue_total),
    GroupSource(OWNERS, _owner, default=False),
)
"""Every source, in order of precedence (workloads.md 1.1)."""


class Membership(NamedTuple):
    """The group of a pod, its source, and the size of the group if the source states it."""

    name: str
    source: GroupSource
    size: int | None = None
    """None: the group has an object, or the pod's size is invalid."""


class GroupSources:
    """The enabled sources. Comparable and immutable."""

    __slots__ = ("names", "rows")

    def __init__(self, names: Iterable[str]) -> None:
        """Raises ValueError for an unknown source."""
        self.names = frozenset(names)
        unknown = sorted(self.names - {row.name for row in SOURCES})
        if unknown:
            all_names = ", ".join(row.name for row in SOURCES)
            raise ValueError(f"{unknown[0]!r} is no source of groups; known: {all_names}")
        self.rows = tuple(row for row in SOURCES if row.name in self.names)

    @classmethod
    def switched(cls, switches: Mapping[str, bool]) -> GroupSources:
        """Return the sources that are enabled by default, changed by the switches. Raises ValueError."""
        cls(switches)
        return cls(row.name for row in SOURCES if switches.get(row.name, row.default))

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GroupSources) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return f"GroupSources({[row.name for row in self.rows]})"

    @property
    def api_groups(self) -> tuple[str, ...]:
        """Return the API groups of the PodGroups that are read, in order of precedence."""
        return tuple(row.api_group for row in self.rows if row.api_group is not None)

    def read(self, group: PodGroup) -> bool:
        """Return whether objects of the group's API are read. Native PodGroups and our own always are."""
        return group.foreign is None or group.foreign.api_version.partition("/")[0] in self.api_groups

    def may_be_named(self, pod: Pod) -> bool:
        """Return whether a pod has any field that a source reads: most pods without a group have none."""
        meta = pod.metadata
        labels, annotations = meta.labels, meta.annotations
        if pod.spec.scheduling_group is not None:
            return True
        if (labels and not _LABELS.isdisjoint(labels)) or (annotations and not _ANNOTATIONS.isdisjoint(annotations)):
            return True
        return OWNERS in self.names and bool(labels or meta.owner_references)

    def membership(self, pod: Pod) -> Membership | None:
        """Return the group of a pod; None for an individual pod."""
        for row in self.rows if self.may_be_named(pod) else ():
            name = row.names(pod)
            if name:
                return Membership(name, row, _size(row, pod))
        return None

    def problems(self, pod: Pod) -> list[str]:
        """Return the problems with the groups that a pod names, including ignored groups, a sentence for each."""
        named = [(row, name) for row in self.rows if (name := row.names(pod))] if self.may_be_named(pod) else []
        if not named:
            return []
        (first, name), *conflicts = named
        result = []
        size = size_problem(first, pod)
        if size:
            result.append(size)
        if name.startswith('"'):
            result.append(
                f"metadata.annotations: names the group {name} ({first.name}): no PodGroup can have that name"
            )
        for row, group in conflicts:
            if group != name and row.name != OWNERS:  # an owner is not a conflict
                result.append(f'names the group "{name}" ({first.name}) and "{group}" ({row.name}): the first counts')
        return result


def group_problems(item: KubernetesObject, sources: GroupSources) -> list[str]:
    """List the problems and ignored fields of a pod or foreign PodGroup, a sentence for each (workloads.md 1.5, 2)."""
    if isinstance(item, Pod):
        return sources.problems(item)
    if isinstance(item, PodGroup) and item.foreign is not None and sources.read(item):
        return item.foreign.unread
    return []


def _size(row: GroupSource, pod: Pod) -> int | None:
    if row.size is None:
        return None
    try:
        return row.size(pod)
    except ValueError:
        return None


def size_problem(row: GroupSource, pod: Pod) -> str:
    """Return the problem with the group size in a pod; empty if there is none."""
    if row.size is None:
        return ""
    try:
        row.size(pod)
    except ValueError as error:
        return str(error)
    return ""


DEFAULT_SOURCES: Final = GroupSources(row.name for row in SOURCES if row.default)
NO_SOURCES: Final = GroupSources(())


def pod_group_name(pod: Pod, sources: GroupSources = DEFAULT_SOURCES) -> str | None:
    """Return the group of a pod by the source with the highest precedence; None for an individual pod."""
    for row in sources.rows if sources.may_be_named(pod) else ():
        name = row.names(pod)
        if name:
            return name
    return None
