"""The order in which entities are tried: QueueSort, degraded gangs first, ageing.

Ageing (reservations.md 8): an entity that has failed for `ageing` seconds precedes all that have not, whatever their
priority.  Its age does not let it evict more.

An entity that eviction limits would protect once it runs follows all others of its priority while they would (cost.md
9.9).
"""

import heapq
from collections.abc import Callable, Iterator

from reprieve.queueing.entity import Entity

_EARLIER = float(1 << 40)
"""Seconds by which the arrival of entities put first is moved back, and of those put last forward."""
_CRITICAL = 2_000_000_000
"""The priority of system-cluster-critical, which no aged entity precedes."""
_FEWEST_KEPT = 256


class QueueOrder:
    """See the module docstring. `sort_key` of QueueSort; `ageing` in seconds, 0: no ageing."""

    def __init__(self, sort_key: Callable[[int, float, str], tuple[float, ...]], ageing: float) -> None:
        self._sort_key, self._ageing = sort_key, ageing
        self._first: set[str] = set()
        """Refs of entities that precede all others of their priority (repair.md 2.1)."""
        self._waits: dict[str, float] = {}
        """The time from which a failed entity is old, by ref."""
        self._due: list[tuple[float, str]] = []
        """The same as a heap, of entities that are not old yet."""
        self._old: set[str] = set()
        self._last: dict[str, float] = {}
        """The time until which an entity follows all others of its priority, by ref."""
        self._turns: list[tuple[float, str]] = []
        """The same as a heap."""

    def of(self, entity: Entity) -> tuple[float, ...]:
        """Return the sort key of an entity, least first."""
        timestamp = entity.timestamp - _EARLIER if entity.ref in self._first else entity.timestamp
        timestamp = timestamp + _EARLIER if entity.ref in self._last else timestamp
        key = self._sort_key(entity.priority, timestamp, entity.ref)
        if not self._ageing:
            return key
        if entity.priority >= _CRITICAL:
            return (0.0, *key)
        return (1.0, timestamp, *key) if entity.ref in self._old else (2.0, *key)

    def is_old(self, ref: str) -> bool:
        """Return whether an entity precedes others because of its age."""
        return ref in self._old

    def put_first(self, ref: str, first: bool) -> None:
        """Put an entity, pending or future, before all others of its priority, or back in its turn."""
        (self._first.add if first else self._first.discard)(ref)

    def put_last(self, ref: str, until: float) -> None:
        """Put an entity, pending or future, after all others of its priority until then."""
        if until > self._last.get(ref, 0.0):
            self._last[ref] = until
            heapq.heappush(self._turns, (until, ref))
            if len(self._turns) > 2 * len(self._last) + _FEWEST_KEPT:
                self._turns = sorted((when, name) for name, when in self._last.items())

    def failed(self, entity: Entity, now: float) -> None:
        """Record a failed attempt, maybe before a restart: the age counts from the first one (reservations.md 1.2)."""
        if not self._ageing or entity.ref in self._waits:
            return
        first_failures = (pod.unschedulable_since for pod in entity.ready.values())
        when = min((now, *(since for since in first_failures if since is not None))) + self._ageing
        self._waits[entity.ref] = when
        heapq.heappush(self._due, (when, entity.ref))
        if len(self._due) > 2 * len(self._waits) + _FEWEST_KEPT:
            self._due = sorted((when, ref) for ref, when in self._waits.items() if ref not in self._old)

    def pop_changed(self, now: float) -> Iterator[str]:
        """Yield the refs of entities that have become old, or no longer go last."""
        while self._turns and self._turns[0][0] <= now:
            until, ref = heapq.heappop(self._turns)
            if self._last.get(ref) == until:
                del self._last[ref]
                yield ref
        while self._due and self._due[0][0] <= now:
            when, ref = heapq.heappop(self._due)
            if self._waits.get(ref) == when:
                self._old.add(ref)
                yield ref

    def forget(self, ref: str) -> None:
        """Forget an entity that is no longer pending."""
        self._last.pop(ref, None)
        if self._waits.pop(ref, None) is not None:
            self._old.discard(ref)
