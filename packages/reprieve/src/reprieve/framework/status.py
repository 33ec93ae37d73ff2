"""Outcomes of plugins.

A filter returns a code per node; the text of a reason is made only when it is read (architecture.md).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import IntEnum, auto
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

FITS = 0
UNSCHEDULABLE = 1
"""The pod does not fit now; evictions may help."""
UNRESOLVABLE = 2
"""The pod does not fit whatever runs on the node: preemption cannot help (preemption.md 3)."""


class Code(IntEnum):
    """The outcome of a step for a whole pod or group; the first three are the codes of a filter."""

    SUCCESS = 0
    UNSCHEDULABLE = 1
    UNRESOLVABLE = 2
    ERROR = auto()
    WAIT = auto()
    SKIP = auto()


@dataclass(frozen=True, slots=True)
class Status:
    """A code, its reason, and the plugin it is from."""

    code: Code
    reason: str = ""
    plugin: str = ""

    @property
    def ok(self) -> bool:
        """Whether the code is SUCCESS."""
        return self.code is Code.SUCCESS


SUCCESS = Status(Code.SUCCESS)
SKIP = Status(Code.SKIP)


class PluginError(Exception):
    """An exception of a plugin; the attempt ends with SchedulerError, the scheduler continues (scheduling.md 5)."""

    def __init__(self, plugin: str, point: str, cause: BaseException) -> None:
        super().__init__(f"running {point} plugin {plugin!r}: {named(cause)}")
        self.plugin = plugin
        self.point = point


class PlacementError(Exception):
    """The state of the cluster allows no correct placement of a group; its attempt ends with SchedulerError."""


CallTimer = Callable[[str, Callable[..., Any], Callable[[], Any]], Any]
"""Runs a call of the plugin of that name: takes the called method, and the call without arguments."""
_timer: ContextVar[CallTimer | None] = ContextVar("plugin_call_timer", default=None)


@contextmanager
def timed_calls(timer: CallTimer) -> Iterator[None]:
    """Run every plugin call in this block through a timer."""
    token = _timer.set(timer)
    try:
        yield
    finally:
        _timer.reset(token)


def call_plugin(plugin: str, point: str, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a plugin; whatever it raises becomes a PluginError that names it and the point (scheduling.md 5).

    A PlacementError is a result and passes.  Third-party plugins are checked before that by `framework.plugin_guard`.
    """
    timer = _timer.get()
    try:
        if timer is None:
            return call(*args, **kwargs)
        answer: R = timer(plugin, call, lambda: call(*args, **kwargs))
        return answer
    except (PluginError, PlacementError):
        raise
    except Exception as error:
        raise PluginError(plugin, point, error) from error


def named(error: BaseException) -> str:
    """Return `ValueError: its text`; the text of a third-party exception may itself raise."""
    try:
        text = str(error)
    except Exception as trouble:
        text = f"(its text cannot be made: {type(trouble).__name__})"
    return f"{type(error).__name__}: {text}"
