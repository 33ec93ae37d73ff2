"""The decision record: what a not simply successful attempt tried, found and decided (observability.md).

Plain data that is serialized to JSON as it is: names in camelCase, empty fields omitted. Times are RFC 3339 in UTC,
durations are seconds, amounts are quantities as in manifests.

Invariant: a record is bounded. Every list that grows with the cluster has a limit, with the full number next to it;
only the evicted units are always complete.
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

    `missing`: amounts by resource, scarcest first. If it is empty, `reason` explains it.
    """
    return f"if it stayed, {pod} would not fit on {node}: {shortages_text(missing) if missing else reason}"


class RecordPart(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Serialization settings of all parts. Fields of later versions are ignored."""


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
    """A reason and the number of nodes to which it applies. A node may have several reasons."""

    reason: str
    nodes: int


class MessageCount(RecordPart, frozen=True):
    """A message in pod conditions and the number of pods with it. `names`: the first of these pods."""

    message: str
    reason: str
    pods: int
    names: tuple[str, ...]


class MemberCounts(RecordPart, frozen=True):
    """Figures of a pod group's attempt: pods tried, pods that fit, and the group's minimum."""

    tried: int
    placed: int
    min_count: int = 0
    already_scheduled: int = 0


class LevelRecord(RecordPart, frozen=True):
    """The result of one group of a tree (composite.md 3.3): `succeeded` of its `of` children.

    `name` is `namespace/name`. Children are pods or groups; `short` names the first child groups that failed.
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
    """The amounts missing for one pod, and the number of nodes with exactly this shortage. `names`: the first."""

    missing: dict[str, str]
    nodes: int
    names: tuple[str, ...]
    at_least: bool = False
    """Other obstacles than amounts are possible there, so more may have to be freed."""


class OversizedRequest(RecordPart, frozen=True):
    """A request that no node could satisfy even if it were empty."""

    resource: str
    asked: str
    largest: str
    or_more: bool = False
    """`asked` is the highest amount that is counted: the request is for that amount or more."""

    @property
    def clause(self) -> str:
        """Return `it asks for 16 cpu, but the largest node has 8`."""
        amount = f"{self.asked} {self.resource}"
        return f"it asks for {amount}{' or more' if self.or_more else ''}, but the largest node has {self.largest}"


class Shortfall(RecordPart, frozen=True):
    """The resources missing for the pod, or for the next member of a group.

    `closest` are the nodes with the smallest shortage. For a group of identical pods, `more` is the number of members
    missing to minCount, each of which needs its own place.
    """

    closest: Shortage | None = None
    too_big: tuple[OversizedRequest, ...] = ()
    more: int = 1


class EvictionReason(RecordPart, frozen=True):
    """Why a unit is evicted: if it stayed, `pod` would not fit on `node`. `short`: of `resource`, the scarcest one."""

    pod: str
    node: str
    plugin: str
    text: str
    resource: str = ""
    short: str = ""
    missing: dict[str, str] = {}
    """All resources that would be missing there, scarcest first: the largest share of the request."""

    @property
    def clause(self) -> str:
        """Return the reason as part of a sentence."""
        text = f"{self.text} ({self.short} short)" if self.short else self.text
        return would_not_fit(self.pod, self.node, self.missing, text)


class UnitRecord(RecordPart, frozen=True):
    """A potential victim. `pod_names` and `nodes` list the first ones; `pods` and `nodes_total` are the totals."""

    unit: str
    kind: str
    outcome: str
    """`Evicted`, `Reprieved` (everything still fits while it runs), `LookedAt` (its eviction would not help) or
    `NotEvicted` (the preemption failed before its planned eviction)."""
    priority: int
    pods: int
    pod_names: tuple[str, ...]
    nodes: tuple[str, ...]
    uid: str = ""
    """UID of the pod or group; empty in records of versions without it."""
    pod_uids: tuple[str, ...] = ()
    """UIDs of the pods in `pod_names`."""
    owners: tuple[str, ...] = ()
    """The first controllers of an evicted unit's pods and group, such as `job default/train`."""
    owner: str = ""
    """Of an evicted unit: the owner used by eviction limits: a controller, or the group or pod itself (cost.md 9.2)."""
    priority_class: str = ""
    """Of an evicted unit: the priority class used by eviction limits."""
    nodes_total: int = 0
    """0 in records of versions without it."""
    running_seconds: float | None = None
    """Running time of its oldest pod at the time of the decision."""
    violates_pdb: bool = False
    why: EvictionReason | None = None
    chosen_by: str = ""
    """The plugin that selected it as a victim (preemption.md 2.8); then there is no other reason."""
    moves_to: tuple[str, ...] = ()
    """The node to which each of `pod_names` moves; empty if it does not move (moving.md 4)."""
    because: str = ""
    """Why it is evicted without a preemption (`PreemptionRecord.cause`)."""

    @property
    def reason(self) -> str:
        """Return why it is evicted, as part of a sentence; empty if unknown."""
        if self.why is not None:
            return self.why.clause
        if self.moves_to:
            return f"moves to {', '.join(dict.fromkeys(self.moves_to))}"
        return f"chosen by plugin {self.chosen_by}" if self.chosen_by else self.because


class CostRecord(RecordPart, frozen=True):
    """The cost of the eviction."""

    units: int
    pods: int
    highest_priority: int
    pdb_violations: int = 0
    running_seconds_lost: float = 0.0
    """Sum over the pods with a known start."""
    lost_gpu_hours: float = 0.0
    """Pods with GPUs: hours of work since the last checkpoint or the start, times GPUs (cost.md 1.3)."""
    lost_cpu_hours: float = 0.0
    """Pods without GPUs: the same, times CPUs."""
    by_criterion: dict[str, float] = {}
    """The costs by which evictions are compared, in order (cost.md 1)."""


class CandidateRecord(RecordPart, frozen=True):
    """A feasible domain with its values for the decisive criteria (preemption.md 3), in their order."""

    domain: str
    pdb_violations: int = 0
    highest_priority: int = 0
    priority_sum: int = 0
    """Sum over the victims, each plus 2^31."""
    pods: int = 0
    earliest_start: str = ""
    """Earliest start among the victims with the highest priority; later is cheaper."""
    others: dict[str, float] = {}
    """Values for additionally configured criteria (cost.md 1)."""


class ComparisonStep(RecordPart, frozen=True):
    """One criterion of the comparison, and the number of candidates remaining after it."""

    criterion: str
    left: int


class Comparison(RecordPart, frozen=True):
    """How the domain was chosen. `runner_up` is None if there was no alternative."""

    candidates: int
    chosen: CandidateRecord
    decided_by: str = ""
    criterion: str = ""
    """The configuration's name of the decisive criterion; empty for other criteria, such as a name."""
    values: tuple[str, ...] = ()
    """Values of the chosen candidate and the runner-up for that criterion."""
    steps: tuple[ComparisonStep, ...] = ()
    runner_up: CandidateRecord | None = None


class NominationRecord(RecordPart, frozen=True):
    """A pod and the node on which capacity is reserved for it."""

    pod: str
    node: str


class ReleaseRecord(RecordPart, frozen=True):
    """Reserved capacity that was released. `nodes` lists the first ones; `pods` is the number of nominations.

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
    """A victim that returns and would evict others. `round`: 1 for the victims themselves (cost.md 3)."""

    round: int
    by: str
    evicted: tuple[str, ...]
    pods: int


class AvoidedEviction(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The eviction that would be cheaper if no victim returned: its victims, and the subsequent evictions."""

    units: tuple[str, ...]
    cascade: tuple[EvictionInTurn, ...] = ()


GANG_RESTARTED: Final = "GangRestarted"
"""A degraded gang is evicted as a whole (repair.md 4): reason of the event, and cause in records."""
BACKFILL_OVERRUN: Final = "BackfillOverrun"
"""Backfilled work that runs too long is evicted (reservations.md 4.5)."""


class PreemptionRecord(RecordPart, frozen=True):
    """A decision to preempt: evicted and spared units, the reasons, and the outcome."""

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
    """The subsequent evictions by victims when they return."""
    avoided: AvoidedEviction | None = None
    cost_notes: tuple[str, ...] = ()
    """Sentences on costs other than numbers of pods: lost work, subsequent evictions."""
    told: tuple[str, ...] = ()
    """Deprecated name of `cost_notes`."""
    state: str = "UnderWay"
    """`UnderWay`, `Done` (every API call was made) or `Failed`."""
    error: str = ""
    seconds: float = 0.0
    held_until: str = ""
    """Latest time until which capacity is reserved; empty if unlimited."""
    released: tuple[ReleaseRecord, ...] = ()
    """How the capacity was released, if the preemptor does not use it."""
    together: tuple[str, ...] = ()
    """The first preemptors with which it was planned together (`namespace/name`)."""
    cause: str = ""
    """`GangRestarted` or `BackfillOverrun`: an eviction without a preemption, so nothing was compared or spared. The
    entity is the restarted group, or the holder of the reservation that needs the capacity."""

    def __post_init__(self) -> None:
        """Read the field names of earlier versions."""
        _fill(self, "cost_notes", "told")


class FailedPreemption(RecordPart, frozen=True):
    """Why nothing is evicted for a pod group that needs capacity: the potential victims, and why they do not help.

    `reason`: `NoLowerPriority` (no running workload has a lower priority; the lowest is `lowest_priority`), `Protected`
    (all running workloads of lower priority are protected by annotations or limits), `DoesNotFit` and `NothingGained`
    (with all potential victims evicted, too few of its pods or no more than before would fit), `PreemptionPolicyNever`,
    `UnderWay` (earlier victims are still terminating), `Error` (a plugin failed).
    """

    reason: str
    potential_victims: int = 0
    """Number of units."""
    pods: int = 0
    """Number of their pods."""
    considered: tuple[UnitRecord, ...] = ()
    """The most important units; their `outcome` is `LookedAt`."""
    looked_at: tuple[UnitRecord, ...] = ()
    """Deprecated name of `considered`."""
    placed: int = 0
    """Number of the group's pods that would fit with all potential victims evicted."""
    needed: int = 0
    """Number of pods that must fit."""
    pod: str = ""
    """The first pod that would not fit even then. `reasons` has the reasons and their numbers of `nodes`."""
    nodes: int = 0
    reasons: tuple[ReasonCount, ...] = ()
    lowest_priority: int | None = None

    def __post_init__(self) -> None:
        """Read the field names of earlier versions."""
        _fill(self, "considered", "looked_at")


class DeferralRecord(RecordPart, frozen=True):
    """Why nothing is evicted yet, although preemption may help. `pods`: the first pods it waits for.

    `reason`: `PreemptionDelay` (its own delay has not ended), `Predecessor` (pods of the same owner are terminating,
    and their capacity is reserved for it), `Completions` (pods with a stated end), `Checkpoint` (victims that will soon
    save their work), `MinimumRuntime` (potential victims that have not run for their minimum) or `EvictionLimit`
    (potential victims that were evicted as often as a limit allows). `until`: the time of the next attempt in any case;
    empty if it waits for an event.
    """

    reason: str
    message: str
    until: str = ""
    pods: tuple[str, ...] = ()
    pods_total: int = 0


class ReservationRecord(RecordPart, frozen=True):
    """Capacity that the entity holds until it starts (reservations.md 6.4). `nodes` and `waits_for`: the first ones.

    `expected_start`: RFC 3339, empty if blocking pods have no stated end. `message` has it in words.
    """

    nodes: tuple[str, ...]
    nodes_total: int
    expected_start: str
    waits_for: tuple[str, ...]
    waits_for_total: int
    message: str
    backfill: str


class OrderRecord(RecordPart, frozen=True):
    """A gang failed with its pods tried in order, but a placement may exist, as pods are not tried again.

    `search`: `Greedy`, or `Retry` if other orders were tried too. `placed`: number of its pods that another order
    places; 0 if no such order is known but one cannot be excluded.
    """

    search: str
    placed: int = 0


class Timings(RecordPart, frozen=True):
    """`attempt_seconds`: duration of this attempt. `waiting_seconds`: time since the entity could first be tried."""

    attempt_seconds: float
    waiting_seconds: float


class DecisionRecord(RecordPart, frozen=True):
    """See the module docstring. `result`: Unschedulable, Preempting, Error, or Evicted (`PreemptionRecord.cause`).

    An attempt with the same outcome as the previous one updates its record: `repeated` is the number of repetitions and
    `first_time` the time of the first attempt. Everything else is from the latest attempt.
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
    """Of a tree of groups: the result of each tried group, the root first; if there are many, failed ones first."""
    lack: Shortfall | None = None
    preemption: PreemptionRecord | None = None
    in_vain: FailedPreemption | None = None
    waits: DeferralRecord | None = None
    order: OrderRecord | None = None
    reservation: ReservationRecord | None = None
    resize: bool = False
    """The attempt was for the deferred resize of a running pod (resizes.md)."""


def _fill(part: msgspec.Struct, name: str, deprecated: str) -> None:
    """Give a field and its deprecated name the same value, whichever was set."""
    value = getattr(part, name) or getattr(part, deprecated)
    msgspec.structs.force_setattr(part, name, value)
    msgspec.structs.force_setattr(part, deprecated, value)


encode: Final = msgspec.json.Encoder().encode
decode: Final = msgspec.json.Decoder(DecisionRecord).decode
