"""What a node scores by what a pod would use of it (scheduling.md 5.2): upstream's noderesources, in integers.

Each row of a table is one node: (used with the pod, allocatable) for each resource.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from reprieve.framework.resource_strategies import (
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    Strategy,
    requested_to_capacity_ratio,
)

RATIO = requested_to_capacity_ratio([(0, 0), (100, 10)])


def means(
    strategy: Strategy, weights: Sequence[int], *nodes: Sequence[tuple[int, int]], apart: bool = False
) -> list[int]:
    """The score of every node; asked for all at once, or one by one."""
    if apart:
        return [means(strategy, weights, one)[0] for one in nodes]
    amounts = np.array(nodes, dtype=np.int64).reshape(len(nodes), len(weights), 2)
    scored = [(weight, amounts[:, turn, 0], amounts[:, turn, 1]) for turn, weight in enumerate(weights)]
    found: list[int] = strategy.mean(scored, len(nodes)).tolist()
    return found


@pytest.mark.parametrize("apart", [False, True])
def test_least_used_node_scores_best(apart: bool) -> None:
    """leastRequestedScore: (allocatable - used) * 100 / allocatable, 0 where more is used than there is."""
    nodes = [[(0, 4)], [(1, 4)], [(1, 3)], [(3, 4)], [(4, 4)], [(5, 4)], [(1, 1)], [(0, 1)], [(1, 1000)]]
    assert means(LEAST_ALLOCATED, [1], *nodes, apart=apart) == [100, 75, 66, 25, 0, 0, 0, 100, 99]


@pytest.mark.parametrize("apart", [False, True])
def test_most_used_node_scores_best(apart: bool) -> None:
    """mostRequestedScore: used * 100 / allocatable, 100 where more is used than there is."""
    nodes = [[(0, 4)], [(1, 4)], [(1, 3)], [(4, 4)], [(5, 4)], [(1, 1000)], [(999, 1000)]]
    assert means(MOST_ALLOCATED, [1], *nodes, apart=apart) == [0, 25, 33, 100, 100, 0, 99]


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(
    ("strategy", "weights", "node", "mean"),
    [
        # 75 and 90: 165 / 2, rounded down
        (LEAST_ALLOCATED, [1, 1], [(1, 4), (1, 10)], 82),
        # (3 * 75 + 90) / 4
        (LEAST_ALLOCATED, [3, 1], [(1, 4), (1, 10)], 78),
        # what the node has nothing of does not count, whatever its weight
        (LEAST_ALLOCATED, [1, 7], [(1, 4), (1, 0)], 75),
        (MOST_ALLOCATED, [2, 7], [(1, 4), (0, 0)], 25),
        (LEAST_ALLOCATED, [1, 1], [(1, 0), (1, 0)], 0),
        # nor does what has no weight
        (MOST_ALLOCATED, [0, 1], [(4, 4), (1, 4)], 25),
        (MOST_ALLOCATED, [0], [(4, 4)], 0),
        # a score of 0 counts here ...
        (MOST_ALLOCATED, [1, 1], [(0, 4), (2, 4)], 25),
        # ... and not there, where the mean is rounded to nearest: 67 and 33; 50 and 1 and 0; 50 and 51
        (RATIO, [1, 1], [(0, 4), (2, 4)], 50),
        (RATIO, [1, 1], [(2, 3), (1, 3)], 50),
        (RATIO, [1, 1, 5], [(50, 100), (1, 100), (0, 100)], 26),
        (RATIO, [2, 1], [(50, 100), (51, 100)], 50),
        (RATIO, [1, 2], [(50, 100), (51, 100)], 51),
        (RATIO, [1, 1], [(50, 100), (51, 100)], 51),
        (RATIO, [3, 5], [(2, 4), (1, 0)], 50),
        (RATIO, [1], [(0, 4)], 0),
        (RATIO, [1], [(1, 100)], 1),
        (RATIO, [1], [(101, 100)], 100),
    ],
)
def test_resources_are_weighed_against_each_other(
    strategy: Strategy, weights: list[int], node: list[tuple[int, int]], mean: int, apart: bool
) -> None:
    """The same beside nodes that have everything and beside one that has nothing."""
    something, nothing = [(1, 1)] * len(weights), [(0, 0)] * len(weights)
    assert means(strategy, weights, something, node, apart=apart)[1] == mean
    assert means(strategy, weights, nothing, node, apart=apart) == [0, mean]


@pytest.mark.parametrize(
    ("used", "have", "percent"),
    [
        (90071992547409, 90071992547410, 99),
        # one less than 66/100, 88/100 and 90/100: the nearest floats are beyond that
        (120599999999935, 179999999999903, 66),
        (120599999999934, 179999999999903, 66),
        (160199999999919, 179999999999909, 88),
        (163799999999919, 179999999999911, 90),
        (1 << 55, (1 << 56) - 1, 50),
        ((1 << 55) - 1, 1 << 56, 49),
    ],
)
def test_shares_of_large_amounts_are_exact(used: int, have: int, percent: int) -> None:
    """Integer division, as upstream, also of petabytes."""
    assert used * 100 // have == percent
    assert means(MOST_ALLOCATED, [1], [(used, have)]) == [percent]
    assert means(LEAST_ALLOCATED, [1], [(have - used, have)]) == [percent]


SHAPES: dict[str, tuple[list[tuple[int, int]], dict[int, int]]] = {
    # scores at points are 0..10, and count tenfold
    "rising": ([(0, 0), (100, 10)], {0: 0, 1: 1, 50: 50, 99: 99, 100: 100, 101: 100, 999: 100}),
    "falling": ([(0, 10), (100, 0)], {0: 100, 1: 99, 33: 67, 99: 1, 100: 0, 101: 0}),
    "flat outside": ([(20, 2), (80, 8)], {0: 20, 19: 20, 20: 20, 21: 21, 79: 79, 80: 80, 81: 80, 100: 80}),
    "three points": ([(0, 0), (50, 10), (100, 0)], {25: 50, 49: 98, 50: 100, 51: 98, 75: 50}),
    "one point": ([(50, 3)], {0: 30, 50: 30, 100: 30}),
    # 10 / 3 is 3 either way: truncated towards zero
    "rising in thirds": ([(0, 0), (3, 1)], {1: 3, 2: 6, 3: 10}),
    "falling in thirds": ([(0, 1), (3, 0)], {1: 7, 2: 4, 3: 0}),
    "not from nought": ([(10, 5), (20, 6), (40, 2)], {9: 50, 13: 53, 20: 60, 25: 50, 39: 22, 41: 20}),
}


@pytest.mark.parametrize("name", SHAPES)
def test_broken_line_leads_through_its_points(name: str) -> None:
    """helper.BuildBrokenLinearFunction: in integers, flat before the first point and after the last."""
    shape, points = SHAPES[name]
    strategy = requested_to_capacity_ratio(shape)
    assert means(strategy, [1], *[[(used, 100)] for used in points]) == list(points.values())
