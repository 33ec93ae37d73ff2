"""The state of nodes that were requested for a gang, from the annotations of its pods (provisioning.md 5)."""

from collections.abc import Iterable
from typing import Final

from kube_rules import objects

STATE: Final = "scheduling.reprieve.dev/provisioning-state"
"""The annotation with the state of the ProvisioningRequest for the gang of a pending pod."""
FAILED: Final = "Failed"
REVOKED: Final = "CapacityRevoked"
EXPIRED: Final = "BookingExpired"
PROVISIONED: Final = "Provisioned"
ACCEPTED: Final = "Accepted"
PENDING: Final = "Pending"
"""No condition is True yet: no autoscaler handles it."""
DELETED: Final = "Deleted"
"""It was deleted, but not by the scheduler."""
STATES: Final = frozenset({FAILED, REVOKED, EXPIRED, PROVISIONED, ACCEPTED, PENDING, DELETED})
"""States of a ProvisioningRequest: its conditions, and two for requests without any."""


def requested_sentence(pods: Iterable[objects.Pod]) -> str:
    """Return the state of the nodes requested for these pods in words; empty if none were requested."""
    states = {(pod.metadata.annotations or {}).get(STATE, "") for pod in pods if not pod.spec.node_name}
    return ", ".join(f"nodes are requested: {state}" for state in sorted(states) if state)
