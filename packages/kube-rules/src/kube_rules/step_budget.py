"""A limit on the work of checking one object on the event loop.

The server answers all requests in one thread and decides a write in one turn of its event loop. Checking an object can
take seconds within all limits (a million small values, a rule over all pairs of a list). So checks count their steps.
After `INLINE` steps the server repeats the check in a thread. After `MOST` steps there it refuses the object.
"""

from __future__ import annotations

INLINE = 20_000
"""Maximum steps on the event loop: some tens of milliseconds."""
MOST = 600_000
"""Maximum steps in total; three times the number of values in the largest request."""
_CEL = 10
_SEARCH = 200


class TooMuchAtOnceError(Exception):
    """The work is too much for one turn of the event loop."""


class TooMuchError(Exception):
    """The work is too much in total."""


class StepBudget:
    """The remaining steps; one step is a checked value, about a microsecond. `inline`: on the event loop."""

    __slots__ = ("_inline", "_left")

    def __init__(self, *, inline: bool = False) -> None:
        self._inline = inline
        self._left = INLINE if inline else MOST

    def spend(self, steps: int) -> None:
        """Subtract steps. Raises TooMuchAtOnceError (inline) or TooMuchError if there are none left."""
        self._left -= steps
        if self._left < 0:
            raise TooMuchAtOnceError if self._inline else TooMuchError

    def spend_cel(self, cost: int) -> None:
        """Subtract the steps for expressions of this cost; off the loop, expressions have their own budget."""
        if self._inline:
            self.spend(cost // _CEL)

    def spend_search(self, cost: int) -> None:
        """Subtract the steps for a pattern search of this cost (`Pattern.cost`), likewise."""
        if self._inline:
            self.spend(cost // _SEARCH)
