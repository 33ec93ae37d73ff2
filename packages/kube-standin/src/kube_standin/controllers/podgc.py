"""Pods that no other controller ends: on missing nodes, terminating without a node, and surplus finished ones.

Rule: upstream's pod garbage collector. After a node has been missing for 40 s its pods get the phase Failed with the
condition DisruptionTarget (reason DeletionByPodGC) and are removed without a grace period.
"""

from __future__ import annotations

from typing import Any, Literal

from kube_standin.conditions import set_disrupted
from kube_standin.controllers.reconciler import Controller
from kube_standin.controllers.views import NodeView, PodView
from kube_standin.deletion import DeleteOptions

Task = tuple[Literal["node", "pod", "finished"], str, str]

_FINISHED: Task = ("finished", "", "")


def index_nodes(pods: Any) -> None:
    """Index pods by the node they are bound to."""
    pods.index("node", lambda pod: (pod.node,) if pod.node else ())


class PodCollector(Controller):
    """The pod garbage collector; keys are ("node", name, ""), ("pod", namespace, name) and ("finished", "", "")."""

    name = "pod-garbage-collector"

    def connect(self) -> None:
        """Queue the pods of deleted nodes, terminating unbound pods, and surplus finished pods."""
        sources = self.context.sources
        self._pods, self._nodes = sources.pods, sources.nodes
        index_nodes(self._pods)
        self._finished = 0
        self._suspected: set[str] = set()
        self._nodes.add_handler(self._node_changed)
        self._pods.add_handler(self._pod_changed)

    def _node_changed(self, old: NodeView | None, new: NodeView | None) -> None:
        if new is None and old is not None:
            self._suspect(old.metadata.name)

    def _pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        self._finished += (new is not None and new.finished) - (old is not None and old.finished)
        if new is None:
            return
        if new.node and (old is None or old.node != new.node) and ("", new.node) not in self._nodes.items:
            self._suspect(new.node)
        if new.terminating and not new.node:
            self.queue(("pod", *new.key))
        if new.finished and self._finished > self.context.times.most_finished:
            self.queue(_FINISHED)

    def _suspect(self, node: str) -> None:
        if node not in self._suspected:
            self._suspected.add(node)
            self.queue_after(("node", node, ""), self.context.times.orphan_grace)

    def reconcile(self, key: Task) -> None:
        """Remove the pods of a missing node, an unbound terminating pod, or surplus finished pods."""
        match key[0]:
            case "node":
                self._suspected.discard(key[1])
                if ("", key[1]) not in self._nodes.items:
                    for pod in self._pods.by("node", key[1]):
                        self._fail_and_remove(pod)
            case "pod":
                pod_seen = self._pods.items.get((key[1], key[2]))
                if pod_seen is not None and pod_seen.terminating and not pod_seen.node:
                    self._remove(pod_seen)
            case "finished":
                self._thin_out()

    def _thin_out(self) -> None:
        surplus = self._finished - self.context.times.most_finished
        if surplus > 0:
            finished = [pod for pod in self._pods.items.values() if pod.finished and not pod.terminating]
            finished.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.key))
            for pod in finished[:surplus]:
                self._remove(pod)

    def _fail_and_remove(self, pod: PodView) -> None:
        self.spend()
        state = self.context.registry.store.head("pods", *pod.key)
        if state is not None and not pod.finished:
            body = state.decode()
            body.setdefault("status", {})["phase"] = "Failed"
            set_disrupted(body, self.context.stamp(), "DeletionByPodGC", "PodGC: node no longer exists")
            self.context.put(state, body)
        self._remove(pod)

    def _remove(self, pod: PodView) -> None:
        self.spend()
        kind = self.context.kind("v1", "Pod")
        self.context.delete(kind, pod.key, DeleteOptions(grace=0, uid=pod.metadata.uid))
