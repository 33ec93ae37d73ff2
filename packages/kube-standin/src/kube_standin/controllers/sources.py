"""Views of all objects of each resource, kept up to date with the store and shared by all watchers.

A *source* subscribes to one resource, decodes each change once and notifies its handlers (old view, new view).
``Sources.sync`` commits staged writes and processes every change made so far, synchronously. A reconciler that syncs
first therefore sees its own earlier writes and needs no expectations or retries against stale caches. Invariant: after
``sync`` every source equals the store. If a watch buffer overflows, the source lists again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from kube_rules.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from kube_standin.controllers.views import (
    ClaimView,
    DeviceTaintRuleView,
    Key,
    LeaseView,
    Meta,
    NodeView,
    ObjectView,
    PodGroupView,
    PodView,
    SliceView,
    SpecView,
    StorageClassView,
    VolumeClaimView,
    VolumeView,
    read_group,
    read_pod,
    typed_reader,
)
from kube_standin.storage import Store, Subscription


class HasMeta(Protocol):
    """Any view."""

    metadata: Meta


V = TypeVar("V", bound=HasMeta)
Handler = Callable[[V | None, V | None], None]

_Read = Callable[[bytes], Any]


def _reader(view: type[msgspec.Struct]) -> _Read:
    return msgspec.json.Decoder(view).decode


_SELECTING = (SpecView, _reader(SpecView))
_GROUP = (PodGroupView, read_group)
VIEWS: Mapping[str, tuple[type[msgspec.Struct], _Read]] = {
    "pods": (PodView, read_pod),
    "nodes": (NodeView, _reader(NodeView)),
    "coordination.k8s.io/leases": (LeaseView, _reader(LeaseView)),
    "resource.k8s.io/resourceclaims": (ClaimView, _reader(ClaimView)),
    "resource.k8s.io/resourceslices": (SliceView, _reader(SliceView)),
    "resource.k8s.io/devicetaintrules": (DeviceTaintRuleView, _reader(DeviceTaintRuleView)),
    "scheduling.k8s.io/podgroups": _GROUP,
    "scheduling.k8s.io/compositepodgroups": _GROUP,
    "policy/poddisruptionbudgets": _SELECTING,
    "admissionregistration.k8s.io/validatingadmissionpolicies": _SELECTING,
    "apps/replicasets": _SELECTING,
    "apps/deployments": _SELECTING,
    "apps/statefulsets": _SELECTING,
    "apps/daemonsets": _SELECTING,
    "batch/jobs": _SELECTING,
    "replicationcontrollers": _SELECTING,
    "services": _SELECTING,
    "resourcequotas": _SELECTING,
    "persistentvolumes": (VolumeView, typed_reader(VolumeView, PersistentVolume)),
    "persistentvolumeclaims": (VolumeClaimView, typed_reader(VolumeClaimView, PersistentVolumeClaim)),
    "storage.k8s.io/storageclasses": (StorageClassView, typed_reader(StorageClassView, StorageClass)),
}
"""The view of each storage key and its decoder; other resources have their metadata as the view."""
_PLAIN = (ObjectView, _reader(ObjectView))


class Source(Generic[V]):
    """The views of all objects of one resource, with indexes."""

    def __init__(self, store: Store, resource: str, read: Callable[[bytes], V]) -> None:
        self.resource = resource
        self.items: dict[Key, V] = {}
        self._store = store
        self._read = read
        self._handlers: list[Handler[V]] = []
        self._indices: dict[str, tuple[Callable[[V], Iterable[Hashable]], dict[Hashable, set[Key]]]] = {}
        self.subscription: Subscription | None = None

    def index(self, name: str, of: Callable[[V], Iterable[Hashable]]) -> None:
        """Index the keys of objects by the values that ``of`` returns for them."""
        if name in self._indices:
            return
        table: dict[Hashable, set[Key]] = {}
        self._indices[name] = (of, table)
        for key, view in self.items.items():
            for value in of(view):
                table.setdefault(value, set()).add(key)

    def keys_by(self, name: str, value: Hashable) -> set[Key]:
        """Return the keys of the objects with ``value`` in an index (read-only)."""
        return self._indices[name][1].get(value, _NONE)

    def by(self, name: str, value: Hashable) -> list[V]:
        """Return the objects with ``value`` in an index, by name."""
        items = self.items
        return [items[key] for key in sorted(self.keys_by(name, value))]

    def some(self, name: str, value: Hashable) -> list[V]:
        """Return the objects with ``value`` in an index, in any order."""
        items = self.items
        return [items[key] for key in self.keys_by(name, value)]

    def add_handler(self, handler: Handler[V]) -> None:
        """Call ``handler`` for every change from now on, and at once for existing objects."""
        self._handlers.append(handler)
        for view in list(self.items.values()):
            handler(None, view)

    def start(self) -> Subscription:
        """Subscribe and list; handlers are called in the order in which the objects were written."""
        self.subscription = self._store.subscribe(self.resource)
        self._list()
        return self.subscription

    def stop(self) -> None:
        """Unsubscribe."""
        if self.subscription is not None:
            self._store.unsubscribe(self.subscription)

    def sync(self) -> None:
        """Process pending changes."""
        subscription = self.subscription
        if subscription is None:
            return
        if subscription.overflowed or subscription.closed:
            self._store.unsubscribe(subscription)
            self.start()
            return
        for event in subscription.take():
            key = event.state.key
            self._set(key, None if event.type == "DELETED" else self._read(event.state.raw))

    def _list(self) -> None:
        states = sorted(self._store.page(self.resource).states, key=lambda state: state.revision)
        present = {state.key: state for state in states}
        for key in [key for key in self.items if key not in present]:
            self._set(key, None)
        for key, state in present.items():
            view = self._read(state.raw)
            if self.items.get(key) != view:
                self._set(key, view)

    def _set(self, key: Key, new: V | None) -> None:
        old = self.items.get(key)
        if new is None:
            if old is None:
                return
            del self.items[key]
        else:
            self.items[key] = new
        for of, table in self._indices.values():
            before = set(of(old)) if old is not None else _NO_VALUES
            after = set(of(new)) if new is not None else _NO_VALUES
            for value in before - after:
                keys = table[value]
                keys.discard(key)
                if not keys:
                    del table[value]
            for value in after - before:
                table.setdefault(value, set()).add(key)
        if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
            # Deleted and created again between two syncs: handlers are notified of both.
            for handler in self._handlers:
                handler(old, None)
            old = None
        for handler in self._handlers:
            handler(old, new)


_NONE: set[Key] = set()
_NO_VALUES: set[Hashable] = set()


class Sources:
    """The sources of one server, created on first use."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sources: dict[str, Source[HasMeta]] = {}
        self._pumps: dict[str, asyncio.Task[None]] = {}
        self._running = False
        self._syncing = False
        self._synced_revision = -1
        """The revision up to which every source has processed changes."""

    def of(self, resource: str, view: type[V]) -> Source[V]:
        """Return the source of a storage key with views of type ``view``, which must be the one of ``VIEWS``."""
        source = self._sources.get(resource)
        if source is None:
            new_source: Source[HasMeta] = Source(self._store, resource, VIEWS.get(resource, _PLAIN)[1])
            new_source.start()
            self._sources[resource] = source = new_source
            if self._running:
                self._pump(resource)
        seen_as: type[Any] = VIEWS.get(resource, _PLAIN)[0]
        if seen_as is not view:
            raise TypeError(f"{resource} is seen as {seen_as.__name__}")
        return source  # type: ignore[return-value]

    @property
    def pods(self) -> Source[PodView]:
        """Return all pods."""
        return self.of("pods", PodView)

    @property
    def nodes(self) -> Source[NodeView]:
        """Return all nodes."""
        return self.of("nodes", NodeView)

    def sync(self) -> None:
        """Commit staged writes and process all changes."""
        if self._syncing:
            return
        self._syncing = True
        try:
            self._store.flush()
            revision = self._store.revision
            if revision == self._synced_revision:
                return
            for source in list(self._sources.values()):
                source.sync()
            self._synced_revision = revision
        finally:
            self._syncing = False

    def start(self) -> None:
        """Start to process changes as they occur."""
        self._running = True
        for resource in self._sources:
            self._pump(resource)

    def _pump(self, resource: str) -> None:
        if resource not in self._pumps:
            self._pumps[resource] = asyncio.get_running_loop().create_task(self._take_in(resource))

    async def _take_in(self, resource: str) -> None:
        source = self._sources[resource]
        while self._running:
            subscription = source.subscription
            if subscription is None:
                return
            await subscription.wait()
            if not self._running:
                return
            if subscription.closed and source.subscription is subscription:
                # Ended by the store: a custom resource was removed, or the server stops.
                await asyncio.sleep(0.05)
            source.sync()

    async def stop(self) -> None:
        """Stop processing changes."""
        self._running = False
        for source in self._sources.values():
            source.stop()
        pumps = list(self._pumps.values())
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        self._pumps.clear()
