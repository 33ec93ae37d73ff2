"""The work that an eviction throws away (cost.md 1.3, 2.1).

For a pod it is the time since its work was last saved, or since its start, plus the time that a restart takes,
multiplied by its GPUs, or by its CPUs if it has no GPUs.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.resources import SCORING_CPU, ResourceTable
from reprieve.cluster.signature import PodSpecSignature
from reprieve.cluster.state import ClusterState

_PARTS_OF_GPUS: Final = ("gpu-", "gpu.", "mig-")


@dataclass(frozen=True, slots=True)
class LostWork:
    """Lost work in GPU-seconds, for pods without GPUs in CPU-seconds."""

    gpu: float = 0.0
    cpu: float = 0.0

    @property
    def total(self) -> float:
        """Return GPU-seconds and CPU-seconds together, as the criterion `lostWork` counts them."""
        return self.gpu + self.cpu


@dataclass(slots=True)
class EvictedPods:
    """The victims of a preemption with eviction calls made, and the work lost so far."""

    uids: set[str] = field(default_factory=set)
    running_seconds: float = 0.0
    """The sum over the pods with a known start."""
    gpu: float = 0.0
    """GPU-seconds."""
    cpu: float = 0.0
    """CPU-seconds of pods without GPUs."""

    def add(self, pod: PodRecord, lost: LostWork, now: float) -> None:
        """Count a pod; `now` is in seconds since the epoch."""
        self.uids.add(pod.uid)
        self.running_seconds += max(0.0, now - pod.start) if pod.start is not None else 0.0
        self.gpu += lost.gpu
        self.cpu += lost.cpu


@lru_cache(maxsize=1_024)
def is_gpu(resource: str) -> bool:
    """Return whether an extended resource counts as GPUs, such as `nvidia.com/gpu` and `gpu.intel.com/i915`."""
    domain, slash, name = resource.partition("/")
    return bool(slash) and (domain.startswith("gpu.") or name == "gpu" or name.startswith(_PARTS_OF_GPUS))


def processors(resources: ResourceTable, signature: PodSpecSignature) -> tuple[int, float]:
    """Return the GPUs that a pod requests, and its CPUs (0.1 for a container without a request, as in scoring)."""
    names = resources.names
    gpus = sum(amount for column, amount in signature.requests if is_gpu(names[column]))
    return gpus, int(signature.delta[SCORING_CPU]) / 1000


def unsaved_seconds(cluster: ClusterState, pod: PodRecord) -> float:
    """Return the seconds of work since the pod's last checkpoint, plus its restart cost, at the time of the cache."""
    terms = cluster.terms_of(pod)
    restart = terms.restart_cost or 0.0
    if pod.start is None:
        return restart
    now, since = cluster.now, pod.start
    if terms.last_checkpoint is not None:
        since = max(since, terms.last_checkpoint)
    elif terms.checkpoint_interval is not None and now > since:
        since = now - (now - since) % terms.checkpoint_interval
    return max(0.0, now - since) + restart


def next_checkpoint(cluster: ClusterState, pod: PodRecord) -> tuple[float, float] | None:
    """Return the time since which a pod's work is unsaved, and of its next expected checkpoint; None if unknown.

    Both are seconds since the epoch. A pod that reports its last checkpoint may be late: then the second has passed.
    """
    terms = cluster.terms_of(pod)
    if pod.start is None or terms.checkpoint_interval is None:
        return None
    if terms.last_checkpoint is not None:
        since = max(pod.start, terms.last_checkpoint)
    else:
        since = pod.start + max(0.0, cluster.now - pod.start) // terms.checkpoint_interval * terms.checkpoint_interval
    return since, since + terms.checkpoint_interval


def lost_work(cluster: ClusterState, pods: Iterable[PodRecord]) -> LostWork:
    """Return the work that evicting the pods throws away."""
    gpu = cpu = 0.0
    for of_gpus, of_cpus in lost_by_pod(cluster, pods):
        gpu += of_gpus
        cpu += of_cpus
    return LostWork(gpu, cpu)


def lost_by_pod(cluster: ClusterState, pods: Iterable[PodRecord]) -> list[tuple[float, float]]:
    """Return the work lost with each pod in GPU-seconds, or CPU-seconds without GPUs; once for identical pods."""
    per_kind: dict[int, tuple[int, float]] = {}
    lost = []
    for pod in pods:
        signature = pod.signature
        amounts = per_kind.get(signature.id)
        if amounts is None:
            amounts = per_kind[signature.id] = processors(cluster.resources, signature)
        gpus, cpus = amounts
        seconds = unsaved_seconds(cluster, pod)
        lost.append((seconds * gpus, 0.0) if gpus else (0.0, seconds * cpus))
    return lost
