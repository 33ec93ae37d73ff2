"""The known owners of pods and pod groups: their controllers and the controllers above.

A Deployment creates its pods through ReplicaSets, one for each version of its template. A pod and its replacement in a
rolling update therefore have different controllers with the same controller above. ReplicaSets are watched anyway
(`reprieve.cluster.default_selectors`). The name of an unknown ReplicaSet ends in the pod's `pod-template-hash` and
begins with the name of its Deployment. Of other kinds only the controllers named by a pod or group are known.
"""

from collections.abc import Mapping

from kube_rules.controllers.pods import POD_TEMPLATE_HASH
from kube_rules.meta import KubernetesObject
from reprieve.cluster.pods import Owner, PodRecord, controller_of

_MOST_STEPS = 8
"""The maximum number of controllers above each other, so that a cycle of references ends."""
_NO_LABELS: Mapping[str, str] = {}


OwnershipKey = tuple[str, Owner | None, str | None, str | None]
"""(namespace, controller, pod group, pod-template-hash): pods with the same key have the same highest controllers."""


def ownership_key(pod: PodRecord) -> OwnershipKey:
    """Return the key that determines a pod's highest controllers; its labels and group may change."""
    return pod.namespace, pod.owner, pod.group, pod.labels.get(POD_TEMPLATE_HASH)


class Controllers:
    """The known controllers of controllers. Names are within a namespace."""

    def __init__(self) -> None:
        self._above: dict[tuple[str, str, str], Owner | None] = {}
        """(kind, namespace, name) -> its owner."""

    def set(self, item: KubernetesObject) -> None:
        """Add or update an object."""
        meta = item.metadata
        self._above[type(item).__name__, meta.namespace or "default", meta.name] = controller_of(meta)

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Remove a deleted object."""
        self._above.pop((kind, namespace, name), None)

    def highest(self, namespace: str, owner: Owner, labels: Mapping[str, str] = _NO_LABELS) -> Owner:
        """Return the highest known controller at or above that of a pod with these labels, or of a group."""
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
    """Return the Deployment of an unknown ReplicaSet."""
    version, kind, name = owner
    suffix = f"-{labels[POD_TEMPLATE_HASH]}" if labels.get(POD_TEMPLATE_HASH) else ""
    if kind != "ReplicaSet" or not suffix or not name.endswith(suffix) or name == suffix:
        return None
    return version, "Deployment", name.removesuffix(suffix)
