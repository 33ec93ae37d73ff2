"""Recent evictions and the limits that count them (cost.md 9).

A unit counts for its namespace, its owner and its priority class, by name. Each limit has its own window.

Invariants: a unit counts once for each limit. A name keeps at most as many evictions as its limit allows, and none
older than the window. The names with the oldest evictions are dropped first.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

CLUSTER, NAMESPACE, OWNER, PRIORITY_CLASS = "cluster", "namespace", "owner", "priorityClass"
SCOPES: Final = (CLUSTER, NAMESPACE, OWNER, PRIORITY_CLASS)
"""The scopes of limits: `per`."""
EVICTIONS, REPEATS = "Evictions", "Repeats"
"""What a limit counts: `count`."""
_MOST_NAMES: Final = 65_536
"""The maximum number of names per limit."""


@dataclass(frozen=True, slots=True)
class EvictionLimit:
    """A limit of `most` evictions with the same `per` within a number of seconds."""

    per: str
    most: int
    within: float
    count: str = EVICTIONS
    """`Evictions`: every unit; `Repeats`: only units that started after the last counted eviction."""


DEFAULT_LIMITS: Final = (EvictionLimit(OWNER, 6, 3600.0, REPEATS),)
"""The limits without a configuration (cost.md 9.5)."""


class EvictedUnit(NamedTuple):
    """The names under which an evicted unit counts. `uid` and `start` are those of its first pod; None: not started."""

    uid: str
    namespace: str
    owner: str
    priority_class: str
    start: float | None

    def name(self, per: str) -> str:
        """Return the name under which the unit counts for limits of that scope."""
        return {CLUSTER: "", NAMESPACE: self.namespace, OWNER: self.owner, PRIORITY_CLASS: self.priority_class}[per]


class _Window:
    """The counted evictions of one limit. Times are seconds since the epoch."""

    def __init__(self, limit: EvictionLimit) -> None:
        self.limit = limit
        self._times: dict[str, dict[str, float]] = {}
        """By name: eviction times by UID, in order of time; the name with the oldest eviction first."""
        self._full: set[str] = set()
        """Names that may have reached the limit."""

    def note(self, unit: EvictedUnit, now: float) -> None:
        name = unit.name(self.limit.per)
        times = self._times.pop(name, {})
        if unit.uid not in times and (self.limit.count == EVICTIONS or _again(times, unit)):
            times[unit.uid] = now
        while len(times) > self.limit.most:
            del times[next(iter(times))]
        if len(times) == self.limit.most:
            self._full.add(name)
        self._times[name] = times
        while len(self._times) > 1:
            oldest, its_times = next(iter(self._times.items()))
            if len(self._times) <= _MOST_NAMES and max(its_times.values()) + self.limit.within > now:
                break
            del self._times[oldest]
            self._full.discard(oldest)

    def used(self, name: str, now: float) -> list[float]:
        """Return the times of the evictions that count now, earliest first."""
        return [when for when in self._times.get(name, {}).values() if when + self.limit.within > now]

    def counted(self, unit: EvictedUnit) -> bool:
        """Return whether the unit already counts, so that another eviction changes nothing."""
        return unit.uid in self._times.get(unit.name(self.limit.per), {})

    def at_limit(self, now: float) -> bool:
        """Return whether any name has reached the limit."""
        if not self._full:
            return False
        self._full = {name for name in self._full if len(self.used(name, now)) >= self.limit.most}
        return bool(self._full)


def _again(times: dict[str, float], unit: EvictedUnit) -> bool:
    """Return whether the unit started after the last counted eviction."""
    return not times or unit.start is None or unit.start > times[next(reversed(times))]


class EvictionHistory:
    """See the module docstring."""

    def __init__(self, limits: Iterable[EvictionLimit] = ()) -> None:
        self._windows = [_Window(limit) for limit in limits]
        self._every = any(window.limit.count == EVICTIONS for window in self._windows)
        """Whether a limit counts every unit."""

    @property
    def limits(self) -> tuple[EvictionLimit, ...]:
        """Return the limits, in the order of the configuration."""
        return tuple(window.limit for window in self._windows)

    @property
    def longest(self) -> float:
        """Return the longest window in seconds."""
        return max((limit.within for limit in self.limits), default=0.0)

    def note(self, unit: EvictedUnit, now: float) -> None:
        """Count an eviction; call it in order of time."""
        for window in self._windows:
            window.note(unit, now)

    def bind(self, now: float) -> bool:
        """Return whether the limits may forbid an eviction: some limit counts every unit or is reached for a name."""
        return self._every or any(window.at_limit(now) for window in self._windows)

    def used(self, limit: int, unit: EvictedUnit, now: float) -> list[float]:
        """Return the times of evictions that count with this unit for a limit (index), earliest first."""
        window = self._windows[limit]
        return window.used(unit.name(window.limit.per), now)

    def counted(self, limit: int, unit: EvictedUnit) -> bool:
        """Return whether the unit already counts for a limit, by its index."""
        return self._windows[limit].counted(unit)
