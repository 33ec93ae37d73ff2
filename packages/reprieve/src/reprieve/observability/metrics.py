"""Metrics in the Prometheus text format, with kube-scheduler's names, labels and buckets (observability.md, "Metrics").

Counters are incremented here when something happens. State (queues, cache) is read from the engine on each scrape, so
it costs nothing in between and is always current. While a thread uses the engine, a scrape waits briefly for the end of
the cycle and then returns the last known values. `scheduler_podgroup_preemption_*` and `scheduler_pending_entities` are
KEP-5710's names. kube-scheduler 1.37 calls the latter `scheduler_queued_entities`, so both are exposed.

Invariants: the registry is separate from the process-wide one; everything is called from one thread; label values come
from a fixed set or the configuration, never from objects, so the number of series is bounded.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Generic, Literal, TypeVar, get_args

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from reprieve.framework.events import EventKind
from reprieve.queueing.causes import ALARM, BACKOFF_COMPLETE, POD_UPDATED, RESIZE, SCHEDULE_ATTEMPT_FAILURE, Cause
from reprieve.queueing.entity import Entity, QueueState
from reprieve.scheduling.engine import Engine

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SCHEDULED: Final = "scheduled"
UNSCHEDULABLE: Final = "unschedulable"
ERROR: Final = "error"
WAITING_ON_PREEMPTION: Final = "waiting_on_preemption"
SUCCESS: Final = "success"
M = TypeVar("M", bound=Counter | Histogram)
FamilyT = TypeVar("FamilyT", CounterMetricFamily, GaugeMetricFamily)
Preemptor = Literal["pod", "podgroup", "compositepodgroup"]
_MOST_ATTEMPTS = 15

EVENT_LABELS: Final[dict[Cause, str]] = {
    SCHEDULE_ATTEMPT_FAILURE: "ScheduleAttemptFailure",
    ALARM: "WaitOver",
    RESIZE: "AssignedPodResize",
    BACKOFF_COMPLETE: "BackoffComplete",
    POD_UPDATED: "UnschedulablePodUpdate",
    EventKind.FLUSH: "UnschedulableTimeout",
    EventKind.PREEMPTION_FINISHED: "ForceActivate",
    EventKind.POD_ADDED: "UnschedulablePodAdd",
    EventKind.MEMBER_GONE: "UnschedulablePodDelete",
    EventKind.GATES_REMOVED: "UnschedulablePodUpdatePodSchedulingGatesEliminated",
    EventKind.POD_PLACED: "AssignedPodAdd",
    EventKind.POD_CHANGED: "AssignedPodUpdate",
    EventKind.POD_RELABELED: "AssignedPodUpdatePodLabel",
    EventKind.POD_TERMINATING: "AssignedPodUpdate",
    EventKind.POD_GONE: "AssignedPodDelete",
    EventKind.NODE_ADDED: "NodeAdd",
    EventKind.NODE_CHANGED: "NodeUpdate",
    EventKind.NODE_REMOVED: "NodeDelete",
    EventKind.GROUP_ADDED: "scheduling.k8s.io/PodGroupAdd",
    EventKind.GROUP_CHANGED: "scheduling.k8s.io/PodGroupUpdate",
    EventKind.GROUP_REMOVED: "scheduling.k8s.io/PodGroupDelete",
    EventKind.NAMESPACE_CHANGED: "NamespaceUpdate",
}
"""The `event` label of `scheduler_queue_incoming_pods_total`. Kinds that are not listed here use their own name."""


def exponential(start: float, factor: float, count: int) -> list[float]:
    """Return bucket bounds, each the previous one times the factor (exactly like Go's `ExponentialBuckets`)."""
    bounds = []
    for _ in range(count):
        bounds.append(start)
        start *= factor
    return bounds


def attempts_label(attempts: int) -> str:
    """Return the number of attempts as a label, with one label for 15 and more, as upstream."""
    return str(attempts) if attempts < _MOST_ATTEMPTS else f"{_MOST_ATTEMPTS}+"


class _DeclaredMetric(Generic[M]):
    """A metric declared in a class that has a registry. It is created on first access."""

    def __init__(self, make: Callable[[CollectorRegistry], M]) -> None:
        self._make = make
        self._name = ""

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, metrics: Metrics, _owner: type) -> M:
        metric = self._make(metrics.registry)
        vars(metrics)[self._name] = metric
        return metric


def _counter(name: str, text: str, labels: Sequence[str] = ()) -> _DeclaredMetric[Counter]:
    """Declare a counter; `_total` is added to its name."""
    return _DeclaredMetric(lambda registry: Counter(name, text, labels, subsystem="scheduler", registry=registry))


def _histogram(name: str, text: str, bounds: Sequence[float], labels: Sequence[str] = ()) -> _DeclaredMetric[Histogram]:
    return _DeclaredMetric(
        lambda registry: Histogram(name, text, labels, subsystem="scheduler", buckets=bounds, registry=registry)
    )


_SECONDS: Final = exponential(0.001, 2, 15)
_PER_PROFILE: Final = ("result", "profile")


class Metrics:
    """See the module docstring. `process`: include `process_*` metrics of this process."""

    schedule_attempts = _counter(
        "schedule_attempts",
        "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, "
        "while 'error' means an internal scheduler problem.",
        _PER_PROFILE,
    )
    attempt_seconds = _histogram(
        "scheduling_attempt_duration_seconds",
        "Scheduling attempt latency in seconds (scheduling algorithm + binding).",
        _SECONDS,
        _PER_PROFILE,
    )
    algorithm_seconds = _histogram(
        "scheduling_algorithm_duration_seconds", "Scheduling algorithm latency in seconds.", _SECONDS
    )
    sli_seconds = _histogram(
        "pod_scheduling_sli_duration_seconds",
        "Latency of a pod being scheduled, from the time it may first be tried, over all its attempts.",
        exponential(0.01, 2, 20),
        ["attempts"],
    )
    pod_attempts = _histogram(
        "pod_scheduling_attempts", "Number of attempts to successfully schedule a pod.", exponential(1, 2, 5)
    )
    point_seconds = _histogram(
        "framework_extension_point_duration_seconds",
        "Latency for running all plugins of a specific extension point (every tenth attempt).",
        exponential(0.0001, 2, 12),
        ["extension_point", "status", "profile"],
    )
    plugin_seconds = _histogram(
        "plugin_execution_duration_seconds",
        "Duration for running a plugin at a specific extension point (every tenth attempt).",
        exponential(0.00001, 1.5, 20),
        ["plugin", "extension_point", "status"],
    )
    plugin_evaluations = _counter(
        "plugin_evaluation",
        "Number of attempts to schedule pods by each plugin and the extension point (available only in PreFilter, "
        "Filter, PreScore, and Score; estimated from every tenth attempt).",
        ["plugin", "extension_point", "profile"],
    )
    permit_seconds = _histogram(
        "permit_wait_duration_seconds",
        "Duration of waiting on permit.",
        _SECONDS,
        ["result"],
    )
    resize_algorithm_seconds = _histogram(
        "resize_scheduling_algorithm_duration_seconds",
        "Scheduling algorithm latency in seconds of deferred resizes of running pods.",
        _SECONDS,
    )
    resize_preemption_attempts = _counter(
        "resize_preemption_attempts", "Total preemption attempts for deferred resizes of running pods."
    )
    resize_preemption_victims = _histogram(
        "resize_preemption_victims",
        "Number of selected preemption victims of the deferred resize of a running pod.",
        exponential(1, 2, 7),
    )
    preemption_attempts = _counter("preemption_attempts", "Total preemption attempts of single pods.")
    preemption_victims = _histogram(
        "preemption_victims", "Number of selected preemption victims of a single pod.", exponential(1, 2, 7)
    )
    task_seconds = _histogram(
        "preemption_goroutines_duration_seconds",
        "Duration in seconds of the tasks that carry out preemptions.",
        exponential(0.01, 2, 20),
        ["result"],
    )
    tasks = _counter("preemption_goroutines_execution", "Number of tasks that carried out preemptions.", ["result"])
    evaluation_seconds = _histogram(
        "preemption_evaluation_duration_seconds",
        "Duration in seconds of attempts that searched for victims, by result.",
        exponential(0.001, 2, 16),
        ["preemptor", "result"],
    )
    execution_seconds = _histogram(
        "preemption_execution_duration_seconds",
        "Duration in seconds for preempting the victims; other pods are scheduled meanwhile.",
        exponential(0.001, 2, 16),
        ["preemptor", "result"],
    )
    group_attempts = _counter(
        "podgroup_schedule_attempts",
        "Number of attempts to schedule pod groups, by the result. 'unschedulable' means a pod group could not be "
        "scheduled, while 'error' means an internal scheduler problem.",
        _PER_PROFILE,
    )
    group_attempt_seconds = _histogram(
        "podgroup_scheduling_attempt_duration_seconds",
        "Pod group scheduling attempt latency in seconds.",
        _SECONDS,
        _PER_PROFILE,
    )
    group_algorithm_seconds = _histogram(
        "podgroup_scheduling_algorithm_duration_seconds",
        "Pod group scheduling algorithm latency in seconds.",
        _SECONDS,
    )
    group_preemption_attempts = _counter(
        "podgroup_preemption_attempts", "Total preemption attempts of pod groups, by the result.", ["result"]
    )
    group_preemption_seconds = _histogram(
        "podgroup_preemption_attempt_duration_seconds",
        "Latency in seconds of attempts of pod groups that searched for victims, whatever the result.",
        exponential(0.001, 2, 16),
    )
    group_preemption_victims = _histogram(
        "podgroup_preemption_victims",
        "Number of selected preemption victims (pods) of a pod group.",
        exponential(1, 2, 11),
    )
    group_preemption_reprieved = _counter(
        "podgroup_preemption_reprieved", "Total potential victims (units) that pod groups could spare."
    )
    workload_attempts = _counter(
        "workload_preemption_attempts", "Total preemption attempts initiated by workloads.", ["result"]
    )
    workload_victims = _histogram(
        "workload_preemption_victims",
        "Number of pod preemption victims caused by workload preemption.",
        exponential(1, 2, 11),
    )
    disruptions = _histogram(
        "preemption_workload_disruptions",
        "Number of preempted units that belong to pod groups: a whole group (disruptionMode all) or a single pod "
        "of one.",
        exponential(1, 2, 11),
        ["preemptor"],
    )
    pdb_violations = _counter(
        "preemption_pdb_violations",
        "Total number of pod disruption budget violations caused by preemption.",
        ["preemptor"],
    )
    evicted_pods = _counter("preemption_evicted_pods", "Total number of evicted pods.", ["preemptor"])
    lost_gpu_seconds = _counter(
        "preemption_lost_gpu_seconds",
        "Work of evicted pods since it was last saved, or since their start, in GPU-seconds, restarts included.",
        ["preemptor"],
    )
    generated_placements = _counter(
        "generated_placements",
        "Number of candidate placements generated when scheduling pod groups, by scheduler profile and entity type.",
        ["profile", "type"],
    )
    placement_evaluations = _counter(
        "placement_evaluations",
        "Number of candidate placements evaluated when scheduling pod groups, by result, scheduler profile, and entity "
        "type. Placements that certainly cannot hold the group are not evaluated.",
        ["result", "profile", "type"],
    )
    placement_seconds = _histogram(
        "placement_evaluation_duration_seconds",
        "Latency in seconds of evaluating a candidate placement of a pod group.",
        _SECONDS,
        ["result", "profile", "type"],
    )
    batch_attempts = _counter(
        "batch_attempts",
        "Attempts that could reuse results of identical pods (hint_used), or not (no_hint).",
        ["profile", "result"],
    )
    trouble = _counter(
        "trouble", "Errors outside of scheduling attempts, by the part in which they occurred.", ["where"]
    )
    events_dropped = _counter("events_dropped", "Events that were not sent: too many were waiting.")
    records_dropped = _counter("decision_records_dropped", "Decision records that could not be kept.")

    def __init__(self, *, process: bool = True) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        if process:
            ProcessCollector(registry=self.registry)
        self._engine: Engine | None = None
        self._state: list[Metric] = []
        self._pairs: dict[tuple[str, str], tuple[Counter, Histogram]] = {}
        self.registry.register(_State(self))
        for name, declared in vars(type(self)).items():
            if isinstance(declared, _DeclaredMetric):
                getattr(self, name)

    def attach(self, engine: Engine) -> None:
        """Read state from this engine from now on."""
        self._engine = engine

    @property
    def engine(self) -> Engine | None:
        """Return the engine that the gauges read."""
        return self._engine

    def read_engine(self) -> None:
        """Read the engine's state for the next scrapes. No cycle may run meanwhile."""
        if self._engine is not None:
            self._state = list(_state_of(self._engine))

    @property
    def state(self) -> list[Metric]:
        """Return the last state that was read."""
        return self._state

    def pod_attempt(self, result: str, profile: str, seconds: float) -> None:
        """Count a pod's finished attempt and its latency."""
        pair = self._pairs.get((result, profile))
        if pair is None:
            pair = (self.schedule_attempts.labels(result, profile), self.attempt_seconds.labels(result, profile))
            self._pairs[result, profile] = pair
        pair[0].inc()
        pair[1].observe(seconds)

    def render(self, *, read: bool = True) -> bytes:
        """Return all metrics as `CONTENT_TYPE`. Without `read`, use the engine state of the last read."""
        if read:
            self.read_engine()
        return generate_latest(_WithoutCreated(self.registry))


class _WithoutCreated(Collector):
    """The metrics of a registry without the `_created` series, which kube-scheduler does not have."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._of = registry

    def collect(self) -> Iterable[Metric]:
        for metric in self._of.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


class _State(Collector):
    """The state that was read from the engine."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics.state


def with_samples(family: FamilyT, samples: Iterable[tuple[Sequence[str], float]]) -> FamilyT:
    """Return the family with these samples: values of its labels, and a number."""
    for labels, number in samples:
        family.add_metric(labels, number)
    return family


def _repair(engine: Engine) -> Iterable[Metric]:
    """Yield metrics of gangs that lost members (repair.md 3.4, 4.4)."""
    health = engine.repair.health
    yield GaugeMetricFamily(
        "reprieve_degraded_pod_groups",
        "Number of gangs that were scheduled once and have less than their minimum.",
        value=len(health.degraded),
    )
    transitions = CounterMetricFamily(
        "scheduler_podgroup_satisfaction_transitions",
        "Number of times that a scheduled gang fell below its minimum, or reached it again.",
        labels=["satisfied"],
    )
    yield with_samples(
        transitions, (([str(healthy).lower()], health.transitions[healthy]) for healthy in (True, False))
    )
    yield CounterMetricFamily(
        "reprieve_pod_group_restarts",
        "Number of evictions of gangs that had less than their minimum for too long.",
        value=engine.repair.restarts.evictions,
    )
    yield CounterMetricFamily(
        "reprieve_backfill_overruns",
        "Number of evictions of backfilled work that ran for longer than it stated.",
        value=engine.overruns.evictions,
    )
    moves = CounterMetricFamily(
        "reprieve_moves", "Number of units that were moved, by whether they run at their new places.", labels=["result"]
    )
    yield with_samples(moves, ((["moved"], engine.moves.moved_units), (["lost"], engine.moves.lost_units)))


def _state_of(engine: Engine) -> Iterable[Metric]:
    """Yield gauges of the queues and the cache."""
    yield from _pending(list(engine.queue.entities()))
    cluster = engine.cluster
    scheduled = [pod for pod in cluster.pods.values() if pod.row >= 0]
    nodes = cluster.nodes
    cache = GaugeMetricFamily(
        "scheduler_cache_size", "Number of nodes, pods, and assumed pods in the scheduler cache.", labels=["type"]
    )
    counts = {
        "nodes": int(nodes.alive[: len(nodes)].sum()),
        "pods": len(scheduled),
        "assumed_pods": sum(1 for pod in scheduled if not pod.bound),
    }
    yield with_samples(cache, (([kind], number) for kind, number in counts.items()))
    kept = GaugeMetricFamily(
        "scheduler_kept_entries",
        "Number of entries kept to share work between pods, by kind; unused ones are dropped, or few are kept.",
        labels=["type"],
    )
    yield with_samples(kept, (([kind], number) for kind, number in engine.sizes().items()))
    idle = GaugeMetricFamily(
        "reprieve_reserved_idle_resources",
        "Amount of each resource that is idle because it is reserved for pending pods, in base units, CPU in cores.",
        labels=["resource"],
    )
    amounts = {"cpu": 0, "memory": 0, **engine.reservations.idle_amounts.amounts}
    yield with_samples(idle, (([name], amount / 1000 if name == "cpu" else amount) for name, amount in amounts.items()))
    yield from _repair(engine)
    incoming = CounterMetricFamily(
        "scheduler_queue_incoming_pods",
        "Number of pods added to scheduling queues by event and queue type.",
        labels=["queue", "event"],
    )
    by_label = Counts[tuple[str, str]]()
    for (place, cause), count in engine.queue.incoming.items():
        by_label[place.value, event_label(cause)] += count
    yield with_samples(incoming, by_label.items())
    entities = CounterMetricFamily(
        "scheduler_queue_incoming_entities",
        "Number of scheduling entities added to scheduling queues by event, queue type, and entity type ('pod' for "
        "pods that belong to no group, 'podgroup', 'compositepodgroup').",
        labels=["queue", "event", "type"],
    )
    by_kind = Counts[tuple[str, str, str]]()
    for (place, cause, kind), count in engine.queue.arrivals.items():
        by_kind[place.value, event_label(cause), kind.lower()] += count
    yield with_samples(entities, by_kind.items())


def event_label(cause: Cause) -> str:
    """Return the `event` label for the cause that moved a pod into a queue."""
    label = EVENT_LABELS.get(cause)
    if label is not None:
        return label
    return "".join(part.capitalize() for part in (cause if isinstance(cause, str) else cause.name).split("_"))


_QUEUES: Final = ("active", "backoff", "unschedulable", "gated")


def _pending(entities: Sequence[Entity]) -> Iterable[Metric]:
    pods = dict.fromkeys(_QUEUES, 0)
    resizes = dict.fromkeys(_QUEUES, 0)
    count = {(kind, queue): 0 for kind in get_args(Preemptor) for queue in _QUEUES}
    reasons = Counts[tuple[str, str]]()
    for entity in entities:
        # An entity in its cycle is about to change queues; until then it counts in its previous queue.
        queue = "active" if entity.state is QueueState.IN_CYCLE else entity.state.value
        count[entity.group.kind.lower() if entity.group is not None else "pod", queue] += 1
        if entity.resizing:
            resizes[queue] += len(entity.ready)
            continue
        pods[queue] += len(entity.ready)
        pods["gated"] += len(entity.gated_pods)
        if entity.state is QueueState.UNSCHEDULABLE:
            for plugin in entity.rejected_by:
                reasons[plugin, entity.profile] += len(entity.ready)
    pending = GaugeMetricFamily(
        "scheduler_pending_pods",
        "Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means number "
        "of pods in backoffQ; 'unschedulable' means number of pods that the scheduler attempted to schedule and "
        "failed; 'gated' is the number of pods that may not be tried yet.",
        labels=["queue"],
    )
    yield with_samples(pending, (([queue], number) for queue, number in pods.items()))
    resizing = GaugeMetricFamily(
        "scheduler_pending_resize_pods",
        "Number of running pods with a deferred resize, by the queue type.",
        labels=["queue"],
    )
    yield with_samples(resizing, (([queue], number) for queue, number in resizes.items()))
    text = (
        "Number of pending scheduling entities ('pod' for pods that belong to no group, 'podgroup', "
        "'compositepodgroup' for trees of groups), by queue."
    )
    for name in ("scheduler_pending_entities", "scheduler_queued_entities"):
        yield with_samples(GaugeMetricFamily(name, text, labels=["type", "queue"]), count.items())
    why = GaugeMetricFamily(
        "scheduler_unschedulable_pods",
        "The number of unschedulable pods broken down by plugin name. A pod counts for every plugin that rejected it.",
        labels=["plugin", "profile"],
    )
    yield with_samples(why, sorted(reasons.items()))
