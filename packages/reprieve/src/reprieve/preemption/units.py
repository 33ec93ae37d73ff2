"""Preemption units: pods that are disrupted as one (preemption.md 1, 5, composite.md 4).

A unit is a single pod, or all scheduled pods below a group with `disruptionMode: {all: {}}`, the highest of its tree
that has it.  Its priority is that of the topmost group that exists, in either mode, else the pod's; a group may have a
higher one as a victim than as a preemptor (preemption.md 4, "Options"; composite.md 4.3).  A member that runs with a
class in a group without one keeps its own if that is higher (preemption.md 8.3).
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from reprieve.cluster.groups import CompositeState, Group, GroupState, disrupted_with, running_below
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState

_NOT_STARTED = float("inf")


ABOVE_ALL: Final = 1 << 31
"""A value above every priority: units of all pods are below it."""


@dataclass(frozen=True, slots=True)
class PreemptionUnit:
    """One unit with the rows its pods run on. `pods` are in UID order, `rows[i]` is where `pods[i]` runs."""

    name: str
    """`namespace/name` of the pod, or of the group for an `all` unit."""
    pods: tuple[PodRecord, ...]
    rows: tuple[int, ...]
    priority: int
    in_group: bool
    """Whether it belongs to a pod group with an object: more important than a plain pod (preemption.md 5.2)."""
    group: Group | None
    """The group, or group of groups, if it is disrupted as a whole."""

    @property
    def start(self) -> float:
        """Return the earliest start of its pods in seconds; pods without one count as started now, after all others."""
        if len(self.pods) == 1:
            start = self.pods[0].start
            return _NOT_STARTED if start is None else start
        return min([_NOT_STARTED if pod.start is None else pod.start for pod in self.pods])

    @property
    def standing(self) -> tuple[int, int, int]:
        """Return the first parts of `importance`: equal for units that differ only in the start."""
        return (-self.priority, -_kind_of(self), -len(self.pods))

    @property
    def importance(self) -> tuple[int, int, int, float, str]:
        """Return the sort key, most important first (preemption.md 5, composite.md 4.5)."""
        # not from `standing`: it is called for every unit of every candidate
        return (-self.priority, -_kind_of(self), -len(self.pods), self.start, self.pods[0].uid)

    @property
    def groups(self) -> list[Group]:
        """Return the groups with a status that reports its eviction, the topmost first (composite.md 4.4)."""
        return disrupted_with(self.group) if self.group is not None else []


def _kind_of(unit: PreemptionUnit) -> int:
    """Return 3 for a tree, 2 for a group or a pod of one, 1 for a plain pod (preemption.md 5.2, composite.md 4.5)."""
    return 3 if isinstance(unit.group, CompositeState) else 2 if unit.in_group else 1


def effective_priority(cluster: ClusterState, pod: PodRecord) -> int:
    """Return a pod's priority as a potential victim: its group's as such (preemption.md 1, composite.md 4.3).

    Its own counts without a group, or if it is higher and its class is missing in its group (8.3).
    """
    group = cluster.groups.get(pod.group) if pod.group is not None else None
    if group is None or group.victim_priority is None:
        return pod.priority
    return _standing(group, pod, group.victim_priority)


def _standing(group: GroupState, pod: PodRecord, as_victim: int) -> int:
    """Return the higher of the group's priority and the member's, if only the member names a class."""
    spec = group.spec
    if spec is None or spec.names_class or spec.foreign is not None or not pod.names_class:
        return as_victim
    return max(as_victim, pod.priority)


def units_below(
    cluster: ClusterState, priority: int, pods: Iterable[PodRecord], as_one: Collection[str] = ()
) -> list[PreemptionUnit]:
    """Return the whole units below a priority that contain any of the scheduled pods, in no particular order.

    Pods that should have terminated long ago are no victims (cost.md 5.2). `as_one`: keys of further groups that are
    evicted as a whole.
    """
    units: list[PreemptionUnit] = []
    groups, overdue = cluster.groups, cluster.overdue
    whole: set[str] = set()
    for pod in pods:
        if pod.uid in overdue:
            continue
        group = groups.get(pod.group) if pod.group is not None else None
        as_victim = group.victim_priority if group is not None else None
        if group is None or as_victim is None:
            if pod.priority < priority:
                units.append(PreemptionUnit(pod.key, (pod,), (pod.row,), pod.priority, False, None))
        elif as_victim < priority:
            group_unit = group.unit if group.unit is not None else group if group.key in as_one else None
            if group_unit is None:
                standing = _standing(group, pod, as_victim)
                if standing < priority:
                    units.append(PreemptionUnit(pod.key, (pod,), (pod.row,), standing, True, None))
            elif group_unit.ref not in whole:
                whole.add(group_unit.ref)
                running = group.running() if group_unit is group else running_below(disrupted_with(group_unit))
                members = tuple(sorted((pod for pod in running if pod.uid not in overdue), key=_uid))
                rows = tuple(member.row for member in members)
                standing = max((effective_priority(cluster, member) for member in members), default=as_victim)
                if standing < priority:
                    units.append(PreemptionUnit(group_unit.key, members, rows, standing, True, group_unit))
    return units


def scheduled_pods(cluster: ClusterState) -> Iterable[PodRecord]:
    """Yield every bound or assumed pod."""
    for pod in cluster.nodes.pods:
        yield from pod.values()


def _uid(pod: PodRecord) -> str:
    return pod.uid
