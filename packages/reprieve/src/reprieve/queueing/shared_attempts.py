"""Attempts that similar pods share: each pending entity is woken by itself, or the first of each kind for all."""

from collections.abc import Callable, Hashable, Iterable
from typing import ClassVar

from reprieve.cluster.state import ClusterState
from reprieve.framework.events import ClusterEvent
from reprieve.queueing.entity import Entity, QueueState
from reprieve.queueing.futile_attempts import ReachFilter
from reprieve.queueing.hints import QueueingHints
from reprieve.queueing.similar_entities import AlikeEntities, Order

Kind = Hashable


class SeparateAttempts:
    """Wakes every entity by itself."""

    shares: ClassVar[bool] = False

    def would_fail(self, entity: Entity) -> bool:
        """Return whether an attempt at the next entity would be rejected as the one before was."""
        return False

    def tried_for(self, entity: Entity) -> Kind | None:
        """Return the kind of an entity that is being tried: others of that kind wait for the outcome of its attempt."""
        return None

    def wake(self, kind: Kind | None, now: float) -> None:
        """Wake the first waiting entity of a kind, if any."""

    def waits_on(self, entity: Entity, kind: Kind | None, now: float) -> None:
        """Note that an entity tried for a kind waits again; wake another of the kind if its own kind changed."""

    def on_event(self, plugin: str, event: ClusterEvent, now: float, but: str, cache: dict[Hashable, bool]) -> None:
        """Wake the kinds that the plugin rejected and that the event may help, but not for entity `but`."""

    def add(self, entity: Entity, order: Order) -> bool:
        """Add a waiting entity; return whether its kind wakes it."""
        return False

    def add_plugins(self, entity: Entity, plugins: Iterable[str]) -> bool:
        """Let events of these plugins wake the entity too; return whether its kind wakes it."""
        return False

    def forget(self, ref: str) -> None:
        """Forget an entity that is no longer pending."""


class SharedAttempts(SeparateAttempts):
    """Wakes the first of similar pods for all of them, while it is within reach (`AlikeEntities`)."""

    shares = True

    def __init__(
        self,
        cluster: ClusterState,
        reach: ReachFilter,
        hints: QueueingHints,
        waiting: Callable[[str], Entity | None],
        reactivate: Callable[[Entity, float], None],
    ) -> None:
        self.alike = AlikeEntities(cluster)
        self._reach = reach
        self._hints = hints
        self._waiting = waiting
        self._reactivate = reactivate

    def would_fail(self, entity: Entity) -> bool:
        """Check the reach again, as entities before it may have taken the capacity."""
        if not entity.attempts or not entity.rejected_by:
            return False
        self._reach.refresh()
        plugins = self._reach.rejecting(entity)
        entity.rejected_by |= plugins
        return bool(plugins)

    def tried_for(self, entity: Entity) -> Kind | None:
        return None if entity.state is QueueState.UNSCHEDULABLE else self.alike.kind_of(entity.ref)

    def wake(self, kind: Kind | None, now: float) -> None:
        """Wake entities of a kind in turn until one becomes active; others may still be in backoff."""
        entity = self.alike.first(kind, self._waiting) if kind is not None else None
        if entity is None:
            return
        self._reach.refresh()
        while entity is not None and not self._reach.leaves_out(entity):
            self._reactivate(entity, now)
            if entity.state is not QueueState.BACKOFF:
                return
            entity = self.alike.first(kind, self._waiting)

    def waits_on(self, entity: Entity, kind: Kind | None, now: float) -> None:
        if kind is not None and self.alike.kind_of(entity.ref) != kind:
            self.wake(kind, now)

    def on_event(self, plugin: str, event: ClusterEvent, now: float, but: str, cache: dict[Hashable, bool]) -> None:
        """Call the hint for the first of each kind: see `SeparateAttempts.on_event`."""
        for kind in self.alike.rejected_by(plugin):
            entity = self.alike.first(kind, self._waiting)
            if entity is not None and entity.ref != but and self._hints.help(entity, plugin, event, cache):
                self.wake(kind, now)

    def add(self, entity: Entity, order: Order) -> bool:
        return self.alike.add(entity, order)

    def add_plugins(self, entity: Entity, plugins: Iterable[str]) -> bool:
        kind = self.alike.kind_of(entity.ref)
        if kind is not None:
            self.alike.add_plugins(kind, plugins)
        return kind is not None

    def forget(self, ref: str) -> None:
        self.alike.forget(ref)
