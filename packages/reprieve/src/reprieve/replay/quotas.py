"""ResourceQuotas of the cluster file: jobs that would exceed them wait outside or are refused (replay.md 3.8)."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kube_rules.quantity import BINARY_SI, NANO, QuantityError, format_quantity, milli_value, parse, value
from reprieve.replay.job_list import ReplayJob


@dataclass(slots=True)
class _NamespaceUse:
    """Limits and use by resource: cpu in milli-cores, memory in bytes, GPUs in thousandths, pods by number."""

    hard: dict[str, int]
    used: dict[str, int] = field(default_factory=dict)
    queue: deque[tuple[ReplayJob, int]] = field(default_factory=deque)


class JobQuotaError(ValueError):
    """An invalid quota."""


class JobQuotas:
    """What each namespace may have at a time; several quotas of one hold together.

    `not_applied`: quotas and limits that say nothing about jobs, in words.
    """

    def __init__(self, manifests: Iterable[Mapping[str, Any]] = (), *, gpu: str = "", per_gpu: int = 1) -> None:
        self._spaces: dict[str, _NamespaceUse] = {}
        self.not_applied: list[str] = []
        for manifest in manifests:
            meta, spec = manifest.get("metadata", {}), manifest.get("spec") or {}
            namespace = meta.get("namespace") or "default"
            named = f"ResourceQuota {namespace}/{meta.get('name', '')}"
            hard = spec.get("hard") or {}
            if spec.get("scopes") or spec.get("scopeSelector"):
                self.not_applied.append(f"{named}: it has scopes")
                continue
            limits = self._spaces.setdefault(namespace, _NamespaceUse({})).hard
            for name, amount in hard.items():
                column = {"requests.cpu": "cpu", "requests.memory": "memory", f"requests.{gpu}": "gpu"}.get(name, name)
                if column not in ("cpu", "memory", "gpu", "pods", "count/pods"):
                    self.not_applied.append(f"{named}: {name}")
                    continue
                try:
                    parsed = parse(str(amount))
                    limit = milli_value(parsed) if column == "cpu" else value(parsed)
                except QuantityError as error:
                    raise JobQuotaError(f"{named}, {name}: {error}") from None
                column = "pods" if column == "count/pods" else column
                limit = limit * 1000 // per_gpu if column == "gpu" else limit
                limits[column] = min(limit, limits.get(column, limit))
        self._number = 0

    def admits(self, job: ReplayJob) -> bool:
        """Return whether the next job of the list may come in.

        One that may not waits until `ended` names it, and is refused for good where `refusal` has a reason.
        """
        index = self._number
        self._number += 1
        space = self._spaces.get(job.shape.tenant)
        if space is None:
            return True
        if _exceeded(space, job):
            return False
        if not space.queue and _fits(space, job):
            _take(space, job, 1)
            return True
        space.queue.append((job, index))
        return False

    def refusal(self, job: ReplayJob) -> str:
        """Return why a job exceeds its quota even alone, "" if it does not."""
        space = self._spaces.get(job.shape.tenant)
        exceeded = _exceeded(space, job) if space is not None else {}
        limits = ", ".join(f"{name}={_written(name, limit)}" for name, limit in exceeded.items())
        return f"it exceeds a ResourceQuota of namespace {job.shape.tenant} by itself: {limits}" if limits else ""

    def ended(self, job: ReplayJob, index: int) -> Sequence[int]:
        """Release the use of an ended job, and return the indexes of the jobs that are admitted now."""
        space = self._spaces.get(job.shape.tenant)
        if space is None:
            return ()
        _take(space, job, -1)
        admitted = []
        while space.queue and _fits(space, space.queue[0][0]):
            next_job, place = space.queue.popleft()
            _take(space, next_job, 1)
            admitted.append(place)
        return admitted


def _requests(job: ReplayJob) -> dict[str, int]:
    shape = job.shape
    request = {"cpu": shape.cpu, "memory": shape.memory, "gpu": shape.gpu, "pods": 1}
    return {name: amount * shape.workers for name, amount in request.items()}


def _exceeded(space: _NamespaceUse, job: ReplayJob) -> dict[str, int]:
    """Return the limits that the job exceeds alone."""
    requested = _requests(job)
    return {name: limit for name, limit in sorted(space.hard.items()) if requested[name] > limit}


def _written(name: str, limit: int) -> str:
    """Return a limit in the form of a quota."""
    if name == "memory":
        return format_quantity(limit * NANO, BINARY_SI)
    return str(limit) if name == "pods" else format_quantity(limit * NANO // 1000)


def _fits(space: _NamespaceUse, job: ReplayJob) -> bool:
    requested = _requests(job)
    return all(space.used.get(name, 0) + requested[name] <= limit for name, limit in space.hard.items())


def _take(space: _NamespaceUse, job: ReplayJob, sign: int) -> None:
    for name, amount in _requests(job).items():
        space.used[name] = space.used.get(name, 0) + sign * amount
