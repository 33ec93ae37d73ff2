"""Jobs: pods run to completion, in parallel, with retries; finished ones are counted exactly once.

Rules: upstream's job controller: parallelism, completions (also Indexed), backoffLimit, suspend,
activeDeadlineSeconds, podFailurePolicy, podReplacementPolicy, ttlSecondsAfterFinished, managedBy. Pods carry the
finalizer ``batch.kubernetes.io/job-tracking``. Invariant: a finished pod is added to the status and loses the
finalizer in the same transaction of the store, so no pod is counted twice or forgotten, whatever dies when; that
is why ``uncountedTerminatedPods`` stays empty here. Gangs: see ``jobgroups``.
"""

from __future__ import annotations

import copy
from datetime import datetime, timedelta

from reprieve.api.json import Json
from reprieve.controlplane.clock import parse_stamp
from reprieve.controlplane.conditions import condition_of, is_true, put_condition
from reprieve.controlplane.controllers.availability import put_counts
from reprieve.controlplane.controllers.indexes import read_indexes, write_indexes
from reprieve.controlplane.controllers.jobfailures import Verdict, finished_at, judge, next_try
from reprieve.controlplane.controllers.jobgroups import group_of, never_started
from reprieve.controlplane.controllers.owning import CREATES_AT_ONCE, PodOwner, pod_of_template
from reprieve.controlplane.controllers.views import Key, PodSeen
from reprieve.controlplane.deleting import DeleteOptions
from reprieve.controlplane.errors import StatusError
from reprieve.controlplane.metadata import annotations_of, without_finalizer

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
JOB_LABEL = "batch.kubernetes.io/job-name"
_OURS = (None, "", "kubernetes.io/job-controller")


class _Look:
    """What one look at a Job works with; ``status`` is changed and written at the end."""

    def __init__(self, job: Json, now: datetime) -> None:
        self.job = job
        self.spec: Json = job["spec"]
        self.now = now
        self.status: Json = copy.deepcopy(job.get("status") or {})
        self.completions: int | None = self.spec.get("completions")
        self.parallelism: int = self.spec.get("parallelism", 1)
        self.indexed = self.spec.get("completionMode") == "Indexed"
        self.done: set[int] = read_indexes(self.status.get("completedIndexes", ""))
        self.failure: tuple[str, str] | None = None
        """(reason, message) why the Job fails."""
        self.last_failure: datetime | None = None

    @property
    def over(self) -> bool:
        """Whether the Job is complete or failed."""
        return any(is_true(self.status, kind) for kind in ("Complete", "Failed"))

    def add(self, name: str, count: int) -> None:
        """Add to a counter of the status."""
        self.status[name] = self.status.get(name, 0) + count

    @property
    def succeeded(self) -> int:
        """Pods that succeeded."""
        found: int = self.status.get("succeeded", 0)
        return found

    @property
    def is_complete(self) -> bool:
        """Whether enough pods succeeded."""
        if self.completions is None:
            return self.succeeded > 0
        return (len(self.done) if self.indexed else self.succeeded) >= self.completions


class Jobs(PodOwner):
    """Keys are those of Jobs; a key without a Job frees pods that were left behind."""

    name = "job"
    of_kind = ("batch/v1", "Job")

    def reconcile(self, key: Key) -> None:
        """Count what finished, end or make pods, write the status."""
        job = self.read(key)
        self._free_strays(key, job)
        if job is None or job["spec"].get("managedBy") not in _OURS:
            self._failed_at.pop(key, None)
            return
        look = _Look(job, self.context.now())
        pods = self.claimed(job)
        self._count(look, pods)
        if look.over:
            self._failed_at.pop(key, None)
            self._expire(key, look)
        elif not job["metadata"].get("deletionTimestamp"):
            self._advance(key, look)
        pods = self.pods.by("owner", job["metadata"]["uid"])
        self._report(key, look, pods)

    # -- counting

    def _free_strays(self, key: Key, job: Json | None) -> None:
        """Take the finalizer off pods whose Job is gone."""
        uid = job["metadata"]["uid"] if job is not None else None
        for pod in self._named(key):
            owner = pod.metadata.controller
            gone = job is None if owner is None else owner.uid != uid
            if gone and TRACKING in (pod.metadata.finalizers or ()):
                self._untrack(pod)

    def connect(self) -> None:
        """Also keep pods by the name of their Job, to find those that outlived it."""
        self._failed_at: dict[Key, datetime] = {}  # forgotten by a restart, which only shortens a wait
        self.context.sources.pods.index("job", _job_name)
        super().connect()

    def _orphan_seen(self, pod: PodSeen) -> None:
        super()._orphan_seen(pod)
        for key in _job_name(pod):
            self.queue(key)

    def _named(self, key: Key) -> list[PodSeen]:
        return self.pods.by("job", key)

    def _untrack(self, pod: PodSeen) -> None:
        """Take the finalizer off; a deleted pod that waited for it alone is gone then."""
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

    def _drop(self, look: _Look, pod: PodSeen) -> None:
        """End a pod the Job no longer wants; such a pod is not counted as failed."""
        self._untrack(pod)
        self.end_pod(look.job, pod)

    def _count(self, look: _Look, pods: list[PodSeen]) -> None:
        """Count pods that finished and free them."""
        tracked = [pod for pod in pods if TRACKING in (pod.metadata.finalizers or ())]
        ended = [pod for pod in tracked if pod.finished or (pod.terminating and self._has_stopped(pod))]
        for seen in ended:
            state = self.context.registry.store.head("pods", *seen.key)
            if state is None:
                continue
            pod = state.decode()
            index = _index(pod)
            if seen.phase == "Succeeded":
                if look.indexed:
                    if index is not None and index not in look.done and index < (look.completions or 0):
                        look.done.add(index)
                else:
                    look.add("succeeded", 1)
            elif not is_true(look.status, "Suspended") and not self._spared(look, pod):
                look.add("failed", 1)
                when = finished_at(pod, look.now)
                look.last_failure = when if look.last_failure is None else max(look.last_failure, when)
            self._untrack(seen)
        if look.indexed:
            look.status["completedIndexes"] = write_indexes(look.done)
            look.status["succeeded"] = len(look.done)
        if ended:
            self.context.sources.sync()

    def _has_stopped(self, pod: PodSeen) -> bool:
        """Whether a terminating pod waits for nothing but its finalizers."""
        state = self.context.registry.store.head("pods", *pod.key)
        return state is not None and not state.decode()["metadata"].get("deletionGracePeriodSeconds")

    def _spared(self, look: _Look, pod: Json) -> bool:
        """Whether a failure is not to be counted; notes it if the policy fails the Job."""
        verdict: Verdict = judge(look.job, pod)
        if verdict.action == "FailJob":
            look.failure = ("PodFailurePolicy", verdict.why)
        return verdict.action == "Ignore"

    # -- moving on

    def _advance(self, key: Key, look: _Look) -> None:
        spec = look.spec
        uid = look.job["metadata"]["uid"]
        pods = self.pods.by("owner", uid)
        target = condition_of(look.status, "FailureTarget")
        if look.failure is None and target is not None and target.get("status") == "True":
            look.failure = (target.get("reason", ""), target.get("message", ""))
        if look.failure is None and look.status.get("failed", 0) > spec.get("backoffLimit", 6):
            look.failure = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
        if look.failure is None and self._late(key, look):
            look.failure = ("DeadlineExceeded", "Job was active longer than specified deadline")
        if look.failure is not None:
            self._fail(look, pods)
        elif look.is_complete:
            self._complete(look, pods)
        elif spec.get("suspend"):
            self._suspend(look, pods)
        else:
            self._resume(look)
            self._run(key, look, pods)

    def _late(self, key: Key, look: _Look) -> bool:
        limit, started = look.spec.get("activeDeadlineSeconds"), look.status.get("startTime")
        if limit is None or not started or look.spec.get("suspend"):
            return False
        left = (parse_stamp(started) + timedelta(seconds=limit) - look.now).total_seconds()
        if left > 0:
            self.queue_after(key, left)
        return left <= 0

    def _end_all(self, look: _Look, pods: list[PodSeen]) -> bool:
        """End what still runs; True once every pod has ended."""
        for pod in pods:
            if pod.active:
                self.end_pod(look.job, pod)
        self.context.sources.sync()
        return all(pod.finished for pod in self.pods.by("owner", look.job["metadata"]["uid"]))

    def _fail(self, look: _Look, pods: list[PodSeen]) -> None:
        reason, message = look.failure or ("", "")
        self._condition(look, "FailureTarget", "True", reason, message)
        if self._end_all(look, pods):
            self._condition(look, "Failed", "True", reason, message)
            self.context.event(look.job, reason, message, "Warning", self.source)

    def _complete(self, look: _Look, pods: list[PodSeen]) -> None:
        reason, message = "CompletionsReached", "Reached expected number of succeeded pods"
        self._condition(look, "SuccessCriteriaMet", "True", reason, message)
        if look.completions is None and any(pod.active for pod in pods):
            return  # a work queue ends when its workers do
        if self._end_all(look, pods):
            self._condition(look, "Complete", "True", reason, message)
            look.status["completionTime"] = self.context.stamp()
            self.context.event(look.job, "Completed", "Job completed", source=self.source)

    def _suspend(self, look: _Look, pods: list[PodSeen]) -> None:
        for pod in pods:
            if pod.active:
                self._drop(look, pod)
        if not is_true(look.status, "Suspended"):
            self._condition(look, "Suspended", "True", "JobSuspended", "Job suspended")
            self.context.event(look.job, "Suspended", "Job suspended", source=self.source)
        look.status.pop("startTime", None)

    def _resume(self, look: _Look) -> None:
        if is_true(look.status, "Suspended"):
            self._condition(look, "Suspended", "False", "JobResumed", "Job resumed")
            self.context.event(look.job, "Resumed", "Job resumed", source=self.source)
        look.status.setdefault("startTime", self.context.stamp())

    def _run(self, key: Key, look: _Look, pods: list[PodSeen]) -> None:
        """End surplus pods or make missing ones."""
        active = [pod for pod in pods if pod.active]
        held = active
        if look.spec.get("podReplacementPolicy") == "Failed":
            held = [pod for pod in pods if not pod.finished]  # replace only what has ended
        taken = {index for pod in held if (index := self._index_of(pod)) is not None}
        if look.indexed:
            surplus = self._surplus_indexes(look, active)
            for pod in surplus:
                self._drop(look, pod)
            held = [pod for pod in held if pod not in surplus]
        try:
            group = group_of(self.context, look.job, new=not pods and never_started(look.job))
        except StatusError as error:
            self.tell_refusal(look.job, error)
            raise
        wanted = self._wanted(look, len(held))
        if wanted < len(held):
            for pod in self.first_to_go(held)[: len(held) - wanted]:
                self._drop(look, pod)
            self.context.sources.sync()
            return
        missing = wanted - len(held)
        if not missing or not self._may_try(key, look):
            return
        indexes = iter(self._free_indexes(look, taken, min(missing, CREATES_AT_ONCE)))
        self.create_pods(look.job, missing, lambda: self._pod(look, group, next(indexes, None)))
        self.context.sources.sync()

    def _wanted(self, look: _Look, held: int) -> int:
        if look.completions is None:
            return held if look.succeeded else look.parallelism
        return max(0, min(look.parallelism, look.completions - look.succeeded))

    def _may_try(self, key: Key, look: _Look) -> bool:
        """Whether the wait after a failure is over."""
        failures = look.status.get("failed", 0)
        if look.last_failure is not None:
            self._failed_at[key] = look.last_failure
        last = self._failed_at.get(key)
        if not failures or last is None:
            return True
        left = (next_try(last, failures) - look.now).total_seconds()
        if left > 0:
            self.queue_after(key, left)
        return left <= 0

    # -- indexes and pods

    def _index_of(self, pod: PodSeen) -> int | None:
        text = (pod.metadata.labels or {}).get(INDEX, "")
        return int(text) if text.isdecimal() else None

    def _surplus_indexes(self, look: _Look, active: list[PodSeen]) -> list[PodSeen]:
        """Active pods whose index is done, out of range or taken twice."""
        seen: set[int] = set()
        surplus = []
        for pod in sorted(active, key=lambda one: (one.metadata.creation_timestamp or "", one.key)):
            index = self._index_of(pod)
            if index is None or index in look.done or index >= (look.completions or 0) or index in seen:
                surplus.append(pod)
            else:
                seen.add(index)
        return surplus

    @staticmethod
    def _free_indexes(look: _Look, taken: set[int], count: int) -> list[int]:
        if not look.indexed:
            return []
        found: list[int] = []
        for index in range(look.completions or 0):
            if len(found) == count:
                break
            if index not in look.done and index not in taken:
                found.append(index)
        return found

    def _pod(self, look: _Look, group: str, index: int | None) -> Json:
        pod = pod_of_template(look.job, look.spec["template"])
        metadata, spec = pod["metadata"], pod["spec"]
        metadata["finalizers"] = [*(metadata.get("finalizers") or ()), TRACKING]
        if group:
            spec["schedulingGroup"] = {"podGroupName": group}
        if index is not None:
            name = look.job["metadata"]["name"]
            metadata["generateName"] = f"{name}-{index}-"
            metadata["annotations"] = {**(metadata.get("annotations") or {}), INDEX: str(index)}
            metadata["labels"] = {**(metadata.get("labels") or {}), INDEX: str(index)}
            spec.setdefault("hostname", f"{name}-{index}")
            source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
            for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
                env = container.setdefault("env", [])
                if all(one.get("name") != "JOB_COMPLETION_INDEX" for one in env):
                    env.append({"name": "JOB_COMPLETION_INDEX", "valueFrom": source})
        return pod

    # -- status

    def _condition(self, look: _Look, kind: str, status: str, reason: str, message: str) -> None:
        stamp = self.context.stamp()
        present = condition_of(look.status, kind)
        condition = {
            "type": kind,
            "status": status,
            "lastProbeTime": stamp if present is None else present.get("lastProbeTime", stamp),
            "reason": reason,
            "message": message,
        }
        put_condition(look.status, condition, stamp)

    def _report(self, key: Key, look: _Look, pods: list[PodSeen]) -> None:
        status = look.status
        status["terminating"] = sum(1 for pod in pods if pod.terminating and not pod.finished)
        status["ready"] = sum(1 for pod in pods if pod.active and pod.ready)
        put_counts(status, {"active": sum(1 for pod in pods if pod.active)})
        for name in ("succeeded", "failed", "completedIndexes"):
            if not status.get(name):
                status.pop(name, None)
        status.setdefault("uncountedTerminatedPods", {})
        self.context.set_status(self.row, key, status)

    def _expire(self, key: Key, look: _Look) -> None:
        """Delete a finished Job whose time to live is over."""
        ttl = look.spec.get("ttlSecondsAfterFinished")
        if ttl is None or look.job["metadata"].get("deletionTimestamp"):
            return
        ended = condition_of(look.status, "Complete") or condition_of(look.status, "Failed") or {}
        left = (parse_stamp(ended["lastTransitionTime"]) + timedelta(seconds=ttl) - look.now).total_seconds()
        if left > 0:
            self.queue_after(key, left)
        else:
            uid = look.job["metadata"]["uid"]
            self.context.delete(self.row, key, DeleteOptions(propagation="Background", uid=uid))


def _index(pod: Json) -> int | None:
    text = annotations_of(pod).get(INDEX, "")
    return int(text) if text.isdecimal() else None


def _job_name(pod: PodSeen) -> tuple[Key, ...]:
    """The Job of a pod that is still to be counted: its controller, or for an orphan the one that made it."""
    if TRACKING not in (pod.metadata.finalizers or ()):
        return ()
    owner = pod.metadata.controller
    if owner is None:
        return ((pod.metadata.namespace, (pod.metadata.labels or {}).get(JOB_LABEL, "")),)
    return ((pod.metadata.namespace, owner.name),) if owner.kind == "Job" else ()
