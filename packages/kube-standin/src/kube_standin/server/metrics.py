"""``/metrics`` of the server: names, labels and buckets of kube-apiserver 1.36, in Prometheus' text format.

Requests are counted when they end; gauges (objects, requests in flight) are read when metrics are scraped. Invariants:
every request is counted once. Label values are verbs, codes, and currently served resources, never text of a client. At
most ``MOST_SERIES`` combinations are distinguished, as clients with the right to define resources could create any
number: later ones are counted without their resource.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple
from urllib.parse import parse_qs

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from kube_standin.flow_control import nominal_seats
from kube_standin.kinds import ServedKind
from kube_standin.registry import ObjectRegistry
from kube_standin.server.target import Target

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST_SERIES = 1000
_COMPONENT = "apiserver"
_BUCKETS = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
)  # fmt: skip
_BOUNDS = (*map(str, _BUCKETS), "+Inf")
_METHODS = frozenset(("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_READS = frozenset(("GET", "LIST", "WATCH", "HEAD"))
_APPLY = "application/apply-patch"


class Labels(NamedTuple):
    """The labels of a request, except its code."""

    verb: str
    dry_run: str
    group: str
    version: str
    resource: str
    subresource: str
    scope: str
    component: str = _COMPONENT

    @property
    def long_running(self) -> tuple[str, ...]:
        """Return the labels of a long-running request."""
        return (self.verb, self.group, self.version, self.resource, self.subresource, self.scope, self.component)


_LONG_RUNNING = ("verb", "group", "version", "resource", "subresource", "scope", "component")


def labels_of(target: Target, kind: ServedKind | None, content_type: str, query: bytes, paths: Iterable[str]) -> Labels:
    """Return the labels of a request; ``kind`` is the kind of its path, None if that is not served.

    ``paths`` are the paths without a resource that are counted under their name.
    """
    verb, dry_run = _verb(target, content_type), _dry_run(query)
    if not target.resource:
        path = target.path.rstrip("/") or "/"
        return Labels(verb, dry_run, "", "", "", path if path in paths else "", "")
    scope = "namespace" if target.namespace else "cluster"
    if target.name or target.verb == "create":
        scope = "resource"
    if kind is None:
        return Labels(verb, dry_run, "", "", "", "", scope)
    subresource = target.subresource if target.subresource in kind.subresources else ""
    return Labels(verb, dry_run, kind.group, kind.version, kind.plural, subresource, scope)


def _verb(target: Target, content_type: str) -> str:
    if target.method not in _METHODS and target.method != "HEAD":
        return "other"
    if target.resource and target.method in ("GET", "HEAD"):
        return "WATCH" if target.watch else target.verb.upper()
    if target.method == "HEAD":
        return "GET"
    if target.verb == "deletecollection":
        return "DELETECOLLECTION"
    return "APPLY" if target.method == "PATCH" and content_type.startswith(_APPLY) else target.method


def _dry_run(query: bytes) -> str:
    if b"dryRun" not in query:
        return ""
    values = parse_qs(query.decode("latin-1"), keep_blank_values=True).get("dryRun", [])
    return "" if not values or values == [""] else ("All" if set(values) == {"All"} else "invalid")


class _Distribution:
    """A histogram of seconds."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(_BUCKETS, seconds)] += 1
        self.total += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        out: list[tuple[str, float]] = []
        sum_so_far = 0
        for bound, count in zip(_BOUNDS, self.counts, strict=True):
            sum_so_far += count
            out.append((bound, sum_so_far))
        return out


class MeasuredRequest:
    """One request in flight; :meth:`ServerMetrics.end` records its outcome."""

    __slots__ = ("labels", "lasting", "mutating", "started")

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self.started = time.perf_counter()
        self.mutating = labels.verb not in _READS
        self.lasting = labels.verb == "WATCH"


class ServerMetrics(Collector):
    """The metrics of one server."""

    def __init__(self, registry: ObjectRegistry) -> None:
        self._registry = registry
        self._requests: dict[Labels, dict[int, int]] = {}
        self._durations: dict[Labels, _Distribution] = {}
        self._lasting: dict[tuple[str, ...], int] = {}
        self._inflight = {False: 0, True: 0}
        self._events: dict[tuple[str, str, str], int] = {}
        self._collectors = CollectorRegistry(auto_describe=False)
        self._collectors.register(self)
        ProcessCollector(registry=self._collectors)

    def begin(self, labels: Labels) -> MeasuredRequest:
        """Record the start of a request."""
        if labels not in self._requests and len(self._requests) >= MOST_SERIES:
            labels = labels._replace(group="", version="", resource="", subresource="")
        measured = MeasuredRequest(labels)
        if measured.lasting:
            self._lasting[labels.long_running] = self._lasting.get(labels.long_running, 0) + 1
        else:
            self._inflight[measured.mutating] += 1
        return measured

    def end(self, measured: MeasuredRequest, code: int) -> None:
        """Count a request that ended with ``code``."""
        labels = measured.labels
        codes = self._requests.setdefault(labels, {})
        codes[code] = codes.get(code, 0) + 1
        distribution = self._durations.get(labels)
        if distribution is None:
            distribution = self._durations[labels] = _Distribution()
        distribution.add(time.perf_counter() - measured.started)
        if measured.lasting:
            self._lasting[labels.long_running] -= 1
        else:
            self._inflight[measured.mutating] -= 1

    def watch_events(self, kind: ServedKind, number: int) -> None:
        """Count events that were sent to a watcher of ``kind``."""
        key = (kind.group, kind.version, kind.plural)
        if key not in self._events and len(self._events) >= MOST_SERIES:
            key = ("", "", "")
        self._events[key] = self._events.get(key, 0) + number

    def render(self) -> bytes:
        """Return all metrics in the format ``CONTENT_TYPE``."""
        return generate_latest(self._collectors)

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families (for Prometheus' client library)."""
        yield self._request_total()
        yield self._request_duration()
        yield _gauge(
            "apiserver_longrunning_requests",
            "Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope "
            "and component.",
            _LONG_RUNNING,
            self._lasting,
        )
        yield _gauge(
            "apiserver_current_inflight_requests",
            "Requests under way, without watches, per request kind.",
            ("request_kind",),
            {("readOnly",): self._inflight[False], ("mutating",): self._inflight[True]},
        )
        events = CounterMetricFamily(
            "apiserver_watch_events", "Number of events sent in watch clients", labels=("group", "version", "resource")
        )
        for key, number in self._events.items():
            events.add_metric(key, number)
        yield events
        yield _gauge(
            "apiserver_flowcontrol_nominal_limit_seats",
            "Nominal number of execution seats configured for each priority level. No request is limited.",
            ("priority_level",),
            dict(islice(nominal_seats(self._registry.store).items(), MOST_SERIES)),
        )
        yield from self._objects()

    def _request_total(self) -> Metric:
        family = CounterMetricFamily(
            "apiserver_request",
            "Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, "
            "component, and HTTP response code.",
            labels=(*Labels._fields, "code"),
        )
        for labels, codes in self._requests.items():
            for code, number in codes.items():
                family.add_metric((*labels, str(code)), number)
        return family

    def _request_duration(self) -> Metric:
        family = HistogramMetricFamily(
            "apiserver_request_duration_seconds",
            "Response latency distribution in seconds for each verb, dry run value, group, version, resource, "
            "subresource, scope and component.",
            labels=Labels._fields,
        )
        for labels, distribution in self._durations.items():
            family.add_metric(labels, distribution.cumulative(), distribution.total)
        return family

    def _objects(self) -> Iterator[Metric]:
        counts: dict[tuple[str, ...], int] = {}
        by_name: dict[tuple[str, ...], int] = {}
        for kind in self._registry.kinds:
            if kind.stored:
                count = self._registry.store.count(kind.storage_key)
                by_name[(kind.resource,)] = counts[(kind.group, kind.plural)] = count
        yield _gauge("apiserver_resource_objects", "Number of stored objects.", ("group", "resource"), counts)
        yield _gauge(
            "apiserver_storage_objects",
            "[DEPRECATED, consider using apiserver_resource_objects instead] Number of stored objects.",
            ("resource",),
            by_name,
        )


def _gauge(name: str, text: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family
