"""The parts of a preemption decision: plain data that is not carried out yet."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from reprieve.cluster.groups import Group
from reprieve.cluster.pods import PodRecord
from reprieve.framework.diagnosis import Diagnosis
from reprieve.preemption.units import PreemptionUnit

CLUSTER_DOMAIN = "cluster"

REPRIEVE, PRIORITY_FLOOR = "Reprieve", "PriorityFloor"
"""Values of `victimSearch`: how victims of a pod group are searched (preemption.md 4, "Options")."""
COMPATIBLE, MINIMIZE_VICTIMS, SCORED = "Compatible", "MinimizeVictims", "Scored"
"""Values of `placement`: where a pod group preempts (preemption.md 4, "Options")."""

SUGGEST, MOVE = "Suggest", "Move"
"""Values of `moving`: whether units move for a pending pod (moving.md 4)."""

HOLD_SECONDS = 600.0
"""Default duration of a preemptor's reservation in seconds (`holdSeconds`, cost.md 5.1)."""

ALL_OR_NONE = "no pods are evicted for a gang if one of its resizes fails"
"""Message about deferred resizes (resizes.md 3.5); the pod that fails follows."""
NO_VICTIMS_POD = "No preemption victims found for incoming pod"
GROUP_UNSCHEDULABLE = "pod group is unschedulable"
NO_VICTIMS_GROUP = "No preemption victims found for incoming preemptor"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NEVER = "not eligible due to preemptionPolicy=Never."
TERMINATING = "not eligible due to a terminating pod on the nominated node."
GROUP_MEMBER = "not eligible due to workload aware preemption enabled"


class MissingAmount(NamedTuple):
    """An amount that would be missing on a row, and the requested amount, both in the column's unit."""

    resource: str
    short: int
    requested: int


def scarcest_first(missing: Iterable[MissingAmount]) -> tuple[MissingAmount, ...]:
    """Sort by the missing share of the request, largest first; then extended resources, by name."""
    return tuple(sorted(missing, key=lambda m: (-m.short / m.requested, m.resource in _EVERYWHERE, m.resource)))


_EVERYWHERE = ("cpu", "memory", "ephemeral-storage", "pods")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a unit could not be spared: if it stayed, this pod would no longer fit on this row."""

    pod: PodRecord
    row: int
    plugin: str
    text: str
    """As in a pod's condition, e.g. `Insufficient cpu`."""
    missing: tuple[MissingAmount, ...] = ()
    """All amounts that would be missing on the row, the scarcest first; empty for other reasons."""
    chosen: bool = False
    """A plugin named the unit (preemption.md 2.8), and every pod would still fit if the unit stayed."""

    @property
    def resource(self) -> str:
        """Return the scarcest resource."""
        return self.missing[0].resource if self.missing else ""

    @property
    def short(self) -> int:
        """Return the missing amount of that resource, in the column's unit."""
        return self.missing[0].short if self.missing else 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """A potential victim and its verdict; `reason` is None for a unit that was spared."""

    unit: PreemptionUnit
    violates_pdb: bool
    reason: Reason | None

    @property
    def evicted(self) -> bool:
        """Whether the unit is evicted."""
        return self.reason is not None


Cost = tuple[float, ...]
"""The sort key of candidates, cheapest first: a number by each criterion (`reprieve.preemption.cost`)."""


class Criterion(NamedTuple):
    """A criterion of evictions: its name in configurations, its preference, and the unit of its numbers."""

    name: str
    text: str
    measure: str


@dataclass(frozen=True, slots=True)
class CascadeStep:
    """One eviction in turn (cost.md 3): its round, the returning unit, and its victims."""

    level: int
    evictor: PreemptionUnit
    evicted: tuple[PreemptionUnit, ...]


@dataclass(frozen=True, slots=True)
class CascadeAvoided:
    """The eviction that would be cheaper if no victims returned: its victims, and their evictions in turn."""

    victims: tuple[PreemptionUnit, ...]
    steps: tuple[CascadeStep, ...]


@dataclass(frozen=True, slots=True)
class CandidateComparison:
    """The comparison that decided between candidates (preemption.md 3), with the second best.

    `steps` are (criterion, candidates left after it), for criteria that excluded some.
    """

    domain: str
    cost: Cost | None
    """None: no pods would be evicted there."""
    steps: tuple[tuple[str, int], ...] = ()


class LimitKind(Enum):
    """The part of the search for the cheapest eviction that a limit ended (cost.md 4.15)."""

    SPREAD_DOMAINS = "SpreadDomains"
    """A topology spread constraint has too many domains for members to be divided among them by cost."""
    SPREAD_SIZE = "SpreadSize"
    """One search for the members' places has too many nodes and units for that."""
    SPREAD_WORK = "SpreadWork"
    """Not all promising ways to divide the members were compared."""
    TREE_WORK = "TreeWork"
    """The same for topology domains of the groups of a tree."""


@dataclass(frozen=True, slots=True)
class SearchLimit:
    """A limit that was reached: the maximum, and the actual number if known."""

    kind: LimitKind
    most: int
    actual: int = 0


class DeferralReason(Enum):
    """Why a preemptor waits before it evicts pods."""

    DELAY = "PreemptionDelay"
    """The end of its own `preemption-delay`."""
    PREDECESSOR = "Predecessor"
    """Terminating pods of the same owner."""
    COMPLETIONS = "Completions"
    """Units that state when they end."""
    CHECKPOINT = "Checkpoint"
    """Its chosen victims to save their work."""
    MINIMUM_RUNTIME = "MinimumRuntime"
    """Units that are within their minimum runtime."""
    EVICTION_LIMIT = "EvictionLimit"
    """Units that were evicted as often as a limit allows."""


@dataclass(frozen=True, slots=True)
class Deferral:
    """A deferred preemption (cost.md 5.6, 5.7, 6): its reason, and its latest end."""

    why: DeferralReason
    message: str
    until: float | None = None
    """Seconds since the epoch at which it is tried again at the latest; None: only after an event."""
    pods: tuple[PodRecord, ...] = ()
    """The pods with capacity for which it waits."""
    nominations: tuple[tuple[PodRecord, int], ...] = ()
    """Reserved capacity until then."""


@dataclass(frozen=True, slots=True)
class PluginNominations:
    """(pod, row) of nominations that a plugin names without victims (preemption.md 2.8)."""

    places: tuple[tuple[PodRecord, int], ...]


class UnhelpfulReason(Enum):
    """Why no capacity was freed for a preemptor."""

    POLICY_NEVER = "PreemptionPolicyNever"
    UNDER_WAY = "UnderWay"
    """Its earlier victims are still terminating."""
    NO_LOWER_PRIORITY = "NoLowerPriority"
    """No running pod has a lower priority."""
    PROTECTED = "Protected"
    """All running pods of a lower priority are protected by annotations about work or by limits."""
    DOES_NOT_FIT = "DoesNotFit"
    """It would not fit without all potential victims."""
    BUDGETS = "Budgets"
    """Every eviction that would help violates a budget, and the preemptor's class respects them."""
    NOTHING_GAINED = "NothingGained"
    """No more of its members would fit without all potential victims."""
    ERROR = "Error"
    """A plugin failed during the search for victims."""


@dataclass(frozen=True, slots=True)
class UnhelpfulPreemption:
    """A preemption of a pod group that was not made: the potential victims, and why evicting them would not help."""

    group: Group
    why: UnhelpfulReason
    units: tuple[PreemptionUnit, ...] = ()
    """The potential victims, by importance."""
    placed: int = 0
    """Members that would be placed without all of them."""
    needed: int = 0
    """Members that must be placed."""
    pod: PodRecord | None = None
    """The first member that would not be placed."""
    diagnosis: Diagnosis | None = None
    """The reasons for it."""
    lowest: int | None = None
    """The lowest priority among running pods, if none is lower than the preemptor's."""

    @property
    def attempted(self) -> bool:
        """Whether victims were searched, so that it was not excluded from the start."""
        return self.why not in (UnhelpfulReason.POLICY_NEVER, UnhelpfulReason.UNDER_WAY)


@dataclass(frozen=True, slots=True)
class Preemption:
    """One decision to preempt. `verdicts` are in importance order; `nominations` in scheduling order."""

    pod: PodRecord | None
    group: Group | None
    priority: int
    domain: str
    """`cluster` or a placement's name for a group, the node's name for a single pod."""
    nominations: tuple[tuple[PodRecord, int], ...]
    verdicts: tuple[Verdict, ...]
    candidates: int = 1
    """Domains that would have worked; this one was the cheapest."""
    compared: CandidateComparison | None = None
    """The comparison with the next best of them."""
    criteria: tuple[Criterion, ...] = ()
    """The criteria by which candidates were compared, in order."""
    cost: Cost | None = None
    """The cost of this domain, by those criteria."""
    cascade: tuple[CascadeStep, ...] = ()
    """Evictions in turn by returning victims, as far as evaluated."""
    avoided: CascadeAvoided | None = None
    """The eviction that would have been chosen if no victims returned."""
    remains: tuple[PreemptionUnit, ...] = ()
    """Units that are not evicted, of gangs that are below their minimum with this eviction or without: not spared."""
    left_over: tuple[PodRecord, ...] = ()
    """Running pods of gangs that fall below their minimum by this eviction: their work is lost too."""
    together: tuple[str, ...] = ()
    """Names of the preemptors with which it was planned together (cost.md 8)."""
    resize: str = ""
    """The queued entity, if the preemption is for resizes of running pods on their own nodes (resizes.md)."""
    moves: tuple[tuple[PodRecord, int], ...] = ()
    """(pod, row): the new row of each victim pod, if the victims are moved (moving.md 4)."""
    limits: tuple[SearchLimit, ...] = ()
    """Limits that ended the search: beyond them a cheaper eviction may exist."""
    by_score: tuple[PreemptionUnit, ...] | None = None
    """Victims if the group were placed by score; None if no other eviction was considered."""

    @property
    def victims(self) -> list[Verdict]:
        """Units to evict, most important first."""
        return [v for v in self.verdicts if v.evicted]

    @property
    def reprieved(self) -> int:
        """Return the number of potential victims that were spared."""
        return sum(1 for v in self.verdicts if not v.evicted)

    @property
    def pdb_violations(self) -> int:
        """Return the number of evicted units that violate a budget."""
        return sum(1 for v in self.verdicts if v.evicted and v.violates_pdb)

    @property
    def kind(self) -> str:
        """Return the preemptor's kind for messages and metrics: `pod`, `podgroup` or `compositepodgroup`."""
        return self.group.kind.lower() if self.group is not None else "pod"

    @property
    def ref(self) -> str:
        """Return the preemptor's key in the queue: `pod/<uid>`, `group/<namespace>/<name>` or `composite/...`."""
        if self.resize:
            return self.resize
        if self.group is not None:
            return self.group.ref
        return f"pod/{self.pod.uid}" if self.pod is not None else ""
