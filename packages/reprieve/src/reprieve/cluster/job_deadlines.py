"""Deadlines of the pods of Jobs: a Job's `activeDeadlineSeconds` (cost.md 6.4).

The time starts with the Job, as its status states, for all of its pods. If the status does not state it (a Job in a
file has no status), the time starts with each pod. For an unknown Job only the pods' own deadlines apply.
"""

from kube_rules.group_owners import Job
from reprieve.cluster.pods import PodRecord

_KIND = Job.KIND
_GROUP = "batch/"


class JobDeadlines:
    """The known Jobs with a deadline. Times are seconds since the epoch."""

    def __init__(self) -> None:
        self._by_job: dict[tuple[str, str], tuple[float, float | None]] = {}
        """(namespace, name) -> (deadline in seconds, start time)."""

    def set(self, job: Job) -> bool:
        """Add or update a Job; return whether the end of its running pods changed."""
        meta = job.metadata
        key = (meta.namespace or "default", meta.name)
        before, seconds = self._by_job.get(key), job.active_deadline
        if seconds is None:
            self._by_job.pop(key, None)
            return before is not None
        self._by_job[key] = deadline = (seconds, job.started)
        return deadline != before and (before is not None or deadline[1] is not None)

    def remove(self, namespace: str, name: str) -> None:
        """Remove a deleted Job; its pods are about to be deleted."""
        self._by_job.pop((namespace, name), None)

    def of(self, pod: PodRecord) -> float | None:
        """Return the time at which the pod's Job must have ended; None without a deadline."""
        if not self._by_job or pod.owner is None:
            return None
        version, kind, name = pod.owner
        deadline = self._by_job.get((pod.namespace, name)) if kind == _KIND and version.startswith(_GROUP) else None
        if deadline is None:
            return None
        since = deadline[1] if deadline[1] is not None else pod.start
        return None if since is None else since + deadline[0]
