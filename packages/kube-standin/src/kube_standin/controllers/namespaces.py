"""Namespaces that go: everything in them is deleted, then the namespace lets itself go.

Rule: upstream's namespace controller (deletion of all namespaced content, then /finalize without ``kubernetes``).
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

from kube_rules.json import Json
from kube_standin.conditions import condition, put_condition
from kube_standin.controllers.reconciling import WRITES_AT_ONCE, Controller
from kube_standin.controllers.sources import VIEWS, Source
from kube_standin.controllers.views import Seen
from kube_standin.deleting import DeleteOptions
from kube_standin.kinds import ServedKind
from kube_standin.metadata import without_finalizer

_RETRY_SECONDS = 0.2
_WITHIN, _LIVING = "within", "living"
"""Indices of a source by namespace: of all objects, and of those that are not deleted yet."""
FINALIZER = "kubernetes"


class Namespaces(Controller):
    """Empties and finalizes terminating namespaces; keys are their names."""

    name = "namespace"

    def connect(self) -> None:
        """Queue a namespace once it is deleted."""
        self._namespaces = self.context.sources.of("namespaces", Seen)
        self._namespaces.add_handler(
            lambda _old, new: self.queue(new.metadata.name) if new and new.metadata.deletion_timestamp else None
        )

    def reconcile(self, key: str) -> None:
        """Delete what is left; finalize if nothing is."""
        context = self.context
        kind = context.kind("v1", "Namespace")
        namespace = context.find(kind, ("", key))
        if namespace is None or not namespace["metadata"].get("deletionTimestamp"):
            return
        sources = self._inside()
        for source, row in sources:
            for name in list(itertools.islice(source.keys_by(_LIVING, key), WRITES_AT_ONCE + 1)):
                self.spend()
                context.delete(row, name, DeleteOptions(propagation="Background"))
        context.sources.sync()
        left = sum(len(source.keys_by(_WITHIN, key)) for source, _ in sources)
        if left:
            self._report_finalizers(key, sources)
            self.queue_after(key, _RETRY_SECONDS)
            return
        context.modify(kind, ("", key), without_finalizer(FINALIZER, "spec"), "finalize")

    def _inside(self) -> list[tuple[Source[Any], ServedKind]]:
        """What namespaces hold: the objects of each resource, by namespace, and those that are not yet deleted."""
        found: dict[str, tuple[Source[Any], ServedKind]] = {}
        for row in list(self.context.registry.kinds):
            if not row.namespaced or not row.stored or row.storage_key in found:
                continue
            if not self.context.registry.store.count(row.storage_key):
                continue
            source: Source[Any] = self.context.sources.of(row.storage_key, VIEWS.get(row.storage_key, (Seen, None))[0])
            source.index(_WITHIN, lambda one: (one.metadata.namespace,))
            source.index(_LIVING, lambda one: () if one.metadata.deletion_timestamp else (one.metadata.namespace,))
            found[row.storage_key] = (source, row)
        return list(found.values())

    def _report_finalizers(self, name: str, sources: list[tuple[Source[Any], ServedKind]]) -> None:
        """List in the status which finalizers the namespace waits for."""
        held = Counter(
            finalizer
            for source, _ in sources
            for one in source.some(_WITHIN, name)
            for finalizer in one.metadata.finalizers or ()
        )
        if not held:
            return
        parts = ", ".join(f"{finalizer} in {count} resource instances" for finalizer, count in sorted(held.items()))
        text = f"Some content in the namespace has finalizers remaining: {parts}"
        remaining = condition("NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain", text)
        stamp = self.context.stamp()

        def change(obj: Json) -> None:
            put_condition(obj.setdefault("status", {}), remaining, stamp)

        self.context.modify(self.context.kind("v1", "Namespace"), ("", name), change, "status")
