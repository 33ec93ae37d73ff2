"""Reservations: the policy for reserving capacity for long-pending workloads (docs/rules/reservations.md).

The plugin has no extension point; it holds the options of a profile for the engine.
"""

from dataclasses import dataclass
from typing import Final

from reprieve.framework.events import Hints
from reprieve.framework.plugin import Plugin

WAIT: Final = "Wait"
EVICT: Final = "Evict"
"""The treatment of backfilled work that exceeds its stated runtime."""


@dataclass(frozen=True, slots=True)
class ReservationOptions:
    """The validated args of Reservations; times are in seconds."""

    reserve_after: float = 600.0
    """How long after its first failed attempt an entity gets capacity reserved; 0: never."""
    max_reservations: int = 4
    """The maximum number of entities with a reservation at a time."""
    min_pods: int = 2
    """The minimum number of pods of an entity with a reservation."""
    backfill_margin: float = 0.05
    """The share of its runtime by which backfilled work may overrun without delaying the holder."""
    max_reserved: float = 86400.0
    """The maximum duration of a reservation."""
    max_idle_share: float = 0.1
    """The maximum capacity idle for reservations, as a share of the cluster's, over any ten `max_reserved`."""
    evict_overrun: bool = False
    """Whether to evict backfilled work that exceeds its stated runtime when the holder can start; else wait."""
    ageing: float = 0.0
    """The time after which a failing entity goes first in the queue; 0: never. The first profile's value applies."""


class ReservationsPlugin(Plugin):
    """See the module docstring."""

    name = "Reservations"

    def __init__(self, options: ReservationOptions | None = None) -> None:
        self.options = options or ReservationOptions()

    def events(self) -> Hints:
        """Return no events, because the plugin rejects no pod."""
        return {}
