"""Preemptions, deferred preemptions and released capacity in the report of a plan (cost.md 1, 5, 6)."""

from reprieve.cluster.resources import readable
from reprieve.decisions.outcomes import DeferredPreemption, PreemptionOutcome, ReleasedCapacity
from reprieve.decisions.preemptions import (
    preemption_amounts,
    preemption_outcome,
    preemption_record,
    preemptor_name,
)
from reprieve.decisions.records import MOST_REPRIEVED
from reprieve.simulation.report import PlannedPreemption
from reprieve.simulation.virtual import TimedPreemption, VirtualCluster

_LISTED_IN_ALL, _LISTED_OF_EACH = 5_000, 20
"""The total number of spared units that are listed; beyond, the maximum for each decision."""


class PreemptionLedger:
    """Reports of preemptions, created at each decision because a decision refers to the cluster.

    Spared units are listed individually up to a total number; after that only the most important of each decision.
    """

    def __init__(self, world: VirtualCluster, *, accounts: bool) -> None:
        self._world = world
        self._accounts = accounts
        self._listed = 0
        self._evicted: set[str] = set()
        """UIDs of all earlier victims."""
        self.outcomes: list[PreemptionOutcome] = []
        self.accounts: list[PlannedPreemption] = []

    def note(self, decided: TimedPreemption) -> None:
        """Report a decision."""
        cluster, preemption = self._world.engine.cluster, decided.preemption
        outcome = preemption_outcome(cluster, preemption)
        self.outcomes.append(outcome)
        if not self._accounts:
            return
        most = MOST_REPRIEVED if self._listed < _LISTED_IN_ALL else _LISTED_OF_EACH
        record = preemption_record(cluster, preemption, decided.at, most_reprieved=most)
        self._listed += len(record.reprieved)
        free = next(
            (
                readable(resource, needed - freed) if needed > freed else ""
                for resource, needed, freed in preemption_amounts(cluster, preemption)
            ),
            "",
        )
        victims = preemption.victims
        self.accounts.append(
            PlannedPreemption(
                outcome=outcome,
                record=record,
                at=decided.at - self._world.start,
                free_before=free,
                protected=sum(verdict.violates_pdb for verdict in preemption.verdicts if not verdict.evicted),
                evicted_before=frozenset(
                    verdict.unit.name
                    for verdict in victims
                    if self._evicted.issuperset(p.uid for p in verdict.unit.pods)
                ),
            )
        )
        self._evicted.update(pod.uid for verdict in victims for pod in verdict.unit.pods)


def deferred_preemptions(world: VirtualCluster) -> tuple[DeferredPreemption, ...]:
    """Return each distinct reason for which a preemptor waited, in order of time."""
    return tuple(
        DeferredPreemption(
            preemptor=preemptor_name(
                decided.decision.rejections[0].pod, world.engine.cluster.trees.find(decided.decision.ref)
            ),
            reason=decided.deferral.why.value,
            message=decided.deferral.message,
            at=_since(world, decided.at),
            until=_since(world, decided.deferral.until) if decided.deferral.until is not None else None,
            pods=tuple(sorted(pod.key for pod in decided.deferral.pods)),
        )
        for decided in world.deferred.values()
    )


def released_capacity(world: VirtualCluster) -> tuple[ReleasedCapacity, ...]:
    """Return the capacity that was released unused, in order of time."""
    return tuple(
        ReleasedCapacity(
            preemptor=preemptor_name(room.pods[0][0], room.group),
            nodes=tuple(sorted(room.nodes)),
            reason=room.reason.value,
            message=room.message,
            at=_since(world, room.released_at),
        )
        for room in world.released
    )


def _since(world: VirtualCluster, when: float) -> float:
    return round(when - world.start, 6)
