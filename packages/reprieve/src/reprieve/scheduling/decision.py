"""The decision of a cycle: plain data for the driver that carries it out."""

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
SCHEDULED = "Scheduled"
WAITING_FOR_QUORUM = (
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, "
    "one or more plugins asked to wait and no plugin rejected pod"
)


def below_unschedulable(root: str) -> str:
    """Return the message of a group that would fit if the tree above it did."""
    return f'composite pod group "{root}" is unschedulable'


class Result(Enum):
    """The outcome of an attempt."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    WAITING = "waiting for preemption"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Binding:
    """A pod that was assumed on a node and must be bound there."""

    pod: PodRecord
    node: str
    row: int
    pre_bind: tuple[Instruction, ...] = ()
    """Instructions to carry out before the binding, in order (PreBind)."""
    method: object | None = None
    """How the Bind plugin binds (`ApiBinding`, an `Instruction`); None: POST the binding subresource."""
    annotations: Mapping[str, str] | None = None
    """Annotations that the binding sets on the pod."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A pod that was not placed: the PodScheduled=False condition to write (observability.md)."""

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
    """The result of one group of a tree in an attempt (composite.md 3.3): `succeeded` of its `total` children.

    Children are pods or groups; `needed` of them must succeed, `failed_groups` names the groups that did not.
    """

    kind: str
    group: str
    """`namespace/name`."""
    ok: bool
    needed: int
    succeeded: int
    total: int
    reason: str = ""
    failed_groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OrderMatters:
    """A gang that failed in the usual order of its pods, and may fit in another order (scheduling.md 3.9).

    `placed`: number of members that another order places; 0 if no order is known and none is ruled out.
    """

    placed: int


@dataclass(frozen=True, slots=True)
class Decision:
    """One attempt of one entity, decided and already reflected in the cluster cache."""

    ref: str
    """The entity: `pod/<uid>`, `group/<namespace>/<name>` or `composite/<namespace>/<name>`."""
    result: Result
    bindings: tuple[Binding, ...] = ()
    waiting: tuple[Binding, ...] = ()
    """Assumed pods for which a Permit plugin decides later (`Engine.ask_permission`)."""
    rejections: tuple[Rejection, ...] = ()
    conditions: tuple[GroupCondition, ...] = ()
    """The conditions of a group, or of all groups of a tree, the root first."""
    levels: tuple[TreeLevel, ...] = ()
    """For a tree: the result of each group that was tried, the root first."""
    preemption: Preemption | None = None
    unhelpful: UnhelpfulPreemption | None = None
    """Why no capacity was freed for a pod group that needed some."""
    order_matters: OrderMatters | None = None
    """Set for a gang that failed and that another order of its pods may place."""
    nominations: tuple[tuple[PodRecord, str], ...] = ()
    """`status.nominatedNodeName` to set."""
    cleared_nominations: tuple[PodRecord, ...] = ()
    """`status.nominatedNodeName` to clear."""
    diagnosis: Diagnosis | None = None
    """Why the pod, or the first member, did not fit."""
    deferred_writes: tuple[Instruction, ...] = ()
    """Instructions of a PostFilter by which the pod may fit later (`Effects.writes`)."""
    rejected_by: frozenset[str] = frozenset()
    retry_now: bool = False
    deferral: Deferral | None = None
    """Why an eviction is deferred."""
    held_until: float | None = None
    """Latest end of the reservation for a preemption; None: without an end, or no preemption."""
    resize: bool = False
    """The decision is about the deferred resize of a running pod (resizes.md), not about a pending pod."""
    attempt: int = 1
    """The number of this attempt of the entity, counted from 1."""
    queued_at: float = 0.0
    """The first time at which the entity could be tried, in the caller's seconds."""
    profile: str = ""
    """The name of the profile that decided."""

    @property
    def condition(self) -> GroupCondition | None:
        """Return the condition of the group or of the root; None for a pod."""
        return self.conditions[0] if self.conditions else None

    @property
    def failed(self) -> bool:
        """Whether the attempt, or a step after the choice of a node, ended with an error, not for lack of capacity."""
        return self.result is Result.ERROR or any(r.reason == SCHEDULER_ERROR for r in self.rejections)


def stamp(decision: Decision, attempt: int, queued: float, profile: str) -> Decision:
    """Stamp a decision in place: a cycle has just made it, and nothing else refers to it yet.

    A copy would take a tenth of the time of the decision for a simple pod.
    """
    for name, value in (("attempt", attempt), ("queued_at", queued), ("profile", profile)):
        object.__setattr__(decision, name, value)
    return decision


def replace_bindings(decision: Decision, bindings: tuple[Binding, ...]) -> Decision:
    """Return the decision with the same bindings, each with its instructions; changed in place, as by `stamp`."""
    object.__setattr__(decision, "bindings", bindings)
    return decision
