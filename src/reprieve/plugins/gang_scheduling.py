"""GangScheduling: all or nothing (KEP-4671, scheduling.md 1 and 3)."""

from typing import ClassVar

from reprieve.cluster.groups import GroupState
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.cluster.trees import waiting_for_object
from reprieve.framework.events import ClusterEvent, EventKind, Hints
from reprieve.framework.plugin import PlacementFeasiblePlugin, PreEnqueuePlugin
from reprieve.framework.status import SUCCESS, Code, Status

GREEDY, RETRY = "Greedy", "Retry"
"""`treeSearch`: leave it at that, or try other orders of its pods."""
WAITING_FOR_MEMBERS = "waiting for minCount pods from a gang to appear in scheduling queue"


class GangScheduling(PreEnqueuePlugin, PlacementFeasiblePlugin):
    """A gang waits for its object and for minCount pods, and is placed only if minCount of them get a place.

    `tree_search`: what is done with a gang that fails in the usual order of its pods (scheduling.md 3.9).
    """

    name = "GangScheduling"
    concerns_group: ClassVar[bool] = True

    def __init__(self, tree_search: str = GREEDY) -> None:
        self.retries_orders = tree_search == RETRY

    def pre_enqueue(self, cluster: ClusterState, pod: PodRecord) -> Status:
        """See `PreEnqueuePlugin.pre_enqueue`."""
        if pod.group is None:
            return SUCCESS
        group = cluster.groups[pod.group]
        if group.spec is None:
            return Status(Code.UNRESOLVABLE, waiting_for_object(group.name), self.name)
        if group.existing < group.min_count:
            return Status(Code.UNRESOLVABLE, WAITING_FOR_MEMBERS, self.name)
        return SUCCESS

    def feasible(self, group: GroupState, *, scheduled: int, remaining: int) -> Status:
        """minCount counts members scheduled before, those placed now, and hopes for those not yet tried."""
        need = group.min_count if group.is_gang else 1
        if scheduled >= need:
            return SUCCESS
        if scheduled + remaining < need:
            why = f"minCount ({need}) cannot be satisfied: {scheduled} scheduled, {remaining} remaining"
            return Status(Code.UNSCHEDULABLE, why, self.name)
        why = f"minCount ({need}) is not yet satisfied: {scheduled} scheduled, {remaining} remaining"
        return Status(Code.WAIT, why, self.name)

    def events(self) -> Hints:
        """Another member, the object, a lower minimum; or a member that was at odds with its group goes."""
        return {
            EventKind.POD_ADDED: _same_group,
            EventKind.POD_PLACED: _same_group,
            EventKind.POD_TERMINATING: _same_group,
            EventKind.POD_GONE: _same_group,
            EventKind.MEMBER_GONE: _same_group,
            EventKind.GROUP_ADDED: _same_group,
            EventKind.GROUP_CHANGED: _same_group,
        }


def _same_group(_cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    return pod.group is not None and pod.group == event.group
