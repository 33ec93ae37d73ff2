"""What a preemption decision consists of: plain data, nothing done yet."""

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
"""How victims of a pod group are searched for: `victimSearch` (preemption.md 4, "Options")."""
COMPATIBLE, MINIMIZE_VICTIMS, SCORED = "Compatible", "MinimizeVictims", "Scored"
"""Where room for a pod group is made: `placement` (preemption.md 4, "Options")."""

SUGGEST, MOVE = "Suggest", "Move"
"""What is done about units that could move for a pending pod: `moving` (moving.md 4)."""

HOLD_SECONDS = 600.0
"""For how long room is held for a preemptor (`holdSeconds`, cost.md 5.1)."""

ALL_OR_NONE = "no pods are evicted for a gang if one of its resizes fails"
"""Of deferred resizes (resizes.md 3.5); the pod that fails follows."""
NO_VICTIMS_POD = "No preemption victims found for incoming pod"
NO_VICTIMS_GROUP = "No preemption victims found for incoming preemptor"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NEVER = "not eligible due to preemptionPolicy=Never."
TERMINATING = "not eligible due to a terminating pod on the nominated node."
GROUP_MEMBER = "not eligible due to workload aware preemption enabled"


class Missing(NamedTuple):
    """An amount that would be missing on a row, in the column's unit, and what is asked for there."""

    resource: str
    short: int
    asked: int


def scarcest_first(found: Iterable[Missing]) -> tuple[Missing, ...]:
    """By the share of what is asked for that is missing, largest first; then extended resources, by name."""
    return tuple(sorted(found, key=lambda one: (-one.short / one.asked, one.resource in _EVERYWHERE, one.resource)))


_EVERYWHERE = ("cpu", "memory", "ephemeral-storage", "pods")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a unit could not be spared: if it stayed, this pod would no longer fit on this row."""

    pod: PodRecord
    row: int
    plugin: str
    text: str
    """As in a pod's condition, e.g. `Insufficient cpu`."""
    missing: tuple[Missing, ...] = ()
    """Everything that would be missing on the row, the scarcest first; empty where it is not a matter of amounts."""
    chosen: bool = False
    """A plugin named the unit (preemption.md 2.8), and every pod would still fit if the unit stayed."""

    @property
    def resource(self) -> str:
        """Return the scarcest resource."""
        return self.missing[0].resource if self.missing else ""

    @property
    def short(self) -> int:
        """Return how much of it would be missing, in the column's unit."""
        return self.missing[0].short if self.missing else 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """A potential victim and what became of it; `reason` is None for a unit that was spared."""

    unit: PreemptionUnit
    violates_pdb: bool
    reason: Reason | None

    @property
    def evicted(self) -> bool:
        """It is evicted."""
        return self.reason is not None


Cost = tuple[float, ...]
"""What orders candidates, cheapest first: a number by each criterion (`reprieve.preemption.cost`)."""


class Criterion(NamedTuple):
    """By what evictions are compared: as configurations call it, what it prefers, and what its numbers count."""

    name: str
    text: str
    measure: str


@dataclass(frozen=True, slots=True)
class CascadeStep:
    """One eviction in turn (cost.md 3): its round, the unit that came back, and what it would evict."""

    level: int
    evictor: PreemptionUnit
    evicted: tuple[PreemptionUnit, ...]


@dataclass(frozen=True, slots=True)
class CascadeAvoided:
    """What would have been cheaper if no victims came back: those victims, and their evictions in turn."""

    victims: tuple[PreemptionUnit, ...]
    steps: tuple[CascadeStep, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison that decided between candidates (preemption.md 3): the runner-up, and how the field narrowed.

    `steps` are (criterion, candidates left after it), only where it ruled some out.
    """

    domain: str
    cost: Cost | None
    """None: no pods would be evicted there."""
    steps: tuple[tuple[str, int], ...] = ()


class LimitKind(Enum):
    """What part of the search for the cheapest eviction a limit ended (cost.md 4.15)."""

    SPREAD_DOMAINS = "SpreadDomains"
    """A topology spread constraint has too many domains for members to be divided among them by cost."""
    SPREAD_SIZE = "SpreadSize"
    """One search for the members' places has too many nodes and units for that."""
    SPREAD_WORK = "SpreadWork"
    """Not all ways to divide the members that seemed worth it were compared."""
    TREE_WORK = "TreeWork"
    """The same of topology domains for the groups of a tree."""


@dataclass(frozen=True, slots=True)
class SearchLimit:
    """A limit that was reached: how many are considered at most, and how many there are where that is known."""

    kind: LimitKind
    most: int
    there: int = 0


class WaitsFor(Enum):
    """What a preemptor waits for before it evicts any pods."""

    DELAY = "PreemptionDelay"
    """Its own `preemption-delay` to be over."""
    PREDECESSOR = "Predecessor"
    """Leaving pods of the same owner."""
    COMPLETIONS = "Completions"
    """Units that say when they end."""
    CHECKPOINT = "Checkpoint"
    """Its chosen victims to save their work."""
    MINIMUM_RUNTIME = "MinimumRuntime"
    """Units that have not run for as long as they are to."""
    EVICTION_LIMIT = "EvictionLimit"
    """Units that were evicted as often as a limit allows."""


@dataclass(frozen=True, slots=True)
class Deferral:
    """A deferred preemption (cost.md 5.6, 5.7, 6): for what, and until when at the latest."""

    why: WaitsFor
    message: str
    until: float | None = None
    """Seconds since the epoch: then it is tried again, whatever happens; None: when something happens."""
    pods: tuple[PodRecord, ...] = ()
    """It waits for their capacity."""
    nominations: tuple[tuple[PodRecord, int], ...] = ()
    """Room that is held meanwhile."""


@dataclass(frozen=True, slots=True)
class Nominated:
    """(pod, row) of nominations that a plugin names without victims (preemption.md 2.8)."""

    places: tuple[tuple[PodRecord, int], ...]


class NoRoom(Enum):
    """Why no capacity was freed for a preemptor."""

    POLICY_NEVER = "PreemptionPolicyNever"
    UNDER_WAY = "UnderWay"
    """Its victims of before are still leaving."""
    NO_LOWER_PRIORITY = "NoLowerPriority"
    """No running pod has a lower priority."""
    PROTECTED = "Protected"
    """All running pods of a lower priority are protected by annotations about work or by limits."""
    DOES_NOT_FIT = "DoesNotFit"
    """It would not fit with every potential victim gone."""
    BUDGETS = "Budgets"
    """Every eviction that would help violates a budget, and the preemptor's class respects them."""
    NOTHING_GAINED = "NothingGained"
    """No more of its members would fit with every potential victim gone than do now."""
    ERROR = "Error"
    """A plugin failed during the search for victims."""


@dataclass(frozen=True, slots=True)
class UnhelpfulPreemption:
    """A preemption of a pod group that did not come about: what was considered, and why it did not help."""

    group: Group
    why: NoRoom
    units: tuple[PreemptionUnit, ...] = ()
    """The potential victims, by importance."""
    placed: int = 0
    """Members that would find a place with all of them gone."""
    needed: int = 0
    """Members that would have to."""
    pod: PodRecord | None = None
    """The first member that would not."""
    diagnosis: Diagnosis | None = None
    """Why it would not."""
    lowest: int | None = None
    """The lowest priority among all that runs, where none is lower than the preemptor's."""

    @property
    def attempted(self) -> bool:
        """Victims were searched for: it was not out of the question from the start."""
        return self.why not in (NoRoom.POLICY_NEVER, NoRoom.UNDER_WAY)


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
    compared: Compared | None = None
    """The next best of them."""
    criteria: tuple[Criterion, ...] = ()
    """By what candidates were compared, in order."""
    cost: Cost | None = None
    """What this one costs, by those criteria."""
    cascade: tuple[CascadeStep, ...] = ()
    """Evictions in turn when the victims come back, as far as that was evaluated."""
    avoided: CascadeAvoided | None = None
    """The eviction that would have been chosen if no victims came back."""
    remains: tuple[PreemptionUnit, ...] = ()
    """Units that are not evicted, of gangs that are below their minimum with this eviction or without: not spared."""
    left_over: tuple[PodRecord, ...] = ()
    """Running pods of gangs that fall below their minimum by this eviction: their work is lost as well."""
    together: tuple[str, ...] = ()
    """Names of the preemptors with which it was planned together (cost.md 8)."""
    resize: str = ""
    """It is for resizes of running pods on their own nodes (resizes.md): what they wait in, as the queue calls it."""
    moves: tuple[tuple[PodRecord, int], ...] = ()
    """(pod, row): the victims are moved; where each pod of them is to run next (moving.md 4)."""
    limits: tuple[SearchLimit, ...] = ()
    """Limits that ended the search: beyond them a cheaper eviction may exist."""
    by_score: tuple[PreemptionUnit, ...] | None = None
    """Victims if the group were placed by score; None where nothing else was considered."""

    @property
    def victims(self) -> list[Verdict]:
        """Units to evict, most important first."""
        return [v for v in self.verdicts if v.evicted]

    @property
    def reprieved(self) -> int:
        """Return how many potential victims were spared."""
        return sum(1 for v in self.verdicts if not v.evicted)

    @property
    def pdb_violations(self) -> int:
        """Return how many evicted units violate a budget."""
        return sum(1 for v in self.verdicts if v.evicted and v.violates_pdb)

    @property
    def kind(self) -> str:
        """Return what needs the room: `pod`, `podgroup` or `compositepodgroup`, as messages and metrics have it."""
        return self.group.kind.lower() if self.group is not None else "pod"

    @property
    def ref(self) -> str:
        """`pod/<uid>`, `group/<namespace>/<name>` or `composite/...`: as the queue calls the preemptor."""
        if self.resize:
            return self.resize
        if self.group is not None:
            return self.group.ref
        return f"pod/{self.pod.uid}" if self.pod is not None else ""
