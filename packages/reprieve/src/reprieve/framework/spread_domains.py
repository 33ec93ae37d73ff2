"""What a topology spread constraint counts, for those that choose where the members of a group go (cost.md 4.13)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from reprieve.cluster.pods import PodRecord
from reprieve.framework.plugin import CycleState, Mask


@dataclass(frozen=True, slots=True)
class SpreadDomains:
    """What one constraint that filters counts in the present view.

    `counts`: int64[domains], pods by domain; `there`: bool[domains], which are compared; `eligible`: bool[rows], the
    nodes that count; `domain_of`: int64[rows].
    """

    max_skew: int
    min_domains: int
    counts: npt.NDArray[np.int64]
    there: Mask
    eligible: Mask
    domain_of: npt.NDArray[np.int64]


@runtime_checkable
class SpreadCounter(Protocol):
    """A filter that holds pods to a spread over domains."""

    def domains_of_all(self, state: CycleState, pods: Sequence[PodRecord]) -> SpreadDomains | None:
        """Return what the only constraint that filters the pod counts, in the present view; None if there are several.

        And if it does not count all of these pods, which have the same constraints.
        """
