"""Executes preemptions: nominations first, then the victims; the preemptor's gate opens after all calls.

The order of calls (preemption.md 7; KEP-4832), so that after a scheduler is killed between any two of them the next one
can finish the preemption:

1. `status.nominatedNodeName` of the preemptors is written before any victim is changed: the next scheduler sees
 which preemptors the victims are evicted for, and waits instead of preempting again.
2. A single pod as victim: PATCH DisruptionTarget, then DELETE with its UID and its own grace period. 3. An `all` unit:
DisruptionTarget on every pod, then on the PodGroup, and only then the deletions. The condition on the
 PodGroup is the point of no return: `resume` finishes a unit that has it and has lost pods, so that no unit
 stays partly evicted; without it no pod was deleted.
4. All victims but the last at the same time, the last after the others. 5. Marked pods that are not deleted because the
preemption failed get DisruptionTarget=False.

Invariants: every started preemption ends in exactly one call of `done` or `failed`, or is cancelled by `aclose`. After
a failure no further victim is started, but the deletion of a started unit is finished, with as many attempts as it
takes. No calls are made for a victim that is terminating or no longer exists. Two preemptors that decided on the same
victim make its calls once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from reprieve.client.clock import Clock
from reprieve.client.errors import ClientError
from reprieve.client.leader_election import LeadershipLostError
from reprieve.client.write_queue import WORKERS
from reprieve.cluster.groups import Group, GroupState, disrupted_with, is_ready, running_below
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.live.conditions import Conditions
from reprieve.live.victim_calls import TroubleListener, UnitRepairs, VictimCalls, unit_key
from reprieve.live.writes import Writes, refused
from reprieve.preemption.outcome import Preemption
from reprieve.preemption.units import PreemptionUnit, effective_priority

PARALLEL: Final = WORKERS
"""Victims in progress at the same time, per preemption: as many as bindings, and kube-scheduler's `parallelism`."""


class PreemptionListener(TroubleListener, Protocol):
    """Receives the outcome of evictions and preemptions (`reprieve.observability.observer.Observer`)."""

    def evicted(self, pod: PodRecord, preemption: Preemption, *, now: float) -> None:
        """Report the calls for a victim."""

    def preemption_ended(self, preemption: Preemption, *, seconds: float, error: str | None, now: float) -> None:
        """Report that all calls were made, or that one failed."""


Release = Callable[[PodRecord], Awaitable[bool]]
"""Cancels the binding of an assumed pod. True: the pod no longer has a node; False: it is bound after all."""


class GoneError(ClientError):
    """Raised if the preemptor no longer exists."""


class PreemptionExecutor:
    """Executes preemptions; see the module docstring. Use it in one event loop and call `aclose`.

    `done(key)` and `failed(preemption, error)` are called when a preemption ends; `release` releases victims that are
    only assumed; `wanted(key)` returns whether the preemptor still exists.
    """

    def __init__(
        self,
        writes: Writes,
        conditions: Conditions,
        listener: PreemptionListener,
        clock: Clock,
        *,
        done: Callable[[str], None],
        failed: Callable[[Preemption, str], None],
        release: Release,
        wanted: Callable[[str], bool],
        parallel: int = PARALLEL,
    ) -> None:
        self._conditions = conditions
        self._listener = listener
        self._clock = clock
        self._done = done
        self._failed = failed
        self._tasks: set[asyncio.Task[None]] = set()
        calls = VictimCalls(writes, conditions, clock)
        self._repairs = UnitRepairs(calls, listener, clock, self._spawn)
        self._context = _Context(calls, self._repairs, conditions, self._evicted, release, wanted, parallel)

    @property
    def under_way(self) -> int:
        """Return the number of preemptions and repairs in progress."""
        return len(self._tasks)

    def start(self, preemption: Preemption) -> asyncio.Task[None]:
        """Start a preemption while the scheduler continues. The task raises nothing."""
        return self._spawn(self.run(preemption))

    async def run(self, preemption: Preemption) -> None:
        """Execute a preemption and wait for its end (gate SchedulerAsyncPreemption=false). Raises nothing."""
        began = self._clock.monotonic()
        error: str | None = None
        run = _Run(self._context, preemption)
        try:
            await run.execute()
        except LeadershipLostError as deposed:
            error = str(deposed)
        except ClientError as refusal:
            error = str(refusal)
            run.spare()
        except Exception as surprise:  # whatever it is, the preemptor must not stay gated
            error = f"{type(surprise).__name__}: {surprise}"
            run.spare()
        seconds, now = self._clock.monotonic() - began, self._clock.now().timestamp()
        self._listener.preemption_ended(preemption, seconds=seconds, error=error, now=now)
        if error is None:
            self._done(preemption.ref)
        else:
            self._failed(preemption, error)

    def resume(self, cluster: ClusterState) -> None:
        """Finish the `all` units that a killed scheduler left partly evicted; called once with a complete cache.

        A unit is past the point of no return if its group and all of its running pods are marked. Its eviction has
        started if pods of it are terminating, or fewer run than it needs, or a pending pod of higher priority is
        nominated to the node of one of them. A marked unit without a started eviction loses the marks if no preemption
        selects it within a minute.
        """
        every: list[Group] = [*cluster.groups.values(), *cluster.trees.composites.values()]
        for unit in every:
            if unit.unit is not unit:
                continue
            groups = disrupted_with(unit)
            running = [pod for pod in running_below(groups) if not pod.terminating]
            marked = [pod for pod in running if pod.preempted]
            disrupted = self._is_disrupted(groups)
            if not marked and not (disrupted and running):
                continue
            members = (pod for group in groups if isinstance(group, GroupState) for pod in group.members.values())
            begun = any(pod.terminating and pod.preempted for pod in members)
            priority = unit.victim_priority or 0
            short = not is_ready(unit, _staying) or _waited_for(cluster, running, priority)
            if marked and (begun or (disrupted and short and len(marked) == len(running))):
                self._repairs.finish(unit, marked)
            else:
                self._repairs.leave(unit, marked, partial(self._is_disrupted, groups))

    def _is_disrupted(self, groups: Iterable[Group]) -> bool:
        return any(self._conditions.is_disrupted(group.ref) for group in groups)

    async def aclose(self) -> None:
        """Stop; outcomes are no longer reported."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _evicted(self, pod: PodRecord, preemption: Preemption) -> None:
        self._listener.evicted(pod, preemption, now=self._clock.now().timestamp())


class _Context(NamedTuple):
    """The objects that every preemption uses."""

    calls: VictimCalls
    repairs: UnitRepairs
    conditions: Conditions
    evicted: Callable[[PodRecord, Preemption], None]
    release: Release
    wanted: Callable[[str], bool]
    parallel: int


class _Run:
    """One preemption in progress."""

    def __init__(self, context: _Context, preemption: Preemption) -> None:
        self._context = context
        self._calls = context.calls
        self._preemption = preemption
        self._slots = asyncio.Semaphore(context.parallel)
        self._error: Exception | None = None
        """The first failure; after it no further victim is started."""
        first = preemption.pod or preemption.nominations[0][0]
        self._released: set[str] = set()
        """UIDs of victims that were only reserved and were released."""
        self._deleted: set[str] = set()
        """UIDs of victims that the API has confirmed as deleted."""
        self._tried: set[str] = set()
        """UIDs of victims for which a deletion was sent."""
        self._doubtful: set[str] = set()
        """UIDs of victims with a failed deletion that may still have been executed."""
        self._marked: set[str] = set()
        """UIDs of marked victims and units; their marks are removed if they stay."""
        self._mark = context.conditions.disruption_target(first, by=preemption.kind)
        self._for = first

    async def execute(self) -> None:
        """Make all calls. Raises the first failure after all calls have ended."""
        preemption = self._preemption
        units = [verdict.unit for verdict in preemption.victims]
        self._calls.begin(units)
        try:
            await asyncio.gather(
                self._guarded(self._nominate()),
                *(self._guarded(self._release(pod)) for unit in units for pod in unit.pods if not pod.bound),
            )
            if units:
                *first_units, last = units
                evictions = (self._guarded(self._evict(unit)) for unit in first_units)
                await asyncio.gather(*evictions, self._guarded(self._prepare(last)))
                await self._guarded(self._complete(last))
            self._raise()
        finally:
            self._calls.end(units)

    def spare(self) -> None:
        """Write that the marked victims of a failed preemption stay, unless a pod of them was or may be deleted.

        A unit that has lost a pod is being finished.
        """
        repairs = self._context.repairs
        for verdict in self._preemption.victims:
            unit = verdict.unit
            if any(pod.uid in self._deleted for pod in unit.pods):
                continue
            if any(pod.uid in self._tried for pod in unit.pods):
                left = self._left(unit)
                repairs.reconsider(unit.group, left, [pod for pod in left if pod.uid in self._doubtful])
                continue
            group = unit.group if unit.group is not None and unit_key(unit.group) in self._marked else None
            pods = [pod for pod in unit.pods if pod.uid in self._marked]
            if group is not None or pods:
                repairs.spare(group, pods)

    def _raise(self) -> None:
        """Raise the first error, if any."""
        if self._error is not None:
            raise self._error

    async def _nominate(self) -> None:
        """Wait until the nominations of the preemptors are written."""
        await asyncio.gather(*(self._context.conditions.written(pod) for pod, _ in self._preemption.nominations))

    async def _release(self, pod: PodRecord) -> None:
        """Release a victim that is not bound: it needs no call and is queued again (preemption.md 7.2).

        Before its binding is sent this takes effect at once; a sent binding is waited for.
        """
        if pod.row < 0 or (not pod.terminating and await self._context.release(pod)):
            self._released.add(pod.uid)
            self._evicted(pod)

    async def _guarded(self, work: Awaitable[None]) -> None:
        """Await work and keep the first error, which `execute` raises after all started work has ended."""
        try:
            await work
        except Exception as error:
            self._error = self._error or error

    def _check_wanted(self) -> None:
        """Raise if no further victim may be started."""
        self._raise()
        if not self._context.wanted(self._preemption.ref):
            raise GoneError("the preemptor does not exist any more")

    # -- one unit --------------------------------------------------------------------------------------

    async def _evict(self, unit: PreemptionUnit) -> None:
        await self._prepare(unit)
        await self._complete(unit)

    async def _prepare(self, unit: PreemptionUnit) -> None:
        """Mark the pods that are evicted together; nothing for a single pod."""
        if unit.group is None:
            return
        self._check_wanted()
        await self._each(self._left(unit), self._mark_pod)

    async def _complete(self, unit: PreemptionUnit) -> None:
        """Evict a unit: after the first deletion the whole unit must be evicted."""
        if unit.group is None:
            async with self._slots:
                self._check_wanted()
                pod = unit.pods[0]
                if pod.uid in self._released:
                    return
                await self._mark_pod(pod)
                self._check_wanted()
                await self._delete_pod(pod)
            return
        async with self._slots:
            self._check_wanted()
            await self._mark_group(unit.group, self._left(unit))
        self._check_wanted()
        left = self._left(unit)
        try:
            await self._each(left[:-1], self._delete_pod)
            await self._each(left[-1:], self._delete_pod)
        except LeadershipLostError:
            raise
        except ClientError:
            if any(pod.uid in self._deleted for pod in left):
                self._context.repairs.finish(unit.group, left)
            raise

    def _left(self, unit: PreemptionUnit) -> list[PodRecord]:
        """Return the pods of a unit that need calls."""
        return [pod for pod in unit.pods if pod.uid not in self._released]

    async def _each(self, pods: Iterable[PodRecord], act: Callable[[PodRecord], Awaitable[None]]) -> None:
        """Do something with every pod; raises the first error after all have ended."""

        async def act_on(pod: PodRecord) -> None:
            async with self._slots:
                await act(pod)

        results = await asyncio.gather(*(act_on(pod) for pod in pods), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    # -- one victim ------------------------------------------------------------------------------------

    async def _mark_group(self, group: Group, pods: Iterable[PodRecord]) -> None:
        self._marked.add(unit_key(group))
        await self._calls.mark_group(group, pods, self._for, by=self._preemption.kind)

    async def _mark_pod(self, pod: PodRecord) -> None:
        """Write DisruptionTarget, unless the pod has it or is terminating."""
        if not pod.terminating:
            self._marked.add(pod.uid)
            await self._calls.mark_pod(pod, self._mark)

    async def _delete_pod(self, pod: PodRecord) -> None:
        if pod.terminating:
            return
        self._tried.add(pod.uid)
        try:
            ours = await self._calls.delete(pod)
        except ClientError as error:
            if not refused(error):
                self._doubtful.add(pod.uid)
            raise
        self._deleted.add(pod.uid)
        if ours:
            self._evicted(pod)

    def _evicted(self, pod: PodRecord) -> None:
        self._context.evicted(pod, self._preemption)


def _staying(leaf: GroupState) -> int:
    """Return the number of pods of a group that run and are not being deleted."""
    return sum(1 for pod in leaf.running() if not pod.terminating)


def _waited_for(cluster: ClusterState, running: Iterable[PodRecord], priority: int) -> bool:
    """Return whether a pending pod of higher priority is nominated to the node of one of these pods."""
    nominated = (pod for row in {pod.row for pod in running} for pod in cluster.nodes.nominated.get(row, {}).values())
    return any(pod.row < 0 and effective_priority(cluster, pod) > priority for pod in nominated)
