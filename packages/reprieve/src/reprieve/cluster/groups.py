"""Pod groups and groups of groups: what the object says, which pods name it, and where it stands in its tree.

A group state exists as soon as a pod names the group, with or without the object (api.md: the reference "may name a
group that does not exist yet").  A composite state exists while its object does.

A group without a parent is a tree of one level: it is its own root, its own top, and its own unit if it is disrupted as
a whole.  `reprieve.cluster.trees` keeps `root`, `fault`, `top` and `unit` of every group up to date.

Invariant: `existing` counts the members that are not terminating, `scheduled` those of them that have a row.  A
terminating member cannot make up a minimum (scheduling.md 7: no gang is partly bound below minCount).
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

    `min_count` is None for the `basic` policy; of a composite it counts child groups.

    A priority that is not set counts as 0 (preemption.md 1), but pods have nothing to conflict with.
    """

    min_count: int | None
    disrupt_all: bool
    priority: int
    preemption_policy: str | None
    topology_key: str | None = None
    has_priority: bool = True
    class_name: str = ""
    """The priority class that it names."""
    victim_priority: int = 0
    """The priority that the group asks for as a potential victim, granted or not; never below `priority`."""
    names_victim_class: bool = False
    """Its annotation names the class for that (preemption.md 4, "Options"); without one its parents' may count."""
    claims: frozenset[tuple[str, str | None, str | None]] = frozenset()
    """Device claims its pods share (KEP-5729): name, claim and template. A pod's own entry that is equal means it."""
    parent: str | None = None
    """`namespace/name` of the CompositePodGroup it is a child of."""
    workload: str = ""
    """The Workload it was made from."""
    foreign: str | None = None
    """Of another API than scheduling.k8s.io: its apiVersion, empty where there is no object (workloads.md 2)."""
    topology: TopologyTerms = NO_TOPOLOGY_TERMS
    """What its annotations ask for beside the constraint (topology.md 1, 4)."""
    restarts: bool | None = None
    """Whether it is evicted as a whole if it stays below its minimum after it was scheduled; None: as its parent."""
    terms: WorkTerms = field(default=NO_WORK_TERMS, compare=False)
    """What its annotations say of the work of its pods; it changes often, and never what is a unit."""

    @property
    def names_class(self) -> bool:
        """It names a priority class."""
        return bool(self.class_name)


class _GroupRecord:
    """What groups of pods and groups of groups have in common."""

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
        """As the queue calls it: different for a group and a composite of the same name."""
        self.home = self.ref
        """The `ref` of the entity in which its pods wait: its root's, or its own while it has none."""
        self.namespace, _, self.name = key.partition("/")
        self.spec: GroupSpec | None = None
        """None while no object of that name exists."""
        self.uid = ""
        self.created = 0.0
        self.owner: Owner | None = None
        """The controller of the object."""
        self.root: Group | None = cast("Group", self)
        """The root of its tree; None while that is unknown, and `fault` says why."""
        self.fault: Fault | None = None
        self.top = cast("Group", self)
        """The topmost group of its chain that exists."""
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
        """The object exists and has the gang policy."""
        return self.spec is not None and self.spec.min_count is not None


class GroupState(_GroupRecord):
    """One pod group. `members` are all pods that name it and have not ended, by UID."""

    __slots__ = ("existing", "members", "ready", "scheduled")

    kind: ClassVar[str] = "PodGroup"

    ref_prefix: ClassVar[str] = "group"

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.members: dict[str, PodRecord] = {}
        self.scheduled = 0
        self.existing = 0
        """Members that count towards minCount: all that are not terminating."""
        self.ready = False
        """As its parent counted it last (`reprieve.cluster.trees`)."""

    def __repr__(self) -> str:
        return f"<podgroup {self.key} {self.spec} members={len(self.members)} scheduled={self.scheduled}>"

    @property
    def children(self) -> "Sequence[Group]":
        """Groups below it: none."""
        return ()

    def leaves(self) -> "Iterator[GroupState]":
        """Yield the pod groups of the tree below it, itself."""
        yield self

    def below(self) -> "Iterator[Group]":
        """Yield all groups of the tree below it, itself first."""
        yield self

    def pending(self) -> list[PodRecord]:
        """Members to schedule: without a row and not terminating, in no particular order."""
        return [pod for pod in self.members.values() if pod.row < 0 and not pod.terminating]

    def running(self) -> list[PodRecord]:
        """Scheduled members (bound or assumed), in no particular order."""
        return [pod for pod in self.members.values() if pod.row >= 0]


class CompositeState(_GroupRecord):
    """One CompositePodGroup with its children, in the order in which they are tried (composite.md 2)."""

    __slots__ = ("_ordered", "by_ref", "counted", "ready_children")

    kind: ClassVar[str] = "CompositePodGroup"

    ref_prefix: ClassVar[str] = "composite"

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.by_ref: dict[str, Group] = {}
        """Its children by `ref`; changed by `reprieve.cluster.trees` alone."""
        self._ordered: tuple[Group, ...] | None = ()
        self.ready_children = 0
        """Children that are ready; valid if the root of the tree is `counted`."""
        self.counted = False
        """Of a root: `ready_children` is current below it."""

    def __repr__(self) -> str:
        return f"<compositepodgroup {self.key} {self.spec} children={len(self.children)}>"

    @property
    def children(self) -> "tuple[Group, ...]":
        """In the order in which they are tried: by creation, ties by name (composite.md 2.3)."""
        if self._ordered is None:
            self._ordered = tuple(sorted(self.by_ref.values(), key=turn_of))
        return self._ordered

    def reorder(self) -> None:
        """Children have come or gone, or were made at another time than was known."""
        self._ordered = None

    @property
    def ready(self) -> bool:
        """Return whether enough children are; valid if the root of the tree is `counted`."""
        return self.fault is None and self.ready_children >= max(1, self.min_count)

    def leaves(self) -> "Iterator[GroupState]":
        """Yield the pod groups of the tree below it, in order, but those that have no root."""
        for child in self.children:
            if child.fault is None:
                yield from child.leaves()

    def below(self) -> "Iterator[Group]":
        """Yield all groups of the tree below it, parents before children, itself first; but those that have no root."""
        yield self
        for child in self.children:
            if child.fault is None:
                yield from child.below()

    def wrong_layout(self) -> str | None:
        """None, or why the tree below it cannot be scheduled: a pod group below has too many levels above it."""
        waiting: list[Group] = [self]
        for group in waiting:
            if isinstance(group, CompositeState):
                waiting += group.children
            elif group.fault is not None:
                return group.fault.message
        return None

    @property
    def members(self) -> "Mapping[str, PodRecord]":
        """The pods of all its leaves, by UID."""
        return {uid: pod for leaf in self.leaves() for uid, pod in leaf.members.items()}

    @property
    def scheduled(self) -> int:
        """Pods of its leaves that have a row and are not terminating."""
        return sum(leaf.scheduled for leaf in self.leaves())

    @property
    def existing(self) -> int:
        """Pods of its leaves that are not terminating."""
        return sum(leaf.existing for leaf in self.leaves())

    def pending(self) -> list[PodRecord]:
        """Return pods to schedule, in no particular order."""
        return [pod for leaf in self.leaves() for pod in leaf.pending()]

    def running(self) -> list[PodRecord]:
        """Scheduled pods (bound or assumed), in no particular order."""
        return [pod for leaf in self.leaves() for pod in leaf.running()]


Group = GroupState | CompositeState
"""A group of any level of a tree."""


def turn_of(group: Group) -> tuple[float, str, str]:
    """Sort key of children: by creation, ties by name (composite.md 2.3)."""
    return (group.created, group.name, group.ref)


def is_ready(group: Group, known: Callable[[GroupState], int]) -> bool:
    """Return whether the tree below reaches its numbers, if so many pods of a leaf are `known` (composite.md 2.4)."""
    if isinstance(group, GroupState):
        return known(group) >= max(1, group.min_count)
    ready = sum(1 for child in group.children if child.fault is None and is_ready(child, known))
    return ready >= max(1, group.min_count)


def fewest_pods(group: Group) -> int:
    """Return how many more pods have to be placed at least for the tree below to reach its numbers (composite.md
    3.3).
    """
    if isinstance(group, GroupState):
        return max(0, max(1, group.min_count) - group.scheduled)
    least = sorted(fewest_pods(child) for child in group.children if child.fault is None)
    return sum(least[: max(1, group.min_count)])


def all_below(group: Group, wanted: Callable[[Group], bool] = lambda _: True) -> list[Group]:
    """Return the group and those below it that are wanted, parents first, also where they have no root.

    Nothing below one that is not wanted is visited.
    """
    result: list[Group] = []
    waiting = [group]
    while waiting:
        one = waiting.pop()
        if one is not group and not wanted(one):
            continue
        result.append(one)
        # Each has one parent: in a cycle only the first is met again.
        waiting.extend(child for child in reversed(one.children) if child is not group)
    return result


def disrupted_with(unit: Group) -> list[Group]:
    """Return the groups that are disrupted as one with that unit, and the composites between, itself first.

    Also where its chain is broken above it, or part of a cycle (composite.md 4.3).
    """
    return all_below(unit, lambda one: one.unit is unit)


def running_below(groups: Iterable[Group]) -> list[PodRecord]:
    """Return the scheduled pods of the pod groups among them, in no particular order."""
    return [pod for group in groups if isinstance(group, GroupState) for pod in group.running()]


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a group's root is unknown: an ancestor that is `missing`, or what is wrong with the layout."""

    message: str
    missing: str = ""
    """Name of the ancestor that does not exist (yet); empty: waiting for none will help."""


def composite_spec_of(group: objects.CompositePodGroup) -> GroupSpec:
    """Return what scheduling reads of a CompositePodGroup (v1alpha3)."""
    gang = group.spec.scheduling_policy.gang
    least = gang.min_group_count if gang is not None else None
    return _spec(group, least, group.spec.scheduling_constraints.topology)


def spec_of(group: objects.PodGroup, *, trees: bool = True) -> GroupSpec:
    """Return what scheduling reads of a PodGroup in its internal form (v1beta1); without `trees` it has no parent."""
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
