"""Names, labels and buckets are kube-scheduler's (pkg/scheduler/metrics/metrics.go; observability.md, "Metrics")."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from kube_rules import objects
from reprieve.framework.events import EventKind
from reprieve.framework.plugin import Codes, CycleState, FilterPlugin, Rows, row_count
from reprieve.framework.status import FITS
from reprieve.observability.metrics import Metrics, attempts_label, event_label, exponential
from reprieve.queueing.timers import Timing
from reprieve.scheduling.decision import Binding, Decision, Result
from tests.building import START, annotated, bound_to, gang, group, node, pdb, pod, profile_with, without_gates
from tests.observability.watching import TOOK, Observed, read, value

PROFILE = "default-scheduler"
DOCUMENTED = Path(__file__).parents[4] / "docs/reference/metrics.md"

MILLISECONDS_15 = [0.001 * 2**i for i in range(15)]
MILLISECONDS_16 = [0.001 * 2**i for i in range(16)]
HUNDREDTHS_20 = [0.01 * 2**i for i in range(20)]
POWERS_5, POWERS_7, POWERS_11 = ([2.0**i for i in range(count)] for count in (5, 7, 11))
HISTOGRAMS = {
    "scheduler_scheduling_attempt_duration_seconds": (MILLISECONDS_15, {"result", "profile"}),
    "scheduler_scheduling_algorithm_duration_seconds": (MILLISECONDS_15, set()),
    "scheduler_pod_scheduling_sli_duration_seconds": (HUNDREDTHS_20, {"attempts"}),
    "scheduler_pod_scheduling_attempts": (POWERS_5, set()),
    "scheduler_framework_extension_point_duration_seconds": (
        [0.0001 * 2**i for i in range(12)],
        {"extension_point", "status", "profile"},
    ),
    "scheduler_plugin_execution_duration_seconds": (
        [0.00001 * 1.5**i for i in range(20)],
        {"plugin", "extension_point", "status"},
    ),
    "scheduler_permit_wait_duration_seconds": (MILLISECONDS_15, {"result"}),
    "scheduler_preemption_victims": (POWERS_7, set()),
    "scheduler_resize_scheduling_algorithm_duration_seconds": (MILLISECONDS_15, set()),
    "scheduler_resize_preemption_victims": (POWERS_7, set()),
    "scheduler_placement_evaluation_duration_seconds": (MILLISECONDS_15, {"result", "profile", "type"}),
    "scheduler_preemption_goroutines_duration_seconds": (HUNDREDTHS_20, {"result"}),
    "scheduler_preemption_evaluation_duration_seconds": (MILLISECONDS_16, {"preemptor", "result"}),
    "scheduler_preemption_execution_duration_seconds": (MILLISECONDS_16, {"preemptor", "result"}),
    "scheduler_podgroup_scheduling_attempt_duration_seconds": (MILLISECONDS_15, {"result", "profile"}),
    "scheduler_podgroup_scheduling_algorithm_duration_seconds": (MILLISECONDS_15, set()),
    "scheduler_podgroup_preemption_attempt_duration_seconds": (MILLISECONDS_16, set()),
    "scheduler_podgroup_preemption_victims": (POWERS_11, set()),
    "scheduler_workload_preemption_victims": (POWERS_11, set()),
    "scheduler_preemption_workload_disruptions": (POWERS_11, {"preemptor"}),
}
COUNTERS = {
    "scheduler_schedule_attempts_total": {"result", "profile"},
    "scheduler_queue_incoming_pods_total": {"queue", "event"},
    "scheduler_queue_incoming_entities_total": {"queue", "event", "type"},
    "scheduler_generated_placements_total": {"profile", "type"},
    "scheduler_placement_evaluations_total": {"result", "profile", "type"},
    "scheduler_resize_preemption_attempts_total": set[str](),
    "scheduler_plugin_evaluation_total": {"plugin", "extension_point", "profile"},
    "scheduler_preemption_attempts_total": set[str](),
    "scheduler_preemption_goroutines_execution_total": {"result"},
    "scheduler_podgroup_schedule_attempts_total": {"result", "profile"},
    "scheduler_podgroup_preemption_attempts_total": {"result"},
    "scheduler_podgroup_preemption_reprieved_total": set[str](),
    "scheduler_workload_preemption_attempts_total": {"result"},
    "scheduler_preemption_pdb_violations_total": {"preemptor"},
    "scheduler_preemption_evicted_pods_total": {"preemptor"},
    "scheduler_preemption_lost_gpu_seconds_total": {"preemptor"},
    "scheduler_batch_attempts_total": {"profile", "result"},
    "scheduler_podgroup_satisfaction_transitions_total": {"satisfied"},
    "reprieve_pod_group_restarts_total": set[str](),
    "reprieve_backfill_overruns_total": set[str](),
    "reprieve_moves_total": {"result"},
    "scheduler_trouble_total": {"where"},
    "scheduler_events_dropped_total": set[str](),
    "scheduler_decision_records_dropped_total": set[str](),
}
GAUGES = {
    "scheduler_pending_pods": {"queue"},
    "scheduler_pending_resize_pods": {"queue"},
    "scheduler_pending_entities": {"type", "queue"},
    "scheduler_queued_entities": {"type", "queue"},
    "scheduler_unschedulable_pods": {"plugin", "profile"},
    "scheduler_cache_size": {"type"},
    "scheduler_kept_entries": {"type"},
    "reprieve_reserved_idle_resources": {"resource"},
    "reprieve_degraded_pod_groups": set[str](),
}


def busy() -> Observed:
    """Every kind of attempt once: pods and gangs that fit, that preempt, that fail."""
    seen = Observed(
        node("n1", cpu=4),
        node("n2", cpu=4),
        pdb("held", {"app": "low"}),
        pod("low", cpu=3, node="n1", labels={"app": "low"}, start=1),
        *gang("old", 2, cpu=1, node="n2", whole=True),
        pod("high", cpu=4, priority=100),
        pod("huge", cpu=64),
        *gang("wide", 2, cpu=64, priority=5),
        *gang("new", 1, cpu=4, priority=50),
        node("n3", cpu=4, labels={"rack": "a"}, unschedulable=True),
        *gang("racked", 2, cpu=9, topology="rack"),
        deferred_resize("web", cpu=3, node="n3", priority=9),
        pod("spare", cpu=2, node="n3"),
    )
    seen.observer.trouble("events", "could not be sent")
    member = seen.world.record("high")
    seen.observer.decided(
        Decision("pod/uid-high", Result.SCHEDULED, waiting=(Binding(member, "n1", 0),), profile=PROFILE),
        seconds=TOOK,
        now=START,
    )
    seen.observer.permitted(member, "Success", now=START + 1)
    return seen.settle()


def test_names_labels_and_buckets_are_kube_schedulers() -> None:
    """Each has a line of help and a row in docs/reference/metrics.md, so that dashboards can count on it."""
    documented = DOCUMENTED.read_text()
    scraped = busy().observer.metrics.render().decode()
    families = {
        family.name + ("_total" if family.type == "counter" else ""): family
        for family in text_string_to_metric_families(scraped)
    }
    kinds = {
        **dict.fromkeys(HISTOGRAMS, "histogram"),
        **dict.fromkeys(COUNTERS, "counter"),
        **dict.fromkeys(GAUGES, "gauge"),
    }
    assert {name: family.type for name, family in families.items()} == kinds
    for name, family in families.items():
        assert f"`{name}`" in documented
        assert family.documentation.endswith("."), name
        assert family.samples, f"{name} was not observed"
        created = [sample.name for sample in family.samples if sample.name.endswith("_created")]
        assert created == [], "kube-scheduler's text has none; they would double the number of series"
    for name, wanted in {**COUNTERS, **GAUGES}.items():
        assert {frozenset(sample.labels) for sample in families[name].samples} == {frozenset(wanted)}, name
    for name, (bounds, labels) in HISTOGRAMS.items():
        series: dict[frozenset[tuple[str, str]], list[float]] = {}
        for sample in families[name].samples:
            if sample.name == f"{name}_bucket":
                assert set(sample.labels) == {*labels, "le"}, name
                of = frozenset((label, text) for label, text in sample.labels.items() if label != "le")
                series.setdefault(of, []).append(float(sample.labels["le"]))
        for found in series.values():
            assert found == pytest.approx([*bounds, float("inf")]), name


def test_process_metrics_are_there() -> None:
    names = {sample.name for sample in read(Metrics())}
    assert {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"} <= names


def test_pod_that_fits_counts_once_and_its_latency_includes_the_binding() -> None:
    seen = Observed(node("n1"), pod("a", cpu=1)).settle()
    assert seen.value("scheduler_schedule_attempts_total", result="scheduled", profile=PROFILE) == 1
    assert seen.value("scheduler_scheduling_attempt_duration_seconds_sum", result="scheduled") == pytest.approx(
        TOOK + 0.001, abs=1e-5
    )
    assert seen.value("scheduler_scheduling_algorithm_duration_seconds_sum") == pytest.approx(TOOK)
    assert seen.value("scheduler_pod_scheduling_attempts_sum") == 1
    assert seen.value("scheduler_pod_scheduling_sli_duration_seconds_count", attempts="1") == 1


def test_time_behind_a_gate_is_not_part_of_the_sli() -> None:
    """upstream: from the time the pod enters the queue, which it does not while it is gated."""
    seen = Observed(node("n1"), pod("a", cpu=1, gates=["wait"]))
    seen.settle()
    seen.world.virtual.now += 500
    seen.world.change_pod("a", without_gates)
    seen.settle()
    took = seen.value("scheduler_pod_scheduling_sli_duration_seconds_sum", attempts="1")
    assert took == pytest.approx(0.001, abs=1e-4)


def test_failed_attempts_count_towards_the_one_that_succeeds() -> None:
    seen = Observed(node("n1", cpu=1), pod("a", cpu=2), timing=Timing(flush_after=60)).settle()
    assert seen.value("scheduler_schedule_attempts_total", result="unschedulable", profile=PROFILE) == 1
    seen.world.add(node("n2", cpu=4))
    seen.settle()
    assert seen.value("scheduler_schedule_attempts_total", result="scheduled", profile=PROFILE) == 1
    assert seen.value("scheduler_pod_scheduling_attempts_sum") == 2
    assert seen.value("scheduler_pod_scheduling_sli_duration_seconds_count", attempts="2") == 1


def test_failed_binding_is_an_error() -> None:
    seen = Observed(node("n1"))
    seen.world.add(pod("a", cpu=1))
    decision = seen.world.engine.step(seen.world.now).decision
    assert decision is not None
    other = Observed(node("n1"), pod("a", cpu=1))
    other.observer.decided(decision, seconds=TOOK, now=other.world.now)
    other.observer.bind_failed(decision.bindings[0].pod, "n1", "refused", now=other.world.now + 1)
    assert other.value("scheduler_schedule_attempts_total", result="error", profile=PROFILE) == 1
    assert other.events("FailedScheduling") == [("Warning", "a", "refused")]


def test_preemption_by_a_pod() -> None:
    seen = Observed(
        node("n1", cpu=4),
        pdb("held", {"app": "low"}),
        pod("one", cpu=2, node="n1", labels={"app": "low"}),
        pod("two", cpu=2, node="n1", group="old"),
        group("old", min_count=1),
        pod("high", cpu=4, priority=100),
    ).settle()
    assert seen.value("scheduler_preemption_attempts_total") == 1
    assert seen.value("scheduler_preemption_victims_sum") == 2
    assert seen.value("scheduler_preemption_pdb_violations_total", preemptor="pod") == 1
    assert seen.value("scheduler_preemption_workload_disruptions_sum", preemptor="pod") == 1
    assert seen.value("scheduler_preemption_goroutines_execution_total", result="success") == 1
    assert seen.value("scheduler_workload_preemption_victims_count") == 0


def test_preemption_by_a_group() -> None:
    seen = Observed(
        node("n1", cpu=4),
        node("n2", cpu=4),
        *gang("old", 2, cpu=2, node="n1", whole=True),
        pod("spared", cpu=1, node="n2"),
        *gang("new", 2, cpu=3, priority=100),
    ).settle()
    assert seen.value("scheduler_podgroup_schedule_attempts_total", result="waiting_on_preemption") == 1
    assert seen.value("scheduler_podgroup_schedule_attempts_total", result="scheduled") == 1
    assert seen.value("scheduler_podgroup_preemption_attempts_total", result="success") == 1
    assert seen.value("scheduler_podgroup_preemption_victims_sum") == 2, "pods"
    assert seen.value("scheduler_podgroup_preemption_reprieved_total") == 1, "units"
    assert seen.value("scheduler_preemption_workload_disruptions_sum", preemptor="podgroup") == 1, "units of groups"
    assert seen.value("scheduler_preemption_victims_count") == 0, "those of single pods only"


class _Breaks(FilterPlugin):
    """Fails as soon as a running pod is set aside: while victims are searched for, not before."""

    name = "Breaks"

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        if not state.cluster.nodes.pods[0]:
            raise RuntimeError("broken")
        return np.full(row_count(state.cluster, rows), FITS, dtype=np.int8)


_RUNS = [node("n1", cpu=4), pod("low", cpu=4, node="n1", grace=1000)]


@pytest.mark.parametrize(
    ("items", "result", "status", "timed"),
    [
        (gang("new", 1, cpu=4, priority=100), "success", "Success", True),
        (gang("new", 2, cpu=4, priority=100), "unschedulable", "Unschedulable", True),
        (gang("new", 1, cpu=4, priority=0), "unschedulable", "UnschedulableAndUnresolvable", True),
        (gang("new", 1, cpu=4, priority=100, policy="Never", never=True), "", "Unschedulable", False),
        ([*gang("new", 1, cpu=4, priority=100), "breaks"], "error", "Error", True),
    ],
    ids=["success", "does not fit", "no lower priority", "Never", "a plugin fails"],
)
def test_every_attempt_of_a_group_to_preempt_counts_by_its_result(
    items: list[Any], result: str, status: str, timed: bool
) -> None:
    """KEP-5710, "Monitoring Requirements": one that may not preempt attempts nothing."""
    breaks = "breaks" in items
    profile = profile_with(*([_Breaks()] if breaks else []))
    seen = Observed(*_RUNS, *[item for item in items if item != "breaks"], profiles={profile.name: profile})
    seen.world.step()
    name = "scheduler_podgroup_preemption_attempts_total"
    counts = {label: seen.value(name, result=label) for label in ("success", "unschedulable", "error")}
    assert {label for label, number in counts.items() if number} == ({result} if result else set())
    assert seen.value("scheduler_workload_preemption_attempts_total", result=status) == 1
    assert seen.value("scheduler_podgroup_preemption_attempt_duration_seconds_count") == int(timed)
    evaluated = seen.value(
        "scheduler_preemption_evaluation_duration_seconds_count", preemptor="podgroup", result=result
    )
    assert evaluated == (1 if timed else None)


def test_preemption_of_a_group_with_failing_calls_counts_as_an_error() -> None:
    """KEP-5710, "Troubleshooting": victims that are not removed are seen in result="error"."""
    seen = Observed(*_RUNS, *gang("new", 1, cpu=4, priority=100))
    seen.world.engine.after_step = lambda _: None
    decision = seen.world.step()
    assert decision.preemption is not None
    seen.observer.decided(decision, seconds=0.1, now=0.0)
    seen.observer.preemption_ended(decision.preemption, seconds=0.1, error="forbidden", now=0.0)
    attempts = "scheduler_podgroup_preemption_attempts_total"
    assert (seen.value(attempts, result="error"), seen.value(attempts, result="success")) == (1, None)
    assert seen.value("scheduler_podgroup_preemption_victims_count") == 0
    assert seen.value("scheduler_podgroup_preemption_attempt_duration_seconds_count") == 1


def test_gauges_read_the_queues_when_scraped() -> None:
    seen = Observed(
        node("n1", cpu=1),
        pod("big", cpu=2),
        pod("gated", cpu=1, gates=["wait"]),
        *gang("few", 3, min_count=4, cpu=1),
        pod("there", node="n1"),
    ).settle()
    pods = {s.labels["queue"]: s.value for s in seen.samples() if s.name == "scheduler_pending_pods"}
    assert pods == {"active": 0, "backoff": 0, "unschedulable": 1, "gated": 4}
    assert seen.value("scheduler_pending_entities", type="podgroup", queue="gated") == 1
    assert seen.value("scheduler_pending_entities", type="pod", queue="gated") == 1
    assert seen.value("scheduler_pending_entities", type="pod", queue="unschedulable") == 1
    assert seen.value("scheduler_unschedulable_pods", plugin="NodeResourcesFit", profile=PROFILE) == 1
    sizes = {s.labels["type"]: s.value for s in seen.samples() if s.name == "scheduler_cache_size"}
    assert sizes == {"nodes": 1, "pods": 1, "assumed_pods": 0}


def test_records_kept_are_shown_by_kind() -> None:
    """Signatures of two kinds of pods, and views of them: every kind of entry has its own label."""
    seen = Observed(node("n1", cpu=4), pod("a", cpu=1, labels={"app": "a"}), pod("b", cpu=2)).settle()
    assert seen.value("scheduler_kept_entries", type="signatures") == 2
    assert seen.value("scheduler_kept_entries", type="views") == 2
    assert seen.value("scheduler_kept_entries", type="node_constraint_masks") == 1
    kinds = {s.labels["type"] for s in seen.samples() if s.name == "scheduler_kept_entries"}
    assert kinds == {
        *("signatures", "pod_constraints", "node_constraints", "label_classes", "affinity_terms", "match_counts"),
        *("views", "rule_masks", "node_constraint_masks"),
        *("waiting_entities", "waiting_shapes", "waiting_spreads"),
    }


def test_incoming_pods_are_counted_by_what_brought_them() -> None:
    seen = Observed(node("n1", cpu=1), pod("big", cpu=2), timing=Timing(flush_after=1000)).settle()
    seen.world.add(node("n2", cpu=1))
    seen.settle()
    incoming = {
        (s.labels["queue"], s.labels["event"]): s.value
        for s in seen.samples()
        if s.name == "scheduler_queue_incoming_pods_total"
    }
    assert incoming["active", "UnschedulablePodAdd"] == 1
    assert incoming["unschedulable", "ScheduleAttemptFailure"] >= 1
    assert ("active", "NodeAdd") not in incoming, "a node that is too small wakes no pod"
    seen.world.add(node("n3", cpu=8))
    seen.settle()
    events = {s.labels["event"] for s in seen.samples() if s.name == "scheduler_queue_incoming_pods_total"}
    assert "NodeAdd" in events


def test_time_to_wait_that_is_over_is_counted_under_a_name_of_its_own() -> None:
    """observability.md 3.2, cost.md 6.2."""
    late = pod("late", cpu=4, priority=9, annotations=annotated(preemption_delay="5m"))
    low = pod("low", cpu=4, node="n1")
    seen = Observed(node("n1", cpu=4), low, (late, START), timing=Timing(flush_after=1000)).settle()
    assert seen.value("scheduler_queue_incoming_pods_total", queue="active", event="WaitOver") == 1


@pytest.mark.parametrize("kind", list(EventKind))
def test_every_event_has_a_label_in_upstreams_form(kind: EventKind) -> None:
    label = event_label(kind)
    assert label
    assert "_" not in label
    assert not label.isupper()


@pytest.mark.parametrize(("attempts", "label"), [(1, "1"), (14, "14"), (15, "15+"), (400, "15+")])
def test_attempts_label(attempts: int, label: str) -> None:
    assert attempts_label(attempts) == label


def test_buckets_grow_by_repeated_multiplication() -> None:
    assert exponential(0.00001, 1.5, 4) == [1e-05, 1e-05 * 1.5, 1e-05 * 1.5 * 1.5, 1e-05 * 1.5 * 1.5 * 1.5]


def test_pod_bound_by_another_scheduler_is_no_attempt_of_ours() -> None:
    seen = Observed(node("n1"), pod("a", cpu=1, gates=["wait"])).settle()
    seen.world.change_pod("a", lambda item: bound_to(item, "n1"))
    assert seen.value("scheduler_schedule_attempts_total", result="scheduled") is None


def deferred_resize(name: str, **fields: Any) -> objects.Pod:
    """A running pod with a resize that its kubelet has deferred."""
    item = pod(name, **fields)
    condition = objects.PodCondition(type="PodResizePending", status="True", reason="Deferred")
    return replace(item, status=replace(item.status, conditions=(condition,)))


def counted(seen: Observed, name: str, **labels: str) -> float:
    """One sample of a scrape; 0 if there is none."""
    return value(read(seen.observer.metrics), name, labels) or 0.0


def test_placements_are_counted_by_result_and_kind() -> None:
    """observability.md 3.8: those proposed, and those in which the group was tried, with durations."""
    seen = Observed(
        *[node(f"{rack}{number}", cpu=2, labels={"rack": rack}) for rack in "abc" for number in (1, 2)],
        pod("taken", cpu=2, node="a1"),
        *gang("racked", 2, cpu=2, topology="rack"),
        *gang("large", 3, cpu=2, topology="rack"),
    ).settle()
    assert counted(seen, "scheduler_generated_placements_total", profile=PROFILE, type="podgroup") >= 6
    tried = {
        result: counted(seen, "scheduler_placement_evaluations_total", result=result, profile=PROFILE, type="podgroup")
        for result in ("feasible", "infeasible")
    }
    timed = "scheduler_placement_evaluation_duration_seconds_count"
    assert {r: counted(seen, timed, result=r, profile=PROFILE, type="podgroup") for r in tried} == tried
    assert min(tried.values()) >= 1


def test_entities_that_come_to_a_queue_are_counted_by_kind() -> None:
    """observability.md 3.8: a gang counts once, a resize under its own event."""
    seen = Observed(
        node("n1", cpu=4), *gang("g", 2, cpu=1), deferred_resize("web", cpu=3, node="n1", priority=9), pod("p", cpu=9)
    ).settle()
    name = "scheduler_queue_incoming_entities_total"
    assert counted(seen, name, queue="active", event="UnschedulablePodAdd", type="podgroup") == 1
    assert counted(seen, name, queue="active", event="UnschedulablePodAdd", type="pod") == 1
    assert counted(seen, name, queue="active", event="AssignedPodResize", type="pod") == 1


def test_resizes_do_not_count_as_attempts_of_pods() -> None:
    """resizes.md 4.3."""
    seen = Observed(
        node("n1", cpu=4), deferred_resize("web", cpu=3, node="n1", priority=9), pod("low", cpu=2, node="n1")
    ).settle()
    assert counted(seen, "scheduler_resize_preemption_attempts_total") == 1
    assert counted(seen, "scheduler_resize_preemption_victims_sum") == 1
    assert counted(seen, "scheduler_resize_scheduling_algorithm_duration_seconds_count") >= 1
    assert counted(seen, "scheduler_preemption_attempts_total") == 0
    assert "scheduler_schedule_attempts_total{" not in seen.observer.metrics.render().decode()
    assert [note for _, name, note in seen.events("FailedScheduling") if name == "web"] == [
        "0/1 nodes are available: 1 Insufficient cpu."
    ]


def test_resizes_of_a_gang_are_one_attempt() -> None:
    """resizes.md 4.1, 4.2, 4.3: every pod has its event, the victims name the gang, and its record has all of them."""
    seen = Observed(
        node("n1", cpu=4),
        node("n2", cpu=4),
        group("g", min_count=2, priority=9),
        deferred_resize("a", cpu=3, node="n1", priority=9, group="g"),
        deferred_resize("b", cpu=3, node="n2", priority=9, group="g"),
        pod("low1", cpu=2, node="n1"),
        pod("low2", cpu=2, node="n2"),
    ).settle()
    assert counted(seen, "scheduler_resize_preemption_attempts_total") == 1
    assert counted(seen, "scheduler_resize_preemption_victims_sum") == 2
    assert [name for _, name, _ in seen.events("FailedScheduling")] == ["a", "b"]
    preempted = seen.events("Preempted")
    assert [name for _, name, _ in preempted] == ["low1", "low2"]
    assert all(note.startswith("Preempted by podgroup ") for _, _, note in preempted)
