"""Results of groups of one shape in placements, kept while the nodes there do not change.

Groups of one shape - equal specs, pods that are treated alike - have the same result in a placement, until one of its
rows changes.  A cluster where one group after another is placed changes one placement at a time, so that only that one
is tried again.

Invariant: an outcome that is `fresh` equals that of another attempt in the present view.
"""

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from reprieve.cluster.changes import ChangeReader
from reprieve.cluster.state import ClusterState
from reprieve.framework.plugin import Mask, Placement

_MOST_KEPT = 256
_UNTRIED = -1


class PlacementOutcomes:
    """Results of groups of one shape, by placement: whether the group fits, and its PlacementScore results."""

    __slots__ = ("_rows", "_stamps", "_starts", "fresh", "placements", "scores", "works")

    def __init__(self, placements: Sequence[Placement]) -> None:
        self.placements = placements
        self.fresh: Mask = np.zeros(len(placements), dtype=np.bool_)
        """bool[placements]: the outcome is known and valid."""
        self.works: Mask = np.zeros(len(placements), dtype=np.bool_)
        self.scores: dict[int, tuple[int, ...]] = {}
        """By index of a placement in which the group fits."""
        self._stamps = np.full(len(placements), _UNTRIED, dtype=np.int64)
        self._rows = np.concatenate([placement.rows for placement in placements])
        self._starts = np.cumsum([0, *(len(placement.rows) for placement in placements[:-1])])

    def put(self, index: int, scores: tuple[int, ...] | None) -> None:
        """Record the outcome of a placement; None: the group does not fit there."""
        self.fresh[index] = True
        self.works[index] = scores is not None
        if scores is not None:
            self.scores[index] = scores

    def refresh(self, touched: npt.NDArray[np.int64]) -> None:
        """Forget outcomes from before their rows changed; `touched`: int64[rows], the time of the last change."""
        self.fresh = self._stamps >= np.maximum.reduceat(touched[self._rows], self._starts)

    def stamp(self, now: int) -> None:
        """Record that all fresh outcomes are valid at this time."""
        self._stamps[self.fresh] = now


class TriedPlacements:
    """The outcomes of the most recently used shapes and lists of placements; see the module docstring."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Hashable, int], PlacementOutcomes] = {}
        """By shape and list of placements, least recently used first."""
        self._changes: ChangeReader | None = None
        self._touched = np.zeros(0, dtype=np.int64)
        """By row: the time of its last change, in steps of `_now`."""
        self._now = 0

    def __len__(self) -> int:
        return len(self._kept)

    def outcomes(self, cluster: ClusterState, shape: Hashable, placements: Sequence[Placement]) -> PlacementOutcomes:
        """Return the outcomes of groups of that shape in these placements, none of them empty, in the present view."""
        self._catch_up(cluster)
        key = (shape, id(placements))
        outcomes = self._kept.pop(key, None)
        if outcomes is None:
            outcomes = PlacementOutcomes(placements)
        else:
            outcomes.refresh(self._touched)
        self._kept[key] = outcomes
        if len(self._kept) > _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return outcomes

    def keep(self, cluster: ClusterState, outcomes: PlacementOutcomes) -> None:
        """Keep outcomes of attempts; the view must equal the one in which they were requested."""
        self._catch_up(cluster)
        outcomes.stamp(self._now)

    def _catch_up(self, cluster: ClusterState) -> None:
        if self._changes is None:
            self._changes = cluster.changes()
        touched = self._changes.take()
        if touched is None:
            self._kept.clear()
            self._touched = np.zeros(len(cluster.nodes), dtype=np.int64)
        elif touched:
            self._now += 1
            self._touched[touched] = self._now
