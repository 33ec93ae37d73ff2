"""ReplicaSet and ReplicationController: keep the requested number of active pods; replace preempted ones."""

from __future__ import annotations

import copy

from kube_rules.controllers.pods import PodParts
from kube_rules.json import Json
from kube_standin.conditions import condition, drop_condition, put_condition
from kube_standin.controllers.availability import available, put_counts
from kube_standin.controllers.pod_owners import PodOwner, pod_of
from kube_standin.controllers.reconciler import NextTurn
from kube_standin.controllers.views import Key, PodView


class ReplicaSets(PodOwner):
    """The controller that keeps ``spec.replicas`` pods active and writes the status."""

    name = "replicaset"
    of_kind = ("apps/v1", "ReplicaSet")

    def reconcile(self, key: Key) -> None:
        """Create or end pods until the owner has its number of replicas."""
        owner = self.read(key)
        if owner is None:
            return
        pods = [pod for pod in self.claimed(owner) if pod.active]
        wanted = owner["spec"].get("replicas", 1)
        problem = ""
        if not owner["metadata"].get("deletionTimestamp"):
            missing = wanted - len(pods)
            if missing > 0:
                template = owner["spec"].get("template") or {}
                parts = PodParts(f"{owner['metadata']['name']}-")
                problem = self.create_pods(owner, missing, lambda: pod_of(owner, template, parts))
            elif missing < 0:
                try:
                    for pod in self.deletion_order(pods)[:-missing]:
                        self.end_pod(owner, pod)
                except NextTurn:
                    self.queue(key)  # the status shows the progress
            if missing:
                self.context.sources.sync()
                pods = [pod for pod in self.pods.some("owner", owner["metadata"]["uid"]) if pod.active]
        self._report(key, owner, pods, problem)

    def _report(self, key: Key, owner: Json, pods: list[PodView], problem: str) -> None:
        spec = owner["spec"]
        usable, soon = available(pods, spec.get("minReadySeconds") or 0, self.context.now())
        if soon is not None:
            self.queue_after(key, soon)
        template_labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
        status = copy.deepcopy(owner.get("status") or {})
        counts = {
            "fullyLabeledReplicas": sum(
                1 for pod in pods if template_labels.items() <= (pod.metadata.labels or {}).items()
            ),
            "readyReplicas": sum(1 for pod in pods if pod.ready),
            "availableReplicas": usable,
        }
        status["replicas"] = len(pods)
        put_counts(status, counts)
        status["observedGeneration"] = owner["metadata"].get("generation", 0)
        if problem:
            put_condition(status, condition("ReplicaFailure", "True", "FailedCreate", problem), self.context.stamp())
        else:
            drop_condition(status, "ReplicaFailure")
        self.context.set_status(self.row, key, status)


class ReplicationControllers(ReplicaSets):
    """The controller of ReplicationControllers, the older kind."""

    name = "replicationcontroller"
    of_kind = ("v1", "ReplicationController")
