"""Long steps of a write, run in a thread outside the event loop.

A write is decided in one turn of the loop, so no other client is served meanwhile: for an object of some megabytes a
second or more. Most of that is pure: applying a patch, computing ownership, validating. A write that may be large
therefore passes these steps to an `OffLoopSteps`. On first reaching a step, the write is interrupted
(`NotYetDoneError`) before it has changed anything, and the step runs in a thread. Then the write restarts, and reuses
the result if it reaches the step with the same input. If the input has changed meanwhile, the step runs again.

A step that waits for an external response (`awaited`, such as a webhook) works the same way, but on the loop. Values
that a write generates, a uid or the time, are generated once (`once`), so that it reaches the same step again.

Invariants: a step depends only on its input, and a write changes nothing before its last step.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

import msgspec

ResultT = TypeVar("ResultT")
_TURNS = 24
"""Maximum number of changes of a completed step's input before a write is given up."""
_thread = ThreadPoolExecutor(1, thread_name_prefix="off-loop")
_encoder = ThreadPoolExecutor(1, thread_name_prefix="encoder")


class NotYetDoneError(Exception):
    """The write continues once `work` has been awaited. ``changed``: the step has already run for another input."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]], *, changed: bool = True) -> None:
        super().__init__("a step is to be done off the event loop")
        self.work = work
        self.changed = changed


class TooManyTurnsError(Exception):
    """The input of the write kept changing while its steps ran."""


class OffLoopSteps:
    """Results of the steps of one write. ``always``: all steps run off the loop, not only long ones.

    ``aside`` returns the context of a wait for calls, in which other writes continue (`body_slots.LargeTurn`).
    """

    def __init__(
        self, *, always: bool, aside: Callable[[], AbstractAsyncContextManager[object]] = nullcontext[None]
    ) -> None:
        self.always = always
        self._pause_turn = aside
        self._results: dict[str, tuple[bytes, Any]] = {}
        self._memo: dict[str, Any] = {}

    def value(self, step: str, given: Any, work: Callable[[], Any]) -> Any:
        """Return the JSON value that `work` computes from `given`, its only input; a new copy at each call."""
        if not self.always:
            return work()
        return msgspec.json.decode(self._done(step, given, lambda: msgspec.json.encode(work())))

    def findings(self, step: str, given: Any, work: Callable[[], ResultT]) -> ResultT:
        """Return the same for a result that is not changed, always off the loop."""
        return cast("ResultT", self._done(step, given, work))

    def once(self, name: str, make: Callable[[], ResultT]) -> ResultT:
        """Return the value that this write generated under a name, in any of its tries."""
        if self is INLINE:
            return make()
        if name not in self._memo:
            self._memo[name] = make()
        return cast("ResultT", self._memo[name])

    def awaited(self, calls: Sequence[AwaitedCall]) -> list[Any]:
        """Return the results of concurrent calls; a result that is an exception is returned.

        Raises NotYetDoneError for calls that have not run for this input, and ValueError for a write that cannot wait.
        """
        if self is INLINE:
            raise ValueError("a write that is done at once cannot wait for calls")
        missing = [call for call in calls if self._answered(call) is None]
        if missing:
            changed = any(call.step in self._results for call in missing)
            raise NotYetDoneError(partial(self._make, missing), changed=changed)
        return [self._results[call.step][1] for call in calls]

    def _answered(self, call: AwaitedCall) -> Any:
        result = self._results.get(call.step)
        return result if result is not None and result[0] == call.given else None

    async def _make(self, calls: Sequence[AwaitedCall]) -> None:
        async with self._pause_turn():
            results = await asyncio.gather(*(call.make() for call in calls), return_exceptions=True)
        for call, result in zip(calls, results, strict=True):
            if isinstance(result, BaseException) and not isinstance(result, Exception):
                raise result
            self._results[call.step] = call.given, result

    def _done(self, step: str, given: Any, work: Callable[[], Any]) -> Any:
        try:
            key = msgspec.json.encode(given)
        except (OverflowError, ValueError):  # a number that JSON can express but the encoder cannot
            key = repr(given).encode("utf-8", "replace")
        result = self._results.get(step)
        if result is not None and result[0] == key:
            return result[1]

        def keep() -> None:
            self._results[step] = key, work()

        raise NotYetDoneError(partial(off_loop, keep), changed=result is not None)


@dataclass(frozen=True)
class AwaitedCall:
    """A call that a write waits for: the name of its result, its input, and the call itself."""

    step: str
    given: bytes
    make: Callable[[], Awaitable[Any]]


TURN_SECONDS = 0.005
"""Maximum time that continuing work holds the event loop before other tasks run."""


class Turn:
    """A turn of the event loop in a long task: `over` yields to other tasks when the turn is over."""

    def __init__(self) -> None:
        self._ends = time.monotonic() + TURN_SECONDS

    @property
    def is_over(self) -> bool:
        """Return whether it has lasted `TURN_SECONDS`."""
        return time.monotonic() > self._ends

    async def over(self) -> None:
        """Start the next turn if this one has lasted long enough."""
        if self.is_over:
            await asyncio.sleep(0)
            self._ends = time.monotonic() + TURN_SECONDS


INLINE = OffLoopSteps(always=False)
"""For writes that delay no other client: every step runs at once."""


async def off_loop(work: Callable[..., ResultT], *arguments: Any) -> ResultT:
    """Run a long function in the worker thread."""
    return await asyncio.get_running_loop().run_in_executor(_thread, work, *arguments)


async def encoded(slices: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the slices of a response, each encoded in a separate thread: no write waits for a response."""
    loop = asyncio.get_running_loop()
    while (piece := await loop.run_in_executor(_encoder, next, slices, None)) is not None:
        yield piece


_repeating: ContextVar[bool] = ContextVar("repeating", default=False)


def can_wait() -> bool:
    """Return whether the current write restarts after NotYetDoneError."""
    return _repeating.get()


async def repeated(write: Callable[[], ResultT]) -> ResultT:
    """Run a write until all of its steps are done. Raises TooManyTurnsError."""
    changes = 0
    while changes < _TURNS:
        token = _repeating.set(True)
        try:
            return write()
        except NotYetDoneError as missing:
            work, changed = missing.work, missing.changed
        finally:
            _repeating.reset(token)
        changes += changed
        await work()
    raise TooManyTurnsError
