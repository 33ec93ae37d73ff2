"""Pod groups that go: the protection finalizer stays while an unfinished pod names the group.

Rule: api.md ("it is not removed while a pod that references it is neither Succeeded nor Failed").
"""

from __future__ import annotations

from reprieve.controlplane.admission.groups import PROTECTION
from reprieve.controlplane.controllers.reconciling import Controller
from reprieve.controlplane.controllers.views import Key, PodSeen, Seen
from reprieve.controlplane.metadata import without_finalizer


class PodGroups(Controller):
    """Takes the finalizer off deleted groups that no pod needs; keys are those of groups."""

    name = "podgroup-protection"

    def connect(self) -> None:
        """Look at a group when it is deleted or loses a pod."""
        sources = self.context.sources
        self._pods = sources.pods
        self._pods.index(
            "unfinished of group", lambda pod: ((pod.metadata.namespace, pod.group),) if self._needs(pod) else ()
        )
        self._groups = sources.of("scheduling.k8s.io/podgroups", Seen)
        self._groups.tell(self._group_changed)
        self._pods.tell(self._pod_changed)

    @staticmethod
    def _needs(pod: PodSeen) -> bool:
        return bool(pod.group) and not pod.finished

    def _group_changed(self, _old: Seen | None, new: Seen | None) -> None:
        if new is not None and new.metadata.deletion_timestamp and PROTECTION in (new.metadata.finalizers or ()):
            self.queue(new.metadata.key)

    def _pod_changed(self, old: PodSeen | None, new: PodSeen | None) -> None:
        if old is not None and self._needs(old) and (new is None or not self._needs(new)):
            self.queue((old.metadata.namespace, old.group))

    def reconcile(self, key: Key) -> None:
        """Let the group go if it may."""
        group = self._groups.items.get(key)
        row = self.context.registry.kinds.of("scheduling.k8s.io/v1beta1", "PodGroup")
        if row is None:
            return  # the feature is off: groups wait for it to come back
        if group is None or not group.metadata.deletion_timestamp:
            return
        if PROTECTION not in (group.metadata.finalizers or ()) or self._pods.keys_by("unfinished of group", key):
            return
        self.context.modify(row, key, without_finalizer(PROTECTION))
