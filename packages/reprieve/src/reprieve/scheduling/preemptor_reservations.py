"""Capacity that is reserved for preemptors by nominations: its duration and its release (cost.md 5).

Victims terminate so that their preemptor can run.  Until it is bound its nominations keep pods of the same or a lower
priority off the capacity.  A reservation must not last forever: it ends `holdSeconds` after the capacity was free, that
is after the last victim had terminated, or should have by its grace period.

Long-pending workloads have reservations of another kind: `reprieve.scheduling.advance_reservations`.

Every reservation that ends without the preemptor on its node is reported as a `ReleasedReservation`.

Invariant: a reservation is kept until it ends at the latest; without nominations it is forgotten when it is due.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from reprieve.cluster.evictions import EvictionLimit
from reprieve.cluster.groups import Group
from reprieve.cluster.pods import PodRecord
from reprieve.framework.plugin_guard import first_of
from reprieve.framework.profile import Profile
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.outcome import HOLD_SECONDS


def hold_seconds(profile: Profile) -> float:
    """Return the duration of reservations for pods of a profile: `holdSeconds`; 0 without an end."""
    plugin = first_of(DefaultPreemption, profile.plugins)
    return plugin.hold_seconds if plugin is not None else HOLD_SECONDS


def eviction_limits(profiles: Iterable[Profile]) -> tuple[EvictionLimit, ...]:
    """Return the limits of evictions: `evictionLimits` of the first profile that preempts (cost.md 9)."""
    plugin = first_of(DefaultPreemption, (plugin for profile in profiles for plugin in profile.plugins))
    return plugin.eviction_limits if plugin is not None else ()


def waits_for_completions(profiles: Iterable[Profile]) -> bool:
    """Return whether pods of any of the profiles may wait for pods that end by themselves: `waitForCompletions`."""
    plugins = (first_of(DefaultPreemption, profile.plugins) for profile in profiles)
    return any(plugin is not None and plugin.waits_for_completions for plugin in plugins)


class Released(Enum):
    """The reason why a reservation ended."""

    NOT_USED = "NotUsed"
    """It expired."""
    DELETED = "Deleted"
    """The preemptor is deleted."""
    GATED = "Gated"
    """The preemptor may no longer be tried."""
    PLACED_ELSEWHERE = "PlacedElsewhere"
    """The preemptor has other nodes."""
    NODE_GONE = "NodeGone"
    TAKEN = "Taken"
    """A pod of a higher priority takes it."""
    MOVED = "Moved"
    """Capacity is freed elsewhere instead."""
    NO_USE = "NoUse"
    """Freeing capacity there no longer helps."""


@dataclass(frozen=True, slots=True)
class ReleasedReservation:
    """Capacity that was reserved for a preemptor and is free for others again. `pods`: (pod, reserved node)."""

    ref: str
    """`pod/<uid>` or `group/<namespace>/<name>`."""
    group: Group | None
    pods: tuple[tuple[PodRecord, str], ...]
    reason: Released
    message: str
    """A clause with the reason of the release."""
    released_at: float
    """Seconds since the epoch."""

    @property
    def nodes(self) -> list[str]:
        """Return the nodes, each once, in the order of the pods."""
        return list(dict.fromkeys(node for _, node in self.pods))


@dataclass(slots=True)
class _Hold:
    end: float
    seconds: float


class PreemptorReservations:
    """The ends of reservations, by the refs of the preemptors' entities. Times are seconds."""

    def __init__(self) -> None:
        self._holds: dict[str, _Hold] = {}
        self._ends: list[tuple[float, str]] = []

    def __contains__(self, ref: str) -> bool:
        return ref in self._holds

    def __len__(self) -> int:
        return len(self._holds)

    def begin(self, ref: str, room_by: float, seconds: float) -> float | None:
        """Reserve until `seconds` after the capacity is due to be free; return the end. 0: without an end."""
        self._holds.pop(ref, None)
        if seconds <= 0:
            return None
        until = room_by + seconds
        self._holds[ref] = _Hold(until, seconds)
        heapq.heappush(self._ends, (until, ref))
        return until

    def end_of(self, ref: str) -> float | None:
        """Return when the reservation ends, as far as known now."""
        hold = self._holds.get(ref)
        return hold.end if hold is not None else None

    def start_now(self, refs: Iterable[str], now: float) -> None:
        """Start the time now, because the last victims have terminated, perhaps early."""
        for ref in refs:
            hold = self._holds.get(ref)
            if hold is not None and now + hold.seconds < hold.end:
                hold.end = now + hold.seconds
                heapq.heappush(self._ends, (hold.end, ref))

    def forget(self, ref: str) -> None:
        """End the reservation."""
        self._holds.pop(ref, None)

    def end_due(self, now: float) -> list[tuple[str, float]]:
        """End the reservations that are due; return (ref, duration in seconds) of each."""
        ended = []
        while self._ends and self._ends[0][0] <= now:
            until, ref = heapq.heappop(self._ends)
            hold = self._holds.get(ref)
            if hold is not None and hold.end == until:
                del self._holds[ref]
                ended.append((ref, hold.seconds))
        return ended

    def next_end(self) -> float | None:
        """Return when the next reservation ends."""
        while self._ends:
            until, ref = self._ends[0]
            hold = self._holds.get(ref)
            if hold is not None and hold.end == until:
                return until
            heapq.heappop(self._ends)
        return None
