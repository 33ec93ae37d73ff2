"""The placement of a tree of groups in one view (composite.md 3.2-3.5).

A pod group is a tree of one level, placed by `group_algorithm` and `group_placements`.  A composite treats its children
as a pod group treats its pods: each is placed in turn beside earlier ones, and is undone if it fails; after each,
PlacementFeasible plugins check whether the composite can still succeed. Invariant: nothing below a failed level stays
assumed, and the view is not changed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reprieve.cluster.groups import CompositeState, Group, GroupState
from reprieve.cluster.pods import PodRecord
from reprieve.framework.plugin import Assigned, Placement, TieBreaker
from reprieve.framework.status import Code, Status
from reprieve.scheduling.arranged_groups import TreePreference, arranged, has_terms
from reprieve.scheduling.group_algorithm import (
    GroupAssignment,
    GroupCycle,
    Level,
    place_group,
    progress,
    scheduling_order,
)
from reprieve.scheduling.group_orders import in_another_order
from reprieve.scheduling.group_placements import (
    NO_PLACEMENTS,
    best_of,
    first_of,
    nominated_placement,
    place_in_one,
    proposed,
)
from reprieve.scheduling.shared_device_placement import within_reach

NOTHING_PLACED = "no pods were schedulable"


def order_of(group: Group, pods: Iterable[PodRecord]) -> list[PodRecord]:
    """Return pods of a tree in the order in which they are tried: leaf by leaf, within one by `scheduling_order`."""
    by_leaf = _by_leaf(pods)
    return [pod for leaf in group.leaves() for pod in scheduling_order(by_leaf.get(leaf.key, []))]


def _by_leaf(pods: Iterable[PodRecord]) -> dict[str | None, list[PodRecord]]:
    result: dict[str | None, list[PodRecord]] = {}
    for pod in pods:
        result.setdefault(pod.group, []).append(pod)
    return result


def place(
    cycle: GroupCycle,
    *,
    diagnose: bool = True,
    ties: TieBreaker | None = None,
    within: Placement | None = None,
    chosen: Mapping[str, Placement] | None = None,
) -> GroupAssignment:
    """Find a place for the pods of a tree, in the present view, which is not changed.

    `within`: only these nodes may be used, and the placements of the root are ignored.  Without `diagnose` the reasons
    of failures are not collected.  `chosen`: the only placements of groups below the root, by `ref`.
    """
    return _Walk(cycle, diagnose=diagnose, ties=ties, chosen=chosen or {}).run(within)


def arranged_tree(
    cycle: GroupCycle, assignment: GroupAssignment, within: Placement | None = None, *, diagnose: bool = True
) -> GroupAssignment:
    """Return the tree's assignment with the members of its groups in preferred domains (topology.md 2.4).

    The assignment stays if fewer pods would be placed. If the root prefers levels for all of them, the tree is also
    tried in single domains, and the result with the fewest domains is used.
    """
    if not has_terms(cycle):
        return assignment
    preference = TreePreference.of(cycle)
    single = preference.single(len(assignment.placed)) if preference is not None and cycle.placements is None else ()
    best, least = assignment, preference.worth(assignment.placed) if preference is not None else ()
    for placement in (within, *(single if within is None and not cycle.nominated else ())):
        result = _Walk(cycle, diagnose=diagnose, arranges=True).run(placement)
        if not result.feasible or len(result.placed) < len(assignment.placed):
            continue
        worth = preference.worth(result.placed) if preference is not None else ()
        if worth < least or (best is assignment and worth == least):
            best, least = result, worth
    return best


def in_another_way(
    cycle: GroupCycle, failed: GroupAssignment, within: Placement | None = None
) -> GroupAssignment | None:
    """Return the first other way to place the tree in the present view; None if none of the tried ones works.

    If a child took more than it needs, children are limited to their minimum and filled up afterwards; then the pods of
    gangs are tried in other orders, with and without that (composite.md 3.5).
    """
    if isinstance(cycle.group, GroupState):
        return None
    ways = [_WalkOrder(other_orders=True)]
    if any(_beyond(level) for level in failed.levels.values()):
        ways = [_WalkOrder(least_first=True), _WalkOrder(least_first=True, other_orders=True), *ways]
    for way in ways:
        result = _Walk(cycle, diagnose=False, way=way).run(within)
        if result.feasible:
            return result
    return None


def _beyond(level: Level) -> bool:
    """Return whether the group succeeded with more than it needs."""
    return level.ok and level.succeeded > max(1, level.group.min_count)


@dataclass(frozen=True, slots=True)
class _WalkOrder:
    """The way to walk a tree. `least_first`: no level takes more than its minimum before the root has succeeded."""

    least_first: bool = False
    other_orders: bool = False


@dataclass(slots=True)
class _Walk:
    """One walk over the tree. The pods of a level are assumed in the view as soon as the level has succeeded."""

    cycle: GroupCycle
    diagnose: bool
    ties: TieBreaker | None = None
    way: _WalkOrder = field(default_factory=_WalkOrder)
    chosen: Mapping[str, Placement] = field(default_factory=dict)
    arranges: bool = False
    """Whether members are placed in preferred domains."""
    _pods: dict[str | None, list[PodRecord]] = field(default_factory=dict)
    _filling: bool = False

    def run(self, within: Placement | None) -> GroupAssignment:
        """Walk from the root and undo it."""
        cycle = self.cycle
        self._pods = _by_leaf(cycle.pods)
        with cycle.running.cluster.trial():
            result = self._below(cycle.group, within) if within is not None else self._level(cycle.group, None)
            if self.way.least_first and result.status.ok:
                self._filling = True
                self._fill(cycle.group, within, result)
        if result.status.ok and not result.placed:
            result.status = Status(Code.UNSCHEDULABLE, NOTHING_PLACED)
            result.message = self._failed(1, NOTHING_PLACED)
            level = result.levels[cycle.group.ref]
            result.levels[cycle.group.ref] = replace(level, ok=False, reason=result.message)
        return result

    def _level(self, group: Group, within: Placement | None) -> GroupAssignment:
        """Place one group of the tree among the nodes of the one above it."""
        placements = proposed(self.cycle.running, group, within)
        if placements is not None and group.ref in self.chosen:
            placements = [placement for placement in placements if placement.name == self.chosen[group.ref].name]
        return self._one_of(group, within, placements)

    def _one_of(
        self, group: Group, within: Placement | None, placements: Sequence[Placement] | None
    ) -> GroupAssignment:
        """Place the group in one of its placements; without any, in that of the group above."""
        if placements is None:
            return self._below(group, within)
        if isinstance(group, GroupState):
            return self._leaf(group, lambda cycle: place_in_one(cycle, placements), placements, None)
        running, cluster = self.cycle.running, self.cycle.running.cluster
        running.meter.generated(group.kind, len(placements))
        if not placements:
            names = {plugin.name for plugin in running.profile.placement_generators}
            assignment = GroupAssignment(status=Status(Code.UNSCHEDULABLE), rejected_by=names, message=NO_PLACEMENTS)
            return _with_level(group, assignment, 0, len(group.children))
        below = [pod for leaf in group.leaves() for pod in self._pods.get(leaf.key, ())]
        cycle = replace(self.cycle, group=group, pods=below)
        first = nominated_placement(placements, {p.uid: n for p in below if (n := self._nominated(p)) is not None})
        if first is not None:
            assignment = self._below(group, first)
            if assignment.feasible:
                assignment.placement = first
                return assignment

        def assigned(placement: Placement, _most: int) -> Assigned | None:
            mark = cluster.undo_mark
            with running.meter.evaluation(group.kind) as evaluation:
                tried = self._silently(group, placement)
                evaluation.feasible = tried.status.ok
            cluster.roll_back(mark)
            return tried.placed if tried.status.ok else None

        free = all(item.ref not in self.chosen for item in group.below())
        plain = free and self.ties is None and self.way == _WalkOrder()
        best = best_of(cycle, placements, first, assigned, shared=plain)
        reported = first or placements[0]
        assignment = self._below(group, best or reported)
        if best is not None and assignment.status.ok:
            assignment.placement = best
            return assignment
        if best is not None and best is not reported:
            assignment = self._below(group, reported)
        assignment.message = self._failed(len(placements), assignment.status.reason)
        assignment.rejected_by |= {plugin.name for plugin in running.profile.placement_generators}
        assignment.levels[group.ref] = replace(assignment.levels[group.ref], reason=assignment.message)
        return assignment

    def _silently(self, group: Group, within: Placement) -> GroupAssignment:
        diagnose, self.diagnose = self.diagnose, False
        try:
            return self._below(group, within)
        finally:
            self.diagnose = diagnose

    def _nominated(self, pod: PodRecord) -> int | None:
        return self.cycle.nominated.get(pod.uid)

    def _below(self, group: Group, within: Placement | None) -> GroupAssignment:
        if isinstance(group, GroupState):
            return self._leaf(group, lambda cycle: self._anywhere(cycle, within), None, within)
        return self._children(group, within)

    def _anywhere(self, cycle: GroupCycle, within: Placement | None) -> GroupAssignment:
        keep = not self.way.other_orders and not self.arranges
        result = place_group(cycle, diagnose=self.diagnose, ties=self.ties, within=within, keep=keep)
        if result.feasible or within is not None or not cycle.pods:
            return result
        return within_reach(cycle) or result

    # -- pods ----------------------------------------------------------------------------------------------------------

    def _leaf(
        self,
        group: GroupState,
        assign: Callable[[GroupCycle], GroupAssignment],
        placements: Sequence[Placement] | None,
        within: Placement | None,
    ) -> GroupAssignment:
        """Place a pod group and assume its pods, if they are enough."""
        cluster = self.cycle.running.cluster
        pods = self._pods.get(group.key, [])
        least = max(0, max(1, group.min_count) - group.scheduled)
        most = least if self.way.least_first and not self._filling else None
        cycle = replace(self.cycle, group=group, pods=pods, placements=placements, most=most)
        before = group.scheduled
        assignment = assign(cycle)
        if self.way.other_orders and not assignment.status.ok and pods:
            reordered = in_another_order(
                cycle, assignment, lambda order, inside: assign(cycle.ordered(order)), anywhere=placements is None
            )
            assignment = reordered or assignment
        if self.arranges and assignment.feasible:
            assignment = arranged(cycle, assignment, within)
        if assignment.status.ok:
            for pod, row in assignment.placed if not assignment.kept else ():
                cluster.clear_nomination(pod)
                cluster.place(pod, row)
        else:
            assignment.withdrawn |= {pod.uid for pod, _ in assignment.placed}
        succeeded = before + len(assignment.placed)
        if not assignment.status.ok:
            assignment.placed = []
            assignment.message = assignment.message or self._failed(1, assignment.status.reason)
        return _with_level(group, assignment, succeeded, before + len(pods))

    # -- groups --------------------------------------------------------------------------------------------------------

    def _children(self, group: CompositeState, within: Placement | None) -> GroupAssignment:
        """Place the children of a composite one after another, as long as it can succeed (composite.md 3.3)."""
        profile, cluster = self.cycle.running.profile, self.cycle.running.cluster
        children = [child for child in group.children if child.fault is None]
        result = GroupAssignment()
        succeeded, remaining = 0, len(children)
        mark = cluster.undo_mark
        status = progress(profile, group, 0, remaining)
        for child in children:
            if status.code is Code.UNSCHEDULABLE:
                break
            if self.way.least_first and not self._filling and status.ok and succeeded:
                break
            remaining -= 1
            assignment = self._level(child, within)
            succeeded += assignment.status.ok
            _add(result, assignment)
            status = progress(profile, group, succeeded, remaining)
        if status.code is not Code.UNSCHEDULABLE:
            status = progress(profile, group, succeeded, 0)
        result.status = status
        if not status.ok:
            cluster.roll_back(mark)
            result.rejected_by.add(status.plugin)
            result.withdrawn |= {pod.uid for pod, _ in result.placed}
            result.placed = []
            result.message = self._failed(1, status.reason)
        return _with_level(group, result, succeeded, len(children))

    def _fill(self, group: Group, above: Placement | None, assignment: GroupAssignment) -> None:
        """Place further pods below a level that has succeeded, up to the limits; pods that do not fit stay pending."""
        placements = proposed(self.cycle.running, group, above)
        within = placements[0] if placements else above  # the one placement of the pods that are assumed
        if isinstance(group, GroupState):
            placed = {pod.uid for pod, _ in assignment.placed}
            self._pods[group.key] = [pod for pod in self._pods.get(group.key, ()) if pod.uid not in placed]
            _add(assignment, self._below(group, within))
            return
        children = [child for child in group.children if child.fault is None]
        for child in children:
            level = assignment.levels.get(child.ref)
            if level is not None and level.ok:
                self._fill(child, within, assignment)
            else:
                _add(assignment, self._level(child, within))
        succeeded = sum(1 for child in children if assignment.levels[child.ref].ok)
        _with_level(group, assignment, succeeded, len(children))

    # -- messages ------------------------------------------------------------------------------------------------------

    def _failed(self, placements: int, status: str) -> str:
        by_topology = self.cycle.running.gates.topology_aware_workload_scheduling
        return first_of(placements, status) if by_topology else status


def _with_level(group: Group, assignment: GroupAssignment, succeeded: int, of: int) -> GroupAssignment:
    """Return the assignment with the message of the level."""
    short = tuple(
        child.name for child in group.children if (level := assignment.levels.get(child.ref)) is None or not level.ok
    )
    why = "" if assignment.status.ok else assignment.message
    assignment.levels[group.ref] = Level(group, assignment.status.ok, succeeded, of, why, short)
    return assignment


def _add(result: GroupAssignment, child: GroupAssignment) -> None:
    """Add the result of a child to that of its parent."""
    result.placed += child.placed
    result.failed.update(child.failed)
    result.rejected_by |= child.rejected_by
    result.levels.update(child.levels)
    result.withdrawn |= child.withdrawn
