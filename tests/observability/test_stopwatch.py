"""Sampled timings of plugins (observability.md: `scheduler_plugin_execution_duration_seconds` (sampled))."""

from __future__ import annotations

import itertools

import pytest

from reprieve.framework.plugin import Plugin
from reprieve.observability.metrics import Metrics
from reprieve.observability.stopwatch import MOST_CALLS, Stopwatch
from tests.building import gang, node, pod
from tests.observability.watching import Observed, read, value


def timed(seen: Observed, name: str = "scheduler_plugin_execution_duration_seconds") -> set[tuple[str, ...]]:
    wanted = ("plugin", "extension_point", "status") if "plugin" in name else ("extension_point", "status")
    return {tuple(s.labels[w] for w in wanted) for s in seen.samples() if s.name == f"{name}_count"}


def test_a_pod_that_fits() -> None:
    seen = Observed(node("n1"), pod("a", cpu=1)).settle()
    assert {("NodeResourcesFit", "Filter", "Success"), ("NodeResourcesFit", "Score", "Success")} <= timed(seen)
    points = timed(seen, "scheduler_framework_extension_point_duration_seconds")
    assert {("PreFilter", "Success"), ("Filter", "Success"), ("Score", "Success")} <= {
        (point, "Success" if status == "Skip" else status) for point, status in points
    }


def test_a_pod_that_preempts() -> None:
    seen = Observed(node("n1", cpu=4), pod("low", cpu=4, node="n1"), pod("high", cpu=4, priority=9)).settle()
    assert ("DefaultPreemption", "PostFilter", "Success") in timed(seen)
    assert ("NodeResourcesFit", "Filter", "Unschedulable") in timed(seen)


def test_a_group_that_preempts() -> None:
    seen = Observed(node("n1", cpu=4), pod("low", cpu=4, node="n1"), *gang("g", 2, cpu=2, priority=9)).settle()
    assert ("DefaultPreemption", "PodGroupPostFilter", "Success") in timed(seen)


@pytest.mark.parametrize(("attempts", "count"), [(1, 1), (10, 1), (11, 2), (25, 3)])
def test_every_tenth_attempt_is_timed(attempts: int, count: int) -> None:
    metrics = Metrics(process=False)
    watch, plugin = Stopwatch(metrics), Asked()
    for _ in range(attempts):
        with watch.attempt("p", [plugin]):
            plugin.fits()
    labels = {"extension_point": "Filter", "status": "Success", "profile": "p"}
    assert value(read(metrics), "scheduler_framework_extension_point_duration_seconds_count", labels) == count
    assert plugin.calls == attempts


def test_plugins_are_left_as_they_were() -> None:
    seen = Observed(node("n1"), pod("a", cpu=1))
    plugins = seen.world.engine.running["default-scheduler"].profile.plugins
    before = [dict(vars(plugin)) for plugin in plugins]
    seen.settle()
    assert [set(vars(plugin)) for plugin in plugins] == [set(each) for each in before]


class Asked(Plugin):
    """A plugin that counts."""

    name = "Asked"

    def __init__(self) -> None:
        self.calls = 0

    def fits(self) -> None:
        self.calls += 1


class Asking(Plugin):
    """A plugin that asks another one."""

    name = "Asking"

    def __init__(self, other: Asked) -> None:
        self._other = other

    def post_filter(self) -> None:
        self._other.fits()


def test_a_call_within_a_call_is_part_of_it() -> None:
    """What the filters cost that a PostFilter asks is the PostFilter's time: points do not overlap."""
    ticks = itertools.count()
    metrics = Metrics(process=False)
    watch, inner = Stopwatch(metrics, clock=lambda: float(next(ticks))), Asked()
    outer = Asking(inner)
    with watch.attempt("p", [inner, outer]):
        outer.post_filter()
        inner.fits()
    seconds = {
        (s.labels["plugin"], s.labels["extension_point"]): s.value
        for s in read(metrics)
        if s.name == "scheduler_plugin_execution_duration_seconds_sum"
    }
    assert seconds == {("Asking", "PostFilter"): 1.0, ("Asked", "Filter"): 1.0}
    assert inner.calls == 2


def test_a_large_gang_is_timed_in_part() -> None:
    members = 400
    seen = Observed(node("n1", cpu=900, pods=2000), *gang("g", members, cpu="1m")).settle()
    name = "scheduler_plugin_execution_duration_seconds_count"
    assert 0 < sum(s.value for s in seen.samples() if s.name == name) <= MOST_CALLS
    assert len(seen.world.where) == members


def test_an_error_is_timed_as_one() -> None:
    seen = Observed(node("n1"))
    fit = next(
        p for p in seen.world.engine.running["default-scheduler"].profile.plugins if p.name == "NodeResourcesFit"
    )
    kind = type(fit)

    class Broken(kind):  # type: ignore[misc, valid-type]
        def fits(self, *_: object) -> None:
            raise RuntimeError("boom")

    fit.__class__ = Broken
    seen.world.add(pod("a", cpu=1))
    seen.world.step()
    assert ("NodeResourcesFit", "Filter", "Error") in timed(seen)
