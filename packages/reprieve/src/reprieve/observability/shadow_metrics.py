"""Metrics of a shadow scheduler: where the acting scheduler decided differently (shadow.md 5).

Invariant: labels come from fixed sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from reprieve.decisions.shadow import KINDS, ShadowReport
from reprieve.observability.metrics import with_samples

ACTING, SHADOW = "acting", "shadow"
_QUANTILES: Final = (("0.5", "p50"), ("0.9", "p90"), ("0.99", "p99"))


class ShadowMetrics(Collector):
    """Reads a report on each scrape. `assumed`: the number of entities with a decision not confirmed by the API."""

    def __init__(
        self, registry: CollectorRegistry, report: Callable[[], ShadowReport], assumed: Callable[[], int]
    ) -> None:
        self._report = report
        self._assumed = assumed
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registration does not need a report to learn the names."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics with their current values."""
        report = self._report()
        differences = CounterMetricFamily(
            "reprieve_shadow_differences", "Number of differences to the acting scheduler, by kind.", labels=["kind"]
        )
        lasting = GaugeMetricFamily(
            "reprieve_shadow_lasting_differences", "Number of differences that last, by kind.", labels=["kind"]
        )
        lasting_kinds = [difference.kind for difference in report.differences if difference.until is None]
        for kind in KINDS:
            differences.add_metric([kind], report.counts[kind])
            lasting.add_metric([kind], lasting_kinds.count(kind))
        yield from (differences, lasting)
        compared = CounterMetricFamily(
            "reprieve_shadow_entities", "Number of pods and gangs by whether they could be compared.", labels=["result"]
        )
        counts = {"Compared": report.compared, **report.not_compared}
        yield with_samples(compared, (([result], number) for result, number in counts.items()))
        evicted = CounterMetricFamily(
            "reprieve_shadow_evicted_pods", "Number of pods evicted for compared pods and gangs.", labels=["by"]
        )
        lost = CounterMetricFamily(
            "reprieve_shadow_lost_gpu_seconds", "Unsaved work of these pods, in GPU-seconds.", labels=["by"]
        )
        waits = GaugeMetricFamily(
            "reprieve_shadow_wait_seconds",
            "Seconds that compared pods and gangs waited, by quantile.",
            labels=["by", "of", "quantile"],
        )
        for by, side in ((ACTING, report.acting), (SHADOW, report.shadow)):
            evicted.add_metric([by], side.evicted_pods)
            lost.add_metric([by], side.lost_gpu_hours * 3600)
            for of, spread in (("gangs", side.gang_wait), ("pods", side.pod_wait)):
                for quantile, field in _QUANTILES:
                    waits.add_metric([by, of, quantile], getattr(spread, field))
        yield from (evicted, lost, waits)
        yield CounterMetricFamily(
            "reprieve_shadow_held_gpu_seconds",
            "GPU-seconds held by gangs that were half placed for too long.",
            value=report.held_gpu_hours * 3600,
        )
        yield GaugeMetricFamily(
            "reprieve_shadow_assumed_entities",
            "Number of pods and gangs with a decision of the shadow that the API has not confirmed.",
            value=self._assumed(),
        )
