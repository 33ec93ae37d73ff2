"""Carrying out a preemption: nominations first, then the victims, and the gate opens when all calls are through.

The order of calls (preemption.md 7; KEP-4832), so that a scheduler killed between any two of them leaves something the
next one can finish:

1. `status.nominatedNodeName` of the preemptors is written before any victim is touched: the next scheduler sees
   which preemptors the victims make way for, and waits instead of preempting again.
2. A single pod as victim: PATCH DisruptionTarget, then DELETE with its UID and its own grace period.
3. An `all` unit: DisruptionTarget on every pod, then on the PodGroup, and only then the deletions. The word on the
   PodGroup is the point of no return: a unit that has it and has lost pods is what `resume` finishes, so that no unit
   stays partly evicted; without it nothing was deleted.
4. All victims but the last at the same time, the last when the others are through.
5. What was marked and is not deleted after all, because the preemption failed, gets DisruptionTarget=False.

Invariants: every preemption that was started ends in exactly one call of `done` or `failed`, or is cancelled by
`aclose`. After a failure no further victim is begun, but the deletion of a unit that has begun is finished, with as
many attempts as it takes. No calls are made for a victim that is terminating, or that the API no longer has.
Two preemptors that decided on the same victim make its calls once.
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
"""Victims under way at the same time, per preemption: as many as bindings, and kube-scheduler's `parallelism`."""


class PreemptionListener(TroubleListener, Protocol):
    """Receives the outcome of evictions and preemptions (`reprieve.observability.observer.Observer`)."""

    def evicted(self, pod: PodRecord, preemption: Preemption, *, now: float) -> None:
        """The calls for a victim were made."""

    def preemption_ended(self, preemption: Preemption, *, seconds: float, error: str | None, now: float) -> None:
        """All calls were made, or one failed."""


Release = Callable[[PodRecord], Awaitable[bool]]
"""Take back what is under way for an assumed pod. True: it no longer has a node; False: it is bound after all."""


class GoneError(ClientError):
    """The preemptor no longer exists."""


class PreemptionExecutor:
    """See the module docstring. Made and used in one event loop; `aclose` it.

    `done(key)` and `failed(preemption, error)` are called when a preemption ends; `release` takes back victims that are
    only assumed; `wanted(key)` says whether the preemptor is still there.
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
        self._means = _Context(calls, self._repairs, conditions, self._evicted, release, wanted, parallel)

    @property
    def under_way(self) -> int:
        """Preemptions and repairs that have not ended."""
        return len(self._tasks)

    def start(self, preemption: Preemption) -> asyncio.Task[None]:
        """Carry out a preemption while the scheduler continues. The task raises nothing."""
        return self._spawn(self.run(preemption))

    async def run(self, preemption: Preemption) -> None:
        """Carry out a preemption and return when it has ended (gate SchedulerAsyncPreemption=false). Raises nothing."""
        began = self._clock.monotonic()
        error: str | None = None
        run = _Run(self._means, preemption)
        try:
            await run.carry_out()
        except LeadershipLostError as deposed:
            error = str(deposed)
        except ClientError as refusal:
            error = str(refusal)
            run.spare()
        except Exception as surprise:  # whatever it is: the preemptor must not stay behind its gate
            error = f"{type(surprise).__name__}: {surprise}"
            run.spare()
        seconds, now = self._clock.monotonic() - began, self._clock.now().timestamp()
        self._listener.preemption_ended(preemption, seconds=seconds, error=error, now=now)
        if error is None:
            self._done(preemption.ref)
        else:
            self._failed(preemption, error)

    def resume(self, cluster: ClusterState) -> None:
        """Finish the `all` units that a killed scheduler left partly evicted. Once, when the cluster cache is complete.

        A unit is past the point of no return if its group is marked and all of its running pods are. Its eviction has
        begun if pods of it terminate, or fewer run than it needs, or a pending pod of higher priority is
        nominated to the node of one of them. A unit that is marked and not begun loses the marks if no preemption
        chooses it within a minute.
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
    """What every preemption is carried out with."""

    calls: VictimCalls
    repairs: UnitRepairs
    conditions: Conditions
    evicted: Callable[[PodRecord, Preemption], None]
    release: Release
    wanted: Callable[[str], bool]
    parallel: int


class _Run:
    """One preemption being carried out."""

    def __init__(self, means: _Context, preemption: Preemption) -> None:
        self._means = means
        self._calls = means.calls
        self._preemption = preemption
        self._slots = asyncio.Semaphore(means.parallel)
        self._error: Exception | None = None
        """The first failure: no further victim is begun."""
        first = preemption.pod or preemption.nominations[0][0]
        self._released: set[str] = set()
        """UIDs of victims that were only reserved, and have given that up."""
        self._deleted: set[str] = set()
        """UIDs of victims that the API has confirmed as deleted."""
        self._tried: set[str] = set()
        """UIDs of victims for which a deletion was sent."""
        self._doubtful: set[str] = set()
        """UIDs of victims for which the deletion failed, and may be carried out all the same."""
        self._marked: set[str] = set()
        """UIDs of victims, and units, that are to be notified if they stay."""
        self._mark = means.conditions.disruption_target(first, by=preemption.kind)
        self._for = first

    async def carry_out(self) -> None:
        """Make all calls. Raises the first failure, when nothing of it is under way."""
        preemption = self._preemption
        units = [verdict.unit for verdict in preemption.victims]
        self._calls.begin(units)
        try:
            await asyncio.gather(
                self._guarded(self._nominate()),
                *(self._guarded(self._release(pod)) for unit in units for pod in unit.pods if not pod.bound),
            )
            if units:
                *others, last = units
                evictions = (self._guarded(self._evict(unit)) for unit in others)
                await asyncio.gather(*evictions, self._guarded(self._prepare(last)))
                await self._guarded(self._complete(last))
            self._raise()
        finally:
            self._calls.end(units)

    def spare(self) -> None:
        """It failed: what was marked stays, and its condition says so, unless a pod of it was or may be deleted.

        A unit that has lost a pod is being finished.
        """
        repairs = self._means.repairs
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
        """Raise the first error, if there was one."""
        if self._error is not None:
            raise self._error

    async def _nominate(self) -> None:
        """Wait until the nominations of the preemptors are written."""
        await asyncio.gather(*(self._means.conditions.written(pod) for pod, _ in self._preemption.nominations))

    async def _release(self, pod: PodRecord) -> None:
        """Release a victim that is not bound: it needs no call, and goes back to the queue (preemption.md 7.2).

        At once, before its binding is sent; what has been sent is waited for.
        """
        if pod.row < 0 or (not pod.terminating and await self._means.release(pod)):
            self._released.add(pod.uid)
            self._evicted(pod)

    async def _guarded(self, work: Awaitable[None]) -> None:
        """Do it; keep the first error, for `carry_out` to raise when all that was begun has ended."""
        try:
            await work
        except Exception as error:
            self._error = self._error or error

    def _go_on(self) -> None:
        """Raise if no further victim may be begun."""
        self._raise()
        if not self._means.wanted(self._preemption.ref):
            raise GoneError("the preemptor does not exist any more")

    # -- one unit --------------------------------------------------------------------------------------

    async def _evict(self, unit: PreemptionUnit) -> None:
        await self._prepare(unit)
        await self._complete(unit)

    async def _prepare(self, unit: PreemptionUnit) -> None:
        """Mark the pods that are to go together; nothing for a single pod."""
        if unit.group is None:
            return
        self._go_on()
        await self._each(self._left(unit), self._mark_pod)

    async def _complete(self, unit: PreemptionUnit) -> None:
        """Let a unit go: from the first deletion on there is no way back for the whole of it."""
        if unit.group is None:
            async with self._slots:
                self._go_on()
                pod = unit.pods[0]
                if pod.uid in self._released:
                    return
                await self._mark_pod(pod)
                self._go_on()
                await self._delete_pod(pod)
            return
        async with self._slots:
            self._go_on()
            await self._mark_group(unit.group, self._left(unit))
        self._go_on()
        left = self._left(unit)
        try:
            await self._each(left[:-1], self._delete_pod)
            await self._each(left[-1:], self._delete_pod)
        except LeadershipLostError:
            raise
        except ClientError:
            if any(pod.uid in self._deleted for pod in left):
                self._means.repairs.finish(unit.group, left)
            raise

    def _left(self, unit: PreemptionUnit) -> list[PodRecord]:
        """Return the pods of a unit that calls have to be made for."""
        return [pod for pod in unit.pods if pod.uid not in self._released]

    async def _each(self, pods: Iterable[PodRecord], act: Callable[[PodRecord], Awaitable[None]]) -> None:
        """Do something with every pod; raises the first error when all have ended."""

        async def one(pod: PodRecord) -> None:
            async with self._slots:
                await act(pod)

        results = await asyncio.gather(*(one(pod) for pod in pods), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    # -- one victim ------------------------------------------------------------------------------------

    async def _mark_group(self, group: Group, pods: Iterable[PodRecord]) -> None:
        self._marked.add(unit_key(group))
        await self._calls.mark_group(group, pods, self._for, by=self._preemption.kind)

    async def _mark_pod(self, pod: PodRecord) -> None:
        """DisruptionTarget, unless it has it or leaves already."""
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
        self._means.evicted(pod, self._preemption)


def _staying(leaf: GroupState) -> int:
    """Return pods of a group that run and are not being deleted."""
    return sum(1 for pod in leaf.running() if not pod.terminating)


def _waited_for(cluster: ClusterState, running: Iterable[PodRecord], priority: int) -> bool:
    """Return whether a pending pod of higher priority is nominated to the node of one of these pods."""
    nominated = (pod for row in {pod.row for pod in running} for pod in cluster.nodes.nominated.get(row, {}).values())
    return any(pod.row < 0 and effective_priority(cluster, pod) > priority for pod in nominated)
