"""StatefulSets: numbered pods, created and ended in order (or in parallel), updated from the highest number.

Rules: upstream's stateful set controller of 1.37, its basics: OrderedReady and Parallel, RollingUpdate with partition
and maxUnavailable, OnDelete, claims from volumeClaimTemplates with their retention policy, revisions. A pod that
failed, succeeded or vanished is recreated.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable

from kube_rules.controllers.amounts import share_of
from kube_rules.controllers.pods import CONTROLLER_REVISION_HASH
from kube_rules.controllers.sets import claim_of, claim_owner, claim_templates, set_pod
from kube_rules.json import Json
from kube_standin.controllers.availability import available
from kube_standin.controllers.pod_owners import CREATES_AT_ONCE, PodOwner, pod_of
from kube_standin.controllers.revisions import Revisions
from kube_standin.controllers.views import Key, PodView, VolumeClaimView
from kube_standin.deletion import DeleteOptions
from kube_standin.errors import StatusError
from kube_standin.metadata import key_of, owner_reference


class StatefulSets(PodOwner):
    """The controller of stateful sets; keys are theirs."""

    name = "statefulset"
    of_kind = ("apps/v1", "StatefulSet")

    def connect(self) -> None:
        """Watch claims, too: a pod waits for a claim of its name that is being deleted."""
        super().connect()
        self._claim_row = self.context.kind("v1", "PersistentVolumeClaim")
        self._claims = self.context.sources.of(self._claim_row.storage_key, VolumeClaimView)

    def reconcile(self, key: Key) -> None:
        """Advance one step: create, end or replace pods, then write the status."""
        owner = self.read(key)
        if owner is None:
            return
        pods = {number: pod for pod in self.claimed(owner) if (number := _ordinal(owner, pod)) is not None}
        current = self._hashes(owner)
        if not owner["metadata"].get("deletionTimestamp"):
            revisions = Revisions(self.context, owner)
            update = revisions.ensure()
            current = (current[0] or update, update)
            self._step(owner, pods, current, revisions)
            self.context.sources.sync()
            fresh = self.pods.by("owner", owner["metadata"]["uid"])
            pods = {number: pod for pod in fresh if (number := _ordinal(owner, pod)) is not None}
            in_use = {*current, *(_hash(pod) for pod in pods.values())}
            revisions.trim(owner["spec"].get("revisionHistoryLimit", 10), in_use)
        self._report(key, owner, pods, current)

    @staticmethod
    def _hashes(owner: Json) -> tuple[str, str]:
        """Return the (current, update) hashes of the status, "" for missing ones."""
        status, prefix = owner.get("status") or {}, f"{owner['metadata']['name']}-"
        names = (status.get("currentRevision") or "", status.get("updateRevision") or "")
        return (names[0].removeprefix(prefix), names[1].removeprefix(prefix))

    def _step(self, owner: Json, pods: dict[int, PodView], hashes: tuple[str, str], revisions: Revisions) -> None:
        spec = owner["spec"]
        ordered = spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
        start = (spec.get("ordinals") or {}).get("start", 0)
        wanted = range(start, start + spec.get("replicas", 1))
        created = 0
        for number, present in pods.items() if spec.get("volumeClaimTemplates") else ():
            self._own_claims(owner, number, present)
        for number in wanted:
            pod = pods.get(number)
            if pod is None:
                if created >= CREATES_AT_ONCE:
                    return  # the created pods queue their owner
                self._make(owner, number, hashes, revisions)
                created += 1
                if ordered:
                    return
            elif pod.finished and not pod.terminating:
                self.end_pod(owner, pod)  # recreated after it is removed
                if ordered:
                    return
            elif ordered and (pod.terminating or not self._usable(owner, pod)):
                return
        surplus = sorted((number for number in pods if number not in wanted), reverse=True)
        unready = min((number for number, pod in pods.items() if not pod.ready), default=-1)
        for number in surplus:
            pod = pods[number]
            if ordered and not pod.terminating and number != unready and not self._usable(owner, pod):
                return  # only the first unready pod may end before it is available
            if not pod.terminating:
                self.end_pod(owner, pod)
            if ordered:
                return
        if not created and all(pods[number].terminating for number in surplus):
            self._update(owner, [pods[number] for number in wanted], hashes[1])

    def _usable(self, owner: Json, pod: PodView) -> bool:
        usable, soon = available([pod], owner["spec"].get("minReadySeconds") or 0, self.context.now())
        if soon is not None:
            self.queue_after(key_of(owner), soon)
        return bool(usable)

    def _update(self, owner: Json, pods: list[PodView], update: str) -> None:
        """End pods of another revision in a rolling update, the highest number first, while enough pods are available.

        In a set that creates pods in parallel, unavailable pods end in any case: they may never become available.
        """
        spec = owner["spec"]
        strategy = spec.get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return
        rolling = strategy.get("rollingUpdate") or {}
        most = max(1, share_of(rolling.get("maxUnavailable", 1), len(pods), up=False))
        away = {pod.metadata.name for pod in pods if pod.terminating or not self._usable(owner, pod)}
        left, parallel = most - len(away), spec.get("podManagementPolicy") == "Parallel"
        for pod in reversed(pods[rolling.get("partition") or 0 :]):
            if _hash(pod) == update or pod.terminating:
                continue
            if parallel and pod.metadata.name in away:
                self.end_pod(owner, pod)
            elif left > 0:
                self.end_pod(owner, pod)
                left -= 1

    def _make(self, owner: Json, number: int, hashes: tuple[str, str], revisions: Revisions) -> None:
        spec = owner["spec"]
        digest, template = hashes[1], spec["template"]
        strategy = spec.get("updateStrategy") or {}
        partition = (strategy.get("rollingUpdate") or {}).get("partition") or 0
        start = (spec.get("ordinals") or {}).get("start", 0)
        if hashes[0] != hashes[1] and number < start + partition:
            old = revisions.template(hashes[0])
            if old is not None:
                digest, template = hashes[0], old
        parts = set_pod(owner, number, digest)
        if not self._make_claims(owner, parts.name):
            self.sync_again_later(key_of(owner))
            return
        pod = pod_of(owner, template, parts)
        try:
            self.create_pod(owner, pod)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
            # A pod of this name has another owner: wait until it is removed.
            self.context.event(owner, "FailedCreate", str(error), "Warning", self.source)
            self.sync_again_later(key_of(owner))

    def _make_claims(self, owner: Json, pod_name: str) -> bool:
        """Create the missing claims of a pod; return False if a claim is deleted with an earlier pod."""
        namespace = owner["metadata"]["namespace"]
        for template in claim_templates(owner["spec"]):
            claim = claim_of(owner, template, pod_name)
            if self.context.registry.head(self._claim_row, namespace, claim["metadata"]["name"]) is None:
                self.context.create(self._claim_row, namespace, copy.deepcopy(claim))
                continue
            existing = self._claims.items.get((namespace, claim["metadata"]["name"]))
            if existing is not None and (
                existing.metadata.deletion_timestamp
                or any((ref.kind, ref.name) == ("Pod", pod_name) for ref in existing.metadata.owner_references or ())
            ):
                return False
        return True

    def _own_claims(self, owner: Json, number: int, pod: PodView) -> None:
        """Set the owner of a pod's claims to the set, to the pod or to neither, as the retention policy states."""
        by_kind = {
            "StatefulSet": owner_reference(owner),
            "Pod": owner_reference(
                {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod.metadata.name, "uid": pod.metadata.uid}}
            ),
        }
        ours = {entry["uid"] for entry in by_kind.values()}
        kind = claim_owner(owner["spec"], number)
        for template in claim_templates(owner["spec"]):
            name = claim_of(owner, template, pod.metadata.name)["metadata"]["name"]
            existing = self._claims.items.get((pod.metadata.namespace, name))
            if existing is None:
                continue
            references = existing.metadata.owner_references or ()
            foreign = any(reference.controller and reference.uid not in ours for reference in references)
            wanted = [] if kind is None or foreign else [by_kind[kind]]
            if {ref.uid for ref in references} & ours == {ref["uid"] for ref in wanted}:
                continue

            def change(obj: Json, wanted: list[Json] = wanted) -> None:
                foreign = [ref for ref in obj["metadata"].get("ownerReferences") or () if ref["uid"] not in ours]
                obj["metadata"]["ownerReferences"] = [*foreign, *wanted]

            self.context.modify(self._claim_row, existing.metadata.key, change)

    def _report(self, key: Key, owner: Json, pods: dict[int, PodView], hashes: tuple[str, str]) -> None:
        spec, name = owner["spec"], owner["metadata"]["name"]
        current, update = hashes
        alive = [pod for pod in pods.values() if not pod.finished]
        usable, soon = available(
            [pod for pod in alive if not pod.terminating], spec.get("minReadySeconds") or 0, self.context.now()
        )
        if soon is not None:
            self.queue_after(key, soon)
        status = copy.deepcopy(owner.get("status") or {})
        updated = _of_revision(alive, update)
        wanted = spec.get("replicas", 1)
        ready = sum(1 for pod in alive if pod.ready and not pod.terminating)
        if current != update and updated == wanted == ready == len(alive):
            current = update
        status.update(
            replicas=len(alive),
            readyReplicas=ready,
            availableReplicas=usable,
            currentReplicas=_of_revision(alive, current),
            updatedReplicas=updated,
            observedGeneration=owner["metadata"].get("generation", 0),
            collisionCount=status.get("collisionCount", 0),
        )
        for count in ("readyReplicas", "currentReplicas", "updatedReplicas"):
            if not status[count]:
                del status[count]
        if current:
            status["currentRevision"] = f"{name}-{current}"
        if update:
            status["updateRevision"] = f"{name}-{update}"
        self.context.set_status(self.row, key, status)

    def end_pod(self, owner: Json, pod: PodView) -> None:
        """Stage the deletion of a pod; a finished pod is removed at once."""
        if pod.finished:
            self.spend()
            self.context.delete(self.pod_row, pod.key, DeleteOptions(grace=0, uid=pod.metadata.uid))
        else:
            super().end_pod(owner, pod)


def _ordinal(owner: Json, pod: PodView) -> int | None:
    prefix, _, number = pod.metadata.name.rpartition("-")
    if prefix != owner["metadata"]["name"] or not number.isdecimal():
        return None
    return int(number)


def _hash(pod: PodView) -> str:
    return (pod.metadata.labels or {}).get(CONTROLLER_REVISION_HASH, "").rpartition("-")[2]


def _of_revision(pods: Iterable[PodView], digest: str) -> int:
    return sum(1 for pod in pods if _hash(pod) == digest and not pod.terminating)
