"""Counts the placements of pod groups that are proposed and tried (KEP-5732); decides nothing.

Without a `watch` it does nothing: deciding reads no clock.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol


@dataclass(slots=True)
class Evaluation:
    """Whether a group fits in the placement in which it is tried; set before the end."""

    feasible: bool = False


class PlacementWatch(Protocol):
    """Measures the evaluation of placements. `kind`: podgroup or compositepodgroup."""

    def placements_generated(self, profile: str, kind: str, number: int) -> None:
        """So many placements were proposed for a group."""

    def placement_evaluated(self, profile: str, kind: str, seconds: float, *, feasible: bool) -> None:
        """A group was tried in one of them."""

    def clock(self) -> float:
        """Return the time in seconds, for durations."""


class PlacementMeter:
    """See the module docstring; one for each profile."""

    def __init__(self, profile: str) -> None:
        self._profile = profile
        self.watch: PlacementWatch | None = None

    def generated(self, kind: str, number: int) -> None:
        """So many placements were proposed for a group of that kind."""
        if self.watch is not None and number:
            self.watch.placements_generated(self._profile, kind.lower(), number)

    @contextmanager
    def evaluation(self, kind: str) -> Iterator[Evaluation]:
        """Put around the attempt in one placement."""
        made = Evaluation()
        if self.watch is None:
            yield made
            return
        began = self.watch.clock()
        yield made
        seconds = self.watch.clock() - began
        self.watch.placement_evaluated(self._profile, kind.lower(), seconds, feasible=made.feasible)
