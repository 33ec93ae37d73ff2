"""Free GPUs that tasks cannot use: the fragmentation of "Beware of Fragmentation" (ATC 2023), replay.md 4.6.

What a task cannot use of a node: everything that is free, where the node cannot take it; else what is free on GPUs with
less room than the task asks of each.  The fragmentation of a cluster is the mean of that over the tasks of a mix,
divided by all that is free.  There are two mixes: the workers that wait, and those of the whole list, waiting or not.

Sampled now and then, not at every event: the times between samples double when there are too many.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reprieve.cluster.resources import CPU, MEMORY, PODS
from reprieve.cluster.state import ClusterState
from reprieve.cluster.taints import untolerated
from reprieve.replay.gpu_capacity import GPU, Ints
from reprieve.replay.job_list import ReplayJob, Shape, Tolerated
from reprieve.replay.job_objects import Terms, tolerations_from

MOST = 512
POPULAR, MOST_KINDS = 0.95, 64
"""The kinds of tasks that a mix is of: the most frequent; of the whole list, until they make up so much of it."""
_Kind = tuple[int, int, int, tuple[str, ...], tuple[Tolerated, ...]]
"""GPUs in thousandths, cores in thousandths, bytes of memory, models, tolerations: of a worker."""
Mix = Sequence[tuple[_Kind, int]]
"""How many workers of each kind."""
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Sample:
    """Shares of the free GPUs that cannot be used; None: no worker was pending, or nothing was free."""

    at: int
    by_waiting: float | None
    by_workload: float | None


class Fragmentation:
    """Samples of a cluster, and their means over time.

    `free_per_gpu`: how much each GPU has, int64[rows, GPUs]; None where GPUs are not shared, so that a node's
    number of free ones is enough. `jobs` are the whole list.
    """

    def __init__(
        self,
        cluster: ClusterState,
        terms: Terms,
        jobs: Sequence[ReplayJob],
        free_per_gpu: Callable[[ClusterState], Ints] | None = None,
    ) -> None:
        self._cluster = cluster
        self._terms = terms
        self._free_per_gpu = free_per_gpu
        self._workload = popular(jobs, terms)
        self.samples: list[Sample] = []
        self._every = max(60_000, (jobs[-1].submit if jobs else 0) // MOST)
        self.next = 0
        """The time of the next sample."""
        self._last = 0
        self._sums = [[0.0, 0], [0.0, 0]]
        """Of waiting and of workload: share × milliseconds, and the milliseconds."""

    def sample(self, now: int, waiting: Iterable[tuple[Shape, int]]) -> None:
        """Record the fragmentation until now; `waiting`: number of pending workers of each shape."""
        mix = _by_kind(((shape, n) for shape, n in waiting if shape.gpu and n), self._terms)[:MOST_KINDS]
        sample = Sample(now, *self._shares((mix, self._workload)))
        for sums, share in zip(self._sums, (sample.by_waiting, sample.by_workload), strict=True):
            if share is not None:
                sums[0] += share * (now - self._last)
                sums[1] += now - self._last
        self._last = now
        self.samples.append(sample)
        if len(self.samples) > MOST:
            self.samples = self.samples[::2]
            self._every *= 2
        self.next = now + self._every

    @property
    def by_waiting(self) -> float | None:
        """Return the mean over the times with free GPUs and workers that waited for GPUs; None: there were none."""
        return self._mean(0)

    @property
    def by_workload(self) -> float | None:
        """Return the mean over the times with free GPUs; None: there were none."""
        return self._mean(1)

    def _mean(self, position: int) -> float | None:
        total, span = self._sums[position]
        return total / span if span else None

    def _shares(self, mixes: Sequence[Mix]) -> list[float | None]:
        """Return the share of each mix; None if it is empty or no GPU is free."""
        nodes = self._cluster.nodes
        n = len(nodes)
        column = self._cluster.resources.column(self._terms.gpu)
        nodes.fit_columns()
        free = (nodes.allocatable - nodes.used)[:, :n]
        alive = nodes.alive[:n]
        room: _WholeGpus | _SharedGpus
        if self._free_per_gpu is None:
            whole = np.where(alive, np.maximum(free[column], 0), 0)
            room = _WholeGpus(whole)
        else:
            room = _SharedGpus(np.where(alive[:, None], self._free_per_gpu(self._cluster)[:n], 0))
        total = int(room.total.sum())
        result: list[float | None] = []
        for mix in mixes:
            workers = sum(count for _, count in mix)
            if not total or not workers:
                result.append(None)
                continue
            unusable = 0
            for (gpu, cpu, memory, models, tolerated), count in mix:
                fits = (free[CPU] >= cpu) & (free[MEMORY] >= memory) & (free[PODS] >= 1)
                fits &= self._of_model(models, n) & self._tolerated(tolerated, n)
                unusable += count * room.unusable(gpu, fits)
            result.append(unusable / (workers * total))
        return result

    def _of_model(self, models: Sequence[str], n: int) -> Mask:
        if not models:
            return np.ones(n, dtype=np.bool_)
        column, numbers = self._cluster.nodes.label_column(self._terms.model_label)
        return np.isin(column[:n], [numbers[model] for model in models if model in numbers])

    def _tolerated(self, listed: Sequence[Tolerated], n: int) -> Mask:
        nodes, tolerations = self._cluster.nodes, tolerations_from(listed)
        open_to = np.array([not untolerated(tolerations, taints) for taints in nodes.taint_sets], dtype=np.bool_)
        return open_to[nodes.taint_set[:n]]


class _WholeGpus:
    """`whole`: int64[rows], free GPUs of each node."""

    def __init__(self, whole: Ints) -> None:
        self._whole = whole
        self.total: Ints = whole * GPU

    def unusable(self, gpu: int, fits: Mask) -> int:
        """Return the thousandths that a task with that many cannot use; `fits`: nodes that fit its other requests."""
        takes = fits & (self._whole * GPU >= gpu) if gpu else np.zeros_like(fits)
        return int(self.total[~takes].sum())


class _SharedGpus:
    """`free`: int64[rows, GPUs], free thousandths of each."""

    def __init__(self, free: Ints) -> None:
        self._free = free
        self.total: Ints = free.sum(axis=1)
        self._known: dict[int, tuple[Ints, Ints]] = {}

    def unusable(self, gpu: int, fits: Mask) -> int:
        """Return the thousandths that a task with that many cannot use; `fits`: nodes that fit its other requests."""
        if not gpu:
            return int(self.total.sum())
        share = min(gpu, GPU)
        if share not in self._known:
            enough = self._free >= share
            self._known[share] = (enough.sum(axis=1), np.where(enough, 0, self._free).sum(axis=1))
        count, small = self._known[share]
        return int(np.where(fits & (count >= -(-gpu // GPU)), small, self.total).sum())


def popular(jobs: Iterable[ReplayJob], terms: Terms) -> Mix:
    """Return the most frequent kinds of workers, up to POPULAR of all workers, at most MOST_KINDS."""
    by_shape: Counter[int] = Counter()
    shapes: dict[int, Shape] = {}
    for job in jobs:  # jobs of one shape share it: comparing shapes by what they are takes far longer
        by_shape[id(job.shape)] += 1
        shapes[id(job.shape)] = job.shape
    kinds = _by_kind(((shape, shape.workers * by_shape[key]) for key, shape in shapes.items()), terms)
    total, counted = sum(count for _, count in kinds), 0
    result: list[tuple[_Kind, int]] = []
    for kind, count in kinds:
        if counted >= POPULAR * total or len(result) == MOST_KINDS:
            break
        result.append((kind, count))
        counted += count
    return result


def _by_kind(workers: Iterable[tuple[Shape, int]], terms: Terms) -> Mix:
    """Return the number of workers of each kind, the most frequent first."""
    counter: Counter[_Kind] = Counter()
    for shape, count in workers:
        counter[shape.gpu, shape.cpu, shape.memory, shape.models, terms.tolerations_of(shape)] += count
    return sorted(counter.items(), key=lambda item: (-item[1], item[0]))
