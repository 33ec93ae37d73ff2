"""The answer of `reprieve plan`: what would happen, and why (interfaces.md, "`plan -o json`").

`Plan` is the stable JSON document: every list sorted, so two runs compare equal byte for byte but for `stats.seconds`.
`Account` carries what the text output reports beyond it: where running pods are, why a victim had to go and who was
spared.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec


class Document(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the parts of the document; every field is always written."""


ALL, SOME, NONE = "All", "Some", "None"
"""How much of what may help was tried."""


class Help(Document, frozen=True, kw_only=True):
    """A smallest change after which a waiting pod or group would run (whatif.md 5).

    `kind`: Nodes (more like one that is there), Domain (more of them in the topology domain that comes closest), Free
    (room on nodes that are there), Node (a larger one), MinCount, Toleration, Uncordon, Selector, Ports, Policy,
    Priority, Workload (one that ends) or Combination (two changes, neither of which is enough alone). `amount` of
    `resource`, on `nodes` nodes; `priority` or `min_count` it would need.
    """

    kind: str
    sentence: str
    resource: str | None = None
    amount: str | None = None
    missing: dict[str, str] = {}
    """Everything that is missing with it, the scarcest first."""
    nodes: int | None = None
    priority: int | None = None
    min_count: int | None = None
    workload: str | None = None
    parts: tuple[str, ...] = ()
    """Of a combination: the kinds of its two changes."""
    like: str | None = None
    """The node that new ones are like."""
    on: tuple[str, ...] = ()
    """The first of the nodes that lack least."""
    flags: tuple[str, ...] = ()
    """The change as flags of `plan`."""


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


class LostPod(Document, frozen=True, kw_only=True):
    """A pod that went with its node: nobody needed its room."""

    namespace: str
    name: str
    pod_group: str | None
    node_name: str
    priority: int


class Preemptor(Document, frozen=True, kw_only=True):
    """Who needed the room. `kind`: Pod, PodGroup or CompositePodGroup."""

    kind: str
    namespace: str
    name: str
    priority: int


class VictimReason(Document, frozen=True, kw_only=True):
    """Why a unit has to go: with it back, `pod` would not fit on `node_name`. `missing`: the scarcest first."""

    pod: str
    node_name: str
    message: str
    missing: dict[str, str] = {}


class Victim(Document, frozen=True, kw_only=True):
    """A pod that has to go; `unit` is what goes with it as one, `namespace/name`. `priority` is the unit's."""

    namespace: str
    name: str
    pod_group: str | None
    node_name: str
    priority: int
    unit: str
    violates_pdb: bool = msgspec.field(name="violatesPDB")
    why: VictimReason | None = None


class PlacingByScore(Document, frozen=True, kw_only=True):
    """Who would go if the group were placed where it scores best: pods, the highest priority among them.

    `freed`: how much they have of what the preemptor asks for.
    """

    pods: int
    highest_priority: int | None
    freed: dict[str, str]


class InTurn(Document, frozen=True, kw_only=True):
    """A victim that comes back and would evict these units; `round`: 1 for the victims themselves (cost.md 3)."""

    round: int
    by: str
    evicted: tuple[str, ...]
    pods: int


class AvoidedEviction(Document, frozen=True, kw_only=True):
    """What would have been cheaper if nobody came back."""

    units: tuple[str, ...]
    cascade: tuple[InTurn, ...]


class EvictionCost(Document, frozen=True, kw_only=True):
    """What it costs (cost.md 1): work that was not saved, and a number by each criterion, in order.

    `decided_by`: the criterion that distinguished it from the runner-up, with what both cost by it.
    """

    lost_gpu_hours: float
    lost_cpu_hours: float
    by_criterion: dict[str, float]
    decided_by: str | None = None
    values: tuple[str, ...] = ()


class PreemptionOutcome(Document, frozen=True, kw_only=True):
    """One decision to preempt, in order of time. `domain`: cluster, or the node's name.

    `needed`: what the pods it is for ask for in all, `freed`: how much of that the victims have; the resource that is
    the largest part of what the cluster has comes first.
    """

    preemptor: Preemptor
    domain: str
    nominations: dict[str, str]
    victims: tuple[Victim, ...]
    reprieved: int
    pdb_violations: int
    needed: dict[str, str] = {}
    freed: dict[str, str] = {}
    by_score: PlacingByScore | None = None
    """What the choice was worth; None where only one placement was evaluated (`placement: Compatible`)."""
    cost: EvictionCost | None = None
    cascade: tuple[InTurn, ...] = ()
    avoided: AvoidedEviction | None = None


class PutOffOutcome(Document, frozen=True, kw_only=True):
    """A preemption that was put off, in order of time (cost.md 5.6, 6).

    `reason`: PreemptionDelay, Predecessor, Completions or MinimumRuntime; `pods`: whose room is waited for. `at`, and
    `until` at the latest, are virtual seconds since the start; without `until` it waits for something to happen.
    """

    preemptor: Preemptor
    reason: str
    message: str
    at: float
    until: float | None
    pods: tuple[str, ...] = ()


class ReleasedOutcome(Document, frozen=True, kw_only=True):
    """Room that was held for a preemptor and given back unused, `at` virtual seconds since the start (cost.md 5.4).

    `reason`: NotUsed, Deleted, Gated, PlacedElsewhere, NodeGone, Taken, Moved or NoUse.
    """

    preemptor: Preemptor
    nodes: tuple[str, ...]
    reason: str
    message: str
    at: float


class ChangeMade(Document, frozen=True, kw_only=True):
    """A change to the input before it was planned, in the order given (whatif.md 4). `change`: as it was given."""

    change: str
    sentence: str
    nodes: tuple[str, ...] = ()
    kubectl_needs: tuple[str, ...] = ()
    """Of a drain: the flags without which `kubectl drain` refuses it."""


class DisplacedPod(Document, frozen=True, kw_only=True):
    """A pod that a change took from its node. `outcome`: Moved, Waiting or Lost.

    `successor`: the name under which its controller made it again, if it has one; `to`: who has it at the end.
    `budgets`: those that do not allow its eviction (of a drain). `empty_dirs`: its volumes whose data is gone.
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
    preemptor: Preemptor
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
    """`seconds` of real time, `virtual_seconds` until nothing changed any more, attempts of the scheduler."""

    seconds: float
    virtual_seconds: float
    attempts: int


class Plan(Document, frozen=True, kw_only=True):
    """The document."""

    api_version: str = "reprieve.dev/v1alpha1"
    kind: str = "Plan"
    changes: tuple[ChangeMade, ...] = ()
    displaced: tuple[DisplacedPod, ...] = ()
    broken_gangs: tuple[BrokenGang, ...] = ()
    pods: tuple[PodOutcome, ...] = ()
    pod_groups: tuple[PodGroupOutcome, ...] = ()
    composite_pod_groups: tuple[CompositeOutcome, ...] = ()
    preemptions: tuple[PreemptionOutcome, ...] = ()
    put_off: tuple[PutOffOutcome, ...] = ()
    released: tuple[ReleasedOutcome, ...] = ()
    lost: tuple[LostPod, ...] = ()
    suspended: tuple[SuspendedWorkload, ...] = ()
    refused: tuple[RefusedWorkload, ...] = ()
    stats: Stats = Stats(seconds=0.0, virtual_seconds=0.0, attempts=0)

    @property
    def broken(self) -> tuple[PodGroupOutcome, ...]:
        """Gangs that fell below their minimum, and not by preemption alone."""
        return tuple(group for group in self.pod_groups if group.below_minimum and group.lost)

    @property
    def all_placed(self) -> bool:
        """Whether every pod that the question is about was placed, none went with its node, no gang broke by that."""
        return not (self.lost or self.broken or any(pod.outcome != "Scheduled" for pod in self.asked_pods))

    @property
    def asked_pods(self) -> tuple[PodOutcome, ...]:
        """The pods that the question is about."""
        return tuple(pod for pod in self.pods if pod.asked)

    def asks_for(self, preemptor: Preemptor) -> bool:
        """Whether the question is about a preemptor; a tree of groups counts whatever its groups are."""
        name = (preemptor.namespace, preemptor.name)
        of_kind: dict[str, Sequence[PodOutcome | PodGroupOutcome]] = {"Pod": self.pods, "PodGroup": self.pod_groups}
        outcomes = of_kind.get(preemptor.kind, ())
        return next((one.asked for one in outcomes if (one.namespace, one.name) == name), True)

    @property
    def asked_preemptions(self) -> tuple[PreemptionOutcome, ...]:
        """Decisions to preempt for what the question is about."""
        return tuple(made for made in self.preemptions if self.asks_for(made.preemptor))


@dataclass(frozen=True, slots=True)
class UnitAccount:
    """What became of one potential victim, in words for people."""

    unit: str
    """`namespace/name` of the pod, or of the group that goes as a whole."""
    whole_group: bool
    pods: tuple[str, ...]
    """`namespace/name`, in UID order."""
    nodes: tuple[str, ...]
    """Distinct node names, sorted."""
    priority: int
    violates_pdb: bool
    evicted: bool
    why: str
    """For an evicted unit: which pod on which node would not fit with it back, and what is missing; else empty."""
    running_seconds: float | None
    """How long its oldest pod has been running at the time of the decision; None if unknown."""
    evicted_before: bool = False
    """It was on its way out already, for an earlier decision: its room was taken by somebody more important."""


@dataclass(frozen=True, slots=True)
class PreemptionAccount:
    """One preemption decision for people. `units` are in importance order, evicted and spared alike.

    Every evicted unit is there; of the spared ones perhaps only the most important.
    """

    preemptor: str
    """`podgroup default/train`, `compositepodgroup default/serve` or `pod default/web`."""
    priority: int
    domain: str
    at: float
    """Virtual seconds since the start."""
    nominations: tuple[tuple[str, str], ...]
    """(pod, node), in scheduling order."""
    units: tuple[UnitAccount, ...]
    candidates: int
    needed: tuple[str, str, str, str] | None = None
    """Of the resource that is scarcest for the preemptor: its name, how much it needs, how much the victims free, and
    how much of the rest was free before (empty: there is no rest)."""
    by_score: tuple[int, int] | None = None
    """Pods that would go if the group were placed where it scores best, and the highest priority among them; None
    where nothing else was evaluated, or it comes to the same."""
    cost_notes: tuple[str, ...] = ()
    """Sentences on what it costs beside pods: lost work, evictions in turn."""
    more_spared: int = 0
    """How many spared units are not listed, and how many of those a PodDisruptionBudget protects."""
    more_protected: int = 0


@dataclass(frozen=True, slots=True)
class Account:
    """What the text output needs beyond the document."""

    nodes: int
    running_before: int
    running_after: int
    preemptions: tuple[PreemptionAccount, ...] = ()
    warnings: tuple[str, ...] = ()
    terminating: tuple[str, ...] = field(default=())
    """Victims still running out their grace period at the end (`--first-decision`, or a scenario that stops early)."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Document and account of one plan."""

    plan: Plan
    account: Account
