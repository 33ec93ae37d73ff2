"""A pending pod or group with its place in the queue, as `queue` and the page show it (whatif.md 6)."""

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
    """What the scheduler's records say of the last attempt to place a pod or group (whatif.md 6.6).

    `time`: RFC 3339; `attempt`: its number; `result`: Unschedulable, Preempting or Error.
    """

    time: str
    attempt: int
    result: str
    message: str


class QueueItem(Document, frozen=True, kw_only=True):
    """A pending pod or group. `evicts`: the units it would evict, `namespace/name`.

    `since`: RFC 3339; None where nothing says when it was created, and its turn in the input decides.

    `why`: Ready (it has a place), Preempting, Priority (with a higher one it would have a place, which was tried),
    Resources (what it requests is not free, and no priority is known to help), Constraints (nodes that are large enough
    may not take it: selector, affinity, taints, cordon, ports, volumes), Backoff (it waits for its next try) or Gated.
    Of a running scheduler also Active: it has not been tried yet, or something has changed since (page.md 2.2).
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
    """What would help it (whatif.md 5)."""
    tried: str | None = None
    """How much of what may help was tried: All, Some or None; null where nothing was to be tried."""
    node_name: str | None = None
    """Of a running pod with a deferred resize: its node (resizes.md 5)."""
    reserved: str = ""
    """The capacity that is reserved for it, and when it is expected to start (reservations.md 6.4)."""
    requested: str = ""
    """The state of the nodes that were requested for it from the cluster-autoscaler (provisioning.md 5.4)."""
    last_attempt: LastAttempt | None = None
    """From the scheduler's records; None where they were not read, or have none of it."""


def reserved_sentence(engine: Engine, key: str) -> str:
    """Return the reservation of an entity in words; empty where it holds none."""
    held = engine.reservations.held.get(key)
    return f"reserved on {held.on_nodes()}: {held.when()}; {held.backfill()}" if held is not None else ""
