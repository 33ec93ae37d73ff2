"""How long plugins take: every tenth attempt is timed, as upstream times one in ten (observability.md, "sampled").

Plugins run many times a millisecond, so the other nine attempts must not notice.  For an attempt that is timed each
plugin's methods are shadowed on the instance by ones that look at the clock, and uncovered again afterwards; the
framework and the plugins know nothing of it.

Invariants: what a plugin does within another one's call (the filters that a PostFilter asks) counts as the latter's
time only; at most `MOST_CALLS` calls of an attempt are timed, so a gang of thousands costs no more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

import numpy as np
from prometheus_client import Histogram

from reprieve.framework.plugin import Plugin
from reprieve.framework.status import Code, Status
from reprieve.observability.metrics import Metrics

EVERY: Final = 10
MOST_CALLS: Final = 2_000
POINTS: Final = {
    "pre_filter": "PreFilter",
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
    "score_placement": "PlacementScore",
    "normalize_placements": "PlacementScoreExtensionNormalize",
}
"""Methods of plugins, and the extension point each belongs to (the label upstream has for it)."""
_EVALUATED: Final = frozenset(("PreFilter", "Filter", "PreScore", "Score"))
"""Extension points that `plugin_evaluation_total` has; each timed attempt stands for `EVERY`."""
_STATUSES: Final = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
}
_Shadow = tuple[Plugin, str, Callable[..., Any]]
_Call = tuple[str, str, str, float]
"""(plugin, extension point, status, seconds)."""


class Stopwatch:
    """Times attempts into `plugin_execution_duration_seconds` and `framework_extension_point_duration_seconds`."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.perf_counter) -> None:
        self._metrics = metrics
        self._clock = clock
        self._attempts = 0
        self._calls: list[_Call] = []
        self._inside = False
        self._shadows: dict[int, tuple[Sequence[Plugin], list[_Shadow]]] = {}
        """By identity of the list of plugins, with the list itself, so that it lives on."""
        self._of_plugin: dict[tuple[str, str, str], Histogram] = {}
        self._of_point: dict[tuple[str, str, str], Histogram] = {}

    def attempt(self, profile: str, plugins: Sequence[Plugin]) -> AbstractContextManager[None]:
        """Around one attempt; the first, the eleventh and so on are timed."""
        self._attempts += 1
        return self._timing(profile, plugins) if self._attempts % EVERY == 1 else _UNTIMED

    @contextmanager
    def _timing(self, profile: str, plugins: Sequence[Plugin]) -> Iterator[None]:
        self._calls = []
        known = self._shadows.get(id(plugins))
        if known is None:
            known = self._shadows[id(plugins)] = (plugins, [s for plugin in plugins for s in self._made(plugin)])
        shadows = known[1]
        for plugin, name, timed in shadows:
            setattr(plugin, name, timed)
        try:
            yield
        finally:
            for plugin, name, _ in shadows:
                delattr(plugin, name)
            self._write(profile)

    def _made(self, plugin: Plugin) -> Iterator[_Shadow]:
        """Stand-ins for the methods the plugin has of its own; those of the base classes do nothing worth timing."""
        for name, point in POINTS.items():
            defined = getattr(type(plugin), name, None)
            if defined is None or defined.__module__ == Plugin.__module__ or name in vars(plugin):
                continue
            yield plugin, name, self._timed(plugin.name, point, getattr(plugin, name))

    def _timed(self, plugin: str, point: str, method: Callable[..., Any]) -> Callable[..., Any]:
        clock = self._clock

        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._inside or len(self._calls) >= MOST_CALLS:
                return method(*args, **kwargs)
            self._inside = True
            status = "Error"
            began = clock()
            try:
                answer = method(*args, **kwargs)
                status = _status(answer)
                return answer
            finally:
                self._calls.append((plugin, point, status, clock() - began))
                self._inside = False

        return timed

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


def _child(known: dict[tuple[str, str, str], Histogram], of: Histogram, labels: tuple[str, str, str]) -> Histogram:
    found = known.get(labels)
    if found is None:
        found = known[labels] = of.labels(*labels)
    return found


def _status(answer: Any) -> str:
    """The status of what a plugin answered: a status, a result with one, a mask or codes of nodes, or scores."""
    status = answer if isinstance(answer, Status) else getattr(answer, "status", None)
    if isinstance(status, Status):
        return _STATUSES.get(status.code, "Success")
    if isinstance(answer, np.ndarray):
        if answer.dtype == np.bool_:
            return "Success" if answer.any() else "Unschedulable"
        if answer.dtype == np.int8:
            return "Success" if not answer.all() else "Unschedulable"
    return "Success"
