"""How much room each GPU of a node has (replay.md 4.6).

Where GPUs are requested in thousandths, an amount per node does not show on which GPU there is room: half of one and
half of another are no whole one.  A policy that keeps the room of every GPU by itself reports it
(`TracksFreeGpus`).  Without one, it is kept here, as such policies do when they are indifferent: a part goes to the
fullest GPU that has room for it, whole GPUs are the first free ones.  The engine, which goes by the node's sum, may
place what no single GPU has room for; that takes what is left on the emptiest ones, so that the sum of a node is right.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from reprieve.cluster.state import ClusterState

Ints = npt.NDArray[np.int64]
GPU = 1000
"""Thousandths of a whole GPU."""
MOST_GPUS = 64
"""The most GPUs of a node that are counted one by one."""


@runtime_checkable
class TracksFreeGpus(Protocol):
    """A plugin that tracks the free amount of every GPU; reports of a replay use it."""

    def free_per_gpu(self, cluster: ClusterState) -> Ints:
        """Return free thousandths, int64[rows of the cluster, GPUs of a node], 0 for missing GPUs."""


class FreeGpus:
    """Free thousandths of every GPU. `gpus`: number of GPUs by node name."""

    def __init__(self, gpus: Mapping[str, int]) -> None:
        self._row = {name: row for row, name in enumerate(gpus)}
        most = min(max(gpus.values(), default=0), MOST_GPUS)
        self._free: Ints = np.zeros((len(gpus) + 1, most), dtype=np.int64)
        """The last row is that of nodes that are not in the table."""
        for row, count in enumerate(gpus.values()):
            self._free[row, :count] = GPU
        self._parts_by_pod: dict[str, tuple[int, list[tuple[int, int]]]] = {}
        """By UID: the node's row, and (GPU, thousandths) of what the pod has."""

    def take(self, uid: str, node: str, milli: int) -> None:
        """Assign GPUs to a pod on a node that requests so many thousandths."""
        row = self._row.get(node)
        if row is None or milli <= 0 or uid in self._parts_by_pod:
            return
        free = self._free[row]
        whole, part = divmod(milli, GPU)
        parts_taken: list[tuple[int, int]] = []
        first_free = np.flatnonzero(free == GPU)[:whole].tolist()
        _give(free, ((gpu, GPU) for gpu in first_free), parts_taken)
        left = (whole - len(first_free)) * GPU
        if part:
            fitting = np.flatnonzero(free >= part)
            if len(fitting):
                _give(free, ((int(fitting[np.argmin(free[fitting])]), part),), parts_taken)
            else:
                left += part
        if left:
            for gpu in np.argsort(-free, kind="stable").tolist():
                amount = min(left, int(free[gpu]))
                _give(free, ((gpu, amount),), parts_taken)
                left -= amount
        self._parts_by_pod[uid] = (row, parts_taken)

    def give_back(self, uid: str) -> None:
        """Release the GPUs of a pod."""
        row, parts = self._parts_by_pod.pop(uid, (-1, []))
        for gpu, amount in parts:
            self._free[row, gpu] += amount

    def free_per_gpu(self, cluster: ClusterState) -> Ints:
        """See `TracksFreeGpus`."""
        rows = [self._row.get(name, -1) for name in cluster.nodes.names]
        result: Ints = self._free[rows]
        return result


def _give(free: Ints, parts: Iterable[tuple[int, int]], parts_taken: list[tuple[int, int]]) -> None:
    for gpu, amount in parts:
        if amount:
            free[gpu] -= amount
            parts_taken.append((gpu, amount))
