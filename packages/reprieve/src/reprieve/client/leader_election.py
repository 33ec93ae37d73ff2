"""Leader election with a Lease, and the fence that stops a leader that has lost the lease.

Rules (client-go `leaderelection`, coordination.k8s.io/v1): the holder renews the lease every `retry` seconds. A leader
without a successful renewal for `renew_deadline` seconds steps down. Others take over after they have not observed a
renewal for the lease's own duration, by their own clock. Every take-over increments `leaseTransitions`.

Invariants: the fence is open only while the last successful renewal was *sent* less than `renew_deadline` ago, which is
shorter than the wait of others: no two fences are open at once (if clocks run equally fast). The fence reads the clock
itself, so that a process that was stopped for a while finds it shut when it continues.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec

from kube_rules.durations import micro_stamp
from reprieve.client.clock import Clock
from reprieve.client.discovery import Resource
from reprieve.client.errors import ApiError, ClientError
from reprieve.client.transport import ApiClient

T = TypeVar("T")
_LOOKS: Final = 0.25
"""The share of `retry` after which a standby reads the lease again."""
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", True)


class LeadershipLostError(ClientError):
    """Raised if the right to write is lost."""


class Fence:
    """The right to write, with an end. It is shut until opened."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = float("-inf")
        self._on_shut: list[Callable[[], None]] = []
        self.term = 0
        """The current term of leadership (`leaseTransitions`), which grows with every change of leader."""

    @property
    def open(self) -> bool:
        """Return whether writing is permitted now."""
        return self._clock.monotonic() < self._until

    def check(self) -> None:
        """Raise LeadershipLostError if writing is no longer permitted."""
        if not self.open:
            raise LeadershipLostError("not the leader: nothing is written")

    def opened(self, until: float, term: int) -> None:
        """Permit writing until a monotonic time."""
        self._until = until
        self.term = term

    def shut(self) -> None:
        """Forbid writing, and call the registered functions (`on_shut`)."""
        was_open = self._until != float("-inf")
        self._until = float("-inf")
        if was_open:
            for notify in self._on_shut:
                notify()

    def on_shut(self, notify: Callable[[], None]) -> None:
        """Register a function to call when leadership ends."""
        self._on_shut.append(notify)


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """Names and times in seconds; the defaults are kube-scheduler's. Raises ValueError for conflicting times."""

    namespace: str
    name: str
    identity: str
    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0
    release: bool = True
    """Release the lease when stopping, so that the next leader need not wait."""

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > self.retry * 1.2 > 0:
            raise ValueError("leader election needs duration > renew deadline > 1.2 x retry > 0")
        if not self.identity:
            raise ValueError("leader election needs an identity")


class _Spec(msgspec.Struct, rename="camel", omit_defaults=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int | None = None


class _Lease(msgspec.Struct, rename="camel", omit_defaults=True):
    metadata: dict[str, Any] = {}
    spec: _Spec | None = None


class Election:
    """One candidate. Call `run` until cancelled; `fence` is open while it leads."""

    def __init__(
        self,
        client: ApiClient,
        options: LeaseOptions,
        *,
        on_leading: Callable[[], None] = lambda: None,
        on_trouble: Callable[[str], None] = lambda _: None,
        on_answer: Callable[[], None] = lambda: None,
    ) -> None:
        self.fence = Fence(client.clock)
        self.leader = ""
        """The known leader; empty if there is none."""
        self._client = client
        self._options = options
        self._on_leading = on_leading
        self._on_trouble = on_trouble
        self._on_answer = on_answer
        self._observed: tuple[str, datetime | None, str] | None = None
        self._observed_at = 0.0
        self._free_at: float | None = None
        """When the lease of another holder, as last read, may be taken."""
        self._leading = asyncio.Event()
        self._late = False
        """Whether the lease was renewed after the right to write had ended."""

    async def wait_leading(self) -> None:
        """Wait until this candidate leads."""
        await self._leading.wait()

    async def watch(self) -> None:
        """Observe the lease without taking it, until cancelled; the time without renewal then counts for `run`.

        For a candidate that cannot lead yet. Errors of the server or network are left to `run`.
        """
        options = self._options
        while True:
            with contextlib.suppress(ClientError):
                await self._read()
            await self._client.clock.sleep(options.retry * _LOOKS)

    async def run(self) -> None:
        """Wait for leadership, lead, and return when it is lost; when cancelled, release the lease.

        The leader's work must then stop: the caller decides whether to run for leadership again.
        """
        clock, options = self._client.clock, self._options
        try:
            while not await self._attempt():
                await clock.sleep(self._pause())
            self._leading.set()
            self._on_leading()
            while self.fence.open:
                await clock.sleep(options.retry)
                if self.fence.open:
                    await self._attempt()
        finally:
            may_hold = self.fence.open or self._late
            self.fence.shut()
            self._leading.clear()
            if may_hold and options.release:
                with contextlib.suppress(ClientError):
                    await self._release()

    def _pause(self) -> float:
        """Return the seconds until the next attempt to take the lease.

        While another holds it: until it may be taken, and at most a fourth of `retry`. A renewal that is not observed
        adds to the time without a leader.
        """
        longest = self._options.retry * (1 + 0.2 * self._client.chance.random())
        if self._free_at is None:
            return longest
        return min(longest * _LOOKS, max(0.0, self._free_at - self._client.clock.monotonic()))

    async def _attempt(self) -> bool:
        """Take or renew the lease; return whether it is held. Server and network errors are never raised."""
        clock, options = self._client.clock, self._options
        sent = clock.monotonic()
        try:
            term = await _within(clock, options.renew_deadline, self._take_or_renew())
        except (ClientError, TimeoutError) as error:
            quicker = isinstance(error, ApiError) and error.code == 409
            if not quicker or self.fence.open:
                self._on_trouble(f"lease {options.namespace}/{options.name}: {error}")
            return False
        self._on_answer()
        if term is None:
            if self.fence.open:  # another holder has it: do not wait for the deadline
                self.fence.shut()
            return False
        if self._leading.is_set() and not self.fence.open:
            # Renewed, but too late: meanwhile writes were refused, and their callers would wait forever.
            self._late = True
            return False
        self.fence.opened(sent + options.renew_deadline, term)
        return True

    async def _take_or_renew(self) -> int | None:
        """Return the term if the lease is held now, None if another holder has it."""
        options, clock = self._options, self._client.clock
        path = LEASES.path(options.namespace, options.name)
        now = clock.now()
        self._free_at = None
        try:
            lease, spec = await self._read()
        except ApiError as error:
            if error.code != 404:
                raise
            body = self._body({"name": options.name, "namespace": options.namespace}, now, now, 0)
            return await self._write("POST", LEASES.path(options.namespace), body, 0)
        holder = spec.holder_identity or ""
        term = spec.lease_transitions or 0
        if holder == options.identity:
            return await self._write("PUT", path, self._body(lease.metadata, spec.acquire_time or now, now, term), term)
        duration = float(spec.lease_duration_seconds or options.duration)
        if holder and clock.monotonic() < self._observed_at + duration:
            self._free_at = self._observed_at + duration
            return None
        return await self._write("PUT", path, self._body(lease.metadata, now, now, term + 1), term + 1)

    async def _read(self) -> tuple[_Lease, _Spec]:
        """Return the lease, and record whether it has changed."""
        path = LEASES.path(self._options.namespace, self._options.name)
        lease = (await self._client.get(path, deadline=self._options.renew_deadline)).read(_Lease)
        spec = lease.spec or _Spec()
        self._observe(spec.holder_identity or "", spec.renew_time, str(lease.metadata.get("resourceVersion", "")))
        return lease, spec

    async def _write(self, method: str, path: str, body: dict[str, Any], term: int) -> int:
        """Write the lease as read. 409 if another candidate was faster; the next attempt reads the result."""
        await self._client.request(method, path, body=body, deadline=self._options.renew_deadline)
        self.leader = self._options.identity
        return term

    def _observe(self, holder: str, renewed: datetime | None, revision: str) -> None:
        """Record when the lease was last observed to change, by this process's clock: other clocks may be wrong."""
        observed = (holder, renewed, revision)
        if observed != self._observed:
            self._observed = observed
            self._observed_at = self._client.clock.monotonic()
        self.leader = holder

    def _body(self, metadata: dict[str, Any], acquired: datetime, renewed: datetime, term: int) -> dict[str, Any]:
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": metadata,
            "spec": {
                "holderIdentity": self._options.identity,
                "leaseDurationSeconds": max(1, round(self._options.duration)),
                "acquireTime": micro_stamp(acquired),
                "renewTime": micro_stamp(renewed),
                "leaseTransitions": term,
            },
        }

    async def _release(self) -> None:
        path = LEASES.path(self._options.namespace, self._options.name)
        lease = (await self._client.get(path, deadline=self._options.retry)).read(_Lease)
        if lease.spec is None or lease.spec.holder_identity != self._options.identity:
            return
        now = self._client.clock.now()
        body = self._body(lease.metadata, now, now, lease.spec.lease_transitions or 0)
        body["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
        await self._client.request("PUT", path, body=body, deadline=self._options.retry)


async def _within(clock: Clock, seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of some work, or raise TimeoutError when the time is over."""
    task = asyncio.create_task(work)
    alarm = asyncio.create_task(clock.sleep(seconds))
    try:
        await asyncio.wait((task, alarm), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise TimeoutError(f"no answer within {seconds:.0f} s")
    finally:
        task.cancel()
        alarm.cancel()
        await asyncio.gather(task, alarm, return_exceptions=True)
