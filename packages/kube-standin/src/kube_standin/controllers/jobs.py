"""Jobs: pods run to completion, in parallel, with retries; finished ones are counted exactly once.

Rules: upstream's job controller: parallelism, completions (also Indexed), backoffLimit, backoffLimitPerIndex,
maxFailedIndexes, successPolicy, suspend, activeDeadlineSeconds, podFailurePolicy, podReplacementPolicy,
ttlSecondsAfterFinished, managedBy. Pods carry the finalizer ``batch.kubernetes.io/job-tracking``. Invariant: a finished
pod is added to the status and loses the finalizer in the same transaction of the store. No pod is counted twice or
forgotten after a crash, so ``uncountedTerminatedPods`` stays empty. As upstream, an annotation of the pods counts the
failures of their index; a restart forgets failures of deleted pods. Gangs: see ``jobgroups``.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping
from datetime import datetime

from kube_rules.controllers.jobs import INDEX, JOB_NAME, free_indexes, is_managed, job_pod, pods_wanted, success_rule
from kube_rules.job_failures import FAILURES
from kube_rules.job_indexes import JobIndexes
from kube_rules.json import Json
from kube_rules.selectors import parse_integer
from kube_standin.clock import later, parse_stamp
from kube_standin.conditions import condition_of, is_true, put_condition
from kube_standin.controllers.availability import put_counts
from kube_standin.controllers.jobfailures import FailureVerdict, finished_at, judge, next_try
from kube_standin.controllers.jobgroups import group_of, never_started
from kube_standin.controllers.pod_owners import CREATES_AT_ONCE, PodOwner, pod_of
from kube_standin.controllers.reconciler import WRITES_AT_ONCE, NextTurn
from kube_standin.controllers.views import Key, PodView
from kube_standin.deletion import DeleteOptions
from kube_standin.errors import StatusError
from kube_standin.metadata import annotations_of, without_finalizer

TRACKING = "batch.kubernetes.io/job-tracking"


class _Sync:
    """The state of one sync of a Job; ``status`` is changed during the sync and written at the end."""

    def __init__(self, job: Json, now: datetime) -> None:
        self.job = job
        self.spec: Json = job["spec"]
        self.now = now
        self.status: Json = copy.deepcopy(job.get("status") or {})
        self.completions: int | None = self.spec.get("completions")
        self.parallelism: int = self.spec.get("parallelism", 1)
        self.indexed = self.spec.get("completionMode") == "Indexed"
        self.done = JobIndexes(self.completions or 0, self.status.get("completedIndexes", ""))
        self.per_index: int | None = self.spec.get("backoffLimitPerIndex") if self.indexed else None
        self.failed_indexes = JobIndexes(self.completions or 0, self.status.get("failedIndexes") or "")
        self.failure: tuple[str, str] | None = None
        """The reason and message of the Job's failure."""
        self.last_failure: datetime | None = None

    @property
    def over(self) -> bool:
        """Return whether the Job is complete or failed."""
        return any(is_true(self.status, kind) for kind in ("Complete", "Failed"))

    def add(self, name: str, count: int) -> None:
        """Add to a counter of the status."""
        self.status[name] = self.status.get(name, 0) + count

    @property
    def succeeded(self) -> int:
        """Return the number of pods that succeeded."""
        count: int = self.status.get("succeeded", 0)
        return count

    @property
    def settled(self) -> JobIndexes:
        """Return the indexes that get no more pods."""
        return JobIndexes(self.completions or 0, str(self.done), str(self.failed_indexes))

    def failure_of_indexes(self) -> tuple[str, str] | None:
        """Return why the Job fails by its failed indexes: too many have failed, or no other index is left."""
        if self.per_index is None or not len(self.failed_indexes):
            return None
        most = self.spec.get("maxFailedIndexes")
        if most is not None and len(self.failed_indexes) > most:
            return "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
        left = (self.completions or 0) - len(self.settled)
        return None if left > 0 else ("FailedIndexes", "Job has failed indexes")

    def success(self) -> tuple[str, str] | None:
        """Return why the Job is complete: enough pods succeeded, or a rule of its policy matches."""
        met = condition_of(self.status, "SuccessCriteriaMet")
        if met is not None and met.get("status") == "True":
            return met.get("reason", ""), met.get("message", "")
        policy = self.spec.get("successPolicy")
        rule = None if policy is None or not self.indexed else success_rule(policy, self.completions or 0, self.done)
        if rule is not None:
            return "SuccessPolicy", f"Matched rules at index {rule}"
        return ("CompletionsReached", "Reached expected number of succeeded pods") if self.is_complete else None

    @property
    def is_complete(self) -> bool:
        """Return whether enough pods succeeded."""
        if self.completions is None:
            return self.succeeded > 0
        return (len(self.done) if self.indexed else self.succeeded) >= self.completions


class Jobs(PodOwner):
    """The controller of Jobs; keys are theirs. The sync of a deleted Job removes the finalizer of remaining pods."""

    name = "job"
    of_kind = ("batch/v1", "Job")

    def reconcile(self, key: Key) -> None:
        """Count finished pods, end or create pods, and write the status."""
        job = self.read(key)
        self._release_strays(key, job)
        if job is None or not is_managed(job["spec"]):
            self._forget(key)
            return
        sync = _Sync(job, self.context.now())
        pods = self.claimed(job)
        counted = self._count(key, sync, pods)
        if sync.over:
            self._forget(key)
            self._expire(key, sync)
        elif not counted:
            self.queue(key)
        elif not job["metadata"].get("deletionTimestamp"):
            try:
                self._advance(key, sync)
            except NextTurn:
                self.queue(key)  # the status already has the counts
            except StatusError:
                self._report(key, sync, self.pods.by("owner", job["metadata"]["uid"]))  # here, too
                raise
        pods = self.pods.by("owner", job["metadata"]["uid"])
        self._report(key, sync, pods)

    def _forget(self, key: Key) -> None:
        self._failed_at.pop(key, None)
        self._index_failures.pop(key, None)

    # -- counting

    def _release_strays(self, key: Key, job: Json | None) -> None:
        """Remove the finalizer of pods without a Job."""
        uid = job["metadata"]["uid"] if job is not None else None
        for pod in self._named(key):
            owner = pod.metadata.controller
            orphaned = job is None if owner is None else owner.uid != uid
            if orphaned and TRACKING in (pod.metadata.finalizers or ()):
                self.spend()
                self._untrack(pod)

    def connect(self) -> None:
        """Index pods by the name of their Job, too, to find pods that outlived it."""
        self._failed_at: dict[Key, datetime] = {}  # forgotten by a restart, which only shortens a backoff
        self._index_failures: dict[Key, dict[int, tuple[int, datetime]]] = {}
        """By Job and index: the number of failures and the time of the last one; read from the pods after a restart."""
        self.context.sources.pods.index("job", _job_name)
        super().connect()

    def _orphan_seen(self, pod: PodView) -> None:
        super()._orphan_seen(pod)
        for key in _job_name(pod):
            self.queue(key)

    def _named(self, key: Key) -> list[PodView]:
        return self.pods.by("job", key)

    def _untrack(self, pod: PodView) -> None:
        """Remove the finalizer; a deleted pod without other finalizers is then removed."""
        state = self.context.registry.store.head("pods", *pod.key)
        if state is None:
            return
        body = state.decode()
        metadata = body["metadata"]
        without_finalizer(TRACKING)(body)
        if not metadata["finalizers"]:
            del metadata["finalizers"]
        if (
            "finalizers" not in metadata
            and metadata.get("deletionTimestamp")
            and not metadata.get("deletionGracePeriodSeconds")
        ):
            self.context.registry.store.delete(state, body)
        else:
            self.context.put(state, body)

    def _drop(self, sync: _Sync, pod: PodView) -> None:
        """End a pod that the Job no longer needs; the pod does not count as failed."""
        self.spend()
        self._untrack(pod)
        self.end_pod(sync.job, pod)

    def _count(self, key: Key, sync: _Sync, pods: list[PodView]) -> bool:
        """Count finished pods and remove their finalizer, a limited number per turn; return whether all are counted.

        The status is staged with this: later writes are in another transaction.
        """
        tracked = [pod for pod in pods if TRACKING in (pod.metadata.finalizers or ())]
        ended = [pod for pod in tracked if pod.finished or (pod.terminating and self._has_stopped(pod))]
        for ended_pod in ended[:WRITES_AT_ONCE]:
            state = self.context.registry.store.head("pods", *ended_pod.key)
            if state is None:
                continue
            pod = state.decode()
            index = _index(pod)
            if ended_pod.phase == "Succeeded":
                if sync.indexed:
                    if index is not None and 0 <= index < (sync.completions or 0):
                        sync.done.add(index)
                else:
                    sync.add("succeeded", 1)
            elif not is_true(sync.status, "Suspended") and not self._ignored(key, sync, pod):
                sync.add("failed", 1)
                when = finished_at(pod, sync.now)
                sync.last_failure = when if sync.last_failure is None else max(sync.last_failure, when)
        if sync.indexed:
            sync.status["completedIndexes"] = str(sync.done)
            sync.status["succeeded"] = len(sync.done)
        if sync.per_index is not None:
            sync.status["failedIndexes"] = str(sync.failed_indexes)
        if ended:
            self._report(key, sync, [pod for pod in pods if pod not in ended])
            for ended_pod in ended[:WRITES_AT_ONCE]:
                self._untrack(ended_pod)
            self.context.sources.sync()
        return len(ended) <= WRITES_AT_ONCE

    def _has_stopped(self, pod: PodView) -> bool:
        """Return whether a terminating pod waits only for its finalizers."""
        state = self.context.registry.store.head("pods", *pod.key)
        return state is not None and not state.decode()["metadata"].get("deletionGracePeriodSeconds")

    def _ignored(self, key: Key, sync: _Sync, pod: Json) -> bool:
        """Return whether a failure does not count; record it if the policy fails the Job or the index."""
        verdict: FailureVerdict = judge(sync.job, pod)
        if verdict.action == "FailJob":
            sync.failure = ("PodFailurePolicy", verdict.why)
        index = _index(pod)
        if sync.per_index is not None and index is not None and 0 <= index < (sync.completions or 0):
            failures = _failures(pod)
            if verdict.action != "Ignore":
                failures += 1
                self._index_failures.setdefault(key, {})[index] = (failures, finished_at(pod, sync.now))
            if (verdict.action == "FailIndex" or failures > sync.per_index) and index not in sync.done:
                sync.failed_indexes.add(index)
        return verdict.action == "Ignore"

    # -- advancing

    def _advance(self, key: Key, sync: _Sync) -> None:
        spec = sync.spec
        uid = sync.job["metadata"]["uid"]
        pods = self.pods.by("owner", uid)
        target = condition_of(sync.status, "FailureTarget")
        if sync.failure is None and target is not None and target.get("status") == "True":
            sync.failure = (target.get("reason", ""), target.get("message", ""))
        if sync.failure is None and sync.status.get("failed", 0) > spec.get("backoffLimit", 6):
            sync.failure = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
        if sync.failure is None and self._late(key, sync):
            sync.failure = ("DeadlineExceeded", "Job was active longer than specified deadline")
        if sync.failure is None:
            sync.failure = sync.failure_of_indexes()
        if is_true(sync.status, "SuccessCriteriaMet"):
            sync.failure = None
        success = sync.success()
        if sync.failure is not None:
            self._fail(sync, pods)
        elif success is not None:
            self._complete(sync, pods, *success)
        elif spec.get("suspend"):
            self._suspend(sync, pods)
        else:
            self._resume(sync)
            self._run(key, sync, pods)

    def _late(self, key: Key, sync: _Sync) -> bool:
        limit, started = sync.spec.get("activeDeadlineSeconds"), sync.status.get("startTime")
        if limit is None or not started or sync.spec.get("suspend"):
            return False
        left = (later(parse_stamp(started), limit) - sync.now).total_seconds()
        if left > 0:
            self.queue_after(key, left)
        return left <= 0

    def _end_all(self, sync: _Sync, pods: list[PodView]) -> bool:
        """End running pods; return whether every pod has ended."""
        for pod in pods:
            if pod.active:
                self.end_pod(sync.job, pod)
        self.context.sources.sync()
        return all(pod.finished for pod in self.pods.by("owner", sync.job["metadata"]["uid"]))

    def _fail(self, sync: _Sync, pods: list[PodView]) -> None:
        reason, message = sync.failure or ("", "")
        self._condition(sync, "FailureTarget", "True", reason, message)
        if self._end_all(sync, pods):
            self._condition(sync, "Failed", "True", reason, message)
            self.context.event(sync.job, reason, message, "Warning", self.source)

    def _complete(self, sync: _Sync, pods: list[PodView], reason: str, message: str) -> None:
        self._condition(sync, "SuccessCriteriaMet", "True", reason, message)
        if sync.completions is None and any(pod.active for pod in pods):
            return  # a work queue ends when its workers end
        if self._end_all(sync, pods):
            self._condition(sync, "Complete", "True", reason, message)
            sync.status["completionTime"] = self.context.stamp()
            self.context.event(sync.job, "Completed", "Job completed", source=self.source)

    def _suspend(self, sync: _Sync, pods: list[PodView]) -> None:
        for pod in pods:
            if pod.active:
                self._drop(sync, pod)
        if not is_true(sync.status, "Suspended"):
            self._condition(sync, "Suspended", "True", "JobSuspended", "Job suspended")
            self.context.event(sync.job, "Suspended", "Job suspended", source=self.source)
        sync.status.pop("startTime", None)

    def _resume(self, sync: _Sync) -> None:
        if is_true(sync.status, "Suspended"):
            self._condition(sync, "Suspended", "False", "JobResumed", "Job resumed")
            self.context.event(sync.job, "Resumed", "Job resumed", source=self.source)
        sync.status.setdefault("startTime", self.context.stamp())

    def _run(self, key: Key, sync: _Sync, pods: list[PodView]) -> None:
        """End surplus pods or create missing ones."""
        active = [pod for pod in pods if pod.active]
        occupying = active
        if sync.spec.get("podReplacementPolicy") == "Failed":
            occupying = [pod for pod in pods if not pod.finished]  # replace only pods that have ended
        used_indexes = {index for pod in occupying if (index := self._index_of(pod)) is not None}
        if sync.indexed:
            surplus = self._surplus_indexes(sync, active)
            for pod in surplus:
                self._drop(sync, pod)
            occupying = [pod for pod in occupying if pod not in surplus]
        try:
            group = group_of(self.context, sync.job, new=not pods and never_started(sync.job))
        except StatusError as error:
            self.record_refusal(sync.job, error)
            raise
        over = len(sync.settled) if sync.per_index is not None else sync.succeeded
        wanted = pods_wanted(sync.parallelism, sync.completions, over, len(occupying))
        if wanted < len(occupying):
            for pod in self.deletion_order(occupying)[: len(occupying) - wanted]:
                self._drop(sync, pod)
            self.context.sources.sync()
            return
        missing = wanted - len(occupying)
        if sync.per_index is not None:
            self._read_failures(key, sync, pods)
            waiting = self._indexes_in_backoff(key, sync)
            missing = min(missing, (sync.completions or 0) - len(sync.settled) - len(used_indexes | waiting))
            used_indexes |= waiting
        if missing <= 0 or (sync.per_index is None and not self._may_try(key, sync)):
            return
        failures = self._index_failures.get(key, {})
        indexes = iter(self._free_indexes(sync, used_indexes, min(missing, CREATES_AT_ONCE)))
        self.create_pods(sync.job, missing, lambda: self._pod(sync, group, next(indexes, None), failures))
        self.context.sources.sync()

    def _read_failures(self, key: Key, sync: _Sync, pods: list[PodView]) -> None:
        """Read the failures of each index from the existing failed pods after a restart."""
        if key in self._index_failures:
            return
        failures_by_index = self._index_failures[key] = {}
        for failed_pod in pods:
            index = self._index_of(failed_pod)
            state = self.context.registry.store.head("pods", *failed_pod.key) if failed_pod.phase == "Failed" else None
            if index is None or state is None:
                continue
            pod = state.decode()
            failures = _failures(pod) + (judge(sync.job, pod).action != "Ignore")
            if failures > failures_by_index.get(index, (0, sync.now))[0]:
                failures_by_index[index] = (failures, finished_at(pod, sync.now))

    def _indexes_in_backoff(self, key: Key, sync: _Sync) -> set[int]:
        """Return the indexes in backoff after a failure; queue the key for the end of the first backoff."""
        left = {
            index: (next_try(last, failures) - sync.now).total_seconds()
            for index, (failures, last) in self._index_failures[key].items()
            if failures and index not in sync.settled
        }
        waiting = {index for index, seconds in left.items() if seconds > 0}
        if waiting:
            self.queue_after(key, min(left[index] for index in waiting))
        return waiting

    def _may_try(self, key: Key, sync: _Sync) -> bool:
        """Return whether the backoff after a failure is over."""
        failures = sync.status.get("failed", 0)
        if sync.last_failure is not None:
            self._failed_at[key] = sync.last_failure
        last = self._failed_at.get(key)
        if not failures or last is None:
            return True
        left = (next_try(last, failures) - sync.now).total_seconds()
        if left > 0:
            self.queue_after(key, left)
        return left <= 0

    # -- indexes and pods

    def _index_of(self, pod: PodView) -> int | None:
        return parse_integer((pod.metadata.labels or {}).get(INDEX, ""))

    def _surplus_indexes(self, sync: _Sync, active: list[PodView]) -> list[PodView]:
        """Return active pods with an index that is done, out of range or a duplicate."""
        seen: set[int] = set()
        surplus = []
        for pod in sorted(active, key=lambda p: (p.metadata.creation_timestamp or "", p.key)):
            index = self._index_of(pod)
            if index is None or index in sync.settled or index >= (sync.completions or 0) or index in seen:
                surplus.append(pod)
            else:
                seen.add(index)
        return surplus

    @staticmethod
    def _free_indexes(sync: _Sync, used: set[int], count: int) -> list[int]:
        if not sync.indexed:
            return []
        return list(itertools.islice(free_indexes(sync.settled, sync.completions or 0, used), count))

    def _pod(self, sync: _Sync, group: str, index: int | None, failures: Mapping[int, tuple[int, datetime]]) -> Json:
        pod = pod_of(sync.job, sync.spec["template"], job_pod(sync.job["metadata"]["name"], index))
        metadata, spec = pod["metadata"], pod["spec"]
        metadata["finalizers"] = [*(metadata.get("finalizers") or ()), TRACKING]
        if group:
            spec["schedulingGroup"] = {"podGroupName": group}
        if index is not None and sync.per_index is not None:
            count = failures.get(index, (0, sync.now))[0]
            metadata["annotations"] = {**(metadata.get("annotations") or {}), FAILURES: str(count)}
        if index is not None:
            source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
            for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
                env = container.setdefault("env", [])
                if all(variable.get("name") != "JOB_COMPLETION_INDEX" for variable in env):
                    env.append({"name": "JOB_COMPLETION_INDEX", "valueFrom": source})
        return pod

    # -- status

    def _condition(self, sync: _Sync, kind: str, status: str, reason: str, message: str) -> None:
        stamp = self.context.stamp()
        present = condition_of(sync.status, kind)
        condition = {
            "type": kind,
            "status": status,
            "lastProbeTime": stamp if present is None else present.get("lastProbeTime", stamp),
            "reason": reason,
            "message": message,
        }
        put_condition(sync.status, condition, stamp)

    def _report(self, key: Key, sync: _Sync, pods: list[PodView]) -> None:
        status = sync.status
        status["terminating"] = sum(1 for pod in pods if pod.terminating and not pod.finished)
        status["ready"] = sum(1 for pod in pods if pod.active and pod.ready)
        put_counts(status, {"active": sum(1 for pod in pods if pod.active)})
        for name in ("succeeded", "failed", "completedIndexes"):
            if not status.get(name):
                status.pop(name, None)
        status.setdefault("uncountedTerminatedPods", {})
        self.context.set_status(self.row, key, copy.deepcopy(status))

    def _expire(self, key: Key, sync: _Sync) -> None:
        """Delete a finished Job at the end of its time to live."""
        ttl = sync.spec.get("ttlSecondsAfterFinished")
        if ttl is None or sync.job["metadata"].get("deletionTimestamp"):
            return
        ended = condition_of(sync.status, "Complete") or condition_of(sync.status, "Failed") or {}
        left = (later(parse_stamp(ended["lastTransitionTime"]), ttl) - sync.now).total_seconds()
        if left > 0:
            self.queue_after(key, left)
        else:
            uid = sync.job["metadata"]["uid"]
            self.context.delete(self.row, key, DeleteOptions(propagation="Background", uid=uid))


def _index(pod: Json) -> int | None:
    return parse_integer(annotations_of(pod).get(INDEX, ""))


def _failures(pod: Json) -> int:
    """Return the number of failures of a pod's index at the time the pod was created."""
    return max(0, parse_integer(annotations_of(pod).get(FAILURES, "")) or 0)


def _job_name(pod: PodView) -> tuple[Key, ...]:
    """Return the Job of a pod that is not yet counted: its controller, or for an orphan the Job that created it."""
    if TRACKING not in (pod.metadata.finalizers or ()):
        return ()
    owner = pod.metadata.controller
    if owner is None:
        return ((pod.metadata.namespace, (pod.metadata.labels or {}).get(JOB_NAME, "")),)
    return ((pod.metadata.namespace, owner.name),) if owner.kind == "Job" else ()
