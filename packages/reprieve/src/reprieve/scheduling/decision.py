"""What a cycle decides: plain data for the driver that acts on it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from reprieve.cluster.pods import PodRecord
from reprieve.framework.diagnosis import Diagnosis
from reprieve.framework.instructions import Instruction
from reprieve.preemption.outcome import Deferral, Preemption, UnhelpfulPreemption

UNSCHEDULABLE = "Unschedulable"
INVALID = "Invalid"
"""Reason of a composite's condition: the layout of its tree cannot be scheduled (composite.md 5.1)."""
SCHEDULER_ERROR = "SchedulerError"
SCHEDULING_GATED = "SchedulingGated"
WAITING_FOR_GROUP_PREEMPTION = "pod group is waiting for podgroup preemption to complete"
GROUP_UNSCHEDULABLE = "pod group is unschedulable"
SCHEDULED = "Scheduled"
WAITING_FOR_QUORUM = (
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, "
    "one or more plugins asked to wait and no plugin rejected pod"
)


def below_unschedulable(root: str) -> str:
    """Return what a group says that would do if the tree above it did."""
    return f'composite pod group "{root}" is unschedulable'


class Result(Enum):
    """How an attempt ended."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    WAITING = "waiting for preemption"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Binding:
    """A pod was assumed on a node and is to be bound there."""

    pod: PodRecord
    node: str
    row: int
    before: tuple[Instruction, ...] = ()
    """What has to be done first, in order (PreBind)."""
    how: object | None = None
    """What the Bind plugin wants done (`ApiBinding`, an `Instruction`); None: POST the binding subresource."""
    annotations: Mapping[str, str] | None = None
    """What the pod is annotated with by the binding itself."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A pod was not placed: the PodScheduled=False condition to write (observability.md)."""

    pod: PodRecord
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class GroupCondition:
    """The PodGroupInitiallyScheduled condition to write; of a composite CompositePodGroupInitiallyScheduled."""

    group: str
    """`namespace/name`."""
    scheduled: bool
    reason: str
    message: str
    composite: bool = False

    @property
    def ref(self) -> str:
        """`group/namespace/name` or `composite/namespace/name`."""
        return f"composite/{self.group}" if self.composite else f"group/{self.group}"


@dataclass(frozen=True, slots=True)
class TreeLevel:
    """What became of one group of a tree in an attempt (composite.md 3.3): `succeeded` of its `of` children.

    Children are pods or groups; `needed` is how many have to succeed, `short` names the child groups that did not.
    """

    kind: str
    group: str
    """`namespace/name`."""
    ok: bool
    needed: int
    succeeded: int
    of: int
    why: str = ""
    short: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OrderMatters:
    """A gang failed in the order in which its pods are tried, and another one may do (scheduling.md 3.9).

    `placed`: how many members another order places; 0 where none is known and nothing rules one out.
    """

    placed: int


@dataclass(frozen=True, slots=True)
class Decision:
    """One attempt of one entity, decided and already reflected in the cluster cache."""

    ref: str
    """Of the entity: `pod/<uid>`, `group/<namespace>/<name>` or `composite/<namespace>/<name>`."""
    result: Result
    bindings: tuple[Binding, ...] = ()
    waiting: tuple[Binding, ...] = ()
    """Assumed, but a Permit plugin wants to decide later (`Engine.ask_permission`)."""
    rejections: tuple[Rejection, ...] = ()
    conditions: tuple[GroupCondition, ...] = ()
    """Of a group, or of all groups of a tree, the root first."""
    levels: tuple[TreeLevel, ...] = ()
    """Of a tree: what became of each of its groups that was tried, the root first."""
    preemption: Preemption | None = None
    in_vain: UnhelpfulPreemption | None = None
    """Why no capacity was freed, where a pod group needed some."""
    order_matters: OrderMatters | None = None
    """Where a gang failed that another order of its pods may place."""
    nominations: tuple[tuple[PodRecord, str], ...] = ()
    """`status.nominatedNodeName` to set."""
    cleared: tuple[PodRecord, ...] = ()
    """`status.nominatedNodeName` to clear."""
    diagnosis: Diagnosis | None = None
    """Why (the first member) did not fit."""
    deferred_writes: tuple[Instruction, ...] = ()
    """What a PostFilter wants done so that the pod may fit later (`Effects.writes`)."""
    rejected_by: frozenset[str] = frozenset()
    retry_now: bool = False
    put_off: Deferral | None = None
    """Why no pods are evicted yet, where some might be."""
    held_until: float | None = None
    """Until when at the latest the capacity of a preemption is reserved; None: without an end, or there is none."""
    resize: bool = False
    """It is about the deferred resize of a running pod (resizes.md), not about a place for a pending one."""
    attempt: int = 1
    """Which attempt of the entity this was, counted from 1."""
    queued: float = 0.0
    """When the entity first might be tried, in the caller's seconds."""
    profile: str = ""
    """The profile that decided."""

    @property
    def condition(self) -> GroupCondition | None:
        """That of the group or of the root; None for a pod."""
        return self.conditions[0] if self.conditions else None

    @property
    def failed(self) -> bool:
        """Not for want of capacity: the attempt, or a step after the choice of a node, had an error."""
        return self.result is Result.ERROR or any(each.reason == SCHEDULER_ERROR for each in self.rejections)


def stamped(decision: Decision, attempt: int, queued: float, profile: str) -> Decision:
    """Stamp a decision in place: a cycle has just made it, and nothing else refers to it yet.

    A copy would cost a tenth of what deciding about a simple pod does.
    """
    for name, value in (("attempt", attempt), ("queued", queued), ("profile", profile)):
        object.__setattr__(decision, name, value)
    return decision


def instead(decision: Decision, bindings: tuple[Binding, ...]) -> Decision:
    """Return the decision with the same bindings, each with its instructions; changed in place, as by `stamped`."""
    object.__setattr__(decision, "bindings", bindings)
    return decision
