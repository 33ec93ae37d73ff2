"""A pending pod or group with its position in the queue, as `queue` and the page show it (whatif.md 6)."""

from typing import Final

from reprieve.decisions.outcomes import Document, Help
from reprieve.scheduling.engine import Engine

READY: Final = "Ready"
PREEMPTING: Final = "Preempting"
BACKOFF: Final = "Backoff"
PRIORITY: Final = "Priority"
RESOURCES: Final = "Resources"
CONSTRAINTS: Final = "Constraints"
GATED: Final = "Gated"
ACTIVE: Final = "Active"


class LastAttempt(Document, frozen=True, kw_only=True):
    """The scheduler's record of the last attempt to place a pod or group (whatif.md 6.6).

    `time`: RFC 3339. `attempt`: its number. `result`: Unschedulable, Preempting or Error.
    """

    time: str
    attempt: int
    result: str
    message: str


class QueueItem(Document, frozen=True, kw_only=True):
    """A pending pod or group. `evicts`: the units it would evict, as `namespace/name`.

    `since`: RFC 3339, or None if the creation time is unknown and its position in the input decides.

    `why`: Ready (it can be placed), Preempting, Priority (a higher priority would help, which was verified), Resources
    (its requested resources are not free, and no priority is known to help), Constraints (sufficiently large nodes are
    excluded by selector, affinity, taints, cordon, ports or volumes), Backoff (it waits for its next attempt) or Gated.
    A running scheduler also has Active: it was not tried yet, or something changed since (page.md 2.2).
    """

    position: int
    kind: str
    namespace: str
    name: str
    priority: int
    pods: int
    since: str | None
    why: str
    message: str = ""
    evicts: tuple[str, ...] = ()
    help: tuple[Help, ...] = ()
    """Changes that would help it (whatif.md 5)."""
    tried: str | None = None
    """How many of the possible changes were tried: All, Some or None; null if there were none to try."""
    node_name: str | None = None
    """The node of a running pod with a deferred resize (resizes.md 5)."""
    reserved: str = ""
    """The capacity that is reserved for it, and its expected start (reservations.md 6.4)."""
    requested: str = ""
    """The state of the nodes requested for it from the cluster-autoscaler (provisioning.md 5.4)."""
    last_attempt: LastAttempt | None = None
    """From the scheduler's records; None if they were not read or do not contain it."""


def reserved_sentence(engine: Engine, key: str) -> str:
    """Return the reservation of an entity in words; empty if it has none."""
    reserved = engine.reservations.by_ref.get(key)
    if reserved is None:
        return ""
    return f"reserved on {reserved.node_names_text()}: {reserved.describe_start()}; {reserved.describe_backfill()}"
