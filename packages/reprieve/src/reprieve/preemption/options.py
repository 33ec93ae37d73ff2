"""Options of preemption: as configured, and for the search for victims."""

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
    """Options of preemption.md 4."""
    cost: Sequence[str] = STANDARD
    """Names of the criteria by which evictions are compared, also of PreemptionCost plugins (cost.md 1)."""
    cascade_depth: int = 0
    """The number of rounds of evictions in turn that are evaluated (cost.md 3)."""
    hold_seconds: float = HOLD_SECONDS
    """Maximum seconds of a preemptor's reservation, 0 without an end (cost.md 5.1)."""
    successor: bool = True
    """Whether a predecessor's capacity counts as the preemptor's own (cost.md 5.6)."""
    wait_for_completions: float = 0.0
    """Seconds to wait for units with an expected end (cost.md 6)."""
    together: bool = True
    """Whether preemptors of one priority that are pending at the same time are planned together (cost.md 8)."""
    wait_for_checkpoint: float = 0.0
    """Seconds to wait for the next checkpoint of the victims (cost.md 6.6)."""
    moves: bool = False
    """Whether movable units are moved for pending pods, not only suggested (moving.md 4)."""
    moves_per_hour: int = 60
    """Maximum number of units moved within an hour (moving.md 4)."""
    eviction_limits: Sequence[EvictionLimit] = DEFAULT_LIMITS
    """The limits of evictions (cost.md 9); those of the first profile count."""
    plain: bool = False
    share: bool = True
    """Both select reference paths, for property tests."""


@dataclass(frozen=True, slots=True)
class EvictionOptions:
    """Options of the search for victims in one profile, for single pods and for groups.

    `victim_search` PriorityFloor: no unit above the lowest sufficient priority is evicted. `placement` MinimizeVictims:
    the cheapest eviction anywhere is searched, not only the result of a reprieve (cost.md 4.8); for groups budgets are
    counted over the victims, so that candidates are comparable.
    """

    group_policy: bool = True
    """The gate PodGroupPreemptionPolicy."""
    victim_search: str = REPRIEVE
    placement: str = MINIMIZE_VICTIMS
    criteria: Criteria = DEFAULT
    """The criteria by which evictions are compared (cost.md 1)."""
    cascades: Cascades | None = None
    """The evaluation of evictions in turn, if configured (cost.md 3)."""
    plain: bool = False
    share: bool = True
    """Both select reference paths, for property tests."""
