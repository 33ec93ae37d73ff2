"""Placing a whole group in one of several sets of nodes (KEP-5732).

The group's algorithm is tried in each placement; the placements that work are scored and the best is taken, ties by the
order in which they were proposed.  The placement in which most members were nominated before comes first of all and is
taken if it works: capacity was freed there.

Work is shared by counting: a placement without capacity for enough of the members cannot hold the group, and is
not tried.  Where the members are identical and nothing but resources is in play the count is exact, and only the best
placement is tried at all.  Property tests hold the outcome equal to trying them all.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from reprieve.cluster.groups import Group, GroupState
from reprieve.cluster.pods import NO_ROW, PodRecord
from reprieve.framework.diagnoser import any_concerned, nominated_rows
from reprieve.framework.evaluation import Evaluator
from reprieve.framework.plugin import Assigned, CycleState, Placement
from reprieve.framework.profile import Profile
from reprieve.framework.running_profile import RunningProfile
from reprieve.framework.status import Code, Status, call_plugin
from reprieve.preemption.free_resources import RESOURCES_PLUGIN, only_resources
from reprieve.scheduling.decision import GROUP_UNSCHEDULABLE
from reprieve.scheduling.group_algorithm import GroupAssignment, GroupCycle, place_group, progress

NO_PLACEMENTS = "0/0 placements are available"
_NEVER = 1 << 40
Counts = npt.NDArray[np.int64]


def proposed(running: RunningProfile, group: Group, within: Placement | None = None) -> list[Placement] | None:
    """The placements of a group, None if any node will do. Raises PlacementError where there is no right answer.

    What several plugins propose is intersected; the name is theirs joined by a slash.  `within`: the placement of the
    group above, of which they have a part.
    """
    if not running.gates.topology_aware_workload_scheduling:
        return None
    found: list[Placement] | None = None
    for plugin in running.profile.placement_generators:
        more = call_plugin(plugin.name, "PlacementGenerate", plugin.generate, running.cluster, group)
        if more is not None:
            found = list(more) if found is None else _intersected(found, more)
    return found if found is None or within is None else _parts(found, within)


def _parts(placements: Sequence[Placement], within: Placement) -> list[Placement]:
    """What each has in common with the one above, under its own name; those that have nothing are left out."""
    result = []
    for placement in placements:
        rows = np.intersect1d(placement.rows, within.rows)
        if len(rows):
            result.append(Placement(placement.name, rows))
    return result


def _intersected(these: Sequence[Placement], those: Sequence[Placement]) -> list[Placement]:
    result = []
    for item in these:
        for other in those:
            rows = np.intersect1d(item.rows, other.rows)
            if len(rows):
                result.append(Placement(f"{item.name}/{other.name}", rows))
    return result


def place_in_one(cycle: GroupCycle, placements: Sequence[Placement]) -> GroupAssignment:
    """Find a place for the group within one of the placements, in the present view, which is left as it was.

    Where none works, the answer is that of the first one tried, with a `why` that counts them.
    """
    running, pods = cycle.running, cycle.pods
    if not pods:
        return place_group(cycle)
    if not placements:
        return GroupAssignment(
            status=Status(Code.UNSCHEDULABLE),
            rejected_by={plugin.name for plugin in running.profile.placement_generators},
            why=NO_PLACEMENTS,
        )
    first = nominated_placement(placements, cycle.nominated)
    reported = None
    if first is not None:
        reported = place_group(cycle, within=first)
        if reported.feasible:
            reported.placement = first
            return reported
    exact = running.evaluator.shares and _counts_are_exact(running, pods)
    works: list[tuple[Placement, Assigned]] = []
    for placement, count in _hopeful(cycle, placements):
        if placement is first:
            continue
        if exact:
            works.append((placement, [(pod, NO_ROW) for pod in pods[:count]]))
        else:
            found = place_group(cycle, diagnose=False, within=placement)
            if found.feasible:
                works.append((placement, found.placed))
    if not works:
        return _nowhere(running, pods, reported or place_group(cycle, within=placements[0]), len(placements))
    best = works[0][0]
    if len(works) > 1:
        scores = placement_scores(running, cycle.group, [(placement, assigned, ()) for placement, assigned in works])
        best = works[scores.index(max(scores))][0]
    chosen = place_group(cycle, within=best)
    chosen.placement = best
    return chosen


def nominated_placement(placements: Sequence[Placement], nominated: Mapping[str, int]) -> Placement | None:
    """The placement with most of the nominated members' rows, the first of them; None if none has any."""
    if not nominated:
        return None
    rows = np.array(list(nominated.values()), dtype=np.int64)
    counts = [int(np.isin(rows, placement.rows).sum()) for placement in placements]
    most = max(counts, default=0)
    return placements[counts.index(most)] if most else None


def hopeful(cycle: GroupCycle, placements: Sequence[Placement]) -> list[Placement]:
    """Those of the placements that may hold enough of the pods in the present view; the others certainly do not."""
    return [placement for placement, _ in _hopeful(cycle, placements)]


def _hopeful(cycle: GroupCycle, placements: Sequence[Placement]) -> list[tuple[Placement, int]]:
    """The same with the most pods each holds."""
    running, group, pods = cycle.running, cycle.group, cycle.pods
    if not running.evaluator.shares:
        return [(placement, len(pods)) for placement in placements]
    most = holds_at_most(running, pods, placements)
    enough: dict[int, bool] = {}
    result = []
    for placement, count in zip(placements, most.tolist(), strict=True):
        if count not in enough:
            enough[count] = count > 0 and _may_do(running.profile, group, count)
        if enough[count]:
            result.append((placement, count))
    return result


def fewest(profile: Profile, group: Group) -> int:
    """How many more pods have to be placed at least for the tree below to be feasible, all PlacementFeasible asked."""
    if isinstance(group, GroupState):
        pods = len(group.pending())
        enough = (n for n in range(pods + 1) if progress(profile, group, group.scheduled + n, 0).ok)
        return next(enough, _NEVER)
    least = sorted(fewest(profile, child) for child in group.children if child.fault is None)
    for count in range(len(least) + 1):
        if progress(profile, group, count, 0).ok:
            return sum(least[:count])
    return _NEVER


def _may_do(profile: Profile, group: Group, count: int) -> bool:
    """Whether so many pods more may be enough for the group."""
    if isinstance(group, GroupState):
        return progress(profile, group, group.scheduled + count, 0).ok
    return count >= fewest(profile, group)


def _counts_are_exact(running: RunningProfile, pods: Sequence[PodRecord]) -> bool:
    """Whether as many pods are placed as are counted, the first of them, and scores ask no more than how many."""
    first = running.evaluator.identity(pods[0])
    if first is None or any(running.evaluator.identity(pod) != first for pod in pods):
        return False
    if not all(weighted.plugin.by_count for weighted in running.profile.placement_scores):
        return False
    if any_concerned(running.profile.outside_filters, CycleState(running.cluster, pods[0])):
        return False
    return only_resources(running.profile, [CycleState(running.cluster, pod) for pod in pods])


def holds_at_most(running: RunningProfile, pods: Sequence[PodRecord], placements: Sequence[Placement]) -> Counts:
    """`int64[placements]`: no placement holds more of the pods than this.

    Each kind of pod is counted as if it had the nodes for itself, by its requests and by what the nodes' own objects
    allow, nominated pods counted as running; other kinds and rules about other pods can only make it fewer.
    """
    if not placements:
        return np.zeros(0, dtype=np.int64)
    cluster, evaluator = running.cluster, running.evaluator
    nodes = cluster.nodes
    rows = np.concatenate([placement.rows for placement in placements])
    sizes = [len(placement.rows) for placement in placements]
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    fit = next((plugin for plugin in running.profile.node_filters if plugin.name == RESOURCES_PLUGIN), None)
    counted = fit is not None and fit.checks_everything
    total = np.zeros(len(placements), dtype=np.int64)
    for kind in _kinds(evaluator, pods):
        pod = kind[0]
        holds = np.full(len(nodes), len(kind), dtype=np.int64)
        if counted:
            columns = [column for column, _ in pod.signature.requests]
            left = nodes.allocatable[columns, : len(nodes)] - nodes.used[columns, : len(nodes)]
            with_nominated = nominated_rows(cluster, pod.priority, slice(0, len(nodes)))
            left[:, with_nominated.rows] -= with_nominated.amounts[columns]
            for free, (_, amount) in zip(left, pod.signature.requests, strict=True):
                holds = np.minimum(holds, np.maximum(free, 0) // amount)
        if evaluator.identity(pod) is not None:
            holds = np.where(evaluator.usable_nodes(CycleState(cluster, pod)), holds, 0)
        total += np.minimum(np.add.reduceat(holds[rows], starts), len(kind))
    return total


def _kinds(evaluator: Evaluator, pods: Sequence[PodRecord]) -> list[list[PodRecord]]:
    """Pods that are treated alike, together."""
    kinds: dict[object, list[PodRecord]] = {}
    for pod in pods:
        identity = evaluator.identity(pod)
        kinds.setdefault(pod.uid if identity is None else identity, []).append(pod)
    return list(kinds.values())


def placement_scores(
    running: RunningProfile, group: Group, found: Sequence[tuple[Placement, Assigned, Sequence[PodRecord]]]
) -> list[int]:
    """Weighted sum of what the PlacementScore plugins say of (placement, assigned, pods to be counted as gone)."""
    cluster = running.cluster
    totals = [0] * len(found)
    for weighted in running.profile.placement_scores:
        plugin = weighted.plugin
        raw = []
        for placement, assigned, gone in found:
            with cluster.trial():
                if gone:
                    cluster.displace_all(gone)
                raw.append(
                    call_plugin(
                        plugin.name, "PlacementScore", plugin.score_placement, cluster, group, placement, assigned
                    )
                )
        scores = call_plugin(plugin.name, "NormalizePlacementScore", plugin.normalize_placements, raw)
        totals = [total + weighted.weight * score for total, score in zip(totals, scores, strict=True)]
    return totals


def first_of(count: int, status: str = GROUP_UNSCHEDULABLE) -> str:
    """kube-scheduler's words where none of some placements works; without a constraint all nodes are the only one."""
    return f"0/{count} placements are available, first placement status: {status}"


def _nowhere(
    running: RunningProfile, pods: Sequence[PodRecord], reported: GroupAssignment, count: int
) -> GroupAssignment:
    """No placement works: whatever might have rejected a member in any of them may help when it changes."""
    reported.why = first_of(count)
    reported.rejected_by |= {plugin.name for plugin in running.profile.placement_generators}
    for pod in {pod.signature.id: pod for pod in pods}.values():
        state = CycleState(running.cluster, pod)
        for plugin in running.profile.filters:
            if plugin.name not in reported.rejected_by:
                status = call_plugin(plugin.name, "PreFilter", plugin.pre_filter, state)
                if status.code is not Code.SKIP:
                    reported.rejected_by.add(plugin.name)
    return reported
