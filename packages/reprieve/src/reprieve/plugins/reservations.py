"""Reservations: whether and how long-pending workloads get capacity reserved (docs/rules/reservations.md).

The plugin has no extension point: it is where a profile says how the engine does it.
"""

from dataclasses import dataclass
from typing import Final

from reprieve.framework.events import Hints
from reprieve.framework.plugin import Plugin

WAIT: Final = "Wait"
EVICT: Final = "Evict"
"""What happens to backfilled work that runs for longer than it stated."""


@dataclass(frozen=True, slots=True)
class ReservationOptions:
    """The args of Reservations, checked; times are seconds."""

    reserve_after: float = 600.0
    """How long an entity waits, after its first failed attempt, before capacity is reserved for it; 0: never."""
    max_reservations: int = 4
    """How many entities hold a reservation at a time."""
    min_pods: int = 2
    """Entities of fewer pods get none."""
    backfill_margin: float = 0.05
    """By what share of its runtime backfilled work may run longer without delaying the holder."""
    max_reserved: float = 86400.0
    """How long a reservation lasts at most."""
    max_idle_share: float = 0.1
    """What may be idle for reservations, as a share of what the cluster has, over any ten `max_reserved`."""
    evict_overrun: bool = False
    """Backfilled work that runs for longer than it stated is evicted when the holder is to start; else waited for."""
    ageing: float = 0.0
    """After how long what fails to be placed goes first in the queue; 0: never. The first profile counts."""


class ReservationsPlugin(Plugin):
    """See the module docstring."""

    name = "Reservations"

    def __init__(self, options: ReservationOptions | None = None) -> None:
        self.options = options or ReservationOptions()

    def events(self) -> Hints:
        """See `Plugin.events`: it rejects nothing."""
        return {}
