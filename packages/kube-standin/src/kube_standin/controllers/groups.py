"""Deleted groups: the protection finalizers remain while the group is needed.

Rules: api.md ("it is not removed while a pod that references it is neither Succeeded nor Failed") for PodGroups,
composite.md 1 for CompositePodGroups, which remain while a PodGroup or CompositePodGroup names them as its parent.
"""

from __future__ import annotations

from collections.abc import Iterator

from kube_rules.groups import CompositePodGroup
from kube_rules.versions import INTERNAL_VERSION
from kube_standin.admission.groups import COMPOSITE_PROTECTION, PROTECTION
from kube_standin.controllers.reconciler import Controller
from kube_standin.controllers.views import Key, PodGroupView, PodView
from kube_standin.metadata import without_finalizer

_UNFINISHED, _CHILDREN = "unfinished of group", "children of composite"


def _is_deleted(group: PodGroupView, protection: str) -> bool:
    return bool(group.metadata.deletion_timestamp) and protection in (group.metadata.finalizers or ())


class PodGroups(Controller):
    """The controller that removes the finalizer of deleted groups that no pod needs; keys are those of groups."""

    name = "podgroup-protection"

    def connect(self) -> None:
        """Queue a group when it is deleted or loses a pod."""
        sources = self.context.sources
        self._pods = sources.pods
        self._pods.index(_UNFINISHED, lambda pod: ((pod.metadata.namespace, pod.group),) if self._needs(pod) else ())
        self._groups = sources.of("scheduling.k8s.io/podgroups", PodGroupView)
        self._groups.add_handler(self._group_changed)
        self._pods.add_handler(self._pod_changed)

    @staticmethod
    def _needs(pod: PodView) -> bool:
        return bool(pod.group) and not pod.finished

    def _group_changed(self, _old: PodGroupView | None, new: PodGroupView | None) -> None:
        if new is not None and _is_deleted(new, PROTECTION):
            self.queue(new.metadata.key)

    def _pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        if old is not None and self._needs(old) and (new is None or not self._needs(new)):
            self.queue((old.metadata.namespace, old.group))

    def reconcile(self, key: Key) -> None:
        """Remove the finalizer unless a pod needs the group."""
        group = self._groups.items.get(key)
        row = self.context.registry.kinds.readable(INTERNAL_VERSION, "PodGroup")
        if row is None:
            return  # the feature is off: groups wait until it is on again
        if group is None or not _is_deleted(group, PROTECTION) or self._pods.keys_by(_UNFINISHED, key):
            return
        self.context.modify(row, key, without_finalizer(PROTECTION))


class CompositePodGroups(Controller):
    """The controller that removes the finalizer of deleted composites without children; keys are those of composites.

    A deleted tree is removed from its leaves up. Composites that name each other as parents would wait for each other
    forever, and so would their namespace. Once all composites of such a cycle are deleted, they do not count as
    children of each other.
    """

    name = "compositepodgroup-protection"

    def connect(self) -> None:
        """Queue a composite when it is deleted or loses a child."""
        sources = self.context.sources
        self._composites = sources.of("scheduling.k8s.io/compositepodgroups", PodGroupView)
        self._groups = sources.of("scheduling.k8s.io/podgroups", PodGroupView)
        for source in (self._composites, self._groups):
            source.index(_CHILDREN, self._above)
            source.add_handler(self._child_changed)
        self._composites.add_handler(self._changed)

    @staticmethod
    def _above(group: PodGroupView) -> Iterator[Key]:
        if group.parent:
            yield (group.metadata.namespace, group.parent)

    def _changed(self, _old: PodGroupView | None, new: PodGroupView | None) -> None:
        if new is not None and _is_deleted(new, COMPOSITE_PROTECTION):
            for key in {new.metadata.key, *self._deleted_cycle(new.metadata.key)}:
                self.queue(key)

    def _deleted_cycle(self, key: Key) -> frozenset[Key]:
        """Return the cycle of parents that contains the composite, if all its composites are deleted; else an empty
        set.
        """
        chain: list[Key] = []
        seen: set[Key] = set()
        while key not in seen:
            composite = self._composites.items.get(key)
            if composite is None or not composite.parent or not composite.metadata.deletion_timestamp:
                return frozenset()
            chain.append(key)
            seen.add(key)
            key = (key[0], composite.parent)
        return frozenset(chain) if key == chain[0] else frozenset()

    def _child_changed(self, old: PodGroupView | None, new: PodGroupView | None) -> None:
        """Queue the parent of a child that was deleted or replaced; the parent of an object is immutable."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            for key in self._above(old):
                self.queue(key)

    def reconcile(self, key: Key) -> None:
        """Remove the finalizer unless the composite has children."""
        composite = self._composites.items.get(key)
        row = self.context.registry.kinds.readable(CompositePodGroup.API_VERSION, "CompositePodGroup")
        if row is None:
            return  # the feature is off: composites wait until it is on again
        if composite is None or not _is_deleted(composite, COMPOSITE_PROTECTION):
            return
        if self._groups.keys_by(_CHILDREN, key):
            return
        children = self._composites.keys_by(_CHILDREN, key)
        if not children or children <= self._deleted_cycle(key):
            self.context.modify(row, key, without_finalizer(COMPOSITE_PROTECTION))
