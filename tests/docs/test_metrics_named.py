"""A metric that the documentation names is one that a scrape has: alerts on anything else never fire."""

import re
from pathlib import Path

import pytest

from reprieve.observability.database.metrics import SpoolMetrics
from reprieve.observability.metrics import Metrics
from reprieve.observability.runtime_metrics import RuntimeMetrics
from reprieve.observability.store import MemoryStore
from tests.building import World
from tests.observability.watching import read

DOCS = Path(__file__).parents[2] / "docs"
_NAME = re.compile(r"\bscheduler_[a-z_]+[a-z]\b")
_PARTS = ("_bucket", "_sum", "_count")


@pytest.mark.parametrize("page", ["runbook", "observability"])
def test_every_metric_a_page_names_is_scraped(page: str) -> None:
    metrics = Metrics(process=False)
    RuntimeMetrics(metrics.registry)
    SpoolMetrics(metrics.registry, MemoryStore())
    metrics.attach(World().engine)
    metrics.read_engine()
    known = {family.name for family in metrics.registry.collect()}
    known |= {f"{name}_total" for name in known}
    known |= {sample.name for sample in read(metrics)}
    named = set(_NAME.findall((DOCS / f"{page}.md").read_text()))
    assert named, f"{page} names no metric"
    stems = {next((name.removesuffix(part) for part in _PARTS if name.endswith(part)), name) for name in named}
    assert stems <= known, sorted(stems - known)
