"""Group objects for the engine: those of the API, and those that are derived from pods or foreign objects.

Groups of other APIs than `scheduling.k8s.io` may name no priority class and then have the highest priority of their
pods (workloads.md 2.6); groups of a sized source have no object and are derived from their pods (2.4). Additions and
removals of objects and pods return changes for the engine to apply. A PodGroup of Volcano may represent a tree of
groups, and its pods then belong to the leaves (2.7, 2.8).

Invariant: a key has at most one object at any time. Of several with one name the one of the stronger API counts, and
any of them before one derived from pods (workloads.md 1.4); those of a source that is off are not there.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from msgspec.structs import replace

from kube_rules import objects
from kube_rules.foreign_groups import FOREIGN_VERSIONS
from kube_rules.group_owners import ANY, GroupOwner, OwnerOf, owner_of
from kube_rules.group_sources import OWNERS, TASK_ANNOTATION, VOLCANO, GroupSources, Membership
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.sized_groups import SizedGroups
from reprieve.cluster.state import ClusterState
from reprieve.scheduling.foreign_trees import ForeignTree, Tree, tree_of

_APART: Final = 1e-6
"""Seconds between the groups of one tree, so that they are tried in their order (composite.md 2)."""

Group = objects.PodGroup | objects.CompositePodGroup


class GroupChange(NamedTuple):
    """A group that appeared or changed; with `group` None, the group of that key (`namespace/name`) is deleted."""

    key: str
    group: Group | None
    created: float = 0.0
    composite: bool = False
    foreign: str | None = None
    """For a composite of a foreign PodGroup: the apiVersion of that PodGroup."""


class Move(NamedTuple):
    """A pod that belongs to another group now (`namespace/name`), or to none."""

    pod: PodRecord
    group: str | None


Changes = list[GroupChange | Move]


class _Counts(NamedTuple):
    """The object that counts for a key, and the derived priority if the object has none."""

    group: objects.PodGroup
    created: float
    derived_priority: int | None
    tree: ForeignTree | None


_OwnerKey = tuple[str, str, str]
"""Kind, namespace and name of a controller."""


class GroupObjects:
    """See the module docstring. Tables are bounded by the existing objects and pods.

    Without `trees` (gate CompositePodGroup) a PodGroup of Volcano is flat, whatever its tasks.
    """

    def __init__(self, cluster: ClusterState, sources: GroupSources, *, trees: bool) -> None:
        self._cluster = cluster
        self._sources = sources
        self._trees = trees
        self._sized_groups = SizedGroups()
        self._objects: dict[str, dict[int, tuple[objects.PodGroup, float]]] = {}
        """Groups of the API with their time of creation, by key, then by the rank of their API: 0 is the strongest."""
        self._counts: dict[str, _Counts] = {}
        """Foreign groups, and those derived from pods, by key."""
        self._tree_groups: dict[str, dict[tuple[bool, str], Group]] = {}
        """The groups of the trees: by key of the foreign group, then by whether it is a composite, and its own key."""
        self._tasks: dict[str, dict[str, tuple[PodRecord, str]]] = {}
        """Pods of Volcano's groups with their tasks, by key of the group, then by UID."""
        self._named_groups: dict[str, str] = {}
        """The key of the group that such a pod names, by UID: it may be in a leaf, or a single pod."""
        self.owner_kinds: frozenset[str] = frozenset()
        """Kinds of controllers that are reported here; pods of others are single pods."""
        self._owners: dict[_OwnerKey, Mapping[str, int]] = {}
        """Sizes of the gangs of each controller; empty for one without gangs."""
        self._owned_pods: dict[_OwnerKey, dict[str, tuple[PodRecord, OwnerOf]]] = {}
        """Pods by their controller, then by UID."""
        self._owner_of: dict[str, _OwnerKey] = {}

    def set(self, group: objects.PodGroup, created: float) -> Changes:
        """Add or change an object of the API."""
        if not self._sources.read(group):
            return []
        key = f"{group.metadata.namespace or 'default'}/{group.metadata.name}"
        by_rank = self._objects.setdefault(key, {})
        by_rank[_rank(group)] = (group, created)
        counts = by_rank[min(by_rank)]
        return self._set_object(key, *counts)

    def remove(self, key: str) -> Changes:
        """Remove an object of the API; one derived from pods may replace it."""
        if self._objects.pop(key, None) is None:
            return []
        changes = self._remove_object(key)
        sized = self._sized_groups.group(key)
        return changes if sized is None else [*changes, *self._set_object(key, sized)]

    def key_of(self, pod: objects.Pod, membership: Membership) -> str:
        """Return the key of the group of a new pod; empty if the pod is scheduled as a single pod."""
        namespace = pod.metadata.namespace or "default"
        owner = owner_of(pod.metadata) if membership.source.name == OWNERS else None
        if owner is not None:
            return self._owned_key(namespace, owner)
        counts = self._counts.get(f"{namespace}/{membership.name}")
        if counts is None or counts.tree is None or membership.source.name != VOLCANO:
            return f"{namespace}/{membership.name}"
        leaf = counts.tree.leaf_of(_task(pod), pod.metadata.labels)
        return f"{namespace}/{leaf}" if leaf is not None else ""

    def add_pod(self, pod: PodRecord, manifest: objects.Pod, membership: Membership) -> Changes:
        """Add a pod that names a group."""
        owner = owner_of(manifest.metadata) if membership.source.name == OWNERS else None
        if owner is not None:
            return self._joined_owner(pod, owner)
        key = f"{pod.namespace}/{membership.name}"
        if membership.source.name == VOLCANO:
            self._tasks.setdefault(key, {})[pod.uid] = (pod, _task(manifest))
            self._named_groups[pod.uid] = key
        if membership.size is not None and self._sized_groups.joined(key, pod.uid, membership.size):
            sized = self._sized_groups.group(key)
            if sized is not None and key not in self._objects:
                return self._set_object(key, sized)
        counts = self._counts.get(key)
        if counts is None:
            return []
        raised = counts.group.spec.priority is None and (
            counts.derived_priority is None or pod.priority > counts.derived_priority
        )
        if counts.tree is None or pod.group is None or (False, pod.group) in self._tree_groups[key]:
            return self._set_object(key, counts.group, counts.created) if raised else []
        added = None if raised else counts.tree.subgroup(_name(pod.group), counts.derived_priority)
        if added is None:
            return self._set_object(key, counts.group, counts.created)
        place, leaf = added
        self._tree_groups[key][False, pod.group] = leaf
        return [self._change(key, pod.group, place, leaf, counts.created)]

    def remove_pod(self, pod: PodRecord) -> Changes:
        """Remove a deleted pod that is no longer a member."""
        owner = self._owner_of.pop(pod.uid, None)
        if owner is not None:
            del self._owned_pods[owner][pod.uid]
            if not self._owned_pods[owner]:
                del self._owned_pods[owner]
        named = self._named_groups.pop(pod.uid, None)
        key = named or pod.group
        if key is None:
            return []
        counts = self._counts.get(key)
        if named is not None:
            del self._tasks[named][pod.uid]
            if not self._tasks[named]:
                del self._tasks[named]
        elif self._sized_groups.left(key, pod.uid) and key not in self._objects:
            sized = self._sized_groups.group(key)
            return self._remove_object(key) if sized is None else self._set_object(key, sized)
        if counts is None:
            return []
        if self._was_dearest(pod, key, counts):
            return self._set_object(key, counts.group, counts.created)
        if named is None or counts.tree is None or pod.group is None or not self._has_lost_leaf(pod.group):
            return []
        if counts.tree.subgroup(_name(pod.group), counts.derived_priority) is None:
            return self._set_object(key, counts.group, counts.created)
        self._tree_groups[key].pop((False, pod.group), None)
        return [GroupChange(pod.group, None)]

    def _has_lost_leaf(self, key: str) -> bool:
        """Return whether the deleted pod was the last of its leaf, which changes the tree."""
        leaf = self._cluster.groups.get(key)
        return leaf is None or not leaf.members

    def _was_dearest(self, pod: PodRecord, key: str, counts: _Counts) -> bool:
        """Return whether only the deleted pod gave the group its priority (workloads.md 2.6)."""
        if (
            counts.group.spec.priority is not None
            or counts.derived_priority is None
            or pod.priority < counts.derived_priority
        ):
            return False
        state = self._cluster.groups.get(key)
        rest = chain((p for p, _ in self._tasks.get(key, {}).values()), state.members.values() if state else ())
        return not any(p.priority >= pod.priority for p in rest)

    # -- controllers -------------------------------------------------------------------------------

    def set_owner(self, owner: GroupOwner) -> Changes:
        """Add or change a controller: its pods become gangs, or are no longer (workloads.md 2.10)."""
        key = (owner.KIND, owner.metadata.namespace or "default", owner.metadata.name)
        sizes = dict(owner.sizes()) if owner.asks else {}
        if self._owners.get(key) == sizes:
            return []
        self._owners[key] = sizes
        return self._recount_owned(key)

    def remove_owner(self, kind: str, namespace: str, name: str) -> None:
        """Remove a controller; its pods, which will be deleted, keep their groups."""
        self._owners.pop((kind, namespace, name), None)

    def watch_owners(self, kinds: frozenset[str]) -> Changes:
        """Set the kinds of controllers that are reported from now on."""
        before, self.owner_kinds = self.owner_kinds, kinds
        concerned = [key for key in self._owned_pods if (key[0] in before) != (key[0] in kinds)]
        for key in [key for key in self._owners if key[0] not in kinds]:
            del self._owners[key]
        return [change for key in concerned for change in self._recount_owned(key)]

    def _owned_key(self, namespace: str, owner: OwnerOf) -> str:
        """Return the key of a pod's gang; empty for a single pod. A pod with an unknown controller waits for it."""
        if owner.kind not in self.owner_kinds:
            return ""
        sizes = self._owners.get((owner.kind, namespace, owner.name))
        return f"{namespace}/{owner.group}" if sizes is None or _size(sizes, owner) else ""

    def _joined_owner(self, pod: PodRecord, owner: OwnerOf) -> Changes:
        key = (owner.kind, pod.namespace, owner.name)
        self._owned_pods.setdefault(key, {})[pod.uid] = (pod, owner)
        self._owner_of[pod.uid] = key
        return self._count_owned(pod, owner)

    def _recount_owned(self, key: _OwnerKey) -> Changes:
        changes: Changes = []
        for pod, owner in self._owned_pods.get(key, {}).values():
            wanted = self._owned_key(pod.namespace, owner) or None
            before = pod.group
            if wanted != before:
                if before is not None and self._sized_groups.left(before, pod.uid):
                    sized = self._sized_groups.group(before)
                    changes += self._set_object(before, sized) if sized is not None else self._remove_object(before)
                changes.append(Move(pod, wanted))
            if wanted is not None:
                changes += self._count_owned(pod, owner, wanted)
        return changes

    def _count_owned(self, pod: PodRecord, owner: OwnerOf, key: str | None = None) -> Changes:
        key = key or pod.group
        size = _size(self._owners.get((owner.kind, pod.namespace, owner.name), {}), owner)
        if key is None or not size:
            return []
        counts = self._counts.get(key)
        if (
            not self._sized_groups.joined(key, pod.uid, size)
            and counts is not None
            and (counts.derived_priority or 0) >= pod.priority
        ):
            return []
        sized = self._sized_groups.group(key)
        return self._set_object(key, sized) if sized is not None and key not in self._objects else []

    def members(self, key: str) -> Sequence[PodRecord]:
        """Return the pods that name the group, in any leaf."""
        return self._pods(key)

    # -- internals ---------------------------------------------------------------------------------

    def _set_object(self, key: str, group: objects.PodGroup, created: float = 0.0) -> Changes:
        """Set the object of a key.

        `created` orders the groups of a tree (composite.md 2.3); groups derived from pods have none.
        """
        if group.foreign is None:
            return [*self._remove_object(key, stays=True), GroupChange(key, group, created)]
        priority = group.spec.priority
        if priority is None:
            priority = max((pod.priority for pod in self._pods(key)), default=None)
        tree = tree_of(group) if self._trees else None
        self._counts[key] = _Counts(group, created, priority, tree)
        if tree is None:
            flat = replace(group, spec=replace(group.spec, priority=priority))
            changes: Changes = [*self._remake(key, [], created), GroupChange(key, flat, created)]
            return [*changes, *self._moves(key)]
        moves = self._moves(key)
        leaves = {pod.group for pod in self._pods(key) if pod.group is not None}
        leaves |= {move.group for move in moves if move.group is not None}
        names = sorted(map(_name, leaves))
        tree_changes = self._remake(key, tree.groups(names, priority), created)
        return [*tree_changes, *moves, GroupChange(key, None)]

    def _remove_object(self, key: str, *, stays: bool = False) -> Changes:
        """Remove the object of the key; with `stays` an object of the same key replaces it."""
        self._counts.pop(key, None)
        changes = self._remake(key, [], 0.0)
        return [*changes, *([] if stays else [GroupChange(key, None)]), *self._moves(key)]

    def _remake(self, key: str, tree: Tree, created: float) -> Changes:
        """Update the groups of the tree: parents are added first and removed last."""
        namespace = key.partition("/")[0]
        before = self._tree_groups.pop(key, {})
        now: dict[tuple[bool, str], Group] = {}
        changes: Changes = []
        for place, group in tree:
            name = f"{namespace}/{group.metadata.name}"
            composite = isinstance(group, objects.CompositePodGroup)
            now[composite, name] = group
            if before.get((composite, name)) != group:
                changes.append(self._change(key, name, place, group, created))
        if now:
            self._tree_groups[key] = now
        removals = [
            GroupChange(name, None, composite=composite) for composite, name in before if (composite, name) not in now
        ]
        return [*changes, *reversed(removals)]

    def _change(self, key: str, name: str, place: int, group: Group, created: float) -> GroupChange:
        """Return the change for a new or changed group in the tree of the foreign group of that key."""
        counts = self._counts.get(key)
        foreign = counts.group.foreign.api_version if counts is not None and counts.group.foreign is not None else None
        composite = isinstance(group, objects.CompositePodGroup)
        return GroupChange(name, group, created + place * _APART, composite, foreign)

    def _moves(self, key: str) -> list[Move]:
        """Return pods of Volcano's groups that changed their leaf."""
        counts = self._counts.get(key)
        tree = counts.tree if counts is not None else None
        moves = []
        for pod, task in self._tasks.get(key, {}).values():
            leaf = tree.leaf_of(task, pod.labels) if tree is not None else _name(key)
            wanted = f"{pod.namespace}/{leaf}" if leaf is not None else None
            if wanted != pod.group:
                moves.append(Move(pod, wanted))
        return moves

    def _pods(self, key: str) -> Sequence[PodRecord]:
        state = self._cluster.groups.get(key)
        tasks = self._tasks.get(key, {})
        untasked = [pod for pod in state.members.values() if pod.uid not in tasks] if state is not None else []
        return [*(pod for pod, _ in tasks.values()), *untasked]


def _size(sizes: Mapping[str, int], owner: OwnerOf) -> int:
    return sizes.get(owner.part, 0) or sizes.get(ANY, 0)


def _rank(group: objects.PodGroup) -> int:
    foreign = group.foreign
    return 0 if foreign is None else 1 + FOREIGN_VERSIONS.index(foreign.api_version)


def _name(key: str) -> str:
    """Return the namespace and name of a key `namespace/name`."""
    return key.partition("/")[2]


def _task(pod: objects.Pod) -> str:
    return pod.metadata.annotations.get(TASK_ANNOTATION, "") if pod.metadata.annotations else ""
