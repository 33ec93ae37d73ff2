"""Waiting pods that are alike: what helps one helps the first of them, and one is enough to be tried.

Months of a full cluster have thousands of pods that wait and a few dozen kinds of them.  Where the reasons for
pending pods are not read (`SchedulingQueue`), an event wakes the first of each kind alone; when that is placed, the
next.  If the first is rejected, so would the others be: they have the same signature, priority and preemption policy.

Invariant: every entity that waits is in the heap of its kind, once for every order it ever had there; entries of other
entities are dropped when they are met.
"""

import heapq
from collections.abc import Callable, Hashable, Iterable

from reprieve.cluster.state import ClusterState
from reprieve.queueing.entity import Entity

Order = tuple[float, ...]


class AlikeEntities:
    """Entities of one pod each, by kind, those to be tried first in front."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._heaps: dict[Hashable, list[tuple[Order, str]]] = {}
        self._by_plugin: dict[str, dict[Hashable, None]] = {}
        self._plugins: dict[Hashable, set[str]] = {}
        self._kind_of: dict[str, Hashable] = {}
        self._entered: dict[str, tuple[Hashable, Order]] = {}
        """Where the last entry of an entity is, as long as it is there."""

    def kind(self, entity: Entity) -> Hashable | None:
        """Return what it shares with those that are alike; None for a group, and for a pod that waits for its own
        claims.
        """
        if entity.group is not None or len(entity.ready) != 1 or entity.held:
            return None
        (pod,) = entity.ready.values()
        if pod.claims or pod.volumes is not None or pod.nominated >= 0:
            return None
        return entity.profile, entity.priority, pod.never_preempts, self._cluster.equivalence_key(pod)

    def add(self, entity: Entity, order: Order) -> bool:
        """It waits now; returns whether it has a kind."""
        kind = self.kind(entity)
        if kind is None:
            self.forget(entity.ref)
            return False
        self._kind_of[entity.ref] = kind
        if self._entered.get(entity.ref) != (kind, order):
            self._entered[entity.ref] = (kind, order)
            heapq.heappush(self._heaps.setdefault(kind, []), (order, entity.ref))
        self.add_plugins(kind, entity.rejected_by)
        return True

    def add_plugins(self, kind: Hashable, plugins: Iterable[str]) -> None:
        """Events of these plugins may help the first of a kind."""
        self._plugins.setdefault(kind, set()).update(plugins)
        for plugin in plugins:
            self._by_plugin.setdefault(plugin, {})[kind] = None

    def rejected_by(self, plugin: str) -> Iterable[Hashable]:
        """Kinds of which some were rejected by the plugin."""
        return tuple(self._by_plugin.get(plugin, ()))

    def first(self, kind: Hashable, waits: Callable[[str], Entity | None]) -> Entity | None:
        """Return the first of a kind that still waits."""
        heap = self._heaps.get(kind)
        while heap:
            entity = waits(heap[0][1])
            if entity is not None and self._kind_of.get(entity.ref) == kind:
                return entity
            order, ref = heapq.heappop(heap)
            if self._entered.get(ref) == (kind, order):
                del self._entered[ref]
        if heap is not None:
            del self._heaps[kind]
            for plugin in self._plugins.pop(kind, ()):
                self._by_plugin[plugin].pop(kind, None)
        return None

    def kind_of(self, ref: str) -> Hashable | None:
        """Return the kind an entity had when it last waited."""
        return self._kind_of.get(ref)

    def forget(self, ref: str) -> None:
        """Forget an entity that was removed, or no longer has a kind."""
        self._kind_of.pop(ref, None)
