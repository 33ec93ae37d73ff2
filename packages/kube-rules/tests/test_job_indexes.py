"""The indexes of an indexed Job (workloads.md 3, whatif.md 2.1; upstream: pkg/controller/job/indexed_job_utils.go)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube_rules.job_indexes import JobIndexes

MOST = 2**31 - 1
INDEXES = st.integers(0, 30)


def members(indexes: JobIndexes, below: int = 40) -> set[int]:
    return {index for index in range(below) if index in indexes}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", set()),
        ("0", {0}),
        ("0-2,5", {0, 1, 2, 5}),
        ("3,4-4", {3, 4}),
        ("5,0-2,1-3", {0, 1, 2, 3, 5}),
        ("+1", {1}),
        ("x,1-y,7", {7}),
        ("2-,-3,4", {4}),
        ("4-2", set()),
        ("9-10,11", {9}),
        ("8-99999999999999999999,3", {3}),
        ("9" * 5000, set()),
        ("\u0663", set()),
    ],
)
def test_lists_are_read_as_upstream_does(text: str, expected: set[int]) -> None:
    """What is no interval is left out, and so is what lies beyond ten completions."""
    assert members(JobIndexes(10, text)) == expected


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.sets(INDEXES), st.sets(INDEXES), st.lists(INDEXES))
def test_indexes_are_a_set(first: set[int], second: set[int], added: list[int]) -> None:
    """Two lists read together and what is added: the same as the plain set, and its text reads back."""
    indexes = JobIndexes(31, ",".join(map(str, first)), ",".join(map(str, second)))
    plain = first | second
    for index in added:
        indexes.add(index)
        plain.add(index)
        assert len(indexes) == len(plain)
    assert members(indexes) == plain
    assert members(JobIndexes(31, str(indexes))) == plain
    assert str(JobIndexes(31, str(indexes))) == str(indexes)
    for completions in (0, 7, 31, 35):
        assert list(indexes.missing(completions)) == [one for one in range(completions) if one not in plain]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.sets(INDEXES), st.sets(INDEXES))
def test_common_indexes_are_those_of_both_sets(first: set[int], second: set[int]) -> None:
    sets = [JobIndexes(31, ",".join(map(str, one))) for one in (first, second)]
    assert sets[0].common(sets[1]) == sets[1].common(sets[0]) == len(first & second)


def test_three_or_more_in_a_row_are_written_as_a_range() -> None:
    indexes = JobIndexes(20)
    for index in (5, 0, 2, 1, 8, 7):
        indexes.add(index)
    assert str(indexes) == "0-2,5,7,8"


def test_intervals_cost_what_their_text_does() -> None:
    """A status that names two thousand million indexes is a line: it is counted and continued, not spelt out."""
    indexes = JobIndexes(MOST, f"1-{MOST - 3}")
    assert len(indexes) == MOST - 3
    assert MOST - 3 in indexes
    assert list(itertools.islice(indexes.missing(MOST), 9)) == [0, MOST - 2, MOST - 1]
    indexes.add(0)
    assert str(indexes) == f"0-{MOST - 3}"
