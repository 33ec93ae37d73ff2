"""What the server counts of its requests, one at a time: codes, durations, what is under way, and how much is kept."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from prometheus_client.core import Metric

from kube_standin.kinds import KindTable
from kube_standin.registry import ObjectRegistry
from kube_standin.server.metrics import MOST_SERIES, Labels, ServerMetrics
from kube_standin.storage import Store

GET = Labels("GET", "", "", "v1", "pods", "", "resource")
WATCH = GET._replace(verb="WATCH", scope="namespace")
POST = GET._replace(verb="POST")


@pytest.fixture
def metrics() -> Iterator[ServerMetrics]:
    store = Store()
    yield ServerMetrics(ObjectRegistry(store))
    store.close()


def family(metrics: ServerMetrics, name: str) -> Metric:
    [found] = [one for one in metrics.collect() if one.name == name]
    return found


def values(metrics: ServerMetrics, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """Samples that are not nought, by some of their labels."""
    return {
        tuple(sample.labels[label] for label in labels): sample.value
        for sample in family(metrics, name).samples
        if sample.value
    }


def test_requests_are_counted_by_code_as_they_end(metrics: ServerMetrics) -> None:
    for labels, code in ((GET, 200), (GET, 200), (GET, 404), (POST, 201)):
        measured = metrics.begin(labels)
        before = values(metrics, "apiserver_request", "verb", "code")
        metrics.end(measured, code)
        assert values(metrics, "apiserver_request", "verb", "code") != before
    assert values(metrics, "apiserver_request", "verb", "code") == {
        ("GET", "200"): 2,
        ("GET", "404"): 1,
        ("POST", "201"): 1,
    }
    assert family(metrics, "apiserver_request").samples[0].labels == {**GET._asdict(), "code": "200"}


def test_requests_in_flight_are_counted_by_whether_they_mutate(metrics: ServerMetrics) -> None:
    """Watches are counted apart, by their labels, as they last."""
    name, lasting = "apiserver_current_inflight_requests", "apiserver_longrunning_requests"
    under_way = [metrics.begin(labels) for labels in (GET, GET._replace(verb="LIST"), POST, WATCH, WATCH)]
    assert values(metrics, name, "request_kind") == {("readOnly",): 2, ("mutating",): 1}
    assert values(metrics, lasting, "verb", "resource", "scope", "component") == {
        ("WATCH", "pods", "namespace", "apiserver"): 2
    }
    for measured in under_way[1:4]:
        metrics.end(measured, 200)
    assert values(metrics, name, "request_kind") == {("readOnly",): 1}
    assert values(metrics, lasting, "verb") == {("WATCH",): 1}


@pytest.mark.parametrize(
    ("seconds", "first"),
    [(0.0, "0.005"), (0.005, "0.005"), (0.0051, "0.025"), (1.0, "1.0"), (1.1, "1.25"), (60.0, "60.0"), (61.0, "+Inf")],
)
def test_durations_are_counted_in_buckets_of_upstream(
    metrics: ServerMetrics, monkeypatch: pytest.MonkeyPatch, seconds: float, first: str
) -> None:
    """Each bucket holds what is as long as its bound or shorter."""
    now = 100.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    for _ in range(2):
        measured = metrics.begin(GET)
        now += seconds
        metrics.end(measured, 200)
    samples = family(metrics, "apiserver_request_duration_seconds").samples
    buckets = {sample.labels["le"]: sample.value for sample in samples if sample.name.endswith("_bucket")}
    bounds = list(buckets)
    assert len(bounds) == 24
    assert bounds[-1] == "+Inf"
    assert [float(bound) for bound in bounds] == sorted(float(bound) for bound in bounds)
    at = bounds.index(first)
    assert list(buckets.values()) == [0] * at + [2] * (24 - at)
    found = {sample.name.rpartition("_")[2]: sample.value for sample in samples if "le" not in sample.labels}
    assert found["sum"] == pytest.approx(2 * seconds)
    assert found["count"] == 2


def test_so_many_combinations_of_labels_are_kept_apart(metrics: ServerMetrics) -> None:
    """What comes later is counted without its resource; what is known already is still counted with it."""
    for number in range(MOST_SERIES + 1):
        metrics.end(metrics.begin(GET._replace(resource=f"r{number}", group="g", subresource="s")), 200)
    metrics.end(metrics.begin(GET._replace(resource="r0", group="g", subresource="s")), 200)
    found = values(metrics, "apiserver_request", "group", "version", "resource", "subresource")
    assert len(found) == MOST_SERIES + 1
    assert found["g", "v1", "r0", "s"] == 2
    assert found["", "", "", ""] == 1
    assert ("g", "v1", f"r{MOST_SERIES - 1}", "s") in found


def test_events_of_watches_are_counted_by_kind(metrics: ServerMetrics) -> None:
    table = KindTable()
    for kind, number in ((table.of("v1", "Pod"), 2), (table.of("v1", "Pod"), 3), (table.of("v1", "Node"), 1)):
        assert kind is not None
        metrics.watch_events(kind, number)
    assert values(metrics, "apiserver_watch_events", "group", "version", "resource") == {
        ("", "v1", "pods"): 5,
        ("", "v1", "nodes"): 1,
    }
    metrics._events = {("g", "v1", f"r{number}"): 1 for number in range(MOST_SERIES)}
    for name in ("Pod", "Node"):
        kind = table.of("v1", name)
        assert kind is not None
        metrics.watch_events(kind, 1)
    assert values(metrics, "apiserver_watch_events", "group", "version", "resource")["", "", ""] == 2


def test_objects_are_counted_at_each_scrape(metrics: ServerMetrics) -> None:
    store = metrics._registry.store
    for name in "ab":
        store.put("apps/deployments", "n", name, {"metadata": {"name": name}}, None)
    store.flush()
    counts = values(metrics, "apiserver_resource_objects", "group", "resource")
    assert counts == {("apps", "deployments"): 2}
    assert values(metrics, "apiserver_storage_objects", "resource") == {("deployments.apps",): 2}
    everything = {tuple(s.labels.values()) for s in family(metrics, "apiserver_resource_objects").samples}
    assert ("", "pods") in everything, "what there is none of is 0"
    assert ("authorization.k8s.io", "subjectaccessreviews") not in everything


def test_all_of_it_is_text_for_a_scraper(metrics: ServerMetrics) -> None:
    metrics.end(metrics.begin(GET), 200)
    text = metrics.render().decode()
    for name in ("apiserver_request_total", "apiserver_request_duration_seconds_bucket", "process_cpu_seconds_total"):
        assert f"\n{name}" in text
