"""Queued entities: a single pod, or a tree of pod groups with all its pending pods.

Pods of a group are never queued alone (scheduling.md 1), nor is a group of a tree (composite.md 2.1).
"""

from enum import Enum
from typing import Final

from reprieve.cluster.groups import Group
from reprieve.cluster.pods import PodRecord
from reprieve.framework.events import ClusterEvent
from reprieve.framework.status import SUCCESS, Status

RESIZES: Final = "resizes/"
"""The prefix of the ref of a gang's deferred resizes; the ref of the gang follows (resizes.md 1.9)."""


class QueueState(Enum):
    """The place of an entity; every pending entity is in exactly one (scheduling.md 7)."""

    __hash__ = object.__hash__  # members are singletons; Enum hashes the name, several times a pod

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_CYCLE = "in cycle"


class Entity:
    """One queued entity.

    `timestamp` (seconds) is its first arrival: it keeps its turn over failed attempts.  `ready` are the pods to place
    now; `held` are pods that a PreEnqueue plugin gates, with the reason.
    """

    __slots__ = (
        "alarm",
        "attempts",
        "before_attempt",
        "block_reason",
        "considered_at",
        "events",
        "failed_preemptions",
        "first_active",
        "gate",
        "gated_pods",
        "group",
        "last_attempt",
        "overtaken",
        "priority",
        "profile",
        "ready",
        "ref",
        "rejected_by",
        "rejected_by_indexed",
        "since",
        "state",
        "timestamp",
        "wake",
    )

    def __init__(self, ref: str, group: Group | None, timestamp: float) -> None:
        self.ref = ref
        """`pod/<uid>`, or the `ref` of the group: `group/<namespace>/<name>` or `composite/<namespace>/<name>`.

        For deferred resizes of a gang: `resizes/` and the ref of the gang.
        """
        self.group = group
        """The root of a tree; a group that has no tree, or no object, is queued by itself."""
        self.timestamp = timestamp
        self.priority = 0
        self.profile = ""
        self.ready: dict[str, PodRecord] = {}
        self.gated_pods: dict[str, Status] = {}
        self.attempts = 0
        self.last_attempt = float("-inf")
        self.before_attempt = float("-inf")
        """The time of the attempt before the last one."""
        self.state = QueueState.GATED
        self.since = timestamp
        """The time when the entity came to its present state."""
        self.considered_at = timestamp
        """The time when the unschedulable entity was last considered: it arrived there, or became overdue."""
        self.first_active: float | None = None
        """The time when it first became active; None if it never did."""
        self.wake = 0.0
        """The end of its backoff."""
        self.alarm: float | None = None
        """The time of the next attempt if no event comes before."""
        self.gate: Status = SUCCESS
        self.block_reason: str | None = None
        """The reason why an entity with ready pods is not tried: its preemption is in flight (preemption.md 7.3)."""
        self.overtaken = False
        """Whether pods were placed on its nominated nodes while it was blocked (preemption.md 2.7)."""
        self.failed_preemptions = 0
        """Consecutive preemptions that ended with a failed API call."""
        self.rejected_by: set[str] = set()
        """Plugins that rejected it in the last attempt: their hints decide which events wake it."""
        self.rejected_by_indexed: tuple[str, ...] = ()
        """The plugins under which the queue has indexed it."""
        self.events: list[ClusterEvent] = []
        """Events that came while the entity was in its cycle or blocked; replayed to it afterwards."""

    def __repr__(self) -> str:
        return f"<{self.ref} {self.state.value} priority={self.priority} ready={len(self.ready)}>"

    def begin_attempt(self, now: float) -> None:
        """Count an attempt that begins now."""
        self.attempts, self.alarm = self.attempts + 1, None
        self.before_attempt, self.last_attempt = self.last_attempt, now

    def undo_attempt(self) -> None:
        """Undo the last `begin_attempt`."""
        self.attempts, self.last_attempt = self.attempts - 1, self.before_attempt

    @property
    def resizing(self) -> bool:
        """Whether it consists of running pods with a deferred resize, which need no node (resizes.md 1)."""
        return self.group is None and any(pod.resizing for pod in self.ready.values())

    @property
    def size(self) -> int:
        """Return the number of its pods."""
        return len(self.ready) + len(self.gated_pods)

    @property
    def is_group(self) -> bool:
        """Whether this is a pod group or a tree of them, not a single pod."""
        return self.group is not None
