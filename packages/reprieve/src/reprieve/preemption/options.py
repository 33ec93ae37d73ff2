"""What may be chosen about preemption: as it is configured, and as the search for victims gets it."""

from collections.abc import Sequence
from dataclasses import dataclass

from reprieve.cluster.evictions import DEFAULT_LIMITS, EvictionLimit
from reprieve.preemption.cascade import Cascades
from reprieve.preemption.cost import DEFAULT, Criteria
from reprieve.preemption.criteria import STANDARD
from reprieve.preemption.outcome import HOLD_SECONDS, MINIMIZE_VICTIMS, REPRIEVE


@dataclass(frozen=True, slots=True)
class PreemptionOptions:
    """The args of DefaultPreemption, checked; times are seconds."""

    group_policy: bool = True
    """The gate PodGroupPreemptionPolicy."""
    victim_search: str = REPRIEVE
    placement: str = MINIMIZE_VICTIMS
    """Both: preemption.md 4."""
    cost: Sequence[str] = STANDARD
    """Names of the criteria by which evictions are compared, also of PreemptionCost plugins (cost.md 1)."""
    cascade_depth: int = 0
    """How many rounds of evictions in turn are evaluated (cost.md 3)."""
    hold_seconds: float = HOLD_SECONDS
    """For how long room is held for a preemptor at most, 0 without an end (cost.md 5.1)."""
    successor: bool = True
    """What a predecessor leaves counts as the preemptor's own (cost.md 5.6)."""
    wait_for_completions: float = 0.0
    """For how long units with an expected end are waited for (cost.md 6)."""
    together: bool = True
    """Preemptors of one priority that pend at the same time are planned together (cost.md 8)."""
    wait_for_checkpoint: float = 0.0
    """For how long the next checkpoint of the victims is waited for (cost.md 6.6)."""
    moves: bool = False
    """Movable units are moved for pending pods, not only suggested to be (moving.md 4)."""
    moves_per_hour: int = 60
    """How many units are moved within an hour at most (moving.md 4)."""
    eviction_limits: Sequence[EvictionLimit] = DEFAULT_LIMITS
    """How often anything may be evicted (cost.md 9); those of the first profile count."""
    plain: bool = False
    share: bool = True
    """Both select reference paths, for property tests."""


@dataclass(frozen=True, slots=True)
class EvictionOptions:
    """How victims are searched for in one profile, for single pods and for groups.

    `victim_search` PriorityFloor: no unit above the lowest priority that suffices is touched.  `placement`
    MinimizeVictims: the cheapest eviction that makes room anywhere is sought, not only what a reprieve leaves
    (cost.md 4.8); for groups budgets are counted over the victims, so that candidates are compared by one
    yardstick.
    """

    group_policy: bool = True
    """The gate PodGroupPreemptionPolicy."""
    victim_search: str = REPRIEVE
    placement: str = MINIMIZE_VICTIMS
    criteria: Criteria = DEFAULT
    """By what evictions are compared (cost.md 1)."""
    cascades: Cascades | None = None
    """Whether evictions in turn are evaluated (cost.md 3)."""
    plain: bool = False
    share: bool = True
    """Both select reference paths, for property tests."""
