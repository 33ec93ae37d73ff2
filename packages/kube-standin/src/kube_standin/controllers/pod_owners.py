"""Owners of pods: their pods, adoption and release, pods of a template, the order of deletion.

Terms: the *controller* of a pod is its owner reference with ``controller: true``; an *orphan* has none. An owner adopts
orphans that its selector matches and releases pods that it no longer matches (upstream: controller ref manager).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

from kube_rules.controllers.pods import DELETION_COST, PodParts, deletion_rank, pod_of_template
from kube_rules.json import Json
from kube_rules.selectors import Selector, compile_selector
from kube_standin.controllers.pending_writes import AwaitingWebhookError
from kube_standin.controllers.reconciler import Controller
from kube_standin.controllers.sources import Source, V
from kube_standin.controllers.views import Key, PodView, SpecView
from kube_standin.deletion import DeleteOptions
from kube_standin.errors import StatusError
from kube_standin.kinds import ServedKind
from kube_standin.metadata import annotations_of, disowned, key_of, owned_by, owner_reference

CREATES_AT_ONCE = 100
"""Pods that one sync creates; the next turn creates the rest, so that a large owner does not block the server."""
_NO_LABELS: Mapping[str, str] = {}


def selector_of(spec: Json) -> Selector:
    """Compile ``spec.selector``: a label selector, or the plain labels of a ReplicationController."""
    return compile_selector(spec.get("selector") or {})


def selects(spec: Json, labels: Mapping[str, str] | None) -> bool:
    """Return whether ``spec.selector`` matches; an empty selector of an owner matches no pods."""
    return bool(spec.get("selector")) and selector_of(spec).matches(labels or _NO_LABELS)


def pod_of(owner: Json, template: Json, parts: PodParts) -> Json:
    """Return the manifest of a pod of an owner's template."""
    return copy.deepcopy(pod_of_template(template, parts, owner_reference(owner)))


def index_owners(source: Source[V]) -> None:
    """Index objects by controller uid, and orphans by namespace."""
    source.index("owner", lambda item: (owner.uid,) if (owner := item.metadata.controller) else ())
    source.index("orphan", lambda item: () if item.metadata.controller else (item.metadata.namespace,))


class PodOwner(Controller):
    """A controller of objects that own pods; keys are those of the owners."""

    of_kind: ClassVar[tuple[str, str]]

    def connect(self) -> None:
        """Queue an owner when it or one of its pods changes, or when a client writes its status."""
        context = self.context
        self.row: ServedKind = context.kind(*self.of_kind)
        self.pod_row = context.kind("v1", "Pod")
        self.pods = context.sources.pods
        index_owners(self.pods)
        self.owners = context.sources.of(self.row.storage_key, SpecView)
        self.owners.index("namespace", lambda owner: (owner.metadata.namespace,))
        self.owners.add_handler(self._owner_changed)
        context.foreign_statuses.add_handler(self.row, self.queue)
        self.pods.add_handler(self._pod_changed)

    def _owner_changed(self, old: SpecView | None, new: SpecView | None) -> None:
        owner = new or old
        if owner is not None and (old is None or new is None or old != new):
            self.queue(owner.metadata.key)

    def _pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        for pod in (old, new):
            if pod is None:
                continue
            owner = pod.metadata.controller
            if owner is None:
                if pod is new:
                    self._orphan_seen(pod)
            elif owner.kind == self.row.kind and owner.api_version == self.row.api_version:
                self.queue((pod.metadata.namespace, owner.name))

    def _orphan_seen(self, pod: PodView) -> None:
        if not pod.active:
            return
        for key in self.owners.keys_by("namespace", pod.metadata.namespace):
            if selects(self.owners.items[key].spec, pod.metadata.labels):
                self.queue(key)

    def read(self, key: Key) -> Json | None:
        """Return the owner, or None if it does not exist."""
        return self.context.find(self.row, key)

    def claimed(self, owner: Json) -> list[PodView]:
        """Adopt and release pods; return the owner's pods in any order."""
        metadata, spec = owner["metadata"], owner["spec"]
        own = self.pods.some("owner", metadata["uid"])
        # Compiled once: an owner may have tens of thousands of pods.
        matches = selector_of(spec).matches if spec.get("selector") else lambda _labels: False
        strays = [pod for pod in own if not matches(pod.metadata.labels or _NO_LABELS) and not pod.terminating]
        for pod in strays:
            self.spend()
            self.context.modify(self.pod_row, pod.key, disowned({metadata["uid"]}))
        orphans: list[PodView] = []
        if not metadata.get("deletionTimestamp"):
            orphans = [
                pod
                for pod in self.pods.by("orphan", metadata["namespace"])
                if pod.active and matches(pod.metadata.labels or _NO_LABELS)
            ]
        for pod in orphans:
            self.spend()
            self.context.modify(self.pod_row, pod.key, owned_by(owner))
        if strays or orphans:
            self.context.sources.sync()
            own = self.pods.some("owner", metadata["uid"])
        return own

    # -- creating and ending pods

    def create_pod(self, owner: Json, pod: Json) -> Json:
        """Stage a pod; a refusal is recorded as an Event of the owner and raised."""
        try:
            created = self.context.create(self.pod_row, owner["metadata"]["namespace"], pod)
        except StatusError as error:
            self.record_refusal(owner, error)
            raise
        self.context.event(owner, "SuccessfulCreate", f"Created pod: {created['metadata']['name']}", source=self.source)
        return created

    def record_refusal(self, owner: Json, error: StatusError) -> None:
        """Record as an Event of the owner why one of its objects was refused."""
        expected = error.reason == "AlreadyExists" or isinstance(error, AwaitingWebhookError)
        if not expected and not is_terminating(error):
            self.context.event(owner, "FailedCreate", f"Error creating: {error}", "Warning", self.source)

    def create_pods(self, owner: Json, count: int, make: Callable[[], Json]) -> str:
        """Stage up to ``CREATES_AT_ONCE`` of ``count`` pods and queue the key again for the rest.

        Returns the message of the refusal that ended the creation (the key is then synced again later), or "".
        """
        key = key_of(owner)
        for _ in range(min(count, CREATES_AT_ONCE)):
            try:
                self.create_pod(owner, make())
            except AwaitingWebhookError:
                continue  # the other pods need not wait for its response
            except StatusError as error:
                self.sync_again_later(key)
                return error.message
        if count > CREATES_AT_ONCE:
            self.queue(key)
        return ""

    def end_pod(self, owner: Json, pod: PodView) -> None:
        """Stage the deletion of a pod with its own grace period; raises NextTurn after many writes."""
        self.spend()
        if self.context.delete(self.pod_row, pod.key, DeleteOptions(uid=pod.metadata.uid, propagation="Background")):
            self.context.event(owner, "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}", source=self.source)

    @property
    def source(self) -> str:
        """Return the component named in Events."""
        return f"{self.name}-controller"

    def deletion_order(self, pods: Iterable[PodView]) -> list[PodView]:
        """Return pods in the order in which a shrinking owner ends them (upstream: ActivePodsWithRanks).

        The order: unbound, not running, not ready, lower deletion cost, ready for less time, younger.
        """

        def rank(pod: PodView) -> tuple[tuple[bool, int, bool, int], str, str, str]:
            return (
                deletion_rank(pod.node, pod.phase, pod.ready, self._annotations(pod)),
                _inverted(pod.ready_since or ""),
                _inverted(pod.metadata.creation_timestamp or ""),
                pod.metadata.name,
            )

        return sorted(pods, key=rank)

    def _annotations(self, pod: PodView) -> Mapping[str, str]:
        """Return the annotations of a pod, empty for a pod without a deletion cost."""
        state = self.context.registry.store.head("pods", *pod.key)
        return (
            annotations_of(state.decode()) if state is not None and DELETION_COST.encode() in state.raw else _NO_LABELS
        )


def is_terminating(error: StatusError) -> bool:
    """Return whether a creation was refused because its namespace is terminating."""
    return any(cause.reason == "NamespaceTerminating" for cause in error.causes)


_INVERSION = str.maketrans("0123456789", "9876543210")


def _inverted(stamp: str) -> str:
    """Return a timestamp with inverted digits, so that later times sort first."""
    return stamp.translate(_INVERSION)
