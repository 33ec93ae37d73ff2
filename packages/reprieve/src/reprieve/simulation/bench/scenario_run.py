"""A run of one scenario: the engine under the real clock, with an API that responds at once.

Nodes and running pods are loaded before the measurement, as a scheduler's caches are synced before it schedules; the
work is added within the measured time. Victims end as soon as they are evicted. Instead of waiting for backoff
(kube-scheduler also takes pods from its backoff queue when nothing else is ready), the engine's clock advances, so the
figures measure decision time.
"""

import gc
import platform
import pstats
import sys
import time
from array import array
from collections import deque
from collections.abc import Sequence
from cProfile import Profile
from itertools import chain, islice, zip_longest
from pathlib import Path

import msgspec
import numpy as np
from msgspec.structs import replace

from kube_rules.devices import ResourceClaim, ResourceClaimStatus
from kube_rules.meta import ObjectRef
from reprieve.preemption.outcome import Preemption
from reprieve.scheduling.engine import Engine
from reprieve.simulation.bench.arrivals import churn_work, running_elsewhere, steady_work, while_waiting
from reprieve.simulation.bench.cluster_builder import BenchCluster
from reprieve.simulation.bench.scenarios import BenchScenario

_WAITING_SECONDS = 60
"""The simulated seconds of `waiting` in each of which a pod ends."""
_HOTTEST = 25
"""The number of functions in a profile."""
_BATCH = 500
"""The number of pods that `take-in` creates at once, outside of the measured time."""
_SAMPLES = 50
"""The number of memory samples of `steady`."""


class Percentiles(msgspec.Struct, frozen=True):
    """Milliseconds of one scheduling attempt."""

    p50: float
    p99: float


class HotFunction(msgspec.Struct, frozen=True, rename="camel"):
    """A function with much of the time of a run: seconds in itself, and including its callees."""

    function: str
    calls: int
    own_seconds: float
    total_seconds: float


class BenchMeasurement(msgspec.Struct, frozen=True, rename="camel"):
    """One line of `reprieve bench -o json` (performance.md).

    `seconds`: from the presence of all objects until all are bound. `decision_seconds`: until the first preemption
    (None without one). `peak_rss_mb`: in MiB, of the process that ran only this scenario.
    """

    scenario: str
    nodes: int
    pods: int
    seconds: float
    decision_seconds: float | None
    pods_per_second: float
    attempt_ms: Percentiles
    peak_rss_mb: float
    versions: dict[str, str]
    cpu_seconds: float | msgspec.UnsetType = msgspec.UNSET
    """The processor time of the interval of `seconds`."""
    growth_mb: float | msgspec.UnsetType = msgspec.UNSET
    """The growth of the process's memory until the end, in MiB.

    Only for `steady`, from the second fifth of the time, and for `churn`, from the third of twenty-four parts: the hour
    after the first two of a day.
    """
    rss_mb: float | msgspec.UnsetType = msgspec.UNSET
    """Only for `churn` and `take-in`: resident memory at the end, in MiB."""
    kept_entries: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    """Only for `churn`: the sizes of the engine's tables at the end, as in the gauge scheduler_kept_entries."""
    cpu_per_second: float | msgspec.UnsetType = msgspec.UNSET
    """Only for `waiting` and `waiting-spread`: processor time per second of simulated time, in seconds."""
    taken_in_seconds: float | msgspec.UnsetType = msgspec.UNSET
    """Only for `big`: real time to load nodes and running pods, which `seconds` excludes."""
    held_mb: float | msgspec.UnsetType = msgspec.UNSET
    """Only for `take-in`: the memory of the engine, in MiB, after the pods' objects are freed."""
    profile: tuple[HotFunction, ...] | msgspec.UnsetType = msgspec.UNSET
    """With `--profile`: the most expensive functions."""


class NotBoundError(Exception):
    """A scenario ended with unbound pods, so its figures would mean nothing."""

    def __init__(self, scenario: str, bound: int, pods: int) -> None:
        super().__init__(f"{scenario}: {bound} of {pods} pods bound")


def run(scenario: BenchScenario, profiler: Profile | None = None) -> BenchMeasurement:
    """Build the cluster, run the scenario, and return the figures. Raises NotBoundError.

    A profiler observes the measured part, which then takes several times as long.
    """
    if scenario.family in ("steady", "churn"):
        return run_steady(scenario, profiler)
    if scenario.family in ("waiting", "waiting-spread"):
        return run_waiting(scenario, profiler)
    if scenario.family == "take-in":
        return run_take_in(scenario, profiler)
    cluster = scenario.build()
    clock = time.perf_counter
    taken_in = clock()
    engine = synced(cluster)
    taken_in = clock() - taken_in
    gc.collect()
    gc.freeze()
    claims = _reserved(cluster)
    attempts: list[float] = []
    decided: float | None = None
    _watch(profiler)
    began, cpu = clock(), time.process_time()
    _add_work(engine, cluster)
    bound = 0
    skipped = 0.0
    while True:
        before = clock()
        decision = engine.step(before - began + skipped).decision
        after = clock()
        now = after - began + skipped
        if decision is None:
            wake = engine.queue.next_wakeup(flush=False)
            if wake is None:
                break
            skipped += max(0.0, wake - now)
            continue
        attempts.append(after - before)
        for binding in decision.bindings:
            engine.confirm_binding(binding.pod.uid)
        bound += len(decision.bindings)
        if decision.preemption is not None:
            decided = after - began if decided is None else decided
            _evict(engine, decision.preemption, claims, now)
    seconds, cpu = clock() - began, time.process_time() - cpu
    if bound != len(cluster.work):
        raise NotBoundError(scenario.name, bound, len(cluster.work))
    measured = measurement(scenario, attempts, seconds, cpu, profiler, decided=decided)
    if scenario.family != "big":
        return measured
    return msgspec.structs.replace(measured, taken_in_seconds=round(taken_in, 6))


def _evict(engine: Engine, preemption: Preemption, claims: dict[str, ResourceClaim], now: float) -> None:
    """Delete the victims at once, and release their device claims as the claim controller would."""
    victims = [pod.uid for verdict in preemption.victims for pod in verdict.unit.pods]
    for uid in victims:
        engine.mark_terminating(uid, now, preempted=True)
    engine.finish_preemption(preemption.ref, now)
    for uid in victims:
        engine.remove(ObjectRef("Pod", uid=uid), now)
        if uid in claims:
            engine.set(replace(claims[uid], status=ResourceClaimStatus()), now)


def _reserved(cluster: BenchCluster) -> dict[str, ResourceClaim]:
    """Return the allocated claims by UID of the pod for which each is reserved."""
    claims = (item for item in cluster.resources if isinstance(item, ResourceClaim))
    return {consumer.uid: claim for claim in claims for consumer in claim.status.reserved_for}


def _watch(profiler: Profile | None) -> None:
    if profiler is not None:
        profiler.enable()


def run_steady(scenario: BenchScenario, profiler: Profile | None = None) -> BenchMeasurement:
    """Run pods that arrive while as many end, oldest first, in simulated time; each must be placed on arrival.

    `seconds` is the total real time, including the API's reports of bindings and ends; `attempt_ms` measures the
    decisions. Raises NotBoundError.
    """
    engine, running = _long_running(scenario)
    gc.collect()
    gc.freeze()
    attempts = array("d", bytes(8 * 2 * scenario.pods))  # allocated now, so that it does not count as growth
    count = 0
    memory_samples: list[float] = []
    every = max(1, scenario.pods // _SAMPLES)
    arrived = bound = 0
    clock = time.perf_counter
    comes = churn_work if scenario.family == "churn" else steady_work
    _watch(profiler)
    began, cpu = clock(), time.process_time()
    for arrival in comes(scenario.nodes, scenario.pods):
        now = arrival.at
        if arrival.group is not None:
            engine.set(arrival.group, now)
        for pod in arrival.pods:
            engine.set(pod, now, created=now)
        while True:
            before = clock()
            decision = engine.step(now).decision
            if decision is None:
                break
            attempts[count] = clock() - before
            count += 1
            for binding in decision.bindings:
                engine.confirm_binding(binding.pod.uid)
                running.append(binding.pod.uid)
            bound += len(decision.bindings)
        for _ in arrival.pods:
            _end(engine, running.popleft(), now)
        if (arrived + len(arrival.pods)) // every > arrived // every:
            memory_samples.append(rss_mb())
        arrived += len(arrival.pods)
    seconds, cpu = clock() - began, time.process_time() - cpu
    if bound != scenario.pods:
        raise NotBoundError(scenario.name, bound, scenario.pods)
    fifth = len(memory_samples) // 5
    measured = measurement(scenario, attempts[:count], seconds, cpu, profiler)
    if scenario.family == "churn":
        hours = len(memory_samples) / 24
        growth = memory_samples[-1] - max(memory_samples[int(2 * hours) : int(3 * hours) + 1])
        return msgspec.structs.replace(
            measured, growth_mb=round(growth, 1), rss_mb=round(memory_samples[-1], 1), kept_entries=dict(engine.sizes())
        )
    growth = max(memory_samples[-fifth - 1 :]) - max(memory_samples[fifth : 2 * fifth + 1])
    return msgspec.structs.replace(measured, growth_mb=round(growth, 1))


def run_waiting(scenario: BenchScenario, profiler: Profile | None = None) -> BenchMeasurement:
    """Run gangs that cannot be placed, with events each second of simulated time that help none of them.

    A pod ends; for gangs that wait for a spread a node also changes. Finally capacity for one gang becomes free, and
    the next cycle must place it. `seconds` is the real time of these events, without the initial attempt for each gang.
    Raises NotBoundError.
    """
    cluster = scenario.build()
    engine = synced(cluster)
    _add_work(engine, cluster)
    while engine.step(0.0).decision is not None:
        pass
    gc.collect()
    gc.freeze()
    beside = while_waiting(scenario, cluster)
    ending = [pod.metadata.uid for pod in beside.ending[:_WAITING_SECONDS]]
    relabelled = [
        replace(node, metadata=replace(node.metadata, labels={**(node.metadata.labels or {}), "kernel": "new"}))
        for node in beside.changing[-len(ending) :]
    ]
    clock, spent = time.perf_counter, time.process_time
    attempts: list[float] = []
    bound = 0
    now = float(_WAITING_SECONDS)

    def cycles() -> None:
        nonlocal bound
        before = clock()
        while (decision := engine.step(now).decision) is not None:
            attempts.append(clock() - before)
            bound += len(decision.bindings)
            before = clock()

    _watch(profiler)
    began, cpu = clock(), spent()
    for uid, node in zip_longest(ending, relabelled):
        now += 1.0
        _end(engine, uid, now)
        cycles()
        if node is not None:
            engine.set(node, now)
            cycles()
    cpu = spent() - cpu
    now += 1.0
    for pod in beside.helping:
        _end(engine, pod.metadata.uid, now)
    before = clock()
    helped = engine.step(now).decision
    attempts.append(clock() - before)
    seconds = clock() - began
    if bound or helped is None or len(helped.bindings) != beside.size:
        raise NotBoundError(scenario.name, bound, scenario.pods)
    measured = measurement(scenario, attempts, seconds, cpu, profiler)
    return msgspec.structs.replace(measured, cpu_per_second=round(cpu / max(1, len(ending)), 6))


def run_take_in(scenario: BenchScenario, profiler: Profile | None = None) -> BenchMeasurement:
    """Load running pods into the cache, as after a restart; objects are freed after each call.

    `seconds` is the time within the engine, `attempt_ms` that of one pod. Raises NotBoundError.
    """
    cluster = scenario.build()
    engine = synced(cluster)
    gc.collect()
    memory_before = rss_mb()
    clock, spent = time.perf_counter, time.process_time
    times = array("d", bytes(8 * scenario.pods))
    cpu = 0.0
    order = 0
    pods = running_elsewhere(cluster.nodes, scenario.pods)
    while batch := list(islice(pods, _BATCH)):
        _watch(profiler)
        began = spent()
        for pod in batch:
            before = clock()
            engine.set(pod, 0.0, created=float(order))
            times[order] = clock() - before
            order += 1
        cpu += spent() - began
        if profiler is not None:
            profiler.disable()
    batch = []
    gc.collect()
    resident = rss_mb()
    scheduled = sum(1 for pod in engine.cluster.pods.values() if pod.scheduled)
    if scheduled != scenario.pods:
        raise NotBoundError(scenario.name, scheduled, scenario.pods)
    measured = measurement(scenario, times, sum(times), cpu, profiler)
    return msgspec.structs.replace(
        measured, rss_mb=round(resident, 1), held_mb=round(max(0.0, resident - memory_before), 1)
    )


def _long_running(scenario: BenchScenario) -> tuple[Engine, deque[str]]:
    """Return a loaded engine and the UIDs of running pods, oldest first, without storing the objects."""
    cluster = scenario.build()
    return synced(cluster), deque(pod.metadata.uid for pod in cluster.running)


def _end(engine: Engine, uid: str, now: float) -> None:
    """Delete a pod, and its group with the last pod."""
    key = engine.cluster.pods[uid].group
    engine.mark_terminating(uid, now)
    engine.remove(ObjectRef("Pod", uid=uid), now)
    if key is not None and not engine.cluster.groups[key].members:
        engine.remove(ObjectRef("PodGroup", key), now)


def measurement(
    scenario: BenchScenario,
    attempts: Sequence[float],
    seconds: float,
    cpu: float,
    profiler: Profile | None = None,
    *,
    decided: float | None = None,
) -> BenchMeasurement:
    """Return the figures of a run: seconds of attempts, in total, of the processor, and until the first eviction."""
    if profiler is not None:
        profiler.disable()
    p50, p99 = np.percentile(np.array(attempts) * 1000, (50, 99))
    return BenchMeasurement(
        scenario=scenario.name,
        nodes=scenario.nodes,
        pods=scenario.pods,
        seconds=round(seconds, 6),
        decision_seconds=None if decided is None else round(decided, 6),
        pods_per_second=round(scenario.pods / seconds, 1),
        attempt_ms=Percentiles(round(float(p50), 4), round(float(p99), 4)),
        peak_rss_mb=round(peak_rss_mb(), 1),
        versions=versions(),
        cpu_seconds=round(cpu, 6),
        profile=hottest(profiler) if profiler is not None else msgspec.UNSET,
    )


def hottest(profiler: Profile) -> tuple[HotFunction, ...]:
    """Return the functions with most of the time, by time in the function itself."""
    result = []
    for (file, line, name), (_, calls, own, total, _) in pstats.Stats(profiler).stats.items():  # type: ignore[attr-defined]
        package, inside, rest = file.rpartition("reprieve/")
        where = f"{rest}:{line} {name}" if inside and package else name
        result.append(HotFunction(where, calls, round(own, 6), round(total, 6)))
    return tuple(sorted(result, key=lambda hot: (-hot.own_seconds, hot.function))[:_HOTTEST])


def synced(cluster: BenchCluster) -> Engine:
    """Return an engine loaded with the nodes, the running pods and their groups."""
    engine = Engine()
    before = (cluster.nodes, cluster.running_groups, cluster.services, cluster.budgets, cluster.resources)
    for item in chain.from_iterable(before):
        engine.set(item, 0.0)
    for order, pod in enumerate(cluster.running):
        engine.set(pod, 0.0, created=float(order))
    return engine


def _add_work(engine: Engine, cluster: BenchCluster) -> None:
    """Add the pods to schedule at time 0, after their groups."""
    for item in (*cluster.composites, *cluster.groups):
        engine.set(item, 0.0)
    for order, pod in enumerate(cluster.work):
        engine.set(pod, 0.0, created=float(order))


def rss_mb() -> float:
    """Return the current resident memory of this process in MiB, or its peak if the kernel does not report it."""
    return _status("VmRSS:") or peak_rss_mb()


def peak_rss_mb() -> float:
    """Return the peak resident memory of this process in MiB.

    Linux inherits `ru_maxrss` from the parent over an exec, so the kernel's own value is used if available.
    """
    peak_of_kernel = _status("VmHWM:")
    if peak_of_kernel is not None:
        return peak_of_kernel
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024) if sys.platform == "darwin" else peak / 1024


def _status(field: str) -> float | None:
    """Return a size of /proc/self/status in MiB."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) / 1024
    return None


def versions() -> dict[str, str]:
    """Return the versions of reprieve, Python and numpy."""
    from importlib.metadata import version

    return {"reprieve": version("reprieve"), "python": platform.python_version(), "numpy": np.__version__}
