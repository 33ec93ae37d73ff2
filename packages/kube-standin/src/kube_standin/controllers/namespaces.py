"""Terminating namespaces: the controller deletes their content, then finalizes them.

Rule: upstream's namespace controller 1.36: it deletes pods first and the other objects after them; the conditions
report the remaining objects. Then it calls /finalize without ``kubernetes``.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

from kube_rules.json import Json
from kube_standin.conditions import condition, put_condition
from kube_standin.controllers.reconciler import WRITES_AT_ONCE, Controller
from kube_standin.controllers.sources import VIEWS, Source
from kube_standin.controllers.views import ObjectView
from kube_standin.deletion import DeleteOptions
from kube_standin.kinds import ServedKind
from kube_standin.metadata import without_finalizer

_RETRY_SECONDS = 0.2
_WITHIN, _LIVING = "within", "living"
"""Indexes of a source by namespace: of all objects, and of those that are not being deleted."""
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
"""The status, reason and message of each condition of a terminating namespace without problems."""


class Namespaces(Controller):
    """The controller that empties and finalizes terminating namespaces; keys are their names."""

    name = "namespace"

    def connect(self) -> None:
        """Queue a namespace when it is deleted."""
        self._namespaces = self.context.sources.of("namespaces", ObjectView)
        self._namespaces.add_handler(
            lambda _old, new: self.queue(new.metadata.name) if new and new.metadata.deletion_timestamp else None
        )

    def reconcile(self, key: str) -> None:
        """Delete remaining objects, or finalize an empty namespace."""
        context = self.context
        kind = context.kind("v1", "Namespace")
        namespace = context.find(kind, ("", key))
        if namespace is None or not namespace["metadata"].get("deletionTimestamp"):
            return
        sources = self._inside()
        pods = [pair for pair in sources if pair[1].resource == "pods"]
        for part in (pods, sources):  # pods end before the objects they use
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
        """Return the source and kind of each namespaced resource, indexed by namespace."""
        pairs: dict[str, tuple[Source[Any], ServedKind]] = {}
        for row in list(self.context.registry.kinds):
            if not row.namespaced or not row.stored or row.storage_key in pairs:
                continue
            if not self.context.registry.store.count(row.storage_key):
                continue
            source: Source[Any] = self.context.sources.of(
                row.storage_key, VIEWS.get(row.storage_key, (ObjectView, None))[0]
            )
            source.index(_WITHIN, lambda item: (item.metadata.namespace,))
            source.index(_LIVING, lambda item: () if item.metadata.deletion_timestamp else (item.metadata.namespace,))
            pairs[row.storage_key] = (source, row)
        return list(pairs.values())

    def _report(self, name: str, sources: list[tuple[Source[Any], ServedKind]]) -> None:
        """Set the conditions of the namespace: the remaining objects and the finalizers it waits for."""
        remaining = {row: count for source, row in sources if (count := len(source.keys_by(_WITHIN, name)))}
        finalizers = Counter(
            finalizer
            for source, _ in sources
            for item in source.some(_WITHIN, name)
            for finalizer in item.metadata.finalizers or ()
        )
        conditions = dict(_SUCCESS)
        if remaining:
            parts = sorted(
                f"{row.plural}.{row.group} has {count} resource instances" for row, count in remaining.items()
            )
            text = f"Some resources are remaining: {', '.join(parts)}"
            conditions["NamespaceContentRemaining"] = ("True", "SomeResourcesRemain", text)
        if finalizers:
            parts = [f"{finalizer} in {count} resource instances" for finalizer, count in sorted(finalizers.items())]
            text = f"Some content in the namespace has finalizers remaining: {', '.join(parts)}"
            conditions["NamespaceFinalizersRemaining"] = ("True", "SomeFinalizersRemain", text)
        stamp = self.context.stamp()

        def change(obj: Json) -> None:
            for kind, values in conditions.items():
                put_condition(obj.setdefault("status", {}), condition(kind, *values), stamp)

        self.context.modify(self.context.kind("v1", "Namespace"), ("", name), change, "status")
