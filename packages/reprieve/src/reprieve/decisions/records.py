"""The decision record: what one attempt that did not simply succeed tried, found and decided (observability.md).

Plain data that becomes JSON as it is; names in camelCase, empty fields left out.  Times are RFC 3339 in UTC, durations
seconds, amounts quantities as in manifests.

Invariant: a record is bounded: every list that grows with the cluster has a limit, with the full number beside it; only
the evicted units are all listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from reprieve.cluster.resources import shortages_text

KIND: Final = "DecisionRecord"
MOST_NAMES: Final = 10
MOST_REPRIEVED: Final = 100
MOST_CONSIDERED: Final = 20
MOST_NOMINATIONS: Final = 200
MOST_MESSAGES: Final = 20
MOST_RELEASED: Final = 10
MOST_LEVELS: Final = 50


def would_not_fit(pod: str, node: str, missing: Mapping[str, str], reason: str) -> str:
    """Return why a victim is not spared: if it stayed, `pod` would not fit on `node`.

    `missing`: amounts by resource, the scarcest first; where there are none, `reason` says why.
    """
    return f"if it stayed, {pod} would not fit on {node}: {shortages_text(missing) if missing else reason}"


class RecordPart(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """How all parts are written; fields of later versions are ignored."""


class EntityReference(RecordPart, frozen=True):
    """An object. `kind` is Pod, PodGroup or CompositePodGroup."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    priority: int = 0

    def __str__(self) -> str:
        return f"{self.kind.lower()} {self.namespace}/{self.name}"


class ReasonCount(RecordPart, frozen=True):
    """A reason and on how many nodes it holds; a node may have several."""

    reason: str
    nodes: int


class MessageCount(RecordPart, frozen=True):
    """A message in conditions of pods, and of how many; `names` are the first of them."""

    message: str
    reason: str
    pods: int
    names: tuple[str, ...]


class MemberCounts(RecordPart, frozen=True):
    """A pod group's attempt in numbers: how many pods were tried, how many of those fit, and the group's minimum."""

    tried: int
    placed: int
    min_count: int = 0
    already_scheduled: int = 0


class LevelRecord(RecordPart, frozen=True):
    """The result of one group of a tree (composite.md 3.3): `succeeded` of its children, `of` so many.

    `name` is `namespace/name`; children are pods, or groups of which `short` names the first that did not succeed.
    """

    kind: str
    name: str
    ok: bool
    needed: int
    succeeded: int
    of: int
    why: str = ""
    short: tuple[str, ...] = ()


class Shortage(RecordPart, frozen=True):
    """What is missing for one pod, and on how many nodes exactly that; `names` are the first of them by name."""

    missing: dict[str, str]
    nodes: int
    names: tuple[str, ...]
    at_least: bool = False
    """More than amounts may be in the way there, so that more may have to be freed."""


class OversizedRequest(RecordPart, frozen=True):
    """A request that no node could meet even when empty."""

    resource: str
    asked: str
    largest: str
    or_more: bool = False
    """`asked` is the most that is counted of a resource: it asks for that or for any amount above."""

    @property
    def clause(self) -> str:
        """`it asks for 16 cpu, but the largest node has 8`."""
        asked = f"{self.asked} {self.resource}"
        return f"it asks for {asked}{' or more' if self.or_more else ''}, but the largest node has {self.largest}"


class Shortfall(RecordPart, frozen=True):
    """How far the pod, or the next member of a group, is from fitting, as far as resources go.

    `closest` are the nodes that lack least.  For a group of identical pods `more` is how many members are missing to
    minCount; each needs a place of its own.
    """

    closest: Shortage | None = None
    too_big: tuple[OversizedRequest, ...] = ()
    more: int = 1


class EvictionReason(RecordPart, frozen=True):
    """Why a unit is evicted: if it stayed, `pod` would not fit on `node`. `short`: of `resource`, the scarcest."""

    pod: str
    node: str
    plugin: str
    text: str
    resource: str = ""
    short: str = ""
    missing: dict[str, str] = {}
    """Everything that would be missing there, the scarcest first: the largest share of what is asked for."""

    @property
    def clause(self) -> str:
        """Return the reason as part of a sentence."""
        text = f"{self.text} ({self.short} short)" if self.short else self.text
        return would_not_fit(self.pod, self.node, self.missing, text)


class UnitRecord(RecordPart, frozen=True):
    """A potential victim. `pod_names` and `nodes` are the first of them; `pods`, `nodes_total`: how many there are."""

    unit: str
    kind: str
    outcome: str
    """`Evicted`, `Reprieved` (everything still fits with it running), `LookedAt` (evicting it would not help) or
    `NotEvicted` (it was to be evicted, and the preemption failed before that)."""
    priority: int
    pods: int
    pod_names: tuple[str, ...]
    nodes: tuple[str, ...]
    uid: str = ""
    """Of the pod or the group; empty in records of versions that did not keep it."""
    pod_uids: tuple[str, ...] = ()
    """Of the pods in `pod_names`."""
    owners: tuple[str, ...] = ()
    """Controllers of its pods and of its group, of evicted units: `job default/train`, the first of them."""
    owner: str = ""
    """Of an evicted unit: what eviction limits count it for: a controller, or the group or pod itself (cost.md 9.2)."""
    priority_class: str = ""
    """Of an evicted unit: the priority class that they count it for."""
    nodes_total: int = 0
    """0 in records of versions that did not count them."""
    running_seconds: float | None = None
    """Of its oldest pod, at the time of the decision."""
    violates_pdb: bool = False
    why: EvictionReason | None = None
    chosen_by: str = ""
    """The plugin that named it as a victim (preemption.md 2.8); then there is no other reason."""
    moves_to: tuple[str, ...] = ()
    """The node that each of `pod_names` moves to; empty if it does not move (moving.md 4)."""
    because: str = ""
    """Why it is evicted without a preemption (`PreemptionRecord.cause`)."""

    @property
    def reason(self) -> str:
        """Return why it is evicted, as part of a sentence; empty where nothing is known."""
        if self.why is not None:
            return self.why.clause
        if self.moves_to:
            return f"moves to {', '.join(dict.fromkeys(self.moves_to))}"
        return f"chosen by plugin {self.chosen_by}" if self.chosen_by else self.because


class CostRecord(RecordPart, frozen=True):
    """What the eviction costs."""

    units: int
    pods: int
    highest_priority: int
    pdb_violations: int = 0
    running_seconds_lost: float = 0.0
    """Summed over the pods with a known start."""
    lost_gpu_hours: float = 0.0
    """Of pods with GPUs: hours worked since the last checkpoint or the start, times GPUs (cost.md 1.3)."""
    lost_cpu_hours: float = 0.0
    """The same of pods without GPUs, times CPUs."""
    by_criterion: dict[str, float] = {}
    """By what evictions are compared, in order (cost.md 1)."""


class CandidateRecord(RecordPart, frozen=True):
    """A domain that would have worked, by the criteria that decide (preemption.md 3), in that order."""

    domain: str
    pdb_violations: int = 0
    highest_priority: int = 0
    priority_sum: int = 0
    """Of the victims, each plus 2^31."""
    pods: int = 0
    earliest_start: str = ""
    """Of the victims of the highest priority; later is cheaper."""
    others: dict[str, float] = {}
    """By the criteria beside these that are configured (cost.md 1)."""


class ComparisonStep(RecordPart, frozen=True):
    """One criterion of the comparison, and how many candidates it left."""

    criterion: str
    left: int


class Comparison(RecordPart, frozen=True):
    """How the domain was chosen. Without `runner_up` there was no other."""

    candidates: int
    chosen: CandidateRecord
    decided_by: str = ""
    criterion: str = ""
    """The one that decided, as configurations call it; empty where it was none of them, such as a name."""
    values: tuple[str, ...] = ()
    """What the chosen one and the runner-up cost by it."""
    steps: tuple[ComparisonStep, ...] = ()
    runner_up: CandidateRecord | None = None


class NominationRecord(RecordPart, frozen=True):
    """A pod and the node on which capacity is reserved for it."""

    pod: str
    node: str


class ReleaseRecord(RecordPart, frozen=True):
    """Reserved capacity that was released. `nodes` are the first of them; `pods`: of how many nominations it was.

    `reason`: `NotUsed` (its time is over), `Deleted`, `Gated` or `PlacedElsewhere` (the preemptor), `NodeGone`, `Taken`
    (by a higher priority), `Moved` (capacity is reserved elsewhere instead) or `NoUse` (it no longer helps).
    """

    time: str
    reason: str
    message: str
    nodes: tuple[str, ...]
    nodes_total: int
    pods: int


class EvictionInTurn(RecordPart, frozen=True):
    """A victim that comes back and would evict others; `round`: 1 for the victims themselves (cost.md 3)."""

    round: int
    by: str
    evicted: tuple[str, ...]
    pods: int


class AvoidedEviction(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The eviction that would be cheaper if no victim came back: its victims, and what would follow."""

    units: tuple[str, ...]
    cascade: tuple[EvictionInTurn, ...] = ()


GANG_RESTARTED: Final = "GangRestarted"
"""A degraded gang is evicted as a whole (repair.md 4): reason of the event, and cause in records."""
BACKFILL_OVERRUN: Final = "BackfillOverrun"
"""Backfilled work that runs for too long is evicted (reservations.md 4.5)."""


class PreemptionRecord(RecordPart, frozen=True):
    """A decision to preempt: what is evicted, what is spared, why, and what happened to it."""

    domain: str
    potential_victims: int
    evicted: tuple[UnitRecord, ...]
    reprieved: tuple[UnitRecord, ...]
    reprieved_total: int
    cost: CostRecord
    comparison: Comparison
    nominations: tuple[NominationRecord, ...]
    nominations_total: int
    cascade: tuple[EvictionInTurn, ...] = ()
    """What the victims would evict in turn when they come back."""
    avoided: AvoidedEviction | None = None
    cost_notes: tuple[str, ...] = ()
    """Sentences on costs that are not numbers of pods: lost work, evictions in turn."""
    told: tuple[str, ...] = ()
    """Deprecated name of `cost_notes`."""
    state: str = "UnderWay"
    """`UnderWay`, `Done` (every API call was made) or `Failed`."""
    error: str = ""
    seconds: float = 0.0
    held_until: str = ""
    """Until when at the latest capacity is reserved; empty: without an end."""
    released: tuple[ReleaseRecord, ...] = ()
    """How it was released, where the preemptor does not use it."""
    together: tuple[str, ...] = ()
    """The preemptors with which it was planned together (`namespace/name`), the first of them."""
    cause: str = ""
    """`GangRestarted` or `BackfillOverrun`: it is no preemption, so that nothing was compared or spared. The entity is
    the group that restarts, or the holder of the reservation that needs the capacity."""

    def __post_init__(self) -> None:
        """Read the names of earlier versions."""
        _fill(self, "cost_notes", "told")


class FailedPreemption(RecordPart, frozen=True):
    """Why nothing is evicted for a pod group that needed capacity: the potential victims, and why they do not help.

    `reason`: `NoLowerPriority` (nothing that runs has a lower priority, the lowest is `lowest_priority`),
    `Protected` (all that runs with a lower priority is protected by annotations or limits), `DoesNotFit` and
    `NothingGained` (with all potential victims evicted, too few of its pods or no more than before would fit),
    `PreemptionPolicyNever`, `UnderWay` (earlier victims are still terminating), `Error` (a plugin failed).
    """

    reason: str
    potential_victims: int = 0
    """Units."""
    pods: int = 0
    """Their pods."""
    considered: tuple[UnitRecord, ...] = ()
    """The most important of them; their `outcome` is `LookedAt`."""
    looked_at: tuple[UnitRecord, ...] = ()
    """Deprecated name of `considered`."""
    placed: int = 0
    """Pods of the group that would fit with all of them evicted."""
    needed: int = 0
    """How many must fit."""
    pod: str = ""
    """The first that would not fit, even then; `reasons` says why, on how many of the `nodes`."""
    nodes: int = 0
    reasons: tuple[ReasonCount, ...] = ()
    lowest_priority: int | None = None

    def __post_init__(self) -> None:
        """Read the names of earlier versions."""
        _fill(self, "considered", "looked_at")


class DeferralRecord(RecordPart, frozen=True):
    """Why nothing is evicted yet, although preemption may help. `pods` are the first of those it waits for.

    `reason`: `PreemptionDelay` (its own is not over), `Predecessor` (pods of the same owner are terminating, and their
    capacity is reserved for it), `Completions` (pods that say when they end), `Checkpoint` (victims that are about to
    save their work), `MinimumRuntime` (potential victims that have not run for their minimum) or `EvictionLimit`
    (potential victims that were evicted as often as a limit allows). `until`: it is tried again then, whatever happens;
    empty: when something happens.
    """

    reason: str
    message: str
    until: str = ""
    pods: tuple[str, ...] = ()
    pods_total: int = 0


class ReservationRecord(RecordPart, frozen=True):
    """Capacity that the entity holds until it starts (reservations.md 6.4). `nodes` and `waits_for`: the first of them.

    `expected_start`: RFC 3339, empty where pods are in the way that state no end; `message` says it in words.
    """

    nodes: tuple[str, ...]
    nodes_total: int
    expected_start: str
    waits_for: tuple[str, ...]
    waits_for_total: int
    message: str
    backfill: str


class OrderRecord(RecordPart, frozen=True):
    """A gang failed in the order in which its pods are tried, and a placement may exist: nothing is tried twice.

    `search`: `Greedy`, or `Retry` where other orders have been tried too.  `placed`: how many of its pods another order
    places; 0 where none is known and nothing rules one out.
    """

    search: str
    placed: int = 0


class Timings(RecordPart, frozen=True):
    """`attempt_seconds`: this attempt; `waiting_seconds`: since the entity first might be tried."""

    attempt_seconds: float
    waiting_seconds: float


class DecisionRecord(RecordPart, frozen=True):
    """See the module docstring. `result`: Unschedulable, Preempting, Error, or Evicted (`PreemptionRecord.cause`).

    An attempt that ends exactly as the one before does not make a new record: `repeated` counts, `first_time` is when
    that began, and everything else is as of the latest.
    """

    id: int
    time: str
    entity: EntityReference
    result: str
    message: str
    attempt: int
    timings: Timings
    api_version: str = ""
    kind: str = ""
    profile: str = ""
    first_time: str = ""
    repeated: int = 0
    nodes: int = 0
    reasons: tuple[ReasonCount, ...] = ()
    rejected_by: tuple[str, ...] = ()
    pods: tuple[MessageCount, ...] = ()
    members: MemberCounts | None = None
    levels: tuple[LevelRecord, ...] = ()
    """Of a tree of groups: the result of each that was tried, the root first; of many those that failed."""
    lack: Shortfall | None = None
    preemption: PreemptionRecord | None = None
    in_vain: FailedPreemption | None = None
    waits: DeferralRecord | None = None
    order: OrderRecord | None = None
    reservation: ReservationRecord | None = None
    resize: bool = False
    """The attempt was for the deferred resize of a running pod (resizes.md)."""


def _fill(part: msgspec.Struct, name: str, deprecated: str) -> None:
    """Give a field and its deprecated name the same value, whichever of them was written."""
    value = getattr(part, name) or getattr(part, deprecated)
    msgspec.structs.force_setattr(part, name, value)
    msgspec.structs.force_setattr(part, deprecated, value)


encode: Final = msgspec.json.Encoder().encode
decode: Final = msgspec.json.Decoder(DecisionRecord).decode
