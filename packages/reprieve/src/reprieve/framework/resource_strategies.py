"""Formulas by which NodeResourcesFit ranks nodes: by the resources a pod would leave free or use up.

A strategy scores each of its resources separately - the amount used with the pod there, relative to the node's - and
takes the weighted mean.  Resources that a node lacks do not count there, nor do extended resources that the pod does
not request.  All in integers, as upstream (kubernetes/kubernetes pkg/scheduler/framework/plugins/noderesources).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reprieve.framework.plugin import MAX_NODE_SCORE

Amounts = npt.NDArray[np.int64]
ByResource = Callable[[Amounts, Amounts], Amounts]
"""(used with the pod: int64[n], allocatable: int64[n] >= 1) -> 0..100: int64[n]."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A formula by resource. `skips_zero`: resources that score 0 do not count, and the mean is rounded to nearest."""

    by_resource: ByResource
    skips_zero: bool = False

    def mean(self, scored: Sequence[tuple[int, Amounts, Amounts]], count: int) -> Amounts:
        """Return the weighted mean of (weight, used with the pod, allocatable), `int64[count]`; 0 if nothing counts."""
        if scored and not self.skips_zero and all((have > 0).all() for _, _, have in scored):  # as on most clusters
            sums: Amounts = sum(weight * self.by_resource(used, have) for weight, used, have in scored)  # type: ignore[assignment]
            return sums // max(1, sum(weight for weight, _, _ in scored))
        total = np.zeros(count, dtype=np.int64)
        weights = np.zeros(count, dtype=np.int64)
        for weight, used, have in scored:
            score = self.by_resource(used, np.maximum(have, 1))
            counts = have > 0
            if self.skips_zero:
                counts = counts & (score > 0)
            counted = counts * weight
            total += counted * score
            weights += counted
        if not self.skips_zero:
            plain: Amounts = total // np.maximum(weights, 1)
            return plain
        mean = total.astype(np.float64) / np.maximum(weights, 1)
        rounded: Amounts = np.floor(mean + 0.5).astype(np.int64)
        return rounded


def _most_allocated(used: Amounts, have: Amounts) -> Amounts:
    """Return the used share; more than the node has counts as all of it: scoring counts something for every pod."""
    return _percent(np.minimum(used, have), have)


_EXACT = (1 << 53) // MAX_NODE_SCORE
"""Up to here a hundredfold is exact in a float64, and the quotient never rounds up to an integer above it."""


def _percent(part: Amounts, whole: Amounts) -> Amounts:
    """Return `part * 100 // whole` for 0 <= part <= whole >= 1; by floats where they are exact, as they are faster."""
    if len(whole) and int(whole.max()) <= _EXACT:
        shares: Amounts = (part * float(MAX_NODE_SCORE) / whole).astype(np.int64)
        return shares
    exact: Amounts = part * MAX_NODE_SCORE // whole
    return exact


LEAST_ALLOCATED = Strategy(lambda used, have: _percent(np.maximum(have - used, 0), have))
MOST_ALLOCATED = Strategy(_most_allocated)


def requested_to_capacity_ratio(shape: Sequence[tuple[int, int]]) -> Strategy:
    """Return a broken line through (utilization 0..100, score 0..10), flat outside; scores are scaled to 0..100.

    `shape` is in ascending order of utilization and not empty.
    """
    table = np.array([_on_the_line(shape, percent) for percent in range(101)], dtype=np.int64)

    def by_resource(used: Amounts, have: Amounts) -> Amounts:
        scores: Amounts = table[_most_allocated(used, have)]
        return scores

    return Strategy(by_resource, skips_zero=True)


def _on_the_line(shape: Sequence[tuple[int, int]], percent: int) -> int:
    points = [(at, score * (MAX_NODE_SCORE // 10)) for at, score in shape]
    for index, (at, score) in enumerate(points):
        if percent <= at:
            if index == 0:
                return score
            before, start = points[index - 1]
            # Truncated towards zero, also where the line falls.
            return start + int((score - start) * (percent - before) / (at - before))
    return points[-1][1]
