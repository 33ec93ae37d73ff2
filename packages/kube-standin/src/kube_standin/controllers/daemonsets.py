"""DaemonSets: one pod on every node that fits, by node selector, node affinity and tolerations.

Rules: upstream's daemon set controller. A pod names its node by a node affinity on metadata.name, and the scheduler
binds it like any other pod; it tolerates the taints of troubled and cordoned nodes. A node *should run* a pod if
selector and affinity match and the pod tolerates every NoSchedule and NoExecute taint. It may *continue to run* one if
only NoSchedule taints are not tolerated. An update with maxSurge creates the new pod of a node first, and ends the old
one when the new one is available.
"""

from __future__ import annotations

import copy

import msgspec

from kube_rules.controllers.amounts import share_of
from kube_rules.controllers.daemons import (
    DaemonNodes,
    NodeVerdict,
    daemon_labels,
    daemon_pod,
    daemon_tolerations,
    node_of,
)
from kube_rules.controllers.pods import CONTROLLER_REVISION_HASH
from kube_rules.json import Json
from kube_rules.objects import Affinity
from kube_standin.controllers.availability import available, put_counts
from kube_standin.controllers.pod_owners import PodOwner, pod_of
from kube_standin.controllers.revisions import Revisions
from kube_standin.controllers.views import Key, NodeView, PodView
from kube_standin.deletion import DeleteOptions


def verdict_on(nodes: DaemonNodes, node: NodeView) -> NodeVerdict:
    """Return whether a node should run a pod, and whether a running pod may continue there."""
    taints = ((taint.key, taint.value, taint.effect) for taint in node.spec.taints or ())
    return nodes.verdict(node.metadata.name, node.metadata.labels or {}, taints)


def _digest(pod: PodView) -> str:
    return (pod.metadata.labels or {}).get(CONTROLLER_REVISION_HASH, "")


def _age(pod: PodView) -> tuple[bool, str, Key]:
    """Return the sort key of the pods of a node: bound pods first, then by age."""
    return (not pod.node, pod.metadata.creation_timestamp or "", pod.key)


def _share(owner: Json, field: str, default: int, desired: int) -> int:
    """Return the number of the `desired` pods that a limit of a rolling update allows; 0 for another strategy."""
    strategy = owner["spec"].get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return 0
    return share_of((strategy.get("rollingUpdate") or {}).get(field, default), desired, up=True)


def _wanted(verdicts: dict[str, NodeVerdict]) -> int:
    """Return the number of nodes that should run a pod."""
    return sum(1 for should, _ in verdicts.values() if should)


class DaemonSets(PodOwner):
    """The controller of daemon sets; keys are theirs."""

    name = "daemonset"
    of_kind = ("apps/v1", "DaemonSet")

    def connect(self) -> None:
        """Queue every daemon set, too, when a node is added, is removed, or changes its labels or taints."""
        super().connect()
        self._nodes = self.context.sources.nodes
        self._nodes.add_handler(self._node_changed)

    def _node_changed(self, old: NodeView | None, new: NodeView | None) -> None:
        if old is not None and new is not None:
            same = old.spec.taints == new.spec.taints and old.metadata.labels == new.metadata.labels
            if same:
                return
        for key in self.owners.items:
            self.queue(key)

    def reconcile(self, key: Key) -> None:
        """Create, end and replace pods node by node, and write the status."""
        owner = self.read(key)
        if owner is None:
            return
        revisions = Revisions(self.context, owner)
        deleted = bool(owner["metadata"].get("deletionTimestamp"))
        digest = "" if deleted else revisions.ensure()
        on = DaemonNodes(owner["spec"]["template"].get("spec") or {})
        by_node = self._by_node(self.claimed(owner))
        verdicts = {name: verdict_on(on, node) for (_, name), node in self._nodes.items.items()}
        if not deleted:
            self._place(owner, digest, by_node, verdicts)
            self.context.sources.sync()
            by_node = self._by_node(self.pods.by("owner", owner["metadata"]["uid"]))
            self._replace(owner, digest, by_node, verdicts)
            hashes = {_digest(pod) for pods in by_node.values() for pod in pods}
            revisions.trim(owner["spec"].get("revisionHistoryLimit", 10), {digest, *hashes})
        self._report(key, owner, digest, by_node, verdicts)

    def _by_node(self, pods: list[PodView]) -> dict[str, list[PodView]]:
        pods_by_node: dict[str, list[PodView]] = {}
        for pod in pods:
            node = pod.node or self._meant_for(pod)
            if node:
                pods_by_node.setdefault(node, []).append(pod)
        return pods_by_node

    def _meant_for(self, pod: PodView) -> str:
        """Return the node that an unbound pod was created for."""
        state = self.context.registry.store.head("pods", *pod.key)
        if state is None:
            return ""
        affinity = msgspec.convert(state.decode()["spec"].get("affinity"), Affinity | None)
        return node_of(pod.node, affinity)

    @staticmethod
    def _pod(owner: Json, digest: str, node: str) -> Json:
        """Return the manifest of the pod for one node."""
        template = owner["spec"]["template"]
        parts = daemon_pod(owner["metadata"]["name"], node)._replace(labels=daemon_labels(owner, digest))
        pod = pod_of(owner, template, parts)
        pod["spec"]["tolerations"] = daemon_tolerations(template.get("spec") or {})
        return pod

    def _place(
        self,
        owner: Json,
        digest: str,
        by_node: dict[str, list[PodView]],
        verdicts: dict[str, NodeVerdict],
    ) -> None:
        missing: list[str] = []
        surges = _share(owner, "maxSurge", 0, _wanted(verdicts)) > 0
        for node, (should, may) in verdicts.items():
            pods = by_node.get(node, [])
            for pod in pods:
                if pod.finished and not pod.terminating:
                    self.spend()
                    self.context.delete(self.pod_row, pod.key, DeleteOptions(grace=0, uid=pod.metadata.uid))
            running = [pod for pod in pods if not pod.finished]
            if should and not running:
                missing.append(node)
            elif running and not may:
                for pod in running:
                    if not pod.terminating:
                        self.end_pod(owner, pod)
            elif len(running) > 1:
                for pod in self._excess(owner, digest, sorted(running, key=_age), surges=surges):
                    if not pod.terminating:
                        self.end_pod(owner, pod)
        for node, pods in by_node.items():
            if node not in verdicts:
                for pod in pods:
                    if not pod.node and not pod.terminating:
                        self.end_pod(owner, pod)  # its node was removed before it was bound
        nodes = iter(sorted(missing))
        self.create_pods(owner, len(missing), lambda: self._pod(owner, digest, next(nodes)))

    def _usable(self, owner: Json, pod: PodView) -> bool:
        """Return whether a pod is available; queue its set for the time when it will be."""
        usable, soon = available((pod,), owner["spec"].get("minReadySeconds") or 0, self.context.now())
        if soon is not None:
            self.queue_after((owner["metadata"]["namespace"], owner["metadata"]["name"]), soon)
        return usable > 0

    def _excess(self, owner: Json, digest: str, oldest: list[PodView], *, surges: bool) -> list[PodView]:
        """Return the excess pods of a node: all but the oldest, or in a surge all but one of each template.

        In a surge the pod of the old template ends when it is not ready or the new pod is available.
        """
        if not surges:
            return oldest[1:]
        active = [pod for pod in oldest if not pod.terminating]
        new = [pod for pod in active if _digest(pod) == digest]
        old = [pod for pod in active if _digest(pod) != digest]
        ends = bool(new and old) and (not old[0].ready or self._usable(owner, new[0]))
        return [*new[1:], *(old if ends else old[1:])]

    def _replace(
        self, owner: Json, digest: str, by_node: dict[str, list[PodView]], verdicts: dict[str, NodeVerdict]
    ) -> None:
        """End pods of old templates in a rolling update: on at most maxUnavailable nodes at a time, or by a surge."""
        if (owner["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate") != "RollingUpdate":
            return
        desired = _wanted(verdicts)
        surge = _share(owner, "maxSurge", 0, desired)
        if surge:
            self._surge(owner, digest, by_node, verdicts, surge)
            return
        limit = _share(owner, "maxUnavailable", 1, desired)
        unavailable, old = 0, []
        for node, (should, _) in verdicts.items():
            if not should:
                continue
            pods = by_node.get(node, [])
            if not any(pod.active and self._usable(owner, pod) for pod in pods):
                unavailable += 1
            old += [pod for pod in pods if pod.active and _digest(pod) != digest]
        for pod in sorted(old, key=lambda candidate: (candidate.ready, candidate.key)):
            if not self._usable(owner, pod):
                self.end_pod(owner, pod)
            elif unavailable < max(1, limit):
                self.end_pod(owner, pod)
                unavailable += 1

    def _surge(
        self,
        owner: Json,
        digest: str,
        by_node: dict[str, list[PodView]],
        verdicts: dict[str, NodeVerdict],
        most: int,
    ) -> None:
        """Create new pods beside old ones: on nodes without an available pod, and on a limited number of other nodes.

        `_excess` ends the old pod of a node.
        """
        waiting = 0
        broken: list[str] = []
        working: list[str] = []
        for node in sorted(node for node, (should, _) in verdicts.items() if should):
            active = [pod for pod in by_node.get(node, []) if pod.active]
            new = [pod for pod in active if _digest(pod) == digest]
            old = [pod for pod in active if _digest(pod) != digest]
            if old and not new:
                (working if self._usable(owner, old[0]) else broken).append(node)
            elif old and not self._usable(owner, new[0]):
                waiting += 1
        nodes = [*broken, *working[: max(0, most - waiting)]]
        names = iter(nodes)
        self.create_pods(owner, len(nodes), lambda: self._pod(owner, digest, next(names)))

    def _report(
        self,
        key: Key,
        owner: Json,
        digest: str,
        by_node: dict[str, list[PodView]],
        verdicts: dict[str, NodeVerdict],
    ) -> None:
        desired = [node for node, (should, _) in verdicts.items() if should]
        running = {node: [pod for pod in pods if not pod.finished] for node, pods in by_node.items()}
        firsts = [min(pods, key=_age) for node in desired if (pods := running.get(node))]
        usable, soon = available(firsts, owner["spec"].get("minReadySeconds") or 0, self.context.now())
        if soon is not None:
            self.queue_after(key, soon)
        status = copy.deepcopy(owner.get("status") or {})
        status.update(
            desiredNumberScheduled=len(desired),
            currentNumberScheduled=len(firsts),
            numberMisscheduled=sum(1 for node, pods in running.items() if pods and node not in set(desired)),
            numberReady=sum(1 for pod in firsts if pod.ready),
            observedGeneration=owner["metadata"].get("generation", 0),
        )
        optional = {
            "updatedNumberScheduled": sum(1 for pod in firsts if _digest(pod) == digest),
            "numberAvailable": usable,
            "numberUnavailable": len(desired) - usable,
        }
        put_counts(status, optional)
        self.context.set_status(self.row, key, status)
