"""DaemonSets: one pod on every node that fits, by node selector, node affinity and tolerations.

Rules: upstream's daemon set controller. A pod names its node by a node affinity on metadata.name and is bound by
the scheduler like any other; it tolerates the taints of troubled and cordoned nodes. A node *should run* a pod
if selector and affinity match and every NoSchedule and NoExecute taint is tolerated; it may *go on running* one
if only NoSchedule taints are not.
"""

from __future__ import annotations

import copy
import json

import msgspec

from kube_rules.caching import remembered
from kube_rules.controllers.amounts import share_of
from kube_rules.json import Json
from kube_rules.objects import NodeSelector
from kube_rules.selectors import CompiledNodeSelector, compile_node_selector
from kube_standin.controllers.availability import available, put_counts
from kube_standin.controllers.owning import PodOwner, pod_of_template
from kube_standin.controllers.revisions import HASH_LABEL, Revisions
from kube_standin.controllers.taints import tolerates
from kube_standin.controllers.views import Key, NodeSeen, PodSeen
from kube_standin.deleting import DeleteOptions

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_HOST_NETWORK = ("node.kubernetes.io/network-unavailable", "NoSchedule")


@remembered(1024, 4096)
def _selector(text: str) -> CompiledNodeSelector:
    return compile_node_selector(msgspec.convert(json.loads(text), NodeSelector))


def daemon_pod(owner: Json, digest: str, node: str) -> Json:
    """Return the manifest of the pod for one node."""
    pod = pod_of_template(owner, owner["spec"]["template"])
    pod["metadata"].setdefault("labels", {})[HASH_LABEL] = digest
    spec = pod["spec"]
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    terms = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    affinity[_REQUIRED] = {"nodeSelectorTerms": [{**term, "matchFields": [field]} for term in terms]}
    spec["tolerations"] = _tolerations(spec)
    return pod


def _tolerations(spec: Json) -> list[Json]:
    tolerated = [*_TOLERATED, *([_HOST_NETWORK] if spec.get("hostNetwork") else [])]
    present = list(spec.get("tolerations") or ())
    for key, effect in tolerated:
        wanted = {"key": key, "operator": "Exists", "effect": effect}
        if wanted not in present:
            present.append(wanted)
    return present


def fits(spec: Json, node: NodeSeen) -> tuple[bool, bool]:
    """(should run, may go on running) a pod of this template spec on a node."""
    name, labels = node.metadata.name, node.metadata.labels or {}
    if spec.get("nodeName") and spec["nodeName"] != name:
        return (False, False)
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return (False, False)
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED)
    if required is not None and not _selector(json.dumps(required, sort_keys=True)).matches(labels, name):
        return (False, False)
    tolerations = _tolerations(spec)
    open_taints = {
        taint.effect
        for taint in node.spec.taints or ()
        if taint.effect in ("NoSchedule", "NoExecute") and not any(tolerates(one, taint) for one in tolerations)
    }
    return (not open_taints, "NoExecute" not in open_taints)


class DaemonSets(PodOwner):
    """Keys are those of daemon sets."""

    name = "daemonset"
    of_kind = ("apps/v1", "DaemonSet")

    def connect(self) -> None:
        """Also queue every daemon set when a node comes, goes or changes its labels or taints."""
        super().connect()
        self._nodes = self.context.sources.nodes
        self._nodes.add_handler(self._node_changed)

    def _node_changed(self, old: NodeSeen | None, new: NodeSeen | None) -> None:
        if old is not None and new is not None:
            same = old.spec.taints == new.spec.taints and old.metadata.labels == new.metadata.labels
            if same:
                return
        for key in self.owners.items:
            self.queue(key)

    def reconcile(self, key: Key) -> None:
        """Make and end pods node by node, replace old ones, write the status."""
        owner = self.read(key)
        if owner is None:
            return
        revisions = Revisions(self.context, owner)
        deleted = bool(owner["metadata"].get("deletionTimestamp"))
        digest = "" if deleted else revisions.ensure()
        spec = owner["spec"]["template"].get("spec") or {}
        by_node = self._by_node(self.claimed(owner))
        verdicts = {name: fits(spec, node) for (_, name), node in self._nodes.items.items()}
        if not deleted:
            self._place(owner, digest, by_node, verdicts)
            self.context.sources.sync()
            by_node = self._by_node(self.pods.by("owner", owner["metadata"]["uid"]))
            self._replace(owner, digest, by_node, verdicts)
            hashes = {(pod.metadata.labels or {}).get(HASH_LABEL, "") for pods in by_node.values() for pod in pods}
            revisions.trim(owner["spec"].get("revisionHistoryLimit", 10), {digest, *hashes})
        self._report(key, owner, digest, by_node, verdicts)

    def _by_node(self, pods: list[PodSeen]) -> dict[str, list[PodSeen]]:
        found: dict[str, list[PodSeen]] = {}
        for pod in pods:
            node = pod.node or self._meant_for(pod)
            if node:
                found.setdefault(node, []).append(pod)
        return found

    def _meant_for(self, pod: PodSeen) -> str:
        """The node an unbound pod was made for."""
        state = self.context.registry.store.head("pods", *pod.key)
        if state is None:
            return ""
        affinity = (state.decode()["spec"].get("affinity") or {}).get("nodeAffinity") or {}
        for term in (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ():
            for field in term.get("matchFields") or ():
                if field.get("key") == "metadata.name" and field.get("values"):
                    found: str = field["values"][0]
                    return found
        return ""

    def _place(
        self,
        owner: Json,
        digest: str,
        by_node: dict[str, list[PodSeen]],
        verdicts: dict[str, tuple[bool, bool]],
    ) -> None:
        missing: list[str] = []
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
                oldest = sorted(running, key=lambda pod: (not pod.node, pod.metadata.creation_timestamp or "", pod.key))
                for pod in oldest[1:]:
                    if not pod.terminating:
                        self.end_pod(owner, pod)
        for node, pods in by_node.items():
            if node not in verdicts:
                for pod in pods:
                    if not pod.node and not pod.terminating:
                        self.end_pod(owner, pod)  # its node went before it was bound
        nodes = iter(sorted(missing))
        self.create_pods(owner, len(missing), lambda: daemon_pod(owner, digest, next(nodes)))

    def _replace(
        self, owner: Json, digest: str, by_node: dict[str, list[PodSeen]], verdicts: dict[str, tuple[bool, bool]]
    ) -> None:
        """Rolling update: end pods of old templates, at most maxUnavailable nodes at a time."""
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return
        desired = sum(1 for should, _ in verdicts.values() if should)
        limit = share_of((strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1), desired, up=True)
        unavailable, old = 0, []
        for node, (should, _) in verdicts.items():
            if not should:
                continue
            pods = by_node.get(node, [])
            if not any(pod.ready and pod.active for pod in pods):
                unavailable += 1
            old += [pod for pod in pods if pod.active and (pod.metadata.labels or {}).get(HASH_LABEL) != digest]
        for pod in sorted(old, key=lambda one: (one.ready, one.key)):
            if not pod.ready:
                self.end_pod(owner, pod)
            elif unavailable < max(1, limit):
                self.end_pod(owner, pod)
                unavailable += 1

    def _report(
        self,
        key: Key,
        owner: Json,
        digest: str,
        by_node: dict[str, list[PodSeen]],
        verdicts: dict[str, tuple[bool, bool]],
    ) -> None:
        desired = [node for node, (should, _) in verdicts.items() if should]
        running = {node: [pod for pod in pods if not pod.finished] for node, pods in by_node.items()}
        firsts = [pods[0] for node in desired if (pods := running.get(node))]
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
            "updatedNumberScheduled": sum(1 for pod in firsts if (pod.metadata.labels or {}).get(HASH_LABEL) == digest),
            "numberAvailable": usable,
            "numberUnavailable": len(desired) - usable,
        }
        put_counts(status, optional)
        self.context.set_status(self.row, key, status)
