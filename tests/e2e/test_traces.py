"""What a session under `reprieve up` leaves to be seen: metrics, conditions, nominations, events and the log."""

from __future__ import annotations

import base64
import urllib.request
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.e2e.cluster import (
    CLASSES,
    GROUPS,
    PODS,
    Up,
    condition,
    eventually,
    nodes_file,
    pod,
    pod_group,
    priority_class,
    up,
)
from tests.waiting import DEADLINE

HERE = {"namespace": "default"}
METRICS = {
    "scheduler_schedule_attempts_total",
    "scheduler_scheduling_attempt_duration_seconds_count",
    "scheduler_scheduling_algorithm_duration_seconds_count",
    "scheduler_pod_scheduling_sli_duration_seconds_count",
    "scheduler_pod_scheduling_attempts_count",
    "scheduler_pending_pods",
    "scheduler_pending_entities",
    "scheduler_queue_incoming_pods_total",
    "scheduler_framework_extension_point_duration_seconds_count",
    "scheduler_plugin_execution_duration_seconds_count",
    "scheduler_preemption_attempts_total",
    "scheduler_preemption_victims_count",
    "scheduler_preemption_goroutines_duration_seconds_count",
    "scheduler_preemption_goroutines_execution_total",
    "scheduler_podgroup_schedule_attempts_total",
    "scheduler_podgroup_scheduling_attempt_duration_seconds_count",
    "scheduler_podgroup_scheduling_algorithm_duration_seconds_count",
    "scheduler_podgroup_preemption_attempts_total",
    "scheduler_podgroup_preemption_attempt_duration_seconds_count",
    "scheduler_podgroup_preemption_victims_count",
    "scheduler_podgroup_preemption_reprieved_total",
    "scheduler_workload_preemption_victims_count",
    "scheduler_preemption_workload_disruptions_count",
    "scheduler_preemption_pdb_violations_total",
    "scheduler_batch_attempts_total",
    "scheduler_cache_size",
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
}
"""Every name of observability.md "Metrics"; a histogram by its count."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Two nodes; a gang evicted as a whole for a pod, a pod with a budget evicted for a gang, a pod that never fits."""
    directory = tmp_path_factory.mktemp("traces")
    with up(directory, f"--nodes-file={nodes_file(directory, 'n1', 'n2')}", "--verbose") as running:
        api, pods = running.api, PODS.format(**HERE)
        for name, value in (("low", 10), ("middle", 100), ("high", 1000)):
            api.create(CLASSES, priority_class(name, value))
        api.create(GROUPS.format(**HERE), pod_group("old", 2, priority="low", mode="all"))
        for index in range(2):
            api.create(pods, pod(f"old-{index}", cpu="3", priority="low", group="old"))
        eventually(lambda: api.runs("old-0", "old-1"), "the first gang")
        api.create(pods, pod("huge", cpu="64", priority="high"))
        api.create(pods, pod("one", cpu="3", priority="middle", node="n1", labels={"app": "one"}))
        eventually(lambda: api.runs("one"), "the pod that needs the gang's room")
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "one"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "one"}}},
        }
        budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        api.create(budgets, budget)
        eventually(lambda: api.get(f"{budgets}/one").get("status", {}).get("currentHealthy") == 1, "the budget counted")
        running.heard(api.get(f"{budgets}/one"))
        api.create(pods, pod("spared", cpu="100m", priority="low", node="n2"))
        eventually(lambda: api.runs("spared"), "a pod that need not go")
        api.create(GROUPS.format(**HERE), pod_group("new", 2, priority="high"))
        for index in range(2):
            api.create(pods, pod(f"new-{index}", cpu="3", priority="high", group="new"))
        eventually(lambda: api.runs("new-0", "new-1"), "the second gang")
        # What comes and goes wakes the pod that never fits, again and again.
        for index in range(12):
            api.create(pods, pod(f"short-{index}", cpu="100m", annotations={"reprieve.dev/start-seconds": "0"}))
            eventually(lambda name=f"short-{index}": api.runs(name), "a pod that fits")  # type: ignore[misc]
            api.delete(f"{pods}/short-{index}")
        eventually(lambda: api.gone(*(f"short-{index}" for index in range(12))), "the short ones gone")
        yield running


def test_every_metric_of_the_list_has_a_value(session: Up) -> None:
    """observability.md "Metrics", after a session in which each of them had something to count."""
    with urllib.request.urlopen(f"{session.scheduler_url}/metrics", timeout=DEADLINE) as answer:
        lines = answer.read().decode().splitlines()
    values: defaultdict[str, float] = defaultdict(float)
    for line in lines:
        if not line.startswith("#"):
            sample, _, value = line.rpartition(" ")
            values[sample.partition("{")[0]] += float(value)
    assert METRICS - set(values) == set()
    assert {name for name in METRICS if values[name] == 0} == set()
    assert session.metric("scheduler_cache_size", type="nodes") == 2
    assert session.metric("scheduler_preemption_victims_sum") == 2, "the first gang was evicted as a whole"
    assert session.metric("scheduler_preemption_workload_disruptions_sum", preemptor="pod") == 1
    assert session.metric("scheduler_preemption_pdb_violations_total", preemptor="podgroup") == 1
    assert session.metric("scheduler_podgroup_preemption_reprieved_total") == 1
    # But for the moments in which the one that waits is tried again.
    eventually(lambda: [session.metric("scheduler_pending_pods", queue=name) for name in ("active", "gated")] == [0, 0])
    eventually(
        lambda: sum(session.metric("scheduler_pending_pods", queue=name) for name in ("unschedulable", "backoff")) == 1
    )


def test_nothing_stale_is_left_when_things_have_settled(session: Up) -> None:
    """observability.md "Conditions": nominations go when they are no longer true."""
    api = session.api
    found = api.pods()
    assert set(found) == {"huge", "new-0", "new-1", "spared"}
    assert [name for name, one in found.items() if one["status"].get("nominatedNodeName")] == []
    for name in ("new-0", "new-1", "spared"):
        assert condition(found[name], "PodScheduled")["status"] == "True"
        assert condition(found[name], "DisruptionTarget") == {}
    assert condition(found["huge"], "PodScheduled")["reason"] == "Unschedulable"
    # Written beside the bindings.
    eventually(lambda: condition(api.group("new") or {}, "PodGroupInitiallyScheduled").get("reason") == "Scheduled")
    assert condition(api.group("new") or {}, "DisruptionTarget") == {}


def test_pod_that_waits_does_not_flood_the_events(session: Up) -> None:
    """observability.md "Events": aggregated as client-go does, one series per pod, reason and message."""
    told = [event for event in session.api.events("FailedScheduling") if event["regarding"]["name"] == "huge"]
    assert len({event["note"] for event in told}) == len(told), "a repeated event for the same message"
    assert len(told) <= 5


def test_log_has_a_line_per_decision_and_no_secret(session: Up) -> None:
    lines = session.log.read_text().splitlines()
    placed = [line for line in lines if "Decided pod=default/one " in line and "result=scheduled" in line]
    assert len(placed) == 1
    text = "\n".join(lines)
    token = session.api.config["users"][0]["user"]["token"]
    assert token not in text
    assert base64.b64encode(token.encode()).decode() not in text
    assert "Traceback" not in text
