"""The answer of `reprieve plan`: what would happen, and why (interfaces.md, "`plan -o json`").

`Plan` is the stable JSON document: every list sorted, so two runs compare equal byte for byte but for `stats.seconds`.
`Account` carries what the text output reports beyond it: where running pods are, why a victim was evicted and which
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

    Refused: admission does not let it come into being, `message` is what the API server answers.
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
    """For a pod of a group it is reported on the group."""
    tried: str | None = None
    """How much of what may help was tried: All, Some or None; null where nothing was to be tried."""
    asked: bool = True
    """Whether the question is about it; else it waits in the cluster anyway (whatif.md 13)."""


class TopologyUse(Document, frozen=True, kw_only=True):
    """What the members of a group use of a topology level that it asks for (topology.md 5.3).

    `level` as the group has it, `label` of nodes; `domains`: where its members run, those with most of them first;
    `breaks`: how many neighbouring ranks are in different domains.
    """

    level: str
    label: str
    domains: tuple[str, ...]
    breaks: int


class PodGroupOutcome(Document, frozen=True, kw_only=True):
    """A PodGroup of the input. `min_count` is None for the basic policy; `scheduled` counts members with a node.

    `below_minimum`: a gang that had its minimum on nodes and has it no more; `evicted` of its pods were preempted,
    `lost` went with their node or were deleted by name.
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
    """The CompositePodGroup it is a child of."""
    below_minimum: bool = False
    evicted: int = 0
    lost: int = 0
    help: tuple[Help, ...] = ()
    tried: str | None = None
    asked: bool = True
    """Whether the question is about a pod of it, or it has none that waits."""
    topology: tuple[TopologyUse, ...] = ()
    """By preferred level, and for the level of its slices, the domains where its members run."""


class CompositeOutcome(Document, frozen=True, kw_only=True):
    """A CompositePodGroup of the input. `min_group_count` is None for the basic policy.

    `groups`: its children in the order in which they are tried; `scheduled` counts pods below it with a node.
    `outcome`: Scheduled, Nominated, Unschedulable, Gated or Error.  Of the last attempt: how many of the children
    `succeeded`, None where there was none, and the names of those that were `short`.
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
    """A controller that cannot make all its pods, as admission refuses them (whatif.md 14).

    It calls for `wanted` pods, of which `exist` are there at the end; `pods` are the names of the others, `message` is
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
    """A workload that calls for no pods as long as it is suspended; whether they would run is not planned."""

    api_version: str
    kind: str
    namespace: str
    name: str
    message: str


class ResizeOutcome(Document, frozen=True, kw_only=True):
    """A running pod of the input with a deferred resize (resizes.md 5).

    `outcome`: Resized, Preempting, Deferred or Evicted. `evicts`: the units evicted for it, `namespace/name`.
    `message`: why it does not fit, of the last attempt.
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
    """A pod that was lost with its node; no preemptor needed its capacity."""

    namespace: str
    name: str
    pod_group: str | None
    node_name: str
    priority: int


class ChangeMade(Document, frozen=True, kw_only=True):
    """A change to the input before it was planned, in the order given (whatif.md 4). `change`: as it was given."""

    change: str
    sentence: str
    nodes: tuple[str, ...] = ()
    kubectl_needs: tuple[str, ...] = ()
    """Of a drain: the flags without which `kubectl drain` refuses it."""


class DisplacedPod(Document, frozen=True, kw_only=True):
    """A pod that a change took from its node. `outcome`: Moved, Waiting or Lost.

    `successor`: the name under which its controller made it again, if it has one; `to`: its node at the end.
    `budgets`: those that do not allow its eviction (of a drain). `empty_dirs`: its volumes that lost their data.
    `message`: why it waits, in the scheduler's words.
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
    """A pod that is preempted for one that a drain displaced, or in turn for a pod that came back.

    `outcome`, `to`, `successor`, `message`: as of DisplacedPod. `budgets`: those that do not allow its eviction and are
    overruled.
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
    """A gang of which the changes left fewer than its minimum: `before` of it ran, `left` do, `after` at the end."""

    namespace: str
    name: str
    min_count: int
    before: int
    left: int
    coming_back: int
    after: int = 0


class Stats(Document, frozen=True, kw_only=True):
    """`seconds` of real time, `virtual_seconds` until nothing changed, attempts of the scheduler."""

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
        """Gangs that fell below their minimum, and not by preemption alone."""
        return tuple(group for group in self.pod_groups if group.below_minimum and group.lost)

    @property
    def all_placed(self) -> bool:
        """Return whether every pod that the question is about was placed, none went with its node, no gang broke by
        that.
        """
        return not (self.lost or self.broken or any(pod.outcome != "Scheduled" for pod in self.asked_pods))

    @property
    def asked_pods(self) -> tuple[PodOutcome, ...]:
        """Return the pods that the question is about."""
        return tuple(pod for pod in self.pods if pod.asked)

    def asks_for(self, preemptor: PreemptorName) -> bool:
        """Return whether the question is about a preemptor; a tree of groups counts whatever its groups are."""
        name = (preemptor.namespace, preemptor.name)
        of_kind: dict[str, Sequence[PodOutcome | PodGroupOutcome]] = {"Pod": self.pods, "PodGroup": self.pod_groups}
        outcomes = of_kind.get(preemptor.kind, ())
        return next((outcome.asked for outcome in outcomes if (outcome.namespace, outcome.name) == name), True)

    @property
    def asked_preemptions(self) -> tuple[PreemptionOutcome, ...]:
        """Decisions to preempt for what the question is about."""
        return tuple(made for made in self.preemptions if self.asks_for(made.preemptor))


@dataclass(frozen=True, slots=True)
class UnitAccount:
    """One potential victim: deprecated, use the units of `PlannedPreemption.record`."""

    unit: str
    """`namespace/name` of the pod, or of the group that is evicted as a whole."""
    whole_group: bool
    pods: tuple[str, ...]
    """`namespace/name`; of a spared unit the first of them."""
    nodes: tuple[str, ...]
    priority: int
    violates_pdb: bool
    evicted: bool
    why: str
    running_seconds: float | None
    evicted_before: bool


@dataclass(frozen=True, slots=True)
class PlannedPreemption:
    """One preemption decision with what its text says beyond the document."""

    outcome: PreemptionOutcome
    record: PreemptionRecord
    """Every evicted unit; of the spared ones perhaps only the most important."""
    at: float = 0.0
    """Virtual seconds since the start."""
    free_before: str = ""
    """How much of the first resource of `outcome.needed` was free before, as far as it is needed; empty: nothing."""
    protected: int = 0
    """Spared units that a PodDisruptionBudget protects."""
    evicted_before: frozenset[str] = frozenset()
    """Victims that were evicted already for an earlier preemptor: a more important one takes their capacity."""

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
    """Victims still running out their grace period at the end (`--first-decision`, or a scenario that stops early)."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Document and account of one plan."""

    plan: Plan
    account: Account
    moves: int = field(default=0, kw_only=True)
    """How often a pod was put on a node or taken off one, trials included."""
