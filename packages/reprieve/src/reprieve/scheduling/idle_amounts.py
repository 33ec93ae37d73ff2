"""Capacity that is idle because it is reserved, now and over a long period (reservations.md 5).

The period has a bounded number of parts.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.resources import EPHEMERAL_STORAGE, FIRST_RESOURCE, PODS
from reprieve.cluster.state import ClusterState
from reprieve.plugins.reservations import ReservationOptions
from reprieve.preemption.lost_work import is_gpu
from reprieve.scheduling.advance_reservation import AdvanceReservation, Amounts

_PARTS = 240
_SPANS = 10
"""The period of the limit, in multiples of `maxReserved`."""
_NOTHING: Mapping[str, int] = {}


class IdleAmounts:
    """See the module docstring. Times are seconds."""

    def __init__(self, cluster: ClusterState, options: ReservationOptions) -> None:
        self._cluster = cluster
        self._max_share = options.max_idle_share
        self._span = _SPANS * options.max_reserved
        self.amounts: Mapping[str, int] = _NOTHING
        """Amounts by resource at the last `measure`: free on a node, and reserved there."""
        self._share = 0.0
        """The share of these in the cluster: of its GPUs if some are reserved, else the highest of any resource."""
        self._measured_at = 0.0
        self._parts: deque[list[float]] = deque()
        """[beginning, share times seconds], oldest first."""
        self._total = 0.0

    def advance(self, now: float) -> None:
        """Account for the time since the last call."""
        seconds, self._measured_at = max(0.0, now - self._measured_at), max(now, self._measured_at)
        if self._share and seconds:
            if not self._parts or now - self._parts[-1][0] > self._span / _PARTS:
                self._parts.append([now, 0.0])
            self._parts[-1][1] += self._share * seconds
            self._total += self._share * seconds

    def measure(self, now: float, reservations: Iterable[AdvanceReservation]) -> None:
        """Compute the idle amounts from now on."""
        self._measured_at = max(now, self._measured_at)
        self.amounts, self._share = self._idle_of([(r.rows, r.amounts) for r in reservations])

    def _idle_of(self, reserved: Sequence[tuple[Amounts, Amounts]]) -> tuple[Mapping[str, int], float]:
        """Return free and reserved amounts by resource, and their share of the cluster."""
        if not reserved:
            return _NOTHING, 0.0
        nodes = self._cluster.nodes
        size = len(nodes)
        total = np.zeros((len(nodes.used), size), dtype=np.int64)
        for rows, amounts in reserved:
            total[: len(amounts), rows] += amounts
        free = np.maximum(nodes.allocatable[:, :size] - nodes.used[:, :size], 0)
        idle = np.minimum(free, total).sum(axis=1)
        names = self._cluster.resources.names
        columns = [column for column in np.flatnonzero(total.any(axis=1)).tolist() if column >= FIRST_RESOURCE]
        gpus = [column for column in columns if is_gpu(names[column])]
        counted = gpus or [column for column in columns if column not in (PODS, EPHEMERAL_STORAGE)]
        capacity = nodes.allocatable[:, :size].sum(axis=1)
        share = max((float(idle[column] / capacity[column]) for column in counted if capacity[column]), default=0.0)
        return {names[column]: int(idle[column]) for column in columns if column != PODS}, share

    def is_too_long(
        self, now: float, rows: Amounts, amounts: Amounts, awaited: Iterable[PodRecord], since: float
    ) -> bool:
        """Return whether a reservation that waits for pods without a known end would exceed the limit.

        Such a pod is expected to run for as long again as it has run. The limit does not apply to a holder that has
        waited for longer than the period.
        """
        starts = [pod.start for pod in awaited if pod.start is not None]
        if not starts or now - since >= self._span:
            return False
        return self.share_of(rows, amounts) * (now - min(starts)) > self._remaining

    def share_of(self, rows: Amounts, amounts: Amounts) -> float:
        """Return the idle capacity of one reservation, as a share of the cluster."""
        return self._idle_of([(rows, amounts)])[1]

    def is_exhausted(self, now: float) -> bool:
        """Return whether the limit is reached."""
        while self._parts and self._parts[0][0] < now - self._span:
            self._total -= self._parts.popleft()[1]
        return self._remaining <= 0

    def next_time(self) -> float | None:
        """Return when the limit will be reached if nothing changes; None if nothing is idle."""
        return self._measured_at + max(0.0, self._remaining) / self._share + 1.0 if self._share else None

    @property
    def _remaining(self) -> float:
        return self._max_share * self._span - self._total
