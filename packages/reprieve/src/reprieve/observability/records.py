"""The decision record: what one attempt that did not simply succeed tried, found and decided (observability.md).

Plain data that becomes JSON as it is; names in camelCase, empty fields left out.  Times are RFC 3339 in UTC, durations
seconds, amounts quantities as in manifests.

Invariant: a record is bounded: every list that grows with the cluster has a limit, with the full number beside it; only
the evicted units are all there.
"""

from __future__ import annotations

from typing import Final

import msgspec

from reprieve.cluster.resources import shortages_text

API_VERSION: Final = "reprieve.dev/v1alpha1"
KIND: Final = "DecisionRecord"
MOST_NAMES: Final = 10
MOST_REPRIEVED: Final = 100
MOST_LOOKED_AT: Final = 20
MOST_NOMINATIONS: Final = 200
MOST_MESSAGES: Final = 20
MOST_RELEASED: Final = 10
MOST_LEVELS: Final = 50


class Part(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, forbid_unknown_fields=False):
    """How all parts are written."""


class Ref(Part):
    """An object. `kind` is Pod, PodGroup or CompositePodGroup."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    priority: int = 0


class Reason(Part):
    """A reason and on how many nodes it holds; a node may have several."""

    reason: str
    nodes: int


class Message(Part):
    """A message in conditions of pods, and of how many; `names` are the first of them."""

    message: str
    reason: str
    pods: int
    names: list[str]


class Members(Part):
    """A pod group's attempt in numbers: how many were tried, how many of those found a place, what is asked for."""

    tried: int
    placed: int
    min_count: int = 0
    already_scheduled: int = 0


class Level(Part):
    """What became of one group of a tree (composite.md 3.3): `succeeded` of its children, `of` so many.

    `name` is `namespace/name`; children are pods, or groups of which `short` names the first that did not succeed.
    """

    kind: str
    name: str
    ok: bool
    needed: int
    succeeded: int
    of: int
    why: str = ""
    short: list[str] = []


class Shortage(Part):
    """What is missing for one pod, and on how many nodes exactly that; `names` are the first of them by name."""

    missing: dict[str, str]
    nodes: int
    names: list[str]


class TooBig(Part):
    """A request that no node could meet even when empty."""

    resource: str
    asked: str
    largest: str
    or_more: bool = False
    """`asked` is the most that is counted of a resource: it asks for that or for any amount above."""

    @property
    def clause(self) -> str:
        """`it asks for 16 cpu, and the largest node has 8`."""
        asked = f"{self.asked} {self.resource}"
        return f"it asks for {asked}{' or more' if self.or_more else ''}, and the largest node has {self.largest}"


class Shortfall(Part):
    """How far the pod, or the next member of a group, is from fitting, as far as resources go.

    `closest` are the nodes that lack least.  For a group of identical pods `more` is how many members are missing to
    minCount; each needs a place of its own.
    """

    closest: Shortage | None = None
    too_big: list[TooBig] = []
    more: int = 1


class Why(Part):
    """Why a unit had to go: with it back, `pod` would no longer fit on `node`. `short`: of `resource`, the scarcest."""

    pod: str
    node: str
    plugin: str
    text: str
    resource: str = ""
    short: str = ""
    missing: dict[str, str] = {}
    """Everything that would be missing there, the scarcest first: that has the largest share of what is asked for."""

    @property
    def clause(self) -> str:
        """The sentence without its beginning and end."""
        if self.missing:
            short = shortages_text(self.missing)
        else:
            short = f"{self.text} ({self.short} short)" if self.short else self.text
        return f"with it back, {self.pod} would not fit on {self.node}: {short}"


class Unit(Part):
    """A potential victim. `pod_names` and `nodes` are the first of them; `pods`, `nodes_total`: how many there are."""

    unit: str
    kind: str
    outcome: str
    """`Evicted`, `Reprieved` (everything still fits with it running), `LookedAt` (its going would not help) or
    `NotEvicted` (it was to be evicted, and the preemption failed before that)."""
    priority: int
    pods: int
    pod_names: list[str]
    nodes: list[str]
    uid: str = ""
    """Of the pod or the group; empty in records of versions that did not keep it."""
    pod_uids: list[str] = []
    """Of the pods in `pod_names`."""
    owners: list[str] = []
    """Controllers of its pods and of its group, of evicted units: `job default/train`, the first of them."""
    nodes_total: int = 0
    """0 in records of versions that did not count them."""
    running_seconds: float | None = None
    """Of its oldest pod, at the time of the decision."""
    violates_pdb: bool = False
    why: Why | None = None


class Cost(Part):
    """What the eviction costs."""

    units: int
    pods: int
    highest_priority: int
    pdb_violations: int = 0
    running_seconds_lost: float = 0.0
    """Summed over the pods whose start is known."""
    lost_gpu_hours: float = 0.0
    """Of pods with GPUs: hours worked since the last checkpoint or the start, times GPUs (cost.md 1.3)."""
    lost_cpu_hours: float = 0.0
    """The same of pods without GPUs, times CPUs."""
    by_criterion: dict[str, float] = {}
    """By what evictions are compared, in order (cost.md 1)."""


class Candidate(Part):
    """A domain that would have worked, by what decides between them (preemption.md 3), in that order."""

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


class Step(Part):
    """One criterion of the comparison, and how many candidates it left."""

    criterion: str
    left: int


class Comparison(Part):
    """How the domain was chosen. Without `runner_up` there was no other."""

    candidates: int
    chosen: Candidate
    decided_by: str = ""
    criterion: str = ""
    """The one that decided, as configurations call it; empty where it was none of them, such as a name."""
    values: list[str] = []
    """What the chosen one and the runner-up cost by it."""
    steps: list[Step] = []
    runner_up: Candidate | None = None


class Nomination(Part):
    """Room held for a pod."""

    pod: str
    node: str


class Released(Part):
    """Room that is not held any more. `nodes` are the first of them; `pods`: of how many nominations it was.

    `reason`: `NotUsed` (its time is over), `Deleted`, `Gated` or `PlacedElsewhere` (who it was held for), `NodeGone`,
    `Taken` (by a higher priority), `Moved` (room is made elsewhere instead) or `NoUse` (it does not help any more).
    """

    time: str
    reason: str
    message: str
    nodes: list[str]
    nodes_total: int
    pods: int


class InTurn(Part):
    """A victim that comes back and would evict others; `round`: 1 for the victims themselves (cost.md 3)."""

    round: int
    by: str
    evicted: list[str]
    pods: int


class Avoided(Part):
    """The eviction that would have been cheaper if nobody came back: who would have gone, and what would follow."""

    units: list[str]
    cascade: list[InTurn] = []


class PreemptionRecord(Part):
    """A decision to preempt: who goes, who is spared, why, and what became of it."""

    domain: str
    potential_victims: int
    evicted: list[Unit]
    reprieved: list[Unit]
    reprieved_total: int
    cost: Cost
    comparison: Comparison
    nominations: list[Nomination]
    nominations_total: int
    cascade: list[InTurn] = []
    """Whom the victims would evict in turn when they come back."""
    avoided: Avoided | None = None
    told: list[str] = []
    """Sentences on what it costs that is not in numbers of pods: lost work, evictions in turn."""
    state: str = "UnderWay"
    """`UnderWay`, `Done` (every API call was made) or `Failed`."""
    error: str = ""
    seconds: float = 0.0
    held_until: str = ""
    """Until when at the latest the room is held; empty: without an end."""
    released: list[Released] = []
    """How it was given back, where the preemptor is not what came of it."""


class InVain(Part):
    """Why no room was made for a pod group that needed some: the potential victims, and why they would not help.

    `reason`: `NoLowerPriority` (nobody who runs has a lower priority, the lowest is `lowest_priority`), `DoesNotFit`
    and `NothingGained` (with all potential victims gone, too few of its pods or no more than before would find a
    place), `PreemptionPolicyNever`, `UnderWay` (its victims of before are still leaving), `Error` (a plugin failed).
    """

    reason: str
    potential_victims: int = 0
    """Units."""
    pods: int = 0
    """Their pods."""
    looked_at: list[Unit] = []
    """The most important of them; their `outcome` is `LookedAt`."""
    placed: int = 0
    """Pods of the group that would find a place with all of them gone."""
    needed: int = 0
    """How many would have to."""
    pod: str = ""
    """The first that would find none, even then; `reasons` says why, on how many of the `nodes`."""
    nodes: int = 0
    reasons: list[Reason] = []
    lowest_priority: int | None = None


class Waits(Part):
    """Why nobody is evicted yet, where somebody might be. `pods` are the first of those it waits for, of so many.

    `reason`: `PreemptionDelay` (its own is not over), `Predecessor` (pods of the same owner are leaving, and their room
    is held for it), `Completions` (those who say when they end) or `MinimumRuntime` (whom it might evict has not run
    for as long as it is to).  `until`: it is tried again then, whatever happens; empty: when something happens.
    """

    reason: str
    message: str
    until: str = ""
    pods: list[str] = []
    pods_total: int = 0


class Order(Part):
    """A gang failed in the order in which its pods are tried, and a placement may exist: nothing is tried twice.

    `search`: `Greedy`, or `Retry` where other orders have been tried too.  `placed`: how many of its pods another order
    places; 0 where none is known and nothing rules one out.
    """

    search: str
    placed: int = 0


class Timings(Part):
    """`attempt_seconds`: this attempt; `waiting_seconds`: since the entity first might be tried."""

    attempt_seconds: float
    waiting_seconds: float


class DecisionRecord(Part):
    """See the module docstring. `result`: Unschedulable, Preempting or Error.

    An attempt that ends exactly as the one before does not make a new record: `repeated` counts, `first_time` is when
    that began, and everything else is as of the latest.
    """

    id: int
    time: str
    entity: Ref
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
    reasons: list[Reason] = []
    rejected_by: list[str] = []
    pods: list[Message] = []
    members: Members | None = None
    levels: list[Level] = []
    """Of a tree of groups: what became of each that was tried, the root first; of many those that failed."""
    lack: Shortfall | None = None
    preemption: PreemptionRecord | None = None
    in_vain: InVain | None = None
    waits: Waits | None = None
    order: Order | None = None


encode: Final = msgspec.json.Encoder().encode
decode: Final = msgspec.json.Decoder(DecisionRecord).decode
