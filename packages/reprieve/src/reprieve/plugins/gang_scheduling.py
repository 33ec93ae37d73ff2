"""GangScheduling: all or nothing (KEP-4671, scheduling.md 1 and 3)."""

from dataclasses import dataclass
from typing import ClassVar

from reprieve.cluster.groups import Group, GroupState
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.cluster.trees import waiting_for_object
from reprieve.framework.events import EventKind, Hints, about_own_tree
from reprieve.framework.plugin import PlacementFeasiblePlugin, PreEnqueuePlugin
from reprieve.framework.status import SUCCESS, Code, Status

GREEDY, RETRY = "Greedy", "Retry"
"""`treeSearch`: only the usual order of a gang's pods, or also other orders."""
WAITING_FOR_MEMBERS = "waiting for minCount pods from a gang to appear in scheduling queue"


def waiting_for_quorum(name: str) -> str:
    """Return the message for a tree that cannot reach its minimums with its pods (composite.md 2.4)."""
    return f'waiting for composite pod group "{name}" tree to meet quorum'


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """How to repair gangs that lost members (docs/rules/repair.md); times are in seconds."""

    first: bool = True
    """Whether a degraded gang precedes all others of its priority."""
    seconds: float = 60.0
    """How long to reserve the capacity of a lost member for its replacement; 0: not at all."""
    degraded_seconds: float = 300.0
    """How long a gang with `recovery-policy: Restart` stays degraded before its eviction as a whole; 0: forever."""


NEVER, ANNOTATED, ALWAYS = "Never", "Annotated", "Always"
"""`provisioningRequests`: for no gang, for gangs that opt in by annotation, for gangs that do not opt out."""
BEST_EFFORT_ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"


@dataclass(frozen=True, slots=True)
class ProvisioningOptions:
    """The gangs for which the live scheduler requests nodes (provisioning.md 1)."""

    mode: str = NEVER
    after: float = 30.0
    """Seconds for which a gang must have failed."""
    class_name: str = BEST_EFFORT_ATOMIC


class GangScheduling(PreEnqueuePlugin, PlacementFeasiblePlugin):
    """Make a gang wait for its object and for minCount pods, and place it only with at least minCount of them.

    The same applies to a tree of groups, with the minimums of all its levels (composite.md 2.4, 3.3).

    `tree_search`: the search after a gang failed in the usual order of its pods (scheduling.md 3.9). `repair`: the
    repair of gangs that lose members after scheduling; read by the engine. `provisioning`: the requests of nodes for
    unschedulable gangs; read by the live scheduler.
    """

    name = "GangScheduling"
    concerns_group: ClassVar[bool] = True

    def __init__(
        self,
        tree_search: str = GREEDY,
        repair: RepairOptions | None = None,
        provisioning: ProvisioningOptions | None = None,
    ) -> None:
        self.retries_orders = tree_search == RETRY
        self.repair = repair or RepairOptions()
        self.provisioning = provisioning or ProvisioningOptions()

    def pre_enqueue(self, cluster: ClusterState, pod: PodRecord) -> Status:
        if pod.group is None:
            return SUCCESS
        group = cluster.groups[pod.group]
        if group.spec is None:
            return Status(Code.UNRESOLVABLE, waiting_for_object(group.name), self.name)
        root = group.root or group
        if cluster.trees.is_ready(root):
            return SUCCESS
        if isinstance(root, GroupState):
            message = WAITING_FOR_MEMBERS
        else:
            message = root.wrong_layout() or waiting_for_quorum(root.name)
        return Status(Code.UNRESOLVABLE, message, self.name)

    def feasible(self, group: Group, *, scheduled: int, remaining: int) -> Status:
        """Compare minCount with members scheduled before, placed now, and not yet tried.

        For a composite compare minGroupCount with its child groups (composite.md 3.3).
        """
        need = group.min_count if group.is_gang else 1
        if scheduled >= need:
            return SUCCESS
        if scheduled + remaining < need:
            why = f"minCount ({need}) cannot be satisfied: {scheduled} scheduled, {remaining} remaining"
            return Status(Code.UNSCHEDULABLE, why, self.name)
        why = f"minCount ({need}) is not yet satisfied: {scheduled} scheduled, {remaining} remaining"
        return Status(Code.WAIT, why, self.name)

    def events(self) -> Hints:
        """Return the events that may help: a new or removed member, a new or changed group."""
        return {
            EventKind.POD_ADDED: about_own_tree,
            EventKind.POD_PLACED: about_own_tree,
            EventKind.POD_TERMINATING: about_own_tree,
            EventKind.POD_GONE: about_own_tree,
            EventKind.MEMBER_GONE: about_own_tree,
            EventKind.GROUP_ADDED: about_own_tree,
            EventKind.GROUP_CHANGED: about_own_tree,
        }
