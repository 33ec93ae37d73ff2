"""Number of decision records that wait on disk for their database (history.md 5)."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class SpoolMetrics(Collector):
    """Reads a store on each scrape. A store that is not a database never spools."""

    def __init__(self, registry: CollectorRegistry, store: object) -> None:
        self._store = store
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """Yield the metric with its current value."""
        yield GaugeMetricFamily(
            "scheduler_decision_records_spooled",
            "Number of decision records that wait on disk because their database is unreachable.",
            value=float(getattr(self._store, "spooled", 0)),
        )
