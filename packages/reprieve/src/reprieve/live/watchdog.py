"""Calls of third-party plugins in separate threads with a deadline (scheduling.md 5).

Each plugin object gets one thread, created at its first call.  The caller waits for the result, so no code runs in
parallel as long as plugins behave.  A call beyond the limit is abandoned: the attempt fails, the plugin counts as
*stuck* and fails all further attempts at once, and the scheduler continues.  When the call returns later, its result is
dropped and the plugin is called again.

The watchdog can neither stop the thread nor take the interpreter lock from C code that holds it.  An endless loop in
pure Python costs the scheduler part of its speed.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, ClassVar, TypeVar, cast

from reprieve.framework.interrupts import is_ctrl_c
from reprieve.framework.plugin import Plugin
from reprieve.framework.plugin_guard import CallPolicy, PluginIncident

R = TypeVar("R")
DEFAULT_LIMIT = 10.0
"""Seconds after which a call is abandoned."""
DEFAULT_BUDGET = 1.0
"""Seconds after which a call is reported as slow; also the limit of calls without a waiting attempt."""


class Watchdog(CallPolicy):
    """Calls plugins with a deadline; see the module docstring. Times in seconds; `clock` must advance by itself."""

    waits: ClassVar[bool] = True

    def __init__(
        self,
        limit: float = DEFAULT_LIMIT,
        budget: float = DEFAULT_BUDGET,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._limit = limit
        self._budget = min(budget, limit)
        self._clock = clock
        self._workers: dict[int, _Worker] = {}
        self._raised: BaseException | None = None
        """The exception of the last call in the plugin's thread."""

    def call(self, plugin: Plugin, point: str, function: Callable[[], R], *, in_cycle: bool) -> R:
        """See `CallPolicy.call`. Raises TimeoutError if the call is abandoned, or an earlier one has not returned."""
        worker = self._workers.get(id(plugin))
        if worker is None:
            worker = self._workers[id(plugin)] = _Worker(plugin)
        if worker.thread is threading.current_thread():
            return function()
        began = self._clock()
        if worker.stuck is not None:
            raise TimeoutError(f"has not returned from {worker.stuck.point} for {began - worker.stuck.began:.0f} s")
        call = _PluginCall(point, function, began, partial(self._returned, worker))
        limit = self._limit if in_cycle else self._budget
        worker.calls.put(call)
        answer = self._wait(worker, call, limit)
        took = self._clock() - began - call.request_seconds
        self._raised = call.exception
        if took > self._budget:
            self.report(PluginIncident(plugin.name, point, "slow", f"{point} plugin {plugin.name!r} took {took:.1f} s"))
        return cast(R, answer())

    def _wait(self, worker: _Worker, call: _PluginCall, limit: float) -> Callable[[], Any]:
        """Return a function with the call's outcome. Requests of the call run on this thread and do not count."""
        while True:
            left = call.began + call.request_seconds + limit - self._clock()
            try:
                answer = call.answers.get(timeout=max(left, 0.0))
            except Empty:
                answer = call.give_up()
                if answer is None:
                    worker.stuck = call
                    if call.ended.is_set():  # it returned just now
                        self._returned(worker, call)
                    self.report(_stuck(worker, call, limit))
                    raise TimeoutError(f"gave no answer within {limit:g} s") from None
            if not isinstance(answer, _Request):
                return cast(Callable[[], Any], answer)
            began = self._clock()
            answer.serve()
            call.request_seconds += self._clock() - began

    def back(self, function: Callable[[], R]) -> R:
        """See `CallPolicy.back`. Raises TimeoutError if the requesting call has been abandoned."""
        call = getattr(_current, "call", None)
        return function() if call is None else cast(R, call.ask(function))

    def interrupted(self, error: BaseException) -> bool:
        """See `CallPolicy.interrupted`: exceptions of the plugin's thread belong to the plugin."""
        return error is not self._raised and super().interrupted(error)

    def stuck(self) -> list[str]:
        """Return the names of plugins that have not returned from an abandoned call."""
        return sorted(worker.plugin.name for worker in list(self._workers.values()) if worker.stuck is not None)

    def close(self) -> None:
        """End the threads that wait for calls; stuck ones end when they return."""
        for worker in self._workers.values():
            worker.calls.put(None)
        self._workers.clear()

    def _returned(self, worker: _Worker, call: _PluginCall) -> None:
        if worker.stuck is call:
            worker.stuck = None
            plugin, took = worker.plugin.name, self._clock() - call.began
            text = f"{call.point} plugin {plugin!r} returned after {took:.1f} s: it is called again"
            self.report(PluginIncident(plugin, call.point, "recovered", text))


_current = threading.local()
"""`.call`: the plugin call that this thread makes."""


def _done(function: Callable[[], Any]) -> tuple[Callable[[], Any], BaseException | None]:
    """Call the function; return a function that passes its outcome to the caller, and its exception.

    The returned function returns the value or raises the exception. No error may end the calling thread unnoticed.
    """
    try:
        value = function()
    except BaseException as error:
        raised = error

        def answer() -> Any:
            raise raised

        return answer, raised
    return lambda: value, None


class _PluginCall:
    """One call of a plugin, between the requesting thread and the plugin's thread. `on_return` gets it at its end."""

    def __init__(
        self, point: str, function: Callable[[], Any], began: float, on_return: Callable[[_PluginCall], None]
    ) -> None:
        self.point = point
        self.function = function
        self.began = began
        self.request_seconds = 0.0
        """Seconds spent on requests of the call."""
        self.answers: SimpleQueue[Any] = SimpleQueue()
        self.ended = threading.Event()
        self._on_return = on_return
        self.exception: BaseException | None = None
        self._lock = threading.Lock()
        self._given_up = False

    def run(self) -> None:
        """Make the call on the plugin's thread."""
        _current.call = self
        answer, self.exception = _done(self.function)
        _current.call = None
        self.answers.put(answer)
        self.ended.set()
        self._on_return(self)

    def give_up(self) -> Any:
        """Stop waiting, unless a result or request has just arrived, which is returned."""
        with self._lock:
            try:
                return self.answers.get_nowait()
            except Empty:
                self._given_up = True
                return None

    def ask(self, function: Callable[[], Any]) -> Any:
        """Run a function on the thread that waits for this call."""
        request = _Request(function)
        with self._lock:
            if self._given_up:
                raise TimeoutError("the call was given up")
            self.answers.put(request)
        return request.outcome.get()()


class _Request:
    """A function that a call wants to run on the calling thread."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self.outcome: SimpleQueue[Callable[[], Any]] = SimpleQueue()

    def serve(self) -> None:
        """Call the function and pass on its outcome. A Ctrl-C meanwhile also ends the waiting thread."""
        answer, raised = _done(self._function)
        self.outcome.put(answer)
        if raised is not None and is_ctrl_c(raised):
            raise raised


class _Worker:
    """The thread of one plugin. `stuck` is an abandoned call that has not returned."""

    def __init__(self, plugin: Plugin) -> None:
        self.plugin = plugin
        self.calls: SimpleQueue[_PluginCall | None] = SimpleQueue()
        self.stuck: _PluginCall | None = None
        self.thread = threading.Thread(target=self._work, name=f"plugin {plugin.name}", daemon=True)
        self.thread.start()

    def _work(self) -> None:
        while (call := self.calls.get()) is not None:
            call.run()


def _stuck(worker: _Worker, call: _PluginCall, limit: float) -> PluginIncident:
    """Return the incident to log, with the current stack of the plugin."""
    name = worker.plugin.name
    text = (
        f"{call.point} plugin {name!r} gave no answer within {limit:g} s: "
        "it counts as stuck, and its attempts fail until it returns"
    )
    frame = sys._current_frames().get(worker.thread.ident or 0)
    return PluginIncident(name, call.point, "stuck", text, "".join(traceback.format_stack(frame)) if frame else "")
