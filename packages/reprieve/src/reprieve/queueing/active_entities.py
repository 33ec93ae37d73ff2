"""Entities that are to be tried, in their order; an entry counts as long as its entity is active in that order."""

import heapq
from collections.abc import Callable, Mapping

from reprieve.queueing.entity import Entity, QueueState

Order = tuple[float, ...]


class ActiveEntities:
    """See the module docstring. `entities` by ref; `order`: what an entity is sorted by."""

    def __init__(self, entities: Mapping[str, Entity], order: Callable[[Entity], Order]) -> None:
        self._entities, self._order = entities, order
        self._heap: list[tuple[Order, str]] = []

    def push(self, entity: Entity) -> None:
        """An entity is to be tried, or has another order."""
        heapq.heappush(self._heap, (self._order(entity), entity.ref))

    def __contains__(self, entity: Entity) -> bool:
        return any(ref == entity.ref for _, ref in self._heap)

    def first(self) -> Entity | None:
        """Return the next entity to try, which stays."""
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
        """Return those of the same priority that come next, in order, so many at most."""
        taken: dict[str, Entity] = {}
        while len(taken) < most and (first := self.first()) is not None and first.priority == entity.priority:
            heapq.heappop(self._heap)
            taken[first.ref] = first
        for first in taken.values():
            self.push(first)
        return list(taken.values())
