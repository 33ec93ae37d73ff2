"""What is idle because it is reserved: now, and on average over a long time (reservations.md 5).

The mean is kept in a bounded number of parts of the time that it is about.
"""

from collections import deque
from collections.abc import Iterable, Mapping

import numpy as np

from reprieve.cluster.resources import EPHEMERAL_STORAGE, FIRST_RESOURCE, PODS
from reprieve.cluster.state import ClusterState
from reprieve.plugins.reservations import ReservationOptions
from reprieve.preemption.lost_work import is_gpu
from reprieve.scheduling.advance_reservation import AdvanceReservation

_PARTS = 240
_SPANS = 10
"""The mean is over so many times `maxReserved`."""
_NOTHING: Mapping[str, int] = {}


class IdleAmounts:
    """See the module docstring. Times are seconds."""

    def __init__(self, cluster: ClusterState, options: ReservationOptions) -> None:
        self._cluster = cluster
        self._most = options.max_idle_share
        self._span = _SPANS * options.max_reserved
        self.amounts: Mapping[str, int] = _NOTHING
        """By resource, as of the last `measure`: free on a node, and reserved there."""
        self._share = 0.0
        """That of the cluster's amount: of its GPUs if some are reserved, else of the resource of which it is most."""
        self._at = 0.0
        self._parts: deque[list[float]] = deque()
        """[beginning, share times seconds], oldest first."""
        self._total = 0.0

    def advance(self, now: float) -> None:
        """Account for the time since the last call."""
        seconds, self._at = max(0.0, now - self._at), max(now, self._at)
        if self._share and seconds:
            if not self._parts or now - self._parts[-1][0] > self._span / _PARTS:
                self._parts.append([now, 0.0])
            self._parts[-1][1] += self._share * seconds
            self._total += self._share * seconds

    def measure(self, now: float, held: Iterable[AdvanceReservation]) -> None:
        """Work out what is idle from now on."""
        self._at = max(now, self._at)
        self.amounts, self._share = _NOTHING, 0.0
        nodes = self._cluster.nodes
        reserved = None
        for one in held:
            if reserved is None:
                reserved = np.zeros((len(nodes.used), len(nodes)), dtype=np.int64)
            reserved[: len(one.amounts), one.rows] += one.amounts
        if reserved is None:
            return
        size = len(nodes)
        free = np.maximum(nodes.allocatable[:, :size] - nodes.used[:, :size], 0)
        idle = np.minimum(free, reserved).sum(axis=1)
        names = self._cluster.resources.names
        asked = [column for column in np.flatnonzero(reserved.any(axis=1)).tolist() if column >= FIRST_RESOURCE]
        self.amounts = {names[column]: int(idle[column]) for column in asked if column != PODS}
        gpus = [column for column in asked if is_gpu(names[column])]
        counted = gpus or [column for column in asked if column not in (PODS, EPHEMERAL_STORAGE)]
        total = nodes.allocatable[:, :size].sum(axis=1)
        self._share = max((float(idle[column] / total[column]) for column in counted if total[column]), default=0.0)

    def exhausted(self, now: float) -> bool:
        """Return whether more was idle than may be."""
        while self._parts and self._parts[0][0] < now - self._span:
            self._total -= self._parts.popleft()[1]
        return self._total > self._most * self._span
