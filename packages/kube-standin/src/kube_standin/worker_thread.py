"""Work of a write that takes long, done in a thread beside the event loop.

A write is decided in one turn of the loop, so no other client is served meanwhile: for an object of some megabytes a
second or more. Most of that is pure: applying a patch, finding out what owns what, validating. A write that may be
large therefore hands these steps to an `OffLoopSteps`. The first time one is reached the write is broken off
(`NotYetDoneError`) before it has changed anything; the step is done in a thread; the write begins again, and where it
comes to the step with the same input it finds the result. If what it depends on has changed meanwhile, it is done
again.

A step that waits for an answer from elsewhere (`awaited`, such as a webhook) is done likewise, but on the loop. What a
write makes up for itself, a uid or the time, it makes once (`once`), so that it comes to the same step again.

Invariants: a step depends on nothing but what it is given, and a write changes nothing before its last step.
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
"""How often the input of a step that was done may change before a write is given up."""
_thread = ThreadPoolExecutor(1, thread_name_prefix="off-loop")
_encoder = ThreadPoolExecutor(1, thread_name_prefix="encoder")


class NotYetDoneError(Exception):
    """The write goes on once `work` has been awaited. ``changed``: the step was done before, for another input."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]], *, changed: bool = True) -> None:
        super().__init__("a step is to be done off the event loop")
        self.work = work
        self.changed = changed


class TooManyTurnsError(Exception):
    """What the write depends on changed again and again while its steps were done."""


class OffLoopSteps:
    """Results of the steps of one write. ``always``: all steps go off the loop, not only those that turn out long.

    ``aside`` gives the context of a wait for calls: others go on meanwhile (`body_slots.LargeTurn`).
    """

    def __init__(
        self, *, always: bool, aside: Callable[[], AbstractAsyncContextManager[object]] = nullcontext[None]
    ) -> None:
        self.always = always
        self._aside = aside
        self._results: dict[str, tuple[bytes, Any]] = {}
        self._made: dict[str, Any] = {}

    def value(self, step: str, given: Any, work: Callable[[], Any]) -> Any:
        """Return the JSON value that `work` makes of `given`, which is all it depends on; fresh at each call."""
        if not self.always:
            return work()
        return msgspec.json.decode(self._done(step, given, lambda: msgspec.json.encode(work())))

    def findings(self, step: str, given: Any, work: Callable[[], ResultT]) -> ResultT:
        """Return the same, off the loop in any case, for a result that is not changed."""
        return cast("ResultT", self._done(step, given, work))

    def once(self, name: str, make: Callable[[], ResultT]) -> ResultT:
        """Return the value that this write made under a name, in whichever of its tries that was."""
        if self is INLINE:
            return make()
        if name not in self._made:
            self._made[name] = make()
        return cast("ResultT", self._made[name])

    def awaited(self, calls: Sequence[AwaitedCall]) -> list[Any]:
        """Return the results of calls, which are made at the same time; a result that is an exception is returned.

        Raises NotYetDoneError for calls that have not been made, for this input, and ValueError for a write that
        cannot wait.
        """
        if self is INLINE:
            raise ValueError("a write that is done at once cannot wait for calls")
        missing = [call for call in calls if self._answered(call) is None]
        if missing:
            changed = any(call.step in self._results for call in missing)
            raise NotYetDoneError(partial(self._make, missing), changed=changed)
        return [self._results[call.step][1] for call in calls]

    def _answered(self, call: AwaitedCall) -> Any:
        found = self._results.get(call.step)
        return found if found is not None and found[0] == call.given else None

    async def _make(self, calls: Sequence[AwaitedCall]) -> None:
        async with self._aside():
            results = await asyncio.gather(*(call.make() for call in calls), return_exceptions=True)
        for call, result in zip(calls, results, strict=True):
            if isinstance(result, BaseException) and not isinstance(result, Exception):
                raise result
            self._results[call.step] = call.given, result

    def _done(self, step: str, given: Any, work: Callable[[], Any]) -> Any:
        try:
            key = msgspec.json.encode(given)
        except (OverflowError, ValueError):  # a number that JSON can hold and the encoder cannot
            key = repr(given).encode("utf-8", "replace")
        found = self._results.get(step)
        if found is not None and found[0] == key:
            return found[1]

        def keep() -> None:
            self._results[step] = key, work()

        raise NotYetDoneError(partial(off_loop, keep), changed=found is not None)


@dataclass(frozen=True)
class AwaitedCall:
    """A call that a write waits for: under which name its result is kept, what it depends on, and how it is made."""

    step: str
    given: bytes
    make: Callable[[], Awaitable[Any]]


TURN_SECONDS = 0.005
"""How long work that goes on may hold the event loop before others are served."""


class Turn:
    """A turn of the event loop that a long piece of work takes: `over` lets others have theirs when it is."""

    def __init__(self) -> None:
        self._ends = time.monotonic() + TURN_SECONDS

    @property
    def is_over(self) -> bool:
        """Return whether it has lasted `TURN_SECONDS`."""
        return time.monotonic() > self._ends

    async def over(self) -> None:
        """Begin the next turn if this one has lasted long enough."""
        if self.is_over:
            await asyncio.sleep(0)
            self._ends = time.monotonic() + TURN_SECONDS


INLINE = OffLoopSteps(always=False)
"""For writes that delay no other client: every step is done where it stands."""


async def off_loop(work: Callable[..., ResultT], *given: Any) -> ResultT:
    """Do something that takes long in the one thread for it."""
    return await asyncio.get_running_loop().run_in_executor(_thread, work, *given)


async def encoded(slices: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the slices of an answer, each made in a thread for answers alone: no write waits for one that is read."""
    loop = asyncio.get_running_loop()
    while (made := await loop.run_in_executor(_encoder, next, slices, None)) is not None:
        yield made


_repeating: ContextVar[bool] = ContextVar("repeating", default=False)


def can_wait() -> bool:
    """Return whether what runs now is a write that begins again where it raises NotYetDoneError."""
    return _repeating.get()


async def repeated(write: Callable[[], ResultT]) -> ResultT:
    """Do a write as often as it takes until all of its steps are done. Raises TooManyTurnsError."""
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
