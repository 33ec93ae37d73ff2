"""Active entities in queue order; an entry counts while its entity is active and still has that order."""

import heapq
from collections.abc import Callable, Mapping

from reprieve.queueing.entity import Entity, QueueState

Order = tuple[float, ...]


class ActiveEntities:
    """Active entities in a heap. `entities` by ref; `order`: the sort key of an entity."""

    def __init__(self, entities: Mapping[str, Entity], order: Callable[[Entity], Order]) -> None:
        self._entities, self._order = entities, order
        self._heap: list[tuple[Order, str]] = []

    def push(self, entity: Entity) -> None:
        """Add an entity that became active, or that has a new order."""
        heapq.heappush(self._heap, (self._order(entity), entity.ref))

    def __contains__(self, entity: Entity) -> bool:
        return any(ref == entity.ref for _, ref in self._heap)

    def first(self) -> Entity | None:
        """Return the next entity to try without removing it."""
        while self._heap:
            order, ref = self._heap[0]
            entity = self._entities.get(ref)
            if entity is not None and entity.state is QueueState.ACTIVE and order == self._order(entity):
                return entity
            heapq.heappop(self._heap)
        return None

    def pop(self) -> Entity | None:
        """Remove and return the next entity to try."""
        entity = self.first()
        if entity is not None:
            heapq.heappop(self._heap)
        return entity

    def followers(self, entity: Entity, most: int) -> list[Entity]:
        """Return up to `most` further entities of the same priority, in queue order."""
        followers: dict[str, Entity] = {}
        while len(followers) < most and (first := self.first()) is not None and first.priority == entity.priority:
            heapq.heappop(self._heap)
            followers[first.ref] = first
        for first in followers.values():
            self.push(first)
        return list(followers.values())
