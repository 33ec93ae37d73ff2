"""A meter of the placements of pod groups that are proposed and tried (KEP-5732); it decides nothing.

Without a `watch` it does nothing: deciding reads no clock.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol


@dataclass(slots=True)
class Evaluation:
    """Whether a group fits in a placement; set before the end of the attempt."""

    feasible: bool = False


class PlacementWatch(Protocol):
    """Measures the evaluation of placements. `kind`: podgroup or compositepodgroup."""

    def placements_generated(self, profile: str, kind: str, number: int) -> None:
        """Count the placements proposed for a group."""

    def placement_evaluated(self, profile: str, kind: str, seconds: float, *, feasible: bool) -> None:
        """Record an attempt of a group in one placement."""

    def clock(self) -> float:
        """Return the time in seconds, for durations."""


class PlacementMeter:
    """See the module docstring; one for each profile."""

    def __init__(self, profile: str) -> None:
        self._profile = profile
        self.watch: PlacementWatch | None = None

    def generated(self, kind: str, number: int) -> None:
        """Count the placements proposed for a group of that kind."""
        if self.watch is not None and number:
            self.watch.placements_generated(self._profile, kind.lower(), number)

    @contextmanager
    def evaluation(self, kind: str) -> Iterator[Evaluation]:
        """Surround an attempt in one placement."""
        evaluation = Evaluation()
        if self.watch is None:
            yield evaluation
            return
        began = self.watch.clock()
        yield evaluation
        seconds = self.watch.clock() - began
        self.watch.placement_evaluated(self._profile, kind.lower(), seconds, feasible=evaluation.feasible)
