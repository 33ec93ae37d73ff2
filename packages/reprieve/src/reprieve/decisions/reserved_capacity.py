"""Reservations of pending groups and pods in the form used in documents (reservations.md 6.4)."""

from kube_rules.durations import readable_time
from reprieve.decisions.outcomes import ReservedCapacity
from reprieve.decisions.preemptions import preemptor_name
from reprieve.scheduling.engine import Engine


def reserved_capacity(engine: Engine) -> tuple[ReservedCapacity, ...]:
    """Return the reservations for long-pending workloads, in the order of their creation."""
    return tuple(
        ReservedCapacity(
            holder=preemptor_name(reservation.pods[0][0], reservation.group),
            nodes=tuple(sorted(reservation.nodes)),
            expected_start=readable_time(reservation.expected_start)
            if reservation.expected_start is not None
            else None,
            waits_for=tuple(sorted(pod.key for pod in reservation.waits_for)),
            message=reservation.describe_start(),
            backfill=reservation.describe_backfill(),
        )
        for reservation in engine.reservations.by_ref.values()
    )
