"""The order in which entities are tried: that of QueueSort, degraded gangs first, and what has waited for long.

Ageing (reservations.md 8): an entity that has failed to be placed for `ageing` seconds goes before all that have not,
whatever their priority.  It evicts no more than before by that.

An entity that eviction limits would protect once it runs goes after all others of its priority as long as they do
(cost.md 9.9).
"""

import heapq
from collections.abc import Callable, Iterator

from reprieve.queueing.entity import Entity

_EARLIER = float(1 << 40)
"""Seconds by which those that go first arrived earlier, and those that go last later."""
_CRITICAL = 2_000_000_000
"""No ageing goes before this priority, that of system-cluster-critical."""
_FEWEST_KEPT = 256


class QueueOrder:
    """See the module docstring. `sort_key` of QueueSort; `ageing` in seconds, 0: none goes first for its age."""

    def __init__(self, sort_key: Callable[[int, float, str], tuple[float, ...]], ageing: float) -> None:
        self._sort_key, self._ageing = sort_key, ageing
        self._first: set[str] = set()
        """Refs of entities that go before all others of their priority (repair.md 2.1)."""
        self._waits: dict[str, float] = {}
        """When an entity that has failed is old, by ref."""
        self._due: list[tuple[float, str]] = []
        """The same as a heap, of those that are not old yet."""
        self._old: set[str] = set()
        self._last: dict[str, float] = {}
        """Until when an entity goes after all others of its priority, by ref."""
        self._turns: list[tuple[float, str]] = []
        """The same as a heap."""

    def of(self, entity: Entity) -> tuple[float, ...]:
        """Return what entities are sorted by, the least first."""
        timestamp = entity.timestamp - _EARLIER if entity.ref in self._first else entity.timestamp
        timestamp = timestamp + _EARLIER if entity.ref in self._last else timestamp
        key = self._sort_key(entity.priority, timestamp, entity.ref)
        if not self._ageing:
            return key
        if entity.priority >= _CRITICAL:
            return (0.0, *key)
        return (1.0, timestamp, *key) if entity.ref in self._old else (2.0, *key)

    def is_old(self, ref: str) -> bool:
        """Return whether an entity goes first for its age."""
        return ref in self._old

    def put_first(self, ref: str, first: bool) -> None:
        """Let an entity, pending or to come, go before all others of its priority, or in its turn again."""
        (self._first.add if first else self._first.discard)(ref)

    def put_last(self, ref: str, until: float) -> None:
        """Let an entity, pending or to come, go after all others of its priority until then."""
        if until > self._last.get(ref, 0.0):
            self._last[ref] = until
            heapq.heappush(self._turns, (until, ref))
            if len(self._turns) > 2 * len(self._last) + _FEWEST_KEPT:
                self._turns = sorted((when, other) for other, when in self._last.items())

    def failed(self, entity: Entity, now: float) -> None:
        """An attempt failed, maybe before a restart: the age counts from the first one (reservations.md 1.2)."""
        if not self._ageing or entity.ref in self._waits:
            return
        known = (pod.unschedulable_since for pod in entity.ready.values())
        when = min((now, *(since for since in known if since is not None))) + self._ageing
        self._waits[entity.ref] = when
        heapq.heappush(self._due, (when, entity.ref))
        if len(self._due) > 2 * len(self._waits) + _FEWEST_KEPT:
            self._due = sorted((when, ref) for ref, when in self._waits.items() if ref not in self._old)

    def pop_changed(self, now: float) -> Iterator[str]:
        """Yield the refs of entities that are old from now on, or go last no longer."""
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
        """An entity waits no longer."""
        self._last.pop(ref, None)
        if self._waits.pop(ref, None) is not None:
            self._old.discard(ref)
