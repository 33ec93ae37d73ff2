"""Unschedulable entities: in the order of their last consideration, and by the plugins that rejected them.

An entity that has waited too long but is out of reach is *overdue*: such entities are tried again in turn, one in
`OVERDUE_INTERVAL`, so that their messages become current.  Times are in seconds.
"""

from collections.abc import Collection

from reprieve.queueing.entity import Entity

OVERDUE_INTERVAL = 1.0
"""Seconds between two attempts at overdue entities."""


class UnschedulableEntities:
    """See the module docstring."""

    def __init__(self) -> None:
        self.by_ref: dict[str, Entity] = {}
        self._overdue: dict[str, Entity] = {}
        self._next_overdue = float("-inf")
        self.by_plugin: dict[str, dict[str, Entity]] = {}
        """The entities that each plugin rejected, by ref."""

    def add(self, entity: Entity, now: float, *, indexed: bool) -> None:
        """Add an entity; without `indexed` events of plugins do not wake it."""
        self.by_ref[entity.ref] = entity
        entity.considered_at = now
        entity.rejected_by_indexed = ()
        if indexed:
            self.add_plugins(entity, entity.rejected_by)

    def add_plugins(self, entity: Entity, plugins: Collection[str]) -> None:
        """Let events of these plugins wake the entity too."""
        entity.rejected_by_indexed += tuple(plugins)
        for plugin in plugins:
            self.by_plugin.setdefault(plugin, {})[entity.ref] = entity

    def remove(self, entity: Entity) -> None:
        """Remove an entity that leaves the unschedulable ones."""
        del self.by_ref[entity.ref]
        self._overdue.pop(entity.ref, None)
        for plugin in entity.rejected_by_indexed:
            self.by_plugin[plugin].pop(entity.ref, None)

    def first(self) -> Entity | None:
        """Return the entity considered longest ago, or None."""
        return next(iter(self.by_ref.values()), None)

    def make_overdue(self, entity: Entity, now: float) -> None:
        """Mark an entity out of reach as considered now and overdue, to be retried in turn."""
        entity.considered_at = now
        self.by_ref[entity.ref] = self.by_ref.pop(entity.ref)
        self._overdue[entity.ref] = entity

    def take_overdue(self, now: float) -> Entity | None:
        """Return the overdue entity to retry now, or None."""
        if not self._overdue or now < self._next_overdue:
            return None
        self._next_overdue = now + OVERDUE_INTERVAL
        return next(iter(self._overdue.values()))

    @property
    def next_overdue(self) -> float | None:
        """Return when the next overdue entity is retried, or None."""
        return self._next_overdue if self._overdue else None
