"""Sampled timings of plugins (observability.md: `scheduler_plugin_execution_duration_seconds` (sampled))."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from reprieve.framework.plugin import FilterPlugin, Plugin
from reprieve.framework.status import Code, PluginError, Status, call_plugin
from reprieve.observability.metrics import Metrics
from reprieve.observability.stopwatch import MOST_CALLS, Stopwatch
from tests.building import gang, node, pod
from tests.observability.watching import Observed, read, value


def call(plugin: Plugin, method: str, *args: Any) -> Any:
    """Call a plugin as the framework does."""
    return call_plugin(plugin.name, "Any", getattr(plugin, method), *args)


def timed(seen: Observed, name: str = "scheduler_plugin_execution_duration_seconds") -> set[tuple[str, ...]]:
    wanted = ("plugin", "extension_point", "status") if "plugin" in name else ("extension_point", "status")
    return {tuple(s.labels[w] for w in wanted) for s in seen.samples() if s.name == f"{name}_count"}


def test_pod_that_fits() -> None:
    seen = Observed(node("n1"), pod("a", cpu=1)).settle()
    assert {("NodeResourcesFit", "Filter", "Success"), ("NodeResourcesFit", "Score", "Success")} <= timed(seen)
    points = timed(seen, "scheduler_framework_extension_point_duration_seconds")
    assert {("PreFilter", "Success"), ("Filter", "Success"), ("Score", "Success")} <= {
        (point, "Success" if status == "Skip" else status) for point, status in points
    }


def test_pod_that_preempts() -> None:
    seen = Observed(node("n1", cpu=4), pod("low", cpu=4, node="n1"), pod("high", cpu=4, priority=9)).settle()
    assert ("DefaultPreemption", "PostFilter", "Success") in timed(seen)
    assert ("NodeResourcesFit", "Filter", "Unschedulable") in timed(seen)


def test_group_that_preempts() -> None:
    seen = Observed(node("n1", cpu=4), pod("low", cpu=4, node="n1"), *gang("g", 2, cpu=2, priority=9)).settle()
    assert ("DefaultPreemption", "PodGroupPostFilter", "Success") in timed(seen)


@pytest.mark.parametrize(("attempts", "count"), [(1, 1), (10, 1), (11, 2), (25, 3)])
def test_every_tenth_attempt_is_timed(attempts: int, count: int) -> None:
    metrics = Metrics(process=False)
    watch, plugin = Stopwatch(metrics), Asked()
    for _ in range(attempts):
        with watch.attempt("p"):
            call(plugin, "fits")
    labels = {"extension_point": "Filter", "status": "Success", "profile": "p"}
    assert value(read(metrics), "scheduler_framework_extension_point_duration_seconds_count", labels) == count
    assert plugin.calls == attempts


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
        call(self._other, "fits")


def test_call_within_a_call_is_part_of_it() -> None:
    """What the filters cost that a PostFilter asks is the PostFilter's time: points do not overlap."""
    ticks = itertools.count()
    metrics = Metrics(process=False)
    watch, inner = Stopwatch(metrics, clock=lambda: float(next(ticks))), Asked()
    outer = Asking(inner)
    with watch.attempt("p"):
        call(outer, "post_filter")
        call(inner, "fits")
    seconds = {
        (s.labels["plugin"], s.labels["extension_point"]): s.value
        for s in read(metrics)
        if s.name == "scheduler_plugin_execution_duration_seconds_sum"
    }
    assert seconds == {("Asking", "PostFilter"): 1.0, ("Asked", "Filter"): 1.0}
    assert inner.calls == 2


class Answering(Plugin):
    """A plugin with methods that answer what they are given."""

    name = "Answering"

    def filter(self, answer: object) -> object:
        return answer

    def score(self, answer: object) -> object:
        return answer

    def permit(self, answer: object) -> object:
        return answer

    def unreserve(self, answer: object) -> object:
        return answer


STATUSES: dict[str, tuple[object, str]] = {
    "nothing": (None, "Success"),
    "success": (Status(Code.SUCCESS), "Success"),
    "error": (Status(Code.ERROR), "Error"),
    "unschedulable": (Status(Code.UNSCHEDULABLE), "Unschedulable"),
    "unresolvable": (Status(Code.UNRESOLVABLE), "UnschedulableAndUnresolvable"),
    "wait": (Status(Code.WAIT), "Wait"),
    "skip": (Status(Code.SKIP), "Skip"),
    "a-result-with-a-status": (SimpleNamespace(status=Status(Code.SKIP)), "Skip"),
    "a-result-with-another-status": (SimpleNamespace(status="Skip"), "Success"),
    "a-mask-with-a-node": (np.array([False, True]), "Success"),
    "a-mask-without": (np.array([False, False]), "Unschedulable"),
    "codes-with-a-node": (np.array([1, 0, 2], dtype=np.int8), "Success"),
    "codes-without": (np.array([1, 2], dtype=np.int8), "Unschedulable"),
    "scores": (np.array([0.0, 0.0]), "Success"),
}


def series(metrics: Metrics, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """The samples of a metric by these of their labels."""
    return {tuple(s.labels[label] for label in labels): s.value for s in read(metrics) if s.name == f"scheduler_{name}"}


@pytest.mark.parametrize("case", STATUSES)
def test_status_is_that_of_what_the_plugin_answers(case: str) -> None:
    """One status of upstream's names for every form of answer that there is."""
    answer, status = STATUSES[case]
    metrics = Metrics(process=False)
    watch, plugin = Stopwatch(metrics), Answering()
    with watch.attempt("p"):
        assert call(plugin, "filter", answer) is answer
    counted = series(metrics, "plugin_execution_duration_seconds_count", "extension_point", "status")
    assert counted == {("Filter", status): 1}


def test_extension_point_takes_as_long_as_its_plugins_and_ends_as_the_last_of_them() -> None:
    """Every timed attempt stands for ten of those that plugins are counted by, at the points that upstream counts."""
    ticks = itertools.count()
    metrics = Metrics(process=False)
    watch, one, other = Stopwatch(metrics, clock=lambda: float(next(ticks))), Answering(), Answering()
    with watch.attempt("p"):
        call(one, "filter", None)
        call(one, "filter", Status(Code.UNSCHEDULABLE))
        call(other, "score", None)
        call(one, "permit", Status(Code.WAIT))
    labels = ("extension_point", "status", "profile")
    name = "framework_extension_point_duration_seconds"
    sums, counts = (series(metrics, f"{name}_{kind}", *labels) for kind in ("sum", "count"))
    assert sums == {("Filter", "Unschedulable", "p"): 2, ("Score", "Success", "p"): 1, ("Permit", "Wait", "p"): 1}
    assert set(counts.values()) == {1}
    evaluated = series(metrics, "plugin_evaluation_total", "plugin", "extension_point", "profile")
    assert evaluated == {("Answering", "Filter", "p"): 10, ("Answering", "Score", "p"): 10}


def test_times_of_before_count_once() -> None:
    """The eleventh attempt says nothing of the first."""
    metrics = Metrics(process=False)
    watch, plugin = Stopwatch(metrics), Answering()
    for number in range(11):
        with watch.attempt("p"):
            if number == 0:
                call(plugin, "filter", None)
    assert series(metrics, "plugin_execution_duration_seconds_count", "extension_point") == {("Filter",): 1}
    assert series(metrics, "plugin_evaluation_total", "extension_point") == {("Filter",): 10}


def test_attempt_that_breaks_is_timed() -> None:
    metrics = Metrics(process=False)
    watch, plugin = Stopwatch(metrics), Answering()
    with pytest.raises(PluginError), watch.attempt("p"):
        call(plugin, "filter")
    counted = series(metrics, "plugin_execution_duration_seconds_count", "extension_point", "status")
    assert counted == {("Filter", "Error"): 1}


@pytest.mark.parametrize("calls", [1999, 2000, 2001])
def test_two_thousand_calls_of_an_attempt_are_timed(calls: int) -> None:
    metrics = Metrics(process=False)
    watch, plugin = Stopwatch(metrics), Asked()
    with watch.attempt("p"):
        for _ in range(calls):
            call(plugin, "fits")
    assert plugin.calls == calls
    timed_calls = series(metrics, "plugin_execution_duration_seconds_count", "extension_point")
    assert timed_calls == {("Filter",): min(calls, 2000)}


class Idle(FilterPlugin):
    """A filter that overrides nothing but the filter."""

    name = "Idle"

    def filter(self, state: object, rows: object) -> Any:
        return np.array([0], dtype=np.int8)


def test_methods_of_the_base_classes_that_do_nothing_are_not_timed() -> None:
    metrics = Metrics(process=False)
    watch, plugin = Stopwatch(metrics), Idle()
    with watch.attempt("p"):
        call(plugin, "pre_filter", None)
        call(plugin, "fits", None, None)
    assert series(metrics, "plugin_execution_duration_seconds_count", "extension_point") == {("Filter",): 1}


def test_large_gang_is_timed_in_part() -> None:
    members = 400
    seen = Observed(node("n1", cpu=900, pods=2000), *gang("g", members, cpu="1m")).settle()
    name = "scheduler_plugin_execution_duration_seconds_count"
    assert 0 < sum(s.value for s in seen.samples() if s.name == name) <= MOST_CALLS
    assert len(seen.world.where) == members


def test_error_is_timed_as_one() -> None:
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
