"""How a trial is undone: a log of the calls that take back what was done since.

    with undo.scope():
        ...                      # every change records the call that changes it back
    # every recorded call was made, the last change first

Whatever is changed is changed back by the same code that changes it, so these calls meet `record` themselves: the log
takes nothing while it rewinds.  Scopes nest; outside of one nothing is recorded, as nothing will be undone.
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
        """Return whether what happens now is undone later, or is being undone."""
        return self._depth > 0

    @property
    def rewinding(self) -> bool:
        """Return whether what happens now undoes something."""
        return self._depth > 0 and not self._recording

    def record(self, change: Callable[..., None], *arguments: object) -> None:
        """Have the call made at the end of the scope; nothing outside of one and while it ends."""
        if self._recording:
            self._steps.append((change, arguments))

    @contextmanager
    def scope(self) -> Iterator[None]:
        """On leaving, everything recorded since is undone in reverse."""
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
        """Return where the log stands: what `rewind` goes back to."""
        return len(self._steps)

    def rewind(self, mark: int) -> None:
        """Undo within a scope everything recorded since the mark was taken in it."""
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
