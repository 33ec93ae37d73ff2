"""The scheduling loop: process changes, run cycles, and pass decisions to the listener that executes them.

One task. It waits for work - a change, a finished call, the end of a backoff. Each turn then passes changes to the
engine, runs cycles for at most `Pace.slice` seconds, and yields to the event loop, so that leases are renewed and
responses are read however many decisions are pending.

Invariants: only this loop uses the engine, and never while a cycle runs: other parts pass calls for it to `call_soon`,
which runs them in the next turn. A decision is passed on before the next cycle begins. No decision is made before the
cluster cache is complete (`ClusterFeed.fed`) or without the right to act (`allowed`). While too many bindings are in
flight no cycle runs: deciding further ahead of a slow API server has no benefit. Nothing polls.

With blocking plugins (`Plugin.blocking`: HTTP extenders, third-party plugins) a cycle runs in a worker thread and the
event loop continues meanwhile (scheduling.md 5).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from reprieve.client.clock import Clock
from reprieve.cluster.pods import PodRecord
from reprieve.framework.instructions import Instruction
from reprieve.framework.plugin_guard import PluginIncident
from reprieve.live.event_handlers import ClusterFeed
from reprieve.preemption.outcome import Preemption
from reprieve.scheduling.advance_reservation import AdvanceReservation
from reprieve.scheduling.decision import Binding, Decision, Rejection
from reprieve.scheduling.effects import NO_EFFECTS, DirectEviction, Effects
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.gang_health import Satisfaction
from reprieve.scheduling.lost_place import LostPlace
from reprieve.scheduling.preemptor_reservations import ReleasedReservation

EngineCall = Callable[[float], Effects | None]
"""A call of the engine with its time; returns the effects if it changed something."""

LONGEST_WAIT: Final = 60.0
STUCK: Final = 60.0
"""A loop that has not come around for so long does not come back by itself."""
_T = TypeVar("_T")


class SteadyTime:
    """The engine's time: seconds since the epoch that never go back, whatever happens to the machine's clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = clock.now().timestamp() - clock.monotonic()

    def __call__(self) -> float:
        """Return the current time."""
        return self._clock.monotonic() + self._offset


@dataclass(frozen=True, slots=True)
class Pace:
    """Times in seconds."""

    slice: float = 0.02
    """How long cycles run, or changes are applied, before other tasks get a turn."""
    tick: float = 1.0
    """How often work without events is handled: long-gated pods, event series."""
    bindings: int = 1000
    """The number of bindings in flight above which no further decisions are made."""


class DecisionListener(Protocol):
    """Executes decisions."""

    @property
    def bindings_under_way(self) -> int:
        """Return the number of bindings without a known outcome."""

    def decided(self, decision: Decision, *, seconds: float, now: float) -> None:
        """Act on a decision: start its bindings, evictions and writes, without waiting."""

    async def preempt(self, preemption: Preemption) -> None:
        """Evict within the cycle (gate SchedulerAsyncPreemption off, preemption.md 7.6)."""

    def unnominated(self, pods: Iterable[PodRecord]) -> None:
        """Clear nominations that ended without a decision."""

    def capacity_reserved(self, reservation: AdvanceReservation) -> None:
        """Write the nominations of a reservation that was made or moved."""

    def room_released(self, room: ReleasedReservation) -> None:
        """Report that capacity reserved for a preemptor was released unused."""

    def capacity_kept(self, place: LostPlace) -> None:
        """Write the nomination for the reserved capacity of a lost member, or of its replacement."""

    def satisfaction_changed(self, state: Satisfaction) -> None:
        """Write the condition of a gang that reached its minimum or fell below it."""

    def evict(self, eviction: DirectEviction) -> None:
        """Evict a unit without a preemption: a degraded gang, or backfilled work that runs too long."""

    def deferred_writes(self, instructions: Iterable[Instruction]) -> None:
        """Start writes outside of bindings (`Effects.writes`)."""

    def permitted(self, allowed: Iterable[Binding], refused: Iterable[Rejection]) -> None:
        """Act on the verdicts of Permit plugins about waiting pods."""

    def incidents(self, incidents: Iterable[PluginIncident]) -> None:
        """Report incidents in plugins."""

    def tick(self, now: float) -> Effects:
        """Handle work without events; called before the first cycle, and then about once per `Pace.tick`."""


class SchedulingLoop:
    """The loop; see the module docstring. `allowed` returns whether the scheduler may act now."""

    def __init__(
        self,
        engine: Engine,
        feed: ClusterFeed,
        listener: DecisionListener,
        clock: Clock,
        *,
        allowed: Callable[[], bool] = lambda: True,
        pace: Pace = Pace(),
        threaded: bool | None = None,
    ) -> None:
        self.engine = engine
        self.time = SteadyTime(clock)
        self._feed = feed
        self._listener = listener
        self._clock = clock
        self._allowed = allowed
        self._pace = pace
        self._threaded = blocks(engine) if threaded is None else threaded
        self._calls: deque[EngineCall] = deque()
        self._due = asyncio.Event()
        self._unnominated: list[PodRecord] = []
        """Pods that have lost their nomination, which could not be written yet."""
        self._reserved: list[AdvanceReservation] = []
        self._released: list[ReleasedReservation] = []
        self._kept: list[LostPlace] = []
        self._satisfaction: dict[str, Satisfaction] = {}
        self._evictions: list[DirectEviction] = []
        self._writes: list[Instruction] = []
        """Effects that are not reported yet."""
        self._begun = False
        self.cycles = 0
        self.in_thread = False
        """Whether a worker thread uses the engine now: no other code may read it."""
        self.last_turn = clock.monotonic()

    def stuck(self) -> str | None:
        """Return what is wrong if the last turn began too long ago."""
        idle = self._clock.monotonic() - self.last_turn
        return None if idle < STUCK else f"no turn for {idle:.0f} s"

    def wake(self) -> None:
        """Wake the loop: there is work."""
        self._due.set()

    def call_soon(self, call: EngineCall) -> None:
        """Call with the time as soon as no cycle runs; for calls that change the engine."""
        self._calls.append(call)
        self._due.set()

    async def calls_made(self) -> None:
        """Wait until all calls passed to `call_soon` before have been made."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.call_soon(lambda _: None if done.done() else done.set_result(None))
        await done

    async def run(self) -> None:
        """Schedule until cancelled."""
        last_tick = self._clock.monotonic()
        while True:
            self._due.clear()
            busy = await self._turn()
            now = self._clock.monotonic()
            if now >= last_tick + self._pace.tick:
                last_tick = now
                if self._feed.fed and self._allowed():
                    await self._ask_permission()
                    self.keep(self._listener.tick(self.time()))
            if busy:
                await asyncio.sleep(0)
            else:
                await self._wait(last_tick + self._pace.tick)

    async def _turn(self) -> bool:
        """Apply changes, then run some cycles; return whether there is more work at once."""
        self.last_turn = self._clock.monotonic()
        engine = self.engine
        complete = self._absorb()
        if not self._feed.fed or not self._allowed():
            return not complete and self._feed.fed
        if not complete:
            return True
        if not self._begun:
            self._begun = True
            self.keep(self._listener.tick(self.time()))
            self._report_all()  # the state of an earlier scheduler is taken over before time advances
        ends = time.perf_counter() + self._pace.slice
        while self._listener.bindings_under_way < self._pace.bindings:
            began = time.perf_counter()
            if self._threaded:
                if not self._ready():
                    return False
                effects = await self._in_thread(engine.step)
            else:
                effects = engine.step(self.time())
            ended = time.perf_counter()
            self.keep(effects)
            self._report_ended()
            if effects.decision is None:
                return False
            self.cycles += 1
            await self._act(effects.decision, ended - began)
            if self._threaded or ended >= ends:
                return True
        return False

    def _ready(self) -> bool:
        """Return whether a cycle would find a pod to try; if not, no thread is used."""
        self.keep(self.engine.tick(self.time()))
        return self.engine.queue.has_active

    def _absorb(self) -> bool:
        """Pass finished calls and changes to the engine; return whether none are left."""
        if not self._feed.fed and not self._feed.synced:
            return False
        complete = self._feed.apply(self.time(), seconds=self._pace.slice, clock=self._clock)
        self._report_all()
        return complete

    def _report_all(self) -> None:
        while self._calls:
            self.keep(self._calls.popleft()(self.time()))
        self._report_ended()
        self._send_deferred_writes()

    def keep(self, effects: Effects | None) -> None:
        """Store the effects of a call of the engine until they can be reported; incidents are reported at once."""
        if effects is None or effects is NO_EFFECTS:
            return
        self._unnominated += effects.unnominated_pods
        self._reserved += effects.reservations
        self._released += effects.released
        self._kept += effects.lost_places
        self._satisfaction.update((state.group, state) for state in effects.satisfaction)
        self._evictions += effects.evictions
        self._writes += effects.writes
        if effects.incidents:
            self._listener.incidents(effects.incidents)

    def _report_ended(self) -> None:
        """Report nominations that ended without a decision, and reserved capacity that was released unused.

        A standby keeps the former: if the previous leader was killed, only the standby knows them when it leads.
        """
        released, self._released = self._released, []
        kept_places, self._kept = self._kept, []
        evictions, self._evictions = self._evictions, []
        if self._unnominated:
            cached_pods = self.engine.cluster.pods
            pods = [cached_pods.get(uid) for uid in dict.fromkeys(pod.uid for pod in self._unnominated)]
            self._unnominated = [pod for pod in pods if pod is not None and not pod.scheduled and pod.nominated < 0]
        if not self._allowed():
            return
        if self._unnominated:
            self._listener.unnominated(self._unnominated)
            self._unnominated = []
        for reservation in self._reserved:
            self._listener.capacity_reserved(reservation)
        self._reserved = []
        for room in released:
            self._listener.room_released(room)
        for place in kept_places:
            self._listener.capacity_kept(place)
        for state in self._satisfaction.values():
            self._listener.satisfaction_changed(state)
        self._satisfaction = {}
        for eviction in evictions:
            self._listener.evict(eviction)

    async def _in_thread(self, act: Callable[[float], _T]) -> _T:
        """Call a function with the engine's time in a worker thread."""
        self.in_thread = True
        try:
            return await asyncio.get_running_loop().run_in_executor(None, act, self.time())
        finally:
            self.in_thread = False

    async def at_rest(self, read: Callable[[], None], *, within: float) -> bool:
        """Read the engine as soon as no cycle runs; return False if one runs for longer than `within` seconds."""
        if not self.in_thread:
            read()
            return True
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def call(_now: float) -> None:
            if not done.done():
                read()
                done.set_result(None)

        self.call_soon(call)
        try:
            async with asyncio.timeout(within):
                await done
        except TimeoutError:
            return False
        return True

    async def _ask_permission(self) -> None:
        """Ask Permit plugins again about waiting pods, once per tick."""
        engine = self.engine
        if not engine.awaits_permission:
            return
        if self._threaded:
            effects = await self._in_thread(engine.ask_permission)
        else:
            effects = engine.ask_permission(self.time())
        self.keep(effects)
        self._listener.permitted(effects.permitted_bindings, effects.rejections)

    def _send_deferred_writes(self) -> None:
        writes, self._writes = self._writes, []
        if writes and self._allowed():
            self._listener.deferred_writes(writes)

    async def _act(self, decision: Decision, seconds: float) -> None:
        self._listener.decided(decision, seconds=seconds, now=self.time())
        self._send_deferred_writes()
        preemption = decision.preemption
        if preemption is not None and preemption.victims and not self.engine.gates.scheduler_async_preemption:
            carried_out = asyncio.ensure_future(self._listener.preempt(preemption))
            carried_out.add_done_callback(lambda _: self._due.set())
            try:
                while not carried_out.done():
                    self._due.clear()
                    self._report_all()  # victims that are only reserved are released meanwhile
                    await self._due.wait()
                carried_out.result()
            finally:
                carried_out.cancel()

    async def _wait(self, tick: float) -> None:
        """Wait until work is due."""
        ends = min(tick, self._clock.monotonic() + LONGEST_WAIT)
        if self._feed.fed and self._allowed() and self._listener.bindings_under_way < self._pace.bindings:
            wakeup = self.engine.next_wakeup()
            if wakeup is not None:
                ends = min(ends, self._clock.monotonic() + max(wakeup - self.time(), 0.0))
        await _first(self._due.wait(), self._clock.sleep(max(ends - self._clock.monotonic(), 0.0)))


def blocks(engine: Engine) -> bool:
    """Return whether a plugin of any profile may block: its cycles need a thread."""
    return any(running.profile.blocking for running in engine.running.values())


async def _first(*waits: Awaitable[object]) -> None:
    """Wait until the first of some awaitables completes."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
