"""The placement of a whole group in one of several sets of nodes (KEP-5732).

The group's algorithm is tried in each placement; the feasible ones are scored and the best is used, ties by the order
in which they were proposed.  The placement in which most members were nominated is tried first and used if feasible:
capacity was freed there.

Counting saves work: a placement without capacity for enough of the members cannot hold the group, and is not tried. If
members are identical and only resources matter, the count is exact, and only the best placement is tried. Property
tests compare the outcome with trying all placements.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext

import numpy as np
import numpy.typing as npt

from reprieve.cluster.groups import Group, GroupState
from reprieve.cluster.pods import NO_ROW, PodRecord
from reprieve.framework.plugin import Assigned, CycleState, Placement
from reprieve.framework.plugin_guard import PluginGuard
from reprieve.framework.profile import Profile
from reprieve.framework.running_profile import RunningProfile
from reprieve.framework.status import Code, Status, call_plugin
from reprieve.preemption.outcome import GROUP_UNSCHEDULABLE
from reprieve.scheduling.group_algorithm import GroupAssignment, GroupCycle, place_group, progress
from reprieve.scheduling.placement_counts import filled_as_counted, holds_at_most
from reprieve.scheduling.slice_units import has_slices

NO_PLACEMENTS = "0/0 placements are available"
_NEVER = 1 << 40
_FEW_PLACEMENTS = 4
"""Up to this number, all placements are tried every time."""
Counts = npt.NDArray[np.int64]


def proposed(running: RunningProfile, group: Group, within: Placement | None = None) -> Sequence[Placement] | None:
    """Return the placements of a group; None: any node is possible. Raises PlacementError if there is no valid one.

    Proposals of several plugins are intersected; the name is theirs joined by a slash. `within`: the placement of the
    group above, which limits them.
    """
    if not running.gates.topology_aware_workload_scheduling:
        return None
    result: Sequence[Placement] | None = None
    for plugin in running.profile.placement_generators:
        if within is None:
            more = call_plugin(plugin.name, "PlacementGenerate", plugin.generate, running.cluster, group)
        else:
            more = call_plugin(plugin.name, "PlacementGenerate", plugin.generate_below, running.cluster, group, within)
        if more is not None:
            result = more if result is None else _intersected(result, more)
    return result


def _intersected(placements: Sequence[Placement], others_placements: Sequence[Placement]) -> list[Placement]:
    result = []
    for a in placements:
        for b in others_placements:
            rows = np.intersect1d(a.rows, b.rows)
            if len(rows):
                result.append(Placement(f"{a.name}/{b.name}", rows))
    return result


def place_in_one(cycle: GroupCycle, placements: Sequence[Placement]) -> GroupAssignment:
    """Find a place for the group within one of the placements, in the present view, which is not changed.

    If none works, the result is that of the first one tried, with a `message` that counts them.
    """
    running, pods, kind = cycle.running, cycle.pods, cycle.group.kind
    if not pods:
        return place_group(cycle)
    running.meter.generated(kind, len(placements))

    def tried_in(placement: Placement, *, diagnose: bool = True) -> GroupAssignment:
        with running.meter.evaluation(kind) as evaluation:
            assignment = place_group(cycle, diagnose=diagnose, within=placement)
            evaluation.feasible = assignment.feasible
        return assignment

    if not placements:
        return GroupAssignment(
            status=Status(Code.UNSCHEDULABLE),
            rejected_by={plugin.name for plugin in running.profile.placement_generators},
            message=NO_PLACEMENTS,
        )
    first = nominated_placement(placements, cycle.nominated)
    reported = None
    if first is not None:
        reported = tried_in(first)
        if reported.feasible:
            reported.placement = first
            return reported
    exact = running.evaluator.shares and _counts_are_exact(running, pods)
    exact = exact and not has_slices(running, cycle.group, pods)

    def assigned(placement: Placement, count: int) -> Assigned | None:
        if exact:
            return [(pod, NO_ROW) for pod in pods[:count]]
        tried = tried_in(placement, diagnose=False)
        return tried.placed if tried.feasible else None

    best = best_of(cycle, placements, first, assigned)
    chosen = tried_in(best) if best is not None else None
    if chosen is None or not chosen.feasible:
        return _nowhere(running, pods, reported or tried_in(placements[0]), len(placements))
    chosen.placement = best
    return chosen


def best_of(
    cycle: GroupCycle,
    placements: Sequence[Placement],
    but: Placement | None,
    assign: Callable[[Placement, int], Assigned | None],
    *,
    shared: bool = True,
) -> Placement | None:
    """Return the first placement with the best score of those in which the group fits; None if it fits in none.

    If only one may hold the group, return that one, tried or not. `but` is left out.  `assign` tries the group in a
    placement that holds at most that many of its pods, without changing the view; None: it does not fit. With `shared`,
    results of a group of the same shape are used again.
    """
    running, group = cycle.running, cycle.group
    turns = [(turn, count) for turn, count in _hopeful(cycle, placements) if placements[turn] is not but]
    if len(turns) == 1:
        return placements[turns[0][0]]
    shape = _shape(cycle) if shared and len(placements) > _FEW_PLACEMENTS else None
    if shape is None:
        works: list[tuple[Placement, Assigned, Sequence[PodRecord]]] = []
        for turn, count in turns:
            assigned = assign(placements[turn], count)
            if assigned is not None:
                works.append((placements[turn], assigned, ()))
        if len(works) < 2:
            return works[0][0] if works else None
        scores = placement_scores(running, group, works)
        return works[scores.index(max(scores))][0]
    outcomes = running.tried.outcomes(running.cluster, shape, placements)
    for turn, count in turns:
        if not outcomes.fresh[turn]:
            assigned = assign(placements[turn], count)
            outcomes.put(turn, None if assigned is None else _raw_scores(running, group, placements[turn], assigned))
    running.tried.keep(running.cluster, outcomes)
    working = [turn for turn, _ in turns if outcomes.works[turn]]
    if not working:
        return None
    scores = _totals(running, [outcomes.scores[turn] for turn in working])
    return placements[working[scores.index(max(scores))]]


def _shape(cycle: GroupCycle) -> Hashable | None:
    """Return a key that is equal for groups with the same result in any unchanged placement; None: unknown.

    Such groups have equal rules and pods without nominations that depend only on rows, and use only our own plugins.
    """
    running = cycle.running
    profile, evaluator, cluster = running.profile, running.evaluator, running.cluster
    scores = [weighted.plugin for weighted in profile.placement_scores]
    if any(isinstance(p, PluginGuard) for p in (*profile.placement_generators, *profile.placement_feasible, *scores)):
        return None
    if not all(plugin.by_count for plugin in scores) or cycle.nominated or cycle.most is not None:
        return None
    if cycle.group.scheduled or has_slices(running, cycle.group, cycle.pods):
        return None
    identities = []
    for pod in cycle.pods:
        if pod.nominated >= 0 or not evaluator.by_rows_alone(CycleState(cluster, pod, cycle.group)):
            return None
        identities.append((pod.group, evaluator.identity(pod)))
    leaves: dict[str | None, int] = {leaf.key: turn for turn, leaf in enumerate(cycle.group.leaves())}
    levels = tuple(
        (item.is_gang, item.min_count, spec.topology_key, sum(child.fault is None for child in item.children))
        for item in cycle.group.below()
        if (spec := item.spec) is not None
    )
    return tuple((leaves.get(key), identity) for key, identity in identities), levels


def nominated_placement(placements: Sequence[Placement], nominated: Mapping[str, int]) -> Placement | None:
    """Return the placement with most of the nominated members' rows, the first of them; None if none has any."""
    if not nominated:
        return None
    rows = np.array(list(nominated.values()), dtype=np.int64)
    counts = [int(np.isin(rows, placement.rows).sum()) for placement in placements]
    most = max(counts, default=0)
    return placements[counts.index(most)] if most else None


def hopeful(cycle: GroupCycle, placements: Sequence[Placement]) -> list[Placement]:
    """Return the placements that may hold enough of the pods in the present view; the others certainly do not."""
    return [placements[turn] for turn, _ in _hopeful(cycle, placements)]


def _hopeful(cycle: GroupCycle, placements: Sequence[Placement]) -> list[tuple[int, int]]:
    """Return these placements by index, with the maximum pods each holds; for a group without pods the first."""
    running, group, pods = cycle.running, cycle.group, cycle.pods
    if not pods:
        return [(0, 0)]
    if not running.evaluator.shares:
        return [(turn, len(pods)) for turn in range(len(placements))]
    counts = holds_at_most(running, pods, placements).tolist()
    enough = {count for count in set(counts) if count > 0 and _may_do(running.profile, group, count)}
    return [(turn, count) for turn, count in enumerate(counts) if count in enough]


def fewest(profile: Profile, group: Group) -> int:
    """Return the minimum of further pods that make the tree below feasible by all PlacementFeasible plugins."""
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
    """Return whether that many further pods may be enough for the group."""
    if isinstance(group, GroupState):
        return progress(profile, group, group.scheduled + count, 0).ok
    return count >= fewest(profile, group)


def _counts_are_exact(running: RunningProfile, pods: Sequence[PodRecord]) -> bool:
    """Return whether exactly the counted number of pods is placed, in order, and scores depend only on that number."""
    return filled_as_counted(running, pods) and all(
        weighted.plugin.by_count for weighted in running.profile.placement_scores
    )


def placement_scores(
    running: RunningProfile, group: Group, candidates: Sequence[tuple[Placement, Assigned, Sequence[PodRecord]]]
) -> list[int]:
    """Return the weighted sums of the PlacementScore plugins for (placement, assigned, pods that count as removed)."""
    cluster = running.cluster
    raw = []
    for placement, assigned, evicted in candidates:
        with cluster.trial() if evicted else nullcontext():
            if evicted:
                cluster.displace_all(evicted)
            raw.append(_raw_scores(running, group, placement, assigned))
    return _totals(running, raw)


def _raw_scores(running: RunningProfile, group: Group, placement: Placement, assigned: Assigned) -> tuple[int, ...]:
    """Return the score of each PlacementScore plugin for one placement in the present view."""
    plugins = (weighted.plugin for weighted in running.profile.placement_scores)
    return tuple(
        call_plugin(p.name, "PlacementScore", p.score_placement, running.cluster, group, placement, assigned)
        for p in plugins
    )


def _totals(running: RunningProfile, raw: Sequence[tuple[int, ...]]) -> list[int]:
    """Return the weighted sums for several placements, given the score of each plugin for each."""
    totals = [0] * len(raw)
    for index, weighted in enumerate(running.profile.placement_scores):
        plugin, values = weighted.plugin, [scores_of[index] for scores_of in raw]
        scores = call_plugin(plugin.name, "NormalizePlacementScore", plugin.normalize_placements, values)
        totals = [total + weighted.weight * score for total, score in zip(totals, scores, strict=True)]
    return totals


def first_of(count: int, status: str = GROUP_UNSCHEDULABLE) -> str:
    """Return kube-scheduler's message if no placement works; without a constraint all nodes form the only one."""
    return f"0/{count} placements are available, first placement status: {status}"


def _nowhere(
    running: RunningProfile, pods: Sequence[PodRecord], reported: GroupAssignment, count: int
) -> GroupAssignment:
    """Return the status if no placement works, with all plugins that may have rejected a member, for their events."""
    reported.message = first_of(count, reported.message or GROUP_UNSCHEDULABLE)
    reported.rejected_by |= {plugin.name for plugin in running.profile.placement_generators}
    for pod in {pod.signature.id: pod for pod in pods}.values():
        state = CycleState(running.cluster, pod)
        for plugin in running.profile.filters:
            if plugin.name not in reported.rejected_by:
                status = call_plugin(plugin.name, "PreFilter", plugin.pre_filter, state)
                if status.code is not Code.SKIP:
                    reported.rejected_by.add(plugin.name)
    return reported
