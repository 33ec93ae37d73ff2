"""Controllers of moved pods in simulated time: they recreate the pods without a node (moving.md 4.4)."""

from msgspec.structs import replace

from kube_rules import objects
from reprieve.preemption.outcome import Preemption


class MovedPods:
    """The pods of a plan that may move. `on`: the scheduler moves pods."""

    def __init__(self, *, on: bool) -> None:
        self._on = on
        self._objects: dict[str, objects.Pod] = {}
        """By UID."""
        self._leaving: set[str] = set()

    def begin(self, uid: str, item: objects.Pod) -> None:
        """Register an existing pod."""
        if self._on:
            self._objects[uid] = item

    def leave(self, preemption: Preemption) -> None:
        """Mark the moving pods of a preemption."""
        self._leaving |= {pod.uid for pod, _ in preemption.moves if pod.uid in self._objects}

    def gone(self, uid: str) -> objects.Pod | None:
        """Remove a deleted pod; if it moves, return the pod that its controller creates."""
        item = self._objects.pop(uid, None)
        if item is None or uid not in self._leaving:
            return None
        self._leaving.discard(uid)
        meta, spec = replace(item.metadata, uid=""), replace(item.spec, node_name="")
        return replace(item, metadata=meta, spec=spec, status=objects.PodStatus())
