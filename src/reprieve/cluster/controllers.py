"""Who made whom, as far as the scheduler knows: the controllers above a pod or a pod group.

A Deployment makes its pods by way of ReplicaSets, one for each version of its template, so a pod and the one that
replaces it in a rolling update have different controllers and the same one above them.  ReplicaSets are read anyway
(`reprieve.cluster.default_selectors`); of other kinds only what a pod or group itself names is known.
"""

from reprieve.api.meta import KubernetesObject
from reprieve.cluster.pods import Owner, controller_of

_MOST_STEPS = 8
"""Controllers above controllers are followed no further: a loop of references ends."""


class Controllers:
    """The controllers of controllers that are known. Names are within a namespace."""

    def __init__(self) -> None:
        self._above: dict[tuple[str, str, str], Owner] = {}
        """(kind, namespace, name) -> who made it."""

    def set(self, item: KubernetesObject) -> None:
        """Learn of an object or its change."""
        meta = item.metadata
        above = controller_of(meta)
        key = (type(item).__name__, meta.namespace or "default", meta.name)
        if above is None:
            self._above.pop(key, None)
        else:
            self._above[key] = above

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """An object is gone."""
        self._above.pop((kind, namespace, name), None)

    def highest(self, namespace: str, owner: Owner) -> Owner:
        """The highest known controller above, and including, the given one."""
        for _ in range(_MOST_STEPS):
            above = self._above.get((owner[1], namespace, owner[2]))
            if above is None:
                return owner
            owner = above
        return owner
