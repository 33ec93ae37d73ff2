"""The sentences of a shadow report (shadow.md 3, 4)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from reprieve.decisions.shadow import (
    FEWER_EVICTED,
    HALF_PLACED,
    MORE_EVICTED,
    STARVED,
    SecondsSpread,
    ShadowDifference,
    ShadowFigures,
    ShadowReport,
    ShadowSide,
    spread_of,
)
from reprieve.decisions.shadow_summary import cells_of, conclusion, decided, details_of, figures, remarks

_KINDS = (HALF_PLACED, STARVED, MORE_EVICTED, FEWER_EVICTED)
SINCE, UNTIL = "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"
DIFFERENCE = ShadowDifference(
    kind=MORE_EVICTED,
    entity_kind="PodGroup",
    namespace="a",
    name="train",
    priority=5,
    pods=2,
    min_count=2,
    since=SINCE,
    until=None,
    seconds=90.0,
    held_gpu_hours=0.0,
    acting=ShadowSide(result="Placed", evicted_pods=3, evicted=("a/x", "a/y"), lost_gpu_hours=1.5),
    shadow=ShadowSide(result="Placed"),
    message="More.",
)
NONE = ShadowFigures(evicted_pods=0, lost_gpu_hours=0.0, gang_wait=SecondsSpread(), pod_wait=SecondsSpread())
REPORT = ShadowReport(
    schedulers=("default-scheduler",),
    since=SINCE,
    until=UNTIL,
    hold_seconds=60.0,
    counts={},
    differences=(),
    left_out=0,
    compared=2,
    not_compared={},
    same_node=3,
    other_node=1,
    other_victims=0,
    unassigned_evictions=0,
    held_gpu_hours=0.0,
    acting=NONE,
    shadow=NONE,
    decisions=SecondsSpread(),
)


@pytest.mark.parametrize(("until", "lasts"), [(None, "1 min 30 s so far"), (UNTIL, "1 min 30 s")])
def test_difference_that_lasts_says_so(until: str | None, lasts: str) -> None:
    """shadow.md 4.2"""
    assert cells_of(replace(DIFFERENCE, until=until))[1:] == ("podgroup a/train", "5", lasts)


def test_details_name_both_sides_and_what_was_held() -> None:
    """shadow.md 3.2, 3.4"""
    assert details_of(DIFFERENCE) == ["More.", "acting scheduler evicts a/x, a/y and 1 more: 1.5 GPU-hours lost"]
    shadow = ShadowSide(result="Preempting", evicted_pods=1, evicted=("a/z",))
    assert details_of(replace(DIFFERENCE, acting=ShadowSide(result="Placed"), shadow=shadow, held_gpu_hours=2.0)) == [
        "More.",
        "shadow evicts a/z: 0 GPU-hours lost",
        "2 GPU-hours held meanwhile",
    ]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, "No differences: 2 pods and gangs compared,"),
        ({"compared": 1}, "No differences: 1 pod or gang compared,"),
        ({"compared": 0}, "Nothing could be compared yet,"),
        ({"counts": {MORE_EVICTED: 1}}, "1 difference, 2 pods and gangs compared,"),
        ({"counts": {HALF_PLACED: 1, MORE_EVICTED: 2}}, "3 differences, 2 pods and gangs compared,"),
    ],
)
def test_conclusion(change: dict[str, Any], says: str) -> None:
    """shadow.md 4.1"""
    report = replace(REPORT, **{**change, "counts": dict.fromkeys(_KINDS, 0) | change.get("counts", {})})
    assert conclusion(report).startswith(says)


def test_remarks_count_what_is_no_difference_or_was_not_compared() -> None:
    """shadow.md 3.5, 3.6, 3.7"""
    always = remarks(REPORT)
    more = replace(REPORT, other_victims=2, not_compared={"ActingFirst": 0, "Gone": 1}, unassigned_evictions=1)
    assert [line for line in remarks(more) if line not in always] == [
        "Other pods evicted at the same cost: 2.",
        "Not compared: 0 placed before the shadow had decided, 1 deleted before both had.",
        "Evicted for a preemptor that is not known (yet): 1 pod.",
    ]
    assert always[-1] == "The shadow has decided nothing yet."
    assert decided(spread_of([0.5], 1, 0.5)) == (
        "The shadow decided 1 time: median 0.5000 s, 99 % 0.5000 s, longest 0.5000 s."
    )


def test_waits_are_figures_where_there_were_any() -> None:
    """shadow.md 4.1"""
    waits = replace(NONE, pod_wait=spread_of([1.0, 2.0, 90.0], 3, 93.0))
    rows = figures(replace(REPORT, acting=waits, shadow=waits))
    assert rows[3:] == [
        ("wait of pods: median", "2 s", "2 s"),
        ("wait of pods: 90 %", "1 min 30 s", "1 min 30 s"),
        ("wait of pods: longest", "1 min 30 s", "1 min 30 s"),
    ]


def test_spread_of_many_seconds() -> None:
    """shadow.md 4.1: the mean also covers cases that are not among the values."""
    assert spread_of([3.0, 1.0, 2.0, 4.0], 8, 12.0) == SecondsSpread(
        count=8, mean=1.5, p50=3.0, p90=4.0, p99=4.0, max=4.0
    )
    assert spread_of([], 0, 0.0) == SecondsSpread()
