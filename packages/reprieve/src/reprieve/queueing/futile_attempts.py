"""Pending entities that an attempt certainly could not place; checked where many are pending (scheduling.md 1.7)."""

from collections.abc import Callable, Collection, Iterable
from typing import Final, Protocol

from reprieve.queueing.entity import Entity

FEW_PODS: Final = 32
"""Up to this number of pending pods are tried again without a check whether they are out of reach."""


class ReachBound(Protocol):
    """A bound that reports which pending entities certainly cannot be placed in the present cluster."""

    def refresh(self) -> None:
        """Update the bound after changes of the cluster."""

    def out_of_reach(self, entity: Entity) -> frozenset[str]:
        """Return the plugins with events that may bring the entity within reach; empty if it may be placed."""

    def forget(self, ref: str) -> None:
        """Forget an entity that is no longer pending, or that has new needs."""


class ReachFilter:
    """Leaves out entities that are out of reach; leaves out none without `reach`.

    `current_reasons`: see `SchedulingQueue`.  `listen(entity, plugins)` is called when events of further plugins may
    help.
    """

    def __init__(
        self, reach: ReachBound | None, listen: Callable[[Entity, Collection[str]], None], *, current_reasons: bool
    ) -> None:
        self._reach = reach
        self._listen = listen
        self._few = FEW_PODS if current_reasons else 0

    def applies(self, entities: Iterable[Entity]) -> bool:
        """Return whether there are enough pods to check which ones are out of reach; if so, update the bound."""
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
        """Return whether an attempt would fail; if so, the entity also waits for the plugins that would reject it."""
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
        """Update the bound after changes of the cluster."""
        if self._reach is not None:
            self._reach.refresh()

    def forget(self, ref: str) -> None:
        """Forget the reach of an entity, so that it is computed again."""
        if self._reach is not None:
            self._reach.forget(ref)
