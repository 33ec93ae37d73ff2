"""Metrics of a shadow: where the acting scheduler decided otherwise (shadow.md 5).

Invariant: labels come from fixed sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from reprieve.decisions.shadow import KINDS, ShadowReport

ACTING, SHADOW = "acting", "shadow"
_QUANTILES: Final = (("0.5", "p50"), ("0.9", "p90"), ("0.99", "p99"))


class ShadowMetrics(Collector):
    """Reads a report at each scrape. `assumed`: how many entities have a decision that the API has not confirmed."""

    def __init__(
        self, registry: CollectorRegistry, report: Callable[[], ShadowReport], assumed: Callable[[], int]
    ) -> None:
        self._report = report
        self._assumed = assumed
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the registry need not read a report to learn the names."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics as of now."""
        report = self._report()
        differences = CounterMetricFamily(
            "reprieve_shadow_differences", "Number of differences to the acting scheduler, by kind.", labels=["kind"]
        )
        lasting = GaugeMetricFamily(
            "reprieve_shadow_lasting_differences", "Number of differences that last, by kind.", labels=["kind"]
        )
        for kind in KINDS:
            differences.add_metric([kind], report.counts[kind])
            lasting.add_metric([kind], sum(1 for one in report.differences if one.kind == kind and one.until is None))
        yield from (differences, lasting)
        compared = CounterMetricFamily(
            "reprieve_shadow_entities", "Number of pods and gangs by whether they could be compared.", labels=["result"]
        )
        compared.add_metric(["Compared"], report.compared)
        for reason, number in report.not_compared.items():
            compared.add_metric([reason], number)
        yield compared
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
        held = CounterMetricFamily(
            "reprieve_shadow_held_gpu_seconds", "GPU-seconds held by gangs that were half placed for too long."
        )
        held.add_metric([], report.held_gpu_hours * 3600)
        yield held
        assumed = GaugeMetricFamily(
            "reprieve_shadow_assumed_entities",
            "Number of pods and gangs with a decision of the shadow that the API has not confirmed.",
            value=self._assumed(),
        )
        yield assumed
