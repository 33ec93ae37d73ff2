"""Similar waiting pods: only the first of each kind is woken and tried.

A full cluster may have thousands of pending pods and a few dozen kinds of them.  Where the reasons for pending pods are
not read (`SchedulingQueue`), an event wakes the first of each kind alone; when that is placed, the next.  If the first
is rejected, so would the others be: they have the same signature, priority and preemption policy.

Invariant: every waiting entity is in the heap of its kind, once for every order it ever had there; stale entries are
dropped when they come to the top.
"""

import heapq
from collections.abc import Callable, Hashable, Iterable

from reprieve.cluster.state import ClusterState
from reprieve.queueing.entity import Entity

Order = tuple[float, ...]


class AlikeEntities:
    """Entities of one pod each, by kind, in queue order."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._heaps: dict[Hashable, list[tuple[Order, str]]] = {}
        self._by_plugin: dict[str, dict[Hashable, None]] = {}
        self._plugins: dict[Hashable, set[str]] = {}
        self._kind_of: dict[str, Hashable] = {}
        self._entered: dict[str, tuple[Hashable, Order]] = {}
        """The kind and order of an entity's last entry, while the entry is in a heap."""

    def kind(self, entity: Entity) -> Hashable | None:
        """Return the key that similar entities share; None for groups and for pods with claims of their own."""
        if entity.group is not None or len(entity.ready) != 1 or entity.gated_pods:
            return None
        (pod,) = entity.ready.values()
        if pod.claims or pod.volumes is not None or pod.nominated >= 0:
            return None
        return entity.profile, entity.priority, pod.never_preempts, self._cluster.equivalence_key(pod)

    def add(self, entity: Entity, order: Order) -> bool:
        """Add a waiting entity; return whether it has a kind."""
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
        """Let events of these plugins wake the first of a kind."""
        self._plugins.setdefault(kind, set()).update(plugins)
        for plugin in plugins:
            self._by_plugin.setdefault(plugin, {})[kind] = None

    def rejected_by(self, plugin: str) -> Iterable[Hashable]:
        """Return the kinds of entities that the plugin rejected."""
        return tuple(self._by_plugin.get(plugin, ()))

    def first(self, kind: Hashable, waits: Callable[[str], Entity | None]) -> Entity | None:
        """Return the first entity of a kind that still waits."""
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
        """Return the kind that an entity had when it last waited."""
        return self._kind_of.get(ref)

    def forget(self, ref: str) -> None:
        """Forget an entity that was removed, or no longer has a kind."""
        self._kind_of.pop(ref, None)
