"""Effects: the work for the driver of the engine after a change or a cycle, as one frozen value.

Every method of the engine that changes something returns its `Effects`; nothing has to be fetched later.
"""

from typing import Final

import msgspec

from reprieve.cluster.pods import PodRecord
from reprieve.framework.instructions import Instruction
from reprieve.framework.plugin_guard import PluginIncident
from reprieve.scheduling.advance_reservation import AdvanceReservation
from reprieve.scheduling.decision import Binding, Decision, Rejection
from reprieve.scheduling.gang_health import Satisfaction
from reprieve.scheduling.gang_restarts import GangRestart
from reprieve.scheduling.lost_place import LostPlace
from reprieve.scheduling.overruns import Overrun
from reprieve.scheduling.preemptor_reservations import ReleasedReservation

DirectEviction = GangRestart | Overrun
"""A unit that is evicted as one, and not by a preemption: with `ref`, `by`, `entity`, `unit`, `pods`, `message`."""


class Effects(msgspec.Struct, frozen=True, kw_only=True):
    """See the module docstring."""

    decision: Decision | None = None
    """The outcome of a cycle; None if nothing was ready to be tried, and after other calls than `Engine.step`."""
    unnominated_pods: tuple[PodRecord, ...] = ()
    """Pods with a nomination that ended without a decision to report it: clear `status.nominatedNodeName`.

    Their node is gone, their group may not be tried any more, they are being deleted, or their preemption failed.
    """
    reservations: tuple[AdvanceReservation, ...] = ()
    """Reservations that were made or moved: set `status.nominatedNodeName` of their pods (reservations.md 3)."""
    lost_places: tuple[LostPlace, ...] = ()
    """Capacity of lost members that is reserved or given to replacements: set `status.nominatedNodeName` of these."""
    satisfaction: tuple[Satisfaction, ...] = ()
    """The PodGroupSatisfied conditions of gangs to write (repair.md 3)."""
    evictions: tuple[DirectEviction, ...] = ()
    """Units to evict without a preemption: degraded gangs, and backfilled work that runs too long."""
    released: tuple[ReleasedReservation, ...] = ()
    """Capacity that was reserved for a preemptor and is released unused (cost.md 5)."""
    writes: tuple[Instruction, ...] = ()
    """Writes that belong to no binding, such as claims to release. A write that fails is not repeated."""
    incidents: tuple[PluginIncident, ...] = ()
    """Errors of plugins, with tracebacks, for the log and the counters."""
    permitted_bindings: tuple[Binding, ...] = ()
    """Bindings that a Permit plugin let wait and now permits."""
    rejections: tuple[Rejection, ...] = ()
    """Pods that a Permit plugin let wait and now refuses."""
    known: bool = True
    """Whether the object to remove was known."""


NO_EFFECTS: Final = Effects()
UNKNOWN: Final = Effects(known=False)


class EffectsInProgress:
    """Collects the effects of the running call of the engine."""

    def __init__(self) -> None:
        self.unnominated_pods: dict[str, PodRecord] = {}
        """By UID."""
        self.reservations: list[AdvanceReservation] = []
        self.lost_places: list[LostPlace] = []
        self.satisfaction: list[Satisfaction] = []
        self.evictions: list[DirectEviction] = []
        self.released: list[ReleasedReservation] = []
        self.writes: list[Instruction] = []

    def finish(
        self,
        incidents: list[PluginIncident],
        *,
        decision: Decision | None = None,
        allowed: tuple[Binding, ...] = (),
        refused: tuple[Rejection, ...] = (),
        known: bool = True,
    ) -> Effects:
        """Return the effects of the call that ends, and start again empty.

        A pod placed elsewhere is no longer nominated.
        """
        lists = (self.reservations, self.lost_places, self.satisfaction, self.evictions, self.released, self.writes)
        own = self.unnominated_pods or any(lists)
        if not (own or incidents or allowed or refused):
            if decision is None:
                return NO_EFFECTS if known else UNKNOWN
            return Effects(decision=decision)
        effects = Effects(
            decision=decision,
            unnominated_pods=tuple(pod for pod in self.unnominated_pods.values() if pod.nominated < 0 and pod.row < 0),
            reservations=tuple(self.reservations),
            lost_places=tuple(self.lost_places),
            satisfaction=tuple(self.satisfaction),
            evictions=tuple(self.evictions),
            released=tuple(self.released),
            writes=tuple(self.writes),
            incidents=tuple(incidents),
            permitted_bindings=allowed,
            rejections=refused,
            known=known,
        )
        self.unnominated_pods.clear()
        for entries in lists:
            entries.clear()
        return effects
