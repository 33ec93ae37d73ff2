"""Pod groups and composite groups: specs, member pods, and positions in trees.

A group state exists as soon as a pod names the group, with or without the object (api.md: the reference "may name a
group that does not exist yet"). A composite state exists while its object does.

A group without a parent is a tree of one level: it is its own root and its own top, and its own unit if it is disrupted
as a whole. `reprieve.cluster.trees` maintains `root`, `fault`, `top` and `unit` of every group.

Invariant: `existing` counts the members that are not terminating, `scheduled` those of them with a row. A terminating
member does not count towards a minimum (scheduling.md 7: no gang is partly bound below minCount).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, cast

from kube_rules import objects
from kube_rules.grants import preemption_priority
from kube_rules.topology_terms import NO_TOPOLOGY_TERMS, TopologyTerms, topology_terms
from kube_rules.work_annotations import NO_WORK_TERMS, WorkTerms, restarts_when_degraded, work_terms
from reprieve.cluster.pods import Owner, PodRecord


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """The part of a group's spec that scheduling reads (api.md, composite.md 1).

    `min_count` is None for the `basic` policy; for a composite it counts child groups.

    An unset priority counts as 0 (preemption.md 1), but conflicts with no pod.
    """

    min_count: int | None
    disrupt_all: bool
    priority: int
    preemption_policy: str | None
    topology_key: str | None = None
    has_priority: bool = True
    class_name: str = ""
    """The name of its priority class."""
    victim_priority: int = 0
    """The requested priority of the group as a potential victim, granted or not; at least `priority`."""
    names_victim_class: bool = False
    """Its annotation names the victim priority class (preemption.md 4, "Options"); otherwise a parent's may apply."""
    claims: frozenset[tuple[str, str | None, str | None]] = frozenset()
    """Device claims that its pods share (KEP-5729): name, claim and template. An equal entry of a pod refers to it."""
    parent: str | None = None
    """`namespace/name` of its parent CompositePodGroup."""
    workload: str = ""
    """The Workload from which it was created."""
    foreign: str | None = None
    """The apiVersion of a group outside scheduling.k8s.io, empty without an object (workloads.md 2)."""
    topology: TopologyTerms = NO_TOPOLOGY_TERMS
    """The topology terms of its annotations, in addition to the constraint (topology.md 1, 4)."""
    restarts: bool | None = None
    """Whether it is evicted as a whole if it stays below its minimum after scheduling; None: as its parent."""
    terms: WorkTerms = field(default=NO_WORK_TERMS, compare=False)
    """The annotations about the work of its pods; they change often and never affect units."""

    @property
    def names_class(self) -> bool:
        """Return whether the group names a priority class."""
        return bool(self.class_name)


class _GroupRecord:
    """The common fields of pod groups and composite groups."""

    __slots__ = (
        "created",
        "fault",
        "home",
        "key",
        "name",
        "namespace",
        "owner",
        "ref",
        "root",
        "spec",
        "top",
        "uid",
        "unit",
        "victim_priority",
    )

    ref_prefix: ClassVar[str]

    def __init__(self, key: str) -> None:
        self.key = key
        self.ref = f"{self.ref_prefix}/{key}"
        """Its key in the queue, distinct for a group and a composite of the same name."""
        self.home = self.ref
        """The `ref` of the entity in which its pods wait: its root's, or its own without a root."""
        self.namespace, _, self.name = key.partition("/")
        self.spec: GroupSpec | None = None
        """None while no object of that name exists."""
        self.uid = ""
        self.created = 0.0
        self.owner: Owner | None = None
        """The controller of the object."""
        self.root: Group | None = cast("Group", self)
        """The root of its tree; None while unknown, for the reason in `fault`."""
        self.fault: Fault | None = None
        self.top = cast("Group", self)
        """The highest existing group of its chain."""
        self.unit: Group | None = None
        """The highest group of its chain that is disrupted as a whole; None: its pods are evicted one by one."""
        self.victim_priority: int | None = None
        """The priority of its pods as potential victims (composite.md 4.3); None: each pod's own."""

    @property
    def min_count(self) -> int:
        """Return the gang's minimum, of pods or of child groups; 0 for `basic` and for a missing object."""
        return self.spec.min_count or 0 if self.spec is not None else 0

    @property
    def is_gang(self) -> bool:
        """Return whether the object exists and has the gang policy."""
        return self.spec is not None and self.spec.min_count is not None


class GroupState(_GroupRecord):
    """One pod group. `members`: all pods of the group that have not ended, by UID."""

    __slots__ = ("existing", "members", "ready", "scheduled")

    kind: ClassVar[str] = "PodGroup"

    ref_prefix: ClassVar[str] = "group"

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.members: dict[str, PodRecord] = {}
        self.scheduled = 0
        self.existing = 0
        """The number of members that count towards minCount: all that are not terminating."""
        self.ready = False
        """Readiness as last counted by its parent (`reprieve.cluster.trees`)."""

    def __repr__(self) -> str:
        return f"<podgroup {self.key} {self.spec} members={len(self.members)} scheduled={self.scheduled}>"

    @property
    def children(self) -> "Sequence[Group]":
        """Return the child groups: none."""
        return ()

    def leaves(self) -> "Iterator[GroupState]":
        """Yield the pod groups of its tree: itself."""
        yield self

    def below(self) -> "Iterator[Group]":
        """Yield all groups of its tree: itself."""
        yield self

    def pending(self) -> list[PodRecord]:
        """Return the members to schedule, without a row and not terminating, in no particular order."""
        return [pod for pod in self.members.values() if pod.row < 0 and not pod.terminating]

    def running(self) -> list[PodRecord]:
        """Return the scheduled members (bound or assumed), in no particular order."""
        return [pod for pod in self.members.values() if pod.row >= 0]


class CompositeState(_GroupRecord):
    """One CompositePodGroup with its children, in scheduling order (composite.md 2)."""

    __slots__ = ("_ordered", "by_ref", "counted", "ready_children")

    kind: ClassVar[str] = "CompositePodGroup"

    ref_prefix: ClassVar[str] = "composite"

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.by_ref: dict[str, Group] = {}
        """Its children by `ref`; only `reprieve.cluster.trees` changes them."""
        self._ordered: tuple[Group, ...] | None = ()
        self.ready_children = 0
        """The number of ready children; valid if the root of the tree is `counted`."""
        self.counted = False
        """For a root: whether `ready_children` is current in the whole tree."""

    def __repr__(self) -> str:
        return f"<compositepodgroup {self.key} {self.spec} children={len(self.children)}>"

    @property
    def children(self) -> "tuple[Group, ...]":
        """Return the children in scheduling order: by creation, ties by name (composite.md 2.3)."""
        if self._ordered is None:
            self._ordered = tuple(sorted(self.by_ref.values(), key=turn_of))
        return self._ordered

    def reorder(self) -> None:
        """Invalidate the order after children or their creation times changed."""
        self._ordered = None

    @property
    def ready(self) -> bool:
        """Return whether enough children are ready; valid if the root of the tree is `counted`."""
        return self.fault is None and self.ready_children >= max(1, self.min_count)

    def leaves(self) -> "Iterator[GroupState]":
        """Yield the pod groups of its tree in order, except those without a root."""
        for child in self.children:
            if child.fault is None:
                yield from child.leaves()

    def below(self) -> "Iterator[Group]":
        """Yield all groups of its tree, itself first, parents before children, except those without a root."""
        yield self
        for child in self.children:
            if child.fault is None:
                yield from child.below()

    def wrong_layout(self) -> str | None:
        """Return why its tree cannot be scheduled, or None: a pod group has too many levels above it."""
        waiting: list[Group] = [self]
        for group in waiting:
            if isinstance(group, CompositeState):
                waiting += group.children
            elif group.fault is not None:
                return group.fault.message
        return None

    @property
    def members(self) -> "Mapping[str, PodRecord]":
        """Return the pods of all its leaves, by UID."""
        return {uid: pod for leaf in self.leaves() for uid, pod in leaf.members.items()}

    @property
    def scheduled(self) -> int:
        """Return the number of pods of its leaves with a row that are not terminating."""
        return sum(leaf.scheduled for leaf in self.leaves())

    @property
    def existing(self) -> int:
        """Return the number of pods of its leaves that are not terminating."""
        return sum(leaf.existing for leaf in self.leaves())

    def pending(self) -> list[PodRecord]:
        """Return the pods to schedule, in no particular order."""
        return [pod for leaf in self.leaves() for pod in leaf.pending()]

    def running(self) -> list[PodRecord]:
        """Return the scheduled pods (bound or assumed), in no particular order."""
        return [pod for leaf in self.leaves() for pod in leaf.running()]


Group = GroupState | CompositeState
"""A group of any level of a tree."""


def turn_of(group: Group) -> tuple[float, str, str]:
    """Return the sort key of a child: creation, ties by name (composite.md 2.3)."""
    return (group.created, group.name, group.ref)


def is_ready(group: Group, member_count: Callable[[GroupState], int]) -> bool:
    """Return whether a tree reaches its minimums with `member_count` pods of each leaf (composite.md 2.4)."""
    if isinstance(group, GroupState):
        return member_count(group) >= max(1, group.min_count)
    ready = sum(1 for child in group.children if child.fault is None and is_ready(child, member_count))
    return ready >= max(1, group.min_count)


def fewest_pods(group: Group) -> int:
    """Return the minimum number of further pods to place for a tree to reach its minimums (composite.md 3.3)."""
    if isinstance(group, GroupState):
        return max(0, max(1, group.min_count) - group.scheduled)
    least = sorted(fewest_pods(child) for child in group.children if child.fault is None)
    return sum(least[: max(1, group.min_count)])


def all_below(group: Group, wanted: Callable[[Group], bool] = lambda _: True) -> list[Group]:
    """Return the group and the wanted groups below it, parents first, including those without a root.

    Groups below an unwanted group are skipped.
    """
    result: list[Group] = []
    waiting = [group]
    while waiting:
        below = waiting.pop()
        if below is not group and not wanted(below):
            continue
        result.append(below)
        # Each group has one parent, so a cycle can only return to the first group.
        waiting.extend(child for child in reversed(below.children) if child is not group)
    return result


def disrupted_with(unit: Group) -> list[Group]:
    """Return the groups that are disrupted together with that unit, and the composites between, itself first.

    The chain above the unit may be broken or part of a cycle (composite.md 4.3).
    """
    return all_below(unit, lambda group: group.unit is unit)


def running_below(groups: Iterable[Group]) -> list[PodRecord]:
    """Return the scheduled pods of the pod groups among `groups`, in no particular order."""
    return [pod for group in groups if isinstance(group, GroupState) for pod in group.running()]


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a group's root is unknown: an ancestor is `missing`, or the layout is invalid."""

    message: str
    missing: str = ""
    """The name of an ancestor that does not exist (yet); empty: waiting does not help."""


def composite_spec_of(group: objects.CompositePodGroup) -> GroupSpec:
    """Return the scheduling spec of a CompositePodGroup (v1alpha3)."""
    gang = group.spec.scheduling_policy.gang
    least = gang.min_group_count if gang is not None else None
    return _spec(group, least, group.spec.scheduling_constraints.topology)


def spec_of(group: objects.PodGroup, *, trees: bool = True) -> GroupSpec:
    """Return the scheduling spec of a PodGroup in its internal form (v1beta1); without `trees` it has no parent."""
    gang, constraints = group.spec.scheduling_policy.gang, group.spec.scheduling_constraints
    least = gang.min_count if gang is not None else None
    claims = frozenset(
        (resource_claim.name, resource_claim.resource_claim_name, resource_claim.resource_claim_template_name)
        for resource_claim in group.spec.resource_claims
    )
    foreign = group.foreign.api_version if group.foreign is not None else None
    topology = constraints.topology if constraints is not None else ()
    return _spec(group, least, topology, claims=claims, foreign=foreign, trees=trees)


def _spec(
    group: objects.PodGroup | objects.CompositePodGroup,
    min_count: int | None,
    topology: Sequence[objects.TopologyConstraint],
    *,
    claims: frozenset[tuple[str, str | None, str | None]] = frozenset(),
    foreign: str | None = None,
    trees: bool = True,
) -> GroupSpec:
    spec, metadata = group.spec, group.metadata
    named = preemption_priority(metadata.annotations)
    parent = spec.parent_composite_pod_group_name if trees else ""
    return GroupSpec(
        min_count=min_count,
        disrupt_all=spec.disruption_mode is not None and spec.disruption_mode.all is not None,
        priority=spec.priority or 0,
        preemption_policy=spec.preemption_policy or None,
        topology_key=topology[0].key if topology else None,
        has_priority=spec.priority is not None,
        class_name=spec.priority_class_name or "",
        victim_priority=max(spec.priority or 0, named) if named is not None else spec.priority or 0,
        names_victim_class=named is not None,
        claims=claims,
        parent=f"{metadata.namespace or 'default'}/{parent}" if parent else None,
        workload=spec.workload_ref.workload_name if spec.workload_ref is not None else "",
        foreign=foreign,
        topology=topology_terms(metadata.annotations),
        restarts=restarts_when_degraded(metadata.annotations),
        terms=work_terms(metadata.annotations),
    )
