"""Writes to the API server: many at a time, those to one object in order, none after leadership is lost.

Terms: a key names the object of a write (`Pod default/web`); a worker executes writes, several at a time for different
keys.

Invariants: of the writes with one key the next starts when the previous one has ended. At most `workers` are in flight.
Every write ends: with its result, with the error of its last attempt, or with LeadershipLostError. After the fence has
shut nothing is sent: waiting writes end at once, those in flight are cancelled, and the fence is checked again before
every attempt of a request (`ApiClient.request(guard=...)`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

from reprieve.client.errors import ApiError, UnreachableError
from reprieve.client.leader_election import Fence, LeadershipLostError
from reprieve.client.rate_limits import Backoff, BackoffPolicy
from reprieve.client.transport import ApiClient, Guard

T = TypeVar("T")
WORKERS: Final = 16
ATTEMPTS: Final = 5
_BACKOFF: Final = BackoffPolicy(initial=0.5, maximum=10.0)


class _QueuedWrite(Generic[T]):
    __slots__ = ("act", "key", "result")

    def __init__(self, key: str, act: Callable[[], Awaitable[T]], result: asyncio.Future[T]) -> None:
        self.key = key
        self.act = act
        self.result = result


class WriterPool:
    """Executes writes. Use it in one event loop and call `aclose`."""

    def __init__(
        self,
        client: ApiClient,
        fence: Fence | None = None,
        *,
        workers: int = WORKERS,
        attempts: int = ATTEMPTS,
        backoff: BackoffPolicy = _BACKOFF,
    ) -> None:
        self._client = client
        self._fence = fence
        self._workers = workers
        self._attempts = attempts
        self._policy = backoff
        self._waiting: dict[str, deque[_QueuedWrite[Any]]] = {}
        """By key, while it has a write that has not ended; the first one of a busy key is in flight."""
        self._ready: deque[str] = deque()
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False
        if fence is not None:
            fence.on_shut(self._depose)

    @property
    def guard(self) -> Guard | None:
        """Return the check before each attempt of a request (`ApiClient.request`), which raises without the right."""
        return self._fence.check if self._fence is not None else None

    @property
    def in_flight(self) -> int:
        """Return the number of writes in flight."""
        return len(self._tasks)

    @property
    def pending(self) -> int:
        """Return the number of writes that have not ended."""
        return sum(len(writes) for writes in self._waiting.values())

    def submit(self, key: str, act: Callable[[], Awaitable[T]]) -> asyncio.Future[T]:
        """Execute `act` after all earlier writes with this key; it may be called again after a temporary failure.

        Returns its result. Refused at once with LeadershipLostError without the right to write.
        """
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        # The caller need not wait for the result: unretrieved errors cause no warning.
        result.add_done_callback(_retrieved)
        if self._closed or (self._fence is not None and not self._fence.open):
            result.set_exception(
                LeadershipLostError(f"{key}: not written: {'closed' if self._closed else 'not the leader'}")
            )
            return result
        writes = self._waiting.get(key)
        write = _QueuedWrite(key, act, result)
        if writes is None:
            self._waiting[key] = deque((write,))
            self._ready.append(key)
        else:
            writes.append(write)
        self._idle.clear()
        self._start()
        return result

    async def drain(self) -> None:
        """Wait until all writes submitted so far, and meanwhile, have ended."""
        await self._idle.wait()

    async def aclose(self) -> None:
        """Cancel writes in flight and refuse the rest."""
        self._closed = True
        tasks = list(self._tasks)
        self._end_all("closed")
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self) -> None:
        while self._ready and len(self._tasks) < self._workers:
            key = self._ready.popleft()
            if key in self._waiting:
                task = asyncio.get_running_loop().create_task(self._execute(self._waiting[key][0]))
                self._tasks[task] = key
                task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        key = self._tasks.pop(task)
        writes = self._waiting.get(key)
        if writes:
            self._fail(writes.popleft(), LeadershipLostError(f"{key}: not written: cancelled"))  # before it started
            if writes:
                self._ready.append(key)
            else:
                del self._waiting[key]
        if not self._waiting and not self._tasks:
            self._idle.set()
        self._start()

    async def _execute(self, write: _QueuedWrite[Any]) -> None:
        if write.result.done():
            return  # cancelled by its caller
        backoff = Backoff(self._policy, self._client.chance)
        for attempt in range(1, self._attempts + 1):
            try:
                if self._fence is not None:
                    self._fence.check()
                outcome = await write.act()
            except (ApiError, UnreachableError) as error:
                wait = backoff.next()
                if attempt < self._attempts and _passing(error):
                    await self._client.clock.sleep(max(wait, getattr(error, "retry_after", None) or 0.0))
                    continue
                self._fail(write, error)
            except asyncio.CancelledError:
                self._fail(
                    write, LeadershipLostError(f"{write.key}: cancelled in flight: it may or may not have been written")
                )
                raise
            except Exception as error:
                self._fail(write, error)
            else:
                if not write.result.done():
                    write.result.set_result(outcome)
            return

    @staticmethod
    def _fail(write: _QueuedWrite[Any], error: BaseException) -> None:
        if not write.result.done():
            write.result.set_exception(error)

    def _depose(self) -> None:
        self._end_all("not the leader any more")

    def _end_all(self, why: str) -> None:
        for task in self._tasks:
            task.cancel()
        busy = set(self._tasks.values())
        for key, writes in list(self._waiting.items()):
            flying = [writes.popleft()] if key in busy else []
            for write in writes:
                self._fail(write, LeadershipLostError(f"{write.key}: not written: {why}"))
            if flying:
                self._waiting[key] = deque(flying)
            else:
                del self._waiting[key]
        self._ready.clear()
        if not self._waiting and not self._tasks:
            self._idle.set()


def _passing(error: ApiError | UnreachableError) -> bool:
    """Return whether the same write may succeed later, also after an unknown outcome, which a retry resolves."""
    if isinstance(error, UnreachableError):
        return not error.lasting
    return error.code == 429 or error.code >= 500


def _retrieved(result: asyncio.Future[Any]) -> None:
    if not result.cancelled():
        result.exception()
