"""Metrics for kube-scheduler dashboards besides decisions: requests, watches, leadership, tasks, hints, the build.

Names, labels and buckets are those of client-go, component-base and kube-scheduler (observability.md, "Metrics").
Events and hints are timed by watching the queue (`reprieve.queueing.hints.QueueWatch`).

Invariants: labels come from fixed sets, from the configuration or from the server's address, never from objects.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import distribution
from platform import machine, python_implementation, python_version, system
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kube_rules.versions import KUBERNETES_VERSION
from reprieve.framework.events import EventKind
from reprieve.observability.metrics import event_label, exponential, with_samples
from reprieve.queueing.queue import SchedulingQueue

QUEUED: Final = "Queue"
SKIPPED: Final = "QueueSkip"
_REQUEST_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_UNANSWERED: Final = "<error>"
_REVISION_DIGITS: Final = 15
"""Number of trailing digits of a resource version that are exposed: a sample is a double."""

ResourceRevisions = Mapping[tuple[str, str, str], str]
"""(API group, version, plural) of a resource -> the `resourceVersion` up to which it was observed."""


def build_labels() -> dict[str, str]:
    """Return the labels of `kubernetes_build_info`, named as in component-base's `metrics/prometheus/version`.

    The commit is known only if the package was installed from a repository. The build date is unknown.
    """
    package = distribution("reprieve")
    try:
        origin = json.loads(package.read_text("direct_url.json") or "{}")
    except ValueError:
        origin = {}
    source = origin.get("vcs_info") if isinstance(origin, dict) else None
    commit = source.get("commit_id") if isinstance(source, dict) else None
    commit = commit if isinstance(commit, str) else ""
    major, minor = KUBERNETES_VERSION.split(".")[:2]
    return {
        "major": major,
        "minor": minor,
        "git_version": f"v{KUBERNETES_VERSION}+reprieve.{package.version}",
        "git_commit": commit,
        "git_tree_state": "clean" if commit else "",
        "build_date": "",
        "go_version": f"python{python_version()}",
        "compiler": python_implementation(),
        "platform": f"{system().lower()}/{machine()}",
    }


class RuntimeMetrics:
    """See the module docstring. `clock`: monotonic seconds."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._tasks: dict[str, Callable[[], int]] = {}
        self._inflight: Callable[[], Mapping[str, int]] = dict
        self._informers: dict[str, Callable[[], ResourceRevisions]] = {}
        registry.register(_RuntimeState(self))

        def histogram(name: str, text: str, bounds: Sequence[float], labels: Sequence[str]) -> Histogram:
            return Histogram(name, text, labels, buckets=bounds, registry=registry)

        self._requests = Counter(
            "rest_client_requests",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            ["code", "method", "host"],
            registry=registry,
        )
        self._request_seconds = histogram(
            "rest_client_request_duration_seconds",
            "Request latency in seconds. Broken down by verb, and host.",
            _REQUEST_SECONDS,
            ["verb", "host"],
        )
        self._limiter_seconds = histogram(
            "rest_client_rate_limiter_duration_seconds",
            "Client side rate limiter latency in seconds. Broken down by verb, and host.",
            _REQUEST_SECONDS,
            ["verb", "host"],
        )
        self._leads = Gauge(
            "leader_election_master_status",
            "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. "
            "'name' is the string used to identify the lease.",
            ["name"],
            registry=registry,
        )
        self._event_seconds = histogram(
            "scheduler_event_handling_duration_seconds",
            "Event handling latency in seconds: the time to notify all waiting entities.",
            exponential(0.0001, 2, 12),
            ["event"],
        )
        self._hint_seconds = histogram(
            "scheduler_queueing_hint_execution_duration_seconds",
            "Duration for running a queueing hint function of a plugin.",
            exponential(0.00001, 1.5, 20),
            ["plugin", "event", "hint"],
        )
        build = build_labels()
        Gauge(
            "kubernetes_build_info",
            "A metric with a constant '1' value labeled by the Kubernetes version that this scheduler follows and by "
            "its own version: git_version is vKUBERNETES+reprieve.VERSION. Unknown build labels are empty.",
            list(build),
            registry=registry,
        ).labels(**build).set(1)

    # -- requests (`reprieve.client.transport.RequestWatch`) -------------------------------------------------------

    def held_back(self, method: str, host: str, seconds: float) -> None:
        """Record how long a request waited for the rate limiter."""
        self._limiter_seconds.labels(method, host).observe(seconds)

    def answered(self, method: str, host: str, code: int | None, seconds: float) -> None:
        """Record the answer to a request, or (None) that there was none."""
        self._requests.labels(_UNANSWERED if code is None else str(code), method, host).inc()
        self._request_seconds.labels(method, host).observe(seconds)

    # -- the process -----------------------------------------------------------------------------------------------

    def reads_leadership(self, lease: str, leads: Callable[[], bool]) -> None:
        """Set the function that returns whether this candidate is the leader."""
        self._leads.labels(lease).set_function(lambda: float(leads()))

    def counts_tasks(self, operation: str, count: Callable[[], int]) -> None:
        """Set the function that returns the number of tasks of a kind."""
        self._tasks[operation] = count

    def reads_revisions(self, name: str, revisions: Callable[[], ResourceRevisions]) -> None:
        """Set the function that returns the observed revisions of the informers called `name`."""
        self._informers[name] = revisions

    # -- the queue -------------------------------------------------------------------------------------------------

    def attach(self, queue: SchedulingQueue) -> None:
        """Time the events that the queue handles and the hints that it calls (`QueueWatch`)."""

        def inflight() -> Mapping[str, int]:
            counts: dict[str, int] = {}
            for kind, count in queue.kept_events().items():
                label = event_label(kind)
                counts[label] = counts.get(label, 0) + count
            return counts

        queue.watched_by(self)
        self._inflight = inflight

    @contextmanager
    def event(self, kind: EventKind) -> Iterator[None]:
        """Time the handling of an event."""
        began = self._clock()
        try:
            yield
        finally:
            self._event_seconds.labels(event_label(kind)).observe(self._clock() - began)

    def hint(self, plugin: str, kind: EventKind, ask: Callable[[], bool]) -> bool:
        """Time the hint of a plugin and return its answer."""
        began = self._clock()
        answer = ask()
        labels = (plugin, event_label(kind), QUEUED if answer else SKIPPED)
        self._hint_seconds.labels(*labels).observe(self._clock() - began)
        return answer

    def read(self) -> Iterable[Metric]:
        """Yield the metrics of the current state."""
        tasks = GaugeMetricFamily(
            "scheduler_goroutines",
            "Number of running tasks (asyncio) split by the work they do such as binding.",
            labels=["operation"],
        )
        yield with_samples(tasks, (([operation], count()) for operation, count in self._tasks.items()))
        inflight = GaugeMetricFamily(
            "scheduler_inflight_events",
            "Number of events kept for entities that are in their cycle or wait for the end of their preemption.",
            labels=["event"],
        )
        yield with_samples(inflight, (([event], number) for event, number in self._inflight().items()))
        observed = GaugeMetricFamily(
            "informer_store_resource_version",
            "The 15 least significant digits of the resource version of the store.",
            labels=["name", "group", "version", "resource"],
        )
        for name, revisions in self._informers.items():
            for labels, revision in revisions().items():
                if revision.isdecimal():
                    observed.add_metric([name, *labels], int(revision[-_REVISION_DIGITS:]))
        yield observed


class _RuntimeState(Collector):
    """Collects the metrics that are read on each scrape."""

    def __init__(self, metrics: RuntimeMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics.read()
