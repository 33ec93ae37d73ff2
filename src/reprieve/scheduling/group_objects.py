"""Group objects as the engine is to know them: the API's own, and those that pods or foreign objects stand for.

Groups of other APIs than `scheduling.k8s.io` may name no priority class and then have the highest priority of their
pods (workloads.md 2.6); groups of a sized source have no object, their pods stand for it (2.4). What changes by an
object or a pod that comes or goes is given back as changes, for the engine to make.

Invariant: a key has at most one object at any time. Of several of one name that of the stronger API counts, and each of
them before one that pods stand for (workloads.md 1.4); those of a source that is off are not there.
"""

from typing import NamedTuple

from msgspec.structs import replace

from reprieve.api import objects
from reprieve.api.foreign_groups import FOREIGN_VERSIONS
from reprieve.api.group_sources import GroupSources, Membership
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.sized_groups import SizedGroups
from reprieve.cluster.state import ClusterState


class GroupChange(NamedTuple):
    """A PodGroup appeared or changed; with `group` None: the one of that key (`namespace/name`) is gone."""

    key: str
    group: objects.PodGroup | None
    created: float = 0.0


class _Inheriting(NamedTuple):
    """A group without a priority of its own, and the one it was given last."""

    group: objects.PodGroup
    created: float
    given: int | None


class GroupObjects:
    """See the module docstring. What is kept is bounded by the objects and pods that are there."""

    def __init__(self, cluster: ClusterState, sources: GroupSources) -> None:
        self._cluster = cluster
        self._sources = sources
        self._sized = SizedGroups()
        self._objects: dict[str, dict[int, tuple[objects.PodGroup, float]]] = {}
        """Those of the API with their time of creation, by key, then by the rank of their API: 0 is the strongest."""
        self._inheriting: dict[str, _Inheriting] = {}

    def set(self, group: objects.PodGroup, created: float) -> list[GroupChange]:
        """An object of the API appeared or changed."""
        if not self._sources.read(group):
            return []
        key = f"{group.metadata.namespace or 'default'}/{group.metadata.name}"
        there = self._objects.setdefault(key, {})
        there[_rank(group)] = (group, created)
        counts = there[min(there)]
        return [self._there(key, *counts)]

    def remove(self, key: str) -> list[GroupChange]:
        """An object of the API is gone; one that pods stand for takes its place."""
        if self._objects.pop(key, None) is None:
            return []
        self._inheriting.pop(key, None)
        made = self._sized.group(key)
        gone = GroupChange(key, None)
        return [gone] if made is None else [gone, self._there(key, made, self._oldest(key))]

    def joined(self, pod: PodRecord, membership: Membership) -> list[GroupChange]:
        """A pod of a group is there."""
        assert pod.group is not None
        key = pod.group
        if membership.size is not None and self._sized.joined(key, pod.uid, membership.size):
            made = self._sized.group(key)
            if made is not None and key not in self._objects:
                return [self._there(key, made, self._oldest(key))]
        held = self._inheriting.get(key)
        if held is not None and (held.given is None or pod.priority > held.given):
            return [self._there(key, held.group, held.created)]
        return []

    def left(self, pod: PodRecord) -> list[GroupChange]:
        """A pod is gone, and not among the members any more."""
        key = pod.group
        if key is None or not self._sized.left(key, pod.uid) or key in self._objects:
            return []
        made = self._sized.group(key)
        if made is not None:
            return [self._there(key, made, self._oldest(key))]
        self._inheriting.pop(key, None)
        return [GroupChange(key, None)]

    def _there(self, key: str, group: objects.PodGroup, created: float) -> GroupChange:
        if group.foreign is None or group.spec.priority is not None:
            self._inheriting.pop(key, None)
            return GroupChange(key, group, created)
        state = self._cluster.groups.get(key)
        given = max((pod.priority for pod in state.members.values()), default=None) if state is not None else None
        self._inheriting[key] = _Inheriting(group, created, given)
        return GroupChange(key, replace(group, spec=replace(group.spec, priority=given)), created)

    def _oldest(self, key: str) -> float:
        """When the first pod of a group that has no object was made."""
        state = self._cluster.groups.get(key)
        return min((pod.created for pod in state.members.values()), default=0.0) if state is not None else 0.0


def _rank(group: objects.PodGroup) -> int:
    foreign = group.foreign
    return 0 if foreign is None else 1 + FOREIGN_VERSIONS.index(foreign.api_version)
