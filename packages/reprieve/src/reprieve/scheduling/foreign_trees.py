"""Volcano's PodGroups with pods that have roles or form subgroups, as trees of groups (workloads.md 2.7 and 2.8).

`minTaskMember`: the root needs a leaf for every task, each leaf its minimum; they count only if their sum is not above
`minMember`, as in Volcano. If `minMember` is larger, the rest is the minimum of a leaf for pods of no such task, which
exists as long as one of these pods does. `subGroupPolicy`: pods that match a policy are divided by the values of some
labels; each such subgroup is a leaf, and the root needs the number of them that the policy states.

Invariant: names below the group have a colon, which no object of an API can have.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kube_rules import objects
from kube_rules.foreign_groups import ForeignGroup, below
from kube_rules.selectors import Selector, compile_label_selector

_REST: Final = "rest"
_NO_TASKS: Final[Mapping[str, int]] = {}
Tree = list[tuple[int, objects.CompositePodGroup | objects.PodGroup]]
"""Groups with the position of each among its siblings, ties by name; parents before children."""
Subgroup = tuple[int, objects.PodGroup]


@dataclass(frozen=True, slots=True)
class _Policy:
    """A sub-group policy that states the size of its subgroups and how many are needed; others are ignored."""

    name: str
    keys: tuple[str, ...]
    """Labels with values that divide pods into subgroups."""
    size: int
    least: int
    matcher: Selector | None
    """The role of the pods to which it applies; None: all."""


def _policies(foreign: ForeignGroup) -> list[_Policy]:
    return [
        _Policy(
            item.name,
            item.match_label_keys,
            item.sub_group_size,
            item.min_sub_groups,
            compile_label_selector(item.label_selector) if item.label_selector is not None else None,
        )
        for item in foreign.sub_group_policy
        if item.sub_group_size and item.min_sub_groups
    ]


class ForeignTree:
    """The tree of one PodGroup, by its policies or by its tasks; created by `tree_of`.

    `rest`: the number of required pods beyond the minima of `tasks`.
    """

    def __init__(
        self,
        group: objects.PodGroup,
        policies: Sequence[_Policy] = (),
        tasks: Mapping[str, int] = _NO_TASKS,
        rest: int = 0,
    ) -> None:
        self._group = group
        self._name = group.metadata.name
        self._policies = policies
        self._tasks = tasks
        self._rest = rest

    def leaf_of(self, task: str, labels: Mapping[str, str]) -> str | None:
        """Return the name of a pod's leaf; None for a single pod, which does not count for the minimum."""
        for policy in self._policies:
            if policy.matcher is None or policy.matcher.matches(labels):
                values = [labels.get(key, "") for key in policy.keys]
                return below(self._name, policy.name, *values)
        if self._policies:
            return None
        if self._tasks.get(task):
            return below(self._name, task)
        return below(self._name, _REST, "") if self._rest > 0 else None

    def groups(self, leaves: Sequence[str], priority: int | None) -> Tree:
        """Return the tree while pods are in these leaves: the root first, then the groups below it, in order."""
        root = below(self._name)
        if not self._policies:
            result = [(below(self._name, task), least) for task, least in self._tasks.items() if least]
            rest = below(self._name, _REST, "")
            if rest in leaves:
                result.append((rest, self._rest))
            return [
                (0, self._composite(root, len(result), "", priority)),
                *((place, self._leaf(name, least, root, priority)) for place, (name, least) in enumerate(result, 1)),
            ]
        tree: Tree = []
        if len(self._policies) > 1:
            tree.append((0, self._composite(root, len(self._policies), "", priority)))
        for place, policy in enumerate(self._policies):
            parent = self._parent(policy)
            above = "" if parent == root else root
            tree.append((place, self._composite(parent, policy.least, above, priority)))
            tree += (self._subgroup(place, policy, name, priority) for name in leaves if self._is_of(name, policy))
        return tree

    def subgroup(self, leaf: str, priority: int | None) -> Subgroup | None:
        """Return a leaf that exists only while it has pods, without an effect on the rest of the tree."""
        for place, policy in enumerate(self._policies):
            if self._is_of(leaf, policy):
                return self._subgroup(place, policy, leaf, priority)
        return None

    def _parent(self, policy: _Policy) -> str:
        return below(self._name) if len(self._policies) == 1 else below(self._name, policy.name, "")

    def _subgroup(self, place: int, policy: _Policy, leaf: str, priority: int | None) -> Subgroup:
        return place, self._leaf(leaf, policy.size, self._parent(policy), priority)

    def _is_of(self, leaf: str, policy: _Policy) -> bool:
        start = below(self._name, policy.name)
        return leaf == start or leaf.startswith(f"{start}:")

    def _meta(self, name: str) -> objects.ObjectMeta:
        meta = self._group.metadata
        return objects.ObjectMeta(
            namespace=meta.namespace or "default",
            name=name,
            uid=meta.uid if name == below(self._name) else "",
            annotations=meta.annotations,
        )

    def _composite(self, name: str, least: int, parent: str, priority: int | None) -> objects.CompositePodGroup:
        gang = objects.CompositeGangSchedulingPolicy(min_group_count=least)
        spec = objects.CompositePodGroupSpec(
            parent_composite_pod_group_name=parent,
            scheduling_policy=objects.CompositePodGroupSchedulingPolicy(gang=gang),
            priority_class_name=self._group.spec.priority_class_name,
            priority=priority,
        )
        return objects.CompositePodGroup(metadata=self._meta(name), spec=spec)

    def _leaf(self, name: str, least: int, parent: str, priority: int | None) -> objects.PodGroup:
        gang = objects.GangSchedulingPolicy(min_count=least)
        spec = objects.PodGroupSpec(
            parent_composite_pod_group_name=parent,
            scheduling_policy=objects.PodGroupSchedulingPolicy(gang=gang),
            priority_class_name=self._group.spec.priority_class_name,
            priority=priority,
            preemption_policy=objects.NO_POLICY_FIELD,
        )
        return objects.PodGroup(metadata=self._meta(name), spec=spec, foreign=self._group.foreign)


def tree_of(group: objects.PodGroup) -> ForeignTree | None:
    """Return the tree of a PodGroup; None if the group is flat."""
    foreign = group.foreign
    if foreign is None:
        return None
    policies = _policies(foreign)
    if policies:
        return ForeignTree(group, policies)
    required = sum(foreign.min_task_member.values())
    if not 0 < required <= foreign.min_member:
        return None
    return ForeignTree(group, tasks=foreign.min_task_member, rest=foreign.min_member - required)
