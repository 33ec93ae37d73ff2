"""Counts of topology spread constraints, for the placement of a group's members (cost.md 4.13)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from reprieve.cluster.pods import PodRecord
from reprieve.framework.plugin import CycleState, Mask


@dataclass(frozen=True, slots=True)
class SpreadDomains:
    """Counts of one filtering constraint in the present view.

    `counts`: int64[domains], pods by domain; `compared`: bool[domains], the domains that are compared; `eligible`:
    bool[rows], the nodes that count; `domain_of`: int64[rows].
    """

    max_skew: int
    min_domains: int
    counts: npt.NDArray[np.int64]
    compared: Mask
    eligible: Mask
    domain_of: npt.NDArray[np.int64]


@runtime_checkable
class SpreadCounter(Protocol):
    """A filter that enforces a spread of pods over domains."""

    def domains_of_all(self, state: CycleState, pods: Sequence[PodRecord]) -> SpreadDomains | None:
        """Return the counts of the only constraint that filters the pod, in the present view.

        None if there are several, or if it does not count all of these pods, which have the same constraints.
        """
