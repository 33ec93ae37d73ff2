"""One line for an outage, however many watches and retries notice it.

When an API server goes away every watch is cut, and every retry fails again. That is one thing that has happened: what
fails first is reported, what fails meanwhile is counted, and the end is reported when nothing has failed for a while. A
server that starts again refuses for some moments what it will allow (its RBAC cache fills): that belongs to it.

What keeps failing is reported again after a minute, then twice as late each time, up to ten minutes; what begins to
fail more than a minute after anything else did is news of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, Protocol

from reprieve.client.clock import Clock

_TOGETHER: Final = 60.0
"""What begins to fail within so many seconds fails for the same reason."""
_SETTLED: Final = 10.0
_FIRST_REMINDER: Final = 60.0
_LAST_REMINDER: Final = 600.0
_NAMED: Final = 3


class OutageListener(Protocol):
    """Receives reports of outages (`reprieve.observability.observer.Observer`)."""

    def trouble(self, where: str, text: str) -> None:
        """Say it, and count it."""

    def trouble_again(self, where: str) -> None:
        """Count it."""


class Outages:
    """See the module docstring. `over(seconds, calls)` is called when an outage has ended."""

    def __init__(
        self, clock: Clock, listener: OutageListener, over: Callable[[float, int], None] = lambda seconds, calls: None
    ) -> None:
        self._clock = clock
        self._listener = listener
        self._over = over
        self._failing: dict[str, None] = {}
        self._begin()

    def _begin(self) -> None:
        self._began: float | None = None
        self._last = self._last_new = float("-inf")
        self._calls = 0
        self._pause = _FIRST_REMINDER
        self._remind = float("inf")

    @property
    def under_way(self) -> bool:
        """Return whether something fails, or did a moment ago."""
        return self._began is not None

    @property
    def failing(self) -> Collection[str]:
        """Return what has failed and not gone well since."""
        return self._failing.keys()

    def failed(self, what: str, where: str, text: str) -> None:
        """A call that is repeated until it goes well has failed; `what` tells them apart, `where` is their kind."""
        now = self._clock.monotonic()
        if self._began is None:
            self._began = now
        self._calls += 1
        self._last = now
        if what not in self._failing:
            self._failing[what] = None
            news = now - self._last_new > _TOGETHER
            self._last_new = now
        else:
            news = now >= self._remind
        if not news:
            self._listener.trouble_again(where)
            return
        lasting = now - self._began
        if lasting < 1.0:
            self._listener.trouble(where, f"{text} (what else fails until this is over is counted, not logged)")
        else:
            self._listener.trouble(where, f"{text} (for {lasting:.0f} s now: {self._names()})")
        self._remind = now + self._pause
        self._pause = min(2 * self._pause, _LAST_REMINDER)

    def well(self, what: str) -> None:
        """It has gone well, or will not be tried again."""
        self._failing.pop(what, None)

    def besides(self, where: str, text: str) -> None:
        """Something failed that is not repeated by itself: reported, but not during an outage."""
        if self.under_way:
            self._calls += 1
            self._listener.trouble_again(where)
        else:
            self._listener.trouble(where, text)

    def tick(self) -> None:
        """Time has passed; to be called every few seconds."""
        if self._began is None or self._failing or self._clock.monotonic() - self._last < _SETTLED:
            return
        seconds, calls = self._last - self._began, self._calls
        self._begin()
        self._over(seconds, calls)

    def _names(self) -> str:
        names = list(self._failing)
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return f"{', '.join(names[:_NAMED])}{more}"
