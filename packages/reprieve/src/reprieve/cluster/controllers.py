"""Owners, as far as the scheduler knows them: the controllers above a pod or a pod group.

A Deployment makes its pods by way of ReplicaSets, one for each version of its template, so a pod and the one that
replaces it in a rolling update have different controllers and the same one above them.  ReplicaSets are read anyway
(`reprieve.cluster.default_selectors`), by a watch of their own: the name of one that is not known yet ends
in the pod's `pod-template-hash`, and begins with its Deployment's.  Of other kinds only what a pod or group itself
names is known.
"""

from collections.abc import Mapping

from kube_rules.controllers.pods import POD_TEMPLATE_HASH
from kube_rules.meta import KubernetesObject
from reprieve.cluster.pods import Owner, PodRecord, controller_of

_MOST_STEPS = 8
"""Controllers above controllers are followed no further: a loop of references ends."""
_NO_LABELS: Mapping[str, str] = {}


OwnershipKey = tuple[str, Owner | None, str | None, str | None]
"""(namespace, controller, pod group, pod-template-hash): the highest controllers of pods that share it are the same."""


def ownership_key(pod: PodRecord) -> OwnershipKey:
    """Return what decides which a pod's highest controllers are; its labels and its group may change."""
    return pod.namespace, pod.owner, pod.group, pod.labels.get(POD_TEMPLATE_HASH)


class Controllers:
    """The controllers of controllers that are known. Names are within a namespace."""

    def __init__(self) -> None:
        self._above: dict[tuple[str, str, str], Owner | None] = {}
        """(kind, namespace, name) -> its owner."""

    def set(self, item: KubernetesObject) -> None:
        """Learn of an object or its change."""
        meta = item.metadata
        self._above[type(item).__name__, meta.namespace or "default", meta.name] = controller_of(meta)

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """An object was deleted."""
        self._above.pop((kind, namespace, name), None)

    def highest(self, namespace: str, owner: Owner, labels: Mapping[str, str] = _NO_LABELS) -> Owner:
        """Return the highest known controller above, and including, that of a pod with these labels, or of a group."""
        for _ in range(_MOST_STEPS):
            key = (owner[1], namespace, owner[2])
            above = self._above.get(key)
            if above is None and key not in self._above:
                above = _by_name(owner, labels)
            if above is None:
                return owner
            owner = above
        return owner


def _by_name(owner: Owner, labels: Mapping[str, str]) -> Owner | None:
    """Return the Deployment of a ReplicaSet that is not known."""
    version, kind, name = owner
    suffix = f"-{labels[POD_TEMPLATE_HASH]}" if labels.get(POD_TEMPLATE_HASH) else ""
    if kind != "ReplicaSet" or not suffix or not name.endswith(suffix) or name == suffix:
        return None
    return version, "Deployment", name.removesuffix(suffix)
