"""Requests, leadership, tasks, events, hints and the build, as dashboards of kube-scheduler draw them.

observability.md 3.5 and 3.7; names, labels and buckets of client-go, component-base and kube-scheduler.
"""

from __future__ import annotations

import itertools

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.observability.resource_metrics import pod_resources, rendered
from reprieve.observability.runtime_metrics import RuntimeMetrics, build_labels
from tests.building import World, node, pod
from tests.observability.watching import Observed, value


def scraped(registry: CollectorRegistry) -> list[Sample]:
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return [sample for family in families for sample in family.samples]


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry(auto_describe=False)


@pytest.fixture
def runtime(registry: CollectorRegistry) -> RuntimeMetrics:
    return RuntimeMetrics(registry, clock=itertools.count().__next__)


def test_requests_by_code_method_and_host(registry: CollectorRegistry, runtime: RuntimeMetrics) -> None:
    """observability.md 3.5."""
    for code in (200, 200, 409, None):
        runtime.answered("POST", "api:6443", code, 0.3)
    runtime.held_back("POST", "api:6443", 1.5)
    seen = scraped(registry)
    for shown, count in (("200", 2), ("409", 1), ("<error>", 1)):
        labels = {"code": shown, "method": "POST", "host": "api:6443"}
        assert value(seen, "rest_client_requests_total", labels) == count
    verb = {"verb": "POST", "host": "api:6443"}
    assert value(seen, "rest_client_request_duration_seconds_bucket", {**verb, "le": "0.25"}) == 0
    assert value(seen, "rest_client_request_duration_seconds_bucket", {**verb, "le": "0.5"}) == 4
    assert value(seen, "rest_client_rate_limiter_duration_seconds_bucket", {**verb, "le": "2.0"}) == 1


REQUESTS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)


def test_buckets_are_those_of_client_go_and_kube_scheduler(registry: CollectorRegistry) -> None:
    """observability.md 3.5: component-base, metrics/prometheus/restclient; pkg/scheduler/metrics."""
    runtime = RuntimeMetrics(registry, clock=itertools.count().__next__)
    runtime.answered("GET", "h", 200, 0.1)
    runtime.held_back("GET", "h", 0.1)
    world = World(node("n", cpu=1), pod("p", cpu=2)).drain()
    runtime.attach(world.engine.queue)
    world.engine.queue.on_event(ClusterEvent(EventKind.NODE_CHANGED, row=world.row("n")), world.now)
    buckets: dict[str, list[float]] = {}
    for sample in scraped(registry):
        if sample.name.endswith("_bucket"):
            buckets.setdefault(sample.name.removesuffix("_bucket"), []).append(float(sample.labels["le"]))
    wanted = {
        "rest_client_request_duration_seconds": REQUESTS,
        "rest_client_rate_limiter_duration_seconds": REQUESTS,
        "scheduler_event_handling_duration_seconds": [0.0001 * 2**i for i in range(12)],
        "scheduler_queueing_hint_execution_duration_seconds": [0.00001 * 1.5**i for i in range(20)],
    }
    assert buckets == {name: pytest.approx([*bounds, float("inf")]) for name, bounds in wanted.items()}


def test_durations_are_what_was_measured(registry: CollectorRegistry, runtime: RuntimeMetrics) -> None:
    """Every look at the clock is a second here: a hint takes one, the event around it three."""
    runtime.answered("GET", "h", 200, 0.3)
    runtime.held_back("GET", "h", 1.5)
    world = World(node("n", cpu=1), pod("p", cpu=2)).drain()
    runtime.attach(world.engine.queue)
    world.engine.queue.on_event(ClusterEvent(EventKind.NODE_CHANGED, row=world.row("n")), world.now)
    sums = {s.name: s.value for s in scraped(registry) if s.name.endswith("_sum")}
    assert sums == {
        "rest_client_request_duration_seconds_sum": 0.3,
        "rest_client_rate_limiter_duration_seconds_sum": 1.5,
        "scheduler_event_handling_duration_seconds_sum": 3,
        "scheduler_queueing_hint_execution_duration_seconds_sum": 1,
    }


def test_leadership_and_tasks_are_read_when_scraped(registry: CollectorRegistry, runtime: RuntimeMetrics) -> None:
    """observability.md 3.5."""
    leads = [False]
    tasks: list[int] = []
    runtime.reads_leadership("reprieve", lambda: leads[0])
    runtime.counts_tasks("binding", lambda: len(tasks))

    def now() -> tuple[float | None, float | None]:
        seen = scraped(registry)
        return (
            value(seen, "leader_election_master_status", {"name": "reprieve"}),
            value(seen, "scheduler_goroutines", {"operation": "binding"}),
        )

    assert now() == (0, 0)
    leads[0], tasks[:] = True, [1, 2]
    assert now() == (1, 2)


def test_how_far_each_watch_is_is_read_when_scraped(registry: CollectorRegistry, runtime: RuntimeMetrics) -> None:
    """observability.md 3.5: the last 15 digits of it; a server's revisions need not be numbers."""
    pods, groups, odd = ("", "v1", "pods"), ("scheduling.k8s.io", "v1beta1", "podgroups"), ("", "v1", "nodes")
    revisions: dict[tuple[str, str, str], str] = {}
    runtime.reads_revisions("reprieve-scheduler", lambda: revisions)

    def now(group: str, version: str, resource: str) -> float | None:
        labels = {"name": "reprieve-scheduler", "group": group, "version": version, "resource": resource}
        return value(scraped(registry), "informer_store_resource_version", labels)

    assert now(*pods) is None
    revisions |= {pods: "41", groups: "7000000000000042", odd: "a1"}
    assert (now(*pods), now(*groups), now(*odd)) == (41, 42, None)
    revisions[pods] = "43"
    assert now(*pods) == 43


def test_build_names_the_kubernetes_version_it_behaves_as(registry: CollectorRegistry, runtime: RuntimeMetrics) -> None:
    """observability.md 3.5."""
    (build,) = [sample for sample in scraped(registry) if sample.name == "kubernetes_build_info"]
    assert (build.labels["major"], build.labels["minor"]) == ("1", "38")
    assert build.labels["git_version"].startswith("v1.38.0+reprieve.")
    assert build.value == 1
    assert set(build.labels) == {
        *("major", "minor", "git_version", "git_commit", "git_tree_state", "build_date"),
        *("go_version", "compiler", "platform"),
    }


@pytest.mark.parametrize(
    ("origin", "commit", "state"),
    [
        ('{"url": "https://example.com/r", "vcs_info": {"vcs": "git", "commit_id": "0a1b2c"}}', "0a1b2c", "clean"),
        ('{"url": "file:///r", "dir_info": {"editable": true}}', "", ""),
        (None, "", ""),
        ("not json", "", ""),
        ("[]", "", ""),
    ],
)
def test_build_names_its_commit_where_the_package_knows_it(
    monkeypatch: pytest.MonkeyPatch, origin: str | None, commit: str, state: str
) -> None:
    """observability.md 3.5: what is not known of the build is empty and not made up."""

    class Package:
        version = "9.9"

        def read_text(self, _name: str) -> str | None:
            return origin

    monkeypatch.setattr("reprieve.observability.runtime_metrics.distribution", lambda _name: Package())
    labels = build_labels()
    assert (labels["git_commit"], labels["git_tree_state"], labels["build_date"]) == (commit, state, "")
    assert labels["git_version"].endswith("+reprieve.9.9")


def test_events_and_hints_are_timed_and_decide_as_before(registry: CollectorRegistry, runtime: RuntimeMetrics) -> None:
    """observability.md 3.5: a pod that goes wakes one that waits for its room; a node's label does not."""
    world = World(node("n", cpu=1), pod("r", cpu=1, node="n", priority=9), pod("p", cpu=1)).drain()
    runtime.attach(world.engine.queue)
    world.virtual.now += 20
    world.gone("r")
    assert world.settle().where == {"p": "n"}
    seen = scraped(registry)
    assert value(seen, "scheduler_event_handling_duration_seconds_count", {"event": "AssignedPodDelete"}) == 1
    asked = {"plugin": "NodeResourcesFit", "event": "AssignedPodDelete", "hint": "Queue"}
    assert value(seen, "scheduler_queueing_hint_execution_duration_seconds_count", asked) == 1


def test_hints_that_skip_are_counted_apart(registry: CollectorRegistry, runtime: RuntimeMetrics) -> None:
    """observability.md 3.5."""
    world = World(node("n", cpu=1), pod("p", cpu=2)).drain()
    runtime.attach(world.engine.queue)
    world.engine.queue.on_event(ClusterEvent(EventKind.NODE_CHANGED, row=world.row("n")), world.now)
    labels = {"plugin": "NodeResourcesFit", "event": "NodeUpdate", "hint": "QueueSkip"}
    assert value(scraped(registry), "scheduler_queueing_hint_execution_duration_seconds_count", labels) == 1


def test_events_that_are_kept_for_a_cycle_under_way_are_counted(
    registry: CollectorRegistry, runtime: RuntimeMetrics
) -> None:
    """observability.md 3.5."""
    world = World(node("n", cpu=1), pod("p", cpu=1))
    queue = world.engine.queue
    runtime.attach(queue)
    entity = queue.pop(world.now)
    assert entity is not None
    for _ in range(3):
        queue.on_event(ClusterEvent(EventKind.POD_GONE, row=world.row("n")), world.now)
    assert value(scraped(registry), "scheduler_inflight_events", {"event": "AssignedPodDelete"}) == 3
    queue.requeue(entity, world.now, {"NodeResourcesFit"})
    assert value(scraped(registry), "scheduler_inflight_events", {"event": "AssignedPodDelete"}) is None


def test_plugins_are_counted_by_attempt_and_extension_point() -> None:
    """observability.md 3.5: each of the attempts that are timed stands for ten."""
    seen = Observed(node("n1", cpu=100), *(pod(f"p{i}", cpu=1) for i in range(11))).settle()
    labels = {"plugin": "NodeResourcesFit", "profile": "default-scheduler"}
    for point in ("Filter", "Score"):
        assert seen.value("scheduler_plugin_evaluation_total", extension_point=point, **labels) == 20


def test_requests_of_pods_by_resource() -> None:
    """observability.md 3.7."""
    world = World(
        node("n1", cpu=8, memory="8Gi"),
        pod("there", cpu="1500m", memory="1Gi", node="n1", priority=7),
        pod("waits", cpu=2, priority=1),
    )
    text = rendered(*pod_resources(world.engine)).decode()
    seen = [s for family in text_string_to_metric_families(text) for s in family.samples]
    where = {"namespace": "default", "pod": "there", "node": "n1", "scheduler": "default-scheduler", "priority": "7"}
    assert value(seen, "kube_pod_resource_request", {**where, "resource": "cpu", "unit": "cores"}) == 1.5
    assert value(seen, "kube_pod_resource_request", {**where, "resource": "memory", "unit": "bytes"}) == 1 << 30
    waits = {**where, "pod": "waits", "node": "", "priority": "1", "resource": "cpu", "unit": "cores"}
    assert value(seen, "kube_pod_resource_request", waits) == 2


def test_all_that_pods_ask_for_but_room_for_themselves() -> None:
    """observability.md 3.7: cores, bytes and whole numbers; nothing that is nought, and not that a pod is a pod."""
    more: dict[str, int | str] = {
        "ephemeral-storage": "1Gi",
        "hugepages-2Mi": "4Mi",
        "example.com/nic": 3,
        "example.com/none": 0,
    }
    world = World(
        node("n1", cpu=8, gpu=2, more={**more, "example.com/none": 1}),
        pod("a", cpu="250m", memory="1Mi", gpu=2, more=more),
    )
    text = rendered(*pod_resources(world.engine)).decode()
    (family,) = text_string_to_metric_families(text)
    assert (family.name, family.type, bool(family.documentation)) == ("kube_pod_resource_request", "gauge", True)
    assert {(s.labels["resource"], s.labels["unit"], s.value) for s in family.samples} == {
        ("cpu", "cores", 0.25),
        ("memory", "bytes", 1 << 20),
        ("ephemeral-storage", "bytes", 1 << 30),
        ("hugepages-2Mi", "bytes", 4 << 20),
        ("nvidia.com/gpu", "integer", 2),
        ("example.com/nic", "integer", 3),
    }


def test_metrics_have_no_series_for_unknown_schedulers() -> None:
    """`spec.schedulerName` is any text (observability.md 3.7); amounts keep all their digits."""
    name = 'x"} 1\nkube_pod_resource_request{pod="else\\'
    world = World(node("n1", cpu=8), pod("a", cpu="1234567m", scheduler=name))
    (family,) = text_string_to_metric_families(rendered(*pod_resources(world.engine)).decode())
    (sample,) = family.samples
    assert (sample.labels["scheduler"], sample.labels["pod"], sample.value) == (name, "a", 1234.567)
