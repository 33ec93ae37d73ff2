"""When pods of Jobs have to have ended: a Job's own `activeDeadlineSeconds` (cost.md 6.4).

The time runs from when the Job started, which its status says, for all of its pods together; where that is not known (a
Job in a file has no status) for each of them from its own start, which is not before it.  A Job that is not known says
nothing: then what its pods say counts alone.
"""

from kube_rules.group_owners import Job
from reprieve.cluster.pods import PodRecord

_KIND = Job.KIND
_GROUP = "batch/"


class JobDeadlines:
    """The Jobs that have a deadline, as far as they are known. Times are seconds since the epoch."""

    def __init__(self) -> None:
        self._by_job: dict[tuple[str, str], tuple[float, float | None]] = {}
        """(namespace, name) -> how long it may run, and since when it does."""

    def set(self, job: Job) -> bool:
        """Learn of a Job or its change; returns whether pods of it that run end at another time than before."""
        meta = job.metadata
        key = (meta.namespace or "default", meta.name)
        before, seconds = self._by_job.get(key), job.active_deadline
        if seconds is None:
            self._by_job.pop(key, None)
            return before is not None
        self._by_job[key] = found = (seconds, job.started)
        return found != before and (before is not None or found[1] is not None)

    def remove(self, namespace: str, name: str) -> None:
        """A Job was deleted; its pods are about to be."""
        self._by_job.pop((namespace, name), None)

    def of(self, pod: PodRecord) -> float | None:
        """Return when the pod has to end because its Job has to have ended; None: there is no deadline."""
        if not self._by_job or pod.owner is None:
            return None
        version, kind, name = pod.owner
        known = self._by_job.get((pod.namespace, name)) if kind == _KIND and version.startswith(_GROUP) else None
        if known is None:
            return None
        since = known[1] if known[1] is not None else pod.start
        return None if since is None else since + known[0]
