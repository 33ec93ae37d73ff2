"""Deployments: rollouts over ReplicaSets, RollingUpdate and Recreate, with the status kubectl rollout reads.

Rules: upstream's deployment controller. The *new* ReplicaSet is the one with the deployment's template (except for the
label ``pod-template-hash``); all others are *old*. Revisions are annotations, so ``kubectl rollout undo`` (which
restores an old template) finds the old ReplicaSet again. Invariants of a rolling update: at most ``replicas +
maxSurge`` pods, at least ``replicas - maxUnavailable`` available ones.
"""

from __future__ import annotations

import copy

from kube_rules.controllers.amounts import share_of
from kube_rules.controllers.pods import POD_TEMPLATE_HASH, template_hash
from kube_rules.controllers.sets import REVISION, number_in, replica_set_of, revision_of
from kube_rules.json import Json
from kube_rules.meta import LAST_APPLIED
from kube_rules.selectors import parse_integer
from kube_standin.clock import later, parse_stamp
from kube_standin.conditions import condition, condition_of, drop_condition, put_condition
from kube_standin.controllers.availability import put_counts
from kube_standin.controllers.pod_owners import index_owners, selects
from kube_standin.controllers.reconciler import Controller
from kube_standin.controllers.views import Key, PodView, SpecView
from kube_standin.errors import StatusError
from kube_standin.metadata import annotations_of, key_of, owned_by, owner_reference

HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"
ROLLBACK = "deprecated.deployment.rollback.to"
"""The revision that a deployment rolls back to, 0 for the previous one; clients of `extensions/v1beta1` set it."""
_OWN_ANNOTATIONS = (
    LAST_APPLIED,
    REVISION,
    HISTORY,
    DESIRED,
    MOST,
    ROLLBACK,
)
_NO_DEADLINE = 2**31 - 1


def _bare(template: Json) -> Json:
    """Return a template without the hash label."""
    out = copy.deepcopy(template)
    metadata = out.setdefault("metadata", {})
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != POD_TEMPLATE_HASH}
    metadata["labels"] = labels
    return {"metadata": {key: value for key, value in metadata.items() if value}, "spec": out.get("spec") or {}}


def _replicas(rs: Json) -> int:
    replicas: int = rs["spec"].get("replicas", 1)
    return replicas


def _status_count(rs: Json, name: str) -> int:
    count: int = (rs.get("status") or {}).get(name, 0)
    return count


class _Rollout:
    """The input of one sync: the deployment, its limits and its replica sets."""

    def __init__(self, deployment: Json, sets: list[Json]) -> None:
        self.deployment = deployment
        spec = deployment["spec"]
        self.replicas: int = spec.get("replicas", 1)
        strategy = spec.get("strategy") or {}
        self.recreate = strategy.get("type") == "Recreate"
        rolling = strategy.get("rollingUpdate") or {}
        self.surge = 0 if self.recreate else share_of(rolling.get("maxSurge", "25%"), self.replicas, up=True)
        self.unavailable = 0
        if not self.recreate:
            self.unavailable = share_of(rolling.get("maxUnavailable", "25%"), self.replicas, up=False)
            if self.surge == 0 and self.unavailable == 0:
                self.unavailable = 1  # else the rollout could never progress
        self.unavailable = min(self.unavailable, self.replicas)
        wanted = _bare(spec["template"])
        sets = sorted(sets, key=lambda rs: (rs["metadata"]["creationTimestamp"], rs["metadata"]["name"]))
        self.new: Json | None = next((rs for rs in sets if _bare(rs["spec"]["template"]) == wanted), None)
        self.old = [rs for rs in sets if rs is not self.new]

    @property
    def all(self) -> list[Json]:
        """Return every replica set, the new one last."""
        return [*self.old, *([self.new] if self.new is not None else [])]

    @property
    def total(self) -> int:
        """Return the number of pods that all replica sets request."""
        return sum(_replicas(rs) for rs in self.all)

    @property
    def most(self) -> int:
        """Return the largest number of pods that may exist at once."""
        return self.replicas + self.surge if self.replicas else 0

    def count(self, name: str) -> int:
        """Return the sum of a count over the statuses of the replica sets."""
        return sum(_status_count(rs, name) for rs in self.all)


class Deployments(Controller):
    """The controller of deployments; keys are theirs."""

    name = "deployment"

    def connect(self) -> None:
        """Queue a deployment when it, one of its replica sets or (Recreate) one of their pods changes."""
        sources = self.context.sources
        self._row = self.context.kind("apps/v1", "Deployment")
        self._set_row = self.context.kind("apps/v1", "ReplicaSet")
        self._deployments = sources.of(self._row.storage_key, SpecView)
        self._deployments.index("namespace", lambda deployment: (deployment.metadata.namespace,))
        self._sets = sources.of(self._set_row.storage_key, SpecView)
        index_owners(self._sets)
        self._pods = sources.pods
        index_owners(self._pods)
        self._deployments.add_handler(self._deployment_changed)
        self._sets.add_handler(self._set_changed)
        self._pods.add_handler(self._pod_changed)

    def _deployment_changed(self, _old: SpecView | None, new: SpecView | None) -> None:
        if new is not None:
            self.queue(new.metadata.key)

    def _set_changed(self, old: SpecView | None, new: SpecView | None) -> None:
        for rs in (old, new):
            owner = rs.metadata.controller if rs is not None else None
            if rs is not None and owner is not None and owner.kind == "Deployment":
                self.queue((rs.metadata.namespace, owner.name))
        if new is not None and new.metadata.controller is None:
            for key in self._deployments.keys_by("namespace", new.metadata.namespace):
                if selects(self._deployments.items[key].spec, new.metadata.labels):
                    self.queue(key)

    def _pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        if new is None and old is not None and (owner := old.metadata.controller) is not None:
            rs = self._sets.items.get((old.metadata.namespace, owner.name))
            above = rs.metadata.controller if rs is not None else None
            if above is not None and above.kind == "Deployment":
                self.queue((old.metadata.namespace, above.name))

    # -- one sync

    def reconcile(self, key: Key) -> None:
        """Advance a rollout by one step and write the status."""
        deployment = self.context.find(self._row, key)
        if deployment is None:
            return
        rollout = self._rollout(deployment)
        if deployment["metadata"].get("deletionTimestamp"):
            self._report(key, rollout)
            return
        spec = deployment["spec"]
        if not spec.get("paused"):
            revision = parse_integer(annotations_of(deployment).get(ROLLBACK, ""))
            if revision is not None:
                self._roll_back(key, rollout, revision)
                return  # the write queues the key again
            waiting = rollout.recreate and rollout.new is None and not self._old_pods_ended(rollout)
            if not waiting:
                rollout = self._with_new_set(rollout)
            self._keep_revisions(rollout)
        if spec.get("paused") or self._was_scaled(rollout):
            self._scale(rollout)
        elif rollout.recreate:
            self._recreate(rollout)
        else:
            self._roll(rollout)
        fresh = self.context.find(self._row, key)
        if fresh is not None:
            rollout = self._rollout(fresh)
            self._report(key, rollout)
            self._clean_up(rollout)

    def _rollout(self, deployment: Json) -> _Rollout:
        metadata = deployment["metadata"]
        for orphan in self._sets.by("orphan", metadata["namespace"]):
            if selects(deployment["spec"], orphan.metadata.labels) and not metadata.get("deletionTimestamp"):
                self.context.modify(self._set_row, orphan.metadata.key, owned_by(deployment))
        self.context.sources.sync()
        owned_sets = self._sets.by("owner", metadata["uid"])
        replica_sets = [self.context.find(self._set_row, owned.metadata.key) for owned in owned_sets]
        return _Rollout(deployment, [rs for rs in replica_sets if rs is not None])

    def _roll_back(self, key: Key, rollout: _Rollout, revision: int) -> None:
        """Restore the template of a revision, 0 for the one before the newest, and remove the annotation."""
        deployment = rollout.deployment
        past = sorted((revision_of(rs) for rs in rollout.all), reverse=True)
        wanted = revision or (past[1] if len(past) > 1 else 0)
        past_set = next((rs for rs in rollout.all if wanted and revision_of(rs) == wanted), None)
        template = None if past_set is None else _bare(past_set["spec"]["template"])
        same = template == _bare(deployment["spec"]["template"])

        def change(obj: Json) -> None:
            annotations = annotations_of(obj)
            if past_set is not None and not same:
                obj["spec"]["template"] = copy.deepcopy(template)
                own_annotations = {name: value for name, value in annotations.items() if name in _OWN_ANNOTATIONS}
                annotations = {**own_annotations, **self._annotations(past_set)}
            obj["metadata"]["annotations"] = {name: value for name, value in annotations.items() if name != ROLLBACK}

        self.context.modify(self._row, key, change)
        name = deployment["metadata"]["name"]
        if past_set is None:
            text = "Unable to find the revision to rollback to." if revision else "Unable to find last revision."
            event = ("RollbackRevisionNotFound", text, "Warning")
        elif same:
            text = f'The rollback revision contains the same template as current deployment "{name}"'
            event = ("RollbackTemplateUnchanged", text, "Warning")
        else:
            event = ("DeploymentRollback", f'Rolled back deployment "{name}" to revision {wanted}', "Normal")
        self.context.event(deployment, *event, source="deployment-controller")

    def _old_pods_ended(self, rollout: _Rollout) -> bool:
        """Scale every old set down; return whether their pods have ended (strategy Recreate)."""
        for rs in rollout.old:
            if _replicas(rs) > 0:
                self._set_replicas(rollout, rs, 0)
                return False
            if any(not pod.finished for pod in self._pods.by("owner", rs["metadata"]["uid"])):
                return False
        return True

    def _with_new_set(self, rollout: _Rollout) -> _Rollout:
        """Create the new replica set if it does not exist."""
        if rollout.new is not None:
            return rollout
        deployment = rollout.deployment
        metadata, spec = deployment["metadata"], deployment["spec"]
        collisions = (deployment.get("status") or {}).get("collisionCount", 0)
        digest = template_hash(_bare(spec["template"]), collisions)
        revision = str(max((revision_of(rs) for rs in rollout.old), default=0) + 1)
        wanted = copy.deepcopy(replica_set_of(deployment, digest, self._new_replicas(rollout, 0)))
        wanted["metadata"] |= {
            "annotations": {**self._annotations(deployment), **self._marks(rollout), REVISION: revision},
            "ownerReferences": [owner_reference(deployment)],
        }
        try:
            new_set = self.context.create(self._set_row, metadata["namespace"], wanted)
        except StatusError as error:
            if error.reason == "AlreadyExists":
                self._count_collision(deployment, collisions)
            raise
        text = f"Scaled up replica set {new_set['metadata']['name']} from 0 to {_replicas(new_set)}"
        self.context.event(deployment, "ScalingReplicaSet", text, source="deployment-controller")
        rollout.new = new_set
        self._progress(deployment, "NewReplicaSetCreated", f'Created new replica set "{new_set["metadata"]["name"]}"')
        return rollout

    def _count_collision(self, deployment: Json, collisions: int) -> None:
        """Count a collision after a set with another template took the name, so that the next try has another hash."""

        def change(obj: Json) -> None:
            obj.setdefault("status", {})["collisionCount"] = collisions + 1

        self.context.modify(self._row, key_of(deployment), change, "status")

    @staticmethod
    def _annotations(deployment: Json) -> Json:
        annotations = annotations_of(deployment)
        return {key: value for key, value in annotations.items() if key not in _OWN_ANNOTATIONS}

    @staticmethod
    def _marks(rollout: _Rollout) -> Json:
        return {DESIRED: str(rollout.replicas), MOST: str(rollout.replicas + rollout.surge)}

    def _keep_revisions(self, rollout: _Rollout) -> None:
        """Give the new set the highest revision, and the deployment the same."""
        if rollout.new is None:
            return
        key = key_of(rollout.new)
        highest = max((revision_of(rs) for rs in rollout.old), default=0) + 1
        present = revision_of(rollout.new)
        revision = max(highest, present)
        copied = self._annotations(rollout.deployment)
        present_notes = annotations_of(rollout.new)
        if present < revision or any(present_notes.get(name) != value for name, value in copied.items()):

            def change(obj: Json) -> None:
                annotations = obj["metadata"]["annotations"] = {**annotations_of(obj), **copied}
                if present < revision:
                    annotations[REVISION] = str(revision)
                    if present:
                        past = [number for number in annotations.get(HISTORY, "").split(",") if number]
                        annotations[HISTORY] = ",".join([*past, str(present)])

            rollout.new = self.context.modify(self._set_row, key, change)
            if 0 < present < revision:
                self._progress(rollout.deployment, "FoundNewReplicaSet", f'Found new replica set "{key[1]}"')
        if revision_of(rollout.deployment) != revision:

            def mark(obj: Json) -> None:
                obj["metadata"]["annotations"] = {**annotations_of(obj), REVISION: str(revision)}

            self.context.modify(self._row, key_of(rollout.deployment), mark)

    # -- scaling

    def _set_replicas(self, rollout: _Rollout, rs: Json, replicas: int) -> Json:
        """Stage a new size of a set, with the annotations that distinguish scaling from rolling."""
        before, marks = _replicas(rs), self._marks(rollout)
        annotations = annotations_of(rs)
        if before == replicas and all(annotations.get(name) == value for name, value in marks.items()):
            return rs
        metadata = rs["metadata"]

        def change(obj: Json) -> None:
            obj["spec"]["replicas"] = replicas
            obj["metadata"]["annotations"] = {**annotations_of(obj), **marks}

        modified = self.context.modify(self._set_row, key_of(rs), change)
        if before != replicas:
            word = "up" if replicas > before else "down"
            text = f"Scaled {word} replica set {metadata['name']} from {before} to {replicas}"
            self.context.event(rollout.deployment, "ScalingReplicaSet", text, source="deployment-controller")
        rs.clear()
        rs.update(modified)
        return rs

    def _was_scaled(self, rollout: _Rollout) -> bool:
        """Return whether the deployment's replicas changed since its sets were last sized."""
        for rs in rollout.all:
            desired = annotations_of(rs).get(DESIRED)
            if _replicas(rs) > 0 and desired is not None and desired != str(rollout.replicas):
                return True
        return False

    def _scale(self, rollout: _Rollout) -> None:
        """Resize the sets for new replicas: a single or complete set alone, several sets in proportion."""
        active = [rs for rs in rollout.all if _replicas(rs) > 0]
        only = active[0] if len(active) == 1 else None
        if not active:
            only = rollout.new or max(rollout.old, key=lambda rs: rs["metadata"]["creationTimestamp"], default=None)
            if only is None:
                return  # no set exists yet: the deployment was paused from the beginning
        if only is not None:
            self._set_replicas(rollout, only, rollout.replicas)
            return
        new = rollout.new
        if new is not None and _replicas(new) == rollout.replicas == _status_count(new, "availableReplicas"):
            for rs in rollout.old:
                self._set_replicas(rollout, rs, 0)
            return
        if rollout.recreate:
            return
        # Order sets by size. Among sets of equal size newer ones come first when growing, older ones when shrinking.
        left = rollout.most - rollout.total
        order = sorted(active, key=lambda rs: rs["metadata"]["creationTimestamp"], reverse=left > 0)
        order.sort(key=_replicas, reverse=True)
        shares: list[int] = []
        for rs in order:
            share, rest = self._share(rollout, rs), left - sum(shares)
            shares.append(min(share, rest) if left > 0 else max(share, rest) if left else 0)
        sizes = [_replicas(rs) + share for rs, share in zip(order, shares, strict=True)]
        sizes[0] = max(0, sizes[0] + rollout.most - sum(sizes))
        for rs, size in zip(order, sizes, strict=True):
            self._set_replicas(rollout, rs, size)

    @staticmethod
    def _share(rollout: _Rollout, rs: Json) -> int:
        """Return the growth of a set that keeps its share of the maximum, rounded half up."""
        before = number_in(rs, MOST) or rollout.total
        size = _replicas(rs)
        return (2 * size * rollout.most + before) // (2 * before) - size

    def _new_replicas(self, rollout: _Rollout, present: int) -> int:
        """Return how large the new set may be now."""
        if rollout.recreate:
            return rollout.replicas
        if rollout.total >= rollout.most:
            return present
        return present + min(rollout.most - rollout.total, rollout.replicas - present)

    def _recreate(self, rollout: _Rollout) -> None:
        if rollout.new is not None:
            for rs in rollout.old:
                self._set_replicas(rollout, rs, 0)
            self._set_replicas(rollout, rollout.new, rollout.replicas)

    def _roll(self, rollout: _Rollout) -> None:
        new = rollout.new
        if new is None:
            return
        present = _replicas(new)
        if present > rollout.replicas:
            self._set_replicas(rollout, new, rollout.replicas)
        else:
            self._set_replicas(rollout, new, max(present, self._new_replicas(rollout, present)))
        if not any(_replicas(rs) for rs in rollout.old):
            return
        least = rollout.replicas - rollout.unavailable
        new_unavailable = _replicas(new) - _status_count(new, "availableReplicas")
        room = rollout.total - least - new_unavailable
        if room <= 0:
            return
        for rs in rollout.old:  # first pods that are not available anyway
            broken = _replicas(rs) - _status_count(rs, "availableReplicas")
            reduction = min(room, broken)
            if reduction > 0:
                self._set_replicas(rollout, rs, _replicas(rs) - reduction)
                room -= reduction
        spare = rollout.count("availableReplicas") - least
        for rs in rollout.old:
            reduction = min(spare, _replicas(rs))
            if reduction > 0:
                self._set_replicas(rollout, rs, _replicas(rs) - reduction)
                spare -= reduction

    def _clean_up(self, rollout: _Rollout) -> None:
        """Delete empty old sets beyond the history limit once a rollout is complete."""
        limit = rollout.deployment["spec"].get("revisionHistoryLimit", 10)
        if not self._complete(rollout):
            return
        empty = [
            rs
            for rs in rollout.old
            if not _replicas(rs) and not _status_count(rs, "replicas") and not rs["metadata"].get("deletionTimestamp")
        ]
        empty.sort(key=revision_of)
        for rs in empty[: max(0, len(empty) - limit)]:
            self.context.delete(self._set_row, key_of(rs))

    # -- status

    @staticmethod
    def _complete(rollout: _Rollout) -> bool:
        new = rollout.new
        return (
            new is not None
            and _status_count(new, "replicas") == rollout.replicas
            and rollout.count("replicas") == rollout.replicas
            and rollout.count("availableReplicas") == rollout.replicas
        )

    def _progress(self, deployment: Json, reason: str, message: str) -> None:
        stamp = self.context.stamp()

        def change(obj: Json) -> None:
            progressing = condition("Progressing", "True", reason, message)
            put_condition(obj.setdefault("status", {}), progressing, stamp, update_time=True)

        self.context.modify(self._row, key_of(deployment), change, "status")

    def _report(self, key: Key, rollout: _Rollout) -> None:
        deployment = rollout.deployment
        before = deployment.get("status") or {}
        status = copy.deepcopy(before)
        counts = {
            "replicas": rollout.count("replicas"),
            "updatedReplicas": _status_count(rollout.new, "replicas") if rollout.new is not None else 0,
            "readyReplicas": rollout.count("readyReplicas"),
            "availableReplicas": rollout.count("availableReplicas"),
        }
        counts["unavailableReplicas"] = max(0, rollout.total - counts["availableReplicas"])
        put_counts(status, counts)
        status["observedGeneration"] = deployment["metadata"].get("generation", 0)
        enough = counts["availableReplicas"] >= rollout.replicas - rollout.unavailable
        put_condition(status, _AVAILABLE if enough else _UNAVAILABLE, self.context.stamp(), update_time=True)
        failure = next(
            (failed for rs in rollout.all if (failed := condition_of(rs.get("status") or {}, "ReplicaFailure"))), None
        )
        if failure is not None:
            copied = {name: failure.get(name, "") for name in ("type", "status", "reason", "message")}
            put_condition(status, copied, self.context.stamp(), update_time=True)
        else:
            drop_condition(status, "ReplicaFailure")
        self._report_progress(key, rollout, before, status)
        self.context.set_status(self._row, key, status)

    def _report_progress(self, key: Key, rollout: _Rollout, before: Json, status: Json) -> None:
        spec, stamp = rollout.deployment["spec"], self.context.stamp()
        deadline = spec.get("progressDeadlineSeconds", _NO_DEADLINE)
        if deadline >= _NO_DEADLINE:
            drop_condition(status, "Progressing")
            return
        name = rollout.new["metadata"]["name"] if rollout.new is not None else rollout.deployment["metadata"]["name"]

        def put(state: str, reason: str, message: str) -> None:
            put_condition(status, condition("Progressing", state, reason, message), stamp, update_time=True)

        present = condition_of(status, "Progressing") or {}
        reason = present.get("reason")
        if self._complete(rollout):
            put("True", "NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.')
            return
        if spec.get("paused"):
            put("Unknown", "DeploymentPaused", "Deployment is paused")
            return
        if reason == "NewReplicaSetAvailable" and status.get("replicas", 0) == status.get("updatedReplicas", 0):
            return  # a complete rollout that lost a pod is not a new rollout
        counts = ("updatedReplicas", "readyReplicas", "availableReplicas")
        moved = any(status.get(name, 0) > before.get(name, 0) for name in counts) or (
            status.get("replicas", 0) - status.get("updatedReplicas", 0)
            < before.get("replicas", 0) - before.get("updatedReplicas", 0)
        )
        if moved or not present:
            put("True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')
            (condition_of(status, "Progressing") or {})["lastUpdateTime"] = stamp
            self.queue_after(key, deadline + 1)
        elif reason == "DeploymentPaused":
            put("Unknown", "DeploymentResumed", "Deployment is resumed")
        elif reason not in ("ProgressDeadlineExceeded", "NewReplicaSetAvailable"):
            ends = later(parse_stamp(present.get("lastUpdateTime", stamp)), deadline)
            left = (ends - self.context.now()).total_seconds()
            if left > 0:
                self.queue_after(key, left + 1)
            else:
                put("False", "ProgressDeadlineExceeded", f'ReplicaSet "{name}" has timed out progressing.')


_AVAILABLE = condition("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
_UNAVAILABLE = condition(
    "Available", "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
)
