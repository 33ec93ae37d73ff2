"""Garbage collection by owner references: background, foreground and orphaning.

Rules: upstream's garbage collector. An object is deleted when none of its owners exists. With the finalizer
``foregroundDeletion`` an owner waits for dependents that block it; with ``orphan`` its dependents lose their reference
first. Owners live in the namespace of the dependent or are cluster-scoped. Terms: an owner is *solid* if it exists with
the same uid, *dangling* if it does not, *waiting* while it is deleted in the foreground. A dependent *blocks* a waiting
owner if its reference sets `blockOwnerDeletion`. Owners in a cycle that wait for each other do not block: they are
deleted together (api.md 6.3). Unlike upstream no graph is built: the controller looks owners up in the store.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from kube_rules.json import Json
from kube_standin.controllers.reconciler import Controller
from kube_standin.controllers.sources import VIEWS, HasMeta
from kube_standin.controllers.views import Meta, ObjectView, Owner
from kube_standin.deletion import FOREGROUND, ORPHAN, DeleteOptions, Propagation
from kube_standin.kinds import ServedKind
from kube_standin.metadata import disowned, without_finalizer


class Item(NamedTuple):
    """One object: storage key, namespace, name."""

    resource: str
    namespace: str
    name: str


class GarbageCollector(Controller):
    """The controller that deletes objects without owners; keys are items of every kind."""

    name = "garbage-collector"

    def connect(self) -> None:
        """Watch every resource, also those of future definitions."""
        self._dependents: dict[str, set[Item]] = {}
        self._blocking: dict[str, set[Item]] = {}
        self._started: set[str] = set()  # uids of waiting owners with queued dependents
        self._rows: dict[str, ServedKind] = {}
        self._watch_all()
        definitions = self.context.sources.of("apiextensions.k8s.io/customresourcedefinitions", ObjectView)
        definitions.add_handler(lambda _old, _new: self._watch_all())

    def _watch_all(self) -> None:
        for row in list(self.context.registry.kinds):
            if not row.stored or row.storage_key == "events":
                continue
            watched = row.storage_key in self._rows
            if not watched or self._rows[row.storage_key].api_version != row.storage_version:
                self._rows[row.storage_key] = self.context.registry.kinds.storage_kind(row)
            if not watched:
                view: Any = VIEWS.get(row.storage_key, (ObjectView, None))[0]
                self.context.sources.of(row.storage_key, view).add_handler(partial(self._changed, row.storage_key))

    def _changed(self, resource: str, old: HasMeta | None, new: HasMeta | None) -> None:
        before = old.metadata if old is not None else None
        after = new.metadata if new is not None else None
        metadata = after or before
        if metadata is None:
            return
        item = Item(resource, metadata.namespace, metadata.name)
        had = before.owner_references if before is not None else None
        has = after.owner_references if after is not None else None
        if had != has:
            for owner in had or ():
                _discard(self._dependents, owner.uid, item)
                _discard(self._blocking, owner.uid, item)
                self._queue_owner(metadata.namespace, owner)
            for owner in has or ():
                self._dependents.setdefault(owner.uid, set()).add(item)
                if owner.block_owner_deletion:
                    self._blocking.setdefault(owner.uid, set()).add(item)
            if has:
                self.queue(item)
        if after is None:
            self._started.discard(metadata.uid)
            for dependent in self._dependents.get(metadata.uid, ()):
                self.queue(dependent)
        elif after.deletion_timestamp and _waits(after):
            self.queue(item)
            for owner in has or ():
                self._queue_owner(metadata.namespace, owner)  # its deletion may complete a cycle

    def _queue_owner(self, namespace: str, owner: Owner) -> None:
        """Queue an owner that is deleted in the foreground: it may wait for the item that just changed."""
        row = self.context.registry.kinds.of(owner.api_version, owner.kind)
        if row is not None:
            item = Item(row.storage_key, namespace if row.namespaced else "", owner.name)
            state = self.context.registry.store.head(*item)
            if state is not None and FOREGROUND.encode() in state.raw:
                self.queue(item)

    def reconcile(self, key: Item) -> None:
        """Finish a deletion that waits for dependents, or delete an item without owners."""
        row = self._rows.get(key.resource)
        state = self.context.registry.store.head(*key)
        if row is None or state is None:
            return
        metadata = state.decode()["metadata"]
        finalizers = metadata.get("finalizers") or ()
        if metadata.get("deletionTimestamp"):
            if ORPHAN in finalizers:
                self._orphan(row, key, metadata["uid"])
                return
            if FOREGROUND in finalizers:
                self._wait_for_dependents(row, key, metadata["uid"])
                return
        if metadata.get("ownerReferences"):
            self._check_owners(row, key, metadata)

    def _orphan(self, row: ServedKind, key: Item, uid: str) -> None:
        for dependent in list(self._dependents.get(uid, ())):
            self.spend()
            self._drop_references(dependent, {uid})
        self._drop_finalizer(row, key, ORPHAN)

    def _wait_for_dependents(self, row: ServedKind, key: Item, uid: str) -> None:
        """Remove the finalizer of an owner that is deleted in the foreground once no dependent blocks it."""
        if uid not in self._started:
            self._started.add(uid)
            for dependent in self._dependents.get(uid, ()):
                self.queue(dependent)
        if not self._is_blocked(uid):
            self._drop_finalizer(row, key, FOREGROUND)

    def _is_blocked(self, uid: str) -> bool:
        """Return whether a dependent blocks the waiting owner; dependents that wait for that owner do not count."""
        waiting: list[str] = []
        for item in self._blocking.get(uid, ()):
            if self.context.registry.store.head(*item) is None:
                continue
            own = self._waiting_uid(item)
            if own is None:
                return True
            waiting.append(own)
        return not all(self._waits_for(own, uid) for own in waiting)

    def _waits_for(self, uid: str, blocker: str) -> bool:
        """Return whether a waiting owner is blocked by another one, directly or through further waiting owners."""
        pending, known = [uid], {uid}
        while pending:
            present = pending.pop()
            if present == blocker:
                return True
            for item in self._blocking.get(present, ()):
                own = self._waiting_uid(item)
                if own is not None and own not in known:
                    known.add(own)
                    pending.append(own)
        return False

    def _waiting_uid(self, item: Item) -> str | None:
        """Return the uid of an item that is deleted in the foreground, else None."""
        state = self.context.registry.store.head(*item)
        if state is None or FOREGROUND.encode() not in state.raw:
            return None
        metadata = state.decode()["metadata"]
        waits = metadata.get("deletionTimestamp") and FOREGROUND in (metadata.get("finalizers") or ())
        return str(metadata["uid"]) if waits else None

    def _check_owners(self, row: ServedKind, key: Item, metadata: Json) -> None:
        """Delete an item if none of its owners exists; with a solid owner, remove references to the others."""
        solid, dangling, waiting = False, set(), False
        for reference in metadata["ownerReferences"]:
            owner_row = self.context.registry.kinds.of(reference["apiVersion"], reference["kind"])
            if owner_row is None:
                return  # an unknown kind, or one that is no longer served
            namespace = key.namespace if owner_row.namespaced else ""
            if owner_row.namespaced and not key.namespace:
                return  # a namespaced object cannot own a cluster-scoped one: no change
            owner = self.context.registry.store.head(owner_row.storage_key, namespace, reference["name"])
            owner_metadata = owner.decode()["metadata"] if owner is not None else None
            if owner_metadata is None or owner_metadata["uid"] != reference["uid"]:
                dangling.add(reference["uid"])
                if owner_row.namespaced and not metadata.get("deletionTimestamp"):
                    self._report_elsewhere(row, key, metadata, reference, owner_row)
            elif owner_metadata.get("deletionTimestamp") and FOREGROUND in (owner_metadata.get("finalizers") or ()):
                waiting = True
                dangling.add(reference["uid"])
            else:
                solid = True
        if solid:
            if dangling:
                self._drop_references(key, dangling)
            return
        if metadata.get("deletionTimestamp"):
            return
        policy: Propagation = "Background"
        finalizers = metadata.get("finalizers") or ()
        if ORPHAN in finalizers:
            policy = "Orphan"
        elif FOREGROUND in finalizers or (waiting and self._dependents.get(metadata["uid"])):
            policy = "Foreground"
        options = DeleteOptions(uid=metadata["uid"], propagation=policy)
        self.context.delete(row, (key.namespace, key.name), options)

    def _report_elsewhere(
        self, row: ServedKind, key: Item, metadata: Json, reference: Json, owner_row: ServedKind
    ) -> None:
        """Record an Event about an owner in another namespace, where owners are invalid."""
        for space in self.context.registry.store.heads("namespaces"):
            owner = self.context.registry.store.head(owner_row.storage_key, space.name, reference["name"])
            if owner is not None and owner.decode()["metadata"]["uid"] == reference["uid"]:
                about = {"apiVersion": row.api_version, "kind": row.kind, "metadata": metadata}
                shown = f"{reference['apiVersion']}/{reference['kind']}, namespace: {key.namespace}"
                text = f"ownerRef [{shown}, name: {reference['name']}, uid: {reference['uid']}] does not exist in"
                text = f'{text} namespace "{key.namespace}"'
                self.context.event(about, "OwnerRefInvalidNamespace", text, "Warning", "garbage-collector-controller")
                return

    def _drop_references(self, key: Item, uids: set[str]) -> None:
        row = self._rows.get(key.resource)
        if row is None or self.context.registry.store.head(*key) is None:
            return

        self.context.modify(row, (key.namespace, key.name), disowned(uids), manager="")

    def _drop_finalizer(self, row: ServedKind, key: Item, name: str) -> None:
        self.context.modify(row, (key.namespace, key.name), without_finalizer(name), manager="")


def _discard(items: dict[str, set[Item]], uid: str, item: Item) -> None:
    uid_items = items.get(uid)
    if uid_items is not None:
        uid_items.discard(item)
        if not uid_items:
            del items[uid]


def _waits(metadata: Meta) -> bool:
    finalizers = metadata.finalizers or ()
    return ORPHAN in finalizers or FOREGROUND in finalizers
