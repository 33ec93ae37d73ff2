"""Outages: one log line for each, however many watches and retries fail.

When an API server goes down every watch is closed, and every retry fails. The first failure is reported, further ones
are counted, and the end is reported after a while without failures. A server that restarts refuses requests for a
moment until its RBAC cache is filled: that is part of the outage.

Continued failures are reported again after a minute, then at doubled intervals up to ten minutes. A call that begins to
fail more than a minute after all others is reported separately.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, Protocol

from kube_rules.errors import names_text
from reprieve.client.clock import Clock

_TOGETHER: Final = 60.0
"""Calls that begin to fail within so many seconds fail for the same reason."""
_SETTLED: Final = 10.0
_FIRST_REMINDER: Final = 60.0
_LAST_REMINDER: Final = 600.0
_NAMED: Final = 3


class OutageListener(Protocol):
    """Receives reports of outages (`reprieve.observability.observer.Observer`)."""

    def trouble(self, where: str, text: str) -> None:
        """Report and count a failure."""

    def trouble_again(self, where: str) -> None:
        """Count a failure."""


class Outages:
    """The outages of one API server; see the module docstring. `over(seconds, calls)` is called at the end of one."""

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
        """Return whether a call fails, or failed a moment ago."""
        return self._began is not None

    @property
    def failing(self) -> Collection[str]:
        """Return the calls that failed and have not succeeded since."""
        return self._failing.keys()

    def failed(self, call: str, where: str, text: str) -> None:
        """Record a failure of a repeated call; `call` identifies it, `where` is its kind."""
        now = self._clock.monotonic()
        if self._began is None:
            self._began = now
        self._calls += 1
        self._last = now
        if call not in self._failing:
            self._failing[call] = None
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
            self._listener.trouble(
                where, f"{text} (for {lasting:.0f} s now: {names_text(list(self._failing), _NAMED)})"
            )
        self._remind = now + self._pause
        self._pause = min(2 * self._pause, _LAST_REMINDER)

    def well(self, call: str) -> None:
        """Record that a call has succeeded, or will not be repeated."""
        self._failing.pop(call, None)

    def besides(self, where: str, text: str) -> None:
        """Report a failure of a call that is not repeated, except during an outage."""
        if self.under_way:
            self._calls += 1
            self._listener.trouble_again(where)
        else:
            self._listener.trouble(where, text)

    def tick(self) -> None:
        """Check whether the outage is over; call it every few seconds."""
        if self._began is None or self._failing or self._clock.monotonic() - self._last < _SETTLED:
            return
        seconds, calls = self._last - self._began, self._calls
        self._begin()
        self._over(seconds, calls)
