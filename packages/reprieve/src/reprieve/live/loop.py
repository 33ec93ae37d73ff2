"""The scheduling loop: take changes in, run cycles, and hand decisions to the listener that carries them out.

One task. It waits for something to do - a change, a finished call, the end of a backoff - and then, in turns: brings
what has changed to the engine, runs cycles for at most `Pace.slice` seconds, and gives way to the event loop, so that
leases are renewed and answers are read however much there is to decide.

Invariants: only this loop touches the engine, and never while a cycle runs: other parts pass calls for it to
`call_soon`, which runs them at the next turn. A decision is handed on before the next cycle begins. Nothing is decided
before everything is known (`ClusterFeed.fed`) or without the right to act (`allowed`). While too many bindings are
under way no cycle runs: to decide further ahead of a slow API server has no benefit. Nothing here polls.

With plugins that block (`Plugin.blocking`: HTTP extenders, third parties') a cycle runs in a worker thread and the
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
"""A call of the engine; gets the engine's time, and returns the effects if it changed something."""

LONGEST_WAIT: Final = 60.0
_T = TypeVar("_T")


class SteadyTime:
    """The engine's time: seconds since the epoch that never go back, whatever happens to the machine's clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = clock.now().timestamp() - clock.monotonic()

    def __call__(self) -> float:
        """Now."""
        return self._clock.monotonic() + self._offset


@dataclass(frozen=True, slots=True)
class Pace:
    """Times in seconds."""

    slice: float = 0.02
    """For how long cycles run, or changes are applied, before others get their turn."""
    tick: float = 1.0
    """How often to attend to what comes with no event: pods long behind a gate, series of events."""
    bindings: int = 1000
    """Bindings under way beyond which nothing more is decided."""


class DecisionListener(Protocol):
    """Carries out decisions."""

    @property
    def bindings_under_way(self) -> int:
        """Return the number of bindings that have no known outcome yet."""

    def decided(self, decision: Decision, *, seconds: float, now: float) -> None:
        """Act on a decision: start what it asks for, without waiting."""

    async def preempt(self, preemption: Preemption) -> None:
        """Evict within the cycle (gate SchedulerAsyncPreemption off, preemption.md 7.6)."""

    def unnominated(self, pods: Iterable[PodRecord]) -> None:
        """Nominations that ended without a decision."""

    def capacity_reserved(self, reservation: AdvanceReservation) -> None:
        """A reservation was made or moved: its nominations are to be written."""

    def room_released(self, room: ReleasedReservation) -> None:
        """Room that was held for a preemptor was given back unused."""

    def capacity_kept(self, place: LostPlace) -> None:
        """Capacity of a lost member is kept, or handed to its replacement: its nomination is to be written."""

    def satisfaction_changed(self, state: Satisfaction) -> None:
        """A gang has its minimum, or not: its condition is to be written."""

    def evict(self, eviction: DirectEviction) -> None:
        """A unit is to be evicted, not by a preemption: a degraded gang, or backfilled work that runs too long."""

    def deferred_writes(self, instructions: Iterable[Instruction]) -> None:
        """Writes that belong to no binding (`Effects.writes`)."""

    def permitted(self, allowed: Iterable[Binding], refused: Iterable[Rejection]) -> None:
        """What Permit plugins have decided about pods they had let wait."""

    def incidents(self, incidents: Iterable[PluginIncident]) -> None:
        """What went wrong in plugins."""

    def tick(self, now: float) -> Effects:
        """Called before the first cycle, and then about once in `Pace.tick`."""


class SchedulingLoop:
    """See the module docstring. `allowed` says whether there is the right to act now."""

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
        self._unsaid: list[PodRecord] = []
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
        """Whether a worker thread has the engine now: nothing else may read it."""
        self.last_turn = clock.monotonic()
        """Monotonic time of the last turn: a loop that is stuck is recognized by it."""

    def wake(self) -> None:
        """There is something to do."""
        self._due.set()

    def call_soon(self, call: EngineCall) -> None:
        """Call with the time as soon as no cycle runs: what changes the engine."""
        self._calls.append(call)
        self._due.set()

    async def calls_made(self) -> None:
        """Return when everything that `call_soon` was given before has been called."""
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
        """Apply what is new, then run some cycles; whether there is more to do at once."""
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
            self._report_all()  # what a scheduler before has left is taken over before time passes for it
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
        """Return whether a cycle would find something to try: else no thread is asked."""
        self.keep(self.engine.tick(self.time()))
        return self.engine.queue.has_active

    def _absorb(self) -> bool:
        """Notify the engine of what has been finished and what has changed; whether that is all."""
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
        """Keep the effects of a call of the engine until they can be reported; incidents are reported at once."""
        if effects is None or effects is NO_EFFECTS:
            return
        self._unsaid += effects.unnominated
        self._reserved += effects.reserved
        self._released += effects.released
        self._kept += effects.kept
        self._satisfaction.update((state.group, state) for state in effects.satisfaction)
        self._evictions += effects.evictions
        self._writes += effects.writes
        if effects.incidents:
            self._listener.incidents(effects.incidents)

    def _report_ended(self) -> None:
        """Report the nominations that have ended without a decision, and reserved capacity that is free unused.

        A standby keeps the former: when it leads it may be the only one that knows, if the leader before was killed.
        """
        released, self._released = self._released, []
        kept, self._kept = self._kept, []
        evictions, self._evictions = self._evictions, []
        if self._unsaid:
            known = self.engine.cluster.pods
            pods = [known.get(uid) for uid in dict.fromkeys(pod.uid for pod in self._unsaid)]
            self._unsaid = [pod for pod in pods if pod is not None and not pod.scheduled and pod.nominated < 0]
        if not self._allowed():
            return
        if self._unsaid:
            self._listener.unnominated(self._unsaid)
            self._unsaid = []
        for reservation in self._reserved:
            self._listener.capacity_reserved(reservation)
        self._reserved = []
        for room in released:
            self._listener.room_released(room)
        for place in kept:
            self._listener.capacity_kept(place)
        for state in self._satisfaction.values():
            self._listener.satisfaction_changed(state)
        self._satisfaction = {}
        for eviction in evictions:
            self._listener.evict(eviction)

    async def _in_thread(self, act: Callable[[float], _T]) -> _T:
        """Do something with the engine in a worker thread; it gets the engine's time."""
        self.in_thread = True
        try:
            return await asyncio.get_running_loop().run_in_executor(None, act, self.time())
        finally:
            self.in_thread = False

    async def at_rest(self, read: Callable[[], None], *, within: float) -> bool:
        """Read the engine as soon as no cycle runs; False if one runs for longer than `within` seconds."""
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
        """Pods that a Permit plugin lets wait: it is asked again, as often as the loop looks around."""
        engine = self.engine
        if not engine.awaits_permission:
            return
        if self._threaded:
            effects = await self._in_thread(engine.ask_permission)
        else:
            effects = engine.ask_permission(self.time())
        self.keep(effects)
        self._listener.permitted(effects.allowed, effects.refused)

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
                    self._report_all()  # victims that are only reserved are given up meanwhile
                    await self._due.wait()
                carried_out.result()
            finally:
                carried_out.cancel()

    async def _wait(self, tick: float) -> None:
        """Until something is due."""
        ends = min(tick, self._clock.monotonic() + LONGEST_WAIT)
        if self._feed.fed and self._allowed() and self._listener.bindings_under_way < self._pace.bindings:
            wakeup = self.engine.next_wakeup()
            if wakeup is not None:
                ends = min(ends, self._clock.monotonic() + max(wakeup - self.time(), 0.0))
        await _first(self._due.wait(), self._clock.sleep(max(ends - self._clock.monotonic(), 0.0)))


def blocks(engine: Engine) -> bool:
    """Return whether a plugin of any profile may block: then cycles belong in a thread."""
    return any(running.profile.blocking for running in engine.running.values())


async def _first(*waits: Awaitable[object]) -> None:
    """Return when the first of some waits is over."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
