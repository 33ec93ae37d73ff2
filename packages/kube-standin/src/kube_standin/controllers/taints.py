"""NoExecute taints: evict pods that do not tolerate one, others when their toleration expires.

Rules: upstream's taint eviction controller. Of several matching tolerations the shortest counts, from the time when the
taint was added. The pod gets the condition DisruptionTarget (DeletionByTaintManager).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from kube_rules.json import Json
from kube_rules.taints import covers
from kube_standin.clock import parse_stamp
from kube_standin.conditions import set_disrupted
from kube_standin.controllers.podgc import index_nodes
from kube_standin.controllers.reconciler import Controller
from kube_standin.controllers.views import Key, NodeView, PodView, TaintView
from kube_standin.deletion import DeleteOptions


def tolerates(toleration: Json, taint: TaintView) -> bool:
    """Return whether one toleration covers one taint."""
    key, operator, value, effect = (toleration.get(field) or "" for field in ("key", "operator", "value", "effect"))
    return covers(key, operator, value, effect, (taint.key, taint.value, taint.effect))


def tolerated_until(since: datetime, seconds: int) -> datetime | None:
    """Return when a toleration of some seconds ends; None if that is after the last date (any int64 is valid)."""
    try:
        return since + timedelta(seconds=max(0, seconds))
    except OverflowError:
        return None


class TaintEviction(Controller):
    """The controller of taint evictions; keys are those of pods."""

    name = "taint-eviction"

    def connect(self) -> None:
        """Queue the pods of tainted nodes."""
        sources = self.context.sources
        self._pods, self._nodes = sources.pods, sources.nodes
        index_nodes(self._pods)
        self._first_seen: dict[tuple[str, str, str], datetime] = {}
        self._nodes.add_handler(self._node_changed)
        self._pods.add_handler(self._pod_changed)

    @staticmethod
    def _executing(node: NodeView | None) -> tuple[TaintView, ...]:
        if node is None or not node.spec.taints:
            return ()
        return tuple(taint for taint in node.spec.taints if taint.effect == "NoExecute")

    def _node_changed(self, old: NodeView | None, new: NodeView | None) -> None:
        taints = self._executing(new)
        if new is None or taints == self._executing(old):
            return
        name, now = new.metadata.name, self.context.now()
        keep = {(name, taint.key, taint.value): now for taint in taints}
        for stale in [stale for stale in self._first_seen if stale[0] == name and stale not in keep]:
            del self._first_seen[stale]
        for taint_key, moment in keep.items():
            self._first_seen.setdefault(taint_key, moment)
        if taints:
            for key in self._pods.keys_by("node", name):
                self.queue(key)

    def _pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        if new is None or not new.node or (old is not None and old.node == new.node):
            return
        if self._executing(self._nodes.items.get(("", new.node))):
            self.queue(new.key)

    def reconcile(self, key: Key) -> None:
        """Evict the pod if it may not stay, or queue it for the end of its toleration."""
        pod = self._pods.items.get(key)
        if pod is None or not pod.active:
            return
        taints = self._executing(self._nodes.items.get(("", pod.node)))
        state = self.context.registry.store.head("pods", *key)
        if not taints or state is None:
            return
        body = state.decode()
        tolerations = (body.get("spec") or {}).get("tolerations") or ()
        now = self.context.now()
        ends: datetime | None = None
        for taint in taints:
            used = [toleration for toleration in tolerations if tolerates(toleration, taint)]
            if not used:
                ends = now
                break
            seconds = [t["tolerationSeconds"] for t in used if t.get("tolerationSeconds") is not None]
            if not seconds:
                continue
            end = tolerated_until(self._since(pod.node, taint), min(seconds))
            if end is None:
                continue
            ends = end if ends is None else min(ends, end)
        if ends is None:
            return
        if ends > now:
            self.context.timers.at(ends, lambda: self.queue(key))
            return
        why = "Taint manager: deleting due to NoExecute taint"
        set_disrupted(body, self.context.stamp(), "DeletionByTaintManager", why)
        self.context.put(state, body)
        kind = self.context.kind("v1", "Pod")
        about = {"kind": "Pod", "apiVersion": "v1", **body}
        text = f"Marking for deletion Pod {key[0]}/{key[1]}"
        self.context.event(about, "TaintManagerEviction", text, source="taint-eviction-controller")
        self.context.delete(kind, key, DeleteOptions(uid=pod.metadata.uid))

    def _since(self, node: str, taint: TaintView) -> datetime:
        if taint.time_added:
            return parse_stamp(taint.time_added)
        return self._first_seen.setdefault((node, taint.key, taint.value), self.context.now())
