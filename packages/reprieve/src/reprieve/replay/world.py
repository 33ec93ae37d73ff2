"""The world of a replay: jobs arrive, run, are preempted and end in a `VirtualCluster` (replay.md 3).

The virtual cluster decides and evicts. This module adds controllers that create the pods of a job and replace them, the
progress of work, and node failures. It is notified of pod events (`Watcher`) and schedules its own
(`VirtualCluster.at`).

Invariants: between events every account agrees with the cluster; at most one end of a job is scheduled; deleted objects
are forgotten.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kube_rules import objects
from kube_rules.requests import resource_list
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.gates import FeatureGates
from reprieve.framework.plugin_guard import unguarded
from reprieve.framework.profile import Profile
from reprieve.queueing.timers import Timing
from reprieve.replay.accounts import DONE, RUNNING, WAITING, ReplayAccount, Series, Timeline
from reprieve.replay.failures import Failures
from reprieve.replay.fragmentation import Fragmentation
from reprieve.replay.gpu_capacity import GPU, FreeGpus, Ints, TracksFreeGpus
from reprieve.replay.job_list import ReplayJob, Shape, Tolerated
from reprieve.replay.job_objects import Makers, terms_for
from reprieve.replay.quotas import JobQuotas
from reprieve.replay.run_times import RunTimes
from reprieve.scheduling.arrival_order import in_order
from reprieve.scheduling.effects import DirectEviction
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from reprieve.simulation.virtual import TimedPreemption, VirtualCluster

NEVER = float("inf")
_TICK = 1e-6
"""Seconds between the creations of jobs with the same submit: the queue takes them in the order of the list."""
_MOST_TICKS = 900
"""Keeps all creations within the millisecond."""
SERIES = ("allocated", "capacity", "waiting", "lost")


class ReplayError(ValueError):
    """Jobs that do not fit the cluster; `str()` is one line."""


@dataclass(frozen=True, slots=True)
class WorldSettings:
    """Settings of the world around the scheduler. Times in milliseconds."""

    checkpoint: int | None = None
    restart: int = 0
    failures: Failures = field(default_factory=Failures)
    seed: int | None = None
    timeline: bool = False
    """Record where and when pods ran."""
    tolerations: tuple[Tolerated, ...] = ()
    """The tolerations of jobs that list none."""
    run_times: RunTimes = field(default_factory=RunTimes)
    """The scheduler's knowledge of run times."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The scheduler to replay. Without profiles: the default profile."""

    profiles: tuple[Profile, ...] = ()
    gates: FeatureGates = field(default_factory=FeatureGates)
    initial_backoff: float = 1.0
    max_backoff: float = 10.0


@dataclass(slots=True)
class Counts:
    """Counters of evictions."""

    units: int = 0
    pods: int = 0
    gangs: int = 0
    """Gangs that fell below their minimum by an eviction."""
    budget_violations: int = 0
    moves: int = 0
    """Units that were moved for another job; not counted in `units`."""
    foreign_pods: int = 0
    """Evicted pods of the cluster file."""


def _engine(policy: Policy, seed: int | None) -> Engine:
    # Nothing changes by itself in here: no pod need be tried because time has passed (replay.md 3.9).
    timing = Timing(policy.initial_backoff, policy.max_backoff, flush_after=NEVER)
    profiles = {profile.name: profile for profile in policy.profiles}
    return Engine(EngineOptions(profiles, policy.gates, timing, seed=seed, any_scheduler=True, current_reasons=False))


def _accounts(jobs: Sequence[ReplayJob]) -> list[ReplayAccount]:
    accounts = [ReplayAccount(index, job) for index, job in enumerate(jobs)]
    first = 0
    for account in accounts:
        if account.job.submit != jobs[first].submit:
            first = account.index
        account.beside = min(account.index - first, _MOST_TICKS)
    return accounts


class Replay:
    """A replay of one policy; see the module docstring.

    `jobs`: in order of submission, times since the start of the replay. `progress` gets the number of ended jobs and
    the time in milliseconds at each end of a job. Raises ReplayError if the jobs do not fit the cluster.
    """

    def __init__(
        self,
        jobs: Sequence[ReplayJob],
        cluster: Iterable[tuple[objects.KubernetesObject, float]],
        policy: Policy | None = None,
        settings: WorldSettings | None = None,
        *,
        start: float = 0.0,
        quotas: JobQuotas | None = None,
        progress: Callable[[int, int], None] = lambda done, now: None,
    ) -> None:  # long: the accounts of a run, each with its meaning
        policy, self.settings = policy or Policy(), settings or WorldSettings()
        self.engine = _engine(policy, self.settings.seed)
        self._world = VirtualCluster(self.engine, start)
        self._start = start
        items = in_order(cluster)
        self._node_objects = {item.metadata.name: item for item, _ in items if isinstance(item, objects.Node)}
        if not self._node_objects:
            raise ReplayError("the cluster has no nodes")
        self.terms = terms_for(
            self._node_objects.values(),
            checkpoint=self.settings.checkpoint,
            restart=self.settings.restart,
            tolerations=self.settings.tolerations,
        )
        classes = {item.metadata.name: item.value for item, _ in items if isinstance(item, objects.PriorityClass)}
        check(jobs, classes, self.terms.per_gpu)
        self.makers = Makers(self.terms, classes, owned=self.engine.moves.enabled)
        for item, created in items:
            self._world.add(item, created)
        self._world.watcher = self
        self._world.keep = lambda _: None
        self.accounts = _accounts(jobs)
        self._account_of: dict[str, ReplayAccount] = {}
        """By UID of the existing pods of jobs."""
        self._by_group: dict[str, ReplayAccount] = {}
        self._next = 0
        self._quotas = quotas or JobQuotas()
        self.counts = Counts()
        self.running = 0
        self.unfinished = len(jobs)
        self._leaving = 0
        """Pods of jobs that are terminating."""
        self._foreign_leaving: set[str] = set()
        """UIDs of terminating pods of the cluster file."""
        self._nodes_to_repair: set[str] = set()
        """Names of failed nodes that will be repaired."""
        self.holding = 0
        """GPUs that jobs hold."""
        numbers: dict[Shape, int] = {}
        self._shape_of = [numbers.setdefault(job.shape, len(numbers)) for job in jobs]
        """By index of the job: the number of its shape."""
        self._shapes = list(numbers)
        self._workers_waiting = [0] * len(numbers)
        """By number of the shape."""
        self.capacity = 0
        self.reserved_idle_time = 0
        """GPU-time that was idle because it was reserved."""
        self.capacity_time = 0
        """GPU-time of the existing nodes."""
        self.series = Series(SERIES)
        self.timeline = Timeline() if self.settings.timeline else None
        self._note_running()
        self._progress = progress
        self._gpus_of_node = {name: self._gpus(item) for name, item in self._node_objects.items()}
        self._free_gpus: FreeGpus | None = None
        """Free amounts of each GPU, if GPUs are shared and no plugin tracks them."""
        self.fragmentation = Fragmentation(self.engine.cluster, self.terms, jobs, self._free_per_gpu(policy))
        self.capacity = sum(self._gpus_of_node.values())
        for name in sorted(self._node_objects):
            self._await_failure(name, self.settings.failures.of(name, self.settings.seed or 0))
        self._await_arrival()

    def _note_running(self) -> None:
        """Record the pods of the cluster file on the timeline."""
        for pod in self.engine.cluster.pods.values() if self.timeline is not None else ():
            if self.timeline is not None and pod.row >= 0:
                self.timeline.placed(pod.uid, -1, 0, self.engine.cluster.nodes.names[pod.row], 0, pod.key)

    # -- running -----------------------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """Milliseconds since the replay began."""
        return round((self._world.now - self._start) * 1000)

    def run(self, until: int | None = None) -> None:
        """Run to the end, or until a time in milliseconds, exclusive."""
        deadline = NEVER if until is None else self._seconds(until) - _TICK / 2
        self._world.stopped = False
        self._world.advance(self._goes_on, deadline)

    def stop(self) -> None:
        """Stop after the current decision; `run` continues."""
        self._world.stopped = True

    @property
    def stopped(self) -> bool:
        """Return whether `stop` was called."""
        return self._world.stopped

    def _goes_on(self) -> bool:
        """Return whether some job can still change (replay.md 3.11)."""
        if self._next < len(self.accounts) or self.running or self._leaving:
            return True
        if not self.unfinished:
            return False
        return bool(self._nodes_to_repair) or self.engine.next_wakeup(flush=False) is not None

    def close(self, now: int) -> None:
        """Finish the accounts at that time; unsaved work counts as useful."""
        self._account(now)
        for account in self.accounts:
            if account.state != DONE:
                self._lost(account.accrue(now, self.terms.checkpoint_of(account.job.shape)))
                account.keep()
        if self.timeline is not None:
            self.timeline.close(now)

    def _seconds(self, milliseconds: int) -> float:
        return self._start + milliseconds / 1000

    def _at(self, milliseconds: int, action: Callable[[], None]) -> None:
        self._world.at(self._seconds(milliseconds), action)

    def _account(self, now: int) -> None:
        span = now - self.series.at
        if span > 0:
            self.capacity_time += self.capacity * span
            self.reserved_idle_time += self._reserved_idle() * span
            self.series.advance(now, (self.holding, self.capacity, self._waiting_jobs()))
            if now >= self.fragmentation.next:
                self.fragmentation.sample(now, zip(self._shapes, self._workers_waiting, strict=True))

    def _reserved_idle(self) -> int:
        """Milli-GPUs that are idle now because they are reserved."""
        idle = self.engine.reservations.idle_amounts.amounts
        return idle.get(self.terms.gpu, 0) * 1000 // self.terms.per_gpu if idle else 0

    def _waiting_jobs(self) -> int:
        return self._next - (len(self.accounts) - self.unfinished) - self.running

    def _lost(self, amount: int) -> None:
        if amount:
            self.series.add("lost", amount)

    # -- arrivals ----------------------------------------------------------------------------------------------------

    def _await_arrival(self) -> None:
        if self._next < len(self.accounts):
            self._at(self.accounts[self._next].job.submit, self._arrive)

    def _arrive(self) -> None:
        now = self.now
        self._account(now)
        while self._next < len(self.accounts) and self.accounts[self._next].job.submit <= now:
            account = self.accounts[self._next]
            self._next += 1
            account.at = now
            if self._quotas.admits(account.job):
                self._submit(account)
        self._await_arrival()

    def _submit(self, account: ReplayAccount) -> None:
        """Create the pod group of a job with several workers, and all its pods."""
        job = account.job
        account.round += 1
        suffix = "" if account.round == 1 else f"~{account.round}"
        if job.shape.workers > 1:
            name = f"{job.name}{suffix}"
            account.group = f"{job.shape.tenant}/{name}"
            self._by_group[account.group] = account
            self._world.add(self.makers.group(job, name), self._created(account))
        for worker in range(job.shape.workers):
            self._make_pod(account, worker)

    def _make_pod(self, account: ReplayAccount, worker: int) -> None:
        job = account.job
        group = account.group.partition("/")[2]
        uid = f"{account.index:07d}/{account.serial}"
        name = f"{group}-{worker}" if group else job.name
        account.serial += 1
        self._account_of[uid] = account
        self._workers_waiting[self._shape_of[account.index]] += 1
        left = None if job.work is None else job.work - account.saved + (self.settings.restart if account.runs else 0)
        runtime = self.settings.run_times.of(job, left)
        pod = self.makers.pod(job, uid, name, group, runtime, worker=worker)
        record = self._world.add(pod, self._created(account))
        assert record is not None
        account.pods[uid] = (record, worker)

    def _created(self, account: ReplayAccount) -> float:
        return self._seconds(account.job.submit) + account.beside * _TICK

    def last_attempt(self, account: ReplayAccount) -> tuple[str, bool]:
        """Return why a pending job has not started, by its last attempt, and whether it waits for a quota."""
        if not account.round:
            return (refused := self._quotas.refusal(account.job)), not refused
        rejected = (self._world.rejections.get(uid) for uid in account.pods)
        messages = [item.message for item in rejected if item is not None and item.message]
        condition = self._world.conditions.get(f"group/{account.group}")
        of_nodes = next((text for text in messages if "nodes are available: " in text), None)
        if of_nodes is None and condition is not None:
            of_nodes = condition.message
        return of_nodes or next(iter(messages), ""), False

    # -- notifications of the virtual cluster (Watcher) ----------------------------------------------------------------

    def placed(self, pod: PodRecord) -> None:
        """Account for a worker on its node; the job starts when it has its minimum."""
        if self._free_gpus is not None:
            self._take_gpus(self._free_gpus, pod)
        account = self._account_of.get(pod.uid)
        if account is None:
            return
        now = self.now
        self._bring_up(account, now)
        account.holding += 1
        account.working += 1
        account.counted.add(pod.uid)
        self.holding += account.job.shape.gpu
        self._workers_waiting[self._shape_of[account.index]] -= 1
        if self.timeline is not None:
            node = self.engine.cluster.nodes.names[pod.row]
            self.timeline.placed(pod.uid, account.index, account.pods[pod.uid][1], node, now)
        if account.state == WAITING and len(account.counted) >= account.job.shape.min_workers:
            self._start_clock(account, now)

    def preempted(self, event: TimedPreemption) -> None:
        """Account for terminating victims: their jobs lose unsaved work, and queue again."""
        preemption, now = event.preemption, self.now
        staying = {pod.uid: self._stays(pod.uid) for verdict in preemption.victims for pod in verdict.unit.pods}
        evicted = [verdict for verdict in preemption.victims if any(staying[pod.uid] for pod in verdict.unit.pods)]
        if preemption.moves:
            self.counts.moves += len(evicted)
        else:
            self.counts.units += len(evicted)
            self.counts.pods += sum(staying.values())
        self.counts.budget_violations += sum(verdict.violates_pdb for verdict in evicted)
        if self.timeline is not None:
            self.timeline.preempted(now, self._preemptor(event), list(staying))
        self._taken((uid for uid, stays in staying.items() if stays), now, by_eviction=True)

    def _stays(self, uid: str) -> bool:
        """Return whether a victim was not terminating before: two preemptors evict it once (replay.md 4.3)."""
        account = self._account_of.get(uid)
        return uid in account.counted if account is not None else uid not in self._foreign_leaving

    def _preemptor(self, event: TimedPreemption) -> int:
        preemption = event.preemption
        if preemption.group is not None:
            account = self._by_group.get(preemption.group.key)
        else:
            account = self._account_of.get(preemption.pod.uid) if preemption.pod is not None else None
        return -1 if account is None else account.index

    def evicted(self, eviction: DirectEviction) -> None:
        """Account for the eviction of a degraded gang or of overdue backfilled work; its job queues again."""
        self._taken((pod.uid for pod in eviction.pods if self._stays(pod.uid)), self.now, by_eviction=True)

    def gone(self, pod: PodRecord) -> None:
        """Account for a deleted pod; the end of a job accounted for its pods already."""
        now = self.now
        if self._free_gpus is not None:
            self._free_gpus.give_back(pod.uid)
        if self.timeline is not None:
            self.timeline.gone(pod.uid, now)
        self._foreign_leaving.discard(pod.uid)
        account = self._account_of.pop(pod.uid, None)
        if account is None:
            return
        self._bring_up(account, now)
        account.pods.pop(pod.uid, None)
        if pod.start is None:
            self._workers_waiting[self._shape_of[account.index]] -= 1
            return
        if pod.uid not in account.counted:
            self._leaving -= 1
        else:
            account.counted.discard(pod.uid)
            account.working -= 1
        account.holding -= 1
        self.holding -= account.job.shape.gpu

    # -- what follows from it ----------------------------------------------------------------------------------------

    def _bring_up(self, account: ReplayAccount, now: int) -> None:
        self._account(now)
        self._lost(account.accrue(now, self.terms.checkpoint_of(account.job.shape)))

    def _start_clock(self, account: ReplayAccount, now: int) -> None:
        account.state = RUNNING
        account.restart_left = self.settings.restart if account.runs else 0
        account.runs += 1
        account.token += 1
        self.running += 1
        if account.first_start is None:
            account.first_start = now
        if account.job.work is not None:
            end = now + account.restart_left + account.job.work - account.done
            token = account.token
            self._at(end, lambda: self._end(account, token))

    def _stop_clock(self, account: ReplayAccount) -> None:
        """The job has fewer than its minimum: unsaved work is lost."""
        account.state = WAITING
        account.token += 1
        self.running -= 1
        self._lost(account.throw_away())

    def _end(self, account: ReplayAccount, token: int) -> None:
        if account.token != token:
            return
        now = self.now
        self._bring_up(account, now)
        account.keep()
        account.state = DONE
        account.end = now
        account.token += 1
        self.running -= 1
        self.unfinished -= 1
        for uid in list(account.pods):
            self._world.end(uid)
        if account.group:
            self._drop_group(account)
        account.forget()
        for index in self._quotas.ended(account.job, account.index):
            self._submit(self.accounts[index])
        self._progress(len(self.accounts) - self.unfinished, self.now)

    def _drop_group(self, account: ReplayAccount) -> None:
        namespace, _, name = account.group.partition("/")
        self._by_group.pop(account.group, None)
        self._world.delete("PodGroup", namespace, name)
        account.group = ""

    def _taken(self, uids: Iterable[str], now: int, *, by_eviction: bool) -> None:
        """Account for pods that were evicted or lost with their node; their jobs may stop, and create pods again."""
        by_job: dict[int, list[str]] = {}
        for uid in uids:
            account = self._account_of.get(uid)
            if account is not None:
                by_job.setdefault(account.index, []).append(uid)
            elif by_eviction:
                self._foreign_leaving.add(uid)
                self.counts.foreign_pods += 1
        for index, pod_names in sorted(by_job.items()):
            self._lose_workers(self.accounts[index], pod_names, now, by_eviction=by_eviction)

    def _lose_workers(self, account: ReplayAccount, pod_names: Sequence[str], now: int, *, by_eviction: bool) -> None:
        self._bring_up(account, now)
        shape = account.job.shape
        workers = [account.pods[uid][1] for uid in pod_names]
        for uid in pod_names:
            self._leaves(account, uid)
        if by_eviction:
            account.evictions += 1
        pod_by_pod = not shape.whole and shape.workers > 1
        if account.state == RUNNING and not (pod_by_pod and len(account.counted) >= shape.min_workers):
            self._stop_clock(account)
            account.evicted_runs += by_eviction
            account.lost_runs += not by_eviction
            self.counts.gangs += by_eviction and shape.workers > 1
        if pod_by_pod:
            for worker in workers:
                self._make_pod(account, worker)
            return
        for uid, (pod, _) in list(account.pods.items()):
            if pod.start is None:
                self._world.end(uid)
            elif uid in account.counted:
                self._leaves(account, uid)
                self._world.evict(pod)
                if self.timeline is not None and not by_eviction:
                    self.timeline.lost(uid)
        if account.group:
            self._drop_group(account)
        self._submit(account)

    def _leaves(self, account: ReplayAccount, uid: str) -> None:
        if uid in account.counted:
            account.counted.discard(uid)
            account.working -= 1
            self._leaving += 1

    # -- room of each GPU --------------------------------------------------------------------------------------------

    def _free_per_gpu(self, policy: Policy) -> Callable[[ClusterState], Ints] | None:
        """Return a function for the free amount of each GPU; None if GPUs are not shared."""
        if self.terms.per_gpu != GPU:
            return None
        for profile in policy.profiles:
            for plugin in map(unguarded, profile.plugins):
                if isinstance(plugin, TracksFreeGpus):
                    return _checked_room(plugin)
        room = self._free_gpus = FreeGpus({name: gpus // GPU for name, gpus in self._gpus_of_node.items()})
        for pod in self.engine.cluster.pods.values():
            if pod.row >= 0:
                self._take_gpus(room, pod)
        return room.free_per_gpu

    def _take_gpus(self, room: FreeGpus, pod: PodRecord) -> None:
        node = self.engine.cluster.nodes.names[pod.row]
        room.take(pod.uid, node, pod.signature.amounts.get(self.terms.gpu, 0))

    # -- nodes that fail ---------------------------------------------------------------------------------------------

    def _await_failure(self, node: str, outages: Iterator[tuple[int, int | None]]) -> None:
        outage = next(outages, None)
        if outage is not None:
            down, up = outage
            self._at(max(down, 0), lambda: self._fail(node, up, outages))

    def _fail(self, node: str, up: int | None, outages: Iterator[tuple[int, int | None]]) -> None:
        now = self.now
        self._account(now)
        self.capacity -= self._gpus_of_node[node]
        row = self.engine.cluster.nodes.row_of.get(node)
        pods = list(self.engine.cluster.nodes.pods[row].values()) if row is not None else []
        if self.timeline is not None:
            for pod in pods:
                self.timeline.lost(pod.uid)
                self.timeline.gone(pod.uid, now)
        accounts = ((pod.uid, self._account_of.get(pod.uid)) for pod in pods)
        staying = [uid for uid, account in accounts if account is not None and uid in account.counted]
        self._taken(staying, now, by_eviction=False)
        self._world.lose_node(node)
        if up is not None:
            self._nodes_to_repair.add(node)
            self._at(up, lambda: self._repair(node, outages))

    def _repair(self, node: str, outages: Iterator[tuple[int, int | None]]) -> None:
        self._account(self.now)
        self._nodes_to_repair.discard(node)
        self.capacity += self._gpus_of_node[node]
        self._world.add(self._node_objects[node], self._world.now)
        self._await_failure(node, outages)

    def _gpus(self, node: objects.Node) -> int:
        """Milli-GPUs of a node."""
        amounts = resource_list(node.status.allocatable or {})
        return amounts.get(self.terms.gpu, 0) * 1000 // self.terms.per_gpu


def _checked_room(plugin: TracksFreeGpus) -> Callable[[ClusterState], Ints]:
    """Return the plugin's function for the free amount of each GPU, with checks of its result."""

    def free_per_gpu(cluster: ClusterState) -> Ints:
        name = type(plugin).__name__
        try:
            free = np.asarray(plugin.free_per_gpu(cluster))
        except Exception as error:
            raise ReplayError(f"plugin {name}, free_per_gpu: {type(error).__name__}: {error}") from error
        if free.ndim != 2 or len(free) < len(cluster.nodes) or free.dtype.kind not in "iu":
            raise ReplayError(
                f"plugin {name}, free_per_gpu: expected int64[{len(cluster.nodes)}, GPUs of a node], "
                f"found {free.dtype}{list(free.shape)}"
            )
        return np.maximum(free.astype(np.int64), 0)

    return free_per_gpu


def check(jobs: Iterable[ReplayJob], classes: Mapping[str, int], per_gpu: int) -> None:
    """Check that the jobs fit the cluster. Raises ReplayError."""
    names = set()
    for job in jobs:
        shape = job.shape
        if shape in names:
            continue
        names.add(shape)
        if shape.gpu % 1000 and per_gpu == 1:
            raise ReplayError(
                f'job "{job.name}" asks for a part of a GPU, and no node has GPUs in thousandths '
                "(a resource */gpu-milli)"
            )
        name, value = shape.priority_class, classes.get(shape.priority_class)
        if name and value is None and shape.priority is None:
            raise ReplayError(
                f'job "{job.name}" names the priority class "{name}", which is not in the cluster file, '
                "and has no priority"
            )
        if value is not None and shape.priority not in (None, value):
            raise ReplayError(
                f'job "{job.name}" has priority {shape.priority}, but its class "{name}" is {value} in the cluster file'
            )
