"""Passes CompositePodGroups from the API to the engine (composite.md 1, 2).

There may be two of one name: a native one and a custom resource of ours; the native one counts. Custom resources have
no admission that resolves a priority class. A composite without a priority gets the highest priority of its groups;
groups without a priority get theirs from their pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from kube_rules.objects import CompositePodGroup, PriorityClass
from kube_rules.versions import CRD_GROUP, SCHEDULING_GROUP
from reprieve.client.discovery import Resource
from reprieve.client.informer import Change, ChangeKind
from reprieve.live.classes import VictimClasses
from reprieve.live.namesakes import Namesakes
from reprieve.scheduling.effects import Effects
from reprieve.scheduling.engine import Engine

ChangeListener = Callable[[Change[CompositePodGroup], Resource], None]


class Composites:
    """Passes composites to the engine. `listener` is notified of each change of the one that counts, after the engine.

    `effects` gets what the engine returns, `inspect(group)` every composite as the engine has it; `refused(group,
    reason)` is called for a composite with a victim class that does not count.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        effects: Callable[[Effects], None],
        listener: ChangeListener,
        refused: Callable[[CompositePodGroup, str], None] = lambda group, why: None,
        inspect: Callable[[CompositePodGroup], None] = lambda group: None,
        warn: Callable[[str], None],
    ) -> None:
        self._engine = engine
        self._effects = effects
        self._listener = listener
        self._inspect = inspect
        self._namesakes: Namesakes[CompositePodGroup] = Namesakes((SCHEDULING_GROUP, CRD_GROUP), warn)
        self._victims: VictimClasses[CompositePodGroup] = VictimClasses(refused)
        self._open: dict[str, int | None] = {}
        """The inherited priority of each composite without its own; None for not yet known."""

    def take(self, change: Change[CompositePodGroup], resource: Resource, now: float) -> None:
        """Process a composite that was added, changed or deleted."""
        item = change.object
        counted = self._namesakes.counting(item.key)
        self._namesakes.take(change, resource)
        best = self._namesakes.counting(item.key)
        if best is None:
            self._open.pop(item.key, None)
            self._victims.forget(item.key)
            parent = self._parent(item.key)
            self._effects(self._engine.remove(item.ref, now))
            self.settled(parent, now)
            self._listener(change, resource)
            return
        if counted is not None and best[0] is counted[0]:
            return
        old = counted[0] if counted is not None else None
        if old is not None and old.metadata.uid != best[0].metadata.uid:
            self._effects(self._engine.remove(item.ref, now))
            self._listener(Change(ChangeKind.DELETED, old, old), resource)
            old = None
        self._set(best[0], now)
        self._listener(Change(ChangeKind.ADDED if old is None else ChangeKind.UPDATED, best[0], old), best[1])

    def set_class(self, priority_class: PriorityClass, now: float) -> None:
        """Set a new or changed PriorityClass: composites that name it as victims count with its value."""
        for key in self._victims.set_class(priority_class):
            counted = self._namesakes.counting(key)
            if counted is not None:
                self._set(counted[0], now)

    def remove_class(self, name: str) -> None:
        """Remove a PriorityClass; composites that had its value as victims keep it."""
        self._victims.remove_class(name)

    def settled(self, parent: str | None, now: float) -> None:
        """Update composites (`namespace/name`) after children changed their priority, were added or removed."""
        if not self._open:
            return
        seen: set[str] = set()
        while parent is not None and parent not in seen:
            seen.add(parent)
            composite = self._engine.cluster.trees.composites.get(parent)
            if composite is None or composite.spec is None:
                return
            if parent in self._open and self._open[parent] != self._highest(parent):
                self._inherit_priority(parent, now)
            parent = composite.spec.parent

    def _set(self, composite: CompositePodGroup, now: float) -> None:
        key = composite.key
        self._open.pop(key, None)
        if composite.spec.priority is None:
            self._open[key] = None
        self._bring(composite, now)
        if key in self._open and self._highest(key) is not None:
            self._inherit_priority(key, now)
        self.settled(self._parent(key), now)

    def _parent(self, key: str) -> str | None:
        state = self._engine.cluster.trees.composites.get(key)
        return state.spec.parent if state is not None and state.spec is not None else None

    def _inherit_priority(self, key: str, now: float) -> None:
        """Give a composite without a priority the highest priority of its children."""
        counted = self._namesakes.counting(key)
        priority = self._highest(key)
        if counted is None or priority is None:
            return
        self._open[key] = priority
        composite = counted[0]
        with_priority = replace(composite, spec=replace(composite.spec, priority=priority))
        self._bring(with_priority, now)

    def _bring(self, composite: CompositePodGroup, now: float) -> None:
        resolved = self._victims.resolved(composite)
        self._inspect(resolved)
        self._effects(self._engine.set(resolved, now, created=composite.created))

    def _highest(self, key: str) -> int | None:
        """Return the highest priority of a composite's groups, None if none has a priority."""
        return max(self._priorities(key), default=None)

    def _priorities(self, key: str) -> Iterator[int]:
        composite = self._engine.cluster.trees.composites.get(key)
        for child in composite.children if composite is not None else ():
            if child.spec is not None and child.spec.has_priority:
                yield child.spec.priority
