"""Make the calls for victims, each once, and repair units that are left partly evicted.

A unit with marked pods that are not all deleted is either *finished*, with as many attempts as it takes, or *spared*:
DisruptionTarget=False states that it stays (preemption.md 7.5).  A pod or unit that another preemption evicts now is
not spared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, Protocol

from reprieve.client.clock import Clock
from reprieve.client.errors import ApiError, ClientError
from reprieve.client.leader_election import LeadershipLostError
from reprieve.cluster.groups import Group
from reprieve.cluster.pods import PodRecord
from reprieve.live.conditions import Conditions, observed
from reprieve.live.single_flight import SingleFlight
from reprieve.live.writes import Writes, superseded
from reprieve.preemption.units import PreemptionUnit

_REPAIR_EVERY: Final = 5.0
_MARK: Final = "mark"
_DELETE: Final = "delete"
_DOUBTFUL: Final = 12
"""The number of checks of pods that may still be deleted, `_REPAIR_EVERY` seconds apart."""
_SPARED_AFTER: Final = 2
"""The number of checks, the first at once, after which the marks are removed if none of the pods is deleted."""


class TroubleListener(Protocol):
    """Receives reports of trouble (`reprieve.observability.observer.Observer`)."""

    def trouble(self, where: str, text: str) -> None:
        """Report an error that is not reported elsewhere."""


class VictimCalls:
    """The calls for evicted pods and groups; two preemptions of the same victim make each of them once."""

    def __init__(self, writes: Writes, conditions: Conditions, clock: Clock) -> None:
        self._writes = writes
        self._conditions = conditions
        self._shared = SingleFlight(clock)
        self._unmarked: dict[str, PodRecord] = {}
        """By UID, pods that lost the condition again; their records may not show that yet."""

    def begin(self, units: Iterable[PreemptionUnit]) -> None:
        """Record the start of a preemption of these units."""
        self._shared.begin(_keys(units))

    def end(self, units: Iterable[PreemptionUnit]) -> None:
        """Record the end of a preemption."""
        self._shared.end(_keys(units))

    async def mark_pod(self, pod: PodRecord, condition: dict[str, Any]) -> None:
        """Write DisruptionTarget, unless the pod has it. Raises ClientError; a deleted pod needs no mark."""
        if pod.preempted and pod.uid not in self._unmarked:
            return
        self._unmarked.pop(pod.uid, None)
        status = {"conditions": [observed(condition, pod.generation)]}
        try:
            await self._shared.once(
                _MARK, pod.uid, lambda: self._writes.patch_pod_status(pod.namespace, pod.name, pod.uid, status)
            )
        except ApiError as error:
            if not superseded(error):
                raise

    async def mark_group(self, group: Group, pods: Iterable[PodRecord], preemptor: PodRecord, *, by: str) -> None:
        """Write DisruptionTarget on the PodGroup, once for each eviction of it. Raises ClientError.

        An earlier mark counts for this object and for the pods that it was written for. The group may be scheduled
        again, or be recreated under its name, and be evicted again at once.
        """
        evicted = frozenset((group.uid, *(pod.uid for pod in pods)))
        await self._shared.once(
            _MARK, unit_key(group), lambda: self._conditions.group_disrupted(group, preemptor, by=by), evicted
        )

    async def delete(self, pod: PodRecord) -> bool:
        """Delete the pod; return whether this call did, and not that of another preemption. Raises ClientError."""
        return await self._shared.once(_DELETE, pod.uid, lambda: self.delete_again(pod))

    async def stay(self, pods: Iterable[PodRecord], doubtful: Iterable[PodRecord]) -> bool:
        """Return whether none of the pods is deleted or terminating, by the watch, or by the API for the doubtful ones.

        Raises ClientError.
        """
        if any(pod.terminating or pod.row < 0 for pod in pods):
            return False
        for pod in doubtful:
            if not await self._writes.stays(pod.namespace, pod.name, pod.uid):
                return False
        return True

    async def delete_again(self, pod: PodRecord) -> None:
        """Delete the pod, whatever happened to earlier calls. Raises ClientError."""
        await self._writes.delete_pod(pod.namespace, pod.name, pod.uid)

    def unmark(
        self, group: Group | None, pods: Iterable[PodRecord]
    ) -> tuple[list[PodRecord], list[asyncio.Future[None]]]:
        """Start to remove DisruptionTarget from pods that stay; return these pods, and the writes in flight.

        Nothing is written for a unit or pod that another preemption evicts now.
        """
        if group is not None and self._shared.wanted(unit_key(group)):
            return [], []
        staying = [pod for pod in pods if not pod.terminating and pod.row >= 0 and not self._shared.wanted(pod.uid)]
        written: list[asyncio.Future[None] | None] = []
        if group is not None:
            self._shared.forget(_MARK, unit_key(group))
            written += self._conditions.group_spared(group)
        self._unmarked = {uid: pod for uid, pod in self._unmarked.items() if pod.preempted and pod.row >= 0}
        for pod in staying:
            self._shared.forget(_MARK, pod.uid)
            self._unmarked[pod.uid] = pod
            status = {"conditions": [self._conditions.spared(pod.generation)]}
            written.append(self._writes.patch_pod_status(pod.namespace, pod.name, pod.uid, status))
        return staying, [item for item in written if item is not None]


class UnitRepairs:
    """Repairs units; see the module docstring. `spawn` runs a coroutine in the background; it raises nothing."""

    def __init__(
        self,
        calls: VictimCalls,
        listener: TroubleListener,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._calls = calls
        self._listener = listener
        self._clock = clock
        self._spawn = spawn
        self._finishing: dict[str, dict[str, PodRecord]] = {}
        """By unit, the pods by UID that are being deleted, by one task per unit however often it is requested."""

    def finish(self, group: Group, pods: Iterable[PodRecord]) -> None:
        """Delete the rest of a unit, until all are deleted or the right to write is lost."""
        left = self._finishing.get(unit_key(group))
        if left is None:
            left = self._finishing[unit_key(group)] = {}
            self._spawn(self._finish(group, left))
        left.update((pod.uid, pod) for pod in pods)

    def reconsider(self, group: Group | None, pods: Iterable[PodRecord], doubtful: Iterable[PodRecord]) -> None:
        """Finish or spare a unit (without a group: a pod) with a failed deletion before any was confirmed.

        `doubtful`: the pods that may have been deleted despite the failure. If one pod of the unit is deleted, all
        follow. Otherwise the unit is spared: at once if no pod is doubtful, else when the API has shown for some
        seconds that none is deleted. Doubtful pods are checked for a minute.
        """
        self._spawn(self._reconsider(group, list(pods), list(doubtful)))

    def leave(self, group: Group, pods: Iterable[PodRecord], marked: Callable[[], bool]) -> None:
        """Remove the marks of a unit without a started eviction, if no preemption selects it within a minute.

        `marked`: returns whether the PodGroup itself is marked then.
        """
        self._spawn(self._leave(group, list(pods), marked))

    def spare(self, group: Group | None, pods: Iterable[PodRecord]) -> None:
        """Remove DisruptionTarget from pods that stay, with as many attempts as it takes."""
        staying, written = self._calls.unmark(group, pods)
        if written:
            self._spawn(self._spared(group, staying, written))

    async def _finish(self, group: Group, left: dict[str, PodRecord]) -> None:
        try:
            while pods := [pod for pod in left.values() if not pod.terminating]:
                results = await asyncio.gather(*(self._delete(pod) for pod in pods), return_exceptions=True)
                for pod, outcome in zip(pods, results, strict=True):
                    if outcome is None:
                        left.pop(pod.uid, None)
                errors = [outcome for outcome in results if outcome is not None]
                if any(isinstance(outcome, LeadershipLostError) for outcome in errors):
                    return
                if errors:
                    text = f"the group {group.key} is partly evicted, trying again: {errors[0]}"
                    self._listener.trouble("preemption", text)
                    await self._clock.sleep(_REPAIR_EVERY)
        finally:
            del self._finishing[unit_key(group)]

    async def _reconsider(self, group: Group | None, unit: list[PodRecord], doubtful: list[PodRecord]) -> None:
        looks = 0
        for _ in range(_DOUBTFUL):
            try:
                stay = await self._calls.stay(unit, doubtful)
            except ClientError:
                pass
            else:
                if not stay:
                    if group is not None:
                        self.finish(group, unit)
                    return
                looks += 1
                if looks == (_SPARED_AFTER if doubtful else 1):
                    self.spare(group, unit)
                if not doubtful:
                    return
            await self._clock.sleep(_REPAIR_EVERY)
        if looks < _SPARED_AFTER:  # the API does not respond: no deletion is known
            self.spare(group, unit)

    async def _leave(self, group: Group, unit: list[PodRecord], marked: Callable[[], bool]) -> None:
        if not await self._loses_pod(unit):
            self.spare(group if marked() else None, unit)

    async def _loses_pod(self, unit: Iterable[PodRecord]) -> bool:
        """Wait until one of the pods is deleted; return False if none is for long enough."""
        for _ in range(_DOUBTFUL):
            if any(pod.terminating or pod.row < 0 for pod in unit):
                return True
            await self._clock.sleep(_REPAIR_EVERY)
        return False

    async def _spared(self, group: Group | None, pods: list[PodRecord], written: list[asyncio.Future[None]]) -> None:
        results = await asyncio.gather(*written, return_exceptions=True)
        errors = [
            item
            for item in results
            if isinstance(item, Exception) and not (isinstance(item, ApiError) and superseded(item))
        ]
        if not errors or any(isinstance(item, LeadershipLostError) for item in errors):
            return
        self._listener.trouble("preemption", f"DisruptionTarget not taken back, trying again: {errors[0]}")
        await self._clock.sleep(_REPAIR_EVERY)
        self.spare(group, pods)

    async def _delete(self, pod: PodRecord) -> None:
        if not pod.terminating:
            await self._calls.delete_again(pod)


def unit_key(group: Group) -> str:
    """Return the key of a group that is evicted as a whole."""
    return group.ref


def _keys(units: Iterable[PreemptionUnit]) -> list[str]:
    result = list(units)
    keys = [pod.uid for unit in result for pod in unit.pods]
    return keys + [unit_key(unit.group) for unit in result if unit.group is not None]
