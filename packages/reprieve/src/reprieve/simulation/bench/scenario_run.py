"""Running one scenario: the engine under the real clock, with an API that answers at once.

Nodes and running pods are known before the clock starts, as a scheduler's caches are synced before it schedules; the
work is handed over within the measured time.  Victims vanish the moment they are evicted.  Backoff is not waited for
(kube-scheduler takes from its backoff queue too when nothing else is ready): the engine's clock is moved on instead,
so the figures are time spent deciding.
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
"""Simulated time of `waiting` in which a pod ends each second."""
_HOTTEST = 25
"""Functions of a profile that are shown."""
_BATCH = 500
"""Pods that `take-in` makes at once, outside the measured time."""
_SAMPLES = 50
"""How often `steady` measures its memory."""


class Percentiles(msgspec.Struct, frozen=True):
    """Milliseconds of one scheduling attempt."""

    p50: float
    p99: float


class HotFunction(msgspec.Struct, frozen=True, rename="camel"):
    """A function that a run spent its time in: seconds in itself, and with what it called."""

    function: str
    calls: int
    own_seconds: float
    total_seconds: float


class BenchMeasurement(msgspec.Struct, frozen=True, rename="camel"):
    """One line of `reprieve bench -o json` (performance.md).

    `seconds` from all objects present to all bound, `decision_seconds` to the first decision to preempt (None without
    one), `peak_rss_mb` in MiB of the process that ran only this.
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
    """Processor time of the same as `seconds`."""
    growth_mb: float | msgspec.UnsetType = msgspec.UNSET
    """How much more memory the process holds at the end than before, in MiB.

    Of `steady` alone, where before is the second fifth of the time, and of `churn`, where it is the third of
    twenty-four parts: the hour after the first two of a day.
    """
    rss_mb: float | msgspec.UnsetType = msgspec.UNSET
    """Of `churn` and `take-in` alone: resident memory at the end, in MiB."""
    kept_entries: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    """Of `churn` alone: how much the engine keeps at the end, as the gauge scheduler_kept_entries shows it."""
    cpu_per_second: float | msgspec.UnsetType = msgspec.UNSET
    """Of `waiting` and `waiting-spread` alone: processor time that a second of simulated time costs, in seconds."""
    taken_in_seconds: float | msgspec.UnsetType = msgspec.UNSET
    """Of `big` alone: real time until nodes and running pods were in the cache, which `seconds` does not count."""
    held_mb: float | msgspec.UnsetType = msgspec.UNSET
    """Of `take-in` alone: what the engine keeps of them, in MiB; their objects are freed by then."""
    profile: tuple[HotFunction, ...] | msgspec.UnsetType = msgspec.UNSET
    """With `--profile`: where the time went."""


class NotBoundError(Exception):
    """A scenario that did not end with all its pods bound; the figures would mean nothing."""

    def __init__(self, scenario: str, bound: int, pods: int) -> None:
        super().__init__(f"{scenario}: {bound} of {pods} pods bound")


def run(scenario: BenchScenario, profiler: Profile | None = None) -> BenchMeasurement:
    """Build the cluster, run it to the end, give the figures. Raises NotBoundError.

    With a profiler the measured part is watched by it, which takes several times as long.
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
            engine.bound(binding.pod.uid)
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
    """The victims are deleted at once, and their claims without devices, as the claim controller leaves them."""
    victims = [pod.uid for verdict in preemption.victims for pod in verdict.unit.pods]
    for uid in victims:
        engine.pod_terminating(uid, now, preempted=True)
    engine.preemption_done(preemption.ref, now)
    for uid in victims:
        engine.remove(ObjectRef("Pod", uid=uid), now)
        if uid in claims:
            engine.set(replace(claims[uid], status=ResourceClaimStatus()), now)


def _reserved(cluster: BenchCluster) -> dict[str, ResourceClaim]:
    """Return the allocated claims, by UID of the pod that each is reserved for."""
    claims = (item for item in cluster.resources if isinstance(item, ResourceClaim))
    return {consumer.uid: claim for claim in claims for consumer in claim.status.reserved_for}


def _watch(profiler: Profile | None) -> None:
    if profiler is not None:
        profiler.enable()


def run_steady(scenario: BenchScenario, profiler: Profile | None = None) -> BenchMeasurement:
    """Return pods come and as many end, the oldest first, in simulated time; each is to be placed the moment it comes.

    `seconds` is the real time of all of it, the API's reports of bindings and ends included; `attempt_ms` are the
    decisions.  Raises NotBoundError.
    """
    engine, running = _long_running(scenario)
    gc.collect()
    gc.freeze()
    attempts = array("d", bytes(8 * 2 * scenario.pods))  # all of it now, not to be taken for growth
    count = 0
    held: list[float] = []
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
                engine.bound(binding.pod.uid)
                running.append(binding.pod.uid)
            bound += len(decision.bindings)
        for _ in arrival.pods:
            _end(engine, running.popleft(), now)
        if (arrived + len(arrival.pods)) // every > arrived // every:
            held.append(rss_mb())
        arrived += len(arrival.pods)
    seconds, cpu = clock() - began, time.process_time() - cpu
    if bound != scenario.pods:
        raise NotBoundError(scenario.name, bound, scenario.pods)
    fifth = len(held) // 5
    measured = measurement(scenario, attempts[:count], seconds, cpu, profiler)
    if scenario.family == "churn":
        hours = len(held) / 24
        growth = held[-1] - max(held[int(2 * hours) : int(3 * hours) + 1])
        return msgspec.structs.replace(
            measured, growth_mb=round(growth, 1), rss_mb=round(held[-1], 1), kept_entries=dict(engine.sizes())
        )
    growth = max(held[-fifth - 1 :]) - max(held[fifth : 2 * fifth + 1])
    return msgspec.structs.replace(measured, growth_mb=round(growth, 1))


def run_waiting(scenario: BenchScenario, profiler: Profile | None = None) -> BenchMeasurement:
    """Gangs wait that cannot be placed, and every second of simulated time something happens that helps none of them.

    A pod ends somewhere; where they wait for a spread a node changes, too.  Then room for one gang becomes free, and it
    is to be placed in the cycle that follows.  `seconds` is the real time of all that; what went before, one attempt
    for each gang, is not counted.  Raises NotBoundError.
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
    """Running pods enter the cache, as after a restart; no object outlives the call that reports it.

    `seconds` is the time within the engine, `attempt_ms` of one pod.  Raises NotBoundError.
    """
    cluster = scenario.build()
    engine = synced(cluster)
    gc.collect()
    held = rss_mb()
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
    known = sum(1 for pod in engine.cluster.pods.values() if pod.scheduled)
    if known != scenario.pods:
        raise NotBoundError(scenario.name, known, scenario.pods)
    measured = measurement(scenario, times, sum(times), cpu, profiler)
    return msgspec.structs.replace(measured, rss_mb=round(resident, 1), held_mb=round(max(0.0, resident - held), 1))


def _long_running(scenario: BenchScenario) -> tuple[Engine, deque[str]]:
    """Return an engine in the middle of its life, and the UIDs of running pods, oldest first; the objects are not
    kept.
    """
    cluster = scenario.build()
    return synced(cluster), deque(pod.metadata.uid for pod in cluster.running)


def _end(engine: Engine, uid: str, now: float) -> None:
    """A pod is deleted and gone; the last of a group takes the group along."""
    key = engine.cluster.pods[uid].group
    engine.pod_terminating(uid, now)
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
    """Return the figures of a run: seconds of each attempt, of all, of the processor, and to the first eviction."""
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
    """Return where most of the time went, by time in the function itself."""
    result = []
    for (file, line, name), (_, calls, own, total, _) in pstats.Stats(profiler).stats.items():  # type: ignore[attr-defined]
        package, inside, rest = file.rpartition("reprieve/")
        where = f"{rest}:{line} {name}" if inside and package else name
        result.append(HotFunction(where, calls, round(own, 6), round(total, 6)))
    return tuple(sorted(result, key=lambda hot: (-hot.own_seconds, hot.function))[:_HOTTEST])


def synced(cluster: BenchCluster) -> Engine:
    """Return an engine that knows the nodes, the groups of running pods and the running pods."""
    engine = Engine()
    before = (cluster.nodes, cluster.running_groups, cluster.services, cluster.budgets, cluster.resources)
    for item in chain.from_iterable(before):
        engine.set(item, 0.0)
    for order, pod in enumerate(cluster.running):
        engine.set(pod, 0.0, created=float(order))
    return engine


def _add_work(engine: Engine, cluster: BenchCluster) -> None:
    """Let what is to be scheduled arrive at time 0, its groups first."""
    for item in (*cluster.composites, *cluster.groups):
        engine.set(item, 0.0)
    for order, pod in enumerate(cluster.work):
        engine.set(pod, 0.0, created=float(order))


def rss_mb() -> float:
    """Resident set of this process now, in MiB; its peak where the kernel does not report it."""
    return _status("VmRSS:") or peak_rss_mb()


def peak_rss_mb() -> float:
    """Peak resident set of this process in MiB.

    Linux carries `ru_maxrss` of the parent over an exec, so the kernel's own mark is read where there is one.
    """
    known = _status("VmHWM:")
    if known is not None:
        return known
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024) if sys.platform == "darwin" else peak / 1024


def _status(field: str) -> float | None:
    """Return a size in /proc/self/status in MiB."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) / 1024
    return None


def versions() -> dict[str, str]:
    """Return what ran."""
    from importlib.metadata import version

    return {"reprieve": version("reprieve"), "python": platform.python_version(), "numpy": np.__version__}
