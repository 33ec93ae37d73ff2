"""The parts of a decision in the documents that commands print: what would help, preemptions, reserved capacity.

Stable JSON (interfaces.md, "`plan -o json`"): every field is always written, under these names in camelCase.
"""

from __future__ import annotations

import msgspec

from reprieve.decisions.records import AvoidedEviction, EvictionInTurn, would_not_fit


class Document(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the parts of a document; every field is always written."""


ALL, SOME, NONE = "All", "Some", "None"
"""How many of the changes that may help were tried."""


class PodMove(Document, frozen=True, kw_only=True):
    """A running pod that would run on another node; `unit` is what moves with it as one, `namespace/name`."""

    unit: str
    namespace: str
    name: str
    from_node: str
    to_node: str


class Help(Document, frozen=True, kw_only=True):
    """A smallest change after which a pending pod or group would run (whatif.md 5).

    `kind`: Nodes (more like an existing one), Domain (more of them in the topology domain that comes closest), Free
    (free capacity on existing nodes), Node (a larger one), MinCount, Toleration, Uncordon, Selector, Ports, Policy,
    Priority, Move (running pods elsewhere), Workload (one that ends) or Combination (two changes, neither of which is
    enough alone). `amount` of `resource`, on `nodes` nodes; `priority` or `min_count` it would need.
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
    """Why a unit is evicted: if it stayed, `pod` would not fit on `node_name`. `missing`: the scarcest first."""

    pod: str
    node_name: str
    message: str
    missing: dict[str, str] = {}

    @property
    def clause(self) -> str:
        """Return the reason as part of a sentence."""
        return would_not_fit(self.pod, self.node_name, self.missing, self.message)


class Victim(Document, frozen=True, kw_only=True):
    """A pod to evict; `unit` is what is evicted with it as one, `namespace/name`. `priority` is the unit's."""

    namespace: str
    name: str
    pod_group: str | None
    node_name: str
    priority: int
    unit: str
    violates_pdb: bool = msgspec.field(name="violatesPDB")
    why: VictimReason | None = None


class PlacingByScore(Document, frozen=True, kw_only=True):
    """The victims if the group were placed where it scores best: pods, the highest priority among them.

    `freed`: how much of what the preemptor asks for they have.
    """

    pods: int
    highest_priority: int | None
    freed: dict[str, str]


class EvictionCost(Document, frozen=True, kw_only=True):
    """What an eviction costs (cost.md 1): work that was not saved, and a number by each criterion, in order.

    `decided_by`: the criterion that distinguished it from the runner-up, with what both cost by it.
    """

    lost_gpu_hours: float
    lost_cpu_hours: float
    by_criterion: dict[str, float]
    decided_by: str | None = None
    values: tuple[str, ...] = ()


class PreemptionOutcome(Document, frozen=True, kw_only=True):
    """One decision to preempt, in order of time. `domain`: cluster, or the node's name.

    `needed`: how much its pods ask for in all, `freed`: how much of that the victims have; the resource that is the
    largest part of the cluster's comes first.
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
    """What the choice saved; None where only one placement was evaluated (`placement: Compatible`)."""
    cost: EvictionCost | None = None
    cascade: tuple[EvictionInTurn, ...] = ()
    avoided: AvoidedEviction | None = None


class DeferredPreemption(Document, frozen=True, kw_only=True):
    """A preemption that was deferred, in order of time (cost.md 5.6, 6).

    `reason`: PreemptionDelay, Predecessor, Completions, Checkpoint, MinimumRuntime or EvictionLimit; `pods`: those it
    waits for.
    `at`, and `until` at the latest, are virtual seconds since the start; without `until` it waits for something to
    happen.
    """

    preemptor: PreemptorName
    reason: str
    message: str
    at: float
    until: float | None
    pods: tuple[str, ...] = ()


class ReservedCapacity(Document, frozen=True, kw_only=True):
    """A reservation that a pending group, tree or pod holds at the end (reservations.md 6.4).

    `expected_start`: RFC 3339; None: pods are in the way that state no end. `waits_for`: those that still run, sorted.
    `message`: when it is expected to start, in words; `backfill`: which pods may use the capacity until then.
    """

    holder: PreemptorName
    nodes: tuple[str, ...]
    expected_start: str | None
    waits_for: tuple[str, ...]
    message: str
    backfill: str


class ReleasedCapacity(Document, frozen=True, kw_only=True):
    """Capacity reserved for a preemptor and released unused, `at` virtual seconds since the start (cost.md 5.4).

    `reason`: NotUsed, Deleted, Gated, PlacedElsewhere, NodeGone, Taken, Moved or NoUse.
    """

    preemptor: PreemptorName
    nodes: tuple[str, ...]
    reason: str
    message: str
    at: float
