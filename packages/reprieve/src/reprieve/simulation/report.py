"""The answer of `reprieve plan`: what would happen, and why (interfaces.md, "`plan -o json`").

`Plan` is the stable JSON document. Every list is sorted, so two runs produce equal bytes except for `stats.seconds`.
`Account` holds the additional data of the text output: where running pods are, why a victim was evicted, and which
units were kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kube_rules.versions import DOCUMENT_VERSION
from reprieve.decisions.outcomes import (
    DeferredPreemption,
    Document,
    Help,
    PreemptionOutcome,
    PreemptorName,
    ReleasedCapacity,
    ReservedCapacity,
    VictimReason,
)
from reprieve.decisions.records import PreemptionRecord


class PodOutcome(Document, frozen=True, kw_only=True):
    """A pod that was pending in the input. `outcome`: Scheduled, Nominated, Unschedulable, Gated, Error or Refused.

    Refused: admission rejects the pod, and `message` is the API server's answer.
    """

    namespace: str
    name: str
    pod_group: str | None
    priority: int
    outcome: str
    node_name: str | None = None
    nominated_node_name: str | None = None
    reason: str | None = None
    message: str | None = None
    help: tuple[Help, ...] = ()
    """Suggestions; for a pod of a group they are reported on the group."""
    tried: str | None = None
    """How many suggestions were tried: All, Some or None; null without any to try."""
    asked: bool = True
    """Whether the question is about the pod; otherwise it just waits in the cluster (whatif.md 13)."""


class TopologyUse(Document, frozen=True, kw_only=True):
    """The domains of a requested topology level that a group's members use (topology.md 5.3).

    `level`: as in the group; `label`: the node label; `domains`: those with running members, most members first;
    `breaks`: the number of neighbouring ranks in different domains.
    """

    level: str
    label: str
    domains: tuple[str, ...]
    breaks: int


class PodGroupOutcome(Document, frozen=True, kw_only=True):
    """A PodGroup of the input. `min_count` is None for the basic policy; `scheduled` counts members with a node.

    `below_minimum`: a gang that had its minimum on nodes and no longer has it. `evicted` of its pods were preempted;
    `lost` were lost with their node or deleted by name.
    """

    namespace: str
    name: str
    priority: int
    min_count: int | None
    scheduled: int
    outcome: str
    reason: str | None = None
    message: str | None = None
    parent: str | None = None
    """The name of its parent CompositePodGroup."""
    below_minimum: bool = False
    evicted: int = 0
    lost: int = 0
    help: tuple[Help, ...] = ()
    tried: str | None = None
    asked: bool = True
    """Whether the question is about one of its pods, or no pod of it is pending."""
    topology: tuple[TopologyUse, ...] = ()
    """For each preferred level, and the level of its slices: the domains of running members."""


class CompositeOutcome(Document, frozen=True, kw_only=True):
    """A CompositePodGroup of the input. `min_group_count` is None for the basic policy.

    `groups`: its children in scheduling order; `scheduled` counts pods below it with a node. `outcome`: Scheduled,
    Nominated, Unschedulable, Gated or Error. Of the last attempt: the number of children that `succeeded` (None without
    an attempt), and the names of children that were `short`.
    """

    namespace: str
    name: str
    parent: str | None
    priority: int
    min_group_count: int | None
    groups: tuple[str, ...]
    scheduled: int
    outcome: str
    reason: str | None = None
    message: str | None = None
    succeeded: int | None = None
    short: tuple[str, ...] = ()


class RefusedWorkload(Document, frozen=True, kw_only=True):
    """A controller that cannot create all its pods because admission refuses them (whatif.md 14).

    It requires `wanted` pods, of which `exist` exist at the end. `pods` are the names of the others, and `message` is
    the server's reason.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    wanted: int
    exist: int
    message: str
    pods: tuple[str, ...]


class SuspendedWorkload(Document, frozen=True, kw_only=True):
    """A workload that requires no pods while it is suspended; the plan does not include it."""

    api_version: str
    kind: str
    namespace: str
    name: str
    message: str


class ResizeOutcome(Document, frozen=True, kw_only=True):
    """A running pod of the input with a deferred resize (resizes.md 5).

    `outcome`: Resized, Preempting, Deferred or Evicted. `evicts`: the units evicted for it, `namespace/name`.
    `message`: why it does not fit, from the last attempt.
    """

    namespace: str
    name: str
    pod_group: str | None
    priority: int
    node_name: str
    outcome: str
    message: str | None = None
    evicts: tuple[str, ...] = ()


class LostPod(Document, frozen=True, kw_only=True):
    """A pod that was lost with its node, not preempted."""

    namespace: str
    name: str
    pod_group: str | None
    node_name: str
    priority: int


class ChangeMade(Document, frozen=True, kw_only=True):
    """A change to the input before its plan, in the given order (whatif.md 4). `change`: the flag as given."""

    change: str
    sentence: str
    nodes: tuple[str, ...] = ()
    kubectl_needs: tuple[str, ...] = ()
    """For a drain: the flags that `kubectl drain` requires."""


class DisplacedPod(Document, frozen=True, kw_only=True):
    """A pod that a change removed from its node. `outcome`: Moved, Waiting or Lost.

    `successor`: the name of the pod that its controller creates instead, if any; `to`: its node at the end. `budgets`:
    budgets that forbid its eviction (of a drain). `empty_dirs`: its volumes that lose their data. `message`: the
    scheduler's reason why it waits.
    """

    namespace: str
    name: str
    pod_group: str | None
    priority: int
    node_name: str
    change: str
    successor: str | None = None
    outcome: str = "Lost"
    to: str | None = None
    budgets: tuple[str, ...] = ()
    empty_dirs: tuple[str, ...] = ()
    message: str | None = None


class EvictedPod(Document, frozen=True, kw_only=True):
    """A pod that is preempted for a pod that a drain displaced, or for a pod that came back.

    `outcome`, `to`, `successor`, `message`: as in DisplacedPod. `budgets`: budgets that its eviction violates.
    """

    namespace: str
    name: str
    pod_group: str | None
    priority: int
    node_name: str
    preemptor: PreemptorName
    why: VictimReason | None = None
    successor: str | None = None
    outcome: str = "Lost"
    to: str | None = None
    message: str | None = None
    budgets: tuple[str, ...] = ()


class BrokenGang(Document, frozen=True, kw_only=True):
    """A gang that a change left below its minimum: `before` pods ran, `left` remain, `after` run at the end."""

    namespace: str
    name: str
    min_count: int
    before: int
    left: int
    coming_back: int
    after: int = 0


class Stats(Document, frozen=True, kw_only=True):
    """`seconds` of real time, `virtual_seconds` until nothing changed, and the number of scheduling attempts."""

    seconds: float
    virtual_seconds: float
    attempts: int


class Plan(Document, frozen=True, kw_only=True):
    """The document."""

    api_version: str = DOCUMENT_VERSION
    kind: str = "Plan"
    changes: tuple[ChangeMade, ...] = ()
    displaced: tuple[DisplacedPod, ...] = ()
    broken_gangs: tuple[BrokenGang, ...] = ()
    pods: tuple[PodOutcome, ...] = ()
    pod_groups: tuple[PodGroupOutcome, ...] = ()
    composite_pod_groups: tuple[CompositeOutcome, ...] = ()
    preemptions: tuple[PreemptionOutcome, ...] = ()
    put_off: tuple[DeferredPreemption, ...] = ()
    released: tuple[ReleasedCapacity, ...] = ()
    reservations: tuple[ReservedCapacity, ...] = ()
    lost: tuple[LostPod, ...] = ()
    resizes: tuple[ResizeOutcome, ...] = ()
    suspended: tuple[SuspendedWorkload, ...] = ()
    refused: tuple[RefusedWorkload, ...] = ()
    stats: Stats = Stats(seconds=0.0, virtual_seconds=0.0, attempts=0)

    @property
    def broken(self) -> tuple[PodGroupOutcome, ...]:
        """Return the gangs that fell below their minimum not only through preemption."""
        return tuple(group for group in self.pod_groups if group.below_minimum and group.lost)

    @property
    def all_placed(self) -> bool:
        """Return whether all pods of the question were placed, and no pod was lost and no gang broken."""
        return not (self.lost or self.broken or any(pod.outcome != "Scheduled" for pod in self.asked_pods))

    @property
    def asked_pods(self) -> tuple[PodOutcome, ...]:
        """Return the pods of the question."""
        return tuple(pod for pod in self.pods if pod.asked)

    def asks_for(self, preemptor: PreemptorName) -> bool:
        """Return whether the question is about a preemptor; a tree of groups always counts."""
        name = (preemptor.namespace, preemptor.name)
        of_kind: dict[str, Sequence[PodOutcome | PodGroupOutcome]] = {"Pod": self.pods, "PodGroup": self.pod_groups}
        outcomes = of_kind.get(preemptor.kind, ())
        return next((outcome.asked for outcome in outcomes if (outcome.namespace, outcome.name) == name), True)

    @property
    def asked_preemptions(self) -> tuple[PreemptionOutcome, ...]:
        """Return the decisions to preempt for the pods of the question."""
        return tuple(preemption for preemption in self.preemptions if self.asks_for(preemption.preemptor))


@dataclass(frozen=True, slots=True)
class UnitAccount:
    """One potential victim. Deprecated: use the units of `PlannedPreemption.record`."""

    unit: str
    """`namespace/name` of the pod, or of the group that is evicted as a whole."""
    whole_group: bool
    pods: tuple[str, ...]
    """`namespace/name` of the pods; for a spared unit only of the first ones."""
    nodes: tuple[str, ...]
    priority: int
    violates_pdb: bool
    evicted: bool
    why: str
    running_seconds: float | None
    evicted_before: bool


@dataclass(frozen=True, slots=True)
class PlannedPreemption:
    """One preemption decision with the additional data of the text output."""

    outcome: PreemptionOutcome
    record: PreemptionRecord
    """The decision record, with every evicted unit and possibly only the most important spared ones."""
    at: float = 0.0
    """Simulated seconds since the start."""
    free_before: str = ""
    """The free amount of the first resource of `outcome.needed` before, up to the needed amount; empty: nothing."""
    protected: int = 0
    """The number of spared units that a PodDisruptionBudget protects."""
    evicted_before: frozenset[str] = frozenset()
    """Victims already evicted for an earlier preemptor; a more important one takes their capacity."""

    @property
    def preemptor(self) -> str:
        """Deprecated: use `outcome.preemptor`."""
        return str(self.outcome.preemptor)

    @property
    def priority(self) -> int:
        """Deprecated: use `outcome.preemptor.priority`."""
        return self.outcome.preemptor.priority

    @property
    def domain(self) -> str:
        """Deprecated: use `outcome.domain`."""
        return self.outcome.domain

    @property
    def nominations(self) -> tuple[tuple[str, str], ...]:
        """Deprecated: use `outcome.nominations`."""
        return tuple(self.outcome.nominations.items())

    @property
    def candidates(self) -> int:
        """Deprecated: use `record.comparison.candidates`."""
        return self.record.comparison.candidates

    @property
    def cost_notes(self) -> tuple[str, ...]:
        """Deprecated: use `record.cost_notes`."""
        return self.record.cost_notes

    @property
    def units(self) -> tuple[UnitAccount, ...]:
        """Deprecated: use `record.evicted` and `record.reprieved`."""
        pods: dict[str, list[str]] = {}
        for victim in self.outcome.victims:
            pods.setdefault(victim.unit, []).append(f"{victim.namespace}/{victim.name}")
        return tuple(
            UnitAccount(
                unit=unit.unit,
                whole_group=unit.kind != "Pod",
                pods=tuple(pods.get(unit.unit, unit.pod_names)),
                nodes=unit.nodes,
                priority=unit.priority,
                violates_pdb=unit.violates_pdb,
                evicted=unit.outcome == "Evicted",
                why=unit.reason,
                running_seconds=unit.running_seconds,
                evicted_before=unit.unit in self.evicted_before,
            )
            for unit in (*self.record.evicted, *self.record.reprieved)
        )


@dataclass(frozen=True, slots=True)
class Account:
    """The parts of an answer that only the text output needs."""

    nodes: int
    running_before: int
    running_after: int
    preemptions: tuple[PlannedPreemption, ...] = ()
    warnings: tuple[str, ...] = ()
    terminating: tuple[str, ...] = field(default=())
    """Victims still terminating at the end (`--first-decision`, or a scenario that stops early)."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The document and account of one plan."""

    plan: Plan
    account: Account
    moves: int = field(default=0, kw_only=True)
    """The number of pod placements and removals, including trials."""
