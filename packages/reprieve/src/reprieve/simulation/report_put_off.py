"""Preemptions that were put off, and held room that was given back, as a plan reports them (cost.md 5, 6)."""

from reprieve.cluster.groups import Group
from reprieve.cluster.pods import PodRecord
from reprieve.simulation.report import Preemptor, PutOffOutcome, ReleasedOutcome
from reprieve.simulation.virtual import VirtualCluster


def put_off_outcomes(world: VirtualCluster) -> tuple[PutOffOutcome, ...]:
    """Every reason to wait that a preemptor had, once, in order of time."""
    outcomes = []
    for made in world.put_off.values():
        first = made.decision.rejections[0].pod
        found = made.put_off
        outcomes.append(
            PutOffOutcome(
                preemptor=_preemptor(first, world.engine.cluster.trees.find(made.decision.key)),
                reason=found.why.value,
                message=found.message,
                at=_since(world, made.at),
                until=_since(world, found.until) if found.until is not None else None,
                pods=tuple(sorted(pod.key for pod in found.pods)),
            )
        )
    return tuple(outcomes)


def released_outcomes(world: VirtualCluster) -> tuple[ReleasedOutcome, ...]:
    """Room that was given back unused, in order of time."""
    return tuple(
        ReleasedOutcome(
            preemptor=_preemptor(room.pods[0][0], room.group),
            nodes=tuple(sorted(room.nodes)),
            reason=room.reason.value,
            message=room.message,
            at=_since(world, room.at),
        )
        for room in world.released
    )


def _preemptor(pod: PodRecord, group: Group | None) -> Preemptor:
    if group is None:
        return Preemptor(kind="Pod", namespace=pod.namespace, name=pod.name, priority=pod.priority)
    priority = group.spec.priority if group.spec is not None else pod.priority
    return Preemptor(kind=group.kind, namespace=group.namespace, name=group.name, priority=priority)


def _since(world: VirtualCluster, when: float) -> float:
    return round(when - world.start, 6)
