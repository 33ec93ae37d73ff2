"""Namespaces that go: everything in them is deleted, then the namespace lets itself go.

Rule: upstream's namespace controller 1.36: first pods, and once they are gone the rest; the conditions report what
remains. Then /finalize without ``kubernetes``.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

from kube_rules.json import Json
from kube_standin.conditions import condition, put_condition
from kube_standin.controllers.reconciler import WRITES_AT_ONCE, Controller
from kube_standin.controllers.sources import VIEWS, Source
from kube_standin.controllers.views import Seen
from kube_standin.deletion import DeleteOptions
from kube_standin.kinds import ServedKind
from kube_standin.metadata import without_finalizer

_RETRY_SECONDS = 0.2
_WITHIN, _LIVING = "within", "living"
"""Indices of a source by namespace: of all objects, and of those that are not deleted yet."""
FINALIZER = "kubernetes"
_SUCCESS = {
    "NamespaceDeletionDiscoveryFailure": ("False", "ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "False",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "False",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("False", "ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("False", "ContentRemoved", "All content successfully removed"),
}
"""Conditions of a namespace that is being deleted: status, reason and message while nothing is wrong."""


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
        pods = [one for one in sources if one[1].resource == "pods"]
        for part in (pods, sources):  # pods end before what they use goes
            for source, row in part:
                for name in list(itertools.islice(source.keys_by(_LIVING, key), WRITES_AT_ONCE + 1)):
                    self.spend()
                    context.delete(row, name, DeleteOptions(propagation="Background"))
            context.sources.sync()
            if any(source.keys_by(_WITHIN, key) for source, _ in part):
                self._report(key, sources if part is sources else pods)
                self.queue_after(key, _RETRY_SECONDS)
                return
        if set(namespace.get("spec", {}).get("finalizers") or ()) - {FINALIZER} or namespace["metadata"].get(
            "finalizers"
        ):
            self._report(key, [])
        context.modify(kind, ("", key), without_finalizer(FINALIZER, "spec"), "finalize")

    def _inside(self) -> list[tuple[Source[Any], ServedKind]]:
        """Return what namespaces hold: the objects of each resource, by namespace, and those that are not yet
        deleted.
        """
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

    def _report(self, name: str, sources: list[tuple[Source[Any], ServedKind]]) -> None:
        """Set the conditions of the namespace: what remains in it, and which finalizers it waits for."""
        remaining = {row: count for source, row in sources if (count := len(source.keys_by(_WITHIN, name)))}
        held = Counter(
            finalizer
            for source, _ in sources
            for one in source.some(_WITHIN, name)
            for finalizer in one.metadata.finalizers or ()
        )
        conditions = dict(_SUCCESS)
        if remaining:
            parts = sorted(
                f"{row.plural}.{row.group} has {count} resource instances" for row, count in remaining.items()
            )
            text = f"Some resources are remaining: {', '.join(parts)}"
            conditions["NamespaceContentRemaining"] = ("True", "SomeResourcesRemain", text)
        if held:
            parts = [f"{finalizer} in {count} resource instances" for finalizer, count in sorted(held.items())]
            text = f"Some content in the namespace has finalizers remaining: {', '.join(parts)}"
            conditions["NamespaceFinalizersRemaining"] = ("True", "SomeFinalizersRemain", text)
        stamp = self.context.stamp()

        def change(obj: Json) -> None:
            for kind, values in conditions.items():
                put_condition(obj.setdefault("status", {}), condition(kind, *values), stamp)

        self.context.modify(self.context.kind("v1", "Namespace"), ("", name), change, "status")
