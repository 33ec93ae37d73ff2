"""Pending entities that an attempt certainly could not place: asked where many wait (scheduling.md 1.7)."""

from collections.abc import Callable, Collection, Iterable
from typing import Final, Protocol

from reprieve.queueing.entity import Entity

FEW_PODS: Final = 32
"""So many pending pods are tried again without asking whether they are out of reach."""


class ReachBound(Protocol):
    """Which pending entities certainly cannot be placed in the cluster as it is."""

    def refresh(self) -> None:
        """The cluster may have changed since the last call."""

    def out_of_reach(self, entity: Entity) -> frozenset[str]:
        """Return the plugins with events that may bring the entity within reach; empty if it may be placed."""

    def forget(self, ref: str) -> None:
        """The entity is no longer pending, or needs something else."""


class ReachFilter:
    """Leaves out entities that are out of reach; without a `reach` it leaves out none.

    `current_reasons`: as `SchedulingQueue` has it.  `listen(entity, plugins)` is called when further plugins may help.
    """

    def __init__(
        self, reach: ReachBound | None, listen: Callable[[Entity, Collection[str]], None], *, current_reasons: bool
    ) -> None:
        self._reach = reach
        self._listen = listen
        self._few = FEW_PODS if current_reasons else 0

    def applies(self, entities: Iterable[Entity]) -> bool:
        """Return whether enough pods are concerned to ask which of them are out of reach; if so, be up to date."""
        if self._reach is None:
            return False
        pods = 0
        for entity in entities:
            pods += len(entity.ready)
            if pods > self._few:
                self._reach.refresh()
                return True
        return False

    def leaves_out(self, entity: Entity) -> bool:
        """Return whether an attempt could not place the entity; then it waits for what would have rejected it, too."""
        plugins = self.rejecting(entity)
        if plugins:
            new = plugins - entity.rejected_by
            entity.rejected_by |= new
            self._listen(entity, new)
        return bool(plugins)

    def rejecting(self, entity: Entity) -> frozenset[str]:
        """Return the plugins that would reject the entity; empty if it may be placed."""
        if self._reach is None or entity.resizing:
            return frozenset()
        return self._reach.out_of_reach(entity)

    def refresh(self) -> None:
        """The cluster may have changed since the last call."""
        if self._reach is not None:
            self._reach.refresh()

    def forget(self, ref: str) -> None:
        """Work out again what is known of the reach of an entity."""
        if self._reach is not None:
            self._reach.forget(ref)
