"""Outcomes of plugins.

A filter answers with a code per node; the text of a reason is made only when somebody reads it (architecture.md).
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, auto
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

FITS = 0
UNSCHEDULABLE = 1
"""Does not fit now; taking pods away may help."""
UNRESOLVABLE = 2
"""Does not fit whatever runs on the node: preemption cannot help (preemption.md 3)."""


class Code(IntEnum):
    """The outcome of a step that concerns a whole pod or group; the first three are the codes of a filter."""

    SUCCESS = 0
    UNSCHEDULABLE = 1
    UNRESOLVABLE = 2
    ERROR = auto()
    WAIT = auto()
    SKIP = auto()


@dataclass(frozen=True, slots=True)
class Status:
    """A code, why, and the plugin it is from."""

    code: Code
    reason: str = ""
    plugin: str = ""

    @property
    def ok(self) -> bool:
        """Success."""
        return self.code is Code.SUCCESS


SUCCESS = Status(Code.SUCCESS)


class PluginError(Exception):
    """A plugin raised; the attempt ends with SchedulerError, the scheduler goes on (scheduling.md 5)."""

    def __init__(self, plugin: str, point: str, cause: BaseException) -> None:
        super().__init__(f"running {point} plugin {plugin!r}: {named(cause)}")
        self.plugin = plugin
        self.point = point


class PlacementError(Exception):
    """What the cluster looks like leaves a group no right placement; its attempt ends with SchedulerError."""


def call_plugin(plugin: str, point: str, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a plugin; whatever it raises becomes a PluginError that names it and the extension point (scheduling.md 5).

    A PlacementError is an answer and passes.  What a third-party plugin raises or answers `framework.plugin_guard`
    looks at before that.
    """
    try:
        return call(*args, **kwargs)
    except (PluginError, PlacementError):
        raise
    except Exception as error:
        raise PluginError(plugin, point, error) from error


def named(error: BaseException) -> str:
    """`ValueError: what it says`; somebody else's exception may not be able to say anything."""
    try:
        text = str(error)
    except Exception as trouble:
        text = f"(its text cannot be made: {type(trouble).__name__})"
    return f"{type(error).__name__}: {text}"
