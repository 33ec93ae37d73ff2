"""The undo log of trials: the calls that revert the changes.

    with undo.scope():
        ...                      # every change records the call that reverts it
    # every recorded call was made, the last change first

The same code applies and reverts changes, so reverting calls `record` as well; the log ignores it while it rewinds.
Scopes nest. Outside of a scope nothing is recorded, because nothing will be undone.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_Step = tuple[Callable[..., None], tuple[object, ...]]
"""A call that undoes one change."""


class UndoLog:
    """See the module docstring."""

    __slots__ = ("_depth", "_recording", "_steps")

    def __init__(self) -> None:
        self._steps: list[_Step] = []
        self._depth = 0
        self._recording = False

    @property
    def in_trial(self) -> bool:
        """Return whether current changes will be undone or undo others."""
        return self._depth > 0

    @property
    def rewinding(self) -> bool:
        """Return whether current changes undo others."""
        return self._depth > 0 and not self._recording

    def record(self, change: Callable[..., None], *arguments: object) -> None:
        """Record the call that reverts a change; ignored outside of a scope and while rewinding."""
        if self._recording:
            self._steps.append((change, arguments))

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Undo everything recorded in the scope on exit, in reverse order."""
        mark = len(self._steps)
        self._depth += 1
        self._recording = True
        try:
            yield
        finally:
            try:
                self._rewind(mark)
            finally:
                self._depth -= 1
                self._recording = self._depth > 0

    @property
    def mark(self) -> int:
        """Return the current position in the log, for `rewind`."""
        return len(self._steps)

    def rewind(self, mark: int) -> None:
        """Undo everything recorded in the current scope since the mark."""
        try:
            self._rewind(mark)
        finally:
            self._recording = self._depth > 0

    def _rewind(self, mark: int) -> None:
        self._recording = False
        steps = self._steps
        while len(steps) > mark:
            change, arguments = steps.pop()
            change(*arguments)
