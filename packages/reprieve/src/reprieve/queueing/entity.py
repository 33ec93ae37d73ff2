"""What waits in the queue: a single pod, or a tree of pod groups with all its pending pods.

Pods of a group are never queued alone (scheduling.md 1), nor is a group of a tree (composite.md 2.1).
"""

from enum import Enum
from typing import Final

from reprieve.cluster.groups import Group
from reprieve.cluster.pods import PodRecord
from reprieve.framework.events import ClusterEvent
from reprieve.framework.status import SUCCESS, Status

RESIZES: Final = "resizes/"
"""In the ref of the deferred resizes of a gang, before the ref of the gang (resizes.md 1.9)."""


class QueueState(Enum):
    """Where an entity is; every pending entity is in exactly one place (scheduling.md 7)."""

    __hash__ = object.__hash__  # a member is the only one of its kind; Enum asks its name, several times a pod

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_CYCLE = "in cycle"


class Entity:
    """One thing to schedule.

    `timestamp` (seconds) is when it first arrived: it keeps its turn over failed attempts.  `ready` are the pods to
    place now; `held` are pods a PreEnqueue plugin keeps back, with the reason.
    """

    __slots__ = (
        "alarm",
        "attempts",
        "before_attempt",
        "blocked",
        "considered_at",
        "events",
        "failed_preemptions",
        "gate",
        "group",
        "held",
        "last_attempt",
        "overtaken",
        "priority",
        "profile",
        "queued",
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

        Deferred resizes of a gang: `resizes/` and the gang's.
        """
        self.group = group
        """The root of a tree; a group without one, or without an object, waits by itself."""
        self.timestamp = timestamp
        self.priority = 0
        self.profile = ""
        self.ready: dict[str, PodRecord] = {}
        self.held: dict[str, Status] = {}
        self.attempts = 0
        self.last_attempt = float("-inf")
        self.before_attempt = float("-inf")
        """When the attempt before the last one was."""
        self.state = QueueState.GATED
        self.since = timestamp
        """When it came to its present place."""
        self.considered_at = timestamp
        """When it was last considered, if it waits for an event: it came there, or its long wait was taken note of."""
        self.queued: float | None = None
        """When it first might be tried; None while it never might."""
        self.wake = 0.0
        """When its backoff ends."""
        self.alarm: float | None = None
        """When it is to be tried again although nothing has happened."""
        self.gate: Status = SUCCESS
        self.blocked: str | None = None
        """Why it may not be tried although its pods are ready: its preemption is under way (preemption.md 7.3)."""
        self.overtaken = False
        """While it was blocked, pods were placed where it is nominated (preemption.md 2.7)."""
        self.failed_preemptions = 0
        """Preemptions of it in a row that ended with a call that failed."""
        self.rejected_by: set[str] = set()
        """Plugins that rejected it in the last attempt: their hints decide what wakes it."""
        self.rejected_by_indexed: tuple[str, ...] = ()
        """What the queue has filed it under."""
        self.events: list[ClusterEvent] = []
        """Events that came while it was in its cycle or blocked; replayed to it afterwards."""

    def __repr__(self) -> str:
        return f"<{self.ref} {self.state.value} priority={self.priority} ready={len(self.ready)}>"

    def begin_attempt(self, now: float) -> None:
        """Count an attempt that begins now."""
        self.attempts, self.alarm = self.attempts + 1, None
        self.before_attempt, self.last_attempt = self.last_attempt, now

    def undo_attempt(self) -> None:
        """Leave out the attempt that has begun last."""
        self.attempts, self.last_attempt = self.attempts - 1, self.before_attempt

    @property
    def resizing(self) -> bool:
        """Running pods with a deferred resize, not one that needs a place (resizes.md 1)."""
        return self.group is None and any(pod.resizing for pod in self.ready.values())

    @property
    def is_group(self) -> bool:
        """A pod group or a tree of them, not a single pod."""
        return self.group is not None
