"""The minimum runtime of a unit: when it is over, and how long a preemptor waits for it (cost.md 2)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reprieve.preemption.minimum_runtime import runtime_is_over
from reprieve.preemption.outcome import (
    DeferralReason,
)
from reprieve.preemption.protected_units import (
    potential_victims,
    until_runtimes_are_over,
)
from reprieve.preemption.units import scheduled_pods
from tests.building import START, World, annotated, node, pod
from tests.preemption.by_name import cluster_at, names_of


@pytest.mark.parametrize(
    ("start", "minimum", "over"),
    [
        (-60.0, "1h", -60.0 + 3600),
        (-60.0, None, -60.0),
        (None, "1h", 3600.0),
        (None, None, 0.0),
        (50.0, "10s", 10.0),
    ],
)
def test_when_a_minimum_has_been_run(start: float | None, minimum: str | None, over: float) -> None:
    """cost.md 2.6: from the start, or from now for a pod that has not started."""
    annotations = annotated(minimum_runtime=minimum) if minimum is not None else {}
    world = World(node("n"), pod("p", node="n", start=start, annotations=annotations))
    began = START + start if start is not None else float("inf")
    assert runtime_is_over(cluster_at(world), [world.record("p")], began) == START + over


def test_longest_minimum_of_a_unit_counts() -> None:
    members = [pod(f"p{i}", node="n", annotations=annotated(minimum_runtime=f"{1 + i % 2}0m")) for i in range(3)]
    world = World(node("n"), *members)
    assert runtime_is_over(cluster_at(world), [world.record(f"p{i}") for i in range(3)], START) == START + 1200
    assert runtime_is_over(cluster_at(world), [], START) == START


@pytest.mark.parametrize(
    ("since", "until", "message"),
    [
        (3600.0, None, ""),
        (3599.5, 3600.5, "1 workload is within their minimum-runtime, default/b until 2020-09-13T13:26:40Z"),
        (100.0, 3600.0, "1 workload is within their minimum-runtime, default/b until 2020-09-13T13:26:40Z"),
        (99.0, 100.0, "2 workloads are within their minimum-runtime, default/a until 2020-09-13T12:28:20Z"),
    ],
)
def test_first_minimum_to_be_over_is_waited_for(since: float, until: float | None, message: str) -> None:
    """cost.md 2.6: in a second at the earliest; a pod that is over it is a victim from that moment on."""
    pods = [
        pod("a", node="n", start=0.0, annotations=annotated(minimum_runtime="100s")),
        pod("b", node="n", start=0.0, annotations=annotated(minimum_runtime="1h")),
        pod("above", node="n", start=0.0, priority=9, annotations=annotated(minimum_runtime="10s")),
    ]
    world = World(node("n"), *pods, pod("p", priority=9))
    cluster = cluster_at(world, START + since)
    terms = cluster.class_terms_of(world.record("p"))
    found = until_runtimes_are_over(cluster, 9, scheduled_pods(cluster), terms)
    victims = potential_victims(cluster, 9, scheduled_pods(cluster), terms)
    assert sorted(names_of(victims)) == [name for name, least in (("a", 100), ("b", 3600)) if since >= least]
    if until is None:
        assert found is None
        return
    assert found is not None
    assert (found.why, found.until, found.message) == (DeferralReason.MINIMUM_RUNTIME, START + until, message)
    breaks = replace(terms, may_break_minimum_runtime=True)
    assert until_runtimes_are_over(cluster, 9, scheduled_pods(cluster), breaks) is None
    assert sorted(names_of(potential_victims(cluster, 9, scheduled_pods(cluster), breaks))) == ["a", "b"]
