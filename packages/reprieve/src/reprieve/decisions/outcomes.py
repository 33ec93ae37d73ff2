"""Parts of a decision in the documents that commands print: changes that would help, preemptions, reserved capacity.

Stable JSON (interfaces.md, "`plan -o json`"): every field is always written, under these names in camelCase.
"""

from __future__ import annotations

import msgspec

from reprieve.decisions.records import AvoidedEviction, EvictionInTurn, would_not_fit


class Document(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the parts of a document. Every field is always written."""


ALL, SOME, NONE = "All", "Some", "None"
"""How many of the possible changes were tried."""


class PodMove(Document, frozen=True, kw_only=True):
    """A running pod that would move to another node. `unit` (`namespace/name`) moves as a whole."""

    unit: str
    namespace: str
    name: str
    from_node: str
    to_node: str


class Help(Document, frozen=True, kw_only=True):
    """A minimal change after which a pending pod or group would run (whatif.md 5).

    `kind`: Nodes (more nodes like an existing one), Domain (more nodes in the topology domain with the smallest
    shortage), Free (free capacity on existing nodes), Node (a larger node), MinCount, Toleration, Uncordon, Selector,
    Ports, Policy, Priority, Move (move running pods), Workload (end a workload) or Combination (two changes, neither
    sufficient alone). `amount` of `resource`, on `nodes` nodes; `priority` or `min_count`: the required value.
    """

    kind: str
    sentence: str
    resource: str | None = None
    amount: str | None = None
    missing: dict[str, str] = {}
    """All missing resources, scarcest first."""
    nodes: int | None = None
    priority: int | None = None
    min_count: int | None = None
    workload: str | None = None
    parts: tuple[str, ...] = ()
    """The kinds of the two changes of a combination."""
    like: str | None = None
    """The node that new nodes must resemble."""
    on: tuple[str, ...] = ()
    """The first nodes with the smallest shortage."""
    moves: tuple[PodMove, ...] = ()
    flags: tuple[str, ...] = ()
    """The change as flags of `plan`."""


class PreemptorName(Document, frozen=True, kw_only=True):
    """The pod or group that preempts. `kind`: Pod, PodGroup or CompositePodGroup."""

    kind: str
    namespace: str
    name: str
    priority: int

    def __str__(self) -> str:
        return f"{self.kind.lower()} {self.namespace}/{self.name}"


class VictimReason(Document, frozen=True, kw_only=True):
    """Why a unit is evicted: if it stayed, `pod` would not fit on `node_name`. `missing`: scarcest first."""

    pod: str
    node_name: str
    message: str
    missing: dict[str, str] = {}

    @property
    def clause(self) -> str:
        """Return the reason as part of a sentence."""
        return would_not_fit(self.pod, self.node_name, self.missing, self.message)


class Victim(Document, frozen=True, kw_only=True):
    """A pod to evict. `unit` (`namespace/name`) is evicted as a whole, and `priority` is the unit's."""

    namespace: str
    name: str
    pod_group: str | None
    node_name: str
    priority: int
    unit: str
    violates_pdb: bool = msgspec.field(name="violatesPDB")
    why: VictimReason | None = None


class PlacingByScore(Document, frozen=True, kw_only=True):
    """The victims if the group were placed where it scores best: number of pods, and their highest priority.

    `freed`: their amounts of the resources that the preemptor requests.
    """

    pods: int
    highest_priority: int | None
    freed: dict[str, str]


class EvictionCost(Document, frozen=True, kw_only=True):
    """The cost of an eviction (cost.md 1): unsaved work, and a number for each criterion, in order.

    `decided_by`: the criterion that distinguished it from the runner-up. `values`: the costs of both by it.
    """

    lost_gpu_hours: float
    lost_cpu_hours: float
    by_criterion: dict[str, float]
    decided_by: str | None = None
    values: tuple[str, ...] = ()


class PreemptionOutcome(Document, frozen=True, kw_only=True):
    """One decision to preempt; decisions are in order of time. `domain`: cluster, or the node's name.

    `needed`: the total requests of its pods. `freed`: the victims' amounts of these resources. The resource with the
    largest share of the cluster comes first.
    """

    preemptor: PreemptorName
    domain: str
    nominations: dict[str, str]
    victims: tuple[Victim, ...]
    reprieved: int
    pdb_violations: int
    needed: dict[str, str] = {}
    freed: dict[str, str] = {}
    by_score: PlacingByScore | None = None
    """What the choice saved; None if only one placement was evaluated (`placement: Compatible`)."""
    cost: EvictionCost | None = None
    cascade: tuple[EvictionInTurn, ...] = ()
    avoided: AvoidedEviction | None = None


class DeferredPreemption(Document, frozen=True, kw_only=True):
    """A deferred preemption; they are in order of time (cost.md 5.6, 6).

    `reason`: PreemptionDelay, Predecessor, Completions, Checkpoint, MinimumRuntime or EvictionLimit. `pods`: the pods
    it waits for. `at` and the latest time `until` are virtual seconds since the start. Without `until` it waits for an
    event.
    """

    preemptor: PreemptorName
    reason: str
    message: str
    at: float
    until: float | None
    pods: tuple[str, ...] = ()


class ReservedCapacity(Document, frozen=True, kw_only=True):
    """A reservation that a pending group, tree or pod holds at the end (reservations.md 6.4).

    `expected_start`: RFC 3339, or None if blocking pods have no stated end. `waits_for`: blocking pods that still run,
    sorted. `message`: the expected start in words. `backfill`: which pods may use the capacity until then.
    """

    holder: PreemptorName
    nodes: tuple[str, ...]
    expected_start: str | None
    waits_for: tuple[str, ...]
    message: str
    backfill: str


class ReleasedCapacity(Document, frozen=True, kw_only=True):
    """Capacity that was released unused by a preemptor, `at` virtual seconds since the start (cost.md 5.4).

    `reason`: NotUsed, Deleted, Gated, PlacedElsewhere, NodeGone, Taken, Moved or NoUse.
    """

    preemptor: PreemptorName
    nodes: tuple[str, ...]
    reason: str
    message: str
    at: float
