"""Trees of groups: parents, children, and the position of every group (composite.md 2, 4).

A group names its parent, which may not exist yet, or be part of a cycle. After each change the affected groups
recompute their root, or the reason why they have none, and the groups with which they are disrupted. A chain that does
not reach a root ends at its last existing group.

Invariant: refreshing a group and all groups below it makes `root`, `fault`, `top` and `unit` correct; every walk ends.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from kube_rules.grants import bounded_priority
from kube_rules.groups import MAX_DEPTH
from kube_rules.work_annotations import NO_CLASS_TERMS, ClassTerms
from reprieve.cluster.groups import CompositeState, Fault, Group, GroupState, is_ready, turn_of

_LONGEST_CHAIN: Final = 64
"""The maximum length of an unschedulable chain that is followed to find the groups disrupted together."""


def waiting_for_object(name: str) -> str:
    """Return the message for a group without an object (observability.md)."""
    return f'waiting for pods\'s pod group "{name}" to appear in scheduling queue'


class GroupTrees:
    """See the module docstring. It owns the composites; `ClusterState` owns the pod groups."""

    def __init__(self, groups: Mapping[str, GroupState], classes: Mapping[str, ClassTerms]) -> None:
        """Create empty trees. `classes`: the terms of PriorityClasses by name, from `ClusterState`."""
        self.composites: dict[str, CompositeState] = {}
        """By `namespace/name`; only those with an object."""
        self._groups = groups
        self._classes = classes
        self._children: dict[str, dict[str, Group]] = {}
        """Groups by the key of their parent, whether or not it exists."""
        self._parent_of: dict[str, str] = {}
        """Parent keys by the `ref` of the child."""
        self._moved: list[tuple[GroupState, str]] = []
        self.settled = 0
        """The number of computed group positions."""

    def __bool__(self) -> bool:
        return bool(self.composites or self._children)

    def find(self, ref: str) -> Group | None:
        """Return the group of `group/<namespace>/<name>` or `composite/<namespace>/<name>`."""
        kind, _, key = ref.partition("/")
        return self.composites.get(key) if kind == "composite" else self._groups.get(key) if kind == "group" else None

    def has_children(self, key: str) -> bool:
        """Return whether a group names the composite of that key as its parent."""
        return key in self._children

    def take_moved(self) -> list[tuple[GroupState, str]]:
        """Return the pod groups with a new queued entity or fault of their pods, and the previous entity."""
        moved, self._moved = self._moved, []
        return moved

    def place(self, group: Group) -> list[GroupState]:
        """Update the trees after a change of the group's object; return the pod groups that may have moved."""
        parent = group.spec.parent if group.spec is not None else None
        before = self._parent_of.get(group.ref)
        old = group.root
        if isinstance(group, GroupState):
            if group.ready and before is not None and isinstance(old, CompositeState) and old.counted:
                self._count_child(before, old, ready=False)
            group.ready = False
        if before is not None and before != parent:
            siblings = self._children[before]
            del siblings[group.ref]
            if not siblings:
                del self._children[before]
            del self._parent_of[group.ref]
            self._reorder(before)
        if parent is not None:
            self._children.setdefault(parent, {})[group.ref] = group
            self._parent_of[group.ref] = parent
            self._reorder(parent)
        if isinstance(group, CompositeState):
            if group.spec is None:
                self.composites.pop(group.key, None)
            else:
                self.composites[group.key] = group
                self._reorder(group.key)
        moved = self._refresh(group)
        if isinstance(group, GroupState):
            self.pods_changed(group)
            return moved
        for root in (old, group.root):
            if isinstance(root, CompositeState):
                root.counted = False
        return moved

    def _reorder(self, key: str) -> None:
        composite = self.composites.get(key)
        if composite is not None:
            composite.by_ref = self._children.get(key, {})
            composite.reorder()

    # -- readiness -------------------------------------------------------------------------------------------------

    def is_ready(self, root: Group) -> bool:
        """Return whether the tree reaches its minimums with its known pods (composite.md 2.4)."""
        if isinstance(root, GroupState):
            return root.existing >= max(1, root.min_count)
        if not root.counted:
            _count(root)
            root.counted = True
        return root.ready

    def pods_changed(self, group: GroupState) -> None:
        """Update the readiness of a pod group, and of its parents, after a change of its pods."""
        root = group.root
        if root is group or not isinstance(root, CompositeState) or not root.counted:
            return
        ready = group.existing >= max(1, group.min_count)
        if ready == group.ready:
            return
        group.ready = ready
        assert group.spec is not None
        assert group.spec.parent is not None
        self._count_child(group.spec.parent, root, ready=ready)

    def _count_child(self, parent: str, root: CompositeState, *, ready: bool) -> None:
        """Count a child that became ready, or is no longer ready, in the composite of that key and above."""
        while True:
            above = self.composites[parent]
            before = above.ready
            above.ready_children += 1 if ready else -1
            if above is root or above.ready == before:
                return
            assert above.spec is not None
            assert above.spec.parent is not None
            parent = above.spec.parent

    def _refresh(self, group: Group) -> list[GroupState]:
        """Recompute the position of the group and all groups below it; return the pod groups."""
        leaves: list[GroupState] = []
        waiting = [group]
        while waiting:
            group_below = waiting.pop()
            before, fault = group_below.home, group_below.fault
            self._settle(group_below)
            if isinstance(group_below, GroupState):
                leaves.append(group_below)
                if group_below.home != before or group_below.fault != fault:
                    self._moved.append((group_below, before))
                continue
            # Each group has one parent, so a cycle can only return to the first group.
            waiting.extend(child for child in self._children.get(group_below.key, {}).values() if child is not group)
        return leaves

    def _settle(self, group: Group) -> None:
        chain, fault = self._chain(group)
        group.top = chain[-1]
        group.unit = next((item for item in reversed(chain) if item.spec is not None and item.spec.disrupt_all), None)
        above = chain if group.unit is None else chain[_index(chain, group.unit) :]
        if group.unit is not None and fault is not None:  # all groups of a unit have one priority, even in a cycle
            above = self._chain(group.unit)[0]
            group.top = above[-1]
        group.victim_priority = self._victim_priority(above)
        group.fault = fault
        group.root = chain[-1] if fault is None else None
        group.home = group.root.ref if group.root is not None else group.ref
        self.settled += 1

    def _victim_priority(self, above: list[Group]) -> int | None:
        """Return the victim priority of the unit of the first group; its ancestors follow.

        It is that of the topmost group, or a higher one if the nearest group that names a victim class names a higher
        one (composite.md 4.3) and its own class grants it (cost.md 7). None if no group exists.
        """
        top = above[-1].spec
        if top is None:
            return None
        for group in above:
            spec = group.spec
            if spec is not None and spec.names_victim_class:
                grant = self._classes.get(spec.class_name, NO_CLASS_TERMS).grant_in(group.namespace)
                return max(top.priority, bounded_priority(spec.victim_priority, spec.priority, grant))
        return top.priority

    def grant_changed(self, class_name: str) -> list[GroupState]:
        """Recompute the victim priorities of the groups of a class with a new grant; return the affected groups."""
        result: list[GroupState] = []
        every: list[Group] = [*self._groups.values(), *self.composites.values()]
        for group in every:
            spec = group.spec
            if spec is not None and spec.names_victim_class and spec.class_name == class_name:
                result += self._refresh(group)
        return result

    def _chain(self, group: Group) -> tuple[list[Group], Fault | None]:
        """Return the group and its existing ancestors, and the fault of the chain."""
        chain: list[Group] = [group]
        refs = {group.ref}
        while (spec := chain[-1].spec) is not None and spec.parent is not None:
            above = self.composites.get(spec.parent)
            if above is None:
                name = spec.parent.partition("/")[2]
                return chain, Fault(waiting_for_object(name), name)
            if above.ref in refs:
                around = " -> ".join(item.name for item in chain[_index(chain, above) :])
                return chain, Fault(f"composite pod groups form a cycle: {around} -> {above.name}")
            if len(chain) == _LONGEST_CHAIN:
                break
            chain.append(above)
            refs.add(above.ref)
        # A composite at the lowest level could only have children that are too deep.
        if len(chain) + isinstance(group, CompositeState) > MAX_DEPTH:
            names = " -> ".join(item.name for item in reversed(chain[-MAX_DEPTH - 1 :]))
            return chain, Fault(f"maximum depth of composite pod groups is {MAX_DEPTH}: {names}")
        return chain, None

    def check(self, groups: Iterable[GroupState]) -> None:
        """Compare the stored positions with recomputed ones. Raises AssertionError on a difference."""
        every: list[Group] = [*groups, *self.composites.values()]
        for group in every:
            stored = (group.root, group.fault, group.top, group.unit, group.victim_priority)
            self._settle(group)
            now = (group.root, group.fault, group.top, group.unit, group.victim_priority)
            assert stored == now, f"the tree position of {group} is stale"
        for key, composite in self.composites.items():
            assert composite.children == tuple(sorted(self._children.get(key, {}).values(), key=turn_of)), composite
            if composite.counted and composite.root is composite:
                for item in composite.below():
                    assert item.ready == is_ready(item, lambda leaf: leaf.existing), f"{item} is miscounted"


def _count(group: Group) -> bool:
    """Count the readiness of every group below; return whether the group is ready."""
    if isinstance(group, GroupState):
        group.ready = group.existing >= max(1, group.min_count)
        return group.ready
    group.ready_children = sum(1 for child in group.children if child.fault is None and _count(child))
    return group.ready


def _index(chain: list[Group], group: Group) -> int:
    return next(index for index, item in enumerate(chain) if item is group)
