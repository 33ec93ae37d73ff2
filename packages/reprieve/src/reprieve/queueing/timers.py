"""Points in time at which entities are due: ends of backoff, and alarms.

An entry counts as long as its entity is in one state of the queue and still has that time; others are dropped when
they come to the top, so that they need not be taken out before.
"""

import heapq
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from reprieve.queueing.entity import Entity, QueueState


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds: first backoff, longest backoff, and after how long an unschedulable entity is tried again anyway."""

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    flush_after: float = 300.0

    def end_of_backoff(self, entity: Entity) -> float:
        """Return when an entity may be tried again after its last attempt; a time that is past if it had none."""
        if not entity.attempts:
            return -math.inf
        return entity.last_attempt + min(self.initial_backoff * 2.0 ** min(entity.attempts - 1, 32), self.max_backoff)


class Timers:
    """See the module docstring. `entities` by ref, `time_of` what an entity has of that kind; times in seconds."""

    def __init__(
        self, entities: Mapping[str, Entity], state: QueueState, time_of: Callable[[Entity], float | None]
    ) -> None:
        self._entities = entities
        self._state = state
        self._time_of = time_of
        self.entries: list[tuple[float, str]] = []
        """A heap of (time, ref)."""

    def add(self, entity: Entity, when: float) -> None:
        """The entity, which has that time already, is due then."""
        heapq.heappush(self.entries, (when, entity.ref))
        if len(self.entries) > 2 * len(self._entities):  # most are of earlier attempts, or of removed entities
            self.entries = sorted({entry for entry in self.entries if self._entity(entry) is not None})

    def pop_due(self, now: float) -> Entity | None:
        """Return the next entity that is due, which is taken out."""
        while self.entries and self.entries[0][0] <= now:
            entity = self._entity(heapq.heappop(self.entries))
            if entity is not None and entity.state is self._state:
                return entity
        return None

    def next(self, ignoring: Collection[str] = ()) -> float | None:
        """Return when the next entity is due, leaving out some by ref."""
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
