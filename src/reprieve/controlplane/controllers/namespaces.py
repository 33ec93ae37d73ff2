"""Namespaces that go: everything in them is deleted, then the namespace lets itself go.

Rule: upstream's namespace controller (deletion of all namespaced content, then /finalize without ``kubernetes``).
"""

from __future__ import annotations

from reprieve.api.json import Json
from reprieve.controlplane.conditions import condition, put_condition
from reprieve.controlplane.controllers.reconciling import Controller
from reprieve.controlplane.controllers.views import Seen
from reprieve.controlplane.deleting import DeleteOptions
from reprieve.controlplane.metadata import without_finalizer
from reprieve.controlplane.storage import Stored

_AT_ONCE = 500
_RETRY_SECONDS = 0.2
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
        context, store = self.context, self.context.registry.store
        kind = context.kind("v1", "Namespace")
        namespace = context.find(kind, ("", key))
        if namespace is None or not namespace["metadata"].get("deletionTimestamp"):
            return
        budget, left = _AT_ONCE, 0
        held: dict[str, int] = {}
        seen: set[str] = set()
        for row in list(context.registry.kinds):
            if not row.namespaced or not row.stored or row.storage_key in seen:
                continue
            seen.add(row.storage_key)
            if not store.count(row.storage_key):
                continue
            for state in list(store.heads(row.storage_key, key)):
                if budget > 0 and not _is_terminating(state):
                    budget -= 1
                    context.delete(row, state.key, DeleteOptions(propagation="Background"))
                present = store.head(row.storage_key, *state.key)
                if present is None:
                    continue
                left += 1
                for finalizer in present.decode()["metadata"].get("finalizers") or ():
                    held[finalizer] = held.get(finalizer, 0) + 1
        if left:
            if held and budget == _AT_ONCE:
                self._report_finalizers(key, held)
            self.queue_after(key, _RETRY_SECONDS)
            return
        context.modify(kind, ("", key), without_finalizer(FINALIZER, "spec"), "finalize")

    def _report_finalizers(self, name: str, held: dict[str, int]) -> None:
        """List in the status which finalizers the namespace waits for."""
        parts = ", ".join(f"{finalizer} in {count} resource instances" for finalizer, count in sorted(held.items()))
        text = f"Some content in the namespace has finalizers remaining: {parts}"
        remaining = condition("NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain", text)
        stamp = self.context.stamp()

        def change(obj: Json) -> None:
            put_condition(obj.setdefault("status", {}), remaining, stamp)

        self.context.modify(self.context.kind("v1", "Namespace"), ("", name), change, "status")


def _is_terminating(state: Stored) -> bool:
    return b'"deletionTimestamp"' in state.raw and bool(state.decode()["metadata"].get("deletionTimestamp"))
