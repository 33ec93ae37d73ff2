"""Duration of plugin calls: every tenth attempt is timed, as in upstream (observability.md, "sampled").

Plugins run many times per millisecond, so untimed attempts must have no overhead. A timed attempt runs with a timer in
the one place where plugins are called (`reprieve.framework.status.call_plugin`).

Invariants: calls nested in another plugin's call (such as the filters called by a PostFilter) count only towards the
outer call; at most `MOST_CALLS` calls of an attempt are timed, so that a gang of thousands costs no more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

import numpy as np
from prometheus_client import Histogram

from reprieve.framework.placement_meter import PlacementMeter
from reprieve.framework.plugin import Plugin
from reprieve.framework.status import Code, Status, timed_calls
from reprieve.observability.metrics import Metrics

EVERY: Final = 10
MOST_CALLS: Final = 2_000
POINTS: Final = {
    "pre_filter": "PreFilter",
    "concerns": "PreFilter",
    "fits": "Filter",
    "filter": "Filter",
    "pre_score": "PreScore",
    "score": "Score",
    "normalize": "ScoreExtensionNormalize",
    "post_filter": "PostFilter",
    "pod_group_post_filter": "PodGroupPostFilter",
    "reserve": "Reserve",
    "unreserve": "Unreserve",
    "permit": "Permit",
    "generate": "PlacementGenerate",
    "feasible": "PlacementFeasible",
    "generate_below": "PlacementGenerate",
    "score_placement": "PlacementScore",
    "normalize_placements": "PlacementScoreExtensionNormalize",
}
"""Methods of plugins and their extension points, as upstream labels them."""
_IDLE: Final = frozenset(
    (
        "pre_filter",
        "pre_score",
        "normalize",
        "reserve",
        "unreserve",
        "permit",
        "generate",
        "feasible",
        "normalize_placements",
    )
)
"""Methods that do nothing in the base classes. They are not timed for plugins that do not override them."""
_EVALUATED: Final = frozenset(("PreFilter", "Filter", "PreScore", "Score"))
"""Extension points of `plugin_evaluation_total`. Each timed attempt counts as `EVERY`."""
_STATUSES: Final = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
}
_Call = tuple[str, str, str, float]
"""(plugin, extension point, status, seconds)."""


class Stopwatch:
    """Times attempts for `plugin_execution_duration_seconds` and `framework_extension_point_duration_seconds`."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.perf_counter) -> None:
        self._metrics = metrics
        self._clock = clock
        self._attempts = 0
        self._calls: list[_Call] = []
        self._inside = False
        self._of_plugin: dict[tuple[str, str, str], Histogram] = {}
        self._of_point: dict[tuple[str, str, str], Histogram] = {}

    def attach(self, meters: Iterable[PlacementMeter]) -> None:
        """Count the placements of pod groups in each profile and time their evaluation (`PlacementWatch`)."""
        for meter in meters:
            meter.watch = self

    def clock(self) -> float:
        """Return the time in seconds."""
        return self._clock()

    def placements_generated(self, profile: str, kind: str, number: int) -> None:
        """Count placements proposed for a group."""
        self._metrics.generated_placements.labels(profile, kind).inc(number)

    def placement_evaluated(self, profile: str, kind: str, seconds: float, *, feasible: bool) -> None:
        """Count an attempt to place a group in one placement."""
        labels = ("feasible" if feasible else "infeasible", profile, kind)
        self._metrics.placement_evaluations.labels(*labels).inc()
        self._metrics.placement_seconds.labels(*labels).observe(seconds)

    def attempt(self, profile: str) -> AbstractContextManager[None]:
        """Return the context of one attempt. The first, the eleventh and so on are timed."""
        self._attempts += 1
        return self._timing(profile) if self._attempts % EVERY == 1 else _UNTIMED

    @contextmanager
    def _timing(self, profile: str) -> Iterator[None]:
        self._calls = []
        try:
            with timed_calls(self._timed):
                yield
        finally:
            self._write(profile)

    def _timed(self, plugin: str, method: Callable[..., Any], call: Callable[[], Any]) -> Any:
        """Run a plugin call and record its duration."""
        name = getattr(method, "__name__", "")
        point = POINTS.get(name)
        idle = name in _IDLE and method.__module__ == Plugin.__module__
        if point is None or idle or self._inside or len(self._calls) >= MOST_CALLS:
            return call()
        self._inside = True
        status = "Error"
        began = self._clock()
        try:
            answer = call()
            status = _status(answer)
            return answer
        finally:
            self._calls.append((plugin, point, status, self._clock() - began))
            self._inside = False

    def _write(self, profile: str) -> None:
        points: dict[str, tuple[float, str]] = {}
        for plugin, point in sorted({(plugin, point) for plugin, point, _, _ in self._calls if point in _EVALUATED}):
            self._metrics.plugin_evaluations.labels(plugin, point, profile).inc(EVERY)
        for plugin, point, status, seconds in self._calls:
            _child(self._of_plugin, self._metrics.plugin_seconds, (plugin, point, status)).observe(seconds)
            points[point] = (points.get(point, (0.0, ""))[0] + seconds, status)
        for point, (seconds, status) in points.items():
            _child(self._of_point, self._metrics.point_seconds, (point, status, profile)).observe(seconds)
        self._calls = []


_UNTIMED: Final = nullcontext()


def _child(children: dict[tuple[str, str, str], Histogram], of: Histogram, labels: tuple[str, str, str]) -> Histogram:
    result = children.get(labels)
    if result is None:
        result = children[labels] = of.labels(*labels)
    return result


def _status(answer: Any) -> str:
    """Return the status of a plugin's answer: a status, a result with one, a mask or codes of nodes, or scores."""
    status = answer if isinstance(answer, Status) else getattr(answer, "status", None)
    if isinstance(status, Status):
        return _STATUSES.get(status.code, "Success")
    if answer is False:  # the plugin does not apply to this pod
        return "Skip"
    if isinstance(answer, np.ndarray):
        if answer.dtype == np.bool_:
            return "Success" if answer.any() else "Unschedulable"
        if answer.dtype == np.int8:
            return "Success" if not answer.all() else "Unschedulable"
    return "Success"
