"""Free GPUs that those who wait cannot use (replay.md 4.6).

Looked at now and then, not at every event: the times between looks double when there are too many.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from reprieve.cluster.resources import CPU, MEMORY
from reprieve.cluster.state import ClusterState
from reprieve.simulation.replay.job_list import Shape
from reprieve.simulation.replay.objects_of import Terms

MOST = 512


class Fragmentation:
    """(when, share of free GPUs) of each look at which somebody waited and GPUs were free."""

    def __init__(self, cluster: ClusterState, terms: Terms, span: int) -> None:
        self._cluster = cluster
        self._terms = terms
        self.looks: list[tuple[int, float]] = []
        self._every = max(60_000, span // MOST)
        self.next = 0
        """Before that there is no need to look."""

    def look(self, now: int, waiting: Sequence[tuple[Shape, int]]) -> None:
        """The picture as it has been until now; `waiting` is how many workers of each shape do."""
        asked = [(shape, workers * shape.gpu) for shape, workers in waiting if shape.gpu]
        if asked:
            share = self._share(asked)
            if share is not None:
                self.looks.append((now, share))
        if len(self.looks) > MOST:
            self.looks = self.looks[::2]
            self._every *= 2
        self.next = now + self._every

    @property
    def mean(self) -> float | None:
        """The mean over the looks; None: nobody waited while GPUs were free."""
        return sum(share for _, share in self.looks) / len(self.looks) if self.looks else None

    def _share(self, shapes: Sequence[tuple[Shape, int]]) -> float | None:
        nodes = self._cluster.nodes
        n = len(nodes)
        gpu = self._cluster.resources.column(self._terms.gpu)
        nodes.fit_columns()
        free = (nodes.allocatable - nodes.used)[:, :n]
        gpus = np.where(nodes.alive[:n], np.maximum(free[gpu], 0), 0)
        total = int(gpus.sum())
        if total == 0:
            return None
        asked = sum(weight for _, weight in shapes)
        unusable = 0
        for shape, weight in shapes:
            fits = (
                (free[gpu] >= shape.gpu * self._terms.per_gpu // 1000)
                & (free[CPU] >= shape.cpu)
                & (free[MEMORY] >= shape.memory)
                & self._of_model(shape, n)
            )
            unusable += weight * int(gpus[~fits].sum())
        return unusable / (asked * total)

    def _of_model(self, shape: Shape, n: int) -> npt.NDArray[np.bool_]:
        if not shape.models:
            return np.ones(n, dtype=np.bool_)
        column, numbers = self._cluster.nodes.label_column(self._terms.model_label)
        return np.isin(column[:n], [numbers[model] for model in shape.models if model in numbers])
