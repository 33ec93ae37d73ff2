"""Executes evictions without a preemption: every pod is marked as disrupted and deleted.

They are of degraded gangs (repair.md 4) and of backfilled work that runs too long (reservations.md 4.5).  A pod that
cannot be deleted now is tried again with its unit: the engine requests the eviction again while pods of it run. So a
scheduler that is killed during a restart of a gang needs only the gang's conditions to continue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from kube_rules.meta import DISRUPTION_TARGET
from reprieve.client.clock import Clock
from reprieve.client.errors import ApiError, ClientError
from reprieve.client.leader_election import LeadershipLostError
from reprieve.client.write_queue import WORKERS
from reprieve.cluster.pods import PREEMPTION_BY_SCHEDULER, PodRecord
from reprieve.live.conditions import observed
from reprieve.live.writes import Writes, superseded
from reprieve.scheduling.effects import DirectEviction
from reprieve.scheduling.gang_restarts import GangRestart

_OF_RESTARTS: Final = "restarting a pod group that has less than its minimum"


class DirectEvictions:
    """Executes direct evictions; see the module docstring. Use it in one event loop and call `aclose`.

    `trouble` is called with a failure, `done` after all calls of an eviction.
    """

    def __init__(
        self, writes: Writes, clock: Clock, *, trouble: Callable[[str], None], done: Callable[[DirectEviction], None]
    ) -> None:
        self._writes, self._clock, self._trouble, self._done = writes, clock, trouble, done
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """By the `ref` of the eviction."""

    def start(self, eviction: DirectEviction) -> None:
        """Start evicting a unit; no effect if its eviction is in progress."""
        ref = eviction.ref
        if ref not in self._tasks:
            task = self._tasks[ref] = asyncio.get_running_loop().create_task(self._evict(eviction))
            task.add_done_callback(lambda _: self._tasks.pop(ref, None))

    async def aclose(self) -> None:
        """Stop evictions in progress."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _evict(self, eviction: DirectEviction) -> None:
        text = _OF_RESTARTS if isinstance(eviction, GangRestart) else eviction.message
        slots = asyncio.Semaphore(WORKERS)

        async def evict(pod: PodRecord) -> None:
            async with slots:
                if pod.row >= 0 and not pod.terminating:
                    await self._mark(pod, text)
                    await self._writes.delete_pod(pod.namespace, pod.name, pod.uid)

        results = await asyncio.gather(*map(evict, eviction.pods), return_exceptions=True)
        errors = [result for result in results if isinstance(result, ClientError)]
        if not errors:
            self._done(eviction)
        if errors and not isinstance(errors[0], LeadershipLostError):
            self._trouble(f"eviction of {eviction.ref}, which will be tried again: {errors[0]}")

    async def _mark(self, pod: PodRecord, text: str) -> None:
        condition: dict[str, Any] = {
            "type": DISRUPTION_TARGET,
            "status": "True",
            "reason": PREEMPTION_BY_SCHEDULER,
            "message": f"{pod.scheduler_name}: {text}",
            "lastTransitionTime": f"{self._clock.now():%Y-%m-%dT%H:%M:%SZ}",
        }
        status = {"conditions": [observed(condition, pod.generation)]}
        try:
            await self._writes.patch_pod_status(pod.namespace, pod.name, pod.uid, status)
        except ApiError as error:
            if not superseded(error):
                raise
