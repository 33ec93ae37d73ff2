"""Reservations that pending groups and pods hold, as documents have them (reservations.md 6.4)."""

from kube_rules.durations import readable_time
from reprieve.decisions.outcomes import ReservedCapacity
from reprieve.decisions.preemptions import preemptor_name
from reprieve.scheduling.engine import Engine


def reserved_capacity(engine: Engine) -> tuple[ReservedCapacity, ...]:
    """Return the reservations for long-pending workloads, in the order in which they were made."""
    return tuple(
        ReservedCapacity(
            holder=preemptor_name(held.pods[0][0], held.group),
            nodes=tuple(sorted(held.nodes)),
            expected_start=readable_time(held.expected) if held.expected is not None else None,
            waits_for=tuple(sorted(pod.key for pod in held.waits_for)),
            message=held.when(),
            backfill=held.backfill(),
        )
        for held in engine.reservations.held.values()
    )
