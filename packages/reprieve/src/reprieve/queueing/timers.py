"""Timers of entities: ends of backoff, and alarms.

An entry counts while its entity is in the state of the timers and still has that time; stale entries are dropped when
they come to the top.
"""

import heapq
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from reprieve.queueing.entity import Entity, QueueState


@dataclass(frozen=True, slots=True)
class Timing:
    """Backoff and flush times in seconds; `flush_after`: when an unschedulable entity is retried without an event."""

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    flush_after: float = 300.0

    def end_of_backoff(self, entity: Entity) -> float:
        """Return when an entity may be tried again after its last attempt; a past time if it had none."""
        if not entity.attempts:
            return -math.inf
        return entity.last_attempt + min(self.initial_backoff * 2.0 ** min(entity.attempts - 1, 32), self.max_backoff)


class Timers:
    """See the module docstring. `entities` by ref, `time_of`: the current time of an entity; times in seconds."""

    def __init__(
        self, entities: Mapping[str, Entity], state: QueueState, time_of: Callable[[Entity], float | None]
    ) -> None:
        self._entities = entities
        self._state = state
        self._time_of = time_of
        self.entries: list[tuple[float, str]] = []
        """A heap of (time, ref)."""

    def add(self, entity: Entity, when: float) -> None:
        """Add an entity that is due at `when`, its current time."""
        heapq.heappush(self.entries, (when, entity.ref))
        if len(self.entries) > 2 * len(self._entities):  # most are of earlier attempts, or of removed entities
            self.entries = sorted({entry for entry in self.entries if self._entity(entry) is not None})

    def pop_due(self, now: float) -> Entity | None:
        """Remove and return the next entity that is due."""
        while self.entries and self.entries[0][0] <= now:
            entity = self._entity(heapq.heappop(self.entries))
            if entity is not None and entity.state is self._state:
                return entity
        return None

    def next(self, ignoring: Collection[str] = ()) -> float | None:
        """Return when the next entity is due, except the refs in `ignoring`."""
        while self.entries and not self._counts(self.entries[0]):
            heapq.heappop(self.entries)
        if not ignoring:
            return self.entries[0][0] if self.entries else None
        return min(
            (entry[0] for entry in self.entries if entry[1] not in ignoring and self._counts(entry)), default=None
        )

    def _entity(self, entry: tuple[float, str]) -> Entity | None:
        entity = self._entities.get(entry[1])
        return entity if entity is not None and self._time_of(entity) == entry[0] else None

    def _counts(self, entry: tuple[float, str]) -> bool:
        entity = self._entity(entry)
        return entity is not None and entity.state is self._state
